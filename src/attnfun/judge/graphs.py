"""Networks of other makers: graphs of operations, and Taylor models of their values on a box [T 12.6, 12.9].

An operation acts on numbers. A number is known by a Taylor model of what one network computes (`Alone`), or by three of
what two networks of one structure compute: of the first, of the second, and of their difference (`Both`), which knows
what the two have in common. After every operation a model is widened by what the arithmetic may be off [T 12.6].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from .errors import NotCovered, Unreadable
from .files import Floats, Tensors, entry
from .formats import Format
from .functions import function_of
from .models import Model, Space
from .noisy import Noisy, weighted
from .ranges import INFINITE, ONE, ZERO, Range, down, larger, largest, size, smaller, up

Numbers = npt.NDArray[Any]
"""An array of numbers known by models: objects, in the shape of the value of a node."""
Words = Mapping[str, Any]


@dataclass(frozen=True)
class GraphLimits:
    """How large networks that others made may be."""

    most_nodes: int = 10_000
    """A round number."""
    most_axes: int = 8
    """Axes of one value. A round number."""
    most_elements: int = 2**14
    """Numbers of one value. For memory."""


TUNING = GraphLimits()

SPARE = 4
"""Roundings beyond those of a sum: a bias, a scale of a factor or of the result."""
BLOCK = 512
"""Keys in a block of a streaming kernel, at least."""
MARGIN, MOST = arb("1.01"), arb("0.005")
TWICE = arb("1.0201")
"""The margin times itself."""
EXP_PEAK = arb("0.37")
"""More than the largest value of t e^-t."""

ARRAYS = {"constant": ("value",), "linear": ("weight", "bias"), "scale": ("factor",), "shift": ("by",), "gather": ()}
"""Data that are arrays of numbers."""


@dataclass(frozen=True, eq=False)
class Node:
    """One operation on the values of earlier nodes."""

    operation: str
    inputs: tuple[int, ...]
    data: Words


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in order of evaluation, node 0 the input, of this shape."""

    nodes: tuple[Node, ...]
    output: int
    shape: tuple[int, ...]

    @property
    def work(self) -> int:
        """About how many products an evaluation takes: the numbers in its arrays."""
        return sum(array.size for node in self.nodes for array in node.data.values() if isinstance(array, np.ndarray))


def graph_of(words: Any, arrays: Tensors, prefix: str) -> Graph:
    """A graph in a description; arrays stand under `prefix` and the number of the node."""
    listed = entry(words, "nodes", list)
    if not 1 <= len(listed) <= TUNING.most_nodes:
        raise Unreadable(f"a graph must have 1 to {TUNING.most_nodes} nodes")
    nodes = list[Node]()
    for number, each in enumerate(listed):
        operation = entry(each, "operation", str)
        inputs = _whole(entry(each, "inputs", list), number)
        data = dict(entry(each, "data", dict))
        for name in entry(each, "arrays", list):
            array = arrays.get(f"{prefix}{number}.{name}")
            if array is None or array.dtype not in (np.float64, np.int64) or not np.isfinite(array).all():
                raise Unreadable(f"node {number} must have the array {str(name)[:40]!r} of finite numbers")
            data[name] = array
        if (operation == "input") != (number == 0) or operation not in {*OPERATIONS, "input", "constant"}:
            raise NotCovered(f"the operation {operation[:40]!r} at node {number}")
        nodes.append(Node(operation, inputs, data))
    (output,) = _whole([words.get("output")], len(nodes))
    return Graph(tuple(nodes), output, _whole(entry(words, "shape", list), TUNING.most_elements))


def _whole(numbers: Any, below: int) -> tuple[int, ...]:
    """Whole numbers from 0 on."""
    if not isinstance(numbers, list) or not all(type(each) is int and 0 <= each < below for each in numbers):
        raise Unreadable(f"there must be whole numbers below {below}, not {str(numbers)[:60]}")
    return tuple(numbers)


def alike(a: Graph, b: Graph) -> bool:
    """Have two graphs one structure: the same operations, with the same data but for the weights?"""
    if (len(a.nodes), a.output, a.shape) != (len(b.nodes), b.output, b.shape):
        return False
    return all(_alike(first, second) for first, second in zip(a.nodes, b.nodes, strict=True))


