"""Domains that are no boxes: what a certificate covers, what it does not, and nets that cover."""

from __future__ import annotations

import numpy as np
import pytest

import attnfun as af
from attnfun.pieces.nets import Net
from attnfun.proofs.certify import SLACK
from cases import CASES
from clocks import readings

SQUARE = {"x": (-1, 1), "y": (-1, 1)}
DISC = af.Region("x**2 + y**2 <= 1", SQUARE)


@pytest.fixture(scope="module")
def disc():
    return af.compile("x*y", DISC, 0.25)


def test_a_certificate_names_its_set_and_covers_its_edge(disc):
    assert "Region(x**2 + y**2 <= 1, in Box(x=-1:1, y=-1:1))" in str(disc.certificate)
    angle = np.linspace(0, 2 * np.pi, 5000)
    edge = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (1 - 1e-16)
    edge = edge[DISC.contains(edge)]
    assert len(edge) > 1000
    assert np.abs(disc(edge) - edge[:, 0] * edge[:, 1]).max() <= disc.certificate.bound


def test_points_outside_are_refused_or_let_pass(disc):
    with pytest.raises(af.errors.InputError, match="must lie in Region"):
        disc([0.9, 0.9])
    assert np.isfinite(disc([0.9, 0.9], outside="allow"))
    assert np.isfinite(disc([0.6, 0.8]))  # on the edge: not surely outside
    with pytest.raises(af.errors.InputError, match="needs a box"):
        disc([0.1, 0.1], outside="clip")
    with pytest.raises(af.errors.InputError, match="needs a box"):
        af.compile("x*y", DISC, 0.5, outside="clip")


@pytest.mark.parametrize("name", ["disc", "cloud"])
def test_saved_domains_come_back(name, compiled, tmp_path):
    net = compiled(next(case for case in CASES if case.name == name))
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    assert repr(again.domain) == repr(net.domain)
    assert type(again.domain) is type(net.domain)
    rows = np.random.default_rng(0).uniform(-2, 2, (500, 2))
    assert np.array_equal(again.domain.contains(rows), net.domain.contains(rows))
    assert again.certificate.recheck().bound <= net.certificate.bound * (1 + 1e-12)
    assert again.certificate.recheck(engine="arb").judged


def test_parts_of_a_region_that_no_sample_meets_are_covered():
    """The strip along y = 0 has a ten-thousandth of the volume, and the target is tall there."""
    region = af.Region("y <= 0.0001 or y >= 0.5", {"x": (0, 1), "y": (0, 1)})
    try:
        net = af.compile("max(0, 3 - 30000*y) + x*y", region, 0.5, time_limit=readings(400))
    except af.errors.ToleranceNotMet as missed:
        net = missed.best
    if net.certificate.status is not af.types.Status.ESTIMATED:
        assert abs(float(net([0.5, 0.0])) - 3.0) <= net.certificate.bound


