"""What is shown of a given network, and what came closest where nothing was."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..domains.box import Box
from ..errors import InputError
from ..judge import GivenVerdict, Limits, given_claim, judge_given
from ..targets import Status
from .claim import ERROR, NetworkClaim
from .forms import Floats


@dataclass(frozen=True, eq=False)
class NetworkCertificate:
    """`quantity <= bound` for every real input of the domain, in the arithmetic `dtype`.

    `status` says whether that is proved, conditional on what is assumed beside the machine, or only estimated.
    """

    quantity: str
    """What is bounded, in words."""
    bound: float
    status: Status
    assumptions: tuple[str, ...]
    dtype: str
    """The arithmetic of the network; "exact" for real numbers."""
    domain: Box
    found: float
    """What the quantity surely reaches at `point`. No bound can be below it."""
    point: Floats
    boxes: int
    """How many boxes were bounded."""
    stopped: str = ""
    """What ended the search for a smaller bound, in words."""
    claim: NetworkClaim | None = field(default=None, repr=False)
    """The networks and what is claimed of them; None of an estimate, which claims nothing."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write networks and bounds to a file, which `python -m attnfun.judge` and `attnfun verify` check."""
        self._claimed().save(path, self.status.value, self.assumptions)

    def verdict(self, limits: Limits | None = None) -> GivenVerdict:
        """What the judge says, which shares no code with the proof and bounds the same in ball arithmetic."""
        description, arrays = self._claimed().packed(self.status.value, self.assumptions)
        return judge_given(given_claim(description["given"], arrays), limits)

    def _claimed(self) -> NetworkClaim:
        if self.claim is None or (self.claim.kind == ERROR and self.claim.formula is None):
            raise InputError(
                "a certificate must be a proof about networks and formulas to be saved or judged",
                got=self.headline,
                remedy="Give the target as a formula.",
            )
        return self.claim

    @property
    def proved(self) -> bool:
        """Does the bound hold without any declaration?"""
        return self.status is Status.PROVED

    @property
    def headline(self) -> str:
        """The bound with its status, in a few words."""
        relation = "about" if self.status is Status.ESTIMATED else "<="
        return f"{self.quantity} {relation} {self.bound:.6g} {self.status.value}"

    def as_dict(self) -> dict[str, Any]:
        """A JSON-ready description."""
        return {
            "quantity": self.quantity,
            "bound": self.bound,
            "status": self.status.value,
            "assumptions": list(self.assumptions),
            "dtype": self.dtype,
            "domain": self.domain.as_dict(),
            "found": self.found,
            "point": self.point.tolist(),
            "boxes": self.boxes,
            "stopped": self.stopped,
        }

    def __str__(self) -> str:
        arithmetic = "real arithmetic" if self.dtype == "exact" else self.dtype
        lines = [f"{self.headline}, for x in {self.domain!r}, in {arithmetic}"]
        lines.append(f"  found: {self.found:.6g}; boxes: {self.boxes:,}")
        lines += [f"  assumed: {line}" for line in self.assumptions]
        return "\n".join([*lines, f"  stopped: {self.stopped}"] if self.stopped else lines)


@dataclass(frozen=True, eq=False)
class Ranges:
    """Enclosures of all outputs of a network: `lo <= output <= hi` for every input of the domain.

    `found_lo` and `found_hi` are the smallest and largest outputs that were found at points, in float64.
    """

    lo: Floats
    hi: Floats
    found_lo: Floats
    found_hi: Floats
    certificate: NetworkCertificate

    def verdict(self, limits: Limits | None = None) -> GivenVerdict:
        """What the judge says of all ends."""
        return self.certificate.verdict(limits)

    def as_dict(self) -> dict[str, Any]:
        """A JSON-ready description."""
        ends = {name: getattr(self, name).tolist() for name in ("lo", "hi", "found_lo", "found_hi")}
        return {**ends, "certificate": self.certificate.as_dict()}

    def __str__(self) -> str:
        rows = zip(*(np.ravel(each) for each in (self.lo, self.hi, self.found_lo, self.found_hi)), strict=True)
        lines = [
            f"  output {number}: [{lo:.6g}, {hi:.6g}]; points reach [{low:.6g}, {high:.6g}]"
            for number, (lo, hi, low, high) in enumerate(rows)
        ]
        return "\n".join([str(self.certificate), *lines])


@dataclass(frozen=True, eq=False)
class Closest:
    """What came closest to a counterexample where a claim was not proved."""

    box: Box | None
    """A part of the domain on which the claim is not shown; None where one point is all that is left of it."""
    point: Floats
    value: float
    """What the bounded quantity surely reaches there."""
    counterexample: bool
    """Does the network surely violate the claim at the point, in its own arithmetic? Decided by enclosures."""
