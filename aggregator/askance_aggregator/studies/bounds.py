"""Bounds that accompany every answer: confidence, influence of one report, lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from askance_aggregator.estimation import Decode, influence
from askance_aggregator.learners import Answer, Question, SampleMean
from askance_aggregator.planning import least_users
from askance_client.randomizers import Randomizer


class Heard(NamedTuple):
    """Reports received for a question, or for one block of a vector's components.

    `decode` is what the randomizer was designed with to decode by, if it was.
    """

    question: Question
    randomizer: Randomizer
    decode: Decode | None
    answers: int


class Sure(NamedTuple):
    """Budget per user in nats, and the chance that an interval of the answer misses."""

    nats: float
    alpha: float


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """The bounds of one answer.

    Args:
        round: which batch of the learner's; question: its place there; from 0.
        answers: how many reports it is made of.
        within: half the width of its widest interval, in real units.
        one_report_moves_by: the most that one report, sent instead of another, moves a value.
        least_users: with fewer than this no randomizers of the study's epsilon have intervals as
            narrow for every population, as surely; None where no such bound is known.
    """

    round: int
    question: int
    answers: int
    within: float
    one_report_moves_by: float
    least_users: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the bounds as JSON, as a result has them."""
        return {
            "round": self.round,
            "question": self.question,
            "answers": self.answers,
            "within": self.within,
            "one_report_moves_by": self.one_report_moves_by,
            "least_users": self.least_users,
        }


def bounds_of(
    place: tuple[int, int], question: Question, answer: Answer, heard: Sequence[Heard], sure: Sure
) -> AnswerBounds | None:
    """Return the bounds of an answer; None where some part of it has no report at all.

    `place` is its round and its place there; `heard` has, of a vector, one item per block.
    """
    if not all(part.answers for part in heard):
        return None
    within = max(high - low for low, high in zip(answer.lows, answer.highs, strict=True)) / 2
    present = 1.0 if answer.present is None else answer.present.share
    moved = max(
        influence(part.question, part.randomizer, part.answers, part.decode, present)
        for part in heard
    )
    # The budget is a user's whole one: a user that splits it has no more.
    least = least_users(question, within, sure.nats, sure.alpha) if within > 0 else None
    unknown = isinstance(question.aim, SampleMean)
    return AnswerBounds(
        round=place[0],
        question=place[1],
        answers=sum(part.answers for part in heard),
        within=within,
        one_report_moves_by=float(moved),
        least_users=None if unknown else least,
    )
