"""Status of a study, as its analyst is told it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from askance_aggregator.encoding import read_terms
from askance_aggregator.server.devices.fleet import ServiceFleet
from askance_aggregator.server.studies.approvals import AWAITING, AWAITING_TEXT
from askance_aggregator.server.studies.epochs import EpochClock
from askance_aggregator.store import (
    ListedState,
    Store,
    StudyEntry,
    StudyExtent,
    StudyList,
    StudyQuery,
    StudyState,
)
from askance_aggregator.store.management import Approval
from askance_aggregator.store.register import Register
from askance_aggregator.studies import MemoryLog, Transcript
from askance_aggregator.studies.results import population_of
from askance_aggregator.studies.schedule import start_of, time_text
from askance_aggregator.studies.series import EpochStatus
from askance_aggregator.titles import title_of
from askance_client.messages import StudyTerms

PAUSED = "paused"
"""The reason in the status of an open study that is paused."""
Digests = frozenset[bytes]
_PAUSED = "the study asks nothing new until it is resumed"


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """Status of a study.

    `round` is the open one, or how many there were; `asked` and `answered` are of the open round;
    `reason` and `message` are of the end, or say that an open study is paused or begins later;
    `epochs` are those of a repeated study, and then `round` is of the present epoch;
    `public_key` is its analyst's; times are in Unix seconds, and those and the `users` 0 if they
    are not known (see `StudyEntry`). `approval` has the decisions of approvers; None: there is
    none, or the status is of a list.
    """

    digest: bytes
    public_key: bytes
    learner: str
    state: StudyState
    round: int
    asked: int
    answered: int
    rounds_closed: int
    reason: str
    message: str
    epochs: EpochStatus | None = None
    title: str = ""
    submitted_unix_s: int = 0
    ended_unix_s: int = 0
    users: int = 0
    approval: Approval | None = None


class StudyStatuses:
    """Statuses of stored studies."""

    def __init__(
        self,
        store: Store,
        fleet: ServiceFleet,
        now_s: Callable[[], int],
        *,
        needs_approval: bool,
        wait_text: Callable[[bytes], str],
    ) -> None:
        """Read statuses; `wait_text` returns why a run here waits for an approver, or ""."""
        self._store = store
        self._fleet = fleet
        self._now_s = now_s
        self._needs_approval = needs_approval
        self._wait_text = wait_text

    def of(self, summary: StudyEntry, held: tuple[Digests, Digests] | None = None) -> StudyStatus:
        """Return the status of a stored study.

        `held` has the digests of all studies that wait for an approver, and of all paused ones,
        read once for a listing; None: they are read, and the approval too.
        """
        is_open = summary.state is StudyState.OPEN
        asked, answered = self._fleet.progress(summary.digest) if is_open else (0, 0)
        terms = read_terms(summary.signed.study)
        epochs = self._epochs(summary, terms)
        begun = not is_open or epochs is None or epochs.open
        notice = ("", "")
        awaiting, paused = held or (self._held() if is_open else (Digests(), Digests()))
        if is_open and summary.digest in awaiting:
            notice = (AWAITING, AWAITING_TEXT)
        elif is_open and (text := self._wait_text(summary.digest)):
            notice = (AWAITING, text)  # by the rule or the callers of another replica
        elif is_open and summary.digest in paused:
            notice = (PAUSED, _PAUSED)
        elif is_open and start_of(terms) > self._now_s():
            notice = ("scheduled", f"the study begins at {time_text(start_of(terms))}")
        return StudyStatus(
            digest=summary.digest,
            public_key=summary.signed.public_key,
            learner=terms.learner,
            state=summary.state,
            round=summary.rounds_closed if begun else 0,
            asked=asked,
            answered=answered,
            rounds_closed=summary.rounds_closed,
            reason=notice[0] or summary.reason,
            message=notice[1] or summary.message,
            epochs=epochs,
            title=title_of(terms),
            submitted_unix_s=summary.submitted_unix_s,
            ended_unix_s=summary.ended_unix_s,
            users=summary.users,
            approval=None if held else self._store.management.approval(summary.digest),
        )

    def page(self, query: StudyQuery, owner: bytes | None) -> StudyList[StudyStatus]:
        """Return the statuses of a part of the list of an analyst's studies, or of all (None)."""
        if query.state is ListedState.AWAITING_APPROVAL and not self._needs_approval:
            total = self._store.listing.page(replace(query, cursor=b"", limit=1), owner)
            return StudyList((), StudyExtent(0, total.extent.total, more=False))
        found, held = self._store.listing.page(query, owner), self._held()
        return StudyList(tuple(self.of(one, held) for one in found.studies), found.extent)

    def _held(self) -> tuple[Digests, Digests]:
        management = self._store.management
        return management.awaiting() if self._needs_approval else Digests(), management.paused()

    def _epochs(self, summary: StudyEntry, terms: StudyTerms) -> EpochStatus | None:
        if terms.repeat is None:
            return None
        ended = {one.epoch for one in self._store.epochs(summary.digest)}
        left = [epoch for epoch in terms.repeat.indices if epoch not in ended]
        if summary.state is not StudyState.OPEN or not left:
            last = max(ended, default=terms.repeat.first)
            return EpochStatus(last, terms.repeat, len(ended), open=False)
        clock = EpochClock(terms.repeat, left[0], terms.expires_unix_s, self._now_s)
        return EpochStatus(left[0], terms.repeat, len(ended), open=clock.until_begin_s() <= 0)


def add_titles(store: Store) -> None:
    """Let studies that an older version stored be found by their titles, with their users."""
    for digest in store.listing.untitled():
        epoch = max((one.epoch for one in store.epochs(digest)), default=0)
        first = MemoryLog()
        for line in islice(store.log(digest, epoch).lines(), 1):
            first.append(line)
        store.listing.add_title(digest, population_of(Transcript(first)))


def population_status(
    register: Register, status: StudyStatus
) -> tuple[tuple[str, ...], int] | None:
    """Return the tags of a study's devices and their number; None: it asks all devices.

    Before its users are fixed, and when they were deleted, the devices that have the tags now are
    counted.
    """
    population = register.population(status.digest)
    if population is None:
        return None
    epoch = 0 if status.epochs is None else status.epochs.epoch
    users = register.fixed_users(status.digest, epoch)
    devices = register.count_tagged(population.tags) if users is None else len(users)
    return population.tags, devices
