"""Rectifier networks as attention: one head a unit, one attention layer a hidden layer ([B], two-layer theorem and
corollaries, made exact to any tolerance) [T 5.1].

**Construction.** Affine layers are multiplied into what follows them. The sequence is one token `(h, 1)`, h the values
of the previous layer. For a unit `clip(z, a, b)`, `z = w·h + β`, a head sees three keys: the token itself and two
memory tokens, with

    scores  { 0, -R (z - a), R (z - b) },     values  { z, a, b }.

An end that is infinite is a muted memory token (score -200). The query is `(R z, 1)`, so scores are as
affine in h as the values. A layer of rectifiers has heads of one feature: scores R z of the token, whose key is 1, and
0 of one memory token of zeros. The output map carries the heads into the features of the next layer's token, and after
the last hidden layer into the outputs. Units that clip nothing have heads that hear only the token:
`LeakyReLU(z) = α z + (1 - α) max(0, z)` and residual additions need them.

**Bound.** Each head is a fan with one token on each side (`proofs/fans.py`), so it is within `0.27847/R` of its
unit. Clipping is 1-Lipschitz, hence errors before layer l obey `e_{l+1} <= |W_{l+1}| (e_l + 0.27847/R)`, |W| the
largest sum of absolute weights of a unit; e_1 = 0. A muted memory token adds what `muted` says of values
as large as the network's own, which are averages of z and ends. R is a power of two, so `R z` has the rounding errors
of z, times R, and they cost as much in the output as those of z itself, whatever R is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..arithmetic.formats import round_to
from ..network import Affine, Attention, Network
from ..network.network import rounded
from ..targets import PiecewiseLinear, Target
from ..targets.piecewise import Stage, TruncatedLinearTarget
from .base import Construction, Plan, PlanRequest
from .sharpness import MUTED, RECTIFIER, muted, sharpness

Floats = npt.NDArray[np.float64]


class ReluConstruction(Construction[PiecewiseLinear, float]):
    """A feed-forward network of rectified or clipped units, head by head."""

    name: ClassVar[str] = "relu"
    theorem: ClassVar[str] = "arXiv 2504.15956 (two-layer theorem and corollaries), with exact units"
    options: ClassVar[frozenset[str]] = frozenset({"R"})
    proves: ClassVar[frozenset[str]] = frozenset({PiecewiseLinear.kind, TruncatedLinearTarget.kind})
    made_for: ClassVar[tuple[type[Target], ...]] = (PiecewiseLinear,)

    def serves(self, target: Target) -> bool:
        """Piecewise-linear networks only."""
        return isinstance(target, PiecewiseLinear)

    def plan(self, target: PiecewiseLinear, request: PlanRequest) -> Plan[float]:
        """R from the tolerance and the format: the error is proportional to 1/R, and rounding does not grow with R."""
        error = error_at_one(target)
        sharp = sharpness(error, request, 2 * max(float(sizes.max()) for sizes in largest_values(target)))
        tokens = sum(len(stage.bias) * len(_ends(stage)) for stage in _hidden(target.stages)[:-1])
        return Plan(tokens, error / sharp + muting_error(target), sharp)

    def build(self, target: PiecewiseLinear, plan: Plan[float], dtype: str) -> Network:
        """Affine map, one attention layer for each hidden layer, and for sequences an affine map back to tokens."""
        stages = _hidden(target.stages)
        length, size = target.domain.tokens[0], target.domain.size
        to_token, one = stages[0].weight, stages[0].bias
        if len(stages) > 1:
            extra = _extra(stages[0])
            to_token, one = np.eye(size, size + 1 + extra), np.eye(size + 1 + extra)[size]
        layers: list[Any] = [Affine.tokenwise(to_token, one) if length == 1 else Affine.flatten(length, to_token, one)]
        for k, stage in enumerate(stages[:-1]):
            last = k == len(stages) - 2
            layers.append(_layer(stage, stages[-1] if last else None, _extra(stages[k + 1]), plan.details, dtype))
        if len(target.output_shape) == 2:
            layers.append(Affine.unflatten(*target.output_shape))
        return Network(tuple(rounded(layer, dtype) for layer in layers), length, dtype)

    def paper_tokens(self, target: PiecewiseLinear, plan: Plan[float], eps: float) -> int | None:
        """The paper counts no tokens for whole networks."""
        return None


def error_at_one(target: PiecewiseLinear) -> float:
    """The bound above with R = 1."""
    clips = (np.isfinite(stage.low) | np.isfinite(stage.high) for stage in target.stages)
    return _pushed(target, [RECTIFIER * each for each in clips])


def muting_error(target: PiecewiseLinear) -> float:
    """What memory tokens of infinite ends, two at most, add."""
    return _pushed(target, [muted(2, 1.0) * sizes for sizes in largest_values(target)])


def largest_values(target: PiecewiseLinear) -> list[Floats]:
    """Bounds on the units of each stage before they are clipped, and on their finite ends, (m,) each."""
    domain, found = target.domain, list[Floats]()
    largest = np.maximum(np.abs(domain.lo), np.abs(domain.hi)).ravel()  # of the features before a stage
    for stage in target.stages:
        ends = np.stack([np.where(np.isfinite(end), np.abs(end), 0.0) for end in (stage.low, stage.high)])  # (2, m)
        largest = np.maximum(largest @ np.abs(stage.weight) + np.abs(stage.bias), ends.max(axis=0))  # (m,)
        found.append(largest)
    return found


def _pushed(target: PiecewiseLinear, added: Sequence[npt.NDArray[np.floating[Any]]]) -> float:
    """The error of the outputs if each stage adds so much to those of its units."""
    error = np.zeros(target.domain.size)
    for stage, own in zip(target.stages, added, strict=True):
        error = error @ np.abs(stage.weight) + own
    return float(error.max())


def _hidden(stages: Sequence[Stage]) -> list[Stage]:
    """The stages that clip, one attention layer each, and an affine one behind them.

    An affine stage is multiplied into the next one: it needs no layer. The products are rounded, as all weights of a
    network are; what is proved is proved of the weights that come out.
    """
    merged = list[Stage]()
    for stage in stages:
        if merged and merged[-1].is_affine:
            before = merged.pop()
            bias = before.bias @ stage.weight + stage.bias
            stage = Stage(before.weight @ stage.weight, bias, stage.low, stage.high)
        merged.append(stage)
    if not merged[-1].is_affine:
        width = len(merged[-1].bias)
        merged.append(Stage.affine(np.eye(width), np.zeros(width)))
    return merged


def _ends(stage: Stage) -> list[str]:
    """The memory tokens of a stage: the ends that some unit has."""
    return [name for name in ("low", "high") if np.isfinite(getattr(stage, name)).any()] or ["low"]


def _rectifies(stage: Stage) -> bool:
    """Is every unit max(0, z)?"""
    return bool((stage.low == 0).all() and np.isposinf(stage.high).all())


def _extra(stage: Stage) -> int:
    """Features of a token beside the values and the one: those by which heads know the memory tokens."""
    return 0 if _rectifies(stage) else len(_ends(stage))


def _layer(stage: Stage, readout: Stage | None, next_extra: int, sharp: float, dtype: str) -> Attention:
    """The units of a stage as heads (H = m), the output map leading to the next token `(values, 1, 0..)` or outputs."""
    units = stage.weight.shape[1]
    if readout is None:
        output = np.eye(units, units + 1 + next_extra)  # (H, o)
        bias = np.eye(units + 1 + next_extra)[units]
    else:
        output, bias = readout.weight, readout.bias
    heads = _rectifiers(stage, sharp, dtype) if _rectifies(stage) else _clips(stage, sharp, dtype)
    return Attention.of(**heads, output=output[:, None], output_bias=bias, attends_data=True)


def _rectifiers(stage: Stage, sharp: float, dtype: str) -> dict[str, Any]:
    """Heads of one feature: scores R z of the token, whose key is 1, and 0 of a memory token of zeros."""
    inputs, units = stage.weight.shape
    weight = round_to(np.vstack([stage.weight, stage.bias[None]]), dtype).T[:, :, None]  # (H, e, 1)
    key = np.zeros((units, inputs + 1, 1))
    key[:, inputs] = 1.0
    return {"query": sharp * weight, "key": key, "value": weight, "memory": np.zeros((1, inputs + 1))}


def _clips(stage: Stage, sharp: float, dtype: str) -> dict[str, Any]:
    """Heads with the three keys above."""
    inputs, units = stage.weight.shape
    ends = _ends(stage)
    width = inputs + 1 + len(ends)
    weight = round_to(np.vstack([stage.weight, stage.bias[None], np.zeros((len(ends), units))]), dtype)  # (e, H)
    passes = np.isneginf(stage.low) & np.isposinf(stage.high)  # (H,)
    query = np.stack([sharp * weight.T * ~passes[:, None], np.zeros((units, width))], axis=2)  # (H, e, 2): (R z, 1)
    query[:, inputs, 1] = 1.0
    value = weight.T[:, :, None].copy()  # (H, e, 1)
    key = np.zeros((units, width, 2))
    for row, name in enumerate(ends, inputs + 1):
        end, side = getattr(stage, name), 1.0 if name == "high" else -1.0
        finite = np.isfinite(end)
        place = round_to(np.where(finite, end, 0.0), dtype)
        key[:, row, 0] = np.where(finite, side, 0.0)
        key[:, row, 1] = np.where(finite, -side * sharp * place, -MUTED)
        value[:, row, 0] = place
    return {"query": query, "key": key, "value": value, "memory": np.eye(width)[inputs + 1 :]}
