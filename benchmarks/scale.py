"""Many workers: ratios for one and two of them, and the cost of 10^9 boxes or 10^12 tokens by constants measured here.

`python benchmarks/scale.py` writes results/scale.md. Needs the extra `dask`. Takes a few minutes.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import dask.config
import numpy as np
from distributed import Client, LocalCluster

import attnfun as af
from attnfun.proofs.checkpoint import TUNING as CHECKPOINT
from attnfun.proofs.provers.boxes import TUNING, bound_error
from attnfun.resources.executors import in_order
from attnfun.runtime.kernels.banks import HeadMemory, Stream
from attnfun.runtime.sharding import merged

RESULTS = Path(__file__).parent / "results" / "scale.md"
POINTS, SLEEP = 128, 0.02
"""Points of the expensive function and the seconds that each takes."""
MOST = 8 * TUNING.batch
"""Boxes after which the proof stops that is shared between workers."""
SETTINGS: dict[str, dict[str, int]] = {
    "Dask as installed": {},
    "memory kept": {"MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**25, "MALLOC_ARENA_MAX": 1},
}
"""Environments of worker processes. Dask's own gives freed memory back at once, and every chunk asks for it again."""


class Clocked(Executor):
    """Does the work at once and knows how long it took: what is left of a proof's time is the coordinator's."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it here."""
        future: Future[Any] = Future()
        began = time.perf_counter()
        future.set_result(fn(*args, **kwargs))
        self.seconds += time.perf_counter() - began
        return future


def proof(most: int) -> Any:
    """A proof in two variables that stops after so many boxes, whatever the workers."""
    square = {"x": (-1, 1), "y": (-1, 1)}
    net = af.compile("abs(x - y)", square, construction="cross", options={"tokens": 9}, proof=False)
    return partial(bound_error, net.certificate.claim.imitated, net.network, None, norm=1.0, most=most)


def expensive(points: np.ndarray) -> np.ndarray:
    """A function that takes its time."""
    time.sleep(SLEEP * len(points))
    return np.abs(points).sum(axis=1)


