"""The tables and classes of answers that an owner is shown are the randomizers' exact laws."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import pytest

from askance_aggregator.families import (
    hypercube_response,
    k_ary_response,
    randomized_response,
)
from askance_client.accounting import parse_epsilon
from askance_client.cli.explanations import odds
from askance_client.exact_laws import probability
from askance_client.owner.laws import _CLASSES, classes, percent, table, truths
from askance_client.randomizers import (
    Channel,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    RandomCodebook,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)

HALF = 1 << 63
ROW = (3 << 62, (1 << 62) - 8, *[1] * 8)
LARGE: list[Randomizer] = [
    KaryResponse(100, 1 << 55),
    SubsetSelection(40, 9, HALF),
    LinearHashing(1000, 5, 1 << 60),
    HadamardSign(37, 3 << 62),
    SignedSubsetSelection(20, 4, HALF),
    SignedSubsetSelection(5, 5, 3 << 62),
    HypercubeResponse(33, 12, 3 << 62),
    RandomCodebook(4, 1000, 3, 20, 3 << 62),
    Channel((ROW, ROW[::-1], *[ROW] * 8)),
]
SMALL: list[Randomizer] = [
    randomized_response(parse_epsilon("0.5")),
    k_ary_response(4, parse_epsilon("1")),
    hypercube_response(2, parse_epsilon("1")),
    Channel(((HALF, HALF // 2, HALF // 2), (HALF // 2, HALF // 2, HALF))),
    LinearHashing(3, 2, 1 << 62),
]


def draws(randomizer: Randomizer, level: int, count: int = 40) -> list[bytes]:
    """Reports by coins that are digests of their numbers."""

    def coin(place: int) -> int:
        return int.from_bytes(hashlib.sha256(b"%d" % place).digest()[:8], "big")

    size = randomizer.coins
    return [
        randomizer.randomize(level, [coin(size * number + place) for place in range(size)])
        for number in range(count)
    ]


def test_every_family_has_classes() -> None:
    assert {found.name for found in LARGE} == set(_CLASSES)
    assert set(_CLASSES) == {family.name for family in _concrete(Randomizer)}


def _concrete(family: Any) -> list[Any]:
    below = [found for sub in family.__subclasses__() for found in _concrete(sub)]
    is_ours = family.__module__.startswith("askance_client.") and hasattr(family, "name")
    return [*below, family] if is_ours else below


@pytest.mark.parametrize("randomizer", LARGE, ids=lambda found: found.name)
def test_classes_are_disjoint_and_have_all_of_the_probability(randomizer: Randomizer) -> None:
    for level in truths(randomizer):
        found = classes(randomizer, level)
        assert sum(part.chance for part in found) == 1
        assert all(part.answers >= 1 and part.chance > 0 for part in found)


@pytest.mark.parametrize("randomizer", LARGE, ids=lambda found: found.name)
def test_an_answer_has_its_share_of_its_class(randomizer: Randomizer) -> None:
    seen = set()
    for level in truths(randomizer):
        even = {part.chance / part.answers for part in classes(randomizer, level) if part.alike}
        for report in draws(randomizer, level):
            chance = probability(randomizer, level, report)
            if all(part.alike for part in classes(randomizer, level)):
                assert chance in even
            seen.add(chance)
    assert len(seen) >= 2


@pytest.mark.parametrize("randomizer", LARGE, ids=lambda found: found.name)
def test_no_two_classes_differ_by_more_than_the_loss(randomizer: Randomizer) -> None:
    bound = Fraction(randomizer.loss.numerator, randomizer.loss.denominator)
    shares = [
        part.chance / part.answers
        for level in truths(randomizer)
        for part in classes(randomizer, level)
        if part.alike
    ]
    assert not shares or max(shares) / min(shares) <= bound
    if len(truths(randomizer)) == 1 and shares:
        assert bound / (max(shares) / min(shares)) < 1 + Fraction(1, 10**6)  # and no less


@pytest.mark.parametrize("randomizer", SMALL, ids=lambda found: found.name)
def test_a_small_alphabet_is_a_table_of_exact_rows(randomizer: Randomizer) -> None:
    found = table(randomizer)
    assert found is not None
    rows = [chances for _, chances in found]
    bound = Fraction(randomizer.loss.numerator, randomizer.loss.denominator)
    assert all(sum(column) == 1 for column in zip(*rows, strict=True))
    assert max(max(row) / min(row) for row in rows) <= bound


def test_a_large_alphabet_has_no_table() -> None:
    assert table(KaryResponse(9, 1 << 55)) is None
    assert table(LARGE[1]) is None


@pytest.mark.parametrize(
    ("nats", "text"), [("0.5", "1.65"), ("1", "2.72"), ("8", "2,980.96"), ("41", "more than 10^17")]
)
def test_odds_are_rounded_up(nats: str, text: str) -> None:
    assert odds(parse_epsilon(nats)) == text


def test_the_odds_of_no_loss_are_one() -> None:
    assert odds(0) == "1"
    assert odds(1) == "1.01"  # up, however little


@pytest.mark.parametrize(
    ("chance", "text"),
    [
        (Fraction(0), "0 %"),
        (Fraction(1), "100.00 %"),
        (Fraction(1, 3), "33.33 %"),
        (Fraction(1, 10**6), "0.00010 %"),
        (Fraction(123, 10**8), "0.00012 %"),
    ],
)
def test_a_small_chance_is_not_shown_as_none(chance: Fraction, text: str) -> None:
    assert percent(chance) == text
