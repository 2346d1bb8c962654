"""A network as a function of points, wherever they are: arrays, Dask arrays, frames with named columns, other machines.

An `Evaluation` is what a call needs and nothing else, so that it can be sent to workers, which keep it. Dask, pandas
and polars are never imported here: an input that is theirs brings all that is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from ..arithmetic.formats import held_in
from ..domains.box import Box, Outside
from ..errors import InputError
from ..network import Network
from ..network.storage import pack
from ..resources.executors import resident
from ..targets.base import digest
from .kernels import Evaluator, evaluator

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """`evaluation(points)` for points of shape (..., *point shape) -> (..., *output shape), in the network's dtype."""

    network: Network
    domain: Box
    output_shape: tuple[int, ...]
    outside: Outside
    allowance: float = 0.0

    def __call__(self, points: Any) -> Any:
        """Values at points; lazy where the points are, in a frame's own kind where they come in a frame."""
        return READERS.get(type(points).__module__.partition(".")[0], Evaluation.at)(self, points)

    def at(self, points: npt.ArrayLike) -> Any:
        """Values at points that are numbers."""
        rows, lead = self.rows(points)
        values = self.run(rows.reshape(len(rows), *self.network.shape_in))
        result = values.reshape((*lead, *self.output_shape))
        return result if result.ndim else result[()]

    def at_block(self, points: Array) -> Array:
        """The same, always as an array."""
        return np.asarray(self.at(points))

    def rows(self, points: npt.ArrayLike) -> tuple[Array, tuple[int, ...]]:
        """Points that are admitted, (B, D), and their leading axes."""
        rows, lead = self.domain.flatten(points)
        return self.domain.admit(rows, self.outside), lead

    @property
    def run(self) -> Evaluator:
        """The network made ready."""
        return evaluator(self.network, self.domain, self.allowance)

    @cached_property
    def key(self) -> str:
        """A hash of everything; of a region that cannot be described, a new name."""
        tensors, description = pack(self.network)
        try:
            where: object = self.domain.as_dict()
        except InputError:
            where = uuid4().hex
        words = [digest(tensors), description, where, self.output_shape, self.outside, self.allowance]
        return sha256(json.dumps(words).encode()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        fields = self.network, self.domain, self.output_shape, self.outside, self.allowance
        return _arrived, (self.key, *fields)

    def __dask_tokenize__(self) -> str:
        return self.key


def _arrived(key: str, *fields: Any) -> Evaluation:
    """The evaluation on a worker, which keeps it with all that was made ready."""
    return resident(key, lambda: Evaluation(*fields))


def _of_dask(call: Evaluation, points: Any) -> Any:
    """A Dask array of points as a Dask array of values: block by block along the leading axes, when it is computed."""
    if not hasattr(points, "map_blocks"):
        return call.at(points)
    lead = len(call.domain.leading(points.shape))
    whole = points.rechunk(dict.fromkeys(range(lead, points.ndim), -1))
    outputs = range(lead, lead + len(call.output_shape))
    return whole.map_blocks(
        call.at_block,
        drop_axis=list(range(lead, points.ndim)),
        new_axis=list(outputs),
        chunks=(*whole.chunks[:lead], *((size,) for size in call.output_shape)),
        meta=np.empty((0,) * (lead + len(outputs)), dtype=held_in(call.network.dtype)),
        name=f"attention-{call.key[:16]}-{points.name}",
    )


def _of_frame(call: Evaluation, frame: Any) -> Any:
    """A frame with a column for each variable: values as a column, or as a frame with one for each output.

    They are named "value", or "value0", "value1", ...; other columns of the frame do not matter.
    """
    if not hasattr(frame, "columns"):
        return call.at(frame)
    columns, wanted = list(frame.columns), call.domain.axes
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise InputError(
            f"a frame needs a column for each variable: {', '.join(wanted)}",
            got=f"columns {columns}, without {', '.join(missing)}",
            remedy="Rename its columns, or pass an array.",
        )
    points = np.stack([np.asarray(frame[name]) for name in wanted], axis=1)  # (B, D)
    values = call.at_block(call.domain.unflatten(points)).reshape(len(points), -1)  # (B, m)
    names = [f"value{k}" for k in range(values.shape[1])] if call.output_shape else ["value"]
    labels = {"index": frame.index} if hasattr(frame, "index") else {}
    made = type(frame)(dict(zip(names, values.T, strict=True)), **labels)
    return made if call.output_shape else made["value"]


READERS: dict[str, Callable[[Evaluation, Any], Any]] = {"dask": _of_dask, "pandas": _of_frame, "polars": _of_frame}
"""By the package that an input's type comes from."""
