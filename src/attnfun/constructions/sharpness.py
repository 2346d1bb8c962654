"""How sharply heads that compute a maximum select: one factor R on all scores, a power of two."""

from __future__ import annotations

from math import ceil, exp, inf, log2

from ..arguments import real_number
from ..arithmetic.formats import FORMATS
from .base import PlanRequest

RECTIFIER = 0.27846454276107380
"""W(1/e): the largest error of a two-token head that computes `max(0, z)`, times R."""
SHARPEST = 2.0**60
"""Beyond any use."""
ROOM = 2.0**6
"""How many times R fits into the largest number of the format, at least: scores are R times what is compared, times the
root of the size of a head."""
SPARE = 16.0
"""How much sharper than the aim needs, where that costs nothing."""
DEFAULT, SOFTEST = 2.0**27, 2.0**-20
MUTED = 200.0
"""Score of a muted token, below one that has weight."""


def muted(tokens: int, largest: float) -> float:
    """What `tokens` muted tokens can add to an average of values of at most `largest` [T 9.7].

    Their scores are MUTED or more below the best one's, so that their share is at most `tokens e^{-MUTED}`, and two
    values differ by at most twice the largest.
    """
    return tokens * exp(-MUTED) * 2 * largest


def sharpness(error_at_one: float, request: PlanRequest, score_at_one: float = inf) -> float:
    """R for which an error of `error_at_one / R` is at most the aim, as far as the format goes, or the R requested.

    A power of two changes no mantissa: rounding the weights and multiplying by R can be done in any order. Where
    rounding does not grow with R, R is SPARE times as large, so that nearly all of the tolerance is left to rounding;
    unless scores, which are at most `R score_at_one`, would come near the largest number of the format.
    """
    sharpest = min(SHARPEST, FORMATS[request.dtype].largest / ROOM)
    requested = request.options.get("R", min(DEFAULT, sharpest) if request.aim is None else None)
    if requested is None:
        requested = error_at_one / request.aim if request.aim else inf
        requested = max(
            requested, min(SPARE * requested, FORMATS[request.dtype].largest / (ROOM * max(score_at_one, 1e-300)))
        )
    else:
        requested = real_number("options R, the factor on the scores,", requested, above=0.0)
    return 2.0 ** ceil(log2(min(max(requested, SOFTEST), sharpest)))
