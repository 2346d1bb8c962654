"""Networks from other frameworks: the same function, proved, and anything unknown named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, save
from sklearn.neural_network import MLPClassifier, MLPRegressor
from torch import nn

import attnfun as af

X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
BOX = [(-1, 1)] * 3


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + torch.relu(self.first(x))
        return self.last(h + nn.functional.leaky_relu(self.second(h), negative_slope=0.2))


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2, bias=False)),
        nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.3), nn.Sequential(nn.Linear(4, 3), nn.ReLU6()), nn.Linear(3, 1)),
        nn.Sequential(nn.Flatten(), nn.Linear(3, 4), nn.Hardtanh(-0.5, 0.25), nn.Identity(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 3)),
        Residual(),
    ],
)
def test_torch_modules(module):
    net = af.compile(module, BOX, 1e-6)
    with torch.no_grad():
        wanted = module.double()(torch.tensor(X)).numpy()
    assert net.certificate.proved
    assert np.abs(net(X) - wanted).max() <= net.certificate.bound <= 1e-6


def test_unknown_operations_are_named():
    with pytest.raises(af.InputError, match="Tanh"):
        af.compile(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), BOX, 1e-3)
    model = MLPRegressor(hidden_layer_sizes=(3,), activation="tanh", max_iter=300, tol=1.0).fit(X, X[:, 0])
    with pytest.raises(af.InputError, match="activation='tanh'"):
        af.compile(model, BOX, 1e-3)


def test_a_network_of_another_size_is_refused():
    with pytest.raises(af.InputError, match="must have 3 inputs"):
        af.compile(nn.Sequential(nn.Linear(4, 2)), BOX, 1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_deep_regressors(seed):
    model = MLPRegressor(hidden_layer_sizes=(6, 5), max_iter=500, tol=1e-3, random_state=seed).fit(
        X, np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2]
    )
    net = af.compile(model, BOX, 1e-6)
    assert net.certificate.proved
    assert np.abs(net(X) - model.predict(X)).max() <= net.certificate.bound <= 1e-6


def test_classifiers_keep_their_classes():
    labels = np.digitize(X[:, 0], [-0.3, 0.3])
    classifier = MLPClassifier(hidden_layer_sizes=(8,), max_iter=500, tol=1.0, random_state=2).fit(X, labels)
    logits = af.compile(classifier, BOX, 1e-6)(X)
    assert np.array_equal(classifier.classes_[logits.argmax(axis=1)], classifier.predict(X))


def onnx_file(path: Path, nodes: list, weights: dict[str, np.ndarray]) -> Path:
    ends = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["batch", None]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)), path)
    return path


def test_onnx_files(tmp_path):
    rng = np.random.default_rng(1)
    W, b, V, c = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=(2, 4)), rng.normal(size=2)
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["z"]),
        helper.make_node("Relu", ["z"], ["r"]),
        helper.make_node("Gemm", ["r", "V", "c"], ["y"], transB=1),
    ]
    path = onnx_file(tmp_path / "f.onnx", nodes, {"W": W, "b": b, "V": V, "c": c})
    for target in (path, str(path)):
        net = af.compile(target, BOX, 1e-6)
        assert np.abs(net(X) - (np.maximum(X @ W + b, 0) @ V.T + c)).max() <= net.certificate.bound <= 1e-6
    strange = onnx_file(tmp_path / "g.onnx", [helper.make_node("Sigmoid", ["x"], ["y"])], {})
    with pytest.raises(af.InputError, match="Sigmoid"):
        af.compile(strange, BOX, 1e-3)
    (tmp_path / "h.onnx").write_bytes(b"no model")
    with pytest.raises(af.FileFormatError, match="valid ONNX"):
        af.compile(tmp_path / "h.onnx", BOX, 1e-3)


def test_sizes_instead_of_a_tolerance():
    target = af.TruncatedLinear(np.ones((4, 2)), 0.0, -1.0, 1.0)
    box = af.Box(np.full((4, 2), -1.0), np.full((4, 2), 1.0))
    for construction, name, size in (("truncated-linear", "p", 30), ("multihead", "heads", 3), ("knots", "R", 100.0)):
        net = af.compile(target, box, construction=construction, options={name: size})
        points = np.random.default_rng(0).uniform(-1, 1, (200, 4, 2))
        assert net.certificate.proved
        assert np.abs(net(points) - target(points)).max() <= net.certificate.bound <= net.a_priori * (1 + 1e-6)
    with pytest.raises(af.InputError, match="without eps"):
        af.compile(target, box, construction="multihead")
