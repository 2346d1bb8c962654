"""Truncated linear maps, constructed and trained side by side: the first experiments of arXiv 2504.15956, and knots.

Sizes, seeds and training are those of the authors' public code (MAGICS-LAB/UAP_Attention), numbers drawn by NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import attnfun as af

from ..look.views.heads import heads, weights
from ..look.views.slices import look
from .base import Cell, Curve, Experiment, HeatMap, Panel, Picture, Result, Step, Table, quietly
from .drawing import BLUE, GREEN, GREY, ORANGE, SKY

Floats = npt.NDArray[np.float64]

REACH = 5.0
SAMPLES, FRESH = 800, 200
FIRST_SEED = 1234
SHARPNESS = 25.0
"""Of the authors' layer for pictures."""
WHOLE = "Sizes, seeds, samples and epochs are the authors'; w, t and x are drawn by NumPy, from the same distributions."
COLUMNS = (
    *("construction", "size", "b - a", "paper's bound", "proved", "largest error", "MSE", "MSE of all"),
    *("trained: MSE", "spread", "trained: MSE of all", "spread of all"),
)


@dataclass(frozen=True)
class TruncatedLinearSize:
    """One construction at one size, in the panel `group`; `ends` is b - a, p the points in all of what is trained."""

    group: str
    construction: str
    option: str
    size: int
    ends: float
    p: int = 0
    heads: int = 1


@dataclass(frozen=True)
class Trained:
    """Errors over seeds: mean and standard deviation, of the target's coordinate and of all of them."""

    mean: float
    spread: float
    mean_of_all: float
    spread_of_all: float


@dataclass(frozen=True)
class Measured:
    """What came out."""

    size: TruncatedLinearSize
    paper: float | None
    proved: float
    largest: float
    mse: float
    features: int
    trained: Trained | None

    @property
    def cells(self) -> tuple[Cell, ...]:
        """A row of the table."""
        size, own = self.size, self.trained
        figures = (size.ends, self.paper, self.proved, self.largest, self.mse, self.mse / self.features)
        trained = (None,) * 4 if own is None else (own.mean, own.spread, own.mean_of_all, own.spread_of_all)
        return (size.construction, f"{size.option} = {size.size}", *figures, *trained)


@dataclass(frozen=True)
class TruncatedLinearSetup:
    """Tokens of a sequence and their features, epochs, seeds, seconds for a proof, and all sizes.

    `maps`: tokens, features of the network and epochs for pictures of attention, and the b - a shown.
    """

    length: int
    width: int
    epochs: int
    seeds: int
    seconds: float
    sizes: tuple[TruncatedLinearSize, ...]
    maps: tuple[int, int, int]
    shown: tuple[float, ...]

    def paper(self, size: TruncatedLinearSize) -> float | None:
        """The paper's bound."""
        steps = {"p": size.size, "heads": (self.length - 2) * size.size}.get(size.option)
        return None if steps is None else size.ends / steps


def _sizes(
    points: tuple[int, ...], many: tuple[int, ...], ends: tuple[float, ...], sharp: tuple[int, ...]
) -> Iterator[TruncatedLinearSize]:
    """The authors' three sweeps, and knots: p = the first of the points and b - a = the last of the ends elsewhere."""
    least, usual = points[0], ends[-1]
    yield from (TruncatedLinearSize("p", "truncated-linear", "p", p, usual, p) for p in points)
    yield from (TruncatedLinearSize("H", "multihead", "heads", H, usual, least, H) for H in many)
    yield from (TruncatedLinearSize("b - a", "truncated-linear", "p", least, width, least) for width in ends)
    yield from (TruncatedLinearSize("R", "knots", "R", 2**k, usual) for k in sharp)


FULL = TruncatedLinearSetup(
    *(50, 10, 50, 11, 480.0),
    tuple(_sizes((60, 70, 80, 90, 100, 110, 120), (1, 2, 4, 8, 16), (10.0, 20.0, 30.0, 40.0, 50.0), (6, 13, 27))),
    *((30, 11, 100), (0.5, 1.5, 3.0)),
)
QUICK = TruncatedLinearSetup(
    *(6, 3, 3, 2, 2.0), tuple(_sizes((10, 20), (1, 2), (10.0, 20.0), (6, 13))), *((6, 5, 2), (0.5, 3.0))
)


