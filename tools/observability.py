"""Grafana dashboard and Prometheus alert rules of an aggregator, from one description.

    python tools/observability.py            # writes deploy/observability/
    python tools/observability.py --check    # exit status 1 if the files there differ

`PANELS` and `ALERTS` name the metrics that `server/process/metrics.py` makes; the tests run each
expression in a real Prometheus that scrapes a served aggregator.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "deploy" / "observability"
DASHBOARD = FOLDER / "grafana-dashboard.json"
RULES = FOLDER / "alerts.yml"

_SCHEMA_VERSION = 39  # Grafana 10.1 and later migrate from it
_WIDTH = 24  # columns of a dashboard
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_THIS = '{instance=~"$instance"}'
_VALVE = "askance_valve_process"


@dataclass(frozen=True, slots=True)
class Curve:
    """A query of a panel, in PromQL, and the legend of its series."""

    expression: str
    legend: str = "{{instance}}"


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the dashboard.

    Args:
      title: what it shows.
      unit: Grafana's name of the unit: "short", "s", "bytes", "reqps", "percentunit".
      curves: its queries.
      kind: "timeseries", or "stat" for one number.
      width: in columns of 24; the height is the row's.
    """

    title: str
    unit: str
    curves: tuple[Curve, ...]
    kind: str = "timeseries"
    width: int = 8


