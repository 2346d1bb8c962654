"""A formula as a straight line of operations, on floats, intervals and Taylor series alike.

Each operation refers to earlier ones by position, so shared sub-expressions are stored once and nothing is recursive.
The parser makes programs of text, tracing makes them of Python functions, both through `ProgramBuilder`: what says
the same is the same program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, Jet, Untraceable, as_interval, join
from ..arithmetic.basis import Basis
from ..arithmetic.directed import SMALLEST, ULP, above, below, rounded_up
from ..arithmetic.jets import join as join_jets
from ..errors import InputError
from ..judge.special import LARGEST_ORDER
from ..resources.deadline import NEVER, Deadline
from .functions import CONSTANTS, FUNCTIONS, JUMPS, OPERATIONS, PARAMETERS

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ProgramTuning:
    """How much is held at a time."""

    numbers: int = 2**24
    """Numbers of all operations together that are held at a time. For memory: 128 MiB."""


TUNING = ProgramTuning()

SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.And: "and",
    ast.Or: "or",
    ast.Not: "not",
    ast.USub: "neg",
}
"""Operators of Python's syntax as programs name them."""


@dataclass(frozen=True)
class ProgramNode:
    """One operation: `kind` is "constant", "variable", an operator or a function name."""

    kind: str
    args: tuple[int, ...] = ()
    value: float = 0.0
    exact: bool = True
    """Is a constant's float exactly the number that was written?"""
    place: tuple[int, int] = (0, 0)
    """Where it stands in the text: first and last character, counted in bytes."""


