"""Errors of hypotheses: exact shares of a whole domain, and estimates against the users."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    Answers,
    Batch,
    Conjunction,
    FrequencyEstimate,
    HeavyHitter,
    HeavyHitters,
    Learner,
    Learning,
    MaskedParity,
    MeanEstimate,
    Question,
    Ranges,
    adaptive,
    conjunctions,
    conjunctions_schema,
    frequency,
    heavy_hitters,
    masked_parity,
    masked_parity_schema,
    mean,
    non_adaptive,
    ranges,
)
from askance_aggregator.learners.assessments import Assessment, assess
from askance_aggregator.learners.heavy_hitters import census
from askance_aggregator.queries import category, predicate, real
from askance_client.queries import Bit, Bits, Category, Integer, Schema
from askance_simulation.populations import Population
from askance_simulation.populations import conjunctions as conjunctions_world
from askance_simulation.populations import masked_parity as masked_parity_world
from askance_simulation.randomness import Seed

SCHEMA = Schema("s", 1, colour=Category(("red", "green", "blue")), n=Integer(0, 9), smokes=Bit())
PEOPLE = Population.from_columns(
    SCHEMA,
    {
        "colour": np.array(["red", "red", "blue", None, "red"], dtype=object),
        "n": np.array([1, 2, 3, 9, None], dtype=object),
        "smokes": [1, 0, 0, 1, 1],
    },
)
NOTHING = Assessment(None, None)


def labelled(world: Population, target: object) -> Population:
    """Return the same users, with another concept as their target."""
    return Population(world.name, world.schema, world.size, world.columns, target=target)


class TestMaskedParity:
    WORLD = masked_parity_world(1, Seed.of(0), 4)
    LEARNER = masked_parity(masked_parity_schema(4))
    CONCEPTS = tuple(MaskedParity(bits[:4], bits[4]) for bits in product((0, 1), repeat=5))

    def test_the_error_is_the_share_of_the_domain_on_which_they_differ(self) -> None:
        """All 32 x 32 pairs of concepts, over all 16 x 4 x 2 points."""
        points = list(product(product((0, 1), repeat=4), range(4), (0, 1)))
        domain = {
            "x": np.array([x for x, _, _ in points]),
            "i": np.array([i for _, i, _ in points]),
            "b": np.array([b for _, _, b in points]),
        }
        labels = {concept: concept.predict(domain) for concept in self.CONCEPTS}
        for target in self.CONCEPTS:
            world = labelled(self.WORLD, target)
            for found in self.CONCEPTS:
                share = Fraction(int((labels[found] != labels[target]).sum()), len(points))
                assessment = assess(found, self.LEARNER, world)
                constant = min(float((labels[target] == label).mean()) for label in (1, -1))
                assert assessment == Assessment(found == target, float(share), baseline=constant)

    def test_people_that_no_concept_labels_say_nothing(self) -> None:
        world = labelled(self.WORLD, None)
        assert assess(self.CONCEPTS[0], self.LEARNER, world) == NOTHING


class TestConjunction:
    WORLD = conjunctions_world(1, Seed.of(0), 3, 1)
    LEARNER = conjunctions(conjunctions_schema(3))
    CONCEPTS = tuple(
        Conjunction(3, chosen)
        for chosen in chain.from_iterable(combinations(range(3), n) for n in range(4))
    )

    def test_the_error_is_the_share_of_rows_on_which_they_differ(self) -> None:
        """All 8 x 8 pairs of conjunctions, over all 8 rows."""
        rows = list(product((0, 1), repeat=3))
        for target, found in product(self.CONCEPTS, repeat=2):
            differ = sum(
                all(row[j] for j in target.variables) != all(row[j] for j in found.variables)
                for row in rows
            )
            assessment = assess(found, self.LEARNER, labelled(self.WORLD, target))
            true = sum(all(row[j] for j in target.variables) for row in rows) / 8
            assert assessment == Assessment(
                found == target, differ / 8, baseline=min(true, 1 - true)
            )

    def test_people_that_no_conjunction_labels_say_nothing(self) -> None:
        assert assess(self.CONCEPTS[0], self.LEARNER, labelled(self.WORLD, None)) == NOTHING


def shares(*found: tuple[float, float, float]) -> FrequencyEstimate:
    """Return an estimate of colours from (value, low, high) a cell."""
    values, lows, highs = zip(*found, strict=True)
    return FrequencyEstimate(("red", "green", "blue"), Answer(values, lows, highs))


class TestFrequency:
    """A user without a colour counts as the query's public default."""

    QUERY = category(SCHEMA["colour"])
    LEARNER = frequency(QUERY)

    def test_the_truth_is_what_the_people_would_say(self) -> None:
        counts = [3, 0, 1]
        counts[self.QUERY.default] += 1
        assessment = assess(shares(*[(0, 0, 1)] * 3), self.LEARNER, PEOPLE)
        assert assessment.truth == tuple(count / 5 for count in counts)

    def test_it_succeeds_when_every_interval_covers_and_errs_by_the_farthest_cell(self) -> None:
        truth = assess(shares(*[(0, 0, 1)] * 3), self.LEARNER, PEOPLE).truth
        exact = [(share, share, share) for share in truth]
        assessment = assess(shares(*exact), self.LEARNER, PEOPLE)
        assert (assessment.success, assessment.error, assessment.truth) == (True, 0.0, truth)
        assert assessment.baseline == pytest.approx(max(abs(share - 1 / 3) for share in truth))
        for cell, share in enumerate(truth):
            off = [*exact]
            off[cell] = (share + 0.25, share + 0.125, 1.0)
            assessment = assess(shares(*off), self.LEARNER, PEOPLE)
            assert (assessment.success, assessment.truth) == (False, truth)
            assert assessment.error == pytest.approx(0.25)


