"""Turn a claim into a certificate, with the strongest status that the target allows."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from ..errors import InputError
from ..targets import Status, Target, Unanswerable
from .branch_and_bound import Outcome, Progress, bound_error
from .certificate import Certificate, Claim
from .rounding import kernel_assumption, rounding_parts
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
    goal: float | None = None,
    proof: bool = True,
    seed: int = 0,
    time_limit: float = float("inf"),
    progress: Callable[[Progress], None] | None = None,
) -> Certificate:
    """Bound the error of a claim. With `eps` the work stops as soon as the bound is at most eps.

    `goal` is the part of eps left for the construction; by default what rounding leaves over.
    """
    target = claim.target
    if target is None:
        raise InputError("a claim without its target cannot be certified")
    rounding, by_input = rounding_parts(claim.network, claim.domain)
    if goal is None and eps is not None:
        goal = eps - rounding - by_input
    points = max(64, min(SEARCH_POINTS, SEARCH_WORK // max(claim.network.tokens, 1)))
    found, spent = _search(target, claim, points, seed)
    outcome = None
    if proof and not (eps is not None and found > eps):
        outcome = _prove(target, claim, goal, time_limit, progress)
    parts = {
        "construction": found if outcome is None else outcome.bound,
        "rounding": 0.0 if outcome is None else rounding,
        "input": 0.0 if outcome is None else by_input,
    }
    if outcome is not None and not isfinite(outcome.bound) and outcome.found > (goal or 0.0):
        raise InputError(
            f"the target must be bounded and continuous on the whole domain, but {target.explain(outcome.worst)}",
            remedy="Shrink the domain, or change the formula there.",
        )
    edge = () if outcome is None or outcome.defined else (EDGE_ASSUMPTION,)
    kernel = () if outcome is None else (kernel_assumption(claim.network.dtype),)
    return Certificate(
        bound=sum(parts.values()) * (1 + 2.0**-50),
        status=Status.ESTIMATED if outcome is None else target.status,
        norm="inf",
        dtype=claim.network.dtype,
        parts=parts,
        assumptions=(*target.assumptions, *kernel, *edge) if outcome is not None else (),
        found=found if outcome is None else max(found, outcome.found if target.status is Status.PROVED else 0.0),
        effort={"boxes": 0 if outcome is None else outcome.boxes, "points": spent},
        seed=seed,
        claim=claim,
    )


def _prove(
    target: Target,
    claim: Claim,
    goal: float | None,
    time_limit: float,
    progress: Callable[[Progress], None] | None,
) -> Outcome | None:
    """Branch and bound, or None where the target cannot be enclosed."""
    if target.status is Status.ESTIMATED:
        return None
    try:
        return bound_error(target, claim.network, goal, time_limit, progress)
    except Unanswerable:
        return None


def _search(target: Target, claim: Claim, points: int, seed: int) -> tuple[float, int]:
    """Largest error found with points; nothing where the target's values are not at hand."""
    try:
        found, _, spent = largest_error(target, claim.network, points, seed)
    except Unanswerable:
        return 0.0, 0
    return found, spent
