"""How far a network computed in floating point can be from the same network in real arithmetic.

Running error analysis, one pass through the layers, uniform over the domain: each feature has a bound on its
size and a bound on its error. u is the unit roundoff. Sums of products may be taken in any order, fused or
not: a sum of c nonzero products is off by at most `(c + 2) u Σ|products|` (products with a zero weight are exact).

**Attention** (THEORY 10). Let the computed score of token j be off by at most A_j, `t_j = max s - s_j`, ε the
error of exp, B the number of blocks that a streaming kernel uses. The computed unnormalised weight is the true
one times `e^{±η_j}`, `η_j = η + u' t_j`, with `u' = 1.01 u` and
`η = 1.01 (Ā + 2uĀ + Bε + [B > 1] u (T + 2Ā))`, Ā = max A_j, T = max t_j; and then

    |ŷ - y| <= Σ_j w_j (e^{η_j} - 1) |v_j - y| / (1 - Σ_j w_j (1 - e^{-η_j}))      (weights)
             + 1.01 (2N + 2B + 4) u (Σ_j w_j |v_j| + ...)                           (sums)
             + 2N tiny (1 + max|v|)                                                 (underflow).

The terms `u' t_j` are unbounded, but heavy tokens have small t_j. With `Z = Σ e^{-t_j}`, w_j = e^{-t_j}/Z and Z >= 1,
Hölder's inequality gives `Σ e^{-(1-u')t_j} <= N^{u'} Z^{1-u'}`, hence

    Σ_j w_j e^{η_j} <= e^η N^{u'}        and (entropy)        Σ_j w_j η_j <= η + u' log N,

so with `η* = η + u' log N` the first line is at most `osc(v) (e^{η*} - 1)/(1 - η*)`. Nothing depends on x any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from math import ceil, exp, log

import numpy as np
import numpy.typing as npt

from ..domain import Box
from ..network import Affine, Attention, Network, Softmax

Floats = npt.NDArray[np.float64]

FLASH_BLOCK = 512


@dataclass(frozen=True)
class Arithmetic:
    """A floating-point format and the kernels that run in it."""

    unit: float
    """Unit roundoff u."""
    exp_error: float
    """Relative error of exp in the kernels we know (streaming kernels use a 20-ulp exp in float32)."""
    tiny: float
    """Weights below this may be flushed to zero."""


ARITHMETIC = {
    "float64": Arithmetic(unit=2.0**-53, exp_error=16 * 2.0**-53, tiny=2.0**-1020),
    "float32": Arithmetic(unit=2.0**-24, exp_error=40 * 2.0**-24, tiny=2.0**-125),
}

EXACT = Arithmetic(unit=0.0, exp_error=0.0, tiny=0.0)
"""Real arithmetic: only errors already in the input are carried along."""

KERNEL_ASSUMPTION = (
    "the kernel's exp is within {error:.0f} units of roundoff, sums use {dtype} throughout (no TF32 or half sums), "
    "and blocks hold at least {block} keys"
)


def kernel_assumption(dtype: str) -> str:
    """What the rounding part takes for granted about the machine that runs the network."""
    arithmetic = ARITHMETIC[dtype]
    return KERNEL_ASSUMPTION.format(error=arithmetic.exp_error / arithmetic.unit, dtype=dtype, block=FLASH_BLOCK)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on sizes and errors of every feature of every token, (n, d) each."""

    size: Floats
    error: Floats


def rounding_parts(network: Network, domain: Box) -> tuple[float, float]:
    """(error of the arithmetic, error from rounding the input), largest over outputs and over the domain."""
    arithmetic = ARITHMETIC[network.dtype]
    size = np.maximum(np.abs(domain.lo), np.abs(domain.hi)).reshape(network.shape_in)  # (n, d)
    moved = size * arithmetic.unit + arithmetic.tiny
    total = float(_through(network, Bounds(size * (1 + 1e-6), moved), arithmetic).max())
    by_input = float(_through(network, Bounds(size * (1 + 1e-6), moved), EXACT).max())
    return max(total - by_input, 0.0) * (1 + 1e-9), by_input * (1 + 1e-9)


