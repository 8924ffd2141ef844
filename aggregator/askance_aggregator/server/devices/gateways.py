"""Open stream of a gateway: many users, named by their numbers on the stream.

Memory per member at rest: its ordinal and the digest of its token (40 bytes), and entries in the
tables from ordinals to numbers and to streams. Requests are worked out when they are written, from
the rounds as they are then: a round that closes meanwhile is not asked any more.
"""

from __future__ import annotations

import hmac
from array import array
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import grpc

from askance_aggregator.exchange import decode_batch, encode_gateway_response
from askance_aggregator.server.devices.admission import Admission, RelayCaller
from askance_aggregator.server.devices.calls import Context, read_message
from askance_aggregator.server.devices.certification import Proof
from askance_aggregator.server.devices.connections import Abort, UserConnection, Write
from askance_aggregator.server.devices.credentials import read_credentials
from askance_aggregator.server.devices.hub import Hub
from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.server.devices.settings import Settings
from askance_aggregator.server.devices.standings import LAST_WORDS
from askance_aggregator.store import EnrolledDevice
from askance_aggregator.store.register import DeviceState
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus, SignedStudy
from askance_client.service import MAX_REQUESTS, MAX_RESPONSE_BYTES, gateway_exchange, token_digest
from askance_client.service.exchange import MAX_ENTRIES, MAX_STUDIES, entries_of

T = TypeVar("T")
_DIGEST_BYTES = 32
_ABSENT = -1  # stands for an ordinal
_MEMBER_BYTES = 3  # at most, of a member's number in a list
_ROOM = 128 * 1024  # bytes of a response that are left for what is not a request or a study
_FEW = 1024  # entries of a queue that are not looked through for repetitions

Ack = tuple[int, bytes, AckStatus]
"""Number of a member, digest of its request, and the status to acknowledge."""


class _Ask(NamedTuple):
    """Requests of a round to one member, from the group of this number on."""

    opened: OpenRound
    member: int
    first: int