def _alike(a: Node, b: Node) -> bool:
    if (a.operation, a.inputs, set(a.data)) != (b.operation, b.inputs, set(b.data)):
        return False
    free = ARRAYS.get(a.operation, ())
    return all(
        np.shape(value) == np.shape(b.data[name]) and (name in free or np.array_equal(value, b.data[name]))
        for name, value in a.data.items()
    )


@dataclass(frozen=True, eq=False, slots=True)
class Share:
    """What a number is where softmax made it: its row, its place there, and what each network has."""

    row: Numbers
    place: int
    scores: tuple[Sequence[Range], ...]
    """All scores of the row."""
    off: tuple[arb, ...]
    """How far the weight may be from that of the scores."""


@dataclass(frozen=True, eq=False, slots=True)
class Alone:
    """A number that one network computes."""

    a: Noisy
    share: Share | None = None

    def __add__(self, other: Alone) -> Alone:
        return Alone(self.a + other.a)

    def __sub__(self, other: Alone) -> Alone:
        return Alone(self.a - other.a)

    def __mul__(self, other: Alone) -> Alone:
        return Alone(self.a * other.a)

    def scaled(self, factor: arb) -> Alone:
        """Times a constant."""
        return Alone(self.a.scaled(factor))

    def shifted(self, by: arb) -> Alone:
        """Plus a constant."""
        return Alone(self.a.shifted(by))

    def after(self, name: str) -> Alone:
        """An elementary function."""
        return Alone(self.a.after(name))

    def kinked(self, left: arb, right: arb, corner: arb) -> Alone:
        """The function with a slope on either side of a corner, 0 there."""
        return Alone(self.a.kinked(left, right, corner))

    def inverse(self) -> Alone:
        """1/x."""
        return Alone(self.a.inverse())

    def known(self, low: arb, high: arb) -> Alone:
        """Known to lie between these."""
        return Alone(self.a.known(low, high))

    def between(self, ends: Sequence[tuple[arb, arb]]) -> Alone:
        """Known to lie between the ends of each network."""
        return self.known(*ends[0])

    def models(self) -> tuple[Noisy, ...]:
        """What is known of the number in each network."""
        return (self.a,)

    def widened(self, offs: Sequence[arb]) -> Alone:
        """Off by so much as computed in each network."""
        return Alone(self.a.widened(offs[0]))

    def promoted(self) -> Alone:
        """With what is open in symbols."""
        return Alone(self.a.promoted())


@dataclass(frozen=True, eq=False, slots=True)
class Both:
    """A number that two networks compute: models of either, and of `d = b - a` [T 12.5]."""

    a: Noisy
    b: Noisy
    d: Noisy
    share: Share | None = None

    def __add__(self, other: Both) -> Both:
        return Both(self.a + other.a, self.b + other.b, self.d + other.d)

    def __sub__(self, other: Both) -> Both:
        return Both(self.a - other.a, self.b - other.b, self.d - other.d)

    def __mul__(self, other: Both) -> Both:
        if self is other:
            return Both(self.a * self.a, self.b * self.b, self.d * (self.a + self.b))
        return Both(self.a * other.a, self.b * other.b, self.d * other.b + self.a * other.d)

    def scaled(self, factor: arb) -> Both:
        """Times a constant."""
        return Both(self.a.scaled(factor), self.b.scaled(factor), self.d.scaled(factor))

    def shifted(self, by: arb) -> Both:
        """Plus a constant."""
        return Both(self.a.shifted(by), self.b.shifted(by), self.d)

    def after(self, name: str) -> Both:
        """`f(b) - f(a) = f'(m) d + f'''(ξ) d³/24`, m the middle of a and b; and a slope of f times d."""
        a, b = self.a.after(name), self.b.after(name)
        hull = self.a.range.join(self.b.range).ball
        known = function_of(name).series(hull, 3) if hull.is_finite() else [arb.nan()] * 4
        slope = Range.point(known[1])
        if not slope.bounded:
            return Both(a, b, b - a)
        d = self._sloped(slope).closer(b - a)
        third = up(size(known[3]) / 4 * self.d.range.most**3)
        if name in SLOPES and third.is_finite():
            middle = (self.a + self.b).scaled(ONE / 2)
            d = d.closer((SLOPES[name](Alone(middle)).a * self.d).widened(third))
        return Both(a, b, d)

    def kinked(self, left: arb, right: arb, corner: arb) -> Both:
        """The function with a slope on either side of a corner, 0 there."""
        a, b = self.a.kinked(left, right, corner), self.b.kinked(left, right, corner)
        hull = self.a.range.join(self.b.range)
        slopes = [left] if hull.high <= corner else [right] if hull.low >= corner else [left, right]
        slope = Range.point(slopes[0]).join(Range.point(slopes[-1]))
        if len(slopes) == 1:
            return Both(a, b, self.d.scaled(slopes[0]))
        return Both(a, b, self._sloped(slope).closer(b - a))

    def _sloped(self, slope: Range) -> Noisy:
        """The difference times a number of this range."""
        return Noisy.ranging(self.d.model.space, slope) * self.d

    def inverse(self) -> Both:
        """`1/b - 1/a = -d/(a b)`."""
        a, b = self.a.inverse(), self.b.inverse()
        return Both(a, b, (-(self.d * (a * b))).closer(b - a))

    def known(self, low: arb, high: arb) -> Both:
        """Known to lie between these."""
        return Both(self.a.known(low, high), self.b.known(low, high), self.d)

    def between(self, ends: Sequence[tuple[arb, arb]]) -> Both:
        """Known to lie between the ends of each network."""
        return Both(self.a.known(*ends[0]), self.b.known(*ends[1]), self.d)

    def models(self) -> tuple[Noisy, ...]:
        """What is known of the number in each network."""
        return (self.a, self.b)

    def widened(self, offs: Sequence[arb]) -> Both:
        """Off by so much as computed in each network."""
        a, b = self.a.widened(offs[0]), self.b.widened(offs[1])
        return Both(a, b, self.d.widened(up(offs[0] + offs[1])).closer(b - a))

    def promoted(self) -> Both:
        """With what is open in symbols."""
        return Both(self.a.promoted(), self.b.promoted(), self.d.promoted())


