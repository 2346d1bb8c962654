"""One table of targets that the tests of every layer use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import attnfun as af


@dataclass(frozen=True)
class Case:
    """A target, its domain and a tolerance that the grid reaches quickly."""

    name: str
    target: Any
    domain: Any
    eps: float
    keywords: dict[str, Any] = field(default_factory=dict)
    status: str = "proved"
    constructions: tuple[str, ...] = ("grid", "cross", "spectral")
    """The constructions that serve it at this tolerance."""

    def compile(self, **keywords: Any) -> af.types.Compiled:
        return af.compile(self.target, self.domain, self.eps, **{**self.keywords, **keywords})

    def fitting(self, dtype: str) -> str:
        """The dtype asked for, or float64 where it cannot serve the tolerance."""
        return "float64" if self.eps < 1e-4 else dtype

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Combination(Case):
    """Networks put together by a function of the dtype; its own construction."""

    def compile(self, *, dtype: str = "float64", **_keywords: Any) -> af.types.Compiled:
        return self.target(dtype)


def mixed(dtype: str) -> af.types.Compiled:
    """A composition, a product and a sum of networks of several constructions."""
    box = {"x": (-1, 1), "y": (0, 1)}
    inner = af.compile("[x*y, x - y**2]", box, 0.01, dtype=dtype, construction="spectral")
    outer = af.compile("abs(a) + a*b", {"a": (-1.1, 1.1), "b": (-2.1, 1.1)}, 0.01, dtype=dtype, construction="circuit")
    factor = af.compile("x + 0.5", box, 0.01, dtype=dtype, construction="max-affine")
    return outer(inner) * factor.restrict(box) - 0.5 * inner


def tokens_added(dtype: str) -> af.types.Compiled:
    """Maps of sequences added, one of which has a softmax of its own."""
    box = af.Box([[-1], [-1]], [[1], [1]])
    one = af.compile(af.TruncatedLinear([[1.0], [2.0]], 0.1, -1.0, 1.0), box, 1e-3, dtype=dtype)
    other = af.compile(swap_and_sum, box, 0.4, dtype=dtype, construction="softmax-readout")
    return one - 2 * other


def branching(p: Any) -> Any:
    """A function that cannot be traced: it looks at values."""
    flat = np.asarray(p, dtype=float).reshape(-1, 2)
    return np.array([a * b if a > b else b * b for a, b in flat]).reshape(np.shape(p)[:-1])


def swap_and_sum(X: Any) -> Any:
    """A map from 2 tokens of 1 feature to 2 tokens of 2 features."""
    a, b = X[..., 0, 0], X[..., 1, 0]
    return np.stack([np.stack([b, a + b], axis=-1), np.stack([a, a * b], axis=-1)], axis=-2)


def weighed(Q: Any, K: Any) -> Any:
    """A function of two inputs, 2 tokens of 1 feature and a vector of 1, with 2 values."""
    k = K[..., 0]
    return np.stack([np.tanh(Q[..., 0, 0] * k), Q[..., 1, 0] * k], axis=-1)


def mix_rows(X: Any) -> Any:
    """A map from 2 tokens of 2 features to 3 tokens of 1 feature whose rows differ."""
    a, b = X[..., 0, :], X[..., 1, :]
    rows = [a[..., 0] * b[..., 1] + 3.0, np.tanh(b[..., 0]), a[..., 0] + b[..., 1] - 5.0]
    return np.stack(rows, axis=-1).reshape((*a.shape[:-1], 3, 1))


def rectifiers() -> torch.nn.Module:
    """A PyTorch network with three kinds of units and two hidden layers."""
    torch.manual_seed(0)
    nn = torch.nn
    layers = (
        nn.Linear(3, 4),
        nn.LeakyReLU(0.1),
        nn.Linear(4, 4),
        nn.Hardtanh(),
        nn.Linear(4, 3),
        nn.ReLU(),
        nn.Linear(3, 2),
    )
    return nn.Sequential(*layers)


def shallow() -> torch.nn.Module:
    """A PyTorch network with one hidden layer, from 2 tokens of 2 features to as many."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 4))


