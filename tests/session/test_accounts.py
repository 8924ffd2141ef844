"""Accounts are charged before anybody is asked, and never past a budget."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from askance.aggregator.session import Accounts, Spending
from askance.client.errors import InvalidParameter, PlanRefused

USERS, BUDGET = 4, 100


def ordinals(*users: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(users, np.int64)


EVERYBODY = ordinals(*range(USERS))


class Charges(RuleBasedStateMachine):
    """Any sequence of charges and reports, beside a model of dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts = Accounts(USERS, BUDGET)
        self.left = dict.fromkeys(range(USERS), BUDGET)

    @rule(members=st.sets(st.integers(0, USERS - 1)), nano_nats=st.integers(0, BUDGET + 1))
    def reserve(self, members: set[int], nano_nats: int) -> None:
        if all(self.left[user] >= nano_nats for user in members):
            self.accounts.reserve(ordinals(*members), nano_nats)
            for user in members:
                self.left[user] -= nano_nats
        else:
            with pytest.raises(PlanRefused, match=f"expected {nano_nats} nano-nats left"):
                self.accounts.reserve(ordinals(*members), nano_nats)

    @rule(user=st.integers(0, USERS - 1), charged=st.integers(0, 50), spent=st.integers(0, 200))
    def confirm(self, user: int, charged: int, spent: int) -> None:
        self.accounts.confirm(user, charged, spent)

    @invariant()
    def nobody_is_past_the_budget_and_nothing_is_given_back(self) -> None:
        assert self.accounts.left(EVERYBODY).tolist() == list(self.left.values())
        assert min(self.left.values()) >= 0
        assert self.accounts.spending().max_asked == BUDGET - min(self.left.values())


TestNoSequencePassesTheBudget = Charges.TestCase


@given(st.integers(0, USERS - 1), st.integers(1, BUDGET))
def test_when_one_cannot_be_charged_nobody_is(poor: int, spent: int) -> None:
    accounts = Accounts(USERS, BUDGET)
    accounts.reserve(ordinals(poor), spent)
    before = accounts.left(EVERYBODY).tolist()
    with pytest.raises(PlanRefused, match=f"found {BUDGET - spent}"):
        accounts.reserve(EVERYBODY, BUDGET - spent + 1)
    assert accounts.left(EVERYBODY).tolist() == before


def test_the_whole_budget_can_be_asked_for_and_then_nothing_more() -> None:
    accounts = Accounts(USERS, BUDGET)
    accounts.reserve(EVERYBODY, BUDGET)
    accounts.reserve(EVERYBODY, 0)
    with pytest.raises(PlanRefused):
        accounts.reserve(ordinals(2), 1)


def test_a_charge_of_nobody_is_none() -> None:
    accounts = Accounts(USERS, BUDGET)
    accounts.reserve(ordinals(), BUDGET + 1)
    assert accounts.spending() == Spending(BUDGET, 0, 0, 0, 0, 0)


def test_a_negative_charge_gives_nothing_back() -> None:
    accounts = Accounts(USERS, BUDGET)
    accounts.reserve(EVERYBODY, 10)
    with pytest.raises(InvalidParameter, match="found -1"):
        accounts.reserve(EVERYBODY, -1)
    assert accounts.left(EVERYBODY).tolist() == [BUDGET - 10] * USERS


@pytest.mark.parametrize("population", [0, -3])
def test_accounts_are_somebody_s(population: int) -> None:
    with pytest.raises(InvalidParameter, match=f"found {population}"):
        Accounts(population, BUDGET)


class TestReconciliation:
    def test_what_devices_say_adds_up(self) -> None:
        accounts = Accounts(USERS, BUDGET)
        accounts.reserve(ordinals(0, 1), 30)
        accounts.confirm(0, 30, 30)
        accounts.reserve(ordinals(0, 1), 20)
        accounts.confirm(0, 20, 50)
        assert accounts.reconciled()
        assert accounts.spending() == Spending(BUDGET, 50, 50, 2, 50, 0)

    def test_in_whatever_order_the_reports_come(self) -> None:
        accounts = Accounts(USERS, BUDGET)
        accounts.reserve(ordinals(0), 50)
        accounts.confirm(0, 20, 50)
        accounts.confirm(0, 30, 30)
        assert accounts.reconciled()
        assert accounts.spending().max_spent == 50

    def test_a_frozen_answer_costs_less_than_was_asked_for(self) -> None:
        accounts = Accounts(USERS, BUDGET)
        accounts.reserve(ordinals(0), 30)
        accounts.confirm(0, 0, 0)
        assert accounts.reconciled()
        assert accounts.left(ordinals(0)).tolist() == [BUDGET - 30]

    def test_a_total_that_is_not_the_sum_of_its_charges_is_noticed(self) -> None:
        """A ledger that was rolled back, or a device that answers twice under one name."""
        accounts = Accounts(USERS, BUDGET)
        accounts.reserve(ordinals(0), 60)
        accounts.confirm(0, 30, 30)
        accounts.confirm(0, 30, 30)
        assert not accounts.reconciled()

    def test_more_than_was_asked_for_is_noticed_and_counted(self) -> None:
        accounts = Accounts(USERS, BUDGET)
        accounts.reserve(EVERYBODY, 30)
        accounts.confirm(1, 31, 31)
        accounts.confirm(2, 30, 30)
        assert not accounts.reconciled()
        assert accounts.spending().overspent == 1
