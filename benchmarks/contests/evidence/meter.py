"""What work costs: seconds of computing, which other processes hardly change, and the peak of memory."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..peers import Fit, Floats

T = TypeVar("T")
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
TIMED, REPEATS = 4096, 3
"""Points and repetitions for the time of one evaluation."""


def _resident(field: str) -> float | None:
    """A size of this process in megabytes, or None where the system does not tell."""
    try:
        found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    except OSError:
        return None
    return int(found[1]) / 1024 if found else None


def _computing() -> float:
    """Seconds of computing of this process and of the programs that it ran."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def metered(work: Callable[[], T]) -> tuple[T, float, float | None]:
    """What came of it, seconds of computing, and megabytes above what was held before (Linux; elsewhere None)."""
    before = _resident("VmRSS")
    try:
        RESET.write_text("5")  # forget the peak
    except OSError:
        before = None
    began = _computing()
    done = work()
    seconds, peak = _computing() - began, _resident("VmHWM")
    return done, seconds, None if before is None or peak is None else max(0.0, peak - before)


def evaluation(fit: Fit, rows: Floats) -> float:
    """Microseconds a point, in a batch: the best of a few."""
    rows, best = rows[:TIMED], float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        fit.values(rows)
        best = min(best, time.process_time() - began)
    return 1e6 * best / len(rows)
