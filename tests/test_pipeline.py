"""compile(): arguments, refusals, tolerances out of reach, sizes, repeatability."""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from multiprocessing import get_context

import numpy as np
import pytest

import attnfun as af

LINE = {"x": (-1, 1)}


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"eps": 0}, "eps must be a finite number > 0"),
        ({"eps": -1}, "eps must be"),
        ({"eps": math.nan}, "eps must be"),
        ({"eps": math.inf}, "eps must be"),
        ({"eps": "small"}, "eps must be"),
        ({"eps": True}, "eps must be"),
        ({"eps": None}, 'options={"tokens": N}'),
        ({"eps": 0.1, "norm": 0.5}, "norm must be"),
        ({"eps": 0.1, "dtype": "int8"}, "dtype must be one of float64, float32, bfloat16, float16"),
        ({"eps": 0.1, "budget": 0}, "budget"),
        ({"eps": 0.1, "time_limit": 0}, "time_limit"),
        ({"eps": 0.1, "construction": "magic"}, "construction must be one of auto, grid, cross, spectral"),
        ({"eps": 0.1, "options": {"tokns": 3}}, "options of grid are cells, gamma, layout, memory, tokens"),
        ({"eps": 0.1, "construction": "grid", "options": {"gamma": 1}}, "gamma must be a finite number >= 10"),
        (
            {"eps": 0.1, "construction": "cross", "options": {"layout": "rows"}},
            "one of packed, position",
        ),
        ({"eps": 0.1, "outside": "ignore"}, "outside"),
        ({"eps": "0.1"}, "eps must be a finite number > 0; got '0.1'"),
        ({"eps": 10**400}, "eps must be"),
        ({"eps": Decimal("sNaN")}, "eps must be"),
        ({"eps": 0.1, "norm": "2"}, "norm must be"),
        ({"eps": 0.1, "norm": math.nan}, "norm must be"),
        ({"eps": 0.1, "norm": -1}, "norm must be"),
        ({"eps": 0.1, "norm": True}, "norm must be"),
        ({"eps": 0.1, "relative": 1}, "relative must be True or False; got 1"),
        ({"eps": 0.1, "proof": "no"}, "proof must be True or False; got 'no'"),
        ({"eps": 0.1, "dtype": np.longdouble}, "dtype must be one of"),
        ({"eps": 0.1, "dtype": ["float32"]}, "dtype must be one of"),
        ({"eps": 0.1, "budget": 1.5}, "budget must be a whole number >= 1; got 1.5"),
        ({"eps": 0.1, "budget": True}, "budget"),
        ({"eps": 0.1, "time_limit": "5"}, "time_limit must be a number of seconds > 0; got '5'"),
        ({"eps": 0.1, "time_limit": math.nan}, "time_limit"),
        ({"eps": 0.1, "options": [("tokens", 3)]}, "options must be a dict"),
        ({"eps": 0.1, "options": {1: 2}}, "options must be a dict"),
        ({"eps": 0.1, "options": {"tokens": "a"}}, "options tokens must be a whole number >= 1; got 'a'"),
        ({"eps": None, "options": {"tokens": 2.5}}, "options tokens must be"),
        ({"eps": 0.1, "construction": "grid", "options": {"gamma": "a"}}, "gamma must be"),
        ({"eps": 0.1, "construction": ["grid"]}, "construction must be one of auto"),
        ({"eps": 0.1, "outside": 3}, "outside must be one of"),
        ({"eps": 0.1, "lipschitz": math.nan}, "lipschitz must be"),
        ({"eps": 0.1, "lipschitz": "3"}, "lipschitz must be"),
        ({"eps": 0.1, "lipschitz": True}, "lipschitz must be"),
        ({"eps": 0.1, "seed": -1}, "seed must be a whole number >= 0; got -1"),
        ({"eps": 0.1, "seed": 0.5}, "seed must be"),
        ({"eps": 0.1, "progress": 5}, "progress must be a function; got 5"),
        ({"eps": 0.1, "executor": 3}, "executor must be a concurrent.futures.Executor; got 3"),
        ({"eps": 0.1, "checkpoint": 3}, "checkpoint must be the path of a file or folder; got 3"),
        ({"eps": 0.1, "checkpoint": __file__}, "checkpoint must be a folder; got the file"),
        ({"eps": 0.1, "checkpoint": "a\0b"}, "checkpoint must be the path"),
        ({"eps": 0.1, "cache": 3}, "cache must be the path of a file or folder; got 3"),
        ({"eps": 0.1, "domain": None}, "a domain must be"),
        ({"eps": 0.1, "domain": "x=-1:1"}, "a domain must be"),
        ({"eps": 0.1, "domain": (1, -1)}, "lo < hi"),
        ({"eps": 0.1, "domain": (0, math.nan)}, "pair of numbers"),
        ({"eps": 0.1, "domain": (0, math.inf)}, "finite ends"),
        ({"eps": 0.1, "domain": ("0", "one")}, "number"),
        ({"eps": 0.1, "domain": {"x": (None, 1)}}, "pair of numbers"),
        ({"eps": 0.1, "domain": (0, 10**400)}, "pair of numbers"),
        ({"eps": 0.1, "relative": True, "target": "0*x"}, "not zero"),
    ],
)
def test_bad_arguments_are_refused(keywords, message):
    arguments = {"target": "sin(x)", "domain": LINE, **keywords}
    with pytest.raises(af.errors.InputError, match=message.replace("{", r"\{")):
        af.compile(**arguments)


