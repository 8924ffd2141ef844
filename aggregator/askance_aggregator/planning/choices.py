"""Choices of an answer: randomizers with the decode values of their reports."""

from __future__ import annotations

from typing import NamedTuple

from askance_aggregator.estimation import Decode
from askance_aggregator.families import best_for
from askance_aggregator.learners import Question
from askance_aggregator.planning.designed import designed_for
from askance_aggregator.planning.precision import Design, candidates
from askance_client.randomizers import Randomizer


class Choice(NamedTuple):
    """A randomizer with its decode values.

    Args:
        randomizer: what a device is asked to use.
        decode: what was designed with a table; None: the randomizer's own way.
        limit: n x variance that no randomizer of this epsilon is below, in the unit of
            `n_variance`; None where none was proved.
    """

    randomizer: Randomizer
    decode: Decode | None = None
    limit: float | None = None


def choices(question: Question, nano_nats: int, design: Design) -> tuple[Choice, ...]:
    """Return the choices of a plan, which takes the one with the least need.

    A number whose mean is wanted for more than the worst population has the table that is designed
    for that (`designed_for`), unless the study has a design of its own.
    """
    table = designed_for(question, nano_nats) if design is best_for else None
    if table is None:
        return tuple(Choice(each) for each in candidates(question, nano_nats, design))
    proved = table.nano == nano_nats  # a bound holds for the budget that it was computed for
    limit = float(question.spread / 2) ** 2 * table.lower_bound if proved else None
    return (Choice(table.channel, table.values, limit),)
