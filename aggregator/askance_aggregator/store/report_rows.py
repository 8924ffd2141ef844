"""Reports as rows: stored once each, the first bytes first."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from askance_aggregator.store.contract import MAX_EVIDENCE, StoredReport
from askance_client.messages import AckStatus

_ROWS = 1024  # reports that one statement stores


def all_new(
    connection: sqlite3.Connection, numbers: dict[bytes, int], arrivals: Sequence[StoredReport]
) -> bool:
    """Store all arrivals at once if none is stored yet, as is usual; else store none."""
    connection.execute("SAVEPOINT all_new")
    new = True
    for start in range(0, len(arrivals), _ROWS):
        part = arrivals[start : start + _ROWS]
        added = connection.execute(
            # Many rows a statement: each statement lets go of the interpreter and has to get it
            # back from an event loop that is busy.
            f"INSERT INTO reports VALUES {', '.join(['(?, ?, ?)'] * len(part))}"
            " ON CONFLICT DO NOTHING",
            [
                value
                for arrival in part
                for value in (numbers[arrival.request_digest], arrival.ordinal, arrival.data)
            ],
        )
        new = new and added.rowcount == len(part)
    if not new:
        connection.execute("ROLLBACK TO all_new")
    connection.execute("RELEASE all_new")
    return new


def note_sequences(
    connection: sqlite3.Connection, arrivals: Sequence[StoredReport], statuses: list[AckStatus]
) -> None:
    """Raise the highest sequence number of every user whose report is new."""
    highest: dict[int, int] = {}
    for arrival, status in zip(arrivals, statuses, strict=True):
        if status is AckStatus.ACCEPTED and arrival.sequence > highest.get(arrival.ordinal, 0):
            highest[arrival.ordinal] = arrival.sequence
    pairs = list(highest.items())
    for start in range(0, len(pairs), _ROWS):
        part = pairs[start : start + _ROWS]
        connection.execute(
            "UPDATE devices SET acknowledged_sequence = new.column2 FROM"
            f" (VALUES {', '.join(['(?, ?)'] * len(part))}) AS new"
            " WHERE ordinal = new.column1 AND acknowledged_sequence < new.column2",
            [value for pair in part for value in pair],
        )


def accept_one(connection: sqlite3.Connection, request: int, arrival: StoredReport) -> AckStatus:
    """Store a report, or compare it with the one that is stored; keep other bytes as evidence."""
    added = connection.execute(
        "INSERT INTO reports VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (request, arrival.ordinal, arrival.data),
    )
    if added.rowcount:
        return AckStatus.ACCEPTED
    place = (request, arrival.ordinal)
    (first,) = connection.execute(
        "SELECT data FROM reports WHERE request = ? AND ordinal = ?", place
    ).fetchone()
    if first == arrival.data:
        return AckStatus.DUPLICATE
    kept = connection.execute(
        "SELECT data FROM evidence WHERE request = ? AND ordinal = ?", place
    ).fetchall()
    if (arrival.data,) not in kept and len(kept) < MAX_EVIDENCE:
        connection.execute(
            "INSERT INTO evidence VALUES (?, ?, ?, ?)", (*place, len(kept), arrival.data)
        )
    return AckStatus.CONFLICT
