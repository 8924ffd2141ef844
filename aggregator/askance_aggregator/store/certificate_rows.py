"""Certificates of devices and gateways as rows."""

from __future__ import annotations

from askance_aggregator.store.certificates import (
    CertificateHolder,
    StoredCertificate,
    checked_fingerprint,
    refuse_stored_certificate,
)
from askance_aggregator.store.dialect import Execute, Transactions, first_row


class CertificateRows:
    """Certificates in a database (see `CertificateStore`)."""

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
        row = first_row(
            self._transactions,
            "SELECT gateway, ordinal, ends_unix_s FROM certificates WHERE fingerprint = ?",
            (fingerprint,),
        )
        return None if row is None else StoredCertificate(CertificateHolder(*row[:2]), row[2])
