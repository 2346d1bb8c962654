"""Formulas of hundreds of variables: what compiling and proving takes, and what files hold, against the number.

    python benchmarks/inputs.py

Writes benchmarks/results/inputs.md. Seconds are of computing, in one process; growth is the ratio to what the smallest
row says for as many times the variables, so 1 is linear.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import attnfun as af
from attnfun.network.storage import pack, without_zeros

RESULTS = Path(__file__).parent / "results" / "inputs.md"
SIZES = (100, 200, 400, 800)
EPS = 1e-3


def squares(count: int) -> str:
    """A sum of squares."""
    return "+".join(f"x{k}**2" for k in range(count))


def chain(count: int) -> str:
    """Every variable meets the next one."""
    return "+".join(f"sin(x{k}*x{k + 1})" for k in range(count - 1))


FAMILIES: dict[str, Callable[[int], str]] = {"x_1^2 + ... + x_n^2": squares, "sin(x_1 x_2) + sin(x_2 x_3) + ...": chain}


@dataclass(frozen=True)
class Row:
    """What one formula took."""

    variables: int
    seconds: float
    tokens: int
    numbers: int
    stored: int
    bound: float
    proved: bool


def measured(formula: str, variables: int, time_limit: float) -> Row:
    """Compile and prove."""
    began = time.process_time()
    net = af.compile(formula, {f"x{k}": (-1, 1) for k in range(variables)}, EPS, time_limit=time_limit)
    seconds = time.process_time() - began
    kept, _ = without_zeros(pack(net.network)[0])
    stored = sum(array.size for array in kept.values())
    certificate = net.certificate
    return Row(
        variables, seconds, net.network.tokens, net.network.parameters, stored, certificate.bound, certificate.proved
    )


def table(title: str, rows: list[Row]) -> list[str]:
    """Rows, with growth beside the first."""
    lines = [
        f"## {title}",
        "",
        "| variables | seconds | growth | tokens | numbers in the file | growth | with zeros | bound |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = row.variables / rows[0].variables
        growth = [after / before / times for before, after in zip(_costs(rows[0]), _costs(row), strict=True)]
        status = "proved" if row.proved else "not proved"
        lines.append(
            f"| {row.variables} | {row.seconds:.1f} | {growth[0]:.2f} | {row.tokens} | {row.stored} | {growth[1]:.2f} "
            f"| {row.numbers} | {row.bound:.2e} {status} |"
        )
    return [*lines, ""]


def _costs(row: Row) -> tuple[float, float]:
    return row.seconds, float(row.stored)


def main() -> None:
    """Both families."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--time-limit", type=float, default=300.0)
    given = parser.parse_args()
    measured(squares(2), 2, given.time_limit)  # kernels are compiled once
    lines = [
        "# Many variables",
        "",
        f"Made by `python benchmarks/inputs.py`: formulas on [-1, 1]^n to within {EPS:g}, seconds of computing for",
        "planning, building and proving together. Growth is beside the first row, for as many times the variables:",
        "1 is linear. Maps that are mostly zeros are stored by their places, which count as numbers; the last but one",
        "column counts all weights with their zeros.",
        "",
    ]
    for title, family in FAMILIES.items():
        lines += table(title, [measured(family(size), size, given.time_limit) for size in given.sizes])
    RESULTS.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
