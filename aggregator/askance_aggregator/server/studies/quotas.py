"""Quotas per analyst: open studies, studies per day, epsilon per user and day, users per study.

A day is one of UTC. A study counts on the day on which it was submitted, with its budget; one that
starts later on the day of its start; one that repeats on the first day of each epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from askance_aggregator.declarations import Key, budget_value
from askance_aggregator.store import Store, SubmissionNote
from askance_aggregator.studies.results import date_of
from askance_aggregator.studies.schedule import start_of
from askance_aggregator.studies.submitted import SubmissionRefused
from askance_client.accounting import format_nats
from askance_client.codec import decode_study
from askance_client.errors import InvalidParameter
from askance_client.ledger import SECONDS_PER_DAY
from askance_client.messages import StudyTerms


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one analyst; None: no limit.

    The defaults are those of an operator who sets nothing: of the 64 studies that may be open,
    eight leave room for seven other analysts who use all of theirs; a program that submits in a
    loop stops after 100.
    """

    open_studies: Annotated[int | None, "at one time"] = 8
    studies_per_day: Annotated[int | None, "submitted on one day, UTC"] = 100
    day_nano_nats: Annotated[
        int | None,
        Key(
            "per user, of all studies of one analyst and day",
            '"2"',
            name="epsilon_per_day",
            read=budget_value,
        ),
    ] = None
    users_per_study: Annotated[int | None, Key("that a study's plan needs", "100000")] = None

    def __post_init__(self) -> None:
        for name in ("open_studies", "studies_per_day", "day_nano_nats", "users_per_study"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InvalidParameter(f"quotas: expected {name} of 0 or more, got {value}")


_UNLIMITED = Quota(None, None)


@dataclass(frozen=True, slots=True)
class Quotas:
    """Quotas of all analysts: those of their own, by public key, and the default of all others."""

    default: Quota = _UNLIMITED
    own: Mapping[bytes, Quota] = field(default_factory=dict)

    def of(self, public_key: bytes) -> Quota:
        """Return the quota of an analyst."""
        return self.own.get(public_key, self.default)


NO_QUOTAS = Quotas()
DEFAULT_QUOTAS = Quotas(Quota())


def check_quota(
    key: bytes, terms: StudyTerms, quota: Quota, users: int, store: Store, now_s: int
) -> None:
    """Check a study, whose plan needs this many users, against its analyst's quota.

    Raises:
      SubmissionRefused: it passes the quota; the message says by how much, and when that ends.
      StoreError: the store cannot be read.
    """
    if quota.users_per_study is not None and users > quota.users_per_study:
        raise _refused(
            "users_per_study",
            f"a study of at most {quota.users_per_study:,} users, got one of {users:,}",
            "ask for less exact answers, or the operator for a larger quota",
        )
    if quota.open_studies is not None:
        running = sum(one.public_key == key for one in store.listing.open_studies().values())
        if running >= quota.open_studies:
            raise _refused(
                "open_studies",
                f"at most {quota.open_studies} open studies of one analyst, got {running + 1} with"
                f" this one; {max(quota.open_studies - running, 0)} left",
                "one is free when a study ends",
            )
    _check_days(terms, quota, store.management.submissions(key), store, now_s)


def _check_days(
    terms: StudyTerms, quota: Quota, notes: Sequence[SubmissionNote], store: Store, now_s: int
) -> None:
    today = now_s // SECONDS_PER_DAY
    if quota.studies_per_day is not None:
        already = sum(note.at_unix_s // SECONDS_PER_DAY == today for note in notes)
        if already >= quota.studies_per_day:
            raise _refused(
                "studies_per_day",
                f"at most {quota.studies_per_day} studies on {date_of(today)}, got {already + 1}"
                f" with this one; {max(quota.studies_per_day - already, 0)} left",
                f"free again on {date_of(today + 1)}",
            )
    if quota.day_nano_nats is None:
        return
    asked: Counter[int] = Counter()
    for note in notes:
        signed = store.study(note.digest)
        if signed is not None:
            asked.update(_by_day(decode_study(signed.study), note.at_unix_s))
    for day, cost in sorted(_by_day(terms, now_s).items()):
        left = max(quota.day_nano_nats - asked[day], 0)
        if cost > left:
            free = next(n for n in range(day + 1, day + len(asked) + 2) if not asked[n])
            raise _refused(
                "epsilon_per_day",
                f"at most {format_nats(quota.day_nano_nats)} nats per user for the studies of"
                f" {date_of(day)}, got {format_nats(cost)} more; {format_nats(left)} left",
                f"free again on {date_of(free)}",
            )


def _by_day(terms: StudyTerms, at_unix_s: int) -> dict[int, int]:
    """Return the nano-nats that a study may ask of a user, by day since 1970."""
    first = max(at_unix_s, start_of(terms)) // SECONDS_PER_DAY
    repeat = terms.repeat
    if repeat is None:
        return {first: terms.budget_nano_nats}
    days = (epoch * repeat.every_days for epoch in repeat.indices)
    ended = first - repeat.every_days  # an epoch that began so early is over
    return {max(day, first): terms.budget_nano_nats for day in days if day > ended}


def _refused(name: str, expected: str, then: str) -> SubmissionRefused:
    return SubmissionRefused("over-quota", f"quota {name}: expected {expected} ({then})")
