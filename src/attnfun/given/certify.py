"""Prove something about a network that was given: ranges of outputs, its error, its distance from another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, isnan
from typing import Any

import numpy as np

from ..arguments import as_float, real_number, whole_number
from ..compiled import Compiled
from ..domains.box import Box, as_box
from ..errors import InputError, ProofFailed, SoundnessError, shown
from ..network import Network
from ..proofs import Certificate, Claim, Effort
from ..proofs import certify as certified
from ..proofs.claim import EDGE_ASSUMPTION
from ..resources.deadline import TIME_LIMIT, Deadline
from ..targets import Status, Target, as_target
from ..targets.expression import LIBRARY_ASSUMPTION, Expression
from ..targets.readers.graph import Graph
from .certificate import Closest, NetworkCertificate, Ranges
from .claim import DIFFERENCE, ERROR, OUTPUTS, NetworkClaim, both_ways
from .forms import Floats
from .machine import Machine
from .problems import Quantities, defined_everywhere, difference_of, error_of, outputs_of, surely
from .reading import EXACT, Given, arithmetic_of, read
from .search import SearchOutcome, explore, search

WITHIN = 1.05
"""A bound is small enough if it is within this factor of what was found."""
TOLERANCE = 0.05
"""Ranges are close enough if they exceed what was found by this fraction of its width, on either side."""

PLAIN = {"input", "constant", "linear", "matmul", "add", "subtract", "multiply", "divide", "scale", "shift", "relu"} | {
    "leaky_relu", "clip", "abs", "square", "reciprocal", "sqrt", "sum", "mean", "max", "reshape", "transpose", "concat",
    "gather", "normalise",
}  # fmt: skip
"""Operations that are enclosed without a library's elementary functions."""


def ranges(
    network: object,
    box: object,
    *,
    dtype: object = None,
    tolerance: float = TOLERANCE,
    time_limit: float | Deadline = TIME_LIMIT,
    seed: int = 0,
) -> Ranges:
    """Enclosures of all outputs of a network over a box of inputs, in its own arithmetic.

    With up to 16 variables the box is cut until the ranges exceed those found at points by at most `tolerance` of their
    width, or the time is over. `dtype` may name another number format; "exact" stands for real arithmetic.
    """
    domain, deadline, seed = as_box(box), Deadline.of(time_limit), whole_number("seed", seed, 0)
    share = real_number("tolerance", tolerance, least=0.0)
    given = read(network, domain)
    machine = Machine.of(arithmetic_of(given, dtype))
    problem = outputs_of(given.graph, machine)
    count = problem.numbers

    def goal(bounds: Floats, found: Floats) -> Floats:
        return found + share * np.tile(found[:count] + found[count:], 2)

    outcome = search(problem, domain.lo.ravel(), domain.hi.ravel(), goal, deadline, seed=seed)
    _refuse_unbounded(outcome, domain)
    shape = given.graph.output_shape
    reached = _reached(problem, outcome, float(outcome.bounds.max()))
    claim = NetworkClaim(OUTPUTS, (given.graph,), domain, _named(machine), *both_ways(count), outcome.bounds)
    certificate = _issued("largest absolute output", given, machine, domain, outcome, reached, claim)
    return Ranges(
        -outcome.bounds[count:].reshape(shape),
        outcome.bounds[:count].reshape(shape),
        -outcome.found[count:].reshape(shape),
        outcome.found[:count].reshape(shape),
        certificate,
    )


def compare(
    a: object,
    b: object,
    domain: object,
    *,
    eps: float | None = None,
    dtype: object = None,
    time_limit: float | Deadline = TIME_LIMIT,
    seed: int = 0,
) -> NetworkCertificate:
    """The largest difference between the outputs of two networks over a domain. Both run in the same dtype.

    With `eps` the work stops as soon as the bound is at most eps. If that cannot be proved, ProofFailed has the box and
    the point that came closest.
    """
    box, deadline, seed = as_box(domain), Deadline.of(time_limit), whole_number("seed", seed, 0)
    first, second = read(a, box), read(b, box)
    return _compared(first, second, box, _tolerance(eps), dtype, deadline, seed)


