"""Both rounds of MASKED-PARITY with a list of masks, as tallies: exact in law, without devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import HypercubeFamily
from askance_aggregator.learners import Answer, Answers, Batch
from askance_aggregator.learners.sign_lists import likely_patterns
from askance_aggregator.planning import RoundPlan, StudyPlan
from askance_aggregator.queries import evaluate_columns
from askance_client.randomizers import COIN_SPACE, HypercubeResponse
from askance_papers.reproduce.counting import round_answers
from askance_papers.reproduce.klnrs08.masked_records import record_weights, records

Masks = NDArray[np.int64]
Floats = NDArray[np.float64]


def first_answers(
    batch: Batch, planned: RoundPlan, masks: Masks, rng: np.random.Generator
) -> list[Answers]:
    """Draw the answers of round 1, one trial per mask.

    Args:
        batch: the learner's first.
        planned: its groups.
        masks: shape (trials, d), with 0/1.
        rng: where randomness comes from.
    """
    weights = record_weights(masks)
    rows = records(masks.shape[1])
    laws = [
        weights @ np.eye(group.randomizer.levels)[evaluate_columns(group.query, rows)]
        for group in planned.groups
    ]
    return round_answers(batch.questions, planned, laws, rng, len(masks))


def second_values(
    planned: RoundPlan,
    listed: Sequence[Sequence[int]],
    r: Sequence[int],
    a: int,
    rng: np.random.Generator,
) -> list[float]:
    """Draw the values of round 2 for one trial: one per mask of the list.

    A user's values are 0 where b = 1, and otherwise (-1)^(<r + r', x> + a) for each mask r' of the
    user's block; x is uniform, so these signs are uniform on the span of the masks r + r'.
    """
    values: list[float] = []
    for group in planned.groups:
        randomizer = group.randomizer
        if not isinstance(randomizer, HypercubeResponse):
            raise AssertionError(
                f"expected signs that are reported together, got {randomizer.name}"
            )
        block = listed[len(values) : len(values) + randomizer.components]
        differences = [_as_number(one) ^ _as_number(r) for one in block]
        shown = rng.binomial(group.users, 0.5)
        patterns = _of_signs(differences, a, shown, rng) + rng.multinomial(
            group.users - shown, _uniform(randomizer.levels)
        )
        reports = rng.multinomial(patterns, _rows(randomizer)).sum(axis=0)
        plus = reports @ _plus(randomizer.components)
        agreement = float(HypercubeFamily(randomizer).agreement)
        values += ((2 * plus / group.users - 1) / agreement).tolist()
    return values


def failed_trials(
    batch: Batch,
    planned: StudyPlan,
    candidates: int,
    trials: int,
    rng: np.random.Generator,
    scale: float = 1.0,
) -> tuple[int, int]:
    """Count the trials, each of a random concept, in which either round fails.

    Args:
        batch: the learner's first.
        planned: the plan of the learner with so many candidates.
        candidates: number of masks that are kept, 2 or more.
        trials: number of concepts.
        rng: where randomness comes from.
        scale: part of the planned users that are asked in each group.

    Returns:
        Those whose list lacks the mask, and those that choose another one from a list that has it.
    """
    first, second = (scaled(round_, scale) for round_ in planned.rounds)
    (question,) = batch.questions
    concepts = rng.integers(0, 2, (trials, question.values + 1))
    told = first_answers(batch, first, concepts[:, :-1], rng)
    absent = wrong = 0
    for (answer,), (*r, a) in zip(told, concepts.tolist(), strict=True):
        listed = likely_patterns(answer.values, candidates)
        if tuple(r) not in listed:
            absent += 1
            continue
        values = second_values(second, listed, r, a, rng)
        place = max(range(len(values)), key=lambda one: abs(values[one]))
        wrong += listed[place] != tuple(r) or int(values[place] < 0) != a
    return absent, wrong


def scaled(planned: RoundPlan, scale: float) -> RoundPlan:
    """Return the plan of a round with this part of the users in each group, at least one."""
    groups = tuple(replace(one, users=max(round(scale * one.users), 1)) for one in planned.groups)
    return replace(planned, groups=groups, users=sum(group.users for group in groups))


def as_answer(values: Sequence[float]) -> Answer:
    """Make the answer of these values."""
    plain = tuple(map(float, values))
    return Answer(plain, plain, plain)


def _as_number(mask: Sequence[int]) -> int:
    return int("".join(map(str, mask)), 2)


def _of_signs(
    differences: Sequence[int], a: int, users: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw how many users with b = 0 have each pattern of signs; bit s - 1 - j is + at j."""
    patterns = np.zeros(1, dtype=np.int64)
    for column in _columns(differences):
        patterns = np.concatenate([patterns, patterns ^ column])
    everyone = (1 << len(differences)) - 1
    if a == 0:
        patterns = patterns ^ everyone  # <.., x> = 0 is the sign +
    counts = rng.multinomial(users, _uniform(len(patterns)))
    return np.bincount(patterns, weights=counts, minlength=everyone + 1).astype(np.int64)


def _columns(differences: Sequence[int]) -> list[int]:
    """Return a basis of the patterns that the bits of x can make together."""
    basis: dict[int, int] = {}
    size, left = len(differences), reduce(or_, differences, 0)
    while left:
        bit = left.bit_length() - 1
        left ^= 1 << bit
        column = sum((one >> bit & 1) << size - 1 - j for j, one in enumerate(differences))
        for pivot, known in basis.items():
            if column >> pivot & 1:
                column ^= known
        if column:
            basis[column.bit_length() - 1] = column
    return list(basis.values())


@lru_cache(maxsize=64)
def _uniform(outcomes: int) -> Floats:
    return np.full(outcomes, 1 / outcomes)


@lru_cache(maxsize=64)
def _plus(components: int) -> NDArray[np.int64]:
    """Return which patterns have + at which component, shape (2^s, s)."""
    patterns = np.arange(1 << components)[:, np.newaxis]
    return patterns >> np.arange(components - 1, -1, -1) & 1


@lru_cache(maxsize=64)
def _rows(randomizer: HypercubeResponse) -> Floats:
    """Return P[report | pattern], shape (2^s, 2^s)."""
    patterns = np.arange(randomizer.levels)
    apart = np.bitwise_count(patterns[:, np.newaxis] ^ patterns)
    near = randomizer.threshold / COIN_SPACE
    inside = near / randomizer.near
    outside = (1 - near) / (randomizer.levels - randomizer.near)
    chances = np.where(apart <= randomizer.radius, inside, outside)
    rows: Floats = chances / chances.sum(axis=1, keepdims=True)
    return rows