class TruncatedLinearRate(Experiment):
    """Error against p, H, b - a and R, and where heads look."""

    name = "truncated-linear"
    title = "Truncated linear maps"
    constructions = ("truncated-linear", "multihead", "knots")
    extras = ("torch",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """All sizes; quickly, few and small ones."""
        from .training import FEATURES, recipe

        setup = QUICK if quick else FULL
        known: dict[tuple[int, int, float], Trained] = {}
        done = [_measured(setup, size, known, step) for size in setup.sizes]
        text = (
            f"`clip(w_i·x_i + t_i, a, b)` for each of {setup.length} tokens of {setup.width} features, x uniform in "
            f"[-{REACH:g}, {REACH:g}]: p interpolation points in one head, H heads without memory (arXiv 2504.15956), "
            "and knots (ours). Beside them the authors' network, trained: a shared projection with a diagonal for each "
            f"token, p tokens in all, n of them the data's (p = {setup.sizes[0].p} where H or b - a vary), one layer; "
            f"{recipe(SAMPLES, FRESH, setup.epochs)}; mean and standard deviation over {setup.seeds} seeds, which draw "
            "w, t, x and the first weights. It has the target in one coordinate and zeros in the others, and the "
            f'authors measure all of them ("MSE of all"); a constructed network is exact in the other {FEATURES - 1}. '
            "Constructed networks serve the maps of the first seed; their data tokens are keys too, with weights "
            "close to zero. "
            f"Proofs have at most {setup.seconds:g} seconds each. {'' if quick else WHOLE}"
        )
        table = Table("sizes", "All sizes", COLUMNS, tuple(row.cells for row in done))
        return Result(text.strip(), (_picture(done), _maps(setup, step)), (table,))


def _drawn(setup: TruncatedLinearSetup, seed: int, ends: float) -> tuple[af.TruncatedLinear, Floats, Floats]:
    """A map, points (B, n, d) and its values (B, n)."""
    rng, shape = np.random.default_rng(seed), (setup.length, setup.width)
    X = rng.uniform(-REACH, REACH, (SAMPLES + FRESH, *shape))
    target = af.TruncatedLinear(rng.normal(size=shape), rng.normal(size=setup.length), -ends / 2, ends / 2)
    return target, X, target(X)


def _constructed(
    setup: TruncatedLinearSetup, size: TruncatedLinearSize, target: af.TruncatedLinear
) -> af.types.Compiled:
    shape = (setup.length, setup.width)
    domain = af.Box(np.full(shape, -REACH), np.full(shape, REACH))
    options = {size.option: size.size}
    return af.compile(target, domain, construction=size.construction, options=options, time_limit=setup.seconds)


def _measured(
    setup: TruncatedLinearSetup, size: TruncatedLinearSize, known: dict[tuple[int, int, float], Trained], step: Step
) -> Measured:
    """Construct it, and train the authors' network of that size unless that has been done."""
    from .training import FEATURES

    step(f"{size.construction}, {size.option} = {size.size}, b - a = {size.ends:g}")
    target, X, wanted = _drawn(setup, FIRST_SEED, size.ends)
    net = _constructed(setup, size, target)
    error = np.abs(net(X[SAMPLES:]) - wanted[SAMPLES:])
    of, trained = (size.p, size.heads, size.ends), None
    if size.p:
        if of not in known:
            step(f"training, p = {size.p}, H = {size.heads}, b - a = {size.ends:g}")
            known[of] = _trained(setup, size)
        trained = known[of]
    figures = net.certificate.bound, float(error.max()), float(np.mean(error**2))
    return Measured(size, setup.paper(size), *figures, FEATURES, trained)


def _trained(setup: TruncatedLinearSetup, size: TruncatedLinearSize) -> Trained:
    from .training import FEATURES, PointsLayer, trained

    own, of_all = list[float](), list[float]()
    for seed in range(FIRST_SEED, FIRST_SEED + setup.seeds):
        _, X, values = _drawn(setup, seed, size.ends)
        wanted = np.zeros((*values.shape, FEATURES))
        wanted[..., 0] = values
        shape = (setup.length, setup.width, size.p, size.heads)
        computed = trained(lambda shape=shape: PointsLayer(*shape), X[:SAMPLES], wanted[:SAMPLES], setup.epochs, seed)
        squares = (computed(X[SAMPLES:]) - wanted[SAMPLES:]) ** 2  # (B, n, f)
        own.append(float(squares[..., 0].mean()))
        of_all.append(float(squares.mean()))
    return Trained(*(float(figure(errors)) for errors in (own, of_all) for figure in (np.mean, np.std)))


def _picture(results: list[Measured]) -> Picture:
    """Errors against each size."""
    usual, least = results[0].size.ends, results[0].size.p
    groups = (
        ("p", f"p (one head, b - a = {usual:g})", "size"),
        ("H", f"H (b - a = {usual:g}; trained: p = {least})", "size"),
        ("b - a", f"b - a (p = {least})", "ends"),
        ("R", f"R (knots, b - a = {usual:g})", "size"),
    )
    panels = []
    for group, label, axis in groups:
        rows = [row for row in results if row.size.group == group]
        across = [getattr(row.size, axis) for row in rows]
        trained = [row.trained for row in rows]
        curves = (
            Curve("paper's bound", across, [row.paper for row in rows], "--", GREY),
            Curve("proved", across, [row.proved for row in rows], "-", BLUE),
            Curve("largest error", across, [row.largest for row in rows], "o", SKY),
            Curve("root mean square", across, [row.mse**0.5 for row in rows], "s", GREEN),
            Curve(
                "root mean square, trained",
                across,
                [own and own.mean**0.5 for own in trained],
                "x-",
                ORANGE,
                [own and own.spread / (2 * own.mean**0.5) for own in trained],  # to first order
            ),
        )
        panels.append(Panel(label, group, "error", curves))
    return Picture("sizes", "Errors against p, H, b - a and R, constructed and trained", tuple(panels))


def _maps(setup: TruncatedLinearSetup, step: Step) -> Picture:
    """Attention weights: the authors' layer with points held in its keys and values, trained, and the constructed."""
    panels = tuple(panel for ends in setup.shown for panel in _map(setup, ends, step))
    return Picture("attention", "Attention weights for several b - a, trained and constructed", panels, across=3)


def _map(setup: TruncatedLinearSetup, ends: float, step: Step) -> Iterator[HeatMap]:
    import torch

    from .training import HeldPoints, PointsLayer, trained

    step(f"pictures of attention, b - a = {ends:g}")
    length, features, epochs = setup.maps
    setup = replace(setup, length=length)
    target, X, values = _drawn(setup, FIRST_SEED, ends)
    wanted = np.zeros((*values.shape, features))
    wanted[..., 0] = values
    made = list[tuple[PointsLayer, HeldPoints]]()

    def make() -> PointsLayer:
        model = PointsLayer(length, setup.width, length, 1, features)
        held = model.attention = HeldPoints(features, torch.linspace(-ends / 2, ends / 2, length), SHARPNESS)
        made.append((model, held))
        return model

    trained(make, X[:SAMPLES], wanted[:SAMPLES], epochs, FIRST_SEED)
    words = f"b - a = {ends:g}"
    ((model, held),) = made
    with torch.no_grad():
        tokens = model.tokens(torch.tensor(X[SAMPLES : SAMPLES + 2], dtype=torch.float32))
        for sample, found in enumerate(held.weights(tokens).double().numpy()):
            yield HeatMap(f"trained, {words}, sample {sample}", "query token", "key token", found.T)
    size = TruncatedLinearSize("p", "truncated-linear", "p", length, ends)
    net = _constructed(setup, size, target)
    window, place, row = look(net), heads(net.network)[0], X[SAMPLES : SAMPLES + 1].reshape(1, -1)
    rows = [weights(window, row, place._replace(token=token))[0, length:] for token in range(length)]  # (n, p)
    yield HeatMap(f"constructed, {words}, sample 0", "query token", "interpolation point", np.array(rows).T)
