"""Boxes [T 11.1], [T 11.2], [T 11.14]: what holds on every box of a cover holds on the domain.

On a box the target lies in [F_lo, F_hi] and the network, in real arithmetic, in [Y_lo, Y_hi], so the error is at most
`max(Y_hi - F_lo, F_hi - Y_lo)`; where the proof says so, Taylor series of the difference are used as well. What
rounding adds on that box comes on top [T 10.3]. In the sup norm the bound is the largest over all leaves; in L_p it is
`(Σ bound^p · volume)^{1/p}`, rounded up at any scale (`arithmetic/norms.py`).

By the rule `tails` the target need not be bounded: on boxes on which its enclosure is not, the bound is the p-mean of
the target, `(∫|f|^p / volume)^{1/p}` [T 3.7], plus the largest value of the network. In L_p that counts like an error
of this size on the whole box.

What rounding adds on a box is at most what it adds on a box that holds it. So a leaf may take it from a box above,
where the proof says so; then series alone bound the rest.

Data: `axes` and `series`, the cover (`proof.Cover`); `goal`, which says how closely dropped tokens are followed. No
value of it can make a bound false.

Work per leaf is O(tokens in play there). Nodes are walked depth first in batches, so memory is O(batch · depth).
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import isinf
from typing import Any
from uuid import uuid4

import numpy as np

from ...arithmetic import Interval, join
from ...arithmetic.directed import above, add_up, rounded_up, sum_up
from ...arithmetic.formats import round_to
from ...arithmetic.jets import variables
from ...arithmetic.norms import norms_on_boxes, together
from ...arithmetic.rounding import OWN
from ...network import Network
from ...resources.deadline import NEVER, Deadline, until
from ...resources.executors import in_order, resident
from ...targets import Expression, Target
from ..boxes import Boxes
from ..enclosure import Encloser
from ..heads import BoxBatch, Focus
from ..proof import PARTS, Conclusion, Cover, Flags, Floats, Integers, Proof, refuse_proof
from ..rewriting import with_banks
from ..taylor import Expanded, TaylorBounds

NAME = "boxes"
TAILS = "tails"
BATCH = 512
"""Boxes bounded at a time, about."""
SHORT = 64
"""Lists of tokens in play that are no longer than this are not worth narrowing before a leaf is reached."""
SLABS = 8
"""Parts along each of up to two axes of a slab beyond the domain."""
PIECE = 8 * BATCH
"""Leaves for which a cover is taken apart once more, for workers. The parts do not depend on how many workers there
are, so neither does the bound."""


@dataclass(frozen=True, eq=False)
class Enclosed:
    """What enclosures say about a batch of boxes."""

    rows: Interval  # (B, D), the boxes, and where rounding may move their points
    region: BoxBatch
    focus: tuple[Focus, ...]
    each: Floats  # (B, m), what enclosures say of the error of each output
    parts: Floats  # (B, 3), in the order of PARTS
    defined: Flags  # (B,), is the target surely defined on the whole box, or in L_p almost everywhere?
    tails: Flags  # (B,), was the target's p-mean used?


@dataclass(frozen=True, eq=False)
class Problem:
    """Bounds the error of `network` as an imitation of `target` on batches of boxes."""

    target: Target
    network: Network
    goal: float | None = None
    """The bound that would do: it says how precise tails must be."""
    p: float | None = None
    """The norm in which boxes count, where the target's p-means may be used."""
    key: str = field(default_factory=lambda: uuid4().hex, init=False, repr=False)
    """Under which workers keep it."""

    @cached_property
    def encloser(self) -> Encloser:
        """Natural enclosures of the network."""
        return Encloser(self.network, self.goal)

    @cached_property
    def taylor(self) -> TaylorBounds:
        """Taylor series of the difference."""
        return TaylorBounds(self.target, self.network, self.encloser.banks)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.key, self.target, self.network, self.goal, self.p)

    def root(self) -> Boxes:
        """Boxes that cover the domain, about which nothing is known: the roots of its cutting trees."""
        low, high = self.target.domain.starts()
        nobody, unknown = np.zeros(len(low), dtype=np.int64), np.full((len(low), 2), np.inf)
        focus = tuple(layer.take(nobody) for layer in self.encloser.start())
        return Boxes(low, high, np.arange(len(low)), focus, unknown, nobody)

    def narrowed(self, boxes: Boxes, noting: Flags | None = None, enclosing: Flags | None = None) -> Boxes:
        """Boxes that are about to be cut: long lists of tokens in play reduced to those that are in play on the box.

        Where `noting` (B,), what rounding adds is noted, too. Lists of other boxes are reduced where `enclosing`, if
        that is given.
        """
        long = boxes.most_tokens > SHORT
        noting = np.zeros(len(boxes), dtype=bool) if noting is None else noting
        some = np.flatnonzero(noting | (long if enclosing is None else long & enclosing))
        if not len(some):
            return boxes
        rows = self.with_neighbours(Interval(boxes.lo[some], boxes.hi[some]))
        _, focus, errors = self.network_on(rows, boxes.take(some).focus)
        boxes = boxes.with_errors(some[noting[some]], errors[noting[some]])
        shorter = np.flatnonzero(long[some])
        return boxes.with_focus(some[shorter], tuple(layer.take(shorter) for layer in focus))

    def enclosed(self, boxes: Boxes) -> Enclosed:
        """Bounds by the enclosures of target and network on each box; where no point of the domain is, no error."""
        rows = self.with_neighbours(Interval(boxes.lo, boxes.hi))
        region, focus, errors = self.network_on(rows, boxes.focus)
        network, target = region.tokens.reshape(len(rows), -1), self.target.enclose(rows)  # (B, m)
        bound = np.maximum(network.hi - target.lo, target.hi - network.lo)
        each = above(np.where(np.isnan(bound), np.inf, bound))  # (B, m)
        parts = np.concatenate([each.max(axis=1, keepdims=True), errors], axis=1)  # (B, 3)
        empty = self.target.domain.excludes(boxes.lo, boxes.hi)
        parts[empty] = 0.0
        defined = np.broadcast_to(target.defined, target.shape).all(axis=1) | empty
        tails = self._with_tails(boxes, parts, defined, network.magnitude.max(axis=1))
        return Enclosed(rows, region, focus, each, parts, defined, tails)

    def _with_tails(self, boxes: Boxes, parts: Floats, defined: Flags, largest: Floats) -> Flags:
        """Put p-means of the target and `largest`, the network's value, (B,), where enclosures are unbounded; where."""
        tails = np.isinf(parts[:, 0]) & (self.p is not None)
        pick = np.flatnonzero(tails)
        if self.p is not None and len(pick):
            known = self.target.p_means(Interval(boxes.lo[pick], boxes.hi[pick]), self.p)
            if known is None:
                return np.zeros(len(boxes), dtype=bool)
            means, almost = known
            parts[pick, 0], defined[pick] = add_up(means, largest[pick]), almost
        return tails

    def by_series(self, on: Enclosed, pick: Integers) -> tuple[Floats, Expanded]:
        """Bounds on the part `construction` on some boxes, (R,), each output by enclosures or by Taylor series."""
        expanded = self.taylor(on.rows[pick], tuple(layer.take(pick) for layer in on.focus))
        smaller = np.minimum(on.each[pick], expanded.each).max(axis=1)
        return np.minimum(on.parts[pick, 0], smaller), expanded

    def below(self, boxes: Boxes) -> tuple[Floats, Expanded]:
        """Bounds on the parts of the error (B, 3) by Taylor series, rounding as noted above; where there are none, inf.

        A target that has series on a box is defined there.
        """
        expanded = self.taylor(self.with_neighbours(Interval(boxes.lo, boxes.hi)), boxes.focus)
        parts = np.concatenate([expanded.bound[:, None], boxes.errors], axis=1)
        parts[self.target.domain.excludes(boxes.lo, boxes.hi)] = 0.0
        return parts, expanded

    def on_leaves(self, boxes: Boxes, ways: Integers) -> tuple[Floats, Flags]:
        """Bounds on the parts of the error (B, 3), found in these ways (`Cover.ways`); where the target is defined."""
        parts, defined = np.empty((len(boxes), len(PARTS))), np.empty(len(boxes), dtype=bool)
        alone, below = np.flatnonzero(ways <= 1), np.flatnonzero(ways > 1)
        if len(alone):
            on, pick = self.enclosed(boxes.take(alone)), np.flatnonzero(ways[alone])
            if len(pick):
                on.parts[pick, 0], _ = self.by_series(on, pick)
            parts[alone], defined[alone] = on.parts, on.defined
        if len(below):
            parts[below], _ = self.below(boxes.take(below))
            defined[below] = np.isfinite(parts[below, 0])
        return parts, defined

    @cached_property
    def _keeps(self) -> bool:
        """Is the dtype coarse, and the target known wherever rounding to it moves points of the domain [T 10.3]?

        That is so if they stay in the domain. A formula is known beyond, too, wherever it is proved to be defined.
        """
        domain = self.target.domain
        if not self.encloser.arithmetic.coarse or not domain.fills_box:
            return False
        low, high = domain.lo.ravel(), domain.hi.ravel()
        wider = self._reached(Interval(low, high))
        if (wider.lo == low).all() and (wider.hi == high).all():
            return True
        finite = bool(np.isfinite(wider.lo).all() and np.isfinite(wider.hi).all())
        return finite and isinstance(self.target, Expression) and self._defined_between(low, high, wider)

    def _defined_between(self, low: Floats, high: Floats, wider: Interval) -> bool:
        """Is the target proved to be defined on the slabs between a box and a wider one, (D,) each?"""
        cuts = np.linspace(wider.lo, wider.hi, 1 + (SLABS if len(low) <= 2 else 1))  # (S+1, D)
        first, last = (
            np.stack([ends.ravel() for ends in np.meshgrid(*part.T, indexing="ij")], axis=1)  # (S^D, D)
            for part in (cuts[:-1], cuts[1:])
        )
        slabs = []
        for axis in range(len(low)):
            for start, end in ((wider.lo[axis], low[axis]), (high[axis], wider.hi[axis])):
                if start < end:
                    thin = np.arange(len(low)) == axis
                    slabs.append(Interval(np.where(thin, start, first), np.where(thin, end, last)))
        enclosed = self.target.enclose(join(slabs))
        return bool(np.all(enclosed.defined & np.isfinite(enclosed.lo) & np.isfinite(enclosed.hi)))

    def _reached(self, rows: Interval) -> Interval:
        """Boxes with all that rounding to the dtype moves their points to: it is monotone, but flushes tiny numbers."""
        low, high = round_to(rows.lo, self.network.dtype), round_to(rows.hi, self.network.dtype)
        tiny = 2 * self.encloser.arithmetic.tiny
        low, high = np.where((low > 0) & (low < tiny), 0.0, low), np.where((high < 0) & (high > -tiny), 0.0, high)
        return Interval(np.minimum(rows.lo, low), np.maximum(rows.hi, high))

    def with_neighbours(self, rows: Interval) -> Interval:
        """Boxes (B, D) and where rounding to a coarse dtype may move their points, if the target is known there."""
        return self._reached(rows) if self._keeps else rows

    def network_on(self, rows: Interval, focus: tuple[Focus, ...]) -> tuple[BoxBatch, tuple[Focus, ...], Floats]:
        """The network over boxes (B, D) with their neighbours, and the parts `input` and `rounding` (B, 2) there.

        Rounding moves x to x'. Either the network's own sensitivity says what that costs, or, where the target is known
        at x', which is in the same box, `|net(x') - f(x)| <= |net(x') - f(x')| + |f(x') - f(x)|`: then it is what the
        target's slope, or its range, says.
        """
        shape = (len(rows), *self.network.shape_in)
        region, narrowed = self.encloser(rows.reshape(shape), focus)
        errors = region.error.reshape(len(rows), -1, 2).max(axis=1)  # (B, 2)
        if self._keeps:
            exact, _ = self.encloser(rows.reshape(shape), focus, np.zeros(shape))
            own = exact.error[..., OWN].reshape(len(rows), -1).max(axis=1)  # (B,)
            errors = _smaller(np.stack([self._change(rows), own], axis=1), errors)
        return region, narrowed, errors

    def _change(self, rows: Interval) -> Floats:
        """How much the target changes over boxes (B, D) when x moves as far as rounding moves it, (B,)."""
        range_ = self.target.enclose(rows)
        change = above(range_.hi - range_.lo)  # (B, m)
        slopes = self.target.jets(variables(rows, 1))  # (B, m)
        if slopes is not None:
            steepest = np.abs(slopes.mid[..., 1:]) + slopes.rad[..., 1:]  # (B, m, D)
            by_slope = rounded_up((steepest * self.encloser.moved(rows)[:, None]).sum(axis=2), rows.shape[1] + 1)
            change = np.fmin(change, np.where(np.isnan(by_slope), np.inf, by_slope))
        return np.where(np.isnan(change), np.inf, change).max(axis=1)


