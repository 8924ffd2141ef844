"""The store's contract on one PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from askance_aggregator.store.contract import StoredReport
from askance_aggregator.store.postgresql.database import PostgresqlDatabase
from askance_aggregator.store.postgresql.dialect import PostgresqlDialect
from askance_aggregator.store.postgresql.replicas import PostgresqlReplicas
from askance_aggregator.store.postgresql.report_rows import ReportRows
from askance_aggregator.store.sql_store import SqlStore
from askance_aggregator.store.watch import StoreWatch
from askance_client.errors import StoreError
from askance_client.messages import AckStatus


class PostgresqlStore(SqlStore):
    """The store's contract on one database (see `Store`), which several processes may share."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        """Use `open` or `open_to_read`."""
        super().__init__(PostgresqlDialect(database), PostgresqlReplicas(database))
        self._database = database
        self._reports = ReportRows(database)

    @classmethod
    def open(
        cls, name: str, parameters: Callable[[], dict[str, str]], watch: StoreWatch | None = None
    ) -> PostgresqlStore:
        """Open a database's store to write to it, as other processes may at the same time.

        Args:
          name: the database's address in errors, without a password.
          parameters: libpq's connection parameters, asked anew for every connection.
          watch: observer of later operations; None: there is none.

        Raises:
          StoreError: no connection, another schema version, or it is being migrated.
        """
        store = cls.open_to_read(name, parameters)
        try:
            store._database.hold(watch)
        except StoreError:
            store.close()
            raise
        return store

    @classmethod
    def open_to_read(cls, name: str, parameters: Callable[[], dict[str, str]]) -> PostgresqlStore:
        """Open a database's store to read it, also while other processes write to it."""
        return cls(PostgresqlDatabase.open(name, parameters))

    def _accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        return self._reports.accept(arrivals)
