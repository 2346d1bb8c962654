"""40 answers of `integrate`, `max`, `min` and `roots` beside what is true and what SciPy says.

Truth is a closed form in ball arithmetic (python-flint, 200 bits), or an integral by its rigorous quadrature. SciPy's
`quad`, `minimize` and `brentq` prove nothing; their errors are shown beside the widths of the enclosures. Processor
seconds are those of the call alone, compiling not counted.

    python benchmarks/calculus.py      # writes benchmarks/results/calculus.md and docs/images/calculus.png
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flint
import numpy as np
from flint import acb, arb
from scipy.integrate import nquad
from scipy.optimize import brentq, minimize, minimize_scalar

import attnfun as af
from attnfun.errors import counted
from attnfun.look.plots.style import GREY, STYLE, save

ROOT = Path(__file__).parent.parent
flint.ctx.prec = 200
LOWEST, HIGHEST = "#CC79A7", "#E69F00"
"""Colours that mean nothing else in pictures of networks."""
LINE, SQUARE = {"x": (-1.0, 1.0)}, {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}


def quadrature(function: Callable[[acb], acb], low: float, high: float) -> arb:
    """An integral of an analytic function, by flint."""
    return acb.integral(lambda z, _: function(z), acb(low), acb(high)).real


pi, dottie = arb.pi(), arb("0.73908513321516064165531208767387340401341175890075746496568063577 +/- 1e-60")
CASES: list[tuple[str, dict[str, tuple[float, float]], dict[str, Any]]] = [
    (
        "sin(3*x)",
        {"x": (-1.0, 2.0)},
        {"integral": (arb(3).cos() - arb(6).cos()) / 3, "max": arb(1), "min": arb(-1), "roots": [arb(0), pi / 3]},
    ),
    (
        "exp(-x*x)*cos(5*x)",
        {"x": (-2.0, 2.0)},
        {
            "integral": quadrature(lambda z: (-z * z).exp() * (5 * z).cos(), -2, 2),
            "max": arb(1),
            "roots": [pi * k / 10 for k in (-5, -3, -1, 1, 3, 5)],
        },
    ),
    (
        "1/(1 + 25*x**2) - 0.5",
        LINE,
        {"integral": 2 * arb(5).atan() / 5 - 1, "max": arb(1) / 2, "roots": [-arb(1) / 5, arb(1) / 5]},
    ),
    (
        "x**3 - x",
        {"x": (-2.0, 2.0)},
        {"integral": arb(0), "max": arb(6), "min": arb(-6), "roots": [arb(-1), arb(0), arb(1)]},
    ),
    (
        "log(x)",
        {"x": (0.5, 3.0)},
        {"integral": 3 * arb(3).log() + arb(2).log() / 2 - arb(5) / 2, "max": arb(3).log(), "roots": [arb(1)]},
    ),
    (
        "exp(x) - 3*x",
        {"x": (0.0, 2.0)},
        {
            "integral": arb(2).exp() - 7,
            "min": 3 - 3 * arb(3).log(),
            "roots": [-acb(-arb(1) / 3).lambertw(branch).real for branch in (0, -1)],
        },
    ),
    ("x*sin(20*x)", LINE, {"integral": arb(20).sin() / 200 - arb(20).cos() / 10}),
    ("abs(x - 0.3)", LINE, {"integral": arb(109) / 100, "max": arb(13) / 10, "min": arb(0)}),
    ("sqrt(x)", {"x": (0.0, 2.0)}, {"integral": arb(8).sqrt() * 2 / 3, "max": arb(2).sqrt()}),
    (
        "tanh(5*x)",
        {"x": (-1.0, 2.0)},
        {
            "integral": (arb(10).cosh().log() - arb(5).cosh().log()) / 5,
            "max": arb(10).tanh(),
            "roots": [arb(0)],
        },
    ),
    ("x*exp(-x)", {"x": (0.0, 5.0)}, {"integral": 1 - 6 * arb(-5).exp(), "max": arb(-1).exp()}),
    ("cos(x) - x", {"x": (0.0, 1.0)}, {"integral": arb(1).sin() - arb(1) / 2, "roots": [dottie]}),
    ("sin(3*x)*y", {"x": (-1.0, 1.0), "y": (0.0, 2.0)}, {"integral": arb(0), "max": arb(2)}),
    (
        "exp(-(x**2 + y**2))",
        SQUARE,
        {"integral": pi * arb(1).erf() ** 2, "max": arb(1), "min": arb(-2).exp()},
    ),
    ("x*y*z", dict.fromkeys("xyz", (0.0, 1.0)), {"integral": arb(1) / 8, "max": arb(1)}),
]


def seconds(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and the processor seconds it takes."""
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def holds(enclosure: Any, true: arb) -> bool:
    """Surely inside?"""
    return bool(arb(enclosure.lo) <= true <= arb(enclosure.hi))


