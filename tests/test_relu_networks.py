"""Networks from other frameworks: the same function, proved, and anything unknown named."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, save
from sklearn.neural_network import MLPClassifier, MLPRegressor
from torch import nn

import attnfun as af
from attnfun.proofs.certify import SLACK
from attnfun.targets import PiecewiseLinear
from attnfun.targets.readers.stages import Stages

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
        nn.Sequential(nn.Identity()),
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
    with pytest.raises(af.errors.InputError, match=r"tanh, .*got floor \(Floors\)|floor"):
        af.compile(Floors(), BOX, 1e-3)


class Floors(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.floor(x)


def test_a_network_of_another_size_is_refused():
    with pytest.raises(af.errors.InputError, match="must have 3 inputs"):
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


def onnx_file(
    path: Path, nodes: list, weights: dict[str, np.ndarray], kind: int = TensorProto.DOUBLE, more: tuple[str, ...] = ()
) -> Path:
    ends = [helper.make_tensor_value_info(name, kind, ["batch", None]) for name in ("x", "y")]
    extra = [helper.make_tensor_value_info(name, kind, weights[name].shape) for name in more]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    save(helper.make_model(helper.make_graph(nodes, "g", [ends[0], *extra], ends[1:], tensors)), path)
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
    strange = onnx_file(tmp_path / "g.onnx", [helper.make_node("Floor", ["x"], ["y"], name="down")], {})
    with pytest.raises(af.errors.InputError, match=r"Floor \(down\).*Sigmoid"):
        af.compile(strange, BOX, 1e-3)
    (tmp_path / "h.onnx").write_bytes(b"no model")
    with pytest.raises(af.errors.FileFormatError, match="valid ONNX"):
        af.compile(tmp_path / "h.onnx", BOX, 1e-3)


def test_sizes_instead_of_a_tolerance():
    target = af.TruncatedLinear(np.ones((4, 2)), 0.0, -1.0, 1.0)
    box = af.Box(np.full((4, 2), -1.0), np.full((4, 2), 1.0))
    for construction, name, size in (("truncated-linear", "p", 30), ("multihead", "heads", 3), ("knots", "R", 100.0)):
        net = af.compile(target, box, construction=construction, options={name: size})
        points = np.random.default_rng(0).uniform(-1, 1, (200, 4, 2))
        assert net.certificate.proved
        assert (
            np.abs(net(points) - target(points)).max()
            <= net.certificate.bound
            <= net.a_priori * (1 + 1e-6) * (1 + SLACK)
        )
    with pytest.raises(af.errors.InputError, match="without eps"):
        af.compile(target, box, construction="multihead")


def ran(module: nn.Module) -> np.ndarray:
    with torch.no_grad():
        return module.double().eval()(torch.tensor(X)).numpy()


def small(*more: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), *more)


def test_modules_are_read_in_evaluation_mode_and_the_certificate_says_so(tmp_path):
    module = small(nn.Dropout(0.5))
    net = af.compile(module, BOX, 1e-6)
    assert module.training
    assert np.abs(net(X) - ran(module)).max() <= net.certificate.bound
    net.save(tmp_path / "f.safetensors")
    for certificate in (net.certificate, af.load(tmp_path / "f.safetensors").certificate.recheck()):
        assert any("in evaluation mode" in line for line in certificate.assumptions)
    assert not any("evaluation mode" in line for line in af.compile(module.eval(), BOX, 1e-6).certificate.assumptions)


class Branching(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if self.training else super().forward(x) + x[..., :2]


class Shifting(nn.Sequential):
    shift = 0.0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return super().__call__(x) + self.shift


def hooked(module: nn.Sequential) -> nn.Sequential:
    module[0].register_forward_hook(lambda part, inputs, output: 2 * output)
    return module


def prehooked(module: nn.Sequential) -> nn.Sequential:
    def double(part, inputs):
        return (2 * inputs[0],)

    module.register_forward_pre_hook(double)
    return module


def replaced(module: nn.Sequential) -> nn.Sequential:
    module[1].forward = torch.tanh
    return module


def shifting() -> nn.Module:
    module = Shifting(*small())
    module.shift = 1.0
    return module


class Counting(nn.Module):
    """Another function from call to call."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Counting.calls += 1
        return x * Counting.calls


