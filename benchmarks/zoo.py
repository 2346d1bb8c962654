"""Plain methods of explanation on the models of the zoo, with and without disguise: how right are they?

    python benchmarks/zoo.py [--quick]

Writes benchmarks/results/zoo.md. The truth and random claims stand beside the methods.
"""

from __future__ import annotations

import argparse
import platform
import sys
from itertools import product
from pathlib import Path

import numpy as np

import attnfun as af
from attnfun.zoo.answers import TUNING, Answers
from attnfun.zoo.baselines import BASELINES
from attnfun.zoo.catalogue import CATALOGUE, chosen, made
from attnfun.zoo.folder import TUNING as FOLDER
from attnfun.zoo.folder import USUAL
from attnfun.zoo.scoring import MEASURES, Score, perfect_claims, random_claims, score_model

RESULTS = Path(__file__).parent / "results"
GUESSES = 20
WEIGHTS = ("plain", "disguised")


def scores(model: af.zoo.Specimen, seed: int) -> dict[str, Score]:
    """The score of every method."""
    answers = Answers.of(model, FOLDER.points, seed)
    guesses = [score_model(answers, random_claims(answers, np.random.default_rng(k))) for k in range(GUESSES)]
    chance = {m: float(np.mean([guess.measures[m] for guess in guesses])) for m in guesses[0].measures}
    methods = {name: score_model(answers, method(model, answers)) for name, method in BASELINES.items()}
    return {"truth": score_model(answers, perfect_claims(answers)), "random": Score(chance, {}), **methods}


def line(first: list[str], measures: dict[str, list[float]]) -> str:
    """A row of a table: means, or nothing."""
    cells = [f"{np.mean(measures[m]):.2f}" if measures.get(m) else "" for m in MEASURES]
    return f"| {' | '.join([*first, *cells])} |"


def gathered(some: list[Score]) -> dict[str, list[float]]:
    """Measures of several models."""
    return {m: [each.measures[m] for each in some if m in each.measures] for m in MEASURES}


def page(found: dict[tuple[str, str, str], Score], names: list[str], quick: bool) -> str:
    """The tables, of the models that are done."""
    methods = list(dict.fromkeys(method for method, _, _ in found))
    titles = ["kind", "method", "weights", *MEASURES]
    lines = [
        "# Explanations of models whose mechanism is known",
        "",
        f"Made by `python benchmarks/zoo.py{' --quick' * quick}`; attnfun {af.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}. Disguises: {', '.join(USUAL)}. {FOLDER.points} points a model, at most "
        f"{TUNING.most} registers. The measures are those of `attnfun zoo score`: 1 is right, an AUROC of 1/2 is "
        "chance. Random claims are told behind which block and in which row a register stands.",
        "",
        "## Means over kinds of models",
        "",
        f"| {' | '.join(titles)} |",
        "|---" * len(titles) + "|",
    ]
    for kind in dict.fromkeys(CATALOGUE[name].kind for name in names):
        own = [name for name in names if CATALOGUE[name].kind == kind]
        for method, how in product(methods, WEIGHTS):
            lines.append(line([kind, method, how], gathered([found[method, how, name] for name in own])))
    lines += ["", "## Disguised models one by one", "", f"| model | method | {' | '.join(MEASURES)} |"]
    lines += ["|---" * (2 + len(MEASURES)) + "|"]
    lines += [line([n, m], gathered([found[m, "disguised", n]])) for n, m in product(names, BASELINES)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the tables, again after each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    found: dict[tuple[str, str, str], Score] = {}
    done: list[str] = []
    for number, name in enumerate(chosen([], quick)):
        plain, _ = made(name)
        for how, model in zip(WEIGHTS, (plain, af.zoo.disguise(plain, USUAL, number)), strict=True):
            found |= {(method, how, name): each for method, each in scores(model, number).items()}
            sys.stderr.write(f"{name}, {how}\n")
        done.append(name)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "zoo.md").write_text(page(found, done, quick))


if __name__ == "__main__":
    main()