def _erf_slope(x: Any) -> Any:
    return (x * x).scaled(-ONE).after("exp").scaled(2 / arb.pi().sqrt())


SLOPES: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.after("exp"),
    "expm1": lambda x: x.after("exp"),
    "log": lambda x: x.inverse(),
    "sqrt": lambda x: x.after("sqrt").inverse().scaled(ONE / 2),
    "tanh": lambda x: _one_minus(x.after("tanh")),
    "sigmoid": lambda x: x.after("sigmoid") * x.scaled(-ONE).after("sigmoid"),
    "softplus": lambda x: x.after("sigmoid"),
    "erf": _erf_slope,
}
"""Derivatives of functions of one variable, as functions."""


def _one_minus(t: Any) -> Any:
    """`1 - t²`."""
    return (t * t).scaled(-ONE).shifted(ONE)


def _gelu(x: Any) -> Any:
    return x * x.scaled(ONE / arb(2).sqrt()).after("erf").scaled(ONE / 2).shifted(ONE / 2)


def _gelu_tanh(x: Any) -> Any:
    inner = (x + (x * (x * x)).scaled(arb(0.044715))).scaled((2 / arb.pi()).sqrt())
    return x.scaled(ONE / 2) * inner.after("tanh").shifted(ONE)


def _elu(x: Any, alpha: float) -> Any:
    negative = x.kinked(ONE, ZERO, ZERO)  # min(x, 0)
    return x.kinked(ZERO, ONE, ZERO) + negative.after("expm1").scaled(arb(alpha))


def _clip(x: Any, low: float, high: float) -> Any:
    if not low <= high:
        raise Unreadable("a function that clips must have ends in order")
    inner = x.kinked(ZERO, ONE, arb(low)).shifted(arb(low)) if isfinite(low) else x
    clipped = inner.kinked(ONE, ZERO, arb(high)).shifted(arb(high)) if isfinite(high) else inner
    return clipped.known(arb(low), arb(high))


def _power(x: Any, exponent: float) -> Any:
    if exponent != int(exponent) or not 1 <= exponent <= 64:
        raise NotCovered(f"the power {exponent:g}")
    result = x
    for _ in range(int(exponent) - 1):
        result = result * x
    return result


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "relu": lambda x: x.kinked(ZERO, ONE, ZERO),
    "leaky_relu": lambda x, slope: x.kinked(arb(slope), ONE, ZERO),
    "abs": lambda x: x.kinked(-ONE, ONE, ZERO),
    "clip": _clip,
    "sigmoid": lambda x: x.after("sigmoid"),
    "tanh": lambda x: x.after("tanh"),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: x * x.after("sigmoid"),
    "softplus": lambda x, beta: x.scaled(arb(beta)).after("softplus").scaled(1 / arb(beta)),
    "elu": _elu,
    "exp": lambda x: x.after("exp"),
    "log": lambda x: x.after("log"),
    "sqrt": lambda x: x.after("sqrt"),
    "erf": lambda x: x.after("erf"),
    "square": lambda x: x * x,
    "reciprocal": lambda x: x.inverse(),
    "power": _power,
}
"""Functions of one number."""

