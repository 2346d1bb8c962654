"""Networks of other frameworks: graphs of operations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from attnfun.errors import InputError
from attnfun.readers.graph import Builder


def test_values_of_fewer_axes_are_aligned_behind_the_batch():
    build = Builder((2, 3))
    row = build.add("gather", 0, axis=0, indices=np.array([1]))
    row = build.add("reshape", row, shape=(3,))
    graph = build.graph(build.add("add", 0, row))
    x = np.random.default_rng(0).normal(size=(2, 2, 3))  # as many points as rows: a batch axis taken for a row shows
    assert np.array_equal(graph.values(x), x + x[:, 1:2])


def test_normalise_is_layer_norm_and_softmax_is_a_softmax():
    x = np.random.default_rng(1).normal(size=(4, 3, 5))
    build = Builder((3, 5))
    normal = build.add("normalise", 0, axes=(1,), epsilon=1e-3)
    weights = build.add("softmax", normal, axis=1)
    found = build.graph(weights).all_values(x)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
    assert np.allclose(found[normal], expected, rtol=0, atol=1e-14)
    assert np.allclose(found[weights], special.softmax(expected, axis=-1), rtol=0, atol=1e-15)


def test_sizes_that_do_not_fit_name_the_layer():
    build = Builder((4,))
    with pytest.raises(InputError, match=r"linear \(fc2\).*\(4,\).*weight \(3, 2\)"):
        build.add("linear", 0, weight=np.zeros((3, 2)), bias=np.zeros(2), name="fc2")
    with pytest.raises(InputError, match="two matrices"):
        build.add("matmul", 0, 0, name="scores")


def test_values_that_do_not_depend_on_the_input_have_every_point():
    build = Builder((1,))
    graph = build.graph(build.add("constant", value=np.array([2.0, 3.0])))
    assert graph.values(np.zeros((3, 1))).tolist() == [[2.0, 3.0]] * 3
    joined = build.graph(build.add("concat", 0, graph.output, axis=0))
    assert joined.values(np.ones((2, 1))).tolist() == [[1.0, 2.0, 3.0]] * 2


def test_arrays_of_a_graph_cannot_change():
    weight = np.ones((1, 1))
    build = Builder((1,))
    build.add("linear", 0, weight=weight, bias=np.zeros(1))
    weight[:] = 7.0
    kept = build.nodes[1].data["weight"]
    assert kept == 1.0
    with pytest.raises(ValueError, match="read-only"):
        kept[:] = 2.0
