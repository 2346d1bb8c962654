"""Layers, networks, what they mean, and how they are counted."""

from __future__ import annotations

import numpy as np
import pytest

import attnfun as af
from attnfun.network import Affine, Attention, Network, Softmax
from attnfun.network.reference import apply, run


def random_attention(heads=2, width=3, memory=5, attends_data=True, residual=False, out=4, seed=0):
    rng = np.random.default_rng(seed)
    features, size, values = (width if attends_data else 6), 3, 2
    return Attention(
        query=rng.normal(size=(heads, width, size)),
        query_bias=rng.normal(size=(heads, size)),
        key=rng.normal(size=(heads, features, size)),
        key_bias=rng.normal(size=(heads, size)),
        value=rng.normal(size=(heads, features, values)),
        value_bias=rng.normal(size=(heads, values)),
        output=rng.normal(size=(heads, values, out)),
        output_bias=rng.normal(size=out),
        memory=rng.normal(size=(memory, features)),
        attends_data=attends_data,
        residual=residual,
    )


def test_affine_is_a_sum_of_linear_transformations():
    rng = np.random.default_rng(1)
    left, right, constant = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 5, 6)), rng.normal(size=(4, 6))
    X = rng.normal(size=(7, 3, 5))
    expected = sum(A @ X @ B for A, B in zip(left, right, strict=True)) + constant
    assert np.allclose(apply(Affine(right, constant, left), X), expected)


def test_flatten_and_unflatten_move_tokens():
    X = np.arange(6.0).reshape(1, 3, 2)
    flat = apply(Affine.flatten(3, np.eye(6), np.zeros(6)), X)
    assert flat.tolist() == [[[0, 1, 2, 3, 4, 5]]]
    assert np.array_equal(apply(Affine.unflatten(3, 2), flat), X)


def test_attention_by_hand():
    layer = Attention(
        query=np.eye(1)[None],
        query_bias=np.zeros((1, 1)),
        key=np.array([[[1.0], [0.0]]]),
        key_bias=np.zeros((1, 1)),
        value=np.array([[[0.0], [1.0]]]),
        value_bias=np.zeros((1, 1)),
        output=np.ones((1, 1, 1)),
        output_bias=np.array([10.0]),
        memory=np.array([[0.0, 1.0], [np.log(3.0), 5.0]]),
    )
    assert apply(layer, np.array([[1.0]])) == pytest.approx(10 + (1 * 1 + 3 * 5) / 4)


def test_counts_are_exact():
    attention = random_attention(heads=2, width=3, memory=5, out=4)
    network = Network((Affine.tokenwise(np.ones((2, 3)), np.zeros(3)), attention, Softmax(4)), length=6)
    assert (network.heads, network.tokens, len(network.layers)) == (2, 10, 3)
    assert network.shape_in == (6, 2)
    assert network.shape_out == (6, 4)
    weights = 2 * (3 * 3 + 3) + 2 * (3 * 3 + 3) + 2 * (3 * 2 + 2) + 2 * 2 * 4 + 4 + 5 * 3
    assert network.parameters == 2 * 3 + 3 + weights
    assert run(network, np.ones((6, 2))).sum(axis=-1) == pytest.approx(np.ones(6))


def test_layers_are_frozen():
    layer = Affine.tokenwise(np.eye(2), np.zeros(2))
    with pytest.raises(ValueError, match="read-only"):
        layer.right[0, 0, 0] = 3.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Affine(np.ones((1, 2, 3)), np.ones((1, 4))),
        lambda: Affine(np.ones((2, 2, 3)), np.ones((1, 3))),
        lambda: Affine(np.full((1, 1, 1), np.nan), np.ones((1, 1))),
        lambda: random_attention(residual=True, out=4),
        lambda: random_attention(attends_data=False, memory=0),
        lambda: Network((), 1),
        lambda: Network((Softmax(2), Softmax(3)), 1),
        lambda: Network((Softmax(2),), 1, dtype="float8"),
    ],
)
def test_layers_that_do_not_fit_are_refused(make):
    with pytest.raises(af.errors.InputError):
        make()
