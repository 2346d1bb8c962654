"""Bounds for networks that compute a formula step by step, from the weights alone [T 11.4].

The target is a circuit: atoms, which are variables and units `φ_k(z_k)` (`targets/circuits.py`). Every feature of the
network is followed through the layers as an affine form of the atoms, with a bound on what it is off. Affine layers
act on forms. A head whose bank reads one feature u is matched with the unit whose argument is u up to a constant c:

- in deployed arithmetic, `u = z + c + δ` with |δ| <= e known, z the exact argument, within [low, high];
- branch and bound in one variable, on the very weights of the head, gives `|head(u) - φ(u - c)| <= ε` on
  [low - e, high + e], and its rounding error ρ; where φ is not defined beyond low or high, `φ(clip(u - c))` is taken;
- so the head is within `ε + ρ + ω(e)` of the atom, ω the modulus of continuity of φ.

Here `e = a + r + i`: what the argument is off in real arithmetic, by rounding, and by the input. ω need not be additive
(for a square root `ω(r) > ω(a + r + i) - ω(a + i)`), so the parts are counted in an order in which each holds where the
later ones are absent: ω(a) belongs to the construction, `ω(a + r) - ω(a)` to rounding, `ω(e) - ω(a + r)` to the input.

Rectifier heads are read as fans (`structure.py`). At the end the network's outputs and the formula's are forms of the
same atoms. Nothing is taken from the construction: a wrong weight makes ε large, never the bound wrong.

Equal heads on equal ranges are proved once. Cost: one proof in one variable for each distinct head.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import inf, nextafter
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..arithmetic.directed import ULP
from ..arithmetic.formats import FORMATS, Format
from ..arithmetic.forms import Forms
from ..arithmetic.rounding import OWN, linear_error, with_sum
from ..deadline import NEVER, Deadline
from ..network import Attention, Network
from ..network.layers import scaling_roundings
from ..network.reference import run
from ..targets import Target, Unanswerable
from ..targets.circuits import Circuit, Unit
from ..targets.composites import Composite, OneVariable, cells
from .branch_and_bound import Outcome, bound_error
from .structure import State, follow, initial_state

Floats = npt.NDArray[np.float64]

SAME = 1e-6
"""A feature that differs from a unit's argument by less than this fraction of their terms may be it."""
UNSEEN = 0.1
"""The fraction of its share of the tolerance below which it does not matter how far a head is off."""
TRIALS = 257
"""Places at which a head is compared with its unit before the proof."""
RIVALS = 16
"""Memory tokens beside a data token in a head that computes a rectifier, at most: one would do."""
BOXES = 3000
"""Boxes for one head. Smooth ones take less than a hundred; what is left is noise of the interval arithmetic."""
NOISE = 20.0
"""Differences below so many units in the last place of a bank's values are noise, of the proof as of the network."""
ROOM = 1.1
"""A proof aims at this multiple of the largest difference found."""


def bound_by_circuit(target: Target, network: Network, eps: float | None, deadline: Deadline = NEVER) -> Outcome:
    """A bound on `|target - network|` over the domain; Unanswerable if a head does not belong to the circuit.

    Heads need not be followed closer than to a small share of `eps`.
    """
    circuit = target.circuit()
    goals = UNSEEN * circuit.budget(eps).shares if eps else np.zeros(len(circuit.units))
    walk = _Walk(circuit, goals, FORMATS[network.dtype], deadline)
    state = initial_state(circuit, network)
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in network.layers:
            state = walk.after(layer, state)
        flat = Forms(state.forms.coefficients.reshape(target.outputs, -1), state.forms.slack.ravel(), circuit.frame)
        construction = (flat - circuit.results).size[:, None]  # (m, 1)
    parts = np.concatenate([construction, state.error.reshape(-1, 2)], axis=1)  # (m, 3)
    parts = np.where(np.isnan(parts), inf, parts) * (1 + 1e-9)
    bound = nextafter(float(parts.sum(axis=1).max()), inf)
    construction_part, moved, own = (float(part) for part in parts.max(axis=0))
    box = Interval(target.domain.lo.reshape(1, -1), target.domain.hi.reshape(1, -1))
    largest = {"construction": construction_part, "input": moved, "rounding": own}
    return Outcome(bound, largest, 0.0, walk.boxes, circuit.defined, box)


