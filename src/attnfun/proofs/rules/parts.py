"""Certificates of networks made of networks, from those of the parts [T 11.7].

The claim names its parts, outermost first. Its network must be the one that `network/joining.py` makes of theirs, bit
for bit; there every part computes what it computes alone, so what is proved of the parts holds inside:

- *stacked*: each output has the error of its part;
- *restricted*: what holds on a domain holds on a part of it;
- *composed*: let `|f - net_1| <= e` on the domain, in deployed arithmetic, output by output, and let `f(x) ± e` lie in
  the domain of g for all x. Then `net_1(x)`, rounded as it is, is a point where the certificate of net_2 holds, and

      |g(f(x)) - net_2(net_1(x))| <= |g(f(x)) - g(net_1(x))| + |g(net_1(x)) - net_2(net_1(x))| <= ω(e) + e_2,

  ω the modulus of continuity of g on the range of f widened by e (`targets/continuity.py`), and e_2 without what
  rounding the input costs: `net_1(x)` is what net_2 reads.

The construction part is the same in real arithmetic. The parts of e are counted in an order in which each holds where
the later ones are absent, because ω need not be additive: with c, r, i for construction, rounding and input, ω(c)
belongs to the construction, `ω(c + r) - ω(c)` to rounding and `ω(e) - ω(c + r)` to the input. So construction and
rounding together hold where the input is exact, as they must where the composition is the outer part of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from math import isinf
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...arithmetic import Interval
from ...arithmetic.directed import above, below, rounded_up, sum_error
from ...domains.box import Box
from ...errors import InputError, ProofFailed
from ...network import Network
from ...network.joining import in_series, side_by_side
from ...targets.combined import Composed, Stacked
from ...targets.continuity import modulus, range_of
from ..claim import EDGE_ASSUMPTION, Claim
from ..proof import PARTS, Conclusion, Proof, refuse_proof
from ..rewriting import with_banks
from ..search import corners, network_rows
from .structure import whole

if TYPE_CHECKING:
    from ..certificate import Certificate

Floats = npt.NDArray[np.float64]

NAME = "parts"
RESTRICTED = "restricted"
SAMPLES = 4096
"""Points at which an estimate looks at the values of an inner network."""


def joint_network(kind: str, parts: list[Network]) -> Network:
    """The network of a combination."""
    if kind == Stacked.kind:
        return side_by_side([with_banks(part) for part in parts])
    return in_series(*parts) if kind == Composed.kind else parts[0]


def from_certificates(claim: Claim, norm: float) -> Conclusion:
    """A bound from the certificates of the parts as they are."""
    return concluded(claim, norm, [errors_of(part) for part in claim.parts], [_sure(part) for part in claim.parts])


def concluded(claim: Claim, norm: float, errors: list[Floats], defined: list[bool]) -> Conclusion:
    """A bound from those on the parts' outputs, (m, 4) each, and whether their targets are surely defined."""
    _refuse_misfits(claim, norm)
    composed = claim.description["kind"] == Composed.kind
    rows = _through(claim, *errors) if composed else np.concatenate(errors)  # (m, 4)
    largest = rows.max(axis=0)
    parts = {name: float(part) for name, part in zip(PARTS, largest, strict=False)}
    return Conclusion(float(largest[-1]), parts, all(defined), whole(claim.imitated))


def from_premises(claim: Claim, proof: Proof, norm: float, check: Callable[[Proof, Claim], Conclusion]) -> Conclusion:
    """A bound from proofs of the parts."""
    if len(proof.premises) != len(claim.parts) or not claim.parts:
        raise refuse_proof(NAME, f"must have a premise for each of {len(claim.parts)} parts", len(proof.premises))
    known = [
        _outputs(part.claim, premise, norm, check) for part, premise in zip(claim.parts, proof.premises, strict=True)
    ]
    for part, (rows, _) in zip(claim.parts, known, strict=True):
        if not part.states(float(rows[:, -1].max())):
            raise refuse_proof(NAME, f"must prove what its parts state, {part.bound:.6g} here", rows[:, -1].max())
    return concluded(claim, norm, [rows for rows, _ in known], [sure for _, sure in known])


def _outputs(
    claim: Claim, proof: Proof, norm: float, check: Callable[[Proof, Claim], Conclusion]
) -> tuple[Floats, bool]:
    """Bounds on the parts of each output's error and their sum, (m, 4); networks side by side keep their own."""
    if proof.rule == NAME and claim.parts and claim.description["kind"] == Stacked.kind:
        conclusion = check(proof, claim)  # refuses what does not fit
        pairs = zip(claim.parts, proof.premises, strict=True)
        inner = [_outputs(part.claim, premise, norm, check) for part, premise in pairs]
        return np.concatenate([rows for rows, _ in inner]), conclusion.defined
    conclusion = check(proof, claim)
    return _rows(claim, conclusion.parts, conclusion.bound), conclusion.defined


def _refuse_misfits(claim: Claim, norm: float) -> None:
    """Do the parts say anything about this network, on this domain, in this arithmetic and norm?"""
    kind, parts = claim.description["kind"], claim.parts
    networks = [part.claim.network for part in parts]
    whole = claim.parts[1:] if kind == Composed.kind else parts  # those that read the input itself
    same_norm = all(part.norm == norm for part in parts) and (isinf(norm) or kind == RESTRICTED)
    for holds, got in (
        (all(network.dtype == claim.network.dtype for network in networks), "another dtype"),
        (same_norm, "another norm"),
        (all(_within(claim.domain, part.claim.domain) for part in whole), "another domain"),
        (_same(claim.network, joint_network(kind, networks)), "other weights"),
    ):
        if not holds:
            raise ProofFailed("a combined network must consist of its parts", got=got)


