"""Binding of a ledger file to how its members are named, as rows of the table `facts`.

A member's ledger is found by the member's name. If members were named in another way, they would
have ledgers without a charge; therefore a file is bound once, and its users compare
(`LedgerFile.bind`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from askance_client.errors import StoreError

_PREFIX = "bound."  # other rows of the table are no part of the binding


def read_binding(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the texts that a file is bound to, by name; empty if it is not bound."""
    rows = connection.execute("SELECT name, value FROM facts ORDER BY name")
    return {
        name.removeprefix(_PREFIX): value.decode("utf-8")
        for name, value in rows
        if name.startswith(_PREFIX)
    }


def write_binding(
    connection: sqlite3.Connection, texts: Mapping[str, str], *, charged: bool
) -> dict[str, str]:
    """Bind a file to texts unless it is bound, and return what it is bound to.

    Args:
        connection: in a transaction.
        texts: one or more, by name.
        charged: whether the file has any charge.

    Raises:
        StoreError: there are charges and no binding; nothing was changed.
    """
    bound = read_binding(connection)
    if bound:
        return bound
    if charged:
        raise StoreError(
            "ledger: expected a binding to how its members are named, got charges without it"
        )
    connection.executemany(
        "INSERT INTO facts (name, value) VALUES (?, ?)",
        [(_PREFIX + name, text.encode("utf-8")) for name, text in texts.items()],
    )
    return read_binding(connection)
