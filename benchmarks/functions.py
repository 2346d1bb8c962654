"""The rows of a file of functions, as the benchmarks read them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

Row = tuple[str, str, dict[str, tuple[float, ...]]]
"""Name, formula, domain."""


def rows(path: Path) -> Iterator[Row]:
    """Read a CSV of name, formula and domain, the last as in `x=-1:1 y=0:2`."""
    with path.open() as file:
        for row in csv.DictReader(file):
            pairs = (part.split("=") for part in row["domain"].split())
            yield row["name"], row["formula"], {name: tuple(map(float, ends.split(":"))) for name, ends in pairs}
