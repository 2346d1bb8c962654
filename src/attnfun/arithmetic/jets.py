"""Truncated Taylor series in several variables whose coefficients are intervals, vectorised [T 9.3], [T 9.4].

A `Jet` of shape S holds, for each element, the coefficients of all monomials up to the degree of its basis, as midpoint
and radius. Operations enclose the coefficients of the result: running a formula on the variables of a box centre gives
its Taylor coefficients there; running it on variables whose constant term is the whole box encloses the coefficients at
every point of the box, and those of top degree are the Lagrange remainder.

A radius that is not finite means that nothing is known of a coefficient (a kink, a jump, a pole, a place where the
function is not defined). A product too small for a float is not nothing: wherever neither factor is exactly zero, the
radius is at least `TINY`.

Only numbers become constant series. An interval may be the range of something that varies, so it is not taken for a
constant; a comparison of series is a `Condition`, which is constant where it is decided on the whole box and unknown
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from . import directed
from .basis import Basis, basis
from .directed import ULP, Floats
from .interval import Interval, Untraceable, is_flag, refuse_flags
from .truth import LOGIC, TruthValues, as_truth

UFUNCS: dict[str, Callable[..., Any]] = {}
"""NumPy functions on series by name, filled by `jet_functions.py`."""

TINY = 1e-300
"""More than all that underflow can take from a sum of products."""


class Jet:
    """An array of Taylor series with interval coefficients.

    >>> x = variables(Interval([[0.5]]), degree=3)[:, 0]
    >>> np.exp(x).mid.round(4)
    array([[1.6487, 1.6487, 0.8244, 0.2748]])
    """

    __slots__ = ("basis", "degree", "mid", "rad")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, base: Basis, mid: Floats, rad: Floats, degree: int | None = None) -> None:
        lost = ~(np.isfinite(mid) & np.isfinite(rad))
        if lost.any():
            mid, rad = np.where(lost, 0.0, mid), np.where(lost, np.inf, rad)
        self.basis, self.mid, self.rad = base, mid, rad  # (*S, C)
        self.degree = base.degree if degree is None else min(degree, base.degree)

    @classmethod
    def constant(cls, base: Basis, value: Interval) -> Jet:
        """Series without higher terms of numbers known within `value`; unknown where that is not defined."""
        mid, rad = (np.moveaxis(np.zeros((base.size, *value.shape)), 0, -1) for _ in range(2))  # rows, see below
        mid[..., 0], rad[..., 0] = value.mid, np.where(value.defined, value.radius, np.inf)
        return cls(base, mid, rad, 0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of series."""
        return self.mid.shape[:-1]

    @property
    def ndim(self) -> int:
        """Number of axes of the array of series."""
        return self.mid.ndim - 1

    @property
    def value(self) -> Interval:
        """The constant terms."""
        mid, rad = self.mid[..., 0], self.rad[..., 0]
        return Interval(directed.add_down(mid, -rad), directed.add_up(mid, rad))

    def __len__(self) -> int:
        return len(self.mid)

    def __getitem__(self, index: Any) -> Jet:
        index = (*index, slice(None)) if isinstance(index, tuple) else (index, Ellipsis)
        return Jet(self.basis, self.mid[index], self.rad[index], self.degree)

    def reshape(self, *shape: Any) -> Jet:
        """The same series in another shape."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        size = self.basis.size
        return Jet(self.basis, self.mid.reshape(*wanted, size), self.rad.reshape(*wanted, size), self.degree)

    def transpose(self, *axes: int) -> Jet:
        """The array with its axes in another order."""
        last = len(axes)
        return Jet(self.basis, self.mid.transpose(*axes, last), self.rad.transpose(*axes, last), self.degree)

    def linear(self, weight: Floats, bias: Floats) -> Jet:
        """`x weight + bias` over the last axis of the array: (..., d) -> (..., m). Selections are exact."""
        slack = (2 * len(weight) + 6) * ULP
        picks = ((weight != 0).sum(axis=0) <= 1) & np.isin(weight, (0.0, 1.0, -1.0)).all(axis=0) & (bias == 0)  # (m,)
        size, mid = np.abs(weight), np.swapaxes(np.swapaxes(self.mid, -1, -2) @ weight, -1, -2)
        with np.errstate(invalid="ignore"):
            reach = np.swapaxes(np.swapaxes(self.rad, -1, -2) @ size, -1, -2) * (1 + slack)
            spent = np.swapaxes(np.swapaxes(np.abs(self.mid), -1, -2) @ (size * ~picks), -1, -2) * slack
        rad = reach + spent * (1 + slack)
        alone = (mid[..., 0] == 0) & (rad[..., 0] == 0)  # 0 + bias is exact
        rad[..., : self.basis.count(self.degree)] += TINY
        rad[..., 0] += np.where(alone, 0.0, slack * np.abs(bias))
        mid[..., 0] += bias
        return Jet(self.basis, mid, rad, self.degree)

    def sum(self, axis: int, out: None = None) -> Jet:
        """Sum along an axis of the array."""
        del out
        axis = axis % len(self.shape)
        slack = (self.shape[axis] + 2) * ULP
        rad = self.rad.sum(axis) * (1 + slack) + slack * np.abs(self.mid).sum(axis)
        return Jet(self.basis, self.mid.sum(axis), rad, self.degree)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Jet:
        name = ufunc.__name__
        if method == "reduce" and name == "add" and set(kwargs) <= {"axis"}:
            return inputs[0].sum(kwargs.get("axis", 0))
        if method == "__call__" and name in LOGIC and not kwargs and all(is_flag(value) for value in inputs):
            return Condition(self.basis, LOGIC[name](*(truth_of(value) for value in inputs)))
        if method != "__call__" or kwargs or name not in UFUNCS:
            raise Untraceable(f"np.{name} has no Taylor series here")
        refuse_flags(f"np.{name}", inputs)
        return UFUNCS[name](*(as_jet(self.basis, value) for value in inputs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Jet:
        del types
        if function in (np.stack, np.concatenate):
            return join(*args, **kwargs, function=function)
        if function is np.sum:
            return args[0].sum(*args[1:], **kwargs)
        if function is np.where:
            return where(self.basis, *args, **kwargs)
        if function in (np.all, np.any) and is_flag(args[0]):
            return getattr(args[0], function.__name__)(*args[1:], **kwargs)
        raise Untraceable(f"np.{function.__name__} has no Taylor series here")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Untraceable("a Taylor series cannot become an array of numbers")

    def __bool__(self) -> bool:
        raise Untraceable("a branch on a value has no meaning on a Taylor series")

    def __add__(self, other: Any) -> Jet:
        return np.add(self, other)  # type: ignore[return-value]

    def __sub__(self, other: Any) -> Jet:
        return np.subtract(self, other)  # type: ignore[return-value]

    def __mul__(self, other: Any) -> Jet:
        return np.multiply(self, other)  # type: ignore[return-value]

    def __truediv__(self, other: Any) -> Jet:
        return np.divide(self, other)  # type: ignore[return-value]

    def __pow__(self, other: Any) -> Jet:
        return np.power(self, other)  # type: ignore[return-value]

    def __radd__(self, other: Any) -> Jet:
        return np.add(other, self)  # type: ignore[return-value]

    def __rsub__(self, other: Any) -> Jet:
        return np.subtract(other, self)  # type: ignore[return-value]

    def __rmul__(self, other: Any) -> Jet:
        return np.multiply(other, self)  # type: ignore[return-value]

    def __rtruediv__(self, other: Any) -> Jet:
        return np.divide(other, self)  # type: ignore[return-value]

    def __rpow__(self, other: Any) -> Jet:
        return np.power(other, self)  # type: ignore[return-value]

    def __lt__(self, other: Any) -> Condition:
        return np.less(self, other)  # type: ignore[return-value]

    def __le__(self, other: Any) -> Condition:
        return np.less_equal(self, other)  # type: ignore[return-value]

    def __gt__(self, other: Any) -> Condition:
        return np.greater(self, other)  # type: ignore[return-value]

    def __ge__(self, other: Any) -> Condition:
        return np.greater_equal(self, other)  # type: ignore[return-value]

    def __eq__(self, other: object) -> Any:
        return np.equal(self, other)  # type: ignore[call-overload]

    def __ne__(self, other: object) -> Any:
        return np.not_equal(self, other)  # type: ignore[call-overload]

    def __neg__(self) -> Jet:
        return Jet(self.basis, -self.mid, self.rad, self.degree)

    def __pos__(self) -> Jet:
        return self

    def __abs__(self) -> Jet:
        return np.abs(self)  # type: ignore[return-value]


def variables(points: Interval, degree: int) -> Jet:
    """The coordinates of boxes or points (B, D) as series: `x_k + t_k`, shape (B, D)."""
    count = points.shape[1]
    base = basis(count, degree)
    jet = Jet.constant(base, points)
    jet.mid[:, np.arange(count), 1 + np.arange(count)] = 1.0
    return Jet(base, jet.mid, jet.rad, 1)


class Condition(Jet):
    """A comparison of series as the number 0 or 1: constant where it is decided on the whole box, unknown elsewhere.

    >>> x = variables(Interval([[0.0], [0.0]], [[0.4], [0.6]]), degree=2)[:, 0]
    >>> (x < 0.5).mid[:, 0], np.isinf((2.0 * (x < 0.5)).rad).any(axis=1)
    (array([1., 0.]), array([False,  True]))
    """

    __slots__ = ("truth",)

    def __init__(self, base: Basis, truth: TruthValues) -> None:
        decided = (truth.surely | ~truth.possibly) & truth.defined
        mid, rad = np.zeros((*truth.shape, base.size)), np.zeros((*truth.shape, base.size))
        mid[..., 0] = truth.surely
        rad[~decided] = np.inf
        super().__init__(base, mid, rad, 0 if decided.all() else None)
        self.truth = truth

    @property
    def surely(self) -> npt.NDArray[np.bool_]:
        """Where it holds on the whole box."""
        return self.truth.surely

    def __getitem__(self, index: Any) -> Condition:
        return Condition(self.basis, self.truth[index])

    def reshape(self, *shape: Any) -> Condition:
        """The same comparisons in another shape."""
        return Condition(self.basis, self.truth.reshape(*shape))

    def all(self, axis: int | None = None) -> Condition:
        """Are all true along an axis?"""
        return Condition(self.basis, self.truth.all(axis))

    def any(self, axis: int | None = None) -> Condition:
        """Is any true along an axis?"""
        return Condition(self.basis, self.truth.any(axis))

    def __and__(self, other: Any) -> Condition:
        return np.bitwise_and(self, other)  # type: ignore[call-overload]

    def __or__(self, other: Any) -> Condition:
        return np.bitwise_or(self, other)  # type: ignore[call-overload]

    def __invert__(self) -> Condition:
        return Condition(self.basis, ~self.truth)

    __rand__, __ror__ = __and__, __or__


def as_jet(base: Basis, value: Any) -> Jet:
    """A series as it is, a number as a constant one. The range of something that varies is refused."""
    if isinstance(value, Jet):
        return value
    if hasattr(value, "__interval__"):
        raise Untraceable("an interval is not a Taylor series: nothing is known of its derivatives")
    return Jet.constant(base, Interval(value))


def truth_of(value: Any) -> TruthValues:
    """A comparison of series, flags, or the question whether a series is not zero."""
    if isinstance(value, Condition):
        return value.truth
    return as_truth(value.value if isinstance(value, Jet) else value)


def compared(comparison: Callable[[Interval, Interval], TruthValues], a: Jet, b: Jet) -> Condition:
    """A comparison of the values of two series, on whole boxes; undefined where one of them is not known."""
    first, second = a.value, b.value
    known = np.isfinite(first.magnitude) & np.isfinite(second.magnitude)
    truth = comparison(first, second)
    return Condition(a.basis, TruthValues(truth.surely, truth.possibly, truth.defined & known))


def join(parts: Any, axis: int = 0, function: Any = np.concatenate) -> Jet:
    """`np.concatenate` or `np.stack` of series and constants."""
    refuse_flags(f"np.{function.__name__}", parts)
    base = next(part.basis for part in parts if isinstance(part, Jet))
    jets = [as_jet(base, part) for part in parts]
    axis = axis - 1 if axis < 0 else axis
    if function is np.stack:
        shape = np.broadcast_shapes(*(jet.mid.shape for jet in jets))
        mids, rads = ([np.broadcast_to(getattr(jet, end), shape) for jet in jets] for end in ("mid", "rad"))
    else:
        mids, rads = [jet.mid for jet in jets], [jet.rad for jet in jets]
    degree = max(jet.degree for jet in jets)
    return Jet(base, function(mids, axis=axis), function(rads, axis=axis), degree)


def pick(first: Any, second: Any, a: Jet, b: Jet) -> Jet:
    """`a` where `first`, `b` where `second`; nothing is known where neither is certain.

    Nor where both are: two functions that meet at the centre of a box need not agree around it.
    """
    base, both = a.basis, first & second
    first, second = first & ~both, second & ~both
    mid = np.where(first[..., None], a.mid, np.where(second[..., None], b.mid, 0.0))
    rad = np.where(first[..., None], a.rad, np.where(second[..., None], b.rad, np.inf))
    return Jet(base, mid, rad, max(a.degree, b.degree) if (first | second).all() else None)


def where(base: Basis, condition: Any, a: Any, b: Any) -> Jet:
    """The branch that is certain, or both if they are one series [T 9.4]; where none is, nothing is known."""
    refuse_flags("np.where", (a, b))
    truth = truth_of(condition)
    if a is b and isinstance(condition, Condition):
        return pick(truth.defined, np.zeros_like(truth.defined), as_jet(base, a), as_jet(base, b))
    return pick(truth.surely & truth.defined, ~truth.possibly & truth.defined, as_jet(base, a), as_jet(base, b))
