"""Models of three protocols, searched whole within bounds; planted defects are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.models import ledger_model, searches
from tests.models.checker import Operation, PastBounds, Search, explore, told
from tests.models.ledger_model import EQUIVALENT, LEFT_OPEN, LedgerModel
from tests.models.searches import FAMILIES, Family, row_of

PAGE = Path(__file__).parents[2] / "docs" / "explanations" / "models.md"
LONG = ("a command's counter, one copy", "three devices, one process")
"""Bounds of families that are searched within others as well."""
SEARCHES = [
    pytest.param(family, name, marks=[pytest.mark.slow] if name in LONG else [])
    for family in FAMILIES
    for name in family.holds
]
LARGER = [(family, name) for family in FAMILIES for name in family.larger]
DEFECTS = [(family, name) for family in FAMILIES for name in family.planted]


def named(value: Any) -> str:
    return value.name if isinstance(value, Family) else str(value)


def check_holds(family: Family, name: str, bounds: Any) -> None:
    """Search whole, and find the figures on the documentation's page."""
    search = explore(family.make(bounds))
    print(f"{family.name}, {name}: {search}")
    assert search.broken is None, str(search)
    assert row_of(family, name, bounds, search) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("family", "name"), SEARCHES, ids=named)
def test_every_state_keeps_its_promises(family: Family, name: str) -> None:
    check_holds(family, name, family.holds[name])


@pytest.mark.nightly
@pytest.mark.parametrize(("family", "name"), LARGER, ids=named)
def test_every_state_of_larger_bounds_keeps_its_promises(family: Family, name: str) -> None:
    check_holds(family, name, family.larger[name])


@pytest.mark.parametrize(("family", "name"), DEFECTS, ids=named)
def test_a_planted_defect_is_found(family: Family, name: str) -> None:
    search = explore(family.planted[name])
    print(search)
    assert search.broken is not None
    assert replayed(family.planted[name], search.history) == search.broken
    assert f"| {name} |" in PAGE.read_text(encoding="utf-8")


def test_the_program_prints_a_row_for_each_search_and_each_defect_s_history(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`python -m tests.models.searches` with one search; what it finds is held above."""
    name = "no counter, every report arrives, an honest aggregator"
    small = replace(FAMILIES[0], holds={name: FAMILIES[0].holds[name]})
    monkeypatch.setattr(searches, "FAMILIES", (small,))
    monkeypatch.setattr("sys.argv", ["searches"])
    searches.main()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith(f"| ledger | {name} | ")
    assert printed[0] in PAGE.read_text(encoding="utf-8")
    assert len([line for line in printed if line.startswith("left open: ")]) == len(LEFT_OPEN)
    found = {line.split(": ")[1] for line in printed if line.startswith("planted in ledger: ")}
    assert found == set(small.planted)


def replayed(model: Any, history: tuple[Operation, ...]) -> str | None:
    """Return the promise that a history breaks, step by step from the start."""
    state = model.initial
    for operation in history:
        assert model.broken(state) is None
        assert operation in list(model.operations(state))
        state, _ = model.apply(state, operation)
    promise: str | None = model.broken(state)
    return promise


def test_a_defect_is_planted_six_times_or_more_in_each_model() -> None:
    assert all(len(family.planted) >= 6 for family in FAMILIES)


@pytest.mark.parametrize("name", EQUIVALENT)
def test_a_change_without_effect_is_not_taken_for_a_defect(name: str) -> None:
    assert explore(EQUIVALENT[name]).broken is None


@pytest.mark.parametrize("name", LEFT_OPEN)
def test_left_open(name: str) -> None:
    """Mark, echo and a command's counter do not see this, as ADR 22 says."""
    world, promise, steps = LEFT_OPEN[name]
    search = explore(LedgerModel(world, promises=frozenset({promise})))
    print(search)
    assert (search.broken, len(search.history)) == (promise, steps)


def test_every_operation_of_the_ledger_is_tried() -> None:
    search = explore(LedgerModel(ledger_model.World(folder=True, accepts=True, counter="file")))
    assert search.names == {
        "accept a loss",
        "ask",
        "commit",
        "copy the folder",
        "count",
        "crash",
        "deliver",
        "lose",
        "mark",
        "put back the file",
        "put back the folder",
        "send",
        "start",
    }


class Counting:
    """Model that adds 1 or 3 to a number up to 10, and may not reach a forbidden one."""

    initial = 0

    def __init__(self, forbidden: int) -> None:
        self._forbidden = forbidden

    def operations(self, state: int) -> Iterator[Operation]:
        for step in (1, 3):
            if state + step <= 10:
                yield ("add", step)

    def apply(self, state: int, operation: Operation) -> tuple[int, object]:
        step = operation[1]
        assert isinstance(step, int)
        return state + step, None

    def broken(self, state: int) -> str | None:
        return "forbidden" if state == self._forbidden else None


class TestChecker:
    def test_every_state_is_visited_once(self) -> None:
        search = explore(Counting(-1))
        assert search == Search(11, 18, 4, None, (), frozenset({"add"}))
        assert str(search) == "11 states, 18 steps, depth 4: all hold"

    def test_the_first_history_has_the_fewest_steps(self) -> None:
        search = explore(Counting(7))
        assert sorted(map(told, search.history)) == ["add 1", "add 3", "add 3"]
        assert str(search).startswith("forbidden after 3 steps")

    def test_the_initial_state_is_looked_at(self) -> None:
        assert explore(Counting(0)).history == ()
        assert explore(Counting(0)).broken == "forbidden"

    def test_a_search_that_is_not_whole_proves_nothing(self) -> None:
        with pytest.raises(PastBounds, match="more than 5 states"):
            explore(Counting(-1), most_states=5)

    def test_a_search_ends_at_its_deadline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tests.models.checker._CHECKED", 1)
        clock = iter(range(100))
        with pytest.raises(PastBounds, match="6 states in 4 s"):
            explore(Counting(-1), deadline_s=4, now_s=lambda: next(clock))
