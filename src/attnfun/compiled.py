"""The result of a compilation: a function to call, a certificate to trust, a network to take elsewhere."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from ._version import __version__
from .arguments import as_float, flag, one_of
from .calculus.algebra import Algebra
from .calculus.methods import Calculus
from .constructions import REGISTRY
from .constructions.planner import CHOSEN, Alternative
from .domains import TwoInputs
from .domains.box import OUTSIDE, Box, Outside
from .errors import FileFormatError, InputError, counted
from .look.plots import plot
from .look.report import report
from .network import Network, storage
from .network.fields import Fields, shown
from .proofs import Certificate
from .proofs.rules.parts import RESTRICTED
from .proofs.sizes import largest_numbers
from .proofs.storage import pack, unpack
from .resources.executors import in_order
from .resources.notebook import html_table
from .runtime.backends import files
from .runtime.evaluation import Evaluation
from .runtime.kernels import gradient
from .runtime.sharding import write_shards
from .targets import Status
from .targets.combined import Composed, Stacked
from .targets.expression import Expression
from .targets.settling import distance_beyond

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DERIVATIVE = "derivative"
"""How networks are called that are derivatives of others."""
CELLS = "partition"
"""How networks are called that assign values to the cells of a partition."""
LEARNER = "learner in context"
"""How networks are called that fit a model to the data in a prompt."""
THEOREMS = {
    "affine": "an affine map",
    CELLS: "arXiv 2504.19901 (a head assigns values to the cells of a max-affine partition) [T 1.1]",
    DERIVATIVE: "the derivative of one attention layer, an average over pairs of its tokens [T 13.6]",
    LEARNER: "statistics by attention to examples in the prompt [T 8.1, 8.2]",
    "side by side": "networks side by side, each with its own certificate",
    "composition": "one network of another",
}
"""What networks are that no construction made."""
MADE_OF_PARTS = {Stacked.kind: "side by side", Composed.kind: "composition"}
"""How networks made of others are called, by the kind of their target."""
EVALUATIONS = "evaluations"
"""The figure that says how often a black box was called."""
POSITIVE = (math.ulp(0.0), sys.float_info.max)
"""The smallest and the largest finite number > 0."""
LONGEST = 10**15
"""Larger counts are shown as powers of ten."""


@dataclass(frozen=True)
class Summary:
    """The essentials of a compiled network; prints as a table."""

    target: str
    domain: str
    construction: str
    theorem: str
    layers: int
    heads: int
    tokens: int
    parameters: int
    largest_logit: float
    largest_value: float
    dtype: str
    eps: float | None
    bound: float
    status: str
    largest_error_found: float
    beyond: str | None
    """What is proved beyond the domain, where points outside it are clipped to it."""
    a_priori_bound: float | None
    """The theorem's bound, with exact weights in exact arithmetic; None where it has an estimate only."""
    a_priori_estimate: float | None
    """The error that was expected before building, where nothing was proved of it."""
    paper_bound: float | None
    """The bound by the paper's argument for as many tokens, our constants, at the best parameters of the argument; an
    estimate of it where there is an a priori estimate only."""
    paper_tokens: int | None
    """Memory tokens that the paper's argument needs at the same eps."""
    figures: dict[str, float]
    """The construction's own resources: sharpness beta, number of cells, ..."""
    alternatives: tuple[Alternative, ...] = ()
    """What the planner chose from, the choice first, each with its verdict."""

    def as_dict(self) -> dict[str, Any]:
        """The fields as a dict."""
        return asdict(self)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Names and values, in words."""
        fields = {**self.as_dict(), **self.figures}
        del fields["figures"], fields["alternatives"]
        if self.status == Status.ESTIMATED.value:
            fields = {"estimate" if name == "bound" else name: value for name, value in fields.items()}
        known = [(name.replace("_", " "), _shown(value)) for name, value in fields.items() if value is not None]
        known.append(("side by side", self.side_by_side))
        return known + [("considered", str(each)) for each in self.alternatives]

    def __str__(self) -> str:
        return "\n".join(f"{name:>20}  {value}" for name, value in self.rows)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return html_table("Summary", self.rows)

    @property
    def side_by_side(self) -> str:
        """Bounds by the paper's argument and by ours, or estimates, and what was proved, beside the measured error."""
        sampled = "" if self.a_priori_estimate is None else " (estimated)"
        known = [] if self.paper_bound is None else [f"by the paper's argument{sampled} {self.paper_bound:.3g}"]
        if self.a_priori_bound is not None:
            known.append(f"a priori bound {self.a_priori_bound:.3g}")
        if self.a_priori_estimate is not None:
            known.append(f"a priori estimate {self.a_priori_estimate:.3g}")
        known.append(f"{self.status} {self.bound:.3g}")
        return " | ".join([*known, f"measured error {self.largest_error_found:.3g}"])


