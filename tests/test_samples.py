"""Data: what is held out is what is reported, networks are ordinary, and bad input is refused with a reason."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_linnerud, make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import attnfun as af
from attnfun.network.reference import run as reference
from attnfun.pieces.evidence import Evidence, Model
from attnfun.pieces.tokens import Tokens

FAST = {"tokens": 8, "polish": False, "folds": 2}


def rows(count, seed=0, noise=0.1):
    """Noisy samples of a function of two variables, a third does nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform([-1, 0, 100], [1, 5, 300], (count, 3))
    return X, np.sin(3 * X[:, 0]) + 0.3 * (X[:, 1] - 2) ** 2 + noise * rng.normal(size=count)


@pytest.fixture(scope="module")
def net():
    return af.compile(af.Samples(*rows(120)))


def test_the_estimate_is_about_the_error_at_fresh_rows(net):
    X, y = rows(4000, seed=1)
    fresh = np.sqrt(np.mean((net(X, outside="allow") - y) ** 2))
    assert 0.75 < net.figures["held_out_rmse"] / fresh < 1.33
    assert fresh < 0.2  # the noise alone is 0.1, the spread of y is 1.2
    assert net.certificate.status is af.types.Status.ESTIMATED


def test_held_out_rows_do_not_fit_themselves():
    """Pure noise: whoever looked at the rows that he judges would find a pattern in it."""
    X, y = np.random.default_rng(0).normal(size=(2, 100, 4))[0], np.random.default_rng(1).normal(size=100)
    net = af.compile(af.Samples(X, y), options={"tokens": 90, "polish": False})
    assert net.figures["held_out_r2"] < 0.1
    assert net.figures["held_out_rmse"] > 0.9 * y.std()


def test_the_certificate_says_what_was_held_out_and_what_it_is_not(net, tmp_path):
    target = net.certificate.claim.target
    assert net.certificate.bound == np.abs(target.study.residuals).max()
    text = str(net.certificate)
    for words in ("each of 120 rows once, in 5 folds", "held-out RMSE", "R²", "bounds nothing else", "nothing bounds"):
        assert words in text
    assert "the 120 rows of the data, each held out once" in net.certificate.as_dict()["statement"]
    assert net.summary().figures["held_out_rmse"] == target.study.rmse
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    assert str(again.certificate) == text
    with pytest.raises(af.errors.InputError, match="needs the function"):
        again.certificate.recheck()


def test_data_are_not_in_the_file_and_fresh_data_recheck_it(net, tmp_path):
    from safetensors.numpy import load_file

    net.save(tmp_path / "f.safetensors")
    assert not [name for name in load_file(tmp_path / "f.safetensors") if not name.startswith("layers.")]
    certificate = af.load(tmp_path / "f.safetensors").certificate
    X, y = rows(120)
    assert certificate.recheck(target=af.Samples(X, y)).bound <= certificate.bound
    with pytest.raises(af.errors.ProofFailed):
        certificate.recheck(target=af.Samples(X, y + 10))


def test_norms_are_over_rows():
    samples, options = af.Samples(*rows(60)), {"options": FAST}
    largest, mean = (af.compile(samples, norm=norm, **options).certificate.bound for norm in ("inf", 2))
    assert mean < largest
    assert mean == pytest.approx(af.compile(samples, **options).figures["held_out_rmse"])
    assert af.compile(samples, eps=1.01 * mean, norm=2, **options).certificate.bound == mean
    with pytest.raises(af.errors.ToleranceNotMet, match="more rows") as missed:
        af.compile(samples, eps=0.5 * mean, norm=2, **options)
    assert missed.value.best.certificate.bound == mean


def test_equal_calls_give_equal_networks_and_seeds_matter():
    samples = af.Samples(*rows(60))
    nets = [af.compile(samples, options={"tokens": 12, "polish": True, "folds": 2}, seed=seed) for seed in (0, 0, 1)]
    memories = [net.network.layers[1].memory for net in nets]
    assert np.array_equal(memories[0], memories[1])
    assert not np.array_equal(memories[0], memories[2])


