"""Formulas of many variables as circuits: depth, heads, tokens, what is proved and how long it takes.

    python benchmarks/circuits.py --file functions.csv --file feynman.csv

Each file has rows of name, formula and domain (`x=-1:1 y=0:2`); a file that is absent is skipped, and said so. Two
formulas of many variables are added. Writes benchmarks/results/circuits.md. Rows with one variable are left out: they
are one head.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from statistics import median

import attnfun as af
from attnfun.experiments.circuit import names, sine_of_squares
from functions import Row, rows

RESULTS = Path(__file__).parent / "results"
RELATIVE = 1e-6
HEAD = "| formula | variables | depth | heads | tokens | parameters | bound | largest error found | seconds |"
LONGEST_REASON = 300


def large() -> list[Row]:
    """Formulas whose size is in their number of variables."""
    exponentials = " + ".join(f"exp({name})" for name in names(50))
    return [
        ("sine of 100 squares", sine_of_squares(100), dict.fromkeys(names(100), (-1.0, 1.0))),
        ("log-sum-exp of 50", f"log({exponentials})", dict.fromkeys(names(50), (-1.0, 1.0))),
    ]


def measured(name: str, formula: str, domain: dict, time_limit: float) -> tuple[str, float | None]:
    """A row of the table, and the seconds if it was proved."""
    began = time.monotonic()
    try:
        net = af.compile(
            formula, domain, RELATIVE, relative=True, construction="circuit", time_limit=time_limit, outside="clip"
        )
    except af.errors.AttnfunError as reason:
        spent = time.monotonic() - began
        words = re.sub(r"'[^']*'", "a part of it", " ".join(str(reason).split())).split(" (there")[0]
        return f"| {name} | {len(domain)} | | | | | refused: {words[:LONGEST_REASON]} | | {spent:.1f} |", None
    spent, summary = time.monotonic() - began, net.summary()
    size = f"{summary.figures['depth']:g} | {summary.heads} | {summary.tokens} | {summary.parameters}"
    proof = f"{summary.bound:.2e} | {summary.largest_error_found:.2e}"
    return f"| {name} | {len(domain)} | {size} | {proof} | {spent:.1f} |", spent


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, action="append", required=True)
    parser.add_argument("--time-limit", type=float, default=60.0)
    asked = parser.parse_args()
    lines = [
        "# Formulas as circuits",
        "",
        f"Tolerance: {RELATIVE:g} of the largest value found, float64, every bound proved. Seconds by the clock.",
    ]
    for title, found in [*((path.stem, path) for path in asked.file), ("many variables", large())]:
        if isinstance(found, Path) and not found.exists():
            sys.stderr.write(f"skipped: there is no {found}\n")
            continue
        table = [row for row in (rows(found) if isinstance(found, Path) else found) if len(row[2]) > 1]
        results = []
        for row in table:
            results.append(measured(*row, asked.time_limit))
            sys.stderr.write(f"{results[-1][0]}\n")
        proved = [seconds for _, seconds in results if seconds is not None]
        lines += ["", f"## {title}", "", f"{len(proved)} of {len(table)} proved, median {median(proved):.1f} s.", ""]
        lines += [HEAD, "|---" * 9 + "|", *(line for line, _ in results)]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "circuits.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
