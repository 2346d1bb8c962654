"""Who notices a lie? A thousand changes of valid files, each judged, and what is agreed with checked at points.

    python benchmarks/judging.py                 # all of it
    python benchmarks/judging.py --count 100     # fewer changes, printed and not written

A file is changed in one place: a weight, a leaf or a hint of the proof, the bound, the formula, the domain, the number
format, a rule's name, the norm or the status. The judge finds it unreadable, does not agree, or agrees. A claim that is
agreed with is compared with errors at points, network and target in float64; none may be false. Writes
benchmarks/results/judging.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import safe_open
from safetensors.numpy import save

import attnfun as af
from attnfun.arithmetic.formats import held_in, round_to
from attnfun.errors import AttnfunError
from attnfun.judge import NotCovered, Unreadable, judge_file
from attnfun.network import reference, storage
from attnfun.targets import Expression, FittedModel

RESULTS = Path(__file__).parent / "results"
SEED, COUNT = 27, 1000
POINTS = 2001
"""Points along a line, or about as many in a plane."""
Floats = npt.NDArray[np.float64]

BASES: dict[str, Callable[[], af.types.Compiled]] = {
    "a line": lambda: af.compile("x/2", {"x": (0, 1)}, 0.2, construction="grid"),
    "a line in float32": lambda: af.compile("x/2 - 0.1", {"x": (0, 1)}, 0.2, construction="grid", dtype="float32"),
    "a line in bfloat16": lambda: af.compile("x/2", {"x": (-1, 1)}, 0.3, construction="grid", dtype="bfloat16"),
    "a line in float16": lambda: af.compile("x/2", {"x": (-1, 1)}, 0.3, construction="cross", dtype="float16"),
    "an exponential": lambda: af.compile("exp(x)", {"x": (-1, 1)}, 0.01, construction="spectral"),
    "two outputs": lambda: af.compile("[x, 1 - x]", {"x": (0, 1)}, 0.3, construction="grid"),
    "a product": lambda: af.compile("x*y", {"x": (0, 1), "y": (0, 1)}, 0.6, construction="grid"),
    "the L_2 norm": lambda: af.compile("x/2", {"x": (0, 1)}, 0.15, norm=2, construction="grid"),
    "a region": lambda: af.compile("x/2", af.Region("x**2 < 0.6", {"x": (0, 1)}), 0.2, construction="grid"),
    "points": lambda: af.compile("x**2", af.Points([0.1, 0.4, 0.7], fill=0.05), 0.2, construction="grid"),
    "a root at its edge": lambda: af.compile("sqrt(x)", {"x": (0, 1)}, 0.5, construction="grid"),
    "a clip": lambda: af.compile(
        af.TruncatedLinear([[1.0]], [0.1], -0.5, 0.5), af.Box([[-1.0]], [[1.0]]), 0.2, construction="relu"
    ),
    "planes": lambda: af.compile(af.MaxAffine([[1.0], [-1.0]], [0.0, 0.0]), [(-1, 1)], 0.5),
    "rectifiers": lambda: af.compile("sin(2*x)", {"x": (-1, 1)}, 0.1, construction="two-layer"),
    "a pole": lambda: af.compile("1/sqrt(x)", {"x": (0, 1)}, 8.0, norm=1.8, construction="grid"),
    "a composition": lambda: af.compile("sin(2*x)", {"x": (-1, 1)}, 0.1)(
        af.compile("x - y*z/2", {"x": (0, 0.4), "y": (0, 1), "z": (0, 1)}, 0.1, construction="circuit")
    ),
    "a circuit": lambda: af.compile("x*y/z", dict.fromkeys("xyz", (0.5, 1.5)), 0.05, construction="circuit"),
    "a circuit with kinks": lambda: af.compile(
        "abs(x - y) + max(y, 2*z)", dict.fromkeys("xyz", (0.5, 1.5)), 0.05, construction="circuit"
    ),
    "tokens alone": lambda: af.compile(lambda X: X * X / 2, af.Box(np.zeros((3, 1)), np.ones((3, 1))), 0.2),
    "two inputs": lambda: af.compile(
        "q*k", {"Q": af.Box([0.0], [1.0], names=["q"]), "K": af.Box([0.0], [1.0], names=["k"])}, 0.6
    ),
    "a Bessel function": lambda: af.compile("besselj(0, x)", {"x": (0, 3)}, 0.1),
    "a gamma function in float32": lambda: af.compile("gamma(x)/2", {"x": (1, 2)}, 0.05, dtype="float32"),
    "a learner in context": lambda: (
        af.incontext.Ridge(0.5, n_steps=5).fit([[0.0], [1.0], [2.5], [3.0]], [1.0, 1.5, 3.5, 3.0]).certify()
    ),
    "a sum": lambda: (
        af.compile("x/2", {"x": (0, 1)}, 0.1, construction="grid") + af.compile("x**2", {"x": (0, 1)}, 0.1)
    ),
}
"""Small networks whose files are changed."""


@dataclass
class File:
    """What is in a file."""

    tensors: dict[str, npt.NDArray[Any]]
    description: dict[str, Any]

    @classmethod
    def of(cls, path: Path) -> File:
        """Read it."""
        with safe_open(str(path), "numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            return cls(tensors, json.loads(file.metadata()["attnfun"]))

    def write(self, path: Path) -> Path:
        """Write it."""
        arrays = {name: np.array(array, order="C") for name, array in self.tensors.items()}
        path.write_bytes(save(arrays, {"attnfun": json.dumps(self.description)}))
        return path

    @property
    def certificate(self) -> dict[str, Any]:
        """The certificate's fields."""
        return self.description["certificate"]


