"""Networks that others made: how close proved ranges, differences and errors are, and whether a point beats them.

    python benchmarks/given.py --networks DIR     # DIR holds acasxu_*.onnx and self_attention_mnist.onnx
    python benchmarks/given.py                    # random transformers and a network trained on alone
    python benchmarks/given.py --part random      # one section; the others stay as they are

Writes benchmarks/results/given.md. Seconds are seconds of computing of this process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import attnfun as af
from attnfun.given.enclosure import MOST_SYMBOLS, Run, enclose, entered
from attnfun.given.forms import Symbols
from attnfun.given.machine import Machine
from attnfun.given.reading import read
from attnfun.resources.deadline import Deadline

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from small_transformers import climbed, drawn, perturbed  # pyright: ignore[reportMissingImports]

RESULTS = Path(__file__).parent / "results" / "given.md"
PAIR = af.Box([0.6, -0.5, -0.5, 0.45, -0.5], [0.679857769, 0.5, 0.5, 0.5, -0.45])
"""Where the perturbed network is compared with the first one."""
DRAWN = 200


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the seconds of computing that it took."""
    start = time.process_time()
    return work(), time.process_time() - start


def within(seconds: float) -> Deadline:
    """A deadline in seconds of computing."""
    return Deadline.after(seconds, clock=time.process_time)


def differences(folder: Path) -> Iterator[str]:
    """The perturbed pair."""
    files = folder / "acasxu_1_1.onnx", folder / "acasxu_1_1_perturbed.onnx"
    yield "ACAS Xu 1-1 and its perturbation, 5 inputs, six rectifier layers of 50, in float32.\n"
    yield "| wanted | proved | found at points | boxes | seconds |\n|---|---|---|---|---|"
    for eps in (0.05, 0.01):
        try:
            shown, seconds = timed(lambda eps=eps: af.compare(*files, PAIR, eps=eps, time_limit=within(40)))
            yield f"| {eps:g} | {shown.bound:.4g} | {shown.found:.4g} | {shown.boxes:,} | {seconds:.1f} |"
        except af.errors.ProofFailed as failed:
            yield f"| {eps:g} | not in 40 s | {failed.closest.value:.4g} | | 40 |"


def whole_box(folder: Path, seconds: float) -> Iterator[str]:
    """Ranges on boxes of growing width, with the gap to sampling."""
    yield (
        "ACAS Xu 1-1 in float32 on boxes around 0. The excess is the width of the proved range over that of the range found at "  # noqa: E501
        "points, minus one, largest over the outputs.\n"
    )
    yield "| half-width | seconds allowed | boxes | excess |\n|---|---|---|---|"
    for half in (0.01, 0.02, 0.05, 0.5):
        for limit in (seconds / 4, seconds):
            box = af.Box([-half] * 5, [half] * 5)
            shown = af.ranges(folder / "acasxu_1_1.onnx", box, time_limit=within(limit))
            excess = ((shown.hi - shown.lo) / (shown.found_hi - shown.found_lo)).max() - 1
            yield f"| {half:g} | {limit:g} | {shown.certificate.boxes:,} | {excess:.3g} |"
            if not shown.certificate.stopped:
                break


def plain_intervals(file: Path, box: af.Box) -> np.ndarray:
    """The widths of ranges by plain interval arithmetic, without symbols."""
    graph, run = read(file, box).graph, Run(Machine.of("float32"), Symbols(0, 0))
    _, seen = entered(box.lo.reshape(1, -1), box.hi.reshape(1, -1), graph.input_shape, run)
    form = enclose(graph, seen, run)
    return (form.hi - form.lo).ravel()


def attention(folder: Path) -> Iterator[str]:
    """The attention network around ten arrays."""
    file, rng = folder / "self_attention_mnist.onnx", np.random.default_rng(0)
    yield (
        "`self_attention_mnist.onnx`, 784 inputs, ten probabilities, float32, around ten random arrays in [0, 1]. Widths of the "  # noqa: E501
        f"widest range, means over the arrays; at most {MOST_SYMBOLS:,} symbols beside the inputs.\n"
    )
    yield "| radius | proved | found at points | plain intervals | seconds each | seconds, plain |\n|---|---|---|---|---|---|"  # noqa: E501
    arrays = [(rng.random((28, 28)) * rng.choice([0.3, 1.0])).astype(np.float32) for _ in range(10)]
    for radius in (1e-3, 1e-2):
        rows = []
        for array in arrays:
            box = af.Box(array - radius, array + radius)
            shown, seconds = timed(lambda box=box: af.ranges(file, box))
            plain, second = timed(lambda box=box: plain_intervals(file, box))
            widths = (shown.hi - shown.lo).max(), (shown.found_hi - shown.found_lo).max(), plain.max()
            rows.append([*widths, seconds, second])
        proved, found, plain, seconds, second = np.mean(rows, axis=0)
        yield f"| {radius:g} | {proved:.3g} | {found:.3g} | {plain:.3g} | {seconds:.2f} | {second:.2f} |"


