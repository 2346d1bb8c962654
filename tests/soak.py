"""A long attack on certificates: random targets, constructions and dtypes, hostile points, real back ends.

    python tests/soak.py --minutes 30 --seed 0 --file functions.csv

Writes benchmarks/results/soak.md and soak.csv, and exits with 1 if any point beats a bound.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.progress import Progress

import attnfun as af
from attack import climb, hostile_points

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
LEAVES = ["x", "y", "z"]
UNARY = ["sin({})", "cos({})", "tanh({})", "exp(-abs({}))", "abs({})", "sqrt(1 + ({})**2)", "atan({})", "erf({})"]
BINARY = ["({} + {})", "({} - {})", "({} * {})", "({} / (2 + ({})**2))", "min({}, {})", "max({}, {})"]
TENTS = "{} + {:.3g}*max({:.3g} - abs(x - {:.3g}), 0)"


@dataclass
class Row:
    """What one family of targets has been through."""

    targets: int = 0
    certificates: int = 0
    points: int = 0
    worst: float = 0.0
    violations: int = 0


def random_formula(rng: np.random.Generator, names: list[str], depth: int) -> str:
    """A formula in the given variables; numbers of many sizes."""
    if depth == 0 or rng.random() < 0.2:
        scale = 10.0 ** rng.integers(-1, 2)
        return rng.choice(names) if rng.random() < 0.8 else f"{rng.normal() * scale:.3g}".replace("-", "0-")
    if rng.random() < 0.5:
        return rng.choice(UNARY).format(random_formula(rng, names, depth - 1))
    parts = [random_formula(rng, names, depth - 1) for _ in range(2)]
    return rng.choice(BINARY).format(*parts)


def random_target(rng: np.random.Generator) -> tuple[str, str, dict[str, tuple[float, float]]]:
    """(family, formula, domain)."""
    size = int(rng.choice([1, 1, 1, 2, 2, 3]))
    names = LEAVES[:size]
    offset, width = rng.choice([0.0, 0.0, 3.0, 100.0]), 10.0 ** rng.uniform(-1, 1)
    domain = {name: (offset - width * rng.random(), offset + width) for name in names}
    formula = random_formula(rng, names, 3)
    if size == 1 and rng.random() < 0.3:
        low, high = domain["x"]
        spot, narrow = rng.uniform(low, high), (high - low) * 10.0 ** rng.uniform(-6, -1)
        return "narrow tents", TENTS.format(formula, rng.uniform(0.1, 2) / narrow, narrow, spot), domain
    return f"{size} variable{'s' * (size > 1)}", formula, domain


def from_file(path: Path) -> list[tuple[str, str, dict[str, tuple[float, float]]]]:
    """Rows name, formula, domain with at most two variables."""
    rows = []
    with path.open() as file:
        for row in csv.DictReader(file):
            pairs = (part.split("=") for part in row["domain"].split())
            domain = {name: tuple(float(end) for end in ends.split(":")) for name, ends in pairs}
            if len(domain) <= 2:
                rows.append(("named functions", row["formula"], domain))
    return rows


def attempt(formula: str, domain: dict, eps: float, dtype: str, construction: str) -> af.Compiled | None:
    """A certified network, or None."""
    try:
        net = af.compile(
            formula, domain, eps, relative=True, dtype=dtype, construction=construction, time_limit=2, budget=5000
        )
    except af.ToleranceNotMet as missed:
        net = missed.best
    except af.InputError:
        return None
    return net if net is not None and net.certificate.proved else None


def by_torch(net: af.Compiled, rows: np.ndarray) -> np.ndarray:
    """Outputs of the real module, in parts."""
    module, dtype = net.to_torch(), getattr(torch, net.network.dtype)
    part = max(1, 4_000_000 // max(net.network.tokens, 1))
    with torch.no_grad():
        parts = [module(torch.tensor(rows[k : k + part], dtype=dtype)).numpy() for k in range(0, len(rows), part)]
    return np.concatenate(parts)


def attack(net: af.Compiled, count: int, seed: int) -> tuple[float, int]:
    """(largest error / bound, points)."""
    target = net.certificate.claim.target
    low, high = net.domain.lo.ravel(), net.domain.hi.ravel()

    def error(rows: np.ndarray, run=net) -> np.ndarray:
        return np.abs(np.asarray(run(rows), dtype=np.float64).reshape(len(rows), -1) - target.values(rows)).max(axis=1)

    rows = hostile_points(net, count, seed)
    rows = np.vstack([rows, climb(error, rows, low, high, seed)])
    worst = max(error(rows).max(), error(rows[:2000], lambda part: by_torch(net, part)).max())
    return float(worst / net.certificate.bound), 2 * len(rows)


def report(rows: dict[str, Row], minutes: float, seed: int) -> None:
    """The tables."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    head = ["family", "targets", "certificates", "points", "worst error / bound", "violations"]
    body = [
        [name, r.targets, r.certificates, r.points, f"{r.worst:.4f}", r.violations] for name, r in sorted(rows.items())
    ]
    with (RESULTS / "soak.csv").open("w", newline="") as file:
        csv.writer(file).writerows([head, *body])
    lines = ["# Soak", "", f"{minutes:.0f} minutes, seed {seed}. No error may exceed its bound.", ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in body]
    (RESULTS / "soak.md").write_text("\n".join(lines) + "\n")


def main() -> int:
    """Run until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", type=Path, help="a CSV of name, formula, domain to attack as well")
    parser.add_argument("--points", type=int, default=2500, help="hostile points of each kind a certificate")
    choice = parser.parse_args()
    rng, began = np.random.default_rng(choice.seed), time.monotonic()
    queue = from_file(choice.file) if choice.file else []
    rows: dict[str, Row] = defaultdict(Row)
    with Progress() as bar:
        task = bar.add_task("attacking", total=choice.minutes * 60)
        while (spent := time.monotonic() - began) < choice.minutes * 60:
            bar.update(task, completed=spent)
            family, formula, domain = queue.pop() if queue else random_target(rng)
            row = rows[family]
            row.targets += 1
            eps = 10.0 ** rng.uniform(-5, -0.7)
            dtype, construction = rng.choice(["float64", "float32"]), rng.choice(["grid", "spectral"])
            net = attempt(formula, domain, eps, dtype, construction)
            if net is None:
                continue
            ratio, points = attack(net, choice.points, row.targets)
            row.certificates, row.points = row.certificates + 1, row.points + points
            row.worst = max(row.worst, ratio)
            if ratio > 1:
                row.violations += 1
                sys.stderr.write(f"beaten by {ratio}: {formula!r} {domain} {eps} {dtype} {construction}\n")
    report(rows, choice.minutes, choice.seed)
    return int(any(row.violations for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
