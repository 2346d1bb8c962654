"""The rows of a file of functions, as the benchmarks read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contests.evidence.problem import problems

Row = tuple[str, str, dict[str, tuple[float, float]]]
"""Name, formula, domain."""


def rows(path: Path) -> Iterator[Row]:
    """Read a CSV of name, formula and domain, the last as in `x=-1:1 y=0:2`."""
    for one in problems(path):
        yield one.name, one.formula, one.domain
