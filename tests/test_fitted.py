"""Certificates of learners in context: coefficients against exact ones, and executions in other orders."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

import attnfun as af
from attnfun.network import Affine, Attention, Network
from attnfun.proofs.executions import executions
from attnfun.proofs.rules import Checker
from attnfun.runtime.backends.numpy import run
from attnfun.runtime.backends.torch import to_torch

RNG = np.random.default_rng(4)
X = RNG.normal(size=(6, 1)).round(3)
Y = (X[:, 0] + RNG.normal(size=6) * 0.3).round(3)
LABELS = np.array([0, 1, 1, 0, 1, 0])
learn = af.incontext


def exact_ridge(X, y, alpha: float, beta: float = 0.0):
    """Slope and value at the mean for one feature, in fractions."""
    x, y = ([Fraction(float(each)) for each in column] for column in (X[:, 0], y))
    middle, level = sum(x) / len(x), sum(y) / len(y)
    pull = sum((a - middle) * b for a, b in zip(x, y, strict=True))
    pull -= Fraction(beta) * len(x) * (1 if pull > 0 else -1)
    return pull / (sum((a - middle) ** 2 for a in x) + Fraction(alpha)), level


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("model", "alpha", "beta"),
    [
        (learn.Ridge(0.5, n_steps=10), 0.5, 0.0),
        (learn.LinearRegression(n_steps=12), 0.0, 0.0),
        (learn.Lasso(0.25, n_steps=3), 0.0, 0.25),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bounds_hold_of_exact_coefficients(model, alpha, beta, dtype):
    if (dtype, beta > 0) == ("float32", True):
        pytest.skip("nothing is left of a lasso in float32")
    net = model.set_params(dtype=dtype).fit(X, Y).certify()
    claim, certificate = net.certificate.claim, net.certificate
    assert certificate.proved
    assert certificate.proof.rule == "in context"
    exact = exact_ridge(X, Y, alpha, beta)
    for rows in orders(claim):
        found = run(claim.network, rows[None])[0].ravel().astype(np.float64)
        away = [abs(Fraction(float(a)) - b) for a, b in zip(found, exact, strict=True)]
        assert max(away) <= Fraction(certificate.bound)
    assert certificate.found <= certificate.bound


def answer(net):
    """What a network makes of its prompt."""
    return net(net.domain.starts()[0].reshape(net.network.shape_in))


def orders(claim):
    """The prompt with its examples in other orders: the same sums."""
    rows = claim.domain.starts()[0].reshape(claim.network.shape_in)
    first = len(rows) - 2 * len(X)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(X))
        pairs = (first + 2 * order[:, None] + np.arange(2)).ravel()
        yield np.concatenate([rows[:first], rows[pairs]])


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (learn.LogisticRegression(n_steps=6), LABELS),
        (learn.GLM("log-cosh", n_steps=6), Y),
        (learn.GLM("poisson", n_steps=6), np.abs(Y)),
    ],
    ids=["logistic", "log-cosh", "poisson"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_losses_are_proved_about_what_scikit_learn_finds(model, labels):
    net = model.fit(X[:4], labels[:4]).certify()
    assert net.certificate.proved
    assert np.abs(answer(net)[:-1, 0] - model.coef_.ravel()).max() <= net.certificate.bound
    assert np.isfinite(net.certificate.bound)


def test_counts_are_those_of_the_user():
    """The network reads counts in a unit of 32; what it puts out, and what is claimed, are about the counts given."""
    counts = np.array([30.0, 4.0, 12.0, 9.0])
    model = learn.GLM("poisson", alpha=0.1, n_steps=8).fit(X[:4], counts)
    net = model.certify()
    target, middle = net.certificate.claim.target, X[:4].mean()
    assert np.array_equal(target.y[:, 0], counts)
    (slope,), level = model.coef_, model.intercept_ + model.coef_[0] * middle
    z = level + slope * (X[:4, 0] - middle)
    assert abs((np.exp(z) - counts).sum()) < 1e-4 * counts.sum()  # what the level solves
    assert np.abs(answer(net).ravel() - [slope, level]).max() <= 2 * net.certificate.bound + 1e-9
    assert net.certificate.bound < 1e-6


def test_a_network_that_fits_something_else_has_a_large_bound():
    """A wrong weight, another prompt, other data: the rule concludes what is true of them."""
    net = learn.Ridge(0.5, n_steps=8).fit(X, Y).certify()
    claim, proof = net.certificate.claim, net.certificate.proof
    last = claim.network.layers[-1]
    layers = (*claim.network.layers[:-1], Affine(last.right * 1.125, last.constant, last.left))
    other = replace(claim, network=Network(layers, claim.network.length, claim.network.dtype))
    wrong = np.abs(claim.target.solution).max() / 8
    assert Checker().conclusion(proof, other).bound >= 0.99 * wrong > net.certificate.bound
    elsewhere = replace(claim, target=learn.Ridge(2.0).fit(X, Y)._model(claim.domain))
    with pytest.raises(af.errors.ProofFailed, match="rule 'in context' must"):
        Checker().conclusion(replace(proof, data={**proof.data, "inverse": 0 * proof.data["inverse"]}), claim)
    assert Checker().conclusion(proof, elsewhere).bound > 1e-3


def test_a_lasso_with_wrong_zeros_is_refused():
    data = np.c_[X, np.array([0.3, -0.1, 0.2, 0.4, -0.3, 0.1])]
    net = learn.Lasso(0.1, n_steps=3).fit(data, Y).certify()
    claim, proof = net.certificate.claim, net.certificate.proof
    assert (proof.data["coefficients"] == 0).any()
    for lie in (
        np.where(proof.data["coefficients"] == 0, 0.1, proof.data["coefficients"]),
        0 * proof.data["coefficients"],
    ):
        with pytest.raises(af.errors.ProofFailed, match="rule 'in context' must"):
            Checker().conclusion(replace(proof, data={**proof.data, "coefficients": lie}), claim)


def test_what_no_rule_knows_is_said():
    for model in (learn.GLM("huber"), learn.GradientDescent(steps=2)):
        with pytest.raises(af.errors.InputError, match="needs a model with a smooth loss"):
            model.fit(X, Y).certify()


def test_data_that_leave_coefficients_open_are_refused():
    with pytest.raises(af.errors.AttnfunError):
        learn.LinearRegression(n_steps=4).fit(np.c_[X, X], Y).certify()


def test_numbers_that_may_overflow_are_refused():
    net = learn.Ridge(0.5, n_steps=8, dtype="float32").fit(X, Y).certify()
    network = net.network
    last = network.layers[-1]
    layers = (*network.layers[:-1], Affine(last.right * 2.0**120, last.constant, last.left * 2.0**100))
    rows = net.domain.starts()[0].reshape(network.shape_in)
    with pytest.raises(af.errors.ProofFailed, match="needs a network whose numbers stay small"):
        executions(replace(network, layers=layers), rows)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_formats_that_round_what_is_stored_are_refused(dtype):
    """The average of 1 and the next number is not stored, and no sum of two terms is off by so much."""
    step = 2.0**-7 if dtype == "bfloat16" else 2.0**-10
    head = Attention.of(
        np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), np.ones((1, 1, 1)), np.ones((1, 1, 1)), np.array([[1.0], [1 + step]])
    )
    network, row = Network((head,), 1, dtype), np.ones((1, 1))
    module = to_torch(network, (1,), ())
    with torch.no_grad():
        found = module(torch.tensor(row, dtype=getattr(torch, dtype))).double().item()
    assert abs(found - (1 + step / 2)) == step / 2
    with pytest.raises(af.errors.ProofFailed, match=f"store numbers as they add them; got {dtype}.*float32"):
        executions(network, row)


def test_files_hold_the_claim(tmp_path):
    net = learn.Ridge(0.5, n_steps=8).fit(X, Y).certify()
    net.save(tmp_path / "ridge.safetensors")
    again = af.load(tmp_path / "ridge.safetensors")
    assert again.certificate.recheck().bound == net.certificate.bound
    assert again.certificate.claim.description == net.certificate.claim.description
    assert np.array_equal(answer(again), answer(net))
    assert again.construction == "learner in context"
    assert str(again.certificate.proof).startswith("in context: coefficients")
