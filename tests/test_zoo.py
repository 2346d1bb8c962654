"""The zoo: what is said about a model is what the model does, before and after it is disguised."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from typer.testing import CliRunner

import attnfun as af
from attnfun.cli import app
from attnfun.runtime.backends.standalone.residual_model import ResidualNetwork
from attnfun.zoo import folder, scoring
from attnfun.zoo.answers import Answers
from attnfun.zoo.baselines import BASELINES, read_outs
from attnfun.zoo.catalogue import CATALOGUE
from attnfun.zoo.learners import Sizes, descent, ridge, specimen_of

RNG = np.random.default_rng
REGISTERS: dict[str, Any] = {"construction": "circuit", "options": {"layout": "registers"}}
CIRCUIT = "exp(-x**2)*y + max(x, y)"
SQUARE = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}


@pytest.fixture(scope="module")
def circuit():
    return af.zoo.specimen(af.compile(CIRCUIT, SQUARE, 1e-4, **REGISTERS))


@pytest.fixture(scope="module")
def clipped():
    family = af.TruncatedLinear(np.array([[1.0, -1.0], [0.5, 2.0], [1.0, 1.0]]), 0.1, -1.0, 1.5)
    return af.zoo.specimen(af.compile(family, af.Box(np.full((3, 2), -1.0), np.full((3, 2), 1.0)), 1e-3))


@pytest.fixture(scope="module")
def look_up():
    return af.zoo.specimen(af.compile("[sin(3*x)*y, x]", SQUARE, 0.05, construction="spectral"))


@pytest.fixture(scope="module")
def learner():
    solver = af.incontext.GradientDescent(step=0.25, fit_intercept=False, steps=2, momentum=0.5, alpha=0.1)
    return specimen_of(descent, solver, Sizes(features=2, examples=4, queries=1), "descent", "gradient descent")


def in_torch(model) -> ResidualNetwork:
    """The model in stock PyTorch modules."""
    description, weights = model.residual.plan(model.point_shape, model.truth.value_shape)
    return ResidualNetwork(description, {name: torch.tensor(array) for name, array in weights.items()}).eval()


def assert_truthful(model, rows, registers, slack=1e-9):
    """Directions, values and interventions as said, in NumPy and in PyTorch, within the model's bound."""
    exact, streams, module = model.truth.values(rows), model.streams(rows), in_torch(model)
    points = torch.tensor(rows.reshape(len(rows), *model.point_shape))
    assert model.farthest(rows) <= model.bound
    assert np.allclose(module(points).detach().numpy(), model.run(rows), rtol=0, atol=slack)
    for carrier in model.truth.carriers:
        room = max(model.bound, slack) * 30 * (1 + np.abs(exact[carrier.register]).max())
        for after in range(carrier.first, carrier.last + 1):
            assert np.abs(carrier.read(streams[after + 1]) - exact[carrier.register]).max() <= room
        assert np.isclose(np.linalg.norm(carrier.direction), 1)
        assert np.isclose(carrier.scale * carrier.direction @ carrier.write, 1)
    for register in registers:
        value = np.roll(exact[register], 1)
        told = model.truth.intervene(register, value, rows)
        assert np.abs(told - model.patched(register, value, rows)).max() <= model.bound
        done = module(points, model.truth.setting(register, value)).detach().numpy()
        assert np.abs(told - done).max() <= model.bound


def test_the_registers_of_a_circuit_are_the_steps_of_the_formula(circuit):
    rows = circuit.sample(20, RNG(0))
    x, y = rows.T
    exact = circuit.truth.values(rows)
    assert np.allclose(exact["exp(-x**2)"], np.exp(-(x**2)), atol=1e-14)
    assert np.allclose(exact["exp(-x**2)*y"], np.exp(-(x**2)) * y, atol=1e-14)
    assert np.allclose(exact["max(x, y)"], np.maximum(x, y), atol=1e-14)
    names = {register.name for register in circuit.truth.registers}
    assert {"x", "y", "unit 2", "unit 3", "output"} <= names
    symbols = {r.symbol: exact[r.name] for r in circuit.truth.registers}
    for register in circuit.truth.registers:
        if register.kind != "input":
            said = eval(register.expression, {"exp": np.exp, "max": np.maximum}, symbols)  # noqa: S307 - our own text
            assert np.allclose(said, exact[register.name], atol=1e-14)


