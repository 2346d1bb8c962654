"""The rule `parts`: networks made of others, from claims about those [T 11.7].

**The same numbers.** A network made of others computes the very numbers of its parts. To see that, every number of a
network gets a *name*: that of an input, or the operation and the names that it works on. Products with zero and sums
with zero are exact and left out; a feature that is only moved keeps its name. So two numbers with one name are the
same sums of the same products, and whatever holds of one in any order of summation holds of the other. The inputs of
the outer one of two networks have the names of the outputs of the inner one. If the outputs of the whole have the
names that the outputs of its parts have, it is made of them, whatever its layers look like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from .errors import NotCovered
from .files import Affine, Attention, Claim, Domain, Floats, Layer, Network, Softmax

NOTHING = 0
"""The name of zero."""

Names = list[list[int]]
"""Of the features of each token."""


def parts_of(claim: Claim) -> tuple[Claim, ...]:
    """The claims about the parts of a network, outermost first, as the network holds them; NotCovered if it does not.

    Stock attention may hold a layer in heads of another size than that of the part alone.
    """
    kind, whole = claim.target.get("kind"), claim.network
    rewritten = not any(isinstance(layer, Softmax) for layer in whole.layers)
    networks = [_with_banks(part.network) if rewritten else part.network for part in claim.parts]
    inside = reversed(networks) if kind == "composed" else networks
    sizes = iter([layer.stock_size for layer in whole.layers if isinstance(layer, Attention)])
    held = [_held(network, [next(sizes, 0) for layer in network.layers if isinstance(layer, Attention)])
            for network in inside]  # fmt: skip
    held = held[::-1] if kind == "composed" else held
    names = _Names(whole)
    inputs = [names.of("input", k) for k in range(len(claim.domain.low))]
    if kind == "composed":
        made = names.outputs(held[0], names.outputs(held[1], inputs))
    else:
        made = [name for network in held for name in names.outputs(network, inputs)]
    if names.outputs(whole, inputs) != made or any(network.dtype != whole.dtype for network in networks):
        raise NotCovered("a network that is not what its parts make")
    for part in claim.parts[1:] if kind == "composed" else claim.parts:
        if not _within(claim.domain, part.domain):
            raise NotCovered("parts on another domain")
    return tuple(
        replace(part, network=network, status=claim.status, declared=claim.declared)
        for part, network in zip(claim.parts, held, strict=True)
    )


def _held(network: Network, sizes: list[int]) -> Network:
    """A network whose attention layers have heads of these sizes in stock attention."""
    left = iter(sizes)
    layers = [replace(layer, stock=next(left)) if isinstance(layer, Attention) else layer for layer in network.layers]
    return replace(network, layers=tuple(layers))


def _within(domain: Domain, whole: Domain) -> bool:
    """Is a domain surely a part of another one?"""
    if whole.condition is None and whole.points is None:
        room = domain.fill if domain.points is not None else 0.0
        return room == 0.0 and bool((domain.low >= whole.low).all() and (domain.high <= whole.high).all())
    words = (domain.condition, domain.names, domain.fill) == (whole.condition, whole.names, whole.fill)
    pairs = (domain.low, whole.low), (domain.high, whole.high), (domain.points, whole.points)
    return words and all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)


class _Names:
    """Names of numbers: equal ones of equal numbers, in any arithmetic.

    Keys that hold sums are rounded for themselves [T 10.8]. Where those of the whole hold none, those of parts may.
    """

    def __init__(self, whole: Network) -> None:
        self.known: dict[tuple[object, ...], int] = {("number", 0.0): NOTHING}
        self.keyed = any(isinstance(layer, Attention) and layer.keyed for layer in whole.layers)

    def of(self, *what: object) -> int:
        return self.known.setdefault(what, len(self.known))

    def outputs(self, network: Network, inputs: Sequence[int]) -> list[int]:
        """The names of a network's outputs, token by token."""
        width = network.width
        tokens = [list(inputs[k * width : (k + 1) * width]) for k in range(network.length)]
        if len(tokens) * width != len(inputs):
            raise NotCovered("parts that do not fit together")
        for layer in network.layers:
            tokens = self._after(layer, tokens)
        return list(chain(*tokens))

    def _after(self, layer: Layer, tokens: Names) -> Names:
        if isinstance(layer, Softmax):
            return [[self.of("softmax", k, tuple(token)) for k in range(len(token))] for token in tokens]
        if isinstance(layer, Affine):
            return self._affine(layer, tokens)
        attended = [self._attended(layer, token, tokens) for token in tokens]
        if not layer.residual:
            return attended
        return [
            [self._plus(a, b) for a, b in zip(row, token, strict=True)]
            for row, token in zip(attended, tokens, strict=True)
        ]

    def _plus(self, a: int, b: int) -> int:
        """A sum of two; with zero it is the other."""
        return a or b if not (a and b) else self.of("plus", a, b)

    def _affine(self, layer: Affine, tokens: Names) -> Names:
        if layer.left is None:
            return [self._map(layer.right[0], layer.constant[0], token) for token in tokens]
        results: Names = []
        for place, row in enumerate(layer.constant):
            used = np.argwhere(layer.left[:, place])  # (P, 2): terms and tokens
            groups = [(k, t, float(layer.left[k, place, t])) for k, t in used.tolist()]
            results.append([self._mixed(layer, groups, tokens, o, float(b)) for o, b in enumerate(row.tolist())])
        return results

    def _mixed(
        self, layer: Affine, groups: list[tuple[int, int, float]], tokens: Names, column: int, bias: float
    ) -> int:
        """One output of `Σ_k A_k X B_k + C`; where each A_k picks one token it is a plain sum of products with B_k."""
        terms = [
            (k, a, b, name)
            for k, t, a in groups
            for b, name in zip(layer.right[k, :, column].tolist(), tokens[t], strict=True)
            if b and name
        ]
        single = len({k for k, _, _ in groups}) == len(groups)
        if single and all(a == 1.0 for _, a, _, _ in terms):
            return self._sum([(b, name) for _, _, b, name in terms], bias)
        places = {k: number for number, k in enumerate(sorted({k for k, _, _, _ in terms}))}
        return self.of("mixed", tuple((places[k], a, b, name) for k, a, b, name in terms), bias)

    def _map(self, weight: Floats, bias: Floats, features: Sequence[int]) -> list[int]:
        """The outputs of `x W + b`."""
        return [
            self._sum([(w, name) for w, name in zip(column, features, strict=True) if w and name], b)
            for column, b in zip(weight.T.tolist(), bias.tolist(), strict=True)
        ]

    def _sum(self, terms: list[tuple[float, int]], bias: float) -> int:
        if len(terms) == 1 and terms[0][0] == 1.0 and bias == 0.0:
            return terms[0][1]
        return self.of("sum", tuple(sorted(terms)), bias) if terms else self.of("number", bias)

    def _attended(self, layer: Attention, token: list[int], tokens: Names) -> list[int]:
        """What a layer computes for one token."""
        averages = list[int]()
        for head in range(len(layer.query)):
            used = (layer.key[head] != 0).any(axis=1) | (layer.value[head] != 0).any(axis=1)  # (e,)
            arrays = layer.memory[:, used], layer.key[head, used], layer.key_bias[head], layer.value[head, used]
            arrays = *arrays, layer.value_bias[head]
            seen = [[row[k] for k in np.flatnonzero(used)] for row in tokens] if layer.attends_data else []
            name = self.of(
                "head",
                tuple(self._map(layer.query[head], layer.query_bias[head], token)),
                tuple((array.shape, array.tobytes()) for array in arrays),
                tuple(map(tuple, seen)),
                layer.stock_size,
                layer.keyed if self.keyed else (),
            )
            averages += [self.of("average", name, k) for k in range(layer.value.shape[2])]
        return self._map(layer.output.reshape(len(averages), -1), layer.output_bias, averages)


