"""From a program to a circuit: which functions of one variable, of which affine forms.

**Fusion.** Whatever depends on one affine form alone is one function of it: `z/(exp(z) - 1)` is one unit.

**Products** go through logarithms or quarter squares (`products.py`); the form with fewer units is taken.

**Squares.** Quadratic polynomials are affine in one square for each form that they depend on (`quadratics.py`).

Powers, roots and quotients of a product that spans many orders of magnitude are products of those of its factors.

**Kinks.** `abs`, `min` and `max` are affine in rectifiers, which do not fuse with what is around them.

**Ranges.** Every operation of the formula is enclosed on a cover of the domain by boxes, which are cut further where an
operation is not defined or unbounded; so the argument of a unit has the range of the operation it comes from, not that
of its terms added up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..arithmetic import Interval
from ..resources.deadline import NEVER, Deadline
from .atoms import Atoms, NoCircuit
from .circuits import ONE, ZERO, Circuit, Linear, Unit
from .composites import Composite
from .cover import OperationRanges
from .functions import TABLE
from .products import EXP, LOG, TUNING, Factor, Products, is_number, is_whole, logarithm
from .program import Floats, Program, ProgramBuilder, ProgramNode, enclosed_constant
from .quadratics import with_one_square


def circuit_of(program: Program, low: Floats, high: Floats, deadline: Deadline = NEVER) -> Circuit | None:
    """The circuit of a formula on the box [low, high]; None if it jumps, is not defined or not bounded."""
    try:
        return _lowered(program, low, high, deadline)
    except NoCircuit:
        return None


def _lowered(program: Program, low: Floats, high: Floats, deadline: Deadline) -> Circuit:
    """The circuit, or NoCircuit."""
    if any(node.kind in ON_RANGES for node in program.nodes):
        program = _on_ranges(program, _covered(program, low, high, deadline))
    if program.may_jump:
        raise NoCircuit(f"{program.source} may jump")
    return _ProgramLowering(program, low, high, deadline).circuit()


def _covered(program: Program, low: Floats, high: Floats, deadline: Deadline) -> OperationRanges:
    """Ranges of all operations, or NoCircuit."""
    cover = OperationRanges.of(program, low, high, deadline)
    if cover is None:
        raise NoCircuit(f"{program.source} is not bounded")
    return cover


ON_RANGES = {function.name: function.on_ranges for function in TABLE if function.on_ranges}
"""Functions for which other operations stand, chosen by the ranges of their arguments."""


def _on_ranges(program: Program, cover: OperationRanges) -> Program:
    """The same function with other operations for those in ON_RANGES; NoCircuit where there are none."""
    builder, numbers = ProgramBuilder(), list[int]()
    for node in program.nodes:
        args = tuple(numbers[k] for k in node.args)
        if node.kind in ON_RANGES:
            text = ON_RANGES[node.kind](*(cover.range(k) for k in node.args))
            if text is None:
                raise NoCircuit(f"{program.text(node)} may jump")
            numbers.append(builder.substitute(text, args, node.place))
        else:
            written = None if node.exact else program.text(node)
            numbers.append(builder.add(ProgramNode(node.kind, args, node.value, node.exact, node.place), written))
    return builder.program(program.source, [numbers[k] for k in program.outputs], program.is_vector)


@dataclass
class _Chain:
    """A product: coefficient and factors."""

    coefficient: Interval
    factors: list[Factor] = field(default_factory=list)

    def merged(self) -> _Chain:
        """Equal bases put together."""
        merged: dict[object, Factor] = {}
        for factor in self.factors:
            if factor.base.key in merged:
                factor.exponent = merged[factor.base.key].exponent + factor.exponent
            merged[factor.base.key] = factor
        return _Chain(self.coefficient, [f for f in merged.values() if not is_number(f.exponent, 0.0)])


class _ProgramLowering:
    """Makes the atoms while it walks through a program."""

    def __init__(self, program: Program, low: Floats, high: Floats, deadline: Deadline) -> None:
        self.program, self.cover, self.deadline = program, _covered(program, low, high, deadline), deadline
        self.low, self.high = low, high
        self.atoms = Atoms(self.low, self.high)
        self.products = Products(self.atoms)
        self.values: list[Linear] = []
        self.users = self._users()

    def circuit(self) -> Circuit:
        """All operations in order, then only the units that are needed."""
        for number, node in enumerate(self.program.nodes):
            self.deadline.check("taking the formula apart")
            self.values.append(self._value(number, node))
            self.atoms.learn(self.values[-1], self.cover.range(number))
        outputs = [self._gathered(self.values[k]) for k in self.program.outputs]
        units, defined = tuple(self.atoms.units), self.cover.defined
        whole = Circuit(self.low, self.high, units, tuple(outputs), defined, tuple(self._parts().items()))
        return with_one_square(pruned(whole))

    def _parts(self) -> dict[str, Linear]:
        """Operations by their text, where the text stands for one form only: traced functions have none."""
        forms: dict[str, dict[object, Linear]] = {}
        for node, value in zip(self.program.nodes, self.values, strict=True):
            forms.setdefault(self.program.text(node), {})[value.key] = value
        return {text: next(iter(own.values())) for text, own in forms.items() if text and len(own) == 1}

    def _gathered(self, output: Linear) -> Linear:
        """Units of an output that are functions of one form become one, unless they are of use elsewhere."""
        forms: dict[object, Linear] = {}
        for atom, coefficient in output.terms.items():
            form, _ = self.atoms.support(Linear.atom(atom))
            term = Linear(ZERO, {atom: coefficient})
            key = form.key if self.atoms.uses(atom) == 0 else atom
            forms[key] = forms[key].plus(term) if key in forms else term
        total = Linear(output.constant, {})
        for part in forms.values():
            form, function = self.atoms.support(part)
            many = len(part.terms) > 1 and len(self.program.outputs) == 1
            total = total.plus(self.atoms.unit(function, form, self.program.source) if many else part)
        return total

    # ------------------------------------------------------------ operations

    def _value(self, number: int, node: ProgramNode) -> Linear:
        args, text = [self.values[k] for k in node.args], self.program.text(node)
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
                return args[0].plus(self.atoms.rectified(args[0].scaled(-ONE), text), Interval(2.0))
            case "max":
                return args[0].plus(self.atoms.rectified(args[1].plus(args[0], -ONE), text))
            case "min":
                return args[0].plus(self.atoms.rectified(args[0].plus(args[1], -ONE), text), -ONE)
            case "/" | "**" | "sqrt" if self._of_wide_product(number, node):
                return self._product(number, node, text)
            case "*" | "/" | "**" | "sqrt":
                return self._fused(number, node, args, text) or self._product(number, node, text)
            case "log":
                return self._fused(number, node, args, text) or self._logarithm(node, text)
            case _:
                return self._fused(number, node, args, text) or self.atoms.unit(
                    Composite.of(node.kind, Composite.variable()), args[0], text
                )

    def _of_wide_product(self, number: int, node: ProgramNode) -> bool:
        """Is it a quotient, power or root of a product that spans many orders of magnitude?

        Its factors are raised one by one then: `1/(u v)` as `(1/u)(1/v)`. The product itself would have to be as
        precise as its smallest values need, which arithmetic does not give beside its largest.
        """
        inner = node.args[1 if node.kind == "/" else 0]
        size = abs(self.cover.range(inner))
        known = node.kind == "/" or self._exponent(node) is not None
        return known and bool(size.hi > TUNING.wide * size.lo > 0) and len(self._chain(number).factors) > 1

    def _fused(self, number: int, node: ProgramNode, args: list[Linear], text: str) -> Linear | None:
        """One unit, if all operands depend on one form alone; a constant, if there is nothing they depend on."""
        supports = [self.atoms.support(arg) for arg in args if arg.terms]
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
        return self.atoms.unit(Composite.of(node.kind, *parts), form, text)

    def _logarithm(self, node: ProgramNode, text: str) -> Linear:
        """The logarithm of a product is a sum, if its factors are positive."""
        chain = self._chain(node.args[0])
        if len(chain.factors) < 2 or chain.coefficient.lo <= 0 or any(f.sign <= 0 for f in chain.factors):
            return self.atoms.unit(LOG, self.values[node.args[0]], text)
        total = Linear(logarithm(chain.coefficient), {})
        for factor in chain.factors:
            total = total.plus(self.products.log(factor.base, text), factor.exponent)
        return total

    def _product(self, number: int, node: ProgramNode, text: str) -> Linear:
        """A product by the cheaper of logarithms and quarter squares."""
        if node.kind == "**" and self.values[node.args[1]].terms:
            return self._power(node, text)
        chain = self._chain(number)
        signed = [factor for factor in chain.factors if factor.sign]
        others = [factor for factor in chain.factors if not factor.sign]
        through_logs = self.products.units_by_logarithms(signed) - (not others and self._swallowed(number))
        cheaper = through_logs < self.products.units_for(signed)
        if len(signed) > 1 and cheaper and all(factor.narrow for factor in signed):
            size = None if others else abs(self.cover.range(number) / chain.coefficient)
            product = self.products.by_logarithms(signed, text, size)
            negative = sum(int(f.exponent.lo) % 2 for f in signed if f.sign < 0) % 2
            chain.coefficient = -chain.coefficient if negative else chain.coefficient
            signed = [Factor(product, ONE, self.atoms.range(product))]
        parts = [self.products.raised(factor, text) for factor in [*signed, *others]]
        return self.products.of(parts, text).scaled(chain.coefficient)

    def _power(self, node: ProgramNode, text: str) -> Linear:
        """u ** v = exp(v log u) for u > 0."""
        base, exponent = (self.values[k] for k in node.args)
        if not base.terms:
            return self.atoms.unit(EXP, exponent.scaled(logarithm(base.constant)), text)
        if self.atoms.range(base).lo <= 0:
            raise NoCircuit(f"{text} is a power of what may not be positive")
        return self.atoms.unit(EXP, self.products.of([self.products.log(base, text), exponent], text), text)

    # ------------------------------------------------------------ factors

    def _chain(self, number: int) -> _Chain:
        """The factors of an operation."""
        chain = _Chain(ONE)
        self._collect(number, ONE, chain)
        return chain.merged()

    def _collect(self, number: int, exponent: Interval, chain: _Chain) -> None:
        """Add the factors of `operation ** exponent`."""
        node, whole = self.program.nodes[number], is_whole(exponent)
        value = self.values[number] if number < len(self.values) else None
        if value is not None and not value.terms:
            chain.coefficient = chain.coefficient * value.constant**exponent
        elif node.kind in ("*", "/") and (whole or self._all_positive(number)):
            self._collect(node.args[0], exponent, chain)
            self._collect(node.args[1], exponent if node.kind == "*" else -exponent, chain)
        elif node.kind == "neg" and whole:
            chain.coefficient = chain.coefficient * Interval(-1.0) ** exponent
            self._collect(node.args[0], exponent, chain)
        elif (power := self._exponent(node)) is not None and (
            (whole and is_whole(power)) or self._all_positive(node.args[0])
        ):
            self._collect(node.args[0], exponent * power, chain)
        else:
            chain.factors.append(self._factor(number, exponent))

    def _factor(self, number: int, exponent: Interval) -> Factor:
        if number < len(self.values):
            return Factor(self.values[number], exponent, self.cover.range(number))
        node = self.program.nodes[number]  # a root or power that cannot be distributed, at the head of the chain
        own = self._exponent(node)
        return Factor(
            self.values[node.args[0]], exponent if own is None else exponent * own, self.cover.range(node.args[0])
        )

    def _exponent(self, node: ProgramNode) -> Interval | None:
        """The constant exponent of a power or root."""
        if node.kind == "sqrt":
            return Interval(0.5)
        if node.kind != "**" or self.values[node.args[1]].terms:
            return None
        return self.values[node.args[1]].constant

    def _all_positive(self, number: int) -> bool:
        """Are all factors of the operation positive?"""
        node = self.program.nodes[number]
        if node.kind in ("*", "/"):
            return all(self._all_positive(k) for k in node.args)
        return bool(self.cover.range(number).lo > 0)

    def _swallowed(self, number: int) -> bool:
        """Is the result used by functions of one variable only?"""
        users = self.users[number]
        return bool(users) and all(len(node.args) == 1 and node.kind != "neg" for node in users)

    def _users(self) -> list[list[ProgramNode]]:
        users: list[list[ProgramNode]] = [[] for _ in self.program.nodes]
        for node in self.program.nodes:
            for k in set(node.args):
                users[k].append(node)
        return users


def pruned(circuit: Circuit) -> Circuit:
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
        tuple(
            (text, _renamed(form, order))
            for text, form in circuit.parts
            if form.terms and form.terms.keys() <= order.keys()
        ),
    )


def _renamed(linear: Linear, order: dict[int, int]) -> Linear:
    return Linear(linear.constant, {order[atom]: coefficient for atom, coefficient in linear.terms.items()})
