"""What the judge may take: operations, which it counts, and boxes and time, which a caller may limit.

Operations are sums and products of coefficients, roughly. A file that takes more of them than any that was made in
earnest is refused, on every machine alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from .errors import NotCovered, Stopped


@dataclass(frozen=True)
class WorkLimits:
    """How much work a claim may take."""

    most_work: int = 2**36
    """Operations: an hour or so. For time."""
    a_box: int = 2**15
    """Operations for a box, beside those on it. By trial."""


TUNING = WorkLimits()


def on_box(work: int) -> int:
    """The operations for a box on which `work` of them are done: some are done whatever is on it."""
    return TUNING.a_box + work


def _never() -> bool:
    return False


@dataclass
class Limits:
    """So many boxes, and work until `over` says that time is over; it is called before each box and each head.

    A box in D variables counts D times: its Taylor models have more terms.

    >>> Limits().must_allow(10**14)
    Traceback (most recent call last):
    attnfun.judge.errors.NotCovered: a claim that takes more than 6.9e+10 operations
    """

    boxes: float = inf
    over: Callable[[], bool] = _never
    used: int = 0
    work: int = 0

    def box(self, variables: int, work: int) -> None:
        """Count one more box, and what is evaluated on it."""
        self.used += variables
        if self.used > self.boxes:
            raise Stopped(f"{self.boxes:g} boxes do not settle it")
        self.step(on_box(work))

    def must_allow(self, work: int) -> None:
        """Refuse a claim that is certain to take more operations than are left."""
        if self.work + work > TUNING.most_work:
            raise NotCovered(f"a claim that takes more than {TUNING.most_work:.2g} operations")

    def step(self, work: int = TUNING.a_box) -> None:
        """Go on if there is time, and if operations are left."""
        self.must_allow(work)
        self.work += work
        if self.over():
            raise Stopped("the time limit was reached")
