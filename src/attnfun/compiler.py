"""From a function and a tolerance to a network and a proof. The body of `compile` is the architecture."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .arguments import as_float, flag, folder, one_of, real_number, table, whole_number
from .arithmetic.directed import above_real
from .arithmetic.formats import dtype_name
from .compiled import EVALUATIONS, Compiled
from .constructions import REGISTRY, Construction, PlanRequest, candidates, for_one_token
from .domains.box import OUTSIDE, Box, Outside, as_box
from .errors import InputError, ProofFailed, TimeLimitReached, ToleranceNotMet, did_you_mean, shown
from .network import Network
from .network.network import on_each_token
from .planner import FREE, Attempt, Queue
from .proofs import Certificate, Claim, Effort, Progress, certify, judged
from .readers import read_network
from .resources.deadline import TIME_LIMIT, Deadline
from .resources.memory import Memory
from .resources.progress import with_progress
from .runtime.kernels import allowance_for
from .targets import Cache, Sampling, Status, Target, as_target
from .targets.defects import jumps, refuse_defects
from .targets.evaluations import parts_of

BUDGET = 2**18
"""Memory tokens allowed unless said otherwise."""
MARGIN = 0.9
"""The first network is planned for this fraction of eps, so that the proof has room."""
COPIES = 6
"""Times that the weights of a network are in memory while it is built and certified."""
LARGEST_P = 1e6
"""L_p norms beyond are the largest error in all but name."""
CLOSEST = 1e-3
"""No aim is closer than this fraction of the tolerance while networks stay about as large as they are."""
LARGER = 1.05
"""Networks that have less than so many times the tokens are about as large."""
LEAP = 0.3
"""The factor to the next aim, at most, where the last one made a network about as large."""
STALLED = 0.95
"""If the error found falls by less than this factor from one attempt to the next, no further one is made."""


@with_progress("compiling")
@threadpool_limits.wrap(limits=1, user_api="blas")
def compile(
    target: object,
    domain: object = None,
    eps: float | None = None,
    *,
    norm: str | float = "inf",
    relative: bool = False,
    construction: str = "auto",
    dtype: str = "float64",
    budget: int = BUDGET,
    time_limit: float | Deadline = TIME_LIMIT,
    memory_limit: float | None = None,
    options: dict[str, Any] | None = None,
    lipschitz: float | None = None,
    output: str | None = None,
    proof: bool = True,
    outside: Outside = "raise",
    seed: int = 0,
    progress: Callable[[Progress], None] | bool | None = None,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    cache: Cache | None = None,
) -> Compiled:
    """Turn a function into an attention network whose error on the domain is at most `eps`.

    Parameters
    ----------
    target
        A formula such as `"sin(3*x)*y"` (`"[x*y, x+y]"` for vectors), a function on NumPy arrays, or data,
        `af.Samples(X, y)`.
    domain
        `{"x": (-1, 1)}`, a pair, a list of pairs, an `af.Box`, `af.Region` or `af.Points`; data have their own.
    eps
        The tolerance; with `relative`, as a fraction of the largest absolute value found. Without it, a size must be
        asked for, as in `options={"tokens": 500}`.
    norm
        "inf" for the largest error, or a number p >= 1 for the L_p norm over the domain.
    construction
        "auto" or the name of a theorem.
    dtype
        The arithmetic in which the network will run; the certificate holds for it.
    budget, time_limit
        Memory tokens and seconds that may be spent, on everything together. The time limit holds within a tenth and a
        second; only a running call of your own function and the first compilation of kernels are waited for. A
        `Deadline` may be shared by several calls.
    memory_limit
        Bytes that the largest arrays may take, half of the machine's memory unless said otherwise. They are estimated,
        and refused before they are made.
    lipschitz
        A declared Lipschitz constant (Euclidean); the function is then a black box.
    output
        Of a classifier: "logits", "probabilities" or "margin"; by default what the network returns, logits for those of
        scikit-learn.
    proof
        False for an estimate only.
    outside
        What calls do with points outside the domain: "raise", "clip" or "allow".
    seed
        For the points that are sampled. Equal calls give equal results, unless time runs out: while several
        constructions are in question each proof has a share of the time that is left.
    progress
        Called with a `Progress` after each round of a proof, and as values of a black box come in from workers or for a
        cache. Without it, work of more than two seconds shows a line on a terminal and in a notebook; False for none.
    executor
        Any `concurrent.futures.Executor` to share the work of a proof and the calls of a black box; the result is the
        same.
    checkpoint
        A folder where an interrupted proof leaves its state; the same call goes on from it.
    cache
        A folder where the values of a black box are kept; a second run samples only what is missing. A function is
        known by its code and all that it uses; where these cannot be compared, give it a name: `(folder, "f-1")`.

    Raises
    ------
    InputError
        For anything that cannot be used.
    ToleranceNotMet
        If eps is out of reach, or not reached within the time limit, with the best result.
    ProofFailed
        If numbers of the network may overflow in the dtype, so that no bound on its error is possible, or no finite
        bound is found.
    SoundnessError
        If a point or the judge contradicts a proof, which is an error of this library.

    Examples
    --------
    >>> import attnfun as af
    >>> net = af.compile("sin(3*x)", domain={"x": (-1, 1)}, eps=0.05)
    >>> net.certificate.status.value, bool(net.certificate.bound <= 0.05), abs(net(0.5) - np.sin(1.5)) <= 0.05
    ('proved', True, np.True_)
    """
    told = progress if callable(progress) else None
    effort = Effort(Deadline.of(time_limit), told, executor, checkpoint, Memory.of(memory_limit))
    request = Request(eps, norm, relative, dtype, budget, table("options", options), proof, outside, seed, effort)
    one_of("construction", construction, ("auto", *REGISTRY))
    where = as_box(getattr(target, "domain", None) if domain is None else domain)
    goal = read_network(target, where, output) or as_target(target, where, lipschitz, request.sampling(cache))
    with goal.until(effort.deadline):
        request = request.fitted(goal)
        goal.domain.admit(np.empty((0, goal.domain.size)), request.outside)
        refuse_defects(goal, request.largest_jump, float(request.norm))
        found = for_each_token(construction, goal, request) or pursue(candidates(construction, goal), goal, request)
        return replace(found, certificate=judged(found.certificate, effort.deadline))


def pursue(theorems: list[Construction], goal: Target, request: Request) -> Compiled:
    """Plan, build and certify, the cheapest first, aiming closer until a certificate meets the tolerance."""
    queue = Queue(first_attempts(theorems, goal, request), request.budget)
    try:
        while attempt := queue.cheapest(request.effort.deadline):
            try:
                result = _realise(request, goal, attempt, queue.share)
                if request.eps is None or result.certificate.bound <= request.eps:
                    return replace(result, alternatives=queue.alternatives(attempt))
                queue.waiting.append(_closer(request.eps, request, goal, attempt, result))
            except (ToleranceNotMet, ProofFailed) as miss:
                queue.drop(attempt, _with_last(request, attempt, miss))
    except TimeLimitReached as late:
        raise _late(request, queue, late) from None
    raise _best_miss(request, goal, queue)


def for_each_token(construction: str, target: Target, request: Request) -> Compiled | None:
    """A network for one token, and its certificate, applied to all tokens of a sequence; None if that does not serve.

    A tolerance that one token misses is out of reach for all of them, which are more variables.
    """
    token = target.one_token()
    theorems = [] if token is None else for_one_token(construction, token)
    if token is None or not theorems or request.norm != "inf":
        return None
    with token.until(request.effort.deadline):
        one = pursue(theorems, token, request)
    network = on_each_token(one.network, target.domain.tokens[0])
    if network is None:
        return None
    certificate = one.certificate.for_all_tokens(Claim.about(target, network))
    return replace(one, network=network, certificate=certificate)


def first_attempts(theorems: list[Construction], target: Target, request: Request) -> list[Attempt]:
    """All constructions that know the options and, in L_p, bear the target's jumps; one alone with its plan."""
    aim = request.first_aim(target.domain)
    theorems = [theorem for theorem in theorems if theorem.options >= set(request.options)] or theorems
    if len(theorems) > 1 and request.norm != "inf" and jumps(target, math.inf if aim is None else aim):
        theorems = [theorem for theorem in theorems if theorem.serves_jumps]
    if len(theorems) > 1:
        return [Attempt.named(theorem, target, request.for_planning(theorem, aim)) for theorem in theorems]
    return [_planned(theorem, target, request.for_planning(theorem, aim)) for theorem in theorems]


