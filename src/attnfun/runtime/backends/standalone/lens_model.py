"""An attention network in TransformerLens 4, rebuilt from the safetensors file beside this one.

Needs transformer-lens (and torch) and safetensors. `load()` returns a `LensNetwork` around a native, attention-only,
bidirectional `TransformerBridge` without layer norms, whose weights are loaded as they are. Points are real numbers:
they become the residual stream that enters block 0 (`stream`), beside the rows of the memory tokens and a sink that
holds nothing. `bridge(stream, start_at_layer=0)` gives the token features that `read` turns into values.

`tokens`, `features` and `heads` say in words what the positions, the features of the stream and the heads are for.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor


class LensNetwork:
    """A `TransformerBridge` with points and values in the shapes that the user sees."""

    def __init__(self, description: dict[str, Any], weights: dict[str, Tensor]) -> None:
        self.description = description
        self.tokens: list[str] = description["tokens"]
        self.features: list[str] = description["features"]
        self.heads: list[list[str]] = description["heads"]
        dtype = getattr(torch, description["dtype"])
        weights = {name: tensor.to(dtype) for name, tensor in weights.items()}
        self.start = weights["start"]  # (T, D), what the stream holds beside the data
        self.before = _layers("before", description, weights)
        self.after = _layers("after", description, weights)
        self.bridge = _boot(description["config"], weights, dtype)

    def __call__(self, points: Any) -> Tensor:
        """(..., *point shape) -> (..., *value shape); with one variable, (k,) is a batch of k points."""
        stream, lead = self.stream(points)
        return self.read(self.bridge(stream, start_at_layer=0), lead)

    def run_with_cache(self, points: Any) -> tuple[Tensor, Any]:
        """Values and the cache of all activations."""
        stream, lead = self.stream(points)
        logits, cache = self.bridge.run_with_cache(stream, start_at_layer=0)
        return self.read(logits, lead), cache

    def stream(self, points: Any) -> tuple[Tensor, tuple[int, ...]]:
        """The residual stream (B, T, D) that enters block 0, and the leading axes of the points."""
        points = torch.as_tensor(points, dtype=self.start.dtype)
        shape = tuple(self.description["point_shape"])
        flat = shape == () or (shape == (1,) and points.dim() < 2)
        lead = tuple(points.shape if flat else points.shape[: points.dim() - len(shape)])
        tokens = points.reshape(prod(lead), *self.description["shape_in"])  # (B, n, d)
        for layer in self.before:
            tokens = layer(tokens)
        count, width = tokens.shape[1:]
        tokens = torch.nn.functional.pad(tokens, (0, self.start.shape[1] - width))  # (B, n, D)
        rows = self.start.expand(len(tokens), -1, -1)  # (B, T, D)
        return torch.cat([tokens + rows[:, :count], rows[:, count:]], dim=1), lead

    def read(self, logits: Tensor, lead: tuple[int, ...]) -> Tensor:
        """Values from what the unembedding puts out, (B, T, m)."""
        tokens = logits[:, : self.description["data_tokens"]]  # (B, n, m)
        for layer in self.after:
            tokens = layer(tokens)
        return tokens.reshape((*lead, *self.description["value_shape"]))


def _boot(config: dict[str, Any], weights: dict[str, Tensor], dtype: torch.dtype) -> Any:
    """A native bridge that holds exactly these weights; its embeddings, which are passed by, are zero."""
    from transformer_lens.config import TransformerBridgeConfig  # pyright: ignore[reportMissingImports]
    from transformer_lens.model_bridge.sources import native  # pyright: ignore[reportMissingImports]

    plain = {"attn_only": True, "normalization_type": None, "attention_dir": "bidirectional", "init_weights": False}
    bridge = native.boot(TransformerBridgeConfig(d_vocab=1, **plain, **config), dtype=dtype)
    own = {name: torch.zeros_like(tensor) for name, tensor in bridge.state_dict().items()}
    loaded = {name: weights.get(name, zeros) for name, zeros in own.items()}
    bridge.load_state_dict(loaded, strict=False)
    if not all(torch.equal(tensor, loaded[name]) for name, tensor in bridge.state_dict().items()):
        raise RuntimeError("this version of transformer-lens did not take the weights as they are; 4.3 does")
    return bridge.eval()


def _layers(where: str, description: dict[str, Any], weights: dict[str, Tensor]) -> list[Any]:
    """The maps before the first or after the last block."""
    made = []
    for number, layer in enumerate(description[where]):
        own = [weights[f"{where}.{number}.{name}"] for name in ("weight", "bias") if layer["kind"] != "softmax"]
        made.append(MAPS[layer["kind"]](layer, *own))
    return made


def _linear(layer: dict[str, Any], weight: Tensor, bias: Tensor) -> Any:
    return lambda tokens: tokens @ weight + bias  # (B, n, m)


def _mixing(layer: dict[str, Any], weight: Tensor, bias: Tensor) -> Any:
    return lambda tokens: (tokens.flatten(1) @ weight + bias).reshape(-1, *layer["shape"])  # (B, N, m)


def _softmax(layer: dict[str, Any]) -> Any:
    return lambda tokens: torch.softmax(tokens, dim=-1)


MAPS = {"linear": _linear, "mixing": _mixing, "softmax": _softmax}


def load(path: str | Path | None = None) -> LensNetwork:
    """The network from a safetensors file, by default the one beside this file."""
    with safe_open(str(path or Path(__file__).with_suffix(".weights.safetensors")), "pt") as file:
        description = json.loads(file.metadata()["network"])
        return LensNetwork(description, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
