"""What provers have in common: a task, and an attempt at it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path

from ...resources.deadline import NEVER, Deadline
from ...resources.memory import UNLIMITED, Memory
from ..claim import Claim
from ..proof import Conclusion, Proof


@dataclass(frozen=True)
class Progress:
    """What long work reports after each round of a proof, and as values of a black box come in."""

    bound: float
    found: float
    boxes: int
    waiting: int
    points: int = 0
    """Values of a black box that have come in; then there is no bound yet."""


@dataclass(frozen=True)
class Task:
    """What a prover is to find: a bound of at most `goal`, or as small as can be, within limits."""

    goal: float | None = None
    norm: float = inf
    deadline: Deadline = NEVER
    progress: Callable[[Progress], None] | None = None
    executor: Executor | None = None
    checkpoint: str | Path | None = None
    memory: Memory = UNLIMITED


@dataclass(frozen=True, eq=False)
class Attempt:
    """What a prover leaves: a proof, and what it met on the way. No number of it is believed."""

    proof: Proof = field(repr=False)
    found: float = 0.0
    """An error met on the way, in real arithmetic; 0 where none was looked for."""
    boxes: int = 0
    stopped: str = ""
    """The limit of time or memory that ended the search before the goal was reached, in words."""


@dataclass(frozen=True, eq=False)
class Outcome(Conclusion):
    """A conclusion, the proof that it was drawn from, and what the search met on the way."""

    proof: Proof | None
    found: float
    boxes: int
    stopped: str

    @classmethod
    def of(
        cls, conclusion: Conclusion, proof: Proof | None, found: float = 0.0, boxes: int = 0, stopped: str = ""
    ) -> Outcome:
        """A conclusion with its proof."""
        known = {part.name: getattr(conclusion, part.name) for part in fields(Conclusion)}
        return cls(**known, proof=proof, found=found, boxes=boxes, stopped=stopped)


@dataclass(frozen=True)
class Prover:
    """One way to search for proofs by one rule."""

    rule: str
    applies: Callable[[Claim, float], bool]
    """Can the rule say anything about a claim in a norm? Cheap, and never a promise."""
    prove: Callable[[Claim, Task], Attempt | None]
    """None where the rule turns out to say nothing; TimeLimitReached where there was no time to find out."""
