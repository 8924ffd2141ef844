"""Tables of integers: which are refused, and how values decode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.families import TableFamily, family_of, randomized_response
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, Channel, PrivacyLoss

M = COIN_SPACE
HALF = M // 2
EVEN = (HALF, HALF)


def row_of(weights: Sequence[int]) -> tuple[int, ...]:
    """Integers >= 1 that are about proportional to the weights and sum to 2^64."""
    total = sum(weights)
    entries = [max(1, weight * M // total) for weight in weights[:-1]]
    return (*entries, M - sum(entries))


@st.composite
def channels(draw: st.DrawFn) -> Channel:
    symbols = draw(st.integers(2, 5))
    weights = st.lists(st.integers(1, 10**6), min_size=symbols, max_size=symbols)
    rows = draw(st.lists(weights, min_size=2, max_size=symbols))
    return Channel(tuple(map(row_of, rows)))


def rank(table: Sequence[Sequence[int]]) -> int:
    """The number of linearly independent rows, by plain elimination in fractions."""
    rows = [[Fraction(entry) for entry in row] for row in table]
    found = 0
    for column in range(len(rows[0])):
        pivot = next((row for row in rows if row[column]), None)
        if pivot is not None:
            found += 1
            rows.remove(pivot)
            rows = [
                [a - b * row[column] / pivot[column] for a, b in zip(row, pivot, strict=True)]
                for row in rows
            ]
    return found


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ((), "levels of a table: expected 2..720, got 0"),
        ((EVEN,), "levels of a table: expected 2..720, got 1"),
        ((EVEN,) * 721, "levels of a table: expected 2..720, got 721"),
        (((), ()), "symbols of a table: expected 2..720, got 0"),
        (((M,), (M,)), "symbols of a table: expected 2..720, got 1"),
        (((1,) * 721,) * 2, "symbols of a table: expected 2..720, got 721"),
        ((EVEN, (HALF, HALF - 1, 1)), "row 1 has 3 entries"),
        ((EVEN, (HALF, HALF - 1)), "row 1 must sum to 2^64, it is off by -1"),
        ((EVEN, (HALF, HALF + 1)), "off by 1"),
        ((EVEN, (M + 1, -1)), "row 1: entries are 0 or more"),
        ((EVEN, (0.5, 0.5)), "row 1: entries are integers"),
        ((EVEN, (M, 0)), "infinite: column 1 has a 0 at level 1"),
        (((0, M), (M, 0)), "infinite: column 0 has a 0 at level 0"),
        (((HALF, 0, HALF), (HALF, 0, HALF)), "column 1 is an unused symbol"),
    ],
)
def test_what_is_no_table_is_refused(table: Any, reason: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(reason)):
        Channel(table)


def test_lists_become_tuples() -> None:
    rows: Any = [[HALF, HALF], [1, M - 1]]
    assert Channel(rows) == Channel((EVEN, (1, M - 1)))
    assert hash(Channel(rows)) == hash(Channel((EVEN, (1, M - 1))))


@given(channels())
def test_the_loss_is_the_worst_ratio_of_a_column(channel: Channel) -> None:
    ratios = [
        Fraction(one, two)
        for column in zip(*channel.table, strict=True)
        for one in column
        for two in column
    ]
    assert Fraction(channel.loss.numerator, channel.loss.denominator) == max(ratios)


def test_equal_rows_cost_nothing_and_tell_nothing() -> None:
    channel = Channel((EVEN, EVEN))
    assert channel.loss == PrivacyLoss(1, 1)
    assert channel.loss.nano_nats == 0
    with pytest.raises(InvalidParameter, match="linearly dependent"):
        family_of(channel).frequencies((1, 1), 2)


def test_fewer_symbols_than_levels_tell_no_shares() -> None:
    channel = Channel((EVEN, (1, M - 1), (M - 1, 1)))
    with pytest.raises(InvalidParameter, match="3 levels cannot be told apart by 2 symbols"):
        family_of(channel).frequencies((1, 1), 2)
    assert TableFamily(channel).moved_grid((0, 1))[0] == Fraction(1, 2)


@settings(max_examples=30)
@given(channels())
def test_frequencies_are_unbiased_for_every_table_that_tells_them(channel: Channel) -> None:
    for level, row in enumerate(channel.table):
        # The law of a level is itself a tally: of 2^64 reports, row[y] of symbol y.
        try:
            shares = family_of(channel).frequencies(row, M)
        except InvalidParameter:
            assert rank(channel.table) < channel.levels
            return
        assert shares == tuple(int(v == level) for v in range(channel.levels))


def test_a_vanishing_minor_is_no_obstacle() -> None:
    """The first two rows agree in their first two symbols: elimination must exchange rows."""
    rows = [(4, 4, 7, 1), (4, 4, 2, 6), (1, 9, 3, 3), (2, 5, 5, 4)]
    channel = Channel(tuple(tuple(entry * (M // 16) for entry in row) for row in rows))
    for level, row in enumerate(channel.table):
        assert list(family_of(channel).frequencies(row, M)) == [int(v == level) for v in range(4)]


@pytest.mark.parametrize("size", [24, pytest.param(64, marks=pytest.mark.slow)])
def test_a_large_table_is_inverted_exactly(size: int) -> None:
    rows = [row_of([900 if x == y else 1 + (x * y) % 7 for y in range(size)]) for x in range(size)]
    channel = Channel(tuple(rows))
    assert list(family_of(channel).frequencies(rows[-1], M)) == [0] * (size - 1) + [1]


@given(channels(), st.data())
def test_moments_are_those_of_the_table(channel: Channel, data: st.DataObject) -> None:
    a = [data.draw(st.fractions(-9, 9, max_denominator=99)) for _ in range(channel.symbols)]
    grid = TableFamily(channel).moved_grid(a)
    for x, row in enumerate(channel.table):
        law = [(value, Fraction(entry, M)) for value, entry in zip(a, row, strict=True)]
        mean = sum(value * p for value, p in law)
        assert grid[x] == mean
        assert TableFamily(channel).second_moment(x, a) == sum(value**2 * p for value, p in law)
        assert TableFamily(channel).conditional_variance(x, a) == sum(
            (v - mean) ** 2 * p for v, p in law
        )
        assert TableFamily(channel).conditional_variance(x, a) >= 0


@given(channels(), st.data())
def test_covering_makes_the_ends_exact(channel: Channel, data: st.DataObject) -> None:
    a = [data.draw(st.fractions(-9, 9, max_denominator=99)) for _ in range(channel.symbols)]
    before = TableFamily(channel).moved_grid(a)
    if before[0] == before[-1]:
        with pytest.raises(InvalidParameter, match="first level from the last"):
            TableFamily(channel).covering(a)
        return
    covered = TableFamily(channel).covering(a)
    after = TableFamily(channel).moved_grid(covered)
    assert [after[0], after[-1]] == [-1, 1]
    last = channel.levels - 1
    left = max(abs(after[i] - (Fraction(2 * i, last) - 1)) for i in range(channel.levels))
    assert TableFamily(channel).bias(covered) == left
    assert TableFamily(channel).bias(covered, after) == 0


def test_duchi_is_randomized_response_without_bias() -> None:
    """C^2 = 16.67/4.683/1.724/1.076: the second moment of the best one-bit answer."""
    for nano, squared in [
        (5 * 10**8, 16.67),
        (10**9, 4.683),
        (2 * 10**9, 1.724),
        (4 * 10**9, 1.076),
    ]:
        channel = randomized_response(nano)
        values = TableFamily(channel).covering((-1, 1))
        assert TableFamily(channel).bias(values) == 0
        assert values[0] == -values[1]
        assert TableFamily(channel).second_moment(0, values) == TableFamily(channel).second_moment(
            1, values
        )
        assert float(TableFamily(channel).second_moment(0, values)) == pytest.approx(
            squared, rel=1e-3
        )


def test_decode_values_of_another_length_are_refused() -> None:
    channel = randomized_response(10**9)
    with pytest.raises(InvalidParameter, match="2 decode values, found 3"):
        TableFamily(channel).moved_grid((1, 2, 3))
    with pytest.raises(InvalidParameter, match="2 points, found 1"):
        TableFamily(channel).bias((0, 1), (0,))
    with pytest.raises(InvalidParameter, match="level"):
        TableFamily(channel).second_moment(-1, (0, 1))
