"""Learner A*: it learns parities from that many examples, and refuses bad ones before a draw."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from askance_aggregator.composition import Pure
from askance_client.errors import AskanceError, InvalidParameter, InvalidRecord
from askance_papers.curator.parity import (
    ParityExamples,
    PrivateParity,
    even_keeping,
    examples_needed,
    law,
    runs_needed,
)
from askance_simulation.populations.labelled_bits import Parity
from askance_simulation.randomness import Seed, SeededWords

ALPHA = 1e-6


class NoWords:
    """Nothing may be drawn."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("a word was drawn")


def drawn(d: int, n: int, name: str) -> tuple[Parity, ParityExamples, SeededWords]:
    words = SeededWords(Seed.of(1) / name)
    x = words.take(n * d).reshape(n, d) & np.uint64(1)
    target = Parity(tuple((words.take(d) & np.uint64(1)).tolist()))
    return target, ParityExamples.of_bits(x, target(x)), words


class TestLearning:
    def test_it_fails_at_most_as_often_as_it_may(self) -> None:
        """16 unknowns, error below 1/4 (of uniform x: none), 400 data sets, failure 0.1."""
        mechanism = PrivateParity.amplified(1, "0.1")
        n = examples_needed(16, mechanism.keep, "0.25", "0.1")
        failed = 0
        for trial in range(400):
            target, given, words = drawn(16, n, f"learning {trial}")
            failed += mechanism.release(given, words) != target
        assert binomtest(failed, 400, 0.1, alternative="greater").pvalue > ALPHA
        assert failed > 0, "its coins alone give up once in 32"

    def test_one_run_speaks_about_half_of_the_time(self) -> None:
        mechanism = PrivateParity.once(1)
        target, given, words = drawn(16, 400, "half")
        said = [mechanism.release(given, words) for _ in range(400)]
        assert binomtest(sum(one == target for one in said), 400, 0.5).pvalue > ALPHA
        assert set(said) == {target, None}

    def test_labels_that_no_parity_fits_leave_nothing_to_say(self) -> None:
        _, given, words = drawn(16, 4000, "noise")
        noisy = given.rows.copy()
        noisy[::3] ^= np.uint64(1 << 16)
        mechanism = PrivateParity.amplified(2, "0.05")
        assert mechanism.release(ParityExamples(noisy, 16), words) is None

    def test_the_same_words_give_the_same_answer(self) -> None:
        first, again = (
            PrivateParity.once(2).release(drawn(70, 30, "again")[1], SeededWords(Seed.of(4)))
            for _ in range(2)
        )
        assert first is not None
        assert first == again
        assert len(first.r) == 70


class TestSizes:
    @pytest.mark.parametrize(
        ("beta", "runs"), [("0.75", 2), ("0.74", 3), ("3/1024", 10), ("1e-6", 22), (0.05, 6)]
    )
    def test_all_runs_give_up_with_a_third_of_beta(self, beta: Any, runs: int) -> None:
        assert runs_needed(beta) == runs

    def test_the_size_is_the_lemmas(self) -> None:
        """With d ln 2 + ln 20 = 180.44 at d = 256, p = 1/8 and an error of 0.1."""
        assert examples_needed(256, Fraction(1, 8), "0.1", "0.15") == 28871

    def test_where_much_error_is_allowed_enough_must_be_kept(self) -> None:
        assert examples_needed(1, Fraction(1, 8), "0.9", "0.003") == 443  # 64 ln 1000
        assert examples_needed(1, Fraction(1, 8), "0.1", "0.003") > 443

    def test_the_sharper_p_halves_it(self) -> None:
        sharp = PrivateParity.amplified(1, "0.01").keep
        even = PrivateParity.amplified(1, "0.01", even_keeping).keep
        sizes = [examples_needed(64, p, "0.1", "0.01") for p in (even, sharp)]
        assert 2 < sizes[0] / sizes[1] < 2.3

    @pytest.mark.parametrize(
        ("d", "keep", "alpha", "beta"),
        [
            (0, Fraction(1, 2), "0.1", "0.1"),
            (True, Fraction(1, 2), "0.1", "0.1"),
            (4, Fraction(0), "0.1", "0.1"),
            (4, Fraction(1), "0.1", "0.1"),
            (4, Fraction(1, 2), 0, "0.1"),
            (4, Fraction(1, 2), "0.1", 1),
        ],
    )
    def test_numbers_are_checked(self, d: Any, keep: Fraction, alpha: Any, beta: Any) -> None:
        with pytest.raises(InvalidParameter):
            examples_needed(d, keep, alpha, beta)


