"""Changes of the weights that leave the function alone: models whose weights do not look made.

    split    one working head a block becomes two with the same scores, whose output matrices add up to the old one
    scale    Q -> Q M, K -> K M^-T and V -> V N, O -> N^-1 O with invertible M and N, for every head
    permute  the heads of every block in a random order
    rotate   the stream turned by a random orthogonal matrix
    noise    every weight off by a little, as much as still leaves the model within its bound

All but `noise` are exact in real arithmetic. **In floating point nothing here is proved**: the certificate is that of
the plain weights, and what is said of a disguised model, "measured", is the largest distance from its program found at
random points. Directions, heads and interventions are carried along exactly; with `noise` they are those of the model
without it.

**Before that** the plain form is made fit for rounding, which it never was in need of. It masks scores by 2^100, which
any rounding of the stream would turn into noise of 2^47: masks become four times the largest score found and 1024, for
which weights that were zero stay zero in float64. And features of all sizes, which a rotation would mix, are brought to
about one by powers of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from ..arguments import one_of, whole_number
from ..errors import InputError, shown
from ..runtime.backends.lens import FAR, beyond
from ..runtime.backends.residual import Block
from .specimen import Specimen
from .truth import IDLE, Head, Truth

Floats = npt.NDArray[np.float64]
Moves = Mapping[Head, tuple[Head, ...]]
"""Where heads are after a change."""

MEASURED = "measured"


@dataclass(frozen=True)
class DisguiseTuning:
    """How noise is chosen and models are measured."""

    points: int = 32
    """Random points at which a disguised model is measured. A round number."""
    least_noise: float = 1e-12
    """Where the search for the size of the noise starts, relative to the size of each array. A round number."""
    attempts: int = 20
    """Sizes of the noise that are tried. A round number."""
    room: float = 0.5
    """The fraction of what the bound leaves that noise may use. A round number."""


TUNING = DisguiseTuning()


def disguise(model: Specimen, names: Iterable[str], seed: int = 0) -> Specimen:
    """The same function with other weights: the named changes, in this order. Equal seeds give equal models.

    >>> import attnfun as af
    >>> net = af.compile("x*y", {"x": (-1, 1), "y": (-1, 1)}, 1e-3, construction="circuit")
    >>> model = af.zoo.disguise(af.zoo.specimen(net), ["split", "permute", "rotate"], seed=1)
    >>> len(model.truth.heads("output")), model.status
    (3, 'measured')
    """
    if not isinstance(model, Specimen) or not isinstance(names, list | tuple):
        raise InputError("disguise needs a specimen and a list of names", got=f"{shown(model)} and {shown(names)}")
    chosen, seed = tuple(one_of("disguises", name, DISGUISES) for name in names), whole_number("seed", seed, 0)
    if not chosen:
        return model
    if model.residual.dtype != "float64":
        raise InputError("a model must be in float64 to be disguised", got=model.residual.dtype)
    rng = np.random.default_rng(seed)
    if not model.disguises:
        model = _fit(model, model.sample(TUNING.points, rng))
    for name in chosen:
        model = DISGUISES[name](model, rng)
    found = model.farthest(model.sample(TUNING.points, rng))
    if not found <= model.bound:
        raise InputError(
            f"a disguised model must stay within its bound, {model.bound:.3g}, at {TUNING.points} random points",
            got=f"{found:.3g}",
            remedy="Leave out a disguise, or compile with a larger eps.",
        )
    return replace(model, status=MEASURED, disguises=(*model.disguises, *chosen))


def _fit(model: Specimen, rows: Floats) -> Specimen:
    """Masks that rounding cannot turn into noise, and features of one size."""
    blocks, streams, largest = model.residual.blocks, model.streams(rows), 0.0
    for block, stream in zip(blocks, streams[:-1], strict=True):
        largest = max(largest, float(np.abs(_masked(block, 0.0).scores(stream)).max()))
    far = min(model.residual.far, beyond(largest))
    sizes = np.max([np.abs(stream).max(axis=(0, 1)) for stream in streams], axis=0)  # (D,)
    factors = np.exp2(-np.round(np.log2(np.where(sizes > 0, sizes, 1.0))))
    masked = _with_blocks(model, (_masked(block, far) for block in blocks))
    return _turned(masked, np.diag(factors), np.diag(1 / factors))


def _masked(block: Block, far: float) -> Block:
    """The block with another size of masks, where they are larger than any weight."""
    changed = {
        name: np.where(np.abs(array) == FAR, np.sign(array) * far, array) for name, array in _arrays(block).items()
    }
    return Block(**changed)


def _arrays(block: Block) -> dict[str, Floats]:
    return {field.name: getattr(block, field.name) for field in fields(block)}


def _with_blocks(model: Specimen, blocks: Iterable[Block]) -> Specimen:
    return replace(model, residual=replace(model.residual, blocks=tuple(blocks)))


def _split(model: Specimen, rng: np.random.Generator) -> Specimen:
    """One head more in every block: part of a working head, or idle where no head works."""
    blocks, moves, words = list[Block](), dict[Head, tuple[Head, ...]](), list[tuple[str, ...]]()
    for number, block in enumerate(model.residual.blocks):
        working = [head for at, head in model.truth.working if at == number]
        new, said = block.heads, model.residual.heads[number]
        head = int(rng.choice(working)) if working else 0
        wider = {name: np.concatenate([a, a[head : head + 1]]) for name, a in _arrays(block).items()}
        share = rng.uniform(0.25, 0.75) if working else 0.0
        wider["output"][new] = share * wider["output"][head]
        wider["output"][head] -= wider["output"][new]
        blocks.append(Block(**wider))
        words.append((*said, said[head] if working else IDLE))
        if working:
            moves[number, head] = ((number, head), (number, new))
    residual = replace(model.residual, blocks=tuple(blocks), heads=tuple(words))
    return replace(model, residual=residual, truth=_moved(model.truth, moves))


def _permute(model: Specimen, rng: np.random.Generator) -> Specimen:
    """Heads in a random order."""
    blocks, moves, words = list[Block](), dict[Head, tuple[Head, ...]](), list[tuple[str, ...]]()
    for number, block in enumerate(model.residual.blocks):
        order = rng.permutation(block.heads)
        blocks.append(Block(**{name: array[order] for name, array in _arrays(block).items()}))
        words.append(tuple(model.residual.heads[number][head] for head in order))
        moves |= {(number, int(old)): ((number, new),) for new, old in enumerate(order)}
    residual = replace(model.residual, blocks=tuple(blocks), heads=tuple(words))
    return replace(model, residual=residual, truth=_moved(model.truth, moves))


def _moved(truth: Truth, moves: Moves) -> Truth:
    """The truth with heads elsewhere."""

    def new(heads: tuple[Head, ...]) -> tuple[Head, ...]:
        return tuple(sorted(place for head in heads for place in moves.get(head, (head,))))

    computed_by = {name: new(heads) for name, heads in truth.computed_by.items()}
    return replace(truth, computed_by=computed_by, working=new(truth.working))


def _scale(model: Specimen, rng: np.random.Generator) -> Specimen:
    """Scores and values in other bases."""
    blocks = []
    for block in model.residual.blocks:
        heads, _, size = block.query.shape
        (M, back), (N, undone) = _bases(heads, size, rng), _bases(heads, size, rng)  # (H, k, k) each
        blocks.append(
            Block(
                query=block.query @ M,
                query_bias=(block.query_bias[:, None] @ M)[:, 0],
                key=block.key @ back.transpose(0, 2, 1),
                key_bias=(block.key_bias[:, None] @ back.transpose(0, 2, 1))[:, 0],
                value=block.value @ N,
                value_bias=(block.value_bias[:, None] @ N)[:, 0],
                output=undone @ block.output,
            )
        )
    return _with_blocks(model, blocks)


def _bases(heads: int, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Random matrices with singular values from 1/2 to 2, and their inverses, (H, k, k) each."""
    left, right = (_orthogonal(rng.normal(size=(heads, size, size))) for _ in range(2))
    sizes = 2.0 ** rng.uniform(-1, 1, size=(heads, 1, size))
    return left * sizes @ right, right.transpose(0, 2, 1) @ (left / sizes).transpose(0, 2, 1)


