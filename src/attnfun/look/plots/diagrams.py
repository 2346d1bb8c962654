"""Diagrams of deep networks: the circuit that a formula became, or the layers one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import counted
from ...formula.circuits import Circuit
from ...network import Affine, Attention
from ..views import Window
from .style import BLUE, CYCLE, GREY, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BENDS = CYCLE[3]
LONGEST, MOST_UNITS = 22, 80
"""Letters of a label; units that can be drawn beside each other."""
LEAST, EACH = 0.5, 0.2
"""Of the height of other panels: what a diagram takes at least, and for each box of its tallest column."""


def circuit_of(window: Window) -> Circuit | None:
    """The circuit of a network that was built from one, if its formula is at hand and not too large to draw."""
    target = window.net.certificate.claim.target
    if window.net.construction != "circuit" or target is None:
        return None
    circuit = target.circuit()
    return circuit if circuit is not None and len(circuit.units) <= MOST_UNITS else None


def draw_circuit(axes: Axes, window: Window) -> None:
    """Variables on the left, one box for each head at its depth, outputs on the right; lines are affine maps."""
    circuit = circuit_of(window)
    if circuit is None:
        draw_layers(axes, window)
        return
    columns = _columns(circuit)
    last = len(columns)
    spot = {
        atom: (float(column), (len(atoms) - 1) / 2 - row)
        for column, atoms in enumerate(columns)
        for row, atom in enumerate(atoms)
    }
    ends = [(float(last), (len(circuit.outputs) - 1) / 2 - row) for row in range(len(circuit.outputs))]
    for number, unit in enumerate(circuit.units, start=circuit.inputs):
        for atom in unit.argument.terms:
            _join(axes, spot[atom], spot[number])
    for end, output in zip(ends, circuit.outputs, strict=True):
        for atom in output.terms:
            _join(axes, spot[atom], end)
    for atom, place in spot.items():
        variable = atom < circuit.inputs
        text = window.domain.axes[atom] if variable else circuit.units[atom - circuit.inputs].text
        bends = not variable and circuit.units[atom - circuit.inputs].bends
        _box(axes, place, text or "head", GREY if variable else BENDS if bends else BLUE)
    for number, end in enumerate(ends):
        _box(axes, end, "output" if len(ends) == 1 else f"output {number}", GREY)
    tall = max(len(column) for column in [*columns, ends])
    _blank(axes, last, tall)
    widest = max(layer.width_in for layer in window.net.network.attention)
    heads, tokens = counted(len(circuit.units), "head"), counted(window.net.network.tokens, "token")
    registers = counted(widest, "register")
    axes.set_title(f"circuit: depth {last - 1}, {heads} (blue smooth, pink bends), {tokens}, up to {registers}")


def height(window: Window) -> float:
    """Of the diagram, where one of the other panels is 1: small circuits and rows of layers take half of that."""
    circuit = circuit_of(window)
    tallest = max(map(len, [*_columns(circuit), circuit.outputs])) if circuit is not None else 1
    return min(1.0, max(LEAST, EACH * tallest))


def _columns(circuit: Circuit) -> list[list[int]]:
    """Variables, then heads by their depth."""
    depths = [0] * circuit.inputs + circuit.depth
    return [[atom for atom, depth in enumerate(depths) if depth == column] for column in range(max(depths) + 1)]


def draw_layers(axes: Axes, window: Window) -> None:
    """Layers from left to right, each with what it holds."""
    network = window.net.network
    length = network.rows
    for column, layer in enumerate(network.layers):
        length = layer.length_out(length)
        size = f"{length} x {layer.width_out}"
        colour = BLUE if isinstance(layer, Attention) else GREY
        text = f"{layer.kind}\n{size}"
        if isinstance(layer, Attention):
            text = f"attention\n{counted(layer.heads, 'head')}\n{len(layer.memory)} memory\n{size}"
        elif isinstance(layer, Affine) and layer.left is not None:
            text = f"affine,\nmixes tokens\n{size}"
        if column:
            _join(axes, (column - 1.0, 0.0), (float(column), 0.0))
        _box(axes, (float(column), 0.0), text, colour, whole=True)
    _blank(axes, len(network.layers) - 1, 2)
    axes.set_title(f"{counted(len(network.layers), 'layer')}: what each puts out, tokens x features")


def _join(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.plot(*zip(start, end, strict=True), color=GREY, linewidth=0.6, alpha=0.7, zorder=1)


def _box(axes: Axes, place: tuple[float, float], text: str, colour: str, whole: bool = False) -> None:
    text = text if whole else shortened(text, LONGEST)
    frame = {"boxstyle": "round,pad=0.3", "facecolor": axes.get_facecolor(), "edgecolor": colour}
    axes.text(*place, text, ha="center", va="center", fontsize="small", bbox=frame, zorder=2, parse_math=False)


def _blank(axes: Axes, last: int, tall: int) -> None:
    """Room for all boxes, no axes."""
    axes.set_axis_off()
    axes.set(xlim=(-0.5, last + 0.5), ylim=(-tall / 2 - 0.2, tall / 2 + 0.2))
