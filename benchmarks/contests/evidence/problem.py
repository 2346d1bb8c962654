"""A function to be imitated, the same for everybody: on [-1, 1]^D and divided by its largest value.

So tolerances and errors are relative, and no contestant has to scale anything.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from attnfun.domains.box import Box, as_box
from attnfun.errors import InputError
from attnfun.proofs.search import climbed, corners
from attnfun.targets import Target, as_target

from ..peers import Fit, Floats, scattered

POINTS = 20_000
"""Where errors are measured, beside all corners; the search starts from the worst."""
COLUMNS = {"name", "formula", "domain"}


@dataclass(frozen=True)
class Problem:
    """A row of a file of functions."""

    name: str
    formula: str
    domain: dict[str, tuple[float, float]]

    @property
    def variables(self) -> int:
        """How many there are."""
        return len(self.domain)

    @cached_property
    def target(self) -> Target:
        """The formula, read."""
        return as_target(self.formula, as_box(self.domain))

    @cached_property
    def scale(self) -> float:
        """The largest value found, as `af.compile(..., relative=True)` finds it."""
        return self.target.largest_value(0)

    def places(self, rows: Floats) -> Floats:
        """Points of [-1, 1]^D in the domain, (S, D)."""
        low, high = (end.ravel() for end in (self.target.domain.lo, self.target.domain.hi))
        return np.clip(low + (rows + 1) / 2 * (high - low), low, high)

    def values(self, rows: Floats) -> Floats:
        """The function at points of [-1, 1]^D, divided by the scale: (S, D) -> (S,)."""
        return self.target.values(self.places(rows))[:, 0] / self.scale

    @cached_property
    def checks(self) -> tuple[Floats, Floats]:
        """Points that no contestant has seen, with the function there: (P, D), (P,)."""
        cube = Box(np.full(self.variables, -1.0), np.full(self.variables, 1.0))
        rows = np.vstack([corners(cube), scattered(POINTS, self.variables, seed=1)])
        return rows, self.values(rows)

    def error(self, fit: Fit) -> float:
        """The largest at the checks; infinite where a fit is not a number."""
        rows, truth = self.checks
        return float(_size(fit.values(rows) - truth).max())

    def attacked(self, fit: Fit) -> float:
        """The largest at the checks and by climbing from the worst of them."""
        rows, truth = self.checks
        ends = np.full(self.variables, -1.0), np.full(self.variables, 1.0)
        step = 2.0 / POINTS ** (1 / self.variables)
        errors, *_ = climbed(
            lambda tries: _size(fit.values(tries) - self.values(tries)),
            *(rows, _size(fit.values(rows) - truth), step, ends, np.random.default_rng(1)),
        )
        return float(errors.max())


def _size(difference: Floats) -> Floats:
    return np.where(np.isnan(difference), np.inf, np.abs(difference))


def problems(path: Path) -> list[Problem]:
    """Read a CSV of name, formula and domain, the last as in `x=-1:1 y=0:2`."""
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if not set(reader.fieldnames or ()) >= COLUMNS:
            raise InputError(
                "a file of functions needs the columns name, formula and domain",
                got=", ".join(reader.fieldnames or ()) or "an empty file",
                remedy="A row is, for example: wave,sin(10*x)*y,x=-1:1 y=0:2",
            )
        return [Problem(row["name"], row["formula"], _domain(row["domain"])) for row in reader]


def _domain(text: str) -> dict[str, tuple[float, float]]:
    try:
        pairs = (part.split("=") for part in text.split())
        return {name: (float(low), float(high)) for name, (low, high) in ((n, ends.split(":")) for n, ends in pairs)}
    except ValueError:
        raise InputError("a domain is written as in x=-1:1 y=0:2", got=repr(text)) from None
