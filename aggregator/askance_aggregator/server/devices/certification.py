"""Certificates that prove devices and gateways, beside their tokens.

TLS checks at the handshake that a certificate is from the devices' authority and has not ended. All
else is checked here, per message, by the certificate's fingerprint: that this aggregator issued it,
that its end (or the end of its overlap with a newer one) has not come, and that it is the caller's.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from askance_aggregator.server.devices.admission import Unauthenticated
from askance_aggregator.server.devices.calls import Context
from askance_aggregator.server.loops import InExecutor
from askance_aggregator.store import CertificateHolder, EnrolledDevice, Store, StoredCertificate
from askance_client.codec import parse
from askance_client.errors import RemoteProtocolError
from askance_client.service.exchange import MAX_REQUEST_MESSAGE_BYTES, ExchangeTooLarge
from askance_protos.v1 import exchange_pb2 as pb

_PEM = "x509_pem_cert"  # gRPC's name of the caller's certificate in a call's context
_LOOK_S = 1.0  # a certificate is looked up again after so long: other processes change the store
_REMEMBERED = 1 << 16
_MAX_REQUEST_BYTES = 4096  # a request with a key on P-256 has some 200
CERTIFICATE_METHOD = "Certify"

Proof = Callable[[], Awaitable[None]]
"""Checks a caller again, per message; raises `Unauthenticated` if it is no longer proven."""


class BadSigningRequest(RemoteProtocolError):
    """A request for a certificate that cannot be signed."""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A new certificate, and what its holder needs beside it."""

    fingerprint: bytes  # SHA-256 of the certificate (DER)
    chain: bytes  # PEM: the certificate, then those between it and the root
    ends_unix_s: int
    older_end_unix_s: int  # end of the overlap with older ones of the holder


class CertificateIssuer(Protocol):
    """Signs certificates of devices and gateways."""

    def issue(self, signing_request: bytes, holder: CertificateHolder) -> IssuedCertificate:
        """Sign a certificate for the key of a request (PKCS #10, DER).

        Raises:
          BadSigningRequest: it is none, or its key is not of an accepted kind.
        """
        ...


class CallerProofs(Protocol):
    """Proofs of callers beside their tokens."""

    async def issue(self, data: bytes, holder: CertificateHolder) -> pb.CertifyResponse:
        """Answer a CertifyRequest (see `Certification`)."""
        ...

    async def prove_device(self, context: Context, ordinal: int, device_id: bytes) -> Proof:
        """Check a call that a device's token has proven (see `Certification`)."""
        ...

    async def prove_holder(self, context: Context, holder: CertificateHolder) -> Proof:
        """Check a call that a gateway's or device's token has proven (see `Certification`)."""
        ...


class TokensAlone:
    """Proofs of an aggregator without certificates: tokens are enough."""

    async def issue(self, data: bytes, holder: CertificateHolder) -> pb.CertifyResponse:
        """Raise Unauthenticated."""
        raise Unauthenticated("expected an aggregator with [tls.devices], got one that issues none")

    async def prove_device(self, context: Context, ordinal: int, device_id: bytes) -> Proof:
        """Ask for nothing more."""
        return _unchanged

    async def prove_holder(self, context: Context, holder: CertificateHolder) -> Proof:
        """Ask for nothing more."""
        return _unchanged


TOKENS_ALONE = TokensAlone()


class Certification:
    """Issues certificates, and checks those that callers show.

    `check_gateway` raises Revoked for the number of a gateway that may not take part.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        issuer: CertificateIssuer,
        now_s: Callable[[], int],
        *,
        check_gateway: Callable[[int], None],
    ) -> None:
        self._store = store
        self._check_gateway = check_gateway
        self._run = InExecutor(executor)
        self._issuer = issuer
        self._now_s = now_s
        self._known: OrderedDict[bytes, tuple[float, StoredCertificate | None]] = OrderedDict()

    async def issue(self, data: bytes, holder: CertificateHolder) -> pb.CertifyResponse:
        """Answer a CertifyRequest: sign, and keep the fingerprint durably.

        Args:
          data: the request's bytes.
          holder: the caller, which is proven.

        Returns:
          The answer, which does not say yet where devices call.

        Raises:
          ExchangeTooLarge, RemoteProtocolError: not a request that can be signed.
          StoreError: nothing was issued.
        """
        if len(data) > _MAX_REQUEST_BYTES:
            raise ExchangeTooLarge(
                f"CertifyRequest: expected at most {_MAX_REQUEST_BYTES} bytes, got {len(data)}"
            )
        message = parse(pb.CertifyRequest, data, limit=MAX_REQUEST_MESSAGE_BYTES)

        def sign() -> IssuedCertificate:
            issued = self._issuer.issue(message.signing_request, holder)
            self._store.certificates.add(
                issued.fingerprint,
                StoredCertificate(holder, issued.ends_unix_s),
                now_s=self._now_s(),
                older_end_unix_s=issued.older_end_unix_s,
            )
            return issued

        issued = await self._run(sign)
        return pb.CertifyResponse(chain=issued.chain)

    async def prove_device(self, context: Context, ordinal: int, device_id: bytes) -> Proof:
        """Check the certificate of a call that a device's token has proven, and return its proof.

        A gateway's certificate covers the devices that it enrolled.
        """
        fingerprint = self._fingerprint(context)
        if fingerprint is None:
            return _unchanged
        certificate = await self._valid(fingerprint)
        if certificate.holder.gateway:
            found = await self._run(self._store.device, device_id)
            covered = _is_member(found, certificate.holder.gateway)
        else:
            covered = certificate.holder.ordinal == ordinal
        return self._proof(fingerprint, covered=covered)

    async def prove_holder(self, context: Context, holder: CertificateHolder) -> Proof:
        """Check the certificate of a call that a gateway or a device makes for itself."""
        fingerprint = self._fingerprint(context)
        if fingerprint is None:
            return _unchanged
        certificate = await self._valid(fingerprint)
        return self._proof(fingerprint, covered=certificate.holder == holder)

    def _fingerprint(self, context: Context) -> bytes | None:
        """Return the SHA-256 of the caller's certificate; None where it came over another listener.

        TLS has ended every connection without one to the listener for certificates.
        """
        pem = b"".join(context.auth_context().get(_PEM, ()))
        if pem:
            return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))).digest()
        return None

    def _proof(self, fingerprint: bytes, *, covered: bool) -> Proof:
        if not covered:
            raise Unauthenticated(
                "expected the caller's own certificate, got one of another holder"
            )

        async def prove() -> None:
            await self._valid(fingerprint)

        return prove

    async def _valid(self, fingerprint: bytes) -> StoredCertificate:
        loop = asyncio.get_running_loop()
        looked_s, found = self._known.get(fingerprint, (-_LOOK_S, None))
        if found is None or loop.time() - looked_s >= _LOOK_S:
            asked_s = loop.time()
            found = await self._run(self._store.certificates.find, fingerprint)
            self._known[fingerprint] = (asked_s, found)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        if found is None:
            raise Unauthenticated(
                "expected a certificate that this aggregator issued, got one that is not stored"
            )
        if self._now_s() >= found.ends_unix_s:
            raise Unauthenticated("expected a certificate that is valid, got one that has ended")
        if found.holder.gateway:
            self._check_gateway(found.holder.gateway)
        return found


async def _unchanged() -> None:
    """Prove a caller that shows no certificate: its token was checked, and does not change."""


def _is_member(device: EnrolledDevice | None, gateway: int) -> bool:
    return device is not None and device.gateway == gateway
