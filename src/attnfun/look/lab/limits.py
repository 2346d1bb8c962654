"""What one request may take, so that a formula can neither hang nor fill the machine."""

from __future__ import annotations

from dataclasses import dataclass

from ...domains.box import read_box
from ...errors import InputError


@dataclass(frozen=True)
class Limits:
    """Seconds and bytes of a request; tokens of a network; letters of a formula and of a domain, and its variables.

    The work itself respects the seconds; its process is killed when the grace is over, too.
    """

    seconds: float = 60.0
    grace: float = 10.0
    memory: int = 4 * 2**30
    tokens: int = 2**16
    letters: int = 2000
    variables: int = 8

    def check(self, formula: str, domain: str) -> None:
        """Refuse what is too long before any work is done."""
        for name, text in (("formula", formula), ("domain", domain)):
            if len(text) > self.letters:
                raise InputError(
                    f"in the lab a {name} has at most {self.letters} letters",
                    got=len(text),
                    remedy="Use af.compile in Python.",
                )
            if not "".join(text.split()).isprintable():
                raise InputError(f"in the lab a {name} has printable letters only", got=ascii(text))
        variables = read_box(domain).size
        if variables > self.variables:
            raise InputError(
                f"in the lab a domain has at most {self.variables} variables",
                got=variables,
                remedy="Use af.compile in Python.",
            )
