"""Manager of all submitted studies, from the first question to the end."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace

from askance_aggregator.analyst.approvals import is_approval
from askance_aggregator.clock import system_now_s
from askance_aggregator.encoding import read_terms
from askance_aggregator.planning import StudyPlan
from askance_aggregator.server.devices.fleet import ServiceFleet
from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.studies import approvals, submissions
from askance_aggregator.server.studies.epochs import cancel_epochs, epoch_results, has_asked
from askance_aggregator.server.studies.outer_statements import delta_of_results, outer_statements
from askance_aggregator.server.studies.replication import Replication
from askance_aggregator.server.studies.runs import LOOK_S, Run
from askance_aggregator.server.studies.statuses import StudyStatus, StudyStatuses, add_titles
from askance_aggregator.store import (
    AuditLog,
    Conclusion,
    KeptStudy,
    Store,
    StudyList,
    StudyQuery,
    StudyState,
    TaggedPopulation,
)
from askance_aggregator.store.management import Approval
from askance_aggregator.store.register import Register
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.results import End, date_of, unrun
from askance_aggregator.studies.series import series_json
from askance_aggregator.studies.submitted import SubmissionRefused
from askance_client.errors import AskanceError, StoreError
from askance_client.ledger import SECONDS_PER_DAY
from askance_client.messages import SignedStudy
from askance_client.queries import Schema

_LOGGER = logging.getLogger(__name__)
_STOP_S = 1.0  # for all studies together; each is in the store, and is resumed at the next start


class UnknownStudy(AskanceError):
    """No study has that digest and analyst; the error does not say which of the two is wrong."""


class ResultsDeleted(AskanceError):
    """A study's results and transcripts were deleted."""


class UnknownEpoch(AskanceError):
    """A study does not sign an epoch."""


