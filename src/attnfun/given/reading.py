"""Read whatever counts as a network: what the readers read, compiled networks, and exported modules trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..arithmetic.formats import dtype_name
from ..compiled import Compiled, load
from ..domains.box import Box
from ..errors import InputError, counted, shown
from ..network import Affine, Attention, Network
from ..network.layers import FactoredAttention
from ..targets.readers import read_graph
from ..targets.readers.graph import Builder, Graph
from .machine import ARITHMETICS

EXACT = "exact"
"""In place of a number format: real arithmetic."""


@dataclass(frozen=True, eq=False)
class Given:
    """A network that was given."""

    graph: Graph
    name: str
    dtype: str
    """The number format that it runs in by itself."""
    assumptions: tuple[str, ...] = ()
    network: Network | None = None
    """As layers of attention, where it is one of ours."""


def read(network: object, domain: Box) -> Given:
    """A network on points of a domain; InputError if it is none."""
    if isinstance(network, str | Path) and str(network).endswith(".safetensors"):
        network = load(Path(network))
    if isinstance(network, Compiled):
        network = network.network
    if _is_torch(network):
        from ..runtime.backends.torch import from_torch

        network = from_torch(network) or network  # type: ignore[arg-type]
    if isinstance(network, Network):
        return _of_layers(network, domain)
    reading = read_graph(network, domain)
    if reading is None:
        raise InputError(
            "a network must be a PyTorch module, a fitted scikit-learn model, an ONNX file, a compiled network or a "
            "file of one",
            got=shown(network),
        )
    return Given(reading.graph, reading.name, _own_format(network, reading.dtype), reading.assumptions)


def _is_torch(network: object) -> bool:
    return any(f"{kind.__module__.split('.')[0]}.{kind.__name__}" == "torch.Module" for kind in type(network).__mro__)


def _own_format(network: Any, dtype: np.dtype[Any]) -> str:
    """The format that a network runs in: that of a module's weights, or what its framework computes in."""
    formats = (
        {str(weight.dtype).removeprefix("torch.") for weight in network.parameters()} if _is_torch(network) else ()
    )
    names = sorted(name for name in formats if "float" in name) or [dtype.name]
    if len(names) > 1:
        raise InputError(
            "the weights of a module must have one dtype", got=", ".join(names), remedy="Convert it: module.float()."
        )
    return names[0]


def arithmetic_of(given: Given, dtype: object) -> str | None:
    """The number format that a claim is about, None for real arithmetic: the network's own unless another is named."""
    if isinstance(dtype, str) and dtype == EXACT:
        return None
    if dtype is not None:
        return dtype_name(dtype, (*ARITHMETICS,))
    if given.dtype not in ARITHMETICS:
        raise InputError(
            f"a given network must have the dtype {' or '.join(ARITHMETICS)}, or be taken in real arithmetic",
            got=given.dtype,
            remedy='Pass dtype="exact", or convert the network.',
        )
    return given.dtype


def _of_layers(network: Network, domain: Box) -> Given:
    """A network of attention as a graph."""
    if domain.size != math.prod(network.shape_in):
        raise InputError(
            f"the domain of {network!r} must have {counted(math.prod(network.shape_in), 'variable')}", got=domain
        )
    return Given(graph_of(network, domain), repr(network), network.dtype, (), network)


def graph_of(network: Network, domain: Box) -> Graph:
    """The operations of a network of ours, as back ends run them."""
    build = Builder(domain.shape or (1,))
    length = network.rows
    value = build.add("reshape", 0, shape=network.shape_in)
    for number, layer in enumerate(network.layers):
        name = f"layer {number}"
        if isinstance(layer, FactoredAttention):
            layer = layer.dense()
        if isinstance(layer, Affine):
            value = _affine(build, value, layer, length, name)
        elif isinstance(layer, Attention):
            value = _attention(build, value, layer, length, name)
        else:
            value = build.add("softmax", value, axis=1, name=name)
        length = layer.length_out(length)
    return build.graph(value)


def _affine(build: Builder, value: int, layer: Affine, length: int, name: str) -> int:
    if layer.left is None:
        return build.add("linear", value, weight=layer.right[0], bias=layer.constant[0], name=name)
    mix = np.einsum("kNn,kdm->ndNm", layer.left, layer.right).reshape(length * layer.width_in, -1)  # (n*d, N*m)
    flat = build.add("reshape", value, shape=(length * layer.width_in,))
    mapped = build.add("linear", flat, weight=mix, bias=layer.constant.ravel(), name=name)
    return build.add("reshape", mapped, shape=layer.constant.shape)


def _attention(build: Builder, value: int, layer: Attention, length: int, name: str) -> int:
    heads, tokens = layer.heads, value
    count = len(layer.memory) + (length if layer.attends_data else 0)
    if len(layer.memory):
        memory = build.add("constant", value=layer.memory, name=name)
        tokens = build.add("concat", value, memory, axis=0) if layer.attends_data else memory

    def projected(source: int, weight: Any, bias: Any, rows: int) -> int:
        """(rows, d) -> (H, rows, k)."""
        matrix = weight.transpose(1, 0, 2).reshape(weight.shape[1], -1)  # (d, H*k)
        mapped = build.add("linear", source, weight=matrix, bias=bias.ravel(), name=name)
        return build.add(
            "transpose", build.add("reshape", mapped, shape=(rows, heads, weight.shape[2])), axes=(1, 0, 2)
        )

    queries = projected(value, layer.query, layer.query_bias, length)
    keys = projected(tokens, layer.key, layer.key_bias, count)
    values = projected(tokens, layer.value, layer.value_bias, count)
    scores = build.add("matmul", queries, build.add("transpose", keys, axes=(0, 2, 1)), name=name)
    mixed = build.add("matmul", build.add("softmax", scores, axis=2, name=name), values, name=name)  # (H, n, v)
    side = build.add(
        "reshape", build.add("transpose", mixed, axes=(1, 0, 2)), shape=(length, heads * layer.value.shape[2])
    )
    output = layer.output.reshape(-1, layer.width_out)  # (H*v, o)
    out = build.add("linear", side, weight=output, bias=layer.output_bias, name=name)
    return build.add("add", value, out, name=name) if layer.residual else out
