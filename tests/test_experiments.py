"""Experiments: what is written, what is refused, and that theorems hold in what was measured."""

from __future__ import annotations

import csv
import json
import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import attnfun as af
from attnfun import constructions
from attnfun.cli import app
from attnfun.errors import InputError, MissingExtra
from attnfun.experiments import REGISTRY, missing, named, reproduce
from attnfun.experiments.drawing import draw


def reproduced(*arguments):
    return CliRunner().invoke(app, ["reproduce", *arguments])


@pytest.fixture(scope="module")
def planes(tmp_path_factory):
    """The folder and what the command printed."""
    folder = tmp_path_factory.mktemp("reproduced")
    return folder, json.loads(reproduced("max-affine", "--quick", "-o", str(folder), "--json").stdout)


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_every_construction_has_its_rate_measured_somewhere():
    assert {name for one in REGISTRY.values() for name in one.constructions} == set(constructions.REGISTRY)
    assert all(one.name == name and one.title for name, one in REGISTRY.items())


def test_a_page_its_pictures_and_its_tables_are_written(planes):
    folder, told = planes
    written = sorted(str(path) for path in folder.rglob("*") if path.is_file())
    assert sorted(told["written"]["max-affine"]) == written
    page = (folder / "max-affine.md").read_text()
    assert "--quick" in page
    links = re.findall(r"\]\((.*?)\)", page)
    assert links
    assert all((folder / link).read_bytes().startswith(b"\x89PNG") for link in links)


def test_measured_errors_stay_below_what_is_proved_and_the_sharp_bound_is_attained(planes):
    folder, _ = planes
    for name in ("two", "line"):
        rows = table(folder / "max-affine" / f"{name}.csv")
        measured, proved = (
            np.array([float(row[f"{what} (max-affine)"]) for row in rows]) for what in ("measured", "proved")
        )
        assert (measured <= proved).all()
        if name == "two":
            assert (measured >= 0.99 * proved).all()
    assert "predicted -2, measured -2" in (folder / "max-affine.md").read_text()


def test_a_curve_of_bounds_never_rises_and_the_bound_by_the_paper_is_drawn():
    from attnfun.experiments import rates

    rows = [rates.Row(size, 9.0 / size, 1.0, bound, 0.1) for size, bound in ((1, 3.0), (2, None), (3, 4.0), (4, 2.0))]
    assert [row.proved for row in rates.falling(rows)] == [3.0, None, None, 2.0]
    study = rates.RateStudy("line", "x", "x", {"x": (0, 1)}, (1, 2, 3, 4), -1.0, ("grid",))
    curves = {curve.label: list(curve.y) for curve in rates.panel(study, {"grid": rows}).curves}
    assert curves[rates.BY_PAPER] == [row.paper for row in rows]


def test_what_is_done_stays_whole_when_the_next_is_interrupted(tmp_path):
    def interrupt(doing):
        if doing.startswith(REGISTRY["circuit"].title):
            raise KeyboardInterrupt

    done = reproduce(named(["subspace", "circuit"]), tmp_path, True, interrupt)
    _, result, files = next(done)
    with pytest.raises(KeyboardInterrupt):
        next(done)
    assert all(path.stat().st_size for path in files)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(files)
    assert draw(result.pictures[0]).axes[0].get_xlabel() == "tokens"


def test_wrong_names_and_folders_are_refused_with_the_remedy(tmp_path):
    assert set(json.loads(reproduced("--list", "--json").stdout)) == set(REGISTRY)
    refused = reproduced("one-hat").exception
    assert isinstance(refused, InputError)
    assert all(name in str(refused) for name in REGISTRY)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="folder"):
        next(reproduce(named(["circuit"]), tmp_path / "file", True))


def test_experiments_that_train_say_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    left_out = missing(named([]))
    assert set(left_out) == {name for name, one in REGISTRY.items() if "torch" in one.extras}
    with pytest.raises(MissingExtra, match=r"pip install 'attnfun\[torch\]'"):
        raise left_out["two-layer"]


