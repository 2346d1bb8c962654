"""Work on many workers: same answers, whoever dies on the way."""

from __future__ import annotations

import importlib
import math
import random
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import dask.array as da
import numpy as np
import pytest
import torch
from distributed import Client, LocalCluster

import attnfun as af
from attnfun.domains.box import as_box
from attnfun.network import Attention, reference
from attnfun.proofs.provers.boxes import TUNING, bound_error
from attnfun.resources.deadline import Deadline
from attnfun.resources.executors import in_order
from attnfun.targets import as_target
from attnfun.targets.evaluations import AGAIN, Sampling
from attnfun.targets.function_identity import NoIdentity, identity_of
from cases import CASES
from clocks import readings
from workers import FORMULA, POINTS, SQUARE, Deadly, dies_once, gloo_process, simulator


def started(workers: int) -> LocalCluster:
    return LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")


@pytest.fixture(scope="module")
def client():
    with started(2) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def proof():
    """A proof of two thousand boxes, the last round in two chunks."""
    net = af.compile(FORMULA, SQUARE, construction="cross", options={"tokens": 9}, proof=False)
    keywords = {"target": net.certificate.claim.target, "network": net.network, "goal": None}
    return partial(bound_error, **keywords, norm=1.0, most=2 * TUNING.chunk)


@pytest.fixture(scope="module")
def alone(proof):
    return as_words(proof())


def as_words(outcome):
    return outcome.bound, outcome.parts, outcome.found, outcome.boxes, outcome.worst.lo.tolist()


def test_results_come_in_order_and_few_are_under_way():
    begun, most = [], []

    def work(number):
        begun.append(number)
        time.sleep(0.002 * (number % 3))
        return -number

    with ThreadPoolExecutor(4) as threads:
        for done, result in enumerate(in_order(work, range(30), threads, ahead=5)):
            assert result == -done
            most.append(len(begun) - done)
    assert max(most) <= 5
    assert len(begun) == 30


def test_nothing_is_begun_for_a_caller_who_has_left_or_has_no_time():
    begun, gate = [], threading.Event()

    def work(number):
        begun.append(number)
        gate.wait(5)
        return number

    with ThreadPoolExecutor(1) as thread:
        assert list(in_order(work, range(9), thread, deadline=Deadline.after(0.05, time.monotonic))) == []
        gate.set()
    assert len(begun) <= 1
    with ThreadPoolExecutor(1) as thread:
        results = in_order(work, range(100), thread)
        assert next(results) == 0
        results.close()
    assert len(begun) < 50


