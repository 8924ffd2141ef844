"""Certificates of devices: issued to a proven caller, checked per message, all else refused."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from grpc import aio

from askance_aggregator.server.devices import BadSigningRequest, Settings
from askance_aggregator.server.process.certificates import devices_authority
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_aggregator.store import CertificateHolder, SqliteStore
from askance_aggregator.store.register import DeviceSelection
from askance_client.addresses import Address
from askance_client.service import (
    SERVICE,
    CallFailed,
    CertificateFile,
    CheckIn,
    Enrolment,
    Identity,
    OpenSide,
    device_metadata,
    encode_check_in,
    gateway_metadata,
    open_channel,
    system_now_s,
)
from askance_client.service.authority import DeviceCertificate
from askance_protos.v1 import exchange_pb2 as pb
from tests.aggregator.server.certified_service import LIFE_S, CertifiedService, authority_of
from tests.ports import free_address

OVERLAP_S = 100
FIRST, SECOND, THIRD, GATEWAY = (Identity(b"device %d" % n, bytes([n]) * 32) for n in range(4))


class World:
    """A service whose devices show certificates, on a clock that a test moves."""

    def __init__(
        self, folder: Path, *, needed: bool = True, advertised: Address | None = None
    ) -> None:
        self.folder = folder
        self.now_s = system_now_s()
        self.store = SqliteStore.in_memory()
        self.tokens = EnrolmentTokens(bytes(32), system_now_s)
        self.service = CertifiedService(
            self.store,
            self.tokens,
            lambda: self.now_s,
            settings=Settings(stop_grace_s=0.1),
            needed=needed,
            advertised=advertised,
        )
        self.issuer = self.service.issuer

    @property
    def open_side(self) -> OpenSide:
        """The side of the aggregator where devices get their certificates."""
        return OpenSide(self.service.address, lambda: self.service.ca.certificate)

    def channel(self, own: DeviceCertificate | None = None) -> aio.Channel:
        """A channel that shows a certificate, or none."""
        ca = self.service.ca.certificate
        return open_channel(self.service.address, lambda: ca, longest_wait_ms=50, own=lambda: own)

    def file(self, name: str) -> CertificateFile:
        """A device's file of its certificate."""
        return CertificateFile(self.folder / f"{name}.json", lambda: self.now_s, self.open_side)

    async def enrol(
        self, name: str, *identities: Identity, gateway: Identity | None = None
    ) -> DeviceCertificate:
        """Enrol devices and return the certificate of the first, or of their gateway."""
        token = self.tokens.issue(9, 1).text.encode()
        path, file = self.folder / f"{name}-enrolled", self.file(name)
        await Enrolment(path, self.open_side, identities, gateway, file).enrol(token)
        return held(self.file(name))

    async def check_in(self, own: DeviceCertificate | None, identity: Identity) -> str:
        """Check in and return the status, with its details."""
        async with self.channel(own) as channel:
            call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                f"/{SERVICE}/CheckIn"
            )
            try:
                await call(
                    encode_check_in(CheckIn()), metadata=device_metadata(identity), timeout=20
                )
            except aio.AioRpcError as error:
                return f"{error.code().name}: {error.details()}"
        return "OK"

    async def obtain(self, name: str, identity: Identity) -> str:
        """Ask for a certificate in a file of this name and return the status."""
        try:
            await self.file(name).obtain(device_metadata(identity))
        except CallFailed as error:
            return str(error.status)
        return "OK"


async def until_told(words: str, call: Callable[[], Awaitable[str]]) -> None:
    """Call until these words are told: the aggregator looks at its store now and then."""
    while words not in (told := await call()):
        assert told == "OK"
        await asyncio.sleep(0.05)


def held(file: CertificateFile) -> DeviceCertificate:
    """The certificate in a file, which has one."""
    found = file.read()
    assert found is not None
    return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path)
    yield one
    one.service.stop()


def test_a_certificate_names_a_number_only_and_its_fingerprint_is_stored(world: World) -> None:
    asyncio.run(world.enrol("first", FIRST))
    mine = asyncio.run(world.enrol("second", SECOND))
    certificate = x509.load_pem_x509_certificate(mine.chain.encode())
    assert certificate.subject.rfc4514_string() == "CN=device 1"
    with pytest.raises(x509.ExtensionNotFound):
        certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    digest = hashlib.sha256(certificate.public_bytes(Encoding.DER)).digest()
    stored = world.store.certificates.find(digest)
    assert stored is not None
    assert stored.holder == CertificateHolder(0, 1)
    assert stored.ends_unix_s == mine.ends_s == world.now_s + LIFE_S
    assert mine.address == f"127.0.0.1:{world.service.server.port}"
    assert (world.folder / "second.json").stat().st_mode & 0o777 == 0o600
    assert asyncio.run(world.check_in(mine, SECOND)) == "OK"
    without = asyncio.run(world.check_in(None, SECOND))
    assert without.startswith("UNAUTHENTICATED: expected a device that shows a certificate")


