"""Scattered, possibly noisy data as a target: a function that is known at rows, and nowhere else.

>>> data = Samples([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
>>> data
Samples(3 rows, 1 variable, 1 output)
>>> data.domain
Box(x=0:2)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import labels, real_array
from ..arithmetic.norms import mean
from ..domains.box import WIDEST, Box
from ..errors import InputError, counted
from .base import Floats, Status, Target
from .piecewise import Family


@dataclass(frozen=True, eq=False)
class Samples(Family):
    """Rows X of shape (n, D), or (n,) for one variable, and what was measured there, y of shape (n,) or (n, m).

    The domain is the smallest box around the rows unless `af.compile` is given another that holds them. Names of
    variables are those of a data frame's columns, or `names`.
    """

    X: Floats  # (n, D)
    y: Floats  # (n, m)
    names: tuple[str, ...] | None
    output_shape: tuple[int, ...]

    def __init__(self, X: npt.ArrayLike, y: npt.ArrayLike, names: Any = None) -> None:
        if names is None and hasattr(X, "columns"):
            names = X.columns  # type: ignore[union-attr]
        rows, values = _numbers("X", X), _numbers("y", y)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] == 0 or values.ndim not in (1, 2) or 0 in values.shape[1:]:
            raise InputError(
                "samples need X of shape (n, D) or (n,) and y of shape (n,) or (n, m)",
                got=f"{rows.shape} and {values.shape}",
            )
        if len(rows) != len(values) or len(rows) < 2:
            raise InputError(
                "samples need as many rows of X as of y, and at least 2", got=f"{len(rows)} and {len(values)}"
            )
        object.__setattr__(self, "X", rows)
        object.__setattr__(self, "y", values.reshape(len(values), -1))
        object.__setattr__(self, "names", labels("names", names))
        object.__setattr__(self, "output_shape", values.shape[1:])

    @property
    def domain(self) -> Box:
        """The smallest box around the rows; a variable that never varies gets an interval around its value."""
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        room = np.where(high > low, 0.0, np.maximum(np.abs(low), 1.0) / 2)
        return Box(low - room, high + room, self.names)

    @property
    def order(self) -> npt.NDArray[np.intp]:
        """Rows in ascending order, (n,): by the first variable, then the next, and then by what was measured."""
        return np.lexsort(np.hstack([self.X, self.y]).T[::-1])

    def on(self, domain: Box) -> Target:
        """The samples as a target on a box that holds them."""
        return SamplesTarget(self, domain)

    def __repr__(self) -> str:
        return _counted(len(self.X), self.X.shape[1], self.y.shape[1])


@dataclass(frozen=True, eq=False)
class Study:
    """What happened at rows that were held out, by networks as they would be emitted."""

    residuals: Floats  # (n, m), prediction minus y
    r2: float | None
    """1 - squared residuals / squared deviations from the mean, averaged over outputs; None if no output varies."""
    trials: tuple[dict[str, Any], ...]
    """Sizes that were tried, each with its errors by fold."""
    method: str
    """What was held out, in words."""
    stopped: str = ""
    """The limit that ended the trials, in words."""

    @property
    def rmse(self) -> float:
        """Root mean square over rows and outputs."""
        return float(np.sqrt(np.mean(self.residuals**2)))

    def error(self, norm: float) -> float:
        """The largest error, or the p-mean over rows; of several outputs the largest counts."""
        return mean_over_rows(self.residuals, norm)


class SamplesTarget(Target):
    """Samples on a domain, and what happened to held-out rows once a network was fitted."""

    samples: Samples
    study: Study | None
    status = Status.ESTIMATED
    evaluable = enclosable = False

    def __init__(self, samples: Samples, domain: Box, study: Study | None = None) -> None:
        if domain.tokens[0] != 1 or domain.size != samples.X.shape[1]:
            raise InputError(
                f"the domain of samples must have {counted(samples.X.shape[1], 'variable')}",
                got=repr(domain),
                remedy="Leave it out.",
            )
        beyond = np.flatnonzero(~domain.contains(samples.X))
        if len(beyond):
            raise InputError(
                "the domain must hold every row of the samples",
                got=f"{samples.X[beyond[0]].tolist()} (row {beyond[0]}) for {domain!r}",
                remedy="Widen the domain, leave it out, or drop such rows.",
            )
        stopped = "" if study is None else study.stopped
        vars(self).update(
            samples=samples, domain=domain, output_shape=samples.output_shape, study=study, stopped=stopped
        )

    def measured(self, study: Study) -> SamplesTarget:
        """The same rows with what was measured while some were held out."""
        return SamplesTarget(self.samples, self.domain, study)

    def __repr__(self) -> str:
        return f"{self.samples!r} on {self.domain!r}"

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """What was measured, and what it does not say."""
        if self.study is None:
            return ()
        score = "" if self.study.r2 is None else f", R² {self.study.r2:.4g}"
        return (
            f"held out: {self.study.method}",
            f"held-out RMSE {self.study.rmse:.6g}{score}; largest error {self.study.error(inf):.6g}",
            FITTED,
        )

    def values(self, rows: Floats) -> Floats:
        """There are none but at the rows."""
        raise InputError("samples have values at their rows only", got=f"{len(rows)} points")

    def largest_value(self, seed: int) -> float:
        """Of the data."""
        del seed
        return float(np.abs(self.samples.y).max())

    def as_dict(self) -> dict[str, Any]:
        """Counts and what was measured; the data themselves are not stored."""
        (rows, variables), outputs = self.samples.X.shape, self.samples.y.shape[1]
        return described(rows, variables, outputs, held_out=self.study is not None)


HELD_OUT = ", each held out once"
FITTED = "the network emitted was fitted to all rows; nothing bounds its error between or beyond them"


def held_out_by(rows: object, folds: object, seed: object) -> str:
    """What was held out, in words."""
    return (
        f"each of {rows} rows once, in {folds} folds (shuffled, seed {seed}); the network that predicted a row was "
        "fitted without its fold, with the recipe that did best on the other folds"
    )


def says_what_was_measured(lines: Sequence[str], rows: int) -> bool:
    """Are these the assumptions of a target of so many rows, held out, whatever was measured?"""
    if len(lines) != 3 or lines[2] != FITTED:
        return False
    folds = re.search(r"in (\d+) folds \(shuffled, seed (\d+)\)", lines[0])
    number = r"-?(\d[\d.]*(e[+-]?\d+)?|inf|nan)"
    scores = re.fullmatch(rf"held-out RMSE {number}(, R² {number})?; largest error {number}", lines[1])
    return scores is not None and folds is not None and lines[0] == f"held out: {held_out_by(rows, *folds.groups())}"


def described(rows: int, variables: int, outputs: int, *, held_out: bool) -> dict[str, Any]:
    """A certificate's words about data, from counts alone."""
    return {
        "kind": "samples",
        "name": _counted(rows, variables, outputs),
        "rows": rows,
        "variables": variables,
        "held_out": held_out,
        "where": f"the {rows} rows of the data" + (HELD_OUT if held_out else ""),
        "meaning": "errors at rows of data: the largest, or the p-mean with norm=p; it bounds nothing else",
    }


def _counted(rows: int, variables: int, outputs: int) -> str:
    counts = (rows, "row"), (variables, "variable"), (outputs, "output")
    return f"Samples({', '.join(f'{count} {noun}' + 's' * (count != 1) for count, noun in counts)})"


def mean_over_rows(residuals: Floats, norm: float) -> float:
    """The largest, or the p-mean, over rows of residuals (n, m), of which the largest output counts."""
    return mean(np.abs(residuals).max(axis=1), norm)


def _numbers(name: str, values: npt.ArrayLike) -> Floats:
    """Finite real numbers of ordinary size, as an array of its own."""
    array = np.array(real_array(name, values, most=WIDEST))
    array.setflags(write=False)
    return array
