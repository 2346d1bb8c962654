"""Networks that others made: ranges, differences, errors and requirements hold at every point that was attacked."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import attnfun as af  # noqa: E402
from attnfun.given import differences, enclosure  # noqa: E402
from attnfun.given.forms import Symbols, constant, of_box, product  # noqa: E402
from attnfun.given.functions import FUNCTIONS, line, slope_range  # noqa: E402
from attnfun.given.machine import Machine  # noqa: E402
from attnfun.given.quadratics import sums_of_products  # noqa: E402
from attnfun.given.softmax import softmax  # noqa: E402
from attnfun.targets.readers.graph import OPERATIONS, Builder  # noqa: E402
from small_transformers import climbed, drawn, perturbed  # noqa: E402

SETTINGS = {"leaky_relu": {"slope": 0.1}, "clip": {"low": -0.5, "high": 1.5}, "softplus": {"beta": 2.0}} | {
    "elu": {"alpha": 0.7}, "power": {"exponent": 1.5},
}  # fmt: skip
POSITIVE = {"log", "sqrt", "power", "inverse_root", "reciprocal"}
BLINK = 1e-6
"""A time limit that is over after one box."""


def test_every_operation_has_its_rules():
    wanted = set(OPERATIONS) - {"input", "constant"}
    assert set(enclosure.RULES) == set(differences.RULES) == wanted


# ---------------------------------------------------------------- the pieces


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_lines_and_slopes_enclose_functions(name):
    rng = np.random.default_rng(3)
    function = FUNCTIONS[name](**SETTINGS.get(name, {}))
    centre = rng.normal(size=60) * 10.0 ** rng.uniform(-2, 1.2, 60)
    width = 10.0 ** rng.uniform(-12, 1, 60)
    lo, hi = centre - width, centre + width
    if name in POSITIVE:
        lo, hi = np.abs(centre) + 1e-3, np.abs(centre) + 1e-3 + width
    found = line(function, lo, hi)
    reference = (lambda x: 1 / np.sqrt(x)) if name == "inverse_root" else OPERATIONS[name]
    x = lo + np.linspace(0, 1, 301)[:, None] * (hi - lo)
    y = reference(x, **SETTINGS.get(name, {}))
    room = 4e-16 * (1 + np.abs(y) + np.abs(found.slope * x) + np.abs(found.offset))  # of this test's own arithmetic
    assert (np.abs(y - (found.slope * x + found.offset)) <= found.off + room).all()
    assert ((found.lo - room <= y) & (y <= found.hi + room)).all()
    least, most = slope_range(function, lo, hi)
    rise, way = np.diff(y, axis=0), np.diff(x, axis=0)
    assert ((rise >= least * way - 2 * room[1:]) & (rise <= most * way + 2 * room[1:])).all()
    wide = width > 1e-3
    assert (found.off[wide] <= np.abs(y - (found.slope * x + found.offset)).max(axis=0)[wide] * 1.3 + 1e-12).all()


def test_products_of_forms_hold_at_corners_and_keep_dependences():
    rng = np.random.default_rng(0)
    lo = rng.normal(size=(1, 4))
    form = of_box(lo, lo + rng.random((1, 4)))
    a, b = (
        form.arranged(lambda array: array.reshape(len(array), 2, 2)),
        form.arranged(lambda array: array.reshape(len(array), 2, 2)),
    )
    both = product(a, b)
    corners = lo + (np.indices((2,) * 4).reshape(4, -1).T) * (form.hi - form.lo)
    matrices = corners.reshape(-1, 2, 2)
    values = matrices @ matrices
    assert ((both.lo <= values) & (values <= both.hi)).all()
    difference = a - b
    assert (difference.hi == 0).all()
    assert (both.hi - both.lo).max() < 1.5 * (values.max(axis=0) - values.min(axis=0)).max() + 1e-12


@pytest.mark.parametrize("kind", ["plain", "whole numbers", "sizes", "one direction", "huge", "nothing"])
def test_sums_of_products_hold_at_corners_and_are_close(kind):
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(40, 7, 1, 3)), rng.normal(size=(40, 7, 3, 1))  # (B, K, l, n), (B, K, n, m)
    if kind == "whole numbers":
        a, b = np.rint(2 * a), np.rint(2 * b)
    elif kind == "sizes":
        a, b = a * 10.0 ** rng.integers(-9, 9, (40, 7, 1, 1)), b * 10.0 ** rng.integers(-9, 9, (40, 1, 3, 1))
    elif kind == "one direction":
        b = np.swapaxes(a, -1, -2) * 3
    elif kind == "huge":
        a, b = a * 1e150, b * 1e150
    elif kind == "nothing":
        a[::2], b[1::2] = 0.0, 0.0
    corners = np.indices((2,) * 7).reshape(7, -1).T * 2.0 - 1
    at = [Fraction(int(each)) for each in corners.ravel()]
    signs = np.array(at, dtype=object).reshape(corners.shape)
    low, high = (end[:, 0, 0] for end in sums_of_products(a, b))
    for place in range(0, 40, 5):
        x, y = (np.vectorize(Fraction, otypes=[object])(part[place]).reshape(7, 3) for part in (a, b))
        exact = ((signs @ x) * (signs @ y)).sum(axis=1)  # in rational numbers
        assert Fraction(low[place]) <= min(exact.min(), 0)
        assert max(exact.max(), 0) <= Fraction(high[place])
    sizes = (np.abs(a).sum(axis=1)[:, 0] * np.abs(b).sum(axis=1)[..., 0]).sum(axis=1)
    assert (np.maximum(high, -low) <= 1.0001 * sizes + 1e-300).mean() > 0.7
    if kind == "plain":
        assert np.median(np.maximum(high, -low) / sizes) < 0.6


def test_a_sum_of_products_of_what_is_not_known_is_not_bounded():
    a, b = np.ones((1, 2, 1, 3)), np.ones((1, 2, 3, 1))
    a[0, 0, 0, 0] = np.inf
    low, high = sums_of_products(a, b)
    assert (low, high) == (-np.inf, np.inf)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0, 30.0, 1e4])
def test_softmax_of_forms_holds_at_corners(size):
    rng = np.random.default_rng(1)
    form = of_box(rng.normal(size=(1, 3)), rng.normal(size=(1, 3)) + 4 + size)
    scores = form.arranged(lambda array: array.reshape(len(array), 1, 3))
    weights = softmax(scores, Symbols(3, 100))
    points = form.lo + rng.random((4000, 3)) * (form.hi - form.lo)
    points[:8] = form.lo + np.indices((2,) * 3).reshape(3, -1).T * (form.hi - form.lo)
    real = np.exp(points - points.max(axis=1, keepdims=True))
    real = (real / real.sum(axis=1, keepdims=True))[:, None]
    room = 1e-15
    assert ((weights.lo - room <= real) & (real <= weights.hi + room)).all()
    symbols = (points - form.centre) / form.terms[0].diagonal()
    line_ = weights.centre + np.einsum("krn,pk->prn", weights.terms[0, :3], symbols)
    left = np.abs(weights.terms[0, 3:]).sum(axis=0) + weights.slack[0]
    assert (np.abs(real - line_) <= left + room).all()


def test_constants_and_infinite_inputs_say_nothing_wrong():
    huge = of_box(np.array([[-1e308]]), np.array([[1e308]]))
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isinf((huge * huge).hi).all()
    two = constant(np.array([2.0]), 1)
    assert ((two * two).lo == 4).all()
    assert ((two + two).hi == 4).all()
    build = Builder((1,))
    graph = build.graph(build.add("exp", build.add("exp", 0)))
    run = enclosure.Run(Machine.of("float32"), Symbols(0, 10))
    _, seen = enclosure.entered(np.array([[0.0]]), np.array([[5.0]]), (1,), run)
    assert np.isinf(enclosure.enclose(graph, seen, run).hi).all()  # float32 overflows beyond exp(88)


# ---------------------------------------------------------------- whole networks, attacked


def ends(centre: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """A box whose ends are numbers of float32."""
    return tuple(np.float32(end).astype(np.float64) for end in (centre - radius, centre + radius))


@cache
def case(seed: int):
    network, centre, radius = drawn(seed)
    return network, *ends(centre, radius)


@pytest.mark.parametrize("seed", range(10))
def test_no_point_leaves_the_ranges_of_a_transformer(seed):
    network, lo, hi = case(seed)
    found = af.ranges(network, af.Box(lo, hi), time_limit=BLINK)
    for dtype in (torch.float32, torch.float64):
        low, high = climbed(network.to(dtype), lo, hi, seed, dtype)
        assert (found.lo <= low).all()
        assert (high <= found.hi).all()
    network.float()
    exact = af.ranges(network, af.Box(lo, hi), dtype="exact", time_limit=BLINK)
    assert (exact.lo >= found.lo).all()
    assert (exact.hi <= found.hi).all()


@pytest.mark.parametrize("seed", range(5))
def test_no_point_beats_the_difference_of_two_transformers(seed):
    network, lo, hi = case(seed)
    other = perturbed(network, seed, [0.0, 1e-6, 1e-3, 0.1][seed % 4])
    certificate = af.compare(network, other, af.Box(lo, hi), time_limit=BLINK)
    assert certificate.dtype == "float32"
    assert certificate.proved

    def difference(x):
        return other(x) - network(x)

    for dtype in (torch.float32, torch.float64):
        network.to(dtype), other.to(dtype)
        low, high = climbed(difference, lo, hi, seed, dtype)
        assert max(high.max(), -low.min()) <= certificate.bound
    network.float()


def test_a_small_change_of_weights_is_a_small_difference_though_ranges_are_wide():
    network, _, _ = case(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(5, 20), torch.nn.ReLU(), torch.nn.Linear(20, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2)
    )
    box = [(-1, 1)] * 5
    wide = af.ranges(network, box, time_limit=BLINK)
    near = af.compare(network, perturbed(network, 1, 1e-5), box, time_limit=BLINK)
    assert near.bound < 1e-3 * (wide.hi - wide.lo).max()


def test_cutting_makes_ranges_tight():
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(2, 12), torch.nn.ReLU(), torch.nn.Linear(12, 12), torch.nn.Tanh(), torch.nn.Linear(12, 2)
    )
    found = af.ranges(network, [(-1, 1)] * 2)
    width = found.found_hi - found.found_lo
    assert (found.hi - found.lo <= 1.1 * width + 1e-5).all()
    assert not found.certificate.stopped


# ---------------------------------------------------------------- errors, requirements, refusals


def small(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()


def test_the_error_against_a_formula_is_bounded_and_nearly_reached():
    network = small()
    certificate = af.certify(network, "[sin(3*x), x]", {"x": (-1, 1)})
    x = torch.linspace(-1, 1, 4001)[:, None]
    errors = (network(x) - torch.cat([torch.sin(3 * x), x], 1)).abs().detach().numpy()
    assert errors.max() <= certificate.bound <= 1.06 * errors.max()
    assert certificate.proved
    assert certificate.found <= errors.max() * 1.001


def test_a_formula_that_may_be_undefined_makes_the_certificate_conditional():
    certificate = af.certify(small(), "[sqrt(1 - x**2), x]", {"x": (-1, 1)})
    assert certificate.status.value == "proved"
    edge = af.certify(small(), "[sqrt(x*x - 2*x*x + x*x), x]", {"x": (-1, 1)}, time_limit=BLINK)
    assert edge.status.value == "conditional"


def test_a_function_that_cannot_be_traced_gives_an_estimate():
    def black_box(x):
        return np.stack([np.where(np.array([float(t) > 0 for t in np.ravel(x)]), 1.0, 0.0), np.ravel(x)], -1)

    assert af.certify(small(), black_box, [(-1, 1)]).status.value == "estimated"


def test_requirements_hold_or_name_a_counterexample():
    network, domain = small(), {"x": (-1, 1)}
    y = network(torch.linspace(-1, 1, 2001)[:, None]).detach().numpy()
    gap = float((y[:, 0] - y[:, 1]).min())
    holds = {0: (float(y[:, 0].min()) - 0.1, None), 1: (None, float(y[:, 1].max()) + 0.1), (0, 1): gap - 0.1}
    certificate = af.certify(network, domain=domain, requirement=holds)
    assert certificate.proved
    assert certificate.bound <= 0
    with pytest.raises(af.errors.ProofFailed) as failed:
        af.certify(network, domain=domain, requirement={(0, 1): gap + 0.1})
    closest = failed.value.closest
    assert closest.counterexample
    assert closest.box is not None
    outputs = network(torch.tensor(closest.point[None], dtype=torch.float32)).detach().numpy()[0]
    assert outputs[0] - outputs[1] < gap + 0.1


def test_a_proof_that_runs_out_of_time_says_so_without_a_counterexample():
    network = case(3)[0]
    lo, hi = case(3)[1:]
    bound = af.compare(network, perturbed(network, 0, 1e-3), af.Box(lo, hi), time_limit=BLINK)
    between = (max(bound.found, 0.0) + bound.bound) / 2
    with pytest.raises(af.errors.ProofFailed, match="no counterexample is known") as failed:
        af.compare(network, perturbed(network, 0, 1e-3), af.Box(lo, hi), eps=between, time_limit=BLINK)
    assert not failed.value.closest.counterexample


def test_a_compiled_network_is_certified_again_after_training_on():
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, eps=0.01, dtype="float32", construction="spectral")
    module = net.to_torch()
    assert af.certify(module, "sin(3*x)", {"x": (-1, 1)}).bound <= net.certificate.bound * 1.01
    points = torch.linspace(-1, 1, 64)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(40):
        loss = (module(points) - torch.sin(3.1 * points)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    again = af.certify(module, "sin(3.1*x)", {"x": (-1, 1)})
    dense = torch.linspace(-1, 1, 5001)
    error = (module(dense) - torch.sin(3.1 * dense.double())).abs().max().item()
    assert again.proved
    assert again.proof is not None
    assert error <= again.bound <= 1.5 * error
    moved = af.compare(net, module, {"x": (-1, 1)})
    assert moved.bound >= (module(dense) - torch.tensor(net(dense.numpy()))).abs().max().item()


def test_networks_of_ours_are_enclosed_with_self_attention_and_memory():
    net = af.compile("sin(3*x)*y", {"x": (-1, 1), "y": (-1, 1)}, eps=0.2, construction="grid", dtype="float32")
    found = af.ranges(net, net.domain)
    values = net(net.domain.sample(2000, np.random.default_rng(0)))
    assert found.lo.min() <= values.min()
    assert values.max() <= found.hi.max()


def test_refusals_name_what_must_hold():
    network = small()
    for call, words in (
        (lambda: af.ranges("sin(x)", (-1, 1)), "a network must be"),
        (lambda: af.certify(network, "x", None), "a domain must be given"),
        (lambda: af.certify(network, None, [(-1, 1)]), "either a target or a requirement"),
        (lambda: af.certify(network, "x", [(-1, 1)]), "as many outputs"),
        (lambda: af.certify(network, domain=[(-1, 1)], requirement={5: (0, 1)}), "outputs from 0 to 1"),
        (lambda: af.certify(network, domain=[(-1, 1)], requirement={0: (1, 0)}), "lo <= hi"),
        (lambda: af.certify(network, domain=[(-1, 1)], requirement={}), "must hold a condition"),
        (lambda: af.compare(network, small().double(), [(-1, 1)]), "the same dtype"),
        (lambda: af.ranges(network, [(-1, 1)], dtype="float16"), "dtype must be one of"),
        (lambda: af.ranges(small().half(), [(-1, 1)]), "float64 or float32"),
        (lambda: af.ranges(network, [(-1, 1)], tolerance=-1), "tolerance"),
    ):
        with pytest.raises(af.errors.InputError, match=words):
            call()


def test_scikit_learn_networks_are_read():
    sklearn = pytest.importorskip("sklearn.neural_network")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 2))
    model = sklearn.MLPRegressor(hidden_layer_sizes=(6,), max_iter=40, random_state=0, tol=1.0).fit(
        X, X[:, 0] * X[:, 1]
    )
    certificate = af.certify(model, "x*y", {"x": (-1, 1), "y": (-1, 1)})
    assert certificate.dtype == "float64"
    assert certificate.proved
    points = rng.uniform(-1, 1, (2000, 2))
    assert np.abs(model.predict(points) - points[:, 0] * points[:, 1]).max() <= certificate.bound


def test_the_command_line_has_all_three(tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    from attnfun.cli import main

    rng = np.random.default_rng(0)
    paths = [str(tmp_path / name) for name in ("a.onnx", "b.onnx")]
    for path in paths:
        weights = [rng.normal(size=shape).astype(np.float32) for shape in ((2, 6), (6,), (6, 2), (2,))]
        tensors = [onnx.numpy_helper.from_array(array, name) for array, name in zip(weights, "wbvc", strict=True)]
        nodes = [
            onnx.helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
            onnx.helper.make_node("Relu", ["h"], ["r"]),
            onnx.helper.make_node("Gemm", ["r", "v", "c"], ["y"]),
        ]
        values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in "xy"]
        graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)

    def said(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main([*words, "-d", "x=-1:1 y=-1:1"])
        return int(left.value.code or 0), capsys.readouterr().out

    for words in (["ranges", paths[0]], ["compare", *paths], ["certify", paths[0], "[x, y]"]):
        code, text = said(*words)
        assert code == 0
        assert "proved" in text
        assert "float32" in text
    assert said("certify", paths[0], "--require", "y0=-100:100", "--require", "y0>y1+-200", "--json")[0] == 0
    assert said("certify", paths[0], "--require", "y0=1000:")[0] == 3
    assert said("certify", paths[0], "--require", "nonsense")[0] == 2
