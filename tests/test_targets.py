"""Formulas and Python functions as targets: what is read, what is refused, and how it is said."""

from __future__ import annotations

import math
import pickle
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.domains.box import as_box
from attnfun.formula.parser import parse
from attnfun.pieces.singularities import survey
from attnfun.targets import Expression, SamplesTarget, as_target
from attnfun.targets.defects import jumps


def value(text: str, **variables: float) -> float:
    domain = as_box({name: (number - 1, number + 1) for name, number in variables.items()})
    return as_target(text, domain).values(np.array([list(variables.values())]))[0, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2*x**2 - 1", 2 * 0.3**2 - 1),
        ("-x**2", -(0.3**2)),
        ("2**-1 + +x", 0.8),
        ("x**0.5", math.sqrt(0.3)),
        ("ln(x) - log(x)", 0.0),
        ("sin(pi*x)/e", math.sin(math.pi * 0.3) / math.e),
        ("max(x, 0.1, 0.7, -2)", 0.7),
        ("min(x, 1)", 0.3),
        ("sign(x) + abs(-x)", 1.3),
        ("erf(x) + tan(x) + asin(x) + acos(x) + atan(x)", None),
        ("sinh(x)*cosh(x)*tanh(x)", math.sinh(0.3) * math.cosh(0.3) * math.tanh(0.3)),
        ("1e-3 + 1_000*x + 0x10", 0.001 + 300 + 16),
        ("\n x +\t 1 ", 1.3),
        ("where(x < 0.5, 2, 3) + where(0.5 > x >= 0.4, 10, 20)", 22),
        ("where(x > 1 or not x > 0.2, 1, log(x - 0.2))", math.log(0.3 - 0.2)),
        ("x > 0.2 and x <= 0.3", 1.0),
    ],
)
def test_formulas_are_read_as_in_python(text, expected):
    if expected is None:
        expected = math.erf(0.3) + math.tan(0.3) + math.asin(0.3) + math.acos(0.3) + math.atan(0.3)
    assert value(text.replace("\n", " "), x=0.3) == pytest.approx(expected, rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("text", ["x # a comment\n + 1 # another", "x #\r\n+ 1", "# one\n\n# two\nx + 1"])
def test_a_comment_ends_with_its_line(text):
    target = Expression(text, as_box({"x": (0, 1)}))
    assert target.values(np.array([[0.25]])) == 1.25
    assert " ".join(target.text.split()) == "x + 1"
    region = af.Region("x < 0.5  # left\n and x > 0.25", {"x": (0, 1)})
    assert region.contains(np.array([[0.1], [0.3], [0.6]])).tolist() == [False, True, False]
    assert "#" not in repr(region) + str(region.as_dict())


def test_constants_give_way_to_variables_of_the_same_name():
    assert value("e*pi", e=2.0, pi=5.0) == 10.0


def test_sub_expressions_are_shared():
    program = parse("sin(x)*sin(x) + sin(x)", ("x",))
    assert [node.kind for node in program.nodes] == ["variable", "sin", "*", "+"]


def test_long_and_deep_formulas_do_not_overflow_the_stack():
    text = "+".join(f"x*{k}" for k in range(2000))
    assert value(text, x=1.0) == sum(range(2000))
    with pytest.raises(af.errors.InputError, match="cannot be read"):
        parse("(" * 3000 + "x" + ")" * 3000, ("x",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not empty"),
        ("sin(x", "cannot be read"),
        ("x^2", r"x\*\*2"),
        ("y + 1", "'y'.*Known: x, pi, e"),
        ("sinn(x)", "Did you mean sin"),
        ("sin", "write sin"),
        ("sin(x, x)", "one argument"),
        ("max(x)", "two or more"),
        ("x.real", "only"),
        ("x if x else 1", "only"),
        ("__import__('os')", "real numbers|function"),
        ("(lambda: 1)()", "only"),
        ("[x, [x]]", "only"),
        ("[]", "at least one"),
        ("'a'", "real numbers"),
        ("1j", "real numbers"),
        ("True", "real numbers"),
        ("1e999", "too large"),
        ("x + 1e-99999999", "too small"),
        ("x + 1e-9999999999999999999999", "too small"),
        ("x + 0." + "0" * 400 + "1", "too small"),
        ("x * 0x" + "f" * 5000, "too large"),
        ("1" * 5000, "cannot be read"),
        ("1or x", "cannot be read"),
        ("\ud800", "cannot be read"),
        ("-" * 5000 + "x", "cannot be read"),
        ("+".join("x" * 30000), "cannot be read"),
        ("9" * 400, "too large"),
        ("x\0", "cannot be read"),
        ("sin(x=1)", "only"),
        ("x; x", "cannot be read"),
        ("x == 1", "only"),
        ("x is x", "only"),
        ("(x < 1) + 1", r"where\(condition, 1, 0\)"),
        ("where(x, 1, 2)", "needs a comparison"),
        ("where(x < 1, 2)", "three arguments"),
        ("x < 1 and x", "needs a comparison"),
    ],
)
def test_bad_formulas_are_refused_with_the_reason(text, message):
    with pytest.raises(af.errors.InputError, match=message):
        as_target(text, as_box({"x": (0, 1)}))


SAFE = st.sampled_from(["x", "y", "1.5", "0.1", "pi", "3"])
BINARY = ["({} + {})", "({} - {})", "({} * {})", "min({}, {})", "max({}, {})", "({} / (2 + {}**2))"]
BRANCHES = ["where(x < {}, {}, y)", "where(x*y <= 0.3 or not y > 0, {}, {})"]
UNARY = st.sampled_from(["sin({})", "cos({})", "tanh({})", "abs({})", "exp(-abs({}))", "sqrt(1 + {}**2)", "(-({}))"])


@st.composite
def formulas(draw, depth=4, binary=tuple(BINARY)):
    if depth == 0 or draw(st.booleans()) is False:
        return draw(SAFE)
    part = formulas(depth=depth - 1, binary=binary)
    if draw(st.booleans()):
        return draw(UNARY).format(draw(part))
    return draw(st.sampled_from(binary)).format(draw(part), draw(part))


@given(formulas(binary=(*BINARY, *BRANCHES)), st.tuples(*[st.floats(-2, 2)] * 4))
def test_enclosures_of_random_formulas_contain_their_values(text, ends):
    low, high = np.sort(np.array(ends).reshape(2, 2), axis=0)
    target = as_target(text, as_box({"x": (-3, 3), "y": (-3, 3)}))
    box = target.enclose(Interval(low[None], high[None]))
    points = np.random.default_rng(0).uniform(low, high, (50, 2))
    values = target.values(np.vstack([points, low, high]))
    slack = 1e-12 * (1 + np.abs(values))  # the float values are rounded themselves
    assert (values >= box.lo - slack).all()
    assert (values <= box.hi + slack).all()


def test_undefined_places_are_named():
    with pytest.raises(af.errors.InputError, match=r"'log\(x\)' is undefined or unbounded"):
        af.compile("1 + log(x)", {"x": (-1, 1)}, 0.1)
    with pytest.raises(af.errors.InputError, match=r"1/\(x-0\.3\).*0\.3"):
        af.compile("1/(x-0.3)", {"x": (0, 1)}, 0.1)
    with pytest.raises(af.errors.InputError, match=r"tan\(x\*y\)"):
        af.compile("tan(x*y)", {"x": (0, 2), "y": (0, 2)}, 0.1)


def test_an_unnamed_axis_takes_the_name_of_the_single_variable():
    assert as_target("sin(t)", as_box((0, 1))).domain.axes == ("t",)
    with pytest.raises(af.errors.InputError, match=r"'a': \(lo, hi\), 'b'"):
        as_target("a*b", as_box([(0, 1), (0, 1)]))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda p: p[..., 0] * np.nan, "finite on the whole domain"),
        (lambda p: np.log(p[..., 0] - 0.5), "bounded on the whole domain"),
        (lambda p: 3.0, "leading axis"),
        (lambda p: p[0], "leading axis"),
        (lambda p: p[..., 0] * 1j, "real numbers"),
        (lambda p: math.sin(p), "must accept an array"),
        (lambda p: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_bad_functions_are_refused_with_the_reason(function, message):
    with pytest.raises(af.errors.InputError, match=message):
        af.compile(function, [(0, 1), (0, 1)], 0.1)


def test_the_point_where_a_function_is_not_finite_is_named():
    with pytest.raises(af.errors.InputError, match="x0 = "):
        af.compile(lambda p: np.where(np.asarray(p[..., 0]) > 0.9, np.inf, 0.0), [(0, 1)] * 2, 0.1)


@pytest.mark.parametrize("size", [1.0, 1e-200])
def test_a_false_lipschitz_constant_is_found_out(size):
    with pytest.raises(af.errors.InputError, match=r"declared constant \S+; got a slope of"):
        af.compile(lambda p: size * np.asarray(p[..., 0]) ** 2, [(0, 1)] * 2, 0.1 * size, lipschitz=0.1 * size)


@pytest.mark.parametrize("size", [1.0, 1e-200, 1e200])
def test_rounded_values_do_not_contradict_a_lipschitz_constant(size):
    target = as_target(lambda p: size * (np.asarray(p) / 3 + 7), as_box((0, 1)), lipschitz=size / 3)
    target.values(np.cumsum(np.geomspace(1e-12, 0.1, 100))[:, None])
    target.enclose(Interval([[0.5]]))
    assert target.contradiction(np.array([0.5])) == ""


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "3"])
def test_a_lipschitz_constant_must_be_a_number(bad):
    with pytest.raises(af.errors.InputError, match="lipschitz"):
        af.compile(np.sin, (0, 1), 0.1, lipschitz=bad)


