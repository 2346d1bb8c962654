"""The one door to numba: loops that are compiled when they are first used, and kept on disk after that.

Compiling takes about ten seconds once after an installation, more on a slow machine. No time limit pays for it: the
clock of `deadline.py` stands still meanwhile.
"""

from __future__ import annotations

from numba import njit
from numba.core import event

from .deadline import PAUSES

__all__ = ["njit"]


class _Compiling(event.Listener):
    """Tells the clock when numba begins to compile and when it has done so."""

    def on_start(self, event: event.Event) -> None:
        PAUSES.begin()

    def on_end(self, event: event.Event) -> None:
        PAUSES.end()


event.register("numba:compile", _Compiling())
