"""Generated populations: random access, the law that they claim, and the target that labels them.

Where a law is finite, frequencies are tested by chi-square with a fixed seed at ALPHA = 1e-6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from askance_aggregator.learners import Conjunction, MaskedParity, masked_parity_schema
from askance_aggregator.queries import category, evaluate_columns, predicate, real
from askance_client.errors import InvalidParameter
from askance_client.queries import (
    Bits,
    Expression,
    Integer,
    Schema,
)
from askance_simulation.populations import (
    POPULATIONS,
    Population,
    categories,
    conjunctions,
    masked_parity,
    numbers,
    words,
)
from askance_simulation.populations.population import MAX_USERS, build, catalogued
from askance_simulation.randomness import Seed

ALPHA = 1e-6
SEED = Seed.of(11)
USERS = 40_000


def rows(people: Population, start: int, stop: int) -> list[Mapping[str, Any]]:
    """Return the encoded records of ordinals start .. stop-1."""
    columns = people.columns(start, stop)
    return [columns.record(place).values for place in range(len(columns))]


def values(people: Population, expression: Expression) -> NDArray[np.int64]:
    """Return every user's cell, by ordinal."""
    return np.asarray(evaluate_columns(category(expression), people.columns(0, people.size)))


def bit(people: Population, condition: Expression) -> NDArray[np.bool_]:
    """Return for every user whether a condition holds."""
    columns = people.columns(0, people.size)
    return np.asarray(evaluate_columns(predicate(condition), columns)).astype(np.bool_)


def bits(people: Population) -> NDArray[np.bool_]:
    """Return the bits x of every user, shape (n_users, d)."""
    x = people.schema["x"]
    field = people.schema.fields["x"]
    assert isinstance(field, Bits)
    return np.stack([bit(people, x[j] == 1) for j in range(field.width)], axis=1)


def assert_law(found: NDArray[np.int64], law: Sequence[Fraction]) -> None:
    """Run a chi-square test of counts; it fails by chance once in 1/ALPHA seeds."""
    counts = np.bincount(found, minlength=len(law))
    assert len(counts) == len(law)
    expected = np.array([float(share) for share in law]) * len(found)
    assert expected.min() >= 5
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.isf(ALPHA, len(law) - 1)


@pytest.mark.parametrize("name", sorted(POPULATIONS))
class TestEveryPopulation:
    @settings(max_examples=20, deadline=None)
    @given(data=st.data())
    def test_a_part_is_the_same_part_of_the_whole(self, name: str, data: st.DataObject) -> None:
        people = build(name, 300, SEED, {})
        start = data.draw(st.integers(0, 299))
        stop = data.draw(st.integers(start + 1, 300))
        assert rows(people, start, stop) == rows(people, 0, 300)[start:stop]

    def test_more_users_are_the_same_users_and_others(self, name: str) -> None:
        few, many = build(name, 50, SEED, {}), build(name, 5000, SEED, {})
        assert few.target == many.target
        assert rows(few, 0, 50) == rows(many, 0, 50)

    def test_another_seed_is_other_people(self, name: str) -> None:
        ours, theirs = (build(name, 200, Seed.of(n), {}) for n in (0, 1))
        assert rows(ours, 0, 200) != rows(theirs, 0, 200)

    def test_people_at_the_far_end_cost_no_more(self, name: str) -> None:
        people = build(name, MAX_USERS, SEED, {})
        assert len(people.columns(MAX_USERS - 3, MAX_USERS)) == 3

    @pytest.mark.parametrize("size", [0, -1, MAX_USERS + 1])
    def test_a_size_out_of_range_is_refused(self, name: str, size: int) -> None:
        with pytest.raises(InvalidParameter, match=f"got {size}"):
            build(name, size, SEED, {})

    def test_a_parameter_that_there_is_none_of_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidParameter, match="got 'colour'"):
            build(name, 10, SEED, {"colour": 1})


def test_a_population_that_there_is_none_of_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match=r"expected one of categories, .*got 'martians'"):
        build("martians", 10, SEED, {})


def test_a_population_is_listed_with_the_parameters_of_its_maker() -> None:
    listed = POPULATIONS["categories"]
    assert listed.parameters == (("cells", 16), ("turn", 0))
    assert listed.build is categories


def test_a_name_is_listed_once() -> None:
    with pytest.raises(InvalidParameter, match="'numbers' is registered already"):
        catalogued("numbers", "other numbers")


