"""Files are not believed: every field of a saved network is changed in turn, and no reader is misled.

A change is refused on loading, or what is loaded says exactly what the valid file says (the field is derived), or the
changed statement does not hold when it is proved again, or it does: then it is true as stated. Fields that say nothing
about the error, `LABELS`, may show what they were changed to; nothing else about the network changes with them.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from functools import cache
from math import inf, nan

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import attnfun as af
from attnfun.arithmetic.formats import DTYPES
from attnfun.runtime import sharding
from test_cli import attnfun

LINE = {"x": (-1, 1)}


def sine(p):
    """A function whose code is not in the file."""
    return np.sin(p)


def stepwise(p):
    """A black box."""
    p = np.asarray(p)
    return np.array([max(float(a), 0.0) for a in p.ravel()]).reshape(p.shape)


@cache
def made(name: str) -> af.types.Compiled:
    small = {"options": {"tokens": 6}, "construction": "grid"}
    match name:
        case "one head":
            return af.compile("sin(3*x)", LINE, 0.5, construction="grid")
        case "circuit":
            return af.compile("x*y", {**LINE, "y": (0, 1)}, 0.1, construction="circuit", dtype="float32")
        case "in the mean":
            return af.compile("sin(3*x)", LINE, 0.5, construction="grid", norm=2)
        case "samples":
            X = np.random.default_rng(0).normal(size=(40, 2))
            return af.compile(af.Samples(X, X[:, 0]))
        case "declared":
            return af.compile(sine, (-1, 1), 0.5, lipschitz=1.5, construction="grid")
        case "traced":
            return af.compile(sine, (-1, 1), 0.5, construction="grid")
        case "black box":
            return af.compile(stepwise, (-1, 1), **small)
        case "undefined in places":
            return af.compile("sqrt(abs(x - 0.123456) - 1e-14)", LINE, 0.5, construction="grid")
        case "planes":
            return af.compile(af.MaxAffine([[1.0], [-1.0]], [0.0, 0.1]), [(-1, 1)], 0.1)
        case "clipped":
            return af.compile(af.TruncatedLinear([[1.0]], 0.0, -0.5, 0.5), [(-1, 1)], 0.1)
        case "region":
            return af.compile("x*y", af.Region("x**2 + y**2 <= 1", {**LINE, "y": (-1, 1)}), proof=False, **small)
        case _:
            return made("one head").restrict({"x": (-0.5, 1)}) + 1.0


FILES = [
    "one head", "circuit", "in the mean", "samples", "declared", "traced", "black box", "undefined in places", "planes",
    "clipped", "region", "combined",
]  # fmt: skip
FUNCTIONS = {"traced": sine, "black box": stepwise}
"""What a proof needs that is not in the file."""
LABELS = (
    "construction",
    "eps",
    "a_priori",
    "a_priori_proved",
    "paper_bound",
    "paper_tokens",
    "figures",
    "alternatives",
    "options",
)
LABELS += ("outside", "attnfun", "target.name", "domain.names", "certificate.seed", "certificate.effort")
"""What was asked for, planned and named; how hard was looked. None of it is a statement about the error."""
NOTES = ("samples", "black box")
"""Estimates whose notes are words about a function or data that the file does not have."""
HOSTILE = [nan, inf, -inf, -1, 0, 1e300, 10**400, True, None, "", "x", "proved at every point", "a\nb", [], [nan], {}]
OTHERS = {
    "dtype": list(DTYPES),
    "status": ["proved", "conditional", "estimated"],
    "norm": ["inf", 1, 2, 3.5],
    "kind": ["traced", "expression", "samples", "composed", "restricted", "softmax", "affine"],
    "text": ["sin(3*x) + 1", "(" * 5000, "y", "1/0", "sin(3*x)"],
    "predicate": ["x < 2", "x < -2", "sin(x)"],
    "construction": ["circuit"],
    "outside": ["clip", "allow"],
}
"""Values that would do elsewhere."""
MISSING = object()


def leaves(data, path=()):
    """Every field, the objects and lists among them too."""
    if path:
        yield path
    inner = data.items() if isinstance(data, dict) else enumerate(data[:2]) if isinstance(data, list) else ()
    for name, value in inner:
        yield from leaves(value, (*path, name))


def changed(data, path, value):
    """A copy in which one field is another, or not there."""
    data = copy.deepcopy(data)
    holder = data
    for step in path[:-1]:
        holder = holder[step]
    if value is MISSING:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return data


def values_for(path, value, share=slice(None)):
    """What a field is changed to: a share of all that is tried."""
    numbers = (value / 2, value * 2, value + 1) if type(value) in (int, float) and "certificate" in path else ()
    yield from [MISSING, *HOSTILE, *OTHERS.get(path[-1], ()), *numbers][share]


def description(path):
    with safe_open(str(path), "numpy") as file:
        return json.loads(file.metadata()["attnfun"])


def told(net: af.types.Compiled):
    """All that a reader is told about the error, by the network and by its parts; who judged it is forgotten."""
    own, *parts = [
        replace(each, judged=False, not_judged="") for each in (net.certificate, *net.certificate.claim.parts)
    ]
    words = [each.as_dict() for each in (own, *parts)]
    return json.dumps([words, str(own), net.domain.as_dict(), net.output_shape])


def weights(net: af.types.Compiled):
    """All that the layers are made of."""
    fields = [value for layer in net.network.layers for value in vars(layer).values()]
    return [value.tobytes() if isinstance(value, np.ndarray) else value for value in fields]


def is_label(path) -> bool:
    words = [str(step) for step in path]
    while words[0] == "parts":
        words = words[2:]
    dotted = ".".join(words)
    return any(dotted == label or dotted.startswith(f"{label}.") for label in LABELS)


def fate(path, valid: af.types.Compiled, name: str, field) -> str:
    """What becomes of a changed file; an error if it misleads."""
    try:
        net = af.load(path)
    except (af.errors.FileFormatError, af.errors.InputError):
        return "refused"
    if told(net) == told(valid) and weights(net) == weights(valid):
        return "derived"
    if is_label(field):
        assert net.certificate.bound == valid.certificate.bound
        assert net.certificate.status is valid.certificate.status
        return "label"
    if net.certificate.status is af.types.Status.ESTIMATED and name in NOTES:
        assert "not a proof" in net.certificate.meaning or "bounds nothing else" in net.certificate.meaning
        return "estimated"
    try:
        again = net.certificate.recheck(FUNCTIONS.get(name))
    except (af.errors.ProofFailed, af.errors.InputError):
        return "does not hold"
    assert again.bound <= net.certificate.bound * (1 + 1e-12)
    assert again.dtype == net.network.dtype
    return "holds as stated"


SHARES = 16
"""Each file is tried with one value in so many for each field, another one for the next field; the numbers
of the first file's certificate with all."""