def scipy_says(kind: str, net: af.types.Compiled) -> Any:
    """The same question of the target's values, unproved."""
    target = net.certificate.claim.imitated
    ends = list(zip(net.domain.lo.ravel().tolist(), net.domain.hi.ravel().tolist(), strict=True))

    def value(*x: float) -> float:
        return float(target.values(np.array([x]))[0, 0])

    if kind == "integral":
        return nquad(value, ends)[0]
    if kind == "roots":
        points = np.linspace(*ends[0], 200)
        values = target.values(points[:, None])[:, 0]
        found = [points[k] for k in np.flatnonzero(values == 0)]
        changes = np.flatnonzero(values[:-1] * values[1:] < 0)
        return sorted([*found, *(brentq(value, points[k], points[k + 1]) for k in changes)])
    sign = -1.0 if kind == "max" else 1.0
    if len(ends) == 1:
        return sign * minimize_scalar(lambda x: sign * value(x), bounds=ends[0], method="bounded").fun
    start = [low + 0.6 * (high - low) for low, high in ends]
    return sign * minimize(lambda x: sign * value(*x), start, bounds=ends).fun


def rows() -> list[tuple[str, ...]]:
    """One line an answer."""
    lines = []
    af.compile("x*x", LINE, 0.1).integrate()  # what is loaded once
    for text, domain, answers in CASES:
        net = af.compile(text, domain, 1e-2)
        for kind, true in answers.items():
            ours, spent = seconds({"integral": net.integrate, "max": net.max, "min": net.min, "roots": net.roots}[kind])
            theirs, also = seconds(lambda kind=kind, net=net: scipy_says(kind, net))
            if kind == "roots":
                inside = all(any(holds(each, root) for each in ours.single) for root in true)
                inside = inside and len(ours.single) == len(true) and not ours.undecided
                width, status = max(each.hi - each.lo for each in ours.single), ours.status.value
                pairs = zip(theirs, true, strict=False)
                off = max(abs(float(arb(x) - root)) for x, root in pairs) if len(theirs) == len(true) else np.inf
            else:
                inside, status = holds(ours.target, true), ours.target.status.value
                width, off = ours.target.hi - ours.target.lo, abs(float(arb(theirs) - true))
            where = " ".join(f"{name}={low:g}:{high:g}" for name, (low, high) in domain.items())
            question = counted(len(true), "root") if kind == "roots" else kind
            lines.append(
                (f"`{text}`", where, question, "yes" if inside else "**no**", status, f"{width:.1e}", f"{spent:.2f}",
                 f"{off:.1e}", f"{also:.3f}")
            )  # fmt: skip
    return lines


def page(lines: list[tuple[str, ...]]) -> str:
    """The results as Markdown."""
    enclosed = sum(line[3] == "yes" for line in lines)
    head = (
        "# Calculus: 40 answers\n\n"
        f"{enclosed} of {len(lines)} true answers are enclosed. Truth is a closed form, or a rigorous quadrature, in "
        "ball arithmetic at 200 bits. *Width* is that of the enclosure of the target, of the widest one for roots. "
        "SciPy (`nquad`, `minimize_scalar` and `minimize`, `brentq` on 200 points) proves nothing; *its error* is the "
        "distance from the truth: its minimisers stop at one extremum, which need not be the largest or the smallest. "
        "Seconds are processor seconds of the call. By `python benchmarks/calculus.py`.\n\n"
        "| function | domain | answer | enclosed | status | width | seconds | SciPy's error | its seconds |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def picture(path: Path) -> None:
    """Roots and extreme values marked on a plot."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    net = af.compile("exp(-x*x)*cos(5*x)", {"x": (-2, 2)}, 1e-3)  # the example of docs/calculus.md
    lowest, highest, zeros = net.min(), net.max(), net.roots()
    with rc_context(STYLE):
        figure = Figure(figsize=(6.8, 4.2), layout="constrained")
        axes = figure.subplots()
        net.plot(ax=axes)
        axes.lines[0].set_label("target")
        axes.lines[1].set_label("network")
        for found, colour, name in ((lowest, LOWEST, "minimum"), (highest, HIGHEST, "maximum")):
            for number, place in enumerate(found.network_where):
                label = f"the network's {name} is here" if number == 0 else None
                axes.axvspan(*place["x"], color=colour, alpha=0.18, linewidth=0, label=label)
            for number, place in enumerate(found.where):
                label = f"{name} of the target, {found.target.mid:.6f}" if number == 0 else None
                middle = sum(place["x"]) / 2
                mark = "v" if name == "minimum" else "^"
                axes.plot(middle, found.target.mid, mark, color=colour, markersize=7, label=label)
        axes.axhline(0, color=GREY, linewidth=0.6)
        axes.plot([root.mid for root in zeros.single], [0] * len(zeros), "o", color="black", markersize=4,
                  label=f"{len(zeros)} roots, each proved to be alone")  # fmt: skip
        axes.set_title(f"{net.name}, {net.certificate.headline}", parse_math=False)
        axes.get_legend().remove()
        figure.legend(loc="outside lower center", ncols=2)
    save(figure, path)


if __name__ == "__main__":
    picture(ROOT / "docs" / "images" / "calculus.png")
    (ROOT / "benchmarks" / "results" / "calculus.md").write_text(page(rows()))
