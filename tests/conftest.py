"""Compiled cases, made once a run: tests of one case, or of one shared fixture, stay on one worker."""

from __future__ import annotations

import fcntl
import gc
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import attnfun as af
from attnfun.proofs import judging
from attnfun.resources.deadline import Deadline
from cases import BY_CONSTRUCTION, CASES, Case
from clocks import patient

settings.register_profile("steady", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("steady")


KERNELS = Path(af.__file__).parent / "runtime" / "kernels" / "__pycache__"
"""Where numba keeps them."""
NAMES = {case.name: case.name for case in CASES} | {name: case.name for name, case in BY_CONSTRUCTION.items()}
"""Cases by their names and by the constructions that they are the first of."""


def case_of(item: pytest.Item) -> str | None:
    """The name of the case that a test is about, if it is about one."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()  # type: ignore[attr-defined]
    shared = "compiled" in item.fixturenames  # type: ignore[attr-defined]
    for value in given:
        if isinstance(value, Case):
            return value.name
        if shared and isinstance(value, str) and value in NAMES:
            return NAMES[value]
    return None


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in a hook of its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests by the module whose fixture they share, or else by the case they are about."""
    for item in items:
        fixtures = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
        if any(fixture[-1].scope == "module" for fixture in fixtures):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        elif case := case_of(item):
            item.add_marker(pytest.mark.xdist_group(case))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """On a fresh clone workers take turns to import and to compile kernels, so that the second finds it done."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or any(KERNELS.glob("*.nbc")):
        return (yield)
    with (Path(tempfile.gettempdir()) / f"attnfun-{worker['testrunuid']}").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            done = yield
            compile_kernels()
            return done
        finally:
            Path(turn.name).unlink(missing_ok=True)


def compile_kernels() -> None:
    """Run those that most tests need."""
    net = af.compile("[sin(3*x), x*y]", {"x": (-1, 1), "y": (-1, 1)}, 0.5, construction="grid", time_limit=math.inf)
    net([0.5, 0.5])
    circuit = af.compile("abs(x) + exp(x*y)", {"x": (-1, 1), "y": (-1, 1)}, 0.1, construction="circuit")
    circuit([0.5, 0.5])


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def time_limits_are_patient() -> Iterator[None]:
    """Time limits that tests do not set themselves are seconds of computing, many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Deadline.after.__func__, "__defaults__", (patient,))  # type: ignore[attr-defined]
        yield


@pytest.fixture(scope="session", autouse=True)
def few_proofs_are_judged() -> Iterator[None]:
    """The judge is called for the smallest proofs only, unless a test asks for more (`tests/test_judging.py`)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "LEAVES", 4)
        patch.setattr(judging, "BOXES", 16)
        yield


@pytest.fixture(scope="session")
def compiled():
    """case, dtype, construction -> compiled network."""
    made: dict[tuple[str, str, str], af.types.Compiled] = {}

    def get(case: Case, dtype: str = "float64", construction: str = "auto") -> af.types.Compiled:
        key = case.name, dtype, construction
        if key not in made:
            automatic = construction == "auto" and "options" in case.keywords  # options are those of a construction
            made[key] = case.compile(dtype=dtype, construction=case.constructions[0] if automatic else construction)
        return made[key]

    return get


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param