# ---------------------------------------------------------------- what is changed


Change = Callable[[File, np.random.Generator], None]


def weight(file: File, rng: np.random.Generator) -> None:
    """One weight, by a little or by much; most of the time to a number of the format. Weights of parts count too."""
    names = sorted(name for name in file.tensors if "layers." in name and file.tensors[name].size)
    array = file.tensors[names[rng.integers(len(names))]]
    place, dtype = int(rng.integers(array.size)), file.description["network"]["dtype"]
    old = float(array.flat[place])
    moves = [old * (1 + 2.0**-20), old * 1.001, old * 1.1, 2 * old, -old, 0.0, old + 0.01, old + rng.normal(), np.nan]
    new = moves[rng.integers(len(moves))]
    array.flat[place] = round_to(np.array([new]), dtype)[0] if np.isfinite(new) and rng.random() < 0.9 else new


def leaf(file: File, rng: np.random.Generator) -> None:
    """One byte of a cover, or one node more or less."""
    names = [name for name in ("proof.axes", "proof.series") if name in file.tensors]
    if not names:
        file.description.pop("proof", None)
        return
    name = names[rng.integers(len(names))]
    array = file.tensors[name]
    place, kind = int(rng.integers(len(array))), rng.random()
    if kind < 0.6:
        array[place] = rng.choice([0, 1, 255, array[place] ^ 1])
    elif kind < 0.8:
        file.tensors[name] = np.delete(array, place)
    elif kind < 0.9:
        file.tensors[name] = np.insert(array, place, array[place])
    else:  # the whole box is one leaf
        file.tensors |= {"proof.axes": np.array([255], np.uint8), "proof.series": np.array([1], np.uint8)}


def hint(file: File, rng: np.random.Generator) -> None:
    """One number of whatever a proof holds, its own or one of a premise; or a premise less."""
    names = sorted(name for name in file.tensors if name.startswith("proof.") and file.tensors[name].size)
    proof = file.description["proof"]
    if proof["premises"] and rng.random() < 0.2:
        proof["premises"].pop()
    elif names:
        array = file.tensors[str(rng.choice(names))]
        numbers = [0.0, -1.0, 1e300, np.nan] if array.dtype.kind == "f" else [0, 1, 42, 50, 57, 255]
        array.flat[rng.integers(array.size)] = rng.choice(np.array(numbers).astype(array.dtype))


def bound(file: File, rng: np.random.Generator) -> None:
    """A smaller bound, or a larger one."""
    factor = rng.choice([0.0, 0.3, 0.7, 0.9, 0.97, 0.99, 0.999, 1 - 1e-6, 1.01, 2.0, -1.0])
    file.certificate["bound"] *= float(factor)


