"""Attention as ONNX nodes, written two ways.

Both get the queries of the whole batch in one matrix a head, (H, B*n, k), and give the averages of values in the same
form, (H, B*n, v).

*Decomposed* into matrix products, sums and softmax of operators that runtimes have known for years: the scores against
the memory are one matrix product a head; those against the data tokens are computed apart and then joined, so that the
memory is never copied over the batch. The full matrix of weights is made, (H, B*n, n + M); feed large batches in parts.

As the standard *operator* `Attention` (version 23), which runtimes can stream: cross-attention is one call on all
queries. In self-attention the keys of the memory are repeated for each point.

Keys that a second input makes are those of the memory plus a number in their last feature, point by point.

Memory keys and values are stored ready-made if the projection merely selects features, which is exact; otherwise the
model projects the memory itself, in its own arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...network import Attention
from ...network.layers import selects
from .onnx_graph import Array, OnnxGraph


def decomposed(layer: Attention, graph: OnnxGraph, rows: str, queries: str, length: int) -> str:
    """Averages (H, B*n, v) of the values of tokens `rows` (B*n, d) and memory for queries (H, B*n, k)."""
    sources: list[Data | MemoryTokens] = [Data.of(layer, graph, rows, length)] if layer.attends_data else []
    sources += [MemoryTokens.of(layer, graph)] if len(layer.memory) else []
    scores = graph.join([source.scores(graph, queries) for source in sources])  # (H, B*n, T)
    weights = graph.split(graph.node("Softmax", scores, axis=-1), *(source.count for source in sources))
    averages = [source.average(graph, part) for source, part in zip(sources, weights, strict=True)]  # (H, B*n, v) each
    return averages[0] if len(averages) == 1 else graph.node("Add", *averages)


def operator(layer: Attention, graph: OnnxGraph, rows: str, queries: str, length: int) -> str:
    """The same by the standard operator; its factor on scores is 1."""
    heads, size, width = layer.heads, layer.key.shape[2], layer.value.shape[2]
    count = len(layer.memory)
    memory = _memory(layer, graph) if count else []
    shared = [graph.reshape(tensor, 1, heads, count, -1) for tensor in memory]  # (1, H, M, .)
    if not layer.attends_data:
        querying = graph.reshape(queries, 1, heads, -1, size)  # (1, H, B*n, k)
        return graph.reshape(graph.node("Attention", querying, *shared, scale=1.0), heads, -1, width)
    querying, *data = (
        graph.node("Transpose", graph.reshape(tensor, heads, -1, length, features), perm=[1, 0, 2, 3])
        for tensor, features in zip([queries, *_data(layer, graph, rows)], (size, size, width), strict=True)
    )  # (B, H, n, .)
    if count:
        batch = graph.node("Shape", querying, start=0, end=1)  # (1,)
        shape = graph.node("Concat", batch, graph.integers("one point", 1, 1, 1), axis=0)
        data = [
            graph.node("Concat", own, graph.node("Expand", common, shape), axis=2)
            for own, common in zip(data, shared, strict=True)
        ]  # (B, H, n + M, .)
    average = graph.node("Attention", querying, *data, scale=1.0)  # (B, H, n, v)
    return graph.reshape(graph.node("Transpose", average, perm=[1, 0, 2, 3]), heads, -1, width)


ATTENTION: dict[str, Callable[[Attention, OnnxGraph, str, str, int], str]] = {
    "decomposed": decomposed,
    "operator": operator,
}


def decomposed_to_keys(layer: Attention, graph: OnnxGraph, queries: str, sums: str, length: int) -> str:
    """Averages (B, n, v) for queries (B, n, k) to one head's memory, whose last key feature is `sums` (B, 1, M)."""
    keys, values = _memory(layer, graph)  # (1, M, k), (1, M, v)
    place = graph.weight("place", _unit(layer)[None, :, None])  # (1, k, 1)
    own = graph.node("Mul", place, sums)  # (B, k, M)
    scores = graph.node("MatMul", queries, graph.node("Add", graph.node("Transpose", keys, perm=[0, 2, 1]), own))
    return graph.node("MatMul", graph.node("Softmax", scores, axis=-1), values)


def operator_to_keys(layer: Attention, graph: OnnxGraph, queries: str, sums: str, length: int) -> str:
    """The same by the standard operator."""
    size, width, count = layer.key.shape[2], layer.value.shape[2], len(layer.memory)
    keys, values = (graph.reshape(each, 1, 1, count, -1) for each in _memory(layer, graph))  # (1, 1, M, .)
    place = graph.weight("place", _unit(layer)[None, None, None])  # (1, 1, 1, k)
    own = graph.node("Mul", graph.reshape(sums, -1, 1, count, 1), place)  # (B, 1, M, k)
    keys = graph.node("Add", keys, own)  # (B, 1, M, k)
    batch = graph.node("Shape", sums, start=0, end=1)  # (1,)
    shape = graph.node("Concat", batch, graph.integers("one point", 1, 1, 1), axis=0)
    querying = graph.reshape(queries, -1, 1, length, size)  # (B, 1, n, k)
    average = graph.node("Attention", querying, keys, graph.node("Expand", values, shape), scale=1.0)  # (B, 1, n, v)
    return graph.reshape(average, -1, length, width)


