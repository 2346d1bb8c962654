"""Networks whose banks are split over workers, none of which holds them all.

What a query needs of a shard i of a bank is its largest score t_i, the mass `m_i = Σ e^{s - t_i}` and the average y_i
of its values. The average over the whole bank is

    y = Σ_i w_i y_i / Σ_i w_i,     w_i = m_i e^{t_i - t},     t = max_i t_i,

in real arithmetic exactly.

**Rounding** is within what the certificate sets aside for one kernel over the whole bank. That counts B blocks of 512
tokens, with one exponential and two products for each block on the way of a token's weight, and a last quotient
(`arithmetic/rounding.py`). Banks are split if they have 4096 tokens or more, B >= 8, into shards of 1024 or more; a
shard has at most B/2 + 1 blocks. A weight then goes through at most B/2 + 1 exponentials in its shard, one in the merge
and one more where data tokens are added, B/2 + 3 <= B; and through B + 2 products in its shard, a quotient y_i and
three products behind it, B + 6 <= 2B + 1.

Files: `net.split(folder, shards)` writes `frame.safetensors`, the network with one token left of each bank that is
split, and a file for each shard, the network with that part of the banks. Workers need to see the folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import made_folder, whole_number
from ..arithmetic.formats import held_in, round_to
from ..domains.box import OUTSIDE, Outside
from ..errors import FileFormatError, InputError
from ..network import Attention, Network, storage
from ..network.fields import Fields
from ..network.storage import ends_of
from ..resources.executors import in_order, resident
from .backends import numpy as plain
from .evaluation import Evaluation
from .kernels.banks import BankAverages, HeadMemory, Stream
from .kernels.evaluators import attended
from .kernels.query_groups import PreparedLayer, QueryGroup

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

LEAST_BANK = 4096
"""Banks of fewer tokens are not split."""
LEAST_SHARD = 1024
"""Tokens of a shard, at least."""
BLOCK = 2**14
"""Sequences that go through a layer at a time."""


def write_shards(evaluation: Evaluation, folder: str | Path, shards: int) -> None:
    """Write the files of a network split into so many shards. The frame comes last: with it the folder is complete."""
    network, shards = evaluation.network, whole_number("shards", shards, 2)
    split = [number for number, layer in enumerate(network.layers) if _large(layer, shards)]
    if not split:
        most = max((len(layer.memory) for layer in network.attention), default=0)
        raise InputError(
            f"banks of {LEAST_BANK} tokens or more can be split into 2 shards or more, of {LEAST_SHARD} tokens or more",
            got=f"shards={shards} for a largest bank of {most} tokens",
            remedy="Use net(points), net.stream or fewer shards.",
        )
    made_folder("folder", folder)
    common = {
        "key": evaluation.key,
        "shards": shards,
        "split": split,
        "domain": evaluation.domain.as_dict(),
        "output_shape": list(evaluation.output_shape),
        "outside": evaluation.outside,
    }
    for part in (*range(shards), None):
        tensors, described = storage.pack(_part(network, split, part, shards))
        storage.write(_file(folder, part), tensors, {"kind": "shard", "network": described, **common})


def _large(layer: object, shards: int) -> bool:
    return isinstance(layer, Attention) and len(layer.memory) >= max(LEAST_BANK, LEAST_SHARD * shards)


def _file(folder: str | Path, part: int | None) -> Path:
    return Path(folder) / ("frame.safetensors" if part is None else f"shard-{part}.safetensors")


def _part(network: Network, split: list[int], part: int | None, shards: int) -> Network:
    """The network with one part of each bank that is split, or with one token of it."""
    layers = list(network.layers)
    for number, layer in enumerate(layers):
        if number in split and isinstance(layer, Attention):
            memory = layer.memory[:1] if part is None else np.array_split(layer.memory, shards)[part]
            layers[number] = replace(layer, memory=memory)
    return replace(network, layers=tuple(layers))


@dataclass(frozen=True, eq=False)
class ShardFile:
    """What one file holds."""

    network: Network
    split: list[int]
    """Numbers of the layers whose banks are split."""
    shards: int
    key: str
    """What all files of one network have in common: a hash of it, and how it was split."""
    given: Fields

    @classmethod
    def read(cls, folder: str | Path, part: int | None) -> ShardFile:
        """One shard, or the frame."""
        path = _file(folder, part)
        tensors, data = storage.read(path)
        if data.get("kind") != "shard":
            raise FileFormatError(f"{path} must have been written by net.split", got=f"kind {data.get('kind')!r}")
        given = Fields(data)
        network, split = storage.unpack(tensors, given.inner("network").data), given.each("split", Fields.whole)
        heads = [number for number, layer in enumerate(network.layers) if isinstance(layer, Attention)]
        if not split or not set(split) <= set(heads):
            raise FileFormatError(f"the field split of {path} must name attention layers, {heads} here", got=split)
        shards = given.whole("shards", 2)
        return cls(network, split, shards, f"{given.word('key')} {split} {shards}", given)


class Sharded:
    """A network from a folder that `net.split` wrote: `sharded(points)` as `net(points)`.

    The workers of `executor` read their shards when they are first called, and keep them. Without one, shards are read
    one after the other, so that a bank may be larger than memory.
    """

    def __init__(self, folder: str | Path, executor: Executor | None = None) -> None:
        self.folder, self.executor = Path(folder).resolve(), executor
        self.frame = ShardFile.read(self.folder, None)
        given, network = self.frame.given, self.frame.network
        outside: Any = given.text("outside", OUTSIDE)
        self.evaluation = Evaluation(network, *ends_of(network, given), outside)
        self._steps = list(self._prepared())

    def __call__(self, points: npt.ArrayLike, *, outside: Outside | None = None) -> Any:
        """Cost O(tokens) a point, on all workers together; every shard gets all queries, in blocks."""
        call = replace(self.evaluation, outside=outside or self.evaluation.outside)
        rows, lead = call.rows(points)
        network, dtype = call.network, held_in(call.network.dtype)
        out = np.empty((len(rows), *network.shape_out), dtype=dtype)  # (B, n', d')
        for start in range(0, len(rows), BLOCK):
            block = round_to(rows[start : start + BLOCK], network.dtype).astype(dtype)
            block = block.reshape(len(block), *network.shape_in)
            for step in self._steps:
                block = attended(step, block) if step.query_groups else plain.apply(step.layer, block, step.weights)
            out[start : start + BLOCK] = block
        result = out.reshape((*lead, *call.output_shape))
        return result if result.ndim else result[()]

    def stream(self, batches: Iterable[npt.ArrayLike]) -> Iterator[Array]:
        """Values batch by batch."""
        return map(self, batches)

    def to_torch(self, device: Any = "cpu", group: Any = None) -> Any:
        """A `torch.nn.Module` with the shard of this process, one of as many as there are shards in the process group.

        All processes call it on the same points and get all values. `torch.distributed` must be initialised.
        """
        from .backends.torch_shards import module

        return module(partial(ShardFile.read, self.folder), self.frame, self.evaluation, device, group)

    def _prepared(self) -> Iterator[PreparedLayer]:
        network = self.frame.network
        for number, (layer, querying) in enumerate(plain.query_tokens(network)):
            weights = {**plain.prepare(layer, held_in(network.dtype)), "querying": querying}
            query_groups: tuple[QueryGroup, ...] = ()
            if isinstance(layer, Attention) and number in self.frame.split:
                features = np.arange(layer.query.shape[2])
                banks: list[Any] = [partial(self._averages, number, head) for head in range(layer.heads)]
                query_groups = tuple(QueryGroup(head, querying, features, bank) for head, bank in enumerate(banks))
            yield PreparedLayer(layer, weights, query_groups)

    def _averages(self, layer: int, head: int, queries: Floats) -> BankAverages:
        """One head of one layer, for queries (B, k)."""
        work = partial(_shard_moments, self.folder, self.frame.key, layer, head, queries)
        return merged(list(in_order(work, range(self.frame.shards), self.executor)))


def _shard_moments(folder: Path, key: str, layer: int, head: int, queries: Floats, part: int) -> BankAverages:
    """What one shard has to say, on a worker that keeps it."""
    return resident(f"{key} {folder} {part}", lambda: _banks(folder, key, part))[layer][head](queries)


def _banks(folder: Path, key: str, part: int) -> dict[int, list[Stream]]:
    """The banks of a shard, by layer and head."""
    shard = ShardFile.read(folder, part)
    if shard.key != key:
        raise FileFormatError(f"all files in {folder} must be of one network", got=f"another in shard {part}")
    banks: dict[int, list[Stream]] = {}
    for number in shard.split:
        weights = plain.prepare(shard.network.layers[number], held_in(shard.network.dtype))
        heads = zip(weights["keys"].astype(np.float64), weights["values"].astype(np.float64), strict=True)
        banks[number] = [Stream.of(HeadMemory(keys, np.zeros(len(keys)), values)) for keys, values in heads]
    return banks


def merged(parts: list[BankAverages]) -> BankAverages:
    """The moments of a whole bank from those of its shards.

    >>> some = BankAverages(np.array([[1]]), np.array([0]), np.array([1]))
    >>> others = BankAverages(np.array([[3]]), np.array([2]), np.array([1]))
    >>> merged([some, others]).mean.round(6)  # (e^0 · 1 + e^2 · 3) / (e^0 + e^2)
    array([[2.761594]])
    """
    tops = np.stack([part.top for part in parts])  # (S, B)
    top = tops.max(axis=0)
    weights = np.stack([part.mass for part in parts]) * np.exp(tops - top)  # (S, B)
    mass = weights.sum(axis=0)
    sums = (weights[..., None] * np.stack([part.mean for part in parts])).sum(axis=0)  # (B, v)
    return BankAverages(sums / mass[:, None], top, mass)
