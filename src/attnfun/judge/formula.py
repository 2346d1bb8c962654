"""The judge's own reader of formulas: text -> steps, by its own grammar. Nothing is evaluated as code.

Operators bind as in Python, loosest first:

    or | and | not | < <= > >= (chained) | + - | * / | unary + - | ** (from the right, tighter than a sign before it)

A formula is one expression, or several in brackets or between commas.

>>> steps, outputs = read("-x**2 + 0.1*y", ("x", "y"))
>>> [step[0] for step in steps], outputs
(['variable', 'number', '**', 'neg', 'number', 'variable', '*', '+'], [7])
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter

import numpy as np
import numpy.typing as npt
from flint import arb, fmpq

from .errors import Unreadable
from .functions import FUNCTIONS
from .models import Model, space
from .ranges import INFINITE, ONE, ZERO, Range, precision, up
from .special import BESSEL, LARGEST_ORDER

Floats = npt.NDArray[np.float64]

Step = tuple[str, tuple[int, ...], Fraction | str | int | None]
"""An operation, the steps it works on, and the number, the name or the variable that it is."""


@dataclass(frozen=True)
class Program:
    """Steps and the numbers of those that are outputs; no file has one."""

    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class FormulaLimits:
    """What formulas may hold."""

    longest: int = 100_000
    """Letters of a formula. For time."""
    deepest: int = 150
    """Operations inside each other. A round number: far below the limit of Python."""
    largest_exponent: int = 5000
    """Whole exponents beyond are not multiplied out. For time."""
    most_digits: int = 4000
    """Digits of a number. For time."""
    most_bits: int = 400
    """Bits of a fraction that is computed from numbers. For time."""


TUNING = FormulaLimits()

DIGITS = "[0-9](?:_?[0-9])*"
TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+"
    rf"|(?:{DIGITS}(?:\.(?:{DIGITS})?)?|\.{DIGITS})(?:[eE][+-]?{DIGITS})?)"
    r"|(?P<name>[^\W\d]\w*)|(?P<sign>\*\*|<=|>=|[-+*/<>()\[\],]))"
)
WORDS = ("and", "or", "not")
CONSTANTS = ("pi", "e")
COMPARISONS = ("<", "<=", ">", ">=")
TRUTHS = (*COMPARISONS, *WORDS)
ARGUMENTS = {
    "abs": 1,
    "sign": 1,
    "min": 2,
    "max": 2,
    "where": 3,
    "atan2": 2,
    "sech": 1,
    "relu": 1,
    "clip": 3,
    "hypot": 2,
    **dict.fromkeys(BESSEL, 2),
}
"""Functions that are no series of one variable, and how many arguments they take; min and max take more than two, too.

