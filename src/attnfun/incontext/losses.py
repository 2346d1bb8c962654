"""Losses for gradient descent: the derivative ψ(z, y) = ∂ℓ/∂z by the prediction z, and how attention computes it.

    squared    (z - y)²/2                        ψ = z - y, a linear map                                 exact
    logistic   log(1 + e^z) - y z, y from 0 to 1    two tokens, z and -z                                    exact
    log-cosh   δ² log cosh((z - y)/δ)              two tokens                                              exact
    poisson    e^z - y z                          two tokens, scores z and TOP, see `banks.poisson`        e^(2 z - TOP)
    huber      r²/2 up to |r| = δ, linear beyond   three keys: the row itself and ±δ [T 4.3]                 0.27847/R
    formula    any convex formula of z and y      heads over (z, y), compiled from the derivative          proved

The last column bounds the distance of what attention computes in exact arithmetic from ψ, for predictions within
`reach`. Losses that are no formula have no limit but that of poisson's, e^z.

**A formula.** It is differentiated symbolically [T 13.5] and compiled as one layer of heads on the box |z| ≤ reach, y
among the labels; its certificate bounds the distance. The slope of ψ is enclosed on boxes that cover this one. A loss
that is not convex is refused with a point that shows it.

>>> round(float(READY["huber"](2.0, 8.0).derivative(np.array([5.0]), np.array([1.0]))[0][0]), 6)
2.0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import exp, inf
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..arithmetic.directed import LIBRARY_ULPS, ULP, above_real
from ..compiled import Compiled
from ..compiler import compile
from ..domains.box import Box
from ..errors import InputError, ToleranceNotMet
from ..network import Affine, Attention, FactoredAttention
from ..targets import Expression
from ..targets.derivatives import derivative
from .banks import FAMILIES, LossBank, poisson

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Derivative = Callable[[Array, Array], tuple[Array, Array | float]]


@dataclass(frozen=True)
class LossTuning:
    """How finely losses that are formulas are bounded and written out."""

    cuts: tuple[int, ...] = (256, 16)
    """Boxes along z and y on which the slope of ψ is enclosed. A round number."""
    most_tokens: int = 4096
    """Tokens of the derivative of a formula. For memory."""
    ratio: float = 1e-9
    """A second derivative below minus this share of the largest one is negative. By trial: rounding stays below."""


TUNING = LossTuning()

BEYOND = 36.0
"""How far the score of the second token of e^z is above the largest z."""
SMALLER = "Lower `reach`, the largest prediction that the network must bear."


@dataclass(frozen=True, eq=False)
class Loss:
    """What gradient descent must know of a loss."""

    name: str
    derivative: Derivative
    """ψ in extended precision, and a bound on the error of that."""
    curvature: float
    """Bounds |∂ψ/∂z| where |z| ≤ reach."""
    banks: tuple[LossBank, ...] = ()
    """Tokens whose averages add up to ψ; with none and without `delta` ψ = z - y."""
    delta: float | None = None
    """Of huber's loss."""
    error: float = 0.0
    """Bounds the distance of the banks from ψ where |z| ≤ reach."""
    shift: float = 0.0
    """What is taken off labels in the prompt, so that ψ(-z, -y) = -ψ(z, y) there."""
    reach: float = inf
    """Largest |z| for which `curvature` and `error` hold."""
    labels: tuple[float, float] = (-inf, inf)
    """Smallest and largest label for which they hold."""
    assumptions: tuple[str, ...] = ()


def _squared(delta: float, reach: float) -> Loss:
    return Loss("squared", lambda z, y: (z - y, 0.0), 1.0)


def _logistic(delta: float, reach: float) -> Loss:
    def psi(z: Array, y: Array) -> tuple[Array, float]:
        return np.tanh(z / 2) / 2 - y, 0.0  # labels less a half

    return Loss("logistic", psi, 0.25, (FAMILIES["logistic"](1.0),), shift=0.5, labels=(0.0, 1.0))


def _log_cosh(delta: float, reach: float) -> Loss:
    bank = FAMILIES["log-cosh"](delta)
    return Loss("log-cosh", lambda z, y: (delta * np.tanh((z - y) / delta), 0.0), 1.0, (bank,))


def _huber(delta: float, reach: float) -> Loss:
    return Loss("huber", lambda z, y: (np.clip(z - y, -delta, delta), 0.0), 1.0, delta=delta)


def _poisson(delta: float, reach: float) -> Loss:
    if reach > 300:
        raise InputError("reach must be at most 300 for the poisson loss, which is e^z", got=reach)
    top = reach + BEYOND
    bank = replace(poisson(exp(reach)), offsets=np.array([0.0, top]), values=np.array([[exp(top)], [0.0]]))
    largest = above_real(exp(reach))  # e^z / (1 + e^(z - top)), and e^top as a float
    error = above_real(largest * (exp(-BEYOND) + 2 * LIBRARY_ULPS * ULP))
    return Loss("poisson", lambda z, y: (np.exp(z) - y, 0.0), largest, (bank,), error=error, reach=reach)


READY: dict[str, Callable[[float, float], Loss]] = {
    "squared": _squared,
    "logistic": _logistic,
    "huber": _huber,
    "log-cosh": _log_cosh,
    "poisson": _poisson,
}
"""Losses by name, for a δ and a largest prediction."""


