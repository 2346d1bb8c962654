"""ONNX files: every node on a batch of one point, constants worked out beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...arguments import on_one_line
from ...domains.box import Box
from ...errors import FileFormatError, InputError, MissingExtra, counted
from . import composites
from .graph import Floats, Shape
from .writer import Argument, Reading, Value, Writer, shapes_of_one, unsupported

Settings = dict[str, Any]
FIXED = "the values of "


def is_onnx(model: object) -> bool:
    """Is it the path of an ONNX file?"""
    return isinstance(model, Path) or (isinstance(model, str) and model.endswith(".onnx"))


def in_file(name: str) -> str:
    """What is assumed of inputs of a model that have values in its file."""
    return f" are those in {name}; callers of the model may override them"


def folded(name: str) -> str:
    """What is assumed of constants that are computed from stored ones."""
    return f"constants that {name} computes from stored ones are what they are in double precision"


def read_onnx(path: Path, domain: Box) -> Reading:
    """The graph of an ONNX file on points of a domain."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        raise MissingExtra("onnx", "onnx") from None
    if not path.is_file():
        raise FileFormatError("the ONNX file must exist", got=str(path))
    try:
        model = onnx.load(str(path))
        if not all(entry.type.tensor_type.HasField("shape") for entry in model.graph.output):
            model = onnx.shape_inference.infer_shapes(
                model, strict_mode=True
            )  # run times do not need the shape of an output
        onnx.checker.check_model(model)
    except Exception as reason:
        why = str(reason).splitlines()[0].rstrip(".")
        raise FileFormatError(f"{path} must be a valid ONNX file", got=why) from None
    constants = {tensor.name: _number(numpy_helper.to_array(tensor)) for tensor in model.graph.initializer}
    inputs = [entry for entry in model.graph.input if entry.name not in constants]
    if len(inputs) != 1 or len(model.graph.output) != 1:
        raise InputError("the ONNX model must have one input and one output", got=[entry.name for entry in inputs])
    kind = inputs[0].type.tensor_type
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    if dtype.kind != "f":
        raise InputError("the input of an ONNX model must be of type double, float or float16", got=dtype)
    dims = [size.dim_value if size.HasField("dim_value") else None for size in kind.shape.dim]
    shape, alone = _input_shape(dims, domain, path.name)
    write = Writer(domain.shape or (1,), shape)
    values: dict[str, Argument] = {**constants, inputs[0].name: write.input}
    version = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    rounded = False
    for node in model.graph.node:
        settings = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        write.name = node.name or f"{node.op_type} to {node.output[0]}"
        arguments = [values.get(name) if name else None for name in node.input]
        unknown = [name for name in node.input if name and name not in values]
        if unknown or node.domain not in ("", "ai.onnx"):
            raise unsupported(f"{node.op_type} ({write.name}) of {', '.join(unknown) or node.domain}", [*OPERATIONS])
        if node.op_type != "Shape" and not any(isinstance(part, Value) for part in arguments):
            values |= dict(zip(node.output, _folded(node, arguments, model), strict=False))
            floats = any(isinstance(part, np.ndarray) and part.dtype.kind == "f" for part in arguments)
            rounded |= floats and node.op_type not in EXACT
            continue
        operation = OPERATIONS.get(node.op_type)
        if operation is None:
            raise unsupported(f"{node.op_type} ({write.name})", [*OPERATIONS])
        result = operation(write, arguments, settings | {"opset": version, "outputs": len(node.output)})
        values |= dict(zip(node.output, result if isinstance(result, list) else [result], strict=False))
    last = values.get(model.graph.output[0].name)
    if not isinstance(last, Value):
        raise InputError("the output of an ONNX model must depend on its input", got=model.graph.output[0].name)
    if not alone and write.shape(last)[:1] != (1,):
        raise InputError(
            f"{path.name} must return one value for each point of a batch", got=f"shape {write.shape(last)} for 1 point"
        )
    fixed = sorted(entry.name for entry in model.graph.input if entry.name in constants)
    lines = [f"{FIXED}{', '.join(fixed)}{in_file(path.name)}"] if fixed else []
    lines += [folded(path.name)] if rounded else []

    def run(rows: Floats) -> Floats:
        from onnx.reference import ReferenceEvaluator

        evaluator, points = ReferenceEvaluator(model), rows.astype(dtype)
        batches = [row.reshape(shape) for row in points] if alone else [points.reshape(-1, *shape[1:])]
        try:
            found = [np.asarray(evaluator.run(None, {inputs[0].name: batch})[0]) for batch in batches]  # type: ignore[index]
        except Exception as reason:
            raise InputError(f"{path} must run on points of shape {domain.shape}", got=str(reason)) from reason
        return np.concatenate([part.reshape(1 if alone else len(rows), -1) for part in found])

    graph = write.graph(last, batch=write.shape(last)[:1] == (1,))
    return Reading(graph, path.name, run, dtype, tuple(on_one_line(line) for line in lines))