ATTENTION_TO_KEYS: dict[str, Callable[[Attention, OnnxGraph, str, str, int], str]] = {
    "decomposed": decomposed_to_keys,
    "operator": operator_to_keys,
}


def _unit(layer: Attention) -> Array:
    """One for the last feature of a key, (k,)."""
    return np.eye(layer.key.shape[2])[-1]


@dataclass(frozen=True)
class MemoryTokens:
    """The memory tokens as keys and values, the same for every point."""

    keys: str  # (H, k, M)
    values: str  # (H, M, v)
    count: int

    @classmethod
    def of(cls, layer: Attention, graph: OnnxGraph) -> MemoryTokens:
        """Projections of the memory."""
        keys, values = _memory(layer, graph)
        return cls(graph.node("Transpose", keys, perm=[0, 2, 1]), values, len(layer.memory))

    def scores(self, graph: OnnxGraph, queries: str) -> str:
        """Scores of queries (H, B*n, k), (H, B*n, M)."""
        return graph.node("MatMul", queries, self.keys)

    def average(self, graph: OnnxGraph, weights: str) -> str:
        """The memory's share in the weighted average, (H, B*n, M) -> (H, B*n, v)."""
        return graph.node("MatMul", weights, self.values)


@dataclass(frozen=True)
class Data:
    """The data tokens as keys and values, those of each point for itself.

    Scores are products summed over features, not a matrix product with transposed keys: that would be fused into an
    operator that ONNX Runtime 1.19, for one, lacks in float64. The products are n² k numbers a point and head.
    """

    layer: Attention
    keys: str  # (H, B*n, k)
    values: str  # (H, B*n, v)
    count: int

    @classmethod
    def of(cls, layer: Attention, graph: OnnxGraph, rows: str, length: int) -> Data:
        """Projections of the data tokens (B*n, d)."""
        keys, values = _data(layer, graph, rows)
        return cls(layer, keys, values, length)

    def scores(self, graph: OnnxGraph, queries: str) -> str:
        """Scores of queries (H, B*n, k), (H, B*n, n)."""
        if self.count == 1 and self.layer.query.shape[2] == 1:
            return graph.node("Mul", queries, self.keys)
        heads, length, size = self.layer.heads, self.count, self.layer.query.shape[2]
        querying = graph.reshape(queries, heads, -1, length, 1, size)  # (H, B, n, 1, k)
        keys = graph.reshape(self.keys, heads, -1, 1, length, size)  # (H, B, 1, n, k)
        products = graph.node("Mul", querying, keys)  # (H, B, n, n, k)
        scores = graph.node("ReduceSum", products, graph.integers("last axis", -1), keepdims=0)  # (H, B, n, n)
        return graph.reshape(scores, heads, -1, length)

    def average(self, graph: OnnxGraph, weights: str) -> str:
        """The data tokens' share in the weighted average, (H, B*n, n) -> (H, B*n, v)."""
        if self.count == 1:  # a token that sees itself: products of numbers, not of matrices
            return graph.node("Mul", weights, self.values)
        heads, length, size = self.layer.heads, self.count, self.layer.value.shape[2]
        by_point = graph.reshape(weights, heads, -1, length, length)  # (H, B, n, n)
        values = graph.reshape(self.values, heads, -1, length, size)  # (H, B, n, v)
        return graph.reshape(graph.node("MatMul", by_point, values), heads, -1, size)


def _memory(layer: Attention, graph: OnnxGraph) -> list[str]:
    """Keys (H, M, k) and values (H, M, v) of the memory, ready-made where that is exact."""
    return [
        graph.weight(f"memory_{name}", layer.memory @ weight)
        if all(selects(*head).all() for head in zip(weight, bias, strict=True))
        else graph.linear(graph.weight("memory", layer.memory), name, weight, bias)
        for name, weight, bias in _projections(layer)
    ]


def _data(layer: Attention, graph: OnnxGraph, rows: str) -> list[str]:
    """Keys (H, B*n, k) and values (H, B*n, v) of the data tokens."""
    return [graph.linear(rows, name, weight, bias) for name, weight, bias in _projections(layer)]


def _projections(layer: Attention) -> list[tuple[str, Array, Array]]:
    """Names, weights (H, e, .) and biases (H, 1, .) that make keys and values of tokens."""
    return [("key", layer.key, layer.key_bias[:, None]), ("value", layer.value, layer.value_bias[:, None])]
