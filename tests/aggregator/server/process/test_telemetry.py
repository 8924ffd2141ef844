"""Spans and metrics by OTLP: a collector of the test's own receives them from a real aggregator."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from askance_aggregator.server.process.configuration import TelemetrySettings, read_configuration
from askance_aggregator.server.process.doctor import CheckState, examine
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.server.process.metrics import PrometheusObserver
from askance_aggregator.server.process.telemetry import TracingObserver, metrics_data
from askance_client.addresses import Address
from askance_client.errors import InvalidParameter
from tests.aggregator.server.process.conftest import serving
from tests.aggregator.server.process.people import LABELS, People, submit
from tests.aggregator.server.process.test_metrics import tell

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
STUDY = bytes(range(32))


class Collector:
    """Keeps the spans and metrics that it receives."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.received: list[str] = []

    @property
    def text(self) -> str:
        """All that was received, as text."""
        return "\n".join(self.received)

    def add_to(self, server: grpc.Server) -> None:
        """Serve the two services by which OTLP sends."""
        for name, request, keep in (
            ("trace.v1.TraceService", trace_pb.ExportTraceServiceRequest, self._keep_spans),
            ("metrics.v1.MetricsService", metrics_pb.ExportMetricsServiceRequest, self._keep),
        ):
            handler: Any = grpc.unary_unary_rpc_method_handler(
                keep, request_deserializer=request.FromString
            )
            service = f"opentelemetry.proto.collector.{name}"
            methods = grpc.method_handlers_generic_handler(service, {"Export": handler})
            server.add_generic_rpc_handlers((methods,))

    def _keep_spans(self, request: Any, context: Any) -> bytes:
        for part in request.resource_spans:
            for scope in part.scope_spans:
                self.spans += scope.spans
        self.received.append(str(request))
        return b""  # an empty answer means that all were taken

    def _keep(self, request: Any, context: Any) -> bytes:
        for part in request.resource_metrics:
            for scope in part.scope_metrics:
                self.metrics |= {metric.name: metric for metric in scope.metrics}
        self.received.append(str(request))
        return b""

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def collector() -> Iterator[tuple[Collector, int]]:
    found = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    found.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found, port
    server.stop(None).wait()


