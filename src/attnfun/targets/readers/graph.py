"""A given network as a graph of operations on arrays, and what each operation means in float64.

A graph is the function that a network computes in evaluation mode on its stored weights: nodes in order of evaluation,
node 0 the input, each one an operation of `OPERATIONS` on the values of earlier nodes. Readers (one file a framework)
write graphs; compilation and certification read them.

The value of a node is an array (b, *shape), b the points of a batch. Axes and shapes in `data` leave the batch out:
axis 0 is the first one of a single point. Values of fewer axes are aligned on the right, as in NumPy, behind the batch
axis.

>>> build = Builder((2,))
>>> hidden = build.add("linear", 0, weight=np.array([[1.0], [-1.0]]), bias=np.array([0.5]), name="fc1")
>>> graph = build.graph(build.add("relu", hidden, name="act"))
>>> graph.values(np.array([[1.0, 2.0], [2.0, 1.0]])), graph.output_shape
(array([[0. ],
       [1.5]]), (1,))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from ...arguments import real_array
from ...errors import InputError

Floats = npt.NDArray[np.float64]
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Node:
    """One operation on the values of earlier nodes."""

    operation: str
    """A key of `OPERATIONS`, or "input"."""
    inputs: tuple[int, ...]
    data: Mapping[str, Any]
    """Constants: float64 arrays, axes, shapes; see the operation."""
    shape: Shape
    """Of the value, without the batch axis."""
    name: str
    """The layer or node in the user's network, for messages."""

    def __str__(self) -> str:
        return f"{self.operation} ({self.name})" if self.name else self.operation


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in order of evaluation; node 0 is the input."""

    nodes: tuple[Node, ...]
    output: int

    @property
    def input_shape(self) -> Shape:
        """Of one point."""
        return self.nodes[0].shape

    @property
    def output_shape(self) -> Shape:
        """Of the value at one point."""
        return self.nodes[self.output].shape

    def values(self, X: npt.ArrayLike) -> Floats:
        """Values at a batch of points, (b, *input shape) -> (b, *output shape), in float64."""
        points = real_array("points", X)
        if points.ndim == 0 or points.shape[1:] != self.input_shape:
            raise InputError(f"points must have shape (b, {', '.join(map(str, self.input_shape))})", got=points.shape)
        value = self.all_values(points)[self.output]
        return np.array(np.broadcast_to(value, (len(points), *self.output_shape)))

    def all_values(self, points: Floats) -> list[Floats]:
        """The values of all nodes, (b, *shape) each; (1, *shape) where a value does not depend on the input."""
        found = list[Floats]()
        with np.errstate(all="ignore"):
            for node in self.nodes:
                operation = OPERATIONS[node.operation]
                found.append(points if node.operation == "input" else _run(operation, node, found))
        return found

    def users(self) -> list[list[int]]:
        """By node, the nodes that read it and that the output needs; an output reads itself last."""
        users = [list[int]() for _ in self.nodes]
        users[self.output].append(self.output)
        for number in reversed(range(len(self.nodes))):
            if users[number]:
                for source in set(self.nodes[number].inputs):
                    users[source].insert(0, number)
        return users


@dataclass
class Builder:
    """Collects nodes; `add` returns the number of a new node, whose shape it works out."""

    input_shape: Shape
    nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.nodes:
            self.nodes.append(Node("input", (), {}, self.input_shape, "input"))

    def add(self, kind: str, *inputs: int, name: str = "", **data: Any) -> int:
        """A new node; InputError with its name if shapes do not fit."""
        constants = {key: _frozen(value) for key, value in data.items()}
        node = Node(kind, inputs, constants, (), name)
        probes = {source: np.ones((1, *self.nodes[source].shape)) for source in inputs}
        try:
            with np.errstate(all="ignore"):
                shape = _run(OPERATIONS[kind], node, probes).shape[1:]
        except (ValueError, IndexError) as reason:
            shapes = ", ".join(str(self.nodes[source].shape) for source in inputs)
            given = {key: value.shape for key, value in constants.items() if isinstance(value, np.ndarray)}
            sizes = "".join(f", {key} {size}" for key, size in given.items())
            raise InputError(
                f"the sizes at {node} must fit each other", got=f"values {shapes}{sizes}: {reason}"
            ) from None
        self.nodes.append(Node(kind, inputs, constants, shape, name))
        return len(self.nodes) - 1

    def shape(self, number: int) -> Shape:
        """Of the value of a node, without the batch axis."""
        return self.nodes[number].shape

    def graph(self, output: int) -> Graph:
        """What was collected."""
        return Graph(tuple(self.nodes), output)


def _frozen(value: Any) -> Any:
    """Arrays that nobody can change any more; floating-point ones in float64."""
    if not isinstance(value, np.ndarray):
        return value
    kept = np.array(value, dtype=np.float64 if value.dtype.kind == "f" else value.dtype)
    kept.setflags(write=False)
    return kept


def _run(operation: Callable[..., Floats], node: Node, values: list[Floats] | dict[int, Floats]) -> Floats:
    return operation(*(values[source] for source in node.inputs), **node.data)


def _aligned(value: Floats, axes: int) -> Floats:
    """A value with at least so many axes behind the batch axis."""
    missing = max(0, axes - (value.ndim - 1))
    return value.reshape(value.shape[0], *(1,) * missing, *value.shape[1:])


def _elementwise(function: Callable[[Floats, Floats], Floats]) -> Callable[[Floats, Floats], Floats]:
    """An operation on two values, aligned behind the batch axis."""

    def run(a: Floats, b: Floats) -> Floats:
        axes = max(a.ndim, b.ndim) - 1
        return function(_aligned(a, axes), _aligned(b, axes))

    return run


def _linear(x: Floats, weight: Floats, bias: Floats) -> Floats:
    """`x weight + bias` on the last axis; weight (d, m), bias (m,)."""
    return x @ weight + bias


def _matmul(a: Floats, b: Floats) -> Floats:
    """Products of matrices in the last two axes; the axes before are aligned."""
    if a.ndim < 3 or b.ndim < 3:
        raise ValueError("a product needs two matrices a point")
    return _elementwise(np.matmul)(a, b)


def _scale(x: Floats, factor: Floats) -> Floats:
    return _aligned(x, np.ndim(factor)) * factor


def _shift(x: Floats, by: Floats) -> Floats:
    return _aligned(x, np.ndim(by)) + by


def _behind(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Axes of a point as axes of a batch."""
    return tuple(axis + 1 for axis in axes)


