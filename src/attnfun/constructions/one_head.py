"""One softmax head that looks values up: what `grid` and `cross` have in common [T 2.1], [T 3.4].

Token j has a value v_j and an affine score, a slope and a height above some origin: its weight is largest where its
score is. With a place c_j and `β_k` the sharpness along axis k, both counted from the origin, the score
`Σ_k β_k (c_jk x_k - c_jk²/2)` is affine in x and, up to a term in x alone that softmax ignores, equal to
`-Σ_k β_k (x_k - c_jk)²/2`: the weights concentrate on the cell that x is in.

Two layouts of sequence outputs, n' rows of d' features:

*packed*: one query `(x, 1)`, N memory tokens with whole values (n' d' features), unpacked by one linear map.

*position* ([A]): a query `(x, 1, e_t)` for each output row t, and a memory token for each place j and row t', with key
`(β c_j, -β|c_j|²/2, κ e_t')` and value row t' of v_j. For each j the n' tokens share one weight but for the factor e^κ
of the right row, so rows of the wrong position get the share `(n'-1)/(e^κ + n'-1)` altogether, exactly.

Of two inputs (Q, K) x is all coordinates; keys hold the part of the scores that K makes (`Attention.keyed`) [T 3.8].

With `memory="map"` the rows of the memory are made by the affine map, as in [A]: the layer is Attn(Z, Z, Z) and what
becomes of these rows is dropped behind it (`network/memory_rows.py`) [T 11.16].

In self-attention the data tokens are keys too: score -B, value 0. If some memory token's score is at least `-depth`
everywhere, `B = depth + GAP` leaves them a mass of at most `n' e^{-GAP-κ}` (κ = 0 and n' = 1 when packed).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
import numpy.typing as npt

from ..arguments import one_of
from ..arithmetic.formats import round_to
from ..domains import TwoInputs
from ..domains.box import Box
from ..network import Affine, Attention, Network
from ..network.memory_rows import with_rows
from ..network.network import rounded
from ..targets import Target
from ..targets.callables import Lipschitz

Floats = npt.NDArray[np.float64]

LAYOUTS = ("packed", "position")
MEMORIES = ("layer", "map")
"""Who holds the memory tokens: the layer, or the affine map before it, which makes them as rows."""
GAP = 60.0
"""The data tokens' scores lie at least this far below the best memory token's."""
LEAST_KAPPA, MOST_KAPPA = 2.0, 60.0
SIZES = 1024
"""Samples from which the size of the values is taken."""
SHARE = 0.01
"""Fraction of the error that wrong positions may add: κ is chosen for it."""


@dataclass(frozen=True, eq=False)
class Lookup:
    """Scores and values of N memory tokens."""

    origin: Floats  # (D,)
    slopes: Floats  # (N, D)
    heights: Floats  # (N,), scores at the origin
    values: Floats  # (N, m)
    depth: float
    """Everywhere on the domain some token's score is at least minus this."""

    @classmethod
    def at_places(cls, domain: Box, centres: Floats, beta: Floats, values: Floats, depth: float, dtype: str) -> Lookup:
        """Tokens at places (N, D), β (D,) along the axes, counted from the middle of the domain."""
        origin = round_to(((domain.lo + domain.hi) / 2).ravel(), dtype)  # (D,)
        offset = centres - origin  # (N, D)
        return cls(origin, beta * offset, -(beta * offset**2).sum(axis=1) / 2, values, depth)


