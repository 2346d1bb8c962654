"""Formulas of hundreds of variables: what is worked out and written grows with the formula, not with its square."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

import attnfun as af
from attnfun.constructions import candidates
from attnfun.domains.box import as_box
from attnfun.errors import FileFormatError
from attnfun.judge import NotCovered, Unreadable
from attnfun.judge.files import read as read_by_judge
from attnfun.network.storage import read, write
from attnfun.pieces.slopes import sampled_slopes
from attnfun.targets import as_target


def squares(count: int) -> tuple[str, dict[str, tuple[float, float]]]:
    return "+".join(f"x{k}**2" for k in range(count)), {f"x{k}": (-1.0, 1.0) for k in range(count)}


@pytest.fixture(scope="module")
def net() -> af.types.Compiled:
    return af.compile(*squares(70), eps=1e-2)


@pytest.fixture
def saved(net, tmp_path) -> Any:
    path = tmp_path / "f.safetensors"
    net.save(path)
    return path


def test_a_sum_of_many_squares_is_proved_by_its_circuit(net):
    assert net.construction == "circuit"
    assert net.certificate.proved
    points = np.random.default_rng(0).uniform(-1, 1, (50, 70))
    assert np.abs(net(points) - (points**2).sum(axis=1)).max() <= net.certificate.bound


def test_what_is_evaluated_grows_with_the_formula(monkeypatch):
    counts = []
    for size in (16, 32, 64):
        target, rows = as_target(squares(size)[0], as_box(squares(size)[1])), []
        monkeypatch.setitem(vars(target), "values", lambda points, rows=rows: rows.append(len(points)) or points[:, :1])
        sampled_slopes(target)
        counts.append(sum(rows))
    assert counts[2] <= 1.5 * counts[1]  # rows; each takes as many operations as the formula has


def test_slopes_of_many_variables_are_those_of_the_function():
    formula = "3*x0 + 2*x1 - 5*x2 +" + "+".join(f"0.5*x{k}" for k in range(3, 100))
    slopes = sampled_slopes(as_target(formula, as_box({f"x{k}": (-1, 1) for k in range(100)})))
    assert np.allclose(slopes, np.array([3, 2, 5] + 97 * [0.5]), atol=1e-9)


def test_directions_of_a_formula_are_not_searched_for(monkeypatch):
    formula, domain = squares(30)
    target = as_target(formula, as_box(domain))
    monkeypatch.setitem(vars(target), "jets", lambda *_: pytest.fail("gradients in all variables"))
    assert "circuit" in [each.name for each in candidates("auto", target)]


def test_files_leave_out_zeros_and_give_them_back(net, saved):
    with safe_open(str(saved), "numpy") as file:
        sizes = {name: int(np.prod(file.get_slice(name).get_shape())) for name in file.keys()}  # noqa: SIM118
        sparse = json.loads(file.metadata()["attnfun"])["sparse"]
    assert "layers.1.query" in sparse
    assert sum(size for name, size in sizes.items() if name.startswith("layers.")) < net.network.parameters / 10
    again = af.load(saved)
    for before, after in zip(net.network.layers, again.network.layers, strict=True):
        for name, array in vars(before).items():
            assert np.array_equal(array, getattr(after, name))
    assert again.certificate.recheck().bound == net.certificate.bound
    mine, judges = net.network.layers[1], read_by_judge(saved).network.layers[1]
    assert np.array_equal(vars(judges)["query"], vars(mine)["query"])


def test_negative_zeros_and_dtypes_come_back(tmp_path):
    array = np.zeros((80, 80), dtype=np.float32)
    array[3, 4], array[79, 79] = -0.0, 2.5
    write(tmp_path / "a.safetensors", {"a": array, "b": np.ones(3)}, {"kind": "test"})
    tensors, _ = read(tmp_path / "a.safetensors")
    assert tensors["a"].dtype == np.float32
    assert tensors["a"].tobytes() == array.tobytes()


def moved(places: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def lie(tensors: dict[str, Any], description: dict[str, Any]) -> None:
        tensors["layers.1.query.places"] = places(tensors["layers.1.query.places"].copy())

    return lie


def shaped(*shape: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def lie(tensors: dict[str, Any], description: dict[str, Any]) -> None:
        description["sparse"]["layers.1.query"] = list(shape)

    return lie


LIES = {
    "negative": moved(lambda p: np.concatenate([[-1], p[1:]])),
    "beyond": moved(lambda p: np.concatenate([p[:-1], [10**9]])),
    "twice": moved(lambda p: np.concatenate([p[:1], p[:-1]])),
    "descending": moved(lambda p: p[::-1].copy()),
    "shorter": moved(lambda p: p[:-1]),
    "floats": moved(lambda p: p.astype(np.float64)),
    "two dimensions": moved(lambda p: p[:, None]),
    "none": lambda tensors, _: tensors.pop("layers.1.query.places"),
    "both": lambda tensors, _: tensors.update({"layers.1.query": np.zeros((60, 121, 2))}),
    "huge": shaped(10**6, 10**6, 2),
    "negative size": shaped(-60, -121, 2),
    "empty": shaped(),
    "words": shaped("60", 121, 2),
    "another name": lambda _, description: description["sparse"].update({"layers.7.query": [2, 2]}),
    "a list": lambda _, description: description.update({"sparse": ["layers.1.query"]}),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_about_places_are_refused_by_both_readers(saved, tmp_path, lie):
    with safe_open(str(saved), "numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        description = json.loads(file.metadata()["attnfun"])
    LIES[lie](tensors, description)
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    false = tmp_path / "lie.safetensors"
    false.write_bytes(save(tensors, {"attnfun": json.dumps(description)}))
    with pytest.raises(FileFormatError):
        af.load(false)
    with pytest.raises((Unreadable, NotCovered)):
        read_by_judge(false)
