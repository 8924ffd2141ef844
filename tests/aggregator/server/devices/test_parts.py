"""The small parts of the service and of the device's runtime, one at a time."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.exchange import (
    decode_check_in,
    encode_response,
)
from askance_aggregator.server.devices import (
    Overloaded,
    Settings,
    Unauthenticated,
    UnsupportedProtocol,
    status_of,
)
from askance_aggregator.server.devices.connections import next_message
from askance_client.errors import InvalidParameter, RemoteProtocolError, StoreError
from askance_client.messages import AckStatus, SignedStudy
from askance_client.service import (
    MAX_REQUESTS,
    MAX_RESPONSE_BYTES,
    CheckIn,
    Identity,
    Response,
    channel_options,
    decode_response,
    encode_check_in,
)
from askance_client.service.exchange import MAX_ENTRIES, ExchangeTooLarge
from askance_client.service.observable import Backoff, system_jitter
from askance_client.service.runtime import Outbox
from askance_protos.v1 import exchange_pb2, randomizer_pb2

DIGESTS = st.binary(min_size=32, max_size=32)
PARTS = st.builds(
    Response,
    acks=st.lists(st.tuples(DIGESTS, st.sampled_from(AckStatus)), max_size=3).map(tuple),
    studies=st.lists(st.builds(SignedStudy, st.binary(), st.binary(), st.binary()), max_size=2).map(
        tuple
    ),
    requests=st.lists(st.binary(), max_size=3).map(tuple),
)


class TestExchange:
    @given(
        st.builds(
            CheckIn,
            reports=st.lists(st.binary(), max_size=3).map(tuple),
            known_studies=st.lists(DIGESTS, max_size=3).map(tuple),
        )
    )
    def test_a_check_in_comes_back(self, message: CheckIn) -> None:
        assert decode_check_in(encode_check_in(message)) == message

    @given(PARTS)
    def test_a_response_comes_back(self, message: Response) -> None:
        assert decode_response(encode_response(message)) == message

    @given(st.lists(PARTS, max_size=5))
    def test_serialised_parts_joined_are_the_whole(self, parts: list[Response]) -> None:
        whole = decode_response(b"".join(encode_response(part) for part in parts))
        assert whole.acks == tuple(ack for part in parts for ack in part.acks)
        assert whole.studies == tuple(study for part in parts for study in part.studies)
        assert whole.requests == tuple(item for part in parts for item in part.requests)

    @given(st.binary(max_size=200))
    def test_any_bytes_decode_or_are_refused_in_one_line(self, data: bytes) -> None:
        for decode in (decode_check_in, decode_response):
            try:
                decode(data)
                said = ""
            except RemoteProtocolError as error:
                said = str(error)
            assert "\n" not in said


class TestIdentity:
    def test_a_token_is_never_shown(self) -> None:
        assert "secret" not in repr(Identity(b"me", b"secret secret secret"))

    @pytest.mark.parametrize(
        ("device_id", "token"),
        [(b"", bytes(16)), (bytes(65), bytes(16)), (b"x", bytes(15)), (b"x", bytes(65))],
    )
    def test_lengths_are_checked(self, device_id: bytes, token: bytes) -> None:
        with pytest.raises(InvalidParameter, match=r"^identity: expected"):
            Identity(device_id, token)


class TestBackoff:
    def test_waits_double_up_to_the_cap_and_begin_anew_after_a_success(self) -> None:
        backoff = Backoff(base_ms=100, cap_ms=500, jitter=lambda bound: bound)
        assert [backoff.next_ms() for _ in range(5)] == [100, 200, 400, 500, 500]
        backoff.reset()
        assert backoff.next_ms() == 100

    def test_the_jitter_is_full(self) -> None:
        counts = Counter(system_jitter(3) for _ in range(2_000))
        assert set(counts) == {0, 1, 2, 3}  # each is missed with probability (3/4)^2000

    @pytest.mark.parametrize(("base", "cap"), [(0, 1), (2, 1)])
    def test_it_waits_at_all(self, base: int, cap: int) -> None:
        with pytest.raises(InvalidParameter):
            Backoff(base_ms=base, cap_ms=cap)


class TestOutbox:
    def test_batches_are_in_order_and_bounded(self) -> None:
        outbox = Outbox()
        for number in range(66):
            outbox.put(bytes([number]), b"report %d" % number)
        first, last = outbox.batches()
        assert (first[0], first[1], first[63]) == (b"report 0", b"report 1", b"report 63")
        assert (len(first), last) == (64, (b"report 64", b"report 65"))
        assert len(outbox) == 66

    def test_long_reports_are_cut_to_32_kib(self) -> None:
        """A first message that fills gRPC's window and a handshake are above 64 KiB: a flood."""
        outbox = Outbox()
        for number in range(64):  # the longest set takes 8 kB
            outbox.put(bytes([number]), bytes(8 * 1024))
        assert [sum(map(len, batch)) for batch in outbox.batches()] == [32 * 1024] * 16

    def test_an_acknowledged_report_is_forgotten(self) -> None:
        outbox = Outbox()
        outbox.put(b"a", b"report")
        outbox.acknowledge(b"unknown", AckStatus.ACCEPTED)
        assert len(outbox) == 1
        outbox.acknowledge(b"a", AckStatus.LATE)
        assert outbox.batches() == []

    def test_the_same_request_is_kept_once(self) -> None:
        outbox = Outbox()
        for _ in range(2_000):
            outbox.put(b"a", b"report")
        assert len(outbox) == 1


