"""Networks that people have: thirty small architectures, read, compiled, and run beside the original.

    python benchmarks/readers.py                     # all of it, a few minutes
    python benchmarks/readers.py --only lstm         # those whose name holds a word, printed and not written
    python benchmarks/readers.py --networks DIR      # also the public files acasxu_*.onnx and self_attention_mnist.onnx

Each is built in PyTorch, scikit-learn or ONNX with random weights, compiled at 1e-5 on [-1, 1]^d, and evaluated at
1,000 points. Writes benchmarks/results/readers.md: status or the reason, sizes, seconds of the processor, and the times
of `net(x)` and of the network in PyTorch and in ONNX Runtime over the time of the original, in the same run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVR
from torch import nn

import attnfun as af
from attnfun.resources.deadline import Deadline
from attnfun.targets.readers import read_graph

RESULTS = Path(__file__).parent / "results"
EPS, LIMIT, POINTS = 1e-5, 60.0, 1000
"""The tolerance; seconds of the processor for one network; points of evaluation."""


@dataclass(frozen=True)
class Original:
    """What is compiled, in how many variables, and how its framework runs it: (B, d) -> (B, ...)."""

    what: Any
    variables: int
    run: Callable[[np.ndarray], np.ndarray]
    output: str | None = None


def of_torch(*layers: nn.Module, variables: int = 4) -> Original:
    """A sequence of modules in float64."""
    module = nn.Sequential(*layers).double().eval()

    def run(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return module(torch.tensor(X)).numpy()

    return Original(module, variables, run)


class Residual(nn.Module):
    """x + f(x)."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One token or many."""
        return x + self.inner(x)


class Attends(nn.Module):
    """Self-attention over tokens of some width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, n, d) -> (B, n, d)."""
        return self.attention(x, x, x, need_weights=False)[0]


def tokens(count: int, width: int) -> nn.Module:
    """Points as sequences."""
    return nn.Unflatten(-1, (count, width))


