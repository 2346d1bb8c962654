"""How tight and how quick proofs are: bound over largest error found, at convergence, and smooth rows in two variables.

    python benchmarks/tightness.py --file functions.csv
    python benchmarks/tightness.py --file functions.csv --before ../before/src

Writes benchmarks/results/tightness.md. Bounds of the first page of this kind stand beside those of today
(tightness-before.csv). With `--before`, a checkout of an earlier commit compiles networks and bounds their errors; this
tree bounds the errors of the same networks with as many boxes, and both go into tightness-equal.csv.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import attnfun as af
from proof_speed import functions

HERE = Path(__file__).parent
RESULTS = HERE / "results"
BEFORE, EQUAL = RESULTS / "tightness-before.csv", RESULTS / "tightness-equal.csv"
TOKENS = 64
BOXES = 2000
"""Boxes of a proof where two trees are compared; a round is finished."""
KINDS = (("grid", "float64"), ("spectral", "float64"), ("spectral", "float32"))
PROVERS = ("attnfun.proofs.provers.boxes", "attnfun.certificates.branch_and_bound")
"""Modules that search for a cover of boxes; one of them exists in a tree."""
LISTED = ("function", "construction", "dtype", "bound before", "bound", "found", "boxes before", "boxes")
CLOSE = 1e-4
"""Relative difference of bounds that are the same."""


def converged(before: dict[tuple[str, str], Any], name: str, formula: str, domain: dict, construction: str) -> str:
    """One row of the first table: no tolerance, as tight as the proof gets."""
    began = time.monotonic()
    net = af.compile(formula, domain, options={"tokens": TOKENS}, construction=construction)
    certificate, seconds = net.certificate, time.monotonic() - began
    aside, old = certificate.parts.get("windows", 0.0), before[name, construction]
    ratio = (certificate.bound - aside) / certificate.found
    return (
        f"| {name} | {construction} | {old['tokens']} | {old['bound']} "
        f"| {float(old['bound']) / float(old['found']):.3f} | {old['boxes']} | {net.network.tokens} "
        f"| {certificate.bound:.3g} | {certificate.bound - aside:.3g} "
        f"| {ratio:.3f} | {certificate.effort['boxes']} | {certificate.found:.3g} | {seconds:.1f} |"
    )


def proved(before: dict[tuple[str, str], Any], name: str, formula: str, domain: dict, eps: float) -> str:
    """One row of the second table: a tolerance in two variables."""
    began = time.monotonic()
    old = next(row for (function, _), row in before.items() if function == name)
    then = f"{old['construction']}, {old['tokens']} tokens, {old['bound']}" if old["bound"] else "not proved"
    try:
        net = af.compile(formula, domain, eps)
    except af.errors.AttnfunError as reason:
        return f"| {name} | {then} | | | not proved: {str(reason)[:120]} | | {time.monotonic() - began:.1f} |"
    certificate, seconds = net.certificate, time.monotonic() - began
    return (
        f"| {name} | {then} | {net.construction} | {net.network.tokens} | {certificate.headline} "
        f"| {certificate.effort['boxes']} | {seconds:.1f} |"
    )


def bounded(net: Any) -> tuple[float, int]:
    """The bound on the error of a network that so many boxes prove, and the boxes, in the tree that is imported."""
    for name in PROVERS:
        try:
            prover = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        claim = net.certificate.claim
        outcome = prover.bound_error(claim.target, claim.network, None, most=BOXES)
        return outcome.bound, outcome.boxes
    raise ModuleNotFoundError(PROVERS)


def measure(path: Path, folder: Path) -> list[dict[str, Any]]:
    """Networks made and bounded by the tree that this process imports; they are saved."""
    found = []
    for name, (formula, domain) in functions(path).items():
        for construction, dtype in KINDS if len(domain) == 1 else ():
            options = {"construction": construction, "options": {"tokens": TOKENS}, "dtype": dtype, "proof": False}
            net = af.compile(formula, domain, **options)  # type: ignore[arg-type]
            file = folder / f"{name}-{construction}-{dtype}.safetensors"
            net.save(file)
            bound, boxes = bounded(net)
            known = {"function": name, "construction": construction, "dtype": dtype, "file": str(file)}
            found.append({**known, "bound before": bound, "boxes before": boxes, "found": net.certificate.found})
    return found


def compare(path: Path, source: Path) -> None:
    """The same networks bounded by the tree `source` and by this one."""
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(HERE)])}
    with tempfile.TemporaryDirectory() as folder, EQUAL.open("w", newline="") as file:
        command = [sys.executable, __file__, "--file", str(path), "--measure", folder]
        done = subprocess.run(command, env=settings, check=True, capture_output=True, text=True)  # noqa: S603
        writer = csv.DictWriter(file, LISTED, lineterminator="\n")
        writer.writeheader()
        for row in json.loads(done.stdout):
            bound, boxes = bounded(af.load(row.pop("file")))
            writer.writerow({**row, "bound": bound, "boxes": boxes})


def _named(row: dict[str, Any]) -> str:
    return f"{row['function']} by {row['construction']} in {row['dtype']} ({row['ratio'] - 1:.1e} of the bound)"


def equal() -> list[str]:
    """What tightness-equal.csv says."""
    with EQUAL.open() as file:
        found = list(csv.DictReader(file))
    for row in found:
        row["ratio"] = float(row["bound"]) / float(row["bound before"])  # type: ignore[assignment]
    looser = [row for row in found if row["ratio"] > 1 + CLOSE]
    tighter = [row for row in found if row["ratio"] < 1 - CLOSE]
    lines = [
        "## Before and after, at equal boxes",
        "",
        f"The same {len(found)} networks (one variable, at most {TOKENS} tokens), made by an earlier commit, in both "
        f"columns; no tolerance; proofs stop after the round in which they reach {BOXES} boxes. Smaller now: "
        f"{len(tighter)}. Larger by more than {CLOSE:g}: {', '.join(map(_named, looser)) or 'none'}.",
        "",
        "| function | construction | format | bound before | bound | ratio | boxes before | boxes | error found |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        bounds = (f"{float(row[name]):.4g}" for name in ("bound before", "bound"))
        kind = row["function"], row["construction"], row["dtype"]
        cells = (*kind, *bounds, f"{row['ratio']:.4f}", row["boxes before"], row["boxes"], f"{float(row['found']):.3g}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """All tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, required=True, help="a CSV of name, formula, domain")
    parser.add_argument("--before", type=Path, help="src of an earlier checkout, which is compared anew")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure is not None:
        sys.stdout.write(json.dumps(measure(chosen.file, chosen.measure)))
        return
    if chosen.before is not None:
        compare(chosen.file, chosen.before)
    with BEFORE.open() as file:
        before = {(row["function"], row["construction"]): row for row in csv.DictReader(file)}
    load = f"Seconds are by the clock, with a load of {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start."
    lines = [
        "# Tightness of proofs",
        "",
        load,
        "",
        f"One variable, at most {TOKENS} tokens, no tolerance: at convergence. *Aside* is the bound without the part "
        "`windows`, which is set aside for fast evaluation and is no error of the network; the ratio is that to the "
        "largest error found. Beside it the first page of this kind, which set nothing aside. Networks of `grid` are "
        "the same; those of `spectral` have other tokens now, and smaller errors.",
        "",
    ]
    lines += ["| function | construction | tokens before | bound | ratio | boxes | tokens now | bound | aside | ratio "
              "| boxes | largest error found | seconds |"]  # fmt: skip
    lines += ["|---" * 13 + "|"]
    listed = [(name, *function) for name, function in functions(chosen.file).items()]
    for row in (row for row in listed if len(row[2]) == 1):
        lines += [converged(before, *row, construction) for construction in ("grid", "spectral")]
    lines += [
        "",
        "Two variables, eps = 1e-4, the default limit of 60 s; rows with a kink or a steep ridge too.",
        "",
    ]
    lines += ["| function | before | construction | tokens | result | boxes | seconds |", "|---" * 7 + "|"]
    lines += [proved(before, *row, 1e-4) for row in listed if len(row[2]) == 2]
    lines += ["", *equal()] if EQUAL.exists() else []
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tightness.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
