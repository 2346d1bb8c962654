"""What the judge may take: operations, which it counts, and boxes and time, which a caller may limit.

Operations are sums and products of coefficients, roughly. A file that takes more of them than any that was made in
earnest is refused, on every machine alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from .errors import NotCovered, Stopped

MOST_WORK = 2**36
"""Operations: an hour or so."""
A_BOX = 2**15
"""Operations for a box, whatever is on it."""


def _never() -> bool:
    return False


@dataclass
class Limits:
    """So many boxes, and work until `over` says that time is over; it is called before each box and each head.

    A box in D variables counts D times: its Taylor models have more terms.

    >>> Limits().must_allow(10**9 * A_BOX)
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
        self.step(A_BOX + work)

    def must_allow(self, work: int) -> None:
        """Refuse a claim that is certain to take more operations than are left."""
        if self.work + work > MOST_WORK:
            raise NotCovered(f"a claim that takes more than {MOST_WORK:.2g} operations")

    def step(self, work: int = A_BOX) -> None:
        """Go on if there is time, and if operations are left."""
        self.must_allow(work)
        self.work += work
        if self.over():
            raise Stopped("the time limit was reached")