def test_what_work_raises_is_raised_and_lost_workers_are_named(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        with pytest.raises(ZeroDivisionError):
            list(in_order(partial(divmod, 1), [1, 0], processes))
        with pytest.raises(af.errors.InputError, match="be able to import"):
            list(in_order(lambda number: number, [1], processes))
        with pytest.raises(af.errors.WorkersLost, match=r"BrokenProcessPool.*checkpoint="):
            list(in_order(partial(dies_once, tmp_path / "flag"), range(9), processes))


def test_a_worker_killed_in_the_middle_of_its_chunk_changes_nothing(client, proof, alone, tmp_path):
    target = Deadly(tmp_path / "killed")
    assert as_words(proof(target=target, executor=client.get_executor())) == alone
    assert target.flag.exists()


def test_a_proof_goes_on_when_the_scheduler_is_lost_and_there_is_another(client, proof, alone, tmp_path):
    with started(1) as lost, Client(lost, timeout=2, set_as_default=False) as first:

        def stop(step):
            if step.waiting >= TUNING.chunk // 2:
                lost.close()

        with pytest.raises(af.errors.WorkersLost, match="checkpoint="):
            proof(executor=first.get_executor(), progress=stop, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    rounds = []
    again = proof(executor=client.get_executor(), progress=rounds.append, checkpoint=tmp_path)
    assert as_words(again) == alone
    assert rounds[0].waiting >= TUNING.chunk // 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "keywords"),
    [
        (lambda p: np.sin(3 * p[..., 0]) * p[..., 1], {"eps": 0.4, "construction": "cross"}),
        (simulator, {"eps": 0.5, "lipschitz": 1.5}),
    ],
    ids=["traced", "declared"],
)
def test_compiling_on_a_cluster_gives_the_same_network_and_certificate(target, keywords, client):
    here = af.compile(target, [(-1, 1)] * 2, **keywords)
    there = af.compile(target, [(-1, 1)] * 2, **keywords, executor=client.get_executor())
    assert there.certificate.as_dict() == here.certificate.as_dict()
    assert there.summary().as_dict() == here.summary().as_dict()


def test_a_state_is_never_taken_for_that_of_another_function(tmp_path):
    network = af.compile("x", {"x": (-1, 1)}, construction="cross", options={"tokens": 9}, proof=False).network

    def bound(function, **keywords):
        target = af.compile(function, (-1, 1), 5.0, construction="cross").certificate.claim.target
        return bound_error(target, network, None, checkpoint=tmp_path, **keywords)

    bound(lambda x: x + 0.0, deadline=Deadline(0.0, 0.0))
    assert len(list(tmp_path.iterdir())) == 1
    assert bound(lambda x: x + 4.0).bound > 3.5
    assert bound(lambda x: x + 0.0).bound < 0.5
    assert bound(lambda x: np.where(x < 0, -x, x)).bound > 0.9


def flaky(failures: set[float], points):
    """Fails once at each of some points."""
    for point in points.ravel():
        if point in failures:
            failures.remove(point)
            raise OSError("no answer")
    return np.array([abs(point) for point in points.ravel()])


class Counting:
    """A function that knows how often it was asked, and breaks off for good after so many points."""

    __name__ = "counting"

    def __init__(self, last: float = np.inf, shift: float = 0.0):
        self.points, self.last, self.shift = 0, last, shift

    def __call__(self, points):
        self.points += len(points)
        if self.points > self.last:
            raise KeyboardInterrupt
        return np.array([abs(x) * y + self.shift for x, y in points])


def test_failed_points_are_asked_again_and_named_in_the_end():
    probes = af.Box(-1, 1).sample(3, np.random.default_rng(0)).ravel()
    failures = {-1.0, 1.0, 0.0} - set(probes.tolist())
    net = af.compile(partial(flaky, failures), (-1, 1), 0.1, lipschitz=1.0)
    assert len(failures) < 3
    assert net.certificate.bound <= 0.1

    def fails(points):
        return np.array([1 / 0 if x == 1 else abs(x) for x in points.ravel()])

    with pytest.raises(af.errors.InputError, match=r"value at every point .*at \[1.0\].*ZeroDivisionError"):
        af.compile(fails, (-1, 1), 0.1, lipschitz=1.0)


def test_values_on_disk_survive_a_crash_and_are_not_asked_for_twice(tmp_path):
    keywords = {"domain": [(-1, 1)] * 2, "eps": 0.2, "lipschitz": 1.5}
    plain = af.compile(Counting(), **keywords)
    first, told = Counting(last=300), []
    keywords["cache"] = (tmp_path, "counting-1")  # one that changes while it is called has no identity of its own
    with pytest.raises(KeyboardInterrupt):
        af.compile(first, **keywords)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])  # the last record is cut short
    second = Counting()
    net = af.compile(second, **keywords, progress=told.append)
    assert net.certificate.as_dict() == plain.certificate.as_dict()
    points = plain.summary().figures["evaluations"]
    assert second.points < points + 3 + AGAIN - 150  # what the first run left but for two records; a few to compare
    assert any(step.points > 0 for step in told)
    third = Counting()
    assert af.compile(third, **keywords).certificate.as_dict() == plain.certificate.as_dict()
    assert third.points == 3 + AGAIN
    with pytest.raises(af.errors.InputError, match="the function counting as it is now"):
        af.compile(Counting(shift=1.0), **keywords)


def sampled(function, cache):
    """Values of a black box at 40 points, by way of a cache."""
    target = as_target(function, as_box((-1, 1)), 2.0, Sampling(cache=cache))
    return target.values(np.linspace(-1, 1, 40)[:, None])[:, 0]


def test_two_functions_of_one_name_do_not_share_their_values(tmp_path):
    def shifted_by(shift):
        return lambda p: np.array([abs(x - shift) for x in p.ravel()])

    for shift in (0.0, 0.5, 0.0):
        assert np.array_equal(sampled(shifted_by(shift), tmp_path), np.abs(np.linspace(-1, 1, 40) - shift))
    assert len(list(tmp_path.iterdir())) == 2


def test_several_recorded_values_are_sampled_again(tmp_path):
    """A name is what the user says it is: a function that differs on a half of the domain is found out."""

    def changed(p):
        return np.array([abs(x) + 0.1 * max(x, 0.0) for x in p.ravel()])

    sampled(lambda p: np.array([abs(x) for x in p.ravel()]), (tmp_path, "f"))
    with pytest.raises(af.errors.InputError, match="the function changed as it is now"):
        sampled(changed, (tmp_path, "f"))


@pytest.mark.parametrize("name", ["", "--", 3])
def test_a_name_in_a_cache_must_be_a_text(tmp_path, name):
    with pytest.raises(af.errors.InputError, match="pair of a folder and a name"):
        af.compile(identity_function, (-1, 1), 0.2, lipschitz=1.0, cache=(tmp_path, name))
    assert list(tmp_path.iterdir()) == []


def identity_function(p):
    return np.array([float(x) for x in p.ravel()])


