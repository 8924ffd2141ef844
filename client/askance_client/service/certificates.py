"""Certificate of a device or gateway: asked for, kept in a file, renewed before it ends.

A device's own token is enough to get one, so that a device that was away past the end of its
certificate, or has never had one, needs no operator.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path

from askance_client.addresses import Address
from askance_client.codec import parse
from askance_client.durable_files import replace_whole
from askance_client.errors import AskanceError, RemoteProtocolError, StoreError
from askance_client.service.authority import DeviceCertificate
from askance_client.service.credentials import TAKES_ADDRESS, Metadata
from askance_client.service.observable import Sleep
from askance_client.service.open_side import NOT_REACHED, OpenSide
from askance_protos.v1 import exchange_pb2 as pb

_LOOK_S = 3600  # at most between two looks at the clock, which may be set
_TRIES = 30  # to renew, in the last third of a certificate's life


class CertificateFile:
    """File, of mode 0600, of a device's certificate and key: replaced whole, and need not exist."""

    def __init__(self, path: Path, now_s: Callable[[], int], open_side: OpenSide) -> None:
        self._path = path
        self._now_s = now_s
        self._open_side = open_side
        self._doubted = asyncio.Event()

    def read(self) -> DeviceCertificate | None:
        """Return the certificate; None if there is no sound one."""
        try:
            held = DeviceCertificate(**json.loads(self._path.read_text(encoding="utf-8")))
            is_ours = held.of == self._open_side.address
            return held if is_ours and self._now_s() < held.ends_s else replace(held, address="")
        except (OSError, ValueError, TypeError):
            return None

    async def obtain(self, metadata: Metadata) -> None:
        """Ask for a certificate with a new key, and keep it."""
        from cryptography import x509  # here: a device without a certificate does not load it
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        builder = x509.CertificateSigningRequestBuilder(x509.Name([]))
        signed = builder.sign(key, hashes.SHA256()).public_bytes(form.Encoding.DER)
        message = pb.CertifyRequest(signing_request=signed).SerializeToString()
        data = await self._open_side.call("Certify", message, (*metadata, TAKES_ADDRESS))
        answer = parse(pb.CertifyResponse, data)
        try:
            chain = answer.chain.decode()
            end = x509.load_pem_x509_certificate(answer.chain).not_valid_after_utc
            there = answer.address or str(Address.of(self._open_side.address).at_port(answer.port))
        except ValueError:
            raise RemoteProtocolError("certificate: expected PEM, got other bytes") from None
        pem = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        rest = self._now_s(), int(end.timestamp()), self._open_side.address
        self._write(DeviceCertificate(pem.decode(), chain, str(Address.of(there)), *rest))

    async def renew(
        self, metadata: Metadata, failed: Callable[[str], None], *, anew: bool = False
    ) -> bool:
        """Get a certificate where there is none, it has ended, or its renewal is due.

        A failure is a line given to `failed`, and the present certificate stays. `anew` gets
        another one in any case. Return True if there is a new one.
        """
        held = self.read()
        if held is not None and held.address and self._now_s() < held.due_s and not anew:
            return False
        try:
            await self.obtain(metadata)
        except AskanceError as failure:
            failed(f"certificate: {failure}")
            return False
        return True

    async def replace_refused(self, metadata: Metadata, failed: Callable[[str], None]) -> bool:
        """Get another certificate if the aggregator's port for devices refuses the present one."""
        held = self.read()
        if held is None or not held.address or not await self._open_side.refuses(held):
            return False
        failed(
            "certificate: expected one that the aggregator's port for devices accepts, got one that"
            " it refuses; another one is asked for"
        )
        return await self.renew(metadata, failed, anew=True)

    async def is_there(self, metadata: Metadata, failed: Callable[[str], None]) -> bool:
        """Return whether there is one that has not ended; one that is due is renewed."""
        fresh, held = await self.renew(metadata, failed), self.read()
        is_there = held is not None and bool(held.address)
        if fresh and not is_there:
            failed("certificate: expected a valid one, got one that has ended by this clock")
        return is_there

    def doubt(self, failure: str) -> None:
        """Let `keep` examine a failure of a call: a refused certificate looks like one."""
        if failure.startswith(NOT_REACHED):
            self._doubted.set()

    async def keep(
        self,
        metadata: Metadata,
        failed: Callable[[str], None],
        renewed: Callable[[], Awaitable[None]],
        sleep: Sleep,
    ) -> None:
        """Renew the certificate whenever that is due, and replace one that is refused, for ever."""
        while True:
            fresh = await self.renew(metadata, failed)
            if not fresh and await self._wait_for_doubt(sleep):
                self._doubted.clear()
                fresh = await self.replace_refused(metadata, failed)
            if fresh:
                await renewed()

    async def _wait_for_doubt(self, sleep: Sleep) -> bool:
        """Wait until it is time to look again; True: the certificate is in doubt before that."""
        wait_s = again_s = _LOOK_S
        if (held := self.read()) is not None:
            wait_s = held.due_s - self._now_s()
            again_s = max(1, (held.ends_s - held.due_s) // _TRIES)
        both = [
            asyncio.ensure_future(sleep(1000 * min(_LOOK_S, wait_s if wait_s > 0 else again_s))),
            asyncio.ensure_future(self._doubted.wait()),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()
        return self._doubted.is_set()

    def _write(self, held: DeviceCertificate) -> None:
        try:
            replace_whole(self._path, json.dumps(asdict(held)).encode())
        except OSError as error:
            raise StoreError(f"{self._path}: cannot be written: {error.strerror}") from None