class GatewayConnection(UserConnection):
    """Open stream of a gateway, seen from the hub.

    Members are asked in the order in which they came to owe something, at most `MAX_REQUESTS`
    requests in turn: one that is asked much waits for the others. At most `MAX_UNSETTLED` responses
    with requests are on their way, so that a slow gateway is sent no more than it has dealt with.

    Args:
      known_studies: digests of the studies that the gateway holds.
      most: members that may have a number, 1 to `MAX_MEMBERS`.
    """

    def __init__(
        self,
        known_studies: Iterable[bytes],
        write: Write,
        abort: Abort,
        most: int = gateway_exchange.MAX_MEMBERS,
    ) -> None:
        super().__init__(write, abort)
        self._most = most
        self._known: dict[bytes, None] = dict.fromkeys(known_studies)
        self._ordinals = array("q")  # by number
        self._digests = bytearray()  # of tokens, 32 bytes per number
        self._numbers: dict[int, int] = {}  # by ordinal, of the members that are present
        self._asks: deque[_Ask] = deque()
        self._look_at = _FEW  # length of that queue from which repetitions are dropped
        self._acks: deque[Ack] = deque()
        self._absences: deque[tuple[int, gateway_exchange.Absence]] = deque()
        self._sequences: deque[tuple[int, int]] = deque()
        self._unsettled = 0

    @property
    def ordinals(self) -> Iterator[int]:
        """The users that are present on the stream."""
        return iter(tuple(self._numbers))

    def join(self, member: int, ordinal: int, digest: bytes) -> None:
        """Give a number to a user, or take up again the user that has the number."""
        if self._numbers.get(ordinal, member) != member:
            raise RemoteProtocolError("exchange: expected a device under one number, got a second")
        self._reserve(member)
        if self._ordinals[member] not in (_ABSENT, ordinal):
            raise RemoteProtocolError(f"exchange: expected no other device as member {member}")
        self._ordinals[member] = ordinal
        self._digests[member * _DIGEST_BYTES : (member + 1) * _DIGEST_BYTES] = digest
        self._numbers[ordinal] = member

    def holds(self, ordinal: int) -> bool:
        """Return whether a user is present; one that was displaced or refused is not."""
        return ordinal in self._numbers

    def refuse(self, member: int, reason: gateway_exchange.Absence) -> list[int]:
        """Tell the gateway that a number stands for no user; return the one that it stood for."""
        self._reserve(member)
        ordinal = self._ordinals[member]
        self._ordinals[member] = _ABSENT
        self._absences.append((member, reason))
        return [] if self._numbers.pop(ordinal, None) is None else [ordinal]

    def proven(self, member: int, token: bytes) -> int | None:
        """Return the user of a number, if the token is the user's; it may be displaced."""
        if member >= len(self._ordinals):
            raise RemoteProtocolError(
                f"exchange: expected reports of members that joined, got member {member}"
            )
        ordinal = self._ordinals[member]
        digest = self._digests[member * _DIGEST_BYTES : (member + 1) * _DIGEST_BYTES]
        if ordinal == _ABSENT or not hmac.compare_digest(token_digest(token), digest):
            return None
        return ordinal

    def settled(self, responses: int) -> None:
        """Note that the gateway has dealt with so many responses."""
        if responses > self._unsettled:
            raise RemoteProtocolError(
                f"exchange: expected at most {self._unsettled} settled responses, got {responses}"
            )
        self._unsettled -= responses

    def echo(self, sequences: Iterable[tuple[int, int]]) -> None:
        """Queue members' highest acknowledged sequence numbers, to be sent before any request."""
        self._sequences.extend(pair for pair in sequences if pair[1])

    def acknowledge(self, acks: Iterable[Ack]) -> None:
        """Queue acknowledgements."""
        self._acks.extend(acks)

    def ask(self, opened: OpenRound, ordinal: int) -> None:
        """Queue what a member owes to a round that is being asked."""
        # A member that joins again and again is queued again; repetitions are dropped whenever the
        # queue has doubled, so that its length follows from the members and the open rounds.
        if not opened.taking:
            return
        opened.note_asked(ordinal)
        self._asks.append(_Ask(opened, self._numbers[ordinal], 0))
        if len(self._asks) > self._look_at:
            self._asks = deque(dict.fromkeys(self._asks))
            self._look_at = _FEW + 2 * len(self._asks)
        self.flush()

    def withdraw(self, parts: Collection[bytes]) -> None:
        # Of all rounds that have closed: else a slow stream would keep them.
        if self._asks:
            self._asks = deque(ask for ask in self._asks if ask.opened.taking)

    def displaced(self, ordinal: int) -> bool:
        member = self._numbers.pop(ordinal)
        self._absences.append((member, gateway_exchange.Absence.REPLACED))
        self.flush()
        return False

    def barred(self, ordinal: int) -> bool:
        self.refuse(self._numbers[ordinal], gateway_exchange.Absence.UNKNOWN)
        self.flush()
        return False

    def drop(self) -> None:
        for queue in (self._asks, self._acks, self._absences, self._sequences):
            queue.clear()

    def _reserve(self, member: int) -> None:
        known = len(self._ordinals)
        if member > known or member >= self._most:
            raise RemoteProtocolError(
                f"exchange: expected member {known} to join next, of {self._most} at most, got"
                f" {member}"
            )
        if member == known:
            self._ordinals.append(_ABSENT)
            self._digests.extend(bytes(_DIGEST_BYTES))

    def _next(self) -> bytes | None:
        acks = _first(self._acks, gateway_exchange.MAX_ACKS)
        absences = _first(self._absences, gateway_exchange.MAX_JOINS)
        sequences = _first(self._sequences, gateway_exchange.MAX_JOINS)
        studies: dict[bytes, SignedStudy] = {}
        requests: dict[bytes, set[int]] = {}
        if self._unsettled < gateway_exchange.MAX_UNSETTLED and not self._sequences:
            self._compose(studies, requests)
        if not (acks or absences or sequences or requests):
            return None
        self._unsettled += bool(requests)
        gateway_exchange.keep_studies(self._known, dict.fromkeys(studies))
        return encode_gateway_response(
            gateway_exchange.GatewayResponse(
                tuple(studies.values()),
                tuple((payload, tuple(sorted(members))) for payload, members in requests.items()),
                _grouped_acks(acks),
                _grouped_absences(absences),
                tuple(sorted(dict(sequences).items())),
            )
        )

    def _compose(self, studies: dict[bytes, SignedStudy], requests: dict[bytes, set[int]]) -> None:
        """Take from the queue as many members' requests as fit into one response."""
        asked: Counter[int] = Counter()  # requests, by member
        room, later = _Room(), list[_Ask]()
        while self._asks and not room.full:
            ask = self._asks[0]
            if ask.member not in asked and len(asked) >= gateway_exchange.MAX_BATCH_MEMBERS:
                break
            self._asks.popleft()
            if self._numbers.get(self._ordinals[ask.member]) != ask.member:
                continue  # displaced meanwhile
            rest = self._add(ask, studies, requests, asked, room)
            if rest is not None:
                later.append(rest)
        self._asks.extend(later)

    def _add(
        self,
        ask: _Ask,
        studies: dict[bytes, SignedStudy],
        requests: dict[bytes, set[int]],
        asked: Counter[int],
        room: _Room,
    ) -> _Ask | None:
        """Add what a member owes to a response; return what is left for another."""
        study, digest = ask.opened.study, ask.opened.study_digest
        for number, payload in ask.opened.owed_requests(self._ordinals[ask.member], ask.first):
            members = requests.get(payload, set())
            if ask.member in members:
                continue  # queued twice: at its joining, and by the round
            fresh = digest not in self._known and digest not in studies
            if asked[ask.member] >= MAX_REQUESTS or not room.take(
                None if members else payload, study if fresh else None
            ):
                return ask._replace(first=number)
            if fresh:
                studies[digest] = study
            requests.setdefault(payload, members).add(ask.member)
            asked[ask.member] += 1
        return None


