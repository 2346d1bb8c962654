"""A network on a box: Taylor models of its features in real arithmetic, and what they are off as computed.

Affine layers are sums. A head is a quotient `N/Z` of sums over its tokens, `Z = Σ_j e^{s_j}`, `N = Σ_j e^{s_j} v_j`
[T 9.5]. Softmax ignores what is common to all scores: on each box an average key is subtracted from all keys. Tokens
whose scores are everywhere on the box at least 50 below that of another token are left out, there and on all parts of
the box [T 9.7]: n of them have at most `φ = n e^{-50}` times the weight of those in play, and a share τ that was left
out before becomes `τ (1 + φ) + φ`. Rounding is followed beside (`rounding.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import factorial

import numpy as np
from flint import arb, arb_mat

from . import rounding
from .errors import NotCovered
from .files import Affine, Attention, Floats, Layer, Network, Softmax
from .formats import FORMATS, Format
from .models import Coefficients, Model, Space, total, weighted
from .ranges import ONE, ZERO, Range, down, larger, largest, size, smallest, up
from .rounding import Column, Query, Weights

FAR = 50
"""A token whose score is surely this far below another one's is left out."""


@dataclass(frozen=True, eq=False, slots=True)
class Feature:
    """A feature on a box: in real arithmetic, and what it is off as computed."""

    model: Model
    error: arb

    @property
    def most(self) -> arb:
        """Its largest absolute value in real arithmetic."""
        return self.model.range.most


Tokens = list[list[Feature]]
"""A sequence: tokens, and features of each."""


def balls(array: Floats) -> list[arb]:
    """Numbers as balls of radius zero."""
    return [arb(number) for number in array.ravel().tolist()]


def matrix(array: Floats) -> arb_mat:
    """A matrix of numbers as balls of radius zero."""
    return arb_mat(array.shape[0], array.shape[1], balls(array))


class Map:
    """An affine map of features, column by column."""

    def __init__(self, columns: list[list[arb]], biases: list[arb], rounded: list[Column]) -> None:
        self.columns = list(zip(columns, biases, rounded, strict=True))

    @classmethod
    def of(cls, weight: Floats, bias: Floats) -> Map:
        """`x W + b`, weight (d, m), bias (m,)."""
        rounded = [Column.of(column.tolist(), b) for column, b in zip(weight.T, bias.tolist(), strict=True)]
        return cls([balls(column) for column in weight.T], balls(bias), rounded)

    @classmethod
    def of_sequence(cls, layer: Affine, left: Floats) -> Map:
        """`Σ_k A_k X B_k + C`, from all features of a sequence to all features of the next."""
        single, columns, rounded = _picks(left), [], []
        for place, feature in np.ndindex(layer.constant.shape):
            pairs = _products(left[:, place, :], layer.right[:, :, feature])
            columns.append([total(terms) for terms in pairs])
            bias = float(layer.constant[place, feature])
            if single:
                column = Column.of([float(total(terms)) for terms in pairs], bias)
            else:
                sizes = [total([abs(term) for term in terms]) for terms in pairs]
                used = [(k, up(each), True) for k, each in enumerate(sizes) if not each.is_zero()]
                column = Column(used, arb(abs(bias)), len(layer.right) + 2, arb(float(np.abs(left).max(initial=0.0))))
            rounded.append(column)
        return cls(columns, balls(layer.constant), rounded)

    def __call__(self, features: Sequence[Feature], format_: Format) -> list[Feature]:
        """The features behind the map."""
        models, space = [feature.model for feature in features], features[0].model.space
        sizes, errors = [feature.most for feature in features], [feature.error for feature in features]
        results = []
        for weights, bias, column in self.columns:
            model = weighted(weights, models, bias, space)
            results.append(Feature(model, rounding.linear(column, sizes, errors, model.range.most, format_)))
        return results


def _picks(left: Floats) -> bool:
    """Do matrices (K, N, n) pick one token each, so that each weight of `Σ_k A_k X B_k` is one of B_k, exactly?"""
    used = left != 0
    single = (used.sum(axis=0) <= 1).all() and (used.sum(axis=2) <= 1).all()
    return bool(single and np.isin(left, (0.0, 1.0)).all())


