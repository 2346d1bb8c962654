"""One theorem a file, found by name."""

from __future__ import annotations

from ..errors import InputError
from .base import Construction, Plan
from .grid import GridConstruction
from .spectral import SpectralConstruction

REGISTRY: dict[str, Construction] = {
    construction.name: construction for construction in (GridConstruction(), SpectralConstruction())
}
"""Every construction by its public name."""

__all__ = ["REGISTRY", "Construction", "Plan", "find"]


def find(name: str) -> Construction:
    """The construction called `name`; "auto" is the one that serves every target."""
    wanted = GridConstruction.name if name == "auto" else name
    if wanted not in REGISTRY:
        raise InputError(f"construction must be auto or one of {', '.join(REGISTRY)}", got=repr(name))
    return REGISTRY[wanted]
