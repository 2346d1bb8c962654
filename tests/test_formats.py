"""Number formats: one table, and what it says is what NumPy and PyTorch say."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

import attnfun as af
from attnfun.arithmetic.formats import DTYPES, FORMATS, round_to
from attnfun.incontext.precision import LEARNERS, precision_of
from clocks import readings

SOURCE = Path(af.__file__).parent
EDGES = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    65504.0,
    65519.99,
    65520.0,
    2.0**-25,
    1.5 * 2.0**-24,
    2.5 * 2.0**-24,
    1e300,
    5e-324,
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_those_of_the_format(dtype):
    known, torches = FORMATS[dtype], torch.finfo(getattr(torch, dtype))
    assert (known.largest, known.normal, known.least) == (
        torches.max,
        torches.tiny,
        torches.tiny * torches.eps,
    )
    assert known.grain == torches.eps / 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_is_that_of_torch(dtype):
    """From float32, because PyTorch rounds twice from float64."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=20000) * 2.0 ** rng.integers(-140, 125, 20000)
    near = rng.normal(size=20000) * 2.0 ** rng.integers(-30, 20, 20000)
    with np.errstate(over="ignore"):
        numbers = np.concatenate([numbers, near, EDGES]).astype(np.float32)
    expected = torch.tensor(numbers).to(getattr(torch, dtype)).double().numpy()
    found = round_to(numbers.astype(np.float64), dtype)
    assert np.array_equal(found, expected)
    assert np.array_equal(np.signbit(found), np.signbit(expected))


def test_float16_is_rounded_once():
    numbers = np.random.default_rng(0).normal(size=20000) * 2.0 ** np.random.default_rng(1).integers(-30, 17, 20000)
    with np.errstate(over="ignore"):
        assert np.array_equal(round_to(numbers, "float16"), numbers.astype(np.float16).astype(np.float64))


def test_there_is_one_table_of_formats():
    """No literal outside of the table lists two formats, except in the judge, which shares nothing, and in contests."""
    tables = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
            named = {part.value for part in parts if isinstance(part, ast.Constant)} & set(DTYPES)
            if len(named) > 1:
                tables.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert [table for table in tables if not table.startswith(("experiments/", "judge/"))] == []


def test_the_assumption_says_how_sums_are_added():
    assert "sums use float32" in FORMATS["float16"].assumption
    assert "float16 numbers below 6.1e-05 are not flushed to zero" in FORMATS["float16"].assumption
    assert "flushed" not in FORMATS["bfloat16"].assumption


def test_scores_that_float16_does_not_hold_are_refused_in_words():
    with pytest.raises(
        af.errors.ProofFailed, match=r"at most 3.28e\+04, half of the largest one in float16.*scores.*Rescale"
    ):
        af.compile("sin(3*x)", {"x": (-1, 1)}, dtype="float16", construction="cross", options={"tokens": 60})


def test_sharp_heads_fit_into_float16():
    """Where no tolerance says how sharp they are to be."""
    target = af.MaxAffine([[0.5], [-1.0]], [0.0, 0.0])
    net = af.compile(target, {"x": (-1, 1)}, dtype="float16", construction="max-affine", time_limit=readings(250))
    assert net.certificate.proved
    points = round_to(np.linspace(-1, 1, 2001), "float16")
    with torch.no_grad():
        values = net.to_torch()(torch.tensor(points)[:, None].half()).double().numpy()
    assert np.abs(values.ravel() - np.maximum(points / 2, -points)).max() <= net.certificate.bound


def test_choices_of_learners_are_those_found_by_experiment():
    """Tuned in both formats; the formulas give these numbers."""
    assert LEARNERS == ("float64", "float32")
    found = [
        (c.reach, c.data_reach, c.lead, c.step, c.doublings, c.most_doublings, c.least_eigenvalue, c.peak, c.settled)
        for c in map(precision_of, LEARNERS)
    ]
    assert found == [
        (2.0**-6, 2.0**-5, 2.0**12, 2.0**-10, 28, 40, 2.0**-22, (2.0**6, 2.0**18), 1e-6),
        (2.0**-3, 2.0**-1, 2.0**8, 2.0**-6, 16, 20, 2.0**-13, (2.0**4, 2.0**14), 1e-3),
    ]
    assert [(c.least_weight, *c.gate) for c in map(precision_of, LEARNERS)] == [
        (-18.0, 2.0**36, 2.0**46),
        (-6.0, 2.0**12, 2.0**22),
    ]
