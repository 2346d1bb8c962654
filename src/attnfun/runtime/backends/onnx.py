"""Networks as ONNX models of standard operators, with a dynamic batch. They do what the certificate bounds.

In float16 a model takes points, holds weights and gives values in that format and computes in float32: some runtimes
have kernels that add in float16, which no certificate covers.
"""

from __future__ import annotations

from functools import singledispatch

from ...arguments import one_of
from ...network import Affine, Attention, Network, Softmax
from .dense import mixing
from .onnx_attention import ATTENTION
from .onnx_graph import Graph, Model, assemble, check_dtype


def to_onnx(
    network: Network,
    point_shape: tuple[int, ...],
    value_shape: tuple[int, ...],
    metadata: dict[str, str],
    attention: str = "decomposed",
) -> Model:
    """The network as a checked model, from "points" (batch, *point shape) to "values" (batch, *value shape)."""
    one_of("attention", attention, ATTENTION)
    check_dtype(network)
    network = network.dense()
    graph, length = Graph(network.dtype, attention), network.rows
    tokens = graph.reshape(graph.wide("points"), -1, *network.shape_in)  # (B, n, d)
    for number, layer in enumerate(network.layers):
        graph.part = f"layers.{number}"
        tokens = translate(layer, graph, tokens, length)
        length = layer.length_out(length)
    graph.narrow(graph.reshape(tokens, -1, *value_shape))  # (B, *value shape)
    graph.nodes[-1].output[0] = "values"
    return assemble(graph, ("points", ["batch", *point_shape]), ("values", ["batch", *value_shape]), metadata)


@singledispatch
def translate(layer: object, graph: Graph, tokens: str, length: int) -> str:
    """Add the nodes of one layer on tokens (B, n, d), n = `length`; the name of its output."""
    raise TypeError(f"no ONNX translation for {type(layer).__name__}")


@translate.register
def _(layer: Affine, graph: Graph, tokens: str, length: int) -> str:
    if layer.left is None:
        return graph.linear(tokens, "weight", layer.right[0], layer.constant[0])  # (B, n, m)
    rows, width = layer.constant.shape
    matrix = mixing(layer)  # (n*d, N*m)
    flat = graph.reshape(tokens, -1, matrix.shape[0])  # (B, n*d)
    return graph.reshape(graph.linear(flat, "weight", matrix, layer.constant.ravel()), -1, rows, width)  # (B, N, m)


@translate.register
def _(layer: Attention, graph: Graph, tokens: str, length: int) -> str:
    rows = graph.reshape(tokens, -1, layer.width_in)  # (B*n, d)
    queries = graph.linear(rows, "query", layer.query, layer.query_bias[:, None])  # (H, B*n, k)
    average = ATTENTION[graph.attention](layer, graph, rows, queries, length)  # (H, B*n, v)
    flat = layer.output.reshape(-1, layer.width_out)  # (H*v, o)
    by_token = graph.reshape(graph.node("Transpose", average, perm=[1, 0, 2]), -1, len(flat))  # (B*n, H*v)
    out = graph.linear(by_token, "output", flat, layer.output_bias)  # (B*n, o)
    out = graph.reshape(out, -1, length, layer.width_out)  # (B, n, o)
    return graph.node("Add", tokens, out) if layer.residual else out


@translate.register
def _(layer: Softmax, graph: Graph, tokens: str, length: int) -> str:
    return graph.node("Softmax", tokens, axis=-1)
