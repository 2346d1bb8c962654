"""Networks as Hugging Face models: a `PreTrainedModel` around the stock parts that `torch.py` describes."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...arguments import path as given_path
from ...errors import InputError, MissingExtra
from ...network import Network, storage

try:
    from .standalone import huggingface_model
    from .torch import plan, tensors
except ImportError:
    raise MissingExtra("transformers", "hf") from None

CODE = ("huggingface_model.py", "torch_model.py")
"""Files of `standalone` that a folder carries."""
KNOWN = ("summary", "variables", "domain", "certificate")
"""What a configuration says beside the layers."""


def to_huggingface(
    network: Network,
    point_shape: tuple[int, ...],
    value_shape: tuple[int, ...],
    second_shape: tuple[int, ...] | None = None,
    *,
    known: dict[str, Any],
) -> Any:
    """The network as a `NetworkModel` in its own dtype, weights trainable."""
    description, weights = plan(network, point_shape, value_shape, second_shape)
    facts = {name: known[name] for name in KNOWN}
    config = huggingface_model.NetworkConfig(network=description, dtype=network.dtype, **facts)
    return huggingface_model.build(config, tensors(weights))


def write(model: Any, path: str | os.PathLike[str]) -> list[Path]:
    """Write a folder for `from_pretrained`, with the code that it takes; the files written, each whole."""
    folder = given_path("path", path)
    if folder.suffix or (folder.exists() and not folder.is_dir()):
        raise InputError("an export to huggingface is a folder", got=str(path), remedy="Name it without an ending.")
    files = {name: (Path(__file__).parent / "standalone" / name).read_bytes() for name in CODE}
    with TemporaryDirectory() as made:
        model.save_pretrained(made)
        files |= {part.name: part.read_bytes() for part in sorted(Path(made).iterdir())}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise InputError("the folder of an export must be one that can be created", got=str(reason)) from None
    for name, data in files.items():
        storage.write_whole(folder / name, data)
    return [folder / name for name in files]
