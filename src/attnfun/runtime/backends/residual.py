"""A network as a residual stream: rows of one width to which blocks of attention heads add, and nothing else.

    enter   stream = start + tokens E                       (T, D): data tokens first, then memory tokens and a sink
    block   stream <- stream + Σ_h softmax(q_h k_hᵀ) v_h O_h   q_h = stream Q_h + b_h, k_h and v_h alike
    leave   tokens = stream U                               of the data rows

`lens.py` writes networks in this form, exactly. Here it is data, with the one way to run it in NumPy and the one way to
write it down under the names that TransformerLens has for the weights; `standalone/lens_model.py` and
`standalone/residual_model.py` read that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ...network import Affine, Softmax
from ...network.layers import Layer
from ...network.reference import apply, softmax
from .dense import Planned, mixing, planned

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Edit = Callable[[int, Floats], Floats]
"""Changes the stream (B, T, D) behind a block; -1 is before block 0."""
ENTRY = -1
"""The number of the place before block 0."""


@dataclass(frozen=True, eq=False)
class Block:
    """The heads of one block."""

    query: Floats  # (H, D, k)
    query_bias: Floats  # (H, k)
    key: Floats  # (H, D, k)
    key_bias: Floats  # (H, k)
    value: Floats  # (H, D, k)
    value_bias: Floats  # (H, k)
    output: Floats  # (H, k, D)

    @property
    def heads(self) -> int:
        """Number of heads."""
        return len(self.query)

    def scores(self, stream: Floats) -> Floats:
        """Every row's scores for every row, (B, H, T, T)."""
        q, k = _projected(stream, self.query, self.query_bias), _projected(stream, self.key, self.key_bias)
        return q @ np.swapaxes(k, -1, -2)

    def pattern(self, stream: Floats) -> Floats:
        """Attention weights, (B, H, T, T)."""
        return softmax(self.scores(stream))

    def parts(self, stream: Floats) -> Floats:
        """What each head adds to the stream, (B, H, T, D)."""
        out, some = np.zeros((len(stream), self.heads, *stream.shape[1:])), self.speaking
        out[:, some] = self._only(some)._mixed(stream) @ self.output[some]
        return out

    def __call__(self, stream: Floats) -> Floats:
        """The stream behind the block, (B, T, D)."""
        speaking = self._only(self.speaking)
        mixed = np.swapaxes(speaking._mixed(stream), 1, 2)  # (B, T, H', k)
        return stream + mixed.reshape(*stream.shape[:2], -1) @ speaking.output.reshape(-1, stream.shape[2])

    @property
    def speaking(self) -> npt.NDArray[np.bool_]:
        """Heads that put anything out, (H,)."""
        return (self.output != 0).any(axis=(1, 2))

    def _only(self, some: npt.NDArray[np.bool_]) -> Block:
        """Some of the heads."""
        return Block(*(getattr(self, field.name)[some] for field in fields(self)))

    def _mixed(self, stream: Floats) -> Floats:
        """Values mixed by the weights, (B, H, T, k)."""
        return self.pattern(stream) @ _projected(stream, self.value, self.value_bias)

    @property
    def writes(self) -> npt.NDArray[np.bool_]:
        """Which heads write to which features of the stream, (H, D)."""
        return (self.output != 0).any(axis=1)


def _projected(stream: Floats, weight: Floats, bias: Floats) -> Floats:
    """Of all heads, in one product: (B, T, D), (H, D, k) -> (B, H, T, k)."""
    heads, width, size = weight.shape
    flat = stream @ weight.transpose(1, 0, 2).reshape(width, heads * size) + bias.ravel()  # (B, T, H k)
    return np.swapaxes(flat.reshape(*stream.shape[:2], heads, size), 1, 2)


