"""PyTorch modules and exported programs: what they do to one point, written down while they do it.

A copy of the module, in evaluation mode and double precision, is run on a batch of one point. Every function of PyTorch
that meets a value of the point is looked up in `OPERATIONS` and written into the graph; all other ones act on constants
and are left alone. Python code in between runs as it is, so shapes are plain numbers; a branch on a value is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from math import prod
from typing import Any

import numpy as np

from ...arguments import on_one_line
from ...domains.box import Box
from ...errors import InputError
from . import composites
from .graph import Floats
from .writer import Argument, Reading, Value, Writer, shapes_of_one, unsupported


def is_torch(model: object) -> bool:
    """Is it a module or an exported program of PyTorch?"""
    origins = {kind.__module__.split(".")[0] + "." + kind.__name__ for kind in type(model).__mro__}
    return bool(origins & {"torch.Module", "torch.ExportedProgram"})


def read_torch(model: Any, domain: Box) -> Reading:
    """The graph of a module or an exported program on points of a domain."""
    import torch

    written = isinstance(model, torch.nn.Module)
    module = model if written else model.module(check_guards=False)
    name = on_one_line(type(model).__name__)
    for hook in _hooks(module) if written else ():
        raise InputError(
            "a PyTorch module must have no forward hooks, no parametrizations and no methods replaced on the object",
            got=hook,
            remedy="Remove it, or write what it does as layers.",
        )
    try:
        own = deepcopy(module).cpu().double()
        if written:
            own = own.eval()
        else:  # the hooks of a program are those of PyTorch, which look at the size of a batch
            own._forward_hooks.clear()
            own._forward_pre_hooks.clear()
    except Exception as reason:
        raise InputError("the PyTorch module must allow a copy", got=f"{type(reason).__name__}: {reason}") from reason
    failures = list[Exception]()
    for shape in shapes_of_one(domain):
        recorder = _recorder()(Writer(domain.shape or (1,), shape))
        try:
            graph = recorder.record(own, torch.ones(shape, dtype=torch.float64), name)
            break
        except Exception as reason:
            failures.append(reason)
    else:
        if isinstance(failures[0], InputError):
            raise failures[0]
        raise InputError(
            f"{name} must run on points of shape {domain.shape}, in batches",
            got=f"{type(failures[0]).__name__}: {failures[0]}",
            remedy="Give a domain= of the shape that the network is made for.",
        ) from failures[0]

    def run(rows: Floats) -> Floats:
        points = rows.reshape(-1, *shape[1:])  # (B, ...)
        try:
            with torch.no_grad():
                return own(torch.tensor(points)).numpy()
        except Exception as reason:
            raise InputError(
                f"{name} must run on batches of points", got=f"{type(reason).__name__}: {reason} for {points.shape}"
            ) from reason

    lines = [evaluation_mode(name)] if written and _trains(module) else []
    lines += [folded(name)] if recorder.folded else []
    lines += [smooth(name)] if any(node.operation == "softplus" for node in graph.nodes) else []
    return Reading(graph, name, run, np.dtype(np.float64), tuple(lines))


def _trains(module: Any) -> bool:
    return any(part.training for part in module.modules())


def evaluation_mode(name: str) -> str:
    """What is assumed of a module in training mode."""
    return f"{name} runs in evaluation mode, as after {name}.eval(); it was given in training mode"


def folded(name: str) -> str:
    """What is assumed of weights that are computed from stored ones."""
    return f"weights that {name} computes from stored ones are what they are in double precision"


def smooth(name: str) -> str:
    """What is assumed of softplus."""
    return f"softplus in {name} is log(1 + exp(b x))/b for all x; PyTorch returns x where b x is above a threshold"


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
            if "forward" in vars(part) and type(part).__module__ != "torch.fx.graph_module":
                yield f"the forward of {place}, which was set on the object"


# ---------------------------------------------------------------- recording


def _recorder() -> type[Any]:
    """The class that writes down what PyTorch does; made here, so that PyTorch is loaded only for its own models."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Recorder(TorchFunctionMode):
        def __init__(self, write: Writer) -> None:
            super().__init__()
            self.write, self.folded = write, False
            self.values = dict[int, Value | None]()  # by tensor; None where it was overwritten
            self.alive = list[Any]()  # so that no two tensors have one id

        def record(self, module: Any, point: Any, name: str) -> Any:
            """Run a module on one point; the graph."""
            self.bind(point, self.write.input)
            handles = [handle for path, part in module.named_modules() for handle in self.named(part, path or name)]
            try:
                with torch.no_grad(), self:
                    result = module(point)
            finally:
                for handle in handles:
                    handle.remove()
            if not isinstance(result, torch.Tensor):
                raise InputError("the PyTorch module must return one tensor", got=type(result).__name__)
            value = self.values.get(id(result))
            if value is None:
                raise InputError("the output of a PyTorch module must depend on its input", got=name)
            if result.shape[:1] != (1,):
                raise InputError(
                    f"{name} must return one value for each point of a batch", got=f"shape {tuple(result.shape)} for 1"
                )
            return self.write.graph(value)

        def named(self, part: Any, path: str) -> list[Any]:
            """While a layer runs, nodes have its name."""
            before = list[str]()

            def enter(*_: Any) -> None:
                before.append(self.write.name)
                self.write.name = path

            def leave(*_: Any) -> None:
                self.write.name = before.pop()

            return [part.register_forward_pre_hook(enter), part.register_forward_hook(leave)]

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            name, everything = _name(func), [*_flat(args), *_flat(kwargs.values())]
            if not any(id(part) in self.values for part in everything):
                result = func(*args, **kwargs)
                self.folded |= name not in EXACT and _is_float(result) and any(_is_float(part) for part in everything)
                return result
            if name in METADATA:
                return func(*args, **kwargs)
            overwrites = _overwrites(name, kwargs)
            operation = OPERATIONS.get(name.rstrip("_") if overwrites else name)
            if operation is None:
                raise unsupported(f"{name} ({self.write.name})", [*OPERATIONS])
            try:
                noted = operation(
                    self.write, *map(self.given, args), **{key: self.given(v) for key, v in kwargs.items()}
                )
            except TypeError as reason:
                raise unsupported(f"{name} ({self.write.name}) with other arguments: {reason}", [*OPERATIONS]) from None
            result = func(*args, **kwargs, **({"inplace": True} if overwrites and not name.endswith("_") else {}))
            if overwrites:
                self.overwritten(args[0])
            for tensor, value in zip(
                *([each] if isinstance(each, torch.Tensor | Value) else each for each in (result, noted)), strict=False
            ):
                if isinstance(value, Value):
                    if tuple(tensor.shape) != self.write.shape(value):
                        raise unsupported(
                            f"{name} ({self.write.name}) with values of shape {tuple(tensor.shape)}", [*OPERATIONS]
                        )
                    self.bind(tensor, value)
            return result

        def bind(self, tensor: Any, value: Value) -> None:
            """A tensor has this value from now on."""
            self.values[id(tensor)] = value
            self.alive.append(tensor)

        def overwritten(self, tensor: Any) -> None:
            """Whoever shares memory with a tensor that is overwritten has values that are not known any more."""
            memory = tensor.untyped_storage().data_ptr()
            for other in self.alive:
                if other.untyped_storage().data_ptr() == memory:
                    self.values[id(other)] = None

        def given(self, part: Any) -> Any:
            """An argument of PyTorch as one of an operation."""
            if isinstance(part, torch.Tensor):
                if id(part) not in self.values:
                    array = part.detach().cpu()
                    return array.double().numpy() if part.is_floating_point() else array.numpy()
                value = self.values[id(part)]
                if value is None:
                    raise unsupported(
                        f"a tensor that was overwritten in place and is read in {self.write.name}", [*OPERATIONS]
                    )
                return value
            if isinstance(part, tuple | list):
                return [self.given(each) for each in part]
            return part

    return Recorder