SCALES: dict[str, Callable[..., arb]] = {
    **dict.fromkeys(("sigmoid", "tanh", "erf", "log"), lambda x, y: larger(y, ONE)),
    **dict.fromkeys(("gelu", "gelu_tanh", "silu"), lambda x, y: larger(y, x)),
    **dict.fromkeys(("exp", "sqrt", "square", "reciprocal"), lambda x, y: y),
    "elu": lambda x, y, alpha: larger(y, abs(arb(alpha))),
    "softplus": lambda x, y, beta: larger(y, up(1 / abs(arb(beta)))),
    "power": lambda x, y, exponent: up(y * (1 + exponent)) if exponent <= SPARE else INFINITE,
}
"""The size that the rounding of a function is relative to, by the sizes of its argument and its value [T 12.6]."""


@dataclass(frozen=True)
class Machine:
    """How far the result of an operation is off as computed; nothing without a format [T 12.6]."""

    format: Format | None

    def entered(self, size_: arb) -> arb:
        """An input of at most this size."""
        return ZERO if self.format is None else up(self.format.grain * size_ + self.format.lost)

    def summed(self, size_: arb, terms: int) -> arb:
        """A sum of products, or of numbers, of absolute values `size_` altogether."""
        roundings = terms + SPARE
        if self.format is None:
            return ZERO
        if roundings * self.format.unit > MOST:
            return INFINITE
        return self._finite(MARGIN * roundings * self.format.unit * size_ + (roundings + 1) * self.format.tiny, size_)

    def rounded(self, size_: arb, units: int = 1) -> arb:
        """So many units of roundoff of a number of this size."""
        if self.format is None:
            return ZERO
        return self._finite(MARGIN * units * self.format.unit * size_ + 2 * self.format.tiny, size_)

    def function(self, scale: arb) -> arb:
        """An elementary function."""
        return ZERO if self.format is None else self.rounded(scale, self.format.exp_units + SPARE)

    def weight(self, behind: arb, weight: arb, count: int) -> arb:
        """A weight of softmax whose score is at most `behind` the largest one."""
        if self.format is None:
            return ZERO
        unit, blocks = self.format.unit, ceil(count / BLOCK)
        own = 2 * blocks * self.format.exp_error + unit * (2 * count + 4 * blocks + SPARE + 1 + arb(count).log())
        if not own <= MOST:
            return INFINITE
        drawn = smaller(up(behind * weight), EXP_PEAK) if behind.is_finite() else EXP_PEAK
        return up(TWICE * (own * weight + unit * drawn) + 4 * count * self.format.tiny)

    def normalised(self, most: arb, squares: arb, least: arb, result: arb, count: int) -> arb:
        """A result of LayerNorm: numbers of at most this size, mean of squares, least variance + epsilon."""
        if self.format is None:
            return ZERO
        if not least > 0:
            return INFINITE
        unit, roundings = self.format.unit, count + SPARE + self.format.exp_units
        relative = up(4 * (count + 2 * SPARE) * unit * squares / least)
        if not (relative <= MOST and roundings * unit <= MOST):
            return INFINITE
        off = roundings * unit * (3 * most / least.sqrt() + result) + relative * result
        off = TWICE * off + SPARE * self.format.tiny * (1 + 1 / least)
        return self._finite(off, larger(up(squares * count), result))

    def _finite(self, off: arb, size_: arb) -> arb:
        assert self.format is not None  # noqa: S101 - callers have one
        return up(off) if size_ <= self.format.largest / 2 else INFINITE


@dataclass(frozen=True)
class Run:
    """What the nodes of one evaluation share."""

    machine: Machine
    space: Space
    step: Callable[[], None]


Offs = Callable[..., Any]


def _size(model: Noisy) -> arb:
    return model.range.most


def _each(numbers: Numbers, function: Callable[[Any], Any]) -> Numbers:
    """A function of every number."""
    result = np.empty(numbers.shape, dtype=object)
    result.ravel()[:] = [function(each) for each in numbers.ravel()]
    return result


