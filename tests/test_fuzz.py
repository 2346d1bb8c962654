"""Wrong types and extreme values at every public entry point: an AttnfunError or a result, nothing else, no warning.

Estimators follow scikit-learn's contract: what they refuse in `fit` and `predict` may also be its own ValueError or
TypeError. Pytest turns every warning into an error (`filterwarnings`).
"""

from __future__ import annotations

import inspect
import io
import math
import string
from contextlib import redirect_stderr, redirect_stdout
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.cli import main
from attnfun.formula.functions import FUNCTIONS
from attnfun.targets import as_target
from clocks import readings

LINE = {"x": (-1, 1)}


class Hostile:
    """An object that cannot be converted, compared or counted."""

    def fail(self, *_: Any) -> Any:
        raise KeyError("hostile")

    __float__ = __int__ = __array__ = __len__ = __iter__ = __eq__ = __lt__ = __hash__ = fail


WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    3,
    1.5,
    10**400,
    -(10**30),
    1e300,
    5e-324,
    math.nan,
    math.inf,
    1j,
    Fraction(1, 3),
    Decimal("NaN"),
    Decimal("1e-999999"),
    np.float32(0.5),
    np.int64(7),
    np.datetime64("2020-01-01"),
    "",
    "a",
    "inf",
    "a\0b",
    "\ud800",
    b"1",
    [],
    [[]],
    [0.25],
    [0.1, "0.2"],
    [[0.1], [0.2, 0.3]],
    [0.5, None],
    (1, -1),
    (0, math.nan),
    np.array(["0.5"]),
    np.array([1j]),
    np.zeros((0, 3)),
    np.full((2, 2, 2, 2), 0.5),
    {},
    {"x": None},
    {"x": (0, 1), "y": (math.inf, 0)},
    {1: 2},
    {1, 2},
    range(3),
    object,
    len,
    lambda *_: None,
    lambda x: x,
    Hostile(),
]

FEW = [True, 0, -1, 10**400, 1e300, 5e-324, math.nan, 1j, Decimal("NaN"), "", "a\0b", [], {}, object, Hostile()]
"""For what takes long."""
VALUES = (
    st.sampled_from(WRONG[:-1])
    | st.floats()
    | st.integers()
    | st.text(max_size=3)
    | st.lists(st.floats(), max_size=3)
    | st.dictionaries(st.sampled_from("xyz"), st.floats(), max_size=2)
)


def raw(call: Any, values: Any = WRONG, also: tuple[type[Exception], ...] = ()) -> list[str]:
    """What a call raises that is no error of ours, value by value."""
    found = []
    for number, value in enumerate(values):
        try:
            call(value)
        except (af.errors.AttnfunError, *also):
            pass
        except Exception as failure:  # all of them are what the test looks for
            found.append(f"value {number} ({value!r:.60}): {failure!r:.200}")
    return found


@pytest.fixture(autouse=True, scope="module")
def _elsewhere(tmp_path_factory):
    """Some wrong values name files and folders."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("fuzz"))
        yield


@pytest.fixture(scope="module")
def net() -> af.types.Compiled:
    return af.compile("x*y", {"x": (-1, 1), "y": (0, 1)}, 0.5, construction="grid")


SMALL = {"target": "x", "domain": LINE, "eps": 0.5, "construction": "grid", "budget": 64, "proof": False}
ARGUMENTS = [name for name in inspect.signature(af.compile).parameters if name != "progress"]
"""What a `progress` raises is the user's own."""


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_compile(name):
    assert not raw(lambda value: af.compile(**SMALL | {name: value}))


@pytest.mark.parametrize(
    ("construction", "option"),
    [("grid", "tokens"), ("grid", "gamma"), ("grid", "layout"), ("spectral", "density"), ("max-affine", "R")],
)
@pytest.mark.parametrize("eps", [None, 0.5])
def test_options_of_compile(construction, option, eps):
    keywords = SMALL | {"construction": construction, "eps": eps}
    assert not raw(lambda value: af.compile(**keywords | {"options": {option: value}}), FEW)


@pytest.mark.parametrize(
    ("target", "construction", "option"),
    [
        (af.TruncatedLinear([[1.0]], 0.0, -1, 1), "truncated-linear", "p"),
        (af.TruncatedLinear([[1.0]], 0.0, -1, 1), "multihead", "H"),
        (af.Samples([0.0, 1.0, 2.0], [0.0, 1.0, 0.0]), "regression", "folds"),
        (af.Samples([0.0, 1.0, 2.0], [0.0, 1.0, 0.0]), "regression", "polish"),
    ],
)
def test_options_of_special_targets(target, construction, option):
    domain = None if isinstance(target, af.Samples) else [(-1, 1)]
    assert not raw(
        lambda value: af.compile(target, domain, construction=construction, options={option: value}, proof=False)
    )


