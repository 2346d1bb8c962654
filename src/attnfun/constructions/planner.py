"""Which construction, and in which order: the cheapest first, worked out only when its turn comes.

Best-first search. Every construction enters with the fewest tokens that a network of it has, and makes a
forecast, quick and on the low side, when its turn comes. The cheapest forecast is worked out to a plan, which may put
it behind others; the cheapest plan is built and certified. Where the certificate misses, the construction aims closer,
is planned again and goes back into the queue. So the first network that meets the tolerance is the cheapest of all that
were worth planning. Nothing depends on the clock but giving up: while others wait, a proof has a share of the time as
it is counted (`resources/deadline.py`).

Cheap means few tokens, and a proof that ends. A sum in three variables may have two networks, one of which is proved
head by head in one variable, the other on boxes in all three. So tokens count `√(work / FREE)` fold where the proof is
expected to take more than FREE work: a network a third the size may take a proof nine times as long, no more. The
summary says where that decided, either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING, Any

from ..errors import ProofFailed, TimeLimitReached, ToleranceNotMet, about, counted
from ..resources.deadline import Deadline
from ..targets import Target
from .base import Construction, Plan, PlanRequest

if TYPE_CHECKING:
    from ..compiled import Compiled


@dataclass(frozen=True)
class QueueTuning:
    """How counted time is shared and what is remarked."""

    share: float = 0.35
    """The part of the counted time left that a proof gets while another construction waits: with the check, which takes
    about as long, two thirds. By trial."""
    longer: float = 3.0
    """Proofs that take so many times as much work are worth a remark. By trial: less is within what an expectation is
    worth."""


TUNING = QueueTuning()

BUDGET = 2**18
"""Memory tokens allowed unless said otherwise."""
FREE = 2e6
"""Work of a proof (`constructions/base.py`) that does not count: about a second's."""
MOST = 1e100
"""Tokens beyond are never built."""
CHOSEN = "chosen"
"""The verdict on the construction that was taken."""