class Peeking(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x[0, 0] > 0 else -x


def test_what_runs_in_evaluation_mode_is_read():
    for module in (Branching(nn.Linear(3, 2)), shifting()):
        net = af.compile(module, BOX, 1e-6)
        assert np.abs(net(X) - ran(module)).max() <= net.certificate.bound <= 1e-6


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: hooked(small()), r"the forward hook <lambda> of 0\b"),
        (lambda: prehooked(small()), "the forward pre-hook double of Sequential"),
        (lambda: replaced(small()), "the forward of 1, which was set on the object"),
        (lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 2))), "forward pre-hook WeightNorm of 0"),
        (
            lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))),
            "the parametrization of weight of 0",
        ),
        (lambda: Counting(), "as it was read and .* as it runs"),
        (lambda: Peeking(), "gt|__bool__"),
        (lambda: small(nn.Flatten(0)), "flatten from axis 0"),
        (lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False)), "batch statistics"),
    ],
)
def test_modules_that_run_something_else_than_their_layers_are_refused(module, message):
    with (
        pytest.warns(FutureWarning) if "WeightNorm of" in message else nullcontext(),
        pytest.raises(af.errors.InputError, match=message),
    ):
        af.compile(module(), BOX, 1e-6)


def test_hooks_of_all_modules_are_refused():
    handle = nn.modules.module.register_module_forward_hook(lambda part, inputs, output: 2 * output)
    try:
        with pytest.raises(af.errors.InputError, match="forward hook <lambda> of every module"):
            af.compile(small(), BOX, 1e-6)
    finally:
        handle.remove()


class InPlace(nn.Module):
    """h + max(h, 0) with plain layers, 2 max(h, 0) where the activation overwrites h."""

    def __init__(self, inplace: bool, functional: bool) -> None:
        super().__init__()
        self.first, self.same, self.rectify = nn.Linear(3, 2), nn.Identity(), nn.ReLU(inplace)
        self.inplace, self.functional = inplace, functional

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        again = self.same(h)
        r = nn.functional.relu(h, inplace=self.inplace) if self.functional else self.rectify(h)
        return again + r


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("functional", [False, True])
def test_activations_in_place_change_what_is_read_later(inplace, functional):
    module = InPlace(inplace, functional)
    net = af.compile(module, BOX, 1e-6)
    assert np.abs(net(X) - ran(module)).max() <= net.certificate.bound <= 1e-6


GEMM = helper.make_node("Gemm", ["x", "W", "b"], ["h"])
RNG = np.random.default_rng(3)
W, BIAS = RNG.normal(size=(3, 3)), RNG.normal(size=3)


def relu_of_product(h):
    return np.maximum(h - BIAS, 0)