@dataclass(frozen=True, eq=False)
class Residual:
    """Embedding, blocks, unembedding; maps before and behind them that may mix tokens; and words for what is what."""

    shape_in: tuple[int, int]
    dtype: str
    before: tuple[Layer, ...]
    embedding: Floats  # (d, D)
    start: Floats  # (T, D)
    blocks: tuple[Block, ...]
    unembed: Floats  # (D, m)
    after: tuple[Layer, ...]
    data_tokens: int
    tokens: tuple[str, ...]
    """What the rows are."""
    features: tuple[str, ...]
    """What the features are; none are named once the stream has been turned."""
    heads: tuple[tuple[str, ...], ...]
    """What the heads of each block do."""
    far: float
    """The score that masks rows."""
    places: tuple[tuple[int, Places], ...] = ()
    """Behind which block, and in which features, stands the token that enters the first attention layer of the network,
    and those that leave this layer and each one after it, up to the last attention layer."""

    def __repr__(self) -> str:
        heads = ", ".join(str(block.heads) for block in self.blocks)
        return (
            f"Residual({len(self.tokens)} rows, width {self.width}, heads of blocks: {heads or 'none'}, {self.dtype})"
        )

    @property
    def width(self) -> int:
        """Features of the stream, D."""
        return self.start.shape[1]

    def embedded(self, X: Floats) -> Floats:
        """Sequences (B, n, d) as the stream that enters block 0, (B, T, D)."""
        for layer in self.before:
            X = apply(layer, X)
        stream = np.tile(self.start, (len(X), 1, 1))  # (B, T, D)
        stream[:, : self.data_tokens] += X @ self.embedding
        return stream

    def streams(self, X: Floats, edit: Edit | None = None) -> Iterator[Floats]:
        """The stream before block 0 and behind every block, (B, T, D) each; `edit` may change what goes on."""
        return self.onwards(self.embedded(X), ENTRY, edit)

    def onwards(self, stream: Floats, after: int, edit: Edit | None = None) -> Iterator[Floats]:
        """The stream behind block `after`, which is given, and behind every later one."""
        for number in range(after, len(self.blocks)):
            if number > after:
                stream = self.blocks[number](stream)
            stream = stream if edit is None else edit(number, stream)
            yield stream

    def read(self, stream: Floats) -> Floats:
        """The stream behind the last block as sequences, (B, n', d')."""
        X = stream[:, : self.data_tokens] @ self.unembed
        for layer in self.after:
            X = apply(layer, X)
        return X

    def run(self, X: Floats, edit: Edit | None = None) -> Floats:
        """Sequences to sequences, (B, n, d) -> (B, n', d'). O(blocks · heads · T²) a sequence."""
        stream = X
        for stream in self.streams(X, edit):  # noqa: B007 - the last one counts
            pass
        return self.read(stream)

    def plan(
        self, point_shape: tuple[int, ...], value_shape: tuple[int, ...]
    ) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Description and weights for the files in `standalone`; stock scores are divided by √k, a power of two."""
        size, heads = self.blocks[0].query.shape[2], self.blocks[0].heads
        own = np.array_equal(self.embedding, np.eye(*self.embedding.shape))
        embeds = () if own else (Affine.tokenwise(self.embedding, np.zeros(self.width)),)
        sides = {"before": (*self.before, *embeds), "after": self.after}
        ends = {name: [_outside(layer) for layer in layers] for name, layers in sides.items()}
        weights = {
            f"{name}.{number}.{part}": weight.make()
            for name, layers in ends.items()
            for number, (_, named) in enumerate(layers)
            for part, weight in named.items()
        }
        weights |= {"start": self.start, "unembed.weight": self.unembed.T}
        for number, block in enumerate(self.blocks):
            scale = {"query": float(isqrt(size))}
            for name in ("query", "key", "value"):
                weight, bias = (getattr(block, part) * scale.get(name, 1.0) for part in (name, f"{name}_bias"))
                at = f"blocks.{number}.attn.{name[0]}"
                weights[f"{at}.weight"] = weight.transpose(0, 2, 1).reshape(heads * size, self.width)
                weights[f"{at}.bias"] = bias.ravel()
            weights[f"blocks.{number}.attn.o.weight"] = block.output.reshape(heads * size, self.width).T
        config = {"n_ctx": len(self.start), "d_model": self.width, "d_vocab_out": self.unembed.shape[1]}
        config |= {"n_layers": len(self.blocks), "n_heads": heads, "d_head": size}
        shapes = {"shape_in": self.shape_in, "point_shape": point_shape, "value_shape": value_shape}
        words = {"tokens": self.tokens, "features": self.features, "heads": self.heads}
        known = {name: [layer for layer, _ in layers] for name, layers in ends.items()}
        description = {"dtype": self.dtype, **shapes, **known, "config": config, "data_tokens": self.data_tokens}
        return {**description, **words}, weights


def _outside(layer: Layer) -> tuple[dict[str, Any], dict[str, Planned]]:
    """A layer before or behind the blocks, in the terms of the files in `standalone`."""
    if isinstance(layer, Affine) and layer.left is None:
        return {"kind": "linear"}, {"weight": planned(layer.right[0]), "bias": planned(layer.constant[0])}
    if isinstance(layer, Affine):
        weights = {"weight": mixing(layer), "bias": planned(layer.constant.ravel())}
        return {"kind": "mixing", "shape": layer.constant.shape}, weights
    assert isinstance(layer, Softmax)  # noqa: S101 - heads are in the blocks
    return {"kind": "softmax"}, {}


def outside_sizes(layers: tuple[Layer, ...]) -> list[Planned]:
    """The weights of layers outside the blocks, not yet made."""
    return [weight for layer in layers for weight in _outside(layer)[1].values()]
