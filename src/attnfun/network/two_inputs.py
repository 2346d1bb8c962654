"""A network of two inputs as it is emitted: cross-attention whose queries come from Q and whose keys come from K.

A network with a layer that has `keyed` features reads one token, (vec Q, vec K). Written out, it is

    queries   rows of (q̃, 1, e_t), one affine map of vec Q
    keys      row j holds (a_j, t_j), t_j = Σ_f k̃_f c_jf, two linear maps of vec K
    values    v_j, as they are

with the score `a_j·(q̃, 1, e_t) + t_j`, which is the layer's own one in real arithmetic [T 3.8].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .layers import Affine, Attention, Flags, Floats, Layer, selects
from .network import Network
from .reference import apply


@dataclass(frozen=True, eq=False)
class Separated:
    """A network of two inputs, each with maps of its own until they meet in one layer of cross-attention."""

    query_rows: Affine
    """vec Q, one token, to the query tokens."""
    key_features: Affine
    """vec K, one token, to the features k̃ that keys are made of."""
    sums: Floats  # (s, M), k̃ to t_j
    layer: Attention
    """Keys are its memory tokens; t_j takes the place of the last feature of token j, which is 0."""
    after: tuple[Layer, ...]

    @property
    def first_size(self) -> int:
        """Coordinates of the first input."""
        return self.query_rows.width_in


def separated(network: Network) -> Separated:
    """The network with its inputs apart; an error if its queries or keys need both."""
    match network.layers:
        case (Affine() as read_in, Attention() as layer, *after) if layer.keyed and network.length == 1:
            pass
        case _:
            raise _refusal("a network of other layers")
    rows, width = read_in.length_out(1), read_in.width_out
    constant = apply(read_in, np.zeros((1, network.width_in))).reshape(rows, width)
    units = np.eye(network.width_in)[:, None]  # (D, 1, D)
    linear = apply(Affine(read_in.right, np.zeros_like(read_in.constant), read_in.left), units)  # (D, n', F)
    keyed = np.isin(np.arange(layer.query.shape[2]), layer.keyed)  # (k,)
    of_keys, of_queries = ((layer.query[0][:, part] != 0).any(axis=1) for part in (keyed, ~keyed))  # (F,) each
    first = network.width_in - len(layer.keyed)
    fits = not (of_keys & of_queries).any() and not linear[first:, :, of_queries].any()
    fits = fits and not linear[:first, :, of_keys].any() and not layer.residual
    exact = selects(layer.query[0], layer.query_bias[0])[keyed].all()
    exact = exact and selects(layer.key[0], layer.key_bias[0])[keyed].all()
    alike = exact and (linear[..., of_keys] == linear[:, :1, of_keys]).all()
    if not (fits and alike and (constant[:, of_keys] == constant[:1, of_keys]).all()):
        raise _refusal("queries or keys that need both")
    queries = Affine(
        linear[:first, :, of_queries].transpose(1, 0, 2), constant[:, of_queries], np.eye(rows)[:, :, None]
    )  # (n', |Q|, .), one term for each row
    features = linear[first:, 0][:, of_keys] @ layer.query[0][np.ix_(of_keys, keyed)]  # (|K|, s)
    shift = constant[0, of_keys] @ layer.query[0][np.ix_(of_keys, keyed)] + layer.query_bias[0, keyed]  # (s,)
    return Separated(
        queries,
        Affine.tokenwise(features, shift),
        layer.keys()[0][:, keyed].T,
        _cross(layer, keyed, of_queries),
        tuple(after),
    )


def _cross(layer: Attention, keyed: Flags, read: Flags) -> Attention:
    """The layer whose memory has one feature more, for t_j, which meets a one, in the place of those it is made of."""
    used = (layer.key[0][:, ~keyed] != 0).any(axis=1) | (layer.value[0] != 0).any(axis=1)  # (e,)
    query = np.pad(layer.query[0][np.ix_(read, ~keyed)], ((0, 0), (0, 1)))  # (F', k' + 1)
    key = np.pad(layer.key[0][np.ix_(used, ~keyed)], ((0, 1), (0, 1)))  # (e' + 1, k' + 1)
    key[-1, -1] = 1.0
    return Attention.of(
        query=query[None],
        key=key[None],
        value=np.pad(layer.value[0][used], ((0, 1), (0, 0)))[None],
        output=layer.output,
        memory=np.pad(layer.memory[:, used], ((0, 0), (0, 1))),
        query_bias=np.append(layer.query_bias[0, ~keyed], 1.0)[None],
        key_bias=np.append(layer.key_bias[0, ~keyed], 0.0)[None],
        value_bias=layer.value_bias,
        output_bias=layer.output_bias,
    )


def _refusal(got: str) -> InputError:
    return InputError(
        "an export with two inputs needs queries that depend on the first input alone and keys on the second alone",
        got=got,
        remedy='Compile with construction="cross", and export before networks are combined.',
    )
