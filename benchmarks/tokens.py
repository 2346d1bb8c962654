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
import csv
import sys
import time
from pathlib import Path
from typing import NamedTuple

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


class Coarse(NamedTuple):
    """The smallest bound proved for a function in a coarse arithmetic; numbers are relative to its largest value."""

    function: str
    dtype: str
    bound: float
    found: float
    input: float
    rounding: float
    tokens: int
    heads: int


NOTHING = (float("inf"), 0.0, 0.0, 0.0, 0, 0)
"""In the place of the numbers where nothing was proved."""


def low_precision(name: str, formula: str, domain: dict, limit: float) -> list[Coarse]:
    """The smallest bound proved in each coarse arithmetic."""
    size, found = as_target(formula, as_box(domain)).largest_value(0), []
    for dtype, tolerances in LOW_PRECISION.items():
        tried = list[Row]()
        for eps in tolerances:
            try:
                tried.append(Row(name, formula, domain, eps, limit, dtype=dtype, relative=True))
            except af.errors.ProofFailed as reason:
                sys.stderr.write(f"{name} {dtype} {eps:g} {reason}\n")
                break
            if not tried[-1].reached:
                break
        nets = [row.net for row in tried if row.net.certificate.proved]
        if not nets:
            found.append(Coarse(name, dtype, *NOTHING))
            continue
        best = min(nets, key=lambda net: net.certificate.bound)
        proof = best.certificate
        errors = (proof.bound, proof.found, proof.parts["input"], proof.parts["rounding"])
        found.append(Coarse(name, dtype, *(error / size for error in errors), best.network.tokens, best.network.heads))
    return found


def precision_page(found: list[Coarse], limit: float) -> str:
    """The table, beside the bounds of precision-before.csv: those of the first page of this kind."""
    with (RESULTS / "precision-before.csv").open() as file:
        before = {(row["function"], row["dtype"]): row["bound"] for row in csv.DictReader(file)}
    heads = (
        "function",
        "dtype",
        "bound before",
        "bound",
        "largest error found",
        "input",
        "rounding",
        "tokens",
        "heads",
    )
    lines, looser, smaller = list[str](), list[str](), 0
    for row in found:
        then = before.get((row.function, row.dtype))
        old = float(then or "inf")
        known = "not measured" if then is None else then or "nothing proved"
        errors = [f"{error:.2e}" for error in row[2:6]] if row.tokens else ["nothing proved", "", "", ""]
        lines.append("| " + " | ".join([row.function, row.dtype, known, *errors, *map(str, row[6:])]) + " |")
        if then is not None and float(f"{row.bound:.2e}") > old:
            looser.append(f"{row.function} in {row.dtype}")
        smaller += then is not None and float(f"{row.bound:.2e}") < old
    measured = sum((row.function, row.dtype) in before for row in found)
    says = (
        f"Of {measured} rows that were measured before, {smaller} have a smaller bound now and {len(looser)} a larger "
        f"one{': ' + ', '.join(looser) if looser else ''}. Every bound is the smallest one proved at any of these "
        "relative tolerances, tried until one is not reached: "
        + "; ".join(f"{dtype} {', '.join(f'{eps:g}' for eps in tried)}" for dtype, tried in LOW_PRECISION.items())
        + f". At most {limit:g} s of processor time each."
    )
    title = ["# The smallest bound proved in coarse arithmetic", "", "Everything relative to the largest value.", ""]
    table = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *lines]
    return "\n".join([*title, *table, "", says, ""])


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
    found = [coarse for row in listed if len(row[2]) == 1 for coarse in low_precision(*row, limit)]
    (RESULTS / "precision.md").write_text(precision_page(found, limit))


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
