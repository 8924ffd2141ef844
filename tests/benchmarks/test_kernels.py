"""The benchmark of kernels asks every family, and compares it with coins of equal number."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.mark.parametrize("name", ["predicate", "mean, one bit", "k-ary, 16 cells"])
def test_answers_and_coins_are_counted_alike(
    kernels: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(kernels, "REPEATS", 1)
    told = kernels.measure(name, 1, 1)
    assert told["users"] == 10**6  # the least, from which kernels are used
    assert told["words"] == kernels.CASES[name]().words
    for clock in ("wall", "processor"):
        one = told[clock]
        assert one["ratio"] == pytest.approx(one["answers_per_s"] / one["ceiling_per_s"])


def test_users_of_every_case_answer_its_question(kernels: ModuleType) -> None:
    for name, make in kernels.CASES.items():
        case = make()
        people = kernels.people_of(case, 1000)
        assert people.size == 1000, name
        kernels._round(case, people, 1)  # fails if one does not answer
