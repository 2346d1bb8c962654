"""Taylor polynomials of a head whose scores are affine in x, in closed form, with a bound on what they leave [T 9.6].

From the centre of a box let t be the way to a point, `s_j` the scores at the centre and `a_j` their slopes, so that
`y = N/Z`, `N = Σ_j e^{s_j + a_j·t} v_j`, `Z = Σ_j e^{s_j + a_j·t}`. The Taylor coefficients of N and Z are moments of
the slopes, `Σ_j e^{s_j} v_j a_j^α/α!`, and p, the polynomial of degree M with the coefficients of N/Z, comes by series
division.

**Bound.** With `z_j = a_j·t`, `|z_j| <= ρ_j = Σ_k |a_jk| r_k` and `p = p_0 + Σ_d p^{(d)}` by degree, `|p^{(d)}| <= P_d`
on the box,

    N - p Z = Σ_j e^{s_j} ((v_j - p_0) e^{z_j} - Σ_d p^{(d)} e^{z_j}).

Its terms of degree at most M vanish: that is how p was made. What is left of `e^z` without its terms below degree k is
at most `e^ρ ρ^k/k!`, so

    |N - p Z| <= Σ_j e^{s_j + ρ_j} (|v_j - p_0| ρ_j^{M+1}/(M+1)! + Σ_{d=1..M} P_d ρ_j^{M+1-d}/(M+1-d)!).

Z is convex, and by Jensen's inequality `Z(t) >= Z(0) e^{ā·t}` with ā the mean slope, about zero because scores are
taken relative to the mean key. Hence `|y - p| <= |N - p Z| e^{|ā|·r} / Z(0)` (ours; no interval is divided by another).

At any one point the rest is some number of at most that size. So it goes into the radius of the constant coefficient,
and later layers see a polynomial (`polynomials.recentred`).

**Runs.** In two or more variables tokens side by side that share all slopes but the last are summed up together,
`Σ_j x_j a_j^α = Π_{k<D} a_k^{α_k} Σ_j x_j a_{jD}^{α_D}`, and so are runs of such runs (`compiled.py`). A term meets
fewer sums than there are tokens, since each run that it is added to has a token of its own, and at most `|α| + D`
products.
A product that underflows loses at most half of the smallest float s, and at most M slopes multiply that: with A the
largest slope, at least 1, and X the largest row, `8 (M + 2) T s A^M (1 + X)` is more than all of it (`lost`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Jet
from ..arithmetic.basis import Basis, basis
from ..arithmetic.directed import LIBRARY_ULPS, SMALLEST, ULP, exp_up, rounded_down, rounded_up, sum_error
from ..arithmetic.jet_functions import convolve, divide, rows_of
from ..arithmetic.jets import TINY
from .heads import EnclosedBank
from .ragged import Integers, Ragged

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over tokens at the centres of boxes; the first of the 1 + v columns is Z, the others N."""

    sums: Floats  # (B, n, 1+v, C)
    sizes: Floats  # (B, n, 1+v, C), the same sums of absolute values
    doubts: Floats  # (B, n, 1+v, C), what weights and values may be off, times absolute powers
    wobble: Floats  # (B, n, D), how far a slope may be off
    heavy: Floats  # (B, n, M+2), Σ_j e^{s_j + ρ_j} ρ_j^k/k!
    pivot: Floats  # (B, n, v), about p_0
    apart: Floats  # (B, n, v), Σ_j e^{s_j + ρ_j} |v_j - pivot| ρ_j^{M+1}/(M+1)!
    lost: Floats  # (B, n, 1, 1), what underflow takes from a sum

    @classmethod
    def of(
        cls,
        base: Basis,
        scores: tuple[Floats, Floats],
        values: tuple[Floats, Floats],
        real: npt.NDArray[np.bool_],
        radius: Floats,
    ) -> Moments:
        """From scores (B, n, T, 1+D) and values (B, T, v), each with radii, of the tokens where `real` (B, 1, T).

        O(T C) a box: one pass makes the powers, one takes their sizes, and two matrix products sum them up.
        """
        (start, doubt), slopes = (part[..., 0] for part in scores), np.moveaxis(scores[0][..., 1:], -1, 0)
        wobble = scores[1][..., 1:].max(axis=2)  # (B, n, D)
        known, spread = (np.swapaxes(part, 1, 2)[:, None] for part in values)  # (B, 1, v, T)
        weight = np.where(real, np.exp(start), 0.0)  # (B, n, T)
        error = rounded_up(np.expm1(doubt) + sum_error(1.0, LIBRARY_ULPS + 2), 4 * LIBRARY_ULPS)
        rows = _beside(weight, weight[:, :, None] * known)  # (B, n, 1+v, T)
        doubts = weight[:, :, None] * (np.abs(known) * error[:, :, None] + spread * (1 + error[:, :, None]))
        there = real.astype(np.float64)  # (B, 1, T)
        doubts = _beside(weight * error, doubts) + TINY * _beside(there, there[:, :, None] * (np.abs(known) + spread))
        doubts += 4 * SMALLEST * ((1 + weight) * there)[:, :, None]  # these products may underflow, powers may be large
        powers = _powers(base, slopes)  # (B, n, C, T)
        sums = rows @ np.swapaxes(powers, 2, 3) / base.factorials  # (B, n, 1+v, C)
        np.abs(powers, out=powers)
        sizes = np.concatenate([np.abs(rows), doubts], axis=2) @ np.swapaxes(powers, 2, 3) / base.factorials
        roundings = 4 * base.degree + start.shape[2] + 16
        sizes, doubts = np.split(rounded_up(sizes, roundings), 2, axis=2)
        doubts += sum_error((4 * base.degrees + start.shape[2] + 16) * sizes, 1)
        pivot = sums[:, :, 1:, 0] / sums[:, :, :1, 0]  # (B, n, v)
        most = np.abs(slopes) + np.moveaxis(wobble, -1, 0)[..., None]  # (D, B, n, T)
        span = (most * np.moveaxis(radius, -1, 0)[:, :, None, None]).sum(axis=0)  # (B, n, T)
        span = rounded_up(span, base.variables + 2)
        far = np.exp(start + span + doubt + sum_error(np.abs(start) + span + doubt, 4))
        terms = span / np.maximum(np.arange(base.degree + 2.0), 1.0)[:, None, None, None]  # (M+2, B, n, T)
        terms[0] = np.where(real, np.maximum(far, TINY), 0.0)
        np.multiply.accumulate(terms, axis=0, out=terms)
        terms += np.where(real, TINY, 0.0)  # they may underflow beside values of any size
        heavy = np.moveaxis(terms.sum(axis=3), 0, 2)  # (B, n, M+2)
        apart = (terms[-1][:, :, None] * (np.abs(known - pivot[..., None]) + spread)).sum(axis=3)  # (B, n, v)
        heavy, apart = (rounded_up(part, roundings + 2 * LIBRARY_ULPS) for part in (heavy, apart))
        return cls(sums, sizes, doubts, wobble, heavy, pivot, apart, np.zeros((*start.shape[:2], 1, 1)))

    @classmethod
    def of_lists(
        cls, base: Basis, lists: Ragged, bank: EnclosedBank, query: tuple[Floats, Floats], radius: Floats
    ) -> tuple[Moments, Floats]:
        """The same from lists of the tokens in play on B boxes and affine queries (B, n, k, 1+D), each with radii.

        Compiled loops. And the average values at the centres, (B, n, v), not rigorous.
        """
        from . import compiled  # numba takes long to be imported

        boxes, length, features, width = query[0].shape
        pairs, entries, columns = boxes * length, length * int(lists.offsets[-1]), 1 + bank.values.shape[1]
        where = lists.items, lists.begins, lists.offsets
        scores = np.empty(entries), np.empty(entries), np.empty((entries, width - 1))
        span, wobble, image = np.empty(entries), np.empty((pairs, width - 1)), np.empty((pairs, columns - 1))
        queries = tuple(np.ascontiguousarray(part).reshape(pairs, features, width) for part in query)
        known = bank.keys, bank.key_radius, bank.values
        compiled.relative_scores(*where, known, queries, radius, (ULP, TINY), scores, (span, wobble), image)
        start, doubt, slopes = scores
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            error = rounded_up(np.expm1(doubt) + sum_error(1.0, LIBRARY_ULPS + 2), 4 * LIBRARY_ULPS)
            far = np.exp(start + span + doubt + sum_error(np.abs(start) + span + doubt, 4))
            found = np.empty((pairs, 3 * columns, base.size))
            heavy, apart, largest = (np.empty((pairs, count)) for count in (base.degree + 2, columns - 1, 2))
            worth = (bank.values, bank.value_radius), (np.exp(start), error), slopes, (far, span)
            compiled.moments(*where, *worth, _runs(base), (TINY, SMALLEST), found, heavy, apart, largest)
            sums, sizes, doubts = np.split(found / base.factorials, 3, axis=1)  # (P, 1+v, C)
            terms: Any = np.repeat(lists.lengths, length)[:, None] + (
                4 * base.degree + 2 * base.variables + 16
            )  # (P, 1)
            sizes, doubts = (rounded_up(part, terms[..., None]) for part in (sizes, doubts))
            doubts += sum_error(terms[..., None] * sizes, 1)
            heavy, apart = (rounded_up(part, terms + 2 * LIBRARY_ULPS) for part in (heavy, apart))
            lost = 8 * (base.degree + 2) * terms * SMALLEST * np.maximum(largest[:, :1], 1.0) ** base.degree  # (P, 1)
            lost = rounded_up(lost * (1 + largest[:, 1:]), 4 * base.degree + 2 * LIBRARY_ULPS)
            pivot = sums[:, 1:, 0] / sums[:, :1, 0]  # (P, v)
        every = (sums, sizes, doubts, wobble, heavy, pivot, apart, lost[..., None])
        shaped = (part.reshape(boxes, length, *part.shape[1:]) for part in every)
        return cls(*shaped), image.reshape(boxes, length, -1)

    @classmethod
    def join(cls, parts: list[Moments]) -> Moments:
        """Several batches as one."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def take(self, rows: npt.NDArray[np.int64]) -> Moments:
        """Some of the boxes."""
        return Moments(*(getattr(self, field.name)[rows] for field in fields(self)))

    def average(self, base: Basis, reach: Floats) -> Jet:
        """The average value (B, n, v) as polynomials, the rest of the bound above in their constant terms' radius."""
        one, roundings = slice(1, 1 + base.variables), base.size + base.degree + 16
        radii = self.doubts + self._shaken(base) + TINY * (1 + self.sizes[..., :1]) + self.lost  # (B, n, 1+v, C)
        radii = rounded_up(radii, 5)
        mass = Jet(base, self.sums[:, :, :1], radii[:, :, :1])
        polynomial = divide(Jet(base, self.sums[:, :, 1:], radii[:, :, 1:]), mass)  # (B, n, v)
        with np.errstate(all="ignore"):
            size = (np.abs(polynomial.mid) + polynomial.rad) * reach[:, None, None] + SMALLEST  # (B, n, v, C)
            by_degree = np.add.reduceat(size, [base.count(k - 1) for k in range(base.degree + 1)], axis=3)
            off = np.abs(self.pivot - polynomial.mid[..., 0]) + polynomial.rad[..., 0]
            rest = self.apart + off * self.heavy[..., None, -1]  # (B, n, v)
            rest += (by_degree[..., 1:] * self.heavy[:, :, None, -2:0:-1]).sum(axis=3)
            least = rounded_down(mass.mid[..., 0] - mass.rad[..., 0], 1)  # (B, n, 1)
            drift = (((np.abs(mass.mid) + mass.rad) * reach[:, None, None])[..., one].sum(axis=3)) / least
            growth = exp_up(rounded_up(drift, base.variables + 4))
            rest = rounded_up(np.where(least > 0, (rest + TINY) * growth / least, np.inf), roundings) + TINY
        polynomial.rad[..., 0] = rounded_up(polynomial.rad[..., 0] + rest, 1)
        return Jet(base, polynomial.mid, polynomial.rad)

    def _shaken(self, base: Basis) -> Floats:
        """How far the sums move if slopes move by the wobble δ: `Σ_{γ > 0} S_{α-γ} δ^γ/γ!`, (B, n, 1+v, C)."""
        moves = _powers(base, np.moveaxis(self.wobble, -1, 0)[..., None])[..., 0] / base.factorials  # (B, n, C)
        moves[..., 0] = 0.0
        factors = rows_of(self.sizes + self.doubts, 3), rows_of(moves[:, :, None], 3)
        with np.errstate(all="ignore"):
            moved = convolve(base, *factors, base.degree, base.degree)
        return np.moveaxis(rounded_up(moved, base.size + 2 * base.degree + 8), 0, -1)


