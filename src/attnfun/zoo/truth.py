"""The ground truth about a network: which head computes what, what stands where, and what would happen if.

A *carrier* is a site (`sites.py`) with its lifetime: behind blocks `first` to `last`, in row `row`,

    register = offset + scale · (stream[row] · direction),     |direction| = 1,

and adding `step · write` to the stream raises the register by `step`. Whatever is computed from a register is computed
from it behind the block that made it, so an intervention is a change of the stream there (`changes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import real_array
from ..errors import InputError
from ..runtime.backends.residual import Edit, Residual
from .programs import Register, RegisterProgram
from .sites import Site

Floats = npt.NDArray[np.float64]
IDLE = "idle"
Head = tuple[int, int]
"""Block and number in the block."""


@dataclass(frozen=True, eq=False)
class Carrier:
    """A direction of the stream that carries a register."""

    register: str
    row: int
    first: int
    last: int
    direction: Floats  # (D,)
    scale: float
    offset: float
    write: Floats  # (D,)

    def read(self, stream: Floats) -> Floats:
        """The register, from streams (B, T, D), (B,)."""
        return self.offset + self.scale * (stream[:, self.row] @ self.direction)

    def holds(self, after: int) -> bool:
        """Is the register there behind this block?"""
        return self.first <= after <= self.last

    def moved(self, basis: Floats, back: Floats) -> Carrier:
        """The same if the stream is multiplied by a matrix (D, D), given with its inverse."""
        read = back @ self.direction  # (D,)
        size = float(np.linalg.norm(read))
        return replace(self, direction=read / size, scale=self.scale * size, write=self.write @ basis)


@dataclass(frozen=True, eq=False)
class Truth:
    """What is known about a network by the way it was made."""

    program: RegisterProgram
    carriers: tuple[Carrier, ...]
    computed_by: Mapping[str, tuple[Head, ...]]
    """For each register that is no input, the heads whose outputs make it up."""
    working: tuple[Head, ...]
    """Heads that do anything at all for the output."""
    value_shape: tuple[int, ...]

    @property
    def registers(self) -> tuple[Register, ...]:
        """All registers, inputs first."""
        return self.program.registers

    def heads(self, register: str) -> tuple[Head, ...]:
        """The heads that compute a register, as (block, head); none for an input."""
        return self.computed_by.get(self.program.find(register).name, ())

    def computes(self, block: int, head: int) -> tuple[str, ...]:
        """The registers that a head computes or helps to compute."""
        return tuple(name for name, heads in self.computed_by.items() if (block, head) in heads)

    def where(self, register: str, after: int | None = None) -> tuple[Carrier, ...]:
        """The directions that carry a register, the first one first; only those behind block `after` if it is given."""
        name = self.program.find(register).name
        found = [c for c in self.carriers if c.register == name and (after is None or c.holds(after))]
        return tuple(sorted(found, key=lambda carrier: (carrier.first, carrier.row)))

    def __repr__(self) -> str:
        return (
            f"Truth({len(self.registers)} registers, {len(self.carriers)} carriers, {len(self.working)} working heads)"
        )

    def rows(self, points: npt.ArrayLike) -> Floats:
        """Points as lists or arrays, (B, D) or (B, *point shape), as rows (B, D)."""
        array = real_array("points", points)
        if array.ndim < 2:
            raise InputError("points must have the shape (B, D), one row for each", got=f"shape {array.shape}")
        return array.reshape(len(array), -1)

    def values(self, rows: npt.ArrayLike) -> dict[str, Floats]:
        """The exact registers at points (B, D), from the program alone, (B,) each."""
        return self.program.run(self.rows(rows))

    def intervene(self, register: str, value: npt.ArrayLike, rows: npt.ArrayLike) -> Floats:
        """What the output (B, *value shape) becomes at points (B, D) if a register is set, from the program alone."""
        rows = self.rows(rows)
        levels = _for_each_point(_levels(value), len(rows))
        found = self.program.run(rows, {self.program.find(register).name: levels})
        return np.stack([found[name] for name in self.program.outputs], axis=1).reshape(len(rows), *self.value_shape)

    def changes(self, register: str) -> tuple[Carrier, ...]:
        """The carriers in which to set a register: all of those that are there first, behind one block."""
        found = self.where(register)
        if not found or not self.heads(register):
            raise InputError("only registers that heads compute can be set in the stream", got=repr(register))
        return tuple(carrier for carrier in found if carrier.first == found[0].first)

    def setting(self, register: str, value: npt.ArrayLike) -> Edit:
        """The intervention in the stream: an `edit` for `Residual.run`, and for streams of PyTorch alike."""
        carriers, wanted = self.changes(register), _levels(value)

        def edit(after: int, stream: Any) -> Any:
            if after != carriers[0].first:
                return stream
            for carrier in carriers:
                direction, write = (_like(array, stream) for array in (carrier.direction, carrier.write))
                held = carrier.offset + carrier.scale * (stream[:, carrier.row] @ direction)  # (B,)
                missing = _like(_for_each_point(wanted, len(stream)), stream) - held
                stream = stream + 0.0  # a copy
                stream[:, carrier.row] += missing[:, None] * write
            return stream

        return edit


def _levels(value: object) -> Floats:
    """What a register is set to, () or (B,)."""
    return real_array("what a register is set to", value, most=float(np.finfo(np.float64).max))


def _for_each_point(levels: Floats, count: int) -> Floats:
    """One level, or one for each point, as (B,)."""
    if levels.shape not in ((), (count,)):
        raise InputError(
            "a register is set to one number, or to one for each point", got=f"shape {levels.shape} for {count} points"
        )
    return np.broadcast_to(levels, count)


def _like(array: Floats, stream: Any) -> Any:
    """An array as the kind of array that the stream is."""
    return array if isinstance(stream, np.ndarray) else stream.new_tensor(array)


def established(residual: Residual, program: RegisterProgram, sites: list[Site], value_shape: tuple[int, ...]) -> Truth:
    """The truth from sites in a stream whose features have a place each."""
    computed_by = {r.name: _makers(residual, r.name, sites) for r in program.registers if r.kind != "input"}
    working = [(n, h) for n, words in enumerate(residual.heads) for h, word in enumerate(words) if word != IDLE]
    return Truth(program, tuple(_carrier(s, residual) for s in sites), computed_by, tuple(working), value_shape)


def _makers(residual: Residual, name: str, sites: list[Site]) -> tuple[Head, ...]:
    """The heads that were the last to write to the features in which a register stands first."""
    own = [site for site in sites if site.register == name]
    first = min((site.after for site in own), default=-1)
    left = np.any([site.read != 0 for site in own if site.after == first], axis=0) if own else np.zeros(residual.width)
    found: list[Head] = []
    for number in range(first, -1, -1):
        writes = residual.blocks[number].writes & (left != 0)  # (H, D)
        found += [(number, int(head)) for head in np.flatnonzero(writes.any(axis=1))]
        left = left & ~writes.any(axis=0)
    return tuple(sorted(found))


def _carrier(site: Site, residual: Residual) -> Carrier:
    """A site with its lifetime: it ends where a block writes to one of its features."""
    read, last = site.read != 0, len(residual.blocks) - 1
    for number in range(site.after + 1, len(residual.blocks)):
        if residual.blocks[number].writes[:, read].any():
            last = number - 1
            break
    size = float(np.linalg.norm(site.read))
    return Carrier(site.register, site.row, site.after, last, site.read / size, size, site.offset, site.write)
