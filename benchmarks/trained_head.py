"""The partition of a trained head: one stock `nn.MultiheadAttention` head, fitted by Adam, read by `Partition.of`.

A head with 12 learned memory tokens is fitted to a function with three values on a square, 1 where x + y > 0.4, else -1
where x < y - 0.3, else 0, through an `nn.Linear` that makes queries of points. Nothing tells it to make cells; its
scores are affine, so it has no choice.

    python benchmarks/trained_head.py      # writes docs/images/trained-head.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from PIL import Image
from torch import nn

import attnfun as af

ROOT = Path(__file__).parent.parent
TOKENS, FEATURES, STEPS, BATCH, COLOURS = 12, 8, 1500, 256, 64
SQUARE = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}


def wanted(points: torch.Tensor) -> torch.Tensor:
    """Three values, (B, 2) -> (B,)."""
    x, y = points.unbind(dim=1)
    return torch.where(x + y > 0.4, 1.0, torch.where(x < y - 0.3, -1.0, 0.0))


def trained(steps: int = STEPS) -> tuple[nn.Linear, nn.MultiheadAttention, torch.Tensor, float]:
    """The map to queries, the head, its keys (T, E), and the mean square error of the last batch."""
    torch.manual_seed(0)
    before, head = nn.Linear(2, FEATURES), nn.MultiheadAttention(FEATURES, 1, batch_first=True)
    keys = nn.Parameter(torch.randn(TOKENS, FEATURES))
    optimiser = torch.optim.Adam([*before.parameters(), *head.parameters(), keys], lr=0.02)
    loss = torch.zeros(())
    for _ in range(steps):
        points = 2 * torch.rand(BATCH, 2) - 1
        out = head(before(points)[None], keys[None], keys[None], need_weights=False)[0][0, :, 0]
        loss = (out - wanted(points)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return before, head, keys.detach(), loss.item()


def main() -> None:
    """Train, read the partition, draw it."""
    before, head, keys, loss = trained()
    cells = af.types.Partition.of(head, SQUARE, keys=keys, before=before)
    walls = cells.boundaries()
    widths = sorted(wall.width for wall in walls)
    leading = sum(volume > 0 for volume in cells.volumes)
    sys.stdout.write(
        f"mean square error {loss:.4f}, {leading} of {len(cells)} tokens lead somewhere, "
        f"{len(walls)} walls, from {widths[0]:.3g} to {widths[-1]:.3g} wide\n"
    )
    picture = ROOT / "docs" / "images" / "trained-head.png"
    cells.plot(picture)
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


if __name__ == "__main__":
    main()
