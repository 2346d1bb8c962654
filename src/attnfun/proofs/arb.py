"""A second proof of `max |f - network|` that shares no arithmetic with the first: balls instead of intervals.

It is there to double-check: another library (Arb, through python-flint), other formulas, the same claim. Networks with
one attention layer between affine maps are known. Boxes are cut worst first; on each, two bounds are tried.

**Ranges.** The largest difference between the range of the network (`arb_heads.py`) and that of the formula.

**Taylor models.** On a box with centre c and half-widths r, network and formula are polynomials p and q of degree m in
`δ = x - c` with remainders ρ and σ (`arb_heads.py`, `arb_jets.py`), so the error is at most

    Σ_{|α| <= m} |p_α - q_α| r^α + ρ + σ.

At every moment the largest bound over all boxes is a valid bound over the domain. It holds where the formula is
defined; that it is defined everywhere is not proved here.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf, isnan, nextafter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..deadline import NEVER, Deadline
from ..network import Network
from .arb_heads import Cell, Focus, View
from .arb_jets import Jet, Rough, arb, evaluate, jets, largest, precision, total, variables
from .arb_network import affine, wire

if TYPE_CHECKING:
    from ..targets.expression import Expression

Floats = npt.NDArray[np.float64]

ORDERS = {1: 10, 2: 4, 3: 3}
"""Degree m of the Taylor models in D variables."""
HIGHER = 2
"""Degree in more variables."""
WITHIN = 1.05
"""Without a goal, stop when the bound is this close to the largest error found."""


@dataclass(frozen=True)
class ArbOutcome:
    """A bound that holds on the whole domain, the boxes it took, and an error that the network surely reaches."""

    bound: float
    boxes: int
    found: float


class _Search:
    """The target and the network in balls, and the largest error met."""

    def __init__(self, target: Expression, network: Network) -> None:
        self.program, self.domain = target.program, target.domain
        self.wiring = wire(network, target.domain)
        self.order = ORDERS.get(target.domain.size, HIGHER)
        self.algebra = jets(target.domain.size, self.order + 1)
        self.found = 0.0

    def root(self) -> Cell:
        """The whole domain, all tokens in play."""
        focus = [Focus(list(range(slot.keys)), arb(0)) for slot in self.wiring.slots]
        return Cell(self.domain.lo.ravel(), self.domain.hi.ravel(), focus)

    def bound(self, cell: Cell, goal: float | None) -> tuple[float, list[Focus]]:
        """A bound on the error over a box, and what its halves inherit."""
        views = [View(slot, cell, focus) for slot, focus in zip(self.wiring.slots, cell.focus, strict=True)]
        bound = self._by_ranges(cell, views)
        expected = sum(view.remainder(self.order) for view in views)
        enough = -inf if goal is None else goal
        if bound > enough and expected < (bound / 2 if goal is None else goal):
            bound = min(bound, self._by_models(cell, views))
        return bound, [view.focus for view in views]

    def _by_ranges(self, cell: Cell, views: list[View]) -> float:
        """Largest difference of the ranges of network and target."""
        averages = [view.averages() for view in views]
        worst = 0.0
        for output, value in enumerate(self._target_range(cell)):
            mixed = total([average[output] for average in averages])
            worst = _larger(worst, affine(self.wiring.rest[output], [arb(1), *cell.ball]) + mixed - value)
        return worst

    def _target_range(self, cell: Cell) -> list[arb]:
        return [jet[0] for jet in evaluate(self.program, jets(len(cell.ball), 0), [[x] for x in cell.ball])]

    def _by_models(self, cell: Cell, views: list[View]) -> float:
        """The sum of absolute coefficients of the difference of two Taylor models, with their remainders."""
        models = [view.models(self.algebra) for view in views]
        radii, worst = self.algebra.monomials(cell.radii), 0.0
        for output, (target, beyond) in enumerate(self._target_models(cell)):
            row = self.wiring.rest[output]
            polynomial = self.algebra.affine(affine(row, [arb(1), *cell.centre]), row[1:])[: len(target)]
            remainder = beyond
            for model, left in (slot[output] for slot in models):
                polynomial = self.algebra.add(polynomial, model)
                remainder += left
            error = self.algebra.subtract(polynomial, target)
            self._note(error[0], remainder)
            worst = _larger(worst, largest(error, radii[: len(error)]) + remainder)
        return worst

    def _note(self, error: arb, remainder: arb) -> None:
        """Remember the error at the centre of a box, from below."""
        least = float((error.abs_lower() - remainder).lower())
        if least > self.found:
            self.found = nextafter(least, 0.0)

    def _target_models(self, cell: Cell) -> list[tuple[Jet, arb]]:
        """For each output, Taylor polynomial and remainder; across a kink or an edge, its range as a constant."""
        algebra, first = self.algebra, self.algebra.below(self.algebra.order)
        flat = [(algebra.constant(value)[:first], arb(0)) for value in self._target_range(cell)]
        try:
            on_box = evaluate(self.program, algebra, variables(algebra, cell.ball))
            at_centre = evaluate(self.program, algebra, variables(algebra, cell.centre))
        except Rough:
            return flat
        radii, models = algebra.monomials(cell.radii)[first:], []
        for box, point, constant in zip(on_box, at_centre, flat, strict=True):
            beyond = largest(box[first:], radii)
            smooth = beyond <= constant[0][0].rad() and all(a.is_finite() for a in point)
            models.append((point[:first], beyond) if smooth else constant)
        return models


def enclosed_at(target: Expression, rows: Floats) -> tuple[Floats, Floats]:
    """Ends of intervals that hold the formula's values at rows (P, D) wherever it is defined, (P, m) each; or nan."""
    algebra, low, high = jets(rows.shape[1], 0), list[list[float]](), list[list[float]]()
    with precision():
        for row in rows:
            values = evaluate(target.program, algebra, [[arb(float(number))] for number in row])
            low.append([nextafter(float(value[0].lower()), -inf) for value in values])
            high.append([nextafter(float(value[0].upper()), inf) for value in values])
    shape = len(rows), target.outputs
    return np.array(low, dtype=np.float64).reshape(shape), np.array(high, dtype=np.float64).reshape(shape)