def formula(file: File, rng: np.random.Generator) -> None:
    """One sign or one number of the formula, or something added; of a part where there are some."""
    description = file.description
    while description.get("parts"):
        description = description["parts"][rng.integers(len(description["parts"]))]
    target = description["target"]
    name = "formula" if target["kind"] == "traced" else "text"
    if name not in target and file.description.get("parts"):
        arrays = sorted(name for name in file.tensors if ".target." in name)
        file.tensors[str(rng.choice(arrays))][...] += float(rng.choice([0.01, -0.2, 1.0]))
        return
    if name not in target:
        array = file.tensors[str(rng.choice(sorted(name for name in file.tensors if name.startswith("target."))))]
        array.flat[rng.integers(array.size)] += float(rng.choice([1e-9, 0.01, -0.2, 1.0]))
        return
    text = str(target[name])
    added = [
        "+ 1e-9",
        "+ 0.01",
        "- 0.1*x",
        "* 1.001",
        "+ where(x < 0.3, 0, 0.5)",
        "+ 0*log(x)",
        "+ 1e-3*sin(100*x)",
        ")",
    ]
    choices = [f"{text} {more}" for more in added]
    choices += [
        text.replace(a, b) for a, b in (("x", "y"), ("x", "x**2"), ("2", "3"), ("x", "(x)"), ("-", "+")) if a in text
    ]
    choices += [text.replace(a, b) for a, b in (("y", "z"), ("x1", "x0"), ("0,", "1,"), ("*", "+")) if a in text]
    target[name] = choices[rng.integers(len(choices))]


def domain(file: File, rng: np.random.Generator) -> None:
    """Ends, conditions, points, distances and names."""
    place = file.description["domain"]
    if place.get("kind") == "points":
        if rng.random() < 0.5:
            place["fill"] = float(rng.choice([0.0, 0.04, 0.06, 0.3, -0.1]))
        else:
            cloud = np.array(place["points"], dtype=float)
            cloud.flat[rng.integers(cloud.size)] = float(rng.uniform(-1, 2))
            place["points"] = cloud.tolist()
        return
    if place.get("kind") == "region":
        if rng.random() < 0.5:
            place["predicate"] = ["x**2 < 0.5", "x**2 < 0.7", "x < 2", "x**2 >= 0.6", "x", "y < 1"][rng.integers(6)]
            return
        place = place["box"]
    if place.get("kind") == "two inputs":
        place = place["inputs"][rng.integers(2)][1]
    end, axis = ("lo", "hi")[rng.integers(2)], int(rng.integers(np.size(place["lo"])))
    moved = np.array(place[end], dtype=float)
    moved.flat[axis] += float(rng.choice([-1.0, -0.2, -0.01, -1e-12, 1e-12, 0.01, 0.2, 1.0, 3.0]))
    place[end] = moved.tolist()
    if rng.random() < 0.1:
        place["names"] = ["y", "x"][: moved.size]


def dtype(file: File, rng: np.random.Generator) -> None:
    """Another number format, in words alone or with all weights rounded to it."""
    old = file.description["network"]["dtype"]
    new = str(rng.choice([each for each in ("float64", "float32", "bfloat16", "float16", "int8") if each != old]))
    file.description["network"]["dtype"] = new
    if rng.random() < 0.8:
        file.certificate["dtype"] = new
    if new != "int8" and rng.random() < 0.6:
        for name in [name for name in file.tensors if name.startswith("layers.")]:
            array = round_to(file.tensors[name].astype(np.float64), new)
            file.tensors[name] = array.astype(held_in(new))


def rule(file: File, rng: np.random.Generator) -> None:
    """Another rule."""
    proof = file.description["proof"]
    names = ["boxes", "volume", "structure", "circuit", "one feature", "planes", "parts", "one token", "trust"]
    names += ["rectifiers", "tails"]
    proof["rule"] = str(rng.choice([name for name in names if name != proof["rule"]]))
    if rng.random() < 0.3:
        proof["premises"] = [{"rule": "boxes", "data": [], "premises": []}]


def norm(file: File, rng: np.random.Generator) -> None:
    """Another norm."""
    old = file.certificate["norm"]
    file.certificate["norm"] = [each for each in ("inf", 1, 1.5, 2, 10, 0.5, "two") if each != old][rng.integers(6)]


