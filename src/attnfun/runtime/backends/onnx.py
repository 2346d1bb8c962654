"""Networks as ONNX models of standard operators, with a dynamic batch. They do what the certificate bounds.

In float16 a model takes points, holds weights and gives values in that format and computes in float32: some runtimes
have kernels that add in float16, which no certificate covers.
"""

from __future__ import annotations

from functools import singledispatch

from ...arguments import one_of
from ...errors import InputError
from ...network import Affine, Attention, Network, Softmax
from .dense import CrossKeys, emitted, mixing
from .onnx_attention import ATTENTION, ATTENTION_TO_KEYS
from .onnx_graph import Model, OnnxGraph, assemble, check_dtype


def to_onnx(
    network: Network,
    point_shape: tuple[int, ...],
    value_shape: tuple[int, ...],
    metadata: dict[str, str],
    attention: str = "decomposed",
    second_shape: tuple[int, ...] | None = None,
    names: tuple[str, ...] = ("points",),
) -> Model:
    """The network as a checked model, from "points" (batch, *point shape) to "values" (batch, *value shape).

    With a `second_shape` it has two inputs, called by `names`.
    """
    one_of("attention", attention, ATTENTION)
    check_dtype(network.dtype)
    if "values" in names:
        raise InputError('no input of an ONNX model may be called "values", the name of its output', got=names)
    form = emitted(network, second_shape)
    graph, length = OnnxGraph(network.dtype, attention), form.shape_in[0]
    tokens = graph.reshape(graph.wide(names[0]), -1, *form.shape_in)  # (B, n, d)
    for number, layer in enumerate(form.layers):
        graph.part = f"layers.{number}"
        if isinstance(layer, CrossKeys):
            tokens = with_keys(layer, graph, tokens, graph.wide(names[1]), length)
        else:
            tokens = translate(layer, graph, tokens, length)
        length = layer.length_out(length)
    graph.narrow(graph.reshape(tokens, -1, *value_shape))  # (B, *value shape)
    graph.nodes[-1].output[0] = "values"
    shapes = [point_shape] if second_shape is None else [point_shape, second_shape]
    given = {name: ["batch", *shape] for name, shape in zip(names, shapes, strict=True)}
    return assemble(graph, given, ("values", ["batch", *value_shape]), metadata)


@singledispatch
def translate(layer: object, graph: OnnxGraph, tokens: str, length: int) -> str:
    """Add the nodes of one layer on tokens (B, n, d), n = `length`; the name of its output."""
    raise TypeError(f"no ONNX translation for {type(layer).__name__}")


@translate.register
def _(layer: Affine, graph: OnnxGraph, tokens: str, length: int) -> str:
    if layer.left is None:
        return graph.linear(tokens, "weight", layer.right[0], layer.constant[0])  # (B, n, m)
    rows, width = layer.constant.shape
    matrix = mixing(layer)  # (n*d, N*m)
    flat = graph.reshape(tokens, -1, matrix.shape[0])  # (B, n*d)
    return graph.reshape(graph.linear(flat, "weight", matrix, layer.constant.ravel()), -1, rows, width)  # (B, N, m)


@translate.register
def _(layer: Attention, graph: OnnxGraph, tokens: str, length: int) -> str:
    rows = graph.reshape(tokens, -1, layer.width_in)  # (B*n, d)
    average = ATTENTION[graph.attention](layer, graph, rows, length)  # (B*n, H*v)
    flat = layer.output.reshape(-1, layer.width_out)  # (H*v, o)
    out = graph.linear(average, "output", flat, layer.output_bias)  # (B*n, o)
    out = graph.reshape(out, -1, length, layer.width_out)  # (B, n, o)
    return graph.node("Add", tokens, out) if layer.residual else out


def with_keys(layer: CrossKeys, graph: OnnxGraph, tokens: str, second: str, length: int) -> str:
    """Add the nodes of cross-attention of tokens (B, n, d) to keys that a second input (B, ...) makes."""
    inner, attention = layer.layer, ATTENTION_TO_KEYS[graph.attention]
    flat = graph.reshape(second, -1, 1, layer.features.width_in)  # (B, 1, s)
    features = graph.linear(flat, "features", layer.features.right[0], layer.features.constant[0])  # (B, 1, f)
    sums = graph.node("MatMul", features, graph.weight("sums", layer.sums))  # (B, 1, M)
    queries = graph.linear(tokens, "query", inner.query[0], inner.query_bias[0])  # (B, n, k)
    average = attention(inner, graph, queries, sums, length)  # (B, n, v)
    return graph.linear(average, "output", inner.output[0], inner.output_bias)  # (B, n, o)


@translate.register
def _(layer: Softmax, graph: OnnxGraph, tokens: str, length: int) -> str:
    return graph.node("Softmax", tokens, axis=-1)
