"""What is to be proved: that a network imitates a target on a domain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..domains.box import Box
from ..errors import InputError
from ..network import Network
from ..network.network import on_each_token
from ..targets import Target
from ..targets import restore as restore_target
from ..targets.combined import combined
from ..targets.readers import read_network
from .naming import combined_name

if TYPE_CHECKING:
    from .certificate import Certificate

EDGE_ASSUMPTION = (
    "the target is defined on the whole domain, which was not proved; the bound holds wherever the formula is defined"
)
"""What makes a certificate conditional although nothing was declared."""


@dataclass(frozen=True, eq=False)
class Claim:
    """That a network imitates a target on a domain. The target is None if its code is not at hand.

    A network made of others names their certificates as its parts; the kind of its description says how it is made.
    """

    network: Network
    domain: Box
    output_shape: tuple[int, ...]
    description: dict[str, Any]
    """The target in words, as saved."""
    target: Target | None
    samples: Any = None
    """Recorded values of a black box, (points, values)."""
    parts: tuple[Certificate, ...] = ()

    @classmethod
    def about(cls, target: Target, network: Network) -> Claim:
        """The claim that `network` imitates `target`."""
        return cls(network, target.domain, target.output_shape, target.as_dict(), target, target.recorded)

    @classmethod
    def inner(cls, target: Target, network: Network) -> Claim:
        """A claim inside of a proof: nobody reads its words."""
        return cls(network, target.domain, target.output_shape, {}, target)

    @classmethod
    def of_parts(
        cls,
        network: Network,
        domain: Box,
        output_shape: tuple[int, ...],
        kind: str,
        parts: tuple[Certificate, ...],
    ) -> Claim:
        """The claim about a network made of others in this way; its target is made of theirs, if those are at hand."""
        description = {"kind": kind, "name": combined_name(kind, [part.claim for part in parts], output_shape)}
        targets = [part.claim.target for part in parts]
        known = [target for target in targets if target is not None]
        target = combined(description, known, domain, output_shape) if len(known) == len(parts) else None
        return cls(network, domain, output_shape, description, target, None, parts)

    def of_one_token(self) -> Claim | None:
        """The same claim for one token, if there are several and target and network treat every token alike."""
        if self.target is None or self.network.length in (None, 1):
            return None
        target, network = self.target.one_token(), on_each_token(self.network, 1)
        return None if target is None or network is None else Claim.about(target, network)

    @property
    def imitated(self) -> Target:
        """The target, whose code must be at hand."""
        if self.target is None:
            raise InputError("a claim without its target cannot be certified", got=repr(self.description))
        return self.target

    def observed(self) -> Claim:
        """The same claim, its target with all values that were sampled by now."""
        target = self.imitated.observed()
        return replace(self, target=target, samples=None if self.samples is None else target.recorded)

    @property
    def name(self) -> str:
        """The formula, the function's name, or what kind of target it is."""
        return str(self.description.get("text", self.description.get("name", self.description["kind"])))

    @property
    def where(self) -> str:
        """The points that the claim is about, in words."""
        return self.description.get("where", self.domain.where)

    def with_target(self, function: object) -> Claim:
        """The same claim with the target's code supplied."""
        if function is None:
            return self
        if self.parts:
            return self._with_targets(function)
        network = read_network(function, self.domain, self.description.get("output"))
        if network is not None:
            return replace(self, target=network)
        target = restore_target(self.description, self.domain, self.output_shape, self.samples, function)
        return replace(self, target=target)

    def _with_targets(self, functions: object) -> Claim:
        """The code of each part supplied."""
        if not isinstance(functions, list | tuple) or len(functions) != len(self.parts):
            raise InputError(
                f"a network made of {len(self.parts)} needs a list of as many functions, None where none is missing",
                got=repr(functions),
            )
        given = zip(self.parts, functions, strict=True)
        parts = tuple(replace(part, claim=part.claim.with_target(function)) for part, function in given)
        return Claim.of_parts(self.network, self.domain, self.output_shape, self.description["kind"], parts)
