"""A fleet that is ready to be asked, and where its studies' transcripts go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from askance_aggregator.studies import REPORTED, Fleet, TranscriptLog
from askance_client.messages import SignedStudy
from askance_simulation.fleets.devices import Devices

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class OpenedFleet:
    """`fleet` to ask; `log` gives a study the log that its transcript is kept in.

    `tallies` is the kind of its transcripts (see `Header`).
    """

    fleet: Fleet
    log: Callable[[SignedStudy], TranscriptLog]
    tallies: str = REPORTED


FleetMaker = Callable[[Devices, Progress | None], AbstractContextManager[OpenedFleet]]