def sampled(executor: Executor | None) -> np.ndarray:
    """Its values in chunks of four points."""
    chunks = np.random.default_rng(0).uniform(-1, 1, (POINTS // 4, 4, 2))
    return np.concatenate(list(in_order(expensive, chunks, executor)))


def timed(run: Any) -> tuple[float, Any]:
    """Seconds and the result."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def scaling() -> list[str]:
    """One and two worker processes of a Dask cluster beside none."""
    bound = proof(MOST)
    tasks = {
        "proof": (bound, lambda executor: bound(executor=executor), lambda one: (one.bound, one.boxes)),
        f"{POINTS} points of {SLEEP * 1000:.0f} ms each": (partial(sampled, None), sampled, lambda one: one.tolist()),
    }
    lines = ["| work | workers | no workers | 1 worker | 2 workers | 2 over 1 |", "|---|---|---|---|---|---|"]
    alone = {name: timed(here) for name, (here, _, _) in tasks.items()}
    for setting, variables in SETTINGS.items():
        found: dict[str, list[float]] = {name: [] for name in tasks}
        for workers in (1, 2):
            with (
                dask.config.set({f"distributed.nanny.pre-spawn-environ.{key}": to for key, to in variables.items()}),
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
                Client(cluster) as client,
            ):
                for name, (_, there, words) in tasks.items():
                    there(client.get_executor())  # workers import and compile
                    seconds, result = timed(partial(there, client.get_executor()))
                    if words(result) != words(alone[name][1]):
                        raise SystemExit(f"{name}: another result on {workers} workers")
                    found[name].append(seconds)
                    sys.stderr.write(f"{name}, {workers} workers: {seconds:.2f} s, alone {alone[name][0]:.2f} s\n")
        for name, (one, two) in found.items():
            here = alone[name][0]
            ratios = f"{here / one:.2f} | {here / two:.2f} | {one / two:.2f}"
            lines.append(f"| {name} | {setting} | {here:.1f} s | {ratios} |")
    return [
        "## Workers",
        "",
        "Worker processes of one Dask `LocalCluster`; how many times as fast as without workers, second run. Results "
        f"were equal to the last bit in every run. A ratio below 1 is a loss. The proof is of "
        f"{alone['proof'][1].boxes} boxes. The coordinator runs on the same two processors. "
        f"Memory kept: {', '.join(f'{key}={to}' for key, to in SETTINGS['memory kept'].items())}.",
        "",
        *lines,
        "",
    ]


def boxes() -> list[str]:
    """What a proof of 10^9 boxes costs."""
    clock, states = Clocked(), []
    bound = proof(TUNING.batch)
    bound(most=64)  # warm
    seconds, outcome = timed(partial(bound, executor=clock, progress=states.append))
    work, rest = clock.seconds / outcome.boxes, (seconds - clock.seconds) / outcome.boxes
    from attnfun.proofs.rules.boxes import Problem

    size = 8 * Problem(bound.args[0], bound.args[1]).root().numbers
    billion, workers = 1e9, work / rest
    return [
        "## 10⁹ boxes",
        "",
        f"Measured on {outcome.boxes} boxes of a network of 9 tokens in two variables: {1e6 * work:.0f} µs of work "
        f"a box, {1e6 * rest:.1f} µs at the coordinator (choosing, cutting, joining), {size} bytes a waiting box.",
        "",
        "| | |",
        "|---|---|",
        f"| work of 10⁹ boxes | {billion * work / 3600:.0f} processor hours |",
        f"| coordinator, which is one process | {billion * rest / 3600:.1f} hours |",
        f"| workers beyond which it is the limit, what the engine costs not counted | {workers:.0f} |",
        f"| chunks of {TUNING.chunk} boxes | {billion / TUNING.chunk:.1e} |",
        f"| boxes that may wait at a time (`max_boxes`) | {TUNING.max_boxes:.0e}, "
        f"{TUNING.max_boxes * size / 2**20:.0f} MiB |",
        f"| a checkpoint, every {CHECKPOINT.keep_every:.0f} s | 10 bytes a node |",
        "",
        "A larger network costs more work a box, and more bytes for its lists of tokens in play. A proof whose "
        f"frontier exceeds {TUNING.max_boxes:.0e} boxes stops with the bound it has: 10⁹ boxes need a search that "
        "settles boxes as it goes.",
        "",
    ]


def tokens() -> list[str]:
    """What a bank of 10^12 tokens costs."""
    rng, count, asked, shards = np.random.default_rng(0), 2**16, 64, 64
    bank = Stream.of(HeadMemory(rng.normal(size=(count, 3)), np.zeros(count), rng.normal(size=(count, 1))))
    queries = rng.normal(size=(asked, 3))
    bank(queries[:1])  # compiles
    rate = count * asked / min(timed(partial(bank, queries))[0] for _ in range(5))
    parts = [bank(np.repeat(queries, 64, axis=0)[:256]) for _ in range(2)] * (shards // 2)
    merge = min(timed(partial(merged, parts))[0] for _ in range(5)) / (256 * shards)
    trillion, gigabytes = 1e12, 1e12 * 8 * (3 + 1 + 1) / 1e9
    held = 64e9 / (8 * 5)
    machines = trillion / held
    return [
        "## 10¹² tokens",
        "",
        f"Measured: {rate:.1e} tokens times queries a second on one processor (keys of 3 features, dense, float64), "
        f"{1e9 * merge:.0f} ns to merge the answer of one shard to one query.",
        "",
        "| | |",
        "|---|---|",
        f"| the bank, as workers hold it (keys, offsets, values) | {gigabytes:.0f} GB |",
        f"| shards of {held:.1e} tokens (64 GB each) | {machines:.0f} |",
        f"| one query, work | {trillion / rate / 3600:.2f} processor hours |",
        f"| one query, with 32 processors for each 64 GB | {held / (32 * rate):.1f} s |",
        f"| merging one query | {machines * merge * 1e6:.0f} µs |",
        f"| sent for one query | {machines * 8 * 3 / 1e3:.0f} kB out, {machines * 8 * 3 / 1e3:.0f} kB back |",
        "",
        "The limit is reading the bank for each query, not the merge. A bank on a product of axes is another matter: "
        "`net(x)` asks the tokens in its windows only, whatever their number ([fast evaluation](kernels.md)), and "
        "needs no shards until its values outgrow memory.",
    ]


def main() -> None:
    """Write the tables."""
    head = ["# Scale", "", "One run of `python benchmarks/scale.py` on two processors.", ""]
    lines = head
    for section in (boxes, tokens, scaling):
        lines = lines + section()
        RESULTS.write_text("\n".join(lines).rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
