"""How many tokens a proof takes: every function of up to three variables at two tolerances, beside what others need.

    python benchmarks/tokens.py --file functions.csv

Writes benchmarks/results/tokens.md. Tokens are counted over all heads and layers. "grid" is the size that the bound of
arXiv 2504.19901 asks for; "Chebyshev" the coefficients of an interpolant, "AAA" the support points of a rational
function, both measured by sampling in one variable.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from functions import rows
from scipy.interpolate import AAA

import attnfun as af
from attnfun.domain import as_box
from attnfun.targets import as_target

RESULTS = Path(__file__).parent / "results"
TOLERANCES = (1e-4, 1e-8)
MOST_VARIABLES = 3
CHECKS = 20_001
LARGEST_DEGREE = 2**14


def chebyshev(formula: str, domain: dict, eps: float) -> str:
    """Coefficients of the shortest Chebyshev interpolant found, degrees growing by a tenth."""
    target = as_target(formula, as_box(domain))
    low, high = next(iter(domain.values()))

    def function(t: np.ndarray) -> np.ndarray:
        return target.values(np.clip(low + (high - low) * (t + 1) / 2, low, high)[:, None])[:, 0]

    checks = np.cos(np.linspace(0, np.pi, CHECKS))
    truth, degree = function(checks), 1
    while degree <= LARGEST_DEGREE:
        series = np.polynomial.chebyshev.chebinterpolate(function, degree)
        if np.abs(np.polynomial.chebyshev.chebval(checks, series) - truth).max() <= eps:
            return str(degree + 1)
        degree = degree + max(1, degree // 10)
    return f"> {LARGEST_DEGREE}"


def rational(formula: str, domain: dict, eps: float) -> str:
    """Support points of a rational interpolant."""
    target = as_target(formula, as_box(domain))
    low, high = next(iter(domain.values()))
    points = low + (high - low) * (1 - np.cos(np.linspace(0, np.pi, 4001))) / 2
    values = target.values(np.clip(points, low, high)[:, None])[:, 0]
    return str(len(AAA(points, values, rtol=eps / np.abs(values).max(), max_terms=150).support_points))


def measured(name: str, formula: str, domain: dict, eps: float, time_limit: float) -> str:
    """One row of the table."""
    line = len(domain) == 1
    peers = f"{chebyshev(formula, domain, eps)} | {rational(formula, domain, eps)}" if line else " | "
    began = time.monotonic()
    try:
        net = af.compile(formula, domain, eps, construction="spectral", time_limit=time_limit)
        said = net.certificate.headline
    except af.ToleranceNotMet as miss:
        net, said = miss.best, f"not reached: {miss.best.certificate.headline}"
    seconds = time.monotonic() - began
    return (
        f"| {name} | {eps:g} | {net.network.tokens} | {net.network.heads} | {net.network.parameters} | {said} "
        f"| {net.certificate.effort['boxes']} | {seconds:.1f} | {net.paper_tokens or 0:.3g} | {peers} |"
    )


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, required=True, help="a CSV of name, formula, domain")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each row")
    asked = parser.parse_args()
    head = "| function | eps | tokens | heads | parameters | certificate | boxes | seconds | grid | Chebyshev | AAA |"
    lines = ["# Tokens of spectral attention", "", head, "|---" * 11 + "|"]
    for row in (row for row in rows(asked.file) if len(row[2]) <= MOST_VARIABLES):
        for eps in TOLERANCES:
            lines.append(measured(*row, eps, asked.time_limit))
    notes = f"Seconds by the clock for planning, building and proof; at most {asked.time_limit:g} s a row."
    (RESULTS / "tokens.md").write_text("\n".join([*lines, "", notes, ""]))


if __name__ == "__main__":
    main()
