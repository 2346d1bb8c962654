"""From a graph of affine maps and rectifiers to stages: what readers of PyTorch, scikit-learn and ONNX share.

Nothing is multiplied out: the stages are the given network in real arithmetic, with its very weights. Values that are
needed later travel along as units that are not clipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .base import Floats
from .piecewise import Stage


@dataclass(frozen=True, eq=False)
class Node:
    """An operation on earlier values: an affine map of one or two, then a clip or a leak if any."""

    sources: tuple[int, ...]
    weights: tuple[Floats, ...]  # (d, m) each
    bias: Floats  # (m,)
    low: float = -np.inf
    high: float = np.inf
    leak: float | None = None
    """Slope of the negative side, for a leaky rectifier."""

    @property
    def is_affine(self) -> bool:
        """Nothing but an affine map."""
        return self.low == -np.inf and self.high == np.inf and self.leak is None


class Graph:
    """Collects operations; value 0 is the input, and every operation returns the number of a new value."""

    def __init__(self, size: int) -> None:
        self.widths, self.nodes = [size], list[Node]()

    def linear(self, source: int, weight: Floats, bias: Floats) -> int:
        """`h weight + bias`."""
        if weight.shape[0] != self.widths[source]:
            raise InputError(f"a linear layer must have {self.widths[source]} inputs here", got=weight.shape[0])
        return self._add(Node((source,), (weight,), bias))

    def shift(self, source: int, bias: Floats) -> int:
        """`h + bias`, at once with the linear map before it where there is one without a bias."""
        width = self.widths[source]
        shift = np.array(np.broadcast_to(bias, (width,)), dtype=np.float64)
        last = self.nodes[-1] if source == len(self.nodes) and self.nodes else None
        if last is not None and last.is_affine and not last.bias.any():
            self.nodes[-1] = Node(last.sources, last.weights, shift)
            return source
        return self.linear(source, np.eye(width), shift)

    def clip(self, source: int, low: float, high: float) -> int:
        """`clip(h, low, high)`."""
        width = self.widths[source]
        return self._add(Node((source,), (np.eye(width),), np.zeros(width), low, high))

    def leaky(self, source: int, slope: float) -> int:
        """`max(0, h) - slope max(0, -h)`."""
        width = self.widths[source]
        return self._add(Node((source,), (np.eye(width),), np.zeros(width), leak=slope))

    def add(self, first: int, second: int) -> int:
        """The sum of two values of one width."""
        width = self.widths[first]
        if self.widths[second] != width:
            raise InputError("values that are added must have one width", got=(width, self.widths[second]))
        return self._add(Node((first, second), (np.eye(width), np.eye(width)), np.zeros(width)))

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        self.widths.append(len(node.bias))
        return len(self.nodes)

    def stages(self, output: int) -> list[Stage]:
        """The graph in layers, up to one value."""
        stages, held = [], {0: slice(0, self.widths[0])}
        users = [[k for k, node in enumerate(self.nodes, 1) if v in node.sources] for v in range(len(self.widths))]
        for number, node in enumerate(self.nodes, 1):
            if number > output:
                break
            before = self.nodes[node.sources[0] - 1] if node.sources[0] else None
            joined = (
                before is not None and before.is_affine and users[node.sources[0]] == [number] and not node.is_affine
            )
            if node.is_affine and users[number] and self._joins(number, users, output):
                continue  # done together with the only operation that uses it
            whole = Node(before.sources, before.weights, before.bias) if joined and before is not None else node
            kept = {v: place for v, place in held.items() if v == output or any(k > number for k in users[v])}
            width = stages[-1].weight.shape[1] if stages else self.widths[0]
            weight = np.zeros((width, len(node.bias)))
            for source, block in zip(whole.sources, whole.weights, strict=True):
                weight[held[source]] += block
            for stage in _stages(node, weight, whole.bias, [np.eye(width)[:, place] for place in kept.values()]):
                stages.append(stage)
            held, start = {}, 0
            for value in [*kept, number]:
                held[value] = slice(start, start + self.widths[value])
                start += self.widths[value]
        if list(held) != [output]:
            place = held[output]
            stages.append(Stage.affine(np.eye(stages[-1].weight.shape[1])[:, place], np.zeros(self.widths[output])))
        return stages

    def _joins(self, number: int, users: list[list[int]], output: int) -> bool:
        """Is this affine value used by one clip only?"""
        return number != output and len(users[number]) == 1 and not self.nodes[users[number][0] - 1].is_affine


def _stages(node: Node, weight: Floats, bias: Floats, kept: list[Floats]) -> list[Stage]:
    """One operation as stages, values that are kept in front."""
    carry = np.hstack(kept) if kept else np.zeros((len(weight), 0))  # (d, c)
    along, units = carry.shape[1], len(bias)
    free = np.full(along, np.inf)
    if node.leak is None:
        low, high = np.full(units, node.low), np.full(units, node.high)
        return [
            Stage(
                np.hstack([carry, weight]),
                np.concatenate([np.zeros(along), bias]),
                np.concatenate([-free, low]),
                np.concatenate([free, high]),
            )
        ]
    both = Stage(
        np.hstack([carry, weight, -weight]),
        np.concatenate([np.zeros(along), bias, -bias]),
        np.concatenate([-free, np.zeros(2 * units)]),
        np.full(along + 2 * units, np.inf),
    )
    combine = np.zeros((along + 2 * units, along + units))
    combine[: along + units] = np.eye(along + units)
    combine[along + units :, along:] = -node.leak * np.eye(units)
    return [both, Stage.affine(combine, np.zeros(along + units))]
