"""Partitions as objects: cells, volumes, neighbours, and the indicator's error."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.targets.cells import CellValues

SQUARE = {"x": (-1, 1), "y": (0, 3)}


def test_voronoi_cells_are_those_of_the_nearest_centre():
    rng = np.random.default_rng(0)
    centres, points = rng.uniform([-1, 0], [1, 3], (40, 2)), rng.uniform([-1, 0], [1, 3], (5000, 2))
    cells = af.partition(centres, domain=SQUARE)
    nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(cells.cell_of(points), nearest)
    assert cells.cell_of(points.reshape(50, 100, 2)).shape == (50, 100)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_volumes_fill_the_box_and_match_counting(size):
    rng = np.random.default_rng(size)
    box = af.Box(np.full(size, -1.0), np.arange(1.0, size + 1))
    cells = af.partition(
        slopes=rng.normal(size=(25, size)), offsets=rng.normal(size=25) / 2, domain=box
    )  # some of these lead nowhere
    points = box.sample(200_000, rng)
    counted = np.bincount(cells.cell_of(points), minlength=25) / len(points)
    whole = np.prod(box.hi - box.lo)
    assert cells.volumes.sum() == pytest.approx(whole, rel=1e-9)
    assert np.abs(cells.volumes / whole - counted).max() <= 0.006
    assert (cells.volumes[counted > 0] > 0).all()
    assert (cells.volumes == 0).any()


def test_neighbours_share_a_wall_and_not_a_corner():
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0), indexing="ij"), axis=-1).reshape(-1, 2)
    cells = af.partition(grid, domain=[(-0.5, 3.5), (-0.5, 2.5)])
    beside = [
        (i, j) for i in range(12) for j in range(i + 1, 12) if np.abs(grid[i] - grid[j]).sum() == 1
    ]  # four cells meet at each inner corner
    assert cells.neighbours == beside
    assert np.allclose(cells.volumes, 1.0)
    cube = np.stack(np.meshgrid(*[np.arange(2.0)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    cells = af.partition(cube, domain=[(-0.5, 1.5)] * 3)
    assert len(cells.neighbours) == 12
    assert np.allclose(cells.volumes, 1.0)


def test_a_power_diagram_moves_walls_by_the_weights():
    cells = af.partition([0.0, 1.0], [0.5, 0.0], domain=(-1, 2))  # |x|² - 0.5 = |x - 1|² at x = 0.75
    assert cells.volumes == pytest.approx([1.75, 1.25])
    swallowed = af.partition([0.0, 1.0, 2.0], [0.0, -9.0, 0.0], domain=(-1, 3))
    assert swallowed.volumes == pytest.approx([2.0, 0.0, 2.0])
    assert swallowed.neighbours == [(0, 2)]


@pytest.mark.parametrize("beta", [0.5, 20.0])
def test_the_indicator_is_as_close_as_its_gap_says(beta):
    rng = np.random.default_rng(1)
    cells = af.partition(slopes=rng.normal(size=(30, 2)), offsets=rng.normal(size=30), domain=SQUARE)
    points = cells.domain.sample(4000, rng)
    leading = np.take_along_axis(cells.indicator(points, beta), cells.cell_of(points)[:, None], axis=1)[:, 0]
    assert (1 - leading <= cells.indicator_error(cells.gap(points), beta) + 1e-15).all()
    assert cells.indicator(points, beta).sum(axis=1) == pytest.approx(1.0)
    tied = af.partition(slopes=[[1.0], [0.0], [0.0], [0.0]], offsets=[0.0] * 4, domain=(0, 1))  # the sharp case
    off = 1 - tied.indicator(0.7, beta)[0]
    assert off == pytest.approx(float(tied.indicator_error(tied.gap(0.7), beta)), rel=1e-12)


def test_beta_for_a_gap_is_the_smallest():
    cells = af.partition(np.arange(5.0), domain=(0, 4))
    beta = cells.beta_for(gap=0.1, error=1e-3)
    assert cells.indicator_error(0.1, beta) == pytest.approx(1e-3)
    assert af.partition([0.0], domain=(0, 1)).gap(0.5) == np.inf


@pytest.mark.parametrize("domain", [(-1, 2), {"x": (-1, 1), "y": (0, 3)}])
def test_pictures(domain, tmp_path):
    size = 2 if isinstance(domain, dict) else 1
    cells = af.partition(np.random.default_rng(0).uniform(-1, 2, (7, size)), domain=domain)
    cells.plot(tmp_path / "cells.png")
    assert (tmp_path / "cells.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "centres, or slopes and offsets"),
        ({"centres": [[0, 0]], "slopes": [[0, 0]], "offsets": [0]}, "centres, or slopes"),
        ({"slopes": [[0, 0]]}, "slopes and offsets"),
        ({"slopes": [[0, 0]], "offsets": [0], "weights": [1]}, "weights= needs centres"),
        ({"centres": [0.0, 1.0]}, r"shape \(N, 2\)"),
        ({"centres": [[0.0, np.nan]]}, "finite"),
        ({"centres": [[0.0, 1.0]], "weights": [1, 2]}, "1 finite numbers"),
    ],
)
def test_bad_partitions_are_refused(arguments, message):
    with pytest.raises(af.errors.InputError, match=message):
        af.partition(**arguments, domain=SQUARE)


def test_geometry_stops_at_three_variables_and_says_so():
    cells = af.partition(np.eye(4), domain=[(0, 1)] * 4)
    assert cells.cell_of(np.eye(4)).tolist() == [0, 1, 2, 3]
    with pytest.raises(af.errors.InputError, match="up to 3 variables"):
        _ = cells.volumes
    with pytest.raises(af.errors.InputError, match="one or two variables"):
        cells.plot()
    with pytest.raises(af.errors.InputError, match="beta"):
        cells.indicator(np.eye(4), 0.0)


RNG = np.random.default_rng(5)
RANDOM = af.partition(RNG.uniform(0, 1, (6, 2)), RNG.uniform(0, 0.1, 6), domain={"x": (0, 1), "y": (0, 1)})


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_head_has_the_values_of_its_cells_away_from_walls(dtype):
    levels = RNG.normal(size=(6, 2))
    net = RANDOM.head(levels, eps=0.25, gap=0.05, dtype=dtype)
    assert net.certificate.status.value == "proved"
    assert (net.construction, net.network.tokens, net.network.heads) == ("partition", 6, 1)
    points = np.concatenate([RNG.uniform(0, 1, (4000, 2)), near_walls(RANDOM, 0.05)])
    points = points[(RANDOM.gap(points) > 0.0501) & ((points >= 0) & (points <= 1)).all(axis=1)]
    assert np.abs(net(points) - levels[RANDOM.cell_of(points)]).max() <= net.certificate.bound <= 0.25
    assert float(RANDOM.gap(points).min()) < 0.051  # as near to the walls as the certificate reaches


def near_walls(cells: af.types.Partition, gap: float) -> np.ndarray:
    """Points at which two neighbours lead, the one by just the gap."""
    found = []
    for wall in cells.boundaries():
        first, second = wall.cells
        apart = cells.slopes[first] - cells.slopes[second]
        along = RNG.uniform(0, 1, (50, 1))
        rows = along * wall.corners[0] + (1 - along) * wall.corners[1]
        step = 1.0003 * gap * apart / (apart @ apart)
        found += [rows + step, rows - step]
    return np.concatenate(found)


def test_a_head_in_lp_is_near_the_values_on_the_whole_domain():
    levels = RNG.normal(size=6)
    net = RANDOM.head(levels, eps=0.4, norm=2)
    points = RNG.uniform(0, 1, (20_000, 2))
    norm = np.sqrt(((net(points) - levels[RANDOM.cell_of(points)]) ** 2).mean())
    assert norm <= net.certificate.bound <= 0.4


def test_a_head_of_a_partition_is_saved_with_its_certificate(tmp_path):
    net = RANDOM.head(np.arange(6.0), eps=0.5, gap=0.05)
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    points = again.domain.sample(50, np.random.default_rng(0))
    assert np.array_equal(again(points), net(points))
    assert again.certificate.recheck().bound == net.certificate.bound
    with pytest.raises(af.errors.InputError, match="judge"):
        again.certificate.recheck(engine="arb")
    with pytest.raises(af.errors.InputError, match=r"ahead by 0\.05"):
        net(RANDOM.boundaries()[0].corners.mean(axis=0))
    assert "gap" in net.domain.as_dict()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], 0.1), "for each of 6 cells"),
        ((np.ones((6, 1, 1)), 0.1), "for each of 6 cells"),
        ((np.ones(6), 0.0), "eps must be"),
        ((np.ones(6), 0.1), "gap= must be given"),
        ((np.full(6, np.nan), 0.1), "finite"),
    ],
)
def test_bad_values_are_refused(arguments, message):
    with pytest.raises(af.errors.InputError, match=message):
        RANDOM.head(*arguments)


def test_too_wide_a_gap_is_said():
    with pytest.raises(af.errors.InputError, match="smaller gap"):
        RANDOM.head(np.arange(6.0), 0.1, gap=5.0)


@pytest.mark.parametrize("construction", ["grid", "cross", "spectral"])
def test_the_partition_of_a_compiled_head_has_its_weights_and_values(construction):
    net = af.compile("sin(3*x)*y", {"x": (-1, 1), "y": (0, 1)}, eps=0.3, construction=construction)
    cells = af.types.Partition.of(net)
    points = RNG.uniform((-1, 0), (1, 1), (200, 2))
    read = cells.indicator(points, 1.0) @ cells.values[:, 0]
    assert np.abs(read - net(points)).max() <= 1e-9 + 2 * net.certificate.allowance
    assert cells.domain.axes == ("x", "y")


@pytest.mark.parametrize("kdim", [None, 5])
def test_the_partition_of_a_head_of_a_module_has_its_weights_and_values(kdim):
    torch.manual_seed(1)
    head = torch.nn.MultiheadAttention(6, 2, kdim=kdim, vdim=kdim, batch_first=True, dtype=torch.float64)
    torch.nn.init.normal_(head.in_proj_bias)
    before = torch.nn.Linear(2, 6, dtype=torch.float64)
    keys = torch.randn(7, kdim or 6, dtype=torch.float64)
    both = [af.types.Partition.of(head, SQUARE, keys=keys, before=before, number=k) for k in range(2)]
    points = torch.rand(100, 2, dtype=torch.float64)
    out, weights = head(before(points)[None], keys[None], keys[None], average_attn_weights=False)
    for number, cells in enumerate(both):
        assert np.allclose(cells.indicator(points.numpy(), 1.0), weights[0, number].detach().numpy(), atol=1e-12)
    read = sum(cells.indicator(points.numpy(), 1.0) @ cells.values for cells in both)
    assert np.allclose(read + head.out_proj.bias.detach().numpy(), out[0].detach().numpy(), atol=1e-12)
    pair = before.weight.detach().numpy().T, before.bias.detach().numpy()
    other = af.types.Partition.of(head, SQUARE, keys=keys.numpy(), before=pair, number=1)
    assert np.allclose(other.slopes, both[1].slopes)


def test_what_is_no_head_is_refused():
    head = torch.nn.MultiheadAttention(4, 2)
    deep = af.compile("abs(sin(3*x))", {"x": (-1, 1)}, eps=1e-4, construction="spectral")
    for given, keywords, message in (
        (head, {"keys": np.ones((3, 4))}, "4 variables"),
        (head, {"keys": np.ones((3, 5))}, r"shape \(N, 4\)"),
        (head, {"keys": np.ones((3, 4)), "number": 2}, "number must be"),
        (head, {}, "needs keys="),
        (torch.nn.Linear(2, 2), {}, "Partition.of needs"),
        (deep, {"domain": {"x": (-1, 1)}}, "one attention layer"),
    ):
        with pytest.raises(af.errors.InputError, match=message):
            af.types.Partition.of(given, **{"domain": SQUARE, **keywords})


@pytest.mark.parametrize("beta", [1.0, 30.0])
def test_boundaries_are_as_wide_as_the_weights_say(beta):
    cells = af.partition([[0.1, 0.2], [0.7, 0.9]], domain=SQUARE)
    (wall,) = cells.boundaries(beta, share=0.1)
    middle, apart = wall.corners.mean(axis=0), cells.slopes[0] - cells.slopes[1]
    step = wall.width / 2 * apart / np.linalg.norm(apart)
    found = cells.indicator([middle + step, middle - step], beta)
    assert found == pytest.approx(np.array([[0.9, 0.1], [0.1, 0.9]]))
    with pytest.raises(af.errors.InputError, match="share"):
        cells.boundaries(share=0.5)


def test_pictures_of_heads(tmp_path):
    square = RANDOM.head(np.arange(6.0), eps=2.0, gap=0.05)
    square.plot(tmp_path / "net.png", panels=["values"])
    for net in (
        RANDOM.head(np.arange(6.0), eps=0.5, gap=0.05),
        af.partition([0.0, 1.0], domain=(0, 1)).head([1, 2], 0.1, gap=0.1),
    ):
        af.types.Partition.of(net).plot(tmp_path / "cells.png")
        assert (tmp_path / "cells.png").stat().st_size > 5000


def test_scores_that_overflow_rule_no_cell_out():
    """As files may say them: the first score is above zero where x > y, and as floats tell it is no number."""
    slopes, box = np.array([[1e300, -1e300], [0.0, 0.0]]), af.Box([1e20, 1e20], [2e20, 2e20])
    target = CellValues(slopes, np.zeros(2), np.array([[1.0], [5.0]]), box, ())
    everywhere = target.enclose(Interval([[1e20, 1e20]], [[2e20, 2e20]]))
    assert (everywhere.lo[0, 0], everywhere.hi[0, 0]) == (1.0, 5.0)