@dataclass(frozen=True)
class Layout:
    """How a sequence of outputs is laid out; `kappa` is 0 when it is packed."""

    name: str
    rows: int
    """Output tokens that share the memory tokens: n' for positions, 1 when packed."""
    kappa: float = 0.0
    memory: str = MEMORIES[0]

    @classmethod
    def read(cls, target: Target, options: dict[str, object]) -> Layout:
        """The layout requested."""
        name = one_of("options layout", options.get("layout", LAYOUTS[0]), LAYOUTS)
        rows = target.output_shape[0] if name == "position" and len(target.output_shape) == 2 else 1
        return cls(name, rows, memory=one_of("options memory", options.get("memory", MEMORIES[0]), MEMORIES))

    def sharp_enough(self, error: float, osc: float) -> Layout:
        """With κ such that wrong positions add a hundredth of `error`, `osc` the largest difference between rows."""
        if self.rows == 1:
            return self
        needed = log(max((self.rows - 1) * osc / max(SHARE * error, 1e-300), 1.0))
        return replace(self, kappa=min(max(needed, LEAST_KAPPA), MOST_KAPPA))

    def leak(self, peak: float, osc: float, attends_data: bool) -> float:
        """What wrong positions and, in self-attention, the data tokens can add to the error; |values| <= peak."""
        wrong = osc * (self.rows - 1) / (exp(self.kappa) + self.rows - 1)
        return wrong + attends_data * self.rows * peak * exp(-GAP - self.kappa)


def sizes_of(target: Target, rows: int) -> tuple[float, float]:
    """The largest value, and the largest difference between `rows` rows of outputs.

    From samples; with a declared constant L bounds, as every point is within the diameter d of a sample, and values
    change by at most L d on the way.
    """
    domain = target.domain
    sample = target.values(domain.sample(SIZES, np.random.default_rng(0)))  # (S, n' d')
    between = np.ptp(sample.reshape(len(sample), rows, -1), axis=1).max(initial=0.0)
    beyond = target.constant * float(np.linalg.norm(domain.hi - domain.lo)) if isinstance(target, Lipschitz) else 0.0
    return float(np.abs(sample).max()) + beyond, float(between) + 2 * beyond * (rows > 1)


def single_head(lookup: Lookup, target: Target, layout: Layout, dtype: str, *, attends_data: bool) -> Network:
    """Affine map (everything to every query, centred), one head, and for packed sequences an affine map back."""
    domain, shape = target.domain, target.output_shape
    (length, width), rows = domain.tokens, layout.rows
    keys, values = np.column_stack([lookup.slopes, lookup.heights]), lookup.values  # (N, D+1), (N, m)
    marks = np.eye(rows) if rows > 1 else np.empty((1, 0))  # (n', P): which row a query is, nothing if there is one
    memory = np.hstack(
        [
            np.repeat(keys, rows, axis=0),
            np.tile(layout.kappa * marks, (len(keys), 1)),
            values.reshape(len(keys) * rows, -1),
        ]
    )  # (N n', D+1+P+v)
    score_width, answers = domain.size + 1 + marks.shape[1], values.shape[1] // rows
    data = np.hstack([np.tile(np.append(-lookup.origin, 1.0), (rows, 1)), marks])  # (n', D+1+P), to which x is added
    if attends_data:  # tokens are query | key | value
        memory = np.hstack([np.zeros((len(memory), score_width)), memory])
        key = np.zeros((rows, score_width))
        key[:, domain.size] = -(lookup.depth + GAP)
        data = np.hstack([data, key, np.zeros((rows, answers))])
    select = np.eye(memory.shape[1])  # columns: (query |) key | value
    head = Attention.of(
        query=np.eye(data.shape[1], score_width)[None],
        key=select[None, :, -score_width - answers : -answers],
        value=select[None, :, -answers:],
        output=np.eye(answers)[None],
        memory=memory,
        attends_data=attends_data,
        keyed=tuple(range(domain.first_size, domain.size)) if isinstance(domain, TwoInputs) else (),
    )
    spread = np.eye(domain.size, data.shape[1])  # (D, features): x into the first D
    if length == rows == 1:
        read_in = Affine.tokenwise(spread, data[0])
    else:  # row k of X goes to every query
        left = np.repeat(np.eye(length)[:, None, :], rows, axis=1)  # (K=n, n', n)
        read_in = Affine(spread.reshape(length, width, -1), data, left)
    layers = with_rows(read_in, head, length) if layout.memory == "map" else (read_in, head)
    read_out = [Affine.unflatten(*shape)] if len(shape) == 2 and rows == 1 else []
    return Network(tuple(rounded(layer, dtype) for layer in (*layers, *read_out)), length, dtype)
