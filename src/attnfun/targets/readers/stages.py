"""Affine maps and rectifiers, put in order as stages of a piecewise-linear target.

Nothing is multiplied out: the stages are the given network in real arithmetic, with its very weights. Values that are
needed later travel along as units that are not clipped. Steps are never changed once they are there: what can be done
in one stage is found out when all their users are known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...errors import InputError
from ..piecewise import Stage
from .graph import Floats


@dataclass(frozen=True, eq=False)
class AffineStep:
    """An operation on earlier values: an affine map of one or two, then a clip or a leak if any."""

    sources: tuple[int, ...]
    weights: tuple[Floats, ...]  # (d, m) each
    bias: Floats  # (m,)
    low: float = -np.inf
    high: float = np.inf
    leak: float | None = None
    """Slope of the negative side, for a leaky rectifier."""
    unweighted: bool = False
    """Is the weight the identity?"""

    @property
    def is_affine(self) -> bool:
        """Nothing but an affine map."""
        return self.low == -np.inf and self.high == np.inf and self.leak is None


class Stages:
    """Collects operations; value 0 is the input, and every operation returns the number of a new value."""

    def __init__(self, size: int) -> None:
        self.widths, self.nodes = [size], list[AffineStep]()

    def linear(self, source: int, weight: Floats, bias: Floats) -> int:
        """`h weight + bias`."""
        if weight.shape[0] != self.widths[source]:
            raise InputError(f"a linear layer must have {self.widths[source]} inputs here", got=weight.shape[0])
        return self._add(AffineStep((source,), (weight,), bias))

    def shift(self, source: int, bias: Floats) -> int:
        """`h + bias`."""
        width = self.widths[source]
        shift = np.array(np.broadcast_to(bias, (width,)), dtype=np.float64)
        return self._add(AffineStep((source,), (np.eye(width),), shift, unweighted=True))

    def scale(self, source: int, factors: Floats) -> int:
        """`h * factors`, feature by feature."""
        width = self.widths[source]
        return self._add(AffineStep((source,), (np.diag(np.broadcast_to(factors, (width,))),), np.zeros(width)))

    def clip(self, source: int, low: float, high: float) -> int:
        """`clip(h, low, high)`."""
        width = self.widths[source]
        return self._add(AffineStep((source,), (np.eye(width),), np.zeros(width), low, high, unweighted=True))

    def leaky(self, source: int, slope: float) -> int:
        """`max(0, h) - slope max(0, -h)`."""
        width = self.widths[source]
        return self._add(AffineStep((source,), (np.eye(width),), np.zeros(width), leak=slope, unweighted=True))

    def add(self, first: int, second: int) -> int:
        """The sum of two values of one width."""
        width = self.widths[first]
        if self.widths[second] != width:
            raise InputError("values that are added must have the same width", got=(width, self.widths[second]))
        return self._add(AffineStep((first, second), (np.eye(width), np.eye(width)), np.zeros(width)))

    def combine(self, sources: list[int], weights: list[Floats], bias: Floats) -> int:
        """`Σ h_k weights_k + bias`, weights (d_k, m); no value occurs twice."""
        return self._add(AffineStep(tuple(sources), tuple(weights), bias))

    def _add(self, node: AffineStep) -> int:
        self.nodes.append(node)
        self.widths.append(len(node.bias))
        return len(self.nodes)

    def stages(self, output: int) -> list[Stage]:
        """The operations in layers, up to one value; at least one stage."""
        if output == 0:
            return [Stage.affine(np.eye(self.widths[0]), np.zeros(self.widths[0]))]
        stages, held = [], {0: slice(0, self.widths[0])}
        nodes = self._joined(output)
        users = _users(nodes, output)
        for number, node in enumerate(nodes, 1):
            if number != output and not users[number]:
                continue
            kept = {v: place for v, place in held.items() if users[v][-1] > number}
            width = stages[-1].weight.shape[1] if stages else self.widths[0]
            weight = np.zeros((width, len(node.bias)))
            for source, block in zip(node.sources, node.weights, strict=True):
                weight[held[source]] += block
            for stage in _stages(node, weight, [np.eye(width)[:, place] for place in kept.values()]):
                stages.append(stage)
            held, start = {}, 0
            for value in [*kept, number]:
                held[value] = slice(start, start + self.widths[value])
                start += self.widths[value]
        return stages

    def _joined(self, output: int) -> list[AffineStep]:
        """The nodes up to the output; an affine map that only a shift, a clip or a leak reads is done with it."""
        nodes, users = self.nodes[:output], _users(self.nodes[:output], output)
        for number, node in enumerate(nodes, 1):
            source = node.sources[0]
            if not node.unweighted or source == 0 or users[source] != [number]:
                continue
            before = nodes[source - 1]
            if before.is_affine and not (before.bias.any() and node.bias.any()):  # nothing is added in floats
                bias = before.bias if before.bias.any() else node.bias
                nodes[number - 1] = replace(
                    node, sources=before.sources, weights=before.weights, bias=bias, unweighted=before.unweighted
                )
        return nodes


def _users(nodes: list[AffineStep], output: int) -> list[list[int]]:
    """By value, the operations that the output needs and that read it."""
    needed, users = {output}, [list[int]() for _ in range(len(nodes) + 1)]
    for number in reversed(range(1, len(nodes) + 1)):
        if number in needed:
            for source in set(nodes[number - 1].sources):
                needed.add(source)
                users[source].insert(0, number)
    return users


def _stages(node: AffineStep, weight: Floats, kept: list[Floats]) -> list[Stage]:
    """One operation as stages, values that are kept in front."""
    bias = node.bias
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