@dataclass(frozen=True)
class Alternative:
    """A construction that was considered, and what became of it."""

    construction: str
    tokens: int
    """Planned, or forecast where no plan was worked out, or the least where no forecast was."""
    depth: int
    verdict: str

    def __str__(self) -> str:
        size = f"{counted(self.tokens, 'token')}, {counted(self.depth, 'layer')}"
        return f"{self.construction} ({size}): {self.verdict}"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A construction in the queue: named, then forecast, then planned, then perhaps tried and planned again."""

    theorem: Construction
    aim: float | None
    tokens: int
    depth: int
    further: Callable[[], Candidate]
    """The next of these stages; a plan is the last."""
    work: float | None = None
    """Of the proof, where something is known about it and there is to be one."""
    forecast: bool = True
    """Do the tokens come from a forecast or a plan?"""
    plan: Plan | None = None
    last: Compiled | None = None
    """The result of the attempt before, which missed the tolerance."""

    @classmethod
    def named(cls, theorem: Construction, target: Target, request: PlanRequest) -> Candidate:
        """Before anything is forecast."""

        def forecast() -> Candidate:
            found = theorem.forecast(target, request)
            work = found.work if request.proof else None
            return cls(
                theorem,
                request.aim,
                found.tokens,
                found.depth,
                lambda: cls.with_plan(theorem, request, found.plan()),
                work,
            )

        return cls(theorem, request.aim, theorem.least, 1, forecast, forecast=False)

    @classmethod
    def with_plan(
        cls, theorem: Construction, request: PlanRequest, plan: Plan, last: Compiled | None = None
    ) -> Candidate:
        """Ready to be built."""
        again = partial(cls.with_plan, theorem, request, plan, last)
        work = plan.work if request.proof else None
        return cls(theorem, request.aim, plan.tokens, plan.depth, again, work, plan=plan, last=last)

    @property
    def settled(self) -> Plan:
        """The plan, worked out if it is not."""
        return self.plan or self.further().settled

    @property
    def rank(self) -> tuple[Any, ...]:
        """Plans that promise the tolerance come first, by cost, then by layers; requested sizes go by their error."""
        if self.aim is None:
            return (0.0 if self.plan is None else self.plan.promised,)
        unpromised = self.plan is not None and self.plan.promised > self.aim
        return unpromised, self.cost, self.depth

    @property
    def cost(self) -> float:
        """Tokens; more where their proof takes long, unless there are more than anything holds."""
        if self.work is None or self.work <= FREE or self.tokens > MOST:
            return self.tokens
        return self.tokens * sqrt(self.work / FREE)

    def described(self, verdict: str) -> Alternative:
        """For the summary."""
        return Alternative(self.theorem.name, int(self.tokens), self.depth, verdict)


class Queue:
    """The constructions that are still in question, and why others are not."""

    def __init__(self, waiting: Iterable[Candidate], budget: int) -> None:
        self.waiting, self.budget = list(waiting), budget
        self.dropped: list[tuple[Candidate, ToleranceNotMet | ProofFailed | None]] = []

    def cheapest(self, deadline: Deadline) -> Candidate | None:
        """Take out the cheapest attempt, planned and within the budget; None if there is none left.

        TimeLimitReached if there is no time for the plan; the attempt stays in the queue.
        """
        while self.waiting:
            deadline.check("planning")
            candidate = min(self.waiting, key=lambda each: each.rank)
            if candidate.plan is None and not (candidate.forecast and candidate.tokens > self.budget):
                self.waiting.append(candidate.further())
            self.waiting.remove(candidate)
            if candidate.forecast and candidate.tokens > self.budget:
                self.dropped.append((candidate, None))
            elif candidate.plan is not None:
                return candidate
        return None

    def part(self, deadline: Deadline) -> Deadline:
        """The time that the proof of the attempt just taken may use."""
        others = any(candidate.tokens <= self.budget for candidate in self.waiting)
        return deadline.share(TUNING.share) if others else deadline

    @property
    def results(self) -> list[Compiled]:
        """All networks so far, none of which meets the tolerance."""
        missed = [miss.best for _, miss in self.dropped if isinstance(miss, ToleranceNotMet)]
        return [result for result in (*missed, *(candidate.last for candidate in self.waiting)) if result is not None]

    def drop(self, candidate: Candidate, miss: ToleranceNotMet | ProofFailed) -> None:
        """An attempt that cannot meet the tolerance, or of which nothing can be proved."""
        self.dropped.append((candidate, miss))

    def alternatives(self, chosen: Candidate) -> tuple[Alternative, ...]:
        """The choice, then what was rejected, and why."""
        others = [
            candidate.described(_verdict(candidate, chosen))
            for candidate in sorted(self.waiting, key=lambda each: each.rank)
        ]
        missed = [
            candidate.described(_reason(miss) if miss else f"over the budget of {self.budget} tokens")
            for candidate, miss in self.dropped
        ]
        return chosen.described(CHOSEN), *others, *missed


def _verdict(candidate: Candidate, chosen: Candidate) -> str:
    if not candidate.forecast:
        return f"not forecast, takes {about(candidate.tokens)} tokens or more"
    more = candidate.tokens - chosen.tokens
    size = "more tokens" if more > 0 else "fewer tokens" if more < 0 else ""
    if candidate.work is None or chosen.work is None:
        return size or "no better"
    longer = candidate.work / max(chosen.work, 1.0)
    if candidate.work > FREE and longer > TUNING.longer:
        return ", ".join(filter(None, [size, f"a proof of about {longer:.2g} times the work"]))
    if chosen.work > FREE and longer < 1 / TUNING.longer:
        return ", ".join(filter(None, [size, f"a proof of about 1/{1 / longer:.2g} of the work"]))
    return size or "no better"


def _reason(miss: ToleranceNotMet | ProofFailed) -> str:
    best = miss.best if isinstance(miss, ToleranceNotMet) else None
    if best is None:
        return str(miss)
    stopped = miss.reason if isinstance(miss, TimeLimitReached) else best.certificate.stopped
    return f"missed, {best.certificate.headline}" + (f" ({stopped[0].lower()}{stopped[1:]})" if stopped else "")