def _name(func: Any) -> str:
    """Of a function, a method, a property or an operator of an exported program."""
    if getattr(func, "__name__", "") in ("__get__", "__set__"):
        return str(func.__self__.__name__)
    schema = getattr(func, "_schema", None)
    return str(schema.name).split("::")[-1] if schema is not None else str(getattr(func, "__name__", func))


def _overwrites(name: str, settings: dict[str, Any]) -> bool:
    """Is it done in place? The setting that says so is taken out."""
    return bool(settings.pop("inplace", False)) or (name.endswith("_") and not name.endswith("__"))


def _flat(parts: Any) -> Iterator[Any]:
    for part in parts:
        if isinstance(part, tuple | list):
            yield from _flat(part)
        else:
            yield part


def _is_float(part: Any) -> bool:
    import torch

    return isinstance(part, torch.Tensor) and part.is_floating_point()


METADATA = frozenset(
    [
        "shape",
        "size",
        "sym_size",
        "dim",
        "ndim",
        "numel",
        "sym_numel",
        "dtype",
        "device",
        "layout",
        "requires_grad",
        "is_nested",
        "is_floating_point",
        "is_contiguous",
        "is_sparse",
        "is_cuda",
        "is_cpu",
        "stride",
        "grad_fn",
        "names",
        "is_complex",
        "is_quantized",
        "is_meta",
        "_is_view",
        "_assert_tensor_metadata",
        "_assert_scalar",
        "_guards_fn",
    ]
)
"""What is read of a tensor without looking at its numbers."""
EXACT = frozenset(
    [
        "T",
        "mT",
        "data",
        "detach",
        "clone",
        "contiguous",
        "double",
        "to",
        "_to_copy",
        "cpu",
        "expand",
        "expand_as",
        "view",
        "reshape",
        "flatten",
        "unflatten",
        "transpose",
        "t",
        "permute",
        "movedim",
        "squeeze",
        "unsqueeze",
        "select",
        "slice",
        "__getitem__",
        "narrow",
        "split",
        "chunk",
        "unbind",
        "cat",
        "concat",
        "stack",
        "pad",
        "neg",
        "zeros_like",
        "ones_like",
        "full_like",
        "lift_fresh_copy",
        "alias",
        "repeat",
        "tile",
        "roll",
        "flip",
    ]
)
"""Functions of constants that round nothing."""


