"""Learners in context as programs: the algorithm in float64, step by step, and where the network keeps its numbers.

A prompt of fixed length is the input, predictions at its queries are the output. Row j of a matrix stands in the state
row of feature j, and with the opposite sign in its mirror image; examples have mirror images too, see
`incontext/prompt.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..incontext import descent as descending
from ..incontext import least_squares
from ..incontext.gradient import GradientDescent
from ..incontext.linear import Ridge
from ..incontext.losses import READY
from ..incontext.prompt import columns
from ..incontext.registers import Registers
from ..network import Affine, Network
from ..runtime.backends.lens import residual_of
from ..runtime.backends.residual import ENTRY, Residual
from .programs import Register, RegisterProgram, Settings, output_names
from .sites import Site
from .specimen import Specimen
from .truth import established

Floats = npt.NDArray[np.float64]
State = dict[str, Floats]


@dataclass(frozen=True)
class Sizes:
    """Of the prompts that a learner in the zoo reads: features p, examples n, queries k; one output."""

    features: int
    examples: int
    queries: int

    @property
    def rows(self) -> int:
        """Rows of a prompt."""
        return 2 * self.features + 1 + 2 * self.examples + self.queries

    def row(self, kind: str, number: int) -> tuple[tuple[int, float], ...]:
        """Where row `number` of a kind stands, and with which sign: once, or twice with its mirror image."""
        first = {"state": 0, "data": 2 * self.features + 1, "query": 2 * self.features + 1 + 2 * self.examples}[kind]
        if kind == "query":
            return ((first + number, 1.0),)
        return (first + 2 * number, 1.0), (first + 2 * number + 1, -1.0)


@dataclass(frozen=True)
class LearnerStage:
    """One quantity of an algorithm, and the layer of the network behind which it stands in a register."""

    name: str
    place: str
    layer: int
    rows: str
    """state, data or query: the rows in which it stands."""
    formula: str
    compute: Callable[[State], Floats]  # -> (B, rows, width)
    gone: int | None = None
    """The layer that blanks the register, if one does."""


class Algorithm(RegisterProgram):
    """Stages in order; a register is one entry of one of them."""

    def __init__(self, sizes: Sizes, registers: Registers, stages: list[LearnerStage], widths: dict[str, int]) -> None:
        self.sizes, self.place, self.stages = sizes, registers, stages
        self.given = Registers(**columns(sizes.features, 1))
        counts = {"state": sizes.features, "data": sizes.examples, "query": sizes.queries}
        self.entries = {
            stage.name: [
                (row, column, stage.name + (f"[{row},{column}]" if widths[stage.place] > 1 else f"[{row}]"))
                for row in range(counts[stage.rows])
                for column in range(widths[stage.place])
            ]
            for stage in stages
        }
        inputs = [
            (f"{name}[{row},{column}]", kind, name, row, column)
            for kind, name, width in (("data", "x", sizes.features), ("data", "y", 1), ("query", "x", sizes.features))
            for row in range(counts[kind])
            for column in range(width)
        ]
        self.inputs = {
            label.replace("x[", "query[") if kind == "query" else label: (kind, name, row, column)
            for label, kind, name, row, column in inputs
        }
        self.outputs = output_names(sizes.queries)
        said = [(label, stage.formula) for stage in stages for _, _, label in self.entries[stage.name]]
        self.registers = (
            *(Register(name, "input", name) for name in self.inputs),
            *(Register(label, "step", label, formula, formula) for label, formula in said),
            *(Register(n, "output", n, f"{stages[-1].name}[{k}]") for k, n in enumerate(self.outputs)),
        )

    def run(self, rows: Floats, settings: Settings | None = None) -> dict[str, Floats]:
        """Stage after stage; a register that is set is set as soon as it is computed."""
        settings, state = settings or {}, self._read(rows)
        found = {name: self._input(state, *where) for name, where in self.inputs.items()}
        for stage in self.stages:
            state[stage.name] = values = np.array(stage.compute(state))  # (B, rows, width)
            for row, column, label in self.entries[stage.name]:
                values[:, row, column] = settings.get(label, values[:, row, column])
                found[label] = values[:, row, column]
        last = self.stages[-1].name
        return found | {name: state[last][:, k, 0] for k, name in enumerate(self.outputs)} | dict(settings)

    def _read(self, rows: Floats) -> State:
        """Examples x (B, n, p), y (B, n, 1), queries (B, k, p), the penalty (B, p, p), and what means divide by."""
        p, n, X = self.sizes.features, self.sizes.examples, rows.reshape(len(rows), self.sizes.rows, -1)
        data, state = X[:, 2 * p + 1 : 2 * p + 1 + 2 * n : 2], X[:, : 2 * p : 2]
        found = {name: data[..., self.given[name]] for name in ("x", "y")}
        count = n + state[..., self.given["counts"]].sum(axis=(1, 2))  # (B,)
        penalty, query = state[..., self.given["penalty"]], X[:, 2 * p + 1 + 2 * n :, self.given["x"]]
        if "odds" in self.place.places:  # what steps are multiplied with, and where they start
            found["rate"] = descending.LARGEST / (1 + np.exp(state[..., self.place["odds"]]))  # (B, p, 1)
            found["start"] = state[..., self.place["start"]]
        return {**found, "penalty": penalty, "query": query, "count": count[:, None, None]}

    def _input(self, state: State, kind: str, name: str, row: int, column: int) -> Floats:
        return state["query" if kind == "query" else name][:, row, column]

    def sites(self, residual: Residual) -> list[Site]:
        """Where the entries stand, layer after layer, until their register is used for something else."""
        return [*self._inputs(residual), *(site for stage in self.stages for site in self._stage(stage, residual))]

    def _inputs(self, residual: Residual) -> Iterator[Site]:
        _, places = residual.places[0]
        for label, (kind, name, row, column) in self.inputs.items():
            place = int(places[self.place[name].start + column])
            for at, sign in self.sizes.row(kind, row):
                yield Site.feature(label, ENTRY, at, place, residual.width, sign, 0.0)

    def _stage(self, stage: LearnerStage, residual: Residual) -> Iterator[Site]:
        ends = [other.layer for other in self.stages if other.place == stage.place and other.layer > stage.layer]
        ends += [len(residual.places), *([] if stage.gone is None else [stage.gone])]
        seen = set[int]()
        for layer in range(stage.layer, min(ends)):
            after, places = residual.places[layer]
            for row, column, label in self.entries[stage.name]:
                place = int(places[self.place[stage.place].start + column])
                for at, sign in self.sizes.row(stage.rows, row) if place not in seen else ():
                    yield Site.feature(label, after, at, place, residual.width, sign, 0.0)
            seen |= {int(place) for place in places[self.place[stage.place]]}
        if stage is self.stages[-1]:
            for (_, _, label), name in zip(self.entries[stage.name], self.outputs, strict=True):
                row = int(label.split("[")[1].rstrip("]"))
                ((at, sign),) = self.sizes.row("query", row)
                place = int(residual.places[-1][1][self.place[stage.place].start])
                yield Site.feature(name, residual.places[-1][0], at, place, residual.width, sign, 0.0)


def ridge(learner: Ridge, sizes: Sizes) -> tuple[Network, Algorithm]:
    """Ridge regression without intercept: `incontext/least_squares.py` as network and program."""
    p, steps = sizes.features, learner.n_steps or 0
    c = 2.0 * p
    one: Floats = np.eye(p)

    def gram(s: State) -> Floats:
        return (np.swapaxes(s["x"], 1, 2) @ s["x"] + s["penalty"]) / s["count"]

    stages = [
        LearnerStage("G", "G", 1, "state", "(X'X + penalty)/count", gram),
        LearnerStage("b", "b", 1, "state", "X'y/count", lambda s: np.swapaxes(s["x"], 1, 2) @ s["y"] / s["count"]),
        LearnerStage("P 0", "P", 2, "state", f"G/{c:g}", lambda s: s["G"] / c),
        LearnerStage("V 0", "V", 2, "state", f"1/{c:g}", lambda s: np.broadcast_to(one / c, s["G"].shape)),
    ]
    for t in range(1, steps + 1):

        def doubled(s: State, name: str, t: int = t) -> Floats:
            return s[f"{name} {t - 1}"] + (one - s[f"P {t - 1}"]) @ s[f"{name} {t - 1}"]

        for name in "PV":
            words = f"{name} {t - 1} + (1 - P {t - 1}) {name} {t - 1}"
            stages.append(
                LearnerStage(f"{name} {t}", name, 2 + t, "state", words, lambda s, n=name, f=doubled: f(s, n))
            )
    layer, V = 3 + steps, f"V {steps}"
    stages.append(LearnerStage("w 1", "w", layer, "state", f"{V} b", lambda s: s[V] @ s["b"]))
    for use in range(1, least_squares.REFINEMENTS):
        w, q, new = f"w {use}", f"q {use}", f"w {use + 1}"
        stages.append(LearnerStage(q, f"q{use}", layer + 1, "state", f"G {w}", lambda s, w=w: s["G"] @ s[w]))
        refined = LearnerStage(
            new, "w", layer + 3, "state", f"{w} + {V} (b - {q})", lambda s, w=w, q=q: s[w] + s[V] @ (s["b"] - s[q])
        )
        stages, layer = [*stages, refined], layer + 3
    w = f"w {least_squares.REFINEMENTS}"
    stages.append(LearnerStage("z", "z", layer + 1, "query", f"query {w}", lambda s: s["query"] @ s[w]))
    registers = least_squares.registers_for(p, 1)
    return _fixed(learner.network(p, n_outputs=1), registers, sizes), _algorithm(sizes, registers, stages)


def descent(learner: GradientDescent, sizes: Sizes) -> tuple[Network, Algorithm]:
    """Gradient descent on squares without intercept: `incontext/descent.py` as network and program."""
    p, beta, steps = sizes.features, learner.momentum, learner.steps
    registers = descending.registers_for(p, 1, READY["squared"](1.0, 1.0), steps)
    stages = [LearnerStage("K", "K", 1, "state", "penalty/count", lambda s: s["penalty"] / s["count"])]

    def iterate(s: State, name: str) -> Floats:
        return s[name] if name in s else s["start"]

    for t in range(1, steps + 1):
        layer, w, last = 4 * t - 2, f"w {t - 1}", f"v {t - 1}"

        def gradient(s: State, t: int = t) -> Floats:
            return np.swapaxes(s["x"], 1, 2) @ (s[f"z {t}"] - s["y"]) / s["count"]

        def extrapolated(s: State, t: int = t, last: str = last) -> Floats:
            return (1 + beta) * s[f"v {t}"] - beta * iterate(s, last)

        stages += [
            LearnerStage(f"z {t}", "z", layer, "data", f"X {w}", lambda s, w=w: s["x"] @ iterate(s, w), layer + 3),
            LearnerStage(f"q {t}", "q", layer, "state", f"K {w}", lambda s, w=w: s["K"] @ iterate(s, w), layer + 3),
            LearnerStage(f"g {t}", "g", layer + 1, "state", f"X'(z {t} - y)/count", gradient, layer + 3),
            LearnerStage(
                f"s {t}",
                "s",
                layer + 2,
                "state",
                f"rate (g {t} + q {t})",
                lambda s, t=t: s["rate"] * (s[f"g {t}"] + s[f"q {t}"]),
                layer + 3,
            ),
            LearnerStage(
                f"v {t}",
                "last",
                layer + 3,
                "state",
                f"{w} - s {t}",
                lambda s, t=t, w=w: iterate(s, w) - s[f"s {t}"],
            ),
            LearnerStage(f"w {t}", "w", layer + 3, "state", f"{1 + beta:g} v {t} - {beta:g} {last}", extrapolated),
        ]
    end, layer = f"v {steps}", 4 * steps + 2
    stages.append(LearnerStage("z", "z", layer, "query", f"query {end}", lambda s: s["query"] @ s[end]))
    return _fixed(learner.network(p, n_outputs=1), registers, sizes), _algorithm(sizes, registers, stages)


def _algorithm(sizes: Sizes, registers: Registers, stages: list[LearnerStage]) -> Algorithm:
    return Algorithm(sizes, registers, stages, {stage.place: registers.size(stage.place) for stage in stages})


def _fixed(network: Network, registers: Registers, sizes: Sizes) -> Network:
    """The network for prompts of one length, which puts out the predictions at the queries only."""
    left = np.eye(sizes.rows)[None, -sizes.queries :]  # (1, k, N)
    right = registers.read({"z": 1.0})[None]  # (1, F, 1)
    pick = Affine(right, np.zeros((sizes.queries, 1)), left)
    return replace(network, layers=(*network.layers[:-1], pick), length=sizes.rows)


TOLERANCE = 1e-8
"""How far predictions may be from the algorithm's, in the prompt's units; found at random prompts, not proved."""


def specimen_of(
    make: Callable[[Any, Sizes], tuple[Network, Algorithm]],
    learner: Ridge | GradientDescent,
    sizes: Sizes,
    name: str,
    title: str,
) -> Specimen:
    """A learner for prompts of one size, on random linear models with some noise."""
    network, program = make(learner, sizes)
    residual = residual_of(network)

    def sample(count: int, rng: np.random.Generator) -> Floats:
        X = rng.normal(size=(count, sizes.examples, sizes.features))
        w, noise = rng.normal(size=(count, sizes.features, 1)), 0.1 * rng.normal(size=(count, sizes.examples, 1))
        queries = rng.uniform(-1, 1, size=(count, sizes.queries, sizes.features))
        prompts = (learner.prompt(*each) for each in zip(X, X @ w + noise, queries, strict=True))
        return np.stack([prompt.rows.ravel() for prompt in prompts])

    truth = established(residual, program, program.sites(residual), (sizes.queries,))
    return Specimen(name, title, residual, truth, network.shape_in, sample, TOLERANCE, "estimated")


def ridge_specimen() -> Specimen:
    """Ridge regression in context, as a model of the zoo."""
    learner = Ridge(alpha=0.5, fit_intercept=False, n_steps=4)
    return specimen_of(ridge, learner, Sizes(features=2, examples=4, queries=1), "ridge", "ridge regression in context")


def descent_specimen() -> Specimen:
    """Gradient descent in context, as a model of the zoo."""
    learner = GradientDescent(step=0.25, alpha=0.1, momentum=0.5, fit_intercept=False, steps=3)
    sizes = Sizes(features=2, examples=4, queries=1)
    return specimen_of(descent, learner, sizes, "descent", "three steps of gradient descent in context")