class StudyManager:
    """Accept studies, run each in a thread of its own, and conclude it; for any thread.

    Methods with a study's digest and a public key raise UnknownStudy if there is no such study, or
    if it is another analyst's.

    Args:
      analysts: the Ed25519 public keys whose studies are accepted.
      limits: how many, and what they may cost a user together.
      now_s: the time, in whole seconds since 1970, UTC.
      look_s: seconds between two looks at `now_s` by a study that waits for its next epoch.
      random_bytes: source of the studies' leaf keys.
      may_approve: checks the approver of an approval that the store has, when its study begins;
        without it no approval counts.
      deleted: is called when an analyst has deleted something, so that its rows are removed soon.
      ended: is called when a study has ended.
    """

    def __init__(
        self,
        store: Store,
        fleet: ServiceFleet,
        *,
        analysts: frozenset[bytes],
        limits: submissions.SubmissionLimits | None = None,
        now_s: Callable[[], int] = system_now_s,
        observer: Observer = SILENT,
        look_s: float = LOOK_S,
        random_bytes: Callable[[int], bytes] = os.urandom,
        deleted: Callable[[], None] = lambda: None,
        ended: Callable[[], None] = lambda: None,
        may_approve: approvals.ApproverCheck = lambda *_: approvals.ApprovalStanding.UNKNOWN,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self.analysts = analysts
        self._limits = limits or submissions.SubmissionLimits()
        self._now_s = now_s
        self._observer = observer
        self._look_s = look_s
        self._random_bytes = random_bytes
        self._deleted = deleted
        self._ended = ended
        self._may_approve = may_approve
        self._needs_approval = self._limits.approval
        self._statuses = StudyStatuses(
            store, fleet, now_s, needs_approval=self._needs_approval, wait_text=self._wait_text
        )
        self._lock = threading.Lock()
        self._runs: dict[bytes, Run] = {}
        self._refused: set[bytes] = set()  # open studies that this process cannot go on with
        self._stopped = False
        self._replication = Replication(
            store, fleet, self._lock, run_of=self._runs.get, take_over=self._take_over
        )

    @property
    def audit(self) -> AuditLog:
        """Audit log of the store."""
        return self._store.audit

    @property
    def register(self) -> Register:
        """Register of devices of the store."""
        return self._store.register

    def change(self, analysts: frozenset[bytes], limits: submissions.SubmissionLimits) -> None:
        """Accept other analysts' studies, within other limits, from now on; open ones go on."""
        with self._lock:
            self.analysts, self._limits = analysts, limits

    def resume(self) -> int:
        """Go on with every open study that no other replica drives; once, at the start.

        From then on studies of replicas that die are taken over, and rounds of others followed. A
        study whose analyst is not known any more, or whose learner has another version now, stays
        as it is, and says so in the log.

        Returns:
          How many studies run now, those included that were submitted since the service listens.
        """
        add_titles(self._store)
        with self._lock:
            for digest, signed in self._store.listing.open_studies().items():
                # An analyst may have been quicker: the service listens already.
                if digest not in self._runs:
                    self._resume_one(digest, signed)
            resumed = len(self._runs)
        self._replication.start()
        return resumed

    def submit(self, signed: SignedStudy, population: TaggedPopulation | None = None) -> bytes:
        """Accept a study, begin it and return its digest; the same study again changes nothing.

        Args:
          signed: the study.
          population: tags of the devices that it asks, as its commitment hides them; None: all.

        Raises:
          SubmissionRefused: it is not permitted, or cannot work; no user was asked.
          StoreError: it could not be made durable.
        """
        submission = submissions.understand(signed, self.analysts, population)
        if self._known(submission):
            self._begin_if_let_go(submission)
            return submission.digest
        planned, now_s = self._checked(submission), self._now_s()
        with self._lock, self._store.replicas.submitting():
            if not self._known(submission):
                submissions.check_room(
                    submission, self._limits, planned.users_needed, self._store, now_s
                )
                if population is not None:  # first: a study is never kept without its users
                    self._store.register.keep_population(submission.digest, population)
                self._store.add_study(submission.digest, signed)
                self._store.management.note_submission(submission.digest, now_s)
                self._drive(submission)
        return submission.digest

    def plan(self, signed: SignedStudy, population: TaggedPopulation | None = None) -> StudyPlan:
        """Plan a study as `submit` would, for the users there are; nothing is stored.

        The signature is not looked at, and may be empty.
        """
        submission = submissions.understand_unsigned(signed, self.analysts, population)
        planned = self._checked(submission)
        submissions.check_room(
            submission, self._limits, planned.users_needed, self._store, self._now_s()
        )
        return replace(planned, delta=delta_of_results(self._store))

    def _checked(self, submission: submissions.Submission) -> StudyPlan:
        """Return the plan of a study that can work; see `submit`."""
        submissions.check_timely(submission, self._limits, self._now_s())
        submissions.check_keep(submission, self._limits)
        since_day = self._limits.since_day(self._now_s())
        users = submissions.count_users(submission, self._store, since_day)
        return submissions.check_workable(submission, users)

    def owner(self, digest: bytes) -> bytes:
        """Return the key of the analyst who signed a study; raise UnknownStudy if there is none."""
        signed = self._store.study(digest)
        if signed is None:
            raise _unknown()
        return signed.public_key

    def page(self, query: StudyQuery, owner: bytes | None) -> StudyList[StudyStatus]:
        """Return statuses of a part of the list of studies; see `StudyStatuses.page`."""
        return self._statuses.page(query, owner)

    def schemas(self, studies: int, owner: bytes | None) -> list[Schema]:
        """Return the schemas of the newest studies, each once; of an analyst's, or of all."""
        newest = self._store.listing.page(StudyQuery(limit=studies), owner).studies
        return list(dict.fromkeys(read_terms(one.signed.study).schema for one in newest))

    def status(self, digest: bytes, public_key: bytes) -> StudyStatus:
        """Return the status of a study."""
        summary = self._store.listing.entry(digest)
        if summary is None or summary.signed.public_key != public_key:
            raise _unknown()
        return self._statuses.of(summary)

    def conclusion(self, digest: bytes, public_key: bytes, epoch: int = 0) -> Conclusion | None:
        """Return the conclusion of a study, or of one of its epochs; None while it is open.

        Raises:
          UnknownEpoch: the study signs no such epoch.
          ResultsDeleted: there is nothing left to return.
        """
        self._signed(digest, public_key, epoch)
        self._check_kept(digest)
        return self._store.conclusion(digest, epoch)

    def result_so_far(self, digest: bytes, public_key: bytes) -> str:
        """Return the JSON of an open study's ended epochs; "" for a study that collects once."""
        terms = read_terms(self._signed(digest, public_key).study)
        if terms.repeat is None:
            return ""
        still = End(StudyState.OPEN, "", "")
        results = epoch_results(self._store, digest)
        return json.dumps(series_json(digest, terms, results, still), ensure_ascii=False)

    def export(
        self, digest: bytes, public_key: bytes, epoch: int = 0
    ) -> tuple[SignedStudy, Iterator[str], str, int]:
        """Return a study, a transcript so far, its result, and when its reports were deleted.

        Transcript and result are of an epoch; 0: the study's own (see `Store`). The result is ""
        while the study is open, the time in Unix seconds 0 while reports are kept. Lines are read
        as they are taken; reading them raises as this does.
        """
        signed = self._signed(digest, public_key, epoch)
        kept = self._check_kept(digest)
        ended = self._store.conclusion(digest, epoch)  # first: then the lines are all of its
        lines = self._kept_lines(digest, self._store.log(digest, epoch).lines())
        deleted = kept.reports_deleted_unix_s or 0 if kept else 0
        return signed, lines, ended.result_json if ended else "", deleted

    def _kept_lines(self, digest: bytes, lines: Iterator[str]) -> Iterator[str]:
        yield from lines  # fewer, if they were deleted meanwhile
        self._check_kept(digest)

    def delete_reports(self, digest: bytes, public_key: bytes) -> None:
        """Delete an ended study's reports; counts and results stay, and its export is verified yet.

        Raises:
          StudyNotEnded: it is open; nothing was changed.
        """
        self._signed(digest, public_key)
        self._store.retention.delete_reports(digest, self._now_s())
        self._deleted()

    def delete_results(self, digest: bytes, public_key: bytes) -> None:
        """Delete an ended study's reports, transcripts and results; raises as `delete_reports`.

        Its end and its cost to users stay, and it is never run again.
        """
        self._signed(digest, public_key)
        self._store.retention.delete_results(digest, self._now_s())
        self._deleted()

    def cancel(self, digest: bytes, public_key: bytes) -> StudyState:
        """Begin to end an open study; what was answered is charged all the same.

        Returns:
          Its state: CANCELLED, durably; OPEN while it is ending, here or in the replica that
          drives it, which `status` follows; or how it had ended before.
        """
        signed = self._signed(digest, public_key)
        with self._lock:  # a study that is being accepted is run before it can be cancelled
            run = self._runs.get(digest)
            if run is None and not self._stopped and self._store.conclusion(digest) is None:
                if self._store.replicas.acquire(digest):
                    try:
                        self._end_unrun(digest, signed)
                    finally:
                        self._give_back(digest)
                else:
                    self._store.replicas.cancel(digest)
        if run is not None:
            self._store.replicas.cancel(digest)  # another replica may have its lease by now
            run.cancel()
        ended = self._store.conclusion(digest)
        return StudyState.OPEN if ended is None else ended.state

    def pause(self, digest: bytes, public_key: bytes) -> StudyState:
        """Pause a study, also over restarts: it asks nothing new and takes what is on its way.

        The deadlines of its rounds stand still. Returns its state; one that has ended stays as is.
        """
        self._signed(digest, public_key)
        ended = self._store.conclusion(digest)
        if ended is not None:
            return ended.state
        with self._lock:
            self._store.management.pause(digest)
            run = self._runs.get(digest)
            if run is not None:
                run.pause()
        return StudyState.OPEN

    def unpause(self, digest: bytes, public_key: bytes) -> StudyState:
        """Let a paused study go on; of one that is not paused nothing changes. Return its state."""
        self._signed(digest, public_key)
        with self._lock:
            if digest in self._store.management.paused():
                self._store.management.unpause(digest)
            run = self._runs.get(digest)
            if run is not None:
                run.unpause()
        ended = self._store.conclusion(digest)
        return StudyState.OPEN if ended is None else ended.state

    def approve(
        self,
        digest: bytes,
        approver: approvals.Approver,
        signature: bytes,
        analysts: Collection[str],
    ) -> StudyState:
        """Let a study begin that waits for an approver; the first approval that counts stands.

        Returns:
          Its state; one that has ended stays as it is.
        """
        owner = self.owner(digest)
        if not self._needs_approval:
            raise approvals.ApprovalRefused(
                "no-approval-needed",
                "expected none, because studies need none here (approval.needed)",
            )
        approvals.check_approver(approver, owner, analysts)
        if not is_approval(digest, approver.public_key, signature):
            raise approvals.ApprovalRefused(
                "bad-signature", "expected the approver's signature, got none"
            )
        ended = self._store.conclusion(digest)
        if ended is not None:
            return ended.state
        self._void_stale(digest)
        approval = Approval(approver.name, approver.public_key, signature, self._now_s())
        if approvals.is_refused(self._store.management.approve(digest, approval)):
            raise approvals.ApprovalRefused(
                "refused-before", "expected none, because the study was refused"
            )
        with self._lock:
            run = self._runs.get(digest)
            if run is not None:
                run.look_again()
        return StudyState.OPEN

    def refuse(
        self, digest: bytes, approver: approvals.Approver, reason: str, analysts: Collection[str]
    ) -> StudyState:
        """Begin to end a study that an approver refuses, or whose approval is withdrawn.

        The arguments are those of `approve`; `reason` is a line of text.

        Returns:
          Its state, as of `cancel`.
        """
        owner = self.owner(digest)
        approvals.check_approver(approver, owner, analysts)
        approvals.check_reason(reason)
        ended = self._store.conclusion(digest)
        if ended is not None:
            return ended.state
        self._store.management.refuse(digest, approver.name, reason, self._now_s())
        return self.cancel(digest, owner)

    def _wait_text(self, digest: bytes) -> str:
        """Return why a study that is run here waits for an approver; empty: it does not."""
        run = self._runs.get(digest)
        if run is None or not run.unapproved:
            return ""
        approval = self._store.management.approval(digest)
        if approval is None:  # and this replica itself needs none
            return approvals.AWAITING_TEXT
        # A decision that the run has not read yet is looked at within a second.
        return approvals.UNKNOWN_TEXT if approval == run.unknown_approval else ""

    def _void_stale(self, digest: bytes) -> None:
        """Forget an approval that does not count here, while its study waits for one."""
        found, signed = self._store.management.approval(digest), self._store.study(digest)
        if found is None or signed is None or approvals.is_refused(found):
            return
        counts = (
            approvals.standing_of(found, signed, digest, self._may_approve)
            is approvals.ApprovalStanding.COUNTS
        )
        if not counts and not has_asked(self._store, digest, read_terms(signed.study).repeat):
            approvals.void(self._store, digest, found, self._now_s())

    def stop(self) -> None:
        """Release every study; open ones stay open in the store, to be resumed.

        The service is to be stopped before: studies wait for it.
        """
        with self._lock:  # studies that are being accepted are released too
            self._stopped = True
            running = tuple(self._runs.values())
        self._replication.stop()
        for run in running:
            run.stop()
        until = time.monotonic() + _STOP_S
        for run in running:
            run.join(max(until - time.monotonic(), 0))

    def _begin_if_let_go(self, submission: submissions.Submission) -> None:
        """Begin a study that was kept by a disk that reported a failure."""
        with self._lock:
            ended = self._store.conclusion(submission.digest)
            if ended is None and submission.digest not in self._runs:
                self._store.management.note_submission(submission.digest, self._now_s())
                self._drive(submission)

    def _take_over(self, digest: bytes) -> None:
        """Begin an open study whose lease is free."""
        with self._lock:
            signed = self._store.study(digest)
            ended = self._store.conclusion(digest) is not None
            if signed is not None and not (ended or self._stopped or digest in self._runs):
                self._resume_one(digest, signed)

    def _resume_one(self, digest: bytes, signed: SignedStudy) -> None:
        if digest in self._refused:
            return
        try:
            population = self._store.register.population(digest)
            submission = submissions.understand(signed, self.analysts, population)
        except SubmissionRefused as error:
            extra = {"study": digest.hex()[:16], "reason": error.reason}
            _LOGGER.warning("a study cannot go on", extra=extra)
            self._refused.add(digest)
            if len(self._store.replicas.listing()) <= 1:  # no other could go on with it
                self._fleet.suspend(digest)
            return
        self._drive(submission)

    def _drive(self, submission: submissions.Submission) -> None:
        """Begin a study, unless another replica drives it."""
        if not self._stopped and self._store.replicas.acquire(submission.digest):
            try:
                self._begin(submission)
            except StoreError:
                self._give_back(submission.digest)
                raise

    def _give_back(self, digest: bytes) -> None:
        """Release a study's lease; one that is not given back ends by itself."""
        with suppress(StoreError):
            self._store.replicas.release(digest)

    def _begin(self, submission: submissions.Submission) -> None:
        paused = submission.digest in self._store.management.paused()
        run = Run(
            submission,
            self._store,
            self._fleet,
            self._observer,
            self._over,
            now_s=self._now_s,
            look_s=self._look_s,
            random_bytes=self._random_bytes,
            needs_approval=self._needs_approval,
            may_approve=self._may_approve,
            since_day=lambda: self._limits.since_day(self._now_s()),
        )
        self._runs[submission.digest] = run
        if paused:
            run.pause()
        run.start()

    def _over(self, run: Run) -> None:
        """Drop a run that goes no further; what there is to know of its study is in the store."""
        digest = run.submission.digest
        with self._lock:  # held by a thread that begins it again
            self._runs.pop(digest, None)
            self._give_back(digest)
        if run.conclusion is not None:
            self._fleet.forget(digest)
            self._ended()
        elif not (self._stopped or run.released):
            self._fleet.suspend(digest)

    def _end_unrun(self, digest: bytes, signed: SignedStudy) -> None:
        """Cancel a study that cannot go on or has not begun, and that no thread runs."""
        if self._store.conclusion(digest) is None:
            terms = read_terms(signed.study)
            population = self._store.register.population(digest)
            end = approvals.cancelled_end(self._store, digest)
            if terms.repeat is None:
                transcript = Transcript(self._store.log(digest))
                readers = outer_statements(self._store, digest, terms, transcript)
                ended = unrun(
                    digest, terms, transcript, end, population=population, readers=readers
                )
            else:
                ended = cancel_epochs(self._store, digest, terms, terms.repeat, population, end)
            self._store.conclude(digest, ended, ended_unix_s=self._now_s())
            self._fleet.forget(digest)

    def _check_kept(self, digest: bytes) -> KeptStudy | None:
        """Return what is kept of a study; raise ResultsDeleted if its results are not."""
        kept = self._store.retention.of(digest)
        if kept is not None and kept.results_deleted_unix_s is not None:
            day = date_of(kept.results_deleted_unix_s // SECONDS_PER_DAY)
            raise ResultsDeleted(f"study: expected one with results, got one deleted on {day}")
        return kept

    def _signed(self, digest: bytes, public_key: bytes, epoch: int = 0) -> SignedStudy:
        signed = self._store.study(digest)
        if signed is None or signed.public_key != public_key:
            raise _unknown()
        if epoch:
            repeat = read_terms(signed.study).repeat
            if repeat is None or epoch not in repeat.indices:
                raise UnknownEpoch(f"epoch: expected one that the study signs, got index {epoch}")
        return signed

    def _known(self, submission: submissions.Submission) -> bool:
        """Return whether a study is stored; raise SubmissionRefused if it is another analyst's."""
        known = self._store.study(submission.digest)
        if known is not None and known.public_key != submission.signed.public_key:
            raise SubmissionRefused(
                "untrusted-key", "study: expected one of this analyst's, found another analyst's"
            )
        return known is not None


def _unknown() -> UnknownStudy:
    return UnknownStudy("study: expected one of this analyst's, found none")
