"""WHERE: a box, on which a function is to be approximated, or in which a domain of another kind lies."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..arguments import as_float, is_word, labels, one_of, real_array
from ..errors import InputError, digits, shown
from ..formula.functions import TRUTHS
from ..formula.parser import names_in, parse

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Outside = Literal["raise", "clip", "allow"]
NARROWEST, WIDEST = 1e-100, 1e100
"""Widths whose squares and their inverses are ordinary floats."""
OUTSIDE: tuple[Outside, ...] = ("raise", "clip", "allow")
BLOCK = 2**14
"""Numbers that are looked at together: they fit the first cache."""


@dataclass(frozen=True, eq=False)
class Box:
    """A product of closed intervals `[lo, hi]`.

    The shape of `lo` and `hi` is the shape of one point: `()` for a function of one real variable,
    `(D,)` for a function of D variables, `(n, d)` for a map on sequences of n tokens with d features.
    The axes of a `(D,)` box may have names.

    >>> box = Box([-1, 0], [1, 2], names=("x", "y"))
    >>> box
    Box(x=-1:1, y=0:2)
    >>> box.size, box.shape
    (2, (2,))
    """

    lo: npt.NDArray[np.float64]
    hi: npt.NDArray[np.float64]
    names: tuple[str, ...] | None = None
    kind: ClassVar[str] = "box"
    """What descriptions call it; those of a plain box leave it out."""
    fills_box: ClassVar[bool] = True
    """Is every point of the box a point of the domain?"""

    def __init__(self, lo: npt.ArrayLike, hi: npt.ArrayLike, names: Sequence[str] | None = None) -> None:
        low, high = np.array(real_array("the lower ends", lo)), np.array(real_array("the upper ends", hi))
        if low.shape != high.shape or low.ndim > 2 or low.size == 0:
            raise InputError(
                "lower and upper ends of a domain must have one common shape, () or (D,) or (n, d)",
                got=f"{low.shape} and {high.shape}",
                remedy="Give one pair (lo, hi) per variable.",
            )
        axes = labels("names", names)
        if axes is not None and (low.ndim > 1 or len(axes) != low.size or len(set(axes)) != low.size):
            raise InputError("a domain needs one distinct name per axis", got=f"{axes} for {low.size} axes")
        for index in np.ndindex(low.shape):
            if not low[index] < high[index] or not float(high[index]) - float(low[index]) < np.inf:
                axis = axes[index[0]] if axes and index else f"axis {index}" if index else "the domain"
                raise InputError(
                    f"each interval of a domain must have finite ends with lo < hi, but {axis} does not",
                    got=f"({digits(float(low[index]))}, {digits(float(high[index]))})",
                    remedy="Swap the ends, or widen an empty interval. "
                    "Only a formula in one variable may have infinite ends.",
                )
            if not NARROWEST <= float(high[index]) - float(low[index]) <= WIDEST:
                raise InputError(
                    f"each interval of a domain must have a width from {NARROWEST:g} to {WIDEST:g}",
                    got=f"({digits(float(low[index]))}, {digits(float(high[index]))})",
                    remedy="Rescale the variable.",
                )
        low.setflags(write=False)
        high.setflags(write=False)
        object.__setattr__(self, "lo", low)
        object.__setattr__(self, "hi", high)
        object.__setattr__(self, "names", axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one point."""
        return self.lo.shape

    @property
    def size(self) -> int:
        """Number of real coordinates, D."""
        return self.lo.size

    def root_volume(self, p: float) -> float:
        """`volume^(1/p)`, rounded up, never zero; infinite where no float holds it.

        The logarithm of a width is off by at most 4 units of it, its own rounding included, and exp by a few more.
        """
        if math.isinf(p):
            return 1.0
        logarithms = np.log(self.hi - self.lo).ravel()
        total, off = math.fsum(logarithms) / p, 2.0**-49 * (math.fsum(1 + np.abs(logarithms)) / p + 1)
        if total >= 709:
            return math.inf
        return max(math.exp(total) * (1 + off), sys.float_info.min)

    @property
    def tokens(self) -> tuple[int, int]:
        """The point as a sequence: (number of tokens, features a token)."""
        return (self.lo.shape[0], self.lo.shape[1]) if self.lo.ndim == 2 else (1, self.size)

    @property
    def axes(self) -> tuple[str, ...]:
        """A label for each coordinate: its name, or x, or x0, x1, ..."""
        if self.names is not None:
            return self.names
        return ("x",) if self.size == 1 else tuple(f"x{k}" for k in range(self.size))

    @property
    def shown_axes(self) -> tuple[str, ...]:
        """The labels as they are printed: in quotes unless they are words, so that none looks like an interval.

        >>> Box([0, 0], [1, 1], ["x=-9:9, y", "z"])
        Box('x=-9:9, y'=0:1, z=0:1)
        """
        return tuple(name if is_word(name) else repr(name) for name in self.axes)

    def flatten(self, points: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], tuple[int, ...]]:
        """Points in the user's shape -> (rows of shape (B, D), leading axes).

        With D = 1, an array of shape (k,) is a batch of k points.
        """
        array = real_array("points", points)
        lead = self.leading(array.shape)
        return array.reshape(-1, self.size), lead  # (B, D)

    def leading(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The leading axes of an array of points of this shape."""
        if self.shape == () or (self.shape == (1,) and len(shape) < 2):
            return shape
        cut = len(shape) - len(self.shape)
        if cut < 0 or shape[cut:] != self.shape:
            raise InputError(
                f"points must have shape (..., {', '.join(map(str, self.shape))})",
                got=f"shape {shape}",
                remedy=f"The last axes are the coordinates {', '.join(self.axes)}.",
            )
        return shape[:cut]

    def named(self, coordinates: Mapping[str, Any]) -> Floats:
        """Points from numbers or arrays for each coordinate by name, broadcast: (..., *shape).

        >>> Box([0, 0], [1, 1], ("x", "y")).named({"y": 0.5, "x": [0.1, 0.2]}).tolist()
        [[0.1, 0.5], [0.2, 0.5]]
        """
        wanted = self.axes
        if set(coordinates) != set(wanted):
            raise InputError(
                f"each of {', '.join(self.shown_axes)} must be given by its name, and nothing else",
                got=", ".join(map(shown, coordinates)) or "nothing",
            )
        columns = [real_array(name, coordinates[name]) for name in wanted]
        try:
            rows = np.stack(np.broadcast_arrays(*columns), axis=-1)  # (..., D)
        except ValueError:
            raise InputError(
                "coordinates must have shapes that fit together", got=", ".join(str(each.shape) for each in columns)
            ) from None
        return rows[..., 0] if rows.shape == self.shape == (1,) else self.unflatten(rows)

    def unflatten(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Rows of shape (B, D) -> points of shape (B, *shape)."""
        return rows.reshape(rows.shape[:-1] + self.shape)

    def admit(self, rows: npt.NDArray[np.float64], outside: Outside) -> npt.NDArray[np.float64]:
        """Apply the rule for points outside the box; NaN is never admitted."""
        one_of("outside", outside, OUTSIDE)
        low, high = self.lo.ravel(), self.hi.ravel()
        everything = np.full(self.size, np.inf)
        ends = (low, high) if outside == "raise" else (-everything, everything)
        if not _within(rows, *ends):
            if np.isnan(rows).any():
                row = int(np.flatnonzero(np.isnan(rows).any(axis=1))[0])
                raise InputError("points must not be NaN", got=f"{rows[row].tolist()} (point {row})")
            row, axis = (int(i) for i in np.argwhere((rows < low) | (rows > high))[0])
            raise InputError(
                f"{self.axes[axis]} must lie in [{digits(low[axis])}, {digits(high[axis])}]",
                got=f"{digits(rows[row, axis])} (point {row})",
                remedy='The certificate says nothing there; pass outside="clip" or outside="allow".',
            )
        return np.clip(rows, low, high) if outside == "clip" else rows

    def starts(self) -> tuple[Floats, Floats]:
        """Boxes that cover the domain, from which proofs start: lower and upper ends, (R, D) each."""
        return self.lo.reshape(1, -1), self.hi.reshape(1, -1)

    @property
    def cloud(self) -> Floats | None:
        """The points (S, D) that the domain consists of, or lies around; None for all domains but clouds."""
        return None

    @property
    def fill(self) -> float:
        """How far points may be from those of the cloud; 0 for all domains but clouds."""
        return 0.0

    def contains(self, rows: Floats) -> Flags:
        """Which rows surely belong to the domain, (B,)."""
        return np.all((rows >= self.lo.ravel()) & (rows <= self.hi.ravel()), axis=1)

    def excludes(self, low: Floats, high: Floats) -> Flags:
        """Which parts (B, D) of the enclosing box surely hold no point of the domain, (B,)."""
        return np.zeros(len(low), dtype=bool)

    def renamed(self, names: tuple[str, ...]) -> Box:
        """The same domain as rows (D,) with named axes."""
        return Box(self.lo.reshape(-1), self.hi.reshape(-1), names)

    def resized(self, lo: Floats, hi: Floats) -> Box:
        """A box with other ends, of any shape, and the same axes."""
        return Box(lo.reshape(self.shape), hi.reshape(self.shape), self.names)

    def sample(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Uniform random rows, (count, D)."""
        return rng.uniform(self.lo.ravel(), self.hi.ravel(), (count, self.size))

    @property
    def where(self) -> str:
        """Its points, in words."""
        return f"x in {self!r}"

    def as_dict(self) -> dict[str, Any]:
        """A JSON-ready description."""
        names = None if self.names is None else list(self.names)
        return {"lo": self.lo.tolist(), "hi": self.hi.tolist(), "names": names}

    def as_code(self, most: int) -> str | None:
        """The domain as Python; None if it is no text, or has more than `most` numbers.

        >>> Box([0], [1], ["x"]).as_code(most=200)
        "{'x': (0.0, 1.0)}"
        """
        del most
        pairs = zip(self.lo.ravel().tolist(), self.hi.ravel().tolist(), strict=True)
        return repr(dict(zip(self.axes, pairs, strict=True)))

    def __repr__(self) -> str:
        if self.lo.ndim == 2:
            return f"Box(shape={self.shape}, lo={self.lo.min():g}.., hi=..{self.hi.max():g})"
        pairs = zip(self.shown_axes, self.lo.ravel(), self.hi.ravel(), strict=True)
        return f"Box({', '.join(f'{name}={low:g}:{high:g}' for name, low, high in pairs)})"


def as_box(domain: object) -> Box:
    """Read a domain as users write it.

    >>> as_box({"x": (-1, 1)}), as_box((-1, 1)).shape, as_box([(-1, 1)] * 2).shape
    (Box(x=-1:1), (), (2,))
    """
    if isinstance(domain, Box):
        return domain
    if isinstance(domain, Mapping):
        if any(isinstance(part, Box) for part in domain.values()):
            from .two_inputs import TwoInputs  # made of boxes, which stand above it

            return TwoInputs({name: as_box(part) for name, part in domain.items()})
        pairs = [_as_pair(pair, str(name)) for name, pair in domain.items()]
        return Box([low for low, _ in pairs], [high for _, high in pairs], tuple(domain))
    if isinstance(domain, Sequence | np.ndarray) and not isinstance(domain, str) and len(domain) > 0:
        if np.ndim(domain[0]) == 0:  # type: ignore[arg-type]
            return Box(*_as_pair(domain))
        pairs = [_as_pair(pair) for pair in domain]
        return Box([low for low, _ in pairs], [high for _, high in pairs])
    raise InputError(
        "a domain must be a pair (lo, hi), a list of pairs, a dict of names to pairs, or an af.Box",
        got=shown(domain),
        remedy='For example domain={"x": (-1, 1), "y": (0, 2)}.',
    )


def read_box(text: str) -> Box:
    """A domain in words: names and ranges, separated by spaces or commas.

    >>> read_box("x=-1:1 y=0:2*pi")
    Box(x=-1:1, y=0:6.28319)
    """
    return as_box(read_ranges(text))


def read_ranges(text: str) -> dict[str, tuple[float, float]]:
    """The names and ends of a domain in words; an end may be `inf` or `-inf`, which no box has.

    >>> read_ranges("x=-inf:2*pi")
    {'x': (-inf, 6.283185307179586)}
    """
    ranges: dict[str, tuple[float, float]] = {}
    for part in text.replace(",", " ").split():
        name, equals, ends = part.partition("=")
        low, colon, high = ends.partition(":")
        if not (equals and colon and name):
            raise InputError(
                "each range of a domain must be a name, =, and two ends with : between them",
                got=repr(part),
                remedy="Write x=-1:1.",
            )
        if name in ranges:
            raise InputError(
                f"a domain must name each variable once, but {name} is named twice",
                got=repr(text),
                remedy="Remove one.",
            )
        ranges[name] = _word("lower", name, low), _word("upper", name, high)
    if not ranges:
        raise InputError("a domain must name a variable and its range", got=repr(text), remedy="Write x=-1:1.")
    return ranges


def as_end(value: object) -> float:
    """The end of an interval: a number, or arithmetic of numbers in a text; the nearest float. NaN for anything else.

    >>> as_end("2*pi"), as_end("-1e-3"), as_end(3)
    (6.283185307179586, -0.001, 3.0)
    """
    if not isinstance(value, str):
        return as_float(value)
    try:
        program = parse(value, ())
    except InputError as reason:
        remedy = str(reason)[:1].upper() + str(reason)[1:]
        raise InputError("an end of a domain must be a number", got=repr(value), remedy=remedy) from None
    if program.is_vector or program.nodes[program.outputs[0]].kind in TRUTHS:
        raise InputError("an end of a domain must be one number", got=repr(value))
    end = float(program.values(np.empty((1, 0)))[0, 0])
    if not math.isfinite(end):
        raise InputError("an end of a domain must be a finite number", got=f"{value!r}, which is {end}")
    return end


def _word(which: str, name: str, word: str) -> float:
    """An end of a range in words, which may be infinite."""
    return INFINITE[word] if word in INFINITE else _end(which, name, word)


INFINITE = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}
"""Ends that a range in words may have, and that are no numbers of formulas."""


def _end(which: str, name: str, value: object) -> float:
    """An end of a range; the reason names the end that is wrong."""
    try:
        return as_end(value)
    except InputError as reason:
        raise InputError(f"the {which} end of {name} must be a number", got=repr(value), remedy=reason.remedy) from None


def _within(rows: Floats, low: Floats, high: Floats) -> bool:
    """Do all rows (B, D) lie in [low, high]? NaN lies nowhere. One pass, without temporary arrays of that size."""
    numbers, count = rows.ravel(), max(1, min(len(rows), BLOCK // len(low))) * len(low)
    low, high = np.tile(low, count // len(low)), np.tile(high, count // len(high))
    for start in range(0, len(numbers), count):
        part = numbers[start : start + count]
        if not ((part >= low[: len(part)]) & (part <= high[: len(part)])).all():
            return False
    return True


def _as_pair(pair: Any, name: str = "an axis") -> tuple[float, float]:
    try:
        low, high = pair
    except (TypeError, ValueError):
        low = high = None
    ends = _end("lower", name, low), _end("upper", name, high)
    if np.isnan(ends).any():
        raise InputError("each axis of a domain needs a pair of numbers (lo, hi)", got=f"{shown(pair)} for {name}")
    return ends


def name_axes(text: str, domain: Box) -> Box:
    """A single unnamed axis takes the name of the formula's single variable; otherwise names are required."""
    if domain.names is not None:
        return domain
    free = names_in(text)
    if domain.size == 1 and len(free) <= 1:
        return domain.renamed(free or ("x",))
    raise InputError(
        "the domain of a formula must name its variables",
        got=f"{domain!r} for {text!r}",
        remedy=f"Write domain={{{', '.join(f'{name!r}: (lo, hi)' for name in free)}}}.",
    )


def admit_inside_box(domain: Box, rows: Floats, outside: Outside) -> Floats:
    """The rule for points outside the box of a domain of another kind."""
    if outside == "clip":
        raise InputError(
            'outside="clip" needs a box', got=repr(domain), remedy='Use outside="raise" or outside="allow".'
        )
    return Box.admit(domain, rows, outside)


def admit_not_excluded(domain: Box, rows: Floats, outside: Outside) -> Floats:
    """The same, and points that surely fail the domain's condition are refused."""
    rows = admit_inside_box(domain, rows, outside)
    if outside == "raise":
        refuse_first(domain.excludes(rows, rows), rows, f"points must lie in {domain!r}")
    return rows


def refuse_first(beyond: Flags, rows: Floats, constraint: str) -> None:
    """InputError with the first of the rows that are beyond a domain."""
    if beyond.any():
        row = int(np.flatnonzero(beyond)[0])
        raise InputError(
            constraint,
            got=f"{rows[row].tolist()} (point {row})",
            remedy='The certificate says nothing there; pass outside="allow".',
        )
