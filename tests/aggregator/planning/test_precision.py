"""Variances are those of the design's table, and tails are of the statistic that is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest

from askance_aggregator.estimation import estimate
from askance_aggregator.families import (
    best_for,
    family_of,
    hadamard_sign,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_aggregator.learners import Question
from askance_aggregator.planning import Binomial, Scored, Ternary, n_variance, tail_of
from askance_aggregator.planning.precision import candidates, randomizer_text
from askance_aggregator.queries import (
    category,
    predicate,
    real,
    signed,
)
from askance_client.errors import InvalidParameter
from askance_client.queries import Integer, Real, Schema
from askance_client.randomizers import (
    COIN_SPACE,
    Channel,
    KaryResponse,
    LinearHashing,
    SignedSubsetSelection,
    SubsetSelection,
)

SCHEMA = Schema(
    "s",
    1,
    n=Integer(0, 63),
    t=Real(-1, 1),
    wide=Real(-4, 12),
    k=Integer(0, 2),
    pairs=Integer(0, 4096),
)
PREDICATE = Question(predicate(SCHEMA["n"] == 1))
CELLS = Question(category(SCHEMA["n"]))
MEAN = Question(real(SCHEMA["t"]))
WIDE_MEAN = Question(real(Schema("s", 1, t=Real(-4, 12))["t"]))
THREE = Question(category(SCHEMA["k"]))
Q = COIN_SPACE // 4
TABLE = Channel(((2 * Q, Q, Q), (Q, 2 * Q, Q), (Q, Q, 2 * Q)))


def variance(question: Question, epsilon: float) -> float:
    return float(n_variance(question, candidates(question, int(epsilon * 10**9), best_for)[0]))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (PREDICATE, {0.5: 3.918, 1: 0.921, 2: 0.181, 4: 0.0190}),
        (MEAN, {0.5: 16.67, 1: 4.683, 2: 1.724, 4: 1.076}),
        (CELLS, {0.5: 15.2, 1: 3.55, 2: 0.687, 4: 0.0587}),
    ],
    ids=["predicate", "mean", "64 cells"],
)
def test_n_variance_is_as_tabulated(question: Question, expected: dict[float, float]) -> None:
    for epsilon, value in expected.items():
        assert variance(question, epsilon) == pytest.approx(value, rel=5e-3)


def test_many_signed_values_have_twice_the_variance_of_a_share() -> None:
    """Two one-hot columns: 1.44 at eps = 2; hashed, 3 % more. One sign: C^2; signed sets: 1.25."""
    question = Question(signed(SCHEMA["pairs"]))
    assert variance(question, 2) == pytest.approx(1.44, rel=0.03)
    assert float(n_variance(question, subset_selection(4097, 2 * 10**9))) == pytest.approx(
        1.44, rel=0.01
    )
    sign = hadamard_sign(2048, 2 * 10**9)
    assert float(n_variance(question, sign)) == pytest.approx(1.724, rel=0.002)
    sets = signed_subset_selection(2048, 2 * 10**9)
    assert float(n_variance(question, sets)) == pytest.approx(1.252, rel=0.002)


def test_signed_values_have_their_own_candidates() -> None:
    """A design of one's own is the only candidate, and so is what answers another question."""
    question, nat = Question(signed(SCHEMA["k"])), 10**9
    usual = candidates(question, nat, best_for)
    assert usual == (best_for(3, nat), hadamard_sign(1, nat), signed_subset_selection(1, nat))
    assert candidates(question, nat, subset_selection) == (subset_selection(3, nat),)
    assert candidates(CELLS, nat, best_for) == (best_for(64, nat),)
    many = Schema("s", 1, pairs=Integer(0, 4096))
    found = candidates(Question(signed(many["pairs"])), nat, best_for)
    assert [randomizer.name for randomizer in found] == ["linear-hashing", "hadamard-sign"]


def test_a_signed_value_has_the_variance_of_its_law() -> None:
    """For one pair and three levels, both ways: by pair rates and by scores of the same table."""
    kary = KaryResponse(3, Q)
    question = Question(signed(SCHEMA["k"]))
    # The difference is +-1 with probability 3/4 in all and has mean +-1/4, which decodes to +-1.
    expected = (Fraction(3, 4) - Fraction(1, 16)) * 16
    assert n_variance(question, kary) == n_variance(question, TABLE) == expected


@pytest.mark.parametrize("bounds", [(-1, 1), (0, 50)])
def test_n_variance_of_a_mean_is_in_the_unit_of_the_mean(bounds: tuple[int, int]) -> None:
    schema, half = Schema("s", 1, t=Real(*bounds)), (bounds[1] - bounds[0]) / 2
    expected = half**2 * 4.683
    assert variance(Question(real(schema["t"])), 1) == pytest.approx(expected, rel=1e-3)


def test_n_variance_has_one_unit_for_a_share_and_for_a_number() -> None:
    """The same bit for a number in [0, 1]: its squared distance from 1/2 is counted, too."""
    number = Question(real(Schema("s", 1, t=Real(0, 1))["t"]))
    warner = randomized_response(10**9)
    assert n_variance(number, warner) - Fraction(1, 4) == n_variance(PREDICATE, warner)