def trained_on() -> Iterator[str]:
    """A compiled network, trained on and certified again."""
    yield "sin(3x) compiled in float32, trained towards sin(3.1x) for 60 steps of Adam.\n"
    yield "| construction | bound after compiling | error found after training | bound | ratio | seconds |\n|---|---|---|---|---|---|"  # noqa: E501
    for construction, eps in (("spectral", 0.01), ("cross", 0.1)):
        net = af.compile("sin(3*x)", {"x": (-1, 1)}, eps=eps, dtype="float32", construction=construction)
        module, points = net.to_torch(), torch.linspace(-1, 1, 100)
        optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
        for _ in range(60):
            loss = (module(points) - torch.sin(3.1 * points)).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        again, seconds = timed(lambda module=module: af.certify(module, "sin(3.1*x)", {"x": (-1, 1)}))
        dense = torch.linspace(-1, 1, 100_001, dtype=torch.float64)
        error = (module(dense.float()).double() - torch.sin(3.1 * dense)).abs().max().item()
        ratio = again.bound / error
        yield f"| {construction} | {net.certificate.bound:.3g} | {error:.4g} | {again.bound:.4g} | {ratio:.3f} | {seconds:.1f} |"  # noqa: E501


def attacked(count: int) -> Iterator[str]:
    """Random transformers: ranges and comparisons, attacked in PyTorch in two formats."""
    beaten, unproved, widths, seconds = 0, 0, list[float](), 0.0
    verdicts, judging = list[tuple[bool, float]](), 0.0
    for seed in range(count):
        network, centre, radius = drawn(seed)
        lo, hi = (np.float32(end).astype(np.float64) for end in (centre - radius, centre + radius))
        box, other = af.Box(lo, hi), perturbed(network, seed, [0.0, 1e-6, 1e-3, 0.1][seed % 4])
        try:
            shown, spent = timed(partial(af.ranges, network, box, time_limit=1e-6))
            near, more = timed(partial(af.compare, network, other, box, time_limit=1e-6))
        except af.errors.ProofFailed:
            unproved += 1
            continue
        seconds += spent + more
        for certificate in (shown.certificate, near):
            verdict, spent = timed(certificate.verdict)
            judging += spent
            ratio = max(np.divide(verdict.judged, np.maximum(np.abs(verdict.stated), 1e-300)))
            verdicts.append((verdict.agreed, ratio))
        for dtype in (torch.float32, torch.float64):
            network.to(dtype), other.to(dtype)
            low, high = climbed(network, lo, hi, seed, dtype)
            beaten += int((low < shown.lo).any() or (high > shown.hi).any())
            least, most = climbed(lambda x: other(x) - network(x), lo, hi, seed, dtype)  # noqa: B023 - called here
            beaten += int(max(most.max(), -least.min()) > near.bound)
        widths.append(float(((shown.hi - shown.lo) / np.maximum(high - low, 1e-30)).max()))
    yield (
        f"{count} networks (1 to 3 tokens, 1 or 2 layers of two heads, rectifiers and smooth functions, LayerNorm in half of them), "  # noqa: E501
        f"one box each, ranges and a comparison with a perturbed copy, in float32. Points sampled, corners and climbed, run by PyTorch "  # noqa: E501
        f"in float32 and float64: **{beaten} bounds beaten**. {unproved} have no finite bound. Proved width over the width found: "  # noqa: E501
        f"median {np.median(widths):.2f}, nine tenths below {np.quantile(widths, 0.9):.1f}. {seconds:.0f} s altogether."
    )
    agreed, others = sum(each for each, _ in verdicts), [ratio for each, ratio in verdicts if not each]
    larger = f", by {min(others) - 1:.2%} to {max(others) - 1:.0%}" if others else ""
    yield ""
    yield (
        f"The judge, which shares no code with these bounds, agrees with **{agreed} of {len(verdicts)}**; of the others its own "  # noqa: E501
        f"bounds are larger{larger}. {judging:.0f} s of judging."
    )


def written(sections: dict[str, str]) -> None:
    """The page with new sections, by their headings; the others stay as they are."""
    old = RESULTS.read_text() if RESULTS.exists() else ""
    kept = {part.partition("\n")[0]: part.strip() for part in old.split("\n## ")[1:]}
    whole = {**kept, **sections}
    order = [name for name in ORDER if name in whole]
    intro = "# Networks that are given\n\nMade by `python benchmarks/given.py`. Seconds are seconds of computing."
    RESULTS.write_text("\n\n## ".join([intro, *(whole[name] for name in order)]) + "\n")


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=Path, help="a folder with the public networks")
    parser.add_argument("--seconds", type=float, default=40.0, help="allowed for the ranges of one box")
    parser.add_argument("--drawn", type=int, default=DRAWN, help="random transformers")
    parser.add_argument("--part", default="", help="a word in the heading of the only section to make")
    chosen = parser.parse_args()
    folder = chosen.networks
    parts: dict[str, Callable[[], Iterator[str]]] = {
        "Trained on and certified again": trained_on,
        "Random transformers, attacked": lambda: attacked(chosen.drawn),
    }
    if folder is None or not folder.is_dir():
        print("left out: the public networks; name their folder with --networks", file=sys.stderr)  # noqa: T201
    else:
        parts["A network and its perturbation"] = lambda: differences(folder)
        parts["Ranges of all outputs against time"] = lambda: whole_box(folder, chosen.seconds)
        parts["Self-attention on images"] = lambda: attention(folder)
    made = {name: part for name, part in parts.items() if chosen.part.lower() in name.lower()}
    written({name: "\n".join([name, "", *part()]).strip() for name, part in made.items()})


ORDER = (
    "A network and its perturbation", "Ranges of all outputs against time", "Self-attention on images",
    "Trained on and certified again", "Random transformers, attacked",
)  # fmt: skip


if __name__ == "__main__":
    main()
