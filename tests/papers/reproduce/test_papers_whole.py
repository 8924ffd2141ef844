"""Tests of Corollary 4.6 and two remarks: parts of the reproductions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from askance_aggregator.learners import Batch, Question
from askance_aggregator.oracles import ExactOracle, LazyOracle, ParityWorld
from askance_aggregator.queries import encode_columns, predicate
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.mechanisms import ValidatedParity
from askance_papers.curator.mechanisms import selection as selections
from askance_papers.curator.mechanisms import validated_parity as validated
from askance_papers.curator.parity import ParityExamples, PrivateParity, even_keeping
from askance_papers.reproduce.klnrs08 import (
    corollary_4_6,
    parity,
    remark_3_7,
    remark_3_8,
)
from askance_papers.reproduce.klnrs08.corollary_4_6 import BentCase
from askance_simulation.populations.labelled_bits import Parity
from askance_simulation.randomness import Seed, SeededWords

SEED = Seed.of(1)


class TestRemark37:
    def test_a_dimension_that_is_not_the_class_s_does_not_hold(self) -> None:
        line = replace(remark_3_7.CLASSES[0], dimension=2)
        assert not any(row["holds"] for row in remark_3_7.grown(line, (16,), 50, SEED))

    def test_the_vc_dimensions(self) -> None:
        found = [remark_3_7.vc_dimension(line.behaviours(6)) for line in remark_3_7.CLASSES]
        assert found == [1, 2]

    def test_targets_are_the_hypotheses_of_their_numbers(self) -> None:
        rng = np.random.default_rng(2)
        for line in remark_3_7.CLASSES:
            labels = line.behaviours(16)
            target, points = line.target(16, rng)
            others = np.delete(labels, target, axis=1)
            apart = (others[points] != labels[points, target][:, None]).any(axis=0)
            assert apart.all(), "every other hypothesis errs on a point with mass"


class TestRemark38:
    def test_the_losses_are_epsilon(self) -> None:
        assert remark_3_8.training_loss()["holds"]
        assert remark_3_8.test_loss(ValidatedParity.of(1, "0.05"))["holds"]

    @pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)])
    def test_another_probability_to_keep_does_not_hold(
        self, factor: Fraction, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def keeping(epsilon: Fraction, runs: int) -> Fraction:
            return even_keeping(epsilon, runs) * factor

        monkeypatch.setattr(validated, "even_keeping", keeping)
        assert not remark_3_8.training_loss()["holds"]

    def test_a_choice_at_twice_the_epsilon_does_not_hold(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        choice = property(lambda self: selections.PermuteAndFlip.of(self.epsilon * 2))
        monkeypatch.setattr(ValidatedParity, "choice", choice)
        assert not remark_3_8.test_loss(ValidatedParity.of(1, "0.05"))["holds"]


class TestValidatedParity:
    def test_more_is_kept_than_epsilon_allows(self) -> None:
        most = even_keeping(Fraction(1), 3)
        ValidatedParity(Fraction(1), 3, most)
        with pytest.raises(InvalidParameter, match=r"keep: expected above 0 and at most"):
            ValidatedParity(Fraction(1), 3, most + Fraction(1, 1 << 64))

    def test_parts_of_different_lengths(self) -> None:
        one, other = (ParityExamples.of_bits(np.ones((2, d), int), [1, 0]) for d in (2, 3))
        with pytest.raises(InvalidRecord, match="expected x of 2 bits"):
            ValidatedParity.of(1, "0.1").release(one, other, SeededWords(SEED))

    def test_a_beta_for_which_there_are_too_few_runs(self) -> None:
        with pytest.raises(InvalidParameter, match="beta: expected one for which"):
            ValidatedParity.of(1, "0.1").sizes(4, "0.1", "0.01")

    @pytest.mark.parametrize("d", [3, 63, 64, 70])
    def test_mistakes_are_those_of_the_parity(self, d: int) -> None:
        rng = np.random.default_rng(d)
        x, y, r = rng.integers(0, 2, (50, d)), rng.integers(0, 2, 50), rng.integers(0, 2, d)
        parity = Parity(tuple(r.tolist()))
        counted = validated.mistakes(parity, ParityExamples.of_bits(x, y))
        assert counted == int((parity(x) != y).sum())

    def test_contradictions_leave_nothing_or_a_candidate(self) -> None:
        data = ParityExamples.of_bits(np.zeros((40, 2), int), np.ones(40, int))
        mechanism = ValidatedParity.of(4, "0.5")
        found = {mechanism.release(data, data, SeededWords(SEED / trial)) for trial in range(40)}
        assert None in found


@pytest.mark.slow
class TestClaims:
    def test_a_run_that_keeps_less_does_not_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def shy(epsilon: Fraction, runs: int) -> Fraction:
            return even_keeping(epsilon, runs) * Fraction(99, 100)

        monkeypatch.setattr(parity, "even_keeping", shy)
        assert not parity.composed(2, "all answers", lambda answers: answers)["holds"]

    def test_another_answer_than_the_first_does_not_hold(self) -> None:
        row = parity.composed(2, "first answer", lambda answers: answers[-1])
        assert not row["holds"]


class TestCorollary46:
    def test_the_bound_is_met_from_both_sides(self) -> None:
        world = ParityWorld(6)
        for case in corollary_4_6.cases(6):
            assert corollary_4_6.queried(case, world, 64, SEED)["holds"], case.what

    def test_samples_with_the_concluded_mask_in_them_hold(self) -> None:
        """Full run at seed 0: 4,096 draws of 32,768 concepts had it once, and the row said no."""
        world, case = ParityWorld(6), BentCase("1 % coarser", 6, 2, 4, Fraction(101, 400))
        rows = [corollary_4_6.queried(case, world, 24, SEED / trial) for trial in range(8)]
        assert any(row["error"] < 0.5 for row in rows), "no sample has it"
        assert all(row["holds"] for row in rows)

    def test_a_sample_s_error_is_held_to_the_bound_from_both_sides(self) -> None:
        case = BentCase("half of it", 15, 5, 16, Fraction(1, 32))
        assert case.holds_for_draws(2048, 4096)
        assert not case.holds_for_draws(1800, 4096)
        assert not case.holds_for_draws(2300, 4096)
        assert not case.holds_for_all(2**13, 2**15)

    def test_users_of_devices_that_grow_as_slowly_as_the_curator_s_do_not_hold(self) -> None:
        rows = [
            {"what": what, "users": users}
            for users in (900, 1100, 1300)
            for what in ("devices", "curator")
        ]
        assert not corollary_4_6.growth_holds(rows)

    def test_the_curator_s_sizes_are_of_its_mechanism(self) -> None:
        assert PrivateParity.amplified(1, "0.05").loss == 1
        assert corollary_4_6.examples(6) == 911


class TestParityWorld:
    def test_all_expectations_are_the_exact_oracle_s(self) -> None:
        world, d = ParityWorld(4), 4
        x = np.array(list(product((0, 1), repeat=d)))
        case = BentCase("bent", d, 1, 1, Fraction(1, 2))
        batch = Batch(
            [
                Question(corollary_4_6.bent_query(world.schema, case, 5), Fraction(1, 2)),
                Question(predicate((world.schema["y"] == "-1") & world.schema["x"][1]), "0.1"),
            ]
        )
        for mask in range(1 << d):
            y = 1 - 2 * (x @ (mask >> np.arange(d) & 1) % 2)
            exact = ExactOracle(world.schema, encode_columns(world.schema, {"x": x, "y": y}))
            assert world.labelled_by(mask).answer(batch) == exact.answer(batch)

    def test_fair_labels_are_the_mean_of_all(self) -> None:
        world = ParityWorld(3)
        batch = Batch([Question(predicate(world.schema["y"] == "-1"), "0.1")])
        assert world.fair().answer(batch)[0].value == 0.5
        lazy = LazyOracle(world.labelled_by(0), world.fair())
        assert lazy.answer(batch)[0].value == 0, "the parity 0 labels all examples 1"

    @pytest.mark.parametrize("d", [0, 19, True])
    def test_a_number_of_bits_out_of_range(self, d: int) -> None:
        with pytest.raises(InvalidParameter, match=r"d: expected a whole number in 1\.\.18"):
            ParityWorld(d)

    def test_a_mask_of_more_bits(self) -> None:
        with pytest.raises(InvalidParameter, match=r"mask: expected 0\.\.7, got 8"):
            ParityWorld(3).labelled_by(8)
