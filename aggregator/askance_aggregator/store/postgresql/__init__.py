"""The store of an organisation: one PostgreSQL database, by psycopg (extra `postgres`)."""

from askance_aggregator.store.postgresql.database import PostgresqlDatabase
from askance_aggregator.store.postgresql.store import PostgresqlStore

__all__ = ["PostgresqlDatabase", "PostgresqlStore"]
