"""MASKED-PARITY: its questions have the expectations of KLNRS08 section 5, on every example."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Allocation,
    Answer,
    Batch,
    Conditions,
    Learner,
    MaskedParity,
    OneStandsOut,
    SignsListed,
    masked_parity,
    masked_parity_schema,
    neutral_answer,
)
from askance_aggregator.queries import encode_columns, evaluate_columns, evaluate_vectors
from askance_client.errors import InvalidParameter
from askance_client.queries import QueryKind


def domain(d: int) -> dict[str, list[object]]:
    """Return all examples (x, i, b), each once."""
    rows = list(product(product((0, 1), repeat=d), range(d), (0, 1)))
    return {
        "x": [row[0] for row in rows],
        "i": [row[1] for row in rows],
        "b": [row[2] for row in rows],
    }


def label(concept: MaskedParity, x: tuple[int, ...], i: int, b: int) -> int:
    """Compute c_{r,a} as it is printed."""
    if b == 1:
        return int((-1) ** concept.r[i])
    inner = sum(bit * mask for bit, mask in zip(x, concept.r, strict=True))
    return int((-1) ** (inner + concept.a))


def first_batch(d: int, variant: str) -> Batch:
    return next(masked_parity(masked_parity_schema(d), variant).run())


def evaluated(batch: Batch, d: int, concept: MaskedParity) -> list[list[int]]:
    columns = domain(d)
    labels = concept.predict({name: np.asarray(column) for name, column in columns.items()})
    encoded = encode_columns(masked_parity_schema(d), {**columns, "y": labels})
    return [
        [int(v) for v in evaluate_columns(question.query, encoded)] for question in batch.questions
    ]


@pytest.mark.parametrize("a", [0, 1])
@pytest.mark.parametrize("r", [(0, 0), (0, 1, 1), (0, 1, 1, 0), (1, 1, 1, 0), (1, 0, 0, 1, 1)])
def test_predictions_are_the_printed_concept(r: tuple[int, ...], a: int) -> None:
    concept, columns = MaskedParity(r, a), domain(len(r))
    expected = [
        label(concept, x, i, b)  # type: ignore[arg-type]  # columns of mixed types
        for x, i, b in zip(columns["x"], columns["i"], columns["b"], strict=True)
    ]
    assert concept.predict({k: np.asarray(v) for k, v in columns.items()}).tolist() == expected


@pytest.mark.parametrize("r", [(0, 1), (0, 1, 1), (0, 1, 1, 0), (1, 0, 0, 1, 1)])
def test_round_one_shows_each_bit_as_the_sign_of_one_pair(r: tuple[int, ...]) -> None:
    d = len(r)
    batch = first_batch(d, "signed")
    (question,) = batch.questions
    assert question.query.kind is QueryKind.SIGNED
    assert question.query.cells == 2 * d + 1
    assert question.tau == question.cell_mass == Fraction(1, 2 * d)
    (cells,) = evaluated(batch, d, MaskedParity(r, 1))
    for j in range(d):
        value = Fraction(cells.count(2 * j) - cells.count(2 * j + 1), len(cells))
        assert value == Fraction((-1) ** r[j], 2 * d)


@pytest.mark.parametrize("r", [(0, 1), (0, 1, 1), (0, 1, 1, 0), (1, 0, 0, 1, 1)])
def test_as_printed_round_one_is_a_predicate_a_bit(r: tuple[int, ...]) -> None:
    d = len(r)
    batch = first_batch(d, "printed")
    assert batch.allocation is Allocation.FRESH
    assert {question.tau for question in batch.questions} == {Fraction(1, 4 * d)}
    for j, values in enumerate(evaluated(batch, d, MaskedParity(r, 0))):
        assert Fraction(sum(values), len(values)) == Fraction(r[j], 2 * d)


@pytest.mark.parametrize("a", [0, 1])
@pytest.mark.parametrize("r", [(0, 0), (1, 0), (1, 0, 1), (0, 1, 1, 1), (1, 0, 0, 1, 1)])
def test_round_two_is_a_half_or_nothing(r: tuple[int, ...], a: int) -> None:
    d = len(r)
    run = masked_parity(masked_parity_schema(d)).run()
    (question,) = next(run).questions
    signs = tuple((-1.0) ** bit / (2 * d) for bit in r)
    batch = run.send((type(neutral_answer(question))(signs, signs, signs),))
    assert batch.questions[0].tau == Fraction(1, 4)
    (values,) = evaluated(batch, d, MaskedParity(r, a))
    assert Fraction(sum(values), len(values)) == Fraction(a, 2)


@pytest.mark.parametrize("a", [0, 1])
@pytest.mark.parametrize("r", [(0, 0), (1, 0, 1), (0, 1, 1, 1), (1, 0, 0, 1, 1)])
def test_round_two_of_a_list_is_a_signed_half_for_the_mask_alone(
    r: tuple[int, ...], a: int
) -> None:
    """Every example, all masks but one as candidates: +-1/2 for r, 0 for every other."""
    d, schema = len(r), masked_parity_schema(len(r))
    candidates = (1 << d) - 1
    run = masked_parity(schema, candidates=candidates).run()
    (question,) = next(run).questions
    assert question.decision == SignsListed(d, candidates)
    signs = tuple((-1.0) ** bit / (2 * d) for bit in r)
    (asked,) = run.send((Answer(signs, signs, signs),)).questions
    assert (asked.values, asked.tau) == (candidates, Fraction(1, 4))
    assert asked.decision == OneStandsOut(candidates)
    columns, concept = domain(d), MaskedParity(r, a)
    labels = concept.predict({name: np.asarray(column) for name, column in columns.items()})
    encoded = encode_columns(schema, {**columns, "y": labels})
    means = evaluate_vectors(asked.query, encoded).mean(axis=0)
    assert means.tolist() == [(-1) ** a / 2] + [0] * (candidates - 1)
    with pytest.raises(StopIteration) as done:
        run.send((Answer(*[tuple(means.tolist())] * 3),))
    assert done.value.value == concept


def test_one_candidate_asks_what_two_rounds_have_always_asked() -> None:
    """Signed studies that name no number of candidates keep their questions."""
    schema = masked_parity_schema(5)
    (plain,), (one,) = (
        [next(learner.run()).questions[0]]
        for learner in (masked_parity(schema), masked_parity(schema, candidates=1))
    )
    assert plain == one
    assert plain.decision is None
    assert masked_parity(schema).parameters == {"variant": "signed"}
    assert masked_parity(schema, candidates=1).parameters["candidates"] == "1"


@pytest.mark.parametrize(
    ("d", "variant", "candidates", "most"),
    [
        (4, "signed", 0, 15),
        (4, "signed", 16, 15),
        (16, "signed", 513, 512),
        (16, "signed", True, 512),
        (16, "signed", 2.0, 512),
        (16, "printed", 2, 1),
    ],
)
def test_a_number_of_candidates_out_of_range_is_one_clear_error(
    d: int, variant: str, candidates: int, most: int
) -> None:
    expected = rf"^candidates: expected a whole number in 1\.\.{most} .*, got {candidates}"
    with pytest.raises(InvalidParameter, match=expected):
        masked_parity(masked_parity_schema(d), variant, candidates=candidates)


def test_what_is_left_to_the_planner_is_every_power_of_two() -> None:
    def left(d: int, **given: object) -> list[str]:
        seen: list[str] = []

        def needed(option: Learner[Any]) -> int:
            seen.append(option.parameters["candidates"])
            return 100 - len(seen)  # fewer with each, so that none is left out

        learner = masked_parity(masked_parity_schema(d), **given)  # type: ignore[call-overload]  # as keywords
        learner.settled(Conditions(None, lambda question: 1.0, lambda *given: 1.0, needed))
        return seen

    assert left(3) == ["1", "2", "4"]
    assert left(100) == [str(1 << power) for power in range(10)]
    assert left(3, candidates=2) == left(3, variant="printed") == []


@pytest.mark.parametrize(
    ("users", "best", "tried"),
    [
        ([9, 5, 6, 4, 3], 4, 5),
        ([9, 5, 6, 7, 1], 1, 4),
        ([None, 5, None, 5], 1, 4),
        ([None, None], None, 2),
    ],
)
def test_the_search_for_the_fewest_users_ends_after_two_rises(
    users: list[int | None], best: int | None, tried: int
) -> None:
    """The first of equals; what cannot be planned is passed over; a single rise ends nothing."""
    learner = masked_parity(masked_parity_schema(4), candidates=1)
    seen: list[int] = []

    def needed(option: object) -> int | None:
        assert option is learner
        return users[seen[-1]]

    def with_value(value: int) -> Learner[Any]:
        seen.append(value)
        return learner

    conditions = Conditions(None, lambda question: 1.0, lambda *given: 1.0, needed)
    assert conditions.fewest_users(range(len(users)), with_value) == best
    assert len(seen) == tried


def test_the_hypothesis_as_json_has_bit_zero_on_the_left() -> None:
    assert MaskedParity((0, 1, 1, 0), 1).to_json() == {"r": "0110", "a": 1}


@pytest.mark.parametrize("d", [-1, 0, 1, 1025, 2048, True, 3.0, "4", None])
def test_a_d_out_of_range_is_one_clear_error(d: int) -> None:
    """With d = 1 the index i would be a constant."""
    with pytest.raises(InvalidParameter, match=r"^d: expected a whole number in 2\.\.1024, got "):
        masked_parity_schema(d)


@pytest.mark.parametrize("d", [2, 3, 5, 6, 7, 12, 100, 1000, 1023, 1024])
def test_every_d_in_range_has_a_schema_and_its_questions(d: int) -> None:
    """Reproduction: only powers of two were accepted."""
    (question,) = first_batch(d, "signed").questions
    assert question.query.cells == 2 * d + 1
    assert question.tau == question.cell_mass == Fraction(1, 2 * d)
    assert len(first_batch(d, "printed").questions) == d


@pytest.mark.parametrize(("r", "a"), [((), 0), ((0, 2), 0), ((0, 1), 2)])
def test_a_concept_is_made_of_bits(r: tuple[int, ...], a: int) -> None:
    with pytest.raises(InvalidParameter, match="MaskedParity expects bits"):
        MaskedParity(r, a)
