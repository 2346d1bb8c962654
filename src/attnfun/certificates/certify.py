"""Turn a claim into a certificate, with the strongest status that the target allows."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from ..errors import InputError
from ..targets import Status, Target, Unanswerable
from .branch_and_bound import Outcome, Progress, bound_error
from .certificate import Certificate, Claim
from .rounding import ARITHMETIC
from .search import largest_error

SEARCH_POINTS = 4096
SEARCH_WORK = 20_000_000
"""Points times tokens spent on looking for large errors."""

EDGE_ASSUMPTION = (
    "the bound holds wherever the formula is defined; that it is defined on the whole domain was not proved"
)


def certify(
    claim: Claim,
    eps: float | None,
    *,
    proof: bool = True,
    seed: int = 0,
    time_limit: float = float("inf"),
    progress: Callable[[Progress], None] | None = None,
) -> Certificate:
    """Bound the error of a claim. With `eps` the work stops as soon as the bound is at most eps."""
    target = claim.target
    if target is None:
        raise InputError("a claim without its target cannot be certified")
    points = max(64, min(SEARCH_POINTS, SEARCH_WORK // max(claim.network.tokens, 1)))
    found, spent = _search(target, claim, points, seed)
    hopeless = eps is not None and found > eps
    outcome = None if hopeless or not proof else _prove(target, claim, eps, time_limit, progress)
    common = {"norm": "inf", "dtype": claim.network.dtype, "seed": seed, "claim": claim}
    if outcome is None:
        return Certificate(
            bound=found,
            status=Status.ESTIMATED,
            parts={"construction": found},
            assumptions=(),
            found=found,
            effort={"boxes": 0, "points": spent},
            **common,
        )
    if not isfinite(outcome.bound) and outcome.found > (eps or 0.0):
        raise InputError(
            f"the target must be bounded and continuous on the whole domain, but {target.explain(outcome.worst)}",
            remedy="Shrink the domain, or change the formula there.",
        )
    edge = () if outcome.defined else (EDGE_ASSUMPTION,)
    return Certificate(
        bound=outcome.bound,
        status=target.status,
        parts=outcome.parts,
        assumptions=(*target.assumptions, ARITHMETIC[claim.network.dtype].assumption, *edge),
        found=max(found, outcome.found) if target.status is Status.PROVED else found,
        effort={"boxes": outcome.boxes, "points": spent},
        **common,
    )


def _prove(
    target: Target,
    claim: Claim,
    eps: float | None,
    time_limit: float,
    progress: Callable[[Progress], None] | None,
) -> Outcome | None:
    """Branch and bound, or None where the target cannot be enclosed."""
    if target.status is Status.ESTIMATED:
        return None
    try:
        return bound_error(target, claim.network, eps, time_limit, progress)
    except Unanswerable:
        return None


def _search(target: Target, claim: Claim, points: int, seed: int) -> tuple[float, int]:
    """Largest error found with points; nothing where the target's values are not at hand."""
    try:
        found, _, spent = largest_error(target, claim.network, points, seed)
    except Unanswerable:
        return 0.0, 0
    return found, spent
