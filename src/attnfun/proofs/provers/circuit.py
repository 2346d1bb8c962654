"""Search for the units that the heads of a network compute, and for a cover for each [T 11.4]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...arithmetic.directed import sum_error
from ...arithmetic.forms import Forms
from ...formula.circuits import Circuit
from ...formula.composites import cells
from ...network import Network
from ...network.reference import run
from ...resources.deadline import Deadline
from ...targets.one_variable import OneVariable
from ..claim import Claim
from ..proof import FUNCTIONS, Floats, Proof
from ..rules.circuit import NAME, Known, argument_of, follow_circuit, range_claim, read_as, stored
from . import boxes
from .base import Attempt, Task


@dataclass(frozen=True)
class CircuitProofTuning:
    """How units are recognised and their heads bounded. What is found is checked by the rule `circuit`."""

    same: float = 1e-6
    """A feature that differs from a unit's argument by less than this fraction of their terms may be it. A round
    number."""
    same_multiple: float = 2.0**-40
    """The same for a multiple of a feature: rounded weights in float64 make less. A round number."""
    unseen: float = 0.1
    """The fraction of its share of the tolerance below which it does not matter how far a head is off. A round
    number."""
    trials: int = 257
    """Places at which a head is compared with its unit before the search. A round number."""
    most: int = 3000
    """Boxes for one head. Smooth ones take less than a hundred. By trial."""
    patience: int = 2
    """Cuts, one after the other, by which the bound on a part hardly fell: what is left is noise of the interval
    arithmetic, or the error itself. By trial."""
    noise: int = 20
    """Differences below so many units in the last place of a bank's values are noise, of the proof as of the network.
    By trial."""
    room: float = 1.1
    """A search aims at this multiple of the largest difference found. By trial."""


TUNING = CircuitProofTuning()


def prove(claim: Claim, task: Task) -> Attempt | None:
    """Match heads with units, and cover each; None if a head does not belong to the circuit.

    Heads need not be followed closer than to a small share of the goal. Cost: one search in one variable for each
    distinct head.
    """
    target = claim.imitated
    circuit = target.circuit()
    if circuit is None:
        return None
    goals = TUNING.unseen * circuit.budget(task.goal).shares if task.goal else np.zeros(len(circuit.units))
    guide = _Matching(goals, task.deadline)
    if follow_circuit(target, claim.network, guide, task.deadline) is None:
        return None
    data = {
        "units": np.array(guide.units, dtype=np.int64),
        "premise": np.array(guide.premise, dtype=np.int64),
        FUNCTIONS: np.frombuffer("\n".join(guide.functions).encode(), dtype=np.uint8),
    }
    if any(scale != 1 for scale in guide.scales):
        data["scales"] = np.array(guide.scales)
    return Attempt(Proof(NAME, data, tuple(guide.proofs)), boxes=guide.boxes)


class _Matching:
    """The guide that searches, and remembers what it chose."""

    def __init__(self, goals: Floats, deadline: Deadline) -> None:
        self.goals, self.deadline, self.boxes = goals, deadline, 0
        self.units, self.premise, self.proofs = list[int](), list[int](), list[Proof]()
        self.scales, self.functions = list[float](), list[str]()
        self.found = dict[Any, tuple[int, Known]]()
        self.reach: Floats | None = None
        """How large the argument of each unit gets, its constant aside, (K,)."""

    def unit(self, bank: Network, form: Forms, circuit: Circuit) -> tuple[int, float] | None:
        """The unit whose argument is the form up to a shift, and whose function the bank is closest to, if any.

        Where there is none, multiples of the form are looked at: in one variable every form is one of every other, and
        boxes do as well.
        """
        found = self._alike(form, circuit, scaled=False)
        if not len(found) and circuit.inputs > 1:
            found = self._alike(form, circuit, scaled=True)
        elif len(bank.layers) > 1 and circuit.inputs == 1:
            return None
        reads = [(number, scale, *argument_of(circuit, number, form, scale)) for number, scale in found]
        claims = (
            (range_claim(circuit.units[number], scale, *argument), number, scale) for number, scale, *argument in reads
        )
        likely = [(_misfit(bank, claim), number, scale) for claim, number, scale in claims if claim is not None]
        if not likely:
            return None
        _, number, scale = min(likely)
        self.units.append(number)
        self.scales.append(scale)
        shift, _ = argument_of(circuit, number, form, scale)
        self.functions.append(circuit.units[number].function.after(read_as(scale, shift)).text)
        return number, scale

    def _alike(self, form: Forms, circuit: Circuit, *, scaled: bool) -> list[tuple[int, float]]:
        """Units whose arguments are a form, or a multiple of it, up to a shift, with that multiple."""
        sizes, arguments = circuit.frame.sizes, circuit.arguments.coefficients  # (1+P,), (K, 1+P)
        if self.reach is None:
            self.reach = np.abs(arguments[:, 1:]) @ sizes[1:]  # (K,)
        own = 1 + np.flatnonzero(form.coefficients[1:])  # the variables of the form, few of many
        if scaled and not len(own):
            return []
        mine, shared = form.coefficients[own], arguments[:, own]  # (S,), (K, S)
        scales = np.ones(len(arguments))  # (K,)
        if scaled:
            first = np.argmax(np.abs(mine) * sizes[own])
            scales = shared[:, first] / mine[first]
        beyond = self.reach - np.abs(shared) @ sizes[own]  # what arguments have in other variables
        unlike = np.abs(scales[:, None] * mine - shared) @ sizes[own] + np.maximum(beyond, 0.0)  # (K,)
        same = TUNING.same_multiple if scaled else TUNING.same
        enough = same * np.abs(scales) * (np.abs(mine) @ sizes[own])
        alike = np.flatnonzero((unlike <= enough) & (scales != 0) & np.isfinite(scales))
        return list(zip(alike.tolist(), scales[alike].tolist(), strict=True))

    def known(self, bank: Network, unit: int, claim: OneVariable) -> Known:
        """What the search believes of the bank on the range of its argument."""
        key = (claim.function, float(claim.domain.lo[0]), float(claim.domain.hi[0]), *stored(bank))
        if key not in self.found:
            largest = float(np.abs(bank.attention[0].values()).max())
            goal = max(float(self.goals[unit]), TUNING.room * _misfit(bank, claim), sum_error(largest, TUNING.noise))
            search = partial(boxes.search, most=TUNING.most, patience=TUNING.patience)
            outcome = search(claim, bank, goal, self.deadline)
            while outcome.found > goal:  # there the search stops early: a worse error was met than at the samples
                goal = TUNING.room * outcome.found
                outcome = search(claim, bank, goal, self.deadline)
            self.boxes += outcome.boxes
            self.found[key] = len(self.proofs), Known(outcome.parts["construction"], outcome.parts["rounding"])
            self.proofs.append(outcome.proof)
        premise, known = self.found[key]
        self.premise.append(premise)
        return known


def _misfit(bank: Network, claim: OneVariable) -> float:
    """The largest difference at some points."""
    points = cells(float(claim.domain.lo[0]), float(claim.domain.hi[0]), TUNING.trials).mid[:, None]
    return float(np.abs(run(bank, points[..., None])[:, 0] - claim.values(points)).max())
