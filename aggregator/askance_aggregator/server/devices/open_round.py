"""A round that devices are being asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import numpy as np

from askance_aggregator.server.devices.commits import Statuses
from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.intake import Arrival, Intake
from askance_aggregator.studies.rounds import Round
from askance_aggregator.studies.tallies import Tally
from askance_client.errors import AskanceError
from askance_client.messages import AckStatus, Report
from askance_client.service import Response, encode_response


class OpenRound:
    """Open round of one study: its intake, and its requests serialised once for all devices."""

    def __init__(self, round_: Round, accounts: Accounts) -> None:
        self.study_digest = round_.study_digest
        self._round = round_
        self._intake = Intake(round_, accounts)
        self._study_part = encode_response(Response(studies=(round_.study,)))
        self._parts = {
            group.digest: encode_response(Response(requests=(group.payload,)))
            for group in round_.groups
        }
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arriving: set[asyncio.Future[Statuses]] = set()
        self._doubtful = False
        self._asking = False
        self._close_if_complete()

    @property
    def requests(self) -> Iterable[bytes]:
        """The digests of its requests."""
        return self._parts

    @property
    def parts(self) -> frozenset[bytes]:
        """The parts of responses that ask them."""
        return frozenset(self._parts.values())

    @property
    def outstanding(self) -> int:
        """Number of answers still missing; may be read from any thread."""
        return self._intake.open

    @property
    def asked(self) -> int:
        """Number of answers that the round asks for in all."""
        return sum(group.cohort.size for group in self._round.groups)

    def examine(self, ordinal: int, data: bytes) -> Arrival | AckStatus:
        """Check a report (see `Intake.examine`)."""
        return self._intake.examine(ordinal, data)

    def check(self, ordinal: int, report: Report, data: bytes) -> Arrival | AckStatus:
        """The same for a report that is decoded already."""
        return self._intake.check(ordinal, report, data)

    def add(self, arrival: Arrival) -> None:
        """Count a durable report; entering it again changes nothing."""
        self._intake.add(arrival)
        self._close_if_complete()

    def expect(self, committed: asyncio.Future[Statuses]) -> None:
        """Do not end before this commit has: what is acknowledged as accepted is counted."""
        self._arriving.add(committed)
        committed.add_done_callback(self._arrived)

    def begin(self) -> None:
        """Asks from now on: what was stored of it before has been entered."""
        self._asking = True

    @property
    def asking(self) -> bool:
        """True if the round has begun; may be read from any thread."""
        return self._asking

    @property
    def doubtful(self) -> bool:
        """True if a commit has failed, so that its reports may or may not be durable."""
        return self._doubtful

    @property
    def closing(self) -> bool:
        """True if the round takes no more reports."""
        return self._closing.done()

    def close(self) -> None:
        """Stop waiting for answers."""
        if not self._closing.done():
            self._closing.set_result(None)

    def abandon(self, error: AskanceError) -> None:
        """End the round without a tally; waiting callers get this error."""
        if not self._closing.done():
            self._closing.set_exception(error)

    async def closed(self) -> None:
        """Wait until every member has answered or refused, or the round no longer waits.

        Raises:
          AskanceError: it was abandoned.
        """
        await self._closing
        if self._arriving:
            await asyncio.wait(self._arriving)

    def tallies(self) -> tuple[Tally, ...]:
        """Return the tally of each group."""
        return self._intake.tallies()

    def owed(self, ordinal: int, known_studies: set[bytes]) -> list[bytes]:
        """The parts of responses that ask this user what it still owes, the study first."""
        if not self._asking or self.closing:
            return []  # no user is to be charged for an answer that comes too late
        parts = [self._parts[group.digest] for group in self._intake.owes(ordinal)]
        if parts and self.study_digest not in known_studies:
            parts.insert(0, self._study_part)
        return parts

    def members_among(self, ordinals: Iterable[int]) -> Iterator[int]:
        """Return which of these users are asked anything."""
        connected = np.fromiter(ordinals, np.int64)
        asked = np.zeros(len(connected), np.bool_)
        for cohort in {group.cohort for group in self._round.groups}:
            asked |= cohort.holds(connected)
        return iter(connected[asked].tolist())

    def _arrived(self, committed: asyncio.Future[Statuses]) -> None:
        self._arriving.discard(committed)
        if committed.cancelled() or committed.exception() is not None:
            self._doubtful = True

    def _close_if_complete(self) -> None:
        if self._intake.complete:
            self.close()
