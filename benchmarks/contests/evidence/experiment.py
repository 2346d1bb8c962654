"""The contest as an experiment: its page, its pictures, its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from attnfun.experiments.base import Curve, Panel, Picture, Result, Step, Table, quietly
from attnfun.experiments.drawing import BLUE, GREEN, GREY, ORANGE, PINK, SKY
from attnfun.network.storage import write_whole

from ..base import Contest
from . import verdict
from .contest import TOLERANCES, Entry, entered, read, run, table
from .contestants import CONTESTANTS, MOST_SAMPLES, OURS, Contestant
from .problem import POINTS, Problem

SECONDS, TOTALS_SECONDS, QUICK_SECONDS = 3.0, 2.0, 0.5
FIRST = Problem("first", "exp(x)", {"x": (0.0, 1.0)})
QUICK_FUNCTIONS = ("runge", "tanh50", "wave")
LOOKS = tuple((colour, style) for style in ("o-", "s--") for colour in (BLUE, ORANGE, GREEN, SKY, PINK, GREY))
FLOOR = 1e-17
CAVEATS = (
    "attnfun reads the formula, and without it nothing can be proved; in its second row it is given values only. "
    "It counts as within a tolerance only if that is proved in time; for others no error above it was found. Numbers "
    "are degrees of freedom: all weights of a network, projections included, coefficients, or centres with their "
    "coordinates. Seconds are of computing, for all sizes tried; they are ratios within one run on a busy machine, and "
    "noisy. Memory is the rise of the process, so small amounts disappear in what was held before."
)


@dataclass(frozen=True)
class Contest(Contest):
    """Everybody on the functions of a file."""

    problems: tuple[Problem, ...]
    seconds: float = SECONDS
    """For each contestant, function and tolerance."""
    journal: Path | None = None
    """A file that keeps the entries of functions that are done, for a run that is interrupted."""

    extras: ClassVar[tuple[str, ...]] = ("torch", "sklearn")

    def measured(self, quick: bool, contestants: Sequence[Contestant], step: Step) -> list[Entry]:
        """Entries; everybody runs once before the clock counts, for what is loaded or compiled only once."""
        chosen = [one for one in self.problems if one.name in QUICK_FUNCTIONS] if quick else self.problems
        entries = read(self.journal.read_text()) if self.journal and self.journal.exists() else []
        known = {entry.function for entry in entries}
        waiting = [one for one in chosen or self.problems[:2] if one.name not in known]
        for one in contestants if waiting else ():
            step(f"loading: {one.name}")
            entered(FIRST, one, 0.0)
        for problem in waiting:
            entries += run([problem], self.seconds, contestants, step=step)
            if self.journal:
                write_whole(self.journal, table(entries).csv().encode())
        return entries


@dataclass(frozen=True)
class Evidence(Contest):
    """Every entry is told."""

    name: ClassVar[str] = "evidence"
    title: ClassVar[str] = "Evidence"

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """Everybody on every function; quickly, on three."""
        entries = self.measured(quick, CONTESTANTS, step)
        return Result(_text(self.seconds, CONTESTANTS), (_picture(entries),), (*_tables(entries), table(entries)))


@dataclass(frozen=True)
class Totals(Contest):
    """Functions whose formulas are not ours to show: totals only, without those who take long."""

    name: ClassVar[str] = "evidence-totals"
    title: ClassVar[str] = "Evidence: formulas of physics, totals"

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """Those who do not take long, on every function; quickly, on two."""
        light = [one for one in CONTESTANTS if one.light]
        entries = self.measured(quick, light, step)
        taken = {one.function for one in entries if one.attacked is not None}
        refused = sorted({one.function for one in entries} - taken)
        mine = [one for one in entries if one.contestant == OURS and one.function in taken]
        missed = [f"{one.function} ({one.eps:g})" for one in mine if not one.within]
        totals, lost = verdict.front(entries), verdict.losses(entries)
        better = Counter(str(row[lost.columns.index("best")]) for row in lost.rows)
        notes = (
            f"{lost.notes} Otherwise the best is: {', '.join(f'{name} ({times})' for name, times in better.items())}. "
            f"attnfun is not within: {', '.join(missed) or 'none'}. Undefined in places, so that nobody takes part: "
            f"{', '.join(refused) or 'none'}."
        )
        text = f"{len({one.function for one in entries})} formulas of physics. {_text(self.seconds, light)}"
        return Result(text, (), (replace(totals, notes=notes),))


def _tables(entries: Sequence[Entry]) -> list[Table]:
    sizes = [verdict.sizes(entries, eps) for eps in verdict.tolerances(entries)]
    return [verdict.front(entries), verdict.losses(entries), *sizes, verdict.ours(entries)]


def _text(seconds: float, contestants: Sequence[Contestant]) -> str:
    ladders = "; ".join(f"{one.name}: {one.sizes}" for one in contestants)
    tolerances = " and ".join(f"{eps:g}" for eps in TOLERANCES)
    return (
        f"attnfun beside what a user would take instead: the same functions, one process, one thread, fixed seeds. "
        f"Everybody has {seconds:g} seconds for each function and tolerance ({tolerances} of the function's largest "
        f"value) and takes the smallest size of its own ladder that keeps the tolerance, or else its best: {ladders}. "
        f"Functions are sampled at {MOST_SAMPLES} points at most. Errors are the largest at {POINTS} points that "
        f"nobody has seen and by climbing from the worst of them. {CAVEATS}"
    )


def _picture(entries: Sequence[Entry]) -> Picture:
    """For each contestant, its errors at the smallest tolerance and the numbers it stores, in order of size."""
    smallest = verdict.tolerances(entries)[-1]
    errors, numbers = [], []
    for name, (colour, style) in zip(verdict.names(entries), LOOKS, strict=False):
        mine = [one for one in entries if one.contestant == name and one.attacked is not None]
        final = np.sort([max(one.attacked or 0.0, FLOOR) for one in mine if one.eps == smallest])
        stored = np.sort([one.numbers or 0 for one in mine if one.within])
        errors.append(Curve(name, np.arange(1.0, len(final) + 1), final, style, colour))
        numbers.append(Curve(name, np.arange(1.0, len(stored) + 1), stored, style, colour))
    panels = (
        Panel(f"errors where {smallest:g} is asked for", "functions", "error", tuple(errors), "semilogy", (FLOOR, 1e2)),
        Panel("numbers stored, both tolerances", "cases within the tolerance", "numbers", tuple(numbers), "semilogy"),
    )
    return Picture(
        "profiles", "Errors and numbers stored by all contestants, sorted: lower and farther is better", panels
    )