@dataclass(frozen=True, slots=True)
class PanelRow:
    """Panels beside each other, under a title."""

    title: str
    height: int
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert rule.

    Args:
      name: in CamelCase, with the product's name.
      expression: in PromQL; it fires for each series that it has.
      minutes: for which it holds before it fires.
      severity: "critical" (nothing is served, or soon) or "warning".
      summary: one line, for the message.
      action: one line: what the operator does.
    """

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str
    action: str


def _stat(title: str, expression: str, unit: str = "short") -> Panel:
    return Panel(title, unit, (Curve(expression, ""),), "stat", 4)


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{_THIS}[$__rate_interval]))"


def _quantiles(metric: str) -> tuple[Curve, ...]:
    buckets = _rate(f"{metric}_bucket", "le")
    return tuple(
        Curve(f"histogram_quantile({share}, {buckets})", f"p{round(100 * share)}")
        for share in (0.5, 0.99)
    )


def _rated(title: str, metric: str, label: str, width: int = 8) -> Panel:
    curve = Curve(_rate(metric, label), f"{{{{{label}}}}}")
    return Panel(title, "cps", (curve,), width=width)


PANELS = (
    PanelRow(
        "Service",
        4,
        (
            _stat("Aggregators up", "count(askance_devices" + _THIS + ")"),
            _stat("Devices enrolled", "max(askance_devices" + _THIS + ")"),
            _stat("Devices connected", "sum(askance_connected" + _THIS + ")"),
            _stat("Open studies", 'max(askance_studies{state="open", instance=~"$instance"})'),
            _stat("Failures in a row", "max(askance_failures_in_a_row" + _THIS + ")"),
            _stat(
                "Certificate ends in",
                f"min(askance_certificate_expires_timestamp_seconds{_THIS}) - time()",
                "s",
            ),
        ),
    ),
    PanelRow(
        "Studies",
        8,
        (
            Panel(
                "Answered, share of asked, per open round",
                "percentunit",
                (
                    Curve(
                        f"max by (study) (askance_round_answered{_THIS})"
                        f" / max by (study) (askance_round_asked{_THIS})",
                        "{{study}}",
                    ),
                ),
            ),
            Panel(
                "Age of open rounds",
                "s",
                (Curve(f"max by (study) (askance_round_age_seconds{_THIS})", "{{study}}"),),
            ),
            Panel(
                "Studies by state",
                "short",
                (Curve(f"max by (state) (askance_studies{_THIS})", "{{state}}"),),
            ),
            Panel(
                "Silent devices by tag, of open rounds",
                "short",
                (
                    Curve(
                        "max by (tag, state) (askance_round_devices"
                        '{state!="answered", instance=~"$instance"})',
                        "{{tag}} {{state}}",
                    ),
                ),
            ),
            Panel(
                "Devices by tag that have not called for a week",
                "short",
                (
                    Curve(
                        "sum by (tag) (max by (tag, seen) (askance_devices_last_seen"
                        '{seen=~"month|older|never", instance=~"$instance"}))',
                        "{{tag}}",
                    ),
                ),
            ),
            _rated("Reports per second, by status", "askance_reports_total", "status"),
            _rated("Refusals per second, by reason", "askance_refusals_total", "reason"),
            Panel(
                "Privacy loss spent per second, nats over all devices",
                "short",
                (Curve(_rate("askance_epsilon_spent_nats_total", "instance")),),
            ),
        ),
    ),
    PanelRow(
        "Latency",
        8,
        (
            Panel("Commit of reports", "s", _quantiles("askance_commit_seconds"), width=6),
            Panel(
                "Reports per commit, mean",
                "short",
                (
                    Curve(
                        f"{_rate('askance_commit_reports_sum', 'instance')}"
                        f" / {_rate('askance_commit_reports_count', 'instance')}"
                    ),
                ),
                width=6,
            ),
            Panel("Check-in", "s", _quantiles("askance_check_in_seconds"), width=6),
            Panel("Event loop's lag", "s", _quantiles("askance_event_loop_lag_seconds"), width=6),
        ),
    ),
    PanelRow(
        "Machine and peers",
        8,
        (
            Panel(
                "Streams, and connected devices",
                "short",
                (
                    Curve(f"askance_streams{_THIS}", "streams {{instance}}"),
                    Curve(f"askance_connected{_THIS}", "devices {{instance}}"),
                ),
            ),
            _rated("Calls refused per second, by status", "askance_calls_refused_total", "code"),
            _rated("Peers refused per second, by reason", "askance_peers_refused_total", "reason"),
            Panel(
                "Memory, and the store",
                "bytes",
                (
                    Curve(f"process_resident_memory_bytes{_THIS}", "memory {{instance}}"),
                    Curve(f"max(askance_store_bytes{_THIS})", "store"),
                ),
            ),
            Panel(
                "Processors in use",
                "short",
                (Curve(_rate("process_cpu_seconds_total", "instance")),),
            ),
            Panel(
                "Descriptors in use, share of the limit",
                "percentunit",
                (
                    Curve(f"process_open_fds{_THIS} / process_max_fds{_THIS}"),
                    Curve(
                        f"{_VALVE}_open_fds{_THIS} / {_VALVE}_max_fds{_THIS}", "{{instance}}, valve"
                    ),
                ),
            ),
            Panel(
                "Ends of studies not delivered to a webhook, by state",
                "short",
                (
                    Curve(
                        "max by (receiver, state)"
                        ' (askance_webhook_ends{state!="delivered", instance=~"$instance"})',
                        "{{receiver}} {{state}}",
                    ),
                ),
            ),
            Panel(
                "Failed commits and missing descriptors, per second",
                "cps",
                (
                    Curve(_rate("askance_commit_failures_total", "instance"), "commits"),
                    Curve(_rate("askance_descriptors_exhausted_total", "instance"), "descriptors"),
                ),
            ),
        ),
    ),
)

_MINUTE_S, _DAY_S = 60, 86_400
_ACCEPTED = 'askance_reports_total{status="accepted"}'


def _p99(metric: str) -> str:
    return f"histogram_quantile(0.99, sum by (instance, le) (rate({metric}_bucket[5m])))"


ALERTS = (
    Alert(
        "AskanceDown",
        'up{job="askance"} == 0',
        2,
        "critical",
        "the page of metrics of {{ $labels.instance }} does not answer",
        "look at the process and its log; run askance aggregator doctor",
    ),
    Alert(
        "AskanceFailing",
        "askance_failures_in_a_row >= 3",
        1,
        "critical",
        "{{ $labels.kind }} of {{ $labels.instance }} fails; its health is NOT_SERVING",
        "free the disk, bring the database back, or raise the limit on open files",
    ),
    Alert(
        "AskanceCertificateEnds",
        f"askance_certificate_expires_timestamp_seconds - time() < {30 * _DAY_S}",
        60,
        "warning",
        "the certificate of {{ $labels.instance }} ends in {{ $value | humanizeDuration }}",
        "renew it; devices refuse an expired one",
    ),
    Alert(
        "AskanceCommitsSlow",
        f"{_p99('askance_commit_seconds')} > 1",
        10,
        "warning",
        "1 % of the commits of {{ $labels.instance }} take {{ $value | humanizeDuration }}",
        "look at the store's disk or database: each acknowledgement waits for its commit",
    ),
    Alert(
        "AskanceEventLoopLags",
        f"{_p99('askance_event_loop_lag_seconds')} > 1",
        10,
        "warning",
        "the event loop of {{ $labels.instance }} is late by {{ $value | humanizeDuration }}",
        "give it a processor, or lower streams and check_ins in [limits]",
    ),
    Alert(
        "AskanceRoundWithoutAnswers",
        f"max(askance_open_rounds) > 0 and sum(increase({_ACCEPTED}[1h])) == 0",
        60,
        "warning",
        "a round is open and no report was accepted for an hour",
        "look at connected devices, refusals by reason, and the study (askance study show)",
    ),
    Alert(
        "AskanceNoDevices",
        "max(askance_devices) > 0 and sum(askance_connected) == 0"
        " and sum(rate(askance_check_in_seconds_count[15m])) == 0",
        15,
        "warning",
        "devices are enrolled, and none is connected or checks in",
        "look at the network, the proxy, and the certificate that devices pin",
    ),
    Alert(
        "AskanceStudyFailed",
        'max(delta(askance_studies{state="failed"}[1h])) > 0',
        0,
        "warning",
        "a study failed",
        "askance study list names it; askance study show gives the reason",
    ),
    Alert(
        "AskanceWebhookGivenUp",
        'max by (receiver) (askance_webhook_ends{state="failed"}) > 0',
        0,
        "warning",
        "{{ $value }} ends of studies were given up for the webhook {{ $labels.receiver }}",
        "askance aggregator webhook list has the last error; mend the receiver, then webhook retry",
    ),
    Alert(
        "AskanceWebhookLate",
        f"max by (receiver) (askance_webhook_oldest_pending_seconds) > {15 * _MINUTE_S}",
        5,
        "warning",
        "the webhook {{ $labels.receiver }} takes nothing since {{ $value | humanizeDuration }}",
        "askance aggregator webhook list has the last error; look at the receiver",
    ),
    Alert(
        "AskanceConflictingReports",
        'sum by (instance) (increase(askance_reports_total{status="conflict"}[1h])) > 0',
        0,
        "warning",
        "a device sent two different reports to one request",
        "a ledger was copied or restored, or a device lies; the store keeps both as evidence",
    ),
    Alert(
        "AskancePeersRefused",
        "sum by (instance) (rate(askance_peers_refused_total[5m])) > 10",
        10,
        "warning",
        "{{ $labels.instance }} refuses {{ $value | humanize }} peers per second",
        "limit connections per address before the aggregator (docs/proxy)",
    ),
    Alert(
        "AskanceDescriptorsShort",
        "process_open_fds / process_max_fds > 0.8 and on (instance) askance_devices >= 0"
        f" or {_VALVE}_open_fds / {_VALVE}_max_fds > 0.8",
        5,
        "warning",
        "{{ $labels.instance }} has {{ $value | humanizePercentage }} of its descriptors open",
        "raise the limit on open files, or lower connections in [limits]",
    ),
    Alert(
        "AskanceMemoryShort",
        "process_resident_memory_bytes / on (instance) askance_memory_limit_bytes > 0.7",
        10,
        "warning",
        "{{ $labels.instance }} uses {{ $value | humanizePercentage }} of its memory",
        "read Memory that grows (docs/operating.md); lower connections, or restart it",
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana reads it."""
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    instance = {
        "name": "instance",
        "label": "Aggregator",
        "type": "query",
        "datasource": _SOURCE,
        "query": "label_values(askance_devices, instance)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
    }
    return {
        "uid": "askance-aggregator",
        "title": "askance aggregator",
        "tags": ["askance"],
        "schemaVersion": _SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, instance]},
        "panels": list(_panels()),
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row in PANELS:
        number += 1
        place = {"h": 1, "w": _WIDTH, "x": 0, "y": top}
        yield {
            "type": "row",
            "id": number,
            "title": row.title,
            "collapsed": False,
            "gridPos": place,
            "panels": [],
        }
        top, left = top + 1, 0
        for panel in row.panels:
            if left + panel.width > _WIDTH:
                top, left = top + row.height, 0
            number += 1
            place = {"h": row.height, "w": panel.width, "x": left, "y": top}
            yield _panel(panel, number, place)
            left += panel.width
        top += row.height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "id": number,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": curve.expression,
                "legendFormat": curve.legend,
            }
            for index, curve in enumerate(panel.curves)
        ],
    }


def rules() -> str:
    """Return the alert rules as Prometheus reads them (YAML; strings quoted as in JSON)."""
    lines = [
        "# Made by: python tools/observability.py. Prometheus reads it by rule_files.",
        "groups:",
        "  - name: askance",
        "    rules:",
    ]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.minutes}m",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          description: {json.dumps(alert.action)}",
        ]
    return "\n".join(lines) + "\n"


def files() -> dict[Path, str]:
    """Return the text of each file."""
    return {DASHBOARD: json.dumps(dashboard(), indent=2) + "\n", RULES: rules()}


def main(words: Sequence[str]) -> int:
    """Write the files, or compare them with what is there."""
    parser = argparse.ArgumentParser(description="The dashboard and the alert rules.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if old")
    check = parser.parse_args(words).check
    old = [path for path, text in files().items() if not path.is_file() or path.read_text() != text]
    for path in old:
        print(path.relative_to(ROOT))
        if not check:
            path.write_text(files()[path])
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