def test_what_is_said_about_a_circuit_holds(circuit):
    steps = [register.name for register in circuit.truth.registers if register.kind != "input"]
    assert_truthful(circuit, circuit.sample(16, RNG(1)), steps)


def test_a_product_is_set_as_the_formula_says(circuit):
    rows, value = circuit.sample(16, RNG(2)), np.linspace(-0.9, 0.9, 16)
    expected = value + rows.max(axis=1)
    assert np.allclose(circuit.truth.intervene("exp(-x**2)*y", value, rows), expected, atol=1e-13)
    value = np.linspace(np.exp(-1), 1.0, 16)
    expected = value * rows[:, 1] + rows.max(axis=1)
    assert np.allclose(circuit.truth.intervene("exp(-x**2)", value, rows), expected, atol=1e-13)


def test_outputs_that_share_a_step_are_set_together():
    model = af.zoo.specimen(af.compile("[x*y, x*y + x, x]", SQUARE, 1e-3, **REGISTERS))
    rows = model.sample(8, RNG(12))
    assert_truthful(model, rows, ["output[0]", "output[1]"])
    told = model.truth.intervene("output[0]", 0.5, rows)
    assert np.allclose(told, np.column_stack([np.full(8, 0.5), 0.5 + rows[:, 0], rows[:, 0]]))
    assert model.truth.heads("output[2]") == ()


def test_heads_are_those_that_make_the_register(circuit):
    rows = circuit.sample(8, RNG(3))
    exact, truth = circuit.truth.values(rows), circuit.truth
    assert truth.heads("exp(-x**2)*y") == truth.heads("unit 2") + truth.heads("unit 3")
    assert truth.heads("x") == ()
    assert circuit.words(0, 0) == "looks its memory up: exp(-x**2) = exp((x ** 2.0) * (-1.0))"
    assert circuit.words(2, 0).endswith("up: max(y + -x, 0.0), for max(x, y), output")
    assert circuit.words(0, 1) == "idle"
    for register in ("exp(-x**2)", "exp(-x**2)*y", "max(x, y)"):
        carrier = truth.where(register)[0]
        for block, head in truth.heads(register):
            said = circuit.residual.blocks[block].parts(circuit.streams(rows)[block])[:, head]  # (B, T, D)

            def silenced(after, stream, block=block, said=said):
                return stream - said if after == block else stream

            streams = list(circuit.residual.streams(circuit.sequences(rows), silenced))
            assert np.abs(carrier.read(streams[carrier.first + 1]) - exact[register]).max() > 0.05
            assert register in truth.computes(block, head)


def test_settings_that_the_network_knows_nothing_about_are_refused(circuit):
    rows = circuit.sample(4, RNG(4))
    with pytest.raises(af.errors.InputError, match=r"argument of 'unit 2' stays in.*nearby"):
        circuit.truth.intervene("exp(-x**2)", 50.0, rows)
    with pytest.raises(af.errors.InputError, match=r"must be one of 'x', 'y'.*got 'nothing'"):
        circuit.truth.intervene("nothing", 0.0, rows)
    with pytest.raises(af.errors.InputError, match="only registers that heads compute can be set in the stream"):
        circuit.patched("x", 0.0, rows)
    for change in (circuit.truth.intervene, circuit.patched):
        for value, words in (
            ("a", "finite numbers.*got 'a'"),
            (np.inf, "finite"),
            ([0.1, 0.2, 0.3], r"shape \(3,\) for 4 points"),
        ):
            with pytest.raises(af.errors.InputError, match=words):
                change("exp(-x**2)*y", value, rows)
    moved = np.column_stack([np.full(4, 0.5), rows[:, 1]])
    assert np.allclose(circuit.truth.intervene("x", 0.5, rows), circuit.exact(moved))


def test_look_ups_and_sequence_maps(look_up, clipped):
    assert_truthful(look_up, look_up.sample(16, RNG(5)), ["output[0]", "output[1]"])
    assert_truthful(clipped, clipped.sample(16, RNG(6)), ["output[1]"])
    assert clipped.truth.where("output[2]")[0].row == 2
    assert look_up.truth.heads("output[0]")


