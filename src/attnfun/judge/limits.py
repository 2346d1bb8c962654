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
    """So many boxes, and work until `over` says that time is over; it is asked before each box and each head."""

    boxes: float = inf
    over: Callable[[], bool] = _never
    used: int = 0

    def box(self) -> None:
        """Count one more box."""
        self.used += 1
        if self.used > self.boxes:
            raise Stopped(f"{self.boxes:g} boxes do not settle it")
        self.step()

    def step(self) -> None:
        """Go on if there is time."""
        if self.over():
            raise Stopped("the time limit was reached")
