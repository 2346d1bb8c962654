"""RUN, quickly: banks of memory tokens recognised from the weights, and evaluated without reading every token."""

from .allowance import allowance_for
from .evaluators import Evaluator, evaluator
from .gradients import gradient

__all__ = ["Evaluator", "allowance_for", "evaluator", "gradient"]
