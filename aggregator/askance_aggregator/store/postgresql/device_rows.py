"""Devices and gateways as rows of PostgreSQL: enrolled all or none, numbered without a gap."""

from __future__ import annotations

from collections.abc import Iterable

from askance_aggregator.store.checks import (
    checked_devices,
    checked_enrolment,
    refuse_more_devices,
    refuse_other_gateway,
    refuse_other_token,
    refuse_revoked_token,
)
from askance_aggregator.store.contract import (
    Enrolled,
    EnrolledDevice,
    EnrolledGateway,
)
from askance_aggregator.store.postgresql.database import Connection, PostgresqlDatabase, one_row
from askance_client.errors import StoreError

_ENROLLED_AT_ONCE = 10_000  # devices that one statement adds


class DeviceRows:
    """Devices and gateways of one database; the population's row is locked while any is added."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database

    def enrol(self, devices: Iterable[tuple[bytes, bytes]]) -> range:
        """Add devices (see `Store.enrol`)."""
        listed = checked_devices(devices)

        def step(connection: Connection) -> range:
            start = _population(connection, " FOR UPDATE")
            known = _known(connection, listed)
            if known:
                raise StoreError(f"enrolment: expected new ids, found device {min(known)} enrolled")
            _add_devices(connection, start, listed)
            return range(start, start + len(listed))

        return self._database.write(step)

    def enrol_with(
        self,
        devices: Iterable[tuple[bytes, bytes]],
        token_id: bytes,
        limit: int,
        gateway: tuple[bytes, bytes] | None = None,
    ) -> Enrolled:
        """Add devices by an enrolment token (see `Store.enrol_with`)."""
        listed = checked_enrolment(devices, token_id, gateway)

        def step(connection: Connection) -> Enrolled:
            start = _population(connection, " FOR UPDATE")
            known = _known(connection, listed)
            for place in sorted(known):
                if known[place] != listed[place][1]:
                    raise refuse_other_token(place)
            fresh = [one for place, one in enumerate(listed) if place not in known]
            used, revoked = one_row(
                connection,
                "INSERT INTO enrolment_tokens AS kept (token_id, devices) VALUES (%s, %s)"
                " ON CONFLICT (token_id) DO UPDATE SET devices = kept.devices + excluded.devices"
                " RETURNING devices, revoked",
                (token_id, len(fresh)),
            )
            if revoked:
                raise refuse_revoked_token()
            if fresh and used > limit:
                raise refuse_more_devices(limit, used)
            _add_devices(connection, start, fresh)
            if gateway is not None:
                _join(connection, _gateway_number(connection, gateway), listed)
            return Enrolled(len(fresh), len(known))

        return self._database.write(step)

    def device(self, device_id: bytes) -> EnrolledDevice | None:
        """The device of that id, if it is enrolled."""
        row = self._database.row(
            "SELECT ordinal, token_digest, coalesce(gateway, 0) FROM devices WHERE device_id = %s",
            (device_id,),
        )
        return None if row is None else EnrolledDevice(*row)

    def gateway(self, gateway_id: bytes) -> EnrolledGateway | None:
        """The gateway of that id, if it is enrolled."""
        row = self._database.row(
            "SELECT number, token_digest FROM gateways WHERE gateway_id = %s", (gateway_id,)
        )
        return None if row is None else EnrolledGateway(*row)

    def population(self) -> int:
        """Number of ordinals that were given."""
        return self._database.read(_population)

    def acknowledged_sequence(self, ordinal: int) -> int:
        """The highest sequence number in the accepted reports of a user; 0 for none."""
        row = self._database.row(
            "SELECT acknowledged_sequence FROM devices WHERE ordinal = %s", (ordinal,)
        )
        return 0 if row is None else int(row[0])


def _population(connection: Connection, lock: str = "") -> int:
    return int(one_row(connection, f"SELECT devices FROM population{lock}")[0])


def _known(connection: Connection, listed: list[tuple[bytes, bytes]]) -> dict[int, bytes]:
    """The token digests of the devices that are enrolled, by their place in the list."""
    known: dict[int, bytes] = {}
    for start in range(0, len(listed), _ENROLLED_AT_ONCE):
        ids = [device_id for device_id, _ in listed[start : start + _ENROLLED_AT_ONCE]]
        rows = connection.execute(
            "SELECT place - 1, token_digest FROM unnest(%s::bytea[]) WITH ORDINALITY"
            " AS a (device_id, place) JOIN devices USING (device_id)",
            (ids,),
            binary=True,
        )
        known.update((start + place, digest) for place, digest in rows)
    return known


def _add_devices(connection: Connection, start: int, fresh: list[tuple[bytes, bytes]]) -> None:
    """Add devices that are not known; the population's row is locked."""
    for first in range(0, len(fresh), _ENROLLED_AT_ONCE):
        part = fresh[first : first + _ENROLLED_AT_ONCE]
        connection.execute(
            "INSERT INTO devices (ordinal, device_id, token_digest, enrolled_day)"
            " SELECT %s + place - 1, device_id, token_digest,"
            " floor(extract(epoch FROM clock_timestamp()) / 86400)::bigint"
            " FROM unnest(%s::bytea[], %s::bytea[]) WITH ORDINALITY"
            " AS a (device_id, token_digest, place)",
            (start + first, [one for one, _ in part], [digest for _, digest in part]),
        )
    connection.execute("UPDATE population SET devices = %s", (start + len(fresh),))


def _gateway_number(connection: Connection, gateway: tuple[bytes, bytes]) -> int:
    """Return a gateway's number, which it gets when it is new; the population's row is locked."""
    connection.execute(
        "INSERT INTO gateways (number, gateway_id, token_digest)"
        " SELECT coalesce(max(number), 0) + 1, %s, %s FROM gateways"
        " ON CONFLICT (gateway_id) DO NOTHING",
        gateway,
    )
    number, token_digest = one_row(
        connection, "SELECT number, token_digest FROM gateways WHERE gateway_id = %s", gateway[:1]
    )
    if token_digest != gateway[1]:
        raise refuse_other_gateway()
    return int(number)


def _join(connection: Connection, gateway: int, listed: list[tuple[bytes, bytes]]) -> None:
    """Make known devices members of a gateway; those that are already are not written again."""
    for start in range(0, len(listed), _ENROLLED_AT_ONCE):
        connection.execute(
            "UPDATE devices SET gateway = %s WHERE device_id = ANY(%s)"
            " AND gateway IS DISTINCT FROM %s",
            (gateway, [one for one, _ in listed[start : start + _ENROLLED_AT_ONCE]], gateway),
        )
