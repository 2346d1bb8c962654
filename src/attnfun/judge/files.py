"""The judge's own reader of files: networks, domains, targets, certificates and proofs. Nothing is taken on trust.

A file is in the safetensors format: named arrays, and a description in JSON under the name `attnfun`. Sizes are checked
before arrays are read, every field has a kind, and what does not fit together is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import inf, isfinite, nextafter, prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from .errors import NotCovered, Unreadable
from .formats import FORMATS, rounded

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Tensors = dict[str, Array]

FILE_FORMATS = (1, 2)


@dataclass(frozen=True)
class FileLimits:
    """What files may hold."""

    most_dimensions: int = 3
    """Axes of an array that is stored without its zeros. Counted: none has more."""
    most_numbers: int = 2**21
    """Numbers of all such arrays together. For memory."""
    largest_file: int = 2**28
    """Bytes. For memory."""
    deepest: int = 32
    """Parts and lemmas stand inside each other at most so deep. A round number: far below the limit of Python."""
    most_written_out: int = 2**16
    """Memory tokens of factored attention that are written out. For memory."""
    most_axes: int = 16
    """Axes of factored attention. For memory."""
    most_parts: int = 1000
    """Layers of a network, parts of a claim and premises of a lemma. A round number."""
    most_products: int = 2**22
    """Products in one evaluation of a network: the judge's memory grows with them. For memory."""
    most_stored: int = 2**24
    """Products that make keys and values of the memory tokens of a layer. For time."""
    most_words: int = 2**24
    """Letters of a description. For memory."""


TUNING = FileLimits()

LEAF = 255
"""The axis of a node of a cutting tree that is not cut."""
MOST_FEATURES = 1024
"""Features of stock attention up to which small heads become heads of 16."""


@dataclass(frozen=True, eq=False)
class Affine:
    """`Z = Σ_k A_k X B_k + C`; without A_k each token alone, `Z = X B + C`."""

    right: Floats  # (K, d, m)
    constant: Floats  # (N, m)
    left: Floats | None  # (K, N, n)


@dataclass(frozen=True, eq=False)
class Attention:
    """Multi-head attention: `q = z W_Q + b_Q`, `k = m W_K + b_K`, `v = m W_V + b_V`, `Σ_h softmax(q·k) v W_O + b_O`.

    The tokens m are the memory, and behind the data tokens if those are attended to.
    """

    query: Floats  # (H, d, k)
    query_bias: Floats  # (H, k)
    key: Floats  # (H, e, k)
    key_bias: Floats  # (H, k)
    value: Floats  # (H, e, v)
    value_bias: Floats  # (H, v)
    output: Floats  # (H, v, o)
    output_bias: Floats  # (o,)
    memory: Floats  # (M, e)
    attends_data: bool
    residual: bool
    keyed: tuple[int, ...] = ()
    """Features of the query whose products with the key are summed where the key is made, of a second input."""
    stock: int = 0
    """Features of a head of stock attention, if the layer is a part of another one; else they follow from the sizes."""

    @cached_property
    def stock_size(self) -> int:
        """Features of one head of stock attention that holds the layer's keys and values: a power of four."""
        if self.stock:
            return self.stock
        size, keys = 1, self.key.shape[2] - max(len(self.keyed) - 1, 0)
        while size < max(keys, self.value.shape[2]):
            size *= 4
        heads, width, out = len(self.query), self.query.shape[1], self.output.shape[2]
        narrow = size > 1 or heads < max(width, out)
        return 16 if narrow and size <= 16 and heads * 16 <= MOST_FEATURES else size


@dataclass(frozen=True, eq=False)
class Softmax:
    """Softmax over the features of each token."""

    width: int


Layer = Affine | Attention | Softmax


@dataclass(frozen=True, eq=False)
class Network:
    """Layers, the length of the sequence that goes in, and the number format."""

    layers: tuple[Layer, ...]
    length: int
    width: int
    dtype: str

    @cached_property
    def products(self) -> tuple[int, ...]:
        """Products in one evaluation of each layer."""
        sizes, found = (self.length, self.width), list[int]()
        for layer in self.layers:
            sizes, products = _after(layer, sizes)
            found.append(products)
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Domain:
    """A box, the points of a box at which a condition holds, or a cloud of points with all that is near."""

    low: Floats  # (D,)
    high: Floats  # (D,)
    names: tuple[str, ...]
    condition: str | None = None
    points: Floats | None = None  # (S, D)
    fill: float = 0.0


@dataclass(frozen=True, eq=False)
class Proof:
    """A lemma: its rule, its data, and the lemmas that it needs."""

    rule: str
    data: Mapping[str, Array]
    premises: tuple[Proof, ...]


