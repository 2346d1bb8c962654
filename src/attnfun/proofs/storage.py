"""Certificates in files: what is claimed, network and target included, and the certificates of parts.

Tensors are named by where they belong: `layers.0.right` is of the network, `target.w` of the target, and
`parts.1.layers.0.right` of the network of the second part; `proof.axes` is of the proof. Proofs are optional. That of a
network made of others has the proofs of its parts as premises, which are stored with those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, isinf, prod
from sys import float_info
from typing import Any

import numpy as np
import numpy.typing as npt

from ..domains.box import Box
from ..errors import FileFormatError
from ..network import Network, storage
from ..network.fields import Fields, shown
from ..network.storage import Tensors, ends_of
from ..targets import Antiderivative, CellValues, Status, restore
from ..targets.callables import BlackBox, Traced
from ..targets.combined import Composed, Stacked, joined
from ..targets.fitted import LOSSES, FittedModel
from ..targets.readers import NetworkFunction, says_how_it_runs
from ..targets.samples import HELD_OUT, described, says_what_was_measured
from .certificate import Certificate
from .certify import assumptions_of
from .claim import EDGE_ASSUMPTION, Claim
from .proof import PARTS, Proof
from .rules.parts import NAME as PARTS_RULE
from .rules.parts import RESTRICTED
from .search import says_worth, stated_points


def pack(certificate: Certificate, *, proof: bool = True) -> tuple[Tensors, dict[str, Any]]:
    """Tensors and a JSON-ready description, with the proof unless it is to be left out."""
    claim = certificate.claim
    tensors, network = storage.pack(claim.network)
    if claim.samples is not None:
        tensors["samples.points"], tensors["samples.values"] = claim.samples
    if claim.target is not None and not claim.parts:
        tensors |= {f"target.{name}": array for name, array in claim.target.arrays().items()}
    parts = [pack(part, proof=proof) for part in claim.parts]
    for number, (inner, _) in enumerate(parts):
        tensors |= {f"parts.{number}.{name}": tensor for name, tensor in inner.items()}
    kept = certificate.proof if proof else None
    if kept is not None and kept.rule == PARTS_RULE:
        kept = Proof(PARTS_RULE)
    tensors |= {} if kept is None else kept.tensors()
    return tensors, {
        "network": network,
        "domain": claim.domain.as_dict(),
        "output_shape": list(claim.output_shape),
        "target": claim.description,
        "certificate": certificate.as_dict(),
        **({"parts": [description for _, description in parts]} if parts else {}),
        **({} if kept is None else {"proof": kept.as_dict()}),
    }


def unpack(tensors: Tensors, data: object, place: str = "") -> Certificate:
    """The certificate again, with its claim. What follows from the rest is worked out and not read: the dtype, the
    words of the statement, what is assumed, names of what is made of parts. What contradicts the rest is refused."""
    given = Fields(data, place)
    network = storage.unpack(tensors, given.inner("network").data)
    domain, output_shape = ends_of(network, given)
    description = _description(given.inner("target"), domain, output_shape)
    if description["kind"] in COMBINED:
        numbers = range(len(given.entries("parts")))
        inner = zip(numbers, given.each("parts", Fields.inner), strict=True)
        parts = tuple(unpack(_below(tensors, f"parts.{k}."), part.data, part.place) for k, part in inner)
        if COMBINED[description["kind"]] not in (len(parts), None) or not parts:
            raise FileFormatError(f"a {description['kind']} network must have its parts", got=len(parts))
        claim = Claim.of_parts(network, domain, output_shape, description["kind"], parts)
    else:
        claim = _claim(network, domain, output_shape, description, tensors)
    return replace(_certificate(given.inner("certificate"), claim), proof=_proof(given, claim, tensors))


def _proof(given: Fields, claim: Claim, tensors: Tensors) -> Proof | None:
    """The stored proof, if there is one; nobody believes it yet."""
    if given.data.get("proof") is None:
        return None
    proof = Proof.restored(given.data["proof"], tensors)
    if proof.rule != PARTS_RULE:
        return proof
    premises = [part.proof for part in claim.parts if part.proof is not None]
    return Proof(PARTS_RULE, {}, tuple(premises)) if len(premises) == len(claim.parts) else None


COMBINED = {Stacked.kind: None, Composed.kind: 2, RESTRICTED: 1}
"""Kinds of networks made of others, and of how many."""
DESCRIBED: dict[str, dict[str, Callable[[Fields, str], Any]]] = {
    "expression": {"text": Fields.text, "tail": lambda given, name: given.text(name) if name in given else None},
    "piecewise linear": {
        "name": Fields.text,
        "stages": Fields.whole,
        "assumptions": lambda given, name: given.each(name, Fields.text) if name in given else [],
    },
    "truncated linear": {"ends": lambda given, name: given.each(name, lambda ends, end: ends.number(end, -inf))},
    "max-affine": {},
    CellValues.kind: {},
    Antiderivative.kind: {"formula": Fields.text},
    FittedModel.kind: {
        "loss": lambda given, name: given.text(name, LOSSES),
        "intercept": Fields.flag,
        "alpha": Fields.number,
        "beta": Fields.number,
        "delta": lambda given, name: given.number(name, float_info.min),
    },
    "lipschitz": {"name": Fields.word, "constant": Fields.number},
    "traced": {"name": Fields.word, "formula": lambda given, name: given.text(name) if name in given else None},
    "network": {
        "name": Fields.text,
        "assumptions": lambda given, name: given.each(name, Fields.text) if name in given else [],
        "output": lambda given, name: given.text(name) if name in given else None,
    },
    "black box": {"name": Fields.word},
    "samples": {
        "rows": lambda given, name: given.whole(name, 2),
        "held_out": lambda given, name: given.flag(name) if name in given else HELD_OUT in given.text("where"),
    },
    **{kind: {} for kind in COMBINED},
}
"""What is read of a target's description, by its kind."""
STATUS = {"traced": Status.PROVED, "network": Status.PROVED, "black box": Status.ESTIMATED, "samples": Status.ESTIMATED}
"""The best status that a target has whose code is not in the file."""