def _products(left: Floats, right: Floats) -> list[list[arb]]:
    """The terms `A_k[i] B_k[j]` of each coefficient, n d lists, for (K, n) and (K, d)."""
    return [
        [arb(a) * arb(b) for a, b in zip(left[:, i].tolist(), right[:, j].tolist(), strict=True) if a and b]
        for i in range(left.shape[1])
        for j in range(right.shape[1])
    ]


class Head:
    """One head: its maps, and keys and values of its memory tokens, whatever the input."""

    def __init__(self, layer: Attention, number: int, format_: Format) -> None:
        root = float(layer.stock_size) ** 0.5
        held = root * max(
            np.abs(layer.query[number]).max(initial=0.0), np.abs(layer.query_bias[number]).max(initial=0.0)
        )
        if not rounding.fits(arb(float(held)), format_):
            raise NotCovered("weights of queries that overflow in stock attention")
        self.query = Map.of(layer.query[number], layer.query_bias[number])
        self.key = Map.of(layer.key[number], layer.key_bias[number])
        self.value = Map.of(layer.value[number], layer.value_bias[number])
        self.keys, self.key_errors = _stored(layer.memory, self.key, format_)  # (M, k)
        self.values, self.value_errors = _stored(layer.memory, self.value, format_)  # (M, v)
        self.rough = layer.memory @ layer.key[number] + layer.key_bias[number]  # (M, k), about the keys
        count = layer.key.shape[2]
        self.largest_key = [largest([size(row[c]) for row in self.keys]) for c in range(count)]
        self.largest_key_error = [largest([row[c] for row in self.key_errors]) for c in range(count)]
        values = range(layer.value.shape[2])
        self.lowest = [smallest([down(row[v]) for row in self.values]) for v in values] if self.values else []
        self.highest = [largest([up(row[v]) for row in self.values]) for v in values] if self.values else []
        self.largest_value_error = [largest([row[v] for row in self.value_errors]) for v in values]


def _stored(memory: Floats, map_: Map, format_: Format) -> tuple[list[list[arb]], list[list[arb]]]:
    """A projection of the memory tokens, and what it is off as computed."""
    if not len(memory):
        return [], []
    weights = arb_mat(
        memory.shape[1], len(map_.columns), list(chain(*zip(*(w for w, _, _ in map_.columns), strict=True)))
    )
    ones = arb_mat(len(memory), 1, [ONE] * len(memory))
    exact = (matrix(memory) * weights + ones * arb_mat(1, len(map_.columns), [b for _, b, _ in map_.columns])).tolist()
    nothing = [ZERO] * memory.shape[1]
    errors = []
    for token, row in zip(memory, exact, strict=True):
        sizes = [abs(number) for number in balls(token)]
        pairs = zip(map_.columns, row, strict=True)
        errors.append(
            [rounding.linear(column, sizes, nothing, size(value), format_) for (_, _, column), value in pairs]
        )
    return exact, errors


@dataclass(frozen=True)
class Play:
    """The memory tokens of a head in play for one query, and the weight of all others as a fraction of theirs."""

    tokens: list[int]
    share: arb = ZERO
    computed: arb = ZERO
    """The same of the weights that the network computes."""


Focus = dict[tuple[int, int, int], Play]
"""What is in play on a box, by layer, query token and head."""


