"""One head with general tokens for scattered data (attnfun's own; [T 6.2]).

**Construction.** `x -> u = (x - centre)/spread` is the first affine map. One cross-attention head reads u with scores
`a_j·u + b_j` and adds its values beside u (a residual connection), and the last affine map adds an affine function of
u. Tokens, values and affine function come from `pieces/regression.py`. How many tokens, and whether they are polished,
is decided by cross-validation: sizes in ascending order, the largest only if the second largest was the best. Rows are
sorted first, so that their order means nothing.

**Bound.** None: data say nothing between rows. The certificate is an estimate, the error at held-out rows. Each row is
predicted by a network, in the deployed arithmetic, that was fitted without its fold; the recipe is the one that did
best on the other folds, so that no row has a say in the choice of the network that it judges but through the networks
that judged others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..arguments import flag, whole_number
from ..errors import TimeLimitReached
from ..network import Affine, Attention, Network
from ..network.network import rounded
from ..pieces import evidence
from ..pieces.regression import CONSTANT, Recipe, RegressionFit, fitted
from ..resources.deadline import Deadline
from ..runtime.backends.numpy import run
from ..targets import Target
from ..targets.samples import SamplesTarget, Study, held_out_by
from .base import Construction, Plan, PlanRequest

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SizeTuning:
    """How a size is chosen by cross-validation. Errors on rows are measured, so these values decide quality and
    time."""

    sizes: tuple[int, ...] = (1, 16, 64, 256)
    """Tokens to try; one token is an affine function. Four times as many each."""
    always: int = 3
    """So many sizes are tried in any case. A round number."""
    worth: float = 0.99
    """A larger or polished head must have a squared error below this fraction of the simpler one's. A round number:
    what is simpler wins a tie."""
    trying: float = 0.7
    """The part of the time left on the clock for trying; the fit to all rows has the rest. By trial."""


TUNING = SizeTuning()

FOLDS = 5


class RegressionConstruction(Construction[SamplesTarget, RegressionFit]):
    """Cross-attention with tokens learnt from rows of data, and an affine part."""

    name: ClassVar[str] = "regression"
    theorem: ClassVar[str] = "general tokens by evidence, solved values, sized by cross-validation (attnfun)"
    options: ClassVar[frozenset[str]] = frozenset({"tokens", "polish", "folds"})
    figures: ClassVar[frozenset[str]] = frozenset({"rows", "polished", "held_out_rmse", "held_out_r2"})
    made_for: ClassVar[tuple[type[Target], ...]] = (SamplesTarget,)
    at_limit: ClassVar[str] = "use a larger eps, or bring more rows, less noise or other variables"

    def serves(self, target: Target) -> bool:
        """Data only."""
        return isinstance(target, SamplesTarget)

    def plan(self, target: SamplesTarget, request: PlanRequest) -> Plan[RegressionFit]:
        """Cross-validate, and fit the recipe that did best to all rows; the plan says what was held out."""
        order = target.samples.order
        X, y, settings = target.samples.X[order], target.samples.y[order], _Settings.of(request, len(order))
        trials, stopped = _tried(X, y, settings, request.deadline)
        best = _best(trials, np.ones(len(X), dtype=bool))
        fit = fitted(X, y, best.recipe, request.seed, best.metric, request.deadline)
        study = replace(_study(trials, y, settings, np.argsort(order)), stopped=stopped)
        figures = {"rows": float(len(X)), "polished": float(best.recipe.polish), "held_out_rmse": study.rmse}
        if study.r2 is not None:
            figures["held_out_r2"] = study.r2
        limit = study.error(request.norm) / target.domain.root_volume(request.norm)
        return Plan(fit.tokens.size, inf, fit, limit=limit, figures=figures, target=target.measured(study))

    def build(self, target: SamplesTarget, plan: Plan[RegressionFit], dtype: str) -> Network:
        """Write the fit down as layers."""
        return emitted(plan.details, dtype)

    def paper_tokens(self, target: SamplesTarget, plan: Plan[RegressionFit], eps: float) -> None:
        """The papers have no theorem about data."""


def emitted(fit: RegressionFit, dtype: str) -> Network:
    """Features (u, 0) of the data token; the head adds its values to the zeros; an affine map adds u's part."""
    (variables, outputs), tokens = fit.slopes.shape, fit.tokens.size
    inner = np.hstack([np.diag(1 / fit.spread), np.zeros((variables, outputs))])  # (D, D+m)
    read_in = Affine.tokenwise(inner, np.concatenate([-fit.centre / fit.spread, np.zeros(outputs)]))
    select = np.eye(variables + 1 + outputs)  # memory rows are (slopes, offset, values)
    query = np.eye(variables + outputs, variables + 1)  # (D+m, D+1): u, and room for the one
    query[variables:] = 0.0
    head = Attention.of(
        query=query[None],
        query_bias=np.eye(variables + 1)[-1:],
        key=select[None, :, : variables + 1],
        value=select[None, :, variables + 1 :],
        output=np.eye(outputs, variables + outputs, variables)[None],
        memory=np.hstack([fit.tokens.slopes, fit.tokens.offsets.reshape(tokens, 1), fit.values]),
        residual=True,
    )
    read_out = Affine.tokenwise(np.vstack([fit.slopes, np.eye(outputs)]), fit.constant)
    return Network(tuple(rounded(layer, dtype) for layer in (read_in, head, read_out)), 1, dtype)


