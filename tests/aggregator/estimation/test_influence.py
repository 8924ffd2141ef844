"""Influence of one report on a value: `influence` as computed, and no more for any other report."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from askance_aggregator.estimation import estimate, influence
from askance_aggregator.families import (
    family_of,
    hadamard_sign,
    k_ary_response,
    linear_hashing,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_aggregator.learners import Question
from askance_aggregator.queries import category, predicate, real
from askance_aggregator.queries import signed as signed_query
from askance_client.accounting import parse_epsilon
from askance_client.errors import InvalidParameter
from askance_client.queries import (
    Bit,
    Category,
    Integer,
    Query,
    Real,
    Schema,
)
from askance_client.randomizers import Randomizer

SCHEMA = Schema(
    "people",
    1,
    smokes=Bit(),
    colour=Category(("r", "g", "b", "w")),
    age=Real(-2, 6),
    side=Integer(0, 4),
)
ONE = parse_epsilon("1")


def answers(query: Query, randomizer: Randomizer, reports: list[bytes]) -> tuple[float, ...]:
    counts = family_of(randomizer).tally(
        np.frombuffer(b"".join(reports), np.uint8).reshape(len(reports), -1)
    )
    return estimate(Question(query), randomizer, counts, len(reports), 0.05).values


@pytest.mark.parametrize(
    ("query", "randomizer"),
    [
        (predicate(SCHEMA.smokes == 1), randomized_response(ONE)),
        (real(SCHEMA.age), randomized_response(ONE)),
        (category(SCHEMA.colour), k_ary_response(4, ONE)),
        (category(SCHEMA.colour), subset_selection(4, ONE)),
        (signed_query(SCHEMA.side), k_ary_response(5, ONE)),
        (signed_query(SCHEMA.side), subset_selection(5, ONE)),
        (category(SCHEMA.colour), linear_hashing(4, ONE)),
        (signed_query(SCHEMA.side), hadamard_sign(2, ONE)),
        (signed_query(SCHEMA.side), signed_subset_selection(2, ONE)),
    ],
    ids=[
        *["predicate", "real", "k-ary", "subsets", "signed-k-ary", "signed-subsets"],
        *["hashes", "sign", "signed-sets"],
    ],
)
def test_it_is_attained_and_never_passed(query: Query, randomizer: Randomizer) -> None:
    alphabet = list(family_of(randomizer).alphabet())
    others = [alphabet[0], alphabet[-1]]
    moved = max(
        abs(after - before)
        for one, two in product(alphabet, repeat=2)
        for after, before in zip(
            answers(query, randomizer, [*others, one]),
            answers(query, randomizer, [*others, two]),
            strict=True,
        )
    )
    assert moved == pytest.approx(float(influence(Question(query), randomizer, 3)))


def test_it_falls_with_the_answers() -> None:
    question, randomizer = Question(predicate(SCHEMA.smokes == 1)), randomized_response(ONE)
    assert influence(question, randomizer, 10) == influence(question, randomizer, 1) / 10
    assert isinstance(influence(question, randomizer, 7), Fraction)


def test_nobody_has_no_influence() -> None:
    with pytest.raises(InvalidParameter, match="1 answer or more"):
        influence(Question(predicate(SCHEMA.smokes == 1)), randomized_response(ONE), 0)
