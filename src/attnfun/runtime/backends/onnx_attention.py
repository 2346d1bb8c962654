"""Attention as ONNX nodes, written two ways.

Both take the tokens of the whole batch as rows, (B*n, d), and give the averages of all heads side by side, (B*n, H*v).

*Decomposed* into matrix products, sums and exponentials of operators that runtimes have known for years. Tokens are
columns there: one matrix product makes queries (and keys and values of data tokens) of all heads, (H, k, B*n), scores
against the memory are one product a head, and softmax runs along rows. Sums of weighted values are divided by sums of
weights. The full matrix of weights is made, (H, n + M, B*n); feed large batches in parts. The memory is never copied
over the batch.

As the standard *operator* `Attention` (version 23), which runtimes can stream: cross-attention is one call on all
queries. In self-attention the keys of the memory are repeated for each point.

Keys that a second input makes are those of the memory plus a number in their last feature, point by point.

Memory keys and values are stored ready-made if the projection merely selects features, which is exact; otherwise the
model projects the memory itself, in its own arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...network import Attention
from ...network.layers import selects
from .onnx_graph import Array, OnnxGraph


def decomposed(layer: Attention, graph: OnnxGraph, rows: str, length: int) -> str:
    """Averages (B*n, H*v) of the values of tokens `rows` (B*n, d) and memory."""
    columns = graph.node("Transpose", rows, perm=[1, 0])  # (d, B*n)
    query = ("query", layer.query, layer.query_bias[:, None])
    queries, *own = _by_columns(graph, columns, query, *(_projections(layer) if layer.attends_data else ()))
    scores, averages = list[str](), list[Callable[[str], str]]()
    if own:
        scores.append(_own_scores(layer, graph, queries, own[0], length))  # (H, n, B*n)
        averages.append(lambda weights: _own_average(layer, graph, weights, own[1], length))
    if len(layer.memory):
        keys, values = _memory(layer, graph)  # (H, M, k), (H, M, v)
        scores.append(graph.node("MatMul", keys, queries))  # (H, M, B*n)
        turned = graph.node("Transpose", values, perm=[0, 2, 1])  # (H, v, M)
        averages.append(lambda weights: graph.node("MatMul", turned, weights))
    joined = scores[0] if len(scores) == 1 else graph.node("Concat", *scores, axis=1)  # (H, T, B*n)
    largest = graph.node("ReduceMax", joined, axes=[1])  # (H, 1, B*n)
    weights = graph.node("Exp", graph.node("Sub", joined, largest))  # (H, T, B*n)
    sizes = [length] * bool(own) + [len(layer.memory)] * bool(len(layer.memory))
    parts = graph.split(weights, *sizes, axis=1)
    sums = [average(part) for average, part in zip(averages, parts, strict=True)]  # (H, v, B*n) each
    total = sums[0] if len(sums) == 1 else graph.node("Add", *sums)
    average = graph.node("Div", total, _sum_over(graph, weights, 1, keep=True))  # (H, v, B*n)
    flat = graph.reshape(average, layer.heads * layer.value.shape[2], -1)  # (H*v, B*n)
    return graph.node("Transpose", flat, perm=[1, 0])  # (B*n, H*v)


def _by_columns(graph: OnnxGraph, columns: str, *maps: tuple[str, Array, Array]) -> list[str]:
    """Tokens (d, R) by each of some maps (H, d, k) with biases (H, 1, k), in one product: (H, k, R) each."""
    stacked = [weight.transpose(0, 2, 1).reshape(-1, weight.shape[1]) for _, weight, _ in maps]  # (H*k, d) each
    name, biases = " ".join(name for name, _, _ in maps), np.concatenate([bias.ravel() for _, _, bias in maps])
    product = graph.node("MatMul", graph.weight(name, np.concatenate(stacked)), columns)  # (ΣH*k, R)
    made = graph.node("Add", product, graph.weight(f"{name}_bias", biases[:, None]))
    parts = graph.split(made, *(len(weight) for weight in stacked), axis=0)
    shapes = [(len(weight), weight.shape[2]) for _, weight, _ in maps]
    return [graph.reshape(part, *shape, -1) for part, shape in zip(parts, shapes, strict=True)]


def _own_scores(layer: Attention, graph: OnnxGraph, queries: str, keys: str, length: int) -> str:
    """Scores of queries (H, k, B*n) against the keys of their own sequences, in the same form: (H, n, B*n).

    They are products summed over features, not a matrix product with transposed keys: that would be fused into an
    operator that ONNX Runtime 1.19, for one, lacks in float64. The products are n² k numbers a point and head.
    """
    heads, size = layer.heads, layer.query.shape[2]
    if length == 1:
        products = graph.node("Mul", queries, keys)  # (H, k, B)
        return products if size == 1 else _sum_over(graph, products, 1, keep=True)  # (H, 1, B)
    keyed = graph.reshape(keys, heads, size, -1, length, 1)  # (H, k, B, n, 1)
    products = graph.node("Mul", keyed, graph.reshape(queries, heads, size, -1, 1, length))  # (H, k, B, n, n)
    scores = _sum_over(graph, products, 1, keep=False)  # (H, B, keys, queries)
    return graph.reshape(graph.node("Transpose", scores, perm=[0, 2, 1, 3]), heads, length, -1)


def _own_average(layer: Attention, graph: OnnxGraph, weights: str, values: str, length: int) -> str:
    """Sums of values (H, v, B*n) of their own sequences with weights (H, n, B*n): (H, v, B*n)."""
    if length == 1:  # a token that sees itself: products of numbers, not of matrices
        return graph.node("Mul", weights, values)
    by_point = [
        graph.node("Transpose", graph.reshape(tensor, layer.heads, features, -1, length), perm=[0, 2, 1, 3])
        for tensor, features in ((values, layer.value.shape[2]), (weights, length))
    ]  # (H, B, v, n), (H, B, keys, queries)
    sums = graph.node("Transpose", graph.node("MatMul", *by_point), perm=[0, 2, 1, 3])  # (H, v, B, n)
    return graph.reshape(sums, layer.heads, layer.value.shape[2], -1)


def _sum_over(graph: OnnxGraph, tensor: str, axis: int, *, keep: bool) -> str:
    return graph.node("ReduceSum", tensor, graph.integers(f"axis {axis}", axis), keepdims=int(keep))


def operator(layer: Attention, graph: OnnxGraph, rows: str, length: int) -> str:
    """The same by the standard operator; its factor on scores is 1."""
    queries = graph.linear(rows, "query", layer.query, layer.query_bias[:, None])  # (H, B*n, k)
    average = _by_operator(layer, graph, rows, queries, length)  # (H, B*n, v)
    by_token = graph.node("Transpose", average, perm=[1, 0, 2])  # (B*n, H, v)
    return graph.reshape(by_token, -1, layer.heads * layer.value.shape[2])


def _by_operator(layer: Attention, graph: OnnxGraph, rows: str, queries: str, length: int) -> str:
    """Averages (H, B*n, v) for queries (H, B*n, k)."""
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


ATTENTION: dict[str, Callable[[Attention, OnnxGraph, str, int], str]] = {
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
