"""A network as a program for `machine.py`: registers, affine rows and heads, one pass over a group of inputs.

Every feature of every token is a register. An affine map puts out registers, or names those there are where it merely
picks a feature; a small head reads the registers of its query and puts out its averages. Heads with large banks are
evaluated between two pieces of code. Everything is computed in float64 whatever the network's dtype is. That is within
the certificate's rounding part, which allows each operation an error of the dtype's unit; weights are numbers of that
dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...network import Affine, Attention, FactoredAttention
from .banks import Bank, Stream
from .operations import AFFINE, HEAD, SELF, SHORT
from .query_groups import PreparedLayer

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FIELDS = 9
"""Numbers that describe an operation."""


@dataclass(frozen=True, eq=False)
class Code:
    """Operations on registers, the first of which are the inputs; `results` are the registers put out."""

    inputs: int
    registers: int
    operations: Integers  # (o, FIELDS), see `machine.py`
    starts: Integers  # (rows + 1,), where the entries of each affine row start
    sources: Integers  # (e,), registers of the entries
    weights: Floats  # (e,)
    constants: Floats  # (rows,)
    queries: Integers  # registers that heads read
    keys: Floats
    offsets: Floats
    values: Floats
    results: Integers  # (O,)

    def __call__(self, X: Floats) -> Floats:
        """(B, I) -> (B, O)."""
        if len(self.operations) == 0:
            same = np.array_equal(self.results, np.arange(self.inputs))
            return X if same else np.ascontiguousarray(X[:, self.results])
        from .machine import run

        out = np.empty((len(X), len(self.results)))
        rows = self.starts, self.sources, self.weights, self.constants
        heads = self.queries, self.keys, self.offsets, self.values
        run(X, out, self.registers, self.operations, rows, heads, self.results)
        return out


@dataclass(frozen=True, eq=False)
class Calls:
    """Large banks, read between two pieces of code: features that are kept, then the queries of each bank."""

    kept: int
    banks: tuple[tuple[Bank, int, int], ...]
    """Each with the number of tokens that query it and of the features of one query."""

    def __call__(self, X: Floats) -> Floats:
        """Features and queries (B, ...) -> features and averages (B, ...)."""
        parts, start = [X[:, : self.kept]] if self.kept else [], self.kept
        for bank, tokens, features in self.banks:
            stop = start + tokens * features
            queries = np.ascontiguousarray(X[:, start:stop]).reshape(len(X) * tokens, features)
            parts.append(bank(queries).mean.reshape(len(X), -1))
            start = stop
        return parts[0] if len(parts) == 1 else np.hstack(parts)


@dataclass(eq=False)
class CodeWriter:
    """Code in the making."""

    inputs: int
    registers: int = 0
    operations: list[list[int]] = field(default_factory=list)
    counts: list[Integers] = field(default_factory=list)
    sources: list[Integers] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    constants: list[Floats] = field(default_factory=list)
    queries: list[Integers] = field(default_factory=list)
    keys: list[Floats] = field(default_factory=list)
    offsets: list[Floats] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.registers = self.inputs

    def affine(self, features: Integers, weight: Floats, bias: Floats) -> Integers:
        """Registers (m,) that hold `x weight + bias`, x in the registers `features` (d,), weight (d, m)."""
        used = weight != 0
        picks = (used.sum(axis=0) == 1) & (weight.sum(axis=0) == 1) & (bias == 0)  # (m,)
        out = np.full(len(bias), -1)
        if picks.any():
            out[picks] = features[np.argmax(used[:, picks], axis=0)]
        rest = np.flatnonzero(~picks)
        if len(rest):
            columns, rows = np.nonzero(used[:, rest].T)
            out[rest] = self._new(len(rest))
            self.operations.append([AFFINE, sum(map(len, self.constants)), len(rest), int(out[rest[0]])])
            self.counts.append(np.bincount(columns, minlength=len(rest)))
            self.sources.append(features[rows])
            self.weights.append(weight[rows, rest[columns]])
            self.constants.append(bias[rest])
        return out

    def head(self, query: Integers, bank: Stream) -> Integers:
        """Registers (v,) that hold the averages over a bank for the query in the registers (r,)."""
        return self._head(HEAD, query, len(query), bank.keys.T, bank.offsets, bank.values)

    def own_head(
        self, query: Integers, own_key: Integers, own_value: Integers, keys: Floats, values: Floats
    ) -> Integers:
        """Registers (v,) with the averages over a token itself and memory tokens of keys (M, k), values (M, v)."""
        registers = np.concatenate([query, own_key, own_value])
        return self._head(SELF, registers, len(query), keys, np.zeros(len(keys)), values.T)

    def _head(
        self, kind: int, read: Integers, features: int, keys: Floats, offsets: Floats, values: Floats
    ) -> Integers:
        """A head with keys (M, k), offsets (M,) and values (v, M)."""
        tokens, out = len(offsets), self._new(len(values))
        lists = self.queries, self.offsets, self.keys, self.values
        query_at, offset, key, value = (sum(map(len, parts)) for parts in lists)
        self.operations.append([kind, query_at, features, offset, tokens, key, value, len(values) + 1, int(out[0])])
        self.queries.append(read)
        self.keys.append(keys.ravel())
        self.offsets.append(offsets)
        self.values.append(np.vstack([values, np.ones((1, tokens))]).ravel())
        return out

    def code(self, results: Integers) -> Code:
        """What was written, with the registers it puts out."""

        def floats(parts: list[Floats]) -> Floats:
            return np.concatenate([np.zeros(0), *parts])

        def integers(parts: list[Integers]) -> Integers:
            return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)

        table = np.zeros((len(self.operations), FIELDS), dtype=np.int64)
        for row, operation in zip(table, self.operations, strict=True):
            row[: len(operation)] = operation
        return Code(
            inputs=self.inputs,
            registers=self.registers,
            operations=table,
            starts=np.concatenate([[0], np.cumsum(integers(self.counts))]),
            sources=integers(self.sources),
            weights=floats(self.weights),
            constants=floats(self.constants),
            queries=integers(self.queries),
            keys=floats(self.keys),
            offsets=floats(self.offsets),
            values=floats(self.values),
            results=results.astype(np.int64),
        )

    def _new(self, count: int) -> Integers:
        self.registers += count
        return np.arange(self.registers - count, self.registers)


Stage = Code | Calls


def program(steps: Sequence[PreparedLayer], shape: tuple[int, int]) -> list[Stage] | None:
    """Stages that take vec(X) to vec(Z); None where a token attends to others or a layer is a softmax of its own."""
    stages: list[Stage] = []
    writer = CodeWriter(shape[0] * shape[1])
    tokens = np.arange(writer.inputs).reshape(shape)  # (n, d), the register of each feature
    for step in steps:
        if isinstance(step.layer, Affine):
            tokens = _affine(writer, step.layer, tokens)
        elif isinstance(step.layer, Attention | FactoredAttention) and not step.layer.attends_data:
            writer, tokens = _attention(writer, stages, step, step.layer, tokens)
        elif isinstance(step.layer, Attention) and len(tokens) == 1 and len(step.layer.memory) <= SHORT:
            tokens = _own_attention(writer, step, step.layer, tokens[0])[None]
        else:
            return None
    return [*stages, writer.code(tokens.ravel())]


def _affine(writer: CodeWriter, layer: Affine, tokens: Integers) -> Integers:
    if layer.left is None:
        return np.stack([writer.affine(token, layer.right[0], layer.constant[0]) for token in tokens])
    matrix = np.einsum("kNn,kdm->ndNm", layer.left, layer.right, optimize=True)
    weight = matrix.reshape(tokens.size, layer.constant.size)  # (n d, N m)
    return writer.affine(tokens.ravel(), weight, layer.constant.ravel()).reshape(layer.constant.shape)


def _attention(
    writer: CodeWriter, stages: list[Stage], step: PreparedLayer, layer: Attention | FactoredAttention, tokens: Integers
) -> tuple[CodeWriter, Integers]:
    queries = [
        np.stack(
            [
                writer.affine(
                    token, layer.query[group.head][:, group.features], layer.query_bias[group.head][group.features]
                )
                for token in tokens[group.querying]
            ]
        )
        for group in step.query_groups
    ]  # (a, r) each
    means: dict[int, Integers] = {}  # (a, v) each
    large = [number for number, group in enumerate(step.query_groups) if not isinstance(group.bank, Stream)]
    if large:
        small = [query.ravel() for number, query in enumerate(queries) if number not in large]
        kept = np.unique(np.concatenate([*small, tokens.ravel() if layer.residual else tokens[:0, 0]]))
        stages.append(writer.code(np.concatenate([kept, *(queries[number].ravel() for number in large)])))
        stages.append(
            Calls(len(kept), tuple((step.query_groups[number].bank, *queries[number].shape) for number in large))
        )
        queries, tokens = [np.searchsorted(kept, query) for query in queries], np.searchsorted(kept, tokens)
        shapes = [(len(step.query_groups[number].querying), layer.output.shape[1]) for number in large]
        writer = CodeWriter(len(kept) + sum(a * v for a, v in shapes))
        start = len(kept)
        for number, (a, v) in zip(large, shapes, strict=True):
            means[number] = np.arange(start, start + a * v).reshape(a, v)
            start += a * v
    for number, group in enumerate(step.query_groups):
        if isinstance(group.bank, Stream):
            means[number] = np.stack([writer.head(query, group.bank) for query in queries[number]])
    out = np.zeros((len(tokens), layer.width_out), dtype=np.int64)  # nobody reads tokens without a query
    for token in step.weights["querying"]:
        heads = [
            (means[number][group.querying == token][0], layer.output[group.head])
            for number, group in enumerate(step.query_groups)
            if token in group.querying
        ]
        parts = [*heads, (tokens[token], np.eye(layer.width_out))] if layer.residual else heads
        features, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
        out[token] = writer.affine(features, weights, layer.output_bias)
    return writer, out


def _own_attention(writer: CodeWriter, step: PreparedLayer, layer: Attention, token: Integers) -> Integers:
    """A layer in which one token (d,) sees itself and a few memory tokens: (o,)."""
    parts = list[tuple[Integers, Floats]]()
    for head in range(layer.heads):
        query, own_key, own_value = (
            writer.affine(token, getattr(layer, name)[head], getattr(layer, f"{name}_bias")[head])
            for name in ("query", "key", "value")
        )
        keys, values = (step.weights[name][head].astype(np.float64) for name in ("keys", "values"))  # (M, k), (M, v)
        parts.append((writer.own_head(query, own_key, own_value, keys, values), layer.output[head]))
    parts += [(token, np.eye(layer.width_out))] if layer.residual else []
    features, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
    return writer.affine(features, weights, layer.output_bias)
