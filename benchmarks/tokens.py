"""How many tokens a proof takes: every function of up to three variables, beside what others need.

    python benchmarks/tokens.py --file functions.csv

Writes tokens.md, smallest.md with tokens.png, and precision.md into benchmarks/results. Tokens are counted over all
heads and layers. "grid" is the size that the bound of arXiv 2504.19901 asks for. The peers
(`contests.peers`) are sampled, in one variable: coefficients of a Chebyshev interpolant, knots of a cubic
spline, support points of an AAA rational, and the error of a head with as many tokens as ours, trained by Adam and
L-BFGS.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import attnfun as af
from attnfun.domains.box import as_box
from attnfun.experiments import drawing
from attnfun.experiments.base import Picture
from attnfun.experiments.spectral import TOLERANCES
from attnfun.resources.deadline import Deadline
from attnfun.targets import as_target
from contests import peers, sizes
from contests.training import ADAM, LBFGS, trained_head
from functions import rows

RESULTS = Path(__file__).parent / "results"
SHOWN = (1e-4, 1e-8)
"""In the table."""
LOW_PRECISION = {
    "float32": (1e-4, 1e-5, 5e-6, 4e-6, 3e-6, 2.5e-6, 2e-6),
    "float16": (0.1, 0.05, 0.02, 0.01, 5e-3, 3e-3, 2e-3),
    "bfloat16": (0.5, 0.2, 0.1, 0.05, 0.03, 0.02),
}
"""Relative tolerances, until one is not reached; the smallest bound proved on the way counts."""
MOST_VARIABLES = 3


class Row:
    """One function at one tolerance."""

    def __init__(self, name: str, formula: str, domain: dict, eps: float, limit: float, **keywords: object) -> None:
        self.name, self.formula, self.domain, self.eps = name, formula, domain, eps
        began = time.monotonic()
        try:
            deadline = Deadline.after(limit, time.process_time)  # the same on a busy machine
            self.net = af.compile(formula, domain, eps, construction="spectral", time_limit=deadline, **keywords)
            self.reached = True
        except af.errors.ToleranceNotMet as miss:
            self.net, self.reached = miss.best, False
        self.seconds = time.monotonic() - began
        sys.stderr.write(f"{name} {eps:g} {self.net!r} {self.seconds:.1f} s\n")

    def line(self) -> str:
        """The row of the table; the peers are run here."""
        net, said = self.net, self.net.certificate.headline
        began = time.monotonic()
        if self.reached:
            net.certificate.recheck()
        proof = min(time.monotonic() - began, self.seconds)
        others: list[object] = [""] * 4
        if len(self.domain) == 1:
            function = sizes.on_unit(self.formula, self.domain)
            others = [
                peers.chebyshev(function, self.eps) or f"> {peers.MOST_COEFFICIENTS}",
                peers.spline(function, self.eps) or f"> {peers.MOST_KNOTS}",
                peers.rational(function, self.eps),
                f"{trained_head(function, net.network.tokens, peers.CHECKS):.1e}",
            ]
        cells = [
            self.name,
            f"{self.eps:g}",
            net.network.tokens,
            net.network.heads,
            net.network.parameters,
            said if self.reached else f"not reached: {said}",
            net.certificate.effort["boxes"],
            f"{self.seconds - proof:.1f}",
            f"{proof:.1f}",
            f"{net.paper_tokens or 0:.3g}",
            *others,
        ]
        return "| " + " | ".join(map(str, cells)) + " |"


def low_precision(name: str, formula: str, domain: dict, limit: float) -> list[str]:
    """The smallest bound proved in each coarse arithmetic, beside the largest value of the function."""
    size, lines = as_target(formula, as_box(domain)).largest_value(0), []
    for dtype, tolerances in LOW_PRECISION.items():
        tried = list[Row]()
        for eps in tolerances:
            tried.append(Row(name, formula, domain, eps, limit, dtype=dtype, relative=True))
            if not tried[-1].reached:
                break
        nets = [row.net for row in tried if row.net.certificate.proved]
        if not nets:
            lines.append(f"| {name} | {dtype} | nothing proved |" + " |" * 5)
            continue
        best = min(nets, key=lambda net: net.certificate.bound)
        proof = best.certificate
        errors = (proof.bound, proof.found, proof.parts["input"], proof.parts["rounding"])
        cells = (*(f"{error / size:.2e}" for error in errors), best.network.tokens, best.network.heads)
        lines.append("| " + " | ".join([name, dtype, *map(str, cells)]) + " |")
    return lines


def smallest(listed: list, limit: float) -> None:
    """Tokens against eps in one variable, as a picture; lines for the last tolerance that was proved."""
    lines = [
        "# The smallest tolerance proved in float64",
        "",
        "One variable. Curves end at the last tolerance proved.",
        "",
    ]
    lines += ["![Tokens against eps](tokens.png)", "", "| function | eps | tokens | bound |", "|---" * 4 + "|"]
    panels = []
    for name, formula, domain in listed:
        if len(domain) > 1:
            continue
        found = sizes.reached(formula, domain, TOLERANCES, limit)
        panels.append(sizes.panel(name, found))
        net = found[-1].net
        lines.append(f"| {name} | {found[-1].eps:g} | {net.network.tokens} | {net.certificate.bound:.2e} |")
    drawing.draw(Picture("tokens", "Tokens against eps", tuple(panels), 4)).savefig(RESULTS / "tokens.png", dpi=110)
    tried = ", ".join(f"{eps:g}" for eps in TOLERANCES)
    (RESULTS / "smallest.md").write_text("\n".join([*lines, "", f"Tried: {tried}; at most {limit:g} s each.", ""]))


def table(listed: list, limit: float) -> None:
    """Every function at the tolerances shown, beside the peers."""
    heads = ("function", "eps", "tokens", "heads", "parameters", "certificate", "boxes", "s", "proof s", "grid")
    heads += ("Chebyshev", "spline", "AAA", "trained head")
    lines = ["# Tokens of spectral attention", "", "![Tokens against eps](tokens.png)", ""]
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += [Row(*row, eps, limit).line() for row in listed for eps in SHOWN]
    notes = (
        f"Seconds by the clock: planning and building, then the proof (done once more by itself); at most {limit:g} s "
        f"of processor time a row. The trained head has as many tokens as ours: largest error after "
        f"{ADAM} steps of Adam and {LBFGS} of L-BFGS on {len(peers.CHECKS)} points, in float64. Peers are "
        "sampled, not proved. [The smallest tolerances](smallest.md) in one variable; "
        "[coarse arithmetic](precision.md)."
    )
    (RESULTS / "tokens.md").write_text("\n".join([*lines, "", notes, ""]))


def precision(listed: list, limit: float) -> None:
    """The smallest bounds in coarse arithmetic, in one variable."""
    heads = ("function", "dtype", "bound", "largest error found", "input", "rounding", "tokens", "heads")
    lines = ["# The smallest bound proved in coarse arithmetic", "", "Everything relative to the largest value.", ""]
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in listed:
        if len(row[2]) == 1:
            lines += low_precision(*row, limit)
    (RESULTS / "precision.md").write_text("\n".join([*lines, "", f"At most {limit:g} s of processor time each.", ""]))


PARTS = {"table": table, "smallest": smallest, "precision": precision}


def main() -> None:
    """The parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, required=True, help="a CSV of name, formula, domain")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each row")
    parser.add_argument("--part", action="append", choices=PARTS, help="all if none is named")
    asked = parser.parse_args()
    listed = [row for row in rows(asked.file) if len(row[2]) <= MOST_VARIABLES]
    for part in asked.part or PARTS:
        PARTS[part](listed, asked.time_limit)


if __name__ == "__main__":
    main()
