"""Two provers in one variable, Sollya's `supnorm` and certificates of networks: sizes, seconds, tightness.

    python benchmarks/sollya.py --file benchmarks/functions.csv

The first rows are elementary functions on short intervals, which Sollya is made for. It guesses the degree that a
tolerance takes and tries a few more. Seconds are of computing: for Sollya of the guess, of Remez' algorithm and of the
bound together; for attnfun of compiling with the proof, and of checking that proof
again. Tightness is the proved bound over the largest error found at points. A proof of attnfun ends where the tolerance
is kept, so that it is loose where the network is much closer. Sollya's bounds hold in real arithmetic, attnfun's in
float64. Writes benchmarks/results/sollya.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import attnfun as af
from attnfun.resources.deadline import Deadline
from contests import sollya
from contests.evidence.contest import TOLERANCES
from contests.evidence.meter import metered
from contests.evidence.problem import Problem, problems

RESULTS = Path(__file__).parent / "results" / "sollya.md"
HEAD = "| function | eps | degree | numbers | seconds | tightness | tokens | numbers | seconds | proof s | tightness |"


ELEMENTARY = (
    Problem("exp", "exp(x)", {"x": (-0.35, 0.35)}),
    Problem("sin", "sin(x)", {"x": (0.0, 0.79)}),
    Problem("log1p", "log1p(x)", {"x": (-0.25, 0.5)}),
    Problem("atan", "atan(x)", {"x": (-1.0, 1.0)}),
    Problem("erf", "erf(x)", {"x": (0.0, 1.0)}),
)


def polynomial(problem: Problem, eps: float, seconds: float) -> str:
    """Sollya's cells of a row."""
    ((variable, ends),) = problem.domain.items()
    try:
        found, spent, _ = metered(
            lambda: sollya.polynomial(problem.formula, (variable, *ends), problem.scale, eps, seconds)
        )
    except af.errors.InputError as reason:
        return f"{reason.constraint} | | |"
    if found is None:
        return f"nothing proved in {seconds:g} s | | |"
    size = len(found.coefficients)
    return f"{size - 1} | {size} | {spent:.2f} | {found.bound / problem.attacked(found.fit):.3f}"


def network(problem: Problem, eps: float, seconds: float) -> str:
    """attnfun's cells of a row."""
    limit = Deadline.after(seconds, time.process_time)
    try:
        net, spent, _ = metered(
            lambda: af.compile(problem.formula, problem.domain, eps, relative=True, time_limit=limit)
        )
    except af.errors.ToleranceNotMet as miss:
        return f"{miss.constraint} | | | |"
    _, proving, _ = metered(lambda: net.certificate.recheck())
    certificate = net.certificate
    tightness = certificate.bound / certificate.found
    return f"{net.network.tokens} | {net.network.parameters} | {spent:.2f} | {proving:.2f} | {tightness:.3f}"


def main() -> None:
    """All functions of one variable."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, required=True, help="a CSV of name, formula, domain")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each of the two, function and tolerance")
    asked = parser.parse_args()
    text = " ".join(__doc__.split("\n\n")[2].rpartition(" Writes")[0].split())
    lines = ["# Two provers in one variable", "", f"{text} At most {asked.seconds:g} s.", ""]
    lines += [
        "The first numbers, seconds and tightness are Sollya's, the others attnfun's; `proof s` checks the proof again."
    ]
    lines += ["", HEAD, "|---" * (HEAD.count("|") - 1) + "|"]
    for problem in (*ELEMENTARY, *problems(asked.file)):
        if problem.variables > 1:
            continue
        for eps in TOLERANCES:
            cells = polynomial(problem, eps, asked.seconds), network(problem, eps, asked.seconds)
            lines.append(f"| {problem.name} | {eps:g} | {' | '.join(cells)} |")
            sys.stderr.write(f"{lines[-1]}\n")
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
