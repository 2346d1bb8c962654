"""How much memory arrays may take: estimated and refused before they are made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import inf

from ..arguments import as_float
from ..errors import InputError, ToleranceNotMet, shown

SHARE = 0.5
"""The share of the machine's memory that is allowed unless said otherwise."""
NUMBER = 8
"""Bytes of a float64."""


@dataclass(frozen=True)
class Memory:
    """A limit in bytes.

    >>> Memory(1e6).holds(1e5), Memory(1e6).holds(1e6)
    (True, False)
    """

    limit: float = inf

    @classmethod
    def of(cls, memory_limit: float | None) -> Memory:
        """What users give: bytes, or None for half of the machine's memory."""
        if memory_limit is None:
            return cls(SHARE * machine())
        size = as_float(memory_limit)
        if not size > 0:
            raise InputError(
                "memory_limit must be a number of bytes > 0, or None for half of the machine's memory",
                got=shown(memory_limit),
                remedy="Pass memory_limit=4e9, say.",
            )
        return cls(size)

    def holds(self, numbers: float) -> bool:
        """Is there room for arrays of so many float64 numbers?"""
        return NUMBER * numbers <= self.limit

    def require(self, numbers: float, what: str, remedy: str) -> None:
        """Refuse arrays of so many float64 numbers if they would not fit."""
        if not self.holds(numbers):
            raise ToleranceNotMet(
                f"{what} must fit into the memory limit",
                got=f"memory_limit={self.limit:.3g}, for about {NUMBER * numbers:.3g} bytes",
                remedy=f"{remedy} Or raise memory_limit=.",
            )


def machine() -> float:
    """Bytes of memory that the machine has; inf where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return inf


UNLIMITED = Memory()
