"""Targets on a box, in Taylor models: formulas, piecewise-linear functions, and functions made of others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import inf

import numpy as np
from flint import arb

from . import formula
from .errors import NotCovered, Unreadable
from .files import Claim, Floats
from .models import Model, weighted
from .network import balls

LARGEST = sys.float_info.max
Target = Callable[[list[Model]], list[Model]]
"""A function of the variables' models on a box."""


def target_of(claim: Claim) -> Target:
    """The function that a claim is about."""
    kind = claim.target.get("kind")
    if not isinstance(kind, str):
        raise Unreadable("a target must have a kind")
    if kind not in READERS:
        raise NotCovered(f"a target whose definition is not in the file ({kind[:40]})")
    if claim.parts and kind not in ("composed", "stacked", "restricted"):
        raise Unreadable(f"a target of the kind {kind} must have no parts")
    return READERS[kind](claim)


def steps_of(claim: Claim) -> tuple[list[formula.Step], list[int]]:
    """A formula, or a function whose operations were written down as a formula in x0, x1, ..."""
    known = claim.target.get("program")
    if isinstance(known, formula.Program):  # the judge's own
        return list(known.steps), list(known.outputs)
    text, names = claim.target.get("text"), claim.domain.names
    if claim.target.get("kind") != "expression":
        text, names = claim.target.get("formula"), tuple(f"x{k}" for k in range(len(claim.domain.low)))
    if text is None and claim.target.get("kind") == "expression":
        raise Unreadable("a formula must have a text")
    if text is None:
        raise NotCovered(f"a target whose definition is not in the file ({str(claim.target.get('kind'))[:40]})")
    if not isinstance(text, str):
        raise Unreadable("a formula must be a text")
    steps, outputs = formula.read(text, names)
    if len(outputs) != claim.outputs:
        raise Unreadable("the formula must have as many outputs as the network")
    return steps, outputs


def _formula(claim: Claim) -> Target:
    steps, outputs = steps_of(claim)
    return lambda variables: formula.evaluate(steps, outputs, variables)


Stage = tuple[Floats, Floats, Floats, Floats]
"""`clip(x W + b, low, high)`: (d, m), (m,), (m,), (m,); ends may be infinite."""


def stages_of(claim: Claim) -> list[Stage]:
    """A piecewise-linear target: affine maps with clips behind them."""
    match claim.target.get("kind"):
        case "piecewise linear":
            stages = _written_stages(claim)
        case "truncated linear":
            stages = [_truncated_linear(claim)]
        case kind:
            raise NotCovered(f"a target that is not piecewise linear ({str(kind)[:40]})")
    width = len(claim.domain.low)
    for weight, *others in stages:
        if len(weight) != width or not width or any(each.shape != weight.shape[1:] for each in others):
            raise Unreadable("the stages of a piecewise-linear target must fit together")
        if (others[1] == inf).any() or (others[2] == -inf).any():
            raise Unreadable("the clips of a piecewise-linear target must leave numbers")
        width = weight.shape[1]
    if width != claim.outputs:
        raise Unreadable("a piecewise-linear target must have as many outputs as the network")
    return stages


def _written_stages(claim: Claim) -> list[Stage]:
    count = claim.target.get("stages")
    if type(count) is not int or not 0 < count <= len(claim.arrays):
        raise Unreadable("a piecewise-linear target must have stages")
    return [
        (
            _numbers(claim, f"{k}.weight", 2),
            _numbers(claim, f"{k}.bias", 1),
            _numbers(claim, f"{k}.low", 1, finite=False),
            _numbers(claim, f"{k}.high", 1, finite=False),
        )
        for k in range(count)
    ]


def _truncated_linear(claim: Claim) -> Stage:
    """`clip(w_i · x_i + t_i, a, b)` for each token x_i."""
    weights, offsets, ends = _numbers(claim, "w", 2), _numbers(claim, "t", 1), claim.target.get("ends")
    fits = weights.size == len(claim.domain.low) and len(offsets) == len(weights) == claim.outputs
    if not fits or not isinstance(ends, list) or len(ends) != 2:
        raise Unreadable("a truncated linear target must have weights, offsets and ends")
    if not all(type(end) in (int, float) and (abs(end) <= LARGEST or abs(end) == inf) for end in ends):
        raise Unreadable("the ends of a truncated linear target must be numbers")
    count, width = weights.shape
    matrix = np.zeros((count * width, count))
    for token, row in enumerate(weights):
        matrix[token * width : (token + 1) * width, token] = row
    low, high = (np.full(count, float(end)) for end in ends)
    return matrix, offsets, low, high


