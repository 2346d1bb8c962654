"""A proof for smooth targets and networks that compute a maximum of planes, or a difference of two [T 11.6].

Read the planes off the weights. They make a function M, and `|f - net| <= |f - M| + |M - net|`: the second is the proof
by structure (`structure.py`), the first is bounded here on boxes. M is only a go-between: if it were misread, one of
the two terms would be large, never the bound wrong.

On a box with centre p and half widths r, `f(x) = f(p) + ∇f(p)·d + Σ_|α|=2 c_α d^α`, |d_k| <= r_k, with c_α enclosed
over the box. M is `max P - max Q`; with one plane P_j that leads at p,

    f - M <= max_k (f - P_j + Q_k),    each at most    its value at p + |its slope at p|·r + what c_α adds,

and likewise `M - f <= max_k (P_k - Q_j - f)`. Boxes whose bound is too large are halved. O(N D) work for a box.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nextafter, sqrt

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..arithmetic.directed import ULP
from ..arithmetic.jets import variables
from ..deadline import NEVER, Deadline
from ..network import Affine, Attention, Network
from ..targets import MaxAffine, Target, Unanswerable
from .branch_and_bound import MAX_BOXES, WITHIN, Outcome
from .structure import bound_by_structure

Floats = npt.NDArray[np.float64]

ENTRIES = 2**20
"""Numbers in the largest temporary array."""


def bound_by_planes(target: Target, network: Network, goal: float | None, deadline: Deadline = NEVER) -> Outcome:
    """A bound on `|target - network|` over the domain, or Unanswerable where the network is of another kind."""
    if target.outputs != 1:
        raise Unanswerable
    planes = read_planes(network)
    outcome = bound_by_structure(planes.on(target.domain), network)
    room = None if goal is None else max(0.999 * goal - outcome.bound, 0.0)
    distance = _Distance.of(target, planes).largest(room, deadline)
    parts = {**outcome.parts, "construction": outcome.parts["construction"] + distance.bound}
    bound = nextafter((outcome.bound + distance.bound) * (1 + 1e-12), inf)
    box = Interval(target.domain.lo.reshape(1, -1), target.domain.hi.reshape(1, -1))
    return Outcome(bound, parts, 0.0, distance.boxes, True, box)


def read_planes(network: Network) -> MaxAffine:
    """The planes that the heads of an affine map, an attention layer and an affine map average."""
    match network.layers:
        case (Affine() as first, Attention(residual=False) as layer, Affine() as last) if first.left is not None:
            pass
        case _:
            raise Unanswerable
    narrow = layer.value.shape[2] == layer.output.shape[2] == 1 and last.constant.size == len(last.right) == 1
    if len(layer.memory) or not layer.attends_data or not narrow:
        raise Unanswerable
    gain = float(last.right[0, 0, 0])
    signs = layer.output[:, 0, 0] * gain  # (H,)
    if not (signs[0] > 0 and (signs[1:] < 0).all() and len(signs) <= 2):
        raise Unanswerable
    slopes = np.einsum("kNn,kdf->Nfnd", first.left, first.right).reshape(*first.constant.shape, -1)  # (N, F, D)
    parts = []
    for sign, value, bias in zip(np.abs(signs), layer.value[:, :, 0], layer.value_bias[:, 0], strict=True):
        A = sign * np.einsum("f,Nfx->Nx", value, slopes)  # (N, D)
        parts.append((A, sign * (first.constant @ value + bias)))
    A, b = parts[0]
    shift = float(layer.output_bias[0]) * gain + float(last.constant[0, 0])
    return MaxAffine(A, b + shift, MaxAffine(*parts[1]) if len(parts) == 2 else None)


@dataclass(frozen=True)
class _Found:
    """The result of branch and bound."""

    bound: float
    boxes: int


@dataclass(frozen=True, eq=False)
class _Distance:
    """Bounds `|f - M|` on boxes."""

    target: Target
    plus: tuple[Floats, Floats]  # (N, D), (N,)
    minus: tuple[Floats, Floats]  # (N', D), (N',)

    @classmethod
    def of(cls, target: Target, planes: MaxAffine) -> _Distance:
        """The second maximum is that of one plane, zero, where there is none."""
        none = (np.zeros((1, planes.A.shape[1])), np.zeros(1))
        return cls(target, (planes.A, planes.b), none if planes.minus is None else (planes.minus.A, planes.minus.b))

    def largest(self, goal: float | None, deadline: Deadline) -> _Found:
        """Halve boxes until all are at most `goal`, or close to an error found, or time or boxes are used up."""
        low, high = self.target.domain.lo.reshape(1, -1), self.target.domain.hi.reshape(1, -1)
        settled, seen, count, outer = 0.0, 0.0, 0, inf
        step = max(1, ENTRIES // (max(len(self.plus[1]), len(self.minus[1])) * low.shape[1]))
        while len(low):
            parts = list[tuple[Floats, Floats, npt.NDArray[np.integer]]]()
            for k in range(0, len(low), step):
                if deadline.over and outer < inf:
                    return _Found(max(settled, outer), count)
                deadline.check("the proof")
                parts.append(self.on(low[k : k + step], high[k : k + step]))
            bound, error, axis = (np.concatenate(part) for part in zip(*parts, strict=True))
            count += len(bound)
            seen = max(seen, float(error.max()))
            enough = goal if goal is not None else sqrt(WITHIN) * seen
            open_ = bound > enough
            if deadline.over or count > MAX_BOXES or (goal is not None and seen > goal):
                open_[:] = False
            settled = max(settled, float(bound[~open_].max(initial=0.0)))
            outer = float(bound[open_].max(initial=0.0))  # holds on their halves too
            low, high = _halved(low[open_], high[open_], axis[open_])
        return _Found(settled, count)

    def on(self, low: Floats, high: Floats) -> tuple[Floats, Floats, npt.NDArray[np.integer]]:
        """A bound for each box (B, D), the error at its centre, and the axis along which to halve it."""
        centre = low / 2 + high / 2
        radius = np.maximum(high - centre, centre - low) * (1 + 2 * ULP)
        point = self.target.jets(variables(Interval(centre), 1))
        whole = self.target.jets(variables(Interval(low, high), 2))
        size, base = low.shape[1], whole.basis
        value, slope = point.mid[:, 0, 0], point.mid[:, 0, 1 : 1 + size]  # (B,), (B, D)
        off = point.rad[:, 0, 0] + (point.rad[:, 0, 1 : 1 + size] * radius).sum(axis=1)  # (B,)
        second = slice(base.count(1), None)
        middle, spread = whole.mid[:, 0, second], whole.rad[:, 0, second]  # (B, C)
        powers = (radius[:, None] ** base.exponents[second]).prod(axis=2)  # (B, C)
        square = (base.exponents[second] == 2).any(axis=1)  # d_k² is not negative
        rises, falls = (
            (np.where(square, np.maximum(sign * middle + spread, 0.0), np.abs(middle) + spread) * powers).sum(axis=1)
            for sign in (1.0, -1.0)
        )
        (A, b), (C, e) = self.plus, self.minus
        P, Q = centre @ A.T + b, centre @ C.T + e  # (B, N), (B, N')
        p, q = P.argmax(axis=1), Q.argmax(axis=1)
        rows = np.arange(len(low))
        above = _reach(value - P[rows, p], slope - A[p], Q, C, radius)
        below = _reach(-value - Q[rows, q], -slope - C[q], P, A, radius)
        sizes = np.abs(value) + (np.abs(slope) * radius).sum(axis=1)
        for planes, starts in (self.plus, self.minus):
            reach = np.maximum(np.abs(low), np.abs(high))
            sizes = sizes + 2 * (reach @ np.abs(planes).T + np.abs(starts)).max(axis=1)
        slack = (4 * size + 16) * ULP * sizes + off
        bound = (np.maximum(above + rises, below + falls) + slack) * (1 + 1e-12)
        bends = np.abs(middle) + spread
        along = np.stack([(bends * powers * (base.exponents[second, k] > 0)).sum(axis=1) for k in range(size)], axis=1)
        along = along + np.abs(slope - A[p] + C[q]) * radius
        error = np.abs(value - P[rows, p] + Q[rows, q]) - slack
        return np.where(np.isnan(bound), inf, bound), np.maximum(np.nan_to_num(error), 0.0), along.argmax(axis=1)


def _reach(value: Floats, slope: Floats, planes: Floats, slopes: Floats, radius: Floats) -> Floats:
    """`max_k (value + planes_k + |slope + slopes_k|·radius)`: (B,), (B, D), (B, N), (N, D), (B, D) -> (B,)."""
    steep = np.einsum("bnd,bd->bn", np.abs(slope[:, None] + slopes), radius)
    return (value[:, None] + planes + steep).max(axis=1)


def _halved(low: Floats, high: Floats, axis: npt.NDArray[np.integer]) -> tuple[Floats, Floats]:
    """Both halves of each box."""
    rows = np.arange(len(low))
    middle = low[rows, axis] / 2 + high[rows, axis] / 2
    upper, lower = low.copy(), high.copy()
    upper[rows, axis] = lower[rows, axis] = middle
    return np.concatenate([low, upper]), np.concatenate([lower, high])
