"""Certificates of devices and gateways, as every store keeps them."""

from __future__ import annotations

from dataclasses import dataclass

from askance_aggregator.store.dialect import Execute, Transactions, first_row
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
    """A certificate that the aggregator has issued; from `ends_unix_s` on it proves nothing.

    That is at most the end that stands in it.
    """

    holder: CertificateHolder
    ends_unix_s: int


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


class CertificateStore:
    """Part of `Store` that keeps certificates."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add(
        self,
        fingerprint: bytes,
        certificate: StoredCertificate,
        *,
        now_s: int,
        older_end_unix_s: int,
    ) -> None:
        """Keep a new certificate, end its holder's older ones, and forget those that have ended.

        The fingerprint is SHA-256 of the certificate (DER), 32 bytes. Its holder is enrolled; the
        older ones end at `older_end_unix_s` at the latest.
        """
        checked_fingerprint(fingerprint)
        holder = (certificate.holder.gateway, certificate.holder.ordinal)

        def step(execute: Execute) -> None:
            execute(
                "UPDATE certificates SET ends_unix_s = ?"
                " WHERE gateway = ? AND ordinal = ? AND ends_unix_s > ?",
                (older_end_unix_s, *holder, older_end_unix_s),
            )
            added = execute(
                "INSERT INTO certificates (fingerprint, gateway, ordinal, ends_unix_s)"
                " VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (fingerprint, *holder, certificate.ends_unix_s),
            )
            if not added.rowcount:
                raise refuse_stored_certificate()
            execute(
                "DELETE FROM certificates WHERE gateway = ? AND ordinal = ? AND ends_unix_s <= ?",
                (*holder, now_s),
            )

        self._transactions.write(step)

    def find(self, fingerprint: bytes) -> StoredCertificate | None:
        """The certificate of that fingerprint, None if there is none, or it was forgotten."""
        row = first_row(
            self._transactions,
            "SELECT gateway, ordinal, ends_unix_s FROM certificates WHERE fingerprint = ?",
            (fingerprint,),
        )
        return None if row is None else StoredCertificate(CertificateHolder(*row[:2]), row[2])
