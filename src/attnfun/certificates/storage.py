"""Certificates in files: what is claimed, network and target included, and the certificates of parts.

Tensors are named by where they belong: `layers.0.right` is of the network, `target.w` of the target, and
`parts.1.layers.0.right` of the network of the second part.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ..errors import FileFormatError
from ..network import storage
from ..network.storage import Tensors
from ..targets import restore
from ..targets.regions import restore_domain
from .certificate import Certificate, Claim


def pack(certificate: Certificate) -> tuple[Tensors, dict[str, Any]]:
    """Tensors and a JSON-ready description."""
    claim = certificate.claim
    tensors, network = storage.pack(claim.network)
    if claim.samples is not None:
        tensors["samples.points"], tensors["samples.values"] = claim.samples
    if claim.target is not None and not claim.parts:
        tensors |= {f"target.{name}": array for name, array in claim.target.arrays().items()}
    parts = [pack(part) for part in claim.parts]
    for number, (inner, _) in enumerate(parts):
        tensors |= {f"parts.{number}.{name}": tensor for name, tensor in inner.items()}
    return tensors, {
        "network": network,
        "domain": claim.domain.as_dict(),
        "output_shape": list(claim.output_shape),
        "target": claim.description,
        "certificate": certificate.as_dict(),
        **({"parts": [description for _, description in parts]} if parts else {}),
    }


def unpack(tensors: Tensors, data: dict[str, Any]) -> Certificate:
    """The certificate again, with its claim."""
    domain, network = restore_domain(data["domain"]), storage.unpack(tensors, data["network"])
    output_shape = tuple(int(size) for size in data["output_shape"])
    parts = tuple(unpack(_below(tensors, f"parts.{k}."), part) for k, part in enumerate(data.get("parts", ())))
    if parts:
        claim = Claim.of_parts(network, domain, output_shape, data["target"], parts)
    else:
        samples = (tensors["samples.points"], tensors["samples.values"]) if "samples.points" in tensors else None
        target = restore(data["target"], domain, output_shape, samples, arrays=_below(tensors, "target."))
        claim = Claim(network, domain, output_shape, data["target"], target, samples)
    if prod(network.shape_in) != domain.size or prod(network.shape_out) != prod(output_shape):
        raise FileFormatError("a file must describe a network that fits its domain", got=repr(network))
    return Certificate.from_dict(data["certificate"], claim)


def _below(tensors: Tensors, prefix: str) -> Tensors:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
