"""Graphs as circuits: affine forms with enclosed coefficients, and functions of one variable, node by node [T 7.2].

An affine node makes forms of forms. A function of single numbers makes a unit of each form; all units of a node have
one range, so that they share one bank. Products are squares [T 7.1]. A softmax is `p_i = exp(z_i - log Σ_j exp(z_j))`,
of two numbers `1/(1 + exp(z_2 - z_1))`. Units of a softmax and of LayerNorm are chosen so that errors are not passed on
many times over [T 7.4].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import inf, log, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arithmetic import Interval, as_interval, join
from ...domains.box import Box
from ...formula.atoms import Atoms, NoCircuit
from ...formula.circuits import ONE, ZERO, Circuit, Linear
from ...formula.composites import Composite
from ...formula.lowering import pruned
from ...formula.products import EXP, LOG, SQUARE, Products
from .graph import OPERATIONS, Floats, Graph, Node

Forms = npt.NDArray[np.object_]
"""Affine forms, one an entry of a value."""
LARGEST = 4000
"""Units of a circuit, at most: proofs compare every head with every unit."""
BOXES = 256
"""Boxes on which the values of nodes are enclosed, at most."""


# ---------------------------------------------------------------- functions of one variable

U = Composite.variable()


def _number(value: float) -> Composite:
    return Composite.number(Interval(value))


def _of(kind: str, *parts: Composite | float) -> Composite:
    return Composite.of(kind, *(part if isinstance(part, Composite) else _number(part) for part in parts))


def _sigmoid(u: Composite) -> Composite:
    """1/(1 + exp(-u)) = (1 + tanh(u/2))/2."""
    return _of("+", 0.5, _of("*", 0.5, _of("tanh", _of("*", 0.5, u))))


def _gelu_tanh() -> Composite:
    root = _of("sqrt", _of("/", 2.0, Composite.number(_PI)))
    inner = _of("*", root, _of("+", U, _of("*", Composite.number(_tenth(0.044715)), _of("*", U, _of("*", U, U)))))
    return _of("*", _of("*", 0.5, U), _of("+", 1.0, _of("tanh", inner)))


def _tenth(value: float) -> Interval:
    """A float as it is stored: frameworks have it as a float."""
    return Interval(value)


_PI = Interval(np.nextafter(np.pi, 0.0), np.nextafter(np.pi, 4.0))

FUNCTIONS: Mapping[str, Callable[..., Composite]] = {
    "sigmoid": lambda: _sigmoid(U),
    "tanh": lambda: _of("tanh", U),
    "gelu": lambda: _of("*", _of("*", 0.5, U), _of("+", 1.0, _of("erf", _of("/", U, _of("sqrt", 2.0))))),
    "gelu_tanh": _gelu_tanh,
    "silu": lambda: _of("*", U, _sigmoid(U)),
    "softplus": lambda beta: _of("/", _of("log1p", _of("exp", _of("*", beta, U))), beta),
    "exp": lambda: EXP,
    "log": lambda: LOG,
    "sqrt": lambda: _of("sqrt", U),
    "erf": lambda: _of("erf", U),
    "square": lambda: SQUARE,
    "reciprocal": lambda: _of("/", 1.0, U),
    "power": lambda exponent: _of("**", U, exponent),
}
"""Functions of single numbers that become heads of their own."""
HALF = Interval(0.5)
PAIR = _of("log", _of("*", 2.0, _of("cosh", _of("*", 0.5, U))))
"""h(t) = log(2 cosh(t/2)), the part of log(e^u + e^v) that is not linear, at t = u - v."""


# ---------------------------------------------------------------- enclosures


def enclosed(graph: Graph, boxes: Interval) -> list[Interval]:
    """All nodes on boxes (B, D), each (B, *shape) or (1, *shape)."""
    done = list[Interval]()
    for node in graph.nodes[: graph.output + 1]:
        if node.operation == "input":
            done.append(boxes.reshape((len(boxes), *node.shape)))
        else:
            done.append(_enclosed(node, [done[k] for k in node.inputs]))
    return done


def _enclosed(node: Node, inputs: list[Interval]) -> Interval:
    data, x = node.data, inputs[0] if inputs else Interval(0.0)
    match node.operation:
        case "constant":
            return Interval(data["value"][None])
        case "linear":
            flat = x.reshape((-1, x.shape[-1]))
            return (flat @ data["weight"] + data["bias"]).reshape((*x.shape[:-1], data["weight"].shape[1]))
        case "add" | "subtract" | "multiply" | "divide":
            a, b = (_aligned(part, len(node.shape)) for part in inputs)
            return {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}[
                node.operation
            ](a, b)  # type: ignore[return-value]
        case "matmul":
            return _products(*(_aligned(part, len(node.shape)) for part in inputs))
        case "scale":
            return _aligned(x, np.ndim(data["factor"])) * data["factor"]
        case "shift":
            return _aligned(x, np.ndim(data["by"])) + data["by"]
        case "relu":
            return Interval(np.maximum(x.lo, 0.0), np.maximum(x.hi, 0.0), x.defined)
        case "clip":
            return Interval(
                np.clip(x.lo, data["low"], data["high"]), np.clip(x.hi, data["low"], data["high"]), x.defined
            )
        case "leaky_relu":
            return _positive(x) - data["slope"] * _positive(-x)
        case "abs":
            return np.abs(x)  # type: ignore[return-value]
        case "elu":
            below = -_positive(-x)
            return _positive(x) + data["alpha"] * np.expm1(below)  # type: ignore[operator]
        case name if name in FUNCTIONS:
            return as_interval(FUNCTIONS[name](**data)(x))
        case "softmax":
            return _softmax(x, data["axis"] + 1)
        case "normalise":
            return _normalised(x, node)
        case "sum" | "mean":
            return _total(x, data["axes"], data["keep"], mean=node.operation == "mean")
        case "max":
            axes = tuple(axis + 1 for axis in data["axes"])
            low, high = (end.max(axis=axes, keepdims=data["keep"]) for end in (x.lo, x.hi))
            return Interval(low, high, bool(np.all(x.defined)))
        case "concat":
            count = max(len(part) for part in inputs)
            return join([_repeated(part, count) for part in inputs], axis=data["axis"] + 1)
        case _:  # numbers are moved
            run = OPERATIONS[node.operation]
            ends = (run(end, **data) for end in (x.lo, x.hi, np.broadcast_to(x.defined, x.shape)))
            return Interval(*ends)


def _positive(x: Interval) -> Interval:
    return Interval(np.maximum(x.lo, 0.0), np.maximum(x.hi, 0.0), x.defined)


def _aligned(x: Interval, axes: int) -> Interval:
    missing = max(0, axes - (x.ndim - 1))
    return x.reshape((x.shape[0], *(1,) * missing, *x.shape[1:])) if missing else x


def _repeated(x: Interval, count: int) -> Interval:
    shape = (count, *x.shape[1:])
    return Interval(*(np.broadcast_to(end, shape) for end in (x.lo, x.hi, np.broadcast_to(x.defined, x.shape))))


def _products(a: Interval, b: Interval) -> Interval:
    """Products of matrices (..., n, k) and (..., k, m)."""
    left, right = a.reshape((*a.shape, 1)), b.reshape((*b.shape[:-2], 1, *b.shape[-2:]))
    return (left * right).sum(axis=-2)


def _total(x: Interval, axes: tuple[int, ...], keep: bool, mean: bool) -> Interval:
    count = prod(x.shape[axis + 1] for axis in axes)
    for axis in sorted(axes, reverse=True):
        x = x.sum(axis=axis + 1, keepdims=keep)
    return x / float(count) if mean else x


def _softmax(x: Interval, axis: int) -> Interval:
    """1/Σ_j exp(z_j - z_i), with z_j and z_i at their ends."""
    ends = []
    for mine, others in ((x.lo, x.hi), (x.hi, x.lo)):
        other = np.moveaxis(others, axis, -1)[..., None, :]
        own = np.moveaxis(mine, axis, -1)[..., :, None]
        apart = Interval(other) - Interval(own)  # (..., i, j)
        size = own.shape[-2]
        apart = Interval(*(np.where(np.eye(size, dtype=bool), 0.0, end) for end in (apart.lo, apart.hi)))
        whole = Interval(1.0) / np.exp(apart).sum(axis=-1)  # type: ignore[union-attr]
        ends.append((np.moveaxis(whole.lo, -1, axis), np.moveaxis(whole.hi, -1, axis)))
    low, high = np.clip(ends[0][0], 0.0, 1.0), np.clip(ends[1][1], 0.0, 1.0)
    return Interval(low, high, bool(np.all(x.defined)))


def _normalised(x: Interval, node: Node) -> Interval:
    axes = node.data["axes"]
    centred = x - _total(x, axes, keep=True, mean=True)
    variance = _total(np.square(centred), axes, keep=True, mean=True) + node.data["epsilon"]  # type: ignore[arg-type]
    count = prod(x.shape[axis + 1] for axis in axes)
    bound = np.nextafter(np.sqrt(float(count)), inf)  # |centred| is at most the root of the sum of squares
    value = centred / np.sqrt(variance)
    return Interval(np.maximum(value.lo, -bound), np.minimum(value.hi, bound), value.defined)


# ---------------------------------------------------------------- circuits


def circuit_of(graph: Graph, domain: Box) -> Circuit | None:
    """The circuit of a graph on a domain; None where a unit is unbounded, or they are too many."""
    try:
        return _GraphLowering(graph, domain).circuit()
    except NoCircuit:
        return None


class _GraphLowering:
    """Makes the atoms while it walks through a graph."""

    def __init__(self, graph: Graph, domain: Box) -> None:
        self.graph, self.low, self.high = graph, domain.lo.ravel(), domain.hi.ravel()
        self.atoms = Atoms(self.low, self.high)
        self.products = Products(self.atoms)
        self.ranges = _ranges(graph, self.low, self.high)
        self.values = dict[int, Forms]()
        self.defined = True

    def circuit(self) -> Circuit:
        """All nodes that the output needs, then only the units that are needed."""
        users = self.graph.users()
        for number, node in enumerate(self.graph.nodes):
            if users[number]:
                forms = self.node(node, [self.values[k] for k in node.inputs])
                self.values[number] = forms.reshape(node.shape)
                self.learn(self.values[number], self.ranges[number])
                if len(self.atoms.units) > LARGEST:
                    raise NoCircuit(f"more than {LARGEST} units")
        outputs = tuple(self.values[self.graph.output].ravel())
        return pruned(Circuit(self.low, self.high, tuple(self.atoms.units), outputs, self.defined))

    def learn(self, forms: Forms, ranges: Interval) -> None:
        """What is known of the ranges of a value, entry by entry."""
        low, high = (np.broadcast_to(end[0], forms.shape).ravel() for end in (ranges.lo, ranges.hi))
        for form, least, most in zip(forms.ravel(), low, high, strict=True):
            if form.terms and least > -inf and most < inf:
                self.atoms.learn(form, Interval(least, most))

    def node(self, node: Node, inputs: list[Forms]) -> Forms:
        """The forms of one node."""
        data, text = node.data, node.name or node.operation
        match node.operation:
            case "input":
                return _forms([Linear.atom(k) for k in range(len(self.low))])
            case "constant":
                return _forms([Linear(Interval(number), {}) for number in data["value"].ravel()])
            case "linear":
                return _mapped(inputs[0], data["weight"], data["bias"])
            case "add" | "subtract":
                a, b = _broadcast(*inputs)
                sign = ONE if node.operation == "add" else -ONE
                return _forms([u.plus(v, sign) for u, v in zip(a, b, strict=True)])
            case "scale":
                forms, factors = _broadcast(inputs[0], data["factor"])
                return _forms([form.scaled(Interval(factor)) for form, factor in zip(forms, factors, strict=True)])
            case "shift":
                forms, by = _broadcast(inputs[0], data["by"])
                return _forms([form.plus(Linear(Interval(each), {})) for form, each in zip(forms, by, strict=True)])
            case "multiply":
                a, b = _broadcast(*inputs)
                return _forms([self.product(u, v, text) for u, v in zip(a, b, strict=True)])
            case "divide":
                a, b = _broadcast(*inputs)
                return self.quotients(a, b, text)
            case "matmul":
                return self.matmul(inputs[0], inputs[1], text)
            case "relu" | "leaky_relu" | "clip" | "abs" | "max":
                return self.rectified(node, inputs[0], text)
            case "elu":
                return self.elu(inputs[0], data["alpha"], text)
            case "softmax":
                return self.softmax(inputs[0], data["axis"], text)
            case "normalise":
                return self.normalise(inputs[0], data["axes"], data["epsilon"], text)
            case "sum" | "mean":
                return _total_forms(inputs[0], data["axes"], mean=node.operation == "mean")
            case "concat":
                return np.concatenate(inputs, axis=data["axis"])
            case "square":
                return self.squares(inputs[0], text)
            case name if name in FUNCTIONS:
                return self.units(FUNCTIONS[name](**data), inputs[0], text)
            case _:  # numbers are moved
                moved = OPERATIONS[node.operation](inputs[0][None], **data)
                return np.asarray(moved[0, ...], dtype=object)  # an array even if of one number

    # ------------------------------------------------------------ units

    def units(self, function: Composite, forms: Forms, text: str, within: Interval | None = None) -> Forms:
        """A function of every form, on one range for all of them."""
        ranges, common = [self.atoms.range(form) for form in forms.ravel() if form.terms], None
        if ranges:
            low, high = min(float(r.lo) for r in ranges), max(float(r.hi) for r in ranges)
            if within is not None:
                low, high = max(low, float(within.lo)), min(high, float(within.hi))
            common = Interval(low, high)
            self.defined &= bool(np.all(function.range(low, high).defined))
        return _forms(
            [self.atoms.unit(function, form, text, common if form.terms else None) for form in forms.ravel()]
        ).reshape(forms.shape)

    def squares(self, forms: Forms, text: str) -> Forms:
        """Squares; those of one atom t share its square, `(a t + c)² = a² t² + 2 a c t + c²`.

        So the distances from n points in d variables take d units, not n d.
        """
        found = list(forms.ravel())
        used = Counter(next(iter(form.terms)) for form in found if len(form.terms) == 1)
        shared = sorted(atom for atom, count in used.items() if count > 1)
        ready = dict(zip(shared, self.units(SQUARE, _forms([Linear.atom(atom) for atom in shared]), text), strict=True))
        alone = [k for k, form in enumerate(found) if len(form.terms) != 1 or next(iter(form.terms)) not in ready]
        for k, unit in zip(alone, self.units(SQUARE, _forms([found[k] for k in alone]), text), strict=True):
            found[k] = unit
        for k in sorted(set(range(len(found))) - set(alone)):
            ((atom, slope),) = found[k].terms.items()
            line = Linear.atom(atom).scaled(Interval(2.0) * slope * found[k].constant)
            whole = line.plus(ready[atom], np.square(slope))  # type: ignore[arg-type]
            found[k] = whole.plus(Linear(np.square(found[k].constant), {}))  # type: ignore[arg-type]
        return _forms(found).reshape(forms.shape)

    def rectified(self, node: Node, forms: Forms, text: str) -> Forms:
        """Rectifiers and what is affine in them."""

        def positive(form: Linear) -> Linear:
            return self.atoms.rectified(form, text)

        def clipped(form: Linear, low: float, high: float) -> Linear:
            shift = Linear(Interval(low), {}) if low > -inf else None
            value = form if shift is None else positive(form.plus(shift, -ONE)).plus(shift)
            return value if high == inf else value.plus(positive(form.plus(Linear(Interval(high), {}), -ONE)), -ONE)

        match node.operation:
            case "relu":
                found = [positive(form) for form in forms.ravel()]
            case "leaky_relu":
                slope = Interval(node.data["slope"])
                found = [form.scaled(slope).plus(positive(form), ONE - slope) for form in forms.ravel()]
            case "clip":
                found = [clipped(form, node.data["low"], node.data["high"]) for form in forms.ravel()]
            case "abs":
                found = [form.plus(positive(form.scaled(-ONE)), Interval(2.0)) for form in forms.ravel()]
            case _:
                axes = node.data["axes"]
                moved = np.moveaxis(forms, axes, range(len(axes)))
                current = list(moved.reshape(-1, *moved.shape[len(axes) :]))
                while len(current) > 1:
                    pairs = zip(current[0::2], current[1::2], strict=False)
                    joined = [
                        _forms(
                            [a.plus(positive(b.plus(a, -ONE))) for a, b in zip(np.ravel(u), np.ravel(v), strict=True)]
                        )
                        for u, v in pairs
                    ]
                    current = [*joined, *([_forms(list(np.ravel(current[-1])))] if len(current) % 2 else [])]
                return np.asarray(current[0], dtype=object)
        return _forms(found)

    def elu(self, forms: Forms, alpha: float, text: str) -> Forms:
        """x + r + alpha (exp(-r) - 1) with r = max(0, -x)."""
        below = _forms([self.atoms.rectified(form.scaled(-ONE), text) for form in forms.ravel()])
        falls = self.units(_of("expm1", _of("neg", U)), below, text)
        return _forms(
            [
                form.plus(under).plus(fall, Interval(alpha))
                for form, under, fall in zip(forms.ravel(), below, falls, strict=True)
            ]
        )

    # ------------------------------------------------------------ products

    def product(self, u: Linear, v: Linear, text: str) -> Linear:
        """u v."""
        if not u.terms:
            return v.scaled(u.constant)
        if not v.terms:
            return u.scaled(v.constant)
        return self.products.of([u, v], text)

    def quotients(self, a: Forms, b: Forms, text: str) -> Forms:
        """u/v: by constants, or by values that have one sign."""
        changing = _forms([form for form in b if form.terms])
        inverse = {}
        if len(changing):
            whole = [self.atoms.range(form) for form in changing]
            if not (all(r.lo > 0 for r in whole) or all(r.hi < 0 for r in whole)):
                raise NoCircuit(f"{text} divides by what may be zero")
            inverse = {
                id(form): unit
                for form, unit in zip(changing, self.units(_of("/", 1.0, U), changing, text), strict=True)
            }
        return _forms(
            [
                self.product(u, inverse[id(v)], text) if v.terms else u.scaled(ONE / v.constant)
                for u, v in zip(a, b, strict=True)
            ]
        )

    def matmul(self, a: Forms, b: Forms, text: str) -> Forms:
        """Products of matrices in the last two axes."""
        rank = max(a.ndim, b.ndim)
        a, b = (x.reshape((*(1,) * (rank - x.ndim), *x.shape)) for x in (a, b))
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
        found = np.empty((*lead, a.shape[-2], b.shape[-1]), dtype=object)
        for place in np.ndindex(*found.shape):
            rows, columns = a[(*place[:-2], place[-2])], b[(*place[:-2], slice(None), place[-1])]
            total = Linear(ZERO, {})
            for u, v in zip(rows, columns, strict=True):
                total = total.plus(self.product(u, v, text))
            found[place] = total
        return found

    def softmax(self, forms: Forms, axis: int, text: str) -> Forms:
        """Along one axis."""
        found = np.empty(forms.shape, dtype=object)
        moved, result = np.moveaxis(forms, axis, -1), np.moveaxis(found, axis, -1)
        for place in np.ndindex(*moved.shape[:-1]):
            result[place] = self.softmax_of(moved[place], text)
        return found

    def softmax_of(self, scores: Forms, text: str) -> Forms:
        """exp(z_i - log Σ_j exp(z_j)); of two, 1/(1 + exp(z_2 - z_1)) and the rest [T 7.4]."""
        if len(scores) == 1:
            return _forms([Linear(ONE, {})])
        if len(scores) == 2:
            (first,) = self.units(_sigmoid(U), _forms([scores[0].plus(scores[1], -ONE)]), text)
            return _forms([first, Linear(ONE, {}).plus(first, -ONE)])
        ranges = [self.atoms.range(form) for form in scores]
        lowest, highest = min(float(r.lo) for r in ranges), max(float(r.hi) for r in ranges)
        far_apart = highest - lowest > log(len(scores))  # errors would count exp(highest - lowest) fold
        total = self.joined_pairs(scores, text) if far_apart else self.of_powers(scores, ranges, text)
        least = Interval(lowest) - Interval(highest) - np.log(Interval(float(len(scores))))  # type: ignore[operator]
        within = Interval(float(least.lo), 0.0)
        return self.units(EXP, _forms([form.plus(total, -ONE) for form in scores]), text, within)

    def of_powers(self, scores: Forms, ranges: list[Interval], text: str) -> Linear:
        """log Σ_j exp(z_j) as it stands."""
        middle = Linear(Interval(max(float(r.mid) for r in ranges)), {})
        powers = self.units(EXP, _forms([form.plus(middle, -ONE) for form in scores]), text)
        total = Linear(ZERO, {})
        for power in powers:
            total = total.plus(power)
        (whole,) = self.units(LOG, _forms([total]), text)
        return whole.plus(middle)

    def joined_pairs(self, scores: Forms, text: str) -> Linear:
        """log Σ_j exp(z_j) by pairs, `log(e^u + e^v) = (u + v)/2 + h(u - v)` [T 7.4]."""
        current = list(scores)
        while len(current) > 1:
            pairs = list(zip(current[0::2], current[1::2], strict=False))
            bends = self.units(PAIR, _forms([u.plus(v, -ONE) for u, v in pairs]), text)
            joined = [u.plus(v).scaled(HALF).plus(bend) for (u, v), bend in zip(pairs, bends, strict=True)]
            for (u, v), both in zip(pairs, joined, strict=True):
                self.atoms.learn(both, _joined_range(self.atoms.range(u), self.atoms.range(v)))
            current = [*joined, *current[2 * len(pairs) :]]
        return current[0]

    def normalise(self, forms: Forms, axes: tuple[int, ...], epsilon: float, text: str) -> Forms:
        """(x - mean)/sqrt(var + epsilon)."""
        moved = np.moveaxis(forms, axes, range(-len(axes), 0))
        rows = moved.reshape(-1, prod(moved.shape[-len(axes) :]))  # (R, n)
        found = np.empty(rows.shape, dtype=object)
        for number, row in enumerate(rows):
            mean = _total_forms(row, (0,), mean=True).item()
            centred = _forms([form.plus(mean, -ONE) for form in row])
            squares = self.units(SQUARE, centred, text)
            variance = _total_forms(squares, (0,), mean=True).item().plus(Linear(Interval(epsilon), {}))
            self.atoms.learn(variance, Interval(epsilon, inf))
            found[number] = self.over_root(centred, variance, text)
        return np.moveaxis(found.reshape(moved.shape), range(-len(axes), 0), axes)

    def over_root(self, centred: Forms, variance: Linear, text: str) -> Forms:
        """c_i/q with q the root of the variance: `exp(log(c_i + M q) - log q) - M` with M about 2√n [T 7.4]."""
        most = float(np.nextafter(np.sqrt(float(len(centred))), inf))
        lift, reach = Interval(2.0 * most), Interval(most) * Interval(1.0, 3.0)  # of (c_i + M q)/q
        (root,) = self.units(_of("sqrt", U), _forms([variance]), text)
        (logarithm,) = self.units(_of("*", 0.5, LOG), _forms([variance]), text)
        lifted = _forms([form.plus(root, lift) for form in centred])
        for form in lifted:
            self.atoms.learn(form, self.atoms.range(root) * reach)
        powers = _forms([each.plus(logarithm, -ONE) for each in self.units(LOG, lifted, text)])
        for form in powers:
            self.atoms.learn(form, np.log(reach))  # type: ignore[arg-type]
        return _forms([each.plus(Linear(lift, {}), -ONE) for each in self.units(EXP, powers, text)])


def _joined_range(u: Interval, v: Interval) -> Interval:
    """Of log(e^u + e^v), which grows with both: at their lower ends and at their upper ends."""

    def joined(a: float, b: float) -> Interval:
        most = Interval(max(a, b))
        return most + np.log(np.exp(Interval(a) - most) + np.exp(Interval(b) - most))  # type: ignore[operator]

    return Interval(float(joined(float(u.lo), float(v.lo)).lo), float(joined(float(u.hi), float(v.hi)).hi))


def _forms(parts: list[Any]) -> Forms:
    """Forms in an array, (n,)."""
    found = np.empty(len(parts), dtype=object)
    found[:] = parts
    return found


def _broadcast(a: Any, b: Any) -> tuple[Any, Any]:
    """Two arrays entry by entry, flat."""
    one, two = np.broadcast_arrays(a, b)
    return one.ravel(), two.ravel()


def _mapped(forms: Forms, weight: Floats, bias: Floats) -> Forms:
    """`Σ_i forms_i weight_ij + bias_j` on the last axis: weight (d, m)."""
    rows = forms.reshape(-1, weight.shape[0])
    found = np.empty((len(rows), weight.shape[1]), dtype=object)
    for number, row in enumerate(rows):
        used = sorted({atom for form in row for atom in form.terms})
        if sum(len(form.terms) for form in row) == len(used):  # no atom occurs twice
            atoms = [(atom, i, coefficient) for i, form in enumerate(row) for atom, coefficient in form.terms.items()]
            coefficients = Interval(
                *(np.array([float(getattr(c, end)) for *_, c in atoms])[:, None] for end in ("lo", "hi"))
            )
            entries = (
                coefficients * weight[[i for _, i, _ in atoms]] if atoms else Interval(np.zeros((0, weight.shape[1])))
            )
            names = [atom for atom, *_ in atoms]
        else:
            names = used
            ends = []
            for end in ("lo", "hi"):
                table = np.zeros((len(used), len(row)))  # (A, d)
                for i, form in enumerate(row):
                    for atom, coefficient in form.terms.items():
                        table[used.index(atom), i] = float(getattr(coefficient, end))
                ends.append(table)
            entries = Interval(*ends) @ weight  # (A, m)
        constants = Interval(*(np.array([float(getattr(form.constant, end)) for form in row]) for end in ("lo", "hi")))
        shifts = Interval(bias)
        if constants.lo.any() or constants.hi.any():
            shifts = (constants.reshape((1, -1)) @ weight).reshape((-1,)) + bias
        for j in range(weight.shape[1]):
            terms = {
                atom: Interval(entries.lo[k, j], entries.hi[k, j])
                for k, atom in enumerate(names)
                if entries.lo[k, j] != 0 or entries.hi[k, j] != 0
            }
            found[number, j] = Linear(Interval(shifts.lo[j], shifts.hi[j]), terms)
    return found.reshape(*forms.shape[:-1], weight.shape[1])


def _total_forms(forms: Forms, axes: tuple[int, ...], mean: bool) -> Forms:
    """Sums or means along axes, flat."""
    moved = np.moveaxis(forms, axes, range(len(axes)))
    count = prod(moved.shape[: len(axes)])
    columns = moved.reshape(count, -1)
    found = []
    for column in columns.T:
        total = Linear(ZERO, {})
        for form in column:
            total = total.plus(form)
        found.append(total.scaled(ONE / Interval(float(count))) if mean else total)
    return _forms(found)


def _ranges(graph: Graph, low: Floats, high: Floats) -> list[Interval]:
    """Enclosures of all nodes over the whole domain, by boxes: (1, *shape) each."""
    lows, highs = low[None], high[None]
    while len(lows) < BOXES and len(low) <= np.log2(BOXES):
        axis = int(np.argmax((highs - lows)[0]))
        middle = lows / 2 + highs / 2
        left, right = highs.copy(), lows.copy()
        left[:, axis] = right[:, axis] = middle[:, axis]
        lows, highs = np.concatenate([lows, right]), np.concatenate([left, highs])
    found = enclosed(graph, Interval(lows, highs))
    return [
        Interval(x.lo.min(axis=0, keepdims=True), x.hi.max(axis=0, keepdims=True), bool(np.all(x.defined)))
        for x in found
    ]
