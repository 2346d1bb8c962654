"""`compile` gives small proofs to the judge: what certificates and files say of it, and what a disagreement is."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import attnfun as af
from attnfun.errors import FileFormatError, SoundnessError
from attnfun.judge import rules
from attnfun.proofs import judging
from attnfun.resources.deadline import NEVER
from cases import branching
from clocks import readings

WAVE = ("sin(3*x)", {"x": (-1, 1)})


@pytest.fixture
def usual(monkeypatch):
    """As many proofs are judged as outside of the tests."""
    monkeypatch.setattr(judging, "LEAVES", 64)
    monkeypatch.setattr(judging, "BOXES", 256)


@pytest.fixture(scope="module")
def wave() -> af.types.Compiled:
    return af.compile(*WAVE, 0.05)


def rewritten(path, change) -> None:
    """Change the certificate in the description of a file."""
    with safe_open(str(path), "numpy") as file:
        description = json.loads(file.metadata()["attnfun"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    change(description["certificate"])
    save_file(tensors, str(path), metadata={"attnfun": json.dumps(description)})


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_compile_says_that_the_judge_agrees(usual, dtype):
    certificate = af.compile(*WAVE, 0.2, dtype=dtype).certificate
    assert certificate.judged
    assert certificate.headline.endswith("proved, and judged independently")
    assert "not judged" not in str(certificate)


@pytest.mark.parametrize(
    ("target", "domain", "eps", "keywords"),
    [
        ("abs(x)*exp(x)", {"x": (-1, 1)}, 1e-3, {}),
        ("[sin(x), cos(x)]", {"x": (0, 3)}, 1e-3, {}),
        ("sin(3*x)", {"x": (-1, 1)}, 0.05, {"norm": 2}),
        (af.MaxAffine([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.1]), [(-1, 1)] * 2, 1e-3, {}),
        (af.TruncatedLinear([[1.0], [2.0]], 0.1, -1.0, 1.0), af.Box([[-1], [-1]], [[1], [1]]), 1e-3, {}),
    ],
)
def test_targets_of_other_kinds_are_judged(usual, target, domain, eps, keywords):
    assert af.compile(target, domain, eps, **keywords).certificate.judged


def test_an_estimate_claims_nothing_to_judge():
    certificate = af.compile(*WAVE, 0.05, proof=False).certificate
    assert (certificate.judged, certificate.not_judged) == (False, "")


def test_what_is_declared_is_not_judged_and_named():
    certificate = af.compile(
        branching, [(0, 1)] * 2, construction="grid", options={"tokens": 4}, lipschitz=2.5
    ).certificate
    assert not certificate.judged
    assert certificate.status.value == "conditional"
    assert "not judged: the judge cannot know that branching is Lipschitz with constant 2.5" in str(certificate)
    assert "definition is not in the file (lipschitz)" in certificate.verdict().reason


def test_the_number_of_leaves_decides(wave, monkeypatch):
    leaves = wave.certificate.proof.leaves
    monkeypatch.setattr(judging, "BOXES", 1000)
    monkeypatch.setattr(judging, "LEAVES", leaves)
    assert judging.judged(replace(wave.certificate, judged=False), NEVER).judged
    monkeypatch.setattr(judging, "LEAVES", leaves - 1)
    left = judging.judged(replace(wave.certificate, judged=False), NEVER)
    assert not left.judged
    assert f"its proof has {leaves} boxes, and {leaves - 1} at most" in left.not_judged
    assert left.status is af.types.Status.PROVED


def test_boxes_that_the_judge_needs_are_counted(wave, monkeypatch):
    monkeypatch.setattr(judging, "LEAVES", 1000)
    monkeypatch.setattr(judging, "BOXES", 1)
    assert "1 boxes do not settle it" in judging.judged(replace(wave.certificate, judged=False), NEVER).not_judged


def test_a_large_network_is_not_judged_at_once(usual, wave, monkeypatch):
    monkeypatch.setattr(judging, "SCORES", 1)
    assert "its network is large" in judging.judged(replace(wave.certificate, judged=False), NEVER).not_judged


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_time_limit_ends_judging_between_boxes(usual, wave, count):
    """The clock moves when it is read, once before each box."""
    left = judging.judged(replace(wave.certificate, judged=False), readings(count))
    assert not left.judged
    assert left.not_judged == "the time limit was reached"


def test_the_time_limit_ends_judging_between_heads(usual):
    net = af.compile(af.MaxAffine([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.1]), [(-1, 1)] * 2, 1e-3)
    assert net.certificate.judged
    assert judging.judged(net.certificate, readings(0)).not_judged == "the time limit was reached"


@pytest.mark.parametrize("share", [0.99, 0.5, 0.0])
def test_a_disagreement_is_an_error_that_asks_for_a_report(usual, wave, share):
    """A bound below the largest error that was found."""
    false = replace(wave.certificate, bound=share * wave.certificate.found, judged=False)
    with pytest.raises(SoundnessError, match="please report it") as error:
        judging.judged(false, NEVER)
    assert "no bound below" in str(error.value)


def test_files_are_not_believed(usual, wave, tmp_path):
    path = tmp_path / "f.safetensors"
    certificate = judging.judged(wave.certificate, NEVER)
    replace(wave, certificate=certificate).save(path)
    assert certificate.as_dict()["judged"] is True
    loaded = af.load(path).certificate
    assert not loaded.judged
    assert "judged" not in loaded.headline
    assert "which is not believed" in str(loaded)
    assert loaded.as_dict()["judged"] is False
    again = loaded.recheck(engine="arb")
    assert again.judged
    assert not again.not_judged


def test_a_lie_in_a_file_is_found_by_judging_again(wave, tmp_path):
    path = tmp_path / "f.safetensors"
    wave.save(path)

    def lie(certificate: dict) -> None:
        shares = {name: 0.2 * part for name, part in certificate["parts"].items()}
        certificate |= {
            "bound": 0.2 * certificate["bound"],
            "largest_error_found": 0.0,
            "judged": True,
            "parts": shares,
        }

    rewritten(path, lie)
    loaded = af.load(path).certificate
    assert not loaded.judged
    with pytest.raises(af.errors.ProofFailed):
        loaded.recheck(engine="arb")
    assert not loaded.verdict().agreed


@pytest.mark.parametrize("word", [1, "yes", None, []])
def test_the_word_of_a_file_must_be_a_truth_value(wave, tmp_path, word):
    path = tmp_path / "f.safetensors"
    wave.save(path)
    rewritten(path, lambda certificate: certificate.update(judged=word))
    with pytest.raises(FileFormatError, match="judged"):
        af.load(path)


def test_files_without_that_word_load(wave, tmp_path):
    path = tmp_path / "f.safetensors"
    wave.save(path)
    rewritten(path, lambda certificate: certificate.pop("judged"))
    assert af.load(path).certificate.not_judged == ""


def test_another_function_is_not_judged_by_the_word_of_the_first(usual):
    net = af.compile(np.sin, (-1, 1), 0.1)
    assert net.certificate.judged
    assert net.certificate.recheck().judged
    assert not net.certificate.recheck(target=np.sin).judged
    assert not (net + 1.0).certificate.judged


def test_rounded_inputs_cost_the_same_in_both_readings(usual):
    """What x is rounded to lies where the target is 22026; in the L_1 norm a bound says nothing about one box."""
    net = af.compile(
        lambda p: np.exp(20 * (1e8 + 0.5 - p[..., 0])),
        [(1e8 + 0.5, 1e8 + 1.5), (0, 1e6)], 3e5, norm=1, dtype="float32", construction="grid",
    )  # fmt: skip
    assert net.certificate.bound <= 3e5
    assert net.certificate.judged


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_larger_bound_of_the_judge_is_no_disagreement_and_is_said(usual, wave, factor, monkeypatch):
    """Both bounds are from above. Far larger ones ask for a report, for one of the two programs can be mended."""
    verdict = wave.certificate.verdict()
    larger = replace(verdict, agreed=False, judged=factor * judging.COARSER * verdict.stated)
    assert verdict.agreed
    monkeypatch.setattr(type(wave.certificate), "verdict", lambda self, limits: larger)
    certificate = judging.judged(replace(wave.certificate, judged=False), NEVER)
    assert not certificate.judged
    assert certificate.headline.endswith("proved")
    assert f"not judged: the judge comes to {larger.judged:.3g} only" in str(certificate)
    assert ("please report it" in str(certificate)) == (factor > 1)


@pytest.mark.parametrize(
    ("text", "domain", "keywords"),
    [
        ("sin(3*x)", {"x": (-1, 1)}, {"eps": 0.05}),
        ("sin(3*x)", {"x": (-1, 1)}, {"eps": 0.1, "dtype": "float32"}),
        ("sin(3*x)*y", {"x": (-1, 1), "y": (0, 1)}, {"eps": 0.1}),
        ("sin(3*x)", {"x": (-1, 1)}, {"eps": 0.1, "norm": 1}),
        ("abs(x - 0.3)**-0.45", {"x": (0, 0.3)}, {"eps": 0.5, "norm": 1}),
        ("abs(x)*exp(x)", af.Region("x**2 < 0.5", {"x": (-1, 1)}), {"eps": 0.1}),
    ],
)
def test_what_is_false_is_contradicted_without_the_search(text, domain, keywords, monkeypatch):
    """Half of the error is stated, and the certificate knows no point: the judge finds one, or boxes, by itself."""
    fewer = replace(rules.TUNING, most_finer=64)  # bounds from above that are a little closer change nothing here
    monkeypatch.setattr(rules, "TUNING", fewer)
    certificate = af.compile(text, domain, **keywords).certificate
    false = replace(certificate, bound=certificate.found / 2, found=0.0)
    verdict = false.verdict()
    assert not verdict.agreed
    assert verdict.refuted
    assert false.bound < verdict.least <= certificate.bound
    assert "the error is at least" in verdict.reason
    assert judging.contradicts(verdict, false)


def test_a_false_proof_of_another_function_is_contradicted(usual):
    """A bump of width 2e-5 that was once taken for zero: the judge comes to the point by its own bounds."""
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-3)
    bump = "sin(3*x) + max(1 - (1e5*(x - 0.500013))**2, 0)"
    claim = replace(net.certificate.claim, description={**net.certificate.claim.description, "text": bump})
    with pytest.raises(SoundnessError, match=r"the error is at least 0\.9.*report"):
        judging.judged(replace(net.certificate, claim=claim, judged=False), NEVER)