RNG = np.random.default_rng(0)
PLANES = af.MaxAffine(RNG.normal(size=(9, 2)), RNG.normal(size=9))
ANGLES = np.linspace(0.3, 2.8, 60)
CIRCLE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
CLOUD = RNG.normal(size=(60, 3))

CASES = [
    Case("wave", "sin(3*x)", {"x": (-1, 1)}, 0.05),
    Case("product", "sin(3*x)*y", {"x": (-1, 1), "y": (-1, 1)}, 0.2),
    Case("uncentred", "x**2/y", {"x": (100, 101), "y": (1, 2)}, 400.0),
    Case("vector", "[exp(-x**2), x*y]", {"x": (0, 1), "y": (0, 2)}, 0.2),
    Case("kink", "abs(x - 0.2) + min(x, 0.1)", {"x": (-1, 1)}, 0.05),
    Case(
        "branches",
        "where(x < 0.2 and x < y, 0.2 - x, max(0.2 - x, x - y))",
        {"x": (0, 1), "y": (0.5, 1)},
        0.1,
        constructions=("grid", "cross"),
    ),
    Case("root", "sqrt(x)", {"x": (0, 1)}, 0.05),
    Case("unused variable", "cos(x)", {"x": (0, 1), "y": (0, 1)}, 0.05),
    Case("constant", "pi/4", {"x": (0, 1)}, 0.01),
    Case("three variables", "x*y + z", {"x": (0, 1), "y": (0, 1), "z": (0, 1)}, 0.4),
    Case("traced", np.sin, (-2, 2), 0.05),
    Case("traced vector", lambda p: np.stack([p[..., 0] * p[..., 1], np.exp(p[..., 0])], -1), [(-1, 1)] * 2, 0.3),
    Case("sequence", swap_and_sum, af.Box([[-1], [-1]], [[1], [1]]), 0.3),
    Case(
        "sequence by two layers",
        swap_and_sum,
        af.Box([[-1], [-1]], [[1], [1]]),
        0.4,
        constructions=("two-layer", "two-layer-lookup", "softmax-readout"),
    ),
    Case(
        "sequence by position",
        mix_rows,
        af.Box([[-1, 0], [-1, 0]], [[1, 0.5], [1, 0.5]]),
        0.9,
        {"options": {"layout": "position"}},
        constructions=("grid", "cross"),
    ),
    Case(
        "disc",
        "exp(x)*y/(2 - x**2 - y**2)",  # a pole in the enclosing box, none in the region
        af.Region("x**2 + y**2 <= 1 and x > -0.9", {"x": (-1.5, 1), "y": (-1.5, 1.5)}),
        1.0,
        constructions=("grid", "cross"),
    ),
    Case(
        "cloud",
        "x*y + sin(x)",
        af.Points(CIRCLE, fill=0.05, names=("x", "y")),
        0.4,
        constructions=("grid", "cross"),
    ),
    Case(
        "two inputs",
        weighed,
        {"Q": af.Box([[-1.0], [0.0]], [[1.0], [0.5]]), "K": af.Box([-1.0], [1.0], names=["k"])},
        0.5,
        constructions=("cross",),
    ),
    Case(
        "memory as rows",
        "sin(3*x)*y",
        {"x": (-1, 1), "y": (0, 1)},
        0.4,
        {"options": {"memory": "map"}},
        constructions=("grid",),
    ),
    Case("declared", branching, [(0, 1)] * 2, 0.2, {"lipschitz": 2.5}, "conditional", ("grid", "cross")),
    Case("eight digits", "sin(10*x)*exp(-x)", {"x": (-1, 1)}, 1e-8, constructions=("spectral",)),
    Case(
        "two smooth variables", "cos(3*x + y)/(2 + x*y)", {"x": (-1, 1), "y": (0, 1)}, 1e-5, constructions=("spectral",)
    ),
    Case(
        "truncated linear",
        af.TruncatedLinear([[1.0, -2.0], [0.5, 0.25], [3.0, 1.0]], [0.1, 0.0, -1.0], -1.0, 1.5),
        af.Box(np.full((3, 2), -1.0), np.full((3, 2), 2.0)),
        2e-4,
        constructions=("knots", "relu"),
    ),
    Case(
        "interpolated",
        af.TruncatedLinear([[1.0, -2.0], [0.5, 0.25], [3.0, 1.0]], 0.1, -1.0, 1.5),
        af.Box(np.full((3, 2), -1.0), np.full((3, 2), 2.0)),
        0.05,
        constructions=("truncated-linear", "multihead", "two-layer"),
    ),
    Case(
        "two layers", shallow(), af.Box(np.full((2, 2), -1.0), np.full((2, 2), 1.0)), 2e-4, constructions=("two-layer",)
    ),
    Case(
        "two token-wise layers",
        shallow(),
        af.Box(np.full((2, 2), -1.0), np.full((2, 2), 1.0)),
        2e-3,
        {"options": {"layout": "token-wise"}},
        constructions=("two-layer",),
    ),
    Case("max-affine", PLANES, [(-1, 1)] * 2, 2e-4, constructions=("max-affine",)),
    Case(
        "difference of convex functions",
        PLANES - af.MaxAffine([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [0.0, 0.1, 0.0]),
        [(-1, 1)] * 2,
        2e-4,
        constructions=("max-affine",),
    ),
    Case("tangent planes", "x**2 + exp(y)", {"x": (-1, 1), "y": (-1, 1)}, 0.1, constructions=("max-affine",)),
    Case("two sets of planes", "sin(3*x)", {"x": (-1, 1)}, 0.05, constructions=("max-affine",)),
    Case("rectifiers", rectifiers(), [(-1, 1)] * 3, 2e-4, constructions=("relu",)),
    Case("corner", "abs(sin(3*x))*exp(x/2)", {"x": (-1, 1)}, 1e-6, constructions=("spectral",)),
    Case(
        "circuit",
        "x*exp(-y*z)/(1 + z**2) + log(3 + x*y)",
        {"x": (-1, 2), "y": (0, 1), "z": (1, 2)},
        1e-6,
        constructions=("circuit",),
    ),
    Case(
        "circuit of monomials",
        "[sqrt(a*b/c)*e**-2, -a**1.5*b/(c - 4), max(a, 2*b) - min(abs(b - d), 1)]",
        {"a": (1, 3), "b": (0.5, 2), "c": (1, 2), "d": (-1, 1), "e": (1, 2)},
        1e-6,
        constructions=("circuit",),
    ),
    Case(
        "one direction of three",
        "sin(3*(x + 2*y - z)) + x",
        dict.fromkeys("xyz", (-0.5, 0.5)),
        0.1,
        constructions=("subspace",),
    ),
    Case(
        "circuit at an edge",
        "e + sqrt((a - b)**2 + (c - d)**2)",
        dict.fromkeys("abcde", (0, 1)),
        0.02,
        constructions=("circuit",),
    ),
    Case("black box", branching, [(0, 1)] * 2, 0.2, {}, "estimated"),
    Combination("combination", mixed, None, 0.1, constructions=("combined",)),
    Combination("combination of sequences", tokens_added, None, 0.9, constructions=("combined",)),
    Case(
        "samples",
        af.Samples(CLOUD, np.stack([np.sin(3 * CLOUD[:, 0]), CLOUD @ [1.0, 2.0, 0.0]], axis=1)),
        None,
        2.0,
        {"options": {"tokens": 12, "polish": False, "folds": 2}},
        "estimated",
        ("regression",),
    ),
]

BY_CONSTRUCTION = {name: case for case in reversed(CASES) for name in case.constructions}
"""The first case of every construction."""
TYPICAL = [case for case in CASES if case in BY_CONSTRUCTION.values()]
"""Those cases, for tests that take a second each."""
