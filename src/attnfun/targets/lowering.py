"""From a program to a circuit: which functions of one variable, of which affine forms.

**Fusion.** Whatever depends on one affine form alone is one function of it: `z/(exp(z) - 1)` is one unit.

**Products.** Factors that do not change sign may go through logarithms, `Π u_i^{k_i} = exp(Σ k_i log u_i)`: one unit a
factor and one for exp, which a function around the product swallows. Other products are quarter squares of centred and
scaled factors: with `u = u_0 + r a`, `v = v_0 + s b`, |a|, |b| <= 1, r and s powers of two,

    u v = u_0 v + v_0 u - u_0 v_0 + (r s/4) ((a + b)² - (a - b)²),

two units that are the square on [-2, 2] in every product of every formula, so they share one bank. The form with fewer
units is taken.

**Kinks.** `abs`, `min` and `max` are affine in rectifiers, which do not fuse with what is around them.

**Ranges.** Every operation of the formula is enclosed on a cover of the domain by boxes, which are cut further where an
operation is not defined or unbounded; so the argument of a unit has the range of the operation it comes from, not that
of its terms added up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np

from ..errors import InputError
from ..interval import Interval
from .base import BOUNDED, Unanswerable, describe
from .circuits import ONE, RECTIFIER, ZERO, Circuit, Linear, Unit
from .composites import Composite, Step
from .cover import Cover
from .expression import Expression, enclosed_constant
from .operations import TRUTHS
from .parser import Node

EXP, LOG, SQUARE = (
    Composite.of("exp", Composite.variable()),
    Composite.of("log", Composite.variable()),
    Composite.of("*", Composite.variable(), Composite.variable()),
)
SMALL = 1e-6
"""The fraction of a range by which an argument may be off, for its function to have a modulus of continuity at all."""
JUMPS = frozenset({"where", "sign"})
"""Operations that need not be continuous."""
WIDE = 1e6
"""Factors that vary by more than this do not go through logarithms."""


def circuit_of(formula: Expression) -> Circuit:
    """The circuit of a formula, or Unanswerable for operations that jump; InputError where it is not defined."""
    if any(node.kind in TRUTHS or node.kind in JUMPS for node in formula.program.nodes):
        raise Unanswerable
    return _Lowering(formula).circuit()


@dataclass
class Factor:
    """A base and its exponent in a product."""

    base: Linear
    exponent: Interval
    range: Interval
    """Of the base."""

    @property
    def sign(self) -> int:
        """1 or -1 where the base has one sign, else 0."""
        return int(self.range.lo > 0) - int(self.range.hi < 0)

    @property
    def whole(self) -> bool:
        """Is the exponent a whole number?"""
        return bool(self.exponent.lo == self.exponent.hi == np.round(self.exponent.lo))


@dataclass
class _Chain:
    """A product: coefficient and factors."""

    coefficient: Interval
    factors: list[Factor] = field(default_factory=list)


class _Lowering:
    """Numbers the atoms while it walks through a program."""

    def __init__(self, formula: Expression) -> None:
        self.formula, self.program = formula, formula.program
        self.cover = Cover.of(formula)
        low, high = formula.domain.lo.ravel(), formula.domain.hi.ravel()
        self.units: list[Unit] = []
        self.known: dict[object, int] = {}
        self.ranges: dict[object, Interval] = {Linear.atom(k).key: Interval(low[k], high[k]) for k in range(len(low))}
        self.inputs = len(low)
        self.values: list[Linear] = []
        self.users = self._users()

    def circuit(self) -> Circuit:
        """All operations in order, then only the units that are needed."""
        for number, node in enumerate(self.program.nodes):
            self.values.append(self._value(number, node))
            self._learn(self.values[-1], self.cover.range(number))
        low, high = self.formula.domain.lo.ravel(), self.formula.domain.hi.ravel()
        outputs = [self.values[k] for k in self.program.outputs]
        return _pruned(Circuit(low, high, tuple(self.units), tuple(outputs), self.cover.defined))

    # ------------------------------------------------------------ operations

    def _value(self, number: int, node: Node) -> Linear:
        args = [self.values[k] for k in node.args]
        match node.kind:
            case "constant":
                return Linear(enclosed_constant(node), {})
            case "variable":
                return Linear.atom(int(node.value))
            case "+":
                return args[0].plus(args[1])
            case "-":
                return args[0].plus(args[1], -ONE)
            case "neg":
                return args[0].scaled(-ONE)
            case "abs":
                return args[0].plus(self._rectified(args[0].scaled(-ONE), number), Interval(2.0))
            case "max":
                return args[0].plus(self._rectified(args[1].plus(args[0], -ONE), number))
            case "min":
                return args[0].plus(self._rectified(args[0].plus(args[1], -ONE), number), -ONE)
            case "*" | "/" | "**" | "sqrt":
                return self._fused(number, node, args) or self._product(number, node)
            case "log" | "ln":
                return self._fused(number, node, args) or self._logarithm(number, node)
            case _:
                return self._fused(number, node, args) or self._unit(
                    Composite.of(node.kind, Composite.variable()), args[0], number
                )

    def _fused(self, number: int, node: Node, args: list[Linear]) -> Linear | None:
        """One unit, if all operands depend on one form alone; a constant, if there is nothing they depend on."""
        supports = [self._support(arg) for arg in args if arg.terms]
        if not supports:
            return Linear(self.cover.range(number), {})
        form = supports[0][0]
        if any(other.key != form.key for other, _ in supports[1:]):
            return None
        if node.kind in ("*", "/") and not args[1].terms:  # only a scaling
            return None
        if node.kind == "*" and not args[0].terms:
            return None
        functions = iter(function for _, function in supports)
        parts = [next(functions) if arg.terms else Composite.number(arg.constant) for arg in args]
        return self._unit(Composite.of(node.kind, *parts), form, number)

    def _support(self, linear: Linear) -> tuple[Linear, Composite]:
        """The form z and the function g with linear = g(z), z as deep as possible."""
        roots = {self._root(atom).key for atom in linear.terms}
        if len(roots) > 1:
            return linear, Composite.variable()
        total = Composite.number(linear.constant)
        for atom, coefficient in linear.terms.items():
            part = self._unit_at(atom).function if self._fusible(atom) else Composite.variable()
            total = _sum(total, part.scaled(coefficient, ZERO))
        return self._root(next(iter(linear.terms))), total

    def _root(self, atom: int) -> Linear:
        return self._unit_at(atom).argument if self._fusible(atom) else Linear.atom(atom)

    def _fusible(self, atom: int) -> bool:
        return atom >= self.inputs and not self._unit_at(atom).bends

    def _unit_at(self, atom: int) -> Unit:
        return self.units[atom - self.inputs]

    def _rectified(self, argument: Linear, number: int) -> Linear:
        """max(0, argument)."""
        range_ = self._range(argument)
        if range_.lo >= 0:
            return argument
        return Linear(ZERO, {}) if range_.hi <= 0 else self._unit(RECTIFIER, argument, number, range_)

    # ------------------------------------------------------------ products

    def _logarithm(self, number: int, node: Node) -> Linear:
        """The logarithm of a product is a sum, if its factors are positive."""
        chain = self._chain(node.args[0])
        if len(chain.factors) < 2 or chain.coefficient.lo <= 0 or any(f.sign <= 0 for f in chain.factors):
            return self._unit(LOG, self.values[node.args[0]], number)
        total = Linear(_logarithm(chain.coefficient), {})
        for factor in chain.factors:
            total = total.plus(self._log(factor.base, number), factor.exponent)
        return total

    def _log(self, base: Linear, number: int) -> Linear:
        """log of a positive base, of a negative one's opposite."""
        if self._range(base).hi < 0:
            base = base.scaled(-ONE)
        form, function = self._support(base)
        if function.steps[-1] == Step("exp", (len(function.steps) - 2,)):
            inner = Composite(function.steps[:-1])
            return form if inner == Composite.variable() else self._unit(inner, form, number)
        return self._unit(LOG.after(function), form, number)

    def _product(self, number: int, node: Node) -> Linear:
        """A product by the cheaper of logarithms and quarter squares."""
        if node.kind == "**" and self.values[node.args[1]].terms:
            return self._power(number, node)
        chain = self._chain(number)
        signed = [factor for factor in chain.factors if factor.sign]
        others = [factor for factor in chain.factors if not factor.sign]
        direct = sum(self._needs_unit(factor) for factor in signed) + 2 * (len(signed) - 1)
        through_logs = sum(not self._is_exponential(factor) for factor in signed) + 1
        through_logs -= not others and self._swallowed(number)
        narrow = all(_ratio(factor.range) < WIDE for factor in signed)
        if len(signed) > 1 and narrow and through_logs < direct:
            signed = [self._through_logs(number, signed, chain, alone=not others)]
        parts = [self._raised(factor, number) for factor in [*signed, *others]]
        result = self._multiplied(parts, number)
        return result.scaled(chain.coefficient)

    def _through_logs(self, number: int, signed: list[Factor], chain: _Chain, alone: bool) -> Factor:
        """One positive factor instead of many; signs go to the coefficient."""
        total = Linear(ZERO, {})
        for factor in signed:
            total = total.plus(self._log(factor.base, number), factor.exponent)
            if factor.sign < 0 and int(factor.exponent.lo) % 2:
                chain.coefficient = -chain.coefficient
        if alone:
            size = abs(self.cover.range(number) / chain.coefficient)
            if size.lo > 0 and np.isfinite(size.hi):
                self._learn(total, _logarithm(size))
        product = self._unit(EXP, total, number)
        return Factor(product, ONE, self._range(product))

    def _power(self, number: int, node: Node) -> Linear:
        """u ** v = exp(v log u) for u > 0."""
        base, exponent = (self.values[k] for k in node.args)
        if not base.terms:
            return self._unit(EXP, exponent.scaled(_logarithm(base.constant)), number)
        if self._range(base).lo <= 0:
            raise self._refusal(number, "a power with a varying exponent needs a positive base")
        return self._unit(EXP, self._multiplied([self._log(base, number), exponent], number), number)

    def _chain(self, number: int) -> _Chain:
        """The factors of an operation, with equal bases put together."""
        chain = _Chain(ONE)
        self._collect(number, ONE, chain)
        merged: dict[object, Factor] = {}
        for factor in chain.factors:
            if factor.base.key in merged:
                factor.exponent = merged[factor.base.key].exponent + factor.exponent
            merged[factor.base.key] = factor
        chain.factors = [factor for factor in merged.values() if not (factor.exponent.lo == 0 == factor.exponent.hi)]
        return chain

    def _collect(self, number: int, exponent: Interval, chain: _Chain) -> None:
        """Add the factors of `operation ** exponent`."""
        node = self.program.nodes[number]
        whole = bool(exponent.lo == exponent.hi == np.round(exponent.lo))
        value = self.values[number] if number < len(self.values) else None
        if value is not None and not value.terms:
            chain.coefficient = chain.coefficient * value.constant**exponent
        elif node.kind in ("*", "/") and (whole or self._all_positive(number)):
            self._collect(node.args[0], exponent, chain)
            self._collect(node.args[1], exponent if node.kind == "*" else -exponent, chain)
        elif node.kind == "neg" and whole:
            chain.coefficient = chain.coefficient * Interval(-1.0) ** exponent
            self._collect(node.args[0], exponent, chain)
        elif node.kind in ("**", "sqrt") and (power := self._exponent(node)) is not None:
            integral = bool(power.lo == power.hi == np.round(power.lo))
            if (integral and whole) or self._all_positive(node.args[0]):
                self._collect(node.args[0], exponent * power, chain)
            else:
                chain.factors.append(self._factor(number, exponent))
        else:
            chain.factors.append(self._factor(number, exponent))

    def _factor(self, number: int, exponent: Interval) -> Factor:
        if number < len(self.values):
            return Factor(self.values[number], exponent, self.cover.range(number))
        node = self.program.nodes[number]  # a root or power that cannot be distributed, at the head of the chain
        return Factor(
            self.values[node.args[0]], exponent * (self._exponent(node) or ONE), self.cover.range(node.args[0])
        )

    def _exponent(self, node: Node) -> Interval | None:
        """The constant exponent of a power or root."""
        if node.kind == "sqrt":
            return Interval(0.5)
        exponent = self.values[node.args[1]]
        return None if exponent.terms else exponent.constant

    def _all_positive(self, number: int) -> bool:
        """Are all factors of the operation positive?"""
        node = self.program.nodes[number]
        if node.kind in ("*", "/"):
            return all(self._all_positive(k) for k in node.args)
        return bool(self.cover.range(number).lo > 0)

    def _needs_unit(self, factor: Factor) -> bool:
        return not (factor.exponent.lo == 1 == factor.exponent.hi) or len(self._support(factor.base)[1].steps) > 1

    def _is_exponential(self, factor: Factor) -> bool:
        return self._support(factor.base)[1] == EXP

    def _swallowed(self, number: int) -> bool:
        """Is the result used by functions of one variable only?"""
        users = self.users[number]
        return bool(users) and all(len(node.args) == 1 and node.kind != "neg" for node in users)

    def _users(self) -> list[list[Node]]:
        users: list[list[Node]] = [[] for _ in self.program.nodes]
        for node in self.program.nodes:
            for k in set(node.args):
                users[k].append(node)
        return users

    def _raised(self, factor: Factor, number: int) -> Linear:
        """base ** exponent."""
        if factor.exponent.lo == 1 == factor.exponent.hi:
            return factor.base
        form, function = self._support(factor.base)
        return self._unit(_power(function, factor.exponent), form, number)

    def _multiplied(self, parts: list[Linear], number: int) -> Linear:
        """A product, pairs of the shallowest first."""
        if not parts:
            return Linear(ONE, {})
        parts = sorted(parts, key=self._depth)
        while len(parts) > 1:
            parts = sorted([self._quarter_squares(parts[0], parts[1], number), *parts[2:]], key=self._depth)
        return parts[0]

    def _quarter_squares(self, u: Linear, v: Linear, number: int) -> Linear:
        """u v by two squares on [-2, 2]."""
        (form, f), (other, g) = self._support(u), self._support(v)
        if form.key == other.key:
            return self._unit(Composite.of("*", f, g), form, number)
        (a, u0, r), (b, v0, s) = self._unit_range(u), self._unit_range(v)
        product = u.scaled(v0).plus(v, u0).plus(Linear(u0 * v0, {}), -ONE)
        for sign in (ONE, -ONE):
            total = a.plus(b, sign)
            self._learn(total, Interval(-2.0, 2.0))
            square = self._unit(SQUARE, total, number, Interval(-2.0, 2.0))
            product = product.plus(square, sign * r * s * Interval(0.25))
        self._learn(product, self._range(u) * self._range(v))
        return product

    def _unit_range(self, linear: Linear) -> tuple[Linear, Interval, Interval]:
        """(u - u_0)/r within [-1, 1], u_0, r, the latter a power of two."""
        range_ = self._range(linear)
        middle = Interval(float(range_.mid))
        radius = float((range_ - middle).magnitude)
        power = int(np.frexp(max(radius, 1e-300))[1])  # radius < 2**power
        return linear.plus(Linear(middle, {}), -ONE).scaled(Interval(2.0**-power)), middle, Interval(2.0**power)

    # ------------------------------------------------------------ units and ranges

    def _unit(self, function: Composite, argument: Linear, number: int, range_: Interval | None = None) -> Linear:
        """The value of a unit, made if it is new."""
        if not argument.terms:
            return Linear(function.range(float(argument.constant.lo), float(argument.constant.hi)), {})
        if function == Composite.variable():
            return argument
        range_ = self._range(argument) if range_ is None else range_
        key = (function, argument.key)
        if key not in self.known:
            low, high = function.natural(float(range_.lo), float(range_.hi))
            value = function.range(low, high)
            if not (np.isfinite(value.lo) and np.isfinite(value.hi)):
                raise self._refusal(number, f"the argument of one of its functions ranges over [{low:g}, {high:g}]")
            if function != RECTIFIER and function.modulus(low, high, SMALL * (high - low)) == inf:
                raise Unanswerable
            self.known[key] = self.inputs + len(self.units)
            self.units.append(Unit(function, argument, low, high, self.program.text(self.program.nodes[number])))
            self._learn(Linear.atom(self.known[key]), value)
        return Linear.atom(self.known[key])

    def _range(self, linear: Linear) -> Interval:
        """The tightest range known of a form."""
        total = linear.constant
        for atom, coefficient in linear.terms.items():
            total = total + coefficient * self.ranges[Linear.atom(atom).key]
        known = self.ranges.get(linear.key)
        return total if known is None else _both(total, known)

    def _learn(self, linear: Linear, range_: Interval) -> None:
        """Remember a range of a form, and of its atom if it has just one."""
        old = self.ranges.get(linear.key)
        self.ranges[linear.key] = range_ if old is None else _both(old, range_)
        if len(linear.terms) == 1 and linear.alone is None:
            ((atom, coefficient),) = linear.terms.items()
            if coefficient.lo > 0 or coefficient.hi < 0:
                self._learn(Linear.atom(atom), (range_ - linear.constant) / coefficient)

    def _depth(self, linear: Linear) -> int:
        return max((self._atom_depth(atom) for atom in linear.terms), default=0)

    def _atom_depth(self, atom: int) -> int:
        return 0 if atom < self.inputs else 1 + self._depth(self._unit_at(atom).argument)

    def _refusal(self, number: int, reason: str) -> InputError:
        node = self.program.nodes[number]
        return InputError(
            f"the part {self.program.text(node)!r} of the formula must be bounded on the domain, but {reason}",
            got=describe(self.cover.whole, self.formula.domain),
            remedy=BOUNDED,
        )


