"""What a caller allows the judge: boxes, which are counted, and time, which the caller keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from .errors import Stopped


def _never() -> bool:
    return False


@dataclass
class Limits:
    """So many boxes, and work until `over` says that time is over; it is asked before each box and each head.

    A box in D variables counts D times: its Taylor models have more terms.
    """

    boxes: float = inf
    over: Callable[[], bool] = _never
    used: int = 0

    def box(self, variables: int) -> None:
        """Count one more box."""
        self.used += variables
        if self.used > self.boxes:
            raise Stopped(f"{self.boxes:g} boxes do not settle it")
        self.step()

    def step(self) -> None:
        """Go on if there is time."""
        if self.over():
            raise Stopped("the time limit was reached")
