"""How right a method's claims are.

Claims are JSON. For each model, whatever the method has to say, all parts optional (H is "block.head"):

    {"gate": {"working":       {H: importance, ..},                       heads that matter for the output
              "heads":         {register: {H: importance, ..}, ..},       heads that compute a register
              "directions":    {register: {"after": 2, "row": 0, "direction": [..]}, ..},
              "interventions": {register: [[output, ..], ..], ..}}}       outputs at the points of `tasks.safetensors`

Heads that are not mentioned have the importance 0. Measures, all of them 1 if right:

    AUROC       chance that a head which is one of the right ones has a higher importance than one that is not; 1/2 is
                chance, and there is none if all heads are right or none is
    precision   of the heads with at least half of the largest importance, how many are right
    recall      of the right heads, how many have at least half of the largest importance
    cosine      |cos| of the angle to the nearest direction that carries the register there
    subspace    cos of the angle to the span of all directions that carry it there
    prediction  1 - |error| / |effect|, root mean squares over points and outputs, not below 0: so 0 is as good as
                saying that nothing changes; only for interventions that change something
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileFormatError, InputError
from .answers import Answers
from .folder import manifest_of
from .truth import Head

Floats = npt.NDArray[np.float64]
PARTS = ("working", "heads", "directions", "interventions")
HALF = 0.5


@dataclass(frozen=True)
class ScoringTuning:
    """Which interventions count."""

    silent: float = 1e-9
    """Interventions that move outputs by less than this, relative to their size, are left out. A round number."""


TUNING = ScoringTuning()

MEASURES = ("AUROC", "precision", "recall", "cosine", "subspace", "prediction")


@dataclass(frozen=True)
class Score:
    """Means over what was claimed about one model, and which part of the questions that answers."""

    measures: Mapping[str, float]
    """By name; those that nothing was claimed for are not there."""
    covered: Mapping[str, float]
    """For heads, directions and interventions, the part of all registers about which something was claimed."""

    def as_dict(self) -> dict[str, Any]:
        """The fields as a dict."""
        return {"measures": dict(self.measures), "covered": dict(self.covered)}


def table(scores: Mapping[str, Score]) -> str:
    """Scores as a Markdown table, means over the models in the last row; `claimed` is the part that was claimed."""
    columns = [*MEASURES, "claimed"]
    rows = [
        (n, {**each.measures, "claimed": float(np.mean(list(each.covered.values())))}) for n, each in scores.items()
    ]
    mean = {m: [known[m] for _, known in rows if m in known] for m in columns}
    rows.append(("mean", {m: float(np.mean(values)) for m, values in mean.items() if values}))
    lines = [["model", *columns], ["---"] * (1 + len(columns))]
    lines += [[name, *(f"{known[m]:.3f}" if m in known else "" for m in columns)] for name, known in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def read_claims(path: Path) -> dict[str, Any]:
    """Claims from a JSON file."""
    try:
        claims = json.loads(path.read_bytes())
    except (OSError, ValueError) as reason:
        raise FileFormatError(f"{path} must be a readable JSON file", got=str(reason)) from None
    if not isinstance(claims, dict):
        raise FileFormatError("claims must be an object with a model's name for each key", got=type(claims).__name__)
    return claims


def score(folder: Path, claims: Mapping[str, Any]) -> dict[str, Score]:
    """The scores of claims about the models of a folder, model by model."""
    models = manifest_of(folder)["models"]
    _check(bool(claims), "claims must be about one model at least", claims)
    for name in claims:
        if name not in models:
            raise InputError(f"claims must be about {', '.join(models)}", got=repr(name))
    return {name: score_model(Answers.read(folder / name), said) for name, said in claims.items()}


def score_model(answers: Answers, said: Mapping[str, Any]) -> Score:
    """The score of claims about one model."""
    _check(isinstance(said, Mapping), "the claims about a model must be an object", said)
    for part in said:
        _check(part in PARTS, f"claims have the parts {', '.join(PARTS)}", part)
    _check(any(said.values()), f"the claims about a model must say something of {', '.join(PARTS)}", said)
    found: dict[str, list[float]] = {name: [] for name in MEASURES}
    by_register = {part: _by_register(answers, said.get(part, {})) for part in PARTS[1:]}
    if said.get("working"):
        _heads(answers, said["working"], answers.working, found)
    for register, importance in by_register["heads"].items():
        _heads(answers, importance, answers.computed_by[register], found)
    for register, claim in by_register["directions"].items():
        _direction(answers, register, claim, found)
    for register, outputs in by_register["interventions"].items():
        _prediction(answers, register, outputs, found)
    questions = len(answers.values) or 1
    covered = {part: len(claimed) / questions for part, claimed in by_register.items()}
    return Score({name: float(np.mean(values)) for name, values in found.items() if values}, covered)


def _by_register(answers: Answers, part: Any) -> Mapping[str, Any]:
    _check(isinstance(part, Mapping), "claims about registers must be an object with their names as keys", part)
    for register in part:
        _check(register in answers.values, f"registers of this model are {', '.join(answers.values)}", register)
    return part


def _heads(answers: Answers, importance: Any, right: tuple[Head, ...], found: dict[str, list[float]]) -> None:
    known = isinstance(importance, Mapping) and len(importance) > 0
    _check(known, "the importance of heads must be an object that names one at least", importance)
    names = {f"{block}.{head}": (block, head) for block, head in answers.heads}
    for name in importance:
        _check(name in names, f"heads are called 0.0 to {answers.shape[0] - 1}.{answers.shape[1] - 1}", name)
    sizes = _numbers([importance.get(name, 0.0) for name in names], (len(names),), "importances")
    is_right = np.array([head in right for head in names.values()])
    if is_right.any() and not is_right.all():
        found["AUROC"].append(auroc(sizes, is_right))
    named = (sizes >= HALF * sizes.max()) & (sizes > 0)
    found["precision"].append(float(is_right[named].mean()) if named.any() else 0.0)
    found["recall"].append(float(named[is_right].mean()) if is_right.any() else 1.0)


def auroc(sizes: Floats, is_right: npt.NDArray[np.bool_]) -> float:
    """The chance that one that is right is larger than one that is not; ties count half.

    >>> auroc(np.array([3.0, 1.0, 1.0]), np.array([True, True, False]))
    0.75
    """
    apart = np.sign(sizes[is_right][:, None] - sizes[~is_right][None])
    return float((apart.mean() + 1) / 2)


def _direction(answers: Answers, register: str, claim: Any, found: dict[str, list[float]]) -> None:
    wanted = {"after", "row", "direction"}
    whole = isinstance(claim, Mapping) and claim.keys() == wanted
    whole = whole and all(isinstance(claim[name], int) for name in ("after", "row"))
    _check(whole, "a direction has after, row (whole numbers) and direction", claim)
    width = answers.carriers[0].direction.size
    direction = _numbers(claim["direction"], (width,), "a direction")
    size = np.linalg.norm(direction)
    there = [
        carrier.direction
        for carrier in answers.carriers
        if carrier.register == register and carrier.row == claim["row"] and carrier.holds(claim["after"])
    ]
    if not there or size == 0:
        found["cosine"].append(0.0)
        found["subspace"].append(0.0)
        return
    known = np.array(there)  # (c, D)
    basis = np.linalg.svd(known, full_matrices=False)[2][: np.linalg.matrix_rank(known)]  # (rank, D)
    found["cosine"].append(float(np.abs(known @ direction).max() / size))
    found["subspace"].append(float(np.linalg.norm(basis @ direction) / size))


def _prediction(answers: Answers, register: str, outputs: Any, found: dict[str, list[float]]) -> None:
    _check(register in answers.effects, f"interventions are questions about {', '.join(answers.effects)}", register)
    effect = answers.effects[register] - answers.outputs  # (B, m)
    predicted = _numbers(outputs, effect.shape, "the outputs after an intervention")
    size = float(np.sqrt(np.square(effect).mean()))
    if size > TUNING.silent * float(np.abs(answers.outputs).max()):
        error = float(np.sqrt(np.square(predicted - answers.effects[register]).mean()))
        found["prediction"].append(max(0.0, 1 - error / size))


def _numbers(values: Any, shape: tuple[int, ...], what: str) -> Floats:
    """Finite numbers of a shape."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.full((), np.nan)
    good = array.shape == shape and bool(np.isfinite(array).all())
    _check(good, f"{what} must be finite numbers of the shape {shape}", np.shape(values) if good else "others")
    return array


