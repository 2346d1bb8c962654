"""In-context learners: what scikit-learn says, computed by attention from examples in the prompt."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import attnfun as af
from attnfun.incontext import losses
from attnfun.incontext.prompt import stack
from attnfun.incontext.readout import richardson, truncation
from attnfun.network import storage
from attnfun.network.reference import run as reference
from attnfun.runtime.backends.numpy import run

learn = af.incontext
DATA = {"diabetes": load_diabetes, "breast cancer": load_breast_cancer, "wine": load_wine}


def off(ours, theirs) -> float:
    """Largest difference of coefficients, relative to the largest coefficient."""
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


# Few steps, so that the checks are cheap, which they warn of; with the default numbers of steps they pass as well.
QUIET = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
LEARNERS = [
    learn.LinearRegression(n_steps=16),
    learn.Ridge(n_steps=12),
    learn.Lasso(n_steps=5),
    learn.LogisticRegression(n_steps=1),
    learn.GLM(n_steps=2),
    learn.GradientDescent(steps=10),
    learn.KernelRegression(),
]


@QUIET
@parametrize_with_checks(LEARNERS)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 100.0])
@pytest.mark.parametrize("name", DATA)
def test_least_squares_and_ridge_agree_with_scikit_learn(name, alpha):
    X, y = DATA[name](return_X_y=True)
    ours, theirs = (
        (learn.Ridge(alpha), linear_model.Ridge(alpha))
        if alpha
        else (
            learn.LinearRegression(),
            linear_model.LinearRegression(),
        )
    )
    train, test = slice(0, None, 2), slice(1, None, 2)
    ours.fit(X[train], y[train])
    theirs.fit(X[train], y[train])
    assert off(ours.coef_, theirs.coef_) < 1e-8
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-7)
    assert np.allclose(ours.predict(X[test]), theirs.predict(X[test]), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["diabetes", "wine"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_float32_for_condition_numbers_up_to_a_thousand(name, alpha):
    X, y = DATA[name](return_X_y=True)
    theirs = linear_model.Ridge(alpha).fit(X, y) if alpha else linear_model.LinearRegression().fit(X, y)
    assert off(learn.Ridge(alpha, dtype="float32").fit(X, y).coef_, theirs.coef_) < 1e-3


@pytest.mark.parametrize("intercept", [True, False])
def test_several_outputs_and_any_units(intercept):
    rng, units = np.random.default_rng(0), np.array([1e-6, 1.0, 1e9])
    X = rng.normal([0.0, 5.0, 1.0], size=(40, 3))
    Y = np.stack([X[:, 0] + rng.normal(size=40), X @ [1.0, 2.0, 3.0]], axis=1) * [1e8, 1e-5]
    ours = learn.LinearRegression(fit_intercept=intercept).fit(X * units, Y)
    theirs = linear_model.LinearRegression(fit_intercept=intercept).fit(X, Y)  # with those units it drops a column
    assert np.allclose(ours.coef_ * units, theirs.coef_, rtol=1e-9, atol=1e-15)
    assert np.allclose(ours.intercept_, theirs.intercept_, rtol=1e-9, atol=1e-15)
    assert np.allclose(ours.predict(X * units), theirs.predict(X), rtol=1e-9)


def test_points_far_outside_the_examples():
    X, y = load_wine(return_X_y=True)
    far = X[:5] * [[1.0], [30.0], [-1e3], [1e6], [1e12]]
    ours, theirs = learn.LinearRegression().fit(X, y), linear_model.LinearRegression().fit(X, y)
    assert np.allclose(ours.predict(far), theirs.predict(far), rtol=1e-8)
    with pytest.raises(af.errors.InputError, match="must be within 8 units of the mean of the examples; got"):
        ours.prompt(X, y, far)


REGRESSORS = {
    "least squares": (learn.LinearRegression(), linear_model.LinearRegression()),
    "ridge": (learn.Ridge(), linear_model.Ridge()),
    "lasso": (learn.Lasso(0.05), linear_model.Lasso(0.05, tol=1e-13, max_iter=10**5)),
    "poisson": (
        learn.GLM(alpha=0.1),
        linear_model.PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000),
    ),
}
CLASSIFIERS = {
    "logistic": (learn.LogisticRegression(), linear_model.LogisticRegression(tol=1e-9, solver="newton-cholesky")),
}
ODD = {
    "a constant column": lambda X, few: (np.c_[X, np.full(len(X), 7.1)], slice(None)),
    "a column twice": lambda X, few: (np.c_[X, X[:, 0]], slice(None)),
    "only constant columns": lambda X, few: (np.tile([0.0, 1.0], (len(X), 1)), slice(None)),
    "fewer rows than columns": lambda X, few: (X, few),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", [*REGRESSORS, *CLASSIFIERS, "classes"])
def test_odd_data_get_what_users_of_scikit_learn_expect(name, odd):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(12, 4)), np.abs(rng.normal(size=12))
    y = {"logistic": y > 0.5, "classes": np.digitize(y, [0.4, 0.9])}.get(name, y)
    few = [int(np.flatnonzero(y == value)[0]) for value in np.unique(y)[:3]]  # a row for each class
    X, rows = ODD[odd](X, few)
    ours, theirs = (clone(model) for model in {**REGRESSORS, **CLASSIFIERS}.get(name, CLASSIFIERS["logistic"]))
    ours.fit(X[rows], y[rows])
    theirs.fit(X[rows], y[rows])
    if (name, odd) != (
        "lasso",
        "a column twice",
    ):  # equal columns may share a coefficient anyhow
        assert np.allclose(ours.coef_, theirs.coef_, atol=1e-6)
    assert np.allclose(ours.coef_ @ X.T, theirs.coef_ @ X.T, atol=1e-6)
    assert np.allclose(ours.intercept_, theirs.intercept_, atol=1e-6)


@pytest.mark.parametrize("name", REGRESSORS)
def test_one_row_and_rows_with_holes(name):
    rng, (ours, theirs) = np.random.default_rng(2), (clone(model) for model in REGRESSORS[name])
    X, y = rng.normal(size=(6, 4)), np.abs(rng.normal(size=6))
    assert np.allclose(ours.fit(X[:1], y[:1]).predict(X), y[0])
    assert np.allclose(theirs.fit(X[:1], y[:1]).predict(X), y[0])
    with pytest.raises(ValueError, match="NaN"):
        ours.fit(np.where(X > 1, np.nan, X), y)


@pytest.mark.parametrize("name", ["least squares", "ridge", "lasso", "poisson"])
def test_columns_far_from_zero(name):
    rng, (ours, theirs) = np.random.default_rng(3), (clone(model) for model in REGRESSORS[name])
    X = rng.normal(size=(30, 3))
    y = np.exp(X @ [0.5, -0.3, 0.0] + rng.normal(size=30) / 9)
    zero = np.array([1.6e9, -1e5, 0.0])  # such as times in seconds
    far = X + zero
    X = far - zero  # as they are after rounding
    with_constant = np.c_[far, np.full(30, 1e8)]
    ours.fit(with_constant, y)
    theirs.fit(X, y)
    assert np.allclose(ours.coef_[:3], theirs.coef_, rtol=1e-6, atol=1e-9)
    assert abs(ours.coef_[3]) < 1e-12
    assert np.allclose(ours.predict(with_constant), theirs.predict(X), rtol=1e-6)


def test_parameters_out_of_range():
    X, y = np.eye(4), np.arange(4.0)
    with pytest.raises(af.errors.InputError, match="alpha must be a number that is not negative; got -1"):
        learn.Ridge(-1).fit(X, y)
    with pytest.raises(
        af.errors.InputError, match=r"must be one of float64, float32: .* store 11 bits .*got 'float16'"
    ):
        learn.Ridge(dtype="float16").fit(X, y)
    with pytest.raises(af.errors.InputError, match="n_steps, unless it is None, must be a whole number from 1 to"):
        learn.Ridge(n_steps=0).fit(X, y)
    with pytest.raises(af.errors.InputError, match="n_steps must be at most 20 in float32; got 28"):
        learn.Ridge(n_steps=28, dtype="float32").fit(X, y)


def test_pipelines_and_cross_validation():
    X, y = load_diabetes(return_X_y=True)
    ours, theirs = (make_pipeline(StandardScaler(), model) for model in (learn.Ridge(10), linear_model.Ridge(10)))
    assert np.allclose(cross_val_score(ours, X, y), cross_val_score(theirs, X, y), atol=1e-9)


def standard(name):
    X, y = {"iris": load_iris, **DATA}[name](return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


LASSO = [("diabetes", 0.1), ("diabetes", 1.0), ("wine", 0.01), ("breast cancer", 0.01)]


@pytest.mark.parametrize(("name", "alpha"), LASSO)
def test_the_lasso_agrees_with_scikit_learn_zeros_included(name, alpha):
    X, y = (array[::2] for array in DATA[name](return_X_y=True))
    ours, theirs = learn.Lasso(alpha).fit(X, y), linear_model.Lasso(alpha, tol=1e-13, max_iter=10**6).fit(X, y)
    assert off(ours.coef_, theirs.coef_) < 1e-10
    assert np.array_equal(ours.coef_ == 0, theirs.coef_ == 0)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-9)
    assert np.allclose(ours.predict(X[:9]), theirs.predict(X[:9]), rtol=1e-9)


def test_the_lasso_has_an_active_set_for_each_output():
    X, y = standard("diabetes")
    Y = np.stack([y, X[:, 3] * 40 + X[:, 0]], axis=1)
    ours, theirs = learn.Lasso(3.0).fit(X[:80, :5], Y[:80]), linear_model.Lasso(3.0, tol=1e-13).fit(X[:80, :5], Y[:80])
    assert off(ours.coef_, theirs.coef_) < 1e-10
    assert np.array_equal(ours.coef_ == 0, theirs.coef_ == 0)
    assert 0 < (ours.coef_ == 0).sum() < ours.coef_.size


LOGISTIC = [("breast cancer", 100.0), ("iris", 1.0), ("iris", 100.0)]


@pytest.mark.parametrize(("name", "C"), LOGISTIC)
def test_logistic_regression_agrees_with_scikit_learn(name, C):
    X, y = (array[::2] for array in standard(name))
    ours = learn.LogisticRegression(C).fit(X, y)
    theirs = linear_model.LogisticRegression(C=C, tol=1e-12, solver="newton-cholesky").fit(X, y)
    assert off(ours.coef_, theirs.coef_) < 1e-7
    assert off(ours.intercept_, theirs.intercept_) < 1e-7
    assert np.allclose(ours.predict_proba(X[::9]), theirs.predict_proba(X[::9]), atol=1e-7)


def test_separable_classes_and_no_penalty():
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    without = learn.LogisticRegression(np.inf, n_steps=5).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"the last of 5 steps changed coefficients by .*: raise n_steps"):
        assert without.predict(X).tolist() == [0, 0, 1, 1]
    some = learn.LogisticRegression().fit([[-1.0], [0.0], [4.0]], ["a", "b", "c"])
    assert some.predict([[-2.0], [5.0]]).tolist() == ["a", "c"]
    with pytest.raises(af.errors.InputError, match="at least two classes"):
        learn.LogisticRegression().fit(X, [1, 1, 1, 1])
    with pytest.raises(af.errors.InputError, match="C must be a positive number; got 0"):
        learn.LogisticRegression(0).fit(X, y)


# A step that has not converged is told, one that has is not.
HASTY = {
    "least squares": (learn.LinearRegression(), 3),
    "lasso": (learn.Lasso(0.05), 2),
    "logistic": (learn.LogisticRegression(), 2),
    "classes": (learn.LogisticRegression(), 2),
    "poisson": (learn.GLM(alpha=0.1), 2),
    "huber": (learn.GLM("huber", alpha=0.1), 2),
}


@pytest.mark.parametrize("kind", HASTY)
def test_too_few_steps_are_told(kind):
    rng, (model, few) = np.random.default_rng(5), HASTY[kind]
    X = rng.normal(size=(30, 2)) @ [[1.0, 0.5], [0.0, 0.3]]
    y = np.exp(X @ [1.0, 2.0] + rng.normal(size=30) / 3)
    y = {"logistic": y > 1, "classes": np.digitize(y, [0.5, 1.5])}.get(kind, y)
    enough, hasty = clone(model).fit(X, y), clone(model).set_params(n_steps=few).fit(X, y)
    assert np.isfinite(enough.coef_).all()  # a warning would be an error here
    with pytest.warns(ConvergenceWarning, match=rf"the last of {few} steps .*: raise n_steps"):
        assert off(hasty.coef_, enough.coef_) > 1e-6


def test_the_bound_on_the_curvature_of_poisson_regression_is_watched():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 2))
    y = rng.poisson(np.exp(2 * X[:, 0]))
    model = learn.GLM(alpha=0, fit_intercept=False).fit(X, y)  # without an intercept y keeps its unit
    with pytest.raises(af.errors.InputError, match=r"must stay below 1\.386 in every step.*Raise `curvature`"):
        model.predict(X)
    declared = learn.GLM(alpha=0, fit_intercept=False, curvature=2e3, n_steps=25).fit(X, y)
    peer = linear_model.PoissonRegressor(
        alpha=0, fit_intercept=False, tol=1e-12, max_iter=1000, solver="newton-cholesky"
    )
    assert off(declared.coef_, peer.fit(X, y).coef_) < 1e-6


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_poisson_regression_agrees_with_scikit_learn(alpha):
    X, y = load_diabetes(return_X_y=True)
    ours = learn.GLM("poisson", alpha=alpha).fit(X, y)
    theirs = linear_model.PoissonRegressor(alpha=alpha, tol=1e-12, max_iter=1000, solver="newton-cholesky").fit(X, y)
    assert off(ours.coef_, theirs.coef_) < 1e-9
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-9)
    assert np.allclose(ours.predict(X), theirs.predict(X), rtol=1e-9)
    single = learn.GLM("poisson", alpha=alpha, dtype="float32").fit(X, y)
    assert np.allclose(single.predict(X), theirs.predict(X), rtol=2e-3)
    with pytest.raises(af.errors.InputError, match="must not be negative"):
        learn.GLM("poisson").fit(X, y - 200)
    with pytest.raises(af.errors.InputError, match=r"family must be one of .*; got 'gamma'"):
        learn.GLM("gamma").fit(X, y)


@pytest.mark.parametrize(
    ("family", "slope", "within"), [("huber", lambda r: np.clip(r, -20, 20), 2e-3), ("log-cosh", None, 1e-9)]
)
def test_robust_losses_have_no_slope_left(family, slope, within):
    X, y = standard("diabetes")
    y = np.where(np.arange(len(y)) % 50 == 0, 10 * y, y)  # outliers
    model = learn.GLM(family, alpha=0.1, delta=20.0).fit(X, y)
    d = (slope or (lambda r: 20 * np.tanh(r / 20)))(model.predict(X) - y)
    left = np.append(X.T @ d / len(y) + 0.1 * model.coef_, d.mean())
    assert np.abs(left).max() < within * np.abs(d).mean()


LOSSES = {
    "squared": (lambda z, y: z - y, lambda y: y, {}),
    "logistic": (lambda z, y: 1 / (1 + np.exp(-z)) - y, lambda y: (y > 2) * 1.0, {}),
    "huber": (lambda z, y: np.clip(z - y, -0.7, 0.7), lambda y: y, {"delta": 0.7}),
    "log-cosh": (lambda z, y: 0.7 * np.tanh((z - y) / 0.7), lambda y: y, {"delta": 0.7}),
    "poisson": (lambda z, y: np.exp(z) - y, np.abs, {"reach": 5.0}),
    "log(1 + exp(-y*z))": (
        lambda z, y: -y / (1 + np.exp(y * z)),
        lambda y: np.sign(y - 2),
        {"reach": 2.0, "tolerance": 1e-4},
    ),
    "cosh(z - y)": (lambda z, y: np.sinh(z - y), lambda y: np.clip(y, 0, 1), {"reach": 2.0, "tolerance": 1e-4}),
}


def descended(X, y, psi, step, steps, momentum, alpha, start):
    """Gradient descent as its users write it."""
    points = np.concatenate([X, np.ones((len(X), 1))], axis=1)
    w, last, penalty = start, start, np.append(np.full(X.shape[1], alpha), 0.0)
    for _ in range(steps):
        new = w - step * (points.T @ psi(points @ w, y) / len(X) + penalty * w)
        w, last = new + momentum * (new - last), new
    return last


@pytest.fixture(scope="module")
def uneven():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 3)) * [1.0, 30.0, 1e-3] + [0.3, 100.0, 0.0]  # neither scaled nor centred
    return X, X @ [1.0, 0.02, 300.0] + rng.normal(size=25)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_descent_takes_the_steps_that_were_written_down(loss, dtype, uneven):
    (X, y), (psi, labels, rest), start = uneven, LOSSES[loss], np.array([0.1, 0.002, 5.0, -0.3])
    steps = {"step": 2e-5, "steps": 5, "momentum": 0.3, "alpha": 0.1}
    model = learn.GradientDescent(loss, start=start, dtype=dtype, **steps, **rest).fit(X, labels(y))
    wanted = descended(X, labels(y), psi, start=start, **steps)
    found, moved = np.append(model.coef_, model.intercept_), np.abs(wanted - start).max()
    assert moved > 1e-5
    last = model.report().iterates[-1]
    assert last.distance <= last.bound < (1e-6 if dtype == "float64" else 0.1)
    assert 0 < last.added <= last.bound
    assert np.linalg.norm(found - wanted) <= last.bound + 1e-13
    if dtype == "float64":
        assert np.abs(found - wanted).max() < rest.get("tolerance", 1e-10) * 10 * moved


def test_iterates_of_steps_at_the_edge_stay_within_bounds(uneven):
    X, y = uneven
    for loss, (_, labels, rest) in list(LOSSES.items())[:5]:
        for step, momentum in ((1e-4, 0.9), (1e-12, 0.0)):  # the first one may diverge, slowly
            model = learn.GradientDescent(loss, step=step, steps=4, momentum=momentum, **rest).fit(X, labels(y))
            assert all(0 <= iterate.distance <= iterate.bound for iterate in model.report().iterates)
    x, far = np.array([[1e-9], [1.0], [1.0]]), np.array([1e9, -1e9, 1.0])
    model = learn.GradientDescent("huber", step=1.0, steps=3).fit(x, far)
    assert all(iterate.distance <= iterate.bound for iterate in model.report().iterates)
    wanted = descended(x, far, lambda z, y: np.clip(z - y, -1, 1), 1.0, 3, 0.0, 0.0, np.zeros(2))
    assert np.allclose(np.append(model.coef_, model.intercept_), wanted, rtol=1e-9)


def test_gradient_descent_refuses_what_it_cannot_do(uneven):
    X, y = uneven
    with pytest.raises(af.errors.InputError, match="momentum must be at least 0 and below 1; got 1"):
        learn.GradientDescent(momentum=1).fit(X, y)
    with pytest.raises(
        af.errors.InputError, match=r"loss must be squared, .* formula of z and y.*Did you mean 'huber'"
    ):
        learn.GradientDescent("hubert").fit(X, y)
    with pytest.raises(af.errors.InputError, match=r"must be convex in the prediction z; got the second derivative -"):
        learn.GradientDescent("cos(z - y)").fit(X, y).coef_  # noqa: B018 - it raises
    with pytest.raises(af.errors.InputError, match=r"labels of the logistic loss must be from 0 to 1"):
        learn.GradientDescent("logistic").fit(X, y)
    with pytest.raises(af.errors.InputError, match=r"must stay within ±1 in every step; got up to .*Raise `reach`"):
        learn.GradientDescent("poisson", reach=1.0, step=1e-3, steps=9).fit(X, np.abs(y)).coef_  # noqa: B018
    with pytest.raises(
        af.errors.InputError, match=r"start must hold coefficients, then the intercept, \(4,\); got shape \(3,\)"
    ):
        learn.GradientDescent(start=[0, 0, 0]).fit(X, y).coef_  # noqa: B018
    with pytest.raises(af.errors.InputError, match="a step times the squares of the features"):
        learn.GradientDescent(step=1e3).fit(X, y).coef_  # noqa: B018
    with pytest.warns(DeprecationWarning, match="n_steps of GradientDescent is now called steps"):
        learn.GradientDescent(n_steps=3).fit(X, y)


def test_a_convex_loss_of_several_outputs_and_the_default_step():
    X, y = standard("wine")
    X, y = X[::4, :4], y[::4]
    both = learn.GradientDescent("huber", steps=20).fit(X, np.stack([y, -2.0 * y], axis=1))
    alone = learn.GradientDescent("huber", steps=20).fit(X, -2.0 * y)
    assert np.allclose(both.coef_[1], alone.coef_, rtol=1e-10, atol=1e-11)
    least = learn.GradientDescent(steps=150, momentum=0.8).fit(X, y)
    assert off(least.coef_, linear_model.LinearRegression().fit(X, y).coef_) < 1e-6


def test_kernel_regression_is_one_exact_head():
    X, y = load_diabetes(return_X_y=True)
    model = learn.KernelRegression(gamma=300.0).fit(X, y)
    kernel = np.exp(-300 * np.square(X[:7, None] + 0.01 - X[None]).sum(axis=-1))
    assert np.allclose(model.predict(X[:7] + 0.01), kernel @ y / kernel.sum(axis=1), rtol=1e-11)
    assert model.network().heads == 1
    with pytest.raises(af.errors.InputError, match="gamma must be a positive number; got -1"):
        learn.KernelRegression(-1).fit(X, y)


# The network: any number of rows, any back end, batches with padding.


def small(dtype="float64", rows=20, kind="ridge"):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(rows, 2)) + 1.0, rng.normal(size=rows)
    if kind == "ridge":
        return learn.Ridge(0.5, n_steps=6, dtype=dtype).fit(X, y)
    if kind == "lasso":
        return learn.Lasso(0.1, n_steps=3, dtype=dtype).fit(X, y)
    if kind in ("huber", "cosh(z - y)"):
        return learn.GradientDescent(kind, step=0.1, steps=2, reach=3.0, tolerance=0.01, dtype=dtype).fit(X, y)
    if kind == "classes":
        return learn.LogisticRegression(n_steps=1, dtype=dtype).fit(X, np.digitize(y, [-0.5, 0.5]))
    return learn.GLM("poisson", alpha=0.1, n_steps=1, dtype=dtype).fit(X, np.abs(y))


@QUIET
def test_one_network_for_prompts_of_any_length_padded_to_a_batch():
    rng, model = np.random.default_rng(3), small()
    examples = [(rng.normal(size=(n, 2)), rng.normal(size=n)) for n in (4, 9, 300)]
    prompts = [model.prompt(X, y, X[:2]) for X, y in examples]
    for (X, y), answer in zip(examples, model.answer(*prompts), strict=True):
        alone = learn.Ridge(0.5, n_steps=6).fit(X, y)
        assert np.allclose(answer.coefficients[0], alone.coef_, rtol=1e-11, atol=1e-12)
        assert np.allclose(answer.values[:, 0], alone.predict(X[:2]), rtol=1e-11, atol=1e-12)
    with pytest.raises(af.errors.InputError, match="must have the same numbers of features"):
        stack([prompts[0], model.prompt(np.ones((3, 5)), np.ones(3))])


@pytest.mark.parametrize("kind", ["ridge", "lasso", "classes", "poisson", "huber", "cosh(z - y)"])
def test_padding_has_no_weight_at_all(kind):
    model = small(kind=kind)
    rows, outs = model.prompt(model.X_, model.y_).rows, []
    for padding in (0.0, 8.0):
        junk = np.zeros((7, rows.shape[1]))
        junk[:, :4] = padding  # no flag is set, so nobody looks
        outs.append(reference(model.network(), np.concatenate([rows, junk]))[: len(rows)])
    assert np.array_equal(*outs)
    slack = {"ridge": 1e-13, "lasso": 1e-9}.get(kind, 1e-7)  # the first Newton steps magnify rounding
    assert np.allclose(outs[0], reference(model.network(), rows), rtol=slack, atol=slack)


@pytest.mark.parametrize("kind", ["ridge", "lasso", "classes", "poisson", "huber", "cosh(z - y)"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_back_ends_agree(kind, dtype, tmp_path):
    model = small(dtype, kind=kind)
    network = model.network()
    prompts = stack([model.prompt(model.X_[:n], model.y_[:n], model.X_[:2]) for n in (20, 12)])
    expected, slack = reference(network, prompts), 1e-7 if dtype == "float64" else 5e-3
    assert np.allclose(run(network, prompts), expected, rtol=slack, atol=slack)
    with torch.no_grad():
        module = model.to_torch()
        assert any(isinstance(part, torch.nn.MultiheadAttention) for part in module.modules())
        result = module(torch.tensor(prompts, dtype=getattr(torch, dtype))).numpy()
    assert np.allclose(result, expected, rtol=slack, atol=slack)
    model.to_onnx(tmp_path / "ridge.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "ridge.onnx", providers=["CPUExecutionProvider"])
    for batch in (prompts, prompts[:1, :30]):
        (result,) = session.run(["answers"], {"prompts": batch.astype(dtype)})
        assert np.allclose(result, reference(network, batch), rtol=slack, atol=slack)


@pytest.mark.parametrize("kind", ["ridge", "lasso", "classes", "poisson", "huber"])
def test_merging_equal_rows_changes_only_rounding(kind):
    model = small(rows=130, kind=kind)  # 260 rows with their mirror images: long enough to be merged
    rows = model.prompt(model.X_, model.y_, model.X_[:3]).rows
    expected = reference(model.network(), rows)
    slack = 1e-7 * np.abs(expected).max()  # one Newton step rounds at 2^20 times the unit roundoff; more would mend it
    assert np.abs(run(model.network(), rows[None])[0] - expected).max() < slack


def test_a_network_for_any_length_is_stored_and_is_refused_where_a_length_is_needed():
    network = small().network()
    again = storage.unpack(*storage.pack(network))
    rows = np.random.default_rng(0).normal(size=(1, 5, network.width_in))
    assert again.length is None
    assert np.array_equal(run(again, rows), run(network, rows))
    with pytest.raises(af.errors.InputError, match="for sequences of one length; got a network for any length"):
        network.shape_in  # noqa: B018 - it raises


def test_ten_thousand_examples():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(10_000, 5))
    y = X @ np.arange(5.0) + rng.normal(size=10_000)
    ours, theirs = learn.Ridge(3.0).fit(X, y), linear_model.Ridge(3.0).fit(X, y)
    assert off(ours.coef_, theirs.coef_) < 1e-10
    assert np.allclose(ours.predict(X[:50]), theirs.predict(X[:50]), rtol=1e-9)


def test_the_package_solves_nothing_by_itself():
    for path in Path(learn.__file__).parent.glob("*.py"):
        names = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        assert not names & {"linalg", "solve", "lstsq", "inv", "pinv", "optimize", "polyfit"}, path.name
        assert "scipy" not in path.read_text(), path.name


# The read-out and its bound; bounds on every iterate.


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_every_iterate_is_within_its_bound_of_the_exact_algorithm(dtype, intercept, alpha):
    X, y = load_diabetes(return_X_y=True)
    X = X + (0.1 if intercept else 0.0)  # means that are not zero
    report = learn.Ridge(alpha, fit_intercept=intercept, dtype=dtype).fit(X, y).report()
    assert {iterate.register for iterate in report.iterates} == {"G", "b", "P", "V", "w"}
    assert all(iterate.distance <= iterate.bound for iterate in report.iterates)
    if dtype == "float64":
        last = report.iterates[-1]
        assert last.bound < 1e-5 * last.size
        assert 0 < last.distance < 1e-10 * last.size


REPORTED = {
    "lasso": (learn.Lasso(0.05), 23),
    "lassos": (learn.Lasso(0.05), 23),
    "logistic": (learn.LogisticRegression(), 15),
    "classes": (learn.LogisticRegression(), 15),
    "poisson": (learn.GLM(alpha=0.1), 15),
    "huber": (learn.GLM("huber", alpha=0.1, fit_intercept=False), 15),
    "log-cosh": (learn.GLM("log-cosh", alpha=0.1), 15),
    "descent": (learn.GradientDescent(alpha=0.1, steps=40), 40),
    "robust descent": (learn.GradientDescent("log-cosh", steps=40, momentum=0.5), 40),
    "kernel": (learn.KernelRegression(), 1),
}


@QUIET
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", REPORTED)
def test_all_learners_report_iterates_within_bounds(kind, dtype):
    rng, (model, steps) = np.random.default_rng(7), REPORTED[kind]
    X = rng.normal(size=(40, 2)) @ [[1.0, 0.5], [0.0, 0.3]] + 0.5
    y = np.exp(X @ [0.5, 1.0] + rng.normal(size=40) / 3)
    y = {"logistic": y > 1, "classes": np.digitize(y, [0.7, 2.0]), "lassos": np.stack([y, -(y**2)], axis=1)}.get(
        kind, y
    )
    report = clone(model).set_params(dtype=dtype).fit(X, y).report()
    assert len(report.iterates) == steps
    assert all(0 < iterate.distance <= iterate.bound for iterate in report.iterates)
    if dtype == "float64":  # after convergence the bound says something, and so does the distance
        last = report.iterates[-1]
        assert last.bound < 1e-6 * last.size
        assert last.distance < 1e-11 * last.size


def test_the_report_prints_and_plots(tmp_path):
    report = small().report()
    assert len(str(report).splitlines()) == 1 + len(report.iterates)
    report.plot(tmp_path / "report.png")
    assert (tmp_path / "report.png").stat().st_size > 10_000


@pytest.mark.parametrize("heads", [1, 2, 3, 4])
def test_the_bound_of_the_read_out_holds_and_is_not_idle(heads):
    rng = np.random.default_rng(heads)
    weights, worst = [float(weight) for weight in richardson(heads)], 0.0
    for trial in range(400):
        n, t = int(rng.integers(1, 9)), 10 ** rng.uniform(-1.5, -0.55)
        s = rng.choice([-1.0, 1.0], size=n) * rng.choice([1.0, rng.random()], size=n)
        s, v = s / np.abs(s).max(), rng.normal(size=n) * rng.choice([1.0, 1e3], size=n)
        v = np.abs(v) * np.sign(s) if trial % 2 else v
        read = sum(a / (h * t) * (v @ np.sinh(h * t * s)) / np.cosh(h * t * s).sum() for h, a in enumerate(weights, 1))
        error, size = abs(read - (v @ s) / n), (np.abs(v) @ np.abs(s)) / n
        bound = truncation(heads, t, np.sqrt(np.mean(s**2))) + 1e-14 / t
        assert error <= bound * size
        worst = max(worst, error / (bound * size))
    assert worst > 0.1


def test_a_derivative_out_of_reach_names_what_solved_values_reach(monkeypatch):
    def refuse(*_: object, construction: str, **__: object) -> None:
        raise af.errors.ToleranceNotMet("eps could not be reached", got=f"what {construction} reaches")

    monkeypatch.setattr(losses, "compile", refuse)
    model = af.incontext.GradientDescent("exp(z - y) - z", step=0.1, steps=1, reach=2.5)
    with pytest.raises(af.errors.InputError, match="got what spectral reaches"):
        model.fit([[0.0], [1.0]], [0.0, 1.0]).network()
