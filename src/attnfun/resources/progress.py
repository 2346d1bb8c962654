"""A line that says how far a long call is: on a terminal and in a notebook, never elsewhere.

Whoever calls from a program, a test or a pipe sees nothing. On a terminal the line appears after two seconds, whatever
the call is doing then; in a notebook, with the first step that ends after them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from math import isfinite
from threading import Timer
from typing import Any, ParamSpec, TypeVar

from ..arguments import function
from ..errors import InputError, shown

PATIENCE, PAUSE = 2.0, 0.25
"""Seconds before anything is shown, and between two lines in a notebook."""

Tell = Callable[[Any], None]
Given = ParamSpec("Given")
Result = TypeVar("Result")


def with_progress(doing: str) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """For functions with an argument `progress`: None for a line after two seconds, False for none, or a function."""

    def wrap(call: Callable[Given, Result]) -> Callable[Given, Result]:
        @wraps(call)
        def run(*args: Given.args, **keywords: Given.kwargs) -> Result:
            with showing(doing, keywords.get("progress")) as tell:
                return call(*args, **keywords | {"progress": tell})  # type: ignore[arg-type]

        return run

    return wrap


@contextmanager
def showing(doing: str, progress: object = None) -> Iterator[Tell | None]:
    """The function that is told of progress while the work is done; None if nobody wants to know."""
    if progress is False:
        yield None
    elif progress is None:
        where = in_notebook() or (on_terminal() if sys.stderr is not None and sys.stderr.isatty() else None)
        if where is None:
            yield None
        else:
            with where(doing) as tell:
                yield tell
    elif progress is True:
        raise InputError(
            "progress must be None, False or a function",
            got=shown(progress),
            remedy="Leave it out: work of more than two seconds shows a line on a terminal and in a notebook.",
        )
    else:
        yield function("progress", progress)


def line(doing: str, told: Any) -> str:
    """What is known of the work, in a few words.

    >>> from attnfun.proofs import Progress
    >>> line("compiling", Progress(bound=0.25, found=0.1, boxes=2000, waiting=7))
    'compiling: bound 0.25, 2,000 boxes'
    """
    if told is None:
        return doing
    if told.points:
        return f"{doing}: {told.points:,} points"
    bound = f"bound {told.bound:.3g}, " if isfinite(told.bound) else ""
    return f"{doing}: {bound}{told.boxes:,} boxes"


Where = Callable[[str], Any]


def on_terminal() -> Where:
    """A bar on standard error, which is gone when the work is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    @contextmanager
    def shown_there(doing: str) -> Iterator[Tell]:
        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        task = bar.add_task(doing, total=None)
        timer = Timer(PATIENCE, bar.start)
        timer.daemon = True
        timer.start()
        try:
            yield lambda told: bar.update(task, description=line(doing, told))
        finally:
            timer.cancel()
            timer.join()
            bar.stop()

    return shown_there


def in_notebook() -> Where | None:
    """A line below the cell, or None outside of notebooks."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display = sys.modules["IPython"].display.display

    @contextmanager
    def shown_there(doing: str) -> Iterator[Tell]:
        start = last = time.monotonic()
        handle: Any = None

        def tell(told: Any) -> None:
            nonlocal handle, last
            now = time.monotonic()
            if now - start < PATIENCE or (handle is not None and now - last < PAUSE):
                return
            content, last = {"text/plain": f"{line(doing, told)}, {now - start:.0f} s"}, now
            if handle is None:
                handle = display(content, raw=True, display_id=True)
            else:
                handle.update(content, raw=True)

        yield tell
        if handle is not None:
            handle.update({"text/plain": ""}, raw=True)

    return shown_there
