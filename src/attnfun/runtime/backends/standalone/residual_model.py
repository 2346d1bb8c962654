"""An attention-only residual stream in PyTorch, rebuilt from the safetensors file beside this one.

Needs torch and safetensors. `load()` returns an `nn.Module` whose blocks are stock `nn.MultiheadAttention`, in
evaluation mode: every block adds what its heads put out to the stream (B, T, D). `model(points)` gives values;
`model.streams(points)` the stream before block 0 and behind every block, and `edit(block, stream)` may change what goes
on from there (block -1 is before block 0). Points must be of the model's dtype.

Stock attention wants as many features as all heads have together. Where the stream has more, idle heads of zeros are
added; where it has fewer, features of zeros.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn


class ResidualNetwork(nn.Module):
    """Embedding, blocks of stock attention around one residual stream, unembedding."""

    def __init__(self, description: dict[str, Any], weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.description, config = description, description["config"]
        weights = {name: tensor.to(getattr(torch, description["dtype"])) for name, tensor in weights.items()}
        self.start = nn.Parameter(weights["start"])  # (T, D), what the stream holds beside the data
        self.unembed = nn.Parameter(weights["unembed.weight"].T.contiguous())  # (D, m)
        self.before, self.after = (_maps(where, description, weights) for where in ("before", "after"))
        self.blocks = nn.ModuleList([_block(number, config, weights) for number in range(config["n_layers"])])

    def forward(self, points: Tensor, edit: Callable[[int, Tensor], Tensor] | None = None) -> Tensor:
        """(..., *point shape) -> (..., *value shape); with one variable, (k,) is a batch of k points."""
        stream = self.start
        for stream in self.streams(points, edit):  # noqa: B007 - the last one counts
            pass
        tokens = stream[:, : self.description["data_tokens"]] @ self.unembed  # (B, n, m)
        for layer in self.after:
            tokens = layer(tokens)
        return tokens.reshape((*self._lead(points), *self.description["value_shape"]))

    def streams(self, points: Tensor, edit: Callable[[int, Tensor], Tensor] | None = None) -> Iterator[Tensor]:
        """The stream before block 0 and behind every block, (B, T, D) each."""
        tokens = points.reshape(prod(self._lead(points)), *self.description["shape_in"])  # (B, n, d)
        for layer in self.before:
            tokens = layer(tokens)
        rows, width = self.start.shape
        missing = (0, width - tokens.shape[2], 0, rows - tokens.shape[1])
        stream = nn.functional.pad(tokens, missing) + self.start  # (B, T, D)
        size, heads = self.description["config"]["d_head"], _heads(self.description["config"])
        for number in range(-1, len(self.blocks)):
            if number >= 0:
                wide = nn.functional.pad(stream, (0, heads * size - width))  # (B, T, E)
                stream = stream + self.blocks[number](wide, wide, wide, need_weights=False)[0][..., :width]
            stream = stream if edit is None else edit(number, stream)
            yield stream

    def _lead(self, points: Tensor) -> tuple[int, ...]:
        shape = tuple(self.description["point_shape"])
        flat = shape == () or (shape == (1,) and points.dim() < 2)
        return tuple(points.shape if flat else points.shape[: points.dim() - len(shape)])


def _heads(config: dict[str, Any]) -> int:
    """Heads, idle ones included, that have as many features as the stream."""
    return max(config["n_heads"], -(-config["d_model"] // config["d_head"]))


def _block(number: int, config: dict[str, Any], weights: dict[str, Tensor]) -> nn.MultiheadAttention:
    """Stock attention with these weights, zeros around them."""
    width, size, heads = config["d_model"], config["d_head"], _heads(config)
    block = nn.MultiheadAttention(heads * size, heads, batch_first=True, dtype=weights["start"].dtype)
    inner = config["n_heads"] * size
    for parameter in block.parameters():
        nn.init.zeros_(parameter)
    with torch.no_grad():
        for place, name in enumerate("qkv"):
            rows = slice(place * heads * size, place * heads * size + inner)
            block.in_proj_weight[rows, :width] = weights[f"blocks.{number}.attn.{name}.weight"]
            block.in_proj_bias[rows] = weights[f"blocks.{number}.attn.{name}.bias"]
        block.out_proj.weight[:width, :inner] = weights[f"blocks.{number}.attn.o.weight"]
    return block.eval()


def _maps(where: str, description: dict[str, Any], weights: dict[str, Tensor]) -> nn.ModuleList:
    """The maps before the first or behind the last block."""
    made: list[nn.Module] = []
    for number, layer in enumerate(description[where]):
        if layer["kind"] == "softmax":
            made.append(nn.Softmax(dim=-1))
            continue
        weight, bias = (weights[f"{where}.{number}.{name}"] for name in ("weight", "bias"))
        linear = nn.Linear(weight.shape[0], weight.shape[1], dtype=weight.dtype)
        linear.load_state_dict({"weight": weight.T, "bias": bias})
        mixes = layer["kind"] == "mixing"
        made.append(nn.Sequential(nn.Flatten(1), linear, nn.Unflatten(1, tuple(layer["shape"]))) if mixes else linear)
    return nn.ModuleList(made)


def load(path: str | Path | None = None) -> ResidualNetwork:
    """The model from a safetensors file, by default the one beside this file."""
    with safe_open(str(path or Path(__file__).with_suffix(".weights.safetensors")), "pt") as file:
        description = json.loads(file.metadata()["network"])
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        return ResidualNetwork(description, weights).eval()