def _smaller(first: Floats, second: Floats) -> Floats:
    """For each box the pair of parts (B, 2) with the smaller sum: parts of different pairs do not add up to a bound."""
    return np.where((first.sum(axis=1) < second.sum(axis=1))[:, None], first, second)


def _arrived(key: str, target: Target, network: Network, goal: float | None, p: float | None) -> Problem:
    """The problem on a worker, with what has been prepared for it there."""
    return resident(key, lambda: Problem(target, network, goal, p))


@dataclass(frozen=True, eq=False)
class Tally:
    """The bound on some leaves: parts and total in one norm, and the box that contributes most."""

    norm: float
    total: float
    parts: Floats  # (3,)
    defined: bool
    peak: float
    """What the worst box contributes."""
    lo: Floats  # (1, D), the worst box
    hi: Floats  # (1, D)

    @classmethod
    def nothing(cls, norm: float, boxes: Boxes) -> Tally:
        """No leaf yet."""
        return cls(norm, 0.0, np.zeros(len(PARTS)), True, -1.0, boxes.lo[:1], boxes.hi[:1])

    @classmethod
    def of(cls, norm: float, boxes: Boxes, parts: Floats, defined: Flags) -> Tally:
        """Of leaves with their parts (B, 3)."""
        shares = contributions(np.concatenate([parts, summed(parts)[:, None]], axis=1), boxes, norm)  # (B, 4)
        *each, total = merged(shares, norm)
        peak = int(np.argmax(shares[:, -1]))
        here = slice(peak, peak + 1)
        worst = float(shares[peak, -1]), boxes.lo[here], boxes.hi[here]
        return cls(norm, float(total), np.array(each), bool(defined.all()), *worst)

    def __add__(self, other: Tally) -> Tally:
        total = merged(np.array([[self.total], [other.total]]), self.norm)[0]
        parts = merged(np.stack([self.parts, other.parts]), self.norm)
        worse = other if other.peak > self.peak else self
        defined = self.defined and other.defined
        return Tally(self.norm, float(total), parts, defined, worse.peak, worse.lo, worse.hi)

    def conclusion(self) -> Conclusion:
        """As a statement about the whole domain."""
        parts = {name: float(part) for name, part in zip(PARTS, self.parts, strict=True)}
        return Conclusion(self.total, parts, self.defined, Interval(self.lo, self.hi))


