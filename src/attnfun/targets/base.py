"""WHAT: the contract of a target, the function that a network is to imitate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import copy
from dataclasses import FrozenInstanceError
from enum import Enum
from functools import cached_property
from hashlib import sha256
from math import isinf, prod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, Jet
from ..domains.box import Box
from ..errors import InputError
from ..formula.circuits import Circuit
from ..formula.maxima import Maxima

Floats = npt.NDArray[np.float64]


BOUNDED = "Shrink the domain, or write that part so that it is bounded there, as sinc(x) for sin(x)/x."
"""The remedy for a target that is not defined or not bounded somewhere."""
SAMPLE = 4096
"""Points at which a target is sampled for its size."""
LARGEST_VALUE = 1e300
"""Sums of many values that are larger may be no numbers any more."""


class Status(Enum):
    """The status of a certificate: proved, proved under assumptions that it lists, or estimated from samples."""

    PROVED = "proved"
    CONDITIONAL = "conditional"
    ESTIMATED = "estimated"

    @classmethod
    def weakest(cls, statuses: Iterable[Status]) -> Status:
        """The status of a claim that rests on claims of these statuses."""
        return max(statuses, key=list(cls).index)

    def meaning(self, norm: float) -> str:
        """What a bound in this norm says, in a sentence: inf for the largest error, p for L_p over the domain."""
        if isinf(norm):
            holds = "the bound holds at every point of the domain"
            found = "the largest error found by sampling and search"
        else:
            found = f"the L_{norm:g} norm of the error over the domain, estimated by sampling"
            holds = (
                f"the L_{norm:g} norm of the error over the domain is at most the bound, which single points may exceed"
            )
        return {
            Status.PROVED: holds,
            Status.CONDITIONAL: f"{holds}, if what is listed as assumed is true",
            Status.ESTIMATED: f"the bound is {found}; it is not a proof",
        }[self]


class Target(ABC):
    """A function from the box `domain` to arrays of shape `output_shape`; a value that does not change.

    Everything below this line works on rows: points are `(B, D)`, values `(B, m)`, with the coordinates of
    a point and of a value flattened row by row.
    """

    domain: Box
    output_shape: tuple[int, ...]
    status: Status
    """The best status that a certificate for this target can have."""
    assumptions: tuple[str, ...] = ()
    stopped: str = ""
    """The limit that ended what was measured of it, in words."""
    evaluable: bool = True
    """Has it values at any point of the domain?"""
    enclosable: bool = True
    """Is more known of its ranges than nothing?"""

    def __setattr__(self, name: str, value: object) -> None:
        """Targets are values: `__init__` fills `vars(self)`, and nothing is written later but what is cached."""
        raise FrozenInstanceError(f"{name} of {type(self).__name__} cannot be changed to {value!r}")

    @property
    def may_jump(self) -> bool:
        """May it jump where all of its operations are defined? Unless it is known to be made of continuous ones."""
        return True

    @property
    def continuous(self) -> bool:
        """Is it known to be bounded and continuous, so that nobody needs to look for poles and jumps?"""
        return False

    @property
    def evaluations(self) -> int | None:
        """Points at which a black box was called; None for targets that cost nothing to call."""
        return None

    @property
    def recorded(self) -> tuple[Floats, Floats] | None:
        """Points (S, D) and values (S, m) of a black box that its enclosures rest on; None for all others."""
        return None

    @property
    def hull(self) -> Interval:
        """The box around the domain, (1, D)."""
        return Interval(self.domain.lo.reshape(1, -1), self.domain.hi.reshape(1, -1))

    @property
    def outputs(self) -> int:
        """Number of real outputs, m."""
        return prod(self.output_shape)

    @abstractmethod
    def values(self, rows: Floats) -> Floats:
        """Finite values at rows inside the domain: (B, D) -> (B, m)."""

    def values_or_nan(self, rows: Floats) -> Floats:
        """Values at rows, for pictures: NaN where a target that need not be bounded has none, (B, D) -> (B, m)."""
        return self.values(rows)

    def largest_value(self, seed: int) -> float:
        """The largest absolute value found at random points."""
        return float(np.abs(self.values(self.domain.sample(SAMPLE, np.random.default_rng(seed)))).max())

    def enclose(self, boxes: Interval) -> Interval:
        """Enclosures of the range on each box: (B, D) -> (B, m); if not known, the whole line, nowhere defined."""
        unknown = np.full((len(boxes), self.outputs), np.inf)
        return Interval(-unknown, unknown, False)

    def p_means(self, boxes: Interval, p: float) -> tuple[Floats, npt.NDArray[np.bool_]] | None:
        """Bounds on `(∫ max_i |f_i|^p / volume)^{1/p}` over boxes (B, D), inf where there is none, (B,).

        And whether it is surely defined on the whole box but for a set of volume zero, (B,). For boxes on which the
        target is not bounded. None if
        nothing is known about powers of its factors.
        """
        return None

    def not_integrable(self, box: Interval, p: float) -> str:
        """Why there is no bound on the L_p norm over a box (1, D), in words; "" where that is not known."""
        return ""

    def jets(self, variables: Jet) -> Jet | None:
        """Taylor series of the target at series of its variables: (B, D) -> (B, m); None if it has none."""
        return None

    def maxima(self) -> Maxima | None:
        """A piecewise-linear target as affine maps and maxima; None for all others."""
        return None

    def circuit(self) -> Circuit | None:
        """A formula as affine maps and functions of one variable; None for all others."""
        return None

    def modulus(self, distances: Floats) -> Floats | None:
        """Bounds on |f(s) - f(t)| for s, t in the domain with |s_k - t_k| <= distances: (P, D) -> (P, m).

        Wherever the domain is convex. By the target's structure, without boxes; None if it says nothing.
        """
        circuit = self.circuit()
        return None if circuit is None else circuit.modulus(distances)

    def restricted(self, domain: Box) -> Self:
        """The same function on a part of its domain."""
        part = copy(self)
        for name in [name for name in vars(part) if isinstance(getattr(type(part), name, None), cached_property)]:
            del vars(part)[name]  # what was worked out for the whole domain
        vars(part)["domain"] = domain
        return part

    def observed(self) -> Target:
        """The target with all values that were sampled by now; itself unless it is a black box that they confine."""
        return self

    def one_token(self) -> Target | None:
        """A map on sequences that treats every token alike, as a map on one token; None for all others."""
        return None

    def contradiction(self, point: Floats) -> str:
        """What values, recorded or at a point (D,), say against a declaration; nothing if they agree with it, in words.

        A bound that follows from the declaration, and that the values at the point beat, has such a reason.
        """
        return ""

    def arrays(self) -> dict[str, Floats]:
        """Arrays that are saved with the description, by name."""
        return {}

    def identity(self) -> Any:
        """What tells this function from every other one, JSON-ready; None where only its name is known."""
        arrays = self.arrays()
        return [self.as_dict(), digest(arrays)] if arrays else None

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """A JSON-ready description, from which `targets.restore` makes the target again."""

    def explain(self, box: Interval) -> str:
        """Which part of the target is undefined or unbounded on this box (1, D), in words."""
        return f"the target is undefined or unbounded on {describe(box, self.domain)}"


def digest(arrays: dict[str, Floats]) -> str:
    """A hash of named arrays."""
    whole = sha256()
    for name in sorted(arrays):
        whole.update(f"{name} {arrays[name].shape}".encode() + arrays[name].tobytes())
    return whole.hexdigest()


def describe(box: Interval, domain: Box) -> str:
    """A box (1, D) in words: `x in [-1, 0.5], y in [0, 1]`."""
    ends = zip(domain.shown_axes, box.lo.ravel(), box.hi.ravel(), strict=True)
    return ", ".join(
        f"{name} = {low:g}" if low == high else f"{name} in [{low:g}, {high:g}]" for name, low, high in ends
    )


def refuse_nonfinite(target: Target, rows: Floats, values: Floats) -> Floats:
    """Pass finite values through; otherwise say where and why the target is undefined, or that values are too large."""
    bad = ~np.isfinite(values).all(axis=1)  # (B,)
    huge = (np.abs(values) > LARGEST_VALUE).any(axis=1) & ~bad
    if huge.any():
        row = int(np.flatnonzero(huge)[0])
        point = Interval(rows[row : row + 1])
        raise InputError(
            f"values of the target must be at most {LARGEST_VALUE:g}, so that their sums do not overflow",
            got=f"{values[row, np.argmax(np.abs(values[row]))]:g} at {describe(point, target.domain)}",
            remedy="Divide the target by a constant.",
        )
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        point = Interval(rows[row : row + 1])
        raise InputError(
            f"the target must be finite on the whole domain, but {target.explain(point)}",
            got=f"{values[row].tolist() if values.shape[1] > 1 else values[row, 0]}",
            remedy=BOUNDED,
        )
    return values
