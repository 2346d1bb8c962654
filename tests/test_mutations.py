"""Each safety term is needed: without it, a point beats what is claimed."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib import import_module
from math import factorial, inf

import numpy as np
import pytest
import torch
from onnx import helper
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import attnfun as af
from attnfun.arithmetic import Interval, directed, jets, series, truth
from attnfun.arithmetic.formats import FORMATS
from attnfun.arithmetic.interval import UFUNCS
from attnfun.domains.box import as_box
from attnfun.formula import tracing
from attnfun.network import Attention
from attnfun.network.fields import Fields
from attnfun.network.reference import run
from attnfun.proofs import Claim, certify, heads, mixture, overflow, provers, rules
from attnfun.proofs import certificate as claims
from attnfun.proofs import storage as files
from attnfun.proofs.enclosure import Encloser
from attnfun.proofs.overflow import refuse_overflow
from attnfun.proofs.provers.boxes import bound_error
from attnfun.proofs.rules.parts import errors_of
from attnfun.proofs.search import network_rows
from attnfun.resources.deadline import Deadline
from attnfun.runtime.backends.torch import to_torch
from attnfun.targets import Expression, as_target, callables, evaluations
from attnfun.targets.readers import comparison, onnx_files, read_network, torch_modules, writer
from proving import bound_by
from test_circuits import error_along_y, with_other_factors
from test_overflow import ROUTES, routed
from test_relu_networks import InPlace, onnx_file
from test_rounding import cancelling_head, computed_and_bound
from test_soundness import exact_supremum

certifying = import_module("attnfun.proofs.certify")


def third_is_enclosed() -> bool:
    third = Interval(1.0) / Interval(3.0)
    return Fraction(float(third.lo)) <= Fraction(1, 3) <= Fraction(float(third.hi))


def test_outward_rounding(monkeypatch):
    assert third_is_enclosed()
    monkeypatch.setattr(directed, "below", lambda value: value)
    monkeypatch.setattr(directed, "above", lambda value: value)
    assert not third_is_enclosed()


def network_is_enclosed(net: af.types.Compiled) -> bool:
    """Does the enclosure of a small box contain the network's values there?"""
    box = Interval([[0.2]], [[0.2005]])
    encloser = Encloser(net.network)
    region, focus = encloser(box.reshape(1, *net.network.shape_in), encloser.start())
    region, _ = encloser(box.reshape(1, *net.network.shape_in), focus)
    values = run(net.network, np.linspace(0.2, 0.2005, 50).reshape(-1, *net.network.shape_in))
    return bool((region.tokens.lo.min() <= values.min()) and (values.max() <= region.tokens.hi.max()))


def test_the_tail_of_dropped_tokens(monkeypatch):
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 0.05, construction="grid")
    monkeypatch.setattr(heads, "NEGLIGIBLE", 0.5)
    assert network_is_enclosed(net)
    lifted = heads._lifted
    monkeypatch.setattr(heads, "_lifted", lambda average, tail, extreme: lifted(average, 0 * tail, extreme))
    assert not network_is_enclosed(net)


def claimed_and_true(net: af.types.Compiled) -> tuple[float, float]:
    """The rounding proved in float32, and how far real float32 outputs are from the same weights in float64."""
    claim = net.certificate.claim
    points = np.linspace(-1, 1, 4001).astype(np.float32).astype(np.float64)
    exact = network_rows(replace(claim.network, dtype="float64"), points[:, None])[:, 0]
    true = np.abs(net(points).astype(np.float64) - exact).max()
    return bound_error(claim.target, claim.network, None, Deadline.after(20)).parts["rounding"], float(true)


