"""Evaluation in NumPy of networks that take sequences of any length, such as prompts of ten thousand rows.

Self-attention over n rows has n² scores, but in most layers of an in-context learner nearly all rows have the same
query, or nearly all keys are the same masked one. *Equal queries have equal results, and c equal keys with equal values
count as one whose weight is c times as large*: large groups of equal rows are merged, which changes nothing
but the rounding of sums. What is left goes through in blocks of queries, so that memory stays O(n).

What comes out for a prompt does not depend on the other prompts of its batch.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ...arithmetic.formats import held_in, round_to
from ...network import Affine, Attention, Network, Softmax
from ...network.reference import softmax

Array = npt.NDArray[Any]

BLOCK = 2**20
"""Scores in the largest temporary array."""
LONG = 64
"""Rows from which merging pays."""
GROUPS = 4
"""Groups of equal rows that are sought."""


@threadpool_limits.wrap(limits=1, user_api="blas")  # the products are small
def run(network: Network, X: Array) -> Array:
    """Evaluate on sequences, (B, n, d) -> (B, n, d'). Cost O(n) a layer whose rows can be merged, else O(n²)."""
    dtype = held_in(network.dtype)
    X = round_to(X, network.dtype).astype(dtype)
    weights: dict[int, dict[str, Array]] = {}  # layers may occur many times
    for layer in network.layers:
        weights.setdefault(id(layer), in_dtype(layer, dtype))
    together = 1 if X.shape[1] > LONG else max(1, BLOCK // max(1, X.shape[1]) ** 2)
    out = np.empty((*X.shape[:2], network.width_out), dtype=dtype)  # (B, n, d')
    for start in range(0, len(X), together):
        block = X[start : start + together]
        for layer in network.layers:
            block = apply(layer, block, weights[id(layer)])
        out[start : start + together] = block
    return out


def in_dtype(layer: object, dtype: str) -> dict[str, Array]:
    """The layer's weights in the deployed dtype. Keys or values that all heads share are kept once, as of one head."""
    weights = {
        name: value.astype(dtype, copy=False) for name, value in vars(layer).items() if isinstance(value, np.ndarray)
    }
    for name in ("key", "value") if isinstance(layer, Attention) else ():
        pair = weights[name], weights[f"{name}_bias"]
        if all((weight == weight[:1]).all() for weight in pair):
            weights[name], weights[f"{name}_bias"] = (weight[:1] for weight in pair)
    return weights


@singledispatch
def apply(layer: object, X: Array, weights: dict[str, Array]) -> Array:
    """One layer on a block of sequences (b, n, d)."""
    raise TypeError(f"no NumPy back end for {type(layer).__name__}")


@apply.register
def _(layer: Affine, X: Array, weights: dict[str, Array]) -> Array:
    matrix, constant = weights["right"][0], weights["constant"][0]
    if layer.width_in != layer.width_out:
        return _project(X, matrix, constant)
    same = (matrix == np.eye(len(matrix), dtype=matrix.dtype)).all(axis=0) & (constant == 0)  # most registers stay
    out = X.copy()
    out[..., ~same] = _project(X, matrix[:, ~same], constant[~same])
    return out


@apply.register
def _(layer: Attention, X: Array, weights: dict[str, Array]) -> Array:
    out = X.copy() if layer.residual else np.zeros((*X.shape[:2], layer.width_out), dtype=X.dtype)  # (b, n, o)
    querying, answer = _merge(X, weights["query"])  # indices of the rows that stand for all, (n',) and (n,)
    attended, owner = (
        _merge(X, weights["key"], weights["value"]) if layer.attends_data else (np.arange(0), np.arange(0))
    )
    memory = np.broadcast_to(weights["memory"], (len(X), *layer.memory.shape))  # (b, M, e)
    tokens = np.concatenate([X[:, attended], memory], axis=1) if layer.attends_data else memory  # (b, T, e)
    counts = np.append(np.bincount(owner, minlength=len(attended)), np.ones(len(layer.memory))).astype(X.dtype)  # (T,)
    k = _project(tokens[:, None], weights["key"], weights["key_bias"][:, None])  # (b, H or 1, T, k)
    v = _project(tokens[:, None], weights["value"], weights["value_bias"][:, None])  # (b, H or 1, T, v)
    written = np.flatnonzero(weights["output"].any(axis=(0, 1)) | (weights["output_bias"] != 0))
    output = weights["output"][..., written].reshape(-1, len(written))  # (H v, written)
    total = np.empty((len(X), len(querying), len(written)), dtype=X.dtype)
    rows = max(1, BLOCK // (len(X) * layer.heads * (len(counts) + layer.query.shape[2])))
    for at in range(0, len(querying), rows):
        block = X[:, None, querying[at : at + rows]]  # (b, 1, n', d)
        q = _project(block, weights["query"], weights["query_bias"][:, None])  # (b, H, n', k)
        y = np.moveaxis(_mix(q, k, v, counts), 1, 2)  # (b, n', H, v)
        total[:, at : at + rows] = y.reshape(*y.shape[:2], -1) @ output + weights["output_bias"][written]
    out[..., written] += total[:, answer]
    return out


@apply.register
def _(layer: Softmax, X: Array, weights: dict[str, Array]) -> Array:
    return softmax(X)


def _project(X: Array, weight: Array, bias: Array) -> Array:
    """`X weight + bias`, reading only the features that matter; weights may have heads in front, (H, d, m)."""
    read = np.flatnonzero(weight.any(axis=-1).reshape(-1, weight.shape[-2]).any(axis=0))
    return X[..., read] @ weight[..., read, :] + bias


def _merge(X: Array, *weights: Array) -> tuple[Array, Array]:
    """Indices of rows to keep, one for each large group of equal rows, and for each row which one stands for it.

    Only features count that the weights (H, d, .) read. Groups are sought around the middle of what is left, which is
    where the examples of a prompt are. Short sequences are left alone.
    """
    count = X.shape[1]
    stands, left = np.arange(count), np.arange(count)
    if count > LONG:
        rows = X[0][:, np.any([weight.any(axis=(0, 2)) for weight in weights], axis=0)]  # (n, what is read)
        for _ in range(GROUPS):
            first = left[len(left) // 2]
            equal = (rows[left] == rows[first]).all(axis=1)
            stands[left[equal]] = first
            left = left[~equal]
            if equal.sum() * 8 < count or not len(left):
                break
    kept, place = np.unique(stands, return_inverse=True)
    return kept, place


def _mix(q: Array, k: Array, v: Array, counts: Array) -> Array:
    """Softmax attention in which key t counts `counts[t]` times: (.., n, k), (.., T, k), (.., T, v) -> (.., n, v)."""
    scores = q @ np.swapaxes(k, -1, -2)  # (.., n, T)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True)) * counts
    return (weights @ v) / weights.sum(axis=-1, keepdims=True)