def test_a_device_is_served_by_its_own_certificate_and_by_no_other(world: World) -> None:
    """Another device's is refused, one of another authority, and one that is not stored."""

    async def scenario() -> None:
        mine, others = await world.enrol("first", FIRST), await world.enrol("second", SECOND)
        assert await world.check_in(mine, FIRST) == "OK"
        refused = await world.check_in(others, FIRST)
        assert (
            refused
            == "UNAUTHENTICATED: expected the caller's own certificate, got one of another holder"
        )
        stolen = replace(mine, key=others.key, chain=others.chain)
        assert (await world.check_in(stolen, FIRST)).startswith("UNAUTHENTICATED")
        foreign = authority_of(devices_authority(world.now_s), lambda: world.now_s)
        key = load_pem_private_key(mine.key.encode(), None)
        for issuer, status in ((foreign, "UNAVAILABLE"), (world.issuer, "UNAUTHENTICATED")):
            issued = issuer.issue(request_of(key), CertificateHolder(0, 0))
            unknown = replace(mine, chain=issued.chain.decode())
            assert (await world.check_in(unknown, FIRST)).startswith(status)

    asyncio.run(scenario())


def test_a_gateways_certificate_covers_its_members_only(world: World) -> None:
    async def scenario() -> None:
        gateways = await world.enrol("gateway", FIRST, SECOND, gateway=GATEWAY)
        await world.enrol("third", THIRD)
        subject = x509.load_pem_x509_certificate(gateways.chain.encode()).subject
        assert subject.rfc4514_string() == "CN=gateway 1"
        assert await world.check_in(gateways, FIRST) == "OK"
        assert await world.check_in(gateways, SECOND) == "OK"
        assert (await world.check_in(gateways, THIRD)).startswith("UNAUTHENTICATED")
        async with world.channel(gateways) as channel:
            call: Any = channel.stream_stream(f"/{SERVICE}/Relay")(
                metadata=gateway_metadata(GATEWAY)
            )
            assert dict(await call.initial_metadata())["askance-protocol"]
            call.cancel()

    asyncio.run(scenario())


def test_a_revoked_gateways_certificate_proves_no_member(world: World) -> None:
    """The tokens of its members are in its folder, so that it could go on as each of them."""

    async def scenario() -> None:
        gateways = await world.enrol("gateway", FIRST, SECOND, gateway=GATEWAY)
        assert await world.check_in(gateways, FIRST) == "OK"
        world.store.register.revoke(DeviceSelection((GATEWAY.device_id,)))
        await until_told("PERMISSION_DENIED: gateway:", lambda: world.check_in(gateways, FIRST))
        await world.file("first").obtain(device_metadata(FIRST))  # its own: it was not revoked
        assert await world.check_in(held(world.file("first")), FIRST) == "OK"
        with pytest.raises(CallFailed, match="PERMISSION_DENIED: gateway:"):
            await world.file("again").obtain(gateway_metadata(GATEWAY))

    asyncio.run(scenario())


def test_a_devices_token_is_enough_for_a_certificate_and_no_other_is(world: World) -> None:
    """An enrolled device needs no operator; one that is unknown, or revoked, gets none."""

    async def scenario() -> None:
        token = world.tokens.issue(9, 1).text.encode()
        await Enrolment(world.folder / "enrolled", world.open_side, (FIRST,)).enrol(token)
        await world.file("first").obtain(device_metadata(FIRST))
        assert await world.check_in(held(world.file("first")), FIRST) == "OK"
        thief = Identity(FIRST.device_id, bytes([9]) * 32)
        for unknown in (SECOND, thief):
            with pytest.raises(CallFailed) as refused:
                await world.file("no").obtain(device_metadata(unknown))
            assert refused.value.status == "UNAUTHENTICATED"
        world.store.register.revoke(DeviceSelection((FIRST.device_id,)))
        await until_told("PERMISSION_DENIED", lambda: world.obtain("late", FIRST))
        assert (await world.obtain("no", FIRST)).startswith("PERMISSION_DENIED")
        assert world.file("no").read() is None

    asyncio.run(scenario())


