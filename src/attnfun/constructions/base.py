"""The contract of a construction: a theorem that turns a target into a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import comb, inf
from typing import Any, ClassVar, Generic, TypeVar

from ..arguments import whole_number
from ..domains.box import Box
from ..errors import InputError
from ..network import Network
from ..resources.deadline import NEVER, Deadline
from ..resources.memory import UNLIMITED, Memory
from ..targets import Target

T = TypeVar("T", bound=Target)
"""The kind of target that a construction serves."""
D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)
"""What a construction's plans hold."""
DEGREE, IN_PLAY = 8, 64
"""Proofs by boxes take Taylor series of about this degree; along an axis, about so many tokens matter on a box."""


def proof_work(tokens: float, boxes: float, variables: int) -> float:
    """About how many multiplications a proof takes that cuts a domain of so many variables into boxes.

    On a box, every token in play has a Taylor series of `(variables + DEGREE over variables)` coefficients. Proofs were
    seen to take about as many boxes as the product of the tokens along the axes, within a factor of 2 for each axis,
    because both follow the features of the function; so no proof is begun to find out.

    >>> proof_work(tokens=10, boxes=10, variables=1), proof_work(tokens=30, boxes=1000, variables=3)
    (900.0, 4950000.0)
    """
    return float(min(tokens, IN_PLAY**variables)) * float(boxes) * comb(variables + DEGREE, variables)


@dataclass(frozen=True)
class PlanRequest:
    """What a construction is to plan for."""

    aim: float | None
    """The largest error wanted, in exact arithmetic, in L_p as a p-mean (divided by |Ω|^{1/p}); None when a size is
    requested in the options."""
    budget: int
    """Memory tokens allowed."""
    options: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float64"
    norm: float = inf
    """inf, or the p of L_p."""
    seed: int = 0
    """For whatever is drawn at random."""
    deadline: Deadline = NEVER
    """When the plan must be there: the best one so far, or TimeLimitReached."""
    memory: Memory = UNLIMITED
    """What arrays may take, in planning as in building."""
    proof: bool = True
    """Will the error be proved, so that it matters how long that takes?"""

    def __post_init__(self) -> None:
        tokens = self.options.get("tokens")
        if tokens is not None:
            whole_number("options tokens", tokens, 1)

    def requested_tokens(self, least: int = 1) -> int:
        """The memory tokens that the options request where no error is aimed at."""
        tokens = self.options.get("tokens") or 0
        if not least <= tokens <= self.budget:
            raise InputError(
                f'without eps, options={{"tokens": N}} must say how many, from {least} to the budget {self.budget}',
                got=tokens or "no tokens",
            )
        return int(tokens)


@dataclass(frozen=True)
class Plan(Generic[D_co]):
    """What a construction intends to build, before any weight exists."""

    tokens: int
    """Memory tokens it will take."""
    a_priori: float
    """What the error will be, with exact weights in exact arithmetic; in L_p a p-mean (a bound on the largest error is
    one)."""
    details: D_co
    """Whatever the construction needs to build it."""
    depth: int = 1
    """Attention layers."""
    expected: float | None = None
    """The error that the sizes were chosen for, where `a_priori` is known to be pessimistic."""
    paper_bound: float | None = None
    """The bound by the paper's argument for as many tokens, at its best parameters; estimated if `a_priori` is."""
    limit: float = 0.0
    """About the smallest error that can be proved in the deployed arithmetic, where that is known to matter."""
    numbers: float = 0.0
    """Numbers in the arrays of the network, where they are more than tokens say."""
    work: float | None = None
    """What the proof will take, about, as `proof_work` counts it; None where nothing is known about it."""
    target: Target | None = None
    """The target with what planning measured of it, which the certificate states; None where nothing was."""
    figures: dict[str, float] = field(default_factory=dict)
    """Resources worth a line in the summary, by name."""

    @property
    def promised(self) -> float:
        """The error to go by when constructions are compared."""
        return self.a_priori if self.expected is None else self.expected


@dataclass(frozen=True)
class Forecast(Generic[D_co]):
    """What a plan will take, before it is worked out."""

    tokens: int
    """Rather too few than too many."""
    depth: int
    plan: Callable[[], Plan[D_co]]
    """Works it out."""
    work: float | None = None
    """Of the proof, as in a plan; rather too little than too much."""


class Construction(ABC, Generic[T, D]):
    """One theorem, one file. `forecast` is quick, `plan` says the size, `build` writes the weights.

    It serves targets of the type T (`serves` says which of them), and its plans hold details of the type D.
    """

    name: ClassVar[str]
    theorem: ClassVar[str]
    """Where the theorem is stated."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Names accepted in `options=`."""
    figures: ClassVar[frozenset[str]] = frozenset()
    """Names of the figures that a plan may have."""
    proves: ClassVar[frozenset[str]] = frozenset()
    """Kinds of targets, as descriptions call them, for which `Plan.a_priori` is a bound: proved in the construction's
    docstring, and all that it rests on known or declared. It is an estimate otherwise, as wherever slopes or errors are
    sampled."""
    domains: ClassVar[frozenset[str]] = frozenset({Box.kind})
    """Kinds of domain that it can serve."""
    automatic: ClassVar[bool] = True
    """Does "auto" consider it? Not if another construction does the same with the same tokens."""

    least: ClassVar[int] = 2
    """The fewest tokens worth a forecast: one token, with its weight of 1, adds a constant."""
    treats_tokens_alone: ClassVar[bool] = False
    """Can its network for one token be applied to each token of a sequence?"""
    serves_jumps: ClassVar[bool] = False
    """In L_p: does it get close to targets that jump?"""
    bears_rounding: ClassVar[bool] = False
    """Does a closer aim lessen rounding too?"""
    at_limit: ClassVar[str] = "use a larger eps, or stay away from the edge of a natural domain"
    """What to do when the plan's limit is above the tolerance."""
    made_for: ClassVar[tuple[type[Target], ...]] = ()
    """Targets for which "auto" takes this construction before all general ones."""

    def serves(self, target: Target) -> bool:
        """Can this theorem be applied to the target at all?"""
        del target
        return True

    def fits(self, target: Target) -> bool:
        """Does it know the kind of domain, and serve the target? What cannot be evaluated needs one made for it."""
        known = target.evaluable or type(target) in self.made_for
        return known and target.domain.kind in self.domains and self.serves(target)

    def rivals(self, target: Target) -> bool:
        """Should "auto" consider it, if it fits? Not if another construction would build the same network."""
        del target
        return self.automatic

    def forecast(self, target: T, request: PlanRequest) -> Forecast[D]:
        """The size of the plan; here the plan itself, for constructions that work it out quickly."""
        plan = self.plan(target, request)
        return Forecast(plan.tokens, plan.depth, lambda: plan, plan.work)

    @abstractmethod
    def plan(self, target: T, request: PlanRequest) -> Plan[D]:
        """Choose sizes whose predicted error is `request.aim`, or those requested in its options when that is None."""

    @abstractmethod
    def build(self, target: T, plan: Plan[D], dtype: str) -> Network:
        """The network, every weight representable in `dtype`."""

    @abstractmethod
    def paper_tokens(self, target: T, plan: Plan[D], eps: float) -> int | None:
        """Memory tokens that the paper's own bound needs at this tolerance, if it counts them."""
