"""Rows of data beside what a network says of them while it had not seen them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...targets.samples import SamplesTarget
from .slices import Window

Floats = npt.NDArray[np.float64]


class HeldOutRows(NamedTuple):
    """The rows of the data, one output of what was measured there, and its prediction while the row was held out."""

    X: Floats  # (n, D)
    y: Floats  # (n,)
    predicted: Floats  # (n,)

    @property
    def residuals(self) -> Floats:
        """Prediction minus truth, (n,)."""
        return self.predicted - self.y


def held_out_rows(window: Window) -> HeldOutRows | None:
    """The rows of a network that was fitted to data in this process; None for others: files do not hold the data."""
    target = window.net.certificate.claim.target
    if not isinstance(target, SamplesTarget) or target.study is None:
        return None
    y = target.samples.y[:, window.output]
    return HeldOutRows(target.samples.X, y, y + target.study.residuals[:, window.output])
