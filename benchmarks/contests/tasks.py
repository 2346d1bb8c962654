"""Tasks in context: 20 examples of a random function of 5 variables, then queries, for learners of three kinds.

Constructed networks (`af.incontext`), an attention-only transformer trained on the very kind of task, and scikit-learn.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import attnfun as af
from attnfun.experiments.base import Cell, Curve, Panel, Picture, Result, Step, Table, quietly
from attnfun.experiments.drawing import BLUE, GREEN, ORANGE

from .base import Contest

Floats = npt.NDArray[np.float64]
EXAMPLES, VARIABLES, QUERIES, HIDDEN = 20, 5, 5, 10
PROMPTS, QUICK_PROMPTS = 200, 10
TUNING, QUICK_TUNING = 40, 4
SECONDS, QUICK_SECONDS = 40.0, 1.0
"""Training for each kind of task."""
STRENGTHS = (1e-6, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Penalties and widths to choose from, on prompts of their own."""
BATCH, PENALTY = 64, 1e-3
EXACT = 1e-9
"""Errors that count as none."""
CONSTRUCTED, TRAINED, SKLEARN = "constructed", "trained", "scikit-learn"


@dataclass(frozen=True)
class Prompts:
    """A batch: examples X (B, n, d), y (B, n), queries (B, k, d) and what is to be answered (B, k)."""

    X: Floats
    y: Floats
    queries: Floats
    wanted: Floats


Function = Callable[[np.random.Generator, int, Floats], Floats]


def _direction(rng: np.random.Generator, count: int, X: Floats) -> Floats:
    """A random direction for each prompt; (B, n + k, d) -> (B, n + k), of variance 1."""
    return np.einsum("bnd,bd->bn", X, rng.normal(size=(count, VARIABLES)) / VARIABLES**0.5)


def _two_layer(rng: np.random.Generator, count: int, X: Floats) -> Floats:
    inner = rng.normal(size=(count, VARIABLES, HIDDEN)) / VARIABLES**0.5
    outer = rng.normal(size=(count, HIDDEN)) * (2 / HIDDEN) ** 0.5
    return np.einsum("bnh,bh->bn", np.maximum(X @ inner, 0), outer)


KINDS: dict[str, Function] = {
    "linear": _direction,
    "ReLU": lambda *given: np.maximum(_direction(*given), 0),
    "sine": lambda *given: np.sin(2 * _direction(*given)),
    "two-layer": _two_layer,
}


def drawn(kind: str, count: int, rng: np.random.Generator) -> Prompts:
    """Random functions of a kind at random points."""
    X = rng.normal(size=(count, EXAMPLES + QUERIES, VARIABLES))
    y = KINDS[kind](rng, count, X)
    return Prompts(X[:, :EXAMPLES], y[:, :EXAMPLES], X[:, EXAMPLES:], y[:, EXAMPLES:])


Found = dict[str, dict[str, tuple[float, float, Floats]]]
"""Error, microseconds a prompt and answers, by learner and kind of task."""
Learner = Callable[[Prompts], Floats]
"""Answers, (B, k)."""


def squares(X: Floats) -> Floats:
    """Variables, their squares and products, which one layer of attention makes: (..., d) -> (..., d (d + 3) / 2)."""
    first, second = np.triu_indices(VARIABLES)
    return np.concatenate([X, X[..., first] * X[..., second]], axis=-1)


def _each(make: Callable[[], Any], features: Callable[[Floats], Floats] = np.asarray) -> Learner:
    """A scikit-learn estimator, fitted to one prompt after the other."""

    def answer(prompts: Prompts) -> Floats:
        pairs = zip(features(prompts.X), prompts.y, features(prompts.queries), strict=True)
        return np.stack([make().fit(X, y).predict(queries) for X, y, queries in pairs])

    return answer


@dataclass(frozen=True)
class Row:
    """A learner with one setting, and the settings it is chosen from."""

    name: str
    kind: str
    learner: Callable[[float], Learner]
    settings: tuple[float, ...] = (0.0,)
    twin: str = ""
    """The row of scikit-learn that solves the same problem."""


