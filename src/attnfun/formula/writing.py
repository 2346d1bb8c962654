"""A program as text: a formula that the parser, and the judge, read again as the same function."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from .functions import CONSTANTS, LOGIC, TRUTHS
from .program import Node, Program

BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "**": 4}
"""How tightly operators bind; all else binds tighter."""
LONGEST = 20_000
"""Letters of a program that is written down as a formula."""


def written(program: Program, names: Sequence[str] | None = None) -> str | None:
    """A program as a formula in the variables x0, x1, ..., its constants exact; None where that is too long.

    >>> from .tracing import traced
    >>> written(traced(lambda p: (p[..., 0] - 0.5) * -p[..., 1], (2,), "f"))
    '(x0 - 0.5)*-x1'
    """
    texts: list[tuple[str, int]] = []
    for node in program.nodes:
        texts.append(_written(node, [texts[k] for k in node.args], names))
        if len(texts[-1][0]) > LONGEST:
            return None
    outputs = [texts[k][0] for k in program.outputs]
    whole = f"[{', '.join(outputs)}]" if program.is_vector else outputs[0]
    return whole if len(whole) <= LONGEST else None


def _written(node: Node, args: list[tuple[str, int]], names: Sequence[str] | None) -> tuple[str, int]:
    """The text of one operation, and how tightly it binds."""
    tight = BINDS["**"] + 1
    if node.kind == "variable":
        return f"x{int(node.value)}" if names is None else names[int(node.value)], tight
    if node.kind == "constant" and not node.exact:
        return next(name for name, value in CONSTANTS.items() if value == node.value), tight
    if node.kind == "constant":
        digits = str(Decimal(abs(node.value)))
        return (f"-{digits}", BINDS["neg"]) if node.value < 0 else (digits, tight)
    binds = BINDS.get(node.kind, tight)

    def inside(arg: tuple[str, int], least: int) -> str:
        return arg[0] if arg[1] >= least else f"({arg[0]})"

    if node.kind in TRUTHS:
        return _condition(node.kind, [text for text, _ in args]), 0
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


def _condition(kind: str, args: list[str]) -> str:
    """A comparison, or logic of comparisons, in brackets as soon as it is part of something."""
    if kind == "not":
        return f"not ({args[0]})"
    return f"({args[0]}) {kind} ({args[1]})" if kind in LOGIC else f"{args[0]} {kind} {args[1]}"
