"""Compiled networks put together: compositions, sums, products, quotients and so on, with combined certificates.

Three things can be done with networks: put them side by side, put one behind the other, or take one on a part of its
domain (`proofs/rules/parts.py` says what is then known). Everything else is a composition: a sum is an affine map of
two networks side by side, a product, a quotient or a maximum a small network compiled for the ranges at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from math import inf, isinf, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .arguments import real_array
from .arithmetic import Interval
from .arithmetic.formats import FORMATS, round_to
from .calculus.derivatives import derivative_network
from .compiled import DERIVATIVE, MADE_OF_PARTS, Compiled
from .compiler import compile
from .domains.box import WIDEST, Box, as_box
from .errors import InputError, TimeLimitReached, ToleranceNotMet, shown
from .formula.circuits import Circuit
from .formula.writing import Spelled
from .network import Affine, Network
from .proofs import Certificate, Claim, Effort, certify, combine
from .proofs.naming import filled, indices, product_formula
from .proofs.rules.parts import RESTRICTED, errors_of, joint_network, reach_of, spelled
from .proofs.search import network_rows
from .resources.deadline import Deadline
from .targets import Antiderivative, Expression, PiecewiseLinear, Status, Target
from .targets.combined import Composed, Stacked
from .targets.continuity import modulus
from .targets.derivatives import derivative as derivative_of
from .targets.derivatives import formulas
from .targets.piecewise import Stage

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CombinationTuning:
    """How networks for operations are sized. What they cost is proved of the result."""

    share: float = 0.1
    """A network for a product, say, may add this fraction of what the errors of its operands cost. A round number: the
    error is then mostly that of the operands."""
    coarser: float = 4.0
    """Where that is out of reach, it may add so many times as much, and so on. By trial."""
    largest: float = 1e100
    """Beyond this error nothing is tried. A round number."""
    room: float = 2.0**-20
    """Outer networks are made for ranges that are wider by this fraction. A round number far above roundoff."""
    rounded: float = 2.0**16
    """Units of the largest value that rounding may cost a derivative before a proof looks further. A round number."""
    samples: int = 4096
    """Points that say where the values of an estimated network lie. A round number."""


TUNING = CombinationTuning()


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


def quotient(net: Any, other: Any) -> Compiled:
    """`net / other`, one of them perhaps numbers; the divisor must be proved to keep away from 0."""
    if not isinstance(other, Compiled):
        numbers = _numbers(other)
        _require(bool((numbers != 0).all()), "a divisor must not be zero", got=shown(other))
        with np.errstate(over="ignore"):
            return product(net, 1.0 / numbers)
    reach = _reach(other)
    _require(
        bool(((reach.lo > 0) | (reach.hi < 0)).all()),
        "a divisor and its network must be proved to be 0 nowhere",
        got=f"values in {spelled(reach)}",
        remedy="Compile the divisor with a smaller eps, or restrict() it.",
    )
    return applied("{0}/{1}", net, other)


def power(base: Any, exponent: Any) -> Compiled:
    """`base ** exponent`, one of them perhaps a number."""
    return applied("{0}**{1}", base, exponent)


def function(name: str, *operands: Any) -> Compiled:
    """A function of formulas, such as "tanh" or "max", of networks and numbers, value by value."""
    return applied(f"{name}({', '.join(f'{{{k}}}' for k in range(len(operands)))})", *operands)


def applied(pattern: str, *operands: Any) -> Compiled:
    """A formula of networks and numbers, value by value: `{0}` stands for the first of them, and so on."""
    given = [each if isinstance(each, Compiled) else _numbers(each) for each in operands]
    nets = list({id(each): each for each in given if isinstance(each, Compiled)}.values())
    shape = ()
    for each in given:
        shape = _broadcast(shape, each.output_shape if isinstance(each, Compiled) else each.shape)
    starts = dict(zip(map(id, nets), np.cumsum([0, *(prod(net.output_shape) for net in nets)]).tolist(), strict=False))
    columns = [
        [f"u{starts[id(each)] + k}" for k in indices(each.output_shape, shape)]
        if isinstance(each, Compiled)
        else [_written(number) for number in np.broadcast_to(each, shape).ravel().tolist()]
        for each in given
    ]
    texts = [pattern.format(*row) for row in zip(*columns, strict=True)]
    inner = nets[0] if len(nets) == 1 else _stacked(nets)
    reach, errors = _reach(inner), errors_of(inner.certificate)[:, -1]
    box = _roomy(reach)
    formula = texts[0] if shape == () else f"[{', '.join(texts)}]"
    target = Expression(formula, box)
    values = [f"{net.name}{place}" for net in nets for place in _places(net.output_shape)]
    words = filled(texts[0], {f"u{k}": name for k, name in enumerate(values)})
    passed = float(modulus(target, Interval(box.lo, box.hi), errors[None]).max())
    _require(
        passed < inf and bool(target.enclose(Interval(box.lo[None], box.hi[None])).defined.all()),
        f"{words} must be defined and bounded for all values of the networks",
        got=f"values in {spelled(reach)}",
        remedy="Restrict the networks, or shift them away from there.",
    )
    circuit = target.circuit()
    if circuit is not None and not circuit.units:  # max(u, v) where u is always below v, say
        weight, constant = _affine_map(circuit)
        return _affine(inner, weight, constant, shape, target)
    return _behind(_small(formula, box, max(TUNING.share * passed, 1e-300), nets[0]), inner, shape)


def _places(shape: tuple[int, ...]) -> list[str]:
    """What follows a network's name where one of its values is meant."""
    return [""] if shape == () else [f"[{', '.join(map(str, place))}]" for place in np.ndindex(shape)]


