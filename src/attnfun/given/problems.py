"""What is bounded: outputs of a network, differences of two, errors against a target, as quantities of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from ..arithmetic import Interval, join
from ..arithmetic.directed import SMALLEST, ULP, rounded_up
from ..arithmetic.jets import variables
from ..domains.box import Box
from ..targets import Target
from ..targets.readers.graph import Graph
from .backward import chain_of, enclose_chain
from .differences import closer, enclose_difference
from .enclosure import MOST_SYMBOLS, Run, enclose, entered, joined
from .forms import SPARE, Floats, Form, Symbols, linear, made
from .machine import Machine

Subject = Callable[[Floats, Floats], Form]
"""Forms of the numbers that quantities are made of, on boxes (B, D): shape (m,)."""
MOST_SERIES = 12
"""Targets of up to this many variables are expanded in series."""


@dataclass(frozen=True, eq=False)
class Quantities:
    """Numbers and their negatives, or affine combinations of them.

    Without a matrix the quantities are `y_1, .., y_m, -y_1, .., -y_m`; with one, (m, Q), they are `y matrix + offset`.
    """

    subject: Subject
    points: Callable[[Floats], Floats]
    """The numbers at points (P, D), in float64: (P, m)."""
    numbers: int
    entries: int
    """Numbers in the largest value of the network."""
    matrix: Floats | None = None
    offset: Floats | None = None

    @property
    def quantities(self) -> int:
        """How many there are."""
        return 2 * self.numbers if self.matrix is None else self.matrix.shape[1]

    def forms(self, lo: Floats, hi: Floats) -> Form:
        """Forms of the quantities on boxes (B, D)."""
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            form = self.subject(lo, hi)
            if self.matrix is None or self.offset is None:
                return joined([form, -form], axis=0)
            return linear(form, self.matrix, self.offset)

    def values(self, points: Floats) -> Floats:
        """The quantities at points (P, D), (P, Q)."""
        values = self.points(points)
        if self.matrix is None or self.offset is None:
            return np.concatenate([values, -values], axis=1)
        return values @ self.matrix + self.offset


def flat(form: Form) -> Form:
    """A form of one axis."""
    return form.arranged(lambda array: array.reshape(len(array), -1))


def rows(graph: Graph, points: Floats) -> Floats:
    """Values of a graph at points (P, D), (P, m)."""
    return graph.values(points.reshape(len(points), *graph.input_shape)).reshape(len(points), -1)


def largest(graph: Graph) -> int:
    """Numbers in the largest value of a graph."""
    return max(prod(node.shape) for node in graph.nodes)


def outputs_of(
    graph: Graph, machine: Machine, matrix: Floats | None = None, offset: Floats | None = None
) -> Quantities:
    """The outputs of a network, or affine combinations of them."""

    count, entries = prod(graph.output_shape), largest(graph)
    chain = chain_of(graph) if matrix is None else None  # forms of several outputs know what these have in common

    def subject(lo: Floats, hi: Floats) -> Form:
        if chain is not None:
            return enclose_chain(chain, graph.input_shape, machine, lo, hi)
        run = Run(machine, Symbols(0, MOST_SYMBOLS))
        return flat(enclose(graph, entered(lo, hi, graph.input_shape, run)[1], run))

    entries = entries if chain is None else 2 * entries**2
    return Quantities(subject, lambda points: rows(graph, points), count, entries, matrix, offset)


def difference_of(a: Graph, b: Graph, machine: Machine) -> Quantities:
    """The outputs of one network minus those of another."""

    def subject(lo: Floats, hi: Floats) -> Form:
        run = Run(machine, Symbols(0, MOST_SYMBOLS))
        return flat(enclose_difference(a, b, entered(lo, hi, a.input_shape, run)[1], run))

    entries = 3 * max(largest(a), largest(b))
    return Quantities(subject, lambda points: rows(b, points) - rows(a, points), prod(a.output_shape), entries)


def error_of(graph: Graph, target: Target, machine: Machine) -> Quantities:
    """The outputs of a network minus the values of a target at the inputs before they are rounded."""

    def subject(lo: Floats, hi: Floats) -> Form:
        run = Run(machine, Symbols(0, MOST_SYMBOLS))
        _, seen = entered(lo, hi, graph.input_shape, run)
        return flat(enclose(graph, seen, run)) - target_forms(target, lo, hi)

    def points(at: Floats) -> Floats:
        return rows(graph, at) - target.values(at)

    return Quantities(subject, points, target.outputs, largest(graph))


def target_forms(target: Target, lo: Floats, hi: Floats) -> Form:
    """A target as forms of the coordinates of boxes (B, D): its series of degree one, and its range [T 9.5]."""
    boxes = Interval(lo, hi)
    natural = target.enclose(boxes)  # (B, m)
    middle = natural.mid
    radius = np.where(np.isfinite(natural.magnitude), natural.radius, np.inf)
    none = np.zeros((len(lo), 0, middle.shape[1]))
    plain = made(middle, none, radius, natural.lo, natural.hi)
    if lo.shape[1] > MOST_SERIES:
        return plain
    series = target.jets(variables(join([Interval(boxes.mid), boxes]), 2))  # (2B, m)
    if series is None:
        return plain
    count, size = len(lo), lo.shape[1]
    reach = boxes.radius  # (B, D)
    exponents = series.basis.exponents  # (C, D)
    first, second = series[:count], series[count:]
    with np.errstate(invalid="ignore", over="ignore"):
        terms = first.mid[..., 1 : size + 1] * reach[:, None]  # (B, m, D)
        slack = first.rad[..., 0] + (first.rad[..., 1 : size + 1] * reach[:, None]).sum(axis=-1)
        ways = np.prod(reach[:, None] ** exponents, axis=-1)[:, None]  # (B, 1, C)
        squares = (exponents == 2).any(axis=1)  # t_k² lies between 0 and its largest value
        last = series.basis.degrees == 2
        bend, off = second.mid * ways * last, second.rad * ways * last  # (B, m, C)
        centre = first.mid[..., 0] + (bend * squares).sum(axis=-1) / 2
        slack = slack + off.sum(axis=-1) + (np.abs(bend) * np.where(squares, 0.5, 1.0)).sum(axis=-1)
        sizes = np.abs(first.mid[..., 0]) + np.abs(terms).sum(axis=-1) + np.abs(bend).sum(axis=-1)
        roundings = series.basis.size + 4 * SPARE
        slack = rounded_up(slack + roundings * ULP * sizes + roundings * SMALLEST, roundings)
    line = made(centre, np.moveaxis(terms, -1, 1), slack, natural.lo, natural.hi)
    return closer(line, plain)


MOST_PARTS = 4096


def defined_everywhere(target: Target, box: Box) -> bool:
    """Is a target proved to be defined on the whole box? Boxes are cut where it is not known."""
    low, high = box.lo.reshape(1, -1), box.hi.reshape(1, -1)
    done = 0
    while len(low):
        defined = np.broadcast_to(target.enclose(Interval(low, high)).defined, (len(low), target.outputs)).all(axis=1)
        low, high = low[~defined], high[~defined]
        done += len(low)
        if done > MOST_PARTS or low.shape[1] > MOST_SERIES:
            return not len(low)
        axis = ((high - low) / (box.hi - box.lo).ravel()).argmax(axis=1)
        places = np.arange(len(low))
        middle = (low / 2 + high / 2)[places, axis]
        below_, above_ = high.copy(), low.copy()
        below_[places, axis] = above_[places, axis] = middle
        low, high = np.concatenate([low, above_]), np.concatenate([below_, high])
    return True


def surely(problem: Quantities, point: Floats) -> Floats:
    """What the quantities are at least at a point (D,), by enclosures in the network's arithmetic; (Q,)."""
    return problem.forms(point[None], point[None]).lo[0]
