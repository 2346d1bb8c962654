"""One head and an affine map for scattered, noisy data.

Rows are standardised. Tokens sit at the centres of clusters, with a metric found by evidence (`evidence.py`), and may
then be polished. All this is done on at most `TUNING.rows` rows. The values, the affine map and the constant are solved
for all rows, by the ridge problem that the evidence is about.

>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-1, 1, (200, 2))
>>> fit = fitted(X, np.sin(3 * X[:, :1]) * X[:, 1:], Recipe(32))
>>> fit(np.array([[0.5, 0.5]])).round(2), round(np.sin(1.5) / 2, 2)
(array([[0.5]]), np.float64(0.5))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from ..resources.deadline import NEVER, Deadline
from .evidence import Metric, Model, polished
from .tokens import Tokens

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RegressionTuning:
    """How a head is fitted to data. Errors on data are measured, so these values decide quality and time."""

    rows: int = 1000
    """Rows on which tokens are chosen. For time: fitting takes their square."""
    steps: int = 40
    """Steps towards a metric, and of polish. By trial."""
    widths: tuple[float, ...] = (0.3, 4.5)
    """Widths of tokens to start from: the evidence has poor local minima, which a few steps reveal. By trial."""
    scouts: int = 64
    """Tokens of the fit that compares starts. By trial."""
    scouting: int = 12
    """Steps of it. By trial."""
    coarse: float = 1e-4
    """The smallest noise for that, as a share of the variance of y: a coarse look shows which minimum is right,
    and near data without noise the evidence is too steep for steps of that size. By trial."""
    doubt: float = 0.1
    """Differences of evidence that say nothing. A tenth of a natural unit of evidence."""
    tie: float = 1e-9
    """Differences of squared distances that say nothing: rows of a lattice are as near to one centre as to another. A
    round number far above roundoff."""
    rounds: int = 50
    """Of clustering, at most. A round number: clusters settle in fewer."""
    block: int = 4096
    """Rows whose weights are in memory at a time. For memory."""


TUNING = RegressionTuning()

CONSTANT = 1e-12
"""A column whose spread beside its largest entry is smaller than this does not vary."""


@dataclass(frozen=True)
class Recipe:
    """What is to be fitted."""

    tokens: int
    polish: bool = False


@dataclass(frozen=True, eq=False)
class RegressionFit:
    """`y ≈ W(u) values + u slopes + constant`, u = (x - centre)/spread."""

    centre: Floats  # (D,)
    spread: Floats  # (D,)
    tokens: Tokens
    values: Floats  # (N, m)
    slopes: Floats  # (D, m)
    constant: Floats  # (m,)
    metric: Metric
    """From which fits of other sizes to the same rows may start."""

    def __call__(self, X: Floats) -> Floats:
        """Predictions in float64, (B, D) -> (B, m)."""
        u = (X - self.centre) / self.spread
        return self.tokens.weights(u) @ self.values + u @ self.slopes + self.constant


def fitted(
    X: Floats,
    y: Floats,
    recipe: Recipe,
    seed: int = 0,
    start: Metric | None = None,
    deadline: Deadline = NEVER,
) -> RegressionFit:
    """Fit rows (n, D) and (n, m), or TimeLimitReached; the same result for the same seed.

    O(n N²) and O(R N² S), R rows and S steps of `TUNING`.
    """
    rng = np.random.default_rng(seed)
    centre, spread = _standard(X)
    level, unit = _standard(y)
    u, z = (X - centre) / spread, (y - level) / unit
    few = np.sort(rng.permutation(len(u))[: TUNING.rows])
    some, data = u[few], z[few]
    centres = _centres(some, recipe.tokens, rng)
    scouted = start or _scouted(some, data, rng, deadline)
    model = scouted.improved(centres, some, data, TUNING.steps, deadline=deadline)[0].model(centres)
    if recipe.polish:
        model = polished(model, some, data, TUNING.steps, deadline)
    values, slopes, constant = _solved(model, u, z, deadline)
    tokens = model.tokens.about(np.zeros(u.shape[1]))
    return RegressionFit(centre, spread, tokens, unit * values, unit * slopes, level + unit * constant, scouted)


def _scouted(u: Floats, z: Floats, rng: np.random.Generator, deadline: Deadline) -> Metric:
    """A metric found with few tokens, from several starts; a later start must be better beyond doubt."""
    centres = _centres(u, TUNING.scouts, rng)
    best, least = Metric.usual(u.shape[1]), inf
    for width in TUNING.widths:
        found, value = Metric.usual(u.shape[1], width).improved(centres, u, z, TUNING.scouting, TUNING.coarse, deadline)
        if value < least - TUNING.doubt:
            best, least = found, value
    return best.improved(centres, u, z, TUNING.steps, TUNING.coarse, deadline)[0]


def _standard(columns: Floats) -> tuple[Floats, Floats]:
    """Means and standard deviations, the latter 1 for columns that do not vary."""
    spread = columns.std(axis=0)
    return columns.mean(axis=0), np.where(spread > CONSTANT * np.abs(columns).max(axis=0), spread, 1.0)


def _centres(u: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Centres of at most `count` clusters, (N, D); the distinct rows themselves if they are not more."""
    if count == 1:
        return u.mean(axis=0, keepdims=True)
    distinct = np.unique(u, axis=0)
    if len(distinct) <= count:
        return distinct
    return _clustered(u, distinct[rng.permutation(len(distinct))[:count]])


def _clustered(u: Floats, centres: Floats) -> Floats:
    """Means of the rows nearest to each centre, until they stay; the first of several that are equally near counts."""
    before = None
    for _ in range(TUNING.rounds):
        squares = (centres**2).sum(axis=1) - 2 * u @ centres.T  # (n, N), up to a number for each row
        nearest = np.argmax(squares <= squares.min(axis=1, keepdims=True) + TUNING.tie, axis=1)  # (n,)
        if before is not None and np.array_equal(nearest, before):
            break
        used, before = np.unique(nearest), nearest
        centres = np.array([u[nearest == cluster].mean(axis=0) for cluster in used])
    return centres


def _solved(model: Model, u: Floats, z: Floats, deadline: Deadline) -> tuple[Floats, Floats, Floats]:
    """Values (N, m), slopes (D, m) and constant (m,): the ridge problem of the evidence, on all rows.

    Normal equations, then once more for what they left: their condition is the square of that of the problem.
    """
    from scipy.linalg import cho_solve

    blocks = [slice(start, start + TUNING.block) for start in range(0, len(u), TUNING.block)]
    middle = np.sum([model.features(u[block]).sum(axis=0) for block in blocks], axis=0) / len(u)  # (F,)
    gram, moments = np.eye(len(middle)), np.zeros((len(middle), z.shape[1]))
    for block in blocks:
        deadline.check("fitting the data")
        features = model.features(u[block]) - middle  # (b, F)
        gram += features.T @ features
        moments += features.T @ z[block]
    factor = np.linalg.cholesky(gram), True
    solution = cho_solve(factor, moments)  # (F, m)
    left = -solution
    for block in blocks:
        features = model.features(u[block]) - middle
        left += features.T @ (z[block] - features @ solution)
    solution += cho_solve(factor, left)
    tokens = model.tokens.size
    return model.values * solution[:tokens], model.slopes * solution[tokens:], -middle @ solution