def test_the_rounding_term(monkeypatch):
    net = af.compile("sin(6*x)", {"x": (-1, 1)}, options={"tokens": 40}, dtype="float32", construction="spectral")
    claimed, true = claimed_and_true(net)
    assert true <= claimed
    monkeypatch.setattr(heads, "head_error", lambda sizes, column, *rest: np.zeros((*column.spread.shape, 2)))
    monkeypatch.setattr(
        heads, "linear_error", lambda error, size, weight, *rest: np.zeros((*error.shape[:-2], weight.shape[1], 2))
    )
    claimed, true = claimed_and_true(net)
    assert true > claimed


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rounding_the_input_is_a_part_of_its_own(dtype):
    net = af.compile("sin(6*x)", {"x": (100, 101)}, 0.05, dtype=dtype)
    assert net.certificate.parts["input"] > 0
    grain = 2.0 ** (-53 if dtype == "float64" else -24)
    assert net.certificate.parts["input"] >= 100 * grain * 0.5  # the target itself moves by its slope times that


def test_the_modulus_of_the_outer_function(monkeypatch):
    inner = af.compile("x", {"x": (-1, 1)}, 0.05, construction="grid")
    outer = af.compile("tanh(20*u)", {"u": (-1.1, 1.1)}, 1e-3)
    points = np.linspace(-1, 1, 4001)
    true = np.abs(outer(inner)(points) - np.tanh(20 * points)).max()
    assert true <= outer(inner).certificate.bound
    monkeypatch.setattr(rules.parts, "modulus", lambda target, region, distances: np.zeros((3, target.outputs)))
    with pytest.raises(af.errors.SoundnessError):  # a point that the search found says so
        outer(inner)
    monkeypatch.setattr(certifying, "refuse_beaten", lambda *arguments: 0.0)
    assert true > outer(inner).certificate.bound


def false_proofs(monkeypatch, **changes):
    """A claim whose proofs end in something else."""
    claim = af.compile("sin(3*x)", (-1, 1), options={"tokens": 12}, construction="grid", proof=False).certificate.claim
    prove = certifying._prove
    monkeypatch.setattr(certifying, "_prove", lambda *arguments: replace(prove(*arguments), **changes))
    return claim


def test_the_worst_point_found_is_compared_with_the_bound(monkeypatch):
    tiny = dict.fromkeys(("construction", "input", "rounding"), 1e-6)
    claim = false_proofs(monkeypatch, bound=1e-6, parts=tiny)
    with pytest.raises(af.errors.SoundnessError):
        certify(claim, 10.0)
    monkeypatch.setattr(certifying, "refuse_beaten", lambda *arguments: 0.0)
    assert certify(claim, 10.0).proved


def test_a_certificate_is_compared_with_itself(monkeypatch):
    claim = false_proofs(monkeypatch, parts={"construction": 10.0, "input": 0.0, "rounding": -9.0})
    with pytest.raises(af.errors.SoundnessError):
        certify(claim, 10.0)
    monkeypatch.setattr(af.types.Certificate, "contradiction", lambda certificate: "")
    assert certify(claim, 10.0).proved


def test_a_target_that_may_be_undefined_somewhere_is_not_proved(monkeypatch):
    claim = false_proofs(monkeypatch, defined=False)
    assert certify(claim, 10.0).status is af.types.Status.CONDITIONAL
    monkeypatch.setattr(af.types.Status, "weakest", classmethod(lambda cls, statuses: statuses[0]))
    assert certify(claim, 10.0).proved


def test_overflow_is_refused(monkeypatch):
    """Without the refusal a bound is proved for a module whose outputs are not finite."""
    net = af.compile("0.9+0.1*sin(3*x)", {"x": (-1, 1)}, options={"tokens": 8}, dtype="float32", construction="cross")
    layers = [
        replace(layer, value=layer.value * 1.75 * 2.0**127) if isinstance(layer, Attention) else layer
        for layer in net.network.layers
    ]
    loud = replace(net.network, layers=tuple(layers))
    assert not torch.isfinite(to_torch(loud, (), ())(torch.linspace(-1, 1, 9))).all()  # by stock attention
    with pytest.raises(af.errors.ProofFailed, match="overflow"):
        refuse_overflow(loud, net.domain)
    target = Expression("1.75*2**127*(0.9+0.1*sin(3*x))", net.domain)
    assert bound_error(target, loud, None, most=100).bound < 2.0**127
    monkeypatch.setattr(overflow, "_refuse", lambda met, arithmetic, where: None)
    refuse_overflow(loud, net.domain)


