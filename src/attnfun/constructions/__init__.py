"""One theorem a file, found by name."""

from __future__ import annotations

from ..errors import InputError
from ..targets import Target
from .base import Construction, Plan, Wish
from .cross import CrossConstruction
from .grid import GridConstruction
from .spectral import SpectralConstruction

REGISTRY: dict[str, Construction] = {
    construction.name: construction
    for construction in (GridConstruction(), CrossConstruction(), SpectralConstruction())
}
"""Every construction by its public name."""

__all__ = ["REGISTRY", "Construction", "Plan", "Wish", "candidates"]


def candidates(name: str, target: Target) -> list[Construction]:
    """The constructions to consider: the one called `name`, or with "auto" all that serve the target."""
    if name == "auto":
        return [other for other in REGISTRY.values() if other.automatic and other.serves(target)]
    if name not in REGISTRY:
        raise InputError(f"construction must be auto or one of {', '.join(REGISTRY)}", got=repr(name))
    if not REGISTRY[name].serves(target):
        served = [other for other, construction in REGISTRY.items() if construction.serves(target)]
        raise InputError(
            f"the construction {name} must serve the target", got=repr(target), remedy=f"These do: {', '.join(served)}."
        )
    return [REGISTRY[name]]
