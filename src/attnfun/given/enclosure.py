"""Enclose what a given network computes on boxes of inputs: one rule for every operation of a graph.

A rule turns the forms of its arguments into the form of its result in real arithmetic, and says how far the computed
result may be from that [T 12.6]. So the forms of a run enclose the numbers as computed, whatever the inputs of the box.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..arithmetic.directed import ULP, above, below, dot_up, rounded_up
from ..targets.readers.graph import ELEMENTWISE, OPERATIONS, Graph, Node
from . import forms
from .forms import Floats, Form, Symbols, constant, promoted, scaled, with_axes
from .functions import FUNCTIONS, IntervalFunction, line, with_data
from .machine import Machine
from .softmax import Weights, averages, differences, gaps, softmax, weights_of

MOST_SYMBOLS = 4096
"""Symbols of a run beyond those of the input."""
SUM_UNITS = 4
"""Units of roundoff of each term of a sum of two."""


@dataclass(frozen=True, eq=False)
class EnclosedValue:
    """What is known of the value of a node."""

    form: Form
    """Of the number as computed."""
    off: Floats
    """How far the node's own computation is off, (B, *S)."""
    weights: Weights | None = None
    """Where the numbers are weights of a softmax."""


@dataclass(frozen=True)
class Run:
    """What the nodes of one run share."""

    machine: Machine
    symbols: Symbols


Rule = Callable[..., EnclosedValue]


def entered(lo: Floats, hi: Floats, shape: tuple[int, ...], run: Run) -> tuple[Form, Form]:
    """The coordinates of boxes (B, D): as real numbers, and as the network sees them, in its shape."""
    exact = forms.of_box(lo, hi, run.symbols)
    off, low, high = run.machine.entered(lo, hi)
    seen = replace(exact.widened(off), lo=low, hi=high)
    return exact, seen.arranged(lambda array: array.reshape(len(array), *shape))


def enclose(graph: Graph, seen: Form, run: Run) -> Form:
    """The output of a graph, (B, *output shape), on the inputs that `seen` stands for."""
    return values_of(graph, seen, run)[graph.output].form


def values_of(graph: Graph, seen: Form, run: Run) -> dict[int, EnclosedValue]:
    """The values of all nodes that the output needs and nobody has read for the last time."""
    users, found = graph.users(), dict[int, EnclosedValue]()
    for number, node in enumerate(graph.nodes):
        if users[number] or number == 0:
            arguments = [found[source] for source in node.inputs]
            found[number] = seen_value(seen) if node.operation == "input" else value_of(node, arguments, run, seen)
            for source in set(node.inputs):
                if users[source][-1] == number and source != graph.output:
                    del found[source]
    return found


def seen_value(seen: Form) -> EnclosedValue:
    """The input."""
    return EnclosedValue(seen, np.zeros_like(seen.slack))


def value_of(node: Node, arguments: list[EnclosedValue], run: Run, seen: Form) -> EnclosedValue:
    """One node."""
    if node.operation == "constant":
        form = constant(np.asarray(node.data["value"], dtype=np.float64), len(seen.centre))
        return EnclosedValue(form, np.zeros_like(form.slack))
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        value = RULES[node.operation](run, *arguments, **node.data)
        return replace(value, form=value.form.widened(value.off))


def exactly(form: Form) -> EnclosedValue:
    """A result that no arithmetic rounds."""
    return EnclosedValue(form, np.zeros_like(form.slack))


def _linear(run: Run, x: EnclosedValue, weight: Floats, bias: Floats) -> EnclosedValue:
    size = rounded_up(dot_up(x.form.magnitude, np.abs(weight)) + np.abs(bias), 1)
    return EnclosedValue(forms.linear(x.form, weight, bias), run.machine.summed(size, len(weight)))


def _matmul(run: Run, a: EnclosedValue, b: EnclosedValue) -> EnclosedValue:
    first, second = forms.aligned(a.form, b.form)
    size = dot_up(first.magnitude, second.magnitude)
    weights = a.weights
    if weights is not None and weights.complete and len(weights.light.shape) == second.centre.ndim:
        form = promoted(_averaged(first, second, weights), run.symbols).within(*averages(weights, second))
    else:
        form = promoted(forms.product(first, second), run.symbols)
    return EnclosedValue(form, run.machine.summed(size, first.shape[-1]))