def _shown(value: object) -> str:
    """Numbers at a readable length."""
    if isinstance(value, int) and value > LONGEST:
        return f"about 10^{len(str(value)) - 1}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, eq=False)
class Compiled(Algebra, Calculus):
    """A function as an attention network.

    Call it like the function it imitates: on points of shape `(..., D)` (or `(..., n, d)`), over any leading axes.
    """

    network: Network
    certificate: Certificate
    construction: str
    eps: float | None
    a_priori: float
    """What the construction says of the error before building, with exact weights in exact arithmetic."""
    paper_tokens: int | None
    outside: Outside = "raise"
    a_priori_proved: bool = False
    """Is `a_priori` a bound that the theorem proves? Otherwise it is an estimate."""
    paper_bound: float | None = None
    figures: dict[str, float] = field(default_factory=dict)
    alternatives: tuple[Alternative, ...] = ()
    """What the planner chose from, the choice first."""
    options: dict[str, Any] = field(default_factory=dict)
    """The options given to the construction; None for what is no number or text and cannot be written down."""

    @property
    def name(self) -> str:
        """The formula, the function's name, or what kind of target it is."""
        return self.certificate.claim.name

    @property
    def theorem(self) -> str:
        """Where the theorem behind the construction is stated."""
        made = self.construction
        return REGISTRY[made].theorem if made in REGISTRY else THEOREMS[made]

    @property
    def domain(self) -> Box:
        """Where the certificate holds."""
        return self.certificate.claim.domain

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one value."""
        return self.certificate.claim.output_shape

    @overload
    def __call__(self, points: Compiled, /) -> Compiled: ...
    @overload
    def __call__(
        self,
        points: npt.ArrayLike | Mapping[str, Any] | None = None,
        second: npt.ArrayLike | None = None,
        /,
        *,
        outside: Outside | None = None,
        **named: Any,
    ) -> npt.NDArray[Any]: ...
    def __call__(
        self,
        points: npt.ArrayLike | Mapping[str, Any] | Compiled | None = None,
        second: npt.ArrayLike | None = None,
        /,
        *,
        outside: Outside | None = None,
        **named: Any,
    ) -> Any:
        """Evaluate the network, in its own dtype. `outside` overrides the rule for points outside the domain.

        Coordinates may be given by name, `net(x=0.1, y=0.2)` or `net({"x": 0.1, "y": 0.2})`, numbers or arrays. A Dask
        array gives a Dask array, evaluated when that is computed. A frame (pandas, polars) is read by the names of its
        columns, those of the domain's axes, and gives a column, or a frame with one for each output. Called on another
        compiled network, it gives the composition of both.

        A network of two inputs takes both, `net(Q, K)` or `net(Q=..., K=...)`, or all coordinates as one array.
        """
        if second is not None:
            if not isinstance(self.domain, TwoInputs):
                by_name = ", ".join(f"{name}=..." for name in self.domain.axes)
                raise InputError(
                    "a second array of points needs a network of two inputs",
                    got=repr(self.domain),
                    remedy=f"Write all coordinates as one array, or net({by_name}).",
                )
            points = self.domain.joined(points, second)  # type: ignore[arg-type]
        if named or points is None or isinstance(points, Mapping):
            if points is not None and named:
                raise InputError("points must be given by place or by name, not both", got=", ".join(named))
            points = self.domain.named(named if points is None else points)  # type: ignore[arg-type]
        if isinstance(points, Compiled):
            return self.after(points)
        return self._evaluation(outside)(points)

    def stream(
        self, batches: Iterable[Any], *, executor: Executor | None = None, outside: Outside | None = None
    ) -> Iterator[npt.NDArray[Any]]:
        """Values batch by batch, in order, here or by the workers of an executor; few batches are held at a time.

        >>> import attnfun as af
        >>> net = af.compile("x**2", domain={"x": (0, 1)}, eps=1e-6)
        >>> sum(float(values.sum()) for values in net.stream(np.full(1000, 0.5) for _ in range(10))).__round__(2)
        2500.0
        """
        return in_order(self._evaluation(outside), batches, executor)

    def split(self, folder: str | os.PathLike[str], shards: int) -> None:
        """Write the network, its large banks in shards, for `af.types.Sharded`; no process holds them all."""
        write_shards(self._evaluation(None), Path(folder), shards)

    def _evaluation(self, outside: Outside | None) -> Evaluation:
        rule = self.outside if outside is None else outside
        return Evaluation(self.network, self.domain, self.output_shape, rule, self.certificate.allowance)

    def grad(self, points: npt.ArrayLike, *, outside: Outside | None = None) -> npt.NDArray[Any]:
        """The network's exact derivatives by its inputs: leading axes, then one value's shape, then one point's.

        >>> import attnfun as af
        >>> net = af.compile("x**2*y", domain={"x": (0, 1), "y": (0, 1)}, eps=1e-6)
        >>> net.grad([0.5, 0.25]).round(3)
        array([0.25, 0.25])
        """
        evaluation = self._evaluation(outside)
        rows, lead = evaluation.rows(points)
        slopes = gradient(evaluation.run, rows.reshape(len(rows), *self.network.shape_in))
        result = slopes.reshape((*lead, *self.output_shape, *np.shape(points)[len(lead) :]))
        return result if result.ndim else result[()]

    def beyond(self, low: float = -math.inf, high: float = math.inf) -> float:
        """A bound on the error for all real x from `low` to `high`, where points outside the domain are clipped to it.

        It is the bound of the certificate, plus one on how far the target is from its value at an end of the domain
        beyond that end [T 9.13]. Exported networks do not clip.

        >>> import attnfun as af
        >>> net = af.compile("atan(x)", domain={"x": (-math.inf, math.inf)}, eps=0.1)
        >>> bool(net.beyond() <= 0.1), bool(abs(net(1e300) - math.pi / 2) <= 0.1)
        (True, True)
        """
        low, high = as_float(low, -math.inf), as_float(high, math.inf)
        if not low <= high:
            raise InputError("the ends must be numbers with low <= high", got=f"({low:g}, {high:g})")
        target, clips = self.certificate.claim.target, self.outside == "clip"
        if not isinstance(target, Expression) or self.domain.size != 1 or not (clips and self.certificate.proved):
            raise InputError(
                'a bound beyond the domain needs a formula in one variable, a proof and outside="clip"',
                got=f"{self.domain!r}, {self.certificate.status.value}, outside={self.outside!r}",
            )
        return math.nextafter(self.certificate.bound + distance_beyond(target, low, high), math.inf)

    def _beyond(self) -> str | None:
        """The largest part of the line on which there is a bound beyond the domain, in words."""
        if self.outside != "clip" or self.domain.size != 1:
            return None
        low, high = (float(end.item()) for end in (self.domain.lo, self.domain.hi))
        parts = {
            "for every real x": (-math.inf, math.inf),
            f"for x >= {low:g}": (low, math.inf),
            f"for x <= {high:g}": (-math.inf, high),
        }
        try:
            bounds = {words: self.beyond(*ends) for words, ends in parts.items()}
        except InputError:
            return None
        known = [f"error <= {bound:.6g} {words}" for words, bound in bounds.items() if bound < math.inf]
        return known[0] if known else None

    def summary(self) -> Summary:
        """What was built, how large it is, and what is known about its error."""
        logit, value = largest_numbers(self.network, self.domain)
        return Summary(
            target=self.name,
            domain=repr(self.domain),
            construction=self.construction,
            theorem=self.theorem,
            layers=len(self.network.layers),
            heads=self.network.heads,
            tokens=self.network.tokens,
            parameters=self.network.parameters,
            largest_logit=logit,
            largest_value=value,
            dtype=self.network.dtype,
            eps=self.eps,
            bound=self.certificate.bound,
            status=self.certificate.status.value,
            largest_error_found=self.certificate.found,
            beyond=self._beyond(),
            a_priori_bound=self.a_priori if self.a_priori_proved else None,
            a_priori_estimate=None if self.a_priori_proved else self.a_priori,
            paper_bound=self.paper_bound,
            paper_tokens=self.paper_tokens,
            figures=self.figures,
            alternatives=self.alternatives,
        )

    def to_torch(self) -> Any:
        """A plain `torch.nn.Module` around stock `nn.MultiheadAttention` and `nn.Linear`."""
        from .runtime.backends.torch import to_torch

        return to_torch(self.network, *self._shapes)

    def to_jax(self) -> Any:
        """A pure JAX function `apply(weights, points)` and its weights, a pytree: `apply, weights = net.to_jax()`."""
        from .runtime.backends.jax import to_jax

        return to_jax(self.network, *self._shapes)

    def to_transformer_lens(self) -> Any:
        """An attention-only `TransformerBridge` of TransformerLens 4, with a map of its tokens, features and heads.

        `lens = net.to_transformer_lens()` can be called on points; `lens.run_with_cache(points)` gives the cache too.
        """
        from .runtime.backends.lens import to_transformer_lens

        return to_transformer_lens(self.network, *self._shapes)

    def to_huggingface(self) -> Any:
        """A Hugging Face `PreTrainedModel` of stock parts; its configuration carries the certificate.

        `model(points).logits` are the values, `model.save_pretrained(folder)` writes safetensors and JSON.
        """
        from .runtime.backends.huggingface import to_huggingface

        return to_huggingface(self.network, *self._shapes, known=self._known())

    def to_onnx(self, path: str | os.PathLike[str], attention: str = "decomposed") -> None:
        """Write an ONNX model of standard operators, "points" (batch, ...) to "values" (batch, ...).

        A model of two inputs has them both, by their names.

        `attention` is "decomposed", into operators that every runtime knows, or "operator", the standard `Attention` of
        opset 23. Domain and certificate are in its metadata. It does not check that points lie in the domain.
        """
        from .runtime.backends.onnx import to_onnx

        known = {name: text if isinstance(text, str) else json.dumps(text) for name, text in self._known().items()}
        names = tuple(self.domain.inputs) if isinstance(self.domain, TwoInputs) and self.network.keyed else ("points",)
        points, values, *second = self._shapes
        model = to_onnx(self.network, points, values, known, attention, *second, names=names)
        storage.write_as(".onnx", path, model.SerializeToString())

    def export(self, path: str | os.PathLike[str], to: str) -> list[Path]:
        """Write the network for a framework; the files written run without attnfun.

        "torch", "jax" and "transformer-lens" take a Python file (`path`, ending in .py) and its weights in a
        safetensors file beside it, "onnx" one file, "huggingface" a folder.
        """
        one_of("to", to, ("onnx", *files.TARGETS, "huggingface"))
        if to == "onnx":
            self.to_onnx(path)
            return [Path(path)]
        if to == "huggingface":
            from .runtime.backends.huggingface import write

            return write(self.to_huggingface(), path)
        return files.write(to, path, self.network, self._shapes, self._known())

    @property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of points and values as exports have them, and of points of the second input if keys are made of it."""
        if isinstance(self.domain, TwoInputs) and self.network.keyed:
            first, second = self.domain.shapes.values()
            return first, self.output_shape, second
        return self.domain.shape, self.output_shape

    def _known(self) -> dict[str, Any]:
        """What an export says about itself."""
        return {
            "attnfun": __version__,
            "variables": list(self.domain.axes),
            "dtype": self.network.dtype,
            "summary": f"{self.certificate.headline}, for {self.domain.where}, in {self.network.dtype}",
            "domain": self.domain.as_dict(),
            "certificate": self.certificate.as_dict(),
        }

    def save(self, path: str | os.PathLike[str], *, proof: bool = True) -> None:
        """Write network, certificate and description to one safetensors file, with the proof unless `proof` is False.

        Without a stored proof, checking the certificate later means searching for one again. The file may have any
        name but one that says it is of another format, as f.onnx would.
        """
        refuse_other_format(path)
        tensors, described = pack(self.certificate, proof=flag("proof", proof))
        description = {
            **described,
            "construction": self.construction,
            "eps": self.eps,
            "a_priori": self.a_priori,
            "a_priori_proved": self.a_priori_proved,
            "paper_bound": self.paper_bound,
            "paper_tokens": self.paper_tokens,
            "figures": self.figures,
            "alternatives": [asdict(each) for each in self.alternatives],
            "options": self.options,
            "outside": self.outside,
        }
        storage.write(path, tensors, description)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        panels: Sequence[str] | None = None,
        at: npt.ArrayLike | None = None,
        output: int = 0,
        style: str = "page",
        ax: Axes | None = None,
    ) -> Figure:
        """A matplotlib figure; saved if `path` is given (png, pdf, svg).

        Panels: `target`, `values`, `error` (beside its bound), `held-out` and `residuals` (of data), `cells`,
        `weights`, `tokens` (attention between the tokens of a sequence), `circuit` and `layers`; those that suit the
        network if not named. Beyond two variables they show lines through the point `at`, by default the centre or a
        point where the network varies more. `output` counts the outputs of a vector or sequence. The style "dark" is
        for dark pages; "talk" draws the function only, in larger type for slides. With `ax`, one
        panel (`values` if not named) is drawn into these axes of a figure of yours.
        """
        return plot(self, path, panels, at, output, style, ax)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML page: certificate, size, interactive pictures, the network running in it."""
        report(self, path)

    def _repr_html_(self) -> str:
        """For notebooks."""
        tokens, parameters = counted(self.network.tokens, "token"), counted(self.network.parameters, "parameter")
        size = f"{self.construction}, {tokens}, {parameters}"
        rows = [("domain", repr(self.domain)), ("network", size), ("arithmetic", self.network.dtype)]
        return html_table(self.name, [*rows, (self.certificate.status.value, self.certificate.headline)])

    def __repr__(self) -> str:
        return (
            f"Compiled({self.name!r} on {self.domain!r}: {self.construction}, {counted(self.network.tokens, 'token')}, "
            f"{self.network.dtype}, {self.certificate.headline})"
        )


OTHER_FORMATS = {
    ".onnx": "net.to_onnx(path)",
    ".py": 'net.export(path, "torch")',
    ".pt": "torch.save(net.to_torch().state_dict(), path)",
    ".pth": "torch.save(net.to_torch().state_dict(), path)",
    ".png": "net.plot(path)",
    ".pdf": "net.plot(path)",
    ".svg": "net.plot(path)",
    ".html": "net.report(path)",
    ".json": "json.dumps(net.certificate.as_dict())",
    ".csv": "",
    ".npz": "",
    ".pkl": "",
}
"""Endings that say another format, and what writes it."""


def refuse_other_format(path: str | os.PathLike[str]) -> None:
    """Refuse to write safetensors under the name of another format."""
    ending = Path(os.fsdecode(path)).suffix.lower() if isinstance(path, str | os.PathLike) else ""
    if ending in OTHER_FORMATS:
        use = OTHER_FORMATS[ending]
        raise InputError(
            f"a saved network is a safetensors file; its name must not end in {ending}",
            got=os.fsdecode(path),
            remedy="Write f.safetensors" + (f", or use {use}." if use else "."),
        )


OLDER_FILES: dict[str, Any] = {
    "a_priori_proved": False,
    "paper_bound": None,
    "figures": {},
    "alternatives": [],
    "options": {},
}
"""What files say that were written before these fields existed."""


def load(path: str | os.PathLike[str]) -> Compiled:
    """Read a file written by `Compiled.save`. Every field is checked, alone and against the others."""
    tensors, data = storage.read(path)
    given = Fields(OLDER_FILES | data)
    try:
        certificate = unpack(tensors, data)
        outside = given.text("outside", OUTSIDE)
        certificate.claim.domain.admit(np.empty((0, certificate.claim.domain.size)), outside)  # type: ignore[arg-type]
        built = _unrestricted(certificate)
        kind = built.claim.description["kind"]
        known = [MADE_OF_PARTS[kind]] if kind in MADE_OF_PARTS else [*REGISTRY, DERIVATIVE, CELLS, LEARNER]
        construction = given.text("construction", known)
        return Compiled(
            network=certificate.claim.network,
            certificate=certificate,
            construction=construction,
            eps=given.optional("eps", lambda all_, name: all_.number(name, *POSITIVE)),
            a_priori=_a_priori(given, construction, built),
            a_priori_proved=_is_bound(given, construction, built),
            paper_bound=given.optional("paper_bound", Fields.number),
            paper_tokens=given.optional("paper_tokens", Fields.whole),
            figures=_figures(given.inner("figures"), construction),
            alternatives=_alternatives(given, construction),
            options=_options(given.inner("options"), construction),
            outside=outside,  # type: ignore[arg-type]
        )
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError) as reason:
        raise FileFormatError(f"{path} must carry a complete description", got=shown(reason)) from None


def _unrestricted(certificate: Certificate) -> Certificate:
    """The certificate of the network as it was built, on its whole domain."""
    restricted = certificate.claim.description["kind"] == RESTRICTED
    return _unrestricted(certificate.claim.parts[0]) if restricted else certificate


def _a_priori(given: Fields, construction: str, built: Certificate) -> float:
    """What was said of the error before building; of networks made of others, the first bound that they had."""
    return given.number("a_priori", 0.0 if construction in REGISTRY else built.bound)


def _is_bound(given: Fields, construction: str, built: Certificate) -> bool:
    """Is that a bound? Of networks made of others if their parts have bounds, otherwise where a theorem proves it."""
    stated, proves = given.flag("a_priori_proved"), built.status is not Status.ESTIMATED
    if construction in REGISTRY:
        proves = built.claim.description["kind"] in REGISTRY[construction].proves
    if stated and not proves:
        raise FileFormatError(
            f"the field a_priori_proved must be false: {construction} has an estimate here", got=stated
        )
    return stated


def _known(given: Fields, names: Collection[str], construction: str) -> list[str]:
    """The names of fields, if the construction has such ones."""
    for name in given:
        if name not in names:
            raise FileFormatError(f"the field {given.place} must have names that {construction} knows", got=shown(name))
    return list(given)


def _figures(given: Fields, construction: str) -> dict[str, float]:
    """Figures that the construction has."""
    names = {EVALUATIONS, *REGISTRY[construction].figures} if construction in REGISTRY else ()
    return {name: given.number(name, -inf) for name in _known(given, names, construction)}


def _alternatives(given: Fields, construction: str) -> tuple[Alternative, ...]:
    """What the planner chose from: the first is the construction at hand, and no other one was chosen."""
    known = tuple(given.each("alternatives", _alternative))
    chosen = [number for number, each in enumerate(known) if each.verdict == CHOSEN]
    if known and (chosen != [0] or known[0].construction != construction):
        raise FileFormatError(f"the field alternatives must begin with {construction}, alone chosen", got=str(known[0]))
    return known


def _alternative(given: Fields, name: str) -> Alternative:
    each = given.inner(name)
    construction, verdict = each.text("construction", REGISTRY), each.text("verdict")
    return Alternative(construction, each.whole("tokens"), each.whole("depth"), verdict)


def _options(given: Fields, construction: str) -> dict[str, Any]:
    """Numbers, truth values, lines of text and null, for the options of a construction."""
    for name in _known(given, REGISTRY[construction].options if construction in REGISTRY else (), construction):
        value = given.data[name]
        if isinstance(value, str):
            given.text(name)
        elif not isinstance(value, bool | None):
            given.number(name, -inf)
    return given.data
