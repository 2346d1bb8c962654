"""Scales on which the numbers of a picture can be distinguished."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...domains.box import Box

Floats = npt.NDArray[np.float64]

NARROW = 4.0
"""Rectangles whose sides differ by more than this factor are not drawn with equal axes: they would be lines."""
DECADES, MOST_DECADES = 2.0, 6.0
"""A tenth of the errors is so many powers of ten below the largest: the scale is logarithmic; it shows so many."""


EXTREME, FAR = 0.01, 5.0
"""A share of the values at each end that may be beyond a scale around poles, and how many times longer than the rest of
the range the whole one must be for that."""


class ErrorScale(NamedTuple):
    """From the smallest error that is drawn to the largest one, on a linear or logarithmic scale."""

    low: float
    high: float
    logarithmic: bool


def error_scale(errors: Floats) -> ErrorScale:
    """The errors' own scale: it ends at the largest of them, not at a bound that may be far above.

    >>> error_scale(np.array([1.0, 2.0, 4.0]))
    ErrorScale(low=0.0, high=4.0, logarithmic=False)
    >>> error_scale(10.0 ** -np.arange(5.0))
    ErrorScale(low=0.0001, high=1.0, logarithmic=True)
    """
    known = errors[np.isfinite(errors)]
    high = float(known.max(initial=0.0))
    positive = known[known > 0]
    if high == 0.0 or np.quantile(positive, 0.1) >= high / 10**DECADES:
        return ErrorScale(0.0, high or 1.0, False)
    return ErrorScale(max(float(positive.min()), high / 10**MOST_DECADES), high, True)


def value_scale(values: Floats) -> tuple[float, float]:
    """Ends of a scale of values around poles, where the largest ones found would leave no colours for the others.

    >>> value_scale(np.linspace(0, 1, 101))
    (0.0, 1.0)
    >>> value_scale(np.append(np.linspace(0, 1, 999), 1e6))[1] < 2.0
    True
    """
    known = values[np.isfinite(values)]
    low, inner_low, inner_high, high = np.quantile(known, [0.0, EXTREME, 1 - EXTREME, 1.0]).tolist()
    room = inner_high - inner_low
    if high - low <= FAR * room:
        return low, high
    return max(low, inner_low - room / 2), min(high, inner_high + room / 2)


def aspect(domain: Box) -> Literal["equal", "auto"]:
    """Equal axes for a rectangle that is not much longer than wide: "equal" or "auto"."""
    wide, tall = (domain.hi - domain.lo).ravel()
    return "equal" if max(wide, tall) <= NARROW * min(wide, tall) else "auto"