def _averaged(shares: Form, values: Form, weights: Weights) -> Form:
    """`Σ_j p_j v_j = c + Σ_j p_j (v_j - c)`, c the mean of the centres: what is open in p_j counts by `v_j - c`.

    Weights add up to one before they are rounded; as computed, the sum is off by at most what they are off together.
    """
    middle = values.centre.mean(axis=-2, keepdims=True)  # (B, .., 1, m)
    middle = np.where(np.isfinite(middle), middle, 0.0)
    ones = np.ones_like(middle)
    moved = scaled(forms.product(shares, scaled(values, ones, -middle)), ones, middle)
    off = rounded_up(weights.off.sum(axis=-1, keepdims=True), weights.length)  # (B, .., l, 1)
    with np.errstate(invalid="ignore"):
        off = np.where(middle == 0, 0.0, off * np.abs(middle))
    return moved.widened(rounded_up(off, 2))


def _sum_of_two(run: Run, a: EnclosedValue, b: EnclosedValue) -> EnclosedValue:
    return EnclosedValue(a.form + b.form, _sum_off(run, a.form.magnitude, b.form.magnitude))


def _difference_of_two(run: Run, a: EnclosedValue, b: EnclosedValue) -> EnclosedValue:
    return EnclosedValue(a.form - b.form, _sum_off(run, a.form.magnitude, b.form.magnitude))


def _sum_off(run: Run, a: Floats, b: Floats) -> Floats:
    """Sums may be computed after a scale that follows them, so each term is rounded by itself [T 12.6]."""
    axes = max(a.ndim, b.ndim)
    a, b = (each.reshape(len(each), *(1,) * (axes - each.ndim), *each.shape[1:]) for each in (a, b))
    return run.machine.rounded(rounded_up(a + b, 1), SUM_UNITS)


def _multiply(run: Run, a: EnclosedValue, b: EnclosedValue) -> EnclosedValue:
    form = promoted(a.form * b.form, run.symbols)
    return EnclosedValue(form, run.machine.rounded(form.magnitude))


def _divide(run: Run, a: EnclosedValue, b: EnclosedValue) -> EnclosedValue:
    form = promoted(a.form * applied(FUNCTIONS["reciprocal"](), b.form, run.symbols), run.symbols)
    quotient = Interval(*_ends(a.form, b.form)[:2]) / Interval(*_ends(a.form, b.form)[2:])
    form = form.within(quotient.lo, quotient.hi)
    return EnclosedValue(form, run.machine.function(form.magnitude))


def _ends(a: Form, b: Form) -> tuple[Floats, Floats, Floats, Floats]:
    """Ends of two forms, aligned."""
    axes = max(len(a.shape), len(b.shape))
    a, b = with_axes(a, axes), with_axes(b, axes)
    return a.lo, a.hi, b.lo, b.hi


def _scale(run: Run, x: EnclosedValue, factor: npt.ArrayLike) -> EnclosedValue:
    numbers = np.asarray(factor, dtype=np.float64)[None]
    form = scaled(x.form, numbers, np.zeros_like(numbers))
    return EnclosedValue(form, run.machine.rounded(form.magnitude))


def _shift(run: Run, x: EnclosedValue, by: npt.ArrayLike) -> EnclosedValue:
    numbers = np.asarray(by, dtype=np.float64)[None]
    form = scaled(x.form, np.ones_like(numbers), numbers)
    return EnclosedValue(form, np.broadcast_to(_sum_off(run, x.form.magnitude, np.abs(numbers)), form.lo.shape))


def applied(function: IntervalFunction, form: Form, symbols: Symbols) -> Form:
    """A function of one number, element by element, in real arithmetic [T 12.3]."""
    found = line(function, form.lo, form.hi)
    return forms.relaxed(form, found.slope, found.offset, found.off, found.lo, found.hi, symbols)


def function_off(function: IntervalFunction, machine: Machine, argument: Form, result: Form) -> Floats:
    """How far a computed elementary function is off."""
    if function.error_scale is None or machine.format is None:
        return np.zeros_like(result.slack)
    scale = function.error_scale(Interval(argument.lo, argument.hi), Interval(result.lo, result.hi))
    return machine.function(scale)


def _elementwise(name: str, run: Run, x: EnclosedValue, **data: Any) -> EnclosedValue:
    function = with_data(name, data)
    form = applied(function, x.form, run.symbols)
    return EnclosedValue(form, function_off(function, run.machine, x.form, form))


def grouped(form: Form, axis: int) -> tuple[Form, Callable[[Any], Any]]:
    """A form as rows (B, R, n) along an axis, and how to move arrays back."""
    shape = form.shape
    moved = (*shape[:axis], *shape[axis + 1 :], shape[axis])

    def there(array: Any) -> Any:
        return np.moveaxis(array, axis + 1, -1).reshape(len(array), -1, shape[axis])

    def back(array: Any) -> Any:
        return np.moveaxis(array.reshape(len(array), *moved), -1, axis + 1)

    return form.arranged(there), back


