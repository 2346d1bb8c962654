"""Do time limits hold? Every construction, in few and in many variables, with limits that are too short for it.

    python benchmarks/limits.py                      # all of it
    python benchmarks/limits.py --only grid circuit  # some constructions, printed and not written
    python benchmarks/limits.py --clock cpu          # limits in seconds of this process, for a machine that is shared

Writes benchmarks/results/limits.md: seconds asked for and taken, and whether that is within a tenth and a second.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import attnfun as af
from attnfun.domains.box import as_box
from attnfun.resources.deadline import Deadline

RESULTS = Path(__file__).parent / "results"
LIMITS = (1.0, 4.0)
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.monotonic, "cpu": time.process_time}


@dataclass(frozen=True)
class Task:
    """A target that takes longer than its limits."""

    construction: str
    name: str
    variables: int
    run: Callable[[Deadline], Any]


def compiled(construction: str, name: str, target: Any, domain: Any, eps: float | None, **keywords: Any) -> Task:
    """Compile it."""
    variables = as_box(target.domain if domain is None else domain).size
    return Task(
        construction,
        name,
        variables,
        lambda deadline: af.compile(
            target, domain, eps, construction=construction, time_limit=deadline, budget=2**18, **keywords
        ),
    )


def opaque(function: Callable[[Any], float]) -> Callable[[Any], Any]:
    """A function of one point at a time, which cannot be traced."""

    def each(points: Any) -> Any:
        return np.array([float(function(row)) for row in np.asarray(points, dtype=float)])

    return each


def cube(size: int) -> dict[str, tuple[float, float]]:
    """Named axes from -1 to 1."""
    return {f"x{k}": (-1.0, 1.0) for k in range(size)}


def data(variables: int, rows: int) -> af.Samples:
    """Noisy rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (rows, variables))
    return af.Samples(X, np.sin(3 * X[:, 0]) + X[:, -1] ** 2 + 0.1 * rng.normal(size=rows))


def clipped(tokens: int) -> af.TruncatedLinear:
    """A truncated linear map of so many tokens of two features."""
    rng = np.random.default_rng(0)
    return af.TruncatedLinear(rng.normal(size=(tokens, 2)), rng.normal(size=tokens), 0.0, 1.0)


def box(tokens: int) -> af.Box:
    """Sequences of two features between -1 and 1."""
    return af.Box(-np.ones((tokens, 2)), np.ones((tokens, 2)))


def tasks() -> Iterator[Task]:
    """30 of them."""
    wave, plane = "cos(3*x + 5*y)", {"x": (-1, 1), "y": (-1, 1)}
    product = "*".join(f"(1 + x/{k + 2})" for k in range(1000))
    sums = "sin(x0*x1) + " + " + ".join(f"exp(x{k}*x{k - 1})" for k in range(1, 6))
    yield compiled("spectral", "sin(60x) exp(x)", "sin(60*x)*exp(x)", (-1, 1), 1e-11)
    yield compiled("spectral", "two variables", "exp(x)*sin(5*x*y)", plane, 1e-8)
    yield compiled("spectral", "three variables", "1/(2 + x0*x1*x2)", cube(3), 1e-7)
    yield compiled("circuit", "product of 1000 factors", product, {"x": (-1, 1)}, 1e-2)
    yield compiled("circuit", "two variables", "exp(x*y)/(2 + sin(9*x))", plane, 1e-9)
    yield compiled("circuit", "six variables", sums, cube(6), 1e-6)
    yield compiled("grid", "one variable", "sin(50*x)", (-1, 1), 1e-3)
    yield compiled("grid", wave, wave, plane, 0.05)
    yield compiled("grid", "three variables", "sin(3*x0)*x1 + x2", cube(3), 0.3)
    yield compiled("grid", "six variables", "x0 + x1*x2 + sin(x3)*x4 + x5", cube(6), 1.0)
    yield compiled("grid", "two variables in L_2", wave, plane, 0.02, norm=2)
    yield compiled("cross", wave, wave, plane, 0.05)
    yield compiled("softmax-readout", "two variables", "sin(3*x)*y", plane, 0.02)
    yield compiled("softmax-readout", "one variable", "sin(50*x)", (-1, 1), 1e-3)
    yield compiled("two-layer", "two variables", "sin(3*x)*y", plane, 0.05)
    yield compiled("max-affine", "erf", "erf(x)", (0.85, 3.03), 1e-5)
    yield compiled("max-affine", "two variables", "sin(3*x)*y", plane, 0.05)
    yield compiled("max-affine", "eight variables", "+".join(f"x{k}**2" for k in range(8)), cube(8), 0.5)
    yield compiled("subspace", "black box of 8", opaque(lambda r: np.tanh(r @ DIRECTION[:8])), [(-1, 1)] * 8, 1e-9)
    yield compiled("subspace", "black box of 40", opaque(lambda r: np.tanh(r @ DIRECTION)), [(-1, 1)] * 40, 1e-9)
    yield compiled("auto", "black box of 2", opaque(lambda r: abs(np.sin(9 * r[0] * r[1]))), [(-1, 1)] * 2, 1e-6)
    yield compiled("auto", "black box of 6", opaque(lambda r: np.exp(-(r @ r))), [(-1, 1)] * 6, 1e-4)
    yield compiled("auto", "black box of 20", opaque(lambda r: np.exp(-(r @ r) / 20)), [(-1, 1)] * 20, 1e-2)
    slope = opaque(lambda r: abs(r[0]) + r[1])
    yield compiled("grid", "declared slope", slope, [(-1, 1)] * 2, 0.02, lipschitz=2.0)
    yield compiled("regression", "2 variables, 3000 rows", data(2, 3000), None, None)
    yield compiled("regression", "20 variables, 20000 rows", data(20, 20000), None, None)
    yield compiled("multihead", "40 tokens", clipped(40), box(40), 1e-4)
    yield compiled("truncated-linear", "10 tokens", clipped(10), box(10), 1e-4)
    certificate = af.compile("sin(3*x)*y", plane, 0.2, construction="grid", time_limit=1000).certificate
    for engine in ("interval", "arb"):
        again = partial(certificate.recheck, engine=engine)
        yield Task("recheck", engine, 2, lambda deadline, again=again: again(time_limit=deadline))