def test_learners_run_their_algorithm(learner):
    assert_truthful(learner, learner.sample(4, RNG(7)), ["g 1[0]", "w 2[1]"])
    assert all(learner.truth.where(register.name) for register in learner.truth.registers)
    asked = Answers.of(learner, 8, seed=0).values
    assert "g 1[0]" in asked
    assert not {"K[0,1]", "z 1[0]"} & set(asked)  # always zero
    solver = af.incontext.Ridge(alpha=0.5, fit_intercept=False, n_steps=3)
    model = specimen_of(ridge, solver, Sizes(features=2, examples=4, queries=2), "ridge", "")
    assert_truthful(model, model.sample(4, RNG(7)), ["b[1]", "w 2[0]"])
    assert all(model.truth.where(register.name) for register in model.truth.registers)


def test_a_map_of_each_token_alone_is_known_token_by_token():
    box = af.Box(np.full((2, 2), -1.0), np.full((2, 2), 1.0))
    net = af.compile(lambda X: X[..., :1] * X[..., 1:], box, 0.01, **REGISTERS)
    model = af.zoo.specimen(net)
    assert_truthful(model, model.sample(8, RNG(11)), ["output[1]"])
    assert [model.truth.where(f"output[{row}]")[0].row for row in range(2)] == [0, 1]


def test_a_learner_in_the_zoo_is_the_learner(learner):
    rng = RNG(10)
    X, y, asked = rng.normal(size=(4, 2)), rng.normal(size=4), rng.uniform(-1, 1, size=(1, 2))
    solver = af.incontext.GradientDescent(step=0.25, fit_intercept=False, steps=2, momentum=0.5, alpha=0.1)
    prompt = solver.prompt(X, y, asked)
    values = solver.answer(prompt)[0].values
    assert np.allclose(learner.run(prompt.rows.reshape(1, -1)) * prompt.units.y, values.T, atol=1e-10)


@settings(max_examples=15)
@given(
    names=some.permutations(["split", "scale", "permute", "rotate"]),
    count=some.integers(1, 4),
    seed=some.integers(0, 99),
)
def test_disguises_compose_and_carry_the_truth_along(circuit, names, count, seed):
    model = af.zoo.disguise(circuit, names[:count], seed)
    rows = circuit.sample(8, RNG(seed))
    assert np.abs(model.run(rows) - circuit.run(rows)).max() < 1e-7
    assert (model.status, model.disguises) == ("measured", tuple(names[:count]))
    assert_truthful(model, rows, ["exp(-x**2)", "exp(-x**2)*y", "max(x, y)"], slack=1e-7)
    before, after = circuit.residual.blocks[4], model.residual.blocks[4]
    for name in ("output", "exp(-x**2)*y"):  # the heads said to make a register are those that write to it
        said = [head for block, head in model.truth.heads(name) if block == 4]
        assert len(said) == len(circuit.truth.heads(name)) + ("split" in names[:count]) - (name == "output")
        held = after.parts(model.streams(rows)[4])[:, said].sum(axis=1)[:, 0]  # (B, D)
        plain = [head for block, head in circuit.truth.heads(name) if block == 4]
        known = before.parts(circuit.streams(rows)[4])[:, plain].sum(axis=1)[:, 0]
        read, old = (m.truth.where(name)[0] for m in (model, circuit))
        assert np.allclose(read.scale * held @ read.direction, old.scale * known @ old.direction, atol=1e-7)


@pytest.mark.parametrize("name", af.zoo.DISGUISES)
def test_every_disguise_changes_the_weights_of_every_model(name, circuit, look_up, clipped, learner):
    for model in (circuit, look_up, clipped, learner):
        changed = af.zoo.disguise(model, [name], seed=3)
        rows = model.sample(8, RNG(8))
        assert changed.farthest(rows) <= model.bound
        pairs = list(zip(model.residual.blocks, changed.residual.blocks, strict=True))
        same = [np.array_equal(old.query, new.query) and np.array_equal(old.output, new.output) for old, new in pairs]
        # one head has one order, and a random order may be the old one
        assert not (all(same) if name == "permute" and model is circuit else any(same) and name != "permute")
        register = model.truth.program.outputs[0]
        exact = model.truth.values(rows)[register]
        assert np.abs(changed.registers(rows)[register] - exact).max() <= model.bound


