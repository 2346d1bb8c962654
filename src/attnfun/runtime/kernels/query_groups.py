"""Each layer of a network with its weights in the deployed dtype, and its heads with their banks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...domains.box import Box
from ...network import Attention, FactoredAttention, Network
from ...network.layers import Layer
from ..backends import numpy as plain
from .allowance import rooms
from .banks import Bank, HeadMemory
from .features import Features, linear
from .recognition import factored, recognised

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class QueryGroup:
    """Query tokens that meet one head with the same constants: their bank, and their varying query features."""

    head: int
    querying: Integers  # positions of tokens
    features: Integers  # query features that vary
    bank: Bank

    def queries(self, q: Array) -> Floats:
        """The features that vary, for a bank: (b, a, k) -> (b a, r)."""
        count = q.shape[0] * q.shape[1]
        return np.ascontiguousarray(q[..., self.features].reshape(count, len(self.features)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class PreparedLayer:
    """A layer with its weights in the deployed dtype, and its banks where it has memory."""

    layer: Layer
    weights: dict[str, Array]
    query_groups: tuple[QueryGroup, ...]


def steps_of(network: Network, domain: Box, allowance: float, dtype: str) -> Iterator[PreparedLayer]:
    """The layers, one by one; errors up to `allowance` may be made to save work."""
    low, high = (end.reshape(network.shape_in) for end in (domain.lo, domain.hi))
    known = Features(np.ones(network.shape_in, dtype=bool), low, high)
    sample = np.zeros((1, *network.shape_in), dtype=dtype)  # constant features are the same for every input
    for (layer, querying), room in zip(plain.query_tokens(network), rooms(network, allowance), strict=True):
        if isinstance(layer, FactoredAttention):
            yield _factored_step(layer, querying, known, float(room[0]), dtype)
            sample = np.zeros((1, sample.shape[1], layer.width_out), dtype=dtype)  # nothing behind it is constant
        else:
            weights = {**plain.prepare(layer, dtype), "querying": querying}
            query_groups = (
                tuple(_query_groups(layer, weights, querying, known, sample, room))
                if isinstance(layer, Attention)
                else ()
            )
            yield PreparedLayer(layer, weights, query_groups)
            sample = plain.apply(layer, sample, weights)
        known = known.after(layer)


def _factored_step(
    layer: FactoredAttention, querying: Integers, known: Features, room: float, dtype: str
) -> PreparedLayer:
    names = "query", "query_bias", "output", "output_bias"
    weights = {**{name: getattr(layer, name).astype(dtype) for name in names}, "querying": querying}
    queries = linear(known, layer.query[0], layer.query_bias[0])
    reach = np.maximum(np.abs(queries.low), np.abs(queries.high)).max(axis=0)
    bank = factored(layer.axes(layer.slopes), layer.axes(layer.offsets), layer.values, room, reach)
    return PreparedLayer(layer, weights, (QueryGroup(0, querying, np.arange(len(layer.sizes)), bank),))


def _query_groups(
    layer: Attention, weights: dict[str, Array], querying: Integers, known: Features, sample: Array, room: Array
) -> Iterator[QueryGroup]:
    """Banks of all heads, one for all tokens whose constant query features agree."""
    if len(layer.memory) == 0:
        return
    for head in range(layer.heads):
        queries = linear(known, layer.query[head], layer.query_bias[head])
        at = plain.project(sample, weights["query"][head], weights["query_bias"][head])[0]  # (n, k)
        keys, values = (weights[name][head].astype(np.float64) for name in ("keys", "values"))  # (M, k), (M, v)
        varies = queries.varies[querying].any(axis=0)  # (k,)
        constants = np.where(varies, 0.0, at[querying])  # (a, k)
        matters = varies & (layer.attends_data | (np.ptp(keys, axis=0) > 0))
        rows, group = np.unique(constants, axis=0, return_inverse=True)
        for number, row in enumerate(rows):
            members = querying[group.ravel() == number]
            tokens = HeadMemory(keys[:, matters], keys @ row.astype(np.float64), values)
            ends = queries.low[members].min(axis=0)[matters], queries.high[members].max(axis=0)[matters]
            yield QueryGroup(head, members, np.flatnonzero(matters), recognised(tokens, float(room[head]), *ends))
