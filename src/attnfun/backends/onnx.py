"""Networks as ONNX models: matrix products, sums and softmax of the standard operators, with a dynamic batch.

Heads come first and the queries of the whole batch stand in one matrix, (H, B*n, k), so that the scores against the
memory are one matrix product a head. In self-attention the scores against data and memory are computed apart and then
joined: the memory is never copied over the batch. A model makes the full matrix of weights, (H, B*n, n + M); feed large
batches in parts.

The model does what the certificate bounds. Memory keys and values are stored ready-made if the projection merely
selects features, which is exact; otherwise the model projects the memory itself, in its own arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from .._version import __version__
from ..errors import InputError, MissingExtra
from ..network import Affine, Attention, Network, Softmax
from ..network.layers import selects

try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError:
    raise MissingExtra("onnx", "onnx") from None

Array = npt.NDArray[Any]

OPSET, IR_VERSION = 17, 8
"""The operators' version and the file format that came with it; runtimes since 2022 read both."""
LARGEST = 2_000_000_000
"""Bytes of weights in one file: its encoding ends at 2 GiB, and the description needs some room."""


class Graph:
    """Nodes and weights in the making. Tensors go by name."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.part = ""
        """Where in the network we are; weights are named after it."""

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; the name of the output."""
        return self._add(operator, inputs, 1, attributes)[0]

    def weight(self, name: str, array: Array) -> str:
        """Store numbers of the current part in the model's dtype."""
        full = f"{self.part}.{name}"
        self.weights[full] = array.astype(self.dtype)
        return full

    def integers(self, name: str, *numbers: int) -> str:
        """Store a shape, or what else operators ask for."""
        self.weights[name] = np.array(numbers, dtype=np.int64)
        return name

    def reshape(self, tensor: str, *shape: int) -> str:
        """The tensor in another shape, -1 for the axis that holds the batch."""
        return self.node("Reshape", tensor, self.integers(f"shape {shape}", *shape))

    def split(self, tensor: str, *sizes: int) -> list[str]:
        """Parts of the tensor along its last axis."""
        if len(sizes) == 1:
            return [tensor]
        return self._add("Split", (tensor, self.integers(f"sizes {sizes}", *sizes)), len(sizes), {"axis": -1})

    def join(self, tensors: list[str]) -> str:
        """The tensors side by side along their last axis; the inverse of `split`."""
        return tensors[0] if len(tensors) == 1 else self.node("Concat", *tensors, axis=-1)

    def linear(self, rows: str, name: str, weight: Array, bias: Array) -> str:
        """`rows weight + bias`: (..., d) -> (..., m). Weights (H, d, m) of several heads give (H, ..., m)."""
        product = self.node("MatMul", rows, self.weight(name, weight))
        return self.node("Add", product, self.weight(f"{name}_bias", bias))

    def _add(self, operator: str, inputs: tuple[str, ...], count: int, attributes: dict[str, Any]) -> list[str]:
        name = f"{operator.lower()}_{len(self.nodes)}"
        outputs = [f"{name}.{number}" for number in range(count)]
        self.nodes.append(helper.make_node(operator, inputs, outputs, name, **attributes))
        return outputs


def to_onnx(
    network: Network, point_shape: tuple[int, ...], value_shape: tuple[int, ...], metadata: dict[str, str]
) -> onnx.ModelProto:
    """The network as a checked model, from "points" (batch, *point shape) to "values" (batch, *value shape)."""
    check_dtype(network)
    graph, length = Graph(network.dtype), network.rows
    tokens = graph.reshape("points", -1, *network.shape_in)  # (B, n, d)
    for number, layer in enumerate(network.layers):
        graph.part = f"layers.{number}"
        tokens = translate(layer, graph, tokens, length)
        length = layer.length_out(length)
    graph.reshape(tokens, -1, *value_shape)  # (B, *value shape)
    graph.nodes[-1].output[0] = "values"
    check_size(graph)
    model = assemble(graph, ("points", ["batch", *point_shape]), ("values", ["batch", *value_shape]))
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model, full_check=True)
    return model


@singledispatch
def translate(layer: object, graph: Graph, tokens: str, length: int) -> str:
    """Add the nodes of one layer on tokens (B, n, d), n = `length`; the name of its output."""
    raise TypeError(f"no ONNX translation for {type(layer).__name__}")


@translate.register
def _(layer: Affine, graph: Graph, tokens: str, length: int) -> str:
    if layer.left is None:
        return graph.linear(tokens, "weight", layer.right[0], layer.constant[0])  # (B, n, m)
    rows, width = layer.constant.shape
    full = np.einsum("kNn,kdm->ndNm", layer.left, layer.right)  # (n, d, N, m)
    matrix = full.reshape(length * layer.width_in, rows * width)  # (n*d, N*m)
    flat = graph.reshape(tokens, -1, len(matrix))  # (B, n*d)
    return graph.reshape(graph.linear(flat, "weight", matrix, layer.constant.ravel()), -1, rows, width)  # (B, N, m)


