"""Members that a device stands for: their names, and their records at their source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from askance_client import service
from askance_client.cli.configuration import DeviceConfiguration
from askance_client.cli.home import DeviceHome
from askance_client.errors import InvalidParameter
from askance_client.ledger import LedgerFile
from askance_client.queries import Schema
from askance_client.randomizers import Coins
from askance_client.records import (
    ALONE,
    LiveRecord,
    Members,
    ReadLimits,
    RecordSource,
    Several,
    binding,
    schema_from_toml,
)


@dataclass(frozen=True, slots=True, eq=False)
class MemberRoster:
    """Members of a source, in its order."""

    schema: Schema
    source: RecordSource
    members: Members
    columns: Mapping[str, str]
    several: Several

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the members; for a single device `ALONE`."""
        return self.members.names

    @property
    def warnings(self) -> tuple[str, ...]:
        """Malformed rows and rows that are left out, by place in the source, without a value."""
        return self.members.warnings

    @property
    def binding(self) -> Mapping[str, str]:
        """Texts that the folder's ledger must be bound to."""
        return binding(self.source.naming, self.schema)

    def unfit(self) -> Mapping[str, int]:
        """Count the records with a value that fits nothing in the schema, by field.

        Empty where the source was not read as a whole.
        """
        table = self.members.table
        return {} if table is None else table.unfit(self.schema, self.columns)

    def record(
        self, place: int, coins: Coins, on_failure: Callable[[Exception], None]
    ) -> LiveRecord:
        """Return the record of the member at a place in `names`, which is read when asked for."""
        return LiveRecord(
            self.source,
            self.names[place],
            schema=self.schema,
            columns=self.columns,
            several=self.several,
            coins=coins,
            on_failure=on_failure,
        )

    def at_work(
        self,
        secret: service.Secret,
        file: LedgerFile,
        coins: Coins,
        on_failure: Callable[[Exception], None],
    ) -> list[service.Member]:
        """Return the members of a gateway."""
        return [
            service.Member(
                name,
                identity,
                self.record(place, coins, on_failure),
                file.ledger(name, identity.device_id),
            )
            for place, (name, identity) in enumerate(
                zip(self.names, identities_of(secret, self.names), strict=True)
            )
        ]


def identities_of(secret: service.Secret, names: Sequence[str]) -> Iterator[service.Identity]:
    """Derive the identities of members, or of a single device."""
    for name in names:
        yield secret.device() if name == ALONE else secret.member(name)


def gateway_identity(secret: service.Secret, names: Sequence[str]) -> service.Identity | None:
    """Derive the identity of a gateway of these members; None for a single device."""
    return None if tuple(names) == (ALONE,) else secret.gateway()


def enrolment_of(
    home: DeviceHome,
    names: Sequence[str],
    connection: service.AggregatorAccess,
    token: bytes | None,
) -> service.Enrolment:
    """Return the enrolment of a folder's members (see `Enrolment`)."""
    secret = home.secret()
    return service.Enrolment(
        home.enrolment_path,
        connection.open_side,
        list(identities_of(secret, names)),
        gateway_identity(secret, names),
        connection.certificate,
        token,
    )


def read_people(configuration: DeviceConfiguration) -> MemberRoster:
    """Name the members of the source that a configuration names."""
    settings = configuration.records
    schema = read_schema(configuration)
    source = open_records(configuration)
    roster = MemberRoster(schema, source, source.members(), settings.columns, settings.several)
    if roster.members.table is not None:
        roster.members.table.encoder(schema, settings.columns)  # a missing column is known at once
    return roster


def open_records(configuration: DeviceConfiguration) -> RecordSource:
    """Make the source that a configuration names; nothing is read."""
    limits = ReadLimits(
        service.time_limit_ms(configuration.release_ms), service.steady_ms, service.system_now_ms
    )
    return configuration.records.source(limits)


def read_schema(configuration: DeviceConfiguration) -> Schema:
    """Read the schema that a configuration names."""
    schema, place = schema_from_toml(configuration.records.schema), f"{configuration.path}: "
    check_fields(schema, f"{place}policy.fields", configuration.policy.fields or ())
    check_fields(schema, f"{place}records.fields", configuration.records.columns)
    return schema


def check_fields(schema: Schema, place: str, names: Iterable[str]) -> None:
    """Refuse names that are no fields of a schema."""
    unknown = sorted(set(names) - schema.fields.keys())
    if unknown:
        raise InvalidParameter(f"{place}: expected fields of the schema, got {unknown[0]!r}")
