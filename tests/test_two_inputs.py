"""Functions f(Q, K) of two inputs: queries come from the first, keys from the second, in every back end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnxruntime
import pytest
import torch

import attnfun as af
from attnfun.arithmetic.formats import FORMATS, round_to
from attnfun.arithmetic.rounding import key_sum_error
from attnfun.network.reference import run as reference
from cases import weighed

BOXES = {"Q": af.Box([[-1.0], [0.0]], [[1.0], [0.5]]), "K": af.Box([-1.0], [1.0], names=["k"])}


@pytest.fixture(scope="module")
def net() -> af.types.Compiled:
    return af.compile(weighed, BOXES, eps=0.5, construction="cross")


def pairs(net: af.types.Compiled, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    first, second = net.domain.separate(net.domain.sample(count, np.random.default_rng(0)))
    return first, second


def test_it_is_called_with_both_inputs_by_place_and_by_name(net):
    Q, K = pairs(net)
    values = net(Q, K)
    assert values.shape == (40, 2)
    assert np.abs(values - weighed(Q, K)).max() <= net.certificate.bound <= 0.5
    assert np.array_equal(net(K=K, Q=Q), values)
    assert np.array_equal(net(Q[3], K[3]), values[3])
    assert np.array_equal(net(Q, K[3])[3], values[3])  # leading axes are broadcast
    assert np.array_equal(net(np.concatenate([Q[:, :, 0], K], axis=1)), values)
    assert net(np.zeros((0, 2, 1)), np.zeros((0, 1))).shape == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.0, 0.1]], [1.0]), r"Q must have shape \(\.\.\., 2, 1\); got shape \(1, 2\)"),
        (([[0.0], [0.1]], 1.0), r"K must have shape \(\.\.\., 1\); got shape \(\)"),
        ((np.zeros((3, 2, 1)), np.ones((4, 1))), r"leading axes of Q and K must fit together; got \(3,\) and \(4,\)"),
        (([[0.0], [0.1]], ["a"]), "K must be real numbers"),
        (([[0.0], [0.1]], [2.0]), r"k must lie in \[-1, 1\]"),
        (([[0.0], [0.1]],), r"points must have shape \(\.\.\., 3\)"),
    ],
)
def test_wrong_shapes_are_named(net, arguments, message):
    with pytest.raises(af.errors.InputError, match=message):
        net(*arguments)


def test_a_second_input_needs_a_network_that_has_two():
    with pytest.raises(af.errors.InputError, match="needs a network of two inputs"):
        af.compile("x", {"x": (0, 1)}, eps=0.1)(0.1, 0.2)


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ({"Q": af.Box(0, 1)}, "must be two boxes"),
        ({"Q": af.Box(0, 1), "K": af.Box(0, 1), "V": af.Box(0, 1)}, "must be two boxes"),
        ({"Q": af.Box(0, 1), "K": af.Points([0.1, 0.2])}, "must be two boxes"),
        ({"Q 1": af.Box(0, 1), "K": af.Box(0, 1)}, "a name of one word"),
        ({"Q": af.Box([0], [1], names="x"), "K": af.Box([0], [1], names="x")}, "different names"),
    ],
)
def test_other_domains_are_refused(domain, message):
    with pytest.raises(af.errors.InputError, match=message):
        af.compile("x", domain, eps=0.1)


def test_other_constructions_name_the_one_that_serves():
    with pytest.raises(af.errors.InputError, match="These do: cross"):
        af.compile("Q*K", {"Q": af.Box(0, 1), "K": af.Box(0, 1)}, eps=0.4, construction="grid")


def test_formulas_name_the_coordinates_of_both_inputs():
    boxes = {"Q": af.Box([[0.0, 0.0]], [[1.0, 1.0]]), "K": (0, 1)}
    net = af.compile("max(Q0_0, Q0_1)*K", boxes, eps=0.7)
    assert net.domain.axes == ("Q0_0", "Q0_1", "K")
    assert (net.construction, net.certificate.status.value) == ("cross", "proved")
    assert abs(net([[0.2, 0.9]], 0.5) - 0.45) <= net.certificate.bound
    assert "for Q in Box(shape=(1, 2), lo=0.., hi=..1) and K in Box(K=0:1), in" in str(net.certificate)


def test_arguments_may_be_named_in_the_other_order():
    net = af.compile(lambda K, Q: Q - 0.5 * K, {"Q": af.Box(0, 1), "K": af.Box(0, 1)}, eps=0.2)
    assert abs(net(1.0, 0.0) - 1.0) <= 0.2


def test_lp_and_a_declared_constant():
    boxes = {"Q": af.Box(0, 1), "K": af.Box(0, 1)}
    jump = af.compile("where(Q > K, 1, 0)", boxes, eps=0.3, norm=1)
    rows = jump.domain.sample(4000, np.random.default_rng(1))
    assert np.abs(jump(rows) - (rows[:, 0] > rows[:, 1])).mean() <= jump.certificate.bound <= 0.3
    pole = af.compile("Q**-0.25*K", boxes, eps=0.5, norm=1)
    assert pole.certificate.status.value == "proved"

    def opaque(Q: Any, K: Any) -> Any:
        return np.array([float(q) * float(k) for q, k in zip(np.ravel(Q), np.ravel(K), strict=True)])

    declared = af.compile(opaque, boxes, eps=0.5, lipschitz=1.5)
    assert declared.certificate.status.value == "conditional"


def test_a_file_has_both_inputs_and_can_be_rechecked_and_judged(net, tmp_path):
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    Q, K = pairs(net)
    assert again.network.keyed
    assert np.array_equal(again(Q, K), net(Q, K))
    assert again.certificate.recheck(target=weighed).bound == net.certificate.bound
    small = af.compile("sin(Q)*K", {"Q": af.Box(-1, 1), "K": af.Box(-1, 1)}, eps=0.5)
    assert small.certificate.recheck(engine="arb").judged
    part = net.restrict({"k": (0.1, 0.2)})
    assert part.domain.inputs["K"].lo == 0.1
    assert np.array_equal(part(Q, 0 * K + 0.15), net(Q, 0 * K + 0.15))


def test_a_file_that_says_nonsense_is_refused(net, tmp_path):
    from attnfun.network import storage

    net.save(tmp_path / "f.safetensors")
    tensors, data = storage.read(tmp_path / "f.safetensors")
    data["network"]["layers"][1]["keyed"] = [0, 99]
    storage.write(tmp_path / "g.safetensors", tensors, data)
    with pytest.raises(af.errors.FileFormatError, match="features that keys hold"):
        af.load(tmp_path / "g.safetensors")


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("layout", ["packed", "position"])
def test_every_back_end_takes_both_inputs(dtype, layout, tmp_path):
    def rows(Q: Any, K: Any) -> Any:
        return np.stack([np.tanh(Q[..., 0, :] * K[..., :1]), Q[..., 1, :] + K[..., 1:] - 3.0], axis=-2)

    boxes = {"Q": af.Box([[-1.0], [0.0]], [[1.0], [0.5]]), "K": af.Box([1.0, 0.0], [1.5, 0.5])}
    net = af.compile(rows, boxes, eps=1.2, dtype=dtype, options={"layout": layout})
    Q, K = (round_to(part, dtype) for part in pairs(net))
    exact = reference(net.network, net.domain.joined(Q, K)[:, None]).reshape(-1, 2, 1)
    most = net.certificate.parts["rounding"] + 1e-14
    assert np.abs(net(Q, K, outside="allow") - exact).max() <= most + net.certificate.allowance
    kind = getattr(torch, dtype)
    module = net.to_torch()
    assert any(isinstance(part, torch.nn.MultiheadAttention) for part in module.modules())
    with torch.no_grad():
        values = module(torch.tensor(Q, dtype=kind), torch.tensor(K, dtype=kind)).double().numpy()
    assert np.abs(values - exact).max() <= most
    with jax.enable_x64(dtype == "float64"):
        apply, weights = net.to_jax()
        assert np.abs(np.asarray(apply(weights, Q, K), dtype=np.float64) - exact).max() <= most
    if hasattr(np, dtype):
        for attention in ("decomposed", "operator"):
            net.to_onnx(tmp_path / "f.onnx", attention=attention)
            session = onnxruntime.InferenceSession(tmp_path / "f.onnx", providers=["CPUExecutionProvider"])
            assert [each.name for each in session.get_inputs()] == ["Q", "K"]
            values = session.run(["values"], {"Q": Q.astype(dtype), "K": K.astype(dtype)})[0]
            assert np.abs(values - exact).max() <= most


def test_queries_of_the_module_do_not_see_the_second_input_nor_keys_the_first(net):
    module = net.to_torch()
    seen = []
    attention = next(part for part in module.modules() if isinstance(part, torch.nn.MultiheadAttention))
    attention.register_forward_pre_hook(lambda _, given: seen.append(given))
    Q, K = (torch.tensor(part) for part in pairs(net, 1))
    module(Q, K), module(Q + 0.1, K), module(Q, K + 0.1)
    (query, key, value), (moved, same, _), (still, other, _) = seen
    assert key is value
    assert [torch.equal(key, same), torch.equal(query, moved)] == [True, False]
    assert [torch.equal(query, still), torch.equal(key, other)] == [True, False]


def test_a_module_needs_both_inputs_and_other_frameworks_say_so(net):
    Q, _ = pairs(net)
    with pytest.raises(TypeError, match="two inputs"):
        net.to_torch()(torch.tensor(Q))
    with pytest.raises(af.errors.InputError, match="one residual stream"):
        net.export("f.py", "transformer-lens")
    with pytest.raises(af.errors.InputError, match="has one input"):
        af.certify(net.to_torch(), "x", {"x": (0, 1)})


def test_exported_files_run_alone(net, tmp_path):
    Q, K = pairs(net, 3)
    net.export(tmp_path / "f.py", "torch")
    code = "import torch, f; m = f.load(); print(m(torch.tensor({}), torch.tensor({})).tolist())"
    code = code.format(Q.tolist(), K.tolist()).replace("torch.tensor(", "torch.tensor(dtype=torch.float64, data=")
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(tmp_path), capture_output=True, text=True, check=True
    ).stdout
    assert np.allclose(np.array(eval(out)), net(Q, K), atol=1e-9 + net.certificate.allowance)  # noqa: S307


def test_networks_of_two_inputs_can_be_added(net):
    Q, K = pairs(net)
    assert np.allclose((2 * net + 1)(Q, K), 2 * net(Q, K) + 1, atol=1e-6 + 4 * net.certificate.allowance)
    assert np.allclose((net + net)(Q, K), 2 * net(Q, K), atol=1e-6 + 4 * net.certificate.allowance)
    module = (2 * net + 1).to_torch()
    assert np.allclose(module(*map(torch.tensor, (Q, K))).detach().numpy(), 2 * net(Q, K) + 1, atol=1e-2)


@pytest.mark.parametrize("dtype", FORMATS)
def test_sums_that_keys_hold_are_within_their_bound(dtype):
    """Products that cancel, in stored and plain formats: worst orders, ties and tiny numbers."""
    rng, format_ = np.random.default_rng(3), FORMATS[dtype]
    kind = getattr(torch, dtype)
    for terms in (1, 2, 3, 7, 40):
        for scale in (1.0, 2.0**-12, 2.0**6):
            c = round_to(rng.normal(size=(64, terms)) * scale, dtype)
            k = round_to(rng.normal(size=(terms,)), dtype)
            linear = torch.nn.Linear(terms, 64, bias=False, dtype=kind)
            linear.weight.data = torch.tensor(c, dtype=kind)
            got = linear(torch.tensor(k, dtype=kind)).detach().double().numpy()
            true = np.array([float(sum(map(int_product, row, k))) for row in c])
            bound = key_sum_error((np.abs(c) @ np.abs(k)), terms, format_)
            assert (np.abs(got - true) <= bound).all()


def int_product(a: float, b: float) -> Any:
    from fractions import Fraction

    return Fraction(float(a)) * Fraction(float(b))
