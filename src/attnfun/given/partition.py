"""Heads and partitions: the head that assigns values to given cells, and the cells that a given head makes.

The geometry of cells, their indicators and boundaries are in `pieces/power_diagram.py`.

**A head for a partition** [T 1.1]. Keys are (β a_j, β b_j), the query is (x, 1), values are those of the cells. Where
cell i is ahead by a gap δ, the output is within `osc (N-1) e^{-βδ}/(1 + (N-1) e^{-βδ})` of its value, osc the largest
difference of values. β is a power of two, so that the scores are those of the partition times β to the last bit. In L_p
β grows until the sampled error, then the proved one, is small enough.

**The partition of a head.** Queries are affine in x and keys are constants, so scores are affine: their slopes and
offsets are read off the weights, and the values of the cells are what the head makes of its values.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import ceil, inf, isinf, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import real_array, real_number, whole_number
from ..arithmetic.formats import dtype_name
from ..compiled import CELLS, Compiled
from ..domains import Box, Interiors, as_box
from ..domains.box import WIDEST
from ..errors import InputError, ToleranceNotMet, counted
from ..look.plots import plot_partition
from ..network import Affine, Attention, Network
from ..network.network import rounded
from ..network.reference import apply
from ..pieces.power_diagram import PowerDiagram
from ..proofs import Certificate, Claim, Effort, certify
from ..resources.deadline import Deadline
from ..targets import CellValues

Floats = npt.NDArray[np.float64]

LEAST_GAP = 1e-100
"""The smallest gap that a head is made for. Far below any use."""


@dataclass(frozen=True)
class PartitionTuning:
    """How sharp a head for a partition is made. Its error is proved later."""

    margin: float = 0.5
    """Of the tolerance, for what is planned. A round number."""
    sharper: int = 8
    """Times that β may be doubled beyond what samples need. By trial."""
    samples: int = 4096
    """Points at which the error in L_p is looked at. A round number."""
    sharpest: float = 2.0**60
    """No head is sharper. Far beyond any use."""


TUNING = PartitionTuning()


@dataclass(frozen=True, eq=False)
class Partition(PowerDiagram):
    """Cells of a box on which `slopes[j]·x + offsets[j]` is the largest, as a softmax head sees them.

    >>> cells = partition([[0.0], [1.0]], domain=(-1, 3))
    >>> cells.cell_of([0.2, 0.9]), cells.volumes, cells.neighbours
    (array([0, 1]), array([1.5, 2.5]), [(0, 1)])
    """

    values: Floats | None = None  # (N, m), what a head returns on each cell

    @staticmethod
    def of(
        head: Any,
        domain: object = None,
        *,
        keys: npt.ArrayLike | None = None,
        values: npt.ArrayLike | None = None,
        number: int = 0,
        before: Any = None,
    ) -> Partition:
        """The partition of one head: cells, values, boundaries and scores as its softmax sees them (`beta=1`).

        `head` is a compiled network with one attention layer, or an `nn.MultiheadAttention` with its `keys` (T, kdim)
        and, where they are others, `values` (T, vdim); `number` counts its heads. The domain holds its queries, or the
        points of which the map `before`, an `nn.Linear` or a pair (weight (D, E), bias (E,)), makes queries. Values are
        what the head adds to the output; those of a compiled network with one head are its outputs.

        >>> import attnfun as af
        >>> net = af.compile("where(x > 0.3, 1, 0)", {"x": (-1, 1)}, eps=0.3, norm=1, construction="cross")
        >>> cells = af.types.Partition.of(net)
        >>> len(cells) == net.network.tokens, cells.values.min().round(), cells.values.max().round()
        (True, np.float64(0.0), np.float64(1.0))
        """
        return partition_of(head, domain, keys, values, number, before)

    def head(
        self,
        values: npt.ArrayLike,
        eps: float,
        *,
        gap: float | None = None,
        norm: str | float = "inf",
        dtype: str = "float64",
        time_limit: float = 60.0,
    ) -> Compiled:
        """The head that assigns values (N,) or (N, m) to the cells, as a compiled network with its certificate.

        In the sup norm it is within `eps` of the value of the cell wherever that cell's score is ahead of all others by
        `gap`; in L_p, `norm=p`, its distance from the values of the cells over the whole domain is at most `eps`.
        """
        return head_of(self, values, eps, gap, norm, dtype, time_limit)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """A matplotlib figure of the cells (2-D) or of the scores and their maximum (1-D); saved if `path` is given."""
        return plot_partition(self, path)

    def __repr__(self) -> str:
        return f"Partition({counted(len(self), 'cell')} of {self.domain!r})"


def partition(
    centres: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    *,
    slopes: npt.ArrayLike | None = None,
    offsets: npt.ArrayLike | None = None,
    domain: object,
) -> Partition:
    """A max-affine partition of a box.

    `centres` c (N, D) alone give Voronoi cells. With `weights` w (N,) they give a power diagram, in which x belongs to
    the cell with the smallest `|x - c_j|² - w_j`. With `slopes` a (N, D) and `offsets` b (N,) it is the cell with the
    largest `a_j·x + b_j`.
    """
    box = as_box(domain)
    if (centres is None) == (slopes is None) or (slopes is None) != (offsets is None):
        raise InputError("a partition needs centres, or slopes and offsets", remedy="Give one of the two.")
    if slopes is not None and weights is not None:
        raise InputError("weights= needs centres", remedy="Add half of the weights to the offsets instead.")
    rows = _table("centres" if slopes is None else "slopes", centres if slopes is None else slopes, box.size)
    if slopes is not None:
        heights = _column("offsets", offsets, len(rows))
    else:
        heights = (_column("weights", 0.0 if weights is None else weights, len(rows)) - (rows**2).sum(axis=1)) / 2
    return Partition(rows, heights, box)


def head_of(
    cells: Partition, values: npt.ArrayLike, eps: float, gap: float | None, norm: str | float, dtype: str, limit: float
) -> Compiled:
    """The head that has these values on the cells, certified."""
    given = real_array("values", values, most=WIDEST)
    if given.ndim not in (1, 2) or len(given) != len(cells) or not given.size:
        raise InputError(
            f"values must be a number or a vector for each of {len(cells)} cells", got=f"shape {given.shape}"
        )
    levels, shape = given.reshape(len(cells), -1), given.shape[1:]
    eps, p = real_number("eps", eps, above=0.0), _norm(norm)
    if isinf(p) == (gap is None):
        raise InputError(
            "gap= must be given in the sup norm, and only there: where two scores are equal, no continuous head has "
            "the values of both cells",
            got=f"norm={norm!r}, gap={gap!r}",
            remedy="Pass gap=0.05, say, or norm=1.",
        )
    gap = None if gap is None else real_number("gap", gap, least=LEAST_GAP)
    domain = cells.domain if gap is None else Interiors(cells.slopes, cells.offsets, gap, _plain(cells.domain))
    target = CellValues(cells.slopes, cells.offsets, levels, domain, shape)
    beta, effort = _sharpness(cells, levels, eps, gap, p), Effort(Deadline.of(limit))
    best: Compiled | None = None
    for _ in range(TUNING.sharper if gap is None else 2):
        network = _network(cells, levels, beta, dtype_name(dtype))
        certificate = certify(Claim.about(target, network), eps, norm=p, effort=effort)
        best = _closer(best, _compiled(network, certificate, eps))
        if best.certificate.bound <= eps or best.certificate.stopped or effort.deadline.over:
            break
        beta *= 2
    assert best is not None  # noqa: S101 - one was made
    if best.certificate.bound > eps:
        raise ToleranceNotMet(
            f"eps={eps:g} could not be reached",
            got=best.certificate.headline,
            remedy="Raise eps=, gap= or time_limit=, or use float64.",
            best=best,
        )
    return best


def _norm(norm: str | float) -> float:
    return inf if isinstance(norm, str) and norm == "inf" else real_number("norm", norm, least=1.0)


def _plain(domain: Box) -> Box:
    if domain.kind != Box.kind:
        raise InputError("cells of a head must lie in a box", got=repr(domain))
    return domain


def _sharpness(cells: Partition, levels: Floats, eps: float, gap: float | None, p: float) -> float:
    """The power of two by which scores are multiplied."""
    osc = float(np.ptp(levels, axis=0).max())
    if osc == 0 or len(cells) == 1:
        return 1.0
    if gap is not None:
        wanted = cells.beta_for(gap, min(TUNING.margin * eps / osc, 0.5))
        return 2.0 ** ceil(log2(max(wanted, 2.0**-60)))
    rows = cells.domain.sample(TUNING.samples, np.random.default_rng(0))
    points, hard = cells.domain.unflatten(rows), levels[cells.cell_of(cells.domain.unflatten(rows))]  # (S, m)
    scale, beta = cells.domain.root_volume(p), 2.0 ** -ceil(log2(float(np.abs(cells.slopes).max()) or 1.0))
    while beta < TUNING.sharpest:
        off = np.abs(cells.indicator(points, beta) @ levels - hard).max(axis=1)  # (S,)
        if scale * float((off**p).mean()) ** (1 / p) <= TUNING.margin * eps:
            break
        beta *= 2
    return beta


def _network(cells: Partition, levels: Floats, beta: float, dtype: str) -> Network:
    """One affine map, (x, 1), and one head."""
    size, outputs = cells.domain.size, levels.shape[1]
    length = cells.domain.tokens[0]
    spread, one = np.eye(size, size + 1), np.eye(size + 1)[-1]  # (D, D + 1), (D + 1,)
    read_in = Affine.tokenwise(spread, one) if length == 1 else Affine.flatten(length, spread, one)
    every = np.eye(size + 1 + outputs)
    head = Attention.of(
        query=np.eye(size + 1)[None],
        key=every[None, :, : size + 1],
        value=every[None, :, size + 1 :],
        output=np.eye(outputs)[None],
        memory=np.hstack([beta * cells.slopes, beta * cells.offsets[:, None], levels]),  # (N, D + 1 + m)
    )
    return Network(tuple(rounded(layer, dtype) for layer in (read_in, head)), length, dtype)


def _compiled(network: Network, certificate: Certificate, eps: float) -> Compiled:
    return Compiled(network, certificate, CELLS, eps, certificate.bound, None, a_priori_proved=True)


def _closer(one: Compiled | None, other: Compiled) -> Compiled:
    return other if one is None or other.certificate.bound < one.certificate.bound else one


def partition_of(
    head: Any,
    domain: object,
    keys: npt.ArrayLike | None,
    values: npt.ArrayLike | None,
    number: int,
    before: Any,
) -> Partition:
    """The partition that one head makes of its domain."""
    if isinstance(head, Compiled):
        if keys is not None or values is not None or before is not None:
            raise InputError("keys, values and maps of a compiled network are its own", got=repr(head))
        return _of_compiled(head, domain, number)
    if hasattr(head, "out_proj") and hasattr(head, "num_heads"):
        return _of_module(head, domain, keys, values, number, before)
    raise InputError("Partition.of needs a compiled network or an nn.MultiheadAttention", got=type(head).__name__)


def _of_compiled(net: Compiled, domain: object, number: int) -> Partition:
    """Scores and values of one head of a network with one attention layer."""
    network, box = net.network.dense(), net.domain if domain is None else as_box(domain)
    place = [k for k, layer in enumerate(network.layers) if not isinstance(layer, Affine)]
    layer = network.layers[place[0]] if place else None
    if len(place) != 1 or not isinstance(layer, Attention) or box.size != net.domain.size:
        raise InputError(
            "Partition.of needs a network with one attention layer, and a domain with a variable for each input",
            got=f"{network!r}, {box!r}",
        )
    number = whole_number("number", number, 0, layer.heads - 1)
    before, after = network.layers[: place[0]], network.layers[place[0] + 1 :]
    points = np.concatenate([np.zeros((1, box.size)), np.eye(box.size)]).reshape(-1, *network.shape_in)
    rows = points
    for each in before:
        rows = apply(each, rows)  # (1 + D, n, d): the constant, and with one unit in each variable
    constant, linear = rows[0, 0], rows[1:, 0] - rows[0, 0]  # (d,), (D, d), of the first token
    memory = layer.memory
    if layer.attends_data:
        if ((rows[1:] - rows[:1]) @ layer.key[number]).any() or ((rows[1:] - rows[:1]) @ layer.value[number]).any():
            raise InputError(
                "Partition.of needs a head whose keys and values are constants",
                got="keys or values that depend on the input",
            )
        memory = np.concatenate([memory, rows[0]])
    k = memory @ layer.key[number] + layer.key_bias[number]  # (M, k)
    v = (memory @ layer.value[number] + layer.value_bias[number]) @ layer.output[number]  # (M, o)
    slopes = k @ (linear @ layer.query[number]).T  # (M, D)
    offsets = k @ (constant @ layer.query[number] + layer.query_bias[number])  # (M,)
    told = v[:, None] + (layer.output_bias if layer.heads == 1 else 0.0)  # (M, 1, o)
    if layer.heads == 1 and not layer.residual and rows.shape[1] == 1:
        for each in after:
            told = apply(each, told)
    return Partition(slopes, offsets, Box(box.lo, box.hi, box.names), told.reshape(len(told), -1))


def _of_module(
    head: Any, domain: object, keys: npt.ArrayLike | None, values: npt.ArrayLike | None, number: int, before: Any
) -> Partition:
    """Scores and values of one head of stock attention with given keys."""
    heads, embed = int(head.num_heads), int(head.embed_dim)
    number, size = whole_number("number", number, 0, heads - 1), embed // heads
    if keys is None or domain is None:
        raise InputError("Partition.of needs keys= and domain= for a module", got="none")
    if head.bias_k is not None or head.add_zero_attn:
        raise InputError("a module must have no keys beside the given ones", got="add_bias_kv or add_zero_attn")
    if head.in_proj_weight is None:
        weights = [_array(head.q_proj_weight), _array(head.k_proj_weight), _array(head.v_proj_weight)]
    else:
        weights = np.split(_array(head.in_proj_weight), 3)
    flat = np.zeros(3 * embed) if head.in_proj_bias is None else _array(head.in_proj_bias)
    own = slice(number * size, (number + 1) * size)
    (q, q_bias), (k, k_bias), (v, v_bias) = (
        (weight[own], bias[own]) for weight, bias in zip(weights, np.split(flat, 3), strict=True)
    )  # (size, E) and (size,) each
    rows = [_table("keys", keys, k.shape[1]), _table("values", keys if values is None else values, v.shape[1])]
    if len(rows[0]) != len(rows[1]):
        raise InputError("there must be a value for each key", got=f"{len(rows[0])} and {len(rows[1])}")
    box, (weight, bias) = as_box(domain), _map(before, embed)
    if box.size != len(weight):
        raise InputError(f"the domain must have {counted(len(weight), 'variable')}, as queries do", got=repr(box))
    told = (rows[1] @ v.T + v_bias) @ _array(head.out_proj.weight)[:, own].T  # (T, E)
    held = (rows[0] @ k.T + k_bias) / np.sqrt(size)  # (T, size)
    return Partition(held @ (weight @ q.T).T, held @ (bias @ q.T + q_bias), box, told)


def _map(before: Any, embed: int) -> tuple[Floats, Floats]:
    """An affine map to queries, (D, E) and (E,); the identity if there is none."""
    if before is None:
        return np.eye(embed), np.zeros(embed)
    if hasattr(before, "weight"):
        shift = np.zeros(embed) if before.bias is None else _array(before.bias)
        weight = _array(before.weight).T
    else:
        weight, shift = (real_array("before", part, most=WIDEST) for part in before)
    if weight.ndim != 2 or weight.shape[1] != embed or shift.shape != (embed,):
        raise InputError(f"the map before must lead to {embed} features", got=f"{weight.shape} and {shift.shape}")
    return weight, shift


def _array(tensor: Any) -> Floats:
    return tensor.detach().cpu().double().numpy()


def _table(name: str, given: Any, width: int) -> Floats:
    """Rows (N, width) of numbers, from an array or a tensor; of one column also (N,)."""
    table = _array(given) if hasattr(given, "detach") else np.array(real_array(name, given, most=WIDEST))
    if table.ndim == 1 and width == 1:
        table = table[:, None]
    if table.ndim != 2 or table.shape[1] != width or not len(table) or not np.isfinite(table).all():
        raise InputError(f"{name} must be finite numbers of shape (N, {width})", got=f"shape {table.shape}")
    return table


def _column(name: str, value: Any, count: int) -> Floats:
    column = real_array(name, value, most=WIDEST**2)
    if column.shape not in ((), (count,)):
        raise InputError(f"{name} must be {count} finite numbers", got=f"shape {column.shape}")
    return np.broadcast_to(column, (count,)).copy()