@pytest.mark.parametrize("name", FILES)
def test_no_changed_field_misleads_anybody(name, tmp_path):
    path = tmp_path / "f.safetensors"
    made(name).save(path)
    valid, data, tensors = af.load(path), description(path), load_file(path)
    assert told(valid) == told(made(name))
    fates = set()
    for number, field in enumerate(leaves(data), FILES.index(name)):
        value = data
        for step in field:
            value = value[step]
        every = name == FILES[0] and field[0] == "certificate" and len(field) == 2
        for other in values_for(field, value, slice(None) if every else slice(number % SHARES, None, SHARES)):
            if type(other) is not type(value) or other != value:
                save_file(tensors, path, {"attnfun": json.dumps(changed(data, field, other))})
                fates.add(fate(path, valid, name, field))
    assert fates >= {"refused", "derived"}


def rewritten(name, path, **changes):
    """A file with other fields of the certificate."""
    made(name).save(path)
    data = description(path)
    for dotted, value in changes.items():
        *steps, last = dotted.split("__")
        holder = data
        for step in steps:
            holder = holder[step]
        holder[last] = value
    save_file(load_file(path), path, {"attnfun": json.dumps(data)})
    return path


BELIEVED = {
    "a negative part": {"certificate__bound": 1e-9, "certificate__parts__windows": -1.0},
    "no number": {"certificate__bound": nan},
    "no bound": {"certificate__bound": inf, "certificate__parts__construction": inf},
    "another dtype": {"certificate__dtype": "float32"},
    "a negative norm": {"certificate__norm": -1},
    "an error larger than the bound": {"certificate__largest_error_found": 100.0},
    "a part that is missing": {"certificate__parts": {"construction": 0.5}},
    "more random points than points": {"certificate__effort__points": 5},
    "a small bound alone": {"certificate__bound": 1e-9},
}


