"""What all in-context learners have in common: `fit` stores examples, everything else is one forward pass."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from math import inf, log
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from .._version import __version__
from ..arguments import as_float, flag, whole_number
from ..arithmetic.formats import round_to
from ..compiled import LEARNER, Compiled
from ..domains import Points
from ..errors import InputError, shown
from ..network import Network, storage
from ..proofs.certify import Effort, certify
from ..proofs.claim import Claim
from ..proofs.judging import judged
from ..resources.deadline import TIME_LIMIT, Deadline
from ..runtime.backends.numpy import run
from ..targets import FittedModel
from .precision import precision_of
from .prompt import REACH, Answer, Prompt, stack
from .report import Report

Floats = npt.NDArray[np.float64]
SMALLEST, LARGEST = 1e-50, 1e50
"""Parameters of other sizes leave the floats when they meet the data."""


@dataclass(frozen=True)
class EstimatorTuning:
    """How large networks of estimators get."""

    most_steps: int = 10**4
    """Each step is several layers. A round number."""


TUNING = EstimatorTuning()


def check_number(name: str, value: Any, *, zero: bool, infinite: bool = False) -> None:
    """A parameter must be a positive number, or zero or infinite where that is allowed."""
    number, kind = as_float(value), "a number that is not negative" if zero else "a positive number"
    if not number >= 0 or (number == 0 and not zero) or (number == np.inf and not infinite):
        raise InputError(f"{name} must be {kind}", got=shown(value))
    if 0 < number < np.inf and not SMALLEST <= number <= LARGEST:
        raise InputError(
            f"{name} must be {kind} of a size from {SMALLEST:g} to {LARGEST:g}",
            got=shown(value),
            remedy="Rescale the data.",
        )


class Learner(BaseEstimator):
    """A scikit-learn estimator that is an attention network."""

    dtype: str
    n_features_in_: int
    X_: Floats  # (n, d)
    y_: Floats  # (n, m)
    _many: bool
    """Had y an axis of outputs?"""

    @abstractmethod
    def network(
        self, n_features: int | None = None, n_steps: int | None = None, n_outputs: int | None = None
    ) -> Network:
        """The network, for prompts with any number of rows. Sizes not given are those of the examples kept by `fit`."""

    def to_torch(self) -> Any:
        """The network as a plain `torch.nn.Module` of stock attention, from prompts (B, N, .) to answers (B, N, .)."""
        from ..runtime.backends.torch import prompt_to_torch

        return prompt_to_torch(self.network())

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the network as an ONNX model with any batch and any number of rows, "prompts" to "answers"."""
        from ..runtime.backends.onnx_prompts import to_onnx

        model = to_onnx(self.network(), {"attnfun": __version__, "learner": repr(self)})
        storage.write_as(".onnx", path, model.SerializeToString())

    def _sizes(self, n_features: int | None, n_outputs: int | None) -> tuple[int, int]:
        """Numbers of features and outputs, those of the examples if not given."""
        if n_features is None:
            check_is_fitted(self, "y_")
            n_features = self.n_features_in_
        return n_features, n_outputs or (self.y_.shape[1] if hasattr(self, "y_") else 1)

    def _check_parameters(self) -> None:
        precision_of(self.dtype)


