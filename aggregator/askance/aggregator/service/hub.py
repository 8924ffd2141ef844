"""Where connected devices and open rounds meet."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import Executor
from itertools import islice

import grpc

from askance.aggregator.service.commits import GroupCommit
from askance.aggregator.service.connections import Connection
from askance.aggregator.service.open_round import OpenRound
from askance.aggregator.session.accounts import Accounts
from askance.aggregator.session.intake import Arrival
from askance.aggregator.session.rounds import Round
from askance.aggregator.session.tallies import Tally
from askance.aggregator.store import Store, StoredReport
from askance.client.codec import decode_report
from askance.client.errors import LocalProtocolError
from askance.client.messages import AckStatus

_REMEMBERED_REQUESTS = 1 << 16
_PAGE = 1024  # reports of an interrupted round that are entered between two turns of the loop


class Hub:
    """The aggregator's side of a fleet. To be used in one event loop.

    Args:
      store: what is durable.
      executor: a thread that may wait for the disk.
    """

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._commits = GroupCommit(store, executor)
        self._connections: dict[int, Connection] = {}
        self._rounds: dict[bytes, OpenRound] = {}  # by study: one round of a study at a time
        self._requests: dict[bytes, OpenRound] = {}
        self._past: OrderedDict[bytes, None] = OrderedDict()  # requests of closed rounds
        self._ending: set[asyncio.Future[None]] = set()
        self._stopped = False

    @property
    def connected(self) -> int:
        """How many devices hold a stream open."""
        return len(self._connections)

    @property
    def outstanding(self) -> int:
        """How many answers open rounds still wait for; may be read from any thread."""
        return sum(round_.outstanding for round_ in tuple(self._rounds.values()))

    def connect(self, connection: Connection) -> None:
        """Takes up a device's stream, in place of one that it may have, and asks what it owes."""
        replaced = self._connections.get(connection.ordinal)
        self._connections[connection.ordinal] = connection
        if replaced is not None:
            self._end(replaced, grpc.StatusCode.ABORTED, "a newer stream of this device took over")
        for round_ in self._rounds.values():
            self._ask(round_, connection)

    def disconnect(self, connection: Connection) -> None:
        """Forgets a stream, unless a newer one has replaced it."""
        connection.drop()
        if self._connections.get(connection.ordinal) is connection:
            del self._connections[connection.ordinal]

    def owed(self, ordinal: int, known_studies: set[bytes]) -> list[bytes]:
        """The parts of responses that ask this user what it owes to all open rounds."""
        return [
            part for round_ in self._rounds.values() for part in round_.owed(ordinal, known_studies)
        ]

    async def open(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        """Asks a round and returns its tallies when every member has answered or refused.

        What the store already holds of it is counted, and its members are not asked again.

        Raises:
          LocalProtocolError: the study has a round open, or the hub was stopped.
          StoreError: what is stored cannot be read.
        """
        opened = OpenRound(round_, accounts)
        if self._stopped:
            raise LocalProtocolError("round: expected a running service, found a stopped one")
        if opened.study_digest in self._rounds:
            raise LocalProtocolError(
                f"round {round_.number}: expected no open round of its study, found one"
            )
        self._rounds[opened.study_digest] = opened
        self._requests.update((digest, opened) for digest in opened.requests)
        try:
            await self._resume(opened)
            for ordinal in opened.members_among(self._connections):
                self._ask(opened, self._connections[ordinal])
            tallies = await opened.closed()
            if self._stopped:
                raise LocalProtocolError("round: expected a running service, found a stopped one")
            return tallies
        finally:
            self._retire(opened)

    async def recall(self, round_: Round, accounts: Accounts) -> None:
        """Enters what the store holds of a closed round into the accounts, and asks nobody.

        Raises:
          StoreError: what is stored cannot be read.
        """
        await self._resume(OpenRound(round_, accounts))

    def close_round(self, study_digest: bytes) -> bool:
        """Ends a study's open round with what has come; the rest will be late.

        Returns:
          Whether there was one.
        """
        opened = self._rounds.get(study_digest)
        if opened is not None:
            opened.close()
        return opened is not None

    async def deliver(self, ordinal: int, data: bytes) -> tuple[bytes, AckStatus]:
        """Takes a device's report and says what became of it, once that is durable.

        Returns:
          The digest of the request that it answers, and the status to acknowledge.

        Raises:
          RemoteProtocolError: not a report. StoreError: nothing may be acknowledged.
        """
        digest = decode_report(data).request_digest
        opened = self._requests.get(digest)
        if opened is None or opened.closing:
            return digest, await self._belated(digest, ordinal, data)
        arrival = opened.examine(ordinal, data)
        if isinstance(arrival, AckStatus):
            return digest, arrival
        committed = self._commits.submit(StoredReport(digest, ordinal, data))
        # Not after the `await`: a device that leaves before its acknowledgement is counted too.
        committed.add_done_callback(lambda future: _enter(opened, arrival, future))
        opened.expect(committed)
        return digest, await asyncio.shield(committed)

    async def stop(self) -> None:
        """Commits what has arrived, and lets go of the devices and of who waits for a round."""
        self._stopped = True
        for opened in tuple(self._rounds.values()):
            opened.close()
        for connection in tuple(self._connections.values()):
            self._end(connection, grpc.StatusCode.UNAVAILABLE, "the aggregator is going down")
        if self._ending:
            await asyncio.wait(self._ending)
        await self._commits.close()

    async def _belated(self, digest: bytes, ordinal: int, data: bytes) -> AckStatus:
        """The status of a report that no open round waits for."""
        loop = asyncio.get_running_loop()
        stored = await loop.run_in_executor(self._executor, self._store.report, digest, ordinal)
        if stored == data:
            return AckStatus.DUPLICATE  # counted in its time; only the acknowledgement was lost
        known = stored is not None or digest in self._past or digest in self._requests
        return AckStatus.LATE if known else AckStatus.UNKNOWN

    async def _resume(self, opened: OpenRound) -> None:
        """Enters what the store holds of a round, a page at a time."""
        loop = asyncio.get_running_loop()
        for digest in opened.requests:
            reports = self._store.reports(digest)

            def page() -> list[tuple[int, bytes]]:
                return list(islice(reports, _PAGE))  # noqa: B023  # called before the next turn

            while stored := await loop.run_in_executor(self._executor, page):
                for ordinal, data in stored:
                    arrival = opened.examine(ordinal, data)
                    if isinstance(arrival, Arrival):
                        opened.enter(arrival)

    def _ask(self, opened: OpenRound, connection: Connection) -> None:
        parts = opened.owed(connection.ordinal, connection.known_studies)
        if parts:
            connection.known_studies.add(opened.study_digest)
            connection.push(*parts)

    def _end(self, connection: Connection, code: grpc.StatusCode, details: str) -> None:
        ending = asyncio.ensure_future(connection.end(code, details))
        self._ending.add(ending)  # the event loop itself holds tasks only weakly
        ending.add_done_callback(self._ending.discard)

    def _retire(self, opened: OpenRound) -> None:
        del self._rounds[opened.study_digest]
        for digest in opened.requests:
            del self._requests[digest]
            self._past[digest] = None
        while len(self._past) > _REMEMBERED_REQUESTS:
            self._past.popitem(last=False)


def _enter(opened: OpenRound, arrival: Arrival, future: asyncio.Future[AckStatus]) -> None:
    """Counts a report whose commit has ended well.

    A duplicate is entered too: its first commit may have reached the disk and yet have failed, so
    that it was never counted. Entering is idempotent.
    """
    if future.cancelled() or future.exception() is not None:
        return
    if future.result() in (AckStatus.ACCEPTED, AckStatus.DUPLICATE):
        opened.enter(arrival)
