"""Questions about a model and their answers, as tables that need no attnfun: JSON and safetensors.

`tasks` holds what a method may know: points, what the registers that heads compute are called, their values at the
points, and values to which each is to be set. `truth` holds what it should find: the heads that compute each register
and those that do anything at all, the directions that carry it, and the outputs after each intervention.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, InputError
from .specimen import Specimen
from .truth import Carrier, Head

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AnswerTuning:
    """How registers are set, and which."""

    shares: tuple[float, ...] = (1.0, 0.5, 0.25, 0.1)
    """How far a register is set towards its value at another point: as far as the network knows what follows. By
    trial."""
    constant: float = 1e-9
    """Registers that vary by no more than this, relatively, are left out: there is nothing to be found. A round
    number."""
    most: int = 24
    """Registers of a model with questions, at most. For time."""


TUNING = AnswerTuning()


@dataclass(frozen=True, eq=False)
class Answers:
    """All questions about a model, and the answers."""

    points: Floats  # (B, D)
    outputs: Floats  # (B, m)
    values: Mapping[str, Floats]
    """Registers that heads compute, (B,) each."""
    settings: Mapping[str, Floats]
    """Values to set them to, (B,) each; none for registers that cannot be set."""
    effects: Mapping[str, Floats]
    """The outputs then, (B, m) each."""
    computed_by: Mapping[str, tuple[Head, ...]]
    working: tuple[Head, ...]
    shape: tuple[int, int]
    """Blocks and heads of each."""
    carriers: tuple[Carrier, ...]

    @property
    def heads(self) -> list[Head]:
        """All heads."""
        return [(block, head) for block in range(self.shape[0]) for head in range(self.shape[1])]

    @classmethod
    def of(cls, model: Specimen, count: int, seed: int) -> Answers:
        """At random points. Each register is set to, or towards, its value at another one of the points.

        Of more than MOST registers, so many have questions, evenly spread over the program.
        """
        rows, truth = model.sample(count, np.random.default_rng(seed)), model.truth
        exact = truth.values(rows)
        made = [r.name for r in truth.registers if truth.heads(r.name) and truth.where(r.name)]
        steps = [name for name in made if np.ptp(exact[name]) > TUNING.constant * np.abs(exact[name]).max()]
        steps = [steps[k] for k in np.unique(np.linspace(0, len(steps) - 1, TUNING.most).round().astype(int))]
        settings, effects = dict[str, Floats](), dict[str, Floats]()
        for name in steps:
            for share in TUNING.shares:
                wanted = exact[name] + share * (np.roll(exact[name], 1) - exact[name])
                try:
                    effect = truth.intervene(name, wanted, rows)
                except InputError:
                    continue
                settings[name], effects[name] = wanted, effect.reshape(count, -1)
                break
        return cls(
            points=rows,
            outputs=model.exact(rows).reshape(count, -1),
            values={name: exact[name] for name in steps},
            settings=settings,
            effects=effects,
            computed_by={name: truth.heads(name) for name in steps},
            working=truth.working,
            shape=(len(model.residual.blocks), model.residual.blocks[0].heads),
            carriers=tuple(c for c in truth.carriers if c.register in steps),
        )

    def files(self, model: Specimen) -> dict[str, bytes]:
        """The tables as files by name."""
        from safetensors.numpy import save

        names, set_ones = list(self.values), list(self.settings)
        registers = [asdict(register) for register in model.truth.registers]
        fields = ("register", "row", "first", "last", "scale", "offset")
        known = [{name: getattr(carrier, name) for name in fields} for carrier in self.carriers]
        blocks, heads = self.shape
        tasks = {"blocks": blocks, "heads": heads, "registers": names, "interventions": set_ones}
        truth = {
            "blocks": blocks,
            "heads": heads,
            "registers": registers,
            "outputs": model.truth.program.outputs,
            "computed_by": {name: self.computed_by[name] for name in names},
            "working": self.working,
            "words": [[model.words(block, head) for head in range(heads)] for block in range(blocks)],
            "carriers": known,
        }
        points = self.points.reshape(len(self.points), *model.point_shape)  # as the model takes them
        given = {"points": points, "values": _stack(self.values), "settings": _stack(self.settings)}
        found = {
            "outputs": self.outputs,
            "effects": _stack(self.effects),
            "directions": np.array([c.direction for c in self.carriers]),
            "writes": np.array([c.write for c in self.carriers]),
        }
        return {
            "tasks.json": json.dumps(tasks, indent=1).encode(),
            "tasks.safetensors": save({name: np.ascontiguousarray(array) for name, array in given.items()}),
            "truth.json": json.dumps(truth, indent=1).encode(),
            "truth.safetensors": save({name: np.ascontiguousarray(array) for name, array in found.items()}),
        }

    @classmethod
    def read(cls, folder: Path) -> Answers:
        """From the files of a model."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            tasks, truth = (json.loads((folder / f"{name}.json").read_bytes()) for name in ("tasks", "truth"))
            given, found = (load((folder / f"{name}.safetensors").read_bytes()) for name in ("tasks", "truth"))
            pairs = zip(truth["carriers"], found["directions"], found["writes"], strict=True)
            return cls(
                points=given["points"].reshape(len(given["points"]), -1),
                outputs=found["outputs"],
                values=dict(zip(tasks["registers"], given["values"], strict=True)),
                settings=dict(zip(tasks["interventions"], given["settings"], strict=True)),
                effects=dict(zip(tasks["interventions"], found["effects"], strict=True)),
                computed_by={name: _heads(heads) for name, heads in truth["computed_by"].items()},
                working=_heads(truth["working"]),
                shape=(truth["blocks"], truth["heads"]),
                carriers=tuple(Carrier(**known, direction=read, write=write) for known, read, write in pairs),
            )
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as reason:
            raise FileFormatError(f"{folder} must hold the tables of a model of the zoo", got=repr(reason)) from None


def _heads(pairs: list[list[int]]) -> tuple[Head, ...]:
    return tuple((int(block), int(head)) for block, head in pairs)


def _stack(columns: Mapping[str, Floats]) -> Any:
    return np.stack(list(columns.values())) if columns else np.zeros((0, 0))