class _Room:
    """Space that is left in one response for requests and studies."""

    def __init__(self) -> None:
        self._bytes = (
            MAX_RESPONSE_BYTES
            - _ROOM
            - MAX_REQUESTS * _MEMBER_BYTES * gateway_exchange.MAX_BATCH_MEMBERS
        )
        self._entries = MAX_ENTRIES
        self._requests = MAX_REQUESTS
        self._studies = MAX_STUDIES
        self.full = False

    def take(self, payload: bytes | None, study: SignedStudy | None) -> bool:
        """Take space for a new payload and a new study, if there is enough for both."""
        # A payload and a study of any size fit into an empty response.
        size = len(payload or b"")
        if study is not None:
            size += len(study.study) + len(study.public_key) + len(study.signature)
        self._bytes -= size
        self._entries -= 0 if payload is None else entries_of((payload,))
        self._requests -= payload is not None
        self._studies -= study is not None
        self.full = min(self._bytes, self._entries, self._requests, self._studies) < 0
        return not self.full


def _grouped_acks(acks: Iterable[Ack]) -> tuple[tuple[bytes, AckStatus, tuple[int, ...]], ...]:
    groups: dict[tuple[bytes, AckStatus], set[int]] = {}
    for member, digest, status in acks:
        groups.setdefault((digest, status), set()).add(member)
    return tuple(
        (digest, status, tuple(sorted(members))) for (digest, status), members in groups.items()
    )


def _grouped_absences(
    absences: Iterable[tuple[int, gateway_exchange.Absence]],
) -> tuple[tuple[gateway_exchange.Absence, tuple[int, ...]], ...]:
    groups: dict[gateway_exchange.Absence, set[int]] = {}
    for member, reason in absences:
        groups.setdefault(reason, set()).add(member)
    return tuple((reason, tuple(sorted(members))) for reason, members in groups.items())


def _first(queue: deque[T], most: int) -> list[T]:
    """Take at most so many from a queue."""
    return [queue.popleft() for _ in range(min(most, len(queue)))]


