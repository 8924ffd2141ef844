"""An aggregator's configuration: one TOML file, read whole or refused with the place of the error.

Relative paths in it are relative to the file. What each key says stands in the file that
`askance aggregator init` writes (`template`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_network
from pathlib import Path

from askance_aggregator.numbers import at_least_one
from askance_aggregator.server.callers import CallerLimits
from askance_aggregator.server.devices import Network
from askance_aggregator.server.process.callers_table import (
    CallerSettings,
    public_key,
    read_callers,
)
from askance_aggregator.server.process.files import SecretSource, SecretVariable
from askance_aggregator.server.process.quotas_table import a_budget, read_quotas
from askance_aggregator.server.process.telemetry_settings import (
    TelemetrySettings,
    read_telemetry,
)
from askance_aggregator.server.studies import KEEP_ALL, KeepLimits
from askance_aggregator.server.studies.quotas import DEFAULT_QUOTAS, Quotas
from askance_aggregator.store import StoreLocation, store_location
from askance_aggregator.studies.keep import UNLIMITED, Keep
from askance_client.addresses import Address
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text
from askance_client.toml_tables import (
    TomlTable,
    a_text,
    texts,
    true_or_false,
)

LOG_LEVELS = ("debug", "info", "warning", "error")
_REPLICA_LETTERS = 64
_LIFE_S = 30 * 86_400  # a device that is away for 10 days of it need not be enrolled anew
_COUNTS = (
    "open_studies",
    "streams",
    "members",
    "check_ins",
    "connections",
    "unproven_calls",
    "unproven_calls_per_address",
    "handshake_s",
    "first_message_s",
    "idle_s",
    "age_s",
    "retry_ms",
)
_CALLER_COUNTS = tuple(one.name for one in fields(CallerLimits))


@dataclass(frozen=True, slots=True)
class DeviceTls:
    """Certificates of devices, and the listener where they are shown.

    Args:
      listen: where devices call.
      public_port: that devices are told, where a proxy stands before `listen`; None: its own.
      authority: certificates (PEM) that devices' may be signed by; new ones are by the first.
      key: of the first (PEM).
      life_s: of a device's certificate, in seconds.
      needed: whether devices without a certificate are refused; otherwise they may call where
        analysts do.
    """

    listen: Address
    authority: Path
    key: SecretSource
    life_s: int = _LIFE_S
    needed: bool = True
    public_port: int | None = None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Places of the server's certificate and its key (PEM).

    Args:
      certificate: the server's, then those between it and the root.
      key: its key.
      devices: certificates of devices.
      authority: certificates of its issuer, which `certificates show` and `renew` read; None: not
        named. Devices trust what their owners do and nothing that an aggregator sends.
    """

    certificate: Path
    key: SecretSource
    devices: DeviceTls
    authority: Path | None = None


