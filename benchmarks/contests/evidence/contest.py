"""One contestant on one problem: the smallest of its offers that is within each tolerance, measured and attacked."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

from threadpoolctl import threadpool_limits

from attnfun.errors import AttnfunError, MissingExtra, ProofFailed
from attnfun.experiments.base import Cell, Step, Table, quietly

from .contestants import CONTESTANTS, Contestant, Offer
from .meter import evaluation, metered
from .problem import Problem

TOLERANCES = (1e-3, 1e-8)
"""Relative to the largest value, falling."""
TOO_LATE = "took longer than allowed"
ROOM = 1e-12
"""What evaluating the function itself may be wrong by."""


@dataclass(frozen=True)
class Entry:
    """One contestant on one problem at one tolerance. Errors and bounds are relative to the largest value."""

    function: str
    variables: int
    contestant: str
    eps: float
    within: bool
    """Is the tolerance kept at all points looked at and, by those who prove, proved?"""
    size: str
    numbers: int | None
    """Degrees of freedom: everything that has to be stored."""
    tokens: int | None
    error: float | None
    """The largest at points that nobody has seen."""
    attacked: float | None
    """The largest met by climbing from the worst of them."""
    bound: float | None
    status: str
    build: float | None
    """Seconds of computing for this size."""
    tuning: float | None
    """For all sizes tried up to there."""
    evaluate: float | None
    """Microseconds a point."""
    memory: float | None
    """Megabytes at the peak of building."""
    paper: float | None
    note: str


COLUMNS = tuple(field.name for field in fields(Entry))


@dataclass(frozen=True)
class Tried:
    """An offer with its error and its cost."""

    offer: Offer
    error: float
    build: float
    tuning: float
    memory: float | None


@threadpool_limits.wrap(limits=1)
def entered(
    problem: Problem, contestant: Contestant, seconds: float, tolerances: Sequence[float] = TOLERANCES
) -> list[Entry]:
    """Go through its offers until the smallest tolerance is kept or there are no more."""
    if problem.variables > contestant.most_variables:
        return [_absent(problem, contestant, eps, "for fewer variables") for eps in tolerances]
    pending, found, best, tuning = list(tolerances), dict[float, Entry](), None, 0.0
    offers = contestant.offers(problem, tolerances, seconds)
    try:
        while pending:
            offer, build, memory = metered(lambda: _next(offers))
            if offer is None:
                break
            tuning += build
            if contestant.ours and tuning > seconds:
                offer = replace(offer, note=TOO_LATE)
            tried = Tried(offer, problem.error(offer.fit), build, tuning, memory)
            if best is None or tried.error < best.error:
                best = tried
            while pending and _promises(contestant, tried, pending[0]):
                entry = _measured(problem, contestant, pending[0], tried)
                if not entry.within:
                    break
                found[pending.pop(0)] = entry
    except MissingExtra as reason:
        return [_absent(problem, contestant, eps, f"skipped: {reason.constraint}") for eps in tolerances]
    except (AttnfunError, MemoryError) as reason:
        note = " ".join(str(reason).split())
        return [found.get(eps) or _absent(problem, contestant, eps, note) for eps in tolerances]
    for eps in pending:
        found[eps] = (
            _measured(problem, contestant, eps, best) if best else _absent(problem, contestant, eps, "no offer")
        )
    return [found[eps] for eps in tolerances]


def _next(offers: Iterator[Offer]) -> Offer | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that optimisers have not converged: the errors say so
        return next(offers, None)


def _promises(contestant: Contestant, tried: Tried, eps: float) -> bool:
    """Is it worth attacking?"""
    in_time = tried.offer.note != TOO_LATE
    return in_time and tried.error <= eps and (not contestant.must_prove or _proved(tried.offer, eps))


def _proved(offer: Offer, eps: float) -> bool:
    return offer.status.startswith("proved") and offer.bound is not None and offer.bound <= eps


def _measured(problem: Problem, contestant: Contestant, eps: float, tried: Tried) -> Entry:
    offer = tried.offer
    attacked = problem.attacked(offer.fit)
    if offer.status == "proved" and offer.bound is not None and attacked > offer.bound + ROOM:
        raise ProofFailed(f"{problem.name}: an error of {attacked:g} is above the proved bound", got=offer.bound)
    within = attacked <= eps and _promises(contestant, tried, eps)
    speed = evaluation(offer.fit, problem.checks[0])
    known = (offer.size, offer.fit.numbers, offer.tokens, tried.error, attacked, offer.bound, offer.status)
    cost = (tried.build, tried.tuning, speed, tried.memory, offer.paper)
    return Entry(problem.name, problem.variables, contestant.name, eps, within, *known, *cost, offer.note)


def _absent(problem: Problem, contestant: Contestant, eps: float, note: str) -> Entry:
    nothing: dict[str, Any] = dict.fromkeys(COLUMNS[6:-1])
    return Entry(
        problem.name, problem.variables, contestant.name, eps, False, "", **{**nothing, "status": ""}, note=note
    )


def run(
    problems: Iterable[Problem],
    seconds: float,
    contestants: Sequence[Contestant] = CONTESTANTS,
    tolerances: Sequence[float] = TOLERANCES,
    step: Step = quietly,
) -> Iterator[Entry]:
    """Everybody on every problem; `seconds` for each tolerance, ladders share those of all tolerances."""
    for problem in problems:
        for contestant in contestants:
            step(f"{problem.name}: {contestant.name}")
            yield from entered(problem, contestant, seconds * len(tolerances), tolerances)


def table(entries: Sequence[Entry]) -> Table:
    """All entries, for machines."""
    rows: list[tuple[Cell, ...]] = [astuple(entry) for entry in entries]
    return Table("entries", "All entries", COLUMNS, tuple(rows), whole=False)


def read(text: str) -> list[Entry]:
    """The entries of a table written as CSV.

    >>> entry = _absent(Problem("f", "x", {"x": (0, 1)}), CONTESTANTS[0], 1e-3, "no offer")
    >>> read(table([entry]).csv()) == [entry]
    True
    """
    kinds = {field.name: str(field.type) for field in fields(Entry)}
    return [
        Entry(**{name: _cell(kinds[name], cell) for name, cell in row.items()})
        for row in csv.DictReader(io.StringIO(text))
    ]


def _cell(kind: str, text: str) -> Any:
    """A cell as its column has it; empty ones are None where that is allowed."""
    if kind == "str":
        return text
    if kind == "bool":
        return text == "True"
    if text == "":
        return None
    return int(text) if kind.startswith("int") else float(text)