def test_training_learns_what_it_is_shown_and_leaves_threads_alone():
    import torch

    from attnfun.experiments.training import PointsLayer, TwoLayers, fitted
    from contests.training import OneLayer, trained_head

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 3, 2))
    before = torch.get_num_threads()
    assert fitted(lambda: OneLayer(3, 2, 4, 1), X, X.sum(axis=2), 100, 20) < 0.5
    sums = np.zeros((*X.shape[:2], 8))
    sums[..., 0] = X.sum(axis=2)
    assert fitted(lambda: PointsLayer(3, 2, 5, 1, 8), X, sums, 100, 40) < 0.8 * sums.var()
    means = np.repeat(X.mean(axis=1, keepdims=True), 3, axis=1)
    assert fitted(lambda: TwoLayers(3, 2, 4, 2), X, means, 100, 40) < 0.5 * means.var()
    assert fitted(lambda: TwoLayers(3, 2, 4, 2), X, means, 100, 1, seed=1) != fitted(
        lambda: TwoLayers(3, 2, 4, 2), X, means, 100, 1, seed=2
    )
    checks = np.linspace(-1, 1, 101)
    assert trained_head(np.tanh, 2, checks) < 1e-3
    assert torch.get_num_threads() == before


def test_the_authors_layers_have_p_tokens_in_all_of_which_n_are_the_data():
    import torch

    from attnfun.experiments.training import HeldPoints, SharedTokens

    X = torch.randn(7, 3, 2)
    tokens = SharedTokens(3, 2, 8, 6)
    made = tokens(X)
    assert made.shape == (7, 8, 6)
    assert torch.allclose(made[:, :3], tokens.project(X))  # diagonals begin with ones
    assert (made[:, 3:] == torch.linspace(-1, 1, 5)[:, None]).all()
    held = HeldPoints(6, torch.linspace(-1, 1, 8), 25.0)
    assert torch.allclose(held.weights(made).sum(dim=2), torch.ones(7, 8))
    assert held(made).shape == (7, 8, 6)


def test_heat_maps_and_bands_are_drawn():
    from attnfun.experiments.base import Curve, HeatMap, Panel, Picture

    band = Curve("band", [1.0, 2.0, 3.0], [1.0, None, 2.0], spread=[0.1, None, 0.2])
    shades = HeatMap("shades", "query", "key", np.eye(3))
    figure = draw(Picture("both", "Both", (Panel("one", "x", "y", (band,)), shades)))
    curve, shaded = figure.axes
    assert len(curve.collections) == 1
    assert (shaded.images[0].get_array() == np.eye(3)).all()
    assert draw(Picture("alone", "Alone", (shades,))).legends == []


def test_training_goes_on_from_where_it_says():
    import torch

    from contests.training import course, masks_held, perturbed, randomised

    module = af.compile("sin(3*x)", {"x": (-1, 1)}, 0.1).to_torch()
    before = [weight.detach().clone() for weight in module.parameters()]

    def distances(model):
        pairs = zip(model.parameters(), before, strict=True)
        return [float((weight.detach() - old).norm() / (1e-9 + old.norm())) for weight, old in pairs if old.numel()]

    assert distances(perturbed(module, 0.0, 0)) == distances(module) == [0.0] * len(before)
    noisy, again, random = perturbed(module, 0.01, 1), perturbed(module, 0.01, 1), randomised(module, 1)
    assert distances(noisy) == distances(again)
    assert 0.005 < max(distances(noisy)) < 0.02 < 0.5 < max(distances(random))
    checks = torch.linspace(-1, 1, 50, dtype=torch.float64)

    def batch(rng):
        points = torch.tensor(rng.uniform(-1, 1, 50))
        return points, 0.5 * points

    def error(model):
        with torch.no_grad():
            return float((model(checks) - 0.5 * checks).abs().max())

    started = error(random)
    errors = course(random, batch, error, 1e-2, (0, 60), 0)
    assert errors[0] == started > 2 * errors[1]
    assert course(perturbed(module, 0.0, 0), batch, error, 1e200, (0, 3), 0)[-1] == np.inf
    assert distances(module) == [0.0] * len(before)

    learner = af.incontext.KernelRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    model = masks_held(learner.to_torch())
    kept = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    prompt = torch.tensor(learner.prompt([[0.0], [1.0]], [0.0, 1.0], [[0.3]]))[None]
    course(model, lambda rng: (prompt, torch.zeros(1, 3, 1)), lambda model: 0.0, 1e-2, (0, 2), 0)
    changed = {name: weight.detach() != kept[name] for name, weight in model.named_parameters()}
    assert any(part.any() for part in changed.values())
    for name, weight in kept.items():
        assert not changed[name][weight.abs() > 1000].any()
