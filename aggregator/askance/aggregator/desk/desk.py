"""The desk: every study that was taken in, from its first question to its end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from askance.aggregator.clock import system_now_s
from askance.aggregator.desk.results import cancelled
from askance.aggregator.desk.runs import Run
from askance.aggregator.desk.submissions import (
    DeskLimits,
    Submission,
    SubmissionRefused,
    check_affordable,
    check_timely,
    check_workable,
    understand,
)
from askance.aggregator.service.fleet import ServiceFleet
from askance.aggregator.service.observer import SILENT, Observer
from askance.aggregator.session import Transcript
from askance.aggregator.store import Conclusion, Store, StudyState
from askance.client.codec import decode_study
from askance.client.errors import AskanceError
from askance.client.messages import SignedStudy

_LOGGER = logging.getLogger(__name__)
_CANCEL_S = 30.0  # how long an analyst waits to hear that a study has ended
_STOP_S = 10.0


class UnknownStudy(AskanceError):
    """No study of that digest and analyst; which of the two is wrong is not told."""


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """Where a study stands.

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


class Desk:
    """Takes studies in, runs each in a thread of its own, and concludes it. For any thread.

    Args:
      store: where they are kept.
      fleet: who is asked.
      analysts: the Ed25519 public keys whose studies are taken in.
      limits: how many, and what they may cost a user together.
      now_s: the time, in whole seconds since 1970, UTC.
      observer: told what becomes of studies.
    """

    def __init__(
        self,
        store: Store,
        fleet: ServiceFleet,
        *,
        analysts: frozenset[bytes],
        limits: DeskLimits | None = None,
        now_s: Callable[[], int] = system_now_s,
        observer: Observer = SILENT,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._analysts = analysts
        self._limits = limits or DeskLimits()
        self._now_s = now_s
        self._observer = observer
        self._lock = threading.Lock()
        self._runs: dict[bytes, Run] = {}
        self._stopped = False

    @property
    def analysts(self) -> frozenset[bytes]:
        """The keys whose studies are taken in."""
        return self._analysts

    def resume(self) -> int:
        """Goes on with every open study; once, at the start.

        A study whose analyst is not known any more, or whose learner has another version now, stays
        as it is, and says so in the log.

        Returns:
          How many go on.

        Raises:
          StoreError: the store cannot be read.
        """
        with self._lock:
            ended = self._store.conclusions()
            for digest, signed in self._store.studies().items():
                # An analyst may have been quicker: the service listens already.
                if digest not in ended and digest not in self._runs:
                    self._resume_one(digest, signed)
            return len(self._runs)

    def submit(self, signed: SignedStudy) -> bytes:
        """Takes a study in and begins it; its digest. The same study again changes nothing.

        Raises:
          SubmissionRefused: it may not come in, or cannot work; nobody was asked.
          StoreError: it could not be made durable.
        """
        submission = understand(signed, self._analysts)
        if _known(submission, self._store.studies()):
            self._begin_if_let_go(submission)
            return submission.digest
        check_timely(submission, self._limits, self._now_s())
        check_workable(submission, self._fleet.population)
        with self._lock:
            studies, ended = self._store.studies(), self._store.conclusions()
            if not _known(submission, studies):
                if len(studies) - len(ended) >= self._limits.open_studies:
                    raise SubmissionRefused(
                        "too-many-studies",
                        f"study: expected fewer than {self._limits.open_studies} open ones",
                    )
                check_affordable(submission, self._limits, studies, ended)
                self._store.add_study(submission.digest, signed)
                self._observer.study_submitted()
                self._begin(submission)
        return submission.digest

    def listing(self, public_key: bytes) -> list[StudyStatus]:
        """Where an analyst's studies stand, the oldest first."""
        studies, ended = self._store.studies(), self._store.conclusions()
        return [
            self._status(digest, signed, ended.get(digest))
            for digest, signed in studies.items()
            if signed.public_key == public_key
        ]

    def status(self, digest: bytes, public_key: bytes) -> StudyStatus:
        """Where a study stands.

        Raises:
          UnknownStudy: there is none of that digest, or it is another analyst's.
        """
        run = self._runs.get(digest)
        if run is not None and run.submission.signed.public_key == public_key:
            return self._status(digest, run.submission.signed, run.conclusion)
        signed = self._signed(digest, public_key)
        return self._status(digest, signed, self._store.conclusions().get(digest))

    def conclusion(self, digest: bytes, public_key: bytes) -> Conclusion | None:
        """How a study ended; None while it is open. Raises UnknownStudy."""
        self._signed(digest, public_key)
        return self._store.conclusions().get(digest)

    def export(self, digest: bytes, public_key: bytes) -> tuple[SignedStudy, list[str], str]:
        """A study, its transcript so far, and its result ("" while it is open).

        Raises UnknownStudy."""
        signed = self._signed(digest, public_key)
        ended = self._store.conclusions().get(digest)
        lines = list(self._store.log(digest).lines())
        return signed, lines, "" if ended is None else ended.result_json

    def cancel(self, digest: bytes, public_key: bytes) -> StudyState:
        """Ends an open study; what was answered is charged all the same.

        Returns:
          Its state: CANCELLED, durably; or how it had ended before.

        Raises:
          UnknownStudy: see `status`.
        """
        signed = self._signed(digest, public_key)
        with self._lock:  # a study that is being taken in is run before it can be cancelled
            run = self._runs.get(digest)
            if run is None and not self._stopped:
                self._end_unrun(digest, signed)
        if run is not None:
            run.cancel()
            run.over.wait(_CANCEL_S)
        ended = self._store.conclusions().get(digest)
        return StudyState.OPEN if ended is None else ended.state

    def stop(self) -> None:
        """Lets go of every study; open ones stay open in the store, to be resumed.

        The service is to be stopped before: studies wait for it."""
        with self._lock:  # what is being taken in is let go of too
            self._stopped = True
        for run in tuple(self._runs.values()):
            run.stop()
        for run in tuple(self._runs.values()):
            run.join(_STOP_S)

    def _begin_if_let_go(self, submission: Submission) -> None:
        """Begins a study that was kept by a disk which said that it was not."""
        with self._lock:
            ended = self._store.conclusions()
            if submission.digest not in ended and submission.digest not in self._runs:
                self._begin(submission)

    def _resume_one(self, digest: bytes, signed: SignedStudy) -> None:
        try:
            submission = understand(signed, self._analysts)
        except SubmissionRefused as error:
            extra = {"study": digest.hex()[:16], "reason": error.reason}
            _LOGGER.warning("a study cannot go on", extra=extra)
            return
        self._begin(submission)

    def _begin(self, submission: Submission) -> None:
        if self._stopped:
            return  # it is durable, and begins when the service comes back
        run = Run(submission, self._store, self._fleet, self._observer)
        self._runs[submission.digest] = run
        run.start()

    def _end_unrun(self, digest: bytes, signed: SignedStudy) -> None:
        """Cancels a study that cannot go on, or that nobody has begun: no thread does it."""
        if digest not in self._store.conclusions():
            transcript = Transcript(self._store.log(digest))
            ended = cancelled(digest, decode_study(signed.study), transcript)
            self._store.conclude(digest, ended)
            self._observer.study_concluded(ended.state)

    def _signed(self, digest: bytes, public_key: bytes) -> SignedStudy:
        signed = self._store.studies().get(digest)
        if signed is None or signed.public_key != public_key:
            raise UnknownStudy("study: expected one of this analyst's, found none")
        return signed

    def _status(self, digest: bytes, signed: SignedStudy, ended: Conclusion | None) -> StudyStatus:
        run = self._runs.get(digest)
        closed = self._rounds_closed(digest) if run is None else run.rounds_closed
        asked, answered = (0, 0) if ended is not None else self._fleet.progress(digest)
        return StudyStatus(
            digest=digest,
            learner=decode_study(signed.study).learner,
            state=StudyState.OPEN if ended is None else ended.state,
            round=closed,
            asked=asked,
            answered=answered,
            rounds_closed=closed,
            reason="" if ended is None else ended.reason,
            message="" if ended is None else ended.message,
        )

    def _rounds_closed(self, digest: bytes) -> int:
        lines = self._store.log(digest).lines()
        return sum('"kind":"closed"' in line for line in lines)


def _known(submission: Submission, studies: Mapping[bytes, SignedStudy]) -> bool:
    """Whether it was taken in before; refuses one that another analyst was quicker to submit."""
    known = studies.get(submission.digest)
    if known is not None and known.public_key != submission.signed.public_key:
        raise SubmissionRefused(
            "untrusted-key", "study: expected one of this analyst's, found another analyst's"
        )
    return known is not None
