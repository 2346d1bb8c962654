"""What is compiled of a classifier: its logits, its probabilities or its margins.

With logits `z` of k classes, probabilities are `softmax(z)`, and margins are `z_i - max_{j≠i} z_j`: positive for the
class that is predicted and for no other one. With one logit z, the probability of the second class is `1/(1 +
exp(-z))`, and the margin is z itself, positive where the second class is predicted.
"""

from __future__ import annotations

import numpy as np

from ...errors import InputError
from .graph import Builder, Graph
from .writer import Reading

OUTPUTS = ("logits", "probabilities", "margin")


def with_output(reading: Reading, output: str) -> Graph:
    """The graph of a classifier with this output.

    A network that ends in a softmax or a sigmoid has its logits before it; of any other one the output is logits.
    """
    graph, last = reading.graph, reading.last
    build = Builder(graph.input_shape, list(graph.nodes))
    end = graph.output
    while graph.nodes[end].operation == "reshape":
        end = graph.nodes[end].inputs[0]
    if graph.nodes[end].operation in ("softmax", "sigmoid") and not last:
        last, logits = graph.nodes[end].operation, graph.nodes[end].inputs[0]
        shape = graph.output_shape
        logits = build.add("reshape", logits, shape=shape)
    else:
        logits = graph.output
    shape = build.shape(logits)
    classes = shape[-1] if shape else 1
    if len(shape) > 1 and shape[:-1] != (1,) * (len(shape) - 1):
        raise InputError(f"a classifier must have one axis of classes for output={output!r}", got=shape)
    if output == "logits":
        return build.graph(logits)
    if last == "pairs" or (last == "margin" and output == "probabilities"):
        what = "pairs of classes" if last == "pairs" else "margins"
        raise InputError(
            f"output={output!r} cannot be computed for {reading.name}, which has {what} only",
            got=output,
            remedy='Leave output= out, or write output="logits".',
        )
    if output == "probabilities":
        kind = last or ("softmax" if classes > 1 else "sigmoid")
        data = {"axis": len(shape) - 1} if kind == "softmax" else {}
        return build.graph(build.add(kind, logits, name="probabilities", **data))
    if classes == 1 or last == "sigmoid":
        return build.graph(logits)
    others = np.array([[j for j in range(classes) if j != i] for i in range(classes)])  # (k, k - 1)
    rivals = build.add("gather", logits, axis=len(shape) - 1, indices=others.ravel(), name="margin")
    table = build.add("reshape", rivals, shape=(classes, classes - 1), name="margin")
    best = build.add("max", table, axes=(1,), keep=False, name="margin")
    flat = build.add("reshape", logits, shape=(classes,), name="margin")
    return build.graph(build.add("subtract", flat, best, name="margin"))
