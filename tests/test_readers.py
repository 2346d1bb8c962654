"""Networks of other frameworks: graphs of operations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from torch import nn

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.domains.box import as_box
from attnfun.errors import InputError
from attnfun.readers import read_network
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


X = np.random.default_rng(3).uniform(-1, 1, (60, 2))
BOX = [(-1, 1)] * 2


def ran(module):
    with torch.no_grad():
        return module.double().eval()(torch.tensor(X)).numpy()


@pytest.mark.parametrize(
    "layer", [nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU(), nn.Softplus(), nn.ELU(0.5), nn.BatchNorm1d(3)]
)
def test_smooth_layers_are_enclosed_by_their_circuits(layer):
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(2, 3), layer, nn.Linear(3, 2))
    target = read_network(module, as_box(BOX))
    circuit, wanted = target.circuit(), ran(module)
    atoms = list(X.T)
    for unit in circuit.units:
        argument = at(unit.argument, atoms)
        assert unit.low <= argument.min() <= argument.max() <= unit.high
        atoms.append(unit.function(argument))
    for column, form in enumerate(circuit.outputs):
        assert at(form, atoms) == pytest.approx(wanted[:, column], rel=0, abs=1e-13)


def at(form, atoms):
    return sum((float(c.mid) * atoms[k] for k, c in form.terms.items()), float(form.constant.mid))


def test_a_smooth_network_is_compiled_saved_and_proved_again(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 3), nn.Softmax(-1))
    net = af.compile(module, BOX, 1e-4)
    assert net.certificate.proved
    assert np.abs(net(X) - ran(module)).max() <= net.certificate.bound <= 1e-4
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    assert np.array_equal(again(X), net(X))
    assert set(again.certificate.assumptions) == set(net.certificate.assumptions)


def test_outputs_of_a_classifier():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 3), nn.Softmax(-1))
    logits, shares, margins = (
        read_network(module, as_box(BOX), output).values(X) for output in ("logits", "probabilities", "margin")
    )
    assert shares == pytest.approx(ran(module), abs=1e-14)
    assert special.softmax(logits, axis=1) == pytest.approx(shares, abs=1e-14)
    assert np.array_equal(margins.argmax(axis=1), shares.argmax(axis=1))
    assert ((margins > 0).sum(axis=1) == 1).all()


def test_pipelines():
    y = X[:, 0] - 2 * X[:, 1]
    for model in (
        make_pipeline(StandardScaler(), Ridge()),
        make_pipeline(MinMaxScaler(), MLPRegressor(hidden_layer_sizes=(3,), max_iter=200, tol=1.0, random_state=0)),
    ):
        target = read_network(model.fit(X, y), as_box(BOX))
        assert target.values(X)[:, 0] == pytest.approx(model.predict(X), abs=1e-12)
        enclosure = target.enclose(Interval(X))
        assert (enclosure.lo[:, 0] <= target.values(X)[:, 0]).all()
        assert (target.values(X)[:, 0] <= enclosure.hi[:, 0]).all()


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()], ids=str)
def test_pipelines_of_one_number_are_compiled(scaler):
    network = MLPRegressor(hidden_layer_sizes=(3,), max_iter=200, tol=1.0, random_state=0)
    model = make_pipeline(scaler, network).fit(X, X[:, 0] - 2 * X[:, 1])
    net = af.compile(model, BOX, 1e-6)
    assert net.certificate.proved
    assert np.abs(net(X) - model.predict(X)).max() <= net.certificate.bound + 1e-12
