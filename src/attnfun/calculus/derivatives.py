"""The derivative of one attention layer is one attention layer [T 13.6].

A head with scores s_j that are affine in x, with slopes `a_j = ∂s_j/∂x_k`, and values v_j has the derivative

    ∂_k Σ_j w_j v_j = Σ_j w_j (a_j - ā) v_j = Σ_{i < j} w_i w_j (a_i - a_j)(v_i - v_j),     ā = Σ_j w_j a_j,

and `w_i w_j` are softmax weights too: those of pairs of tokens with scores `s_i + s_j`, a pair of different tokens
counted twice. So a head with a token for each pair i <= j, score `s_i + s_j`, plus log 2 where i < j, and value
`(a_i - a_j)(v_i - v_j)/2` is the derivative, exactly but for the rounding of its weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..constructions.heads import Head, assembled
from ..domains.box import Box
from ..network import Affine, Attention, Network
from ..network.network import rounded
from ..network.reference import apply

Floats = npt.NDArray[np.float64]

MOST_TOKENS = 2**14
"""Pairs of tokens that a derivative may have."""
EQUAL = 1e-13
"""Slopes that differ by less than this fraction of the largest are equal: their tokens are put together."""


def derivative_network(network: Network, domain: Box, axis: int, output_shape: tuple[int, ...]) -> Network | None:
    """The derivative by one input of a network with one layer of cross-attention and affine maps; None for others."""
    if not network.is_shallow or network.length is None:
        return None
    place = next((k for k, layer in enumerate(network.layers) if isinstance(layer, Attention)), None)
    if place is None:
        return None
    before, layer, after = network.layers[:place], network.layers[place], network.layers[place + 1 :]
    start, steps = _through(before, np.zeros((1, *network.shape_in))), _units(network, before)  # (1, 1, d), (D, 1, d)
    if not isinstance(layer, Attention) or start.shape[1] != 1:
        return None
    count = len(layer.memory)
    if layer.heads * count * (count + 1) // 2 > MOST_TOKENS:
        return None
    heads, centre = [], domain.lo.ravel() / 2 + domain.hi.ravel() / 2
    values = np.einsum("hmv,hvo->hmo", layer.values(), layer.output)  # (H, M, o)
    for number, keys in enumerate(layer.keys()):
        slopes = (steps[:, 0] @ layer.query[number] @ keys.T).T  # (M, D)
        offsets = keys @ (start[0, 0] @ layer.query[number] + layer.query_bias[number])  # (M,)
        told = _linear(after, values[number][:, None]).reshape(count, -1)  # (M, m)
        heads.append(_pairs(slopes, offsets + slopes @ centre, told, axis, centre))
    rest = np.zeros((1, 1, layer.width_out)) if not layer.residual else steps[axis : axis + 1]
    constant = _linear(after, rest).reshape(-1)  # (m,)
    layers = assembled(heads, constant, network.length, output_shape)
    return Network(tuple(rounded(each, network.dtype) for each in layers), network.length, network.dtype)


def _units(network: Network, layers: tuple[object, ...]) -> Floats:
    """What the layers make of a unit along each input, constants left out, (D, 1, d)."""
    size = int(np.prod(network.shape_in))
    return _linear(layers, np.eye(size).reshape(size, *network.shape_in))


def _through(layers: tuple[object, ...], tokens: Floats) -> Floats:
    for layer in layers:
        tokens = apply(layer, tokens)
    return tokens


def _linear(layers: tuple[object, ...], tokens: Floats) -> Floats:
    """Affine maps without their constants."""
    plain = [replace(layer, constant=np.zeros_like(layer.constant)) for layer in layers if isinstance(layer, Affine)]
    return _through(tuple(plain), tokens)


def _pairs(slopes: Floats, offsets: Floats, values: Floats, axis: int, centre: Floats) -> Head:
    """The head of all pairs, scores as functions of x - centre; pairs with equal slopes put together."""
    first, second = np.triu_indices(len(slopes))
    gain = (slopes[first, axis] - slopes[second, axis]) / 2  # (P,)
    told = gain[:, None] * (values[first] - values[second])  # (P, m)
    scores = offsets[first] + offsets[second] + np.where(first < second, np.log(2.0), 0.0)
    keys = slopes[first] + slopes[second]  # (P, D)
    keys, scores, told = _merged(keys, scores, told)
    top = int(np.argmax(scores))
    size = keys.shape[1]
    return Head(np.eye(size), centre, keys - keys[top], scores - scores[top], told)


def _merged(keys: Floats, scores: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Tokens with equal keys as one: its weight is their sum, its value their average."""
    scale = np.abs(keys).max() * EQUAL or 1.0
    _, first, group = np.unique(np.round(keys / scale), axis=0, return_index=True, return_inverse=True)
    group = group.ravel()
    highest = np.full(len(first), -np.inf)
    np.maximum.at(highest, group, scores)
    weights, sums, total = (
        np.exp(scores - highest[group]),
        np.zeros(len(first)),
        np.zeros((len(first), values.shape[1])),
    )
    np.add.at(sums, group, weights)
    np.add.at(total, group, weights[:, None] * values)
    return keys[first], highest + np.log(sums), total / sums[:, None]
