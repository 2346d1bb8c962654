"""One hidden layer of rectifiers in PyTorch's and ONNX's own terms: `max(0, x inner + bias) outer + rest`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import MissingExtra

if TYPE_CHECKING:
    from .onnx_graph import Model

Floats = npt.NDArray[np.float64]
Weights = tuple[Floats, Floats, Floats, Floats]
"""inner (D, M), bias (M,), outer (M, m), rest (m,)."""


def to_torch(weights: Weights, point_shape: tuple[int, ...], value_shape: tuple[int, ...], dtype: str) -> Any:
    """A `Sequential` of stock modules, (B, *point shape) -> (B, *value shape), single numbers as (B, 1)."""
    try:
        import torch
        from torch import nn
    except ImportError:
        raise MissingExtra("torch", "torch") from None

    inner, bias, outer, rest = weights
    first, last = nn.Linear(*inner.shape), nn.Linear(*outer.shape)
    modules: list[nn.Module] = [*[nn.Flatten()] * (len(point_shape) > 1), first, nn.ReLU(), last]
    modules += [nn.Unflatten(1, value_shape)] * (len(value_shape) > 1)
    module = nn.Sequential(*modules).to(getattr(torch, dtype))
    with torch.no_grad():
        for layer, weight, shift in ((first, inner, bias), (last, outer, rest)):
            layer.weight.copy_(torch.tensor(weight.T))
            layer.bias.copy_(torch.tensor(shift))
    return module.eval()


def to_onnx(
    weights: Weights, point_shape: tuple[int, ...], value_shape: tuple[int, ...], dtype: str, known: dict[str, str]
) -> Model:
    """A checked model, "points" (batch, *point shape) to "values" (batch, *value shape)."""
    from .onnx_graph import OnnxGraph, assemble, check_dtype

    check_dtype(dtype)
    inner, bias, outer, rest = weights
    graph = OnnxGraph(dtype)
    graph.part = "rectifiers"
    rows = graph.reshape(graph.wide("points"), -1, prod(point_shape))  # (B, D)
    hidden = graph.node("Relu", graph.linear(rows, "inner", inner, bias))  # (B, M)
    values = graph.linear(hidden, "outer", outer, rest)  # (B, m)
    graph.narrow(graph.reshape(values, -1, *value_shape))  # (B, *value shape)
    graph.nodes[-1].output[0] = "values"
    return assemble(graph, {"points": ["batch", *point_shape]}, ("values", ["batch", *value_shape]), known)