@translate.register
def _(layer: Attention, graph: Graph, tokens: str, length: int) -> str:
    rows = graph.reshape(tokens, -1, layer.width_in)  # (B*n, d)
    queries = graph.linear(rows, "query", layer.query, layer.query_bias[:, None])  # (H, B*n, k)
    sources: list[Data | Memory] = [Data.of(layer, graph, rows, length)] if layer.attends_data else []
    sources += [Memory.of(layer, graph)] if len(layer.memory) else []
    scores = graph.join([source.scores(graph, queries) for source in sources])  # (H, B*n, T)
    weights = graph.split(graph.node("Softmax", scores, axis=-1), *(source.count for source in sources))
    averages = [source.average(graph, part) for source, part in zip(sources, weights, strict=True)]  # (H, B*n, v) each
    average = averages[0] if len(averages) == 1 else graph.node("Add", *averages)
    flat = layer.output.reshape(-1, layer.width_out)  # (H*v, o)
    by_token = graph.reshape(graph.node("Transpose", average, perm=[1, 0, 2]), -1, len(flat))  # (B*n, H*v)
    out = graph.linear(by_token, "output", flat, layer.output_bias)  # (B*n, o)
    out = graph.reshape(out, -1, length, layer.width_out)  # (B, n, o)
    return graph.node("Add", tokens, out) if layer.residual else out


@translate.register
def _(layer: Softmax, graph: Graph, tokens: str, length: int) -> str:
    return graph.node("Softmax", tokens, axis=-1)


@dataclass(frozen=True)
class Memory:
    """The memory tokens as keys and values, the same for every point."""

    keys: str  # (H, k, M)
    values: str  # (H, M, v)
    count: int

    @classmethod
    def of(cls, layer: Attention, graph: Graph) -> Memory:
        """Projections of the memory, ready-made where that is exact."""
        keys, values = (
            graph.weight(f"memory_{name}", layer.memory @ weight)
            if all(selects(*head).all() for head in zip(weight, bias, strict=True))
            else graph.linear(graph.weight("memory", layer.memory), name, weight, bias)
            for name, weight, bias in _projections(layer)
        )  # (H, M, k), (H, M, v)
        return cls(graph.node("Transpose", keys, perm=[0, 2, 1]), values, len(layer.memory))

    def scores(self, graph: Graph, queries: str) -> str:
        """Scores of queries (H, B*n, k), (H, B*n, M)."""
        return graph.node("MatMul", queries, self.keys)

    def average(self, graph: Graph, weights: str) -> str:
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
    def of(cls, layer: Attention, graph: Graph, rows: str, length: int) -> Data:
        """Projections of the data tokens (B*n, d)."""
        keys, values = (graph.linear(rows, name, weight, bias) for name, weight, bias in _projections(layer))
        return cls(layer, keys, values, length)

    def scores(self, graph: Graph, queries: str) -> str:
        """Scores of queries (H, B*n, k), (H, B*n, n)."""
        heads, length, size = self.layer.heads, self.count, self.layer.query.shape[2]
        asking = graph.reshape(queries, heads, -1, length, 1, size)  # (H, B, n, 1, k)
        asked = graph.reshape(self.keys, heads, -1, 1, length, size)  # (H, B, 1, n, k)
        products = graph.node("Mul", asking, asked)  # (H, B, n, n, k)
        scores = graph.node("ReduceSum", products, graph.integers("last axis", -1), keepdims=0)  # (H, B, n, n)
        return graph.reshape(scores, heads, -1, length)

    def average(self, graph: Graph, weights: str) -> str:
        """The data tokens' share in the weighted average, (H, B*n, n) -> (H, B*n, v)."""
        heads, length, size = self.layer.heads, self.count, self.layer.value.shape[2]
        by_point = graph.reshape(weights, heads, -1, length, length)  # (H, B, n, n)
        values = graph.reshape(self.values, heads, -1, length, size)  # (H, B, n, v)
        return graph.reshape(graph.node("MatMul", by_point, values), heads, -1, size)


def _projections(layer: Attention) -> list[tuple[str, Array, Array]]:
    """Names, weights (H, e, .) and biases (H, 1, .) that make keys and values of tokens."""
    return [("key", layer.key, layer.key_bias[:, None]), ("value", layer.value, layer.value_bias[:, None])]


def check_dtype(network: Network) -> None:
    """Refuse what runtimes cannot compute in."""
    if network.dtype == "bfloat16":
        raise InputError("ONNX Runtime has no bfloat16 matrix products on CPU", remedy="Compile in float32 or float64.")


def check_size(graph: Graph) -> None:
    """Refuse what a file cannot hold."""
    size = sum(array.nbytes for array in graph.weights.values())
    if size > LARGEST:
        raise InputError(
            f"an ONNX file must hold at most {LARGEST / 1e9:g} GB of weights",
            got=f"{size / 1e9:.3g} GB",
            remedy="Compile with a larger eps, or in float32; `save` and `to_torch` have no such limit.",
        )


def assemble(graph: Graph, given: tuple[str, list[str | int]], result: tuple[str, list[str | int]]) -> onnx.ModelProto:
    """The model, from and to tensors of these names and shapes."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(graph.dtype))
    body = helper.make_graph(
        graph.nodes,
        "attnfun",
        [helper.make_tensor_value_info(given[0], kind, given[1])],
        [helper.make_tensor_value_info(result[0], kind, result[1])],
        [numpy_helper.from_array(array, name) for name, array in graph.weights.items()],
    )
    return helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="attnfun",
        producer_version=__version__,
    )
