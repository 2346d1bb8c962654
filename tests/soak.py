"""A long attack on certificates: random cases of the whole grammar, hostile points, real back ends, two readers.

    python tests/soak.py --certificates 5000 --points 10000000 --seed 0 --jobs 2
    python tests/soak.py --seed 7 --output run.md    # a further run
    python tests/soak.py --join run.md    # instead: adds its row, and what it counts, to the tables of soak.md
    python tests/soak.py --processors    # instead: compiles under all settings of OpenBLAS and NumPy (processors.py)

Writes benchmarks/results/soak.md, and exits with 1 if a point beats a bound, if the judge disagrees with a
certificate, or if anything but a refusal is raised. What failed is printed as it happens, as a line of Python. Cases
are numbered; `--case 17` runs one of them again.

Each case is a line of JSON in a journal beside the output (`soak.jsonl`). A run that was interrupted goes on where the
journal ends. Tables count the cases from the first on without a gap, up to the one with which there are enough: the
same ones whatever the number of processes. Failures are told wherever they are.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count as count_from
from itertools import takewhile
from math import inf, isinf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress

import attnfun as af
from attack import Verdict, beyond, judge, worse
from attnfun.errors import AttnfunError
from attnfun.formula.functions import OPERATIONS
from attnfun.proofs.judging import contradicts, is_far
from attnfun.resources.deadline import Deadline
from grammar import Case, operations, random_case, rectifiers
from processors import SETTINGS, compared

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
LIMIT = 1.0
"""Seconds of processor time for one case. A proof that has no more proves a larger bound, which is attacked as well."""
MOST_WORK = 4096
"""Proofs with more leaves times memory tokens are not given to the judge."""
POINTS_A_COUNT = 2
"""Points that an attack tries, at least, for each point that it is asked for: neighbours, and by several back ends."""


@dataclass
class Result:
    """What became of one case."""

    case: Case
    net: af.types.Compiled | None = None
    refusal: str = ""
    crash: str = ""
    verdict: Verdict | None = None
    engine: str = ""
    """What the judge says: "agrees", what it does not cover, or why it disagrees."""
    seconds: float = 0.0
    """Of processor time."""

    @property
    def failure(self) -> str:
        """What is wrong, or nothing."""
        if self.crash:
            return self.crash
        if self.verdict is not None and self.verdict.beaten:
            at = f"at {self.verdict.point} by {self.verdict.backend}" if self.verdict.point else "in the norm"
            return f"beaten by a factor {self.verdict.ratio:.4g} {at}"
        return self.engine if self.engine.startswith("the judge") else ""


def compiled(case: Case, limit: float) -> af.types.Compiled:
    """Run the case's line; where the tolerance was missed, the best network that has a certificate."""
    deadline = Deadline.after(limit, time.process_time)  # the same cases on a busy machine
    names: dict[str, Any] = {"af": af, "np": np, "math": math, "torch": torch, "LIMIT": deadline}
    names["rectifiers"] = rectifiers
    from scipy.special import erf

    try:
        return eval(case.code, names | {"erf": erf})  # noqa: S307 - a line made by `grammar.py`
    except af.errors.ToleranceNotMet as missed:
        if missed.best is None or case.construction == "combined":  # the best of a part, not of the whole
            raise
        return missed.best


def refusal(error: AttnfunError) -> str:
    """A refusal without the numbers of the case, for counting."""
    words = error.constraint.split(", but ")[0].split(": ")[0]
    words = "the formula is refused by the reader" if words.startswith("the formula '") else words
    return f"{type(error).__name__}: {' '.join('#' if any(c.isdigit() for c in w) else w for w in words.split())}"


def run(case: Case, count: int, seed: int, limit: float = LIMIT) -> Result:
    """Compile, attack, and ask the judge."""
    began = time.process_time()
    result = _run(case, count, seed, limit)
    result.seconds = time.process_time() - began
    return result


