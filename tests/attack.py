"""Attacks on certificates: points chosen to beat a bound, norms bounded from below, truth in ball arithmetic.

Points are random, at corners, at ties between tokens, at the formula's own breakpoints, between those, at neighbours of
all of them in float64 and in the network's dtype, and where a climb ends. Floats only choose: a bound is beaten when
`balls.py` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from math import inf, isinf, log, log1p
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from flint import arb

import attnfun as af
from attnfun.arithmetic.formats import FORMATS, round_to
from attnfun.domains.box import Box
from attnfun.network import Attention
from attnfun.network.reference import apply
from attnfun.proofs.search import corners
from attnfun.runtime.backends.numpy import run as run_densely
from balls import PRECISIONS, BallNetwork, Formula, ball, exact, in_floats, precision

SAMPLES = 129
"""Places along a line where the order of two expressions is looked at."""
MOST_BREAKPOINTS = 24
"""Breakpoints of one line that are followed."""
MOST_WORK = 750_000
"""Work that an attack in a norm is given at most, in numbers that balls compute."""
LOGARITHMS = 1 - 1e-9
"""More than covers what logarithms of floats lose."""
DOUBT, CAP = 1e-12, 4.0
"""Probability that a sampled norm is too large, at most; how many times its largest mean a sample may count, over p."""
JUDGED = 6
"""Points a back end that ball arithmetic looks at, besides all breakpoints."""


def hostile_points(net: af.types.Compiled, count: int, seed: int) -> np.ndarray:
    """Rows (B, D) inside the domain, in float64."""
    rng = np.random.default_rng(seed)
    low, high = net.domain.lo.ravel(), net.domain.hi.ravel()
    random = net.domain.sample(count, rng)
    ties = _ties(net, random, rng)
    edges = random.copy()
    axis = rng.integers(0, net.domain.size, count)
    edges[np.arange(count), axis] = np.where(rng.integers(0, 2, count) == 1, high[axis], low[axis])
    rows = np.vstack([random, ties, edges, corners(net.domain)])
    rows = np.vstack([rows, np.nextafter(rows, np.inf), np.nextafter(rows, -np.inf)])
    rows = np.clip(rows, low, high)
    return rows[net.domain.contains(rows)]


def _ties(net: af.types.Compiled, random: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points where two keys have equal scores, or where a piecewise-linear target has a kink, or close to that."""
    count, centre = len(random), ((net.domain.lo + net.domain.hi) / 2).ravel()
    maxima = net.certificate.claim.target.maxima()
    if maxima is not None:
        planes = maxima.groups.coefficients  # (G, N, 1+P)
        planes = planes[~planes[..., 1 + net.domain.size :].any(axis=(1, 2))][..., : 1 + net.domain.size]
        group, one, two = (rng.integers(0, size, count) for size in (len(planes), *planes.shape[1:2] * 2))
        plane = planes[group, one] - planes[group, two]
        change, offset = plane[:, 1:], plane[:, 0] + rng.normal(size=count) * 10.0 ** rng.uniform(-12, 0, count)
        centre = np.zeros_like(centre)
    else:
        keys = net.network.attention[0].keys()[0]  # (M, k)
        if len(keys) == 0:
            return random
        pick = rng.integers(0, len(keys), (count, 2))
        gap = keys[pick[:, 0]] - keys[pick[:, 1]]
        queries = _queries(net, np.vstack([centre, centre + np.eye(net.domain.size)]))  # affine in x: (1+D, k)
        change, offset = gap @ (queries[1:] - queries[0]).T, gap @ queries[0]
    near = random - centre
    gap = (change * near).sum(axis=1) + offset
    norm = np.maximum((change**2).sum(axis=1), 1e-300)
    return centre + near - change * (gap / norm)[:, None]


def _queries(net: af.types.Compiled, rows: np.ndarray) -> np.ndarray:
    """What the first token asks the first head of the first attention layer, (B, D) -> (B, k)."""
    tokens = rows.reshape(len(rows), *net.network.shape_in)
    for layer in net.network.layers:
        if isinstance(layer, Attention):
            return tokens[:, 0] @ layer.query[0] + layer.query_bias[0]
        tokens = apply(layer, tokens)
    raise AssertionError("a network without attention")


