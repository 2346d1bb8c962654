"""Networks of other frameworks: graphs of operations."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import TruncatedSVD
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as processes
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeClassifier, SGDRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, NuSVR, OneClassSVM
from sklearn.tree import DecisionTreeRegressor
from torch import nn

import attnfun as af
from attnfun.arithmetic import Interval
from attnfun.domains.box import as_box
from attnfun.errors import FileFormatError, InputError
from attnfun.targets.readers import read_graph, read_network
from attnfun.targets.readers.graph import Builder


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


def target_of(model: object, output: str | None = None) -> Any:
    return read_network(model, as_box(BOX), output)


def ran(module):
    with torch.no_grad():
        return module.double().eval()(torch.tensor(X)).numpy()


@pytest.mark.parametrize(
    "layer", [nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU(), nn.Softplus(), nn.ELU(0.5), nn.BatchNorm1d(3)]
)
def test_smooth_layers_are_enclosed_by_their_circuits(layer):
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(2, 3), layer, nn.Linear(3, 2))
    target = target_of(module)
    enclosed_by_its_circuit(target, ran(module))


@pytest.mark.parametrize("spread", [0.1, 3.0, 60.0])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_softmax_and_normalised_layers_are_enclosed_by_their_circuits(count, spread):
    torch.manual_seed(count)
    linear = nn.Linear(2, count)
    with torch.no_grad():
        linear.weight *= spread
    enclosed_by_its_circuit(target_of(module := nn.Sequential(linear, nn.Softmax(-1))), ran(module))
    if spread < 60.0:  # the mean of squares of wide layers varies too much for one bank
        module = nn.Sequential(linear, nn.LayerNorm(count), nn.Linear(count, 1))
        enclosed_by_its_circuit(target_of(module), ran(module), within=1e-9)


def test_normalised_layers_are_proved_where_their_variance_vanishes():
    torch.manual_seed(0)
    linear = nn.Linear(2, 2, bias=False)  # all numbers are equal at zero, and there the function is steepest
    module = nn.Sequential(linear, nn.LayerNorm(2), nn.Linear(2, 1)).double().eval()
    net = af.compile(module, BOX, 1e-4)
    points = np.concatenate([X * scale for scale in (0.0, 1e-6, 1e-3, 3e-3, 1e-2, 1e-1, 1.0)])
    with torch.no_grad():
        wanted = module(torch.tensor(points)).numpy()
    assert net.certificate.proved
    assert np.abs(net(points) - wanted).max() <= net.certificate.bound <= 1e-4


def enclosed_by_its_circuit(target, wanted, within=1e-13):
    circuit, atoms = target.circuit(), list(X.T)
    for unit in circuit.units:
        argument = at(unit.argument, atoms)
        assert unit.low - within <= argument.min() <= argument.max() <= unit.high + within  # argument is rounded
        atoms.append(unit.function(argument))
    for column, form in enumerate(circuit.outputs):
        assert at(form, atoms) == pytest.approx(wanted[:, column], rel=0, abs=within)
    return circuit


def at(form: Any, atoms: list[Any]) -> Any:
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
    logits, shares, margins = (target_of(module, output).values(X) for output in ("logits", "probabilities", "margin"))
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
        target = target_of(model.fit(X, y))
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


WAVE = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
CLASSES = np.digitize(WAVE, [0.0, 0.8])
NOISY = processes.ConstantKernel(2.0) * processes.RBF().set_params(length_scale=[0.7, 1.3]) + processes.WhiteKernel(0.1)
MIXED = processes.RationalQuadratic(alpha=1.5) + processes.DotProduct() ** 2


@pytest.mark.parametrize(
    ("model", "data"),
    [
        *((KernelRidge().set_params(kernel=kernel, alpha=0.1), WAVE) for kernel in ("rbf", "laplacian", "poly")),
        (KernelRidge().set_params(kernel="sigmoid", alpha=10.0), WAVE),
        *((SVR(kernel=kernel), WAVE) for kernel in ("rbf", "poly", "sigmoid")),
        (NuSVR().set_params(gamma=0.3), WAVE),
        (SVC(), WAVE > 0),
        (SVC(decision_function_shape="ovo"), CLASSES),
        (make_pipeline(StandardScaler(), SVC(kernel="poly", degree=2)), WAVE > 0),
        (OneClassSVM(), WAVE),
        (GaussianProcessRegressor(alpha=0.1), WAVE),
        (GaussianProcessRegressor(NOISY).set_params(optimizer=None, normalize_y=True), WAVE),
        (GaussianProcessRegressor(MIXED).set_params(optimizer=None, alpha=0.1), np.column_stack([WAVE, X[:, 0]])),
    ],
    ids=lambda part: "" if isinstance(part, np.ndarray) else str(part),
)
def test_kernel_expansions_are_enclosed_by_their_circuits(model, data):
    model.fit(X, data)
    own = getattr(model, "decision_function", model.predict)(X).reshape(len(X), -1)
    enclosed_by_its_circuit(target_of(model), own, within=1e-10)


@pytest.mark.parametrize("model", [KernelRidge().set_params(kernel="linear"), SVR(kernel="linear")], ids=str)
def test_linear_kernels_are_linear_maps(model):
    target = target_of(model.fit(X, WAVE))
    assert target.kind == "piecewise linear"
    assert target.values(X)[:, 0] == pytest.approx(model.predict(X), abs=1e-12)


def test_distances_from_many_points_share_the_squares_of_the_variables():
    model = KernelRidge().set_params(kernel="rbf", gamma=0.5, alpha=0.1).fit(X, WAVE)
    circuit = enclosed_by_its_circuit(target_of(model), model.predict(X)[:, None], within=1e-11)
    assert len(circuit.units) == 2 + len(X)
    again = (
        KernelRidge()
        .set_params(kernel="rbf", gamma=0.5, alpha=0.1)
        .fit(np.vstack([X[:5], np.zeros((1, 2))]), np.ones(6))
    )
    centred = target_of(again)  # a point at zero: its squares are those of the variables themselves
    enclosed_by_its_circuit(centred, again.predict(X)[:, None])


@pytest.mark.parametrize("model", [SVR(), GaussianProcessRegressor(alpha=0.1)], ids=str)
def test_kernel_expansions_are_compiled(model):
    model.fit(X[:12], WAVE[:12])
    net = af.compile(model, BOX, 1e-5)
    corners = np.array([[a, b] for a in (-1, 0, 1) for b in (-1, 0, 1)], dtype=float)
    points = np.vstack([X, X + 1e-9, corners])
    assert net.certificate.proved
    assert np.abs(net(points.clip(-1, 1)) - model.predict(points.clip(-1, 1))).max() <= net.certificate.bound + 1e-13


def test_what_cannot_be_read_of_kernel_expansions_is_named():
    with pytest.raises(InputError, match=r"the kernel Matern.*These can: .*RBF"):
        target_of(GaussianProcessRegressor(processes.Matern()).set_params(optimizer=None).fit(X[:5], WAVE[:5]))
    with pytest.raises(InputError, match=r"'cosine'.*These can: laplacian"):
        target_of(KernelRidge().set_params(kernel="cosine").fit(X, WAVE))
    with pytest.raises(InputError, match='decision_function_shape="ovo"'):
        target_of(SVC().fit(X, CLASSES))


@pytest.mark.parametrize("model", [SVC(), RidgeClassifier()], ids=str)
def test_classifiers_without_probabilities_say_so(model):
    model.fit(X, WAVE > 0)
    target = target_of(model, "margin")
    assert target.values(X)[:, 0] == pytest.approx(model.decision_function(X), abs=1e-12)
    with pytest.raises(InputError, match="margins only"):
        target_of(model, "probabilities")


def test_a_public_attention_network_evaluates_as_onnx_runtime_does():
    folder = os.environ.get("ATTNFUN_NETWORKS", "")
    file = Path(folder) / "self_attention_mnist.onnx"
    if not folder or not file.is_file():
        pytest.skip("set ATTNFUN_NETWORKS to a folder with self_attention_mnist.onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (port,) = session.get_inputs()
    images = np.random.default_rng(0).uniform(0, 1, (5, 28, 28)).astype(np.float32)
    target: Any = read_network(file, af.Box(np.zeros((28, 28)), np.ones((28, 28))))
    wanted = [session.run(None, {port.name: image.reshape(port.shape)})[0].ravel() for image in images]
    assert target.values(images.reshape(5, -1).astype(float)) == pytest.approx(np.array(wanted), abs=1e-5)


def read_values(model: Any, size: int, points: np.ndarray) -> np.ndarray:
    """The graph that was read, and the model itself, at points; the graph's values."""
    reading = read_graph(model, as_box([(-1.0, 1.0)] * size))
    assert reading is not None
    found = reading.graph.values(points.reshape(-1, *reading.graph.input_shape)).reshape(len(points), -1)
    assert np.allclose(found, reading.run(points), rtol=0, atol=1e-12)
    return found