# ---------------------------------------------------------------- operations


def _binary(name: str, swapped: bool = False) -> Callable[..., Value]:
    def note(write: Writer, input: Any, other: Any, *, alpha: Any = 1) -> Value:
        second = _array(other)
        if alpha != 1:
            second = alpha * second if isinstance(second, np.ndarray) else write.multiply(second, _array(alpha))
        pair = (second, _array(input)) if swapped else (_array(input), second)
        return getattr(write, name)(*pair)

    return note


def _divide(write: Writer, input: Any, other: Any, *, rounding_mode: None = None) -> Value:
    if rounding_mode is not None:
        raise TypeError("a rounding mode")
    return write.divide(_array(input), _array(other))


def _array(part: Any) -> Argument:
    return part if isinstance(part, Value) else np.asarray(part, dtype=np.float64)


def _function(name: str, **settings: str) -> Callable[..., Value]:
    """A function of single numbers; `settings` are its parameters by their PyTorch names."""
    del settings

    def note(write: Writer, input: Value) -> Value:
        return write.apply(name, input)

    return note


def _clip(write: Writer, input: Value, min: Any = None, max: Any = None) -> Value:
    low, high = (-np.inf if min is None else float(min)), (np.inf if max is None else float(max))
    return write.apply("clip", input, low=low, high=high)


