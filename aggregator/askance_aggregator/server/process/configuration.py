"""An aggregator's configuration: one TOML file, read whole or refused with the place of the error.

Each key is declared once, here or where its value is used (`Settings`, `CallerLimits`, `Quota`):
an annotated argument with its documentation. Reading (`declared_file`), the file that
`askance aggregator init` writes (`template`), the page of the documentation, variables of the
environment, and what a reload may change follow from it. Relative paths are relative to the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

from askance_aggregator.declarations import Key, KeyGroup, KeyRows, KeyTable, Read, budget_value
from askance_aggregator.numbers import at_least_one
from askance_aggregator.server.callers import Caller, CallerLimits, OidcSettings, Role, TokenCallers
from askance_aggregator.server.callers.key_sources import key_source
from askance_aggregator.server.devices import Network, Settings
from askance_aggregator.server.process.declared_file import read_file
from askance_aggregator.server.process.files import NotOperable, SecretSource
from askance_aggregator.server.studies import KEEP_ALL, KeepLimits
from askance_aggregator.server.studies.quotas import DEFAULT_QUOTAS, Quota, Quotas
from askance_aggregator.server.webhooks.receivers import (
    LONGEST_WAIT_S,
    TIMEOUT_S,
    TRY_FOR_S,
    WebhookReceiver,
)
from askance_aggregator.store import StoreLocation, store_location
from askance_aggregator.studies.keep import UNLIMITED, Keep
from askance_aggregator.urls import check_url
from askance_client.addresses import Address
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text
from askance_client.toml_tables import a_text, texts, true_or_false

LOG_LEVELS = ("debug", "info", "warning", "error")
_LIFE_S = 30 * 86_400  # a device that is away for 10 days of it need not be enrolled anew
_PUBLIC_KEY_BYTES = 32
_MAX_NAME = 64  # characters; a name stands in each entry of the audit log
_SIGNING = (Role.ANALYST, Role.ADMIN)  # roles that submit studies
_APPROVING = (Role.APPROVER, Role.ADMIN)
_OTLP_PORT = 4317  # OTLP over gRPC
_OWN_PORTS = {"http": 80, "https": 443}  # which browsers leave out of an origin
_ORIGIN = "expected an origin as browsers write it, https://HOST or https://HOST:PORT"
_COLLECTOR = "expected http://HOST:PORT or https://HOST:PORT"
_KEY = '"64 hexadecimal digits"'


def _printable(value: object, _: Path) -> str:
    text = a_text(value)
    if len(text) > _MAX_NAME or not text.isprintable():
        raise InvalidParameter(
            f"expected 1 to {_MAX_NAME} printable characters, got {value_text(text)}"
        )
    return text


def _public_key(value: object, _: Path) -> bytes:
    text, digits = a_text(value), 2 * _PUBLIC_KEY_BYTES
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _PUBLIC_KEY_BYTES or len(text) != digits:
        raise InvalidParameter(
            f"expected {digits} hexadecimal digits per key, got {len(text)} characters"
        )
    return key


def _analyst_keys(value: object, folder: Path) -> dict[bytes, str]:
    """Return analysts' names by their keys; empty: one without a name."""
    named = value.items() if isinstance(value, dict) else (("", text) for text in texts(value))
    keys: dict[bytes, str] = {}
    for place, (name, text) in enumerate(named):
        try:
            key = _public_key(text, folder)
            name = name and _printable(name, folder)
        except InvalidParameter as error:
            raise InvalidParameter(f"{error} at {name or place}") from None
        if keys.setdefault(key, name) != name:
            raise InvalidParameter(
                f"expected one name per key, got {value_text(keys[key])} and {value_text(name)}"
            )
    return keys


def _files(value: object, folder: Path) -> tuple[Path, ...]:
    return tuple(folder / path for path in texts(value))