@pytest.mark.parametrize("eps", [np.float32(0.1), np.int64(1), Fraction(1, 10), Decimal("0.1"), 1])
def test_any_kind_of_number_is_a_tolerance_and_none_is_rounded_up(eps):
    net = af.compile("x**2", LINE, eps)
    assert net.eps <= eps
    assert net.certificate.bound <= net.eps


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float32"), "float32"])
def test_a_dtype_may_be_one_of_numpy(dtype):
    assert af.compile("x", LINE, 0.1, dtype=dtype).network.dtype == "float32"


@pytest.mark.parametrize(
    ("name", "value"), [("budget", 10**30), ("seed", 10**30), ("norm", math.inf), ("time_limit", math.inf)]
)
def test_extreme_arguments_that_make_sense_are_accepted(name, value):
    assert af.compile("x", LINE, 0.1, **{name: value}).certificate.proved


def test_a_tolerance_beyond_the_budget_says_how_many_tokens_it_takes():
    with pytest.raises(af.errors.ToleranceNotMet, match=r"needs about \d+.* tokens") as caught:
        af.compile("sin(3*x)", LINE, 1e-4, budget=200, construction="grid")
    best = caught.value.best
    assert best.network.tokens <= 200
    assert best.certificate.status is af.types.Status.ESTIMATED
    with pytest.raises(af.errors.ToleranceNotMet, match="tokens"):
        af.compile("sin(3*x)*y*z", {**LINE, "y": (-1, 1), "z": (0, 1)}, 1e-9, construction="grid", budget=1000)


@pytest.mark.parametrize("eps", [1e-20, 1e-300])
def test_a_grid_of_astronomical_size_is_refused_in_words(eps):
    with pytest.raises(af.errors.ToleranceNotMet, match=r"needs about [\d.]+e\+\d+ tokens"):
        af.compile("sin(3*x)", LINE, eps, construction="grid", budget=100)


def test_a_jump_is_refused_under_the_sup_norm():
    with pytest.raises(af.errors.InputError, match=r"jumps at x in \[.*got a jump of at least 2"):
        af.compile("sign(x)", LINE, 0.1)
    with pytest.raises(af.errors.InputError, match="jumps at"):
        af.compile("x*y + 0.01*sign(x - y)", {"x": (-1, 1), "y": (-1, 1)}, 0.001)
    assert af.compile("sqrt(x)", {"x": (0, 1)}, 0.02).certificate.proved
    assert af.compile("sign(x)", LINE, 2.5).certificate.proved


def test_rounding_can_be_what_is_in_the_way():
    with pytest.raises(af.errors.ToleranceNotMet, match="float32"):
        af.compile("1e5 + sin(x)", LINE, 3e-2, dtype="float32", construction="grid")


def test_a_relative_tolerance_scales_with_the_target():
    net = af.compile("1000*sin(3*x)", LINE, 0.1, relative=True)
    assert 90 <= net.eps <= 100
    assert net.certificate.bound <= net.eps


def test_an_estimate_on_request():
    assert af.compile("sin(x)", LINE, 0.1, proof=False).certificate.status is af.types.Status.ESTIMATED


def test_equal_calls_give_equal_results():
    first, second = (af.compile("exp(x)*sin(9*y)", {"x": (0, 1), "y": (0, 1)}, 1e-3, seed=3) for _ in range(2))
    assert first.certificate.as_dict() == second.certificate.as_dict()
    assert np.array_equal(first.network.attention[0].memory, second.network.attention[0].memory)


