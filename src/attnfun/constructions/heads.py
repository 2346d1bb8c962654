"""Heads that read coordinates of the input, put together as a network: one attention layer, or two with corners.

**Corners** [T 4.4]. A head on the piece [a, b] of a line reads `clip(u, a, b)`, which is u plus or minus
`ReLU(u - t)` for the corners t at its ends. Layer 1 makes these: the input becomes two rows, (coordinates, 0, 0, 0)
and (0, 0, 1, u - t), and the head of corner t has the query `R (u - t)`; the keys are the third entries, 0 and 1, and
the values the fourth, 0 and u - t. It returns `z σ(R z)`, z = u - t, which is ReLU(z) to within 0.27847/R everywhere,
and the residual connection puts it beside the coordinates. Layer 2 holds the heads, and a linear map keeps the first
row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..network import Affine, Attention, Layer

Floats = npt.NDArray[np.float64]

DEAD = 1000.0
"""Minus the score of a token that only fills up a bank; the largest live score is never negative (`Tokens.about`)."""


@dataclass(frozen=True)
class Corner:
    """A place where a coordinate is bent, and how sharply."""

    coordinate: Floats  # (D,), u = coordinate·x
    place: float
    sharpness: float


@dataclass(frozen=True, eq=False)
class Head:
    """One head: coordinates, tokens and values."""

    project: Floats  # (r, D)
    origin: Floats  # (r,)
    slopes: Floats  # (N, r)
    offsets: Floats  # (N,)
    values: Floats  # (N, m)
    start: Corner | None = None
    """Where the piece begins that the head follows; r = 1 then."""
    end: Corner | None = None

    @property
    def rank(self) -> int:
        """Number of coordinates."""
        return len(self.project)


def assembled(heads: list[Head], constant: Floats, length: int, output_shape: tuple[int, ...]) -> tuple[Layer, ...]:
    """The layers of a network that sums the heads and a constant (m,), for inputs of `length` tokens."""
    corners = list({id(corner): corner for head in heads for corner in (head.start, head.end) if corner}.values())
    read_out = [Affine.unflatten(*output_shape)] if len(output_shape) == 2 else []
    if not corners:
        return (_read_in(heads, length), _bank(heads, constant, *_selections(heads)), *read_out)
    outputs = heads[0].values.shape[1]
    keep_first = Affine(np.eye(outputs)[None], np.zeros((1, outputs)), np.array([[[1.0, 0.0]]]))
    rows, layer = _bent(heads, corners, length)
    return (rows, layer, _bank(heads, constant, *_readings(heads, corners)), keep_first, *read_out)


def _read_in(heads: list[Head], length: int) -> Affine:
    """All coordinates, centred, and a one: vec(X) -> (Σr + 1)."""
    size = heads[0].project.shape[1]
    weight = np.hstack([*(head.project.T for head in heads), np.zeros((size, 1))])  # (D, Σr+1)
    bias = np.concatenate([*(-head.origin for head in heads), [1.0]])
    return Affine.tokenwise(weight, bias) if length == 1 else Affine.flatten(length, weight, bias)


def _selections(heads: list[Head]) -> tuple[Floats, Floats]:
    """Queries that pick a head's own coordinates and the one."""
    score_width, width = _score_width(heads), sum(head.rank for head in heads) + 1
    query, start = np.zeros((len(heads), width, score_width)), 0
    for number, head in enumerate(heads):
        query[number, start + np.arange(head.rank), np.arange(head.rank)] = query[number, -1, -1] = 1.0
        start += head.rank
    return query, np.zeros((len(heads), score_width))


