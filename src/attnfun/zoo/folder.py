"""The zoo as a folder: a benchmark set with a manifest, written in one step and checked by its sums.

    manifest.json                    what there is, versions, seed, and the SHA-256 of every other file
    NAME/model.weights.safetensors   the weights, without a word on what they do
    NAME/model.py                    the model in PyTorch: `load()`
    NAME/lens.py                     the model in TransformerLens: `load("model.weights.safetensors")`
    NAME/network.safetensors         the compiled network before any disguise, with its certificate
    NAME/tasks.*, NAME/truth.*       see `answers.py`

Learners are made for the zoo, not compiled: they have no `network.safetensors`.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from .._version import __version__
from ..compiled import Compiled
from ..errors import FileFormatError, InputError
from ..runtime import backends
from .answers import Answers
from .catalogue import CATALOGUE, chosen, made
from .disguise import MEASURED, disguise
from .specimen import Specimen

FORMAT = 1


@dataclass(frozen=True)
class FolderTuning:
    """How large the tables of a model are."""

    points: int = 128
    """Points of the tables of a model. A round number."""


TUNING = FolderTuning()

USUAL = ("split", "scale", "permute", "rotate")
"""Disguises if none are named: those that leave the function alone."""
LOADERS = {"model.py": "residual_model.py", "lens.py": "lens_model.py"}
WEIGHTS = "model.weights.safetensors"


def write(
    folder: Path,
    *,
    names: Iterable[str] = (),
    quick: bool = False,
    seed: int = 0,
    disguises: Sequence[str] = USUAL,
    tell: Callable[[str], None] = lambda name: None,
) -> dict[str, Any]:
    """Write the zoo; its manifest. The folder appears complete or not at all."""
    wanted, folder = chosen(names, quick), folder.resolve()
    _check_free(folder)
    beside = folder.with_name(f"{folder.name}.{uuid4().hex}.part")
    try:
        beside.mkdir(parents=True)
        models = {}
        for number, name in enumerate(wanted):
            tell(name)
            plain, net = made(name)
            hidden = disguise(plain, disguises, seed + number)
            models[name] = _write_model(beside / name, hidden, net, plain, seed + number)
        manifest = {
            "format": FORMAT,
            "attnfun": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "seed": seed,
            "disguises": list(disguises),
            "models": models,
            "sha256": {str(path.relative_to(beside).as_posix()): digest(path) for path in _files(beside)},
        }
        (beside / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
        if folder.exists():
            folder.rmdir()
        beside.rename(folder)
    except OSError as reason:
        raise InputError("the folder for the zoo must be writable", got=str(reason)) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return manifest


def _check_free(folder: Path) -> None:
    """A folder with anything in it, or a file, is not written over."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("the folder for the zoo must be new or empty", got=str(folder), remedy="Name another one.")


def _write_model(folder: Path, model: Specimen, net: Compiled | None, plain: Specimen, seed: int) -> dict[str, Any]:
    """The files of one model; what the manifest says about it."""
    from safetensors.numpy import save

    folder.mkdir()
    answers = Answers.of(model, TUNING.points, seed)
    blank = replace(model.residual, features=(), heads=())
    description, weights = blank.plan(model.point_shape, model.truth.value_shape)
    arrays = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    files = {WEIGHTS: save(arrays, {"network": json.dumps(description)}), **answers.files(model)}
    standalone = Path(backends.__file__).parent / "standalone"
    files |= {name: (standalone / source).read_bytes() for name, source in LOADERS.items()}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    if net is not None:
        net.save(folder / "network.safetensors")
    hidden = model.status == MEASURED
    return {
        "kind": CATALOGUE[model.name].kind,
        "title": model.title,
        "blocks": answers.shape[0],
        "heads": answers.shape[1],
        "width": model.residual.width,
        "rows": len(model.residual.start),
        "registers": len(answers.values),
        "seed": seed,
        "plain": {"bound": plain.bound, "status": plain.status},
        "error": {
            "status": MEASURED if hidden else plain.status,
            "largest_found": model.farthest(answers.points),
            "points": len(answers.points),
        },
    }


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a folder."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        number = int(manifest["format"])
        named = {**manifest["models"], **manifest["sha256"]}
    except (OSError, ValueError, KeyError, TypeError) as reason:
        raise FileFormatError(f"{folder} must be a folder written by attnfun zoo", got=repr(reason)) from None
    if number > FORMAT:
        raise FileFormatError(f"this attnfun reads zoos up to format {FORMAT}", got=f"format {number}")
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in named):
        raise FileFormatError("a manifest may only name files inside its folder", got=str(folder))
    return manifest


def check(folder: Path) -> int:
    """How many files there are, if each is what the manifest says and nothing is missing or added; else an error."""
    sums: dict[str, str] = manifest_of(folder)["sha256"]
    there = {path.relative_to(folder).as_posix() for path in _files(folder)} - {"manifest.json"}
    wrong = [f"{name} is missing" for name in sorted(sums.keys() - there)]
    wrong += [f"{name} is not in the manifest" for name in sorted(there - sums.keys())]
    wrong += [f"{name} has changed" for name in sorted(sums.keys() & there) if digest(folder / name) != sums[name]]
    if wrong:
        raise FileFormatError("every file of a zoo must match its manifest", got="; ".join(wrong))
    return len(sums)
