"""What a network was made to compute: named registers, their exact values, and what happens if one is set.

A program knows nothing of weights. It runs the target itself, in float64, register by register, and answers a causal
question by doing what it says: the register is set, and everything that is computed from it is computed again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InputError, did_you_mean
from ..formula.circuits import Circuit, Linear
from ..formula.composites import Composite, Identity
from ..targets import Target

Floats = npt.NDArray[np.float64]
Settings = Mapping[str, Floats]
"""Registers that are set, with a value for each point, (B,)."""


@dataclass(frozen=True)
class ProgramNamesTuning:
    """How expressions are read and named."""

    edge: float = 1e-9
    """Fraction of a range by which rounding may carry an argument beyond it. A round number."""
    longest: int = 24
    """Characters of an expression that serves as a name. A round number."""


TUNING = ProgramNamesTuning()

INFIX = {"+", "-", "*", "/", "**"}


@dataclass(frozen=True)
class Register:
    """One number that the network computes on its way."""

    name: str
    kind: str
    """input, step or output."""
    symbol: str
    """A short name, which expressions use."""
    expression: str = ""
    """How it follows from registers before it."""
    part: str = ""
    """The part of the formula that it belongs to."""


class RegisterProgram(ABC):
    """Registers in the order in which they are computed."""

    registers: tuple[Register, ...]
    outputs: tuple[str, ...]
    """The registers that make up a value, in order."""

    @abstractmethod
    def run(self, rows: Floats, settings: Settings | None = None) -> dict[str, Floats]:
        """All registers at points (B, D), (B,) each; those that are set, and all that follows from them, as set."""

    def find(self, name: str) -> Register:
        """A register by its name, with or without spaces, an output also by its formula."""
        for register in self.registers:
            if register.name == name:
                return register
        for register in self.registers:
            formula = register.part if register.kind == "output" and register.part else register.name
            if _letters(formula) == _letters(name):
                return register
        known = ", ".join(repr(register.name) for register in self.registers)
        near = did_you_mean(name, [register.name for register in self.registers])
        raise InputError(f"a register must be one of {known}", got=repr(name), remedy=near)


class LookUp(RegisterProgram):
    """A function that is looked up in one layer: the inputs, then the outputs."""

    def __init__(self, target: Target) -> None:
        self.target = target
        axes, size = target.domain.axes, int(np.prod(target.output_shape, dtype=int))
        self.outputs = output_names(size)
        words = str(target.as_dict().get("text", target.as_dict()["kind"]))
        inputs = [Register(axis, "input", axis) for axis in axes]
        said = [f"f({', '.join(axes)})" + (f"[{k}]" if size > 1 else "") + f", f = {words}" for k in range(size)]
        part = words if size == 1 else ""
        results = [Register(name, "output", f"y{k}", said[k], part) for k, name in enumerate(self.outputs)]
        self.registers = (*inputs, *results)

    def run(self, rows: Floats, settings: Settings | None = None) -> dict[str, Floats]:
        """The target's own values."""
        settings = settings or {}
        inputs = dict(zip(self.target.domain.axes, rows.T, strict=True))
        inputs |= {name: value for name, value in settings.items() if name in inputs}
        values = self.target.values(np.stack(list(inputs.values()), axis=1)).reshape(len(rows), -1)  # (B, m)
        return {**inputs, **dict(zip(self.outputs, values.T, strict=True)), **settings}


