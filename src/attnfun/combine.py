"""Compiled networks put together: compositions, sums, products and restrictions, with combined certificates.

Three things can be done with networks: put them side by side, put one behind the other, or take one on a part of its
domain (`proofs/rules/parts.py` says what is then known). Everything else is a composition: a sum is an affine map of
two networks side by side, a product is a small network that multiplies, compiled for the ranges at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, isinf, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .arguments import real_array
from .arithmetic import Interval
from .arithmetic.formats import round_to
from .compiled import MADE_OF_PARTS, Compiled
from .compiler import compile
from .domains.box import WIDEST, Box, as_box
from .errors import InputError, TimeLimitReached, ToleranceNotMet, shown
from .network import Affine, Network
from .proofs import Certificate, Claim, Effort, certify, combine
from .proofs.naming import indices, product_formula
from .proofs.rules.parts import RESTRICTED, errors_of, joint_network, reach_of
from .proofs.search import network_rows
from .resources.deadline import Deadline
from .targets import PiecewiseLinear, Status, Unanswerable
from .targets.combined import Composed, Stacked
from .targets.piecewise import Stage

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SHARE = 0.1
"""A network that multiplies may add this fraction of what the errors of its factors cost."""
COARSER = 4.0
"""Where that is out of reach, it may add so many times as much, and so on."""
LARGEST = 1e100
"""Beyond this error nothing is tried."""
ROOM = 2.0**-20
"""Outer networks are made for ranges that are wider by this fraction."""
SAMPLES = 4096
"""Points that say where the values of an estimated network lie."""


def composed(outer: Compiled, inner: Compiled) -> Compiled:
    """`outer(inner(x))`."""
    shapes = inner.output_shape, outer.domain.shape
    _require(
        shapes[0] == shapes[1] or prod(shapes[0]) == 1 == outer.domain.size,
        "the values of the inner network must be points of the outer one",
        got=f"values of shape {shapes[0]}, points of shape {shapes[1]}",
    )
    _require(
        outer.domain.fills_box,
        "the outer network must be compiled on a box",
        got=repr(outer.domain),
    )
    return _behind(outer, inner, outer.output_shape)


def total(net: Compiled, other: Any, sign: float = 1.0) -> Compiled:
    """`net + sign * other`, a network or numbers."""
    if isinstance(other, Compiled):
        shape = _broadcast(net.output_shape, other.output_shape)
        inner, first, second = _operands(net, other, shape)
        every = np.arange(len(first))
        weight = np.zeros((prod(inner.output_shape), len(first)))  # (k, m)
        weight[first, every] = 1.0
        weight[second, every] += sign
        return _affine(inner, weight, np.zeros(len(first)), shape)
    numbers = _numbers(other)
    shape = _broadcast(net.output_shape, numbers.shape)
    constant = sign * np.broadcast_to(numbers, shape).ravel()
    return _affine(net, _spread(net.output_shape, shape), constant, shape)


def product(net: Compiled, other: Any) -> Compiled:
    """`net * other`, a network or numbers."""
    if isinstance(other, Compiled):
        return _product(net, other)
    numbers = _numbers(other)
    shape = _broadcast(net.output_shape, numbers.shape)
    weight = _spread(net.output_shape, shape) * np.broadcast_to(numbers, shape).ravel()
    return _affine(net, weight, np.zeros(len(weight[0])), shape)


def restricted(net: Compiled, domain: object) -> Compiled:
    """The same network on a part of its box."""
    whole = net.domain
    _require(whole.fills_box, "networks on boxes can be restricted", got=repr(whole))
    if isinstance(domain, Mapping):
        unknown = [name for name in domain if name not in whole.axes]
        _require(not unknown, f"the variables of this network are {', '.join(whole.axes)}", got=shown(unknown))
        ends = zip(whole.axes, whole.lo.ravel().tolist(), whole.hi.ravel().tolist(), strict=True)
        given = as_box({name: domain.get(name, (low, high)) for name, low, high in ends})
        part = Box(given.lo.reshape(whole.shape), given.hi.reshape(whole.shape), whole.names)
    else:
        part = as_box(domain)
        _require(part.size == whole.size, f"a part of {whole!r} must have its shape", got=repr(part))
        part = Box(part.lo.reshape(whole.shape), part.hi.reshape(whole.shape), whole.names)
    inside = bool(((part.lo >= whole.lo) & (part.hi <= whole.hi)).all())
    _require(inside, f"a part of the domain must lie in {whole!r}", got=repr(part))
    claim = Claim.of_parts(net.network, part, net.output_shape, RESTRICTED, (net.certificate,))
    return replace(net, certificate=combine(claim).allowing(net.certificate.allowance))


def tightened(net: Compiled, time_limit: float | Deadline) -> Compiled:
    """The same network with the smaller of two bounds."""
    old, effort = net.certificate, Effort(Deadline.of(time_limit))
    try:
        new = certify(old.claim, None, norm=old.norm, seed=old.seed, effort=effort).allowing(old.allowance)
    except TimeLimitReached:
        return net
    better = new.status is old.status and new.bound < old.bound
    return replace(net, certificate=new) if better else net


def _product(net: Compiled, other: Compiled) -> Compiled:
    """By a network that multiplies the outputs of two others."""
    shape = _broadcast(net.output_shape, other.output_shape)
    inner, first, second = _operands(net, other, shape)
    reach, errors = _reach(inner), errors_of(inner.certificate)[:, -1]
    box, size = _roomy(reach), reach.magnitude
    passed = float((size[first] * errors[second] + size[second] * errors[first]).max())
    outer = _multiplier(product_formula(first, second, shape), box, max(SHARE * passed, 1e-300), net)
    return _behind(outer, inner, shape)


def _multiplier(formula: str, box: Box, eps: float, like: Compiled) -> Compiled:
    """A network for products that is proved, as precise as eps if the arithmetic allows that."""
    keywords: dict[str, Any] = {"construction": "circuit", "dtype": like.network.dtype, "seed": like.certificate.seed}
    while True:
        try:
            return compile(formula, box, eps, **keywords)
        except ToleranceNotMet as missed:
            if missed.best is not None and missed.best.certificate.proved:
                return missed.best
            if not eps < LARGEST:
                raise
        eps *= COARSER


def _operands(net: Compiled, other: Compiled, shape: tuple[int, ...]) -> tuple[Compiled, Integers, Integers]:
    """Both networks side by side, and which of the values is each one's value, (m,); a network twice is there once."""
    inner = net if other is net else _stacked([net, other])
    start = 0 if other is net else prod(net.output_shape)
    return inner, indices(net.output_shape, shape), start + indices(other.output_shape, shape)


