"""Where a function of one variable has a corner, to the last digits.

Second differences of step h are about `h J` across a corner whose slope jumps by J, and `h² f''` elsewhere. Candidates
stand out at a coarse step and keep standing out as the step is divided; then the polynomials through the samples on
either side are made to meet, which places the corner to within rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .singularities import Line

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class KinkTuning:
    """How corners are looked for. A corner that is missed costs tokens, not truth."""

    scan: int = 512
    """Intervals of the first look. A round number: narrower features are not corners but noise."""
    side: int = 5
    """Samples on either side. By trial."""
    zoom: int = 16
    """Factor between steps. By trial."""
    finest: float = 1e-7
    """Last step, as a fraction of the width. Below, second differences are rounding."""
    persists: float = 0.5
    """A corner keeps this fraction of `second difference / step` from one step to the next; a bend keeps 1/zoom. Half
    way between a corner, 1, and a bend, almost 0."""
    most: int = 24
    """Corners worth a head each. By trial: a head each."""


TUNING = KinkTuning()


def kinks(line: Line, low: float, high: float, aim: float) -> Floats:
    """Corners inside (low, high) that matter at the tolerance `aim`, in order; for functions (S,) -> (S, C)."""
    step = (high - low) / TUNING.scan
    bends = _bends(line(low + step * np.arange(TUNING.scan + 1, dtype=np.float64)))  # (scan-1,)
    highest = (bends >= np.append(bends[1:], 0.0)) & (bends >= np.append(0.0, bends[:-1]))
    peaks = np.flatnonzero(highest & (bends > max(4 * float(np.median(bends)), aim))) + 1
    found: list[float] = []
    for place in low + step * peaks:
        corner = _refined(line, float(place), step, low, high, aim)
        if corner is not None and all(abs(corner - other) > step / 4 for other in found):
            found.append(corner)
    return np.array(sorted(found)) if len(found) <= TUNING.most else np.empty(0)


def _bends(values: Floats) -> Floats:
    """Largest second differences, (S, C) -> (S-2,)."""
    return np.abs(np.diff(values, 2, axis=0)).max(axis=1)


def _refined(line: Line, place: float, step: float, low: float, high: float, aim: float) -> float | None:
    """Follow one candidate to finer steps; None if it smooths out."""
    strength = None
    while step > TUNING.finest * (high - low):
        points = place + step * np.linspace(-2, 2, 4 * TUNING.zoom + 1)
        inside = (points >= low) & (points <= high)
        step /= TUNING.zoom
        points = points[inside]
        bends = _bends(line(points))
        peak = int(np.argmax(bends))
        if strength is not None and bends[peak] / step < TUNING.persists * strength:
            return None
        strength, place = bends[peak] / step, float(points[peak + 1])
    if strength is None or strength * (high - low) < aim:
        return None
    return _meeting(line, place, step, low, high)


def _meeting(line: Line, place: float, step: float, low: float, high: float) -> float | None:
    """Where the polynomials from the left and from the right agree."""
    sides = np.arange(2, TUNING.side + 2, dtype=np.float64)  # the corner is within one step of `place`
    left, right = place - step * sides, place + step * sides
    if left[-1] < low or right[-1] > high:
        return None
    values = line(np.concatenate([left, right]))
    column = int(
        np.argmax(np.abs(values[0] - values[1] + values[TUNING.side] - values[TUNING.side + 1]))
    )  # the sharpest function
    before = np.polynomial.Polynomial.fit(-sides, values[: TUNING.side, column], TUNING.side - 1, domain=[-1, 1])
    after = np.polynomial.Polynomial.fit(sides, values[TUNING.side :, column], TUNING.side - 1, domain=[-1, 1])
    roots = (before - after).roots()
    real = roots[np.abs(roots.imag) < 1e-6].real
    close = real[np.abs(real) <= 2]
    return float(place + step * close[np.argmin(np.abs(close))]) if len(close) else None
