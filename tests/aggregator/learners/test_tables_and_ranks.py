"""Marginals and quantiles: what they ask, and what they make of exact and of misleading answers."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    Batch,
    Crossing,
    Marginals,
    Presence,
    Quantiles,
    Question,
    hypothesis_from_json,
    marginals,
    quantiles,
)
from askance_aggregator.oracles import ExactOracle, WrongSideOracle, learn
from askance_aggregator.planning import plan
from askance_aggregator.planning.planner import rehearse
from askance_aggregator.queries import encode_columns, evaluate_columns
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Bits, Category, Integer, QueryKind, Real, Schema

HALF = Fraction(1, 2)
SCHEMA = Schema("s", 1, age=Integer(0, 99), colour=Category(["red", "blue"]), flags=Bits(2))
ROWS: dict[str, Any] = {
    "age": [10, 60, 30, 90, None],
    "colour": ["red", "blue", "red", "red", "red"],
    "flags": ["01", "11", "10", "01", "00"],
}


class TestMarginals:
    def learned(self, **settings: Any) -> Marginals:
        return learn(marginals(SCHEMA, bins=2, **settings), ExactOracle(SCHEMA, ROWS))

    def test_every_pair_of_columns_is_one_question(self) -> None:
        tables = self.learned().tables
        assert [table.columns for table in tables] == [
            ("age", "colour"),
            ("age", "flags[0]"),
            ("age", "flags[1]"),
            ("colour", "flags[0]"),
            ("colour", "flags[1]"),
            ("flags[0]", "flags[1]"),
        ]
        assert len(self.learned(way=3).tables) == 4
        assert len(self.learned(columns=["colour"], way=1).tables) == 1

    def test_shares_are_by_cell_and_those_who_lack_a_field_are_apart(self) -> None:
        table = self.learned().of("age", "colour")
        assert table.labels == (("0..49", "50..99"), ("red", "blue"))
        assert table.table.tolist() == [[0.4, 0.0], [0.2, 0.2]]
        assert table.missing == 0.2
        assert table.distribution == pytest.approx(table.table)
        assert str(table).splitlines()[:2] == ["age x colour", "  0..49, red: 0.4"]

    def test_a_marginal_sums_to_a_lesser_one(self) -> None:
        found = self.learned(way=2)
        assert found.of("colour", "flags[0]").table.sum(axis=1).tolist() == pytest.approx(
            [0.8, 0.2]
        )
        with pytest.raises(InvalidParameter, match="expected columns of a marginal"):
            found.of("colour", "age")

    def test_a_wrong_setting_or_file_is_named(self) -> None:
        for way in (0, 5, True):
            with pytest.raises(
                InvalidParameter, match=r"way: .* 1\.\.4, as there are 4 columns, got"
            ):
                marginals(SCHEMA, way=way)
        many = Schema("s", 1, x=Bits(200))
        with pytest.raises(InvalidParameter, match="at most 4096 marginals, found 19900"):
            marginals(many)
        data = self.learned().to_json()
        del data["marginals"][1]["columns"][0]
        with pytest.raises(InvalidParameter, match="labels per column and 3 shares"):
            hypothesis_from_json("marginals", data)


def one_threshold(at: float, question: Question) -> tuple[float, ...]:
    return (at,) * question.values


AGES = np.random.default_rng(2).binomial(99, 0.4, 3_001)


class TestQuantiles:
    ORACLE = ExactOracle(SCHEMA, {"age": AGES})

    def learned(self, **settings: Any) -> Quantiles:
        return learn(quantiles(SCHEMA, "age", **settings), self.ORACLE)

    def test_they_are_those_of_numpy(self) -> None:
        levels = ("1/10", "1/4", "1/2", "3/4", "9/10")
        found = self.learned(levels=levels, steps=100).quantiles
        expected = np.quantile(AGES, [float(Fraction(level)) for level in levels])
        assert [item.value for item in found] == expected.tolist()
        assert all(item.low == item.high for item in found)

    def test_coarse_steps_find_the_cell_that_holds_the_quantile(self) -> None:
        (found,) = self.learned(steps=10).quantiles
        assert (found.low, found.high) == (40, 49)
        assert found.low <= np.median(AGES) <= found.high
        assert str(self.learned(steps=10)) == (
            "quantiles of age: 1/2: 40 .. 49 (within 0 in rank);"
            " 0.0% of users without a value (0.0% .. 0.0%)"
        )

    @pytest.mark.parametrize("tau", [0.02, 0.2])
    def test_ranks_are_right_to_within_tau_under_unhelpful_answers(self, tau: float) -> None:
        levels = ["1/20", "1/2", "19/20"]
        learner = quantiles(SCHEMA, "age", levels, 100, tau)
        for threshold in (0.05, 0.5, 0.95):
            oracle = WrongSideOracle(self.ORACLE, partial(one_threshold, threshold))
            for item in learn(learner, oracle).quantiles:
                assert (item.low > AGES).mean() < item.level + tau
                assert (item.high >= AGES).mean() > item.level - tau

    @pytest.mark.parametrize(("reach", "told"), [(0.35, 0.2), (0.25, 0.1), (0.1, 0)])
    def test_a_cell_states_how_far_off_its_ranks_may_be(self, reach: float, told: float) -> None:
        """A median among four cells: up to the second .35, up to the third .65.

        At most .35 + reach lies below the cell and at least .65 - reach up to its end: the level is
        off its ranks by at most reach - .15.
        """
        shares = iter((0.35, 0.65))

        class Drawn:
            def answer(self, batch: Batch) -> Any:
                share, all_of_them = next(shares), Presence(1.0, 1.0, 1.0)
                low, high = share - reach, share + reach
                return (Answer((share,), (low,), (high,), present=all_of_them),)

        (found,) = learn(quantiles(SCHEMA, "age", ["1/2"], 4), Drawn()).quantiles
        assert (found.low, found.high) == (50, 74)
        assert found.within == pytest.approx(told)
        assert found.cell == f"50 .. 74 (within {told:g} in rank)"

    def test_users_who_are_few_are_asked_all_the_same(self) -> None:
        """A tolerance of 1/20, the former default, refused them."""
        planned = plan(quantiles(SCHEMA, "age"), 10**9, 0.05, 600)
        assert planned.feasible
        assert [item.users for item in planned.rounds] == [100] * 6

    def test_rounds_are_as_many_as_halvings_and_the_plan_knows_them(self) -> None:
        asked: list[Batch] = []

        class Watched:
            def answer(self, batch: Batch) -> Any:
                asked.append(batch)
                return TestQuantiles.ORACLE.answer(batch)

        learner = quantiles(SCHEMA, "age", ["1/4", "3/4"], 64)
        learn(learner, Watched())
        planned = plan(learner, 10**9, 0.01)
        assert len(asked) == len(planned.rounds) == 6
        assert [len(batch.questions) for batch in asked] == [2] * 6

    def test_a_real_number_s_cell_has_its_edges(self) -> None:
        schema = Schema("s", 1, x=Real(-1, 1))
        values = np.linspace(-1, 1, 1001)
        learner = quantiles(schema, "x", ["1/2", "99/100"], 8)
        found = learn(learner, ExactOracle(schema, {"x": values})).quantiles
        assert [(item.low, item.high) for item in found] == [(0.0, 0.25), (0.75, 1.0)]

    def test_levels_are_kept_in_rising_order_and_once(self) -> None:
        learner = quantiles(SCHEMA, "age", ["0.9", 0.5, "1/2"])
        assert learner.parameters["levels"] == "1/2,9/10"

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            (
                {"column": "colour"},
                "column: expected a number, got 'colour', a category",
            ),
            ({"column": "weight"}, "expected one of the fields age"),
            ({"levels": []}, "levels: expected shares"),
            ({"levels": ["1"]}, "levels: expected shares"),
            ({"steps": 1}, r"steps: expected a whole number in 2\.\.1024"),
            ({"tau": "x"}, "tau expects a finite number"),
        ],
    )
    def test_a_wrong_setting_is_named(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidParameter, match=message):
            quantiles(SCHEMA, **{"column": "age", **settings})


class Told:
    """Oracle of one share at each cut: right where it is tau off the level, else any side."""

    def __init__(self, ages: list[int], level: Fraction, tau: Fraction, seed: int) -> None:
        self.ages, self.level, self.tau = np.array(ages), level, tau
        self.rng = np.random.default_rng(seed)

    def answer(self, batch: Batch) -> Any:
        (question,) = batch.questions
        decision = question.decision
        assert isinstance(decision, Crossing)
        columns = encode_columns(SCHEMA, {"age": self.ages})
        cells = np.asarray(evaluate_columns(question.query, columns))
        if question.query.kind is QueryKind.CATEGORY:
            sums = [(cells <= cut).mean() for cut in range(decision.cells - 1)]
            told = [self.told(share) for share in sums]
            values = (*np.diff([0.0, *told, 1.0]), *[0.0] * decision.missing)
        elif question.query.kind is QueryKind.PREDICATE:
            values = (self.told(cells.mean()),)
        else:
            values = (self.told((cells > 0).mean()) - float(self.level),)
        return (Answer(values, values, values),)

    def told(self, share: float) -> float:
        if abs(share - float(self.level)) < self.tau:
            return float(self.level) + float(self.rng.choice([-0.01, 0.01]))
        return share


class Drawn:
    """Oracle of random answers, with the number of values of each batch."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.asked = rng, list[int]()

    def answer(self, batch: Batch) -> Any:
        self.asked.append(batch.values)
        drawn = (self.rng.normal(0.3, 1, item.values).tolist() for item in batch.questions)
        return tuple(Answer(*[tuple(values)] * 3) for values in drawn)