@pytest.mark.parametrize("route", ROUTES)
def test_overflow_is_refused_on_every_route(route, monkeypatch):
    """In a format with small numbers nothing is proved, nor checked again; without the refusals it is."""
    certificate = routed(route).certificate
    claim, norm = certificate.claim, certificate.norm
    prove = partial(certifying.combine, claim) if route == "parts" else partial(certify, claim, None, norm=norm)
    monkeypatch.setitem(FORMATS, "float64", replace(FORMATS["float64"], largest=1.0))
    for guard, proved in ((certifying, prove), (rules, certificate.recheck)):
        with pytest.raises(af.errors.ProofFailed, match="overflow"):
            proved()
        monkeypatch.setattr(guard, "refuse_overflow", lambda *arguments: None)
        assert proved().proved


def test_nothing_infinite_is_proved(monkeypatch):
    claim = false_proofs(monkeypatch, bound=inf, parts={"construction": inf, "input": 0.0, "rounding": 0.0})
    for place, guard in ((certifying, "_refuse_infinite"), (af.types.Certificate, "contradiction")):
        with pytest.raises((af.errors.ProofFailed, af.errors.SoundnessError)):
            certify(claim, 10.0)
        monkeypatch.setattr(place, guard, lambda *arguments: "")
    assert certify(claim, 10.0).headline == "error <= inf proved"


def test_heads_are_told_apart_by_their_stored_weights(monkeypatch):
    target, _, network = with_other_factors()
    true = error_along_y(network)
    assert true <= bound_by("circuit", target, network).bound
    for module in (rules.circuit, provers.circuit):
        monkeypatch.setattr(module, "stored", lambda bank: [bank.attention[0].keys().tobytes()])
    assert true > bound_by("circuit", target, network).bound


def test_the_order_in_which_parts_of_a_modulus_are_counted(monkeypatch):
    """Counted without what rounding alone does, the parts of a composition are too small where the input is exact."""
    outer = af.compile("sqrt(abs(u))", {"u": (-1, 1)}, 0.2, construction="cross").certificate
    known = af.compile("0.9*x", {"x": (-1, 1)}, 0.2, construction="cross").certificate
    inner = replace(known, parts={"construction": 1e-9, "input": 1e-4, "rounding": 1e-4}, bound=3e-4)
    claim = Claim(known.claim.network, known.claim.domain, (), {}, None, None, (outer, known))
    errors = errors_of(outer), errors_of(inner)
    ((construction, _, rounding, _),) = rules.parts._through(claim, *errors)
    needed = outer.parts["construction"] + np.sqrt(1e-4)
    assert construction + rounding >= needed
    sizes = rules.parts.modulus
    monkeypatch.setattr(rules.parts, "modulus", lambda *arguments: sizes(*arguments)[[0, 0, 2]])
    ((construction, _, rounding, _),) = rules.parts._through(claim, *errors)
    assert construction + rounding < needed


def test_computed_values_of_tokens_out_of_play(monkeypatch):
    network, points = cancelling_head(), np.linspace(-1, 1, 5)
    errors, bound = computed_and_bound(network, points)
    assert (errors <= bound).all()
    known = heads.Column
    monkeypatch.setattr(heads, "Column", lambda **sizes: known(**{**sizes, "value_off_elsewhere": 0.0}))
    errors, bound = computed_and_bound(network, points)
    assert (errors > bound).any()


def saved_with(path, **fields) -> str:
    """A file whose certificate says something else."""
    af.compile("sin(3*x)", (-1, 1), 0.5, construction="grid").save(path)
    with safe_open(str(path), "numpy") as file:
        header = json.loads(file.metadata()["attnfun"])
    header["certificate"].update(fields)
    save_file(load_file(path), path, {"attnfun": json.dumps(header)})
    return str(path)


LOW = {"bound": 1e-9, "parts": {"construction": 1e-9, "input": 0.0, "rounding": 0.0}, "largest_error_found": 0.0}


