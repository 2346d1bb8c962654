"""The program of a Python function made of NumPy operations, by running it on symbols.

An object array of symbols goes in; NumPy indexes, stacks and sums it as it does with numbers, and calls the symbols'
own operators and methods, which write down what is asked of them. A branch on a value, or a function that symbols do
not know, ends the attempt.

>>> program = traced(lambda p: np.exp(p[..., 0]) * p[..., 1] + 1, (2,), "f")
>>> [node.kind for node in program.nodes]
['variable', 'variable', 'exp', '*', 'constant', '+']
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import prod
from typing import Any

import numpy as np

from ..errors import Unanswerable
from .functions import TABLE
from .program import Node, Program

METHODS = {function.ufunc: function.name for function in TABLE if function.arity == 1 and not function.means}
"""How NumPy calls the functions of formulas: `np.arcsin` of a symbol is its method `arcsin`."""


class _Tape:
    """Operations in order, equal ones once."""

    def __init__(self, name: str) -> None:
        self.nodes: dict[Node, int] = {}
        self.place = (0, len(name.encode()))

    def note(self, kind: str, *args: int, value: float = 0.0) -> Symbol:
        """The result of an operation."""
        node = Node(kind, args, value, place=self.place)
        return Symbol(self, self.nodes.setdefault(node, len(self.nodes)))


class Symbol:
    """A number not known yet."""

    def __init__(self, tape: _Tape, number: int) -> None:
        self.tape, self.number = tape, number

    def __getattr__(self, name: str) -> Callable[[], Symbol]:
        if name not in METHODS:
            raise AttributeError(name)
        return lambda: self.tape.note(METHODS[name], self.number)

    def _with(self, kind: str, other: Any, swapped: bool = False) -> Symbol:
        if not isinstance(other, Symbol):
            if not isinstance(other, int | float | np.number) or not np.isfinite(float(other)):
                raise Unanswerable
            other = self.tape.note("constant", value=float(other))
        pair = (other, self) if swapped else (self, other)
        return self.tape.note(kind, *(part.number for part in pair))

    def __add__(self, other: Any) -> Symbol:
        return self._with("+", other)

    def __radd__(self, other: Any) -> Symbol:
        return self._with("+", other, swapped=True)

    def __sub__(self, other: Any) -> Symbol:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> Symbol:
        return self._with("-", other, swapped=True)

    def __mul__(self, other: Any) -> Symbol:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> Symbol:
        return self._with("*", other, swapped=True)

    def __truediv__(self, other: Any) -> Symbol:
        return self._with("/", other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self._with("/", other, swapped=True)

    def __pow__(self, other: Any) -> Symbol:
        return self._with("**", other)

    def __rpow__(self, other: Any) -> Symbol:
        return self._with("**", other, swapped=True)

    def __neg__(self) -> Symbol:
        return self.tape.note("neg", self.number)

    def __pos__(self) -> Symbol:
        return self

    def __abs__(self) -> Symbol:
        return self.tape.note("abs", self.number)

    def __bool__(self) -> bool:
        raise Unanswerable

    def _unanswerable(self, other: Any = None) -> Any:
        raise Unanswerable

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __float__ = _unanswerable  # type: ignore[assignment]
    __hash__ = object.__hash__


BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "**": 4}
"""How tightly operators bind; all else binds tighter."""
LONGEST = 20_000
"""Letters of a program that is written down as a formula."""


def written(program: Program) -> str | None:
    """A program as a formula in the variables x0, x1, ..., its constants exact; None where that is too long.

    >>> written(traced(lambda p: (p[..., 0] - 0.5) * -p[..., 1], (2,), "f"))
    '(x0 - 0.5)*-x1'
    """
    texts: list[tuple[str, int]] = []
    for node in program.nodes:
        texts.append(_written(node, [texts[k] for k in node.args]))
        if len(texts[-1][0]) > LONGEST:
            return None
    outputs = [texts[k][0] for k in program.outputs]
    whole = f"[{', '.join(outputs)}]" if program.is_vector else outputs[0]
    return whole if len(whole) <= LONGEST else None


def _written(node: Node, args: list[tuple[str, int]]) -> tuple[str, int]:
    """The text of one operation, and how tightly it binds."""
    tight = BINDS["**"] + 1
    if node.kind == "variable":
        return f"x{int(node.value)}", tight
    if node.kind == "constant":
        digits = str(Decimal(abs(node.value)))
        return (f"-{digits}", BINDS["neg"]) if node.value < 0 else (digits, tight)
    binds = BINDS.get(node.kind, tight)

    def inside(arg: tuple[str, int], least: int) -> str:
        return arg[0] if arg[1] >= least else f"({arg[0]})"

    match node.kind, args:
        case "neg", [operand]:
            return f"-{inside(operand, binds + 1)}", binds
        case "**", [base, exponent]:
            return f"{inside(base, tight)}**{inside(exponent, tight)}", binds
        case "+" | "-", [left, right]:
            return f"{inside(left, binds)} {node.kind} {inside(right, binds + 1)}", binds
        case "*" | "/", [left, right]:
            return f"{inside(left, binds)}{node.kind}{inside(right, binds + 1)}", binds
        case _:
            return f"{node.kind}({', '.join(text for text, _ in args)})", tight


def traced(function: Callable[[Any], Any], shape: tuple[int, ...], name: str) -> Program:
    """The operations of a function of points of one shape, or Unanswerable."""
    tape = _Tape(name)
    point = np.array([tape.note("variable", value=float(k)) for k in range(prod(shape))], dtype=object)
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(function(point.reshape(1, *shape)), dtype=object)[0]
    except Unanswerable:
        raise
    except Exception:
        raise Unanswerable from None
    flat = np.atleast_1d(result).ravel()
    outputs = [out if isinstance(out, Symbol) else tape.note("constant", value=float(out)) for out in flat]
    return Program(name, tuple(tape.nodes), tuple(out.number for out in outputs), np.ndim(result) > 0)
