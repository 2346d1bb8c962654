"""Graphs of affine maps and rectifiers as piecewise-linear targets, where every weight is one of the network's own.

Numbers that only move (reshapes, transpositions, slices) cost nothing: a value is a selection of the entries of an
earlier one, and whoever reads it has its weights in another order. Nothing is multiplied out, added up or rounded. A
graph that cannot be written so has no stages: its constants must be enclosed (`circuits.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..piecewise import Stage
from .graph import OPERATIONS, Floats, Graph, Node, Shape
from .stages import Stages
from .writer import are_powers_of_two


class _Inexact(Exception):
    """The graph is no rectifier network, or one with weights that no float is."""


@dataclass(frozen=True, eq=False)
class _Entries:
    """Entries of a value of the stages: `h[indices]`, in the shape of a node."""

    value: int
    indices: npt.NDArray[np.int64]


def stages_of(graph: Graph) -> list[Stage] | None:
    """The stages of a rectifier network, or None."""
    translation = _Translation(graph)
    try:
        return translation.stages()
    except _Inexact:
        return None


class _Translation:
    """Writes the nodes of a graph into stages, in order."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.built = graph, Stages(prod(graph.input_shape))
        self.done = dict[int, _Entries | Floats]()

    def stages(self) -> list[Stage]:
        """All nodes that the output needs."""
        users = self.graph.users()
        for number, node in enumerate(self.graph.nodes):
            if users[number] or number == self.graph.output:
                self.done[number] = self.node(node)
        output = self.done[self.graph.output]
        if not isinstance(output, _Entries):
            raise _Inexact
        return self.built.stages(self.whole(output))

    def node(self, node: Node) -> _Entries | Floats:
        """A node as a view of a value, or a constant."""
        inputs = [self.done[k] for k in node.inputs]
        if node.operation == "input":
            return self.all_of(0, node.shape)
        if node.operation == "constant":
            return np.asarray(node.data["value"])
        if not any(isinstance(part, _Entries) for part in inputs):
            return self.constant(node, inputs)
        match node.operation, inputs:
            case "reshape" | "transpose" | "gather", [_Entries() as x]:
                return _Entries(x.value, OPERATIONS[node.operation](x.indices[None], **node.data)[0])
            case "linear", [_Entries() as x]:
                return self.linear(x, node.data["weight"], node.data["bias"])
            case "scale", [_Entries() as x]:
                return self.sum_of([x], [node.data["factor"]], np.zeros(()), node.shape)
            case "shift", [_Entries() as x]:
                return self.shift(x, node.data["by"], node.shape)
            case "add", [_Entries() as x, np.ndarray() as c] | [np.ndarray() as c, _Entries() as x]:
                return self.shift(x, c, node.shape)
            case "subtract", [_Entries() as x, np.ndarray() as c]:
                return self.shift(x, -c, node.shape)
            case "subtract", [np.ndarray() as c, _Entries() as x]:
                return self.sum_of([x], [np.array(-1.0)], c, node.shape)
            case "add", [_Entries() as x, _Entries() as y]:
                return self.sum_of([x, y], [np.array(1.0)] * 2, np.zeros(()), node.shape)
            case "subtract", [_Entries() as x, _Entries() as y]:
                return self.sum_of([x, y], [np.array(1.0), np.array(-1.0)], np.zeros(()), node.shape)
            case "multiply", [_Entries() as x, np.ndarray() as c] | [np.ndarray() as c, _Entries() as x]:
                return self.sum_of([x], [c], np.zeros(()), node.shape)
            case "relu", [_Entries() as x]:
                return self.clip(x, 0.0, np.inf)
            case "clip", [_Entries() as x]:
                return self.clip(x, node.data["low"], node.data["high"])
            case "leaky_relu", [_Entries() as x]:
                return self.leaky(x, node.data["slope"])
            case "abs", [_Entries() as x]:
                return self.leaky(x, -1.0)
            case "sum" | "mean", [_Entries() as x]:
                return self.total(x, node)
            case "max", [_Entries() as x]:
                return self.largest(x, node)
            case "concat", parts:
                return self.concat(parts, node)
        raise _Inexact

    def constant(self, node: Node, inputs: list[Any]) -> Floats:
        """Constants that only move."""
        if node.operation not in ("reshape", "transpose", "gather", "concat"):
            raise _Inexact
        return OPERATIONS[node.operation](*(part[None] for part in inputs), **node.data)[0]

    # ------------------------------------------------------------ views

    def all_of(self, value: int, shape: Shape) -> _Entries:
        """A value in some shape."""
        return _Entries(value, np.arange(self.built.widths[value]).reshape(shape))

    def is_permutation(self, x: _Entries) -> bool:
        """Is every entry of the value there once?"""
        return bool(np.array_equal(np.sort(x.indices, axis=None), np.arange(self.built.widths[x.value])))

    def whole(self, x: _Entries) -> int:
        """A value that has just the entries of the view, in order."""
        width = self.built.widths[x.value]
        if np.array_equal(x.indices.ravel(), np.arange(width)):
            return x.value
        return self.built.combine([x.value], [np.eye(width)[:, x.indices.ravel()]], np.zeros(x.indices.size))

    # ------------------------------------------------------------ affine maps

    def linear(self, x: _Entries, weight: Floats, bias: Floats) -> _Entries:
        """`x weight + bias` on the last axis."""
        shape, outputs = x.indices.shape[:-1], weight.shape[1]
        rows = x.indices.reshape(-1, weight.shape[0])  # (R, d)
        if any(len(np.unique(row)) < len(row) for row in rows):
            raise _Inexact  # weights of one entry would be added
        matrix = np.zeros((self.built.widths[x.value], len(rows), outputs))
        for number, row in enumerate(rows):
            matrix[row, number] = weight
        flat = matrix.reshape(-1, len(rows) * outputs)
        return self.all_of(self.built.linear(x.value, flat, np.tile(bias, len(rows))), (*shape, outputs))

    def shift(self, x: _Entries, by: Floats, shape: Shape) -> _Entries:
        """`x + by`; a map of its own only where entries are moved."""
        own = np.broadcast_to(by, shape)
        if shape == x.indices.shape and self.is_permutation(x):
            bias = np.zeros(self.built.widths[x.value])
            bias[x.indices.ravel()] = own.ravel()
            return _Entries(self.built.shift(x.value, bias), x.indices)
        return self.sum_of([x], [np.array(1.0)], by, shape)

    def sum_of(self, views: list[_Entries], factors: list[Floats], by: Floats, shape: Shape) -> _Entries:
        """`Σ_k factors_k views_k + by`, entry by entry."""
        size = prod(shape)
        sources, weights = list[int](), list[Floats]()
        for view, factor in zip(views, factors, strict=True):
            places = np.broadcast_to(view.indices, shape).ravel()
            weight = np.zeros((self.built.widths[view.value], size))
            weight[places, np.arange(size)] = np.broadcast_to(factor, shape).ravel()
            if view.value in sources:
                at = sources.index(view.value)
                weights[at] = _exact_sum(weights[at], weight)
            else:
                sources.append(view.value)
                weights.append(weight)
        bias = np.array(np.broadcast_to(by, shape).ravel())
        return self.all_of(self.built.combine(sources, weights, bias), shape)

    def total(self, x: _Entries, node: Node) -> _Entries:
        """Sums, and means of as many numbers as a power of two."""
        axes = node.data["axes"]
        count = prod(x.indices.shape[axis] for axis in axes)
        if node.operation == "mean" and not are_powers_of_two(np.array(float(count))):
            raise _Inexact
        moved = np.moveaxis(x.indices, axes, range(len(axes))).reshape(count, -1)  # (count, m)
        weight = np.zeros((self.built.widths[x.value], moved.shape[1]))
        for row in moved:
            weight[row, np.arange(moved.shape[1])] += 1.0 if node.operation == "sum" else 1.0 / count
        return self.all_of(self.built.combine([x.value], [weight], np.zeros(moved.shape[1])), node.shape)

    def concat(self, parts: list[_Entries | Floats], node: Node) -> _Entries:
        """Values side by side; constants are biases."""
        views = [part for part in parts if isinstance(part, _Entries)]
        axis = node.data["axis"]
        if len(views) == len(parts) and len({part.value for part in views}) == 1:
            return _Entries(views[0].value, np.concatenate([part.indices for part in views], axis=axis))
        places = np.split(
            np.moveaxis(np.arange(prod(node.shape)).reshape(node.shape), axis, 0),
            np.cumsum([_shape(part)[axis] for part in parts])[:-1],
        )
        bias, weights = np.zeros(prod(node.shape)), dict[int, Floats]()
        for part, place in zip(parts, places, strict=True):
            columns = np.moveaxis(place, 0, axis).ravel()
            if isinstance(part, _Entries):
                weight = weights.setdefault(part.value, np.zeros((self.built.widths[part.value], len(bias))))
                weight[part.indices.ravel(), columns] = 1.0
            else:
                bias[columns] = part.ravel()
        return self.all_of(self.built.combine([*weights], [*weights.values()], bias), node.shape)

    # ------------------------------------------------------------ rectifiers

    def clip(self, x: _Entries, low: float, high: float) -> _Entries:
        """Entry by entry."""
        if self.is_permutation(x):
            return _Entries(self.built.clip(x.value, float(low), float(high)), x.indices)
        return self.all_of(self.built.clip(self.whole(x), float(low), float(high)), x.indices.shape)

    def leaky(self, x: _Entries, slope: float) -> _Entries:
        """Entry by entry."""
        if self.is_permutation(x):
            return _Entries(self.built.leaky(x.value, float(slope)), x.indices)
        return self.all_of(self.built.leaky(self.whole(x), float(slope)), x.indices.shape)

    def largest(self, x: _Entries, node: Node) -> _Entries:
        """Maxima along axes, pairs first: `max(a, b) = a + max(0, b - a)`."""
        axes = node.data["axes"]
        moved = np.moveaxis(x.indices, axes, range(len(axes)))
        rest = moved.shape[len(axes) :]
        current = _Entries(x.value, moved.reshape(-1, *rest))  # (count, ...)
        while len(current.indices) > 1:
            half = len(current.indices) // 2
            first, second = (_Entries(current.value, current.indices[k * half : (k + 1) * half]) for k in (0, 1))
            odd = current.indices[2 * half :]
            apart = self.sum_of([second, first], [np.array(1.0), np.array(-1.0)], np.zeros(()), first.indices.shape)
            above = self.clip(apart, 0.0, np.inf)
            kept = _Entries(current.value, np.concatenate([first.indices, odd]))
            matched = np.zeros((half + len(odd), *rest))
            matched[:half] = 1.0
            padded = _Entries(above.value, np.concatenate([above.indices, np.zeros_like(odd)]))
            current = self.sum_of([kept, padded], [np.array(1.0), matched], np.zeros(()), kept.indices.shape)
        return _Entries(current.value, current.indices[0].reshape(node.shape))


def _shape(part: _Entries | Floats) -> Shape:
    return part.indices.shape if isinstance(part, _Entries) else part.shape


def _exact_sum(a: Floats, b: Floats) -> Floats:
    """a + b where no entry is rounded."""
    total = a + b
    back = total - a
    if not ((back == b) & (total - back == a)).all():
        raise _Inexact
    return total
