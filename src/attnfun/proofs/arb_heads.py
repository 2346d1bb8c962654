"""One head on one box, in balls: the range of its average, and a Taylor model of it.

A slot (`arb_network.py`) is a softmax average of values, `y = N/Z`, with `Z(x) = Σ_j e^{s_j(x)}` and
`N(x) = Σ_j e^{s_j(x)} v_j`. Softmax ignores what is common to all scores: on each box an affine function is subtracted
from them, about the average score under the weights at the centre c.

**Ranges.** Weights `W_j` lie in `[L_j, U_j]` on the box. For every number z, `(y - z) Z = Σ_j W_j (v_j - z)`, hence

    y <= z + max(Σ_j max(L_j (v_j - z), U_j (v_j - z)), 0) / Σ_j L_j,

and a good z is found in floats, by Dinkelbach's iteration.

**Taylor models.** Let p be the polynomial of degree m in δ = x - c whose coefficients are those of N/Z at c (see
`arb_jets.py`; the coefficients of e^{s + a·δ} are e^s a^α / α!). The coefficients of `R = N - p Z` up to degree m
vanish at c, so with r the half-widths of the box and the coefficients of R enclosed over all of it

    |y - p| = |R| / Z <= Σ_{|α| = m+1} |R_α| r^α / min Z.

Values count from a pivot near y(c), which changes nothing in R but keeps its terms small.

**Tokens in play.** A box inherits from the box it was cut from the tokens still in play and a bound τ on the weight of
all others, as a fraction of the weight Z of those in play. A token whose score is at least g below that of one kept
token everywhere on the box has weight at most e^{-g} Z. When n of them leave, `φ = n e^{-g}` and τ becomes
`τ (1 + φ) + φ`; the average over all tokens differs from the one over those in play by at most τ (max v - min v).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import factorial

import numpy as np
import numpy.typing as npt

from .arb_jets import Jet, Jets, arb, arb_mat, hull, largest, series, total, variables
from .arb_network import Slot, affine

Floats = npt.NDArray[np.float64]

NEGLIGIBLE = 50
"""A token whose score is surely this far below another's leaves the list."""
STEPS = 6
"""Steps of Dinkelbach's iteration."""
FINEST = 2.0**-120
"""Boxes narrower than this fraction of the domain are not cut further."""


@dataclass(frozen=True, eq=False)
class Focus:
    """The tokens of one slot still in play on a box, and the tail of the others."""

    tokens: list[int]
    tail: arb


class Cell:
    """A box of the domain in balls, `x = centre + δ` with `|δ_k| <= radii_k`, and the tokens in play on it."""

    def __init__(self, low: Floats, high: Floats, focus: list[Focus]) -> None:
        self.low, self.high, self.focus = low, high, focus  # (D,), (D,)
        self.middle = low + (high - low) / 2  # (D,)
        self.centre = [arb(c) for c in self.middle.tolist()]
        ends = zip(low.tolist(), high.tolist(), self.centre, strict=True)
        self.radii = [(arb(b) - c).max(c - arb(a)).upper() for a, b, c in ends]
        self.offset = [arb(0, r) for r in self.radii]
        self.ball = [c + d for c, d in zip(self.centre, self.offset, strict=True)]

    def halves(self, extent: Floats, focus: list[Focus]) -> list[Cell]:
        """Cut across the longest axis, measured by the domain; nothing if the box is too small for that."""
        width = (self.high - self.low) / extent
        axis = int(np.argmax(width))
        if width[axis] <= FINEST or not self.low[axis] < self.middle[axis] < self.high[axis]:
            return []
        left, right = self.high.copy(), self.low.copy()
        left[axis] = right[axis] = self.middle[axis]
        return [Cell(self.low, left, focus), Cell(right, self.high, focus)]


