"""Run of one study, in a thread of its own: one collection, or one per epoch."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.server.devices.fleet import ServiceFleet
from askance_aggregator.server.devices.hub import ServiceStopped, StudyCancelled
from askance_aggregator.server.devices.observer import Observer
from askance_aggregator.server.studies import approvals, epochs
from askance_aggregator.server.studies.outer_statements import outer_statements
from askance_aggregator.server.studies.submissions import Submission
from askance_aggregator.store import Conclusion, LeaseLost, Store, StudyState
from askance_aggregator.store.management import Approval
from askance_aggregator.studies import Fleet, Outcome, Session, Transcript
from askance_aggregator.studies.results import CANCELLED, End, cohort_seed, conclusion, unrun
from askance_aggregator.studies.schedule import start_of
from askance_aggregator.studies.series import end_of_series, series_conclusion
from askance_aggregator.studies.tallies import LEAF_KEY_BYTES
from askance_client.errors import (
    AskanceError,
    InvalidAnswer,
    NondeterminismError,
    PlanExceeded,
    PlanRefused,
    StoreError,
    TooFewRespondents,
)
from askance_client.messages import Repeat

_LOGGER = logging.getLogger(__name__)
_DISK_S = 5.0  # before a disk that failed is tried again
# Tries in a row, a minute in all, before reports of the study are not waited for any more. A device
# delivers what it owes to all studies together: one that never goes on would hold up the others.
_TRIES = 12

_UNKNOWN_APPROVER = (
    "a study waits: its approver is unknown to this replica; start all replicas again with the same"
    " callers, or let another approver sign"
)

LOOK_S = 1.0
"""Seconds between two looks at the clock by a study that waits for its next epoch."""

# What ends a collection as failed; the first that fits.
_ENDS: tuple[tuple[type[AskanceError], StudyState, str], ...] = (
    (epochs.EpochOver, StudyState.FAILED, "epoch-over"),
    (epochs.EpochPaused, StudyState.FAILED, "paused"),
    (TooFewRespondents, StudyState.FAILED, "too-few-respondents"),
    (PlanRefused, StudyState.FAILED, "plan-refused"),
    (PlanExceeded, StudyState.FAILED, "plan-exceeded"),
    (InvalidAnswer, StudyState.FAILED, "invalid-answer"),
    (NondeterminismError, StudyState.FAILED, "nondeterminism"),
)


class Run:
    """Runs a study until it has ended or is let go of. What it needs to go on is in the store.

    Args:
      observer: traces it.
      on_over: is called when the run goes no further.
      now_s: the time, in whole seconds since 1970, UTC; by it epochs begin and end.
      look_s: seconds between two looks at it while no epoch is open.
      random_bytes: source of its leaf key, unless the store has one.
      needs_approval: whether it waits for an approver's signature.
      may_approve: checks the approver of an approval that the store has.
      since_day: returns the day on which, or later, devices have called that a collection which
        begins now asks (see `Register.fix_users`).
    """

    def __init__(
        self,
        submission: Submission,
        store: Store,
        fleet: ServiceFleet,
        observer: Observer,
        on_over: Callable[[Run], None],
        *,
        now_s: Callable[[], int],
        needs_approval: bool,
        may_approve: approvals.ApproverCheck,
        look_s: float = LOOK_S,
        random_bytes: Callable[[int], bytes] = os.urandom,
        since_day: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.submission = submission
        self.over = threading.Event()  # it has ended, or was let go of
        self._store = store
        self._service = fleet
        self._observer = observer
        self._on_over = on_over
        self._now_s = now_s
        self._look_s = look_s
        self._random_bytes = random_bytes
        self._needs_approval = needs_approval
        self._may_approve = may_approve
        self._since_day = since_day
        self._stopping = threading.Event()
        self._released = threading.Event()
        self._cancelled = threading.Event()
        self._paused = threading.Event()
        self._woken = threading.Event()  # from the wait for an epoch
        self._decided = threading.Event()  # an approver may have
        self._awaited: epochs.EpochClock | None = None
        self.unapproved = False  # while it waits for an approver; may be read from any thread
        self.unknown_approval: Approval | None = None  # by one who is unknown here, while it waits
        self._start_s = 0  # of a study that waits for its start
        self.conclusion: Conclusion | None = None  # once durable
        self._failures = 0  # of the store, since the last epoch that ended
        self._thread = threading.Thread(
            target=self._run, name=f"askance-study-{submission.digest.hex()[:8]}", daemon=True
        )

    @property
    def waiting(self) -> bool:
        """True while it waits for a time or to be resumed; may be read from any thread."""
        if self._cancelled.is_set():
            return False
        now_s = self._now_s()
        if self.unapproved and self.submission.terms.expires_unix_s > now_s:
            return True
        if self._start_s > now_s:
            return True
        awaited = self._awaited
        if awaited is None:
            return False
        return awaited.until_begin_s() > 0 or self._held(awaited)

    def start(self) -> None:
        """Begin, or go on from where the transcript breaks off."""
        self._thread.start()

    def cancel(self) -> None:
        """Stop asking; the study ends as cancelled, unless it has ended already."""
        self._cancelled.set()
        self._wake()
        self._service.cancel(self.submission.digest)

    def look_again(self) -> None:
        """Read at once what an approver has decided."""
        self.unapproved = False
        self._decided.set()

    @property
    def paused(self) -> bool:
        """True while it asks nothing new; may be read from any thread."""
        return self._paused.is_set()

    def pause(self) -> None:
        """Ask nothing new until `unpause`; an epoch that ends meanwhile is not asked."""
        self._paused.set()
        self._service.pause(self.submission.digest)

    def unpause(self) -> None:
        """Go on asking."""
        self._paused.clear()
        self._service.unpause(self.submission.digest)

    def stop(self) -> None:
        """Stop running it as soon as it waits for nothing but an epoch."""
        self._stopping.set()
        self._wake()

    @property
    def released(self) -> bool:
        """True if the study is another replica's to run."""
        return self._released.is_set()

    def release(self) -> None:
        """Stop running it at once: another replica has its lease."""
        self._released.set()
        self.stop()
        self._service.release(self.submission.digest)

    def join(self, timeout_s: float) -> None:
        """Wait until it is released."""
        self._thread.join(timeout_s)

    def _wake(self) -> None:
        self._woken.set()
        self._decided.set()

    def _run(self) -> None:
        try:
            with self._observer.study_span(self.submission.digest):
                self._go_on()
        finally:
            self._on_over(self)
            self.over.set()  # no caller is to wait for a study that a stopping service has released

    def _go_on(self) -> None:
        study = {"study": self.submission.digest.hex()[:16]}
        _LOGGER.info("a study goes on", extra=study)
        while not self._stopping.is_set():
            try:
                found = self._conclude()
            except ServiceStopped:
                return
            except LeaseLost:
                _LOGGER.warning("a study is another replica's", extra=study)
                self.release()
                return
            except StoreError as error:  # a failing disk ends no study: what is durable counts
                _LOGGER.error("a study waits for the store", exc_info=error, extra=study)
                self._failures += 1
                if self._failures >= _TRIES:
                    self._service.suspend(self.submission.digest)
                self._stopping.wait(_DISK_S)
                continue
            self.conclusion = found
            _LOGGER.info("a study has ended", extra={**study, "reason": found.reason})
            return

    def _conclude(self) -> Conclusion:
        """Run it to its end and make the end durable."""
        # An end that a disk kept although it failed is the end: another run could receive fewer
        # reports.
        kept = self._store.conclusion(self.submission.digest)
        if kept is not None:
            return kept
        if not self._await_approval():
            return self._expire()
        self._await_start()
        repeat = self.submission.terms.repeat
        if repeat is not None:
            return self._collect_epochs(repeat)
        transcript = Transcript(self._store.log(self.submission.digest))
        if self._cancelled.is_set() and not epochs.has_begun(transcript):
            return self._conclude_unrun(transcript, self._cancellation())  # none was asked
        return self._collect(self._service)

    def _await_approval(self) -> bool:
        """Wait for an approver's signature where needed; False: the study has expired meanwhile."""
        # A study that is refused is cancelled.
        digest, needs, unknown = self.submission.digest, self._approval_is_needed(), None
        try:
            while not self._cancelled.is_set():
                self._decided.clear()  # before all that it wakes for is looked at
                approval = self._store.management.approval(digest)
                if approvals.is_refused(approval):
                    self.cancel()
                    continue
                standing = None if approval is None else self._standing(approval)
                if not needs or standing is approvals.ApprovalStanding.COUNTS:
                    return True
                if approval is not None and standing is approvals.ApprovalStanding.VOID:
                    self._warn_of(approval, "an approval does not count any more")
                    approvals.void(self._store, digest, approval, self._now_s())
                    continue
                if approval is not None and approval != unknown:
                    unknown = approval
                    self._warn_of(approval, _UNKNOWN_APPROVER)
                if self._stopping.is_set():
                    raise ServiceStopped("study: expected a running service, got a stopped one")
                if self.submission.terms.expires_unix_s <= self._now_s():
                    return False
                self.unknown_approval, self.unapproved = approval, True
                self._decided.wait(self._look_s)
        finally:
            self.unapproved, self.unknown_approval = False, None
        return True

    def _standing(self, approval: Approval) -> approvals.ApprovalStanding:
        """Return the worth of the study's approval; an unknown approver is one elsewhere."""
        # Another replica may have been started with callers that this one does not have.
        submission = self.submission
        found = approvals.standing_of(
            approval, submission.signed, submission.digest, self._may_approve
        )
        if (
            found is approvals.ApprovalStanding.UNKNOWN
            and not self._store.replicas.others_need_approval()
        ):
            return approvals.ApprovalStanding.VOID
        return found

    def _warn_of(self, approval: Approval, text: str) -> None:
        study = self.submission.digest.hex()[:16]
        _LOGGER.warning(text, extra={"study": study, "approver": approval.approver})

    def _approval_is_needed(self) -> bool:
        """Return whether the study needs an approval, by the rule of any replica."""
        rule = self._needs_approval or self._store.replicas.others_need_approval()
        digest, repeat = self.submission.digest, self.submission.terms.repeat
        return rule and not epochs.has_asked(self._store, digest, repeat)

    def _expire(self) -> Conclusion:
        """Make durable the end of a study that no approver has signed in time."""
        digest, terms = self.submission.digest, self.submission.terms
        if terms.repeat is None:
            return self._conclude_unrun(Transcript(self._store.log(digest)), approvals.EXPIRED)
        population = self.submission.population
        ended = epochs.cancel_epochs(
            self._store, digest, terms, terms.repeat, population, approvals.EXPIRED
        )
        self._store.conclude(digest, ended, ended_unix_s=self._now_s())
        return ended

    def _cancellation(self) -> End:
        """Return the end of the study when it is cancelled."""
        return approvals.cancelled_end(self._store, self.submission.digest)

    def _await_start(self) -> None:
        """Wait until the study begins or is cancelled; raise ServiceStopped if the run stops."""
        start_s = start_of(self.submission.terms)
        while (left_s := start_s - self._now_s()) > 0 and not self._cancelled.is_set():
            if self._stopping.is_set():
                raise ServiceStopped("study: expected a running service, got a stopped one")
            self._start_s = start_s
            self._woken.wait(min(left_s, self._look_s))

    def _collect_epochs(self, repeat: Repeat) -> Conclusion:
        """Run every epoch that has not ended, each in its days; make the study's end durable."""
        digest, terms = self.submission.digest, self.submission.terms
        ended = {one.epoch: one.state for one in self._store.epochs(digest)}
        for epoch in repeat.indices:
            if epoch not in ended:
                clock = epochs.EpochClock(repeat, epoch, terms.expires_unix_s, self._now_s)
                if not self._begins(clock):
                    break
                ended[epoch] = self._collect_epoch(clock)
            if ended[epoch] is StudyState.CANCELLED:
                break
        whole = len(ended) == repeat.epochs and StudyState.CANCELLED not in ended.values()
        end = end_of_series(list(ended.values())) if whole else self._cancellation()
        concluded = series_conclusion(digest, terms, epochs.epoch_results(self._store, digest), end)
        self._store.conclude(digest, concluded, ended_unix_s=self._now_s())
        return concluded

    def _begins(self, clock: epochs.EpochClock) -> bool:
        """Wait until an epoch begins; return False if its study is cancelled."""
        # The first round of an epoch is not opened while the study is paused; if the study is
        # paused until the epoch ends, the epoch is over.
        begun = epochs.has_begun(Transcript(self._store.log(self.submission.digest, clock.epoch)))
        try:
            while not self._cancelled.is_set():
                if self._stopping.is_set():
                    raise ServiceStopped("epoch: expected a running service, got a stopped one")
                left_s = clock.until_begin_s()
                if left_s <= 0 and (begun or not self._held(clock)):
                    return True
                self._awaited = clock
                self._woken.wait(min(left_s, self._look_s) if left_s > 0 else self._look_s)
        finally:
            self._awaited = None
        return False

    def _held(self, clock: epochs.EpochClock) -> bool:
        """Return whether an epoch waits for its study to be resumed."""
        return self._paused.is_set() and clock.left_ms() > 0

    def _collect_epoch(self, clock: epochs.EpochClock) -> StudyState:
        """Run one epoch to its end, or note that it was missed; return its state."""
        digest, epoch = self.submission.digest, clock.epoch
        transcript = Transcript(self._store.log(digest, epoch))
        missed = clock.missed(transcript, paused=self._paused.is_set())
        if missed is None:
            ended = self._collect(
                epochs.EpochFleet(self._service, clock, self._paused.is_set), epoch
            )
        else:
            ended = self._conclude_unrun(transcript, missed, epoch)
        self._failures = 0
        extra = {"study": digest.hex()[:16], "epoch": epoch, "reason": ended.reason}
        _LOGGER.info("an epoch has ended", extra=extra)
        return ended.state

    def _conclude_unrun(self, transcript: Transcript, end: End, epoch: int = 0) -> Conclusion:
        """Make durable the end of a collection that no session runs."""
        digest, terms = self.submission.digest, self.submission.terms
        readers = outer_statements(self._store, digest, terms, transcript, epoch)
        ended = unrun(digest, terms, transcript, end, epoch, self.submission.population, readers)
        self._store.conclude(digest, ended, epoch, self._now_s())
        return ended

    def _collect(self, fleet: Fleet, epoch: int = 0) -> Conclusion:
        """Run one collection to its end and make the end durable."""
        digest, terms = self.submission.digest, self.submission.terms
        population, transcript = (
            self.submission.population,
            Transcript(self._store.log(digest, epoch)),
        )
        users = self._users(transcript, epoch)
        if users is not None and not len(users):
            # Without the tags: a message outlives them when the results are deleted.
            whom = "enrolled devices" if population is None else "devices that have all of its tags"
            end = End(StudyState.FAILED, "plan-refused", f"study: expected {whom}, got none")
            return self._conclude_unrun(transcript, end, epoch)
        session: Session[Any] = Session(
            study=self.submission.signed,
            learner=self.submission.learner,
            fleet=fleet,
            log=self._store.log(digest, epoch),
            cohort_seed=cohort_seed(digest, epoch),
            leaf_key=self._store.keep_leaf_key(digest, self._random_bytes(LEAF_KEY_BYTES)),
            epoch=epoch,
            users=users,
        )
        self._store.listing.note_users(digest, session.population)
        outcome: Outcome[Any] | None = None
        end = End(StudyState.DONE, "done")
        try:
            outcome = session.run()
        except ServiceStopped:
            raise
        except Exception as error:
            end = self._end(error)
        accounts = session.accounts
        ended = conclusion(
            *(digest, terms, session.transcript, accounts, end, outcome),
            epoch,
            population,
            outer_statements(self._store, digest, terms, session.transcript, epoch),
        )
        self._store.conclude(digest, ended, epoch, self._now_s())
        return ended

    def _users(self, transcript: Transcript, epoch: int) -> NDArray[np.int64] | None:
        """Return the users of a collection, fixed when it begins; None: all places there are."""
        digest, register = self.submission.digest, self._store.register
        since_day = self._since_day()
        if self.submission.population is None:
            fixed = register.fixed_users(digest, epoch)
            standing = register.count()
            all_asked = since_day is None and not standing.revoked + standing.forgotten
            if fixed is not None or transcript.recorded or all_asked:
                return fixed
        return register.fix_users(digest, self.submission.tags, epoch, since_day)

    def _end(self, error: Exception) -> End:
        """Return the end that an error gives a study; raise an error that gives none."""
        if isinstance(error, StudyCancelled):
            end = self._cancellation()
            return End(end.state, end.reason, str(error)) if end is CANCELLED else end
        for kind, state, reason in _ENDS:
            if isinstance(error, kind):
                return End(state, reason, str(error))
        if isinstance(error, StoreError):
            raise error
        study = {"study": self.submission.digest.hex()[:16]}
        _LOGGER.error("a study failed", exc_info=error, extra=study)
        told = str(error) if isinstance(error, AskanceError) else "a fault of the aggregator"
        return End(StudyState.FAILED, "failed", told)
