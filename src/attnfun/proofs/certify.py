"""Turn a claim into a certificate, with the strongest status that the target allows.

Provers search (`provers/`), rules conclude (`rules/`): the numbers of a certificate are those of its proof as checked.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, isinf, nextafter
from pathlib import Path

import numpy as np

from ..arguments import folder, function, instance
from ..arithmetic import Interval
from ..arithmetic.formats import FORMATS
from ..errors import InputError, ProofFailed, SoundnessError, TimeLimitReached
from ..network import Attention, Network
from ..network.layers import tokens_read
from ..resources.deadline import NEVER, Deadline, until
from ..resources.memory import UNLIMITED, Memory
from ..targets import FittedModel, SamplesTarget, Status, Target
from ..targets.base import BOUNDED
from ..targets.samples import mean_over_rows
from .certificate import Certificate
from .claim import EDGE_ASSUMPTION, Claim
from .judging import MADE_OF_OTHERS
from .overflow import refuse_overflow
from .points import Floats, refuse_beaten
from .proof import Conclusion, Proof
from .provers import PROVERS, Attempt, Outcome, Progress, Prover, Task, boxes
from .rules import VOLUME, Checker, parts
from .search import Found, largest_error, mean_error, network_rows, worth


@dataclass(frozen=True)
class CertifyTuning:
    """How effort is shared between search and proof. What is concluded is the rule's, whatever the shares."""

    search_points: int = 4096
    """Points of the search for large errors, at most. A round number."""
    search_work: int = 20_000_000
    """Points times tokens spent on looking for large errors. For time."""
    most_variables: int = 3
    """Boxes are tried beside a proof by structure up to this many variables. For time: boxes multiply with every
    variable."""
    share: float = 0.1
    """They then get this share of the counted time. By trial."""
    searching: float = 0.5
    """The part of the time left on the clock that provers have together. The rest is for checking what they found,
    which takes no longer than the search did, as every box was bounded there; so it is not interrupted, and nothing
    that was found is lost. Half each: both take about as long."""


TUNING = CertifyTuning()

SLACK = 2.0**-12
"""Another machine adds in another order, which moves what a rule concludes. Bounds are stated larger by this fraction,
so that their proofs hold there too. (Where nothing but noise is left of an error, 2e-5 was seen.)"""


