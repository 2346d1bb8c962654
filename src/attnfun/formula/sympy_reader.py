"""SymPy expressions as formulas, by walking their tree: no text is evaluated, and SymPy is not needed to read it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ..errors import InputError
from .functions import FUNCTIONS
from .program import ProgramBuilder
from .writing import written

NAMES = {"Abs": "abs", "Max": "max", "Min": "min", "Heaviside": "", "re": ""}
"""Functions that SymPy calls by another name; those without a name are not known."""
RELATIONS = {"StrictLessThan": "<", "LessThan": "<=", "StrictGreaterThan": ">", "GreaterThan": ">="}
LOGIC = {"And": "and", "Or": "or", "Not": "not"}
CONSTANTS = {"Pi": "pi", "Exp1": "e"}


def is_sympy(value: object) -> bool:
    """Is it a SymPy expression, or a list of them?"""
    if isinstance(value, list | tuple):
        return bool(value) and all(is_sympy(part) for part in value)
    return type(value).__module__.partition(".")[0] == "sympy" and hasattr(value, "free_symbols")


def sympy_formula(expression: Any, names: tuple[str, ...] | None) -> tuple[str, tuple[str, ...]]:
    """The formula that an expression, or a list of them, stands for, and its variables in order."""
    parts = list(expression) if isinstance(expression, list | tuple) else [expression]
    free = sorted({str(symbol) for part in parts for symbol in part.free_symbols})
    names = names or tuple(free)
    if not set(free) <= set(names):
        raise InputError("the domain must name the variables of a SymPy expression", got=f"{names} for {free}")
    reader = _SympyReader(names)
    outputs = [reader.number(part) for part in parts]
    program = reader.builder.program("", outputs, isinstance(expression, list | tuple))
    text = written(program, names)
    if text is None:
        raise InputError("a SymPy expression must be shorter as a formula", got=f"{len(program.nodes)} operations")
    return text, names


class _SympyReader:
    """Numbers the operations of a tree."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names, self.builder = names, ProgramBuilder()

    def number(self, part: Any) -> int:
        """The place of an expression."""
        kind = type(part).__name__
        if part.is_Symbol:
            return self.builder.variable(self.names.index(str(part)))
        if kind in CONSTANTS:
            return self.builder.named(CONSTANTS[kind])
        if part.is_Rational:
            return self.fraction(Fraction(int(part.p), int(part.q)), part)
        if part.is_Float:
            return self.float(part)
        args = [self.number(arg) for arg in part.args if kind != "Piecewise"]
        if kind in ("Add", "Mul"):
            return self.chained("+" if kind == "Add" else "*", args)
        if kind == "Pow":
            half = part.args[1].is_Rational and (int(part.args[1].p), int(part.args[1].q)) == (1, 2)
            return self.builder.apply("sqrt", args[:1]) if half else self.builder.apply("**", args)
        if kind == "Piecewise":
            return self.piecewise(part)
        if kind in RELATIONS or kind in LOGIC:
            return self.builder.apply(RELATIONS.get(kind) or LOGIC[kind], args)
        name = NAMES.get(kind, kind)
        if name not in FUNCTIONS or (len(args) != FUNCTIONS[name].arity and not FUNCTIONS[name].many):
            raise InputError("a SymPy expression must be made of functions that formulas have", got=f"{kind}: {part}")
        return self.builder.apply(name, args)

    def chained(self, kind: str, args: list[int]) -> int:
        total = args[0]
        for arg in args[1:]:
            total = self.builder.apply(kind, [total, arg])
        return total

    def fraction(self, value: Fraction, part: Any) -> int:
        if (
            Fraction(float(value.numerator)) != value.numerator
            or Fraction(float(value.denominator)) != value.denominator
        ):
            raise InputError("numbers of a SymPy expression must be quotients of floats", got=str(part))
        top = self.builder.constant(float(value.numerator))
        if value.denominator == 1:
            return top
        return self.builder.apply("/", [top, self.builder.constant(float(value.denominator))])

    def float(self, part: Any) -> int:
        sign, mantissa, exponent, _ = part._mpf_
        exact = Fraction(int(mantissa)) * Fraction(2) ** int(exponent) * (-1 if sign else 1)
        if exact != Fraction(float(part)):
            raise InputError("numbers of a SymPy expression must be floats", got=str(part), remedy="Use 15 digits.")
        return self.builder.constant(float(part))

    def piecewise(self, part: Any) -> int:
        """The first condition that holds; the last must be True."""
        pairs = [tuple(pair.args) for pair in part.args]
        if str(pairs[-1][1]) != "True":
            raise InputError("a SymPy Piecewise must end with a piece for all other points", got=str(part))
        result = self.number(pairs[-1][0])
        for value, condition in reversed(pairs[:-1]):
            result = self.builder.apply("where", [self.number(condition), self.number(value), result])
        return result
