"""Bounds for networks that compute a formula step by step, from the weights alone [T 11.4].

The target is a circuit: atoms, which are variables and units `φ_k(z_k)` (`formula/circuits.py`). Every feature of the
network is followed through the layers as an affine form of the atoms, with a bound on what it is off. Affine layers
act on forms. A head whose bank reads one feature u that varies (and constants, which are exact) is matched with the
unit whose argument is λu up to a constant c, λ ≠ 0:

- in deployed arithmetic, `λu = z + c + δ` with |δ| <= e known, z the exact argument, within [low, high];
- branch and bound in one variable, on the very weights of the head, gives `|head(u) - φ(λu - c)| <= ε` wherever λu - c
  is in [low - e, high + e], and its rounding error ρ; where φ is not defined beyond low or high, `φ(clip(λu - c))` is
  taken;
- so the head is within `ε + ρ + ω(e)` of the atom, ω the modulus of continuity of φ. Heads of one layer that have the
  same weights and function are proved once, for the largest e among them.

So one head that computes a function of one linear form, whatever the number of variables, is a claim in one variable.

Here `e = a + r + i`: what the argument is off in real arithmetic, by rounding, and by the input. ω need not be additive
(for a square root `ω(r) > ω(a + r + i) - ω(a + i)`), so the parts are counted in an order in which each holds where the
later ones are absent: ω(a) belongs to the construction, `ω(a + r) - ω(a)` to rounding, `ω(e) - ω(a + r)` to the input.

Rectifier heads are read as fans (`structure.py`). At the end the network's outputs and the formula's are forms of the
same atoms. Nothing is taken from the construction: a wrong weight makes ε large, never the bound wrong.

Data: `units`, which unit each head of a bank computes, `premise`, which premise says how well, and `scales`, the λ (all
1 if there are none); in the order of layers and heads. Premises are proofs in one variable; equal heads on equal ranges
share one. A wrong choice makes some distance large, never the bound wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import inf
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...arithmetic import Interval
from ...arithmetic.directed import rounded_up
from ...arithmetic.formats import FORMATS, Format
from ...arithmetic.forms import Forms
from ...arithmetic.rounding import OWN, linear_error, with_sum
from ...domains.box import NARROWEST, WIDEST
from ...formula.circuits import Circuit, Unit
from ...formula.composites import Composite
from ...network import Affine, Attention, Network
from ...network.layers import Layer
from ...resources.deadline import NEVER, Deadline
from ...targets import Target
from ...targets.one_variable import OneVariable
from ..claim import Claim
from ..proof import Conclusion, Floats, Integers, Proof, refuse_proof
from ..scaling import Hosted, scaling_roundings
from .structure import State, compared, follow, initial_state

NAME = "circuit"
RIVALS = 16
"""Memory tokens beside a data token in a head that computes a rectifier, at most: one would do."""


@dataclass(frozen=True)
class Known:
    """What is known of one head on a range: its distance from the unit, its rounding error."""

    distance: float
    rounding: float


class Guide(Protocol):
    """Says what the heads of a network are: a proof that is being checked, or a prover."""

    def unit(self, bank: Network, form: Forms, circuit: Circuit) -> tuple[int, float] | None:
        """The unit that a bank computes at a form, and the λ that makes the form its argument; None if that is none."""
        ...

    def known(self, bank: Network, unit: int, claim: OneVariable) -> Known:
        """How far the bank is from its unit, on the range of the claim."""
        ...


def follow_circuit(target: Target, network: Network, guide: Guide, deadline: Deadline = NEVER) -> Conclusion | None:
    """A bound on `|target - network|` over the domain; None if a layer does not belong to a circuit."""
    circuit = target.circuit()
    if circuit is None:
        return None
    walk = _Walk(circuit, FORMATS[network.dtype], guide, deadline)
    state: State | None = initial_state(circuit, network)
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in network.layers:
            state = walk.after(layer, state)
            if state is None:
                return None
    return compared(target, state, circuit.results, defined=circuit.defined)


class Stored:
    """The guide that a proof is."""

    def __init__(self, proof: Proof, check: Callable[[Proof, Claim], Conclusion]) -> None:
        units, premise = (_choices(proof, name) for name in ("units", "premise"))
        scales = proof.data.get("scales", np.ones(len(units)))
        if scales.dtype != np.float64 or scales.shape != units.shape or not (np.isfinite(scales) & (scales != 0)).all():
            raise refuse_proof(NAME, "must have a number that is not zero as the scale of each head", scales.tolist())
        if len(units) != len(premise) or not ((premise >= 0) & (premise < len(proof.premises))).all():
            raise refuse_proof(NAME, "must name a unit and a premise for each head", (units.tolist(), premise.tolist()))
        self.premises, self.check = proof.premises, check
        self.units, self.order = iter(zip(units.tolist(), scales.tolist(), strict=True)), iter(premise.tolist())
        self.checked = dict[Any, Known]()

    def unit(self, bank: Network, form: Forms, circuit: Circuit) -> tuple[int, float]:
        """The next choice."""
        unit, scale = next(self.units, (-1, 1.0))
        if not 0 <= unit < len(circuit.units):
            raise refuse_proof(NAME, f"must name a unit from 0 to {len(circuit.units) - 1} for each head", unit)
        return unit, scale

    def known(self, bank: Network, unit: int, claim: OneVariable) -> Known:
        """What the premise proves of this very bank on this very range."""
        premise = next(self.order)
        key = (premise, claim.function, float(claim.domain.lo[0]), float(claim.domain.hi[0]), *stored(bank))
        if key not in self.checked:
            conclusion = self.check(self.premises[premise], Claim.inner(claim, bank))
            self.checked[key] = Known(conclusion.parts["construction"], conclusion.parts["rounding"])
        return self.checked[key]


def _choices(proof: Proof, name: str) -> Integers:
    array = proof.data.get(name, np.empty(0))
    if array.dtype != np.int64 or array.ndim != 1:
        raise refuse_proof(NAME, f"must have {name} as a list of integers", f"{array.dtype} {array.shape}")
    return array


@dataclass
class _Walk:
    """Follows the features of one network."""

    circuit: Circuit
    arithmetic: Format
    guide: Guide
    deadline: Deadline

    def after(self, layer: Layer, state: State) -> State | None:
        """The features after a layer; units read the registers of one token."""
        if isinstance(layer, Attention) and len(state.error) != 1:
            return None
        if isinstance(layer, Attention) and layer.attends_data and len(layer.memory) > RIVALS:
            return None
        if isinstance(layer, Attention) and not layer.attends_data:
            return self.through_banks(layer, state)
        return follow(layer, state, self.circuit, np.ones(len(state.error), dtype=bool), self.arithmetic)

    def through_banks(self, layer: Attention, state: State) -> State | None:
        """A layer whose heads read one feature each of a single token."""
        if len(state.error) != 1 or layer.value.shape[2] != 1:
            return None
        arguments = list[_Argument]()
        reach = dict[Any, float]()  # one range for all heads of one bank and function: one premise for them
        for number in range(layer.heads):
            each = self.argument(layer, number, state)
            if each is None:
                return None
            arguments.append(each)
            reach[each.bank_key] = max(reach.get(each.bank_key, 0.0), each.total)
        heads = [self.head(each, reach[each.bank_key]) for each in arguments]
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

    def argument(self, layer: Attention, number: int, state: State) -> _Argument | None:
        """What a head reads, and which unit it computes; None if it reads several features, or computes none."""
        self.deadline.check("the proof")
        features = np.flatnonzero((layer.query[number] != 0).any(axis=1))
        fixed = _fixed(state)[features]
        if np.count_nonzero(~fixed) != 1 and len(features) != 1:
            return None
        feature = int(features[~fixed][0] if len(features) > 1 else features[0])
        form, off = state.forms[0, feature], state.error[0, feature]
        row = np.where(features == feature, 0.0, state.forms.coefficients[0, features, 0])  # (f,), the constants
        bank = _alone(layer, number, features, features == feature, row, self.arithmetic.name)
        choice = self.guide.unit(bank, form, self.circuit)
        if choice is None:
            return None
        unit, scale = choice
        shift, apart = argument_of(self.circuit, unit, form, scale)
        off = rounded_up(abs(scale) * off, 1)
        total = rounded_up(float(apart + off.sum()), 2)
        own = self.circuit.units[unit]
        if not np.isfinite(total) or range_claim(own, scale, shift, total) is None:
            return None
        key = (own.function, own.low, own.high, scale, shift, *stored(bank))
        return _Argument(unit, bank, off, scale, shift, apart, total, key)

    def head(self, read: _Argument, reach: float) -> tuple[Forms, Floats]:
        """What a head returns: an atom with its slack, and the errors by the input and by rounding (2,).

        The premise is about arguments that are off by up to `reach`, at least by as much as this one is.
        """
        self.deadline.check("the proof")
        unit = self.circuit.units[read.unit]
        claim = range_claim(unit, read.scale, read.shift, reach)
        if claim is None:
            raise refuse_proof(NAME, "must have arguments of moderate size", reach)
        known = self.guide.known(read.bank, read.unit, claim)
        exact, rounded, deployed = (
            unit.modulus(distance)
            for distance in (read.apart, rounded_up(read.apart + float(read.off[OWN]), 1), read.total)
        )
        atom = np.eye(1, len(self.circuit.frame.lo), 1 + self.circuit.inputs + read.unit)[0]
        value = Forms(atom, np.array(rounded_up(known.distance + exact, 1)), self.circuit.frame)
        own = max(rounded - exact, 0.0)
        return value, rounded_up(np.array([max(deployed - exact - own, 0.0), own + known.rounding]), 4)


@dataclass(frozen=True, eq=False)
class _Argument:
    """What one head reads."""

    unit: int
    bank: Network
    off: Floats  # (2,), what the argument λu is off by the input and by rounding
    scale: float
    shift: float
    apart: float
    total: float
    """How far the argument is off, all in all."""
    bank_key: Any
    """Equal for heads of one bank that compute one function of one feature."""


def argument_of(circuit: Circuit, unit: int, form: Forms, scale: float) -> tuple[float, float]:
    """A form times λ as the argument of a unit: the shift between them, and how far they are apart beside it."""
    difference = form.scaled(scale) - circuit.arguments[unit]
    shift, coefficients = float(difference.coefficients[0]), difference.coefficients.copy()
    coefficients[0] = 0.0
    return shift, float(Forms(coefficients, difference.slack, difference.frame).size)


def range_claim(unit: Unit, scale: float, shift: float, off: float) -> OneVariable | None:
    """The unit's function of the feature that a head reads, on the feature's range; None if no box is so large."""
    low, high = np.nextafter(unit.low - off, -inf), np.nextafter(unit.high + off, inf)
    function = unit.function.clipped(*unit.clips(off))
    if shift or scale != 1:
        function = function.after(read_as(scale, shift))
    ends = np.nextafter(low + shift, -inf), np.nextafter(high + shift, inf)
    if scale != 1:
        with np.errstate(all="ignore"):
            first, last = sorted(float(end / scale) for end in ends)
        ends = np.nextafter(first, -inf), np.nextafter(last, inf)
    low, high = float(ends[0]), float(ends[1])
    return OneVariable(function, low, high) if NARROWEST <= high - low <= WIDEST else None


def read_as(scale: float, shift: float) -> Composite:
    """`λu - c`, the argument of a unit, as a function of the feature."""
    return Composite.variable().scaled(Interval(scale), Interval(-shift))


def _fixed(state: State) -> npt.NDArray[np.bool_]:
    """Which features of the one token are constants, and exactly so as computed, (d,)?"""
    return ~state.forms.varies[0] & (state.forms.slack[0] == 0) & (state.error[0] == 0).all(axis=1)


def _alone(
    layer: Attention, number: int, features: Integers, varies: npt.NDArray[np.bool_], row: Floats, dtype: str
) -> Network:
    """One head as a network of the one variable that it reads: the same operations on the same numbers.

    Other features (F,) that it reads are constants, in `row`; an affine layer makes them, which moves numbers only.
    """
    used = np.flatnonzero((layer.key[number] != 0).any(axis=1) | (layer.value[number] != 0).any(axis=1))
    one = slice(number, number + 1)
    head = Attention.of(
        query=layer.query[one][:, features],
        query_bias=layer.query_bias[one],
        key=layer.key[one][:, used],
        key_bias=layer.key_bias[one],
        value=layer.value[one][:, used],
        value_bias=layer.value_bias[one],
        output=np.ones((1, 1, 1)),
        memory=layer.memory[:, used],
    )
    lift = () if len(features) == 1 else (Affine.tokenwise(varies[None].astype(np.float64), row),)
    return Network((*lift, Hosted.within(head, scaling_roundings(layer))), 1, dtype)


def stored(bank: Network) -> list[Any]:
    """Every number of a bank as it is stored: rounding depends on the factors of keys and values, not on products."""
    stored = [getattr(layer, part.name) for layer in bank.layers for part in fields(layer)]
    return [(part.shape, part.tobytes()) if isinstance(part, np.ndarray) else part for part in stored]