@pytest.mark.parametrize("changes", BELIEVED.values(), ids=BELIEVED)
def test_what_contradicts_itself_is_refused(changes, tmp_path):
    path = rewritten("one head", tmp_path / "f.safetensors", **changes)
    with pytest.raises(af.errors.FileFormatError):
        af.load(path)


@pytest.mark.parametrize("engine", ["interval", "arb"])
def test_the_stated_bound_is_compared_with_the_one_proved(engine, tmp_path):
    net = made("one head")
    for factor, holds in ((1.0, True), (0.5, False)):
        bound, parts = net.certificate.bound * factor, {k: v * factor for k, v in net.certificate.parts.items()}
        fields = {"bound": bound, "parts": parts, "largest_error_found": min(bound, net.certificate.found)}
        changes = {f"certificate__{name}": value for name, value in fields.items()}
        path = rewritten("one head", tmp_path / "f.safetensors", **changes)
        if holds:
            assert af.load(path).certificate.recheck(engine=engine).bound <= bound * (1 + 1e-12)
        else:
            with pytest.raises(af.errors.ProofFailed, match="could not be proved again"):
                af.load(path).certificate.recheck(engine=engine)


def test_words_are_derived(tmp_path):
    words = {"certificate__statement": "error <= 0 proved", "target__where": "all x", "target__meaning": "it is exact"}
    words |= {"target__name": "Samples(9 rows)", "target__variables": 9}
    path = rewritten("samples", tmp_path / "f.safetensors", **words)
    assert told(af.load(path)) == told(made("samples"))
    path = rewritten("one head", path, certificate__assumptions=["nothing"], certificate__statement="exact")
    assert told(af.load(path)) == told(made("one head"))


LABELLED = {
    "a name that says something": ("traced", {"target__name": "sine, proved to be exact,"}),
    "a name of a declared function that says something": ("declared", {"target__name": "that x"}),
    "a name of a black box that says something": ("black box", {"target__name": "error <= 0 proved"}),
    "no name": ("traced", {"target__name": ""}),
    "a note on a black box that says something": ("black box", {"certificate__assumptions": ["it is proved"]}),
    "a note on another black box": (
        "black box",
        {
            "certificate__assumptions": [
                "sine could not be traced (x): declare lipschitz= for a conditional certificate"
            ]
        },
    ),
    "a note on data that says something": ("samples", {"certificate__assumptions": ["it is proved"] * 3}),
    "no note on data": ("samples", {"certificate__assumptions": []}),
    "data that were not held out": ("samples", {"target__held_out": False}),
    "other rows": ("samples", {"target__rows": 41}),
    "no version": ("one head", {"attnfun": "0'; echo '"}),
    "a figure that looks like the bound": ("one head", {"figures__bound": 1e-12}),
    "a figure of another construction": ("one head", {"figures__planes": 3.0}),
    "a figure of two lines": ("one head", {"figures": {"cells\nbound": 1e-12}}),
    "figures of a combination": ("combined", {"figures__cells": 3.0}),
    "an option of another construction": ("one head", {"options__density": 3.0}),
    "an option that is no name": ("circuit", {"options": {"error <= 0 proved": None}}),
    "options of a combination": ("combined", {"options__tokens": 3.0}),
    "a theorem for a combination": ("combined", {"construction": "grid"}),
    "a combination for a theorem": ("one head", {"construction": "composition"}),
    "another choice": ("one head", {"construction": "cross"}),
    "two choices": (
        "one head",
        {"alternatives": 2 * [{"construction": "grid", "tokens": 3, "depth": 1, "verdict": "chosen"}]},
    ),
    "a choice that was missed": (
        "one head",
        {"alternatives": [{"construction": "grid", "tokens": 3, "depth": 1, "verdict": "missed"}]},
    ),
    "an alternative that is no construction": (
        "one head",
        {"alternatives": [{"construction": "exact", "tokens": 3, "depth": 1, "verdict": "more tokens"}]},
    ),
    "an estimate called a bound": ("one head", {"a_priori_proved": True}),
    "an estimate of a black box called a bound": ("black box", {"a_priori_proved": True}),
    "an estimate from data called a bound": ("samples", {"a_priori_proved": True}),
    "a bound of a combination that it never had": ("combined", {"a_priori": 1e-9}),
}


