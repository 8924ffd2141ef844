"""Checks of an aggregator's surroundings before it serves, or while it does.

Nothing is changed but a probe file that is removed again, and nothing is held. A check is a small
function that is registered with its name and a line of advice; `examine` runs all, in the order in
which an operator would mend them.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from askance_aggregator.server.process.capacity import OTHER_DESCRIPTORS, descriptors_of
from askance_aggregator.server.process.certificates import host_names, read_certificates
from askance_aggregator.server.process.configuration import Configuration
from askance_aggregator.server.process.credentials import read_pair
from askance_aggregator.server.process.device_authority import read_device_authority
from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.status import ask_health, read_page
from askance_aggregator.server.process.tokens import read_tokens
from askance_aggregator.store import StoreFacts
from askance_client.addresses import Address
from askance_client.durable_files import flush
from askance_client.errors import AskanceError
from askance_client.printable import printable
from askance_client.service.clock import utc_text


class CheckState(Enum):
    """State of a check; the values are the words of its line and of its JSON."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check.

    Args:
      state: FAIL if the aggregator would not serve, or would serve wrongly.
      text: what was found, in a line.
      help: what to do, in a line; empty if the state is OK.
    """

    check: str
    state: CheckState
    text: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """Verdict of a check: a state, a line, and advice in place of its registered one."""

    state: CheckState
    text: str
    help: str = ""


@dataclass(frozen=True)
class Surroundings:
    """Inputs of the checks.

    Args:
      now_s: this machine's clock, in seconds since 1970.
      descriptors: most files that the process may open; None: no limit.
      monotonic_s: a clock that is never set, for durations.
    """

    configuration: Configuration
    path: Path
    now_s: Callable[[], float]
    descriptors: int | None
    monotonic_s: Callable[[], float]

    @cached_property
    def store(self) -> StoreFacts:
        """State of the store, read once."""
        return self.configuration.store.inspect(self.now_s)

    @property
    def store_if_known(self) -> StoreFacts | None:
        """State of the store; None if it cannot be read, which the check `store` reports."""
        try:
            return self.store
        except AskanceError:
            return None


Check: TypeAlias = Callable[[Surroundings], "CheckVerdict | None"]


@dataclass(frozen=True, slots=True)
class RegisteredCheck:
    """A check with its name and its advice."""

    name: str
    advice: str
    run: Check

    def result(self, surroundings: Surroundings) -> CheckResult | None:
        """Run the check; an error is its failure. None if there is nothing to check."""
        try:
            verdict = self.run(surroundings)
        except AskanceError as error:
            verdict = failed(" ".join(str(error).split()))
        except OSError as error:
            where = "" if error.filename is None else f"{error.filename}: "
            verdict = failed(f"{where}{error.strerror or type(error).__name__}")
        if verdict is None:
            return None
        advice = "" if verdict.state is CheckState.OK else verdict.help or self.advice
        return CheckResult(self.name, verdict.state, printable(verdict.text), printable(advice))


CHECKS: dict[str, RegisteredCheck] = {}
"""Registered checks by name."""


def check(name: str, advice: str) -> Callable[[Check], Check]:
    """Register a check."""

    def register(run: Check) -> Check:
        CHECKS[name] = RegisteredCheck(name, advice, run)
        return run

    return register


def passed(text: str) -> CheckVerdict:
    """Return the verdict on something that is in order."""
    return CheckVerdict(CheckState.OK, text)


def warned(text: str, advice: str = "") -> CheckVerdict:
    """Return the verdict on something that an operator should change soon."""
    return CheckVerdict(CheckState.WARN, text, advice)


def failed(text: str, advice: str = "") -> CheckVerdict:
    """Return the verdict on something with which the aggregator does not work."""
    return CheckVerdict(CheckState.FAIL, text, advice)


_LEAST_FREE_BYTES = 64 << 20  # one study of 10^6 reports of 64 bytes
_LITTLE_FREE_BYTES = 1 << 30
_PROBE_BYTES = 64 << 10  # as `Store.check_writable` writes
_SLOW_FLUSH_S = 0.1  # a disk of its own takes 1 to 10 ms
_OTHERS = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
_LEAST_CONNECTIONS = 64

_SOON_DAYS = 30  # as the aggregator warns at its start
_DAY_S = 86_400
_RENEW = "make a new one with the authority's key, or ask the one who signed it"


@check("secrets", "let only the aggregator's user read the file")
def secrets(surroundings: Surroundings) -> CheckVerdict:
    """Check the modes of all files that hold a secret."""
    paths = surroundings.configuration.secret_files
    shared: list[tuple[Path, int]] = []
    for path in paths:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            return failed(
                f"{path}: expected mode 0600, got {mode:04o}: other users may read or change it",
                f"chmod 600 {path}",
            )
        if mode & stat.S_IRGRP:
            shared.append((path, mode))
    if shared:
        path, mode = shared[0]
        return warned(
            f"{path}: expected mode 0600, got {mode:04o}: its group may read it",
            f"chmod 600 {path}, unless the group is the aggregator's alone",
        )
    return passed(f"{len(paths)} files, for their owner only")


@check("enrolment", "put back the enrolment key; without it tokens that were printed are worthless")
def enrolment(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the key of enrolment tokens."""
    path = surroundings.configuration.enrolment_key
    if path is None:
        return None
    read_tokens(path, lambda: int(surroundings.now_s()))
    return passed(str(path))