def climb(error, rows: np.ndarray, low: np.ndarray, high: np.ndarray, seed: int, steps: int = 25) -> np.ndarray:
    """Random ascent of `error` from the worst rows; the points reached."""
    rng = np.random.default_rng(seed)
    best = rows[np.argsort(-error(rows))[:64]]
    value, step = error(best), np.full(len(best), 0.05)
    for _ in range(steps):
        tries = np.clip(best + step[:, None] * (high - low) * rng.normal(size=best.shape), low, high)
        new = error(tries)
        better = new > value
        best, value = np.where(better[:, None], tries, best), np.where(better, new, value)
        step = np.where(better, step, step / 2)
    return best


# ---------------------------------------------------------------- a formula's own breakpoints


def breakpoints(truth: Formula, base: np.ndarray, axis: int, low: float, high: float) -> np.ndarray:
    """Places along an axis, through the point `base`, where a comparison, a maximum or a sign switches.

    Changes of sign on a grid are bisected in ball arithmetic until two neighbouring floats are left, so that windows
    narrower than the grid are found: each of their two ends is a change by itself.
    """
    line = np.linspace(low, high, SAMPLES)
    rows = np.repeat(base[None], SAMPLES, axis=0)
    rows[:, axis] = line
    found: set[float] = set()
    for left, right in truth.switches():
        signs = np.sign(_difference(left, right, truth)(rows))
        order = _order(left, right, truth, base, axis)
        found.update(line[signs == 0][:4].tolist())
        for k in np.flatnonzero(signs[:-1] * signs[1:] < 0)[:4]:
            found.update(_bisected(order, float(line[k]), float(line[k + 1])))
    spots = np.array(sorted(found))
    return spots if len(spots) <= MOST_BREAKPOINTS else spots[:: len(spots) // MOST_BREAKPOINTS + 1]


def _difference(left: Any, right: Any, truth: Formula) -> Callable[[np.ndarray], np.ndarray]:
    a = in_floats(left, truth.names)
    b = in_floats(right, truth.names) if right is not None else lambda rows: np.zeros(len(rows))
    return lambda rows: a(rows) - b(rows)  # type: ignore[operator]


def _order(left: Any, right: Any, truth: Formula, base: np.ndarray, axis: int) -> Callable[[float], int]:
    """The sign of `left - right` at a place along the line; 0 where it is zero or balls cannot tell."""
    a, b = truth.number(left), truth.number(right) if right is not None else lambda _: exact(0)
    point = [exact(x) for x in base.tolist()]

    def order(place: float) -> int:
        point[axis] = exact(place)
        with precision(PRECISIONS[0]):
            x, y = a(point), b(point)
            return int(x > y) - int(x < y)

    return order


def _bisected(order: Callable[[float], int], low: float, high: float) -> list[float]:
    """Two neighbouring floats between which the order changes, or one at which it is undecided."""
    before = order(low)
    while low < (middle := low + (high - low) / 2) < high:
        here = order(middle)
        if here == 0:
            return [middle]
        low, high = (middle, high) if here == before else (low, middle)
    return [low, high]


def _inside(spots: np.ndarray, low: float, high: float, rng: np.random.Generator) -> np.ndarray:
    """Places between neighbouring breakpoints: the middle, near both ends, and anywhere."""
    ends = np.concatenate([[low], spots, [high]])
    shares = np.concatenate([[0.5, 0.25, 0.75, 1e-3, 1 - 1e-3], rng.random(3)])
    return (ends[:-1, None] + (ends[1:] - ends[:-1])[:, None] * shares).ravel()


def breakpoint_rows(net: af.types.Compiled, truth: Formula, seed: int, lines: int = 8) -> np.ndarray:
    """Rows (B, D) at breakpoints along lines parallel to the axes, between them, and next to them."""
    rng = np.random.default_rng(seed)
    low, high = net.domain.lo.ravel(), net.domain.hi.ravel()
    parts = [corners(net.domain)]
    for number in range(1 if net.domain.size == 1 else lines):
        axis = number % net.domain.size
        base = (
            net.domain.sample(1, rng)[0] if number % 3 else low + (high - low) * rng.choice([0.0, 0.5, 1.0], len(low))
        )
        spots = breakpoints(truth, base, axis, low[axis], high[axis])
        places = np.concatenate([spots, _inside(spots, low[axis], high[axis], rng), [low[axis], high[axis]]])
        places = np.concatenate([places, _neighbours(places, net.network.dtype)])
        rows = np.repeat(base[None], len(places), axis=0)
        rows[:, axis] = places
        parts.append(rows)
    rows = np.unique(np.vstack(parts), axis=0)
    return rows[net.domain.contains(rows)]


def _neighbours(places: np.ndarray, dtype: str) -> np.ndarray:
    """Float neighbours, neighbours in the dtype, and the ties between those."""
    near = [np.nextafter(places, np.inf), np.nextafter(places, -np.inf)]
    if dtype != "float64":
        held = round_to(places, dtype)
        step = np.ldexp(1.0, np.frexp(held)[1] - FORMATS[dtype].bits)
        ties = [held + share * step for share in (-1.0, -0.5, 0.5, 1.0)]
        near += [held, *ties, *(np.nextafter(tie, end) for tie in ties[1:3] for end in (np.inf, -np.inf))]
    return np.concatenate(near)


# ---------------------------------------------------------------- back ends


def by_call(net: af.types.Compiled, rows: np.ndarray) -> np.ndarray:
    """`net(x)`."""
    return np.asarray(net(net.domain.unflatten(rows))).reshape(len(rows), -1)


def by_dense(net: af.types.Compiled, rows: np.ndarray) -> np.ndarray:
    """Plain attention in NumPy."""
    return run_densely(net.network, rows.reshape(len(rows), *net.network.shape_in)).reshape(len(rows), -1)


def inputs_of(net: af.types.Compiled, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Points as exports take them, by name: one array, or one for each of two inputs."""
    if net.network.keyed:
        return dict(zip(net.domain.inputs, net.domain.separate(rows), strict=True))
    return {"points": net.domain.unflatten(rows)}


def by_torch(net: af.types.Compiled, rows: np.ndarray) -> np.ndarray:
    """The PyTorch module, in parts."""
    import torch

    module, dtype = _module(net), getattr(torch, net.network.dtype)
    part = max(1, 2_000_000 // max(net.network.tokens, 1))
    given = [torch.tensor(points, dtype=dtype) for points in inputs_of(net, rows).values()]
    with torch.no_grad():
        parts = [module(*(points[k : k + part] for points in given)) for k in range(0, len(rows), part)]
    return torch.cat(parts).double().numpy().reshape(len(rows), -1)


@lru_cache(maxsize=1)
def _module(net: af.types.Compiled) -> Any:
    return net.to_torch()


def by_onnx(net: af.types.Compiled, rows: np.ndarray) -> np.ndarray:
    """ONNX Runtime."""
    given = {name: points.astype(net.network.dtype) for name, points in inputs_of(net, rows).items()}
    return _session(net).run(["values"], given)[0].reshape(len(rows), -1)


@lru_cache(maxsize=1)
def _session(net: af.types.Compiled) -> Any:
    import onnxruntime

    with TemporaryDirectory() as folder:
        net.to_onnx(Path(folder, "f.onnx"))
        return onnxruntime.InferenceSession(Path(folder, "f.onnx"), providers=["CPUExecutionProvider"])


BACKENDS = {"call": by_call, "dense": by_dense, "torch": by_torch, "onnx": by_onnx}


# ---------------------------------------------------------------- attacks


@dataclass(frozen=True)
class Verdict:
    """The largest error found, or a norm that is surely reached, over the bound; where, by whom, at how many points."""

    ratio: float
    point: list[float] | None
    backend: str
    points: int

    @property
    def beaten(self) -> bool:
        """Is the certificate false?"""
        return self.ratio > 1


def error_at(truth: Formula, row: np.ndarray, output: np.ndarray, bound: float) -> float:
    """A number that |truth - output| surely reaches, largest over outputs; infinite for outputs that are not finite."""
    return max(errors_at(truth, row, output, bound))


def errors_at(truth: Formula, row: np.ndarray, output: np.ndarray, bound: float) -> list[float]:
    """The same of each output."""
    if not np.isfinite(output).all():
        return [inf] * len(output)
    point, least = [exact(x) for x in row.tolist()], [0.0] * len(output)
    for bits in PRECISIONS:
        with precision(bits):
            gaps = [ball(value) - ball(exact(y)) for value, y in zip(truth(point), output.tolist(), strict=True)]
            known = [gap.is_finite() for gap in gaps]  # where the formula is undefined nothing is claimed
            least = [
                max(old, float(gap.abs_lower())) if sure else old
                for old, gap, sure in zip(least, gaps, known, strict=True)
            ]
            limit = max(bound, *least) * 1e-9
            if all(gap.rad() <= limit for gap, sure in zip(gaps, known, strict=True) if sure):
                break
    return least


def attack(
    net: af.types.Compiled,
    truth: Formula,
    count: int = 500,
    seed: int = 0,
    backends: tuple[str, ...] = ("call", "torch"),
) -> Verdict:
    """Look for points where the network is further from the formula than its certificate says, in the sup norm."""
    bound, low, high = net.certificate.bound, net.domain.lo.ravel(), net.domain.hi.ravel()
    columns = [in_floats(part, truth.names) for part in truth.parts]

    def distances(rows: np.ndarray, output: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = np.stack([column(rows) for column in columns], axis=1)  # type: ignore[operator]
            gaps = np.abs(output.astype(np.float64) - values)
        gaps = np.where(np.isfinite(output), np.where(np.isfinite(gaps), gaps, 0.0), inf)
        return gaps.max(axis=1)

    special = breakpoint_rows(net, truth, seed)
    hostile = hostile_points(net, max(count // 12, 8), seed)

    def gained(rows: np.ndarray) -> np.ndarray:
        gaps, inside = np.full(len(rows), -inf), net.domain.contains(rows)
        if inside.any():
            gaps[inside] = distances(rows[inside], by_call(net, rows[inside]))
        return gaps

    climbed = climb(gained, hostile, low, high, seed, steps=12)
    rows, worst = np.vstack([special, climbed, hostile]), Verdict(0.0, None, "", 0)
    for name in backends:
        part = rows if name in ("call", "torch") else rows[: len(special) + 200]
        output = BACKENDS[name](net, part)
        far = np.argsort(-distances(part, output), kind="stable")[:JUDGED]
        judged = np.unique(np.concatenate([far, np.arange(min(len(special), 400))])) if name == backends[0] else far
        if name != backends[0]:  # what breakpoints say by another back end than the first
            judged = np.unique(np.concatenate([far, np.arange(0, len(special), 5)]))
        for k in judged:
            ratio = _ratio(error_at(truth, part[k], output[k].astype(np.float64), bound), bound)
            if ratio > worst.ratio:
                worst = Verdict(ratio, part[k].tolist(), name, 0)
    points = sum(len(rows) if name in ("call", "torch") else len(special) + 200 for name in backends)
    return Verdict(worst.ratio, worst.point, worst.backend, points)


def _ratio(error: float, bound: float) -> float:
    return error / bound if bound > 0 else inf if error > 0 else 0.0


def norm_from_below(net: af.types.Compiled, truth: Formula, seed: int = 0, work: int = 1_500_000) -> Verdict:
    """The L_p error of the network in real arithmetic, from below, over the certificate's bound.

    The domain is cut at breakpoints, then where the most is unknown. On each box balls enclose |truth - network|; the
    sum over boxes of volume times the p-th power of the lower ends is a lower bound of the p-th power of the norm.
    Cutting ends when the bound is beaten, or when the work is done.
    """
    p, bound = arb(net.certificate.norm), arb(net.certificate.bound)
    network = BallNetwork(net.network)
    most = max(24, work // (network.work + 20 * len(truth.text)))
    names = truth.variables(truth.root)
    used = np.array([name in names for name in truth.names])
    extent = np.where(used if used.any() else True, (net.domain.hi - net.domain.lo).ravel(), inf)
    with precision(PRECISIONS[0]):
        waiting, outputs = [], len(truth.parts)
        sure = [arb(0)] * outputs

        def note(low: np.ndarray, high: np.ndarray, number: int) -> None:
            ends = [(exact(a), exact(b)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
            box = [ball(a).union(ball(b)) for a, b in ends]
            volume = arb(1)
            for a, b in ends:
                volume *= ball(b - a)
            gaps = [ball(f) - y for f, y in zip(truth(box), network(box), strict=True)]
            shares = [
                (volume * gap.abs_lower() ** p, volume * gap.abs_upper() ** p)
                if gap.is_finite()
                else (arb(0), arb("inf"))
                for gap in gaps
            ]
            for k, (least, _) in enumerate(shares):
                sure[k] = sure[k] + least
            unknown = max(_logarithm(largest - least) for least, largest in shares)
            heappush(waiting, (-unknown, number, low, high, shares))

        for number, (low, high) in enumerate(_first_boxes(net, truth, seed)):
            note(low, high, number)
        number = len(waiting)
        while waiting and number < most:
            norms = [total ** (1 / p) for total in sure]
            if any(norm > bound for norm in norms):
                break
            _, _, low, high, shares = heappop(waiting)
            axis = int(np.argmax((high - low) / extent))
            middle = low[axis] + (high[axis] - low[axis]) / 2
            if not low[axis] < middle < high[axis]:
                continue
            for k, (least, _) in enumerate(shares):
                sure[k] = sure[k] - least
            left, right = high.copy(), low.copy()
            left[axis] = right[axis] = middle
            note(low, left, number)
            note(right, high, number + 1)
            number += 2
        norm = max(float((total ** (1 / p)).lower() / bound) if total > 0 else 0.0 for total in sure)
    return Verdict(norm if bound > 0 else inf if norm > 0 else 0.0, None, "norm", number)


def norm_as_deployed(
    net: af.types.Compiled, truth: Formula, count: int, seed: int = 0, backends: tuple[str, ...] = ("call", "torch")
) -> Verdict:
    """The L_p error of the network as it runs, over the certificate's bound; too large with probability DOUBT at most.

    With X = (|truth - network| |Ω|^{1/p} / bound)^p at a random point, the bound says E X <= 1, and E min(X, cap) <= 1.
    Of that mean `least_mean` gives a lower bound from a sample, for each output. Floats choose; where they say that the
    bound is beaten, every error is found again, from below, in ball arithmetic.
    """
    p, bound, domain = net.certificate.norm, net.certificate.bound, net.domain
    cap = CAP * p
    if bound == 0:
        return Verdict(0.0, None, "norm", 0)
    rows = Box.sample(domain, count, np.random.default_rng([seed, 1]))  # (B, D)
    rows, worst = rows[domain.contains(rows)], 0.0  # what is outside counts as zero
    scale = float(np.log(domain.hi - domain.lo).sum()) - p * log(bound)  # of the volume over the power of the bound
    values = [in_floats(part, truth.names) for part in truth.parts]

    def least(gaps: np.ndarray) -> float:
        """The norm from below, over the bound, from gaps (B, m)."""
        with np.errstate(all="ignore"):
            sizes = np.exp(np.minimum(p * np.log(gaps) + scale, log(cap))) * LOGARITHMS / cap
        mean = float(sizes.sum(axis=0).max(initial=0.0)) / count
        return (cap * least_mean(mean, count, DOUBT / len(values) / len(backends))) ** (1 / p)

    for name in backends:
        output = BACKENDS[name](net, rows).astype(np.float64)
        with np.errstate(all="ignore"):
            gaps = np.abs(output - np.stack([value(rows) for value in values], axis=1))  # type: ignore[operator]
        ratio = least(np.where(np.isfinite(output), np.where(np.isfinite(gaps), gaps, 0.0), inf))
        if ratio > 1:
            each = zip(rows, output, strict=True)
            ratio = least(np.array([errors_at(truth, row, values, bound) for row, values in each]))
        worst = max(worst, ratio)
    return Verdict(worst, None, "norm", len(backends) * count)


def least_mean(mean: float, count: int, doubt: float) -> float:
    """A number that the expectation of a variable in [0, 1] is below with probability at most `doubt`.

    The mean of `count` samples is q or larger with probability at most `exp(-count KL(q, μ))`, q above the expectation
    μ (Hoeffding 1963, theorem 1), so that expectations for which this is less than the doubt are excluded.
    """
    low, high = 0.0, mean
    for _ in range(100):
        middle = (low + high) / 2
        if not 0 < middle < mean:
            break
        distance = mean * log(mean / middle) + (1 - mean) * (log1p(-mean) - log1p(-middle) if mean < 1 else 0.0)
        low, high = (middle, high) if count * distance > -log(doubt) else (low, middle)
    return low


def _logarithm(size: arb) -> float:
    """For sorting: of numbers far beyond floats."""
    top = size.upper()
    return inf if not top.is_finite() else float(top.log().mid()) if top > 0 else -inf


def _first_boxes(net: af.types.Compiled, truth: Formula, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The domain cut at the breakpoints of each axis, as far as that makes few boxes."""
    low, high = net.domain.lo.ravel(), net.domain.hi.ravel()
    base, cuts = low + (high - low) / 2, []
    for axis in range(net.domain.size):
        spots = breakpoints(truth, base, axis, low[axis], high[axis])
        most = {1: 40, 2: 6}.get(net.domain.size, 2)
        spots = spots if len(spots) <= most else spots[:: len(spots) // most + 1]
        cuts.append(np.unique(np.concatenate([[low[axis]], spots, [high[axis]]])))
    grids = [np.array(grid).reshape(net.domain.size, -1).T for grid in (
        np.meshgrid(*(cut[:-1] for cut in cuts), indexing="ij"), np.meshgrid(*(cut[1:] for cut in cuts), indexing="ij")
    )]  # fmt: skip
    return list(zip(*grids, strict=True))


def beyond(net: af.types.Compiled, truth: Formula, ends: tuple[float, float], seed: int = 0) -> Verdict:
    """Points outside of the domain, which calls clip, up to the largest floats, against the bound that holds there."""
    rng, (low, high), bound = np.random.default_rng([seed, 2]), ends, net.beyond(*ends)
    first, last = net.domain.lo.ravel()[0], net.domain.hi.ravel()[0]
    far = np.concatenate([2.0 ** np.arange(-60, 1023, 9), 10.0 ** rng.uniform(-3, 4, 64)])
    places = np.unique(np.concatenate([_neighbours(np.array([first, last]), "float64"), first - far, last + far]))
    rows = places[(low <= places) & (places <= high)][:, None]
    output, worst = by_call(net, rows), Verdict(0.0, None, "", 0)
    for row, values in zip(rows, output.astype(np.float64), strict=True):
        ratio = _ratio(error_at(truth, row, values, bound), bound)
        if ratio > worst.ratio:
            worst = Verdict(ratio, row.tolist(), "call", 0)
    return replace(worst, points=len(rows))


def worse(one: Verdict, other: Verdict) -> Verdict:
    """The larger ratio of two attacks, at the points of both."""
    return replace(max(one, other, key=lambda verdict: verdict.ratio), points=one.points + other.points)


def judge(
    net: af.types.Compiled,
    truth: Formula,
    count: int = 500,
    seed: int = 0,
    backends: tuple[str, ...] = ("call", "torch"),
) -> Verdict:
    """The attack that suits the certificate's norm; `count` says how much work goes into it."""
    if isinf(net.certificate.norm):
        return attack(net, truth, count, seed, backends)
    exact_norm = norm_from_below(net, truth, seed, work=min(3000 * count, MOST_WORK))
    deployed = norm_as_deployed(net, truth, max(2 * count, 500), seed, backends[:2])
    return worse(exact_norm, deployed)
