"""Software that a device states: in its call's metadata, bounded, and noted when it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any, cast

import pytest
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer, standings
from askance_aggregator.server.devices.credentials import (
    read_credentials,
)
from askance_aggregator.server.devices.standings import Standings
from askance_aggregator.store import SqliteStore
from askance_client.service import (
    SERVICE,
    CheckIn,
    Identity,
    Metadata,
    channel_options,
    device_metadata,
    encode_check_in,
    gateway_metadata,
    token_digest,
)
from askance_client.service.credentials import SOFTWARE, SOFTWARE_KEY
from askance_client.service.gateway_exchange import GatewayBatch, Join, encode_batch
from askance_client.version import __version__

DEVICES = tuple(Identity(b"device %d" % n, bytes([n]) * 32) for n in range(4))
GATEWAY = Identity(b"gateway", bytes(range(32)))
DAY_S = 86_400


def stating(identity: Identity, software: str | None) -> Metadata:
    """Return a device's metadata with another software; None: with none, as of an older device."""
    sent = tuple(pair for pair in device_metadata(identity) if pair[0] != SOFTWARE_KEY)
    return sent if software is None else (*sent, (SOFTWARE_KEY, software))


def test_this_client_states_its_package_and_version_and_nothing_else() -> None:
    assert f"askance-client/{__version__}" == SOFTWARE
    for identity in DEVICES:
        assert read_credentials(device_metadata(identity)).software == SOFTWARE
        assert read_credentials(gateway_metadata(identity)).software == SOFTWARE


@pytest.mark.parametrize(
    ("stated", "read"),
    [
        (None, ""),
        ("phone-app/7.2+b3", "phone-app/7.2+b3"),
        ("x" * 48, "x" * 48),
        ("x" * 49, ""),
        ("", ""),
        ("/1", ""),
        ("two words", ""),
        ("<script>", ""),
        ("name/1\n", ""),
        ("\u0661", ""),
        ("caf\u00e9", ""),
        (b"bytes", ""),
    ],
)
def test_other_text_reads_as_none(stated: str | bytes | None, read: str) -> None:
    found = read_credentials((*stating(DEVICES[0], None), (SOFTWARE_KEY, stated or "")))
    assert found.software == read
    assert found.device_id == DEVICES[0].device_id  # the call is not refused


class NotedCalls:
    """Register that remembers what is noted."""

    def __init__(self) -> None:
        self.noted: list[tuple[list[int], int, str | None]] = []

    def standing(self) -> int:
        return 0

    def note_seen(self, ordinals: Sequence[int], day: int, software: str | None = "") -> None:
        self.noted.append((list(ordinals), day, software))


class InPlace(Executor):
    """Runs work where it is submitted."""

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        done: Future[Any] = Future()
        done.set_result(work(*args, **kwargs))
        return done


def noted_after(register: NotedCalls, known: Standings) -> list[tuple[list[int], int, str | None]]:
    """Return what a look writes."""

    async def look() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(known.watch(lambda _: None), 0.05)

    register.noted.clear()
    asyncio.run(look())
    return register.noted


def test_a_call_is_noted_once_a_day_and_when_its_software_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standings, "_LOOK_S", 0.001)
    monkeypatch.setattr(standings, "_SEEN_LOOKS", 1)
    register, now_s = NotedCalls(), [DAY_S * 7]
    store = SqliteStore.in_memory()
    store.register = cast("Any", register)
    known = Standings(store, InPlace(), lambda: now_s[0])
    for ordinal in (5, 9, 5):
        known.saw(ordinal, "a/1")
    known.saw(1_000, "")
    assert noted_after(register, known) == [([5, 9], 7, "a/1"), ([1_000], 7, "")]
    for ordinal in (5, 9):
        known.saw(ordinal, "a/1")
    assert noted_after(register, known) == []
    known.saw(9, "a/2")
    known.saw(1_000, "")
    assert noted_after(register, known) == [([9], 7, "a/2")]
    now_s[0] += DAY_S
    known.saw(9, "a/2")
    assert noted_after(register, known) == [([9], 8, "a/2")]


def test_a_device_that_stays_connected_is_noted_each_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device calls once, when it connects: after a week it was shown as not seen for a week."""
    monkeypatch.setattr(standings, "_LOOK_S", 0.001)
    monkeypatch.setattr(standings, "_SEEN_LOOKS", 1)
    monkeypatch.setattr(standings, "_NOTED_AT_ONCE", 2)
    register, now_s = NotedCalls(), [DAY_S * 7]
    store = SqliteStore.in_memory()
    store.register = cast("Any", register)
    connected = [5, 9, 12]
    known = Standings(store, InPlace(), lambda: now_s[0], lambda: connected)
    known.saw(5, "a/1")
    assert noted_after(register, known) == [([5], 7, "a/1")]
    assert noted_after(register, known) == []
    now_s[0] += DAY_S
    assert noted_after(register, known) == [([5, 9], 8, None), ([12], 8, None)]
    assert noted_after(register, known) == []


def test_a_device_that_invents_names_is_noted_a_few_hundred_times_a_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standings, "_LOOK_S", 0.0)
    monkeypatch.setattr(standings, "_SEEN_LOOKS", 1)
    register, store = NotedCalls(), SqliteStore.in_memory()
    store.register = cast("Any", register)
    known = Standings(store, InPlace(), lambda: DAY_S)
    written = 0
    for name in range(400):
        known.saw(3, f"name/{name}")
        written += len(known._calling)
        known._calling.clear()
    assert written == 255
    known.saw(4, "name/399")  # one beyond the first 254 is noted, once
    assert known._calling == {4: "name/399"}


def test_devices_and_members_of_a_gateway_are_shown_with_their_software(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standings, "_LOOK_S", 0.01)
    monkeypatch.setattr(standings, "_SEEN_LOOKS", 1)
    store = SqliteStore.in_memory()
    store.enrol([(one.device_id, token_digest(one.token)) for one in DEVICES[:2]])
    store.enrol_with(
        [(one.device_id, token_digest(one.token)) for one in DEVICES[2:]],
        bytes(16),
        2,
        (GATEWAY.device_id, token_digest(GATEWAY.token)),
    )

    async def call(address: str) -> None:
        async with aio.insecure_channel(address, options=channel_options()) as channel:
            check_in: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                f"/{SERVICE}/CheckIn"
            )
            for identity, software in zip(DEVICES[:2], ("app/3", None), strict=True):
                await check_in(encode_check_in(CheckIn()), metadata=stating(identity, software))
            relay: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/Relay")(
                metadata=gateway_metadata(GATEWAY)
            )
            joins = tuple(
                Join(number, one.device_id, one.token) for number, one in enumerate(DEVICES[2:])
            )
            await relay.write(encode_batch(GatewayBatch(joins=joins)))
            async with asyncio.timeout(20):
                while [one.software for one in store.register.devices()] != shown:
                    await asyncio.sleep(0.01)
            relay.cancel()

    shown = ["app/3", "", SOFTWARE, SOFTWARE]
    with AggregatorServer.start(store) as server:
        asyncio.run(call(server.address))
