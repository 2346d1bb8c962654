"""Training from several starts, side by side: tasks in, curves and tables out.

Every start of a task gets the same steps, the same batches and the same learning rates to choose from. The rate with
the smallest mean error over the seeds is shown, for a compiled start as for a random one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from attnfun.experiments.base import Cell, Curve, Panel, Step, Table
from attnfun.experiments.drawing import BLUE, GREEN, GREY, ORANGE, PINK, SKY

if TYPE_CHECKING:
    from torch import nn

    from .training import Batch

Floats = npt.NDArray[np.float64]
Start = Callable[[int], "nn.Module"]
"""A module for each seed."""
MARKS = 11
"""Errors along a course."""
COLOURS = {
    "random": ORANGE,
    "random, spectral": ORANGE,
    "random, cross": GREY,
    "compiled": PINK,
    "compiled, masks held": BLUE,
    "compiled, spectral": BLUE,
    "compiled, cross": PINK,
    "noise 0.0001": SKY,
    "noise 0.001": BLUE,
    "noise 0.01": GREEN,
    "noise 0.1": PINK,
}
"""Of starts, in all pictures."""


@dataclass(frozen=True)
class Task:
    """What is to be learnt, and where training begins: a module for each seed."""

    title: str
    batch: Batch
    error: Callable[[nn.Module], float]
    starts: dict[str, Start]
    steps: int
    best: float | None = None
    """The error of the best that could be hoped for, if known."""
    best_name: str = ""


@dataclass(frozen=True)
class Trial:
    """One start: errors (seeds, marks) at the rate that served it best."""

    start: str
    rate: float
    errors: Floats
    marks: tuple[int, ...]


def tried(task: Task, rates: Sequence[float], seeds: int, step: Step) -> list[Trial]:
    """Train from every start, at every rate, with every seed."""
    from .training import course

    marks = tuple(int(mark) for mark in np.unique(np.linspace(0, task.steps, MARKS).round()))
    trials: list[Trial] = []
    for start, begin in task.starts.items():
        runs: list[Trial] = []
        for rate in rates:
            step(f"{task.title}, {start}, learning rate {rate:g}")
            errors = [course(begin(seed), task.batch, task.error, rate, marks, seed) for seed in range(seeds)]
            runs.append(Trial(start, rate, np.array(errors), marks))
        trials.append(min(runs, key=lambda run: float(run.errors[:, -1].mean())))
    return trials


def panels(tasks: Sequence[Task], trials: dict[str, list[Trial]]) -> tuple[Panel, ...]:
    """A panel a task."""
    return tuple(
        Panel(task.title, "steps of Adam", "root mean square error", _curves(task, trials[task.title]), "semilogy")
        for task in tasks
    )


def _curves(task: Task, trials: list[Trial]) -> tuple[Curve, ...]:
    """Medians over the seeds, the best and the worst seed dotted."""
    curves: list[Curve] = []
    for trial in trials:
        colour = COLOURS[trial.start]
        curves.append(Curve(trial.start, trial.marks, _shown(np.median(trial.errors, axis=0)), "-", colour))
        ends = (trial.errors.min(axis=0), trial.errors.max(axis=0))
        curves += [Curve("", trial.marks, _shown(end), ":", colour) for end in ends]
    if task.best is not None:
        curves.append(Curve(task.best_name, (0, task.steps), (task.best, task.best), "--", GREEN))
    return tuple(curves)


def _shown(errors: Floats) -> list[float | None]:
    return [float(error) if np.isfinite(error) else None for error in errors]


def finals(tasks: Sequence[Task], trials: dict[str, list[Trial]], rates: Sequence[float], seeds: int) -> Table:
    """Before and after, over the seeds."""
    rows: list[tuple[Cell, ...]] = []
    for task in tasks:
        for trial in trials[task.title]:
            first, last = trial.errors[:, 0], trial.errors[:, -1]
            ends = float(np.median(last)), float(last.min()), float(last.max())
            rows.append((task.title, trial.start, trial.rate, float(np.median(first)), *ends))
        if task.best is not None:
            rows.append((task.title, task.best_name, None, None, task.best, None, None))
    columns = ("task", "start", "learning rate", "before", "after", "best seed", "worst seed")
    offered = ", ".join(f"{rate:g}" for rate in rates)
    notes = (
        f"Root mean square errors, medians over {seeds} seeds. The learning rate is the one of {offered} with the "
        f"smallest mean error after training, chosen for every start on its own."
    )
    return Table("errors", "Errors", columns, tuple(rows), notes)


def every_seed(tasks: Sequence[Task], trials: dict[str, list[Trial]], seeds: int) -> Table:
    """The errors after training of every run that is shown."""
    rows = tuple(
        (task.title, trial.start, trial.rate, *(float(error) for error in trial.errors[:, -1]))
        for task in tasks
        for trial in trials[task.title]
    )
    columns = ("task", "start", "learning rate", *(f"seed {seed}" for seed in range(seeds)))
    return Table("seeds", "Seeds", columns, rows)
