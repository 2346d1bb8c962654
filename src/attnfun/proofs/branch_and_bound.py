"""Bound the error over a domain by cutting it into boxes, worst first [T 11.1], [T 11.2].

On each box the target lies in [F_lo, F_hi] and the network, in real arithmetic, in [Y_lo, Y_hi], so its error is at
most `max(Y_hi - F_lo, F_hi - Y_lo)`; Taylor series of the difference often say less; what rounding adds on that box
comes on top. At the centre the same formula, with the target enclosed at that one point, says about how large a bound
boxes are left with (`seen`). Boxes are cut until the bound is at most the goal, or within 5 % of the largest `seen`
(and the rounding part falls no more), or until no float lies between their ends.

`seen` is no lower bound: enclosures at a point have a width. That a goal cannot be proved follows from a lower bound
`max(Y_lo - F_hi, F_lo - Y_hi)` at that centre, and this is also the error that a proof says it found.

For the sup norm the bound is the largest over all boxes; for L_p it is `(Σ bound^p · volume)^{1/p}`, rounded up at any
scale (`arithmetic/norms.py`). At every moment it holds for the whole domain, so stopping early is sound.

Batches are cut into chunks of a fixed size whatever the number of workers, and results are taken in order
(`executors.py`), so a proof gives the same certificate on one machine or many. The state at the beginning of a round is
kept in a checkpoint every so often, and whenever a proof is interrupted or loses its workers; a proof that goes on from
there ends in the same certificate. (One that ran out of time keeps its state too. The round cut short makes another
order of boxes, so the bound may differ, but holds.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf, isinf
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..arguments import made_folder
from ..arithmetic import Interval
from ..arithmetic.norms import norms_on_boxes, together
from ..deadline import NEVER, Deadline
from ..errors import FileFormatError, TimeLimitReached
from ..executors import in_order
from ..memory import UNLIMITED, Memory
from ..network import Attention, Network
from ..network.storage import read, write
from ..targets import Target
from .boxes import PARTS, Boxes, Flags, Floats, Integers
from .fingerprint import fingerprint
from .problem import Problem

BATCH = 4096
"""Boxes cut at a time, at least; a quarter of those waiting when they are many."""
CHUNK, WORK = 512, 2**17
"""Boxes that one worker does at a time, and scores on all of them, at most (one box may have more)."""
COPIES = 4
"""Times that the boxes waiting are in memory while a round goes on."""
FAR = 1000.0
"""A box whose bound is this many times what would do is cut in four at once."""
MAX_BOXES = 1_000_000
"""Boxes waiting at a time; beyond that the search stops with the bound it has."""
WITHIN = 1.05
"""Without a goal, stop when the bound is this close to the largest error found."""
FINEST = 2.0**-120
"""Boxes narrower than this fraction of the domain on every axis are not cut further."""
EDGE = 2.0**-8
"""Wider boxes are cut even if their bound is good, while the target is not proved to be defined on all of them."""
KEEP_EVERY = 20.0
"""Seconds between checkpoints."""


@dataclass(frozen=True)
class Progress:
    """What long work tells its caller after each round of a proof, and as values of a black box come in."""

    bound: float
    found: float
    boxes: int
    waiting: int
    points: int = 0
    """Values of a black box that have come in; then there is no bound yet."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """A bound that holds on the whole domain, and how it was reached."""

    bound: float
    parts: dict[str, float]
    """Each part alone, in the same norm; the bound is at most their sum."""
    found: float
    """A lower bound on the largest error, met at the centre of a box, in real arithmetic; for L_p an estimate."""
    boxes: int
    defined: bool
    """Was the target proved to be defined everywhere?"""
    worst: Interval
    """The box with the largest bound, (1, D)."""
    stopped: str = ""
    """The limit of memory at which boxes were cut no more though the bound was not good enough, in words."""


class _Ledger:
    """What has been settled so far, in the sup norm or in L_p."""

    def __init__(self, problem: Problem, norm: float) -> None:
        self.domain, self.norm = problem.target.domain, norm
        self.low, self.high = self.domain.lo.reshape(1, -1), self.domain.hi.reshape(1, -1)
        self.total, self.parts, self.found = 0.0, np.zeros(len(PARTS)), 0.0
        self.boxes, self.defined = 0, True
        self.worst, self.peak = Interval(self.low, self.high), 0.0
        self.place = self.worst.mid  # (1, D), where the largest error was met

    def measure(self, errors: Floats, boxes: Boxes) -> Floats:
        """What errors (B, ...) on boxes contribute: themselves, or their L_p norms on each box."""
        return errors if isinf(self.norm) else norms_on_boxes(errors, boxes.lo, boxes.hi, self.norm)

    def merge(self, start: Floats | float, contributions: Floats) -> Floats:
        """Combine contributions (B, ...) of boxes with what is there."""
        every = np.concatenate([np.asarray(start)[None], contributions])
        return every.max(axis=0) if isinf(self.norm) else together(every, self.norm)

    def bound(self, waiting: Boxes) -> float:
        """The bound that holds now, over settled and waiting boxes."""
        return float(self.merge(self.total, self.measure(waiting.bound, waiting)))

    def seen(self, waiting: Boxes) -> float:
        """The error found so far; for the sup norm over all boxes ever looked at."""
        return float(self.merge(self.found, self.measure(waiting.seen, waiting)))

    def look(self, boxes: Boxes) -> None:
        """Note new boxes."""
        self.boxes += len(boxes)
        if isinf(self.norm) and boxes.seen.max(initial=0.0) > self.found:
            peak = int(np.argmax(boxes.seen))
            self.found = float(boxes.seen[peak])
            self.place = Interval(boxes.lo[peak : peak + 1], boxes.hi[peak : peak + 1]).mid

    def settle(self, boxes: Boxes) -> None:
        """Take these boxes as they are."""
        if not len(boxes):
            return
        self.total = float(self.merge(self.total, self.measure(boxes.bound, boxes)))
        self.parts = self.merge(self.parts, self.measure(boxes.parts, boxes))
        if not isinf(self.norm):
            self.found = float(self.merge(self.found, self.measure(boxes.seen, boxes)))
        self.defined &= bool(boxes.defined.all())
        peak = int(np.argmax(boxes.bound))
        if boxes.bound[peak] > self.peak:
            self.peak = float(boxes.bound[peak])
            self.worst = Interval(boxes.lo[peak : peak + 1], boxes.hi[peak : peak + 1])

    def unfinished(self, waiting: Boxes, goal: float | None) -> Flags:
        """Boxes that must be cut: too large a share of the bound, or the target not proved to be defined on them."""
        width = ((waiting.hi - waiting.lo) / (self.high - self.low)).max(axis=1)
        doubtful = ~waiting.defined & (width > EDGE)
        if isinf(self.norm):
            over = waiting.parts[:, 0] > WITHIN * self.found
            over = over if goal is None else (over | ~waiting.stiff) & (waiting.bound > goal)
        else:
            bound = self.bound(waiting)
            done = bound <= WITHIN * self.seen(waiting) or (goal is not None and bound <= goal)
            over = np.full(len(waiting), not done)
        return (over | doubtful) & (width > FINEST) & waiting.divisible(self.high - self.low)

    def state(self) -> dict[str, Floats]:
        """Everything as named arrays."""
        scalars = np.array([self.total, self.found, self.boxes, self.defined, self.peak])
        places = {"ledger.lo": self.worst.lo, "ledger.hi": self.worst.hi, "ledger.place": self.place}
        return {"ledger": scalars, "ledger.parts": self.parts, **places}

    def restore(self, named: dict[str, Floats]) -> None:
        """Everything again."""
        self.total, self.found, boxes, defined, self.peak = (float(number) for number in named["ledger"])
        self.boxes, self.defined, self.parts = int(boxes), bool(defined), named["ledger.parts"]
        self.worst, self.place = Interval(named["ledger.lo"], named["ledger.hi"]), named["ledger.place"]


def bound_error(
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
) -> Outcome:
    """Prove a bound on `|target - network|` over the domain, for the network in its own arithmetic.

    Stops at `bound <= goal`, at a point whose error surely exceeds the goal (no proof is possible), within 5 % of the
    largest error met, after `most` boxes, or at a limit of time or memory. Work per box is O(tokens in play there).
    `executor` is any `concurrent.futures.Executor`. `checkpoint` is a folder: an interrupted proof leaves its state
    there, and the same call goes on from it.
    """
    problem = Problem(target, network, goal if isinf(norm) else None)
    ledger, kept = _Ledger(problem, norm), _Checkpoint(checkpoint, problem, goal, norm)
    extent, late, stopped = (target.domain.hi - target.domain.lo).ravel(), False, ""
    waiting = kept.resume(ledger)
    if waiting is None:
        waiting = problem.bounded(problem.root(), 0.0)
        ledger.look(waiting)
    try:
        while len(waiting):
            kept.offer(ledger, waiting)
            seen = ledger.seen(waiting)
            if progress is not None:
                progress(Progress(ledger.bound(waiting), seen, ledger.boxes, len(waiting)))
            hopeless = goal is not None and isinf(norm) and seen > goal and _least_error(problem, ledger) > goal
            late = deadline.over
            open_ = ledger.unfinished(waiting, goal)
            if hopeless or late or ledger.boxes > most or not open_.any():
                break
            if stopped := _no_room(waiting, memory):
                break
            ledger.settle(waiting.take(np.flatnonzero(~open_)))
            waiting = waiting.take(np.flatnonzero(open_))
            order = np.lexsort((-ledger.measure(waiting.bound, waiting), waiting.defined))  # doubtful, then worst
            now, later = np.split(order, [max(BATCH, len(order) // 4)])
            easy = max(goal or 0.0, WITHIN * seen) if isinf(norm) else 0.0
            pieces = _pieces(waiting.take(now), extent, easy)
            bounded, untouched = _in_chunks(problem, pieces, easy, executor, deadline)
            ledger.look(bounded)
            waiting = Boxes.join([bounded, untouched, waiting.take(later)])
    except BaseException:
        kept.keep()
        raise
    bound = ledger.bound(waiting)
    found = _least_error(problem, ledger) if isinf(norm) else ledger.seen(waiting)
    ledger.settle(waiting)
    if late and (goal is None or bound > goal):
        kept.keep()
    else:
        kept.drop()
    parts = {name: float(part) for name, part in zip(PARTS, ledger.parts, strict=True)}
    return Outcome(bound, parts, found, ledger.boxes, ledger.defined, ledger.worst, stopped)


def _no_room(waiting: Boxes, memory: Memory) -> str:
    """Why no more boxes may wait, if there are too many."""
    if len(waiting) > MAX_BOXES:
        return f"The proof stopped at {len(waiting)} boxes waiting, where {MAX_BOXES} are allowed"
    if not memory.holds(COPIES * waiting.numbers):
        return f"The proof stopped at memory_limit={memory.limit:.3g} bytes: allow more"
    return ""


def _least_error(problem: Problem, ledger: _Ledger) -> float:
    """A lower bound on the error where the largest was met; 0 if there is no time left to tell."""
    with suppress(TimeLimitReached):
        return problem.least_error(ledger.place)
    return 0.0


def _pieces(boxes: Boxes, extent: Floats, easy: float) -> Boxes:
    """Boxes cut in two, or in four where they are far from good enough."""
    far = (boxes.bound > FAR * easy) & (easy > 0)
    near, further = boxes.take(np.flatnonzero(~far)), boxes.take(np.flatnonzero(far)).halves(extent)
    again = further.divisible(extent)
    smallest, further = further.take(np.flatnonzero(~again)), further.take(np.flatnonzero(again))
    return Boxes.join([near.halves(extent), smallest, further.halves(extent)])


def _in_chunks(
    problem: Problem, boxes: Boxes, easy: float, executor: Executor | None, deadline: Deadline
) -> tuple[Boxes, Boxes]:
    """Bound a batch, chunk by chunk, here or on workers; and the boxes that there was no time for.

    Those keep what is known of the box they were cut from, which holds on them too. A single chunk is not worth
    sending: nobody could work beside it.
    """
    parts = np.split(np.arange(len(boxes)), _cuts(boxes, problem.network))
    chunks, workers = (boxes.take(part) for part in parts), executor if len(parts) > 1 else None
    done = list[Boxes]()
    with suppress(TimeLimitReached):  # within a chunk, which stays untouched
        done.extend(in_order(partial(problem.bounded, easy=easy), chunks, workers, deadline=deadline))
    bounded = Boxes.join(done) if done else boxes.take(np.arange(0))
    return bounded, boxes.take(np.arange(len(bounded), len(boxes)))


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
    """The state of one proof in a folder, under the fingerprint of what is being proved.

    It is that of the beginning of a round, so that a round that was not finished is begun again.
    """

    def __init__(self, folder: str | Path | None, problem: Problem, goal: float | None, norm: float) -> None:
        self.path: Path | None = None
        self.last, self.state = time.monotonic(), dict[str, npt.NDArray[np.generic]]()
        if folder is not None:
            self.path = made_folder("checkpoint", folder) / f"{fingerprint(problem, goal, norm)}.safetensors"

    def resume(self, ledger: _Ledger) -> Boxes | None:
        """The boxes that were waiting, if there is a state to go on from; a file that cannot be read is none."""
        if self.path is None or not self.path.exists():
            return None
        try:
            named, _ = read(self.path)
        except FileFormatError:
            return None
        ledger.restore(named)
        return Boxes.from_tensors({name: array for name, array in named.items() if not name.startswith("ledger")})

    def offer(self, ledger: _Ledger, waiting: Boxes) -> None:
        """A state to go on from, written every so often."""
        if self.path is not None:
            self.state = {**waiting.tensors(), **ledger.state()}
            if time.monotonic() - self.last > KEEP_EVERY:
                self.keep()

    def keep(self) -> None:
        """Write the last state that was offered, if there is one."""
        if self.path is not None and self.state:
            write(self.path, self.state, {"kind": "checkpoint"})
            self.last = time.monotonic()

    def drop(self) -> None:
        """The proof is over."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
