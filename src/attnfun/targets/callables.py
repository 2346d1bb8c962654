"""Python functions on NumPy arrays as targets, in three degrees of trust.

`Traced` functions are made of NumPy operations only, so they are programs as formulas are.
`Lipschitz` functions are black boxes with a declared constant; each evaluation is remembered and encloses
the function by a cone. `BlackBox` functions can be sampled and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from inspect import signature
from math import prod
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import as_word, on_one_line
from ..arithmetic import Interval, Untraceable
from ..arithmetic.directed import above, below, norm_up, rounded_up, times_up, with_room
from ..domains import TwoInputs
from ..domains.box import Box
from ..errors import InputError
from ..formula.agreement import outside, refuse_disagreement, refuse_other_series
from ..formula.polynomials import piecewise_polynomial
from ..formula.program import Program
from ..formula.symbols import branching, elementwise
from ..formula.tokenwise import acts_on_each_token
from ..formula.tracing import traced
from ..formula.writing import written
from ..resources.deadline import in_force
from .base import Floats, Status, Target, digest, refuse_nonfinite
from .evaluations import Evaluations, Sampling
from .expression import LIBRARY_ASSUMPTION
from .programs import OfProgram

Function = Callable[[Any], Any]
Indices = npt.NDArray[np.intp]

_PROBES = 3
LETTERS = ("()", "(n)", "(n,d)")
"""Signatures of a point with so many axes."""
VALUE_ERROR = 1e-12
"""The fraction of the largest value up to which values may be rounded."""


class PythonFunction:
    """A user's function called safely: on copies of its own, shapes checked, errors explained."""

    def __init__(self, function: Function, domain: Box) -> None:
        self.function, self.domain = _with_float_values(arguments_by_name(function, domain)), domain
        probes = domain.sample(_PROBES, np.random.default_rng(0))
        values = self._first_call(probes)
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

    def program(self) -> Program:
        """Its operations, or Untraceable."""
        program = piecewise_polynomial(self.function, self.domain.size, self.name)
        if program is None:
            program = traced(self.function, self.domain.shape, self.name)
        if len(program.outputs) != prod(self.output_shape):
            raise Untraceable(f"{self.name} returned {len(program.outputs)} numbers for a point")
        return program

    def _first_call(self, rows: Floats) -> Floats:
        """Values at rows; a function that takes single numbers only is called with one point at a time from here on.

        One of a single argument named as the variable gets numbers, as a formula of it does, unless it wants points.
        """
        whole = self.function
        if takes_the_variable(whole, self.domain):
            try:
                self.function = ByName(whole, (0,))
                return self._first_call(rows)
            except InputError:
                self.function = whole
        try:
            return self._call(rows)
        except InputError as reason:
            whole = self.function
            if not isinstance(reason.__cause__, TypeError | ValueError) or isinstance(whole, np.vectorize | OneByOne):
                raise
            if self.domain.size > 1 and not isinstance(whole, ByName):  # what would it do with a point?
                raise
            try:
                self.function = one_by_one(whole)
                return self._call(rows)
            except InputError:
                self.function = whole
                raise reason from reason.__cause__

    @property
    def _wrapped(self) -> str:
        """How a function of one point, or of one number for each variable, is wrapped."""
        if isinstance(self.function, ByName) or self.domain.size == 1:
            return "np.vectorize(f)."
        return f'np.vectorize(f, signature="{LETTERS[len(self.domain.shape)]}->()") for a function of one point.'

    def _call(self, rows: Floats) -> Floats:
        points = self.domain.unflatten(rows).copy()
        shape = points.shape  # the function may change its copy in every way
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(self.function(points))
                result = result.astype(np.float64) if result.dtype == object else result
        except Exception as reason:
            raise InputError(
                f"{self.name} must accept an array of points of shape {shape}",
                got=f"{type(reason).__name__}: {reason}",
                remedy="Write it with NumPy operations over leading axes, or wrap it: " + self._wrapped,
            ) from reason
        if result.shape[:1] != (len(rows),) or result.dtype.kind not in "fiub":
            raise InputError(
                f"{self.name} must return real numbers with the leading axis of its argument ({len(rows)},)",
                got=f"shape {result.shape} of {result.dtype} for points of shape {shape}",
                remedy="Index variables as p[..., 0], put several values together with np.stack(values, axis=-1).",
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


class ByName:
    """A function of several arguments as one of points, whose last axis are the arguments in this order."""

    def __init__(self, function: Function, order: tuple[int, ...]) -> None:
        self.function, self.order = function, order
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def around(self, function: Function) -> ByName:
        """The same for another function."""
        return ByName(function, self.order)

    def __call__(self, points: Any) -> Any:
        """(..., D) -> (...); several values in a tuple stand side by side, (..., m)."""
        values = self.function(*(points[..., k] for k in self.order))
        if not isinstance(values, tuple):
            return values
        ones = [np.broadcast_to(value, points.shape[:-1]) for value in values]
        return np.stack(ones, axis=-1)


class OfTwoInputs:
    """A function f(Q, K) as one of joined points."""

    def __init__(self, function: Function, domain: TwoInputs, order: tuple[int, ...]) -> None:
        self.function, self.domain, self.order = function, domain, order
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def around(self, function: Function) -> OfTwoInputs:
        """The same for another function."""
        return OfTwoInputs(function, self.domain, self.order)

    def __call__(self, points: Any) -> Any:
        """(..., D) -> (...)."""
        parts = self.domain.separate(points)
        return self.function(*(parts[k] for k in self.order))


def arguments_by_name(function: Function, domain: Box) -> Function:
    """A function of as many arguments as the domain has variables gets them one by one: by name, or in order.

    >>> arguments_by_name(lambda y, x: y - x, Box([0, 0], [1, 1], ("x", "y")))(np.array([[0.25, 1.0]]))
    array([0.75])
    """
    wanted = _arguments(function)
    if isinstance(domain, TwoInputs):
        inputs = tuple(domain.inputs)
        swapped = set(wanted) == set(inputs) and wanted != inputs
        return OfTwoInputs(function, domain, (1, 0) if swapped else (0, 1))
    if len(wanted) < 2 or len(domain.shape) != 1:
        return function
    if domain.names is None or isinstance(function, np.ufunc):
        return ByName(function, tuple(range(len(wanted)))) if len(wanted) == domain.size else function
    if set(wanted) == set(domain.names):
        return ByName(function, tuple(domain.names.index(name) for name in wanted))
    raise InputError(
        f"the arguments of {getattr(function, '__name__', 'the function')} must be the variables of the domain, "
        "or one array of points",
        got=f"({', '.join(wanted)}) for {', '.join(domain.names)}",
        remedy="Name the arguments and the axes of the domain alike.",
    )


def takes_the_variable(function: Function, domain: Box) -> bool:
    """Is its one argument named as the one variable of the domain?"""
    named = domain.shape == (1,) and domain.names is not None and not isinstance(function, ByName | OneByOne)
    return named and _arguments(function) == domain.names


def _arguments(function: Any) -> tuple[str, ...]:
    """The arguments that a callable needs, by name; none where that is not known."""
    function = function.pyfunc if isinstance(function, np.vectorize) else getattr(function, "py_func", function)
    if isinstance(function, np.ufunc):
        return tuple(f"x{k}" for k in range(function.nin))
    written = isinstance(function, FunctionType | MethodType | partial)
    if not written and not isinstance(type(function).__call__, FunctionType):
        return ()
    try:
        needed = [each for each in signature(function).parameters.values() if each.default is each.empty]
    except (TypeError, ValueError):  # made of something without a signature
        return ()
    plain = all(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in needed)
    return tuple(each.name for each in needed) if plain else ()


class OneByOne:
    """A function of single numbers, called with the numbers of arrays one after the other."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def around(self, function: Function) -> OneByOne:
        """The same for another function."""
        return OneByOne(function)

    def __call__(self, *arrays: Any) -> Any:
        """Arrays of one shape in, one of that shape out."""
        return elementwise(branching(self.function), *arrays)


def one_by_one(function: Function) -> Function:
    """The function behind arguments by name, called one by one."""
    return function.around(OneByOne(function.function)) if isinstance(function, ByName) else OneByOne(function)


class Traced(OfProgram):
    """A function made of NumPy operations: what it does to symbols is a program.

    >>> Traced.of(PythonFunction(np.sin, Box(-1, 1))).enclose(Interval([[0.0]], [[0.5]])).hi.round(4)
    array([[0.4794]])
    """

    function: PythonFunction
    status = Status.PROVED
    kind = "traced"

    def __init__(self, function: PythonFunction, program: Program) -> None:
        vars(self).update(function=function, domain=function.domain, output_shape=function.output_shape)
        vars(self).update(program=program, assumptions=self.granted(function.name))

    @staticmethod
    def granted(name: str) -> tuple[str, ...]:
        """What is taken for granted of a function of this name."""
        return (
            f"{name} is the real function that its NumPy operations spell out, the same in every call",
            LIBRARY_ASSUMPTION,
        )

    @classmethod
    def of(cls, function: PythonFunction) -> Traced:
        """The function as a target, if its operations agree with its values; otherwise Untraceable."""
        program = function.program()
        refuse_disagreement(function.name, function.domain, function, program.computed, function.first)
        refuse_other_series(function.domain, function, program.computed, program.jets)
        return cls(function, program)

    def values(self, rows: Floats) -> Floats:
        """Call the function."""
        return refuse_nonfinite(self, rows, self.function(rows))

    def one_token(self) -> Target | None:
        """The function on a sequence of equal tokens, at the first of them."""
        (length, width), low, high = self.domain.tokens, self.domain.lo, self.domain.hi
        alike = length > 1 and len(self.output_shape) == 2 and self.output_shape[0] == length
        alike = alike and bool((low == low[:1]).all() and (high == high[:1]).all())
        if not alike or not acts_on_each_token(self.program, length, width):
            return None
        one = OneToken(self.function.function, length, self.function.name)
        try:
            return Traced.of(PythonFunction(one, Box(low[:1], high[:1])))
        except (Untraceable, InputError):  # the function takes sequences of that length only
            return None

    def as_dict(self) -> dict[str, Any]:
        """Kind and name, and its operations as a formula, unless that is too long; the code itself is not stored."""
        formula = written(self.program)
        return {"kind": self.kind, "name": self.function.name, **({} if formula is None else {"formula": formula})}

    def identity(self) -> Any:
        """Its operations."""
        return repr(self.program)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Workers import the function: it must be the same there."""
        vars(self).update(state)
        points, values = self.function.first
        wrong = outside(self.function(points), self.program.computed(Interval(points))).any(axis=1)
        for row in np.flatnonzero(wrong)[:1]:
            raise InputError(
                f"{self.function.name} must be the same function in every worker",
                got=f"another value than {values[row].tolist()} at {points[row].tolist()}",
                remedy="Let it depend on nothing that a worker does not import, or use a ThreadPoolExecutor.",
            )


class OneToken:
    """A function on sequences of equal tokens, at the first of them."""

    def __init__(self, whole: Function, length: int, name: str) -> None:
        self.function, self.length, self.__name__ = whole, length, name

    def around(self, function: Function) -> OneToken:
        """The same for another function."""
        return OneToken(function, self.length, self.__name__)

    def __call__(self, points: Any) -> Any:
        """(..., 1, d) -> (..., 1, d')."""
        return self.function(np.stack([points[..., 0, :]] * self.length, axis=-2))[..., :1, :]


class BlackBox(Target):
    """A function about which nothing is known but its values."""

    function: PythonFunction
    record: Evaluations
    """The function, which remembers what it returned."""
    status = Status.ESTIMATED
    enclosable = False
    kind = "black box"
    DECLARE = "): declare lipschitz= for a conditional certificate"
    JUMPS = "): no lipschitz= is true of a function that jumps"

    @staticmethod
    def began(name: str) -> str:
        """How the note on a function of this name begins; a reason follows."""
        return f"{name} could not be traced ("

    @classmethod
    def says_why(cls, lines: Sequence[str], name: str) -> bool:
        """Are these the assumptions of a black box of this name, whatever the reason?"""
        return len(lines) == 1 and lines[0].startswith(cls.began(name)) and lines[0].endswith((cls.DECLARE, cls.JUMPS))

    def __init__(self, function: PythonFunction, reason: str, sampling: Sampling | None = None) -> None:
        vars(self).update(function=function, domain=function.domain, output_shape=function.output_shape)
        ended = self.JUMPS if "it jumps" in reason else self.DECLARE
        vars(self).update(
            record=Evaluations(function, self.domain.size, self.outputs, sampling, function.name, function.made_of),
            assumptions=(f"{self.began(function.name)}{on_one_line(reason)}{ended}",),
        )

    def values(self, rows: Floats) -> Floats:
        """Call the function where it was not called yet."""
        return refuse_nonfinite(self, rows, self.record(rows, in_force()))

    @property
    def evaluations(self) -> int:
        """Points at which it was called."""
        return self.record.count

    def as_dict(self) -> dict[str, Any]:
        """Kind and name; the code itself is not stored."""
        return {"kind": self.kind, "name": self.function.name}


class Lipschitz(Target):
    """A black box with a declared Lipschitz constant L (Euclidean norm, largest over outputs).

    Every evaluation `v = f(p)` confines f to a cone, `|f(x) - v| <= L |x - p|`. On a box with centre c and
    half-widths r, `|x - p| <= |(|c - p| + r)|_2`; the enclosure is the intersection over the nearest samples.
    """

    function: PythonFunction | None
    record: Evaluations | None
    """The function, which remembers what it returned; shared with all that `observed` returns."""
    constant: float
    name: str
    samples: tuple[Floats, Floats]
    """Points (S, D) and values (S, m)."""
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
        name = name or (function.name if function else "f")
        record = None
        if function is not None:
            record = Evaluations(function, domain.size, prod(output_shape), sampling, name, function.made_of)
            samples = samples or function.first
        vars(self).update(
            function=function,
            constant=constant,
            domain=domain,
            output_shape=output_shape,
            name=name,
            assumptions=(
                f"{name} is Lipschitz with constant {constant:g} (Euclidean norm, each output)",
                f"the values that {name} returned are exact",
            ),
            samples=samples or (np.empty((0, domain.size)), np.empty((0, prod(output_shape)))),
            record=record,
            evaluable=function is not None,
        )

    @property
    def recorded(self) -> tuple[Floats, Floats]:
        """The samples."""
        return self.samples

    @property
    def points(self) -> Floats:
        """Of the samples, (S, D)."""
        return self.samples[0]

    @property
    def sampled(self) -> Floats:
        """Values of the samples, (S, m)."""
        return self.samples[1]

    def observed(self) -> Lipschitz:
        """The same function, confined by every value that it has returned by now."""
        if self.record is None or not self.record.count or self.points is self.record.points:
            return self
        more = Lipschitz(None, self.constant, self.domain, self.output_shape, self.record.samples, self.name)
        vars(more).update(function=self.function, record=self.record, evaluable=True)
        return more

    def values(self, rows: Floats) -> Floats:
        """Call the function where it was not called yet; enclosures stay as they are, see `observed`."""
        if self.record is None:
            raise InputError(
                f"the code of {self.name} must be available to compute values; files do not hold it",
                got="recorded values alone",
                remedy="Pass the function with the file, or compile it anew.",
            )
        return refuse_nonfinite(self, rows, self.record(rows, in_force()))

    @property
    def evaluations(self) -> int:
        """Points at which it was called."""
        return len(self.points) if self.record is None else self.record.count

    def enclose(self, boxes: Interval) -> Interval:
        """Intersect the cones of the nearest samples; O(log S) a box."""
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
        kept = {name: value for name, value in vars(self).items() if name != "_tree"}
        return {**kept, "function": None, "record": None, "evaluable": False}

    def contradiction(self, point: Floats) -> str:
        """Two samples whose cones miss each other at the point, which becomes a sample where the function is at hand.

        `v - L|x - p| > w + L|x - q|` makes `v - w > L |p - q|`. If no two samples contradict the constant, there is a
        function with all of their values and this constant (McShane), for which all that follows from them is true.
        """
        if self.record is not None and self.domain.contains(point[None])[0]:
            self.values(point[None])
            return self.observed().steepest_at(point)
        return self.steepest_at(point)

    def steepest_at(self, point: Floats) -> str:
        """Two recorded samples whose cones miss each other at the point, in words; nothing if none do."""
        reach = norm_up(self.points - point, axis=1, keepdims=True)  # (S, 1)
        cone = with_room(self.constant) * reach  # (S, 1)
        low, high = self.sampled - cone, self.sampled + cone  # (S, m)
        apart = int((low.max(axis=0) - high.min(axis=0)).argmax())
        return self._steeper(low[:, [apart]].argmax(axis=0), high[:, [apart]].argmin(axis=0))

    @cached_property
    def _tree(self) -> Any:
        """A k-d tree of the samples, which must not contradict the declared constant."""
        from scipy.spatial import KDTree

        self._refuse_false_constant()
        return KDTree(self.points)

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