def test_the_a_priori_bound_holds_for_a_declared_constant():
    slope = 2.0
    for tokens in (4, 30, 200):
        net = af.compile(
            lambda p: slope * np.asarray(p[..., 0]), [(-1, 1)], options={"tokens": tokens}, lipschitz=slope
        )
        rows = np.linspace(-1, 1, 20001)[:, None]
        assert np.abs(net(rows) - slope * rows[:, 0]).max() <= net.a_priori * (1 + 1e-12)


def test_the_summary_says_the_essentials():
    net = af.compile("sin(3*x)*y", {"x": (-1, 1), "y": (-1, 1)}, 0.1, construction="grid")
    summary = net.summary()
    assert summary.tokens == net.network.tokens == summary.as_dict()["tokens"]
    assert summary.paper_tokens > summary.tokens
    assert summary.largest_error_found <= summary.bound
    for word in ("grid", "2504.19901", "tokens", "parameters", "largest logit", "proved", "beta", "paper's argument"):
        assert word in str(summary)
    assert "sin(3*x)*y" in repr(net)
    assert "proved" in repr(net)


def test_the_cheapest_construction_is_chosen():
    smooth = af.compile("sin(3*x)", LINE, 1e-6)
    assert smooth.construction == "spectral"
    assert smooth.network.tokens < 30
    assert af.compile(np.sign, (0.5, 1), 0.1).network.tokens == 1
    with pytest.raises(af.errors.InputError, match="These do: grid"):
        af.compile(np.sin, (0, 1), 0.1, lipschitz=1.0, construction="spectral")


@pytest.mark.parametrize(
    ("formula", "eps", "chosen", "tokens"),
    [
        ("tanh(5*x)*tanh(3*y)", 1e-3, "spectral", 4),  # a product of two exact heads
        ("cos(3*x + 5*y)", 1e-3, "circuit", 8),  # one function of one form
        ("exp(x)*sin(y) + abs(x - y)", 1e-2, "circuit", 20),  # kinks and products in two variables
    ],
)
def test_structure_is_found_and_used(formula, eps, chosen, tokens):
    net = af.compile(formula, {"x": (-1, 1), "y": (-1, 1)}, eps)
    assert net.construction == chosen
    assert net.network.tokens <= tokens
    assert net.certificate.proved


def test_the_summary_says_what_was_considered(tmp_path):
    net = af.compile("abs(sin(3*x))*exp(x/2)", LINE, 1e-3)
    names = [each.construction for each in net.alternatives]
    assert names[0] == net.construction == "spectral"
    assert net.alternatives[0].verdict == "chosen"
    assert net.alternatives[0].tokens == net.network.tokens
    assert {"circuit", "grid"} <= set(names[1:])
    assert all(each.tokens >= net.network.tokens for each in net.alternatives[1:])
    assert "circuit (" in str(net.summary())
    net.save(tmp_path / "f.safetensors")
    assert af.load(tmp_path / "f.safetensors").alternatives == net.alternatives


def test_nothing_is_forecast_that_cannot_beat_a_circuit_of_one_token():
    net = af.compile("max(x, 2*y)", {"x": (-1, 1), "y": (-1, 1)}, eps=1e-6)
    assert net.construction == "circuit"
    assert {each.verdict for each in net.alternatives[1:]} == {"not forecast, takes 2 tokens or more"}


def test_a_choice_that_misses_gives_way_to_the_next():
    net = af.compile("sqrt(x**2 + y**2)", {"x": (-1, 1), "y": (-1, 1)}, 1e-3)
    assert net.certificate.proved
    alone = af.compile("sin(x)", LINE, 1e-3, construction="grid")
    assert [each.construction for each in alone.alternatives] == ["grid"]


def test_sums_of_functions_of_one_form_are_one_head():
    net = af.compile("sin(x + y) + exp(x + y) + 2*x + z**2", dict.fromkeys("xyz", (-1, 1)), 1e-6)
    assert net.construction == "circuit"
    assert net.network.heads == 2


def opaque(function):
    """A function of one point at a time, which cannot be traced."""

    def each(points):
        flat = np.asarray(points, dtype=float)
        return np.array([float(function(row)) for row in flat.reshape(-1, flat.shape[-1])]).reshape(flat.shape[:-1])

    return each


