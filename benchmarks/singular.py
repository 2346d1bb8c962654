"""How the L_p error of one head falls with its tokens for targets that are not bounded, beside the predicted exponents.

    python benchmarks/singular.py

On N equal cells a pole `|x|^{-a}` in one variable costs `N^{a - 1/p}`, as the cell around it does, and a logarithm
`N^{-1/p}` up to logarithms. On graded cells both cost 1/N. Writes benchmarks/results/singular.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import attnfun as af

RESULTS = Path(__file__).parent / "results"
TOKENS = (10, 20, 40, 80, 160)
TARGETS = (
    ("1/sqrt(x)", 1.0, {"equal": -1 / 2, "graded": -1.0}),
    ("1/sqrt(x)", 1.5, {"equal": -1 / 6, "graded": -1.0}),
    ("x**(-1/3)", 2.0, {"equal": -1 / 6, "graded": -1.0}),
    ("log(x)", 2.0, {"equal": -1 / 2, "graded": -1.0}),
)


def table(formula: str, p: float, predicted: dict[str, float]) -> list[str]:
    """Bounds for growing networks of both kinds, and the exponents of the lines through their logarithms."""
    lines = ["", f"## `{formula}` in L_{p:g}", "", "| cells | tokens | proved | boxes |", "|---|---|---|---|"]
    exponents = []
    for cells, exponent in predicted.items():
        sizes, bounds = [], []
        for tokens in TOKENS:
            options = {"tokens": tokens, "cells": cells}
            net = af.compile(formula, {"x": (0, 1)}, norm=p, construction="grid", options=options)
            sizes.append(net.network.tokens)
            bounds.append(net.certificate.bound)
            lines.append(f"| {cells} | {sizes[-1]} | {bounds[-1]:.4g} | {net.certificate.effort['boxes']} |")
        slope = np.polyfit(np.log(sizes), np.log(bounds), 1)[0]
        exponents.append(f"{cells} cells: predicted {exponent:.3g}, of the bounds {slope:.3g}")
    return [*lines, "", f"Exponents of tokens, {'; '.join(exponents)}."]


def main() -> None:
    """All tables."""
    lines = [
        "# One head, L_p, targets that are not bounded",
        "",
        "Proved L_p errors on [0, 1] of the construction `grid`, values by integrals over cells, without tolerance: as",
        "tight as the proof gets. Made by `python benchmarks/singular.py`.",
    ]
    for target in TARGETS:
        lines += table(*target)
    (RESULTS / "singular.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
