"""Text -> program. The text is parsed, never run: every syntax node must be on a short list.

>>> program = parse("sin(x)*y + sin(x)", ("x", "y"))
>>> [program.text(node) for node in program.nodes]
['x', 'sin(x)', 'y', 'sin(x)*y', 'sin(x)*y + sin(x)']
"""

from __future__ import annotations

import ast
import math
import re
import sys
import warnings
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import pairwise

from ..arguments import on_one_line
from ..errors import InputError, nearest
from .functions import CONSTANTS, FUNCTIONS, LOGIC, TRUTHS, ElementaryFunction
from .program import SIGNS, Program, ProgramBuilder, ProgramNode

COMMENT = re.compile(r"#[^\r\n]*")


@dataclass(frozen=True)
class ParserTuning:
    """How long a formula may be."""

    max_length: int = 100_000
    """Letters of a formula. For time."""


TUNING = ParserTuning()

LARGEST = sys.float_info.max


def names_in(text: str) -> tuple[str, ...]:
    """The free variables of a formula, in order of appearance."""
    found = [n for n in ast.walk(_syntax(text)) if isinstance(n, ast.Name)]
    ordered = sorted(found, key=lambda n: (n.lineno, n.col_offset))
    free = [n.id for n in ordered if n.id not in FUNCTIONS and n.id not in CONSTANTS]
    return tuple(dict.fromkeys(free))


def formula_line(text: str) -> str:
    """A formula on one line, so that places in it are plain offsets; comments end with their lines, as in Python."""
    return on_one_line(COMMENT.sub(" ", text))


def parse(text: str, variables: tuple[str, ...]) -> Program:
    """Read a formula in the given variables, or say which part of it cannot be read."""
    return _SyntaxReader(text, variables).read()