def _run(case: Case, count: int, seed: int, limit: float) -> Result:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = compiled(case, limit)
    except (af.errors.InputError, af.errors.ToleranceNotMet, af.errors.ProofFailed) as error:
        return Result(case, refusal=refusal(error))
    except Exception:
        return Result(case, crash=traceback.format_exc(limit=-4))
    result = Result(case, net)
    if net.certificate.status is af.types.Status.ESTIMATED:
        return result
    backends = ("call", "torch", "dense") if seed % 5 else ("call", "torch", "dense", "onnx")
    backends = backends if hasattr(np, net.network.dtype) else backends[:3]  # ONNX models take what NumPy has
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result.verdict = judge(net, case.truth, count, seed, backends)
            if case.ends is not None:
                result.verdict = worse(result.verdict, beyond(net, case.truth, case.ends, seed))
            result.engine = second_opinion(net)
    except Exception:
        result.crash = traceback.format_exc(limit=-4)
    return result


def second_opinion(net: af.types.Compiled) -> str:
    """What the judge says about a certificate with a small proof."""
    certificate, proof = net.certificate, net.certificate.proof
    if proof is None or (proof.rule != "boxes" and certificate.claim.domain.size > 1):
        return ""
    if proof.leaves * net.network.tokens > MOST_WORK:
        return ""
    verdict = certificate.verdict()
    if not verdict.covered:
        return verdict.reason.split(" (")[0]
    if verdict.agreed:
        return "agrees"
    if contradicts(verdict, certificate):
        return f"the judge does not agree: {verdict.reason}"
    if certificate.proved and is_far(verdict):  # no contradiction, but one of both can be mended
        return f"the judge has a far larger bound: {verdict.reason}"
    return "has no bound" if verdict.judged == inf else "has a larger bound"


TABLES = ("family", "construction", "norm", "dtype", "operation", "status", "judge", "refusal")


def record(number: int, result: Result) -> dict[str, Any]:
    """What is counted of a case, as JSON."""
    case, net, verdict = result.case, result.net, result.verdict
    noted: dict[str, Any] = {"case": number, "seconds": round(result.seconds, 3), "counts": {}}
    if result.failure:
        noted["failure"] = f"case {number}: {result.failure}\n    {case}".replace(f"{RESULTS.parents[1]}/", "")
    if result.refusal:
        noted["counts"]["refusal"] = [result.refusal]
    if net is not None:
        noted["counts"]["status"] = [net.certificate.status.value]
    if net is not None and verdict is not None:
        norm = "sup" if isinf(net.certificate.norm) else f"L_{net.certificate.norm:g}"
        kinds = {"family": case.family, "construction": net.construction, "norm": norm, "dtype": net.network.dtype}
        noted["counts"] |= {kind: [name] for kind, name in kinds.items()}
        noted["counts"]["operation"] = sorted(operations(case.truth))
        noted |= {"points": verdict.points, "ratio": verdict.ratio}
        if result.engine:
            noted["counts"]["judge"] = [result.engine.removeprefix("the judge ").split(":")[0]]
    return noted


def recorded(seed: int, number: int, count: int) -> dict[str, Any]:
    """Run one case."""
    return record(number, run(random_case(seed, number), count, number))


class Journal:
    """The records of a run in a file, one a line; the first line says which run it is."""

    def __init__(self, path: Path, run: dict[str, Any]) -> None:
        self.path, self.cases = path, dict[int, dict[str, Any]]()
        lines = path.read_text().splitlines() if path.exists() else [json.dumps(run)]
        if json.loads(lines[0]) != run:
            raise SystemExit(f"{path} is of another run: {lines[0]}. Delete it, or take another --output.")
        for line in lines[1:]:
            with suppress(json.JSONDecodeError):  # one that was cut short by an interruption is done again
                noted = json.loads(line)
                self.cases[noted["case"]] = noted
        path.write_text("".join(f"{json.dumps(noted)}\n" for noted in (run, *self.cases.values())))

    def add(self, noted: dict[str, Any]) -> None:
        """Keep a record."""
        self.cases[noted["case"]] = noted
        with self.path.open("a") as file:
            file.write(f"{json.dumps(noted)}\n")

    @property
    def failures(self) -> list[str]:
        """All of them, in order."""
        return [noted["failure"] for _, noted in sorted(self.cases.items()) if "failure" in noted]