@dataclass(frozen=True)
class Program:
    """Operations in order, the positions of the outputs, and whether the text was a vector `[...]`."""

    source: str
    nodes: tuple[ProgramNode, ...]
    outputs: tuple[int, ...]
    is_vector: bool

    def text(self, node: ProgramNode) -> str:
        """The part of the source that an operation came from."""
        return self.source.encode()[slice(*node.place)].decode()

    @property
    def may_jump(self) -> bool:
        """Programs without comparisons, `where`, `sign` and `atan2` do not."""
        return any(node.kind in JUMPS for node in self.nodes)

    def run(
        self, variables: list[Any], constant: Callable[[ProgramNode], Any], deadline: Deadline = NEVER
    ) -> list[Any]:
        """Every operation, in order, until the deadline."""
        steps: list[Any] = []
        for node in self.nodes:
            deadline.check("evaluating the formula")
            if node.kind == "constant":
                steps.append(constant(node))
            elif node.kind == "variable":
                steps.append(variables[int(node.value)])
            else:
                steps.append(OPERATIONS[node.kind](*(steps[k] for k in node.args)))
        return steps

    def values(self, rows: Floats, deadline: Deadline = NEVER) -> Floats:
        """In float64, whatever comes out: (B, D) -> (B, m)."""
        return np.concatenate([self._values(rows[part], deadline) for part in self._blocks(len(rows), 1)])  # (B, m)

    def _values(self, rows: Floats, deadline: Deadline) -> Floats:
        with np.errstate(all="ignore"):
            steps = self.run([rows[:, k] for k in range(rows.shape[1])], float_constant, deadline)
        columns = [np.broadcast_to(steps[k], rows.shape[:1]) for k in self.outputs]
        return np.stack(columns, axis=1).astype(np.float64)  # (b, m)

    def ranges(self, boxes: Interval, deadline: Deadline = NEVER) -> list[Interval]:
        """Every operation in interval arithmetic on boxes (B, D)."""
        columns = [boxes[:, k] for k in range(boxes.shape[1])]
        return [as_interval(step) for step in self.run(columns, enclosed_constant, deadline)]

    def enclose(self, boxes: Interval, deadline: Deadline = NEVER) -> Interval:
        """In interval arithmetic: (B, D) -> (B, m)."""
        steps = self.ranges(boxes, deadline)
        return join([_as_column(steps[k], len(boxes)) for k in self.outputs], axis=1, function=np.stack)

    def computed(self, boxes: Interval) -> Interval:
        """What float arithmetic may make of it, sums and products in any order: (B, D) -> (B, m).

        A sum of n terms in any order is off by less than n units of the sum of their sizes, a product of n factors by n
        units of its own size.
        """
        steps, sizes, counts = list[Interval](), list[Any](), list[int]()
        for node in self.nodes:
            args = node.args
            if not args:
                step = enclosed_constant(node) if node.kind == "constant" else boxes[:, int(node.value)]
                size, count = step.magnitude, 1
            else:
                step = OPERATIONS[node.kind](*(steps[k] for k in args))
                kinds, sums = [self.nodes[k].kind for k in args], ("+", "-", "neg")
                alike = sums if node.kind in sums else ("*", "neg") if node.kind == "*" else ()
                count = sum(counts[k] if kind in alike else 1 for k, kind in zip(args, kinds, strict=True))
                size = as_interval(step).magnitude
                if node.kind in sums:
                    size = sum(
                        sizes[k] if kind in sums else steps[k].magnitude for k, kind in zip(args, kinds, strict=True)
                    )
                if alike:
                    with np.errstate(over="ignore", invalid="ignore"):
                        off: Any = rounded_up(np.asarray(count * (ULP * size + SMALLEST)), 4)
                        step = Interval(below(step.lo - off), above(step.hi + off), step.defined)
            steps.append(step)
            sizes.append(size)
            counts.append(count)
        columns = [_as_column(as_interval(steps[k]), len(boxes)) for k in self.outputs]
        return join(columns, axis=1, function=np.stack)

    def jets(self, variables: Jet, deadline: Deadline = NEVER) -> Jet | None:
        """In Taylor arithmetic: (B, D) -> (B, m); None if an operation has no series."""
        blocks = self._blocks(len(variables), 2 * variables.basis.size)
        try:
            parts = [self._jets(variables[part], deadline) for part in blocks]
        except Untraceable:
            return None
        return parts[0] if len(parts) == 1 else join_jets(parts)  # (B, m)

    def _jets(self, variables: Jet, deadline: Deadline) -> Jet:
        constant = partial(_constant_series, variables.basis)
        steps = self.run([variables[:, k] for k in range(variables.shape[1])], constant, deadline)
        zero = variables[:, 0] * 0.0
        return join_jets([zero + steps[k] for k in self.outputs], axis=1, function=np.stack)  # (B, m)

    def _blocks(self, count: int, each: int) -> list[slice]:
        """Rows evaluated at a time, `each` numbers for an operation at one of them: all operations are kept."""
        step = max(1, TUNING.numbers // (each * len(self.nodes)))
        return [slice(start, start + step) for start in range(0, max(count, 1), step)]


class ProgramBuilder:
    """Numbers operations, equal ones once, and puts in what names stand for.

    >>> builder = ProgramBuilder()
    >>> builder.apply("hypot", (builder.variable(0), builder.variable(1)))
    6
    >>> [node.kind for node in builder.nodes]
    ['variable', 'variable', 'constant', '**', '**', '+', 'sqrt']
    """

    def __init__(self, place: tuple[int, int] = (0, 0)) -> None:
        self.nodes: list[ProgramNode] = []
        self.place = place
        """Where operations stand in the text, unless it is said."""
        self._numbers: dict[tuple[Any, ...], int] = {}

    def add(self, node: ProgramNode, written: object = None) -> int:
        """The number of an operation; `written` tells constants apart that no float equals."""
        key = (node.kind, node.args, node.value, str(node.value), written)  # 0.0 and -0.0 are two
        if key not in self._numbers:
            self._numbers[key] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[key]

    def variable(self, number: int, place: tuple[int, int] | None = None) -> int:
        """A variable of the program."""
        return self.add(ProgramNode("variable", value=number, place=place or self.place))

    def constant(self, value: float, place: tuple[int, int] | None = None) -> int:
        """A float, exactly."""
        return self.add(ProgramNode("constant", value=value, place=place or self.place))

    def named(self, name: str, place: tuple[int, int] | None = None) -> int:
        """A constant by its name."""
        return self.add(ProgramNode("constant", value=CONSTANTS[name], exact=False, place=place or self.place), name)

    def apply(self, name: str, args: Sequence[int], place: tuple[int, int] | None = None) -> int:
        """An operator, or a function by any of its names; what takes two is applied to more from the left."""
        place = place or self.place
        function = FUNCTIONS.get(name)
        if function is not None and function.means:
            return self.substitute(function.means, args, place)
        if function is not None:
            for number in args[: function.numbers]:
                self._refuse_order(function.name, number)
        if (function is not None and function.many) or name in ("and", "or"):
            return reduce(lambda total, extra: self.add(ProgramNode(name, (total, extra), place=place)), args)
        return self.add(ProgramNode(name if function is None else function.name, tuple(args), place=place))

    def _refuse_order(self, name: str, number: int) -> None:
        """The order of a function is a number that is not too large, not what depends on a variable."""
        waiting, seen = [number], list[ProgramNode]()
        while waiting:
            seen.append(self.nodes[waiting.pop()])
            waiting += seen[-1].args
        numbers = [node.value for node in seen if node.kind == "constant"]
        varies, plain = (any(node.kind == kind for node in seen) for kind in ("variable", "constant"))
        large = plain and all(node.kind in ("constant", "neg") for node in seen) and abs(numbers[0]) > LARGEST_ORDER
        if varies or large:
            raise InputError(
                f"the order of {name} must be a number, at most {LARGEST_ORDER} in size",
                got="a formula of variables" if varies else f"{numbers[0]:g}",
                remedy=f"Write {name}(1, x).",
            )

    def substitute(self, text: str, args: Sequence[int], place: tuple[int, int] | None = None) -> int:
        """A formula in a, b, c with operations in their place."""
        return self._expand(_read(text), dict(zip(PARAMETERS, args, strict=False)), place or self.place)

    def _expand(self, syntax: ast.expr, names: dict[str, int], place: tuple[int, int]) -> int:
        parts = [self._expand(part, names, place) for part in _operands(syntax)]
        match syntax:
            case ast.Constant(value=int() | float() as value):
                return self.constant(float(value), place)
            case ast.Name(id=name):
                return names[name] if name in names else self.named(name, place)
            case ast.Call(func=ast.Name(id=name)):
                return self.apply(name, parts, place)
            case ast.Compare(ops=[op]):
                return self.apply(SIGNS[type(op)], parts, place)
            case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op):
                return self.apply(SIGNS[type(op)], parts, place)
        raise ValueError(ast.unparse(syntax))

    def program(self, source: str, outputs: Sequence[int], is_vector: bool) -> Program:
        """What was built, without operations that no output needs."""
        needed, stack = set[int](), list(outputs)
        while stack:
            number = stack.pop()
            if number not in needed:
                needed.add(number)
                stack += self.nodes[number].args
        order = {number: place for place, number in enumerate(sorted(needed))}
        nodes = [self.nodes[number] for number in order]
        moved = [
            ProgramNode(node.kind, tuple(order[k] for k in node.args), node.value, node.exact, node.place)
            for node in nodes
        ]
        return Program(source, tuple(moved), tuple(order[k] for k in outputs), is_vector)


@lru_cache
def _read(text: str) -> ast.expr:
    """The syntax of a formula of the table."""
    return ast.parse(text, mode="eval").body


def _operands(syntax: ast.expr) -> list[ast.expr]:
    """The expressions that an operation is applied to."""
    parts = syntax.args if isinstance(syntax, ast.Call) else ast.iter_child_nodes(syntax)
    return [part for part in parts if isinstance(part, ast.expr)]


def float_constant(node: ProgramNode) -> Any:
    """A constant as the nearest float."""
    return np.float64(node.value)


def enclosed_constant(node: ProgramNode) -> Interval:
    """A constant as an interval that holds the number as written."""
    value = np.float64(node.value)
    return Interval(value) if node.exact else Interval(below(value), above(value))  # type: ignore[arg-type]


def _constant_series(base: Basis, node: ProgramNode) -> Jet:
    """A constant as a series."""
    return Jet.constant(base, enclosed_constant(node))


def _as_column(step: Interval, count: int) -> Interval:
    if step.shape == (count,):
        return step
    return Interval(np.broadcast_to(step.lo, (count,)), np.broadcast_to(step.hi, (count,)), step.defined)
