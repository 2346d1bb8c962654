"""Networks for sequences of any length as ONNX models, with a dynamic batch and a dynamic number of rows.

Scores are `Einsum` products: a matrix product with transposed keys would be fused into an operator that some runtimes
lack in float64. A model makes the full matrix of weights, (B, H, n, n + M).
"""

from __future__ import annotations

from functools import singledispatch

from ...network import Affine, Attention, Network, Softmax
from .onnx_graph import Model, OnnxGraph, assemble, check_dtype


def to_onnx(network: Network, metadata: dict[str, str]) -> Model:
    """The network as a checked model, from "prompts" (batch, rows, d) to "answers" (batch, rows, d')."""
    check_dtype(network.dtype)
    graph, tokens = OnnxGraph(network.dtype), "prompts"
    first: dict[int, int] = {}  # layers that occur many times share their weights
    for number, layer in enumerate(network.layers):
        graph.part = f"layers.{first.setdefault(id(layer), number)}"
        tokens = translate(layer, graph, tokens)
    graph.nodes[-1].output[0] = "answers"
    given, result = ["batch", "rows", network.width_in], ["batch", "rows", network.width_out]
    return assemble(graph, {"prompts": given}, ("answers", result), metadata)


@singledispatch
def translate(layer: object, graph: OnnxGraph, tokens: str) -> str:
    """Add the nodes of one layer on tokens (B, n, d); the name of its output."""
    raise TypeError(f"no ONNX translation for {type(layer).__name__}")


@translate.register
def _(layer: Affine, graph: OnnxGraph, tokens: str) -> str:
    return graph.linear(tokens, "weight", layer.right[0], layer.constant[0])  # (B, n, m)


@translate.register
def _(layer: Attention, graph: OnnxGraph, tokens: str) -> str:
    by_head = graph.node("Unsqueeze", tokens, graph.integers("head axis", 1))  # (B, 1, n, d)
    q = graph.linear(by_head, "query", layer.query, layer.query_bias[:, None])  # (B, H, n, k)
    count, sources = len(layer.memory), []
    if layer.attends_data:
        sources.append((by_head, "data", "bhik,bhjk->bhij"))
    if count:
        sources.append((graph.weight("memory", layer.memory), "memory", "bhik,hjk->bhij"))
    scores, values = [], []
    for rows, name, equation in sources:
        k = graph.linear(rows, f"{name}_key", layer.key, layer.key_bias[:, None])  # (B, H, n, k) or (H, M, k)
        values.append(graph.linear(rows, f"{name}_value", layer.value, layer.value_bias[:, None]))
        scores.append(graph.node("Einsum", q, k, equation=equation))  # (B, H, n, n or M)
    weights = graph.node("Softmax", graph.join(scores), axis=-1)  # (B, H, n, n + M)
    parts = [weights]
    if len(scores) == 2:
        cut, last = graph.integers(f"memory {count}", -count), graph.integers("last axis", -1)
        start, end = graph.integers("start", 0), graph.integers("end", 2**62)
        parts = [graph.node("Slice", weights, start, cut, last), graph.node("Slice", weights, cut, end, last)]
    averages = [graph.node("MatMul", *pair) for pair in zip(parts, values, strict=True)]  # (B, H, n, v) each
    average = averages[0] if len(averages) == 1 else graph.node("Add", *averages)
    joined = graph.node("Einsum", average, graph.weight("output", layer.output), equation="bhnv,hvo->bno")
    out = graph.node("Add", joined, graph.weight("output_bias", layer.output_bias))  # (B, n, o)
    return graph.node("Add", tokens, out) if layer.residual else out


@translate.register
def _(layer: Softmax, graph: OnnxGraph, tokens: str) -> str:
    return graph.node("Softmax", tokens, axis=-1)