@lru_cache
def _runs(base: Basis) -> tuple[Integers, Integers, Integers, int]:
    """How sums of monomials in the last variables make up those with one variable more in front.

    Level d has the monomials in variables d to D: each is a power of variable d times one of level d + 1. Powers and
    places of all levels end to end, where each level begins, and M + 1.
    """
    power, source, begins = list[int](), list[int](), [0]
    for level in range(base.variables):
        below = basis(max(base.variables - level - 1, 1), base.degree).exponents.tolist()
        position = {tuple(row): place for place, row in enumerate(below)}
        for first, *rest in basis(base.variables - level, base.degree).exponents.tolist():
            power.append(first)
            source.append(position[tuple(rest)] if rest else 0)
        begins.append(len(power))
    return np.array(power), np.array(source), np.array(begins), base.degree + 1


def _beside(first: Floats, others: Floats) -> Floats:
    """(B, n, T) and (B, n, v, T) as (B, n, 1+v, T)."""
    return np.concatenate([np.broadcast_to(first, others[:, :, 0].shape)[:, :, None], others], axis=2)


def _powers(base: Basis, slopes: Floats) -> Floats:
    """`a^α` for slopes (D, B, n, T), (B, n, C, T)."""
    powers = np.empty((*slopes.shape[1:3], base.size, slopes.shape[3]))
    powers[:, :, 0] = 1.0
    for k, (before, axis) in enumerate(base.parents, start=1):
        np.multiply(powers[:, :, before], slopes[axis], out=powers[:, :, k])
    return powers