def status(file: File, rng: np.random.Generator) -> None:
    """Another status, or other assumptions."""
    old = file.certificate["status"]
    known = [each for each in ("proved", "conditional", "estimated", "certain", "") if each != old]
    file.certificate["status"] = str(rng.choice(known))
    if rng.random() < 0.3:
        file.certificate["assumptions"] = ["the target is defined on the whole domain"]


CHANGES: dict[str, Change] = {
    "a weight": weight,
    "a leaf": leaf,
    "a hint": hint,
    "the bound": bound,
    "the formula": formula,
    "the domain": domain,
    "the number format": dtype,
    "a rule's name": rule,
    "the norm": norm,
    "the status": status,
}


# ---------------------------------------------------------------- what is true


def points_of(description: dict[str, Any]) -> tuple[Floats, float]:
    """Points of the domain on a fine grid, (P, D), and the volume that each stands for."""
    kind = description.get("kind")
    if kind == "points":
        cloud, fill = np.array(description["points"], dtype=float), description["fill"]
        if fill == 0:
            return cloud.reshape(len(cloud), -1), 0.0
        cloud = cloud.ravel()  # (S,)
        return (cloud[:, None] + fill * np.linspace(-1, 1, 401)).reshape(-1, 1), 0.0
    box = description.get("box", description)
    boxes = [each for _, each in box["inputs"]] if kind == "two inputs" else [box]
    low, high = (np.concatenate([np.ravel(each[name]).astype(float) for each in boxes]) for name in ("lo", "hi"))
    count = int(POINTS ** (1 / len(low)))
    steps = (np.arange(count) + 0.5) / count
    axes = [np.r_[a, a + steps * (b - a), b] for a, b in zip(low, high, strict=True)]  # the ends too
    rows = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))
    if kind == "region":
        rows = rows[at(description["predicate"], box["names"], rows)[:, 0] > 0.5]
    return rows, float(np.prod(high - low)) / count ** len(low)


def at(text: str, names: list[str], rows: Floats) -> Floats:
    """A formula at rows (P, D), as (P, m)."""
    around = af.Box(rows.min(axis=0) - 1, rows.max(axis=0) + 1, tuple(names))
    return Expression(text, around).values(rows)


def values(description: dict[str, Any], tensors: dict[str, npt.NDArray[Any]], rows: Floats) -> Floats:
    """The target at rows (P, D), as (P, m); an error where it is not defined."""
    target, place = description["target"], description["domain"]

    def part(number: int, rows: Floats) -> Floats:
        prefix = f"parts.{number}."
        below = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        return values(description["parts"][number], below, rows)

    if target["kind"] == "composed":
        return part(0, part(1, rows))
    if "parts" in description:
        return np.hstack([part(number, rows) for number in range(len(description["parts"]))])
    if target["kind"] == "max-affine":
        return (rows @ tensors["target.A"].T + tensors["target.b"]).max(axis=1, keepdims=True)
    if target["kind"] == "truncated linear":
        tokens = rows.reshape(len(rows), *tensors["target.w"].shape)  # (P, n, d)
        return np.clip((tokens * tensors["target.w"]).sum(axis=2) + tensors["target.t"], *target["ends"])
    if target["kind"] == "piecewise linear":
        for k in range(target["stages"]):
            weight, bias, low, high = (tensors[f"target.{k}.{name}"] for name in ("weight", "bias", "low", "high"))
            rows = np.clip(rows @ weight + bias, low, high)
        return rows
    if target["kind"] == FittedModel.kind:
        return FittedModel(tensors["target.X"], tensors["target.y"], target, af.Box(0, 1)).values(rows)
    if target["kind"] == "traced":
        return at(target["formula"], [f"x{k}" for k in range(rows.shape[1])], rows)
    boxes = [each for _, each in place["inputs"]] if place.get("kind") == "two inputs" else [place.get("box", place)]
    return at(target["text"], [name for each in boxes for name in each["names"] or ["x"]], rows)


