"""Chains of affine maps and rectifiers, bounded backwards: linear functions of the input above and below [T 12.8].

A bound on a combination of the values of one layer becomes a bound on one of the layer before, and so on to the input.
Rectifiers are replaced by the lines that suit the sign of their coefficient, which forms, with one line for both
sides, cannot do. The ranges of the arguments of rectifiers are found in the same way, layer by layer.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import SMALLEST, ULP, above, add_up, below, dot_up, rounded_up
from ..targets.readers.graph import OPERATIONS, Graph, Node
from .enclosure import EnclosedValue, Run, entered, seen_value, value_of
from .forms import SPARE, Floats, Form, Symbols, made
from .machine import Machine

MOVES = ("reshape", "transpose", "gather")
MOST_UNITS = 512
"""Numbers of a layer, at most: a bound backwards has a row for each of them."""

TOGETHER = 64
"""Boxes at a time."""
TINY = 1e-290
"""More than products that underflow can lose in one step; products with numbers that small are not slow."""


def chain_of(graph: Graph) -> list[Node] | None:
    """The nodes from the input to the output where each reads the one before, and all are affine maps or rectifiers.

    None for other graphs, and for those without two layers of rectifiers: forms are as good there.
    """
    nodes, number = list[Node](), graph.output
    while number != 0:
        node = graph.nodes[number]
        if len(node.inputs) != 1 or not _is_known(node, graph.nodes[node.inputs[0]].shape):
            return None
        nodes.append(node)
        number = node.inputs[0]
    return nodes[::-1] if sum(node.operation == "relu" for node in nodes) > 1 else None


def _is_known(node: Node, shape: tuple[int, ...]) -> bool:
    """Is there a rule below for it?"""
    if max(prod(node.shape), prod(shape)) > MOST_UNITS:
        return False
    if node.operation in ("shift", "scale"):
        return node.shape == shape
    if node.operation in MOVES:
        places = _places(node, shape)
        return len(np.unique(places)) == len(places)
    return node.operation in ("linear", "relu")


def _places(node: Node, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Where each element of a value that only moves comes from, flat."""
    numbers = np.arange(prod(shape)).reshape(1, *shape)
    return OPERATIONS[node.operation](numbers, **node.data).ravel()  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Rows:
    """`q <= coefficients·v + constant + error` for Q quantities q and the flat value v of a node, on B boxes."""

    coefficients: Floats  # (B, Q, n), or (1, Q, n) where they do not depend on the box
    sizes: Floats  # their absolute values
    constant: Floats  # (B, Q)
    error: Floats  # (B, Q), >= 0

    def by(self, coefficients: Floats) -> Rows:
        """The same bounds by another value."""
        return replace(self, coefficients=coefficients, sizes=np.abs(coefficients))


