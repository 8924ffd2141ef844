"""Making devices known to their aggregator, once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from askance_client.durable_files import replace_whole
from askance_client.errors import AskanceError, InvalidParameter, RemoteProtocolError, StoreError
from askance_client.service.certificates import CertificateFile
from askance_client.service.credentials import device_metadata, enrolment_metadata, gateway_metadata
from askance_client.service.exchange import (
    MAX_ENROLMENT_TOKEN_BYTES,
    Enrol,
    decode_enrolled,
    encode_enrol,
)
from askance_client.service.identity import Identity, token_digest
from askance_client.service.observable import batches, ordered
from askance_client.service.open_side import CallFailed, OpenSide

_AT_ONCE = 512  # devices in one message: 54 kB with the longest ids, and a body has at most 64 kB
_UNKNOWN = "UNAUTHENTICATED"  # in a failure of devices that are not enrolled


def an_enrolment_token(text: str) -> bytes:
    """Check an enrolment token, without spaces around it; an error does not show it."""
    text = text.strip()
    if not text.isascii() or not 1 <= len(text) <= MAX_ENROLMENT_TOKEN_BYTES:
        raise InvalidParameter(
            f"enrolment token: expected one line of 1 to {MAX_ENROLMENT_TOKEN_BYTES} ASCII"
            f" characters, got {len(text)} characters"
        )
    return text.encode("ascii")


class Enrolment:
    """Enrolment of a folder's devices, remembered in a file of the folder.

    The file has a digest of the devices' ids, so that members who come later are enrolled as well.
    It is forgotten if the aggregator does not know the device: the next start enrols again.

    A device's own token stays here: its SHA-256 is sent. The order of `identities` does not show:
    they are sent in the order of `observable`.

    Args:
      path: of the file, which need not exist.
      open_side: of the aggregator.
      identities: of the devices.
      gateway: the identity of the gateway that they are members of; None: of none.
      certificate: where the certificate of the gateway, or of a single device, is kept; None: it
        is not asked for.
      token: the operator's; None: devices that are not known stay unknown.
    """

    def __init__(
        self,
        path: Path,
        open_side: OpenSide,
        identities: Sequence[Identity],
        gateway: Identity | None = None,
        certificate: CertificateFile | None = None,
        token: bytes | None = None,
    ) -> None:
        self._path = path
        self._open_side = open_side
        self._identities = ordered(identities, lambda identity: identity)
        self._gateway = gateway
        self._certificate = certificate
        self.token = token
        ids = b"".join(one.device_id for one in self._identities)
        self._digest = hashlib.sha256(ids).hexdigest()

    @property
    def remembered(self) -> bool:
        """True if these devices were enrolled."""
        try:
            return self._path.read_text(encoding="ascii") == self._digest
        except (OSError, ValueError):
            return False

    async def enrol(self, token: bytes) -> tuple[int, int]:
        """Enrol the devices, a message's worth at a time, remember it, and get a certificate.

        Again is no harm.

        Returns:
          How many were new, and how many the aggregator knew already.

        Raises:
          CallFailed: refused or not reached; those of messages before it are enrolled.
          RemoteProtocolError: the answer is none, or not to what was sent.
          StoreError: it cannot be remembered, or the certificate cannot be kept; the devices are
            enrolled.
        """
        metadata, gateway = enrolment_metadata(token), self._gateway
        of = None if gateway is None else (gateway.device_id, token_digest(gateway.token))
        new = known = 0
        for batch in batches(self._identities, _AT_ONCE):
            devices = tuple((one.device_id, token_digest(one.token)) for one in batch)
            message = encode_enrol(Enrol(devices, of))
            answer = await self._open_side.call("Enrol", message, metadata)
            fresh, there = decode_enrolled(answer)
            if fresh + there != len(batch):
                raise RemoteProtocolError(
                    f"enrolment: expected {len(batch)} devices to be known, found {fresh + there}"
                )
            new, known = new + fresh, known + there
        try:
            replace_whole(self._path, self._digest.encode())
        except OSError as error:
            raise StoreError(f"{self._path}: cannot be written: {error.strerror}") from None
        if self._certificate is not None:
            one = self._identities[0]
            mine = device_metadata(one) if gateway is None else gateway_metadata(gateway)
            await self._certificate.obtain(mine)
        return new, known

    async def renew(self, failed: Callable[[str], None]) -> bool:
        """Enrol if that is not remembered and there is a token; a failure is given to `failed`.

        Returns:
          True if calls may be made; also if the token was refused: the devices may be known.
        """
        if self.token is None or self.remembered:
            return True
        try:
            await self.enrol(self.token)
        except AskanceError as failure:
            failed(f"enrolment: {failure}")
            return isinstance(failure, CallFailed) and failure.status == "PERMISSION_DENIED"
        return True

    def doubt(self, failure: str) -> None:
        """Forget the enrolment if a failure says that the device is not known."""
        if _UNKNOWN in failure:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