def _affine_map(circuit: Circuit) -> tuple[Floats, Floats]:
    """The weight (k, m) and constant (m,) of a circuit without units, to the rounding of its coefficients."""
    weight = np.zeros((circuit.inputs, len(circuit.outputs)))  # (k, m)
    for column, form in enumerate(circuit.outputs):
        for atom, coefficient in form.terms.items():
            weight[atom, column] = float(coefficient.mid)
    return weight, np.array([float(form.constant.mid) for form in circuit.outputs])


def derivative(net: Compiled, variable: str | None, eps: float | None, deadline: Deadline) -> Compiled:
    """The derivative of a network by one of its variables, or that of its target compiled anew."""
    axis = _axis(net.domain, variable)
    target = derivative_of(_at_hand(net), axis)
    network = derivative_network(net.network, target.domain, axis, net.output_shape)
    if network is None:
        return _anew(target, net, net.certificate.bound if eps is None else eps, deadline, accept=eps is None)
    certificate = certify(
        Claim.about(target, network),
        _attainable(target, network, net.certificate.seed) if eps is None else eps,
        norm=net.certificate.norm,
        proof=net.certificate.status is not Status.ESTIMATED,
        seed=net.certificate.seed,
        effort=Effort(deadline),
    )
    if eps is not None and certificate.bound > eps:
        return _anew(target, net, eps, deadline, accept=False)
    return replace(_made(certificate, DERIVATIVE), eps=eps, outside=net.outside)


def _attainable(target: Target, network: Network, seed: int) -> float:
    """A bound that a proof should reach soon: twice the error at points, and what rounding may cost."""
    rows = target.domain.sample(TUNING.samples, np.random.default_rng(seed))
    values = target.values(rows)
    found = float(np.abs(network_rows(network, rows) - values).max())
    return 2 * found + TUNING.rounded * FORMATS[network.dtype].unit * float(np.abs(values).max()) + 1e-300


def antiderivative(net: Compiled, eps: float | None, deadline: Deadline) -> Compiled:
    """The integral of the target from the lower end of its interval, compiled anew."""
    target, domain = _at_hand(net), net.domain
    single = domain.size == 1 and net.output_shape == ()
    _require(single, "an antiderivative needs one variable and one output", got=net.name)
    outputs = formulas(target, [Spelled(name) for name in domain.axes])
    if outputs is None:
        raise InputError(
            "a function must be a formula to have an antiderivative, or made of NumPy operations", got=net.name
        )
    whole = Antiderivative(Expression(outputs[0].text, domain.renamed(domain.axes)))
    length = float(domain.hi.ravel()[0] - domain.lo.ravel()[0])
    return _anew(whole, net, net.certificate.bound * length if eps is None else eps, deadline, accept=eps is None)


def _anew(target: Target, like: Compiled, eps: float, deadline: Deadline, *, accept: bool) -> Compiled:
    """A target compiled as another network was; with `accept` also where the tolerance is out of reach."""
    keywords: dict[str, Any] = {"dtype": like.network.dtype, "seed": like.certificate.seed, "outside": like.outside}
    proof = like.certificate.status is not Status.ESTIMATED
    try:
        return compile(target, target.domain, max(eps, 1e-300), time_limit=deadline, proof=proof, **keywords)
    except ToleranceNotMet as missed:
        if not accept or missed.best is None or (proof and not missed.best.certificate.proved):
            raise
        return missed.best


def _at_hand(net: Compiled) -> Target:
    """The target, on a box whose points are numbers or vectors."""
    target = net.certificate.claim.target
    if target is None:
        raise InputError(
            "the code of the target must be available",
            got=net.name,
            remedy="Compile it anew: its code is not in a file.",
        )
    plain = net.domain.kind == Box.kind and net.domain.lo.ndim < 2
    _require(plain, "the domain must be a box of numbers or vectors", got=repr(net.domain))
    return target


def _axis(domain: Box, variable: str | None) -> int:
    """Which coordinate a name stands for."""
    names = ", ".join(domain.shown_axes)
    if variable is None:
        _require(
            domain.size == 1,
            f"the variable must be named, one of {names}",
            got="none",
            remedy=f'Write diff("{domain.axes[0]}").',
        )
        return 0
    known = isinstance(variable, str) and variable in domain.axes
    _require(known, f"the variable must be one of {names}", got=shown(variable))
    return domain.axes.index(variable)


