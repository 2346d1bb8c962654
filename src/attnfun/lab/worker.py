"""Requests to a process of its own that does the work (`child.py`): it is killed when one takes too long."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from threading import Lock
from typing import IO, Any

from ..errors import AttnfunError

REMEDY = "Choose a larger eps, a smaller domain, or use af.compile in Python."


@dataclass(frozen=True)
class Limits:
    """Seconds and bytes of a request; tokens of a network; letters of a formula and of a domain, and its variables.

    The work itself respects the seconds; its process is killed when the grace is over, too.
    """

    seconds: float = 60.0
    grace: float = 10.0
    memory: int = 4 * 2**30
    tokens: int = 2**16
    letters: int = 2000
    variables: int = 8


class RequestFailed(AttnfunError):
    """A request that was refused, took too long or too much memory; the message is that of the API."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)


class Worker:
    """Sends requests to a child process, which stays warm between requests and is replaced after an accident."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._child: subprocess.Popen[str] | None = None
        self._alone, self._reader = Lock(), ThreadPoolExecutor(1)

    def send(self, task: str, **arguments: Any) -> dict[str, Any]:
        """The reply to a request, one at a time; RequestFailed with the reason if there is none."""
        with self._alone:
            child = self._running()
            line = self._exchange(child, json.dumps({"task": task, "arguments": arguments}))
            if not line:
                late = line is None
                code = self.stop()
                reason = self._too_long if late else f"the process of the lab ended without a reply (exit code {code})"
                raise RequestFailed(f"{reason}. {REMEDY}")
            reply = json.loads(line)
            if "ends" in reply:
                self.stop()
                raise RequestFailed(f"{self._too_much}. {REMEDY}")
        if "error" in reply:
            raise RequestFailed(reply["error"])
        return reply

    @property
    def process(self) -> int | None:
        """The number of the child process, if there is one."""
        return None if self._child is None else self._child.pid

    @property
    def _too_long(self) -> str:
        limits = self.limits
        return f"a request may take {limits.seconds:g} s, and {limits.grace:g} s for its pictures; this one took longer"

    @property
    def _too_much(self) -> str:
        return f"a request may take {self.limits.memory / 2**30:g} GiB of memory; this one needs more"

    def stop(self) -> int | None:
        """End the child process; its exit code, if there was one."""
        if self._child is None:
            return None
        child, self._child = self._child, None
        child.kill()
        child.communicate()
        return child.returncode

    def _running(self) -> subprocess.Popen[str]:
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "attnfun.lab.child", str(self.limits.memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._child

    def _exchange(self, child: subprocess.Popen[str], request: str) -> str | None:
        """The reply as a line; empty if the child died, None if it did not answer in time."""

        def talk(into: IO[str] | None, out: IO[str] | None) -> str:
            if into is None or out is None:
                return ""
            into.write(request + "\n")
            into.flush()
            return out.readline()

        limit = self.limits.seconds + self.limits.grace
        with contextlib.suppress(OSError):
            try:
                return self._reader.submit(talk, child.stdin, child.stdout).result(limit)
            except TookTooLong:
                return None
        return ""
