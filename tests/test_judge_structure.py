"""The judge's arguments without boxes: forms, fans, and networks that compute maxima, whatever is changed in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from math import inf

import numpy as np
import pytest
from flint import arb

import attnfun as af
from attnfun.judge import Limits, Unreadable, judge, judge_file, read
from attnfun.judge.covers import Box
from attnfun.judge.errors import NotCovered
from attnfun.judge.files import Affine, Attention, Claim, Floats, Network
from attnfun.judge.forms import Form, Unknowns
from attnfun.judge.planes import line_near
from attnfun.judge.ranges import ONE, ZERO, Range, precision
from attnfun.judge.structure import Follower, bound_by_structure
from attnfun.judge.targets import planes_of, stages_of
from cases import CASES

STRUCTURES = {
    "rectifiers": "relu",
    "truncated linear": "knots",
    "interpolated": "two-layer",
    "two layers": "two-layer",
    "two token-wise layers": "two-layer",
    "max-affine": "max-affine",
    "difference of convex functions": "max-affine",
}
"""Cases whose certificates are proved by the rule `structure`, and with which construction."""

COVERED = {
    "tangent planes": ("max-affine", "planes", lambda x: x[:, :1] ** 2 + np.exp(x[:, 1:])),
    "two sets of planes": ("max-affine", "planes", lambda x: np.sin(3 * x)),
    "interpolated": ("truncated-linear", "one feature", None),
    "sequence by two layers": (
        "two-layer",
        "rectifiers",
        lambda x: np.stack([x[:, 1], x[:, 0] + x[:, 1], x[:, 0], x[:, 0] * x[:, 1]], axis=1),
    ),
}
"""Cases that are proved by covers of less than the whole: construction, rule, and the target where it is a formula."""


@pytest.fixture(scope="module")
def saved(compiled, tmp_path_factory):
    """case, construction, dtype -> a file."""
    folder = tmp_path_factory.mktemp("judged")

    def get(name: str, construction: str, dtype: str = "float64"):
        path = folder / f"{name}.{construction}.{dtype}.safetensors"
        if not path.exists():
            (case,) = (case for case in CASES if case.name == name)
            compiled(case, dtype, construction).save(path)
        return path

    return get


# ---------------------------------------------------------------- forms


def value(form: Form, known: dict[int, arb]) -> arb:
    """A form at a point at which its unknowns have these values."""
    return sum((a * known[place] for place, a in form.terms.items()), ZERO)


def test_forms_of_the_same_unknowns_cancel():
    with precision():
        unknowns = Unknowns(np.array([-1.0, 2.0]), np.array([3.0, 5.0]))
        x, y = unknowns.variables
        assert (x + y - x - y).most.is_zero()
        both = x.scaled(arb(2)) - y
        assert both.range.low == -7
        assert both.range.high == 4
        error = unknowns.error(arb(0.5))
        assert (x + error).quiet.terms.keys() == x.terms.keys()
        assert (x + error).noise.high == 0.5
        assert (x + error).noise.low == -0.5


def test_a_product_of_forms_is_bent_by_at_most_the_product_of_their_radii():
    with precision():
        unknowns = Unknowns(np.array([-1.0, 2.0]), np.array([3.0, 5.0]))
        x, y = unknowns.variables
        product = unknowns.product(x, y)
        (bent,) = unknowns.errors
        for a in (-1.0, 0.3, 3.0):
            for b in (2.0, 4.9, 5.0):
                known = {0: ONE, 1: arb(a), 2: arb(b), bent: ZERO}
                assert abs(value(product, known) - arb(a) * arb(b)) <= 3  # 2 * 1.5
        assert (product - unknowns.product(y, x)).most <= 6


def test_a_maximum_is_found_again_scaled_shifted_and_mirrored():
    with precision():
        unknowns = Unknowns(np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
        x, y = unknowns.variables
        zero = unknowns.number(ZERO)
        first = unknowns.maximum([zero, x - y], target=True)
        again = unknowns.maximum([y.scaled(arb(3)), x.scaled(arb(3))])  # 3 max(x, y) = 3 y + 3 max(0, x - y)
        assert (again - y.scaled(arb(3)) - first.scaled(arb(3))).most <= 1e-14
        mirrored = unknowns.maximum([zero, y - x], target=True)  # y - x + max(0, x - y)
        assert (mirrored - (y - x) - first).most <= 1e-14
        assert len(unknowns.maxima) == 1
        other = unknowns.maximum([zero, x + y], target=True)
        assert len(unknowns.maxima) == 2
        assert (other - first).most >= 1


def test_a_maximum_that_one_form_leads_is_that_form():
    with precision():
        unknowns = Unknowns(np.array([-1.0]), np.array([1.0]))
        (x,) = unknowns.variables
        top = unknowns.number(arb(5))
        assert (unknowns.maximum([x, top, x.scaled(arb(3))]) - top).most.is_zero()


# ---------------------------------------------------------------- whole files


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_files_are_agreed_with_without_boxes(name, dtype, saved):
    path = saved(name, STRUCTURES[name], dtype)
    claim, verdict = read(path), judge_file(path)
    assert claim.proof is not None
    assert claim.proof.rule == "structure"
    assert verdict.agreed
    assert verdict.boxes == 0
    assert verdict.judged <= claim.bound


def target_values(claim: Claim, x: Floats) -> Floats:
    """The target in float64, (S, m)."""
    if claim.target["kind"] == "max-affine":
        planes = [(x @ slopes.T + offsets).max(axis=1) for slopes, offsets in planes_of(claim)]
        return (planes[0] - sum(planes[1:]))[:, None]
    for weight, bias, low, high in stages_of(claim):
        x = np.clip(x @ weight + bias, low, high)
    return x


def network_values(network: Network, x: Floats) -> Floats:
    """The network in float64, (S, m)."""
    tokens = x.reshape(len(x), network.length, network.width)
    for layer in network.layers:
        if isinstance(layer, Affine):
            left = np.eye(tokens.shape[1])[None] if layer.left is None else layer.left
            tokens = np.einsum("kNn,bnd,kdm->bNm", left, tokens, layer.right) + layer.constant
        elif isinstance(layer, Attention):
            memory = np.broadcast_to(layer.memory, (len(x), *layer.memory.shape))
            seen = np.concatenate([memory, tokens], axis=1) if layer.attends_data else memory
            total = layer.output_bias + np.zeros((*tokens.shape[:2], len(layer.output_bias)))
            for h in range(len(layer.query)):
                query, key, values = (
                    rows @ weight[h] + bias[h]
                    for rows, weight, bias in (
                        (tokens, layer.query, layer.query_bias),
                        (seen, layer.key, layer.key_bias),
                        (seen, layer.value, layer.value_bias),
                    )
                )
                scores = query @ np.swapaxes(key, 1, 2)  # (S, n, T)
                weights = np.exp(scores - scores.max(axis=2, keepdims=True))
                total = total + weights / weights.sum(axis=2, keepdims=True) @ values @ layer.output[h]
            tokens = total + tokens if layer.residual else total
    return tokens.reshape(len(x), -1)


def largest_error(claim: Claim, rng: np.random.Generator, target: Callable[[Floats], Floats] | None = None) -> float:
    """The largest error at corners and random points, some of them near zero."""
    low, high = claim.domain.low, claim.domain.high
    points = rng.uniform(low, high, (400, len(low)))
    points[:100] = np.where(rng.random((100, len(low))) < 0.5, low, high)
    points[100:150] *= 10.0 ** rng.uniform(-6, 0, (50, 1))
    with np.errstate(all="ignore"):
        values = target_values(claim, points) if target is None else target(points)
        return float(np.abs(network_values(claim.network, points) - values).max())


def changed(array: Floats, rng: np.random.Generator) -> Floats:
    """One number changed: a little, much, its sign, or to zero."""
    array = array.copy()
    place = tuple(int(rng.integers(n)) for n in array.shape)
    little = 10.0 ** rng.uniform(-8, 0)
    old = array[place]
    array[place] = rng.choice([old * (1 + little), old + little, old - little, -old, 0.0, 10 * old])
    return array


def mutated(claim: Claim, rng: np.random.Generator) -> Claim:
    """A claim with a number of its target or of its network changed."""
    if claim.arrays and rng.random() < 0.3:
        name = str(rng.choice([name for name in claim.arrays if not name.endswith(("low", "high"))]))
        return replace(claim, arrays={**claim.arrays, name: changed(claim.arrays[name], rng)})
    layers = list(claim.network.layers)
    number = int(rng.integers(len(layers)))
    arrays = {each.name: getattr(layers[number], each.name) for each in fields(layers[number])}
    name = str(rng.choice([key for key, each in arrays.items() if isinstance(each, np.ndarray) and each.size]))
    layers[number] = replace(layers[number], **{name: changed(arrays[name], rng)})
    return replace(claim, network=replace(claim.network, layers=tuple(layers)))


@pytest.mark.parametrize("name", STRUCTURES)
def test_whatever_is_changed_the_bound_holds(name, saved):
    """Nothing is taken from the construction: what no longer fits makes the bound large, not wrong."""
    claim, rng, larger = read(saved(name, STRUCTURES[name])), np.random.default_rng(3), 0
    for _ in range(12):
        other = mutated(claim, rng)
        error = largest_error(other, rng)
        with precision():
            try:
                bound = float(bound_by_structure(other, Box(other.domain.low, other.domain.high), Limits()))
            except NotCovered:
                bound = inf
        assert error <= bound * (1 + 1e-9) + 1e-11  # both are evaluated in float64
        larger += error > claim.bound
    assert larger > 0  # some claims became false


@pytest.mark.parametrize("name", ["rectifiers", "max-affine"])
def test_a_bound_below_the_largest_error_is_not_agreed_with(name, saved):
    claim = read(saved(name, STRUCTURES[name]))
    found = largest_error(claim, np.random.default_rng(0))
    verdict = judge(replace(claim, bound=found * 0.999))
    assert found > 0
    assert not verdict.agreed
    assert "without boxes" in verdict.reason


def test_a_wrong_target_is_not_agreed_with(saved):
    claim = read(saved("rectifiers", "relu"))
    shifted = {**claim.arrays, "0.bias": claim.arrays["0.bias"] + 1e-3}
    assert not judge(replace(claim, arrays=shifted)).agreed


@pytest.mark.parametrize("name", COVERED)
def test_covers_of_less_than_the_whole_are_agreed_with(name, saved):
    construction, rule, _ = COVERED[name]
    for dtype in ("float64", "float32"):
        path = saved(name, construction, dtype)
        proof, verdict = read(path).proof, judge_file(path)
        assert proof is not None
        assert proof.rule == rule
        assert verdict.agreed
        assert verdict.boxes < 100


@pytest.mark.parametrize("name", COVERED)
def test_false_claims_by_covers_are_not_agreed_with(name, saved):
    construction, _, target = COVERED[name]
    claim, rng = read(saved(name, construction)), np.random.default_rng(5)
    for other in [claim, *(mutated(claim, rng) for _ in range(3))]:
        error = largest_error(other, rng, target)
        assert not judge(replace(other, bound=error * (1 - 1e-6) - 1e-11)).agreed


def test_planes_are_read_from_the_weights_alone(saved):
    """Without its cover a proof is unreadable; with a coarser one the judge cuts the leaves itself."""
    claim = read(saved("two sets of planes", "max-affine"))
    assert claim.proof is not None
    whole = {"axes": np.array([255], dtype=np.uint8), "series": np.array([0], dtype=np.uint8)}
    coarse = judge(replace(claim, proof=replace(claim.proof, data=whole)))
    assert coarse.agreed
    assert coarse.boxes > 1
    with pytest.raises(Unreadable):
        judge(replace(claim, proof=replace(claim.proof, data={})))


def test_lines_near_maxima_hold_wherever_planes_cross():
    """`max_j p_j` lies within what is left of the affine function that stands for it, on any box."""
    rng = np.random.default_rng(4)
    points = rng.uniform(-1, 1, (500, 2))
    points[:4] = [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    for count in (1, 2, 2, 2, 2, 3, 5):
        rough = rng.normal(size=(count, 3)) * 10.0 ** rng.uniform(-3, 3)
        rough[0] = rng.choice([0.0, 1.0], size=3)
        with precision():
            slopes, left = line_near([[arb(a) for a in plane] for plane in rough.tolist()])
        line = points @ [float(a) for a in slopes[1:]] + float(slopes[0])
        apart = (points @ rough[:, 1:].T + rough[:, 0]).max(axis=1) - line
        slack = 1e-9 * np.abs(rough).max()
        assert float(left.low) - slack <= apart.min()
        assert apart.max() <= float(left.high) + slack


def test_one_feature_needs_tokens_that_are_alike(saved):
    claim = read(saved("interpolated", "truncated-linear"))
    query = claim.network.layers[1]
    assert isinstance(query, Attention)
    reads_all = replace(query, query=query.query + 1.0)
    layers = (claim.network.layers[0], reads_all)
    verdict = judge(replace(claim, network=replace(claim.network, layers=layers)))
    assert not verdict.agreed
    assert "one feature" in verdict.reason


def test_eight_variables_take_no_boxes(tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(4)
    nn = torch.nn
    module = nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    net = af.compile(module, [(-1, 1)] * 8, 1e-4)
    net.save(tmp_path / "f.safetensors")
    verdict = judge_file(tmp_path / "f.safetensors")
    assert verdict.agreed
    assert verdict.boxes == 0
    assert verdict.judged >= largest_error(read(tmp_path / "f.safetensors"), np.random.default_rng(0))


# ---------------------------------------------------------------- one head


def head(scores: Floats, values: Floats, width: int) -> Network:
    """A head over tokens with scores `x · a_j + a_j0` and constant values, (T, 1+D), (T,)."""
    memory = np.column_stack([scores, values])  # (T, 2+D)
    every = np.eye(memory.shape[1])
    query = np.zeros((1, width, width + 1))
    query[0, :, 1:] = np.eye(width)
    bias = np.zeros((1, width + 1))
    bias[0, 0] = 1.0
    layer = Attention(
        query=query,
        query_bias=bias,
        key=every[None, :, :-1],
        key_bias=np.zeros((1, width + 1)),
        value=every[None, :, -1:],
        value_bias=np.zeros((1, 1)),
        output=np.ones((1, 1, 1)),
        output_bias=np.zeros(1),
        memory=memory,
        attends_data=False,
        residual=False,
    )
    return Network((layer,), 1, width, "float64")


@pytest.mark.parametrize("seed", range(8))
def test_heads_that_are_no_fans_are_enclosed_too(seed):
    """Random scores, some tokens equal, some far below: whatever they are, the average is where the form says."""
    rng = np.random.default_rng(seed)
    tokens, width = int(rng.integers(1, 7)), int(rng.integers(1, 3))
    scores = rng.normal(size=(tokens, width + 1)) * 10.0 ** rng.uniform(-1, 2)
    scores[rng.random(tokens) < 0.3] = scores[0]
    values = rng.normal(size=tokens).round(int(rng.integers(0, 3)))
    network = head(scores, values, width)
    with precision():
        unknowns = Unknowns(np.full(width, -1.0), np.full(width, 1.0))
        (form,) = Follower(network, unknowns, Limits()).outputs()
        points = rng.uniform(-1, 1, (300, width))
        averages = network_values(network, points)[:, 0]
        for point, average in zip(points, averages, strict=True):
            at = {0: ONE} | {k + 1: arb(float(x)) for k, x in enumerate(point)}
            known = form.range
            for place in unknowns.maxima:
                at[place] = max((value(f, at) for f in unknowns.maxima[place].forms), key=float)
            left = Form(unknowns, {k: a for k, a in form.terms.items() if k in unknowns.errors}).range
            plain = value(Form(unknowns, {k: a for k, a in form.terms.items() if k not in unknowns.errors}), at)
            around = Range.point(plain) + left
            assert float(known.low) - 1e-12 <= average <= float(known.high) + 1e-12
            assert float(around.low) - 1e-12 <= average <= float(around.high) + 1e-12


def test_planes_that_lead_nowhere_are_no_part_of_a_maximum():
    """A head lets tokens go that are far below another one; so does the judge, in the target too."""
    slopes = [[-59800.0, 131000.0], [-15400.0, 25800.0], [201000.0, -19800.0], [107000.0, 14000.0]]
    planes = af.MaxAffine(
        [*slopes, [140000.0, -42700.0], [8480.0, 184000.0]], [163e3, -87200, -22300, 111e3, 49600, -91e3]
    )
    certificate = af.compile(planes, [(-1, 1)] * 2, 92.0).certificate.recheck(engine="arb")
    assert certificate.judged
    assert certificate.proof.rule == "structure"