def _orthogonal(matrix: Floats) -> Floats:
    """Uniformly random orthogonal matrices from normal ones, (.., k, k)."""
    Q, R = np.linalg.qr(matrix)
    return Q * np.sign(np.diagonal(R, axis1=-2, axis2=-1))[..., None, :]


def _rotate(model: Specimen, rng: np.random.Generator) -> Specimen:
    """Another basis of the stream."""
    width = model.residual.width
    Q = _orthogonal(rng.normal(size=(width, width)))  # (D, D)
    turned = _turned(model, Q, Q.T)
    features = tuple(f"feature {k} of a turned stream" for k in range(width))
    return replace(turned, residual=replace(turned.residual, features=features))


def _turned(model: Specimen, basis: Floats, back: Floats) -> Specimen:
    """The stream times an invertible matrix (D, D), given with its inverse: there are no norms in the way."""
    old = model.residual
    blocks = [
        replace(b, query=back @ b.query, key=back @ b.key, value=back @ b.value, output=b.output @ basis)
        for b in old.blocks
    ]
    residual = replace(
        old,
        embedding=old.embedding @ basis,
        start=old.start @ basis,
        blocks=tuple(blocks),
        unembed=back @ old.unembed,
        places=(),
    )
    carriers = tuple(carrier.moved(basis, back) for carrier in model.truth.carriers)
    return replace(model, residual=residual, truth=replace(model.truth, carriers=carriers))


def _noise(model: Specimen, rng: np.random.Generator) -> Specimen:
    """Normal noise on all weights of all blocks, half as large as the bound leaves room for at random points."""
    rows, grains = model.sample(TUNING.points, rng), list[dict[str, Floats]]()
    for block in model.residual.blocks:
        sizes = {name: float(np.sqrt(np.square(array).mean())) for name, array in _arrays(block).items()}
        grains.append({n: sizes[n] * rng.normal(size=array.shape) for n, array in _arrays(block).items()})

    def noisy(size: float) -> Specimen:
        pairs = zip(model.residual.blocks, grains, strict=True)
        return _with_blocks(
            model, (Block(**{n: a + size * grain[n] for n, a in _arrays(block).items()}) for block, grain in pairs)
        )

    clean, room = model.run(rows), TUNING.room * (model.bound - model.farthest(rows))
    size, low, high = TUNING.least_noise, 0.0, np.inf
    for _ in range(TUNING.attempts):
        off = float(np.abs(noisy(size).run(rows) - clean).max())
        if TUNING.room * room <= off <= room:
            return noisy(size)
        low, high = (size, high) if off < room else (low, size)
        linear = size * 0.75 * room / off if off > 0 else 2 * size  # small noise acts linearly
        size = linear if low < linear < high else float(np.sqrt(low * high))
    raise InputError("the bound of the model must leave room for noise", got=f"a bound of {model.bound:.3g}")


DISGUISES: dict[str, Callable[[Specimen, np.random.Generator], Specimen]] = {
    "split": _split,
    "scale": _scale,
    "permute": _permute,
    "rotate": _rotate,
    "noise": _noise,
}
"""What there is, in the order that suits: each one leaves the next something to do."""