def _description(given: Fields, domain: Box, output_shape: tuple[int, ...]) -> dict[str, Any]:
    """The target in words, of which only what cannot be worked out is read."""
    kind = given.text("kind", DESCRIBED)
    read = {name: reader(given, name) for name, reader in DESCRIBED[kind].items()}
    if kind == "samples":
        return described(read["rows"], domain.size, prod(output_shape), held_out=read["held_out"])
    if kind == Antiderivative.kind:
        return Antiderivative.described(read["formula"])
    return {"kind": kind, **{name: value for name, value in read.items() if value is not None}}


def _claim(
    network: Network, domain: Box, output_shape: tuple[int, ...], description: dict[str, Any], tensors: Tensors
) -> Claim:
    """A claim about a network that is not made of others; its target is restored where the file has all of it."""
    samples, arrays = None, _below(tensors, "target.")
    if description["kind"] == "lipschitz":
        samples = _rows(tensors, "samples.points", domain.size), _rows(tensors, "samples.values", prod(output_shape))
        if len(samples[0]) != len(samples[1]):
            raise FileFormatError("samples must have a value a point", got=f"{len(samples[0])} and {len(samples[1])}")
    for line in description.get("assumptions", []):
        if not says_how_it_runs(line, description["name"]):
            raise FileFormatError("assumptions of a network as a target must be those of its reader", got=shown(line))
    target = restore(description, domain, output_shape, samples, arrays=arrays)
    if target is not None:
        if target.output_shape != output_shape or set(target.arrays()) != set(arrays):
            raise FileFormatError("a file must describe a target that fits its network", got=repr(description))
        description = target.as_dict()
    return Claim(network, domain, output_shape, description, target, samples)


def _rows(tensors: Tensors, name: str, width: int) -> npt.NDArray[np.float64]:
    """Finite rows (S, width)."""
    array = tensors.get(name, np.empty(0))
    if array.dtype != np.float64 or array.ndim != 2 or array.shape[1] != width or not np.isfinite(array).all():
        raise FileFormatError(f"{name} must be finite float64 numbers of shape (S, {width})", got=str(array.shape))
    return array


STATED = 'the file says that the judge agreed, which is not believed; recheck(engine="arb") judges it'
"""What is left of the word of a file."""
OLDER_EDGE = "the bound holds wherever the formula is defined; that it is defined on the whole domain was not proved"
"""What older files call proved, and what is conditional today."""
OLDER_PROOF = (
    "the older version of attnfun that wrote the file proved the bound correctly, which it did not always; "
    "recheck() proves it again"
)
"""What proofs in older files are conditional on. Those files lack the number of random points."""


