"""Processor seconds of proofs in this tree and in another one, such as a checkout of an earlier commit.

    git worktree add ../before COMMIT
    python benchmarks/proof_speed.py ../before/src

Writes benchmarks/results/proof-speed.md. Each tree compiles the formulas by itself, in a process of its own, with the
network that it chooses; processor time is taken inside `certify`, which searches for the proof and checks it, and
around the whole of `compile`. The least of a few runs counts.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Function = tuple[str, dict[str, tuple[float, float]]]
"""A formula and the ranges of its variables."""
HERE = Path(__file__).parent
RESULTS = HERE / "results" / "proof-speed.md"
SOURCE = HERE.parent / "src"
STAGES = ("attnfun.compiler", "attnfun.pipeline")
"""Modules that call `certify`; one of them exists in a tree."""
RUNS, ENOUGH = 3, 4.0
"""Runs of one measurement, and the seconds after which there are no more."""
LIMIT = 120.0
"""Seconds of computing that compiling one formula may take."""
FINE, COARSE = 1e-8, 1e-6
IN_PLANE, IN_SPACE = ("franke", "peaks", "ishigami"), ("genz1", "genz2", "runge3")


def functions(path: Path) -> dict[str, Function]:
    """The functions of a file, in a way that does not ask for anything of either tree."""
    found = dict[str, Function]()
    with path.open() as file:
        for row in csv.DictReader(file):
            ranges = (part.split("=") for part in row["domain"].split())
            ends = {axis: text.split(":") for axis, text in ranges}
            found[row["name"]] = row["formula"], {axis: (float(a), float(b)) for axis, (a, b) in ends.items()}
    return found


PLAIN, GALLERY = functions(HERE / "functions.csv"), functions(HERE / "gallery.csv")
CASES = {
    **{name: (*PLAIN[name], FINE, "auto") for name in IN_PLANE},
    **{name: (*GALLERY[name], COARSE, "auto") for name in IN_SPACE},
    "franke, one head": (*PLAIN["franke"], FINE, "spectral"),
    **{f"{name}, one head": (*GALLERY[name], COARSE, "spectral") for name in IN_SPACE},
}
LINES = [(name, *function) for name, function in PLAIN.items() if len(function[1]) == 1]


class Clock:
    """Adds up the processor time inside a function of a module."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        """Time the function of that name in the module that calls it."""
        stage = next(one for one in map(_module, STAGES) if one is not None)
        inner = getattr(stage, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return inner(*arguments, **named)
            finally:
                self.seconds += time.process_time() - began

        setattr(stage, name, timed)
        try:
            yield
        finally:
            setattr(stage, name, inner)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def compiled(formula: str, domain: Any, eps: float, construction: str = "auto") -> dict[str, Any]:
    """Seconds of the proof and of everything, the least of a few runs, and what came out."""
    af = importlib.import_module("attnfun")
    proofs, whole, words = list[float](), list[float](), ""
    while len(whole) < RUNS and sum(whole) < ENOUGH:
        clock, began = Clock(), time.process_time()
        with clock.around("certify"):
            try:
                net = af.compile(formula, domain, eps, relative=True, construction=construction, time_limit=LIMIT)
                words = f"{net.construction}, {net.network.tokens} tokens"
            except Exception as error:
                words = f"no: {type(error).__name__}"
        proofs.append(clock.seconds)
        whole.append(time.process_time() - began)
    return {"proof": min(proofs), "compile": min(whole), "words": words}


def measure() -> dict[str, dict[str, Any]]:
    """All measurements in the tree that this process imports, whose limits then count seconds of computing."""
    time.monotonic = time.process_time
    af = importlib.import_module("attnfun")
    af.compile("sin(x)", {"x": (0, 1)}, 0.1)  # what is imported late is imported now
    af.compile("sin(x)*y", {"x": (0, 1), "y": (0, 1)}, 0.1, construction="spectral")
    found = {name: compiled(*case) for name, case in CASES.items()}
    return found | {f"line {name}": compiled(formula, domain, FINE) for name, formula, domain in LINES}


def measured(source: Path) -> dict[str, dict[str, Any]]:
    """The same in a process that imports another tree."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    settings["PYTHONPATH"] = os.pathsep.join([str(source), str(HERE)])
    command = [sys.executable, __file__, "--measure"]
    done = subprocess.run(command, env=settings, check=True, capture_output=True, text=True)  # noqa: S603
    return json.loads(done.stdout)


def table(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> list[str]:
    """A line for each formula, and those of one variable together."""
    lines = [
        "| formula | eps | before | proof | after | proof | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (_, _, eps, _) in CASES.items():
        old, new = before[name], after[name]
        ratio = old["proof"] / max(new["proof"], 1e-3)
        words = f"at least {ratio:.1f}" if old["words"].startswith("no") else f"{ratio:.1f}"
        columns = (f"{one['words']} | {one['proof']:.2f} s" for one in (old, new))
        lines.append(f"| {name} | {eps:g} | {' | '.join(columns)} | {words} |")
    middle = [
        statistics.median(one["compile"] for name, one in tree.items() if "line " in name) for tree in (before, after)
    ]
    lines += [
        "",
        f"Compiling with proof at {FINE:g}, median of the {len(LINES)} functions of one variable of "
        f"functions.csv: {middle[0]:.2f} s before, {middle[1]:.2f} s after.",
    ]
    return lines


def main() -> None:
    """Measure both trees and write the table."""
    if sys.argv[1:2] == ["--measure"]:
        sys.stdout.write(json.dumps(measure()))
        return
    before, after = measured(Path(sys.argv[1]).resolve()), measured(SOURCE)
    text = [
        "# Proofs: processor seconds before and after",
        "",
        "`python benchmarks/proof_speed.py OTHER/src`, OTHER a checkout of the earlier commit. Tolerances are relative "
        "to the largest value. Each tree compiles by itself, with the network it chooses, or with one head; columns "
        "*proof* are the processor seconds inside of `certify`, search and check, of all networks that were tried. One "
        f'process a tree, the least of up to {RUNS} runs; "no": not proved within {LIMIT:g} s. The machine was '
        "shared, so ratios say more than seconds.",
        "",
        *table(before, after),
        "",
    ]
    RESULTS.write_text("\n".join(text))


if __name__ == "__main__":
    main()