def send_to(home: AggregatorHome, port: int, *more: str) -> None:
    lines = ["[telemetry]", f'endpoint = "http://127.0.0.1:{port}"', "interval_s = 1", *more]
    text = home.configuration.read_text()
    home.configuration.write_text("\n".join((text, *lines, "")))


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def page_of(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
        page: str = reply.read().decode()
    return page


def test_a_study_is_a_trace_from_the_analysts_call_to_its_rounds(
    fresh: AggregatorHome, collector: tuple[Collector, int]
) -> None:
    received, port = collector
    send_to(fresh, port, "commits_per_span = 1")
    people = People(fresh.analyst, 40)
    with closing(read_configuration(fresh.configuration).store.open()) as store:
        store.enrol(people.enrolled())
    key = load_pem_private_key(fresh.analyst_key.read_bytes(), None)
    with serving(fresh) as served, served.channel() as channel:
        digest = submit(channel, key, ("traceparent", f"00-{TRACE}-{PARENT}-01"))
        people.answer(served.address, fresh.authority.read_bytes())
        until = time.monotonic() + 60
        while 'askance_studies{state="done"} 1.0' not in (page := page_of(served.ready["metrics"])):
            assert time.monotonic() < until, page
            time.sleep(0.05)
        assert served.ended_by(signal.SIGTERM) == 0
    (submission,), (study,) = received.named("submission"), received.named("study")
    (round_,) = received.named("round")
    assert submission.trace_id.hex() == study.trace_id.hex() == round_.trace_id.hex() == TRACE
    assert submission.parent_span_id.hex() == PARENT
    assert study.parent_span_id == submission.span_id
    assert round_.parent_span_id == study.span_id
    name = {"askance.study": digest.hex()[:16]}
    assert attributes(study) == attributes(submission) == name
    assert attributes(round_) == {
        **name,
        "askance.round": 0,
        "askance.epoch": 0,
        "askance.asked": 40,
    }
    assert study.start_time_unix_nano <= round_.start_time_unix_nano
    assert round_.end_time_unix_nano <= study.end_time_unix_nano
    commits = received.named("commit")
    assert f'string_value: "{socket.gethostname()}:0"' in received.text  # of the configuration
    assert sum(attributes(span)["askance.reports"] for span in commits) == 40
    assert all(not span.parent_span_id and span.trace_id.hex() != TRACE for span in commits)
    assert {span.name for span in received.spans} == {"submission", "study", "round", "commit"}
    accepted = {
        point.attributes[0].value.string_value: point.as_double
        for point in received.metrics["askance_reports_total"].sum.data_points
    }
    assert accepted["accepted"] == 40
    on_page = {
        sample.name
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_sum", "_count", "_created"))
    }
    sent = {name for name, one in received.metrics.items() if not one.HasField("histogram")}
    assert on_page - {"process_start_time_seconds"} <= sent
    assert {n for n, one in received.metrics.items() if one.HasField("histogram")} == {
        "askance_check_in_seconds",
        "askance_commit_seconds",
        "askance_commit_reports",
        "askance_event_loop_lag_seconds",
    }
    for secret in (*LABELS, "zzyzx device", b"zzyzx device 1".hex(), "127.0.0.1"):
        assert secret not in received.text


def test_a_collector_that_is_gone_stops_nothing(fresh: AggregatorHome) -> None:
    send_to(fresh, 1)  # nothing listens on port 1 of the loopback
    with serving(fresh) as served:
        time.sleep(1.5)  # one sending fails
        assert "askance_devices 0.0" in page_of(served.ready["metrics"])
        assert served.ended_by(signal.SIGTERM) == 0
    found = examine(
        fresh.configuration,
        lambda: read_configuration(fresh.configuration),
        now_s=time.time,
        descriptors=None,
    )
    states = {one.check: one.state for one in found}  # its ports may be another program's by now
    assert states["telemetry"] is CheckState.WARN


def test_nothing_of_opentelemetry_is_imported_unless_it_is_configured(
    fresh: AggregatorHome,
) -> None:
    assert read_configuration(fresh.configuration).telemetry is None
    code = (
        "import sys; import askance_aggregator.server.process.process;"
        " print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_metrics_that_are_sent_are_those_of_the_page() -> None:
    registry = CollectorRegistry()
    tell(PrometheusObserver(registry))
    data = metrics_data(registry.collect(), Resource({}), 1, 2)
    sent: dict[tuple[str, tuple[str, ...]], float] = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        points: Any = metric.data.data_points
        for point in points:
            labels = tuple(str(value) for value in (point.attributes or {}).values())
            assert (point.start_time_unix_nano, point.time_unix_nano) == (1, 2)
            if hasattr(point, "bucket_counts"):
                sent[f"{metric.name}_sum", labels] = point.sum
                sent[f"{metric.name}_count", labels] = point.count
                assert sum(point.bucket_counts) == point.count
                below = 0
                bounds = [*map(str, point.explicit_bounds), "+Inf"]
                for bound, count in zip(bounds, point.bucket_counts, strict=True):
                    below += count
                    sent[f"{metric.name}_bucket", (*labels, bound)] = below
            else:
                sent[metric.name, labels] = point.value
    expected = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert sent == expected


def traced(commits_per_span: int = 1) -> tuple[TracingObserver, InMemorySpanExporter]:
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    draws = iter(range(1_000))
    observer = TracingObserver(
        CollectorRegistry(),
        provider.get_tracer("test"),
        commits_per_span=commits_per_span,
        draw=lambda n: next(draws) % n,
        now_ns=lambda: 7_000_000_000,
    )
    return observer, kept


def test_commits_are_sampled() -> None:
    observer, kept = traced(commits_per_span=10)
    for _ in range(30):
        observer.committed(5, 2.0)
    spans = kept.get_finished_spans()
    assert len(spans) == 3
    assert {(span.start_time, span.end_time) for span in spans} == {(5_000_000_000, 7_000_000_000)}


def test_an_error_is_named_by_its_type_alone() -> None:
    observer, kept = traced()
    with pytest.raises(ValueError, match="zzyzx"), observer.study_span(STUDY):
        raise ValueError("zzyzx")
    (span,) = kept.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert "ValueError" in span.to_json()
    assert "zzyzx" not in span.to_json()


@pytest.mark.parametrize("trace", [None, "", "nonsense", f"00-{'0' * 32}-{PARENT}-01"])
def test_a_call_without_a_trace_context_begins_a_trace(trace: str | None) -> None:
    observer, kept = traced()
    with observer.submission_span(STUDY, trace):
        pass
    (span,) = kept.get_finished_spans()
    assert span.parent is None


def test_an_analyst_who_does_not_sample_is_followed() -> None:
    observer, kept = traced()
    with observer.submission_span(STUDY, f"00-{TRACE}-{PARENT}-00"), observer.study_span(STUDY):
        pass
    assert kept.get_finished_spans() == ()


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://127.0.0.1:4317", Address("127.0.0.1", 4317)),
        ("https://otel.example.org", Address("otel.example.org", 4317)),
        ("http://[::1]:5", Address("::1", 5)),
    ],
)
def test_an_endpoint_is_read(fresh: AggregatorHome, endpoint: str, address: Address) -> None:
    send_to(fresh, 1)
    text = fresh.configuration.read_text().replace("http://127.0.0.1:1", endpoint)
    fresh.configuration.write_text(text)
    read = read_configuration(fresh.configuration).telemetry
    assert read == TelemetrySettings(endpoint, interval_s=1)
    assert replace(read, endpoint=endpoint).address == address


@pytest.mark.parametrize(
    "endpoint", ["collector:4317", "ftp://here", "http://", "http://a:b@here:1", "http://h:99999"]
)
def test_an_endpoint_that_is_none_is_refused(fresh: AggregatorHome, endpoint: str) -> None:
    send_to(fresh, 1)
    text = fresh.configuration.read_text().replace("http://127.0.0.1:1", endpoint)
    fresh.configuration.write_text(text)
    with pytest.raises(InvalidParameter, match=r"telemetry\.endpoint: expected http://HOST:PORT"):
        read_configuration(fresh.configuration)
