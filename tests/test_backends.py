"""Conformance: every back end computes what the reference says, for every construction and for random layers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax
import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import attnfun as af
from attack import inputs_of
from attnfun.arithmetic.formats import FORMATS, round_to
from attnfun.network import Affine, Network, Softmax
from attnfun.network.reference import run as reference
from attnfun.runtime.backends import dense
from attnfun.runtime.backends import numpy as numpy_backend
from attnfun.runtime.backends import onnx as onnx_backend
from attnfun.runtime.backends.jax import to_jax
from attnfun.runtime.backends.standalone import torch_model
from attnfun.runtime.backends.torch import to_torch
from attnfun.runtime.kernels import Evaluator
from cases import CASES, TYPICAL
from test_network import random_attention

Run = Callable[[Network, np.ndarray], np.ndarray]


def apart(network: Network, X: np.ndarray) -> tuple[list[np.ndarray], list[tuple[int, ...]]]:
    """The sequences, or the two inputs of a network that has two, and their shapes."""
    if not network.keyed:
        return [X], [network.shape_in]
    first = network.width_in - len(network.attention[0].keyed)
    parts = [X[:, 0, :first], X[:, 0, first:]]
    return parts, [part.shape[1:] for part in parts]


def run_torch(network: Network, X: np.ndarray) -> np.ndarray:
    given, (shape, *second) = apart(network, X)
    module = to_torch(network, shape, network.shape_out, *second)
    with torch.no_grad():
        return module(*(torch.tensor(part, dtype=getattr(torch, network.dtype)) for part in given)).double().numpy()


def run_jax(network: Network, X: np.ndarray) -> np.ndarray:
    given, (shape, *second) = apart(network, X)
    with jax.enable_x64(network.dtype == "float64"):
        apply, weights = to_jax(network, shape, network.shape_out, *second)
        return np.asarray(jax.jit(apply)(weights, *given))


def run_onnx(network: Network, X: np.ndarray, attention: str = "decomposed") -> np.ndarray:
    given, (shape, *second) = apart(network, X)
    names = ("points", "second")[: len(given)]
    model = onnx_backend.to_onnx(network, shape, network.shape_out, {}, attention, *second, names=names)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {name: part.astype(network.dtype) for name, part in zip(names, given, strict=True)}
    return session.run(["values"], feed)[0]


def run_kernels(network: Network, X: np.ndarray) -> np.ndarray:
    """Fast evaluation that may leave out nothing."""
    return Evaluator(network, af.Box(X.min(axis=0) - 1, X.max(axis=0) + 1))(X)


BACKENDS: dict[str, Run] = {
    "numpy": numpy_backend.run,
    "kernels": run_kernels,
    "torch": run_torch,
    "onnx": run_onnx,
    "onnx operator": partial(run_onnx, attention="operator"),
    "jax": run_jax,
}
SLOW = {("jax", "float64"), ("onnx operator", "float64"), ("onnx operator", "float32")}
"""These take a second to compile a network; JAX in float32 is run in `test_exports.py`."""
AGREEMENTS = [
    pytest.param(case, dtype, name, id=f"{case}-{dtype}-{name}")
    for case in CASES
    for dtype in dict.fromkeys(map(case.fitting, ("float64", "float32") if case in TYPICAL else ("float64",)))
    for name in BACKENDS
    if name not in ("jax", "onnx operator") or (case in TYPICAL and (name, dtype) in SLOW)
]


@pytest.mark.parametrize(("case", "dtype", "name"), AGREEMENTS)
def test_agrees_with_the_reference_within_the_rounding_part(case, dtype, name, compiled):
    net = compiled(case, dtype)
    if net.certificate.status is af.types.Status.ESTIMATED and callable(case.target):
        net = af.compile(case.target, case.domain, case.eps, dtype=dtype, lipschitz=3.0)
    rows = net.domain.sample(200, np.random.default_rng(1)).astype(dtype).astype(np.float64)
    X = rows.reshape(len(rows), *net.network.shape_in)
    size = 1 + np.abs(reference(net.network, X)).max()
    slack = 1e-11 * size  # the reference is itself rounded to float64
    off = np.abs(BACKENDS[name](net.network, X) - reference(net.network, X)).max()
    rounding = net.certificate.parts.get("rounding", 1000 * np.finfo(dtype).eps * size)  # estimates have none
    assert off <= rounding + (slack if net.network.dtype == "float64" else 0.0)


STORED = [name for name, each in FORMATS.items() if each.store]
QUICK = ("knots", "truncated-linear", "max-affine", "circuit", "subspace")
"""Constructions that are quick to miss a tolerance, too."""


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("case", [case for case in TYPICAL if case.constructions[0] in QUICK], ids=str)
def test_constructions_know_coarsely_stored_formats(case, dtype):
    try:
        net = replace(case, eps=max(case.eps or 0.0, 0.3)).compile(dtype=dtype, construction=case.constructions[0])
    except af.errors.ToleranceNotMet as missed:
        net = missed.best
    X = round_to(net.domain.sample(200, np.random.default_rng(1)), dtype).reshape(-1, *net.network.shape_in)
    exact, numpy_has_it = reference(net.network, X), hasattr(np, dtype)
    size = np.abs(exact).max() + 1
    rounding = net.certificate.parts.get("rounding", 20 * FORMATS[dtype].grain * size)  # estimates have none
    for name in ("numpy", "kernels", "torch", *(("onnx",) if numpy_has_it else ())):
        assert np.abs(BACKENDS[name](net.network, X) - exact).max() <= rounding, name


RANDOM = {
    "self": Network((random_attention(),), 4),
    "cross": Network((random_attention(attends_data=False),), 4),
    "residual": Network((random_attention(out=3, residual=True), random_attention(out=3, seed=5)), 4),
    "no memory": Network((random_attention(memory=0),), 4),
    "one token": Network((random_attention(),), 1),
    "mixing tokens": Network(
        (Affine(np.ones((2, 3, 2)), np.ones((5, 2)), np.random.default_rng(0).normal(size=(2, 5, 4))), Softmax(2)), 4
    ),
    "many heads": Network(
        (random_attention(heads=5, width=3, out=20), Affine.tokenwise(np.ones((20, 1)), np.ones(1))), 4
    ),
}


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize("name", RANDOM)
def test_random_layers(name, backend):
    network = RANDOM[name]
    X = np.random.default_rng(2).normal(size=(6, *network.shape_in))
    assert np.allclose(backend(network, X), reference(network, X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", RANDOM)
def test_a_torch_module_without_gradients_leaves_out_padding_unless_it_is_watched(name, monkeypatch):
    network = RANDOM[name]
    module = to_torch(network, network.shape_in, network.shape_out)
    points = torch.tensor(np.random.default_rng(2).normal(size=(70, *network.shape_in)))
    stock, seen = module(points), []
    assert stock.requires_grad
    with torch.no_grad():
        quick = module(points)
        monkeypatch.setattr(torch_model, "BLOCK", 64 * 40)
        assert torch.allclose(module(points), quick, rtol=0, atol=1e-12)  # a few tokens at a time
        for layer in module.layers:
            if isinstance(layer, torch_model.MemoryAttention):
                layer.attention.register_forward_hook(lambda *_: seen.append(1))
        watched = module(points)
    assert len(seen) == len(network.attention)
    assert torch.allclose(watched, stock, rtol=0, atol=1e-12)
    assert torch.allclose(quick, stock, rtol=0, atol=1e-12)
    assert module(points[:0]).shape == (0, *network.shape_out)


@pytest.mark.parametrize("name", RANDOM)
def test_a_torch_module_that_was_trained_is_the_same_without_gradients(name):
    """Training may fill what was padding."""
    network = RANDOM[name]
    points = torch.tensor(np.random.default_rng(2).normal(size=(5, *network.shape_in)))
    for place in (
        "attention.out_proj.weight",
        "attention.in_proj_weight",
        "attention.q_proj_weight",
        "attention.in_proj_bias",
    ):
        module = to_torch(network, network.shape_in, network.shape_out)
        for parameter_name, parameter in module.named_parameters():
            if parameter_name.endswith((place, "attention.k_proj_weight", "attention.v_proj_weight")):
                parameter.data += 0.1
        with torch.no_grad():
            without = module(points)
        assert torch.allclose(without, module(points), rtol=0, atol=1e-12)


def test_one_point_or_many_makes_no_difference(case, compiled):
    net = compiled(case)
    points = net.domain.unflatten(net.domain.sample(37, np.random.default_rng(3)))
    together = net(points)
    assert all(np.array_equal(together[i], np.reshape(net(point), net.output_shape)) for i, point in enumerate(points))


def test_the_torch_module_is_stock_and_trainable(compiled, case):
    net = compiled(case)
    module = net.to_torch()
    inner = {type(part) for part in module.modules() if not list(part.children())}
    allowed = {torch.nn.Linear, torch.nn.Flatten, torch.nn.Unflatten, torch.nn.Softmax}
    assert all(kind in allowed or issubclass(kind, torch.nn.Linear) for kind in inner)
    assert any(isinstance(part, torch.nn.MultiheadAttention) for part in module.modules())
    rows = net.domain.sample(5, np.random.default_rng(0))
    given = [torch.tensor(points, requires_grad=True) for points in inputs_of(net, rows).values()]
    module(*given).sum().backward()
    assert all(points.grad is not None for points in given)
    assert all(parameter.requires_grad for parameter in module.parameters())
    state = module.state_dict()
    assert all(tensor.dtype == torch.float64 for tensor in state.values())


STANDARD = {"MatMul", "Mul", "Add", "ReduceSum", "Softmax", "Concat", "Split", "Reshape", "Transpose"}
STANDARD |= {"ReduceMax", "Sub", "Exp", "Div"}
OPERATOR = {"Attention", "MatMul", "Add", "Softmax", "Concat", "Reshape", "Transpose", "Shape", "Expand"}


@pytest.mark.parametrize("case", TYPICAL, ids=str)
def test_an_onnx_file_has_the_users_shapes_and_says_what_is_proved(case, compiled, tmp_path):
    net, path = compiled(case, case.fitting("float32")), tmp_path / "f.onnx"
    net.to_onnx(path)
    model = onnx.load(path)
    assert {node.op_type for node in model.graph.node} <= STANDARD
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    said = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(said["domain"]) == net.domain.as_dict()
    assert json.loads(said["certificate"]) == net.certificate.as_dict()
    assert said["attnfun"] == af.__version__
    assert json.loads(said["variables"]) == list(net.domain.axes)
    assert said["dtype"] == net.network.dtype
    assert net.certificate.headline in said["summary"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (points,), (values,) = session.get_inputs(), session.get_outputs()
    assert (points.name, points.shape) == ("points", ["batch", *net.domain.shape])
    assert (values.name, values.shape) == ("values", ["batch", *net.output_shape])
    for count in (0, 1, 7):
        rows = net.domain.unflatten(net.domain.sample(count, np.random.default_rng(0))).astype(net.network.dtype)
        (result,) = session.run(None, {"points": rows})
        assert result.shape == (count, *net.output_shape)
        assert result.dtype == net.network.dtype


@pytest.mark.parametrize("attention", ["decomposed", "operator"])
@pytest.mark.parametrize("name", RANDOM)
def test_onnx_takes_an_empty_batch(name, attention):
    network = RANDOM[name]
    assert run_onnx(network, np.zeros((0, *network.shape_in)), attention).shape == (0, *network.shape_out)


@pytest.mark.parametrize("name", RANDOM)
def test_the_attention_operator_does_all_of_attention(name):
    network = RANDOM[name]
    model = onnx_backend.to_onnx(network, network.shape_in, network.shape_out, {}, "operator")
    used = [node.op_type for node in model.graph.node]
    assert set(used) <= OPERATOR
    assert used.count("Attention") == len(network.attention)
    assert used.count("Softmax") == sum(isinstance(layer, Softmax) for layer in network.layers)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 23)]
    assert {weight.name for weight in model.graph.initializer} <= {name for n in model.graph.node for name in n.input}


def test_an_onnx_file_runs_without_attnfun(compiled, tmp_path):
    net = compiled(CASES[1])
    net.to_onnx(tmp_path / "f.onnx")
    code = (
        "import sys; sys.modules['attnfun'] = None; import numpy as np, onnxruntime\n"
        "session = onnxruntime.InferenceSession(sys.argv[1])\n"
        "print(*session.run(None, {'points': np.array([[0.1, 0.2], [-0.5, 0.9]])})[0])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "f.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert np.allclose([float(word) for word in done.stdout.split()], net([[0.1, 0.2], [-0.5, 0.9]]), rtol=1e-12)


def test_onnx_projects_the_memory_beforehand_only_where_that_is_exact(compiled):
    def weights(network: Network) -> set[str]:
        model = onnx_backend.to_onnx(network, network.shape_in, network.shape_out, {})
        return {tensor.name for tensor in model.graph.initializer}

    beforehand = {"layers.1.memory_key", "layers.1.memory_value"}
    assert beforehand <= weights(compiled(CASES[1]).network)
    assert "layers.1.memory" not in weights(compiled(CASES[1]).network)
    assert {"layers.0.memory", "layers.0.key", "layers.0.value"} <= weights(RANDOM["cross"])


def test_an_export_that_would_be_too_large_is_refused_with_its_size(compiled, monkeypatch, tmp_path):
    monkeypatch.setattr(dense, "LARGEST", 100)
    net = compiled(CASES[1])
    made = {"torch": net.to_torch, "jax": net.to_jax}
    for target in ("onnx", "torch", "jax"):
        with pytest.raises(af.errors.InputError, match=r"at most 100 bytes in their dense form; got [\d,]{3,} bytes"):
            net.export(tmp_path / f"f.{'onnx' if target == 'onnx' else 'py'}", target)
        with pytest.raises(af.errors.InputError, match="bytes"):
            made.get(target, lambda: net.to_onnx(tmp_path / "f.onnx"))()
    assert not list(tmp_path.iterdir())


def test_an_export_is_measured_before_it_is_made():
    """A map of 3000 tokens whose dense form would take 18 terabytes."""
    ones = np.ones((1, 3000, 3000))
    wide = Affine(np.ones((1, 1, 500)), np.zeros((3000, 500)), ones)
    network = Network((wide, Affine(np.ones((1, 500, 500)), np.zeros((3000, 500)), ones)), 3000)
    for run in (run_torch, run_onnx, run_jax):
        with pytest.raises(af.errors.InputError, match=r"got 18,0\d\d,\d\d\d,\d\d\d,\d\d\d bytes"):
            run(network, np.zeros((1, 3000, 1)))


def test_no_half_onnx_file_is_left(compiled, tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(af.errors.FileFormatError, match="taken must be the name of a file"):
        compiled(CASES[1]).to_onnx(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_the_plain_install_does_not_import_heavy_packages():
    code = (
        "import sys, attnfun as af; early = 'scipy' in sys.modules; af.compile('sin(x)', (0, 1), 0.1)(0.5);"
        "late = {'torch', 'onnx', 'jax', 'transformer_lens', 'matplotlib', 'plotly', 'gradio', 'typer'}; "
        "print(early, late & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False set()"


def test_missing_frameworks_are_named_with_the_remedy():
    calls = {
        "torch": "net.to_torch()",
        "onnx": "net.to_onnx('f.onnx')",
        "jax": "net.to_jax()",
        "lens": "net.to_transformer_lens()",
        "hf": "net.to_huggingface()",
    }
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name in ('torch', 'onnx', 'jax', 'transformer_lens', 'transformers'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent()); import attnfun as af\n"
        "net = af.compile('sin(x)', (0, 1), 0.1)\n"
    ) + "".join(f"try: {call}\nexcept af.errors.MissingExtra as error: print(error)\n" for call in calls.values())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert [f"pip install 'attnfun[{extra}]'" in line for extra, line in zip(calls, said, strict=True)] == [True] * 5


def test_no_export_is_written_under_the_name_of_another_format(compiled, tmp_path):
    net = compiled(CASES[1])
    for write in (net.to_onnx, net.report, lambda path: net.export(path, "onnx")):
        with pytest.raises(af.errors.InputError, match=r"must end in \.(onnx|html); got .*f\.pt"):
            write(tmp_path / "f.pt")
    assert not list(tmp_path.iterdir())
