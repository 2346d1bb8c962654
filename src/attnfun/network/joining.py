"""Networks joined into larger ones, every number of a part unchanged.

`in_series` puts one network behind another. `side_by_side` runs networks one after the other on the same input: while
one runs, the input and the results so far are *carried*, as further features of the first token.

**Carried features are exact.** An affine map multiplies them by one and adds zeros; attention does not read them (zero
weights) and adds zero to them. The features that a layer works on meet nothing but products with zero: in any summation
order, in any arithmetic, a part computes what it computes alone, so its certificate holds where it stands. The size of
the heads, by whose root stock attention divides scores, stays as exact as it was (`stock.stock_size`).

An attention layer without residual connection gets one and writes into fresh features that are zero:

    [own | carried]  ->  [own | carried | 0]  ->  [own | carried | result]  ->  [result | carried].

The maps that make and pick features are joined with affine layers beside them (`fused`), where that is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from math import prod

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .layers import Affine, Attention, Floats, Layer, Softmax
from .network import Network

Integers = npt.NDArray[np.int64]
NOWHERE = -1
"""The source of a feature that is zero."""


@dataclass(frozen=True, eq=False)
class Move:
    """Features put elsewhere: feature (i, j) of the result is feature `source[i, j]` of vec(X), or zero."""

    shape: tuple[int, int]
    """Of the sequence X, (n, d)."""
    source: Integers  # (N, m)

    @classmethod
    def onto(cls, shape: tuple[int, int], length: int, source: Iterable[int]) -> Move:
        """The sources of all features, row by row."""
        return cls(shape, np.array(list(source), dtype=np.int64).reshape(length, -1))

    def then(self, after: Move) -> Move:
        """Both as one."""
        places = np.append(self.source.ravel(), NOWHERE)  # the last one is for features that are zero
        return Move(self.shape, places[after.source])

    def affine(self) -> Affine:
        """As a layer: one product with 1 a feature. O(pairs of tokens between which anything moves) terms."""
        (length, width), (rows, features) = self.shape, self.source.shape
        row, column = np.nonzero(self.source != NOWHERE)
        token, feature = np.divmod(self.source[row, column], width)
        pairs, term = np.unique(np.stack([row, token], axis=1), axis=0, return_inverse=True)  # (K, 2)
        left, right = np.zeros((len(pairs), rows, length)), np.zeros((len(pairs), width, features))
        left[np.arange(len(pairs)), pairs[:, 0], pairs[:, 1]] = 1.0
        right[term.reshape(-1), feature, column] = 1.0
        alone = length == rows == 1
        return Affine(right, np.zeros((rows, features)), None if alone else left)


def in_series(outer: Network, inner: Network) -> Network:
    """`outer` of `inner`; the values of the inner network, row by row, are the input of the outer one."""
    between: list[Layer] = []
    if inner.shape_out != outer.shape_in:
        between = [Move.onto(inner.shape_out, outer.rows, range(prod(inner.shape_out))).affine()]
    layers = [*inner.layers, *between, *outer.layers]
    return Network(tuple(fused(layers)), inner.length, inner.dtype)


def side_by_side(parts: Sequence[Network]) -> Network:
    """All values of all networks on one input, one token in all."""
    (length, width), size = parts[0].shape_in, prod(parts[0].shape_in)
    layers: list[Layer] = []
    hub = Move.onto((length, width), 1, range(size))  # makes [x | results so far] of what the last part left
    for number, part in enumerate(parts):
        carried = list(range(size * (number == len(parts) - 1), hub.source.size))  # nobody needs x after the last part
        layers.append(hub.then(_distribution(hub.source.size, length, width, carried)).affine())
        layers += carrying(part.layers, len(carried))
        rows, features = part.shape_out
        own = [row * (features + len(carried)) + k for row in range(rows) for k in range(features)]
        hub = Move.onto((rows, features + len(carried)), 1, [*range(features, features + len(carried)), *own])
    return Network(tuple(fused([*layers, hub.affine()])), parts[0].length, parts[0].dtype)


def _distribution(size: int, length: int, width: int, carried: list[int]) -> Move:
    """One token [x | ...] as the tokens of x, the first of which carries the features named."""
    own, nothing = np.arange(length * width).reshape(length, width), [NOWHERE] * len(carried)
    rows = [[*row, *(nothing if number else carried)] for number, row in enumerate(own.tolist())]
    return Move.onto((1, size), length, [place for row in rows for place in row])


def carrying(layers: Iterable[Layer], count: int) -> list[Layer]:
    """Layers that work on the features before the last `count`, which the first token keeps."""
    return [new for layer in layers for new in _carrying(layer, count)] if count else list(layers)


@singledispatch
def _carrying(layer: object, count: int) -> list[Layer]:
    raise TypeError(f"{type(layer).__name__} cannot carry features")


@_carrying.register
def _(layer: Softmax, count: int) -> list[Layer]:
    raise InputError(
        "networks to be put side by side must consist of affine maps and attention, or softmax between the two",
        got=f"a softmax over {layer.width} features",
        remedy="Compile with another construction.",
    )


@_carrying.register
def _(layer: Affine, count: int) -> list[Layer]:
    constant = _wider(layer.constant, 0, count)
    if layer.left is None:
        right = _wider(layer.right, count, count)  # (1, d + c, m + c)
        right[:, layer.width_in :, layer.width_out :] = np.eye(count)
        return [Affine(right, constant)]
    right = _wider(np.concatenate([layer.right, np.zeros_like(layer.right[:1])]), count, count)  # (K + 1, d + c, m + c)
    right[-1, layer.width_in :, layer.width_out :] = np.eye(count)
    left = np.concatenate([layer.left, np.zeros((1, *layer.left.shape[1:]))])  # (K + 1, N, n)
    left[-1, 0, 0] = 1.0
    return [Affine(right, constant, left)]


@_carrying.register
def _(layer: Attention, count: int) -> list[Layer]:
    width, out = layer.width_in, layer.width_out
    fresh = 0 if layer.residual else out
    more, seen = count + fresh, (count + fresh) * layer.attends_data
    wide = replace(
        layer,
        query=_wider(layer.query, more, 0),
        key=_wider(layer.key, seen, 0),
        value=_wider(layer.value, seen, 0),
        memory=_wider(layer.memory, 0, seen),
        output=_wider(layer.output, 0, more) if layer.residual else _behind(layer.output, width + count),
        output_bias=np.pad(layer.output_bias, (0, more) if layer.residual else (width + count, 0)),
        residual=True,
        keyed=(),
    )
    if layer.residual:
        return [wide]
    before = np.eye(width + count, width + more)  # (own | carried) -> (own | carried | 0)
    after = np.zeros((width + more, out + count))  # (own | carried | result) -> (result | carried)
    after[width + count :, :out], after[width : width + count, out:] = np.eye(out), np.eye(count)
    return [_tokenwise(before), wide, _tokenwise(after)]


def fused(layers: Iterable[Layer]) -> list[Layer]:
    """The layers, with maps that merely pick features joined with affine maps beside them; the same operations."""
    done: list[Layer] = []
    for layer in layers:
        last = done[-1] if done else None
        joint = _joint(last, layer) if isinstance(last, Affine) and isinstance(layer, Affine) else None
        done = [*done[:-1], joint] if joint else [*done, layer]
    return done


def _joint(first: Affine, second: Affine) -> Affine | None:
    """Two affine maps as one, where no product and no sum is rounded by that; else None."""
    if _picks(second) and _single(first.right, second.right[0]):
        right, constant = first.right @ second.right[0], first.constant @ second.right[0]
        return Affine(right, constant, first.left)
    if _picks(first) and _single(first.right[0], second.right):
        return Affine(first.right[0] @ second.right, second.constant, second.left)
    return None


def _picks(layer: Affine) -> bool:
    """Does it put in each feature one that was there, or zero?"""
    weight = layer.right[0]
    plain = layer.left is None and not layer.constant.any()
    return plain and bool(np.isin(weight, (0.0, 1.0)).all() and (weight.sum(axis=0) <= 1).all())


def _single(first: Floats, second: Floats) -> bool:
    """Is every entry of the product of two matrices a single product?"""
    return bool(((first != 0).astype(np.float64) @ (second != 0).astype(np.float64) <= 1).all())


def _tokenwise(weight: Floats) -> Affine:
    return Affine.tokenwise(weight, np.zeros(weight.shape[1]))


def _wider(array: Floats, rows: int, columns: int) -> Floats:
    """Zeros behind the last two axes."""
    return np.pad(array, [*[(0, 0)] * (array.ndim - 2), (0, rows), (0, columns)])


def _behind(array: Floats, columns: int) -> Floats:
    """Zeros before the last axis."""
    return np.pad(array, [*[(0, 0)] * (array.ndim - 1), (columns, 0)])
