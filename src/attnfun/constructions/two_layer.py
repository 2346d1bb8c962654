"""Two attention layers and linear maps, no feed-forward part, for maps of sequences ([B], two-layer theorem) [T 5.2].

**Construction.** The embedding adds a start row and positions: rows `(0, e_0)`, `(x_i, e_i)`, i = 1..n. Heads select
rows by the angle of a position on a circle: query and key `(cos θ, sin θ)` with a gain that puts every other row 200
below.

*Layer 1* gathers `g = U vec(X) + b`: head p returns x_p, its output map applies U_p; one more head copies e_i.

*Layer 2, rectifiers* (targets `Σ_k c_k max(0, g_k) + d` with any output weights c; clipped units are two rectifiers):
g is gathered in row 1 only, by queries of all other rows looking at the start row. Head k scores row 1 by `R g_k +
log n` and the n others by 0; values are g_k, zero in the others. The n equal tokens weigh as much as one with the
score log n, so the head is within `0.27847/R` of its rectifier.

Any other continuous target is first written as such a hidden layer, a sum of ridge functions (`pieces/ridges.py`), in
any number of variables.

*Layer 2, bank* (`two-layer-lookup`, targets of few variables): x itself is gathered; the head holds the memory of the
construction `grid` and returns the average of sampled values. That layer is no self-attention.

The layout "position-dependent" reads row 1 and maps it to all tokens at once: M heads for M rectifiers, one for a
bank. In the layout "token-wise" all linear maps but the embedding act on each token alone and are the same for all of
them: head (t, k) serves token t only, the queries of other rows are led to the start row by a key of size `K = R
max|g| + 200 + log n`; nM + 1 heads, the last one adding d_t.

**Bound.** The error of the hidden layer, none for targets that are one, then `max_t Σ_k |c_tk| 0.27847/R`, plus the
mass `(n + 1) e^{-200}` of rows that are not meant times the spread of values; for a bank that of `grid.py`. The plan
samples the first and leaves out the mass, so that it has an estimate; the certificate does not.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, TypeGuard

import numpy as np
import numpy.typing as npt

from ..arguments import one_of, whole_number
from ..arithmetic.formats import round_to
from ..errors import InputError
from ..network import Affine, Attention, Network
from ..network.network import rounded
from ..pieces.ridges import Rectifiers, fitted
from ..targets import PiecewiseLinear, Target
from .base import Construction, Plan, PlanRequest
from .grid import GridConstruction, GridDetails
from .sharpness import MUTED, RECTIFIER, sharpness

Floats = npt.NDArray[np.float64]

LAYOUTS = ("position-dependent", "token-wise")


@dataclass(frozen=True)
class TwoLayerTuning:
    """How rectifiers and heads share a tolerance. The error of the network is proved later."""

    few: int = 4
    """Variables up to which a bank makes sense. By trial."""
    room: float = 0.5
    """The share of the tolerance that the hidden layer may take, as sampled. A round number."""
    spare_aim: float = 64.0
    """The share of the tolerance that rectifiers may take is one over this. A round number: sharpness costs nothing."""


TUNING = TwoLayerTuning()

MOST_UNITS = 512
"""Rectifiers of a target that is no hidden layer itself, unless options say otherwise."""


def rectifiers_of(target: PiecewiseLinear) -> Rectifiers:
    """One hidden layer of clipped units, each as one or two rectifiers."""
    hidden = target.stages[0]
    width = len(hidden.bias)
    outer, rest = (
        (target.stages[1].weight, target.stages[1].bias)
        if len(target.stages) == 2
        else (np.eye(width), np.zeros(width))
    )
    low, high = np.isfinite(hidden.low), np.isfinite(hidden.high)
    units = []  # weight, bias and outer weight of each kind; unclipped units are max(0, z) - max(0, -z)
    for mask, end, side, sign in (
        (low, hidden.low, 1.0, 1.0),
        (low & high, hidden.high, 1.0, -1.0),
        (~low & high, hidden.high, -1.0, -1.0),
        (~low & ~high, np.zeros(width), 1.0, 1.0),
        (~low & ~high, np.zeros(width), -1.0, -1.0),
    ):
        units.append((side * hidden.weight[:, mask], side * (hidden.bias - end)[mask], sign * outer[mask]))
    rest = rest + np.where(low, hidden.low, 0.0) @ outer + np.where(~low & high, hidden.high, 0.0) @ outer
    inner, bias, out = (
        np.concatenate(part, axis=axis) for part, axis in zip(zip(*units, strict=True), (1, 0, 0), strict=True)
    )
    return Rectifiers(inner, bias, out, rest)


class TwoLayerConstruction(Construction[Target, tuple[str, Rectifiers | GridDetails, float]]):
    """Gather, then rectify; both layers are self-attention."""

    name: ClassVar[str] = "two-layer"
    theorem: ClassVar[str] = "arXiv 2504.15956 (two-layer attention, sequence to sequence)"
    options: ClassVar[frozenset[str]] = frozenset({"R", "layout", "units", "tokens", "gamma"})
    figures: ClassVar[frozenset[str]] = frozenset({"rectifiers", "directions"})
    automatic: ClassVar[bool] = False

    def plan(self, target: Target, request: PlanRequest) -> Plan[tuple[str, Rectifiers | GridDetails, float]]:
        """R from the tolerance; for targets that are no hidden layer themselves, one that comes close to them."""
        if request.options.get("tokens") or request.options.get("gamma"):
            words = 'tokens and gamma are options of construction="two-layer-lookup"; "two-layer" has rectifiers now'
            warnings.warn(words, DeprecationWarning, stacklevel=2)
            return LookupConstruction().plan(target, request)
        layout = layout_of(target, request)
        if is_shallow(target):
            units, near, figures = rectifiers_of(target), 0.0, {}
        else:
            most = whole_number("options units", request.options.get("units", MOST_UNITS), 1, 2**14)
            close = 0.0 if request.aim is None else TUNING.room * request.aim
            fit = fitted(target, close, most, request.seed, request.deadline)
            units, near = fit.rectifiers, fit.error
            figures = {"directions": float(fit.directions)}
        error = RECTIFIER * float(np.abs(units.outer).sum(axis=0).max())
        sharp = sharpness(error, replace(request, aim=None if request.aim is None else request.aim / TUNING.spare_aim))
        figures["rectifiers"] = float(len(units.bias))
        numbers = float(units.inner.size + units.outer.size + len(units.bias) ** 2)
        return Plan(0, near + error / sharp, (layout, units, sharp), depth=2, figures=figures, numbers=numbers)

    def build(self, target: Target, plan: Plan[tuple[str, Rectifiers | GridDetails, float]], dtype: str) -> Network:
        """Embedding, two layers of heads, read-out."""
        layout, inside, sharp = plan.details
        rows = _Rows(*target.domain.tokens)
        per_token = layout == "token-wise"
        if isinstance(inside, GridDetails):
            size = target.domain.size
            first = rows.gather(np.eye(size), np.zeros(size), everywhere=per_token)
            second = rows.bank(target, inside, per_token, dtype)
            readout = np.eye(target.outputs), np.zeros(target.outputs)
        else:
            first = rows.gather(inside.inner, inside.bias, everywhere=False)
            low, high = target.domain.lo.ravel(), target.domain.hi.ravel()
            largest = float((np.maximum(np.abs(low), np.abs(high)) @ np.abs(inside.inner) + np.abs(inside.bias)).max())
            width = target.outputs // rows.length
            second = rows.rectify_by_token(inside, sharp, largest, width) if per_token else rows.rectify(inside, sharp)
            readout = inside.outer, inside.rest
        layers = [rows.embedding(), first, second, *rows.read_out(per_token, *readout, target.output_shape)]
        return Network(tuple(rounded(layer, dtype) for layer in layers), rows.length, dtype)

    def paper_tokens(
        self, target: Target, plan: Plan[tuple[str, Rectifiers | GridDetails, float]], eps: float
    ) -> int | None:
        """The paper counts no tokens here."""
        return None


class LookupConstruction(TwoLayerConstruction):
    """Gather, then look up in a constant memory: cross-attention in the second layer."""

    name: ClassVar[str] = "two-layer-lookup"
    theorem: ClassVar[str] = "a variant of arXiv 2504.15956 with a memory in the second layer"
    options: ClassVar[frozenset[str]] = frozenset({"layout", "tokens", "gamma"})
    figures: ClassVar[frozenset[str]] = frozenset()

    def serves(self, target: Target) -> bool:
        """Anything of few variables."""
        return target.domain.size <= TUNING.few

    def plan(self, target: Target, request: PlanRequest) -> Plan[tuple[str, Rectifiers | GridDetails, float]]:
        """The grid of the bank."""
        layout = layout_of(target, request)
        options = {name: value for name, value in request.options.items() if name in ("tokens", "gamma")}
        bank = GridConstruction().plan_on_box(target, replace(request, options=options, norm=inf))
        heads = target.domain.tokens[0] if layout == "token-wise" else 1
        return Plan(heads * bank.tokens, bank.a_priori, (layout, bank.details, 0.0), depth=2)


def is_shallow(target: Target) -> TypeGuard[PiecewiseLinear]:
    """Is it one hidden layer of clipped units, with a linear map behind it or none?"""
    return isinstance(target, PiecewiseLinear) and (
        len(target.stages) == 1 or (len(target.stages) == 2 and target.stages[1].is_affine)
    )


def layout_of(target: Target, request: PlanRequest) -> str:
    """The layout of the options, if it fits the target."""
    layout = one_of("options layout", request.options.get("layout", LAYOUTS[0]), LAYOUTS)
    shape = target.output_shape
    if layout == "token-wise" and (len(shape) != 2 or shape[0] != target.domain.tokens[0]):
        raise InputError(
            "the token-wise layout needs as many output tokens as input tokens",
            got=f"outputs {shape}",
            remedy='Use options={"layout": "position-dependent"}.',
        )
    return layout


class _Rows:
    """Layers on n + 1 rows with positions 0..n; features after the embedding: x | position."""

    def __init__(self, length: int, width: int) -> None:
        self.length, self.width, self.rows = length, width, length + 1
        angles = 2 * np.pi * np.arange(self.rows) / self.rows
        self.codes = np.stack([np.cos(angles), np.sin(angles)], axis=1)  # (n+1, 2)
        self.gain = 2 * MUTED / (1 - np.cos(2 * np.pi / self.rows))

    def embedding(self) -> Affine:
        """Start row and positions."""
        constant = np.hstack([np.zeros((self.rows, self.width)), np.eye(self.rows)])
        return Affine(
            np.eye(self.width, self.width + self.rows)[None], constant, np.eye(self.rows, self.length, -1)[None]
        )

    def gather(self, inner: Floats, bias: Floats, everywhere: bool) -> Attention:
        """Row 1 (or every row) gets `vec(X) inner + bias`, all rows keep their position; features: g | position."""
        units, rows, width = len(bias), self.rows, self.width
        heads, size, values = self.length + 1, self.width + rows, max(width + 1, rows)
        query, key = np.zeros((heads, size, 2)), np.zeros((heads, size, 2))
        value, output = np.zeros((heads, size, values)), np.zeros((heads, values, units + rows))
        key[:, width:] = self.codes
        for head in range(self.length):
            looks = np.full(rows, head + 1) if everywhere else np.where(np.arange(rows) == 1, head + 1, 0)
            query[head, width:] = self.gain * self.codes[looks]
            value[head, :width, :width] = np.eye(width)
            value[head, width + 1, width] = 1.0  # one at row 1, for the bias
            output[head, :width, :units] = inner.reshape(self.length, width, units)[head]
        output[0, width, :units] = bias
        query[-1, width:], value[-1, width:, :rows] = self.gain * self.codes, np.eye(rows)
        output[-1, :rows, units:] = np.eye(rows)
        return Attention.of(query, key, value, output, attends_data=True)

    def rectify(self, inside: Rectifiers, sharp: float) -> Attention:
        """Head k makes unit k, in every row alike."""
        units = len(inside.bias)
        size = units + self.rows
        query, key = np.zeros((units, size, 1)), sharp * np.eye(units, size)[:, :, None]
        query[:, units:] = 1.0
        key[:, units + 1] = np.log(self.length)
        value = np.eye(units, size)[:, :, None]
        return Attention.of(query, key, value, np.eye(units)[:, None], attends_data=True)

    def rectify_by_token(self, inside: Rectifiers, sharp: float, largest: float, width: int) -> Attention:
        """Head (t, k) adds unit k to row t; the last head adds the rest."""
        units, length = len(inside.bias), self.length
        size, heads = units + self.rows, length * units + 1
        query, key, value = np.zeros((heads, size, 2)), np.zeros((heads, size, 2)), np.zeros((heads, size, width))
        outer = inside.outer.reshape(units, length, width)
        away = 2 * (sharp * largest + MUTED + np.log(self.rows))
        for head, (t, k) in enumerate(np.ndindex(length, units)):
            query[head, units:, 0] = 1.0
            query[head, units:, 1] = np.arange(self.rows) != t + 1
            key[head, k, 0], key[head, units + 1, 0], key[head, units, 1] = sharp, np.log(length), away
            value[head, k] = outer[k, t]
        query[-1, units:], key[-1, units:] = self.gain * self.codes, self.codes
        value[-1, units + 1 :] = inside.rest.reshape(length, width)
        return Attention.of(query, key, value, np.broadcast_to(np.eye(width), (heads, width, width)), attends_data=True)

    def bank(self, target: Target, details: GridDetails, per_token: bool, dtype: str) -> Attention:
        """The grid's memory behind x; with `per_token` head t serves row t and gives others a token of value zero."""
        size, outputs = target.domain.size, target.outputs
        centres = details.grid.centres()  # (N, D)
        values = target.values(centres)  # (N, m)
        origin = round_to(((target.domain.lo + target.domain.hi) / 2).ravel(), dtype)
        beta = details.gamma / details.grid.spacing**2
        offset = centres - origin
        keys = np.hstack([beta * offset, -(beta * offset**2).sum(axis=1, keepdims=True) / 2])  # (N, D+1)
        heads, width = (self.length, outputs // self.length) if per_token else (1, outputs)
        reach = float((np.abs(keys) @ np.append(np.abs(offset).max(axis=0) * 2, 1.0)).max())
        memory = np.zeros((len(keys) + 1, size + 2 + outputs))  # key | led away | value
        memory[:-1, : size + 1], memory[:-1, size + 2 :] = keys, values
        memory[-1, size + 1] = 1.0
        query, bias = np.zeros((heads, size + self.rows, size + 2)), np.zeros((heads, size + 2))
        query[:, :size, :size] = np.eye(size)
        bias[:, :size], bias[:, size] = -origin, 1.0
        bias[:, size + 1] = -2 * (reach + MUTED)
        for head in range(heads if per_token else 0):
            query[head, size:, size + 1] = np.where(np.arange(self.rows) == head + 1, 0.0, 4 * (reach + MUTED))
        key = np.broadcast_to(np.eye(memory.shape[1], size + 2), (heads, memory.shape[1], size + 2))
        value = np.zeros((heads, memory.shape[1], width))
        for head in range(heads):
            value[head, size + 2 + head * width : size + 2 + (head + 1) * width] = np.eye(width)
        output = np.broadcast_to(np.eye(width), (heads, width, width))
        return Attention.of(query, key, value, output, memory, query_bias=bias)

    def read_out(self, per_token: bool, weight: Floats, bias: Floats, shape: tuple[int, ...]) -> list[Affine]:
        """Drop the start row, or map row 1 to all outputs."""
        if per_token:
            width = shape[1]
            return [
                Affine(np.eye(width)[None], np.zeros((self.length, width)), np.eye(self.length, self.rows, 1)[None])
            ]
        one = Affine(weight[None], bias[None], np.eye(1, self.rows, 1)[None])
        return [one, Affine.unflatten(*shape)] if len(shape) == 2 else [one]
