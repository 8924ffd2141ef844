"""Certificates of devices and gateways, as every store keeps them."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Protocol

from askance_client.errors import StoreError

FINGERPRINT_BYTES = 32


@dataclass(frozen=True, slots=True)
class CertificateHolder:
    """Holder of a certificate: a gateway by its number, or a device by its ordinal.

    Args:
      gateway: the gateway's number; 0: it is a device.
      ordinal: the device's; -1: it is a gateway.
    """

    gateway: int
    ordinal: int = -1


@dataclass(frozen=True, slots=True)
class StoredCertificate:
    """A certificate that the aggregator has issued.

    Args:
      holder: whose it is.
      ends_unix_s: from then on it proves nothing; at most the end that stands in it.
    """

    holder: CertificateHolder
    ends_unix_s: int


class CertificateStore(Protocol):
    """Part of `Store` that keeps certificates."""

    def add(
        self,
        fingerprint: bytes,
        certificate: StoredCertificate,
        *,
        now_s: int,
        older_end_unix_s: int,
    ) -> None:
        """Keep a new certificate, end its holder's older ones, and forget those that have ended.

        Args:
          fingerprint: SHA-256 of the certificate (DER), 32 bytes.
          certificate: its holder, which is enrolled, and its end.
          now_s: the time in Unix seconds.
          older_end_unix_s: the latest end of older ones from now on, likewise.

        Raises:
          StoreError: a fingerprint of another length, or one that is stored.
        """
        ...

    def find(self, fingerprint: bytes) -> StoredCertificate | None:
        """The certificate of that fingerprint, None if there is none, or it was forgotten."""
        ...


class KeepsCertificates(Protocol):
    """Part of `Store`: a store that has certificates."""

    @property
    def certificates(self) -> CertificateStore:
        """Certificates of devices and gateways."""
        ...


class MemoryCertificates:
    """Certificates of a store that lasts as long as its process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._certificates: dict[bytes, StoredCertificate] = {}

    def add(
        self,
        fingerprint: bytes,
        certificate: StoredCertificate,
        *,
        now_s: int,
        older_end_unix_s: int,
    ) -> None:
        checked_fingerprint(fingerprint)
        with self._lock:
            if fingerprint in self._certificates:
                raise refuse_stored_certificate()
            for one, older in list(self._certificates.items()):
                if older.holder == certificate.holder:
                    end = min(older.ends_unix_s, older_end_unix_s)
                    self._certificates[one] = replace(older, ends_unix_s=end)
                    if end <= now_s:
                        del self._certificates[one]
            self._certificates[fingerprint] = certificate

    def find(self, fingerprint: bytes) -> StoredCertificate | None:
        return self._certificates.get(fingerprint)

    def erase(self, ordinals: Collection[int]) -> None:
        """Erase the certificates of devices, given by their ordinals."""
        with self._lock:
            for one, kept in list(self._certificates.items()):
                if not kept.holder.gateway and kept.holder.ordinal in ordinals:
                    del self._certificates[one]


def checked_fingerprint(fingerprint: bytes) -> bytes:
    """The SHA-256 of a certificate, of the right length."""
    if len(fingerprint) != FINGERPRINT_BYTES:
        raise StoreError(
            f"certificate: expected a fingerprint of {FINGERPRINT_BYTES} bytes,"
            f" got {len(fingerprint)}"
        )
    return fingerprint


def refuse_stored_certificate() -> StoreError:
    """The refusal of a certificate that is stored already."""
    return StoreError("certificate: expected a new one, found it stored")
