"""The atoms of a circuit in the making: its inputs and units, with what is known of their ranges."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf

import numpy as np

from ..arithmetic import Interval
from .circuits import RECTIFIER, ZERO, Linear, Unit
from .composites import Composite
from .program import Floats


@dataclass(frozen=True)
class AtomTuning:
    """When an argument is known too badly."""

    small: float = 1e-6
    """The fraction of a range by which an argument may be off, for its function to have a modulus of continuity at
    all. A round number."""


TUNING = AtomTuning()


class NoCircuit(Exception):
    """Why a function has no circuit. It ends the walk over its operations, and goes no further than `circuit_of`."""


class Atoms:
    """Inputs, then units in the order in which they are made; equal ones are made once.

    >>> atoms = Atoms(np.array([0.0]), np.array([2.0]))
    >>> double = atoms.unit(Composite.of("exp", Composite.variable()), Linear.atom(0), "exp(x)").plus(Linear.atom(0))
    >>> atoms.depth(double), len(atoms.support(double)[1].steps), float(atoms.range(double).hi.round(3))
    (1, 3, 9.389)
    """

    def __init__(self, low: Floats, high: Floats) -> None:
        self.inputs = len(low)
        self.units: list[Unit] = []
        self._uses = Counter[int]()
        self._made: dict[object, int] = {}
        self._ranges: dict[object, Interval] = {Linear.atom(k).key: Interval(low[k], high[k]) for k in range(len(low))}

    def unit(self, function: Composite, argument: Linear, text: str, range_: Interval | None = None) -> Linear:
        """function(argument); NoCircuit where that is unbounded or has no modulus of continuity."""
        if not argument.terms:
            return Linear(function.range(float(argument.constant.lo), float(argument.constant.hi)), {})
        if function == Composite.variable():
            return argument
        range_ = self.range(argument) if range_ is None else range_
        key = (function, argument.key)
        if key not in self._made:
            low, high = function.natural(float(range_.lo), float(range_.hi))
            value = function.range(low, high)
            if not (np.isfinite(value.lo) and np.isfinite(value.hi)):
                raise NoCircuit(f"{text} is not bounded")
            if function != RECTIFIER and function.modulus(low, high, TUNING.small * (high - low)) == inf:
                raise NoCircuit(f"{text} has no modulus of continuity")
            self._made[key] = self.inputs + len(self.units)
            self.units.append(Unit(function, argument, low, high, text))
            self._uses.update(argument.terms.keys())
            self.learn(Linear.atom(self._made[key]), value)
        return Linear.atom(self._made[key])

    def rectified(self, argument: Linear, text: str) -> Linear:
        """max(0, argument)."""
        range_ = self.range(argument)
        if range_.lo >= 0:
            return argument
        return Linear(ZERO, {}) if range_.hi <= 0 else self.unit(RECTIFIER, argument, text, range_)

    def range(self, linear: Linear) -> Interval:
        """The tightest range known of a form."""
        total = linear.constant
        for atom, coefficient in linear.terms.items():
            total = total + coefficient * self._ranges[Linear.atom(atom).key]
        known = self._ranges.get(linear.key)
        return total if known is None else _both(total, known)

    def learn(self, linear: Linear, range_: Interval) -> None:
        """Remember a range of a form, and of its atom if it has just one."""
        old = self._ranges.get(linear.key)
        self._ranges[linear.key] = range_ if old is None else _both(old, range_)
        if len(linear.terms) == 1 and linear.alone is None:
            ((atom, coefficient),) = linear.terms.items()
            if coefficient.lo > 0 or coefficient.hi < 0:
                self.learn(Linear.atom(atom), (range_ - linear.constant) / coefficient)

    def support(self, linear: Linear) -> tuple[Linear, Composite]:
        """The form z and the function g with linear = g(z), z as deep as possible."""
        roots = {self._root(atom).key for atom in linear.terms}
        if len(roots) > 1:
            return linear, Composite.variable()
        total = Composite.number(linear.constant)
        for atom, coefficient in linear.terms.items():
            part = self._unit_at(atom).function if self._fusible(atom) else Composite.variable()
            total = _sum(total, part.scaled(coefficient, ZERO))
        return self._root(next(iter(linear.terms))), total

    def uses(self, atom: int) -> int:
        """Units whose argument the atom is part of."""
        return self._uses[atom]

    def depth(self, linear: Linear) -> int:
        """Units in the longest chain below a form."""
        return max((self._atom_depth(atom) for atom in linear.terms), default=0)

    def _atom_depth(self, atom: int) -> int:
        return 0 if atom < self.inputs else 1 + self.depth(self._unit_at(atom).argument)

    def _root(self, atom: int) -> Linear:
        return self._unit_at(atom).argument if self._fusible(atom) else Linear.atom(atom)

    def _fusible(self, atom: int) -> bool:
        return atom >= self.inputs and not self._unit_at(atom).bends

    def _unit_at(self, atom: int) -> Unit:
        return self.units[atom - self.inputs]


def _sum(total: Composite, part: Composite) -> Composite:
    return part if total == Composite.number(ZERO) else Composite.of("+", total, part)


def _both(a: Interval, b: Interval) -> Interval:
    """What two true ranges have in common."""
    return Interval(np.maximum(a.lo, b.lo), np.minimum(a.hi, b.hi))