def _written(number: float) -> str:
    """A number in a formula: its exact digits."""
    return f"({Decimal(number)})" if number < 0 else f"{Decimal(number)}"


def restricted(net: Compiled, domain: object) -> Compiled:
    """The same network on a part of its box."""
    whole = net.domain
    _require(whole.fills_box, "a network that is restricted must be compiled on a box", got=repr(whole))
    if isinstance(domain, Mapping):
        unknown = [name for name in domain if name not in whole.axes]
        _require(not unknown, f"the variables of this network are {', '.join(whole.axes)}", got=shown(unknown))
        ends = zip(whole.axes, whole.lo.ravel().tolist(), whole.hi.ravel().tolist(), strict=True)
        given = as_box({name: domain.get(name, (low, high)) for name, low, high in ends})
        part = whole.resized(given.lo, given.hi)
    else:
        part = as_box(domain)
        _require(part.size == whole.size, f"a part of {whole!r} must have its shape", got=repr(part))
        part = whole.resized(part.lo, part.hi)
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
    outer = _small(product_formula(first, second, shape), box, max(TUNING.share * passed, 1e-300), net)
    return _behind(outer, inner, shape)


def _small(formula: str, box: Box, eps: float, like: Compiled) -> Compiled:
    """A network for products, say, that is proved, as precise as eps if the arithmetic allows that."""
    keywords: dict[str, Any] = {"construction": "circuit", "dtype": like.network.dtype, "seed": like.certificate.seed}
    while True:
        try:
            return compile(formula, box, eps, **keywords)
        except ToleranceNotMet as missed:
            if missed.best is not None and missed.best.certificate.proved:
                return missed.best
            if not eps < TUNING.largest:
                raise
        eps *= TUNING.coarser


def _operands(net: Compiled, other: Compiled, shape: tuple[int, ...]) -> tuple[Compiled, Integers, Integers]:
    """Both networks side by side, and which of the values is each one's value, (m,); a network twice is there once."""
    inner = net if other is net else _stacked([net, other])
    start = 0 if other is net else prod(net.output_shape)
    return inner, indices(net.output_shape, shape), start + indices(other.output_shape, shape)


def _affine(
    inner: Compiled, weight: Floats, constant: Floats, shape: tuple[int, ...], target: Target | None = None
) -> Compiled:
    """An affine map of the values of a network, weight (k, m), certified for a target that it stands for."""
    dtype = inner.network.dtype
    if target is None:
        target = PiecewiseLinear([Stage.affine(weight, constant)], _roomy(_reach(inner)), shape, "affine map")
    layer = Affine.tokenwise(round_to(weight, dtype), round_to(constant, dtype))
    certificate = certify(Claim.about(target, Network((layer,), 1, dtype)), inf, seed=inner.certificate.seed)
    return _behind(_made(certificate, "affine"), inner, shape)


def _stacked(nets: list[Compiled]) -> Compiled:
    """Networks of one input side by side."""
    _compatible(*nets)
    domain = reduce(_common_domain, [net.domain for net in nets])
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
        "networks that are combined must have the same dtype",
        got=" and ".join(sorted(dtypes)),
        remedy="Compile them with the same dtype=.",
    )
    norms = {net.certificate.norm for net in nets}
    _require(
        norms == {inf},
        "networks that are combined must have certificates in the sup norm",
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
        "networks that are added or multiplied must have the same domain",
        got=f"{one!r} and {other!r}",
        remedy="Compile them on the same domain, or restrict() both to a box in common.",
    )
    return one if one.names is not None or other.names is None else other


def _reach(net: Compiled) -> Interval:
    """Where the values of network and target lie; where nothing is proved, about where they were found."""
    target = net.certificate.claim.target
    if target is None or target.enclosable:
        reach = reach_of(net.certificate.claim, errors_of(net.certificate)[:, -1])
    else:
        values = network_rows(
            net.network, net.domain.sample(TUNING.samples, np.random.default_rng(net.certificate.seed))
        )
        low, high = values.min(axis=0), values.max(axis=0)
        reach = _widened(low, high, (high - low) / 2)
    _require(
        bool(np.isfinite(reach.lo).all() and np.isfinite(reach.hi).all()),
        "the values of a network must be bounded for it to be combined",
        got=repr(net.certificate.claim.description),
    )
    return reach


def _roomy(reach: Interval) -> Box:
    """A box that surely holds the ranges (k,), with names for its axes."""
    room = TUNING.room * (reach.hi - reach.lo + np.abs(reach.lo) + np.abs(reach.hi)) + 1e-90
    wide = _widened(reach.lo, reach.hi, room)
    return Box(wide.lo, wide.hi, [f"u{k}" for k in range(len(room))])


def _widened(low: Floats, high: Floats, room: Floats) -> Interval:
    """Ranges (k,) with room on both sides; those of one sign keep it."""
    return Interval(
        np.where(low > 0, np.maximum(low - room, low / 2), low - room),
        np.where(high < 0, np.minimum(high + room, high / 2), high + room),
    )


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
