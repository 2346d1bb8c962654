"""Trained rectifier networks as targets: PyTorch modules, scikit-learn multi-layer perceptrons, ONNX files.

A package is only touched if the user's own object comes from it; files need the extra `onnx`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..domain import Box
from ..errors import FileFormatError, InputError, MissingExtra
from .base import Floats
from .graphs import Graph
from .piecewise import PiecewiseLinear


def read_network(target: object, domain: Box) -> PiecewiseLinear | None:
    """A rectifier network from another framework as a target, or None if it is nothing of the kind."""
    if isinstance(target, Path) or (isinstance(target, str) and target.endswith(".onnx")):
        return _read_onnx(Path(target), domain)
    origins = {kind.__module__.split(".")[0] + "." + kind.__name__ for kind in type(target).__mro__}
    if "torch.Module" in origins:
        return _read_torch(target, domain)
    if "sklearn.BaseMultilayerPerceptron" in origins:
        return _read_sklearn(target, domain)
    return None


def _target(graph: Graph, output: int, domain: Box, name: str, scalar: bool = False) -> PiecewiseLinear:
    """Outputs on sequences are reshaped to (n, ...) where that comes out even."""
    stages = graph.stages(output)
    width, length = graph.widths[output], domain.tokens[0]
    sequence = len(domain.shape) == 2 and width % length == 0
    shape = (length, width // length) if sequence else () if scalar else (width,)
    assert prod(shape) == width  # noqa: S101 - a scalar has width 1
    return PiecewiseLinear(stages, domain, shape, name)


def _unsupported(what: str, known: str) -> InputError:
    return InputError(f"every operation of a network must be one of {known}", got=what)


def _read_sklearn(model: Any, domain: Box) -> PiecewiseLinear:
    """`MLPRegressor`, `MLPClassifier`: the values before the output activation, so logits for classifiers."""
    if not hasattr(model, "coefs_"):
        raise InputError("the scikit-learn network must have been fitted", got=repr(model))
    if model.activation not in ("relu", "identity"):
        raise _unsupported(f"activation={model.activation!r}", 'activation="relu" or "identity"')
    graph = Graph(domain.size)
    value = 0
    for number, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        value = graph.linear(value, np.asarray(weight, dtype=np.float64), np.asarray(bias, dtype=np.float64))
        if number < len(model.coefs_) - 1 and model.activation == "relu":
            value = graph.clip(value, 0.0, np.inf)
    return _target(graph, value, domain, type(model).__name__, scalar=graph.widths[value] == 1)


def _read_torch(module: Any, domain: Box) -> PiecewiseLinear:
    """The operations of a module in evaluation mode, found by tracing it with `torch.fx`."""
    from torch import fx

    try:
        traced = fx.symbolic_trace(module)
    except Exception as reason:
        raise InputError("the PyTorch module must be traceable", got=f"{type(reason).__name__}: {reason}") from reason
    graph, values, modules = Graph(domain.size), dict[Any, int](), dict(traced.named_modules())
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            if values:
                raise InputError("the PyTorch module must have one input", got=node.name)
            values[node] = 0
        elif node.op == "output":
            if node.args[0] not in values:
                raise InputError("the PyTorch module must return one tensor", got=str(node.args[0]))
            return _target(graph, values[node.args[0]], domain, type(module).__name__)
        else:
            part = modules[node.target] if node.op == "call_module" else None
            name = type(part).__name__ if part is not None else str(getattr(node.target, "__name__", node.target))
            inputs = [values[argument] for argument in node.args if argument in values]
            operation = _TORCH.get(name)
            plain = part is not None or all(argument in values for argument in node.args) or name in ("flatten",)
            if operation is None or not inputs or not plain or (part is None and node.kwargs and name not in _KEYWORDS):
                raise _unsupported(f"{name} ({node.name})", ", ".join(sorted(_TORCH)))
            values[node] = operation(graph, inputs, part if part is not None else node.kwargs)
    raise InputError("the PyTorch module must return a tensor", got=repr(module))


def _numbers(tensor: Any) -> Floats:
    return tensor.detach().cpu().double().numpy()


def _torch_linear(graph: Graph, inputs: list[int], part: Any) -> int:
    weight = _numbers(part.weight).T  # (d, m)
    return graph.linear(inputs[0], weight, np.zeros(weight.shape[1]) if part.bias is None else _numbers(part.bias))


def _torch_leaky(graph: Graph, inputs: list[int], part: Any) -> int:
    slope = part.get("negative_slope", 0.01) if isinstance(part, dict) else part.negative_slope
    return graph.leaky(inputs[0], float(slope))


def _same(graph: Graph, inputs: list[int], part: Any) -> int:
    del graph, part
    return inputs[0]


def _rectify(graph: Graph, inputs: list[int], part: Any) -> int:
    del part
    return graph.clip(inputs[0], 0.0, np.inf)


_KEYWORDS = ("relu", "leaky_relu", "flatten", "relu6")
_TORCH: dict[str, Callable[[Graph, list[int], Any], int]] = {
    "Linear": _torch_linear,
    "ReLU": _rectify,
    "relu": _rectify,
    "LeakyReLU": _torch_leaky,
    "leaky_relu": _torch_leaky,
    "ReLU6": lambda graph, inputs, _: graph.clip(inputs[0], 0.0, 6.0),
    "relu6": lambda graph, inputs, _: graph.clip(inputs[0], 0.0, 6.0),
    "Hardtanh": lambda graph, inputs, part: graph.clip(inputs[0], float(part.min_val), float(part.max_val)),
    "Identity": _same,
    "Dropout": _same,
    "Flatten": _same,
    "flatten": _same,
    "add": lambda graph, inputs, _: graph.add(inputs[0], inputs[-1]),
}
"""What modules, functions and methods of PyTorch do to a graph, by their names."""


def _read_onnx(path: Path, domain: Box) -> PiecewiseLinear:
    """A file of Gemm, MatMul, Add, Relu and the like, with constant weights."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        raise MissingExtra("onnx", "onnx") from None
    if not path.is_file():
        raise FileFormatError("the ONNX file must exist", got=str(path))
    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(model)
    except Exception as reason:
        raise FileFormatError(f"{path} must be a valid ONNX file", got=str(reason).splitlines()[0]) from None
    weights = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in model.graph.initializer}
    inputs = [entry.name for entry in model.graph.input if entry.name not in weights]
    if len(inputs) != 1 or len(model.graph.output) != 1:
        raise InputError("the ONNX model must have one input and one output", got=f"{inputs}")
    graph, values = Graph(domain.size), {inputs[0]: 0}
    for node in model.graph.node:
        settings = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        if node.op_type == "Constant" and "value" in settings:
            weights[node.output[0]] = numpy_helper.to_array(settings["value"]).astype(np.float64)
            continue
        operation = _ONNX.get(node.op_type)
        if operation is None or node.domain not in ("", "ai.onnx") or not any(name in values for name in node.input):
            raise _unsupported(f"{node.op_type} ({node.name})", ", ".join(sorted(_ONNX)))
        arguments = [values[name] if name in values else weights.get(name) for name in node.input]
        values[node.output[0]] = operation(graph, arguments, settings)
    return _target(graph, values[model.graph.output[0].name], domain, path.name)