def _with_banks(network: Network) -> Network:
    """A softmax over features with a map behind it as what it is: a head whose memory tokens are the rows of the map.

    With scores `y W + b` the query is (y, 1) and the key of token j is (W_j, b_j).
    """
    layers, left = list[Layer](), list(network.layers)
    while left:
        match left:
            case [Attention(residual=False) as scores, Softmax(), Affine() as values, *after] if len(values.right) == 1:
                layers += _bank(scores, values)
                left = after
            case [layer, *after]:
                layers.append(layer)
                left = after
    return replace(network, layers=tuple(layers))


def _bank(scores: Attention, values: Affine) -> list[Layer]:
    heads, width, count = scores.output.shape
    size, outputs = heads * width, values.right.shape[2]
    memory = np.hstack([scores.output.reshape(size, count).T, scores.output_bias[:, None], values.right[0]])
    every = np.eye(size + 1 + outputs)[None]
    bank = Attention(
        query=np.eye(size, size + 1)[None],
        query_bias=np.eye(1, size + 1, size),
        key=every[:, :, : size + 1],
        key_bias=np.zeros((1, size + 1)),
        value=every[:, :, size + 1 :],
        value_bias=np.zeros((1, outputs)),
        output=np.eye(outputs)[None],
        output_bias=np.zeros(outputs),
        memory=memory,
        attends_data=False,
        residual=False,
    )
    joined = replace(scores, output=np.eye(size).reshape(heads, width, size), output_bias=np.zeros(size))
    return [joined, bank, Affine(np.eye(outputs)[None], values.constant, values.left)]
