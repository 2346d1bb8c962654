"""Cell means and what they are worth in L_p ([A], 1 <= p < ∞: f integrable, jumps allowed) [T 3.5].

**Bound (ours).** A head over a grid of spacing h_k with sharpness `β_k = γ/h_k²`, whose values are the means of f over
the cells, satisfies

    ‖f - head‖_p <= A^{D/p} ω_p(h),      A = 2 (1 + Σ_{m>=1} (m+1)^p e^{-γm(m-1)/2} 2/(γ(2m-1))),

with `ω_p(h)` the largest `‖f(· + t) - f‖_p` over shifts `|t_k| <= h_k` (where both points are in the box). For γ = 10,
A is 2.81 in L_1 and 3.61 in L_2, and A -> 2 for large γ. *Proof.* Let `j(y)` be the cell of y. By Jensen, twice,

    |f(x) - Σ_j w_j(x) mean_j|^p <= Σ_j w_j(x) |f(x) - mean_j|^p <= ∫ w_{j(y)}(x)/|cell| |f(x) - f(y)|^p dy.

Integrate over x and put y = x + t. The factor `w_{j(x+t)}(x)` is a product over the axes, so take one of them, h = 1,
x at the offset θ, |θ| <= 1/2, from its own centre c_0, y in cell j. It is at most 1; and as token 0 is there, it is at
most `e^{-γ j(j-2θ)/2}`. For t >= 1 (mirror otherwise) `j >= t + θ - 1/2 >= θ`, so
`j(j - 2θ) >= (t - 1/2)² - θ² >= t(t - 1)`. A shift by t is at most `⌈|t|_∞⌉` shifts of at most h inside the (convex)
box, whose p-norms add up, so the double integral is at most `ω_p(h)^p` times
`Π_k 2 (1 + ∫_1^∞ ⌈t⌉^p e^{-γt(t-1)/2} dt)`; on [m, m+1], `t(t-1) >= m(m-1) + (2m-1)(t-m)`. ∎

[A] argues with the mass outside the cell instead: with any θ < 1/2 and `q = e^{-γθ}`,

    ‖f - head‖_p <= 2^{D/p} ω_p(h) + osc |Ω|^{1/p} [(2Dθ)^{1/p} + 2Dq/(1-q)],

which needs γ -> ∞ to fall at all, and ends at `2^{D/p} ω_p(h)`. It is quoted at the best θ and the largest γ that the
option allows, whatever γ the network has. Both have ω_p estimated from samples.

Norms here are *p-means*, `‖·‖_p / |Ω|^{1/p}`, so that a bound on the largest error is one on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..arithmetic.formats import FORMATS
from ..arithmetic.norms import mean
from ..targets import Target
from ..targets.defects import axes_towards_poles

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MeanTuning:
    """How means over cells are sampled. They are values of tokens, whose error is proved as it is."""

    samples: int = 4096
    """Random points at which differences are taken. A round number."""
    finest: int = 8
    """Shifts by 2^-1 .. 2^-8 of the width are sampled. By trial."""
    work: int = 2**20
    """Evaluations spent on all means. For time."""
    most_points: int = 16
    """Points per axis and cell at most. Gauss's rule with as many is exact to degree 31."""
    nodes: int = 4
    """Gauss points an axis, of cells with a pole. By trial."""
    deepest: int = 80
    """Cuts of such cells. 2^-80 is below what floats tell apart."""
    most_parts: int = 2**14
    """Parts of such cells at a time. For memory."""
    block: int = 2**16
    """Points evaluated at a time. For memory."""


TUNING = MeanTuning()


