"""Clocks that do not depend on how fast or how busy the machine is."""

from __future__ import annotations

import time

from attnfun.resources.deadline import Deadline

SLOWER = 10
"""In the tests a second of a time limit is this many seconds of computing."""


def patient() -> float:
    """The clock of time limits in the tests: computing of this process only, on machines a tenth as fast as usual."""
    return time.process_time() / SLOWER


class Clock:
    """A clock that moves on whenever it is read, by one second unless said otherwise."""

    def __init__(self, step: float = 1.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def readings(count: int) -> Deadline:
    """A deadline that is over when its clock has been read so often: the same work on every machine."""
    return Deadline.after(count + 0.5, Clock())
