"""How tight and how quick proofs are: bound over largest error found, at convergence, and smooth rows in two variables.

    python benchmarks/tightness.py --file functions.csv

Writes benchmarks/results/tightness.md.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import attnfun as af
from functions import rows

RESULTS = Path(__file__).parent / "results"
TOKENS = 64


def converged(name: str, formula: str, domain: dict, construction: str) -> str:
    """One row of the first table: no tolerance, as tight as the proof gets."""
    began = time.monotonic()
    net = af.compile(formula, domain, options={"tokens": TOKENS}, construction=construction)
    certificate, seconds = net.certificate, time.monotonic() - began
    ratio = certificate.bound / certificate.found
    boxes = certificate.effort["boxes"]
    return (
        f"| {name} | {construction} | {net.network.tokens} | {certificate.bound:.3g} | {certificate.found:.3g} "
        f"| {ratio:.3f} | {boxes} | {seconds:.1f} |"
    )


def proved(name: str, formula: str, domain: dict, eps: float) -> str:
    """One row of the second table: a tolerance in two variables."""
    began = time.monotonic()
    try:
        net = af.compile(formula, domain, eps)
    except af.errors.AttnfunError as reason:
        return f"| {name} | | | not proved: {str(reason)[:120]} | | {time.monotonic() - began:.1f} |"
    certificate, seconds = net.certificate, time.monotonic() - began
    return (
        f"| {name} | {net.construction} | {net.network.tokens} | {certificate.headline} "
        f"| {certificate.effort['boxes']} | {seconds:.1f} |"
    )


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, required=True, help="a CSV of name, formula, domain")
    path = parser.parse_args().file
    load = f"Seconds are by the clock, with a load of {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start."
    lines = [
        "# Tightness of proofs",
        "",
        load,
        "",
        f"One variable, at most {TOKENS} tokens, no tolerance: at convergence.",
        "",
    ]
    lines += ["| function | construction | tokens | bound | largest error found | ratio | boxes | seconds |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for row in (row for row in rows(path) if len(row[2]) == 1):
        lines += [converged(*row, construction) for construction in ("grid", "spectral")]
    lines += [
        "",
        "Two variables, eps = 1e-4, the default limit of 60 s; rows with a kink or a steep ridge too.",
        "",
    ]
    lines += ["| function | construction | tokens | result | boxes | seconds |", "|---|---|---|---|---|---|"]
    lines += [proved(*row, 1e-4) for row in (row for row in rows(path) if len(row[2]) == 2)]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tightness.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