def is_true(file: File) -> bool:
    """Is the claim not refuted at points? Integrals are compared up to a thousandth: sums on a grid are off by less."""
    certificate = file.certificate
    rows, volume = points_of(file.description["domain"])
    if certificate["norm"] != "inf":  # there may be poles at the ends
        rows = rows[((rows > rows.min(axis=0)) & (rows < rows.max(axis=0))).all(axis=1)]
    if not len(rows):
        return True
    network = storage.unpack(file.tensors, file.description["network"])
    try:
        wanted = values(file.description, file.tensors, rows)
    except AttnfunError:  # undefined at some point
        return certificate["status"] != "proved"
    outputs = reference.run(network, rows.reshape(-1, *network.shape_in)).reshape(len(rows), -1)
    errors = np.abs(outputs - wanted).max(axis=1)  # (P,)
    if certificate["norm"] == "inf":
        return bool(errors.max() <= certificate["bound"])
    p = float(certificate["norm"])
    return float((errors**p).sum() * volume) ** (1 / p) <= 1.001 * certificate["bound"]


# ---------------------------------------------------------------- the table


@dataclass
class Tally:
    """What became of the changes of one kind."""

    made: int = 0
    unreadable: int = 0
    not_agreed: int = 0
    agreed: int = 0
    false: list[str] = field(default_factory=list)
    """Changes that were agreed with although the claim is false."""


def verdict_on(path: Path) -> str:
    """In a word."""
    try:
        return "agreed" if judge_file(path).agreed else "not agreed"
    except Unreadable:
        return "unreadable"
    except NotCovered:
        return "not agreed"


def changes(count: int, seed: int, bases: list[str]) -> Iterator[tuple[str, str, np.random.Generator]]:
    """(base, kind, random numbers) of each change: all kinds and all bases in turn."""
    kinds = list(CHANGES)
    for number in range(count):
        kind, base = kinds[number % len(kinds)], bases[number // len(kinds) % len(bases)]
        yield base, kind, np.random.default_rng([seed, number])


def run(count: int, seed: int, bases: list[str], folder: Path) -> dict[str, Tally]:
    """Judge so many changes."""
    made: dict[str, File] = {}
    tallies = {kind: Tally() for kind in CHANGES}
    path = folder / "changed.safetensors"
    for number, (base, kind, rng) in enumerate(changes(count, seed, bases)):
        if base not in made:
            BASES[base]().save(path)
            made[base] = File.of(path)
            if verdict_on(path) != "agreed":
                raise AssertionError(f"the file of {base} must be agreed with")
        file, tally = deepcopy(made[base]), tallies[kind]
        CHANGES[kind](file, rng)
        verdict = verdict_on(file.write(path))
        tally.made += 1
        tally.unreadable += verdict == "unreadable"
        tally.not_agreed += verdict == "not agreed"
        tally.agreed += verdict == "agreed"
        if verdict == "agreed" and not is_true(file):
            tally.false.append(f"{base}, {kind}, number {number}")
    return tallies


def table(tallies: dict[str, Tally]) -> str:
    """As Markdown."""
    lines = [
        "| what was changed | files | unreadable | not agreed | agreed | agreed and false |",
        "|---|---|---|---|---|---|",
    ]
    rows = [(kind, t.made, t.unreadable, t.not_agreed, t.agreed, len(t.false)) for kind, t in tallies.items()]
    rows.append(("all", *(sum(row[k] for row in rows) for k in range(1, 6))))
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--base", action="append", choices=BASES, help="the files to change; all if none is named")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tallies = run(given.count, given.seed, given.base or list(BASES), Path(folder))
    text = table(tallies)
    false = [each for tally in tallies.values() for each in tally.false]
    sys.stdout.write("\n".join([text, *false, ""]))
    if (given.count, given.seed, given.base) == (COUNT, SEED, None):
        head = (
            "# Changed files\n\n"
            "Valid files, each changed in one place, and what the judge says of them. A claim that is agreed with is\n"
            "compared with errors at points, network and target in float64: a change may leave it true.\n"
            f"{len(BASES)} files, seed {SEED}. Made by `benchmarks/judging.py`.\n\n"
        )
        (RESULTS / "judging.md").write_text(f"{head}{text}\n")
    if false:
        raise SystemExit("false claims were agreed with")


if __name__ == "__main__":
    main()