def _certificate(given: Fields, claim: Claim) -> Certificate:
    """The numbers of a certificate, and the words that follow from them."""
    stated = Status(given.text("status", [each.value for each in Status]))
    norm = inf if given.data.get("norm") == "inf" else given.number("norm", 1.0)
    known, lines = _target_status(claim), given.each("assumptions", Fields.text)
    if Status.weakest([stated, known]) is not stated:
        raise FileFormatError(f"the field {given.place}.status must be {known.value} or weaker", got=stated.value)
    if given.text("dtype") != claim.network.dtype:
        raise FileFormatError("a certificate must be about its network's dtype", got=given.text("dtype"))
    effort, estimated = given.inner("effort"), stated is Status.ESTIMATED
    older = "random" not in effort
    counts = {name: effort.whole(name) for name in ("boxes", "points", "random")[: 2 if older else 3]}
    if counts.get("random", 0) > counts["points"]:
        raise FileFormatError(
            f"the field {effort.place}.random must be at most that of all points", got=counts["random"]
        )
    undeclared = stated is Status.CONDITIONAL and known is Status.PROVED and not older
    status = Status.weakest([stated, Status.CONDITIONAL]) if older else stated
    certificate = Certificate(
        bound=given.number("bound"),
        status=status,
        norm=norm,
        parts=_parts(given.inner("parts"), estimated=estimated),
        assumptions=assumptions_of(
            _notes(given, claim, known, lines) if estimated else (*_granted(claim), *((OLDER_PROOF,) if older else ())),
            claim.network.dtype,
            status,
            edge=undeclared or (not estimated and not {EDGE_ASSUMPTION, OLDER_EDGE}.isdisjoint(lines)),
            unseen=counts.get("random", stated_points(lines)) if isinf(norm) else 0,
        ),
        found=given.number("largest_error_found"),
        effort=counts,
        seed=given.whole("seed"),
        claim=claim,
        not_judged=STATED if "judged" in given and given.flag("judged") else "",
    )
    if contradiction := certificate.contradiction():
        raise FileFormatError("a certificate must not contradict itself", got=contradiction)
    return certificate


def _parts(given: Fields, *, estimated: bool) -> dict[str, float]:
    """The shares of the bound; of an estimate, which has no others, the oldest files name those that are zero."""
    parts = {name: given.number(name) for name in given}
    return {name: part for name, part in parts.items() if part or not estimated or name not in PARTS[1:]}


def _target_status(claim: Claim) -> Status:
    """The best status that a certificate about the target can have."""
    if claim.target is not None:
        return claim.target.status
    if claim.parts:
        return Status.weakest(_target_status(part.claim) for part in claim.parts)
    return STATUS[claim.description["kind"]]


def _granted(claim: Claim) -> tuple[str, ...]:
    """What the target itself takes for granted."""
    if claim.target is not None:
        return claim.target.assumptions
    if claim.parts:
        order = claim.parts if claim.description["kind"] == Stacked.kind else reversed(claim.parts)
        return joined([_granted_of(part) for part in order])
    if claim.description["kind"] == NetworkFunction.kind:
        return NetworkFunction.granted(claim.description.get("assumptions", []))
    return Traced.granted(claim.description["name"])


def _granted_of(part: Certificate) -> tuple[str, ...]:
    """The same of a part, whose own certificate says why its target is estimated."""
    noted = part.claim.target is None and part.claim.description["kind"] in NOTED
    return tuple(line for line in part.assumptions if not says_worth(line)) if noted else _granted(part.claim)


NOTED: dict[str, Callable[[list[str], dict[str, Any]], bool]] = {
    BlackBox.kind: lambda lines, words: BlackBox.says_why(lines, words["name"]),
    "samples": lambda lines, words: words["held_out"] and says_what_was_measured(lines, words["rows"]),
}
"""Targets of which the file says why they are estimated, and whether it may say so."""


def _notes(given: Fields, claim: Claim, known: Status, lines: list[str]) -> tuple[str, ...]:
    """Why a target is estimated: what was written down, where its code is not in the file; proves nothing."""
    if known is not Status.ESTIMATED:
        return ()
    if claim.target is not None or claim.parts:
        return _granted(claim)
    notes = [line for line in lines if not says_worth(line)]
    words = claim.description
    if (notes or words.get("held_out")) and not NOTED[words["kind"]](notes, words):
        raise FileFormatError(
            f"the field {given.place}.assumptions must say why {words['name']} is estimated", got=shown(notes)
        )
    return tuple(notes)


def _below(tensors: Tensors, prefix: str) -> Tensors:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
