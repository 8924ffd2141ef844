"""Certificate of a device or gateway: asked for, kept in a file, renewed before it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import grpc
from grpc import aio

from askance_client.codec import parse
from askance_client.durable_files import sync, write_new
from askance_client.errors import InvalidParameter, RemoteProtocolError, StoreError
from askance_client.service.credentials import Metadata
from askance_client.service.exchange import SERVICE
from askance_client.service.observable import CALL_TIMEOUT_S, Sleep
from askance_client.service.streams import FAILURES, describe
from askance_protos.v1 import exchange_pb2 as pb

_LOOK_S = 3600  # at most between two looks at the clock, which may be set
_TRIES = 30  # to renew, in the last third of a certificate's life


@dataclass(frozen=True, slots=True)
class DeviceCertificate:
    """Certificate with its key, as PEM.

    Args:
      key: P-256, in PKCS #8.
      chain: the certificate, then those between it and the root.
      port: of the aggregator's listener for certificates; 0: the certificate has ended.
      obtained_s: the device's time when it came, in Unix seconds.
      ends_s: its end, likewise.
    """

    key: str = field(repr=False)
    chain: str
    port: int
    obtained_s: int
    ends_s: int

    @property
    def due_s(self) -> int:
        """Time of its renewal: at two thirds of its life."""
        return self.ends_s - (self.ends_s - self.obtained_s) // 3


class CertificateFile:
    """File of a device's certificate and key, of mode 0600; replaced as a whole.

    Args:
      path: the file; it need not exist.
      now_s: the time, in whole seconds since 1970, UTC.
    """

    def __init__(self, path: Path, now_s: Callable[[], int]) -> None:
        self._path = path
        self._now_s = now_s

    def read(self) -> DeviceCertificate | None:
        """Return the certificate; None if there is no sound one."""
        try:
            found = dict(json.loads(self._path.read_text(encoding="utf-8")))
            found.pop("authority", None)  # of earlier versions: the owner's `ca` alone is trusted
            held = DeviceCertificate(**found)
            return held if self._now_s() < held.ends_s else replace(held, port=0)
        except (OSError, ValueError, TypeError):
            return None

    async def obtain(self, channel: aio.Channel, metadata: Metadata) -> bool:
        """Ask for a certificate with a new key, and keep it.

        Args:
          channel: to the aggregator.
          metadata: credentials of the device or gateway, and an enrolment token where the channel
            has no certificate.

        Returns:
          False: the aggregator issues none; nothing was changed.

        Raises:
          aio.AioRpcError, RemoteProtocolError: refused, not reached, or no certificate.
          StoreError: it cannot be kept.
        """
        from cryptography import x509  # here: a device without a certificate does not load it
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
        signed = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
        call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/Certify")
        message = pb.CertifyRequest(signing_request=signed).SerializeToString()
        try:
            data = await call(message, timeout=CALL_TIMEOUT_S, metadata=metadata)
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return False
            raise
        answer = parse(pb.CertifyResponse, data)
        try:
            chain = answer.chain.decode()
            end = x509.load_pem_x509_certificate(answer.chain).not_valid_after_utc
        except ValueError:
            raise RemoteProtocolError("certificate: expected PEM, got other bytes") from None
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        dates = self._now_s(), int(end.timestamp())
        self._write(DeviceCertificate(pem.decode(), chain, answer.port, *dates))
        return True

    async def renew(
        self,
        channel: Callable[[], aio.Channel],
        metadata: Metadata,
        failed: Callable[[str], None],
    ) -> bool:
        """Renew the certificate if that is due.

        Args:
          channel: opens a channel by the certificate that is in the file.
          metadata: credentials of the device or gateway.
          failed: given a line for a failure; the present certificate stays.

        Returns:
          True: it was renewed.
        """
        held = self.read()
        if held is None or self._now_s() < held.due_s:
            return False
        if not held.port:
            failed("certificate: expected a valid one, got one that has ended (run device enroll)")
            return False
        try:
            async with channel() as opened:
                return await self.obtain(opened, metadata)
        except (*FAILURES, InvalidParameter, StoreError) as failure:
            failed(f"certificate: {describe(failure)}")
            return False

    async def keep(
        self,
        channel: Callable[[], aio.Channel],
        metadata: Metadata,
        failed: Callable[[str], None],
        renewed: Callable[[], None],
        sleep: Sleep,
    ) -> None:
        """Renew the certificate whenever that is due; return if there is none.

        Args:
          channel: as of `renew`.
          metadata: as of `renew`.
          failed: as of `renew`.
          renewed: called after each renewal.
          sleep: how to wait.
        """
        while (held := self.read()) is not None:
            if await self.renew(channel, metadata, failed):
                renewed()
                continue
            wait_s = held.due_s - self._now_s()
            again_s = max(1, (held.ends_s - held.due_s) // _TRIES)
            await sleep(1000 * min(_LOOK_S, wait_s if wait_s > 0 else again_s))

    def _write(self, held: DeviceCertificate) -> None:
        beside = self._path.with_suffix(".new")
        try:
            beside.unlink(missing_ok=True)
            write_new(beside, json.dumps(asdict(held)).encode(), mode=0o600)
            beside.replace(self._path)
            sync(self._path.parent)
        except OSError as error:
            raise StoreError(f"{self._path}: cannot be written: {error.strerror}") from None
