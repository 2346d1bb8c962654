"""Trained rectifier networks as targets: PyTorch modules, scikit-learn multi-layer perceptrons, ONNX files.

A package is only touched if the user's own object comes from it; files need the extra `onnx`. What was read is compared
with the framework's own output at points of the domain before it is used (`refuse_misread`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from copy import deepcopy
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import on_one_line
from ..domains.box import Box
from ..errors import FileFormatError, InputError, MissingExtra
from .agreement import refuse_misread
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


def _target(
    graph: Graph, output: int, domain: Box, name: str, scalar: bool = False, assumptions: tuple[str, ...] = ()
) -> PiecewiseLinear:
    """Outputs on sequences are reshaped to (n, ...) where that comes out even."""
    stages = graph.stages(output)
    if not all(np.isfinite(stage.weight).all() and np.isfinite(stage.bias).all() for stage in stages):
        raise InputError("the weights of a network must be finite", got=f"infinite ones or NaN in {name}")
    width, length = graph.widths[output], domain.tokens[0]
    sequence = len(domain.shape) == 2 and width % length == 0
    shape = (length, width // length) if sequence else () if scalar else (width,)
    assert prod(shape) == width  # noqa: S101 - a scalar has width 1
    return PiecewiseLinear(stages, domain, shape, on_one_line(name), [on_one_line(line) for line in assumptions])


def _unsupported(what: str, known: str) -> InputError:
    return InputError(f"every operation of a network must be one of {known}", got=what)


def _read_sklearn(model: Any, domain: Box) -> PiecewiseLinear:
    """`MLPRegressor`, `MLPClassifier`: the values before the output activation, so logits for classifiers."""
    if not hasattr(model, "coefs_"):
        raise InputError("the scikit-learn network must have been fitted", got=repr(model))
    if model.activation not in ("relu", "identity"):
        raise _unsupported(f"activation={model.activation!r}", 'activation="relu" or "identity"')
    if model.out_activation_ not in _SKLEARN:
        raise _unsupported(f"out_activation_={model.out_activation_!r}", ", ".join(_SKLEARN))
    graph = Graph(domain.size)
    value = 0
    for number, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        value = graph.linear(value, np.asarray(weight, dtype=np.float64), np.asarray(bias, dtype=np.float64))
        if number < len(model.coefs_) - 1 and model.activation == "relu":
            value = graph.clip(value, 0.0, np.inf)
    target = _target(graph, value, domain, type(model).__name__, scalar=graph.widths[value] == 1)
    run, activate = _SKLEARN[model.out_activation_]
    refuse_misread(target, lambda rows: run(model, rows), np.dtype(np.float64), activate)
    return target


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _logistic(logits: Floats) -> Floats:
    return 0.5 + 0.5 * np.tanh(logits / 2)


_SKLEARN: dict[str, tuple[Callable[[Any, Floats], Floats], Callable[[Floats], Floats]]] = {
    "identity": (lambda model, rows: model.predict(rows), lambda values: values),
    "logistic": (lambda model, rows: model.predict_proba(rows)[:, -model.n_outputs_ :], _logistic),
    "softmax": (lambda model, rows: model.predict_proba(rows), _softmax),
}
"""By output activation: what scikit-learn says at points, and what that is of the values before the activation."""


def _read_torch(module: Any, domain: Box) -> PiecewiseLinear:
    """The operations of a module in evaluation mode, found by tracing it with `torch.fx`."""
    import torch
    from torch import fx

    for hook in _hooks(module):
        raise InputError(
            "a PyTorch module must run without forward hooks, parametrizations or methods of its own making, which "
            "cannot be read",
            got=hook,
            remedy="Remove it, or write what it does as layers.",
        )
    try:
        own = deepcopy(module).cpu().double().eval()
        traced = fx.symbolic_trace(own)
    except Exception as reason:
        raise InputError("the PyTorch module must be traceable", got=f"{type(reason).__name__}: {reason}") from reason
    graph = Graph(domain.size)
    name = type(module).__name__
    given = (_evaluation_mode(name),) if any(part.training for part in module.modules()) else ()
    target = _target(graph, _traced_output(traced, graph), domain, name, assumptions=given)

    def run(rows: Floats) -> Floats:
        failure = None
        for points in (domain.unflatten(rows), rows):
            try:
                with torch.no_grad():
                    return own(torch.tensor(points)).numpy()
            except Exception as reason:
                failure = reason
        raise InputError(f"{name} must run on points of shape {domain.shape}", got=str(failure)) from failure

    refuse_misread(target, run, np.dtype(np.float64))
    return target


FIXED = "the values of "


def _evaluation_mode(name: str) -> str:
    """What is assumed of a module in training mode."""
    return f"{name} runs in evaluation mode, as after {name}.eval(); it was given in training mode"


def _in_file(name: str) -> str:
    """What is assumed of inputs of a model that have values in its file."""
    return f" are those in {name}; callers of the model may override them"


def says_how_it_runs(line: str, name: str) -> bool:
    """Is it an assumption about a network of this name, from the readers above and below?"""
    return line == _evaluation_mode(name) or (line.startswith(FIXED) and line.endswith(_in_file(name)))


def _hooks(module: Any) -> Iterator[str]:
    """What a module runs beside the code of its class, in words."""
    import torch.nn.modules.module as everywhere
    from torch.nn.utils.parametrize import is_parametrized

    kinds = {"_forward_hooks": "forward hook", "_forward_pre_hooks": "forward pre-hook"}
    for path, part in [("every module", everywhere), *module.named_modules()]:
        place = path or type(module).__name__
        prefix = "_global" if part is everywhere else ""
        for attribute, kind in kinds.items():
            for hook in getattr(part, prefix + attribute).values():
                yield f"the {kind} {getattr(hook, '__name__', type(hook).__name__)} of {place}"
        if part is not everywhere:
            if is_parametrized(part):
                yield f"the parametrization of {', '.join(part.parametrizations)} of {place}"
            if "forward" in vars(part):
                yield f"the forward of {place}, which was set on the object"


def _traced_output(traced: Any, graph: Graph) -> int:
    """Write the operations of a traced module into a graph; the number of the output."""
    from torch import fx

    functions, modules = _torch_functions(), dict(traced.named_modules())
    values = dict[Any, int]()
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            if values:
                raise InputError("the PyTorch module must have one input", got=node.name)
            values[node] = 0
            continue
        if node.op == "output":
            if not isinstance(node.args[0], fx.Node):
                raise InputError("the PyTorch module must return one tensor", got=str(node.args[0]))
            return values[node.args[0]]
        part, settings, name = None, dict(node.kwargs), ""
        if node.op == "call_module":
            part = modules[node.target]
            name = type(part).__name__
            settings = vars(part)
        elif node.op == "call_function":
            name = functions.get(node.target, "")
        elif node.op == "call_method" and node.target in functions.values():
            name = node.target
        inputs = [values[argument] for argument in node.args if isinstance(argument, fx.Node)]
        if name == "flatten" and len(node.args) > 1:
            settings = dict(zip(("start_dim", "end_dim"), node.args[1:], strict=False)) | settings
        plain = name == "flatten" or len(inputs) == len(node.args)
        known = part is not None or set(settings) <= _KEYWORDS.get(name, set())
        if name not in _TORCH or not inputs or not plain or not known:
            what = name or getattr(node.target, "__name__", node.target)
            raise _unsupported(f"{what} ({node.name})", ", ".join(sorted(_TORCH)))
        result = _TORCH[name](graph, inputs, part if part is not None else settings)
        if settings.get("inplace", False):
            values = _overwritten(values, inputs[0], result)
        values[node] = result
    raise InputError("the PyTorch module must return a tensor", got=repr(traced))


def _overwritten(values: dict[Any, int], old: int, new: int) -> dict[Any, int]:
    """Values after an operation in place: whoever reads the old one from now on finds the new one."""
    return {node: new if value == old else value for node, value in values.items()}


def _numbers(tensor: Any) -> Floats:
    return tensor.detach().cpu().double().numpy()


def _torch_linear(graph: Graph, inputs: list[int], part: Any) -> int:
    weight = _numbers(part.weight).T  # (d, m)
    return graph.linear(inputs[0], weight, np.zeros(weight.shape[1]) if part.bias is None else _numbers(part.bias))


def _torch_leaky(graph: Graph, inputs: list[int], part: Any) -> int:
    slope = part.get("negative_slope", 0.01) if isinstance(part, dict) else part.negative_slope
    return graph.leaky(inputs[0], float(slope))


def _torch_flatten(graph: Graph, inputs: list[int], part: Any) -> int:
    del graph
    settings = {"start_dim": 0} | part if isinstance(part, dict) else vars(part)
    if settings["start_dim"] != 1 or settings.get("end_dim", -1) != -1:
        raise _unsupported(f"flatten from axis {settings['start_dim']}", "flatten from axis 1 to the last")
    return inputs[0]


def _same(graph: Graph, inputs: list[int], part: Any) -> int:
    del graph, part
    return inputs[0]


def _rectify(graph: Graph, inputs: list[int], part: Any) -> int:
    del part
    return graph.clip(inputs[0], 0.0, np.inf)


_KEYWORDS = {
    "relu": {"inplace"},
    "relu6": {"inplace"},
    "leaky_relu": {"inplace", "negative_slope"},
    "flatten": {"start_dim", "end_dim"},
}
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
    "Flatten": _torch_flatten,
    "flatten": _torch_flatten,
    "add": lambda graph, inputs, _: graph.add(inputs[0], inputs[1]),
}
"""What modules, functions and methods of PyTorch do to a graph, by their names."""


def _torch_functions() -> dict[Any, str]:
    """Functions that are known, by the object itself: a name is not a function."""
    import torch
    from torch.nn import functional

    known = [torch.relu, functional.relu, functional.relu6, functional.leaky_relu, torch.flatten, torch.add]
    return {function: function.__name__ for function in known} | {operator.add: "add"}


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
    inputs = [entry for entry in model.graph.input if entry.name not in weights]
    if len(inputs) != 1 or len(model.graph.output) != 1:
        raise InputError("the ONNX model must have one input and one output", got=[entry.name for entry in inputs])
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(inputs[0].type.tensor_type.elem_type))
    if dtype.kind != "f":
        raise InputError("the input of an ONNX model must be of type double, float or float16", got=dtype)
    graph, values = Graph(domain.size), {inputs[0].name: 0}
    for node in model.graph.node:
        settings = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        if node.op_type == "Constant" and "value" in settings:
            weights[node.output[0]] = numpy_helper.to_array(settings["value"]).astype(np.float64)
            continue
        operation = _ONNX.get(node.op_type)
        arguments = [values.get(name, weights.get(name)) for name in node.input]
        unknown = [name for name, argument in zip(node.input, arguments, strict=True) if name and argument is None]
        if operation is None or node.domain not in ("", "ai.onnx") or unknown:
            raise _unsupported(f"{node.op_type} ({node.name})", ", ".join(sorted(_ONNX)))
        values[node.output[0]] = operation(graph, arguments, settings)
    last = model.graph.output[0].name
    if last not in values:
        raise InputError("the output of an ONNX model must depend on its input", got=last)
    fixed = sorted(entry.name for entry in model.graph.input if entry.name in weights)
    given = (f"{FIXED}{', '.join(fixed)}{_in_file(path.name)}",) if fixed else ()
    target = _target(graph, values[last], domain, path.name, assumptions=given)

    def run(rows: Floats) -> Floats:
        from onnx.reference import ReferenceEvaluator

        failure, evaluator = None, ReferenceEvaluator(model)
        one = tuple(size.dim_value for size in inputs[0].type.tensor_type.shape.dim)
        alone = rows.reshape(-1, *one) if prod(one) == domain.size else []  # it takes one point
        for batches in (alone, domain.unflatten(rows)[None], rows[None]):
            try:
                if len(batches):
                    outputs = [list(evaluator.run(None, {inputs[0].name: part.astype(dtype)})) for part in batches]
                    return np.vstack([np.asarray(part).reshape(1, -1) for (part,) in outputs]).reshape(len(rows), -1)
            except Exception as reason:
                failure = reason
        raise InputError(f"{path} must run on points of shape {domain.shape}", got=str(failure)) from failure

    refuse_misread(target, run, dtype)
    return target


Argument = int | Floats | None
"""What a node of an ONNX graph reads: the number of a value, a constant, or nothing."""


def _variable(operation: str, arguments: list[Argument]) -> int:
    """The first argument, which depends on the input, where no other one does."""
    first, *others = arguments
    if not isinstance(first, int) or any(isinstance(other, int) for other in others):
        raise _unsupported(f"{operation} of {_kinds(arguments)}", f"{operation} of a value and constants")
    return first


def _kinds(arguments: list[Argument]) -> str:
    kinds = ("nothing" if part is None else "a value" if isinstance(part, int) else "a constant" for part in arguments)
    return ", ".join(kinds)


def _row(operation: str, constant: Floats, width: int) -> Floats:
    """A constant that is added to every row of (B, width) alike."""
    *batch, last = constant.shape or (1,)
    if any(size != 1 for size in batch) or last not in (1, width):
        raise _unsupported(f"{operation} of a constant of shape {constant.shape}", f"{operation} of shape ({width},)")
    return np.array(np.broadcast_to(constant.ravel(), (width,)))


def _gemm(graph: Graph, arguments: list[Argument], settings: dict[str, Any]) -> int:
    bias = arguments[2] if len(arguments) > 2 else None
    source, weight = _variable("Gemm", arguments[:2]), arguments[1]
    plain = settings.get("alpha", 1.0) == settings.get("beta", 1.0) == 1.0 and not settings.get("transA", 0)
    if not plain or not isinstance(weight, np.ndarray) or weight.ndim != 2:
        raise _unsupported(f"Gemm with {settings}", "Gemm with alpha = beta = 1, transA = 0 and constant weights")
    weight = weight.T if settings.get("transB", 0) else weight
    width = weight.shape[1]
    constant = _row("Gemm", bias, width) if isinstance(bias, np.ndarray) else np.zeros(width)
    product = graph.linear(source, weight, constant)
    return graph.add(product, bias) if isinstance(bias, int) else product


def _matmul(graph: Graph, arguments: list[Argument], settings: dict[str, Any]) -> int:
    source, weight = _variable("MatMul", arguments), arguments[1]
    if not isinstance(weight, np.ndarray) or weight.ndim != 2:
        raise _unsupported(f"MatMul of {_kinds(arguments)}", "MatMul with a constant matrix on the right")
    return graph.linear(source, weight, np.zeros(weight.shape[1]))


def _onnx_add(graph: Graph, arguments: list[Argument], settings: dict[str, Any]) -> int:
    variables = [argument for argument in arguments if isinstance(argument, int)]
    if len(variables) == 2:
        return graph.add(*variables)
    source = _variable("Add", sorted(arguments, key=lambda argument: not isinstance(argument, int)))
    (constant,) = (argument for argument in arguments if isinstance(argument, np.ndarray))
    return graph.shift(source, _row("Add", constant, graph.widths[source]))


def _onnx_subtract(graph: Graph, arguments: list[Argument], settings: dict[str, Any]) -> int:
    first, second = arguments
    if isinstance(second, int):
        second = graph.scale(second, np.full(1, -1.0))
    return _onnx_add(graph, [first, -second if isinstance(second, np.ndarray) else second], settings)


def _onnx_multiply(graph: Graph, arguments: list[Argument], settings: dict[str, Any]) -> int:
    source = _variable("Mul", sorted(arguments, key=lambda argument: not isinstance(argument, int)))
    (constant,) = (argument for argument in arguments if isinstance(argument, np.ndarray))
    return graph.scale(source, _row("Mul", constant, graph.widths[source]))


def _onnx_divide(graph: Graph, arguments: list[Argument], settings: dict[str, Any]) -> int:
    """Division by powers of two: other quotients are no float weights, so no network of ours would be that function."""
    source, divisor = _variable("Div", arguments), arguments[1]
    if not isinstance(divisor, np.ndarray) or not _are_powers_of_two(divisor):
        raise _unsupported(f"Div by {divisor}", "Div by powers of two; write Mul by the reciprocal instead")
    return graph.scale(source, 1.0 / _row("Div", divisor, graph.widths[source]))


def _are_powers_of_two(numbers: Floats) -> bool:
    """Or their negatives: reciprocals of these are exact, or overflow."""
    return bool((np.abs(np.frexp(numbers)[0]) == 0.5).all())


def _onnx_clip(graph: Graph, arguments: list[Argument], settings: dict[str, Any]) -> int:
    source = _variable("Clip", arguments)
    low, high = (*arguments[1:], None, None)[:2]
    ends = [
        default if end is None else float(np.asarray(end).reshape(()))
        for end, default in ((low, settings.get("min", -np.inf)), (high, settings.get("max", np.inf)))
    ]
    return graph.clip(source, *ends)


def _onnx_dropout(graph: Graph, arguments: list[Argument], settings: dict[str, Any]) -> int:
    source = _variable("Dropout", arguments)
    training = arguments[2] if len(arguments) > 2 else None
    if training is not None and np.any(training):
        raise _unsupported("Dropout in training mode", "Dropout in evaluation mode")
    return source


def _onnx_flatten(graph: Graph, arguments: list[Argument], settings: dict[str, Any]) -> int:
    if settings.get("axis", 1) != 1:
        raise _unsupported(f"Flatten with axis={settings['axis']}", "Flatten with axis=1")
    return _variable("Flatten", arguments)


_ONNX: dict[str, Callable[[Graph, list[Argument], dict[str, Any]], int]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _onnx_add,
    "Sub": _onnx_subtract,
    "Mul": _onnx_multiply,
    "Div": _onnx_divide,
    "Relu": lambda graph, arguments, _: graph.clip(_variable("Relu", arguments), 0.0, np.inf),
    "LeakyRelu": lambda graph, arguments, settings: graph.leaky(
        _variable("LeakyRelu", arguments), settings.get("alpha", 0.01)
    ),
    "Clip": _onnx_clip,
    "Identity": lambda graph, arguments, _: _variable("Identity", arguments),
    "Flatten": _onnx_flatten,
    "Dropout": _onnx_dropout,
}
"""What ONNX operators do to a graph."""
