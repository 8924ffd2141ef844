"""Run of one study, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from askance_aggregator.server.devices.fleet import ServiceFleet
from askance_aggregator.server.devices.hub import ServiceStopped, StudyCancelled
from askance_aggregator.server.devices.observer import Observer
from askance_aggregator.server.studies.submissions import Submission
from askance_aggregator.store import Conclusion, Store, StudyState
from askance_aggregator.studies import Outcome, Session
from askance_aggregator.studies.results import End, cohort_seed, conclusion
from askance_client.errors import (
    AskanceError,
    InvalidAnswer,
    NondeterminismError,
    PlanExceeded,
    PlanRefused,
    StoreError,
    TooFewRespondents,
)

_LOGGER = logging.getLogger(__name__)
_DISK_S = 5.0  # before a disk that failed is tried again
# Tries in a row, a minute in all, before reports of the study are not waited for any more. A device
# delivers what it owes to all studies together: one that never goes on would hold up the others.
_TRIES = 12

# What ends a study, and how; the first that fits.
_ENDS: tuple[tuple[type[AskanceError], StudyState, str], ...] = (
    (StudyCancelled, StudyState.CANCELLED, "cancelled"),
    (TooFewRespondents, StudyState.FAILED, "too-few-respondents"),
    (PlanRefused, StudyState.FAILED, "plan-refused"),
    (PlanExceeded, StudyState.FAILED, "plan-exceeded"),
    (InvalidAnswer, StudyState.FAILED, "invalid-answer"),
    (NondeterminismError, StudyState.FAILED, "nondeterminism"),
)


class Run:
    """Runs a study until it has ended or is let go of. What it needs to go on is in the store."""

    def __init__(
        self,
        submission: Submission,
        store: Store,
        fleet: ServiceFleet,
        observer: Observer,
        on_over: Callable[[Run], None],
    ) -> None:
        self.submission = submission
        self.over = threading.Event()  # it has ended, or was let go of
        self._store = store
        self._service = fleet
        self._observer = observer
        self._on_over = on_over
        self._stopping = threading.Event()
        self._conclusion: Conclusion | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"askance-study-{submission.digest.hex()[:8]}", daemon=True
        )

    @property
    def conclusion(self) -> Conclusion | None:
        """Durable conclusion of the study; None while it is open."""
        return self._conclusion

    def start(self) -> None:
        """Begin, or go on from where the transcript breaks off."""
        self._thread.start()

    def cancel(self) -> None:
        """Stop asking; the study ends as cancelled, unless it has ended already."""
        self._service.cancel(self.submission.digest)

    def stop(self) -> None:
        """Stop running it as soon as it waits for nothing."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait until it is released."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._go_on()
        finally:
            self._on_over(self)
            self.over.set()  # no caller is to wait for a study that a stopping service has released

    def _go_on(self) -> None:
        study = {"study": self.submission.digest.hex()[:16]}
        _LOGGER.info("a study goes on", extra=study)
        failures = 0
        while not self._stopping.is_set():
            try:
                found = self._conclude()
            except ServiceStopped:
                return
            except StoreError as error:  # a failing disk ends no study: what is durable counts
                _LOGGER.error("a study waits for the store", exc_info=error, extra=study)
                failures += 1
                if failures >= _TRIES:
                    self._service.suspend(self.submission.digest)
                self._stopping.wait(_DISK_S)
                continue
            self._conclusion = found
            self._observer.study_concluded(found.state)
            _LOGGER.info("a study has ended", extra={**study, "reason": found.reason})
            return

    def _conclude(self) -> Conclusion:
        """Run it to its end and make the end durable.

        An end that a disk kept although it failed is the end: another run could receive fewer
        reports.
        """
        kept = self._store.conclusion(self.submission.digest)
        if kept is not None:
            return kept
        session: Session[Any] = Session(
            study=self.submission.signed,
            learner=self.submission.learner,
            fleet=self._service,
            log=self._store.log(self.submission.digest),
            cohort_seed=cohort_seed(self.submission.digest),
        )
        outcome: Outcome[Any] | None = None
        end = End(StudyState.DONE, "done")
        try:
            outcome = session.run()
        except ServiceStopped:
            raise
        except Exception as error:
            end = self._end(error)
        ended = conclusion(
            self.submission.digest,
            self.submission.terms,
            session.transcript,
            session.accounts,
            end,
            outcome,
        )
        self._store.conclude(self.submission.digest, ended)
        return ended

    def _end(self, error: Exception) -> End:
        """Return the end that an error gives a study; raise an error that gives none."""
        for kind, state, reason in _ENDS:
            if isinstance(error, kind):
                return End(state, reason, str(error))
        if isinstance(error, StoreError):
            raise error
        study = {"study": self.submission.digest.hex()[:16]}
        _LOGGER.error("a study failed", exc_info=error, extra=study)
        told = str(error) if isinstance(error, AskanceError) else "a fault of the aggregator"
        return End(StudyState.FAILED, "failed", told)