class TestBudgets:
    def test_an_event_is_what_it_costs(self) -> None:
        assert PrivateParity.once(1).event == Pure(Fraction(1))

    @pytest.mark.parametrize("epsilon", [0, -1, float("nan"), "x", None])
    def test_no_epsilon(self, epsilon: Any) -> None:
        for make in (PrivateParity.once, lambda given: PrivateParity.amplified(given, "0.1")):
            with pytest.raises(InvalidParameter, match="epsilon"):
                make(epsilon)

    @pytest.mark.parametrize("beta", [0, 1, -1, "nan"])
    def test_no_beta(self, beta: Any) -> None:
        with pytest.raises(InvalidParameter, match="beta"):
            PrivateParity.amplified(1, beta)


class TestExamples:
    """Values that are no data set are no `ParityExamples`, so none of them reaches a coin."""

    @pytest.mark.parametrize(
        ("x", "y", "error", "match"),
        [
            ([[0, 1], [0, 2]], [0, 1], InvalidRecord, "row 1, column 1"),
            ([[0, -1]], [0], InvalidRecord, "row 0, column 1"),
            ([[0.0, 1.0]], [0], InvalidParameter, "whole numbers"),
            ([[float("nan")]], [0], InvalidParameter, "whole numbers"),
            ([["0"]], [0], InvalidParameter, "whole numbers"),
            ([0, 1], [0, 1], InvalidParameter, "1 dimensions"),
            (np.zeros((0, 3), np.int64), [], InvalidParameter, "got the shape"),
            (np.zeros((3, 0), np.int64), [0, 0, 0], InvalidParameter, "got the shape"),
            ([[0, 1], [0, 1]], [0], InvalidRecord, "each of 2 rows, found 1"),
            ([[0, 1], [0, 1]], [1, -1], InvalidRecord, "row 1"),
            ([[0, 1]], [7], InvalidRecord, "row 0"),
            ([[0, 1]], [[0]], InvalidParameter, "labels"),
            ([[0, 1]], [0.5], InvalidParameter, "labels"),
        ],
    )
    def test_a_table_is_checked(
        self, x: Any, y: Any, error: type[AskanceError], match: str
    ) -> None:
        with pytest.raises(error, match=match) as raised:
            PrivateParity.once(1).release(ParityExamples.of_bits(x, y), NoWords())
        assert "7" not in str(raised.value)

    @pytest.mark.parametrize(
        ("x", "d", "error"),
        [
            (np.zeros((2, 1), np.uint64), 65, InvalidParameter),
            (np.zeros((2, 2), np.uint64), 64, InvalidParameter),
            (np.zeros((2, 1), np.int64), 64, InvalidParameter),
            (np.zeros((2, 1), np.uint64), 0, InvalidParameter),
            (np.zeros(2, np.uint64), 64, InvalidParameter),
            (np.full((2, 1), 8, np.uint64), 3, InvalidRecord),
        ],
    )
    def test_packed_rows_are_checked(
        self, x: NDArray[Any], d: int, error: type[AskanceError]
    ) -> None:
        with pytest.raises(error):
            ParityExamples.of_words(x, [0, 0], d)

    @pytest.mark.parametrize("d", [1, 63, 64, 65])
    def test_packed_or_not_they_are_the_same(self, d: int) -> None:
        rng = np.random.default_rng(d)
        bits, labels = rng.integers(0, 2, (9, d)), rng.integers(0, 2, 9)
        words = np.zeros((9, -(-d // 64)), dtype=np.uint64)
        for place in range(d):
            words[:, place // 64] |= bits[:, place].astype(np.uint64) << np.uint64(place % 64)
        plain, packed = (
            ParityExamples.of_bits(bits, labels),
            ParityExamples.of_words(words, labels, d),
        )
        assert len(plain) == 9
        assert (plain.rows == packed.rows).all()
        assert (ParityExamples.of_bits(bits == 1, labels == 1).rows == packed.rows).all()

    def test_a_law_is_for_what_can_be_gone_through(self) -> None:
        _, given, _ = drawn(17, 2, "long")
        with pytest.raises(InvalidParameter, match="at most 16"):
            law(given, Fraction(1, 2), 1)
        _, given, _ = drawn(2, 2, "short")
        with pytest.raises(InvalidParameter, match="expected a probability"):
            law(given, Fraction(3, 2), 1)


def test_a_parity_labels_and_is_written_down() -> None:
    parity = Parity((0, 1, 1))
    x = [[0, 0, 1], [0, 1, 1], [1, 0, 0]]
    assert parity(x).tolist() == [1, 0, 0]
    assert parity.to_json() == {"r": "011"}


@pytest.mark.parametrize("x", [[[2, 0]], [[1, 0, 1]], [1, 0], [[0.5, 0]], [["1", "0"]]])
def test_a_parity_is_of_as_many_bits_as_it_has(x: Any) -> None:
    with pytest.raises(InvalidRecord, match="2 zeros and ones"):
        Parity((1, 0))(x)


def test_both_rooms_mean_the_same_parity() -> None:
    from askance_papers.curator.mechanisms import Parities

    assert Parities(3).hypothesis(4) == Parity((1, 0, 0))