def certify(
    network: object,
    target: object = None,
    domain: object = None,
    *,
    requirement: Mapping[Any, Any] | None = None,
    eps: float | None = None,
    dtype: object = None,
    time_limit: float | Deadline = TIME_LIMIT,
    seed: int = 0,
) -> Certificate | NetworkCertificate:
    """The largest error of a network against a formula, a function or another network; or a requirement on its outputs.

    `requirement` is a dict: `{i: (lo, hi)}` requires output i to lie in [lo, hi], `{(i, j): m}` requires output i to
    exceed output j by at least m. If `eps` or a requirement cannot be proved, ProofFailed has the box and the point
    that came closest, and says whether the point is a counterexample. Compiled networks, and modules that `to_torch`
    made, get a certificate with a proof that can be checked again.
    """
    if domain is None:
        raise InputError("a domain must be given", remedy='Pass domain={"x": (-1, 1)}, say.')
    box, deadline, tolerance = as_box(domain), Deadline.of(time_limit), _tolerance(eps)
    seed = whole_number("seed", seed, 0)
    if (target is None) == (requirement is None):
        raise InputError("either a target or a requirement must be given", got="both" if requirement else "neither")
    given = read(network, box)
    if requirement is not None:
        return _required(given, requirement, box, dtype, deadline, seed)
    if _is_network(target):
        return _compared(given, read(target, box), box, tolerance, dtype, deadline, seed)
    wanted = as_target(target, box)
    own = dtype is None or (isinstance(dtype, str) and dtype == given.dtype)
    if given.network is not None and own:
        return _as_compiled(given, wanted, tolerance, deadline, seed)
    return _against(given, wanted, box, tolerance, dtype, deadline, seed)


def _tolerance(eps: float | None) -> float | None:
    return None if eps is None else real_number("eps", eps, least=0.0)


def _is_network(target: object) -> bool:
    """Is it something that is read rather than a formula or a function?"""
    if isinstance(target, Target):
        return False
    if isinstance(target, Compiled | Network) or str(target).endswith((".onnx", ".safetensors")):
        return True
    origins = {kind.__module__.split(".")[0] for kind in type(target).__mro__}
    return not isinstance(target, str) and bool(origins & {"torch", "sklearn"})


def _as_compiled(given: Given, target: Target, eps: float | None, deadline: Deadline, seed: int) -> Certificate:
    """By the provers of compiled networks, which know attention's structure."""
    assert given.network is not None  # noqa: S101 - the caller has seen it
    claim = Claim.about(target, given.network)
    certificate = certified(claim, eps, seed=seed, effort=Effort(deadline))
    if eps is not None and not certificate.bound <= eps:
        raise ProofFailed(
            f"the error must be proved to be at most {eps:g}",
            got=f"{certificate.headline}, {certificate.found:.6g} at points",
            remedy="Allow a larger eps or more time: time_limit=.",
        )
    return certificate


def _compared(
    first: Given, second: Given, box: Box, eps: float | None, dtype: object, deadline: Deadline, seed: int
) -> NetworkCertificate:
    arithmetics = {arithmetic_of(each, dtype) for each in (first, second)}
    shapes = {each.graph.output_shape for each in (first, second)}
    if len({int(np.prod(shape)) for shape in shapes}) > 1:
        raise InputError("networks must have the same number of outputs to be compared", got=f"{sorted(shapes)}")
    if len(arithmetics) > 1:
        raise InputError(
            "networks must have the same dtype to be compared",
            got=" and ".join(sorted(map(str, arithmetics))),
            remedy='Name one: dtype="float32", or dtype="exact".',
        )
    machine = Machine.of(arithmetics.pop())
    both = replace(
        first, name=f"{first.name} and {second.name}", assumptions=_once(first.assumptions, second.assumptions)
    )
    problem = difference_of(first.graph, second.graph, machine)
    claimed = _Claimed(DIFFERENCE, (first.graph, second.graph))
    return _bounded(claimed, problem, both, machine, box, eps, deadline, seed)


@dataclass(frozen=True)
class _Claimed:
    """What is bounded: the quantity, the graphs, the formula if there is one, and what is taken for granted beside."""

    quantity: str
    graphs: tuple[Graph, ...]
    formula: str | None = None
    assumptions: tuple[str, ...] = ()
    status: Status = Status.PROVED


def _once(*lists: tuple[str, ...]) -> tuple[str, ...]:
    """All lines, each once."""
    return tuple(dict.fromkeys(line for lines in lists for line in lines))


