"""Means over users who have the number: coverage, planned sizes, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.estimation import (
    estimate,
    influence,
    inverse_scores,
    recorded_question,
)
from askance_aggregator.families import TableFamily, best_for, subset_selection
from askance_aggregator.learners import Answer, Question, SampleMean
from askance_aggregator.oracles.expectations import expectations
from askance_aggregator.planning.precision import tail_of
from askance_aggregator.planning.sizing import Choice, choices, need
from askance_aggregator.queries import among_present, encode_columns, has_missing_level, real
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Integer, QueryKind, Real, Schema
from askance_client.randomizers import COIN_SPACE, Channel

SCHEMA = Schema("incomes", 1, income=Real(0, 1000, frac_bits=0))
NAT = 10**9
BETA = 0.05


def chosen(question: Question, epsilon: float) -> Choice:
    (choice,) = choices(question, round(epsilon * NAT), best_for)
    return choice


def rows(choice: Choice) -> NDArray[np.float64]:
    """Return the table's probabilities, shape (levels, symbols)."""
    assert isinstance(choice.randomizer, Channel)
    return np.array([[entry / COIN_SPACE for entry in row] for row in choice.randomizer.table])


def law(choice: Choice, mean: float, missing: float) -> NDArray[np.float64]:
    """Chance of each symbol, for users at the two ends of the range."""
    table = rows(choice)
    up = (1 - missing) * mean / 1000
    found = table.T @ np.array([1 - missing - up, up, missing])
    return np.asarray(found / found.sum())


def answers(
    question: Question, choice: Choice, users: int, mean: float, missing: float, trials: int
) -> list[Answer]:
    rng = np.random.default_rng(3)
    chances = law(choice, mean, missing)
    return [
        estimate(
            question,
            choice.randomizer,
            rng.multinomial(users, chances),
            users,
            BETA,
            choice.decode,
        )
        for _ in range(trials)
    ]


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize(("epsilon", "users"), [(0.7, 20_000), (9.0, 4_000)])
def test_intervals_cover_mean_and_missing_share_together_and_are_not_too_wide(
    epsilon: float, users: int, missing: float
) -> None:
    """With 80 trials at beta 1/20, 13 misses and more have a chance below 1e-3.

    From the other side, the half width is at most four deviations of the estimate.
    """
    question = Question(among_present(SCHEMA["income"]), 50)
    choice = chosen(question, epsilon)
    found = answers(question, choice, users, 250.0, missing, 80)
    held = [
        each.low <= 250 <= each.high
        and each.present is not None
        and each.present.low <= 1 - missing <= each.present.high
        for each in found
    ]
    assert sum(held) >= 68
    deviation = float(np.std([each.value for each in found]))
    assert abs(float(np.mean([each.value for each in found])) - 250) < deviation / 2
    width = float(np.mean([each.high - each.low for each in found])) / 2
    assert 1.6 * deviation < width < 4 * deviation


def off_by_50(choice: Choice, users: int) -> float:
    """The share of 20,000 trials whose mean is off by 50 or more, of 500; 2 of 5 have no number."""
    assert choice.decode is not None
    counts = np.random.default_rng(3).multinomial(users, law(choice, 500.0, 0.4), 20_000)
    numbers, presences = np.array([float(score) for score in choice.decode]).reshape(2, -1)
    means = 500 * ((counts @ numbers) / (counts @ presences) + 1)
    return float(np.mean(np.abs(means - 500) >= 50))


