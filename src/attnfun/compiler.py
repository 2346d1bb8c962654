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
from .arithmetic.formats import FORMATS, dtype_name, round_to
from .compiled import EVALUATIONS, Compiled
from .constructions import REGISTRY, Construction, PlanRequest, candidates, for_one_token
from .constructions.planner import BUDGET, FREE, Candidate, Queue
from .domains.box import OUTSIDE, Box, Outside, as_box
from .errors import InputError, ProofFailed, TimeLimitReached, ToleranceNotMet, about, did_you_mean, shown
from .network import Network
from .network.network import on_each_token
from .proofs import Certificate, Claim, Effort, Progress, certify, judged
from .proofs.overflow import refuse_points
from .resources.deadline import TIME_LIMIT, Deadline, until
from .resources.memory import Memory
from .resources.progress import with_progress
from .runtime.kernels import allowance_for
from .targets import Cache, Sampling, Status, Target, as_target
from .targets.defects import jumps, refuse_defects, refuse_large_values
from .targets.evaluations import parts_of
from .targets.readers import read_network
from .targets.settling import cut_off, is_open


@dataclass(frozen=True)
class PursuitTuning:
    """How `pursue` aims. What is proved is proved of the network at hand, whatever it was planned for."""

    margin: float = 0.9
    """The first network is planned for this fraction of eps, so that the proof has room. By trial."""
    copies: int = 6
    """Times that the weights of a network are in memory while it is built and certified. Counted."""
    closest: float = 1e-3
    """No aim is closer than this fraction of the tolerance while networks stay about as large as they are. A round
    number."""
    larger: float = 1.05
    """Networks that have less than so many times the tokens are about as large. By trial."""
    leap: float = 0.3
    """The factor to the next aim, at most, where the last one made a network about as large. By trial."""
    results: int = 256
    """Points at which results are compared with the numbers of the dtype. A round number."""
    step: float = 0.8
    """The factor to the next aim, at most, where networks do grow. By trial."""
    dive: float = 0.2
    """The factor to the next aim, at least. By trial: a larger step overshoots."""
    stalled: float = 0.95
    """If the error found falls by less than this factor from one attempt to the next, no further one is made. By
    trial."""


TUNING = PursuitTuning()

LARGEST_P = 1e6
"""L_p norms beyond are the largest error in all but name."""


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
    tail: str | None = None,
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
        `{"x": (-1, 1)}`, a pair, a list of pairs, an `af.Box`, `af.Region` or `af.Points`; data have their own. A
        formula in one variable with limits may have infinite ends, `{"x": (-inf, inf)}` (`Compiled.beyond`). For a
        function of two inputs a box for each, `{"Q": af.Box(...), "K": af.Box(...)}`.
    eps
        The tolerance; with `relative`, as a fraction of the largest absolute value found. Without it, a size must be
        given, as in `options={"tokens": 500}`.
    norm
        "inf" for the largest error, or a number p >= 1 for the L_p norm over the domain.
    construction
        "auto" or the name of a theorem.
    dtype
        The arithmetic in which the network will run; the certificate holds for it.
    budget, time_limit
        Memory tokens and seconds that may be spent, on everything together. The time limit holds within a tenth and a
        second; a running call of your own function is waited for, and the first compilation of kernels does not count.
        A `Deadline` may be shared by several calls.
    memory_limit
        Bytes that the largest arrays may take, half of the machine's memory unless said otherwise. They are estimated,
        and refused before they are made.
    lipschitz
        A declared Lipschitz constant (Euclidean); the function is then a black box.
    tail
        In L_p, for a formula with poles that are not known to be integrable: another formula, which is declared to be
        at least its absolute value almost everywhere, such as `"2*x**-0.4"`. What is proved then is conditional.
    output
        Of a classifier: "logits", "probabilities" or "margin"; by default what the network returns, logits for those of
        scikit-learn.
    proof
        False for an estimate only.
    outside
        What calls do with points outside the domain: "raise", "clip" or "allow".
    seed
        The seed of sampled points. Equal calls give equal results on all machines that need no more than half of the
        time limit: how long a proof may go on while other constructions wait is counted in work done, not by a clock.
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
    sampling = request.sampling(cache)
    goal, request = _stated(target, domain, request, sampling, lipschitz, request.declared(tail), output)  # target
    with until(effort.deadline):
        found = for_each_token(construction, goal, request) or pursue(candidates(construction, goal), goal, request)
        return replace(found, certificate=judged(found.certificate, effort.deadline))


