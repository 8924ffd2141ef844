"""Certificates of devices and gateways as rows of PostgreSQL."""

from __future__ import annotations

from askance_aggregator.store.certificates import (
    CertificateHolder,
    StoredCertificate,
    checked_fingerprint,
    refuse_stored_certificate,
)
from askance_aggregator.store.postgresql.database import Connection, PostgresqlDatabase


class CertificateRows:
    """Certificates of one database (see `CertificateStore`)."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database

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

        def step(connection: Connection) -> None:
            connection.execute(
                "UPDATE certificates SET ends_unix_s = least(ends_unix_s, %s)"
                " WHERE gateway = %s AND ordinal = %s",
                (older_end_unix_s, *holder),
            )
            added = connection.execute(
                "INSERT INTO certificates VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (fingerprint, *holder, certificate.ends_unix_s),
            )
            if not added.rowcount:
                raise refuse_stored_certificate()
            connection.execute(
                "DELETE FROM certificates WHERE gateway = %s AND ordinal = %s"
                " AND ends_unix_s <= %s",
                (*holder, now_s),
            )

        self._database.write(step)

    def find(self, fingerprint: bytes) -> StoredCertificate | None:
        row = self._database.row(
            "SELECT gateway, ordinal, ends_unix_s FROM certificates WHERE fingerprint = %s",
            (fingerprint,),
        )
        return None if row is None else StoredCertificate(CertificateHolder(*row[:2]), row[2])