def test_a_plan_promises_its_tolerance_for_the_share_that_it_was_told() -> None:
    share = Fraction(3, 5)
    question = Question(among_present(SCHEMA["income"]), 50, present=share)
    choice = chosen(question, 2.7)
    users = need(question, choice, BETA)
    assert off_by_50(choice, users) <= 0.05
    assert off_by_50(choice, users // 2) > 0.05


def test_a_tolerance_is_the_least_that_the_users_are_enough_for() -> None:
    question = Question(among_present(SCHEMA["income"]), 50)
    choice = chosen(question, 2.7)
    assert choice.decode is not None
    tail = tail_of(question, choice.randomizer, choice.decode)
    tau = tail.tolerance(2000, BETA)
    assert tail.failure(tau)(2000) <= BETA < tail.failure(tau * 0.998)(2000)
    assert tail.tolerance(1, BETA) == 1000, "one user is enough for no tolerance below the range"
    with pytest.raises(InvalidParameter, match="at least one user, found 0"):
        tail.tolerance(0, BETA)


def test_fewer_users_with_a_number_need_more_users_by_the_inverse_square_at_most() -> None:
    def users(share: str) -> int:
        question = Question(among_present(SCHEMA["income"]), 50, present=share)
        return need(question, chosen(question, 1.0), BETA)

    assert users("1") * 1.3 < users("3/5") < users("1") * 1.05 * 25 / 9


def test_without_a_missing_user_the_cost_is_small_from_two_nats_on() -> None:
    asked, plain = (
        Question(among_present(SCHEMA["income"]), 50),
        Question(real(SCHEMA["income"]), 50),
    )
    least = need(plain, chosen(plain, 2.7), BETA)
    assert least < need(asked, chosen(asked, 2.7), BETA) < 1.5 * least


def test_reports_that_show_no_number_have_the_whole_range_as_interval() -> None:
    question = Question(among_present(SCHEMA["income"]), 50)
    choice = chosen(question, 1.0)
    (answer,) = answers(question, choice, 2000, 0.0, 1.0, 1)
    assert (answer.low, answer.high) == (0.0, 1000.0)
    assert answer.present is not None
    assert answer.present.low == 0.0


def test_a_sample_s_interval_holds_for_the_users_at_hand() -> None:
    question = Question(among_present(SCHEMA["income"], 16), 50, aim=SampleMean())
    choice = chosen(question, 4.0)
    levels = choice.randomizer.levels
    assert levels == 18
    people = np.repeat([2, 9, levels - 1], [600, 900, 500])
    rng = np.random.default_rng(5)
    table = rows(choice)
    step = (question.query.high - question.query.low) / (levels - 1)
    truth = float(np.mean(np.repeat([2, 9], [600, 900]))) * step
    missed = 0
    for _ in range(30):
        counts = np.sum([rng.multinomial((people == k).sum(), table[k]) for k in set(people)], 0)
        answer = estimate(question, choice.randomizer, counts, 2000, BETA, choice.decode)
        missed += not answer.low <= truth <= answer.high
        assert answer.high - answer.low < 120
    assert missed <= 6


def test_one_report_moves_the_mean_by_no_more_than_is_stated() -> None:
    question = Question(among_present(SCHEMA["income"]), 50)
    choice = chosen(question, 1.0)
    chances = law(choice, 400.0, 0.3)
    counts = np.random.default_rng(1).multinomial(1000, chances)
    before = estimate(question, choice.randomizer, counts, 1000, BETA, choice.decode)
    assert before.present is not None
    bound = influence(question, choice.randomizer, 1000, choice.decode, before.present.share)
    assert choice.decode is not None
    numbers, presences = np.array([float(score) for score in choice.decode]).reshape(2, -1)
    sums = counts @ numbers, counts @ presences
    moves = [
        500 * abs((sums[0] + a - c) / (sums[1] + b - d) - sums[0] / sums[1])
        for a, b in zip(numbers, presences, strict=True)
        for c, d in zip(numbers, presences, strict=True)
    ]
    assert 0.3 * float(bound) < max(moves) <= float(bound)


def test_a_table_of_the_study_s_own_design_is_decoded_by_its_inverse() -> None:
    question = Question(among_present(SCHEMA["income"]), 50)
    own = k_ary_table(NAT)
    (choice,) = choices(question, NAT, lambda levels, nano: own)
    assert choice == Choice(own, inverse_scores(TableFamily(own)))
    family = TableFamily(own)
    assert choice.decode is not None
    assert list(family.moved_grid(choice.decode[:3])) == [-1, 1, 0]


def test_a_design_that_is_no_table_leaves_numbers_to_the_designed_table() -> None:
    question = Question(among_present(SCHEMA["income"]), 50)
    (choice,) = choices(question, NAT, subset_selection)
    assert choice == chosen(question, 1.0)


def k_ary_table(nano: int) -> Channel:
    """The k-ary response on three levels, as a table."""
    lie = int(COIN_SPACE / (np.exp(nano / NAT) + 2)) + 1
    truth = COIN_SPACE - 2 * lie
    return Channel(((truth, lie, lie), (lie, truth, lie), (lie, lie, truth)))


def test_scores_of_another_table_are_refused() -> None:
    question = Question(among_present(SCHEMA["income"]), 50)
    choice, other = chosen(question, 1.0), chosen(question, 2.0)
    assert choice.decode is not None
    wrong = tuple(value * 2 for value in choice.decode)
    counts = [1] * (len(choice.decode) // 2)
    with pytest.raises(InvalidParameter, match="unbiased"):
        estimate(question, choice.randomizer, counts, len(counts), BETA, wrong)
    with pytest.raises(InvalidParameter):
        estimate(question, other.randomizer, counts, len(counts), BETA, choice.decode)


class TestQuery:
    def test_missing_is_the_last_value_of_the_range_and_no_number(self) -> None:
        query = among_present(SCHEMA["income"])
        assert (query.low, query.high, query.default) == (0, 2000, 2000)
        assert query.kind is QueryKind.REAL
        assert has_missing_level(query)
        assert list(Question(query).bounds) == [0, 1000]

    def test_a_number_s_range_is_cut_into_whole_grid_steps(self) -> None:
        query = among_present(SCHEMA["income"], 16)
        assert query.high == 17 * 63  # 1000/16 rounded up

    def test_a_public_default_in_the_range_is_no_missing_level(self) -> None:
        assert not has_missing_level(real(SCHEMA["income"], default=1000))

    def test_a_default_above_all_numbers_is_a_missing_level_only_if_it_was_built_as_one(
        self,
    ) -> None:
        """A query was taken for one by its shape, and its author's default was left out."""
        plain = real(SCHEMA["income"], 0, 2000, default=2000)
        asked = among_present(SCHEMA["income"])
        assert plain == asked  # the same bytes for a device
        assert not has_missing_level(plain)
        assert not Question(plain, 50).over_present
        assert list(Question(plain).bounds) == [0, 2000]
        assert Question(plain, 50, over_present=True).over_present
        with pytest.raises(InvalidQuery, match="whose default says"):
            Question(real(SCHEMA["income"]), 50, over_present=True)
        truth = [1000.0, None, 500.0, None]
        rows = encode_columns(SCHEMA, {"income": truth})
        assert [float(x) for x in expectations(Question(plain), rows)] == [1375]
        assert [float(x) for x in expectations(Question(asked), rows)] == [750]

    def test_a_question_on_record_is_over_those_who_have_the_number_by_its_decode_values(
        self,
    ) -> None:
        question = Question(among_present(SCHEMA["income"]), 50)
        choice = chosen(question, 1.0)
        plain = real(SCHEMA["income"], 0, 2000, default=2000)
        assert recorded_question(plain, choice.randomizer, choice.decode).over_present
        assert not recorded_question(plain, choice.randomizer, None).over_present
        half = choice.decode[: len(choice.decode or ()) // 2] if choice.decode else None
        assert not recorded_question(plain, choice.randomizer, half).over_present

    def test_whole_numbers_too_far_apart_are_refused_with_what_to_do(self) -> None:
        wide = Schema("wide", 1, x=Integer(0, 2_000_000_000))
        with pytest.raises(InvalidQuery, match=r"less than 1073741824 apart.*missing=default"):
            among_present(wide["x"])
        assert list(Question(among_present(Schema("w", 1, x=Integer(0, 10**9))["x"])).bounds) == [
            0,
            10**9,
        ]

    def test_a_range_too_wide_for_its_grid_is_asked_on_a_coarser_one(self) -> None:
        wide = Schema("wide", 1, x=Real(0, 30_000, frac_bits=16))
        query = among_present(wide["x"])
        assert query.frac < 16
        assert list(Question(query).bounds) == [0, 30_000]


def test_a_tiny_budget_is_planned_and_told_from_no_budget() -> None:
    """Rates that cancel in floats were 0, and the plan divided by them."""
    sizes = []
    for nano in (10, 10**4, 10**5, 10**6):
        question = Question(among_present(SCHEMA["income"]), 50)
        (choice,) = choices(question, nano, best_for)
        users = need(question, choice, BETA)
        sizes.append(users * (nano / NAT) ** 2)
        # A normal law's size for a deviation of 50 of a range of 1,000, within a factor of 5.
        assert 1 < sizes[-1] * 0.05**2 / (1.35 * 2.7) < 5 * 4
    assert max(sizes[:3]) == pytest.approx(min(sizes[:3]), rel=1e-2)
    assert sizes[-1] < sizes[0] < 4 * sizes[-1]
