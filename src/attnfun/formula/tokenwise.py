"""Maps on sequences that treat every token alike: `f(X)_i = g(x_i)` [T 11.8].

That is read off the program: an output of token i may depend on the variables of token i only, and with these renamed
to those of the first token, it must be the same operations on the same constants as the first token's output.
"""

from __future__ import annotations

from .program import Program


def acts_on_each_token(program: Program, length: int, width: int) -> bool:
    """Is the program, on `length` tokens of `width` features, one function of each token?

    >>> from .tracing import traced
    >>> acts_on_each_token(traced(lambda X: X**2 + 1, (3, 2), "f"), 3, 2)
    True
    >>> acts_on_each_token(traced(lambda X: X - X[..., ::-1, :], (3, 2), "f"), 3, 2)
    False
    """
    if len(program.outputs) % length:
        return False
    each, numbers = len(program.outputs) // length, dict[object, int]()
    by_token = []
    for token in range(length):
        names = _named(program, range(token * width, (token + 1) * width), numbers)
        by_token.append([names[k] for k in program.outputs[token * each : (token + 1) * each]])
    return None not in by_token[0] and all(names == by_token[0] for names in by_token)


def _named(program: Program, own: range, numbers: dict[object, int]) -> list[int | None]:
    """A number for every operation on the variables `own`, equal for equal operations; None if it needs others."""
    names: list[int | None] = []
    for node in program.nodes:
        args = tuple(names[k] for k in node.args)
        if None in args or (node.kind == "variable" and int(node.value) not in own):
            names.append(None)
            continue
        value = int(node.value) - own.start if node.kind == "variable" else node.value
        names.append(numbers.setdefault((node.kind, args, value, node.exact), len(numbers)))
    return names
