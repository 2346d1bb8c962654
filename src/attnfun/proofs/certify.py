"""Turn a claim into a certificate, with the strongest status that the target allows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from math import inf, isfinite, isinf
from pathlib import Path

import numpy as np

from ..arguments import folder, function, instance
from ..arithmetic.directed import multiply
from ..arithmetic.formats import FORMATS
from ..deadline import NEVER, Deadline
from ..errors import InputError, SoundnessError, TimeLimitReached
from ..memory import UNLIMITED, Memory
from ..network import Attention, Network
from ..network.layers import tokens_read
from ..targets import SamplesTarget, Status, Target, Unanswerable
from ..targets.base import BOUNDED
from ..targets.samples import mean_over_rows
from .branch_and_bound import WITHIN, Outcome, Progress, bound_error
from .certificate import EDGE_ASSUMPTION, Certificate, Claim
from .combined import bound_by_parts, refuse_values_outside
from .overflow import refuse_overflow
from .planes import bound_by_planes
from .points import Floats, refuse_beaten
from .rewriting import with_banks
from .ridges import bound_by_ridges
from .search import Found, largest_error, mean_error, network_rows, worth
from .structure import bound_by_structure
from .wiring import bound_by_circuit

SEARCH_POINTS = 4096
SEARCH_WORK = 20_000_000
"""Points times tokens spent on looking for large errors."""
MOST_VARIABLES = 3
"""Branch and bound is tried beside an argument by structure up to this many variables."""
SHARE = 0.2
"""It then gets this share of the time."""


@dataclass(frozen=True)
class Effort:
    """How a proof is run: limits, workers, who is told, and where its state is kept."""

    deadline: Deadline = NEVER
    progress: Callable[[Progress], None] | None = None
    executor: Executor | None = None
    checkpoint: str | Path | None = None
    memory: Memory = UNLIMITED

    def __post_init__(self) -> None:
        instance("deadline", self.deadline, Deadline, "an attnfun.deadline.Deadline")
        function("progress", self.progress)
        instance("executor", self.executor, Executor, "a concurrent.futures.Executor")
        folder("checkpoint", self.checkpoint)


def certify(
    claim: Claim,
    eps: float | None,
    *,
    norm: float = inf,
    proof: bool = True,
    seed: int = 0,
    effort: Effort | None = None,
) -> Certificate:
    """Bound the error of a claim. With `eps` the work stops as soon as the bound is at most eps.

    When the deadline is over the bound is the one proved by then; TimeLimitReached, with an estimate, if there is
    none. What was proved holds whatever the clock did. What treats all tokens of a sequence alike is certified on one
    of them.
    """
    if isinf(norm) and (one := claim.of_one_token()) is not claim:
        return replace(certify(one, eps, norm=norm, proof=proof, seed=seed, effort=effort), claim=claim)
    target = claim.target
    if target is None:
        raise InputError("a claim without its target cannot be certified")
    if proof and target.status is not Status.ESTIMATED:
        refuse_overflow(claim.network, claim.domain)
    effort = effort or Effort()
    with target.until(effort.deadline):
        found = _search(target, claim, norm, seed, effort.deadline)
        hopeless = isinf(norm) and eps is not None and found.error > eps
        try:
            outcome = None if hopeless or not proof else _prove(target, claim, eps, norm, effort, found.error)
        except TimeLimitReached as late:
            late.estimate = _issued(claim, target, None, found, eps, norm, seed)
            raise
    return _issued(claim, target, outcome, found, eps, norm, seed)


def combine(claim: Claim) -> Certificate:
    """The certificate of a network made of others, from theirs as they are; estimated if one of them is."""
    target, norm, seed = claim.target, claim.parts[0].norm, claim.parts[0].seed
    if target is None:
        raise InputError(
            "networks can be combined if their functions are at hand",
            got=repr(claim.description["name"]),
            remedy="Compile them anew: the code of a Python function is not in a file.",
        )
    for part in claim.parts:
        if part.claim.target is not None and not part.claim.target.evaluable:
            raise InputError(
                "networks can be combined if their functions have values everywhere",
                got=repr(part.claim.target),
                remedy="Combine the data instead, and compile them.",
            )
    estimated = Status.ESTIMATED in (part.status for part in claim.parts)
    if estimated:
        refuse_values_outside(claim, seed)
    else:
        refuse_overflow(claim.network, claim.domain)
    outcome = None if estimated else bound_by_parts(claim, target, norm)
    found = _search(target, claim, norm, seed, NEVER)
    return _issued(claim, target, outcome, found, None, norm, seed)


def _issued(
    claim: Claim,
    target: Target,
    outcome: Outcome | None,
    search: Found,
    eps: float | None,
    norm: float,
    seed: int,
) -> Certificate:
    """What was proved, or found, put down; an error if a point found, or the certificate itself, contradicts it.

    In the sup norm `found` of a proof is the largest error that the points surely have (`points.py`).
    """
    found, status, edge = search.error, Status.ESTIMATED, False
    if outcome is not None:
        _refuse_unbounded(target, outcome, eps)
        edge = not outcome.defined
        status = Status.weakest([target.status, Status.CONDITIONAL]) if edge else target.status
        if isinf(norm):
            found = refuse_beaten(target, claim.network, outcome.bound, _doubtful(target, outcome, search))
    known = () if status is Status.ESTIMATED is not target.status else target.assumptions
    unseen = search.unseen if isinf(norm) and target.evaluable else 0
    certificate = Certificate(
        bound=found if outcome is None else outcome.bound,
        status=status,
        norm=norm,
        parts={"construction": found} if outcome is None else outcome.parts,
        assumptions=assumptions_of(known, claim.network.dtype, status, edge=edge, unseen=unseen),
        found=found,
        effort={"boxes": outcome.boxes if outcome else 0, "points": search.points, "random": search.unseen},
        seed=seed,
        claim=claim,
        stopped="" if outcome is None else outcome.stopped,
    )
    if contradiction := certificate.contradiction():
        raise SoundnessError("a certificate must not contradict itself", got=contradiction)
    return certificate


def _refuse_unbounded(target: Target, outcome: Outcome, eps: float | None) -> None:
    if not isfinite(outcome.bound) and outcome.found > (eps or 0.0):
        raise InputError(
            f"the target must be bounded and continuous on the whole domain, but {target.explain(outcome.worst)}",
            remedy=BOUNDED,
        )


def _doubtful(target: Target, outcome: Outcome, search: Found) -> Floats:
    """The worst points that the search found, and the centre of the worst box, (K, D)."""
    centre = outcome.worst.mid  # (1, D)
    return np.concatenate([search.worst, centre[target.domain.contains(centre)]])


def assumptions_of(
    claimed: tuple[str, ...], dtype: str, status: Status, *, edge: bool = False, unseen: int = 0
) -> tuple[str, ...]:
    """What a proof takes for granted, or notes about what an estimate from random points is worth.

    `claimed` is what the target itself takes for granted, or says about why it is estimated.
    """
    if status is Status.ESTIMATED:
        return (*claimed, worth(unseen)) if unseen else claimed
    edges = (EDGE_ASSUMPTION,) if edge else ()
    return (*claimed, FORMATS[dtype].assumption, *edges)


def _prove(
    target: Target, claim: Claim, eps: float | None, norm: float, effort: Effort, found: float
) -> Outcome | None:
    """The network's structure, branch and bound, or None where the target cannot be enclosed."""
    if Status.ESTIMATED in (target.status, *(part.status for part in claim.parts)):
        return None
    enough = WITHIN * found if eps is None else eps
    by_structure = _by_parts(target, claim, norm, effort) if claim.parts else None
    if by_structure is None or by_structure.bound > enough:
        ways = by_structure, _by_structure(target, claim, eps, norm, effort)
        by_structure = min((way for way in ways if way), key=lambda way: way.bound, default=None)
    if by_structure is not None and (by_structure.bound <= enough or target.domain.size > MOST_VARIABLES):
        return by_structure
    if by_structure is not None:
        effort = replace(effort, deadline=effort.deadline.share(SHARE))
    try:
        outcome = _by_boxes(target, claim, eps, norm, effort)
    except TimeLimitReached:
        if by_structure is None:
            raise
        outcome = None
    return min((way for way in (by_structure, outcome) if way), key=lambda way: way.bound, default=None)


