"""What may come in: a study that is signed, understood, affordable and can work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from askance.aggregator.learners import Learner, find
from askance.aggregator.planning import plan
from askance.client.accounting import format_nats
from askance.client.codec import decode_study, digest_of, verify_study
from askance.client.errors import AskanceError, InvalidParameter
from askance.client.messages import SignedStudy, StudyTerms


class SubmissionRefused(AskanceError):
    """A study that was not taken in; nobody was asked. `reason` is a word for programs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DeskLimits:
    """What a desk takes in.

    Args:
      open_studies: at one time.
      user_nano_nats: the most that all studies together may cost a user, by the aggregator's own
        account; None: as much as the devices' owners allow.
    """

    open_studies: int = 64
    user_nano_nats: int | None = None

    def __post_init__(self) -> None:
        if self.open_studies < 1:
            raise InvalidParameter(f"desk: expected 1 study or more, found {self.open_studies}")
        if self.user_nano_nats is not None and self.user_nano_nats < 0:
            raise InvalidParameter("desk: expected a user's budget of 0 nano-nats or more")


@dataclass(frozen=True, slots=True)
class Submission:
    """A study that was understood."""

    digest: bytes
    signed: SignedStudy
    terms: StudyTerms
    learner: Learner[Any]


def understand(signed: SignedStudy, analysts: frozenset[bytes]) -> Submission:
    """The study in what an analyst sent.

    Raises:
      SubmissionRefused: the key is not one of `analysts`, the signature not the key's, the study
        none, or its learner not one of the catalogue's in this version.
    """
    if signed.public_key not in analysts:
        raise SubmissionRefused("untrusted-key", "study: expected a known analyst's key")
    if not verify_study(signed):
        raise SubmissionRefused("bad-signature", "study: expected its analyst's signature over it")
    try:
        terms = decode_study(signed.study)
    except AskanceError as error:
        raise SubmissionRefused("malformed", str(error)) from None
    return Submission(digest_of(signed.study), signed, terms, learner_of(terms))


def learner_of(terms: StudyTerms) -> Learner[Any]:
    """The learner that a study's terms name.

    Raises:
      SubmissionRefused: the catalogue has none of that name and version, or its parameters make
        none.
    """
    try:
        learner = find(terms.learner).build(terms.schema, dict(terms.parameters))
    except AskanceError as error:
        raise SubmissionRefused("unknown-learner", str(error)) from None
    if learner.version != terms.learner_version:
        raise SubmissionRefused(
            "unknown-learner",
            f"{terms.learner}: expected version {learner.version}, found {terms.learner_version}",
        )
    return learner


def check_timely(submission: Submission, now_s: int) -> None:
    """Raises SubmissionRefused for a study that devices would not answer any more."""
    if submission.terms.expires_unix_s <= now_s:
        raise SubmissionRefused("expired", "study: expected one that has not expired")


def check_workable(submission: Submission, population: int) -> None:
    """Raises SubmissionRefused for a study that cannot work with so many users."""
    if population < 1:
        raise SubmissionRefused("plan-refused", "study: expected enrolled devices, found none")
    terms = submission.terms
    try:
        planned = plan(
            submission.learner,
            terms.budget_nano_nats,
            terms.conduct.beta,
            n_users=population,
            waves=terms.conduct.waves,
        )
    except AskanceError as error:
        raise SubmissionRefused("plan-refused", str(error)) from None
    if not planned.feasible:
        raise SubmissionRefused("plan-refused", planned.reason or "the plan is not feasible")


def check_affordable(
    submission: Submission,
    limits: DeskLimits,
    running: Iterable[SignedStudy],
    ended_nano_nats: int,
) -> None:
    """Raises SubmissionRefused where all studies together could cost a user too much.

    An open study counts with its whole budget; one that has ended with the most that anybody was
    asked for. Every user is taken to be in all of them: nobody is ever over the limit.

    Args:
      running: the open studies.
      ended_nano_nats: the sum over ended studies (see `Store.nano_nats_asked`).
    """
    if limits.user_nano_nats is None:
        return
    left = limits.user_nano_nats - ended_nano_nats - _budgets(running)
    if submission.terms.budget_nano_nats > left:
        raise SubmissionRefused(
            "over-user-budget",
            f"study: expected at most {format_nats(max(left, 0))} nats a user, which is what other"
            f" studies leave, found {format_nats(submission.terms.budget_nano_nats)}",
        )


def _budgets(studies: Iterable[SignedStudy]) -> int:
    return sum(decode_study(signed.study).budget_nano_nats for signed in studies)
