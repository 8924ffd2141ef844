"""A serving process under peers without an identity: its memory and its descriptors."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.analyst.calls import METHODS, Call, call_metadata, sign_call
from askance_aggregator.analyst.keys import load_key
from askance_aggregator.analyst.messages import PACKAGE
from askance_aggregator.analyst.messages import SERVICE as ANALYSTS
from askance_aggregator.clock import system_now_s
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import SqliteStore
from askance_client.service import SERVICE as DEVICES
from askance_client.service import Identity, Metadata, device_metadata, token_digest
from tests.aggregator.server.process.conftest import PATIENCE_S, Served, serving
from tests.aggregator.server.process.people import certificate_of

HEALTH = "grpc.health.v1.Health"
INSIDER = Identity(b"an insider", bytes(32))
MESSAGE = b"\x7f" * (1 << 20)  # no message of any call; 1 MiB is the most that is read
AT_ONCE = 8
CALLS = 50  # of 1 MiB each
KEPT_MB = 30

RPCS = [
    *(f"{DEVICES}/{name}" for name in ("Enrol", "Certify", "CheckIn", "Participate")),
    *(f"{PACKAGE}.{name}" for name in METHODS if name.startswith("Analysts/")),
    *(f"{HEALTH}/{name}" for name in ("Check", "Watch")),
]


def resident_mb(process: int) -> float:
    """Return the resident memory of a process, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (kilobytes,) = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(kilobytes) * 1024 / 1e6


async def refused(served: Served, rpc: str, metadata: Metadata, calls: int) -> None:
    """Make this many calls of 1 MB, each of which must be refused.

    Those with a device's credentials are made with its certificate, at the port for devices.
    """
    authority = served.home.authority.read_bytes()
    address, pair, message = served.address, list[bytes](), MESSAGE
    if metadata == device_metadata(INSIDER):
        held = await certificate_of(INSIDER, served.address, authority)
        address = held.address
        calls, message = 8 * calls, MESSAGE[: len(MESSAGE) // 8]  # the most that is read there
        pair = [held.key.encode(), held.chain.encode()]
    credentials = grpc.ssl_channel_credentials(authority, *pair)
    async with aio.secure_channel(address, credentials) as channel:
        method: Any = channel.unary_unary(f"/{rpc}")
        turns = iter(range(calls))

        async def work() -> None:
            for _ in turns:
                with pytest.raises(aio.AioRpcError) as caught:
                    await method(message, metadata=metadata, timeout=60)
                if pair and caught.value.code() is grpc.StatusCode.UNAVAILABLE:
                    return  # the guard ends connections of who owes so many bytes
                assert caught.value.code() is not grpc.StatusCode.DEADLINE_EXCEEDED

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def proven(home: AggregatorHome) -> Iterator[tuple[str, Metadata]]:
    """Calls whose caller is known, so that the message is read before it is refused."""
    for name in ("CheckIn", "Participate"):
        yield f"{DEVICES}/{name}", device_metadata(INSIDER)
    key = home_key(home)
    yield (
        f"{ANALYSTS}/Submit",
        call_metadata(sign_call(Call("Analysts/Submit"), bytes(32), key, system_now_s())),
    )


def home_key(home: AggregatorHome) -> Any:
    """Load the key of the analyst that the aggregator was made with."""
    return load_key(home.folder / "analyst.pem")


@pytest.fixture
def patient(fresh: AggregatorHome) -> Iterator[Served]:
    """A process that serves, whose guard bans no address, and that knows the insider."""
    store = SqliteStore.open(fresh.folder / "store.sqlite")
    store.enrol([(INSIDER.device_id, token_digest(INSIDER.token))])
    store.close()
    text = fresh.configuration.read_text()  # the guard would ban the insider, and with it the test
    proxies = 'trusted_proxies = ["127.0.0.0/8"]'
    fresh.configuration.write_text(text.replace("trusted_proxies = []", proxies))
    with serving(fresh) as served:
        for rpc in RPCS:
            asyncio.run(refused(served, rpc, (), 2))
        yield served


def test_refused_calls_of_strangers_keep_no_message(patient: Served) -> None:
    """Once, each call kept an exception whose frames kept the message: 600 MB after 300 calls."""
    before = resident_mb(patient.process.pid)
    for rpc in RPCS:
        asyncio.run(refused(patient, rpc, (), CALLS))
        assert resident_mb(patient.process.pid) - before < KEPT_MB, rpc
    _answers(patient)


def test_refused_calls_of_known_callers_keep_no_message(patient: Served) -> None:
    before = resident_mb(patient.process.pid)
    for rpc, metadata in proven(patient.home):
        asyncio.run(refused(patient, rpc, metadata, CALLS))
        assert resident_mb(patient.process.pid) - before < KEPT_MB, rpc
    _answers(patient)


def _answers(served: Served) -> None:
    """A device that is known is answered still, on a new connection where one is cut off."""

    def answered() -> bool:
        with insiders(served) as channel:
            call: Any = channel.unary_unary(f"/{DEVICES}/CheckIn")
            try:
                return bool(call(b"", metadata=device_metadata(INSIDER), timeout=60))
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                return False

    _until(answered)


def test_exhausted_descriptors_are_logged_and_counted_and_connected_devices_go_on(
    fresh: AggregatorHome,
) -> None:
    """Nothing was logged. Connections beyond the limit are closed; here it is set out of reach."""
    store = SqliteStore.open(fresh.folder / "store.sqlite")
    store.enrol([(INSIDER.device_id, token_digest(INSIDER.token))])
    store.close()
    with serving(fresh) as served, insiders(served) as channel, ExitStack() as held:
        call: Any = channel.unary_unary(f"/{DEVICES}/CheckIn")
        call(b"", metadata=device_metadata(INSIDER), timeout=60)
        page = served.ready["metrics"]
        assert _counted(page, "askance_descriptors_exhausted_total") == 0
        open_now = len(os.listdir(f"/proc/{served.process.pid}/fd"))
        limit = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (open_now, limit[1]))
        there = ("127.0.0.1", served.ready["certificates_port"])
        for _ in range(64):
            held.enter_context(socket.create_connection(there)).sendall(b"\x16")
        _until(lambda: "descriptors: failing" in served.log.read_text())
        call(b"", metadata=device_metadata(INSIDER), timeout=60)
        held.close()
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, limit)
        _until(lambda: _counted(page, "askance_descriptors_exhausted_total") > 0)


@contextmanager
def insiders(served: Served) -> Iterator[grpc.Channel]:
    """A channel that shows the certificate of the device that is known."""
    authority = served.home.authority.read_bytes()
    own = asyncio.run(certificate_of(INSIDER, served.address, authority))
    credentials = grpc.ssl_channel_credentials(authority, own.key.encode(), own.chain.encode())
    with grpc.secure_channel(own.address, credentials) as channel:
        yield channel


def _until(reached: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.05)


def _counted(page: str, name: str) -> float:
    """Return a counter from a page of metrics."""
    with urllib.request.urlopen(f"http://{page}/metrics", timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith(f"{name} ")]
    return float(value)
