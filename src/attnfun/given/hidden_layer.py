"""A continuous function as one hidden layer of rectifiers, with a bound on the error: the first link of the chain by
which arXiv 2504.15956 reaches attention [T 5.4], [T 5.5].

    function -> directions and corners (`pieces/ridges.py`) -> weights of the dtype -> bound on boxes [T 11.15]

>>> import attnfun as af
>>> network = af.rectifiers("sin(3*x)", {"x": (-1, 1)}, eps=0.01)
>>> network.certificate.proved, bool(network.certificate.bound <= 0.01), network.units < 100
(True, True, True)
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import real_number, whole_number
from ..arithmetic import Interval
from ..arithmetic.directed import rounded_up, sum_up
from ..arithmetic.formats import FORMATS, dtype_name, round_to
from ..arithmetic.rounding import linear_error, storage_error
from ..constructions.two_layer import MOST_UNITS
from ..domains.box import Box, as_box
from ..errors import InputError, ProofFailed, SoundnessError, TimeLimitReached, ToleranceNotMet, counted
from ..network import Affine, Network
from ..network.storage import write_as
from ..pieces.ridges import Rectifiers, fitted
from ..proofs.claim import EDGE_ASSUMPTION
from ..proofs.overflow import refuse_overflow
from ..proofs.proof import Proof
from ..proofs.provers.planes import cut
from ..proofs.rules.planes import over_cover
from ..proofs.rules.rectifiers import NAME, RectifiersDistance
from ..resources.deadline import NEVER, TIME_LIMIT, Deadline, until
from ..runtime.backends import perceptron
from ..targets import PiecewiseLinear, Status, Target, as_target
from ..targets.defects import refuse_defects
from ..targets.piecewise import Family
from ..targets.readers import read_network
from .certificate import NetworkCertificate

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class HiddenLayerTuning:
    """How a hidden layer is sized. Its error is proved by boxes."""

    most: int = 2**14
    """Units that may be requested. For time."""
    room: float = 0.5
    """The share of the tolerance that sampled errors may take at first, and the factor by which it falls. A round
    number."""
    points: int = 4096
    """Points at which the error is looked at. A round number."""


TUNING = HiddenLayerTuning()


@dataclass(frozen=True, eq=False)
class RectifierNetwork(Family):
    """`outer` applied to `max(0, vec(x) inner + bias)`, plus `rest`: a network of `dtype` with one hidden layer.

    `af.compile(network, eps=...)` makes attention of it, which is then within the sum of both bounds of the function.
    """

    inner: Floats  # (D, M)
    bias: Floats  # (M,)
    outer: Floats  # (M, m)
    rest: Floats  # (m,)
    domain: Box
    output_shape: tuple[int, ...]
    dtype: str
    name: str
    """The function that it comes close to."""
    directions: int
    """In how many directions the units lie."""
    certificate: NetworkCertificate
    """How close, for every real point of the domain, in the arithmetic of `dtype`."""

    @property
    def units(self) -> int:
        """Rectifiers."""
        return len(self.bias)

    def on(self, domain: Box) -> PiecewiseLinear:
        """The network as a target, in real arithmetic."""
        if domain.size != len(self.inner):
            raise InputError(f"the domain must have {counted(len(self.inner), 'variable')}", got=domain)
        return self._parts.on(domain, self.output_shape, self.name)

    def __call__(self, points: npt.ArrayLike) -> npt.NDArray[Any]:
        """Evaluate in its own dtype, at points of the domain, (..., *point shape) -> (..., *output shape)."""
        rows, ahead = self.domain.flatten(points)
        rows = self.domain.admit(rows, "raise")
        kept = FORMATS[self.dtype].held
        x, inner, bias, outer, rest = (
            round_to(part, self.dtype).astype(kept) for part in (rows, self.inner, self.bias, self.outer, self.rest)
        )
        values = np.maximum(x @ inner + bias, 0) @ outer + rest  # (B, m)
        return round_to(values, self.dtype).astype(kept).reshape(*ahead, *self.output_shape)

    def to_torch(self) -> Any:
        """`torch.nn.Sequential` of Linear, ReLU, Linear in its own dtype; single numbers are (batch, 1)."""
        return perceptron.to_torch(self._weights, self.domain.shape, self.output_shape, self.dtype)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX model, "points" (batch, ...) to "values" (batch, ...), with the certificate in its metadata."""
        known = {"function": self.name, "certificate": json.dumps(self.certificate.as_dict())}
        model = perceptron.to_onnx(self._weights, self.domain.shape, self.output_shape, self.dtype, known)
        write_as(".onnx", path, model.SerializeToString())

    @property
    def _weights(self) -> tuple[Floats, Floats, Floats, Floats]:
        return self.inner, self.bias, self.outer, self.rest

    @property
    def _parts(self) -> Rectifiers:
        return Rectifiers(*self._weights)

    def __repr__(self) -> str:
        return f"<RectifierNetwork of {self.name}: {self.units} rectifiers, {self.certificate.headline}>"


