"""Hard functions at two tolerances beside Chebyshev polynomials and rational functions; what frequency and digits cost.

    python benchmarks/gallery.py                        # the functions of gallery.csv and those below
    python benchmarks/gallery.py --file functions.csv   # those of another file with the columns name, formula, domain
    python benchmarks/gallery.py --seconds 20           # seconds of computing for each row
    python benchmarks/gallery.py --only chirp --eps 1e-6   # some rows or tolerances, printed and not written

Writes benchmarks/results/gallery.md: also sin(k x) as k grows, a chirp as tolerances fall, and how fast banks of many
tokens are evaluated. Tolerances are relative to the largest value. Times are seconds of this process.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.fft import dct
from scipy.interpolate import AAA

import attnfun as af
from attnfun.resources.deadline import Deadline
from attnfun.targets import as_target
from kernel_banks import Contestant
from kernel_banks import rates as queries_a_second

RESULTS = Path(__file__).parent / "results"
GALLERY = Path(__file__).parent / "gallery.csv"
"""Functions of Chebfun's galleries in one, two and three variables."""
TOLERANCES = (1e-6, 1e-10)
RATES, RATE_TOLERANCE = (10, 100, 1000, 10000), 1e-8
CHIRP = "sin(x*exp(x))", {"x": (0.0, 5.0)}
DIGITS = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
BANKS, POINTS, DENSE, TURNS = (1_000, 10_000), 1_000_000, 1_000, 3
"""Tokens of banks, points at which they are evaluated, points that dense attention is timed at, and times of each."""
LONGEST, TERMS = 2**17, 150
"""Chebyshev coefficients and rational terms that are tried."""
ROWS = (
    ("beats", "sin(500*x)*exp(-4*x**2) + cos(43*x)", "x=-1:1"),
    ("spikes", "exp(-((x+0.71)/0.002)**2) + exp(-((x-0.13)/0.0005)**2) + exp(-((x-0.6)/0.001)**2)", "x=-1:1"),
    ("layers", "tanh(400*(x-0.31)) + tanh(90*(x+0.47)) + x**2", "x=-1:1"),
    ("comb", "1/(1.02 + cos(80*x))", "x=-1:1"),
    ("corners", "abs(sin(9*x))*exp(x)", "x=-1:1"),
)


def domain_of(text: str) -> dict[str, tuple[float, float]]:
    """`x=-1:1 y=0:2` as a dictionary."""
    pairs = (axis.split("=") for axis in text.split())
    return {name: (float(ends.split(":")[0]), float(ends.split(":")[1])) for name, ends in pairs}


def chebyshev_length(formula: str, domain: dict[str, tuple[float, float]], eps: float) -> int | None:
    """Coefficients above the tolerance, once doubling their number adds none; None if there are too many."""
    target = as_target(formula, af.Box(*np.array(list(domain.values())).T, names=tuple(domain)))
    (low, high), count = next(iter(domain.values())), 64
    while count <= LONGEST:
        points = low + (high - low) * (1 + np.cos(np.pi * np.arange(count + 1) / count)) / 2
        values = target.values(np.clip(points, low, high)[:, None])
        coefficients = np.abs(np.asarray(dct(values, type=1, axis=0))).max(axis=1) / count
        above = np.flatnonzero(coefficients > eps * np.abs(values).max() / 10)
        if not len(above) or above[-1] < 0.9 * count:
            return int(above[-1]) + 1 if len(above) else 1
        count *= 2
    return None


def rational_terms(formula: str, domain: dict[str, tuple[float, float]], eps: float) -> int | None:
    """Support points of AAA on 4,000 samples; None if it does not converge, or for several outputs."""
    target = as_target(formula, af.Box(*np.array(list(domain.values())).T, names=tuple(domain)))
    (low, high) = next(iter(domain.values()))
    points = np.linspace(low, high, 4000)
    values = target.values(points[:, None])
    if values.shape[1] > 1:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = AAA(points, values[:, 0], rtol=eps, max_terms=TERMS, clean_up=False)
    between = points[:-1] + np.diff(points) / 2
    wrong = np.abs(np.real(fit(between)) - target.values(between[:, None])[:, 0]).max()
    return len(fit.support_points) if wrong <= 10 * eps * np.abs(values).max() else None


def measured(formula: str, domain: dict[str, tuple[float, float]], eps: float, seconds: float) -> list[str]:
    """Proved or why not, construction, tokens, numbers, seconds."""
    start = time.process_time()
    try:
        deadline = Deadline.after(seconds, time.process_time)
        net = af.compile(formula, domain, eps, relative=True, time_limit=deadline)
        found = [net.certificate.status.value, net.construction, f"{net.network.tokens}", f"{net.network.parameters}"]
    except af.errors.ToleranceNotMet as miss:
        reason = miss.remedy or miss.constraint
        found = [f"no: {reason.split(':')[0].rstrip('.')}", "", "", ""]
    return [*found, f"{time.process_time() - start:.1f}"]


def rows(functions: list[tuple[str, str, str]], tolerances: list[float], seconds: float) -> Iterator[list[str]]:
    """A line for each function and tolerance."""
    for name, formula, text in functions:
        domain = domain_of(text)
        for eps in tolerances:
            line = [name, f"{eps:g}", *measured(formula, domain, eps, seconds)]
            beside = [chebyshev_length, rational_terms] if len(domain) == 1 else []
            others = [each(formula, domain, eps) for each in beside]
            yield [*line, *("" if other is None else str(other) for other in [*others, None, None][:2])]


