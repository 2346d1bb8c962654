"""The Python program that makes a network again, or reads it from its file where only that can."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING, Any

from ..._version import __version__
from ...constructions.planner import BUDGET
from ...targets import SAVED, Status

if TYPE_CHECKING:
    from ...compiled import Compiled

MOST_POINTS = 200
"""Numbers of a cloud that are written into a program."""


def python_code(net: Compiled, file: str) -> str:
    """A program for the network, which is also in the file of this name. User text goes in as literals only."""
    domain = net.domain.as_code(MOST_POINTS)
    known = net.certificate.claim.description["kind"] == "expression" and None not in net.options.values()
    if not known or domain is None:
        return _reading(net, file)
    arguments = {"domain": domain, "eps": repr(net.eps), **_keywords(net)}
    lines = [repr(net.name), *(f"{name}={value}" for name, value in arguments.items())]
    call = "".join(f"    {line},\n" for line in lines)
    return f"{_head(net)}net = af.compile(\n{call})\nprint(net.certificate)\nnet.save({file!r})\n"


def _keywords(net: Compiled) -> dict[str, str]:
    """What differs from the defaults."""
    certificate, target = net.certificate, net.certificate.claim.target
    provable = target is not None and target.status is Status.PROVED
    arguments: dict[str, tuple[bool, Any]] = {
        "norm": (not isinf(certificate.norm), certificate.norm),
        "construction": (True, net.construction),
        "dtype": (net.network.dtype != "float64", net.network.dtype),
        "options": (bool(net.options), net.options),
        "budget": (net.network.tokens > BUDGET, 2 * net.network.tokens),
        "proof": (provable and certificate.status is Status.ESTIMATED, False),
        "outside": (net.outside != "raise", net.outside),
        "seed": (certificate.seed != 0, certificate.seed),
    }
    return {name: repr(value) for name, (needed, value) in arguments.items() if needed}


def _reading(net: Compiled, file: str) -> str:
    """Load the file; prove again what can be proved without the user's own code."""
    parts = [_head(net), f"net = af.load({file!r})  # weights, certificate and description\nprint(net.certificate)\n"]
    if net.certificate.claim.description["kind"] == "samples":
        return "".join(parts)
    own = net.certificate.claim.description["kind"] not in SAVED and not net.certificate.claim.parts
    note = "  # pass target=f, the function itself, which the file does not hold" if own else ""
    return "".join([*parts, f"again = net.certificate.recheck(){note}\n"])


def _head(net: Compiled) -> str:
    return f"# Made with attnfun {__version__}: {net.certificate.headline}.\nimport attnfun as af\n\n"
