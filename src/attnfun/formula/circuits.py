"""A formula as affine maps and functions of one variable: the form in which attention computes it [T 7.2].

A circuit has atoms: the variables first, then units `φ_k(z_k)`, each a function of one variable at an affine form of
earlier atoms. Outputs are affine forms of the atoms. Products are no atoms: they are made of squares, logarithms and
exponentials (`lowering.py`). Coefficients are intervals that hold the real numbers meant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np

from ..arithmetic import Interval, directed, join
from ..arithmetic.directed import dot_up, rounded_up
from ..arithmetic.forms import Forms, Frame
from .composites import Composite, Identity
from .maxima import Likeness
from .program import Floats

ZERO, ONE = Interval(0.0), Interval(1.0)
RECTIFIER = Composite.of("max", Composite.variable(), Composite.number(ZERO))
"""max(u, 0): the one unit that is not smooth."""


@dataclass(frozen=True)
class CircuitErrorTuning:
    """How the errors of units are allotted."""

    proved: float = 12.0
    """Proved errors near the limits of the arithmetic are so many times the errors aimed at. By trial."""
    largest: float = 1e150
    """Arguments that may be off by more than this say nothing. A round number: squares of larger ones overflow."""
    closest: float = 1e-15
    """Arguments are never required to be closer than this fraction of their range. A round number: about five units
    in the last place."""


TUNING = CircuitErrorTuning()


@dataclass(frozen=True, eq=False)
class Linear:
    """An affine form of atoms, `constant + Σ terms[k] · atom_k`."""

    constant: Interval
    terms: dict[int, Interval]
    names: dict[int, object] = field(default_factory=dict, repr=False)
    """Which number each coefficient is (`Identity`), where that is known already: long sums share theirs."""

    @classmethod
    def atom(cls, number: int) -> Linear:
        """An atom itself."""
        return cls(ZERO, {number: ONE})

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal only for forms that are surely equal."""
        for atom in self.terms.keys() - self.names.keys():
            self.names[atom] = Identity.of(self.terms[atom])
        return Identity.of(self.constant), *((atom, self.names[atom]) for atom in sorted(self.terms))

    @property
    def alone(self) -> int | None:
        """The number of the atom if the form is just that atom."""
        if len(self.terms) != 1 or self.constant.lo != 0 or self.constant.hi != 0:
            return None
        ((atom, coefficient),) = self.terms.items()
        return atom if coefficient.lo == 1 == coefficient.hi else None

    def plus(self, other: Linear, factor: Interval = ONE) -> Linear:
        """self + factor · other."""
        terms, names = dict(self.terms), dict(self.names)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, ZERO) + factor * coefficient
            terms[atom] = total
            names.pop(atom, None)
            if total.lo == 0 == total.hi:
                del terms[atom]
        return Linear(self.constant + factor * other.constant, terms, names)

    def scaled(self, factor: Interval) -> Linear:
        """factor · self."""
        return Linear(ZERO, {}).plus(self, factor)


@dataclass(frozen=True, eq=False)
class Unit:
    """`function(argument)`; in exact arithmetic, the argument stays within [low, high] on the whole domain."""

    function: Composite
    argument: Linear
    low: float
    high: float
    text: str = ""
    """The part of the formula it comes from."""

    @property
    def bends(self) -> bool:
        """Is it the rectifier?"""
        return self.function == RECTIFIER

    def clips(self, off: float) -> tuple[float, float]:
        """Where an argument that is off by so much must be clipped, for the function to be defined; inf: nowhere."""
        inner, reach = self.function.inside(self.low, self.high), self._reach(off)
        below, above = self.function.range(reach[0], inner[1]), self.function.range(inner[0], reach[1])
        return (-inf if _sound(below) else inner[0]), (inf if _sound(above) else inner[1])

    def _reach(self, off: float) -> tuple[float, float]:
        """The ends of the range, moved outwards by `off`."""
        return float(directed.add_down(self.low, -off)), float(directed.add_up(self.high, off))

    def modulus(self, off: float) -> float:
        """How far values can be apart when an argument is off by so much, clipped where it must be.

        Clipping to where the function is surely defined moves an argument by the width of the doubtful edge too.
        """
        if self.bends:
            return off
        if not off < TUNING.largest:
            return inf
        clips, inner = self.clips(off), self.function.inside(self.low, self.high)
        edge = max(directed.add_up(inner[0], -self.low), directed.add_up(self.high, -inner[1]))
        reach = self._reach(off)
        low = reach[0] if clips[0] == -inf else self.low
        high = reach[1] if clips[1] == inf else self.high
        return self.function.modulus(low, high, float(directed.add_up(off, edge)))


