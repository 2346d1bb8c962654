"""The rule `one token`: maps that treat every token of a sequence alone, by claims about one token each [T 11.8].

If no layer mixes tokens, output t of the network depends on token t only. If the steps of the target behind output t
read variables of token t only, the error of that output is that of a claim in the variables of one token. Tokens with
the same steps on the same box have the same claim.
"""

from __future__ import annotations

from dataclasses import replace

from .errors import NotCovered
from .files import Affine, Attention, Claim, Domain, Proof
from .formula import Program, Step
from .targets import steps_of


def alone(claim: Claim, proof: Proof) -> list[Claim]:
    """The claims about one token each, every one of them once."""
    network, domain = claim.network, claim.domain
    for layer in network.layers:
        mixing = isinstance(layer, Affine) and layer.left is not None
        if mixing or (isinstance(layer, Attention) and layer.attends_data):
            raise NotCovered("the rule 'one token' for layers that mix tokens")
    if domain.condition is not None or domain.points is not None:
        raise NotCovered("the rule 'one token' on a domain that is no box")
    steps, outputs = steps_of(claim)
    width, each = network.width, claim.outputs // network.length
    claims, seen = list[Claim](), set[object]()
    for token in range(network.length):
        own = slice(token * width, (token + 1) * width)
        program = _of_token(steps, outputs[token * each : (token + 1) * each], own.start, width)
        low, high = domain.low[own], domain.high[own]
        key = (program, low.tobytes(), high.tobytes())
        if key not in seen:
            seen.add(key)
            names = tuple(f"x{k}" for k in range(width))
            claims.append(
                replace(
                    claim,
                    network=replace(network, length=1),
                    domain=Domain(low, high, names),
                    outputs=each,
                    target={"kind": "expression", "program": program},
                    proof=proof,
                )
            )
    return claims


def _of_token(steps: list[Step], outputs: list[int], first: int, width: int) -> Program:
    """The steps that some outputs need, in the variables of one token."""
    needed, stack = set(outputs), list(outputs)
    while stack:
        more = [k for k in steps[stack.pop()][1] if k not in needed]
        needed.update(more)
        stack += more
    places, kept = dict[int, int](), list[Step]()
    for number in sorted(needed):
        kind, args, value = steps[number]
        if kind == "variable" and isinstance(value, int):
            value -= first
            if not 0 <= value < width:
                raise NotCovered("the rule 'one token' for a target that mixes tokens")
        places[number] = len(kept)
        kept.append((kind, tuple(places[k] for k in args), value))
    return Program(tuple(kept), tuple(places[k] for k in outputs))