def pursue(theorems: list[Construction], goal: Target, request: Request) -> Compiled:
    """Candidates, the cheapest first: plan, build, prove, and aim closer until a certificate meets the tolerance."""
    queue = Queue(first_candidates(theorems, goal, request), request.budget)  # candidates
    try:
        while candidate := queue.cheapest(request.effort.deadline):  # plan
            try:
                network = _built(request, goal, candidate)  # build
                result = _proved(request, goal, candidate, network, queue.part(request.effort.deadline))  # prove
                if request.eps is None or result.certificate.bound <= request.eps:
                    return replace(result, alternatives=queue.alternatives(candidate))
                queue.waiting.append(_closer(request.eps, request, goal, candidate, result))
            except (ToleranceNotMet, ProofFailed) as miss:
                queue.drop(candidate, _with_last(request, candidate, miss))
    except TimeLimitReached as late:
        raise _late(request, queue, late) from None
    raise _best_miss(request, goal, queue)


def _stated(
    target: object,
    domain: object,
    request: Request,
    sampling: Sampling,
    lipschitz: float | None,
    tail: str | None,
    output: str | None,
) -> tuple[Target, Request]:
    """The target on its domain, and the request in its terms; what no network can do is refused."""
    beyond = 0.0
    if is_open(domain):
        domain, beyond = request.cut_off(target, domain)
        request = replace(request, outside="clip")
    where = as_box(getattr(target, "domain", None) if domain is None else domain)
    goal = read_network(target, where, output) or as_target(target, where, lipschitz, sampling, tail)
    with until(request.effort.deadline):
        request = request.fitted(goal).less(beyond)
        refuse_points(goal.domain, request.dtype, proof=request.proof)
        refuse_defects(goal, request.largest_jump, float(request.norm))
        refuse_large_values(goal)
        request.refuse_finer_than_results(goal)
    return goal, request


def for_each_token(construction: str, target: Target, request: Request) -> Compiled | None:
    """A network for one token, and its certificate, applied to all tokens of a sequence; None if that does not serve.

    A tolerance that one token misses is out of reach for all of them, which are more variables.
    """
    token = target.one_token()
    theorems = [] if token is None else for_one_token(construction, token)
    if token is None or not theorems or request.norm != "inf":
        return None
    one = pursue(theorems, token, request)
    network = on_each_token(one.network, target.domain.tokens[0])
    if network is None:
        return None
    certificate = one.certificate.for_all_tokens(Claim.about(target, network))
    return replace(one, network=network, certificate=certificate)


def first_candidates(theorems: list[Construction], target: Target, request: Request) -> list[Candidate]:
    """All constructions that know the options and, in L_p, bear the target's jumps; one alone with its plan."""
    aim = request.first_aim(target.domain)
    theorems = [theorem for theorem in theorems if theorem.options >= set(request.options)] or theorems
    if len(theorems) > 1 and request.norm != "inf" and jumps(target, math.inf if aim is None else aim):
        theorems = [theorem for theorem in theorems if theorem.serves_jumps]
    if len(theorems) > 1:
        return [Candidate.named(theorem, target, request.for_planning(theorem, aim)) for theorem in theorems]
    return [_planned(theorem, target, request.for_planning(theorem, aim)) for theorem in theorems]