def test_noise_uses_the_room_that_the_bound_leaves(circuit):
    model = af.zoo.disguise(circuit, ["noise"], seed=0)
    rows = circuit.sample(64, RNG(9))
    off = np.abs(model.run(rows) - circuit.run(rows)).max()
    assert 0.05 * circuit.bound < off < circuit.bound
    assert model.farthest(rows) <= circuit.bound
    assert all(block.output.all() for block in model.residual.blocks)
    again = af.zoo.disguise(circuit, ["noise"], seed=0)
    assert np.array_equal(again.run(rows), model.run(rows))
    assert not np.array_equal(af.zoo.disguise(circuit, ["noise"], seed=1).run(rows), model.run(rows))


def test_unknown_disguises_are_refused(circuit):
    with pytest.raises(
        af.errors.InputError, match="disguises must be one of split, scale, permute, rotate, noise; got 'hat'"
    ):
        af.zoo.disguise(circuit, ["rotate", "hat"])
    assert af.zoo.disguise(circuit, []) is circuit
    single = af.zoo.specimen(af.compile("sin(x)", {"x": (-1, 1)}, 0.01, dtype="float32"))
    with pytest.raises(af.errors.InputError, match="in float64 to be disguised; got float32"):
        af.zoo.disguise(single, ["rotate"])


def attnfun(*arguments):
    return CliRunner().invoke(app, ["zoo", *map(str, arguments)])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("zoo") / "set"
    done = attnfun(path, "--quick", "--seed", 3, "--json")
    assert done.exit_code == 0
    assert set(json.loads(done.stdout)) == {name for name, entry in CATALOGUE.items() if entry.quick}
    return path


def test_a_folder_holds_what_its_manifest_says(written, tmp_path):
    manifest = json.loads((written / "manifest.json").read_text())
    assert manifest["seed"] == 3
    for name, known in manifest["models"].items():
        assert known["plain"]["status"] == "proved"
        assert known["error"]["status"] == "measured"
        assert known["error"]["largest_found"] <= known["plain"]["bound"]
        assert af.load(written / name / "network.safetensors").certificate.bound == known["plain"]["bound"]
    assert json.loads(attnfun(written, "--check", "--json").stdout)["files"] == len(manifest["sha256"])
    copy = tmp_path / "copy"
    shutil.copytree(written, copy)
    weights = copy / "gate" / "model.weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    (copy / "sine" / "truth.json").unlink()
    (copy / "more.txt").write_text("more")
    wrong = "sine/truth.json is missing; more.txt is not in the manifest; gate/model.weights.safetensors has changed"
    with pytest.raises(af.errors.FileFormatError, match=wrong):
        folder.check(copy)


def test_equal_seeds_write_equal_files(written, tmp_path):
    folder.write(tmp_path / "again", names=["product"], seed=7)
    first = json.loads((tmp_path / "again" / "manifest.json").read_text())["sha256"]
    folder.write(tmp_path / "same", names=["product"], seed=7)
    assert json.loads((tmp_path / "same" / "manifest.json").read_text())["sha256"] == first
    folder.write(tmp_path / "plain", names=["product"], disguises=())
    known = json.loads((tmp_path / "plain" / "manifest.json").read_text())["models"]["product"]
    assert known["error"]["status"] == "proved"


def test_folders_and_names_that_cannot_be_used_are_refused(written, tmp_path):
    with pytest.raises(af.errors.InputError, match=r"must be new or empty; got .*Name another one"):
        folder.write(written, quick=True)
    with pytest.raises(af.errors.InputError, match=r"models of the zoo are sine,.*got 'unicorn'"):
        folder.write(tmp_path / "new", names=["unicorn"])
    with pytest.raises(af.errors.InputError, match="disguises must be one of"):
        folder.write(tmp_path / "new", names=["product"], disguises=["hat"])
    with pytest.raises(af.errors.FileFormatError, match="written by attnfun zoo"):
        folder.check(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 1, "models": {}, "sha256": {"../x": "0"}}))
    with pytest.raises(af.errors.FileFormatError, match="inside its folder"):
        folder.check(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]  # nothing half-written


