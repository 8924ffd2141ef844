"""Checks of submissions: a study is signed, understood, affordable and can work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from askance_aggregator.learners import Learner
from askance_aggregator.planning import fields_needed, plan
from askance_aggregator.studies.submitted import SubmissionRefused, learner_of
from askance_client.accounting import format_nats
from askance_client.codec import decode_study, digest_of, verify_study
from askance_client.errors import AskanceError, InvalidParameter
from askance_client.messages import SignedStudy, StudyTerms

LEAST_DEADLINE_S = 7
"""Seconds in which a device that checks in can answer.

It checks in every 2 s, give or take a half: within 3 s for the request. The report follows on its
release grid, after 1 s unless its owner sets another, and within 3 s more if the first try fails.
"""


@dataclass(frozen=True, slots=True)
class SubmissionLimits:
    """Limits on submitted studies.

    Args:
      open_studies: at one time.
      user_nano_nats: the most that all studies together may cost a user, by the aggregator's own
        account; None: as much as the devices' owners allow.
      deadline_s: the shortest deadline of a round, in seconds; a study that states a shorter one
        (but for 0, none) is refused.
    """

    open_studies: int = 64
    user_nano_nats: int | None = None
    deadline_s: int = LEAST_DEADLINE_S

    def __post_init__(self) -> None:
        if self.open_studies < 1:
            raise InvalidParameter(f"manager: expected 1 study or more, found {self.open_studies}")
        if self.user_nano_nats is not None and self.user_nano_nats < 0:
            raise InvalidParameter("manager: expected a user's budget of 0 nano-nats or more")
        if self.deadline_s < 0:
            raise InvalidParameter(
                f"manager: expected a shortest deadline of 0 s or more, got {self.deadline_s}"
            )


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
        none, one of several epochs, or its learner not one of the catalogue's in this version.
    """
    if signed.public_key not in analysts:
        raise SubmissionRefused("untrusted-key", "study: expected a known analyst's key")
    if not verify_study(signed):
        raise SubmissionRefused("bad-signature", "study: expected its analyst's signature over it")
    try:
        terms = decode_study(signed.study)
    except AskanceError as error:
        raise SubmissionRefused("malformed", str(error)) from None
    if terms.repeat is not None:
        raise SubmissionRefused(
            "repeated",
            f"repeat: expected a study that collects once, got {terms.repeat.epochs} epochs: this"
            " aggregator runs no epochs",
        )
    return Submission(digest_of(signed.study), signed, terms, learner_of(terms))


def check_timely(submission: Submission, limits: SubmissionLimits, now_s: int) -> None:
    """Refuse a study that devices cannot answer in time.

    Raises:
      SubmissionRefused: it has expired, or its rounds close before a device can answer.
    """
    if submission.terms.expires_unix_s <= now_s:
        raise SubmissionRefused("expired", "study: expected one that has not expired")
    deadline_s = submission.terms.conduct.round_deadline_s
    if 0 < deadline_s < limits.deadline_s:
        raise SubmissionRefused(
            "plan-refused",
            f"deadline_s: expected {limits.deadline_s} seconds or more, the least in which devices"
            f" that check in can answer (or 0, no deadline), got {deadline_s}",
        )


def check_workable(submission: Submission, population: int) -> None:
    """Raise SubmissionRefused for a study that cannot work with this many users."""
    if population < 1:
        raise SubmissionRefused("plan-refused", "study: expected enrolled devices, got none")
    terms = submission.terms
    try:
        planned = plan(
            submission.learner,
            terms.budget_nano_nats,
            terms.conduct.beta,
            n_users=population,
            waves=terms.conduct.waves,
            least_answers=terms.conduct.least_answers,
        )
        missing = fields_needed(submission.learner) - set(terms.fields)
    except AskanceError as error:
        raise SubmissionRefused("plan-refused", str(error)) from None
    if missing:
        raise SubmissionRefused(
            "missing-fields",
            f"fields: expected all that {terms.learner} asks about, got none named"
            f" {', '.join(sorted(missing))}",
        )
    if not planned.feasible:
        raise SubmissionRefused("plan-refused", planned.reason or "the plan is not feasible")


def check_affordable(
    submission: Submission,
    limits: SubmissionLimits,
    running: Iterable[SignedStudy],
    ended_nano_nats: int,
) -> None:
    """Raise SubmissionRefused if all studies together could cost a user too much.

    An open study counts with its whole budget; one that has ended with the most that any user was
    asked for. Every user is taken to be in all of them, so no user is ever over the limit.

    Args:
      submission: the study that is checked.
      limits: the limit per user.
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
