"""Proofs as data [T 11]: a tree of lemmas, each with the name of its rule, its data and its sub-proofs.

Searching for a proof and believing it are two things. A *prover* searches: where to cut a box, which unit a head
computes, which rule applies. What it leaves is a `Proof`, a frozen value that can be saved, sent and read. A *rule*
turns a proof and a claim into a `Conclusion`, with no search. Whoever believes the rules and the arithmetic below them
believes the certificate, whatever prover found the proof.

Data are arrays. Those of a cover of boxes are a *cutting tree* (`Cover`): nodes in breadth-first order, the axis of the
cut at each, and at each leaf how its bound is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..errors import FileFormatError, ProofFailed

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

PARTS = ("construction", "input", "rounding")
"""The parts of an error bound, in order."""
ALIKE = "one token"
"""The rule for maps that treat every token of a sequence alike [T 11.8]."""
LEAF = 255
"""The axis of a node that is not cut."""
UNKNOWN = 255
"""Stands at nodes of a growing tree that nobody has bounded."""
FUNCTIONS = "functions"
"""The data that say what the heads of a circuit compute, a formula in z a line; only the judge reads them."""
LINE = 80
"""Letters of a list that are shown."""
DEEPEST = 64
"""Lemmas of a proof stand inside each other at most so deep."""


@dataclass(frozen=True, eq=False)
class Proof:
    """A lemma: the rule that it follows by, the data of that rule, and proofs of what the rule needs.

    >>> inner = Proof("boxes", {"axes": np.array([0, 255, 255], dtype=np.uint8)})
    >>> print(Proof("one token", {}, (inner,)))
    one token
      boxes: a cover by 2 boxes
    """

    rule: str
    data: Mapping[str, Array] = field(default_factory=dict)
    premises: tuple[Proof, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all data."""
        return sum(array.nbytes for lemma in self.lemmas() for array in lemma.data.values())

    @property
    def leaves(self) -> int:
        """Boxes on which something is bounded, in all covers."""
        return sum(_leaves(lemma) for lemma in self.lemmas() if "axes" in lemma.data)

    def lemmas(self) -> Iterator[Proof]:
        """This lemma and all below it, premises after what they serve."""
        yield self
        for premise in self.premises:
            yield from premise.lemmas()

    def __str__(self) -> str:
        return "\n".join(self._lines(""))

    def _lines(self, indent: str) -> Iterator[str]:
        cover = [f"a cover by {_leaves(self)} boxes"] if "axes" in self.data else []
        rest = [f"{name} {_shown(name, array)}" for name, array in self.data.items() if name not in ("axes", "series")]
        words = "; ".join(cover + [text if len(text) <= LINE else f"{text[:LINE]}..." for text in rest])
        yield f"{indent}{self.rule}" + (f": {words}" if words else "")
        for premise in self.premises:
            yield from premise._lines(indent + "  ")

    def tensors(self, place: str = "proof") -> dict[str, Array]:
        """All data as named arrays: `proof.axes`, and `proof.0.axes` of the first premise."""
        named = {f"{place}.{name}": np.ascontiguousarray(array) for name, array in self.data.items()}
        for number, premise in enumerate(self.premises):
            named |= premise.tensors(f"{place}.{number}")
        return named

    def as_dict(self) -> dict[str, Any]:
        """Names of rules and data, JSON-ready; the data themselves are in `tensors`."""
        return {"rule": self.rule, "data": sorted(self.data), "premises": [each.as_dict() for each in self.premises]}

    @classmethod
    def restored(cls, description: Any, tensors: Mapping[str, Array], place: str = "proof", depth: int = 0) -> Proof:
        """The proof again. A rule has to check it before anything follows from it."""
        match description:
            case {"rule": str(rule), "data": list(names), "premises": list(premises)} if depth < DEEPEST:
                missing = [name for name in names if not isinstance(name, str) or f"{place}.{name}" not in tensors]
                if not missing:
                    data = {name: tensors[f"{place}.{name}"] for name in names}
                    inner = enumerate(premises)
                    below = tuple(cls.restored(each, tensors, f"{place}.{k}", depth + 1) for k, each in inner)
                    return cls(rule, data, below)
        raise FileFormatError(
            f"the field {place} must name a rule, its data and its premises, at most {DEEPEST} inside each other",
            got=str(description)[:200],
        )


