"""The learner that a submitted study names, or the reason that there is none."""

from __future__ import annotations

from typing import Any

from askance_aggregator.learners import Learner, find
from askance_aggregator.planning import RoundPlan
from askance_aggregator.studies.keep import learner_parameters
from askance_client.errors import AskanceError
from askance_client.messages import StudyTerms


class SubmissionRefused(AskanceError):
    """A study that was not accepted; no user was asked or charged.

    `reason` is a word for programs, `message` a line for its analyst.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def learner_of(terms: StudyTerms) -> Learner[Any]:
    """The learner that a study's terms name.

    Raises:
      SubmissionRefused: the catalogue has none of that name and version, or has it from another
        distribution, or its parameters make none.
    """
    try:
        entry = find(terms.learner)
    except AskanceError as error:
        asked = f"{terms.learner} version {terms.learner_version}{_source(terms.distribution)}"
        raise SubmissionRefused("unknown-learner", f"{error}; the study asks for {asked}") from None
    if entry.version != terms.learner_version:
        raise SubmissionRefused(
            "unknown-learner",
            f"{terms.learner}: expected version {entry.version}, found {terms.learner_version}",
        )
    if entry.distribution != terms.distribution:
        raise SubmissionRefused(
            "unknown-learner",
            f"{terms.learner}: expected version {entry.version}{_source(entry.distribution)},"
            f" got version {terms.learner_version}{_source(terms.distribution)}",
        )
    try:
        return entry.build(terms.schema, learner_parameters(terms))
    except AskanceError as error:
        raise SubmissionRefused("unknown-learner", str(error)) from None


def surplus_of_answers(terms: StudyTerms, planned: RoundPlan) -> str | None:
    """Explain why a round asks a user more than the study signs; None: it does not."""
    epochs = 1 if terms.repeat is None else terms.repeat.epochs
    if planned.answers * epochs <= terms.most_answers:
        return None
    together = f" in each of {epochs} epochs" if epochs > 1 else ""
    return (
        f"most_answers: expected {planned.answers * epochs} or more, for {planned.answers} answers"
        f" of a user{together}, got {terms.most_answers}"
    )


def _source(distribution: str) -> str:
    return f" of {distribution or 'askance'}"