class Evaluator:
    """Evaluates one network on boxes."""

    def __init__(self, network: Network) -> None:
        self.network, self.format = network, FORMATS[network.dtype]
        self.heads: dict[int, list[Head]] = {}
        self.maps: dict[int, Map] = {}
        for number, layer in enumerate(network.layers):
            if isinstance(layer, Attention):
                self.heads[number] = [Head(layer, head, self.format) for head in range(len(layer.query))]
                flat = layer.output.reshape(-1, layer.output.shape[2])  # (H v, o)
                self.maps[number] = Map.of(flat, layer.output_bias)
            elif isinstance(layer, Affine):
                self.maps[number] = (
                    Map.of(layer.right[0], layer.constant[0])
                    if layer.left is None
                    else Map.of_sequence(layer, layer.left)
                )

    @property
    def memory(self) -> int:
        """Memory tokens of all heads."""
        return sum(len(head.keys) for heads in self.heads.values() for head in heads)

    def __call__(self, inputs: Sequence[Feature], focus: Focus) -> tuple[list[Feature], Focus]:
        """The outputs, token by token, and what stays in play on parts of the box."""
        width, narrowed = self.network.width, Focus()
        tokens = [list(inputs[k * width : (k + 1) * width]) for k in range(self.network.length)]
        layers = list(enumerate(self.network.layers))
        while layers:
            number, layer = layers.pop(0)
            after = layers[0][1] if layers else None
            if isinstance(layer, Softmax):
                behind = after if isinstance(after, Affine) else _identity(layer.width)
                tokens = softmax_then(behind, tokens, self.format)
                layers = layers[1:] if isinstance(after, Affine) else layers
            elif isinstance(layer, Attention):
                tokens = self._attention(number, layer, tokens, tokens_read(after, len(tokens)), focus, narrowed)
            elif layer.left is None:
                tokens = [self.maps[number](token, self.format) for token in tokens]
            else:
                flat, features = self.maps[number](list(chain(*tokens)), self.format), layer.constant.shape[1]
                tokens = [flat[k : k + features] for k in range(0, len(flat), features)]
        return list(chain(*tokens)), narrowed

    def _attention(
        self, number: int, layer: Attention, tokens: Tokens, used: list[bool], focus: Focus, narrowed: Focus
    ) -> Tokens:
        """A layer of heads on the tokens that are used behind it; nobody reads the others."""
        heads, format_ = self.heads[number], self.format
        data = [
            [(head.key(token, format_), head.value(token, format_)) for token in tokens] if layer.attends_data else []
            for head in heads
        ]
        nothing = Feature(Model.constant(tokens[0][0].model.space, ZERO), ZERO)
        results: Tokens = []
        for place, token in enumerate(tokens):
            if not used[place]:
                results.append([nothing] * layer.output.shape[2])
                continue
            averages: list[Feature] = []
            for h, head in enumerate(heads):
                play = focus.get((number, place, h)) or Play(list(range(len(head.keys))))
                seen = Seen.by(head, layer, head.query(token, format_), data[h], play, format_)
                narrowed[number, place, h] = seen.play
                averages += seen.averages()
            row = self.maps[number](averages, format_)
            results.append([_sum(a, b, format_) for a, b in zip(row, token, strict=True)] if layer.residual else row)
        return results


def _sum(a: Feature, b: Feature, format_: Format) -> Feature:
    """A residual connection."""
    model, errors = a.model + b.model, up(a.error + b.error)
    if a.model.polynomial[0].is_zero() and a.model.reach.is_zero() and a.error.is_zero():
        return b
    return Feature(model, rounding.added(model.range.most, errors, format_))


def _identity(width: int) -> Affine:
    return Affine(np.eye(width)[None], np.zeros((1, width)), None)


def tokens_read(after: Layer | None, length: int) -> list[bool]:
    """Which tokens the layer behind reads."""
    if isinstance(after, Affine) and after.left is not None:
        return (after.left != 0).any(axis=(0, 1)).tolist()
    return [True] * length


@dataclass(eq=False)
class Token:
    """A token of a head: its relative score, its values as numbers or features, and what the score is off."""

    score: Coefficients
    rest: arb
    values: list[arb]
    features: list[Feature] | None = None
    error: arb = ZERO
    low: arb = field(init=False)
    high: arb = field(init=False)

    def __post_init__(self) -> None:
        reach = total([size(a) for a in self.score[1:] if not a.is_zero()]) + self.rest
        self.low, self.high = down(self.score[0] - reach), up(self.score[0] + reach)

    @property
    def ranges(self) -> list[Range]:
        """Where its values lie."""
        if self.features is not None:
            return [feature.model.range for feature in self.features]
        return [Range.point(value) for value in self.values]


