"""Operators on compiled networks; the work is done in `combine.py`, which is loaded when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .resources.deadline import TIME_LIMIT, Deadline

if TYPE_CHECKING:
    from .compiled import Compiled


class Algebra:
    """Sums, products and compositions of compiled networks and numbers, each a compiled network with a certificate."""

    __array_ufunc__ = None  # a NumPy number times a network is the network's business

    def after(self: Any, inner: Compiled) -> Compiled:
        """The composition, this network of `inner`; also written `self(inner)`."""
        from .combine import composed

        return composed(self, inner)

    def restrict(self: Any, domain: object) -> Compiled:
        """The same network on a part of its box, `{"x": (0, 0.5)}`; its certificate holds there too.

        `tighten` then looks for a smaller bound.
        """
        from .combine import restricted

        return restricted(self, domain)

    def tighten(self: Any, time_limit: float | Deadline = TIME_LIMIT) -> Compiled:
        """Bound the error of the network as a whole, by boxes if need be, and keep the smaller bound."""
        from .combine import tightened

        return tightened(self, time_limit)

    def __add__(self: Any, other: Any) -> Compiled:
        from .combine import total

        return total(self, other)

    __radd__ = __add__

    def __sub__(self: Any, other: Any) -> Compiled:
        from .combine import total

        return total(self, other, sign=-1.0)

    def __rsub__(self: Any, other: Any) -> Compiled:
        return -self + other

    def __neg__(self: Any) -> Compiled:
        from .combine import product

        return product(self, -1.0)

    def __mul__(self: Any, other: Any) -> Compiled:
        from .combine import product

        return product(self, other)

    __rmul__ = __mul__