class TestMaskedParity:
    @pytest.mark.parametrize("d", [2, 3, 8, 12, 64, 100, 128])
    @pytest.mark.parametrize("seed", range(4))
    def test_the_target_labels_everybody(self, d: int, seed: int) -> None:
        """c_{r,a}(x, i, b) = (-1)^(<r,x>+a) if b = 0 and (-1)^(r_i) if b = 1."""
        people = masked_parity(400, Seed.of(seed), d)
        target = people.target
        assert isinstance(target, MaskedParity)
        assert people.schema.digest == masked_parity_schema(d).digest
        r = np.array(target.r)
        parity = ((bits(people) @ r) + target.a) % 2
        index = values(people, people.schema["i"])
        shown = bit(people, people.schema["b"] == 1)
        minus = np.where(shown, r[index], parity)
        assert np.array_equal(bit(people, people.schema["y"] == -1), minus == 1)

    def test_x_and_i_and_b_are_uniform_together(self) -> None:
        people = masked_parity(USERS, SEED, 4)
        x = bits(people) @ (1 << np.arange(4))
        i = values(people, people.schema["i"])
        b = bit(people, people.schema["b"] == 1)
        assert_law(x + 16 * i + 64 * b, [Fraction(1, 128)] * 128)

    @pytest.mark.parametrize("d", [3, 5])
    def test_they_are_uniform_for_any_d(self, d: int) -> None:
        """Cutting i from whole bits would give 4 places for d = 3."""
        people = masked_parity(USERS, SEED, d)
        x = bits(people) @ (1 << np.arange(d))
        i = values(people, people.schema["i"])
        b = bit(people, people.schema["b"] == 1)
        count = d << (d + 1)
        assert_law(x + (i << d) + ((d << d) * b), [Fraction(1, count)] * count)

    @pytest.mark.parametrize("d", [12, 100, 1000])
    def test_every_place_is_met_as_often(self, d: int) -> None:
        people = masked_parity(USERS, SEED, d)
        assert_law(values(people, people.schema["i"]), [Fraction(1, d)] * d)

    @pytest.mark.parametrize(
        ("d", "digest"),
        [
            (2, "6cfb90ee00dc20678b3efb5bb632883a95ae49c4f021aa9dd87f6b7b63d7bb30"),
            (8, "5cded6d13cfbb59ccd0b173ac48b7bdda513f88d0748e66f8912aa7b626f4ec4"),
            (64, "e369037c5be694d5de45641d8074ba2af69ffa91005e03735d9b3650d24877f5"),
            (1024, "a1043d2d11e68a9eb8a0205a1ed8eee00736570ef2bf228e5be067952889a9d3"),
        ],
    )
    def test_records_of_a_power_of_two_are_what_they_were(self, d: int, digest: str) -> None:
        """Recorded where d had to be a power of two: transcripts of studies keep their digests."""
        columns, hashed = masked_parity(3000, Seed.of(5), d).columns(0, 3000).values, sha256()
        for name in sorted(columns):
            hashed.update(name.encode() + np.asarray(columns[name]).tobytes())
        assert hashed.hexdigest() == digest

    def test_the_concept_is_uniform(self) -> None:
        targets = [masked_parity(1, Seed.of(n), 2).target for n in range(2000)]
        assert all(isinstance(target, MaskedParity) for target in targets)
        concepts = [t.r[0] + 2 * t.r[1] + 4 * t.a for t in targets if isinstance(t, MaskedParity)]
        assert_law(np.array(concepts), [Fraction(1, 8)] * 8)

    @pytest.mark.parametrize("d", [0, 1, 1025, 2048])
    def test_a_d_out_of_range_is_refused(self, d: int) -> None:
        with pytest.raises(
            InvalidParameter, match=r"^d: expected a whole number in 2\.\.1024, got"
        ):
            masked_parity(10, SEED, d)


class TestConjunctions:
    @pytest.mark.parametrize(("d", "relevant"), [(1, 0), (1, 1), (8, 2), (40, 3), (70, 70)])
    def test_the_target_labels_everybody(self, d: int, relevant: int) -> None:
        people = conjunctions(300, SEED, d, relevant)
        target = people.target
        assert isinstance(target, Conjunction)
        assert len(set(target.variables)) == relevant
        positive = bits(people)[:, list(target.variables)].all(axis=1)
        assert np.array_equal(bit(people, people.schema["y"] == 1), positive)

    def test_the_bits_are_uniform_together(self) -> None:
        people = conjunctions(USERS, SEED, 7)
        assert_law(bits(people) @ (1 << np.arange(7)), [Fraction(1, 128)] * 128)

    def test_every_set_of_relevant_bits_is_equally_likely(self) -> None:
        sets: list[tuple[int, ...]] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
        drawn = [conjunctions(1, Seed.of(n), 4, 2).target for n in range(1200)]
        places = [sets.index(t.variables) for t in drawn if isinstance(t, Conjunction)]
        assert_law(np.array(places), [Fraction(1, 6)] * 6)

    @pytest.mark.parametrize("relevant", [-1, 9])
    def test_more_relevant_bits_than_there_are_is_refused(self, relevant: int) -> None:
        with pytest.raises(InvalidParameter, match=f"got {relevant}"):
            conjunctions(10, SEED, 8, relevant)


