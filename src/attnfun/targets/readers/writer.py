"""What readers share: operations on values and constants, written into a graph.

An argument is a `Value`, which depends on the input, or a NumPy array, which does not. Every value has the axes that it
has in the framework when the network is given a batch of one point: the batch is an ordinary axis of size 1.

Arithmetic on constants is not done in floats where it would be rounded: a division by a constant stays a division, and
whoever reads the graph encloses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arguments import on_one_line
from ...domains.box import Box
from ...errors import InputError, counted
from .graph import Builder, Floats, Graph, Shape


@dataclass(frozen=True)
class Value:
    """The value of a node."""

    node: int


Argument = Value | npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Reading:
    """A network that was read, and how to run it in its own framework."""

    graph: Graph
    name: str
    run: Callable[[Floats], Floats]
    """The network itself: points (B, D), flat, to values (B, m), flat."""
    dtype: np.dtype[Any]
    """In which `run` computes."""
    assumptions: tuple[str, ...] = ()
    last: str = ""
    """What a classifier does to the output of the graph: "sigmoid", "softmax", or nothing where that is a "margin" or
    margins of "pairs" of classes; empty where it is not known, or in the graph."""


def unsupported(what: str, known: Sequence[str]) -> InputError:
    """An operation that cannot be read, with those that can, by the names that users know."""
    names = sorted(name for name in known if not name.startswith("_"))
    return InputError(
        "every operation of a network must be one that can be read",
        got=on_one_line(what),
        remedy=f"These can: {', '.join(names)}.",
    )


def are_powers_of_two(numbers: Floats) -> bool:
    """Or their negatives: reciprocals of these are exact, or overflow."""
    return bool((np.abs(np.frexp(numbers)[0]) == 0.5).all())


class Writer:
    """Writes operations on values and constants into a graph.

    >>> write = Writer((2,), (1, 2))
    >>> y = write.add(write.multiply(write.input, np.array(3.0)), np.array([1.0, 2.0]))
    >>> write.graph(y).values(np.array([[1.0, 1.0]]))
    array([[4., 5.]])
    """

    def __init__(self, point_shape: Shape, input_shape: Shape) -> None:
        """The input has `point_shape` in the graph and `input_shape`, of as many numbers, in the network."""
        self.build = Builder(point_shape)
        self.name = ""
        """The layer or node that is being read."""
        self.input = self._moved("reshape", Value(0), shape=input_shape)

    def graph(self, output: Argument, batch: bool = True) -> Graph:
        """The graph with an output of shape (1, ...), which loses that axis unless it is not one of the batch."""
        value = self.value(output)
        shape = self.shape(value)[1:] if batch else self.shape(value)
        return self.build.graph(self._moved("reshape", value, shape=shape).node)

    # ------------------------------------------------------------ values

    def shape(self, argument: Argument) -> Shape:
        """As the framework has it, for one point."""
        return self.build.shape(argument.node) if isinstance(argument, Value) else argument.shape

    def value(self, argument: Argument) -> Value:
        """A constant as the value of a node."""
        return argument if isinstance(argument, Value) else self.note("constant", value=np.asarray(argument, float))

    def note(self, operation: str, *inputs: Value, **data: Any) -> Value:
        """A node, with the name of what is being read."""
        return Value(self.build.add(operation, *(value.node for value in inputs), name=self.name, **data))

    def _moved(self, operation: str, value: Value, **data: Any) -> Value:
        """A node that only moves numbers, unless it moves none."""
        shape = self.build.shape(value.node)
        same = data.get("shape") == shape or data.get("axes") == tuple(range(len(shape)))
        return value if same else self.note(operation, value, **data)

    # ------------------------------------------------------------ arithmetic

    def add(self, a: Argument, b: Argument) -> Value:
        """a + b."""
        if isinstance(a, Value) and isinstance(b, Value):
            return self.note("add", a, b)
        value, constant = (a, b) if isinstance(a, Value) else (self.value(b), a)
        return self.note("shift", value, by=np.asarray(constant, float))

    def subtract(self, a: Argument, b: Argument) -> Value:
        """a - b."""
        if isinstance(a, Value) and isinstance(b, Value):
            return self.note("subtract", a, b)
        if isinstance(b, Value):
            return self.add(self.note("scale", b, factor=np.array(-1.0)), a)
        return self.add(a, -np.asarray(b, float))

    def multiply(self, a: Argument, b: Argument) -> Value:
        """a b."""
        if isinstance(a, Value) and isinstance(b, Value):
            return self.note("square", a) if a == b else self.note("multiply", a, b)
        value, constant = (a, b) if isinstance(a, Value) else (self.value(b), a)
        return self.note("scale", value, factor=np.asarray(constant, float))

    def divide(self, a: Argument, b: Argument) -> Value:
        """a / b; by powers of two, it is a multiplication."""
        if isinstance(b, np.ndarray) and b.size and are_powers_of_two(b := np.asarray(b, float)):
            return self.multiply(a, 1.0 / b)
        return self.note("divide", self.value(a), self.value(b))

    def apply(self, function: str, x: Argument, **data: float) -> Value:
        """A function of single numbers."""
        return self.note(function, self.value(x), **data)

    def power(self, x: Argument, exponent: float) -> Value:
        """x to a constant power, squares and roots by their names."""
        named = {1.0: None, 2.0: "square", 0.5: "sqrt", -1.0: "reciprocal"}
        if exponent not in named:
            return self.apply("power", x, exponent=exponent)
        name = named[exponent]
        return self.value(x) if name is None else self.apply(name, x)

    def linear(self, x: Argument, weight: Floats, bias: Floats | None = None) -> Value:
        """x weight + bias on the last axis."""
        value, weight = self.value(x), np.asarray(weight, float)
        width = self.shape(value)[-1] if self.shape(value) else 0
        if weight.shape[0] != width:
            whole = prod(self.build.input_shape)
            first = not any(node.operation == "linear" for node in self.build.nodes)
            raise InputError(
                f"the layer {self.name or 'linear'} must have {counted(width, 'input')}, as many as it is given here",
                got=weight.shape[0],
                remedy=f"Give a domain= of {counted(weight.shape[0], 'variable')}, not of {whole}." if first else "",
            )
        constant = np.zeros(weight.shape[1]) if bias is None else np.asarray(bias, float)
        return self.note("linear", value, weight=weight, bias=np.broadcast_to(constant, (weight.shape[1],)))

    def matmul(self, a: Argument, b: Argument) -> Value:
        """Products of matrices in the last two axes."""
        if isinstance(b, np.ndarray) and b.ndim == 2:
            return self.linear(a, b)
        if isinstance(b, np.ndarray) and b.ndim == 1:
            product = self.linear(a, b[:, None])
            return self.reshape(product, self.shape(product)[:-1])
        if isinstance(a, np.ndarray) and a.ndim == 2 and len(self.shape(b)) >= 2:  # (B^T A^T)^T
            return self.swap(self.linear(self.swap(b), a.T))
        return self.note("matmul", self.value(a), self.value(b))

    # ------------------------------------------------------------ along axes

    def axis(self, x: Argument, axis: int) -> int:
        """A nonnegative axis."""
        rank = len(self.shape(x))
        if not -rank <= axis < rank:
            raise InputError(f"{self.name} must act on one of {rank} axes", got=axis)
        return int(axis) % rank

    def softmax(self, x: Argument, axis: int) -> Value:
        """Along one axis."""
        return self.note("softmax", self.value(x), axis=self.axis(x, axis))

    def reduce(self, operation: str, x: Argument, axes: Sequence[int] | None, keep: bool) -> Value:
        """ "sum", "mean" or "max" along some axes, all of them if none are given."""
        every = range(len(self.shape(x)))
        chosen = tuple(sorted(self.axis(x, axis) for axis in (every if axes is None else axes)))
        return self.note(operation, self.value(x), axes=chosen, keep=bool(keep))

    def layer_norm(
        self, x: Argument, axes: Sequence[int], epsilon: float, scale: Floats | None, shift: Floats | None
    ) -> Value:
        """(x - mean)/sqrt(var + epsilon), scaled and shifted."""
        value = self.note(
            "normalise", self.value(x), axes=tuple(self.axis(x, axis) for axis in axes), epsilon=float(epsilon)
        )
        value = value if scale is None else self.multiply(value, scale)
        return value if shift is None else self.add(value, shift)

    def batch_norm(
        self, x: Argument, mean: Floats, variance: Floats, scale: Floats | None, shift: Floats | None, epsilon: float
    ) -> Value:
        """(x - mean)/sqrt(variance + epsilon), scaled and shifted, with stored numbers for each entry of axis 1."""
        column = (-1, *(1,) * (len(self.shape(x)) - 2))
        centred = self.subtract(x, np.reshape(mean, column))
        deviation = self.apply("sqrt", self.add(self.value(np.reshape(variance, column)), np.array(epsilon)))
        value = self.divide(centred, deviation)
        value = value if scale is None else self.multiply(value, np.reshape(scale, column))
        return value if shift is None else self.add(value, np.reshape(shift, column))

    def attention(self, query: Argument, key: Argument, value: Argument, scale: float | None = None) -> Value:
        """softmax(query key^T scale) value; without a scale it is one over the root of the size of a head."""
        scores = self.matmul(query, self.swap(key))
        size = self.shape(query)[-1]
        root = self.apply("sqrt", np.array(float(size)))
        exact = np.array(1.0 / np.sqrt(size)) if are_powers_of_two(np.array(np.sqrt(float(size)))) else None
        if scale is not None or exact is not None:
            scores = self.multiply(scores, np.array(scale) if scale is not None else exact)  # type: ignore[arg-type]
        else:
            scores = self.divide(scores, root)
        return self.matmul(self.softmax(scores, -1), value)

    # ------------------------------------------------------------ moves

    def reshape(self, x: Argument, shape: Sequence[int]) -> Value:
        """Another shape; one size may be -1."""
        known, total = prod(size for size in shape if size != -1), prod(self.shape(x))
        sizes = tuple(int(size) if size != -1 else total // max(known, 1) for size in shape)
        if prod(sizes) != total:
            raise InputError(f"{self.name or 'a reshape'} must keep {total} numbers a point", got=tuple(shape))
        return self._moved("reshape", self.value(x), shape=sizes)

    def transpose(self, x: Argument, axes: Sequence[int]) -> Value:
        """Axes in another order."""
        return self._moved("transpose", self.value(x), axes=tuple(self.axis(x, axis) for axis in axes))

    def swap(self, x: Argument, first: int = -2, second: int = -1) -> Value:
        """Two axes exchanged."""
        axes = list(range(len(self.shape(x))))
        axes[first], axes[second] = axes[second], axes[first]
        return self.transpose(x, axes)

    def gather(self, x: Argument, axis: int, indices: npt.ArrayLike) -> Value:
        """Entries with these numbers along an axis; negative ones count from the end."""
        place = self.axis(x, axis)
        size, numbers = self.shape(x)[place], np.asarray(indices, dtype=np.int64)
        if numbers.size and not (-size <= numbers.min() and numbers.max() < size):
            raise InputError(f"{self.name} must take entries of {size}", got=numbers.tolist())
        flat = np.where(numbers < 0, numbers + size, numbers).ravel()
        if numbers.ndim == 1 and np.array_equal(flat, np.arange(size)):
            return self.value(x)
        taken = self.note("gather", self.value(x), axis=place, indices=flat)
        shape = self.shape(x)
        return self.reshape(taken, (*shape[:place], *numbers.shape, *shape[place + 1 :]))

    def concat(self, parts: Sequence[Argument], axis: int) -> Value:
        """Side by side along an axis."""
        return self.note("concat", *(self.value(part) for part in parts), axis=self.axis(parts[0], axis))

    def convolution(
        self,
        x: Argument,
        weight: Floats,
        bias: Floats | None,
        strides: Shape,
        pads: Shape,
        dilations: Shape,
        groups: int,
    ) -> Value:
        """A convolution (1, c, *sizes) as a linear map of all numbers; pads are those before, then those after."""
        shape, kernel = self.shape(x)[1:], weight.shape[2:]
        spans = [dilation * (size - 1) + 1 for size, dilation in zip(kernel, dilations, strict=True)]
        before, after = pads[: len(kernel)], pads[len(kernel) :]
        sizes = tuple(
            (size + b + a - span) // stride + 1
            for size, b, a, span, stride in zip(shape[1:], before, after, spans, strides, strict=True)
        )
        outputs, each, channels = weight.shape[0], weight.shape[0] // groups, weight.shape[1]
        if channels * groups != shape[0]:
            raise InputError(f"the layer {self.name} must have {shape[0]} channels", got=channels * groups)
        matrix = np.zeros((*shape, outputs, *sizes))
        for place in np.ndindex(*sizes):
            for offset in np.ndindex(*kernel):
                source = tuple(
                    p * s - b + o * d for p, s, b, o, d in zip(place, strides, before, offset, dilations, strict=True)
                )
                if all(0 <= k < size for k, size in zip(source, shape[1:], strict=True)):
                    for out in range(outputs):
                        start = out // each * channels
                        matrix[(slice(start, start + channels), *source, out, *place)] = weight[
                            (out, slice(None), *offset)
                        ]
        flat = self.reshape(x, (1, -1))
        offsets = None if bias is None else np.repeat(bias, prod(sizes))
        mapped = self.linear(flat, matrix.reshape(prod(shape), -1), offsets)
        return self.reshape(mapped, (1, outputs, *sizes))


def shapes_of_one(domain: Box) -> list[Shape]:
    """How a network may want one point of a domain: as it is, or flat."""
    return list(dict.fromkeys([(1, *(domain.shape or (1,))), (1, domain.size), (1, *domain.shape)]))
