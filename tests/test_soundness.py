"""No point beats a certificate, ever: every case, dtype and back end under attack."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnfun as af
from attack import climb, hostile_points, inputs_of
from attnfun.network.reference import softmax
from attnfun.proofs.mixture import exponentials, largest_average
from attnfun.runtime.backends.numpy import run as dense
from cases import CASES, Case
from clocks import readings
from test_targets import formulas

CERTIFIED = [(case, name) for case in CASES if case.status != "estimated" for name in case.constructions]
FIRST = {name: case for case, name in reversed(CERTIFIED)}
"""One case of every construction, which meets every dtype and both frameworks; the others take turns."""


def by_numpy(net: af.types.Compiled, rows: np.ndarray) -> np.ndarray:
    return net(net.domain.unflatten(rows)).reshape(len(rows), -1)


def by_dense(net: af.types.Compiled, rows: np.ndarray) -> np.ndarray:
    return dense(net.network, rows.reshape(len(rows), *net.network.shape_in)).reshape(len(rows), -1)


@lru_cache(maxsize=1)
def torch_module(net: af.types.Compiled) -> torch.nn.Module:
    return net.to_torch()


def by_torch(net: af.types.Compiled, rows: np.ndarray) -> np.ndarray:
    dtype = getattr(torch, net.network.dtype)
    given = (torch.tensor(points, dtype=dtype) for points in inputs_of(net, rows).values())
    with torch.no_grad():
        return torch_module(net)(*given).numpy().reshape(len(rows), -1)


@lru_cache(maxsize=1)
def onnx_session(net: af.types.Compiled) -> onnxruntime.InferenceSession:
    with TemporaryDirectory() as folder:
        net.to_onnx(Path(folder, "f.onnx"))
        return onnxruntime.InferenceSession(Path(folder, "f.onnx"), providers=["CPUExecutionProvider"])


def by_onnx(net: af.types.Compiled, rows: np.ndarray) -> np.ndarray:
    given = {name: points.astype(net.network.dtype) for name, points in inputs_of(net, rows).items()}
    return onnx_session(net).run(["values"], given)[0].reshape(len(rows), -1)


def dtypes(number: int, case: Case, name: str) -> list[str]:
    """The dtypes that a certified case is attacked in: both, or by turns where several constructions serve the case."""
    both = list(dict.fromkeys(map(case.fitting, ("float64", "float32"))))
    return both if case is FIRST[name] or len(case.constructions) == 1 else [both[number % len(both)]]


ATTACKS = [
    pytest.param(case, name, dtype, run, id=f"{case}-{name}-{dtype}-{run.__name__}")
    for number, (case, name) in enumerate(CERTIFIED)
    for dtype in dtypes(number, case, name)
    for run in (by_numpy, by_torch, by_onnx)
    if run is by_numpy or case is FIRST[name] or run is (by_torch, by_onnx)[number % 2]
]


@pytest.mark.parametrize(("case", "construction", "dtype", "run"), ATTACKS)
def test_no_point_beats_the_bound(case, construction, dtype, run, compiled):
    net = compiled(case, dtype, construction)
    target = net.certificate.claim.target

    def error(rows: np.ndarray) -> np.ndarray:
        inside, errors = net.domain.contains(rows), np.zeros(len(rows))
        if inside.any():
            rows = rows[inside]
            errors[inside] = np.abs(run(net, rows).astype(np.float64) - target.values(rows)).max(axis=1)
        return errors

    rows = hostile_points(net, 400, seed=7)
    rows = np.vstack([rows, climb(error, rows, net.domain.lo.ravel(), net.domain.hi.ravel(), seed=8)])
    assert error(rows).max() <= net.certificate.bound
    assert net.certificate.status.value == case.status
    assert net.certificate.bound <= case.eps
    if run is by_numpy:  # fast kernels and dense attention, from one set of weights
        rows = rows[net.domain.contains(rows)]
        apart = np.abs(run(net, rows).astype(np.float64) - by_dense(net, rows)).max()
        assert apart <= net.certificate.allowance + 2 * net.certificate.parts["rounding"]


def test_a_million_points_stay_under_the_bound():
    net = af.compile("sin(3*x)*y", domain={"x": (-1, 1), "y": (-1, 1)}, eps=0.1)
    assert net.certificate.proved
    assert net.certificate.bound <= 0.1
    points = net.domain.sample(1_000_000, np.random.default_rng(0))
    assert np.abs(net(points) - np.sin(3 * points[:, 0]) * points[:, 1]).max() <= net.certificate.bound


@pytest.mark.parametrize(("construction", "eps"), [("grid", 5e-3), ("spectral", 1e-3)])
def test_a_bump_between_all_samples_is_not_overlooked(construction, eps):
    """A tent of height 0.01 and width 2e-5: no sample meets it, so only the proof can."""
    text, domain = "sin(x) + 1000*max(0.00001 - abs(x - 0.3), 0)", {"x": (-1, 1)}
    try:
        net = af.compile(text, domain, eps, construction=construction, time_limit=readings(4000))
    except af.errors.ToleranceNotMet as missed:
        net = missed.best
    assert net.certificate.status is af.types.Status.PROVED
    assert abs(net(0.3) - (np.sin(0.3) + 0.01)) <= net.certificate.bound


@settings(max_examples=25)
@given(formulas(depth=3), st.integers(0, 2**31))
def test_random_formulas(text, seed):
    domain = {"x": (-1, 1), "y": (0.5, 1.5)}
    sample = np.random.default_rng(seed).uniform([-1, 0.5], [1, 1.5], (500, 2))
    target = af.compile(text, domain, options={"tokens": 30}, proof=False, construction="grid").certificate.claim.target
    scale = max(np.ptp(target.values(sample)), 1e-3)
    dtype = "float32" if seed % 2 else "float64"
    try:
        net = af.compile(text, domain, 0.5 * scale, dtype=dtype, time_limit=readings(1000), budget=2000)
    except af.errors.ToleranceNotMet as missed:
        net = missed.best
    if net.certificate.status is af.types.Status.ESTIMATED:
        return
    rows = np.vstack([sample, hostile_points(net, 50, seed)])
    error = np.abs(net(rows).astype(np.float64) - net.certificate.claim.target.values(rows)[:, 0])
    assert error.max() <= net.certificate.bound


@given(st.integers(0, 10_000))
def test_the_vertex_rule_bounds_every_choice_of_scores(seed):
    rng = np.random.default_rng(seed)
    count, spread = int(rng.integers(1, 12)), 10.0 ** rng.integers(-3, 3)
    low = rng.normal(size=count) * spread
    high = low + rng.exponential(size=count) * 10.0 ** rng.integers(-6, 2)
    values = rng.normal(size=count)
    upper = largest_average(*exponentials(low, high), values)
    lower = -largest_average(*exponentials(low, high), -values)
    corners = np.where(rng.integers(0, 2, (300, count)) == 1, high, low)
    inside = rng.uniform(low, high, (300, count))
    order = np.argsort(values)  # the extreme choices: upper scores above a threshold
    steps = np.array([np.where(np.isin(np.arange(count), order[k:]), high, low) for k in range(count + 1)])
    averages = softmax(np.vstack([corners, inside, steps])) @ values
    assert averages.max() <= upper + 1e-13
    assert averages.min() >= lower - 1e-13
    assert upper <= (softmax(steps) @ values).max() + 1e-6


def exact_supremum(light: np.ndarray, heavy: np.ndarray, values: np.ndarray) -> Fraction:
    """The largest average: upper weights above a threshold, lower ones below."""
    order, averages = np.argsort(-values), []
    for above in range(len(values) + 1):
        weights = [Fraction(float((heavy if rank < above else light)[j])) for rank, j in enumerate(order)]
        total = sum(weight * Fraction(float(values[j])) for weight, j in zip(weights, order, strict=True))
        averages += [total / sum(weights)] if sum(weights) else []
    return max(averages)


@given(st.integers(0, 2**31), st.sampled_from([-300, -289, -150, 0, 100]), st.sampled_from([-310, -160, -25, 0, 250]))
def test_the_largest_average_holds_at_any_scale(seed, weight_scale, value_scale):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 6))
    heavy = 10.0 ** np.clip(weight_scale + rng.uniform(-rng.choice([0, 10, 250]), 0, count), -307, 300)
    light = np.minimum(heavy, heavy * 10.0 ** -rng.uniform(0, rng.choice([1e-3, 1, 300]), count))
    values = rng.choice([-1, 1], count) * 10.0 ** (value_scale + rng.uniform(-rng.choice([0, 1, 12]), 0, count))
    bound = Fraction(float(largest_average(light, heavy, values)))
    exact = exact_supremum(light, heavy, values)
    assert exact <= bound
    sure = light.sum() > 1e-280 * heavy.max()
    assert not sure or bound - exact <= Fraction(float(np.abs(values).max())) * Fraction(1, 10**6) + Fraction(5e-324)
