"""Local algorithms run against a statistical query oracle: their laws, exactly and by chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from askance_aggregator.families import k_ary_response, randomized_response
from askance_aggregator.learners import Answer, Answers, Batch, NonAdaptive
from askance_aggregator.oracles import (
    CentreOracle,
    ExactOracle,
    LazyOracle,
    Oracle,
    WrongSideOracle,
    learn,
)
from askance_aggregator.queries import category, encode_columns, predicate, real
from askance_client.errors import InvalidAnswer, InvalidParameter, InvalidQuery
from askance_client.exact_laws import probability
from askance_client.queries import Bit, Integer, Schema
from askance_client.randomizers import Channel
from askance_papers.reductions import (
    Interactive,
    Law,
    LocalCall,
    LocalRun,
    NonInteractive,
    Product,
    by_adaptive_queries,
    by_queries,
    candidates,
    local_law,
    run_locally,
    simulated_law,
    simulated_law_in_one_round,
    total_variation,
)
from askance_papers.reductions.back import relative_error
from askance_papers.reductions.products import Factor
from askance_simulation.randomness import Seed, SeededWords

ONE = 1 << 64
NANO = 10**9
SCHEMA = Schema("s", 1, n=Integer(0, 2), b=Bit())
LEVEL, BIT = category(SCHEMA["n"] + 0), predicate(SCHEMA["b"] == 1)
PEOPLE = encode_columns(SCHEMA, {"n": [0, 0, 1, 1, 2, 2], "b": [0, 1, 0, 1, 0, 1]})
WEIGHTS = [5, 1, 1, 4, 2, 7]
TRUTH = ExactOracle(SCHEMA, PEOPLE, WEIGHTS)
HALF = randomized_response(NANO // 2)
WHOLE = randomized_response(NANO)
THREE = k_ary_response(3, NANO)
Trusted = Callable[[], Oracle]
ORACLES: dict[str, Trusted] = {
    "exact": lambda: TRUTH,
    "lazy": lambda: LazyOracle(TRUTH, CentreOracle()),
    "above": lambda: WrongSideOracle(TRUTH, lambda _: (2.0,)),
    "below": lambda: WrongSideOracle(TRUTH, lambda _: (-2.0,)),
    "to the middle": lambda: WrongSideOracle(TRUTH),
}


def in_one_round(*calls: LocalCall) -> NonInteractive[tuple[bytes, ...]]:
    return NonInteractive(
        name="asks", schema=SCHEMA, nano_nats=NANO, calls=calls, conclude=lambda reports: reports
    )


THREE_USERS = in_one_round(
    LocalCall(0, LEVEL, THREE), LocalCall(1, BIT, WHOLE), LocalCall(2, BIT, HALF)
)


def two_rounds(users: int) -> Interactive[tuple[bytes, ...]]:
    """Ask all users for the bit, and then for half of the number, chosen by the bits."""

    def run() -> LocalRun[tuple[bytes, ...]]:
        reports = []
        for user in range(users):
            report = yield LocalCall(user, BIT, HALF)
            reports.append(report)
        most = 2 * reports.count(b"\x01") > users
        second = predicate(SCHEMA["n"] == (2 if most else 0))
        for user in range(users):
            report = yield LocalCall(user, second, HALF)
            reports.append(report)
        return tuple(reports)

    return Interactive(
        name="two-rounds", schema=SCHEMA, nano_nats=NANO, factory=run, most=2 * users
    )


@pytest.mark.parametrize("law", [local_law(THREE_USERS, PEOPLE, WEIGHTS)])
def test_a_law_is_one(law: Law) -> None:
    assert sum(law.values()) == 1
    assert len(law) == 3 * 2 * 2


def test_users_are_independent_and_a_user_is_not() -> None:
    """The reports of two users multiply; the two of one user are a mixture over its record."""
    once = local_law(in_one_round(LocalCall(0, BIT, HALF)), PEOPLE, WEIGHTS)[(b"\x01",)]
    twice = in_one_round(LocalCall(0, BIT, HALF), LocalCall(1, BIT, HALF))
    assert local_law(twice, PEOPLE, WEIGHTS)[(b"\x01",) * 2] == once * once

    def again() -> LocalRun[None]:
        yield LocalCall(0, BIT, HALF)
        yield LocalCall(0, BIT, HALF)

    same = Interactive(name="again", schema=SCHEMA, nano_nats=NANO, factory=again, most=2)
    share = Fraction(12, 20)
    by_level = [probability(HALF, level, b"\x01") for level in (0, 1)]
    mixed = (1 - share) * by_level[0] ** 2 + share * by_level[1] ** 2
    assert local_law(same, PEOPLE, WEIGHTS)[(b"\x01",) * 2] == mixed != once * once


class TestLemma44:
    @pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20)])
    @pytest.mark.parametrize("oracle", ORACLES)
    def test_the_law_is_within_beta(self, oracle: str, beta: Fraction) -> None:
        real_law = local_law(THREE_USERS, PEOPLE, WEIGHTS)
        law = simulated_law_in_one_round(THREE_USERS, beta, ORACLES[oracle]())
        assert sum(law.values()) == 1
        assert 0 < total_variation(real_law, law) <= beta

    def test_it_is_what_the_simulation_does(self) -> None:
        """1,000 runs: every transcript about as often as its exact law says."""
        algorithm = in_one_round(LocalCall(0, LEVEL, THREE), LocalCall(1, BIT, WHOLE))
        beta, runs = Fraction(1, 2), 1000
        law = simulated_law_in_one_round(algorithm, beta, TRUTH)
        words = SeededWords(Seed.of(1))
        remembered = Remembers(TRUTH)
        seen = Counter(learn(by_queries(algorithm, beta, words), remembered) for _ in range(runs))
        assert possible(seen, law, runs)
        zero = local_law(algorithm, PEOPLE, [1, 0, 0, 0, 0, 0])  # of candidates: all users at R(0)
        assert not possible(seen, zero, runs)

    def test_everything_is_asked_at_once_of_candidates_enough(self) -> None:
        learner = by_queries(THREE_USERS, "1/10", SeededWords(Seed.of(2)))
        assert isinstance(learner, NonAdaptive)
        expected = sum(candidates(call, Fraction(1, 30)) for call in THREE_USERS.calls)
        assert len(learner.batch.questions) == expected
        # e ln(2 T / beta) = 2.72 ln 60 for the calls at epsilon = 1.
        assert candidates(THREE_USERS.calls[0], Fraction(1, 30)) == 12

    def test_tolerances_are_those_of_the_lemma(self) -> None:
        learner = by_queries(THREE_USERS, "1/10", SeededWords(Seed.of(2)))
        tau = float(learner.batch.questions[0].working_tau)
        assert tau == pytest.approx(0.1 / 3 / 2 / (np.e**2 - 1), rel=1e-5)


class TestLemma45:
    @pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20)])
    @pytest.mark.parametrize("oracle", ORACLES)
    def test_the_law_is_within_beta(self, oracle: str, beta: Fraction) -> None:
        algorithm = two_rounds(2)
        real_law = local_law(algorithm, PEOPLE, WEIGHTS)
        law = simulated_law(algorithm, beta, ORACLES[oracle]())
        assert sum(law.values()) == 1
        assert total_variation(real_law, law) <= beta

    def test_who_forgets_the_first_round_is_not(self) -> None:
        """The products matter: drawn anew in each round, a user's two reports do not match."""
        algorithm = two_rounds(1)
        forgetful: Law = {(one, two): Fraction(0) for one, two in product((b"\0", b"\1"), repeat=2)}
        for first, level in ((b"\0", 0), (b"\1", 2)):
            second = predicate(SCHEMA["n"] == level)
            laws = [
                local_law(in_one_round(LocalCall(0, query, HALF)), PEOPLE, WEIGHTS)
                for query in (BIT, second)
            ]
            for report in (b"\0", b"\1"):
                forgetful[first, report] = laws[0][(first,)] * laws[1][(report,)]
        real_law = local_law(algorithm, PEOPLE, WEIGHTS)
        beta = Fraction(1, 1000)
        assert total_variation(real_law, forgetful) > beta
        assert total_variation(real_law, simulated_law(algorithm, beta, TRUTH)) <= beta

    def test_it_is_what_the_simulation_does(self) -> None:
        algorithm, beta, runs = two_rounds(2), Fraction(1, 2), 700
        law = simulated_law(algorithm, beta, TRUTH)
        remembered = Remembers(TRUTH)
        seen = Counter(
            learn(by_adaptive_queries(algorithm, beta, stream(run)), remembered)
            for run in range(runs)
        )
        assert possible(seen, law, runs)

    def test_the_same_words_and_answers_ask_the_same(self) -> None:
        learner = by_adaptive_queries(two_rounds(3), "1/10", stream(5))
        assert learn(learner, TRUTH) == learn(learner, TRUTH)

    def test_many_users_report_as_many_would(self) -> None:
        """Forty users, asked twice: counts of the second round, beside real runs."""
        algorithm, runs = two_rounds(40), 40
        remembered, rng = Remembers(TRUTH), np.random.default_rng(3)
        back, there = [], []
        for run in range(runs):
            simulated = learn(by_adaptive_queries(algorithm, "1/2", stream(run)), remembered)
            rows = rng.choice(6, 40, p=np.array(WEIGHTS) / sum(WEIGHTS))
            real_run = run_locally(algorithm, PEOPLE.take(rows), SeededWords(Seed.of(run + 999)))
            back.append(simulated[40:].count(b"\x01"))
            there.append(real_run[40:].count(b"\x01"))
        error = np.sqrt((np.var(back) + np.var(there)) / runs)
        assert abs(np.mean(back) - np.mean(there)) < 5 * error
        assert np.mean(there) > 13


