"""Search for the units that the heads of a network compute, and for a cover for each [T 11.4]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arithmetic import Interval
from ...arithmetic.directed import sum_error
from ...arithmetic.forms import Forms
from ...formula.circuits import Circuit
from ...formula.composites import Composite, cells
from ...network import Network
from ...network.reference import run
from ...resources.deadline import Deadline
from ...targets.one_variable import OneVariable
from ..claim import Claim
from ..proof import FUNCTIONS, Floats, Proof
from ..rules.circuit import NAME, Known, argument_of, follow_circuit, range_claim, stored
from . import boxes
from .base import Attempt, Task


@dataclass(frozen=True)
class CircuitProofTuning:
    """How units are recognised and their heads bounded. What is found is checked by the rule `circuit`."""

    same: float = 1e-6
    """A feature that differs from a unit's argument by less than this fraction of their terms may be it. A round
    number."""
    unseen: float = 0.1
    """The fraction of its share of the tolerance below which it does not matter how far a head is off. A round
    number."""
    trials: int = 257
    """Places at which a head is compared with its unit before the search. A round number."""
    most: int = 3000
    """Boxes for one head. Smooth ones take less than a hundred; what is left is noise of the interval arithmetic. By
    trial."""
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
    return Attempt(Proof(NAME, data, tuple(guide.proofs)), boxes=guide.boxes)


class _Matching:
    """The guide that searches, and remembers what it chose."""

    def __init__(self, goals: Floats, deadline: Deadline) -> None:
        self.goals, self.deadline, self.boxes = goals, deadline, 0
        self.units, self.premise, self.proofs = list[int](), list[int](), list[Proof]()
        self.functions = list[str]()
        self.found = dict[Any, tuple[int, Known]]()
        self.reach: Floats | None = None
        """How large the argument of each unit gets, its constant aside, (K,)."""

    def unit(self, bank: Network, form: Forms, circuit: Circuit) -> int | None:
        """The unit whose argument is the form up to a shift, and whose function the bank is closest to, if any."""
        sizes, arguments = circuit.frame.sizes, circuit.arguments.coefficients  # (1+P,), (K, 1+P)
        if self.reach is None:
            self.reach = np.abs(arguments[:, 1:]) @ sizes[1:]  # (K,)
        own = 1 + np.flatnonzero(form.coefficients[1:])  # the variables of the form, few of many
        shared = arguments[:, own]  # (K, S)
        beyond = self.reach - np.abs(shared) @ sizes[own]  # what arguments have in other variables
        unlike = np.abs(form.coefficients[own] - shared) @ sizes[own] + np.maximum(beyond, 0.0)  # (K,)
        alike = np.flatnonzero(unlike <= TUNING.same * (np.abs(form.coefficients[own]) @ sizes[own]))
        claims = ((range_claim(circuit.units[k], *argument_of(circuit, k, form)), k) for k in alike.tolist())
        likely = [(_misfit(bank, claim), number) for claim, number in claims if claim is not None]
        if not likely:
            return None
        number = min(likely)[1]
        self.units.append(number)
        shift, _ = argument_of(circuit, number, form)
        self.functions.append(circuit.units[number].function.after(_shifted(-shift)).text)
        return number

    def known(self, bank: Network, unit: int, claim: OneVariable) -> Known:
        """What the search believes of the bank on the range of its argument."""
        key = (claim.function, float(claim.domain.lo[0]), float(claim.domain.hi[0]), *stored(bank))
        if key not in self.found:
            largest = float(np.abs(bank.attention[0].values()).max())
            goal = max(float(self.goals[unit]), TUNING.room * _misfit(bank, claim), sum_error(largest, TUNING.noise))
            outcome = boxes.search(claim, bank, goal, self.deadline, most=TUNING.most)
            while outcome.found > goal:  # there the search stops early: a worse error was met than at the samples
                goal = TUNING.room * outcome.found
                outcome = boxes.search(claim, bank, goal, self.deadline, most=TUNING.most)
            self.boxes += outcome.boxes
            self.found[key] = len(self.proofs), Known(outcome.parts["construction"], outcome.parts["rounding"])
            self.proofs.append(outcome.proof)
        premise, known = self.found[key]
        self.premise.append(premise)
        return known


def _shifted(shift: float) -> Composite:
    return Composite.variable().scaled(Interval(1.0), Interval(shift))


def _misfit(bank: Network, claim: OneVariable) -> float:
    """The largest difference at some points."""
    points = cells(float(claim.domain.lo[0]), float(claim.domain.hi[0]), TUNING.trials).mid[:, None]
    return float(np.abs(run(bank, points[..., None])[:, 0] - claim.values(points)).max())
