"""The rule `circuit`: networks that compute a formula step by step, in any number of variables [T 11.4, 11.13].

Features are followed as computed, as forms of unknowns (`structure.py`). A head whose bank reads one feature u that
varies, and constants, computes a function φ of it, which the proof names: its value is a new unknown `φ(u₀)`, u₀ the
feature without its errors, and an error. With `|u - u₀| <= e`, and `|head(u) - φ(u)| <= ε` on the range of u, which is
judged in one variable on the very weights of the head, rounding included, that error is at most `ε + ω(e)`, ω the
modulus of continuity of φ. Where φ is not defined beyond the range of u₀, `φ(clip(u))` is taken; `clip(u)` is no
farther from u₀ than u.

At the end each output is a form of the variables and of functions of forms. Written as a sum of products of powers it
is compared with the target, written in the same way (`symbols.py`). Nothing depends on what a proof says: a wrong
function makes ε large, and another formula makes a difference that is not small.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, nextafter

import numpy as np
from flint import arb

from . import formula
from .covers import Box
from .errors import NotCovered, Unreadable
from .files import Affine, Attention, Claim, Domain, Floats, Network, Proof
from .forms import Form, Unknowns
from .formula import Step
from .limits import Limits, on_box
from .models import Model, space
from .network import Evaluator, Feature, Head, Map
from .one_feature import exact_number
from .ranges import INFINITE, ONE, ZERO, Range, larger, largest, smaller, up
from .slopes import gradients, times
from .structure import Follower, Tokens
from .symbols import Sum, Symbols


@dataclass(frozen=True)
class CircuitLimits:
    """How finely heads of circuits are compared with their functions."""

    cells: int = 16
    """Pieces of the range of an argument, all but those at its ends of one width. A round number."""
    halvings: int = 24
    """Times that the pieces at its ends are halved. A round number."""
    most_letters: int = 2**20
    """Of what heads compute, in words. For memory."""
    even: int = 129
    """Points of equal distances at which a head is compared with its function. A round number."""
    tried: int = 48
    """As many towards each end, ever closer, and around the worst one. For time."""
    room: tuple[float, ...] = (1.04, 1.005, 1.001)
    """Heads are judged to be within this multiple of the largest distance found there; then closer, if that does
    not do. By trial."""
    sparse: int = 32
    """One in so many of them shows what rounding adds. For time."""
    coarser: tuple[float, ...] = (1.1, 1.5, 4.0)
    """Where a head is nowhere so close. By trial."""
    wider: float = 2.0**-30
    """The fraction of its width by which an interval is widened, so that heads that are alike are judged once. A
    round number."""
    edges: int = 40
    """Distances from the edge of a range, each four times as long as the one before, at which a modulus is tried. A
    round number."""
    most_boxes: int = 256
    """Boxes for the ranges of the steps of a formula. For time."""


TUNING = CircuitLimits()


HeadBound = Callable[[Claim, float], arb]
Ranges = dict[tuple[object, ...], tuple[Range, arb]]
"""Ranges and largest slopes of functions on intervals, by their texts and the ends."""
"""A bound on the error of a claim in one variable if it is at most this large; otherwise infinite."""


def bound_by_circuit(
    claim: Claim, proof: Proof, box: Box, steps: tuple[list[Step], list[int]], judged: HeadBound, limits: Limits
) -> tuple[arb, bool]:
    """A bound on `|target - network|` on a box, and whether the target is defined there."""
    ranges, defined = _ranges(steps[0], box, limits)
    best = INFINITE
    for room in TUNING.room:
        unknowns = Unknowns(box.low, box.high, sparing=False)
        symbols = Symbols([Range(arb(a), arb(b)) for a, b in zip(box.low.tolist(), box.high.tolist(), strict=True)])
        target = symbols.evaluated(*steps, symbols.variables, ranges)
        written = _Written(unknowns, symbols)
        outputs = _Circuit(claim, proof, written, judged, limits, room).outputs()
        pairs = zip(target, outputs, strict=True)
        apart = [symbols.most(symbols.weighted([ONE, -ONE], [f, written(g)])) for f, g in pairs]
        best = smaller(best, largest(apart))
        if best <= claim.bound:
            break
    return best, defined


def _ranges(steps: list[Step], box: Box, limits: Limits) -> tuple[list[Range], bool]:
    """The ranges of all steps of a formula on a box, which is cut where a step is not defined or unbounded."""
    whole: list[Range] = []
    stack, count, defined, size_ = [box], 0, True, len(box.low)
    extent = np.maximum(box.high - box.low, np.finfo(np.float64).tiny)
    least = min(TUNING.most_boxes, 4**size_) if size_ <= 3 else 1
    while stack:
        limits.step(on_box(space(size_, 1).count ** 2 * len(steps)))
        here, count = stack.pop(), count + 1
        models = formula.evaluate(steps, range(len(steps)), here.variables(space(size_, 1)))
        sound = all(model.range.defined and model.range.bounded for model in models)
        halves = (
            here.cut(here.longest(extent)) if count + len(stack) < (least if sound else TUNING.most_boxes) else None
        )
        if halves is not None:
            stack += halves
            continue
        defined = defined and sound
        ranges = [model.range for model in models]
        whole = [a.join(b) for a, b in zip(whole, ranges, strict=True)] if whole else ranges
    return whole, defined


class _Circuit(Follower):
    """Follows the features of one network, and judges its heads in one variable each."""

    def __init__(
        self, claim: Claim, proof: Proof, written: _Written, judged: HeadBound, limits: Limits, room: float
    ) -> None:
        super().__init__(claim.network, written.unknowns, limits)
        self.claim, self.written, self.judged, self.room = claim, written, judged, room
        self.hints = _hints(proof)
        self.known = dict[tuple[object, ...], list[tuple[float, float, arb]]]()
        """Heads with the intervals on which they were judged, and how far they are from their functions there."""
        self.ranges: Ranges = {}

    def attention(self, layer: Attention, heads: list[Head], map_: Map, tokens: Tokens, read: list[bool]) -> Tokens:
        """A layer of banks that read one feature each; other layers are read as fans."""
        reads = [np.flatnonzero((query != 0).any(axis=1)).tolist() for query in layer.query]
        features = [[k for k in each if len(each) == 1 or not tokens[0][k].constant] for each in reads]
        if layer.attends_data or layer.value.shape[2] != 1 or any(len(each) != 1 for each in features):
            return super().attention(layer, heads, map_, tokens, read)
        if len(tokens) != 1:
            raise NotCovered("a circuit of several tokens")
        (token,) = tokens
        averages = [
            self._head(
                layer, number, feature, {k: exact_number(token[k]) for k in every if k != feature}, token[feature]
            )
            for number, ((feature,), every) in enumerate(zip(features, reads, strict=True))
        ]
        return [self.with_residual(layer, self.mapped(map_, averages), token)]

    def _head(self, layer: Attention, number: int, feature: int, beside: dict[int, float], form: Form) -> Form:
        """`φ(u₀)` and an error; the head reads constants `beside` the feature."""
        self.limits.step()
        text, premise = next(self.hints, ("", None))
        if not text:
            raise NotCovered("a circuit whose proof does not say what its heads compute")
        unit, inner = Unit(text, form.quiet, self.ranges), self.written.range(form.quiet)
        whole = inner + form.noise
        clipped = whole
        if not unit.bounded_on(whole):
            low, high = _around(inner)
            text, clipped = unit.clipped(low, high), Range(arb(low), arb(high))
            if not unit.bounded_on(clipped):
                raise NotCovered("a head whose function is not defined on the range of its argument")
        alone = _alone(layer, number, feature, beside, self.claim.network.dtype)
        close = self._distance(alone, text, premise, whole)
        apart = unit.modulus(clipped, form.noise.most)
        value = self.unknowns.new(unit.range(clipped), named=True)
        self.written.units[len(self.unknowns.ranges) - 1] = unit
        return value + self.unknowns.error(up(close + apart))

    def _distance(self, network: Network, text: str, premise: Proof | None, whole: Range) -> arb:
        """How far a head is from its function at most, as computed, on an interval."""
        layers = [vars(layer) for layer in network.layers]
        arrays = [part for layer in layers for part in layer.values() if isinstance(part, np.ndarray)]
        key = text, layers[-1]["stock"], tuple((array.shape, array.tobytes()) for array in arrays)
        for low, high, close in self.known.setdefault(key, []):
            if low <= whole.low and whole.high <= high:
                return close
        width = float(whole.high - whole.low)
        low, high = float(whole.low) - TUNING.wider * width, float(whole.high) + TUNING.wider * width
        ends = np.array([np.nextafter(low, -inf)]), np.array([np.nextafter(high, inf)])
        found = _sampled(network, text, ends)
        for room in (self.room, *TUNING.coarser):
            inner = replace(
                self.claim, network=network, domain=Domain(*ends, ("z",)), outputs=1, bound=room * found, norm=inf,
                target={"kind": "expression", "text": text}, arrays={}, proof=premise, parts=(), declared=(),
                status="proved",
            )  # fmt: skip
            close = self.judged(inner, room * found)
            if close.is_finite():
                self.known[key].append((float(ends[0][0]), float(ends[1][0]), close))
                return close
        raise NotCovered(f"a head that is not within {TUNING.coarser[-1] * found:.3g} of {text[:80]}")


def _hints(proof: Proof) -> Iterator[tuple[str, Proof | None]]:
    """What each head computes, in words, and a proof of it; nobody believes either."""
    functions, premise = proof.data.get("functions"), proof.data.get("premise")
    if functions is None or functions.dtype != np.uint8 or functions.ndim != 1 or len(functions) > TUNING.most_letters:
        return
    if premise is None or premise.dtype != np.int64 or premise.ndim != 1:
        raise Unreadable("the rule 'circuit' must name a premise for each head")
    try:
        lines = functions.tobytes().decode().split("\n")
    except UnicodeDecodeError:
        raise Unreadable("the functions of a circuit must be a text") from None
    for line, number in zip(lines, premise.tolist(), strict=False):
        yield line, proof.premises[number] if 0 <= number < len(proof.premises) else None


def _alone(layer: Attention, number: int, feature: int, beside: dict[int, float], dtype: str) -> Network:
    """One head as a network of the feature that it reads, and of constants: the same operations on the same numbers."""
    one, reads = slice(number, number + 1), [feature, *beside]
    head = replace(
        layer,
        query=layer.query[one][:, reads],
        query_bias=layer.query_bias[one],
        key=layer.key[one],
        key_bias=layer.key_bias[one],
        value=layer.value[one],
        value_bias=layer.value_bias[one],
        output=np.ones((1, 1, 1)),
        output_bias=np.zeros(1),
        residual=False,
        stock=layer.stock_size,
    )
    lift = Affine(np.eye(1, len(reads))[None], np.array([[0.0, *beside.values()]]), None)
    return Network((lift, head) if beside else (head,), 1, 1, dtype)


def _sampled(network: Network, text: str, ends: tuple[Floats, Floats]) -> float:
    """The largest distance of a head from its function at some points, and about the worst one; a hint."""
    near = (ends[1] - ends[0]) * 2.0 ** -np.arange(1.0, TUNING.tried)[:, None]  # (P, 1)
    points = np.concatenate([np.linspace(ends[0], ends[1], TUNING.even), ends[0] + near, ends[1] - near])  # (P, 1)
    points = np.sort(points, axis=0)
    apart = _apart(network, text, points)
    worst = int(apart.argmax())
    around = np.linspace(points[max(worst - 1, 0)], points[min(worst + 1, len(points) - 1)], TUNING.tried)  # (P, 1)
    evaluator, here, rounded = Evaluator(network), space(1, 0), 0.0
    for point in points[:: TUNING.sparse].ravel().tolist():
        ((output,), _) = evaluator([Feature(Model.constant(here, arb(point)), ZERO)], {})
        rounded = max(rounded, float(output.error))
    return max(float(apart.max()), float(_apart(network, text, around).max())) + rounded


def _apart(network: Network, text: str, points: Floats) -> Floats:
    """How far a head is from its function, (P, 1) -> (P, 1)."""
    low, high = formula.values_at(text, ("z",), points)  # (P, 1) each
    rows, keys, values = points, np.zeros((1, 1)), np.zeros((1, 1))
    for layer in network.layers:
        if isinstance(layer, Affine):
            rows = rows @ layer.right[0] + layer.constant  # (P, f)
        elif isinstance(layer, Attention):
            keys = layer.memory @ layer.key[0] + layer.key_bias[0]  # (M, k)
            values = layer.memory @ layer.value[0] + layer.value_bias[0]  # (M, 1)
            rows = rows @ layer.query[0] + layer.query_bias[0]  # (P, k)
    scores = rows @ keys.T  # (P, M)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))  # (P, M)
    return np.abs(weights @ values / weights.sum(axis=1, keepdims=True) - (low + high) / 2)


class Unit:
    """A function of one variable at a form, `φ(u₀)`."""

    def __init__(self, text: str, argument: Form, ranges: Ranges | None = None) -> None:
        self.ranges: Ranges = {} if ranges is None else ranges
        self.steps, self.outputs = formula.read(text, ("z",))
        if len(self.outputs) != 1:
            raise Unreadable("a head must compute one function")
        self.text, self.argument = text, argument

    def clipped(self, low: float, high: float) -> str:
        """The function of `min(max(z, low), high)`."""
        return re.sub(r"\bz\b", f"min(max(z, ({low!r})), ({high!r}))", self.text)

    def range(self, whole: Range) -> Range:
        """Its values on an interval."""
        return self._over(whole)[0]

    def bounded_on(self, whole: Range) -> bool:
        """Is it surely defined and bounded on an interval?"""
        values = self.range(whole)
        return values.defined and values.bounded

    def slope(self, whole: Range) -> arb:
        """At most the largest slope on an interval; infinite where the function jumps or is not defined."""
        return self._over(whole)[1]

    def modulus(self, whole: Range, apart: arb) -> arb:
        """How far values can be apart on an interval if arguments are; its ends may be those of where φ is defined.

        Two points no farther than e apart lie both within η + e of one end, or both between the points η from the ends.
        """
        if apart.is_zero():
            return ZERO
        best, edge = times(self.slope(whole), apart), apart
        for _ in range(TUNING.edges):
            if best.is_finite() or not whole.low + 2 * edge < whole.high - 2 * edge:
                break
            ends = Range.of(whole.low, whole.low + edge + apart), Range.of(whole.high - edge - apart, whole.high)
            steps = [up(each.high - each.low) if each.defined else INFINITE for each in map(self.range, ends)]
            inner = self.slope(Range.of(whole.low + edge, whole.high - edge))
            best = smaller(best, largest([times(inner, apart), *steps]))
            edge = 4 * edge
        return best

    def _over(self, whole: Range) -> tuple[Range, arb]:
        """Range and largest slope on an interval by its pieces; worked out once for all heads that are alike."""
        if not whole.bounded:
            return self._on(whole)
        ends = [part.man_exp() for end in (whole.low, whole.high) for part in (end.mid(), end.rad())]
        key = self.text, whole.defined, *ends
        if key not in self.ranges:
            found = [self._on(piece) for piece in _pieces(whole)]
            joined = found[0][0]
            for each, _ in found[1:]:
                joined = joined.join(each)
            self.ranges[key] = joined, largest([slope for _, slope in found])
        return self.ranges[key]

    def _on(self, piece: Range) -> tuple[Range, arb]:
        """Range and largest slope on an interval: the derivative, step by step, on ranges."""
        here, middle = space(1, 1), piece.centre
        radius = larger(up(piece.high - middle), up(middle - piece.low))
        variable = Model(here, here.affine(middle, [radius]), ZERO, piece)
        ((value, (slope,)),) = gradients(self.steps, self.outputs, [variable])
        return value, slope


def _pieces(whole: Range) -> list[Range]:
    """An interval cut into pieces, ever shorter towards its ends, where a function may be steep."""
    width = (whole.high - whole.low).mid()
    if not whole.bounded or width.is_zero():
        return [whole]
    near = [width * arb(2) ** -k for k in range(TUNING.halvings, 3, -1)]
    even = [width * k / TUNING.cells for k in range(2, TUNING.cells - 1)]
    cuts = [whole.low + each for each in near] + [whole.low + each for each in even]
    cuts += [whole.high - each for each in reversed(near)]
    ends = [whole.low, *(cut.mid() for cut in cuts), whole.high]
    return [Range(smaller(a, b), larger(a, b)) for a, b in pairwise(ends)]


def _around(range_: Range) -> tuple[float, float]:
    """The closest floats around a range."""
    low, high = float(range_.low), float(range_.high)
    return low if low <= range_.low else nextafter(low, -inf), high if high >= range_.high else nextafter(high, inf)


class _Written:
    """Forms of unknowns as sums of products of powers."""

    def __init__(self, unknowns: Unknowns, symbols: Symbols) -> None:
        self.unknowns, self.symbols = unknowns, symbols
        self.units = dict[int, Unit]()
        """Functions, by the numbers of their unknowns."""
        self.made = dict[int, Sum]()

    def range(self, form: Form) -> Range:
        """Where a form lies: by its terms, or by what it is written as."""
        written = self.symbols.range(self(form))
        return form.range.meet(written.low, written.high)

    def __call__(self, form: Form) -> Sum:
        """A form; its errors are what the sum is off."""
        places = [place for place in form.terms if place not in self.unknowns.errors]
        sums = [self._unknown(place) for place in places]
        written = self.symbols.weighted([form.terms[place] for place in places], sums)
        return Sum(written.terms, up(written.off + form.noise.most))

    def _unknown(self, place: int) -> Sum:
        if place not in self.made:
            self.made[place] = self._make(place)
        return self.made[place]

    def _make(self, place: int) -> Sum:
        if place == 0:
            return self.symbols.number(ONE)
        if place <= len(self.symbols.variables):
            return self.symbols.variables[place - 1]
        if place in self.units:
            unit = self.units[place]
            return self.symbols.evaluated(unit.steps, unit.outputs, [self(unit.argument)], None)[0]
        forms = self.unknowns.maxima[place].forms
        if len(forms) != 2:
            raise NotCovered("a circuit with a maximum of more than two")
        zero, one = forms if not forms[0].terms else reversed(forms)
        if zero.terms:
            raise NotCovered("a circuit with a maximum that begins at none of its forms")
        return self.symbols.rectified(self(one))
