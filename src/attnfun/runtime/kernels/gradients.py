"""Derivatives of a network in closed form, by the same kernels.

Forward through the layers with the derivatives of every feature by every input coordinate. The average of a head moves
with its scores as `dy = Σ_j w_j (v_j - y) ds_j + Σ_j w_j dv_j`. Scores of memory tokens move with the query only, so
that their part is the covariance of slopes and values under the weights, `Cov(a, v)·dq`, which a bank computes like an
average (on a product of axes: with the weights of one axis times `a - ā`). Data tokens move with keys and values too.

This is the exact derivative of the network; how far it is from the target's, the certificate does not say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...network import Affine, Attention, FactoredAttention, Softmax
from ..backends import numpy as plain
from .banks import BankAverages
from .evaluators import Evaluator, attended, shares
from .query_groups import PreparedLayer

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


def gradient(evaluator: Evaluator, X: Array) -> Array:
    """Derivatives of all outputs by all inputs at sequences (B, n, d): (B, n', d', n, d)."""
    network = evaluator.network
    inputs = network.shape_in[0] * network.shape_in[1]
    out = np.empty((len(X), *network.shape_out, inputs), dtype=evaluator.dtype)

    def run(block: Array) -> Array:
        block = block.astype(evaluator.dtype, copy=False)
        moves = np.broadcast_to(np.eye(inputs).reshape(*network.shape_in, inputs), (*block.shape, inputs))
        for step in evaluator.steps:
            after = attended(step, block) if step.query_groups else plain.apply(step.layer, block, step.weights)
            block, moves = after, _moved(step, block, after, moves)
        return moves

    evaluator.blockwise(run, X, out, max(1, evaluator.rows // inputs))
    return out.reshape(*out.shape[:3], *network.shape_in)


def _moved(step: PreparedLayer, X: Array, after: Array, moves: Floats) -> Floats:
    """Derivatives (b, n, d, D) behind a layer that takes X to `after`."""
    layer = step.layer
    if isinstance(layer, Affine):
        if layer.left is None:
            return np.einsum("bndD,dm->bnmD", moves, layer.right[0], optimize=True)
        return np.einsum("kNn,bndD,kdm->bNmD", layer.left, moves, layer.right, optimize=True)
    if isinstance(layer, Softmax):
        weights = after[..., None].astype(np.float64)  # (b, n, d, 1)
        return weights * (moves - (weights * moves).sum(axis=2, keepdims=True))
    out = np.zeros((*X.shape[:2], layer.width_out, moves.shape[-1]))  # (b, n, o, D)
    querying = step.weights["querying"]
    for head, members, average in _averages(step, X, moves):
        out[:, members] += np.einsum("bavD,vo->baoD", average, layer.output[head])
    if layer.residual:
        out[:, querying] += moves[:, querying]
    return out


def _averages(step: PreparedLayer, X: Array, moves: Floats):
    """For each head and the tokens that query it, the derivatives of their averages (b, a, v, D)."""
    layer, weights = step.layer, step.weights
    assert isinstance(layer, Attention | FactoredAttention)  # noqa: S101
    query_groups = [(group.head, group.querying, group) for group in step.query_groups]
    for head, members, group in query_groups or [(head, weights["querying"], None) for head in range(layer.heads)]:
        q = plain.project(X[:, members], weights["query"][head], weights["query_bias"][head])  # (b, a, k)
        dq = np.einsum("badD,dk->bakD", moves[:, members], layer.query[head])
        shape, values = q.shape[:2], layer.output.shape[1]
        if group is None:
            nothing = np.zeros(shape[0] * shape[1])
            found = BankAverages(np.zeros((len(nothing), values)), nothing - np.inf, nothing)
            centre, slopes, varying = np.zeros((*shape, 0)), np.zeros((*shape, 0, values)), dq[:, :, :0]
        else:
            found, centre, slopes = group.bank.slopes(group.queries(q))
            centre, slopes = centre.reshape(*shape, -1), slopes.reshape(*shape, -1, values)
            varying = dq[:, :, group.features]  # (b, a, r, D)
        if not layer.attends_data:
            yield head, members, np.einsum("barv,barD->bavD", slopes, varying)
            continue
        assert isinstance(layer, Attention)  # noqa: S101 - only it attends to data
        keys, own = (
            plain.project(X, weights[name][head], weights[f"{name}_bias"][head]).astype(np.float64)
            for name in ("key", "value")
        )  # (b, n, k), (b, n, v)
        memory, data = shares(found, q, keys.astype(X.dtype))  # (b, a), (b, a, n)
        mean = found.mean.reshape(*shape, -1)
        y = mean * memory[..., None] + np.einsum("ban,bnv->bav", data, own)  # (b, a, v)
        slopes = memory[..., None, None] * (slopes + centre[..., None] * (mean - y)[:, :, None])  # (b, a, r, v)
        scores = np.einsum("bnk,bakD->banD", keys, dq) + np.einsum(
            "bak,bnkD->banD", q, np.einsum("bndD,dk->bnkD", moves, layer.key[head])
        )
        apart = data[..., None] * (own[:, None] - y[:, :, None])  # (b, a, n, v)
        average = np.einsum("barv,barD->bavD", slopes, varying) + np.einsum("banv,banD->bavD", apart, scores)
        carried = np.einsum("bndD,dv->bnvD", moves, layer.value[head])
        yield head, members, average + np.einsum("ban,bnvD->bavD", data, carried)
