"""Proofs as data: how long finding and checking takes, how large proofs are, who notices a lie, what must be trusted.

    python benchmarks/proofs.py                  # all of it
    python benchmarks/proofs.py --part trust     # one section; the others stay as they are

Writes benchmarks/results/proofs.md. Seconds are of computing. Rows of the cases are written as they are found.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import attnfun as af
from attnfun.arithmetic.formats import DTYPES
from attnfun.errors import AttnfunError
from attnfun.judge import Limits
from attnfun.proofs import Proof, certify
from attnfun.proofs.certify import Effort
from attnfun.proofs.proof import LEAF, Growing
from attnfun.proofs.provers import PROVERS, Prover
from attnfun.proofs.provers import boxes as searching
from attnfun.proofs.rules import RULES, Checker
from attnfun.proofs.search import network_rows
from attnfun.resources.deadline import Deadline
from cases import CASES, Case
from rooms import lines_of, trusted

Floats = npt.NDArray[np.float64]

issuing = sys.modules["attnfun.proofs.certify"]
"""The module: the package has a function of that name."""
RESULTS = Path(__file__).parent / "results" / "proofs.md"
COMPILING, LONGEST = 3.0, 5.0
"""Seconds of computing to compile a case by one construction; for its proof again, and for the judge."""
LEVELS = 20
"""Cuts above each leaf of the large proof: 2^20 leaves."""


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of computing, and the result."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


@dataclass
class Cases:
    """What the rows of the cases add up to."""

    searches: Counter[str] = field(default_factory=Counter)
    totals: Floats = field(default_factory=lambda: np.zeros(3))
    verdicts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in DTYPES})
    """By number format."""
    rows: list[str] = field(default_factory=list)

    def add(self, case: Case, dtype: str) -> None:
        """Compile a case by its last construction that serves, find its proof again, check it, judge it."""
        certificate, said = None, ""
        for construction in reversed(case.constructions):  # the last has the fewest boxes
            deadline = Deadline.after(COMPILING, time.process_time)  # the same on a busy machine
            try:
                certificate = case.compile(dtype=dtype, construction=construction, time_limit=deadline).certificate
            except AttnfunError as reason:
                said = said or f"{construction}: {reason}".replace("|", "\\|").splitlines()[0][:100]
            else:
                break
        if certificate is None or certificate.proof is None:
            said = said if certificate is None else f"{certificate.status.value}, without a proof"
            self.rows.append(f"| {case.name} | {dtype} | {said} |" + " |" * 6)
            self.verdicts[dtype]["was not asked"] += 1
            return
        goal = certificate.bound - certificate.allowance
        effort = Effort(Deadline.after(LONGEST, time.process_time))  # what time ended may be hard to reach again
        proving, _ = timed(lambda: certify(certificate.claim, goal, norm=certificate.norm, effort=effort))
        with patch.object(searching, "search", self._counted), patch.object(issuing, "PROVERS", self._provers):
            checking, again = timed(certificate.recheck)
        if again.bound != certificate.bound:
            raise SystemExit(f"{case.name}: {again.bound!r} is not {certificate.bound!r}")
        deadline = Deadline.after(LONGEST, time.process_time)
        judging, verdict = timed(lambda: certificate.verdict(Limits(over=lambda: deadline.over)))
        kind = "agrees" if verdict.agreed else "refutes" if verdict.refuted else "has a larger bound"
        word = kind if verdict.agreed else f"{kind}, {verdict.judged:.3g} for {verdict.stated:.3g}"
        if not verdict.covered:
            kind, word = "has no verdict", verdict.reason.replace("|", "\\|")[:100]
        rules = ", ".join(sorted({lemma.rule for lemma in certificate.proof.lemmas()}))
        size = f"{certificate.proof.leaves} | {certificate.proof.size}"
        times = f"{proving:.2f} | {checking:.3f} | {judging:.2f}"
        self.rows.append(f"| {case.name} | {dtype} | {rules} | {size} | {times} | {word} |")
        self.totals += proving, checking, judging if verdict.covered else 0.0
        self.verdicts[dtype][kind] += 1

    @property
    def _provers(self) -> list[Prover]:
        """Provers that only count."""
        return [replace(prover, prove=self._counted) for prover in PROVERS]

    def _counted(self, *_arguments: Any, **_keywords: Any) -> Any:
        self.searches["made"] += 1
        raise AssertionError("checking must not search")

    def page(self) -> list[str]:
        """The section."""
        words = (
            f"In all {self.totals[0]:.0f} s of proving, {self.totals[1]:.1f} s of checking and {self.totals[2]:.0f} s "
            f"of judging where there is a verdict; prover and judge have {LONGEST:g} s a row each, a construction "
            f"{COMPILING:g} s. "
            f"Searches made while checking: {self.searches['made']}. The judge, by number format: "
        )
        counts = {name: ", ".join(f"{word} {n}" for word, n in each.items()) for name, each in self.verdicts.items()}
        said = "; ".join(f"{name} {each}" for name, each in counts.items() if each)
        head = "| case | dtype | rules | boxes | bytes | proving, s | checking, s | judging, s | the judge |"
        return ["## Every case of the suite", "", f"{words}{said}.", "", head, "|---" * 9 + "|", *self.rows, ""]


def cases() -> Iterator[list[str]]:
    """Every case of the suite in every dtype that its tolerance allows."""
    found = Cases()
    for case in CASES:
        for dtype in DTYPES:
            if case.fitting(dtype) == dtype:
                found.add(case, dtype)
                yield found.page()


def large() -> Iterator[list[str]]:
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
    yield [
        "## A large proof",
        "",
        f"{proof.leaves} leaves in two variables, 9 tokens, enclosures alone: {proof.size / 2**20:.1f} MiB, checked in "
        f"{seconds:.0f} s ({1e6 * seconds / proof.leaves:.0f} µs a leaf) with {more:.0f} MiB more memory; bound "
        f"{conclusion.bound:.4g}, largest error found {net.certificate.found:.4g}.",
        "",
    ]


def lies() -> Iterator[list[str]]:
    """Changed fields of proofs, and what the rule made of them."""
    square = {"x": (-1, 1), "y": (-1, 1)}
    nets = [
        af.compile("sin(3*x)*y", square, 0.3, construction="grid"),
        af.compile("x*y + sqrt(x + 2)", square, 1e-4, construction="circuit"),
        af.compile("x**2 + exp(y)", square, 0.2, construction="max-affine"),
        af.incontext.Ridge(0.5, n_steps=5).fit([[0.0], [1.0], [2.5], [3.0]], [1.0, 1.5, 3.5, 3.0]).certify(),
        af.compile("sin(3*x)", {"x": (-1, 1)}, 0.05) + af.compile("x", {"x": (-1, 1)}, 0.05),
    ]
    rng, told = np.random.default_rng(0), dict[str, Counter[str]]()
    for net in nets:
        certificate = net.certificate
        rows = certificate.claim.domain.sample(500, rng)
        true = np.abs(network_rows(certificate.claim.network, rows) - certificate.claim.imitated.values(rows)).max()
        for place, lie in _lies(certificate.proof, rng):  # type: ignore[arg-type]
            try:
                bound = Checker()(lie, certificate.claim, inf).bound
                verdict = "a larger bound" if bound > certificate.bound else "a bound that holds"
                verdict = verdict if bound >= true else "BEATEN"
            except AttnfunError:
                verdict = "refused"
            told.setdefault(f"{certificate.proof.rule}: {place}", Counter())[verdict] += 1  # type: ignore[union-attr]
    verdicts = ("refused", "a larger bound", "a bound that holds", "BEATEN")
    lines = [f"| {field} | {' | '.join(str(count[name]) for name in verdicts)} |" for field, count in told.items()]
    head = f"| rule: field | {' | '.join(verdicts)} |"
    yield [
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
        for place, lie in _lies(premise, rng, 3):
            premises = (*proof.premises[:number], lie, *proof.premises[number + 1 :])
            found.append((f"premise, {place}", replace(proof, premises=premises)))
    return found


def trust() -> Iterator[list[str]]:
    """What a reader must believe, in lines."""
    rows = [f"| {name} | yes | {lines:,} |" for name, lines in trusted().items()]
    rows.append(f"| provers | no | {lines_of('proofs/provers'):,} |")
    rows.append(f"| the judge | by those who trust none of these | {lines_of('judge'):,} |")
    yield ["## What must be trusted", "", "| part | trusted | lines of code |", "|---|---|---|", *rows, ""]


PARTS = {"trust": trust, "lies": lies, "large": large, "cases": cases}


def main() -> None:
    """The parts asked for; other sections of the page stay."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", action="append", choices=PARTS, help="all if none is named")
    parser.add_argument("--output", type=Path, default=RESULTS)
    asked = parser.parse_args()
    for part in asked.part or PARTS:
        for lines in PARTS[part]():
            written(asked.output, "\n".join(lines))


def written(path: Path, section: str) -> None:
    """Put a section into the page in place of the one with its heading."""
    head = "# Proofs\n\nMade by `python benchmarks/proofs.py`; seconds of computing.\n"
    sections = path.read_text().split("\n## ")[1:] if path.exists() else []
    found = {each.partition("\n")[0]: f"## {each}".rstrip("\n") for each in sections}
    found[section.removeprefix("## ").partition("\n")[0]] = section.rstrip("\n")
    path.write_text("\n".join([head, "\n\n".join(found.values()), ""]))


if __name__ == "__main__":
    main()