def summed(parts: Floats) -> Floats:
    """Bounds on the error of the deployed network from its parts (B, 3), (B,)."""
    return sum_up(parts, axis=1)


def contributions(errors: Floats, boxes: Boxes, norm: float) -> Floats:
    """What errors (B, ...) on boxes contribute: themselves, or their L_p norms on each box."""
    return errors if isinf(norm) else norms_on_boxes(errors, boxes.lo, boxes.hi, norm)


def merged(shares: Floats, norm: float) -> Floats:
    """Contributions (B, ...) of boxes together."""
    return shares.max(axis=0) if isinf(norm) else together(shares, norm)


def tally(boxes: Boxes, problem: Problem, cover: Cover, norm: float, deadline: Deadline = NEVER) -> Tally:
    """The bound on all leaves below some nodes of a cover."""
    result, stack, found = Tally.nothing(norm, boxes), [boxes], list[Boxes]()
    while stack:
        deadline.check("checking the proof")
        batch, rest = np.split(np.arange(len(stack[-1])), [BATCH])
        here = stack.pop()
        if len(rest):
            stack.append(here.take(rest))
        here = here.take(batch)
        leaf = cover.leaf[here.node]
        found.append(here.take(np.flatnonzero(leaf)))
        inner = here.take(np.flatnonzero(~leaf))
        if len(inner):
            stack.append(_below(inner, problem, cover))
        if not stack or sum(map(len, found)) >= BATCH:
            leaves, found = Boxes.join(found), []
            if len(leaves):
                result += Tally.of(norm, leaves, *problem.on_leaves(leaves, cover.ways(leaves.node)))
    return result


