"""A proof for any number of variables: follow affine forms through the network, from its own weights [T 11.3].

The target is a piecewise-linear function written with maxima (`formula/maxima.py`). Every feature of the network is
kept as an affine form of the references (the input and the target's maxima) with a slack, layer by layer:

- an affine layer composes forms;
- in an attention layer, scores and values are affine in the layer's input; where they form a *fan* (`fans.py`) the
  head is a maximum of affine functions up to a known error, and that maximum is compared with the target's most
  similar one.

Maxima are 1-Lipschitz in their forms, so slack is only multiplied by the weights on the way: for a rectifier network
the errors obey `e_{l+1} <= |W_{l+1}| (e_l + 0.27847/R)`, |W| the largest row sum. At the end the network's outputs
and the target's are forms of the same references; their difference is bounded term by term. Nothing is taken from the
construction: a weight that does not do what it should makes some slack large, never the bound wrong.

Cost: O(heads · queries · keys · features), no boxes at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from ...arithmetic import Interval
from ...arithmetic.directed import above, below, dot_up, rounded_up, sum_error, sum_up
from ...arithmetic.formats import FORMATS, Format
from ...arithmetic.forms import Forms, Frame, product_rounding
from ...arithmetic.rounding import OWN, carried_error, linear_error, score_error, storage_error, with_sum
from ...formula.maxima import Reference
from ...network import Affine, Attention, Network
from ...network.layers import Layer, tokens_read
from ...resources.deadline import in_force
from ...targets import Target
from ..enclosure import push
from ..fans import FanColumn, Keys, read
from ..heads import BoxBatch
from ..proof import PARTS, Conclusion
from ..scaling import scaling_roundings

Floats = npt.NDArray[np.float64]

NAME = "structure"
ENTRIES = 2**27
"""Coefficients of the scores of one head as forms; there is no argument by structure beyond."""


@dataclass(frozen=True, eq=False)
class State:
    """The features of a sequence: forms of the references in real arithmetic, and how far the deployed ones are off."""

    forms: Forms  # (n, d)
    error: Floats  # (n, d, 2)

    @property
    def size(self) -> Floats:
        """Largest absolute values in the deployed network, (n, d)."""
        return rounded_up(self.forms.size + self.error.sum(axis=-1), 2)


def bound_by_structure(target: Target, network: Network) -> Conclusion | None:
    """A bound on `|target - network|` over the domain; None if the target has no maxima or a layer no fan."""
    maxima, arithmetic = target.maxima(), FORMATS[network.dtype]
    if maxima is None:
        return None
    state: State | None = initial_state(maxima, network)
    with np.errstate(over="ignore", invalid="ignore"):
        for layer, after in zip(network.layers, [*network.layers[1:], None], strict=True):
            state = follow(layer, state, maxima, tokens_read(after, len(state.error)), arithmetic)
            if state is None:
                return None
    return compared(target, state, maxima.outputs, defined=True)


def compared(target: Target, state: State, outputs: Forms, *, defined: bool) -> Conclusion:
    """Target and network as forms of the same references: their difference, term by term."""
    with np.errstate(over="ignore", invalid="ignore"):
        flat = Forms(state.forms.coefficients.reshape(target.outputs, -1), state.forms.slack.ravel(), outputs.frame)
        parts = np.concatenate([(flat - outputs).size[:, None], state.error.reshape(-1, 2)], axis=1)  # (m, 3)
    parts = np.where(np.isnan(parts), inf, parts)
    bound = float(sum_up(parts, axis=1).max())
    largest = {name: float(part) for name, part in zip(PARTS, parts.max(axis=0), strict=True)}
    return Conclusion(bound, largest, defined, whole(target))


def whole(target: Target) -> Interval:
    """The domain as one box, (1, D)."""
    return Interval(target.domain.lo.reshape(1, -1), target.domain.hi.reshape(1, -1))


def initial_state(maxima: Reference, network: Network) -> State:
    """The input itself."""
    arithmetic, shape = FORMATS[network.dtype], network.shape_in
    variables = Forms.exact(np.eye(maxima.inputs, len(maxima.frame.lo), 1), maxima.frame)  # (D,)
    rounded = storage_error(variables.size, arithmetic)  # x in the dtype
    forms = Forms(variables.coefficients.reshape(*shape, -1), np.zeros(shape), maxima.frame)
    flushed = np.full_like(rounded, arithmetic.tiny)  # where the network reads it
    return State(forms, np.stack([rounded, flushed], axis=-1).reshape(*shape, 2))


def follow(
    layer: Layer, state: State, maxima: Reference, used: npt.NDArray[np.bool_], arithmetic: Format
) -> State | None:
    """The features after a layer, of which only the used tokens count; None where that is not known."""
    if isinstance(layer, Affine):
        return through_affine(layer, state, arithmetic)
    return through_attention(layer, state, maxima, used, arithmetic) if isinstance(layer, Attention) else None


def through_affine(layer: Affine, state: State, arithmetic: Format) -> State:
    """The features after an affine layer."""
    region = BoxBatch(
        state.forms.range.reshape(1, *state.forms.slack.shape), state.forms.slack[None], state.error[None]
    )
    error = push(layer, region, arithmetic).error[0]  # (N, m, 2)
    if layer.left is None:
        return State(state.forms.mapped(layer.right[0], layer.constant[0]), error)
    matrix, size = (
        np.einsum("kNn,kdm->ndNm", part(layer.left), part(layer.right)).reshape(state.forms.slack.size, -1)
        for part in (np.asarray, np.abs)
    )  # (n*d, N*m)
    flat = Forms(state.forms.coefficients.reshape(len(matrix), -1), state.forms.slack.ravel(), state.forms.frame)
    out = flat.mapped(matrix, layer.constant.ravel())  # (N*m,)
    slack = rounded_up(out.slack + sum_error(dot_up(flat.terms, size), len(layer.right) + 2), 1)
    shape = layer.constant.shape
    return State(Forms(out.coefficients.reshape(*shape, -1), slack.reshape(shape), out.frame), error)


def through_attention(
    layer: Attention, state: State, maxima: Reference, used: npt.NDArray[np.bool_], arithmetic: Format
) -> State | None:
    """The used tokens after an attention layer; None where a head is no maximum, or there are too many scores."""
    view = _LayerView.of(state)
    forms, errors = [], []
    for head in range(layer.heads):
        forms_here, errors_here = [], []
        for keys in view.keys(layer, head, np.flatnonzero(used), arithmetic) or ():
            in_force().check("the proof")
            known = [_through(reading, view.inner, maxima) for reading in read(keys, arithmetic)]
            found = [pair for pair in known if pair is not None]
            if len(found) < len(known):
                return None
            forms_here.append([form for form, _ in found])
            errors_here.append([error for _, error in found])
        if not forms_here:
            return None
        forms.append(_stacked(forms_here))  # (L, v)
        errors.append(np.array(errors_here))  # (L, v, 2)
    heads, error = Forms.join(forms, axis=1), np.concatenate(errors, axis=1)  # (L, H*v), (L, H*v, 2)
    flat = layer.output.reshape(-1, layer.width_out)  # (H*v, o)
    out, error = (
        heads.mapped(flat, layer.output_bias),
        linear_error(error, heads.size, flat, layer.output_bias, arithmetic),
    )
    if layer.residual:
        out, error = out + state.forms[used], error + state.error[used]
        error = with_sum(error, out.size, np.array(1), arithmetic)
    return State(_spread_out(out, used), _filled(error, used))


def _through(reading: FanColumn, inner: Forms, maxima: Reference) -> tuple[Forms, Floats] | None:
    """A reading in terms of the references: a form, whose slack holds all that is off, and the rounding error (2,).

    None where the target has no maximum to compare with.
    """
    form = reading.base[None].after(inner)[0]
    off = reading.construction
    for group, sign in ((reading.above, 1.0), (reading.below, -1.0)):
        if len(group.slack):
            zero = Forms.constants(np.zeros(1), maxima.frame)
            similar = maxima.like(Forms.join([zero, group.after(inner)]))
            if similar is None:
                return None
            form, off = form + similar.form.scaled(sign), off + similar.error
    return Forms(form.coefficients, rounded_up(form.slack + off, 3), maxima.frame), reading.rounding


def _stacked(rows: list[list[Forms]]) -> Forms:
    """Single forms as a table (L, v)."""
    frame = rows[0][0].frame
    coefficients = np.array([[form.coefficients for form in row] for row in rows])
    return Forms(coefficients, np.array([[form.slack for form in row] for row in rows]), frame)


def _filled(part: Floats, used: npt.NDArray[np.bool_]) -> Floats:
    """Rows of used tokens in their places among all; nobody reads the others."""
    whole = np.zeros((len(used), *part.shape[1:]))
    whole[used] = part
    return whole


def _spread_out(forms: Forms, used: npt.NDArray[np.bool_]) -> Forms:
    return Forms(_filled(forms.coefficients, used), _filled(forms.slack, used), forms.frame)


@dataclass(frozen=True, eq=False)
class _LayerView:
    """An attention layer's input with its varying features as variables of their own.

    A feature that is a constant up to a slack or an error varies too, about that constant: scores and values that read
    it move together.
    """

    tokens: Forms  # (n, d): each a constant, a single variable or both
    inner: Forms  # (V,): the variables in terms of the references
    size: Floats  # (n, d), in the deployed network
    error: Floats  # (n, d, 2)
    variable_error: Floats  # (V, 2)
    noise: npt.NDArray[np.bool_]  # (V,): variables about a constant

    @classmethod
    def of(cls, state: State) -> _LayerView:
        """Tell constants from variables; ranges hold for the network in real and in deployed arithmetic."""
        forms, off = state.forms, sum_up(state.error, axis=-1)
        moves = forms.varies | (forms.slack > 0) | (off > 0)  # (n, d)
        constant = np.where(forms.varies, 0.0, forms.coefficients[..., 0])  # (n, d)
        rest = forms.coefficients.copy()
        rest[..., 0] -= constant  # that very float, or zero
        inner = Forms(rest, forms.slack, forms.frame)[moves]
        frame = Frame.of(below(inner.range.lo - off[moves]), above(inner.range.hi + off[moves]))
        coefficients = np.zeros((*moves.shape, len(frame.lo)))
        coefficients[..., 0] = constant
        coefficients[(*np.nonzero(moves), np.arange(1, len(frame.lo)))] = 1.0
        tokens, noise = Forms.exact(coefficients, frame), ~forms.varies[moves]
        return cls(tokens, inner, state.size, state.error, state.error[moves], noise)

    def keys(
        self, layer: Attention, head: int, queries: npt.NDArray[np.integer], arithmetic: Format
    ) -> list[Keys] | None:
        """The keys of one head as seen by each of the queries; None where their scores are too many to hold."""
        count = len(layer.memory) + layer.attends_data * len(self.error)
        if len(queries) * count * len(self.tokens.frame.lo) > ENTRIES:
            return None
        q = self.tokens[queries].mapped(layer.query[head], layer.query_bias[head])  # (L, k)
        q_own = _own(self.size[queries], layer.query[head], layer.query_bias[head], arithmetic)  # (L, k)
        tokens = [Forms.constants(layer.memory, self.tokens.frame)]
        sizes, errors = [np.abs(layer.memory)], [np.zeros((*layer.memory.shape, 2))]
        if layer.attends_data:
            tokens.append(self.tokens)
            sizes.append(self.size)
            errors.append(self.error)
        every, size = Forms.join(tokens), np.concatenate(sizes)  # (T, e)
        k = every.mapped(layer.key[head], layer.key_bias[head])  # (T, k)
        v = every.mapped(layer.value[head], layer.value_bias[head])  # (T, v)
        k_own = _own(size, layer.key[head], layer.key_bias[head], arithmetic)  # (T, k)
        v_own = _own(size, layer.value[head], layer.value_bias[head], arithmetic)  # (T, v)
        v_moved = carried_error(np.concatenate(errors), layer.value[head])  # (T, v, 2)
        scores, moved = _products(q, k, self.variable_error)  # (L, T), (L, T, 2)
        q_size, k_size = q.size + q_own, k.size + k_own
        scaling = scaling_roundings(layer)
        products, roundings = q_size @ k_size.T, (q_size > 0).astype(np.float64) @ (k_size > 0).T  # (L, T)
        own = dot_up(q_own, k_size.T) + dot_up(q_size, k_own.T)  # (L, T)
        features = q_size.sum(axis=1)[:, None] + k_size.sum(axis=1)  # (L, T)
        own = own + score_error(roundings * products, products, scores.size, own, features, scaling, arithmetic)
        own = rounded_up(own, 4)
        return [
            Keys(scores[row], v, own[row], v_own, moved[row], v_moved, self.variable_error, self.noise)
            for row in range(len(queries))
        ]


def _own(size: Floats, weight: Floats, bias: Floats, arithmetic: Format) -> Floats:
    """Rounding of a projection itself, (T, d) -> (T, m)."""
    return linear_error(np.zeros((*size.shape, 2)), size, weight, bias, arithmetic)[..., OWN]


def _products(q: Forms, k: Forms, error: Floats) -> tuple[Forms, Floats]:
    """Scores q·k (L, T), and how far errors of the variables (V, 2) move their part that is not affine, (L, T, 2).

    With `q = q_0 + q'`, `k = k_0 + k'` (constants and varying parts) it is `q_0 k_0 + q' k_0 + q_0 k' + q' k'`; the
    last term, tiny in all constructions, goes to the slack.
    """
    sizes = q.frame.sizes[1:]
    q0, k0, q1, k1 = q.coefficients[..., 0], k.coefficients[..., 0], q.coefficients[..., 1:], k.coefficients[..., 1:]
    queries, keys = np.swapaxes(q1, 1, 2), np.moveaxis(k1, 1, 0).reshape(k1.shape[1], -1)  # (L, V, k), (k, T*V)
    shape = (len(q0), len(k0), len(sizes))  # (L, T, V)
    by_query, by_key = np.swapaxes(queries @ k0.T, 1, 2), (q0 @ keys).reshape(shape)
    varying = by_query + by_key
    coefficients = np.concatenate([(q0 @ k0.T)[..., None], varying], axis=2)
    rounding = np.swapaxes(product_rounding(queries, k0.T), 1, 2) + product_rounding(q0, keys).reshape(shape)
    rounding = rounding + np.where((by_query != 0) & (by_key != 0), sum_error(np.abs(varying), 1), 0.0)
    q_bend, k_bend = dot_up(np.abs(q1), sizes), dot_up(np.abs(k1), sizes)  # (L, k), (T, k)
    slack = dot_up(q.slack, k.terms.T) + dot_up(q.terms, k.slack.T) + dot_up(q_bend, k_bend.T)
    slack = rounded_up(slack + product_rounding(q0, k0.T) + dot_up(rounded_up(rounding, 2), sizes), 4)
    moved = np.einsum("lke,tk->lte", np.abs(q1) @ error, k_bend) + np.einsum("lk,tke->lte", q_bend, np.abs(k1) @ error)
    return Forms(coefficients, slack, q.frame), rounded_up(moved, q0.shape[1] + len(sizes) + 1)