class TestHeavyHitters:
    """Five users: three red, one blue, one without a colour."""

    @pytest.mark.parametrize(
        ("threshold", "found", "error", "success"),
        [
            ("3/10", ["red"], 0, True),
            ("3/10", [], Fraction(3, 10), False),  # red's share less the threshold
            ("3/10", ["red", "blue"], Fraction(1, 10), False),  # the threshold less blue's share
            ("3/10", ["red", "green"], Fraction(3, 10), False),
            # Within tau of the threshold nothing is promised; it counts all the same.
            ("11/20", [], Fraction(1, 20), False),
            ("11/20", ["red"], 0, True),
            ("13/20", ["red"], Fraction(1, 20), False),
            ("13/20", [], 0, True),
        ],
    )
    def test_the_error_is_the_most_by_which_a_share_misses_the_threshold(
        self, threshold: str, found: list[str], error: Fraction, success: bool
    ) -> None:
        learner = heavy_hitters(SCHEMA, "colour", threshold, tau="1/10")
        items = tuple(HeavyHitter(value, 0.5, 0.4, 0.6) for value in found)
        assessment = assess(HeavyHitters("colour", Fraction(threshold), items), learner, PEOPLE)
        assert (assessment.success, assessment.error) == (success, float(error))
        assert assessment.baseline == max(0.0, float(Fraction(3, 5) - Fraction(threshold)))

    def test_values_are_listed_as_true_found_missed_wrong_and_borderline(self) -> None:
        learner = heavy_hitters(SCHEMA, "colour", "11/20", tau="1/10")
        items = (HeavyHitter("blue", 0.6, 0.5, 0.7),)
        assessment = assess(HeavyHitters("colour", Fraction(11, 20), items), learner, PEOPLE)
        red, blue = {"value": "red", "share": 0.6}, {"value": "blue", "share": 0.2}
        assert assessment.details == {
            "true": [red], "found": [blue], "missed": [red], "wrong": [blue], "borderline": [red]
        }  # fmt: skip
        assert assessment.summary == (
            "found 0 of 1 with a share of 11/20 or more; missed red (0.6);"
            " wrongly found blue (0.2); 1 of these borderline: within tau of the threshold"
        )

    def test_everybody_s_value_is_counted_by_the_name_that_is_found(self) -> None:
        assert census("colour", PEOPLE) == {"red": Fraction(3, 5), "blue": Fraction(1, 5)}
        assert census("n", PEOPLE) == {n: Fraction(1, 5) for n in (1, 2, 3, 9)}
        schema = Schema("s", 1, x=Bits(40))
        people = Population.from_columns(schema, {"x": ["01" * 20, "1" * 40, "01" * 20]})
        assert census("x", people) == {"01" * 20: Fraction(2, 3), "1" * 40: Fraction(1, 3)}


