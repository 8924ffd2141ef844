"""Without Ray there is nothing to test here; with it, one Ray for all."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("ray") is None:
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="Ray is not installed: extra `cluster`"))


@pytest.fixture(scope="session")
def ray_of_three() -> Iterator[None]:
    """Start a Ray with three workers, for all of these tests."""
    from askance_simulation.fleets.cluster import joined

    with joined(3):
        yield