@dataclass(eq=False)
class Seen:
    """The tokens that one query sees in one head on a box: those in play, and what is known of the others."""

    space: Space
    tokens: list[Token]
    play: Play
    largest_error: arb
    """What scores of tokens in play are off at most."""
    spreads: list[arb]
    """Largest minus smallest value over all tokens, for each column."""
    value_errors: list[tuple[arb, arb]]
    """What values are off: those in play, and all."""
    keys: int
    format: Format

    @classmethod
    def by(
        cls,
        head: Head,
        layer: Attention,
        query: list[Feature],
        data: list[tuple[list[Feature], list[Feature]]],
        play: Play,
        format_: Format,
    ) -> Seen:
        """Scores relative to an average key, and the tokens that matter: memory, then data."""
        space, models = query[0].model.space, [q.model for q in query]
        average_key, top = _reference(head, models, [key for key, _ in data], play.tokens)
        reference = [arb(number) for number in average_key.tolist()]
        tokens, sources = _memory_tokens(head, models, reference, top, play.tokens), list(play.tokens)
        for key, values in data:
            relative = [k.model.shifted(-c) for k, c in zip(key, reference, strict=True)]
            score = _dot(models, relative, space).shifted(-top)
            tokens.append(Token(score.polynomial, score.rest, [], values))
        floor = largest([token.low for token in tokens]) - FAR
        kept = [k for k, token in enumerate(tokens) if not token.high < floor or k >= len(sources)]
        of_query = Query(
            [q.most for q in query],
            [q.error for q in query],
            [q.error.is_zero() and q.model.reach.is_zero() and power_of_two(q.model.polynomial[0]) for q in query],
        )
        common = weighted(reference, models, top, space).range

        def score_error(k: int) -> arb:
            if k < len(sources):
                keys, errors = [size(a) for a in head.keys[sources[k]]], head.key_errors[sources[k]]
                apart = [size(a - c) for a, c in zip(head.keys[sources[k]], reference, strict=True)]
            else:
                key = data[k - len(sources)][0]
                keys, errors = [each.most for each in key], [each.error for each in key]
                apart = [each.model.shifted(-c).range.most for each, c in zip(key, reference, strict=True)]
            range_ = Range(tokens[k].low, tokens[k].high) + common
            return rounding.score(of_query, apart, keys, errors, range_.most, layer, format_)

        for k in kept:
            tokens[k].error = score_error(k)
        among = largest([tokens[k].error for k in kept])
        share, computed = play.share, play.computed
        left = [k for k in range(len(sources)) if k not in set(kept)]
        count = len(head.keys) + len(data)
        if left:
            keys, errors = head.largest_key, head.largest_key_error
            apart = [up(a + abs(c)) for a, c in zip(keys, reference, strict=True)]
            products = total([a * b for a, b in zip(of_query.whole, keys, strict=True)])
            most = larger(rounding.score(of_query, apart, keys, errors, up(products), layer, format_), among)
            if most <= 1:
                new = rounding.computed_share(len(left), arb(FAR), most, most, count, format_)
            else:
                pairs = [(floor + FAR - tokens[k].high, score_error(k)) for k in left]
                most = larger(largest([error for _, error in pairs]), among)
                each = [
                    rounding.computed_share(1, down(gap), larger(error, among), most, count, format_)
                    for gap, error in pairs
                ]
                new = up(total(each))
            plain = up(len(left) * arb(-FAR).exp())
            share, computed = up(share * (1 + plain) + plain), up(computed * (1 + new) + new)
        after = Play([sources[k] for k in kept if k < len(sources)], share, computed)
        spreads, errors = _values(head, data, after.tokens)
        return cls(space, [tokens[k] for k in kept], after, among, spreads, errors, count, format_)

    def averages(self) -> list[Feature]:
        """The averages of all columns over all tokens."""
        weights = Weights([token.low for token in self.tokens], [token.high for token in self.tokens])
        values = [token.ranges for token in self.tokens]
        ranges = [_average_range(weights, [row[k] for row in values]) for k in range(len(self.spreads))]
        errors = [token.error for token in self.tokens]
        head = rounding.HeadFacts(
            weights, errors, self.largest_error, self.play.share, self.play.computed, self.keys, self.format
        )
        results = []
        for k, model in enumerate(_quotients(self.tokens, self.space, ranges)):
            spread, (off, off_elsewhere) = self.spreads[k], self.value_errors[k]
            beside = ZERO if self.play.share.is_zero() else up(self.play.share * spread)
            wider = Range(down(ranges[k].low - beside), up(ranges[k].high + beside), ranges[k].defined)
            average = Model(self.space, model.polynomial, up(model.rest + beside), wider)
            error = head.error([row[k] for row in values], ranges[k], spread, off, off_elsewhere)
            results.append(Feature(average, error))
        return results


def _reference(head: Head, query: list[Model], data_keys: Tokens, tokens: list[int]) -> tuple[Floats, arb]:
    """About the average key under the weights at the centre, (k,), and about the largest score relative to it."""
    middle = np.array([float(q.polynomial[0]) for q in query])  # (k,)
    data = np.array([[float(k.model.polynomial[0]) for k in key] for key in data_keys]).reshape(-1, len(query))
    rough = np.concatenate([head.rough[tokens], data])  # (T, k)
    scores = rough @ middle  # (T,)
    if not np.isfinite(scores).all():
        return np.zeros(len(query)), ZERO
    weights = np.exp(scores - scores.max())
    average = weights @ rough / weights.sum()  # (k,)
    return average, arb(float(scores.max() - average @ middle))


