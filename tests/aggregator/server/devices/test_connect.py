"""Devices by Connect before a real aggregator: a whole round, and who is not let in."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.server.devices import Settings
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_aggregator.store import SqliteStore
from askance_aggregator.store.register import DeviceSelection
from askance_client.device import Device
from askance_client.service import (
    SERVICE,
    CheckIn,
    Metadata,
    device_metadata,
    encode_check_in,
    open_channel,
    system_now_s,
    token_digest,
)
from askance_client.service.credentials import enrolment_metadata
from askance_client.service.exchange import Enrol, decode_enrolled, decode_response, encode_enrol
from tests.aggregator.server.certified_service import CertifiedService

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

PAGE = "https://ask.example.org"
EVERY_MS = 60_000
Run = Callable[[Any], Any]


class Site:
    """A service that takes check-ins by Connect."""

    def __init__(self) -> None:
        self.store = SqliteStore.in_memory()
        self.tokens = EnrolmentTokens(bytes(32), system_now_s)
        self.service = CertifiedService(
            self.store,
            self.tokens,
            system_now_s,
            settings=Settings(stop_grace_s=0.1),
            connect_every_ms=EVERY_MS,
            origins=(PAGE,),
        )

    def connection(self) -> http.client.HTTPSConnection:
        """A connection of Python's own client, not made yet."""
        context = ssl.create_default_context(cadata=self.service.ca.certificate.decode())
        host, _, port = self.service.address.rpartition(":")
        return http.client.HTTPSConnection(host, int(port), timeout=30, context=context)

    def call(self, method: str, body: bytes, metadata: Metadata) -> tuple[int, bytes]:
        """Call, and return the status and the body of the answer."""
        connection = self.connection()
        try:
            connection.request("POST", f"/{SERVICE}/{method}", body, headers_of(metadata))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def refusal(self, method: str, body: bytes, metadata: Metadata) -> tuple[int, str]:
        """Return the status and the code of a call that is refused."""
        status, data = self.call(method, body, metadata)
        return status, json.loads(data)["code"]


def headers_of(metadata: Metadata) -> dict[str, str]:
    """The headers of a page's call."""
    given = {"Content-Type": "application/proto", "Connect-Protocol-Version": "1", "Origin": PAGE}
    return given | {
        k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in metadata
    }


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    found = Site()
    with found.service:
        yield found


def enrolled(site: Site, world: World, *numbers: int) -> None:
    """Enrol devices, each by a token of its own."""
    for number in numbers:
        identity = world.identity(number)
        message = encode_enrol(Enrol(((identity.device_id, token_digest(identity.token)),)))
        token = site.tokens.issue(1, 1).text.encode()
        status, data = site.call("Enrol", message, enrolment_metadata(token))
        assert (status, decode_enrolled(data)) == (200, (1, 0))


def checked_in(site: Site, world: World, number: int, *reports: bytes, known: Any = ()) -> Any:
    message = encode_check_in(CheckIn(tuple(reports), tuple(known)))
    status, data = site.call("CheckIn", message, device_metadata(world.identity(number)))
    assert status == 200, data
    return decode_response(data)


def test_pages_enrol_check_in_and_answer_a_round(site: Site, world: World, run: Run) -> None:
    """Reports are acknowledged once they are durable, and once each.

    Device 2 was away while the round was open: it is asked nothing afterwards.
    """
    enrolled(site, world, 0, 1, 2)
    devices: list[Device] = world.devices(3)
    hub, loop = site.service.server.hub, site.service.server.loop
    assert checked_in(site, world, 0).requests == ()
    round_ = world.broadcast(3)
    opened = asyncio.run_coroutine_threadsafe(hub.open(round_, world.accounts(3)), loop)
    waits = []
    for number in (0, 1):
        while not (response := checked_in(site, world, number)).requests:
            pass  # the round is about to be open
        (request,) = response.requests
        assert [study.study for study in response.studies] == [world.study.study]
        devices[number].introduce(response.studies[0])
        report = devices[number].answer(request)
        answered = checked_in(site, world, number, report, known=[round_.study_digest])
        assert [status.name for _, status in answered.acks] == ["ACCEPTED"]
        assert (answered.requests, answered.acknowledged_sequence) == ((), 1)
        again = checked_in(site, world, number, report)
        assert [status.name for _, status in again.acks] == ["DUPLICATE"]
        waits += [response.retry_after_ms, answered.retry_after_ms, again.retry_after_ms]
    loop.call_soon_threadsafe(hub.close_round, round_.study_digest)
    (tally,) = opened.result(30)
    assert tally.answered == 2
    assert all(EVERY_MS <= wait_ms <= 2 * EVERY_MS for wait_ms in waits)
    assert len(set(waits)) > 1
    late = checked_in(site, world, 2)
    assert (late.requests, late.studies) == ((), ())