def _against(
    given: Given, target: Target, box: Box, eps: float | None, dtype: object, deadline: Deadline, seed: int
) -> NetworkCertificate:
    if target.outputs != int(np.prod(given.graph.output_shape)):
        raise InputError(
            f"the target must have as many outputs as the network, {int(np.prod(given.graph.output_shape))}",
            got=target.outputs,
        )
    machine = Machine.of(arithmetic_of(given, dtype))
    problem = error_of(given.graph, target, machine)
    if target.status is Status.ESTIMATED:
        return _estimated(problem, given, machine, target, box, seed)
    edges = () if defined_everywhere(target, box) else (EDGE_ASSUMPTION,)
    status = Status.weakest([target.status, *(Status.CONDITIONAL for _ in edges)])
    lines = (*target.assumptions, *edges)
    text = target.text if isinstance(target, Expression) else None
    claimed = _Claimed(ERROR, (given.graph,), text, lines, status)
    return _bounded(claimed, problem, given, machine, box, eps, deadline, seed)


def _estimated(
    problem: Quantities, given: Given, machine: Machine, target: Target, box: Box, seed: int
) -> NetworkCertificate:
    """A target of which nothing but values are known: the largest error at points."""
    found, places = explore(problem, box.lo.ravel(), box.hi.ravel(), seed)
    place = int(found.argmax())
    return NetworkCertificate(
        "error", float(found[place]), Status.ESTIMATED, target.assumptions, _named(machine), box, float(found[place]),
        places[place].reshape(box.shape), 0,
    )  # fmt: skip


def _bounded(
    claimed: _Claimed,
    problem: Quantities,
    given: Given,
    machine: Machine,
    box: Box,
    eps: float | None,
    deadline: Deadline,
    seed: int,
) -> NetworkCertificate:
    """The largest absolute value of the numbers of a problem; ProofFailed if it is not at most eps."""

    def goal(bounds: Floats, found: Floats) -> Floats:
        enough = WITHIN * float(found.max()) if eps is None else eps
        return np.full(problem.quantities, max(enough, 0.0))

    refuted = None if eps is None else _refuting(problem, eps)
    outcome = search(problem, box.lo.ravel(), box.hi.ravel(), goal, deadline, refuted=refuted, seed=seed)
    bound = float(outcome.bounds.max())
    value, point = _reached(problem, outcome, bound)
    reached = max(value, 0.0), point  # sizes are bounded
    if eps is not None and not bound <= eps:
        raise _failed(f"the {claimed.quantity} must be proved to be at most {eps:g}", outcome, reached, eps, box)
    _refuse_unbounded(outcome, box)
    bounds = np.full(problem.quantities, bound)
    ways = both_ways(problem.numbers)
    claim = NetworkClaim(claimed.quantity, claimed.graphs, box, _named(machine), *ways, bounds, claimed.formula)
    return _issued(
        f"largest {claimed.quantity}", given, machine, box, outcome, reached, claim, claimed.assumptions, claimed.status
    )


def _refuting(problem: Quantities, limit: float) -> Callable[[Floats, Floats], bool]:
    """Does one of the points surely exceed the limit?"""

    def refuted(found: Floats, points: Floats) -> bool:
        place = int(found.argmax())
        return bool(found[place] > limit and surely(problem, points[place])[place] > limit)

    return refuted


def _required(
    given: Given, requirement: Mapping[Any, Any], box: Box, dtype: object, deadline: Deadline, seed: int
) -> NetworkCertificate:
    """Every condition on the outputs as an affine quantity that may not exceed zero."""
    machine, count = Machine.of(arithmetic_of(given, dtype)), int(np.prod(given.graph.output_shape))
    if not isinstance(requirement, Mapping):
        raise InputError("a requirement must be a dict", got=shown(requirement), remedy="As {0: (-1, 1)}.")
    matrix, offset = _conditions(requirement, count)
    problem = outputs_of(given.graph, machine, matrix, offset)

    def goal(bounds: Floats, found: Floats) -> Floats:
        return np.zeros(problem.quantities)

    refuted = _refuting(problem, 0.0)
    outcome = search(problem, box.lo.ravel(), box.hi.ravel(), goal, deadline, refuted=refuted, seed=seed)
    reached = _reached(problem, outcome, float(outcome.bounds.max()))
    if not outcome.bounds.max() <= 0:
        raise _failed("the requirement must be proved on the whole domain", outcome, reached, 0.0, box)
    claim = NetworkClaim(OUTPUTS, (given.graph,), box, _named(machine), matrix, offset, np.zeros(len(offset)))
    return _issued("largest excess over the requirement", given, machine, box, outcome, reached, claim)


