"""Search for a cover of the domain by boxes that are good enough, worst first [T 11.1], [T 11.2], [T 11.14].

Each box is bounded by the rule (`rules/boxes.py`). At its centre the same formula, with the target enclosed at that one
point, says about how large a bound boxes are left with (`seen`). Boxes are cut until the bound is at most the goal, or
within 5 % of the largest `seen` (and the rounding part falls no more), or until no float lies between their ends. What
is left is the cutting tree; the rule's conclusion, not this search, says what it proves.

`seen` is no lower bound: enclosures at a point have a width. That a goal cannot be proved follows from a lower bound
`max(Y_lo - F_hi, F_lo - Y_hi)` at that centre, and this is also the error that a proof says it found.

In the sup norm, once many boxes wait for a goal, whole subtrees are handed out: a worker settles all below a few boxes
and sends back a `Piece` of the proof; the tree is joined from pieces. Before that, and where the worst boxes must be
known, boxes are bounded in rounds. Batches, groups and chunks have a fixed size whatever the number of workers, and
results are taken in order (`resources/executors.py`), so the tree is the same on one machine or many. The tree, as far
as it is joined, is kept in a checkpoint every so often, and whenever a search is interrupted or loses its workers; a
search that goes on from there bounds the leaves again and ends in the same tree. (One that ran out of time keeps its
tree too. The round cut short makes another order of boxes, so the bound may differ, but holds.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, inf, isinf, log2
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arithmetic import Interval
from ...errors import FileFormatError, InputError, TimeLimitReached
from ...network import Attention, Network
from ...resources.deadline import NEVER, Deadline, Work
from ...resources.executors import in_order
from ...resources.memory import UNLIMITED, Memory
from ...targets import Target
from ...targets.base import BOUNDED
from ...targets.defects import axes_towards_poles
from ..boxes import Boxes
from ..checkpoint import Arrays, Checkpoint
from ..claim import Claim
from ..proof import LEAF, PARTS, UNKNOWN, Flags, Floats, Growing, Integers, Proof
from ..rewriting import with_banks
from ..rules.boxes import NAME, SHORT, TAILS, Problem, check, contributions, merged, summed
from .base import Attempt, Outcome, Progress, Task


@dataclass(frozen=True)
class SearchTuning:
    """How boxes are cut. A cover is checked by a rule, so these values decide boxes, time and memory."""

    batch: int = 4096
    """Boxes cut at a time, at least; a quarter of those waiting when they are many. By trial."""
    chunk: int = 512
    """Boxes that one worker does at a time. By trial."""
    work: int = 2**17
    """Scores on all of them, at most; one box may have more. For memory."""
    copies: int = 4
    """Times that the boxes waiting are in memory while a round goes on. Counted."""
    far: float = 1000.0
    """A box whose bound is this many times what would do is cut in four at once. By trial."""
    few: int = 16
    """Boxes that are bounded in about the time of one. By trial."""
    max_boxes: int = 1_000_000
    """Boxes waiting at a time; beyond that the search stops with the bound it has. For memory."""
    most: float = 0.75
    """In L_p a round cuts the boxes that have this part of what cutting all boxes may gain. By trial."""
    settled: float = 1.2
    """In L_p the error at the centres of boxes says about what the error is once the bound is within this factor of it.
    By trial."""
    within: float = 1.05
    """Without a goal, stop when the bound is this close to the largest error found. A round number."""
    finest: float = 2.0**-120
    """Boxes narrower than this fraction of the domain on every axis are not cut further. Floats do not tell narrower
    boxes apart, but around zero."""
    edge: float = 2.0**-8
    """Wider boxes are cut even if their bound is good, while the target is not proved to be defined on all of them. A
    round number."""
    stiff: float = 0.9
    """If the centre of a box alone has more than this fraction of its rounding part, cutting it is no remedy. By
    trial."""
    spare: float = 2.0**-10
    """The part of a goal that is left for the rule, which may drop tokens at other boxes than the search. A round
    number."""
    small: float = 2.0**-8
    """Rounding that is at most this part of what would do is not bounded again on smaller boxes. A round number."""
    fresh: int = 2
    """Cuts an axis after which the network is enclosed again. By trial."""
    steady: float = 0.75
    """Lists of tokens in play that an enclosure leaves longer than this part are not worth shortening at each cut. By
    trial."""
    most_cuts: int = 6
    """Cuts of a box at once, at most. By trial."""
    probes: int = 3
    """Points from which axes are looked at. By trial."""
    most_probed: int = 8
    """Axes that are looked at, at most. For time."""
    unread: float = 2.0**10
    """An axis that nobody reads counts as so many times shorter. A round number."""
    slight: float = 2.0**-10
    """What changes along an axis by less than this part of the goal does not read it. A round number."""
    faint: float = 2.0**-50
    """The same without a goal: a part of the largest value. A round number."""
    idle: float = 0.9
    """If a box without width along axes that nobody reads keeps this part of its bound, they are not cut. By trial."""
    trials: int = 32
    """Boxes on which Taylor series are tried before a whole batch is done with them. A round number."""
    many: int = 512
    """Boxes that wait before whole subtrees are handed out. By trial."""
    group: int = 128
    """Boxes that are handed out together. By trial."""
    budget: int = 4096
    """Boxes after which a worker hands back what is left. By trial."""
    piece: float = 2.0
    """Counted seconds after which it does so too. A round number."""
    a_chunk: float = 3e-3
    """Counted seconds for a chunk, ..."""
    a_box: float = 3e-5
    """... for each box in it, ..."""
    a_score: float = 1.5e-6
    """... and for each score on that. By trial: proofs in one to three variables took half to twice as long."""
    falling: float = 0.9
    """A box that has more than this part of the bound by series of the box it was cut from has noise. By trial."""


TUNING = SearchTuning()


def prove(claim: Claim, task: Task) -> Attempt | None:
    """Cover the domain; None where the target cannot be enclosed."""
    if not claim.imitated.enclosable:
        return None
    result = search(
        claim.imitated,
        claim.network,
        task.goal,
        task.deadline,
        task.progress,
        norm=task.norm,
        executor=task.executor,
        checkpoint=task.checkpoint,
        memory=task.memory,
    )
    return Attempt(result.proof, result.found, result.boxes, result.stopped)


@dataclass(frozen=True, eq=False)
class Searched:
    """A proof, and what the search believes of it. Nobody else needs to."""

    proof: Proof
    bound: float
    parts: dict[str, float]
    found: float
    """A lower bound on the largest error, met at the centre of a box, in real arithmetic; for L_p an estimate."""
    boxes: int
    stopped: str = ""
    """The limit of time or memory at which boxes were cut no more though the bound was not good enough, in words."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """Boxes with what is known on each."""

    boxes: Boxes
    parts: Floats  # (B, 3), in the order of PARTS
    seen: Floats  # (B,), the error at the centre, about
    defined: Flags  # (B,), is the target surely defined on the whole box?
    series: Flags  # (B,), were Taylor series of use?
    tails: Flags  # (B,), is the target unbounded there, as far as its enclosure tells, but integrable?
    steady: Flags  # (B,), did the last enclosure drop few tokens?
    steep: Floats  # (B, D), how much each axis makes of what cutting takes away; 0 where nothing is known
    noisy: Integers  # (B,), how many boxes above, one after the other, had bounds by series that hardly fell

    def __len__(self) -> int:
        return len(self.boxes)

    @property
    def bound(self) -> Floats:
        """Bound on the error of the deployed network, (B,)."""
        return summed(self.parts)

    @property
    def ways(self) -> Integers:
        """How the boxes are bounded (`Cover.ways`), (B,)."""
        return np.where(self.series, 1 + np.minimum(self.boxes.since, UNKNOWN - 2), 0)

    def take(self, rows: Integers) -> Waiting:
        """Some of the boxes."""
        return Waiting(self.boxes.take(rows), *(getattr(self, name)[rows] for name in KNOWN))

    @classmethod
    def join(cls, batches: list[Waiting]) -> Waiting:
        """Several batches as one."""
        known = (np.concatenate([getattr(batch, name) for batch in batches]) for name in KNOWN)
        return cls(Boxes.join([batch.boxes for batch in batches]), *known)

    def halves(self, tree: Growing, axis: npt.NDArray[np.intp], gain: float) -> Waiting:
        """Each box in two, cut across an axis (B,); what is known of the whole holds on the halves, a tail on both.

        A cut takes away about 1 - 1/gain of what its axis made.
        """
        both = self.take(np.tile(np.arange(len(self)), 2))
        boxes = self.boxes.halves(axis, tree.cut(self.boxes.node, axis))
        both.steep[np.arange(len(both)), np.tile(axis, 2)] /= gain
        return replace(both, boxes=boxes)


KNOWN = ("parts", "seen", "defined", "series", "tails", "steady", "steep", "noisy")
"""What is known of boxes that wait."""


def bounded(waiting: Waiting, problem: Problem, easy: float) -> Waiting:
    """Boxes of which that is known of boxes above them, with bounds of their own. Pure work that any worker can do.

    Where rounding, as noted above, is only a small part of what would do, and series of all outputs were of use, they
    are all that is computed; unless they turn out no better than before.
    """
    boxes, enough = waiting.boxes, TUNING.small * easy
    light = waiting.series & waiting.steady & (boxes.errors.sum(axis=1) <= enough)
    light &= (boxes.since <= TUNING.fresh * boxes.lo.shape[1]) & (waiting.steep > 0).any(axis=1)
    below = np.flatnonzero(light)
    done = [_below(waiting.take(below), problem)] if len(below) else []
    if done:
        better = done[0].parts[:, 0] < waiting.parts[below, 0]
        light[below], done[0] = better, done[0].take(np.flatnonzero(better))
    rest = np.flatnonzero(~light)
    if len(rest):
        done.append(enclosed(boxes.take(rest), problem, easy))
    found = Waiting.join(done).take(np.argsort(np.concatenate([np.flatnonzero(light), rest]), kind="stable"))
    same = waiting.series & found.series & (found.parts[:, 0] > TUNING.falling * waiting.parts[:, 0])
    return replace(found, noisy=np.where(same, waiting.noisy + 1, 0))


def _again(waiting: Waiting, problem: Problem) -> Waiting:
    """Leaves bounded in the ways that they were bounded in before."""
    below = waiting.series & (waiting.boxes.since > 0)
    some, rest = np.flatnonzero(below), np.flatnonzero(~below)
    done = [_below(waiting.take(some), problem)] if len(some) else []
    if len(rest):
        done.append(enclosed(waiting.boxes.take(rest), problem, 0.0, waiting.series[rest]))
    return Waiting.join(done).take(np.argsort(np.concatenate([some, rest]), kind="stable"))


def _below(waiting: Waiting, problem: Problem) -> Waiting:
    """Boxes bounded by series, with rounding as it was noted above them."""
    boxes = waiting.boxes
    parts, series = problem.below(boxes)
    inside = problem.target.domain.contains(Interval(boxes.lo, boxes.hi).mid)
    every, none = np.ones(len(boxes), dtype=bool), np.zeros(len(boxes), dtype=bool)
    at, noisy = np.where(inside, series.at, 0.0), np.zeros(len(boxes), dtype=np.int64)
    return Waiting(boxes, parts, at, every, every, none, every, series.steep, noisy)


def enclosed(boxes: Boxes, problem: Problem, easy: float, series: Flags | None = None) -> Waiting:
    """Boxes with bounds of their own, by the rule: enclosures, and series where they are of use.

    Series are used on the boxes that are named, (B,); or else where a bound with its rounding is more than `easy`,
    unless a few trials say that the boxes are still too large for them.
    """
    on = problem.enclosed(boxes)
    parts, used, steep = on.parts, np.zeros(len(boxes), dtype=bool), np.zeros(boxes.lo.shape)
    wanted = np.flatnonzero(summed(parts) > easy if series is None else series)
    tried = wanted[np.linspace(0, len(wanted) - 1, min(TUNING.trials, len(wanted))).astype(np.int64)]
    for pick in (tried, np.setdiff1d(wanted, tried)):
        if not len(pick):
            break
        bound, expanded = problem.by_series(on, pick)
        used[pick], steep[pick] = bound < parts[pick, 0], expanded.steep
        if series is None and not used[pick].any():
            break
        parts[pick, 0] = bound
    seen = _at_centres(problem, Interval(on.rows.mid), on.region.points.reshape(len(boxes), -1))
    long, before = np.flatnonzero(boxes.most_tokens > SHORT), boxes.most_tokens
    boxes = boxes.with_focus(long, tuple(layer.take(long) for layer in on.focus))
    boxes = boxes.with_errors(np.arange(len(boxes)), parts[:, 1:])
    steady = boxes.most_tokens > TUNING.steady * before
    steep, noisy = np.where(used[:, None], steep, 0.0), np.zeros(len(boxes), dtype=np.int64)
    return Waiting(boxes, parts, seen, on.defined, used, on.tails, steady, steep, noisy)


def _at_centres(problem: Problem, centres: Interval, values: Floats) -> Floats:
    """Errors at centres (B, D) with network values (B, m), the target enclosed there; 0 outside the domain."""
    target, domain = problem.target.enclose(centres), problem.target.domain
    inside = domain.contains(centres.lo)
    lost = inside & ~(np.isfinite(target.lo) & np.isfinite(target.hi)).all(axis=1)
    if problem.p is not None:  # what happens at one point is nothing in L_p
        inside = inside & ~lost
    elif lost.any():
        point = centres[int(np.flatnonzero(lost)[0])].reshape(1, -1)
        raise InputError(
            f"the target must be defined and finite on the whole domain, but {problem.target.explain(point)}",
            remedy=BOUNDED,
        )
    with np.errstate(invalid="ignore"):
        return np.where(inside, np.maximum(values - target.lo, target.hi - values).max(axis=1), 0.0)


class _Ledger:
    """What has been settled so far, in the sup norm or in L_p."""

    def __init__(self, problem: Problem, norm: float, goal: float | None, patience: float = inf) -> None:
        self.problem, self.norm, self.goal, self.patience = problem, norm, goal, patience
        domain = problem.target.domain
        self.extent = (domain.hi - domain.lo).ravel()  # (D,)
        self.total, self.parts, self.found, self.least = 0.0, np.zeros(len(PARTS)), 0.0, inf
        self.boxes, self.tails = 0, False
        self.place = Interval(domain.lo.reshape(1, -1), domain.hi.reshape(1, -1)).mid  # (1, D), of the largest error

    @cached_property
    def scale(self) -> Floats:
        """By what sides of boxes are measured where they are cut, (D,): axes that nobody reads count for little.

        Nobody reads an axis along which, from a few points, neither target nor network change by what matters.
        """
        domain, count = self.problem.target.domain, len(self.extent)
        if not 1 < count <= TUNING.most_probed:
            return self.extent
        points = np.random.default_rng(0).uniform(domain.lo.ravel(), domain.hi.ravel(), (TUNING.probes, 1, count))
        along = np.concatenate([np.zeros((1, count), dtype=bool), np.eye(count, dtype=bool)])  # (1+D, D)
        ends = (np.where(along, end.ravel(), points).reshape(-1, count) for end in (domain.lo, domain.hi))
        lines = Interval(*ends)  # (P (1+D), D)
        everything = tuple(layer.take(np.zeros(len(lines), dtype=np.int64)) for layer in self.problem.encloser.start())
        region, _, _ = self.problem.network_on(lines, everything)
        read = np.zeros(count, dtype=bool)
        for values in (region.tokens.reshape(len(lines), -1), self.problem.target.enclose(lines)):
            size = values.magnitude
            enough = TUNING.faint * size[np.isfinite(size)].max(initial=0.0)
            if self.goal is not None and isinf(self.norm):
                enough = TUNING.slight * self.goal
            for ends in (values.lo, values.hi):
                each = ends.reshape(TUNING.probes, 1 + count, -1)
                with np.errstate(invalid="ignore"):
                    same = (each[:, 1:] == each[:, :1]) | (np.abs(each[:, 1:] - each[:, :1]) <= enough)
                read |= ~same.all(axis=(0, 2))
        return np.where(read, self.extent, self.extent * TUNING.unread)

    @property
    def unread(self) -> Flags:
        """Which axes nobody reads, (D,)."""
        return self.scale > self.extent

    def measure(self, errors: Floats, waiting: Waiting) -> Floats:
        """What errors (B, ...) on boxes contribute."""
        return contributions(errors, waiting.boxes, self.norm)

    def merge(self, start: Floats | float, shares: Floats) -> Floats:
        """Combine contributions (B, ...) of boxes with what is there."""
        return merged(np.concatenate([np.asarray(start)[None], shares]), self.norm)

    def bound(self, waiting: Waiting) -> float:
        """The bound that holds now, over settled and waiting boxes, or held before."""
        self.least = min(self.least, float(self.merge(self.total, self.measure(waiting.bound, waiting))))
        return self.least

    def seen(self, waiting: Waiting) -> float:
        """The error found so far; for the sup norm over all boxes ever looked at."""
        return float(self.merge(self.found, self.measure(waiting.seen, waiting)))

    def look(self, waiting: Waiting) -> None:
        """Note new boxes."""
        self.boxes += len(waiting)
        if isinf(self.norm) and waiting.seen.max(initial=0.0) > self.found:
            peak = int(np.argmax(waiting.seen))
            self.found, here = float(waiting.seen[peak]), slice(peak, peak + 1)
            self.place = Interval(waiting.boxes.lo[here], waiting.boxes.hi[here]).mid

    def settle(self, waiting: Waiting) -> None:
        """Take these boxes as they are."""
        if not len(waiting):
            return
        self.tails = self.tails or bool(waiting.tails.any())
        self.total = float(self.merge(self.total, self.measure(waiting.bound, waiting)))
        self.parts = self.merge(self.parts, self.measure(waiting.parts, waiting))
        if not isinf(self.norm):
            self.found = float(self.merge(self.found, self.measure(waiting.seen, waiting)))

    def join(self, piece: Piece) -> None:
        """Take what a worker settled, in the sup norm."""
        self.total, self.parts = max(self.total, piece.bound), np.maximum(self.parts, piece.parts)
        self.boxes += piece.boxes
        if piece.found > self.found:
            self.found, self.place = piece.found, piece.place

    def unfinished(self, waiting: Waiting) -> Flags:
        """Boxes that must be cut: too large a share of the bound, or the target not proved to be defined on them."""
        boxes, goal = waiting.boxes, self.goal
        width = ((boxes.hi - boxes.lo) / self.extent).max(axis=1)
        doubtful = ~waiting.defined & (width > TUNING.edge)
        if isinf(self.norm):
            over = waiting.parts[:, 0] > TUNING.within * self.found
            if goal is not None:
                missed = waiting.bound > (1 - TUNING.spare) * goal
                over = over & missed | self._yields(waiting, missed & ~over)
            else:
                over |= self._falls(waiting, ~over & (waiting.bound > TUNING.within * self.found))
        else:
            bound = self.bound(waiting)
            done = bound <= TUNING.within * self.seen(waiting) or (goal is not None and bound <= goal)
            over = np.full(len(waiting), not done)
        over &= waiting.noisy < self.patience
        return (over | doubtful) & (width > TUNING.finest) & boxes.divisible()

    def beyond(self, seen: float, bound: float) -> bool:
        """Is the goal out of reach? Surely in the sup norm; in L_p as far as centres of boxes tell that are small."""
        if isinf(self.norm):
            return self.goal is not None and _least_error(self.problem, self) > self.goal
        return bound <= TUNING.settled * seen and self.boxes >= self.problem.network.tokens

    def excess(self, waiting: Waiting) -> Floats:
        """What cutting a box can gain, (B,): its bound; in L_p what it has in the p-th power beyond the error seen."""
        shares = self.measure(waiting.bound, waiting)
        if isinf(self.norm) or not np.isfinite(shares).all() or not shares.max() > 0:
            return shares
        seen = np.minimum(self.measure(waiting.seen, waiting) / shares.max(), 1.0)
        return np.maximum((shares / shares.max()) ** self.norm - seen**self.norm, 0.0)

    def next_round(self, excess: Floats, defined: Flags) -> int:
        """How many of the boxes in order of what they gain, doubtful ones first, are cut next.

        In L_p those that have most of what there is to gain: near a pole a few boxes have nearly all of it.
        """
        most = max(TUNING.batch, len(excess) // 4)
        total = excess.sum()
        if isinf(self.norm) or not 0 < total < inf:
            return most
        enough = int(np.searchsorted(np.cumsum(excess), TUNING.most * total)) + 1
        return min(most, max(enough, TUNING.few, int((~defined).sum())))

    def _yields(self, waiting: Waiting, doubtful: Flags) -> Flags:
        """On which of the doubtful boxes is rounding at the centre alone much smaller, so that cutting helps, (B,)?"""
        yields, pick = np.zeros(len(waiting), dtype=bool), np.flatnonzero(doubtful)
        if len(pick):
            yields[pick] = self._alone(waiting.take(pick)) <= TUNING.stiff * waiting.parts[pick, 1:].sum(axis=1)
        return yields

    def _falls(self, waiting: Waiting, doubtful: Flags) -> Flags:
        """Which of the doubtful boxes have a larger bound than is left, by rounding at centres alone, on any, (B,)?"""
        falls, pick = np.zeros(len(waiting), dtype=bool), np.flatnonzero(doubtful)
        if len(pick):
            some = waiting.take(pick)
            left = (some.parts[:, 0] + self._alone(some)).max()
            falls[pick] = some.bound > max(self.total, TUNING.within * left)
        return falls

    def _alone(self, waiting: Waiting) -> Floats:
        """What rounding adds at the centres of boxes, (B,)."""
        boxes = waiting.boxes
        centres = self.problem.with_neighbours(Interval(Interval(boxes.lo, boxes.hi).mid))
        *_, alone = self.problem.network_on(centres, boxes.focus)
        return alone.sum(axis=1)


def search(
    target: Target,
    network: Network,
    goal: float | None,
    deadline: Deadline = NEVER,
    progress: Callable[[Progress], None] | None = None,
    *,
    norm: float = inf,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    most: float = inf,
    memory: Memory = UNLIMITED,
    patience: float = inf,
) -> Searched:
    """A cover that proves a bound on `|target - network|` over the domain, for the network in its own arithmetic.

    Stops at `bound <= goal`, at a point whose error surely exceeds the goal (no proof is possible), within 5 % of the
    largest error met, after `most` boxes, or at a limit of time or memory. A box is cut no more where bounds by series
    hardly fell `patience` times, one after the other: what is left is noise, or the error itself. Work per box is
    O(tokens in play there).
    `executor` is any `concurrent.futures.Executor`. `checkpoint` is a folder: an interrupted search leaves its tree
    there, and the same call goes on from it.
    """
    problem = Problem(target, with_banks(network), goal if isinf(norm) else None, None if isinf(norm) else norm)
    ledger, kept = _Ledger(problem, norm, goal, patience), Checkpoint(checkpoint, problem, goal, norm)
    tree, waiting, queued = _resumed(kept, ledger, executor, deadline)
    late, stopped = False, ""
    by_subtrees = partial(
        _by_subtrees,
        kept=kept,
        executor=executor,
        deadline=deadline,
        progress=progress,
        most=most,
        memory=memory,
    )
    try:
        if queued:
            waiting = by_subtrees(ledger, tree, waiting, queued)
        while len(waiting):
            kept.offer(lambda: _state(ledger, tree))
            seen, bound = ledger.seen(waiting), ledger.bound(waiting)
            if progress is not None:
                progress(Progress(bound, seen, ledger.boxes, len(waiting)))
            hopeless = goal is not None and seen > goal and ledger.beyond(seen, bound)
            late = deadline.over
            open_ = ledger.unfinished(waiting)
            if hopeless or late or ledger.boxes > most or not open_.any():
                break
            if stopped := _no_room(waiting, memory):
                break
            ledger.settle(waiting.take(np.flatnonzero(~open_)))
            waiting = waiting.take(np.flatnonzero(open_))
            if isinf(norm) and goal is not None and len(waiting) >= TUNING.many:
                waiting = by_subtrees(ledger, tree, waiting)
                continue
            excess = ledger.excess(waiting)
            order = np.lexsort((waiting.boxes.node, -excess, waiting.defined))  # doubtful, then worst
            now, later = np.split(order, [ledger.next_round(excess[order], waiting.defined[order])])
            easy = max(goal or 0.0, TUNING.within * seen) if isinf(norm) else 0.0
            parts = _cut_and_bounded(ledger, tree, waiting.take(now), easy, executor, deadline)
            waiting = Waiting.join([parts, waiting.take(later)])
    except BaseException:
        kept.keep()
        raise
    bound = ledger.bound(waiting)
    found = _least_error(problem, ledger) if isinf(norm) else ledger.seen(waiting)
    ledger.settle(waiting)
    if late and (goal is None or bound > goal):
        stopped = deadline.reached("the proof").reason
        kept.keep()
    else:
        kept.drop()
    parts = {name: float(part) for name, part in zip(PARTS, ledger.parts, strict=True)}
    aim = np.array([] if problem.goal is None else [problem.goal])
    name = TAILS if ledger.tails else NAME
    return Searched(Proof(name, {**tree.cover().data(), "goal": aim}), bound, parts, found, ledger.boxes, stopped)


def _cut_and_bounded(
    ledger: _Ledger, tree: Growing, waiting: Waiting, easy: float, executor: Executor | None, deadline: Deadline
) -> Waiting:
    """The parts of boxes, as far as there is time with bounds of their own.

    The others are leaves that the rule bounds by enclosures too: series may fail on a part of a box on which both were
    of use.
    """
    work = partial(bounded, problem=ledger.problem, easy=easy)
    done, untouched = _in_chunks(work, _pieces(waiting, tree, ledger, easy), executor, deadline)
    untouched = replace(untouched, boxes=replace(untouched.boxes, since=np.zeros_like(untouched.boxes.since)))
    for some in (done, untouched):
        tree.note(some.boxes.node, some.ways)
    ledger.look(done)
    return Waiting.join([done, untouched])


@dataclass(frozen=True, eq=False)
class Subtrees:
    """Work for one worker: boxes, and the largest error found before; the same however many workers there are."""

    waiting: Waiting
    found: float
    scale: Floats  # (D,)


@dataclass(frozen=True, eq=False)
class Piece:
    """What a worker leaves: a piece of the proof, what is proved on its leaves, and boxes left to cut."""

    tree: dict[str, npt.NDArray[Any]]
    """Cutting trees below the boxes (`Growing.tensors`)."""
    waiting: Waiting
    """Leaves that are not good enough; their nodes are those of the piece."""
    bound: float
    parts: Floats  # (3,)
    found: float
    place: Floats  # (1, D), where an error of that size was met
    boxes: int
    seconds: float
    """What they were counted as."""


def settled(task: Subtrees, problem: Problem, goal: float, patience: float = inf, deadline: Deadline = NEVER) -> Piece:
    """All below some boxes, until they are good enough or so much was done that others should have a part. Pure work.

    The boxes that were made last are cut first, so that few wait.
    """
    deadline = replace(deadline, most=TUNING.piece, work=Work())
    ledger, waiting = _Ledger(problem, inf, goal, patience), task.waiting
    ledger.found, ledger.scale = task.found, task.scale
    waiting = replace(waiting, boxes=replace(waiting.boxes, node=np.arange(len(waiting))))
    tree = Growing(len(waiting))
    tree.note(waiting.boxes.node, waiting.ways)
    while True:
        open_ = ledger.unfinished(waiting)
        ledger.settle(waiting.take(np.flatnonzero(~open_)))
        waiting = waiting.take(np.flatnonzero(open_))
        met = ledger.found > max(goal, task.found)  # it may be the end of the search
        if not len(waiting) or ledger.boxes >= TUNING.budget or met or deadline.over:
            break
        later, now = np.split(np.arange(len(waiting)), [max(len(waiting) - TUNING.group, 0)])
        easy = max(goal, TUNING.within * ledger.found)
        parts = _cut_and_bounded(ledger, tree, waiting.take(now), easy, None, deadline)
        waiting = Waiting.join([waiting.take(later), parts])
    known = ledger.total, ledger.parts, ledger.found, ledger.place, ledger.boxes
    return Piece(tree.tensors(), waiting, *known, deadline.work.seconds)


class _Queue:
    """Work in the order in which it came in; an iterator that goes on when more comes in after its end."""

    def __init__(self, ledger: _Ledger) -> None:
        self.ledger, self.ready, self.sent = ledger, deque[Subtrees](), deque[Subtrees]()

    def put(self, waiting: Waiting) -> None:
        """More boxes, in groups."""
        for start in range(0, len(waiting), TUNING.group):
            some = waiting.take(np.arange(start, min(start + TUNING.group, len(waiting))))
            self.ready.append(Subtrees(some, self.ledger.found, self.ledger.scale))

    def restore(self, waiting: Waiting, named: Arrays) -> Waiting:
        """Groups of boxes as they once were in `tensors`; the boxes that are in none."""
        place = dict(zip(waiting.boxes.node.tolist(), range(len(waiting)), strict=True))
        rows = np.array([place.pop(node) for node in named["queue"].tolist()], dtype=np.int64)
        for group, before in zip(np.split(rows, np.cumsum(named["groups"])[:-1]), named["before"], strict=True):
            self.ready.append(Subtrees(waiting.take(group), float(before), self.ledger.scale))
        return waiting.take(np.array(sorted(place.values()), dtype=np.int64))

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """The nodes of all boxes whose subtrees are not there yet, how many belong together, errors found before."""
        tasks = (*self.sent, *self.ready)
        nodes = [task.waiting.boxes.node for task in tasks]
        return {
            "queue": np.concatenate([np.empty(0, dtype=np.int64), *nodes]),
            "groups": np.array([len(each) for each in nodes], dtype=np.int64),
            "before": np.array([task.found for task in tasks]),
        }

    def left(self, nothing: Waiting) -> Waiting:
        """All boxes whose subtrees are not there yet."""
        return Waiting.join([nothing, *(task.waiting for task in (*self.sent, *self.ready))])

    def __iter__(self) -> _Queue:
        return self

    def __next__(self) -> Subtrees:
        if not self.ready:
            raise StopIteration
        self.sent.append(self.ready.popleft())
        return self.sent[-1]


def _by_subtrees(
    ledger: _Ledger,
    tree: Growing,
    waiting: Waiting,
    queued: Arrays = MappingProxyType({}),
    *,
    kept: Checkpoint,
    executor: Executor | None,
    deadline: Deadline,
    progress: Callable[[Progress], None] | None,
    most: float,
    memory: Memory,
) -> Waiting:
    """Hand out boxes, join the pieces of proof that come back, hand out what they leave; boxes left in the end.

    Pieces are taken in the order of the work and nobody waits for a round to end. Work does not depend on what came
    back after it was put into the queue, so the tree is the same whatever the number of workers.
    """
    nothing, queue, goal = waiting.take(np.arange(0)), _Queue(ledger), inf if ledger.goal is None else ledger.goal
    if queued:
        ledger.settle(queue.restore(waiting, queued))
    else:
        queue.put(waiting.take(np.argsort(waiting.boxes.node, kind="stable")))
    patience, limit = ledger.patience, NEVER if executor else deadline
    work = partial(settled, problem=ledger.problem, goal=goal, patience=patience, deadline=limit)
    for piece in in_order(work, queue, executor, deadline=deadline):
        place = tree.graft(queue.sent.popleft().waiting.boxes.node, piece.tree)
        ledger.join(piece)
        deadline.count(piece.seconds)
        boxes = piece.waiting.boxes
        queue.put(replace(piece.waiting, boxes=replace(boxes, node=place[boxes.node])))
        kept.offer(lambda: {**_state(ledger, tree), **queue.tensors()})
        left = queue.left(nothing)
        if progress is not None and len(left):
            progress(Progress(ledger.bound(left), ledger.seen(left), ledger.boxes, len(left)))
        hopeless = ledger.found > goal and ledger.beyond(ledger.found, inf)
        if hopeless or ledger.boxes > most or _no_room(left, memory):
            break
    return queue.left(nothing)


def _no_room(waiting: Waiting, memory: Memory) -> str:
    """Why no more boxes may wait, if there are too many."""
    if len(waiting) > TUNING.max_boxes:
        return f"The proof stopped at {len(waiting)} boxes waiting, where {TUNING.max_boxes} are allowed"
    if not memory.holds(TUNING.copies * waiting.boxes.numbers):
        return f"The proof stopped at memory_limit={memory.limit:.3g} bytes: allow more"
    return ""


def bound_error(target: Target, network: Network, goal: float | None, *limits: Any, **options: Any) -> Outcome:
    """Search for a cover with the options of `search`, and what the rule concludes from it."""
    found = search(target, network, goal, *limits, **options)
    conclusion = check(target, network, found.proof, options.get("norm", inf), executor=options.get("executor"))
    return Outcome.of(conclusion, found.proof, found.found, found.boxes, found.stopped)


def _least_error(problem: Problem, ledger: _Ledger) -> float:
    """A lower bound on the error where the largest was met, in real arithmetic; 0 if there is no time left to tell."""
    if not problem.target.domain.contains(ledger.place)[0]:
        return 0.0
    with suppress(TimeLimitReached):
        at = Interval(ledger.place)
        region, _ = problem.encloser(at.reshape(1, *problem.network.shape_in), problem.encloser.start())
        network, target = region.tokens.reshape(1, -1), problem.target.enclose(at)  # (1, m)
        return max(0.0, *(network - target).lo.ravel(), *(target - network).lo.ravel())
    return 0.0


def _pieces(waiting: Waiting, tree: Growing, ledger: _Ledger, easy: float) -> Waiting:
    """Boxes cut in two, or in more at once where they are far from good enough or few with short lists are waiting.

    Bounds by series of degree m fall about by `2^{(m+1)/D}` with each cut. A batch of `TUNING.few` boxes takes about as
    long as one box, and each round spared is one batch less.
    """
    gain = (ledger.problem.taylor.degree + 1) / waiting.boxes.lo.shape[1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # `easy` may be as small as a float can be
        by_series = np.round(np.log2(waiting.parts[:, 0] / easy) / gain) if easy > 0 else np.zeros(len(waiting))
    short = waiting.boxes.most_tokens.max(initial=0) <= SHORT
    spare = ceil(log2(TUNING.few / len(waiting))) if short else 0
    far = (waiting.bound > TUNING.far * easy) & (easy > 0)
    otherwise = np.where(far, max(2, spare), max(1, spare - 1))
    by_series = np.clip(by_series, max(1, spare - 1), TUNING.most_cuts)
    times = np.where(waiting.series & np.isfinite(by_series), by_series, otherwise)
    parts = [_cut(waiting.take(np.flatnonzero(times == each)), tree, ledger, int(each)) for each in np.unique(times)]
    return Waiting.join(parts)


def _cut(waiting: Waiting, tree: Growing, ledger: _Ledger, times: int) -> Waiting:
    """Boxes cut in two so many times, as far as there are floats between their ends."""
    idle = _idle(waiting, ledger)
    for _ in range(times):
        again = waiting.boxes.divisible()
        smallest, larger = waiting.take(np.flatnonzero(~again)), waiting.take(np.flatnonzero(again))
        axis = larger.boxes.longest(ledger.scale)
        if idle.any():
            among = larger.boxes.longest(ledger.extent, ~ledger.unread)
            axis = np.where(idle[again] & (among >= 0), among, axis)
            idle = np.concatenate([idle[~again], np.tile(idle[again], 2)])
        if isinf(ledger.norm):
            steep = np.where(larger.boxes.cuttable(), larger.steep, 0.0)  # (B, D)
            axis = np.where(steep.max(axis=1) > 0, np.argmax(steep, axis=1), axis)
        tails = np.flatnonzero(larger.tails)
        if len(tails):
            low, high = larger.boxes.lo[tails], larger.boxes.hi[tails]
            axis[tails] = axes_towards_poles(ledger.problem.target, low, high, axis[tails])
        gain = 2.0 ** (ledger.problem.taylor.degree / len(ledger.extent))
        waiting = Waiting.join([smallest, larger.halves(tree, axis, gain)])
    return waiting


def _idle(waiting: Waiting, ledger: _Ledger) -> Flags:
    """On which boxes is an axis next that nobody reads, though cutting all of these takes nothing away, (B,)?"""
    idle, unread = np.zeros(len(waiting), dtype=bool), ledger.unread
    doubtful = unread[waiting.boxes.longest(ledger.scale)]
    if isinf(ledger.norm):
        doubtful &= ~(waiting.steep > 0).any(axis=1)
    pick = np.flatnonzero(doubtful)
    if not len(pick):
        return idle
    with suppress(TimeLimitReached):  # then they are cut, as all are
        scores = _scores(waiting.boxes.take(pick), ledger.problem.network)
        for rows in np.split(pick, _cuts(scores)):
            some = waiting.take(rows)
            middle = Interval(some.boxes.lo, some.boxes.hi).mid
            low, high = (np.where(unread, middle, end) for end in (some.boxes.lo, some.boxes.hi))
            thin = ledger.problem.enclosed(replace(some.boxes, lo=low, hi=high))
            kept = summed(thin.parts) >= TUNING.idle * some.bound
            idle[rows] = kept & (thin.defined == some.defined)
    return idle


def _in_chunks(
    work: partial[Waiting], waiting: Waiting, executor: Executor | None, deadline: Deadline
) -> tuple[Waiting, Waiting]:
    """Bound a batch, chunk by chunk, here or on workers; and the boxes that there was no time for.

    Those keep what is known of the box they were cut from, which holds on them too. A single chunk is not worth
    sending: nobody could work beside it.
    """
    scores = _scores(waiting.boxes, work.keywords["problem"].network)
    parts = np.split(np.arange(len(waiting)), _cuts(scores))
    workers, done = executor if len(parts) > 1 else None, list[Waiting]()
    chunks = (waiting.take(part) for part in parts)
    with suppress(TimeLimitReached):  # within a chunk, which stays untouched
        for chunk in in_order(work, chunks, workers, deadline=deadline):
            part = parts[len(done)]
            done.append(chunk)
            deadline.count(TUNING.a_chunk + TUNING.a_box * len(part) + TUNING.a_score * float(scores[part].sum()))
    ready = Waiting.join(done) if done else waiting.take(np.arange(0))
    return ready, waiting.take(np.arange(len(ready), len(waiting)))


def _scores(boxes: Boxes, network: Network) -> Integers:
    """The scores on each box, which are most of the work, (B,)."""
    work, length, focus = np.zeros(len(boxes), dtype=np.int64), network.rows, iter(boxes.focus)  # (B,)
    for layer in network.layers:
        if isinstance(layer, Attention):
            work += layer.heads * length * (next(focus).active.lengths + layer.attends_data * length)
        length = layer.length_out(length)
    return work


def _cuts(scores: Integers) -> Integers:
    """Where a batch is cut into chunks: by boxes, and by the scores on them, (B,)."""
    parts = np.stack([np.arange(len(scores)) // TUNING.chunk, np.cumsum(scores) // TUNING.work])
    return np.flatnonzero(np.diff(parts, axis=1).any(axis=0)) + 1


def _resumed(
    kept: Checkpoint, ledger: _Ledger, executor: Executor | None, deadline: Deadline
) -> tuple[Growing, Waiting, Arrays]:
    """The tree that was left, its leaves bounded, and the queue of subtrees; without a state the roots alone."""
    problem, queued = ledger.problem, dict[str, npt.NDArray[Any]]()
    root = problem.root()
    tree, named = Growing(len(root)), kept.left()
    with suppress(FileFormatError, KeyError):
        ledger.found, ledger.place = float(named["found"][0]), named["place"]
        ledger.boxes = int(named["boxes"][0])
        tree = Growing.restored(named, len(root))
        queued = {name: named[name] for name in ("queue", "groups", "before") if name in named}
    if tree.nodes == len(root):
        waiting = enclosed(root, problem, 0.0)
        ledger.look(waiting)
    else:
        waiting = _leaves(problem, tree, root, executor, deadline)
    tree.note(waiting.boxes.node, waiting.ways)
    return tree, waiting, queued


def _leaves(problem: Problem, tree: Growing, level: Boxes, executor: Executor | None, deadline: Deadline) -> Waiting:
    """All leaves of a tree below a level, bounded as they were before."""
    leaves = list[Boxes]()
    while len(level):
        axes = tree.axes[level.node]
        leaves.append(level.take(np.flatnonzero(axes == LEAF)))
        inner = level.take(np.flatnonzero(axes != LEAF))
        cut = axes[axes != LEAF].astype(np.int64), tree.first[inner.node]
        known = tree.series[inner.node] <= 1
        level = problem.narrowed(inner, known, known).halves(*cut) if len(inner) else inner
    boxes = Boxes.join(leaves)
    ways = tree.series[boxes.node].astype(np.int64)
    boxes = replace(boxes, since=np.maximum(ways - 1, 0))
    count, series, none = len(boxes), ways > 0, np.zeros(len(boxes), dtype=bool)
    parts = np.full((count, len(PARTS)), np.inf)
    steep, noisy = np.zeros(boxes.lo.shape), np.zeros(count, dtype=np.int64)
    unknown = Waiting(boxes, parts, np.zeros(count), none, series, none, none, steep, noisy)
    done, untouched = _in_chunks(partial(_again, problem=problem), unknown, executor, deadline)
    return Waiting.join([done, untouched])


def _state(ledger: _Ledger, tree: Growing) -> dict[str, npt.NDArray[Any]]:
    """What a search can go on from: the tree, as it is at the beginning of a round, and the largest error met."""
    found = {"found": np.array([ledger.found]), "place": ledger.place, "boxes": np.array([ledger.boxes])}
    return {**tree.tensors(), **found}
