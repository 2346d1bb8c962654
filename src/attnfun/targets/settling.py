"""Functions that settle: what is known on an interval holds beyond it, if points outside are clipped to it [T 9.13].

>>> box, off = cut_off("exp(-x**2/2)", {"x": (-math.inf, math.inf)}, 1e-3, relative=False)
>>> box, off < 1e-4
(Box(x=-4.3125:4.3125), True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arguments import as_float
from ..arithmetic import Interval
from ..arithmetic.directed import above
from ..domains.box import Box
from ..errors import InputError, shown
from .base import Target
from .expression import Expression


@dataclass(frozen=True)
class SettlingTuning:
    """How an end for an infinite interval is chosen. What lies beyond is enclosed for the end that is chosen."""

    share: float = 0.1
    """The share of a tolerance that may be spent on what lies beyond the interval. A round number: the interval itself
    keeps most of the tolerance."""
    farthest: int = 40
    """Ends are tried below this power of two. A round number."""
    steps: int = 6
    """They are moved inwards by so many halvings. By trial."""
    samples: int = 1024
    """Points that say how large the values are. A round number."""


TUNING = SettlingTuning()

LARGEST = 2.0 ** (TUNING.farthest - 1)
"""The largest end that is tried."""


def is_open(domain: object) -> bool:
    """Is this the domain of one named variable with an infinite end?"""
    if not isinstance(domain, Mapping) or len(domain) != 1:
        return False
    (ends,) = domain.values()
    return isinstance(ends, tuple | list) and len(ends) == 2 and any(math.isinf(as_float(end)) for end in ends)


def distance_beyond(target: Target, low: float, high: float) -> float:
    """A bound on `|f(x) - f(clip(x))|` for x in [low, high], clipped to the interval on which f is a target."""
    first, last = float(target.domain.lo.ravel()[0]), float(target.domain.hi.ravel()[0])
    worst = 0.0
    for end, beyond in ((first, (low, first)), (last, (last, high))):
        if beyond[0] < beyond[1]:
            there, at = (target.enclose(Interval([[a]], [[b]])) for a, b in (beyond, (end, end)))
            off = np.abs(above(np.maximum(there.hi - at.lo, at.hi - there.lo)))
            known = np.all(there.defined) and np.all(at.defined) and np.isfinite(off).all()
            worst = max(worst, float(off.max()) if known else math.inf)
    return worst


def cut_off(text: object, domain: Mapping[str, Any], eps: float | None, *, relative: bool) -> tuple[Box, float]:
    """An interval, and how far the formula differs from its values at the ends beyond it: a share of the tolerance."""
    ((name, ends),) = domain.items()
    low, high = as_float(ends[0], -math.inf), as_float(ends[1], math.inf)
    finite = max((abs(end) for end in (low, high) if math.isfinite(end)), default=0.0)
    if not low < high or finite >= LARGEST:
        raise InputError(
            f"the ends of an open domain must be numbers with lo < hi, finite ones below {LARGEST:.3g} in size",
            got=f"({shown(ends[0])}, {shown(ends[1])}) for {name}",
            remedy="Swap the ends, or rescale the variable.",
        )
    if not isinstance(text, str) or eps is None:
        raise InputError(
            "a domain with an infinite end needs a formula and a tolerance",
            got=f"{type(text).__name__}, eps={eps}",
            remedy="Write the function as a formula and pass eps=, or give finite ends.",
        )

    def tried(size: float) -> tuple[Box, float]:
        """The interval up to this size, and the distance of the formula beyond it, as a share of what is allowed."""
        ends = max(low, -size), min(high, size)
        target = Expression(text, Box([ends[0]], [ends[1]], (name,)))
        values = target.program.values(np.linspace(*ends, TUNING.samples)[:, None])
        scale = float(np.nanmax(np.abs(values))) if relative else 1.0
        off = distance_beyond(target, low, high)
        room = TUNING.share * eps * scale
        return target.domain, off / room if room > 0 else math.inf

    sizes = [size for power in range(TUNING.farthest) if (size := 2.0**power) > finite]
    enough = next((size for size in sizes if tried(size)[1] <= 1.0), None)
    if enough is None:
        raise InputError(
            "a function must have a limit at each infinite end of its domain, proved with intervals",
            got=f"{text!r} for {name} from {low:g} to {high:g}, which still varies beyond {sizes[-1]:.3g}",
            remedy="Give finite ends.",
        )
    inner = max(enough / 2, finite)
    for _ in range(TUNING.steps):
        middle = (inner + enough) / 2
        inner, enough = (inner, middle) if tried(middle)[1] <= 1.0 else (middle, enough)
    box, _ = tried(enough)
    return box, distance_beyond(Expression(text, box), low, high)