def test_a_function_that_branches_is_told_so_and_offered_a_declaration():
    certificate = af.compile(lambda x: x if x.sum() > 0 else -x, (0.5, 1.0), 0.5).certificate
    assert certificate.status is af.types.Status.ESTIMATED
    assert "declare lipschitz=" in certificate.assumptions[0]


def test_things_that_are_no_targets_are_refused():
    with pytest.raises(af.errors.InputError, match="formula in text or a function"):
        af.compile(3.0, (0, 1), 0.1)


def test_constants_that_round_to_one_float_are_kept_apart():
    kinds = [node.kind for node in parse("0.1 - 0.10000000000000000001 + 0.1", ("x",)).nodes]
    assert kinds.count("constant") == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.where(x > 0.2, x - 0.2, 0.0),
        lambda x: (x > 0.2) * (x - 0.2),
        lambda x: np.where(~(x <= 0.2) & (x < 5), 1, 0) * (x - 0.2),
        lambda x: np.where(np.all(np.stack([x - 0.2, x + 5]) > 0, axis=0), x - 0.2, 0),
        lambda x: 2 * np.where((x > 0.2) | (x > 0.3), x / 2 - 0.1, 0) - (x < -7) / 2,
    ],
)
def test_comparisons_of_arrays_are_traced(function):
    """Conditions run on intervals and on Taylor series; each of these is max(x - 0.2, 0)."""
    net = af.compile(function, (-1, 1), 0.05)
    assert net.certificate.proved
    points = np.linspace(-1, 1, 5001)
    assert np.abs(net(points) - np.maximum(points - 0.2, 0)).max() <= net.certificate.bound


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: (x > 0) + (x > 0.5) + 0.0 * x, "truth values alone"),  # in NumPy an or, not a sum
        (lambda x: np.where(x == 0, 1.0, x), "np.equal"),
        (lambda x: np.where(np.where(x > 0, 1, 2) & 2, 1.0, x), "for &: "),
        (lambda x: x if (x > 0).any() else -x, "branch on a value"),
        (lambda x: np.array([1.0, 2.0])[(x > 0).astype(int)], "astype"),
    ],
)
def test_what_intervals_would_read_differently_is_not_traced(function, reason):
    certificate = af.compile(function, (-1, 1), 3.0).certificate
    assert certificate.status is af.types.Status.ESTIMATED
    assert reason in certificate.assumptions[0]