def _conditions(requirement: Mapping[Any, Any], count: int) -> tuple[Floats, Floats]:
    """Columns (m, Q) and offsets (Q,) of quantities that must not exceed zero."""
    columns, offsets = list[Floats](), list[float]()
    ones = np.eye(count)

    def output(number: Any) -> Floats:
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 <= number < count:
            raise InputError(f"a requirement must name outputs from 0 to {count - 1}", got=shown(number))
        return ones[int(number)]

    for key, value in requirement.items():
        if isinstance(key, tuple):
            if len(key) != 2:
                raise InputError("a requirement on two outputs must name a pair (i, j)", got=shown(key))
            columns.append(output(key[1]) - output(key[0]))
            offsets.append(real_number("the margin of a requirement", value))
            continue
        low, high = _interval(value)
        if high < inf:
            columns.append(output(key))
            offsets.append(-high)
        if low > -inf:
            columns.append(-output(key))
            offsets.append(low)
    if not columns:
        raise InputError("a requirement must hold a condition", got=shown(requirement), remedy="As {0: (-1, 1)}.")
    return np.array(columns).T, np.array(offsets)


def _interval(value: Any) -> tuple[float, float]:
    """The ends of an interval; None for one that is open."""
    try:
        low, high = value
    except (TypeError, ValueError):
        low = high = inf
    ends = (-inf if low is None else as_float(low), inf if high is None else as_float(high))
    if isnan(ends[0]) or isnan(ends[1]) or not ends[0] <= ends[1] or ends[0] == inf or ends[1] == -inf:
        raise InputError("the interval of an output must be a pair (lo, hi) with lo <= hi", got=shown(value))
    return ends


def _reached(problem: Quantities, outcome: SearchOutcome, bound: float) -> tuple[float, Floats]:
    """The largest value that a point surely has, and the point; an error if it contradicts what was proved."""
    place = int(outcome.found.argmax())
    point = outcome.points[place]
    least = surely(problem, point)
    beaten = least > outcome.bounds
    if beaten.any():
        raise SoundnessError("a bound must hold at every point", got=f"more than {bound!r} at {point.tolist()}")
    return float(np.where(np.isfinite(least), least, -inf).max()), point


def _failed(
    constraint: str, outcome: SearchOutcome, reached: tuple[float, Floats], limit: float, box: Box
) -> ProofFailed:
    value, point = reached
    low, high = outcome.worst
    part = Box(low.reshape(box.shape), high.reshape(box.shape), box.names) if (low < high).all() else None
    closest = Closest(part, point.reshape(box.shape), value, value > limit)
    said = "a counterexample" if closest.counterexample else "no counterexample is known"
    stopped = f"; {outcome.stopped}" if outcome.stopped else ""
    return ProofFailed(
        constraint,
        got=f"{float(outcome.bounds.max()):.6g}; {said}: {value:.6g} at x = {point.tolist()}{stopped}",
        remedy="" if closest.counterexample else "Allow more time: time_limit=, or take a smaller domain.",
        closest=closest,
    )


def _refuse_unbounded(outcome: SearchOutcome, box: Box) -> None:
    if np.isfinite(outcome.bounds).all():
        return
    low, high = outcome.worst
    raise ProofFailed(
        "a bound must be finite",
        got=f"infinity on the box from {low.tolist()} to {high.tolist()}",
        remedy='Take a smaller domain, allow more time, or real arithmetic: dtype="exact".',
    )


def _named(machine: Machine) -> str:
    return EXACT if machine.format is None else machine.format.name


def _issued(
    quantity: str,
    given: Given,
    machine: Machine,
    box: Box,
    outcome: SearchOutcome,
    reached: tuple[float, Floats],
    claim: NetworkClaim,
    claimed: tuple[str, ...] = (),
    status: Status = Status.PROVED,
) -> NetworkCertificate:
    library = () if all(node.operation in PLAIN for node in given.graph.nodes) else (LIBRARY_ASSUMPTION,)
    return NetworkCertificate(
        quantity=quantity,
        bound=float(outcome.bounds.max()),
        status=status,
        assumptions=_once(given.assumptions, claimed, library, machine.assumptions),
        dtype=_named(machine),
        domain=box,
        found=reached[0],
        point=reached[1].reshape(box.shape),
        boxes=outcome.boxes,
        stopped=outcome.stopped,
        claim=claim,
    )
