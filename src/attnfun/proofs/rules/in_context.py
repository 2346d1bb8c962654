"""A proof for networks that fit a statistical model to the data in a prompt [T 11.17].

The claim is about one prompt. Every execution of the network on it is followed (`executions.py`, [T 10.9]); the
coefficients that it ought to have minimise an objective (`targets/fitted.py`), whose minimiser is enclosed by Newton's
method: data W̃, C and v say where it is about, what inverts the second derivatives there, and in which units.

Data: `coefficients` (P, m), `inverse` (P m, P m), `scale` (P, m).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...arithmetic import Interval
from ...arithmetic.directed import SMALLEST, above, rounded_up
from ...arithmetic.formats import round_to
from ...resources.deadline import NEVER, Deadline
from ...targets import FittedModel
from ..claim import Claim
from ..executions import executions
from ..proof import Conclusion, Proof, refuse_proof

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NAME = "in context"


def bound_in_context(claim: Claim, proof: Proof, deadline: Deadline = NEVER) -> Conclusion | None:
    """A bound on the coefficients of all executions; None where the claim is of another kind."""
    target, rows = claim.imitated, prompt_of(claim)
    if not isinstance(target, FittedModel) or rows is None:
        return None
    guess, away = minimiser(target, proof)
    found = executions(claim.network, rows, deadline)
    held, reach = found.centre.reshape(guess.shape), found.reach.reshape(guess.shape)
    apart = np.maximum(above(held - guess), above(guess - held))
    construction, rounding = float(rounded_up(apart + away + reach, 2).max()), float(reach.max())
    parts = {"construction": construction, "input": 0.0, "rounding": rounding}
    return Conclusion(construction, parts, True, Interval(rows.reshape(1, -1)))


def prompt_of(claim: Claim) -> Floats | None:
    """The one prompt that a claim is about, as the network reads it; None where it is about other points."""
    network, (low, high) = claim.network, claim.domain.starts()
    if len(low) != 1 or not np.array_equal(low, high):
        return None
    rows = low[0].reshape(network.shape_in)
    return rows if np.array_equal(round_to(rows, network.dtype), rows) else None


def minimiser(target: FittedModel, proof: Proof) -> tuple[Floats, Floats]:
    """W̃, and how far each coefficient may be from the minimiser's, (P, m)."""
    shape, size = target.output_shape, target.outputs
    shapes = {"coefficients": shape, "inverse": (size, size), "scale": shape}
    for name, wanted in shapes.items():
        array = proof.data.get(name, np.empty(0))
        if array.dtype != np.float64 or array.shape != wanted or not np.isfinite(array).all():
            raise refuse_proof(NAME, f"must have {name} as finite numbers {wanted}", array.shape)
    guess, C, scale = (proof.data[name] for name in shapes)
    if not (scale > 0).all():
        raise refuse_proof(NAME, "must have a positive scale", scale.min())
    used, strength = used_by(target, guess), Interval(target.words["beta"]) * float(len(target.X))
    push = np.where(_free(target), 0.0, np.sign(guess)) * strength  # (P, m)
    C, v = C[np.ix_(used, used)], scale.ravel()[used]
    slope = (target.derivatives(Interval(guess))[0] + push).reshape(size)[used]
    step = np.sum(Interval(C) * slope.reshape(1, -1), axis=1).magnitude  # |C g(W̃)|
    epsilon = float(above(step / v).max(initial=SMALLEST))
    room = np.where(used.reshape(shape), above(2 * epsilon * scale), 0.0)
    slopes, curvature = target.derivatives(Interval(-above(room - guess), above(guess + room)))
    H = curvature[used][:, used]
    left = np.eye(len(C)) - np.sum(Interval(C).reshape(len(C), -1, 1) * H.reshape(1, *H.shape), axis=1)  # I - C H
    kappa = float(rounded_up((left.magnitude @ v) / v, len(C) + 2).max(initial=0.0))
    if not kappa <= 0.5:
        raise refuse_proof(NAME, "must have an inverse of the second derivatives near its coefficients", f"{kappa:.3g}")
    if not used.all() or target.words["beta"]:
        signs = _free(target) | (guess == 0) | (np.abs(guess) > room)
        idle = ~used.reshape(shape)
        if not signs.all() or not (slopes.magnitude[idle] < strength.lo).all():
            raise refuse_proof(NAME, "must know the signs of all coefficients, and which are zero", int(used.sum()))
    away = rounded_up(epsilon * scale / (1 - kappa), 4)
    return guess, np.where(used.reshape(shape), away, 0.0)


def used_by(target: FittedModel, guess: Floats) -> Flags:
    """The coefficients that a penalty `beta` leaves to be found, (P m,): those that are not zero, and free ones."""
    return (np.full(guess.shape, not target.words["beta"]) | _free(target) | (guess != 0)).ravel()


def _free(target: FittedModel) -> Flags:
    """Which coefficients are not penalised, (P, m)."""
    return np.broadcast_to(np.arange(target.output_shape[0])[:, None] >= target.X.shape[1], target.output_shape)