@pytest.mark.parametrize(
    ("function", "size", "chosen", "tokens"),
    [
        (lambda r: np.tanh(r @ np.arange(1, 7) / 3) + r[0], 6, "subspace", 40),
        (lambda r: r[0] + 2 * r[1] - r[4], 5, "subspace", 1),
        (lambda r: np.sin(3 * r[0]) + r[1] * r[2] + np.exp(r[3]) + r[4], 5, "spectral", 80),
    ],
    ids=["a ridge and a slope", "affine", "a sum over few variables"],
)
def test_black_boxes_of_many_variables_show_their_structure(function, size, chosen, tokens):
    net = af.compile(opaque(function), [(-1, 1)] * size, 1e-3)
    assert net.construction == chosen
    assert net.network.tokens <= tokens
    assert net.certificate.status is af.types.Status.ESTIMATED
    rows = np.random.default_rng(5).uniform(-1, 1, (200, size))
    assert np.abs(net(rows) - opaque(function)(rows)).max() <= 1e-3


def test_a_black_box_is_asked_once_a_point_and_the_count_is_shown():
    seen = []

    def simulator(points):
        if points.dtype == np.float64:  # not the symbols of an attempt to trace it
            seen.extend(map(tuple, points.tolist()))
        return np.array([float(np.sin(3 * x) * y) for x, y in points])

    net = af.compile(simulator, [(-1, 1)] * 2, 1e-3)
    calls = len(seen)
    assert net.summary().figures["evaluations"] == len(set(seen)) == calls - 3  # the first calls learn the shape
    assert "evaluations" in str(net.summary())
    with ThreadPoolExecutor(2) as workers:
        shared = af.compile(simulator, [(-1, 1)] * 2, 1e-3, executor=workers)
    assert shared.certificate.as_dict() == net.certificate.as_dict()


def test_workers_must_know_the_function():
    workers = ProcessPoolExecutor(1, mp_context=get_context("spawn"))  # other tests may have started threads here
    with workers, pytest.raises(af.errors.InputError, match="workers must be able to import"):
        af.compile(lambda p: np.array([max(float(x), 0.1) for (x,) in p]), [(-1, 1)], 0.1, executor=workers)


def sigmoid_gate(X):
    return X * (1 + np.tanh(X)) / 2


def test_what_treats_tokens_alike_is_compiled_for_one_token(tmp_path):
    net = af.compile(sigmoid_gate, af.Box(-np.ones((12, 1)), np.ones((12, 1))), 1e-5)
    alone = af.compile(sigmoid_gate, af.Box(-np.ones((1, 1)), np.ones((1, 1))), 1e-5)
    assert net.network.tokens == alone.network.tokens
    assert net.certificate.bound == alone.certificate.bound
    assert net.certificate.proved
    X = np.random.default_rng(0).uniform(-1, 1, (50, 12, 1))
    assert np.abs(net(X) - sigmoid_gate(X)).max() <= net.certificate.bound
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors").certificate
    assert again.recheck(sigmoid_gate).bound <= net.certificate.bound
    with pytest.raises(af.errors.AttnfunError):
        again.recheck(lambda X: X * (1 + np.tanh(1.1 * X)) / 2)


def test_the_papers_head_for_one_token_serves_each_token():
    box = af.Box(-np.ones((4, 1)), np.ones((4, 1)))
    net = af.compile(sigmoid_gate, box, 0.2, construction="cross")
    assert net.network.tokens < 20  # and not to the power 4
    X = np.random.default_rng(0).uniform(-1, 1, (50, 4, 1))
    assert np.abs(net(X) - sigmoid_gate(X)).max() <= net.certificate.bound <= 0.2
    with pytest.raises(af.errors.InputError, match="subspace must serve"):
        af.compile(sigmoid_gate, box, 0.2, construction="subspace")


@pytest.mark.parametrize(
    "function", [lambda X: X - X[..., ::-1, :], lambda X: X * np.array([[1.0], [2.0]])], ids=["mixes", "differs"]
)
def test_what_treats_tokens_differently_is_not(function):
    net = af.compile(function, af.Box(-np.ones((2, 1)), np.ones((2, 1))), 1e-3)
    X = np.random.default_rng(0).uniform(-1, 1, (50, 2, 1))
    assert np.abs(net(X) - function(X)).max() <= net.certificate.bound <= 1e-3


def test_an_estimate_says_what_it_is_worth():
    net = af.compile("sin(3*x)", LINE, 1e-3, proof=False)
    (note,) = net.certificate.assumptions
    assert "random points that the construction has not seen" in note
    assert "confidence 99.9%" in note
    assert net.certificate.recheck().as_dict() == net.certificate.as_dict()


def test_axes_get_tokens_by_how_much_the_target_varies():
    net = af.compile("10*x + 0.1*y", {"x": (0, 1), "y": (0, 1)}, 0.5, construction="grid")
    centres = net.network.attention[0].keys()[0]
    assert len(np.unique(centres[:, 0])) > 5 * len(np.unique(centres[:, 1]))