class TestRanges:
    """Five users, of whom four have a number: 1, 2, 3 and 9."""

    LEARNER = ranges(SCHEMA, "n", 2, 2)

    @pytest.mark.parametrize(
        ("below_five", "success", "error"),
        [(0.6, True, 0.0), (0.4, True, 0.25), (0.2, False, 0.5)],
    )
    def test_shares_up_to_a_cell_s_end_are_held_against_those_with_a_number(
        self, below_five: float, success: bool, error: float
    ) -> None:
        values = (below_five, 0.8 - below_five, 0.2)
        lows = tuple(max(value - 0.3, 0) for value in values)
        highs = tuple(value + 0.3 for value in values)
        answer = Answer(values, lows, highs)
        assessment = assess(Ranges("n", (0, 5, 10), True, 2, (answer,)), self.LEARNER, PEOPLE)
        assert assessment.truth == pytest.approx((0.75, 1.0))
        assert assessment.error == pytest.approx(error)
        assert assessment.success is success

    def test_all_of_them_together_are_all(self) -> None:
        """Ten tenths summed as floats are less than 1, where every interval of all ends."""
        schema = Schema("s", 1, n=Integer(0, 9))
        people = Population.from_columns(schema, {"n": np.arange(10)})
        values = (*[0.1] * 10, 0.0)
        answer = Answer(values, values, values)
        assessment = assess(
            Ranges("n", tuple(range(11)), True, 16, (answer,)), ranges(schema, "n", 10, 16), people
        )
        assert assessment.truth[-1] == 1


class TestMean:
    # The number that is missing is answered by the default, the middle of 0 .. 9/4.
    QUARTERS = (Fraction(1 + 2 + 3 + 9, 4) + Fraction(9, 8)) / 5

    @pytest.mark.parametrize(
        ("learner", "truth"),
        [
            (mean(predicate(SCHEMA["smokes"] == 1)), Fraction(3, 5)),
            (mean(SCHEMA["smokes"]), Fraction(3, 5)),
            (mean(real(SCHEMA["n"] * 0.25)), QUARTERS),
        ],
    )
    def test_the_truth_is_in_real_units(self, learner: Learner[Any], truth: Fraction) -> None:
        assessment = assess(MeanEstimate(0.5, 0.25, 2.0), learner, PEOPLE)
        (found,) = assessment.truth
        assert found == pytest.approx(float(truth), abs=2**-12)
        assert assessment.success
        assert assessment.error == abs(0.5 - found)

    @pytest.mark.parametrize(("low", "high"), [(0.0, 0.59), (0.61, 1.0)])
    def test_it_fails_when_the_interval_misses(self, low: float, high: float) -> None:
        learner = mean(predicate(SCHEMA["smokes"] == 1))
        assert assess(MeanEstimate(0.6, low, high), learner, PEOPLE).success is False

    def test_more_people_than_a_chunk_are_all_counted(self) -> None:
        many = Population.from_columns(
            Schema("s", 1, smokes=Bit()), {"smokes": np.arange(70_000) % 7 == 0}
        )
        learner = mean(predicate(many.schema["smokes"] == 1))
        assessment = assess(MeanEstimate(0.0, 0.0, 1.0), learner, many)
        assert assessment.truth == (10_000 / 70_000,)


@adaptive("twice")
def twice(schema: Schema) -> Learning[MeanEstimate]:
    """Ask the same question twice and conclude the second answer."""
    question = Question(predicate(schema["smokes"] == 1))
    yield Batch([question])
    (answer,) = yield Batch([question])
    return MeanEstimate(answer.value, answer.low, answer.high)


@non_adaptive("two")
def two(schema: Schema) -> tuple[Batch, Callable[[Answers], MeanEstimate]]:
    """Ask for two shares and return their difference."""
    batch = Batch([Question(predicate(schema["n"] > n)) for n in (1, 5)])
    return batch, lambda a: MeanEstimate(a[0].value - a[1].value, -1.0, 1.0)


class TestOthers:
    @pytest.mark.parametrize("learner", [twice(SCHEMA), two(SCHEMA), frequency(SCHEMA["colour"])])
    def test_an_estimate_of_what_no_single_question_asked_is_not_judged(
        self, learner: Learner[Any]
    ) -> None:
        assert assess(MeanEstimate(0.5, 0.0, 1.0), learner, PEOPLE) == NOTHING

    def test_shares_of_what_no_single_question_asked_are_not_judged(self) -> None:
        assessment = assess(shares(*[(0, 0, 1)] * 3), mean(SCHEMA["smokes"]), PEOPLE)
        assert assessment == NOTHING

    def test_any_other_hypothesis_is_compared_with_the_target(self) -> None:
        learner = twice(SCHEMA)
        assert assess("a", learner, PEOPLE) == NOTHING
        assert assess("a", learner, labelled(PEOPLE, "a")) == Assessment(True, 0.0)
        assert assess("b", learner, labelled(PEOPLE, "a")) == Assessment(False, 1.0)