def of_sklearn(model: Any, *, labels: bool = False, variables: int = 3) -> Original:
    """Fitted to a function of random rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, variables))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, -1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y > 0 if labels else y)
    return Original(
        model, variables, model.predict_proba if labels else model.predict, "probabilities" if labels else None
    )


def of_onnx(nodes: list[Any], numbers: dict[str, np.ndarray], variables: int, ends: list[int]) -> Original:
    """A graph from `x` to `y` in an ONNX file."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", *shape]) for name, shape in
             (("x", [variables]), ("y", ends))]  # fmt: skip
    constants = [numpy_helper.from_array(array, name) for name, array in numbers.items()]
    graph = helper.make_graph(nodes, "given", [ports[0]], [ports[1]], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    with tempfile.NamedTemporaryFile(suffix=".onnx", delete=False) as file:
        file.write(model.SerializeToString())
    session = session_of(file.name)
    return Original(file.name, variables, lambda X: np.asarray(session.run(["y"], {"x": X.astype(np.float32)})[0]))


def weights(*shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Random numbers called w0, w1, ..."""
    rng = np.random.default_rng(1)
    return {f"w{k}": (rng.normal(size=shape) / shape[0] ** 0.5).astype(np.float32) for k, shape in enumerate(shapes)}


def node(operation: str, inputs: str, output: str, **attributes: Any) -> Any:
    """A node with the names of its inputs in one string."""
    return helper.make_node(operation, inputs.split(), [output], **attributes)


def mlp(*activations: nn.Module, width: int = 4, inner: int = 8, outputs: int = 1) -> list[nn.Module]:
    """Linear maps with activations between them."""
    layers: list[nn.Module] = [nn.Linear(width, inner)]
    for k, activation in enumerate(activations):
        layers += [activation, nn.Linear(inner, outputs if k == len(activations) - 1 else inner)]
    return layers


def onnx_mlp(activation: str, **attributes: Any) -> Original:
    """Gemm, an activation, MatMul and Add."""
    nodes = [
        node("Gemm", "x w0 w1", "a", alpha=0.5),
        node(activation, "a", "b", **attributes),
        node("MatMul", "b w2", "c"),
        node("Add", "c w3", "y"),
    ]
    return of_onnx(nodes, weights((4, 6), (6,), (6, 2), (2,)), 4, [2])


def onnx_scaled() -> Original:
    """Constant scaling around a rectifier layer, as in exported controllers."""
    nodes = [
        node("Sub", "x w0", "a"),
        node("Div", "a w1", "b"),
        node("MatMul", "b w2", "c"),
        node("Relu", "c", "d"),
        node("MatMul", "d w3", "e"),
        node("Mul", "e w4", "y"),
    ]
    numbers = weights((3,), (3,), (3, 6), (6, 1), (1,))
    return of_onnx(nodes, numbers | {"w1": np.array([0.5, 2.0, 3.0], np.float32)}, 3, [1])


def onnx_images() -> Original:
    """A convolution of small images."""
    nodes = [
        node("Reshape", "x shape", "a"),
        node("Conv", "a w0 w1", "b", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "b", "c"),
        node("Flatten", "c", "d"),
        node("Gemm", "d w2", "y"),
    ]
    numbers = weights((2, 1, 3, 3), (2,), (32, 1)) | {"shape": np.array([-1, 1, 4, 4])}
    return of_onnx(nodes, numbers, 16, [1])


def onnx_normalised() -> Original:
    """LayerNormalization between linear maps, then Softmax."""
    nodes = [
        node("MatMul", "x w0", "a"),
        node("LayerNormalization", "a scale shift", "b", axis=-1),
        node("MatMul", "b w1", "c"),
        node("Softmax", "c", "y", axis=-1),
    ]
    numbers = weights((3, 4), (4, 3)) | {"scale": np.ones(4, np.float32), "shift": np.zeros(4, np.float32)}
    return of_onnx(nodes, numbers, 3, [3])


NETWORKS: dict[str, tuple[str, Callable[[], Original]]] = {
    "4-8-8-1, ReLU": ("PyTorch", lambda: of_torch(*mlp(nn.ReLU(), nn.ReLU()))),
    "20-64-10, ReLU": ("PyTorch", lambda: of_torch(*mlp(nn.ReLU(), width=20, inner=64, outputs=10), variables=20)),
    "LeakyReLU, ReLU6, Hardtanh": ("PyTorch", lambda: of_torch(*mlp(nn.LeakyReLU(), nn.ReLU6(), nn.Hardtanh()))),
    "tanh": ("PyTorch", lambda: of_torch(*mlp(nn.Tanh()))),
    "two layers of tanh": ("PyTorch", lambda: of_torch(*mlp(nn.Tanh(), nn.Tanh(), inner=5))),
    "sigmoid": ("PyTorch", lambda: of_torch(*mlp(nn.Sigmoid()), nn.Sigmoid())),
    "GELU": ("PyTorch", lambda: of_torch(*mlp(nn.GELU()))),
    "SiLU": ("PyTorch", lambda: of_torch(*mlp(nn.SiLU()))),
    "softplus, ELU": ("PyTorch", lambda: of_torch(*mlp(nn.Softplus(), nn.ELU(), inner=4))),
    "softmax at the end": ("PyTorch", lambda: of_torch(*mlp(nn.ReLU(), outputs=3), nn.Softmax(-1))),
    "BatchNorm, Dropout": (
        "PyTorch",
        lambda: of_torch(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1)),
    ),
    "LayerNorm": ("PyTorch", lambda: of_torch(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 1))),
    "residual sum": ("PyTorch", lambda: of_torch(Residual(nn.Sequential(*mlp(nn.ReLU(), outputs=4))), nn.Linear(4, 1))),
    "self-attention": ("PyTorch", lambda: of_torch(tokens(2, 2), Attends(2, 1), nn.Flatten(), nn.Linear(4, 1))),
    "transformer block": (
        "PyTorch",
        lambda: of_torch(
            tokens(2, 2),
            Residual(Attends(2, 1)),
            nn.LayerNorm(2),
            Residual(nn.Sequential(*mlp(nn.ReLU(), width=2, inner=3, outputs=2))),
            nn.Flatten(),
            nn.Linear(4, 1),
        ),
    ),
    "linear regression": ("scikit-learn", lambda: of_sklearn(make_pipeline(StandardScaler(), LinearRegression()))),
    "ridge, lasso scaled": ("scikit-learn", lambda: of_sklearn(make_pipeline(MinMaxScaler(), Lasso(0.01)))),
    "logistic regression": ("scikit-learn", lambda: of_sklearn(LogisticRegression(), labels=True)),
    "MLP, ReLU": (
        "scikit-learn",
        lambda: of_sklearn(make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(8, 8), random_state=0))),
    ),
    "MLP, tanh": (
        "scikit-learn",
        lambda: of_sklearn(
            make_pipeline(RobustScaler(), MLPRegressor(hidden_layer_sizes=(5,), activation="tanh", random_state=0))
        ),
    ),
    "MLP classifier": (
        "scikit-learn",
        lambda: of_sklearn(
            make_pipeline(MaxAbsScaler(), MLPClassifier(hidden_layer_sizes=(6,), random_state=0)), labels=True
        ),
    ),
    "kernel ridge": ("scikit-learn", lambda: of_sklearn(KernelRidge().set_params(kernel="rbf", gamma=0.5, alpha=0.1))),
    "PCA and ridge": ("scikit-learn", lambda: of_sklearn(make_pipeline(PCA(2), Ridge()), variables=6)),
    "support vectors": ("scikit-learn", lambda: of_sklearn(SVR().set_params(gamma=0.5))),
    "Gaussian process": ("scikit-learn", lambda: of_sklearn(GaussianProcessRegressor(alpha=0.1))),
    "Gemm, Relu": ("ONNX", lambda: onnx_mlp("Relu")),
    "Gemm, Tanh": ("ONNX", lambda: onnx_mlp("Tanh")),
    "Sub, Div, MatMul, Mul": ("ONNX", onnx_scaled),
    "Conv, Flatten": ("ONNX", onnx_images),
    "LayerNormalization, Softmax": ("ONNX", onnx_normalised),
}


@dataclass(frozen=True)
class Row:
    """What became of a network."""

    status: str
    what: str
    seconds: float
    ratios: tuple[float, ...] = ()
    """The times of `net(x)`, in PyTorch and in ONNX Runtime, over that of the original."""


def lasting(run: Callable[[np.ndarray], Any], X: np.ndarray) -> float:
    """Processor seconds of the shortest of twenty runs, after one that may compile; other work does not count."""
    run(X)
    times = []
    for _ in range(20):
        start = time.process_time()
        run(X)
        times.append(time.process_time() - start)
    return min(times)


def tried(build: Callable[[], Original]) -> Row:
    """Compile one and compare it with the original, at points and in time."""
    torch.manual_seed(0)
    original = build()
    X = np.random.default_rng(2).uniform(-1, 1, (POINTS, original.variables)).astype(np.float32).astype(np.float64)
    box, start = [(-1, 1)] * original.variables, time.process_time()
    limit = Deadline.after(LIMIT, time.process_time)
    try:
        net = af.compile(original.what, box, EPS, time_limit=limit, output=original.output)
    except af.errors.AttnfunError as reason:
        return Row("none", str(reason).replace("\n", " ")[:240], time.process_time() - start)
    seconds = time.process_time() - start
    theirs = np.asarray(original.run(X), dtype=np.float64).reshape(POINTS, -1)
    ours = net(X).reshape(POINTS, -1)
    off = np.abs(ours - theirs[:, -ours.shape[1] :]).max()  # of two classes, ours has the second
    layers = len(net.network.attention)
    what = f"{net.construction}, {net.network.tokens} tokens, {layers} layers, bound {net.certificate.bound:.2g}"
    if off > net.certificate.bound + 1e-5:  # the original may run in float32
        what = f"DIFFERS by {off:.2g}: {what}"
    base = lasting(original.run, X)
    ratios = tuple(lasting(run, X) / base for run in (net, *exported(net)))
    return Row(net.certificate.status.value, what, seconds, ratios)


def session_of(file: Path | str) -> Any:
    """A file in ONNX Runtime on one thread, as PyTorch is."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def exported(net: Any) -> Iterator[Callable[[np.ndarray], Any]]:
    """A compiled network in PyTorch and in ONNX Runtime."""
    module = net.to_torch()

    def torched(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return module(torch.tensor(X)).numpy()

    yield torched
    with tempfile.TemporaryDirectory() as folder:
        net.to_onnx(Path(folder) / "net.onnx")
        session = session_of(Path(folder) / "net.onnx")
    yield lambda X: session.run(None, {"points": X})


def public(folder: Path) -> Iterator[str]:
    """The public networks: rectifier networks compiled, attention evaluated."""
    yield "\n## Public networks\n"
    yield "ACAS Xu from their ONNX files on the whole input box [-0.5, 0.5]^5, compiled at 1e-6: 5 inputs, six rectifier layers of 50.\n"  # noqa: E501
    yield "| file | status | bound | heads | off at 1,000 points | processor seconds | `net(x)` | PyTorch | ONNX Runtime |"  # noqa: E501
    yield "|---|---|---|---|---|---|---|---|---|"
    X = np.random.default_rng(3).uniform(-0.5, 0.5, (POINTS, 5)).astype(np.float32).astype(np.float64)
    for file in sorted(folder.glob("acasxu_?_?.onnx")):
        session, start = session_of(file), time.process_time()
        net = af.compile(file, [(-0.5, 0.5)] * 5, 1e-6)
        seconds, (port,) = time.process_time() - start, session.get_inputs()
        rows = X.astype(np.float32).reshape(-1, *port.shape[1:])

        def run(rows: np.ndarray, session: Any = session, name: str = port.name) -> np.ndarray:
            return np.concatenate([np.asarray(session.run(None, {name: row[None]})[0]) for row in rows])

        off, base = np.abs(net(X) - run(rows).reshape(POINTS, -1)).max(), lasting(run, rows)
        ratios = " | ".join(f"{lasting(each, X) / base:.3g}" for each in (net, *exported(net)))
        yield f"| `{file.name}` | {net.certificate.status.value} | {net.certificate.bound:.2g} | {net.network.heads} | {off:.2g} | {seconds:.1f} | {ratios} |"  # noqa: E501
    yield "\nThe files take one point a call, and so does the original here, in float32, which is what it is off by: the last three columns are times of 1,000 points over that."  # noqa: E501
    file, rng = folder / "self_attention_mnist.onnx", np.random.default_rng(0)
    images = rng.uniform(0, 1, (20, 784)).astype(np.float32)
    reading = read_graph(file, af.Box(np.zeros((28, 28)), np.ones((28, 28))))
    assert reading is not None  # noqa: S101 - it is a network
    graph = reading.graph
    session = session_of(file)
    (port,) = session.get_inputs()
    shape = [1 if isinstance(size, str) else size for size in port.shape]
    theirs = [np.ravel(session.run(None, {port.name: image.reshape(shape)})[0]) for image in images]
    ours = graph.values(images.reshape(-1, *graph.input_shape).astype(np.float64)).reshape(20, -1)
    yield f"\n`{file.name}` is read: at 20 random images its graph in float64 is within {np.abs(ours - theirs).max():.2g} of ONNX Runtime in float32."  # noqa: E501


def main() -> None:
    """Run the networks and write the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--only", default="")
    options.add_argument("--networks", type=Path, help="a folder with the public networks")
    chosen = options.parse_args()
    only = chosen.only.lower()
    torch.set_num_threads(1)
    rows: dict[str, Row] = {}
    for name, (framework, build) in NETWORKS.items():
        if only in f"{name} {framework}".lower():
            row = rows[name] = tried(build)
            times = "".join(f", {ratio:.3g}" for ratio in row.ratios)
            sys.stdout.write(f"{row.seconds:7.2f} s  {row.status:8} {framework} {name}: {row.what}{times}\n")
            sys.stdout.flush()
    if only:
        return
    proved = sum(row.status == "proved" for row in rows.values())
    lines = [
        "# Networks that people have",
        "",
        f"{len(rows)} architectures with random weights, compiled at {EPS:g} on [-1, 1]^d; {proved} proved. The last",
        f"columns are processor times at {POINTS} points over those of the original in its framework, on one thread.",
        "",
        "| framework | network | status | construction, size, bound, or reason | processor seconds | `net(x)` | PyTorch | ONNX Runtime |",  # noqa: E501
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {NETWORKS[name][0]} | {name} | {row.status} | {row.what} | {row.seconds:.1f} |"
            + "".join(f" {ratio:.3g} |" for ratio in row.ratios)
            if row.ratios
            else "  |  |  |"
            for name, row in rows.items()
        ),
    ]
    within = [sum(row.ratios[k] <= most for row in rows.values() if row.ratios) for k, most in enumerate((5, 20, 20))]
    lines.append(
        f"\n`net(x)` is within 5 times the original for {within[0]}, PyTorch within 20 times for {within[1]}, ONNX Runtime for {within[2]}."  # noqa: E501
    )
    if chosen.networks is None:
        sys.stderr.write("left out: the public networks; name their folder with --networks\n")
    else:
        lines += public(chosen.networks)
    (RESULTS / "readers.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
