"""The rule `one feature`: networks that treat every token alike and alone, by a claim in one variable [T 11.5].

Let keys and values of an attention layer be constants, and let the query of token i depend on one feature g_i only, in
the same way for all i. Then output i is `Y(g_i)`, Y one function as computed, and the target `clip(z_i, a, b)`:

    |Y(g_i) - clip(z_i, a, b)| <= max_g |Y(g) - clip(g, a, b)| + |g_i - z_i|,

because a clip does not widen distances. g_i is the feature as computed; it is followed as a form, with what rounding
adds, and g runs over an interval that holds the ranges of all g_i. The maximum is bounded on a cover of that interval.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from flint import arb

from .covers import Box
from .errors import NotCovered
from .files import Affine, Attention, Claim, Domain, Floats, Network, Proof
from .forms import Form, Unknowns
from .limits import Limits
from .network import balls
from .ranges import largest, smallest
from .structure import Follower
from .targets import stages_of


def reduced(claim: Claim, box: Box, proof: Proof, limits: Limits) -> tuple[Claim, arb]:
    """The claim in one variable, with a proof of it, and `max_i |g_i - z_i|`."""
    stages, layers = stages_of(claim), claim.network.layers
    match layers:
        case (Affine(), Attention(residual=False) as layer) if len(stages) == 1:
            pass
        case _:
            raise NotCovered("the rule 'one feature' for other networks or targets")
    weight, bias, low, high = stages[0]
    unknowns = Unknowns(box.low, box.high)
    follower = Follower(claim.network, unknowns, limits)
    tokens = follower.after(0, follower.inputs())
    alike = bool((low == low[0]).all() and (high == high[0]).all()) and low[0] <= high[0]
    if not alike or layer.output.shape[2] != 1 or len(tokens) != claim.outputs:
        raise NotCovered("the rule 'one feature' for tokens that are not alike")
    feature, row, constants = _read(layer, tokens)
    features = [token[feature] for token in tokens]
    columns = zip(weight.T, balls(bias), strict=True)
    wanted = [unknowns.weighted(balls(column), unknowns.variables, b) for column, b in columns]
    apart = largest([(g - z).most for g, z in zip(features, wanted, strict=True)])
    first, last = smallest([g.range.low for g in features]), largest([g.range.high for g in features])
    ends = np.array([[np.nextafter(float(first), -np.inf)], [np.nextafter(float(last), np.inf)]])
    lift = Affine(np.eye(1, len(row), feature)[None], row[None], None)
    frozen = replace(layer, memory=np.concatenate([layer.memory, constants]), attends_data=False)
    arrays = {"0.weight": np.ones((1, 1)), "0.bias": np.zeros(1), "0.low": low[:1], "0.high": high[:1]}
    inner = replace(
        claim,
        network=Network((lift, frozen), 1, 1, claim.network.dtype),
        domain=Domain(ends[0], ends[1], ("g",)),
        outputs=1,
        target={"kind": "piecewise linear", "stages": 1},
        arrays=arrays,
        proof=proof,
    )
    return inner, apart


def _read(layer: Attention, tokens: list[list[Form]]) -> tuple[int, Floats, Floats]:
    """The one varying feature that queries read, the constants that they read too, (d,), and those of keys, (n, d)."""
    varies = np.array([any(not form.constant for form in column) for column in zip(*tokens, strict=True)])  # (d,)
    reads = [(weight != 0).any(axis=(0, 2)) for weight in (layer.query, layer.key, layer.value)]  # (d,) each
    wanted, fixed = np.flatnonzero(reads[0] & varies), reads[0] & ~varies
    shown = (reads[1] | reads[2]) & layer.attends_data
    constants = np.zeros((len(tokens), len(varies)))  # (n, d)
    for place, column in np.argwhere(np.broadcast_to((fixed | shown) & ~varies, constants.shape)).tolist():
        constants[place, column] = exact_number(tokens[place][column])
    if len(wanted) != 1 or (shown & varies).any() or (constants[:, fixed] != constants[:1, fixed]).any():
        raise NotCovered("the rule 'one feature' for a layer that reads several")
    return int(wanted[0]), np.where(fixed, constants[0], 0.0), constants if layer.attends_data else constants[:0]


def exact_number(form: Form) -> float:
    """A constant that is a float."""
    number = float(form.start)
    if not (form.start.is_exact() and arb(number) == form.start):
        raise NotCovered("an argument in one variable for constants that are rounded")
    return number
