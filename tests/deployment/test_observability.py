"""The dashboard and the alert rules: they are valid, and each expression runs on a real page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from askance_aggregator.clock import system_now_s
from tests.aggregator.server.process.conftest import made, serving
from tests.ports import free_address
from tools.observability import ALERTS, DASHBOARD, RULES, dashboard, files

PROMETHEUS = shutil.which("prometheus") or "/usr/bin/prometheus"
PROMTOOL = shutil.which("promtool") or "/usr/bin/promtool"
OWN = {"up"}  # of Prometheus itself, per scraped page
_METRIC = re.compile(r"\b(?:(?:askance|process)_[a-z0-9_]+|up)\b(?!\")")

needs_prometheus = pytest.mark.skipif(
    not (Path(PROMETHEUS).is_file() and Path(PROMTOOL).is_file()),
    reason="prometheus is not installed (apt-get install prometheus)",
)


def expressions() -> list[str]:
    """The expressions of the files, with the dashboard's variables as Grafana would set them."""
    read = json.loads(DASHBOARD.read_text())
    panels = [target["expr"] for panel in read["panels"] for target in panel.get("targets", ())]
    alerts = [
        rule["expr"]
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
    ]
    assert len(panels) > 25
    assert len(alerts) == len(ALERTS)
    found = [*panels, *alerts]
    return [text.replace("$__rate_interval", "1m").replace("$instance", ".*") for text in found]


def metrics_of(expression: str) -> set[str]:
    """The names of metrics in an expression, without labels' values."""
    return set(_METRIC.findall(re.sub(r"\{[^}]*\}", "", expression)))


@dataclass
class Scraped:
    """A Prometheus that scrapes one page, and the names on it."""

    url: str
    names: frozenset[str]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression.

        Raises:
          ValueError: it names a metric that the page does not have, or is no PromQL.
        """
        unknown = metrics_of(expression) - self.names - OWN
        if unknown:
            raise ValueError(f"unknown metrics: {', '.join(sorted(unknown))}")
        asked = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query?{asked}", timeout=10) as reply:
                found: list[dict[str, Any]] = json.loads(reply.read())["data"]["result"]
        except urllib.error.HTTPError as error:
            raise ValueError(error.read().decode()) from None
        return found


def names_on(page: str) -> Iterator[str]:
    """Names that queries may have: the families' and, of histograms, those of their series."""
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE):
        yield name
        if kind == "histogram":
            yield from (f"{name}_{suffix}" for suffix in ("bucket", "sum", "count"))