def _piecewise_linear(claim: Claim) -> Target:
    stages = stages_of(claim)

    def target(variables: list[Model]) -> list[Model]:
        for weight, bias, low, high in stages:
            sums = [
                weighted(balls(column), variables, b, variables[0].space)
                for column, b in zip(weight.T, balls(bias), strict=True)
            ]
            variables = [_clipped(z, a, b) for z, a, b in zip(sums, low.tolist(), high.tolist(), strict=True)]
        return variables

    return target


def planes_of(claim: Claim) -> list[tuple[Floats, Floats]]:
    """`max_j (a_j · x + b_j)`, minus another such maximum if there is one: slopes (N, D) and offsets (N,) of each."""
    both = [
        (_numbers(claim, f"{side}A", 2), _numbers(claim, f"{side}b", 1))
        for side in ("", "minus.")
        if side == "" or f"{side}A" in claim.arrays
    ]
    if claim.outputs != 1:
        raise Unreadable("a max-affine target must have one output")
    for slopes, offsets in both:
        if slopes.shape != (len(offsets), len(claim.domain.low)) or not len(offsets):
            raise Unreadable("the planes of a max-affine target must have a slope for each variable")
    return both


def _max_affine(claim: Claim) -> Target:
    both = planes_of(claim)

    def target(variables: list[Model]) -> list[Model]:
        maxima = [_largest_plane(slopes, offsets, variables) for slopes, offsets in both]
        return [maxima[0] if len(maxima) == 1 else maxima[0] - maxima[1]]

    return target


def _largest_plane(slopes: Floats, offsets: Floats, variables: list[Model]) -> Model:
    space = variables[0].space
    planes = [weighted(balls(row), variables, b, space) for row, b in zip(slopes, balls(offsets), strict=True)]
    centre = np.argsort([-float(plane.polynomial[0]) for plane in planes], kind="stable")
    result = planes[centre[0]]
    for k in centre[1:]:
        result = result.extreme(planes[k], largest=True)
    return result


def _composed(claim: Claim) -> Target:
    """One function of the values of another; it is defined where both are."""
    if len(claim.parts) != 2:
        raise Unreadable("a composed target must have two parts")
    (outer, inner), (last, first) = (target_of(part) for part in claim.parts), claim.parts
    _must_fit(len(first.domain.low), len(claim.domain.low))
    _must_fit(len(last.domain.low), first.outputs)
    _must_fit(last.outputs, claim.outputs)

    def target(variables: list[Model]) -> list[Model]:
        values = inner(variables)
        ranges = [value.range for value in values]
        return [Model(y.space, y.polynomial, y.rest, y.natural.known(*ranges)) for y in outer(values)]

    return target


def _stacked(claim: Claim) -> Target:
    parts = [target_of(part) for part in claim.parts]
    for part in claim.parts:
        _must_fit(len(part.domain.low), len(claim.domain.low))
    _must_fit(sum(part.outputs for part in claim.parts), claim.outputs)
    return lambda variables: [output for part in parts for output in part(variables)]


def _restricted(claim: Claim) -> Target:
    if len(claim.parts) != 1:
        raise Unreadable("a restricted target must have one part")
    (part,) = claim.parts
    _must_fit(len(part.domain.low), len(claim.domain.low))
    _must_fit(part.outputs, claim.outputs)
    return target_of(part)


def _must_fit(count: int, wanted: int) -> None:
    if count != wanted:
        raise Unreadable("the parts of a target must have as many variables and outputs as the whole needs")


def _numbers(claim: Claim, name: str, dimensions: int, *, finite: bool = True) -> Floats:
    """An array of the target."""
    array = claim.arrays.get(name)
    if array is None or array.dtype != np.float64 or array.ndim != dimensions or np.isnan(array).any():
        raise Unreadable(f"the target must have {name} as numbers in {dimensions} dimensions")
    if finite and not np.isfinite(array).all():
        raise Unreadable(f"the target must have finite numbers as {name}")
    return array


def _clipped(model: Model, low: float, high: float) -> Model:
    """`min(max(z, low), high)`; infinite ends do nothing."""
    if np.isfinite(low):
        model = model.extreme(Model.constant(model.space, arb(low)), largest=True)
    if np.isfinite(high):
        model = model.extreme(Model.constant(model.space, arb(high)), largest=False)
    return model


def _fitted(claim: Claim) -> Target:
    """The coefficients of a fitted model (`in_context.py`), which no formula says."""

    def values(variables: list[Model]) -> list[Model]:
        raise NotCovered(f"a fitted model, on boxes of {len(variables)} variables")

    return values


READERS: dict[object, Callable[[Claim], Target]] = {
    "expression": _formula,
    "traced": _formula,
    "piecewise linear": _piecewise_linear,
    "truncated linear": _piecewise_linear,
    "max-affine": _max_affine,
    "composed": _composed,
    "stacked": _stacked,
    "restricted": _restricted,
    "fitted model": _fitted,
}
"""Targets by their kinds; those of other kinds are not in files."""
