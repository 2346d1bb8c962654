"""Functions of one variable that take hundreds of tokens: densities, banded solves, heads that add up, proofs."""

from __future__ import annotations

import numpy as np
import pytest

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.network import reference
from attnfun.pieces.banks import LONG, bank_of, search_for
from attnfun.pieces.chains import chain_of, chained
from attnfun.pieces.lattices import Lattice
from attnfun.pieces.resolution import resolution
from attnfun.pieces.solve import solved, solved_in_windows
from attnfun.proofs.enclosure import Encloser
from clocks import readings

MANY = 10**6


def chirp(x):
    return np.sin(x * np.exp(x))[:, None]


def output(chain, points):
    """The sum of the heads, each with all of its tokens."""
    return sum(link.tokens.weights((points - link.origin)[:, None]) @ link.values for link in chain.links)


@pytest.mark.parametrize(("samples", "count", "width"), [(700, 300, 9), (40, 30, 5), (200, 64, 3), (150, 10, 10)])
def test_windows_solve_the_dense_problem(samples, count, width):
    rng = np.random.default_rng(0)
    first = np.sort(rng.integers(-2, count - width + 3, samples))
    places = first[:, None] + np.arange(width)
    weights = np.where((places >= 0) & (places < count), rng.uniform(0, 1, (samples, width)), 0.0)
    dense = np.zeros((samples, count))
    rows = np.broadcast_to(np.arange(samples)[:, None], places.shape)
    inside = weights > 0
    dense[rows[inside], places[inside]] = weights[inside]
    data = rng.normal(size=(samples, 2))
    order = rng.permutation(samples)  # rows may come in any order
    found = solved_in_windows(first[order], weights[order], data[order], 1e-3, count)
    np.testing.assert_allclose(found, solved(dense, data, 1e-3, np.ones(1)), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("rate", "pieces"), [(50, 16), (200, 64), (800, 256)])
def test_pieces_are_in_proportion_to_oscillations(rate, pieces):
    found = resolution(lambda x: np.sin(rate * x)[:, None], -1.0, 1.0, 1e-6, MANY)
    assert pieces / 2 <= found.count <= pieces * 2
    assert (np.diff(found.edges) > 0).all()


def test_a_narrow_peak_and_a_corner_are_seen_wherever_they_are():
    for place in (0.0, 0.25, 1 / 3):
        peak = resolution(lambda x, at=place: np.exp(-(((x - at) / 1e-3) ** 2))[:, None], -1.0, 1.0, 1e-6, MANY)
        corner = resolution(lambda x, at=place: np.abs(x - at)[:, None], -1.0, 1.0, 1e-6, MANY)
        assert np.diff(peak.edges).min() < 3e-3
        assert np.diff(corner.edges).min() < 1e-3


def test_pieces_stop_beyond_the_tokens_that_are_allowed():
    assert resolution(lambda x: np.sin(1e5 * x)[:, None], -1.0, 1.0, 1e-6, 1000).tokens > 1000


def test_zero_has_one_level():
    found = resolution(lambda x: np.zeros((len(x), 1)), 0.0, 1.0, 1e-6, MANY)
    assert found.scale == 1.0
    assert found.count == 2


def test_spacings_change_slowly_and_scores_are_tangents():
    lattice = Lattice.of(found := resolution(chirp, 0.0, 5.0, 1e-6, MANY), 4 * found.share)
    spacings = np.diff(lattice.ties)
    assert (np.abs(np.diff(np.log(spacings))) < 0.2).all()
    tokens, origin = lattice.head(0, lattice.size)
    scores = tokens.scores((lattice.ties - origin)[:, None])  # neighbours tie, and no other token is above them
    top = scores.max(axis=1)
    np.testing.assert_allclose(np.diagonal(scores), top, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.diagonal(scores, 1), top, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("aim", "dtype"), [(1e-6, "float64"), (1e-3, "float32")])
def test_a_chain_follows_a_chirp_between_its_samples(aim, dtype):
    chain = chained(chirp, resolution(chirp, 0.0, 5.0, aim, MANY), aim, dtype)
    points = np.random.default_rng(1).uniform(0, 5, 2000)
    assert chain.error <= aim
    assert np.abs(output(chain, points) - chirp(points)).max() <= aim
    assert np.array_equal(chain.links[0].values, chain.links[0].values.astype(dtype))


def test_a_chain_reaches_what_float64_can_bear():
    """The lattice is smooth enough for twelve digits: more tokens do not have to make up for it."""

    def wave(x):
        return np.sin(60 * x)[:, None]

    chain = chained(wave, resolution(wave, -1.0, 1.0, 1e-12, MANY), 1e-12)
    assert chain.error <= 1e-12
    assert chain.links[-1].owned[1] < 500


def test_heads_add_up_and_make_scores_smaller():
    pieces = resolution(chirp, 0.0, 5.0, 1e-6, MANY)
    one, several = (chained(chirp, pieces, 1e-6, dtype) for dtype in ("float64", "float32"))
    assert len(one.links) == 1 < len(several.links)
    assert max(np.abs(link.tokens.offsets).max() for link in several.links) < np.abs(one.links[0].tokens.offsets).max()
    owned = [link.owned for link in several.links]
    assert [end for _, end in owned[:-1]] == [start for start, _ in owned[1:]]


def test_a_size_that_is_asked_for():
    pieces = resolution(chirp, 0.0, 5.0, 1e-6, MANY)
    sizes = [chain_of(chirp, pieces, tokens, 1e-6).size for tokens in (450, 700)]
    assert 0.9 * 450 <= sizes[0] <= 450
    assert 0.9 * 700 <= sizes[1] <= 700