def test_the_models_run_where_attnfun_is_not(written):
    answers = Answers.read(written / "gate")
    code = (
        "import sys; sys.modules['attnfun'] = None\nimport model, torch\nfrom safetensors.torch import load_file\n"
        "points = load_file('tasks.safetensors')['points']\nprint(model.load()(points).tolist())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=written / "gate", capture_output=True, text=True, check=True)
    assert np.abs(np.array(json.loads(done.stdout)) - answers.outputs[:, 0]).max() < 1e-4


@pytest.mark.skipif(importlib.util.find_spec("transformer_lens") is None, reason="transformer-lens is not installed")
@pytest.mark.filterwarnings("ignore")
def test_the_models_run_in_transformer_lens(written):
    from attnfun.runtime.backends.standalone import lens_model

    for name in ("gate", "clips"):
        answers = Answers.read(written / name)
        lens = lens_model.load(written / name / "model.weights.safetensors")
        points = answers.points.reshape(len(answers.points), *lens.description["point_shape"])
        values, cache = lens.run_with_cache(points)
        assert np.abs(values.detach().numpy().reshape(answers.outputs.shape) - answers.outputs).max() < 1e-3
        for carrier in answers.carriers:
            stream = cache[f"blocks.{carrier.last}.hook_resid_post"].detach().numpy()
            assert np.abs(carrier.read(stream) - answers.values[carrier.register]).max() < 1e-3


def test_right_claims_score_one_and_random_ones_chance(written, tmp_path):
    perfect, guesses = dict[str, object](), list[dict[str, scoring.Score]]()
    for name in json.loads((written / "manifest.json").read_text())["models"]:
        perfect[name] = scoring.perfect_claims(Answers.read(written / name))
    for each in scoring.score(written, perfect).values():
        assert all(np.isclose(value, 1.0) for value in each.measures.values())
        assert set(each.covered.values()) == {1.0}
    answers = Answers.read(written / "gate")
    for seed in range(60):
        guesses.append({"gate": scoring.score_model(answers, scoring.random_claims(answers, RNG(seed)))})
    mean = {m: np.mean([guess["gate"].measures[m] for guess in guesses]) for m in scoring.MEASURES}
    assert abs(mean["AUROC"] - 0.5) < 0.04
    assert mean["prediction"] == 0
    assert mean["cosine"] < 0.25  # √(2/(π D)) is 0.14 for D = 31, and some registers have two directions
    (tmp_path / "claims.json").write_text(json.dumps(perfect))
    assert "| mean | 1.000 |" in attnfun("score", written, tmp_path / "claims.json").stdout
    said = json.loads(attnfun("score", written, tmp_path / "claims.json", "--json").stdout)
    assert said["gate"]["measures"]["recall"] == 1


def test_the_measures_are_what_they_say(written):
    answers = Answers.read(written / "gate")
    (right, *_), carrier = answers.computed_by["exp(-x**2)"], answers.carriers[0]
    wrong = next(head for head in answers.heads if head not in answers.computed_by["exp(-x**2)"])
    named = {f"{right[0]}.{right[1]}": 1.0, f"{wrong[0]}.{wrong[1]}": 0.9}
    found = scoring.score_model(answers, {"heads": {"exp(-x**2)": named}}).measures
    assert found["precision"] == 0.5
    assert found["recall"] == 1 / len(answers.computed_by["exp(-x**2)"])
    across = np.zeros_like(carrier.direction)
    across[0], across[1] = -carrier.direction[1], carrier.direction[0]
    mixed = carrier.direction + across / np.linalg.norm(across)
    claim = {"after": carrier.first, "row": carrier.row, "direction": mixed.tolist()}
    found = scoring.score_model(answers, {"directions": {carrier.register: claim}}).measures
    assert np.isclose(found["cosine"], np.sqrt(0.5))
    elsewhere = {**claim, "row": carrier.row + 1}
    assert scoring.score_model(answers, {"directions": {carrier.register: elsewhere}}).measures["cosine"] == 0
    half = (answers.outputs + answers.effects["max(x, y)"]) / 2
    found = scoring.score_model(answers, {"interventions": {"max(x, y)": half.tolist()}}).measures
    assert np.isclose(found["prediction"], 0.5)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"unicorn": {}}, "claims must be about sine"),
        ({"gate": []}, "must be an object"),
        ({"gate": {"guesses": {}}}, "claims have the parts"),
        ({"gate": {"heads": {"nothing": {}}}}, "registers of this model are"),
        ({"gate": {"working": {"9.9": 1}}}, "heads are called 0.0 to"),
        ({"gate": {"working": {"0.0": "much"}}}, "importances must be finite numbers"),
        ({"gate": {"working": {"0.0": float("nan")}}}, "importances must be finite numbers"),
        ({"gate": {"directions": {"output": {"after": 0}}}}, "after, row .* and direction"),
        (
            {"gate": {"directions": {"output": {"after": [0], "row": 0, "direction": [1]}}}},
            "after, row .* and direction",
        ),
        ({"gate": {"directions": {"output": {"after": 0, "row": 0, "direction": [1]}}}}, "a direction must be finite"),
        ({"gate": {"interventions": {"output": [1, 2]}}}, "outputs after an intervention must be finite"),
    ],
)
def test_claims_that_cannot_be_read_are_refused(written, claims, reason):
    with pytest.raises(af.errors.InputError, match=reason):
        scoring.score(written, claims)