class Steps(RegisterProgram):
    """A circuit: the inputs, a register for each unit, the operations of the formula that are sums of those, outputs.

    Units that are an operation of the formula bear its text, others their own expression or, if that is long, a number:
    the two squares that make a product, for example. To set an operation that is a sum of several registers means to
    change the *last* of its units by as much as is missing: in `u v = .. + c (square 1 - square 2)` the second square.
    So it is with outputs; others that depend on the same unit follow.
    """

    def __init__(self, circuit: Circuit, axes: tuple[str, ...]) -> None:
        self.circuit, inputs = circuit, circuit.inputs
        texts = {form.alone: text for text, form in reversed(circuit.parts) if form.alone is not None}
        symbols = [*axes, *(f"r{k + 1}" for k in range(len(circuit.units)))]
        expressions, names = list[str](), list(axes)
        for k, unit in enumerate(circuit.units):
            expressions.append(_written(unit.function, _sum(unit.argument, symbols)))
            own = texts.get(inputs + k, _written(unit.function, _sum(unit.argument, names)))
            plain = inputs + k in texts or (len(own) <= TUNING.longest and own not in names)
            names.append(own if plain else f"unit {k + 1}")
        self.atoms = tuple(names)
        self.order = sorted(range(len(names)), key=self._turn)
        self.outputs = output_names(len(circuit.outputs))
        self.forms = {name: Linear.atom(k) for k, name in enumerate(self.atoms)}
        ends = dict(zip(self.outputs, circuit.outputs, strict=True))
        known = [_numbers(form) for form in (*self.forms.values(), *ends.values())]
        sums = {
            text: form
            for text, form in circuit.parts
            if max(form.terms) >= inputs and _numbers(form) not in known and text not in self.forms
        }
        self.forms |= sums | ends
        steps = zip(names[inputs:], symbols[inputs:], expressions, (unit.text for unit in circuit.units), strict=True)
        self.registers = (
            *(Register(axis, "input", axis) for axis in axes),
            *(Register(name, "step", symbol, said, text) for name, symbol, said, text in steps),
            *(Register(text, "step", f"s{k + 1}", _sum(sums[text], symbols), text) for k, text in enumerate(sums)),
            *(
                Register(n, "output", f"y{k}", _sum(ends[n], symbols), _formula(circuit, ends[n]))
                for k, n in enumerate(self.outputs)
            ),
        )

    def own(self, name: str) -> int:
        """The atom that is changed when a register is set: the last one computed that it depends on."""
        return max(self.forms[name].terms, key=self._turn)

    def run(self, rows: Floats, settings: Settings | None = None) -> dict[str, Floats]:
        """Unit after unit; an argument that leaves the range on which the network knows the unit is an error."""
        settings = settings or {}
        owned = {self.own(name): name for name in settings}
        atoms = np.zeros((len(rows), len(self.atoms)))  # (B, D + K)
        for atom in self.order:
            atoms[:, atom] = rows[:, atom] if atom < rows.shape[1] else self._unit(atom, atoms, bool(settings))
            if atom in owned:
                form = self.forms[owned[atom]]
                missing = settings[owned[atom]] - _value(form, atoms)  # (B,)
                atoms[:, atom] += missing / float(form.terms[atom].mid)
        return {name: _value(form, atoms) for name, form in self.forms.items()} | dict(settings)

    def _unit(self, atom: int, atoms: Floats, check: bool) -> Floats:
        unit = self.circuit.units[atom - self.circuit.inputs]
        argument, slack = _value(unit.argument, atoms), TUNING.edge * (unit.high - unit.low)
        if check and not (argument.min() >= unit.low - slack and argument.max() <= unit.high + slack):
            raise InputError(
                f"registers may only be set so that the argument of {self.atoms[atom]!r} stays in "
                f"[{unit.low:g}, {unit.high:g}], the range for which it was compiled",
                got=f"[{argument.min():g}, {argument.max():g}]",
                remedy="Set a value that the register takes at another point nearby.",
            )
        return np.asarray(unit.function(np.clip(argument, unit.low, unit.high)), dtype=np.float64)

    def _turn(self, atom: int) -> tuple[int, bool, int]:
        """Atoms are computed in this order, as in the network."""
        unit = atom - self.circuit.inputs
        return (0, False, atom) if unit < 0 else (self.circuit.depth[unit], self.circuit.units[unit].bends, atom)


def _letters(text: object) -> str:
    """A text without its spaces."""
    return "".join(str(text).split())


def _formula(circuit: Circuit, form: Linear) -> str:
    """The part of the formula that an output is; nothing if it is none."""
    return next((text for text, part in circuit.parts if _numbers(part) == _numbers(form)), "")


def output_names(count: int) -> tuple[str, ...]:
    """Names for so many outputs."""
    return ("output",) if count == 1 else tuple(f"output[{k}]" for k in range(count))


def _value(form: Linear, atoms: Floats) -> Floats:
    """A form of the atoms, (B,)."""
    total = np.full(len(atoms), float(form.constant.mid))
    for atom, coefficient in form.terms.items():
        total += float(coefficient.mid) * atoms[:, atom]
    return total


def _numbers(form: Linear) -> tuple[float, dict[int, float]]:
    """A form as plain numbers."""
    return float(form.constant.mid), {atom: float(c.mid) for atom, c in form.terms.items()}


def _sum(form: Linear, names: list[str]) -> str:
    """A form in words."""
    constant, terms = _numbers(form)
    signs = {1.0: "", -1.0: "-"}
    said = [signs.get(c, f"{c!r}*") + _bracketed(names[atom]) for atom, c in terms.items()]
    return " + ".join([*([repr(constant)] if constant or not said else []), *said])


def _written(function: Composite, argument: str) -> str:
    """A function of one variable in words."""
    said: list[str] = []
    for step in function.steps:
        args = [said[k] for k in step.args]
        if step.kind == "variable":
            said.append(argument)
        elif step.kind == "constant":
            number = step.value.interval.mid if isinstance(step.value, Identity) else step.value
            said.append(repr(float(number)))
        elif step.kind in INFIX:
            said.append(f" {step.kind} ".join(_bracketed(arg) for arg in args))
        else:
            said.append(f"-{_bracketed(args[0])}" if step.kind == "neg" else f"{step.kind}({', '.join(args)})")
    return said[-1]


def _bracketed(said: str) -> str:
    """In parentheses, unless it is a name or a positive number."""
    return said if said.replace("_", "").replace(".", "").isalnum() else f"({said})"
