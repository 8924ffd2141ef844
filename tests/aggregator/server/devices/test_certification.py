"""Certificates of devices: issued to a proven caller, checked per message, all else refused."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from grpc import aio

from askance_aggregator.server.devices import (
    AggregatorServer,
    BadSigningRequest,
    CertifiedListener,
    ServerParts,
    Settings,
)
from askance_aggregator.server.process.certificates import devices_authority, self_made
from askance_aggregator.server.process.device_authority import DeviceAuthority
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_aggregator.store import CertificateHolder, MemoryStore
from askance_aggregator.store.register import DeviceSelection
from askance_client.service import (
    SERVICE,
    CertificateFile,
    CheckIn,
    DeviceCertificate,
    Identity,
    device_metadata,
    encode_check_in,
    enrol,
    gateway_metadata,
    open_channel,
    system_now_s,
)
from askance_client.service.credentials import ENROLMENT_KEY

LIFE_S = 1_000
OVERLAP_S = 100
FIRST, SECOND, THIRD, GATEWAY = (Identity(b"device %d" % n, bytes([n]) * 32) for n in range(4))


class World:
    """A service with a listener for certificates, on a clock that a test moves."""

    def __init__(self, folder: Path, *, needed: bool = False) -> None:
        self.folder = folder
        self.now_s = system_now_s()
        self.ca, server = self_made([], self.now_s)
        self.of_devices = devices_authority(self.now_s)
        self.issuer = authority_of(self.of_devices, lambda: self.now_s)
        self.store = MemoryStore()
        self.tokens = EnrolmentTokens(bytes(32), system_now_s)
        configuration = grpc.ssl_server_credentials(
            [(server.key, server.certificate)], self.of_devices.certificate, True
        )
        listener = CertifiedListener(
            "127.0.0.1", 0, configuration, self.issuer, lambda: self.now_s, needed
        )
        parts = ServerParts(
            credentials=grpc.ssl_server_credentials([(server.key, server.certificate)]),
            certified=listener,
            enrolment=self.tokens,
        )
        self.server = AggregatorServer.start(
            self.store, settings=Settings(stop_grace_s=0.1), parts=parts
        )

    def channel(self, own: DeviceCertificate | None = None) -> aio.Channel:
        """A channel that shows a certificate, or none."""
        return open_channel(
            self.server.address, lambda: self.ca.certificate, longest_wait_ms=50, own=lambda: own
        )

    def file(self, name: str) -> CertificateFile:
        """A device's file of its certificate."""
        return CertificateFile(self.folder / f"{name}.json", lambda: self.now_s)

    async def enrol(
        self, name: str, *identities: Identity, gateway: Identity | None = None
    ) -> DeviceCertificate:
        """Enrol devices and return the certificate of the first, or of their gateway."""
        token = self.tokens.issue(9, 1).text.encode()
        async with self.channel() as channel:
            await enrol(channel, token, identities, gateway, self.file(name))
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


def authority_of(made: Any, now_s: Any) -> DeviceAuthority:
    """An issuer with a key that was just made."""
    key = load_pem_private_key(made.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificates = x509.load_pem_x509_certificates(made.certificate)
    return DeviceAuthority(certificates, key, life_s=LIFE_S, now_s=now_s)


def held(file: CertificateFile) -> DeviceCertificate:
    """The certificate in a file, which has one."""
    found = file.read()
    assert found is not None
    return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path)
    yield one
    one.server.stop()


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
    assert mine.port == world.server.certified_port
    assert (world.folder / "second.json").stat().st_mode & 0o777 == 0o600
    assert asyncio.run(world.check_in(mine, SECOND)) == "OK"
    assert asyncio.run(world.check_in(None, SECOND)) == "OK"  # by its token, as before


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
        await asyncio.sleep(1)  # after which the aggregator has looked again
        refused = await world.check_in(gateways, FIRST)
        assert refused.startswith("PERMISSION_DENIED: gateway:")
        assert await world.check_in(None, FIRST) == "OK"  # by its own token: it was not revoked

    asyncio.run(scenario())


def test_a_revoked_enrolment_token_gives_no_certificate(world: World) -> None:
    async def scenario() -> None:
        token = world.tokens.issue(9, 1)
        world.store.register.keep_token(token.token_id, 9, token.ends_unix_s)
        async with world.channel() as channel:
            await enrol(channel, token.text.encode(), (FIRST,), None, world.file("first"))
            world.store.register.revoke_token(token.token_id)
            proven = (*device_metadata(FIRST), (ENROLMENT_KEY, token.text.encode()))
            with pytest.raises(aio.AioRpcError) as refused:
                await world.file("again").obtain(channel, proven)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "revoked" in str(refused.value.details())

    asyncio.run(scenario())


def test_a_renewed_certificate_has_an_overlap_with_the_old_one(world: World) -> None:
    """Renewal needs no enrolment token on the second listener, and one on the first."""

    async def scenario() -> None:
        old, file, mine = (
            await world.enrol("first", FIRST),
            world.file("first"),
            device_metadata(FIRST),
        )
        failures: list[str] = []
        assert not await file.renew(lambda: world.channel(old), mine, failures.append)
        world.now_s += 2 * LIFE_S // 3 + 1
        assert await file.renew(lambda: world.channel(old), mine, failures.append)
        new = held(file)
        assert (new.key != old.key, new.ends_s) == (True, world.now_s + LIFE_S)
        assert await world.check_in(new, FIRST) == "OK"
        assert await world.check_in(old, FIRST) == "OK"
        world.now_s += OVERLAP_S
        await asyncio.sleep(1.1)  # after which the aggregator looks again
        assert "one that has ended" in await world.check_in(old, FIRST)
        assert await world.check_in(new, FIRST) == "OK"
        assert not failures
        async with world.channel() as channel:
            with pytest.raises(aio.AioRpcError) as refused:
                await file.obtain(channel, mine)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        world.now_s += LIFE_S
        assert held(file).port == 0  # it has ended: the first listener is called, by the token
        assert await world.check_in(held(file), FIRST) == "OK"
        assert not await file.renew(world.channel, mine, failures.append)
        assert failures == [
            "certificate: expected a valid one, got one that has ended (run device enroll)"
        ]

    asyncio.run(scenario())


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


def test_where_certificates_are_required_a_token_alone_enrols_and_nothing_else(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, needed=True)

    async def scenario() -> None:
        mine = await world.enrol("first", FIRST)
        assert "expected a certificate" in await world.check_in(None, FIRST)
        assert await world.check_in(mine, FIRST) == "OK"

    try:
        asyncio.run(scenario())
    finally:
        world.server.stop()


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