class Extremes(nn.Module):
    """The larger and the smaller half."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, 6) -> (B, 6)."""
        first, second = x.chunk(2, dim=-1)
        return torch.cat([torch.maximum(first, second), torch.minimum(first, second)], dim=-1)


def image(*layers: nn.Module) -> nn.Module:
    """Layers on images of two channels."""
    return nn.Sequential(nn.Linear(3, 32), nn.Unflatten(-1, (2, 4, 4)), *layers, nn.Flatten())


COMPOSITES = {
    **{
        layer.__name__: lambda layer=layer: layer()
        for layer in (nn.SELU, nn.CELU, nn.Hardsigmoid, nn.Hardswish, nn.Mish, nn.LogSigmoid, nn.Softsign, nn.GLU)
    },
    "CELU, alpha": lambda: nn.CELU(0.3),
    "PReLU": nn.PReLU,
    "PReLU by channel": lambda: nn.PReLU(6, 0.5),
    "maximum, minimum": Extremes,
}
POOLS = {
    "MaxPool2d": lambda: nn.MaxPool2d(2),
    "overlapping": lambda: nn.MaxPool2d(3, stride=1),
    "AvgPool2d": lambda: nn.AvgPool2d((2, 3)),
    "global": lambda: nn.AdaptiveAvgPool2d(1),
}


