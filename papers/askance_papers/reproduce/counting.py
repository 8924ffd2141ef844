"""Answers of many trials: drawn from tallies instead of devices, or asked once each."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.families import family_of
from askance_aggregator.learners import Answer, Answers, Batch, Question
from askance_aggregator.oracles import Oracle
from askance_aggregator.planning import RoundPlan
from askance_client.queries import Query, QueryKind
from askance_client.randomizers import Randomizer
from askance_simulation.counts import sample_levels, sample_tally
from askance_simulation.randomness import Seed


def generator(seed: Seed) -> np.random.Generator:
    """Make numpy's generator of a seed."""
    return np.random.default_rng(int.from_bytes(seed.key, "big"))


def round_answers(
    questions: Sequence[Question],
    planned: RoundPlan,
    laws: Sequence[ArrayLike],
    rng: np.random.Generator,
    trials: int,
) -> list[Answers]:
    """Draw a fleet's answers to a round, in each of many trials: exact in law, for any size."""
    # The tally of a group is drawn from its law (`askance_simulation.counts`) and de-biased by the
    # randomizer, as the session does; intervals are left out (each is its value).
    #
    # `laws` has for each question the probabilities of its levels, shape (levels,) or (trials,
    # levels); of a number those of the two ends of its range.
    tallies: list[NDArray[np.int64]] = []
    for group, law in zip(planned.groups, laws, strict=True):
        counts = sample_levels(law, group.users, rng, trials)
        tallies.append(sample_tally(group.randomizer, counts, rng, trials))
    found = []
    for trial in range(trials):
        answers = []
        for question, group, tally in zip(questions, planned.groups, tallies, strict=True):
            told = _values(question, group.randomizer, tally[trial], group.users)
            values = tuple(float(value) for value in told)
            answers.append(Answer(values, values, values))
        found.append(tuple(answers))
    return found


def _values(
    question: Question, randomizer: Randomizer, tally: NDArray[np.int64], users: int
) -> Sequence[Fraction]:
    family = family_of(randomizer)
    if family.signed is not None:
        return family.signed.signed_values(tally, users)
    shares, kind = family.frequencies(tally, users), question.query.kind
    if kind is QueryKind.CATEGORY:
        return shares
    if kind is QueryKind.SIGNED:
        pairs = range(0, 2 * question.values, 2)
        return [shares[cell] - shares[cell + 1] for cell in pairs]
    return [question.bounds[0] + question.spread * shares[1]]


class AskedOnce:
    """Another oracle, asked each query once: the same question has the same answer ever after.

    For runs that ask thousands of questions of which few differ. The first tolerance counts, so all
    questions of one query have to have the same.
    """

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._known: dict[Query, Answer] = {}
        self.asked = 0

    def answer(self, batch: Batch) -> Answers:
        """Return the remembered answers."""
        self.asked += len(batch.questions)
        new = {q.query: q for q in batch.questions if q.query not in self._known}
        if new:
            told = self._oracle.answer(Batch(new.values()))
            self._known.update(zip(new, told, strict=True))
        return tuple(self._known[question.query] for question in batch.questions)
