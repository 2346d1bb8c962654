"""The process that does the work: one JSON request a line in, one JSON reply a line out, in limited memory."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import IO

from ..errors import AttnfunError


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
            break  # the next request gets a fresh process
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    limit_memory(int(sys.argv[1]))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no reply
    serve(sys.stdin, out)
