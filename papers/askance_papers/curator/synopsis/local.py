"""Boosting without a curator: a fleet, or any other oracle, answers statistical queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Event
from askance_aggregator.learners import Adaptive, Batch, Learning, Question, Rational
from askance_aggregator.numbers import rational
from askance_aggregator.oracles import Oracle
from askance_aggregator.queries import predicate
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Expression, Query, Schema
from askance_papers.curator.synopsis.accounting import Schedule, rounds_for
from askance_papers.curator.synopsis.boosting import CountingGenerator, boost
from askance_papers.curator.synopsis.queries import MarginalFamily, QueryFamily
from askance_papers.curator.synopsis.synopses import Answered, MedianSynopsis

Asked = Callable[[int], Query]
"""The predicate that asks a device about a query of the family."""

_UNIT = Fraction(1, 1 << 20)  # errors are measured on this grid
_CHECKS = 4  # errors are known to mu/4


class OracleAnswers:
    """Answers from an oracle: one question a query, each to within a tolerance.

    Privacy: the oracle's. A fleet's users spend from their own local budgets, and the caller
    holds no record: there is no event of a curator.
    """

    def __init__(self, oracle: Oracle, asked: Asked, tau: Fraction) -> None:
        self._oracle = oracle
        self._asked = asked
        self._tau = tau

    @property
    def events(self) -> tuple[Event, ...]:
        """None: the users account for themselves."""
        return ()

    def answers(self, chosen: NDArray[np.int64], words: Words) -> NDArray[np.float64]:
        """Answer one batch; the random words are not used."""
        questions = [Question(self._asked(int(query)), self._tau) for query in chosen]
        return np.array([answer.value for answer in self._oracle.answer(Batch(questions))])


def boosted_locally(
    family: QueryFamily,
    oracle: Oracle,
    asked: Asked,
    accuracy: tuple[Rational, Rational],
    samples: int,
    words: Words,
) -> Answered:
    """Run boosting for queries on a fleet, without a curator.

    A curator can compare each synopsis with the data; a fleet has to be asked. So it is asked
    twice: once about every query of the family, coarsely (to mu/4), which is what errors are
    measured against in all rounds; and in each round about that round's sample, closely (to
    lambda/2), which is what the synopsis is fitted to. Everything else is computed from answers.

    Privacy: the oracle's alone: each user's local budget.
    Utility: Theorem IV.1 with errors known to mu/4 instead of exactly: every answer within
      lambda + 5/4 mu, if each synopsis is lambda-accurate on 5/6 of its distribution.

    Args:
      family: counting queries over a universe, scale 1.
      asked: each as a predicate over the fleet's schema; `conjunctions` makes those of marginals.
      accuracy: lambda and mu, above 0.
      samples: k, 1 or more.
      oracle: answers the queries; a fleet's study must have planned `boosting_rehearsal` with
        the same arguments.
      words: for the draws of queries.

    Raises:
      InvalidParameter: an accuracy that is not above 0, no sample, or values that are no
        predicates; nothing is asked.

    Source: ours; DRV10 has a curator.
    """
    accurate, slack = (rational(one, "accuracy") for one in accuracy)
    if not 0 < accurate < 1 or not 0 < slack < 1:
        raise InvalidParameter(
            f"accuracy: expected lambda and mu between 0 and 1, got {value_text(accuracy)}"
        )
    if samples < 1:
        raise InvalidParameter(f"samples: expected 1 or more, found {samples}")
    if family.scale != 1:
        raise InvalidParameter("queries: expected predicates, found values between 0 and 1")
    everything = np.arange(family.size)
    coarse = OracleAnswers(oracle, asked, slack / _CHECKS).answers(everything, words)
    schedule = Schedule(
        rounds_for(family.size),
        samples,
        -int(-accurate // _UNIT),
        -int(-slack // _UNIT),
        _UNIT,
    )
    generator = CountingGenerator(family, OracleAnswers(oracle, asked, accurate / 2))
    truth = np.rint(coarse / float(_UNIT)).astype(np.int64)
    found = boost(truth, generator, schedule, words)
    synopsis = MedianSynopsis(found.synopses, family)
    return Answered("boosting (local)", found.answers, (), synopsis)


def boosting_rehearsal(
    family: QueryFamily,
    asked: Asked,
    schema: Schema,
    accuracy: tuple[Rational, Rational],
    samples: int,
) -> Adaptive[None]:
    """Make a learner that asks as much as the longest run of `boosted_locally`.

    A fleet's study signs its plan, and stops a run that asks more: plan this learner, and pass the
    study's oracle to `boosted_locally` with the same arguments. `schema` is the shape of a record.
    """
    accurate, slack = (rational(one, "accuracy") for one in accuracy)

    def run() -> Learning[None]:
        yield Batch([Question(asked(query), slack / _CHECKS) for query in range(family.size)])
        most = min(samples, family.size)
        for _ in range(rounds_for(family.size)):
            yield Batch([Question(asked(query), accurate / 2) for query in range(most)])

    parameters = {"lambda": str(accurate), "mu": str(slack), "samples": str(samples)}
    return Adaptive(name="boosting", version=1, parameters=parameters, schema=schema, factory=run)


def conjunctions(family: MarginalFamily, columns: Sequence[Expression]) -> Asked:
    """The queries of marginals as predicates over a schema.

    `columns` has for each column of the universe the expression that holds its code.
    """
    expected = len(family.universe.sizes)
    if len(columns) != expected:
        raise InvalidParameter(f"columns: expected {expected} expressions, found {len(columns)}")

    def asked(query: int) -> Query:
        terms = [columns[column] == code for column, code in family.conjunction(query)]
        return predicate(reduce(lambda left, right: left & right, terms))

    return asked