def test_an_undefined_branch_that_is_not_taken_is_not_blamed():
    assert af.compile("where(x > -2, x, log(x))", {"x": (-1, 1)}, 0.1).certificate.proved
    with pytest.raises(af.errors.InputError, match=r"'1/x' is undefined or unbounded"):
        af.compile("where(x > 5, log(x - 5), 1/x)", {"x": (-1, 1)}, 0.1)


def test_a_condition_that_intervals_cannot_follow_is_not_called_a_jump():
    with pytest.raises(af.errors.InputError, match="must be proved to be continuous, which was not possible"):
        af.compile("where(0.2 < x <= 0.5, x - 0.2, where(x > 0.5, 0.3, 0))", {"x": (-1, 1)}, 0.02)


def test_a_function_that_edits_its_argument_gets_copies():
    def edits(points):
        points *= 2.0
        return np.array([abs(x) / 2 for x in points.ravel()])

    net = af.compile(edits, (-1, 1), 0.2, lipschitz=1.0)
    points = np.linspace(-1, 1, 2001)
    assert np.abs(net(points) - np.abs(points)).max() <= net.certificate.bound
    rows = np.array([[0.5], [-0.25]])
    target = as_target(edits, as_box((-1, 1)), lipschitz=1.0)
    assert target.values(rows).tolist() == [[0.5], [0.25]]
    assert rows.tolist() == [[0.5], [-0.25]]