def _shown(name: str, array: Array) -> str:
    """Data for a person to read: what heads compute is a text."""
    return ascii(array.tobytes().decode(errors="replace")) if name == FUNCTIONS else str(array.tolist())


def _leaves(lemma: Proof) -> int:
    """Leaves of its cover."""
    return int((lemma.data["axes"] == LEAF).sum())


@dataclass(frozen=True, eq=False)
class Conclusion:
    """What a rule makes of a proof: a bound on the error of a claim that holds on the whole domain."""

    bound: float
    parts: dict[str, float]
    """Each part alone, in the same norm; the bound is at most their sum."""
    defined: bool
    """Is the target proved to be defined on the whole domain?"""
    worst: Interval
    """The box with the largest bound, (1, D)."""


def refuse_proof(rule: str, constraint: str, got: object) -> ProofFailed:
    """The error for data that a rule cannot use."""
    return ProofFailed(
        f"a proof by the rule {rule!r} {constraint}",
        got=str(got),
        remedy="The file may have been changed; without its proof it can be proved anew (search=True).",
    )


@dataclass(frozen=True, eq=False)
class Cover:
    """A cover of a domain by boxes: a cutting tree for each of the boxes that the domain starts with.

    A node is a box. Cut along an axis it has two children, below and above the middle of its side; a node that is not
    cut is a leaf. The leaves cover whatever the roots cover. Nodes stand in breadth-first order, roots first, so node i
    has the children `roots + 2k` and `roots + 2k + 1`, k the number of cut nodes before it.

    >>> cover = Cover(np.array([0, LEAF, 1, LEAF, LEAF], dtype=np.uint8), np.ones(3, dtype=np.uint8), roots=1)
    >>> cover.children(np.array([0, 2])).tolist(), cover.leaf.tolist()
    ([[1, 2], [3, 4]], [False, True, False, True, True])
    """

    axes: npt.NDArray[np.uint8]  # (nodes,)
    series: npt.NDArray[np.uint8]  # (leaves,): 0 for no Taylor series, 1 + k for series with rounding from k cuts above
    roots: int

    @classmethod
    def read(cls, rule: str, data: Mapping[str, Array], roots: int, variables: int) -> Cover:
        """The cover in the data of a proof, if it is one of so many boxes in so many variables."""
        axes, series = data.get("axes", np.empty(0)), data.get("series", np.empty(0))
        if any(array.dtype != np.uint8 or array.ndim != 1 for array in (axes, series)):
            raise refuse_proof(rule, "must have axes and series as lists of bytes", (axes.dtype, series.dtype))
        cuts = int((axes != LEAF).sum())
        if len(axes) != roots + 2 * cuts or len(series) != roots + cuts:
            raise refuse_proof(
                rule, f"must have {roots} roots, two nodes a cut and a flag a leaf", (len(axes), cuts, len(series))
            )
        if (axes[axes != LEAF] >= min(variables, LEAF)).any():
            raise refuse_proof(rule, f"must cut along axes 0 to {variables - 1}", int(axes[axes != LEAF].max()))
        cover = cls(axes, series, roots)
        if (cover.first_child[axes != LEAF] <= np.flatnonzero(axes != LEAF)).any():
            raise refuse_proof(rule, "must have its nodes in breadth-first order", "a child before its parent")
        return cover

    @cached_property
    def leaf(self) -> Flags:
        """Which nodes are leaves, (nodes,)."""
        return self.axes == LEAF

    @cached_property
    def first_child(self) -> Integers:
        """The first of the two children of each node that is cut, (nodes,)."""
        before = np.cumsum(~self.leaf) - ~self.leaf
        return self.roots + 2 * before

    @cached_property
    def leaf_number(self) -> Integers:
        """The place of each leaf among the leaves, (nodes,)."""
        return np.cumsum(self.leaf) - 1

    def children(self, nodes: Integers) -> Integers:
        """The two children of nodes that are cut, (B, 2)."""
        return self.first_child[nodes][:, None] + np.arange(2)

    def ways(self, nodes: Integers) -> Integers:
        """How these leaves are bounded, (B,): 0 without series, 1 + k with series and rounding from k cuts above."""
        return self.series[self.leaf_number[nodes]].astype(np.int64)

    @cached_property
    def parents(self) -> Integers:
        """The node that each was cut from, (nodes,); roots their own."""
        found = np.arange(len(self.axes))
        found[self.roots :] = np.repeat(np.flatnonzero(~self.leaf), 2)
        return found

    @cached_property
    def noting(self) -> Flags:
        """Nodes on which what rounding adds is bounded for leaves below, (nodes,)."""
        node = np.flatnonzero(self.leaf)
        above = self.series.astype(np.int64) - 1
        for step in range(above.max(initial=0)):
            node = np.where(above > step, self.parents[node], node)
        found = np.zeros(len(self.axes), dtype=bool)
        found[node[above > 0]] = True
        return found & ~self.leaf

    @cached_property
    def enclosing(self) -> Flags:
        """Nodes with one below on which the network is enclosed, (nodes,): there it pays to drop tokens."""
        found, here = np.zeros(len(self.axes), dtype=bool), self.noting.copy()
        here[self.leaf] = self.series <= 1
        start, stop = 0, self.roots
        levels = [(start, stop)]
        while start < stop:
            start, stop = stop, stop + 2 * int((~self.leaf[start:stop]).sum())
            levels.append((start, stop))
        for start, stop in reversed(levels[1:]):
            parents = self.parents[start:stop:2]
            found[parents] = here[start:stop].reshape(-1, 2).any(axis=1)
            here[parents] |= found[parents]
        return found

    def data(self) -> dict[str, Array]:
        """As the data of a proof."""
        return {"axes": self.axes, "series": self.series}