def _days(value: object, _: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidParameter(f"expected a whole number of days, got {value_text(value)}")
    return value


def _log_level(value: object, _: Path) -> str:
    level = a_text(value)
    if level not in LOG_LEVELS:
        raise InvalidParameter(unknown_text(level, LOG_LEVELS))
    return level


def _endpoint(value: object, _: Path) -> str:
    text = a_text(value)
    try:
        parts = urlsplit(text)
        sound = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or parts.scheme not in ("http", "https") or parts.path.strip("/") or parts.query:
        raise InvalidParameter(f"{_COLLECTOR}, got {value_text(text)}")
    if parts.username is not None:
        raise InvalidParameter(
            f"{_COLLECTOR}, got one with a user (set OTEL_EXPORTER_OTLP_HEADERS)"
        )
    return text


@dataclass(frozen=True, slots=True)
class DeviceTls:
    """Certificates of devices, and the listener where they are shown."""

    listen: Annotated[Address, Key("where devices call", fixed=True)]
    authority: Annotated[
        Path, "certificates (PEM) that devices' may be signed by; new ones are by the first"
    ]
    key: Annotated[
        SecretSource, Key('of the first; or authority_key_env = "NAME"', name="authority_key")
    ]
    life_s: Annotated[
        int, "of a certificate; renewed at two thirds of it, and the old one goes on for a tenth"
    ] = _LIFE_S
    needed: Annotated[
        bool,
        Key(
            "false: devices of earlier versions may call where analysts do",
            name="require_certificates",
            fixed=True,
        ),
    ] = True
    advertised: Annotated[
        Address | None,
        Key(
            "where devices are told to call: a proxy's address, for which the certificate is, too."
            " Left out: the host by which they know `listen` above, and the port of this listener",
            '"devices.example.org:7445"',
            fixed=True,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Places of the server's certificate and its key (PEM)."""

    certificate: Annotated[Path, "the server's, then those between it and the root (PEM)"]
    key: Annotated[
        SecretSource,
        'its key; or key_env = "NAME", a variable of the environment with its text',
    ]
    devices: Annotated[
        DeviceTls,
        KeyTable(
            "Where devices answer: they show a certificate, which each one gets by itself, signed"
            " by the key of the devices' authority. Every replica reads the same two files, and has"
            " the same port."
        ),
    ]
    authority: Annotated[
        Path | None,
        Key(
            "certificates of its issuer, which `certificates show` and `renew` read; devices trust"
            " what their owners do, and nothing that an aggregator sends",
            '"ca.pem"',
        ),
    ] = None


def _origins(value: object, _: Path) -> tuple[str, ...]:
    for text in texts(value):
        try:
            parts = urlsplit(text)
            sound = bool(parts.hostname) and parts.port not in (0, _OWN_PORTS.get(parts.scheme))
        except ValueError:
            sound = False
        written = f"{parts.scheme}://{parts.netloc}" if sound else ""
        if text != written.lower() or parts.scheme not in ("http", "https") or "@" in text:
            raise InvalidParameter(f"{_ORIGIN}, got {value_text(text)}")
    return tuple(texts(value))


@dataclass(frozen=True, slots=True)
class ConnectSettings:
    """Check-ins of devices by Connect."""

    origins: Annotated[
        tuple[str, ...],
        Key(
            "of pages that may call; other programs need no entry",
            '["https://ask.example.org"]',
            read=_origins,
        ),
    ] = ()
    check_in_every_s: Annotated[
        int,
        Key("a device is asked to check in again after so long to twice as long", fixed=True),
    ] = 60


@dataclass(frozen=True, slots=True)
class DevicePresence:
    """Days of devices that are away."""

    seen_within_days: Annotated[
        int | None,
        Key(
            "a study is planned for the devices that have called, or were enrolled, within so many"
            " days, and asks these alone; fixed when a collection begins",
            "30",
        ),
    ] = None
    lapse_after_days: Annotated[
        int | None,
        Key(
            "a device that has not called for more days is forgotten: it has to be enrolled anew,"
            " as another user. Revoked ones stay, and days without a call of any do not count",
            "400",
            fixed=True,
        ),
    ] = None

    def __post_init__(self) -> None:
        seen, lapse = self.seen_within_days, self.lapse_after_days
        if seen is not None and lapse is not None and lapse < seen:
            raise InvalidParameter(
                f"lapse_after_days: expected seen_within_days ({seen}) or more, got {lapse}"
            )


@dataclass(frozen=True, slots=True)
class StudyLimits:
    """Limits on studies, on the devices' service and on calls of analysts and operators."""

    user_nano_nats: Annotated[
        int | None,
        Key(
            "each user's epsilon over all studies together; a study that could pass it is refused."
            " Left out: no limit here; devices keep budgets of their own, whatever stands here",
            '"8"',
            name="epsilon_per_user",
            read=budget_value,
        ),
    ] = None
    open_studies: Annotated[int, "at one time"] = 64
    service: Annotated[Settings, KeyGroup()] = field(default_factory=Settings)
    callers: Annotated[CallerLimits, KeyGroup()] = field(default_factory=CallerLimits)
    header_senders: Annotated[
        frozenset[Network],
        Key(
            "addresses or networks of proxies whose connections to `listen` begin with the caller's"
            " address (PROXY protocol, version 2); one without it is closed",
            '["10.0.0.5"]',
            name="proxy_protocol",
        ),
    ] = frozenset()


def _caller(
    name: Annotated[str, Key("in the audit log; no secret", '"ops"', read=_printable)],
    key: Annotated[bytes, Key("its public key (askance study key)", _KEY)],
    role: Annotated[Role, Key("viewer, analyst, approver, operator or admin", '"operator"')],
) -> Caller:
    return Caller(name, role, key)


@dataclass(frozen=True, slots=True)
class CallerSettings:
    """Callers that the operator has named."""

    named: Annotated[
        tuple[Caller, ...],
        KeyRows(
            "Others who call, each with a name, a public key and a role: viewer (reads all studies"
            " and results), analyst (its own studies), approver (as viewer, and approves studies),"
            " operator (devices, progress of all studies, no results) or admin (all). A key of"
            " [analysts] that is not named is an analyst's.",
            _caller,
            name="keys",
        ),
    ] = ()
    oidc: Annotated[
        OidcSettings | None,
        KeyTable(
            "Callers by tokens of an OpenID Connect issuer (pip install 'askance[oidc]'). They"
            " authenticate calls; a study is signed by its analyst's key all the same.",
            shown=False,
        ),
    ] = None

    def __post_init__(self) -> None:
        for what, found in (
            ("names", [caller.name for caller in self.named]),
            ("keys", [caller.key.hex() for caller in self.named]),
        ):
            twice = next((one for place, one in enumerate(found) if one in found[:place]), None)
            if twice is not None:
                raise InvalidParameter(
                    f"keys: expected distinct {what}, got {value_text(twice)} twice"
                )

    @property
    def signing(self) -> frozenset[bytes]:
        """Keys of the callers whose studies are accepted."""
        by_token = self.oidc.signing_keys.values() if self.oidc else ()
        named = (caller.key for caller in self.named if caller.role in _SIGNING)
        return frozenset((*named, *by_token))

    @property
    def has_approvers(self) -> bool:
        """True if a caller may approve studies."""
        by_token = self.oidc is not None and bool(self.oidc.approving_keys)
        return by_token or any(caller.role in _APPROVING for caller in self.named)

    def check_names(self, analysts: Mapping[bytes, str]) -> None:
        """Raise InvalidParameter if an analyst's key has no name, here or in [analysts]."""
        named = {caller.key for caller in self.named}
        named.update(self.oidc.signing_keys.values() if self.oidc else ())
        without = [key.hex() for key, name in analysts.items() if not name and key not in named]
        if without:
            raise InvalidParameter(
                "approval: expected a name for each key in analysts.keys"
                f' (ann = "64 hexadecimal digits"), got {without[0]} without one'
            )

    def tokens(self, now_s: Callable[[], int]) -> TokenCallers | None:
        """Return the callers by tokens; None if no tokens are accepted."""
        if self.oidc is None:
            return None
        try:
            from askance_aggregator.server.callers.bearer import BearerCallers, IssuerKeys
        except ImportError as error:
            raise NotOperable(
                f"callers.oidc: expected joserfc, got {error} (pip install 'askance[oidc]')"
            ) from None
        return BearerCallers(self.oidc, IssuerKeys(key_source(self.oidc.jwks, Path()), now_s))

    def check_analysts(self, analysts: Mapping[bytes, str]) -> None:
        """Raise InvalidParameter if an analyst's key has another role, or its name another key."""
        keys = {name: key for key, name in analysts.items() if name}
        for caller in self.named:
            if keys.get(caller.name, caller.key) != caller.key:
                raise InvalidParameter(
                    f"callers.keys: expected distinct names, got {value_text(caller.name)}, which"
                    " is another key's in analysts.keys"
                )
            if caller.key in analysts and caller.role not in _SIGNING:
                raise InvalidParameter(
                    f"callers.keys: expected the role analyst or admin for {caller.name}, whose key"
                    f" stands in analysts.keys too, got {caller.role}"
                )


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Place to which spans and metrics are sent."""

    endpoint: Annotated[
        str,
        Key(
            "of a collector that takes OTLP over gRPC",
            '"http://127.0.0.1:4317"',
            read=_endpoint,
        ),
    ]
    ca: Annotated[
        Path | None,
        Key("by which the collector's certificate is checked (PEM)", '"collector-ca.pem"'),
    ] = None
    interval_s: Annotated[int, "between two sendings of the metrics"] = 60
    commits_per_span: Annotated[
        int, "of so many commits of reports, one has a span; all studies and rounds do"
    ] = 100

    @property
    def address(self) -> Address:
        """Host and port of the endpoint."""
        parts = urlsplit(self.endpoint)
        return Address(parts.hostname or "", parts.port or _OTLP_PORT)


# Each of these declares the keys of one table, and makes its value.


def _store(
    store: Annotated[
        StoreLocation,
        "All that the aggregator must not forget, in one SQLite file that one process holds. Or in"
        " a PostgreSQL database (pip install 'askance[postgres]', then askance aggregator migrate),"
        ' as "postgresql://askance@db.example.org:5432/askance?sslmode=verify-full".',
    ],
    store_password_file: Annotated[
        Path | None,
        Key(
            "the database's password, which is never taken from its address",
            '"postgresql.password"',
        ),
    ] = None,
) -> StoreLocation:
    return store if store_password_file is None else store.with_password_file(store_password_file)


def _enrolment(
    key: Annotated[SecretSource, 'or key_env = "NAME", 64 hexadecimal digits'],
) -> SecretSource:
    return key


def _analysts(
    keys: Annotated[
        Mapping[bytes, str],
        Key(
            'by names, which stand in the audit log: { ann = "..." }; or a list without names. In'
            " hexadecimal digits. The private half of the first one is analyst.pem: give it to the"
            " analyst and remove it here",
            read=_analyst_keys,
        ),
    ],
) -> Mapping[bytes, str]:
    return keys


def _metrics(listen: Annotated[Address, "of the page; port 0 takes a free one"]) -> Address:
    return listen


def _logs(
    level: Annotated[str, Key("debug, info, warning or error", read=_log_level)] = "info",
) -> str:
    return level


def _keep(
    reports_days: Annotated[int | None, Key("single reports", "90", read=_days)] = None,
    results_days: Annotated[
        int | None, Key("results with counts and transcripts", "730", read=_days)
    ] = None,
    most_reports_days: Annotated[
        int | None, Key("a study that signs more is refused", "365", read=_days)
    ] = None,
    most_results_days: Annotated[int | None, Key("likewise", "3650", read=_days)] = None,
    collect_every_s: Annotated[int, "between two deletions of what is due"] = KEEP_ALL.every_s,
) -> KeepLimits:
    default, most = Keep(reports_days, results_days), Keep(most_reports_days, most_results_days)
    UNLIMITED.within(default, most)
    default.within(default, most)
    return KeepLimits(default, most, collect_every_s)


def _approval(
    needed: Annotated[
        bool, Key("a study asks no device before an approver has signed it", "true")
    ] = False,
) -> bool:
    return needed


def _own_quota(
    key: Annotated[bytes, Key("the analyst's public key", _KEY)],
    quota: Annotated[Quota, KeyGroup()],
) -> tuple[bytes, Quota]:
    return key, quota


def _quotas(
    default: Annotated[Quota, KeyGroup()],
    analysts: Annotated[
        tuple[tuple[bytes, Quota], ...],
        KeyRows("Of one analyst, in place of all keys of [quotas].", _own_quota),
    ] = (),
) -> Quotas:
    own: dict[bytes, Quota] = {}
    for key, quota in analysts:
        if key in own:
            raise InvalidParameter(f"analysts: expected distinct keys, got {key.hex()} twice")
        own[key] = quota
    return Quotas(default, own)


def _webhook(
    name: Annotated[str, Key("in status, metrics and logs", '"warehouse"', read=_printable)],
    url: Annotated[
        str,
        Key(
            "https, or http on loopback; it is not logged",
            '"https://hooks.example.org/askance"',
            read=lambda value, _: check_url(a_text(value)),
        ),
    ],
    secret: Annotated[
        SecretSource,
        Key(
            'signs: whsec_ and the base64 of 24 to 64 bytes, one per line; or secret_env = "NAME"',
            '"warehouse.secret"',
        ),
    ],
    analyst: Annotated[bytes | None, Key("whose studies; left out: all analysts'", _KEY)] = None,
    ca: Annotated[
        Path | None, Key("by which its certificate is checked (PEM)", '"hooks-ca.pem"')
    ] = None,
    timeout_s: Annotated[int, "for a whole try"] = TIMEOUT_S,
    longest_wait_s: Annotated[int, "between two tries"] = LONGEST_WAIT_S,
    try_for_s: Annotated[int, "then an end is given up"] = TRY_FOR_S,
) -> WebhookReceiver:
    return WebhookReceiver(name, url, secret, analyst, ca, timeout_s, longest_wait_s, try_for_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Settings of an operator."""

    listen: Annotated[
        Address,
        Key(
            "Where analysts call, and devices to be enrolled and to get their certificates. Port 0"
            " takes a free one. With [tls] it is served by a process of its own, which holds no"
            " data and no other key.",
            fixed=True,
        ),
    ]
    store: Annotated[StoreLocation, KeyGroup(make=_store, fixed=True)]
    replica: Annotated[
        str | None,
        Key(
            "The name of this process among those that serve from one PostgreSQL database; a"
            " process that is started again goes on at once with the studies of its name. Left out:"
            " its host and process id.",
            '"aggregator-1"',
            read=_printable,
            fixed=True,
        ),
    ] = None
    plaintext: Annotated[
        bool,
        Key("without [tls]: plain text also where others can reach it", "true", fixed=True),
    ] = False
    tls: Annotated[
        TlsFiles | None,
        KeyTable(
            "What callers know it by. Devices and analysts pin ca.pem, whose key (ca.key) is needed"
            " only to renew server.pem: keep it elsewhere. Without [tls] and [tls.devices] it"
            " speaks plain text, at one address for all, on loopback only unless `plaintext = true`"
            " stands above."
        ),
    ] = None
    connect: Annotated[
        ConnectSettings | None,
        KeyTable(
            "Devices without gRPC, such as pages in browsers: they enrol and check in at `listen`,"
            " by the Connect protocol and their tokens, whatever require_certificates says of"
            " others. It needs [tls]. Left out: none.",
            shown=False,
        ),
    ] = None
    devices: Annotated[
        DevicePresence,
        KeyTable(
            "Devices that are away. Left out: every enrolled device is counted and asked, and stays"
            " enrolled until it is forgotten (askance aggregator device forget).",
            shown=False,
        ),
    ] = DevicePresence()
    enrolment_key: Annotated[
        SecretSource | None,
        KeyTable(
            "Signs enrolment tokens (askance aggregator token): a reader of this key can enrol"
            " devices. Without this table no device is enrolled over the network.",
            _enrolment,
            name="enrolment",
        ),
    ] = None
    analysts: Annotated[
        Mapping[bytes, str],
        KeyTable("The Ed25519 public keys of analysts whose studies are taken.", _analysts),
    ] = field(default_factory=dict)
    callers: Annotated[CallerSettings, KeyTable(fixed=True, shown=False)] = CallerSettings()
    schemas: Annotated[
        tuple[Path, ...],
        Key(
            "Files of the schemas that devices' records have. Analysts are offered them (askance"
            " study schemas, and the console's form); a study may name another, which no device"
            " of these answers.",
            '["people.toml"]',
            read=_files,
            fixed=True,
        ),
    ] = ()
    limits: Annotated[
        StudyLimits, KeyTable("What is taken on at one time, in numbers, seconds and milliseconds.")
    ] = StudyLimits()
    keep: Annotated[
        KeepLimits,
        KeyTable(
            "Days after a study's end for which its single reports, and its results with counts and"
            " transcripts, are kept: of studies that sign none, and at most. Left out: until they"
            " are deleted (askance study delete). Open studies are never touched.",
            _keep,
            fixed=True,
            shown=False,
        ),
    ] = KEEP_ALL
    quotas: Annotated[
        Quotas,
        KeyTable(
            "What each analyst may submit; a study past it is refused with the figures. A key that"
            " is left out has its default, or no limit.",
            _quotas,
        ),
    ] = DEFAULT_QUOTAS
    approval: Annotated[
        bool,
        KeyTable(
            "Approval of studies by a second person: a caller of the role approver or admin, whose"
            " key is not the study's, signs each one (askance study approve). A study that has"
            " asked devices before goes on without.",
            _approval,
            fixed=True,
            shown=False,
        ),
    ] = False
    metrics: Annotated[
        Address | None,
        KeyTable(
            "Prometheus metrics over HTTP, without protection of their own: keep them on loopback"
            " or behind something. Left out: none.",
            _metrics,
            fixed=True,
        ),
    ] = None
    telemetry: Annotated[
        TelemetrySettings | None,
        KeyTable(
            "Spans and metrics to an OpenTelemetry collector, by OTLP over gRPC (pip install"
            " 'askance[otel]'). Left out: nothing is sent. https:// needs the collector's authority"
            " (ca), or the system's.",
            fixed=True,
            shown=False,
        ),
    ] = None
    webhooks: Annotated[
        tuple[WebhookReceiver, ...],
        KeyRows(
            "Where results are sent by themselves: the end of each study and epoch with its result,"
            " signed as Standard Webhooks are. Every replica has the same.",
            _webhook,
            fixed=True,
        ),
    ] = ()
    log_level: Annotated[
        str,
        KeyTable("Events that are logged, a JSON object per line on stderr.", _logs, name="logs"),
    ] = "info"

    def __post_init__(self) -> None:
        self.callers.check_analysts(self.analysts)
        names = [one.name for one in self.webhooks]
        if len(names) > len(set(names)):
            raise InvalidParameter(f"webhooks: expected distinct names, got {', '.join(names)}")
        if self.approval and not self.callers.has_approvers:
            raise InvalidParameter(
                "approval: expected a caller of the role approver or admin, got none"
                " (callers.keys, or callers.oidc.approvers)"
            )
        if self.approval:  # two keys of one person are seen by its name
            self.callers.check_names(self.analysts)
        if self.tls is not None and self.plaintext:
            raise InvalidParameter("plaintext: expected no such key beside [tls], got true")
        if self.tls is None and self.connect is not None:
            raise InvalidParameter("connect: expected [tls] beside it, got plain text")
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
        sources = (*pair, self.enrolment_key, *(one.secret for one in self.webhooks))
        files = tuple(source for source in sources if isinstance(source, Path))
        return (*files, *self.store.secret_files)


def read_configuration(
    path: Path,
    *,
    listen: Address | None = None,
    store: StoreLocation | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Configuration:
    """The configuration in a file; `environment`, `listen` and `store` go before its keys."""
    if not path.is_file():
        raise InvalidParameter(
            f"{path}: expected a configuration, got no file (askance aggregator init makes one)"
        )
    instead = {"listen": listen, "store": store}
    given = {name: value for name, value in instead.items() if value is not None}
    return cast(Configuration, read_file(Configuration, path, READERS, environment, given))


def _address(value: object, _: Path) -> Address:
    return Address.of(a_text(value))


def _role(value: object, _: Path) -> Role:
    text = a_text(value)
    if text not in list(Role):
        raise InvalidParameter(unknown_text(text, list(Role)))
    return Role(text)


def _networks(value: object, _: Path) -> frozenset[Network]:
    return frozenset(_network(text) for text in texts(value))


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise InvalidParameter(f"expected addresses or networks, got {value_text(text)}") from None


def _by_text(read: Read) -> Read:
    """Return the reader of a table of values of one kind, by names that the operator chooses."""

    def reading(value: object, folder: Path) -> dict[str, object]:
        if not isinstance(value, dict) or not value:
            raise InvalidParameter(
                f"expected a table with an entry or more, got {value_text(value)}"
            )
        found: dict[str, object] = {}
        for name, one in value.items():
            try:
                found[name] = read(one, folder)
            except InvalidParameter as error:
                raise InvalidParameter(f"{value_text(name)}: {error}") from None
        return found

    return reading


READERS: Mapping[Any, Read] = {
    int: lambda value, _: at_least_one(value),
    float: lambda value, _: at_least_one(value),  # seconds, whole
    bool: lambda value, _: true_or_false(value),
    str: lambda value, _: a_text(value),
    Path: lambda value, folder: folder / a_text(value),
    Address: _address,
    StoreLocation: lambda value, folder: store_location(a_text(value), folder),
    bytes: _public_key,
    frozenset[Network]: _networks,
    Role: _role,
    Mapping[str, Role]: _by_text(_role),
    Mapping[str, bytes]: _by_text(_public_key),
}
"""Makers of the values of keys, by type, from what TOML holds and the folder of the file."""
