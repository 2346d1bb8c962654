"""Error against size: networks of several sizes for one target, what is proved about them and what is measured.

Certificates get a few seconds each and no tolerance, so a bound may be above what more time would prove; the largest
networks are measured only. A bound above that of a smaller network comes from a proof that ran out of time, not from
the construction: it is in no table and no picture. Measured errors are the largest over random points and a search in
the sup norm, and come from a midpoint rule in L_p.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import attnfun as af

from ..arithmetic.norms import mean
from .base import Curve, Experiment, Panel, Picture, Result, Step, Table, quietly
from .drawing import BLUE, GREEN, GREY, ORANGE, PINK

POINTS, QUICK_POINTS = 400_000, 20_000
"""Points at which errors are measured, fewer for large networks."""
SECONDS, QUICK_SECONDS = 10.0, 0.5
"""Time for each certificate."""
QUICK_STUDIES, QUICK_SIZES = 2, 3
BY_PAPER = "by the paper's argument"
"""Not its own bound, whose constants it may not state: ours, at the best parameters of its argument."""
LOOKS = ((BLUE, "o"), (ORANGE, "x"))
"""Colour and mark of each construction."""


@dataclass(frozen=True)
class RateStudy:
    """One target in one norm at several sizes, smallest first."""

    name: str
    title: str
    target: Any
    domain: Any
    sizes: tuple[int, ...]
    slope: float
    """The exponent of the size that the theory predicts for the error."""
    constructions: tuple[str, ...]
    proofs: float = inf
    """Larger networks are measured, not certified."""
    norm: float = inf
    option: str = "tokens"
    """The name of the size among the construction's options."""
    counted: str = ""
    """What the network's size is counted in, if not in that: a name among its figures."""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What sizes are counted in."""
        return self.counted or self.option


@dataclass(frozen=True)
class Row:
    """One network."""

    size: int
    paper: float | None
    a_priori: float
    proved: float | None
    measured: float


Rows = dict[str, list[Row]]
"""By construction."""


def run(study: RateStudy, quick: bool, step: Step) -> Rows:
    """Networks of all sizes, of each construction."""
    sizes = study.sizes[:QUICK_SIZES] if quick else study.sizes
    results: Rows = {name: [] for name in study.constructions}
    for name, size in ((name, size) for name in study.constructions for size in sizes):
        step(f"{study.title}: {name}, {study.option} {size}")
        certified = size <= study.proofs
        net = af.compile(
            study.target,
            study.domain,
            norm="inf" if study.norm == inf else study.norm,
            construction=name,
            options={**study.options, study.option: size},
            time_limit=QUICK_SECONDS if quick else SECONDS,
            proof=certified,
        )
        counts = {study.option: size, "tokens": net.network.tokens, **net.figures}
        taken = int(counts[study.unit])
        keys = taken if study.option == "tokens" else net.network.tokens
        points = (QUICK_POINTS if quick else POINTS) // max(1, keys // 100)
        proved = net.certificate.bound if certified else None
        results[name].append(Row(taken, net.paper_bound, net.a_priori, proved, measured(net, points, study.norm)))
    return {name: falling(rows) for name, rows in results.items()}


def falling(rows: list[Row]) -> list[Row]:
    """The rows, smallest first, without bounds that lie above the bound of a smaller network."""
    kept, best = list[Row](), inf
    for row in rows:
        late = row.proved is not None and row.proved > best
        kept.append(replace(row, proved=None) if late else row)
        best = min(best, inf if row.proved is None else row.proved)
    return kept


def measured(net: af.types.Compiled, count: int, norm: float = inf) -> float:
    """The error at so many points: the largest, also by a search, or in L_p by a midpoint rule."""
    rows = net.domain.sample(count, np.random.default_rng(1)) if norm == inf else lattice(net.domain, count)
    values = net(net.domain.unflatten(rows)).reshape(len(rows), -1)
    target = net.certificate.claim.target
    assert target is not None  # noqa: S101 - it was compiled just now
    error = np.abs(values - target.values(rows)).max(axis=1)
    if norm == inf:
        return max(float(error.max()), net.certificate.found)
    return mean(error, norm) * net.domain.root_volume(norm)


def lattice(domain: af.Box, count: int) -> npt.NDArray[np.float64]:
    """About `count` midpoints of equal cells, an odd number per axis so that they do not coincide with a grid."""
    each = int(count ** (1 / domain.size)) | 1
    mesh = np.meshgrid(*[(np.arange(each) + 0.5) / each] * domain.size, indexing="ij")
    unit = np.stack([axis.ravel() for axis in mesh], axis=1)  # (P, D)
    return domain.lo.ravel() + unit * (domain.hi - domain.lo).ravel()


def fitted(sizes: npt.ArrayLike, errors: npt.ArrayLike) -> float:
    """The exponent of the size in the error, by least squares.

    >>> round(fitted([1, 2, 4], [1, 0.25, 0.0625]), 6)
    -2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def exponent(rows: list[Row]) -> float:
    """Of the measured error, over all sizes but the first."""
    return fitted([row.size for row in rows[1:]], [row.measured for row in rows[1:]])


