"""Partitions as objects: cells, volumes, neighbours, and the indicator's error."""

from __future__ import annotations

import numpy as np
import pytest

import attnfun as af

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
        ({"slopes": [[0, 0]], "offsets": [0], "weights": [1]}, "weights go with centres"),
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