def test_a_long_bank_of_a_circuit():
    bank = bank_of(search_for(np.sin, 0.0, 700.0, 1e-7), "float64")
    points = np.random.default_rng(0).uniform(0, 700, 2000)
    assert bank.tokens.size > LONG
    assert np.abs(bank(points)[:, 0] - np.sin(points)).max() <= 1e-7


@pytest.mark.parametrize(
    ("formula", "domain", "eps", "dtype"),
    [
        ("sin(300*x)", (-1, 1), 1e-6, "float64"),
    ],
)
def test_long_lines_are_proved_and_no_point_beats_the_bound(formula, domain, eps, dtype):
    net = af.compile(formula, {"x": domain}, eps, construction="spectral", dtype=dtype)
    assert net.certificate.proved
    assert net.certificate.bound <= eps
    assert net.network.tokens > LONG
    points = np.concatenate([np.linspace(*domain, 5_001), np.random.default_rng(0).uniform(*domain, 5_000)])
    points = points.astype(dtype).astype(np.float64)
    points = points[(points >= domain[0]) & (points <= domain[1])]
    truth = net.certificate.claim.target.values(points[:, None])[:, 0]
    assert np.abs(np.asarray(net(points), dtype=np.float64).ravel() - truth).max() <= net.certificate.bound


@pytest.mark.parametrize("goal", [1e-3, 1.0, 250.0])
def test_heads_at_rest_are_within_what_is_said_of_them(goal):
    """The larger the goal, the larger are heads that count as zero: enclosures of the parts of boxes say so."""
    net = af.compile("sin(300*x)", {"x": (-1, 1)}, 1e-3, construction="spectral", dtype="float32", proof=False)
    encloser, ends = Encloser(net.network, goal), np.linspace(-1, 1, 65)
    boxes = Interval(ends[:-1], ends[1:]).reshape(64, 1, 1)
    everything = tuple(layer.take(np.zeros(64, dtype=np.int64)) for layer in encloser.start())
    _, (focus,) = encloser(boxes, everything)
    assert focus.rests.mean() > 0.5
    assert focus.active.lengths.max() < net.network.tokens
    parts = Interval(np.concatenate([boxes.lo, boxes.mid]), np.concatenate([boxes.mid, boxes.hi]))
    region, (later,) = encloser(parts, (focus.take(np.tile(np.arange(64), 2)),))
    assert (later.rests >= np.tile(focus.rests, (2, 1))).all()
    for share in (0.0, 0.3, 0.7, 1.0):
        values = reference.run(net.network, parts.lo + share * (parts.hi - parts.lo))
        assert (region.tokens.lo <= values + 1e-9).all()
        assert (values <= region.tokens.hi + 1e-9).all()


def test_a_size_beyond_polish_is_one_lattice():
    net = af.compile("sin(x*exp(x))", {"x": (0, 5)}, options={"tokens": 700}, construction="spectral", proof=False)
    assert 600 <= net.network.tokens <= 700
    assert net.certificate.bound < 1e-5


def test_the_tokens_that_would_help_are_named():
    with pytest.raises(af.errors.ToleranceNotMet, match=r"needs about \d+ tokens") as caught:
        af.compile("sin(3000*x)", {"x": (-1, 1)}, 1e-6, construction="spectral", budget=500)
    named = int(str(caught.value).split("needs about ")[1].split()[0])
    assert 2000 <= named <= 8000
    assert "Raise budget=" in str(caught.value)


def test_the_error_that_arithmetic_allows_is_named():
    with pytest.raises(
        af.errors.ToleranceNotMet, match=r"In float32 the construction spectral gets to about"
    ) as caught:
        af.compile("sin(300*x)", {"x": (-1, 1)}, 1e-7, construction="spectral", dtype="float32")
    named = float(str(caught.value).split("gets to about ")[1].split()[0])
    assert caught.value.best.certificate.bound / 100 <= named <= 1e-2


def test_the_time_that_was_allowed_is_named():
    with pytest.raises(af.errors.ToleranceNotMet, match=r"The time limit of 6\.5 s was reached"):
        af.compile("sin(300*x)", {"x": (-1, 1)}, 1e-6, construction="spectral", time_limit=readings(6))


@pytest.mark.parametrize("place", [59400.0, 1e9, -3e5])
def test_tokens_have_places_of_their_own_around_a_jump_far_from_zero(place):
    def step(x):
        return np.where(x > place + 0.123, 1.0, 0.0)[:, None]

    pieces = resolution(step, place - 0.7, place + 0.7, 1e-6, MANY)
    ties = Lattice.of(pieces, pieces.tokens_each).ties
    assert (np.diff(ties) > 0).all()


def test_a_piece_at_a_jump_that_holds_too_few_floats_is_not_cut_again():
    def step(x):
        return np.where(x > 0.37, 1.0, 0.0)[:, None]

    assert chained(step, resolution(step, -1.0, 1.0, 0.01, 4096), 0.01, most=700).error < 0.6


def test_a_peak_far_from_zero_between_few_floats():
    """Pieces that hold few floats are not halved; they get more tokens instead."""

    def peak(x):
        return np.maximum(1 - np.abs(x + 886000) / 8.9e-9, 0)[:, None]

    pieces = resolution(peak, -886000.93, -885999.07, 1e-3, MANY)
    chain = chained(peak, pieces, 1e-3, most=3000)
    assert not pieces.divisible.all()
    assert chain.error <= 1e-3