DISC = "x**2 + y**2 <= 1"
SQUARE = {"x": (-1, 1), "y": (-1, 1)}
MAKERS = {
    "Box lower": lambda value: af.Box(value, [1.0]),
    "Box upper": lambda value: af.Box([-1.0], value),
    "Box names": lambda value: af.Box([-1.0], [1.0], value),
    "Region condition": lambda value: af.Region(value, SQUARE),
    "Region box": lambda value: af.Region(DISC, value),
    "Points": lambda value: af.Points(value),
    "Points fill": lambda value: af.Points([0.0, 1.0], value),
    "Points names": lambda value: af.Points([0.0, 1.0], names=value),
    "Samples X": lambda value: af.Samples(value, [0.0, 1.0]).domain,
    "Samples y": lambda value: af.Samples([0.0, 1.0], value),
    "Samples names": lambda value: af.Samples([0.0, 1.0], [0.0, 1.0], value).domain,
    "MaxAffine A": lambda value: af.MaxAffine(value, [0.0]),
    "MaxAffine b": lambda value: af.MaxAffine([[1.0]], value),
    "MaxAffine minus": lambda value: af.MaxAffine([[1.0]], [0.0], value),
    "MaxAffine call": af.MaxAffine([[1.0]], [0.0]),
    "TruncatedLinear w": lambda value: af.TruncatedLinear(value, 0.0, 0, 1),
    "TruncatedLinear t": lambda value: af.TruncatedLinear([[1.0]], value, 0, 1),
    "TruncatedLinear a": lambda value: af.TruncatedLinear([[1.0]], 0.0, value, 1),
    "TruncatedLinear b": lambda value: af.TruncatedLinear([[1.0]], 0.0, 0, value),
    "TruncatedLinear call": af.TruncatedLinear([[1.0]], 0.0, 0, 1),
    "partition centres": lambda value: af.partition(value, domain=(-1, 1)).volumes,
    "partition weights": lambda value: af.partition([[0.0]], value, domain=(-1, 1)).volumes,
    "partition slopes": lambda value: af.partition(slopes=value, offsets=[0.0], domain=(-1, 1)).volumes,
    "partition offsets": lambda value: af.partition(slopes=[[0.0]], offsets=value, domain=(-1, 1)).volumes,
    "partition domain": lambda value: af.partition([[0.0]], domain=value),
    "partition cells": af.partition([[0.0], [1.0]], domain=(-1, 1)).cell_of,
    "partition indicator": lambda value: af.partition([[0.0], [1.0]], domain=(-1, 1)).indicator(0.5, value),
    "load": af.load,
}


@pytest.mark.parametrize("name", MAKERS)
def test_makers(name):
    assert not raw(MAKERS[name])


USES = {
    "call": lambda net, value: net(value),
    "call outside": lambda net, value: net([5.0, 5.0], outside=value),
    "call anywhere": lambda net, value: net(value, outside="allow"),
    "grad": lambda net, value: net.grad(value),
    "grad outside": lambda net, value: net.grad([5.0, 5.0], outside=value),
    "restrict": lambda net, value: net.restrict(value),
    "stream": lambda net, value: list(net.stream([value])),
    "save": lambda net, value: net.save(value),
    "split": lambda net, value: net.split("shards", value),
    "add": lambda net, value: net + value,
    "multiply": lambda net, value: value * net,
    "recheck engine": lambda net, value: net.certificate.recheck(engine=value),
    "plot panels": lambda net, value: net.plot(panels=value) if value is not None else None,
    "plot at": lambda net, value: net.plot(panels=["values"], at=value) if value is not None else None,
    "plot output": lambda net, value: net.plot(panels=["layers"], output=value),
    "export path": lambda net, value: net.export(value, "torch"),
    "export to": lambda net, value: net.export("exported.py", value),
    "onnx path": lambda net, value: net.to_onnx(value),
    "onnx attention": lambda net, value: net.to_onnx("f.onnx", value),
}


LONG_USES = {
    "tighten": lambda net, value: net.tighten(value),
    "recheck limit": lambda net, value: net.certificate.recheck(time_limit=value),
    "plot path": lambda net, value: net.plot(value, panels=["layers"]),
    "report": lambda net, value: net.report(value),
}


