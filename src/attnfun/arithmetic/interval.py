"""Intervals of real numbers, vectorised, that NumPy functions run on unchanged [T 9.1], [T 9.2].

An `Interval` of shape S stands for one real interval per element. Every operation returns an interval that
contains every possible real result (the inclusion property), rounding included, so evaluating a formula on
the interval of its arguments encloses its range.

`defined` is True where the operation was defined on *every* point of its argument. It is lost, never
regained: `sqrt` of [-1, 4] is [0, 2] with `defined` False, because the formula has no value on a part of
the box.

No end is ever NaN: an operation that cannot tell an end (`inf - inf` after an overflow) leaves it open, at minus or
plus infinity. So comparisons of ends need no third case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import directed
from .directed import Floats

UFUNCS: dict[str, Callable[..., Any]] = {}
"""Implementation of each NumPy (or SciPy) ufunc on intervals, by the ufunc's name."""
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""Implementation of other NumPy functions on intervals."""


def implements(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the interval version of the ufuncs with these names."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        UFUNCS.update(dict.fromkeys(names, function))
        return function

    return register


class Untraceable(TypeError):
    """A Python function did something that has no meaning on intervals (a branch on a value, say)."""


class Interval:
    """An array of closed real intervals `[lo, hi]`, possibly unbounded.

    >>> x = Interval(-1.0, 2.0)
    >>> x * x, x * (x + 1), np.exp(x - x)
    (Interval[0, 4], Interval[-3, 6], Interval[0.0497871, 20.0855])
    """

    __slots__ = ("defined", "hi", "lo")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, lo: npt.ArrayLike, hi: npt.ArrayLike | None = None, defined: npt.ArrayLike = True) -> None:
        low = np.asarray(lo, dtype=np.float64)
        high = low if hi is None else np.asarray(hi, dtype=np.float64)
        self.lo: Floats
        self.hi: Floats
        self.lo, self.hi = (low, high) if low.shape == high.shape else np.broadcast_arrays(low, high)
        if np.isnan(self.lo).any():
            self.lo = np.fmax(self.lo, -np.inf)
        if np.isnan(self.hi).any():
            self.hi = np.fmin(self.hi, np.inf)
        self.defined: npt.NDArray[np.bool_] = np.asarray(defined, dtype=bool)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of intervals."""
        return self.lo.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.lo.ndim

    @property
    def mid(self) -> Floats:
        """A finite float inside each interval."""
        low, high = np.maximum(self.lo, -directed.LARGEST), np.minimum(self.hi, directed.LARGEST)
        return np.clip(low / 2 + high / 2, low, high)

    @property
    def radius(self) -> Floats:
        """An upper bound on the distance from `mid` to either end."""
        mid = self.mid
        return np.maximum(directed.add_up(self.hi, -mid), directed.add_up(mid, -self.lo))

    @property
    def magnitude(self) -> Floats:
        """The largest absolute value in each interval."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    def __len__(self) -> int:
        return len(self.lo)

    def __getitem__(self, index: Any) -> Interval:
        return Interval(self.lo[index], self.hi[index], np.broadcast_to(self.defined, self.shape)[index])

    def reshape(self, *shape: Any) -> Interval:
        """The same intervals in another shape."""
        defined = np.broadcast_to(self.defined, self.shape).reshape(*shape)
        return Interval(self.lo.reshape(*shape), self.hi.reshape(*shape), defined)

    def sum(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Interval:
        """Enclosure of the sum along an axis, valid for any order of summation.

        Sums do not underflow. Where one overflows on the way, the sum of sizes is infinite, and the end is open.
        """
        del out
        ends = []
        with np.errstate(over="ignore", invalid="ignore"):
            for end, sign, step in ((self.lo, -1.0, directed.below), (self.hi, 1.0, directed.above)):
                total, size = (part.sum(axis, keepdims=keepdims) for part in (end, np.abs(end)))
                slack = (end.size // max(total.size, 1) + 1) * directed.ULP * size
                ends.append(np.where(np.isfinite(total) & np.isfinite(size), step(total + sign * slack), sign * np.inf))
        defined = np.broadcast_to(self.defined, self.shape).all(axis, keepdims=keepdims)
        return Interval(ends[0], ends[1], defined)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Interval:
        name = ufunc.__name__
        if not all(is_known(type(value)) for value in inputs):
            return NotImplemented
        if method == "reduce" and name == "add" and set(kwargs) <= {"axis"}:
            return inputs[0].sum(kwargs.get("axis", 0))
        if method != "__call__" or name not in UFUNCS or kwargs:
            raise Untraceable(f"np.{name} has no interval version")
        return UFUNCS[name](*(as_interval(value) for value in inputs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Interval:
        if not all(is_known(kind) for kind in types):
            return NotImplemented
        if function not in FUNCTIONS:
            raise Untraceable(f"np.{function.__name__} has no interval version")
        return FUNCTIONS[function](*args, **kwargs)

    def __interval__(self) -> Interval:
        """Whatever has this method counts as an interval."""
        return self

    def __array__(self, *args: Any, **kwargs: Any) -> npt.NDArray[Any]:
        raise Untraceable("an interval cannot become an array of numbers")

    def __bool__(self) -> bool:
        raise Untraceable("a branch on a value has no meaning on an interval")

    def __add__(self, other: Any) -> Interval:
        return np.add(self, other)  # type: ignore[return-value]

    def __sub__(self, other: Any) -> Interval:
        return np.subtract(self, other)  # type: ignore[return-value]

    def __mul__(self, other: Any) -> Interval:
        return np.multiply(self, other)  # type: ignore[return-value]

    def __truediv__(self, other: Any) -> Interval:
        return np.divide(self, other)  # type: ignore[return-value]

    def __pow__(self, other: Any) -> Interval:
        return np.power(self, other)  # type: ignore[return-value]

    def __radd__(self, other: Any) -> Interval:
        return np.add(other, self)  # type: ignore[return-value]

    def __rsub__(self, other: Any) -> Interval:
        return np.subtract(other, self)  # type: ignore[return-value]

    def __rmul__(self, other: Any) -> Interval:
        return np.multiply(other, self)  # type: ignore[return-value]

    def __rtruediv__(self, other: Any) -> Interval:
        return np.divide(other, self)  # type: ignore[return-value]

    def __rpow__(self, other: Any) -> Interval:
        return np.power(other, self)  # type: ignore[return-value]

    def __lt__(self, other: Any) -> Any:
        return np.less(self, other)

    def __le__(self, other: Any) -> Any:
        return np.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return np.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return np.greater_equal(self, other)

    def __eq__(self, other: object) -> Any:
        return np.equal(self, other)  # type: ignore[call-overload]

    def __ne__(self, other: object) -> Any:
        return np.not_equal(self, other)  # type: ignore[call-overload]

    def __neg__(self) -> Interval:
        return np.negative(self)  # type: ignore[return-value]

    def __pos__(self) -> Interval:
        return self

    def __abs__(self) -> Interval:
        return np.abs(self)  # type: ignore[return-value]

    def __matmul__(self, matrix: Any) -> Interval:
        """Product with a matrix of exact floats, by midpoint and radius.

        Each product of a midpoint or a radius may lose half of the least positive float to underflow. What overflows
        is unknown.
        """
        matrix = np.asarray(matrix, dtype=np.float64)
        slack = (2 * matrix.shape[0] + 4) * directed.ULP
        mid, radius, sizes = self.mid, self.radius, np.abs(matrix)
        with np.errstate(invalid="ignore", over="ignore"):
            centre = mid @ matrix
            spread = (radius @ sizes) * (1 + slack) + slack * (np.abs(mid) @ sizes)
            spread = np.where(np.isfinite(centre), spread + (len(matrix) + 2) * directed.SMALLEST, np.nan)
            low, high = directed.below(centre - spread), directed.above(centre + spread)
        defined = np.broadcast_to(self.defined, self.shape).all(-1, keepdims=True)
        return Interval(low, high, defined)

    def __repr__(self) -> str:
        if self.shape == ():
            return f"Interval[{self.lo:g}, {self.hi:g}]"
        return f"Interval(shape={self.shape})"


def is_known(kind: type) -> bool:
    """Can values of this type take part in interval arithmetic: numbers, arrays, and what counts as an interval?"""
    return hasattr(kind, "__interval__") or not hasattr(kind, "__array_ufunc__") or issubclass(kind, _NUMBERS)


_NUMBERS = (np.ndarray, np.generic)


def is_flag(value: Any) -> bool:
    """Is this a truth value, decided or not, rather than a number?"""
    return isinstance(value, bool) or hasattr(value, "surely") or getattr(value, "dtype", None) == np.bool_


def refuse_flags(operation: str, values: Sequence[Any]) -> None:
    """Refuse operations on truth values alone whose result NumPy would not treat as numbers."""
    if all(is_flag(value) for value in values):
        raise Untraceable(f"{operation} of truth values alone has no interval version: use np.where(..., 1.0, 0.0)")


def as_interval(value: Any) -> Interval:
    """An interval as it is, a number as the interval that holds it alone; NaN is no number, so it is not defined."""
    if hasattr(value, "__interval__"):
        return value.__interval__()
    numbers = np.asarray(value, dtype=np.float64)
    return Interval(numbers, None, ~np.isnan(numbers))


def join(parts: Sequence[Any], axis: int = 0, function: Any = np.concatenate) -> Interval:
    """`np.concatenate` or `np.stack` of intervals and numbers."""
    refuse_flags(f"np.{function.__name__}", parts)
    intervals = [as_interval(part) for part in parts]
    if function is np.stack:
        shape = np.broadcast_shapes(*(part.shape for part in intervals))
        intervals = [
            Interval(*(np.broadcast_to(end, shape) for end in (part.lo, part.hi)), part.defined) for part in intervals
        ]
    defined = [np.broadcast_to(part.defined, part.shape) for part in intervals]
    return Interval(
        function([part.lo for part in intervals], axis=axis),
        function([part.hi for part in intervals], axis=axis),
        function(defined, axis=axis),
    )


FUNCTIONS.update(
    {
        np.sum: lambda a, *args, **kwargs: a.sum(*args, **kwargs),
        np.stack: lambda *args, **kwargs: join(*args, **kwargs, function=np.stack),
        np.concatenate: lambda *args, **kwargs: join(*args, **kwargs, function=np.concatenate),
    }
)