def test_what_cannot_be_compared_between_runs_needs_a_name(tmp_path):
    rng = np.random.default_rng(0)

    def noisy(p):
        return np.array([float(x) for x in p.ravel()]) + 0 * rng.normal()

    with pytest.raises(af.errors.InputError, match=r"noisy uses .*Generator.*cache=\(folder, \"a name\"\)"):
        af.compile(noisy, (-1, 1), 0.2, lipschitz=1.0, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(sampled(noisy, (tmp_path, "noisy"))) == 40


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, p):
        return self.factor * p

    def doubled(self, p):
        return 2 * self.factor * p


def family(factor):
    """Functions that are equal for equal factors and different for others."""

    def inner(p, scale=factor):
        return helper(p) * scale

    def helper(p, *, by=factor):
        return p * by

    numbers = np.array([1.0, factor])
    return [
        lambda p: p * factor,
        lambda p: p * numbers[1],
        inner,
        partial(inner, scale=factor),
        Scaled(factor),
        Scaled(factor).doubled,
        np.vectorize(lambda x: x * factor),
        eval(f"lambda p: p * {factor}"),  # noqa: S307 - a constant in the code
        lambda p: Scaled({"a": (factor, None)}["a"][0])(p),
    ]


def test_functions_are_known_by_all_that_they_are_made_of():
    ones, again, twos = ([identity_of(function) for function in family(factor)] for factor in (1.0, 1.0, 2.0))
    assert ones == again
    assert len({*ones, *twos}) == 2 * len(ones)
    assert identity_of(Scaled.doubled) != identity_of(Scaled.__call__)
    assert identity_of(np.sin) != identity_of(np.cos)
    assert identity_of(math.sin) != identity_of(math.cos)


@pytest.mark.parametrize(
    "thing",
    [
        np.random.default_rng(0),
        np.random.default_rng(0).normal,
        random.Random(0),  # noqa: S311
        random.random,
        torch.zeros(2),
        torch.nn.Linear(1, 1),
        np.frompyfunc(abs, 1, 1),
        np.array([print], dtype=object),
        iter([1]),
    ],
)
def test_hidden_state_has_no_identity(thing):
    with pytest.raises(NoIdentity):
        identity_of(lambda p: thing)


def calls(module, p):
    return module.run(p)