def _by_parts(target: Target, claim: Claim, norm: float, effort: Effort) -> Outcome:
    """From the certificates of the parts, which are proved again."""
    parts = tuple(part.again(part.claim.with_target(None), effort) for part in claim.parts)
    return bound_by_parts(replace(claim, parts=parts), target, norm)


def _by_structure(target: Target, claim: Claim, eps: float | None, norm: float, effort: Effort) -> Outcome | None:
    """A layer-by-layer argument where there is one; an L_p error is at most the largest times |Ω|^{1/p}."""
    factor, found = target.domain.root_volume(norm), list[Outcome]()
    goal, part = None if eps is None else eps / factor, effort.deadline.share(SHARE)
    for argue in (
        lambda: bound_by_structure(target, claim.network),
        lambda: bound_by_circuit(target, claim.network, goal, effort.deadline),
        lambda: bound_by_ridges(target, claim.network, goal, part),
        lambda: bound_by_planes(target, claim.network, goal, part),
    ):
        if effort.deadline.over:
            break
        try:
            found.append(argue())
        except (Unanswerable, TimeLimitReached):  # some have a share of the time only
            continue
        if goal is not None and found[-1].bound <= goal:
            break
    if not found:
        effort.deadline.check("the proof")
        return None
    best = min(found, key=lambda outcome: outcome.bound)
    if isinf(norm):
        return best
    bound, *parts = multiply(np.array([best.bound, *best.parts.values()]), np.array(factor))[1].tolist()
    return replace(best, bound=bound, parts=dict(zip(best.parts, parts, strict=True)))


