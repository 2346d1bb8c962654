"""The judge and learners in context: it agrees with what is proved, and with nothing false in changed files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import attnfun as af
from attnfun.judge import NotCovered, Unreadable, judge_file
from attnfun.network import storage
from attnfun.network.reference import run
from attnfun.targets import FittedModel

learn = af.incontext
X = np.array([[0.0], [1.0], [2.5], [3.0]])
Y = np.array([1.0, 1.5, 3.5, 3.0])
LABELS = np.array([0, 1, 0, 1])


def contents(path):
    with safe_open(str(path), "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["attnfun"])  # noqa: SIM118


@pytest.fixture(scope="module")
def ridge(tmp_path_factory):
    path = tmp_path_factory.mktemp("judged") / "ridge.safetensors"
    learn.Ridge(0.5, n_steps=5).fit(X, Y).certify().save(path)
    return contents(path)


def verdict_on(path, tensors, description) -> str:
    save_file(tensors, str(path), metadata={"attnfun": json.dumps(description)})
    try:
        verdict = judge_file(path)
    except Unreadable:
        return "unreadable"
    except NotCovered:
        return "not covered"
    return "agreed" if verdict.agreed else "not agreed"


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (learn.Ridge(0.5, n_steps=6), Y),
        (learn.Ridge(0.5, n_steps=6, dtype="float32"), Y),
        (learn.LinearRegression(n_steps=6, fit_intercept=False), np.c_[Y, -Y]),
        (learn.Lasso(0.25, n_steps=2), Y),
        (learn.LogisticRegression(n_steps=3), LABELS),
        (learn.GLM("poisson", n_steps=3), Y),
        (learn.GLM("log-cosh", n_steps=3), Y),
    ],
    ids=["ridge", "ridge in float32", "two outputs", "lasso", "logistic", "poisson", "log-cosh"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_judge_agrees(model, labels, tmp_path):
    model.fit(X, labels).certify().save(tmp_path / "f.safetensors")
    assert judge_file(tmp_path / "f.safetensors").agreed


def is_true(tensors, description) -> bool:
    """Is the claim not refuted by one run in float64?"""
    target, rows = description["target"], np.array(description["domain"]["points"])
    model = FittedModel(tensors["target.X"], tensors["target.y"], target, af.Box(0, 1))
    found = run(storage.unpack(tensors, description["network"]), rows[0])
    return bool(np.abs(found - model.solution).max() <= description["certificate"]["bound"])


def changed(tensors, description, rng):
    """One number of the file changed."""
    tensors, description = {name: array.copy() for name, array in tensors.items()}, json.loads(json.dumps(description))
    kind = rng.integers(4)
    if kind == 0:
        name = str(rng.choice(sorted(name for name in tensors if not name.startswith("layers."))))
    else:
        name = str(rng.choice(sorted(name for name in tensors if tensors[name].size)))
    array = tensors[name]
    place = int(rng.integers(array.size))
    old = float(array.flat[place])
    array.flat[place] = rng.choice([old * (1 + 2.0**-20), 2 * old, -old, 0.0, old + 0.01, old + rng.normal()])
    if kind == 3:
        description["certificate"]["bound"] *= float(rng.choice([0.5, 0.9, 2.0]))
        description["target"][str(rng.choice(["alpha", "beta"]))] = float(rng.choice([0.5, 0.4, 0.1, 0.0]))
    return tensors, description


def test_changed_files_with_false_claims_are_not_agreed_with(ridge, tmp_path):
    told = []
    for number in range(40):
        tensors, description = changed(ridge[0], ridge[1], np.random.default_rng(number))
        verdict = verdict_on(tmp_path / "f.safetensors", tensors, description)
        told.append(verdict)
        if verdict == "agreed":
            assert is_true(tensors, description), number
    assert {"agreed", "not agreed"} <= set(told)


@pytest.mark.parametrize("name", ["coefficients", "inverse", "scale"])
@pytest.mark.parametrize("lie", [0.0, np.nan, -1.0, 1e300])
def test_lies_in_a_proof_are_noticed(ridge, name, lie, tmp_path):
    if (name, lie) == ("scale", 1e300):
        pytest.skip("a common factor of the scale changes nothing")
    tensors, description = ridge
    lying = {**tensors, f"proof.{name}": np.full_like(tensors[f"proof.{name}"], lie)}
    assert verdict_on(tmp_path / "f.safetensors", lying, description) != "agreed"
    short = {**tensors, f"proof.{name}": tensors[f"proof.{name}"][:-1]}
    assert verdict_on(tmp_path / "f.safetensors", short, description) == "unreadable"


@pytest.mark.parametrize(
    ("field", "value", "verdict"),
    [
        ("loss", "huber", "not agreed"),
        ("alpha", -1.0, "unreadable"),
        ("delta", 0.0, "unreadable"),
        ("intercept", 1, "unreadable"),
        ("intercept", False, "unreadable"),  # one coefficient less
    ],
)
def test_words_of_the_model_are_read(ridge, field, value, verdict, tmp_path):
    tensors, description = ridge
    other = {**description, "target": {**description["target"], field: value}}
    assert verdict_on(tmp_path / "f.safetensors", tensors, other) == verdict


def test_a_claim_at_other_points_is_not_covered(ridge, tmp_path):
    tensors, description = ridge
    for change in ({"fill": 0.1}, {"points": 2 * description["domain"]["points"]}):
        other = {**description, "domain": {**description["domain"], **change}}
        assert verdict_on(tmp_path / "f.safetensors", tensors, other) == "not agreed"