def _sums(run: Run, rows: Sequence[Any], data: Sequence[tuple[Floats, float]]) -> Any:
    """`Σ_k w_k x_k + c` for each network's own weights and constant, as computed."""
    return _total(rows, [[arb(w) for w in weights.tolist()] for weights, _ in data], [arb(c) for _, c in data], run)


def _total(rows: Sequence[Any], weights: Sequence[Sequence[arb]], constants: Sequence[arb], run: Run) -> Any:
    offs = []
    for k, (factors, constant) in enumerate(zip(weights, constants, strict=True)):
        sizes = sum((abs(w) * _size(x.models()[k]) for w, x in zip(factors, rows, strict=True)), abs(constant))
        offs.append(run.machine.summed(up(arb(sizes)), len(rows)))
    a = weighted(weights[0], [x.a for x in rows], constants[0], run.space)
    if len(weights) == 1:
        return Alone(a).widened(offs)
    b = weighted(weights[1], [x.b for x in rows], constants[1], run.space)
    d = weighted(weights[1], [x.d for x in rows], constants[1] - constants[0], run.space)
    change = [second - first for first, second in zip(*weights, strict=True)]
    if any(not each.is_zero() for each in change):
        d = d + weighted(change, [x.a for x in rows], ZERO, run.space)
    return Both(a, b, d).widened(offs)