class View:
    """One slot on one box: the tokens in play with their scores, relative to `top + slope · δ`."""

    def __init__(self, slot: Slot, cell: Cell, focus: Focus) -> None:
        self.slot, self.cell = slot, cell
        self.top, self.slope = _reference(slot, cell.middle, focus.tokens)
        memory = len(slot.scores)
        self.scores: list[arb] = []  # at the centre
        self.slopes: list[list[arb]] = []  # at the centre
        self.ranges: list[arb] = []  # over the box
        for token in focus.tokens:
            score, slopes, bend = self._at_centre(token)
            self.scores.append(score)
            self.slopes.append(slopes)
            self.ranges.append(score + bend + total([a * d for a, d in zip(slopes, cell.offset, strict=True)]))
        kept, self.tail = self._narrow(focus)
        self.tokens = [focus.tokens[k] for k in kept]
        self.data = [k for k, token in enumerate(self.tokens) if token >= memory]
        self.scores, self.slopes = [self.scores[k] for k in kept], [self.slopes[k] for k in kept]
        self.light = [self.ranges[k].lower().exp().lower() for k in kept]  # L > 0
        self.heavy = [self.ranges[k].upper().exp().upper() for k in kept]  # U
        self.least = total(self.light).lower()
        self.values = [self._value(token) for token in self.tokens]  # over the box, (T, m)
        self.rough_light, self.rough_heavy = _rough(self.light), _rough(self.heavy)  # (T,)
        self.rough_values = np.array([[float(v) for v in row] for row in self.values])  # (T, m)

    @property
    def focus(self) -> Focus:
        """What boxes inside this one inherit."""
        return Focus(self.tokens, self.tail)

    def _at_centre(self, token: int) -> tuple[arb, list[arb], arb]:
        """Relative score, its slopes, and the range of its quadratic part."""
        memory, xi = len(self.slot.scores), [arb(1), *self.cell.centre]
        if token < memory:
            row = self.slot.scores[token]
            return affine(row, xi) - self.top, [a - b for a, b in zip(row[1:], self.slope, strict=True)], arb(0)
        form = self.slot.data_scores[token - memory]
        by_row, size = [affine(row, xi) for row in form], len(xi)
        slopes = [by_row[k] + total([xi[i] * form[i][k] for i in range(size)]) for k in range(1, size)]
        bend = total([d * affine(form[k + 1][1:], self.cell.offset) for k, d in enumerate(self.cell.offset)])
        return affine(by_row, xi) - self.top, [a - b for a, b in zip(slopes, self.slope, strict=True)], bend

    def _value(self, token: int) -> list[arb]:
        """What a token adds to the outputs, over the box."""
        memory = len(self.slot.scores)
        if token < memory:
            return self.slot.values[token]
        return [affine(row, [arb(1), *self.cell.ball]) for row in self.slot.data_values[token - memory]]

    def _narrow(self, focus: Focus) -> tuple[list[int], arb]:
        """Places of the tokens that stay, and the tail of all others."""
        heaviest = int(np.argmax([float(score) for score in self.scores]))
        floor = self.ranges[heaviest].lower() - NEGLIGIBLE
        kept = [k for k, score in enumerate(self.ranges) if not score < floor]
        share = (len(self.ranges) - len(kept)) * arb(-NEGLIGIBLE).exp()
        return kept, (focus.tail * (1 + share) + share).upper()

    def averages(self) -> list[arb]:
        """The range of each average over all tokens."""
        result = []
        for output, spread in enumerate(self.slot.spread):
            values = [row[output] for row in self.values]
            high = _largest(self, values, self.rough_values[:, output])
            low = -_largest(self, [-v for v in values], -self.rough_values[:, output])
            slack = (self.tail * spread).upper()
            result.append(hull(low - slack, high + slack))
        return result

    def remainder(self, order: int) -> float:
        """About the remainder of a Taylor model of this order, in floats."""
        radii = np.array([float(r) for r in self.cell.radii])
        reach = np.array([[abs(float(a)) for a in row] for row in self.slopes]) @ radii  # (T,)
        apart = np.abs(self.rough_values - self._pivots()).max(axis=1)  # (T,)
        least = self.rough_light.sum() * factorial(order + 1)
        return float((self.rough_heavy * apart * np.minimum(reach, 1e3) ** (order + 1)).sum() / least)

    def _pivots(self) -> Floats:
        """About the averages at the centre, (m,)."""
        weights = _rough([score.exp() for score in self.scores])
        return weights @ self.rough_values / weights.sum()

    def models(self, algebra: Jets) -> list[tuple[Jet, arb]]:
        """For each output, a polynomial (the coefficients below the algebra's order) and a bound on what it leaves."""
        points = [score.exp() for score in self.scores]
        pivots = [arb(pivot) for pivot in self._pivots().tolist()]
        at_centre = self._sums(algebra, points, pivots, self.cell.centre)  # (1 + m) jets
        weights = [hull(low, high) for low, high in zip(self.light, self.heavy, strict=True)]
        on_box = self._sums(algebra, weights, pivots, self.cell.ball)
        offset, radii = algebra.monomials(self.cell.offset), algebra.monomials(self.cell.radii)
        first = algebra.below(algebra.order)
        models = []
        for output, pivot in enumerate(pivots):
            p = algebra.divide(at_centre[output + 1], at_centre[0])
            p[first:] = [arb(0)] * (algebra.size - first)
            rest = algebra.subtract(on_box[output + 1], algebra.multiply(algebra.recentred(p, offset), on_box[0]))
            left = largest(rest[first:], radii[first:]) / self.least + self.tail * self.slot.spread[output]
            p[0] += pivot
            models.append((p[:first], left.upper()))
        return models

    def _sums(self, algebra: Jets, weights: list[arb], pivots: list[arb], at: list[arb]) -> list[Jet]:
        """Jets of `Σ W_j` and, for each output, of `Σ W_j (v_j - pivot)`, with the data tokens among them."""
        memory = [k for k in range(len(self.tokens)) if k not in self.data]
        rows = [[weights[k] for k in memory]]
        rows += [[weights[k] * (self.values[k][m] - pivot) for k in memory] for m, pivot in enumerate(pivots)]
        powers = [algebra.monomials(self.slopes[k]) for k in memory]  # (T, coefficients)
        left = arb_mat(len(rows), len(memory), list(chain(*rows)))
        moments = left * arb_mat(len(memory), algebra.size, list(chain(*powers)))
        sums = [[a / f for a, f in zip(row, algebra.factorials, strict=True)] for row in moments.tolist()]
        for k in self.data:
            weight, values = self._data_jets(algebra, self.tokens[k] - len(self.slot.scores), at)
            sums[0] = algebra.add(sums[0], weight)
            for m, pivot in enumerate(pivots):
                apart = algebra.subtract(values[m], algebra.constant(pivot))
                sums[m + 1] = algebra.add(sums[m + 1], algebra.multiply(weight, apart))
        return sums

    def _data_jets(self, algebra: Jets, token: int, at: list[arb]) -> tuple[Jet, list[Jet]]:
        """Unnormalised weight and values of a data token as jets at `at`, the centre or the ball of the box."""
        xi = [algebra.constant(arb(1)), *variables(algebra, at)]
        apart = [a - c for a, c in zip(at, self.cell.centre, strict=True)]
        score = algebra.affine(-self.top - affine(self.slope, apart), [-a for a in self.slope])
        for x, row in zip(xi, self.slot.data_scores[token], strict=True):
            score = algebra.add(score, algebra.multiply(x, _combine(algebra, row, xi)))
        weight = algebra.compose(series("exp", score[0], algebra.order), score)
        return weight, [_combine(algebra, row, xi) for row in self.slot.data_values[token]]