def check(
    target: Target,
    network: Network,
    proof: Proof,
    norm: float,
    deadline: Deadline = NEVER,
    executor: Executor | None = None,
) -> Conclusion:
    """The bound that a cover proves for `network` as an imitation of `target`; every leaf is bounded once."""
    tails = proof.rule == TAILS
    if tails and isinf(norm):
        raise refuse_proof(TAILS, "must be about an L_p norm", "the sup norm")
    goal = proof.data.get("goal", np.empty(0))
    if goal.dtype != np.float64 or goal.size > 1:
        raise refuse_proof(NAME, "must have one number as its goal", f"{goal.dtype} {goal.shape}")
    aim = float(goal.ravel()[0]) if goal.size else None
    problem = Problem(target, with_banks(network), aim, norm if tails else None)
    roots = problem.root()
    cover = Cover.read(NAME, proof.data, len(roots), roots.lo.shape[1])
    work = partial(tally, problem=problem, cover=cover, norm=norm, deadline=NEVER if executor else deadline)
    with until(NEVER):  # the clock is read between batches
        parts = pieces(problem, cover)
        done = list(in_order(work, parts, executor, deadline=deadline))
    if len(done) < len(parts):
        raise deadline.reached("checking the proof")
    return sum(done, Tally.nothing(norm, roots)).conclusion()


def pieces(problem: Problem, cover: Cover) -> list[Boxes]:
    """The leaves near the roots, and nodes with everything below them, apart."""
    level, leaves = problem.root(), list[Boxes]()
    count = max(1, len(cover.series) // PIECE)
    while len(level) < count:
        leaf = cover.leaf[level.node]
        leaves.append(level.take(np.flatnonzero(leaf)))
        level = level.take(np.flatnonzero(~leaf))
        if not len(level):
            break
        level = _below(level, problem, cover)
    parts = np.array_split(np.arange(len(level)), count)
    subtrees = [level.take(part) for part in parts if len(part)]
    return [Boxes.join(leaves), *subtrees] if leaves else subtrees


def _below(inner: Boxes, problem: Problem, cover: Cover) -> Boxes:
    """The children of nodes that are cut."""
    inner = problem.narrowed(inner, cover.noting[inner.node], cover.enclosing[inner.node])
    return inner.halves(cover.axes[inner.node].astype(np.int64), cover.first_child[inner.node])
