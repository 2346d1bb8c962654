"""Layers that are functions of other operations, for every reader: they have no nodes of their own in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from .graph import Floats
from .writer import Argument, Value, Writer, unsupported

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def selu(write: Writer, x: Argument, alpha: float = SELU_ALPHA, scale: float = SELU_SCALE) -> Value:
    """`scale elu(x, alpha)`."""
    return write.multiply(write.apply("elu", x, alpha=alpha), np.array(scale))


def celu(write: Writer, x: Argument, alpha: float) -> Value:
    """`alpha elu(x/alpha)`."""
    scaled = write.divide(write.value(x), np.array(alpha))
    return write.multiply(write.apply("elu", scaled, alpha=1.0), np.array(alpha))


def hard_sigmoid(write: Writer, x: Argument) -> Value:
    """`clip(x + 3, 0, 6)/6`."""
    return write.divide(write.apply("clip", write.add(x, np.array(3.0)), low=0.0, high=6.0), np.array(6.0))


def hard_swish(write: Writer, x: Argument) -> Value:
    """`x clip(x + 3, 0, 6)/6`."""
    return write.multiply(x, hard_sigmoid(write, x))


def mish(write: Writer, x: Argument) -> Value:
    """`x tanh(log(1 + e^x))`."""
    return write.multiply(x, write.apply("tanh", write.apply("softplus", x, beta=1.0)))


def log_sigmoid(write: Writer, x: Argument) -> Value:
    """`-log(1 + e^{-x})`."""
    below = write.apply("softplus", write.multiply(x, np.array(-1.0)), beta=1.0)
    return write.multiply(below, np.array(-1.0))


def softsign(write: Writer, x: Argument) -> Value:
    """`x/(1 + |x|)`."""
    return write.divide(write.value(x), write.add(write.apply("abs", x), np.array(1.0)))


def prelu(write: Writer, x: Argument, slope: Floats) -> Value:
    """`max(0, x) - slope max(0, -x)`, slopes as they stand beside x."""
    below = write.apply("relu", write.multiply(x, np.array(-1.0)))
    return write.subtract(write.apply("relu", x), write.multiply(below, slope))


def glu(write: Writer, x: Argument, axis: int) -> Value:
    """The first half along an axis times the sigmoid of the second half."""
    size = write.shape(x)[write.axis(x, axis)]
    if size % 2:
        raise unsupported(f"glu of {size} numbers ({write.name})", ["glu of an even number of them"])
    first, second = (write.gather(x, axis, np.arange(size // 2) + half) for half in (0, size // 2))
    return write.multiply(first, write.apply("sigmoid", second))


def maximum(write: Writer, a: Argument, b: Argument) -> Value:
    """`b + max(0, a - b)`."""
    return write.add(b, write.apply("relu", write.subtract(a, b)))


def minimum(write: Writer, a: Argument, b: Argument) -> Value:
    """`a - max(0, a - b)`."""
    return write.subtract(a, write.apply("relu", write.subtract(a, b)))


def pool(write: Writer, kind: str, x: Argument, kernel: Sequence[int], strides: Sequence[int]) -> Value:
    """ "max" or "mean" of windows of values (1, c, *sizes) without padding."""
    shape = write.shape(x)
    axes = tuple(range(2, len(shape)))
    if len(kernel) != len(axes) or any(span > size for span, size in zip(kernel, shape[2:], strict=False)):
        raise unsupported(f"windows of {tuple(kernel)} in {shape[1:]} ({write.name})", ["windows that fit"])
    numbers: npt.NDArray[np.int64] = np.arange(prod(shape)).reshape(shape)
    windows = np.lib.stride_tricks.sliding_window_view(numbers, tuple(kernel), axis=axes)  # (1, c, *places, *kernel)
    taken = windows[(slice(None), slice(None), *(slice(None, None, stride) for stride in strides))]
    places = taken.shape[: len(shape)]
    entries = write.gather(write.reshape(x, (1, -1)), 1, taken.reshape(-1))
    return write.reduce(kind, write.reshape(entries, (*places, prod(kernel))), [-1], keep=False)