@pytest.mark.parametrize(("name", "changes"), LABELLED.values(), ids=LABELLED)
def test_labels_that_the_network_cannot_have_are_refused(name, changes, tmp_path):
    path = rewritten(name, tmp_path / "f.safetensors", **changes)
    with pytest.raises(af.errors.FileFormatError):
        af.load(path)


@pytest.mark.parametrize(
    ("name", "proved"), [("declared", True), ("clipped", True), ("combined", True), ("traced", False)]
)
def test_what_was_said_before_building_is_read_where_a_theorem_proves_it(name, proved, tmp_path):
    path = tmp_path / "f.safetensors"
    made(name).save(path)
    assert af.load(path).a_priori_proved is proved


@cache
def rectifiers() -> af.types.Compiled:
    layers = torch.nn.Linear(1, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)
    torch.manual_seed(0)
    return af.compile(torch.nn.Sequential(*layers).double().eval(), [(-1, 1)], 0.1)


def assuming(line, path):
    """A file of a rectifier network with an assumption."""
    rectifiers().save(path)
    data = changed(description(path), ("target", "assumptions"), [line])
    save_file(load_file(path), path, {"attnfun": json.dumps(data)})
    return path


def test_assumptions_about_networks_are_those_of_their_readers(tmp_path):
    path = tmp_path / "f.safetensors"
    for line in (
        "Sequential runs in evaluation mode, as after Sequential.eval(); it was given in training mode",
        "the values of W, b are those in Sequential; callers of the model may override them",
    ):
        assert line in af.load(assuming(line, path)).certificate.assumptions
        for other in (line.replace("Sequential", "Module"), f"{line}, and it is exact", "it is exact"):
            with pytest.raises(af.errors.FileFormatError, match="assumptions of a network"):
                af.load(assuming(other, path))


def test_notes_of_parts_are_derived(tmp_path):
    path = tmp_path / "f.safetensors"
    net = made("traced") + made("black box") * 2.0
    net.save(path)
    data = changed(description(path), ("certificate", "assumptions"), ["it is proved"])
    save_file(load_file(path), path, {"attnfun": json.dumps(data)})
    assert af.load(path).certificate.assumptions == net.certificate.assumptions


def test_no_changed_field_of_a_frame_of_shards_misleads_anybody(monkeypatch, tmp_path):
    monkeypatch.setattr(sharding, "LEAST_BANK", 4)
    monkeypatch.setattr(sharding, "LEAST_SHARD", 1)
    made("one head").split(tmp_path, 3)
    frame, points = tmp_path / "frame.safetensors", np.linspace(-1, 1, 9)
    data, tensors, valid = description(frame), load_file(frame), af.types.Sharded(tmp_path)(points)
    for field in leaves(data):
        for other in [*values_for(field, None), 1, 2, 4]:
            save_file(tensors, frame, {"attnfun": json.dumps(changed(data, field, other))})
            try:
                values = af.types.Sharded(tmp_path)(points)
            except (af.errors.FileFormatError, af.errors.InputError):
                continue
            assert np.array_equal(values, valid)


