"""What the error surely is: a bound from below, where the judge does not come to the stated one [T 11.12].

A bound from above that is too large says nothing about the claim: enclosures may be coarse. A claim is false if the
error at one point is larger, or, in an L_p norm, if the errors that boxes have everywhere make up more. The box that
contributes most by its bound from above is cut first, so windows that are narrower than any grid are met as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import isinf

from flint import arb

from .covers import Box
from .errors import NotCovered, Stopped
from .files import Floats
from .models import total
from .ranges import ZERO, down, larger


@dataclass(frozen=True)
class SearchLimits:
    """How long the search for a larger error is."""

    looked: int = 128
    """Boxes that are cut, at most. A round number."""


TUNING = SearchLimits()

Sure = tuple[arb, arb]
"""How much a box contributes to the p-th power of the norm at most and at least; in the sup norm its error itself."""


def least_norm(roots: list[Box], extent: Floats, norm: float, enough: arb, sure: Callable[[Box], Sure]) -> arb:
    """At least the norm of the error; nobody needs it above `enough`, the stated one. Boxes must not overlap."""
    numbers, heap = count(), list[tuple[float, int, Box, arb]]()
    whole, worst = ZERO, ZERO

    def add(box: Box) -> arb:
        most, least = sure(box)
        heappush(heap, (-float(most) if most.is_finite() else -float("inf"), next(numbers), box, least))
        return least

    try:
        for root in roots:
            worst = larger(worst, add(root))
        for _ in range(TUNING.looked):
            whole = worst if isinf(norm) else down(total([least for *_, least in heap]) ** (1 / arb(norm)))
            halves = heap[0][2].cut(heap[0][2].longest(extent)) if heap else None
            if whole > enough or halves is None:
                break
            heappop(heap)
            for half in halves:
                worst = larger(worst, add(half))
    except (NotCovered, Stopped):  # what was found before holds
        pass
    return whole
