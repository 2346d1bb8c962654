"""Networks as plain PyTorch modules: `nn.Linear`, `nn.MultiheadAttention`, `nn.Softmax` and nothing of our own inside.

Stock attention divides scores by √(head size). Head sizes are padded to a power of four, so that the factor is a power
of two and the query weights absorb it exactly. The padded features are zeros and add nothing to any sum.
"""

from __future__ import annotations

from functools import singledispatch
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import MissingExtra
from ..network import Affine, Attention, Network, Softmax

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise MissingExtra("torch", "torch") from None


class AttentionNetwork(nn.Module):
    """Layers in order, with points and values in the shapes that the user sees."""

    def __init__(self, layers: list[nn.Module], shape_in: Any, point_shape: Any, value_shape: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.shape_in, self.point_shape, self.value_shape = (
            tuple(shape_in),
            tuple(point_shape),
            tuple(value_shape),
        )

    def forward(self, points: Tensor) -> Tensor:
        """(..., *point shape) -> (..., *value shape); with one variable, (k,) is a batch of k points."""
        flat = len(self.point_shape) == 0 or (self.point_shape == (1,) and points.dim() < 2)
        lead = points.shape if flat else points.shape[: points.dim() - len(self.point_shape)]
        tokens = points.reshape(lead.numel(), *self.shape_in)  # (B, n, d)
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens.reshape(*lead, *self.value_shape)


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


class MemoryAttention(nn.Module):
    """Stock multi-head attention whose keys are memory tokens, after the data tokens in self-attention."""

    def __init__(
        self,
        attention: nn.MultiheadAttention,
        memory: Tensor,
        width_out: int,
        attends_data: bool,
        residual: bool,
    ) -> None:
        super().__init__()
        self.attention, self.memory = attention, nn.Parameter(memory)  # (M, e)
        self.width_out, self.attends_data, self.residual = width_out, attends_data, residual

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, o)."""
        batch, length, width = tokens.shape
        queries = nn.functional.pad(tokens, (0, self.attention.embed_dim - width))  # (B, n, E)
        if self.attends_data:
            keys = torch.cat([tokens, self.memory.expand(batch, -1, -1)], dim=1)  # (B, n + M, e)
        else:
            keys, queries = self.memory[None], queries.reshape(1, batch * length, self.attention.embed_dim)
        out = self.attention(queries, keys, keys, need_weights=False)[0]
        out = out.reshape(batch, length, self.attention.embed_dim)[..., : self.width_out]  # (B, n, o)
        return tokens + out if self.residual else out


def to_torch(network: Network, point_shape: tuple[int, ...], value_shape: tuple[int, ...]) -> AttentionNetwork:
    """The network as an `nn.Module` in its own dtype, weights trainable."""
    length, layers = network.rows, []
    for layer in network.layers:
        layers.extend(translate(layer, length, getattr(torch, network.dtype)))
        length = layer.length_out(length)
    return AttentionNetwork(layers, network.shape_in, point_shape, value_shape).eval()


def prompt_to_torch(network: Network) -> PromptNetwork:
    """A network for any length as an `nn.Module`; layers that occur many times share their weights."""
    dtype, made = getattr(torch, network.dtype), {}
    for layer in network.layers:
        if id(layer) not in made:
            made[id(layer)] = translate(layer, 0, dtype)
    return PromptNetwork([module for layer in network.layers for module in made[id(layer)]]).eval()


@singledispatch
def translate(layer: object, length: int, dtype: torch.dtype) -> list[nn.Module]:
    """Stock modules that compute one layer on `length` tokens."""
    raise TypeError(f"no PyTorch translation for {type(layer).__name__}")


@translate.register
def _(layer: Affine, length: int, dtype: torch.dtype) -> list[nn.Module]:
    if layer.left is None:
        return [_linear(layer.right[0], layer.constant[0], dtype)]
    full = np.einsum("kNn,kdm->ndNm", layer.left, layer.right)  # (n, d, N, m)
    rows, width = layer.constant.shape
    linear = _linear(full.reshape(length * layer.width_in, rows * width), layer.constant.ravel(), dtype)
    return [nn.Flatten(1), linear, nn.Unflatten(1, (rows, width))]


@translate.register
def _(layer: Attention, length: int, dtype: torch.dtype) -> list[nn.Module]:
    heads, features = layer.heads, layer.memory.shape[1]
    size = padded_head_size(layer)
    embed = heads * size
    stock = nn.MultiheadAttention(embed, heads, kdim=features, vdim=features, batch_first=True, dtype=dtype)
    scale = float(isqrt(size))  # exact: a power of two
    query = _stack(layer.query * scale, size, embed)  # (E, E)
    key, value = _stack(layer.key, size, features), _stack(layer.value, size, features)  # (E, e)
    biases = [_stack_bias(b, size) for b in (layer.query_bias * scale, layer.key_bias, layer.value_bias)]  # (E,) each
    output = np.zeros((embed, embed))
    for head in range(heads):
        block = layer.output[head]  # (v, o)
        output[: block.shape[1], head * size : head * size + block.shape[0]] = block.T
    output_bias = np.zeros(embed)
    output_bias[: layer.width_out] = layer.output_bias
    weights = {
        "in_proj_bias": np.concatenate(biases),
        "out_proj.weight": output,
        "out_proj.bias": output_bias,
    }
    if features == embed:
        weights["in_proj_weight"] = np.concatenate([query, key, value])
    else:
        weights |= {"q_proj_weight": query, "k_proj_weight": key, "v_proj_weight": value}
    stock.load_state_dict({name: torch.tensor(array, dtype=dtype) for name, array in weights.items()})
    memory = torch.tensor(layer.memory, dtype=dtype)
    return [MemoryAttention(stock, memory, layer.width_out, layer.attends_data, layer.residual)]


@translate.register
def _(layer: Softmax, length: int, dtype: torch.dtype) -> list[nn.Module]:
    return [nn.Softmax(dim=-1)]


def padded_head_size(layer: Attention) -> int:
    """The smallest power of four that holds keys, values, and the layer's inputs and outputs over all heads."""
    heads = layer.heads
    needed = max(layer.key.shape[2], layer.value.shape[2], -(-layer.width_in // heads), -(-layer.width_out // heads))
    size = 1
    while size < needed:
        size *= 4
    return size


def _linear(weight: npt.NDArray[Any], bias: npt.NDArray[Any], dtype: torch.dtype) -> nn.Linear:
    linear = nn.Linear(*weight.shape, dtype=dtype)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(weight.T.copy()))
        linear.bias.copy_(torch.tensor(bias))
    return linear


def _stack(weight: npt.NDArray[Any], size: int, width: int) -> npt.NDArray[Any]:
    """Per-head projections (H, d, k) as one stock matrix (H * size, width), zeros in the padding."""
    heads, rows, columns = weight.shape
    out = np.zeros((heads, size, width))
    out[:, :columns, :rows] = weight.transpose(0, 2, 1)
    return out.reshape(heads * size, width)


def _stack_bias(bias: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """Per-head biases (H, k) as one stock vector (H * size,)."""
    out = np.zeros((len(bias), size))
    out[:, : bias.shape[1]] = bias
    return out.ravel()