def _memory_tokens(head: Head, query: list[Model], reference: list[arb], top: arb, tokens: list[int]) -> list[Token]:
    """The memory tokens with their relative scores: keys times queries, all at once."""
    if not tokens:
        return []
    space = query[0].space
    rows = [[a - c for a, c in zip(head.keys[k], reference, strict=True)] for k in tokens]
    factors = arb_mat(len(query), space.count, list(chain(*(q.polynomial for q in query))))
    scores = (arb_mat(len(rows), len(query), list(chain(*rows))) * factors).tolist()
    rests = [q.rest for q in query]
    smooth = all(rest.is_zero() for rest in rests)
    return [
        Token([score[0] - top, *score[1:]], ZERO if smooth else _sum_of_products(row, rests), head.values[k])
        for k, row, score in zip(tokens, rows, scores, strict=True)
    ]


def _sum_of_products(numbers: list[arb], rests: list[arb]) -> arb:
    return up(total([size(a) * b for a, b in zip(numbers, rests, strict=True) if not (a.is_zero() or b.is_zero())]))


def _dot(query: list[Model], key: list[Model], space: Space) -> Model:
    """A score; a constant factor is exact."""
    result = Model.constant(space, ZERO)
    for q, k in zip(query, key, strict=True):
        if k.reach.is_zero():
            result = result + q.scaled(k.polynomial[0])
        elif q.reach.is_zero():
            result = result + k.scaled(q.polynomial[0])
        else:
            result = result + q * k
    return result


def power_of_two(number: arb) -> bool:
    """Is it one, exactly?"""
    return number.is_exact() and not number.is_zero() and abs(int(number.man_exp()[0])) == 1


def _values(
    head: Head, data: list[tuple[list[Feature], list[Feature]]], tokens: list[int]
) -> tuple[list[arb], list[tuple[arb, arb]]]:
    """For each column the spread of all values, and what values are off: those of tokens in play, and all."""
    spreads, errors = [], []
    for k in range(len(head.largest_value_error)):
        ranges = [values[k].model.range for _, values in data]
        low = smallest([*head.lowest[k : k + 1], *(each.low for each in ranges)])
        high = largest([*head.highest[k : k + 1], *(each.high for each in ranges)])
        spreads.append(up(high - low))
        off = largest([*(head.value_errors[j][k] for j in tokens), *(values[k].error for _, values in data)])
        errors.append((off, larger(off, head.largest_value_error[k])))
    return spreads, errors


def _average_range(weights: Weights, values: list[Range]) -> Range:
    """The range of an average over the tokens in play."""
    high = weights.largest_average([value.high for value in values])
    low = -weights.largest_average([-value.low for value in values])
    return Range(low, high, all(value.defined for value in values))


def _quotients(tokens: list[Token], space: Space, ranges: list[Range]) -> list[Model]:
    """`N/Z` as a model, values counted from about their average, which keeps terms small."""
    count = len(ranges)
    pivots = [each.centre if each.bounded else ZERO for each in ranges]
    memory = [token for token in tokens if token.features is None]
    sums = [Model.constant(space, ZERO)] * (1 + count)
    if memory:
        weights = [_exponential(token, space) for token in memory]
        rows = [[ONE] * len(memory)]
        rows += [[token.values[k] - pivot for token in memory] for k, pivot in enumerate(pivots)]
        left = arb_mat(1 + count, len(memory), list(chain(*rows)))
        products = (left * arb_mat(len(memory), space.count, list(chain(*(w for w, _ in weights))))).tolist()
        for k, (row, product) in enumerate(zip(rows, products, strict=True)):
            rest = up(total([size(a) * left_over for a, (_, left_over) in zip(row, weights, strict=True)]))
            sums[k] = _summed(space, product, rest)
    for token in tokens:
        if token.features is not None:
            weight = Model(space, token.score, token.rest, Range(token.low, token.high)).after("exp")
            sums[0] = sums[0] + weight
            for k, pivot in enumerate(pivots):
                sums[k + 1] = sums[k + 1] + weight * token.features[k].model.shifted(-pivot)
    quotients = []
    for numerator, pivot, range_ in zip(sums[1:], pivots, ranges, strict=True):
        quotient = (numerator / sums[0]).shifted(pivot)
        close = quotient.rest <= up(range_.high - range_.low)  # where scores vary much, a rest may be e^100000
        quotients.append(
            Model(space, quotient.polynomial, quotient.rest, range_) if close else Model.ranging(space, range_)
        )
    return quotients


