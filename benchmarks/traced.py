"""Functions that NumPy users write: which of them are proved, and what that takes.

    python benchmarks/traced.py                   # all of it
    python benchmarks/traced.py --only softmax    # those whose name holds a word, printed and not written

Functions from physics, finance, statistics, geometry, small neural layers and programming, as they are written for
NumPy and SciPy, each with a tolerance. Writes benchmarks/results/traced.md: status, construction, tokens, bound,
seconds of the processor, and whether the formula of the same operations has the same construction, tokens and bound (to
six digits: networks are fitted to values of the function itself, which may be rounded in another order). What the first
sixty were before functions were traced through NumPy's protocols is read from results/traced-before.csv.
"""

# ruff: noqa: D103 - functions as users write them

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special
from scipy.interpolate import CubicSpline, interp1d, make_interp_spline
from scipy.special import erf, expit
from scipy.stats import norm

import attnfun as af
from attnfun.formula.writing import written
from attnfun.resources.deadline import Deadline

RESULTS = Path(__file__).parent / "results"
LIMIT = 20.0
"""Seconds of the processor for one function."""
RNG = np.random.default_rng(7)
W1, B1, W2 = RNG.normal(size=(3, 5)), RNG.normal(size=5), RNG.normal(size=5)
Q, K, V = (RNG.normal(size=(2, 2)) / 2 for _ in range(3))
SIGMA = np.array([[2.0, 0.5], [0.5, 1.0]])
KNOTS = np.linspace(0.0, 3.0, 7)
PAIR, TRIPLE, DOZEN = [(-1, 1)] * 2, [(-1, 1)] * 3, [(-1, 1)] * 12
SLOPES = np.linspace(-1, 1, 12)
STATUSES = ("proved", "conditional", "estimated", "none")


@dataclass(frozen=True)
class Case:
    """A function, where, and how closely."""

    field: str
    name: str
    function: Callable[..., Any]
    domain: Any
    eps: float = 1e-2


def planck(x):
    return x**3 / np.expm1(x)


def pendulum(p):
    theta, omega = p[..., 0], p[..., 1]
    return 0.5 * omega**2 + 9.81 * (1 - np.cos(theta))


def damped(t, w):
    return np.exp(-0.3 * t) * np.cos(w * t)


def lennard_jones(r):
    s = 1.0 / np.power(r, 6)
    return 4 * (s * s - s)


def relativistic(v):
    return 1.0 / math.sqrt(1.0 - v * v)


def doppler(x):
    return np.sqrt(x * (1 - x)) * np.sin(2.1 * np.pi / (x + 0.3))


def van_der_pol(p):
    out = np.empty_like(p)
    out[..., 0] = p[..., 1]
    out[..., 1] = (1 - p[..., 0] ** 2) * p[..., 1] - p[..., 0]
    return out


def lorenz(p):
    x, y, z = np.moveaxis(p, -1, 0)
    return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], axis=-1)


def saturating(p):
    q = p.copy()
    q *= 3
    q += 0.5
    np.tanh(q, out=q)
    return q.sum(axis=-1)


def black_scholes(s, v):
    d1 = (np.log(s) + 0.5 * v**2) / v
    d2 = d1 - v
    return s * 0.5 * (1 + erf(d1 / np.sqrt(2))) - 0.5 * (1 + erf(d2 / np.sqrt(2)))


def present_value(rate):
    return sum(5.0 / (1 + rate) ** k for k in range(1, 11))


def payoff(s):
    return np.maximum(s - 1.0, 0.0)


def collar(s):
    return np.clip(s, 0.9, 1.1)


def progressive_tax(x):
    return np.interp(x, [0.0, 1.0, 3.0, 6.0], [0.0, 0.0, 0.4, 1.6])


def portfolio(w):
    return np.sqrt(np.einsum("...i,ij,...j->...", w, SIGMA, w))