class Stepping:
    """sin(x), and something else once it was called so many times."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def __call__(self, x):
        self.calls -= 1
        return np.sin(x) if self.calls >= 0 else np.cos(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sin(x) + 1e-9 * np.random.default_rng().normal(),
        *(Stepping(calls) for calls in range(1, 12)),
        lambda x: x / x.sum(axis=0),
        lambda x: np.sin(x) + (0.1 if len(x) == 1 else 0.0),
        lambda x: x + 1e-6 * np.arange(len(x)),
    ],
)
def test_functions_that_are_not_the_same_in_every_call_are_refused(function):
    with pytest.raises(af.errors.InputError, match="same value at a point in every call"):
        af.compile(function, (1, 2), 0.01)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sin(x) if x.dtype == np.float64 else 0.0 * x,
        lambda x: np.cos(x) if str(getattr(x, "dtype", "")) == "object" else np.sin(x),
        lambda x: np.sin(x) if type(x) is np.ndarray else np.sin(x) + 1e-12,
    ],
)
def test_functions_that_are_others_on_symbols_are_not_traced(function):
    certificate = af.compile(function, (-1, 1), 0.1).certificate
    assert certificate.status is af.types.Status.ESTIMATED
    assert "is not the one that its operations have" in certificate.assumptions[0]


@pytest.mark.parametrize(
    "error", [AssertionError, KeyError, RecursionError, ZeroDivisionError, OSError, MemoryError, StopIteration]
)
def test_whatever_is_raised_on_symbols_is_no_error(error):
    def picky(x):
        if x.dtype == object:
            raise error("not for me")
        return np.sin(x)

    certificate = af.compile(picky, (-1, 1), 0.1).certificate
    assert not certificate.proved
    assert f"{error.__name__}: " in certificate.assumptions[0]


def test_vectorized_functions_have_real_values():
    ramp = np.vectorize(lambda x: 0 if x < 0 else x)  # by itself, whole numbers if the first value is one
    net = af.compile(ramp, (-1, 1), 0.05)
    points = np.linspace(-1, 1, 501)
    assert np.abs(net(points) - np.maximum(points, 0)).max() <= 0.05
    lengths = np.vectorize(lambda p: 0 if p[0] < 0 else math.hypot(*p), signature="(n)->()")
    assert as_target(lengths, as_box([(-1, 1)] * 2)).values(np.array([[-1.0, 0.0], [0.3, 0.4]])).tolist() == [
        [0],
        [0.5],
    ]


def test_values_that_defeat_a_rational_fit_are_no_error():
    found = survey(lambda x: x.astype(int).astype(float)[:, None], -1.0, 1.0, 0.01)  # 0 but for the ends
    assert len(found.poles) == 0


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_singularities_are_found_at_every_scale(scale):
    plain, scaled = (survey(lambda x, a=a: a / (x**2 + 1e-2)[:, None], -1.0, 1.0, 1e-6 * a) for a in (1.0, scale))
    assert np.sort_complex(scaled.poles) == pytest.approx(np.sort_complex(plain.poles), abs=1e-6)
    assert scaled.scale == pytest.approx(scale * plain.scale)


def test_a_function_must_be_the_same_in_every_worker(monkeypatch):
    target = as_target(shifted, as_box((-1, 1)))
    data = pickle.dumps(target)
    assert pickle.loads(data).values(np.zeros((1, 1))) == 1.0  # noqa: S301
    monkeypatch.setattr(sys.modules[__name__], "SHIFT", 2.0)
    with pytest.raises(af.errors.InputError, match="same function in every worker"):
        pickle.loads(data)  # noqa: S301


SHIFT = 1.0


def shifted(x):
    return np.sin(x) + SHIFT


@pytest.mark.parametrize("text", ["1/(x - 2550000.1)", "1/y**2 + where(x > 2549999.6, 1, 0)"])
def test_poles_are_named_where_floats_are_far_apart(text):
    """No box gets as narrow as the search would like: floats near 2.5e6 are 5e-10 apart."""
    with pytest.raises(af.errors.InputError, match="must be defined and bounded"):
        af.compile(text, {"x": (2549993.8, 2550006.2), "y": (-0.96, 0.96)}, 0.1)


@pytest.mark.parametrize(("text", "refused"), [("sin(1e300*x)", False), ("atan(1/x)", True), ("sign(x)", True)])
def test_continuous_operations_do_not_jump_where_they_are_defined(text, refused):
    """However fast a sine is: nothing is called a jump that is none."""
    assert jumps(as_target(text, af.Box([-1], [1], ("x",))), 1e-3) is refused


def hill(p: np.ndarray) -> np.ndarray:
    return np.exp(-(np.asarray(p) ** 2)) / 2


X = np.linspace(0, 1, 20)


@pytest.mark.parametrize(
    "target",
    [
        as_target("sin(x)*x", as_box({"x": (0, 1)})),
        as_target(hill, as_box((0, 1))),
        as_target(np.vectorize(lambda x: float(hill(x))), as_box((0, 1))),
        as_target(hill, as_box((0, 1)), lipschitz=1.0),
        as_target(af.Samples(X, hill(X)), as_box((0, 1))),
        as_target(af.MaxAffine([[1.0], [-1.0]], [0.0, 0.5]), as_box([(0, 1)])),
        as_target(af.TruncatedLinear([[1.0]], [0.0], 0.2, 0.8), af.Box([[0.0]], [[1.0]])),
    ],
    ids=lambda target: type(target).__name__,
)
def test_targets_are_values_that_compiling_does_not_change(target):
    """What was learnt about a function stands in the certificate's target, not in the one that was given."""
    with pytest.raises(FrozenInstanceError):
        target.domain = as_box((0, 2))
    before = {name: value for name, value in vars(target).items() if name[0] != "_"}
    tokens = None if type(target).__name__ in ("TruncatedLinearTarget", "MaxAffineTarget") else {"tokens": 5}
    net = af.compile(target, target.domain, None if tokens else 0.2, options=tokens)
    after = {name: value for name, value in vars(target).items() if name[0] != "_"}
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)
    learnt = net.certificate.claim.imitated
    if target.recorded is not None:
        assert learnt.recorded is not None
        assert len(learnt.recorded[0]) > len(target.recorded[0])
    if isinstance(target, SamplesTarget):
        assert target.study is None
        assert isinstance(learnt, SamplesTarget)
        assert learnt.study is not None