def asking(payload: bytes) -> bytes:
    return encode_response(Response(requests=(payload,)))


def stating(levels: int, symbols: int) -> bytes:
    """A request that states a table of that size."""
    table = randomizer_pb2.Table(levels=levels, symbols=symbols)
    return exchange_pb2.Request(
        randomizer=randomizer_pb2.Randomizer(table=table)
    ).SerializeToString()


class TestMessagesOfParts:
    @given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=200))
    def test_everything_is_sent_in_order_and_within_the_limits(self, items: list[bytes]) -> None:
        items = [asking(item) for item in items]
        parts = deque(items)
        sent = []
        while parts:
            before = len(parts)
            sent.append(next_message(parts))
            assert 1 <= before - len(parts) <= MAX_REQUESTS
        assert b"".join(sent) == b"".join(items)
        assert len(sent) == -(-len(items) // MAX_REQUESTS)

    def test_a_message_has_a_bounded_number_of_parts(self) -> None:
        part = asking(b"x")
        parts = deque([part] * (2 * MAX_REQUESTS + 1))
        sizes = [len(next_message(parts)) // len(part) for _ in range(3)]
        assert sizes == [MAX_REQUESTS, MAX_REQUESTS, 1]

    def test_requests_that_are_one_part_are_counted_each(self) -> None:
        rounds = [asking(b"%d" % number) * 40 for number in range(3)]
        parts = deque(rounds)
        assert [next_message(parts) for _ in rounds] == rounds
        parts = deque([rounds[0], asking(b"x") * 24, asking(b"y")])
        assert len(decode_response(next_message(parts)).requests) == MAX_REQUESTS

    def test_large_parts_go_one_by_one(self) -> None:
        large, small = asking(bytes(MAX_RESPONSE_BYTES // 2 + 1)), asking(b"small")
        parts = deque([large, large, small])
        assert [next_message(parts) for _ in range(2)] == [large, large + small]

    @pytest.mark.parametrize(("levels", "together"), [(720, 2), (512, 4), (2, 9)])
    def test_a_message_has_a_bounded_number_of_entries_of_tables(
        self, levels: int, together: int
    ) -> None:
        """Examining 720 x 720 entries takes 0.35 s. A part past the bound starts a new message."""
        part = asking(stating(levels, levels))
        assert levels * levels * together <= MAX_ENTRIES
        parts = deque([part] * 9)
        sizes = [len(next_message(parts)) // len(part) for _ in range(-(-9 // together))]
        assert sizes == [together] * (9 // together) + [9 % together] * (9 % together > 0)

    def test_a_response_with_more_entries_of_tables_than_the_bound_is_refused(self) -> None:
        """Without it a device examined 64 tables of 720 x 720 in about 20 s."""
        allowed = (stating(512, 512),) * 4  # MAX_ENTRIES
        assert decode_response(encode_response(Response(requests=allowed))).requests == allowed
        for more in (stating(1, 1), stating((1 << 32) - 1, (1 << 32) - 1)):
            data = encode_response(Response(requests=(*allowed, more)))
            with pytest.raises(ExchangeTooLarge, match="at most 1048576 entries of tables"):
                decode_response(data)
        garbage = Response(requests=(*allowed, b"\xff" * 9, b""))
        assert decode_response(encode_response(garbage)) == garbage

    def test_parts_are_not_copied_for_one_receiver(self) -> None:
        part = b"shared by a cohort"
        assert next_message(deque([part])) is part


Code = grpc.StatusCode


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (Unauthenticated("who"), Code.UNAUTHENTICATED, "who"),
        (UnsupportedProtocol("v9"), Code.FAILED_PRECONDITION, "v9"),
        (Overloaded("full"), Code.RESOURCE_EXHAUSTED, "full"),
        (ExchangeTooLarge("long"), Code.RESOURCE_EXHAUSTED, "long"),
        (RemoteProtocolError("bad"), Code.INVALID_ARGUMENT, "bad"),
        (StoreError("/a/path"), Code.UNAVAILABLE, None),
        (TimeoutError("when"), Code.DEADLINE_EXCEEDED, None),
        (ZeroDivisionError("a bug"), Code.INTERNAL, None),
    ],
)
def test_each_error_has_its_status(error: Exception, code: Code, told: str | None) -> None:
    found, details = status_of(error)
    assert found is code
    assert details == told if told is not None else str(error) not in details


class TestOptions:
    def test_grpcs_silent_limit_on_pending_calls_is_raised(self) -> None:
        options = dict(Settings(max_pending=12_345).server_options())
        assert options["grpc.server.max_pending_requests"] == 12_345
        assert options["grpc.server.max_pending_requests_hard_limit"] == 12_345

    def test_a_device_pings_no_more_often_than_the_aggregator_allows(self) -> None:
        device, server = dict(channel_options()), dict(Settings().server_options())
        assert device["grpc.keepalive_time_ms"] >= 60_000
        assert server["grpc.keepalive_time_ms"] >= 60_000
        assert (
            server["grpc.http2.min_ping_interval_without_data_ms"]
            <= device["grpc.keepalive_time_ms"]
        )

    def test_what_one_side_sends_the_other_takes(self) -> None:
        device, server = dict(channel_options()), dict(Settings().server_options())
        send, receive = "grpc.max_send_message_length", "grpc.max_receive_message_length"
        assert device[send] == server[receive]
        assert server[send] >= device[receive]  # results for analysts are longer

    @pytest.mark.parametrize(
        "bad",
        [
            {"max_streams": 0},
            {"max_check_ins": 0},
            {"max_pending": 0},
            {"check_in_every_ms": 0},
            {"first_message_s": 0.0},
            {"max_connections": 0},
            {"handshake_s": 0.0},
            {"settled_s": 0.0},
            {"idle_s": 0.0},
            {"age_s": 0.0},
            {"retry_ms": 0},
            {"stop_grace_s": -1.0},
        ],
    )
    def test_settings_are_checked(self, bad: dict[str, Any]) -> None:
        with pytest.raises(InvalidParameter):
            Settings(**bad)
