"""Networks for TransformerLens 4: attention-only blocks that read from and add to one residual stream.

A native TransformerLens model has one width, one number of heads, no masks, and adds what every head puts out to every
row. A network becomes such a model *exactly*: what a data token computes is what it computes in the network, but for
terms that are exactly zero.

**Rows.** First the data tokens, then the memory tokens of each layer, last a *sink*. **Features.** The token that
enters a layer and the token that leaves it have places of their own in the stream, so that a sum with the stream is a
sum with zeros, or with the output bias, or with the token itself in a layer with a residual connection. Flags say which
row is which data token, which is none, which is the sink, and which rows a block sees.

**Masks.** Two more key features are for masks, with a number B = 2^100 far above every score. A data token gets -B from
rows that its block does not see: their weights underflow to 0. Every other row gets +B from the sink: its weights are 1
for the sink and 0 for the rest, and the values of the sink are 0, so nothing is ever written to rows that hold no data.

**Token-wise maps** between attention layers are heads that look at their own token alone: its score is B, all others 0.
Maps before the first and after the last attention layer stay outside the blocks and may mix tokens.

Stock scores are divided by √(head size), some kernels after multiplying queries and keys by (head size)^(-1/4) each.
The size is a power of 16, for which all of these are powers of two: scaling rounds nothing. The queries absorb the
root when the weights are written (`residual.py`, where the result is data). It is the smallest that holds the keys;
values that have more features are shared out among heads with the same queries and keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arithmetic.formats import FORMATS, held_in
from ...errors import InputError, MissingExtra
from ...network import Affine, Attention, Network, Softmax
from ...network.layers import Layer
from ...network.reference import apply
from .dense import Planned, check_size
from .residual import ENTRY, Block, Places, Residual, outside_sizes

Array = npt.NDArray[Any]

FAR = 2.0**100
"""Beyond every score of a network whose rounding can be bounded, and a number of every dtype."""
LEAST = 1024.0
"""e^-LEAST is zero in float64."""


def to_transformer_lens(
    network: Network,
    point_shape: tuple[int, ...],
    value_shape: tuple[int, ...],
    second_shape: tuple[int, ...] | None = None,
) -> Any:
    """The network as a `LensNetwork` around a `TransformerBridge`, in its own dtype."""
    description, weights = plan(network, point_shape, value_shape, second_shape)
    try:
        import torch
        import transformer_lens  # noqa: F401 # pyright: ignore[reportMissingImports] - is it there?

        from .standalone.lens_model import LensNetwork
    except ImportError:
        raise MissingExtra("transformer-lens", "lens") from None
    return LensNetwork(description, {name: torch.tensor(array) for name, array in weights.items()})


def plan(
    network: Network,
    point_shape: tuple[int, ...],
    value_shape: tuple[int, ...],
    second_shape: tuple[int, ...] | None = None,
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and weights of the model; refused if too large, or if tokens are mixed between attention layers."""
    if second_shape is not None:
        raise InputError(
            "a model of TransformerLens has one residual stream and one input",
            got="a network of two inputs",
            remedy="Export it to torch, onnx, jax or huggingface.",
        )
    return residual_of(network).plan(point_shape, value_shape)


def beyond(score: float) -> float:
    """A mask for scores up to this size, a power of two: two of them differ by half of it at most.

    >>> beyond(0.0), beyond(1000.0)
    (1024.0, 8192.0)
    """
    return min(FAR, float(2.0 ** np.ceil(np.log2(4 * score + LEAST))))


def residual_of(network: Network, far: float = FAR) -> Residual:
    """The network as a residual stream. `far` is the B above: more than any two scores differ by, and 745."""
    network = network.dense()
    if not far < FORMATS[network.dtype].largest:
        raise InputError(
            f"a residual stream masks rows by scores of {far:.3g}, which its dtype must hold",
            got=network.dtype,
            remedy="Compile in bfloat16, float32 or float64, or export to torch.",
        )
    before, body, after = _cut(network)
    length = network.rows
    for layer in before:
        length = layer.length_out(length)
    model = ResidualStream(length, body, _formulas(network, before, length), far)
    outside = outside_sizes((*before, *after))
    check_size("TransformerLens", [*outside, *model.sizes(network.dtype)], network.dtype)
    read = np.zeros((len(model.features), len(model.last)))  # (D, m)
    read[model.last, np.arange(len(model.last))] = 1.0
    return Residual(
        shape_in=network.shape_in,
        dtype=network.dtype,
        before=before,
        embedding=np.eye(len(model.given), len(model.features)),
        start=model.start(),
        blocks=model.written(),
        unembed=read,
        after=after,
        data_tokens=length,
        tokens=tuple(model.tokens),
        features=tuple(model.features),
        heads=tuple(map(model.roles, model.blocks)),
        far=far,
        places=tuple(model.places),
    )


