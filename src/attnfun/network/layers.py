"""WEIGHTS: the kinds of layer, as plain frozen arrays.

A sequence is X of shape (..., n, d), one row a token. Layers are data: what they compute is said here in
formulas and in `reference.py` in code; back ends translate them, certificates enclose them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import InputError

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MOST_DENSE = 2**20
"""Memory tokens of factored attention that are written out as keys, where keys are wanted."""


def _freeze(layer: object) -> None:
    """Make the arrays of a new layer float64, read-only and finite."""
    for field in fields(layer):  # type: ignore[arg-type]
        value = getattr(layer, field.name)
        if isinstance(value, np.ndarray):
            array = np.array(value, dtype=np.float64)
            if not np.isfinite(array).all():
                raise InputError(
                    f"the weights {type(layer).__name__}.{field.name} must be finite",
                    got="an overflow",
                    remedy="Rescale the target or its domain, or use float64.",
                )
            array.setflags(write=False)
            object.__setattr__(layer, field.name, array)


def _check(holds: bool, constraint: str, got: object) -> None:
    if not holds:
        raise InputError(constraint, got=got)


@dataclass(frozen=True, eq=False)
class Affine:
    """A sum of linear transformations, `Z = Σ_k A_k X B_k + C`.

    `left` holds the A_k (K, N, n), `right` the B_k (K, d, m), `constant` C (N, m). Without `left` the map
    acts on each token alone, `Z = X B + C`, for sequences of any length; then K = 1 and N = 1.
    """

    kind: ClassVar[str] = "affine"
    right: Floats
    constant: Floats
    left: Floats | None = None

    def __post_init__(self) -> None:
        _freeze(self)
        shapes = self.right.shape, self.constant.shape, None if self.left is None else self.left.shape
        _check(self.right.ndim == 3 and self.constant.ndim == 2, "an affine map is (K, d, m) and (N, m)", shapes)
        _check(self.constant.shape[1] == self.right.shape[2], "B_k and C must have the same width", shapes)
        if self.left is None:
            _check(
                self.right.shape[0] == 1 and self.constant.shape[0] == 1,
                "a token-wise map has K = N = 1",
                shapes,
            )
        else:
            fits = self.left.ndim == 3 and self.left.shape[:2] == (
                self.right.shape[0],
                self.constant.shape[0],
            )
            _check(fits, "A_k must be (K, N, n)", shapes)

    @classmethod
    def tokenwise(cls, weight: Floats, bias: Floats) -> Affine:
        """Each token alone: `z = x weight + bias`."""
        return cls(weight[None], bias[None])

    @classmethod
    def flatten(cls, length: int, weight: Floats, bias: Floats) -> Affine:
        """All n tokens into one: `z = vec(X) weight + bias`, weight of shape (n*d, m)."""
        left = np.eye(length)[:, None, :]  # (K=n, 1, n)
        return cls(weight.reshape(length, -1, weight.shape[1]), bias[None], left)

    @classmethod
    def unflatten(cls, length: int, width: int) -> Affine:
        """One token of n*d features into n tokens of d features."""
        left = np.eye(length)[:, :, None]  # (K=n, n, 1)
        right = np.eye(length * width).reshape(-1, length, width).transpose(1, 0, 2)  # (n, n*d, d)
        return cls(right, np.zeros((length, width)), left)

    @property
    def width_in(self) -> int:
        """Features of a token that goes in."""
        return self.right.shape[1]

    @property
    def width_out(self) -> int:
        """Features of a token that comes out."""
        return self.right.shape[2]

    def length_out(self, length_in: int) -> int:
        """Tokens that come out."""
        return length_in if self.left is None else self.left.shape[1]

    @property
    def parameters(self) -> int:
        """Stored numbers."""
        return self.right.size + self.constant.size + (0 if self.left is None else self.left.size)


class _Heads:
    """What layers of heads have in common: as many tokens come out as go in."""

    query: Floats  # (H, d, k)
    output: Floats  # (H, v, o)

    @property
    def width_in(self) -> int:
        """Features of a token that goes in."""
        return self.query.shape[1]

    @property
    def width_out(self) -> int:
        """Features of a token that comes out."""
        return self.output.shape[2]

    def length_out(self, length_in: int) -> int:
        """Tokens that come out."""
        return length_in

    @property
    def parameters(self) -> int:
        """Stored numbers."""
        return sum(value.size for value in vars(self).values() if isinstance(value, np.ndarray))


@dataclass(frozen=True, eq=False)
class Attention(_Heads):
    """Multi-head softmax attention with memory tokens.

    For head h, query token z and key token m (all rows; the scale 1/√k of stock attention is absorbed):

        q = z W_Q + b_Q,   k = m W_K + b_K,   v = m W_V + b_V
        y_h(z) = Σ_m softmax_m(q·k) v,        out(z) = Σ_h y_h(z) W_O + b_O  (+ z with `residual`)

    Keys are the memory tokens alone (cross-attention), or the data tokens and then the memory tokens
    (`attends_data`, self-attention). Memory tokens have no queries: their own outputs would be thrown away.

    **Two inputs.** Where the second of two inputs makes the keys, `keyed` names the features f of q that are made of it
    alone. The key of memory token j then holds the sum `Σ_f q_f k_jf` over these features as one number, which the
    query meets with a one: in real arithmetic the scores are the same. `two_inputs.py` writes such a network out.
    """

    kind: ClassVar[str] = "attention"
    query: Floats  # (H, d, k)
    query_bias: Floats  # (H, k)
    key: Floats  # (H, e, k)
    key_bias: Floats  # (H, k)
    value: Floats  # (H, e, v)
    value_bias: Floats  # (H, v)
    output: Floats  # (H, v, o)
    output_bias: Floats  # (o,)
    memory: Floats  # (M, e)
    attends_data: bool = False
    residual: bool = False
    keyed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _freeze(self)
        object.__setattr__(self, "keyed", tuple(int(feature) for feature in self.keyed))
        shapes = {field.name: getattr(self, field.name).shape for field in fields(self)[:9]}
        heads, width, size = self.query.shape
        features, values = self.value.shape[1:]
        wanted = {
            "query": (heads, width, size),
            "query_bias": (heads, size),
            "key": (heads, features, size),
            "key_bias": (heads, size),
            "value": (heads, features, values),
            "value_bias": (heads, values),
            "output": (heads, values, self.output.shape[-1]),
            "output_bias": (self.output.shape[-1],),
            "memory": (len(self.memory), features),
        }
        _check(shapes == wanted, f"attention weights must fit together as {wanted}", shapes)
        if self.attends_data:
            _check(features == width, "data and memory tokens must have one width", (width, features))
        else:
            _check(len(self.memory) > 0, "cross-attention needs memory tokens", 0)
        if self.keyed:
            known = list(self.keyed) == sorted(set(self.keyed)) and self.keyed[0] >= 0 and self.keyed[-1] < size
            _check(known, f"features that keys hold must be some of {size}, in order", self.keyed)
            _check(heads == 1 and not self.attends_data, "keys of a second input have one head to themselves", heads)
        if self.residual:
            _check(self.width_out == width, "a residual connection needs equal widths", (width, self.width_out))

    @classmethod
    def of(
        cls,
        query: Floats,
        key: Floats,
        value: Floats,
        output: Floats,
        memory: Floats | None = None,
        *,
        query_bias: Floats | None = None,
        key_bias: Floats | None = None,
        value_bias: Floats | None = None,
        output_bias: Floats | None = None,
        attends_data: bool = False,
        residual: bool = False,
        keyed: tuple[int, ...] = (),
    ) -> Attention:
        """A layer in which biases that are not named are zero, and the memory is empty if there is none."""
        (heads, _, size), (_, features, values) = query.shape, value.shape
        return cls(
            query,
            np.zeros((heads, size)) if query_bias is None else query_bias,
            key,
            np.zeros((heads, size)) if key_bias is None else key_bias,
            value,
            np.zeros((heads, values)) if value_bias is None else value_bias,
            output,
            np.zeros(output.shape[-1]) if output_bias is None else output_bias,
            np.zeros((0, features)) if memory is None else memory,
            attends_data,
            residual,
            keyed,
        )

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.query.shape[0]

    @property
    def tokens(self) -> int:
        """Memory keys, summed over heads."""
        return self.heads * len(self.memory)

    def keys(self) -> Floats:
        """Keys of the memory tokens, (H, M, k)."""
        return self.memory @ self.key + self.key_bias[:, None]

    def values(self) -> Floats:
        """Values of the memory tokens, (H, M, v)."""
        return self.memory @ self.value + self.value_bias[:, None]


@dataclass(frozen=True, eq=False)
class FactoredAttention(_Heads):
    """One head whose memory tokens are all combinations of tokens along r axes: keys that never exist.

    Token (j_1, ..., j_r) has the score `Σ_k (a_k[j_k] q_k + b_k[j_k])` for the query `q = z W_Q + b_Q`, and the value
    `v[j_1, ..., j_r]`; axes one after the other make `slopes` and `offsets`, and in `values` the last one is the
    fastest. N tokens take N values and the sum of the axes, not N keys. `dense` is the same as `Attention`.
    """

    kind: ClassVar[str] = "factored-attention"
    attends_data: ClassVar[bool] = False
    residual: ClassVar[bool] = False
    heads: ClassVar[int] = 1
    query: Floats  # (1, d, r)
    query_bias: Floats  # (1, r)
    slopes: Floats  # (ΣN,)
    offsets: Floats  # (ΣN,)
    values: Floats  # (ΠN, v)
    output: Floats  # (1, v, o)
    output_bias: Floats  # (o,)
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        _freeze(self)
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        shapes = [getattr(self, field.name).shape for field in fields(self)[:7]]
        rank, total, tokens = len(self.sizes), sum(self.sizes), prod(self.sizes)
        width, values, outputs = self.query.shape[1], self.values.shape[1], self.output.shape[2]
        wanted = [
            (1, width, rank), (1, rank), (total,), (total,), (tokens, values), (1, values, outputs), (outputs,),
        ]  # fmt: skip
        _check(shapes == wanted, f"factored attention on axes of {self.sizes} tokens must be {wanted}", shapes)
        _check(rank > 0 and min(self.sizes) > 0, "axes must have tokens", self.sizes)

    @property
    def tokens(self) -> int:
        """Memory tokens."""
        return prod(self.sizes)

    def axes(self, numbers: Floats) -> list[Floats]:
        """Slopes or offsets, axis by axis."""
        return np.split(numbers, np.cumsum(self.sizes)[:-1])

    def dense(self) -> Attention:
        """The same head with all its keys: slopes and offsets of every axis, which a query meets with q and with ones.

        Keys and values are the numbers of this layer as they are, so both are one function in real arithmetic.
        """
        if self.tokens > MOST_DENSE:
            raise InputError(
                f"factored attention must have at most {MOST_DENSE:,} memory tokens to become ordinary attention",
                got=f"{self.tokens:,}",
                remedy="Save it and evaluate it as it is; exports need fewer tokens.",
            )
        rank, values = len(self.sizes), self.values.shape[1]
        grids = [np.meshgrid(*self.axes(part), indexing="ij") for part in (self.slopes, self.offsets)]
        memory = np.column_stack([part.ravel() for grid in grids for part in grid] + [self.values])  # (M, 2r + v)
        every = np.eye(2 * rank + values)[None]
        query = np.concatenate([self.query, np.zeros_like(self.query)], axis=2)  # (1, d, 2r)
        ones = np.concatenate([self.query_bias, np.ones((1, rank))], axis=1)
        key, value = every[:, :, : 2 * rank], every[:, :, 2 * rank :]
        return Attention.of(query, key, value, self.output, memory, query_bias=ones, output_bias=self.output_bias)


@dataclass(frozen=True, eq=False)
class Softmax:
    """Softmax over the features of each token."""

    kind: ClassVar[str] = "softmax"
    width: int

    @property
    def width_in(self) -> int:
        """Features of a token that goes in."""
        return self.width

    @property
    def width_out(self) -> int:
        """Features of a token that comes out."""
        return self.width

    def length_out(self, length_in: int) -> int:
        """Tokens that come out."""
        return length_in

    @property
    def parameters(self) -> int:
        """It has none."""
        return 0


def selects(weight: Floats, bias: Floats) -> Flags:
    """Columns of a matrix (d, m) that merely pick one feature, up to sign: exact in any arithmetic."""
    return ((weight != 0).sum(axis=0) <= 1) & np.isin(weight, (0.0, 1.0, -1.0)).all(axis=0) & (bias == 0)


Layer = Affine | Attention | FactoredAttention | Softmax


def tokens_read(after: Layer | None, length: int) -> Flags:
    """Which of `length` tokens a layer reads; all if it is none, or treats every token alike."""
    if isinstance(after, Affine) and after.left is not None and after.left.shape[2] == length:
        return (after.left != 0).any(axis=(0, 1))
    return np.ones(length, dtype=bool)


LAYERS: dict[str, type[Layer]] = {layer.kind: layer for layer in (Affine, Attention, FactoredAttention, Softmax)}
