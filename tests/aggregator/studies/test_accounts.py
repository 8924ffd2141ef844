"""Accounts are charged before a request is sent, and never past a budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from askance_aggregator.studies import Accounts, Cohort, Permutation, Spending
from askance_client.errors import InvalidParameter

USERS, BUDGET = 10, 100
ORDER = Permutation(b"seed", USERS)


def users(start: int, stop: int) -> Cohort:
    return Cohort(ORDER, start, stop)


EVERYBODY, NOBODY = users(0, USERS), users(3, 3)
PARTS = (users(0, 4), users(4, 5), users(5, 10))


class Charges(RuleBasedStateMachine):
    """Any sequence of charges and reports, beside a model of dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts = Accounts(USERS, BUDGET)
        self.left = dict.fromkeys(PARTS, BUDGET)
        self.charged: dict[tuple[Cohort, int], int] = {}
        self.spent: dict[tuple[Cohort, int], int] = {}

    @rule(cohort=st.sampled_from(PARTS), nano_nats=st.integers(0, BUDGET + 1))
    def reserve(self, cohort: Cohort, nano_nats: int) -> None:
        if self.left[cohort] >= nano_nats:
            self.accounts.reserve(cohort, nano_nats)
            self.left[cohort] -= nano_nats
        else:
            with pytest.raises(InvalidParameter, match=f"expected {nano_nats} nano-nats left"):
                self.accounts.reserve(cohort, nano_nats)

    @rule(
        cohort=st.sampled_from(PARTS),
        place=st.integers(0, 4),
        charged=st.integers(0, 50),
        spent=st.integers(0, 200),
    )
    def confirm(self, cohort: Cohort, place: int, charged: int, spent: int) -> None:
        user = (cohort, place % cohort.size)
        self.accounts.of(cohort).confirm(user[1], charged, spent)
        self.charged[user] = self.charged.get(user, 0) + charged
        self.spent[user] = max(self.spent.get(user, 0), spent)

    @invariant()
    def nobody_is_past_the_budget_and_nothing_is_given_back(self) -> None:
        assert {cohort: self.accounts.left(cohort) for cohort in PARTS} == self.left
        assert min(self.left.values()) >= 0
        assert self.accounts.spending().max_asked == BUDGET - min(self.left.values())

    @invariant()
    def what_devices_say_is_added_up_a_user(self) -> None:
        asked = {cohort: BUDGET - left for cohort, left in self.left.items()}
        spending = self.accounts.spending()
        assert spending.total_spent == sum(self.spent.values())
        assert spending.max_spent == max(self.spent.values(), default=0)
        assert spending.overspent == sum(
            spent > asked[cohort] for (cohort, _), spent in self.spent.items()
        )
        assert spending.users_asked == sum(cohort.size for cohort in PARTS if asked[cohort])
        assert self.accounts.reconciled() == (self.charged == self.spent and not spending.overspent)


TestNoSequencePassesTheBudget = Charges.TestCase


@given(st.integers(1, BUDGET))
def test_who_cannot_be_charged_is_not(spent: int) -> None:
    accounts = Accounts(USERS, BUDGET)
    accounts.reserve(EVERYBODY, spent)
    with pytest.raises(InvalidParameter, match=f"found {BUDGET - spent}"):
        accounts.reserve(EVERYBODY, BUDGET - spent + 1)
    assert accounts.left(EVERYBODY) == BUDGET - spent


def test_the_whole_budget_can_be_asked_for_and_then_nothing_more() -> None:
    accounts = Accounts(USERS, BUDGET)
    accounts.reserve(EVERYBODY, BUDGET)
    accounts.reserve(EVERYBODY, 0)
    with pytest.raises(InvalidParameter):
        accounts.reserve(EVERYBODY, 1)


def test_a_charge_of_nobody_is_none() -> None:
    accounts = Accounts(USERS, BUDGET)
    accounts.reserve(NOBODY, BUDGET + 1)
    accounts.reserve(EVERYBODY, 0)  # no cohort is in the way of another
    assert accounts.spending() == Spending(BUDGET, 0, 0, 0, 0, 0)


def test_a_negative_charge_gives_nothing_back() -> None:
    accounts = Accounts(USERS, BUDGET)
    accounts.reserve(EVERYBODY, 10)
    with pytest.raises(InvalidParameter, match="found -1"):
        accounts.reserve(EVERYBODY, -1)
    assert accounts.left(EVERYBODY) == BUDGET - 10


