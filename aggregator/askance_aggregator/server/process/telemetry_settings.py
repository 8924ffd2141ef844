"""Settings of an aggregator's telemetry: the table `telemetry` of its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from askance_aggregator.numbers import at_least_one
from askance_client.addresses import Address
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.toml_tables import TomlTable, a_text

_PORT = 4317  # OTLP over gRPC
_EXPECTED = "expected http://HOST:PORT or https://HOST:PORT"


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Place to which spans and metrics are sent.

    Args:
      endpoint: URL of a collector that takes OTLP over gRPC; "http" is plain text.
      ca: certificates (PEM) by which the collector's is checked; None: the system's.
      interval_s: seconds between two sendings of the metrics.
      commits_per_span: number of commits of reports, on average, of which one has a span.
    """

    endpoint: str
    ca: Path | None = None
    interval_s: int = 60
    commits_per_span: int = 100

    @property
    def address(self) -> Address:
        """Host and port of the endpoint."""
        parts = urlsplit(self.endpoint)
        return Address(parts.hostname or "", parts.port or _PORT)


def read_telemetry(table: TomlTable, folder: Path) -> TelemetrySettings:
    """Read the table.

    Args:
      table: as it stands in the configuration.
      folder: relative paths are relative to it.

    Raises:
      InvalidParameter: a key that does not belong there, or a value out of its range.
    """
    ca = table.get("ca", a_text)
    given = {key: table.get(key, at_least_one) for key in ("interval_s", "commits_per_span")}
    return TelemetrySettings(
        endpoint=table.need("endpoint", endpoint),
        ca=None if ca is None else folder / ca,
        **{key: number for key, number in given.items() if number is not None},
    )


def endpoint(value: object) -> str:
    """Read a collector's URL."""
    text = a_text(value)
    try:
        parts = urlsplit(text)
        sound = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or parts.scheme not in ("http", "https") or parts.path.strip("/") or parts.query:
        raise InvalidParameter(f"{_EXPECTED}, got {value_text(text)}")
    if parts.username is not None:
        raise InvalidParameter(f"{_EXPECTED}, got one with a user (set OTEL_EXPORTER_OTLP_HEADERS)")
    return text
