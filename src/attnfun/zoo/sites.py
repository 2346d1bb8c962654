"""Where registers stand in the residual stream of a network, from the way it was made; nothing is fitted.

A *site* says: behind this block, in this row, `register = offset + stream · read`, and to raise the register by one,
add `write` to the stream. In the form that `backends/lens.py` gives a network, features have a place each, so sites are
read off: the token that enters a network, and the token behind each of its layers, stand in known features, and each
feature is an affine form of the inputs and of what heads have put out before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..constructions.circuit import levels
from ..network import Affine, Attention, Network
from ..network.reference import apply
from ..runtime.backends.residual import ENTRY, Residual
from .programs import LookUp, Steps

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Site:
    """One place of one register."""

    register: str
    after: int
    """The block behind which it is there; -1 is before block 0."""
    row: int
    read: Floats  # (D,)
    offset: float
    write: Floats  # (D,)

    @classmethod
    def feature(cls, register: str, after: int, row: int, place: int, width: int, slope: float, offset: float) -> Site:
        """One feature, which is `slope · register + offset`."""
        unit = np.eye(1, width, place)[0]
        return cls(register, after, row, unit / slope, -offset / slope, unit * slope)


def of_inputs(residual: Residual, axes: tuple[str, ...]) -> Iterator[Site]:
    """Features of the stream before block 0 that are one input alone, scaled and shifted."""
    slopes, constants = _entry(residual)
    for row, feature in zip(*np.nonzero((slopes != 0).sum(axis=0) == 1), strict=True):
        axis = int(np.flatnonzero(slopes[:, row, feature])[0])
        slope, constant = float(slopes[axis, row, feature]), float(constants[row, feature])
        yield Site.feature(axes[axis], ENTRY, int(row), int(feature), residual.width, slope, constant)


def _entry(residual: Residual) -> tuple[Floats, Floats]:
    """Slopes (D inputs, n, width) and constants (n, width) of the tokens that enter block 0."""
    size = int(np.prod(residual.shape_in))
    X = np.vstack([np.zeros(size), np.eye(size)]).reshape(-1, *residual.shape_in)  # (1 + D, n, d)
    for layer in residual.before:
        X = apply(layer, X)
    return X[1:] - X[0], X[0]


def of_outputs(residual: Residual, names: tuple[str, ...]) -> Iterator[Site]:
    """Outputs that are an affine form of one row behind the last block."""
    if not all(isinstance(layer, Affine) for layer in residual.after):
        return
    rows, width = residual.data_tokens, residual.unembed.shape[1]
    X = np.vstack([np.zeros(rows * width), np.eye(rows * width)]).reshape(-1, rows, width)
    for layer in residual.after:
        X = apply(layer, X)
    values = X.reshape(len(X), -1)  # (1 + n m, outputs)
    slopes = (values[1:] - values[0]).reshape(rows, width, -1)
    used = slopes.any(axis=1)  # (n, outputs)
    for row in range(rows):
        own = np.flatnonzero(used[row] & (used.sum(axis=0) == 1))  # outputs of this row alone
        reads = residual.unembed @ slopes[row][:, own]  # (D, own)
        writes = np.linalg.pinv(reads)  # (own, D): each changes one output only, if they are independent
        for k, read, write in zip(own, reads.T, writes, strict=True):
            last = max(n for n, block in enumerate(residual.blocks) if block.writes[:, read != 0].any())
            yield Site(names[k], last, row, read, float(values[0, k]), write)


def of_look_up(residual: Residual, program: LookUp) -> list[Site]:
    """Inputs and outputs."""
    return [*of_inputs(residual, program.target.domain.axes), *of_outputs(residual, program.outputs)]


def of_steps(network: Network, residual: Residual, program: Steps) -> list[Site]:
    """Registers of a circuit: features that are one register, scaled and shifted; and sums where their terms stand.

    Head h of the k-th attention layer computes unit h of level k (`constructions/circuit.py`). So every feature is an
    affine form of the constant one, the inputs and the units, which is followed through the layers.
    """
    circuit, width = program.circuit, residual.width
    slopes, constants = _entry(residual)
    forms = np.zeros((slopes.shape[2], 1 + len(program.atoms)))  # (features, 1 + atoms)
    forms[:, 0], forms[:, 1 : 1 + circuit.inputs] = constants[0], slopes[:, 0].T
    wanted = {name: _vector(program, name) for name in program.forms}
    body, waiting = network.dense().layers[len(residual.before) :], levels(circuit)
    sites, seen = list[Site](), set[tuple[str, int]]()
    for number, (after, places) in enumerate(residual.places):
        if number:
            forms = _followed(forms, body[number - 1], waiting, circuit.inputs)
        for feature, place in enumerate(places):
            for name, vector in wanted.items():
                slope = _ratio(forms[feature, 1:], vector[1:])
                if slope and (name, int(place)) not in seen:
                    seen.add((name, int(place)))
                    offset = float(forms[feature, 0] - slope * vector[0])
                    sites.append(Site.feature(name, after, 0, int(place), width, slope, offset))
    born = {site.register: site for site in reversed(sites)}
    return sites + [site for name in program.forms for site in _summed(program, name, born)]


def _vector(program: Steps, name: str) -> Floats:
    """A register as a form of the constant one and all atoms, (1 + atoms,)."""
    form, vector = program.forms[name], np.zeros(1 + len(program.atoms))
    vector[0] = float(form.constant.mid)
    for atom, coefficient in form.terms.items():
        vector[1 + atom] = float(coefficient.mid)
    return vector


def _followed(forms: Floats, layer: object, waiting: list[list[int]], inputs: int) -> Floats:
    """The forms of the features behind a layer."""
    if isinstance(layer, Affine):
        out = layer.right[0].T @ forms
        out[:, 0] += layer.constant[0]
        return out
    assert isinstance(layer, Attention)  # noqa: S101 - a circuit has no other layers
    out = forms.copy() if layer.residual else np.zeros((layer.width_out, forms.shape[1]))
    out[:, 0] += layer.output_bias
    for head, unit in enumerate(waiting.pop(0)):
        out[:, 1 + inputs + unit] += layer.output[head, 0]
    return out


def _ratio(form: Floats, other: Floats) -> float:
    """The factor by which a form is another one, or 0 if it is none."""
    lead = int(np.abs(other).argmax())
    factor = form[lead] / other[lead]
    return float(factor) if np.allclose(form, factor * other, rtol=1e-12, atol=1e-300) else 0.0


def _summed(program: Steps, name: str, born: dict[str, Site]) -> Iterator[Site]:
    """A register that is a sum, where all of its terms stand, if it stands nowhere alone before that."""
    form = program.forms[name]
    terms = {program.atoms[atom]: float(c.mid) for atom, c in form.terms.items()}
    if not terms.keys() <= born.keys():
        return
    after = max(born[term].after for term in terms)
    if name in born and born[name].after <= after:
        return
    read = np.sum([c * born[term].read for term, c in terms.items()], axis=0)  # (D,)
    offset = float(form.constant.mid) + sum(c * born[term].offset for term, c in terms.items())
    own = program.atoms[program.own(name)]
    yield Site(name, after, 0, read, offset, born[own].write / terms[own])
