"""Defects that are planted in the real code: generated histories find each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from askance_client.ledger import marked
from askance_client.ledger.marked import MarkedFile
from askance_client.ledger.sqlite import SqliteLedger
from tests.models.test_real_ledger import STEADY, LedgerMachine

SEARCH = settings(STEADY, max_examples=40, report_multiple_bugs=False, phases=[Phase.generate])
Patch = pytest.MonkeyPatch


def raise_no_counter(patch: Patch) -> None:
    settle = MarkedFile._settle

    def careless(self: MarkedFile) -> None:
        marks = self._marks
        self._marks = marks[:1]
        settle(self)
        self._marks = marks

    patch.setattr(MarkedFile, "_settle", careless)


def compare_no_counter(patch: Patch) -> None:
    check = marked._check

    def careless(file: Any, path: Any, name: str, opener: Any, marks: list[Any]) -> None:
        if name == "counter":
            marks.append(opener())
        else:
            check(file, path, name, opener, marks)

    patch.setattr(marked, "_check", careless)


def answer_a_retry_anew(patch: Patch) -> None:
    patch.setattr(SqliteLedger, "_stored", lambda *_: None)
    patch.setattr(SqliteLedger, "_frozen", lambda *_: None)


PLANTED: tuple[Callable[[Patch], None], ...] = (
    raise_no_counter,
    compare_no_counter,
    answer_a_retry_anew,
)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_machine_finds_a_defect_of_the_ledger(
    plant: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011  # an assertion, or what the defect raises
        run_state_machine_as_test(LedgerMachine, settings=SEARCH)
