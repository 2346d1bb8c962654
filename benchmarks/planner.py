"""What "auto" chooses, beside every construction that serves the same target.

    python benchmarks/planner.py --file functions.csv

Rows: the formulas of each file (name, formula, domain), NumPy functions that are traced, and black boxes. Writes
benchmarks/results/planner.md. Tokens are counted over all heads and layers; a construction that does not get there
within the time limit and the budget has no entry.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import attnfun as af
from attnfun.constructions import REGISTRY
from attnfun.domains.box import as_box
from attnfun.targets import as_target
from functions import rows

RESULTS = Path(__file__).parent / "results"
RELATIVE = 1e-4
RULES = ("spectral", "circuit", "subspace", "grid")
"""Constructions that are compared; `cross`, `two-layer` and `softmax-readout` have no fewer tokens than `grid`."""
BUDGET = 2**14


@dataclass(frozen=True)
class Task:
    """A target with its domain."""

    kind: str
    name: str
    target: Any
    domain: Any
    eps: float = RELATIVE


def opaque(function: Callable[[Any], float]) -> Callable[[Any], Any]:
    """A function of one point at a time, which cannot be traced."""

    def each(points: Any) -> Any:
        flat = np.asarray(points, dtype=float)
        return np.array([function(row) for row in flat.reshape(-1, flat.shape[-1])]).reshape(flat.shape[:-1])

    return each


DIRECTIONS = np.random.default_rng(0).normal(size=(3, 8))

TRACED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "damped wave": (lambda p: np.exp(-p[..., 0]) * np.sin(6 * p[..., 0]), [(0, 3)]),
    "gaussian well": (lambda p: -np.exp(-8 * (p**2).sum(axis=-1)), [(-1, 1)] * 2),
    "rosenbrock": (lambda p: 100 * (p[..., 1] - p[..., 0] ** 2) ** 2 + (1 - p[..., 0]) ** 2, [(-2, 2)] * 2),
    "hinge": (lambda p: np.abs(p[..., 0] - p[..., 1]) + 0.5 * p[..., 1], [(-1, 1)] * 2),
    "distance": (lambda p: np.sqrt(1 + ((p - 0.5) ** 2).sum(axis=-1)), [(0, 1)] * 4),
    "soft maximum": (lambda p: np.log(np.exp(3 * p).sum(axis=-1)) / 3, [(-1, 1)] * 6),
}
BLACK: dict[str, tuple[Callable[[Any], float], int]] = {
    "bump": (lambda r: float(1 / (1 + 25 * r[0] ** 2)), 1),
    "waves": (lambda r: float(np.sin(3 * r[0]) * np.cos(2 * r[1])), 2),
    "ridge in 8": (lambda r: float(np.tanh(DIRECTIONS[0] @ r) + r.sum()), 8),
    "two directions of 8": (
        lambda r: float(np.sin(DIRECTIONS[1] @ r / 4) * np.cos(DIRECTIONS[2] @ r / 4) + 3 * r[0]),
        8,
    ),
    "sum in 6": (lambda r: float(np.sin(3 * r[0]) + r[1] ** 2 * r[2] + np.exp(r[3]) + r[4] - 2 * r[5]), 6),
    "kink and sum": (lambda r: float(abs(r[0] - 0.2) + np.exp(r[1] + r[2])), 3),
    "no structure in 5": (lambda r: float(np.exp(-(r @ r))), 5),
}


def tasks(files: list[Path]) -> list[Task]:
    """All rows of the table."""
    found = []
    for path in files:
        if path.exists():
            found += [Task("formula", *row) for row in rows(path)]
        else:
            sys.stderr.write(f"skipped: there is no {path}\n")
    found += [Task("traced", name, *pair) for name, pair in TRACED.items()]
    return found + [Task("black box", name, opaque(f), [(-1, 1)] * size, 1e-3) for name, (f, size) in BLACK.items()]


def attempt(task: Task, rule: str, time_limit: float) -> tuple[af.types.Compiled | None, float]:
    """The network if there is one, and the seconds it took."""
    began = time.monotonic()
    try:
        net = af.compile(
            task.target,
            task.domain,
            task.eps,
            relative=True,
            construction=rule,
            time_limit=time_limit,
            budget=BUDGET,
        )
    except af.errors.AttnfunError:
        net = None
    return net, time.monotonic() - began


def serving(task: Task) -> list[str]:
    """Constructions that the target can be given to."""
    target = as_target(task.target, as_box(task.domain))
    return [name for name in RULES if REGISTRY[name].fits(target)]


def row(task: Task, time_limit: float) -> tuple[str, float | None]:
    """A line of the table, and the choice's tokens beside the fewest."""
    net, seconds = attempt(task, "auto", time_limit)
    others = {name: attempt(task, name, time_limit)[0] for name in serving(task)}
    sizes = {name: other.network.tokens for name, other in others.items() if other is not None}
    least = min(sizes.values(), default=None)
    cells = " | ".join(str(sizes.get(name, "-" if name in others else "")) for name in RULES)
    if net is None:
        return f"| {task.name} | {task.kind} | none | | | {seconds:.1f} | {cells} |", None if least is None else np.inf
    chosen = f"{net.construction} | {net.network.tokens} | {net.certificate.bound:.1e} {net.certificate.status.value}"
    ratio = 1.0 if least is None else net.network.tokens / least
    return f"| {task.name} | {task.kind} | {chosen} | {seconds:.1f} | {cells} |", ratio


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, action="append", default=[])
    parser.add_argument("--time-limit", type=float, default=20.0)
    asked = parser.parse_args()
    lines, ratios = [], []
    for task in tasks(asked.file):
        line, ratio = row(task, asked.time_limit)
        sys.stderr.write(line + "\n")
        lines.append(line)
        ratios += [] if ratio is None else [ratio]
    close = sum(ratio <= 2 for ratio in ratios)
    text = [
        "# What the planner chooses",
        "",
        f"Tolerance: {RELATIVE:g} of the largest value found for formulas and traced functions, 1e-3 for black boxes; "
        f"{asked.time_limit:g} s and {BUDGET} tokens for every attempt. `-`: serves the target, but did not get there. "
        "Bounds of black boxes are estimates.",
        "",
        f"The choice has at most twice the tokens of the best fixed construction on {close} of {len(ratios)} rows "
        "for which there is one.",
        "",
        "| target | kind | chosen | tokens | bound | seconds | " + " | ".join(RULES) + " |",
        "|---" * (6 + len(RULES)) + "|",
        *lines,
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "planner.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
