"""Account of all that was released, per user: reuse, waves, liars, and two bounds of the sum."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log, tanh

import numpy as np
import pytest

from askance_aggregator.amplification import Curve
from askance_aggregator.amplification.account import OuterAccount, TallyRelease, weight
from askance_aggregator.amplification.loss_pairs import composed_epsilon
from askance_aggregator.families import best_for
from askance_client.randomizers import Randomizer
from tests.aggregator.amplification.test_loss_pairs import pure_pair

BIT = best_for(2, 10**9)
NONE = np.empty(0, np.int64)
MILLIONTH = Fraction(1, 10**6)


class Curves:
    """Curve that falls to 0 at 10 / answers, or at the local epsilon; and what was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, randomizer: Randomizer, answers: int) -> Curve:
        self.asked.append(answers)
        end = min(1.0, 10 / answers)
        if end == 1.0:
            return Curve((0.0, 1.0), (tanh(0.5), 0.0))
        return Curve((0.0, end, 1.0), (tanh(end / 2), 0.0, 0.0))


@pytest.fixture
def curves() -> Curves:
    return Curves()


@pytest.fixture
def books(curves: Curves) -> OuterAccount:
    return OuterAccount(MILLIONTH, liars=Fraction(0), curves=curves)


def release(question: str, users: range, again: range = range(0)) -> TallyRelease:
    return TallyRelease(question.encode(), BIT, np.array(users), np.array(again, np.int64))


def test_an_answer_is_charged_once_however_often_it_is_released(books: OuterAccount) -> None:
    books.enter(release("q", range(256)))
    once = books.epsilon_of(7)
    assert once == pytest.approx(10 / 256, rel=1e-3)
    for _ in range(5):
        books.enter(release("q", range(256), again=range(256)))
    assert books.epsilon_of(7) == once


def test_another_question_is_another_charge(books: OuterAccount) -> None:
    books.enter(release("q", range(256)))
    books.enter(release("r", range(256)))
    assert books.epsilon_of(7) == pytest.approx(20 / 256, rel=1e-3)
    assert books.figures().questions == 2


def test_a_release_of_reused_answers_hides_no_new_user(books: OuterAccount) -> None:
    """255 answers that were released before and one new one: the new user is alone."""
    books.enter(release("q", range(255)))
    books.enter(release("q", range(256), again=range(255)))
    assert books.epsilon_of(255) == 1.0
    assert books.epsilon_of(0) < 0.05
    assert books.figures().local_only == 1


def test_an_answer_that_is_drawn_anew_is_one_more(books: OuterAccount) -> None:
    """User 0 has lost its ledger: its second answer hides among none, and is charged too."""
    books.enter(release("q", range(1000)))
    for _ in range(2):
        books.enter(release("q", range(1000), again=range(1, 1000)))
    assert books.epsilon_of(0) > 2.0
    assert books.epsilon_of(1) < 0.05
    figures = books.figures()
    assert (figures.users, figures.releases) == (1000, 3)


def test_the_increment_of_a_wave_counts_and_not_the_prefix(books: OuterAccount) -> None:
    books.enter(release("q", range(1024)))
    books.enter(release("q", range(1024, 1024 + 64)))
    assert books.epsilon_of(0) == pytest.approx(10 / 1024, rel=1e-3)
    assert books.epsilon_of(1024) == pytest.approx(10 / 64, rel=1e-3)


def test_two_releases_that_differ_in_one_user_leave_it_the_local_epsilon(
    books: OuterAccount,
) -> None:
    books.enter(release("q", range(256)))
    books.enter(release("q", range(255), again=range(255)))
    assert books.epsilon_of(255) == pytest.approx(1.0)
    assert books.epsilon_of(0) < 0.05


def test_a_division_shares_delta_over_the_values_of_the_tally_before(
    books: OuterAccount,
) -> None:
    """Question 1 has half of delta, the sum half of that, and 256 bits have 257 tallies."""
    books.enter(release("q", range(256)))
    books.enter(release("q", range(128), again=range(128)))
    loss, share = exp(10 / 128), 1e-6 / 2 / 2 / 257
    # Randomized response has delta (loss - e^epsilon) / (loss + 1).
    assert books.epsilon_of(0) == pytest.approx(log(loss - share * (loss + 1)), abs=1e-10)


def test_liars_hide_none(curves: Curves) -> None:
    books = OuterAccount(MILLIONTH, curves=curves)
    books.enter(release("q", range(200)))
    assert curves.asked == [198]  # 1 % of 200 are assumed to lie


def test_many_questions_cost_less_than_their_sum() -> None:
    """Losses of .3 at most, 200 times: the Renyi bound is far below 60."""

    def flat(_: Randomizer, __: int) -> Curve:
        return Curve((0.0, 0.3, 1.0), (tanh(0.15), 0.0, 0.0))

    books = OuterAccount(MILLIONTH, curves=flat)
    for number in range(200):
        books.enter(release(str(number), range(100)))
    beforehand = composed_epsilon([(pure_pair(0.3), 200)], MILLIONTH)
    assert beforehand < books.epsilon_of(0) <= 1.5 * beforehand < 60


def test_the_order_of_releases_of_others_does_not_matter(curves: Curves) -> None:
    figures = []
    for order in ((range(100), range(100, 300)), (range(100, 300), range(100))):
        books = OuterAccount(MILLIONTH, curves=curves)
        for users in order:
            books.enter(release("q", users))
        figures.append((books.epsilon_of(0), books.epsilon_of(200)))
    assert figures[0] == figures[1]


def test_users_with_equal_histories_are_one_class(books: OuterAccount) -> None:
    for question in "qrs":
        books.enter(release(question, range(10_000)))
    books.enter(release("t", range(5_000, 20_000)))
    assert books.classes == 4  # of no release, of three, of all four, of the last
    figures = books.figures()
    assert (figures.users, figures.releases) == (20_000, 4)


def test_users_who_enrol_later_begin_with_nothing(books: OuterAccount) -> None:
    books.enter(release("q", range(100)))
    assert books.epsilon_of(150) == 0.0
    books.enter(release("r", range(50, 200)))
    assert books.epsilon_of(150) < books.epsilon_of(60)


def test_shares_of_delta_are_at_most_one_in_all() -> None:
    assert [weight(number) for number in (1, 2, 3, 4)] == [
        Fraction(1, 2),
        Fraction(1, 12),
        Fraction(1, 12),
        Fraction(1, 48),
    ]
    assert sum(weight(number) for number in range(1, 1 << 10)) == 1 - Fraction(1, 11)
