"""Checks of submissions: a study is signed, understood, affordable and can work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from askance_aggregator.encoding import read_terms
from askance_aggregator.learners import Learner
from askance_aggregator.planning import RoundRules, StudyPlan, fields_needed, plan
from askance_aggregator.server.studies.collector import KEEP_ALL, KeepLimits
from askance_aggregator.server.studies.quotas import NO_QUOTAS, Quotas, check_quota
from askance_aggregator.store import Store, TaggedPopulation
from askance_aggregator.studies.keep import keep_of
from askance_aggregator.studies.population import check_population
from askance_aggregator.studies.schedule import start_of
from askance_aggregator.studies.submitted import SubmissionRefused, learner_of, surplus_of_answers
from askance_client.accounting import format_nats
from askance_client.codec import digest_of, verify_study
from askance_client.errors import AskanceError, InvalidParameter
from askance_client.ledger import SECONDS_PER_DAY
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
      keep: the days for which the aggregator keeps reports and results; a study that signs more is
        refused.
      quotas: what each analyst may submit.
      approval: whether a study waits for an approver's signature before a device is asked.
      seen_within_days: a study counts and asks devices that have called, or were enrolled, within
        so many days; None: all.
    """

    open_studies: int = 64
    user_nano_nats: int | None = None
    deadline_s: int = LEAST_DEADLINE_S
    keep: KeepLimits = KEEP_ALL
    quotas: Quotas = NO_QUOTAS
    approval: bool = False
    seen_within_days: int | None = None

    def since_day(self, now_s: int) -> int | None:
        """Return the first of these days, counted from 1970; None: devices may be away for ever."""
        if self.seen_within_days is None:
            return None
        return now_s // SECONDS_PER_DAY - self.seen_within_days

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
    """A study that was understood; `population` is None if it asks all devices."""

    digest: bytes
    signed: SignedStudy
    terms: StudyTerms
    learner: Learner[Any]
    population: TaggedPopulation | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags that its devices have; none: it asks all devices."""
        return () if self.population is None else self.population.tags


def understand(
    signed: SignedStudy, analysts: frozenset[bytes], population: TaggedPopulation | None = None
) -> Submission:
    """The study in what an analyst sent; `population` has its tags, None: none were sent.

    Raises:
      SubmissionRefused: the key is not one of `analysts`, the signature not the key's, the study
        none, its learner not one of the catalogue's in this version, or the tags not those of the
        commitment that is signed.
    """
    if signed.public_key not in analysts:
        raise SubmissionRefused("untrusted-key", "study: expected a known analyst's key")
    if not verify_study(signed):
        raise SubmissionRefused("bad-signature", "study: expected its analyst's signature over it")
    return understand_unsigned(signed, analysts, population)


def understand_unsigned(
    signed: SignedStudy, analysts: frozenset[bytes], population: TaggedPopulation | None = None
) -> Submission:
    """The study in what an analyst wants planned; its signature is not looked at.

    All else is as of `understand`.
    """
    if signed.public_key not in analysts:
        raise SubmissionRefused("untrusted-key", "study: expected a known analyst's key")
    try:
        terms = read_terms(signed.study)
        check_population(terms, population)
    except AskanceError as error:
        raise SubmissionRefused("malformed", str(error)) from None
    return Submission(digest_of(signed.study), signed, terms, learner_of(terms), population)


def count_users(submission: Submission, store: Store, since_day: int | None) -> int:
    """Return the number of devices that a study would ask now (see `Register.fix_users`)."""
    return store.register.count_tagged(submission.tags, since_day)


def check_timely(submission: Submission, limits: SubmissionLimits, now_s: int) -> None:
    """Refuse a study that devices cannot answer in time."""
    try:
        begin_s = max(now_s, start_of(submission.terms))
    except InvalidParameter as error:
        raise SubmissionRefused("malformed", str(error)) from None
    if submission.terms.expires_unix_s <= begin_s:
        raise SubmissionRefused("expired", "study: expected one that has not expired")
    repeat = submission.terms.repeat
    if repeat is not None and repeat.index(now_s // SECONDS_PER_DAY) >= repeat.indices.stop:
        raise SubmissionRefused(
            "expired", "repeat: expected an epoch that is not over, got none: sign the study anew"
        )
    deadline_s = submission.terms.conduct.round_deadline_s
    if 0 < deadline_s < limits.deadline_s:
        raise SubmissionRefused(
            "plan-refused",
            f"deadline_s: expected {limits.deadline_s} seconds or more, the least in which devices"
            f" that check in can answer (or 0, no deadline), got {deadline_s}",
        )


def check_keep(submission: Submission, limits: SubmissionLimits) -> None:
    """Raise SubmissionRefused for a study that signs more days than this aggregator keeps."""
    try:
        keep_of(submission.terms).within(limits.keep.default, limits.keep.most)
    except InvalidParameter as error:
        raise SubmissionRefused("keep-refused", f"keep: {error}") from None


def check_workable(submission: Submission, population: int) -> StudyPlan:
    """Return the plan of a study for this many users; raise SubmissionRefused if it cannot work."""
    tagged = submission.population
    if population < 1:
        whom = "enrolled devices" if tagged is None else str(tagged)
        raise SubmissionRefused("plan-refused", f"study: expected {whom}, got none")
    terms = submission.terms
    try:
        planned = plan(
            submission.learner,
            terms.budget_nano_nats,
            terms.conduct.beta,
            population,
            RoundRules.of(terms.conduct),
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
    for round_ in planned.rounds:
        if surplus := surplus_of_answers(terms, round_):
            raise SubmissionRefused("plan-refused", surplus)
    if not planned.feasible:
        reason = planned.reason or "the plan is not feasible"
        if tagged is not None:
            reason += f" (its population: {tagged})"
        raise SubmissionRefused("plan-refused", reason)
    return planned


def check_room(
    submission: Submission, limits: SubmissionLimits, users: int, store: Store, now_s: int
) -> None:
    """Check a study, whose plan needs this many users, against all that the store holds."""
    running = store.listing.open_studies()
    if len(running) >= limits.open_studies:
        raise SubmissionRefused(
            "too-many-studies", f"study: expected fewer than {limits.open_studies} open ones"
        )
    key = submission.signed.public_key
    check_quota(key, submission.terms, limits.quotas.of(key), users, store, now_s)
    check_affordable(submission, limits, running.values(), store.nano_nats_asked())


def check_affordable(
    submission: Submission,
    limits: SubmissionLimits,
    running: Iterable[SignedStudy],
    ended_nano_nats: int,
) -> None:
    """Raise SubmissionRefused if all studies together could cost a user too much."""
    # An open study counts with its whole budget, of all its epochs; one that has ended with the
    # most that any user was asked for (the sum is `Store.nano_nats_asked`). Every user is taken to
    # be in all of them, so no user is ever over the limit.
    if limits.user_nano_nats is None:
        return
    left = limits.user_nano_nats - ended_nano_nats - _budgets(running)
    cost = _budget(submission.terms)
    if cost > left:
        raise SubmissionRefused(
            "over-user-budget",
            f"study: expected at most {format_nats(max(left, 0))} nats a user, which is what other"
            f" studies leave, found {format_nats(cost)}",
        )


def _budgets(studies: Iterable[SignedStudy]) -> int:
    return sum(_budget(read_terms(signed.study)) for signed in studies)


def _budget(terms: StudyTerms) -> int:
    """Return the most nano-nats that a study may cost a user, all its epochs together."""
    return terms.budget_nano_nats * (1 if terms.repeat is None else terms.repeat.epochs)
