"""Ranges: what a tree of histograms asks, and what it makes of exact and of drawn answers."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    Ranges,
    hypothesis_from_json,
    quantiles,
    ranges,
)
from askance_aggregator.learners.ranges import _apart
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.reports.report import Grid, presentation_body
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Integer, Real, Schema
from askance_simulation.experiments import simulate
from askance_simulation.populations import Population

SCHEMA = Schema("s", 1, age=Integer(17, 90), height=Real(-1, 1), smokes=Bit())
RNG = np.random.default_rng(6)
AGES = RNG.binomial(73, 0.4, 4_000) + 17
HEIGHTS = np.round(RNG.uniform(-1, 1, 4_000) * 1024) / 1024
MISSING = 1_000
ORACLE = ExactOracle(
    SCHEMA,
    {
        "age": np.array([*AGES, *[None] * MISSING], dtype=object),
        "height": np.append(HEIGHTS, [1.0] * MISSING),
    },
)
PEOPLE = len(AGES) + MISSING


def learned(column: str = "age", **settings: Any) -> Ranges:
    return learn(ranges(SCHEMA, column, **settings), ORACLE)


class TestQuestions:
    @pytest.mark.parametrize(
        ("steps", "arity", "cells"),
        [(64, 4, [5, 17, 65]), (10, 3, [3, 5, 11]), (1024, 4, [3, 6, 20, 75]), (16, 16, [17])],
    )
    def test_a_level_is_a_histogram_of_ever_smaller_ranges_and_one_for_those_without_a_number(
        self, steps: int, arity: int, cells: list[int]
    ) -> None:
        batch = ranges(SCHEMA, "age", steps, arity, "1/10").batch
        assert [question.values for question in batch.questions] == cells
        assert {question.tau for question in batch.questions} == {Fraction(1, 10)}

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"column": "smokes"}, "ranges: column: expected a number, got 'smokes', a bit"),
            ({"column": "weight"}, "expected one of the fields age"),
            ({"steps": 1}, r"bins: expected a whole number in 2\.\.1024"),
            ({"arity": 1}, r"arity: expected a whole number in 2\.\.1024, got 1"),
            ({"tau": "x"}, "tau expects a finite number"),
        ],
    )
    def test_a_wrong_setting_is_named(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidParameter, match=message):
            ranges(SCHEMA, **{"column": "age", **settings})


class TestExactAnswers:
    @pytest.mark.parametrize(("steps", "arity"), [(74, 2), (1024, 4), (10, 3)])
    def test_every_range_has_its_share(self, steps: int, arity: int) -> None:
        whole = learned(steps=steps, arity=arity)
        for low, high in zip(whole.ends, whole.ends[3:], strict=False):
            share = whole.share(low, high)
            true = ((low <= AGES) & (high > AGES)).sum() / (PEOPLE - MISSING)
            assert (share.value, share.low, share.high) == pytest.approx((true, true, true))
        assert whole.missing == pytest.approx(MISSING / PEOPLE)

    def test_a_real_number_s_last_cell_has_its_end(self) -> None:
        real = learned("height", steps=8)
        assert real.ends == (-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1)
        assert real.share(0.75, 1).value == pytest.approx(
            ((HEIGHTS >= 0.75).sum() + MISSING) / PEOPLE
        )
        assert real.quantile("99/100").high == 1

    def test_quantiles_are_those_of_the_search(self) -> None:
        """A single round gives the same cells as binary search in six."""
        levels = ["1/10", "1/4", "1/2", "7/10"]
        searched = learn(quantiles(SCHEMA, "age", levels, 64), ORACLE).quantiles
        together = learned(steps=64)
        found = [together.quantile(level) for level in levels]
        cells = [(item.level, item.low, item.high) for item in searched]
        assert [(item.level, item.low, item.high) for item in found] == cells
        ages = np.quantile(AGES, [0.1, 0.25, 0.5, 0.7], method="inverted_cdf")
        assert [item.value for item in found] == pytest.approx(ages, abs=1)

    def test_it_tells_its_quartiles(self) -> None:
        assert str(learned(steps=74)) == (
            "age in 74 cells; 1/4: 43 (43), median 46 (46), 3/4: 49 (49);"
            " 20.0% of users without a value (20.0% .. 20.0%)"
        )


class TestBand:
    """Four cells of one level. Shares up to 1, 2, 3: .05 to .15, .45 to .6, .45 to .6."""

    RAW = Answer((0.1, 0.5, -0.1, 0.5, 0), (0.05, 0.4, 0, 0.4, 0), (0.15, 0.6, 0.05, 0.6, 0))

    @pytest.mark.parametrize(
        ("level", "low", "high", "text"),
        [
            ("1/10", 0, 2, "at most 2"),
            ("1/5", 1, 2, "1 to 2"),
            ("2/5", 1, 2, "1 to 2"),
            ("1/2", 1, 4, "1 or more"),
            ("3/4", 3, 4, "3 or more"),
            ("1/25", 0, 1, "at most 1"),
        ],
    )
    def test_a_quantile_lies_where_the_band_lets_it(
        self, level: str, low: float, high: float, text: str
    ) -> None:
        one = Ranges("x", (0.0, 1.0, 2.0, 3.0, 4.0), False, 4, (self.RAW,))
        found = one.quantile(level)
        assert (found.low, found.high) == (low, high)
        assert low <= found.value <= high
        assert one._interval(found) == text

    def test_a_rounded_quartile_lies_in_its_interval(self) -> None:
        """The tens, to which cells of 11 have it rounded, have 50 for 48."""
        some = Answer((0.5, 0.5, 0), (0.5, 0, 0), (1, 0.5, 0))
        one = Ranges("x", (37.0, 48.0, 59.0), False, 2, (some,))
        assert "median 48 (at most 48)" in str(one)

    def test_shares_and_both_ends_rise(self) -> None:
        """The raw shares up to 2 and 3 are .6 and .5: their mean stands for both."""
        found = Ranges("x", (0.0, 1.0, 2.0, 3.0, 4.0), False, 4, (self.RAW,)).cumulative
        assert found.values == pytest.approx((0.1, 0.55, 0.55, 1))
        assert found.lows == pytest.approx((0.05, 0.45, 0.45, 1))
        assert found.highs == pytest.approx((0.15, 0.6, 0.6, 1))

    def test_answers_that_say_nothing_say_so(self) -> None:
        nothing = Answer((0.5, 0.5, 0), (0, 0, 0), (1, 1, 1))
        one = Ranges("x", (0.0, 1.0, 2.0), False, 2, (nothing,))
        assert "median 1 (anywhere within the bounds)" in str(one)


class TestDrawnAnswers:
    @pytest.mark.parametrize("epsilon", [1, 4])
    def test_intervals_of_quartiles_hold_the_quartiles(self, epsilon: int) -> None:
        """20 studies of 2,000 users; 19 of 20 hold all, so 14 or fewer have a chance below 1e-3.

        The cell in which the estimated share passes the level holds the quartile in two of three.
        """
        schema = Schema("s", 1, number=Integer(0, 99))
        held = 0
        for seed in range(20):
            values = np.random.default_rng(seed).binomial(99, 0.4, 2_000)
            people = Population.from_columns(schema, {"number": values})
            study = Study(ranges(schema, "number", 50), schema, epsilon=epsilon)
            found = simulate(study, people, fleet="tally", seed=seed).hypothesis
            quartiles = np.sort(values)[[499, 999, 1499]]
            pairs = zip((found.quantile(f"{i}/4") for i in (1, 2, 3)), quartiles, strict=True)
            held += all(item.low <= true <= item.high for item, true in pairs)
            assert np.all(np.diff(found.cumulative.values) >= -1e-12)
        assert held >= 15

    @staticmethod
    def drawn(arity: int, seed: int) -> tuple[Ranges, Any]:
        people = Population.generated("numbers", 20_000, seed=seed)
        study = Study(ranges(people.schema, "number", 256, arity), people.schema, epsilon=1)
        values = np.asarray(people.columns(0, 20_000).values["number"]) / 2**16
        return simulate(study, people, fleet="columns", seed=seed).hypothesis, values

    def test_a_tree_tells_ranges_better_than_a_histogram_and_better_when_consistent(self) -> None:
        """Mean squared errors of ranges of 100 of 256 cells, times the users, at epsilon 1.

        They are about 40 for the consistent tree, three times that for raw sums of its ranges, and
        four times for cells.
        """
        errors: dict[str, list[float]] = {"consistent": [], "raw": [], "histogram": []}
        for seed in (1, 2):
            tree, values = self.drawn(4, seed)
            flat, _ = self.drawn(256, seed)
            for first in range(1, 150, 7):
                low, high = tree.ends[first], tree.ends[first + 100]
                true = ((low <= values) & (high > values)).mean()
                nodes = tree._tree.nodes(first, first + 100)
                raw = sum(tree.answers[level].values[node] for level, node in nodes)
                errors["consistent"].append(tree.share(low, high).value - true)
                errors["raw"].append(raw - true)
                errors["histogram"].append(flat.share(low, high).value - true)
        squares = {name: float(np.square(missed).mean()) for name, missed in errors.items()}
        assert squares["consistent"] < squares["raw"] / 1.3
        assert squares["consistent"] < squares["histogram"] / 2

    def test_intervals_hold_for_all_ranges_together(self) -> None:
        tree, values = self.drawn(4, 3)
        for first in range(0, 256, 15):
            for stop in range(first + 1, 257, 15):
                low, high = tree.ends[first], tree.ends[stop]
                share = tree.share(low, high)
                true = ((low <= values) & ((high > values) | (high == 1))).mean()
                assert share.low <= true <= share.high
        everybody = tree.share(0, 1)
        assert everybody.value == pytest.approx(1)

    def test_levels_add_up(self) -> None:
        tree, _ = self.drawn(4, 4)
        for coarse, fine in zip(tree.levels, tree.levels[1:], strict=False):
            parts = np.array(fine.values[:-1]).reshape(-1, 4).sum(axis=1)
            assert parts == pytest.approx(np.array(coarse.values[:-1]))


class TestSaved:
    def test_it_is_read_as_it_was_written(self) -> None:
        for one in (learned(steps=10), learned("height", steps=8, arity=2)):
            data = json.loads(json.dumps(one.to_json(), allow_nan=False))
            again = hypothesis_from_json("ranges", data)
            assert again == one
            assert again.levels == one.levels

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"ends": [0, 1, 1]}, "rising ends"),
            ({"ends": [0, 1]}, "2 or more cells, found 1"),
            ({"arity": 1}, "arity: expected"),
            ({"levels": []}, "levels of"),
            ({"levels": [{"estimates": [1], "lows": [1]}]}, "expected highs, got none"),
            ({"whole": 0.5}, "whole numbers as whole"),
        ],
    )
    def test_what_is_no_saved_hypothesis_is_named(
        self, change: dict[str, Any], message: str
    ) -> None:
        data = {**learned(steps=2).to_json(), **change}
        with pytest.raises(InvalidParameter, match=message):
            hypothesis_from_json("ranges", data)

    def test_what_is_no_range_is_refused(self) -> None:
        one = Ranges("x", (0.0, 1.0, 2.0), False, 2, (Answer((0.5, 0.5, 0), (0, 0, 0), (1, 1, 1)),))
        assert one.share(0, 2) == Answer((1.0,), (0.0,), (1.0,))
        for low, high in ((0, 3), (0.5, 1), (1, 1), (2, 0)):
            with pytest.raises(InvalidParameter, match="x: expected two rising ends"):
                one.share(low, high)
        for level in ("0", "1"):
            with pytest.raises(InvalidParameter, match="level expects a share"):
                one.quantile(level)


class TestApart:
    @pytest.mark.parametrize(
        ("intervals", "places"),
        [
            ([(0.0, 0.4), (0.1, 0.5), (0.3, 0.9)], ()),  # each overlaps each
            ([(0.0, 0.4), (0.0, 0.5), (0.6, 0.9), (0.6, 1.0)], (0, 2)),
            # The third place is narrower than the first, and ends below the fourth.
            ([(0.0, 0.4), (0.1, 0.45), (0.2, 0.5), (0.6, 0.9), (0.95, 1.0)], (2, 3, 4)),
            ([(n / 10, n / 10) for n in range(1, 10)], tuple(range(9))),
        ],
    )
    def test_rows_that_are_shown_are_those_that_intervals_tell_apart(
        self, intervals: list[tuple[float, float]], places: tuple[int, ...]
    ) -> None:
        lows, highs = zip(*intervals, strict=True)
        assert _apart(lows, highs) == places

    def test_quartiles_are_first_and_all_rows_are_there_on_demand(self) -> None:
        people = Population.from_columns(Schema("s", 1, age=SCHEMA.fields["age"]), {"age": AGES})
        study = Study(ranges(people.schema, "age"), people.schema, epsilon="0.5")
        result = simulate(study, people, seed=1)
        shown = result.presentation
        assert len(shown.rows) == 64
        for every, printed in ((False, len(shown.apart or ())), (True, 64)):
            first, *tables = presentation_body(shown, (), every=every, verbose=False)
            assert str(first).startswith("  quartiles (joint intervals): 1/4: ")
            assert sum(len(one.rows) for one in tables if isinstance(one, Grid)) == printed < 65