DIRECTION = np.random.default_rng(0).normal(size=40) / 4


@dataclass(frozen=True)
class Row:
    """One run."""

    task: Task
    asked: float
    taken: dict[str, float]
    """By clock."""
    end: str

    def holds(self, clock: str) -> bool:
        """Within a tenth and a second?"""
        return self.taken[clock] <= 1.1 * self.asked + 1.0


def measured(task: Task, limit: float, clock: str) -> Row:
    """Run it under a limit on one clock, and look at both."""
    began = {name: read() for name, read in CLOCKS.items()}
    try:
        end = str(task.run(Deadline.after(limit, CLOCKS[clock])).status.value)
    except AttributeError:
        end = "done"
    except (af.errors.ToleranceNotMet, af.errors.ProofFailed) as miss:
        end = "time limit, with a result" if getattr(miss, "best", None) else "time limit"
        end = end if "The time limit of" in str(miss) else f"missed: {type(miss).__name__}"
    return Row(task, limit, {name: read() - began[name] for name, read in CLOCKS.items()}, end)


def page(rows: list[Row], clock: str) -> str:
    """The results in Markdown."""
    load = " ".join(f"{number:.1f}" for number in os.getloadavg())
    held = sum(row.holds(clock) for row in rows)
    worst = max(rows, key=lambda row: row.taken[clock] - 1.1 * row.asked)
    kind = {"wall": "seconds by the clock on the wall", "cpu": "seconds of computing of the process"}[clock]
    lines = [
        "# Time limits",
        "",
        f"Made by `python benchmarks/limits.py --clock {clock}`: limits are {kind}, kernels compiled before. The "
        f"machine has {os.cpu_count()} cores; load averages at the end were {load}: wall times are those of a machine "
        "shared by as many processes.",
        "",
        f"A limit holds if no more than 1.1 times it and a second is taken: {held} of {len(rows)} do. The latest is "
        f"{worst.task.construction}, {worst.task.name}: {worst.taken[clock]:.1f} s for {worst.asked:g} s.",
        "",
        "| construction | target | variables | asked, s | taken, s | ratio | wall, s | computing, s | end |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        taken = row.taken[clock]
        cells = [row.task.construction, row.task.name, row.task.variables, f"{row.asked:g}", f"{taken:.2f}"]
        cells += [f"{taken / row.asked:.2f}", f"{row.taken['wall']:.1f}", f"{row.taken['cpu']:.2f}", row.end]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def note(line: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(f"{line}\n")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="constructions to measure; nothing is written then")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    asked = parser.parse_args()
    af.compile("sin(x)*y", {"x": (0, 1), "y": (0, 1)}, 0.1, construction="grid")([0.5, 0.5])  # compiles kernels
    rows = []
    for task in tasks():
        if not asked.only or task.construction in asked.only:
            for limit in LIMITS:
                rows.append(measured(task, limit, asked.clock))
                taken = rows[-1].taken[asked.clock]
                note(f"{task.construction}, {task.name}, {limit:g} s: {taken:.2f} s, {rows[-1].end}")
    if not asked.only:
        (RESULTS / "limits.md").write_text(page(rows, asked.clock))


if __name__ == "__main__":
    main()
