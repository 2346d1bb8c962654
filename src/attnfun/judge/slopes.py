"""Slopes of targets on boxes, how far they reach, and how far values can be apart where arguments are close [T 11.7].

Every target that is in a file is a program of the operations of formulas. Its slopes on a box follow step by step from
ranges. Along a segment each step is a function of one variable that has a derivative almost everywhere, and is the
integral of that derivative, unless it jumps; where it may jump the slope is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np
from flint import arb

from . import formula
from .covers import Box
from .errors import NotCovered
from .files import Claim, Floats
from .formula import Step
from .functions import function_of, is_function
from .limits import Limits, on_box
from .models import Model, space, total
from .ranges import INFINITE, ONE, ZERO, Range, down, larger, largest, smaller, up
from .targets import planes_of, stages_of, steps_of


@dataclass(frozen=True)
class SlopeLimits:
    """How finely slopes are enclosed."""

    most_power: int = 5000
    """Whole exponents below this one have slopes of their own. A round number."""
    most_steps: int = 2**16
    """Steps of a program. For memory."""
    a_slope: int = 2**6
    """Operations for a range or a slope of a step. By trial."""
    most_boxes: int = 512
    """Boxes, times the variables, for a range or a modulus. For time."""
    close: float = 1.02
    """A modulus may be this many times as large as slopes at centres say. By trial."""


TUNING = SlopeLimits()

NOWHERE = Range(-INFINITE, INFINITE)

Program = tuple[list[Step], list[int]]


def program_of(claim: Claim) -> Program:
    """The target of a claim, and of what that is made, as steps and their outputs."""
    steps = list[Step]()
    variables = [_add(steps, "variable", value=k) for k in range(len(claim.domain.low))]
    return steps, _written(claim, variables, steps)


def _add(steps: list[Step], kind: str, *args: int, value: Fraction | str | int | None = None) -> int:
    if len(steps) > TUNING.most_steps:
        raise NotCovered(f"the slopes of a target of more than {TUNING.most_steps} steps")
    steps.append((kind, args, value))
    return len(steps) - 1


def _written(claim: Claim, variables: list[int], steps: list[Step]) -> list[int]:
    """The outputs of a target of these steps."""
    match claim.target.get("kind"), claim.parts:
        case "composed", (outer, inner):
            return _written(outer, _written(inner, variables, steps), steps)
        case "stacked" | "restricted", _:
            return [output for part in claim.parts for output in _written(part, variables, steps)]
        case "max-affine", _:
            both = [_largest(steps, [_affine(steps, row, b, variables) for row, b in zip(*each, strict=True)])
                    for each in planes_of(claim)]  # fmt: skip
            return [both[0] if len(both) == 1 else _add(steps, "-", *both)]
        case "expression" | "traced", _:
            own, outputs = steps_of(claim)
            places = list[int]()
            for kind, args, value in own:
                if kind == "variable" and isinstance(value, int):
                    places.append(variables[value])
                else:
                    places.append(_add(steps, kind, *(places[k] for k in args), value=value))
            return [places[k] for k in outputs]
    for weight, bias, low, high in stages_of(claim):
        sums = [_affine(steps, column, b, variables) for column, b in zip(weight.T, bias, strict=True)]
        for kind, ends in (("max", low), ("min", high)):
            sums = [
                _add(steps, kind, z, _number(steps, end)) if np.isfinite(end) else z
                for z, end in zip(sums, ends, strict=True)
            ]
        variables = sums
    return variables


def _number(steps: list[Step], number: float) -> int:
    return _add(steps, "number", value=Fraction(float(number)))


def _affine(steps: list[Step], weights: Floats, constant: float, variables: list[int]) -> int:
    result = _number(steps, constant)
    for weight, variable in zip(weights.tolist(), variables, strict=True):
        if weight:
            result = _add(steps, "+", result, _add(steps, "*", _number(steps, weight), variable))
    return result


def _largest(steps: list[Step], places: list[int]) -> int:
    result = places[0]
    for place in places[1:]:
        result = _add(steps, "max", result, place)
    return result


def gradients(
    steps: Sequence[Step], outputs: Sequence[int], variables: Sequence[Model]
) -> list[tuple[Range, list[arb]]]:
    """Of each output its values on a box, and the largest slopes along all variables; infinite where it may jump."""
    ranges = [model.range for model in formula.evaluate(steps, range(len(steps)), variables)]
    found: list[tuple[Range, list[arb]]] = [(ranges[k], []) for k in outputs]
    for axis in range(len(variables)):
        slopes = slopes_along(axis, steps, ranges)
        for place, (values, known) in zip(outputs, found, strict=True):
            known.append(slopes[place].most if values.defined and slopes[place].bounded else INFINITE)
    return found


def slopes_along(axis: int, steps: Sequence[Step], ranges: Sequence[Range]) -> list[Range]:
    """The slopes of all steps along a variable, from their values; anything where a step may jump."""
    slopes = list[Range]()
    for (kind, args, value), own in zip(steps, ranges, strict=True):
        if kind == "variable":
            slopes.append(Range(ONE, ONE) if value == axis else Range(ZERO, ZERO))
        else:
            slopes.append(_slope(kind, [ranges[k] for k in args], [slopes[k] for k in args], own))
    return slopes


def _slope(kind: str, values: list[Range], slopes: list[Range], own: Range) -> Range:
    """The derivative of an operation, from the values and derivatives of what it works on, and its own values."""
    match kind, values, slopes:
        case "number" | "constant", [], []:
            return Range(ZERO, ZERO)
        case "+", _, [a, b]:
            return a + b
        case "-", _, [a, b]:
            return a - b
        case "neg", _, [a]:
            return -a
        case "*", [f, g], [a, b]:
            return a * g + f * b
        case "/", [_, g], [a, b]:
            return (a - own * b) / g
        case "**", [f, g], [a, b] if (
            b.most.is_zero() and g.low == g.high and g.low.is_integer() and g.most < TUNING.most_power
        ):
            exponent = round(float(g.low))
            return f.power(exponent - 1) * g * a if exponent else Range(ZERO, ZERO)
        case "**", [f, g], [a, b] if f.low > 0:
            return own * (b * function_of("log").range_(f) + g * a / f)
        case "abs", [f], [a]:
            return a if f.low >= 0 else -a if f.high <= 0 else a.join(-a)
        case "max" | "min", [f, g], [a, b]:
            above = f.low >= g.high if kind == "max" else f.high <= g.low
            below = g.low >= f.high if kind == "max" else g.high <= f.low
            return a if above else b if below else a.join(b)
        case "where", [truth, _, _], [_, a, b] if truth.low > 0 or truth.high < 1:
            return a if truth.low > 0 else b
        case _, [f], [a] if is_function(kind) and f.bounded:
            return Range.point(function_of(kind).series(f.ball, 1)[1]) * a
    return NOWHERE


def times(slope: arb, apart: arb) -> arb:
    """What a distance becomes; a distance of zero stays zero."""
    return ZERO if apart.is_zero() else up(slope * apart) if slope.is_finite() and apart.is_finite() else INFINITE


def reach(values: Callable[[Box], list[Range] | None], boxes: list[Box], room: Sequence[Range]) -> list[Range]:
    """Ranges that hold the values of a target on boxes, which are cut where those stick out of `room`.

    `values` has ranges for a box, or nothing where no point of the domain is.
    """
    hull: list[Range] = []
    stack, count, size = list(boxes), 0, len(boxes[0].low)
    extent = np.maximum(boxes[0].high - boxes[0].low, np.finfo(np.float64).tiny)
    while stack:
        box, count = stack.pop(), count + 1
        ranges = values(box)
        if ranges is None:
            continue
        inside = all(a.low >= b.low and a.high <= b.high for a, b in zip(ranges, room, strict=True))
        halves = None if inside or count * size >= TUNING.most_boxes else box.cut(box.longest(extent))
        if halves is not None:
            stack += halves
        else:
            hull = [a.join(b) for a, b in zip(hull, ranges, strict=True)] if hull else ranges
    return hull


def modulus(program: Program, whole: Box, apart: Sequence[arb], limits: Limits) -> list[arb]:
    """How far each output can differ at two points of a box that are no farther than `apart` along each variable.

    The box is covered by boxes. Each has a slope, `Σ_k sup |∂_k f| d_k`, or, if that is smaller, the width of the range
    of f on all that is within d of it. If the segment between two points meets only boxes of the first kind, integrate
    along it; if it meets one of the second kind at w, both points are within d of w. The box that is farthest from what
    slopes at centres say is cut first.
    """
    if all(each.is_zero() for each in apart):
        return [ZERO] * len(program[1])
    extent = np.maximum(whole.high - whole.low, np.finfo(np.float64).tiny)
    found = [ZERO] * len(program[1])
    cover, fresh, count = list[tuple[Box, list[arb]]](), [whole], 0
    while True:
        for box in fresh:
            limits.step(on_box(TUNING.a_slope * (1 + len(apart)) * len(program[0])))
            bounds = _apart(program, box, whole, apart)
            centre = _steepness(program, Box(box.middle, box.middle), apart)
            found = [larger(a, smaller(b, c)) for a, b, c in zip(found, centre, bounds, strict=True)]
            cover.append((box, bounds))
            count += 1
        excess = [max(_ratio(a, b) for a, b in zip(bounds, found, strict=True)) for _, bounds in cover]
        worst = int(np.argmax(excess))
        box = cover[worst][0]
        halves = box.cut(box.longest(extent)) if count * len(whole.low) < TUNING.most_boxes else None
        if excess[worst] <= TUNING.close or halves is None:
            return [largest(list(each)) for each in zip(*(bounds for _, bounds in cover), strict=True)]
        del cover[worst]
        fresh = list(halves)


def _ratio(bound: arb, found: arb) -> float:
    return 1.0 if bound <= found else float(bound / found) if found > 0 and bound.is_finite() else inf


def _apart(program: Program, box: Box, whole: Box, apart: Sequence[arb]) -> list[arb]:
    """For each output the slope on a box, or the width of its range near the box."""
    ends = list(zip(box.low.tolist(), box.high.tolist(), apart, strict=True))
    low = np.nextafter([float(down(arb(low) - d)) for low, _, d in ends], -inf)
    high = np.nextafter([float(up(arb(high) + d)) for _, high, d in ends], inf)
    near = Box(np.maximum(low, whole.low), np.minimum(high, whole.high))
    ranges = [f.range for f in formula.evaluate(*program, near.variables(space(len(low), 1)))]
    widths = [up(f.high - f.low) if f.defined and f.bounded else INFINITE for f in ranges]
    return [smaller(a, b) for a, b in zip(_steepness(program, box, apart), widths, strict=True)]


def _steepness(program: Program, box: Box, apart: Sequence[arb]) -> list[arb]:
    """`Σ_k sup |∂_k f| d_k` of each output on a box."""
    found = gradients(*program, box.variables(space(len(box.low), 1)))
    return [up(total([times(slope, d) for slope, d in zip(slopes, apart, strict=True)])) for _, slopes in found]