def test_a_renewed_certificate_has_an_overlap_with_the_old_one(world: World) -> None:
    async def scenario() -> None:
        old, file, mine = (
            await world.enrol("first", FIRST),
            world.file("first"),
            device_metadata(FIRST),
        )
        failures: list[str] = []
        assert not await file.renew(mine, failures.append)
        world.now_s += 2 * LIFE_S // 3 + 1
        assert await file.renew(mine, failures.append)
        new = held(file)
        assert (new.key != old.key, new.ends_s) == (True, world.now_s + LIFE_S)
        assert await world.check_in(new, FIRST) == "OK"
        assert await world.check_in(old, FIRST) == "OK"
        world.now_s += OVERLAP_S
        await until_told("one that has ended", lambda: world.check_in(old, FIRST))
        assert await world.check_in(new, FIRST) == "OK"
        assert not failures

    asyncio.run(scenario())


def test_a_device_is_told_the_address_of_a_proxy(tmp_path: Path) -> None:
    """A device of an earlier version does not know that field, and is told the port."""
    world = World(tmp_path, advertised=Address("devices.example.org", 443))
    try:
        held = asyncio.run(world.enrol("first", FIRST))
        assert held.address == "devices.example.org:443"
        key = ec.generate_private_key(ec.SECP256R1())
        asked = pb.CertifyRequest(signing_request=request_of(key)).SerializeToString()
        call = world.open_side.call("Certify", asked, device_metadata(FIRST))
        answer = pb.CertifyResponse.FromString(asyncio.run(call))
        assert (answer.port, answer.address) == (443, "")
    finally:
        world.service.stop()


def test_a_device_that_was_away_past_the_end_gets_another_certificate(world: World) -> None:
    """By its token alone, at the open side."""

    async def scenario() -> None:
        await world.enrol("first", FIRST)
        file, failures = world.file("first"), list[str]()
        world.now_s += 2 * LIFE_S
        assert held(file).address == ""  # it has ended
        assert await file.renew(device_metadata(FIRST), failures.append)
        assert await world.check_in(held(file), FIRST) == "OK"
        assert not failures

    asyncio.run(scenario())


def test_a_certificate_that_the_listener_refuses_is_found_out_and_replaced(world: World) -> None:
    """A refusal looks like an aggregator that is away, which is not taken for one."""

    async def scenario() -> None:
        mine, file, said = await world.enrol("first", FIRST), world.file("first"), list[str]()
        assert not await file.replace_refused(device_metadata(FIRST), said.append)
        foreign = authority_of(devices_authority(world.now_s), lambda: world.now_s)
        key = load_pem_private_key(mine.key.encode(), None)
        issued = foreign.issue(request_of(key), CertificateHolder(0, 0))
        refused = replace(mine, chain=issued.chain.decode())
        (world.folder / "first.json").write_text(json.dumps(asdict(refused)))
        assert (await world.check_in(refused, FIRST)).startswith("UNAVAILABLE")
        assert await file.replace_refused(device_metadata(FIRST), said.append)
        assert said == [
            "certificate: expected one that the aggregator's port for devices accepts, got one that"
            " it refuses; another one is asked for"
        ]
        assert await world.check_in(held(file), FIRST) == "OK"
        world.service.server.stop()
        assert not await world.open_side.refuses(held(file))

    asyncio.run(scenario())