@dataclass(frozen=True, eq=False)
class Claim:
    """What a certificate states of a network, a target and a domain."""

    network: Network
    domain: Domain
    outputs: int
    target: Mapping[str, Any]
    """The target's kind and its words."""
    arrays: Tensors
    """The target's numbers."""
    bound: float
    """Without what is set aside for fast evaluation."""
    status: str
    norm: float
    proof: Proof | None
    parts: tuple[Claim, ...] = ()
    declared: tuple[str, ...] = field(default=())
    """What the certificate takes for granted."""

    @cached_property
    def work(self) -> int:
        """About how many operations an evaluation of the network, the target and the domain takes."""
        texts = [self.domain.condition, self.target.get("text"), self.target.get("formula")]
        arrays = [*self.arrays.values(), *([] if self.domain.points is None else [self.domain.points])]
        own = sum(len(text) for text in texts if isinstance(text, str)) + sum(array.size for array in arrays)
        return own + sum(self.network.products) + sum(part.work for part in self.parts)


def read(path: str | os.PathLike[str]) -> Claim:
    """The claim in a file."""
    return claim_of(*contents(path))


def contents(path: str | os.PathLike[str]) -> tuple[Any, Tensors]:
    """The description in a file, and its arrays."""
    try:
        if Path(path).stat().st_size > TUNING.largest_file:
            raise NotCovered(f"files of more than {TUNING.largest_file} bytes")
        with safe_open(str(path), "numpy") as file:
            words = (file.metadata() or {}).get("attnfun", "")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        if len(words) > TUNING.most_words:
            raise NotCovered(f"descriptions of more than {TUNING.most_words} letters")
        description = json.loads(words)
    except (SafetensorError, OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError) as reason:
        raise Unreadable(f"{path} must be a complete file of attnfun: {reason}") from None
    if entry(description, "format", int) not in FILE_FORMATS:
        raise Unreadable(f"the file format must be one of {FILE_FORMATS}")
    return description, _with_zeros(description, tensors)


def _with_zeros(description: Any, tensors: Tensors) -> Tensors:
    """All arrays: those that are mostly zeros are in the file as places in the flat array, ascending, and numbers."""
    if "sparse" not in description:
        return tensors
    shapes, total = entry(description, "sparse", dict), 0
    found = dict(tensors)
    for name in shapes:
        size = _sizes(shapes, name, TUNING.most_dimensions)
        total += size
        places, numbers = (found.pop(f"{name}.{kind}", None) for kind in ("places", "numbers"))
        if places is None or numbers is None or name in found or places.dtype != np.int64 or places.ndim != 1:
            raise Unreadable(f"the array {name[:40]} must have places and numbers")
        if total > TUNING.most_numbers:
            raise NotCovered(f"arrays of more than {TUNING.most_numbers} numbers")
        ends = places.size == 0 or (places[0] >= 0 and places[-1] < size)
        if numbers.shape != places.shape or not ends or (np.diff(places) <= 0).any():
            raise Unreadable(f"the numbers of {name[:40]} must have places of their own in it")
        flat = np.zeros(size, dtype=numbers.dtype)
        flat[places] = numbers
        found[name] = flat.reshape(shapes[name])
    return found


def entry(data: Any, name: str, *kinds: type) -> Any:
    """A field of a description, of one of these types."""
    if not isinstance(data, dict) or name not in data or not isinstance(data[name], kinds):
        raise Unreadable(f"the description must have {name!r}, one of {', '.join(kind.__name__ for kind in kinds)}")
    if isinstance(data[name], bool) and bool not in kinds:
        raise Unreadable(f"the field {name!r} must be no truth value")
    return data[name]


def number_in(data: Any, name: str, least: float = 0.0) -> float:
    """A finite number that is not too small."""
    try:
        number = float(entry(data, name, int, float))
    except OverflowError:
        number = inf
    if not isfinite(number) or number < least:
        raise Unreadable(f"the field {name!r} must be a finite number of at least {least:g}")
    return number


def _few(data: Any, name: str) -> list[Any]:
    """A list that is not too long."""
    found = entry(data, name, list)
    if len(found) > TUNING.most_parts:
        raise NotCovered(f"more than {TUNING.most_parts} {name}")
    return found


def _sizes(data: Any, name: str, most: int) -> int:
    """The product of a list of sizes, which are positive whole numbers."""
    found = entry(data, name, list)
    if len(found) > most or not all(type(each) is int and 0 < each < 2**31 for each in found):
        raise Unreadable(f"the field {name!r} must be a list of up to {most} sizes")
    return prod(found)


