"""Proofs as data: how long finding and checking takes, how large proofs are, who notices a lie, what must be trusted.

    python benchmarks/proofs.py

Writes benchmarks/results/proofs.md. Seconds are of computing.
"""

from __future__ import annotations

import ast
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import attnfun as af
from attnfun.arithmetic.formats import DTYPES
from attnfun.errors import AttnfunError
from attnfun.proofs import Proof, certify
from attnfun.proofs.proof import LEAF, Growing
from attnfun.proofs.provers import boxes as searching
from attnfun.proofs.rules import RULES, Checker
from attnfun.proofs.search import network_rows
from cases import CASES

RESULTS = Path(__file__).parent / "results" / "proofs.md"
SOURCE = Path(af.__file__).parent
LEVELS = 20
"""Cuts above each leaf of the large proof: 2^20 leaves."""


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of computing, and the result."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def cases() -> list[str]:
    """Every case of the suite in every dtype: finding a proof again, and checking it."""
    searches, search = Counter[str](), searching.search

    def counted(*arguments: Any, **keywords: Any) -> Any:
        searches["made"] += 1
        return search(*arguments, **keywords)

    head = "| case | dtype | rules | boxes | bytes | proving, s | checking, s | judging, s | the judge |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|"]
    totals, verdicts = np.zeros(3), Counter[str]()
    for case in CASES:
        for dtype in DTYPES:
            if case.fitting(dtype) != dtype:
                continue
            try:
                net = case.compile(dtype=dtype, construction=case.constructions[0])
            except AttnfunError:
                continue  # a tolerance that the dtype does not reach
            certificate = net.certificate
            if certificate.proof is None:
                continue
            claim, goal = certificate.claim, certificate.bound - certificate.allowance
            proving, _ = timed(lambda claim=claim, goal=goal, net=net: certify(claim, goal, norm=net.certificate.norm))
            searching.search = counted  # type: ignore[assignment]
            checking, again = timed(certificate.recheck)
            searching.search = search
            if again.bound != certificate.bound:
                raise SystemExit(f"{case.name}: {again.bound!r} is not {certificate.bound!r}")
            rules = ", ".join(sorted({lemma.rule for lemma in certificate.proof.lemmas()}))
            size = f"{certificate.proof.leaves} | {certificate.proof.size}"
            judging, verdict = timed(certificate.verdict)
            word = "agrees" if verdict.agreed else "does not agree" if verdict.covered else "not covered"
            times = f"{proving:.2f} | {checking:.3f} | {judging:.2f}"
            lines.append(f"| {case.name} | {dtype} | {rules} | {size} | {times} | {word} |")
            totals += proving, checking, judging if verdict.covered else 0.0
            verdicts[word] += 1
    words = (
        f"In all {totals[0]:.0f} s of proving, {totals[1]:.1f} s of checking and {totals[2]:.0f} s of judging what the "
        f"judge covers; searches made while checking: {searches['made']}. The judge: "
    )
    said = ", ".join(f"{word} {count}" for word, count in verdicts.items())
    return ["## Every case of the suite", "", f"{words}{said}.", "", *lines, ""]


def large() -> list[str]:
    """A proof with a million leaves."""
    net = af.compile(
        "sin(3*x)*y", {"x": (-1, 1), "y": (-1, 1)}, construction="cross", options={"tokens": 9}, proof=False
    )
    tree, level = Growing(1), np.arange(1)
    for depth in range(LEVELS):
        first = tree.cut(level, np.full(len(level), depth % 2))
        level = (first[:, None] + np.arange(2)).ravel()
    tree.note(level, np.zeros(len(level), dtype=bool))
    proof = Proof("boxes", {**tree.cover().data(), "goal": np.empty(0)})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, conclusion = timed(lambda: Checker()(proof, net.certificate.claim))
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return [
        "## A large proof",
        "",
        f"{proof.leaves} leaves in two variables, 9 tokens, enclosures alone: {proof.size / 2**20:.1f} MiB, checked in "
        f"{seconds:.0f} s ({1e6 * seconds / proof.leaves:.0f} µs a leaf) with {more:.0f} MiB more memory; bound "
        f"{conclusion.bound:.4g}, largest error found {net.certificate.found:.4g}.",
        "",
    ]