@dataclass(frozen=True, eq=False)
class Step:
    """A node on the way, with what is known of its argument."""

    node: Node
    shape: tuple[int, ...]
    """Of the argument."""
    lo: Floats  # (B, n), ends of the argument
    hi: Floats
    off: Floats  # (B, m), how far the computed result is off

    @cached_property
    def magnitude(self) -> Floats:
        """The largest absolute value of the argument, (B, n)."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @cached_property
    def lost(self) -> Floats:
        """What products that underflow can lose, (B, 1)."""
        return TINY * (1.0 + self.magnitude.sum(axis=1, keepdims=True))

    def before(self, rows: Rows) -> Rows:
        """Bounds by the result as bounds by the argument."""
        match self.node.operation:
            case "relu":
                slope, _, floor = self.lines
                moved = np.where(rows.coefficients > 0, slope[:, None], floor[:, None])
                np.multiply(moved, rows.coefficients, out=moved)
                return replace(rows, error=self._more(rows, rows.constant, positive=True)).by(moved)
            case "linear":
                weight, groups = self.node.data["weight"], prod(self.shape[:-1])
                mapped = rows.coefficients.reshape(*rows.coefficients.shape[:2], groups, -1) @ weight.T
                return self._shifted(rows).by(mapped.reshape(*mapped.shape[:2], -1))
            case "shift":
                return self._shifted(rows)
            case "scale":
                factor = np.broadcast_to(self.node.data["factor"], self.node.shape).ravel()
                return self._shifted(rows).by(rows.coefficients * factor)
            case _:
                moved = np.zeros((*rows.coefficients.shape[:2], prod(self.shape)))
                moved[..., _places(self.node, self.shape)] = rows.coefficients
                return rows.by(moved)

    @cached_property
    def lines(self) -> tuple[Floats, Floats, Floats]:
        """`floor z <= max(0, z) <= slope z + rest` for z in [lo, hi], (B, n) each.

        The upper line is above both ends: `slope lo + rest >= 0`, `slope hi + rest >= hi`.
        """
        lo, hi = self.lo, self.hi
        with np.errstate(all="ignore"):
            slope = np.where(lo >= 0, 1.0, np.where(hi <= 0, 0.0, hi / (hi - lo)))
            slope = np.where(np.isfinite(slope), np.clip(slope, 0.0, 1.0), 1.0)
            rest = np.maximum(above(-slope * lo), above(hi - below(slope * hi)))
            rest = np.where((lo >= 0) | (hi <= 0), 0.0, np.where(np.isnan(rest), np.inf, np.maximum(rest, 0.0)))
        floor = np.where(lo >= 0, 1.0, np.where((hi <= 0) | (hi <= -lo), 0.0, 1.0))
        return slope, rest, floor

    @cached_property
    def by(self) -> Floats:
        """What an affine map adds, (m,)."""
        if self.node.operation == "linear":
            return np.tile(self.node.data["bias"], prod(self.shape[:-1]))
        by = self.node.data["by"] if self.node.operation == "shift" else np.zeros(1)
        return np.broadcast_to(by, self.node.shape).ravel()

    @cached_property
    def own(self) -> Floats:
        """What a coefficient of size 1 for an element of the result adds to the error, (B, m).

        How far it is computed off, what a line leaves open, and the rounding of the coefficients and constants here.
        """
        match self.node.operation:
            case "relu":
                slope, rest, _ = self.lines
                return rounded_up(rest + ULP * slope * self.magnitude + TINY, SPARE)
            case "linear":
                weight = np.abs(self.node.data["weight"])
                sizes = dot_up(self.magnitude.reshape(len(self.lo), -1, len(weight)), weight).reshape(len(self.lo), -1)
            case "scale":
                factor = np.broadcast_to(self.node.data["factor"], self.node.shape).ravel()
                sizes = rounded_up(2 * np.abs(factor) * self.magnitude, 2)
            case _:
                sizes = np.zeros_like(self.off)
        count = len(self.by) + SPARE
        return rounded_up(self.off + count * ULP * (sizes + np.abs(self.by)) + TINY, SPARE)

    def _shifted(self, rows: Rows) -> Rows:
        """Bounds without what the map adds."""
        constant = rows.constant + rows.coefficients @ self.by
        return replace(rows, constant=constant, error=self._more(rows, constant))

    def _more(self, rows: Rows, constant: Floats, *, positive: bool = False) -> Floats:
        """The error with what the coefficients add, or the positive ones alone, and the rounding of a constant."""
        count = rows.sizes.shape[-1]
        reach = (rows.sizes @ self.own[..., None])[..., 0]  # (B, Q)
        if positive:  # half of the sum of all with and without their signs
            signed = (rows.coefficients @ self.own[..., None])[..., 0]
            reach = np.maximum(reach + signed, 0.0) / 2 + (count + SPARE) * ULP * reach
        reach = rounded_up(reach, count + SPARE)
        return rounded_up(rows.error + reach + 2 * ULP * np.abs(constant) + self.lost, SPARE)


def at_input(rows: Rows, lo: Floats, hi: Floats) -> Floats:
    """The largest values on boxes (B, D): (B, Q)."""
    middle = np.clip(lo / 2 + hi / 2, lo, hi)
    radius = np.maximum(add_up(hi, -middle), add_up(middle, -lo))
    sizes, count = rows.sizes, lo.shape[1] + SPARE
    with np.errstate(invalid="ignore", over="ignore"):
        reach = dot_up(sizes, rounded_up(radius + count * ULP * np.abs(middle), 2)[..., None])[..., 0]
        centre = (rows.coefficients @ middle[..., None])[..., 0] + rows.constant
        reach = rounded_up(reach + rows.error + 4 * ULP * np.abs(centre) + count * SMALLEST, SPARE)
        bound = above(centre + above(reach + 4 * ULP * np.abs(rows.constant)))
    return np.where(np.isnan(bound), np.inf, bound)


def backwards(steps: list[Step], units: int) -> Rows:
    """Bounds on the elements of the last value and on their negatives, by the input: Q = 2 units."""
    both = np.concatenate([np.eye(units), -np.eye(units)])[None]  # (1, Q, n)
    nothing = np.zeros((len(steps[0].lo), 2 * units))
    rows = Rows(both, np.abs(both), nothing, nothing)
    for step in reversed(steps):
        rows = step.before(rows)
    return rows


def enclose_chain(chain: list[Node], shape: tuple[int, ...], machine: Machine, lo: Floats, hi: Floats) -> Form:
    """The output of a chain on boxes (B, D), as flat forms of the coordinates of the input; a few boxes at a time."""
    starts = range(0, len(lo), TOGETHER)
    parts = [_enclosed(chain, shape, machine, lo[k : k + TOGETHER], hi[k : k + TOGETHER]) for k in starts]
    return Form(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Form)))


def _enclosed(chain: list[Node], shape: tuple[int, ...], machine: Machine, lo: Floats, hi: Floats) -> Form:
    run = Run(machine, Symbols(0, 0))
    _, seen = entered(lo, hi, shape, run)
    low, high = (end.reshape(len(lo), -1) for end in (seen.lo, seen.hi))
    value, steps, rows = seen_value(seen), list[Step](), None
    for node, after in zip(chain, [*chain[1:], None], strict=True):
        before = value.form
        value = value_of(node, [value], run, seen)
        least, most, off = (part.reshape(len(lo), -1) for part in (before.lo, before.hi, value.off))
        steps.append(Step(node, before.shape, least, most, off))
        if after is None or after.operation == "relu":
            units = prod(node.shape)
            rows = backwards(steps, units)
            bounds = at_input(rows, low, high)
            most, least = (part.reshape(len(lo), *node.shape) for part in (bounds[:, :units], -bounds[:, units:]))
            value = EnclosedValue(value.form.within(least, most), value.off)
    assert rows is not None  # noqa: S101 - the last node has rows
    return _as_form(rows, low, high, value.form)


def _as_form(rows: Rows, lo: Floats, hi: Floats, value: Form) -> Form:
    """Bounds above and below as forms: the line in the middle, and half of what is between them."""
    units = rows.coefficients.shape[1] // 2
    middle = np.clip(lo / 2 + hi / 2, lo, hi)
    radius = np.maximum(add_up(hi, -middle), add_up(middle, -lo))[:, None]  # (B, 1, D)
    with np.errstate(invalid="ignore", over="ignore"):
        upper, lower = rows.coefficients[:, :units], -rows.coefficients[:, units:]  # (B, m, D)
        tops = [(part @ middle[..., None])[..., 0] for part in (upper, lower)]
        top, bottom = tops[0] + rows.constant[:, :units], tops[1] - rows.constant[:, units:]
        terms = (upper + lower) / 2 * radius
        apart = (np.abs(upper - lower) / 2 * radius).sum(axis=-1) + np.abs(top - bottom) / 2
        sizes = ((np.abs(upper) + np.abs(lower)) * (radius + np.abs(middle)[:, None])).sum(axis=-1)
        sizes = sizes + np.abs(rows.constant[:, :units]) + np.abs(rows.constant[:, units:])
        count = lo.shape[1] + 2 * SPARE
        slack = apart + rows.error[:, :units] + rows.error[:, units:] + count * ULP * sizes + count * SMALLEST
        slack = rounded_up(slack, 2 * count)
    ends = (end.reshape(len(lo), -1) for end in (value.lo, value.hi))
    return made((top + bottom) / 2, np.moveaxis(terms, -1, 1), slack, *ends)