def _planned(theorem: Construction, target: Target, planning: PlanRequest, last: Compiled | None = None) -> Candidate:
    return Candidate.with_plan(theorem, planning, theorem.plan(target, planning), last)


@dataclass(frozen=True)
class Request:
    """What the caller wants, checked."""

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
            "budget": whole_number("budget", self.budget, 1),
            "proof": flag("proof", self.proof),
            "outside": one_of("outside", self.outside, OUTSIDE),
            "seed": whole_number("seed", self.seed, 0),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def sampling(self, cache: Cache | None) -> Sampling:
        """How a black box is sampled."""
        folder("cache", None if cache is None else parts_of(cache)[0])
        tell, effort = self.effort.progress, self.effort
        told = None if tell is None else lambda points: tell(Progress(math.inf, 0.0, 0, 0, points))
        return Sampling(effort.executor, cache, told)

    def declared(self, tail: object) -> str | None:
        """A declared tail, which goes with L_p norms."""
        if tail is None:
            return None
        _require(isinstance(tail, str), "tail must be a formula in text", tail)
        _require(self.norm != "inf", "tail= needs an L_p norm, norm=p", self.norm)
        return str(tail)

    def for_planning(self, theorem: Construction, aim: float | None) -> PlanRequest:
        """What the theorem has to plan for, if it knows all options."""
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
        """The request for a target that it suits: a relative tolerance absolute, and no proof of what is estimated."""
        target.domain.admit(np.empty((0, target.domain.size)), self.outside)
        if target.status is Status.ESTIMATED and self.proof:
            return replace(self, proof=False).fitted(target)
        if self.eps is None or not self.relative:
            return self
        largest = target.largest_value(self.seed)
        _require(largest > 0, "a relative tolerance needs a target that is not zero", largest)
        return replace(self, eps=self.eps * largest)

    def refuse_finer_than_results(self, target: Target) -> None:
        """ToleranceNotMet at once where no number of the dtype is within eps of a value of the target [T 10.5].

        Results are stored in the dtype, so that at any point the error is at least the distance of the target's value
        from the nearest number of the dtype.
        """
        applies = self.eps is not None and self.norm == "inf" and self.proof and FORMATS[self.dtype].coarse
        if self.eps is None or not applies or not target.evaluable or target.evaluations is not None:
            return
        values = target.values(target.domain.sample(TUNING.results, np.random.default_rng(self.seed)))  # (B, m)
        apart = np.abs(values - round_to(values, self.dtype))
        least, value = float(apart.max()), float(values.flat[int(np.argmax(apart))])
        if least > self.eps:
            raise ToleranceNotMet(
                f"no network with results in {self.dtype} is within eps={self.eps:g} of the target",
                got=f"a value of {value:.6g}, which is {least:.3g} from the nearest number in {self.dtype}",
                remedy=f"Use a finer dtype, or eps above {least:.2g}.",
            )

    def cut_off(self, target: object, domain: Any) -> tuple[Box, float]:
        """A finite interval for a domain with an infinite end, and how far the target varies beyond it [T 9.13]."""
        _require(self.norm == "inf", 'a domain with an infinite end needs norm="inf"', self.norm)
        _require(self.outside != "allow", 'a domain with an infinite end needs outside="clip"', self.outside)
        return cut_off(target, domain, self.eps, relative=self.relative)

    def less(self, beyond: float) -> Request:
        """What is left of the tolerance for the interval itself."""
        return self if self.eps is None or not beyond else replace(self, eps=self.eps - 1.001 * beyond)

    def first_aim(self, domain: Box) -> float | None:
        """The error that the first network is planned for; in L_p as a p-mean."""
        return None if self.eps is None else TUNING.margin * self.eps / self.scale(domain)

    def scale(self, domain: Box) -> float:
        """From p-means to norms: |Ω|^{1/p}, 1 in the sup norm."""
        return domain.root_volume(float(self.norm))

    @property
    def largest_jump(self) -> float:
        """A continuous network can serve a target that jumps by this much; in L_p any jump is allowed."""
        return math.inf if self.eps is None or self.norm != "inf" else 2 * self.eps


