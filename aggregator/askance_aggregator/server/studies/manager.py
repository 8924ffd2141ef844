"""Manager of all submitted studies, from the first question to the end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.devices.fleet import ServiceFleet
from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.studies.runs import Run
from askance_aggregator.server.studies.submissions import (
    Submission,
    SubmissionLimits,
    check_affordable,
    check_timely,
    check_workable,
    understand,
)
from askance_aggregator.store import Conclusion, Store, StudyEntry, StudyState
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.results import cancelled
from askance_aggregator.studies.submitted import SubmissionRefused
from askance_client.codec import decode_study
from askance_client.errors import AskanceError
from askance_client.messages import SignedStudy

_LOGGER = logging.getLogger(__name__)
_STOP_S = 1.0  # for all studies together; each is in the store, and is resumed at the next start


class UnknownStudy(AskanceError):
    """No study has that digest and analyst; the error does not say which of the two is wrong."""


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """Status of a study.

    `round` is the open one, or how many there were; `asked` and `answered` are of the open round;
    `reason` and `message` are of the end.
    """

    digest: bytes
    learner: str
    state: StudyState
    round: int
    asked: int
    answered: int
    rounds_closed: int
    reason: str
    message: str


class StudyManager:
    """Accept studies, run each in a thread of its own, and conclude it; for any thread.

    Args:
      store: where they are kept.
      fleet: the devices that are asked.
      analysts: the Ed25519 public keys whose studies are accepted.
      limits: how many, and what they may cost a user together.
      now_s: the time, in whole seconds since 1970, UTC.
      observer: is called when a study's state changes.
    """

    def __init__(
        self,
        store: Store,
        fleet: ServiceFleet,
        *,
        analysts: frozenset[bytes],
        limits: SubmissionLimits | None = None,
        now_s: Callable[[], int] = system_now_s,
        observer: Observer = SILENT,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._analysts = analysts
        self._limits = limits or SubmissionLimits()
        self._now_s = now_s
        self._observer = observer
        self._lock = threading.Lock()
        self._runs: dict[bytes, Run] = {}
        self._stopped = False

    @property
    def analysts(self) -> frozenset[bytes]:
        """Keys whose studies are accepted."""
        return self._analysts

    def resume(self) -> int:
        """Go on with every open study; once, at the start.

        A study whose analyst is not known any more, or whose learner has another version now, stays
        as it is, and says so in the log.

        Returns:
          How many studies run now, those included that were submitted since the service listens.

        Raises:
          StoreError: the store cannot be read.
        """
        with self._lock:
            for digest, signed in self._store.open_studies().items():
                # An analyst may have been quicker: the service listens already.
                if digest not in self._runs:
                    self._resume_one(digest, signed)
            return len(self._runs)

    def submit(self, signed: SignedStudy) -> bytes:
        """Accept a study, begin it and return its digest; the same study again changes nothing.

        Raises:
          SubmissionRefused: it is not permitted, or cannot work; no user was asked.
          StoreError: it could not be made durable.
        """
        submission = understand(signed, self._analysts)
        if self._known(submission):
            self._begin_if_let_go(submission)
            return submission.digest
        check_timely(submission, self._limits, self._now_s())
        check_workable(submission, self._fleet.population)
        with self._lock:
            if not self._known(submission):
                running = self._store.open_studies()
                if len(running) >= self._limits.open_studies:
                    raise SubmissionRefused(
                        "too-many-studies",
                        f"study: expected fewer than {self._limits.open_studies} open ones",
                    )
                check_affordable(
                    submission, self._limits, running.values(), self._store.nano_nats_asked()
                )
                self._store.add_study(submission.digest, signed)
                self._observer.study_submitted()
                self._begin(submission)
        return submission.digest

    def listing(self, public_key: bytes) -> list[StudyStatus]:
        """Return the status of an analyst's studies, the oldest first."""
        return [self._status(summary) for summary in self._store.summaries(public_key)]

    def status(self, digest: bytes, public_key: bytes) -> StudyStatus:
        """Return the status of a study.

        Raises:
          UnknownStudy: there is none of that digest, or it is another analyst's.
        """
        summary = self._store.summary(digest)
        if summary is None or summary.signed.public_key != public_key:
            raise _unknown()
        return self._status(summary)

    def conclusion(self, digest: bytes, public_key: bytes) -> Conclusion | None:
        """Return the conclusion of a study; None while it is open.

        Raises:
            UnknownStudy: no study has this digest and key.
        """
        self._signed(digest, public_key)
        return self._store.conclusion(digest)

    def export(self, digest: bytes, public_key: bytes) -> tuple[SignedStudy, list[str], str]:
        """A study, its transcript so far, and its result ("" while it is open).

        Raises UnknownStudy.
        """
        signed = self._signed(digest, public_key)
        ended = self._store.conclusion(digest)
        lines = list(self._store.log(digest).lines())
        return signed, lines, "" if ended is None else ended.result_json

    def cancel(self, digest: bytes, public_key: bytes) -> StudyState:
        """Begin to end an open study; what was answered is charged all the same.

        Returns:
          Its state: CANCELLED, durably; OPEN while it is ending, which `status` follows; or how it
          had ended before.

        Raises:
          UnknownStudy: see `status`.
        """
        signed = self._signed(digest, public_key)
        with self._lock:  # a study that is being accepted is run before it can be cancelled
            run = self._runs.get(digest)
            if run is None and not self._stopped:
                self._end_unrun(digest, signed)
        if run is not None:
            run.cancel()
        ended = self._store.conclusion(digest)
        return StudyState.OPEN if ended is None else ended.state

    def stop(self) -> None:
        """Release every study; open ones stay open in the store, to be resumed.

        The service is to be stopped before: studies wait for it.
        """
        with self._lock:  # studies that are being accepted are released too
            self._stopped = True
            running = tuple(self._runs.values())
        for run in running:
            run.stop()
        until = time.monotonic() + _STOP_S
        for run in running:
            run.join(max(until - time.monotonic(), 0))

    def _begin_if_let_go(self, submission: Submission) -> None:
        """Begin a study that was kept by a disk that reported a failure."""
        with self._lock:
            ended = self._store.conclusion(submission.digest)
            if ended is None and submission.digest not in self._runs:
                self._begin(submission)

    def _resume_one(self, digest: bytes, signed: SignedStudy) -> None:
        try:
            submission = understand(signed, self._analysts)
        except SubmissionRefused as error:
            extra = {"study": digest.hex()[:16], "reason": error.reason}
            _LOGGER.warning("a study cannot go on", extra=extra)
            self._fleet.suspend(digest)
            return
        self._begin(submission)

    def _begin(self, submission: Submission) -> None:
        if self._stopped:
            return  # it is durable, and begins when the service comes back
        run = Run(submission, self._store, self._fleet, self._observer, self._over)
        self._runs[submission.digest] = run
        run.start()

    def _over(self, run: Run) -> None:
        """Drop a run that goes no further; what there is to know of its study is in the store."""
        digest = run.submission.digest
        with self._lock:
            self._runs.pop(digest, None)
        if run.conclusion is not None:
            self._fleet.forget(digest)
        elif not self._stopped:
            self._fleet.suspend(digest)

    def _end_unrun(self, digest: bytes, signed: SignedStudy) -> None:
        """Cancel a study that cannot go on or has not begun, and that no thread runs."""
        if self._store.conclusion(digest) is None:
            transcript = Transcript(self._store.log(digest))
            ended = cancelled(digest, decode_study(signed.study), transcript)
            self._store.conclude(digest, ended)
            self._fleet.forget(digest)
            self._observer.study_concluded(ended.state)

    def _signed(self, digest: bytes, public_key: bytes) -> SignedStudy:
        signed = self._store.study(digest)
        if signed is None or signed.public_key != public_key:
            raise _unknown()
        return signed

    def _status(self, summary: StudyEntry) -> StudyStatus:
        is_open = summary.state is StudyState.OPEN
        asked, answered = self._fleet.progress(summary.digest) if is_open else (0, 0)
        return StudyStatus(
            digest=summary.digest,
            learner=decode_study(summary.signed.study).learner,
            state=summary.state,
            round=summary.rounds_closed,
            asked=asked,
            answered=answered,
            rounds_closed=summary.rounds_closed,
            reason=summary.reason,
            message=summary.message,
        )

    def _known(self, submission: Submission) -> bool:
        """Return whether a study was submitted before.

        Raises:
          SubmissionRefused: another analyst submitted it first.
        """
        known = self._store.study(submission.digest)
        if known is not None and known.public_key != submission.signed.public_key:
            raise SubmissionRefused(
                "untrusted-key", "study: expected one of this analyst's, found another analyst's"
            )
        return known is not None


def _unknown() -> UnknownStudy:
    return UnknownStudy("study: expected one of this analyst's, found none")