@contextmanager
def prometheus(folder: Path, page: str) -> Iterator[str]:
    """A Prometheus of one's own that scrapes a page each second; its URL."""
    folder.mkdir()
    job = {"job_name": "askance", "static_configs": [{"targets": [page]}]}
    configuration = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [job],
    }
    (folder / "prometheus.yml").write_text(json.dumps(configuration))
    address = free_address()
    words = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([PROMETHEUS, *words], cwd=folder, stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def wait_for_scrapes(scraped: Scraped, count: int) -> None:
    """Wait until Prometheus is ready and has read the page so often."""
    until, ready = time.monotonic() + 60, False
    while time.monotonic() < until:
        with suppress(OSError):
            urllib.request.urlopen(f"{scraped.url}/-/ready", timeout=10).close()
            ready = True
        if ready:
            found = scraped.query('sum_over_time(up{job="askance"}[1m])')
            if found and int(found[0]["value"][1]) >= count:
                return
        time.sleep(0.1)
    raise TimeoutError(f"expected {count} scrapes of {scraped.url}")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A served aggregator's page in a Prometheus, scraped often enough for rates."""
    folder = tmp_path_factory.mktemp("scraped")
    home = made(folder / "aggregator", now_s=system_now_s())
    with serving(home) as served:
        address = served.ready["metrics"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
            names = frozenset(names_on(reply.read().decode()))
        with prometheus(folder / "prometheus", address) as url:
            found = Scraped(url, names)
            wait_for_scrapes(found, 4)
            yield found


def test_the_files_are_those_of_the_description() -> None:
    for path, text in files().items():
        assert path.read_text() == text, "run: python tools/observability.py"


def unread(given: Any, read: Any, place: str = "") -> Iterator[str]:
    """Places of what the schema's classes did not read, or read as something else."""
    if isinstance(given, dict):
        for key, value in given.items():
            if not isinstance(read, dict) or key not in read:
                yield f"{place}.{key}"
            else:
                yield from unread(value, read[key], f"{place}.{key}")
    elif isinstance(given, list):
        if not isinstance(read, list) or len(read) != len(given):
            yield place
        else:
            for index, (one, other) in enumerate(zip(given, read, strict=True)):
                yield from unread(one, other, f"{place}[{index}]")
    elif given != read:
        yield place


def read_by_the_schema(given: dict[str, Any]) -> Any:
    register_default_plugins()
    return json.loads(json.dumps(Dashboard.from_json(given), cls=JSONEncoder))


def test_the_dashboard_has_what_grafanas_schema_has_and_nothing_else() -> None:
    given = json.loads(DASHBOARD.read_text())
    assert list(unread(given, read_by_the_schema(given))) == []
    given["panels"][1]["tittle"] = given["panels"][1].pop("title")
    given["panels"][1]["gridPos"]["widht"] = 3
    assert list(unread(given, read_by_the_schema(given))) == [
        ".panels[1].gridPos.widht",
        ".panels[1].tittle",
    ]


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


@needs_prometheus
def test_every_query_and_alert_runs_on_a_real_page(scraped: Scraped) -> None:
    for expression in expressions():
        scraped.query(expression)


@needs_prometheus
@pytest.mark.parametrize(
    "expression",
    ["askance_device", "sum(rate(askance_reports[5m]))", "askance_commit_seconds_counts", "sum("],
)
def test_an_expression_that_no_page_has_is_found(scraped: Scraped, expression: str) -> None:
    with pytest.raises(ValueError, match=r"unknown metrics|parse error"):
        scraped.query(expression)


@needs_prometheus
def test_a_panel_of_what_every_aggregator_has_is_not_empty(scraped: Scraped) -> None:
    """Those of rounds, refusals, check-ins and webhooks are empty until there are some."""
    later = (
        *("askance_round_", "_refused_", "histogram_quantile", "_commit_reports_"),
        "askance_webhook_",
    )
    found = [one for one in expressions()[: -len(ALERTS)] if not any(w in one for w in later)]
    assert len(found) > 14
    assert [one for one in found if not scraped.query(one)] == []


FIRING: dict[str, dict[str, str]] = {
    "AskanceDown": {'up{job="askance", instance="a"}': "0x200"},
    "AskanceFailing": {'askance_failures_in_a_row{instance="a", kind="store"}': "3x200"},
    "AskanceCertificateEnds": {
        'askance_certificate_expires_timestamp_seconds{instance="a"}': "2000000x200"
    },
    "AskanceCommitsSlow": {
        'askance_commit_seconds_bucket{instance="a", le="1.0"}': "0x200",
        'askance_commit_seconds_bucket{instance="a", le="2.5"}': "0+60x200",
        'askance_commit_seconds_bucket{instance="a", le="+Inf"}': "0+60x200",
    },
    "AskanceEventLoopLags": {
        'askance_event_loop_lag_seconds_bucket{instance="a", le="1.0"}': "0x200",
        'askance_event_loop_lag_seconds_bucket{instance="a", le="2.5"}': "0+60x200",
        'askance_event_loop_lag_seconds_bucket{instance="a", le="+Inf"}': "0+60x200",
    },
    "AskanceRoundWithoutAnswers": {
        'askance_open_rounds{instance="a"}': "1x200",
        'askance_reports_total{instance="a", status="accepted"}': "7x200",
    },
    "AskanceNoDevices": {
        'askance_devices{instance="a"}': "40x200",
        'askance_connected{instance="a"}': "0x200",
        'askance_check_in_seconds_count{instance="a"}': "9x200",
    },
    "AskanceStudyFailed": {'askance_studies{instance="a", state="failed"}': "0x60 1x140"},
    "AskanceWebhookGivenUp": {
        'askance_webhook_ends{instance="a", receiver="b", state="failed"}': "0x60 1x140"
    },
    "AskanceWebhookLate": {
        'askance_webhook_oldest_pending_seconds{instance="a", receiver="b"}': "0+60x200"
    },
    "AskanceConflictingReports": {
        'askance_reports_total{instance="a", status="conflict"}': "0x60 1x140"
    },
    "AskancePeersRefused": {
        'askance_peers_refused_total{instance="a", reason="too-many-streams"}': "0+900x200"
    },
    "AskanceDescriptorsShort": {
        'process_open_fds{instance="a"}': "900x200",
        'process_max_fds{instance="a"}': "1000x200",
        'askance_devices{instance="a"}': "0x200",
    },
    "AskanceMemoryShort": {
        'process_resident_memory_bytes{instance="a"}': "800x200",
        'askance_memory_limit_bytes{instance="a"}': "1000x200",
    },
}
"""Series a minute apart (`promtool test rules`) with which an alert fires, and it alone."""

CALM = {
    'up{job="askance", instance="a"}': "1x200",
    'askance_failures_in_a_row{instance="a", kind="store"}': "2x200",
    'askance_certificate_expires_timestamp_seconds{instance="a"}': "3000000x200",
    'askance_commit_seconds_bucket{instance="a", le="1.0"}': "0+60x200",
    'askance_commit_seconds_bucket{instance="a", le="+Inf"}': "0+60x200",
    'askance_open_rounds{instance="a"}': "1x200",
    'askance_reports_total{instance="a", status="accepted"}': "0+1x200",
    'askance_reports_total{instance="a", status="conflict"}': "1x200",
    'askance_devices{instance="a"}': "40x200",
    'askance_connected{instance="a"}': "40x200",
    'askance_check_in_seconds_count{instance="a"}': "9x200",
    'askance_studies{instance="a", state="failed"}': "1x200",
    'askance_peers_refused_total{instance="a", reason="too-many-streams"}': "0+60x200",
    'askance_webhook_ends{instance="a", receiver="b", state="failed"}': "0x200",
    'askance_webhook_ends{instance="a", receiver="b", state="pending"}': "9x200",
    'askance_webhook_ends{instance="a", receiver="b", state="delivered"}': "0+9x200",
    'askance_webhook_oldest_pending_seconds{instance="a", receiver="b"}': "800x200",
    'process_open_fds{instance="a"}': "100x200",
    'process_max_fds{instance="a"}': "1000x200",
    'process_resident_memory_bytes{instance="a"}': "600x200",
    'askance_memory_limit_bytes{instance="a"}': "1000x200",
}


def report(folder: Path, cases: Iterable[tuple[dict[str, str], Iterable[str]]]) -> str:
    """Run the rules on cases of series; promtool's report, empty if the named alerts alone fire."""
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "90m",
                    "exp_samples": [
                        {"labels": f'{{alertname="{name}"}}', "value": 1} for name in firing
                    ],
                }
            ],
        }
        for series, firing in cases
    ]
    path = folder / "rules-test.yml"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}))
    done = subprocess.run([PROMTOOL, "test", "rules", path], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@needs_prometheus
def test_each_alert_fires_on_its_cause_alone(tmp_path: Path) -> None:
    assert FIRING.keys() == {alert.name for alert in ALERTS}
    assert report(tmp_path, ((series, [name]) for name, series in FIRING.items())) == ""
    found = report(tmp_path, ((series, []) for series in FIRING.values()))
    assert [name for name in FIRING if f'alertname="{name}"' not in found] == []


@needs_prometheus
def test_descriptors_of_the_valve_are_watched(tmp_path: Path) -> None:
    """A connection has two there and one in the service, so that the valve runs short first."""
    series = {
        **CALM,
        'askance_valve_process_open_fds{instance="a"}': "900x200",
        'askance_valve_process_max_fds{instance="a"}': "1000x200",
    }
    assert report(tmp_path, [(series, ["AskanceDescriptorsShort"])]) == ""


@needs_prometheus
def test_no_alert_fires_on_an_aggregator_in_order(tmp_path: Path) -> None:
    assert report(tmp_path, [(CALM, [])]) == ""
    assert report(tmp_path, [(CALM, ["AskanceDown"])])


@needs_prometheus
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run([PROMTOOL, "check", "rules", RULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
