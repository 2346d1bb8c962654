r"""A file of records that grows, for values too expensive to lose.

A record is `MARK`, the length of what it holds (8 bytes, little-endian), its hash and the bytes themselves, appended by
one write. A record cut short by a crash fails its hash; reading goes on at the next mark. So a file is never spoilt by
what was being written, and several runs may append to it. Nothing in it is executed or unpickled.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     file = Records(Path(folder) / "values")
...     file.append(b"one"), file.append(b"two")
...     _ = file.path.write_bytes(file.path.read_bytes()[:-1])  # a crash
...     file.append(b"three")
...     list(file)
(None, None)
[b'one', b'three']
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from ..errors import FileFormatError

MARK = b"attnfun\x01"
HASH = 16
"""Bytes of a hash."""
HEAD = len(MARK) + 8 + HASH


class Records:
    """The records of one file, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, data: bytes) -> None:
        """Add a record; it is on the disk when this returns."""
        try:
            with self.path.open("ab", buffering=0) as file:
                file.write(MARK + len(data).to_bytes(8, "little") + _hash(data) + data)
                os.fsync(file.fileno())
        except OSError as reason:
            raise FileFormatError(f"{self.path} must be writable", got=str(reason)) from None

    def __iter__(self) -> Iterator[bytes]:
        """All complete records, in order."""
        whole = self.path.read_bytes() if self.path.exists() else b""
        at = whole.find(MARK)
        while at >= 0:
            begin = at + HEAD
            end = begin + int.from_bytes(whole[at + len(MARK) : begin - HASH], "little")
            data = whole[begin:end]
            complete = end <= len(whole) and whole[begin - HASH : begin] == _hash(data)
            if complete:
                yield data
            at = whole.find(MARK, end if complete else at + 1)


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=HASH).digest()
