"""A proof for networks that treat every token alike and alone: reduce it to one variable [T 11.5].

If keys and values of an attention layer are constants and the query of token i depends on one feature g_i only, in
the same way for every i, then output i is `Y(g_i)` for one function Y of one variable. For a truncated linear map the
target is `clip(z_i)`, so with g_i within e of z_i

    |Y(g_i) - clip(z_i)| <= max_g |Y(g) - clip(g)| + e,

as a clip is 1-Lipschitz; g runs over one interval that holds all features as computed. The maximum is bounded by
branch and bound in one variable, on the network's own keys and values; e comes from following affine forms
(`structure.py`). Rounding in g_i moves the network itself by up to its slope times as much, at most 2.6 for the
interpolating heads; the parts `input` and `rounding` count it three times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...arithmetic.directed import above, below, rounded_up, sum_up
from ...arithmetic.formats import FORMATS
from ...domains.box import Box
from ...network import Affine, Attention, Network
from ...targets import PiecewiseLinear, Target
from ...targets.piecewise import Stage, TruncatedLinearTarget
from ..claim import Claim
from ..proof import Conclusion
from .structure import initial_state, through_affine, whole

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NAME = "one feature"


@dataclass(frozen=True, eq=False)
class OneFeature:
    """A truncated linear map of sequences, reduced to one variable."""

    target: Target
    inner: Claim
    """That the head, as a function of one feature, imitates the clip."""
    apart: float
    """How far the feature may be from the linear map, in real arithmetic."""
    off: Floats  # (2,), how far the deployed network's feature may be off, because of the input and of its own rounding

    def conclusion(self, head: Conclusion) -> Conclusion:
        """The bound for the sequence, from that for one feature."""
        parts = {
            "construction": rounded_up(head.parts["construction"] + self.apart, 1),
            "input": rounded_up(3 * float(self.off[0]), 1),
            "rounding": rounded_up(head.parts["rounding"] + 3 * float(self.off[1]), 2),
        }
        bound = float(sum_up(np.array(list(parts.values()))))
        return Conclusion(bound, parts, True, whole(self.target))


def reduced(claim: Claim) -> OneFeature | None:
    """The claim in one variable; None where the network is of another kind."""
    network = claim.network
    match claim.imitated, network.layers:
        case TruncatedLinearTarget() as target, (Affine() as read_in, Attention() as layer):
            pass
        case _:
            return None
    maxima, arithmetic = target.maxima(), FORMATS[network.dtype]
    state = through_affine(read_in, initial_state(maxima, network), arithmetic)
    read = _read(layer, state.forms.varies, state.forms.coefficients[..., 0])
    constants = np.where(state.forms.varies, 0.0, state.forms.coefficients[..., 0])  # (n, d)
    noise = np.where(state.forms.varies, 0.0, state.forms.slack + state.error.sum(axis=2))
    if read is None or noise.any():  # constants must be exact
        return None
    feature, row = read
    g, off = state.forms[:, feature], state.error[:, feature]  # (n,), (n, 2)
    apart = float((g - target.linear_forms(maxima.frame)).size.max())
    reach = sum_up(off, axis=1)
    domain = Box(float(below(g.range.lo - reach).min()), float(above(g.range.hi + reach).max()))
    clip = Stage.affine(np.ones((1, 1)), np.zeros(1)).clipped(target.family.a, target.family.b)
    alone = Network((_lift(feature, row), _frozen(layer, constants)), 1, network.dtype)
    one = PiecewiseLinear([clip], domain, (), "clip")
    return OneFeature(target, Claim.inner(one, alone), apart, off.max(axis=0))


def _read(layer: Attention, varies: Flags, constants: Floats) -> tuple[int, Floats] | None:
    """The one varying feature that queries read, and the constants they read besides, (d,); None if there are more."""
    reads = [(weight != 0).any(axis=(0, 2)) for weight in (layer.query, layer.key, layer.value)]  # (d,) each
    wanted = np.flatnonzero(reads[0] & varies.any(axis=0))
    fixed = reads[0] & ~varies.any(axis=0)
    shown = (reads[1] | reads[2]) & varies.any(axis=0)  # by keys and values: must not vary
    if len(wanted) != 1 or shown.any() or (constants[:, fixed] != constants[:1, fixed]).any() or layer.residual:
        return None
    return int(wanted[0]), np.where(fixed, constants[0], 0.0)


def _lift(feature: int, row: Floats) -> Affine:
    """One number as the feature of a token."""
    return Affine.tokenwise(np.eye(1, len(row), feature), row)


def _frozen(layer: Attention, constants: Floats) -> Attention:
    """The same keys and values, all of them as memory."""
    rows = [layer.memory, *([constants] if layer.attends_data else [])]
    return replace(layer, memory=np.vstack(rows), attends_data=False)
