"""Reference of a result: the same learner on the same users, with exact answers."""

from __future__ import annotations

from typing import Any

from askance_aggregator.learners import Answers, Batch, Learner
from askance_aggregator.learners.assessments import assess
from askance_aggregator.oracles import ExactOracle, NoExpectation, learn
from askance_aggregator.queries import EncodedColumns, joined_rows
from askance_client.errors import InvalidAnswer
from askance_client.queries import Bits
from askance_simulation.populations import Population
from askance_simulation.populations.columns import narrowed

MAX_HELD = 1 << 24  # values of columns in memory at once: 16 MB of bytes, 128 MB of whole words
FREE_WORK = 1 << 34  # bytes of queries times rows: two seconds of a core
WORK_PER_ANSWER = 4  # a device evaluates a query, draws coins, charges and reports


class TooMuchWork(Exception):
    """Exact answers would cost more than the study."""


class PopulationOracle:
    """Oracle of simulated users: exact answers over their records, round by round.

    Args:
      population: users, whose records may change from round to round.
      answers: number of reports of the study, whose cost bounds the work; None: no bound.
    """

    def __init__(self, population: Population, answers: int | None = None) -> None:
        self.schema = population.schema
        self._population = population
        self._answers = answers
        self._round = 0
        self._work = 0
        self._oracle: ExactOracle | None = None

    def answer(self, batch: Batch) -> Answers:
        """Return the expectations over the users of the current round."""
        sizes = [len(question.query.canonical) for question in batch.questions]
        self._work += sum(sizes) * self._population.size
        if self._answers is not None:
            allowed = max(FREE_WORK, WORK_PER_ANSWER * self._answers * max(sizes))
            if self._work > allowed:
                raise TooMuchWork
        if self._oracle is None or self._population.drift is not None:
            people = self._population.in_round(self._round)
            self._oracle = ExactOracle(people.schema, records_of(people))
        self._round += 1
        return self._oracle.answer(batch)


def records_of(population: Population) -> EncodedColumns:
    """Return the records of all users in as few bytes as their schema allows."""
    return joined_rows(
        *(
            narrowed(population.schema, population.columns(start, stop))
            for start, stop in population.stretches()
        )
    )


def reference_of(learner: Learner[Any], population: Population, answers: int) -> float | None:
    """Compute the learner's error with exact answers; None where that costs more than the study.

    None also where there are no exact answers: no user has the number, or no concept fits.

    The cost is counted, not timed, so that it is the same on every fleet and machine.
    """
    if population.size * _words(population) > MAX_HELD:
        return None
    try:
        hypothesis = learn(learner, PopulationOracle(population, answers))
    except (TooMuchWork, InvalidAnswer, NoExpectation):  # InvalidAnswer: no concept has these
        return None
    return assess(hypothesis, learner, population).error


def _words(population: Population) -> int:
    kinds = population.schema.fields.values()
    return sum(kind.words if isinstance(kind, Bits) else 1 for kind in kinds)