@pytest.mark.parametrize("name", USES)
def test_uses_of_a_network(name, net):
    assert not raw(lambda value: USES[name](net, value))


@pytest.mark.parametrize("name", LONG_USES)
def test_long_uses_of_a_network(name, net):
    assert not raw(lambda value: LONG_USES[name](net, value), FEW)


@pytest.fixture(scope="module")
def given_network() -> Any:
    """A network that somebody else made."""
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)).double()


BOX = [(-1, 1)] * 2
ABOUT_NETWORKS = {
    "ranges": (af.ranges, {"box": BOX, "dtype": None, "tolerance": 0.5, "seed": 0}),
    "certify": (af.certify, {"target": "x*y", "domain": BOX, "eps": None, "dtype": None, "seed": 0}),
    "requirement": (af.certify, {"domain": BOX, "requirement": {0: (-5, 5)}, "eps": None}),
    "compare": (lambda net, **given: af.compare(a=net, **given), {"b": "x*y", "domain": BOX, "eps": 9.0, "seed": 0}),
}


@pytest.mark.parametrize(
    ("call", "name"), [(call, name) for call, (_, usual) in ABOUT_NETWORKS.items() for name in usual]
)
def test_questions_about_networks(call, name, given_network):
    function, usual = ABOUT_NETWORKS[call]
    assert not raw(lambda value: function(given_network, **usual | {name: value}, time_limit=readings(20)), FEW)


@pytest.mark.parametrize("call", ABOUT_NETWORKS)
def test_networks_of_every_kind_are_asked_about(call):
    function, usual = ABOUT_NETWORKS[call]
    assert not raw(lambda value: function(value, **usual, time_limit=readings(20)))


RECTIFIERS = {"f": "x*y", "domain": BOX, "eps": 0.5, "units": 16, "dtype": "float64", "lipschitz": None, "seed": 0}


@pytest.mark.parametrize("name", RECTIFIERS)
def test_arguments_of_rectifiers(name):
    assert not raw(lambda value: af.rectifiers(**RECTIFIERS | {name: value}, time_limit=readings(20)), FEW)


CELLS = af.partition([[0.0], [1.0]], domain=(-1, 1))
HEAD = {"values": [0.0, 1.0], "eps": 0.5, "gap": 0.5, "norm": "inf", "dtype": "float64"}
OF = {"head": None, "domain": (-1, 1), "keys": [[1.0], [2.0]], "values": [1.0, 2.0], "number": 0, "before": None}


@pytest.mark.parametrize("name", HEAD)
def test_arguments_of_heads_of_partitions(name):
    assert not raw(lambda value: CELLS.head(**HEAD | {name: value}), FEW)


@pytest.mark.parametrize("name", OF)
def test_partitions_of_heads(name, net):
    assert not raw(lambda value: af.types.Partition.of(**OF | {"head": net} | {name: value}), FEW)


CALCULUS = {
    "diff": ("variable", "eps"),
    "antiderivative": ("eps",),
    "integrate": ("output", "tolerance"),
    "roots": ("output",),
    "max": ("output", "tolerance"),
    "maximum": ("other",),
}


@pytest.fixture(scope="module")
def line() -> af.types.Compiled:
    return af.compile("sin(3*x)", LINE, 0.5, construction="grid")


@pytest.mark.parametrize(("method", "name"), [(method, name) for method, names in CALCULUS.items() for name in names])
def test_arguments_of_calculus(method, name, line):
    short = {} if name == "other" else {"time_limit": readings(50)}
    assert not raw(lambda value: getattr(line, method)(**short, **{name: value}), FEW)


@pytest.mark.parametrize("method", ["diff", "integrate", "roots", "max", "tighten"])
def test_time_limits_of_calculus(method, line):
    assert not raw(lambda value: getattr(line, method)(time_limit=value), FEW[:4] + FEW[5:])  # not 1e300 s