@dataclass(frozen=True)
class _Proof:
    """What is known of one head on a range: its distance from the unit, its rounding error."""

    distance: float
    rounding: float


@dataclass
class _Walk:
    """Follows the features of one network."""

    circuit: Circuit
    goals: Floats  # (K,)
    arithmetic: Format
    deadline: Deadline
    boxes: int = 0
    proofs: dict[Any, _Proof] = field(default_factory=dict)

    def after(self, layer: Any, state: State) -> State:
        """The features after a layer; units read the registers of one token."""
        if isinstance(layer, Attention) and len(state.error) != 1:
            raise Unanswerable
        if isinstance(layer, Attention) and layer.attends_data and len(layer.memory) > RIVALS:
            raise Unanswerable
        if isinstance(layer, Attention) and not layer.attends_data:
            return self.through_banks(layer, state)
        return follow(layer, state, self.circuit, np.ones(len(state.error), dtype=bool), self.arithmetic)

    def through_banks(self, layer: Attention, state: State) -> State:
        """A layer whose heads read one feature each of a single token."""
        if len(state.error) != 1 or layer.value.shape[2] != 1:
            raise Unanswerable
        heads = [self.head(layer, number, state) for number in range(layer.heads)]
        forms = Forms.join([form[None] for form, _ in heads])  # (H,)
        error = np.stack([error for _, error in heads])  # (H, 2)
        output = layer.output[:, 0, :]  # (H, o)
        result = forms.mapped(output, layer.output_bias)  # (o,)
        error = linear_error(error, forms.size, output, layer.output_bias, self.arithmetic)  # (o, 2)
        if layer.residual:
            before = state.forms[0]
            total = result + before
            kept = (output == 0).all(axis=0) & (layer.output_bias == 0)  # features to which nothing is added
            added = with_sum(error + state.error[0], total.size, np.array(1), self.arithmetic)
            error = np.where(kept[:, None], state.error[0], added)
            slack = np.where(kept, before.slack, total.slack)
            result = Forms(np.where(kept[:, None], before.coefficients, total.coefficients), slack, total.frame)
        return State(Forms(result.coefficients[None], result.slack[None], result.frame), error[None])

    def head(self, layer: Attention, number: int, state: State) -> tuple[Forms, Floats]:
        """What a head returns: an atom with its slack, and the errors by the input and by rounding (2,)."""
        self.deadline.check("the proof")
        asked = np.flatnonzero((layer.query[number] != 0).any(axis=1))
        if len(asked) != 1:
            raise Unanswerable
        feature = int(asked[0])
        form, off = state.forms[0, feature], state.error[0, feature]
        bank = _alone(layer, number, feature, self.arithmetic.name)
        unit, shift, apart = self.match(bank, form)
        total = float(apart + off.sum())
        if not np.isfinite(total):
            raise Unanswerable
        proof = self.prove(bank, unit, shift, total)
        exact, rounded, deployed = (
            self.circuit.units[unit].modulus(distance) for distance in (apart, apart + float(off[OWN]), total)
        )
        atom = np.eye(1, len(self.circuit.frame.lo), 1 + self.circuit.inputs + unit)[0]
        value = Forms(atom, np.array(proof.distance + exact), self.circuit.frame)
        own = max(rounded - exact, 0.0)
        return value, np.array([max(deployed - exact - own, 0.0), own + proof.rounding]) * (1 + 4 * ULP)

    def match(self, bank: Network, form: Forms) -> tuple[int, float, float]:
        """The unit that a bank imitates at a form, the shift of its argument, and how far that argument is off."""
        apart = [form - argument for argument in (self.circuit.arguments[k] for k in range(len(self.circuit.units)))]
        found = []
        for number, difference in enumerate(apart):
            shift = float(difference.coefficients[0])
            coefficients = difference.coefficients.copy()
            coefficients[0] = 0.0
            rest = float(Forms(coefficients, difference.slack, difference.frame).size)
            unlike = float(np.abs(coefficients) @ difference.frame.sizes)
            if unlike <= SAME * float(np.abs(form.coefficients[1:]) @ difference.frame.sizes[1:]):
                claim = _claim(self.circuit.units[number], shift, rest)
                found.append((self.misfit(bank, claim), number, shift, rest))
        if not found:
            raise Unanswerable
        return min(found)[1:]

    def misfit(self, bank: Network, claim: OneVariable) -> float:
        """The largest difference at some points."""
        points = cells(float(claim.domain.lo[0]), float(claim.domain.hi[0]), TRIALS).mid[:, None]
        return float(np.abs(run(bank, points[..., None])[:, 0] - claim.values(points)).max())

    def prove(self, bank: Network, number: int, shift: float, off: float) -> _Proof:
        """The distance of a bank from its unit, on the range of the unit's argument and `off` beyond."""
        unit = self.circuit.units[number]
        key = (unit.function, unit.low, unit.high, shift, off, *_stored(bank))
        if key not in self.proofs:
            claim = _claim(unit, shift, off)
            largest = float(np.abs(bank.attention[0].values()).max())
            goal = max(float(self.goals[number]), ROOM * self.misfit(bank, claim), NOISE * ULP * largest)
            outcome = bound_error(claim, bank, goal, self.deadline, most=BOXES)
            while outcome.found > goal:  # there the search stops early: a worse error was met than at the samples
                goal = ROOM * outcome.found
                outcome = bound_error(claim, bank, goal, self.deadline, most=BOXES)
            self.boxes += outcome.boxes
            self.proofs[key] = _Proof(outcome.parts["construction"], outcome.parts["rounding"])
        return self.proofs[key]