def relu_of_multiple(h):
    return np.maximum(h * BIAS, 0)


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ([GEMM, helper.make_node("Gemm", ["h", "W", "h"], ["y"])], lambda h: h @ W + h),
        ([GEMM, helper.make_node("Gemm", ["h", "W", "x"], ["y"])], lambda h: h @ W + X),
        ([GEMM, helper.make_node("Gemm", ["h", "W", ""], ["y"])], lambda h: h @ W),
        (
            [GEMM, helper.make_node("Gemm", ["h", "W", "b"], ["y"], alpha=0.3)],
            lambda h: float(np.float32(0.3)) * (h @ W) + BIAS,
        ),
        (
            [GEMM, helper.make_node("Gemm", ["h", "W", "b"], ["y"], alpha=2.0, beta=0.7)],
            lambda h: 2 * (h @ W) + float(np.float32(0.7)) * BIAS,
        ),
        ([GEMM, helper.make_node("Gemm", ["h", "W", "h"], ["y"], beta=-2.0)], lambda h: h @ W - 2 * h),
        (
            [
                GEMM,
                helper.make_node("MatMul", ["h", "W"], ["p"]),
                helper.make_node("Add", ["b", "p"], ["s"]),
                helper.make_node("Relu", ["s"], ["r"]),
                helper.make_node("Add", ["r", "p"], ["y"]),
            ],
            lambda h: np.maximum(h @ W + BIAS, 0) + h @ W,
        ),
        ([GEMM, helper.make_node("Relu", ["h"], ["r"]), helper.make_node("Identity", ["h"], ["y"])], lambda h: h),
        (
            [
                helper.make_node("MatMul", ["x", "W"], ["p"]),
                helper.make_node("Relu", ["x"], ["q"]),
                helper.make_node("Relu", ["p"], ["r"]),
                helper.make_node("Add", ["r", "q"], ["y"]),
            ],
            lambda h: np.maximum(X @ W, 0) + np.maximum(X, 0),
        ),
        ([helper.make_node("Identity", ["x"], ["y"])], lambda h: X),
        ([GEMM, helper.make_node("Sub", ["h", "b"], ["d"]), helper.make_node("Relu", ["d"], ["y"])], relu_of_product),
        ([GEMM, helper.make_node("Sub", ["b", "h"], ["y"])], lambda h: BIAS - h),
        ([GEMM, helper.make_node("Sub", ["h", "x"], ["y"])], lambda h: h - X),
        ([GEMM, helper.make_node("Mul", ["b", "h"], ["m"]), helper.make_node("Relu", ["m"], ["y"])], relu_of_multiple),
        ([GEMM, helper.make_node("Mul", ["h", "top"], ["y"])], lambda h: h / 4),
        ([GEMM, helper.make_node("Div", ["h", "top"], ["y"])], lambda h: h * 4),
        ([GEMM, helper.make_node("Div", ["h", "b"], ["y"])], lambda h: h / BIAS),
        ([helper.make_node("Mul", ["x", "x"], ["y"])], lambda h: X * X),
        ([GEMM, helper.make_node("Clip", ["h", "", "top"], ["y"])], lambda h: np.minimum(h, 0.25)),
        ([GEMM, helper.make_node("Dropout", ["h"], ["y"])], lambda h: h),
        (
            [GEMM, helper.make_node("Dropout", ["h"], ["d", "mask"]), helper.make_node("Add", ["d", "x"], ["y"])],
            lambda h: h + X,
        ),
    ],
)
def test_onnx_graphs_are_read_as_they_run(nodes, wanted, tmp_path):
    weights = {"W": W, "b": BIAS, "top": np.array(0.25)}
    net = af.compile(onnx_file(tmp_path / "f.onnx", nodes, weights), BOX, 1e-6)
    assert np.abs(net(X) - wanted(X @ W + BIAS)).max() <= net.certificate.bound <= 1e-6


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([GEMM, helper.make_node("Clip", ["h", "x"], ["y"])], "Clip of a value, a value"),
        ([helper.make_node("Gemm", ["x", "W", "b"], ["y"], transA=1)], "transA"),
        ([helper.make_node("Gemm", ["W", "x", "b"], ["y"])], "Gemm of a constant, a value"),
        ([helper.make_node("MatMul", ["x", "x"], ["y"])], "matmul .* must fit each other"),
        ([helper.make_node("Div", ["b", "x"], ["y"])], "bounded on the whole domain"),
        ([helper.make_node("Sub", ["x", "column"], ["y"])], "one value for each point"),
        ([helper.make_node("Gemm", ["x", "W", "column"], ["y"])], "one value for each point"),
        ([helper.make_node("Add", ["x", "column"], ["y"])], "one value for each point"),
        ([GEMM, helper.make_node("Dropout", ["h", "half", "yes"], ["y"])], "training mode"),
        (
            [GEMM, helper.make_node("Dropout", ["h"], ["d", "mask"]), helper.make_node("Add", ["d", "mask"], ["y"])],
            "Add",
        ),
        ([GEMM, helper.make_node("Flatten", ["h"], ["y"], axis=0)], "axis=0"),
        ([helper.make_node("Identity", ["b"], ["y"])], "must depend on its input"),
        ([helper.make_node("Gemm", ["x", "W", "nan"], ["y"])], "must be finite"),
    ],
)
def test_onnx_graphs_that_would_be_misread_are_refused(nodes, message, tmp_path):
    weights = {"W": W, "b": BIAS, "column": BIAS[:, None], "half": np.array(0.5), "yes": np.array(True)}
    weights["nan"] = np.full(3, np.nan)
    with pytest.raises((af.errors.InputError, af.errors.FileFormatError), match=message):
        af.compile(onnx_file(tmp_path / "f.onnx", nodes, weights), BOX, 1e-6)


def test_onnx_files_in_float32_are_compared_in_float32(tmp_path):
    weights = {"W": W.astype(np.float32), "b": BIAS.astype(np.float32)}
    nodes = [GEMM, helper.make_node("Relu", ["h"], ["y"])]
    path = onnx_file(tmp_path / "f.onnx", nodes, weights, TensorProto.FLOAT, more=("b",))
    net = af.compile(path, BOX, 1e-9)
    assert "the values of b are those in f.onnx; callers of the model may override them" in net.certificate.assumptions


