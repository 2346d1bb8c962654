"""The pictures of docs/bregman-attention.md: a potential with its tangents, the cells, the error.

python benchmarks/bregman_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import attnfun as af
from attnfun.pieces.potentials import Mesh
from attnfun.pieces.singularities import survey

IMAGES = Path(__file__).parent.parent / "docs" / "images"
FORMULA, DOMAIN = "1/(1 + 25*x**2)", {"x": (-1, 1)}
POINTS = np.linspace(-1, 1, 2001)


def function(x: np.ndarray) -> np.ndarray:
    """The function that FORMULA says."""
    return 1 / (1 + 25 * x**2)


def meshes() -> dict[str, Mesh]:
    """A uniform mesh, and the one that the poles of the function ask for."""
    graded = survey(lambda x: function(x)[:, None], -1, 1, 1e-8).mesh()
    return {"uniform density": Mesh.uniform(-1, 1), "density from the poles": graded}


def potentials_and_cells() -> None:
    """Tangents of two potentials above, the weights of their softmax below."""
    figure, panels = plt.subplots(2, 2, figsize=(10, 5.5), layout="constrained", sharex=True)
    for (name, mesh), (above, below) in zip(meshes().items(), panels.T, strict=True):
        tokens = mesh.tokens(14, 1.0, 1)
        scores, weights = tokens.scores(POINTS[:, None] - mesh.origin), tokens.weights(POINTS[:, None] - mesh.origin)
        above.plot(POINTS, scores, lw=0.7)
        above.plot(POINTS, scores.max(axis=1), "k", lw=2)
        above.set(title=f"tangents of φ: {name}", ylim=(scores.max(axis=1).min() - 3, scores.max() + 1))
        below.plot(POINTS, weights)
        for place in POINTS[1:][np.diff(scores.argmax(axis=1)) != 0]:
            below.axvline(place, color="k", lw=0.4)
        below.set(title="their softmax and its cells", xlabel="x")
    figure.savefig(IMAGES / "bregman_cells.png", dpi=100)


def errors() -> None:
    """The error of 16 tokens: sampled values, solved values, a graded potential, polish."""
    figure, panel = plt.subplots(figsize=(10, 3.6), layout="constrained")
    for name, mesh in meshes().items():
        tokens = mesh.tokens(16, 0.5, 2)
        samples = mesh.points(200)
        weights = tokens.weights(samples[:, None] - mesh.origin)
        values = np.linalg.lstsq(weights, function(samples), rcond=1e-12)[0]
        error = tokens.weights(POINTS[:, None] - mesh.origin) @ values - function(POINTS)
        panel.semilogy(POINTS, np.abs(error), lw=0.8, label=f"solved values, {name}")
    grid = af.compile(FORMULA, DOMAIN, options={"tokens": 16}, construction="grid", proof=False)
    net = af.compile(FORMULA, DOMAIN, options={"tokens": 16}, construction="spectral")
    panel.semilogy(POINTS, np.abs(grid(POINTS) - function(POINTS)), lw=0.8, label="sampled values (the paper's head)")
    panel.semilogy(POINTS, np.abs(net(POINTS) - function(POINTS)), lw=0.8, label="polished")
    panel.axhline(net.certificate.bound, color="k", ls="--", lw=1, label=f"proved: {net.certificate.bound:.1e}")
    panel.set(title=f"error of 16 tokens for {FORMULA}", xlabel="x", ylim=(1e-15, 1))
    figure.legend(loc="outside right upper", fontsize=8)
    figure.savefig(IMAGES / "bregman_error.png", dpi=100)


if __name__ == "__main__":
    potentials_and_cells()
    errors()
