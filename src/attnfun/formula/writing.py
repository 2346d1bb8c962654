"""A program as text: a formula that the parser, and the judge, read again as the same function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from .functions import CONSTANTS, LOGIC, TRUTHS
from .program import Program, ProgramNode

BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "**": 4}
"""How tightly operators bind; all else binds tighter."""
TIGHT = 5


@dataclass(frozen=True)
class WritingTuning:
    """How long a formula may be."""

    longest: int = 20_000
    """Letters of a program that is written down as a formula. A round number."""


TUNING = WritingTuning()


def written(program: Program, names: Sequence[str] | None = None) -> str | None:
    """A program as a formula in the variables x0, x1, ..., its constants exact; None where that is too long.

    >>> from .tracing import traced
    >>> written(traced(lambda p: (p[..., 0] - 0.5) * -p[..., 1], (2,), "f"))
    '(x0 - 0.5)*-x1'
    """
    texts: list[Spelled] = []
    for node in program.nodes:
        texts.append(_written(node, [texts[k] for k in node.args], names))
        if len(texts[-1].text) > TUNING.longest:
            return None
    outputs = [texts[k].text for k in program.outputs]
    whole = f"[{', '.join(outputs)}]" if program.is_vector else outputs[0]
    return whole if len(whole) <= TUNING.longest else None


class Spelled(NamedTuple):
    """A part of a formula, and how tightly its outermost operation binds."""

    text: str
    binds: int = TIGHT


def _written(node: ProgramNode, args: list[Spelled], names: Sequence[str] | None) -> Spelled:
    """The text of one operation, and how tightly it binds."""
    if node.kind == "variable":
        return Spelled(f"x{int(node.value)}" if names is None else names[int(node.value)])
    if node.kind == "constant" and not node.exact:
        return Spelled(next(name for name, value in CONSTANTS.items() if value == node.value))
    return spelled_number(node.value) if node.kind == "constant" else spelled(node.kind, args)


def spelled_number(value: float) -> Spelled:
    """A float by its exact digits."""
    digits = str(Decimal(abs(value)))
    return Spelled(f"-{digits}", BINDS["neg"]) if value < 0 else Spelled(digits)


def spelled(kind: str, args: Sequence[Spelled]) -> Spelled:
    """The text of an operation on others."""
    binds = BINDS.get(kind, TIGHT)

    def inside(arg: Spelled, least: int) -> str:
        return arg.text if arg.binds >= least else f"({arg.text})"

    if kind in TRUTHS:
        return Spelled(_condition(kind, [arg.text for arg in args]), 0)
    match kind, args:
        case "neg", [operand]:
            return Spelled(f"-{inside(operand, binds + 1)}", binds)
        case "**", [base, exponent]:
            return Spelled(f"{inside(base, TIGHT)}**{inside(exponent, TIGHT)}", binds)
        case "+" | "-", [left, right]:
            return Spelled(f"{inside(left, binds)} {kind} {inside(right, binds + 1)}", binds)
        case "*" | "/", [left, right]:
            return Spelled(f"{inside(left, binds)}{kind}{inside(right, binds + 1)}", binds)
        case _:
            return Spelled(f"{kind}({', '.join(arg.text for arg in args)})")


def _condition(kind: str, args: list[str]) -> str:
    """A comparison, or logic of comparisons, in brackets as soon as it is part of something."""
    if kind == "not":
        return f"not ({args[0]})"
    return f"({args[0]}) {kind} ({args[1]})" if kind in LOGIC else f"{args[0]} {kind} {args[1]}"