class InContextLearner(Learner):
    """A linear model whose coefficients a fixed attention network computes from the examples in its prompt.

    `fit` checks and keeps the examples. `coef_`, `intercept_` and predictions come from executing `network()` on
    `prompt()`.
    """

    fit_intercept: bool
    n_steps: int | None
    _relief = "Use a stronger penalty, or float64."
    """What helps against a broken bound."""

    @abstractmethod
    def _build(self, n_features: int, n_outputs: int, n_steps: int) -> Network:
        """The network for prompts of this many columns."""

    @abstractmethod
    def _write(self, X: Floats, y: Floats, queries: Floats) -> Prompt:
        """The prompt for examples X (n, d), y (n, m) and queries (k, d)."""

    @property
    @abstractmethod
    def _default_steps(self) -> int:
        """Steps that serve well in the learner's dtype."""

    @property
    def _centres(self) -> bool:
        """Does the network take off the means of the examples?"""
        return self.fit_intercept

    @property
    def _most_steps(self) -> float:
        """Steps beyond which rounding in the learner's dtype takes over."""
        return inf

    def network(
        self, n_features: int | None = None, n_steps: int | None = None, n_outputs: int | None = None
    ) -> Network:
        """The network, for prompts with any number of rows. Sizes not given are those of the examples kept by `fit`."""
        self._check_parameters()
        return self._build(*self._sizes(n_features, n_outputs), n_steps or self._steps)

    def prompt(self, X: npt.ArrayLike, y: npt.ArrayLike, queries: npt.ArrayLike | None = None) -> Prompt:
        """Examples and queries as one sequence; `prompt.rows` is what the network reads."""
        self._check_parameters()
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        points = np.empty((0, X.shape[1])) if queries is None else np.asarray(queries, dtype=np.float64)
        return self._write(X, y.reshape(len(y), -1), points)

    def answer(self, *prompts: Prompt) -> list[Answer]:
        """One forward pass over a batch of prompts, padded to the longest."""
        m, p = len(prompts[0].units.y), prompts[0].features
        network = self.network(p - prompts[0].intercept, n_outputs=m)
        out = run(network, stack(list(prompts))).astype(np.float64)  # (B, N, .)
        answers = [prompt.read(rows) for prompt, rows in zip(prompts, out, strict=True)]
        for prompt, answer in zip(prompts, answers, strict=True):
            self._check_answer(prompt, answer)
        return answers

    def _highest(self, n_outputs: int) -> float:
        """A bound on the linear model at the examples, in the prompt's units, on which the network relies."""
        return inf

    def _check_answer(self, prompt: Prompt, answer: Answer) -> None:
        """Refuse examples that broke a bound; warn, as scikit-learn does, if the last step still changed something."""
        highest = self._highest(len(prompt.units.y))
        found = answer.peaks.max(initial=-inf) + log(prompt.examples) / precision_of(self.dtype).peak[0]
        if not found <= highest:
            raise InputError(
                f"predictions at the examples must stay below {highest:.4g} in every step",
                got=f"up to {found:.4g}",
                remedy=self._relief,
            )
        if not answer.change <= precision_of(self.dtype).settled:
            more = "raise n_steps, " if self._steps < self._most_steps else ""
            warnings.warn(
                f"the last of {self._steps} steps changed coefficients by {answer.change:.1e} of the largest, more "
                f"than {precision_of(self.dtype).settled:g}: {more}use a stronger penalty, or drop collinear features",
                ConvergenceWarning,
                stacklevel=4,
            )

    @abstractmethod
    def _report(self, network: Network, prompt: Prompt) -> Report:
        """How far the iterates of the network are from the exact algorithm's."""

    def report(self) -> Report:
        """How far each step's iterate is from the exact algorithm's, with bounds. It prints as a table and plots."""
        check_is_fitted(self, "y_")
        return self._report(self.network(), self.prompt(self.X_, self.y_))

    @property
    def _offset(self) -> float:
        """What intercepts and values of the linear model are above those of the network."""
        return 0.0

    def _model(self, domain: Points) -> FittedModel:
        """What the coefficients minimise, where a rule of proof knows it."""
        raise InputError(
            "certify() needs a model with a smooth loss, or the lasso",
            got=repr(self),
            remedy="report() compares each step with that of the algorithm.",
        )

    def certify(self, *, time_limit: float = TIME_LIMIT) -> Compiled:
        """The network for the examples kept by `fit`, with a proof of how far its coefficients are off.

        It takes the prompt and gives coefficients in your units, a row for each feature and, with an intercept, a last
        one: the value of the linear model at the mean of the examples. The bound holds for every order of summation;
        `save`, `load` and `certificate.recheck()` are those of every compiled network.

        >>> from attnfun.incontext import Ridge
        >>> net = Ridge(alpha=2.0, n_steps=8).fit([[-1.0], [1.0]], [-4.0, 5.0]).certify()
        >>> net.certificate.proved, net.certificate.bound < 1e-7
        (True, True)
        >>> net(net.domain.points.reshape(net.network.shape_in)).round(6)
        array([[2.25],
               [0.5 ]])
        """
        check_is_fitted(self, "y_")
        network, prompt = self.network(), self.prompt(self.X_, self.y_)
        rows = round_to(prompt.rows, self.dtype)
        layers = *network.layers, prompt.reader(network.width_out, float(round_to(np.array(self._offset), self.dtype)))
        one = Network(layers, len(rows), self.dtype)
        claim = Claim.about(self._model(Points(rows[None])), one)
        certificate = certify(claim, None, effort=Effort(Deadline.of(time_limit)))
        certificate = judged(certificate, Deadline.of(time_limit))
        return Compiled(one, certificate, LEARNER, None, certificate.bound, None, a_priori_proved=True)

    @property
    def _steps(self) -> int:
        return self.n_steps or self._default_steps

    @property
    def coef_(self) -> Floats:
        """Coefficients in the user's units, as the network computes them."""
        return self._shaped(self._learned().coefficients)

    @property
    def intercept_(self) -> Any:
        """The intercept, one for each output."""
        intercept = self._shaped(self._learned().intercept)
        return intercept if np.ndim(intercept) else float(intercept)

    def _keep(self, X: Any, y: Any, **rules: Any) -> tuple[Floats, Any]:
        """Checked examples."""
        self._check_parameters()
        X, y = validate_data(self, X, y, dtype=np.float64, **rules)
        self._answers: dict[str, Answer] = {}
        return X, y

    def _learned(self) -> Answer:
        check_is_fitted(self, "y_")
        if "examples" not in self._answers:
            self._answers["examples"] = self.answer(self.prompt(self.X_, self.y_))[0]
        return self._answers["examples"]

    def _values(self, X: Any) -> Floats:
        """Values of the linear model at points X, (k, m): one forward pass over examples and queries.

        The read-out is made for points within REACH units of the mean. One that is farther away is drawn towards the
        mean by a power of two, and the difference is scaled back: the model is affine.
        """
        check_is_fitted(self, "y_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        middle = self.X_.mean(axis=0) if self._centres else np.zeros(X.shape[1])
        units = self.prompt(self.X_, self.y_).units
        far = np.abs((X - middle) / units.x).max(axis=1) / REACH  # (k,)
        scale = np.exp2(np.ceil(np.log2(np.maximum(far, 1.0))))[:, None]  # (k, 1)
        points = np.concatenate([middle[None], np.where(scale > 1, middle + (X - middle) / scale, X)])
        values = self.answer(self.prompt(self.X_, self.y_, points))[0].values  # (1 + k, m)
        return np.where(scale > 1, values[:1] + scale * (values[1:] - values[:1]), values[1:])

    def _shaped(self, numbers: Floats) -> Floats:
        """Without the axis of outputs, if the user's y had none."""
        return numbers if self._many else numbers[0]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        flag("fit_intercept", self.fit_intercept)
        if self.n_steps is not None:
            whole_number("n_steps, unless it is None,", self.n_steps, 1, TUNING.most_steps)
        if self._steps > self._most_steps:
            raise InputError(f"n_steps must be at most {self._most_steps} in {self.dtype}", got=self._steps)
