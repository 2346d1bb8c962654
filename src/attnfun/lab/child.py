"""The process that does the work: one JSON request a line in, one JSON reply a line out, in limited memory.

A request that fails gets a reply too, with the reason. After one that ran out of memory the process ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from typing import IO

from ..errors import AttnfunError, shown


def limit_memory(size: int) -> None:
    """No more address space than this, where the system can see to it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def serve(requests: IO[str], replies: IO[str]) -> None:
    """Answer requests until there are no more."""
    from .tasks import TASKS

    for line in requests:
        request = json.loads(line)
        try:
            reply = TASKS[request["task"]](**request["arguments"])
        except AttnfunError as error:
            reply = {"error": str(error)}
        except MemoryError:
            reply = {"error": "memory", "ends": True}
        except Exception as error:  # a mistake of ours must not be taken for a limit
            traceback.print_exc()
            reply = {"error": f"this is an internal error of attnfun, please report it: {shown(error)}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        if "ends" in reply:
            return  # the next request gets a fresh process


if __name__ == "__main__":
    limit_memory(int(sys.argv[1]))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no reply
    serve(sys.stdin, out)