def _syntax(text: str) -> ast.expr:
    if not isinstance(text, str) or not text.strip():
        raise InputError("a formula must be text that is not empty", got=repr(text))
    if len(text) > TUNING.max_length:
        raise InputError(f"a formula may have at most {TUNING.max_length} characters", got=len(text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "1or x" is a mistake
            return ast.parse(formula_line(text), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as reason:
        message = getattr(reason, "msg", None) or str(reason) or "too deeply nested"
        column = getattr(reason, "offset", None)
        place = f" at column {column}" if column else ""
        raise InputError(
            "the formula cannot be read",
            got=f"{text.strip()[:200]!r}: {message}{place}",
            remedy="Write it as in Python: 2*x, x**2, sin(x).",
        ) from None


def _decimal(text: str) -> Decimal:
    """The number as written, whatever its exponent; one that even decimals cannot hold is NaN, equal to no float."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("nan")


class _SyntaxReader:
    """Walks the syntax tree without recursion and numbers the operations."""

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        self.text = formula_line(text) if isinstance(text, str) else text
        self.variables = variables
        self.builder = ProgramBuilder()

    def read(self) -> Program:
        root = _syntax(self.text)
        parts = root.elts if isinstance(root, ast.List | ast.Tuple) else [root]
        if not parts:
            raise InputError("a vector formula needs at least one component", got=self.text)
        outputs = tuple(self.number(part) for part in parts)
        return Program(self.text, tuple(self.builder.nodes), outputs, isinstance(root, ast.List | ast.Tuple))

    def number(self, root: ast.expr) -> int:
        """Position of an expression in the program, its operands first."""
        done: dict[int, int] = {}
        stack: list[ast.expr] = [root]
        while stack:
            syntax = stack[-1]
            waiting = [part for part in self.operands(syntax) if id(part) not in done]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            stack.pop()
            done[id(syntax)] = self.emit(syntax, tuple(done[id(part)] for part in self.operands(syntax)))
        return done[id(root)]

    def operands(self, syntax: ast.expr) -> list[ast.expr]:
        match syntax:
            case ast.BinOp(left=left, right=right):
                return [left, right]
            case ast.UnaryOp(operand=operand):
                return [operand]
            case ast.Call(args=args):
                return list(args)
            case ast.Compare(left=left, comparators=others):
                return [left, *others]
            case ast.BoolOp(values=values):
                return list(values)
            case _:
                return []

    def emit(self, syntax: ast.expr, args: tuple[int, ...]) -> int:
        place = (syntax.col_offset, syntax.end_col_offset or syntax.col_offset)
        text = lambda: self.text.encode()[slice(*place)].decode()  # noqa: E731 - only refusals need it
        match syntax:
            case ast.Constant(value=bool() | complex() | str() | bytes()):
                raise self.refusal(text(), "only real numbers can be written")
            case ast.Constant(value=int() | float() as value):
                return self.constant(text(), value, place)
            case ast.Name(id=name):
                return self.name(name, place)
            case ast.UnaryOp(op=ast.UAdd()):
                return args[0]
            case ast.UnaryOp(op=ast.USub()):
                return self.apply("neg", args, place)
            case ast.BinOp(op=op) if type(op) in SIGNS:
                return self.apply(SIGNS[type(op)], args, place)
            case ast.BinOp(op=ast.BitXor()):
                raise self.refusal(text(), "powers are written x**2, not x^2")
            case ast.Call(func=ast.Name(id=name), keywords=[]):
                return self.call(name, args, place)
            case ast.Compare(ops=ops) if all(type(op) in SIGNS for op in ops):
                links = [self.apply(SIGNS[type(op)], pair, place) for op, pair in zip(ops, pairwise(args), strict=True)]
                return self.apply("and", tuple(links), place)
            case ast.Compare():
                raise self.refusal(text(), "only the comparisons < <= > >= are known")
            case ast.BoolOp(op=op):
                return self.apply(SIGNS[type(op)], args, place)
            case ast.UnaryOp(op=ast.Not()):
                return self.apply("not", args, place)
            case _:
                known = "+ - * / **, < <= > >=, and, or, not, functions, numbers, variables and one outer [...]"
                raise self.refusal(text(), f"only {known} are known")

    def constant(self, text: str, value: float, place: tuple[int, int]) -> int:
        number = float(value) if abs(value) <= LARGEST else math.inf
        if math.isinf(number):
            raise self.refusal(text, "the number is too large for a float")
        if isinstance(value, int):
            exact = int(number) == value
        else:
            written = _decimal(text)
            exact = written == Decimal(number)
            if number == 0 and not exact:
                raise self.refusal(text, "the number is too small for a float: write 0, or rescale a variable")
        written = None if exact else text  # 0.1 is not 0.1000000000000000001
        return self.builder.add(ProgramNode("constant", value=number, exact=exact, place=place), written)

    def name(self, name: str, place: tuple[int, int]) -> int:
        if name in self.variables:
            return self.builder.variable(self.variables.index(name), place)
        if name in CONSTANTS:
            return self.builder.named(name, place)
        if name in FUNCTIONS:
            raise self.refusal(name, f"{name} is a function: write {name}(...)")
        raise self.unknown(name, [*self.variables, *CONSTANTS], "variable")

    def call(self, name: str, args: tuple[int, ...], place: tuple[int, int]) -> int:
        if name not in FUNCTIONS:
            raise self.unknown(name, list(FUNCTIONS), "function")
        function = FUNCTIONS[name]
        if len(args) < function.arity or (len(args) > function.arity and not function.many):
            raise self.refusal(name, f"{name} takes {_counted(function)}, not {len(args)}")
        return self.apply(name, args, place)

    def apply(self, name: str, args: tuple[int, ...], place: tuple[int, int]) -> int:
        self.check_truths(name, args)
        return self.builder.apply(name, args, place)

    def check_truths(self, name: str, args: tuple[int, ...]) -> None:
        """Truth values go into logic and into the first place of `where`, numbers everywhere else."""
        for number, k in enumerate(args):
            node, wanted = self.builder.nodes[k], name in LOGIC or (name == "where" and number == 0)
            if wanted != (node.kind in TRUTHS):
                text = self.text.encode()[slice(*node.place)].decode()
                reason = (
                    f"{name} needs a comparison such as x < 1"
                    if wanted
                    else "a comparison is not a number: write where(condition, 1, 0)"
                )
                raise self.refusal(text, reason)

    def refusal(self, text: str, reason: str) -> InputError:
        return InputError(f"the formula {self.text[:200]!r} cannot be used: {reason}", got=repr(text[:200]))

    def unknown(self, name: str, known: list[str], kind: str) -> InputError:
        close = nearest(name, known)
        hint = f"Did you mean {close}? " if close else ""
        return InputError(
            f"every {kind} in a formula must be known",
            got=f"{name!r} in {self.text[:200]!r}",
            remedy=f"{hint}Known: {', '.join(known) or 'none'}.",
        )


def _counted(function: ElementaryFunction) -> str:
    """The number of arguments of a function in words."""
    if function.many:
        return "two or more arguments"
    return {1: "one argument", 2: "two arguments", 3: "three arguments"}[function.arity]