def _softmax(run: Run, x: EnclosedValue, axis: int) -> EnclosedValue:
    scores, back = grouped(x.form, axis)
    weights = softmax(scores, run.symbols)
    behind = np.maximum(differences(scores, *gaps(scores))[1].max(axis=-1), 0.0)  # (B, R, n)
    off = run.machine.weights(behind, weights.hi)
    known = weights_of(scores, off)
    return EnclosedValue(weights.arranged(back), back(off), known.arranged(back))


def summed(form: Form, axes: tuple[int, ...], keep: bool, factor: float = 1.0) -> Form:
    """The sum along some axes, times a factor [T 12.1]."""
    count, places = prod(form.shape[axis] for axis in axes), tuple(axis + 1 for axis in axes)
    behind = tuple(axis + 1 for axis in places)

    def total(array: Floats) -> Floats:
        return array.sum(axis=places, keepdims=keep)

    slack = total(form.slack) + (count + 8) * ULP * total(form.size)
    lo, hi = (Interval(end).lo for end in (form.lo, form.hi))
    reach = (count + 8) * ULP * total(np.maximum(np.abs(lo), np.abs(hi)))
    whole = forms.made(
        total(form.centre),
        form.terms.sum(axis=behind, keepdims=keep),
        rounded_up(slack, count + 8),
        below(total(lo) - rounded_up(reach, count + 8)),
        above(total(hi) + rounded_up(reach, count + 8)),
    )
    if factor == 1.0:
        return whole
    return scaled(whole, np.full((1, *(1,) * len(whole.shape)), factor), np.zeros((1, *(1,) * len(whole.shape))))


def _sum(run: Run, x: EnclosedValue, axes: tuple[int, ...], keep: bool) -> EnclosedValue:
    count, places = prod(x.form.shape[axis] for axis in axes), tuple(axis + 1 for axis in axes)
    size = rounded_up(x.form.magnitude.sum(axis=places, keepdims=keep), count)
    return EnclosedValue(summed(x.form, axes, keep), run.machine.summed(size, count))


def _mean(run: Run, x: EnclosedValue, axes: tuple[int, ...], keep: bool) -> EnclosedValue:
    count, places = prod(x.form.shape[axis] for axis in axes), tuple(axis + 1 for axis in axes)
    size = rounded_up(x.form.magnitude.sum(axis=places, keepdims=keep), count)
    off = run.machine.summed(size, count) / count + run.machine.rounded(size / count)
    return EnclosedValue(mean_of(x.form, axes, keep), rounded_up(off, 4))


def mean_of(form: Form, axes: tuple[int, ...], keep: bool) -> Form:
    """The mean along some axes; 1/n is rounded, which the slack of a product covers."""
    count = prod(form.shape[axis] for axis in axes)
    whole = summed(form, axes, keep, 1.0 / count)
    return whole.widened(rounded_up(4 * ULP * whole.size, 2))


def _max(run: Run, x: EnclosedValue, axes: tuple[int, ...], keep: bool) -> EnclosedValue:
    """Pairs at a time: `max(a, b) = b + max(0, a - b)`; exact in any arithmetic."""
    shape = x.form.shape
    places = tuple(axis + 1 for axis in axes)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    order = (0, *(axis + 1 for axis in kept), *places)
    sizes = tuple(shape[axis] for axis in kept)
    form = x.form.arranged(lambda array: array.transpose(order).reshape(len(array), *sizes, -1))
    lo, hi = x.form.lo.max(axis=places), x.form.hi.max(axis=places)
    while form.shape[-1] > 1:
        half = form.shape[-1] // 2
        first, second, rest = (
            form.arranged(lambda array, part=part: array[..., part])
            for part in (slice(0, half), slice(half, 2 * half), slice(2 * half, None))
        )
        both = second + applied(FUNCTIONS["relu"](), first - second, run.symbols)
        form = joined([both, rest], axis=len(sizes)) if rest.shape[-1] else both
    form = form.arranged(lambda array: array[..., 0]).within(lo, hi)
    if keep:
        full = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        form = form.arranged(lambda array: array.reshape(len(array), *full))
    return exactly(form)


