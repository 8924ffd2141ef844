"""Devices and gateways as rows: ordinals without gaps, an id with one token."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from askance_aggregator.store.checks import (
    refuse_more_devices,
    refuse_other_gateway,
    refuse_other_token,
    refuse_revoked_token,
)
from askance_client.errors import StoreError


def count_devices(connection: sqlite3.Connection) -> int:
    """Return the next device's ordinal: a forgotten one's is not given again."""
    return int(
        connection.execute(
            "SELECT 1 + max(coalesce((SELECT max(ordinal) FROM devices), -1),"
            " coalesce((SELECT max(ordinal) FROM empty_places), -1))"
        ).fetchone()[0]
    )


def add_devices(connection: sqlite3.Connection, listed: Sequence[tuple[bytes, bytes]]) -> int:
    """Store new devices, each an id and a token's digest, and return the first ordinal.

    Raises:
      StoreError: one is enrolled already.
    """
    start = count_devices(connection)
    for place, (device_id, token_digest) in enumerate(listed):
        added = connection.execute(
            "INSERT INTO devices (ordinal, device_id, token_digest, enrolled_day)"
            " VALUES (?, ?, ?, unixepoch() / 86400)"
            " ON CONFLICT (device_id) DO NOTHING",
            (start + place, device_id, token_digest),
        )
        if not added.rowcount:
            raise StoreError(f"enrolment: expected new ids, found device {place} enrolled")
    return start


def enrol_devices(
    connection: sqlite3.Connection,
    listed: Sequence[tuple[bytes, bytes]],
    token_id: bytes,
    limit: int,
    gateway: tuple[bytes, bytes] | None,
) -> int:
    """Store devices under an enrolment token, those of a gateway with it (see `Store.enrol_with`).

    Returns:
      How many are new.

    Raises:
      EnrolmentRefused: an id has another token, or the enrolment token is full or revoked.
    """
    number = None if gateway is None else _gateway_number(connection, gateway)
    start = count_devices(connection)
    new = 0
    for place, (device_id, token_digest) in enumerate(listed):
        added = connection.execute(
            "INSERT INTO devices (ordinal, device_id, token_digest, gateway, enrolled_day)"
            " VALUES (?, ?, ?, ?, unixepoch() / 86400) ON CONFLICT (device_id) DO NOTHING",
            (start + new, device_id, token_digest, number),
        )
        new += added.rowcount
        if added.rowcount:
            continue
        if not _has_token(connection, device_id, token_digest):
            raise refuse_other_token(place)
        connection.execute(
            "UPDATE devices SET gateway = coalesce(?, gateway) WHERE device_id = ?",
            (number, device_id),
        )
    used, revoked = connection.execute(
        "INSERT INTO enrolment_tokens (token_id, devices) VALUES (?, ?)"
        " ON CONFLICT (token_id) DO UPDATE SET devices = devices + excluded.devices"
        " RETURNING devices, revoked",
        (token_id, new),
    ).fetchone()
    if revoked:
        raise refuse_revoked_token()
    if new and used > limit:
        raise refuse_more_devices(limit, used)
    return new


def _gateway_number(connection: sqlite3.Connection, gateway: tuple[bytes, bytes]) -> int:
    """Return a gateway's number, which it gets when it is new."""
    connection.execute(
        "INSERT INTO gateways (gateway_id, token_digest) VALUES (?, ?)"
        " ON CONFLICT (gateway_id) DO NOTHING",
        gateway,
    )
    number, token_digest = connection.execute(
        "SELECT number, token_digest FROM gateways WHERE gateway_id = ?", gateway[:1]
    ).fetchone()
    if token_digest != gateway[1]:
        raise refuse_other_gateway()
    return int(number)


def _has_token(connection: sqlite3.Connection, device_id: bytes, token_digest: bytes) -> bool:
    found = connection.execute(
        "SELECT 1 FROM devices WHERE device_id = ? AND token_digest = ?", (device_id, token_digest)
    )
    return found.fetchone() is not None