def _softmax(x: Floats, axis: int) -> Floats:
    weights = np.exp(x - x.max(axis=axis + 1, keepdims=True))
    return weights / weights.sum(axis=axis + 1, keepdims=True)


def _normalise(x: Floats, axes: tuple[int, ...], epsilon: float) -> Floats:
    """(x - mean)/sqrt(var + epsilon), LayerNorm without its affine part."""
    centred = x - x.mean(axis=_behind(axes), keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=_behind(axes), keepdims=True) + epsilon)


def _reduced(function: Callable[..., Floats]) -> Callable[..., Floats]:
    """A function of the numbers along some axes."""

    def run(x: Floats, axes: tuple[int, ...], keep: bool) -> Floats:
        return function(x, axis=_behind(axes), keepdims=keep)

    return run


def _gelu_tanh(x: Floats) -> Floats:
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def _gather(x: Floats, axis: int, indices: npt.NDArray[np.int64]) -> Floats:
    """The entries with these numbers along an axis, indices (k,)."""
    return np.take(x, indices, axis=axis + 1)


ELEMENTWISE: Mapping[str, Callable[..., Floats]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "leaky_relu": lambda x, slope: np.where(x >= 0.0, x, slope * x),
    "clip": lambda x, low, high: np.clip(x, low, high),
    "sigmoid": lambda x: special.expit(x),
    "tanh": np.tanh,
    "gelu": lambda x: 0.5 * x * special.erfc(-x / np.sqrt(2.0)),
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: x * special.expit(x),
    "softplus": lambda x, beta: np.logaddexp(0.0, beta * x) / beta,
    "elu": lambda x, alpha: np.where(x > 0.0, x, alpha * np.expm1(np.minimum(x, 0.0))),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "erf": special.erf,
    "abs": np.abs,
    "square": np.square,
    "reciprocal": lambda x: 1.0 / x,
    "power": lambda x, exponent: x**exponent,
}
"""Functions of single numbers; slopes, ends, exponents are floats in `data`."""

OPERATIONS: Mapping[str, Callable[..., Floats]] = {
    "input": lambda: np.zeros(0),
    "constant": lambda value: value[None],
    "linear": _linear,
    "matmul": _matmul,
    "add": _elementwise(np.add),
    "subtract": _elementwise(np.subtract),
    "multiply": _elementwise(np.multiply),
    "divide": _elementwise(np.divide),
    "scale": _scale,
    "shift": _shift,
    **ELEMENTWISE,
    "softmax": _softmax,
    "sum": _reduced(np.sum),
    "mean": _reduced(np.mean),
    "max": _reduced(np.max),
    "normalise": _normalise,
    "reshape": lambda x, shape: x.reshape(x.shape[0], *shape),
    "transpose": lambda x, axes: x.transpose(0, *_behind(axes)),
    "concat": lambda *values, axis: np.concatenate(_one_batch(values), axis=axis + 1),
    "gather": _gather,
}
"""What an operation does to values (b, *shape), with its `data` as keywords.

constant(value) · linear(weight, bias) · scale(factor) · shift(by) · leaky_relu(slope) · clip(low, high) ·
softplus(beta) · elu(alpha) · power(exponent) · softmax(axis) · sum, mean, max(axes, keep) · normalise(axes, epsilon) ·
reshape(shape) · transpose(axes) · concat(axis) · gather(axis, indices); axes are nonnegative and leave the batch out.
"""


def _one_batch(values: tuple[Floats, ...]) -> list[Floats]:
    """Values of one number of points: constants are repeated."""
    count = max(len(value) for value in values)
    return [np.broadcast_to(value, (count, *value.shape[1:])) for value in values]