@dataclass(frozen=True)
class Effort:
    """How a proof is run: limits, workers, who hears of progress, and where its state is kept."""

    deadline: Deadline = NEVER
    progress: Callable[[Progress], None] | None = None
    executor: Executor | None = None
    checkpoint: str | Path | None = None
    memory: Memory = UNLIMITED

    def __post_init__(self) -> None:
        instance("deadline", self.deadline, Deadline, "an attnfun.resources.deadline.Deadline")
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
    none. What was proved holds whatever the clock did, and a proof that time ended says so. What treats all tokens of
    a sequence alike is certified on one of them.
    """
    if isinf(norm) and (one := claim.of_one_token()) is not None:
        return certify(one, eps, norm=norm, proof=proof, seed=seed, effort=effort).for_all_tokens(claim)
    target = claim.target
    if target is None:
        raise InputError("a claim without its target cannot be certified")
    if proof and target.status is not Status.ESTIMATED and target.enclosable:
        refuse_overflow(claim.network, claim.domain)
    effort = effort or Effort()
    with until(effort.deadline):
        found, late = _search(target, claim, norm, seed, effort.deadline), effort.deadline.over
        claim = claim.observed()
        target = claim.imitated
        hopeless = isinf(norm) and eps is not None and found.error > eps
        try:
            outcome = None if hopeless or not proof else _prove(target, claim, eps, norm, effort, found.error)
            _refuse_infinite(target, outcome, eps, effort.deadline)
        except TimeLimitReached as late:
            late.estimate = _issued(claim, target, None, found, norm, seed)
            raise
    issued = _issued(claim, target, outcome, found, norm, seed)
    if proof or issued.stopped or not late:
        return issued
    return replace(issued, stopped=effort.deadline.reached("the search for large errors").reason)


def combine(claim: Claim) -> Certificate:
    """The certificate of a network made of others, from theirs as they are; estimated if one of them is."""
    target, norm, seed = claim.target, claim.parts[0].norm, claim.parts[0].seed
    if target is None:
        raise InputError(
            "networks that are combined must have the code of their functions",
            got=repr(claim.description["name"]),
            remedy="Compile them anew: the code of a Python function is not in a file.",
        )
    for part in claim.parts:
        if part.claim.target is not None and not part.claim.target.evaluable:
            raise InputError(
                "networks that are combined must have functions with values everywhere",
                got=repr(part.claim.target),
                remedy="Combine the data instead, and compile them.",
            )
    estimated = Status.ESTIMATED in (part.status for part in claim.parts)
    if estimated:
        parts.refuse_values_outside(claim, seed)
    else:
        refuse_overflow(claim.network, claim.domain)
    outcome = None if estimated else _from_certificates(claim, norm)
    _refuse_infinite(target, outcome, None, NEVER)
    found = _search(target, claim, norm, seed, NEVER)
    target = claim.imitated.observed()
    return replace(_issued(claim, target, outcome, found, norm, seed), not_judged="" if estimated else MADE_OF_OTHERS)


def checked(certificate: Certificate, effort: Effort) -> Certificate:
    """A certificate checked by its stored proof, without any search: as stated, or larger where the proof says so."""
    claim, norm = certificate.claim, certificate.norm
    if certificate.proof is None:
        raise InputError("a certificate without a stored proof cannot be checked", remedy="Prove it anew: recheck().")
    conclusion = Checker(effort.deadline, effort.executor).conclusion(certificate.proof, claim, norm)
    status = _status(claim.imitated, conclusion)
    lines = assumptions_of(claim.imitated.assumptions, claim.network.dtype, status, edge=not conclusion.defined)
    stated, allowance = certificate.bound, certificate.allowance
    bound = stated if conclusion.bound <= stated - allowance else nextafter(conclusion.bound + allowance, inf)
    each = {name: max(part, certificate.parts.get(name, 0.0)) for name, part in conclusion.parts.items()}
    return replace(certificate, bound=bound, parts={**certificate.parts, **each}, status=status, assumptions=lines)


def _status(target: Target, conclusion: Conclusion) -> Status:
    """Conditional where the target is not proved to be defined everywhere."""
    return target.status if conclusion.defined else Status.weakest([target.status, Status.CONDITIONAL])


def _from_certificates(claim: Claim, norm: float) -> Outcome:
    """What follows from the certificates of the parts as they are; there is a proof if all of them have one."""
    proofs = [part.proof for part in claim.parts if part.proof is not None]
    proof = Proof(parts.NAME, {}, tuple(proofs)) if len(proofs) == len(claim.parts) else None
    boxes = sum(part.effort["boxes"] for part in claim.parts)
    return Outcome.of(parts.from_certificates(claim, norm), proof, boxes=boxes)


def _issued(
    claim: Claim,
    target: Target,
    outcome: Outcome | None,
    search: Found,
    norm: float,
    seed: int,
) -> Certificate:
    """What was proved, or found, put down; an error if a point found, or the certificate itself, contradicts it.

    In the sup norm `found` of a proof is the largest error that the points surely have (`points.py`).
    """
    found, status, edge = search.error, Status.ESTIMATED, False
    if outcome is not None:
        edge = not outcome.defined
        status = _status(target, outcome)
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
        stopped=target.stopped if outcome is None else outcome.stopped,
        proof=None if outcome is None else outcome.proof,
    )
    if contradiction := certificate.contradiction():
        raise SoundnessError("a certificate must not contradict itself", got=contradiction)
    return certificate


def _refuse_infinite(target: Target, outcome: Outcome | None, eps: float | None, deadline: Deadline) -> None:
    """Nothing infinite is called a bound: the target is at fault, or the time was too short, or no proof was found."""
    if outcome is None or outcome.bound != inf:
        return
    if outcome.found > (eps or 0.0) and not _is_bounded(target, outcome.worst):
        raise InputError(
            f"the target must be bounded and continuous on the whole domain, but {target.explain(outcome.worst)}",
            remedy=BOUNDED,
        )
    deadline.check("the proof")
    raise ProofFailed(
        "a bound on the error must be finite",
        got=f"infinity around x = {outcome.worst.mid[0].tolist()}",
        remedy="Rescale the target or the domain, or take an estimate: proof=False.",
    )


def _is_bounded(target: Target, box: Interval) -> bool:
    """Is the target known to be bounded on a box (1, D)?"""
    return bool(np.isfinite(target.enclose(box).magnitude).all())


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
    """The best proof that was found, its bound as it is stated; None where the target cannot be enclosed."""
    outcome = _best(target, claim, eps, norm, effort, found)
    return None if outcome is None else _enlarged(outcome, eps)


def _best(target: Target, claim: Claim, eps: float | None, norm: float, effort: Effort, found: float) -> Outcome | None:
    """The network's structure, boxes, or None where the target cannot be enclosed. Time ends all provers at once."""
    if Status.ESTIMATED in (target.status, *(part.status for part in claim.parts)):
        return None
    enough = boxes.TUNING.within * found if eps is None else eps
    best = _by_parts(claim, norm, effort) if claim.parts else None
    deadline = effort.deadline.sooner(TUNING.searching)
    effort = replace(effort, deadline=deadline)
    if best is None or best.bound > enough:
        best = _better(best, _by_structure(target, claim, eps, norm, effort))
    if best is None:
        deadline.check("the proof")
        best = _attempted(PROVERS[-1], claim, norm, eps, effort)
    elif best.bound > enough and target.domain.size <= TUNING.most_variables and not deadline.over:
        with suppress(TimeLimitReached):
            share = replace(effort, deadline=deadline.share(TUNING.share))
            best = _better(best, _attempted(PROVERS[-1], claim, norm, eps, share))
    if best is None or best.bound <= enough or not deadline.over:
        return best
    late = deadline.reached("the proof")
    if isinf(best.bound):
        raise late
    return replace(best, stopped=best.stopped or late.reason)


