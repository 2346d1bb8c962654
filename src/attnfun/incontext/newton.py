"""Learners that minimise a convex loss by Newton's method: one network family, chosen by a bank of derivatives."""

from __future__ import annotations

from abc import abstractmethod

from ..network import Network
from . import convex, exact
from .banks import LossBank
from .base import InContextLearner
from .prompt import Prompt
from .report import Report


class NewtonLearner(InContextLearner):
    """The loss is known by its bank: `ψ` and `ψ'` of the linear model's values."""

    @abstractmethod
    def _bank(self, n_outputs: int) -> LossBank:
        """Derivatives of the loss."""

    @property
    def _default_steps(self) -> int:
        return 15

    def _build(self, n_features: int, n_outputs: int, n_steps: int) -> Network:
        return convex.network(n_features, self._bank(n_outputs), self.fit_intercept, n_steps, self.dtype)

    def _report(self, network: Network, prompt: Prompt) -> Report:
        bank = self._bank(len(prompt.units.y))
        place = convex.registers_for(prompt.features, bank, self._steps)
        return exact.follow(network, prompt, place, exact.Newton(exact.Examples(prompt, self.dtype), bank, self._steps))

    def _highest(self, n_outputs: int) -> float:
        return self._bank(n_outputs).highest