def rows() -> tuple[Row, ...]:
    """All learners but the trained one."""
    from sklearn import linear_model
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.kernel_ridge import KernelRidge

    def process() -> Any:
        kernel = ConstantKernel() * RBF(2.0) + WhiteKernel(1e-3)
        return GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)

    def kernel(gamma: float) -> Any:
        penalty: Any = PENALTY
        return KernelRidge(alpha=penalty, kernel="rbf", gamma=gamma)

    def both(title: str, ours: Any, theirs: Any, settings: tuple[float, ...], features: Any = np.asarray) -> list[Row]:
        return [
            Row(f"{title}, attention", CONSTRUCTED, lambda s: _each(lambda: ours(s), features), settings, title),
            Row(title, SKLEARN, lambda s: _each(lambda: theirs(s), features), settings),
        ]

    learn = af.incontext
    least = both("least squares", lambda _: learn.LinearRegression(), lambda _: linear_model.LinearRegression(), (0.0,))
    ridge = both("ridge", learn.Ridge, linear_model.Ridge, STRENGTHS)
    square = both("ridge on squares", learn.Ridge, linear_model.Ridge, STRENGTHS, squares)
    return (
        *(least[0], ridge[0], square[0]),
        Row("kernel regression, attention", CONSTRUCTED, lambda s: _each(lambda: learn.KernelRegression(s)), STRENGTHS),
        *(least[1], ridge[1], square[1]),
        Row("kernel ridge", SKLEARN, lambda s: _each(lambda: kernel(s)), STRENGTHS),
        Row("Gaussian process", SKLEARN, lambda _: _each(process)),
    )


def error(answers: Floats, prompts: Prompts) -> float:
    """Mean squared error over the variance."""
    return float(np.mean((answers - prompts.wanted) ** 2) / prompts.wanted.var())


class Tasks(Contest):
    """Learners beside each other on four kinds of tasks."""

    name = "tasks"
    title = "Tasks in context"
    extras = ("torch", "sklearn")

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """All kinds; quickly, few prompts and little training."""
        count, tuning, seconds = (QUICK_PROMPTS, QUICK_TUNING, QUICK_SECONDS) if quick else (PROMPTS, TUNING, SECONDS)
        found: Found = {}
        for number, kind in enumerate(KINDS):
            rng = np.random.default_rng(number)
            tune, test = drawn(kind, tuning, rng), drawn(kind, count, rng)
            for row in rows():
                step(f"{kind}: {row.name}")
                found.setdefault(row.name, {})[kind] = _answered(row, tune, test)
            step(f"{kind}: training a transformer")
            found.setdefault("transformer", {})[kind] = _transformer(kind, seconds, test)
        text = (
            f"Random functions of {VARIABLES} variables in context: {EXAMPLES} examples and {QUERIES} queries a "
            f"prompt, {count} prompts a kind, inputs standard normal, no noise. Linear: w·x. ReLU: max(0, w·x). Sine: "
            f"sin(2 w·x). Two-layer: a·max(0, Wx) with {HIDDEN} hidden units. Constructed networks are not told the "
            f"kind; penalties and widths are chosen on {tuning} prompts of their own from {len(STRENGTHS)} values, "
            f"for constructed learners by their twins. The transformer, four layers of attention without a "
            f"feed-forward part, is trained by Adam on fresh prompts of the kind it is tested on, {seconds:g} seconds "
            f"each. Errors: mean squares over the variance; 1 is as good as answering the mean."
        )
        return Result(text, (_picture(found),), (_table(found),))


