"""Truth values of comparisons between intervals: surely true, surely false, or undecided.

A comparison holds on a whole box, on no point of it, or it cannot be told; `where` takes the branch that is certain
and the union of both where none is. In arithmetic with numbers a truth value counts as 0 or 1, as in NumPy. Arithmetic
among truth values alone is refused: NumPy's sum of two of them is not a number but an `or`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .interval import (
    FUNCTIONS,
    UFUNCS,
    Interval,
    Untraceable,
    as_interval,
    implements,
    is_flag,
    is_known,
    refuse_flags,
)

Flags = npt.NDArray[np.bool_]


class TruthValues:
    """An array of truth values that may be undecided.

    >>> (Interval([-2.0, -1.0, 1.0], [-1.0, 1.0, 2.0]) <= 0).surely
    array([ True, False, False])
    >>> np.where(Interval(-1.0, 1.0) <= 0, 2.0, Interval(3.0, 4.0))
    Interval[2, 4]
    """

    __slots__ = ("defined", "possibly", "surely")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, surely: npt.ArrayLike, possibly: npt.ArrayLike, defined: npt.ArrayLike = True) -> None:
        self.surely: Flags
        self.possibly: Flags
        self.surely, self.possibly = (np.asarray(part, dtype=bool) for part in (surely, possibly))
        self.defined: Flags = np.asarray(defined, dtype=bool)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of truth values."""
        return self.surely.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.surely.ndim

    def __interval__(self) -> Interval:
        """The numbers 0 and 1 for false and true."""
        return Interval(self.surely.astype(np.float64), self.possibly.astype(np.float64), self.defined)

    def __len__(self) -> int:
        return len(self.surely)

    def __getitem__(self, index: Any) -> TruthValues:
        return TruthValues(self.surely[index], self.possibly[index], np.broadcast_to(self.defined, self.shape)[index])

    def reshape(self, *shape: Any) -> TruthValues:
        """The same truth values in another shape."""
        defined = np.broadcast_to(self.defined, self.shape).reshape(*shape)
        return TruthValues(self.surely.reshape(*shape), self.possibly.reshape(*shape), defined)

    def all(self, axis: int | None = None) -> TruthValues:
        """Are all true along an axis?"""
        defined = np.broadcast_to(self.defined, self.shape).all(axis)
        return TruthValues(self.surely.all(axis), self.possibly.all(axis), defined)

    def any(self, axis: int | None = None) -> TruthValues:
        """Is any true along an axis?"""
        return ~(~self).all(axis)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = ufunc.__name__
        if method != "__call__" or kwargs:
            raise Untraceable(f"np.{name}.{method} has no meaning on undecided truth values")
        if not all(is_known(type(value)) for value in inputs):
            return NotImplemented
        if name in LOGIC and all(is_flag(value) for value in inputs):
            return LOGIC[name](*(as_truth(value) for value in inputs))
        refuse_flags(f"np.{name}", inputs)
        if name not in UFUNCS:
            raise Untraceable(f"np.{name} has no interval version")
        return UFUNCS[name](*(as_interval(value) for value in inputs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return as_interval(self).__array_function__(function, types, args, kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> npt.NDArray[Any]:
        raise Untraceable("an undecided truth value cannot become an array of flags")

    def __bool__(self) -> bool:
        raise Untraceable("a branch on a value has no meaning on an interval: use np.where")

    def __and__(self, other: Any) -> Any:
        return np.bitwise_and(self, other)

    def __or__(self, other: Any) -> Any:
        return np.bitwise_or(self, other)

    def __invert__(self) -> TruthValues:
        return TruthValues(~self.possibly, ~self.surely, self.defined)

    def __add__(self, other: Any) -> Any:
        return np.add(self, other)

    def __sub__(self, other: Any) -> Any:
        return np.subtract(self, other)

    def __mul__(self, other: Any) -> Any:
        return np.multiply(self, other)

    def __truediv__(self, other: Any) -> Any:
        return np.divide(self, other)

    def __radd__(self, other: Any) -> Any:
        return np.add(other, self)

    def __rsub__(self, other: Any) -> Any:
        return np.subtract(other, self)

    def __rmul__(self, other: Any) -> Any:
        return np.multiply(other, self)

    __rand__, __ror__ = __and__, __or__


def as_truth(value: Any) -> TruthValues:
    """A truth value as it is, flags as certain ones, a number as the question whether it is not zero."""
    if isinstance(value, TruthValues):
        return value
    if isinstance(value, Interval):
        return TruthValues((value.lo > 0) | (value.hi < 0), (value.lo != 0) | (value.hi != 0), value.defined)
    return TruthValues(np.asarray(value, dtype=bool), np.asarray(value, dtype=bool))


def both(a: TruthValues, b: TruthValues) -> TruthValues:
    """a and b."""
    return TruthValues(a.surely & b.surely, a.possibly & b.possibly, a.defined & b.defined)


def either(a: TruthValues, b: TruthValues) -> TruthValues:
    """a or b."""
    return TruthValues(a.surely | b.surely, a.possibly | b.possibly, a.defined & b.defined)


LOGIC: dict[str, Callable[..., TruthValues]] = {
    "logical_and": both,
    "bitwise_and": both,
    "logical_or": either,
    "bitwise_or": either,
    "logical_not": lambda a: ~a,
    "invert": lambda a: ~a,
}
"""Logic by the ufunc's name."""


@implements("less")
def less(a: Interval, b: Interval) -> Any:
    """a < b."""
    return TruthValues(a.hi < b.lo, ~(a.lo >= b.hi), a.defined & b.defined)


@implements("less_equal")
def less_equal(a: Interval, b: Interval) -> Any:
    """a <= b."""
    return TruthValues(a.hi <= b.lo, ~(a.lo > b.hi), a.defined & b.defined)


implements("greater")(lambda a, b: less(b, a))
implements("greater_equal")(lambda a, b: less_equal(b, a))


def where(condition: Any, a: Any, b: Any) -> Interval:
    """`a` where the condition is certain, `b` where it is certainly false, both together where it is undecided.

    Undecided values count as defined only where both branches are.
    """
    refuse_flags("np.where", (a, b))
    truth, first, second = as_truth(condition), as_interval(a), as_interval(b)
    low = np.where(truth.surely, first.lo, np.where(truth.possibly, np.minimum(first.lo, second.lo), second.lo))
    high = np.where(truth.surely, first.hi, np.where(truth.possibly, np.maximum(first.hi, second.hi), second.hi))
    chosen = (truth.surely | second.defined) & (~truth.possibly | first.defined)
    return Interval(low, high, truth.defined & chosen)


FUNCTIONS.update(
    {
        np.where: where,
        np.all: lambda a, *args, **kwargs: as_truth(a).all(*args, **kwargs),
        np.any: lambda a, *args, **kwargs: as_truth(a).any(*args, **kwargs),
    }
)
