"""Lemmas 4.4 and 4.5 and Theorem 4.8: they hold, and would not if something were wrong."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from matplotlib.figure import Figure

from askance_aggregator.learners import Answer, Answers, Batch, Question
from askance_aggregator.queries import predicate
from askance_papers.reductions import Product, laws
from askance_papers.reductions.products import product_of
from askance_papers.reproduce.counting import AskedOnce
from askance_papers.reproduce.klnrs08 import lemma_4_4, lemma_4_5, theorem_4_8, transcripts
from askance_simulation.randomness import Seed

SEED = Seed.of(1)


def test_a_distance_of_nothing_is_drawn_as_nothing() -> None:
    figure = Figure()
    rows = [
        {"oracle": oracle, "law": "enumerated", "beta": 0.1, "distance": distance}
        for oracle, distance in zip(transcripts.ORACLES, (0.0, 1e-9, 0.01, 0.02, 0.03), strict=True)
    ]
    transcripts.draw_distances(figure, rows, "title")
    (axes,) = figure.axes
    drawn = {line.get_label(): list(np.asarray(line.get_ydata())) for line in axes.lines}
    for row in rows:
        assert drawn[row["oracle"]] == [row["distance"]]
    assert axes.get_ylim()[0] < 0 < axes.get_ylim()[1]


class TestLemma44:
    @pytest.mark.parametrize("oracle", transcripts.ORACLES)
    def test_an_algorithm_of_two_calls(self, oracle: str) -> None:
        row = lemma_4_4.enumerated("1", 2, Fraction(1, 50), oracle)
        assert row["holds"]
        assert 0 < row["distance"] < 0.02

    def test_candidates_that_are_too_few_do_not_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(laws, "candidates", lambda call, each: 2)
        assert not lemma_4_4.enumerated("1", 2, Fraction(1, 50), "exact")["holds"]

    def test_nor_does_a_tolerance_that_is_too_wide(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Forty times beta: the adversary has a margin."""
        honest = laws._estimate
        monkeypatch.setattr(
            laws, "_estimate", lambda asked, relative, oracle: honest(asked, 40 * relative, oracle)
        )
        assert not lemma_4_4.enumerated("1", 2, Fraction(1, 50), "to the middle")["holds"]

    def test_the_number_of_ones_is_binomial(self) -> None:
        assert lemma_4_4.sampled(Fraction(1, 10), 2, SEED)["holds"]

    def test_one_candidate_is_not_enough(self) -> None:
        assert lemma_4_4.single_candidate("0.5", 1)["distance"] > 0.1


class TestLemma45:
    @pytest.mark.parametrize("oracle", transcripts.ORACLES)
    def test_two_users_in_two_rounds(self, oracle: str) -> None:
        row = lemma_4_5.enumerated("1", 2, Fraction(1, 20), oracle)
        assert row["holds"]
        assert row["distance"] < 0.05

    def test_without_the_earlier_reports_it_does_not_hold(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert lemma_4_5.forgetful("1")["distance"] > 0.01

        def first_only(asked: Product, relative: Fraction, oracle: object) -> Fraction:
            """Answer by a product of expectations, as if a user's reports were independent."""
            found = Fraction(1)
            for factor in asked.factors:
                own = product_of((factor,))
                question = own.question(relative)
                (answer,) = transcripts.TRUTH.answer(Batch([question]))
                found *= own.estimate(answer.value, question)
            return found

        monkeypatch.setattr(laws, "_estimate", first_only)
        assert not lemma_4_5.enumerated("1", 1, Fraction(1, 100), "exact")["holds"]


class TestTheorem48:
    def test_a_learner_goes_there_and_back(self) -> None:
        (_, round_trip) = theorem_4_8.round_trips(quick=True)
        rows = theorem_4_8.travelled(round_trip, 1, SEED)
        assert [row["by"] for row in rows] == ["queries", "devices", "queries again"]
        assert all(row["holds"] for row in rows)
        assert rows[0]["asked"] < rows[1]["asked"] < rows[2]["asked"]

    def test_who_looks_for_another_target_fails(self) -> None:
        (_, round_trip) = theorem_4_8.round_trips(quick=True)
        rows = [
            theorem_4_8._row(round_trip, "devices", 10, 20, right, 0.05) for right in (20, 19, 10)
        ]
        assert [row["holds"] for row in rows] == [True, True, False]


def test_an_oracle_that_is_asked_once_says_the_same_ever_after() -> None:
    class Counts:
        def __init__(self) -> None:
            self.said = 0

        def answer(self, batch: Batch) -> Answers:
            answers = []
            for _ in batch.questions:
                self.said += 1
                answers.append(Answer((float(self.said),), (0.0,), (1.0,)))
            return tuple(answers)

    number = transcripts.SCHEMA["n"]
    one, two = (Question(predicate(number >= least), Fraction(1, 10)) for least in (1, 2))
    once = AskedOnce(Counts())
    first = once.answer(Batch([one, two, one]))
    assert [answer.value for answer in first] == [1, 2, 1]
    assert [answer.value for answer in once.answer(Batch([two]))] == [2]
    assert once.asked == 4