@lru_cache(maxsize=16)
def of_formula(text: str, reach: float, labels: tuple[float, float], tolerance: float, dtype: str) -> Loss:
    """A loss as a formula of z and y, for |z| ≤ reach and labels from `labels[0]` to `labels[1]`."""
    box = Box([-reach, labels[0]], [reach, labels[1]], ("z", "y"))
    loss = Expression(text, box)
    if loss.output_shape:
        raise InputError("a loss must be one number", got=text)
    psi = derivative(loss, 0)
    curvature = _curvature(derivative(psi, 0), text)
    net = _compiled(psi, tolerance, text, dtype)

    def exact(z: Array, y: Array) -> tuple[Array, Array]:
        points = np.stack([z, y], axis=-1).astype(np.float64).reshape(-1, 2)  # (B, 2)
        off = np.abs(points - np.stack([z, y], axis=-1).reshape(-1, 2)).max(axis=1)  # (B,)
        found = psi.enclose(Interval(points))
        middle, radius = (found.lo + found.hi) / 2, (found.hi - found.lo) + off[:, None] * curvature
        return middle.reshape(z.shape).astype(np.longdouble), radius.reshape(z.shape)

    return Loss(
        text,
        exact,
        curvature,
        _banks(net),
        error=net.certificate.bound,
        reach=reach,
        labels=labels,
        assumptions=net.certificate.assumptions,
    )


def _curvature(slope: Expression, text: str) -> float:
    """A bound on |∂ψ/∂z|; a loss with a negative one is refused."""
    box = slope.domain
    ends = [np.linspace(low, high, count + 1) for low, high, count in zip(box.lo, box.hi, TUNING.cuts, strict=True)]
    lows, highs = (np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2) for sides in _sides(ends))
    found = slope.enclose(Interval(lows, highs))
    largest = float(np.maximum(np.abs(found.lo), np.abs(found.hi)).max())
    if not largest < inf:
        raise InputError(
            f"the second derivative of a loss must be bounded for |z| up to {box.hi[0]:g}", got=text, remedy=SMALLER
        )
    values = slope.values(lows)[:, 0]  # (B,)
    worst = int(values.argmin())
    if values[worst] < -TUNING.ratio * largest:
        z, y = lows[worst]
        raise InputError(
            "a loss must be convex in the prediction z",
            got=f"the second derivative {values[worst]:.3g} at z = {z:g}, y = {y:g}",
        )
    return largest


def _sides(ends: list[Floats]) -> tuple[list[Floats], list[Floats]]:
    """Lower and upper ends of the intervals between points."""
    return [points[:-1] for points in ends], [points[1:] for points in ends]


def _compiled(psi: Expression, tolerance: float, text: str, dtype: str) -> Compiled:
    """One layer of heads within the tolerance of ψ: solved values, or cells where ψ has corners."""
    reason = ""
    for construction in ("spectral", "cross"):
        try:
            net = compile(
                psi,
                psi.domain,
                tolerance,
                construction=construction,
                dtype=dtype,
                budget=TUNING.most_tokens,
                progress=False,
            )
        except ToleranceNotMet as error:
            reason = reason or str(error)  # of solved values: cells take more tokens than anybody has
            continue
        if len(net.network.attention) == 1:
            return net
    raise InputError(
        f"the derivative of a loss must be within {tolerance:g} of heads with {TUNING.most_tokens} tokens at most",
        got=f"{text} ({reason})" if reason else text,
        remedy="Raise `tolerance`, or lower `reach`.",
    )


def _banks(net: Compiled) -> tuple[LossBank, ...]:
    """The heads of a network on one token as tokens (slope by z, slope by y, offset, value), folded exactly."""
    before, heads, bias = Affine.tokenwise(np.eye(2), np.zeros(2)), None, np.zeros(1)
    for layer in net.network.layers:
        if isinstance(layer, Affine) and heads is None:
            before = layer
        elif isinstance(layer, FactoredAttention):
            heads = layer.dense()
        elif isinstance(layer, Attention):
            heads = layer
    assert heads is not None  # noqa: S101 - see _compiled
    weight, constant = _exact(before.right[0]), _exact(before.constant[0])
    made, bias = [], heads.output_bias
    for number in range(heads.heads):
        query, key, value = (_exact(part[number]) for part in (heads.query, heads.key, heads.value))
        memory = _exact(heads.memory)
        keys = memory @ key + _exact(heads.key_bias[number])  # (T, k)
        scores = np.vstack([weight @ query, constant @ query + _exact(heads.query_bias[number])]) @ keys.T  # (3, T)
        values = (memory @ value + _exact(heads.value_bias[number])) @ _exact(heads.output[number])  # (T, 1)
        values = values + _exact(bias if number == 0 else np.zeros(1))
        slopes, offsets = scores[:2].T.astype(np.float64), scores[2].astype(np.float64)
        made.append(LossBank(slopes, offsets, values.astype(np.float64), odd=False, curvature=inf))
    return tuple(made)


def _exact(array: Floats) -> Array:
    """Floats as fractions."""
    return np.vectorize(Fraction, otypes=[object])(array)