def _built(request: Request, target: Target, candidate: Candidate) -> Network:
    """The planned network, if there is room for it."""
    plan = candidate.settled
    numbers = TUNING.copies * max(plan.numbers, plan.tokens * (2 * (target.domain.size + 2) + target.outputs))
    request.effort.memory.require(numbers, f"a network of {about(plan.tokens)} tokens", "Relax eps=, or lower budget=.")
    return candidate.theorem.build(target, plan, request.dtype)


def _proved(request: Request, target: Target, candidate: Candidate, network: Network, deadline: Deadline) -> Compiled:
    """The network with its certificate, as far as there is time.

    TimeLimitReached, with an estimate for the network, if there was no time to prove any bound.
    """
    target = candidate.settled.target or target
    try:
        certificate = certify(
            Claim.about(target, network),
            request.eps,
            norm=float(request.norm),
            proof=request.proof,
            seed=request.seed,
            effort=replace(request.effort, deadline=deadline),
        )
    except TimeLimitReached as late:
        late.best = None if late.estimate is None else _compiled(request, target, candidate, network, late.estimate)
        raise
    return _compiled(request, target, candidate, network, certificate)


def _compiled(
    request: Request, target: Target, candidate: Candidate, network: Network, certificate: Certificate
) -> Compiled:
    """What users get."""
    theorem, plan, scale = candidate.theorem, candidate.settled, request.scale(target.domain)
    proved = target.as_dict()["kind"] in theorem.proves
    if target.evaluable:  # what was measured at rows of data stays as it was measured
        certificate = certificate.allowing(allowance_for(network, certificate.bound, request.eps, float(request.norm)))
    return Compiled(
        network=network,
        certificate=certificate,
        construction=theorem.name,
        eps=request.eps,
        a_priori=above_real(plan.a_priori * scale) if proved else plan.a_priori * scale,
        a_priori_proved=proved,
        paper_bound=None if plan.paper_bound is None else plan.paper_bound * scale,
        figures=plan.figures | ({} if target.evaluations is None else {EVALUATIONS: float(target.evaluations)}),
        paper_tokens=_paper_tokens(request, target, candidate),
        outside=request.outside,
        options={name: _written(value) for name, value in request.options.items()},
    )


def _paper_tokens(request: Request, target: Target, candidate: Candidate) -> int | None:
    """The size by the paper's own bound; it takes samples, so that there may be no time for it."""
    try:
        return None if request.eps is None else candidate.theorem.paper_tokens(target, candidate.settled, request.eps)
    except TimeLimitReached:
        return None


def _written(option: Any) -> Any:
    """A number or text as plain Python, None for anything else."""
    option = option.item() if isinstance(option, np.generic) else option
    return option if isinstance(option, bool | int | float | str) else None


def _closer(eps: float, request: Request, target: Target, candidate: Candidate, result: Compiled) -> Candidate:
    """The attempt that aims closer, or the reason why there is none."""
    theorem, plan, last = candidate.theorem, candidate.settled, candidate.last
    if plan.limit * request.scale(target.domain) > eps:
        limit = f"In {request.dtype} the construction {theorem.name} gets to about {plan.limit:.2g} here"
        raise _missed(request, result, f"{limit}: {theorem.at_limit}")
    certificate, rounding = result.certificate, _rounding(result)
    if certificate.stopped:
        raise _missed(request, result, _unfinished(certificate.found, plan.work, eps))
    stays = not theorem.bears_rounding or (last is not None and rounding > TUNING.stalled * _rounding(last) > 0)
    if rounding >= eps / 2 and certificate.found <= eps and stays:
        raise _missed(request, result, _too_coarse(request.dtype, rounding))
    larger = last is not None and result.network.tokens > TUNING.larger * last.network.tokens
    tried = larger or (candidate.aim or eps) < TUNING.closest * eps  # the same size again says nothing yet
    if last is not None and tried and certificate.found > max(eps, TUNING.stalled * last.certificate.found):
        raise _missed(request, result, _stalled(request, last, result))
    most = TUNING.step if larger or last is None else TUNING.leap
    aim = min(most, max(TUNING.dive, TUNING.margin * eps / certificate.bound)) * (candidate.aim or eps)
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
    request: Request, candidate: Candidate, miss: ToleranceNotMet | ProofFailed
) -> ToleranceNotMet | ProofFailed:
    """A miss without a network of its own, beside what the attempt before it came to."""
    if candidate.last is None or not isinstance(miss, ToleranceNotMet) or miss.best is not None:
        return miss
    return _missed(request, candidate.last, f"Aiming closer: {str(miss).rstrip('.')}")