def test_numbers_in_files_are_compared_with_each_other(monkeypatch, tmp_path):
    path = saved_with(tmp_path / "f.safetensors", bound=1e-9)
    with pytest.raises(af.errors.FileFormatError):
        af.load(path)
    monkeypatch.setattr(af.types.Certificate, "contradiction", lambda certificate: "")
    assert af.load(path).certificate.proved


def test_numbers_in_files_are_looked_at(monkeypatch, tmp_path):
    path = saved_with(tmp_path / "f.safetensors", parts={**LOW["parts"], "windows": -1.0}, bound=1e-9)
    monkeypatch.setattr(af.types.Certificate, "contradiction", lambda certificate: "")
    with pytest.raises(af.errors.FileFormatError):
        af.load(path)
    monkeypatch.setattr(Fields, "_require", lambda *arguments: None)
    assert af.load(path).certificate.recheck().bound < 1e-8  # "holds again"


def test_stated_bounds_are_compared_with_proved_ones(monkeypatch, tmp_path):
    certificate = af.load(saved_with(tmp_path / "f.safetensors", **LOW)).certificate
    monkeypatch.setattr(certifying, "certify", lambda claim, goal, **options: certify(claim, 10.0, **options))
    with pytest.raises(af.errors.ProofFailed):
        certificate.recheck()
    monkeypatch.setattr(claims, "restated", lambda bound: 1e12 * bound)
    assert certificate.recheck().bound > 1e-3


def test_the_status_in_a_file_is_no_better_than_its_target(monkeypatch, tmp_path):
    path = tmp_path / "f.safetensors"
    net = af.compile(np.sin, (-1, 1), 0.5, lipschitz=1.5, construction="grid")
    replace(net, certificate=replace(net.certificate, status=af.types.Status.PROVED)).save(path)
    with pytest.raises(af.errors.FileFormatError, match="conditional or weaker"):
        af.load(path)
    monkeypatch.setattr(files, "_target_status", lambda claim: af.types.Status.PROVED)
    assert af.load(path).certificate.proved


def bump(p):
    """A wave and a bump in a window narrower than the boxes of a proof: a comparison times what vanishes there."""
    return np.sin(3 * p) + (1 - (1e5 * (p - 0.500013)) ** 2) * (1.0 * ((p > 0.500003) & (p < 0.500023)))


BUMPS = {
    "where": "sin(3*x) + (1 - (1e5*(x - 0.500013))**2)*where(0.500003 < x < 0.500023, 1, 0)",
}


def hull_where_undecided(first, second, a, b):
    """The mistake: the range of two constant branches as a constant."""
    result, undecided = pick(first, second, a, b), ~(first | second)[..., None]
    mid = np.where(undecided, (a.mid + b.mid) / 2, result.mid)
    return jets.Jet(a.basis, mid, np.where(undecided, np.abs(a.mid - b.mid) / 2, result.rad))


pick = jets.pick


@pytest.mark.parametrize(
    ("kind", "place", "name", "mistake"),
    [
        ("where", jets, "pick", hull_where_undecided),
    ],
)
def test_undecided_comparisons_have_no_series(monkeypatch, kind, place, name, mistake):
    network = af.compile("sin(3*x)", (-1, 1), 1e-2).network
    target = as_target(BUMPS[kind], as_box((-1, 1)))
    true = abs(bump(0.500013) - float(run(network, np.full((1, 1, 1), 0.500013)).item()))
    assert true > 0.9
    assert bound_error(target, network, None, Deadline.after(60)).bound >= true
    monkeypatch.setattr(place, name, mistake)
    assert bound_error(target, network, None, Deadline.after(60)).bound < true


def test_copies_for_functions_that_edit_their_argument(monkeypatch):
    def edits(points):
        points *= 2.0
        return points.ravel() / 2 + 0 * np.array([float(x) for x in points.ravel()])

    rows = np.array([[0.5], [-0.25]])
    as_target(edits, as_box((-1, 1)), lipschitz=1.0).values(rows)
    assert rows[0] == 0.5
    monkeypatch.setattr(af.Box, "unflatten", lambda domain, points: Shared(points.ravel()))
    function = callables.PythonFunction(edits, as_box((-1, 1)))
    function(rows)
    assert rows[0] == 1.0