def _within(domain: Box, whole: Box) -> bool:
    """Is a domain surely a part of another one?"""
    if domain is whole:
        return True
    if domain.fills_box and whole.fills_box:
        return bool((domain.lo.ravel() >= whole.lo.ravel()).all() and (domain.hi.ravel() <= whole.hi.ravel()).all())
    return domain.kind == whole.kind and domain.as_dict() == whole.as_dict()


def errors_of(certificate: Certificate) -> Floats:
    """Bounds on the three parts of each output's error, and on their sum, (m, 4)."""
    claim = certificate.claim
    if claim.parts and claim.description["kind"] == Stacked.kind:
        return np.concatenate([errors_of(part) for part in claim.parts])
    bound = certificate.bound
    total = bound - certificate.allowance + sum_error(bound, 4)  # fast evaluation is for the whole
    return _rows(claim, certificate.parts, total)


def _rows(claim: Claim, parts: Mapping[str, float], total: float) -> Floats:
    """The same bounds for each output, (m, 4)."""
    return np.tile([*(parts.get(name, 0.0) for name in PARTS), total], (int(np.prod(claim.output_shape)), 1))


def _sure(certificate: Certificate) -> bool:
    """Was the target proved to be defined on the whole domain?"""
    return EDGE_ASSUMPTION not in certificate.assumptions


def reach_of(claim: Claim, off: Floats, within: Box | None = None) -> Interval:
    """Where the values of target and network lie, in deployed arithmetic, the errors being at most `off`; (m,)."""
    room = None
    if within is not None:
        low, high = within.lo.ravel() + off, within.hi.ravel() - off
        margin = sum_error(np.abs(within.lo.ravel()) + np.abs(within.hi.ravel()) + off, 4)
        room = Interval(low + margin, high - margin)
    range_ = range_of(claim.imitated, room)
    return Interval(below(range_.lo - off), above(range_.hi + off))


def _through(claim: Claim, own: Floats, errors: Floats) -> Floats:
    """The errors of a composition (m, 4), from those of the outer network (m, 4) and of the inner one (k, 4)."""
    outer, inner = (part.claim for part in claim.parts)
    domain = outer.domain
    reach = reach_of(inner, errors[:, -1], domain)
    if not _inside(reach, domain):
        reach = reach_of(inner, errors[:, -1])  # closer, whether or not it lies in the domain: for the words
        if not _inside(reach, domain):
            raise outside(domain, reach, "proved")
    rounded = np.minimum(above(errors[:, 0] + errors[:, 2]), errors[:, -1])  # where the input is exact, (k,)
    moved = np.stack([errors[:, 0], rounded, errors[:, -1]])  # (3, k)
    exact, by_rounding, deployed = modulus(outer.imitated, reach, moved)  # (m,) each
    by_rounding = np.maximum(by_rounding, exact)
    construction, rounding = own[:, 0] + exact, own[:, 2] + (by_rounding - exact)
    total = np.minimum(own[:, -1], own[:, 0] + own[:, 2]) + deployed
    return rounded_up(np.stack([construction, np.maximum(deployed - by_rounding, 0.0), rounding, total], axis=1), 3)


def _inside(reach: Interval, domain: Box) -> bool:
    """Do intervals (m,) lie in a box?"""
    plain = domain.fills_box
    return plain and bool(((reach.lo >= domain.lo.ravel()) & (reach.hi <= domain.hi.ravel())).all())


def refuse_values_outside(claim: Claim, seed: int) -> None:
    """Where nothing is proved: no value found of the inner network may lie outside of the outer domain."""
    if claim.description["kind"] != Composed.kind:
        return
    domain, inner = claim.parts[0].claim.domain, claim.parts[1].claim
    rows = np.vstack([corners(inner.domain), inner.domain.sample(SAMPLES, np.random.default_rng(seed))])
    values = network_rows(inner.network, rows[inner.domain.contains(rows)])
    if not domain.contains(values).all():
        raise outside(domain, Interval(values.min(axis=0), values.max(axis=0)), "found")


def outside(domain: Box, reach: Interval, how: str) -> InputError:
    """The error for values that need not lie in the outer domain."""
    return InputError(
        f"the values of the inner network must lie in the domain of the outer one, {domain!r}",
        got=f"values {how} to lie in {spelled(reach)}",
        remedy="Compile the outer network on a box that holds these, or restrict the inner one.",
    )


def spelled(reach: Interval) -> str:
    """Intervals (m,) in words, ends rounded outwards."""
    ends = zip(_outwards(reach.lo, -1.0), _outwards(reach.hi, 1.0), strict=True)
    return " x ".join(f"[{low:.6g}, {high:.6g}]" for low, high in ends)


def _outwards(ends: Floats, sign: float) -> Floats:
    """Numbers that six digits show, none of them inside of `ends`."""
    return np.array([float(f"{end + sign * abs(end) * 1e-5:.6g}") for end in ends])


def _same(one: Network, other: Network) -> bool:
    """Equal to the last bit?"""
    if (len(one.layers), one.length, one.dtype) != (len(other.layers), other.length, other.dtype):
        return False
    pairs = zip(one.layers, other.layers, strict=True)
    return all(
        type(a) is type(b) and all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
        for a, b in pairs
    )