def _affine(inner: Compiled, weight: Floats, constant: Floats, shape: tuple[int, ...]) -> Compiled:
    """An affine map of the values of a network, weight (k, m)."""
    box, dtype = _roomy(_reach(inner)), inner.network.dtype
    target = PiecewiseLinear([Stage.affine(weight, constant)], box, shape, "affine map")
    layer = Affine.tokenwise(round_to(weight, dtype), round_to(constant, dtype))
    certificate = certify(Claim.about(target, Network((layer,), 1, dtype)), inf, seed=inner.certificate.seed)
    return _behind(_made(certificate, "affine"), inner, shape)


def _stacked(nets: list[Compiled]) -> Compiled:
    """Networks of one input side by side."""
    _compatible(*nets)
    domain = _common_domain(nets[0].domain, nets[1].domain)
    parts = tuple(net.certificate for net in nets)
    network = joint_network(Stacked.kind, [net.network for net in nets])
    outputs = (sum(prod(net.output_shape) for net in nets),)
    certificate = combine(Claim.of_parts(network, domain, outputs, Stacked.kind, parts))
    return _made(certificate, MADE_OF_PARTS[Stacked.kind])


def _behind(outer: Compiled, inner: Compiled, shape: tuple[int, ...]) -> Compiled:
    """The outer network of the inner one's values, in the shape given."""
    _compatible(outer, inner)
    network = joint_network(Composed.kind, [outer.network, inner.network])
    parts = outer.certificate, inner.certificate
    certificate = combine(Claim.of_parts(network, inner.domain, shape, Composed.kind, parts))
    return replace(_made(certificate, MADE_OF_PARTS[Composed.kind]), outside=inner.outside)