@dataclass(frozen=True, slots=True)
class StudyLimits:
    """Limits on the studies that the aggregator accepts.

    Args:
      user_nano_nats: of each user over all studies together; None: only devices' own budgets.
      open_studies: at one time.
      streams: open at one time; a gateway has one for all its devices.
      members: devices connected at one time, those of gateways included.
      check_ins: at work at one time.
      connections: at one time.
      unproven_calls: at one time, of callers that have not proved an identity.
      unproven_calls_per_address: of these, per IPv4 address or IPv6 network of 64 bits.
      trusted_proxies: networks that are exempt from the limit per address.
      handshake_s: seconds for a connection's TLS and HTTP/2 handshakes.
      first_message_s: seconds for the first message of a call.
      idle_s: seconds after which a connection without a call is closed.
      age_s: seconds after which a connection takes no new calls.
      retry_ms: least wait that an overloaded aggregator asks for, in milliseconds.
      callers: on calls of analysts and operators.
    """

    user_nano_nats: int | None = None
    open_studies: int = 64
    streams: int = 50_000
    check_ins: int = 1_000
    members: int = 1_000_000
    connections: int = 60_000
    unproven_calls: int = 1_024
    unproven_calls_per_address: int = 256
    trusted_proxies: frozenset[Network] = frozenset()
    handshake_s: int = 10
    first_message_s: int = 5
    idle_s: int = 600
    age_s: int = 86_400
    retry_ms: int = 1_000
    callers: CallerLimits = field(default_factory=CallerLimits)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings of an operator.

    Args:
      listen: where analysts call, and devices to be enrolled; without TLS all devices.
      store: address of the store.
      tls: None for plain text.
      plaintext: whether plain text may be spoken at an address that others can reach.
      enrolment_key: None: no enrolment over the network.
      analysts: Ed25519 public keys whose studies are taken.
      limits: what is taken on.
      metrics: where the page of metrics is; None: there is none.
      log_level: the least that is logged.
      callers: who may call besides the analysts, or has a name and a role of its own.
      keep: how long reports and results of ended studies are kept.
      telemetry: where spans and metrics are sent; None: nowhere.
      quotas: what each analyst may submit.
      replica: this process's name among those that share the store; None: host and process id.
    """

    listen: Address
    store: StoreLocation
    tls: TlsFiles | None
    plaintext: bool
    enrolment_key: SecretSource | None
    analysts: frozenset[bytes]
    limits: StudyLimits
    metrics: Address | None
    log_level: str
    callers: CallerSettings = field(default_factory=CallerSettings)
    keep: KeepLimits = KEEP_ALL
    telemetry: TelemetrySettings | None = None
    quotas: Quotas = DEFAULT_QUOTAS
    replica: str | None = None

    def __post_init__(self) -> None:
        self.callers.check_analysts(self.analysts)
        if self.tls is not None and self.plaintext:
            raise InvalidParameter("plaintext: expected no such key beside [tls], got true")
        if self.tls is None and not self.plaintext and not self.listen.is_loopback:
            raise InvalidParameter(
                f"listen: expected a loopback address for plain text, got {str(self.listen)!r}"
                " (set [tls], or plaintext = true)"
            )
        if self.callers.oidc is not None and self.tls is None and not self.listen.is_loopback:
            raise InvalidParameter(
                "callers.oidc: expected [tls], which hides tokens, got plain text at"
                f" {str(self.listen)!r}"
            )

    @property
    def secret_files(self) -> tuple[Path, ...]:
        """Files that only the aggregator's user may read."""
        pair = () if self.tls is None else (self.tls.key, self.tls.devices.key)
        sources = (*pair, self.enrolment_key)
        files = tuple(source for source in sources if isinstance(source, Path))
        return (*files, *self.store.secret_files)


def read_configuration(
    path: Path, *, listen: Address | None = None, store: StoreLocation | None = None
) -> Configuration:
    """The configuration in a file.

    Args:
      path: the file.
      listen: address in place of the file's, if given.
      store: store in place of the file's, if given; a password file that is configured is its.

    Raises:
      InvalidParameter: no file, not TOML, or something in it that does not belong there.
    """
    if not path.is_file():
        raise InvalidParameter(
            f"{path}: expected a configuration, got no file (askance aggregator init makes one)"
        )
    given, folder = TomlTable.of_file(path), path.parent
    listen_there = given.need("listen", address)
    there = given.need("store", lambda value: store_location(a_text(value), folder))
    password = given.get("store_password_file", lambda value: folder / a_text(value))
    replica = given.get("replica", _replica_name)
    plaintext = given.get("plaintext", true_or_false) or False
    tls, enrolment = given.table("tls"), given.table("enrolment")
    analysts, limits = given.table("analysts"), given.table("limits")
    metrics, logs = given.table("metrics"), given.table("logs")
    callers, keep = given.table("callers"), given.table("keep")
    quotas = given.table("quotas")
    tls_files = None if tls is None else _tls(tls, folder)
    enrolment_key = None if enrolment is None else _secret(enrolment, "key", folder)
    keys = frozenset[bytes]() if analysts is None else analysts.need("keys", public_keys)
    taken_on = StudyLimits() if limits is None else _limits(limits)
    page = None if metrics is None else metrics.need("listen", address)
    collector = given.table("telemetry")
    sent = None if collector is None else read_telemetry(collector, folder)
    kept = KEEP_ALL if keep is None else _keep(keep, path)
    level = None if logs is None else logs.get("level", _log_level)
    named = CallerSettings() if callers is None else read_callers(callers, folder)
    allowed = DEFAULT_QUOTAS if quotas is None else read_quotas(quotas)
    given.finish()
    try:
        located = store or there
        if password is not None:
            located = located.with_password_file(password)
        return Configuration(
            listen=listen or listen_there,
            store=located,
            tls=tls_files,
            plaintext=plaintext,
            enrolment_key=enrolment_key,
            analysts=keys,
            limits=taken_on,
            metrics=page,
            log_level=level or "info",
            replica=replica,
            callers=named,
            keep=kept,
            telemetry=sent,
            quotas=allowed,
        )
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: {error}") from None