class Shared(np.ndarray):
    """An array whose copies are the array itself."""

    def __new__(cls, array):
        return array.view(cls)

    def copy(self, order="C"):
        return self


def status_of(target, domain=(1, 2)) -> af.types.Status | None:
    """None if the target is refused."""
    try:
        return (read_network(target, as_box(domain)) or as_target(target, as_box(domain))).status
    except af.errors.InputError:
        return None


def test_the_comparison_of_functions_with_their_enclosures(monkeypatch):
    rng = np.random.default_rng(0)
    random = lambda x: np.sin(x) + (rng.normal() if x.dtype == np.float64 else 0.0)  # noqa: E731
    other = lambda x: np.sin(x) if x.dtype == np.float64 else 0 * x  # noqa: E731
    assert status_of(random) is None
    assert status_of(other) is af.types.Status.ESTIMATED
    monkeypatch.setattr(callables, "refuse_disagreement", lambda *arguments: None)
    monkeypatch.setattr(callables, "refuse_other_series", lambda *arguments: None)
    assert status_of(random) is status_of(other) is af.types.Status.PROVED


def test_the_second_run_on_symbols(monkeypatch):
    rng = np.random.default_rng(0)
    random = lambda x: np.sin(x) + (0.0 if x.dtype == np.float64 else 1e-18 * rng.normal())  # noqa: E731
    assert status_of(random) is None
    once = tracing._traced
    monkeypatch.setattr(tracing, "traced", lambda *arguments: once(*arguments))
    monkeypatch.setattr(callables, "traced", tracing.traced)
    assert status_of(random) is af.types.Status.PROVED


def test_settings_of_operations_that_are_not_known(monkeypatch):
    class Weighted(torch.nn.Module):
        def forward(self, x):
            return torch.add(x, torch.relu(x), alpha=2)

    assert status_of(Weighted()) is af.types.Status.PROVED
    monkeypatch.setitem(torch_modules.OPERATIONS, "add", lambda write, input, other: write.add(input, other))
    assert status_of(Weighted()) is None  # a setting that is not known
    monkeypatch.setitem(torch_modules.OPERATIONS, "add", lambda write, input, other, alpha: write.add(input, other))
    assert status_of(Weighted()) is None  # found by its values
    monkeypatch.setattr(comparison, "refuse_misread", lambda *arguments: None)
    assert status_of(Weighted()) is af.types.Status.PROVED


@pytest.mark.parametrize(
    ("operation", "settings"), [("Gemm", {"alpha": 2.0}), ("Gemm", {"beta": 0.5}), ("LeakyRelu", {"alpha": 0.3})]
)
def test_settings_of_nodes_in_onnx_files(operation, settings, monkeypatch, tmp_path):
    """A reader that forgets the settings of a node is found by its values; without that, another function is proved."""
    weights = {"W": np.array([[-1.5]]), "b": np.array([0.5])} if operation == "Gemm" else {}
    path = onnx_file(tmp_path / "f.onnx", [helper.make_node(operation, ["x", *weights], ["y"], **settings)], weights)
    read, box = onnx_files.OPERATIONS[operation], [(-2, -1)]
    assert status_of(path, box) is af.types.Status.PROVED
    monkeypatch.setitem(onnx_files.OPERATIONS, operation, lambda write, arguments, _: read(write, arguments, {}))
    assert status_of(path, box) is None
    monkeypatch.setattr(comparison, "refuse_misread", lambda *arguments: None)
    assert status_of(path, box) is af.types.Status.PROVED


