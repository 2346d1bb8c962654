"""Compiled loops of proofs beside their references in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnfun.arithmetic import Interval, jet_functions
from attnfun.arithmetic.basis import basis
from attnfun.arithmetic.jets import Jet
from attnfun.arithmetic.jets import variables as variables_of
from attnfun.domains.box import as_box
from attnfun.network import Affine, Attention, Network
from attnfun.network.reference import run
from attnfun.proofs import taylor
from attnfun.proofs.enclosure import Encloser
from attnfun.proofs.moments import Moments
from attnfun.proofs.polynomials import reaches
from attnfun.proofs.ragged import Ragged
from attnfun.proofs.taylor import TaylorBounds
from attnfun.targets import as_target

SIZES = st.sampled_from([0.0, 1e-310, 1e-160, 1e-9, 1.0, 1e9, 1e200])


def drawn(seed: int, kind: tuple[int, int], size: float, shape: tuple[int, ...]) -> Jet:
    """Series with coefficients of a size, some of them zero, some unknown."""
    random, base, degree = np.random.default_rng(seed), basis(*kind), kind[1]
    mid = random.normal(size=(*shape, base.size)) * random.choice([0.0, size, 1.0], (*shape, base.size))
    rad = np.abs(random.normal(size=mid.shape)) * random.choice([0.0, 1e-12, size], mid.shape)
    rad[random.random(mid.shape) < 0.01] = np.inf
    return Jet(base, mid, rad, int(random.integers(1, degree + 1)))


def cut_off(jet: Jet) -> Jet:
    """The series with zeros beyond the degree that it states."""
    beyond = jet.basis.degrees > jet.degree
    return Jet(jet.basis, np.where(beyond, 0.0, jet.mid), np.where(beyond, 0.0, jet.rad), jet.degree)


@pytest.mark.parametrize("name", ["multiply", "divide", "exp"])
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from([(1, 16), (2, 5), (3, 3)]),
    size=SIZES,
    shapes=st.sampled_from([((70,), (70,)), ((5, 2, 3), (5, 2, 1)), ((1,), (1,)), ((130, 1), (1, 2))]),
)
def test_compiled_loops_return_the_floats_of_their_references(name, seed, kind, size, shapes):
    """Bit for bit, at every size, for unknown coefficients, underflow, overflow and divisors near zero."""
    parts = [cut_off(drawn(seed + k, kind, size, shape)) for k, shape in enumerate(shapes)]
    function = getattr(jet_functions, name)
    arguments = parts[:1] if name == "exp" else parts
    found = []
    for much in (0, 2**62):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jet_functions, "MUCH", much)
            patch.setattr(jet_functions, "SOME", much)
            found.append(function(*arguments))
    compiled, plain = found
    assert np.array_equal(compiled.mid, plain.mid)
    assert np.array_equal(compiled.rad, plain.rad)
    assert compiled.degree == plain.degree


def head_on(keys: np.ndarray, offsets: np.ndarray, values: np.ndarray) -> Network:
    """One head with scores `keys·x + offsets`, x (D,)."""
    variables, features = keys.shape[1], keys.shape[1] + 1
    select = np.eye(features + 1)
    head = Attention(
        query=np.eye(features)[None],
        query_bias=np.zeros((1, features)),
        key=select[None, :, :features],
        key_bias=np.zeros((1, features)),
        value=select[None, :, features:],
        value_bias=np.zeros((1, 1)),
        output=np.ones((1, 1, 1)),
        output_bias=np.zeros(1),
        memory=np.column_stack([keys, offsets, values]),
    )
    affine = Affine.tokenwise(np.eye(variables, features), np.eye(features)[variables])
    return Network((affine, head), 1, "float64")


def bank(seed: int, variables: int, steep: float, size: float, grid: bool) -> Network:
    """Keys on a grid, of which some tokens are missing, or anywhere."""
    random = np.random.default_rng(seed)
    if grid:
        axes = [np.sort(random.normal(size=int(random.integers(2, 6)))) for _ in range(variables)]
        keys = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        keys = keys[random.random(len(keys)) < 0.8]
    else:
        keys = random.normal(size=(int(random.integers(1, 40)), variables))
    keys = steep * (keys if len(keys) else np.zeros((1, variables)))
    return head_on(keys, random.normal(size=len(keys)), size * random.normal(size=len(keys)))


def bounds(network: Network, boxes: Interval) -> np.ndarray:
    """Bounds by series on the head itself, as the error of a target that is zero."""
    names = "xyz"[: boxes.shape[1]]
    target = as_target("0*x", as_box(dict.fromkeys(names, (-2, 2))))
    encloser, nobody = Encloser(network), np.zeros(len(boxes), dtype=np.int64)
    focus = tuple(layer.take(nobody) for layer in encloser.start())
    return TaylorBounds(target, network, encloser.banks)(boxes, focus).bound


@given(
    seed=st.integers(0, 2**32),
    variables=st.sampled_from([2, 3]),
    steep=st.sampled_from([1e-200, 1e-30, 1.0, 8.0, 300.0]),
    size=st.sampled_from([1e-300, 1e-9, 1.0, 1e9, 1e240]),
    grid=st.booleans(),
    width=st.sampled_from([0.0, 1e-9, 0.05, 0.4]),
)
def test_sums_over_lists_are_those_over_padded_ones_and_cover_the_head(seed, variables, steep, size, grid, width):
    """Compiled sums by runs against one product a token and coefficient, and both against values of the head."""
    network, random = bank(seed, variables, steep, size, grid), np.random.default_rng(seed)
    centres = random.uniform(-1, 1, (3, variables))
    boxes = Interval(centres - width, centres + width)
    compiled = bounds(network, boxes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(taylor._Bench, "_by_lists", taylor._Bench._padded)
        plain = bounds(network, boxes)
    known = np.isfinite(plain)
    assert (np.isfinite(compiled) == known).all()
    assert (compiled[known] <= plain[known] * (1 + 1e-6) + 1e-200).all()
    assert (plain[known] <= compiled[known] * (1 + 1e-6) + 1e-200).all()
    for row in np.flatnonzero(known):
        points = centres[row] + width * random.uniform(-1, 1, (50, variables))
        points = np.clip(points, boxes.lo[row], boxes.hi[row])
        values = run(network, points[:, None]).ravel()
        assert np.abs(values).max() <= compiled[row] * (1 + 1e-12) + 1e-300


def test_sums_over_lists_are_the_moments():
    """The average at the centre and its slope, which have formulas of their own."""
    network = bank(7, 2, 1.0, 1.0, True)
    encloser = Encloser(network)
    base, at = basis(2, 5), variables_of(Interval([[0.25, -0.5]]), 5)
    lists, radius = encloser.start()[0].active, np.array([[0.1, 0.2]])
    query = np.concatenate([at.mid, np.eye(1, base.size)[None]], axis=1)[:, None]  # (1, 1, 3, C)
    queries = query[..., :3], np.zeros((1, 1, 3, 3))
    found, image = Moments.of_lists(base, lists, encloser.banks[1][0], queries, radius)
    memory = network.attention[0].memory
    shares = np.exp(memory[:, :2] @ [0.25, -0.5] + memory[:, 2])
    mean = shares @ memory[:, :2] / shares.sum()
    assert image[0, 0, 0] == pytest.approx(shares @ memory[:, 3] / shares.sum(), rel=1e-12)
    polynomial = found.average(base, reaches(base, radius))
    assert polynomial.mid[0, 0, 0, 0] == pytest.approx(image[0, 0, 0], rel=1e-12)
    slope = shares @ (memory[:, 3:] * (memory[:, :2] - mean)) / shares.sum()
    assert polynomial.mid[0, 0, 0, 1:3] == pytest.approx(slope, rel=1e-10)


def test_slopes_of_which_nothing_is_known_stay_unknown():
    """An infinite radius of a query meets keys that are exact: infinity times zero must not count as nothing."""
    base, radius = basis(2, 3), np.full((1, 2), 0.1)
    known = Encloser(bank(0, 2, 1.0, 1.0, grid=False)).banks[1][0]
    mid, rad = np.ones((1, 1, known.keys.shape[1], 3)), np.zeros((1, 1, known.keys.shape[1], 3))
    every = Ragged.from_padded(np.arange(len(known.keys))[None], np.ones((1, len(known.keys)), dtype=bool))
    for lost in (0.0, np.inf):
        rad[0, 0, 0, 1] = lost
        moments, _ = Moments.of_lists(base, every, known, (mid, rad), radius)
        average = moments.average(base, reaches(base, radius))
        assert np.isfinite(average.rad).all() == np.isfinite(lost)
