"""The judge of given networks: it encloses what they compute, agrees with what holds, and with nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import attnfun as af
from attnfun.cli import app
from attnfun.given.claim import DIFFERENCE, OUTPUTS, NetworkClaim, both_ways
from attnfun.given.machine import Machine
from attnfun.given.problems import outputs_of
from attnfun.judge import NotCovered, Unreadable, given_claim, judge_file, judge_given
from attnfun.judge.graphs import OPERATIONS
from attnfun.targets.readers.graph import OPERATIONS as ALL
from attnfun.targets.readers.graph import Builder, Graph

DATA = {
    "leaky_relu": {"slope": 0.1}, "clip": {"low": -0.3, "high": 0.4}, "softplus": {"beta": 2.0}, "elu": {"alpha": 0.7},
    "power": {"exponent": 3.0}, "softmax": {"axis": 0}, "sum": {"axes": (0,), "keep": True},
    "mean": {"axes": (0,), "keep": False}, "max": {"axes": (0,), "keep": True}, "reshape": {"shape": (2, 2)},
    "normalise": {"axes": (0,), "epsilon": 1e-5}, "transpose": {"axes": (0,)}, "concat": {"axis": 0},
    "gather": {"axis": 0, "indices": np.array([2, 0])}, "scale": {"factor": np.array([0.5, -2.0, 3.0, 0.0])},
    "shift": {"by": np.array([0.5, -2.0, 3.0, 0.0])},
}  # fmt: skip
TWO = {"add", "subtract", "multiply", "divide", "concat"}
POSITIVE = {"log", "sqrt", "reciprocal", "divide"}
BLINK = 1e-6
"""A time limit that is over after one box."""
NAMES = sorted(set(ALL) - {"input", "constant"})


def network(name: str, seed: int) -> Graph:
    """A linear map of two inputs, an operation, and where it fits another linear map."""
    rng = np.random.default_rng(seed)
    build = Builder((2,))
    bias = rng.normal(size=4) + (6.0 if name in POSITIVE else 0.0)
    first = build.add("linear", 0, weight=rng.normal(size=(2, 4)), bias=bias)
    if name == "linear":
        return build.graph(first)
    if name == "matmul":
        square = build.add("reshape", first, shape=(2, 2))
        return build.graph(build.add("matmul", square, square))
    others = [build.add("constant", value=rng.normal(size=4) + 4.0)] if name in TWO else []
    return build.graph(build.add(name, first, *others, **DATA.get(name, {})))


def claimed(graphs: tuple[Graph, ...], box: af.Box, bounds: float, dtype: str = "exact") -> NetworkClaim:
    count = int(np.prod(graphs[0].output_shape))
    kind = OUTPUTS if len(graphs) == 1 else DIFFERENCE
    return NetworkClaim(kind, graphs, box, dtype, *both_ways(count), np.full(2 * count, bounds))


def judged(claim: NetworkClaim):
    words, arrays = claim.packed("proved", ())
    return judge_given(given_claim(json.loads(json.dumps(words))["given"], arrays))


def test_the_judge_knows_every_operation():
    assert set(OPERATIONS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("radius", [1e-6, 0.2])
def test_the_judge_encloses_values_and_differences(name, radius):
    rng = np.random.default_rng(5)
    centre = rng.normal(size=2)
    box = af.Box(centre - radius, centre + radius)
    points = np.concatenate([rng.uniform(box.lo, box.hi, (200, 2)), [box.lo, box.hi, centre]])
    a, b = network(name, 1), network(name, 2)
    for graphs, tight in (((a,), 4.0), ((a, b), 8.0)):
        verdict = judged(claimed(graphs, box, np.inf))
        values = [graph.values(points).reshape(len(points), -1) for graph in graphs]
        numbers = values[0] if len(graphs) == 1 else values[1] - values[0]
        most = np.concatenate([numbers, -numbers], axis=1).max(axis=0)
        own = np.array(verdict.judged)
        assert verdict.agreed
        assert (most <= own + 1e-13 * (1 + np.abs(own))).all()
        count = len(own) // 2
        assert ((own[:count] + own[count:]) <= tight * (most[:count] + most[count:]) + 1e-9 + 4 * radius).all()


def averaging(offset: float) -> Graph:
    """Attention of one query to three tokens, made of two inputs; values far from zero by an offset."""
    rng = np.random.default_rng(4)
    build = Builder((2,))
    scores = build.add("linear", 0, weight=rng.normal(size=(2, 3)) * 3, bias=rng.normal(size=3))
    weights = build.add("reshape", build.add("softmax", scores, axis=0), shape=(1, 3))
    values = build.add("linear", 0, weight=rng.normal(size=(2, 6)), bias=rng.normal(size=6) + offset)
    return build.graph(build.add("matmul", weights, build.add("reshape", values, shape=(3, 2))))


@pytest.mark.parametrize("radius", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_averages_are_enclosed_wherever_values_are(radius, offset):
    graph, box = averaging(offset), af.Box([-radius] * 2, [radius] * 2)
    points = np.random.default_rng(0).uniform(-radius, radius, (5000, 2))
    points[:400] = np.sign(points[:400]) * radius
    values = graph.values(points).reshape(len(points), 2)
    problem = outputs_of(graph, Machine.of("float32"))
    form = problem.forms(box.lo[None], box.hi[None])
    own = np.array(judged(claimed((graph,), box, np.inf, "float32")).judged)
    most, width = np.concatenate([values, -values], axis=1).max(axis=0), np.ptp(values, axis=0).max()
    for bounds in (form.hi[0], own):
        assert (most <= bounds).all()
        assert (bounds - most).max() < width + 1e-6 * offset  # offsets cancel, and weights add up to one


def test_the_judge_agrees_with_no_bound_that_a_point_beats():
    graph, box = network("tanh", 3), af.Box([-1, -1], [1, 1])
    values = graph.values(np.random.default_rng(0).uniform(-1, 1, (500, 2)))
    top = float(np.abs(values).max())
    assert judged(claimed((graph,), box, 1.1 * top + 0.1)).agreed
    lie = judged(claimed((graph,), box, 0.99 * top))
    assert not lie.agreed
    assert max(lie.judged) >= top
    assert "is stated" in str(lie)


def test_close_networks_have_a_small_difference():
    a, box = network("gelu", 1), af.Box([-0.1, -0.1], [0.1, 0.1])
    build = Builder((2,))
    weight, bias = (a.nodes[1].data[name] for name in ("weight", "bias"))
    build.add("linear", 0, weight=weight * (1 + 1e-9), bias=bias)
    b = build.graph(build.add("gelu", 1))
    assert max(judged(claimed((a, b), box, 1.0)).judged) < 1e-9


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_what_is_not_a_claim_is_refused_in_words(seed, data):
    words, arrays = claimed((network("softmax", 1), network("softmax", 2)), af.Box([0, 0], [1, 1]), 9.0).packed(
        "proved", ()
    )
    words = json.loads(json.dumps(words))["given"]
    rng = np.random.default_rng(seed)
    place = words
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(len(keys)))]
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
            place = place[key]
            continue
        place[key] = data.draw(st.sampled_from([None, -1, 10**9, 0.5, "x", [], {}, [1], True, [[1.0]], [0, 0]]))
        break
    if rng.random() < 0.3:
        name = list(arrays)[int(rng.integers(len(arrays)))]
        arrays[name] = data.draw(st.sampled_from([np.zeros(0), np.zeros((2, 3, 4)), np.full(4, np.nan), np.zeros(3)]))
    try:
        verdict = judge_given(given_claim(words, arrays))
    except (Unreadable, NotCovered):
        return
    if verdict.agreed and verdict.stated == (9.0,) * 8:
        assert max(verdict.judged) <= 9.0


def test_certificates_of_given_networks_are_saved_and_judged(tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.LayerNorm(3), torch.nn.Linear(3, 2))
    module.eval()
    box = {"x": (-0.1, 0.1), "y": (0.2, 0.3)}
    found = af.ranges(module, box, time_limit=BLINK)
    assert found.verdict().agreed
    near = af.compare(module, module, box, time_limit=BLINK)
    assert near.bound < 1e-3
    held = af.certify(module, domain=box, requirement={0: (-9, 9), (0, 1): -9}, time_limit=BLINK)
    error = af.certify(module, "[x*y, x - y]", box, time_limit=BLINK)
    for number, certificate in enumerate((found.certificate, near, held, error)):
        file = tmp_path / f"{number}.safetensors"
        certificate.save(file)
        assert judge_file(file).agreed
    traced = af.certify(module, lambda x, y: np.stack([x * y, np.tanh(y)], axis=-1), box, time_limit=BLINK)
    with pytest.raises(af.errors.InputError, match="target as a formula"):
        traced.verdict()
    with pytest.raises(af.errors.FileFormatError):
        af.load(file)


def test_claims_are_written_and_judged_on_the_command_line(tmp_path):
    graph, box = network("tanh", 3), af.Box([0, 0], [1, 1])
    good, lie = tmp_path / "good.safetensors", tmp_path / "lie.safetensors"
    claimed((graph,), box, 9.0).save(good, "proved", ())
    claimed((graph,), box, 1e-3).save(lie, "proved", ())
    run = CliRunner()
    agreed = run.invoke(app, ["verify", str(good)])
    assert agreed.exit_code == 0
    assert "agreed" in agreed.stdout
    refused = run.invoke(app, ["verify", str(lie)])
    assert refused.exit_code == 3
    assert "not agreed" in refused.stdout


def test_ranges_on_the_command_line_can_be_saved(tmp_path):
    net, claim = tmp_path / "net.safetensors", tmp_path / "claim.safetensors"
    af.compile("sin(3*x)", {"x": (-1, 1)}, eps=0.1).save(net)
    made = CliRunner().invoke(app, ["ranges", str(net), "-d", "x=0:0.001", "-o", str(claim)])
    assert made.exit_code == 0, made.output
    assert judge_file(claim).covered
