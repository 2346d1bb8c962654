"""Any formula in any number of variables, step by step (attnfun's own; [T 7.2]).

**Construction.** The formula becomes a circuit of affine maps and functions of one variable (`formula/lowering.py`).
One data token holds the registers. Units that depend on each other in d steps make d levels of two layers: an affine
map writes the arguments beside the registers still needed, and one attention layer holds a head for each unit; the
residual connection keeps the registers, and results go to features of their own, but for those of the last level, which
are added up to the outputs (with `options={"layout": "registers"}` they have features too, for those who look for
them). A smooth unit is a bank in memory with
solved values (`pieces/banks.py`); equal units on equal ranges share theirs. A rectifier is the token itself against a
memory token of zeros, `z σ(R z)`.

**Budget.** An error of unit k moves the output by at most S_k times as much (slopes, backwards). Tokens grow like
`log(1/ε_k)`, so the sum of tokens under `Σ S_k ε_k = aim` is smallest where all units have equal shares,
`ε_k = aim / (K S_k)`.

**Bound.** `proofs/rules/circuit.py`: each head is proved in one variable and errors are pushed through the circuit.
Size and depth are those of the formula, whatever the number of variables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..arguments import one_of
from ..arithmetic.formats import FORMATS
from ..errors import InputError
from ..formula.circuits import Budget, Circuit, Linear, Unit
from ..formula.composites import Composite
from ..network import Affine, Attention, Layer, Network
from ..network.network import rounded
from ..pieces.banks import MOST, Bank, LongSearch, bank_of, search_for
from ..pieces.lines import QUICK, THOROUGH, Care, Search
from ..pieces.slopes import paper_tokens, sampled_slopes, steepest
from ..resources.deadline import Deadline
from ..targets import Target
from ..targets.readers import NetworkFunction
from .base import Construction, Forecast, Plan, PlanRequest, proof_work
from .heads import DEAD
from .sharpness import RECTIFIER

Floats = npt.NDArray[np.float64]

REGISTERS = "registers"
LAYOUTS = ("compact", REGISTERS)


@dataclass(frozen=True)
class CircuitTuning:
    """How heads of a circuit are sized. The error of the network is proved later."""

    finest: float = 300.0
    """No head is made more precise than so many units of roundoff of its largest value. By trial."""
    narrowest: float = 2.0**-10
    """Half the width of the interval that a head is fitted on, relative to its argument, where that is a constant. A
    round number."""
    widest: float = 1e-3
    """Banks follow their functions beyond the range of the argument, but by no more than this fraction of it. A round
    number."""
    larger: float = 1.5
    """Times as many tokens as the largest of several banks that one bank in their place may have. A round number."""


TUNING = CircuitTuning()

WEIGHTS = 6
"""Numbers that a head has for each feature of its layer: query, key, value, output."""


@dataclass(frozen=True, eq=False)
class Heads:
    """The circuit with a bank for each smooth unit and a sharpness for each rectifier."""

    circuit: Circuit
    banks: dict[int, Bank]
    sharpness: dict[int, float]
    registers: bool
    """Does every unit have a feature of its own, those of the last level too?"""

    @property
    def tokens(self) -> int:
        """Memory tokens over heads and layers."""
        return _total(self.circuit, self.sizes)

    @property
    def sizes(self) -> dict[int, int]:
        """Tokens of the banks, by unit."""
        return {number: bank.tokens.size for number, bank in self.banks.items()}


def _circuit(target: Target) -> Circuit:
    """The circuit of a target that has one."""
    circuit = target.circuit()
    if circuit is None:
        raise InputError(
            "the construction circuit needs a formula of continuous operations that are bounded on the domain",
            got=str(target.as_dict().get("text", target.as_dict()["kind"])),
        )
    return circuit


class CircuitConstruction(Construction[Target, Heads]):
    """A multi-layer network, one head for each step of a formula."""

    name: ClassVar[str] = "circuit"
    theorem: ClassVar[str] = "circuits of one-variable heads (attnfun)"
    options: ClassVar[frozenset[str]] = frozenset({"layout"})
    figures: ClassVar[frozenset[str]] = frozenset({"depth", "units"})
    least: ClassVar[int] = 1
    treats_tokens_alone: ClassVar[bool] = True
    made_for: ClassVar[tuple[type[Target], ...]] = (NetworkFunction,)

    def serves(self, target: Target) -> bool:
        """Formulas whose operations are continuous, and networks, also those that are affine."""
        circuit = target.circuit()
        return circuit is not None and (len(circuit.units) > 0 or isinstance(target, NetworkFunction))

    def rivals(self, target: Target) -> bool:
        """Not for one smooth function of one variable, which is one bank by any name."""
        circuit = target.circuit()
        return circuit is not None and (target.domain.size > 1 or not circuit.alone)

    def forecast(self, target: Target, request: PlanRequest) -> Forecast[Heads]:
        """Banks without polish, less what polish is known to save."""
        if request.aim is None:
            return super().forecast(target, request)
        sizing = _Sizing.of(_circuit(target), request.aim, request)
        sizes = sizing.outlook()
        tokens, work = _total(sizing.circuit, sizes), sizing.work(sizes)
        return Forecast(tokens, len(levels(sizing.circuit)), lambda: self._plan(sizing), work)

    def plan(self, target: Target, request: PlanRequest) -> Plan[Heads]:
        """Equal shares of the tolerance for all heads."""
        if request.aim is None:
            raise InputError("the construction circuit must be given a tolerance", got="eps=None", remedy="Pass eps=.")
        return self._plan(_Sizing.of(_circuit(target), request.aim, request))

    def _plan(self, sizing: _Sizing) -> Plan[Heads]:
        circuit, budget, heads = sizing.circuit, sizing.budget, sizing.heads()
        figures = {"depth": float(max(circuit.depth, default=0)), "units": float(len(circuit.units))}
        errors = [bank.error * budget.reach[number] for number, bank in heads.banks.items()]
        errors += [RECTIFIER / sharp * budget.reach[number] for number, sharp in heads.sharpness.items()]
        steps, atoms = levels(circuit), circuit.inputs + len(circuit.units)
        numbers = float(sum(WEIGHTS * len(step) * (2 * len(step) + atoms) for step in steps))
        return Plan(
            heads.tokens,
            sum(errors),
            heads,
            depth=len(steps),
            figures=figures,
            limit=budget.least,
            numbers=numbers,
            work=sizing.work(heads.sizes),
        )

    def build(self, target: Target, plan: Plan[Heads], dtype: str) -> Network:
        """Levels one after the other, then the outputs."""
        layers = _Emission(plan.details, target.domain.tokens[0]).layers(target.output_shape)
        return Network(tuple(rounded(layer, dtype) for layer in layers), target.domain.tokens[0], dtype)

    def paper_tokens(self, target: Target, plan: Plan[Heads], eps: float) -> int:
        """[A] on a uniform grid, with a sampled slope."""
        return paper_tokens(target.domain, steepest(sampled_slopes(target)), eps)


@dataclass(frozen=True, eq=False)
class _Sizing:
    """A search for every distinct function and range, to the tightest tolerance that any of its units needs."""

    circuit: Circuit
    budget: Budget
    dtype: str
    deadline: Deadline
    searches: dict[int, Search | LongSearch]
    """By unit; units with one bank share theirs."""
    sharpness: dict[int, float]
    registers: bool

    @classmethod
    def of(cls, circuit: Circuit, aim: float, request: PlanRequest) -> _Sizing:
        """Equal shares for all units."""
        dtype, deadline = request.dtype, request.deadline
        budget = circuit.budget(aim, TUNING.finest * 2.0 ** -FORMATS[dtype].bits)
        groups: dict[object, list[int]] = {}
        for number, unit in enumerate(circuit.units):
            groups.setdefault((unit.function, unit.low, unit.high), []).append(number)
        searches, sharpness = dict[int, Search | LongSearch](), dict[int, float]()
        for members in groups.values():
            deadline.check("planning a circuit")
            unit, share = circuit.units[members[0]], float(budget.shares[members].min())
            if unit.bends:
                sharpness |= dict.fromkeys(members, float(2.0 ** np.ceil(np.log2(RECTIFIER / share))))
            else:
                care = THOROUGH if circuit.alone else QUICK
                search = _search(unit, share, float(budget.off[members].max()), dtype, care, deadline)
                searches |= dict.fromkeys(members, search)
        for level in levels(circuit):
            for members in _alike(circuit, level):
                deadline.check("planning a circuit")
                searches |= _joined(circuit, members, searches, budget, dtype, deadline)
        layout = one_of("options layout", request.options.get("layout", LAYOUTS[0]), LAYOUTS)
        return cls(circuit, budget, dtype, deadline, searches, sharpness, layout == REGISTERS)

    def outlook(self) -> dict[int, int]:
        """Tokens that will do at the least, by unit."""
        sizes = {}
        for number, search in self.searches.items():
            self.deadline.check("planning a circuit")
            sizes[number] = search.outlook(MOST)
        return sizes

    def work(self, sizes: dict[int, int]) -> float:
        """Of a proof: units with one bank are proved once, in one variable."""
        each = {id(search): sizes[number] for number, search in self.searches.items()}
        return sum(proof_work(size, size, 1) for size in each.values())

    def heads(self) -> Heads:
        """The banks, searched for."""
        banks = {}
        for search in self.searches.values():
            if id(search) not in banks:
                banks[id(search)] = bank_of(search, self.dtype)
                self.deadline.check("planning a circuit")
        found = {k: banks[id(search)] for k, search in self.searches.items()}
        return Heads(self.circuit, found, self.sharpness, self.registers)


def _alike(circuit: Circuit, level: list[int]) -> list[list[int]]:
    """Units of a level that are one smooth function on different ranges, by function."""
    found: dict[Composite, list[int]] = {}
    for number in level:
        if not circuit.units[number].bends:
            found.setdefault(circuit.units[number].function, []).append(number)
    ranges = ({(circuit.units[k].low, circuit.units[k].high) for k in members} for members in found.values())
    return [members for members, each in zip(found.values(), ranges, strict=True) if len(each) > 1]


def _joined(
    circuit: Circuit,
    members: list[int],
    searches: dict[int, Search | LongSearch],
    budget: Budget,
    dtype: str,
    deadline: Deadline,
) -> dict[int, Search | LongSearch]:
    """One search for units of one function, on the whole of their ranges; nothing if its bank would be much larger.

    B banks of N tokens for H heads are 3 B N numbers of the memory, and each head picks three of its 3 B columns with
    9 B numbers of its projections: one bank for all heads stores less even if it has more tokens.
    """
    units = [circuit.units[k] for k in members]
    whole = replace(units[0], low=min(unit.low for unit in units), high=max(unit.high for unit in units))
    known = whole.function.range(whole.low, whole.high)
    if not (known.defined and np.isfinite(known.magnitude)):
        return {}
    aim, off = float(budget.shares[members].min()), float(budget.off[members].max())
    search = _search(whole, aim, off, dtype, QUICK, deadline)
    most = int(TUNING.larger * max(searches[k].outlook(MOST) for k in members))
    return dict.fromkeys(members, search) if isinstance(search, Search) and search.foresees(most) else {}


def _search(unit: Unit, aim: float, off: float, dtype: str, care: Care, deadline: Deadline) -> Search | LongSearch:
    """For a bank for the unit's function on the range of its argument and `off` beyond.

    Where the function is not defined beyond an end, it stays as it is at the end. The range of an argument that is a
    constant is widened a little: a head is fitted on an interval.
    """
    width = unit.high - unit.low
    off = min(off, TUNING.widest * width) if width > 0 else TUNING.narrowest * max(abs(unit.low), 1.0)
    clips = unit.clips(off)

    def function(points: Floats) -> Floats:
        return unit.function(np.clip(points, *clips))

    return search_for(function, unit.low - off, unit.high + off, aim, dtype=dtype, care=care, deadline=deadline)


def _total(circuit: Circuit, sizes: dict[int, int]) -> int:
    """Memory tokens over heads and layers: in a layer, all heads have as many as the largest; rectifiers one."""
    return sum(len(level) * max(sizes.get(k, 1) for k in level) for level in levels(circuit))


def levels(circuit: Circuit) -> list[list[int]]:
    """Units that are computed side by side, as early as possible; rectifiers in layers of their own."""
    found: dict[tuple[int, bool], list[int]] = {}
    for number, (unit, depth) in enumerate(zip(circuit.units, circuit.depth, strict=True)):
        found.setdefault((depth, unit.bends), []).append(number)
    return [found[key] for key in sorted(found)]


class _Emission:
    """Writes the layers; knows which feature holds which atom."""

    def __init__(self, heads: Heads, length: int) -> None:
        self.heads, self.circuit, self.length = heads, heads.circuit, length
        self.place = {k: k for k in range(self.circuit.inputs)}
        self.width = self.circuit.inputs
        self.first = True

    def layers(self, output_shape: tuple[int, ...]) -> list[Layer]:
        """All of them."""
        found: list[Layer] = []
        waiting = levels(self.circuit)
        while waiting:
            level = waiting.pop(0)
            compact = not waiting and not self.heads.registers
            found += self.last(level) if compact else self.level(level, self.needed(waiting))
        if not self.circuit.units or self.heads.registers:
            found.append(self.affine(*self.columns([(output, 0.0) for output in self.circuit.outputs])))
        return [*found, Affine.unflatten(*output_shape)] if len(output_shape) == 2 else found

    def needed(self, waiting: list[list[int]]) -> set[int]:
        """Atoms that are read after this level."""
        forms = [self.circuit.units[k].argument for level in waiting for k in level]
        return {atom for form in (*forms, *self.circuit.outputs) for atom in form.terms}

    def level(self, units: list[int], later: set[int]) -> list[Layer]:
        """Features: arguments | registers still needed | results | a one for rectifiers."""
        count, atoms = len(units), sorted(atom for atom in self.place if atom in later)
        kept, results = [(Linear.atom(atom), 0.0) for atom in atoms], count + len(atoms)
        before = self.read(units, kept, count)
        output = np.zeros((count, 1, self.width))  # (H, 1, d)
        output[np.arange(count), 0, results + np.arange(count)] = 1.0
        attention = self.heads_of(units, output)
        self.place = {atom: count + k for k, atom in enumerate(atoms)}
        self.place |= {self.circuit.inputs + number: results + k for k, number in enumerate(units)}
        return [before, attention]

    def last(self, units: list[int]) -> list[Layer]:
        """The heads of the last level write to the outputs themselves.

        Where outputs are forms of these heads alone, they are all that the layer puts out. Otherwise they stand beside
        the arguments, as far as they are known, the residual connection adds what the heads write, and a map picks
        them.
        """
        own = {self.circuit.inputs + number: k for k, number in enumerate(units)}
        forms, count = self.circuit.outputs, len(units)
        written = np.zeros((count, 1, len(forms)))  # (H, 1, m)
        for column, form in enumerate(forms):
            for atom in form.terms.keys() & own.keys():
                written[own[atom], 0, column] = float(form.terms[atom].mid)
        if all(form.terms.keys() <= own.keys() for form in forms):
            constants = np.array([float(form.constant.mid) for form in forms])
            return [self.read(units, [], 0), self.heads_of(units, written, constants)]
        known = [
            (Linear(form.constant, {atom: c for atom, c in form.terms.items() if atom not in own}), 0.0)
            for form in forms
        ]
        before = self.read(units, known, 0)
        output = np.zeros((count, 1, self.width))  # (H, 1, d)
        output[:, :, count : count + len(forms)] = written
        pick = np.eye(len(forms), self.width, count).T  # (d, m)
        return [before, self.heads_of(units, output), self.affine(pick, np.zeros(len(forms)))]

    def read(self, units: list[int], beside: list[tuple[Linear, float]], empty: int) -> Affine:
        """The map that makes arguments, forms beside them, empty features, and a one where rectifiers need it."""
        arguments = [(self.circuit.units[k].argument, self.origin(k)) for k in units]
        read, shift = self.columns([*arguments, *beside])
        width = read.shape[1] + empty + self.bends(units)
        weight, bias = np.zeros((self.width, width)), np.zeros(width)
        weight[:, : read.shape[1]], bias[: len(shift)] = read, shift
        bias[width - self.bends(units) :] = 1.0
        before, self.width = self.affine(weight, bias), width
        return before

    def bends(self, units: list[int]) -> bool:
        """Does a level consist of rectifiers?"""
        return units[0] in self.heads.sharpness

    def heads_of(self, units: list[int], output: Floats, constant: Floats | None = None) -> Attention:
        """One layer; it puts out what its heads write and a constant, or adds that to the features where none is."""
        return (self.rectifiers if self.bends(units) else self.banks)(units, output, constant)

    def origin(self, unit: int) -> float:
        """Where a bank's scores are written from."""
        return self.heads.banks[unit].origin if unit in self.heads.banks else 0.0

    def columns(self, forms: list[tuple[Linear, float]]) -> tuple[Floats, Floats]:
        """Weights (d, m) and bias (m,) that make forms minus origins from the features at hand."""
        weight, bias = np.zeros((self.width, len(forms))), np.zeros(len(forms))
        for column, (form, origin) in enumerate(forms):
            bias[column] = float(form.constant.mid) - origin
            for atom, coefficient in form.terms.items():
                weight[self.place[atom], column] = float(coefficient.mid)
        return weight, bias

    def affine(self, weight: Floats, bias: Floats) -> Affine:
        """On the one token; the first map makes it of all."""
        flat = self.first and self.length > 1
        self.first = False
        return Affine.flatten(self.length, weight, bias) if flat else Affine.tokenwise(weight, bias)

    def banks(self, units: list[int], output: Floats, constant: Floats | None) -> Attention:
        """One head a unit; units with one bank read the same features of the memory."""
        banks = list({id(self.heads.banks[k]): self.heads.banks[k] for k in units}.values())
        tokens = max(bank.tokens.size for bank in banks)
        memory = np.zeros((tokens, 3 * len(banks)))  # slope, offset, value for each bank
        for number, bank in enumerate(banks):
            block = memory[:, 3 * number : 3 * number + 3]
            block[: bank.tokens.size] = np.column_stack([bank.tokens.slopes, bank.tokens.offsets, bank.values])
            block[bank.tokens.size :, 1] = -DEAD
        count, place = len(units), {id(bank): 3 * number for number, bank in enumerate(banks)}
        starts = np.array([place[id(self.heads.banks[k])] for k in units])
        heads = np.arange(count)
        query, key = np.zeros((count, self.width, 2)), np.zeros((count, 3 * len(banks), 2))
        value = np.zeros((count, 3 * len(banks), 1))
        query[heads, heads, 0] = key[heads, starts, 0] = key[heads, starts + 1, 1] = 1.0
        value[heads, starts + 2, 0] = 1.0
        return Attention.of(
            query=query,
            query_bias=np.tile([0.0, 1.0], (count, 1)),
            key=key,
            value=value,
            output=output,
            output_bias=constant,
            memory=memory,
            residual=constant is None,
        )

    def rectifiers(self, units: list[int], output: Floats, constant: Floats | None) -> Attention:
        """The data token (score R z, value z) against a memory token of zeros."""
        count, heads, width = len(units), np.arange(len(units)), self.width
        query, key, value = np.zeros((count, width, 1)), np.zeros((count, width, 1)), np.zeros((count, width, 1))
        query[heads, heads, 0] = [self.heads.sharpness[k] for k in units]
        key[:, -1, 0] = value[heads, heads, 0] = 1.0
        return Attention.of(
            query=query,
            key=key,
            value=value,
            output=output,
            output_bias=constant,
            memory=np.zeros((1, width)),
            attends_data=True,
            residual=constant is None,
        )
