"""Three plain methods to begin with. They see weights, streams and `tasks`, not the truth.

    attention  a head matters as its attention is sharp; it computes a register as its weights go along with it
    patching   a head is given what it puts out at another point: it matters as the output moves, and it computes a
               register as the read-out of the register moves; the heads that seem to compute a register, patched
               together, predict interventions
    read-out   least squares from the stream to the register, fitted on half of the points, at the earliest block that
               does as well as any on the other half; heads count as they write to that direction; interventions push
               the stream along it

Each is a function of a model and its tasks that makes claims, as `scoring.py` wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..runtime.backends.residual import Edit
from .answers import Answers
from .scoring import HALF
from .specimen import Specimen
from .truth import Head

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BaselineTuning:
    """How much work the baselines do."""

    patched: int = 16
    """Points at which heads are patched one by one. For time."""
    good: float = 0.999
    """A read-out is as good as the best if it explains this share of what the best explains. A round number."""
    negligible: float = 1e-9
    """Directions in which the stream varies by less than this, relatively, are not used. A round number."""


TUNING = BaselineTuning()

Importance = dict[str, float]


@dataclass(frozen=True, eq=False)
class ReadOut:
    """A register as `offset + stream[row] · weights` behind a block."""

    after: int
    row: int
    weights: Floats  # (D,)
    offset: float

    def __call__(self, stream: Floats) -> Floats:
        """From streams (B, T, D), (B,)."""
        return self.offset + stream[:, self.row] @ self.weights


def read_outs(model: Specimen, tasks: Answers) -> dict[str, ReadOut]:
    """The best read-out of every register: one decomposition for each block and row, O(blocks · rows · B² D)."""
    names, wanted = list(tasks.values), np.stack(list(tasks.values.values()), axis=1)  # (B, R)
    fit, rest = slice(0, None, 2), slice(1, None, 2)
    spread = np.square(wanted[rest] - wanted[fit].mean(axis=0)).sum(axis=0)  # (R,)
    found: dict[str, list[tuple[float, ReadOut]]] = {name: [] for name in names}
    for after, stream in enumerate(model.streams(tasks.points), start=-1):
        for row in range(model.residual.data_tokens):
            X, middle = stream[fit, row], stream[fit, row].mean(axis=0)
            U, sizes, V = np.linalg.svd(X - middle, full_matrices=False)
            kept = sizes > TUNING.negligible * max(float(sizes.max()), 1e-300)
            target = wanted[fit] - wanted[fit].mean(axis=0)  # (B/2, R)
            weights = (V[kept].T / sizes[kept]) @ (U[:, kept].T @ target)  # (D, R)
            offsets = wanted[fit].mean(axis=0) - middle @ weights
            left = np.square(wanted[rest] - stream[rest, row] @ weights - offsets).sum(axis=0)
            explained = 1 - left / np.maximum(spread, 1e-300)
            for k, name in enumerate(names):
                found[name].append((float(explained[k]), ReadOut(after, row, weights[:, k], float(offsets[k]))))
    best: dict[str, ReadOut] = {}
    for name, tried in found.items():
        most = max(explained for explained, _ in tried)
        best[name] = next(one for explained, one in tried if explained >= TUNING.good * most or explained == most)
    return best


def by_attention(model: Specimen, tasks: Answers) -> dict[str, Any]:
    """Sharpness, and correlation of weights with registers; heads only."""
    names, rows = list(tasks.values), model.residual.data_tokens
    wanted = _standardised(np.stack(list(tasks.values.values()), axis=1))  # (B, R)
    sharp: Importance = {}
    heads: dict[str, Importance] = {name: {} for name in names}
    for block, stream in zip(model.residual.blocks, model.streams(tasks.points)[:-1], strict=True):
        number = len(sharp) // tasks.shape[1]
        pattern = block.pattern(stream)[:, :, :rows]  # (B, H, n, T)
        for head in range(tasks.shape[1]):
            sharp[_name((number, head))] = float(pattern[:, head].max(axis=-1).mean())
            flat = _standardised(pattern[:, head].reshape(len(pattern), -1))  # (B, n T)
            along = np.abs(flat.T @ wanted / len(wanted)).max(axis=0)  # (R,)
            for k, name in enumerate(names):
                heads[name][_name((number, head))] = float(along[k])
    return {"working": sharp, "heads": heads}


def by_patching(model: Specimen, tasks: Answers) -> dict[str, Any]:
    """Heads one by one, then together for interventions."""
    reads, net = read_outs(model, tasks), model.residual
    few = tasks.points[: TUNING.patched]
    clean = model.streams(few)
    values, effect = net.read(clean[-1]), dict[str, float]()
    heads: dict[str, Importance] = {name: {} for name in tasks.values}
    for number, block in enumerate(net.blocks):
        parts = block.parts(clean[number])  # (B, H, T, D)
        change = np.roll(parts, 1, axis=0) - parts
        for head in range(block.heads):
            after = list(net.onwards(clean[number + 1] + change[:, head], number))
            effect[_name((number, head))] = _size(net.read(after[-1]) - values)
            for name, read in reads.items():
                moved = read(after[read.after - number]) - read(clean[read.after + 1]) if read.after >= number else 0.0
                heads[name][_name((number, head))] = _size(moved)
    streams = model.streams(tasks.points)
    told = {name: _patched_together(model, tasks, streams, heads[name]) for name in tasks.settings}
    return {"working": effect, "heads": heads, "interventions": told}


def _patched_together(model: Specimen, tasks: Answers, clean: list[Floats], importance: Importance) -> Any:
    """Outputs if the heads named are given what they put out at the point before."""
    most = max(importance.values())
    named = {head for head in tasks.heads if importance[_name(head)] >= HALF * most > 0}
    changes = dict[int, Floats]()
    for number in {block for block, _ in named}:
        parts = model.residual.blocks[number].parts(clean[number])[:, [head for at, head in named if at == number]]
        changes[number] = (np.roll(parts, 1, axis=0) - parts).sum(axis=1)  # (B, T, D)
    return _outputs(model, tasks, clean, min(changes, default=-1), _adding(changes))


def _outputs(model: Specimen, tasks: Answers, clean: list[Floats], first: int, edit: Edit) -> Any:
    """Outputs at the points, (B, m), as lists, if the stream is edited from block `first` on."""
    *_, last = model.residual.onwards(clean[first + 1], first, edit)
    return model.residual.read(last).reshape(tasks.outputs.shape).tolist()


def _adding(changes: Mapping[int, Floats]) -> Edit:
    return lambda after, stream: stream + changes[after] if after in changes else stream


def by_read_out(model: Specimen, tasks: Answers) -> dict[str, Any]:
    """Directions, what heads write to them, and pushes along them."""
    reads, streams = read_outs(model, tasks), model.streams(tasks.points)
    heads: dict[str, Importance] = {name: {} for name in tasks.values}
    for number, block in enumerate(model.residual.blocks):
        parts = block.parts(streams[number])  # (B, H, T, D)
        for name, read in reads.items():
            said = (parts[:, :, read.row] @ read.weights).std(axis=0) * (read.after >= number)  # (H,)
            heads[name] |= {_name((number, head)): float(size) for head, size in enumerate(said)}
    directions = {n: {"after": r.after, "row": r.row, "direction": r.weights.tolist()} for n, r in reads.items()}
    told = {name: _pushed(model, tasks, streams, reads[name], setting) for name, setting in tasks.settings.items()}
    return {"heads": heads, "directions": directions, "interventions": told}


def _pushed(model: Specimen, tasks: Answers, clean: list[Floats], read: ReadOut, setting: Floats) -> Any:
    """Outputs if the stream is pushed along a read-out until it says what it should."""
    size = float(read.weights @ read.weights) or 1.0

    def edit(after: int, stream: Floats) -> Floats:
        if after != read.after:
            return stream
        pushed = stream.copy()
        pushed[:, read.row] += ((setting - read(stream)) / size)[:, None] * read.weights
        return pushed

    return _outputs(model, tasks, clean, read.after, edit)


def _name(head: Head) -> str:
    return f"{head[0]}.{head[1]}"


def _size(change: Any) -> float:
    """The root mean square."""
    return float(np.sqrt(np.square(change).mean()))


def _standardised(columns: Floats) -> Floats:
    """Columns with mean 0 and deviation 1; constant ones are 0."""
    away, spread = columns - columns.mean(axis=0), columns.std(axis=0)
    return np.where(spread > TUNING.negligible, away / np.where(spread > TUNING.negligible, spread, 1.0), 0.0)


BASELINES: dict[str, Callable[[Specimen, Answers], dict[str, Any]]] = {
    "attention": by_attention,
    "patching": by_patching,
    "read-out": by_read_out,
}
"""By name."""
