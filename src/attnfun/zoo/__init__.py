"""Networks whose mechanism is known exactly, disguised so that it does not show: a benchmark for explanations.

programs   what is computed: registers, exact values, what happens if one is set
sites      where registers stand in the residual stream
truth      carriers, heads, interventions
specimen   a model and the truth about it
"""

from .disguise import DISGUISES, disguise
from .specimen import Specimen, specimen
from .truth import Carrier, Truth

__all__ = ["DISGUISES", "Carrier", "Specimen", "Truth", "disguise", "specimen"]