REFUSED = {
    "a bound of Clip that varies": (helper.make_node("Clip", ["d", "x"], ["y"]), True),
    "Dropout in training mode": (helper.make_node("Dropout", ["x", "half", "yes"], ["y"], seed=1), True),
    "another axis of Flatten": (helper.make_node("Flatten", ["d"], ["y"], axis=0), False),
}
"""Nodes, and whether their values say what a reader missed; those of Flatten are the same in another shape."""


@pytest.mark.parametrize(("node", "shows"), REFUSED.values(), ids=REFUSED)
def test_refusals_of_nodes_in_onnx_files(node, shows, monkeypatch, tmp_path):
    """A reader that looks at the first argument alone proves another function."""
    nodes, weights = [helper.make_node("Add", ["x", "x"], ["d"]), node], {"half": np.array(0.5), "yes": np.array(True)}
    path, read = onnx_file(tmp_path / "f.onnx", nodes, weights), onnx_files.OPERATIONS[node.op_type]
    assert status_of(path, [(-2, -1)]) is None
    monkeypatch.setitem(onnx_files.OPERATIONS, node.op_type, lambda write, arguments, _: read(write, arguments[:1], {}))
    assert status_of(path, [(-2, -1)]) is (None if shows else af.types.Status.PROVED)
    monkeypatch.setattr(comparison, "refuse_misread", lambda *arguments: None)
    assert status_of(path, [(-2, -1)]) is af.types.Status.PROVED


def test_quotients_in_onnx_files_that_no_weight_is(monkeypatch, tmp_path):
    """Quotients are enclosed; as float weights they would be another function, which no comparison of floats shows."""
    path = onnx_file(tmp_path / "f.onnx", [helper.make_node("Div", ["x", "b"], ["y"])], {"b": np.array([3.0])})
    (enclosed,) = read_network(path, as_box([(1, 2)])).circuit().outputs
    (factor,) = enclosed.terms.values()
    assert Fraction(float(factor.lo)) * 3 < 1 < Fraction(float(factor.hi)) * 3
    monkeypatch.setattr(writer, "are_powers_of_two", lambda numbers: True)
    target = read_network(path, as_box([(1, 2)]))
    assert target.status is af.types.Status.PROVED
    assert Fraction(target.stages[0].weight.item()) * 3 != 1


@pytest.mark.parametrize("functional", [False, True])
def test_activations_in_place(functional, monkeypatch):
    torch.manual_seed(0)
    module, box = InPlace(True, functional), [(-1, 1)] * 3
    assert status_of(module, box) is af.types.Status.PROVED
    monkeypatch.setattr(torch_modules, "_overwrites", lambda name, kwargs: bool(kwargs.pop("inplace", False)) and False)
    assert status_of(module, box) is None  # found by its values
    monkeypatch.setattr(comparison, "refuse_misread", lambda *arguments: None)
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    with torch.no_grad():
        true = module.double()(torch.tensor(rows)).numpy()
    target = read_network(module, as_box(box))
    assert target.status is af.types.Status.PROVED
    assert np.abs(target.values(rows) - true).max() > 0.01


def test_hooks_of_modules(monkeypatch):
    """What a hook does after a hundred calls is met by no comparison."""
    module, calls = torch.nn.Sequential(torch.nn.Linear(1, 1)).double(), itertools.count()
    module[0].register_forward_hook(lambda part, inputs, output: output if next(calls) < 100 else output + 9)
    with pytest.raises(af.errors.InputError, match="no forward hooks"):
        read_network(module, as_box((1, 2)))
    monkeypatch.setattr(torch_modules, "_hooks", lambda module: iter(()))
    target, rows = read_network(module, as_box((1, 2))), np.array([[1.5]])
    assert target.status is af.types.Status.PROVED
    with torch.no_grad():
        assert max(abs(target.values(rows) - module(torch.tensor(rows)).numpy()) for _ in range(101)) > 1