def _summed(space: Space, polynomial: Coefficients, rest: arb) -> Model:
    """A model whose range is what its polynomial says."""
    reach = up(total(space.by_degree(polynomial)[1:]) + rest)
    return Model(space, polynomial, rest, Range.of(polynomial[0] - reach, polynomial[0] + reach))


def _exponential(token: Token, space: Space) -> tuple[Coefficients, arb]:
    """Polynomial and rest of `e^s` for a score that is affine up to a small rest, and of any other score.

    With `s = c + a·t + δ`, `|a·t| <= G`, `|δ| <= ρ`, the polynomial of degree m of `e^{c + a·t}` leaves at most
    `e^{c + G} G^{m+1} / (m+1)!`, and δ changes e^s by at most `e^{c + G} (e^ρ - 1)`.
    """
    bent = any(degree > 1 and not a.is_zero() for a, degree in zip(token.score, space.degrees, strict=True))
    if bent:
        model = Model(space, token.score, token.rest, Range(token.low, token.high)).after("exp")
        return model.polynomial, model.rest
    slopes = [token.score[place] for place in space.axes]
    factor, reach = token.score[0].exp(), up(total([size(a) for a in slopes]))
    top = up((token.score[0] + reach).exp())
    rest = top * (reach ** (space.order + 1) / factorial(space.order + 1) + token.rest.expm1())
    return [factor * a for a in space.exponential(slopes)], up(rest)


def softmax_then(layer: Affine, tokens: Tokens, format_: Format) -> Tokens:
    """Softmax over the features of each token, then an affine map: averages of the rows of its matrices.

    The weights are stored before they are multiplied, which counts no more roundings than an average has.
    """
    if layer.left is not None and not _picks(layer.left):
        raise NotCovered("a softmax before a map whose weights are products")
    means = [[_feature_average(token, right, format_) for right in layer.right] for token in tokens]  # (n, K, m)
    results: Tokens = []
    places = range(len(tokens)) if layer.left is None else range(len(layer.constant))
    for place in places:
        row = []
        for feature in range(layer.constant.shape[1]):
            if layer.left is None:
                parts, weights, constant = [means[place][0][feature]], [1.0], layer.constant[0, feature]
            else:
                parts = [mean[k][feature] for k in range(len(layer.right)) for mean in means]
                weights, constant = layer.left[:, place, :].ravel().tolist(), layer.constant[place, feature]
            row += Map.of(np.array(weights)[:, None], np.array([constant]))(parts, format_)
        results.append(row)
    return results


def _feature_average(token: list[Feature], right: Floats, format_: Format) -> list[Feature]:
    """The averages of the rows of a matrix (d, m) under the softmax of d features."""
    space = token[0].model.space
    columns = [0, *space.axes]
    rough = np.array([[float(score.model.polynomial[k]) for k in columns] for score in token])  # (d, 1+D)
    reference = space.constant(ZERO)
    if np.isfinite(rough).all():
        weights = np.exp(rough[:, 0] - rough[:, 0].max())
        slopes = weights @ rough[:, 1:] / weights.sum()  # (D,)
        reference = space.affine(arb(float(rough[:, 0].max())), [arb(slope) for slope in slopes.tolist()])
    tokens = [
        Token([a - b for a, b in zip(score.model.polynomial, reference, strict=True)], score.model.rest, balls(row))
        for score, row in zip(token, right, strict=True)
    ]
    for each, score in zip(tokens, token, strict=True):
        each.error = score.error
    spreads = [
        up(arb(float(high)) - arb(float(low))) for low, high in zip(right.min(axis=0), right.max(axis=0), strict=True)
    ]
    exact = [(ZERO, ZERO)] * len(spreads)
    worst = largest([each.error for each in tokens])
    return Seen(space, tokens, Play([]), worst, spreads, exact, len(tokens), format_).averages()