def _by_boxes(target: Target, claim: Claim, eps: float | None, norm: float, effort: Effort) -> Outcome | None:
    """Branch and bound, or None where the target cannot be enclosed."""
    try:
        return bound_error(
            target,
            with_banks(claim.network),
            eps,
            effort.deadline,
            effort.progress,
            norm=norm,
            executor=effort.executor,
            checkpoint=effort.checkpoint,
            memory=effort.memory,
        )
    except Unanswerable:
        return None


def _data_scores(network: Network) -> int:
    """Products in the scores between data tokens."""
    length, most = network.rows, 0
    for layer, after in zip(network.layers, [*network.layers[1:], None], strict=True):
        if isinstance(layer, Attention) and layer.attends_data and length > 1:
            most += layer.heads * length * int(tokens_read(after, length).sum()) * layer.query.shape[2]
        length = layer.length_out(length)
    return most


def _points(network: Network) -> int:
    """Random points that the search begins with."""
    return max(64, min(SEARCH_POINTS, SEARCH_WORK // max(network.tokens, _data_scores(network), 1)))


def _search(target: Target, claim: Claim, norm: float, seed: int, deadline: Deadline) -> Found:
    """The error found with points; where values are not at hand, the points that were recorded."""
    nowhere = np.empty((0, target.domain.size))
    if isinstance(target, SamplesTarget):
        return Found(_at_rows(target, claim, norm), len(target.samples.X), 0, nowhere)
    points = _points(claim.network)
    try:
        if isinf(norm):
            return largest_error(target, claim.network, points, seed, deadline)
        return mean_error(target, claim.network, points, seed, norm, deadline)
    except Unanswerable:
        recorded = nowhere if claim.samples is None else claim.samples[0]
        return Found(0.0, 0, 0, recorded[:: max(1, len(recorded) // points)])


def _at_rows(target: SamplesTarget, claim: Claim, norm: float) -> float:
    """The error at rows that were held out, or at all rows of data that nothing was fitted to here."""
    if target.study is not None:
        return target.study.error(norm)
    return mean_over_rows(network_rows(claim.network, target.samples.X) - target.samples.y, norm)
