"""One deadline for a whole piece of work: made once from a time limit and handed to every stage.

Values and circuits of a target are worked out when a stage first needs them, so they read the one `in_force`.

Loops read it between steps whose cost is bounded. What it does not interrupt is a running call of the user's own
function. Its clock stands still while kernels are compiled for the first time on a machine (`kernels.py`).

The clock ends work, and decides nothing else. Where one way is tried for a part of the time and then another one, that
part is *counted*: provers say how many seconds the boxes that they bounded stand for, the same number on every machine,
and a `share` of a deadline is over after so many of them. A search that must leave time for checking what it finds
ends `sooner`. So a call gives the same result on all machines that need no more than half of its time limit for it;
one that ran out of time says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import inf

from ..arguments import as_float
from ..errors import InputError, TimeLimitReached, shown

TIME_LIMIT = 60.0
"""Seconds that compiling, or proving again, may take unless said otherwise."""
LEAST = 0.1
"""Shares are of this part of the limit at least, however much was counted: machines may be faster than counted. A round
number."""


class Pauses:
    """Seconds that do not count, in which nothing of the work goes on. Pauses may be nested.

    >>> from itertools import count
    >>> pauses = Pauses(clock=count().__next__)
    >>> pauses.begin(), pauses.begin(), pauses.end(), pauses.end(), pauses.seconds  # from 0 to 1
    (None, None, None, None, 1.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._depth, self._since, self._over = 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        """All of them up to now."""
        return self._over + (self._clock() - self._since if self._depth else 0.0)

    def begin(self) -> None:
        """A pause begins."""
        if not self._depth:
            self._since = self._clock()
        self._depth += 1

    def end(self) -> None:
        """It ends."""
        self._depth -= 1
        if not self._depth:
            self._over += self._clock() - self._since


PAUSES = Pauses()
"""Those of this process: numba compiles under one lock, whichever thread starts it."""


def working_time() -> float:
    """The clock of time limits: seconds by the clock on the wall, pauses left out."""
    return time.monotonic() - PAUSES.seconds


class Work:
    """Seconds that work stands for, as counted by those who do it: one number for a deadline and its shares."""

    def __init__(self) -> None:
        self.seconds = 0.0


@dataclass(frozen=True)
class Deadline:
    """A moment on a clock by which work must be over. The clock is given to it, so that tests need not wait.

    >>> from itertools import count
    >>> deadline = Deadline.after(3.0, clock=count().__next__)  # made at 0; each reading is a second later
    >>> deadline.left, deadline.over, deadline.over, deadline.over
    (2.0, False, False, True)
    """

    limit: float = inf
    """The seconds that were allowed, for messages."""
    end: float = inf
    """The reading of the clock that ends the work."""
    clock: Callable[[], float] = working_time
    most: float = inf
    """Counted seconds that end the work, whatever the clock says."""
    work: Work = field(default_factory=Work, compare=False, repr=False)
    """What was counted so far."""

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = working_time) -> Deadline:
        """So many seconds from now."""
        return cls(seconds, inf if seconds == inf else clock() + seconds, clock)

    @classmethod
    def of(cls, time_limit: float | Deadline) -> Deadline:
        """What users give: seconds from now, or a deadline that several calls share; each counts its own work."""
        if isinstance(time_limit, Deadline):
            return replace(time_limit, work=Work())
        seconds = as_float(time_limit)
        if not seconds > 0:
            raise InputError(
                "time_limit must be a number of seconds > 0", got=shown(time_limit), remedy="Pass time_limit=60, say."
            )
        return cls.after(seconds)

    @property
    def left(self) -> float:
        """Seconds left by the clock, 0 when it is over."""
        return inf if self.end == inf else max(self.end - self.clock(), 0.0)

    @property
    def spent(self) -> bool:
        """Is a share used up?"""
        return self.work.seconds > self.most

    @property
    def over(self) -> bool:
        """Has the moment passed, or is a share used up?"""
        return self.spent or (self.end < inf and self.clock() > self.end)

    def count(self, seconds: float) -> None:
        """Work was done that stands for so many seconds."""
        self.work.seconds += seconds

    def share(self, fraction: float) -> Deadline:
        """This fraction of the time that is left, as it is counted; on the clock it ends no sooner.

        >>> whole = Deadline.after(10.0, clock=lambda: 0.0)
        >>> part = whole.share(0.5)
        >>> whole.count(6.0)
        >>> part.over, whole.over
        (True, False)
        """
        if self.limit == inf:
            return self
        whole = self.limit if self.most == inf else self.most
        left = max(whole - self.work.seconds, LEAST * self.limit)
        return replace(self, most=min(self.most, self.work.seconds + fraction * left))

    def sooner(self, fraction: float) -> Deadline:
        """After this fraction of the time that is left on the clock, so that something is left for what must follow."""
        return self if self.end == inf else replace(self, end=self.clock() + fraction * self.left)

    def reached(self, work: str, *, got: object = None, remedy: str = "") -> TimeLimitReached:
        """That it is over; `work` says what was going on."""
        return TimeLimitReached(work, self.limit, share=self.spent, got=got, remedy=remedy)

    def check(self, work: str) -> None:
        """Raise TimeLimitReached if it is over; `work` says what was going on."""
        if self.over:
            raise self.reached(work)


NEVER = Deadline()
"""No limit."""

_IN_FORCE: ContextVar[Deadline] = ContextVar("deadline", default=NEVER)


@contextmanager
def until(deadline: Deadline) -> Iterator[None]:
    """In this context values and circuits of targets that are not there by the deadline raise TimeLimitReached.

    >>> with until(Deadline(limit=1.0)):
    ...     in_force().limit
    1.0
    >>> in_force().limit
    inf
    """
    before = _IN_FORCE.set(deadline)
    try:
        yield
    finally:
        _IN_FORCE.reset(before)


def in_force() -> Deadline:
    """The deadline of the innermost `until` of this thread; workers have none, whoever waits for them has."""
    return _IN_FORCE.get()