def table(study: RateStudy, results: Rows) -> Table:
    """Constructions side by side."""
    has_paper = any(row.paper is not None for row in results[study.constructions[0]])
    columns = [study.unit, *[BY_PAPER] * has_paper, "a priori"]
    columns += [f"{what} ({name})" for name in results for what in ("proved", "measured")]
    lines = []
    for rows in zip(*results.values(), strict=True):
        first = rows[0]
        bounds = [*[first.paper] * has_paper, first.a_priori]
        lines.append((first.size, *bounds, *(figure for row in rows for figure in (row.proved, row.measured))))
    slopes = ", ".join(f"{exponent(rows):.2f} ({name})" for name, rows in results.items())
    notes = f"Exponent of {study.unit}: predicted {study.slope:.3g}, measured {slopes}."
    if has_paper:
        notes += f" {BY_PAPER.capitalize()}: with our constants, at the sharpest head that the option `gamma` allows."
    return Table(study.name, study.title, tuple(columns), tuple(lines), notes)


def panel(study: RateStudy, results: Rows) -> Panel:
    """Measured errors as marks, proved bounds as lines, the predicted slope dashed."""
    curves = []
    for (name, rows), (colour, mark) in zip(results.items(), LOOKS, strict=False):
        sizes = [row.size for row in rows]
        curves.append(Curve(f"measured, {name}", sizes, [row.measured for row in rows], mark, colour))
        curves.append(Curve(f"proved, {name}", sizes, [row.proved for row in rows], ".-", colour))
    rows = results[study.constructions[0]]
    sizes = [row.size for row in rows]
    curves.append(Curve("a priori", sizes, [row.a_priori for row in rows], ":", GREEN))
    if all(row.paper is not None for row in rows):
        curves.append(Curve(BY_PAPER, sizes, [row.paper for row in rows], "-.", PINK))
    guide = [rows[-1].measured * (size / sizes[-1]) ** study.slope for size in sizes]
    curves.append(Curve("predicted slope", sizes, guide, "--", GREY))
    return Panel(f"{study.title}: slope {study.slope:.3g}", study.unit, "error", tuple(curves))


class Convergence(Experiment):
    """Studies of one theorem, in one picture."""

    studies: ClassVar[tuple[RateStudy, ...]]
    text: ClassVar[str]

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """All studies; quickly, the first sizes of the first two."""
        studies = self.studies[:QUICK_STUDIES] if quick else self.studies
        results = [(study, run(study, quick, step)) for study in studies]
        picture = Picture("rates", f"{self.title}: error against size", tuple(panel(*result) for result in results))
        return Result(self.text, (picture,), tuple(table(*result) for result in results))
