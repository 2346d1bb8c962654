"""A network that is not piecewise linear, as a target."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...arithmetic import Interval
from ...domains.box import Box
from ...formula.circuits import Circuit
from ..base import Status, Target, refuse_nonfinite
from ..expression import LIBRARY_ASSUMPTION
from .circuits import circuit_of, enclosed
from .graph import Floats, Graph


class NetworkFunction(Target):
    """The function of a graph, in real arithmetic on its constants."""

    graph: Graph
    name: str
    given: tuple[str, ...]
    """What is assumed of how the network runs."""
    output: str | None
    """What of a classifier is meant."""
    status = Status.PROVED
    kind = "network"

    def __init__(
        self,
        graph: Graph,
        domain: Box,
        output_shape: tuple[int, ...],
        name: str,
        given: tuple[str, ...] = (),
        output: str | None = None,
    ) -> None:
        vars(self).update(graph=graph, domain=domain, output_shape=output_shape, name=name, given=given, output=output)
        vars(self).update(assumptions=self.granted(given))

    @staticmethod
    def granted(given: Sequence[str]) -> tuple[str, ...]:
        """What is taken for granted of a network that runs as is said."""
        return (*given, LIBRARY_ASSUMPTION)

    def values(self, rows: Floats) -> Floats:
        """The graph in float64."""
        points = rows.reshape(-1, *self.graph.input_shape)
        return refuse_nonfinite(self, rows, self.graph.values(points).reshape(len(rows), -1))  # (B, m)

    def enclose(self, boxes: Interval) -> Interval:
        """The graph in interval arithmetic."""
        value = enclosed(self.graph, boxes)[self.graph.output]
        shape = (len(boxes), *self.graph.output_shape)
        low, high, defined = (
            np.broadcast_to(np.broadcast_to(part, value.shape), shape).reshape(len(boxes), -1)
            for part in (value.lo, value.hi, value.defined)
        )
        return Interval(low, high, defined)

    def circuit(self) -> Circuit | None:
        """The graph as affine maps and functions of one variable."""
        return self._circuit

    @property
    def may_jump(self) -> bool:
        """All operations are continuous where they are defined."""
        return False

    @cached_property
    def _circuit(self) -> Circuit | None:
        return circuit_of(self.graph, self.domain)

    def as_dict(self) -> dict[str, Any]:
        """Kind and name; the network itself is not stored."""
        said = {"assumptions": list(self.given), "output": self.output}
        return {"kind": self.kind, "name": self.name, **{name: what for name, what in said.items() if what}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {self.domain!r})"
