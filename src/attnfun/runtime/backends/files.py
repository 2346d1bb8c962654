"""Exports as files that run where attnfun is not installed: weights in safetensors and a Python file beside them.

`f.py` is one of the files in `standalone`, word for word; `f.weights.safetensors` holds the weights and what is known
about the network. Nothing is pickled. Numbers of formats that NumPy does not compute in
are stored in one that holds them exactly.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ...arithmetic.formats import held_in
from ...errors import InputError
from ...network import Network, storage

TARGETS = {"torch": "torch", "jax": "jax", "transformer-lens": "lens"}
"""What can be written, and the name of its back end, which is also that of its file in `standalone`."""


def write(
    target: str,
    path: str | os.PathLike[str],
    network: Network,
    shapes: tuple[tuple[int, ...], ...],
    metadata: dict[str, Any],
) -> list[Path]:
    """Write a network with points and values of these shapes; the files written."""
    from safetensors.numpy import save

    code = storage.refuse_place(path)
    if code.suffix != ".py":
        raise InputError(f"an export to {target} is a Python file with its weights beside it", got=str(path))
    description, weights = import_module(f".{TARGETS[target]}", __package__).plan(network, *shapes)
    source = (Path(__file__).parent / "standalone" / f"{TARGETS[target]}_model.py").read_bytes()
    arrays = {name: np.ascontiguousarray(array, dtype=held_in(network.dtype)) for name, array in weights.items()}
    data = save(arrays, {"network": json.dumps({**description, **metadata})})
    beside = code.with_suffix(".weights.safetensors")
    storage.write_whole(beside, data)
    storage.write_whole(code, source)
    return [code, beside]
