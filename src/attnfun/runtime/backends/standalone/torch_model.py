"""An attention network in PyTorch, rebuilt from the safetensors file beside this one. Needs torch and safetensors.

`load()` returns an `nn.Module` of stock `nn.MultiheadAttention`, `nn.Linear` and `nn.Softmax` in evaluation mode, with
trainable weights. It maps points of shape (..., *point shape) to values; with one variable, (k,) is a batch of k
points. A module of two inputs takes points of both, `module(Q, K)`. Points must be of the module's dtype. What is
proved about it is in `module.description["certificate"]`; it does not check that points lie in the domain.

Stock attention divides scores by √(head size). Head sizes are powers of four, so that the factor is a power of two,
which the query weights absorb exactly. Padded features and heads are zeros and add nothing to any sum. Where no
gradients are needed and nothing is hooked to the stock module, they are left out: the same sums of the same weights.
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
BLOCK, LEAST = 2**18, 64
"""Scores that are held at once, and tokens that they must be of; larger memories are left to stock attention."""
WIDE = (torch.float32, torch.float64)
"""Formats in which sums are as fine as what is stored, so that it does not matter what is stored on the way."""


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
        used: tuple[int, int, int] | None = None,
    ) -> None:
        super().__init__()
        features = memory[1]
        self.attention = nn.MultiheadAttention(
            embed, heads, kdim=features, vdim=features, batch_first=True, dtype=dtype
        )
        self.memory = nn.Parameter(torch.zeros(memory, dtype=dtype))  # (M, e)
        self.width_out, self.attends_data, self.residual = width_out, attends_data, residual
        self.used = used  # heads, and features of their keys and values, that are not padding

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, o)."""
        batch, length, width = tokens.shape
        if self._may_leave_out_padding(length):
            columns = tokens.reshape(batch * length, width).T.split(self._block(), dim=1)  # (d, R) each
            out = torch.cat([self._without_padding(block) for block in columns], dim=1).T.reshape(batch, length, -1)
            return tokens + out if self.residual else out
        queries = nn.functional.pad(tokens, (0, self.attention.embed_dim - width))  # (B, n, E)
        if self.attends_data:
            keys = torch.cat([tokens, self.memory.expand(batch, -1, -1)], dim=1)  # (B, n + M, e)
        else:
            keys, queries = self.memory[None], queries.reshape(1, batch * length, self.attention.embed_dim)
        plainly = self.attends_data and keys.shape[1] <= FEW  # many short sequences: fused kernels take them one by one
        out = self.attention(queries, keys, keys, need_weights=plainly, average_attn_weights=False)[0]
        out = out.reshape(batch, length, self.attention.embed_dim)[..., : self.width_out]  # (B, n, o)
        return tokens + out if self.residual else out

    def _block(self) -> int:
        """Tokens whose scores are held at once."""
        return BLOCK // ((self.used or (1,))[0] * (len(self.memory) + 1))

    def _may_leave_out_padding(self, length: int) -> bool:
        """Is nobody there who could tell?"""
        stock = self.attention
        return (
            self.used is not None
            and not torch.is_grad_enabled()
            and not torch.compiler.is_compiling()
            and type(stock) is nn.MultiheadAttention
            and not (stock._forward_hooks or stock._forward_pre_hooks)
            and not (stock.training and stock.dropout)
            and (length == 1 or not self.attends_data)
            and len(self.memory) > 0
            and self._block() >= LEAST
            and self.memory.dtype in WIDE
            and self._padding_adds_nothing(*self.used)
        )

    def _padding_adds_nothing(self, heads: int, size: int, width: int) -> bool:
        """Are weights zero where outputs would read padding, or scores add it? Training may change that."""
        stock, each = self.attention, (self.attention.num_heads, self.attention.head_dim)
        output = stock.out_proj.weight[: self.width_out].view(-1, *each)  # (o, H, k)
        query = (stock.q_proj_weight if stock.in_proj_weight is None else stock.in_proj_weight)[: stock.embed_dim]
        queries = query.view(*each, -1)[:heads, size:], stock.in_proj_bias[: stock.embed_dim].view(each)[:heads, size:]
        return not any(part.any() for part in (output[:, heads:], output[:, :heads, width:], *queries))

    def _without_padding(self, columns: Tensor) -> Tensor:
        """Attention with the stock weights, tokens as columns: (d, R) -> (o, R). Softmax along rows is much faster."""
        stock, (heads, size, width) = self.attention, self.used or (0, 0, 0)
        every, root = (stock.num_heads, stock.head_dim, -1), float(stock.head_dim) ** 0.5  # a power of two
        if stock.in_proj_weight is None:
            stacked = [stock.q_proj_weight, stock.k_proj_weight, stock.v_proj_weight]
        else:
            stacked = list(stock.in_proj_weight.chunk(3))
        query, key, value = (
            (weight.view(every)[:heads, :features], bias.view(every)[:heads, :features])
            for weight, bias, features in zip(stacked, stock.in_proj_bias.chunk(3), (size, size, width), strict=True)
        )  # (H, k, E), (H, k, 1) and so on

        def project(tokens: Tensor, *parts: tuple[Tensor, Tensor]) -> list[Tensor]:
            """Tokens (d, R) by each of some maps (H, k, d) and (H, k, 1): (H, k, R) each."""
            weights = [weight[..., : len(tokens)].reshape(-1, len(tokens)) for weight, _ in parts]
            biases = torch.cat([bias.reshape(-1, 1) for _, bias in parts])
            made = torch.addmm(biases, torch.cat(weights), tokens).split([len(weight) for weight in weights])
            return [part.view(heads, -1, tokens.shape[1]) for part in made]

        query = (query[0] / root, query[1] / root)
        keys, values = project(self.memory.T, key, value)  # (H, k, M), (H, v, M)
        if self.attends_data:  # each token is a sequence of its own
            queries, own_keys, own_values = project(columns, query, key, value)
            own = (queries * own_keys).sum(dim=1, keepdim=True)  # (H, 1, R)
            weights = torch.cat([own, keys.mT @ queries], dim=1).softmax(dim=1)  # (H, 1 + M, R)
            average = torch.baddbmm(weights[:, :1] * own_values, values, weights[:, 1:])  # (H, v, R)
        else:
            (queries,) = project(columns, query)
            average = values @ (keys.mT @ queries).softmax(dim=1)  # (H, v, R)
        output = stock.out_proj.weight.view(-1, *every[:2])[: self.width_out, :heads, :width]  # (o, H, v)
        bias, flat = stock.out_proj.bias[: self.width_out, None], average.reshape(heads * width, -1)
        return torch.addmm(bias, output.reshape(self.width_out, -1), flat)


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