def _power(function: Composite, exponent: Interval) -> Composite:
    """function ** exponent, squares as products."""
    if exponent.lo == 2 == exponent.hi:
        return Composite.of("*", function, function)
    if exponent.lo == -1 == exponent.hi:
        return Composite.of("/", Composite.number(ONE), function)
    return Composite.of("**", function, Composite.number(exponent))


def _sum(total: Composite, part: Composite) -> Composite:
    return part if total == Composite.number(ZERO) else Composite.of("+", total, part)


def _logarithm(range_: Interval) -> Interval:
    return np.log(range_)  # type: ignore[call-overload, return-value]


def _both(a: Interval, b: Interval) -> Interval:
    """What two true ranges have in common."""
    return Interval(np.maximum(a.lo, b.lo), np.minimum(a.hi, b.hi))


def _ratio(range_: Interval) -> float:
    ends = np.abs([range_.lo, range_.hi])
    return float(ends.max() / ends.min()) if ends.min() > 0 else inf


def _pruned(circuit: Circuit) -> Circuit:
    """Without units that no output depends on."""
    needed, stack = set[int](), [atom for output in circuit.outputs for atom in output.terms]
    while stack:
        atom = stack.pop()
        if atom >= circuit.inputs and atom not in needed:
            needed.add(atom)
            stack += circuit.units[atom - circuit.inputs].argument.terms
    order = {atom: circuit.inputs + place for place, atom in enumerate(sorted(needed))}
    order |= {k: k for k in range(circuit.inputs)}
    units = [circuit.units[atom - circuit.inputs] for atom in sorted(needed)]
    return Circuit(
        circuit.low,
        circuit.high,
        tuple(Unit(u.function, _renamed(u.argument, order), u.low, u.high, u.text) for u in units),
        tuple(_renamed(output, order) for output in circuit.outputs),
        circuit.defined,
    )


def _renamed(linear: Linear, order: dict[int, int]) -> Linear:
    return Linear(linear.constant, {order[atom]: coefficient for atom, coefficient in linear.terms.items()})
