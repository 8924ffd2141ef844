"""Instruments of a serving aggregator: its metrics, and where they and its spans are sent."""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, nullcontext

from prometheus_client import CollectorRegistry

from askance_aggregator.server.process.configuration import TelemetrySettings
from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.metrics import PrometheusObserver
from askance_client.addresses import Address


def instruments(
    settings: TelemetrySettings | None, registry: CollectorRegistry, listen: Address
) -> tuple[PrometheusObserver, AbstractContextManager[None]]:
    """Make the service's observer.

    Args:
      settings: where spans and metrics are sent; None: nowhere.
      registry: where the metrics are collected, for the page and for sending.
      listen: where the process listens; with the machine's name it tells replicas apart.

    Returns:
      The observer, and a block during which they are sent.

    Raises:
      NotOperable: the packages of the extra `otel` are missing, or a file cannot be read.
    """
    if settings is None:
        return PrometheusObserver(registry), nullcontext()
    try:
        from askance_aggregator.server.process.telemetry import Telemetry
    except ImportError as error:
        raise NotOperable(
            f"telemetry: expected OpenTelemetry, got {error} (pip install 'askance[otel]')"
        ) from None
    telemetry = Telemetry(settings, registry, f"{socket.gethostname()}:{listen.port}")
    return telemetry.observer, telemetry.sending()
