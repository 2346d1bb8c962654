"""What the judge must not agree with: numbers that overflow, weights that are products, other formulas."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from attnfun.judge import judge
from attnfun.judge.files import Affine, Attention, Claim, Domain, Network, Softmax


def claim(text, low, high, layers, dtype, bound, width=1, **more):
    """That a network of one variable is within `bound` of a formula."""
    network = Network(tuple(layers), 1, width, dtype)
    domain = Domain(np.array([low]), np.array([high]), ("x",))
    more = {"status": "proved", **more}
    return Claim(network, domain, 1, {"kind": "expression", "text": text}, {}, bound, norm=inf, proof=None, **more)


def affine(weight, bias):
    return Affine(np.array(weight, dtype=float)[None], np.array([bias], dtype=float), None)


def head(*, residual=False, **changes):
    """One head with one memory token that returns 0 for every query."""
    arrays = {"query": np.zeros((1, 1, 1)), "query_bias": np.zeros((1, 1)), "key": np.zeros((1, 1, 1))}
    arrays |= {"key_bias": np.zeros((1, 1)), "value": np.zeros((1, 1, 1)), "value_bias": np.zeros((1, 1))}
    arrays |= {"output": np.ones((1, 1, 1)), "output_bias": np.zeros(1), "memory": np.zeros((1, 1))}
    return Attention(**(arrays | changes), attends_data=False, residual=residual)


@pytest.mark.parametrize(
    ("dtype", "high", "agreed"), [("float16", 3e4, True), ("float16", 1e5, False), ("bfloat16", 1e5, True)]
)
def test_points_must_not_overflow(dtype, high, agreed):
    verdict = judge(claim("x/16384", 0.0, high, [affine([[2.0**-14]], [0.0])], dtype, 0.1))
    assert verdict.agreed is agreed


@pytest.mark.parametrize(("size", "agreed"), [(1000.0, True), (30000.0, False)])
def test_queries_times_the_root_of_a_head_must_not_overflow(size, agreed):
    """Heads of 16 features hold four times the query."""
    query = {"query": np.full((1, 1, 2), size), "query_bias": np.zeros((1, 2))}
    keys = {"key": np.zeros((1, 1, 2)), "key_bias": np.zeros((1, 2))}
    verdict = judge(claim("0*x", 0.0, 1.0, [head(**query, **keys)], "float16", 0.1))
    assert verdict.agreed is agreed


def test_a_residual_sum_must_not_overflow():
    add = head(residual=True, value_bias=np.full((1, 1), 30000.0))
    for high, agreed in ((500.0, True), (30000.0, False)):
        verdict = judge(claim("x + 30000", 0.0, high, [add], "float16", 100.0))
        assert verdict.agreed is agreed, high


def test_a_softmax_before_a_map_whose_weights_are_products_is_not_covered():
    left = np.full((1, 1, 1), 0.3)
    layers = [affine([[1.0, -1.0]], [0.0, 0.0]), Softmax(2), Affine(np.full((1, 2, 1), 0.7), np.zeros((1, 1)), left)]
    assert not judge(claim("0.21 + 0*x", 0.0, 1.0, layers, "float32", 0.1)).covered


def test_a_formula_is_named_only_where_it_is_what_was_judged():
    said = claim("x", 0.0, 1.0, [affine([[1.0]], [0.0])], "float64", 0.1)
    said.target["formula"] = "x**2"  # type: ignore[index]
    assert judge(said).agreed
    assert judge(said).declared == ()