def lies() -> list[str]:
    """Changed fields of proofs, and what the rule made of them."""
    square = {"x": (-1, 1), "y": (-1, 1)}
    nets = [
        af.compile("sin(3*x)*y", square, 0.3, construction="grid"),
        af.compile("x*y + sqrt(x + 2)", square, 1e-4, construction="circuit"),
        af.compile("x**2 + exp(y)", square, 0.2, construction="max-affine"),
        af.compile("sin(3*x)", {"x": (-1, 1)}, 0.05) + af.compile("x", {"x": (-1, 1)}, 0.05),
    ]
    rng, told = np.random.default_rng(0), dict[str, Counter[str]]()
    for net in nets:
        certificate = net.certificate
        rows = certificate.claim.domain.sample(500, rng)
        true = np.abs(network_rows(certificate.claim.network, rows) - certificate.claim.imitated.values(rows)).max()
        for field, lie in _lies(certificate.proof, rng):  # type: ignore[arg-type]
            try:
                bound = Checker()(lie, certificate.claim, inf).bound
                verdict = "a larger bound" if bound > certificate.bound else "a bound that holds"
                verdict = verdict if bound >= true else "BEATEN"
            except AttnfunError:
                verdict = "refused"
            told.setdefault(f"{certificate.proof.rule}: {field}", Counter())[verdict] += 1  # type: ignore[union-attr]
    verdicts = ("refused", "a larger bound", "a bound that holds", "BEATEN")
    lines = [f"| {field} | {' | '.join(str(count[name]) for name in verdicts)} |" for field, count in told.items()]
    head = f"| rule: field | {' | '.join(verdicts)} |"
    return [
        "## Provers that lie",
        "",
        "One change a time; what the rule made of it.",
        "",
        head,
        "|---" * 5 + "|",
        *lines,
        "",
    ]


def _lies(proof: Proof, rng: np.random.Generator, times: int = 8) -> list[tuple[str, Proof]]:
    """Proofs with one field changed, by the name of the field."""
    found = [("rule", replace(proof, rule=rule)) for rule in [*RULES, "faith"] if rule != proof.rule]
    found += [("premises left out", replace(proof, premises=()))] if proof.premises else []
    for name, array in proof.data.items():
        for _ in range(times if array.size else 0):
            changed = array.copy()
            choices = [0.0, -1.0, 1e300, np.nan] if array.dtype.kind == "f" else [0, 1, 7, LEAF]
            changed.flat[rng.integers(array.size)] = rng.choice(choices)
            found.append((name, replace(proof, data={**proof.data, name: changed})))
        if array.size:
            found.append((f"{name}, shorter", replace(proof, data={**proof.data, name: array[:-1]})))
    for number, premise in enumerate(proof.premises[:2]):
        for field, lie in _lies(premise, rng, 3):
            premises = (*proof.premises[:number], lie, *proof.premises[number + 1 :])
            found.append((f"premise, {field}", replace(proof, premises=premises)))
    return found


TRUSTED = {
    "rules": ["proofs/rules"],
    "enclosures of networks": [
        f"proofs/{name}.py"
        for name in (
            "boxes",
            "claim",
            "enclosure",
            "fans",
            "heads",
            "mixture",
            "moments",
            "overflow",
            "polynomials",
            "proof",
            "ragged",
            "rewriting",
            "taylor",
        )
    ],
    "arithmetic": ["arithmetic"],
}
UNTRUSTED = {"provers": ["proofs/provers"], "search for large errors": ["proofs/search.py"]}


def lines_of_code(places: list[str]) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    total = 0
    for place in places:
        path = SOURCE / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            tree = ast.parse(file.read_text())
            texts = {
                line
                for node in ast.walk(tree)
                if isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
            }
            code = {line for node in ast.walk(tree) if hasattr(node, "lineno") for line in (node.lineno,)}
            total += len(code - texts)
    return total


def trust() -> list[str]:
    """What a reader must believe, in lines."""
    rows = [f"| {name} | yes | {lines_of_code(places)} |" for name, places in TRUSTED.items()]
    rows += [f"| {name} | no | {lines_of_code(places)} |" for name, places in UNTRUSTED.items()]
    rows.append(f"| the judge | by those who trust none of these | {lines_of_code(['judge'])} |")
    return ["## What must be trusted", "", "| part | trusted | lines of code |", "|---|---|---|", *rows, ""]


def main() -> None:
    """All tables."""
    lines = ["# Proofs", "", "Made by `python benchmarks/proofs.py`; seconds of computing.", ""]
    for section in (trust, lies, large, cases):
        lines += section()
        RESULTS.write_text("\n".join(lines).rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