def _better(one: Outcome | None, other: Outcome | None) -> Outcome | None:
    """The one with the smaller bound."""
    return min((way for way in (one, other) if way is not None), key=lambda way: way.bound, default=None)


def _by_parts(claim: Claim, norm: float, effort: Effort) -> Outcome:
    """From the parts, which are proved again."""
    known = [part.again(part.claim.with_target(None), effort) for part in claim.parts]
    return _from_certificates(replace(claim, parts=tuple(known)), norm)


def _by_structure(target: Target, claim: Claim, eps: float | None, norm: float, effort: Effort) -> Outcome | None:
    """The best proof that follows the network's structure, the first that meets the tolerance.

    An L_p error is at most the largest one times |Ω|^{1/p}. Those that search on boxes of their own have a share of the
    counted time only.
    """
    factor, best = target.domain.root_volume(norm), None
    goal = None if eps is None else eps / factor
    for prover in PROVERS[:-1]:
        share = effort.deadline if prover.rule in ("structure", "circuit") else effort.deadline.share(TUNING.share)
        if effort.deadline.over:
            break
        try:
            found = _attempted(
                prover, claim, inf, goal, replace(effort, deadline=share, progress=None, checkpoint=None)
            )
        except TimeLimitReached:
            continue
        best = _better(best, found)
        if goal is not None and best is not None and best.bound <= goal:
            break
    if best is None or isinf(norm) or best.proof is None:
        return best
    proof = Proof(VOLUME, {}, (best.proof,))
    return Outcome.of(_checked(proof, claim, norm, effort), proof, best.found, best.boxes)


