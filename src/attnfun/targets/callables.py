"""Python functions on NumPy arrays as targets, in three degrees of trust.

`Traced` functions are made of NumPy operations only, so they run on intervals and can be enclosed.
`Lipschitz` functions are black boxes with a declared constant; each evaluation is remembered and encloses
the function by a cone. `BlackBox` functions can be sampled and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import as_word, on_one_line
from ..arithmetic import Interval, Jet, Truth, Untraceable, as_interval
from ..arithmetic.directed import above, below, norm_up, rounded_up, times_up, with_room
from ..domains.box import Box
from ..errors import InputError
from ..formula.agreement import outside, refuse_disagreement, refuse_other_series
from ..formula.circuits import Circuit
from ..formula.lowering import circuit_of
from ..formula.program import Program
from ..formula.tokenwise import acts_on_each_token
from ..formula.tracing import traced, written
from .base import Floats, Status, Target, Unanswerable, digest, refuse_nonfinite
from .evaluations import Evaluations, Sampling
from .expression import LIBRARY_ASSUMPTION

Function = Callable[[Any], Any]
Indices = npt.NDArray[np.intp]

_PROBES = 3
VALUE_ERROR = 1e-12
"""The fraction of the largest value up to which values may be rounded."""


class PythonFunction:
    """A user's function called safely: on copies of its own, shapes checked, errors explained."""

    def __init__(self, function: Function, domain: Box) -> None:
        self.function, self.domain = _with_float_values(function), domain
        probes = domain.sample(_PROBES, np.random.default_rng(0))
        values = self._call(probes)
        self.output_shape = values.shape[1:]
        if len(self.output_shape) > 2 or 0 in self.output_shape:
            raise InputError("a target must return a number, a vector or a sequence a point", got=self.output_shape)
        self.first = probes, values.reshape(_PROBES, -1)
        """Points and values of the first call."""

    @property
    def name(self) -> str:
        """The function's own name, as one word."""
        return as_word(str(getattr(self.function, "__name__", ""))) or type(self.function).__name__

    @property
    def made_of(self) -> object:
        """What tells it from other functions on rows."""
        return [self.function, self.domain.shape, self.output_shape]

    def __call__(self, rows: Floats) -> Floats:
        """(B, D) -> (B, m), values not yet checked for NaN."""
        result = self._call(rows)
        if result.shape[1:] != self.output_shape:
            raise InputError(
                f"{self.name} must return one shape for all points, {self.output_shape}", got=result.shape[1:]
            )
        return result.reshape(len(rows), -1)

    def on_intervals(self, boxes: Interval) -> Interval:
        """Run the function on boxes (B, D) instead of points; whatever it raises there, it is Untraceable."""
        own = Interval(boxes.lo.copy(), boxes.hi.copy(), boxes.defined.copy())
        result = self._on(own.reshape((len(boxes), *self.domain.shape)))
        result = as_interval(result) if isinstance(result, Truth) else result
        if not isinstance(result, Interval):
            raise Untraceable(f"{self.name} returned {type(result).__name__}, not an interval")
        if result.shape != (len(boxes), *self.output_shape):
            raise Untraceable(f"{self.name} returned shape {result.shape} on intervals")
        return result.reshape(len(boxes), prod(self.output_shape))

    def on_jets(self, variables: Jet) -> Jet:
        """Run the function on Taylor series (B, D)."""
        own = Jet(variables.basis, variables.mid.copy(), variables.rad.copy(), variables.degree)
        result = self._on(own.reshape((len(variables), *self.domain.shape)))
        if not isinstance(result, Jet) or result.shape != (len(variables), *self.output_shape):
            raise Untraceable(f"{self.name} returned something else than Taylor series")
        return result.reshape(len(variables), -1)

    def _on(self, argument: Interval | Jet) -> Any:
        """The function of something else than numbers, for which it was not written."""
        try:
            with np.errstate(all="ignore"):
                return self.function(argument)
        except Untraceable:
            raise
        except Exception as reason:
            raise Untraceable(f"{type(reason).__name__}: {reason}") from reason

    def _call(self, rows: Floats) -> Floats:
        points = self.domain.unflatten(rows).copy()
        shape = points.shape  # the function may change its copy in every way
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(self.function(points))
        except Exception as reason:
            raise InputError(
                f"{self.name} must accept an array of points of shape {shape}",
                got=f"{type(reason).__name__}: {reason}",
                remedy="Write it with NumPy operations over leading axes, or wrap it with np.vectorize.",
            ) from reason
        if result.shape[:1] != (len(rows),) or result.dtype.kind not in "fiub":
            raise InputError(
                f"{self.name} must return real numbers with the leading axis of its argument ({len(rows)},)",
                got=f"shape {result.shape} of {result.dtype} for points of shape {shape}",
                remedy="Return the leading axes followed by the shape of one value.",
            )
        return result.astype(np.float64)