def largest_numbers(network: Network, domain: Box) -> tuple[float, float]:
    """Bounds on the largest score and the largest value that occur in any head on the domain."""
    size = np.maximum(np.abs(domain.lo), np.abs(domain.hi)).reshape(network.shape_in)  # (n, d)
    bounds, logit, value = Bounds(size, np.zeros_like(size)), 0.0, 0.0
    for layer in network.layers:
        if isinstance(layer, Attention):
            tokens = Bounds(np.abs(layer.memory), np.zeros_like(layer.memory))
            tokens = _join(tokens, bounds) if layer.attends_data else tokens
            for head in range(layer.heads):
                q = _linear(bounds, layer.query[head], layer.query_bias[head], EXACT)  # (n, k)
                k = _linear(tokens, layer.key[head], layer.key_bias[head], EXACT)  # (T, k)
                v = _linear(tokens, layer.value[head], layer.value_bias[head], EXACT)  # (T, v)
                logit = max(logit, float((q.size @ k.size.T).max()))
                value = max(value, float(v.size.max()))
        bounds = carry(layer, bounds, EXACT)
    return logit, value


def _through(network: Network, bounds: Bounds, arithmetic: Arithmetic) -> Floats:
    for layer in network.layers:
        bounds = carry(layer, bounds, arithmetic)
    return bounds.error


@singledispatch
def carry(layer: object, bounds: Bounds, arithmetic: Arithmetic) -> Bounds:
    """Bounds after one layer."""
    raise TypeError(f"no rounding model for {type(layer).__name__}")


@carry.register
def _(layer: Affine, bounds: Bounds, arithmetic: Arithmetic) -> Bounds:
    if layer.left is None:
        return _linear(bounds, layer.right[0], layer.constant[0], arithmetic)
    left, right = np.abs(layer.left), np.abs(layer.right)
    mix = lambda array: np.einsum("kNn,nd,kdm->Nm", left, array, right)  # noqa: E731
    size = mix(bounds.size) + np.abs(layer.constant)
    terms = np.einsum("kNn,kdm->Nm", (left != 0) * 1.0, (right != 0) * 1.0) + len(left)
    return Bounds(size, _sum_error(size + mix(bounds.error), terms, arithmetic) + mix(bounds.error))


@carry.register
def _(layer: Attention, bounds: Bounds, arithmetic: Arithmetic) -> Bounds:
    length = len(bounds.size)
    size, error = np.zeros((length, layer.width_out)), np.zeros((length, layer.width_out))
    memory = Bounds(np.abs(layer.memory), np.zeros_like(layer.memory))
    for head in range(layer.heads):
        q = _linear(bounds, layer.query[head], layer.query_bias[head], arithmetic)  # (n, k)
        keys = _linear(memory, layer.key[head], layer.key_bias[head], arithmetic)  # (M, k)
        values = _linear(memory, layer.value[head], layer.value_bias[head], arithmetic)  # (M, v)
        exact_values = layer.memory @ layer.value[head] + layer.value_bias[head]  # (M, v)
        high, low = exact_values.max(axis=0, initial=-np.inf), exact_values.min(axis=0, initial=np.inf)
        if layer.attends_data:
            keys = _join(keys, _linear(bounds, layer.key[head], layer.key_bias[head], arithmetic))
            data = _linear(bounds, layer.value[head], layer.value_bias[head], arithmetic)
            high, low = np.maximum(high, data.size.max(axis=0)), np.minimum(low, -data.size.max(axis=0))
            values = _join(values, data)
        largest, value_error = values.size.max(axis=0), values.error.max(axis=0)  # (v,)
        off = _attention_error(q, keys, high - low, largest, arithmetic) + value_error  # (n, v)
        through = np.abs(layer.output[head])
        size += np.broadcast_to(largest @ through, size.shape)
        error += off @ through
    size += np.abs(layer.output_bias)
    terms = (layer.output != 0).sum(axis=(0, 1)) + (layer.output_bias != 0)
    error += _sum_error(size + error, np.where(_selects(layer.output, layer.output_bias), 0, terms), arithmetic)
    if layer.residual:
        size, error = size + bounds.size, error + bounds.error
        error = error + arithmetic.unit * 1.01 * (size + error)
    return Bounds(size, error)