def rates(seconds: float) -> Iterator[list[str]]:
    """sin(k x) on [-1, 1]."""
    for rate in RATES:
        formula, domain = f"sin({rate}*x)", {"x": (-1.0, 1.0)}
        status, _, tokens, numbers, taken = measured(formula, domain, RATE_TOLERANCE, seconds)
        length = chebyshev_length(formula, domain, RATE_TOLERANCE)
        yield [str(rate), status, tokens, numbers, taken, str(length)]


def digits(seconds: float) -> Iterator[list[str]]:
    """The chirp at tolerances that fall by a hundred."""
    for eps in DIGITS:
        status, _, tokens, numbers, taken = measured(*CHIRP, eps, seconds)
        yield [f"{eps:g}", status, tokens, numbers, taken, str(chebyshev_length(*CHIRP, eps))]


def evaluations() -> Iterator[list[str]]:
    """One head of so many tokens at a million points, beside the same head in PyTorch, one thread each."""
    import torch

    torch.set_num_threads(1)
    points = np.random.default_rng(0).uniform(-1, 1, POINTS)
    for tokens in BANKS:
        options = {"tokens": tokens}
        net = af.compile(
            f"sin({0.6 * tokens:g}*x)", {"x": (-1, 1)}, construction="spectral", options=options, proof=False
        )
        module = net.to_torch()

        def dense(part: np.ndarray, module: torch.nn.Module = module) -> torch.Tensor:
            with torch.no_grad():
                return module(torch.from_numpy(part[:, None]))

        found = queries_a_second(
            [Contestant("attnfun", net, POINTS), Contestant("PyTorch", dense, DENSE)], points, TURNS
        )
        ours, theirs = (POINTS / rate for rate in found)
        apart = np.abs(dense(points[:DENSE]).numpy().ravel() - np.ravel(net(points[:DENSE]))).max()
        yield [str(net.network.tokens), f"{ours:.2f}", f"{theirs:.1f}", f"{theirs / ours:.0f}", f"{apart:.1e}"]


def proved_share(functions: list[tuple[str, str, str]], first: str) -> str:
    """How many rows of a table are proved at each tolerance, in words."""
    said = list[str]()
    for eps in TOLERANCES:
        lines = [line.split(" | ") for line in first.splitlines() if f"| {eps:g} |" in line]
        proved = sum(line[2].strip() == "proved" for line in lines)
        said.append(f"{proved} of {len(functions)} at {eps:g}")
    return f"Proved: {', '.join(said)}."


def table(head: list[str], lines: Iterator[list[str]]) -> str:
    """Markdown, printed line by line as it comes."""
    text = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    sys.stdout.write("\n".join(text) + "\n")
    for line in lines:
        text.append(f"| {' | '.join(line)} |")
        sys.stdout.write(text[-1] + "\n")
        sys.stdout.flush()
    return "\n".join(text)


def main() -> None:
    """Measure and write."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--file", type=Path, help="a CSV file with the columns name, formula, domain")
    arguments.add_argument("--seconds", type=float, default=30.0)
    arguments.add_argument("--only", nargs="*", default=[])
    arguments.add_argument("--eps", nargs="*", type=float, default=[])
    chosen = arguments.parse_args()
    with (chosen.file or GALLERY).open(newline="") as file:
        functions = [(row["name"], row["formula"], row["domain"]) for row in csv.DictReader(file)]
    functions += ROWS if chosen.file is None else ()
    functions = [row for row in functions if not chosen.only or row[0] in chosen.only]
    head = ["function", "eps", "proved", "construction", "tokens", "numbers", "seconds", "Chebyshev", "AAA"]
    first = table(head, rows(functions, chosen.eps or list(TOLERANCES), chosen.seconds))
    if chosen.only or chosen.eps:
        return
    second = table(["k", "proved", "tokens", "numbers", "seconds", "Chebyshev"], rates(chosen.seconds))
    third = table(["eps", "proved", "tokens", "numbers", "seconds", "Chebyshev"], digits(chosen.seconds))
    fourth = table(["tokens", "seconds", "seconds, PyTorch", "ratio", "largest difference"], evaluations())
    described = "\n".join(f"- {name}: `{formula}`, {domain}" for name, formula, domain in functions)
    (RESULTS / "gallery.md").write_text(
        f"# Hard functions\n\nBy `python benchmarks/gallery.py`; at most {chosen.seconds:g} s of computing a row. "
        "*Chebyshev*: coefficients of a polynomial; *AAA*: support points of a rational function, where one is found. "
        f"Neither is proved. {proved_share(functions, first)}\n\n"
        f"{first}\n\n{described}\n\n## sin(k x) at {RATE_TOLERANCE:g}\n\n{second}\n\n"
        f"## Digits of `{CHIRP[0]}`, x=0:5\n\n{third}\n\n"
        "## A million points\n\nOne head for sin(k x), and the same head as stock attention in PyTorch, where every "
        f"point looks at every token: timed at {DENSE:,} points. Processor seconds for a million points, the best of "
        f"{TURNS} turns.\n\n{fourth}\n"
    )


if __name__ == "__main__":
    main()
