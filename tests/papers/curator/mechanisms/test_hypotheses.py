"""Classes of hypotheses: what a transform counts is what each hypothesis gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.mechanisms import (
    Conjunctions,
    Listed,
    Parities,
    ScoredAtOnce,
    Stumps,
    WeightedClass,
    even_cuts,
    thresholds,
)

RNG = np.random.default_rng(5)
BITS = RNG.integers(0, 2, (40, 4))
REALS = np.round(RNG.normal(size=(40, 3)), 1)  # some lie on a cut
CLASSES: list[tuple[WeightedClass, NDArray[Any], tuple[int, int]]] = [
    (Conjunctions(4), BITS, (0, 1)),
    (Parities(4), BITS, (0, 1)),
    (Stumps([[-0.5, 0.5, 0.2], [], [0]]), REALS, (-1, 1)),
    (thresholds([-1, 0, 1]), REALS[:, :1], (-1, 1)),
    (Listed([lambda x: x[:, 0], lambda x: 1 - x[:, 0]], (0, 1)), BITS, (0, 1)),
]


@pytest.mark.parametrize(("family", "x", "labels"), CLASSES)
def test_what_is_counted_is_what_each_gets_wrong(
    family: WeightedClass, x: NDArray[Any], labels: tuple[int, int]
) -> None:
    y = np.array(labels)[RNG.integers(0, 2, len(x))]
    weights = RNG.integers(0, 9, len(x))
    everybody = np.arange(family.size)
    plain, weighted = (
        found(everybody).tolist()
        for found in (family.mistakes(x, y), family.weighted_mistakes(x, y, weights))
    )
    for number in range(family.size):
        wrong = family.hypothesis(number)(x) != y
        assert plain[number] == wrong.sum()
        assert weighted[number] == weights[wrong].sum()


def test_no_two_conjunctions_or_parities_are_the_same() -> None:
    cube = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T
    assert len({Parities(4).hypothesis(k)(cube).tobytes() for k in range(16)}) == 16
    unsatisfied = sum(not Conjunctions(4).hypothesis(k)(cube).any() for k in range(81))
    assert unsatisfied == 0
    assert len({Conjunctions(4).hypothesis(k)(cube).tobytes() for k in range(81)}) == 81


def test_hypotheses_tell_what_they_are() -> None:
    stumps = Stumps([[0.5], [2]])
    assert stumps.hypothesis(3).to_json() == {"feature": 1, "cut": 2.0, "above": 1, "below": -1}
    assert Parities(3).hypothesis(4).to_json() == {"r": "100"}
    assert Conjunctions(2).hypothesis(5).to_json() == {"literals": [[0, 1], [1, 0]]}


def test_cuts_divide_bounds() -> None:
    assert even_cuts(0, 4, 3) == (1, 2, 3)


Y = np.ones(40, dtype=np.int64)


def nan_in(x: NDArray[Any]) -> NDArray[Any]:
    spoilt = x.astype(float)
    spoilt[7, 0] = np.nan
    return spoilt


@pytest.mark.parametrize(("family", "x", "labels"), CLASSES)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda x, y: (x, y * 2),
        lambda x, y: (x, y.astype(float) * np.nan),
        lambda x, y: (x[:0], y[:0]),
        lambda x, y: (x[:-1], y),
        lambda x, y: (x, y.reshape(-1, 1)),
        lambda x, y: (nan_in(x), y),
        lambda x, y: (x, np.array(["yes"] * 40)),
    ],
)
def test_examples_that_are_none_are_refused(
    family: WeightedClass,
    x: NDArray[Any],
    labels: tuple[int, int],
    spoil: Callable[[Any, Any], tuple[Any, Any]],
) -> None:
    with pytest.raises(InvalidRecord, match=r"labels|features"):
        family.mistakes(*spoil(x, Y))


def test_a_row_is_named_and_its_value_is_not() -> None:
    bits = BITS.copy()
    bits[11, 2] = 77777
    with pytest.raises(InvalidRecord, match=r"found another in 1 of 40 rows, row 11") as caught:
        Parities(4).mistakes(bits, Y)
    assert "77777" not in str(caught.value)


@pytest.mark.parametrize(
    "weights", [Y[:-1], Y * -1, Y * 0.5, Y << 50], ids=["few", "negative", "float", "large"]
)
def test_weights_are_whole_numbers(weights: Any) -> None:
    for family, x, _ in CLASSES:
        with pytest.raises(InvalidRecord, match="weights"):
            family.weighted_mistakes(x, Y, weights)


def test_a_hypothesis_gives_labels() -> None:
    wrong = Listed([lambda x: x[:, 0] + 1], (0, 1))
    with pytest.raises(InvalidRecord, match="hypothesis 0"):
        wrong.mistakes(BITS, Y)(np.arange(1))


@pytest.mark.parametrize("counts", [[1, 2], [1.0, 2.0, 3.0], [0, -1, 3], [0, 41, 3]])
def test_a_scorer_counts(counts: Any) -> None:
    family = ScoredAtOnce(3, lambda x, y: np.array(counts), lambda k: lambda x: x[:, 0], (0, 1))
    with pytest.raises(InvalidRecord, match="scorer"):
        family.mistakes(BITS, Y)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Listed([], (0, 1)),
        lambda: Stumps([]),
        lambda: Stumps([[], []]),
        lambda: Stumps([[np.nan]]),
        lambda: thresholds([np.inf]),
        lambda: Parities(0),
        lambda: Parities(21),
        lambda: Conjunctions(14),
        lambda: even_cuts(1, 1, 3),
        lambda: even_cuts(0, 1, 0),
        lambda: ScoredAtOnce(0, lambda x, y: y, lambda k: lambda x: x, (0, 1)),
    ],
)
def test_a_class_has_a_hypothesis(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter, match=r"class|cuts|d: expected"):
        make()