TWO = {"Q": af.Box([-1.0], [1.0]), "K": af.Box([0.0], [1.0])}
DOMAINS = {
    "first input": lambda value: af.compile(lambda Q, K: Q[..., 0] * K[..., 0], TWO | {"Q": value}, 0.9),
    "second input": lambda value: af.compile(lambda Q, K: Q[..., 0] * K[..., 0], TWO | {"K": value}, 0.9),
    "end": lambda value: af.compile("exp(-x**2)", {"x": (value, math.inf)}, 0.5),
    "tolerance": lambda value: af.compile("atan(x)", {"x": (-math.inf, math.inf)}, value, budget=64),
    "what settles": lambda value: af.compile(value, {"x": (-math.inf, math.inf)}, 0.5, budget=64),
    "tail": lambda value: af.compile("(1-cos(x))**-0.25", {"x": (0, 1)}, 2.0, norm=1, tail=value, budget=64),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_domains_of_two_inputs_without_ends_and_tails(name):
    assert not raw(DOMAINS[name], FEW)


@pytest.mark.parametrize("where", [0, 1])
def test_points_of_two_inputs(where):
    net = af.compile(lambda Q, K: Q[..., 0] * K[..., 0], TWO, 0.9)
    assert not raw(lambda value: net(*(value if k == where else [0.5] for k in (0, 1))))


def test_beyond_a_domain_without_ends():
    net = af.compile("atan(x)", {"x": (-math.inf, math.inf)}, 0.5, construction="grid")
    for name in ("low", "high"):
        assert not raw(lambda value, name=name: net.beyond(**{name: value}))


@settings(max_examples=4)
@given(VALUES)
def test_values_drawn_at_random_everywhere(value):
    makers = [*MAKERS.values(), *(lambda value, name=name: af.compile(**SMALL | {name: value}) for name in ARGUMENTS)]
    assert not [failure for make in makers for failure in raw(make, [value])]


ROWS, HEIGHTS = [[0.0], [1.0], [2.0], [4.0]], [0.0, 1.0, 0.5, 0.25]
DATA = [value for value in WRONG if not isinstance(value, Hostile) and not (isinstance(value, int) and value > 1e300)]
"""What scikit-learn's own reading of data survives."""
CONTRACT = (ValueError, TypeError, ConvergenceWarning)
"""What scikit-learn's estimators may also raise and say."""


@cache
def learners() -> dict[str, Any]:
    model, learn = af.AttentionRegressor, af.incontext
    known = {
        "rows": lambda value: model(tokens=2, polish=False, folds=2).fit(value, HEIGHTS),
        "heights": lambda value: model(tokens=2, polish=False, folds=2).fit(ROWS, value),
        "predict": model(tokens=2, polish=False, folds=2).fit(ROWS, HEIGHTS).predict,
        "ridge rows": lambda value: learn.Ridge().fit(value, HEIGHTS),
        "ridge predict": learn.Ridge().fit(ROWS, HEIGHTS).predict,
        "classes": lambda value: learn.LogisticRegression().fit(ROWS, value),
    }
    for name in ("tokens", "polish", "folds", "dtype", "random_state"):
        known[name] = lambda value, name=name: model(**{"tokens": 2, "polish": False, "folds": 2, name: value}).fit(
            ROWS, HEIGHTS
        )
    for kind, names in {
        "LinearRegression": ("fit_intercept", "n_steps", "dtype"),
        "Ridge": ("alpha", "n_steps"),
        "Lasso": ("alpha", "n_steps"),
        "GLM": ("family", "alpha", "delta", "curvature"),
        "GradientDescent": ("loss", "alpha", "momentum", "step", "start", "steps", "reach", "tolerance"),
        "KernelRegression": ("gamma", "dtype"),
        "LogisticRegression": ("C",),
    }.items():
        for name in names:
            known[f"{kind} {name}"] = lambda value, kind=kind, name=name: (
                getattr(learn, kind)(**{name: value}).fit(ROWS, [0, 1, 1, 0]).predict(ROWS)
            )
    return known


@pytest.mark.parametrize("name", learners())
def test_learners(name):
    given = name in ("rows", "heights", "predict", "ridge rows", "ridge predict", "classes")
    assert not raw(learners()[name], DATA if given else FEW, CONTRACT)


def test_layers_to_write_into():
    import torch

    net = af.compile("x", LINE, 0.5, construction="cross")

    def write(**changed: Any) -> None:
        layer = torch.nn.MultiheadAttention(16, 1, dtype=torch.float64)
        af.init_(**{"module": layer, "target": net} | changed)

    for name in ("module", "heads", "reads", "writes", "flag", "one"):
        assert not raw(lambda value, name=name: write(**{name: value})), name


def test_the_zoo(net):
    some = af.zoo.specimen(net, "some", "x*y")
    assert not raw(lambda value: af.zoo.specimen(value, "some", "x*y"))
    assert not raw(lambda value: af.zoo.disguise(some, value, 0))
    assert not raw(lambda value: af.zoo.disguise(some, ["permute"], value))


def command(*words: str) -> int:
    """The exit code of a command."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), patch("sys.stdin", io.StringIO("")):
        try:
            main(list(words))
        except SystemExit as left:
            return left.code if isinstance(left.code, int) else 1
    return 0


WORDS = [
    "",
    "a",
    "-1",
    "nan",
    "inf",
    "1e400",
    "1e-400",
    "x=1:0",
    "x=0:1e300",
    "x=0:1 x=0:1",
    "\ud800",
    "=:",
    "/no/a",
]


@pytest.mark.parametrize(
    "place", ["formula", "--domain", "--eps", "--norm", "--dtype", "--construction", "--budget", "-O"]
)
def test_words_of_the_command_line(place):
    usual = {"formula": "x", "--domain": "x=-1:1", "--eps": "0.5", "--construction": "grid", "--budget": "64"}
    for word in WORDS:
        formula, *_ = (usual | {place: word}).values()
        rest = [part for name, value in (usual | {place: word}).items() if name != "formula" for part in (name, value)]
        assert command("compile", formula, *rest) in (0, 2, 3), word
    for words in (
        ("eval", "none"),
        ("info", ""),
        ("verify", "none", "--engine", place),
        ("export", "none", "--to", place),
    ):
        assert command(*words) == 2, words


ATOMS = st.sampled_from(["x", "y", "1", "0.1", "1e308", "1e-308", "pi", "1e9", "0"])
FORMULAS = st.recursive(
    ATOMS,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "**"]), inner).map(
            lambda parts: "({}{}{})".format(*parts)
        )
        | st.tuples(st.sampled_from(sorted(FUNCTIONS)), inner).map(lambda parts: "{}({})".format(*parts))
        | st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda parts: "{}({},{})".format(*parts))
        | st.tuples(inner, inner, inner).map(lambda parts: "where({}<{},{},0)".format(*parts))
    ),
    max_leaves=6,
)


@settings(max_examples=150)
@given(FORMULAS | st.text(string.printable, max_size=12) | st.text(max_size=6))
def test_formulas_are_read_or_refused(text):
    def read(text: str) -> None:
        target = as_target(text, af.Box([-1.0, 0.5], [1.0, 2.0], ("x", "y")))
        target.enclose(Interval([[-1.0, 0.5]], [[1.0, 2.0]]))
        target.values(np.array([[0.5, 1.0]]))

    assert not raw(read, [text])


@settings(max_examples=8)
@given(FORMULAS)
def test_formulas_are_compiled_or_refused(text):
    def build(text: str) -> None:
        af.compile(text, {"x": (-1, 1), "y": (0.5, 2)}, 0.5, budget=64, time_limit=readings(200))

    assert not raw(build, [text])


@pytest.mark.parametrize(
    "text",
    ["+".join(["x"] * 2000), "*".join(["x"] * 500), "sin(" * 90 + "x" + ")" * 90, "-" * 90 + "x", "x" + "**2" * 40],
)
def test_long_and_deep_formulas(text):
    assert not raw(lambda text: af.compile(text, LINE, 0.5, budget=64, time_limit=readings(200)), [text])


@pytest.mark.parametrize("construction", ["grid", "spectral", "circuit", "subspace"])
def test_amplitudes_near_the_largest_number_raise_no_warning(construction):
    names = "xyz" if construction == "subspace" else "xy"
    formula, domain = f"1e276*tanh({'+'.join(names)})", dict.fromkeys(names, (-1, 1))
    net = af.compile(formula, domain, 0.5, relative=True, construction=construction)
    assert 0 < net.certificate.bound <= net.eps


@pytest.mark.parametrize("construction", ["auto", "grid", "spectral", "circuit", "max-affine", "two-layer"])
def test_values_whose_sums_are_no_numbers_are_refused(construction):
    for amplitude in ("1e301", "3e307"):
        for relative in (True, False):
            with pytest.raises(af.errors.InputError, match=r"at most 1e\+300.*Divide"):
                af.compile(f"{amplitude}*(2+sin(x)*y)", SQUARE, 0.3, relative=relative, construction=construction)


def test_sizes_that_no_float_holds_are_said():
    with pytest.raises(af.errors.ToleranceNotMet, match=r"needs about \d\.\d+e\+5\d\d tokens"):
        af.compile("1e280*sin(x)*y", SQUARE, 0.3, construction="grid", budget=64)
