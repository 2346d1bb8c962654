"""The judge's reader of files: exit statuses, and files that lie, which are refused in words and in little memory."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

import attnfun as af
from attnfun.judge import NotCovered, Unreadable, judge_file
from attnfun.judge.__main__ import main

Tensors = dict[str, Any]
Lie = Callable[[Tensors, dict[str, Any]], None]
MOST_MEMORY = 64 * 2**20
"""Bytes that a small file may take."""

MADE: dict[str, Callable[[], af.types.Compiled]] = {
    "formula": lambda: af.compile("x/2", {"x": (0, 1)}, 0.2, construction="grid"),
    "half": lambda: af.compile("x/2", {"x": (-1, 1)}, 0.3, construction="grid", dtype="float16"),
    "single": lambda: af.compile("x/2", {"x": (0, 1)}, 0.2, construction="grid", dtype="float32"),
    "brain": lambda: af.compile("x/2", {"x": (-1, 1)}, 0.3, construction="grid", dtype="bfloat16"),
    "two": lambda: af.compile("x*y", {"x": (0, 1), "y": (0, 1)}, 0.3, construction="grid"),
    "L2": lambda: af.compile("x**2", {"x": (0, 1)}, 0.1, norm=2, construction="grid"),
    "region": lambda: af.compile("x", af.Region("x < 0.5", {"x": (0, 1)}), 0.2, construction="grid"),
    "points": lambda: af.compile("x**2", af.Points([0.1, 0.4, 0.7], fill=0.05), 0.2, construction="grid"),
    "relu": lambda: af.compile(
        af.TruncatedLinear([[1.0]], [0.0], -0.5, 0.5), af.Box([[-1.0]], [[1.0]]), 0.2, construction="relu"
    ),
    "planes": lambda: af.compile(af.MaxAffine([[1.0], [-1.0]], [0.0, 0.0]), [(-1, 1)], 0.2),
    "sum": lambda: (
        af.compile("x", {"x": (0, 1)}, 0.1, construction="grid")
        + af.compile("x/2", {"x": (0, 1)}, 0.1, construction="grid")
    ),
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory) -> Callable[[str], tuple[Tensors, dict[str, Any]]]:
    """Tensors and description of files that are agreed with, by name; each is made once."""
    made: dict[str, tuple[Tensors, dict[str, Any]]] = {}
    folder = tmp_path_factory.mktemp("valid")

    def get(name: str) -> tuple[Tensors, dict[str, Any]]:
        if name not in made:
            path = folder / f"{name}.safetensors"
            MADE[name]().save(path)
            made[name] = parts_of(path)
        return deepcopy(made[name])

    return get


def parts_of(path: Path) -> tuple[Tensors, dict[str, Any]]:
    with safe_open(str(path), "numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        return tensors, json.loads(file.metadata()["attnfun"])


def written(path: Path, tensors: Tensors, description: object) -> Path:
    words = description if isinstance(description, str) else json.dumps(description)
    contiguous = {name: np.array(tensor, order="C") for name, tensor in tensors.items()}
    path.write_bytes(save(contiguous, {"attnfun": words}))
    return path


@pytest.mark.parametrize("name", MADE)
def test_valid_files_are_agreed_with(valid, tmp_path, name):
    assert judge_file(written(tmp_path / "valid", *valid(name))).agreed


# ---------------------------------------------------------------- exit statuses


def test_agreed(valid, tmp_path, capsys):
    assert main([str(written(tmp_path / "valid", *valid("formula")))]) == 0
    assert capsys.readouterr().out.startswith("agreed: error <= ")


def test_not_agreed(valid, tmp_path, capsys):
    tensors, description = valid("formula")
    description["certificate"]["bound"] /= 2
    assert main([str(written(tmp_path / "half", tensors, description))]) == 3
    assert capsys.readouterr().out.startswith("not agreed: no bound below ")


def test_an_estimate_is_not_agreed_with(valid, tmp_path, capsys):
    tensors, description = valid("formula")
    description["certificate"]["status"] = "estimated"
    assert main([str(written(tmp_path / "estimate", tensors, description))]) == 3
    assert "not covered yet: an estimate" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["there is no such file"], ["."], ["/dev/null"]])
def test_unreadable(arguments, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(("unreadable: ", "usage: "))


@pytest.mark.parametrize("kept", [0, 1, 8, 100, -1])
def test_a_part_of_a_file_is_unreadable(valid, tmp_path, kept):
    path = written(tmp_path / "cut", *valid("formula"))
    path.write_bytes(path.read_bytes()[:kept])
    assert main([str(path)]) == 2


@pytest.mark.parametrize("length", [2**63, 2**40, 10**8 + 1, 0])
def test_a_claimed_header_is_unreadable(tmp_path, length):
    path = tmp_path / "header"
    path.write_bytes(length.to_bytes(8, "little") + b"{}")
    assert main([str(path)]) == 2


@pytest.mark.parametrize(
    ("dtype", "shape", "ends"),
    [
        ("F64", [10**9, 10**9], [0, 8]),
        ("F64", [2**61], [0, 8]),
        ("F64", [-1], [0, 8]),
        ("U8", [10**9], [0, 10**9]),
        ("F64", [1], [0, 2**62]),
        ("F8_E4M3", [8], [0, 8]),
        ("BF16", [4], [0, 8]),
        ("BOOL", [8], [0, 8]),
        ("C64", [1], [0, 8]),
        ("X", [1], [0, 8]),
    ],
)
def test_tensors_that_are_not_there_are_unreadable(valid, tmp_path, dtype, shape, ends):
    _, description = valid("formula")
    header = {
        "__metadata__": {"attnfun": json.dumps(description)},
        "proof.axes": {"dtype": dtype, "shape": shape, "data_offsets": ends},
    }
    words = json.dumps(header).encode()
    path = tmp_path / "claims"
    path.write_bytes(len(words).to_bytes(8, "little") + words + bytes(8))
    assert main([str(path)]) == 2


# ---------------------------------------------------------------- lies


def lies(**by_name: Lie) -> dict[str, Lie]:
    return {name.replace("_", " "): lie for name, lie in by_name.items()}


def put(place: str, value: object) -> Lie:
    """A field of the description, given by its names and numbers, becomes this."""

    def lie(_: Tensors, description: dict[str, Any]) -> None:
        *names, last = [int(name) if name.isdigit() else name for name in place.split(".")]
        for name in names:
            description = description[name]
        description[last] = value

    return lie


def missing(place: str) -> Lie:
    """A field is not there."""

    def lie(_: Tensors, description: dict[str, Any]) -> None:
        *names, last = [int(name) if name.isdigit() else name for name in place.split(".")]
        for name in names:
            description = description[name]
        del description[last]

    return lie


def tensor(name: str, change: Callable[[Any], Any]) -> Lie:
    """A tensor becomes another one, or none."""

    def lie(tensors: Tensors, _: dict[str, Any]) -> None:
        tensors[name] = change(tensors[name])
        if tensors[name] is None:
            del tensors[name]

    return lie


def each_weight(change: Callable[[Any], Any]) -> Lie:
    """Every tensor of the network is changed."""

    def lie(tensors: Tensors, _: dict[str, Any]) -> None:
        for name in [name for name in tensors if name.startswith("layers.")]:
            tensors[name] = change(tensors[name])

    return lie


def first(array: Any, value: float) -> Any:
    """The same with another first number."""
    array = array.copy()
    array.flat[0] = value
    return array


def premises(depth: int) -> dict[str, Any]:
    proof: dict[str, Any] = {"rule": "boxes", "data": [], "premises": []}
    for _ in range(depth):
        proof = {"rule": "volume", "data": [], "premises": [proof]}
    return proof


def parts(depth: int) -> Lie:
    """A claim inside itself."""

    def lie(tensors: Tensors, description: dict[str, Any]) -> None:
        inner = deepcopy(description)
        weights = {name: array for name, array in tensors.items() if name.startswith("layers.")}
        for level in range(depth):
            inner = {**inner, "parts": [inner], "target": {"kind": "restricted", "name": "x"}}
            tensors |= {f"{'parts.0.' * (level + 1)}{name}": array for name, array in weights.items()}
        description |= inner

    return lie


def regions(depth: int) -> dict[str, Any]:
    domain: dict[str, Any] = {"lo": [0.0], "hi": [1.0], "names": ["x"]}
    for _ in range(depth):
        domain = {"kind": "region", "predicate": "x < -1", "box": domain}
    return domain


def layer(number: int, plain: dict[str, Any], **weights: Any) -> Lie:
    """Layer k becomes another one; those behind it go."""

    def lie(tensors: Tensors, description: dict[str, Any]) -> None:
        for name in [name for name in tensors if name.startswith("layers.") and int(name.split(".")[1]) >= number]:
            del tensors[name]
        description["network"]["layers"][number:] = [plain]
        tensors |= {f"layers.{number}.{name}": np.asarray(weight, dtype=np.float64) for name, weight in weights.items()}

    return lie


def all_of(*every: Lie) -> Lie:
    """Several lies."""

    def lie(tensors: Tensors, description: dict[str, Any]) -> None:
        for each in every:
            each(tensors, description)

    return lie


def parts_beside(tensors: Tensors, description: dict[str, Any]) -> None:
    """A formula with a part, which formulas have not."""
    description["parts"] = [deepcopy(description)]
    tensors |= {f"parts.0.{name}": array for name, array in tensors.items()}


def many_softmax(_: Tensors, description: dict[str, Any]) -> None:
    description["network"]["layers"] = [{"kind": "softmax", "width": 1}] * 10**4


def in_dtype(name: str) -> Lie:
    return all_of(put("network.dtype", name), put("certificate.dtype", name))


FACTORED = {
    "query": np.ones((1, 1, 1)), "query_bias": np.zeros((1, 1)), "slopes": np.zeros(2), "offsets": np.zeros(2),
    "values": np.zeros((2, 1)), "output": np.ones((1, 1, 1)), "output_bias": np.zeros(1),
}  # fmt: skip


def factored(sizes: object, **changed: Any) -> Lie:
    return layer(0, {"kind": "factored-attention", "sizes": sizes}, **(FACTORED | changed))


WRONG: list[Any] = [None, True, -1, 0.5, "1", [], {}, float("nan"), float("inf"), 10**400, [[]], [None], {"a": 1}]
"""What stands where something else belongs."""
FIELDS = [
    "format", "network", "network.dtype", "network.layers", "network.layers.0", "network.layers.0.kind",
    "network.length", "domain", "domain.lo", "domain.hi", "domain.names", "output_shape", "target", "target.kind",
    "target.text", "certificate", "certificate.bound", "certificate.status", "certificate.norm", "certificate.dtype",
    "certificate.assumptions", "certificate.parts", "proof", "proof.rule", "proof.data", "proof.premises",
]  # fmt: skip
HARMLESS: list[tuple[str, Any]] = [
    ("network.length", None),
    ("certificate.assumptions", []),
    ("certificate.parts", {}),
    ("certificate.parts", {"a": 1}),
    ("domain.names", None),
    ("domain.lo", 0.5),
    ("domain.hi", 0.5),
    ("output_shape", []),
    ("certificate.bound", 0.5),
    ("proof", None),
    ("proof.rule", "1"),
    ("proof.premises", []),
]
"""Changes after which the claim is true, with the proof in the file or without it."""


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_a_wrong_kind_are_refused(valid, tmp_path, field):
    for value in WRONG:
        tensors, description = valid("formula")
        put(field, value)(tensors, description)
        status = main([str(written(tmp_path / "lie", tensors, description))])
        assert status != 0 or any((field, value) == each for each in HARMLESS), value
    tensors, description = valid("formula")
    missing(field)(tensors, description)
    status = main([str(written(tmp_path / "lie", tensors, description))])
    assert status == 2 or field in ("network.length", "domain.names", "proof")


LIES: dict[str, dict[str, Lie]] = {
    "formula": lies(
        a_bound_that_is_nan=put("certificate.bound", float("nan")),
        a_negative_bound=put("certificate.bound", -1.0),
        more_set_aside_than_there_is=put("certificate.parts.windows", 1.0),
        something_negative_set_aside=put("certificate.parts.windows", -1.0),
        a_norm_below_one=put("certificate.norm", 0.5),
        a_norm_in_words=put("certificate.norm", "two"),
        an_unknown_status=put("certificate.status", "believed"),
        an_unknown_format=put("network.dtype", "float8"),
        another_format_in_the_certificate=put("certificate.dtype", "float32"),
        another_format_everywhere=in_dtype("float32"),
        a_coarse_format_everywhere=in_dtype("bfloat16"),
        an_empty_domain=put("domain.lo", [2.0]),
        a_domain_without_axes=all_of(put("domain.lo", []), put("domain.hi", [])),
        a_domain_with_two_axes=all_of(
            put("domain.lo", [0, 0]), put("domain.hi", [1, 1]), put("domain.names", ["x", "y"])
        ),
        a_domain_with_many_axes=all_of(
            put("domain.lo", [0.0] * 10**4), put("domain.hi", [1.0] * 10**4), put("domain.names", None)
        ),
        a_domain_of_texts=put("domain.lo", ["0"]),
        a_domain_of_truth_values=put("domain.lo", [False]),
        a_domain_with_nan=put("domain.lo", [float("nan")]),
        an_unbounded_domain=put("domain.hi", [float("inf")]),
        a_ragged_domain=put("domain.lo", [[0.0], [0.0, 1.0]]),
        a_deep_domain=put("domain.lo", [[[[[[0.0]]]]]]),
        a_name_that_is_no_text=put("domain.names", [1]),
        two_names=put("domain.names", ["x", "x"]),
        another_name=put("domain.names", ["y"]),
        regions_inside_regions=put("domain", regions(2)),
        regions_deep_inside_each_other=put("domain", regions(300)),
        a_region_of_points=put("domain", {"kind": "region", "predicate": "x < 1", "box": {"kind": "points"}}),
        a_condition_that_is_a_number=put(
            "domain", {"kind": "region", "predicate": "0*x", "box": {"lo": [0.0], "hi": [1.0], "names": ["x"]}}
        ),
        two_conditions=put(
            "domain", {"kind": "region", "predicate": "x<0, x<0", "box": {"lo": [0.0], "hi": [1.0], "names": ["x"]}}
        ),
        points_in_an_integral=all_of(
            put("domain", {"kind": "points", "points": [0.5], "fill": 0.5, "names": ["x"]}),
            put("certificate.norm", 2.0),
        ),
        no_points=put("domain", {"kind": "points", "points": [], "fill": 0.0, "names": ["x"]}),
        points_with_a_negative_fill=put("domain", {"kind": "points", "points": [0.5], "fill": -1.0, "names": ["x"]}),
        another_shape=put("output_shape", [2]),
        a_huge_shape=put("output_shape", [2**30] * 10**5),
        a_shape_of_truth_values=put("output_shape", [True]),
        a_negative_shape=put("output_shape", [-1, -1]),
        two_outputs=put("target.text", "[x/2, x/2]"),
        an_unknown_name=put("target.text", "os"),
        an_unknown_function=put("target.text", "open(x)"),
        an_endless_number=put("target.text", "1e999999999*x"),
        a_formula_that_is_undefined=put("target.text", "x/2 + 0*log(x)"),
        another_formula=put("target.text", "x/2 + 1"),
        a_deep_formula=put("target.text", "(" * 10**4 + "x" + ")" * 10**4),
        a_black_box=put("target", {"kind": "black box", "name": "f"}),
        an_unknown_target=put("target.kind", "oracle"),
        a_composition_without_parts=put("target", {"kind": "composed", "name": "f"}),
        a_stack_without_parts=put("target", {"kind": "stacked", "name": "f"}),
        stages_without_numbers=put("target", {"kind": "piecewise linear", "name": "f", "stages": 10**9}),
        extra_parts=parts_beside,
        parts_inside_each_other=parts(40),
        many_parts=put("parts", [{}] * 10**4),
        premises_inside_each_other=put("proof", premises(33)),
        premises_deep_inside_each_other=put("proof", premises(300)),
        many_premises=put("proof.premises", [premises(0)] * 10**4),
        data_that_is_not_there=put("proof.data", ["axes", "series", "more"]),
        data_with_another_name=put("proof.data", ["layers.0.query"]),
        data_that_is_no_name=put("proof.data", [["axes"]]),
        data_without_the_cover=put("proof.data", []),
        a_cover_without_nodes=tensor("proof.axes", lambda _: np.zeros(0, np.uint8)),
        a_cover_of_cuts_alone=tensor("proof.axes", np.zeros_like),
        a_cover_along_another_axis=tensor("proof.axes", lambda axes: np.where(axes == 0, 7, axes).astype(np.uint8)),
        a_cover_of_floats=tensor("proof.axes", lambda axes: axes.astype(np.float64)),
        a_cover_in_two_dimensions=tensor("proof.axes", lambda axes: axes[None]),
        a_cover_with_too_few_flags=tensor("proof.series", lambda series: series[1:]),
        a_cover_with_ten_million_nodes=tensor("proof.axes", lambda _: np.full(10**7, 255, np.uint8)),
        a_line_of_a_million_cuts=all_of(
            tensor("proof.axes", lambda _: np.array([*[0, 255] * 10**6, 255], np.uint8)),
            tensor("proof.series", lambda _: np.zeros(10**6 + 1, np.uint8)),
            put("certificate.bound", 1e-3),
        ),
        two_million_leaves=all_of(
            tensor("proof.axes", lambda _: np.repeat([0, 255], [2**21 - 1, 2**21]).astype(np.uint8)),
            tensor("proof.series", lambda _: np.zeros(2**21, np.uint8)),
        ),
        no_layers=put("network.layers", []),
        many_layers=many_softmax,
        a_layer_of_an_unknown_kind=put("network.layers.0.kind", "convolution"),
        a_flag_in_words=layer(0, {"kind": "attention", "attends_data": "no"}),
        keys_that_are_a_number=put("network.layers.1.keyed", 5),
        keys_of_no_feature=put("network.layers.1.keyed", [10**9]),
        keys_that_hold_a_feature_twice=put("network.layers.1.keyed", [0, 0]),
        a_length_of_two=put("network.length", 2),
        a_length_that_is_negative=put("network.length", -1),
        a_length_that_is_true=put("network.length", True),
        weights_that_are_nan=each_weight(lambda array: first(array, np.nan)),
        weights_that_are_infinite=each_weight(lambda array: first(array, -np.inf)),
        weights_in_float32=each_weight(lambda array: array.astype(np.float32)),
        weights_that_are_whole=each_weight(lambda array: array.astype(np.int64)),
        weights_that_are_truth_values=each_weight(lambda array: array.astype(bool)),
        weights_with_another_shape=each_weight(lambda array: array[..., None]),
        weights_without_numbers=each_weight(lambda array: array[..., :0]),
        weights_of_no_tokens=each_weight(lambda array: array[:0]),
        weights_transposed=each_weight(lambda array: np.concatenate([array.T, array.T])),
        weights_that_are_zero=each_weight(np.zeros_like),
        weights_that_are_huge=each_weight(lambda array: np.full_like(array, 1e308)),
        a_softmax_of_a_negative_width=layer(0, {"kind": "softmax", "width": -1}),
        a_softmax_of_a_huge_width=layer(0, {"kind": "softmax", "width": 10**18}),
        a_softmax_of_no_width=layer(0, {"kind": "softmax", "width": 0}),
        an_affine_layer_without_terms=layer(
            0, {"kind": "affine"}, right=np.ones((0, 1, 1)), constant=np.ones((1, 1)), left=np.ones((0, 1, 1))
        ),
        an_affine_layer_without_tokens=layer(
            0, {"kind": "affine"}, right=np.ones((1, 1, 1)), constant=np.ones((0, 1)), left=np.ones((1, 0, 1))
        ),
        an_affine_layer_without_features=layer(
            0, {"kind": "affine"}, right=np.ones((1, 1, 0)), constant=np.ones((1, 0))
        ),
        an_affine_layer_with_a_flat_left=layer(
            0, {"kind": "affine"}, right=np.ones((1, 1, 1)), constant=np.ones((1, 1)), left=np.ones(1)
        ),
        an_affine_layer_with_many_products=layer(
            0,
            {"kind": "affine"},
            right=np.ones((2000, 1, 50)),
            constant=np.ones((50, 50)),
            left=np.ones((2000, 50, 1)),
        ),
        attention_without_weights=layer(0, {"kind": "attention"}),
        factored_attention=factored([2]),
        factored_attention_on_many_axes=factored([1] * 100),
        factored_attention_without_axes=factored([]),
        factored_attention_with_a_huge_axis=factored([10**9]),
        factored_attention_with_huge_axes=factored([2**30, 2**30]),
        factored_attention_with_a_negative_axis=factored([-2]),
        factored_attention_with_a_true_axis=factored([True]),
        factored_attention_with_two_biases=factored([2], query_bias=np.zeros((2, 1))),
        factored_attention_with_two_queries=factored([2], query=np.ones((2, 1, 1))),
        factored_attention_with_many_values=factored([2], values=np.zeros((2, 10**5)), output=np.ones((1, 10**5, 1))),
    ),
    "half": lies(
        a_weight_between_two_numbers=each_weight(lambda array: first(array, 1 + 2.0**-11)),
        a_weight_below_the_smallest=each_weight(lambda array: first(array, 2.0**-25)),
        a_weight_above_the_largest=each_weight(lambda array: first(array, 65536.0)),
        weights_in_float64=each_weight(lambda array: array.astype(np.float64)),
        weights_in_float16=each_weight(lambda array: array.astype(np.float16)),
    ),
    "brain": lies(
        a_weight_between_two_numbers=each_weight(lambda array: first(array, 1 + 2.0**-8)),
        a_weight_below_the_smallest=each_weight(lambda array: first(array, 2.0**-134)),
        weights_in_float64=each_weight(lambda array: array.astype(np.float64)),
    ),
    "single": lies(
        weights_in_float64=each_weight(lambda array: array.astype(np.float64)),
        a_format_that_they_are_not=in_dtype("float64"),
    ),
    "L2": lies(
        a_rule_that_proves_more=put("proof.rule", "volume"),
        the_largest_error=put("certificate.norm", "inf"),
        no_proof=put("proof", None),
        an_unknown_rule=put("proof.rule", "trust"),
    ),
    "region": lies(
        a_larger_region=put("domain.predicate", "x < 5"),
        a_condition_that_is_a_number=put("domain.predicate", "x*0"),
        a_condition_in_other_variables=put("domain.predicate", "y < 1"),
        a_box_that_is_none=put("domain.box", {"kind": None}),
        an_empty_condition=put("domain.predicate", ""),
    ),
    "points": lies(
        an_endless_fill=put("domain.fill", 1e308),
        a_fill_that_is_nan=put("domain.fill", float("nan")),
        a_ragged_cloud=put("domain.points", [[0.1], [0.2, 0.3]]),
        a_cloud_of_texts=put("domain.points", ["0.1"]),
        a_deep_cloud=put("domain.points", [[[[[0.1]]]]]),
        another_cloud=put("domain.points", [0.1, 0.4, 30.0]),
    ),
    "relu": lies(
        weights_in_one_dimension=tensor("target.w", np.ravel),
        offsets_without_dimensions=tensor("target.t", lambda t: t.reshape(())),
        weights_that_are_nan=tensor("target.w", lambda w: first(w, np.nan)),
        weights_that_are_infinite=tensor("target.w", lambda w: first(w, np.inf)),
        no_weights=tensor("target.w", lambda _: None),
        one_end=put("target.ends", [1.0]),
        ends_that_are_nan=put("target.ends", [float("nan"), float("nan")]),
        ends_that_are_truth_values=put("target.ends", [False, True]),
        ends_beyond_all_floats=put("target.ends", [-(10**400), 10**400]),
        ends_in_words=put("target.ends", ["-0.5", "0.5"]),
        other_ends=put("target.ends", [-1.0, 1.0]),
        another_kind=put("target.kind", "max-affine"),
    ),
    "planes": lies(
        slopes_in_one_dimension=tensor("target.A", np.ravel),
        offsets_in_two_dimensions=tensor("target.b", lambda b: b[:, None]),
        offsets_without_dimensions=tensor("target.b", lambda b: b[0]),
        no_planes=all_of(tensor("target.A", lambda a: a[:0]), tensor("target.b", lambda b: b[:0])),
        no_slopes=tensor("target.A", lambda _: None),
        infinite_offsets=tensor("target.b", lambda b: first(b, np.inf)),
        another_kind=put("target", {"kind": "piecewise linear", "name": "f", "stages": 1}),
    ),
    "sum": lies(
        one_part_less=lambda _, description: description["parts"].pop(),
        one_part_more=lambda _, description: description["parts"].append(description["parts"][0]),
        no_parts=put("parts", []),
        parts_that_are_none=put("parts", [None, None]),
        a_restriction=put("target.kind", "restricted"),
        a_stack=put("target.kind", "stacked"),
        a_formula=put("target", {"kind": "expression", "text": "x"}),
        an_outer_part_of_one_variable=all_of(
            put("parts.0.domain.lo", [0.0]), put("parts.0.domain.hi", [1.0]), put("parts.0.domain.names", ["x"])
        ),
    ),
}


CASES = [(name, lie) for name, told in LIES.items() for lie in told]


@pytest.mark.parametrize(("name", "lie"), CASES, ids=[f"{name}: {lie}" for name, lie in CASES])
def test_lies_are_refused(valid, tmp_path, name, lie):
    tensors, description = valid(name)
    LIES[name][lie](tensors, description)
    path = written(tmp_path / "lie", tensors, description)
    size = path.stat().st_size
    tracemalloc.start()
    try:
        verdict = judge_file(path)
        assert not verdict.agreed, str(verdict)
    except (Unreadable, NotCovered) as reason:
        assert len(str(reason)) < 400  # noqa: PT017 - both endings are right
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < MOST_MEMORY + 32 * size


@pytest.mark.parametrize("depth", [900, 10**5])
@pytest.mark.parametrize("brackets", ["[]", '{"a":}'])
def test_deep_descriptions_are_refused(valid, tmp_path, depth, brackets):
    tensors, description = valid("formula")
    opening, closing = brackets[:-1], brackets[-1]
    for place in ('"proof": ', '"target": ', '"domain": ', '"parts": '):
        text = json.dumps({key: value for key, value in description.items() if f'"{key}": ' != place})
        words = f"{text[:-1]}, {place}{opening * depth}0{closing * depth}}}"
        assert main([str(written(tmp_path / "deep", tensors, words))]) == 2


@pytest.mark.parametrize(
    "words", ["", "[]", "null", "1", '"x"', "{", "nan", '{"format": 2}', '{"format": 3}', "9" * 5000]
)
def test_other_descriptions_are_refused(valid, tmp_path, words):
    tensors, _ = valid("formula")
    assert main([str(written(tmp_path / "other", tensors, words))]) == 2


# ---------------------------------------------------------------- small changes

spec = spec_from_file_location("judging", Path(__file__).parent.parent / "benchmarks" / "judging.py")
assert spec is not None
assert spec.loader is not None
judging = module_from_spec(spec)
sys.modules[spec.name] = judging
spec.loader.exec_module(judging)


def test_nothing_false_is_agreed_with(tmp_path):
    """A few of the changes of `benchmarks/judging.py`."""
    bases = ["a line in float16", "the L_2 norm", "a clip", "a Bessel function", "two inputs"]
    tallies = judging.run(50, 1, bases, tmp_path)
    assert not [each for tally in tallies.values() for each in tally.false]
    assert sum(tally.made for tally in tallies.values()) == 50
    assert all(sum(getattr(tally, end) for tally in tallies.values()) for end in ("unreadable", "not_agreed", "agreed"))


@pytest.mark.parametrize("kind", ["bound", "formula", "domain"])
def test_claims_that_are_false_are_known_as_such(valid, kind):
    """What the changes are checked by finds errors that are too large."""
    file = judging.File(*valid("formula"))
    assert judging.is_true(file)
    if kind == "bound":
        file.certificate["bound"] /= 2
    elif kind == "formula":
        file.description["target"]["text"] = "x/2 + 0.2"
    else:
        file.description["domain"]["hi"] = [3.0]
    assert not judging.is_true(file)