def _stalled(request: Request, last: Compiled, result: Compiled) -> str:
    """What two attempts show, and what may help. Why the error stays is not known, so nothing is said about it."""
    before, now = (f"{each.certificate.found:.3g} with {each.network.tokens} tokens" for each in (last, result))
    finer = "" if request.dtype == "float64" else "use float64, "
    remedy = f"Raise eps=, {finer}or cut the domain where the target jumps or has a narrow peak"
    return f"The largest error found hardly falls from one network to the next: {before}, {now}. {remedy}"


def _rounding(result: Compiled) -> float:
    """The parts of a bound that come from arithmetic."""
    parts = result.certificate.parts
    return min(parts.get("rounding", 0.0) + parts.get("input", 0.0), result.certificate.bound)


def _missed(request: Request, best: Compiled, remedy: str) -> ToleranceNotMet:
    """The error for a tolerance that the best network misses; a proof that a limit of memory ended says so."""
    reasons = dict.fromkeys(reason for reason in (best.certificate.stopped, remedy) if reason)  # each once
    close = request.eps is not None and best.certificate.bound <= request.eps  # an estimate, which proves nothing
    return ToleranceNotMet(
        f"eps={request.eps:g} could not be {'proved' if close else 'reached'}",
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
    cheapest = min((candidate for candidate, _ in queue.dropped), key=lambda each: each.rank)
    if cheapest.last is not None and cheapest.last.certificate.stopped:
        return _missed(request, cheapest.last, f"A closer network takes {about(cheapest.tokens)} tokens: raise budget=")
    return _over_budget(request, target, cheapest)


def _late(request: Request, queue: Queue, late: TimeLimitReached) -> ToleranceNotMet:
    """The best result there is when time is over."""
    best = min(queue.results, key=lambda result: result.certificate.bound, default=None)
    return late if best is None or request.eps is None else _missed(request, best, late.reason)


def _over_budget(request: Request, target: Target, candidate: Candidate) -> ToleranceNotMet:
    """The error for a tolerance beyond the budget, with the best network within it (estimated only)."""
    theorem, tokens = candidate.theorem, candidate.tokens
    if "tokens" not in theorem.options:
        return ToleranceNotMet(
            f"the construction {theorem.name} needs {about(tokens)} tokens for this target",
            got=f"budget={request.budget}",
            remedy="Raise budget=.",
        )
    within = replace(request, eps=None, proof=False, options={**request.options, "tokens": request.budget})
    try:
        smaller = _planned(theorem, target, within.for_planning(theorem, None))
        network = _built(within, target, smaller)
        best = _proved(within, target, smaller, network, request.effort.deadline)
        got = f"budget={request.budget}, which gets to an {best.certificate.headline}"
        stopped = best.certificate.stopped
    except TimeLimitReached as late:
        best, got, stopped = late.best, f"budget={request.budget}", late.reason
    return ToleranceNotMet(
        f"eps={request.eps:g} needs about {about(tokens)} tokens with the construction {theorem.name}",
        got=got,
        remedy="Raise budget=, relax eps=, or shrink the domain." + (f" {stopped}." if stopped else ""),
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
