"""An aggregator's configuration: one TOML file, read whole or refused with the place of the error.

Relative paths in it are relative to the file. What each key says stands in the file that
`askance aggregator init` writes (`template`).
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from askance_aggregator.server.devices import Network
from askance_client.accounting import parse_epsilon
from askance_client.addresses import Address
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text
from askance_client.toml_tables import (
    TomlTable,
    a_text,
    at_least_one,
    texts,
    true_or_false,
)

LOG_LEVELS = ("debug", "info", "warning", "error")
_STORE_PREFIX = "sqlite:///"
_PUBLIC_KEY_BYTES = 32
_COUNTS = (
    "open_studies",
    "streams",
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


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of the server's certificate and its key (PEM)."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class StudyLimits:
    """Limits on the studies that the aggregator accepts.

    Args:
      user_nano_nats: of each user over all studies together; None: only devices' own budgets.
      open_studies: at one time.
      streams: devices connected at one time.
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
    """

    user_nano_nats: int | None = None
    open_studies: int = 64
    streams: int = 50_000
    check_ins: int = 1_000
    connections: int = 60_000
    unproven_calls: int = 1_024
    unproven_calls_per_address: int = 256
    trusted_proxies: frozenset[Network] = frozenset()
    handshake_s: int = 10
    first_message_s: int = 5
    idle_s: int = 600
    age_s: int = 86_400
    retry_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings of an operator.

    Args:
      listen: where devices and analysts call.
      store: the SQLite file.
      tls: None for plain text.
      plaintext: whether plain text may be spoken at an address that others can reach.
      enrolment_key: None: no enrolment over the network.
      analysts: Ed25519 public keys whose studies are taken.
      limits: what is taken on.
      metrics: where the page of metrics is; None: there is none.
      log_level: the least that is logged.
    """

    listen: Address
    store: Path
    tls: TlsFiles | None
    plaintext: bool
    enrolment_key: Path | None
    analysts: frozenset[bytes]
    limits: StudyLimits
    metrics: Address | None
    log_level: str

    def __post_init__(self) -> None:
        if self.tls is not None and self.plaintext:
            raise InvalidParameter("plaintext: expected no such key beside [tls], got true")
        if self.tls is None and not self.plaintext and not self.listen.is_loopback:
            raise InvalidParameter(
                f"listen: expected a loopback address for plain text, got {str(self.listen)!r}"
                " (set [tls], or plaintext = true)"
            )


def read_configuration(
    path: Path, *, listen: Address | None = None, store: Path | None = None
) -> Configuration:
    """The configuration in a file.

    Args:
      path: the file.
      listen: address in place of the file's, if given.
      store: path in place of the file's, if given.

    Raises:
      InvalidParameter: no file, not TOML, or something in it that does not belong there.
    """
    if not path.is_file():
        raise InvalidParameter(
            f"{path}: expected a configuration, got no file (askance aggregator init makes one)"
        )
    given, folder = TomlTable.of_file(path), path.parent
    listen_there, store_there = given.need("listen", address), given.need("store", store_file)
    plaintext = given.get("plaintext", true_or_false) or False
    tls, enrolment = given.table("tls"), given.table("enrolment")
    analysts, limits = given.table("analysts"), given.table("limits")
    metrics, logs = given.table("metrics"), given.table("logs")
    tls_files = None if tls is None else _tls(tls, folder)
    enrolment_key = None if enrolment is None else folder / enrolment.need("key", a_text)
    keys = frozenset[bytes]() if analysts is None else analysts.need("keys", public_keys)
    taken_on = StudyLimits() if limits is None else _limits(limits)
    page = None if metrics is None else metrics.need("listen", address)
    level = None if logs is None else logs.get("level", _log_level)
    given.finish()
    try:
        return Configuration(
            listen=listen or listen_there,
            store=store or folder / store_there,
            tls=tls_files,
            plaintext=plaintext,
            enrolment_key=enrolment_key,
            analysts=keys,
            limits=taken_on,
            metrics=page,
            log_level=level or "info",
        )
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: {error}") from None


def address(value: object) -> Address:
    """HOST:PORT."""
    return Address.of(a_text(value))


def store_file(value: object) -> Path:
    """The file that a store's address names: sqlite:///FILE, relative, or sqlite:////FILE."""
    text = a_text(value)
    name = text.removeprefix(_STORE_PREFIX)
    if name == text or not name:
        raise InvalidParameter(
            f"expected {_STORE_PREFIX}FILE, got {value_text(_without_password(text))}"
        )
    return Path(name)


def _without_password(store: str) -> str:
    """Return a store's address without the user and password that it may hold."""
    scheme, mark, rest = store.partition("://")
    return f"{scheme}://...@{rest.rpartition('@')[2]}" if mark and "@" in rest else store


def public_keys(value: object) -> frozenset[bytes]:
    """Ed25519 public keys in hexadecimal digits."""
    return frozenset(_public_key(place, text) for place, text in enumerate(texts(value)))


def _public_key(place: int, text: str) -> bytes:
    digits = 2 * _PUBLIC_KEY_BYTES
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _PUBLIC_KEY_BYTES or len(text) != digits:
        raise InvalidParameter(
            f"expected {digits} hexadecimal digits per key, got {len(text)} characters at {place}"
        )
    return key


def _tls(table: TomlTable, folder: Path) -> TlsFiles:
    return TlsFiles(folder / table.need("certificate", a_text), folder / table.need("key", a_text))


def _limits(table: TomlTable) -> StudyLimits:
    proxies = table.get("trusted_proxies", networks)
    given = {key: table.get(key, at_least_one) for key in _COUNTS}
    return StudyLimits(
        user_nano_nats=table.get("epsilon_per_user", _epsilon),
        trusted_proxies=proxies or frozenset(),
        **{key: number for key, number in given.items() if number is not None},
    )


def networks(value: object) -> frozenset[Network]:
    """Parse a list of networks: "192.0.2.0/24", "2001:db8::/32", or one address."""
    return frozenset(_network(text) for text in texts(value))


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise InvalidParameter(f"expected addresses or networks, got {value_text(text)}") from None


def _epsilon(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return parse_epsilon(value)
    return parse_epsilon(a_text(value))


def _log_level(value: object) -> str:
    level = a_text(value)
    if level not in LOG_LEVELS:
        raise InvalidParameter(unknown_text(level, LOG_LEVELS))
    return level
