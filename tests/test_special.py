"""Special functions: enclosures and certificates against mpmath, which computes them in its own way."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.arithmetic.jets import variables
from attnfun.formula.functions import BY_FLINT
from attnfun.formula.parser import parse
from attnfun.targets import Expression
from attnfun.targets.derivatives import derivative

TRUE = {
    "gamma(x)": (mpmath.gamma, [(0.3, 8.0), (-3.9, -3.1), (-0.9, -0.1)]),
    "lgamma(x)": (mpmath.loggamma, [(1e-3, 40.0)]),
    "digamma(x)": (mpmath.digamma, [(0.01, 40.0)]),
    "airyai(x)": (mpmath.airyai, [(-20.0, 8.0)]),
    "airybi(x)": (mpmath.airybi, [(-20.0, 5.0)]),
    "si(x)": (mpmath.si, [(-0.1, 0.1), (-40.0, 40.0)]),
    "ci(x)": (mpmath.ci, [(0.01, 40.0)]),
    "ei(x)": (mpmath.ei, [(-9.0, -0.01), (0.01, 9.0)]),
    "erfc(x)": (mpmath.erfc, [(-5.0, 9.0)]),
    "erfinv(x)": (mpmath.erfinv, [(-0.999, 0.999)]),
    "zeta(x)": (mpmath.zeta, [(1.01, 30.0)]),
    "ellipk(x)": (mpmath.ellipk, [(-9.0, 0.99), (-0.1, 0.1)]),
    "ellipe(x)": (mpmath.ellipe, [(-9.0, 0.99), (-0.1, 0.1)]),
    "besselj(0, x)": (lambda x: mpmath.besselj(0, x), [(-30.0, 30.0)]),
    "besselj(-3, x)": (lambda x: mpmath.besselj(-3, x), [(-9.0, 9.0)]),
    "besselj(2.5, x)": (lambda x: mpmath.besselj(2.5, x), [(0.01, 60.0)]),
    "bessely(0, x)": (lambda x: mpmath.bessely(0, x), [(0.01, 70.0)]),
    "bessely(1/3, x)": (lambda x: mpmath.bessely(mpmath.mpf(1) / 3, x), [(0.1, 60.0)]),
    "besseli(1, x)": (lambda x: mpmath.besseli(1, x), [(-9.0, 9.0)]),
    "besseli(0.25, x)": (lambda x: mpmath.besseli(0.25, x), [(0.01, 9.0)]),
    "besselk(0, x)": (lambda x: mpmath.besselk(0, x), [(0.01, 20.0)]),
    "besselk(2.5, x)": (lambda x: mpmath.besselk(2.5, x), [(0.1, 30.0)]),
}


def boxes_in(domain: tuple[float, float], count: int = 5) -> Interval:
    """Intervals of all widths inside a domain, (B, 1)."""
    rng = np.random.default_rng(3)
    low, high = domain
    ends = rng.uniform(low, high, count)
    reach = (high - low) * 10.0 ** rng.uniform(-7, -0.6, count)
    return Interval(np.maximum(ends - reach, low)[:, None], np.minimum(ends + reach, high)[:, None])


def test_every_special_function_is_attacked():
    assert {text.partition("(")[0] for text in TRUE} == BY_FLINT


@pytest.mark.parametrize("text", TRUE)
def test_enclosures_of_values_and_slopes_hold_those_of_mpmath(text):
    true, domains = TRUE[text]
    program = parse(text, ("x",))
    with mp.workdps(40):
        for domain in domains:
            boxes = boxes_in(domain)
            ranges = program.enclose(boxes)
            series = program.jets(variables(boxes, 3))
            assert ranges.defined.all()
            for row in range(len(boxes)):
                for share in (0.0, 0.25, 0.7, 1.0):
                    left, right = mp.mpf(boxes.lo[row, 0]), mp.mpf(boxes.hi[row, 0])
                    value = true(left + (right - left) * share)
                    assert ranges.lo[row, 0] <= value <= ranges.hi[row, 0]
                slope = mp.diff(true, (left + right) / 2)
                off = mp.mpf(series.rad[row, 0, 1]) + abs(slope) * mp.mpf("1e-15")
                assert abs(slope - mp.mpf(series.mid[row, 0, 1])) <= off


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("besselj(0, x)", {"x": (0, 10)}),
        ("gamma(x)", {"x": (0.5, 3)}),
        ("1 + besseli(0, x)", {"x": (-1, 1)}),
    ],
)
def test_certificates_are_proved_and_judged_and_say_what_they_share(text, domain, tmp_path):
    net = af.compile(text, domain, 1e-3)
    certificate = net.certificate
    assert certificate.proved
    assert any("prover and judge share it" in line for line in certificate.assumptions)
    assert certificate.recheck(engine="arb").judged
    net.save(tmp_path / "net")
    assert af.load(tmp_path / "net").certificate.assumptions == certificate.assumptions


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("gamma(x)", (-0.5, 0.5)),
        ("ei(x)", (-1, 1)),
    ],
)
def test_poles_are_refused(text, domain):
    with pytest.raises(af.errors.InputError, match="undefined or unbounded"):
        af.compile(text, {"x": domain}, 1e-1)


@pytest.mark.parametrize("text", ["besselj(x, 2)", "besselj(2000, x)", "besselk(-1e9, x)"])
def test_the_order_of_a_bessel_function_is_a_number_that_is_not_too_large(text):
    with pytest.raises(af.errors.InputError, match=r"the order of bessel. must be a number, at most 1000 in size"):
        parse(text, ("x",))


def test_an_ordinary_formula_shares_nothing():
    net = af.compile("sin(x)", {"x": (0, 1)}, 1e-2)
    assert not any("python-flint" in line for line in net.certificate.assumptions)


@pytest.mark.parametrize(
    ("text", "slope"),
    [
        ("besselj(0, x)", "-besselj(1, x)"),
        ("besselk(0, x)", "-besselk(1, x)"),
        ("lgamma(x)", "digamma(x)"),
        ("gamma(x)", "gamma(x)*digamma(x)"),
        ("erfc(x)", "-2/sqrt(pi)*exp(-x**2)"),
        ("si(x)", "sin(x)/x"),
        ("erfinv(x/4)", "sqrt(pi)/8*exp(erfinv(x/4)**2)"),
    ],
)
def test_derivatives_are_formulas(text, slope):
    box = af.Box([1.0], [3.0], ("x",))
    found = derivative(Expression(text, box), 0)
    points = np.linspace(1.0, 3.0, 7)[:, None]
    assert np.allclose(found.values(points), parse(slope, ("x",)).values(points), rtol=1e-12)