def _attempted(prover: Prover, claim: Claim, norm: float, goal: float | None, effort: Effort) -> Outcome | None:
    """Search for a proof and check it; None if the prover has none."""
    if not prover.applies(claim, norm):
        return None
    aim = None if goal is None else goal * (1 - SLACK)
    task = Task(aim, norm, effort.deadline, effort.progress, effort.executor, effort.checkpoint, effort.memory)
    with until(effort.deadline):
        attempt: Attempt | None = prover.prove(claim, task)
    if attempt is None:
        return None
    conclusion = _checked(attempt.proof, claim, norm, effort)
    return Outcome.of(conclusion, attempt.proof, attempt.found, attempt.boxes, attempt.stopped)


def _checked(proof: Proof, claim: Claim, norm: float, effort: Effort) -> Conclusion:
    """What the rule concludes."""
    return Checker(NEVER, effort.executor)(proof, claim, norm)


def _enlarged(outcome: Outcome, eps: float | None) -> Outcome:
    """A proof's bound as it is stated: larger by SLACK, but no tolerance is missed for that."""
    bound = outcome.bound * (1 + SLACK)
    if eps is not None and outcome.bound <= eps < bound:
        bound = eps
    if not 0 < outcome.bound < inf:
        return outcome
    larger = bound / outcome.bound
    return replace(outcome, bound=bound, parts={name: part * larger for name, part in outcome.parts.items()})


def _data_scores(network: Network) -> int:
    """Products in the scores between data tokens."""
    length, most = network.rows, 0
    for layer, after in zip(network.layers, [*network.layers[1:], None], strict=True):
        if isinstance(layer, Attention) and layer.attends_data and length > 1:
            most += layer.heads * length * int(tokens_read(after, length).sum()) * layer.query.shape[2]
        length = layer.length_out(length)
    return most


def _projections(network: Network) -> int:
    """Products in the queries, keys and values of data tokens."""
    attention, length = [layer for layer in network.layers if isinstance(layer, Attention)], network.rows
    queries = sum(int(np.count_nonzero(layer.query)) for layer in attention)
    attended = [layer for layer in attention if layer.attends_data]
    return length * (
        queries + sum(int(np.count_nonzero(layer.key) + np.count_nonzero(layer.value)) for layer in attended)
    )


def _points(network: Network) -> int:
    """Random points that the search begins with."""
    work = max(network.tokens, _data_scores(network), _projections(network), 1)
    return max(64, min(TUNING.search_points, TUNING.search_work // work))


def _search(target: Target, claim: Claim, norm: float, seed: int, deadline: Deadline) -> Found:
    """The error found with points; where values are not at hand, the points that were recorded."""
    nowhere = np.empty((0, target.domain.size))
    if isinstance(target, FittedModel):
        rows = claim.domain.starts()[0]
        return Found(float(np.abs(network_rows(claim.network, rows) - target.values(rows)).max()), len(rows), 0, rows)
    if isinstance(target, SamplesTarget):
        return Found(_at_rows(target, claim, norm), len(target.samples.X), 0, nowhere)
    points = _points(claim.network)
    if not target.evaluable:
        recorded = nowhere if claim.samples is None else claim.samples[0]
        return Found(0.0, 0, 0, recorded[:: max(1, len(recorded) // points)])
    if isinf(norm):
        return largest_error(target, claim.network, points, seed, deadline)
    return mean_error(target, claim.network, points, seed, norm, deadline)


def _at_rows(target: SamplesTarget, claim: Claim, norm: float) -> float:
    """The error at rows that were held out, or at all rows of data that nothing was fitted to here."""
    if target.study is not None:
        return target.study.error(norm)
    return mean_over_rows(network_rows(claim.network, target.samples.X) - target.samples.y, norm)
