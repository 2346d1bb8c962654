"""Error against size for the constructions of arXiv 2504.19901: one head, self- and cross-attention, sup norm and L_p.

    python benchmarks/convergence.py

Writes docs/convergence.md and its pictures. Each network is certified for a few seconds without a tolerance, so that
the proved bound stands beside the error that was measured, the paper's bound and ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

import attnfun as af

DOCS = Path(__file__).parent.parent / "docs"
SECONDS = 10.0
"""Time for each certificate."""
POINTS = 400_000
"""Points at which errors are measured."""
COLOURS = {"grid": "#0072B2", "cross": "#D55E00"}
MARKS = {"grid": "o", "cross": "x"}


def mixed(X: Any) -> Any:
    """A map on sequences of 2 tokens with 2 features: each output token depends on both input tokens."""
    a, b = X[..., 0, :], X[..., 1, :]
    rows = [a[..., 0] * b[..., 1], np.sin(a[..., 1] + b[..., 0]), np.tanh(a[..., 0] - b[..., 0]), a[..., 1] * b[..., 1]]
    return np.stack(rows, axis=-1).reshape((*a.shape[:-1], 2, 2))


@dataclass(frozen=True)
class Study:
    """One target in one norm at several sizes."""

    name: str
    target: Any
    domain: Any
    sizes: tuple[int, ...]
    slope: float
    """The exponent of N that the theory predicts for the error."""
    proofs: int
    """Networks with more tokens are measured, not certified."""
    norm: float = inf
    options: dict[str, Any] | None = None


@dataclass(frozen=True)
class Row:
    """One network."""

    construction: str
    tokens: int
    paper: float
    a_priori: float
    proved: float | None
    measured: float


UNIT = af.Box(np.zeros((2, 2)), np.ones((2, 2)))
SUP = [
    Study("sin(3x)exp(-x), d = 1", "sin(3*x)*exp(-x)", {"x": (-1, 1)}, (8, 16, 32, 64, 128, 256, 512), -1.0, 512),
    Study(
        "sin(3x)cos(2y), d = 2",
        "sin(3*x)*cos(2*y)",
        dict.fromkeys("xy", (-1, 1)),
        (16, 64, 256, 1024, 4096),
        -1 / 2,
        256,
    ),
    Study(
        "x sin(2y) + z², d = 3",
        "x*sin(2*y) + z**2",
        dict.fromkeys("xyz", (-1, 1)),
        (27, 125, 512, 2197, 8000),
        -1 / 3,
        125,
    ),
    Study("2 x 2 sequences, by position", mixed, UNIT, (32, 162, 512, 2592), -1 / 4, 32, inf, {"layout": "position"}),
]
STEP, DISC = "where(x > 0.3, 1, 0)", "where(x**2 + y**2 <= 0.5, 1, 0)"
LP = [
    study
    for p in (1, 2)
    for study in (
        Study(f"step, L_{p}", STEP, {"x": (-1, 1)}, (16, 32, 64, 128, 256, 512), -1 / p, 512, p),
        Study(f"disc, L_{p}", DISC, dict.fromkeys("xy", (-1, 1)), (64, 256, 1024, 4096), -1 / (2 * p), 256, p),
    )
]


def lattice(domain: af.Box, count: int) -> np.ndarray:
    """About `count` midpoints of equal cells, an odd number per axis so that they do not keep step with a grid."""
    each = int(count ** (1 / domain.size)) | 1
    mesh = np.meshgrid(*[(np.arange(each) + 0.5) / each] * domain.size, indexing="ij")
    unit = np.stack([axis.ravel() for axis in mesh], axis=1)  # (P, D)
    return domain.lo.ravel() + unit * (domain.hi - domain.lo).ravel()


def measured(net: af.Compiled, norm: float) -> float:
    """The error at many points, in the norm asked for."""
    count = POINTS // max(1, net.network.tokens // 100)
    rows = net.domain.sample(count, np.random.default_rng(1)) if norm == inf else lattice(net.domain, count)
    values = net(net.domain.unflatten(rows)).reshape(len(rows), -1)
    error = np.abs(values - net.certificate.claim.target.values(rows)).max(axis=1)
    if norm == inf:
        return max(float(error.max()), net.certificate.found)
    volume = float(np.prod(net.domain.hi - net.domain.lo))
    return float((np.mean(error**norm) * volume) ** (1 / norm))


def run(study: Study, construction: str) -> list[Row]:
    """Networks of all sizes."""
    rows = []
    for size in study.sizes:
        net = af.compile(
            study.target,
            study.domain,
            norm="inf" if study.norm == inf else study.norm,
            construction=construction,
            options={**(study.options or {}), "tokens": size},
            time_limit=SECONDS,
            proof=size <= study.proofs,
        )
        assert net.paper_bound is not None  # noqa: S101
        error = measured(net, study.norm)
        rows.append(
            Row(
                construction,
                net.network.tokens,
                net.paper_bound,
                net.a_priori,
                net.certificate.bound if size <= study.proofs else None,
                error,
            )
        )
    return rows


def fitted(rows: list[Row]) -> float:
    """The exponent of N in the measured error, by least squares over all sizes but the first."""
    tokens, errors = (np.log([getattr(row, name) for row in rows[1:]]) for name in ("tokens", "measured"))
    return float(np.polyfit(tokens, errors, 1)[0])


def table(study: Study, results: dict[str, list[Row]]) -> list[str]:
    """Self and cross side by side."""
    lines = [
        f"### {study.name}",
        "",
        "| tokens | paper's bound | a priori | proved (self) | measured (self) | proved (cross) | measured (cross) |",
        "|---|---|---|---|---|---|---|",
    ]
    for own, other in zip(results["grid"], results["cross"], strict=True):
        numbers = (own.paper, own.a_priori, own.proved, own.measured, other.proved, other.measured)
        lines.append(
            f"| {own.tokens} | " + " | ".join("" if number is None else f"{number:.3g}" for number in numbers) + " |"
        )
    slopes = ", ".join(f"{fitted(rows):.2f} ({name})" for name, rows in results.items())
    return [*lines, "", f"Exponent of N: predicted {study.slope:.3g}, measured {slopes}.", ""]


def picture(path: Path, studies: list[Study], results: list[dict[str, list[Row]]]) -> None:
    """Measured errors as marks, proved bounds as lines, the predicted slope dashed."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    figure = Figure(figsize=(10, 7), layout="constrained")
    for axes, study, result in zip(figure.subplots(2, 2).ravel(), studies, results, strict=True):
        for name, rows in result.items():
            tokens = [row.tokens for row in rows]
            look = {"color": COLOURS[name], "marker": MARKS[name], "linestyle": "none"}
            axes.loglog(tokens, [row.measured for row in rows], **look, label=f"measured, {name}")
            proved = [(row.tokens, row.proved) for row in rows if row.proved is not None]
            axes.loglog(*zip(*proved, strict=True), color=COLOURS[name], linewidth=1, label=f"proved, {name}")
        rows = result["grid"]
        tokens = np.array([rows[0].tokens, rows[-1].tokens])
        guide = rows[-1].measured * (tokens / tokens[-1]) ** study.slope
        axes.loglog(tokens, guide, color="#666666", linestyle="--", label=f"slope {study.slope:.3g}")
        axes.loglog(
            [row.tokens for row in rows],
            [row.a_priori for row in rows],
            color="#009E73",
            linestyle=":",
            label="a priori",
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.set(title=study.name, xlabel="memory tokens N", ylabel="error")
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Everything."""
    lines = [
        "# Convergence of one head",
        "",
        "Made by `benchmarks/convergence.py`. Self-attention is `grid`, cross-attention `cross`; the bounds are",
        f"explained in [one head](one-head.md). Certificates had {SECONDS:g} seconds each and no tolerance, so a bound",
        "may be above what more time would prove; the largest networks were measured only. Measured errors are the",
        "largest over random points and a search in the sup norm, and come from a midpoint rule in L_p.",
        "",
    ]
    for title, name, studies in (("Sup norm", "sup", SUP), ("L_p, targets that jump", "lp", LP)):
        results = [{kind: run(study, kind) for kind in ("grid", "cross")} for study in studies]
        picture(DOCS / "images" / f"convergence_{name}.png", studies, results)
        lines += [f"## {title}", "", f"![{title}](images/convergence_{name}.png)", ""]
        for study, result in zip(studies, results, strict=True):
            lines += table(study, result)
    (DOCS / "convergence.md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
