"""Epochs of a repeated study on the aggregator's own clock.

An epoch begins when its first day begins, UTC, or at once if that is past. Its open round closes
when its last day ends, with the answers that have come, and the epoch is concluded as it stands. A
round is never asked after that end: an epoch whose learner has more to ask then fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from askance_aggregator.server.devices.fleet import ServiceFleet
from askance_aggregator.server.studies.outer_statements import outer_statements
from askance_aggregator.store import Conclusion, Store, StudyState, TaggedPopulation
from askance_aggregator.studies import Accounts, Round, Tally, Transcript
from askance_aggregator.studies.results import End, date_of, unrun
from askance_aggregator.studies.series import series_conclusion
from askance_aggregator.studies.transcript import Asked
from askance_client.errors import AskanceError
from askance_client.ledger import SECONDS_PER_DAY
from askance_client.messages import Repeat, StudyTerms


class EpochOver(AskanceError):
    """An epoch has ended before its learner has asked all its rounds."""


class EpochPaused(AskanceError):
    """The study was paused from the opening of a round until its epoch ended."""


@dataclass(frozen=True, slots=True)
class EpochClock:
    """The days of one epoch, by the aggregator's clock."""

    repeat: Repeat
    epoch: int
    expires_unix_s: int  # devices refuse the study from then on
    now_s: Callable[[], int]

    def until_begin_s(self) -> int:
        """Return the seconds until its first day begins; 0 or less: it has begun."""
        return self._begin_s(self.epoch) - self.now_s()

    def left_ms(self) -> int:
        """Return the milliseconds until its last day ends or its study expires."""
        end_s = min(self._begin_s(self.epoch + 1), self.expires_unix_s)
        return 1000 * (end_s - self.now_s())

    def missed(self, transcript: Transcript, *, paused: bool) -> End | None:
        """Return the end of an epoch that is over and of which nothing was asked; None: it is not.

        `paused` says whether the study was paused when the epoch ended.
        """
        if has_begun(transcript) or self.left_ms() > 0:
            return None
        every = self.repeat.every_days
        if paused:
            message = (
                f"epoch {self.epoch - self.repeat.first + 1} of {self.repeat.epochs}: expected a"
                f" study that is not paused until {date_of((self.epoch + 1) * every)}, got it"
                " paused; no user was asked"
            )
            return End(StudyState.FAILED, "paused", message)
        message = (
            f"epoch {self.epoch - self.repeat.first + 1} of {self.repeat.epochs}: expected an"
            f" aggregator that runs this study from {date_of(self.epoch * every)} until"
            f" {date_of((self.epoch + 1) * every)}, got none; no user was asked"
        )
        return End(StudyState.FAILED, "missed", message)

    def _begin_s(self, epoch: int) -> int:
        return epoch * self.repeat.every_days * SECONDS_PER_DAY


class EpochFleet:
    """The service's devices during one epoch (see `studies.Fleet`)."""

    def __init__(self, fleet: ServiceFleet, clock: EpochClock, paused: Callable[[], bool]) -> None:
        self._fleet = fleet
        self._clock = clock
        self._paused = paused

    @property
    def population(self) -> int:
        return self._fleet.population

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        """Ask a round until the epoch's end, if not before (see `ServiceFleet.ask`).

        After the end no member is asked, and what the store holds of the round is counted.
        """
        over = self._clock.left_ms() <= 0
        tallies = self._fleet.ask(round_, accounts, self._clock.left_ms)
        if over and not any(tally.answered for tally in tallies):
            raise EpochOver(
                f"epoch: expected round {round_.number + 1} to begin before the epoch ended; it"
                " was not asked"
            )
        if self._paused() and not any(tally.answered for tally in tallies):
            raise EpochPaused(
                f"epoch: expected answers to round {round_.number + 1}, got none: the study was"
                " paused until the epoch ended"
            )
        return tallies

    def recall(self, round_: Round, accounts: Accounts) -> None:
        self._fleet.recall(round_, accounts)


def has_begun(transcript: Transcript) -> bool:
    """Return whether users were asked anything in an epoch."""
    return any(isinstance(event, Asked) for event in transcript.recorded)


def has_asked(store: Store, digest: bytes, repeat: Repeat | None) -> bool:
    """Return whether a study has asked devices, in any epoch: it is too late for an approval."""
    epochs = (0,) if repeat is None else repeat.indices
    return any(has_begun(Transcript(store.log(digest, epoch))) for epoch in epochs)


def cancel_epochs(
    store: Store,
    study_digest: bytes,
    terms: StudyTerms,
    repeat: Repeat,
    population: TaggedPopulation | None,
    end: End,
) -> Conclusion:
    """End the epoch that has begun and not ended, durably; return the end of its study."""
    ended = {one.epoch for one in store.epochs(study_digest)}
    for epoch in repeat.indices:
        transcript = Transcript(store.log(study_digest, epoch))
        if epoch not in ended and transcript.recorded:
            readers = outer_statements(store, study_digest, terms, transcript, epoch)
            ended_now = unrun(study_digest, terms, transcript, end, epoch, population, readers)
            store.conclude(study_digest, ended_now, epoch)
    return series_conclusion(study_digest, terms, epoch_results(store, study_digest), end)


def epoch_results(store: Store, study_digest: bytes) -> list[dict[str, Any]]:
    """Return the results of a study's epochs that have ended, in order of time."""
    kept = (store.conclusion(study_digest, one.epoch) for one in store.epochs(study_digest))
    return [json.loads(ended.result_json) for ended in kept if ended is not None]
