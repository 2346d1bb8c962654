"""No number that a network computes may exceed the largest one of its format: a hypothesis of every bound on rounding.

Follow upper bounds on the absolute values of all features through the network, over the whole domain. What a layer
computes on its way to its output, in any order of summation, in any kernel, is bounded too [T 10.4]:

- partial sums of `x W + b` by `Σ_i |x_i| |W_i| + |b|`;
- scores by `√s Σ_i |q_i| |k_i|`: stock attention stores queries times √s, s the size of a head, and some kernels divide
  by that only at the end; differences of two scores by twice as much;
- sums of weighted values by `N max |v|`, N the number of keys: exponentials of differences from the largest score are
  at most 1, and some kernels divide by their sum only at the end. An average is at most `max |v|`.

Differences of scores and sums of weighted values are never stored: their limit is that of the format of sums.

Each bound grows by the relative error of its roundings. Half of the largest number is the limit; the other half covers
the rounding of these bounds themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from math import sqrt

import numpy as np
import numpy.typing as npt

from ..arithmetic.formats import FORMATS, Format
from ..arithmetic.rounding import grown
from ..domains.box import Box
from ..errors import InputError, ProofFailed
from ..network import Affine, Attention, Network, Softmax
from ..network.stock import stock_size

Floats = npt.NDArray[np.float64]


def refuse_points(domain: Box, dtype: str, *, proof: bool) -> None:
    """ProofFailed if points of the domain might exceed half of the largest number; without a proof, all of it."""
    arithmetic = FORMATS[dtype]
    ends = np.maximum(np.abs(domain.lo), np.abs(domain.hi))
    if proof:
        _refuse(_Met("points", grown(ends, 1, arithmetic)), arithmetic, "the input")
    elif ends.max() > arithmetic.largest:
        raise InputError(
            f"points of the domain must be at most {arithmetic.largest:.3g}, the largest number in {dtype}",
            got=domain,
            remedy="Rescale the domain, or use a dtype with larger numbers.",
        )


def refuse_overflow(network: Network, domain: Box, head_size: int = 1) -> None:
    """ProofFailed if a number of the network might exceed half of the largest one of its format.

    `head_size` is that of the attention layer in which the network lives, where it is larger than that of stock layers.
    """
    arithmetic = FORMATS[network.dtype]
    ends = np.maximum(np.abs(domain.lo), np.abs(domain.hi)).reshape(network.shape_in)
    size = grown(ends, 1, arithmetic)  # (n, d)
    with np.errstate(over="ignore", invalid="ignore"):
        _refuse(_Met("points", size), arithmetic, "the input")
        for number, layer in enumerate(network.dense().layers, start=1):
            for met in _computed(layer, _Entry(size, arithmetic, head_size)):
                _refuse(met, arithmetic, f"layer {number} ({layer.kind})")
                size = met.size


def _refuse(met: _Met, arithmetic: Format, where: str) -> None:
    largest, reached = arithmetic.largest if met.stored else arithmetic.largest_sum, float(np.max(met.size))
    if not reached <= largest / 2:  # also where it is not a number
        raise ProofFailed(
            f"a proof needs numbers of at most {largest / 2:.3g}, half of the largest one in {arithmetic.name}: beyond "
            "it they may overflow",
            got=f"{met.what} of up to {reached:.3g} in {where}",
            remedy="Rescale the target or its domain, or use a dtype with larger numbers.",
        )


@dataclass(frozen=True, eq=False)
class _Entry:
    """What enters a layer."""

    size: Floats  # (n, d)
    arithmetic: Format
    head_size: int


@dataclass(frozen=True, eq=False)
class _Met:
    """Bounds on some of the numbers that a layer computes; the last ones of a layer are its output, (N, m)."""

    what: str
    size: Floats
    stored: bool = True
    """Are they stored, or only met in sums, which a kernel may add in a format with larger numbers?"""


@singledispatch
def _computed(layer: object, entry: _Entry) -> Iterator[_Met]:
    raise TypeError(f"no bound on the numbers of {type(layer).__name__}")


@_computed.register
def _(layer: Affine, entry: _Entry) -> Iterator[_Met]:
    size, right = entry.size, np.abs(layer.right)
    if layer.left is None:
        total, terms = size @ right[0], layer.width_in  # (n, m)
    else:
        left = np.abs(layer.left)
        yield _Met("weights", (left.max(axis=(1, 2)) * right.max(axis=(1, 2))).sum(keepdims=True))
        moved = left @ size  # (K, N, d)
        yield _Met("sums", moved)
        total, terms = (moved @ right).sum(axis=0), layer.left.size + layer.right.size  # (N, m)
    yield _Met("sums", grown(total + np.abs(layer.constant), terms + 1, entry.arithmetic))


@_computed.register
def _(layer: Attention, entry: _Entry) -> Iterator[_Met]:
    arithmetic, memory = entry.arithmetic, np.abs(layer.memory)
    root = sqrt(max(stock_size(layer), entry.head_size))
    yield _Met("weights", root * np.abs(layer.query))
    tokens = np.concatenate([memory, entry.size]) if layer.attends_data else memory  # (T, e)

    def projected(rows: Floats, weight: Floats, bias: Floats) -> Floats:
        """The largest over all rows, (H, m)."""
        sums = rows.max(axis=0) @ np.abs(weight) + np.abs(bias)
        return grown(sums, rows.shape[1] + 1, arithmetic)

    q = root * projected(entry.size, layer.query, layer.query_bias)  # (H, k)
    k = projected(tokens, layer.key, layer.key_bias)  # (H, k)
    v = projected(tokens, layer.value, layer.value_bias)  # (H, v)
    yield _Met("queries", q)
    yield _Met("keys", k)
    yield _Met("values", v)
    scores = grown((q * k).sum(axis=1), q.shape[1], arithmetic)  # (H,)
    yield _Met("scores", scores)
    yield _Met("differences of scores", 2 * scores, stored=False)
    sums = grown(len(tokens) * v, 2 * len(tokens), arithmetic)  # (H, v)
    yield _Met("sums of weighted values", sums, stored=False)
    averages = grown(v, 2 * len(tokens), arithmetic)
    out = np.einsum("hv,hvo->o", averages, np.abs(layer.output)) + np.abs(layer.output_bias)
    out = grown(out, averages.size + 1, arithmetic) + (entry.size if layer.residual else np.zeros((len(entry.size), 1)))
    yield _Met("outputs", grown(out, 1, arithmetic))


@_computed.register
def _(layer: Softmax, entry: _Entry) -> Iterator[_Met]:
    yield _Met("differences", 2 * entry.size, stored=False)
    yield _Met("weights", grown(np.ones(entry.size.shape), 2 * layer.width, entry.arithmetic))
