"""How wide tokens for scattered, noisy data should be: as the evidence says.

A head and an affine map predict `y ≈ W(u) v + u A + c`, W the weights of the tokens. Let values v and slopes A be
independent normal numbers, of standard deviations τ and α in units of the noise. Then y is normal too, and with
values, slopes, c and the size of the noise taken out, the probability of the data is exp(-E) up to a constant,

    E = m/2 log det(FᵀF + I) + (n-1)/2 Σ_k log q_k,    F = (τ W, α u) with columns centred,
    q_k = min over b of |y_k - F b|² + |b|² + n floor.

The floor is the smallest noise there is. The minimum is variable projection [T 6.2] with a ridge; the determinant
is the price of tokens that could follow anything. With r = y - F b,
`∂E/∂F = m F (FᵀF + I)⁻¹ - (n-1) Σ_k r_k b_kᵀ/q_k`, and a score moves the weights by `∂W_i/∂s_ij = W_ij (e_j - W_i)`.
So E has cheap derivatives by all slopes and offsets, O(n N² + n N D) in all, and whatever tokens depend on can be
found by L-BFGS: here a metric (`Metric`), or every slope and offset (`polished`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, log
from typing import Any

import numpy as np
import numpy.typing as npt

from ..resources.deadline import NEVER, Deadline
from .tokens import Tokens

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class EvidenceTuning:
    """How a metric is found. A metric is an estimate, so nothing that is proved depends on these values."""

    noiseless: float = 1e-8
    """The smallest noise, as a share of the variance of y. Without it the evidence of an output that tokens can follow
    exactly has no minimum, and what rounding leaves of its residuals would choose the metric for all outputs. A
    round number far above roundoff."""
    sizes: tuple[float, float] = (-8.0, 9.0)
    """Limits of log τ and log α: values as large as those of y are e⁹ times the smallest noise. `n τ²` times the unit
    roundoff stays below one, so that FᵀF + I is positive definite. From the sizes of numbers in float64."""
    rates: tuple[float, float] = (-14.0, 8.0)
    """Limits of the logarithms of a metric. Widths from a thousandth to a thousand spreads."""
    first_sizes: tuple[float, float] = (1.0, -1.0)
    """log τ and log α to start from. By trial."""
    prior: float = 0.1
    """Weight of the squares of the logarithms, counted from `Metric.usual`: where the data say little, it decides. By
    trial."""
    stiffness: float = 1.0
    """Weight of the square of polished moves. By trial."""
    leg: int = 8
    """Every so many steps of a descent its place is rounded, see `_descended`. A round number."""
    grid: float = 2.0**-10
    """It is rounded to multiples of this. Coarse beside what rounding changes, fine beside what matters."""
    least_gain: float = 1e-6
    """Relative gains of a step below this say nothing about the data. A round number."""


TUNING = EvidenceTuning()


@dataclass(frozen=True, eq=False)
class Model:
    """Tokens, and the sizes of values and of affine slopes in units of the noise."""

    tokens: Tokens
    values: float
    """τ."""
    slopes: float
    """α."""

    def features(self, u: Floats) -> Floats:
        """(n, D) -> (n, N + D), not centred."""
        return np.hstack([self.values * self.tokens.weights(u), self.slopes * u])


@dataclass(frozen=True, eq=False)
class Evidence:
    """E and its derivatives."""

    value: float
    by_slope: Floats  # (N, D)
    by_offset: Floats  # (N,)
    by_sizes: Floats  # (2,), of log τ and log α

    @classmethod
    def of(cls, model: Model, u: Floats, y: Floats, floor: float = TUNING.noiseless) -> Evidence:
        """For standardised rows (n, D) and (n, m), and noise of at least `floor`; O(n N² + n N D)."""
        count, outputs = y.shape
        weights, tokens = model.tokens.weights(u), model.tokens.size
        features = np.hstack([model.values * weights, model.slopes * u])  # (n, F)
        features -= features.mean(axis=0)
        basis, inverse, logarithms = _orthogonal(features)
        parts = basis.T @ y  # (F, m)
        left = y - basis @ parts  # (n, m)
        solution = inverse @ parts  # (F, m)
        noise = (left**2).sum(axis=0) + (solution**2).sum(axis=0) + floor * count  # (m,)
        value = outputs * logarithms + (count - 1) / 2 * np.log(noise).sum()
        by_feature = outputs * (basis @ inverse.T) - (left * ((count - 1) / noise)) @ solution.T  # (n, F)
        shares = by_feature * features
        by_weight = model.values * (by_feature[:, :tokens] - by_feature[:, :tokens].mean(axis=0))  # (n, N)
        by_score = weights * (by_weight - (by_weight * weights).sum(axis=1, keepdims=True))
        by_sizes = np.array([shares[:, :tokens].sum(), shares[:, tokens:].sum()])
        return cls(float(value), by_score.T @ u, by_score.sum(axis=0), by_sizes)


def _orthogonal(features: Floats) -> tuple[Floats, Floats, float]:
    """(F; I) = (Q; R⁻¹) R with orthogonal columns: Q (n, F), R⁻¹ (F, F) and log det R.

    Cholesky's factor of FᵀF + I, and that of what it leaves of the identity: the first alone would square the condition
    of (F; I) in every derivative.
    """
    from scipy.linalg import solve_triangular

    whole, logarithms = np.vstack([features, np.eye(features.shape[1])]), 0.0  # (n + F, F)
    for _ in range(2):
        triangle = np.linalg.cholesky(whole.T @ whole)  # (F, F), Rᵀ
        whole = solve_triangular(triangle, whole.T, lower=True, check_finite=False).T
        logarithms += float(np.log(np.diag(triangle)).sum())
    return whole[: len(features)], whole[len(features) :], logarithms


@dataclass(frozen=True, eq=False)
class Metric:
    """Distances `Σ_d ρ_d (u_d - c_d)²`, with the sizes that go with them.

    Tokens at centres c_j with scores `-½ Σ_d ρ_d (u_d - c_jd)²` are affine in u up to a common term: slopes ρ c_j,
    offsets `-½ Σ_d ρ_d c_jd²`.
    """

    rates: Floats  # (D,), log ρ
    sizes: Floats  # (2,), log τ and log α

    @classmethod
    def usual(cls, variables: int, width: float = 1.0) -> Metric:
        """All variables alike; at width 1, ρ is 1/D, so that tokens see about as far as rows are apart."""
        return cls(np.full(variables, -log(variables * width**2)), np.array(TUNING.first_sizes))

    def model(self, centres: Floats) -> Model:
        """Tokens at the centres, (N, D)."""
        rho = np.exp(self.rates)
        tokens = Tokens(centres * rho, -0.5 * centres**2 @ rho)
        return Model(tokens, exp(self.sizes[0]), exp(self.sizes[1]))

    def improved(
        self,
        centres: Floats,
        u: Floats,
        y: Floats,
        steps: int,
        floor: float = TUNING.noiseless,
        deadline: Deadline = NEVER,
    ) -> tuple[Metric, float]:
        """At most `steps` steps towards the least E for these rows and noise of at least `floor`; the value there."""
        variables, usual = u.shape[1], Metric.usual(u.shape[1])
        first = np.concatenate([usual.rates, usual.sizes])

        def at(p: Floats) -> tuple[float, Floats]:
            deadline.check("fitting the data")
            here = Metric(p[:variables], p[variables:])
            found, rho, away = Evidence.of(here.model(centres), u, y, floor), np.exp(here.rates), p - first
            by_rate = ((found.by_slope * centres).sum(axis=0) - 0.5 * found.by_offset @ centres**2) * rho  # (D,)
            gradient = np.concatenate([by_rate, found.by_sizes]) + TUNING.prior * away
            return found.value + TUNING.prior / 2 * float(away @ away), gradient

        start = np.concatenate([self.rates, self.sizes])
        p, value = _descended(at, start, [TUNING.rates] * variables + [TUNING.sizes] * 2, steps)
        return Metric(p[:variables], p[variables:]), value


def polished(model: Model, u: Floats, y: Floats, steps: int, deadline: Deadline = NEVER) -> Model:
    """Every slope and offset moved towards the least E, at the price of `TUNING.stiffness` times the squared moves."""
    start = np.column_stack([model.tokens.slopes, model.tokens.offsets])  # (N, D+1)

    def moved(p: Floats) -> Model:
        places = start + p[:-2].reshape(start.shape)
        return Model(Tokens(places[:, :-1], places[:, -1]), exp(p[-2]), exp(p[-1]))

    def at(p: Floats) -> tuple[float, Floats]:
        deadline.check("fitting the data")
        found, moves = Evidence.of(moved(p), u, y), p[:-2]
        by_move = np.column_stack([found.by_slope, found.by_offset]).ravel() + TUNING.stiffness * moves
        return found.value + TUNING.stiffness / 2 * float(moves @ moves), np.concatenate([by_move, found.by_sizes])

    first = np.concatenate([np.zeros(start.size), [log(model.values), log(model.slopes)]])
    return moved(_descended(at, first, [(None, None)] * start.size + [TUNING.sizes] * 2, steps)[0])


def _descended(
    at: Callable[[Floats], tuple[float, Floats]], start: Floats, bounds: list[tuple[Any, Any]], steps: int
) -> tuple[Floats, float]:
    """The point reached, and its value.

    L-BFGS multiplies differences of the last digit by a factor a step; in legs that start from multiples of a grid they
    are dropped before they matter, and the same point is reached whatever the order of sums.
    """
    from scipy.optimize import minimize

    point, value = start, inf
    for done in range(0, steps, TUNING.leg):
        leg = min(TUNING.leg, steps - done)
        options = {"maxiter": leg, "ftol": TUNING.least_gain}
        found = minimize(at, point, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        point, value = TUNING.grid * np.round(found.x / TUNING.grid), float(found.fun)
        if found.nit < leg:
            break
    return point, value