def _gemm(graph: Graph, arguments: list[Any], settings: dict[str, Any]) -> int:
    plain = settings.get("alpha", 1.0) == settings.get("beta", 1.0) == 1.0 and not settings.get("transA", 0)
    if not plain or not isinstance(arguments[0], int) or not isinstance(arguments[1], np.ndarray):
        raise _unsupported(
            f"Gemm with {settings} on variable weights", "Gemm with alpha = beta = 1 and constant weights"
        )
    weight = arguments[1].T if settings.get("transB", 0) else arguments[1]
    bias = arguments[2] if len(arguments) > 2 else 0.0
    return graph.linear(
        arguments[0], weight, np.array(np.broadcast_to(np.squeeze(bias), weight.shape[1:]), dtype=float)
    )


def _matmul(graph: Graph, arguments: list[Any], settings: dict[str, Any]) -> int:
    if not isinstance(arguments[0], int) or not isinstance(arguments[1], np.ndarray) or arguments[1].ndim != 2:
        raise _unsupported("MatMul of two variables", "MatMul with a constant matrix on the right")
    return graph.linear(arguments[0], arguments[1], np.zeros(arguments[1].shape[1]))


def _onnx_add(graph: Graph, arguments: list[Any], settings: dict[str, Any]) -> int:
    numbers = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    variables = [argument for argument in arguments if isinstance(argument, int)]
    return graph.shift(variables[0], np.squeeze(numbers[0])) if numbers else graph.add(*variables)


def _onnx_clip(graph: Graph, arguments: list[Any], settings: dict[str, Any]) -> int:
    ends = [
        float(end) if isinstance(end, np.ndarray) else default
        for end, default in zip(
            [*arguments[1:], None, None], (settings.get("min", -np.inf), settings.get("max", np.inf)), strict=False
        )
    ]
    return graph.clip(arguments[0], *ends)


_ONNX: dict[str, Callable[[Graph, list[Any], dict[str, Any]], int]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _onnx_add,
    "Relu": lambda graph, arguments, _: graph.clip(arguments[0], 0.0, np.inf),
    "LeakyRelu": lambda graph, arguments, settings: graph.leaky(arguments[0], settings.get("alpha", 0.01)),
    "Clip": _onnx_clip,
    "Identity": lambda graph, arguments, _: arguments[0],
    "Flatten": lambda graph, arguments, _: arguments[0],
    "Dropout": lambda graph, arguments, _: arguments[0],
}
"""What ONNX operators do to a graph."""
