"""Evaluation in NumPy, in the arithmetic the network is deployed in.

Queries go through in blocks, so memory is bounded whatever the batch. Every step is an elementwise
operation or a sum along one row, never a matrix product whose rounding depends on the number of rows:
`run(network, X)[i]` equals `run(network, X[i : i + 1])[0]` to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arithmetic.formats import held_in, round_to
from ...network import Affine, Attention, Network, Softmax
from ...network.layers import Layer, tokens_read
from ...network.reference import softmax
from . import prompts

Array = npt.NDArray[Any]

BLOCK = 2**17
"""Numbers in the largest temporary array of a head: it should fit the second-level cache."""
WIDER = 16
"""Arrays of features may be so many times as large."""


def run(network: Network, X: Array) -> Array:
    """Evaluate on sequences, (B, n, d) -> (B, n', d'). Cost O(B n N), memory O(BLOCK)."""
    if network.length is None:
        return prompts.run(network.dense(), X)
    return Prepared(network)(X)


class Prepared:
    """A network whose memory is projected once, for many batches."""

    def __init__(self, network: Network) -> None:
        self.network, self.dtype = network.dense(), held_in(network.dtype)
        self.block = max(1, BLOCK // _largest(self.network))
        """Sequences evaluated at a time."""
        self.layers = [
            (layer, {**prepare(layer, self.dtype), "querying": querying})
            for layer, querying in query_tokens(self.network)
        ]

    def __call__(self, X: Array) -> Array:
        """(B, n, d) -> (B, n', d')."""
        X = round_to(X, self.network.dtype).astype(self.dtype)
        out = np.empty((len(X), *self.network.shape_out), dtype=self.dtype)  # (B, n', d')
        for start in range(0, len(X), self.block):
            block = X[start : start + self.block]
            for layer, weights in self.layers:
                block = apply(layer, block, weights)
            out[start : start + self.block] = block
        return out


def query_tokens(network: Network) -> list[tuple[Layer, Array]]:
    """Each layer with the tokens that the next one reads: nobody needs what the others query."""
    length, layers = network.rows, []
    for layer, after in zip(network.layers, [*network.layers[1:], None], strict=True):
        length = layer.length_out(length)
        layers.append((layer, np.flatnonzero(tokens_read(after, length))))
    return layers


def _largest(network: Network) -> int:
    """Numbers that one sequence needs at a time: scores of its queries in one head, or a part of its features.

    Heads come one after the other, for one block at a time: the more rows it has, the less they cost each.
    """
    length, most, features = network.rows, 1, network.rows * network.width_in
    for layer, querying in query_tokens(network):
        if isinstance(layer, Attention):
            keys = len(layer.memory) + layer.attends_data * length
            most = max(most, len(querying) * keys)
            features = max(features, length * layer.heads * max(layer.query.shape[2], layer.value.shape[2]))
        length = layer.length_out(length)
        features = max(features, length * layer.width_out)
    return max(most, features // WIDER)


@dataclass(frozen=True, eq=False)
class Entries:
    """The weights of a map (d, m) that are not zero, row by row, where they are few: found once, not for every block.

    >>> Entries.of(np.eye(3))
    Entries(rows=[0, 1, 2], columns=[0, 1, 2], numbers=[np.float64(1.0), np.float64(1.0), np.float64(1.0)])
    >>> Entries.of(np.ones((9, 3)))
    """

    rows: list[int]
    columns: list[int]
    numbers: list[Any]

    @classmethod
    def of(cls, weight: Array) -> Entries | None:
        """None where there are more than two for a column: one row at a time is faster then, and the sums are equal."""
        rows, columns = np.nonzero(weight)
        if len(rows) > 2 * weight.shape[1]:
            return None
        return cls(rows.tolist(), columns.tolist(), list(weight[rows, columns]))


def prepare(layer: object, dtype: str) -> dict[str, Any]:
    """The layer's weights in the deployed dtype, and for large maps their entries.

    For attention also the memory's keys and values.
    """
    weights: dict[str, Any] = {
        name: value.astype(dtype) for name, value in vars(layer).items() if isinstance(value, np.ndarray)
    }
    if isinstance(layer, Affine) and layer.left is None:
        weights["right_entries"] = Entries.of(weights["right"][0])
    if isinstance(layer, Attention):
        weights["query_entries"] = Entries.of(_side_by_side(weights["query"]))
        if layer.output.shape[1] == 1:
            weights["output_entries"] = Entries.of(weights["output"][:, 0])
        memory = weights["memory"]
        heads = range(layer.heads)
        weights["keys"] = np.stack([project(memory, weights["key"][h], weights["key_bias"][h]) for h in heads])
        weights["values"] = np.stack([project(memory, weights["value"][h], weights["value_bias"][h]) for h in heads])
    return weights


@singledispatch
def apply(layer: object, X: Array, weights: dict[str, Any]) -> Array:
    """One layer on a block of sequences (b, n, d)."""
    raise TypeError(f"no NumPy back end for {type(layer).__name__}")


@apply.register
def _(layer: Affine, X: Array, weights: dict[str, Any]) -> Array:
    right, constant = weights["right"], weights["constant"]
    if layer.left is None:
        return project(X, right[0], constant[0], weights["right_entries"])
    out = np.zeros((len(X), *constant.shape), dtype=X.dtype) + constant  # (b, N, m)
    for left, matrix in zip(weights["left"], right, strict=True):
        rows, tokens = np.flatnonzero(left.any(axis=1)), np.flatnonzero(left.any(axis=0))  # many are zero
        columns = np.flatnonzero(matrix.any(axis=0))
        moved = project(np.swapaxes(X[:, tokens], 1, 2), left[np.ix_(rows, tokens)].T)  # (b, d, rows)
        out[:, rows[:, None], columns] += project(np.swapaxes(moved, 1, 2), matrix[:, columns])  # (b, rows, columns)
    return out


@apply.register
def _(layer: Attention, X: Array, weights: dict[str, Any]) -> Array:
    some = weights.get("querying")
    querying = X if some is None or len(some) == X.shape[1] else X[:, some]  # (b, a, d)
    queries = by_head(querying, weights["query"], weights["query_bias"], weights["query_entries"])  # (b, a, H, k)
    data = [by_head(X, weights[name], weights[f"{name}_bias"]) for name in ("key", "value") if layer.attends_data]
    mixed = list[Array]()
    for head in range(layer.heads):
        q = queries[:, :, head]  # (b, a, k)
        scores = [score(q, weights["keys"][head][None, None])]  # (b, a, M)
        columns = [weights["values"][head][None, None]]  # (1, 1, M, v)
        if data:  # (b, n, H, k), (b, n, H, v)
            scores.append(score(q, data[0][:, None, :, head]))  # (b, a, n)
            columns.append(data[1][:, None, :, head])  # (b, 1, n, v)
        mixed.append(_mix(scores, columns))  # (b, a, v)
    if layer.output.shape[1] == 1:  # head by head or all at once, the sums are the same
        out = project(np.concatenate(mixed, axis=2), weights["output"][:, 0], entries=weights["output_entries"])
    else:
        out = np.zeros((*querying.shape[:-1], layer.width_out), dtype=X.dtype)  # (b, a, o)
        for head, each in enumerate(mixed):
            out += project(each, weights["output"][head])
    out += weights["output_bias"]
    out = querying + out if layer.residual else out
    if querying is X:
        return out
    whole = np.zeros((*X.shape[:2], layer.width_out), dtype=X.dtype)  # (b, n, o)
    whole[:, some] = out
    return whole


@apply.register
def _(layer: Softmax, X: Array, weights: dict[str, Any]) -> Array:
    return softmax(X)


def by_head(X: Array, weight: Array, bias: Array, entries: Entries | None = None) -> Array:
    """`X weight + bias` for all heads at once, each sum as if alone; (b, n, d), (H, d, k), (H, k) -> (b, n, H, k)."""
    heads, _, width = weight.shape
    if entries is None:
        flat = project(X, _side_by_side(weight), bias.ravel())
    else:
        flat = _by_entries(X, entries, heads * width, bias.ravel())
    return flat.reshape(*X.shape[:-1], heads, width)


def _side_by_side(weight: Array) -> Array:
    """The maps of all heads as one; (H, d, k) -> (d, H*k)."""
    heads, features, width = weight.shape
    return weight.transpose(1, 0, 2).reshape(features, heads * width)


def project(X: Array, weight: Array, bias: Array | None = None, entries: Entries | None = None) -> Array:
    """`X weight + bias` over the last axis, one input feature at a time; (..., d) -> (..., m).

    Most weights of most maps are zero: then one nonzero weight at a time is faster, and the sums are the same.
    """
    entries = entries or Entries.of(weight)
    if entries is not None:
        return _by_entries(X, entries, weight.shape[1], bias)
    out = np.zeros((*X.shape[:-1], weight.shape[1]), dtype=X.dtype)
    for feature in np.flatnonzero(weight.any(axis=1)):
        out += X[..., feature, None] * weight[feature]
    return out if bias is None else out + bias


def _by_entries(X: Array, entries: Entries, width: int, bias: Array | None) -> Array:
    """The same, one weight that is not zero at a time."""
    sums: list[Array | None] = [None] * width
    for feature, column, number in zip(entries.rows, entries.columns, entries.numbers, strict=True):
        product, before = X[..., feature] * number, sums[column]
        sums[column] = product if before is None else before + product
    out = np.empty((*X.shape[:-1], width), dtype=X.dtype)
    for column, total in enumerate(sums):
        constant = 0 if bias is None else bias[column]
        out[..., column] = constant if total is None else total if constant == 0 else total + constant
    return out


def score(q: Array, keys: Array) -> Array:
    """Scores of queries (b, n, k) against keys (., ., T, k), one feature at a time; (b, n, T)."""
    scores = q[..., 0, None] * keys[..., 0]
    for feature in range(1, q.shape[-1]):
        scores += q[..., feature, None] * keys[..., feature]
    return scores


def _mix(scores: list[Array], values: list[Array]) -> Array:
    """Softmax over all keys of all groups, applied to their values; (b, n, v)."""
    scores = [group for group in scores if group.shape[-1] > 0]
    values = [group for group in values if group.shape[-2] > 0]
    top = np.maximum.reduce([group.max(axis=-1) for group in scores])[..., None]  # (b, n, 1)
    weights = [np.exp(group - top) for group in scores]
    mass = sum(group.sum(axis=-1) for group in weights)  # (b, n)
    width = values[0].shape[-1]
    sums = [
        sum((w * v[..., column]).sum(axis=-1) for w, v in zip(weights, values, strict=True)) for column in range(width)
    ]
    return np.stack([total / mass for total in sums], axis=-1)  # (b, n, v)
