"""Partitions of the reports in PostgreSQL: a table per study."""

from __future__ import annotations

from psycopg import sql

from askance_aggregator.store.postgresql.database import Connection


def add_partition(connection: Connection, study: int) -> None:
    """Make the table of a study's reports; attached, it takes no lock that reports wait for."""
    name = sql.Identifier(f"reports_{study}")
    connection.execute(
        sql.SQL("CREATE TABLE {} (LIKE reports INCLUDING DEFAULTS INCLUDING CONSTRAINTS)").format(
            name
        )
    )
    connection.execute(
        sql.SQL("ALTER TABLE reports ATTACH PARTITION {} FOR VALUES IN ({})").format(
            name, sql.Literal(study)
        )
    )
