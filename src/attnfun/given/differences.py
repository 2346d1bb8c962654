"""Enclose the difference of two networks of one structure: recursion on differences [T 12.5].

Both networks are enclosed on the same symbols, and beside them the difference d = b - a of every node. Rules for
differences are small where weights are close: a linear map gives `d W_b + a (W_b - W_a)`, a product
`d_x y_b + x_a d_y`, a function of one number a slope times d. So what relaxations leave open is a fraction of the
difference, not of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..arithmetic.directed import ULP, add_up, multiply, rounded_up
from ..targets.readers.graph import ELEMENTWISE, OPERATIONS, Graph, Node
from . import forms
from .enclosure import (
    EnclosedValue,
    Run,
    applied,
    enclose,
    grouped,
    joined,
    mean_of,
    seen_value,
    summed,
    value_of,
    variance_of,
)
from .forms import Form, Symbols, constant, opened, promoted, scaled
from .functions import FUNCTIONS, IntervalFunction, slope_range, with_data
from .softmax import applied as applied_slopes
from .softmax import differences, ends, gaps, lines, products, weights_between

Inputs = list[tuple[Form, Form, Form]]
"""Of each argument: the values of both networks and their difference."""
Rule = Callable[..., Form]


def alike(a: Graph, b: Graph) -> bool:
    """Have two graphs one structure: the same operations on the same nodes, with the same shapes and axes?"""
    return len(a.nodes) == len(b.nodes) and a.output == b.output and all(map(_alike, a.nodes, b.nodes))


def _alike(a: Node, b: Node) -> bool:
    if (a.operation, a.inputs, a.shape, set(a.data)) != (b.operation, b.inputs, b.shape, set(b.data)):
        return False
    for name, value in a.data.items():
        free = a.operation in ("linear", "scale", "shift", "constant")
        if np.shape(value) != np.shape(b.data[name]) or not (free or np.array_equal(value, b.data[name])):
            return False
    return True


def enclose_difference(a: Graph, b: Graph, seen: Form, run: Run) -> Form:
    """`b - a` as computed, (B, *output shape), on the inputs that `seen` stands for."""
    if not alike(a, b):
        return enclose(b, seen, run) - enclose(a, seen, run)
    users = a.users()
    found = dict[int, tuple[EnclosedValue, EnclosedValue, Form]]()
    for number, (first, second) in enumerate(zip(a.nodes, b.nodes, strict=True)):
        if not users[number] and number:
            continue
        if first.operation == "input":
            nothing = constant(np.zeros(seen.shape), len(seen.centre))
            found[0] = seen_value(seen), seen_value(seen), nothing
            continue
        arguments = [found[source] for source in first.inputs]
        one = value_of(first, [each[0] for each in arguments], run, seen)
        other = value_of(second, [each[1] for each in arguments], run, seen)
        found[number] = one, other, _difference(first, second, arguments, one, other, run, seen)
        for source in set(first.inputs):
            if users[source][-1] == number and source != a.output:
                del found[source]
    return found[a.output][2]


def _difference(
    a: Node,
    b: Node,
    arguments: list[tuple[EnclosedValue, EnclosedValue, Form]],
    one: EnclosedValue,
    other: EnclosedValue,
    run: Run,
    seen: Form,
) -> Form:
    """The difference of one node as computed."""
    if a.operation == "constant":
        return constant(np.asarray(b.data["value"] - a.data["value"], dtype=np.float64), len(seen.centre)).widened(
            np.broadcast_to(ULP * np.abs(b.data["value"] - a.data["value"]), one.form.lo.shape)
        )
    inputs = [(first.form, second.form, difference) for first, second, difference in arguments]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        form = RULES[a.operation](run, inputs, a.data, b.data)
        form = form.widened(rounded_up(one.off + other.off, 1))
        return closer(form, other.form - one.form)


def closer(a: Form, b: Form) -> Form:
    """Two forms of one value as one: element by element the one with less left open, and the ends of both."""
    count = max(a.terms.shape[1], b.terms.shape[1])
    a, b = forms.padded(a, count), forms.padded(b, count)
    first = a.radius <= b.radius  # (B, *S)
    return Form(
        np.where(first, a.centre, b.centre),
        np.where(first[:, None], a.terms, b.terms),
        np.where(first, a.slack, b.slack),
        np.maximum(a.lo, b.lo),
        np.minimum(a.hi, b.hi),
    )


def _linear(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    ((x, _, d),) = inputs
    weight, bias = b["weight"] - a["weight"], b["bias"] - a["bias"]
    moved = forms.linear(d, b["weight"], np.zeros_like(bias))
    return moved + forms.linear(x, weight, bias) if weight.any() or bias.any() else moved


def _matmul(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    (x, _, dx), (_, y, dy) = inputs
    return promoted(forms.product(dx, y) + forms.product(x, dy), run.symbols)


def _add(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    return inputs[0][2] + inputs[1][2]


def _subtract(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    return inputs[0][2] - inputs[1][2]


def _multiply(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    (x, _, dx), (_, y, dy) = inputs
    return promoted(dx * y + x * dy, run.symbols)


def _divide(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    (x, _, dx), (first, second, dy) = inputs
    inverse = FUNCTIONS["reciprocal"]()
    below = applied(inverse, second, run.symbols)
    return promoted(dx * below + x * by_slopes(inverse, first, second, dy, run.symbols), run.symbols)


def _scale(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    ((x, _, d),) = inputs
    factor, other = (np.asarray(each["factor"], dtype=np.float64)[None] for each in (a, b))
    moved, change = scaled(d, other, np.zeros_like(other)), other - factor
    return moved + scaled(x, change, np.zeros_like(other)) if change.any() else moved


def _shift(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    ((_, _, d),) = inputs
    change = (np.asarray(b["by"], dtype=np.float64) - np.asarray(a["by"], dtype=np.float64))[None]
    return scaled(d, np.ones_like(change), change)


def by_slopes(function: IntervalFunction, a: Form, b: Form, d: Form, symbols: Symbols) -> Form:
    """`f(b) - f(a)`: a slope of f between them, times d [T 12.5]."""
    least, most = slope_range(function, np.minimum(a.lo, b.lo), np.maximum(a.hi, b.hi))
    middle = np.where(np.isfinite(least) & np.isfinite(most), least / 2 + most / 2, 0.0)
    off = np.maximum(add_up(most, -middle), add_up(middle, -least))
    with np.errstate(invalid="ignore"):
        off = np.where((off == 0) | (d.magnitude == 0), 0.0, rounded_up(off * d.magnitude, 1))
    candidates = [multiply(*np.broadcast_arrays(slope, end)) for slope in (least, most) for end in (d.lo, d.hi)]
    lo = np.minimum.reduce([low for low, _ in candidates])
    return forms.relaxed(
        d, middle, np.zeros_like(middle), off, lo, np.maximum.reduce([high for _, high in candidates]), symbols
    )


def _elementwise(name: str, run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    return by_slopes(with_data(name, a), *inputs[0], run.symbols)


def _softmax(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    """On the way from a to b weights change by `Σ_j p_i p_j (d_i - d_j)` [T 12.5]."""
    (first, back), (second, _), (d, _) = (grouped(each, a["axis"]) for each in inputs[0])
    both = [differences(each, *gaps(each)) for each in (first, second)]
    low, high = weights_between(np.minimum(both[0][0], both[1][0]), np.maximum(both[0][1], both[1][1]))
    centre, reach = gaps(d)
    way = np.maximum(*(np.abs(end) for end in ends(centre, reach)))  # |d_j - d_i|
    slopes, left = lines([products(low, high)], way)
    diagonal = np.abs(np.diagonal(slopes, axis1=-2, axis2=-1))
    left = rounded_up(left + 2 * d.shape[-1] * ULP * diagonal * d.size, 4)
    count = d.shape[-1] + 8
    base = (slopes * d.centre[..., None, :]).sum(axis=-1)
    left = rounded_up(left + count * ULP * (np.abs(slopes) * np.abs(d.centre)[..., None, :]).sum(axis=-1), count)
    most = np.minimum(rounded_up((np.maximum(high, 0.0)[..., None] * way).sum(axis=-1), count), 1.0)
    form = opened(applied_slopes(slopes, d, base), np.where(np.isnan(left), np.inf, left), run.symbols)
    return form.within(-most, most).arranged(back)


def _sum(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    return summed(inputs[0][2], a["axes"], a["keep"])


def _mean(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    return mean_of(inputs[0][2], a["axes"], a["keep"])


def _max(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    """A maximum moves by no more than its arguments do, up or down."""
    d, places = inputs[0][2], tuple(axis + 1 for axis in a["axes"])
    lo, hi = d.lo.min(axis=places, keepdims=a["keep"]), d.hi.max(axis=places, keepdims=a["keep"])
    known = np.isfinite(lo) & np.isfinite(hi)
    middle = np.where(known, lo / 2 + hi / 2, 0.0)
    off = np.where(known, np.maximum(add_up(hi, -middle), add_up(middle, -lo)), np.inf)
    none = np.zeros((len(lo), 0, *lo.shape[1:]))
    return opened(Form(middle, none, np.zeros_like(lo), lo, hi), off, run.symbols)


def _normalise(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    """The steps of LayerNorm one by one: `z = x - mean`, `v = mean z² + epsilon`, `z/sqrt(v)`."""
    x, y, d = inputs[0]
    axes, epsilon, root = a["axes"], a["epsilon"], FUNCTIONS["inverse_root"]()
    first, second, dz = (each - mean_of(each, axes, keep=True) for each in (x, y, d))
    before, after = (variance_of(each, axes, epsilon, run.symbols) for each in (first, second))
    dv = mean_of(promoted(dz * (first + second), run.symbols), axes, keep=True)
    ds = by_slopes(root, before, after, dv, run.symbols)
    return promoted(dz * applied(root, after, run.symbols) + first * ds, run.symbols)


def _moved(name: str, run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    return inputs[0][2].arranged(lambda array: OPERATIONS[name](array, **a))


def _concat(run: Run, inputs: Inputs, a: Mapping[str, Any], b: Mapping[str, Any]) -> Form:
    return joined([each[2] for each in inputs], a["axis"])


RULES: Mapping[str, Rule] = {
    "linear": _linear,
    "matmul": _matmul,
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "scale": _scale,
    "shift": _shift,
    **{name: partial(_elementwise, name) for name in ELEMENTWISE},
    "softmax": _softmax,
    "sum": _sum,
    "mean": _mean,
    "max": _max,
    "normalise": _normalise,
    **{name: partial(_moved, name) for name in ("reshape", "transpose", "gather")},
    "concat": _concat,
}
"""By operation: the run, the values of its arguments in both networks with their differences, and both nodes' data."""
