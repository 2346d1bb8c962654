"""What one request may take, so that a formula can neither hang nor fill the machine."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError


@dataclass(frozen=True)
class Limits:
    """Seconds and bytes of a request; tokens of a network; letters and variables of a formula.

    The work itself respects the seconds; its process is killed when the grace is over, too.
    """

    seconds: float = 60.0
    grace: float = 10.0
    memory: int = 4 * 2**30
    tokens: int = 2**16
    letters: int = 2000
    variables: int = 8

    def check(self, formula: str, variables: int) -> None:
        """Refuse what is too long before any work is done."""
        if len(formula) > self.letters:
            raise InputError(
                f"in the lab a formula has at most {self.letters} letters",
                got=len(formula),
                remedy="Use af.compile in Python.",
            )
        if variables > self.variables:
            raise InputError(
                f"in the lab a domain has at most {self.variables} variables",
                got=variables,
                remedy="Use af.compile in Python.",
            )