def _larger(worst: float, error: arb) -> float:
    """The larger of a bound and the size of a ball, rounded up; a ball about which nothing is known is infinite."""
    size = nextafter(float(error.abs_upper()), inf)
    return inf if isnan(size) else max(worst, size)


def bound_error(target: Expression, network: Network, goal: float | None, deadline: Deadline = NEVER) -> ArbOutcome:
    """Prove a bound on `max |target - network|` over the domain, in real arithmetic, in balls.

    Stops at `bound <= goal`, at a point whose error exceeds the goal (no proof is possible), without a goal within 5 %
    of the largest error found, or at the time limit. Work per box is O(tokens in play there).
    """
    ticket, settled, boxes = count(), 0.0, 1
    with precision():
        search = _Search(target, network)
        root, extent = search.root(), (target.domain.hi - target.domain.lo).ravel()
        bound, focus = search.bound(root, goal)
        waiting = [(-bound, next(ticket), root, focus)]
        while waiting:
            bound, enough = -waiting[0][0], WITHIN * search.found if goal is None else goal
            hopeless = goal is not None and search.found > goal
            if bound <= max(enough, settled) or hopeless or deadline.over:
                break
            _, _, cell, focus = heappop(waiting)
            halves = cell.halves(extent, focus)
            if not halves:
                settled = max(settled, bound)
            for half in halves:
                part, narrowed = search.bound(half, goal)
                boxes += 1
                heappush(waiting, (-min(part, bound), next(ticket), half, narrowed))
    return ArbOutcome(max([settled, *(-entry[0] for entry in waiting[:1])]), boxes, search.found)
