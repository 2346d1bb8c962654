"""The attack itself: it knows what is true, beats what is false, and beats no certificate."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from itertools import chain
from math import comb

import numpy as np
import pytest
from flint import arb, fmpq

import attnfun as af
import soak
from attack import attack, breakpoints, least_mean, norm_as_deployed, norm_from_below
from attnfun.constructions import REGISTRY
from attnfun.formula.functions import OPERATIONS
from balls import BallNetwork, Formula, ball, exact, in_floats, precision
from cases import CASES
from grammar import SPECIAL, Case, Draw, operations, piecewise_case, random_case
from soak import Journal, Totals, joined, report, run, second_opinion

LINE = {"x": (-1, 1)}


# ---------------------------------------------------------------- truth


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("where(x <= 0.5 and x >= 0.5, 1, 0)", 0.5, 1),
        ("where(0.1 <= x <= 0.1, 1, 0)", 0.1, 0),  # no float is 0.1
        ("where(0.1 + 0.2 <= 0.3, 1, 0)", 0.0, 1),
        ("where(not x < 0 or x > 2, 3, 4)", 0.0, 3),
        ("where(-1 < x < 0 < 1, 3, 4)", 0.0, 4),
        ("x**0 + x**3 + sign(x) + sinc(x) + cos(x)", 0.0, 3),
        ("(x - 2)**-2 + sqrt(x + 0.25)", 0.0, 0.75),
        ("max(x, 2*x, -3) + min(x, 1) + abs(-x)", 0.5, 2),
        ("where(sin(x) < sin(x), 1, 0)", 0.0, 0),
        ("x > 0.2 and x <= 0.5", 0.5, 1),
    ],
)
def test_values_are_exact_where_they_can_be(text, at, expected):
    assert Formula(text, ["x"])([exact(at)]) == [exact(expected)]


def test_a_condition_that_balls_cannot_tell_gives_both_branches():
    (value,) = Formula("where(sin(x)**2 + cos(x)**2 <= 1, 3, 5)", ["x"])([exact(0.3)])
    assert value.contains(3)
    assert value.contains(5)
    (value,) = Formula("where(x < 0.2, x, 5)", ["x"])([arb(0.25, 0.1)])
    assert value.contains(0.16)
    assert value.contains(5)


def test_numbers_of_a_python_function_are_floats():
    text = "where(0.1 + 0.2 <= x, 1, 0)"
    assert Formula(text, ["x"])([exact(0.3)]) == [fmpq(0)]  # the float 0.3 is below the decimal
    assert Formula(text, ["x"], floats=True)([exact(0.1 + 0.2)]) == [fmpq(1)]


@np.errstate(invalid="ignore")  # a branch that is not taken may be undefined
def test_truth_agrees_with_values_in_floats():
    met: Counter[str] = Counter()
    for seed in range(220 + len(SPECIAL)):
        rng = np.random.default_rng(seed)
        draw = Draw(rng, 1 + seed % 3)
        text = draw.target()[1] if seed < 220 else SPECIAL[seed - 220].format(draw.leaf(plain=True))
        low, high = (np.array(end) for end in zip(*draw.domain.values(), strict=True))
        rows = rng.uniform(low, high, (3, len(low)))
        try:
            truth = Formula(text, draw.names, floats=True)
            floats = np.stack([in_floats(part, truth.names)(rows) for part in truth.parts], axis=1)
            with precision(128):
                enclosures = [[ball(value) for value in truth([exact(x) for x in row])] for row in rows]
        except ValueError:  # a condition on what is undefined has no truth
            continue
        for value, enclosed in zip(floats.ravel(), chain.from_iterable(enclosures), strict=True):
            if np.isfinite(value) and enclosed.is_finite():
                met.update(operations(truth).keys())
                assert abs(float(enclosed.mid()) - value) <= 1e-5 * abs(value) + 1e-5
    assert set(OPERATIONS) <= set(met)


def test_networks_in_balls_are_the_networks(compiled):
    for name in ("wave", "truncated linear"):
        case = next(case for case in CASES if case.name == name)
        net = compiled(case, construction=case.constructions[0])
        slack = net.certificate.parts["rounding"] + net.certificate.allowance
        for row in net.domain.sample(3, np.random.default_rng(0)):
            with precision(128):
                true = BallNetwork(net.network)([exact(x) for x in row])
            for value, enclosed in zip(net(net.domain.unflatten(row[None])).ravel(), true, strict=True):
                assert abs(float(enclosed.mid()) - value) <= slack
                assert float(enclosed.rad()) < 1e-20


# ---------------------------------------------------------------- what is false is beaten


BUMP = "sin(3*x) + (1 - (1e5*(x - 0.500013))**2)*where(0.500003 < x < 0.500023, 1, 0)"


def test_breakpoints_of_a_window_are_found():
    spots = breakpoints(Formula(BUMP, ["x"]), np.zeros(1), 0, -1.0, 1.0)
    for end in (0.500003, 0.500023):
        assert np.abs(spots - end).min() <= np.spacing(end)


@pytest.mark.parametrize("backend", ["call", "dense", "torch", "onnx"])
def test_a_bump_that_the_certificate_misses_is_found(backend):
    net = af.compile("sin(3*x)", LINE, 1e-3)
    assert not attack(net, Formula("sin(3*x)", ["x"]), backends=(backend,)).beaten
    verdict = attack(net, Formula(BUMP, ["x"]), backends=(backend,))
    assert verdict.beaten
    assert verdict.point is not None
    assert 0.500003 <= verdict.point[0] <= 0.500023


def test_a_lowered_bound_is_beaten(compiled):
    net = compiled(CASES[0], construction="grid")
    lower = replace(net, certificate=replace(net.certificate, bound=0.5 * net.certificate.found))
    assert attack(lower, Formula("sin(3*x)", ["x"])).beaten


@pytest.mark.parametrize("p", [1, 2, 10])
def test_a_norm_that_is_too_small_is_beaten(p):
    net = af.compile("where(x < 0.3, 0, 1)", LINE, norm=p, construction="grid", options={"tokens": 4})
    truth = Formula("where(x < 0.3, 0, 1)", ["x"])
    assert not norm_from_below(net, truth, work=100_000).beaten
    assert norm_from_below(net, Formula("where(x < 0.3, 0, 1) + where(0.60001 < x < 0.60002, 1e6, 0)", ["x"])).beaten
    lower = replace(net, certificate=replace(net.certificate, bound=net.certificate.bound / 20))
    assert norm_from_below(lower, truth, work=100_000).beaten


def test_norms_far_from_one_are_measured():
    """No power underflows: the norm is 1e-33 times that of a wave, times 1e6."""
    net = af.compile("1e-33*sin(3*x/1e60)", {"x": (0, 1e60)}, options={"tokens": 5}, norm=10, construction="grid")
    lower = replace(net, certificate=replace(net.certificate, bound=1e-30))
    assert norm_from_below(lower, Formula("1e-33*sin(3*x/1e60)", ["x"])).beaten


def test_a_sampled_mean_is_too_large_as_rarely_as_it_says():
    """Of coins, in all cases: the chance of a number of heads whose lower bound is above the truth."""
    for count, chance, doubt in ((20, 0.3, 1e-2), (200, 0.02, 1e-3), (50, 0.7, 1e-4)):
        heads = [k for k in range(count + 1) if least_mean(k / count, count, doubt) > chance]
        assert heads  # it says something
        assert sum(comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in heads) <= doubt
    assert least_mean(0.0, 10, 1e-3) == 0.0
    assert least_mean(1.0, 10**6, 1e-3) > 0.9999


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("p", [1, 2, 10])
def test_norms_are_measured_as_the_network_runs(p, dtype):
    """A sampled norm is not beaten by another sample; less than a third of it is."""
    small = {"construction": "grid", "options": {"tokens": 24}}
    net = af.compile("sin(3*x)", LINE, norm=p, dtype=dtype, proof=False, **small)
    truth, sampled = Formula("sin(3*x)", ["x"]), net.certificate.bound
    for share, beaten in ((1.0, False), (0.3, True)):
        lower = replace(net, certificate=replace(net.certificate, bound=share * sampled))
        assert norm_as_deployed(lower, truth, 800).beaten == beaten


# ---------------------------------------------------------------- no certificate is


def written(text: str, construction: str, words: str, dtype: str = "float64", norm: str | float = "inf") -> Case:
    """A formula on [-1, 1] in its variables."""
    names = sorted({node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} & set("xyz"))
    domain = dict.fromkeys(names, (-1, 1))
    words = f"{words}, dtype={dtype!r}, norm={norm!r}, construction={construction!r}"
    return Case(
        "written", f"af.compile({text!r}, {domain!r}, {words})", Formula(text, names), norm, dtype, construction
    )


SEAM = "where(x < 0.3, sin(3*x), sin(0.9) + (x - 0.3)**2)"
JUMP = "where(0.30001 < x < 0.30011, 1000, 0)"
WRITTEN = [
    *(written(SEAM, name, "0.1") for name in ("grid", "cross", "spectral")),
    *(written("sin(3*x) + abs(x)", name, "0.2") for name in ("grid", "cross", "spectral", "circuit", "two-layer")),
    *(written(BUMP, name, "options={'tokens': 12}") for name in ("grid", "softmax-readout")),
    *(written(JUMP, "grid", "options={'tokens': 4}", norm=p) for p in (1, 10)),
    written("sin(3*x) + where(x < 0.3, 0, 1)", "two-layer-lookup", "options={'tokens': 4}", norm=1),
    written("sin(3*(x + 2*y - z)) + x", "subspace", "0.3"),
    written("x**2 + exp(y)", "max-affine", "0.2"),
    written("x*exp(-y) + max(x, y, 0.1)", "circuit", "0.01", "float32"),
    written("1e-164*sin(3*x)", "grid", "options={'tokens': 8}", norm=2),
    written("1e300*sin(3*x)", "spectral", "0.01, relative=True"),
]
DRAWN = [28, 31, 34, 37, 43, 48, 53, 56, 103, 109, 111, 117, 124, 127, 139]
"""Numbers of cases that are compiled quickly, of every family."""
PIECES = [2, 3, 4, 6, 9, 16, 19, 38, 60, 67]
ATTACKED = [
    *(pytest.param(case, id=f"{case.construction}-{case.norm}-{number}") for number, case in enumerate(WRITTEN)),
    *(pytest.param(random_case(2, number), id=f"drawn-{number}") for number in DRAWN),
    *(pytest.param(piecewise_case(np.random.default_rng(seed)), id=f"pieces-{seed}") for seed in PIECES),
]


@pytest.mark.parametrize("case", ATTACKED)
def test_no_certificate_is_beaten(case, monkeypatch):
    monkeypatch.setattr(soak, "MOST_WORK", 1000)  # larger proofs are judged in the long attack
    result = run(case, 60, seed=7, limit=60)
    assert not result.failure, f"{result.failure}\n{case}"


def test_every_construction_is_attacked():
    met = {param.values[0].construction for param in ATTACKED}
    assert met >= set(REGISTRY) - {"regression"}  # what is measured at rows of data is an estimate


@pytest.mark.parametrize("construction", ["grid", "cross", "spectral", "max-affine", "circuit", "subspace"])
def test_two_engines_agree(construction):
    three = "exp((x + y - z)/4)", dict.fromkeys("xyz", (-1, 1))
    text, domain = three if construction == "subspace" else ("exp(x/2)", LINE)
    net = af.compile(text, domain, 0.1, construction=construction)
    assert second_opinion(net) == "agrees"
    half = replace(net.certificate, bound=net.certificate.found / 2)
    assert second_opinion(replace(net, certificate=half)).startswith("the judge")


def test_a_long_attack_goes_on_where_its_journal_ends(tmp_path):
    path, what = tmp_path / "soak.jsonl", {"seed": 0, "count": 60, "commit": "abc"}
    Journal(path, what).add({"case": 1, "failure": "case 1: beaten"})
    path.write_text(path.read_text() + '{"case": 0, "counts": {"status"')  # interrupted while it was writing
    journal = Journal(path, what)
    assert set(journal.cases) == {1}
    journal.add({"case": 0})
    assert Journal(path, what).cases == {0: {"case": 0}, 1: {"case": 1, "failure": "case 1: beaten"}}
    assert Journal(path, what).failures == ["case 1: beaten"]
    with pytest.raises(SystemExit, match="another run"):
        Journal(path, what | {"commit": "abd"})


def test_tables_of_two_long_attacks_are_joined():
    """Counts add up, the larger ratio stays, and no run is counted twice."""
    kinds = {"family": ["seam"], "construction": ["grid"], "dtype": ["float64"], "operation": ["sin"]}
    texts = []
    for seed, ratio in enumerate((0.25, 0.75)):
        totals = Totals()
        counts = kinds | {"status": ["proved"], "norm": ["sup" if seed else "L_1"], "judge": ["agrees"] * seed}
        totals.add({"seconds": 60.0, "counts": counts, "points": 10, "ratio": ratio})
        failures = [f"case {seed}: beaten"] * seed
        texts.append(report(totals, failures, {"commit": "abc", "seed": seed}))
    both = joined(*texts)
    rows = ["| abc | 0 | 1 | 1 | 10 | 0 | 0 | 1 |", "| abc | 1 | 1 | 1 | 10 | 1 | 0 | 1 |", "| grid | 2 | 0.7500 |"]
    rows += ["| sup | 1 | 0.7500 |", "| L_1 | 1 | 0.2500 |", "| `sin` | 2 |", "| proved | 2 |", "| agrees | 1 |"]
    assert all(both.splitlines().count(row) == 1 for row in (*rows, "Failures:", "case 1: beaten"))
    with pytest.raises(SystemExit, match="this run already"):
        joined(both, texts[1])