def _claim(unit: Unit, shift: float, off: float) -> OneVariable:
    """The unit's function of the feature that a head reads, on the feature's range."""
    low, high = np.nextafter(unit.low - off, -inf), np.nextafter(unit.high + off, inf)
    function = unit.function.clipped(*unit.clips(off))
    if shift:
        function = function.after(Composite.variable().scaled(Interval(1.0), Interval(-shift)))
    ends = np.nextafter(low + shift, -inf), np.nextafter(high + shift, inf)
    return OneVariable(function, float(ends[0]), float(ends[1]))


def _alone(layer: Attention, number: int, feature: int, dtype: str) -> Network:
    """One head as a network of one variable, the feature it reads: the same operations on the same numbers."""
    used = np.flatnonzero((layer.key[number] != 0).any(axis=1) | (layer.value[number] != 0).any(axis=1))
    one = slice(number, number + 1)
    head = Attention.of(
        query=layer.query[one, feature : feature + 1],
        query_bias=layer.query_bias[one],
        key=layer.key[one][:, used],
        key_bias=layer.key_bias[one],
        value=layer.value[one][:, used],
        value_bias=layer.value_bias[one],
        output=np.ones((1, 1, 1)),
        memory=layer.memory[:, used],
    )
    return Network((replace(head, scaling=scaling_roundings(layer)),), 1, dtype)


def _stored(bank: Network) -> list[Any]:
    """Every number of a bank as it is stored: rounding depends on the factors of keys and values, not on products."""
    (layer,) = bank.attention
    stored = (getattr(layer, part.name) for part in fields(layer))
    return [(part.shape, part.tobytes()) if isinstance(part, np.ndarray) else part for part in stored]
