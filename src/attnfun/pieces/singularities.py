"""Where a function of one variable is hard: the poles of a rational fit, and the mesh density that they need.

A head resolves an analytic function as finely as the nearest complex singularity demands. AAA finds rational
approximations whose poles gather at the singularities, branch points and kinks included, also at those outside the
interval. With poles p_k,

    m(x) = (m_0^q + Σ_k |x - p_k|^{-q})^{1/q},   q = 4,

is about one over the distance to the nearest of them, and at least m_0 = 2/(high - low). Several functions at once
are fitted through one random combination of them, which has the singularities of all.

A branch point *at* an end, as of sqrt(x) at 0, draws poles towards it, but a head needs finer resolution than the
rational function: down to where the function bends no more than the tolerance. It is told from a singularity nearby by
halving δ: the second difference `f(e) - 2 f(e + δ) + f(e + 2δ)` falls by four for a smooth function, by less here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..resources.deadline import NEVER, Deadline
from . import potentials
from .potentials import Mesh

if TYPE_CHECKING:
    from scipy.interpolate import AAA

Floats = npt.NDArray[np.float64]
Complexes = npt.NDArray[np.complex128]
Line = Callable[[Floats], Floats]
"""Values of C functions of one variable: (S,) -> (S, C)."""


@dataclass(frozen=True)
class SingularityTuning:
    """How singularities are looked for. One that is missed costs tokens, not truth."""

    first: int = 65
    """Samples before refinement. A round number."""
    last: int = 1500
    """Samples after refinement, at most. For time: fits take their cube."""
    between: int = 3
    """Samples added between neighbouring support points. By trial."""
    terms: int = 120
    """Terms of a rational function, at most. By trial."""
    exponent: int = 4
    """Exponent of the norm in which distances of several poles are put together. By trial."""
    rough: float = 1e-2
    """Poles this close, as a fraction of the width, may mean a corner. By trial."""
    closest: float = 1e-17
    """Poles closer to the interval than this fraction of its width are real singularities, seen through rounding. Below
    the roundoff of float64."""
    smooth: float = 0.3
    """Second differences of smooth functions fall by this factor at least, once the step is well below the distance
    `near` poles away. A quarter for a parabola, and some room."""
    near: int = 16
    """Steps begin at the distance of the nearest pole over this. A round number."""
    straight: float = 0.1
    """Bends smaller than this fraction of the tolerance do not matter. A round number."""


TUNING = SingularityTuning()


@dataclass(frozen=True, eq=False)
class Survey:
    """What sampling found out about functions on an interval."""

    low: float
    high: float
    poles: Complexes
    scale: float
    """Largest absolute value, or 1 if there is none but zero."""

    @property
    def rough(self) -> bool:
        """Do poles gather inside the interval, as they do at corners?"""
        near = np.abs(self.poles.imag) < TUNING.rough * (self.high - self.low)
        return bool((near & (self.poles.real > self.low) & (self.poles.real < self.high)).any())

    def mesh(self) -> Mesh:
        """A mesh as fine as the poles demand."""
        if not len(self.poles):
            return Mesh.uniform(self.low, self.high)
        coarsest, closest = 2 / (self.high - self.low), TUNING.closest * (self.high - self.low)

        def density(x: Floats) -> Floats:
            distance = np.maximum(np.abs(x[:, None] - self.poles), closest)  # (S, P)
            return (coarsest**TUNING.exponent + (distance**-TUNING.exponent).sum(axis=1)) ** (1 / TUNING.exponent)

        return Mesh.of(density, self.low, self.high, np.clip(self.poles.real, self.low, self.high))


def survey(line: Line, low: float, high: float, aim: float, deadline: Deadline = NEVER) -> Survey:
    """Sample functions where they vary until a rational fit predicts new samples to within `aim`.

    About `TUNING.between` samples go between any two support points of the fit, so the cost follows the difficulty.
    """
    turns = (1 - np.cos(np.linspace(0, np.pi, TUNING.first))) / 2
    points: Floats = np.clip(low + (high - low) * turns, low, high)
    values: Floats = line(points)  # (S, C)
    mixture = np.random.default_rng(0).normal(size=values.shape[1])
    unit = float(np.abs(values).max()) or 1.0  # SciPy squares what it is given
    values, scale, wanted = values / unit, float(np.abs(values / unit).max()), aim / unit
    tolerance = max(wanted / max(scale, 1e-300), 1e-13)
    while True:
        fit = _rational(points, values @ mixture, tolerance)
        if fit is None:
            break
        support = np.unique(np.concatenate([[low], np.real(fit.support_points), [high]]))
        shares = np.arange(1, TUNING.between + 1) / (TUNING.between + 1)
        new = np.setdiff1d((support[:-1, None] + np.diff(support)[:, None] * shares).ravel(), points)
        if not len(new) or len(points) + len(new) > TUNING.last or deadline.over:
            break
        added = line(new) / unit
        wrong = np.abs(fit(new).real - added @ mixture).max()
        points, values = np.concatenate([points, new]), np.concatenate([values, added])
        scale = max(scale, float(np.abs(values).max()))
        if wrong <= max(wanted, 1e-13 * scale) * np.abs(mixture).sum():
            break
    poles = np.empty(0, dtype=np.complex128) if fit is None else _genuine(fit, low, high, tolerance * scale)
    ends = [_at_end(line, end, poles, width, aim) for end, width in ((low, high - low), (high, low - high))]
    return Survey(low, high, np.concatenate([poles, *ends]), scale * unit or 1.0)


def _at_end(line: Line, end: float, poles: Complexes, width: float, aim: float) -> Complexes:
    """A pole that stands for a branch point at the end, none if there is not; the interval is `end .. end + width`."""
    nearest = float(np.abs(poles - end).min(initial=np.inf))
    if nearest > TUNING.rough * abs(width):
        return np.empty(0, dtype=np.complex128)
    steps = np.copysign(nearest / TUNING.near, width) * 0.5 ** np.arange(potentials.TUNING.halvings)  # (K,)
    values = line(np.concatenate([[end], end + steps, end + 2 * steps]))  # (2K+1, C)
    middle, far = values[1 : len(steps) + 1], values[len(steps) + 1 :]
    bends = np.abs(values[0] - 2 * middle + far).max(axis=1)  # (K,)
    singular = (bends[1:] > TUNING.smooth * bends[:-1]) & (bends[:-1] > TUNING.straight * aim)
    depth = len(singular) if singular.all() else int(np.argmin(singular))
    return np.array([end - steps[depth]] if depth else [], dtype=np.complex128)


def _rational(points: Floats, values: Floats, tolerance: float) -> AAA | None:
    """A rational fit, None where SciPy finds none (values that are zero but for a few make it divide 0 by 0).

    Spurious poles stay: `_genuine` drops them, and removing them would load all of scipy.stats.
    """
    from scipy.interpolate import AAA

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return AAA(points, values, rtol=tolerance, max_terms=TUNING.terms, clean_up=False)
        except (ValueError, np.linalg.LinAlgError):
            return None


def _genuine(fit: AAA, low: float, high: float, visible: float) -> Complexes:
    """Poles whose term `residue/(x - pole)` is somewhere larger than `visible`, one of each pair, none far away."""
    poles, residues = fit.poles(), fit.residues()
    distance = np.abs(poles - np.clip(poles.real, low, high))
    inside = (distance < TUNING.closest * (high - low)) & (poles.real > low) & (poles.real < high)
    seen = np.abs(residues) > visible * np.maximum(distance, TUNING.closest * (high - low))
    return poles[seen & ~inside & (poles.imag >= 0) & (distance < high - low)]