def _cut(network: Network) -> tuple[tuple[Layer, ...], tuple[Layer, ...], tuple[Layer, ...]]:
    """Layers before the first attention layer, from there to the last one, and behind it."""
    places = [number for number, layer in enumerate(network.layers) if isinstance(layer, Attention)]
    first, last = (places[0], places[-1] + 1) if places else (0, 0)
    body = network.layers[first:last]
    for layer in body:
        if isinstance(layer, Softmax) or (isinstance(layer, Affine) and layer.left is not None):
            raise InputError(
                "TransformerLens has only token-wise affine maps between attention layers",
                got="a softmax over features" if isinstance(layer, Softmax) else "a map that mixes tokens",
                remedy="Use to_torch, to_onnx or to_jax.",
            )
    if not body:
        raise InputError("an export to TransformerLens needs an attention layer", got=repr(network))
    return network.layers[:first], body, network.layers[last:]


def _formulas(network: Network, before: tuple[Layer, ...], length: int) -> list[str]:
    """The features of the token that enters block 0: as functions of the point if it is one token, else by number."""
    width = before[-1].width_out if before else network.width_in
    if length > 1 or any(isinstance(layer, Softmax) for layer in before):
        return [f"feature {number} of a token that enters block 0" for number in range(width)]
    size = network.rows * network.width_in
    X = np.vstack([np.zeros(size), np.eye(size)]).reshape(-1, *network.shape_in)  # (1 + size, n, d)
    for layer in before:
        X = apply(layer, X)
    constant, slopes = X[0, 0], X[1:, 0] - X[0, 0]  # (width,), (size, width)
    sums = [[f"{a:g}*x[{i}]" for i, a in enumerate(column) if a] for column in slopes.T]
    return [
        " + ".join([*terms, *([f"{b:g}"] if b or not terms else [])]) for terms, b in zip(sums, constant, strict=True)
    ]


@dataclass
class Sketch:
    """One attention block: how many heads it needs, how wide their keys and values are, what they do, their weights."""

    heads: int
    keys: int
    values: int
    role: Callable[[int], str]
    write: Callable[[dict[str, Array]], None]


