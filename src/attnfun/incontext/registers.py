"""Registers, and the kinds of layer that in-context learners are made of.

A row of the sequence is a tuple of named registers. Attention layers add to registers (they have a residual
connection); affine layers rewrite registers row by row. A *flag* register is 0 or 1 and says among which rows a head
looks: rows without the flag have a score that is lower by MASK, so that their weight is exactly zero in every
arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..network import Affine, Attention
from .precision import Precision
from .readout import richardson

Floats = npt.NDArray[np.float64]
Sum = Mapping[str, float]
"""A sum of registers of one width, each with its factor."""

MASK = 1024.0
"""e^-MASK is zero in float32 and in float64; a power of two, so that adding it and taking it off is exact."""


class Registers:
    """Names and places of the features of a row.

    >>> Registers(x=2, y=1)["y"]
    slice(2, 3, None)
    """

    def __init__(self, **widths: int) -> None:
        ends = np.cumsum([0, *widths.values()]).tolist()
        self.places = {name: slice(*ends[at : at + 2]) for at, name in enumerate(widths)}
        self.width: int = ends[-1]

    def __getitem__(self, name: str) -> slice:
        return self.places[name]

    def size(self, name: str) -> int:
        """Features of one register."""
        return self[name].stop - self[name].start

    def part(self, name: str, number: int, parts: int) -> str:
        """The name of one of the equal parts of a register.

        >>> registers = Registers(x=2, e=6)
        >>> registers[registers.part("e", 1, 3)]
        slice(4, 6, None)
        """
        alias, width = f"{name}[{number}/{parts}]", self.size(name) // parts
        start = self[name].start + number * width
        self.places[alias] = slice(start, start + width)
        return alias

    def read(self, parts: Sum) -> Floats:
        """The matrix (F, w) that adds registers up."""
        matrix = np.zeros((self.width, self.size(next(iter(parts)))))
        for name, factor in parts.items():
            matrix[self[name]] += factor * np.eye(self.size(name), matrix.shape[1])
        return matrix


@dataclass(frozen=True)
class RegisterMove:
    """Where values come from, to which register they are added, and how many times."""

    source: Sum
    target: str
    factor: float = 1.0


@dataclass(frozen=True)
class RegisterHead:
    """One head on rows of F features; see `network.Attention`."""

    query: Floats  # (F, k)
    query_bias: Floats  # (k,)
    key: Floats  # (F, k)
    key_bias: Floats  # (k,)
    value: Floats  # (F, v)
    output: Floats  # (v, F)


def attention(heads: Iterable[RegisterHead], memory: Floats | None = None) -> Attention:
    """Self-attention with a residual connection; narrower heads are filled up with zeros."""
    made = list(heads)
    features = len(made[0].query)
    size = max(head.query.shape[1] for head in made)
    values = max(head.value.shape[1] for head in made)

    def stack(arrays: Iterable[Floats], *shape: int) -> Floats:
        out = np.zeros((len(made), *shape))
        for place, array in zip(out, arrays, strict=True):
            place[tuple(slice(length) for length in array.shape)] = array
        return out

    return Attention.of(
        query=stack((head.query for head in made), features, size),
        query_bias=stack((head.query_bias for head in made), size),
        key=stack((head.key for head in made), features, size),
        key_bias=stack((head.key_bias for head in made), size),
        value=stack((head.value for head in made), features, values),
        output=stack((head.output for head in made), values, features),
        memory=np.zeros((0, features)) if memory is None else memory,
        attends_data=True,
        residual=True,
    )


def moving(registers: Registers, moves: Iterable[RegisterMove], factor: float) -> tuple[Floats, Floats]:
    """Value and output matrices, (F, v) and (v, F), of a head that adds averages to registers."""
    made = list(moves)
    value = np.concatenate([registers.read(move.source) for move in made], axis=1)  # (F, v)
    output, at = np.zeros((value.shape[1], registers.width)), 0
    for move in made:
        place = registers[move.target]
        width = place.stop - place.start
        output[at : at + width, place] = factor * move.factor * np.eye(width)
        at += width
    return value, output


def products(
    registers: Registers,
    precision: Precision,
    queries: Sum,
    keys: Sum,
    among: str,
    moves: Iterable[RegisterMove],
    *,
    largest: float,
    reach: float | None = None,
    heads: int | None = None,
) -> list[RegisterHead]:
    """Heads that add `mean_k (query·key_k) source_k` over the pairs of rows flagged `among`: the bilinear read-out.

    `largest` bounds |query·key_k|; scores are scaled so that it becomes `reach`.
    """
    made, eta = list(moves), (reach or precision.reach) / largest
    flag, blank = np.zeros((registers.width, 1)), np.zeros((registers.width, 1))
    flag[registers[among]] = MASK
    key, size = registers.read(keys), registers.size(next(iter(keys)))  # (F, w)
    count = heads or precision.heads
    out = []
    nodes = [(side * h, float(weight)) for h, weight in enumerate(richardson(count), 1) for side in (1, -1)]
    for h, weight in nodes:
        value, output = moving(registers, made, weight / (2 * h * eta))
        out.append(
            RegisterHead(
                query=np.concatenate([registers.read(queries) * (h * eta), blank], axis=1),  # (F, w + 1)
                query_bias=np.append(np.zeros(size), 1.0),
                key=np.concatenate([key, flag], axis=1),  # (F, w + 1)
                key_bias=np.append(np.zeros(size), -MASK),
                value=value,
                output=output,
            )
        )
    return out


def rewrite(registers: Registers, changes: Mapping[str, Sum], push: Mapping[str, str] | None = None) -> Affine:
    """Give some registers new contents, sums of registers of their width (an empty sum is zero); keep the rest.

    `push` names registers that get another one in front of what they hold, and lose as much at their end.
    """
    matrix = np.eye(registers.width)
    for name, parts in changes.items():
        matrix[:, registers[name]] = registers.read(parts) if parts else 0.0
    for name, new in (push or {}).items():
        place, width = registers[name], registers.size(new)
        matrix[:, place] = 0.0
        matrix[registers[new], place.start : place.start + width] = np.eye(width)
        matrix[place.start : place.stop - width, place.start + width : place.stop] = np.eye(
            registers.size(name) - width
        )
    return Affine.tokenwise(matrix, np.zeros(registers.width))


def select(registers: Registers, *names: str) -> Affine:
    """Put out some registers, in this order."""
    matrix = np.concatenate([registers.read({name: 1.0}) for name in names], axis=1)
    return Affine.tokenwise(matrix, np.zeros(matrix.shape[1]))


def widen(registers: Registers, width: int) -> Affine:
    """Rows of the first `width` features as rows of all registers, zeros in the rest."""
    return Affine.tokenwise(np.eye(width, registers.width), np.zeros(registers.width))