def _hardtanh(write: Writer, input: Value, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    return write.apply("clip", input, low=float(min_val), high=float(max_val))


def _leaky_relu(write: Writer, input: Value, negative_slope: float = 0.01) -> Value:
    return write.apply("leaky_relu", input, slope=float(negative_slope))


def _elu(write: Writer, input: Value, alpha: float = 1.0) -> Value:
    return write.apply("elu", input, alpha=float(alpha))


def _softplus(write: Writer, input: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    if threshold < 20.0:
        raise TypeError(f"threshold={threshold} below 20")
    return write.apply("softplus", input, beta=float(beta))


def _gelu(write: Writer, input: Value, *, approximate: str = "none") -> Value:
    return write.apply("gelu" if approximate == "none" else "gelu_tanh", input)


def _power(write: Writer, input: Value, exponent: Any) -> Value:
    if isinstance(exponent, Value) or not isinstance(input, Value):
        raise TypeError("an exponent that is not constant")
    return write.power(input, float(np.asarray(exponent)))


def _softmax(write: Writer, input: Value, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Value:
    return write.softmax(input, dim)


def _linear(write: Writer, input: Value, weight: Any, bias: Any = None) -> Value:
    if isinstance(weight, Value) or isinstance(input, np.ndarray):
        raise TypeError("weights that depend on the input")
    return write.linear(input, weight.T, bias)


def _addmm(write: Writer, input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Value:
    if beta != 1 or alpha != 1:
        raise TypeError("factors")
    return write.add(write.matmul(mat1, mat2), input)


def _mean(kind: str) -> Callable[..., Value]:
    def note(write: Writer, input: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
        return write.reduce(kind, input, [dim] if isinstance(dim, int) else dim, keepdim)

    return note


def _layer_norm(
    write: Writer,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = False,
) -> Value:
    return write.layer_norm(input, range(-len(normalized_shape), 0), eps, weight, bias)


def _batch_norm(
    write: Writer,
    input: Value,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = False,
) -> Value:
    if training or running_mean is None:
        raise TypeError("batch statistics")
    return write.batch_norm(input, running_mean, running_var, weight, bias, eps)


def _exported_batch_norm(
    write: Writer,
    input: Value,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    """The operator in exported programs has another order of arguments."""
    return _batch_norm(write, input, running_mean, running_var, weight, bias, training, momentum, eps)


def _any_batch_norm(write: Writer, input: Value, first: Any, second: Any, *more: Any, **settings: Any) -> Value:
    exported = len(more) == 6
    return (_exported_batch_norm if exported else _batch_norm)(write, input, first, second, *more, **settings)


def _dropout(write: Writer, input: Value, p: float = 0.5, training: bool = False, *others: Any, **more: Any) -> Value:
    if training or more.get("train"):
        raise TypeError("training mode")
    return input


def _same(write: Writer, input: Value, *others: Any, **more: Any) -> Value:
    return input


def _shape(write: Writer, input: Value, *shape: Any) -> Value:
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
    return write.reshape(input, [int(size) for size in sizes])


def _flatten(write: Writer, input: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    shape = write.shape(input)
    start, end = write.axis(input, start_dim), write.axis(input, end_dim)
    if start == 0 and end > 0:
        raise unsupported("flatten from axis 0, which joins the points of a batch", ["flatten from axis 1"])
    return write.reshape(input, (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]))


def _unflatten(write: Writer, input: Value, dim: int, sizes: Sequence[int]) -> Value:
    shape, place = write.shape(input), write.axis(input, dim)
    return write.reshape(input, (*shape[:place], *sizes, *shape[place + 1 :]))


def _transpose(write: Writer, input: Value, dim0: int, dim1: int) -> Value:
    return write.swap(input, dim0, dim1)


def _permute(write: Writer, input: Value, *dims: Any) -> Value:
    return write.transpose(input, dims[0] if isinstance(dims[0], list | tuple) else dims)


def _expand(write: Writer, input: Value, *sizes: Any, implicit: bool = False) -> Value:
    sizes = tuple(sizes[0]) if isinstance(sizes[0], list | tuple) else sizes
    shape = (1,) * (len(sizes) - len(write.shape(input))) + write.shape(input)
    wanted = tuple(size if new == -1 else new for size, new in zip(shape, sizes, strict=True))
    return write.reshape(input, shape) if wanted == shape else write.multiply(input, np.ones(wanted))


def _squeeze(write: Writer, input: Value, dim: Any = None) -> Value:
    shape = write.shape(input)
    every = range(len(shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    dropped = {write.axis(input, axis) for axis in every}
    return write.reshape(input, [size for axis, size in enumerate(shape) if size != 1 or axis not in dropped])


def _unsqueeze(write: Writer, input: Value, dim: int) -> Value:
    shape = list(write.shape(input))
    shape.insert(dim % (len(shape) + 1), 1)
    return write.reshape(input, shape)


def _select(write: Writer, input: Value, dim: int, index: int) -> Value:
    return write.gather(input, dim, np.array(index))


def _slice(
    write: Writer, input: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    size = write.shape(input)[write.axis(input, dim)]
    return write.gather(input, dim, np.arange(size)[slice(start, end, step)])


def _getitem(write: Writer, input: Value, index: Any) -> Value:
    parts = list(index) if isinstance(index, list | tuple) else [index]
    rank = len(write.shape(input))
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if Ellipsis not in [part for part in parts if not isinstance(part, np.ndarray)]:
        parts.append(Ellipsis)
    place = next(k for k, part in enumerate(parts) if part is Ellipsis)
    parts[place : place + 1] = [slice(None)] * (rank - used)
    axis = 0
    for part in parts:
        if part is None:
            input = _unsqueeze(write, input, axis)
        elif isinstance(part, int | np.integer):
            input = write.gather(input, axis, np.array(int(part)))
            continue
        elif isinstance(part, slice):
            input = _slice(write, input, axis, part.start, part.stop, part.step or 1)
        elif isinstance(part, np.ndarray | list) and np.asarray(part).dtype.kind in "iu":
            input = write.gather(input, axis, np.asarray(part).ravel())
        else:
            raise TypeError(f"an index {part!r}")
        axis += 1
    return input


def _cat(write: Writer, tensors: Sequence[Any], dim: int = 0) -> Value:
    return write.concat([_array(part) for part in tensors], dim)


def _stack(write: Writer, tensors: Sequence[Any], dim: int = 0) -> Value:
    rank = max(len(write.shape(_array(part))) for part in tensors)
    return write.concat([_unsqueeze(write, write.value(_array(part)), dim % (rank + 1)) for part in tensors], dim)


def _split(write: Writer, tensor: Value, split_size: Any, dim: int = 0) -> list[Value]:
    size = write.shape(tensor)[write.axis(tensor, dim)]
    ends = (
        np.cumsum(split_size)
        if isinstance(split_size, list | tuple)
        else np.arange(split_size, size + split_size, split_size)
    )
    starts = [0, *ends[:-1]]
    return [write.gather(tensor, dim, np.arange(a, min(b, size))) for a, b in zip(starts, ends, strict=True)]


def _chunk(write: Writer, input: Value, chunks: int, dim: int = 0) -> list[Value]:
    size = write.shape(input)[write.axis(input, dim)]
    return _split(write, input, -(-size // chunks), dim)


def _unbind(write: Writer, input: Value, dim: int = 0) -> list[Value]:
    return [_select(write, input, dim, k) for k in range(write.shape(input)[write.axis(input, dim)])]


def _pad(write: Writer, input: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Value:
    if mode != "constant":
        raise TypeError(f"mode={mode!r}")
    for number in range(len(pad) // 2):
        axis, shape = len(write.shape(input)) - 1 - number, write.shape(input)
        before, after = (
            np.full((*shape[:axis], count, *shape[axis + 1 :]), value or 0.0)
            for count in pad[2 * number : 2 * number + 2]
        )
        parts = [part for part in (before, input, after) if isinstance(part, Value) or part.size]
        input = write.concat(parts, axis) if len(parts) > 1 else input
    return input


def _attention(
    write: Writer,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if attn_mask is not None or dropout_p or is_causal or enable_gqa:
        raise TypeError("a mask or dropout")
    return write.attention(_array(query), _array(key), _array(value), scale)


def _multi_head_attention(
    write: Writer,
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = False,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Value, None]:
    """Sequences (n, 1, d), as stock attention has them inside; the second result is the weights."""
    others = (bias_k, bias_v, key_padding_mask, attn_mask, static_k, static_v)
    if any(part is not None for part in others) or add_zero_attn or is_causal or (training and dropout_p):
        raise TypeError("masks, further keys or dropout")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else np.split(in_proj_weight, 3)
    biases = [None] * 3 if in_proj_bias is None else np.split(in_proj_bias, 3)
    used = _used(weights, biases, out_proj_weight, num_heads)
    heads = []
    for part, weight, bias in zip((query, key, value), weights, biases, strict=True):
        length = write.shape(_array(part))[0]
        if write.shape(_array(part))[1] != 1:
            raise TypeError("sequences that are more than the tokens of one point")
        projected = write.linear(_array(part), weight[used].T, None if bias is None else bias[used])  # (n, 1, E)
        size = len(weight) // num_heads
        heads.append(write.transpose(write.reshape(projected, (length, len(used) // size, -1)), (1, 0, 2)))  # (H, n, k)
    mixed = write.transpose(write.attention(*heads), (1, 0, 2))  # (n, H, k)
    length = write.shape(mixed)[0]
    return write.linear(write.reshape(mixed, (length, 1, -1)), out_proj_weight[:, used].T, out_proj_bias), None


def _used(weights: Sequence[Floats], biases: Sequence[Floats | None], output: Floats, heads: int) -> Any:
    """The features (E,) of heads that count: heads whose values are zero, or that no output reads, add nothing."""
    values = weights[2].reshape(heads, -1)
    bias = np.zeros(heads) if biases[2] is None else biases[2].reshape(heads, -1).any(axis=1)
    read = output.reshape(len(output), heads, -1).any(axis=(0, 2))
    counting = (values.any(axis=1) | (bias != 0)) & read  # (H,)
    counting = counting if counting.any() else np.ones(heads, dtype=bool)
    return np.flatnonzero(np.repeat(counting, len(output) // heads))


def _convolution(
    write: Writer,
    input: Value,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Value:
    rank = weight.ndim - 2
    sizes = [tuple(part) if isinstance(part, list | tuple) else (part,) * rank for part in (stride, padding, dilation)]
    strides, pads, dilations = ((part * rank)[:rank] for part in sizes)
    return write.convolution(input, weight, bias, strides, pads * 2, dilations, groups)


def _celu(write: Writer, input: Value, alpha: float = 1.0) -> Value:
    return composites.celu(write, input, float(alpha))


def _prelu(write: Writer, input: Value, weight: Any) -> Value:
    shape = (-1, *(1,) * (len(write.shape(input)) - 2)) if np.size(weight) > 1 else ()
    return composites.prelu(write, input, np.reshape(np.asarray(weight, dtype=np.float64), shape))


def _glu(write: Writer, input: Value, dim: int = -1) -> Value:
    return composites.glu(write, input, dim)


def _pool(kind: str, rank: int) -> Callable[..., Value]:
    """Windows that do not reach beyond the values; a stride that is not given is that of windows side by side."""

    def note(
        write: Writer, input: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, *others: Any, **more: Any
    ) -> Value:
        strange = {"dilation": 1, "ceil_mode": False, "count_include_pad": True, "divisor_override": None}
        names = ("dilation", "ceil_mode") if kind == "max" else ("ceil_mode", "count_include_pad", "divisor_override")
        given = dict(zip(names, others, strict=False)) | more
        if np.any(padding) or any(np.any(given[name] != usual) for name, usual in strange.items() if name in given):
            raise TypeError("padding, dilation, ceil_mode or another divisor")
        sizes = [
            tuple(part) if isinstance(part, list | tuple) else (part,) for part in (kernel_size, stride or kernel_size)
        ]
        return composites.pool(write, kind, input, *((part * rank)[:rank] for part in sizes))

    return note


def _whole(rank: int) -> Callable[..., Value]:
    """The mean of a whole image."""

    def note(write: Writer, input: Value, output_size: Any) -> Value:
        if set(np.ravel(output_size)) != {1}:
            raise TypeError(f"an output of size {output_size}")
        return write.reduce("mean", input, range(-rank, 0), keep=True)

    return note


OPERATIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("add", "__add__", "__radd__"), _binary("add")),
    **dict.fromkeys(("sub", "subtract", "__sub__"), _binary("subtract")),
    **dict.fromkeys(("rsub", "__rsub__"), _binary("subtract", swapped=True)),
    **dict.fromkeys(("mul", "multiply", "__mul__", "__rmul__"), _binary("multiply")),
    **dict.fromkeys(("div", "divide", "true_divide", "__truediv__"), _divide),
    "__rtruediv__": _binary("divide", swapped=True),
    **dict.fromkeys(("neg", "negative", "__neg__"), lambda write, input: write.multiply(input, np.array(-1.0))),
    **dict.fromkeys(("pow", "__pow__"), _power),
    "linear": _linear,
    **dict.fromkeys(
        ("matmul", "mm", "bmm", "__matmul__"), lambda write, input, other: write.matmul(_array(input), _array(other))
    ),
    "__rmatmul__": lambda write, input, other: write.matmul(_array(other), _array(input)),
    "addmm": _addmm,
    **{
        name: _function(name)
        for name in ("relu", "sigmoid", "tanh", "exp", "log", "sqrt", "erf", "abs", "square", "silu")
    },
    "reciprocal": _function("reciprocal"),
    "rsqrt": lambda write, input: write.apply("reciprocal", write.apply("sqrt", input)),
    "relu6": lambda write, input: write.apply("clip", input, low=0.0, high=6.0),
    **dict.fromkeys(("clamp", "clip"), _clip),
    "hardtanh": _hardtanh,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "softplus": _softplus,
    "gelu": _gelu,
    "selu": composites.selu,
    "celu": _celu,
    "hardsigmoid": composites.hard_sigmoid,
    "hardswish": composites.hard_swish,
    "mish": composites.mish,
    **dict.fromkeys(("log_sigmoid", "logsigmoid"), composites.log_sigmoid),
    "softsign": composites.softsign,
    **dict.fromkeys(("prelu", "_prelu_kernel"), _prelu),
    "glu": _glu,
    "maximum": lambda write, input, other: composites.maximum(write, _array(input), _array(other)),
    "minimum": lambda write, input, other: composites.minimum(write, _array(input), _array(other)),
    **{f"max_pool{rank}d": _pool("max", rank) for rank in (1, 2)},
    **{f"avg_pool{rank}d": _pool("mean", rank) for rank in (1, 2)},
    **{f"adaptive_avg_pool{rank}d": _whole(rank) for rank in (1, 2)},
    **dict.fromkeys(("softmax", "_softmax"), _softmax),
    "sum": _mean("sum"),
    "mean": _mean("mean"),
    "amax": _mean("max"),
    "layer_norm": _layer_norm,
    "batch_norm": _any_batch_norm,
    **dict.fromkeys(("dropout", "alpha_dropout", "dropout1d", "dropout2d", "feature_dropout"), _dropout),
    **dict.fromkeys(
        ("contiguous", "clone", "detach", "data", "to", "_to_copy", "double", "float", "type_as", "cpu", "alias"), _same
    ),
    **dict.fromkeys(("reshape", "view", "_unsafe_view"), _shape),
    "flatten": _flatten,
    "unflatten": _unflatten,
    **dict.fromkeys(("transpose", "swapaxes"), _transpose),
    "permute": _permute,
    **dict.fromkeys(("t", "T", "mT"), lambda write, input: write.swap(input) if len(write.shape(input)) > 1 else input),
    "expand": _expand,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "select": _select,
    "slice": _slice,
    "__getitem__": _getitem,
    **dict.fromkeys(("cat", "concat"), _cat),
    "stack": _stack,
    "split": _split,
    "chunk": _chunk,
    "unbind": _unbind,
    "pad": _pad,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _multi_head_attention,
    **dict.fromkeys(("conv1d", "conv2d"), _convolution),
}
"""What functions and methods of PyTorch do to a graph, by their names; other arguments than these have are refused."""