@dataclass
class Totals:
    """Everything that is counted."""

    cases: int = 0
    certificates: int = 0
    """Those attacked."""
    points: int = 0
    seconds: float = 0.0
    worst: Counter[str] = field(default_factory=Counter)
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in TABLES})

    def add(self, noted: dict[str, Any]) -> None:
        """Count one case."""
        self.cases, self.seconds = self.cases + 1, self.seconds + noted["seconds"]
        for kind, names in noted["counts"].items():
            self.counts[kind].update(names)
        if "ratio" in noted:
            self.certificates, self.points = self.certificates + 1, self.points + noted["points"]
            for kind in TABLES[:4]:
                (name,) = noted["counts"][kind]
                self.worst[f"{kind} {name}"] = max(self.worst[f"{kind} {name}"], noted["ratio"])


def report(totals: Totals, failures: list[str], run: dict[str, Any]) -> str:
    """The tables."""
    beaten = sum("beaten" in line for line in failures)
    lines = [
        "# Soak",
        "",
        "Random cases of the whole grammar (`tests/grammar.py`), attacked at their own breakpoints and elsewhere. The",
        "truth is found in ball arithmetic (`tests/balls.py`). No error may exceed its bound. Made by `tests/soak.py`.",
        f"A case has {LIMIT:g} s of processor time to be compiled.",
        "",
        "| commit | seed | cases | certificates attacked | points | beaten | other failures | processor minutes |",
        "|---|---|---|---|---|---|---|---|",
        f"| {run['commit']} | {run['seed']} | {totals.cases} | {totals.certificates} | {totals.points} | {beaten} | "
        f"{len(failures) - beaten} | {totals.seconds / 60:.0f} |",
    ]
    for kind in TABLES[:4]:
        lines += ["", f"| {kind} | certificates | worst error / bound |", "|---|---|---|"]
        rows = sorted(totals.counts[kind].items())
        lines += [f"| {name} | {count} | {totals.worst[f'{kind} {name}']:.4f} |" for name, count in rows]
    met = totals.counts["operation"]
    rows = {**{name: met[name] for name in OPERATIONS}, "chained comparison": met["chained comparison"]}
    lines += ["", "How many attacked certificates have each operation in their formula:", ""]
    lines += ["| operation | certificates |", "|---|---|", *(f"| `{name}` | {count} |" for name, count in rows.items())]
    for kind, words in (
        ("status", "What cases ended in, with a network:"),
        ("judge", "What the judge says of the certificates with small proofs:"),
        ("refusal", "What was refused:"),
    ):
        lines += ["", words, "", f"| {kind} | cases |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in totals.counts[kind].most_common()]
    if failures:
        lines += ["", "Failures:", "", "```", *failures, "```"]
    return "\n".join(lines) + "\n"


def joined(report: str, run: str) -> str:
    """A report with the tables of a further run added to its own; text stays, and failures follow failures."""
    (text, told), (other, more) = (each.partition("\nFailures:\n")[::2] for each in (report, run))
    lines, known = text.rstrip().splitlines(), _tables(text)
    for header, (title, rows) in _tables(other).items():
        if header in known:
            place, before = lines.index(header) + 2, known[header][1]
            lines[place : place + len(before)] = _added(header, before, rows)
        else:
            lines += ["", title, "", header, "|---" * (header.count("|") - 1) + "|", *rows]
    failures = [line for each in (told, more) for line in each.strip().splitlines() if line != "```"]
    lines += ["", "Failures:", "", "```", *failures, "```"] if failures else []
    return "\n".join(lines) + "\n"


def _tables(text: str) -> dict[str, tuple[str, list[str]]]:
    """The tables of a report by their header: the line above, and the rows."""
    lines, found = text.splitlines(), dict[str, tuple[str, list[str]]]()
    for k in (k for k, line in enumerate(lines) if line.startswith("|---")):
        rows = list(takewhile(lambda line: line.startswith("|"), lines[k + 1 :]))
        found[lines[k - 1]] = lines[k - 3], rows
    return found


def _added(header: str, rows: list[str], more: list[str]) -> list[str]:
    """Rows of one table: runs follow each other, counts of one name add up, of two ratios the larger one stays."""
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in (*rows, *more)]
    if header.startswith("| commit"):
        if len({tuple(row[:2]) for row in cells}) < len(cells):
            raise SystemExit(f"the report has this run already: {more[0]}")
        return [*rows, *more]
    found = dict[str, list[str]]()
    for name, count, *ratio in cells:
        before = found.get(name, ["0", "0"])
        found[name] = [str(int(before[0]) + int(count)), *(max(before[1], each) for each in ratio)]
    names = sorted(found, key=lambda name: -int(found[name][0])) if header.endswith("| cases |") else list(found)
    return [f"| {' | '.join([name, *found[name]])} |" for name in (sorted(names) if "worst" in header else names)]


