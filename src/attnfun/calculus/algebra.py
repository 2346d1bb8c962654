"""Operators on compiled networks; the work is done in `combine.py`, which is loaded when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, shown
from ..formula.functions import FUNCTIONS
from ..resources.deadline import TIME_LIMIT, Deadline

if TYPE_CHECKING:
    from ..compiled import Compiled


def combining():
    """The module that makes networks of networks, which needs all the others: loaded when a method is called."""
    from .. import combine

    return combine


class Algebra:
    """Arithmetic with compiled networks and numbers, and compositions; each a compiled network with a certificate."""

    def __array_ufunc__(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's functions of networks, as `np.maximum(net, 0)` or `np.tanh(net)`: networks with certificates.

        >>> import attnfun as af
        >>> net = af.compile("x", domain={"x": (0.5, 1)}, eps=1e-3)
        >>> np.maximum(net, 0.75).name, np.sqrt(net).certificate.status.value
        ('max(x, 0.75)', 'proved')
        """
        if method != "__call__" or kwargs:
            return NotImplemented
        return on_networks(ufunc, inputs)

    def after(self: Any, inner: Compiled) -> Compiled:
        """The composition, this network of `inner`; also written `self(inner)`."""
        return combining().composed(self, inner)

    def restrict(self: Any, domain: object) -> Compiled:
        """The same network on a part of its box, `{"x": (0, 0.5)}`; its certificate holds there too.

        `tighten` then looks for a smaller bound.
        """
        return combining().restricted(self, domain)

    def tighten(self: Any, time_limit: float | Deadline = TIME_LIMIT) -> Compiled:
        """Bound the error of the network as a whole, by boxes if need be, and keep the smaller bound."""
        return combining().tightened(self, time_limit)

    def __add__(self: Any, other: Any) -> Compiled:
        return combining().total(self, other)

    __radd__ = __add__

    def __sub__(self: Any, other: Any) -> Compiled:
        return combining().total(self, other, sign=-1.0)

    def __rsub__(self: Any, other: Any) -> Compiled:
        return -self + other

    def __neg__(self: Any) -> Compiled:
        return combining().product(self, -1.0)

    def __mul__(self: Any, other: Any) -> Compiled:
        return combining().product(self, other)

    __rmul__ = __mul__

    def __truediv__(self: Any, other: Any) -> Compiled:
        return combining().quotient(self, other)

    def __rtruediv__(self: Any, other: Any) -> Compiled:
        return combining().quotient(other, self)

    def __pow__(self: Any, exponent: Any) -> Compiled:
        return combining().power(self, exponent)

    def __rpow__(self: Any, base: Any) -> Compiled:
        return combining().power(base, self)

    def __abs__(self: Any) -> Compiled:
        return combining().function("abs", self)

    def __pos__(self: Any) -> Compiled:
        return self

    def __lt__(self: Any, other: Any) -> bool:
        """Python's max(), min() and sorted() call this and can give no network back."""
        raise InputError(
            "networks cannot be ordered by max(), min() or sorted()",
            got=" and ".join(getattr(each, "name", None) or shown(each) for each in (self, other)),
            remedy="Write np.maximum(f, g) or np.minimum(f, g).",
        )

    __le__ = __gt__ = __ge__ = __lt__

    def maximum(self: Any, other: Any) -> Compiled:
        """The larger of two values, of networks or numbers; also written `np.maximum(net, other)`."""
        return combining().function("max", self, other)

    def minimum(self: Any, other: Any) -> Compiled:
        """The smaller of two values, of networks or numbers; also written `np.minimum(net, other)`."""
        return combining().function("min", self, other)


def on_networks(ufunc: np.ufunc, operands: tuple[Any, ...]) -> Any:
    """One of NumPy's functions of networks and numbers; NotImplemented where formulas do not know it."""
    combine = combining()
    known = {np.add: combine.total, np.multiply: combine.product, np.divide: combine.quotient, np.power: combine.power}
    if ufunc is np.subtract:
        first, second = operands
        return first - second if isinstance(first, Algebra) else -second + first
    if ufunc is np.negative:
        return -operands[0]
    if ufunc is np.positive:
        return operands[0]
    if ufunc in (np.add, np.multiply) and not isinstance(operands[0], Algebra):
        return known[ufunc](operands[1], operands[0])
    if ufunc in known:
        return known[ufunc](*operands)
    names = [each.name for each in FUNCTIONS.values() if each.values is ufunc]
    return combine.function(names[0], *operands) if names else NotImplemented