def test_globals_and_modules_are_part_of_a_function(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file, text = tmp_path / "simulated.py", "import aided\nFACTOR = {}\ndef run(p):\n    return FACTOR * p\n"
    found = set()
    for number, (factor, aid) in enumerate([(1, 1), (2, 1), (2, 2), (1, 1)]):
        file.write_text(text.format(factor))
        (tmp_path / "aided.py").write_text(f"AID = {aid}\n")
        for name in ("simulated", "aided"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        module = importlib.import_module("simulated")
        found.add((identity_of(partial(calls, module)), identity_of(module.run)))
        assert len(found) == min(number + 1, 3)
    assert len({direct for _, direct in found}) == 2  # the function itself reads no more than its factor


def test_sampling_ends_at_the_time_limit_and_goes_on_in_another_run(tmp_path):
    def opaque(points):
        return np.array([abs(x) for x in points.ravel()])

    with pytest.raises(af.errors.ToleranceNotMet, match=r"within the time limit.*second run goes on"):
        af.compile(opaque, (-1, 1), 0.001, lipschitz=1.0, cache=tmp_path, time_limit=readings(20))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["wave", "vector", "sequence"])
def test_dask_arrays_are_evaluated_lazily_block_by_block(name, compiled, client):
    net = compiled(next(case for case in CASES if case.name == name))
    shape = (30, 2)
    points = net.domain.unflatten(net.domain.sample(60, np.random.default_rng(0))).reshape(*shape, *net.domain.shape)
    values = net(points)  # compiles the loops, for the workers too
    lazy = net(da.from_array(points, chunks=(7, 2, *[1] * len(net.domain.shape))))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (*shape, *net.output_shape)
    assert lazy.numblocks[0] == 5
    assert lazy.dtype == values.dtype
    assert np.array_equal(client.compute(lazy).result(), values)
    outside = net(da.from_array(points + 100.0), outside="raise")  # no error yet
    with pytest.raises(af.errors.InputError, match="must lie in"):
        outside.compute(scheduler="synchronous")


def test_batches_stream_through_workers_in_order(compiled, client):
    net = compiled(next(case for case in CASES if case.name == "wave"))
    batches = [np.linspace(-1, 1, 10 + k) for k in range(6)]
    given = []
    results = net.stream((given.append(k) or batch for k, batch in enumerate(batches)), executor=client.get_executor())
    assert not given  # nothing is read before somebody wants values
    for values, batch in zip(results, batches, strict=True):
        assert np.array_equal(values, net(batch))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_are_read_by_the_names_of_their_columns(kind, compiled):
    frames = pytest.importorskip(kind)
    points = np.array([[0.25, 0.5], [0.75, 1.0], [0.0, 2.0]])
    columns = {"y": points[:, 1], "other": ["a", "b", "c"], "x": points[:, 0]}
    labels = {"index": [7, 5, 3]} if kind == "pandas" else {}
    frame = frames.DataFrame(columns, **labels)
    scalar = af.compile("x - y", {"x": (0, 1), "y": (0, 2)}, 1e-6)
    vector = compiled(next(case for case in CASES if case.name == "vector"))
    assert isinstance(scalar(frame), frames.Series)
    assert np.array_equal(np.asarray(scalar(frame)), scalar(points))
    assert list(vector(frame).columns) == ["value0", "value1"]
    assert np.array_equal(vector(frame).to_numpy(), vector(points))
    if labels:
        assert list(scalar(frame).index) == list(vector(frame).index) == labels["index"]
    with pytest.raises(af.errors.InputError, match=r"column for each variable: x, y.*without x"):
        scalar(frame[["y", "other"]])
    with pytest.raises(af.errors.InputError, match="real numbers"):
        scalar(frames.DataFrame({"x": ["a"], "y": [1.0]}))


@pytest.fixture(scope="module")
def large():
    """Networks with a bank of about 4300 tokens, many of which count for a query, with and without data tokens."""

    def gentle(layer):
        return replace(layer, query=layer.query / 1024, query_bias=layer.query_bias / 1024)

    def made(construction, dtype="float64"):
        keywords = {"construction": construction, "options": {"tokens": 4300}, "proof": False, "dtype": dtype}
        net = af.compile("[sin(3*x)*y, x - y]", SQUARE, **keywords)
        layers = [gentle(layer) if isinstance(layer, Attention) else layer for layer in net.network.layers]
        return replace(net, network=replace(net.network, layers=tuple(layers)))

    return {"cross": made("cross"), "grid": made("grid"), "float32": made("cross", "float32")}


def doubt(net: af.types.Compiled) -> float:
    """What rounding scores of this size, sums of up to four products, can do to values that spread over 4."""
    return 4 * np.expm1(2 * 8 * np.finfo(net.network.dtype).eps * net.summary().largest_logit)


@pytest.mark.parametrize("name", ["cross", "grid", "float32"])
def test_a_bank_in_shards_gives_the_average_over_the_whole(name, large, client, tmp_path):
    net = large[name]
    net.split(tmp_path, 3)
    assert len(list(tmp_path.iterdir())) == 4
    dense = reference.run(net.network, np.float64(np.float32(POINTS) if name == "float32" else POINTS)[:, None])[:, 0]
    here, there = af.types.Sharded(tmp_path), af.types.Sharded(tmp_path, client.get_executor())
    assert np.abs(here(POINTS) - dense).max() <= doubt(net)
    assert np.array_equal(there(POINTS), here(POINTS))
    assert np.array_equal(np.concatenate(list(there.stream(np.split(POINTS, 5)))), here(POINTS))
    assert here(POINTS[0]).shape == (2,)
    with pytest.raises(af.errors.InputError, match="must lie in"):
        here([3.0, 0.0])


def test_what_cannot_be_split_or_does_not_belong_together_is_refused(large, tmp_path):
    with pytest.raises(af.errors.InputError, match=r"banks of 4096 tokens .*shards=5"):
        large["cross"].split(tmp_path, 5)
    with pytest.raises(af.errors.FileFormatError, match="must exist"):
        af.types.Sharded(tmp_path)
    for folder, name in (("one", "cross"), ("other", "grid")):
        large[name].split(tmp_path / folder, 2)
    (tmp_path / "other" / "shard-1.safetensors").rename(tmp_path / "one" / "shard-1.safetensors")
    with pytest.raises(af.errors.FileFormatError, match="of one network"):
        af.types.Sharded(tmp_path / "one")(POINTS)
    with pytest.raises(af.errors.InputError, match="needs as many processes"):
        af.types.Sharded(tmp_path / "one").to_torch()


def test_two_gloo_processes_evaluate_one_bank(large, tmp_path):
    folders = [tmp_path / name for name in large]
    for folder in folders:
        large[folder.name].split(folder, 2)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        both = [processes.submit(gloo_process, rank, folders, str(tmp_path / "meeting")) for rank in (0, 1)]
        first, second = (future.result(600) for future in both)
    for folder, one, other in zip(folders, first, second, strict=True):
        assert np.array_equal(one, other)
        assert one.dtype == large[folder.name].network.dtype
        assert np.abs(one - af.types.Sharded(folder)(POINTS)).max() <= doubt(large[folder.name])
