"""The contract of a construction: a theorem that turns a target into a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

from ..network import Network
from ..targets import Target


@dataclass(frozen=True)
class Wish:
    """What a construction is asked to plan for."""

    aim: float | None
    """The largest error wanted, in exact arithmetic; None when a size is asked for in the options."""
    budget: int
    """Memory tokens allowed."""
    options: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float64"
    norm: float = inf
    """inf, or the p of L_p."""


@dataclass(frozen=True)
class Plan:
    """What a construction intends to build, before any weight exists."""

    tokens: int
    """Memory tokens it will take."""
    a_priori: float
    """The theorem's own bound on the error in exact arithmetic, with the slopes known at planning time."""
    details: Any
    """Whatever the construction needs to build it."""


class Construction(ABC):
    """One theorem, one file. `plan` is cheap and says the size; `build` writes the weights."""

    name: ClassVar[str]
    theorem: ClassVar[str]
    """Where the theorem is stated."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Names accepted in `options=`."""

    def serves(self, target: Target) -> bool:
        """Can this theorem be applied to the target at all?"""
        del target
        return True

    @abstractmethod
    def plan(self, target: Target, wish: Wish) -> Plan:
        """Choose sizes whose predicted error is `wish.aim`, or those asked for in its options when that is None."""

    @abstractmethod
    def build(self, target: Target, plan: Plan, dtype: str) -> Network:
        """The network, every weight representable in `dtype`."""

    @abstractmethod
    def paper_tokens(self, target: Target, plan: Plan, eps: float) -> int:
        """Memory tokens that the paper's own bound asks for at this tolerance."""
