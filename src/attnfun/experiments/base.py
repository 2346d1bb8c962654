"""What an experiment is and what comes out of it: tables and pictures, as data.

>>> table = Table("halves", "Halves", ("n", "half"), ((1, 0.5), (2, None)))
>>> print(table.markdown())
| n | half |
|---|---|
| 1 | 0.5 |
| 2 |  |
>>> print(table.csv(), end="")
n,half
1,0.5
2,
"""

from __future__ import annotations

import csv
import importlib.util
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import MissingExtra

Cell = str | int | float | None
Series = Sequence[float] | Sequence[float | None] | npt.NDArray[np.float64]
Step = Callable[[str], None]
"""Told what is being done, as it begins."""
MODULES = {"torch": "torch", "sklearn": "sklearn"}
"""The module by which an extra is recognised."""


def quietly(doing: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Table:
    """Rows of cells; None is an empty cell."""

    name: str
    """A part of a file's name."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: str = ""
    whole: bool = True
    """Is it shown on the page? Otherwise the page refers to its file."""

    def markdown(self) -> str:
        """For people: floats to three digits."""
        head, *body = (f"| {' | '.join(map(_shown, cells))} |" for cells in (self.columns, *self.rows))
        return "\n".join([head, "|---" * len(self.columns) + "|", *body])

    def csv(self) -> str:
        """For machines: floats with all their digits."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.columns, *self.rows])
        return text.getvalue()


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


@dataclass(frozen=True)
class Curve:
    """Points to be joined or marked, `style` as in matplotlib ("-", "--", "o", "x", ...)."""

    label: str
    x: Sequence[float] | npt.NDArray[np.float64]
    y: Series
    style: str = "-"
    colour: str = "#0072B2"
    spread: Series | None = None
    """Drawn as a band about y."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `scale`: the name of matplotlib's plot, loglog, semilogy, semilogx or plot."""

    title: str
    across: str
    up: str
    curves: tuple[Curve, ...]
    scale: str = "loglog"
    limits: tuple[float, float] | None = None
    """Of the vertical axis."""


@dataclass(frozen=True, eq=False)
class HeatMap:
    """One pair of axes with a matrix of shades, from 0 to its largest entry."""

    title: str
    across: str
    up: str
    values: npt.NDArray[np.float64]  # (up, across)


@dataclass(frozen=True)
class Picture:
    """Panels in rows."""

    name: str
    """A part of a file's name."""
    title: str
    """What is to be seen, for those who cannot see it."""
    panels: tuple[Panel | HeatMap, ...]
    across: int = 2
    """Panels in a row."""


@dataclass(frozen=True)
class Result:
    """What an experiment found."""

    text: str
    """What was done, in Markdown."""
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]


class Experiment(ABC):
    """One theorem, or one experiment of a paper, to be run again. `run(quick=True)` takes a few seconds."""

    name: ClassVar[str]
    title: ClassVar[str]
    constructions: ClassVar[tuple[str, ...]] = ()
    """Those whose rates are measured here."""
    extras: ClassVar[tuple[str, ...]] = ()
    """What must be installed."""

    @abstractmethod
    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """Run it in full, as for the tables of the documentation, or with fewer and smaller networks."""

    def command(self, quick: bool) -> str:
        """What a user types to run it."""
        return f"attnfun reproduce {self.name}{' --quick' * quick}"

    def check(self) -> None:
        """Raise MissingExtra if a package that it needs is not installed."""
        for extra in self.extras:
            if importlib.util.find_spec(MODULES[extra]) is None:
                raise MissingExtra(MODULES[extra], extra)
