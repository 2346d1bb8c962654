"""Few tokens, solved values (attnfun's own; [T 2.2], [T 2.3], [T 6.1]).

**Construction.** Keys are tangents of a convex potential whose density follows the target's singularities
(`pieces/potentials.py`, `pieces/singularities.py`), moved by variable projection (`pieces/polish.py`); values are
solved by least squares (`pieces/solve.py`). On a product of axes, scores are sums over the axes, so softmax factors
exactly over the product,

    w_{i1..ir}(u) = Π_k w^{(k)}_{ik}(u_k),

and one solve per axis gives all values. A target that is a sum over groups of variables gets one head a group, and a
group that varies along one direction only gets a line (`pieces/parts.py`), cut at its corners (`pieces/kinks.py`,
`heads.py`), or followed by a chain of heads where it takes hundreds of tokens (`pieces/chains.py`). Keys are rounded to
the deployed arithmetic first and values are solved for the rounded keys. Queries come from the data token and keys from
memory alone (cross-attention): a data token among the keys would break the factorisation.

**Bound.** None in advance: the plan has the error measured at points between the samples, an estimate that the largest
error may exceed. The certificate is the bound.
Analytic targets need about log(1/eps) tokens per axis, where [A] needs 1/eps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import whole_root
from ..arithmetic.formats import FORMATS
from ..network import Network
from ..network.network import rounded
from ..pieces import lines
from ..pieces.chains import Chain, chain_of, chained
from ..pieces.densities import declared, mesh_of
from ..pieces.kinks import kinks
from ..pieces.lines import Axis, Search, representable
from ..pieces.parts import Part, parts_of
from ..pieces.resolution import Resolution, resolution
from ..pieces.singularities import Line, survey
from ..pieces.slices import Slices, sliced
from ..pieces.slopes import paper_tokens, sampled_slopes, steepest
from ..pieces.tokens import Tokens
from ..targets import Status, Target
from ..targets.callables import Lipschitz
from ..targets.piecewise import PiecewiseLinear
from .base import Construction, Forecast, Plan, PlanRequest, proof_work
from .heads import Corner, Head, assembled
from .sharpness import RECTIFIER

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SpectralTuning:
    """How axes and sums are sized. The error of the network is proved later."""

    lines: int = 12
    """Random lines per axis on which sizes are tried. By trial."""
    largest: int = 384
    """Tokens per axis, but for long lines. By trial: polish takes the cube of the tokens."""
    long: int = 150
    """From about so many tokens on, a line is followed by a chain of heads (`pieces/chains.py`) without polish. By
    trial: from there on chains are faster."""
    most_axes: int = 4
    """Axes of a product. The tokens of a product are those of its axes multiplied."""
    most_variables: int = 16
    """Variables of a black box, whose pairs are tried for interactions. For time."""
    shares: tuple[float, ...] = (1.0, 0.5, 0.25, 0.15)
    """The share of the tolerance that each of 1, 2, 3, 4 axes of a product gets. By trial: errors of axes add up in
    part."""
    provable: tuple[float, ...] = (0.9, 0.5, 0.3, 0.2)
    """The share of the tolerance that is planned for in so many variables: the closer, the more boxes a proof takes. By
    trial."""
    samples: tuple[int, ...] = (3, 2, 2)
    """Samples a token along each of 2, 3, 4 axes of a product. By trial."""
    unseen: float = 0.01
    """Interactions smaller than this fraction of the tolerance are left to the proof. A round number."""
    ridges: tuple[float, ...] = (1e-5, 1e-2)
    """Penalty on values as a fraction of the tolerance, beside the largest value of the function, for one head of one
    variable and for all else: large values make long proofs. By trial."""
    corner_share: float = 0.02
    """The fraction of the tolerance that corners may cost. A round number."""
    longest: int = 2**19
    """Tokens up to which long lines are resolved, whatever the budget: what they take is known then. For memory."""
    finest_tolerance: float = 1e-10
    """The tolerance, beside the largest value, that a network of a given size is made for. A round number."""


TUNING = SpectralTuning()


@dataclass(frozen=True, eq=False)
class Summand:
    """A part of the target, the axes of its product grid, and the corners at its ends."""

    part: Part
    axes: tuple[Axis, ...]
    slices: Slices | None = None
    """Several heads for one line, instead of one."""
    start: Corner | None = None
    end: Corner | None = None
    long: Resolution | None = None
    """How finely a long line must be resolved."""
    chain: Chain | None = None
    """The heads of a long line."""

    @property
    def size(self) -> int:
        """Number of tokens."""
        if self.chain:
            return self.chain.size
        return self.slices.size if self.slices else prod(axis.size for axis in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Tokens along each coordinate."""
        return tuple(axis.size for axis in self.axes) if self.part.rank > 1 else (self.size,)

    @property
    def heads(self) -> int:
        """Number of heads."""
        if self.chain:
            return len(self.chain.links)
        return len(self.slices.axes) if self.slices else 1


