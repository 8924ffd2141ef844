"""A budget over several questions: spent exactly, never passed, and charged before asking."""

from __future__ import annotations

import pytest

import askance as ask
from askance_client.errors import InvalidParameter, PlanRefused


def people() -> ask.Population:
    return ask.Population.generated("categories", users=3_000, cells=4)


def test_a_budget_is_spent_exactly_and_refuses_the_question_too_many() -> None:
    users = people()
    category = users.schema["category"]
    with ask.budget(users, epsilon=1) as budget:
        budget.ask(ask.learners.frequency(category), epsilon="0.4")
        budget.ask(ask.learners.mean(category == "1", missing="default"), epsilon="0.6", name="one")
        assert budget.spent == 1
        assert budget.left == 0
        with pytest.raises(InvalidParameter, match=r"at most 0, .* of 1, got 0\.000000001"):
            budget.ask(ask.learners.frequency(category), epsilon="0.000000001")
    assert list(budget.results) == ["frequency", "one"]
    assert budget["one"].study.epsilon == pytest.approx(0.6)
    assert repr(budget) == "<Budget: 1 of 1 spent on 2 studies>"


def test_even_parts_are_taken_in_turn_and_cannot_be_used_by_others() -> None:
    users = people()
    learner = ask.learners.frequency(users.schema["category"])
    budget = ask.budget(users, epsilon=1, split_evenly_over=3)
    first, second = budget.ask(learner), budget.ask(learner)
    assert first.study.nano_nats == second.study.nano_nats == 333_333_333
    assert first.transcript.digest != second.transcript.digest  # coins of its own
    with pytest.raises(InvalidParameter, match=r"at most 0\.000000001"):
        budget.ask(learner, epsilon="0.1")
    budget.ask(learner)
    assert list(budget.results) == ["frequency", "frequency-2", "frequency-3"]
    with pytest.raises(InvalidParameter, match="no part"):
        budget.ask(learner)


def test_a_study_that_cannot_be_planned_costs_nothing() -> None:
    users = people()
    budget = ask.budget(users, epsilon=1)
    with pytest.raises(PlanRefused):
        budget.ask(ask.learners.frequency(users.schema["category"], tau="0.001"), epsilon="0.5")
    assert budget.left == 1


def test_a_name_is_used_once_and_a_closed_budget_asks_nothing() -> None:
    users = people()
    learner = ask.learners.frequency(users.schema["category"])
    with ask.budget(users, epsilon=2) as budget:
        budget.ask(learner, epsilon=1, name="first")
        with pytest.raises(InvalidParameter, match="'first'"):
            budget.ask(learner, epsilon=1, name="first")
    with pytest.raises(InvalidParameter, match="closed"):
        budget.ask(learner, epsilon=1)
    assert budget.left == 1


def test_a_study_that_fails_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    users = people()
    learner = ask.learners.frequency(users.schema["category"])
    budget = ask.budget(users, epsilon=1)

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("askance.budgets.simulate", fail)
        with pytest.raises(KeyboardInterrupt):
            budget.ask(learner, epsilon="0.75")
    with pytest.raises(InvalidParameter, match=r"at most 0\.25"):
        budget.ask(learner, epsilon="0.75")
    budget.ask(learner, epsilon="0.25")
    assert list(budget.results) == ["frequency-2"]
    assert budget.left == 0


def test_a_name_that_the_caller_chose_is_passed_over() -> None:
    users = people()
    learner = ask.learners.frequency(users.schema["category"])
    budget = ask.budget(users, epsilon=2)
    budget.ask(learner, epsilon="0.5")
    budget.ask(learner, epsilon="0.5", name="frequency-3")
    for _ in range(2):
        budget.ask(learner, epsilon="0.5")
    assert list(budget.results) == ["frequency", "frequency-3", "frequency-2", "frequency-4"]
