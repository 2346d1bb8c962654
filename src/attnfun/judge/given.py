"""Claims about networks of other makers: affine quantities of their outputs are bounded on a box [T 12.9].

A claim says that `y M + c <= bounds`, where y are the outputs of one network, their differences from those of another
one, or from a formula. The judge cuts the box by itself, where its bound is largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, nextafter, prod
from typing import Any

import numpy as np
from flint import arb

from . import formula
from .covers import Box
from .errors import NotCovered, Stopped, Unreadable
from .files import Domain, Floats, Tensors, box_of, entry
from .formats import FORMATS
from .graphs import Graph, Machine, Run, alike, graph_of, values
from .limits import Limits
from .models import Model, space
from .noisy import Noisy, weighted
from .ranges import precision, up

KINDS = ("outputs", "difference", "error")


@dataclass(frozen=True)
class GivenLimits:
    """How networks that others made are enclosed."""

    order: int = 2
    """Degree of the Taylor models. By trial."""
    most_variables: int = 16
    """Inputs of networks that are judged. For time."""
    few: int = 32
    """Boxes in more variables than are listed. By trial: differences of close networks take about ten cuts."""


TUNING = GivenLimits()

SEARCHED = {1: 256, 2: 128, 3: 64, 4: 32}
"""Boxes in D variables that the judge cuts, at most."""
EXACT = "exact"
"""Real arithmetic, in place of a number format."""


@dataclass(frozen=True, eq=False)
class GivenClaim:
    """What is stated of given networks."""

    kind: str
    graphs: tuple[Graph, ...]
    domain: Domain
    dtype: str
    matrix: Floats  # (m, Q)
    offset: Floats  # (Q,)
    bounds: Floats  # (Q,)
    text: str
    """The formula, of an error."""
    status: str
    declared: tuple[str, ...]


@dataclass(frozen=True)
class GivenVerdict:
    """What the judge says of a claim about given networks."""

    agreed: bool
    stated: tuple[float, ...]
    judged: tuple[float, ...]
    """The bounds that the judge found; infinite where it found none."""
    boxes: int
    reason: str = ""
    """Why it does not agree."""
    declared: tuple[str, ...] = ()
    covered: bool = True
    """Did the judge come to an end, and does it know what the claim is about?"""

    def __str__(self) -> str:
        if not self.agreed:
            return f"not agreed: {self.reason}"
        lines = [f"agreed: {len(self.stated)} bounds hold (found on {self.boxes} boxes)"]
        return "\n".join([*lines, *(f"taken for granted: {line}" for line in self.declared)])


def given_claim(words: Any, arrays: Tensors) -> GivenClaim:
    """The claim in a description and its arrays."""
    kind, listed = entry(words, "kind", str), entry(words, "graphs", list)
    if kind not in KINDS or len(listed) != (2 if kind == "difference" else 1):
        raise Unreadable(f"a claim must be about {', '.join(KINDS)}, with one network or two")
    graphs = tuple(graph_of(each, arrays, f"{k}.") for k, each in enumerate(listed))
    domain, dtype = box_of(entry(words, "domain", dict)), entry(words, "dtype", str)
    if dtype != EXACT and (dtype not in FORMATS or FORMATS[dtype].sums):
        raise NotCovered(f"given networks in {dtype[:40]}")
    matrix, offset, bounds = (arrays.get(name) for name in ("matrix", "offset", "bounds"))
    for array, axes in ((matrix, 2), (offset, 1), (bounds, 1)):
        if array is None or array.dtype != np.float64 or array.ndim != axes or np.isnan(array).any():
            raise Unreadable("a claim must have a matrix, an offset and bounds")
    assert matrix is not None and offset is not None and bounds is not None  # noqa: S101, PT018 - seen above
    if not (
        matrix.shape[1] == len(offset) == len(bounds) > 0 and np.isfinite(matrix).all() and np.isfinite(offset).all()
    ):
        raise Unreadable("every quantity must have a column, an offset and a bound")
    if any(prod(graph.shape) != len(domain.low) for graph in graphs):
        raise Unreadable("the domain must have as many variables as the network")
    status, lines = entry(words, "status", str), entry(words, "assumptions", list)
    if status not in ("proved", "conditional") or not all(isinstance(line, str) for line in lines):
        raise NotCovered("an estimate, which claims no bound")
    text = entry(words, "formula", str) if kind == "error" else ""
    return GivenClaim(kind, graphs, domain, dtype, matrix, offset, bounds, text, status, tuple(lines))


def judge_given(claim: GivenClaim, limits: Limits | None = None) -> GivenVerdict:
    """Check a claim, without limits unless some are given."""
    stated = tuple(claim.bounds.tolist())
    nothing = (inf,) * len(stated)
    with precision(), np.errstate(all="ignore"):  # floats are hints, balls decide
        try:
            found, boxes = _GivenJudge(claim, limits or Limits()).search()
        except NotCovered as reason:
            return GivenVerdict(False, stated, nothing, 0, f"not covered yet: {reason}", covered=False)
        except Stopped as reason:
            return GivenVerdict(False, stated, nothing, 0, str(reason), covered=False)
        judged = tuple(nextafter(float(up(each)), inf) for each in found)
        missed = [k for k, (bound, own) in enumerate(zip(stated, found, strict=True)) if not own <= bound]
    if not missed:
        return GivenVerdict(True, stated, judged, boxes, "", claim.declared)
    worst = missed[0]
    reason = f"no bound below {judged[worst]:.6g} was found on {boxes} boxes, and {stated[worst]:.6g} is stated"
    return GivenVerdict(False, stated, judged, boxes, reason)


class _GivenJudge:
    """Bounds the quantities of one claim on boxes."""

    def __init__(self, claim: GivenClaim, limits: Limits) -> None:
        size = len(claim.domain.low)
        if size > TUNING.most_variables:
            raise NotCovered(f"networks of more than {TUNING.most_variables} inputs")
        self.claim, self.limits, self.space = claim, limits, space(size, TUNING.order)
        self.machine = Machine(None if claim.dtype == EXACT else FORMATS[claim.dtype])
        self.twins = len(claim.graphs) == 2 and alike(*claim.graphs)
        self.columns = [[arb(w) for w in column] for column in claim.matrix.T.tolist()]
        self.program = formula.read(claim.text, claim.domain.names) if claim.kind == "error" else None

    def search(self) -> tuple[list[arb], int]:
        """Bounds on all quantities over the domain, and the boxes that it took."""
        start = Box(self.claim.domain.low, self.claim.domain.high)
        bounds, slopes = self._bounded(start)
        heap = [(-self._excess(bounds), 0, start, bounds, slopes)]
        found, boxes, most = [arb("-inf")] * len(bounds), 1, SEARCHED.get(len(start.low), TUNING.few)
        while heap:
            excess, _, box, bounds, slopes = heappop(heap)
            halves = box.cut(self._axis(box, bounds, slopes)) if -excess > 0 and boxes < most else None
            if halves is None:
                found = [each if each >= own else own for each, own in zip(found, bounds, strict=True)]
                continue
            for half in halves:
                own, its = self._bounded(half)
                own = [each if each <= known else known for each, known in zip(own, bounds, strict=True)]
                boxes += 1
                heappush(heap, (-self._excess(own), boxes, half, own, its))
        return found, boxes

    def _excess(self, bounds: list[arb]) -> float:
        """How far the bounds are above those stated, relative to their size: a hint."""
        pairs = zip(bounds, self.claim.bounds.tolist(), strict=True)
        gaps = [inf if not own.is_finite() else float(own - bound) / (abs(bound) + 1e-300) for own, bound in pairs]
        return max(0.0 if own <= 0 else own for own in gaps)

    def _axis(self, box: Box, bounds: list[arb], slopes: Floats) -> int:
        """The axis along which the quantity that misses its bound most moves most."""
        gaps = [float(own) - bound for own, bound in zip(bounds, self.claim.bounds.tolist(), strict=True)]
        own = slopes[int(np.argmax(gaps))]
        return int(np.argmax(np.where((box.low < box.middle) & (box.middle < box.high), own, -1.0)))

    def _bounded(self, box: Box) -> tuple[list[arb], Floats]:
        """Bounds on the quantities on a box, and how much each axis moves each, (Q, D)."""
        self.limits.box(len(box.low), self.space.count * sum(graph.work for graph in self.claim.graphs))
        run = Run(self.machine, self.space, self.limits.step)
        exact = box.variables(self.space)
        seen = [Noisy.of(each).widened(self.machine.entered(each.range.most)).promoted() for each in exact]
        graphs = self.claim.graphs
        if self.twins:
            outputs = [each.d for each in values(graphs, seen, run)]
        else:
            outputs = [each.a for each in values(graphs[:1], seen, run)]
        if len(graphs) == 2 and not self.twins:
            others = [each.a for each in values(graphs[1:], seen, run)]
            if len(others) != len(outputs):
                raise Unreadable("two networks must have as many outputs")
            outputs = [other - each for each, other in zip(outputs, others, strict=True)]
        if self.program is not None:
            outputs = self._errors(outputs, exact)
        if len(outputs) != len(self.claim.matrix):
            raise Unreadable("the matrix must have a row for every output")
        offsets = [arb(each) for each in self.claim.offset.tolist()]
        quantities = [
            weighted(column, outputs, offset, self.space) for column, offset in zip(self.columns, offsets, strict=True)
        ]
        slopes = [[abs(float(each.model.polynomial[place])) for place in self.space.axes] for each in quantities]
        return [up(each.range.high) for each in quantities], np.array(slopes)

    def _errors(self, outputs: list[Noisy], exact: list[Model]) -> list[Noisy]:
        """The outputs less the values of the formula at the inputs before they are rounded."""
        assert self.program is not None  # noqa: S101 - the caller has seen it
        wanted = formula.evaluate(*self.program, exact)
        if len(wanted) != len(outputs):
            raise Unreadable("the formula must have as many values as the network")
        if self.claim.status == "proved" and not all(each.range.defined for each in wanted):
            raise NotCovered("a formula that may not be defined somewhere")
        return [each - Noisy.of(value) for each, value in zip(outputs, wanted, strict=True)]
