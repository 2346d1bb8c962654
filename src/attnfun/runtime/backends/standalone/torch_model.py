"""An attention network in PyTorch, rebuilt from the safetensors file beside this one. Needs torch and safetensors.

`load()` returns an `nn.Module` of stock `nn.MultiheadAttention`, `nn.Linear` and `nn.Softmax` in evaluation mode, with
trainable weights. It maps points of shape (..., *point shape) to values; with one variable, (k,) is a batch of k
points. A module of two inputs takes points of both, `module(Q, K)`. Points must be of the module's dtype. What is
proved about it is in `module.description["certificate"]`; it does not check that points lie in the domain.

Stock attention divides scores by √(head size). Head sizes are powers of four, so that the factor is a power of two,
which the query weights absorb exactly. Padded features and heads are zeros and add nothing to any sum.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

FEW = 8
"""Keys up to which plain products of matrices are faster, which PyTorch takes where weights are requested."""


class AttentionNetwork(nn.Module):
    """Layers in order, with points and values in the shapes that the user sees."""

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__()
        self.description = description
        dtype = getattr(torch, description["dtype"])
        self.layers = nn.ModuleList([make_layer(layer, dtype) for layer in description["layers"]])
        self.shape_in = tuple(description["shape_in"])
        self.point_shape, self.value_shape = tuple(description["point_shape"]), tuple(description["value_shape"])
        second_shape = description.get("second_shape")
        self.second_shape = None if second_shape is None else tuple(second_shape)

    def forward(self, points: Tensor, second: Tensor | None = None) -> Tensor:
        """(..., *point shape) -> (..., *value shape); with a second input (..., *second shape), where there are two."""
        if (second is None) != (self.second_shape is None):
            raise TypeError(f"this network has {'one input' if self.second_shape is None else 'two inputs'}")
        flat = len(self.point_shape) == 0 or (self.point_shape == (1,) and points.dim() < 2)
        lead = points.shape if flat else points.shape[: points.dim() - len(self.point_shape)]
        tokens = points.reshape(prod(lead), *self.shape_in)  # (B, n, d)
        for layer in self.layers:
            if isinstance(layer, CrossAttention) and second is not None and self.second_shape is not None:
                tokens = layer(tokens, second.expand(*lead, *self.second_shape).reshape(prod(lead), -1))
            else:
                tokens = layer(tokens)
        return tokens.reshape((*lead, *self.value_shape))


class MemoryAttention(nn.Module):
    """Stock multi-head attention whose keys are memory tokens, after the data tokens in self-attention."""

    def __init__(
        self,
        embed: int,
        heads: int,
        memory: tuple[int, int],
        width_out: int,
        attends_data: bool,
        residual: bool,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        features = memory[1]
        self.attention = nn.MultiheadAttention(
            embed, heads, kdim=features, vdim=features, batch_first=True, dtype=dtype
        )
        self.memory = nn.Parameter(torch.zeros(memory, dtype=dtype))  # (M, e)
        self.width_out, self.attends_data, self.residual = width_out, attends_data, residual

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, o)."""
        batch, length, width = tokens.shape
        queries = nn.functional.pad(tokens, (0, self.attention.embed_dim - width))  # (B, n, E)
        if self.attends_data:
            keys = torch.cat([tokens, self.memory.expand(batch, -1, -1)], dim=1)  # (B, n + M, e)
        else:
            keys, queries = self.memory[None], queries.reshape(1, batch * length, self.attention.embed_dim)
        plainly = self.attends_data and keys.shape[1] <= FEW  # many short sequences: fused kernels take them one by one
        out = self.attention(queries, keys, keys, need_weights=plainly, average_attn_weights=False)[0]
        out = out.reshape(batch, length, self.attention.embed_dim)[..., : self.width_out]  # (B, n, o)
        return tokens + out if self.residual else out


class CrossAttention(nn.Module):
    """Stock multi-head attention whose queries come from one input, and whose keys linear maps make of another.

    A key token is a memory token and behind it one number, which depends on the second input.
    """

    def __init__(
        self,
        embed: int,
        heads: int,
        memory: tuple[int, int],
        width_out: int,
        second: int,
        sums: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        tokens, features = memory
        self.features = nn.Linear(second, sums, dtype=dtype)
        self.sums = nn.Linear(sums, tokens, bias=False, dtype=dtype)
        self.memory = nn.Parameter(torch.zeros((tokens, features - 1), dtype=dtype))  # (M, e - 1)
        self.attention = nn.MultiheadAttention(
            embed, heads, kdim=features, vdim=features, batch_first=True, dtype=dtype
        )
        self.width_out = width_out

    def forward(self, tokens: Tensor, second: Tensor) -> Tensor:
        """Queries (B, n, d) and the second input (B, s) -> (B, n, o)."""
        sums = self.sums(self.features(second)).unsqueeze(-1)  # (B, M, 1)
        keys = torch.cat([self.memory.expand(len(tokens), -1, -1), sums], dim=-1)  # (B, M, e)
        queries = nn.functional.pad(tokens, (0, self.attention.embed_dim - tokens.shape[-1]))  # (B, n, E)
        return self.attention(queries, keys, keys, need_weights=False)[0][..., : self.width_out]  # (B, n, o)


def make_layer(layer: dict[str, Any], dtype: torch.dtype) -> nn.Module:
    """The stock parts of one layer, weights to be loaded."""
    arguments = {name: value for name, value in layer.items() if name != "kind"}
    return LAYERS[layer["kind"]](dtype=dtype, **arguments)


def _mixing(length: int, width: int, rows: int, columns: int, dtype: torch.dtype) -> nn.Module:
    """All tokens (B, n, d) at once into others (B, N, m)."""
    linear = nn.Linear(length * width, rows * columns, dtype=dtype)
    return nn.Sequential(nn.Flatten(1), linear, nn.Unflatten(1, (rows, columns)))


def _softmax(dtype: torch.dtype) -> nn.Module:
    return nn.Softmax(dim=-1)


LAYERS: dict[str, Any] = {
    "linear": nn.Linear,
    "mixing": _mixing,
    "attention": MemoryAttention,
    "cross": CrossAttention,
    "softmax": _softmax,
}


def build(description: dict[str, Any], weights: dict[str, Tensor]) -> AttentionNetwork:
    """The module with its weights, which its dtype holds exactly."""
    module = AttentionNetwork(description)
    module.load_state_dict(weights)
    return module.eval()


def load(path: str | Path | None = None) -> AttentionNetwork:
    """The module from a safetensors file, by default the one beside this file."""
    with safe_open(str(path or Path(__file__).with_suffix(".weights.safetensors")), "pt") as file:
        description = json.loads(file.metadata()["network"])
        return build(description, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 - not a dict