@pytest.mark.parametrize("name", COMPOSITES | POOLS)
def test_layers_that_are_made_of_others_are_read(name):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 6), COMPOSITES[name]()) if name in COMPOSITES else image(POOLS[name]())
    points = np.random.default_rng(4).uniform(-1, 1, (20, 3))
    read_values(module.double(), 3, points)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch warns of itself
def test_exported_programs_are_read():
    torch.manual_seed(0)
    rows, batch = torch.ones(2, 3), ({0: torch.export.Dim("batch")},)
    points = np.random.default_rng(4).uniform(-1, 1, (20, 3))
    activations = (nn.SELU(), nn.Mish(), nn.GLU(), nn.PReLU(), nn.LayerNorm(6), Extremes(), nn.Softmax(-1), nn.ReLU6())
    for activation in activations:
        module = nn.Sequential(nn.Linear(3, 6), activation).eval()
        read_values(torch.export.export(module, (rows,), dynamic_shapes=batch), 3, points)


def test_windows_that_reach_beyond_the_image_are_refused():
    with pytest.raises(InputError, match=r"max_pool2d.*padding, dilation, ceil_mode"):
        read_graph(image(nn.MaxPool2d(2, padding=1)), as_box([(-1.0, 1.0)] * 3))
    with pytest.raises(InputError, match=r"windows of \(5, 5\) in \(2, 4, 4\)"):
        read_graph(image(nn.AvgPool2d(5)), as_box([(-1.0, 1.0)] * 3))


def test_names_of_operations_are_those_that_users_know():
    with pytest.raises(InputError, match="lstm") as refused:
        read_graph(nn.Sequential(nn.Linear(3, 4), nn.LSTM(4, 2)), as_box([(-1.0, 1.0)] * 3))
    assert "__" not in str(refused.value)
    assert str(refused.value).index("lstm") < str(refused.value).index("relu")  # what is wrong stands before the list


def test_names_of_estimators_are_those_that_users_know():
    rows, y = np.random.default_rng(0).uniform(-1, 1, (30, 3)), np.arange(30.0)
    with pytest.raises(InputError, match=r"got DecisionTreeRegressor. These can: .*MLPRegressor") as refused:
        read_graph(DecisionTreeRegressor().fit(rows, y), as_box([(-1.0, 1.0)] * 3))
    assert not {"Base", "Mixin", "Scaler"} & set(re.findall("Base|Mixin|Scaler", str(refused.value)))
    with pytest.raises(InputError, match=r"FunctionTransformer of sin. These can: FunctionTransformer without"):
        read_graph(make_pipeline(FunctionTransformer(np.sin), Ridge()).fit(rows, y), as_box([(-1.0, 1.0)] * 3))
    read_values(SGDRegressor(random_state=0).fit(rows, y), 3, rows)


def test_onnx_files_need_no_shape_of_the_output(tmp_path):
    onnx = pytest.importorskip("onnx")

    def written(rows: int) -> Path:
        """One linear map of three inputs, with so many rows of weights."""
        node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
        ends = [onnx.helper.make_tensor_value_info(*port) for port in (("x", 1, ["B", 3]), ("y", 1, None))]
        weights = [onnx.numpy_helper.from_array(np.ones((rows, 2), np.float32), "w")]
        graph = onnx.helper.make_graph([node], "made", ends[:1], ends[1:], weights)
        onnx.save(onnx.helper.make_model(graph), tmp_path / "f.onnx")
        return tmp_path / "f.onnx"

    reading = read_graph(written(3), as_box([(-1.0, 1.0)] * 3))
    assert reading is not None
    assert (reading.graph.values(np.eye(3)) == 1.0).all()
    with pytest.raises(FileFormatError, match=r"MatMul.*Incompatible dimensions"):
        read_graph(written(4), as_box([(-1.0, 1.0)] * 3))


