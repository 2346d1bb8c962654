"""The layers that all learners share: centring, Gram matrices, inverses by doubling, and products with them.

State row j holds row j of matrices, in registers of width p; A_j denotes row j of A.
"""

from __future__ import annotations

import numpy as np

from ..network import Affine, Attention, Layer, Network
from ..network.network import rounded
from .prompt import REACH
from .readout import Precision
from .registers import MASK, Head, Move, Registers, Sum, attention, moving, products


def centre(registers: Registers, features: int) -> Attention:
    """Examples and queries minus the mean of the examples, in the first `features` columns: x_i <- x_i - x̄.

    One head: a row looks at all examples of its own sign, with equal scores, and takes their average off. State rows
    look at state rows, where x = 0, and stay.
    """
    query, key = np.zeros((registers.width, 3)), np.zeros((registers.width, 3))
    query[registers["sign"], 0] = query[registers["state"], 2] = 1.0
    query[registers["state"], 1] = -1.0
    key[registers["sign"], 0] = key[registers["data"], 1] = key[registers["state"], 2] = MASK
    value, output = moving(registers, [Move({"x": 1.0}, "x")], -1.0)
    output[features:] = 0.0
    return attention([Head(query, np.array([0.0, 1.0, 0.0]), key, np.zeros(3), value, output)])


def gather(registers: Registers, precision: Precision, moves: list[Move]) -> list[Head]:
    """Sums over the examples that count, times feature j, into state row j: `mean_i x_ij source_i`.

    State rows that count are examples e_j: with a penalty as their value they add it to the sum of feature j.
    """
    return products(
        registers,
        precision,
        asks={"e": 1.0},
        asked={"x": 1.0, "e": 1.0},
        among="counts",
        moves=moves,
        largest=REACH,
        reach=precision.data_reach,
    )


def multiply(
    registers: Registers, precision: Precision, features: int, matrix: Sum, moves: list[Move], largest: float = 1.0
) -> Attention:
    """The product of a matrix with what stands in the state rows: target_j += Σ_k matrix_jk source_k.

    `largest` bounds the entries of the matrix; sources may have any size.
    """
    scaled = [Move(move.source, move.target, move.factor * features) for move in moves]  # means to sums
    heads = products(registers, precision, matrix, {"e": 1.0}, "state", scaled, largest=largest)
    return attention(heads)


def double(registers: Registers, precision: Precision, features: int) -> Attention:
    """One Newton-Schulz step for an inverse, in one layer: (P, V) <- (P, V) + (I - P)(P, V).

    Start with P = C/c and V = I/c, where C is symmetric and non-negative and c not below its largest eigenvalue. After
    k such layers I - P = (I - C/c)^(2^k) and

        V = (1/c) Σ_{i < 2^k} (I - C/c)^i,

    because both hold for k = 0 and 1 - (1-P)² = P + (1-P)P. So V b is what 2^k steps of gradient descent with the step
    1/c make of C w = b, starting from zero; in the limit it is the solution of least norm. The entries of I - P are at
    most 1 in absolute value, those of V at most 2^k/c.
    """
    moves = [Move({"P": 1.0}, "P"), Move({"V": 1.0}, "V")]
    return multiply(registers, precision, features, {"e": 1.0, "P": -1.0}, moves)


def predict(registers: Registers, precision: Precision, features: int, moves: list[Move]) -> list[Head]:
    """Sums over features, into data and query rows: target_i += Σ_j x_ij source_j."""
    scaled = [Move(move.source, move.target, move.factor * features) for move in moves]
    asked, reach = {"e": 1.0}, precision.data_reach
    return products(registers, precision, {"x": 1.0}, asked, "state", scaled, largest=REACH, reach=reach)


def finish(layers: list[Layer], dtype: str) -> Network:
    """Layers as a network for any length, weights rounded; a layer that occurs many times stays one object."""
    made: dict[int, Affine | Attention] = {}
    for layer in layers:
        if id(layer) not in made:
            made[id(layer)] = rounded(layer, dtype)  # type: ignore[assignment]
    return Network(tuple(made[id(layer)] for layer in layers), None, dtype)
