"""Certificates of devices and gateways as rows of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager

from askance_aggregator.store.certificates import (
    CertificateHolder,
    StoredCertificate,
    checked_fingerprint,
    refuse_stored_certificate,
)

_Opened = Callable[[], AbstractContextManager[sqlite3.Connection]]


class SqliteCertificates:
    """Certificates of one file (see `CertificateStore`)."""

    def __init__(self, writing: _Opened, reading: _Opened) -> None:
        self._writing = writing
        self._reading = reading

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
        with self._writing() as connection:
            connection.execute(
                "UPDATE certificates SET ends_unix_s = min(ends_unix_s, ?)"
                " WHERE gateway = ? AND ordinal = ?",
                (older_end_unix_s, *holder),
            )
            added = connection.execute(
                "INSERT INTO certificates VALUES (?, ?, ?, ?) ON CONFLICT (fingerprint) DO NOTHING",
                (fingerprint, *holder, certificate.ends_unix_s),
            )
            if not added.rowcount:
                raise refuse_stored_certificate()
            connection.execute(
                "DELETE FROM certificates WHERE gateway = ? AND ordinal = ? AND ends_unix_s <= ?",
                (*holder, now_s),
            )

    def find(self, fingerprint: bytes) -> StoredCertificate | None:
        with self._reading() as connection:
            row = connection.execute(
                "SELECT gateway, ordinal, ends_unix_s FROM certificates WHERE fingerprint = ?",
                (fingerprint,),
            ).fetchone()
        return None if row is None else StoredCertificate(CertificateHolder(*row[:2]), row[2])