ONNX_NODES = {
    "Selu": {},
    "Celu": {"alpha": 0.5},
    "HardSigmoid": {"alpha": 0.3},
    "HardSwish": {},
    "Mish": {},
    "Softsign": {},
    "GlobalMaxPool": {},
    "GlobalAveragePool": {},
    "MaxPool": {"kernel_shape": [2], "strides": [2]},
    "AveragePool": {"kernel_shape": [3]},
}


@pytest.mark.parametrize("kind", [*ONNX_NODES, "Max", "Min", "Sum", "PRelu"])
def test_onnx_nodes_that_are_made_of_others_are_read(kind, tmp_path):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    second = {"PRelu": [np.float32([0.5, 0.0, 2.0, -1.0])]}.get(kind, [])
    names = ["t", *(["t2", "c"] if kind in ("Max", "Min", "Sum") else []), *(["c"] if second else [])]
    constants: dict[str, Any] = {
        "s": np.array([0, 1, 4]),
        "flat": np.array([0, -1]),
        "c": np.float32([0.1, 0.2, -0.3, 0.0]),
        "k": np.float32(-2),
    }
    constants.update(zip("c", second, strict=False))
    nodes = [
        onnx.helper.make_node("Reshape", ["x", "s"], ["t"]),
        onnx.helper.make_node("Mul", ["t", "k"], ["t2"]),
        onnx.helper.make_node(kind, names, ["z"], **ONNX_NODES.get(kind, {})),
        onnx.helper.make_node("Reshape", ["z", "flat"], ["y"]),
    ]
    port = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "made",
        [port("x", onnx.TensorProto.FLOAT, ["B", 4])],
        [port("y", onnx.TensorProto.FLOAT, ["B", None])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "f.onnx")
    points = np.random.default_rng(4).uniform(-1, 1, (9, 4)).astype(np.float32)
    reading = read_graph(tmp_path / "f.onnx", as_box([(-1.0, 1.0)] * 4))
    assert reading is not None
    session = runtime.InferenceSession(tmp_path / "f.onnx", providers=["CPUExecutionProvider"])
    assert np.allclose(reading.graph.values(points.astype(float)), session.run(None, {"x": points})[0], atol=1e-5)


def test_transformers_of_columns_and_of_the_target_are_read():
    rng = np.random.default_rng(5)
    rows = rng.uniform(-1, 1, (40, 3))
    y = rows @ [1.0, -2.0, 0.5] + rows[:, 0] ** 2
    columns = ColumnTransformer(
        [("s", make_pipeline(SimpleImputer(), StandardScaler()), slice(1, 3)), ("p", PolynomialFeatures(2), [0])],
        remainder="passthrough",
    )
    kept = ColumnTransformer(
        [("m", MinMaxScaler(), [False, True, False]), ("none", "drop", [0])], remainder="passthrough"
    )
    union = FeatureUnion([("a", StandardScaler()), ("b", "passthrough")], transformer_weights={"a": 2.0})
    for model in (
        make_pipeline(columns, Ridge()),
        make_pipeline(kept, Ridge()),
        make_pipeline(union, TruncatedSVD(2), Ridge()),
        *(
            TransformedTargetRegressor(Ridge(), transformer=scaler)
            for scaler in (StandardScaler(), MinMaxScaler(), None)
        ),
    ):
        read_values(model.fit(rows, y), 3, rng.uniform(-1, 1, (9, 3)))
    with pytest.raises(InputError, match="QuantileTransformer"):
        read_graph(make_pipeline(QuantileTransformer(n_quantiles=5), Ridge()).fit(rows, y), as_box([(-1.0, 1.0)] * 3))


def trained(inputs: int) -> nn.Module:
    """A rectifier network, compiled, exported and trained for one step."""
    torch.manual_seed(0)
    given = nn.Sequential(nn.Linear(inputs, 1), nn.ReLU(), nn.Linear(1, 1))
    module = af.compile(given, [(-1, 1)] * inputs, 1e-3).to_torch()  # one head, and others that are zero
    descent = torch.optim.Adam(module.parameters(), 1e-2)
    (module(torch.rand(8, inputs, dtype=torch.float64)) ** 2).mean().backward()
    descent.step()
    return module


@pytest.mark.parametrize("inputs", [1, 2])  # with two, ranges on the way reach 1e284
def test_exported_modules_are_compiled_again_after_training(inputs):
    module, points = trained(inputs), np.random.default_rng(0).uniform(-1, 1, (50, inputs))
    again = af.compile(module, [(-1, 1)] * inputs, 0.2)
    assert again.certificate.proved
    with torch.no_grad():
        assert np.abs(again(points) - module(torch.tensor(points)).numpy()).max() <= again.certificate.bound


def test_what_of_a_classifier_is_compiled_makes_sense_for_classifiers_only():
    with pytest.raises(af.errors.InputError, match="output= must be for a classifier"):
        af.compile("x", {"x": (0, 1)}, 0.1, output="logits")
