"""A tree of boxes over the queries of a bank, each leaf with the tokens that matter in it.

For a box with centre x and half-widths h, and any token c, the weight of token j is at most e^{M_j} times that of c
everywhere in the box,

    M_j = (a_j - a_c)·x + b_j - b_c + |a_j - a_c|·h,

because the difference of scores is affine. A token with `M_j <= -log(N / tail)` leaves the list of the box and of all
its parts. Every token leaves a path from the root at most once, so the dropped tokens weigh at most `tail` altogether.
(What the sum is off as computed [T 9.10] is added to M.) Boxes are cut across the coordinate along which
scores differ most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...arithmetic.directed import above, sum_error

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TreeTuning:
    """When a tree of boxes is worth it. What is left out of a sum is bounded whatever the tree."""

    leaf: int = 24
    """Shorter lists are not cut. By trial."""
    most_nodes: int = 2**12
    """Nodes of a tree, at most. For memory."""
    most_listed: int = 2**21
    """Entries of all lists together. For memory."""
    worth: float = 0.5
    """A tree must shorten the lists by this factor at least. By trial."""


TUNING = TreeTuning()


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes: the coordinate that is cut (-1 for a leaf), where, the first of two children, and the list of a leaf."""

    axis: Integers  # (n,)
    cut: Floats  # (n,)
    child: Integers  # (n,)
    begin: Integers  # (n,)
    end: Integers  # (n,)
    listed: Integers  # (L,), tokens
    low: Floats  # (r,)
    high: Floats  # (r,)

    @classmethod
    def all_of(cls, tokens: int) -> Tree:
        """One leaf with every token."""
        zero, none = np.zeros(1, dtype=np.int64), np.zeros(0)
        return cls(zero - 1, np.zeros(1), zero, zero, zero + tokens, np.arange(0), none, none)

    @classmethod
    def grown(cls, slopes: Floats, offsets: Floats, low: Floats, high: Floats, tail: float) -> Tree | None:
        """The tree for tokens (M, r), (M,) and queries in [low, high], or None where lists stay long."""
        least = -np.log(len(offsets) / tail)
        boxes = [(low, high, _in_play(slopes, offsets, np.arange(len(offsets)), low, high, least))]
        axis, cut, child, lists, room = [-1], [0.0], [0], [boxes[0][2]], TUNING.most_listed
        node = 0
        while node < len(boxes):
            bottom, top, tokens = boxes[node]
            if len(tokens) > TUNING.leaf and len(boxes) < TUNING.most_nodes and room > 2 * len(tokens):
                k = int(np.argmax(np.ptp(slopes[tokens], axis=0) * (top - bottom)))
                middle = (bottom[k] + top[k]) / 2
                axis[node], cut[node], child[node] = k, middle, len(boxes)
                for side in (0, 1):
                    ends = bottom.copy(), top.copy()
                    ends[1 - side][k] = middle
                    part = _in_play(slopes, offsets, tokens, *ends, least)
                    boxes.append((*ends, part))
                    axis.append(-1)
                    cut.append(0.0)
                    child.append(0)
                    lists.append(part)
                    room -= len(part)
                lists[node] = tokens[:0]
            node += 1
        counts = np.array([len(tokens) for tokens in lists])
        if counts.max() > TUNING.worth * len(offsets):
            return None
        end = np.cumsum(counts)
        return cls(np.array(axis), np.array(cut), np.array(child), end - counts, end, np.concatenate(lists), low, high)

    @property
    def arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        """What the loop needs."""
        return self.axis, self.cut, self.child, self.begin, self.end

    @property
    def widest(self) -> int:
        """Tokens in the longest list."""
        return int((self.end - self.begin).max())

    def holds(self, queries: Floats) -> npt.NDArray[np.bool_]:
        """Which queries (B, r) lie in the boxes."""
        return np.all((queries >= self.low) & (queries <= self.high), axis=1)


def _in_play(slopes: Floats, offsets: Floats, tokens: Integers, low: Floats, high: Floats, least: float) -> Integers:
    """Tokens whose weight is not negligible somewhere in the box."""
    centre = (low + high) / 2
    half = above(np.maximum(high - centre, centre - low))
    a, b = slopes[tokens], offsets[tokens]
    best = int(np.argmax(a @ centre + b))
    apart = a - a[best]
    size = (np.abs(a) + np.abs(a[best])) @ (np.abs(centre) + half) + np.abs(b) + abs(b[best])
    bound = apart @ centre + (b - b[best]) + np.abs(apart) @ half + sum_error(size, len(low) + 4)
    return tokens[bound > least]