class Relay:
    """Serve gateways' streams for one hub.

    A member is present on the stream that it joined last, whether that is a gateway's or its own.
    What is wrong with one member is answered for that member: the others of its batch go on.
    """

    def __init__(self, hub: Hub, admission: Admission, settings: Settings) -> None:
        self._hub = hub
        self._admission = admission
        self._settings = settings
        self._standings = admission.standings
        self._streams: dict[GatewayConnection, int] = {}  # with the number of the gateway; 0: none

    def end_gateways(self, states: Mapping[int, DeviceState]) -> None:
        """End the streams of revoked gateways; their states are by number."""
        for connection, number in tuple(self._streams.items()):
            state = states.get(number, DeviceState.ACTIVE)
            if state is not DeviceState.ACTIVE:
                details = f"gateway: {LAST_WORDS[state]}"
                self._hub.end(connection, grpc.StatusCode.PERMISSION_DENIED, details)

    def change(self, settings: Settings) -> None:
        """Keep other limits from now on; streams that are open go on."""
        self._settings = settings

    async def serve(self, caller: RelayCaller, context: Context, prove: Proof) -> None:
        """Serve one stream of a proven caller until it ends; each message is proven again."""
        software = read_credentials(context.invocation_metadata()).software
        batch = decode_batch(await read_message(context, self._settings.first_message_s))
        connection = GatewayConnection(
            batch.known_studies, context.write, context.abort, caller.most_members
        )
        self._streams[connection] = caller.gateway
        try:
            while True:
                self._check(caller)
                connection.settled(batch.settled)
                await self._join(caller, connection, batch.joins, software)
                await self._deliver(connection, batch.reports)
                connection.flush()
                await connection.flushed()
                if not isinstance(data := await context.read(), bytes):
                    return
                await prove()
                batch = decode_batch(data)
        finally:
            del self._streams[connection]
            connection.drop()
            self._hub.disconnect(connection, connection.ordinals)
            await connection.last_written()

    def _check(self, caller: RelayCaller) -> None:
        """Refuse a message of a gateway, or of a device for itself, that may not take part."""
        if caller.gateway:
            self._standings.check_gateway(caller.gateway)
        else:
            self._standings.check_device(caller.ordinal)

    async def _join(
        self,
        caller: RelayCaller,
        connection: GatewayConnection,
        joins: Sequence[gateway_exchange.Join],
        software: str,
    ) -> None:
        if not joins:
            return
        devices = await self._admission.members(joins, software)
        admitted: list[tuple[int, int]] = []  # numbers and ordinals
        for join, device in zip(joins, devices, strict=True):
            absence = self._absence(caller, device, len(admitted))
            if absence is not None or device is None:
                reason = absence or gateway_exchange.Absence.UNKNOWN
                self._hub.disconnect(connection, connection.refuse(join.member, reason))
                continue
            connection.join(join.member, device.ordinal, device.token_digest)
            admitted.append((join.member, device.ordinal))
        sequences = await self._hub.acknowledged_sequences([ordinal for _, ordinal in admitted])
        connection.echo(zip((member for member, _ in admitted), sequences, strict=True))
        for _, ordinal in admitted:
            # A later entry of the batch, or a newer stream meanwhile, may have removed it: the hub
            # would ask a member that has no number.
            if connection.holds(ordinal):
                self._hub.connect(connection, ordinal)

    def _absence(
        self, caller: RelayCaller, device: EnrolledDevice | None, joining: int
    ) -> gateway_exchange.Absence | None:
        """Return why a member may not join; None if it may."""
        if device is None:
            return gateway_exchange.Absence.UNKNOWN
        if not caller.has(device):
            return gateway_exchange.Absence.OTHER_GATEWAY
        if self._hub.connected + joining >= self._settings.max_members:
            return gateway_exchange.Absence.OVERLOADED
        return None

    async def _deliver(
        self, connection: GatewayConnection, reports: Sequence[gateway_exchange.MemberReports]
    ) -> None:
        """Make a batch's reports durable together, and acknowledge them."""
        # The report of a round that is not asked now is not acknowledged: its member is asked again
        # when the round is.
        members: list[int] = []
        proven: list[tuple[int, tuple[bytes, ...]]] = []  # ordinals and reports
        for one in reports:
            ordinal = connection.proven(one.member, one.token)
            if ordinal is None or self._standings.bars(ordinal):
                self._hub.disconnect(
                    connection, connection.refuse(one.member, gateway_exchange.Absence.UNKNOWN)
                )
                continue
            members.append(one.member)
            proven.append((ordinal, one.reports))
        if not proven:
            return
        outcomes = await self._hub.deliver_messages(proven)
        connection.acknowledge(
            (member, digest, status)
            for member, found in zip(members, outcomes, strict=True)
            for digest, status in found
            if status is not None
        )
