"""A model of the zoo: a residual stream, the truth about it, and how close it is to its program.

The plain form of a compiled network is the network itself, but for terms that are exactly zero, so its certificate
holds for it. What `disguise.py` makes of it is *measured* only, whatever is proved about the plain form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from ..arguments import whole_number
from ..compiled import Compiled
from ..errors import InputError, counted, shown
from ..proofs.sizes import largest_numbers
from ..runtime.backends.lens import beyond, residual_of
from ..runtime.backends.residual import Edit, Residual
from .programs import LookUp, Register, RegisterProgram, Steps
from .sites import of_look_up, of_steps
from .truth import Truth, established

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Specimen:
    """A model whose mechanism is known.

    >>> import attnfun as af
    >>> net = af.compile("x*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-3, construction="circuit")
    >>> model = af.zoo.specimen(net)
    >>> " ".join(register.name for register in model.truth.registers)
    'x y unit 1 unit 2 output'
    >>> model.truth.heads("output")  # block and head of the two squares
    ((0, 0), (0, 1))
    """

    name: str
    title: str
    residual: Residual
    truth: Truth
    point_shape: tuple[int, ...]
    sample: Callable[[int, np.random.Generator], Floats]
    """Points of the domain, (B, D)."""
    bound: float
    """How far from its program it may be at most."""
    status: str
    """What is known about that: as in a certificate, or measured, at random points."""
    disguises: tuple[str, ...] = ()

    def __repr__(self) -> str:
        blocks = counted(len(self.residual.blocks), "block")
        heads = counted(self.residual.blocks[0].heads if self.residual.blocks else 0, "head")
        hidden = f", disguised by {', '.join(self.disguises)}" if self.disguises else ""
        return (
            f"Specimen({self.name!r}: {self.title}, {blocks} of {heads}, width {self.residual.width}, "
            f"{len(self.truth.registers)} registers, error <= {self.bound:.3g} {self.status}{hidden})"
        )

    def run(self, rows: npt.ArrayLike, edit: Edit | None = None) -> Floats:
        """The model at points (B, D), (B, *value shape); `edit` may change the stream behind a block."""
        values = self.residual.run(self.sequences(rows), edit)
        return values.reshape(-1, *self.truth.value_shape)

    def sequences(self, rows: npt.ArrayLike) -> Floats:
        """Points (B, D), or (B, *point shape), as the sequences that go in, (B, n, d)."""
        found = self.truth.rows(rows)
        if found.shape[1] != prod(self.point_shape):
            sizes = ", ".join(map(str, self.point_shape))
            raise InputError(f"points must have the shape (B, {sizes})", got=f"shape {np.shape(rows)}")
        return found.reshape(-1, *self.residual.shape_in)

    def streams(self, rows: npt.ArrayLike) -> list[Floats]:
        """The stream before block 0 and behind every block, (B, T, D) each."""
        return list(self.residual.streams(self.sequences(rows)))

    def registers(self, rows: npt.ArrayLike) -> dict[str, Floats]:
        """What the model itself holds in the first carrier of each register, (B,) each; compare `truth.values`."""
        streams, found = self.streams(rows), dict[str, Floats]()
        for register in self.truth.registers:
            for carrier in self.truth.where(register.name)[:1]:
                found[register.name] = carrier.read(streams[carrier.first + 1])
        return found

    def patched(self, register: str, value: npt.ArrayLike, rows: npt.ArrayLike) -> Floats:
        """What the model puts out if a register is set in its stream; compare `truth.intervene`."""
        return self.run(rows, self.truth.setting(register, value))

    def exact(self, rows: npt.ArrayLike) -> Floats:
        """What the program puts out, (B, *value shape)."""
        values = self.truth.values(rows)
        outputs = [values[name] for name in self.truth.program.outputs]
        return np.stack(outputs, axis=1).reshape(-1, *self.truth.value_shape)

    def farthest(self, rows: npt.ArrayLike) -> float:
        """The largest distance from the program's values at points (B, D)."""
        return float(np.abs(self.run(rows) - self.exact(rows)).max())

    def words(self, block: int, head: int) -> str:
        """What a head does."""
        blocks = self.residual.heads
        block = whole_number("block", block, 0, len(blocks) - 1)
        head = whole_number("head", head, 0, len(blocks[block]) - 1)
        by_name = {register.name: register for register in self.truth.registers}
        made, role = self.truth.computes(block, head), self.residual.heads[block][head]
        if not made:
            return role
        others = f", for {', '.join(made[1:])}" if made[1:] else ""
        return f"{role}: {_said(by_name[made[0]])}{others}"


def _said(register: Register) -> str:
    name, expression = register.name, register.expression
    return name if expression in ("", name) else f"{name} = {expression}"


def specimen(net: Compiled, name: str = "model", title: str = "") -> Specimen:
    """A compiled network with its mechanism as data.

    A network of the construction `circuit` with one data token has a register for every step of the formula. Of any
    other network the inputs, the outputs and the heads that write the outputs are known.
    """
    if not isinstance(net, Compiled):
        raise InputError(
            "a specimen is made of a compiled network", got=shown(net), remedy="Pass net = af.compile(...)."
        )
    network = net.network.dense()
    residual = residual_of(network, beyond(largest_numbers(network, net.domain)[0]))
    target = net.certificate.claim.target
    if target is None or not target.evaluable:
        raise InputError(
            "a specimen needs a target that is a function",
            got=net.name,
            remedy="Networks made of data have none.",
        )
    program: RegisterProgram
    circuit = target.circuit() if net.construction == "circuit" and residual.data_tokens == 1 else None
    if circuit is not None:
        program = Steps(circuit, net.domain.axes)
        sites = of_steps(net.network, residual, program)
    else:
        program = LookUp(target)
        sites = of_look_up(residual, program)
    truth = established(residual, program, sites, net.output_shape)
    return Specimen(
        name=name,
        title=title or net.name,
        residual=residual,
        truth=truth,
        point_shape=net.domain.shape,
        sample=net.domain.sample,
        bound=net.certificate.bound,
        status=net.certificate.status.value,
    )