def _linear(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    (x,) = values
    columns = [(each["weight"], each["bias"]) for each in data]
    if any(w.ndim != 2 or b.shape != w.shape[1:] or w.shape[0] != x.shape[-1] for w, b in columns):
        raise Unreadable("the weights of a linear map must fit its argument")
    count = columns[0][1].shape[0]
    rows = x.reshape(-1, x.shape[-1])
    result = np.empty((len(rows), count), dtype=object)
    for row in range(len(rows)):
        run.step()
        for column in range(count):
            own = [(w[:, column], float(b[column])) for w, b in columns]
            result[row, column] = _sums(run, rows[row].tolist(), own)
    return result.reshape(*x.shape[:-1], count)


def _broadcast(values: Sequence[Numbers]) -> list[Numbers]:
    try:
        return list(np.broadcast_arrays(*values))
    except ValueError:
        raise Unreadable("the values of an operation must fit each other") from None


def _pairwise(run: Run, values: list[Numbers], combine: Callable[[Any, Any], Any], offs: Offs) -> Numbers:
    first, second = _broadcast(values)
    result = np.empty(first.shape, dtype=object)
    for place in np.ndindex(first.shape):
        run.step()
        x: Any = first[place]
        y: Any = second[place]
        number = combine(x, y)
        own = [offs(a, b, c) for a, b, c in zip(x.models(), y.models(), number.models(), strict=True)]
        result[place] = number.widened(own)
    return result


def _add(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    return _pairwise(run, values, lambda x, y: x + y, _of_two(run))


def _subtract(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    return _pairwise(run, values, lambda x, y: x - y, _of_two(run))


def _of_two(run: Run) -> Offs:
    return lambda a, b, c: run.machine.rounded(up(_size(a) + _size(b)), SPARE)


def _multiply(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    return _pairwise(run, values, lambda x, y: (x * y).promoted(), lambda a, b, c: run.machine.rounded(_size(c)))


def _divide(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    return _pairwise(run, values, lambda x, y: x * y.inverse(), lambda a, b, c: run.machine.function(_size(c)))


def _matmul(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    a, b = values
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise Unreadable("a product needs two matrices that fit each other")
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    first, second = np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(b, (*lead, *b.shape[-2:]))
    result = np.empty((*lead, a.shape[-2], b.shape[-1]), dtype=object)
    for place in np.ndindex(result.shape):
        run.step()
        rows = first[(*place[:-1],)].tolist()
        columns = second[(*place[:-2], slice(None), place[-1])].tolist()
        averaged = _whole_row([x.share for x in rows])
        number, count = _average(rows, columns) if averaged else _product(rows, columns), len(rows)
        offs = []
        for k in range(len(number.models())):
            sizes = [_size(x.models()[k]) * _size(y.models()[k]) for x, y in zip(rows, columns, strict=True)]
            offs.append(run.machine.summed(up(arb(sum(sizes, ZERO))), count))
        result[place] = number.widened(offs).promoted()
    return result


def _product(rows: Sequence[Any], columns: Sequence[Any]) -> Any:
    number: Any = None
    for x, y in zip(rows, columns, strict=True):
        number = x * y if number is None else number + x * y
    return number


def _whole_row(shares: Sequence[Share | None]) -> bool:
    """Are these all weights of one softmax, each once?"""
    known = [each for each in shares if each is not None]
    if len(known) < len(shares) or len({id(each.row) for each in known}) != 1:
        return False
    return sorted(each.place for each in known) == list(range(len(known[0].scores[0])))


def _average(rows: Sequence[Any], columns: Sequence[Any]) -> Any:
    """`c + Σ p_j (v_j - c)` with c in the middle, within the ends that scores in intervals allow [T 1.5, 12.2]."""
    middle = sum((y.models()[0].centre for y in columns), ZERO) / len(columns)
    middle = middle.mid() if middle.is_finite() else ZERO
    number = _product(rows, [y.shifted(-middle) for y in columns]).shifted(middle)
    ends, lost = list[tuple[arb, arb]](), list[arb]()
    for k in range(len(number.models())):
        offs = [x.share.off[k] for x in rows]
        scores = [x.share.scores[k][x.share.place] for x in rows]
        values = [y.models()[k].range for y in columns]
        off = up(sum((each * value.most for each, value in zip(offs, values, strict=True)), ZERO))
        high = largest_average(scores, [value.high for value in values])
        low = -largest_average(scores, [-value.low for value in values])
        ends.append((down(low - off), up(high + off)))
        lost.append(up(sum(offs, ZERO) * abs(middle)))
    return number.widened(lost).between(ends)


def largest_average(scores: Sequence[Range], values: Sequence[arb]) -> arb:
    """The largest average of values under softmax of scores in ranges: the largest values have the high scores."""
    if not all(each.bounded for each in scores) or not all(each.is_finite() for each in values):
        return INFINITE
    top = largest([each.high for each in scores])
    order = sorted(range(len(values)), key=values.__getitem__, reverse=True)  # of radius zero: in order for certain
    heavy, light = ([(end - top).exp() for end in ends] for ends in ([s.high for s in scores], [s.low for s in scores]))
    best = [values[order[0]]] if len(order) == 1 else list[arb]()
    for cut in range(1, len(order)):
        weights = {j: heavy[j] if place < cut else light[j] for place, j in enumerate(order)}
        best.append(up(sum((w * values[j] for j, w in weights.items()), ZERO) / sum(weights.values(), ZERO)))
    return largest(best)


def _own(data: Sequence[Words], name: str, shape: tuple[int, ...]) -> list[Floats]:
    """An array of each network, in the shape of the value."""
    try:
        return [np.broadcast_to(np.asarray(each[name], dtype=np.float64), shape) for each in data]
    except (ValueError, TypeError):
        raise Unreadable(f"{name} must fit its argument") from None


def _result_shape(x: Numbers, data: Sequence[Words], name: str) -> Numbers:
    """The argument in the shape of the result."""
    return _broadcast([x, np.zeros(np.shape(data[0][name]), dtype=object)])[0]


def _scale(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    x = _result_shape(values[0], data, "factor")
    factors, result = _own(data, "factor", x.shape), np.empty(x.shape, dtype=object)
    for place in np.ndindex(x.shape):
        number: Any = x[place]
        own = [arb(float(each[place])) for each in factors]
        a = number.a.scaled(own[0])
        moved: Any = Alone(a)
        if len(own) == 2:
            d = number.d.scaled(own[1]) + number.a.scaled(own[1] - own[0])
            moved = Both(a, number.b.scaled(own[1]), d)
        result[place] = moved.widened([run.machine.rounded(_size(each)) for each in moved.models()])
    return result


def _shift(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    x = _result_shape(values[0], data, "by")
    moves, result = _own(data, "by", x.shape), np.empty(x.shape, dtype=object)
    for place in np.ndindex(x.shape):
        number: Any = x[place]
        own = [arb(float(each[place])) for each in moves]
        offs = [run.machine.rounded(up(_size(m) + abs(by)), SPARE) for m, by in zip(number.models(), own, strict=True)]
        a = number.a.shifted(own[0])
        moved: Any = Alone(a)
        if len(own) == 2:
            moved = Both(a, number.b.shifted(own[1]), number.d.shifted(own[1] - own[0]))
        result[place] = moved.widened(offs)
    return result


def _elementwise(name: str) -> Callable[..., Numbers]:
    def operate(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
        numbers = data[0]
        if not all(isinstance(each, int | float) for each in numbers.values()):
            raise Unreadable(f"the data of {name} must be numbers")

        def one(x: Any) -> Any:
            run.step()
            y = FUNCTIONS[name](x, **numbers)
            if name in SCALES:
                offs = [
                    run.machine.function(SCALES[name](_size(a), _size(b), **numbers))
                    for a, b in zip(x.models(), y.models(), strict=True)
                ]
                return y.widened(offs).promoted()
            if name == "leaky_relu":
                return y.widened([run.machine.function(_size(each)) for each in y.models()])
            return y

        return _each(values[0], one)

    return operate


def _softmax(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    """`p_i = 1/Σ_j e^{s_j - s_i}`: differences of scores have what these share cancelled."""
    axis = _axis(data[0].get("axis"), values[0])
    moved = np.moveaxis(values[0], axis, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    result = np.empty(rows.shape, dtype=object)
    for number, row in enumerate(rows):
        scores = tuple([each.models()[k].range for each in row] for k in range(len(row[0].models())))
        for place, own in enumerate(row):
            run.step()
            total: Any = None
            gaps = [each - own for each in row if each is not own]
            for gap in gaps:
                total = gap.after("exp") if total is None else total + gap.after("exp")
            one = own.scaled(ZERO).shifted(ONE)
            weight = one if total is None else total.shifted(ONE).known(ONE, INFINITE).inverse().known(ZERO, ONE)
            offs = []
            for k, model in enumerate(weight.models()):
                behind = largest([ZERO, *(gap.models()[k].range.high for gap in gaps)])
                offs.append(run.machine.weight(behind, _size(model), len(row)))
            share = Share(row, place, scores, tuple(offs))
            result[number, place] = replace(weight.widened(offs).promoted(), share=share)
    return np.moveaxis(result.reshape(moved.shape), -1, axis)


def _axis(axis: Any, x: Numbers) -> int:
    if type(axis) is not int or not 0 <= axis < x.ndim:
        raise Unreadable("an axis must be one of the value's")
    return axis


def _gathered(x: Numbers, data: Words) -> tuple[Numbers, tuple[int, ...]]:
    """Groups of numbers along some axes, (groups, n), and the shape of what becomes of them."""
    axes = data.get("axes")
    if not isinstance(axes, list) or not axes or len({_axis(each, x) for each in axes}) != len(axes):
        raise Unreadable("axes must be different ones of the value's")
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = tuple(
        x.shape[axis] if axis in kept else 1 for axis in range(x.ndim) if axis in kept or data.get("keep", False)
    )
    return x.transpose(*kept, *axes).reshape(-1, prod(x.shape[axis] for axis in axes)), shape


def _reduced(one: Callable[[Run, list[Any]], Any]) -> Callable[..., Numbers]:
    def operate(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
        groups, shape = _gathered(values[0], data[0])
        result = np.empty(len(groups), dtype=object)
        for number, group in enumerate(groups):
            run.step()
            result[number] = one(run, group.tolist())
        return result.reshape(shape)

    return operate


def _sum(run: Run, group: list[Any]) -> Any:
    count = len(group[0].models())
    return _total(group, [[ONE] * len(group)] * count, [ZERO] * count, run)


def _mean(run: Run, group: list[Any]) -> Any:
    total, count = _sum(run, group), len(group)
    mean = total.scaled(ONE / count)
    return mean.widened([run.machine.rounded(up(_size(each) / count)) for each in total.models()])


def _max(run: Run, group: list[Any]) -> Any:
    best = group[0]
    for each in group[1:]:
        best = best + (each - best).kinked(ZERO, ONE, ZERO)
    low = [largest([x.models()[k].range.low for x in group]) for k in range(len(best.models()))]
    high = [largest([x.models()[k].range.high for x in group]) for k in range(len(best.models()))]
    return best.known(-largest([-each for each in low]), largest(high))


def _normalise(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    """`z/√(mean z² + ε)` with z = x - mean, in real arithmetic, and what LayerNorm is off as computed."""
    epsilon = data[0].get("epsilon")
    if not isinstance(epsilon, float) or not epsilon >= 0:
        raise Unreadable("the epsilon of a normalisation must be a number >= 0")
    x = values[0]
    groups, _ = _gathered(x, data[0])
    axes: list[int] = data[0]["axes"]
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    order = (*kept, *axes)
    result = np.empty(groups.shape, dtype=object)
    for number, members in enumerate(groups):
        run.step()
        group, count = [each.promoted() for each in members], len(members)
        total = group[0]
        for each in group[1:]:
            total = total + each
        mean = total.scaled(ONE / count)
        centred = [each - mean for each in group]
        squares = centred[0] * centred[0]
        for each in centred[1:]:
            squares = squares + each * each
        variance = squares.scaled(ONE / count).shifted(arb(epsilon)).known(arb(epsilon), INFINITE)
        root = variance.after("sqrt").inverse()
        most = up(arb(max(count - 1, 0)).sqrt())
        for place, z in enumerate(centred):
            y = (z * root).known(-most, most)
            offs = []
            for k, model in enumerate(y.models()):
                sizes = [_size(each.models()[k]) for each in group]
                mean_square = up(sum((each * each for each in sizes), ZERO) / count)
                least = larger(variance.models()[k].range.low, ZERO)
                offs.append(run.machine.normalised(largest(sizes), mean_square, least, _size(model), count))
            result[number, place] = y.widened(offs).promoted()
    moved = result.reshape(tuple(x.shape[axis] for axis in order))
    return moved.transpose(*np.argsort(order))


def _reshape(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    return _arranged(lambda: values[0].reshape(_whole(data[0].get("shape"), TUNING.most_elements)))


def _transpose(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    return _arranged(lambda: values[0].transpose(_whole(data[0].get("axes"), TUNING.most_axes)))


def _concat(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    return _arranged(lambda: np.concatenate(values, axis=_axis(data[0].get("axis"), values[0])))


def _gather(run: Run, values: list[Numbers], data: Sequence[Words]) -> Numbers:
    indices = data[0].get("indices")
    if not isinstance(indices, np.ndarray) or indices.dtype != np.int64 or indices.ndim != 1:
        raise Unreadable("what is gathered must have whole numbers as places")
    return _arranged(lambda: np.take(values[0], indices, axis=_axis(data[0].get("axis"), values[0])))


def _arranged(how: Callable[[], Numbers]) -> Numbers:
    try:
        return how()
    except (ValueError, IndexError):
        raise Unreadable("an operation that moves numbers must fit its argument") from None


OPERATIONS: dict[str, Callable[..., Numbers]] = {
    "linear": _linear,
    "matmul": _matmul,
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "scale": _scale,
    "shift": _shift,
    **{name: _elementwise(name) for name in FUNCTIONS},
    "softmax": _softmax,
    "sum": _reduced(_sum),
    "mean": _reduced(_mean),
    "max": _reduced(_max),
    "normalise": _normalise,
    "reshape": _reshape,
    "transpose": _transpose,
    "concat": _concat,
    "gather": _gather,
}
"""By operation: the run, the values of its arguments, the data of each network's node."""


def values(graphs: Sequence[Graph], seen: Sequence[Noisy], run: Run) -> Numbers:
    """The output of one graph, or of two of one structure, on the inputs that are seen, flat."""
    space = run.space
    nothing = Noisy.of(Model.constant(space, ZERO))
    start = np.empty(len(seen), dtype=object)
    start[:] = [Alone(each) if len(graphs) == 1 else Both(each, each, nothing) for each in seen]
    found: list[Numbers] = [_arranged(lambda: start.reshape(graphs[0].shape))]
    for nodes in list(zip(*(graph.nodes for graph in graphs), strict=True))[1:]:
        if nodes[0].operation == "constant":
            found.append(_constants([node.data for node in nodes], space))
            continue
        arguments = [found[source] for source in nodes[0].inputs]
        if not arguments:
            raise Unreadable("an operation must have arguments")
        result = OPERATIONS[nodes[0].operation](run, arguments, [node.data for node in nodes])
        if result.size > TUNING.most_elements:
            raise NotCovered(f"values of more than {TUNING.most_elements} numbers")
        found.append(result)
    return found[graphs[0].output].ravel()


def _constants(data: Sequence[Words], space: Space) -> Numbers:
    numbers = [np.asarray(each.get("value"), dtype=np.float64) for each in data]
    result = np.empty(numbers[0].shape, dtype=object)
    for place in np.ndindex(result.shape):
        own = [arb(float(each[place])) for each in numbers]
        a, *others = (Noisy.of(Model.constant(space, each)) for each in own)
        change = Noisy.of(Model.constant(space, own[-1] - own[0]))
        result[place] = Both(a, others[0], change) if others else Alone(a)
    return result