class SpectralConstruction(Construction[Target, tuple[Summand, ...]]):
    """Cross-attention with solved values, one head for each part of the target."""

    name: ClassVar[str] = "spectral"
    theorem: ClassVar[str] = "solved values on a polished Bregman bank (attnfun)"
    treats_tokens_alone: ClassVar[bool] = True
    options: ClassVar[frozenset[str]] = frozenset({"tokens", "density"})
    bears_rounding: ClassVar[bool] = True
    at_limit: ClassVar[str] = "use a larger eps, a shorter domain, or a finer dtype if there is one"

    def serves(self, target: Target) -> bool:
        """Few variables, or a black box that is a sum over few of them at a time.

        Not what is only declared (nothing is proved of solved values then) or linear in pieces.
        """
        if isinstance(target, Lipschitz | PiecewiseLinear) or target.domain.size > TUNING.most_variables:
            return False
        if target.domain.size <= TUNING.most_axes:
            return True
        return target.status is Status.ESTIMATED and all(
            part.rank <= TUNING.most_axes for part in parts_of(target, 0.0)
        )

    def rivals(self, target: Target) -> bool:
        """Not for a formula that is one smooth function of one affine form: circuits know that form exactly."""
        circuit = target.circuit()
        return target.domain.size == 1 or circuit is None or not circuit.alone

    def forecast(self, target: Target, request: PlanRequest) -> Forecast[tuple[Summand, ...]]:
        """What potentials need without polish, less what polish is known to save."""
        planner = _Planner(target, request)
        sizes = planner.outlook()
        tokens = len(sizes) * max(prod(size) for size in sizes)
        return Forecast(tokens, planner.depth, lambda: self._plan(planner), planner.work(sizes))

    def plan(self, target: Target, request: PlanRequest) -> Plan[tuple[Summand, ...]]:
        """The fewest tokens per axis that follow random lines to within a share of the aim."""
        return self._plan(_Planner(target, request))

    def _plan(self, planner: _Planner) -> Plan[tuple[Summand, ...]]:
        summands, errors = zip(*planner.summands(), strict=True)
        heads = sum(summand.heads for summand in summands)
        tokens = heads * max(summand.size // summand.heads for summand in summands)
        limit = max(summand.chain.limit if summand.chain else 0.0 for summand in summands)
        work = planner.work([summand.sizes for summand in summands])
        return Plan(tokens, sum(errors), summands, depth=planner.depth, limit=limit, work=work)

    def build(self, target: Target, plan: Plan[tuple[Summand, ...]], dtype: str) -> Network:
        """Solve for the values and put the heads together."""
        heads = [head for summand in plan.details for head in _heads(target, summand, dtype)]
        length = target.domain.tokens[0]
        constant = sum(
            (summand.slices.constant for summand in plan.details if summand.slices), np.zeros(target.outputs)
        )
        layers = assembled(heads, constant, length, target.output_shape)
        return Network(tuple(rounded(layer, dtype) for layer in layers), length, dtype)

    def paper_tokens(self, target: Target, plan: Plan[tuple[Summand, ...]], eps: float) -> int:
        """[A] on a uniform grid, with a sampled slope."""
        return paper_tokens(target.domain, steepest(sampled_slopes(target)), eps)


class _Planner:
    """Finds the parts of one target and sizes their axes."""

    def __init__(self, target: Target, request: PlanRequest) -> None:
        self.target, self.tokens = target, None
        self.densities = declared(request.options["density"], target.domain) if "density" in request.options else {}
        if request.aim is None:
            self.tokens = request.requested_tokens()
            sample = target.values(target.domain.sample(TUNING.lines, np.random.default_rng(0)))
            self.aim = TUNING.finest_tolerance * float(np.abs(sample).max() or 1.0)
        else:
            self.aim = TUNING.provable[min(target.domain.size, TUNING.most_axes) - 1] * request.aim
        self.dtype, self.deadline, self.budget = request.dtype, request.deadline, request.budget

    @cached_property
    def searches(self) -> list[tuple[Summand, list[Search]]]:
        """The pieces of all parts, with a search for each coordinate; none for long lines."""
        pieces = [piece for part in self.parts() for piece in self.pieces(part)]
        return [
            (
                piece,
                [self.search(piece.part, k, self.share(piece.part, len(pieces)), len(pieces)) for k in range(rank)],
            )
            for piece in pieces
            for rank in (0 if piece.long else piece.part.rank,)
        ]

    def share(self, part: Part, pieces: int) -> float:
        """The error that each axis of one of so many pieces may have."""
        return self.aim * TUNING.shares[part.rank - 1] / pieces

    @property
    def depth(self) -> int:
        """Attention layers: corners take one of their own."""
        return 1 + any(piece.start or piece.end for piece, _ in self.searches)

    def outlook(self) -> list[tuple[int, ...]]:
        """Tokens along each coordinate of each piece that will do at the least."""
        if self.tokens is not None:
            return [(self.tokens,)]
        return [
            (piece.long.tokens,) if piece.long else tuple(search.outlook(TUNING.largest) for search in found)
            for piece, found in self.searches
        ]

    def work(self, sizes: list[tuple[int, ...]]) -> float | None:
        """Of a proof, which cuts the domain along all axes that a piece reads, with the tokens of all pieces."""
        if self.tokens is not None:
            return None
        along = np.ones(self.target.domain.size)  # tokens along each axis of the domain
        for (piece, _), own in zip(self.searches, sizes, strict=True):
            for direction, tokens in zip(piece.part.project, own, strict=True):
                read = direction != 0
                along[read] = np.maximum(along[read], tokens)
        return proof_work(sum(map(prod, sizes)), float(along.prod()), along.size)

    def summands(self) -> Iterator[tuple[Summand, float]]:
        """The summands of the target, each with the error it is expected to have."""
        for piece, searches in self.searches:
            aim, most = self.share(piece.part, len(self.searches)), TUNING.largest
            if self.tokens is not None:
                most = max(1, whole_root(self.tokens // len(self.searches), piece.part.rank))
            if piece.long is not None:
                chain = self.chain(piece, aim, most)
                yield replace(piece, chain=chain), chain.error
                continue
            fits = [search.smallest(most) if self.tokens is None else search.sized(most) for search in searches]
            error = max(error for _, error in fits)
            whole = replace(piece, axes=tuple(axis for axis, _ in fits))
            if error > aim and self.tokens is None and piece.part.rank == 1 and FORMATS[self.dtype].coarse:
                slices, finer = sliced(searches[0], self.dtype)
                whole, error = (replace(piece, slices=slices), finer) if finer < error else (whole, error)
            if error > aim and self.tokens is None and self.may_be_long(piece.part):
                chain = self.chain(replace(piece, long=self.resolved(piece.part)), aim, most)
                whole, error = (replace(piece, chain=chain), chain.error) if chain.error < error else (whole, error)
            yield whole, error / TUNING.shares[piece.part.rank - 1]

    def may_be_long(self, part: Part) -> bool:
        """Long lines have densities of their own, and scores that formats of few bits cannot bear."""
        return part.rank == 1 and not self.densities and not FORMATS[self.dtype].store and not self.deadline.over

    def resolved(self, part: Part) -> Resolution:
        """How finely a line must be resolved."""
        low, high = float(part.low[0]), float(part.high[0])
        return resolution(self.line(part, 0), low, high, self.aim, TUNING.longest, self.deadline)

    def chain(self, piece: Summand, aim: float, most: int) -> Chain:
        """Heads for a long line, `most` tokens where a size was requested."""
        line, found = self.line(piece.part, 0), piece.long or self.resolved(piece.part)
        if self.tokens is not None:
            return chain_of(line, found, most, aim, self.dtype)
        return chained(line, found, aim, self.dtype, most=self.budget, deadline=self.deadline)

    def parts(self) -> list[Part]:
        """Densities are declared along axes, so that there are no other lines then."""
        return parts_of(self.target, TUNING.unseen * self.aim, lines=not self.densities)

    def pieces(self, part: Part) -> list[Summand]:
        """A part along one line is cut at its corners; f = Σ_k f_k(clip(u, t_k, t_{k+1})) - Σ_k f(t_k)."""
        whole = Summand(part, ())
        if part.rank > 1:
            return [whole]
        quick = self.target.evaluations is None  # a black box is not sampled thousands of times on suspicion
        if quick and self.may_be_long(part) and (self.tokens is None or self.tokens > TUNING.largest):
            found = self.resolved(part)
            if found.tokens > TUNING.long:
                return [replace(whole, long=found)]
        line, low, high = self.line(part, 0), float(part.low[0]), float(part.high[0])
        if not survey(line, low, high, self.aim, self.deadline).rough:
            return [whole]
        places = kinks(line, low, high, self.aim)
        steepest = float(np.abs(np.diff(line(np.linspace(low, high, 257)), axis=0)).max()) * 256 / (high - low)
        sharpness = 2.0 ** np.ceil(np.log2(RECTIFIER * max(steepest, 1e-300) / (TUNING.corner_share * self.aim)))
        corners = [Corner(part.project[0], float(place), float(sharpness)) for place in places]
        ends = np.concatenate([part.low, places, part.high])
        before = [np.zeros_like(part.constant), *line(places)] if len(places) else [np.zeros_like(part.constant)]
        return [
            Summand(
                replace(part, low=ends[k : k + 1], high=ends[k + 1 : k + 2], constant=part.constant + before[k]),
                (),
                start=corners[k - 1] if k > 0 else None,
                end=corners[k] if k < len(corners) else None,
            )
            for k in range(len(ends) - 1)
        ]

    def line(self, part: Part, axis: int) -> Line:
        """The part along one of its coordinates, the others at random places: (S,) -> (S, L*m)."""
        others = np.random.default_rng(axis).uniform(
            part.low, part.high, (TUNING.lines if part.rank > 1 else 1, part.rank)
        )
        others[0] = part.low  # (L, r)

        def values(points: Floats) -> Floats:
            rows = np.repeat(others[None], len(points), axis=0)  # (S, L, r)
            rows[:, :, axis] = points[:, None]
            return part.values(self.target, rows.reshape(-1, part.rank)).reshape(len(points), -1)

        return values

    def search(self, part: Part, axis: int, aim: float, pieces: int) -> Search:
        """The search for a bank along one coordinate that reaches `aim`."""
        line, low, high = self.line(part, axis), float(part.low[axis]), float(part.high[axis])
        density = self.densities.get(int(np.argmax(part.project[axis])))
        if density is None:
            seen = survey(line, low, high, aim, self.deadline)
            mesh, scale = seen.mesh(), seen.scale
        else:
            mesh = mesh_of(density, low, high)
            scale = float(np.abs(line(mesh.points(lines.TUNING.fewest_points))).max()) or 1.0
        ridge = TUNING.ridges[self.target.domain.size > 1 or pieces > 1] * aim / scale
        return Search(line, mesh, aim, self.dtype, ridge, alone=part.rank == 1, deadline=self.deadline)


def _heads(target: Target, summand: Summand, dtype: str) -> list[Head]:
    """One head for a summand, or one for each slice or link."""
    part, ends = summand.part, (summand.start, summand.end)
    if summand.chain is not None:
        return [
            Head(part.project, np.array([link.origin]), link.tokens.slopes, link.tokens.offsets, link.values, *ends)
            for link in summand.chain.links
        ]
    if summand.slices is None:
        return [_head(target, summand, dtype)]
    axes = summand.slices.axes
    values = summand.slices.solved(part.values(target, axes[0].samples[:, None]))
    return [
        Head(
            part.project,
            np.array([axis.origin]),
            axis.tokens.slopes,
            axis.tokens.offsets,
            own,
            *ends,
        )
        for axis, own in zip(axes, values, strict=True)
    ]


def _head(target: Target, summand: Summand, dtype: str) -> Head:
    """Round the keys, sample on a product of points, and solve for the values, one axis after the other."""
    axes = representable(summand.axes, dtype)
    if len(axes) > 1:
        axes = tuple(axis.thinned(TUNING.samples[len(axes) - 2] * axis.size + 1) for axis in axes)
    rows = _product([axis.samples for axis in axes])  # (S, r)
    values = summand.part.values(target, rows).reshape(*(len(axis.samples) for axis in axes), -1)  # (S_1, ..., S_r, m)
    for k, axis in enumerate(axes):
        first = np.moveaxis(values, k, 0)  # (S_k, ...)
        values = np.moveaxis(axis.solved(first.reshape(len(first), -1)).reshape(-1, *first.shape[1:]), 0, k)
    tokens = Tokens.product([axis.tokens for axis in axes])
    return Head(
        project=summand.part.project,
        origin=np.array([axis.origin for axis in axes]),
        slopes=tokens.slopes,
        offsets=tokens.offsets,
        values=values.reshape(-1, values.shape[-1]),
        start=summand.start,
        end=summand.end,
    )


def _product(columns: list[Floats]) -> Floats:
    """All combinations of entries, the last column fastest, (ΠN_k, r)."""
    return np.stack([column.ravel() for column in np.meshgrid(*columns, indexing="ij")], axis=1)
