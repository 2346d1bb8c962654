"""Mesh densities that a user declares, instead of the ones found by sampling (`singularities.py`).

A density says how closely tokens should lie along an axis; only its proportions matter. It may be a formula in the
axis's name, a function of NumPy arrays (S,) -> (S,), or numbers at equidistant places from end to end. A poor one costs
tokens, never a false certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import real_array
from ..domains.box import Box
from ..errors import InputError
from ..targets import as_target
from .potentials import Density, Mesh

Floats = npt.NDArray[np.float64]

EXAMPLE = 'Write options={"density": "1/(0.01 + abs(x))"}, or {"density": {"x": ..., "y": ...}} for several axes.'


@dataclass(frozen=True)
class DensityTuning:
    """How closely a declared density is looked at. A peak that is missed costs tokens, not truth."""

    places: int = 4097
    """Equidistant places at which a density is checked. A round number."""
    peaks: int = 32
    """Peaks among them at which the mesh gathers nodes, at most. For time."""


TUNING = DensityTuning()


def declared(density: Any, domain: Box) -> dict[int, Density]:
    """Densities by the number of their axis; `density` belongs to the only axis, or names axes.

    >>> found = declared("1/(0.1 + abs(x))", Box(-1, 1, names=("x",)))
    >>> found[0](np.array([0.0, 0.9]))
    array([10.,  1.])
    """
    axes = list(domain.axes)
    by_name = density if isinstance(density, dict) else {axes[0]: density} if len(axes) == 1 else None
    if by_name is None or not set(by_name) <= set(axes):
        got = type(density).__name__ if by_name is None else sorted(set(by_name) - set(axes))
        raise InputError(f"a density must name its axis, one of {', '.join(axes)}", got=got, remedy=EXAMPLE)
    low, high = domain.lo.ravel(), domain.hi.ravel()
    found = {}
    for name, one in by_name.items():
        k = axes.index(name)
        found[k] = _checked(_read(one, name, float(low[k]), float(high[k])), name, float(low[k]), float(high[k]))
    return found


def mesh_of(density: Density, low: float, high: float) -> Mesh:
    """The mesh of a declared density on a part of its axis."""
    places = np.linspace(low, high, TUNING.places)
    dense = density(places)
    peaks = np.flatnonzero((dense[1:-1] > dense[:-2]) & (dense[1:-1] >= dense[2:])) + 1
    highest = peaks[np.argsort(-dense[peaks], kind="stable")[: TUNING.peaks]]
    return Mesh.of(density, low, high, places[highest])


def _read(one: Any, name: str, low: float, high: float) -> Density:
    if isinstance(one, str) or callable(one):
        target = as_target(one, Box(low, high, names=(name,)))
        if target.outputs != 1:
            raise InputError(f"the density of {name} must be one number a point", got=target.output_shape)
        return lambda points: target.values(np.clip(points, low, high)[:, None])[:, 0]
    numbers = real_array(f"the density of {name}, unless it is a formula or a function,", one)
    if numbers.ndim != 1 or len(numbers) < 2:
        raise InputError(
            f"the density of {name} must be a formula, a function, or at least 2 numbers at equal distances",
            got=repr(one),
            remedy=EXAMPLE,
        )
    places = np.linspace(low, high, len(numbers))
    return lambda points: np.interp(points, places, numbers)


def _checked(density: Density, name: str, low: float, high: float) -> Density:
    places = np.linspace(low, high, TUNING.places)
    dense = density(places)
    bad = ~(np.isfinite(dense) & (dense > 0))
    if bad.any():
        k = int(np.argmax(bad))
        raise InputError(
            f"the density of {name} must be positive everywhere", got=f"{dense[k]:g} at {name} = {places[k]:g}"
        )
    return density
