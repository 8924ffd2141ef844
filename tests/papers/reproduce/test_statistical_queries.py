"""The theorems about statistical queries would not hold if something were wrong."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    Answers,
    MaskedParity,
    masked_parity,
    masked_parity_schema,
    neutral_answer,
)
from askance_aggregator.oracles import FairHalfOracle, FairOracle, adversarial
from askance_aggregator.planning import plan
from askance_papers.curator.mechanisms import Laplace
from askance_papers.reproduce.klnrs08 import lemma_4_2, lemma_4_3, theorem_5_1
from askance_papers.reproduce.klnrs08 import masked_parity as users
from askance_papers.reproduce.notes import (
    local_vs_central,
    theorem_5,
    theorem_6,
    theorem_7,
    theorem_8,
)
from askance_papers.reproduce.notes.theorem_8 import Flipped
from askance_simulation.randomness import Seed

SEED = Seed.of(1)


class TestTheorem5:
    def test_a_plan_for_another_beta_does_not_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(theorem_5, "plan", lambda learner, nano, _: plan(learner, nano, 0.95))
        assert not theorem_5.measured(10, 1, SEED)["holds"]

    def test_users_grow_as_the_cube(self) -> None:
        small, large = (theorem_5.measured(d, 1, SEED)["users planned"] for d in (10, 40))
        assert 64 < large / small < 64 * 1.7

    def test_the_exact_chance_is_what_is_counted(self) -> None:
        """Few users, so that answers are often off."""
        from askance_aggregator.families import randomized_response

        rr = randomized_response(10**9)
        chance = theorem_5.invalid_chance([0.3, 0.3], 0.1, rr, 200)
        rng = np.random.default_rng(3)
        lie = 1 / (exp(1) + 1)
        counts = rng.binomial(200, lie + 0.3 * (1 - 2 * lie), (40_000, 2))
        shares = (counts / 200 - lie) / (1 - 2 * lie)
        seen = (np.abs(shares - 0.3) >= 0.1).any(axis=1).mean()
        assert chance == pytest.approx(seen, abs=0.013)  # five standard errors


class TestTheorem51:
    def test_a_fixed_set_reads_all_from_the_printed_oracle_and_no_bit_from_the_other(self) -> None:
        concepts = theorem_5_1.concepts_of(8, 10, SEED)
        assert theorem_5_1.leak(concepts, FairOracle)["error, b = 0"] == 0
        assert theorem_5_1.leak(concepts, FairHalfOracle)["error, b = 0"] == 0.5

    def test_a_question_tells_its_coset_and_no_other_mask(self) -> None:
        cosets = theorem_5_1.COSETS[0]
        asked = theorem_5_1.asked_masks(cosets, SEED)
        learner = theorem_5_1.one_round(masked_parity_schema(8), cosets, asked)
        told, below, other = theorem_5_1.strata(cosets, asked, 6, SEED)
        errors = [
            theorem_5_1.mean_errors(learner, part, FairHalfOracle) for part in (told, below, other)
        ]
        assert errors == [(0, 0), (0, 0.5), (0, 0.5)]

    @pytest.mark.parametrize("factor", [0.5, 100])
    def test_an_oracle_that_omits_less_or_more_than_tau_does_not_hold(
        self, monkeypatch: pytest.MonkeyPatch, factor: float
    ) -> None:
        """The rows at d = 16 and 32 once had an error of one half whatever the oracle said."""
        honest = adversarial._within
        monkeypatch.setattr(
            adversarial,
            "_within",
            lambda said, true, tau: honest(said, true, tau * Fraction(factor)),
        )
        one_round, *_ = theorem_5_1.separation(theorem_5_1.COSETS[0], 1, SEED)
        assert not one_round["holds"]

    def test_all_concepts_where_there_are_few(self) -> None:
        assert len(set(theorem_5_1.concepts_of(4, 100, SEED))) == 32


class TestTheorem6:
    def test_the_size_for_a_smaller_range_fails(self) -> None:
        assert theorem_6.printed(1, 200, SEED)["measured"] > 0.5

    def test_a_smaller_sample_does_not_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert theorem_6.sampled(theorem_6.SHARE, 4, 60, SEED)["holds"]
        monkeypatch.setattr(theorem_6, "DELTA", Fraction(9, 10))
        small = theorem_6.sampled(theorem_6.SHARE, 4, 60, SEED)
        assert small["exactly"] > 0.05

    def test_the_exact_chance(self) -> None:
        """Four coins: the mean is off by 1/2 with two outcomes of sixteen, by 1/4 with ten."""
        assert theorem_6.failure_chance(4, 0.5, 1) == pytest.approx(2 / 16)
        assert theorem_6.failure_chance(4, 0.25, 1) == pytest.approx(10 / 16)


class TestTheorem7:
    def test_a_greater_loss_does_not_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(theorem_7, "laplace_of", lambda _, alpha: Laplace(alpha * 2, 1))
        assert not theorem_7.loss(Fraction(1, 2))["holds"]

    def test_the_printed_scale_drowns_every_answer(self) -> None:
        assert theorem_7.printed("0.1", 4, 100, SEED)["measured"] == 1


class TestTheorem8:
    def test_labels_taken_as_seen_mislead(self) -> None:
        assert theorem_8.uncorrected(Fraction(3, 10), 30, SEED)["failed"] > 0.9
        assert theorem_8.known(Fraction(3, 10), 30, SEED)["failed"] < 0.1

    def test_a_correction_for_another_rate_does_not_hold(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            theorem_8, "Flipped", lambda eta, seed: Flipped(eta + Fraction(1, 5), seed)
        )
        assert not theorem_8.known(Fraction(1, 10), 30, SEED)["holds"]


class TestMaskedParity:
    @pytest.mark.parametrize("variant", ["signed", "printed"])
    def test_the_mask_is_read_as_the_learner_reads_it(self, variant: str) -> None:
        learner = masked_parity(masked_parity_schema(8), variant)
        rng = np.random.default_rng(4)
        for _ in range(5):
            run = learner.run()
            questions = next(run).questions
            answers: Answers = tuple(
                Answer(values, values, values)
                for values in (
                    tuple(rng.normal(1 / 32, 1 / 32, question.values).tolist())
                    for question in questions
                )
            )
            second = run.send(answers)
            with pytest.raises(StopIteration) as done:
                run.send(tuple(neutral_answer(question) for question in second.questions))
            concept: MaskedParity = done.value.value
            assert users.mask_read(questions, answers) == list(concept.r)

    def test_too_few_users_fail(self) -> None:
        learner = masked_parity(masked_parity_schema(8))
        planned = users.plan_first(learner, "1")
        assert users.failures(learner, planned, planned.users, 50, SEED) <= 1
        assert users.failures(learner, planned, planned.users // 8, 50, SEED) > 5


class TestLemma42:
    def test_the_exact_tail_of_one_and_of_two(self) -> None:
        """For one: e^-t. For two: the density of the sum is (1 + |x|) e^-|x| / 4."""
        assert lemma_4_2.exact_tail(1, 0.7) == pytest.approx(exp(-0.7))
        assert lemma_4_2.exact_tail(2, 0.5) == pytest.approx((2 + 1) / 2 * exp(-1))

    def test_a_bound_below_the_truth_does_not_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lemma_4_2, "exact_tail", lambda n, tau: 0.9)
        assert not lemma_4_2.tail(100, 0.3, 1000, SEED)["holds"]


class TestLemma43:
    def test_one_bit_takes_fewer_than_laplace(self) -> None:
        for epsilon in (0.25, 1.0, 4.0):
            assert 3 * lemma_4_3.printed_users(epsilon, 1) < lemma_4_3.laplace_users(epsilon, 1)

    def test_more_noise_than_planned_for_does_not_hold(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lemma_4_3, "laplace_users", lambda epsilon, queries: 400)
        assert not lemma_4_3.laplace("1", 1, 500, SEED)["holds"]


class TestLocalVsCentral:
    def test_local_users_grow_by_four_and_a_curator_s_do_not(self) -> None:
        one, two = (local_vs_central.local(epsilon, 1, SEED)["users"] for epsilon in ("0.1", "0.2"))
        assert one / two == pytest.approx(4, rel=0.02)
        one, two = (local_vs_central.central(e, 1, SEED)["users"] for e in ("0.1", "0.2"))
        assert one / two < 1.3
