"""Generated histories of faults: every report counts once, and no user pays twice.

Histories are generated and shrunk: lost, doubled and delayed messages, crashes, failing disks,
devices that are revoked and forgotten, cancelled studies, collected reports. Findings are kept, by
name, in `test_reproductions`.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.operations import Operation, operations
from tests.faults.people import PARITY, PEOPLE
from tests.faults.runs import happens

# The same ones every time: what is new is looked for in tests/endurance.
STEADY = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
HISTORIES = st.lists(operations(PEOPLE), max_size=25)


@pytest.mark.parametrize("examples", [40, pytest.param(110, marks=pytest.mark.slow)])
def test_one_round(examples: int) -> None:
    @settings(STEADY, max_examples=examples)
    @given(HISTORIES, st.sampled_from([0, 60]), st.sampled_from([0, 4]), st.sampled_from([3, 100]))
    def run(history: list[Operation], deadline_s: int, least: int, life: int) -> None:
        happens(replace(PEOPLE, deadline_s=deadline_s, least_answers=least, life=life), history)

    run()


@settings(STEADY, max_examples=20)
@given(HISTORIES, st.sampled_from([0, 60]))
def test_one_round_on_disk(history: list[Operation], deadline_s: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        happens(replace(PEOPLE, deadline_s=deadline_s), history, Path(folder))


@pytest.mark.parametrize("examples", [15, pytest.param(45, marks=pytest.mark.slow)])
def test_two_rounds(examples: int) -> None:
    @settings(STEADY, max_examples=examples)
    @given(st.lists(operations(PARITY), max_size=40), st.sampled_from([0, 60]))
    def run(history: list[Operation], deadline_s: int) -> None:
        happens(replace(PARITY, deadline_s=deadline_s), history)

    run()