def test_modules_in_training_mode(monkeypatch):
    """What is compiled is the module in evaluation mode, and the certificate says so."""
    torch.manual_seed(0)
    module, rows = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.BatchNorm1d(1)), np.linspace(1, 2, 9)[:, None]
    target = read_network(module, as_box((1, 2)))
    with torch.no_grad():
        assert np.abs(target.values(rows) - module.double()(torch.tensor(rows)).numpy()).max() > 0.1
    assert any("evaluation mode" in line for line in target.assumptions)
    monkeypatch.setattr(torch_modules, "_trains", lambda module: False)
    assert not any("evaluation mode" in line for line in read_network(module, as_box((1, 2))).assumptions)


def adds_in_place(write, a, b):
    """The mistake: a constant is added to the node that a product made."""
    a, b = (a, b) if hasattr(a, "node") else (b, a)
    node = write.build.nodes[a.node]
    if isinstance(b, np.ndarray) and node.operation == "linear":
        write.build.nodes[a.node] = replace(node, data={**node.data, "bias": node.data["bias"] + b})
        return a
    return added(write, a, b)


added = writer.Writer.add
GRAPHS = {
    "a product that is used again": [
        helper.make_node("MatMul", ["x", "W"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Add", ["s", "p"], ["y"]),
    ],
    "a bias of Gemm that is a value": [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Gemm", ["r", "W", "x"], ["y"]),
    ],
}


@pytest.mark.parametrize("nodes", GRAPHS.values(), ids=GRAPHS)
def test_graphs_that_were_once_misread(nodes, monkeypatch, tmp_path):
    path = onnx_file(tmp_path / "f.onnx", nodes, {"W": np.array([[-1.5]]), "b": np.array([0.5])})
    right, rows = read_network(path, as_box((1, 2))), np.array([[1.25]])
    assert right.status is af.types.Status.PROVED
    monkeypatch.setattr(writer.Writer, "add", adds_in_place)
    gemm = onnx_files.OPERATIONS["Gemm"]
    without_bias = lambda write, arguments, settings: gemm(write, arguments[:2], settings)  # noqa: E731
    monkeypatch.setitem(onnx_files.OPERATIONS, "Gemm", without_bias)
    assert status_of(path) is None  # found by its values
    monkeypatch.setattr(comparison, "refuse_misread", lambda *arguments: None)
    wrong = read_network(path, as_box((1, 2)))
    assert wrong.status is af.types.Status.PROVED
    assert abs(wrong.values(rows) - right.values(rows)) >= 0.5


def plain_average(light, heavy, values):
    """The mistake: weights and values as they are, whatever their size."""
    top, y = values.max(), (light * values).sum() / light.sum()
    for _ in range(6):
        chosen = np.where(values > y, heavy, light)
        y = (chosen * values).sum() / chosen.sum()
    rise = np.maximum((np.where(values > y, heavy, light) * (values - y)).sum(), 0.0) / light.sum()
    return min(np.nextafter(y + rise, inf), top)


def test_averages_of_small_values_under_small_weights(monkeypatch):
    """Their products underflow: the plain formula comes to 5e-324, and 2/7 of the values are true."""
    light, values = np.array([1e-289, 1e-289]), np.array([1e-36, -1e-36])
    heavy = light * [1.8, 1.0]
    for average, holds in ((mixture.largest_average, True), (plain_average, False)):
        assert (exact_supremum(light, heavy, values) <= Fraction(float(average(light, heavy, values)))) is holds


def test_comparisons_with_sums_that_overflow(monkeypatch):
    """The sum of 4 times 1e308 and 4 times -1e308 is 0, and inf - inf on the way; `nan < 0.5` is false."""

    def branch():
        return np.where(Interval([1e308] * 4 + [-1e308] * 4).sum(0) < 0.5, Interval(1.0), Interval(2.0))

    assert branch().lo == 1.0
    known = Interval.__init__

    def with_nan(self, lo, hi=None, defined=True):
        known(self, 0.0, 0.0, defined)
        self.lo, self.hi = np.asarray(lo, dtype=float), np.asarray(lo if hi is None else hi, dtype=float)

    def plain_sum(self, axis=None):
        return Interval(self.lo.sum(axis), self.hi.sum(axis))

    with np.errstate(all="ignore"):
        monkeypatch.setattr(Interval, "__init__", with_nan)
        assert branch().lo == 1.0
        monkeypatch.setattr(Interval, "sum", plain_sum)
        assert branch().lo == 1.0
        monkeypatch.setitem(UFUNCS, "less", lambda a, b: truth.TruthValues(a.hi < b.lo, a.lo < b.hi))
        assert branch().lo == 2.0


def test_errors_that_were_found_are_bounds_from_below(monkeypatch):
    """At one point x + 10^15 - 10^15 is known up to 1/4: an upper bound on the error there is not the error."""
    net = af.compile("x", (-1, 1), options={"tokens": 4}, construction="grid", proof=False)
    target = Expression("x + 1e15 - 1e15", net.domain)
    true = np.abs(net(np.linspace(-1, 1, 4001)) - np.linspace(-1, 1, 4001)).max()
    found = lambda: bound_error(target, net.network, None, most=100).found  # noqa: E731
    assert found() <= true
    monkeypatch.setattr(provers.boxes, "_least_error", lambda problem, ledger: ledger.found)
    assert found() > true


def test_factorials_that_no_float_holds(monkeypatch):
    """As a float 23! is off by half a unit; the quotient of this derivative is rounded in the same direction."""
    derivative = 1.3298958324939358

    def held():
        row = series._cycle([Interval([derivative])], 23)[23]
        return Fraction(row.lo.item()) <= Fraction(derivative) / factorial(23) <= Fraction(row.hi.item())

    assert held()
    monkeypatch.setattr(series, "_factorials", lambda n: Interval([float(factorial(k)) for k in range(n + 1)]))
    assert not held()


def test_the_comparison_of_networks_with_their_frameworks(monkeypatch):
    class Growing(torch.nn.Sequential):
        calls = 0

        def forward(self, x):
            Growing.calls += 1
            return Growing.calls * super().forward(x)

    module, hooked = Growing(torch.nn.Linear(1, 1)), torch.nn.Sequential(torch.nn.Linear(1, 1))
    hooked[0].register_forward_hook(lambda part, inputs, output: 2 * output)
    assert status_of(module) is status_of(hooked) is None
    monkeypatch.setattr(comparison, "refuse_misread", lambda *arguments: None)
    assert status_of(module) is af.types.Status.PROVED


def test_norms_of_small_errors_do_not_underflow(monkeypatch):
    """The square of 1e-164 is zero."""
    small = {"options": {"tokens": 4}, "norm": 2, "construction": "grid", "proof": False}
    net = af.compile("1e-164*sin(3*x)", (-1, 1), **small)
    claim, points = net.certificate.claim, np.linspace(-1, 1, 999)
    true = 1e-164 * np.sqrt(2 * np.mean((1e164 * net(points) - np.sin(3 * points)) ** 2))
    assert true <= bound_error(claim.target, claim.network, None, norm=2.0, most=8).bound

    def plain(values, low, high, p):
        volume = (high - low).prod(axis=1).reshape(-1, *[1] * (values.ndim - 1))
        return (values**p * volume) ** (1 / p)

    monkeypatch.setattr(rules.boxes, "norms_on_boxes", plain)
    assert true > bound_error(claim.target, claim.network, None, norm=2.0, most=8).bound


def test_the_identity_of_functions_in_a_cache(monkeypatch, tmp_path):
    def first(points, shift=0.0):
        return np.array([abs(x - shift) for x in points.ravel()])

    def values(shift):
        second = partial(first, shift=shift)
        asking = evaluations.Sampling(cache=tmp_path)
        return as_target(second, as_box((-1, 1)), 1.0, asking).values(np.array([[0.5]]))[0, 0]

    assert (values(0.0), values(0.25)) == (0.5, 0.25)
    monkeypatch.setattr(evaluations, "identity_of", lambda made_of: "0" * 64)
    assert values(0.0) == 0.5
    with pytest.raises(af.errors.InputError, match=r"the function .* as it is now"):
        values(0.25)
    monkeypatch.setattr(evaluations, "AGAIN", 0)
    assert values(0.25) == 0.5
