"""Changes of a population: labels that are wrong, users who become others from round to round.

Chances are held against counts by exact binomial tails with a fixed seed at ALPHA = 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_client.queries import (
    Category,
    Integer,
    Label,
    Real,
    Schema,
)
from askance_simulation.experiments import named
from askance_simulation.populations import (
    POPULATIONS,
    Population,
    categories,
    conjunctions,
    label_noise,
    masked_parity,
    moving,
    numbers,
    traits,
)
from askance_simulation.populations.columns import below
from askance_simulation.populations.population import MAX_USERS, build
from askance_simulation.randomness import Seed

ALPHA = 1e-6
SEED = Seed.of(21)
USERS = 40_000


def column(people: Population, name: str) -> NDArray[np.int64]:
    return np.asarray(people.columns(0, people.size).values[name])


def assert_share(which: NDArray[np.bool_], chance: Fraction) -> None:
    """Run a two-sided exact binomial test; USERS = 40,000 detect an error of 0.013."""
    found, p = int(which.sum()), float(chance)
    assert binom.cdf(found, len(which), p) > ALPHA / 2
    assert binom.sf(found - 1, len(which), p) > ALPHA / 2


def assert_same(one: EncodedColumns, other: EncodedColumns) -> None:
    assert one.rows == other.rows
    for name in one.values:
        assert np.array_equal(np.asarray(one.values[name]), np.asarray(other.values[name]))
        assert np.array_equal(one.present[name], other.present[name])


class TestChances:
    @pytest.mark.parametrize("chance", ["0", "1/3", "1/2", "1", "1/18446744073709551616"])
    def test_so_many_of_all_words_and_no_other(self, chance: str) -> None:
        last = round(Fraction(chance) * 2**64)
        edges = [word for word in (last - 1, last) if 0 <= word < 2**64]
        found = below(np.array(edges, np.uint64), Fraction(chance))
        assert found.tolist() == [word < last for word in edges]


class TestLabelNoise:
    @pytest.mark.parametrize("rate", ["1/10", "0.5", Fraction(9, 10), 0.25])
    def test_so_many_labels_are_wrong(self, rate: str | Fraction | float) -> None:
        people = traits(USERS, SEED)
        noisy = people.with_label_noise(rate, seed=4)
        assert_share(column(noisy, "y") != column(people, "y"), Fraction(rate))

    def test_a_wrong_label_is_any_of_the_others(self) -> None:
        """Given the truth, four wrong ones of five are equally likely: chi-square, 20 cells."""
        people = categories(USERS, SEED, 5)
        noisy = people.with_label_noise("1/2", label="category")
        truth, told = column(people, "category"), column(noisy, "category")
        statistic = 0.0
        for label in range(5):
            wrong = told[(truth == label) & (told != label)]
            counts = np.bincount(wrong, minlength=5)[np.arange(5) != label]
            statistic += float(((counts - len(wrong) / 4) ** 2 / (len(wrong) / 4)).sum())
        assert statistic < chi2.isf(ALPHA, 5 * 3)

    def test_nobody_and_everybody(self) -> None:
        people = conjunctions(500, SEED)
        assert (column(people.with_label_noise(0), "y") == column(people, "y")).all()
        assert (column(people.with_label_noise(1), "y") == 1 - column(people, "y")).all()

    def test_nothing_else_changes(self) -> None:
        people = traits(500, SEED)
        noisy = people.with_label_noise("0.3")
        for name in ("age", "height", "colour", "member", "answers"):
            assert np.array_equal(column(noisy, name), column(people, name))
        assert people.unseen is not None
        assert noisy.unseen is not None
        assert_same(noisy.unseen(100), people.unseen(100))
        assert (
            masked_parity(9, SEED).with_label_noise("0.3").target == masked_parity(9, SEED).target
        )
        assert noisy.notes == (
            "each user's y is another one with chance 3/10; the target is what it was",
        )

    def test_a_label_that_is_missing_stays_missing(self) -> None:
        schema = Schema("few", 1, y=Label(["a", "b", "c"]))
        people = Population.from_columns(schema, {"y": ["a", None, "c", "b"] * 50})
        truth, noisy = people.columns(0, 200), people.with_label_noise(1).columns(0, 200)
        assert np.array_equal(noisy.present["y"], truth.present["y"])
        changed = np.asarray(noisy.values["y"]) != np.asarray(truth.values["y"])
        assert np.array_equal(changed, truth.present["y"])

    def test_the_seed_says_whose(self) -> None:
        people = conjunctions(500, SEED)
        one, same, other = (
            column(people.with_label_noise("1/2", seed=seed), "y") for seed in (1, 1, 2)
        )
        assert np.array_equal(one, same)
        assert not np.array_equal(one, other)

    def test_the_same_labels_are_wrong_in_every_round(self) -> None:
        people = categories(500, SEED, 8, turn=3)
        noisy = label_noise(people, "1/2", SEED, label="category")
        for number in (0, 1, 7):
            truth, told = people.in_round(number), noisy.in_round(number)
            steps = (column(told, "category") - column(truth, "category")) % 8
            if number == 0:
                first = steps
            assert np.array_equal(steps, first)

    @pytest.mark.parametrize(
        ("people", "rate", "label", "message"),
        [
            (conjunctions, "1.5", None, "expected a chance in \\[0, 1\\], got 3/2"),
            (conjunctions, "-0.1", None, "expected a chance in"),
            (conjunctions, "often", None, "label-noise expects a finite number"),
            (numbers, "0.1", None, "expected a population with one label, got 0"),
            (numbers, "0.1", "number", "expected a label of two values or more, got 'number'"),
            (numbers, "0.1", "colour", "got 'colour'"),
        ],
    )
    def test_anything_else_is_one_clear_error(
        self,
        people: Callable[[int, Seed], Population],
        rate: str,
        label: str | None,
        message: str,
    ) -> None:
        with pytest.raises(InvalidParameter, match=message):
            people(10, SEED).with_label_noise(rate, label=label)


class TestMoving:
    def test_the_share_that_has_moved_is_what_the_rate_says(self) -> None:
        """1 - (1 - rate)^r of them in round r, the first being 0."""
        rate = Fraction(1, 5)
        people, other = conjunctions(USERS, SEED), conjunctions(USERS, SEED / "other")
        drifting = people.moving_to(other, rate, seed=6)
        here, there = column(people, "x"), column(other, "x")
        for number in (1, 2, 6):
            found = column(drifting.in_round(number), "x")
            gone = (found == there)[0] & (here != there)[0]
            apart = (here != there)[0]
            assert_share(gone[apart], 1 - (1 - rate) ** number)

    def test_who_has_moved_stays_so_and_everybody_is_one_or_the_other(self) -> None:
        people, other = numbers(2_000, SEED), numbers(2_000, SEED / "other")
        drifting = moving(people, other, "0.3", SEED)
        here, there = column(people, "number"), column(other, "number")
        gone = np.zeros(2_000, np.bool_)
        for number in range(8):
            found = column(drifting.in_round(number), "number")
            assert ((found == here) | (found == there)).all()
            now = (found == there) & (here != there)
            assert not (gone & ~now).any()
            assert now.sum() > gone.sum() or number == 0
            gone = now

    def test_nobody_has_moved_in_the_first_round(self) -> None:
        people = traits(300, SEED)
        drifting = people.moving_to(traits(300, SEED / "other"), 1)
        assert_same(drifting.columns(0, 300), people.columns(0, 300))
        assert_same(drifting.in_round(0).columns(0, 300), people.columns(0, 300))

    def test_whole_records_move_words_and_what_is_missing_too(self) -> None:
        schema = Schema("few", 1, a=Integer(0, 9), b=Category(["p", "q"]), c=Real(0, 1))
        rows = {"a": [1, None] * 20, "b": ["p", "q"] * 20, "c": [0.5, 1] * 20}
        others = {"a": [None, 2] * 20, "b": ["q", None] * 20, "c": [None, 0.25] * 20}
        people, other = (Population.from_columns(schema, one) for one in (rows, others))
        moved = people.moving_to(other, 1).in_round(1)
        assert_same(moved.columns(0, 40), other.columns(0, 40))
        words = masked_parity(300, SEED, 64), masked_parity(300, SEED / "other", 64)
        assert_same(
            words[0].moving_to(words[1], 1).in_round(3).columns(7, 99), words[1].columns(7, 99)
        )

    def test_those_whom_they_become_may_change_too(self) -> None:
        people, other = categories(400, SEED, 6), categories(400, SEED / "other", 6, turn=1)
        drifting = people.moving_to(other, 1)
        assert_same(drifting.in_round(4).columns(0, 400), other.in_round(4).columns(0, 400))

    def test_a_population_that_does_not_fit_is_refused(self) -> None:
        people = conjunctions(100, SEED)
        with pytest.raises(InvalidParameter, match="schema 'conjunctions', got 'numbers'"):
            people.moving_to(numbers(100, SEED), "0.1")
        with pytest.raises(InvalidParameter, match="expected 100 users or more to become, got 99"):
            people.moving_to(conjunctions(99, SEED), "0.1")
        with pytest.raises(InvalidParameter, match="drift: expected a chance"):
            people.moving_to(people, 2)


class TestTurning:
    def test_the_ranks_move_on_from_round_to_round(self) -> None:
        still, turning = categories(1_000, SEED, 10), categories(1_000, SEED, 10, turn=3)
        assert still.drift is None
        assert still.in_round(5) is still
        for number in (0, 1, 2, 5, 10**6):
            found = column(turning.in_round(number), "category")
            expected = (column(still, "category").astype(np.int64) + 3 * number) % 10
            assert np.array_equal(found, expected)
        assert turning.notes == ("from round to round the law turned by 3 of 10 cells",)

    @pytest.mark.parametrize("turn", [-1, 10])
    def test_a_turn_out_of_range_is_refused(self, turn: int) -> None:
        with pytest.raises(InvalidParameter, match=f"turn of 0 to 9, got {turn}"):
            categories(10, SEED, 10, turn)


@pytest.mark.parametrize("name", sorted(POPULATIONS))
def test_parts_of_what_is_changed_are_parts_of_the_whole(name: str) -> None:
    people = moving(build(name, 500, SEED, {}), build(name, 500, SEED / "other", {}), "1/2", SEED)
    kinds = people.schema.fields
    labels = [key for key, kind in kinds.items() if isinstance(kind, Category)]
    if labels:
        people = label_noise(people, "1/3", SEED, label=labels[-1])
    for number in (0, 2):
        whole = people.in_round(number).columns(0, 500)
        for start, stop in ((0, 1), (13, 14), (77, 411), (499, 500)):
            part = people.in_round(number).columns(start, stop)
            assert_same(part, whole.take(slice(start, stop)))


def test_the_far_end_of_the_largest_population_costs_no_more() -> None:
    people = conjunctions(MAX_USERS, SEED).with_label_noise("0.1")
    drifting = people.moving_to(conjunctions(MAX_USERS, SEED / "other"), "0.1")
    assert len(drifting.in_round(9).columns(MAX_USERS - 3, MAX_USERS)) == 3


class TestByName:
    def test_a_change_is_a_setting_of_any_population(self) -> None:
        settings = {"label-noise": "1/4", "drift": "0.5", "relevant": "3"}
        made = named("conjunctions", epsilon=1, users=USERS, settings=settings)
        plain = named("conjunctions", epsilon=1, users=USERS, settings={"relevant": "3"})
        people, known = made.people(SEED), plain.people(SEED)
        assert people.target == known.target
        assert_share(column(people, "y") != column(known, "y"), Fraction(1, 4))
        apart = (column(people.in_round(1), "x") != column(known, "x"))[0]
        assert_share(apart, Fraction(1, 2) * Fraction(255, 256))
        assert made.study(people).learner.parameters == plain.study(known).learner.parameters
        assert len(people.notes) == 2

    def test_a_file_s_labels_may_be_wrong_but_its_people_become_nobody_else(
        self, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        path = tmp_path_factory.mktemp("data") / "people.csv"
        path.write_text("age,income\n17,low\n40,high\n23,low\n")
        chosen = {"epsilon": 1, "data": path, "label": "income"}
        people = named("frequency", settings={"label-noise": "1"}, **chosen).people(SEED)  # type: ignore[arg-type]  # the types of keywords in a dict
        assert column(people, "income").tolist() == [0, 1, 0]
        with pytest.raises(InvalidParameter, match="generated population, got a data file"):
            named("frequency", settings={"drift": "1"}, **chosen).people(SEED)  # type: ignore[arg-type]  # as above