def _below(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


def claim_of(data: Any, tensors: Tensors, depth: int = 0) -> Claim:
    """The claim in a description and its arrays."""
    if depth > TUNING.deepest:
        raise Unreadable(f"parts may stand {TUNING.deepest} deep inside each other")
    domain = _domain(entry(data, "domain", dict))
    outputs = _sizes(data, "output_shape", 2)
    network = _network(entry(data, "network", dict), tensors, len(domain.low), outputs)
    certificate, parts = entry(data, "certificate", dict), _few(data, "parts") if "parts" in data else []
    norm = inf if certificate.get("norm") == "inf" else number_in(certificate, "norm", 1.0)
    if norm < inf and domain.points is not None:
        raise Unreadable("on points the norm must be 'inf': they have no volume")
    shares = entry(certificate, "parts", dict)
    bound, aside = number_in(certificate, "bound"), number_in(shares, "windows") if "windows" in shares else 0.0
    if entry(certificate, "dtype", str) != network.dtype:
        raise Unreadable("the certificate must be about the number format of its network")
    lines = entry(certificate, "assumptions", list)
    if not all(isinstance(line, str) for line in lines):
        raise Unreadable("the field 'assumptions' must be a list of texts")
    proof = _proof(data["proof"], tensors) if data.get("proof") is not None else None
    inner = tuple(claim_of(part, _below(tensors, f"parts.{k}."), depth + 1) for k, part in enumerate(parts))
    return Claim(
        network,
        domain,
        outputs,
        entry(data, "target", dict),
        _below(tensors, "target."),
        nextafter(bound - aside, -inf) if aside else bound,
        entry(certificate, "status", str),
        norm,
        proof,
        inner,
        tuple(lines),
    )


def box_of(data: Any) -> Domain:
    """A domain that is a box."""
    domain = _domain(data)
    if data.get("kind") is not None:
        raise NotCovered("networks of other makers on domains that are no boxes")
    return domain


def _domain(data: Any) -> Domain:
    kind = data.get("kind")
    if kind == "region":
        if entry(data, "box", dict).get("kind") is not None:
            raise Unreadable("a region must be a part of a box")
        box = _domain(data["box"])
        return Domain(box.low, box.high, box.names, entry(data, "predicate", str))
    if kind == "points":
        points = _numbers(entry(data, "points", list), 3)
        if not points.size:
            raise Unreadable("a cloud must have points")
        points, fill = points.reshape(len(points), -1), number_in(data, "fill")
        return Domain(points.min(axis=0), points.max(axis=0), _names(data, points.shape[1]), None, points, fill)
    if kind == "interiors":
        raise NotCovered("the interiors of cells as a domain")
    if kind == "two inputs":
        return _joined(_few(data, "inputs"))
    if kind is not None:
        raise Unreadable(f"a domain must be a box, a region or points, not {str(kind)[:40]!r}")
    low, high = (_numbers(entry(data, name, list, float, int), 2).ravel() for name in ("lo", "hi"))
    if low.shape != high.shape or not low.size or not (low <= high).all():
        raise Unreadable("a box must have as many lower as upper ends, and none above its other end")
    return Domain(low, high, _names(data, len(low)))


def _joined(inputs: list[Any]) -> Domain:
    """The box of all pairs of points of two boxes; coordinates without names are called after their input."""
    low, high, names = list[Floats](), list[Floats](), list[str]()
    for each in inputs:
        if not isinstance(each, list) or [type(part) for part in each] != [str, dict]:
            raise Unreadable("two inputs must have a name and a box each")
        name, data = each
        if data.get("kind") is not None:
            raise Unreadable("two inputs must be boxes")
        box, shape = _domain(data), np.shape(data["lo"])
        low, high = [*low, box.low], [*high, box.high]
        own = [name + "_".join(map(str, place)) for place in np.ndindex(shape)]
        names += own if data.get("names") is None else list(box.names)
    if len(inputs) != 2 or len(set(names)) != len(names):
        raise Unreadable("there must be two inputs, and their variables must have different names")
    return Domain(np.concatenate(low), np.concatenate(high), tuple(names))


def _numbers(data: Any, dimensions: int) -> Floats:
    """Lists of numbers inside each other as an array; truth values and texts are no numbers."""
    level = [data]
    for _ in range(dimensions):
        level = [each for part in level for each in (part if isinstance(part, list) else [part])]
    if not all(type(each) in (int, float) for each in level):
        raise Unreadable(f"a domain must be made of numbers, in up to {dimensions} dimensions")
    try:
        numbers = np.array(data, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Unreadable("a domain must be made of numbers in rows of one length") from None
    if not np.isfinite(numbers).all():
        raise Unreadable("a domain must be bounded")
    return numbers


def _names(data: Any, size: int) -> tuple[str, ...]:
    """The names of the variables, or x0, x1, ..."""
    names = data.get("names")
    if names is None:
        return ("x",) if size == 1 else tuple(f"x{k}" for k in range(size))
    if not isinstance(names, list) or len(names) != size or not all(isinstance(name, str) for name in names):
        raise Unreadable("a domain must have a name for each variable")
    if len(set(names)) != size:
        raise Unreadable("the variables of a domain must have different names")
    return tuple(names)


def _proof(data: Any, tensors: Tensors, place: str = "proof", depth: int = 0) -> Proof:
    if depth > TUNING.deepest:
        raise Unreadable(f"lemmas may stand {TUNING.deepest} deep inside each other")
    names = entry(data, "data", list)
    if not all(isinstance(name, str) and f"{place}.{name}" in tensors for name in names):
        raise Unreadable(f"the file must have the data of {place}")
    premises = _few(data, "premises")
    below = tuple(_proof(each, tensors, f"{place}.{k}", depth + 1) for k, each in enumerate(premises))
    return Proof(entry(data, "rule", str), {name: tensors[f"{place}.{name}"] for name in names}, below)


def _network(data: Any, tensors: Tensors, inputs: int, outputs: int) -> Network:
    """The network, if its layers fit together and each weight is a number of its format."""
    dtype = entry(data, "dtype", str)
    if dtype not in FORMATS:
        raise Unreadable(f"the number format must be one of {', '.join(FORMATS)}")
    layers = tuple(
        _layer(plain, {name: _weights(array, dtype, name) for name, array in _below(tensors, f"layers.{k}.").items()})
        for k, plain in enumerate(_few(data, "layers"))
    )
    if not layers:
        raise Unreadable("a network must have layers")
    width = _width_in(layers[0])
    length = data.get("length")
    if length is None:
        length = inputs // max(width, 1)
    if type(length) is not int or length < 1 or length * width != inputs:
        raise Unreadable("the network must read as many numbers as the domain has variables")
    sizes = (length, width)
    for layer in layers:
        sizes, _ = _after(layer, sizes)
    if prod(sizes) != outputs:
        raise Unreadable("the network must put out as many numbers as the file says")
    network = Network(layers, length, width, dtype)
    if sum(network.products) > TUNING.most_products:
        raise NotCovered(f"networks with more than {TUNING.most_products} products")
    return network


def _weights(array: Array, dtype: str, name: str) -> Floats:
    """Weights as float64, if they are finite numbers of the format."""
    held = FORMATS[dtype].held
    if array.dtype != held:
        raise Unreadable(f"the weights {name} must be stored as {held}")
    exact = array.astype(np.float64)
    if not np.isfinite(exact).all() or (rounded(exact, dtype) != exact).any():
        raise Unreadable(f"the weights {name} must be finite numbers of {dtype}")
    return exact


def _layer(plain: Any, weights: dict[str, Floats]) -> Layer:
    match entry(plain, "kind", str):
        case "affine":
            return Affine(_of(weights, "right", 3), _of(weights, "constant", 2), weights.get("left"))
        case "softmax":
            return Softmax(entry(plain, "width", int))
        case "attention":
            dimensions = {
                "query": 3,
                "query_bias": 2,
                "key": 3,
                "key_bias": 2,
                "value": 3,
                "value_bias": 2,
                "output": 3,
            }
            arrays = {name: _of(weights, name, count) for name, count in dimensions.items()}
            arrays |= {"output_bias": _of(weights, "output_bias", 1), "memory": _of(weights, "memory", 2)}
            flags = _flag(plain, "attends_data"), _flag(plain, "residual")
            keyed = tuple(_few(plain, "keyed")) if "keyed" in plain else ()
            if not all(type(each) is int and 0 <= each < arrays["query"].shape[2] for each in keyed):
                raise Unreadable("the features that keys hold must be some of the query's")
            if any(a >= b for a, b in pairwise(keyed)):
                raise Unreadable("the features that keys hold must be named once, in order")
            if keyed and (flags[0] or len(arrays["query"]) != 1):
                raise Unreadable("keys of a second input must have one head to themselves")
            return Attention(**arrays, attends_data=flags[0], residual=flags[1], keyed=keyed, stock=0)
        case "factored-attention":
            return _written_out(plain, weights)
        case kind:
            raise Unreadable(f"the kind of layer {kind[:40]!r} is unknown")


def _flag(plain: Any, name: str) -> bool:
    """A truth value; false where an older file has none."""
    return entry(plain, name, bool) if name in plain else False


def _of(weights: dict[str, Floats], name: str, dimensions: int) -> Floats:
    array = weights.get(name)
    if array is None or array.ndim != dimensions:
        raise Unreadable(f"a layer must have {name} with {dimensions} dimensions")
    return array


def _written_out(plain: Any, weights: dict[str, Floats]) -> Attention:
    """A head whose memory tokens are all combinations along axes, with all its keys.

    Token (j_1, ..., j_r) has the score `Σ_k (a_k[j_k] q_k + b_k[j_k])`: its key is (a, b), and the query (q, 1).
    """
    if _sizes(plain, "sizes", TUNING.most_axes) > TUNING.most_written_out:
        raise NotCovered(f"factored attention with more than {TUNING.most_written_out} memory tokens")
    sizes, query, bias = plain["sizes"], _of(weights, "query", 3), _of(weights, "query_bias", 2)
    rank, values = len(sizes), _of(weights, "values", 2)
    parts = [_of(weights, name, 1) for name in ("slopes", "offsets")]
    fits = rank > 0 and query.shape[::2] == (1, rank) and bias.shape == (1, rank) and len(values) == prod(sizes)
    if not fits or any(part.size != sum(sizes) for part in parts):
        raise Unreadable("factored attention must have a slope and an offset for each token of its axes")
    if values.shape[1] ** 2 > TUNING.most_products:
        raise NotCovered("factored attention with so many values a token")
    axes = [np.split(part, np.cumsum(sizes)[:-1]) for part in parts]
    grids = [grid.ravel() for each in axes for grid in np.meshgrid(*each, indexing="ij")]
    memory = np.column_stack([*grids, values])  # (M, 2r + v)
    every = np.eye(memory.shape[1])[None]  # (1, 2r + v, 2r + v)
    return Attention(
        query=np.concatenate([query, np.zeros_like(query)], axis=2),
        query_bias=np.concatenate([bias, np.ones((1, rank))], axis=1),
        key=every[:, :, : 2 * rank],
        key_bias=np.zeros((1, 2 * rank)),
        value=every[:, :, 2 * rank :],
        value_bias=np.zeros((1, values.shape[1])),
        output=_of(weights, "output", 3),
        output_bias=_of(weights, "output_bias", 1),
        memory=memory,
        attends_data=False,
        residual=False,
    )


def _width_in(layer: Layer) -> int:
    match layer:
        case Affine():
            return layer.right.shape[1]
        case Attention():
            return layer.query.shape[1]
        case Softmax():
            return layer.width


def _after(layer: Layer, sizes: tuple[int, int]) -> tuple[tuple[int, int], int]:
    """Tokens and features after a layer, and the products that it takes; an error if it does not fit."""
    (length, width), stored = sizes, 0
    if isinstance(layer, Softmax):
        fits, after, products = layer.width == width, sizes, 0
    elif isinstance(layer, Affine):
        terms, tokens = (1, length) if layer.left is None else (len(layer.right), len(layer.constant))
        rows, after = 1 if layer.left is None else tokens, (tokens, layer.right.shape[2])
        fits = layer.right.shape[:2] == (terms, width) and layer.constant.shape == (rows, after[1])
        fits = fits and (layer.left is None or layer.left.shape == (terms, tokens, length))
        products = terms * length * width * rows * after[1]
    else:
        heads, features, keys = layer.key.shape
        values, out, memory = layer.value.shape[2], layer.output.shape[2], len(layer.memory)
        fits = (
            layer.query.shape == (heads, width, keys)
            and layer.query_bias.shape == layer.key_bias.shape == (heads, keys)
            and layer.value.shape == (heads, features, values)
            and layer.value_bias.shape == (heads, values)
            and layer.output.shape == (heads, values, out)
            and layer.output_bias.shape == (out,)
            and layer.memory.shape[1] == features
            and (layer.attends_data or memory > 0)
            and (not layer.attends_data or features == width)
            and (not layer.residual or out == width)
            and min(heads, features, keys, values) > 0
        )
        after = (length, out)
        products = heads * length * (memory + length) * (keys + values) + length * heads * values * out
        stored = heads * memory * features * (keys + values)
    if not fits or min(after) < 1:
        raise Unreadable("the layers of the network must fit together")
    if max(products, prod(after)) > TUNING.most_products or stored > TUNING.most_stored:
        raise NotCovered(
            f"layers with more than {TUNING.most_products} products, or {TUNING.most_stored} for keys and values"
        )
    return after, products
