"""The layers that all learners share: centring, Gram matrices, inverses by doubling, and products with them.

State row j holds row j of matrices, in registers of width p; A_j denotes row j of A.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log

import numpy as np

from ..network import Affine, Attention, Layer, Network
from ..network.network import rounded
from .precision import Precision
from .prompt import REACH
from .registers import MASK, RegisterHead, RegisterMove, Registers, Sum, attention, moving, products


def centre(registers: Registers, features: int) -> Attention:
    """Examples and queries minus the mean of the examples, in the first `features` columns: x_i <- x_i - x̄.

    One head: a row looks at all examples of its own sign, with equal scores, and takes their average off. State rows
    look at state rows, where x = 0, and stay.
    """
    query, key = np.zeros((registers.width, 3)), np.zeros((registers.width, 3))
    query[registers["sign"], 0] = query[registers["state"], 2] = 1.0
    query[registers["state"], 1] = -1.0
    key[registers["sign"], 0] = key[registers["data"], 1] = key[registers["state"], 2] = MASK
    value, output = moving(registers, [RegisterMove({"x": 1.0}, "x")], -1.0)
    output[features:] = 0.0
    return attention([RegisterHead(query, np.array([0.0, 1.0, 0.0]), key, np.zeros(3), value, output)])


def gather(registers: Registers, precision: Precision, blocks: list[list[RegisterMove]]) -> list[RegisterHead]:
    """Sums over the examples that count, times feature j, into state row j: `mean_i x_ij source_i`.

    Each block of state rows has moves of its own; a row of another block has the query 0 and gets zero. State rows that
    count are examples e_j: with a penalty as their value they add it to the sum of feature j.
    """
    heads: list[RegisterHead] = []
    for number, moves in enumerate(blocks):
        own = registers.part("e", number, len(blocks))
        heads += products(
            registers,
            precision,
            queries={own: 1.0},
            keys={"x": 1.0, own: 1.0},
            among="counts",
            moves=moves,
            largest=REACH,
            reach=precision.data_reach,
        )
    return heads


def multiply(
    registers: Registers, precision: Precision, matrix: Sum, moves: list[RegisterMove], largest: float = 1.0
) -> Attention:
    """The product of a matrix with what stands in the state rows: target_j += Σ_k matrix_jk source_k.

    `largest` bounds the entries of the matrix; sources may have any size.
    """
    scaled = in_sums(registers, moves)
    return attention(products(registers, precision, matrix, {"e": 1.0}, "state", scaled, largest=largest))


def in_sums(registers: Registers, moves: list[RegisterMove]) -> list[RegisterMove]:
    """Means over the state rows become sums."""
    return [RegisterMove(move.source, move.target, move.factor * registers.size("e")) for move in moves]


def double(registers: Registers, precision: Precision) -> Attention:
    """One Newton-Schulz step for an inverse, in one layer: (P, V) <- (P, V) + (I - P)(P, V).

    Start with P = C/c and V = I/c, where C is symmetric and non-negative and c not below its largest eigenvalue. After
    k such layers I - P = (I - C/c)^(2^k) and

        V = (1/c) Σ_{i < 2^k} (I - C/c)^i,

    because both hold for k = 0 and 1 - (1-P)² = P + (1-P)P. So V b is what 2^k steps of gradient descent with the step
    1/c make of C w = b, starting from zero; in the limit it is the solution of least norm. The entries of I - P are at
    most 1 in absolute value, those of V at most 2^k/c.
    """
    moves = [RegisterMove({"P": 1.0}, "P"), RegisterMove({"V": 1.0}, "V")]
    return multiply(registers, precision, {"e": 1.0, "P": -1.0}, moves)


LOW = 0.25
"""Eigenvalues of P that are not below this stay so under `stretch`."""
GROWTH = 4 / (1 + LOW)
"""By how much `stretch` magnifies small eigenvalues."""


def stretch(registers: Registers, precision: Precision) -> Attention:
    """A faster step while P still has small eigenvalues: (P, V) <- s ((1 + LOW) I - P)(P, V), s = 4/(1 + LOW)².

    It maps an eigenvalue t of P to s t (1 + LOW - t), which is between 0 and 1 for all t from 0 to 1, at least 0.64
    for t from LOW to 1, and about GROWTH t = 3.2 t for small t, where `double` has 2 t. P = V C stays true.
    """
    s = 4 / (1 + LOW) ** 2
    moves = [RegisterMove({"P": 1.0}, "P"), RegisterMove({"V": 1.0}, "V")]
    return multiply(registers, precision, {"e": s * (1 + LOW) - 1, "P": -s}, moves, largest=4.0)


DOUBLINGS = 3
"""Layers of `double` after those of `stretch`."""


def inverting(registers: Registers, precision: Precision) -> Callable[[float], list[Layer]]:
    """Layers that invert: P = C/c, V = I/c before, V near the inverse of C after them; the same objects at every call.

    With eigenvalues of C/c from `least` to 1 those of V C are at least 1 - (1 - 0.64)^(2^DOUBLINGS) > 0.999 in the
    end. Smaller ones are not inverted in full: they keep about the share of their size over `least`.
    """
    fast, last = stretch(registers, precision), double(registers, precision)

    def layers(least: float) -> list[Layer]:
        return [*[fast] * stretches(least), *[last] * DOUBLINGS]

    return layers


def stretches(least: float) -> int:
    """Layers of `stretch` that bring `least` to LOW or above."""
    return max(0, ceil(log(LOW / least) / log(GROWTH)))


def largest_inverse(least: float, c: float) -> float:
    """Bounds the entries of V: every layer multiplies its eigenvalues by at most GROWTH or 2.

    >>> largest_inverse(0.25, 2.0)
    4.0
    """
    return GROWTH ** stretches(least) * 2.0**DOUBLINGS / c


def predict(registers: Registers, precision: Precision, blocks: list[list[RegisterMove]]) -> list[RegisterHead]:
    """Sums over features, into data and query rows: target_i += Σ_j x_ij source_j; moves for each block."""
    heads: list[RegisterHead] = []
    for number, moves in enumerate(blocks):
        keys = {registers.part("e", number, len(blocks)): 1.0}
        scaled, reach = in_sums(registers, moves), precision.data_reach
        heads += products(registers, precision, {"x": 1.0}, keys, "state", scaled, largest=REACH, reach=reach)
    return heads


def finish(layers: list[Layer], dtype: str) -> Network:
    """Layers as a network for any length, weights rounded; a layer that occurs many times stays one object."""
    made: dict[int, Affine | Attention] = {}
    for layer in layers:
        if id(layer) not in made:
            made[id(layer)] = rounded(layer, dtype)  # type: ignore[assignment]
    return Network(tuple(made[id(layer)] for layer in layers), None, dtype)
