"""LEARN: statistics done by attention, from examples in the prompt; nothing is trained.

A learner is a network with fixed weights. It reads examples (x_i, y_i) and queries from its prompt, runs an algorithm
of statistics in its layers, and puts out coefficients and predictions. Its weights do not know how many examples there
are.

**Rows** (`prompt.py`). One state row for each feature j (or each coefficient), which holds row j of every matrix
the algorithm needs; a row for each example and each query; padding. State rows and examples stand beside their mirror
images.

**Registers** (`registers.py`). The features of a row, in named groups: x, y, e (which feature a state row stands for),
flags, and what the algorithm computes. Attention adds to registers, affine layers rewrite them.

**Layers** (`layers.py`). All moves between rows are softmax attention:

    centre     x_i <- x_i - mean x                     one head, equal scores
    gather     a_j <- mean_i x_ij v_i                   scores η x_ij: the bilinear read-out (`readout.py`)
    multiply   a_j <- Σ_k A_jk v_k                      scores η A_jk
    predict    z_i <- Σ_j x_ij w_j                      scores η x_ij
    double     (P, V) <- (P, V) + (I - P)(P, V)         a Newton-Schulz step for an inverse: twice the gradient steps
    gate       a_j <- v_j where |u_j| > t_j             scores R (±u_j - t_j): a row and a token that says 0

Scores come from data and matrices of known size, values may have any size, and averages are linear in values.

>>> import attnfun as af
>>> model = af.incontext.Ridge(alpha=0.5).fit([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], [1.0, 2.0, 4.0])
>>> model.predict([[1.0, 1.0]]).round(6)
array([2.333333])
>>> model.network()
Network((any, 15) -> (any, 6), 41 layers, 281 heads, 0 tokens, float64)
"""

from ..errors import MissingExtra

try:
    import sklearn  # noqa: F401
except ImportError:
    raise MissingExtra("scikit-learn", "sklearn") from None

from .classify import LogisticRegression
from .glm import GLM
from .gradient import GradientDescent
from .kernel import KernelRegression
from .linear import Lasso, LinearRegression, Ridge

__all__ = [
    "GLM",
    "GradientDescent",
    "KernelRegression",
    "Lasso",
    "LinearRegression",
    "LogisticRegression",
    "Ridge",
]