Those from `sech` to `hypot` are read as what they stand for.
"""
OTHER_NAMES = {"ln": "log", "loggamma": "lgamma", "Si": "si", "Ci": "ci", "Ei": "ei"}
OTHER_NAMES |= {"elliptic_k": "ellipk", "elliptic_e": "ellipe"}
BINDING = {"or": 0, "and": 1, **dict.fromkeys(COMPARISONS, 3), "+": 4, "-": 4, "*": 5, "/": 5}
"""How tightly operators between two expressions bind."""
NEGATION, SIGN = 2, 6
"""How tightly `not` and signs before an expression bind; powers bind tightest."""
LARGEST, LEAST = Fraction(sys.float_info.max), Fraction(1, 2**1074)
"""The largest and the smallest positive number of float64."""


def read(text: str, variables: tuple[str, ...]) -> tuple[list[Step], list[int]]:
    """The steps of a formula in these variables, and which of them are its outputs."""
    if len(text) > TUNING.longest:
        raise Unreadable(f"a formula may have {TUNING.longest} characters; this one has {len(text)}")
    reader = _Reader(text, variables)
    outputs = reader.outputs()
    return reader.steps, outputs


def read_condition(text: str, variables: tuple[str, ...]) -> tuple[list[Step], list[int]]:
    """The same of a formula that must be one condition."""
    steps, outputs = read(text, variables)
    if len(outputs) != 1 or steps[outputs[0]][0] not in TRUTHS:
        raise Unreadable(f"the formula {text[:80]!r} must be a condition such as x < 1")
    return steps, outputs


class _Reader:
    """Recursive descent by the strength with which operators bind; expressions are returned as numbers of steps."""

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        self.text, self.variables, self.depth = text, variables, 0
        self.tokens, self.place = _tokens(text), 0
        self.steps: list[Step] = []
        self.numbers: dict[Step, int] = {}
        self.exact = list[Fraction | None]()

    def outputs(self) -> list[int]:
        closing = {"[": "]", "(": ")"}.get(self.next)
        start = self.place
        if closing and (several := self._listed(closing)) is not None:
            return several
        self.place = start
        outputs = self._separated("")
        self._must("")
        return outputs

    def _listed(self, closing: str) -> list[int] | None:
        """What stands between brackets, if nothing stands behind them."""
        opening = self.next
        self.place += 1
        outputs = self._separated(closing)
        self._must(closing)
        if self.next == "":
            return outputs
        if opening == "[":
            raise self._wrong("the end of the formula")
        return None

    def _separated(self, closing: str) -> list[int]:
        found = [self.expression()]
        while self.next == ",":
            self.place += 1
            if self.next == closing:
                break
            found.append(self.expression())
        return found

    @property
    def next(self) -> str:
        return self.tokens[self.place]

    def _must(self, token: str) -> None:
        if self.next != token:
            raise self._wrong(repr(token) if token else "the end of the formula")
        self.place += 1 if token else 0

    def _wrong(self, wanted: str) -> Unreadable:
        return Unreadable(f"the formula {self.text[:80]!r} must have {wanted} where it has {self.next[:40]!r}")

    def add(self, kind: str, args: tuple[int, ...] = (), value: Fraction | str | int | None = None) -> int:
        """The number of a step; equal steps are one."""
        truths = [self.steps[k][0] in TRUTHS for k in args]
        wanted = [kind in WORDS or (kind == "where" and place == 0) for place in range(len(args))]
        if truths != wanted:
            raise Unreadable(
                f"the formula {self.text[:80]!r} has a condition where a number must stand, or no condition"
            )
        step = (kind, args, value)
        if step not in self.numbers:
            self.numbers[step] = len(self.steps)
            self.steps.append(step)
            self.exact.append(exact(kind, [self.exact[k] for k in args], value))
        return self.numbers[step]

    def expression(self, level: int = 0) -> int:
        """An expression whose outermost operators bind at least so tightly, as numbered in `BINDING`."""
        self.depth += 1
        if self.depth > TUNING.deepest:
            raise Unreadable(f"a formula may have {TUNING.deepest} operations inside each other")
        result = self.prefixed(level)
        while BINDING.get(self.next, -1) >= level:
            operator = self.next
            self.place += 1
            if operator in COMPARISONS:
                result = self.compared(result, operator)
            else:
                result = self.add(operator, (result, self.expression(BINDING[operator] + 1)))
        self.depth -= 1
        return result

    def prefixed(self, level: int) -> int:
        """An atom or a power, with the signs or the `not` before it."""
        prefixes = list[str]()
        allowed = ("not",) if self.next == "not" and level <= NEGATION else ("+", "-")
        while self.next in allowed:
            prefixes.append(self.next)
            self.place += 1
        if not prefixes:
            result = self.atom()
            if self.next == "**":
                self.place += 1
                result = self.add("**", (result, self.expression(SIGN)))
        else:
            result = self.expression(NEGATION if allowed == ("not",) else SIGN)
        for prefix in prefixes:
            if prefix != "+":
                result = self.add("neg" if prefix == "-" else "not", (result,))
        return result

    def compared(self, left: int, operator: str) -> int:
        """Comparisons in a row hold together: `a < b < c` is `a < b and b < c`."""
        right = self.expression(BINDING[operator] + 1)
        result = self.add(operator, (left, right))
        while self.next in COMPARISONS:
            operator, left = self.next, right
            self.place += 1
            right = self.expression(BINDING[operator] + 1)
            result = self.add("and", (result, self.add(operator, (left, right))))
        return result

    def atom(self) -> int:
        token = self.next
        if self.next == "(":
            self.place += 1
            result = self.expression()
            self._must(")")
            return result
        if token and token[0] in ".0123456789":
            self.place += 1
            return self.add("number", value=_number(token))
        if not token or token in WORDS or not (token[0].isalpha() or token[0] == "_"):
            raise self._wrong("a number, a variable or a function")
        self.place += 1
        if self.next == "(":
            return self.call(token)
        if token in self.variables:
            return self.add("variable", value=self.variables.index(token))
        if token in CONSTANTS:
            return self.add("constant", value=token)
        raise Unreadable(f"the formula {self.text[:80]!r} has the unknown name {token[:40]!r}")

    def call(self, name: str) -> int:
        name = OTHER_NAMES.get(name, name)
        wanted = ARGUMENTS.get(name, 1)
        if name not in FUNCTIONS and name not in ARGUMENTS:
            raise Unreadable(f"the formula {self.text[:80]!r} has the unknown name {name[:40]!r}")
        self._must("(")
        args = self._separated(")")
        self._must(")")
        if len(args) < wanted or (len(args) > wanted and name not in ("min", "max")):
            raise Unreadable(f"{name} takes {wanted} arguments, not {len(args)}")
        if name in BESSEL:
            return self.add(self._of_order(name, args[0]), (args[1],))
        match name, args:
            case "sech", [a]:
                return self.add("/", (self.add("number", value=Fraction(1)), self.add("cosh", (a,))))
            case "relu", [a]:
                return self.add("max", (a, self.add("number", value=Fraction(0))))
            case "clip", [a, low, high]:
                return self.add("min", (self.add("max", (a, low)), high))
            case "hypot", [a, b]:
                two = self.add("number", value=Fraction(2))
                return self.add("sqrt", (self.add("+", (self.add("**", (a, two)), self.add("**", (b, two)))),))
        if name not in ("min", "max"):
            return self.add(name, tuple(args))
        result = args[0]
        for arg in args[1:]:
            result = self.add(name, (result, arg))
        return result

    def _of_order(self, name: str, order: int) -> str:
        """The kind of a step for a function of an order, which must be a number."""
        kind, _, value = self.steps[order]
        number = value if kind == "number" and isinstance(value, Fraction) else self.exact[order]
        if number is None or abs(number) > LARGEST_ORDER:
            raise Unreadable(f"the order of {name} must be a number of at most {LARGEST_ORDER}")
        return f"{name}({number})"


def _tokens(text: str) -> list[str]:
    """The words, numbers and signs of a formula without its comments, and an empty one at its end."""
    tokens, place, text = list[str](), 0, re.sub(r"#[^\r\n]*", " ", text).rstrip()
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise Unreadable(f"the formula {text[:80]!r} has the unknown sign {text[place : place + 10].strip()[:1]!r}")
        tokens.append(match[0].strip())
        place = match.end()
    return [*tokens, ""]


def _number(token: str) -> Fraction:
    """A number exactly as written, if it is within the range of float64."""
    digits = token.replace("_", "").lower()
    if len(digits) > TUNING.most_digits:
        raise Unreadable(f"the number {token[:40]} must have at most {TUNING.most_digits} digits")
    if digits[:2] in ("0x", "0o", "0b"):
        number = Fraction(int(digits, 0))
    else:
        mantissa, _, exponent = digits.partition("e")
        if abs(int(exponent or 0)) > TUNING.largest_exponent:
            raise Unreadable(f"the number {token[:40]} is beyond all formats")
        number = Fraction(mantissa) * Fraction(10) ** int(exponent or 0)
    if abs(number) > LARGEST or (number and abs(number) <= LEAST / 2):
        raise Unreadable(f"the number {token[:40]} must be within the range of float64")
    if digits.isdigit() and digits.startswith("0") and number:
        raise Unreadable(f"the whole number {token[:40]} must not begin with 0")
    return number


def exact(kind: str, args: list[Fraction | None], value: Fraction | str | int | None) -> Fraction | None:
    """A step as a fraction, where it is one by sums, products and quotients of numbers as written."""
    result: Fraction | None = None
    match kind, args:
        case "number", [] if isinstance(value, Fraction):
            result = value
        case "neg", [Fraction() as a]:
            result = -a
        case "+", [Fraction() as a, Fraction() as b]:
            result = a + b
        case "-", [Fraction() as a, Fraction() as b]:
            result = a - b
        case "*", [Fraction() as a, Fraction() as b]:
            result = a * b
        case "/", [Fraction() as a, Fraction() as b] if b:
            result = a / b
    short = (
        result is not None and max(result.numerator.bit_length(), result.denominator.bit_length()) <= TUNING.most_bits
    )
    return result if short else None


def evaluate(steps: Sequence[Step], outputs: Sequence[int], variables: Sequence[Model]) -> list[Model]:
    """The outputs of a formula on a box on which its variables have these models."""
    models: list[Model] = []
    for kind, args, value in steps:
        models.append(_step(kind, [models[k] for k in args], value, variables))
    return [models[k] for k in outputs]


def values_at(text: str, names: tuple[str, ...], rows: Floats) -> tuple[Floats, Floats]:
    """Ends of intervals that hold a formula's values at rows (P, D) wherever it is defined, (P, m) each."""
    steps, outputs = read(text, names)
    ends = np.empty((2, len(rows), len(outputs)))
    with precision():
        for row, point in enumerate(rows.tolist()):
            at = [Model.constant(space(len(names), 0), arb(number)) for number in point]
            for k, model in enumerate(evaluate(steps, outputs, at)):
                ends[0, row, k] = nextafter(float(model.range.low), -inf)
                ends[1, row, k] = nextafter(float(model.range.high), inf)
    return ends[0], ends[1]