@check("webhooks", "put the file back; the receiver has the same secret")
def webhooks(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the files of webhooks; `aggregator webhook test` tries the receivers."""
    receivers = surroundings.configuration.webhooks
    if not receivers:
        return None
    for receiver in receivers:
        receiver.check()
    return passed(f"{', '.join(receiver.name for receiver in receivers)}: files are read")


@check("disk", "free space, or move the store to a larger disk while the aggregator is stopped")
def disk(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the free space where the store is; the disk of a database server is its own matter."""
    facts = surroundings.store_if_known
    if facts is None or facts.folder is None:
        return None
    free = shutil.disk_usage(facts.folder).free
    text = f"{facts.folder}: {free / 2**20:,.1f} MiB free"
    if free < _LEAST_FREE_BYTES:
        return failed(f"{text}, expected {_LEAST_FREE_BYTES >> 20} MiB at least")
    if free < _LITTLE_FREE_BYTES:
        return warned(f"{text}, expected {_LITTLE_FREE_BYTES >> 20:,} MiB")
    return passed(text)


@check("fsync", "give the aggregator's user a folder on a local disk that it can write")
def fsync(surroundings: Surroundings) -> CheckVerdict | None:
    """Write a file beside the store, make it durable, and remove it."""
    facts = surroundings.store_if_known
    if facts is None or facts.folder is None:
        return None
    with tempfile.TemporaryFile(prefix=".askance-doctor-", dir=facts.folder) as file:
        file.write(os.urandom(_PROBE_BYTES))
        file.flush()
        start_s = surroundings.monotonic_s()
        flush(file.fileno())
        seconds = surroundings.monotonic_s() - start_s
    text = f"{facts.folder}: {_PROBE_BYTES >> 10} KiB durable in {seconds * 1000:.1f} ms"
    if seconds > _SLOW_FLUSH_S:
        return warned(text, "each commit waits for the disk: use a faster or a less busy one")
    return passed(text)


@check("descriptors", "raise the limit on open files: ulimit -Hn, or LimitNOFILE= of systemd")
def descriptors(surroundings: Surroundings) -> CheckVerdict:
    """Compare the limit on open files with the connections that are to be held."""
    connections = surroundings.configuration.limits.service.max_connections
    each = descriptors_of(tls=surroundings.configuration.tls is not None)
    needed = each * connections + OTHER_DESCRIPTORS
    allowed = surroundings.descriptors
    if allowed is None or allowed >= needed:
        limit = "no limit" if allowed is None else f"{allowed:,}"
        return passed(f"{limit}, for {connections:,} connections")
    if allowed < OTHER_DESCRIPTORS + _LEAST_CONNECTIONS:
        return failed(f"expected {needed:,} for {connections:,} connections, got {allowed:,}")
    held = (allowed - OTHER_DESCRIPTORS) // each
    return warned(
        f"expected {needed:,} for {connections:,} connections, got {allowed:,}: {held:,} are held",
        "raise the limit on open files (LimitNOFILE= of systemd), or lower connections in [limits]",
    )


@check("certificate", "put a certificate (PEM) at [tls] certificate")
def certificate(surroundings: Surroundings) -> CheckVerdict:
    """Check that every certificate of the chain is valid now, and for a while."""
    configuration = surroundings.configuration
    if configuration.tls is None:
        if configuration.listen.is_loopback:
            return passed(f"none: plain text on {configuration.listen}")
        return warned(
            f"none: plain text on {configuration.listen}, which other machines reach",
            "set [tls], unless a proxy before it speaks TLS",
        )
    path, now_s = configuration.tls.certificate, int(surroundings.now_s())
    chain = read_certificates(configuration.tls.certificate, "certificate")
    begin_s = max(int(one.not_valid_before_utc.timestamp()) for one in chain)
    end_s = min(int(one.not_valid_after_utc.timestamp()) for one in chain)
    if now_s < begin_s:
        return failed(f"{path}: not valid before {utc_text(begin_s)}", "set the machine's clock")
    if now_s >= end_s:
        return failed(f"{path}: ended on {utc_text(end_s)}", _RENEW)
    if end_s - now_s < _SOON_DAYS * _DAY_S:
        return warned(f"{path}: ends on {utc_text(end_s)}", _RENEW)
    return passed(f"{path}, until {utc_text(end_s)}")


@check("key", "put the key that the certificate was made for at [tls] key")
def key(surroundings: Surroundings) -> CheckVerdict | None:
    """Check that the key is the certificate's."""
    tls = surroundings.configuration.tls
    if tls is None:
        return None
    read_pair(tls)
    return passed(f"{tls.key} fits the certificate")


@check("devices' authority", "put its certificate and key at authority and authority_key")
def devices_authority(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the certificate and key that sign devices' certificates."""
    tls = surroundings.configuration.tls
    if tls is None:
        return None
    read_device_authority(tls.devices, lambda: int(surroundings.now_s()))
    path = tls.devices.authority
    signing = read_certificates(path, "devices' authority")[0]
    end_s = int(signing.not_valid_after_utc.timestamp())
    if end_s - surroundings.now_s() < tls.devices.life_s:
        return failed(
            f"{path}: ends on {utc_text(end_s)}, before the certificates that it signs",
            "make another one: askance aggregator certificates rotate",
        )
    return passed(f"{path}, until {utc_text(end_s)}")


@check("names", "make a certificate for the names by which devices call: init --host NAME")
def names(surroundings: Surroundings) -> CheckVerdict | None:
    """Check that the certificate covers the host that is listened on, and the advertised one."""
    configuration = surroundings.configuration
    if configuration.tls is None:
        return None
    covered = host_names(read_certificates(configuration.tls.certificate, "certificate")[0])
    outside = [name for name in covered if not Address(name, 0).is_loopback]
    host, shown = configuration.listen.host, ", ".join(covered) or "none"
    told = configuration.tls.devices.advertised
    if told is not None and not any(_covers(name, told.host) for name in covered):
        return failed(f"expected a certificate for {told.host} (advertised), got one for {shown}")
    if configuration.listen.is_wildcard:
        if outside:
            return passed(f"{shown}; devices call by one of these")
        return warned(f"expected a name that other machines call, got {shown}")
    if any(_covers(name, host) for name in covered):
        return passed(f"{host} is covered: {shown}")
    if outside:
        return warned(
            f"{host} is not covered: {shown}",
            "nothing, if devices call by one of these names through a proxy",
        )
    return failed(f"expected a certificate for {host}, got one for {shown}")


def _covers(name: str, host: str) -> bool:
    """Return whether a certificate's name stands for a host; "*" is one label (RFC 6125)."""
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(host)
    except ValueError:
        pass
    name, host = name.lower(), host.lower().rstrip(".")
    return name == host or (name.startswith("*.") and name[2:] == host.partition(".")[2])


_PATIENCE_S = 5.0
_ANOTHER = "stop the program that holds the port, or set another port"

_FIRST_S = 1_735_689_600  # 2025-01-01: a clock before this was never set
# An analyst's signature is good for five minutes, a report's time is a second.
_SKEW_TO_WARN_S, _SKEW_TO_FAIL_S = 1.0, 30.0
_SET_CLOCK = "set the clocks of both machines by NTP (timedatectl set-ntp true)"
_MIGRATE = "stop the aggregator, back up the store, then run: askance aggregator migrate"


@check("port", "set listen to an address and a port of this machine")
def port(surroundings: Surroundings) -> CheckVerdict:
    """Check the port of analysts and of devices to be enrolled; without TLS of all callers."""
    listen = surroundings.configuration.listen
    if not _is_held(listen):
        return passed(f"{listen} is free")
    serving = _serving(surroundings.configuration)
    if serving is None:
        return failed(f"{listen} is held by another program", _ANOTHER)
    return passed(f"{listen} is held by an aggregator that {'serves' if serving else 'drains'}")


@check("devices' port", "set listen in [tls.devices] to an address and a port of this machine")
def devices_port(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the port of devices with certificates."""
    configuration = surroundings.configuration
    if configuration.tls is None:
        return None
    listen = configuration.tls.devices.listen
    if not _is_held(listen):
        return passed(f"{listen} is free")
    if not configuration.listen.port or _serving(configuration) is None:
        return failed(f"{listen} is held by another program", _ANOTHER)
    return passed(f"{listen} is held by an aggregator")


@check("metrics port", "set listen in [metrics] to an address and a port of this machine")
def metrics_port(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the port of the page of metrics."""
    listen = surroundings.configuration.metrics
    if listen is None:
        return None
    if not _is_held(listen):
        return passed(f"{listen} is free")
    page = read_page(listen) or ()
    if any(metric.name.startswith("askance_") for metric in page):
        return passed(f"{listen} is held by an aggregator")
    return failed(f"{listen} is held by another program", _ANOTHER)


@check("telemetry", "start the collector, or correct endpoint in [telemetry]; nothing else depends")
def telemetry(surroundings: Surroundings) -> CheckVerdict | None:
    """Check that the collector takes connections."""
    settings = surroundings.configuration.telemetry
    if settings is None:
        return None
    where = settings.address
    try:
        socket.create_connection((where.host, where.port), _PATIENCE_S).close()
    except OSError as error:
        return warned(f"{settings.endpoint} is not reached: {error.strerror or 'no answer'}")
    return passed(f"{settings.endpoint} is reached")


def _serving(configuration: Configuration) -> bool | None:
    """Return whether an aggregator with this configuration serves; None: there is none."""
    try:
        return ask_health(configuration.listen.from_here, configuration.tls)
    except (ConnectionError, NotOperable):
        return None


def _is_held(address: Address) -> bool:
    """Return whether another process listens there."""
    if not address.port:
        return False
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does
            probe.bind(where)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return True
        raise NotOperable(f"{address} cannot be listened on: {error.strerror}") from None
    return False


@check("store", "check store in the configuration, and that its database runs")
def store(surroundings: Surroundings) -> CheckVerdict:
    """Check that the store is there, and its server's version and settings."""
    facts = surroundings.store
    if facts.unfit:
        return failed(f"{facts.engine}: {'; '.join(facts.unfit)}", "change it on the server")
    held = ", in use by an aggregator" if facts.in_use else ""
    return passed(f"{surroundings.configuration.store}: {facts.engine}{held}")


@check("rights", "run as the user, or connect by the role, that owns the store")
def rights(surroundings: Surroundings) -> CheckVerdict | None:
    """Check what the user or the role may do."""
    facts = surroundings.store_if_known
    if facts is None:
        return None
    if facts.missing_rights:
        return failed(f"missing: {'; '.join(facts.missing_rights)}")
    return passed("to read and to write" if facts.folder else "the role owns the schema, or may")


@check("schema", _MIGRATE)
def schema(surroundings: Surroundings) -> CheckVerdict | None:
    """Compare the schema's version with the one that is needed."""
    facts = surroundings.store_if_known
    if facts is None or facts.missing_rights:
        return None
    if facts.schema is None and facts.in_use:
        return passed(f"version {facts.needed_schema}, or the aggregator would not serve")
    text = f"expected version {facts.needed_schema}, got {facts.schema or 'none'}"
    if facts.schema is None or (facts.schema < facts.needed_schema and not facts.updates_itself):
        return failed(text, "run: askance aggregator migrate" if facts.schema is None else "")
    if facts.schema > facts.needed_schema:
        return failed(text, "install an askance of the version that wrote it, or a newer one")
    if facts.schema < facts.needed_schema:
        return warned(
            f"{text}, and the next start brings it up to date", "back up the store before the start"
        )
    return passed(f"version {facts.schema}")


@check("clock", _SET_CLOCK)
def clock(surroundings: Surroundings) -> CheckVerdict:
    """Compare this machine's clock with the database's, or with the last change of the file."""
    now_s = surroundings.now_s()
    if now_s < _FIRST_S:
        return failed(f"expected a date after 2024, got {utc_text(int(now_s))}")
    facts = surroundings.store_if_known
    if facts is None:
        return passed(f"{utc_text(int(now_s))}; not compared with the store's")
    if facts.written_unix_s is not None and facts.written_unix_s > now_s + _SKEW_TO_FAIL_S:
        return failed(
            f"{utc_text(int(now_s))}, before the store's last change on"
            f" {utc_text(facts.written_unix_s)}",
            "set this machine's clock (timedatectl set-ntp true)",
        )
    ahead_s = facts.clock_ahead_s
    if ahead_s is None:
        return passed(utc_text(int(now_s)))
    text = f"the database's clock is {abs(ahead_s):.2f} s {'ahead' if ahead_s > 0 else 'behind'}"
    if abs(ahead_s) > _SKEW_TO_FAIL_S:
        return failed(text)
    if abs(ahead_s) > _SKEW_TO_WARN_S:
        return warned(text)
    return passed(f"{utc_text(int(now_s))}; {text}")


_CORRECT = "correct the file; `askance aggregator init` writes one with every key explained"


def examine(
    path: Path,
    read: Callable[[], Configuration],
    *,
    now_s: Callable[[], float],
    descriptors: int | None,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> list[CheckResult]:
    """Run all checks in their surroundings (see `Surroundings`).

    `read` reads the configuration, with the options of the command line in place.

    Returns:
      A result per check. A check that has nothing to look at has none: of a certificate without
      TLS, of a schema in a database that is not reached. An unreadable configuration is the only
      result.
    """
    try:
        configuration = read()
    except (AskanceError, OSError) as error:
        text = printable(" ".join(str(error).split()))
        return [CheckResult("configuration", CheckState.FAIL, text, _CORRECT)]
    surroundings = Surroundings(configuration, path, now_s, descriptors, monotonic_s)
    results = (registered.result(surroundings) for registered in CHECKS.values())
    return [
        CheckResult("configuration", CheckState.OK, printable(str(path))),
        *(result for result in results if result is not None),
    ]


def results_json(results: Iterable[CheckResult]) -> dict[str, Any]:
    """Return one JSON object: `ok` is False if a check failed; warnings leave it True."""
    listed = list(results)
    return {
        "ok": all(result.state is not CheckState.FAIL for result in listed),
        "checks": [
            {
                "check": result.check,
                "state": result.state.value,
                "text": result.text,
                "help": result.help,
            }
            for result in listed
        ],
    }