class TestCategories:
    @pytest.mark.parametrize("cells", [2, 3, 16, 100])
    def test_cells_follow_zipf(self, cells: int) -> None:
        """Pr[v] is proportional to 1 / (v + 1)."""
        people = categories(USERS, SEED, cells)
        total = sum(Fraction(1, v + 1) for v in range(cells))
        law = [Fraction(1, v + 1) / total for v in range(cells)]
        assert_law(values(people, people.schema["category"]), law)

    @pytest.mark.parametrize("cells", [1, 0, 65_537])
    def test_a_number_of_cells_out_of_range_is_refused(self, cells: int) -> None:
        with pytest.raises(InvalidParameter, match=f"got {cells}"):
            categories(10, SEED, cells)


class TestWords:
    @pytest.mark.parametrize("width", [20, 32, 100, 256])
    def test_few_words_of_many_bits_follow_zipf(self, width: int) -> None:
        people = words(USERS, SEED, width, 5)
        columns = people.columns(0, USERS).values["word"]
        assert isinstance(columns, tuple)
        drawn = Counter(zip(*(part.tolist() for part in columns), strict=True))
        total = sum(Fraction(1, v + 1) for v in range(5))
        law = [Fraction(1, v + 1) / total for v in range(5)]
        found = [word for word, _ in drawn.most_common()]
        assert_law(np.repeat(range(5), [drawn[word] for word in found]), law)
        ones = sum(part.bit_count() for word in found for part in word)
        assert abs(ones - 5 * width / 2) < norm.isf(ALPHA / 2) * (5 * width / 4) ** 0.5

    @pytest.mark.parametrize(("width", "count"), [(0, 5), (257, 5), (8, 1), (8, 65_537)])
    def test_a_setting_out_of_range_is_refused(self, width: int, count: int) -> None:
        with pytest.raises(InvalidParameter, match=f"{count if 0 < width < 257 else width}$"):
            words(10, SEED, width, count)


class TestNumbers:
    def test_they_stay_in_their_range_with_the_mean_and_variance_of_the_law(self) -> None:
        """The mean of three uniform numbers: mean 1/2, variance 1/36."""
        people = numbers(USERS, SEED)
        query = real(people.schema["number"])
        found = np.asarray(evaluate_columns(query, people.columns(0, USERS))) / (1 << query.frac)
        assert found.min() >= 0
        assert found.max() <= 1
        z = norm.isf(ALPHA / 2)
        assert abs(found.mean() - 1 / 2) < z * (1 / 36 / USERS) ** 0.5 + 2**-15
        # The fourth central moment is 13/6480 (kurtosis 2.6), so this is the variance's own z.
        spread = (13 / 6480 - 1 / 36**2) / USERS
        assert abs(found.var() - 1 / 36) < z * spread**0.5 + 2**-15


class TestFromColumns:
    def test_everybody_is_a_row(self) -> None:
        schema = masked_parity_schema(2)
        people = Population.from_columns(
            schema, {"x": [[0, 1], [1, 1]], "i": [0, 1], "b": [1, 0], "y": [1, -1]}
        )
        assert people.size == 2
        assert people.target is None
        assert bits(people).tolist() == [[False, True], [True, True]]
        assert values(people, schema["i"]).tolist() == [0, 1]

    @pytest.mark.parametrize(
        ("low", "high", "width"), [(-128, 127, 1), (-129, 0, 2), (0, 2**15, 4), (0, 2**31, 8)]
    )
    def test_they_are_kept_in_as_few_bytes_as_the_bounds_allow(
        self, low: int, high: int, width: int
    ) -> None:
        schema = Schema("people", 1, number=Integer(low, high))
        people = Population.from_columns(schema, {"number": [low, high, None]})
        kept = people.columns(0, 3)
        assert np.asarray(kept.values["number"]).itemsize == width
        assert [kept.record(row).values["number"] for row in range(2)] == [low, high]
        assert kept.present["number"].tolist() == [True, True, False]

    def test_that_nobody_misses_a_field_is_kept_once(self) -> None:
        schema = Schema("people", 1, number=Integer(0, 9))
        kept = Population.from_columns(schema, {"number": np.arange(10)}).columns(2, 9)
        assert kept.present["number"].tolist() == [True] * 7
        assert kept.present["number"].strides == (0,)
        assert evaluate_columns(predicate(schema["number"] > 4), kept).tolist() == [
            0,
            0,
            0,
            1,
            1,
            1,
            1,
        ]
        assert (
            evaluate_columns(predicate(schema["number"] > 4), kept.take(np.array([0, 6]))).sum()
            == 1
        )
