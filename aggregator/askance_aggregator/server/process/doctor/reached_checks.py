"""Checks of ports (free, or held by this very aggregator) and of the store."""

from __future__ import annotations

import errno
import socket

from askance_aggregator.server.process.configuration import Configuration
from askance_aggregator.server.process.doctor.checks import (
    CheckVerdict,
    Surroundings,
    check,
    failed,
    passed,
    warned,
)
from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.status import ask_health, read_page
from askance_client.addresses import Address
from askance_client.service.clock import utc_text

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
    """Return whether another process listens there.

    Raises:
      NotOperable: no process of this user can listen there.
    """
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
