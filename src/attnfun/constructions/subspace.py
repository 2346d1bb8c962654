"""Functions of many variables that vary in few directions, beside an affine part (attnfun's own; [T 6.1]).

**Construction.** `f(x) = a·x + g(P x)` with r <= 3 rows in P: *a* is the mean of sampled gradients, and the rows of P
are the directions in which gradients differ from it (singular vectors of the centred gradients, an active subspace).
The affine part goes through the linear maps and the residual connection. g gets one bank, a product of r axes in the
coordinates `u = P x`. Their values are solved from scattered points of the domain, since the u that the domain reaches
are no box. The number of variables costs samples, not tokens.

**Bound.** None in advance. The directions are guesses from samples; certificate or estimate judge the network by the
target itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import whole_root
from ..errors import InputError
from ..network import Affine, Attention, Network
from ..network.network import rounded
from ..pieces.lines import Axis, representable
from ..pieces.parts import gradients
from ..pieces.potentials import Mesh
from ..pieces.slopes import paper_tokens, steepest
from ..pieces.solve import solved
from ..pieces.tokens import Tokens
from ..targets import Target
from ..targets.callables import Lipschitz
from ..targets.piecewise import PiecewiseLinear
from .base import Construction, Forecast, Plan, PlanRequest

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SubspaceTuning:
    """How directions are found and their axes sized. The error of the network is proved later."""

    most_axes: int = 3
    """Directions, at most. The tokens of a product are those of its axes multiplied."""
    fewest_variables: int = 3
    """In fewer variables there is nothing to leave out."""
    same: float = 1e-4
    """Directions in which gradients vary by less than this fraction of the most are none. A round number."""
    points: int = 32
    """Points at which gradients are taken. By trial."""
    per_variable: int = 4
    """Such points for each variable. By trial."""
    shape: tuple[float, int] = (0.5, 3)
    """Sharpness γ and ghosts of the axes. By trial."""
    first: int = 8
    """Tokens along an axis to begin with. A round number."""
    growth: float = 1.3
    """Their growth from try to try. By trial."""
    largest: int = 160
    """Tokens along an axis, at most. For time."""
    most: int = 2500
    """Tokens in all, at most. For time: a fit takes their cube."""
    stalled: float = 0.5
    """Two steps of growth that do not halve the error are the last. By trial."""
    samples: tuple[int, ...] = (10, 6, 4)
    """Samples for each token in 1, 2, 3 directions. By trial."""
    checks: int = 2000
    """Points at which fits are checked. A round number."""
    copies: int = 4
    """Arrays of the size of the least-squares problem. Counted."""
    ridge: float = 1e-2
    """Penalty on values, as a fraction of the tolerance. By trial."""
    finest: float = 1e-10
    """The tolerance, beside the largest value, if a size is requested. A round number."""


TUNING = SubspaceTuning()


@dataclass(frozen=True, eq=False)
class Directions:
    """`f(x) = slope·x + g(P (x - centre))`."""

    centre: Floats  # (D,)
    slope: Floats  # (D, m)
    project: Floats  # (r, D), P
    reach: Floats  # (r,), largest |P (x - centre)| on the domain
    first: int
    """Tokens along an axis to begin with: one, if the target seems to be affine."""

    @classmethod
    def of(cls, target: Target) -> Directions | None:
        """From sampled gradients, or None if there are too many directions."""
        low, high = target.domain.lo.ravel(), target.domain.hi.ravel()
        centre, width = low + (high - low) / 2, (high - low) / 2
        rows = target.domain.sample(TUNING.points + TUNING.per_variable * len(low), np.random.default_rng(4))
        slopes = gradients(target, rows) * width  # (S, m, D)
        mean = slopes.mean(axis=0)
        _, sizes, axes = np.linalg.svd((slopes - mean).reshape(-1, len(low)), full_matrices=False)
        steep = float(np.abs(mean).max())
        rank = max(1, int((sizes > TUNING.same * max(float(sizes[0]), TUNING.same * steep)).sum()))
        first = TUNING.first if sizes[0] > TUNING.same * TUNING.same * steep else 1
        if rank > TUNING.most_axes or rank >= len(low):
            return None
        return cls(centre, (mean / width).T, axes[:rank] / width, np.abs(axes[:rank]).sum(axis=1), first)

    def coordinates(self, rows: Floats) -> Floats:
        """(S, D) -> (S, r)."""
        return (rows - self.centre) @ self.project.T


class SubspaceConstruction(Construction[Target, "_FittedTokens"]):
    """One head in the few directions that matter, beside an affine map."""

    name: ClassVar[str] = "subspace"
    theorem: ClassVar[str] = "solved values in an active subspace (attnfun)"
    treats_tokens_alone: ClassVar[bool] = True
    options: ClassVar[frozenset[str]] = frozenset({"tokens"})

    def serves(self, target: Target) -> bool:
        """Many variables, few directions."""
        if target.domain.size < TUNING.fewest_variables or isinstance(target, Lipschitz | PiecewiseLinear):
            return False
        return Directions.of(target) is not None

    def rivals(self, target: Target) -> bool:
        """Not for formulas: circuits know their directions exactly."""
        circuit = target.circuit()
        return circuit is None or not circuit.units

    def forecast(self, target: Target, request: PlanRequest) -> Forecast[_FittedTokens]:
        """The smallest size that is tried."""
        directions = Directions.of(target)
        tokens = (
            int(request.options.get("tokens", directions.first ** len(directions.project)))
            if directions
            else TUNING.first
        )
        return Forecast(tokens, 1, lambda: self.plan(target, request))

    def plan(self, target: Target, request: PlanRequest) -> Plan[_FittedTokens]:
        """Axes grow until scattered points, unseen by the solve, are met to within the aim."""
        bank = _FittedTokens(target, request)
        if request.aim is None:
            bank = bank.grown(bank.requested())
            return Plan(bank.tokens.size, bank.error, bank)
        tried = [bank.grown(bank.directions.first)]
        while tried[-1].error > request.aim:
            size = max(TUNING.first, int(np.ceil(TUNING.growth * tried[-1].size)))
            stalled = tried[-1].error > TUNING.stalled * min(each.error for each in tried[:-2]) if tried[2:] else False
            if (
                request.deadline.over
                or stalled
                or size > TUNING.largest
                or size ** len(bank.directions.project) > min(TUNING.most, request.budget)
            ):
                break
            tried.append(tried[-1].grown(size))
        best = min(tried, key=lambda each: each.error)
        return Plan(best.tokens.size, best.error, best)

    def build(self, target: Target, plan: Plan[_FittedTokens], dtype: str) -> Network:
        """Features: coordinates | one | the affine part, to which the head adds its value."""
        bank = plan.details
        rank, outputs, length = len(bank.directions.project), target.outputs, target.domain.tokens[0]
        width = rank + 1 + outputs
        weight = np.hstack([bank.directions.project.T, np.zeros((target.domain.size, 1)), bank.directions.slope])
        bias = np.concatenate([-bank.directions.project @ bank.directions.centre - bank.origin, [1.0]])
        bias = np.concatenate([bias, np.zeros(outputs)])
        read_in = Affine.tokenwise(weight, bias) if length == 1 else Affine.flatten(length, weight, bias)
        memory = np.hstack([bank.tokens.slopes, bank.tokens.offsets[:, None], bank.values])  # (N, r+1+m)
        select = np.eye(width)
        head = Attention.of(
            query=select[None, :, : rank + 1],
            key=select[None, :, : rank + 1],
            value=select[None, :, rank + 1 :],
            output=select[None, rank + 1 :],
            memory=memory,
            residual=True,
        )
        layers = [read_in, head, Affine.tokenwise(select[:, rank + 1 :], np.zeros(outputs))]
        if len(target.output_shape) == 2:
            layers.append(Affine.unflatten(*target.output_shape))
        return Network(tuple(rounded(layer, dtype) for layer in layers), length, dtype)

    def paper_tokens(self, target: Target, plan: Plan[_FittedTokens], eps: float) -> int:
        """[A] on a uniform grid, with a sampled slope."""
        rows = target.domain.sample(TUNING.points, np.random.default_rng(4))
        return paper_tokens(target.domain, steepest(gradients(target, rows)), eps)


@dataclass(eq=False)
class _FittedTokens:
    """Tokens of one size in the subspace; samples are kept from size to size."""

    target: Target
    request: PlanRequest
    size: int = TUNING.first

    @cached_property
    def directions(self) -> Directions:
        found = Directions.of(self.target)
        if found is None:
            raise InputError(f"the target must vary in at most {TUNING.most_axes} directions beside an affine part")
        return found

    def requested(self) -> int:
        """Tokens along an axis for a size requested."""
        tokens = self.request.requested_tokens()
        return max(1, whole_root(tokens, len(self.directions.project)))

    def grown(self, size: int) -> _FittedTokens:
        """A larger bank that knows the same samples."""
        rank = len(self.directions.project)
        numbers = TUNING.copies * (TUNING.samples[rank - 1] + 1) * float(size) ** (2 * rank)
        self.request.memory.require(numbers, f"the least squares for {size**rank} tokens", "Lower tokens= in options=.")
        bank = replace(self, size=size)
        bank.directions, bank.sampled, bank.checks = self.directions, self.sampled, self.checks
        return bank

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Uniform potentials, keys representable."""
        gamma, ghosts = TUNING.shape
        found = []
        for reach in self.directions.reach:
            mesh = Mesh.uniform(-float(reach), float(reach))
            tokens = mesh.tokens(self.size, gamma, min(ghosts, max(0, (self.size - 2) // 2)))
            found.append(Axis(mesh, tokens, mesh.origin, 0.0, np.empty(0), np.ones(1)))
        return representable(tuple(found), self.request.dtype)

    @cached_property
    def tokens(self) -> Tokens:
        return Tokens.product([axis.tokens for axis in self.axes])

    @property
    def origin(self) -> Floats:
        return np.array([axis.origin for axis in self.axes])

    @cached_property
    def sampled(self) -> tuple[Floats, Floats]:
        return np.empty((0, self.target.domain.size)), np.empty((0, self.target.outputs))

    @cached_property
    def checks(self) -> tuple[Floats, Floats]:
        return self._draw(TUNING.checks, seed=6)

    @cached_property
    def values(self) -> Floats:
        """Solved from scattered samples, (N, m)."""
        rows, data = self.sampled
        if (short := TUNING.samples[len(self.axes) - 1] * self.tokens.size - len(rows)) > 0:
            more = self._draw(short, seed=7 + len(rows))
            rows, data = np.vstack([rows, more[0]]), np.vstack([data, more[1]])
            self.sampled = rows, data
        scale = float(np.abs(data).max()) or 1.0
        aim = TUNING.finest * scale if self.request.aim is None else self.request.aim
        return solved(self._weights(rows), data, TUNING.ridge * aim / scale, np.ones(1))

    @cached_property
    def error(self) -> float:
        """The largest error at the checks."""
        rows, data = self.checks
        return float(np.abs(self._weights(rows) @ self.values - data).max())

    def _weights(self, rows: Floats) -> Floats:
        return self.tokens.weights(self.directions.coordinates(rows) - self.origin)

    def _draw(self, count: int, seed: int) -> tuple[Floats, Floats]:
        """Points whose coordinates spread over all that the domain reaches, and g there.

        Random points of a box in many dimensions stay near the middle of it in any direction. The corners `sign(ω P)`
        reach farthest in the directions ω; mixtures of two of them, moved towards the centre, reach everything between.
        Distances are those of Chebyshev points, denser at the ends.
        """
        low, high = self.target.domain.lo.ravel(), self.target.domain.hi.ravel()
        rng = np.random.default_rng(seed)
        towards = rng.normal(size=(2, count, len(self.directions.project))) @ self.directions.project  # (2, S, D)
        share, depth = np.sin(rng.uniform(0, np.pi / 2, (2, count, 1))) ** 2  # (S, 1)
        corners = np.where(towards > 0, high, low) - self.directions.centre
        mixed = self.directions.centre + depth * (share * corners[0] + (1 - share) * corners[1])
        rows = np.clip(mixed, low, high)
        return rows, self.target.values(rows) - rows @ self.directions.slope
