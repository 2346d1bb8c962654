"""What a certificate of given networks claims, as data: for files, and for the judge.

A claim is `y M + c <= bounds` on a box: y are the outputs of a network, their differences from those of another one,
or from a formula, each in the number format named. `attnfun.judge.given` reads it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..domains.box import Box
from ..judge import GivenVerdict, Limits, given_claim, judge_given
from ..network import storage
from ..resources.deadline import Deadline
from ..targets.readers.graph import Graph, Node
from .forms import Floats

OUTPUTS, DIFFERENCE, ERROR = "outputs", "difference", "error"


@dataclass(frozen=True, eq=False)
class NetworkClaim:
    """Affine quantities of given networks, and bounds on them."""

    kind: str
    graphs: tuple[Graph, ...]
    domain: Box
    dtype: str
    matrix: Floats
    """From outputs to quantities, (m, Q)."""
    offset: Floats
    bounds: Floats
    formula: str | None = None
    """The text of the target, of an error; None if the target is no formula."""

    def packed(self, status: str, assumptions: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
        """A JSON-ready description, and the arrays."""
        arrays: dict[str, Any] = {"matrix": self.matrix, "offset": self.offset, "bounds": self.bounds}
        graphs = []
        for number, graph in enumerate(self.graphs):
            nodes = [_node(node, f"{number}.{k}.", arrays) for k, node in enumerate(graph.nodes)]
            graphs.append({"nodes": nodes, "output": graph.output, "shape": list(graph.input_shape)})
        words = {"kind": self.kind, "graphs": graphs, "domain": self.domain.as_dict(), "dtype": self.dtype}
        words |= {"status": status, "assumptions": list(assumptions)}
        return {"given": words | ({} if self.formula is None else {"formula": self.formula})}, arrays

    def save(self, path: str | os.PathLike[str], status: str, assumptions: tuple[str, ...]) -> None:
        """Write it to a safetensors file."""
        description, arrays = self.packed(status, assumptions)
        storage.write(path, arrays, description)


def both_ways(count: int) -> tuple[Floats, Floats]:
    """The matrix and the offset of all outputs and their negatives."""
    return np.concatenate([np.eye(count), -np.eye(count)], axis=1), np.zeros(2 * count)


def _node(node: Node, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """A node in words; its arrays are put beside."""
    own = {name: value for name, value in node.data.items() if isinstance(value, np.ndarray)}
    arrays |= {prefix + name: np.ascontiguousarray(value) for name, value in own.items()}
    data = {name: _plain(value) for name, value in node.data.items() if name not in own}
    return {"operation": node.operation, "inputs": list(node.inputs), "data": data, "arrays": list(own)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def is_claim(path: str | os.PathLike[str]) -> bool:
    """Is a file one that a certificate of given networks was saved to?"""
    return "given" in storage.read(path)[1]


def judge_saved(path: str | os.PathLike[str], deadline: Deadline) -> GivenVerdict:
    """What the judge says of a saved claim."""
    arrays, description = storage.read(path)
    return judge_given(given_claim(description["given"], arrays), Limits(over=lambda: deadline.over))
