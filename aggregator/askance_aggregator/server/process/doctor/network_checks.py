"""Checks of ports: free, or held by this very aggregator."""

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

_PATIENCE_S = 5.0
_ANOTHER = "stop the program that holds the port, or set another port"


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