@dataclass(frozen=True, eq=False)
class Budget:
    """How far off units may be, so that all of them together move no output by more than a tolerance."""

    reach: Floats  # (K,), how much an error of each unit moves the worst output
    shares: Floats  # (K,), each unit's own error
    off: Floats  # (K,), the error of its argument
    least: float
    """The error of an output that is left, were every unit as precise as the arithmetic lets it be proved."""


@dataclass(frozen=True, eq=False)
class Circuit:
    """Units in order, and the outputs."""

    low: Floats  # (D,), ranges of the variables
    high: Floats  # (D,)
    units: tuple[Unit, ...]
    outputs: tuple[Linear, ...]
    defined: bool
    """Was the formula proved to be defined on the whole domain?"""
    parts: tuple[tuple[str, Linear], ...] = ()
    """Operations of the formula that are forms of the atoms, by their text; others are inside a unit."""

    @property
    def inputs(self) -> int:
        """Number of variables, D."""
        return len(self.low)

    @property
    def alone(self) -> bool:
        """Is it one smooth function of one affine form?"""
        return len(self.units) == 1 and not self.units[0].bends

    @property
    def frame(self) -> Frame:
        """Ranges of all atoms."""
        return self._frame

    @cached_property
    def _frame(self) -> Frame:
        ranges = [unit.function.range(unit.low, unit.high) for unit in self.units]
        low, high = (np.array([float(getattr(range_, end)) for range_ in ranges]) for end in ("lo", "hi"))
        return Frame.of(np.concatenate([self.low, low]), np.concatenate([self.high, high]))

    @cached_property
    def arguments(self) -> Forms:
        """The arguments of all units, (K,)."""
        return self._forms([unit.argument for unit in self.units])

    @cached_property
    def results(self) -> Forms:
        """The outputs, (m,)."""
        return self._forms(list(self.outputs))

    @cached_property
    def slopes(self) -> list[float]:
        """Bounds on the units' slopes over the ranges of their arguments; inf at the edge of a natural domain."""
        return [1.0 if unit.bends else unit.function.steepness(unit.low, unit.high) for unit in self.units]

    @cached_property
    def depth(self) -> list[int]:
        """Units that come before each unit and must be done first, itself included, in the longest chain."""
        depth = [0] * self.inputs
        for unit in self.units:
            depth.append(1 + max((depth[atom] for atom in unit.argument.terms), default=0))
        return depth[self.inputs :]

    def like(self, forms: Forms) -> Likeness | None:
        """max(0, form) as a form of the atoms, for `forms` (2,) of which the first is zero; None without rectifiers."""
        bends = [k for k, unit in enumerate(self.units) if unit.bends]
        if len(forms.slack) != 2 or not bends:
            return None
        apart = [float((forms[1] - self.arguments[k]).size) for k in bends]
        nearest = int(np.argmin(apart))
        atom = np.eye(1, len(self.frame.lo), 1 + self.inputs + bends[nearest])[0]
        return Likeness(Forms.exact(atom, self.frame), apart[nearest])

    def budget(self, aim: float, floor: float = 0.0) -> Budget:
        """Equal shares of a tolerance for all units, backwards through the slopes.

        No unit but a rectifier, which may be of any sharpness, has a share below `floor` times its largest value.

        An error ε of unit k moves an output by at most S_k ε, S_k the sum over the paths to it of the products of
        slopes and coefficients. At a unit of unbounded slope whose values may be off by δ, the argument may be off by
        the e at which the modulus of continuity is δ/4, and errors of the argument count `δ/e` fold.
        """
        reach = np.zeros((len(self.outputs), self.inputs + len(self.units)))  # (m, atoms), the S
        off, least = np.zeros(len(self.units)), floor * self.frame.sizes
        least[1 + self.inputs :] *= [not unit.bends for unit in self.units]
        for row, output in zip(reach, self.outputs, strict=True):
            for atom, coefficient in output.terms.items():
                row[atom] += float(coefficient.magnitude)
        for number in reversed(range(len(self.units))):
            unit, column, slope = self.units[number], reach[:, self.inputs + number], self.slopes[number]
            allowed = aim / max(float(column.max()), 1e-300)
            slope = slope if slope < inf else allowed / _distance(unit, allowed / 4)
            terms = unit.argument.terms.items()
            unavoidable = sum(float(coefficient.magnitude) * least[1 + atom] for atom, coefficient in terms)
            off[number] = max(allowed / max(slope, 1e-300), TUNING.proved * unavoidable)
            for atom, coefficient in terms:
                reach[:, atom] += column * slope * float(coefficient.magnitude)
        largest = np.maximum(reach[:, self.inputs :].max(axis=0, initial=0.0), 1e-300)
        shares = np.maximum(aim / (len(self.units) * largest), least[1 + self.inputs :])
        return Budget(largest, shares, off, self._left(least))

    def modulus(self, distances: Floats) -> Floats:
        """How far outputs can be apart when the variables are: (P, D) -> (P, m).

        Units of unbounded slope have a modulus of their own; otherwise slopes count with their signs.
        """
        if np.isfinite(self.quotients.magnitude).all():
            return dot_up(distances, self.quotients.magnitude.T)
        nothing = np.zeros(len(self.units))
        return np.array([self._forwards(np.concatenate([row, nothing])) for row in distances])

    @cached_property
    def quotients(self) -> Interval:
        """Intervals Q (m, D) such that `f(s) - f(t) = Σ_k q_k (s_k - t_k)` with some q_k in Q_k, for all s and t.

        Atom by atom: the argument of a unit is a form of atoms for which this holds, and the difference quotient of the
        unit's function over its argument is one of `Composite.quotients`; for a rectifier it is in [0, 1].
        """
        rows = [Interval(row) for row in np.eye(self.inputs)]  # (D,) for each atom
        for unit in self.units:
            slope = Interval(0.0, 1.0) if unit.bends else unit.function.quotients(unit.low, unit.high)
            rows.append(self._passed_on(unit.argument, rows) * slope)
        outputs = [self._passed_on(output, rows) for output in self.outputs]
        return join(outputs, function=np.stack)

    def _passed_on(self, form: Linear, rows: list[Interval]) -> Interval:
        """The same for a form of atoms, (D,)."""
        start = Interval(np.zeros(self.inputs))
        return sum((rows[atom] * coefficient for atom, coefficient in form.terms.items()), start)

    def _left(self, least: Floats) -> float:
        """The largest error of an output if units have about the errors `proved * least` (1+P,), pushed forwards."""
        own = TUNING.proved * least[1:]
        own[: self.inputs] = 0.0
        return max(self._forwards(own))

    def _forwards(self, own: Floats) -> list[float]:
        """How far outputs are off if atoms (D+K,) are off by so much beside what earlier atoms pass on."""
        errors = own.copy()

        def carried(form: Linear) -> float:
            sizes = np.array([float(coefficient.magnitude) for coefficient in form.terms.values()])
            return float(dot_up(sizes, errors[list(form.terms)]))

        for number, unit in enumerate(self.units, start=self.inputs):
            errors[number] = rounded_up(errors[number] + unit.modulus(carried(unit.argument)), 1)
        return [carried(output) for output in self.outputs]

    def _forms(self, linears: list[Linear]) -> Forms:
        """On the frame; what is not exact about a coefficient goes to the slack."""
        coefficients = np.zeros((len(linears), 1 + self.inputs + len(self.units)))
        radii = np.zeros_like(coefficients)
        for row, linear in enumerate(linears):
            entries = [(0, linear.constant), *((1 + atom, c) for atom, c in linear.terms.items())]
            for place, coefficient in entries:
                coefficients[row, place], radii[row, place] = coefficient.mid, coefficient.radius
        return Forms(coefficients, dot_up(radii, self.frame.sizes), self.frame)


def _sound(range_: Interval) -> bool:
    return bool(range_.defined & np.isfinite(range_.lo) & np.isfinite(range_.hi))


def _distance(unit: Unit, rise: float) -> float:
    """About the largest distance of arguments over which the unit's values differ by at most `rise`."""
    distance = unit.high - unit.low
    while (
        distance > TUNING.closest * (unit.high - unit.low)
        and unit.function.modulus(unit.low, unit.high, distance) > rise
    ):
        distance /= 2
    return distance
