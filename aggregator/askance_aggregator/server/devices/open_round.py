"""A round that devices are being asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.encoding import encode_randomizer, question_digest, read_terms
from askance_aggregator.exchange import encode_response
from askance_aggregator.server.devices.states import BEGUN, OVER, ROUND, RoundEvent, RoundState
from askance_aggregator.store import OuterRelease
from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.intake import CheckedReports, Intake
from askance_aggregator.studies.rounds import Round
from askance_aggregator.studies.tallies import Tally
from askance_aggregator.transitions import next_state
from askance_client.codec import parse
from askance_client.errors import AskanceError
from askance_client.messages import AckStatus, SignedStudy
from askance_client.service import MAX_REQUESTS, MAX_RESPONSE_BYTES, Response
from askance_client.service.exchange import MAX_ENTRIES, entries_of
from askance_protos.v1 import exchange_pb2

_MESSAGES = 1 << 12  # messages of a round that are kept checked
# Bytes of a message's reports up to which other users are likely to send the same: about twelve
# reports, and twelve bits make 4,096 messages. It bounds the memory that a device can fill with its
# own messages.
_SHORT = 512
_ROOM = 4096  # bytes of a response that are left for what is not a request: 64 acknowledgements


class OpenRound:
    """State, intake and requests of an open round; requests are serialised once for all users."""

    def __init__(
        self, round_: Round, accounts: Accounts, on_answered: Callable[[], None] | None = None
    ) -> None:
        """Make a round that has not begun.

        `on_answered` is called when the users that this process asked have all answered; None if no
        other process asks any.
        """
        self.study_digest = round_.study_digest
        self.position = 0  # in the store: later reports of other replicas are not entered yet
        self.catching_up = asyncio.Lock()
        self.news = False  # other replicas may have stored reports since the store was looked at
        self.on_answered = on_answered
        self._asked: set[int] = set()  # users, by this process; if others may ask some
        self._awaited = 0  # answers of these
        self._round = round_
        self._intake = Intake(round_, accounts)
        self._study_part = encode_response(Response(studies=(round_.study,)))
        self.requests = {
            group.digest: encode_response(Response(requests=(group.payload,)))
            for group in round_.groups
        }
        self._numbers = {group.digest: number for number, group in enumerate(round_.groups)}
        self._all_parts = self._joined()
        # Symbols are few: equal messages of many users are checked once.
        self._checked = lru_cache(maxsize=_MESSAGES)(self._intake.check)
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arriving = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._failed_commits = 0
        self._state = RoundState.RESUMING
        self._end_if_complete()

    @property
    def parts(self) -> frozenset[bytes]:
        """The parts of responses that ask them."""
        return frozenset((*self.requests.values(), *self._all_parts))

    @property
    def outstanding(self) -> int:
        """Number of answers still missing; may be read from any thread."""
        return self._intake.open

    @property
    def number(self) -> tuple[int, int]:
        """Epoch and number of the round."""
        return self._round.epoch, self._round.number

    def users(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return who is asked, and who owes an answer (see `Intake.users`); for any thread."""
        return self._intake.users()

    @property
    def asked(self) -> int:
        """Number of answers that the round asks for in all."""
        return sum(group.cohort.size for group in self._round.groups)

    def check(self, data: tuple[bytes, ...]) -> CheckedReports | AckStatus:
        """Check reports (see `Intake.check`)."""
        if sum(map(len, data)) > _SHORT:
            return self._intake.check(data)
        return self._checked(data)

    def place(self, reports: CheckedReports, ordinal: int) -> int | None:
        """Return the position of a user in the cohort of reports (see `Intake.place`)."""
        return self._intake.place(reports, ordinal)

    def add(self, reports: CheckedReports, ordinal: int, place: int) -> None:
        """Count a user's durable reports; entering them again changes nothing."""
        counted = self._intake.add(reports, place)
        self._note_answers(counted if ordinal in self._asked else 0)

    def add_stored(self, data: bytes, ordinals: NDArray[np.int64]) -> None:
        """Count a stored report of users, if it is one of this round; again changes nothing."""
        reports = self.check((data,))
        if isinstance(reports, AckStatus):
            return
        inside, places = self._intake.places(reports, ordinals)
        counted = self._intake.add(reports, places)
        awaited = 0
        if self._asked:
            awaited = sum(
                number
                for ordinal, number in zip(ordinals[inside].tolist(), counted, strict=True)
                if ordinal in self._asked
            )
        self._note_answers(awaited)

    def note_asked(self, ordinal: int) -> None:
        """Note that this process asks a user what it owes."""
        if self.on_answered is not None and ordinal not in self._asked:
            self._asked.add(ordinal)
            new = self._intake.owes_all(ordinal)
            self._awaited += len(self.requests) if new else len(self._intake.owes(ordinal))

    def expect(self) -> None:
        """Let `closed` wait for a commit: what is acknowledged as accepted is counted."""
        self._arriving += 1
        self._idle.clear()

    def arrived(self, *, counted: bool) -> None:
        """Note that a commit has ended; `counted`: all that it made durable was counted."""
        self._arriving -= 1
        self._failed_commits += not counted
        if not self._arriving:
            self._idle.set()

    def begin(self) -> None:
        """Ask from now on: the reports that were stored before have been entered."""
        self._on(RoundEvent.BEGIN)

    @property
    def asking(self) -> bool:
        """True once it has begun, also when it is over; may be read from any thread."""
        return self._state in BEGUN

    @property
    def doubtful(self) -> bool:
        """True if a commit has failed: its reports may be durable all the same, and not counted."""
        return self._failed_commits > 0

    @property
    def closing(self) -> bool:
        """True if it takes no more reports."""
        return self._state in OVER

    def close(self) -> None:
        """Take no more reports and wait for no more users; a round that is over stays as it is."""
        self._on(RoundEvent.CLOSE)

    def hold(self) -> None:
        """Ask no user for now; it has begun. A round that is over stays as it is."""
        self._on(RoundEvent.HOLD)

    def go_on(self) -> None:
        """Ask again after a hold; a round that is over stays as it is."""
        self._on(RoundEvent.GO_ON)

    def abandon(self, error: AskanceError) -> None:
        """End it without a tally: `closed` raises the error. A round that is over stays so."""
        self._on(RoundEvent.ABANDON, error)

    async def closed(self) -> None:
        """Wait until all users have answered or refused, or no more users are waited for."""
        await self._closing
        await self._idle.wait()

    def tallies(self) -> tuple[Tally, ...]:
        """Return the tally of each group."""
        return self._intake.tallies()

    def releases(self) -> list[OuterRelease]:
        """Return what its tallies release: of each group with answers, its question and users."""
        terms = read_terms(self._round.study.study)
        return [
            OuterRelease(
                group.digest,
                question_digest(
                    group.query, terms.schema, group.randomizer, terms.repeat, self._round.epoch
                ),
                encode_randomizer(group.randomizer).SerializeToString(deterministic=True),
                users,
                again,
            )
            for group, (users, again) in zip(
                self._round.groups, self._intake.answers(), strict=True
            )
            if len(users)
        ]

    def owed(self, ordinal: int, known_studies: set[bytes]) -> list[bytes]:
        """The parts of responses that ask this user what it still owes, the study first."""
        if self._state is not RoundState.ASKING:
            return []  # no user is to be charged for an answer that comes too late
        if self._all_parts and self._intake.owes_all(ordinal):
            parts = list(self._all_parts)
        else:
            parts = [self.requests[group.digest] for group in self._intake.owes(ordinal)]
        if parts and self.study_digest not in known_studies:
            parts.insert(0, self._study_part)
        return parts

    def owed_requests(self, ordinal: int, first: int = 0) -> list[tuple[int, bytes]]:
        """Return the requests that this user still owes an answer, from group `first` on.

        Returns:
          Numbers of groups, ascending, and payloads; none unless the round is being asked.
        """
        if self._state is not RoundState.ASKING:
            return []
        return [
            (self._numbers[group.digest], group.payload)
            for group in self._intake.owes(ordinal)
            if self._numbers[group.digest] >= first
        ]

    @property
    def taking(self) -> bool:
        """True while its users are asked."""
        return self._state is RoundState.ASKING

    @property
    def study(self) -> SignedStudy:
        """The study that it is a round of."""
        return self._round.study

    def members_among(self, ordinals: Iterable[int]) -> Iterator[int]:
        """Return which of these users are asked anything."""
        connected = np.fromiter(ordinals, np.int64)
        asked = np.zeros(len(connected), np.bool_)
        for cohort in {group.cohort for group in self._round.groups}:
            asked |= cohort.holds(connected)
        return iter(connected[asked].tolist())

    def _joined(self) -> tuple[bytes, ...]:
        """Return all requests as one part of a response; none if they may need several."""
        # A check-in is answered with one response: a part that never fits beside the rest of it
        # would never be sent.
        joined = b"".join(self.requests.values())
        if not 0 < len(joined) <= MAX_RESPONSE_BYTES - _ROOM:
            return ()
        requests, entries = count_contents(joined)
        return (joined,) if requests <= MAX_REQUESTS and entries <= MAX_ENTRIES else ()

    def _note_answers(self, awaited: int) -> None:
        """Note that answers have been counted, of which so many were awaited."""
        self._awaited -= awaited
        if awaited and not self._awaited and self.on_answered is not None:
            self.on_answered()
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if self._intake.complete:
            self._on(RoundEvent.COMPLETE)

    def _on(self, event: RoundEvent, error: AskanceError | None = None) -> None:
        """Change the state; wake those that wait in `closed` when the round ends."""
        ended = self._state in OVER
        self._state = next_state("round", ROUND, self._state, event)
        if not ended and self._state in OVER:
            if error is None:
                self._closing.set_result(None)
            else:
                self._closing.set_exception(error)


def count_contents(part: bytes) -> tuple[int, int]:
    """Count the requests of a part of a response, and the entries of all tables in them."""
    requests = parse(exchange_pb2.CheckInResponse, part, limit=MAX_RESPONSE_BYTES).requests
    return len(requests), entries_of(requests)
