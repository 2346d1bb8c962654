"""Work in chunks on any `concurrent.futures.Executor`, results in order. Scheduling is the engine's; the rest is here.

Chunks are made by the caller and do not depend on the number of workers, results come in the order of the chunks: what
is made of them is the same on one machine or many. Only so many chunks are under way at a time (back-pressure). When
the caller stops listening, for whatever reason, chunks that have not begun are cancelled. What a chunk raises is raised
here; what the *engine* raises (a worker died, a scheduler is gone) is no fault of the chunk, which is sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from itertools import islice
from math import isinf
from typing import Any, Generic, TypeVar

from ..errors import InputError, WorkersLost
from .deadline import NEVER, Deadline

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

AHEAD = 128
"""Chunks under way at a time."""
TRIES = 3
"""Times that a chunk is sent, and that a function is called at a point, before its failure counts."""
MOST_RESIDENT = 4
"""Things that a worker keeps between chunks."""
UNSENDABLE = (AttributeError, TypeError, ImportError)
"""What engines raise, beside errors of pickle, for work that cannot be sent or read where it arrives."""


def in_order(
    work: Callable[[Chunk], Result],
    chunks: Iterable[Chunk],
    executor: Executor | None = None,
    *,
    deadline: Deadline = NEVER,
    ahead: int = AHEAD,
) -> Iterator[Result]:
    """The results of `work` on chunks, in their order, done here or by the workers of `executor`.

    Ends early when the deadline is over; the chunks whose results came in are a beginning of them
    all. Without workers at least one is done. Memory O(ahead) chunks.

    >>> list(in_order(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    if executor is None:
        for chunk in chunks:
            yield work(chunk)
            if deadline.over:
                return
        return
    source, flying = iter(chunks), deque[_Flight[Chunk, Result]]()
    try:
        while True:
            flying.extend(_Flight(work, chunk, executor) for chunk in islice(source, ahead - len(flying)))
            if not flying or not flying[0].landed(deadline):
                return
            yield flying.popleft().result
            if deadline.spent:
                return
    finally:
        for flight in flying:
            flight.future.cancel()


def resident(key: str, make: Callable[[], Result]) -> Result:
    """What this process has kept under a key, made when it is first needed.

    What takes long to prepare travels with each chunk but is prepared once a worker.
    """
    found = _RESIDENT.get(key)
    if found is None:
        for old in list(_RESIDENT)[: max(len(_RESIDENT) + 1 - MOST_RESIDENT, 0)]:
            _RESIDENT.pop(old, None)
        found = _RESIDENT.setdefault(key, make())
    return found


_RESIDENT: dict[str, Any] = {}


class _Flight(Generic[Chunk, Result]):
    """One chunk on its way."""

    result: Result

    def __init__(self, work: Callable[[Chunk], Result], chunk: Chunk, executor: Executor) -> None:
        self.work, self.chunk, self.executor = work, chunk, executor
        self.future = self._sent()

    def landed(self, deadline: Deadline) -> bool:
        """Wait for the result, sending the chunk again where the engine failed; False if the deadline passes."""
        for left in reversed(range(TRIES)):
            try:
                seconds = deadline.left
                self.result, reason = self.future.result(None if isinf(seconds) else seconds)
            except (Exception, CancelledError) as failure:
                if isinstance(failure, TimeoutError) and deadline.left == 0:
                    return False
                if left == 0 or isinstance(failure, BrokenExecutor) or _unsendable(failure):
                    raise _explained(failure) from failure
                self.future = self._sent()
            else:
                if reason is not None:
                    raise reason
                return True
        raise AssertionError

    def _sent(self) -> Future[Any]:
        try:
            return self.executor.submit(_attempt, self.work, self.chunk)
        except Exception as failure:
            raise _explained(failure) from failure


def _attempt(work: Callable[[Any], Any], chunk: Any) -> tuple[Any, Exception | None]:
    """The result, or what the work itself raised: all else that a future raises is the engine's."""
    try:
        return work(chunk), None
    except Exception as reason:
        return None, reason


def _unsendable(failure: BaseException) -> bool:
    return isinstance(failure, UNSENDABLE) or type(failure).__module__ in ("pickle", "_pickle")


def _explained(failure: BaseException) -> Exception:
    """An error of the engine in our words."""
    got = f"{type(failure).__name__}: {failure}"
    if _unsendable(failure):
        return InputError(
            "the executor's workers must be able to import the function",
            got=got,
            remedy="Define it at the top of a module, or use a ThreadPoolExecutor.",
        )
    return WorkersLost(
        f"the executor's workers must keep running and be able to import the function, in {TRIES} tries at least",
        got=got,
        remedy="Run again with a new executor: checkpoint= and cache= go on where this run stopped.",
    )