def test_the_command_refuses_what_it_does_not_understand(written, tmp_path):
    for arguments in (("score", written), (written, "more")):
        assert isinstance(attnfun(*arguments).exception, af.errors.InputError)
    (tmp_path / "claims.json").write_text("[]")
    assert isinstance(attnfun("score", written, tmp_path / "claims.json").exception, af.errors.FileFormatError)


def test_baselines_make_claims_that_are_better_than_chance(circuit):
    hidden = af.zoo.disguise(circuit, folder.USUAL, seed=2)
    answers = Answers.of(hidden, 64, seed=0)
    scores = {n: scoring.score_model(answers, method(hidden, answers)).measures for n, method in BASELINES.items()}
    assert all(0.7 < found["AUROC"] <= 1 for found in scores.values())
    assert scores["read-out"]["cosine"] > 0.8
    assert scores["read-out"]["prediction"] > 0.9
    assert 0 <= scores["patching"]["prediction"] < scores["read-out"]["prediction"]
    truth = hidden.truth.where("exp(-x**2)")[0]
    found = read_outs(hidden, answers)["exp(-x**2)"]
    assert (found.after, found.row) == (truth.first, truth.row)
    assert np.abs(found(hidden.streams(answers.points)[found.after + 1]) - answers.values["exp(-x**2)"]).max() < 1e-3


def test_a_specimen_prints_on_one_line_and_takes_lists(circuit):
    model = circuit
    assert len(repr(model)) < 300
    assert "\n" not in repr(model) + repr(model.truth)
    points = [[0.25, 0.5], [-0.5, 0.75]]
    array = np.array(points)
    assert np.array_equal(model.run(points), model.run(array))
    assert np.array_equal(model.streams(points)[-1], model.streams(array)[-1])
    assert np.array_equal(model.truth.intervene("output", 0.5, points), [0.5, 0.5])
    with pytest.raises(af.errors.InputError, match=r"points must have the shape \(B, D\)"):
        model.run([0.25, 0.5, 0.75])


def test_an_output_is_found_by_its_formula(circuit):
    model = circuit
    assert model.truth.program.find("exp(-x**2)*y+max(x, y)").name == "output"
    assert model.truth.program.find("max(x,y)").name == "max(x, y)"
    with pytest.raises(af.errors.InputError, match="block must be a whole number from 0 to 4; got 40"):
        model.words(40, 0)
    with pytest.raises(af.errors.InputError, match="Did you mean 'output'"):
        model.truth.program.find("ouput")


def test_points_of_the_tasks_have_the_shape_that_the_model_takes(tmp_path):
    from safetensors.numpy import load_file

    folder.write(tmp_path / "zoo", names=["clips"])
    points = load_file(tmp_path / "zoo" / "clips" / "tasks.safetensors")["points"]
    assert points.shape[1:] == (3, 2)
    assert Answers.read(tmp_path / "zoo" / "clips").points.shape == (len(points), 6)
    for empty in ({}, {"clips": {}}, {"clips": {"heads": {}}}):
        with pytest.raises(af.errors.InputError, match="claims"):
            scoring.score(tmp_path / "zoo", empty)
    with pytest.raises(af.errors.InputError, match="names one at least"):
        scoring.score(tmp_path / "zoo", {"clips": {"heads": {"output[0]": {}}}})


def test_masks_are_of_the_size_of_scores_and_points_of_the_shape_of_the_model():
    net = af.compile("exp(-x**2)*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-3, construction="circuit")
    model = af.zoo.specimen(net)
    weights = [array for block in model.residual.blocks for array in vars(block).values() if array.size]
    assert max(np.abs(array).max() for array in weights) < 1e6
    points = model.sample(64, np.random.default_rng(0))
    assert np.abs(model.run(points) - net(points)).max() < 1e-12
    assert len(repr(model.residual)) < 200
    with pytest.raises(af.errors.InputError, match=r"points must have the shape \(B, 2\); got"):
        model.run([[0.1]])