def test_who_is_not_known_is_not_let_in(site: Site, world: World) -> None:
    enrolled(site, world, 10, 11)
    message = encode_check_in(CheckIn())
    unknown, wrong = world.metadata(99), (*world.metadata(10)[:-1], world.metadata(11)[-1])
    assert site.refusal("CheckIn", message, unknown) == (401, "unauthenticated")
    assert site.refusal("CheckIn", message, wrong) == (401, "unauthenticated")
    assert site.refusal("CheckIn", message, ()) == (400, "failed_precondition")
    assert site.refusal("CheckIn", b"\xff", world.metadata(10)) == (400, "invalid_argument")
    assert site.refusal("Enrol", b"", enrolment_metadata(b"none")) == (403, "permission_denied")
    assert site.refusal("Enrol", b"", enrolment_metadata(bytes(1_025))) == (400, "invalid_argument")
    identity = world.identity(11)
    site.store.register.revoke(DeviceSelection((identity.device_id,)))
    while site.call("CheckIn", message, world.metadata(11))[0] == 200:
        pass  # within a third of a second
    assert site.refusal("CheckIn", message, world.metadata(11)) == (403, "permission_denied")
    site.store.register.forget(DeviceSelection((identity.device_id,)))
    while site.refusal("CheckIn", message, world.metadata(11))[0] != 401:
        pass
    token = enrolment_metadata(site.tokens.issue(1, 1).text.encode())
    one = encode_enrol(Enrol(((b"new 1", bytes(32)),)))
    two = encode_enrol(Enrol(((b"new 2", bytes(32)),)))
    assert site.call("Enrol", one, token)[0] == 200
    assert site.refusal("Enrol", two, token) == (403, "permission_denied")  # one per person
    assert site.call("Enrol", one, token)[0] == 200  # again is no harm


def test_a_certificate_is_needed_by_grpc_all_the_same(site: Site, world: World, run: Run) -> None:
    """`require_certificates` speaks of gRPC: its calls at the open address are refused."""
    enrolled(site, world, 20)

    async def by_grpc() -> aio.AioRpcError:
        ca = site.service.ca.certificate
        async with open_channel(site.service.address, lambda: ca, longest_wait_ms=50) as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            metadata = (*world.metadata(20), ("x-connect", "1"))
            with pytest.raises(aio.AioRpcError) as refused:
                await call(encode_check_in(CheckIn()), metadata=metadata, timeout=20)
            return refused.value

    refused = run(by_grpc())
    assert refused.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "expected a device that shows a certificate" in str(refused.details())
    assert checked_in(site, world, 20).requests == ()


@pytest.mark.slow
def test_a_device_has_four_check_ins_at_one_time(site: Site, world: World) -> None:
    """Those whose bodies do not come end by themselves, and others are served meanwhile."""
    enrolled(site, world, 30, 31)
    slow = [site.connection() for _ in range(4)]
    try:
        for connection in slow:
            connection.putrequest("POST", f"/{SERVICE}/CheckIn")
            for name, value in headers_of(world.metadata(30)).items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", "9")
            connection.endheaders()
        fifth = site.connection()
        while True:
            fifth.request("POST", f"/{SERVICE}/CheckIn", b"", headers_of(world.metadata(30)))
            answer = fifth.getresponse()
            if answer.status != 200:  # the four may not have been read yet
                break
            fifth.close()
        assert json.loads(answer.read())["code"] == "resource_exhausted"
        assert answer.status == 429
        assert 1_000 <= int(answer.headers["trailer-askance-retry-after-ms"]) <= 2_000
        fifth.close()
        assert checked_in(site, world, 31).requests == ()
        for connection in slow:
            late = connection.getresponse()
            assert (late.status, json.loads(late.read())["code"]) == (504, "deadline_exceeded")
    finally:
        for connection in slow:
            connection.close()
    assert checked_in(site, world, 30).requests == ()