def test_a_condition_on_arrays_is_traced_but_not_saved(tmp_path):
    region = af.Region(lambda p: (p[..., 0] < p[..., 1]) & (p[..., 0] > 0.1), [(0, 1)] * 2)
    net = af.compile(lambda p: np.exp(p[..., 0] - p[..., 1]), region, 0.2)
    assert net.certificate.proved
    rows = region.sample(3000, np.random.default_rng(0))
    assert ((rows[:, 0] < rows[:, 1]) & (rows[:, 0] > 0.1)).all()
    assert np.abs(net(rows) - np.exp(rows[:, 0] - rows[:, 1])).max() <= net.certificate.bound
    with pytest.raises(af.errors.InputError, match="condition as a text"):
        net.save(tmp_path / "f.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_cloud_is_certified_at_its_points_and_nowhere_else():
    cloud = np.random.default_rng(0).normal(size=(300, 2))
    net = af.compile(lambda p: np.sin(p[..., 0]) * p[..., 1], af.Points(cloud), 0.3)
    error = np.abs(net(cloud) - np.sin(cloud[:, 0]) * cloud[:, 1]).max()
    assert net.certificate.proved
    assert error <= net.certificate.bound <= 0.3
    assert (
        net.certificate.bound - net.certificate.allowance <= error * (1 + SLACK) + 1e-9
    )  # at points, enclosures are tight
    with pytest.raises(af.errors.InputError, match="must be those of Points"):
        net(cloud[0] + 1e-9)
    assert net.summary().figures["cells"] < 300


def test_a_finite_cloud_may_lie_on_both_sides_of_a_jump():
    cloud = np.concatenate([np.linspace(-1, -0.5, 40), np.linspace(0.5, 1, 40)])
    net = af.compile("sign(x)", af.Points(cloud), 0.1)
    assert np.abs(net(cloud) - np.sign(cloud)).max() <= net.certificate.bound <= 0.1
    assert net.network.tokens < 80


def test_sequences_can_be_points():
    cloud = np.random.default_rng(0).uniform(size=(50, 2, 1))
    net = af.compile(lambda X: X * X, af.Points(cloud), 0.3, construction="cross", options={"layout": "position"})
    assert np.abs(net(cloud) - cloud**2).max() <= net.certificate.bound


@pytest.mark.parametrize("domain", [DISC, af.Points(np.random.default_rng(1).uniform(-1, 1, (400, 2)), fill=0.1)])
@pytest.mark.parametrize("radius", [0.4, 0.15])
def test_nets_cover(domain, radius):
    net = Net.of(domain, radius)
    rows = domain.sample(20_000, np.random.default_rng(2))
    distance = np.sqrt(((rows[:, None] - net.centres) ** 2).sum(axis=2)).min(axis=1)
    assert distance.max() <= net.radius <= radius + 0.1 + 1e-6
    assert domain.contains(net.sources).all() or isinstance(domain, af.Points)


@pytest.mark.parametrize("domain", [af.Region("x0 + x1 <= 1", af.Box([0, 0], [1, 1], ("x0", "x1"))), "cloud"])
def test_the_a_priori_bound_of_a_net_holds_for_a_declared_constant(domain):
    if domain == "cloud":
        domain = af.Points(np.random.default_rng(1).uniform(-1, 1, (500, 2)))
    for tokens in (5, 60):
        net = af.compile(lambda p: np.asarray(p[..., 0]) * 2.0, domain, lipschitz=2.0, options={"tokens": tokens})
        assert net.network.tokens <= tokens
        rows = domain.sample(5000, np.random.default_rng(3))
        assert np.abs(net(rows) - 2 * rows[:, 0]).max() <= net.a_priori
        assert (
            2.0 * net.figures["net radius"] <= net.paper_bound <= net.a_priori
        )  # a slope of 2; heads as sharp as need be
        assert net.certificate.status is af.types.Status.CONDITIONAL


def test_lp_on_a_region_leaves_the_outside_out():
    net = af.compile("where(x**2 + y**2 <= 1, x, 1000)", DISC, 300.0, norm=1)  # the corners alone hold 858
    rows = DISC.sample(20_000, np.random.default_rng(0))
    error = np.abs(net(rows) - rows[:, 0]).mean() * np.pi
    assert error <= net.certificate.bound * 1.02  # sampling's own error
    assert net.certificate.bound <= 300


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: af.Region("x + y", SQUARE), "comparison"),
        (lambda: af.Region("[x < 1, y < 1]", SQUARE), "comparison"),
        (lambda: af.Region("x > 3", SQUARE), "must not be empty"),
        (lambda: af.Region("z > 3", SQUARE), "must be known"),
        (lambda: af.Region(lambda p: p[..., 0], SQUARE), "comparison"),
        (lambda: af.Region(lambda p: np.round(p[..., 0]) > 0, SQUARE), "comparison"),
        (lambda: af.Points([]), "points must be finite"),
        (lambda: af.Points([[0.0, np.nan]]), "points must be finite"),
        (lambda: af.Points([[0.0, 1.0]], fill=-1), "fill"),
        (lambda: af.compile("x", af.Points([0.0, 1.0]), 0.1, norm=2), "no volume"),
        (lambda: af.compile("x", af.Points([0.0, 1.0], fill=0.9), 0.1), "fill distance"),
        (lambda: af.compile("x", af.Points([0.0, 1.0]), 0.1, construction="spectral"), "These do: grid, cross"),
        (lambda: af.compile("1/x", af.Region("x > 0", {"x": (-1, 1)}), 0.5), "undefined or unbounded"),
        (lambda: af.compile("x", DISC, options={"tokens": 0}), "options tokens must be"),
    ],
)
def test_bad_domains_are_refused(make, message):
    with pytest.raises(af.errors.InputError, match=message):
        make()


@pytest.mark.parametrize("domain", [DISC, af.Points(np.random.default_rng(0).normal(size=(50, 2)), names="xy")])
def test_pictures(domain, tmp_path):
    af.compile("x + y", domain, 1.0).plot(tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 5000
