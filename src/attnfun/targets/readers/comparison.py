"""Is what was read the network itself? Its own output at points of the domain against the values of the graph.

Both are rounded, in their own order, so they differ a little. How much they may differ is worked out along the graph:
every value has a number beside it, about the largest error that rounding can have made of it. No tolerance is chosen.
The comparison finds mistakes; it does not prove that there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...arithmetic.directed import LIBRARY_ULPS
from ...domains.box import Box
from ...errors import InputError
from ...formula.agreement import rows_of
from .graph import ELEMENTWISE, OPERATIONS, Floats, Graph, Node
from .writer import Reading


def refuse_misread(reading: Reading, domain: Box) -> None:
    """Compare a graph with its network at the corners `lo`, `hi` and random points; InputError where they differ."""
    low, high = domain.lo.reshape(1, -1), domain.hi.reshape(1, -1)
    rows = np.vstack([low, high, rows_of(domain)]).astype(reading.dtype).astype(np.float64)  # (B, D)
    last = _measured(reading.graph, rows.reshape(-1, *reading.graph.input_shape), reading.dtype)
    if reading.last in ("sigmoid", "softmax"):
        axis = len(reading.graph.output_shape) - 1
        last = _through(
            Node(reading.last, (), {"axis": axis} if reading.last == "softmax" else {}, (), ""), [last], last.unit
        )
    size = prod(last.value.shape[1:])
    values, error = (
        np.broadcast_to(part, (len(rows), *last.value.shape[1:])).reshape(-1, size) for part in (last.value, last.error)
    )
    found = np.asarray(reading.run(rows.copy()), dtype=np.float64)
    if found.size != values.size:
        raise InputError(
            f"{reading.name} must return {size} numbers per point, as its graph does",
            got=f"shape {found.shape} for {len(rows)} points",
        )
    found = found.reshape(values.shape)
    for row, column in np.argwhere(~(np.abs(found - values) <= error))[:1]:
        raise InputError(
            f"the network read from {reading.name} must have the outputs of {reading.name}",
            got=f"{values[row, column]:.9g} as it was read and {found[row, column]:.9g} as it runs, at "
            f"{rows[row].tolist()}",
            remedy="Write it with plain layers, without operations in place, state or hooks.",
        )


@dataclass(frozen=True, eq=False)
class _Measured:
    """A value and about how far rounding may have moved it."""

    value: Floats
    error: Floats
    unit: float
    """Four times the unit roundoff of the coarser arithmetic: both sides round, and errors of errors are left out."""

    def rounded(self, times: float = 1.0) -> _Measured:
        """The value after so many further roundings."""
        with np.errstate(all="ignore"):
            error = self.error + times * self.unit * np.abs(self.value) + _LEAST
        return _Measured(self.value, error, self.unit)


_LEAST = float(np.finfo(np.float32).tiny)
"""Numbers below this may vanish."""


def _measured(graph: Graph, points: Floats, dtype: np.dtype[Any]) -> _Measured:
    """The output with its error."""
    unit = 2 * float(np.finfo(dtype).eps)
    done = list[_Measured]()
    with np.errstate(all="ignore"):
        for node in graph.nodes[: graph.output + 1]:
            if node.operation == "input":
                done.append(_Measured(points, np.zeros_like(points), unit))
            else:
                done.append(_through(node, [done[k] for k in node.inputs], unit))
    return done[graph.output]


def _through(node: Node, inputs: list[_Measured], unit: float) -> _Measured:
    """One operation on measured values."""
    run: Callable[..., Floats] = OPERATIONS[node.operation]
    values, errors = [each.value for each in inputs], [each.error for each in inputs]
    value = run(*values, **node.data)
    sizes = [np.abs(each) for each in values]
    match node.operation:
        case "constant":
            return _Measured(value, np.zeros_like(value), unit)
        case "linear":
            weight, bias = np.abs(node.data["weight"]), np.abs(node.data["bias"])
            terms = (len(weight) + 2) * (unit * (sizes[0] @ weight + bias + errors[0] @ weight) + _LEAST)
            return _Measured(value, errors[0] @ weight + terms, unit)
        case "matmul" | "multiply":
            crossed = run(sizes[0], errors[1]) + run(errors[0], sizes[1]) + run(*errors)
            terms = values[0].shape[-1] + 2 if node.operation == "matmul" else 1
            return _Measured(value, crossed + terms * (unit * run(*sizes) + _LEAST), unit)
        case "divide":
            relative = run(errors[1], sizes[1])
            return _Measured(value, (run(errors[0], sizes[1]) + np.abs(value) * relative) * 2, unit).rounded()
        case "add" | "subtract":
            return _Measured(value, OPERATIONS["add"](*errors), unit).rounded()
        case "scale":
            return _Measured(value, run(errors[0], factor=np.abs(node.data["factor"])), unit).rounded()
        case "shift":
            return _Measured(value, run(errors[0], by=np.zeros_like(node.data["by"])), unit).rounded()
        case "sum" | "mean":
            terms = (values[0].size // value.size + 2) * unit * run(sizes[0], **node.data)
            return _Measured(value, run(errors[0], **node.data) + terms + _LEAST, unit)
        case "softmax":
            largest = errors[0].max(axis=node.data["axis"] + 1, keepdims=True)
            spread = np.abs(values[0]).max(axis=node.data["axis"] + 1, keepdims=True)
            shift = (
                np.expm1(2 * largest + 4 * unit * (1 + spread))
                + (values[0].shape[node.data["axis"] + 1] + LIBRARY_ULPS) * unit
            )
            return _Measured(value, value * shift + _LEAST, unit)
        case "normalise":
            return _normalised(node, inputs[0], value)
        case name if name in ELEMENTWISE:
            near = [np.abs(run(values[0] + sign * errors[0], **node.data) - value) for sign in (1.0, -1.0)]
            sensitivity = 2 * np.maximum(*near) + 4 * unit * np.minimum(sizes[0], 1.0)  # steps of x inside a function
            return _Measured(value, np.where(np.isnan(sensitivity), np.inf, sensitivity), unit).rounded(LIBRARY_ULPS)
        case "max":
            return _Measured(
                value, np.max(errors[0], axis=tuple(k + 1 for k in node.data["axes"]), keepdims=node.data["keep"]), unit
            )
        case _:  # numbers are moved
            return _Measured(value, run(*errors, **node.data), unit)


def _normalised(node: Node, x: _Measured, value: Floats) -> _Measured:
    """(x - mean)/sqrt(var + epsilon), step by step."""
    axes = tuple(axis + 1 for axis in node.data["axes"])
    count = prod(x.value.shape[axis] for axis in axes)
    centred = x.value - x.value.mean(axis=axes, keepdims=True)
    largest = np.abs(x.value).max(axis=axes, keepdims=True)
    off = x.error + x.error.mean(axis=axes, keepdims=True) + (count + 3) * x.unit * largest  # of centred
    variance = (centred**2).mean(axis=axes, keepdims=True) + node.data["epsilon"]
    spread = (2 * np.abs(centred) * off + off**2).mean(axis=axes, keepdims=True) + (count + 4) * x.unit * variance
    root = np.sqrt(variance)
    error = off / root + np.abs(centred) * spread / variance / root
    return _Measured(value, 2 * error + _LEAST, x.unit).rounded(4)