def stream(number: int) -> Callable[[], SeededWords]:
    return lambda: SeededWords(Seed.of(number))


class Remembers:
    """Another oracle, asked once for each batch of one query."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.known = oracle, dict[bytes, Answer]()

    def answer(self, batch: Batch) -> Answers:
        for question in batch.questions:
            key = question.query.canonical
            if key not in self.known:
                (self.known[key],) = self.oracle.answer(Batch([question]))
        return tuple(self.known[question.query.canonical] for question in batch.questions)


def possible(seen: Counter[tuple[bytes, ...]], law: Law, runs: int) -> bool:
    """Run a chi-square test at 1e-6."""
    from scipy.stats import chisquare

    keys = sorted(law)
    expected = np.array([float(law[key]) * runs for key in keys])
    found = chisquare([seen[key] for key in keys], expected * runs / expected.sum())
    return bool(found.pvalue > 1e-6)


class TestRefusals:
    def test_a_user_is_not_asked_past_its_budget(self) -> None:
        def greedy() -> LocalRun[None]:
            yield LocalCall(0, BIT, WHOLE)
            yield LocalCall(0, BIT, HALF)

        algorithm = Interactive(
            name="greedy", schema=SCHEMA, nano_nats=NANO, factory=greedy, most=2
        )
        with pytest.raises(InvalidParameter, match="call 1 expects a user with 1500000000"):
            run_locally(algorithm, PEOPLE, SeededWords(Seed.of(1)))
        with pytest.raises(InvalidParameter, match="call 1 expects a user with 1500000000"):
            learn(by_adaptive_queries(algorithm, "1/2", stream(1)), TRUTH)

    def test_nor_more_often_than_stated(self) -> None:
        algorithm = Interactive(
            name="talks", schema=SCHEMA, nano_nats=NANO, factory=two_rounds(2).factory, most=3
        )
        with pytest.raises(InvalidParameter, match="talks expects at most 3 calls"):
            run_locally(algorithm, PEOPLE, SeededWords(Seed.of(1)))

    def test_calls_that_are_none(self) -> None:
        with pytest.raises(InvalidQuery, match="found a REAL one"):
            LocalCall(0, real(SCHEMA["n"]), HALF)
        with pytest.raises(InvalidParameter, match="randomizer of 3 levels, found 2"):
            LocalCall(0, LEVEL, HALF)
        with pytest.raises(InvalidParameter, match="depends on its level"):
            LocalCall(0, BIT, Channel(((ONE // 2,) * 2,) * 2))
        with pytest.raises(InvalidParameter, match="a user from 0 on"):
            LocalCall(-1, BIT, HALF)
        with pytest.raises(InvalidParameter, match="each user in one call"):
            in_one_round(LocalCall(0, BIT, HALF), LocalCall(0, BIT, HALF))
        with pytest.raises(InvalidParameter, match="at least one call"):
            in_one_round()
        with pytest.raises(InvalidParameter, match="more than 6 users, found 6"):
            run_locally(in_one_round(LocalCall(6, BIT, HALF)), PEOPLE, SeededWords(Seed.of(1)))

    def test_an_answer_that_no_distribution_has_is_named(self) -> None:
        class Far:
            def answer(self, batch: Batch) -> Answers:
                return tuple(Answer((0.9,), (0.9,), (0.9,)) for _ in batch.questions)

        with pytest.raises(InvalidAnswer, match="round 1: question 0: expected a value"):
            learn(by_adaptive_queries(two_rounds(1), "1/10", stream(1)), Far())

    @pytest.mark.parametrize("beta", [0, 1, "3/2"])
    def test_beta_is_a_distance(self, beta: str) -> None:
        with pytest.raises(InvalidParameter, match="beta expects a distance"):
            by_queries(THREE_USERS, beta, SeededWords(Seed.of(1)))

    def test_a_tolerance_below_the_grid(self) -> None:
        algorithm = in_one_round(LocalCall(0, BIT, WHOLE))
        with pytest.raises(InvalidParameter, match="expects more than 2\\^-29"):
            by_queries(algorithm, Fraction(1, 10**9), SeededWords(Seed.of(1)))

    def test_a_product_of_nothing_is_certain(self) -> None:
        assert Product(()).base == Product(()).ratio == 1


def test_the_ratio_of_two_estimates_is_as_close_as_one_estimate() -> None:
    """A later report's probability is a ratio, so both of its parts are asked for more closely."""
    each = Fraction(1, 10)
    once = relative_error((), each)
    query = predicate(Schema("s", 1, b=Bit())["b"])
    twice = relative_error((Factor(query, (Fraction(1, 2),) * 2, Fraction(1)),), each)
    assert once == each
    assert (1 + twice) / (1 - twice) == 1 + each
    assert (1 - twice) / (1 + twice) > 1 - each