def _step(kind: str, args: list[Model], value: Fraction | str | int | None, variables: Sequence[Model]) -> Model:
    """One operation."""
    here = variables[0].space
    match kind, args:
        case "number", [] if isinstance(value, Fraction):
            return Model.constant(here, arb(fmpq(value.numerator, value.denominator)))
        case "constant", []:
            return Model.constant(here, arb.pi() if value == "pi" else ONE.exp())
        case "variable", [] if isinstance(value, int):
            return variables[value]
        case "+", [f, g]:
            return f + g
        case "-", [f, g]:
            return f - g
        case "*", [f, g]:
            return f * g
        case "/", [f, g]:
            return f / g
        case "neg", [f]:
            return -f
        case "**", [f, g]:
            return _power(f, g)
        case "abs", [f]:
            larger = f.extreme(-f, largest=True)
            return Model(here, larger.polynomial, larger.rest, f.range.absolute())
        case "min" | "max", [f, g]:
            return f.extreme(g, largest=kind == "max")
        case "sign", [f]:
            low = ONE if f.range.low > 0 else ZERO if f.range.low >= 0 else -ONE
            high = -ONE if f.range.high < 0 else ZERO if f.range.high <= 0 else ONE
            return Model.ranging(here, Range(low, high, f.range.defined))
        case "atan2", [f, g]:
            return _angle(f, g)
        case "where", [condition, f, g]:
            return _where(condition, f, g)
        case "<" | "<=" | ">" | ">=", [f, g]:
            return _comparison(f, g, strict=len(kind) == 1) if kind[0] == "<" else _comparison(g, f, strict=kind == ">")
        case "and" | "or", [f, g]:
            return Model.ranging(here, f.range.extreme(g.range, largest=kind == "or"))
        case "not", [f]:
            return Model.ranging(here, Range(ONE, ONE) - f.range)
        case _, [f]:
            return f.after(kind)
    raise Unreadable(f"the operation {kind!r} is unknown")