def test_a_regressor_with_another_output_activation_is_refused():
    model = MLPRegressor(hidden_layer_sizes=(3,), loss="poisson", max_iter=50, tol=1.0).fit(X, np.exp(X[:, 0]))
    with pytest.raises(af.errors.InputError, match="out_activation_='exp'"):
        af.compile(model, BOX, 1e-3)


class Doubled(MLPRegressor):
    def predict(self, X):
        return 2 * super().predict(X)


def test_estimators_are_compared_with_what_they_predict():
    model = Doubled(hidden_layer_sizes=(3,), max_iter=300, tol=1.0, random_state=0).fit(X, X[:, 0])
    with pytest.raises(af.errors.InputError, match="the network read from Doubled must have the outputs of Doubled"):
        af.compile(model, BOX, 1e-3)
    for labels in (X[:, 0] > 0, X[:, :2] > 0):  # one logit, and one for each of two labels
        classifier = MLPClassifier(hidden_layer_sizes=(3,), max_iter=300, tol=1.0, random_state=2).fit(X, labels)
        assert af.compile(classifier, BOX, 1e-3).certificate.proved


@pytest.mark.parametrize("seed", range(10))
def test_random_graphs_become_their_own_stages(seed):
    """Every value may be read by any number of later ones, and any of them be the output."""
    rng = np.random.default_rng(seed)
    graph, values = Stages(2), [X[:, :2]]
    for _ in range(12):
        source, other = (int(k) for k in rng.integers(0, len(values), 2))
        width, h = values[source].shape[1], values[source]
        weight, bias = rng.normal(size=(width, 2)), rng.normal(size=2)
        kind = rng.integers(0, 5)
        if kind == 0:
            bias *= rng.integers(0, 2)
            number, value = graph.linear(source, weight, bias), h @ weight + bias
        elif kind == 1:
            number, value = graph.shift(source, bias), h + bias
        elif kind == 2:
            number, value = graph.clip(source, -0.5, 0.7), np.clip(h, -0.5, 0.7)
        elif kind == 3:
            number, value = graph.leaky(source, 0.3), np.maximum(h, 0.3 * h)
        else:
            number, value = graph.add(source, other), h + values[other]
        assert number == len(values)
        values.append(value)
    for output, wanted in enumerate(values):
        target = PiecewiseLinear(graph.stages(output), af.Box([-1, -1], [1, 1]), (2,), "graph")
        assert target.values(X[:, :2]) == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_onnx_models_of_one_point_with_more_axes(tmp_path):
    """As public collision-avoidance networks come: input (1, 1, 1, d), a mean taken off, then Flatten."""
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["s"]),
        helper.make_node("Flatten", ["s"], ["f"]),
        helper.make_node("MatMul", ["f", "W"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    tensors = {"mean": np.full((1, 1, 1, 3), 0.25), "W": W, "b": BIAS}
    ends = [
        helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)
        for name, shape in (("x", [1, 1, 1, 3]), ("y", [1, 3]))
    ]
    initial = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], initial)), tmp_path / "f.onnx")
    net = af.compile(tmp_path / "f.onnx", BOX, 1e-6)
    assert np.abs(net(X) - np.maximum((X - 0.25) @ W + BIAS, 0)).max() <= net.certificate.bound <= 1e-6


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_gain_leaves_most_of_a_tolerance_to_rounding(dtype):
    """A deep network whose rounding takes two thirds of the tolerance."""
    torch.manual_seed(0)
    layers = [part for _ in range(5) for part in (nn.Linear(12, 12), nn.ReLU())]
    module = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), *layers, nn.Linear(12, 2)).double()
    box = [(-1, 1)] * 4  # in fewer variables boxes would be tried as well
    sharp = af.compile(module, box, dtype=dtype, options={"R": 2.0**50})
    rounding = sharp.certificate.parts["rounding"] + sharp.certificate.parts["input"]
    net = af.compile(module, box, 1.5 * rounding, dtype=dtype)
    assert net.certificate.bound <= 1.5 * rounding
    points = np.random.default_rng(0).uniform(-1, 1, (500, 4))
    with torch.no_grad():
        exact = module(torch.tensor(points)).numpy()
    assert np.abs(net(points) - exact).max() <= net.certificate.bound


def test_the_gain_stays_within_the_format():
    module = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    with torch.no_grad():
        for weight, value in zip(module.parameters(), (1e18, 0.0, 1e-18, 0.0), strict=True):
            weight.fill_(value)
    net = af.compile(module, [(-1, 1)], 1e-5, dtype="float32")  # scores of 1e18 times a gain of 1e5 or more
    assert net.certificate.bound <= 1e-5
