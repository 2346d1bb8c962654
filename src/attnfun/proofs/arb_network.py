"""A network with one attention layer, rewritten in balls as a sum of softmax averages of its input.

Affine functions of the input x are rows of coefficients on `ξ = (1, x_1, ..., x_D)`. Everything before the attention
layer is composed into one such map, everything behind it into the values, once for the whole proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..domain import Box
from ..errors import InputError
from ..network import Affine, Attention, Network
from .arb_jets import arb, arb_mat, hull, total

Floats = npt.NDArray[np.float64]
Row = list[arb]


@dataclass(frozen=True, eq=False)
class Slot:
    """One head seen from one query token: scores and values of its T memory keys, then of its n data keys."""

    scores: list[Row]
    """Coefficients on ξ of each memory token's score, (T, 1+D)."""
    values: list[Row]
    """What each memory token adds to the m outputs, (T, m)."""
    data_scores: list[list[Row]]
    """Quadratic forms in ξ, one for each data token, (n, 1+D, 1+D)."""
    data_values: list[list[Row]]
    """What each data token adds to the outputs, on ξ, (n, m, 1+D)."""
    spread: Row
    """Largest minus smallest value over all tokens and the whole domain, (m,)."""

    features: int
    """1 + D."""

    @property
    def keys(self) -> int:
        """Memory and data tokens."""
        return len(self.scores) + len(self.data_scores)

    @cached_property
    def rough_scores(self) -> Floats:
        """Scores of all tokens as quadratic forms in floats, for choosing references, (T + n, 1+D, 1+D)."""
        memory, data = len(self.scores), [[[float(a) for a in row] for row in form] for form in self.data_scores]
        forms = np.zeros((self.keys, self.features, self.features))
        if memory:
            forms[:memory, 0] = [[float(a) for a in row] for row in self.scores]
        if data:
            forms[memory:] = data
        return forms


@dataclass(frozen=True, eq=False)
class Wiring:
    """`network(x) = Σ_slots average + rest ξ`."""

    slots: list[Slot]
    rest: list[Row]  # (m, 1+D)


def wire(network: Network, domain: Box) -> Wiring:
    """Compose the layers around the attention layer into its scores and values."""
    before, attention, after = _parts(network)
    length, size = network.rows, domain.size
    tokens = arb_mat(size, 1 + size, [arb(int(j == i + 1)) for i in range(size) for j in range(1 + size)])  # (n*d, 1+D)
    for layer in before:
        tokens = _matrix(layer, length) * tokens + _constant(layer, length, size)
        length = layer.length_out(length)
    out = length * attention.width_out
    behind = arb_mat(out, out, [arb(int(i == j)) for i in range(out) for j in range(out)])  # (m, n*o)
    rest = _offsets(np.tile(attention.output_bias, length), size)  # (n*o, 1+D)
    if attention.residual:
        rest = rest + tokens
    span = length
    for layer in after:
        matrix = _matrix(layer, span)
        behind, rest = matrix * behind, matrix * rest + _constant(layer, span, size)
        span = layer.length_out(span)
    whole = [arb(1)] + [hull(arb(float(a)), arb(float(b))) for a, b in zip(domain.lo.flat, domain.hi.flat, strict=True)]
    blocks = [_rows(tokens, i * attention.width_in, attention.width_in) for i in range(length)]  # n of (d, 1+D)
    slots = []
    for query, head in np.ndindex(length, attention.heads):
        columns = _rows(behind.transpose(), query * attention.width_out, attention.width_out).transpose()  # (m, o)
        slots.append(_slot(attention, head, blocks, query, columns, whole))
    return Wiring(slots, rest.tolist())


def _parts(network: Network) -> tuple[list[Affine], Attention, list[Affine]]:
    """The attention layer and the affine maps around it."""
    places = [k for k, layer in enumerate(network.layers) if isinstance(layer, Attention)]
    affine = [layer for layer in network.layers if isinstance(layer, Affine)]
    if len(places) != 1 or len(affine) + 1 != len(network.layers):
        kinds = ", ".join(layer.kind for layer in network.layers)
        raise InputError(
            "the ball engine knows networks with one attention layer between affine layers only",
            got=kinds,
            remedy='Recheck with engine="interval".',
        )
    attention = network.attention[0]
    return affine[: places[0]], attention, affine[places[0] :]


