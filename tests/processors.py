"""The same compiles with other instructions of the processor: what may change, and what must not.

    python tests/processors.py FOLDER OTHER    # as the environment says; JSON on standard output, networks in FOLDER

OpenBLAS and NumPy choose their loops when they are loaded, so every setting takes a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import attnfun as af
from cases import BY_CONSTRUCTION

LOOPS: list[str] = np._core._multiarray_umath.__cpu_dispatch__  # type: ignore[attr-defined]
"""The sets of instructions that NumPy has loops for, ascending."""
FEATURES: dict[str, bool] = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Setting:
    """What OpenBLAS is to take the processor for, what NumPy is not to use, and what the processor must have for it."""

    core: str | None = None
    needs: str | None = None
    without: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        core = {} if self.core is None else {"OPENBLAS_CORETYPE": self.core}
        return core | ({"NPY_DISABLE_CPU_FEATURES": " ".join(self.without)} if self.without else {})

    @property
    def lacking(self) -> str | None:
        """What this processor lacks for it, in words."""
        missing = self.needs or (self.without[0] if self.without else None)
        return f"{self}: the processor has no {missing}" if missing and not FEATURES.get(missing) else None

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.environment.items()) or "as it is"


PLAIN = Setting("Prescott", without=tuple(LOOPS))
"""The plainest loops."""
CORES = {
    "Prescott": "SSE3",
    "Nehalem": "SSE42",
    "Sandybridge": "AVX",
    "Haswell": "AVX2",
    "Zen": "AVX2",
    "SkylakeX": "AVX512F",
}
SETTINGS = (
    Setting(),
    PLAIN,
    Setting("Prescott"),
    *(Setting(core, needs) for core, needs in CORES.items()),
    *(Setting(without=tuple(LOOPS[k:])) for k in range(len(LOOPS))),
)

MORE_TOKENS, LARGER_BOUND = 1.1, 1.5
"""Factors between settings: searches for few tokens go other ways, and stop at the first that will do."""
LARGER_ERROR = 1.01
"""The same for held-out errors of fits to data."""
POINTS = 200


def run(setting: Setting, folder: Path, other: Path) -> dict[str, dict[str, Any]]:
    """Compile everything in a process with this setting; networks go to the folder."""
    done = subprocess.run(
        [sys.executable, __file__, str(folder), str(other)],
        env=os.environ | setting.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{setting}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def compiled(folder: Path, other: Path) -> dict[str, dict[str, Any]]:
    """Compile one case of every construction here; attack its bound and that of the network in the other folder."""
    results, rng = {}, np.random.default_rng(1)
    for name, case in BY_CONSTRUCTION.items():
        net = case.compile(construction=name)
        net.save(folder / f"{name}.safetensors")
        target, rows = net.certificate.claim.target, net.domain.sample(POINTS, rng)  # (B, D)
        beaten = []
        for made in (folder, other) if target.evaluable else ():
            there = af.load(made / f"{name}.safetensors")
            values = np.asarray(there(rows.reshape(-1, *there.domain.shape)), dtype=np.float64)
            error = float(np.abs(values.reshape(POINTS, -1) - target.values(rows)).max())
            if error > there.certificate.bound:
                beaten.append(f"{made.name}: {error} > {there.certificate.bound}")
        results[name] = {
            "status": str(net.certificate.status),
            "tokens": net.network.tokens,
            "bound": net.certificate.bound,
            "beaten": beaten,
        }
    return results


def differences(name: str, one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What two settings do not agree on, in words."""
    factors = {"bound": LARGER_ERROR if name == "regression" else LARGER_BOUND, "tokens": MORE_TOKENS}
    found = [] if one["status"] == other["status"] else [f"{name}: status {one['status']}, {other['status']}"]
    for what, factor in factors.items():
        low, high = sorted((one[what], other[what]))
        if high > factor * low:
            found.append(f"{name}: {what} {one[what]}, {other[what]}")
    return found


def compared(settings: Sequence[Setting]) -> Iterator[tuple[Setting, list[str]]]:
    """Each setting beside the first: what is wrong, in words."""
    with TemporaryDirectory() as place:
        folders = [Path(place, str(k)) for k in range(len(settings))]
        first: dict[str, dict[str, Any]] = {}
        for setting, folder in zip(settings, folders, strict=True):
            folder.mkdir()
            results = run(setting, folder, folders[0])
            first = first or results
            wrong = [f"{name}: {words}" for name, result in results.items() for words in result["beaten"]]
            wrong += [words for name, result in results.items() for words in differences(name, first[name], result)]
            yield setting, wrong


if __name__ == "__main__":
    json.dump(compiled(*(Path(argument) for argument in sys.argv[1:])), sys.stdout)
