"""Compiled weights in a user's own attention layer: `af.init_`.

A point lies in some features of a query token, the value arrives in some features of the output, and the memory is rows
to be given as keys and values. `runtime/backends/seats.py` says which numbers are taken.

**Bound.** The layer is certified as it stands: one `Attention` layer with the weights written, its scores scaled by
heads of the user's size (`network.layers.roundings_in`). Features that hold no part of the point meet zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ..arithmetic.formats import FLASH_BLOCK
from ..compiled import Compiled
from ..compiler import compile
from ..errors import InputError, ToleranceNotMet
from ..network import Network
from ..network.folding import folded
from ..proofs import Certificate, Claim, Effort, certify
from ..proofs.overflow import refuse_overflow
from ..proofs.scaling import Hosted, roundings_in
from ..resources.deadline import TIME_LIMIT, Deadline
from ..runtime.backends.seats import Places, Seat, dtype_of, need, usable
from ..targets import Status

if TYPE_CHECKING:
    from torch import Tensor, nn

OTHERS = ("spectral", "cross")
"""Constructions that one layer can hold, where the best one does not fit."""
AMONG_DATA = f"rows of data and memory together are at most {FLASH_BLOCK}, and their numbers below 2^60"
"""What certificates of self-attention take for granted beside the rest."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The places of a compiled function in an attention layer, and its certificate. `print` says how to call it."""

    certificate: Certificate
    heads: Places
    reads: Places
    """Features of a query token that hold the point."""
    writes: Places
    """Features of the output that hold the value."""
    one: int | None
    flag: int | None
    keys: Tensor  # (M, kdim)
    """Rows to be given as keys."""
    values: Tensor  # (M, vdim)
    """Rows to be given as values; the keys themselves where both have one width."""
    written: dict[str, Tensor] = field(repr=False)
    """For each parameter of the layer, which of its numbers belong to the function: what to freeze, say."""
    width: int

    def queries(self, points: npt.ArrayLike | Tensor) -> Tensor:
        """Points (k, D) as query tokens (k, E), zero in all features that do not matter."""
        import torch

        given = torch.as_tensor(points, dtype=self.keys.dtype, device=self.keys.device).reshape(-1, len(self.reads))
        tokens = torch.zeros(len(given), self.width, dtype=given.dtype, device=given.device)
        if self.one is not None:
            tokens[:, self.one] = 1.0
        return tokens.index_copy(1, torch.tensor(self.reads, device=given.device), given)

    def __str__(self) -> str:
        call = "layer(placed.queries(points), placed.keys, placed.values)[0][:, placed.writes]"
        lines = [
            f"heads {list(self.heads)}: {self.certificate.claim.description.get('text', 'the target')}",
            f"features {list(self.reads)} of a query hold the point, {list(self.writes)} of the output the value",
            f"{len(self.keys)} rows of memory: {call}",
        ]
        if self.one is not None:
            lines.append(f"feature {self.one} of a query is 1")
        if self.flag is not None:
            lines.append(f"feature {self.flag} is 0 in your rows: append placed.keys to them for self-attention")
        return "\n".join([*lines, self.certificate.headline])


def init_(
    module: nn.Module,
    target: object,
    domain: object = None,
    eps: float | None = None,
    *,
    heads: Sequence[int] | None = None,
    reads: Sequence[int] | None = None,
    writes: Sequence[int] | None = None,
    flag: int | None = None,
    one: int | None = None,
    construction: str | None = None,
    time_limit: float | Deadline = TIME_LIMIT,
    **options: Any,
) -> Placement:
    """Write compiled weights into an `nn.MultiheadAttention`, in its dtype, the rest untouched.

    Parameters
    ----------
    module
        The layer, with enough heads of enough features. Nothing is written if anything is wrong.
    target, domain, eps
        As in `af.compile`, or a compiled network.
    heads
        Which heads to take; the first ones if not given.
    reads, writes
        Features of a query that hold the point, and of the output that hold the value; the first ones if not given.
    flag
        For self-attention: a feature that is 0 in all rows of data; in rows of memory it is 1.
    one
        For layers without biases: a feature that is 1 in all queries.
    construction, time_limit, options
        As in `af.compile`; without a construction, those that one layer can hold are tried.

    Examples
    --------
    >>> import attnfun as af, numpy as np, torch
    >>> layer = torch.nn.MultiheadAttention(64, 4, dtype=torch.float64)
    >>> placed = af.init_(layer, "sin(3*x)", {"x": (-1, 1)}, 1e-3)
    >>> out, _ = layer(placed.queries([0.1, 0.2]), placed.keys, placed.values)
    >>> bool(abs(out[0, placed.writes] - np.sin(0.3)) <= placed.certificate.bound <= 1e-3)
    True
    """
    layer, deadline = usable(module, flag, one), Deadline.of(time_limit)
    refused: list[InputError] = []
    requested = {**options, "dtype": dtype_of(layer), "time_limit": deadline}
    for net in _candidates(target, domain, eps, construction, requested):
        try:
            seat = Seat.in_layer(layer, _adopted(net, layer), heads, reads, writes, flag, one)
        except InputError as reason:
            refused.append(reason)
            continue
        certificate = _certified(net, seat.network, net.eps if eps is None else eps, deadline, layer.head_dim)
        if flag is not None:
            certificate = replace(certificate, assumptions=(*certificate.assumptions, AMONG_DATA))
        made = seat.write(layer)
        places = seat.heads, seat.reads, seat.writes, one, flag
        return Placement(certificate, *places, made.keys, made.values, made.masks, layer.embed_dim)
    raise refused[0]


def _candidates(
    target: object, domain: object, eps: float | None, construction: str | None, options: dict[str, Any]
) -> Iterator[Compiled]:
    """The network that was given, or networks that might fit, the best first."""
    if isinstance(target, Compiled):
        yield target
        return
    yield compile(target, domain, eps, construction=construction or "auto", **options)
    for name in OTHERS if construction is None else ():
        try:
            net = compile(target, domain, eps, construction=name, **options)
        except (InputError, ToleranceNotMet):
            continue
        yield net


def _adopted(net: Compiled, layer: nn.MultiheadAttention) -> Network:
    """The network as one layer, as it is scaled by heads of the user's size."""
    need(
        net.network.dtype == dtype_of(layer),
        f"a compiled network must have the layer's dtype, {dtype_of(layer)}",
        net.network.dtype,
        f'Compile with dtype="{dtype_of(layer)}".',
    )
    network = folded(net.network)
    return replace(network, layers=(Hosted.within(network.attention[0], roundings_in(layer.head_dim)),))


def _certified(net: Compiled, network: Network, eps: float | None, deadline: Deadline, head_size: int) -> Certificate:
    """What is proved about the layer that will be written, or an error if it is not enough."""
    known = net.certificate
    if known.claim.target is None:
        raise InputError(
            "certifying a network anew needs the code of its function",
            got=repr(net.name),
            remedy="Pass the function and its domain instead.",
        )
    proof = known.status is not Status.ESTIMATED
    claim = Claim.about(known.claim.target, network)
    if proof:
        refuse_overflow(network, claim.domain, head_size)
    effort = Effort(deadline)
    certificate = certify(claim, eps, norm=known.norm, proof=proof, seed=known.seed, effort=effort)
    if eps is not None and not certificate.bound <= eps:
        raise ToleranceNotMet(
            f"the error must be at most {eps:g} in a layer of this size",
            got=f"{certificate.bound:.3g}",
            remedy="Allow a larger eps, or use heads of 16 features, whose scores are scaled exactly.",
            best=net,
        )
    return certificate
