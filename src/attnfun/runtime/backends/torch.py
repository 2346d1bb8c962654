"""Networks as plain PyTorch modules: `nn.Linear`, `nn.MultiheadAttention`, `nn.Softmax` and nothing of our own inside.

Layers become a description and weights; `standalone/torch_model.py`, which needs no attnfun, makes the module of them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial, singledispatch
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import InputError, MissingExtra
from ...network import Affine, Attention, Network, Softmax
from ...network.layers import Layer
from ...network.reference import run
from ...network.stock import stock_heads, stock_size
from .dense import CrossKeys, Planned, check_size, emitted, mixing, planned, written_out

try:
    import torch
    from torch import Tensor, nn

    from .standalone import torch_model
except ImportError:
    raise MissingExtra("torch", "torch") from None

Array = npt.NDArray[Any]


class PromptNetwork(nn.Module):
    """Layers in order, for sequences of any length."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, d')."""
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens


@dataclass(frozen=True)
class StockModule:
    """One layer in the terms of `torch_model.py`: its kind and sizes, and its weights named as in stock modules."""

    description: dict[str, Any]
    weights: dict[str, Planned]


def plan(
    network: Network,
    point_shape: tuple[int, ...],
    value_shape: tuple[int, ...],
    second_shape: tuple[int, ...] | None = None,
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and weights of the module; refused if too large."""
    form = emitted(network, second_shape)
    length, parts = form.shape_in[0], []
    for layer in form.layers:
        part = translate(layer, length)
        parts.append((part.description, part.weights))
        length = layer.length_out(length)
    return written_out("PyTorch", network, form, parts, point_shape, value_shape, second_shape)


def to_torch(
    network: Network,
    point_shape: tuple[int, ...],
    value_shape: tuple[int, ...],
    second_shape: tuple[int, ...] | None = None,
) -> nn.Module:
    """The network as an `nn.Module` in its own dtype, weights trainable; of two inputs with a `second_shape`."""
    description, weights = plan(network, point_shape, value_shape, second_shape)
    return torch_model.build(description, tensors(weights))


def prompt_to_torch(network: Network) -> PromptNetwork:
    """A network for any length as an `nn.Module`; layers that occur many times share their weights."""
    network, dtype = network.dense(), getattr(torch, network.dtype)
    parts = {id(layer): translate(layer, 0) for layer in network.layers}
    check_size("PyTorch", [weight for part in parts.values() for weight in part.weights.values()], network.dtype)
    made = {key: made_of(part, dtype) for key, part in parts.items()}
    return PromptNetwork([made[id(layer)] for layer in network.layers]).eval()


def made_of(part: StockModule, dtype: torch.dtype) -> nn.Module:
    """One layer as a stock module."""
    module = torch_model.make_layer(part.description, dtype)
    module.load_state_dict(tensors({name: weight.make() for name, weight in part.weights.items()}))
    return module


def tensors(weights: dict[str, Array]) -> dict[str, Tensor]:
    """Arrays as tensors."""
    return {name: torch.tensor(array) for name, array in weights.items()}


@singledispatch
def translate(layer: object, length: int) -> StockModule:
    """One layer on `length` tokens in stock terms."""
    raise TypeError(f"no PyTorch translation for {type(layer).__name__}")


@translate.register
def _(layer: Affine, length: int) -> StockModule:
    if layer.left is None:
        sizes = {"in_features": layer.width_in, "out_features": layer.width_out}
        weights = {"weight": planned(layer.right[0].T), "bias": planned(layer.constant[0])}
        return StockModule({"kind": "linear", **sizes}, weights)
    rows, columns = layer.constant.shape
    matrix = mixing(layer)  # (n*d, N*m)
    weight = Planned(matrix.shape[::-1], lambda: matrix.make().T)
    sizes = {"length": length, "width": layer.width_in, "rows": rows, "columns": columns}
    return StockModule({"kind": "mixing", **sizes}, {"1.weight": weight, "1.bias": planned(layer.constant.ravel())})


@translate.register
def _(layer: Attention, length: int) -> StockModule:
    heads, size, features = stock_heads(layer), stock_size(layer), layer.memory.shape[1]
    embed = heads * size
    scale = float(isqrt(size))  # exact: a power of two
    query = Planned((embed, embed), partial(_stack, layer.query * scale, heads, size, embed))
    key = Planned((embed, features), partial(_stack, layer.key, heads, size, features))
    value = Planned((embed, features), partial(_stack, layer.value, heads, size, features))
    biases = [
        _stack_bias(b, heads, size) for b in (layer.query_bias * scale, layer.key_bias, layer.value_bias)
    ]  # (E,) each
    output_bias = np.zeros(embed)
    output_bias[: layer.width_out] = layer.output_bias
    weights = {
        "memory": planned(layer.memory),
        "attention.in_proj_bias": planned(np.concatenate(biases)),
        "attention.out_proj.weight": Planned((embed, embed), partial(_stack_output, layer.output, heads, size)),
        "attention.out_proj.bias": planned(output_bias),
    }
    if features == embed:  # stock attention then keeps the three in one
        together = Planned((3 * embed, embed), lambda: np.concatenate([query.make(), key.make(), value.make()]))
        weights["attention.in_proj_weight"] = together
    else:
        weights |= {f"attention.{name}_proj_weight": w for name, w in zip("qkv", (query, key, value), strict=True)}
    sizes = {"embed": embed, "heads": heads, "memory": layer.memory.shape, "width_out": layer.width_out}
    used = (layer.heads, layer.key.shape[2], layer.value.shape[2])  # of the heads, which are padded to stock ones
    flags = {"attends_data": layer.attends_data, "residual": layer.residual, "used": used}
    return StockModule({"kind": "attention", **sizes, **flags}, weights)


@translate.register
def _(layer: CrossKeys, length: int) -> StockModule:
    attention = translate(layer.layer, length)
    weights = {
        "features.weight": planned(layer.features.right[0].T),
        "features.bias": planned(layer.features.constant[0]),
        "sums.weight": planned(layer.sums.T),
        **attention.weights,
        "memory": planned(layer.layer.memory[:, :-1]),  # the sums take the place of the last feature
    }
    sizes = {name: attention.description[name] for name in ("embed", "heads", "memory", "width_out")}
    return StockModule({"kind": "cross", "second": layer.features.width_in, "sums": len(layer.sums), **sizes}, weights)


@translate.register
def _(layer: Softmax, length: int) -> StockModule:
    return StockModule({"kind": "softmax"}, {})


def _stack(weight: Array, heads: int, size: int, width: int) -> Array:
    """Per-head projections (H, d, k) as one stock matrix (heads * size, width), zeros in the padding."""
    own, rows, columns = weight.shape
    out = np.zeros((heads, size, width))
    out[:own, :columns, :rows] = weight.transpose(0, 2, 1)
    return out.reshape(heads * size, width)


def _stack_bias(bias: Array, heads: int, size: int) -> Array:
    """Per-head biases (H, k) as one stock vector (heads * size,)."""
    out = np.zeros((heads, size))
    out[: len(bias), : bias.shape[1]] = bias
    return out.ravel()


def _stack_output(output: Array, heads: int, size: int) -> Array:
    """Per-head output matrices (H, v, o) as one stock matrix (E, E), E = heads * size."""
    own, values, width = output.shape
    out = np.zeros((heads * size, heads, size))
    out[:width, :own, :values] = output.transpose(2, 0, 1)
    return out.reshape(heads * size, heads * size)


def from_torch(module: nn.Module) -> Network | None:
    """The network of a module that `to_torch` made, with the weights that it has now; None for any other module.

    Its weights are those of the module, bit for bit: what stock attention divides scores by is a power of two.
    """
    described, kind = getattr(module, "description", None), torch_model.AttentionNetwork.__name__
    if type(module).__name__ != kind or not isinstance(described, dict):
        return None
    if described.get("second_shape") is not None:
        raise InputError(
            "a module can be read again only if it has one input",
            got="an export of two inputs",
            remedy="Load the file that net.save wrote, and recheck its certificate.",
        )
    dtypes = {str(weight.dtype).removeprefix("torch.") for weight in module.parameters()}
    if len(dtypes) != 1:
        raise InputError("the weights of a module must have one dtype", got=", ".join(sorted(dtypes)))
    layers, (length, width) = list[Layer](), described["shape_in"]
    for part, layer in zip(module.layers, described["layers"], strict=True):  # type: ignore[arg-type]
        layers.append(_LAYERS_OF[layer["kind"]](part, layer, width))
        width = layers[-1].width_out
    network = Network(tuple(layers), length, dtypes.pop())
    _refuse_misread(module, network)
    return network


def _array(weight: Any) -> Array:
    return weight.detach().cpu().double().numpy()


def _linear_layer(part: Any, layer: dict[str, Any], width: int) -> Affine:
    return Affine.tokenwise(_array(part.weight).T, _array(part.bias))


def _mixing_layer(part: Any, layer: dict[str, Any], width: int) -> Affine:
    """A map of all tokens at once, (n*d) -> (N*m), as one term for each pair of tokens."""
    length, rows, columns = (layer[name] for name in ("length", "rows", "columns"))
    blocks = _array(part[1].weight).T.reshape(length, width, rows, columns).transpose(2, 0, 1, 3)  # (N, n, d, m)
    left = np.einsum("ab,cd->acbd", np.eye(rows), np.eye(length)).reshape(-1, rows, length)  # (N*n, N, n)
    return Affine(blocks.reshape(-1, width, columns), _array(part[1].bias).reshape(rows, columns), left)


def _attention_layer(part: Any, layer: dict[str, Any], width: int) -> Attention:
    """The heads of stock attention, the silent ones included."""
    stock, heads, embed, width_out = part.attention, layer["heads"], layer["embed"], layer["width_out"]
    size = embed // heads
    if stock.in_proj_weight is None:
        projections = [stock.q_proj_weight, stock.k_proj_weight, stock.v_proj_weight]
    else:
        projections = list(stock.in_proj_weight.chunk(3))
    query, key, value = (_array(weight).reshape(heads, size, -1).transpose(0, 2, 1) for weight in projections)
    biases = [_array(bias).reshape(heads, size) for bias in stock.in_proj_bias.chunk(3)]
    output = _array(stock.out_proj.weight)[:width_out].T.reshape(heads, size, width_out)
    scale = float(isqrt(size))  # exact: a power of two
    return Attention(
        query[:, :width] / scale,
        biases[0] / scale,
        key,
        biases[1],
        value,
        biases[2],
        output,
        _array(stock.out_proj.bias)[:width_out],
        _array(part.memory),
        layer["attends_data"],
        layer["residual"],
    )


_LAYERS_OF: dict[str, Callable[[Any, dict[str, Any], int], Layer]] = {
    "linear": _linear_layer,
    "mixing": _mixing_layer,
    "attention": _attention_layer,
    "softmax": lambda part, layer, width: Softmax(width),
}
"""By the kind of a layer in the description: the layer from the module's part."""
CHECKED, AGREED = 16, 1e-6
"""Points at which what was read is compared with the module, and the fraction by which they may differ."""


def _refuse_misread(module: nn.Module, network: Network) -> None:
    """Refuse a module that computes something else than its layers: hooks, or code of its own."""
    points = np.random.default_rng(0).normal(size=(CHECKED, *module.point_shape))  # type: ignore[misc]
    with torch.no_grad():
        own = deepcopy(module).double()(torch.tensor(points)).numpy().reshape(CHECKED, -1)
    read = run(network, points.reshape(CHECKED, *network.shape_in)).reshape(CHECKED, -1)
    if not np.allclose(own, read, rtol=AGREED, atol=AGREED * max(1.0, float(np.abs(own).max()))):
        raise InputError(
            "a module that attnfun exported must return the values of its layers",
            got=f"outputs that differ by {np.abs(own - read).max():.3g}",
            remedy="Remove hooks and code that change its values.",
        )
