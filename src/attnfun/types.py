"""Types of what calls return or tell, for annotations and `isinstance`. Only `Sharded` is made by hand, from a folder.

>>> import attnfun as af
>>> net = af.compile("x", domain={"x": (0, 1)}, eps=0.1)
>>> isinstance(net, af.types.Compiled), isinstance(net.certificate.status, af.types.Status)
(True, True)
"""

from .compiled import Compiled, Summary
from .given.hidden_layer import RectifierNetwork
from .given.initialise import Placement
from .given.partition import Partition
from .proofs import Certificate, Progress
from .runtime.sharding import Sharded
from .targets import Status

__all__ = [
    "Certificate",
    "Compiled",
    "Partition",
    "Placement",
    "Progress",
    "RectifierNetwork",
    "Sharded",
    "Status",
    "Summary",
]