def _planned(theorem: Construction, target: Target, planning: PlanRequest, last: Compiled | None = None) -> Attempt:
    return Attempt.with_plan(theorem, planning, theorem.plan(target, planning), last)


@dataclass(frozen=True)
class Request:
    """What was asked for, checked."""

    eps: float | None
    norm: str | float
    relative: bool
    dtype: str
    budget: int
    options: dict[str, Any]
    proof: bool
    outside: Outside
    seed: int
    effort: Effort

    def __post_init__(self) -> None:
        checked = {
            "eps": None if self.eps is None else real_number("eps", self.eps, above=0.0, toward=-math.inf),
            "norm": _norm(self.norm),
            "relative": flag("relative", self.relative),
            "dtype": dtype_name(self.dtype),
            "budget": whole_number("budget, in tokens,", self.budget, 1),
            "proof": flag("proof", self.proof),
            "outside": one_of("outside", self.outside, OUTSIDE),
            "seed": whole_number("seed", self.seed, 0),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def sampling(self, cache: Cache | None) -> Sampling:
        """How a black box is asked."""
        folder("cache", None if cache is None else parts_of(cache)[0])
        tell, effort = self.effort.progress, self.effort
        told = None if tell is None else lambda points: tell(Progress(math.inf, 0.0, 0, 0, points))
        return Sampling(effort.executor, cache, told)

    def for_planning(self, theorem: Construction, aim: float | None) -> PlanRequest:
        """What the theorem is asked for, if it knows all options."""
        unknown = sorted(set(self.options) - theorem.options)
        if unknown:
            raise InputError(
                f"options of {theorem.name} are {', '.join(sorted(theorem.options))}",
                got=repr(unknown),
                remedy=did_you_mean(unknown[0], theorem.options),
            )
        return PlanRequest(
            aim,
            self.budget,
            self.options,
            self.dtype,
            float(self.norm),
            self.seed,
            self.effort.deadline,
            self.effort.memory,
            self.proof,
        )

    def fitted(self, target: Target) -> Request:
        """Make a relative tolerance absolute; of what is estimated nothing is proved."""
        if target.status is Status.ESTIMATED and self.proof:
            return replace(self, proof=False).fitted(target)
        if self.eps is None or not self.relative:
            return self
        largest = target.largest_value(self.seed)
        _require(largest > 0, "a relative tolerance needs a target that is not zero", largest)
        return replace(self, eps=self.eps * largest)

    def first_aim(self, domain: Box) -> float | None:
        """The error that the first network is planned for; in L_p as a p-mean."""
        return None if self.eps is None else MARGIN * self.eps / self.scale(domain)

    def scale(self, domain: Box) -> float:
        """From p-means to norms: |Ω|^{1/p}, 1 in the sup norm."""
        return domain.root_volume(float(self.norm))

    @property
    def largest_jump(self) -> float:
        """A continuous network can serve a target that jumps by this much; in L_p any jump is allowed."""
        return math.inf if self.eps is None or self.norm != "inf" else 2 * self.eps


def _realise(request: Request, target: Target, attempt: Attempt, share: float = 1.0) -> Compiled:
    """Build the planned network and certify it, in a share of the time left.

    TimeLimitReached, with an estimate for its network, if there was no time to prove any bound.
    """
    theorem, plan = attempt.theorem, attempt.settled
    numbers = COPIES * max(plan.numbers, plan.tokens * (2 * (target.domain.size + 2) + target.outputs))
    request.effort.memory.require(numbers, f"a network of {plan.tokens} tokens", "Relax eps=, or lower budget=.")
    network = theorem.build(target, plan, request.dtype)
    effort = replace(request.effort, deadline=request.effort.deadline.share(share))
    try:
        certificate = certify(
            Claim.about(target, network),
            request.eps,
            norm=float(request.norm),
            proof=request.proof,
            seed=request.seed,
            effort=effort,
        )
    except TimeLimitReached as late:
        late.best = None if late.estimate is None else _compiled(request, target, attempt, network, late.estimate)
        raise
    return _compiled(request, target, attempt, network, certificate)


def _compiled(
    request: Request, target: Target, attempt: Attempt, network: Network, certificate: Certificate
) -> Compiled:
    """What users get."""
    theorem, plan, scale = attempt.theorem, attempt.settled, request.scale(target.domain)
    proved = target.as_dict()["kind"] in theorem.proves
    if target.evaluable:  # what was measured at rows of data stays as it was measured
        certificate = certificate.allowing(allowance_for(network, certificate.bound, request.eps, float(request.norm)))
    return Compiled(
        network=network,
        certificate=replace(certificate, claim=Claim.about(target, network)),
        construction=theorem.name,
        eps=request.eps,
        a_priori=above_real(plan.a_priori * scale) if proved else plan.a_priori * scale,
        a_priori_proved=proved,
        paper_bound=None if plan.paper_bound is None else plan.paper_bound * scale,
        figures=plan.figures | ({} if target.evaluations is None else {EVALUATIONS: float(target.evaluations)}),
        paper_tokens=_paper_tokens(request, target, attempt),
        outside=request.outside,
        options={name: _written(value) for name, value in request.options.items()},
    )


def _paper_tokens(request: Request, target: Target, attempt: Attempt) -> int | None:
    """The size by the paper's own bound; it takes samples, so that there may be no time for it."""
    try:
        return None if request.eps is None else attempt.theorem.paper_tokens(target, attempt.settled, request.eps)
    except TimeLimitReached:
        return None


def _written(option: Any) -> Any:
    """A number or text as plain Python, None for anything else."""
    option = option.item() if isinstance(option, np.generic) else option
    return option if isinstance(option, bool | int | float | str) else None


def _closer(eps: float, request: Request, target: Target, attempt: Attempt, result: Compiled) -> Attempt:
    """The attempt that aims closer, or the reason why there is none."""
    theorem, plan, last = attempt.theorem, attempt.settled, attempt.last
    if plan.limit * request.scale(target.domain) > eps:
        limit = f"In {request.dtype} the construction {theorem.name} gets to about {plan.limit:.2g} here"
        raise _missed(request, result, f"{limit}: {theorem.at_limit}")
    certificate, rounding = result.certificate, _rounding(result)
    if certificate.stopped:
        raise _missed(request, result, _unfinished(certificate.found, plan.work, eps))
    stays = not theorem.bears_rounding or (last is not None and rounding > STALLED * _rounding(last) > 0)
    if rounding >= eps / 2 and certificate.found <= eps and stays:
        raise _missed(request, result, _too_coarse(request.dtype, rounding))
    larger = last is not None and result.network.tokens > LARGER * last.network.tokens
    tried = larger or (attempt.aim or eps) < CLOSEST * eps  # the same size again says nothing yet
    if last is not None and tried and certificate.found > max(eps, STALLED * last.certificate.found):
        raise _missed(request, result, _stalled(request, last, result))
    most = 0.8 if larger or last is None else LEAP
    aim = min(most, max(0.2, MARGIN * eps / certificate.bound)) * (attempt.aim or eps)
    try:
        request.effort.deadline.check("planning")
        return _planned(theorem, target, request.for_planning(theorem, aim), result)
    except TimeLimitReached as late:
        raise _missed(request, result, late.reason) from None


def _too_coarse(dtype: str, rounding: float) -> str:
    """Why no network in this arithmetic is proved to meet the tolerance, and what to do."""
    finer = "use float64 or a larger eps" if dtype != "float64" else "use a larger eps or a smaller domain"
    return f"The bound on what rounding in {dtype} adds is {rounding:.3g} and does not get smaller: {finer}"


def _unfinished(found: float, work: float | None, eps: float) -> str:
    """Whether a limit ended only the proof, and how much longer it would take, where the plan says so."""
    if found > eps:
        return ""
    said = f"The proof was stopped, not the network: no error above {found:.3g} was found"
    if work is None or work <= FREE:
        return said
    return f"{said}. Its proof is expected to take about {float(f'{work / FREE:.2g}'):g} s of computing"


def _with_last(
    request: Request, attempt: Attempt, miss: ToleranceNotMet | ProofFailed
) -> ToleranceNotMet | ProofFailed:
    """A miss without a network of its own, beside what the attempt before it came to."""
    if attempt.last is None or not isinstance(miss, ToleranceNotMet) or miss.best is not None:
        return miss
    return _missed(request, attempt.last, f"Aiming closer: {str(miss).rstrip('.')}")


def _stalled(request: Request, last: Compiled, result: Compiled) -> str:
    """What two attempts show, and what may help. Why the error stays is not known, so nothing is said about it."""
    before, now = (f"{each.certificate.found:.3g} with {each.network.tokens} tokens" for each in (last, result))
    finer = "" if request.dtype == "float64" else "use float64, "
    remedy = f"Raise eps=, {finer}or cut the domain where the target jumps or has a narrow peak"
    return f"The largest error found hardly falls from one network to the next: {before}, {now}. {remedy}"


def _rounding(result: Compiled) -> float:
    """The parts of a bound that arithmetic is to blame for."""
    parts = result.certificate.parts
    return min(parts.get("rounding", 0.0) + parts.get("input", 0.0), result.certificate.bound)


def _missed(request: Request, best: Compiled, remedy: str) -> ToleranceNotMet:
    """The error for a tolerance that the best network misses; a proof that a limit of memory ended says so."""
    reasons = [reason for reason in (best.certificate.stopped, remedy) if reason]
    return ToleranceNotMet(
        f"eps={request.eps:g} could not be reached",
        got=f"{best.certificate.headline} with {best.network.tokens} tokens",
        remedy=f"{'. '.join(reasons)}.",
        best=best,
    )


def _best_miss(request: Request, target: Target, queue: Queue) -> ToleranceNotMet | ProofFailed:
    """The closest result, the reason why there is no proof, or what the cheapest construction would take."""
    misses = [miss for _, miss in queue.dropped if isinstance(miss, ToleranceNotMet)]
    if misses:
        return min(misses, key=lambda miss: miss.best.certificate.bound if miss.best else math.inf)
    for _, reason in queue.dropped:
        if reason is not None:
            return reason
    cheapest = min((attempt for attempt, _ in queue.dropped), key=lambda each: each.rank)
    if cheapest.last is not None and cheapest.last.certificate.stopped:
        return _missed(request, cheapest.last, f"A closer network takes {cheapest.tokens} tokens: raise budget=")
    return _over_budget(request, target, cheapest)


def _late(request: Request, queue: Queue, late: TimeLimitReached) -> ToleranceNotMet:
    """The best result there is when time is over."""
    best = min(queue.results, key=lambda result: result.certificate.bound, default=None)
    return late if best is None or request.eps is None else _missed(request, best, late.reason)


def _over_budget(request: Request, target: Target, attempt: Attempt) -> ToleranceNotMet:
    """The error for a tolerance beyond the budget, with the best network within it (estimated only)."""
    theorem, tokens = attempt.theorem, attempt.tokens
    if "tokens" not in theorem.options:
        return ToleranceNotMet(
            f"the construction {theorem.name} needs {tokens} tokens for this target",
            got=f"budget={request.budget}",
            remedy="Raise budget=.",
        )
    within = replace(request, eps=None, proof=False, options={**request.options, "tokens": request.budget})
    try:
        best = _realise(within, target, _planned(theorem, target, within.for_planning(theorem, None)))
        got = f"budget={request.budget}, with which the {best.certificate.headline}"
    except TimeLimitReached as late:
        best, got = late.best, f"budget={request.budget}"
    return ToleranceNotMet(
        f"eps={request.eps:g} needs about {tokens:.6g} tokens with the construction {theorem.name}",
        got=got,
        remedy="Raise budget=, relax eps=, or shrink the domain.",
        best=best,
    )


def _norm(norm: object) -> str | float:
    """The norm of the error: "inf" for the largest, a number p for L_p."""
    if isinstance(norm, str) and norm == "inf":
        return norm
    p = as_float(norm)
    if p == math.inf:
        return "inf"
    if not 1 <= p <= LARGEST_P:
        raise InputError(
            f'norm must be "inf" (the largest error) or a number p from 1 to {LARGEST_P:g}', got=shown(norm)
        )
    return p


def _require(holds: bool, constraint: str, got: object) -> None:
    if not holds:
        raise InputError(constraint, got=repr(got))