def _input_shape(dims: Sequence[int | None], domain: Box, name: str) -> tuple[Shape, bool]:
    """The shape of one point as the model takes it, and whether it takes just one."""
    known = [size for size in dims if size is not None]
    if len(known) == len(dims) and prod(known) == domain.size:
        return tuple(known), True
    for candidate in shapes_of_one(domain):
        fits = len(candidate) == len(dims) and all(
            want is None or want == size for want, size in zip(dims[1:], candidate[1:], strict=True)
        )
        if fits:
            return candidate, False
    if None not in dims[1:] and prod(known[len(known) - len(dims) + 1 :]) == domain.size:
        return (1, *known[len(known) - len(dims) + 1 :]), False
    shown = ", ".join("batch" if size is None else str(size) for size in dims)
    size = prod(known[-len(dims) + 1 :]) if len(dims) > 1 else 1
    raise InputError(
        f"the domain must have as many variables as {name} has inputs, which has the shape ({shown})",
        got=counted(domain.size, "variable"),
        remedy=f"Give a domain= of {counted(size, 'variable')}." if None not in dims[1:] else "",
    )


def _number(array: Any) -> Any:
    """Floats in double precision, exactly; all else as it is."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _folded(node: Any, arguments: Sequence[Any], model: Any) -> list[Any]:
    """A node of constants."""
    from onnx.reference import ReferenceEvaluator

    opsets = {entry.domain: entry.version for entry in model.opset_import}
    try:
        names = dict(zip(node.input, arguments, strict=True))
        found = ReferenceEvaluator(node, opsets=opsets).run(
            None, {name: array for name, array in names.items() if name}
        )
        return [_number(np.asarray(part)) for part in found]  # type: ignore[union-attr]
    except Exception as reason:
        raise unsupported(f"{node.op_type} ({node.name}) of constants: {reason}", [*OPERATIONS]) from None


EXACT = frozenset(
    [
        "Constant",
        "ConstantOfShape",
        "Identity",
        "Reshape",
        "Transpose",
        "Concat",
        "Slice",
        "Gather",
        "Squeeze",
        "Unsqueeze",
        "Cast",
        "Shape",
        "Flatten",
        "Neg",
        "Split",
        "Expand",
        "Range",
    ]
)
"""Nodes of constants that round nothing."""


# ---------------------------------------------------------------- operations


def _kinds(arguments: Sequence[Argument | None]) -> str:
    kinds = (
        "nothing" if part is None else "a value" if isinstance(part, Value) else "a constant" for part in arguments
    )
    return ", ".join(kinds)


def _value(kind: str, arguments: Sequence[Argument | None]) -> Value:
    """The first argument, which depends on the input, where no other one does."""
    first, *others = arguments
    if not isinstance(first, Value) or any(isinstance(other, Value) for other in others):
        raise unsupported(f"{kind} of {_kinds(arguments)}", [f"{kind} of a value and constants"])
    return first


def _ints(array: Any) -> list[int]:
    return [int(number) for number in np.asarray(array).ravel()]


def _axes(arguments: Sequence[Any], settings: Settings) -> list[int] | None:
    """Axes in the second argument, as in newer files, or in the settings."""
    if len(arguments) > 1 and arguments[1] is not None:
        return _ints(arguments[1])
    return list(settings["axes"]) if "axes" in settings else None


def _binary(name: str) -> Callable[[Writer, list[Any], Settings], Value]:
    return lambda write, arguments, settings: getattr(write, name)(*arguments)


def _function(kind: str, name: str, **names: tuple[str, float]) -> Callable[[Writer, list[Any], Settings], Value]:
    """A function of single numbers; parameters by their names in the graph, with their names and defaults in ONNX."""

    def note(write: Writer, arguments: list[Any], settings: Settings) -> Value:
        data = {own: float(settings.get(theirs, default)) for own, (theirs, default) in names.items()}
        return write.apply(name, _value(kind, arguments), **data)

    return note


def _gemm(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    a, b, *more = arguments
    c = more[0] if more and settings.get("beta", 1.0) != 0 else None
    alpha, beta = settings.get("alpha", 1.0), settings.get("beta", 1.0)
    if not isinstance(a, Value) or settings.get("transA", 0):
        raise unsupported(
            f"Gemm of {_kinds(arguments)} with {settings} ({write.name})",
            ["Gemm of a value and constants with transA = 0"],
        )
    if c is not None and beta != 1.0:
        c = write.multiply(write.value(c), np.array(beta))
    b = write.swap(b) if isinstance(b, Value) and settings.get("transB", 0) else b
    b = b.T if isinstance(b, np.ndarray) and settings.get("transB", 0) else b
    if (
        isinstance(b, np.ndarray)
        and isinstance(c, np.ndarray)
        and alpha == 1.0
        and c.shape in ((), (1,), (b.shape[1],), (1, b.shape[1]))
    ):
        return write.linear(a, b, c.ravel())
    product = write.matmul(a, b)
    product = product if alpha == 1.0 else write.multiply(product, np.array(alpha))
    return product if c is None else write.add(product, c)


def _clip(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    low, high = (*arguments[1:], None, None)[:2]
    source = _value("Clip", arguments)
    ends = [
        default if end is None else float(np.asarray(end).reshape(()))
        for end, default in ((low, settings.get("min", -np.inf)), (high, settings.get("max", np.inf)))
    ]
    return write.apply("clip", source, low=ends[0], high=ends[1])


def _power(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source, exponent = _value("Pow", arguments), np.asarray(arguments[1], dtype=np.float64)
    if exponent.size != 1:
        raise unsupported(f"Pow with exponents of shape {exponent.shape} ({write.name})", ["Pow with one exponent"])
    return write.power(source, float(exponent.reshape(())))


def _dropout(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source = _value("Dropout", arguments)
    training = arguments[2] if len(arguments) > 2 else None
    if training is not None and np.any(training):
        raise unsupported(f"Dropout in training mode ({write.name})", ["Dropout in evaluation mode"])
    return source


def _flatten(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source = _value("Flatten", arguments)
    axis, shape = settings.get("axis", 1), write.shape(source)
    if axis != 1:
        raise unsupported(f"Flatten with axis={axis} ({write.name})", ["Flatten with axis=1"])
    return write.reshape(source, (shape[0], -1))


def _reshape(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source = _value("Reshape", arguments)
    sizes, shape = _ints(arguments[1]), write.shape(source)
    keeps = not settings.get("allowzero", 0)
    return write.reshape(source, [shape[k] if size == 0 and keeps else size for k, size in enumerate(sizes)])


def _transpose(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source = _value("Transpose", arguments)
    return write.transpose(source, settings.get("perm", range(len(write.shape(source)))[::-1]))


def _squeeze(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source, axes = _value("Squeeze", arguments), _axes(arguments, settings)
    shape = write.shape(source)
    dropped = (
        {k for k, size in enumerate(shape) if size == 1} if axes is None else {write.axis(source, k) for k in axes}
    )
    return write.reshape(source, [size for k, size in enumerate(shape) if k not in dropped])


def _unsqueeze(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source, axes = _value("Unsqueeze", arguments), _axes(arguments, settings) or []
    shape, rank = list(write.shape(source)), len(write.shape(source)) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    return write.reshape(source, shape)


def _slice(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source = _value("Slice", arguments)
    given = [None if part is None else _ints(part) for part in (*arguments[1:], None, None, None, None)[:4]]
    starts, ends = given[0] or settings["starts"], given[1] or settings["ends"]
    axes = given[2] or list(settings.get("axes", range(len(starts))))
    for start, end, axis, step in zip(starts, ends, axes, given[3] or [1] * len(starts), strict=True):
        size = write.shape(source)[write.axis(source, axis)]
        stop = None if step < 0 and end < -size else end
        source = write.gather(source, axis, np.arange(size)[slice(start, stop, step)])
    return source


def _gather(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source = _value("Gather", arguments)
    return write.gather(source, settings.get("axis", 0), np.asarray(arguments[1]))


def _split(write: Writer, arguments: list[Any], settings: Settings) -> Any:
    source, axis = _value("Split", arguments), settings.get("axis", 0)
    size = write.shape(source)[write.axis(source, axis)]
    given = arguments[1] if len(arguments) > 1 else settings.get("split")
    each = -(-size // settings["outputs"])
    sizes = [min(each, size - each * k) for k in range(settings["outputs"])] if given is None else _ints(given)
    ends = np.cumsum(sizes)
    return [write.gather(source, axis, np.arange(end - size, end)) for end, size in zip(ends, sizes, strict=True)]


def _softmax(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    """Along one axis; before version 13, over all axes from the given one on."""
    source = _value("Softmax", arguments)
    if settings["opset"] >= 13:
        return write.softmax(source, settings.get("axis", -1))
    axis, shape = write.axis(source, settings.get("axis", 1)), write.shape(source)
    flat = write.reshape(source, (prod(shape[:axis]), prod(shape[axis:])))
    return write.reshape(write.softmax(flat, -1), shape)


def _reduce(kind: str, name: str) -> Callable[[Writer, list[Any], Settings], Value]:
    def note(write: Writer, arguments: list[Any], settings: Settings) -> Value:
        source, axes = _value(kind, arguments), _axes(arguments, settings)
        if not axes and settings.get("noop_with_empty_axes", 0):
            return source
        return write.reduce(name, source, axes or None, bool(settings.get("keepdims", 1)))

    return note


def _layer_normalization(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source = _value("LayerNormalization", arguments)
    rank, (scale, shift) = len(write.shape(source)), (*arguments[1:], None, None)[:2]
    axis = write.axis(source, settings.get("axis", -1))
    epsilon = float(np.float32(settings.get("epsilon", 1e-5)))
    return write.layer_norm(source, range(axis, rank), epsilon, scale, shift)


def _batch_normalization(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source, scale, shift, mean, variance = (_value("BatchNormalization", arguments), *arguments[1:])
    if settings.get("training_mode", 0):
        raise unsupported(f"BatchNormalization in training mode ({write.name})", ["BatchNormalization in evaluation"])
    return write.batch_norm(source, mean, variance, scale, shift, float(settings.get("epsilon", 1e-5)))


def _convolution(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    source, weight, bias = _value("Conv", arguments), arguments[1], (*arguments[2:], None)[0]
    rank = weight.ndim - 2
    if settings.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise unsupported(f"Conv with auto_pad ({write.name})", ["Conv with pads"])
    ones, pads = (1,) * rank, tuple(settings.get("pads", (0,) * 2 * rank))
    strides, dilations = tuple(settings.get("strides", ones)), tuple(settings.get("dilations", ones))
    return write.convolution(source, weight, bias, strides, pads, dilations, settings.get("group", 1))


def _attention(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    """The operator of version 23, without masks and caches: (1, heads, n, k), or (1, n, heads k)."""
    query, key, value, *others = arguments
    strange = {"is_causal", "softcap", "qk_matmul_output_mode"} & {name for name, number in settings.items() if number}
    if any(part is not None for part in others) or strange:
        raise unsupported(f"Attention of {_kinds(arguments)} with {settings}", ["Attention without masks and caches"])
    scale = settings.get("scale")
    if len(write.shape(query)) == 4:
        return write.attention(query, key, value, scale)
    counts = settings["q_num_heads"], settings["kv_num_heads"], settings["kv_num_heads"]
    if counts[0] != counts[1]:
        raise unsupported(
            f"Attention with {counts[0]} and {counts[1]} heads", ["Attention with equal numbers of heads"]
        )
    parts = []
    for part, count in zip((query, key, value), counts, strict=True):
        batch, length, _ = write.shape(part)
        parts.append(write.transpose(write.reshape(part, (batch, length, count, -1)), (0, 2, 1, 3)))
    mixed = write.transpose(write.attention(parts[0], parts[1], parts[2], scale), (0, 2, 1, 3))
    return write.reshape(mixed, (*write.shape(mixed)[:2], -1))


def _composite(
    kind: str, function: Callable[..., Value], **names: tuple[str, float]
) -> Callable[[Writer, list[Any], Settings], Value]:
    """A function made of others; parameters with their names and defaults in ONNX, where they are float32."""

    def note(write: Writer, arguments: list[Any], settings: Settings) -> Value:
        data = {own: float(settings.get(theirs, np.float32(default))) for own, (theirs, default) in names.items()}
        return function(write, _value(kind, arguments), **data)

    return note


def _hard_sigmoid(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    slope, middle = (np.array(float(settings.get(name, np.float32(d)))) for name, d in (("alpha", 0.2), ("beta", 0.5)))
    line = write.add(write.multiply(_value("HardSigmoid", arguments), slope), middle)
    return write.apply("clip", line, low=0.0, high=1.0)


def _prelu(write: Writer, arguments: list[Any], settings: Settings) -> Value:
    return composites.prelu(write, _value("PRelu", arguments), np.asarray(arguments[1], dtype=np.float64))


def _of_many(function: Callable[[Writer, Argument, Argument], Value]) -> Callable[[Writer, list[Any], Settings], Value]:
    """An operation on two values for as many as there are."""

    def note(write: Writer, arguments: list[Any], settings: Settings) -> Value:
        result, *others = arguments
        for other in others:
            result = function(write, result, other)
        return write.value(result)

    return note


def _pool(kind: str, name: str) -> Callable[[Writer, list[Any], Settings], Value]:
    def note(write: Writer, arguments: list[Any], settings: Settings) -> Value:
        source, kernel = _value(kind, arguments), tuple(settings["kernel_shape"])
        strange = any(settings.get("pads", ())) or settings.get("ceil_mode", 0) or settings["outputs"] > 1
        dilated = any(size != 1 for size in settings.get("dilations", ()))
        if strange or dilated or settings.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            raise unsupported(f"{kind} with padding, dilations or ceil_mode ({write.name})", [f"{kind} without them"])
        return composites.pool(write, name, source, kernel, tuple(settings.get("strides", (1,) * len(kernel))))

    return note


def _global(kind: str, name: str) -> Callable[[Writer, list[Any], Settings], Value]:
    def note(write: Writer, arguments: list[Any], settings: Settings) -> Value:
        source = _value(kind, arguments)
        return write.reduce(name, source, range(2, len(write.shape(source))), keep=True)

    return note


OPERATIONS: dict[str, Callable[[Writer, list[Any], Settings], Any]] = {
    "Add": _binary("add"),
    "Sub": _binary("subtract"),
    "Mul": _binary("multiply"),
    "Div": _binary("divide"),
    "MatMul": _binary("matmul"),
    "Gemm": _gemm,
    "Conv": _convolution,
    "Neg": lambda write, arguments, _: write.multiply(arguments[0], np.array(-1.0)),
    **{name: _function(name, name.lower()) for name in ("Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Abs")},
    "Reciprocal": _function("Reciprocal", "reciprocal"),
    "LeakyRelu": _function("LeakyRelu", "leaky_relu", slope=("alpha", 0.01)),
    "Elu": _function("Elu", "elu", alpha=("alpha", 1.0)),
    "Softplus": lambda write, arguments, _: write.apply("softplus", _value("Softplus", arguments), beta=1.0),
    "Gelu": lambda write, arguments, settings: write.apply(
        "gelu_tanh" if settings.get("approximate") == b"tanh" else "gelu", _value("Gelu", arguments)
    ),
    "Selu": _composite(
        "Selu", composites.selu, alpha=("alpha", composites.SELU_ALPHA), scale=("gamma", composites.SELU_SCALE)
    ),
    "Celu": _composite("Celu", composites.celu, alpha=("alpha", 1.0)),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _composite("HardSwish", composites.hard_swish),
    "Mish": _composite("Mish", composites.mish),
    "Softsign": _composite("Softsign", composites.softsign),
    "PRelu": _prelu,
    "Max": _of_many(composites.maximum),
    "Min": _of_many(composites.minimum),
    "Sum": _of_many(lambda write, a, b: write.add(a, b)),
    "MaxPool": _pool("MaxPool", "max"),
    "AveragePool": _pool("AveragePool", "mean"),
    "GlobalMaxPool": _global("GlobalMaxPool", "max"),
    "GlobalAveragePool": _global("GlobalAveragePool", "mean"),
    "Clip": _clip,
    "Pow": _power,
    "Softmax": _softmax,
    "ReduceSum": _reduce("ReduceSum", "sum"),
    "ReduceMean": _reduce("ReduceMean", "mean"),
    "ReduceMax": _reduce("ReduceMax", "max"),
    "LayerNormalization": _layer_normalization,
    "BatchNormalization": _batch_normalization,
    "Attention": _attention,
    "Identity": lambda write, arguments, _: _value("Identity", arguments),
    "Dropout": _dropout,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Gather": _gather,
    "Split": _split,
    "Concat": lambda write, arguments, settings: write.concat(arguments, settings["axis"]),
    "Shape": lambda write, arguments, _: np.array(write.shape(arguments[0]), dtype=np.int64),
    "Cast": lambda write, arguments, _: _value("Cast", arguments),
}
"""What ONNX operators do to a graph."""