def _made(certificate: Certificate, construction: str) -> Compiled:
    return Compiled(
        network=certificate.claim.network,
        certificate=certificate,
        construction=construction,
        eps=None,
        a_priori=certificate.bound,
        a_priori_proved=certificate.status is not Status.ESTIMATED,
        paper_tokens=None,
    )


def _compatible(*nets: Compiled) -> None:
    """One arithmetic, the sup norm."""
    dtypes = {net.network.dtype for net in nets}
    _require(
        len(dtypes) == 1,
        "networks can be combined if they run in one dtype",
        got=" and ".join(sorted(dtypes)),
        remedy="Compile them with the same dtype=.",
    )
    norms = {net.certificate.norm for net in nets}
    _require(
        norms == {inf},
        "networks can be combined if their certificates are in the sup norm",
        got=", ".join(f"L_{norm:g}" for norm in sorted(norms) if not isinf(norm)),
        remedy='Compile them with norm="inf".',
    )


def _common_domain(one: Box, other: Box) -> Box:
    """The domain of both; a name may be missing in one of them."""
    names = {box.names for box in (one, other) if box.names is not None}
    boxes = one.fills_box and other.fills_box
    same = one.tokens == other.tokens and len(names) <= 1
    same = same and bool((one.lo.ravel() == other.lo.ravel()).all() and (one.hi.ravel() == other.hi.ravel()).all())
    _require(
        one is other or (same and (boxes or one.as_dict() == other.as_dict())),
        "networks can be added and multiplied on one domain",
        got=f"{one!r} and {other!r}",
        remedy="Compile them on the same domain, or restrict() both to a box in common.",
    )
    return one if one.names is not None or other.names is None else other


def _reach(net: Compiled) -> Interval:
    """Where the values of network and target lie; where nothing is proved, about where they were found."""
    try:
        reach = reach_of(net.certificate.claim, errors_of(net.certificate)[:, -1])
    except Unanswerable:
        values = network_rows(net.network, net.domain.sample(SAMPLES, np.random.default_rng(net.certificate.seed)))
        low, high = values.min(axis=0), values.max(axis=0)
        reach = Interval(low - (high - low) / 2, high + (high - low) / 2)
    _require(
        bool(np.isfinite(reach.lo).all() and np.isfinite(reach.hi).all()),
        "the values of a network must be bounded for it to be combined",
        got=repr(net.certificate.claim.description),
    )
    return reach


def _roomy(reach: Interval) -> Box:
    """A box that surely holds the ranges (k,), with names for its axes."""
    room = ROOM * (reach.hi - reach.lo + np.abs(reach.lo) + np.abs(reach.hi)) + 1e-90
    return Box(reach.lo - room, reach.hi + room, [f"u{k}" for k in range(len(room))])


def _broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    try:
        shape = np.broadcast_shapes(one, other)
    except ValueError:
        shape = (0, 0, 0)
    _require(len(shape) <= 2 and prod(shape) > 0, "values must have shapes that fit together", got=f"{one} and {other}")
    return shape


def _spread(shape: tuple[int, ...], wider: tuple[int, ...]) -> Floats:
    """The same as a matrix (k, m) of zeros and ones."""
    return np.eye(prod(shape))[:, indices(shape, wider)]


def _numbers(value: Any) -> Floats:
    """A number or an array of numbers."""
    return real_array("what a network is combined with, if no network,", value, most=WIDEST)


def _require(holds: bool, constraint: str, *, got: str, remedy: str = "") -> None:
    if not holds:
        raise InputError(constraint, got=got, remedy=remedy)