def by_processor() -> int:
    """Compile under every setting that this processor has; tell which disagree with the first."""
    settings, wrong = [setting for setting in SETTINGS if not setting.lacking], 0
    for lacking in filter(None, (setting.lacking for setting in SETTINGS)):
        sys.stdout.write(f"skipped: {lacking}\n")
    for setting, words in compared(settings):
        sys.stdout.write(f"{setting}: {'; '.join(words) or 'agrees'}\n")
        wrong += len(words)
    return int(wrong > 0)


def all_recorded(seed: int, numbers: Iterable[int], count: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Records of cases as they are done, by so many processes; without end if the numbers have none."""
    if jobs == 1:
        yield from (recorded(seed, number, count) for number in numbers)
        return
    numbers, waiting = iter(numbers), set[Future[dict[str, Any]]]()
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        try:
            while True:
                while len(waiting) < 2 * jobs and (number := next(numbers, None)) is not None:
                    waiting.add(pool.submit(recorded, seed, number, count))
                if not waiting:
                    return
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(cancel_futures=True)


def commit() -> str:
    """What is checked out."""
    described = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(described, capture_output=True, text=True, cwd=RESULTS, check=True).stdout.strip()


def main() -> int:
    """Run until there are enough certificates and points, or the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--certificates", type=int, default=5000)
    parser.add_argument("--points", type=int, default=10_000_000, help="in all")
    parser.add_argument("--seconds", type=float, default=inf)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--case", type=int, help="only this one")
    parser.add_argument("--output", type=Path, default=RESULTS / "soak.md")
    parser.add_argument("--processors", action="store_true", help="compile under other instructions instead")
    parser.add_argument("--join", type=Path, help="add this report of another run to the tables of --output")
    choice = parser.parse_args()
    if choice.processors:
        return by_processor()
    if choice.join:
        choice.output.write_text(joined(choice.output.read_text(), choice.join.read_text()))
        return 0
    count = -(-choice.points // choice.certificates // POINTS_A_COUNT)
    if choice.case is not None:
        result = run(random_case(choice.seed, choice.case), count, choice.case)
        sys.stderr.write(f"{result}\n{result.failure}\n")
        return int(bool(result.failure))
    what = {"seed": choice.seed, "count": count, "commit": commit()}
    journal, totals, end = (
        Journal(choice.output.with_suffix(".jsonl"), what),
        Totals(),
        time.monotonic() + choice.seconds,
    )

    def enough() -> bool:
        """Count what there is without a gap."""
        while totals.certificates < choice.certificates or totals.points < choice.points:
            if totals.cases not in journal.cases:
                return False
            totals.add(journal.cases[totals.cases])
        return True

    missing = (number for number in count_from() if number not in journal.cases)
    with Progress(disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("attacking", total=choice.certificates)
        for noted in () if enough() else all_recorded(choice.seed, missing, count, choice.jobs):
            journal.add(noted)
            if "failure" in noted:
                sys.stderr.write(f"{noted['failure']}\n")
                sys.stderr.flush()
            if enough() or time.monotonic() > end:
                break
            bar.update(task, completed=totals.certificates)
            if totals.cases % 50 == 0:
                choice.output.write_text(report(totals, journal.failures, what))
    choice.output.write_text(report(totals, journal.failures, what))
    return int(bool(journal.failures))


if __name__ == "__main__":
    sys.exit(main())