@dataclass
class ResidualStream:
    """The stream and the blocks in the making."""

    length: int
    """Data tokens n."""
    body: tuple[Layer, ...]
    given: list[str]
    """What the features of the token that enters block 0 are."""
    far: float
    features: list[str] = field(default_factory=list)
    blocks: list[Sketch] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    constants: list[tuple[slice, Places, Array]] = field(default_factory=list)
    """What the stream holds beside the data: rows, features, numbers."""
    places: list[tuple[int, Places]] = field(default_factory=list)
    """See `Residual.places`."""

    def __post_init__(self) -> None:
        self.tokens = [f"data token {row}" for row in range(self.length)]
        data = slice(0, self.length)
        token = np.arange(len(self.given))
        self.features += self.given
        self.position = self._take(self.length, "1 in data token {}")
        self.other = self._take(1, "1 in rows that hold no data")
        self.sink = self._take(1, "1 in the sink")
        self.constants.append((data, self.position, np.eye(self.length)))
        self.places.append((ENTRY, token))
        for layer in self.body:
            token = self._attention(layer, token) if isinstance(layer, Attention) else self._map(layer, token)
            self.places.append((len(self.blocks) - 1, token))
        self.last = token
        self.tokens.append("the sink, which rows without data attend to")
        self.constants.append((slice(self.length, None), self.other, np.ones(1)))
        self.constants.append((slice(len(self.tokens) - 1, None), self.sink, np.ones(1)))
        self.size = 1
        while self.size < max(block.keys for block in self.blocks):
            self.size *= 16
        self.heads = max(block.heads * self._sharing(block) for block in self.blocks)

    def _take(self, count: int, name: str) -> Places:
        """Places for features of the stream, named with their number."""
        first = len(self.features)
        self.features += [name.format(number) for number in range(count)]
        return np.arange(first, first + count)

    def _attention(self, layer: Attention, token: Places) -> Places:
        """A block for an attention layer on the features `token`; where its result is."""
        number, data = len(self.blocks), slice(0, self.length)
        seen = self._take(1, f"1 in rows that block {number} sees")
        rows = slice(len(self.tokens), len(self.tokens) + len(layer.memory))
        self.tokens += [f"memory token {row} of block {number}" for row in range(len(layer.memory))]
        source = token
        if not layer.attends_data:
            source = self._take(layer.memory.shape[1], f"feature {{}} of the memory of block {number}")
        self.constants += [(rows, source, layer.memory), (rows, seen, np.ones(1))]
        if layer.attends_data:
            self.constants.append((data, seen, np.ones(1)))
        apart = bool(not layer.residual or layer.output_bias.any())  # else the result is added to the token itself
        out = self._take(layer.width_out, f"output {{}} of block {number}") if apart else token
        if apart:
            self.constants.append((data, out, layer.output_bias))
        size, width = layer.key.shape[2], layer.value.shape[2]
        looks = "the data tokens and its memory" if layer.attends_data else "its memory"
        if layer.attends_data and not len(layer.memory):
            looks = "the data tokens"

        def write(weights: dict[str, Array]) -> None:
            for h in range(layer.heads):
                weights["q"][token, h, :size] = layer.query[h]
                weights["q_bias"][h, :size] = layer.query_bias[h]
                weights["k"][source, h, :size] = layer.key[h]
                weights["k_bias"][h, :size] = layer.key_bias[h]
                weights["v"][source, h, :width] = layer.value[h]
                weights["v"][seen, h, :width] = layer.value_bias[h]
                weights["o"][h, :width, out] = layer.output[h].T
                weights["q"][self.position, h, size] = 1.0
                weights["k"][seen, h, size], weights["k_bias"][h, size] = self.far, -self.far
                self._drain(weights, h, size + 1)

        self.blocks.append(Sketch(layer.heads, size + 2, width, lambda h: f"looks {looks} up", write))
        if layer.residual and apart:
            return self._copy([(token, np.eye(len(token))), (out, np.eye(len(out)))], np.zeros(len(out)), "adds up")
        return out

    def _map(self, layer: Layer, token: Places) -> Places:
        """A block for a token-wise affine map."""
        assert isinstance(layer, Affine)  # noqa: S101 - `_cut` has seen to it
        return self._copy([(token, layer.right[0])], layer.constant[0], "maps")

    def _copy(self, parts: list[tuple[Places, Array]], bias: Array, verb: str) -> Places:
        """A block whose one head looks at its own token alone and puts out an affine function of its features."""
        number, width = len(self.blocks), len(bias)
        out = self._take(width, f"output {{}} of block {number}")

        def write(weights: dict[str, Array]) -> None:
            for places, matrix in parts:
                weights["v"][places, 0, :width] = matrix
            weights["v"][self.position, 0, :width] = bias
            weights["o"][0, :width, out] = np.eye(width)
            for row, place in enumerate(self.position):
                weights["q"][place, 0, row], weights["k"][place, 0, row] = self.far, 1.0
            self._drain(weights, 0, self.length)

        self.blocks.append(Sketch(1, self.length + 1, width, lambda h: f"{verb} its own token", write))
        return out

    def _drain(self, weights: dict[str, Array], head: int, feature: int) -> None:
        """Make rows without data attend to the sink."""
        weights["q"][self.other, head, feature], weights["k"][self.sink, head, feature] = self.far, 1.0

    def sizes(self, dtype: str) -> list[Planned]:
        """Everything the model will hold, its unused embeddings and masks (a byte an entry) included."""
        rows, width, inner = len(self.tokens), len(self.features), self.heads * self.size
        masks = -(-len(self.blocks) * rows * rows // np.dtype(held_in(dtype)).itemsize)
        each = 4 * width * inner + 3 * inner + width
        shapes: list[tuple[int, ...]] = [(len(self.blocks), each), (2 * rows + 1 + len(self.last), width), (masks,)]
        return [Planned(shape, lambda shape=shape: np.zeros(shape)) for shape in shapes]

    def start(self) -> Array:
        """What the stream holds beside the data, (T, D)."""
        start = np.zeros((len(self.tokens), len(self.features)))
        for some, places, numbers in self.constants:
            start[some, places] = numbers
        return start

    def written(self) -> tuple[Block, ...]:
        """The weights of all blocks."""
        return tuple(self._written(block) for block in self.blocks)

    def _written(self, block: Sketch) -> Block:
        width, shares = len(self.features), self._sharing(block)
        wide = {"q": self.size, "k": self.size, "v": shares * self.size}
        own = {name: np.zeros((width, block.heads, size)) for name, size in wide.items()}  # (D, h, k) or (D, h, s k)
        own |= {f"{name}_bias": np.zeros((block.heads, size)) for name, size in wide.items()}
        own["o"] = np.zeros((block.heads, shares * self.size, width))  # (h, s k, D)
        block.write(own)
        q, k = (np.repeat(own[name].transpose(1, 0, 2), shares, axis=0) for name in "qk")  # (h s, D, k)
        q_bias, k_bias = (np.repeat(own[f"{name}_bias"], shares, axis=0) for name in "qk")  # (h s, k)
        v = own["v"].reshape(width, -1, self.size).transpose(1, 0, 2)  # (h s, D, k)
        v_bias, o = own["v_bias"].reshape(-1, self.size), own["o"].reshape(-1, self.size, width)
        idle = self.heads - len(q)
        return Block(
            *(np.pad(each, [(0, idle)] + [(0, 0)] * (each.ndim - 1)) for each in (q, q_bias, k, k_bias, v, v_bias, o))
        )

    def _sharing(self, block: Sketch) -> int:
        """Heads that share the values of one head of the block."""
        return -(-block.values // self.size)

    def roles(self, block: Sketch) -> tuple[str, ...]:
        """What the heads of a block do."""
        shares = self._sharing(block)
        busy = [block.role(number // shares) for number in range(block.heads * shares)]
        return (*busy, *["idle"] * (self.heads - len(busy)))