def cell_means(target: Target, low: Floats, high: Floats) -> Floats:
    """Means of f over cells (N, D), (N, m): two-point Gauss rules on equal parts of each. Memory O(`TUNING.block`).

    Cells on which the enclosure of f is unbounded are cut towards the place where it is, and their parts integrated.
    """
    count, size = low.shape
    parts = int(min(max((TUNING.work / count) ** (1 / size) / 2, 1), TUNING.most_points / 2))
    ends = (np.arange(parts)[:, None] + 0.5 + np.array([-1, 1]) / np.sqrt(12)).ravel() / parts  # (q,), in cells
    mesh = np.meshgrid(*[ends] * size, indexing="ij")
    shares = np.stack([axis.ravel() for axis in mesh], axis=1)  # (q^D, D)
    poles = np.zeros(count, dtype=bool)
    if target.enclosable:
        poles = ~np.isfinite(target.enclose(Interval(low, high)).magnitude).all(axis=1)
    found, others = np.empty((count, target.outputs)), np.flatnonzero(~poles)
    step = max(1, TUNING.block // len(shares))
    for start in range(0, len(others), step):
        some = others[start : start + step]
        first, last = low[some, None], high[some, None]  # (b, 1, D)
        rows = np.clip(first + (last - first) * shares, first, last)  # (b, q^D, D)
        found[some] = target.values(rows.reshape(-1, size)).reshape(*rows.shape[:2], -1).mean(axis=1)
    if poles.any():
        found[poles] = _means_around_poles(target, low[poles], high[poles])
    return found


def _means_around_poles(target: Target, low: Floats, high: Floats) -> Floats:
    """Means over cells (P, D) with a pole: halves without it are integrated by Gauss, those with it cut again, (P, m).

    What is left after so many cuts counts as nothing.
    """
    sizes: Floats = np.prod(high - low, axis=1)  # (P,)
    owner: npt.NDArray[np.intp] = np.arange(len(low))
    nodes, weights = np.polynomial.legendre.leggauss(TUNING.nodes)  # on [-1, 1]
    mesh = np.stack([axis.ravel() for axis in np.meshgrid(*[nodes] * low.shape[1], indexing="ij")], axis=1)  # (q, D)
    shares = np.prod(np.meshgrid(*[weights / 2] * low.shape[1], indexing="ij"), axis=0).ravel()  # (q,), sum 1
    totals = np.zeros((len(low), target.outputs))
    for _ in range(TUNING.deepest):
        bounded = np.isfinite(target.enclose(Interval(low, high)).magnitude).all(axis=1)
        if bounded.any():
            middle, half = (low + high)[bounded, None] / 2, (high - low)[bounded, None] / 2  # (b, 1, D)
            values = target.values((middle + half * mesh).reshape(-1, low.shape[1]))
            means = np.einsum("bqm,q->bm", values.reshape(bounded.sum(), len(mesh), -1), shares)
            volumes = np.prod((high - low)[bounded], axis=1) / sizes[owner[bounded]]
            np.add.at(totals, owner[bounded], means * volumes[:, None])
        low, high, owner = low[~bounded], high[~bounded], owner[~bounded]
        if not 0 < len(low) <= TUNING.most_parts:
            break
        axis = axes_towards_poles(target, low, high, np.argmax(high - low, axis=1))
        rows = np.arange(len(low))
        left, right = high.copy(), low.copy()
        left[rows, axis] = right[rows, axis] = Interval(low[rows, axis], high[rows, axis]).mid
        low, high, owner = np.concatenate([low, right]), np.concatenate([left, high]), np.tile(owner, 2)
    return totals


def growth(gamma: float, p: float, size: int) -> float:
    """A^{D/p}, in logarithms because (m+1)^p overflows."""
    m = np.arange(1.0, 12 + 2 * np.sqrt(p))
    terms = p * np.log(m + 1) - gamma * m * (m - 1) / 2 + np.log(2 / (gamma * (2 * m - 1)))
    return float(np.exp(size / p * (log(2) + np.logaddexp.reduce([0.0, *terms]))))


def paper_factor(gamma: float, p: float, size: int) -> float:
    """The bracket of [A]'s bound, with the best θ of a list."""
    theta = np.geomspace(1e-6, 0.499, 400)
    q = np.exp(-gamma * theta)
    return float(((2 * size * theta) ** (1 / p) + 2 * size * q / (1 - q)).min())


@dataclass(frozen=True, eq=False)
class Modulus:
    """How much f changes, as a p-mean, under a shift along one axis: sampled, and continued by a power law."""

    scales: Floats  # (S,), rising
    levels: Floats  # (D, S), rising
    widths: Floats  # (D,)
    p: float

    @classmethod
    def of(cls, target: Target, p: float) -> Modulus:
        """Differences at random points; (D S) `TUNING.samples` evaluations."""
        domain, rng = target.domain, np.random.default_rng(0)
        low, widths = domain.lo.ravel(), (domain.hi - domain.lo).ravel()
        rows = domain.sample(TUNING.samples, rng)  # (P, D)
        scales: Floats = 2.0 ** -np.arange(TUNING.finest, 0, -1, dtype=np.float64)
        base, levels = target.values(rows), np.zeros((domain.size, TUNING.finest))
        for axis, place in np.ndindex(*levels.shape):
            moved, shift = rows.copy(), scales[place] * widths[axis]
            inside = rows[:, axis] + shift <= low[axis] + widths[axis]
            moved[:, axis] += np.where(inside, shift, -shift)
            moved[:, axis] = np.maximum(moved[:, axis], low[axis])
            change = np.abs(target.values(moved) - base).max(axis=1)
            levels[axis, place] = mean(change, p)
        return cls(scales, np.maximum.accumulate(levels, axis=1), widths, p)

    def at(self, spacing: Floats) -> float:
        """An estimate of ω_p(h) for shifts along all axes at once: the sum over the axes."""
        parts = np.minimum(spacing / self.widths, 1.0)
        return float(sum(self._level(axis, part) for axis, part in enumerate(parts)))

    def spacing(self, level: float) -> Floats:
        """Spacings whose ω_p is `level` on each axis, (D,); the whole width where f does not vary that much."""
        fractions = 2.0 ** np.linspace(-60, 0, 601)
        found = np.empty(len(self.widths))
        for axis in range(len(found)):
            fits = np.flatnonzero(self._level(axis, fractions) <= level)
            found[axis] = fractions[fits[-1]] if len(fits) else fractions[0]
        return found * self.widths

    def paper_spacing(self, eps: float) -> Floats:
        """Equal fractions of the widths at which [A]'s first term, `2^{D/p} ω_p(h)` as a norm, is half of eps, (D,)."""
        fractions = 2.0 ** np.linspace(-60, 0, 601)
        size = len(self.widths)
        total = sum(self._level(axis, fractions) for axis in range(size))
        root_volume = np.exp(np.log(self.widths).sum() / self.p)
        fits = np.flatnonzero(2 ** (size / self.p) * total * root_volume <= eps / 2)
        return self.widths * (fractions[fits[-1]] if len(fits) else fractions[0])

    def _level(self, axis: int, fraction: Floats | float) -> Floats:
        """Log-log interpolation; below the finest scale with the exponent of the last four, at most 1."""
        levels = np.maximum(self.levels[axis], FORMATS["float64"].normal)
        exponent = np.clip(np.log(levels[3] / levels[0]) / np.log(self.scales[3] / self.scales[0]), 0.05, 1.0)
        inner = np.exp(np.interp(np.log(fraction), np.log(self.scales), np.log(levels)))
        return np.where(fraction < self.scales[0], levels[0] * (fraction / self.scales[0]) ** exponent, inner)