def test_a_caller_without_a_certificate_is_cut_off_in_the_handshake(world: World) -> None:
    """No byte of HTTP/2 comes back from the devices' port, whatever the caller sends."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cadata=world.service.ca.certificate.decode())
        context.set_alpn_protocols(["h2"])
        context.minimum_version = context.maximum_version = version
        found = b""
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", world.service.server.port), 20) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
            found = secure.recv(1)
        assert found == b""


def test_the_devices_port_in_place_of_the_open_address_is_suspected(world: World) -> None:
    """A caller without a certificate is hung up on there; elsewhere nothing is suspected."""

    async def failure(address: str) -> str:
        side = replace(world.open_side, address=address)
        token = world.tokens.issue(9, 1).text.encode()
        with pytest.raises(CallFailed) as failed:
            await Enrolment(world.folder / "enrolled", side, (FIRST,)).enrol(token)
        assert failed.value.status == "UNAVAILABLE"
        return str(failed.value)

    hint = " (is that the devices' port? the open address usually has port 7443)"
    there = asyncio.run(failure(f"127.0.0.1:{world.service.server.port}"))
    assert there.endswith(hint)
    assert "devices' port" not in asyncio.run(failure(free_address()))


PRINTED = "as `aggregator token` prints it"


def test_a_certificate_that_has_ended_by_the_devices_clock_is_no_certificate(world: World) -> None:
    """With a clock that is far ahead, a device waits; it neither calls nor fails."""
    said = list[str]()

    async def scenario() -> tuple[bool, bool]:
        await world.enrol("first", FIRST)
        path, side = world.folder / "first.json", world.open_side
        ahead = CertificateFile(path, lambda: world.now_s + 2 * LIFE_S, side)
        there = await ahead.is_there(device_metadata(FIRST), said.append)
        return there, await world.file("first").is_there(device_metadata(FIRST), said.append)

    assert asyncio.run(scenario()) == (False, True)
    assert said == [
        "certificate: expected a valid one, got one that has ended by this clock",
    ]


def test_other_members_are_not_remembered_as_enrolled(world: World) -> None:
    def of(*members: Identity) -> Enrolment:
        return Enrolment(world.folder / "enrolled", world.open_side, members)

    asyncio.run(of(FIRST).enrol(world.tokens.issue(1, 1).text.encode()))
    assert of(FIRST).remembered
    assert not of(SECOND).remembered
    assert not of(FIRST, SECOND).remembered


def test_a_token_that_is_used_up_is_told_from_a_wrong_one(world: World) -> None:
    async def failure(token: str) -> str:
        enrolment = Enrolment(world.folder / "enrolled", world.open_side, (SECOND,))
        with pytest.raises(CallFailed) as failed:
            await enrolment.enrol(token.encode())
        assert failed.value.status == "PERMISSION_DENIED"
        return str(failed.value)

    token = world.tokens.issue(1, 1).text
    enrolment = Enrolment(world.folder / "enrolled", world.open_side, (FIRST,))
    asyncio.run(enrolment.enrol(token.encode()))
    assert asyncio.run(failure(token)) == (
        "PERMISSION_DENIED: enrolment: expected at most 1 devices by this enrolment token, got 2"
        " (a token is used up by its last device; the operator makes another)"
    )
    wrong = EnrolmentTokens(bytes([1]) * 32, system_now_s).issue(1, 1).text
    for sent, expected in (
        (wrong, "an enrolment token of this aggregator, got another"),
        (wrong[1:], f"an enrolment token {PRINTED}, got other text"),
        ("!" * len(wrong), f"an enrolment token {PRINTED}, got other text"),
        ("x" * 1025, "an enrolment token of at most 1024 bytes, got 1025 bytes"),
        ("", "an enrolment token, got none"),
    ):
        assert asyncio.run(failure(sent)) == f"PERMISSION_DENIED: expected {expected}"


def test_an_open_stream_is_checked_per_message(world: World) -> None:
    """A certificate ends while its stream is open: the next message is refused."""

    async def scenario() -> None:
        mine = await world.enrol("first", FIRST)
        async with world.channel(mine) as channel:
            call: Any = channel.stream_stream(f"/{SERVICE}/Participate")(
                metadata=device_metadata(FIRST)
            )
            await call.initial_metadata()
            await call.write(encode_check_in(CheckIn()))
            await call.write(encode_check_in(CheckIn()))
            await asyncio.sleep(0.2)
            assert not call.done()
            world.now_s += LIFE_S
            await call.write(encode_check_in(CheckIn()))
            with pytest.raises(aio.AioRpcError) as refused:
                await call.read()
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED

    asyncio.run(scenario())


def test_devices_of_earlier_versions_may_be_let_in_without_a_certificate(tmp_path: Path) -> None:
    world = World(tmp_path, needed=False)

    async def scenario() -> None:
        mine = await world.enrol("first", FIRST)
        assert await world.check_in(None, FIRST) == "OK"
        assert await world.check_in(mine, FIRST) == "OK"
        assert (await world.check_in(None, SECOND)).startswith("UNAUTHENTICATED: expected an enr")

    try:
        asyncio.run(scenario())
    finally:
        world.service.stop()


def request_of(key: Any) -> bytes:
    """A signing request of a key."""
    builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (b"", "a signing request"),
        (request_of(ec.generate_private_key(ec.SECP256R1()))[:-1] + b"\0", "signed by its key"),
        (request_of(ec.generate_private_key(ec.SECP384R1())), "a key on P-256"),
        (request_of(ed25519.Ed25519PrivateKey.generate()), "a key on P-256"),
    ],
)
def test_a_request_that_is_none_is_refused(request_: bytes, why: str) -> None:
    issuer = authority_of(devices_authority(0), lambda: 1)
    with pytest.raises(BadSigningRequest, match=why):
        issuer.issue(request_, CertificateHolder(0, 0))
