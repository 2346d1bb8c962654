"""READ: networks of other frameworks as graphs of operations, and graphs as targets.

`read_graph` reads a network into a graph (`graph.py`), one file a framework, and compares the graph with the network's
own output. `read_network` makes a target of it: a piecewise-linear one where all weights are the network's own
(`rectifiers.py`), else one whose circuit encloses it (`circuits.py`).
"""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np

from ...arguments import one_of
from ...domains.box import Box
from ...errors import InputError, shown
from ..base import Target
from ..piecewise import PiecewiseLinear
from . import comparison
from .graph import Graph, Node
from .network_function import NetworkFunction
from .onnx_files import FIXED, in_file, is_onnx, read_onnx
from .onnx_files import folded as folded_in_file
from .outputs import OUTPUTS, with_output
from .rectifiers import stages_of
from .scikit_learn import is_sklearn, read_sklearn
from .torch_modules import evaluation_mode, folded, is_torch, read_torch, smooth
from .writer import Reading

__all__ = ["OUTPUTS", "Graph", "NetworkFunction", "Node", "Reading", "read_graph", "read_network", "says_how_it_runs"]


def read_graph(model: object, domain: Box) -> Reading | None:
    """A network of another framework as a graph, compared with its own output; None if it is nothing of the kind."""
    if is_onnx(model):
        reading = read_onnx(Path(str(model)), domain)
    elif is_torch(model):
        reading = read_torch(model, domain)
    elif is_sklearn(model):
        reading = read_sklearn(model, domain)
    else:
        return None
    for node in reading.graph.nodes:
        for name, array in node.data.items():
            if isinstance(array, np.ndarray) and not np.isfinite(array).all():
                raise InputError(
                    "the weights of a network must be finite", got=f"infinite ones or NaN in {name} of {node}"
                )
    comparison.refuse_misread(reading, domain)
    return reading


def read_network(model: object, domain: Box, output: str | None = None) -> Target | None:
    """A network of another framework as a target, or None if it is nothing of the kind."""
    reading = read_graph(model, domain)
    if reading is None and output is not None:
        raise InputError(
            "output= must be for a classifier from PyTorch, scikit-learn or ONNX",
            got=f"output={shown(output)} for {type(model).__name__}",
            remedy="Leave output= out.",
        )
    if reading is None:
        return None
    graph = reading.graph if output is None else with_output(reading, one_of("output", output, OUTPUTS))
    shape = _output_shape(graph, domain)
    stages = stages_of(graph)
    if stages is None:
        return NetworkFunction(graph, domain, shape, reading.name, reading.assumptions, output)
    return PiecewiseLinear(stages, domain, shape, reading.name, reading.assumptions)


def _output_shape(graph: Graph, domain: Box) -> tuple[int, ...]:
    """Outputs on sequences are of shape (n, ...) where that comes out even; others a number or a vector."""
    shape, width, length = graph.output_shape, prod(graph.output_shape), domain.tokens[0]
    if len(domain.shape) == 2:
        return (length, width // length) if width % length == 0 else (width,)
    return shape if len(shape) < 2 else (width,)


def says_how_it_runs(line: str, name: str) -> bool:
    """Is it an assumption about a network of this name, from a reader?"""
    own = {evaluation_mode(name), folded(name), folded_in_file(name), smooth(name)}
    return line in own or (line.startswith(FIXED) and line.endswith(in_file(name)))