def _answered(row: Row, tune: Prompts, test: Prompts) -> tuple[float, float, Floats]:
    """Error, microseconds a prompt and answers, with the setting that is best on the prompts for tuning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as many coefficients as examples: some have not converged
        twin = next((one for one in rows() if one.name == row.twin), row)
        setting = min(row.settings, key=lambda s: error(twin.learner(s)(tune), tune)) if len(row.settings) > 1 else 0.0
        began = time.process_time()
        answers = row.learner(setting)(test)
        spent = time.process_time() - began
    return error(answers, test), 1e6 * spent / len(test.X), answers


def _transformer(kind: str, seconds: float, test: Prompts) -> tuple[float, float, Floats]:
    """Train on fresh prompts of the kind."""
    import torch

    from .training import Reader, within

    rng = np.random.default_rng(99)

    def tensors(prompts: Prompts) -> tuple[Any, Any]:
        examples = np.concatenate([prompts.X, prompts.y[..., None], np.zeros((*prompts.y.shape, 1))], axis=-1)
        asked = np.concatenate([prompts.queries, np.zeros((*prompts.wanted.shape, 1))], axis=-1)
        asked = np.concatenate([asked, np.ones((*prompts.wanted.shape, 1))], axis=-1)
        rows = np.concatenate([examples, asked], axis=1)  # (B, n + k, d + 2)
        return torch.tensor(rows, dtype=torch.float32), torch.tensor(prompts.wanted, dtype=torch.float32)

    model = within(lambda: Reader(VARIABLES + 2, EXAMPLES), lambda: tensors(drawn(kind, BATCH, rng)), seconds)
    began = time.process_time()
    with torch.no_grad():
        answers = model(tensors(test)[0]).double().numpy()
    return error(answers, test), 1e6 * (time.process_time() - began) / len(test.X), answers


def _ties(found: Found, name: str, kind: str) -> bool:
    """Is it as good as the best?"""
    least = min(results[kind][0] for results in found.values())
    return found[name][kind][0] <= max(1.01 * least, EXACT)


def _table(found: Found) -> Table:
    twins = {row.name: row.twin for row in rows() if row.twin}
    kinds, lines = {row.name: row.kind for row in rows()}, []
    for name, results in found.items():
        off: Cell = None
        if name in twins:
            pairs = [(results[kind][2], found[twins[name]][kind][2]) for kind in KINDS]
            off = max(float(np.abs(ours - theirs).max()) for ours, theirs in pairs)
        cost = float(np.median([result[1] for result in results.values()]))
        lines.append((name, kinds.get(name, TRAINED), *(results[kind][0] for kind in KINDS), off, cost))
    best = {kind: [name for name in found if _ties(found, name, kind)] for kind in KINDS}
    lost = [
        f"{kind} to {names[0]}"
        for kind, names in best.items()
        if not any(kinds.get(name) == CONSTRUCTED for name in names)
    ]
    first = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in best.items())
    notes = (
        f"Smallest errors, and those within a hundredth of them or below {EXACT:g}: {first}. Constructed learners lose "
        f"{' and '.join(lost) or 'none'}, because they run the algorithm of their twin, to the difference shown (the "
        "largest over all answers), and no algorithm of theirs is as good. Squares and products make 20 coefficients "
        "of 20 examples: with a small penalty that is close to singular, and attention is then less exact."
    )
    columns = ("learner", "kind", *KINDS, "difference from its twin", "µs a prompt")
    return Table("learners", "Learners", columns, tuple(lines), notes)


def _picture(found: Found) -> Picture:
    kinds = {row.name: row.kind for row in rows()}
    looks = {CONSTRUCTED: (BLUE, "o"), TRAINED: (ORANGE, "s"), SKLEARN: (GREEN, "x")}
    panels = []
    for kind in KINDS:
        curves = []
        for label, (colour, mark) in looks.items():
            places = [place for place, name in enumerate(found) if kinds.get(name, TRAINED) == label]
            errors = [max(list(found.values())[place][kind][0], 1e-16) for place in places]
            curves.append(Curve(label, places, errors, mark, colour))
        panels.append(Panel(kind, "learner, as in the table", "error", tuple(curves), "semilogy"))
    return Picture("errors", "Errors of all learners on four kinds of tasks", tuple(panels))
