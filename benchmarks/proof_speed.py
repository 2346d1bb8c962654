"""Processor seconds of proofs in this tree and in another one, such as a checkout of an earlier commit.

    git worktree add ../before COMMIT
    python benchmarks/proof_speed.py ../before/src

Writes benchmarks/results/proof-speed.md. Networks are compiled here once and saved; each tree proves the same files, in
a process of its own, and the least of a few runs counts. Compiling is measured in each tree with its own networks.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import attnfun as af
from attnfun.errors import AttnfunError
from attnfun.proofs import certify
from functions import rows

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "proof-speed.md"
SOURCE = Path(af.__file__).parent.parent
RUNS, ENOUGH = 3, 4.0
"""Runs of one measurement, and the seconds after which there are no more."""
LIMIT = 600.0
"""Seconds of the clock that compiling one network may take."""
CUBE = dict.fromkeys("xyz", (-1.0, 1.0))
PROVED = {
    **{
        name: (formula, domain, 1e-8) for name, formula, domain in rows(HERE / "functions.csv") if len(domain) in (2, 3)
    },
    "gauss in 3 variables": ("exp(-(x**2 + y**2 + z**2))", CUBE, 1e-6),
    "Runge in 3 variables": ("1/(1 + x**2 + y**2 + z**2)", CUBE, 1e-6),
    "waves in 3 variables": ("sin(x*y*z) + cos(x + y)", CUBE, 1e-6),
}
HEADS = {
    "franke as one head": (*PROVED["franke"][:2], 1e-8),
    "gauss in 3 variables as one head": (*PROVED["gauss in 3 variables"][:2], 1e-6),
    "a product in 3 variables as one head": ("sin(x*y*z)", CUBE, 1e-6),
    "Runge in 3 variables as one head": (*PROVED["Runge in 3 variables"][:2], 1e-4),
}
"""Compiled with `construction="spectral"`, whose proofs are by boxes."""
NAMES = ("franke", "peaks", "ishigami", *(name for name in PROVED if "3 variables" in name), *HEADS)
LINES = [(name, formula, domain) for name, formula, domain in rows(HERE / "functions.csv") if len(domain) == 1]
SQUARES = (25, 50, 100)


def seconds(work: Callable[[], object]) -> float:
    """The least processor time of a few runs."""
    found = list[float]()
    while len(found) < RUNS and sum(found) < ENOUGH:
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def measure(folder: Path) -> dict[str, float]:
    """All measurements in the tree that this process imports."""
    found = dict[str, float]()
    af.compile("sin(x)", (0, 1), 0.1)  # what is imported late is imported now
    for name in NAMES:
        certificate = af.load(folder / f"{NAMES.index(name)}.attnfun").certificate
        goal = {**PROVED, **HEADS}[name][2] - certificate.allowance
        found[f"proof of {name}"] = seconds(lambda one=certificate, goal=goal: certify(one.claim, goal, norm=one.norm))
    for name, formula, domain in LINES:
        found[f"line {name}"] = seconds(lambda f=formula, d=domain: af.compile(f, d, 1e-6, time_limit=LIMIT))
    for count in SQUARES:
        formula = " + ".join(f"x{k}**2" for k in range(count))
        domain = {f"x{k}": (-1.0, 1.0) for k in range(count)}
        found[f"squares {count}"] = seconds(lambda f=formula, d=domain: af.compile(f, d, 1e-3, time_limit=LIMIT))
    return found


def measured(source: Path, folder: Path) -> dict[str, float]:
    """The same in a process that imports another tree."""
    settings = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--measure", str(folder)]
    done = subprocess.run(command, env=settings, check=True, capture_output=True, text=True)  # noqa: S603
    return json.loads(done.stdout)


def table(before: dict[str, float], after: dict[str, float]) -> list[str]:
    """A line for each measurement, and the 1-D functions together."""
    lines = ["| processor seconds | before | after | ratio |", "|---|---|---|---|"]
    pairs = {name: (before[name], after[name]) for name in after if not name.startswith("line ")}
    each = [(before[name], after[name]) for name in after if name.startswith("line ")]
    middle = tuple(statistics.median(column) for column in zip(*each, strict=True))
    pairs[f"compile with proof at 1e-6, median of {len(each)} functions of one variable"] = (middle[0], middle[1])
    for name, (old, new) in pairs.items():
        words = name.replace("squares", "compile with proof, squares summed:")
        lines.append(f"| {words} | {old:.2f} | {new:.2f} | {old / new:.1f} |")
    return lines


def main() -> None:
    """Measure both trees and write the table."""
    if sys.argv[1:2] == ["--measure"]:
        sys.stdout.write(json.dumps(measure(Path(sys.argv[2]))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, case in enumerate(NAMES):
            formula, domain, eps = {**PROVED, **HEADS}[case]
            try:
                construction = "spectral" if case in HEADS else "auto"
                net = af.compile(formula, domain, eps, construction=construction, time_limit=LIMIT)
            except AttnfunError as error:
                raise SystemExit(f"{case}: {error}") from error
            net.save(folder / f"{number}.attnfun")
            sys.stderr.write(f"{case}: {net.construction}\n")
        before, after = measured(Path(sys.argv[1]).resolve(), folder), measured(SOURCE, folder)
    text = [
        "# Proofs: processor seconds before and after",
        "",
        "`python benchmarks/proof_speed.py OTHER/src`, OTHER a checkout of the earlier commit. Both trees prove the "
        "same networks, those that `compile` chooses at 1e-8 for the first three and at 1e-6 for those in three "
        "variables, and heads by `spectral`, whose proofs are by boxes. One process a tree, the least of up to three "
        "runs; the machine was shared, "
        "so ratios say more than seconds.",
        "",
        *table(before, after),
        "",
    ]
    RESULTS.write_text("\n".join(text))


if __name__ == "__main__":
    main()