def rectifiers(
    f: object,
    domain: object = None,
    eps: float = 0.01,
    *,
    units: int = MOST_UNITS,
    dtype: str = "float64",
    lipschitz: float | None = None,
    time_limit: float | Deadline = TIME_LIMIT,
    seed: int = 0,
) -> RectifierNetwork:
    """A network of one hidden layer of rectifiers within `eps` of a continuous function on a box.

    The function may be whatever `compile` takes: a formula, a Python function, a network; `lipschitz` declares a
    constant of a black box. At most `units` rectifiers are used; how many a function takes is not known in advance. If
    the error is not proved to be at most eps, ToleranceNotMet has the best network.
    """
    eps = real_number("eps", eps, above=0.0)
    most, name = whole_number("units", units, 1, TUNING.most), dtype_name(dtype)
    box, deadline = as_box(getattr(f, "domain", None) if domain is None else domain), Deadline.of(time_limit)
    target = read_network(f, box) or as_target(f, box, lipschitz)
    if not target.domain.fills_box:
        raise InputError(
            "the domain of af.rectifiers must be a box", got=target.domain, remedy="Give the box around it."
        )
    with until(deadline):
        refuse_defects(target, 2 * eps)
        made = _solved(target, eps, most, name, deadline, seed)
    if made.certificate.bound <= eps:
        return made
    certificate = made.certificate
    raise ToleranceNotMet(
        f"eps={eps:g} could not be reached with at most {most} units",
        got=f"{certificate.headline} with {made.units}, {certificate.found:.6g} at points",
        remedy="Allow more units=, a larger eps, a finer dtype= or more time_limit=.",
        best=made,
    )


def _solved(target: Target, eps: float, most: int, dtype: str, deadline: Deadline, seed: int) -> RectifierNetwork:
    """Aim closer until the bound is at most eps, or units or time are used up; the best network."""
    aim, tried = TUNING.room * eps, list[RectifierNetwork]()
    while True:
        fit = fitted(target, aim, most, seed, deadline)
        solved = (fit.rectifiers.inner, fit.rectifiers.bias, fit.rectifiers.outer, fit.rectifiers.rest)
        parts = Rectifiers(*(round_to(weights, dtype) for weights in solved))
        rounding = _rounding(parts, target.domain, dtype)
        try:
            tried.append(_network(target.observed(), parts, rounding, dtype, fit.directions, eps, deadline, seed))
        except TimeLimitReached:
            if not tried:
                raise
        certificate = tried[-1].certificate
        hopeless = fit.error > aim or max(rounding, certificate.found) > eps  # no units left, or a coarse dtype
        if certificate.bound <= eps or hopeless or deadline.over:
            return min(tried, key=lambda network: network.certificate.bound)
        aim *= TUNING.room


def _network(
    target: Target,
    parts: Rectifiers,
    rounding: float,
    dtype: str,
    directions: int,
    eps: float,
    deadline: Deadline,
    seed: int,
) -> RectifierNetwork:
    """The network with its certificate: proved, conditional, or estimated where only values are known."""
    rows = target.domain.sample(TUNING.points, np.random.default_rng(seed + 1))
    edges = tuple[str, ...]()
    if target.status is Status.ESTIMATED:
        between = np.abs(target.values(rows) - parts.on(target.domain, target.output_shape, NAME).values(rows))
        boxes, found = 0, between.max(axis=1)  # (B,)
        bound = float(found.max()) + rounding
    else:
        distance = RectifiersDistance(target, parts)
        tree = cut(distance, eps - rounding if rounding < eps else rounding, deadline)
        largest, defined = over_cover(NAME, distance, Proof(NAME, tree.cover().data()), NEVER)
        if not np.isfinite(largest):
            raise ProofFailed("a bound must be finite", got="infinity", remedy="Take a smaller domain.")
        bound, boxes, found = rounded_up(largest + rounding, 1), tree.nodes, _apart(target, parts, rows)
        edges = () if defined else (EDGE_ASSUMPTION,)
    worst = int(found.argmax())
    reached = max(float(found[worst]) - rounding, 0.0)
    if reached > bound:
        raise SoundnessError("a bound must hold at every point", got=f"more than {bound!r} at {rows[worst].tolist()}")
    certificate = NetworkCertificate(
        quantity="largest error",
        bound=float(bound),
        status=Status.weakest([target.status, *(Status.CONDITIONAL for _ in edges)]),
        assumptions=(*target.assumptions, *edges, FORMATS[dtype].assumption),
        dtype=dtype,
        domain=target.domain,
        found=reached,
        point=rows[worst].reshape(target.domain.shape),
        boxes=boxes,
    )
    weights, known = (parts.inner, parts.bias, parts.outer, parts.rest), target.as_dict()
    name = str(known.get("text", known.get("name", known["kind"])))
    return RectifierNetwork(*weights, target.domain, target.output_shape, dtype, name, directions, certificate)


def _apart(target: Target, parts: Rectifiers, rows: Floats) -> Floats:
    """By how much target and network surely differ at points, (B, D) -> (B,)."""
    points = Interval(rows)
    f, R = target.enclose(points), parts.on(target.domain, target.output_shape, NAME).enclose(points)
    return np.maximum(np.nan_to_num(f.lo - R.hi), np.nan_to_num(R.lo - f.hi)).max(axis=1)


def _rounding(parts: Rectifiers, domain: Box, dtype: str) -> float:
    """How far the network as computed is from the same in real arithmetic, over the domain [T 5.5]."""
    arithmetic = FORMATS[dtype]
    affine = (Affine.tokenwise(parts.inner, parts.bias), Affine.tokenwise(parts.outer, parts.rest))
    refuse_overflow(Network(affine, 1, dtype), domain)  # a rectifier makes nothing larger
    size = np.maximum(np.abs(domain.lo), np.abs(domain.hi)).ravel()  # (D,)
    off = np.stack([storage_error(size, arithmetic), np.full_like(size, arithmetic.tiny)], axis=-1)  # (D, 2)
    hidden = rounded_up(size @ np.abs(parts.inner) + np.abs(parts.bias), len(size) + 2)  # (M,)
    off = linear_error(off, size, parts.inner, parts.bias, arithmetic)  # (M, 2); rectifiers do not enlarge it
    off = linear_error(off, hidden, parts.outer, parts.rest, arithmetic)  # (m, 2)
    return float(sum_up(off, axis=1).max())
