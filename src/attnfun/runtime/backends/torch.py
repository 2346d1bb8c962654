"""Networks as plain PyTorch modules: `nn.Linear`, `nn.MultiheadAttention`, `nn.Softmax` and nothing of our own inside.

Layers become a description and weights; `standalone/torch_model.py`, which needs no attnfun, makes the module of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, singledispatch
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import MissingExtra
from ...network import Affine, Attention, Network, Softmax
from ...network.stock import stock_heads, stock_size
from .dense import Planned, check_size, describe, mixing, planned

try:
    import torch
    from torch import Tensor, nn

    from .standalone import torch_model
except ImportError:
    raise MissingExtra("torch", "torch") from None

Array = npt.NDArray[Any]


class PromptNetwork(nn.Module):
    """Layers in order, for sequences of any length."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, d')."""
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens


@dataclass(frozen=True)
class Part:
    """One layer in the terms of `torch_model.py`: its kind and sizes, and its weights named as in stock modules."""

    description: dict[str, Any]
    weights: dict[str, Planned]


def plan(
    network: Network, point_shape: tuple[int, ...], value_shape: tuple[int, ...]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and weights of the module; refused if too large."""
    network = network.dense()
    length, parts = network.rows, []
    for layer in network.layers:
        parts.append(translate(layer, length))
        length = layer.length_out(length)
    weights = {f"layers.{n}.{name}": weight for n, part in enumerate(parts) for name, weight in part.weights.items()}
    check_size("PyTorch", weights.values(), network.dtype)
    description = describe(network, [part.description for part in parts], point_shape, value_shape)
    return description, {name: weight.make() for name, weight in weights.items()}


def to_torch(network: Network, point_shape: tuple[int, ...], value_shape: tuple[int, ...]) -> nn.Module:
    """The network as an `nn.Module` in its own dtype, weights trainable."""
    description, weights = plan(network, point_shape, value_shape)
    return torch_model.build(description, tensors(weights))


def prompt_to_torch(network: Network) -> PromptNetwork:
    """A network for any length as an `nn.Module`; layers that occur many times share their weights."""
    network, dtype = network.dense(), getattr(torch, network.dtype)
    parts = {id(layer): translate(layer, 0) for layer in network.layers}
    check_size("PyTorch", [weight for part in parts.values() for weight in part.weights.values()], network.dtype)
    made = {key: made_of(part, dtype) for key, part in parts.items()}
    return PromptNetwork([made[id(layer)] for layer in network.layers]).eval()


def made_of(part: Part, dtype: torch.dtype) -> nn.Module:
    """One layer as a stock module."""
    module = torch_model.make_layer(part.description, dtype)
    module.load_state_dict(tensors({name: weight.make() for name, weight in part.weights.items()}))
    return module


def tensors(weights: dict[str, Array]) -> dict[str, Tensor]:
    """Arrays as tensors."""
    return {name: torch.tensor(array) for name, array in weights.items()}


@singledispatch
def translate(layer: object, length: int) -> Part:
    """One layer on `length` tokens in stock terms."""
    raise TypeError(f"no PyTorch translation for {type(layer).__name__}")


@translate.register
def _(layer: Affine, length: int) -> Part:
    if layer.left is None:
        sizes = {"in_features": layer.width_in, "out_features": layer.width_out}
        weights = {"weight": planned(layer.right[0].T), "bias": planned(layer.constant[0])}
        return Part({"kind": "linear", **sizes}, weights)
    rows, columns = layer.constant.shape
    matrix = mixing(layer)  # (n*d, N*m)
    weight = Planned(matrix.shape[::-1], lambda: matrix.make().T)
    sizes = {"length": length, "width": layer.width_in, "rows": rows, "columns": columns}
    return Part({"kind": "mixing", **sizes}, {"1.weight": weight, "1.bias": planned(layer.constant.ravel())})


@translate.register
def _(layer: Attention, length: int) -> Part:
    heads, size, features = stock_heads(layer), stock_size(layer), layer.memory.shape[1]
    embed = heads * size
    scale = float(isqrt(size))  # exact: a power of two
    query = Planned((embed, embed), partial(_stack, layer.query * scale, heads, size, embed))
    key = Planned((embed, features), partial(_stack, layer.key, heads, size, features))
    value = Planned((embed, features), partial(_stack, layer.value, heads, size, features))
    biases = [
        _stack_bias(b, heads, size) for b in (layer.query_bias * scale, layer.key_bias, layer.value_bias)
    ]  # (E,) each
    output_bias = np.zeros(embed)
    output_bias[: layer.width_out] = layer.output_bias
    weights = {
        "memory": planned(layer.memory),
        "attention.in_proj_bias": planned(np.concatenate(biases)),
        "attention.out_proj.weight": Planned((embed, embed), partial(_stack_output, layer.output, heads, size)),
        "attention.out_proj.bias": planned(output_bias),
    }
    if features == embed:  # stock attention then keeps the three in one
        together = Planned((3 * embed, embed), lambda: np.concatenate([query.make(), key.make(), value.make()]))
        weights["attention.in_proj_weight"] = together
    else:
        weights |= {f"attention.{name}_proj_weight": w for name, w in zip("qkv", (query, key, value), strict=True)}
    sizes = {"embed": embed, "heads": heads, "memory": layer.memory.shape, "width_out": layer.width_out}
    flags = {"attends_data": layer.attends_data, "residual": layer.residual}
    return Part({"kind": "attention", **sizes, **flags}, weights)


@translate.register
def _(layer: Softmax, length: int) -> Part:
    return Part({"kind": "softmax"}, {})


def _stack(weight: Array, heads: int, size: int, width: int) -> Array:
    """Per-head projections (H, d, k) as one stock matrix (heads * size, width), zeros in the padding."""
    own, rows, columns = weight.shape
    out = np.zeros((heads, size, width))
    out[:own, :columns, :rows] = weight.transpose(0, 2, 1)
    return out.reshape(heads * size, width)


def _stack_bias(bias: Array, heads: int, size: int) -> Array:
    """Per-head biases (H, k) as one stock vector (heads * size,)."""
    out = np.zeros((heads, size))
    out[: len(bias), : bias.shape[1]] = bias
    return out.ravel()


def _stack_output(output: Array, heads: int, size: int) -> Array:
    """Per-head output matrices (H, v, o) as one stock matrix (E, E), E = heads * size."""
    own, values, width = output.shape
    out = np.zeros((heads * size, heads, size))
    out[:width, :own, :values] = output.transpose(2, 0, 1)
    return out.reshape(heads * size, heads * size)