@carry.register
def _(layer: Softmax, bounds: Bounds, arithmetic: Arithmetic) -> Bounds:
    worst = bounds.error.max(axis=1, keepdims=True)  # (n, 1)
    reach = 2 * bounds.size.max(axis=1, keepdims=True)
    eta = 1.01 * (2 * worst + arithmetic.unit * (reach + 2 * worst) + arithmetic.exp_error)
    relative = np.expm1(np.minimum(2 * eta + (2 * layer.width + 8) * arithmetic.unit, 700.0))
    error = np.minimum(relative + layer.width * arithmetic.tiny, 1.0)
    return Bounds(np.ones_like(bounds.size), np.broadcast_to(error, bounds.size.shape))


def _attention_error(q: Bounds, keys: Bounds, osc: Floats, largest: Floats, arithmetic: Arithmetic) -> Floats:
    """|ŷ - y| for each query token and value column, (n, v)."""
    count, unit = len(keys.size), arithmetic.unit
    if count * unit > 0.005:
        return np.full((len(q.size), len(osc)), np.inf)
    blocks = ceil(count / FLASH_BLOCK)
    features = int(((q.size > 0).any(axis=0) & (keys.size > 0).any(axis=0)).sum()) + 4  # stock scaling included
    q_size, k_size = q.size + q.error, keys.size + keys.error
    products = q_size @ k_size.T  # (n, N)
    off = features * unit * products + q.error @ k_size.T + q_size @ keys.error.T
    worst, reach = off.max(axis=1), 2 * products.max(axis=1)  # (n,)
    eta = worst + 2 * unit * worst + blocks * arithmetic.exp_error
    eta = 1.01 * (eta + (unit * (reach + 2 * worst) if blocks > 1 else 0.0)) + 1.01 * unit * log(count)
    out = np.empty((len(q.size), len(osc)))
    for token, value in enumerate(eta):
        factor = (exp(value) - 1) / (1 - value) if value < 0.5 else np.inf
        by_weights = np.minimum(factor, 1.0) * osc
        sizes = largest * (1 + min(factor, 1.0))
        out[token] = by_weights + 1.01 * (2 * count + 2 * blocks + 4) * unit * sizes
    return out + 2 * count * arithmetic.tiny * (1 + largest)


def _linear(bounds: Bounds, weight: Floats, bias: Floats, arithmetic: Arithmetic) -> Bounds:
    """`x weight + bias` on every token; selections are exact."""
    size = bounds.size @ np.abs(weight) + np.abs(bias)
    error = bounds.error @ np.abs(weight)
    terms = (weight != 0).sum(axis=0) + (bias != 0)
    terms = np.where(_selects(weight, bias), 0, terms)
    return Bounds(size, error + _sum_error(size + error, terms, arithmetic))


def _selects(weight: Floats, bias: Floats) -> npt.NDArray[np.bool_]:
    """Columns of `weight` that merely pick one feature."""
    flat = weight.reshape(-1, weight.shape[-1])
    return ((flat != 0).sum(axis=0) <= 1) & np.isin(flat, (0.0, 1.0, -1.0)).all(axis=0) & (bias == 0)


def _sum_error(size: Floats, terms: npt.NDArray[np.integer] | Floats, arithmetic: Arithmetic) -> Floats:
    """Error of sums of `terms` products whose absolute values add up to at most `size`."""
    count = np.where(terms > 0, terms + 2, 0)
    return 1.01 * count * arithmetic.unit * size + np.where(terms > 0, terms * arithmetic.tiny, 0.0)


def _join(first: Bounds, second: Bounds) -> Bounds:
    return Bounds(np.concatenate([first.size, second.size]), np.concatenate([first.error, second.error]))