def utility(c):
    return (c**0.3 - 1) / 0.3


def gaussian(p):
    return np.exp(-0.5 * np.einsum("...i,ij,...j->...", p, np.linalg.inv(SIGMA), p))


def logistic_loss(p):
    return np.logaddexp(0.0, -p[..., 0] * p[..., 1])


def huber(x):
    return np.where(np.abs(x) <= 1, 0.5 * x**2, np.abs(x) - 0.5)


def z_scores(p):
    return (p - p.mean(axis=-1, keepdims=True)) / np.sqrt(p.var(axis=-1, keepdims=True) + 0.1)


def entropy(p):
    return -(p * np.log(p)) - (1 - p) * np.log1p(-p)


def softmax(p):
    e = np.exp(p - np.max(p, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def mlp(X):
    return np.tanh(X @ W1 + B1) @ W2


def relu_layer(X):
    return np.maximum(0, X @ W1 + B1) @ W2


def attention(X):
    scores = (X @ Q) @ np.swapaxes(X @ K, -1, -2)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return weights @ (X @ V)


def layer_norm(p):
    return (p - p.mean(-1, keepdims=True)) / (p.std(-1, keepdims=True) + 0.5)


def two_charges(x, y):
    return 1 / np.hypot(x - 2, y) - 1 / np.hypot(x + 2, y)


def heat_kernel(x, t):
    return np.exp(-(x**2) / (4 * t)) / np.sqrt(4 * np.pi * t)


def haversine(p):
    return np.sin(p[..., 0] / 2) ** 2 + np.cos(p[..., 0]) * np.sin(p[..., 1] / 2) ** 2


def bending(x):
    if not isinstance(x, np.ndarray):
        raise TypeError("an array, please")
    return np.asarray(x) ** 2 * (3 - x)


def matrices(p):
    return p.reshape(*p.shape[:-1], 2, 2)


def runge_kutta(u, h=0.1):
    def slope(v):
        return np.stack([v[..., 1], -np.sin(v[..., 0])], -1)

    k1 = slope(u)
    k2 = slope(u + h / 2 * k1)
    k3 = slope(u + h / 2 * k2)
    return u + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(u + h * k3))


def newton_root(x):
    y = np.ones_like(x)
    for _ in range(4):
        y = 0.5 * (y + x / y)
    return y


def brackets(x):
    if x < 1:
        return 0.1 * x
    return 0.1 + 0.3 * (x - 1) if x < 2 else 0.4 + 0.5 * (x - 2)


def rectified(x):
    out = np.zeros(x.shape)
    out[x > 0] = x[x > 0] ** 2
    return out


def call_price(s, v):
    d = np.log(s) / v + v / 2
    return s * norm.cdf(d) - norm.cdf(d - v)


def kernel(x, y, width):
    return math.exp(-((x - y) ** 2) / width)


class Oscillator:
    """A model with a parameter."""

    def __init__(self, stiffness):
        self.stiffness = stiffness

    def energy(self, x, v):
        """Of a spring and its mass."""
        return self.stiffness * math.pow(x, 2) / 2 + v**2 / 2


TABLE = interp1d(KNOTS, np.cos(KNOTS))
SPLINE = CubicSpline(KNOTS, np.sin(KNOTS))
DIAGONAL = [(2, 3), (-1, 1), (-1, 1), (2, 3)]
CASES = (
    Case("physics", "planck", planck, (0.5, 8)),
    Case("physics", "pendulum energy", pendulum, [(-3, 3), (-2, 2)]),
    Case("physics", "damped wave", damped, {"t": (0, 3), "w": (1, 2)}),
    Case("physics", "Lennard-Jones", lennard_jones, (0.95, 3)),
    Case("physics", "Lorentz factor", relativistic, (0, 0.9)),
    Case("physics", "doppler", doppler, (0.05, 0.95)),
    Case("physics", "van der Pol", van_der_pol, PAIR),
    Case("physics", "Lorenz", lorenz, TRIPLE),
    Case("physics", "in place", saturating, PAIR),
    Case("physics", "beam", bending, (0, 1)),
    Case("physics", "Fermi-Dirac", lambda e: 1 / (np.exp(5 * e) + 1), (-1, 1)),
    Case("physics", "sinc of slits", lambda x: np.sinc(2 * x) ** 2, (-2, 2)),
    Case("physics", "two charges", two_charges, {"x": (-1, 1), "y": (-1, 1)}),
    Case("physics", "Morse", lambda r: (1 - np.exp(-(r - 1))) ** 2, (0.5, 3)),
    Case("physics", "heat kernel", heat_kernel, {"x": (-1, 1), "t": (0.5, 1)}),
    Case("finance", "Black-Scholes", black_scholes, {"s": (0.8, 1.2), "v": (0.2, 0.4)}),
    Case("finance", "present value", present_value, (0.01, 0.2)),
    Case("finance", "call payoff", payoff, (0, 2)),
    Case("finance", "collar", collar, (0, 2)),
    Case("finance", "progressive tax", progressive_tax, (0, 6)),
    Case("finance", "portfolio risk", portfolio, [(0.2, 1)] * 2),
    Case("finance", "utility", utility, (0.5, 3)),
    Case("finance", "compound", lambda r, t: np.exp(r * t), {"r": (0, 0.1), "t": (0, 10)}),
    Case("finance", "basket put", lambda p: np.maximum(1 - p @ np.array([0.3, 0.3, 0.4]), 0), [(0.5, 1.5)] * 3),
    Case("finance", "spread", lambda a, b: np.maximum(a - b, 0) - 0.5 * np.minimum(a, b), {"a": (0, 1), "b": (0, 1)}),
    Case("finance", "log return", lambda p: np.log(p[..., 1] / p[..., 0]), [(0.5, 2)] * 2),
    Case("statistics", "gaussian", gaussian, PAIR),
    Case("statistics", "logistic loss", logistic_loss, PAIR),
    Case("statistics", "huber", huber, (-2, 2)),
    Case("statistics", "z-scores", z_scores, TRIPLE, 5e-2),
    Case("statistics", "entropy", entropy, (0.05, 0.95)),
    Case("statistics", "normal density", lambda x: np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), (-3, 3)),
    Case("statistics", "normal distribution", lambda x: 0.5 * (1 + erf(x / np.sqrt(2))), (-3, 3)),
    Case("statistics", "variance", lambda p: np.var(p, axis=-1), TRIPLE),
    Case("statistics", "root mean square", lambda p: np.sqrt(np.mean(p**2, axis=-1) + 0.01), PAIR),
    Case("statistics", "geometric mean", lambda p: np.prod(p, axis=-1) ** (1 / 3), [(0.5, 2)] * 3),
    Case("statistics", "log-sum-exp", lambda p: np.log(np.sum(np.exp(p), axis=-1)), TRIPLE),
    Case("statistics", "cauchy", lambda x: 1 / (np.pi * (1 + x * x)), (-3, 3)),
    Case("statistics", "quadratic loss", lambda p: ((p - np.array([0.1, 0.2, 0.3])) ** 2).mean(-1), TRIPLE),
    Case("statistics", "range", lambda p: np.max(p, axis=-1) - np.min(p, axis=-1), TRIPLE),
    Case("geometry", "norm", lambda p: np.linalg.norm(p, axis=-1), [(0.1, 1)] * 2),
    Case("geometry", "Manhattan", lambda p: np.linalg.norm(p, 1, axis=-1), TRIPLE),
    Case("geometry", "angle", lambda x, y: np.arctan2(y, x), {"x": (0.5, 1), "y": (-1, 1)}),
    Case("geometry", "box distance", lambda p: np.linalg.norm(np.maximum(np.abs(p) - 0.5, 0), axis=-1), PAIR, 5e-2),
    Case("geometry", "cross product", lambda p: np.cross(p, np.array([1.0, 2.0, -1.0])), TRIPLE),
    Case("geometry", "rotation", lambda p: p @ np.array([[0.0, -1.0], [1.0, 0.0]]), PAIR),
    Case("geometry", "haversine", haversine, PAIR),
    Case("geometry", "spline", CubicSpline(KNOTS, np.sin(KNOTS)), (0, 3)),
    Case("geometry", "B-spline", make_interp_spline(KNOTS, np.cos(KNOTS), k=3), (0, 3)),
    Case("geometry", "polynomial", np.polynomial.Polynomial([1.0, -2.0, 0.5, 1.0]), (-1, 1)),
    Case("geometry", "polyval", lambda x: np.polyval([1.0, 0.0, -2.0, 1.0], x), (-1, 1)),
    Case("geometry", "bilinear", lambda p: np.inner(p, SIGMA)[..., 0] * p[..., 1], PAIR),
    Case("layers", "softmax", softmax, PAIR),
    Case("layers", "mlp", mlp, TRIPLE),
    Case("layers", "relu layer", relu_layer, TRIPLE),
    Case("layers", "attention", attention, [[(-1, 1)] * 2] * 2, 5e-2),
    Case("layers", "layer norm", layer_norm, TRIPLE, 5e-2),
    Case("layers", "gelu", lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), (-3, 3)),
    Case("layers", "swish of a sum", lambda X: (X @ SLOPES) * expit(X @ SLOPES), DOZEN),
    Case("layers", "gated", lambda X: np.tanh(7 * (X @ SLOPES)) + X[..., 0] ** 2, DOZEN),
    Case("programs", "determinant", lambda p: np.linalg.det(matrices(p)), [(-1, 1)] * 4),
    Case("programs", "inverse", lambda p: np.linalg.inv(matrices(p)).reshape(-1, 4), DIAGONAL),
    Case("programs", "solve", lambda p: np.linalg.solve(SIGMA, p[..., None])[..., 0], PAIR),
    Case("programs", "eigenvalues", lambda p: np.linalg.eigvalsh(matrices(p)), DIAGONAL, 2e-2),
    Case("programs", "sort", lambda p: np.sort(p, axis=-1), PAIR, 2e-2),
    Case("programs", "median", lambda p: np.median(p, axis=-1), TRIPLE, 2e-2),
    Case("programs", "smoothing", lambda p: np.array([np.convolve(row, [0.5, 0.5], "valid") for row in p]), TRIPLE),
    Case("programs", "gradient", lambda p: np.gradient(np.exp(p), 0.5, axis=-1), TRIPLE, 2e-2),
    Case("programs", "trapezoid", lambda p: np.trapezoid(np.exp(p), dx=0.5, axis=-1), TRIPLE),
    Case("programs", "SciPy's softmax", lambda p: special.softmax(p, axis=-1), TRIPLE, 2e-2),
    Case("programs", "SciPy's logsumexp", lambda p: special.logsumexp(p, axis=-1), TRIPLE, 2e-2),
    Case("programs", "call price", call_price, {"s": (0.8, 1.2), "v": (0.2, 0.4)}),
    Case("programs", "branches", brackets, {"x": (0, 3)}),
    Case("programs", "selection", rectified, (-1, 1)),
    Case("programs", "method", Oscillator(2.0).energy, {"x": (-1, 1), "v": (-1, 1)}),
    Case("programs", "partial", partial(kernel, width=2.0), {"x": (-1, 1), "y": (-1, 1)}),
    Case("programs", "spline inside", lambda x: SPLINE(x) ** 2 + TABLE(x), (0, 3), 2e-2),
    Case("programs", "Runge-Kutta", runge_kutta, PAIR),
    Case("programs", "Newton's root", newton_root, (0.5, 2)),
    Case("programs", "Python's max", lambda x, y: max(x, min(y, 0.5)), {"x": (-1, 1), "y": (-1, 1)}, 2e-2),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What became of a case."""

    case: Case
    status: str
    what: str
    seconds: float
    twin: str
    """Has the formula the same construction, tokens and bound?"""


def run(case: Case) -> Row:
    """Compile it, with a limit in seconds of the processor, and the formula of its operations."""
    start = time.process_time()
    domain: Any = case.domain
    if isinstance(domain, list) and isinstance(domain[0], list):
        ends = np.array(domain, dtype=float)
        domain = af.Box(ends[..., 0], ends[..., 1])
    try:
        net = af.compile(case.function, domain, case.eps, time_limit=Deadline.after(LIMIT, time.process_time))
    except af.errors.AttnfunError as reason:
        return Row(case, "none", str(reason)[:200], time.process_time() - start, "")
    seconds, status = time.process_time() - start, net.certificate.status.value
    what = said(net) if status == "proved" else net.certificate.assumptions[0]
    return Row(case, status, what, seconds, twin(case, net) if status == "proved" else "")


def said(net: af.types.Compiled) -> str:
    """The network in a few words."""
    return f"{net.construction}, {net.network.tokens} tokens, {net.certificate.bound:.2g}"


def twin(case: Case, net: af.types.Compiled) -> str:
    """The formula of the same operations beside the function; formulas have no sequences."""
    target: Any = net.certificate.claim.target
    formula = written(target.program, net.domain.axes)
    if formula is None or len(net.domain.shape) > 1:
        return "no formula"
    box = af.Box(net.domain.lo.ravel(), net.domain.hi.ravel(), list(net.domain.axes))
    same = af.compile(formula, box, case.eps, time_limit=Deadline.after(LIMIT, time.process_time))
    equal = math.isclose(same.certificate.bound, net.certificate.bound, rel_tol=1e-6)
    return "same" if equal and said(same) == said(net) else said(same)


def main() -> None:
    """Run the cases and write the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--only", default="")
    only = options.parse_args().only
    rows = []
    for case in CASES:
        if only in case.name:
            rows.append(run(case))
            row = rows[-1]
            sys.stdout.write(f"{row.seconds:7.2f} s  {row.status:10} {case.name}: {row.what}; formula: {row.twin}\n")
            sys.stdout.flush()
    if only:
        return
    with (RESULTS / "traced-before.csv").open() as file:
        before = {row["function"]: row for row in csv.DictReader(file)}
    known = [before[row.case.name]["status"] for row in rows if row.case.name in before]
    equal, formulas = sum(row.twin == "same" for row in rows), sum(row.twin not in ("", "no formula") for row in rows)
    lines = [
        "# Functions that NumPy users write",
        "",
        f"{len(rows)} functions: {_counted([row.status for row in rows])}. {equal} of {formulas} have the "
        "construction, the tokens and the bound, to six digits, of the formula of the same operations.",
        "",
        f"The first {len(known)} before functions were traced through NumPy's protocols: {_counted(known)}, with 6 "
        "seconds each by the clock. Seconds in the table are those of the processor.",
        "",
        "| field | function | eps | before | seconds | status | construction, tokens, bound | seconds | formula |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_line(row, before.get(row.case.name, {})) for row in rows),
    ]
    (RESULTS / "traced.md").write_text("\n".join(lines) + "\n")


def _counted(statuses: list[str]) -> str:
    return ", ".join(f"{statuses.count(status)} {status}" for status in STATUSES)


def _line(row: Row, before: dict[str, str]) -> str:
    then = f"{before.get('status', '')} | {before.get('seconds', '')}"
    now = f"{row.status} | {row.what} | {row.seconds:.1f} | {row.twin}"
    return f"| {row.case.field} | {row.case.name} | {row.case.eps:g} | {then} | {now} |"


if __name__ == "__main__":
    main()