def _normalise(run: Run, x: EnclosedValue, axes: tuple[int, ...], epsilon: float) -> EnclosedValue:
    """`z/sqrt(mean z² + epsilon)` with z = x - mean; the range of one element is exact in z and the others [T 12.7]."""
    count, places = prod(x.form.shape[axis] for axis in axes), tuple(axis + 1 for axis in axes)
    form = promoted(x.form, run.symbols)  # what is open in a number is open in the mean too
    centred = form - mean_of(form, axes, keep=True)
    variance = variance_of(centred, axes, epsilon, run.symbols)
    root = applied(FUNCTIONS["inverse_root"](), variance, run.symbols)
    form = promoted(centred * root, run.symbols).within(*_normalised_ends(centred, places, count, epsilon))
    squares = rounded_up((x.form.magnitude**2).sum(axis=places, keepdims=True) / count, count + 4)
    magnitude = x.form.magnitude.max(axis=places, keepdims=True)
    size = np.broadcast_to(form.magnitude, form.centre.shape)
    least = np.maximum(variance.lo, 0.0)
    magnitude, squares, least = np.broadcast_arrays(magnitude, squares, least)
    off = run.machine.normalised(magnitude, squares, least, size, count)
    return EnclosedValue(form, off)


def variance_of(centred: Form, axes: tuple[int, ...], epsilon: float, symbols: Symbols) -> Form:
    """`mean z² + epsilon`, axes kept; at least epsilon."""
    squares = applied(FUNCTIONS["square"](), centred, symbols)
    mean = mean_of(squares, axes, keep=True)
    by = np.full((1, *(1,) * len(mean.shape)), epsilon)
    form = scaled(mean, np.ones_like(by), by)
    return form.within(np.full_like(form.lo, epsilon), np.full_like(form.hi, np.inf))


def _normalised_ends(centred: Form, places: tuple[int, ...], count: int, epsilon: float) -> tuple[Floats, Floats]:
    """Ends of z_i/sqrt((z_i² + R_i)/n + epsilon), R_i the sum of the other squares [T 12.7].

    It grows with z_i. R_i lies between sums of the least and largest squares of the others, and is at least
    `z_i²/(n - 1)`, as all z add up to zero.
    """
    squares: Any = np.square(Interval(centred.lo, centred.hi))
    others_lo = np.maximum(_others(squares.lo, places, down=True), 0.0)
    others_hi = _others(squares.hi, places, down=False)

    def at(z: Floats, others: Floats) -> Interval:
        own: Any = np.square(Interval(z))
        rest = Interval(others)
        if count > 1:
            rest = Interval(
                np.maximum(rest.lo, (own / (count - 1.0)).lo), np.maximum(rest.hi, (own / (count - 1.0)).hi)
            )
        return Interval(z) / np.sqrt((own + rest) / float(count) + epsilon)

    high = at(centred.hi, np.where(centred.hi > 0, others_lo, others_hi)).hi
    low = at(centred.lo, np.where(centred.lo < 0, others_lo, others_hi)).lo
    most = above(np.array(sqrt(max(count - 1, 0))))
    return np.where(np.isnan(low), -most, np.maximum(low, -most)), np.where(
        np.isnan(high), most, np.minimum(high, most)
    )


def _others(squares: Floats, places: tuple[int, ...], down: bool) -> Floats:
    """Sums of all the other numbers >= 0 along the axes, rounded down or up."""
    count = prod(squares.shape[axis] for axis in places)
    total = squares.sum(axis=places, keepdims=True)
    slack = (count + 8) * ULP * total
    return below(total - squares - slack) if down else above(total - squares + slack)


def joined(parts: list[Form], axis: int) -> Form:
    """Forms one after the other along an axis."""
    count = max(part.terms.shape[1] for part in parts)
    parts = [forms.padded(part, count) for part in parts]
    names = ("centre", "slack", "lo", "hi")
    whole = {name: np.concatenate([getattr(part, name) for part in parts], axis=axis + 1) for name in names}
    return Form(terms=np.concatenate([part.terms for part in parts], axis=axis + 2), **whole)


def _moved(name: str, run: Run, x: EnclosedValue, **data: Any) -> EnclosedValue:
    """Elements copied, dropped or reordered."""

    def how(array: Any) -> Any:
        return OPERATIONS[name](array, **data)

    return replace(exactly(x.form.arranged(how)), weights=None if x.weights is None else x.weights.arranged(how))


def _concat(run: Run, *values: EnclosedValue, axis: int) -> EnclosedValue:
    return exactly(joined([value.form for value in values], axis))


RULES: Mapping[str, Rule] = {
    "linear": _linear,
    "matmul": _matmul,
    "add": _sum_of_two,
    "subtract": _difference_of_two,
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
"""By operation: the run and the values of its arguments, with the node's data as keywords."""
