"""Batches of unequal kinds: users divided by need, cohorts of a few questions, parts of epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import tanh

import pytest

from askance_aggregator.learners import Allocation, Batch, Question
from askance_aggregator.planning import RoundRules, plan_batch, tail_of
from askance_aggregator.planning.plans import RoundPlan
from askance_aggregator.planning.sizing import Divided, Shared, Sizer, balanced, divided
from askance_aggregator.queries import category, predicate
from askance_client.queries import Bit, Category, Schema

NAT = 10**9
BETA = 1e-3
SCHEMA = Schema(
    "s", 1, b=Bit(), few=Category(["x", "y", "z"]), many=Category([str(j) for j in range(1000)])
)


def coin(tau: str | None = "1/20") -> Question:
    return Question(predicate(SCHEMA.b), tau)


def cells(name: str, tau: str | None = None) -> Question:
    return Question(category(SCHEMA[name]), tau)


def tolerances(planned: RoundPlan, questions: list[Question], beta: float) -> list[float]:
    return [
        tail_of(questions[group.question], group.randomizer, group.decode).tolerance(
            group.users, beta
        )
        for group in planned.groups
    ]


@pytest.mark.parametrize("nats", [0.5, 1, 2, 4])
def test_users_of_open_tolerances_are_divided_by_what_each_question_needs(nats: float) -> None:
    """The widest tolerance is less than by equal parts, and 1,000 levels get the most users.

    At 4 nats three levels get fewer than two, for they have the chance of three values.
    """
    questions, beta = [coin(None), cells("few"), cells("many")], 1e-6
    planned = plan_batch(Batch(questions, Allocation.FRESH), int(nats * NAT), beta, 30_000)
    assert planned.users == 30_000
    two, three, thousand = (group.users for group in planned.groups)
    assert two < thousand
    assert (two < three) == (nats < 4)
    assert three < thousand
    equal = max(
        tail_of(question, group.randomizer, group.decode).tolerance(10_000, beta)
        for question, group in zip(questions, planned.groups, strict=True)
    )
    kept = tolerances(planned, questions, beta)
    assert max(kept) < 0.95 * equal
    assert max(kept) < 1.35 * min(kept)  # needs are for 1/20, and here 1/60 to 1/5 is kept


def test_questions_of_one_kind_get_equal_shares() -> None:
    planned = plan_batch(Batch([coin(None)] * 3, Allocation.FRESH), NAT, BETA, 10_001)
    assert [group.users for group in planned.groups] == [3334, 3334, 3333]


@pytest.mark.parametrize("users", [3, 10, 250, 1000])
def test_unequal_shares_never_take_more_users_than_there_are(users: int) -> None:
    """The least of each is kept first, so what equal shares can do is not refused."""
    sizer = Sizer((coin("1/2"), cells("many", "1/50"), coin("1/2")), BETA, RoundRules())
    sections = [Divided(index, (sizer.part(index, NAT),)) for index in range(3)]
    assert sections[1].need > 100 * sections[0].need
    least = users // 3
    shares = divided(users, sections, least)
    assert sum(shares) == users
    assert min(shares) >= max(least, 1)


def test_cohorts_of_four_of_eight_shares_need_the_fewest_users_at_eight_nats() -> None:
    """By the population's variance s of t at eps / s have t / s (e^x + 1)^2 / (e^x - 1)^2.

    At 8 nats that is 8.0, 4.3, 3.4 and 4.7 for s = 1, 2, 4, 8, x = 8 / s.
    """
    planned = plan_batch(Batch([coin()] * 8), 8 * NAT, BETA)
    assert planned.allocation is Allocation.GROUPED
    sizes = {group.cohort: 0 for group in planned.groups}
    for group in planned.groups:
        sizes[group.cohort] += 1
    assert sorted(sizes.values()) == [4, 4]
    assert planned.options[Allocation.GROUPED] == planned.users
    for allocation, together in ((Allocation.FRESH, 1), (Allocation.SPLIT, 8)):
        other = plan_batch(Batch([coin()] * 8, allocation), 8 * NAT, BETA)
        assert planned.options[allocation] == other.users

        def variance(size: int) -> float:
            return 8 / size / tanh(4 / size) ** 2

        assert planned.users / other.users == pytest.approx(
            variance(4) / variance(together), rel=0.02
        )


@pytest.mark.parametrize("nats", [0.5, 1, 2, 2.9])
def test_below_three_nats_no_cohort_of_two_needs_fewer_users(nats: float) -> None:
    """Cohorts are not searched for there."""
    kinds = [coin(), coin("1/5"), cells("few", "1/20"), cells("many", "1/10")]
    sizer = Sizer(kinds, BETA, RoundRules())
    nano = int(nats * NAT)
    for one in range(4):
        for other in range(one):
            apart = sizer.part(one, nano).need + sizer.part(other, nano).need
            together = balanced((other, one), sizer.part, nano)
            assert max(part.need for part in together) > apart


def test_a_cohort_gives_the_harder_question_the_greater_part_of_epsilon() -> None:
    questions = [coin("1/5"), cells("many", "1/20")]
    planned = plan_batch(Batch(questions, Allocation.SPLIT), 6 * NAT, BETA)
    easy, hard = (group.randomizer.loss.nano_nats for group in planned.groups)
    assert easy < 2 * NAT < 4 * NAT < hard
    assert easy + hard <= 6 * NAT
    sizer = Sizer(questions, BETA, RoundRules())
    halves = max(sizer.part(index, 3 * NAT).need for index in (0, 1))
    assert planned.users < 0.85 * halves


def test_no_user_is_asked_for_more_than_the_budget() -> None:
    kinds = [coin(), coin("1/5"), cells("few", "1/20"), cells("many", "1/10"), coin("1/9")]
    for nats in (3, 5, 8, 13):
        planned = plan_batch(Batch(kinds, Allocation.GROUPED), nats * NAT, BETA)
        charges: dict[int, int] = {}
        for group in planned.groups:
            before = charges.get(group.cohort, 0)
            charges[group.cohort] = before + group.randomizer.loss.nano_nats
        assert planned.nano_nats == max(charges.values()) <= nats * NAT
        by_cohort = {group.cohort: group.users for group in planned.groups}
        assert all(group.users == by_cohort[group.cohort] for group in planned.groups)
        assert planned.users == sum(by_cohort.values())


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, *rest = items
    for found in partitions(rest):
        yield [[first], *found]
        for place in range(len(found)):
            yield [*found[:place], [first, *found[place]], *found[place + 1 :]]


@pytest.mark.parametrize("nats", [4, 8])
def test_the_cohorts_are_as_good_as_the_best_partition(nats: int) -> None:
    """By trying all 15 partitions of four unequal questions."""
    kinds = [coin(), coin("1/5"), cells("few", "1/20"), coin("1/30")]
    sizer = Sizer(kinds, BETA, RoundRules())
    nano = nats * NAT

    def users(members: list[int]) -> int:
        if len(members) == 1:
            return sizer.part(members[0], nano).need
        own = tuple(sorted(members))
        return Shared(own, balanced(own, sizer.part, nano), BETA).need

    best = min(sum(map(users, cut)) for cut in partitions(list(range(4))))
    assert best <= plan_batch(Batch(kinds), nano, BETA).users <= 1.02 * best


def test_an_open_question_of_a_cohort_gets_all_users_that_are_left() -> None:
    questions = [coin("1/5"), cells("few"), coin(None), cells("many")]
    planned = plan_batch(Batch(questions, Allocation.GROUPED), 8 * NAT, BETA, 20_000)
    assert planned.users == 20_000
    assert tolerances(planned, questions, BETA)[0] <= Fraction(1, 5)


def test_the_plan_shows_the_ways_it_compared_and_the_share_of_each_kind() -> None:
    shown = plan_batch(Batch([coin()] * 8), 8 * NAT, BETA).to_json()
    assert shown["allocation"] == "grouped"
    assert set(shown["options"]) == {"fresh", "split", "grouped"}
    assert shown["options"]["grouped"] == shown["users"] == min(shown["options"].values())
    (share,) = shown["shares"]
    assert share["groups"] == 8
    assert share["together"] == 4
    assert share["users"] == shown["users"] // 2
    assert share["privacy_loss"] == pytest.approx(2)
