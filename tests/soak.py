"""A long attack on certificates: random cases of the whole grammar, hostile points, real back ends, two engines.

    python tests/soak.py --certificates 5000 --points 10000000 --seed 0 --seconds 36000
    python tests/soak.py --processors    # instead: compiles under all settings of OpenBLAS and NumPy (processors.py)

Writes benchmarks/results/soak.md, and exits with 1 if a point beats a bound, if the ball engine disagrees with a
certificate, or if anything but a refusal is raised. What failed is printed as it happens, as a line of Python. Cases
are numbered; `--case 17` runs one of them again.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from math import inf, isinf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress

import attnfun as af
from attack import Verdict, judge
from attnfun.deadline import Deadline
from attnfun.domain import Box
from attnfun.errors import AttnfunError
from attnfun.proofs.arb import bound_error
from attnfun.targets import Expression
from attnfun.targets.operations import OPERATIONS
from grammar import Case, operations, random_case, rectifiers
from processors import SETTINGS, compared

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
LIMIT = 5.0
"""Seconds of processor time for one case."""
ARB_LIMIT = 5.0
"""Seconds of processor time for the ball engine, which proves few bounds in that time but contradicts a false one."""
MOST_TOKENS = 400
"""Networks with more memory tokens are not given to the ball engine."""


@dataclass
class Result:
    """What became of one case."""

    case: Case
    net: af.Compiled | None = None
    refusal: str = ""
    crash: str = ""
    verdict: Verdict | None = None
    engine: str = ""
    """What the ball engine says: "agrees", "out of time", or why it disagrees."""

    @property
    def failure(self) -> str:
        """What is wrong, or nothing."""
        if self.crash:
            return self.crash
        if self.verdict is not None and self.verdict.beaten:
            at = f"at {self.verdict.point} by {self.verdict.backend}" if self.verdict.point else "in the norm"
            return f"beaten by a factor {self.verdict.ratio:.4g} {at}"
        return self.engine if self.engine.startswith("the ball engine") else ""


def compiled(case: Case, limit: float) -> af.Compiled:
    """Run the case's line; where the tolerance was missed, the best network that has a certificate."""
    deadline = Deadline.after(limit, time.process_time)  # the same cases on a busy machine
    names: dict[str, Any] = {"af": af, "np": np, "torch": torch, "rectifiers": rectifiers, "LIMIT": deadline}
    from scipy.special import erf

    try:
        return eval(case.code, names | {"erf": erf})  # noqa: S307 - a line made by `grammar.py`
    except af.ToleranceNotMet as missed:
        if missed.best is None or case.construction == "combined":  # the best of a part, not of the whole
            raise
        return missed.best


def refusal(error: AttnfunError) -> str:
    """A refusal without the numbers of the case, for counting."""
    words = error.constraint.split(", but ")[0].split(": ")[0]
    words = "the formula is refused by the reader" if words.startswith("the formula '") else words
    return f"{type(error).__name__}: {' '.join('#' if any(c.isdigit() for c in w) else w for w in words.split())}"