class Growing:
    """A cutting tree while boxes are being cut, in any order; its nodes are numbered as they are made."""

    def __init__(self, roots: int) -> None:
        self.roots, self.nodes = roots, roots
        self.axes = np.full(max(roots, 1024), LEAF, dtype=np.uint8)
        self.first = np.zeros(max(roots, 1024), dtype=np.int64)
        self.series = np.full(max(roots, 1024), UNKNOWN, dtype=np.uint8)

    def cut(self, nodes: Integers, axes: npt.NDArray[np.integer]) -> Integers:
        """Cut nodes along axes; the first child of each, (B,)."""
        first = self._room(2 * len(nodes))[::2]
        self.axes[nodes], self.first[nodes] = axes, first
        return first

    def graft(self, nodes: Integers, piece: Mapping[str, Array]) -> Integers:
        """Put a piece in place of nodes: the `tensors` of a tree that has them as roots. Where its nodes are now."""
        place = np.concatenate([nodes, self._room(len(piece["axes"]) - len(nodes))])
        self.axes[place], self.series[place] = piece["axes"], piece["series"]
        self.first[place] = place[piece["first"]]
        return place

    def _room(self, count: int) -> Integers:
        """Numbers of so many new nodes."""
        while self.nodes + count > len(self.axes):
            self.axes = np.concatenate([self.axes, np.full_like(self.axes, LEAF)])
            self.first = np.concatenate([self.first, np.zeros_like(self.first)])
            self.series = np.concatenate([self.series, np.full_like(self.series, UNKNOWN)])
        self.nodes += count
        return np.arange(self.nodes - count, self.nodes)

    def note(self, nodes: Integers, ways: Integers) -> None:
        """Note how nodes are bounded (`Cover.ways`), should they stay leaves."""
        self.series[nodes] = ways

    def cover(self) -> Cover:
        """The tree in breadth-first order."""
        level, order = np.arange(self.roots), list[Integers]()
        while len(level):
            order.append(level)
            cut = level[self.axes[level] != LEAF]
            level = (self.first[cut][:, None] + np.arange(2)).ravel()
        nodes = np.concatenate(order)
        axes = self.axes[nodes]
        ways = self.series[nodes][axes == LEAF]
        return Cover(axes, np.where(ways == UNKNOWN, 1, ways).astype(np.uint8), self.roots)

    def tensors(self) -> dict[str, Array]:
        """The nodes as named arrays."""
        return {name: getattr(self, name)[: self.nodes].copy() for name in ("axes", "first", "series")}

    @classmethod
    def restored(cls, named: Mapping[str, Array], roots: int) -> Growing:
        """The tree again."""
        tree = cls(roots)
        tree.nodes = len(named["axes"])
        for name in ("axes", "first", "series"):
            setattr(tree, name, named[name].copy())
        return tree
