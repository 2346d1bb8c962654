"""Affine forms: what is known of a value on a box of inputs, with its dependence on the inputs kept [T 12.1].

A form stands for all numbers

    centre + Σ_k terms_k ε_k + slack η,       |ε_k| <= 1,  |η| <= 1,

that also lie in [lo, hi]. The symbols ε_k are shared by all forms of one run: the first ones are the coordinates of the
input, the others what relaxations left open. η belongs to one element of one form. So differences of forms cancel what
they have in common, which intervals cannot do. Every element of an array has its own numbers; the first axis of all
arrays is the batch of boxes, the second axis of `terms` the symbols.

Sums and products of forms enclose the sums and products of what they stand for, the rounding of their own float64
arithmetic included. A number that is not known makes the form say nothing: an infinite slack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import SMALLEST, ULP, above, add_down, add_up, below, dot_up, multiply, rounded_up, sum_up
from .quadratics import sums_of_products

Floats = npt.NDArray[np.float64]
SPARE = 8
"""Roundings beyond those that are counted, for the few operations around a sum."""
FORGOTTEN = 16.0
"""A form that reaches so many times as far as its ends is replaced by them."""
MOST_ENTRIES = 2**23
"""Numbers in the arrays of the squares that bound the products of one operation. For memory."""
PROMOTED = 1e-9
"""Slack that is a smaller fraction of the whole is not worth a symbol."""


@dataclass
class Symbols:
    """Counts the symbols of one run. Beyond `most` of them what is left open stays in the slack."""

    count: int
    most: int


@dataclass(frozen=True, eq=False)
class Form:
    """Affine forms of one shape S on B boxes.

    >>> x = of_box(np.array([[-1.0]]), np.array([[3.0]]))
    >>> (x - x).hi, (x * x).hi[0, 0] < 9.1
    (array([[0.]]), np.True_)
    """

    centre: Floats  # (B, *S)
    terms: Floats  # (B, K, *S)
    slack: Floats  # (B, *S)
    lo: Floats  # (B, *S)
    hi: Floats  # (B, *S)

    @property
    def shape(self) -> tuple[int, ...]:
        """S, the shape of the value at one point."""
        return self.centre.shape[1:]

    @property
    def spread(self) -> Floats:
        """How far the value can be from the centre by the terms alone, (B, *S)."""
        return sum_up(np.abs(self.terms), axis=1)

    @property
    def radius(self) -> Floats:
        """How far the value can be from the centre, (B, *S)."""
        return rounded_up(self.spread + self.slack, 1)

    @property
    def size(self) -> Floats:
        """A bound on the sum of absolute values of centre, terms and slack, (B, *S)."""
        return rounded_up(np.abs(self.centre) + self.radius, 1)

    @property
    def magnitude(self) -> Floats:
        """The largest absolute value, (B, *S)."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    def widened(self, extra: Floats) -> Form:
        """The same with numbers that may be off by so much more."""
        slack = rounded_up(self.slack + extra, 1)
        return replace(self, slack=slack, lo=add_down(self.lo, -extra), hi=add_up(self.hi, extra))

    def within(self, lo: Floats, hi: Floats) -> Form:
        """The same, known to lie in [lo, hi] as well."""
        return replace(self, lo=np.maximum(self.lo, lo), hi=np.minimum(self.hi, hi))

    def arranged(self, how: Callable[[Floats], Floats]) -> Form:
        """Elements moved about: `how` acts on arrays (b, *S) and copies, drops or reorders elements."""
        rows, count = self.terms.shape[:2]
        flat = self.terms.reshape(rows * count, *self.shape)
        terms = how(flat) if count else np.zeros((0, *how(self.centre).shape[1:]))
        terms = terms.reshape(rows, count, *terms.shape[1:])
        return Form(how(self.centre), terms, how(self.slack), how(self.lo), how(self.hi))

    def __neg__(self) -> Form:
        return Form(-self.centre, -self.terms, self.slack, -self.hi, -self.lo)

    def __add__(self, other: Form) -> Form:
        a, b = aligned(self, other)
        centre, terms = a.centre + b.centre, a.terms + b.terms
        slack = a.slack + b.slack + ULP * (np.abs(centre) + np.abs(terms).sum(axis=1))  # each relative to itself
        lo, hi = add_down(a.lo, b.lo), add_up(a.hi, b.hi)
        return made(centre, terms, rounded_up(slack, SPARE), lo, hi)

    def __sub__(self, other: Form) -> Form:
        return self + -other

    def __mul__(self, other: Form) -> Form:
        """Element by element; products of deviations are bounded, squares of symbols lie in [0, 1] [T 12.2]."""
        a, b = aligned(self, other)
        ca, cb = a.centre[:, None], b.centre[:, None]
        centre, terms = a.centre * b.centre, ca * b.terms + cb * a.terms
        same, count = a.terms * b.terms, a.terms.shape[1]  # (B, K, *S)
        half, shared = same.sum(axis=1) / 2, np.abs(same).sum(axis=1)
        crossed = left_open(a.radius * b.radius, shared, count)
        if 0 < same.size <= MOST_ENTRIES:
            first, second = (x.arranged(lambda array: array[..., None, None]) for x in (a, b))
            sizes = np.stack([half, shared, crossed])[..., None, None]
            half, crossed = (each[..., 0, 0] for each in _by_squares(first, second, *sizes))
        centre = centre + half
        slack = np.abs(a.centre) * b.slack + np.abs(b.centre) * a.slack + crossed
        slack = slack + (count + 2 * SPARE) * ULP * a.size * b.size + (count + SPARE) * SMALLEST
        ends = [multiply(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        lo = np.minimum.reduce([low for low, _ in ends])
        return made(centre, terms, rounded_up(slack, count + SPARE), lo, np.maximum.reduce([high for _, high in ends]))


def left_open(products: Floats, shared: Floats, count: int) -> Floats:
    """What is left of a product of deviations when half of the squares of symbols is in the centre [T 12.2].

    `products` bounds it as a whole; `shared`, computed in `count` roundings and a few, is the sum of |a_k b_k|.
    """
    return np.maximum(rounded_up(products, SPARE) - shared * (0.5 - (count + SPARE) * ULP), 0.0)


def made(centre: Floats, terms: Floats, slack: Floats, lo: Floats, hi: Floats) -> Form:
    """A form whose ends are the closer ones of [lo, hi] and of what the form says; nothing where it is not known."""
    known = np.isfinite(centre) & np.isfinite(slack) & np.isfinite(terms).all(axis=1)
    if not known.all():
        centre, slack = np.where(known, centre, 0.0), np.where(known, slack, np.inf)
        terms = np.where(known[:, None], terms, 0.0)
    lo, hi = np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)
    radius = rounded_up(np.abs(terms).sum(axis=1) + slack, terms.shape[1] + 1)
    with np.errstate(invalid="ignore"):
        low, high = below(centre - radius), above(centre + radius)
    exact = radius == 0
    low, high = np.where(exact, centre, low), np.where(exact, centre, high)
    lo, hi = np.maximum(lo, low), np.minimum(hi, high)
    with np.errstate(invalid="ignore", over="ignore"):
        middle = lo / 2 + hi / 2
        half = np.maximum(add_up(hi, -middle), add_up(middle, -lo))
    closer = half * FORGOTTEN < radius  # the ends say much more than the form does
    if closer.any():
        centre, slack = np.where(closer, middle, centre), np.where(closer, half, slack)
        terms = np.where(closer[:, None], 0.0, terms)
    return Form(centre, terms, slack, lo, hi)


def of_box(lo: Floats, hi: Floats, symbols: Symbols | None = None) -> Form:
    """The coordinates of boxes (B, D) as forms, one symbol each; without symbols where there would be too many."""
    centre = np.clip(lo / 2 + hi / 2, lo, hi)
    radius = np.maximum(add_up(hi, -centre), add_up(centre, -lo))  # (B, D)
    if symbols is not None and lo.shape[1] > symbols.most:
        return Form(centre, np.zeros((len(lo), 0, lo.shape[1])), radius, lo, hi)
    if symbols is not None:
        symbols.count = lo.shape[1]
    return Form(centre, radius[:, :, None] * np.eye(lo.shape[1]), np.zeros_like(centre), lo, hi)


def constant(value: Floats, rows: int) -> Form:
    """Numbers that do not depend on the input: (*S) -> a form on so many boxes."""
    array = np.broadcast_to(value, (rows, *value.shape))
    return Form(array, np.zeros((rows, 0, *value.shape)), np.zeros_like(array), array, array)


def padded(form: Form, count: int) -> Form:
    """The same with at least so many symbols."""
    missing = count - form.terms.shape[1]
    if missing <= 0:
        return form
    zeros = np.zeros((len(form.centre), missing, *form.shape))
    return replace(form, terms=np.concatenate([form.terms, zeros], axis=1))


def aligned(a: Form, b: Form) -> tuple[Form, Form]:
    """Two forms with as many symbols and axes; shapes are aligned on the right, as NumPy does."""
    count, axes = max(a.terms.shape[1], b.terms.shape[1]), max(len(a.shape), len(b.shape))
    return with_axes(padded(a, count), axes), with_axes(padded(b, count), axes)


def with_axes(form: Form, axes: int) -> Form:
    """A form with at least so many axes behind the batch."""
    missing = axes - len(form.shape)
    if missing <= 0:
        return form
    return form.arranged(lambda array: array.reshape(len(array), *(1,) * missing, *array.shape[1:]))


def scaled(form: Form, factor: Floats, by: Floats) -> Form:
    """`factor x + by`, element by element; both have the batch axis, (B, *S) or (1, *S)."""
    form = with_axes(form, max(factor.ndim, by.ndim) - 1)
    factor, by = (np.expand_dims(each, tuple(range(1, form.centre.ndim - each.ndim + 1))) for each in (factor, by))
    sizes = np.abs(factor)
    with np.errstate(invalid="ignore", over="ignore"):
        slack = sizes * form.slack + 4 * ULP * (sizes * form.size + np.abs(by)) + SPARE * SMALLEST
        exact = np.broadcast_to((sizes == 1) & (by == 0), slack.shape)
        slack = np.where(exact, form.slack, rounded_up(slack, SPARE))
    ends = [multiply(*np.broadcast_arrays(end, factor)) for end in (form.lo, form.hi)]
    lo, hi = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
    return made(form.centre * factor + by, form.terms * factor[:, None], slack, add_down(lo, by), add_up(hi, by))


def linear(form: Form, weight: Floats, bias: Floats) -> Form:
    """`x weight + bias` on the last axis: (..., d) -> (..., m) [T 12.1]."""
    sizes, count = np.abs(weight), len(weight) + SPARE
    slack = dot_up(form.slack, sizes) + count * ULP * (dot_up(form.size, sizes) + np.abs(bias))
    slack = rounded_up(slack + count * (form.terms.shape[1] + 1) * SMALLEST, SPARE)
    lo, hi = _range_of_product(form, weight, bias)
    return made(form.centre @ weight + bias, form.terms @ weight, slack, lo, hi)


def _range_of_product(form: Form, weight: Floats, bias: Floats) -> tuple[Floats, Floats]:
    """Ends of `x weight + bias` for x in [lo, hi], by midpoint and radius."""
    sizes, count = np.abs(weight), len(weight) + SPARE
    with np.errstate(invalid="ignore", over="ignore"):
        mid = np.clip(form.lo / 2 + form.hi / 2, form.lo, form.hi)
        radius = np.maximum(add_up(form.hi, -mid), add_up(mid, -form.lo))
        centre = mid @ weight + bias
        reach = dot_up(radius, sizes) + count * ULP * (dot_up(np.abs(mid), sizes) + np.abs(bias))
        reach = rounded_up(reach + count * SMALLEST, SPARE)
        return below(centre - reach), above(centre + reach)


def product(a: Form, b: Form) -> Form:
    """Products of matrices in the last two axes; the axes before are aligned [T 12.2]."""
    a, b = aligned(a, b)
    ca, cb, count = a.centre[:, None], b.centre[:, None], a.terms.shape[1]
    inner = a.shape[-1] + SPARE
    centre, terms = a.centre @ b.centre, ca @ b.terms + a.terms @ cb
    half, shared = np.zeros_like(centre), np.zeros_like(centre)
    for first, second in zip(np.moveaxis(a.terms, 1, 0), np.moveaxis(b.terms, 1, 0), strict=True):
        if first.any() and second.any():
            half, shared = half + (first @ second) / 2, shared + np.abs(first) @ np.abs(second)
    crossed = left_open(dot_up(a.radius, b.radius), shared, count + inner)
    if 0 < crossed.size * count * a.shape[-1] <= MOST_ENTRIES:
        half, crossed = _by_squares(a, b, half, shared, crossed)
    centre = centre + half
    slack = dot_up(np.abs(a.centre), b.slack) + dot_up(a.slack, np.abs(b.centre)) + crossed
    slack = slack + (count + 2 * inner) * ULP * dot_up(a.size, b.size) + (count + 1) * inner * SMALLEST
    lo, hi = _range_of_matrices(a, b)
    return made(centre, terms, rounded_up(slack, count + inner), lo, hi)


def _by_squares(a: Form, b: Form, half: Floats, shared: Floats, crossed: Floats) -> tuple[Floats, Floats]:
    """The middle of the products of deviations of matrices, and how far they may be from it.

    By sizes they are within `crossed` of `half`, that of the squares of symbols; two squares bound them too [T 12.2].
    """
    count = a.terms.shape[1] + a.shape[-1] + SPARE
    low, high = sums_of_products(a.terms, b.terms)
    own = dot_up(a.slack, b.radius) + dot_up(a.spread, b.slack)
    lost = rounded_up(2 * count * ULP * shared + count * SMALLEST + own, count)  # by rounding the half; slacks
    low, high = (add(add(end, -half), part) for add, end, part in ((add_down, low, -lost), (add_up, high, lost)))
    low, high = np.maximum(low, -crossed), np.minimum(high, crossed)
    closer = np.isfinite(low) & np.isfinite(high) & (low <= high)
    middle = np.where(closer, low / 2 + high / 2, 0.0)
    open_ = np.where(closer, np.maximum(add_up(high, -middle), add_up(middle, -low)), crossed)
    total = half + middle
    return total, rounded_up(open_ + ULP * np.abs(total), 2)


def _range_of_matrices(a: Form, b: Form) -> tuple[Floats, Floats]:
    """Ends of products of matrices known within [lo, hi], by midpoints and radii."""
    with np.errstate(invalid="ignore", over="ignore"):
        mids = [np.clip(each.lo / 2 + each.hi / 2, each.lo, each.hi) for each in (a, b)]
        radii = [np.maximum(add_up(x.hi, -mid), add_up(mid, -x.lo)) for x, mid in zip((a, b), mids, strict=True)]
        sizes, inner = [np.abs(mid) for mid in mids], a.shape[-1] + SPARE
        centre = mids[0] @ mids[1]
        reach = dot_up(sizes[0], radii[1]) + dot_up(radii[0], above(sizes[1] + radii[1]))
        reach = rounded_up(reach + inner * ULP * dot_up(sizes[0], sizes[1]) + inner * SMALLEST, SPARE)
        return below(centre - reach), above(centre + reach)


def promoted(form: Form, symbols: Symbols) -> Form:
    """The same with the slack in symbols, where it is more than the rounding of a few sums."""
    worth = form.slack > PROMOTED * form.size
    if not worth.any():
        return form
    return opened(replace(form, slack=np.where(worth, 0.0, form.slack)), np.where(worth, form.slack, 0.0), symbols)


def relaxed(form: Form, slope: Floats, offset: Floats, off: Floats, lo: Floats, hi: Floats, symbols: Symbols) -> Form:
    """Values within `off` of `slope x + offset` and in [lo, hi], (B, *S) each; what is left open gets symbols."""
    line = scaled(form, slope, offset)
    return opened(replace(line, lo=lo, hi=hi), off, symbols)


def opened(form: Form, off: Floats, symbols: Symbols) -> Form:
    """A form whose numbers may be off by `off` besides, in new symbols: the largest first, as many as there may be.

    The ends of the form stay as they are: they must hold already.
    """
    rows, flat = len(off), off.reshape(len(off), -1)  # (B, n)
    room = max(symbols.most - symbols.count, 0)
    wanted = int((np.isfinite(flat) & (flat > 0)).sum(axis=1).max(initial=0))
    new = min(room, wanted)
    if not new:
        return made(form.centre, form.terms, rounded_up(form.slack + off, 1), form.lo, form.hi)
    finite = np.where(np.isfinite(flat), flat, -1.0)
    order = np.argsort(-finite, axis=1, kind="stable")[:, :new]  # (B, new)
    chosen = np.maximum(np.take_along_axis(finite, order, axis=1), 0.0)
    terms = np.zeros((rows, new, flat.shape[1]))
    np.put_along_axis(terms, order[:, :, None], chosen[:, :, None], axis=2)
    rest = flat.copy()
    np.put_along_axis(rest, order, _unchosen(flat, order), axis=1)
    before = padded(form, symbols.count)
    symbols.count += new
    terms = np.concatenate([before.terms, terms.reshape(rows, new, *form.shape)], axis=1)
    slack = rounded_up(form.slack + rest.reshape(off.shape), 1)
    return made(form.centre, terms, slack, form.lo, form.hi)


def _unchosen(flat: Floats, order: npt.NDArray[np.intp]) -> Floats:
    """What stays of the chosen numbers: nothing, or all of it where it is not finite."""
    picked = np.take_along_axis(flat, order, axis=1)
    return np.where(np.isfinite(picked), 0.0, picked)