def cloud():
    """Noiseless rows: one output is hard, the other exactly affine."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    return X, np.stack([np.sin(3 * X[:, 0]), X @ [1.0, 2.0, 0.0]], axis=1)


def lattice():
    """Rows that are equally near to several centres, most of them more than once."""
    X = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(-1, 3)
    return np.repeat(X, 2, axis=0), np.repeat(np.cos(X[:, :1] * X[:, 1:2]), 2, axis=0)


@pytest.mark.parametrize("polish", [False, True])
@pytest.mark.parametrize("data", [rows, cloud, lattice])
def test_last_digits_units_and_the_order_of_rows_change_nothing(data, polish):
    """What another BLAS, or another vector width, does to the last digits of sums, and more."""
    X, y = data(60) if data is rows else data()
    order, digits = np.random.default_rng(1).permutation(len(X)), 1 + 1e-15 * np.random.default_rng(2).normal(size=60)
    alike = {"units": (3 * X, y / 7, 7.0), "order": (X[order], y[order], 1.0)}
    if data is not lattice:  # whose equal rows are to stay equal
        alike["digits"] = (X * digits[:, None], y, 1.0)
    options = {"tokens": 12, "polish": polish, "folds": 2}
    plain = af.compile(af.Samples(X, y), options=options)
    others = {what: af.compile(af.Samples(*rest), options=options) for what, (*rest, _) in alike.items()}
    for what, (_, _, unit) in alike.items():
        other = others[what]
        assert unit * other.certificate.bound == pytest.approx(plain.certificate.bound, rel=0.01), what
        assert unit * other.figures["held_out_rmse"] == pytest.approx(plain.figures["held_out_rmse"], rel=0.01), what
        assert other.network.tokens == plain.network.tokens
    residuals, shuffled = (net.certificate.claim.target.study.residuals for net in (plain, others["order"]))
    expected = residuals[order]
    if data is lattice:  # of two equal rows either may be the first
        expected, shuffled = np.sort(expected, axis=0), np.sort(shuffled, axis=0)
    assert np.allclose(expected, shuffled, rtol=1e-6, atol=1e-6)


def test_the_size_chosen_does_not_hang_on_last_digits():
    X, y = cloud()
    nets = [af.compile(af.Samples(factor * X, y), options={"folds": 3}) for factor in (1.0, 3.0, 1 / 7)]
    tables = [net.certificate.claim.target.study.trials for net in nets]
    for net, table in zip(nets, tables, strict=True):
        assert net.network.tokens == nets[0].network.tokens
        assert [trial["tokens"] for trial in table] == [trial["tokens"] for trial in tables[0]]
        for trial, first in zip(table, tables[0], strict=True):
            assert trial["rmse"] == pytest.approx(first["rmse"], rel=0.01, abs=1e-6)


def test_the_network_reads_raw_rows_in_any_framework(tmp_path):
    import onnxruntime
    import torch

    X, y = rows(80)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        net = af.compile(af.Samples(X, np.stack([y, -2 * y], axis=1)), dtype=dtype, options=FAST)
        assert [layer.kind for layer in net.network.layers] == ["affine", "attention", "affine"]
        expected = reference(net.network, X[:, None])[:, 0]
        net.to_onnx(tmp_path / "f.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "f.onnx", providers=["CPUExecutionProvider"])
        with torch.no_grad():
            by_torch = net.to_torch()(torch.tensor(X, dtype=getattr(torch, dtype))).numpy()
        for values in (net(X), by_torch, session.run(None, {"points": X.astype(dtype)})[0]):
            assert np.abs(values - expected).max() < tolerance * 100


def test_several_outputs_share_a_head():
    X, y = load_linnerud(return_X_y=True)
    net = af.compile(af.Samples(X, y))
    assert net(X).shape == (20, 3)
    assert net.network.heads == 1
    assert net.certificate.claim.target.study.residuals.shape == (20, 3)


def test_an_affine_function_takes_one_token():
    X = np.random.default_rng(0).normal(size=(60, 5))
    y = X @ [1.0, -2.0, 0.0, 3.0, 0.5] + 7 + 0.1 * np.random.default_rng(1).normal(size=60)
    net = af.compile(af.Samples(X, y))
    assert net.network.tokens == 1
    assert net.figures["held_out_rmse"] < 0.15


def test_many_rows_are_used_for_values_though_few_choose_the_tokens():
    X, y = make_friedman1(3000, 5, noise=1.0, random_state=0)
    fresh, truth = make_friedman1(2000, 5, noise=0.0, random_state=1)
    errors = []
    for count in (300, 3000):
        net = af.compile(af.Samples(X[:count], y[:count]), options={"tokens": 64, "polish": False, "folds": 2})
        errors.append(np.sqrt(np.mean((net(fresh, outside="allow") - truth) ** 2)))
    assert errors[1] < 0.6 * errors[0]


def test_derivatives_of_the_evidence():
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=(30, 3)), rng.normal(size=(30, 2))
    start = np.concatenate([rng.normal(size=5 * 4), [0.4, -0.3]])

    def at(p):
        places = p[:-2].reshape(5, 4)
        return Evidence.of(Model(Tokens(places[:, :3], places[:, 3]), *np.exp(p[-2:])), u, y)

    here = at(start)
    gradient = np.concatenate([np.column_stack([here.by_slope, here.by_offset]).ravel(), here.by_sizes])
    steps = 1e-6 * np.eye(len(start))
    numeric = [(at(start + step).value - at(start - step).value) / 2e-6 for step in steps]
    assert np.allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_odd_data_are_fitted_sensibly():
    X, y = rows(40)
    with np.errstate(all="raise", under="ignore"):
        assert np.allclose(af.compile(af.Samples(X, np.full(40, 3.0)))(X), 3.0)
        assert "held_out_r2" not in af.compile(af.Samples(X, np.full(40, 3.0)), options=FAST).figures
        same = af.compile(af.Samples(np.ones((40, 2)), y))  # nothing to go by
        assert same([1.0, 1.0]) == pytest.approx(y.mean())
        twice = af.compile(af.Samples(np.repeat([[0.0], [1.0]], 20, axis=0), np.tile([0.0, 1.0], 20)))
        assert np.allclose(twice([[0.0], [1.0]]), 0.5, atol=0.2)
        wide = af.compile(af.Samples(np.random.default_rng(0).normal(size=(10, 30)), y[:10]))
        assert np.isfinite(wide(np.zeros(30)))
        assert np.isfinite(af.compile(af.Samples(X[:2], y[:2]))(X[:2])).all()
    line = af.compile(af.Samples(X[:, 0], y, names=["speed"]), options=FAST)
    assert line.domain.axes == ("speed",)


def test_networks_of_data_are_not_combined_because_nothing_is_known_between_rows():
    X, y = rows(30)
    net = af.compile(af.Samples(X, y), options=FAST)
    line = af.compile("x", {"x": (-100, 100)}, 1e-3)
    for combine in (
        lambda: net + 1,
        lambda: 2 * net,
        lambda: net * net,
        lambda: line(net),
        lambda: net.restrict([(0, 0.5), (1, 2), (150, 200)]),
    ):
        with pytest.raises(af.errors.InputError, match="values everywhere"):
            combine()


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        ([[0.0], [np.nan]], [0, 1], r"X must be finite .* nan at \(1, 0\)"),
        ([[0.0], [1.0]], [0, np.inf], "y must be finite"),
        ([[0.0], [1e200]], [0, 1], "up to 1e"),
        ([["a"], ["b"]], [0, 1], "X must be finite numbers up to"),
        ([["0"], ["1"]], [0, 1], "X must be finite numbers up to"),
        ([[1j], [2.0]], [0, 1], "X must be finite numbers up to .*got .*1j"),
        ([[0.0]], [1], "at least 2; got 1 and 1"),
        ([[0.0], [1.0]], [1, 2, 3], "as many rows"),
        (np.zeros((3, 0)), [1, 2, 3], "shape"),
        (np.zeros((3, 2, 2)), [1, 2, 3], "shape"),
    ],
)
def test_bad_samples_are_refused(X, y, match):
    with pytest.raises(af.errors.InputError, match=match):
        af.Samples(X, y)


def test_bad_requests_are_refused():
    samples = af.Samples(*rows(20))
    for keywords, match in (
        ({"domain": [(-1, 1)] * 3}, "must hold every row"),
        ({"domain": [(-1, 1)] * 2}, "3 variables"),
        ({"construction": "grid"}, "These do: regression"),
        ({"options": {"tokens": 0}}, "tokens must be"),
        ({"options": {"tokens": 9}, "budget": 8}, "from 1 to 8"),
        ({"options": {"folds": 1}}, "folds must be"),
        ({"options": {"polish": "yes"}}, "polish must be"),
    ):
        with pytest.raises(af.errors.InputError, match=match):
            af.compile(samples, **keywords)
    with pytest.raises(af.errors.InputError, match="must serve"):
        af.compile("x", {"x": (0, 1)}, 0.1, construction="regression")
    with pytest.raises(af.errors.InputError, match="a domain must be"):
        af.compile("x", eps=0.1)


@pytest.mark.parametrize(
    ("estimator", "check"),
    list(estimator_checks_generator(af.AttentionRegressor(**FAST))),
    ids=lambda part: getattr(getattr(part, "func", None), "__name__", ""),
)
def test_scikit_learn_takes_it_for_one_of_its_own(estimator, check):
    check(estimator)


def test_pipelines_searches_and_scores():
    X, y = rows(60)
    model = make_pipeline(StandardScaler(), af.AttentionRegressor(**FAST))
    straight = cross_val_score(LinearRegression(), X, y, cv=3).mean()
    assert cross_val_score(model, X, y, cv=3).mean() > straight + 0.3
    search = GridSearchCV(af.AttentionRegressor(**FAST), {"tokens": [1, 12]}, cv=3).fit(X, y)
    assert search.best_params_ == {"tokens": 12}


def test_the_estimator_is_what_compile_makes_and_shows_what_it_tried():
    X, y = rows(60)
    model = af.AttentionRegressor(random_state=3).fit(X, y)
    net = af.compile(af.Samples(X, y), seed=3)
    assert np.array_equal(model.predict(X), net(X))
    assert model.held_out_rmse_ == net.figures["held_out_rmse"]
    assert np.isfinite(model.predict(X + 50)).all()
    tried = model.cv_results_
    assert tried["param_tokens"][:2].tolist() == [1, 16]
    assert sorted(tried["rank_test_rmse"]) == list(range(1, len(tried["param_tokens"]) + 1))
    with pytest.raises(af.errors.InputError, match="random_state"):
        af.AttentionRegressor(random_state=None).fit(X, y)


def test_scikit_learn_is_needed_only_for_the_estimator():
    code = (
        "import sys; sys.modules['sklearn'] = None; import attnfun as af; import numpy as np\n"
        "x = np.linspace(0, 1, 20); print(af.compile(af.Samples(x, x**2), options={'tokens': 4, 'polish': False}))\n"
        "try: af.AttentionRegressor\n"
        "except af.errors.MissingExtra as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "regression, 4 tokens" in done.stdout
    assert "pip install 'attnfun[sklearn]'" in done.stdout
