"""The state of an interrupted proof in a folder, under a fingerprint of what is being proved."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy.typing as npt

from .._version import __version__
from ..arguments import made_folder
from ..errors import FileFormatError, InputError
from ..network.storage import pack, read, write
from ..targets.base import digest
from .rules.boxes import Problem

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class CheckpointTuning:
    """How often a state is written."""

    keep_every: float = 20.0
    """Seconds between checkpoints. A round number."""


TUNING = CheckpointTuning()

STATE = 3
"""What the numbers of a state mean; a state of another kind is not read. 3: a cutting tree instead of boxes."""


def fingerprint(problem: Problem, goal: float | None, norm: float) -> str:
    """A hash of the network's weights, the target itself, the domain, the goal, the norm and this version.

    A state of another function's proof would make a false certificate: a function of which no more than the name is
    known has no fingerprint.
    """
    tensors, description = pack(problem.network)
    target = problem.target.identity()
    if target is None:
        raise InputError(
            "a checkpoint needs a function whose operations are all known",
            got=f"{problem.target.as_dict()}, which symbols cannot trace",
            remedy="Write it as a formula in text, or leave out checkpoint=.",
        )
    words = [__version__, STATE, description, digest(tensors), target, problem.target.domain.as_dict(), goal, norm]
    return sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:24]


class Checkpoint:
    """The last state that a search offered, and the file for it; without a folder it does nothing."""

    def __init__(self, folder: str | Path | None, problem: Problem, goal: float | None, norm: float) -> None:
        self.path: Path | None = None
        self.last, self.state = time.monotonic(), dict[str, npt.NDArray[Any]]()
        if folder is not None:
            self.path = made_folder("checkpoint", folder) / f"{fingerprint(problem, goal, norm)}.safetensors"

    def left(self) -> Arrays:
        """The state that an earlier search left; nothing if there is none that can be read."""
        if self.path is not None and self.path.exists():
            with suppress(FileFormatError):
                return read(self.path)[0]
        return {}

    def offer(self, state: Callable[[], Arrays]) -> None:
        """A state to go on from, written every so often."""
        if self.path is not None:
            self.state = dict(state())
            if time.monotonic() - self.last > TUNING.keep_every:
                self.keep()

    def keep(self) -> None:
        """Write the last state that was offered, if there is one."""
        if self.path is not None and self.state:
            write(self.path, self.state, {"kind": "checkpoint"})
            self.last = time.monotonic()

    def drop(self) -> None:
        """The search is over."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