def _with_float_values(function: Function) -> Function:
    """`np.vectorize` casts all values to the type of the first, perhaps integers: unless told, it is float here."""
    if not isinstance(function, np.vectorize) or function.otypes is not None:
        return function
    outputs = 1 if function.signature is None else function.signature.partition("->")[2].count("(")
    return np.vectorize(
        function.pyfunc, otypes=[float] * outputs, excluded=function.excluded, signature=function.signature
    )


class Traced(Target):
    """A function made of NumPy operations: it is run on intervals to enclose its range.

    >>> Traced(PythonFunction(np.sin, Box(-1, 1))).enclose(Interval([[0.0]], [[0.5]])).hi.round(4)
    array([[0.4794]])
    """

    status = Status.PROVED
    kind = "traced"

    def __init__(self, function: PythonFunction) -> None:
        self.function, self.domain, self.output_shape = function, function.domain, function.output_shape
        self.assumptions = self.granted(function.name)

    @staticmethod
    def granted(name: str) -> tuple[str, ...]:
        """What is taken for granted of a function of this name."""
        return (
            f"{name} is the real function that its NumPy operations spell out, the same in every call",
            LIBRARY_ASSUMPTION,
        )

    @classmethod
    def of(cls, function: PythonFunction) -> Traced:
        """The function as a target, if intervals and Taylor series agree with its values; otherwise Untraceable."""
        name, domain, enclose = function.name, function.domain, function.on_intervals
        enclose(Interval(domain.lo.reshape(1, -1), domain.hi.reshape(1, -1)))
        refuse_disagreement(name, domain, function, enclose, function.first)
        target = cls(function)
        with suppress(Unanswerable):
            refuse_other_series(domain, function, enclose, target.jets)
        return target

    def values(self, rows: Floats) -> Floats:
        """Call the function."""
        return refuse_nonfinite(self, rows, self.function(rows))

    def enclose(self, boxes: Interval) -> Interval:
        """Run the function on intervals."""
        try:
            return self.function.on_intervals(boxes)
        except Untraceable as reason:
            raise InputError(
                f"{self.function.name} must run on intervals everywhere, as it did on the whole domain",
                got=f"{reason} on {len(boxes)} boxes",
                remedy="Write it with NumPy operations over leading axes, or declare lipschitz=.",
            ) from reason

    def jets(self, variables: Jet) -> Jet:
        """Run the function on Taylor series."""
        try:
            return self.function.on_jets(variables)
        except Untraceable:
            raise Unanswerable from None

    def circuit(self) -> Circuit:
        """The function's operations, written down by symbols."""
        return self._circuit

    @property
    def may_jump(self) -> bool:
        """As its formula, where symbols know it."""
        try:
            return self._program.may_jump
        except Unanswerable:
            return True

    @cached_property
    def _circuit(self) -> Circuit:
        return circuit_of(self._program, self.domain.lo.ravel(), self.domain.hi.ravel(), self.deadline)

    @cached_property
    def _program(self) -> Program:
        program = traced(self.function.function, self.domain.shape, self.function.name)
        try:
            refuse_disagreement(self.function.name, self.domain, self.function, program.enclose, self.function.first)
        except Untraceable:
            raise Unanswerable from None
        return program

    def one_token(self) -> Target:
        """The function on a sequence of equal tokens, at the first of them."""
        (length, width), low, high = self.domain.tokens, self.domain.lo, self.domain.hi
        alike = length > 1 and len(self.output_shape) == 2 and self.output_shape[0] == length
        alike = alike and bool((low == low[:1]).all() and (high == high[:1]).all())
        if not alike or not acts_on_each_token(self._program, length, width):
            raise Unanswerable
        one = OneToken(self.function.function, length, self.function.name)
        return Traced(PythonFunction(one, Box(low[:1], high[:1])))

    def as_dict(self) -> dict[str, Any]:
        """Kind and name, and its operations as a formula, where symbols know them; the code itself is not stored."""
        try:
            formula = written(self._program)
        except Unanswerable:
            formula = None
        return {"kind": self.kind, "name": self.function.name, **({} if formula is None else {"formula": formula})}

    def identity(self) -> Any:
        """Its operations, where symbols know them."""
        return repr(self._program)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Workers import the function: it must be the same there."""
        vars(self).update(state)
        points, values = self.function.first
        wrong = outside(values, self.enclose(Interval(points))).any(axis=1)
        for row in np.flatnonzero(wrong)[:1]:
            raise InputError(
                f"{self.function.name} must be the same function in every worker",
                got=f"another value than {values[row].tolist()} at {points[row].tolist()}",
                remedy="Let it depend on nothing that a worker does not import, or use a ThreadPoolExecutor.",
            )


class OneToken:
    """A function on sequences of equal tokens, at the first of them."""

    def __init__(self, whole: Function, length: int, name: str) -> None:
        self.whole, self.length, self.__name__ = whole, length, name

    def __call__(self, points: Any) -> Any:
        """(..., 1, d) -> (..., 1, d')."""
        return self.whole(np.stack([points[..., 0, :]] * self.length, axis=-2))[..., :1, :]


class BlackBox(Target):
    """A function about which nothing is known but its values."""

    status = Status.ESTIMATED
    kind = "black box"
    ENDED = "): declare lipschitz= for a conditional certificate"

    @staticmethod
    def began(name: str) -> str:
        """How the note on a function of this name begins; a reason follows."""
        return f"{name} could not be traced ("

    @classmethod
    def says_why(cls, lines: Sequence[str], name: str) -> bool:
        """Are these the assumptions of a black box of this name, whatever the reason?"""
        return len(lines) == 1 and lines[0].startswith(cls.began(name)) and lines[0].endswith(cls.ENDED)

    def __init__(self, function: PythonFunction, reason: str, sampling: Sampling | None = None) -> None:
        self.function, self.domain, self.output_shape = function, function.domain, function.output_shape
        self.record = Evaluations(function, self.domain.size, self.outputs, sampling, function.name, function.made_of)
        self.assumptions = (f"{self.began(function.name)}{on_one_line(reason)}{self.ENDED}",)

    def values(self, rows: Floats) -> Floats:
        """Call the function where it was not called yet."""
        return refuse_nonfinite(self, rows, self.record(rows, self.deadline))

    @property
    def evaluations(self) -> int:
        """Points at which it was called."""
        return self.record.count

    def enclose(self, boxes: Interval) -> Interval:
        """There is no way."""
        raise Unanswerable

    def as_dict(self) -> dict[str, Any]:
        """Kind and name; the code itself is not stored."""
        return {"kind": self.kind, "name": self.function.name}


class Lipschitz(Target):
    """A black box with a declared Lipschitz constant L (Euclidean norm, largest over outputs).

    Every evaluation `v = f(p)` confines f to a cone, `|f(x) - v| <= L |x - p|`. On a box with centre c and
    half-widths r, `|x - p| <= |(|c - p| + r)|_2`; the enclosure is the intersection over the nearest samples.
    """

    status = Status.CONDITIONAL
    kind = "lipschitz"

    def __init__(
        self,
        function: PythonFunction | None,
        constant: float,
        domain: Box,
        output_shape: tuple[int, ...],
        samples: tuple[Floats, Floats] | None = None,
        name: str = "",
        sampling: Sampling | None = None,
    ) -> None:
        self.function, self.constant, self.domain, self.output_shape = (
            function,
            constant,
            domain,
            output_shape,
        )
        self.name = name or (function.name if function else "f")
        self.assumptions = (
            f"{self.name} is Lipschitz with constant {constant:g} (Euclidean norm, each output)",
            f"the values that {self.name} returned are exact",
        )
        points, values = samples or (np.empty((0, domain.size)), np.empty((0, self.outputs)))
        self.points, self.sampled = points, values  # (S, D), (S, m)
        self._tree: Any = None
        self.record = None
        if function is not None:
            self.record = Evaluations(function, domain.size, self.outputs, sampling, function.name, function.made_of)

    def values(self, rows: Floats) -> Floats:
        """Call the function where it was not called yet, and remember what it said."""
        if self.record is None:
            raise Unanswerable
        values = refuse_nonfinite(self, rows, self.record(rows, self.deadline))
        if self.record.count > len(self.points):
            self.points, self.sampled, self._tree = self.record.points, self.record.values, None
        return values

    @property
    def evaluations(self) -> int:
        """Points at which it was called."""
        return len(self.points)

    def enclose(self, boxes: Interval) -> Interval:
        """Intersect the cones of the nearest samples; O(log S) a box."""
        if self._tree is None:
            from scipy.spatial import KDTree

            self._refuse_false_constant()
            self._tree = KDTree(self.points)
        nearest = min(2**self.domain.size + 2 * self.domain.size, 32, len(self.points))
        centre, radius = boxes.mid, boxes.radius
        _, index = self._tree.query(centre, nearest)
        index = index.reshape(len(boxes), nearest)
        reach = rounded_up(np.abs(centre[:, None] - self.points[index]) + radius[:, None], 2)  # (B, k, D)
        cone = times_up(self.constant, norm_up(reach, axis=2, keepdims=True))  # (B, k, 1)
        values = self.sampled[index]  # (B, k, m)
        return Interval(below(values - cone).max(axis=1), above(values + cone).min(axis=1))

    def modulus(self, distances: Floats) -> Floats:
        """The declared constant times the Euclidean distance."""
        lengths = norm_up(distances, axis=1, keepdims=True)  # (P, 1)
        return np.repeat(times_up(self.constant, lengths), self.outputs, axis=1)

    def as_dict(self) -> dict[str, Any]:
        """Kind, name and constant; the samples are stored beside the network."""
        return {"kind": self.kind, "name": self.name, "constant": self.constant}

    def identity(self) -> Any:
        """What is declared, and the values: enclosures are made of nothing else."""
        return [self.as_dict(), digest({"points": self.points, "values": self.sampled})]

    def __getstate__(self) -> dict[str, Any]:
        """What enclosures are made of; the function itself stays where it is called."""
        return {**super().__getstate__(), "function": None, "record": None, "_tree": None}

    def contradiction(self, point: Floats) -> str:
        """Two samples whose cones miss each other at the point, which becomes a sample where the function is at hand.

        `v - L|x - p| > w + L|x - q|` makes `v - w > L |p - q|`. If no two samples contradict the constant, there is a
        function with all of their values and this constant (McShane), for which all that follows from them is true.
        """
        if self.record is not None and self.domain.contains(point[None])[0]:
            self.values(point[None])
        reach = norm_up(self.points - point, axis=1, keepdims=True)  # (S, 1)
        cone = with_room(self.constant) * reach  # (S, 1)
        low, high = self.sampled - cone, self.sampled + cone  # (S, m)
        apart = int((low.max(axis=0) - high.min(axis=0)).argmax())
        return self._steeper(low[:, [apart]].argmax(axis=0), high[:, [apart]].argmin(axis=0))

    def _refuse_false_constant(self) -> None:
        """Compare neighbouring samples with the declared constant."""
        from scipy.spatial import KDTree

        if len(self.points) < 2:
            return
        _, nearest = KDTree(self.points).query(self.points, 2)  # (S, 2)
        if steeper := self._steeper(*np.asarray(nearest).T):
            raise InputError(
                f"{self.name} must be Lipschitz with the declared constant {self.constant:g}",
                got=steeper,
                remedy="Declare a larger lipschitz=.",
            )

    def _steeper(self, first: Indices, second: Indices) -> str:
        """The one of pairs of samples (P,) that contradicts the constant most, in words; nothing if none does.

        Its values are further apart than the constant times their distance, by more than the rounding of values.
        """
        distance = norm_up(self.points[first] - self.points[second], axis=1)  # (P,)
        rise = np.abs(self.sampled[first] - self.sampled[second]).max(axis=1)  # (P,)
        excess = rise - with_room(self.constant) * distance
        worst = int(np.argmax(excess))
        if not excess[worst] > VALUE_ERROR * np.abs(self.sampled).max():
            return ""
        ends = self.points[first[worst]].tolist(), self.points[second[worst]].tolist()
        with np.errstate(divide="ignore"):
            return f"a slope of {rise[worst] / distance[worst]:g} between {ends[0]} and {ends[1]}"
