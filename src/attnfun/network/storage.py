"""Networks as named tensors plus a JSON description, in the safetensors format. Nothing is ever unpickled.

In a layer of H heads that read one of d features each, H numbers of H d are not zero. Files hold such an array as two:
the places of its numbers in the flat array, ascending, and the numbers. The description has their shapes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import MISSING, fields
from math import prod
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from .._version import __version__
from ..arguments import path as given_path
from ..arithmetic.formats import DTYPES, held_in, round_to
from ..domains import restore_domain
from ..domains.box import Box
from ..errors import FileFormatError, InputError
from .fields import Fields
from .layers import LAYERS, Layer
from .network import Network

FORMAT = 2
"""Raised when older readers could misunderstand a file."""

SMALLEST, FEW = 2**12, 4
"""Arrays of so many numbers, of which one in FEW at most is not zero, are written without their zeros."""
MOST = 2**28
"""Numbers, zeros included, that a file may request in such arrays."""
PLACES, NUMBERS = ".places", ".numbers"

Tensors = dict[str, npt.NDArray[Any]]


def write(path: str | os.PathLike[str], tensors: Tensors, description: dict[str, Any]) -> None:
    """Write tensors and a description to a safetensors file."""
    from safetensors.numpy import save

    kept, shapes = without_zeros(tensors)
    header = {"format": FORMAT, "attnfun": __version__, **description} | ({"sparse": shapes} if shapes else {})
    data = save(
        {name: np.ascontiguousarray(tensor) for name, tensor in kept.items()},
        {"attnfun": json.dumps(header)},
    )
    write_whole(path, data)


ENDINGS = frozenset(
    (".onnx", ".safetensors", ".py", ".pt", ".pth", ".png", ".pdf", ".svg", ".html", ".json", ".csv", ".npz", ".pkl")
)
"""Of names of files, each of which says a format."""


def write_as(ending: str, path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in one step; its name may have this ending, or none, but not that of another format."""
    given = refuse_place(path)
    if given.suffix.lower() in ENDINGS - {ending}:
        raise InputError(f"the name of this file must end in {ending}", got=str(given))
    write_whole(given, data)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in one step: it appears complete or not at all. Devices and pipes are written to, never replaced."""
    destination = refuse_place(path)
    try:
        if destination.exists() and not destination.is_file():
            destination.write_bytes(data)
            return
        temporary = destination.with_name(f"{destination.name}.{uuid4().hex}.part")
        file = temporary.open("xb")
        try:
            with file:
                file.write(data)
            temporary.replace(destination)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as reason:
        raise FileFormatError(f"{destination} must be writable", got=str(reason)) from None


def refuse_place(path: str | os.PathLike[str]) -> Path:
    """The place of a file to be written; before long work, an error if there is no folder for it or it is one."""
    place = given_path("path", path)
    if place.is_dir():
        raise FileFormatError(f"{place} must be the name of a file", got="a folder")
    if not place.parent.is_dir():
        raise FileFormatError(f"{place} must be writable", got=f"{place.parent}, which is no folder")
    return place


def read(path: str | os.PathLike[str]) -> tuple[Tensors, dict[str, Any]]:
    """Tensors and description of a file written by `write`."""
    from safetensors import SafetensorError, safe_open

    path = given_path("path", path)
    if not path.is_file():
        raise FileFormatError("the file must exist", got=str(path))
    try:
        with safe_open(str(path), "numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, ValueError) as reason:
        raise FileFormatError(f"{path} must be a complete safetensors file", got=str(reason)) from None
    if "attnfun" not in metadata:
        raise FileFormatError(f"{path} must have been written by attnfun", got="no attnfun description in it")
    try:
        description = json.loads(metadata["attnfun"])
    except (ValueError, RecursionError):
        raise FileFormatError(f"{path} must carry a readable attnfun description") from None
    given = Fields(description)
    number, version = given.whole("format", 1), given.version("attnfun")
    if number > FORMAT:
        raise FileFormatError(
            f"this attnfun reads file formats up to {FORMAT}",
            got=f"format {number}",
            remedy=f"Install attnfun {version} or later: pip install 'attnfun>={version}'",
        )
    return with_zeros(tensors, given), description


def without_zeros(tensors: Tensors) -> tuple[Tensors, dict[str, list[int]]]:
    """Tensors as files hold them, and the shapes of those that are mostly zeros. A negative zero is kept.

    >>> kept, shapes = without_zeros({"wide": np.eye(64), "short": np.eye(2)})
    >>> {name: tensor.size for name, tensor in kept.items()}, shapes
    ({'wide.places': 64, 'wide.numbers': 64, 'short': 4}, {'wide': [64, 64]})
    """
    kept, shapes = Tensors(), dict[str, list[int]]()
    for name, tensor in tensors.items():
        flat = tensor.reshape(-1)
        if flat.dtype.kind != "f" or flat.size < SMALLEST:
            kept[name] = tensor
            continue
        places = np.flatnonzero((flat != 0) | np.signbit(flat))
        if FEW * len(places) > flat.size:
            kept[name] = tensor
        else:
            kept |= {name + PLACES: places, name + NUMBERS: flat[places]}
            shapes[name] = list(tensor.shape)
    return kept, shapes


def with_zeros(tensors: Tensors, given: Fields) -> Tensors:
    """The tensors again; an error if a place is outside of its tensor, or named twice."""
    if "sparse" not in given:
        return tensors
    shapes, full, total = given.inner("sparse"), dict(tensors), 0
    for name in shapes:
        shape = tuple(shapes.each(name, Fields.whole))
        places, numbers = (full.pop(name + ending, np.empty(0)) for ending in (PLACES, NUMBERS))
        size = prod(shape)
        total += size
        fits = places.dtype == np.int64 and places.ndim == numbers.ndim == 1 and len(places) == len(numbers)
        fits = fits and min(shape, default=0) > 0 and total <= MOST and name not in full
        if not fits or (len(places) and not (places[0] >= 0 and places[-1] < size and (np.diff(places) > 0).all())):
            raise FileFormatError(
                f"each number of the sparse array {name} must have a place of its own", got=str(shape)[:80]
            )
        full[name] = np.zeros(size, dtype=numbers.dtype)
        full[name][places] = numbers
        full[name] = full[name].reshape(shape)
    return full


def pack(network: Network) -> tuple[Tensors, dict[str, Any]]:
    """A network as tensors (in its dtype, which holds every weight exactly) and a description."""
    tensors: Tensors = {}
    layers: list[dict[str, Any]] = []
    for number, layer in enumerate(network.layers):
        plain: dict[str, Any] = {"kind": layer.kind}
        for field in fields(layer):
            value = getattr(layer, field.name)
            if isinstance(value, np.ndarray):
                tensors[f"layers.{number}.{field.name}"] = value.astype(held_in(network.dtype), copy=False)
            else:
                plain[field.name] = list(value) if isinstance(value, tuple) else value
        layers.append(plain)
    return tensors, {"layers": layers, "length": network.length, "dtype": network.dtype}


READERS: dict[str, Callable[[Fields, str], Any]] = {
    "bool": Fields.flag,
    "int": Fields.whole,
    "tuple[int, ...]": lambda given, name: tuple(given.each(name, Fields.whole)),
}
"""How the fields of layers that are no tensors are read, by their types."""


def unpack(tensors: Tensors, description: object) -> Network:
    """The network again, bit for bit; an error if a weight is no number of its dtype.

    Files that were written before a field of layers existed lack it: they mean its default.
    """
    given = Fields(description, "network")
    dtype, length = given.text("dtype", DTYPES), given.optional("length", lambda all_, name: all_.whole(name, 1))
    layers: list[Layer] = []
    for number, plain in enumerate(given.each("layers", Fields.inner)):
        kind = LAYERS[plain.text("kind", LAYERS)]
        values: dict[str, Any] = {}
        for field in fields(kind):
            if field.type in READERS and (field.name in plain or field.default is MISSING):
                values[field.name] = READERS[field.type](plain, field.name)
            elif (name := f"layers.{number}.{field.name}") in tensors:
                values[field.name] = _weights(tensors[name], dtype, name)
        try:
            layers.append(kind(**values))
        except (TypeError, ValueError, IndexError, AttributeError) as reason:
            raise FileFormatError("the file must describe layers whose sizes agree", got=str(reason)) from None
    try:
        return Network(tuple(layers), length, dtype)
    except InputError as reason:
        raise FileFormatError("the file must describe layers whose sizes agree", got=str(reason)) from None


def _weights(array: npt.NDArray[Any], dtype: str, name: str) -> npt.NDArray[np.float64]:
    """Weights as float64, if they are numbers of the dtype, stored as such."""
    weights = array.astype(np.float64, copy=False)
    if array.dtype != held_in(dtype) or not np.array_equal(round_to(weights, dtype), weights):
        raise FileFormatError(f"the weights {name} must be finite numbers of {dtype}", got=str(array.dtype))
    return weights


def ends_of(network: Network, given: Fields) -> tuple[Box, tuple[int, ...]]:
    """The domain of a network and the shape of its values, which it must fit."""
    domain = _domain(given.inner("domain"))
    output_shape = tuple(given.each("output_shape", lambda sizes, name: sizes.whole(name, 1)))
    if prod(network.shape_in) != domain.size or prod(network.shape_out) != prod(output_shape) or len(output_shape) > 2:
        raise FileFormatError("a file must describe a network that fits its domain", got=repr(network))
    return domain, output_shape


def _domain(given: Fields) -> Box:
    """The domain; names are a list of texts."""
    box = given.inner("box") if "box" in given else given
    if "inputs" not in given:
        box.optional("names", lambda names, name: names.each(name, Fields.text))
    try:
        return restore_domain(given.data)
    except (TypeError, ValueError, KeyError, OverflowError) as reason:
        raise FileFormatError("the field domain must describe a domain", got=str(reason)) from None