def _angle(y: Model, x: Model) -> Model:
    """The angle of (x, y), which jumps where y = 0 and x < 0 and is undefined at the origin."""
    quarter = Model.constant(y.space, arb.pi() / 2)
    if x.range.low > 0:
        return (y / x).after("atan")
    if y.range.low > 0:
        return quarter - (x / y).after("atan")
    if y.range.high < 0:
        return -(quarter + (x / y).after("atan"))
    half, origin = up(arb.pi()), bool(x.range.high >= 0)
    return Model.ranging(y.space, Range(-half, half, not origin).known(x.range, y.range))


def _comparison(f: Model, g: Model, *, strict: bool) -> Model:
    """1 where f < g (or f <= g), 0 elsewhere."""
    difference = (f - g).range
    surely = difference.high < 0 if strict else difference.high <= 0
    never = difference.low >= 0 if strict else difference.low > 0
    return Model.ranging(f.space, Range(ONE if surely else ZERO, ZERO if never else ONE, difference.defined))


def _where(condition: Model, f: Model, g: Model) -> Model:
    """The branch that is taken on the whole box, or the range of both.

    A branch that is taken nowhere need not be defined. Branches that are one step are one branch.
    """
    truth = condition.range
    if truth.low > 0 or truth.high < 1 or f is g:
        chosen = f if truth.low > 0 else g
        return Model(f.space, chosen.polynomial, chosen.rest, chosen.range.known(truth))
    return Model.ranging(f.space, f.range.join(g.range).known(truth))


def _power(base: Model, exponent: Model) -> Model:
    """Whole exponents by products, others as `e^(exponent log base)`; 0 to a positive power is 0."""
    number = exponent.polynomial[0]
    if exponent.reach.is_zero() and number.is_integer() and abs(number) <= TUNING.largest_exponent:
        return base.power(round(float(number)))
    if base.range.low > 0 or not (exponent.range.low > 0 and base.range.high >= 0):
        return (exponent * base.after("log")).after("exp")
    high = ZERO if base.range.high.is_zero() else (exponent.range * _log_above(base.range)).high.exp()
    return Model.ranging(base.space, Range(ZERO, up(high), base.range.low >= 0).known(base.range, exponent.range))


def _log_above(base: Range) -> Range:
    """From minus infinity to the logarithm of the upper end."""
    return Range(-INFINITE, up(base.high.log()))