def run(case: Case, count: int, seed: int, limit: float = LIMIT, arb_limit: float = ARB_LIMIT) -> Result:
    """Compile, attack, and ask the ball engine."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = compiled(case, limit)
    except (af.InputError, af.ToleranceNotMet, af.ProofFailed) as error:
        return Result(case, refusal=refusal(error))
    except Exception:
        return Result(case, crash=traceback.format_exc(limit=-4))
    result = Result(case, net)
    if net.certificate.status is af.Status.ESTIMATED:
        return result
    backends = ("call", "torch", "dense") if seed % 5 else ("call", "torch", "dense", "onnx")
    backends = backends[:3] if net.network.dtype == "bfloat16" else backends
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result.verdict = judge(net, case.truth, count, seed, backends)
            result.engine = second_opinion(net, arb_limit)
    except Exception:
        result.crash = traceback.format_exc(limit=-4)
    return result


def second_opinion(net: af.Compiled, limit: float) -> str:
    """What the ball engine says about the construction part of a certificate that it covers."""
    certificate, claim = net.certificate, net.certificate.claim
    plain = certificate.proved and isinf(certificate.norm) and type(claim.domain) is Box
    covered = plain and isinstance(claim.target, Expression) and net.network.tokens <= MOST_TOKENS
    if not covered or len(net.network.attention) != 1:
        return ""
    goal = certificate.parts["construction"] * (1 + 1e-12)
    try:
        outcome = bound_error(claim.target, claim.network, goal, Deadline.after(limit, time.process_time))  # type: ignore[arg-type]
    except af.InputError:
        return ""
    if outcome.bound <= goal:
        return "agrees"
    if outcome.found > goal:
        return f"the ball engine finds an error of {outcome.found:.6g}, construction part {goal:.6g}"
    return "out of time"


@dataclass
class Totals:
    """Everything that is counted."""

    cases: int = 0
    points: int = 0
    seconds: float = 0.0
    worst: Counter[str] = field(default_factory=Counter)
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in TABLES})
    failures: list[str] = field(default_factory=list)

    @property
    def certificates(self) -> int:
        """Those attacked."""
        return sum(self.counts["construction"].values())

    def add(self, number: int, result: Result) -> None:
        """Count one case."""
        self.cases += 1
        case, net = result.case, result.net
        if result.failure:
            self.failures.append(f"case {number}: {result.failure}\n    {case}")
        if result.refusal:
            self.counts["refusal"][result.refusal] += 1
        if net is None:
            return
        self.counts["status"][net.certificate.status.value] += 1
        if result.verdict is None:
            return
        self.points += result.verdict.points
        norm = "sup" if isinf(net.certificate.norm) else f"L_{net.certificate.norm:g}"
        kinds = {"family": case.family, "construction": net.construction, "dtype": net.network.dtype, "norm": norm}
        for kind, name in kinds.items():
            self.counts[kind][name] += 1
            self.worst[f"{kind} {name}"] = max(self.worst[f"{kind} {name}"], result.verdict.ratio)
        self.counts["operation"].update(operations(case.truth).keys())
        if result.engine:
            self.counts["ball engine"]["disagrees" if result.engine.startswith("the ball") else result.engine] += 1


TABLES = ("family", "construction", "norm", "dtype", "operation", "status", "ball engine", "refusal")


def report(totals: Totals, seed: int) -> str:
    """The tables."""
    beaten = sum("beaten" in line for line in totals.failures)
    lines = [
        "# Soak",
        "",
        "Random cases of the whole grammar (`tests/grammar.py`), attacked at their own breakpoints and elsewhere. The",
        "truth is found in ball arithmetic (`tests/balls.py`). No error may exceed its bound. Made by `tests/soak.py`.",
        "",
        "| seed | cases | certificates attacked | points | beaten | other failures | minutes |",
        "|---|---|---|---|---|---|---|",
        f"| {seed} | {totals.cases} | {totals.certificates} | {totals.points} | {beaten} | "
        f"{len(totals.failures) - beaten} | {totals.seconds / 60:.0f} |",
    ]
    for kind in ("family", "construction", "norm", "dtype"):
        lines += ["", f"| {kind} | certificates | worst error / bound |", "|---|---|---|"]
        rows = sorted(totals.counts[kind].items())
        lines += [f"| {name} | {count} | {totals.worst[f'{kind} {name}']:.4f} |" for name, count in rows]
    met = totals.counts["operation"]
    rows = {**{name: met[name] for name in OPERATIONS}, "chained comparison": met["chained comparison"]}
    lines += ["", "How many attacked certificates have each operation in their formula:", ""]
    lines += ["| operation | certificates |", "|---|---|", *(f"| `{name}` | {count} |" for name, count in rows.items())]
    for kind, words in (
        ("status", "What cases ended in, with a network:"),
        ("ball engine", "What the ball engine says of the certificates that it covers:"),
        ("refusal", "What was refused:"),
    ):
        lines += ["", words, "", f"| {kind} | cases |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in totals.counts[kind].most_common()]
    if totals.failures:
        lines += ["", "Failures:", "", "```", *totals.failures, "```"]
    return "\n".join(lines) + "\n"


def by_processor() -> int:
    """Compile under every setting that this processor has; tell which disagree with the first."""
    settings, wrong = [setting for setting in SETTINGS if not setting.lacking], 0
    for lacking in filter(None, (setting.lacking for setting in SETTINGS)):
        sys.stdout.write(f"skipped: {lacking}\n")
    for setting, words in compared(settings):
        sys.stdout.write(f"{setting}: {'; '.join(words) or 'agrees'}\n")
        wrong += len(words)
    return int(wrong > 0)


def main() -> int:
    """Run until there are enough certificates and points, or the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--certificates", type=int, default=5000)
    parser.add_argument("--points", type=int, default=10_000_000, help="in all")
    parser.add_argument("--seconds", type=float, default=inf)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--case", type=int, help="only this one")
    parser.add_argument("--output", type=Path, default=RESULTS / "soak.md")
    parser.add_argument("--processors", action="store_true", help="compile under other instructions instead")
    choice = parser.parse_args()
    if choice.processors:
        return by_processor()
    began, totals = time.monotonic(), Totals()
    with Progress(disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("attacking", total=choice.certificates)
        number = choice.first if choice.case is None else choice.case
        while True:
            missing = max(choice.certificates - totals.certificates, 1)
            count = min(max((choice.points - totals.points) // missing // 3, 300), 20_000)
            result = run(random_case(choice.seed, number), count, number)
            totals.add(number, result)
            totals.seconds = time.monotonic() - began
            if result.failure:
                sys.stderr.write(f"{totals.failures[-1]}\n")
                sys.stderr.flush()
            bar.update(task, completed=totals.certificates)
            if choice.case is not None:
                sys.stderr.write(f"{result}\n")
                break
            number += 1
            if number % 50 == 0:
                choice.output.write_text(report(totals, choice.seed))
            enough = totals.certificates >= choice.certificates and totals.points >= choice.points
            if enough or totals.seconds > choice.seconds:
                choice.output.write_text(report(totals, choice.seed))
                break
    return int(bool(totals.failures))


if __name__ == "__main__":
    sys.exit(main())