def _bent(heads: list[Head], corners: list[Corner], length: int) -> tuple[Affine, Attention]:
    """Two rows (coordinates Σr, ReLUs K, flag, bent coordinates K), and the layer that fills in the ReLUs."""
    size, count = heads[0].project.shape[1], len(corners)
    coordinates = np.vstack([head.project for head in heads])  # (Σr, D)
    rank = len(coordinates)
    width = rank + 2 * count + 1
    first, second = np.zeros((size, width)), np.zeros((size, width))
    first[:, :rank] = coordinates.T
    second[:, rank + count + 1 :] = np.stack([corner.coordinate for corner in corners], axis=1)
    constant = np.zeros((2, width))
    constant[1, rank + count] = 1.0
    constant[1, rank + count + 1 :] = [-corner.place for corner in corners]
    if length == 1:
        left, right = np.eye(2)[:, :, None], np.stack([first, second])  # (2, 2, 1), (2, D, F)
    else:
        left = np.einsum("ab,cd->acbd", np.eye(2), np.eye(length)).reshape(2 * length, 2, length)
        right = np.concatenate([part.reshape(length, -1, width) for part in (first, second)])  # (2n, d, F)
    query, key, value, output = (
        np.zeros(shape) for shape in ((count, width, 1), (count, width, 1), (count, width, 1), (count, 1, width))
    )
    for number, corner in enumerate(corners):
        column = next(k for k, row in enumerate(coordinates) if np.array_equal(row, corner.coordinate))
        query[number, column, 0] = corner.sharpness
        value[number, rank + count + 1 + number, 0] = output[number, 0, rank + number] = 1.0
    key[:, rank + count, 0] = 1.0
    layer = Attention.of(
        query=query,
        query_bias=np.array([[-corner.sharpness * corner.place] for corner in corners]),
        key=key,
        value=value,
        output=output,
        attends_data=True,
        residual=True,
    )
    return Affine(right, constant, left), layer


def _readings(heads: list[Head], corners: list[Corner]) -> tuple[Floats, Floats]:
    """Queries that read clipped coordinates: u - ReLU(u - end), or ReLU(u - start) - ReLU(u - end) + start."""
    score_width, rank = _score_width(heads), sum(head.rank for head in heads)
    slot = {id(corner): rank + k for k, corner in enumerate(corners)}
    query = np.zeros((len(heads), rank + 2 * len(corners) + 1, score_width))
    bias = np.zeros((len(heads), score_width))
    bias[:, -1] = 1.0
    column = 0
    for number, head in enumerate(heads):
        bias[number, : head.rank] = -head.origin
        if head.start is None:
            query[number, column + np.arange(head.rank), np.arange(head.rank)] = 1.0
        else:
            query[number, slot[id(head.start)], 0] = 1.0
            bias[number, 0] += head.start.place
        if head.end is not None:
            query[number, slot[id(head.end)], 0] = -1.0
        column += head.rank
    return query, bias


def _score_width(heads: list[Head]) -> int:
    """Features of a query: coordinates and a one."""
    return max(head.rank for head in heads) + 1


def _bank(heads: list[Head], constant: Floats, query: Floats, query_bias: Floats) -> Attention:
    """One cross-attention layer: a memory token has key and value for every head; smaller banks get dead tokens."""
    tokens, outputs, score_width = (
        max(len(head.offsets) for head in heads),
        heads[0].values.shape[1],
        _score_width(heads),
    )
    blocks = []
    for head in heads:
        count = len(head.offsets)
        block = np.zeros((tokens, score_width + outputs))
        block[:count, : head.rank], block[:count, score_width - 1], block[:count, score_width:] = (
            head.slopes,
            head.offsets,
            head.values,
        )
        block[count:, score_width - 1] = -DEAD
        blocks.append(block)
    select = (
        np.eye(len(heads) * (score_width + outputs)).reshape(-1, len(heads), score_width + outputs).transpose(1, 0, 2)
    )
    return Attention.of(
        query=query,
        query_bias=query_bias,
        key=select[:, :, :score_width],
        value=select[:, :, score_width:],
        output=np.tile(np.eye(outputs), (len(heads), 1, 1)),
        output_bias=constant,
        memory=np.hstack(blocks),
    )
