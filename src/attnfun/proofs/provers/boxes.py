"""Search for a cover of the domain by boxes that are good enough, worst first [T 11.1], [T 11.2], [T 11.14].

Each box is bounded by the rule (`rules/boxes.py`). At its centre the same formula, with the target enclosed at that one
point, says about how large a bound boxes are left with (`seen`). Boxes are cut until the bound is at most the goal, or
within 5 % of the largest `seen` (and the rounding part falls no more), or until no float lies between their ends. What
is left is the cutting tree; the rule's conclusion, not this search, says what it proves.

`seen` is no lower bound: enclosures at a point have a width. That a goal cannot be proved follows from a lower bound
`max(Y_lo - F_hi, F_lo - Y_hi)` at that centre, and this is also the error that a proof says it found.

Batches are cut into chunks of a fixed size whatever the number of workers, and results are taken in order
(`resources/executors.py`), so the tree is the same on one machine or many. The tree at the beginning of a round is
kept in a checkpoint every so often, and whenever a search is interrupted or loses its workers; a search that goes on
from there bounds the leaves again and ends in the same tree. (One that ran out of time keeps its tree too. The round
cut short makes another order of boxes, so the bound may differ, but holds.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, isinf, log2
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arguments import made_folder
from ...arithmetic import Interval
from ...errors import FileFormatError, InputError, TimeLimitReached
from ...network import Attention, Network
from ...network.storage import read, write
from ...resources.deadline import NEVER, Deadline
from ...resources.executors import in_order
from ...resources.memory import UNLIMITED, Memory
from ...targets import Target
from ...targets.base import BOUNDED
from ...targets.defects import axes_towards_poles
from ..boxes import Boxes
from ..claim import Claim
from ..fingerprint import fingerprint
from ..proof import LEAF, PARTS, Flags, Floats, Growing, Integers, Proof
from ..rewriting import with_banks
from ..rules.boxes import NAME, SHORT, TAILS, Problem, check, contributions, merged, summed
from .base import Attempt, Outcome, Progress, Task

BATCH = 4096
"""Boxes cut at a time, at least; a quarter of those waiting when they are many."""
CHUNK, WORK = 512, 2**17
"""Boxes that one worker does at a time, and scores on all of them, at most (one box may have more)."""
COPIES = 4
"""Times that the boxes waiting are in memory while a round goes on."""
FAR = 1000.0
"""A box whose bound is this many times what would do is cut in four at once."""
FEW = 16
"""Boxes that are bounded in about the time of one."""
MAX_BOXES = 1_000_000
"""Boxes waiting at a time; beyond that the search stops with the bound it has."""
MOST = 0.75
"""In L_p a round cuts the boxes that have this part of what cutting all boxes may gain."""
SETTLED = 1.2
"""In L_p the error at the centres of boxes says about what the error is once the bound is within this factor of it."""
WITHIN = 1.05
"""Without a goal, stop when the bound is this close to the largest error found."""
FINEST = 2.0**-120
"""Boxes narrower than this fraction of the domain on every axis are not cut further."""
EDGE = 2.0**-8
"""Wider boxes are cut even if their bound is good, while the target is not proved to be defined on all of them."""
STIFF = 0.9
"""If the centre of a box alone has more than this fraction of its rounding part, cutting it is no remedy."""
TRIALS = 32
"""Boxes on which Taylor series are tried before a whole batch is done with them."""
KEEP_EVERY = 20.0
"""Seconds between checkpoints."""


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

    def __len__(self) -> int:
        return len(self.boxes)

    @property
    def bound(self) -> Floats:
        """Bound on the error of the deployed network, (B,)."""
        return summed(self.parts)

    def take(self, rows: Integers) -> Waiting:
        """Some of the boxes."""
        known = (self.parts[rows], self.seen[rows], self.defined[rows], self.series[rows], self.tails[rows])
        return Waiting(self.boxes.take(rows), *known)

    @classmethod
    def join(cls, batches: list[Waiting]) -> Waiting:
        """Several batches as one."""
        names = ("parts", "seen", "defined", "series", "tails")
        known = (np.concatenate([getattr(batch, name) for batch in batches]) for name in names)
        return cls(Boxes.join([batch.boxes for batch in batches]), *known)

    def halves(self, tree: Growing, axis: npt.NDArray[np.intp]) -> Waiting:
        """Each box in two, cut across an axis (B,); what is known of the whole holds on the halves, a tail on both."""
        both = self.take(np.tile(np.arange(len(self)), 2))
        boxes = self.boxes.halves(axis, tree.cut(self.boxes.node, axis))
        return replace(both, boxes=boxes)


def bounded(boxes: Boxes, problem: Problem, easy: float, series: Flags | None = None) -> Waiting:
    """Boxes with bounds of their own, by the rule. Pure work that any worker can do.

    Series are used on the boxes that are named, (B,); or else where a bound with its rounding is more than `easy`,
    unless a few trials say that the boxes are still too large for them.
    """
    on = problem.enclosed(boxes)
    parts, used = on.parts, np.zeros(len(boxes), dtype=bool)
    wanted = np.flatnonzero(summed(parts) > easy if series is None else series)
    tried = wanted[np.linspace(0, len(wanted) - 1, min(TRIALS, len(wanted))).astype(np.int64)]
    for pick in (tried, np.setdiff1d(wanted, tried)):
        if not len(pick):
            break
        better = problem.by_series(on, pick)
        used[pick] = better < parts[pick, 0]
        if series is None and not used[pick].any():
            break
        parts[pick, 0] = np.minimum(parts[pick, 0], better)
    seen = _at_centres(problem, Interval(on.rows.mid), on.region.points.reshape(len(boxes), -1))
    long = np.flatnonzero(boxes.most_tokens > SHORT)
    boxes = boxes.with_focus(long, tuple(layer.take(long) for layer in on.focus))
    return Waiting(boxes, parts, seen, on.defined, used, on.tails)


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

    def __init__(self, problem: Problem, norm: float, goal: float | None) -> None:
        self.problem, self.norm, self.goal = problem, norm, goal
        domain = problem.target.domain
        self.extent = (domain.hi - domain.lo).ravel()  # (D,)
        self.total, self.parts, self.found, self.least = 0.0, np.zeros(len(PARTS)), 0.0, inf
        self.boxes, self.tails = 0, False
        self.place = Interval(domain.lo.reshape(1, -1), domain.hi.reshape(1, -1)).mid  # (1, D), of the largest error

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

    def unfinished(self, waiting: Waiting) -> Flags:
        """Boxes that must be cut: too large a share of the bound, or the target not proved to be defined on them."""
        boxes, goal = waiting.boxes, self.goal
        width = ((boxes.hi - boxes.lo) / self.extent).max(axis=1)
        doubtful = ~waiting.defined & (width > EDGE)
        if isinf(self.norm):
            over = waiting.parts[:, 0] > WITHIN * self.found
            if goal is not None:
                missed = waiting.bound > goal
                over = over & missed | self._yields(waiting, missed & ~over)
        else:
            bound = self.bound(waiting)
            done = bound <= WITHIN * self.seen(waiting) or (goal is not None and bound <= goal)
            over = np.full(len(waiting), not done)
        return (over | doubtful) & (width > FINEST) & boxes.divisible()

    def beyond(self, seen: float, bound: float) -> bool:
        """Is the goal out of reach? Surely in the sup norm; in L_p as far as centres of boxes tell that are small."""
        if isinf(self.norm):
            return self.goal is not None and _least_error(self.problem, self) > self.goal
        return bound <= SETTLED * seen and self.boxes >= self.problem.network.tokens

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
        most = max(BATCH, len(excess) // 4)
        total = excess.sum()
        if isinf(self.norm) or not 0 < total < inf:
            return most
        enough = int(np.searchsorted(np.cumsum(excess), MOST * total)) + 1
        return min(most, max(enough, FEW, int((~defined).sum())))

    def _yields(self, waiting: Waiting, doubtful: Flags) -> Flags:
        """On which of the doubtful boxes is rounding at the centre alone much smaller, so that cutting helps, (B,)?"""
        yields, pick = np.zeros(len(waiting), dtype=bool), np.flatnonzero(doubtful)
        if len(pick):
            boxes = waiting.boxes.take(pick)
            centres = self.problem.with_neighbours(Interval(Interval(boxes.lo, boxes.hi).mid))
            *_, alone = self.problem.network_on(centres, boxes.focus)
            yields[pick] = alone.sum(axis=1) <= STIFF * waiting.parts[pick, 1:].sum(axis=1)
        return yields


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
) -> Searched:
    """A cover that proves a bound on `|target - network|` over the domain, for the network in its own arithmetic.

    Stops at `bound <= goal`, at a point whose error surely exceeds the goal (no proof is possible), within 5 % of the
    largest error met, after `most` boxes, or at a limit of time or memory. Work per box is O(tokens in play there).
    `executor` is any `concurrent.futures.Executor`. `checkpoint` is a folder: an interrupted search leaves its tree
    there, and the same call goes on from it.
    """
    problem = Problem(target, with_banks(network), goal if isinf(norm) else None, None if isinf(norm) else norm)
    ledger, kept = _Ledger(problem, norm, goal), _Checkpoint(checkpoint, problem, goal, norm)
    tree, waiting = kept.resume(ledger, executor, deadline)
    late, stopped = False, ""
    try:
        while len(waiting):
            kept.offer(ledger, tree)
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
            excess = ledger.excess(waiting)
            order = np.lexsort((waiting.boxes.node, -excess, waiting.defined))  # doubtful, then worst
            now, later = np.split(order, [ledger.next_round(excess[order], waiting.defined[order])])
            easy = max(goal or 0.0, WITHIN * seen) if isinf(norm) else 0.0
            pieces = _pieces(waiting.take(now), tree, ledger, easy)
            done, untouched = _in_chunks(problem, pieces, easy, executor, deadline)
            for some in (done, untouched):
                tree.note(some.boxes.node, some.series)
            ledger.look(done)
            waiting = Waiting.join([done, untouched, waiting.take(later)])
    except BaseException:
        kept.keep()
        raise
    bound = ledger.bound(waiting)
    found = _least_error(problem, ledger) if isinf(norm) else ledger.seen(waiting)
    ledger.settle(waiting)
    if late and (goal is None or bound > goal):
        stopped = TimeLimitReached("the proof", deadline.limit).reason
        kept.keep()
    else:
        kept.drop()
    parts = {name: float(part) for name, part in zip(PARTS, ledger.parts, strict=True)}
    aim = np.array([] if problem.goal is None else [problem.goal])
    name = TAILS if ledger.tails else NAME
    return Searched(Proof(name, {**tree.cover().data(), "goal": aim}), bound, parts, found, ledger.boxes, stopped)


def _no_room(waiting: Waiting, memory: Memory) -> str:
    """Why no more boxes may wait, if there are too many."""
    if len(waiting) > MAX_BOXES:
        return f"The proof stopped at {len(waiting)} boxes waiting, where {MAX_BOXES} are allowed"
    if not memory.holds(COPIES * waiting.boxes.numbers):
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
    """Boxes cut in two, or in four where they are far from good enough; in more where few with short lists are waiting.

    A batch of FEW boxes takes about as long as one box, and each round spared is one batch less.
    """
    far = (waiting.bound > FAR * easy) & (easy > 0)
    short = waiting.boxes.most_tokens.max(initial=0) <= SHORT
    spare = ceil(log2(FEW / len(waiting))) if short else 0
    near = _cut(waiting.take(np.flatnonzero(~far)), tree, ledger, max(1, spare - 1))
    return Waiting.join([near, _cut(waiting.take(np.flatnonzero(far)), tree, ledger, max(2, spare))])


def _cut(waiting: Waiting, tree: Growing, ledger: _Ledger, times: int) -> Waiting:
    """Boxes cut in two so many times, as far as there are floats between their ends."""
    for _ in range(times):
        again = waiting.boxes.divisible()
        smallest, larger = waiting.take(np.flatnonzero(~again)), waiting.take(np.flatnonzero(again))
        axis = larger.boxes.longest(ledger.extent)
        tails = np.flatnonzero(larger.tails)
        if len(tails):
            low, high = larger.boxes.lo[tails], larger.boxes.hi[tails]
            axis[tails] = axes_towards_poles(ledger.problem.target, low, high, axis[tails])
        waiting = Waiting.join([smallest, larger.halves(tree, axis)])
    return waiting


def _in_chunks(
    problem: Problem,
    waiting: Waiting,
    easy: float,
    executor: Executor | None,
    deadline: Deadline,
    series: Flags | None = None,
) -> tuple[Waiting, Waiting]:
    """Bound a batch, chunk by chunk, here or on workers; and the boxes that there was no time for.

    Those keep what is known of the box they were cut from, which holds on them too. A single chunk is not worth
    sending: nobody could work beside it.
    """
    parts = np.split(np.arange(len(waiting)), _cuts(waiting.boxes, problem.network))
    workers, done = executor if len(parts) > 1 else None, list[Waiting]()
    chunks = ((waiting.boxes.take(part), None if series is None else series[part]) for part in parts)
    with suppress(TimeLimitReached):  # within a chunk, which stays untouched
        done.extend(in_order(partial(_chunk, problem=problem, easy=easy), chunks, workers, deadline=deadline))
    ready = Waiting.join(done) if done else waiting.take(np.arange(0))
    return ready, waiting.take(np.arange(len(ready), len(waiting)))


def _chunk(chunk: tuple[Boxes, Flags | None], problem: Problem, easy: float) -> Waiting:
    boxes, series = chunk
    return bounded(boxes, problem, easy, series)


def _cuts(boxes: Boxes, network: Network) -> Integers:
    """Where a batch is cut into chunks: by boxes, and by the scores on them, which are the work."""
    work, length, focus = np.zeros(len(boxes), dtype=np.int64), network.rows, iter(boxes.focus)  # (B,)
    for layer in network.layers:
        if isinstance(layer, Attention):
            work += layer.heads * length * (next(focus).active.lengths + layer.attends_data * length)
        length = layer.length_out(length)
    parts = np.stack([np.arange(len(boxes)) // CHUNK, np.cumsum(work) // WORK])
    return np.flatnonzero(np.diff(parts, axis=1).any(axis=0)) + 1


class _Checkpoint:
    """The cutting tree of one search in a folder, under the fingerprint of what is being proved.

    It is that of the beginning of a round, so that a round that was not finished is begun again.
    """

    def __init__(self, folder: str | Path | None, problem: Problem, goal: float | None, norm: float) -> None:
        self.path: Path | None = None
        self.problem, self.last, self.state = problem, time.monotonic(), dict[str, npt.NDArray[np.generic]]()
        if folder is not None:
            self.path = made_folder("checkpoint", folder) / f"{fingerprint(problem, goal, norm)}.safetensors"

    def resume(self, ledger: _Ledger, executor: Executor | None, deadline: Deadline) -> tuple[Growing, Waiting]:
        """The tree, and its leaves bounded; from the roots alone where there is no state that can be read."""
        root = self.problem.root()
        tree = Growing(len(root))
        if self.path is not None and self.path.exists():
            with suppress(FileFormatError, KeyError):
                named, _ = read(self.path)
                ledger.found, ledger.place = float(named["found"][0]), named["place"]
                ledger.boxes = int(named["boxes"][0])
                tree = Growing.restored(named, len(root))
        if tree.nodes == len(root):
            waiting = bounded(root, self.problem, 0.0)
            ledger.look(waiting)
        else:
            waiting = self._leaves(tree, root, executor, deadline)
        tree.note(waiting.boxes.node, waiting.series)
        return tree, waiting

    def _leaves(self, tree: Growing, level: Boxes, executor: Executor | None, deadline: Deadline) -> Waiting:
        """All leaves of a tree below a level, bounded as they were before."""
        leaves = list[Boxes]()
        while len(level):
            axes = tree.axes[level.node]
            leaves.append(level.take(np.flatnonzero(axes == LEAF)))
            inner = level.take(np.flatnonzero(axes != LEAF))
            cut = axes[axes != LEAF].astype(np.int64), tree.first[inner.node]
            level = self.problem.narrowed(inner).halves(*cut) if len(inner) else inner
        boxes = Boxes.join(leaves)
        count, nothing = len(boxes), np.zeros(len(boxes), dtype=bool)
        unknown = Waiting(boxes, np.full((count, len(PARTS)), np.inf), np.zeros(count), nothing, nothing, nothing)
        series = tree.series[boxes.node] != 0
        done, untouched = _in_chunks(self.problem, unknown, 0.0, executor, deadline, series)
        return Waiting.join([done, untouched])

    def offer(self, ledger: _Ledger, tree: Growing) -> None:
        """A state to go on from, written every so often."""
        if self.path is not None:
            found = {"found": np.array([ledger.found]), "place": ledger.place, "boxes": np.array([ledger.boxes])}
            self.state = {**tree.tensors(), **found}
            if time.monotonic() - self.last > KEEP_EVERY:
                self.keep()

    def keep(self) -> None:
        """Write the last state that was offered, if there is one."""
        if self.path is not None and self.state:
            write(self.path, self.state, {"kind": "checkpoint"})
            self.last = time.monotonic()

    def drop(self) -> None:
        """The search is over."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
