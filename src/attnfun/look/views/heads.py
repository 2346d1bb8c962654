"""What a head looks at: its weights at any input and, where scores are affine, the cells on which its keys lead.

The queries of the first attention layer are affine in the input, so the scores of its memory tokens are, too:
`s_j(x) = a_j·x + b_j`. So they are on a line or plane through a point, and its cells are a power diagram.
Whether scores are affine is looked up at points of the slice, not in the way the network was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...domains.box import Box
from ...network import Attention, Network
from ...network.layers import tokens_read
from ...network.reference import apply, softmax
from ...pieces.power_diagram import PowerDiagram
from .slices import Window

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BLOCK = 2**22
"""Weights held at a time."""
TRIES, STRAIGHT, UNSEEN = 64, 1e-9, 1e-6
"""Points at which scores are compared with affine ones; relative differences that are none; weights that are none."""


class HeadPlace(NamedTuple):
    """A head: its layer, the number of that in the network, its own, and the token of the query."""

    attention: Attention
    layer: int
    head: int
    token: int


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a head in a slice: a partition, the keys that can lead in it, and what these hold."""

    partition: PowerDiagram
    keys: Integers  # (N,)
    values: Floats  # (N,)


def heads(network: Network) -> list[HeadPlace]:
    """All heads with a token whose answer is read, layers with the most memory tokens first."""
    length, found = network.rows, list[HeadPlace]()
    for number, layer in enumerate(network.layers):
        length = layer.length_out(length)
        if isinstance(layer, Attention):
            after = network.layers[number + 1] if number + 1 < len(network.layers) else None
            token = int(np.flatnonzero(tokens_read(after, length))[0])
            found += [HeadPlace(layer, number, head, token) for head in range(layer.heads)]
    return sorted(found, key=lambda place: -len(place.attention.memory))


def weights(window: Window, rows: Floats, place: HeadPlace, keys: Integers | None = None) -> Floats:
    """Weights of a head's keys at inputs (B, D), the data tokens' first: (B, T), or only those of `keys`."""
    found = (softmax(scores) for scores in _scores(window, rows, place))
    return np.concatenate([part if keys is None else part[:, keys] for part in found])


def peaks(window: Window, rows: Floats, place: HeadPlace) -> Floats:
    """The largest weight of each key over inputs (B, D): (T,). Memory O(BLOCK)."""
    return np.maximum.reduce([softmax(scores).max(axis=0) for scores in _scores(window, rows, place)])


def _scores(window: Window, rows: Floats, place: HeadPlace) -> Iterator[Floats]:
    """Scores (b, T) of all keys, block by block, in float64 as `network.reference` defines them."""
    network, layer, head = window.net.network, place.attention, place.head
    keys = len(layer.memory) + network.rows * layer.attends_data
    step = max(1, BLOCK // (keys * max(1, network.rows * layer.heads)))
    for start in range(0, len(rows), step):
        X = rows[start : start + step].reshape(-1, *network.shape_in)  # (b, n, d)
        for before in network.layers[: place.layer]:
            X = apply(before, X)
        query = X[:, place.token] @ layer.query[head] + layer.query_bias[head]  # (b, k)
        scores = query @ layer.keys()[head].T  # (b, M)
        if layer.attends_data:
            keys = X @ layer.key[head] + layer.key_bias[head]  # (b, n, k)
            scores = np.hstack([np.einsum("bk,bnk->bn", query, keys), scores])  # (b, T)
        yield scores


def cells(window: Window, place: HeadPlace, axes: tuple[int, ...]) -> Cells | None:
    """The cells of a head on the slice along `axes`; None if a score that matters is not affine there."""
    low, high = window.domain.lo.ravel()[list(axes)], window.domain.hi.ravel()[list(axes)]
    box = Box(low, high, [window.domain.axes[axis] for axis in axes])
    middle = (low + high) / 2
    ends = np.vstack(
        [middle, *(np.where(np.eye(len(axes))[k], end, middle) for k in range(len(axes)) for end in (low, high))]
    )
    tries = np.vstack([ends, box.sample(TRIES, np.random.default_rng(0))])  # (1 + 2 axes + tries, axes)
    rows = np.tile(window.point, (len(tries), 1))
    rows[:, axes] = tries
    scores = np.concatenate(list(_scores(window, rows, place)))  # (., T)
    slopes = ((scores[2 : len(ends) : 2] - scores[1 : len(ends) : 2]) / (high - low)[:, None]).T  # (T, axes)
    offsets = scores[0] - slopes @ middle  # (T,)
    off = np.abs(tries @ slopes.T + offsets - scores) > STRAIGHT * (1 + np.abs(scores).max(axis=0))
    bent = off.any(axis=0)  # (T,)
    if softmax(scores)[:, bent].max(initial=0.0) > UNSEEN:
        return None
    lowest = np.where(slopes > 0, slopes * low, slopes * high).sum(axis=1) + offsets
    peak = np.where(slopes > 0, slopes * high, slopes * low).sum(axis=1) + offsets
    able = np.flatnonzero(~bent & (peak >= lowest[~bent].max()))  # others are below some score everywhere
    return Cells(PowerDiagram(slopes[able], offsets[able], box), able, _values(window, place, able))


def _values(window: Window, place: HeadPlace, keys: Integers) -> Floats:
    """What a head's keys add to the output looked at, or to the last feature there is, at the window's point: (N,)."""
    layer, X = place.attention, window.point.reshape(1, *window.net.network.shape_in)
    for before in window.net.network.layers[: place.layer]:
        X = apply(before, X)
    tokens = np.vstack([X[0], layer.memory]) if layer.attends_data else layer.memory  # (T, e)
    answers = (tokens[keys] @ layer.value[place.head] + layer.value_bias[place.head]) @ layer.output[place.head]
    return answers[:, min(window.output, answers.shape[1] - 1)]