def _slot(
    layer: Attention, head: int, blocks: list[arb_mat], query: int, columns: arb_mat, whole: Sequence[arb]
) -> Slot:
    """Scores and values of one head for one query token; `columns` (m, o) leads from its output to the network's."""
    q = _project(layer.query[head], layer.query_bias[head], blocks[query])  # (k, 1+D)
    carry = columns * _balls(layer.output[head].T)  # (m, v)
    memory = arb_mat(len(layer.memory), 1, [arb(1)] * len(layer.memory))
    keys = _balls(layer.memory) * _balls(layer.key[head]) + memory * _balls(layer.key_bias[head][None])  # (T, k)
    values = _balls(layer.memory) * _balls(layer.value[head]) + memory * _balls(layer.value_bias[head][None])  # (T, v)
    values = (values * carry.transpose()).tolist()  # (T, m)
    data_scores, data_values = [], []
    for block in blocks if layer.attends_data else []:
        data_scores.append((q.transpose() * _project(layer.key[head], layer.key_bias[head], block)).tolist())
        data_values.append((carry * _project(layer.value[head], layer.value_bias[head], block)).tolist())
    ranges = [*values, *([affine(row, whole) for row in table] for table in data_values)]
    spread = [_spread([row[k] for row in ranges]) for k in range(columns.nrows())]
    return Slot((keys * q).tolist() if keys.nrows() else [], values, data_scores, data_values, spread, len(whole))


def affine(row: Sequence[arb], xi: Sequence[arb]) -> arb:
    """An affine function of x, `row · ξ`."""
    return total([a * b for a, b in zip(row, xi, strict=True)])


def _spread(values: Sequence[arb]) -> arb:
    high, low = values[0].upper(), values[0].lower()
    for value in values:
        high, low = high.max(value.upper()), low.min(value.lower())
    return (high - low).upper()


def _project(weight: Floats, bias: Floats, token: arb_mat) -> arb_mat:
    """`token weight + bias` for a token that is affine in x, (d, 1+D) -> (k, 1+D)."""
    return _balls(weight.T) * token + _offsets(bias, token.ncols() - 1)


def _matrix(layer: Affine, length: int) -> arb_mat:
    """The matrix of an affine layer on flattened sequences, (N*m, n*d)."""
    left = np.eye(length)[None] if layer.left is None else layer.left  # (K, N, n)
    rows, columns = left.shape[1] * layer.width_out, left.shape[2] * layer.width_in
    entries = [arb(0)] * (rows * columns)
    for k, N, n in np.argwhere(left != 0):
        for d, m in np.argwhere(layer.right[k] != 0):
            place = (N * layer.width_out + m) * columns + n * layer.width_in + d
            entries[place] += arb(float(left[k, N, n])) * arb(float(layer.right[k, d, m]))
    return arb_mat(rows, columns, entries)


def _constant(layer: Affine, length: int, size: int) -> arb_mat:
    """The constant of an affine layer on flattened sequences, (N*m, 1+D)."""
    return _offsets(np.broadcast_to(layer.constant, (layer.length_out(length), layer.width_out)), size)


def _offsets(constants: Floats, size: int) -> arb_mat:
    """Constants as affine functions of x, (rows, 1+D)."""
    table = np.zeros((constants.size, 1 + size))
    table[:, 0] = constants.ravel()
    return _balls(table)


def _balls(array: Floats) -> arb_mat:
    """A matrix of floats, exactly."""
    return arb_mat(array.shape[0], array.shape[1], [arb(float(a)) for a in array.flat])


def _rows(matrix: arb_mat, start: int, count: int) -> arb_mat:
    """Some rows of a matrix."""
    width = matrix.ncols()
    return arb_mat(count, width, matrix.entries()[start * width : (start + count) * width])
