"""Proofs as data: checked without search, refused where they do not fit, never believed."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from math import inf, isinf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import attnfun as af
from attnfun.network import Network
from attnfun.proofs import Claim, Proof
from attnfun.proofs.proof import LEAF, Cover, Growing
from attnfun.proofs.provers import PROVERS, Task
from attnfun.proofs.provers import boxes as searching
from attnfun.proofs.rules import RULES, Checker
from attnfun.proofs.search import network_rows
from attnfun.targets import Status

certifying = import_module("attnfun.proofs.certify")
THEORY = Path(__file__).parent.parent / "docs" / "theory.md"
SQUARE = {"x": (-1, 1), "y": (-1, 1)}
SHOWN = {
    "boxes": lambda: af.compile("sin(3*x)*y", SQUARE, 0.3, construction="grid"),
    "boxes, L_2": lambda: af.compile("sin(3*x)", {"x": (-1, 1)}, 0.1, norm=2, construction="grid"),
    "tails": lambda: af.compile("1/sqrt(x)", {"x": (0, 1)}, 0.6, norm=1, construction="grid"),
    "structure": lambda: af.compile(af.MaxAffine([[1.0, 0.0], [-0.5, 1.0]], [0.0, 0.1]), [(-1, 1)] * 2, 1e-3),
    "circuit": lambda: af.compile("x*y + sqrt(x + 2)", SQUARE, 1e-4, construction="circuit"),
    "circuit, one direction": lambda: af.compile("cos(1 + 5*(x+y))", SQUARE, 1e-4, construction="spectral"),
    "planes": lambda: af.compile("x**2 + exp(y)", SQUARE, 0.2, construction="max-affine"),
    "rectifiers": lambda: af.compile("sin(3*x)*y", SQUARE, 0.3, construction="two-layer"),
    "one feature": lambda: af.compile(
        af.TruncatedLinear([[1.0], [0.5]], 0.1, -1.0, 1.5),
        af.Box([[-1], [-1]], [[2], [2]]),
        0.05,
        construction="truncated-linear",
    ),
    "in context": lambda: (
        af.incontext.Ridge(0.5, n_steps=8)
        .fit([[0.0, 1.0], [1.0, 0.5], [2.0, -1.0], [0.5, 2.0]], [1.0, 2.0, 2.5, 3.0])
        .certify()
    ),
    "parts": lambda: af.compile("sin(3*x)", {"x": (-1, 1)}, 0.05) + af.compile("x", {"x": (-1, 1)}, 0.05),
}
"""A certificate that each rule proves."""


@pytest.fixture(scope="module")
def nets():
    return {name: make() for name, make in SHOWN.items()}


@pytest.mark.parametrize("name", SHOWN)
def test_each_is_proved_by_its_rule(name, nets):
    assert nets[name].certificate.proof.rule == name.split(",")[0]


def largest_error(claim: Claim) -> float:
    """The largest error of the deployed network at some points."""
    rows = claim.domain.sample(500, np.random.default_rng(0))
    return float(np.abs(network_rows(claim.network, rows) - claim.imitated.values(rows)).max())


def no_search(*arguments, **keywords):
    raise AssertionError("checking must not search")


def test_a_stored_proof_is_checked_without_search(case, compiled, tmp_path, monkeypatch):
    net = compiled(case)
    if net.certificate.status is Status.ESTIMATED:
        assert net.certificate.proof is None
        return
    net.save(tmp_path / "f.safetensors")
    certificate = af.load(tmp_path / "f.safetensors").certificate
    assert certificate.proof is not None
    if certificate.claim.target is None:
        certificate = replace(certificate, claim=net.certificate.claim)  # the code of a function is in no file
    monkeypatch.setattr(searching, "search", no_search)
    for name in ("largest_error", "mean_error"):
        monkeypatch.setattr(certifying, name, no_search)
    again = certificate.recheck()
    if certificate.claim.parts:  # what was combined are the parts' bounds as stated, rounded up
        assert again.bound == pytest.approx(net.certificate.bound, rel=1e-9)
    else:
        unjudged = replace(net.certificate, judged=False)  # the word of a file on that is not believed
        assert again.as_dict() == unjudged.as_dict()


def test_every_rule_is_shown_and_named_in_the_theory(nets):
    used = {lemma.rule for net in nets.values() for lemma in net.certificate.proof.lemmas()}
    text = THEORY.read_text()
    for rule in RULES:
        assert f"rule `{rule}`" in text
    assert used | {"one token", "volume"} == set(RULES)
    assert {prover.rule for prover in PROVERS} <= set(RULES)


@pytest.mark.parametrize("prover", PROVERS, ids=lambda prover: prover.rule)
def test_provers_keep_their_contract(prover, nets):
    """A proof by the prover's own rule, or none; and the rule's bound holds."""
    tried = 0
    for name, net in nets.items():
        if not isinf(net.certificate.norm) or (prover.rule, name) == ("boxes", "rectifiers"):  # that takes minutes
            continue
        claim = net.certificate.claim
        attempt = prover.prove(claim, Task(goal=0.5)) if prover.applies(claim, inf) else None
        if attempt is not None:
            assert attempt.proof.rule == prover.rule
            assert Checker()(attempt.proof, claim).bound >= largest_error(claim)
            tried += 1
    assert tried


def changed(proof: Proof, draw) -> Proof:
    """A lie somewhere in a proof: a number, a length, a rule, a premise."""
    kind = draw(st.sampled_from(["number", "number", "cut off", "rule", "premises", "deeper"]))
    if proof.premises and kind in ("number", "cut off", "deeper"):
        place = draw(st.integers(-1, len(proof.premises) - 1))
        if place >= 0:
            inner = list(proof.premises)
            inner[place] = changed(inner[place], draw)
            return replace(proof, premises=tuple(inner))
    if kind == "rule":
        return replace(proof, rule=draw(st.sampled_from([*RULES, "faith"])))
    if kind == "premises":
        return replace(proof, premises=draw(st.sampled_from([(), (proof,), proof.premises[::-1], proof.premises * 2])))
    data = {name: array.copy() for name, array in proof.data.items()}
    full = [name for name, array in data.items() if array.size]
    if not full:
        return replace(proof, rule=draw(st.sampled_from([*RULES, "faith"])))
    name = draw(st.sampled_from(full))
    if kind == "cut off":
        data[name] = data[name][: draw(st.integers(0, data[name].size - 1))]
    else:
        numbers = [0.0, -1.0, 1e300, np.nan] if data[name].dtype.kind == "f" else [0, 1, 7, LEAF]
        data[name].flat[draw(st.integers(0, data[name].size - 1))] = draw(st.sampled_from(numbers))
    return replace(proof, data=data)


@pytest.mark.parametrize("name", SHOWN)
@settings(max_examples=25)
@given(data=st.data())
def test_a_prover_that_lies_is_caught_by_its_rule(name, nets, data):
    """Whatever a proof says, the rule refuses it or concludes a bound that holds."""
    certificate = nets[name].certificate
    proof = changed(certificate.proof, data.draw)
    try:
        conclusion = Checker()(proof, certificate.claim, certificate.norm)
    except af.errors.ProofFailed:
        return
    if certificate.norm == inf:
        assert conclusion.bound >= largest_error(certificate.claim)
    else:
        assert conclusion.bound >= 0.99 * certificate.found


def test_a_proof_of_another_network_proves_nothing_false(nets):
    net = nets["boxes"]
    claim = net.certificate.claim
    layers = tuple(
        replace(layer, memory=layer.memory * 1.5) if getattr(layer, "memory", None) is not None else layer
        for layer in claim.network.layers
    )
    other = replace(claim, network=Network(layers, claim.network.length, claim.network.dtype))
    assert Checker()(net.certificate.proof, other).bound >= largest_error(other) > net.certificate.bound


@pytest.mark.parametrize(
    ("axes", "series", "roots"),
    [
        ([0, LEAF], [1], 1),  # a child is missing
        ([LEAF, 0, LEAF], [1, 1], 1),  # nodes that nobody reaches, one its own child
        ([5, LEAF, LEAF], [1, 1], 1),  # an axis that does not exist
        ([0, LEAF, LEAF], [1], 1),  # a flag is missing
        ([LEAF, LEAF], [1, 1], 1),  # two trees for one root
        ([], [], 1),
    ],
)
def test_what_is_no_cover_is_refused(axes, series, roots):
    data = {"axes": np.array(axes, dtype=np.uint8), "series": np.array(series, dtype=np.uint8)}
    with pytest.raises(af.errors.ProofFailed, match="rule 'boxes' must"):
        Cover.read("boxes", data, roots, 2)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1)), max_size=20), st.integers(1, 3))
def test_leaves_of_any_tree_cover_its_roots(cuts, roots):
    tree, ends = Growing(roots), dict.fromkeys(range(roots), ((0.0, 1.0), (0.0, 1.0)))
    for pick, axis in cuts:
        node = sorted(ends)[pick % len(ends)]
        first = int(tree.cut(np.array([node]), np.array([axis]))[0])
        box = list(ends.pop(node))
        low, high = box[axis]
        for child, side in ((first, (low, (low + high) / 2)), (first + 1, ((low + high) / 2, high))):
            ends[child] = tuple(side if k == axis else box[k] for k in range(2))
    cover = tree.cover()
    again = Cover.read("boxes", cover.data(), roots, 2)
    assert again.leaf.sum() == len(ends) == roots + len(cuts)
    assert sum((a[1] - a[0]) * (b[1] - b[0]) for a, b in ends.values()) == pytest.approx(roots)
    reached, level = 0, np.arange(roots)
    while len(level):
        reached += len(level)
        level = again.children(level[~again.leaf[level]]).ravel()
    assert reached == len(again.axes)


def edited(path, change) -> None:
    """A file with another description of its proof."""
    with safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["attnfun"])
    tensors = load_file(path)
    change(header, tensors)
    save_file(tensors, path, {"attnfun": json.dumps(header)})


def deep(levels: int) -> dict:
    inner: dict = {"rule": "one token", "data": [], "premises": []}
    for _ in range(levels):
        inner = {"rule": "one token", "data": [], "premises": [inner]}
    return inner


@pytest.mark.parametrize(
    "change",
    [
        lambda header, tensors: header.update(proof=deep(100)),
        lambda header, tensors: header.update(proof={"rule": 3, "data": [], "premises": []}),
        lambda header, tensors: header.update(proof=[]),
        lambda header, tensors: header["proof"].update(data=["axes", "nothing"]),
        lambda header, tensors: header["proof"].update(data=[["axes"]]),
        lambda header, tensors: tensors.pop("proof.axes"),
    ],
)
def test_a_file_whose_proof_cannot_be_read_is_refused(change, nets, tmp_path):
    path = tmp_path / "f.safetensors"
    nets["boxes"].save(path)
    edited(path, change)
    with pytest.raises(af.errors.FileFormatError, match="proof"):
        af.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda header, tensors: tensors.update({"proof.axes": np.zeros(10**6, dtype=np.uint8)}),
        lambda header, tensors: tensors.update({"proof.goal": np.zeros((3, 3))}),
        lambda header, tensors: header["proof"].update(rule="faith"),
        lambda header, tensors: header["proof"].update(rule="planes"),
        lambda header, tensors: header["certificate"].update(bound=header["certificate"]["bound"] / 2),
    ],
)
def test_a_file_whose_proof_says_nothing_is_not_believed(change, nets, tmp_path):
    path = tmp_path / "f.safetensors"
    nets["boxes"].save(path)
    edited(path, change)
    with pytest.raises(af.errors.AttnfunError, match=r"rule|contradict|proved again"):
        af.load(path).certificate.recheck()


def test_a_proof_may_be_left_out_and_is_then_searched_for(nets, tmp_path):
    path = tmp_path / "f.safetensors"
    for name in ("boxes", "parts"):
        nets[name].save(path, proof=False)
        assert not any("proof" in tensor for tensor in load_file(path))
        certificate = af.load(path).certificate
        assert certificate.proof is None
        assert certificate.recheck().bound <= certificate.bound * (1 + 1e-9)


def test_one_token_and_volume_are_rules_of_their_own():
    sequence = af.compile(lambda X: np.tanh(X), af.Box([[-1], [-1]], [[1], [1]]), 0.05)
    assert sequence.certificate.proof.rule == "one token"
    mean = af.compile("max(x, y) - 0.5*x", SQUARE, 1e-3, norm=2)
    assert mean.certificate.proof.rule == "volume"
    for net in (sequence, mean):
        assert net.certificate.recheck().bound == net.certificate.bound


def test_a_proof_is_readable(nets):
    text = str(nets["circuit"].certificate.proof)
    assert text.startswith("circuit: units")
    assert "  boxes: a cover by" in text
