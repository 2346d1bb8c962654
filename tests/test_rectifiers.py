"""`af.rectifiers`: what it makes of functions, that its bound holds as deployed, and that others run it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attnfun as af

STOCK = ("Flatten", "Linear", "ReLU", "Unflatten")
SQUARE = {"x": (-1, 1), "y": (-1, 1)}


def rotated(X):
    return np.stack([X[..., 1, :] * X[..., 0, :1], X[..., 0, :]], axis=-2)


def squares(x):
    return np.array([float(number) ** 2 for number in np.ravel(x)]).reshape(np.shape(x))


def deep():
    torch.manual_seed(0)
    sizes = torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)
    return torch.nn.Sequential(*sizes)


CASES = {
    "one variable": ("sin(3*x)", {"x": (-1, 1)}, {"eps": 1e-3}),
    "far from zero": ("sin(x)", {"x": (1e6, 1e6 + 1)}, {"eps": 0.05}),
    "large": ("1e300*sin(x)", {"x": (-1, 1)}, {"eps": 1e299}),
    "small": ("1e-300*sin(x)", {"x": (-1, 1)}, {"eps": 1e-301}),
    "steep end": ("sqrt(x)", {"x": (0, 1)}, {"eps": 0.1}),
    "corners": ("abs(x) + y", SQUARE, {"eps": 0.1}),
    "float32": ("sin(3*x)*y", SQUARE, {"eps": 0.3, "dtype": "float32"}),
    "float16": ("x*y", SQUARE, {"eps": 0.15, "dtype": "float16"}),
    "bfloat16": ("sin(x)", {"x": (-1, 1)}, {"eps": 0.2, "dtype": "bfloat16"}),
    "six variables": ("sin(a + b + c + d + e + f)", dict.fromkeys("abcdef", (0, 0.5)), {"eps": 0.3}),
    "declared": (lambda x: np.abs(np.sin(3 * x)), (-1.0, 1.0), {"eps": 0.2, "lipschitz": 3.0}),
    "sequence": (rotated, af.Box(np.zeros((2, 2)), np.ones((2, 2))), {"eps": 0.2}),
    "a deeper network": (deep(), [(-1, 1)] * 2, {"eps": 0.1, "dtype": "float32"}),
    "only values are known": (squares, (-1.0, 1.0), {"eps": 0.1}),
}


def values_of(f, points, network):
    """The function itself in float64, one value after the other."""
    if isinstance(f, str):
        names = network.domain.names
        known = {name: getattr(np, name) for name in ("sin", "sqrt", "abs")}
        return eval(f, known, dict(zip(names, points.T, strict=True)))  # noqa: S307 - a text of this file
    if isinstance(f, torch.nn.Module):
        return f.double()(torch.tensor(points)).detach().numpy()
    return f(points)


def attacked(network):
    """Random points, corners, the kinks of rectifiers and their neighbours."""
    rng, domain = np.random.default_rng(0), network.domain
    rows = domain.sample(3000, rng)
    at = rng.integers(network.units, size=1500)
    normal = network.inner[:, at].T
    z = (rows[:1500] * normal).sum(axis=1) + network.bias[at]
    length = (normal**2).sum(axis=1)
    kinks = rows[:1500] - np.where(length > 0, z / np.where(length > 0, length, 1), 0)[:, None] * normal
    low, high = domain.lo.ravel(), domain.hi.ravel()
    kinks = np.concatenate([kinks, np.nextafter(kinks, -np.inf), np.nextafter(kinks, np.inf)])
    corners = np.where(rng.random((64, domain.size)) < 0.5, low, high)
    return np.clip(np.concatenate([rows, kinks, corners]), low, high).reshape(-1, *domain.shape)


@pytest.mark.parametrize("name", CASES)
def test_the_bound_holds_as_stock_pytorch_computes_it(name):
    f, domain, wanted = CASES[name]
    network = af.rectifiers(f, domain, **wanted)
    certificate = network.certificate
    status = {"declared": "conditional", "only values are known": "estimated"}.get(name, "proved")
    assert certificate.status.value == status
    assert certificate.found <= certificate.bound <= wanted["eps"]
    points = attacked(network)
    true = values_of(f, points, network).reshape(len(points), -1)
    module = network.to_torch()
    assert {type(part) for part in module} <= {getattr(torch.nn, kind) for kind in STOCK}
    with torch.no_grad():
        rows = points.reshape(len(points), *(network.domain.shape or (1,)))
        deployed = module(torch.tensor(rows).to(getattr(torch, network.dtype)))
    assert deployed.shape == (len(points), *(network.output_shape or (1,)))
    tight = 1.0 if status != "estimated" else 1.5
    for values in (deployed.double().numpy(), network(points).astype(np.float64)):
        assert np.abs(values.reshape(len(points), -1) - true).max() <= tight * certificate.bound


def test_onnx_runtime_computes_the_same(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    network = af.rectifiers(rotated, af.Box(np.zeros((2, 2)), np.ones((2, 2))), 0.3, dtype="float32")
    network.to_onnx(tmp_path / "hidden.onnx")
    points = np.random.default_rng(0).uniform(0, 1, (200, 2, 2))
    (values,) = runtime.InferenceSession(tmp_path / "hidden.onnx").run(None, {"points": points.astype(np.float32)})
    assert np.abs(values - rotated(points)).max() <= network.certificate.bound


def test_attention_computes_the_same():
    network = af.rectifiers("x*y", SQUARE, 0.3)
    net = af.compile(network, eps=1e-6, construction="two-layer")
    assert net.certificate.proved
    assert net.certificate.bound <= 1e-6
    points = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    assert np.abs(net(points) - network(points)).max() <= net.certificate.bound
    assert np.abs(net(points) - points.prod(axis=1)).max() <= network.certificate.bound + net.certificate.bound


def test_what_cannot_be_is_refused_in_words():
    with pytest.raises(af.errors.ToleranceNotMet, match=r"with at most 4 units.*Allow more units=") as missed:
        af.rectifiers("sin(30*x)", {"x": (-1, 1)}, 1e-3, units=4)
    assert missed.value.best.certificate.bound >= missed.value.best.certificate.found > 0.5
    for wrong, words in (({"eps": 0.0}, "eps"), ({"units": 0}, "units"), ({"dtype": "int8"}, "dtype")):
        with pytest.raises(af.errors.InputError, match=words):
            af.rectifiers("x", {"x": (-1, 1)}, **{"eps": 0.1, **wrong})
    with pytest.raises(af.errors.InputError, match="jump"):
        af.rectifiers("where(x > 0, 1, 0)", {"x": (-1, 1)}, 0.1)
    with pytest.raises(af.errors.ProofFailed, match="overflow"):
        af.rectifiers("40000*x", {"x": (-1, 1)}, 1e4, dtype="float16")
    network = af.rectifiers("x", {"x": (-1, 1)}, 0.1)
    with pytest.raises(af.errors.InputError, match="must lie in"):
        network([2.0])
    with pytest.raises(af.errors.InputError, match="must have 1 variable"):
        af.compile(network, SQUARE, 0.1)


def test_a_weight_that_is_off_is_seen_by_the_bound():
    network = af.rectifiers("sin(3*x)", {"x": (-1, 1)}, 1e-2)
    worse = network.outer.copy()
    worse[len(worse) // 2] += 1.0
    module = network.to_torch()
    with torch.no_grad():
        module[2].weight.copy_(torch.tensor(worse.T))
    assert af.certify(module, "sin(3*x)", {"x": (-1, 1)}).bound > 0.1
    assert af.certify(network.to_torch(), "sin(3*x)", {"x": (-1, 1)}, eps=1e-2).bound <= 1e-2
