"""Turn a claim into a certificate, with the strongest status that the target allows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from math import inf, isfinite, isinf
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..targets import Status, Target, Unanswerable
from .branch_and_bound import Outcome, Progress, bound_error
from .certificate import Certificate, Claim
from .rounding import ARITHMETIC
from .search import largest_error, mean_error

SEARCH_POINTS = 4096
SEARCH_WORK = 20_000_000
"""Points times tokens spent on looking for large errors."""

EDGE_ASSUMPTION = (
    "the bound holds wherever the formula is defined; that it is defined on the whole domain was not proved"
)


@dataclass(frozen=True)
class Effort:
    """How a proof is run: limits, workers, who is told, and where its state is kept."""

    time_limit: float = inf
    progress: Callable[[Progress], None] | None = None
    executor: Executor | None = None
    checkpoint: str | Path | None = None


def certify(
    claim: Claim,
    eps: float | None,
    *,
    norm: float = inf,
    proof: bool = True,
    seed: int = 0,
    effort: Effort | None = None,
) -> Certificate:
    """Bound the error of a claim. With `eps` the work stops as soon as the bound is at most eps."""
    target = claim.target
    if target is None:
        raise InputError("a claim without its target cannot be certified")
    found, spent = _search(target, claim, norm, seed)
    hopeless = isinf(norm) and eps is not None and found > eps
    outcome = None if hopeless or not proof else _prove(target, claim, eps, norm, effort or Effort())
    common: dict[str, Any] = {"norm": norm, "dtype": claim.network.dtype, "seed": seed, "claim": claim}
    if outcome is None:
        return Certificate(
            bound=found,
            status=Status.ESTIMATED,
            parts={"construction": found},
            assumptions=target.assumptions if target.status is Status.ESTIMATED else (),
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
        found=max(found, outcome.found) if target.status is Status.PROVED and isinf(norm) else found,
        effort={"boxes": outcome.boxes, "points": spent},
        **common,
    )


def _prove(target: Target, claim: Claim, eps: float | None, norm: float, effort: Effort) -> Outcome | None:
    """Branch and bound, or None where the target cannot be enclosed."""
    if target.status is Status.ESTIMATED:
        return None
    try:
        return bound_error(
            target,
            claim.network,
            eps,
            effort.time_limit,
            effort.progress,
            norm=norm,
            executor=effort.executor,
            checkpoint=effort.checkpoint,
        )
    except Unanswerable:
        return None


def _search(target: Target, claim: Claim, norm: float, seed: int) -> tuple[float, int]:
    """The error found with points; nothing where the target's values are not at hand."""
    points = max(64, min(SEARCH_POINTS, SEARCH_WORK // max(claim.network.tokens, 1)))
    try:
        if isinf(norm):
            found, _, spent = largest_error(target, claim.network, points, seed)
            return found, spent
        return mean_error(target, claim.network, points, seed, norm), points
    except Unanswerable:
        return 0.0, 0
