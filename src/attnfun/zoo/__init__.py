"""Networks whose mechanism is known exactly, disguised so that it does not show: a benchmark for explanations.

    programs   what is computed: registers, exact values, what happens if one is set
    sites      where registers stand in the residual stream
    truth      carriers, heads, interventions
    specimen   a model and the truth about it
    learners   the same for learners in context
    disguise   changes of the weights that leave the function alone
    answers    questions about a model and their answers, as tables
    catalogue  the models that there are
    folder     all of it as files, with a manifest
    scoring    how right a method's claims are
    baselines  three plain methods

The residual stream itself is `runtime/backends/residual.py`.
"""

from .disguise import DISGUISES, disguise
from .specimen import Specimen, specimen
from .truth import Carrier, Truth

__all__ = ["DISGUISES", "Carrier", "Specimen", "Truth", "disguise", "specimen"]
