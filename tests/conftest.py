"""Compiled cases, made once a run: tests of one case, or of one shared fixture, stay on one worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

import attnfun as af
from attnfun.deadline import Deadline
from cases import CASES, Case
from clocks import patient

settings.register_profile("steady", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests by the case they are about, or by the module whose fixture they share."""
    for item in items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")  # type: ignore[attr-defined]
        fixtures = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
        if isinstance(case, Case):
            item.add_marker(pytest.mark.xdist_group(case.name))
        elif any(fixture[-1].scope == "module" for fixture in fixtures):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session", autouse=True)
def time_limits_are_patient() -> Iterator[None]:
    """Time limits that tests do not set themselves are seconds of computing, many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Deadline.after.__func__, "__defaults__", (patient,))  # type: ignore[attr-defined]
        yield


@pytest.fixture(scope="session")
def compiled():
    """case, dtype, construction -> compiled network."""
    made: dict[tuple[str, str, str], af.Compiled] = {}

    def get(case: Case, dtype: str = "float64", construction: str = "auto") -> af.Compiled:
        key = case.name, dtype, construction
        if key not in made:
            automatic = construction == "auto" and "options" in case.keywords  # options are those of a construction
            made[key] = case.compile(dtype=dtype, construction=case.constructions[0] if automatic else construction)
        return made[key]

    return get


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param
