"""What scaling by the root of a head's size costs: roundings of scores in stock attention."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..network import Attention
from ..network.stock import EXACT, stock_size


@dataclass(frozen=True, eq=False)
class Hosted(Attention):
    """A layer that lives in attention whose heads have another size than those it would be emitted in."""

    scaling: int = 0
    """Roundings that scaling may add to a score there."""

    @classmethod
    def within(cls, layer: Attention, scaling: int) -> Hosted:
        """The same layer where scores have so many roundings more."""
        return cls(**{field.name: getattr(layer, field.name) for field in fields(Attention)}, scaling=scaling)


def scaling_roundings(layer: Attention) -> int:
    """Roundings that stock attention may add to a score by scaling queries and keys, two each where it is not exact."""
    own = 0 if stock_size(layer) in (1, EXACT) else 4
    return max(layer.scaling, own) if isinstance(layer, Hosted) else own


def roundings_in(size: int) -> int:
    """The same for heads of any size s, whose query weights hold √s times what they should hold.

    A power of four has an exact root, so that only `s^(-1/4)` is rounded, as above. Else √s is, and the weight with it,
    and a product with a weight that is no longer a power of two: three roundings. Then 1/√s (two more, which a square
    root halves), its square root and a product with it, on either side: three each. In coarse arithmetic the factors
    are float64 and count less.
    """
    if size in (1, EXACT):
        return 0
    return 4 if size & (size - 1) == 0 and size.bit_length() % 2 else 9