def _rough(weights: list[arb]) -> Floats:
    """Weights as floats that can be multiplied and summed without overflow."""
    return np.clip([float(weight) for weight in weights], 1e-100, 1e100)


def _combine(algebra: Jets, row: list[arb], xi: list[Jet]) -> Jet:
    """An affine function of x as a jet."""
    return [affine(row, [x[k] for x in xi]) for k in range(algebra.size)]


def _reference(slot: Slot, middle: Floats, tokens: list[int]) -> tuple[arb, list[arb]]:
    """About the largest score and the average slope at the centre. Floats will do: softmax ignores what is chosen."""
    forms = slot.rough_scores[tokens]  # (T, 1+D, 1+D)
    xi = np.concatenate([[1.0], middle])  # (1+D,)
    scores, slopes = forms @ xi @ xi, (forms @ xi + xi @ forms)[:, 1:]  # (T,), (T, D)
    weights = np.exp(scores - scores.max())
    return arb(float(scores.max())), [arb(a) for a in (weights @ slopes / weights.sum()).tolist()]


def _largest(view: View, values: list[arb], rough: Floats) -> arb:
    """Upper bound on the average of values over the tokens in play, never more than the largest of them."""
    pivot = float(view.rough_light @ rough / view.rough_light.sum())
    for _ in range(STEPS):
        chosen = np.where(rough > pivot, view.rough_heavy, view.rough_light)
        pivot = float(chosen @ rough / chosen.sum())
    z, gain, most = arb(pivot), arb(0), values[0].upper()
    for value, light, heavy in zip(values, view.light, view.heavy, strict=True):
        apart = (value - z).upper()
        gain += apart * (heavy if apart > 0 else light)
        most = most.max(value.upper())
    return (z + gain.upper().max(arb(0)) / view.least).upper().min(most)
