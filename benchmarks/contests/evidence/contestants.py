"""Everybody who takes part, each a ladder of offers: attnfun, the papers' constructions, what is trained, and peers.

A contestant makes offers, from small to large, until its time is over or nobody asks for a better one. Peers and
trained networks see the function's values only, at up to 2^18 points; attnfun also reads the formula, without which
there is no proof, and takes part once more without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import attnfun as af
from attnfun.resources.deadline import Deadline

from .. import peers, sollya
from ..kolmogorov import GRIDS, grown
from ..peers import Fit, Floats
from .problem import Problem

MOST_SAMPLES, MOST_POLES = 2**18, 150
GROWTH = 1.2
"""From one size of a polynomial, a spline or a rational function to the next."""
AHEAD = 3.0
"""The next size is tried if so many times what the last one took is left."""
SCATTERED = (32, 64, 128, 256, 512, 1024, 2048, 4096)
HIDDEN, MEMORY = (16, 32, 64), (16, 64, 256)
CELLS = (16, 64, 256, 1024, 4096, 16384)
UNITS = (8, 16, 32, 64, 128, 256, 512)
ROW = 2**14
"""Numbers that a trained network may hold for one point."""
POOL, WHOLE = 2**14, 2**11
"""Samples that training draws from, and those of its polish."""


@dataclass(frozen=True)
class Offer:
    """An approximation, and what is known about it."""

    size: str
    fit: Fit
    bound: float | None = None
    """On the error, relative; infinite if none was found."""
    status: str = ""
    """Of the bound: proved, proved in real arithmetic, estimated or a priori (the paper's own); or empty."""
    tokens: int | None = None
    paper: float | None = None
    """Tokens that the paper's own bound asks for at this tolerance."""
    note: str = ""


Ladder = Callable[[Problem, Sequence[float], float], Iterator[Offer]]
"""Offers for a problem, given the tolerances and the seconds for all of them."""


@dataclass(frozen=True)
class Contestant:
    """A name, the sizes it tries in words, and its ladder."""

    name: str
    sizes: str
    offers: Ladder
    most_variables: int = 10**6
    must_prove: bool = False
    """Does only a proof count?"""
    light: bool = False
    """Is it also asked for many functions, of which only totals are told?"""
    ours: bool = False


def attnfun_reading(problem: Problem, tolerances: Sequence[float], seconds: float) -> Iterator[Offer]:
    """attnfun on the formula."""
    return _compiled(problem, tolerances, seconds, problem.formula, problem.domain)


def attnfun_sampling(problem: Problem, tolerances: Sequence[float], seconds: float) -> Iterator[Offer]:
    """attnfun on a function that it can only call."""

    def opaque(points: Any) -> Floats:
        rows = np.asarray(points, dtype=np.float64).reshape(-1, problem.variables)
        return problem.target.values(rows)[:, 0].reshape(np.shape(points)[:-1])

    return _compiled(problem, tolerances, seconds, opaque, list(problem.domain.values()))


def _compiled(
    problem: Problem, tolerances: Sequence[float], seconds: float, target: object, domain: object
) -> Iterator[Offer]:
    """One network for each tolerance, or the closest there is; what one leaves of the seconds is for the others."""
    before = time.process_time()
    for number, eps in enumerate(tolerances):
        note, left = "", max(0.0, seconds - (time.process_time() - before))
        limit = Deadline.after(left / (len(tolerances) - number), time.process_time)
        try:
            net = af.compile(target, domain, eps, relative=True, time_limit=limit)
        except af.errors.ToleranceNotMet as miss:
            net, note = miss.best, "closest" if miss.best else ""
        if net is not None:
            yield _ours(problem, net, note)


def _ours(problem: Problem, net: af.types.Compiled, note: str = "") -> Offer:
    """A network, its certificate and its resources; it is called as its users call it."""
    proof, network = net.certificate, net.network
    fit = Fit(lambda rows: net(problem.places(rows)) / problem.scale, network.parameters)
    size = f"{net.construction}, {network.tokens} tokens"
    paper = None if net.paper_tokens is None else float(net.paper_tokens)
    return Offer(size, fit, proof.bound / problem.scale, proof.status.value, network.tokens, paper, note)


def paper(construction: str, option: str, sizes: Sequence[int]) -> Ladder:
    """A construction of the papers at growing sizes; measured, and its bound for the tolerance where it has one."""

    def offers(problem: Problem, tolerances: Sequence[float], seconds: float) -> Iterator[Offer]:
        def made(size: int) -> Offer:
            net = af.compile(
                problem.formula, problem.domain, construction=construction, options={option: size}, proof=False
            )
            bound = None if net.paper_bound is None else net.paper_bound / problem.scale
            fit = Fit(lambda rows: net(problem.places(rows)) / problem.scale, net.network.parameters)
            words = f"{size} {'cells' if option == 'tokens' else option}"
            return Offer(words, fit, bound, "" if bound is None else "a priori", net.network.tokens)

        yield from paced(sizes, made, seconds)

    return offers


def peer(name: str, sizes: Callable[[int], Sequence[int]]) -> Ladder:
    """One of `contests.peers`."""

    def offers(problem: Problem, tolerances: Sequence[float], seconds: float) -> Iterator[Offer]:
        def made(size: int) -> Offer:
            return Offer(str(size), peers.FITS[name](problem.values, problem.variables, size))

        yield from paced(sizes(problem.variables), made, seconds)

    return offers


def paced(sizes: Sequence[int], made: Callable[[int], Offer], seconds: float) -> Iterator[Offer]:
    """Offers of growing sizes while there is time for the next."""
    spent = 0.0
    for size in sizes:
        before = time.process_time()
        offer = made(size)
        last = time.process_time() - before
        yield offer
        spent += last
        if spent + AHEAD * last > seconds:
            return


def geometric(start: int, most: int = MOST_SAMPLES) -> Callable[[int], list[int]]:
    """Sizes for an axis, growing by a fifth, while their product over all axes is small enough.

    >>> geometric(3, 100)(2)
    [3, 4, 5, 6, 7, 8, 9, 10]
    """

    def sizes(variables: int) -> list[int]:
        found = [start]
        while (size := max(found[-1] + 1, int(found[-1] * GROWTH))) ** variables <= most:
            found.append(size)
        return found

    return sizes


def trained_attention(problem: Problem, tolerances: Sequence[float], seconds: float) -> Iterator[Offer]:
    """The architecture of arXiv 2504.15956: one layer, memory tokens; Adam on batches of 32, in float32."""
    from attnfun.experiments.training import BATCH

    from ..training import OneLayer

    for memory in MEMORY:
        yield _trained(problem, lambda p=memory: OneLayer(1, problem.variables, p, 1), memory, BATCH, False, seconds)


def trained_perceptron(problem: Problem, tolerances: Sequence[float], seconds: float) -> Iterator[Offer]:
    """Two hidden layers; Adam on batches of 256, then L-BFGS, in float64."""
    from ..training import perceptron

    for hidden in HIDDEN:
        yield _trained(problem, lambda h=hidden: perceptron(problem.variables, h), hidden, 256, True, seconds)


def _trained(problem: Problem, make: Callable[[], Any], size: int, batch: int, polish: bool, seconds: float) -> Offer:
    """A third of the time for each size."""
    import torch

    from ..training import OneLayer, parameters, within

    points = peers.sites(POOL, problem.variables)
    dtype = torch.float64 if polish else torch.float32
    X, Y = torch.tensor(points, dtype=dtype), torch.tensor(problem.values(points), dtype=dtype)[:, None]
    single = isinstance(make(), OneLayer)  # it reads sequences of one token
    X = X[:, None] if single else X

    def batches() -> tuple[Any, Any]:
        chosen = torch.randint(POOL, (batch,))
        return X[chosen], Y[chosen]

    model = within(make, batches, seconds / len(MEMORY), (X[:WHOLE], Y[:WHOLE]) if polish else None)

    def values(rows: Floats) -> Floats:
        with torch.no_grad():
            inputs = torch.tensor(rows, dtype=dtype)
            return model(inputs[:, None] if single else inputs)[:, 0].double().numpy()

    return Offer(str(size), Fit(peers.in_parts(values, ROW), parameters(model)))


def trained_kan(problem: Problem, tolerances: Sequence[float], seconds: float) -> Iterator[Offer]:
    """pykan, whose own ladder is the refinement of its splines."""
    for grid, fit in grown(problem.values, problem.variables, seconds):
        yield Offer(str(grid), fit)


def sollya_polynomials(problem: Problem, tolerances: Sequence[float], seconds: float) -> Iterator[Offer]:
    """One of Sollya's polynomials for each tolerance, with its proved bound in real arithmetic."""
    ((variable, ends),) = problem.domain.items()
    for eps in tolerances:
        found = sollya.polynomial(problem.formula, (variable, *ends), problem.scale, eps, seconds / len(tolerances))
        if found is not None:
            size = f"degree {len(found.coefficients) - 1}"
            yield Offer(size, found.fit, found.bound, "proved in real arithmetic")


OURS, SAMPLED = "attnfun", "attnfun, values only"
CONTESTANTS = (
    Contestant(OURS, "its own choice", attnfun_reading, must_prove=True, light=True, ours=True),
    Contestant(SAMPLED, "its own choice", attnfun_sampling, light=True, ours=True),
    Contestant("arXiv 2504.19901, one head", f"cells {CELLS}", paper("grid", "tokens", CELLS)),
    Contestant("arXiv 2504.15956, two layers", f"rectifiers {UNITS}", paper("two-layer", "units", UNITS)),
    Contestant("attention, trained", f"memory tokens {MEMORY}", trained_attention),
    Contestant("MLP, trained", f"hidden units in both layers {HIDDEN}", trained_perceptron),
    Contestant("KAN (pykan), trained", f"intervals of its splines {GRIDS}", trained_kan),
    Contestant("Chebyshev", "points an axis, growing by a fifth", peer("Chebyshev", geometric(3)), light=True),
    Contestant(
        "AAA", "support points, growing by a fifth", peer("AAA", geometric(2, MOST_POLES)), most_variables=1, light=True
    ),
    Contestant("Sollya", "its own guess of the degree", sollya_polynomials, most_variables=1, must_prove=True),
    Contestant("cubic spline", "points an axis, growing by a fifth", peer("spline", geometric(4)), light=True),
    Contestant("RBF (SciPy)", f"points {SCATTERED}", peer("RBF", lambda _: SCATTERED), light=True),
    Contestant("GP (scikit-learn)", f"points {SCATTERED}", peer("GP", lambda _: SCATTERED)),
)