def address(value: object) -> Address:
    """HOST:PORT."""
    return Address.of(a_text(value))


def public_keys(value: object) -> frozenset[bytes]:
    """Ed25519 public keys in hexadecimal digits."""
    return frozenset(_public_key(place, text) for place, text in enumerate(texts(value)))


def _public_key(place: int, text: str) -> bytes:
    try:
        return public_key(text)
    except InvalidParameter as error:
        raise InvalidParameter(f"{error} at {place}") from None


def _tls(table: TomlTable, folder: Path) -> TlsFiles:
    devices, authority = table.table("devices"), table.get("authority", a_text)
    certificate = folder / table.need("certificate", a_text)
    key = _secret(table, "key", folder)
    if devices is None:
        raise InvalidParameter(
            f"{table.place('devices')}: expected the table of devices' certificates, got none"
            " (add it as `askance aggregator init` writes it; see docs/deployment.md)"
        )
    issuers = None if authority is None else folder / authority
    return TlsFiles(certificate, key, _device_tls(devices, folder), issuers)


def _device_tls(table: TomlTable, folder: Path) -> DeviceTls:
    return DeviceTls(
        table.need("listen", address),
        folder / table.need("authority", a_text),
        _secret(table, "authority_key", folder),
        table.get("life_s", at_least_one) or _LIFE_S,
        table.get("require_certificates", true_or_false) is not False,
        table.get("public_port", _port),
    )


def _port(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 1 << 16:
        raise InvalidParameter(f"expected a port, got {value_text(value)}")
    return value


def _secret(table: TomlTable, key: str, folder: Path) -> SecretSource:
    """Read the place of a secret: a file (`key`, or `key_file`), or a variable (`key_env`)."""
    path, other = table.get(key, a_text), table.get(f"{key}_file", a_text)
    variable = table.get(f"{key}_env", a_text)
    given = [one for one in (path, other, variable) if one is not None]
    if not given:
        table.need(key, a_text)  # the refusal of a missing key
    if len(given) > 1:
        raise InvalidParameter(
            f"{table.place(key)}: expected one of {key}, {key}_file and {key}_env, got several"
        )
    return folder / given[0] if variable is None else SecretVariable(variable)


def _limits(table: TomlTable) -> StudyLimits:
    proxies = table.get("trusted_proxies", networks)
    given = {key: table.get(key, at_least_one) for key in _COUNTS}
    of_callers = {key: table.get(key, at_least_one) for key in _CALLER_COUNTS}
    try:
        callers = CallerLimits(
            **{key: number for key, number in of_callers.items() if number is not None}
        )
    except InvalidParameter as error:
        raise InvalidParameter(table.place(str(error))) from None
    return StudyLimits(
        callers=callers,
        user_nano_nats=table.get("epsilon_per_user", a_budget),
        trusted_proxies=proxies or frozenset(),
        **{key: number for key, number in given.items() if number is not None},
    )


def _keep(table: TomlTable, path: Path) -> KeepLimits:
    reports, results = table.get("reports_days", _days), table.get("results_days", _days)
    most = table.get("most_reports_days", _days), table.get("most_results_days", _days)
    every_s = table.get("collect_every_s", at_least_one)
    try:
        found = KeepLimits(Keep(reports, results), Keep(*most))
        UNLIMITED.within(found.default, found.most)
        found.default.within(found.default, found.most)
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: keep: {error}") from None
    return found if every_s is None else replace(found, every_s=every_s)


def _days(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidParameter(f"expected a whole number of days, got {value_text(value)}")
    return value


def networks(value: object) -> frozenset[Network]:
    """Parse a list of networks: "192.0.2.0/24", "2001:db8::/32", or one address."""
    return frozenset(_network(text) for text in texts(value))


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise InvalidParameter(f"expected addresses or networks, got {value_text(text)}") from None


def _replica_name(value: object) -> str:
    name = a_text(value)
    if not 1 <= len(name) <= _REPLICA_LETTERS or not name.isprintable():
        raise InvalidParameter(
            f"expected 1 to {_REPLICA_LETTERS} printable characters, got {value_text(name)}"
        )
    return name


def _log_level(value: object) -> str:
    level = a_text(value)
    if level not in LOG_LEVELS:
        raise InvalidParameter(unknown_text(level, LOG_LEVELS))
    return level