STAGES = {
    "no numbers": {"0.weight": np.full((1, 2), nan)},
    "infinite numbers": {"1.bias": np.full(1, inf)},
    "another width": {"1.weight": np.ones((3, 1))},
    "more axes": {"0.weight": np.ones((1, 1, 2))},
    "a bias too short": {"0.bias": np.zeros(1)},
    "whole numbers": {"0.weight": np.ones((1, 2), dtype=np.int64)},
    "ends that are no numbers": {"0.low": np.full(2, nan)},
    "ends at infinity": {"0.low": np.full(2, inf)},
    "ends in another order": {"0.low": np.full(2, 1.0), "0.high": np.zeros(2)},
    "more outputs": {"1.weight": np.ones((2, 2)), **{f"1.{name}": np.zeros(2) for name in ("bias", "low", "high")}},
}


@pytest.mark.parametrize("changes", STAGES.values(), ids=STAGES)
def test_stages_of_a_target_fit_together(changes, tmp_path):
    path = tmp_path / "f.safetensors"
    rectifiers().save(path)
    assert af.load(path).certificate.proved
    tensors = load_file(path) | {f"target.{name}": array for name, array in changes.items()}
    save_file(tensors, path, {"attnfun": json.dumps(description(path))})
    with pytest.raises(af.errors.FileFormatError, match="target must have"):
        af.load(path)


def odd(p):
    """A black box that gives a reason of several lines."""
    if not isinstance(p, np.ndarray):
        raise TypeError("two\nlines\x07")
    return np.abs(p)


def called(name):
    """A function of another name."""

    def function(p):
        return np.sin(p)

    function.__name__ = name
    return function


@pytest.mark.parametrize("target", [odd, called("a\nb c"), called(""), "sin(3*x)\t+\n x  # a wave\x07"])
def test_what_cannot_be_printed_on_one_line_is_not_written(target, tmp_path):
    net = af.compile(target, LINE, options={"tokens": 6}, construction="grid")
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    assert told(again) == told(net)
    assert again.name == net.name
    assert "".join([again.name, *again.certificate.assumptions]).isprintable()


@pytest.mark.parametrize("name", ["x=-100:100, y", "x in [-100, 100], y", ""])
def test_a_name_of_an_axis_does_not_look_like_a_domain(name, tmp_path):
    made("traced").save(tmp_path / "f.safetensors")
    data = changed(description(tmp_path / "f.safetensors"), ("domain",), {"lo": [-1.0], "hi": [1.0], "names": [name]})
    save_file(load_file(tmp_path / "f.safetensors"), tmp_path / "f.safetensors", {"attnfun": json.dumps(data)})
    net = af.load(tmp_path / "f.safetensors")
    assert repr(net.domain) == f"Box({name!r}=-1:1)"
    assert f"for x in Box({name!r}=-1:1)" in str(net.certificate)


def test_names_of_axes_are_lines_of_text():
    with pytest.raises(af.errors.InputError, match="names must be a list of lines of text"):
        af.Box([0.0], [1.0], ["x\ny"])


def test_names_of_functions_made_of_others_are_derived(tmp_path):
    path = rewritten("combined", tmp_path / "f.safetensors", target__name="cos(x)")
    data = changed(description(path), ("parts", 1, "target", "name"), "cos(x)")
    data = changed(data, ("parts", 0, "target", "name"), "cos(x)")
    save_file(load_file(path), path, {"attnfun": json.dumps(data)})
    net = af.load(path)
    assert (net.name, net.certificate.claim.parts[1].claim.name) == ("sin(3*x) + 1", "sin(3*x)")
    assert "cos" not in repr(net) + str(net.summary())


def test_a_declaration_cannot_be_hidden(tmp_path):
    path = rewritten("declared", tmp_path / "f.safetensors", certificate__assumptions=[])
    assert "Lipschitz with constant 1.5" in str(af.load(path).certificate)
    with pytest.raises(af.errors.FileFormatError, match=r"certificate\.status must be conditional or weaker"):
        af.load(rewritten("declared", path, certificate__status="proved"))


def test_the_command_line_refuses_what_does_not_hold(tmp_path):
    path = rewritten("one head", tmp_path / "f.safetensors", **BELIEVED["a negative part"])
    for command in ("verify", "info"):
        done = attnfun(command, str(path))
        assert done.returncode == 2
        assert "certificate.parts.windows must be a number >= 0" in done.stderr.replace("\n", " ")
        assert "proved" not in done.stdout