@dataclass(frozen=True)
class _Settings:
    """Options, checked."""

    sizes: tuple[int, ...]
    polish: bool | None
    """None: whatever cross-validation says."""
    folds: int
    seed: int
    dtype: str
    rows: int

    @classmethod
    def of(cls, request: PlanRequest, rows: int) -> _Settings:
        tokens, polish = request.options.get("tokens"), request.options.get("polish")
        folds = request.options.get("folds", FOLDS)
        if tokens is not None:
            whole_number("tokens", tokens, 1, request.budget)
        if polish is not None:
            flag("polish", polish, remedy="Leave it out to let cross-validation decide.")
        whole_number("folds", folds, 2)
        sizes = {min(size, request.budget) for size in TUNING.sizes} if tokens is None else {int(tokens)}
        return cls(tuple(sorted(sizes)), polish, min(int(folds), rows), request.seed, request.dtype, rows)

    @property
    def fold(self) -> Floats:
        """The fold of each row, (n,): equal parts, shuffled."""
        return np.random.default_rng(self.seed).permutation(np.arange(self.rows) % self.folds)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A recipe and what it did to held-out rows."""

    recipe: Recipe
    residuals: Floats  # (n, m)
    metrics: tuple[Any, ...]
    """One for each fold."""
    units: Floats  # (m,)

    @property
    def metric(self) -> Any:
        """Where the fit to all rows starts."""
        return self.metrics[0]

    def loss(self, rows: npt.NDArray[np.bool_]) -> float:
        """Mean squared residuals over some rows, outputs in units of their variance, and the smallest noise."""
        return float(np.mean((self.residuals[rows] / self.units) ** 2)) + evidence.TUNING.noiseless


def _tried(X: Floats, y: Floats, settings: _Settings, deadline: Deadline) -> tuple[list[_Trial], str]:
    """Cross-validate recipes: the first one, or TimeLimitReached, then all, or why there was no time for all."""
    trials, later = list[_Trial](), deadline.sooner(TUNING.trying)
    try:
        for recipe, before in _recipes(len(X), settings, trials):
            trials.append(_trial(X, y, recipe, settings, before, later if trials else deadline))
    except TimeLimitReached as late:
        if not trials:
            raise
        return trials, f"{late.reason}, for there are sizes that were not tried"
    return trials, ""


def _recipes(rows: int, settings: _Settings, trials: list[_Trial]) -> Iterator[tuple[Recipe, _Trial | None]]:
    """What to try next, given the trials so far, and the one to start from: it finds its metric sooner."""
    everything = np.ones(rows, dtype=bool)
    smallest_fit = int(np.bincount(settings.fold).max())
    for place, size in enumerate(settings.sizes):
        before = settings.sizes[place - 1] if place else 0
        if place >= TUNING.always and _best(trials, everything).recipe.tokens < before:
            break
        if before >= rows - smallest_fit:
            break
        yield Recipe(size, bool(settings.polish)), trials[-1] if trials else None
    best = _best(trials, everything)
    if settings.polish is None and best.recipe.tokens > 1:
        yield replace(best.recipe, polish=True), best


def _trial(
    X: Floats, y: Floats, recipe: Recipe, settings: _Settings, before: _Trial | None, deadline: Deadline
) -> _Trial:
    """Fit without each fold in turn, and run the network on the rows of that fold."""
    residuals, metrics, spread = np.empty_like(y), [], y.std(axis=0)
    for fold in range(settings.folds):
        out = settings.fold == fold  # (n,)
        start = before.metrics[fold] if before else None
        fit = fitted(X[~out], y[~out], recipe, settings.seed, start, deadline)
        residuals[out] = run(emitted(fit, settings.dtype), X[out][:, None])[:, 0] - y[out]
        metrics.append(fit.metric)
    return _Trial(recipe, residuals, tuple(metrics), np.where(spread > 0, spread, 1.0))


def _best(trials: list[_Trial], rows: npt.NDArray[np.bool_]) -> _Trial:
    """The best on some rows; a later trial, which is larger or polished, must be worth it."""
    best = trials[0]
    for trial in trials[1:]:
        if trial.loss(rows) < TUNING.worth * best.loss(rows):
            best = trial
    return best


def _study(trials: list[_Trial], y: Floats, settings: _Settings, places: npt.NDArray[np.intp]) -> Study:
    """What happened to the rows of each fold, by the recipe that did best on the others; rows go to their `places`."""
    residuals, fold = np.empty_like(y), settings.fold
    for k in range(settings.folds):
        residuals[fold == k] = _best(trials, fold != k).residuals[fold == k]
    deviations = ((y - y.mean(axis=0)) ** 2).sum(axis=0)  # (m,)
    varies = deviations > len(y) * (CONSTANT * np.abs(y).max(axis=0)) ** 2
    r2 = float(np.mean(1 - (residuals**2).sum(axis=0)[varies] / deviations[varies])) if varies.any() else None
    table = tuple(
        {
            "tokens": trial.recipe.tokens,
            "polish": trial.recipe.polish,
            "rmse": [float(np.sqrt(np.mean(trial.residuals[fold == k] ** 2))) for k in range(settings.folds)],
        }
        for trial in trials
    )
    return Study(residuals[places], r2, table, held_out_by(len(y), settings.folds, settings.seed))