@given(
    st.tuples(st.integers(0, USERS), st.integers(0, USERS)).map(sorted),
    st.tuples(st.integers(0, USERS), st.integers(0, USERS)).map(sorted),
)
def test_two_cohorts_of_a_study_are_equal_or_disjoint(one: list[int], other: list[int]) -> None:
    """Therefore one charge per cohort is every user's."""
    accounts = Accounts(USERS, BUDGET)
    accounts.reserve(users(*one), 1)
    first, second = (set(range(*range_)) for range_ in (one, other))
    if first and second and first != second and first & second:
        with pytest.raises(InvalidParameter, match="expected a study's cohorts to be equal or"):
            accounts.reserve(users(*other), 1)
        assert accounts.spending().users_asked == len(first)
    else:
        accounts.reserve(users(*other), 1)
        assert accounts.spending().users_asked == len(first | second)


def test_a_cohort_of_more_users_than_there_are() -> None:
    with pytest.raises(InvalidParameter, match=r"expected cohorts of 4 users, found 4\.\.5"):
        Accounts(4, BUDGET).reserve(PARTS[1], 1)


@pytest.mark.parametrize("population", [0, -3])
def test_accounts_are_somebody_s(population: int) -> None:
    with pytest.raises(InvalidParameter, match=f"found {population}"):
        Accounts(population, BUDGET)


class TestReconciliation:
    def test_what_devices_say_adds_up(self) -> None:
        accounts = Accounts(USERS, BUDGET)
        account = accounts.of(PARTS[0])
        accounts.reserve(PARTS[0], 30)
        account.confirm(0, 30, 30)
        accounts.reserve(PARTS[0], 20)
        account.confirm(0, 20, 50)
        assert accounts.reconciled()
        assert accounts.spending() == Spending(BUDGET, 50, 50, 4, 50, 0)

    def test_in_whatever_order_the_reports_come(self) -> None:
        accounts = Accounts(USERS, BUDGET)
        accounts.reserve(PARTS[1], 50)
        accounts.of(PARTS[1]).confirm(0, 20, 50)
        accounts.of(PARTS[1]).confirm(0, 30, 30)
        assert accounts.reconciled()
        assert accounts.spending().max_spent == 50

    def test_a_frozen_answer_costs_less_than_was_asked_for(self) -> None:
        accounts = Accounts(USERS, BUDGET)
        accounts.reserve(PARTS[1], 30)
        accounts.of(PARTS[1]).confirm(0, 0, 0)
        assert accounts.reconciled()
        assert accounts.left(PARTS[1]) == BUDGET - 30

    def test_a_total_that_is_not_the_sum_of_its_charges_is_noticed(self) -> None:
        """A ledger that was rolled back, or a device that answers twice under one name."""
        accounts = Accounts(USERS, BUDGET)
        accounts.reserve(PARTS[1], 60)
        accounts.of(PARTS[1]).confirm(0, 30, 30)
        accounts.of(PARTS[1]).confirm(0, 30, 30)
        assert not accounts.reconciled()

    def test_more_than_was_asked_for_is_noticed_and_counted(self) -> None:
        accounts = Accounts(USERS, BUDGET)
        accounts.reserve(EVERYBODY, 30)
        accounts.of(EVERYBODY).confirm(1, 31, 31)
        accounts.of(EVERYBODY).confirm(2, 30, 30)
        assert not accounts.reconciled()
        assert accounts.spending().overspent == 1


class TestManyAlike:
    """A report of many alike devices counts as if each had reported."""

    @given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=USERS))
    def test_as_one_by_one(self, said: list[tuple[int, int]]) -> None:
        one_by_one, alike = Accounts(USERS, BUDGET), Accounts(USERS, BUDGET)
        for accounts in (one_by_one, alike):
            accounts.reserve(EVERYBODY, 50)
        for place, (charged, spent) in enumerate(said):
            one_by_one.of(EVERYBODY).confirm(place, charged, spent)
        for charged, spent in set(said):
            alike.of(EVERYBODY).confirm_alike(said.count((charged, spent)), charged, spent)
        assert alike.spending() == one_by_one.spending()
        assert alike.reconciled() == one_by_one.reconciled()

    def test_nobody_is_heard_twice(self) -> None:
        account = Accounts(USERS, BUDGET).of(PARTS[0])
        account.confirm_alike(3, 1, 1)
        account.confirm_alike(1, 2, 2)
        with pytest.raises(InvalidParameter, match="expected each of 4 users to be heard once"):
            account.confirm_alike(1, 1, 1)