def _check(holds: bool, constraint: str, got: object) -> None:
    if not holds:
        raise InputError(constraint, got=repr(got)[:200])


def perfect_claims(answers: Answers) -> dict[str, Any]:
    """Claims that are right."""
    first = {carrier.register: carrier for carrier in reversed(answers.carriers)}
    return {
        "working": {f"{b}.{h}": 1.0 for b, h in answers.working},
        "heads": {name: {f"{b}.{h}": 1.0 for b, h in heads} for name, heads in answers.computed_by.items()},
        "directions": {
            name: {"after": c.first, "row": c.row, "direction": c.direction.tolist()} for name, c in first.items()
        },
        "interventions": {name: effect.tolist() for name, effect in answers.effects.items()},
    }


def random_claims(answers: Answers, rng: np.random.Generator) -> dict[str, Any]:
    """Claims that know nothing but where registers stand; the outputs of interventions are those without one."""
    names = [f"{block}.{head}" for block, head in answers.heads]

    def guess() -> dict[str, float]:
        return dict(zip(names, rng.uniform(size=len(names)).tolist(), strict=True))

    known = perfect_claims(answers)["directions"]
    for claim in known.values():
        claim["direction"] = rng.normal(size=len(claim["direction"])).tolist()
    return {
        "working": guess(),
        "heads": {name: guess() for name in answers.values},
        "directions": known,
        "interventions": {name: answers.outputs.tolist() for name in answers.effects},
    }