def divided(table: Channel, parts: Sequence[int]) -> Channel:
    """Divide every symbol into several, in proportion to `parts` up to the rounding of integers."""
    rows = []
    for row in table.table:
        entries = []
        for entry in row:
            shares = [entry * part // sum(parts) for part in parts]
            entries += [entry - sum(shares[1:]), *shares[1:]]
        rows.append(tuple(entries))
    return Channel(tuple(rows))


@pytest.mark.parametrize("parts", [[1] * 32, [2**power for power in range(32)]])
def test_a_table_is_planned_at_what_it_carries(parts: list[int]) -> None:
    """Dividing the two symbols of a bit into 64 takes no user more, nor a wider interval."""
    warner = randomized_response(10**9)
    many = divided(warner, parts)
    assert (many.levels, many.symbols) == (2, 64)
    assert tail_of(PREDICATE, many).users(0.02, 0.05) == tail_of(PREDICATE, warner).users(
        0.02, 0.05
    )
    assert float(n_variance(PREDICATE, many)) == pytest.approx(0.9207, rel=1e-4)
    for level in range(2):
        counts = [entry >> 50 for entry in many.table[level]]
        n = sum(counts)
        merged = sum(counts[:32]), sum(counts[32:])
        found = estimate(PREDICATE, many, counts, n, 0.05)
        bit = estimate(PREDICATE, warner, merged, n, 0.05)
        assert found.value == pytest.approx(bit.value, abs=1e-6)
        assert (found.low, found.high) == pytest.approx((bit.low, bit.high), abs=1e-6)


def test_dividing_the_symbols_of_any_table_costs_no_variance() -> None:
    many = divided(TABLE, [1, 2, 40, 300])
    assert many.symbols == 12
    for question in (THREE, Question(signed(SCHEMA["k"]))):
        expected = float(n_variance(question, TABLE))
        assert float(n_variance(question, many)) == pytest.approx(expected, rel=1e-9)


def test_symbols_of_different_ratios_are_not_taken_for_one_bit() -> None:
    """A third symbol that half of all users send, whatever their level, carries nothing."""
    table = Channel(((3 * Q // 2, Q // 2, 2 * Q), (Q // 2, 3 * Q // 2, 2 * Q)))
    assert family_of(table).inclusion(1) is None
    scores = (
        Fraction(-3, 2),
        Fraction(5, 2),
        Fraction(1, 2),
    )  # the least variance for a share of one half
    worst = sum(
        Fraction(entry, COIN_SPACE) * score * score
        for entry, score in zip(table.table[0], scores, strict=True)
    )
    assert n_variance(PREDICATE, table) == pytest.approx(worst, rel=1e-9)


def test_a_design_is_called_with_the_levels_of_the_question() -> None:
    called = []

    def design(levels: int, nano_nats: int) -> Channel:
        called.append(levels)
        return randomized_response(nano_nats) if levels != 3 else TABLE

    small = Schema("s", 1, number=Integer(-1, 1))
    for question in (PREDICATE, THREE, Question(real(small["number"])), MEAN):
        candidates(question, 10**9, design)
    assert called == [2, 3, 3, 64]  # as many as a table can have


def test_tails_are_of_what_is_counted() -> None:
    warner = randomized_response(10**9)
    exact = Fraction(warner.table[0][1], COIN_SPACE)
    lie = float(exact)
    expected = Binomial(lie, float(1 - exact), float(1 - 2 * exact))
    assert tail_of(PREDICATE, warner) == expected
    promised = Question(PREDICATE.query, cell_mass=Fraction(1, 10))
    tail = tail_of(promised, warner)
    assert isinstance(tail, Binomial)
    assert tail.high == pytest.approx(lie + (1 - 2 * lie) / 10)
    mean = tail_of(WIDE_MEAN, warner)
    assert isinstance(mean, Binomial)
    assert mean.gap == pytest.approx((1 - 2 * lie) / 16)
    assert isinstance(tail_of(Question(signed(SCHEMA["k"])), best_for(3, 10**9)), Ternary)
    coin = tail_of(Question(signed(SCHEMA["k"])), hadamard_sign(1, 10**9))
    assert isinstance(coin, Binomial)
    assert coin.low + coin.high == 1


def test_any_other_table_has_the_tail_of_its_scores() -> None:
    """The left inverse of this table has 3 on the diagonal and -1 elsewhere."""
    tail = tail_of(THREE, TABLE)
    assert isinstance(tail, Scored)
    assert tail.span == 4.0
    assert tail.rows[0] == (0.5, 0.25, 0.25)
    signs = tail_of(Question(signed(SCHEMA["k"])), TABLE)
    assert isinstance(signs, Scored)
    assert signs.span == 8.0


def test_a_randomizer_suits_its_question() -> None:
    with pytest.raises(InvalidParameter, match="the question has 64 levels, the randomizer 2"):
        tail_of(CELLS, randomized_response(10**9))
    with pytest.raises(InvalidParameter, match="expects a question of signed values"):
        tail_of(THREE, hadamard_sign(1, 10**9))
    with pytest.raises(InvalidParameter, match="a real value expects a table"):
        tail_of(MEAN, KaryResponse(3, Q))


@pytest.mark.parametrize(
    ("randomizer", "text"),
    [
        (randomized_response(10**9), "randomized-response"),
        (SubsetSelection(17, 2, Q), "subset-selection(17, 2)"),
        (KaryResponse(5, Q // 2), "k-ary-response(5)"),
        (LinearHashing(300, 7, Q // 4), "linear-hashing(300, 7)"),
        (hadamard_sign(9, 10**9), "hadamard-sign(9)"),
        (SignedSubsetSelection(9, 4, 2 * Q), "signed-subset-selection(9, 4)"),
        (TABLE, "channel(3, 3)"),
        (Channel(((Q, 3 * Q), (2 * Q, 2 * Q))), "channel(2, 2)"),
    ],
)
def test_a_randomizer_has_a_short_name(randomizer: Channel, text: str) -> None:
    assert randomizer_text(randomizer) == text
