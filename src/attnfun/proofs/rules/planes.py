"""A proof for smooth targets and networks that compute a maximum of planes, or a difference of two [T 11.6].

Read the planes off the weights. They make a function M, and `|f - net| <= |f - M| + |M - net|`: the second is the proof
by structure (`structure.py`), the first is bounded here on boxes. M is only a go-between: if it were misread, one of
the two terms would be large, never the bound wrong.

On a box with centre p and half widths r, `f(x) = f(p) + ∇f(p)·d + Σ_|α|=2 c_α d^α`, |d_k| <= r_k, with c_α enclosed
over the box. M is `max P - max Q`; with one plane P_j that leads at p,

    f - M <= max_k (f - P_j + Q_k),    each at most    its value at p + |its slope at p|·r + what c_α adds,

and likewise `M - f <= max_k (P_k - Q_j - f)`. O(N D) work for a box.

Data: `axes` and `series`, a cover (`proof.Cover`); no leaf uses further series.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...arithmetic import Interval, directed
from ...arithmetic.directed import LIBRARY_ULPS, SMALLEST, rounded_up, sum_error
from ...arithmetic.jets import variables
from ...network import Affine, Attention, Network
from ...resources.deadline import NEVER, Deadline
from ...targets import MaxAffine, Target
from ..claim import Claim
from ..proof import Conclusion, Cover, Integers, Proof
from .structure import bound_by_structure, whole

Floats = npt.NDArray[np.float64]

NAME = "planes"
ENTRIES = 2**20
"""Numbers in the largest temporary array."""


def bound_by_planes(claim: Claim, proof: Proof, deadline: Deadline = NEVER) -> Conclusion | None:
    """A bound on `|target - network|` over the domain; None where target or network are of another kind."""
    target = claim.imitated
    between = go_between(target, claim.network)
    if between is None:
        return None
    planes, network = between
    distance, _ = over_cover(NAME, Distance.of(target, planes), proof, deadline)
    parts = {**network.parts, "construction": rounded_up(network.parts["construction"] + distance, 1)}
    bound = rounded_up(network.bound + distance, 1)
    return Conclusion(bound, parts, True, whole(target))


def go_between(target: Target, network: Network) -> tuple[MaxAffine, Conclusion] | None:
    """The planes of a network, and how far it is from their maximum; None where target or network are of another kind.

    The target must have one output and Taylor series: one that has those of degree 1 has all.
    """
    centre = (target.domain.lo / 2 + target.domain.hi / 2).reshape(1, -1)
    planes = read_planes(network) if target.outputs == 1 else None
    if planes is None or target.jets(variables(Interval(centre), 1)) is None:
        return None
    own = bound_by_structure(planes.on(target.domain), network)
    return None if own is None else (planes, own)


def read_planes(network: Network) -> MaxAffine | None:
    """The planes that the heads of an affine map, an attention layer and an affine map average; None for others."""
    match network.layers:
        case (Affine() as first, Attention(residual=False) as layer, Affine() as last) if first.left is not None:
            pass
        case _:
            return None
    narrow = layer.value.shape[2] == layer.output.shape[2] == 1 and last.constant.size == len(last.right) == 1
    if len(layer.memory) or not layer.attends_data or not narrow:
        return None
    gain = float(last.right[0, 0, 0])
    signs = layer.output[:, 0, 0] * gain  # (H,)
    if not (signs[0] > 0 and (signs[1:] < 0).all() and len(signs) <= 2):
        return None
    slopes = np.einsum("kNn,kdf->Nfnd", first.left, first.right).reshape(*first.constant.shape, -1)  # (N, F, D)
    parts = []
    for sign, value, bias in zip(np.abs(signs), layer.value[:, :, 0], layer.value_bias[:, 0], strict=True):
        A = sign * np.einsum("f,Nfx->Nx", value, slopes)  # (N, D)
        parts.append((A, sign * (first.constant @ value + bias)))
    A, b = parts[0]
    shift = float(layer.output_bias[0]) * gain + float(last.constant[0, 0])
    return MaxAffine(A, b + shift, MaxAffine(*parts[1]) if len(parts) == 2 else None)


@dataclass(frozen=True, eq=False)
class Distance:
    """Bounds `|f - M|` on boxes."""

    target: Target
    plus: tuple[Floats, Floats]  # (N, D), (N,)
    minus: tuple[Floats, Floats]  # (N', D), (N',)

    @classmethod
    def of(cls, target: Target, planes: MaxAffine) -> Distance:
        """The second maximum is that of one plane, zero, where there is none."""
        none = (np.zeros((1, planes.A.shape[1])), np.zeros(1))
        return cls(target, (planes.A, planes.b), none if planes.minus is None else (planes.minus.A, planes.minus.b))

    def defined(self, low: Floats, high: Floats) -> bool:
        """Is the target proved to be defined on these boxes? Where its series are bounded."""
        return True

    def batches(self, rows: Integers) -> list[Integers]:
        """Rows in batches whose temporary arrays are small."""
        step = max(1, ENTRIES // (max(len(self.plus[1]), len(self.minus[1])) * self.target.domain.size))
        return [rows[k : k + step] for k in range(0, len(rows), step)]

    def on(self, low: Floats, high: Floats) -> tuple[Floats, Floats, npt.NDArray[np.integer]]:
        """A bound for each box (B, D), the error at its centre, and the axis along which to halve it."""
        centre = low / 2 + high / 2
        radius = directed.above(np.maximum(high - centre, centre - low))
        point = self.target.jets(variables(Interval(centre), 1))
        whole = self.target.jets(variables(Interval(low, high), 2))
        if point is None or whole is None:
            return np.full(len(low), inf), np.zeros(len(low)), np.zeros(len(low), dtype=np.int64)
        size, base = low.shape[1], whole.basis
        value, slope = point.mid[:, 0, 0], point.mid[:, 0, 1 : 1 + size]  # (B,), (B, D)
        off = point.rad[:, 0, 0] + (point.rad[:, 0, 1 : 1 + size] * radius).sum(axis=1)  # (B,)
        second = slice(base.count(1), None)
        middle, spread = whole.mid[:, 0, second], whole.rad[:, 0, second]  # (B, C)
        powers = (radius[:, None] ** base.exponents[second]).prod(axis=2)  # (B, C)
        powers = rounded_up(powers, (2 * LIBRARY_ULPS + 1) * size) + 16 * SMALLEST
        square = (base.exponents[second] == 2).any(axis=1)  # d_k² is not negative
        rises, falls = (
            (np.where(square, np.maximum(sign * middle + spread, 0.0), np.abs(middle) + spread) * powers).sum(axis=1)
            for sign in (1.0, -1.0)
        )
        (A, b), (C, e) = self.plus, self.minus
        P, Q = centre @ A.T + b, centre @ C.T + e  # (B, N), (B, N')
        p, q = P.argmax(axis=1), Q.argmax(axis=1)
        rows = np.arange(len(low))
        above, up = _reach(value - P[rows, p], slope - A[p], Q, C, radius)  # (B,), (B, D)
        below, down = _reach(-value - Q[rows, q], -slope - C[q], P, A, radius)
        sizes = np.abs(value) + (np.abs(slope) * radius).sum(axis=1)
        for planes, starts in (self.plus, self.minus):
            reach = np.maximum(np.abs(low), np.abs(high))
            sizes = sizes + 2 * (reach @ np.abs(planes).T + np.abs(starts)).max(axis=1)
        slack = sum_error(sizes + rises + falls + off, 4 * size + powers.shape[1] + 16) + off
        slack = slack + powers.shape[1] * SMALLEST
        bound = rounded_up(np.maximum(above + rises, below + falls) + slack, 2)
        bends = np.abs(middle) + spread
        along = np.stack([(bends * powers * (base.exponents[second, k] > 0)).sum(axis=1) for k in range(size)], axis=1)
        along = along + np.where((above + rises > below + falls)[:, None], up, down)
        error = np.abs(value - P[rows, p] + Q[rows, q]) - slack
        return np.where(np.isnan(bound), inf, bound), np.maximum(np.nan_to_num(error), 0.0), along.argmax(axis=1)


class OnBoxes(Protocol):
    """Bounds the distance of a target from a function on boxes."""

    @property
    def target(self) -> Target:
        """The target."""
        ...

    def batches(self, rows: Integers) -> list[Integers]:
        """Rows in batches whose temporary arrays are small."""
        ...

    def on(self, low: Floats, high: Floats) -> tuple[Floats, Floats, npt.NDArray[np.integer]]:
        """A bound for each box (B, D), the error at its centre, and the axis along which to halve it."""
        ...

    def defined(self, low: Floats, high: Floats) -> bool:
        """Is the target proved to be defined on these boxes?"""
        ...


def over_cover(name: str, distance: OnBoxes, proof: Proof, deadline: Deadline) -> tuple[float, bool]:
    """The largest bound on the leaves of a cover, inf where a leaf has none; is the target defined on all of them?"""
    low, high = distance.target.domain.starts()  # (R, D)
    cover = Cover.read(name, proof.data, len(low), low.shape[1])
    node, largest, defined = np.arange(len(low)), 0.0, True
    while len(node):
        leaf = cover.leaf[node]
        for rows in distance.batches(np.flatnonzero(leaf)):
            deadline.check("checking the proof")
            largest = max(largest, float(distance.on(low[rows], high[rows])[0].max()))
            defined = defined and distance.defined(low[rows], high[rows])
        inner = np.flatnonzero(~leaf)
        axis = cover.axes[node[inner]].astype(np.int64)
        low, high = halved(low[inner], high[inner], axis)
        node = cover.children(node[inner]).T.ravel()
    return largest, defined


def _reach(value: Floats, slope: Floats, planes: Floats, slopes: Floats, radius: Floats) -> tuple[Floats, Floats]:
    """`max_k (value + planes_k + |slope + slopes_k|·radius)` and what each axis adds to the largest of them.

    (B,), (B, D), (B, N), (N, D), (B, D) -> (B,), (B, D).
    """
    each = np.abs(slope[:, None] + slopes) * radius[:, None]  # (B, N, D)
    reached = value[:, None] + planes + each.sum(axis=2)  # (B, N)
    largest, rows = reached.argmax(axis=1), np.arange(len(reached))
    return reached.max(axis=1), each[rows, largest]


def halved(low: Floats, high: Floats, axis: npt.NDArray[np.integer]) -> tuple[Floats, Floats]:
    """Both halves of each box."""
    rows = np.arange(len(low))
    middle = Interval(low[rows, axis], high[rows, axis]).mid
    upper, lower = low.copy(), high.copy()
    upper[rows, axis] = lower[rows, axis] = middle
    return np.concatenate([low, upper]), np.concatenate([lower, high])