class TestWays:
    """Ranges that are cut into several parts, and what a study's plan makes of them."""

    HERE = Schema("s", 1, x=Real(0, 1))

    @pytest.mark.parametrize("ways", [2, 3, 8, 100])
    @pytest.mark.parametrize("missing", [None, "default"])
    def test_exact_answers_find_the_quantiles(self, ways: int, missing: str | None) -> None:
        levels = ("1/10", "1/4", "1/2", "3/4", "9/10")
        learner = quantiles(SCHEMA, "age", levels, 100, missing=missing, ways=ways)
        found = learn(learner, ExactOracle(SCHEMA, {"age": AGES}))
        expected = np.quantile(AGES, [float(Fraction(level)) for level in levels])
        assert [item.value for item in found.quantiles] == expected.tolist()
        assert [item.within for item in found.quantiles] == pytest.approx([0] * 5, abs=1e-9)
        assert (found.missing is None) == (missing == "default")

    @pytest.mark.parametrize("ways", [2, 4, 100])
    def test_users_without_the_number_are_left_out_or_above_all(self, ways: int) -> None:
        ages = np.array([*range(10, 70), *[None] * 40], dtype=object)
        oracle = ExactOracle(SCHEMA, {"age": ages})
        left_out = learn(quantiles(SCHEMA, "age", steps=100, ways=ways), oracle)
        assert left_out.missing is not None
        assert left_out.quantiles[0].value == 39
        assert left_out.missing.share == pytest.approx(0.4)
        above = learn(quantiles(SCHEMA, "age", steps=100, missing="default", ways=ways), oracle)
        assert above.quantiles[0].value == 59

    @pytest.mark.parametrize("ways", [2, 4, 64])
    @pytest.mark.parametrize("missing", [None, "default"])
    def test_ranks_are_right_to_within_tau_if_far_signs_are(
        self, ways: int, missing: str | None
    ) -> None:
        """Flat near the median, with jumps, and all at one age; 40 runs each."""
        level, tau = HALF, Fraction(1, 20)
        for ages in ([*[5] * 46, *range(20, 28), *[90] * 46], [*range(100)], [50] * 100):
            for seed in range(40):
                learner = quantiles(SCHEMA, "age", [level], 64, tau, missing, ways=ways)
                (item,) = learn(learner, Told(ages, level, tau, seed)).quantiles
                assert np.mean([age < item.low for age in ages]) < level + tau
                assert np.mean([age <= item.high for age in ages]) > level - tau

    @pytest.mark.parametrize(
        ("epsilon", "ways", "most"),
        [
            (".25", "2", 366_000),
            ("1", "2", 26_200),
            ("2", "4", 8_100),
            ("4", "8", 2_700),
            ("8", "64", 1_100),
        ],
    )
    def test_a_plan_takes_the_ways_that_need_the_fewest_users(
        self, epsilon: str, ways: str, most: int
    ) -> None:
        """Halving, with every answer within tau, took 678,648 to 6,462; it takes a quarter more."""
        learner = quantiles(self.HERE, "x", tau="1/20")
        made = Study(learner, self.HERE, epsilon=epsilon).plan()
        assert made.settings == {"ways": ways}
        assert made.users_needed <= most
        assert plan(learner, int(float(epsilon) * 10**9), 0.01).users_needed > 1.25 * most

    def test_the_first_question_serves_all_levels(self) -> None:
        """Three levels took 18 questions and 10,722 users at epsilon 8."""
        study = Study(
            quantiles(self.HERE, "x", ["1/4", "1/2", "3/4"], tau="1/20"), self.HERE, epsilon=8
        )
        made = study.plan()
        assert [item.queries for item in made.rounds] == [1]
        assert made.users_needed <= 1_300

    def test_only_a_study_with_a_tau_leaves_the_ways_to_its_plan(self) -> None:
        """The choice is signed as 0; without it ranges are halved, as they were."""
        signed = Study(quantiles(self.HERE, "x", tau="1/20"), self.HERE, epsilon=1).learner
        assert signed.parameters["ways"] == "0"
        assert (
            "ways" not in Study(quantiles(self.HERE, "x"), self.HERE, epsilon=1).learner.parameters
        )
        given = Study(quantiles(self.HERE, "x", tau="1/20", ways=4), self.HERE, epsilon=1).learner
        assert given.parameters["ways"] == "4"

    def test_a_rehearsal_is_the_longest_run(self) -> None:
        rng = np.random.default_rng(1)
        for cells, ways, count, missing in product(
            (2, 10, 17), (2, 3, 4, 64), (1, 3), (None, "default")
        ):
            levels = [Fraction(place + 1, count + 1) for place in range(count)]
            schema = Schema("s", 1, n=Integer(0, cells - 1))
            learner = quantiles(schema, "n", levels, max(cells, 2), "1/10", missing, ways=ways)
            planned = [batch.values for batch in rehearse(learner)]
            for _ in range(4):
                oracle = Drawn(rng)
                learn(learner, oracle)
                assert len(oracle.asked) <= len(planned)
                assert sum(oracle.asked) <= sum(planned)

    @pytest.mark.parametrize("ways", [1, -1, 2_000, True])
    def test_wrong_ways_are_named(self, ways: int) -> None:
        with pytest.raises(InvalidParameter, match=r"ways: expected a whole number in 2\.\.1024"):
            quantiles(SCHEMA, "age", ways=ways)
