"""Metrics of the Prometheus registry in the form of OpenTelemetry: one source, read by both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric as Family
from prometheus_client.samples import Sample

_SCOPE = InstrumentationScope("askance")
_SINCE_START = AggregationTemporality.CUMULATIVE


def metrics_data(
    families: Iterable[Family], resource: Resource, start_ns: int, now_ns: int
) -> MetricsData:
    """Convert families of metrics; names, labels and values stay as they are on the page.

    Args:
      families: what `CollectorRegistry.collect` yields.
      resource: names the process.
      start_ns: since when counts are counted, nanoseconds since 1970.
      now_ns: the present, likewise.
    """
    metrics = [metric for family in families for metric in _converted(family, start_ns, now_ns)]
    scope = ScopeMetrics(_SCOPE, metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource, [scope], schema_url="")])


def _converted(family: Family, start_ns: int, now_ns: int) -> Iterator[Metric]:
    samples = [one for one in family.samples if not one.name.endswith("_created")]
    if not samples:
        return
    if family.type == "histogram":
        points = [_distribution(part, start_ns, now_ns) for part in _by_labels(samples).values()]
        data: Histogram | Sum | Gauge = Histogram(points, _SINCE_START)
        yield Metric(family.name, family.documentation, "", data)
        return
    numbers = [
        NumberDataPoint(dict(one.labels), start_ns, now_ns, float(one.value)) for one in samples
    ]
    if family.type == "counter":
        data = Sum(numbers, _SINCE_START, is_monotonic=True)
    else:
        data = Gauge(numbers)
    yield Metric(samples[0].name, family.documentation, "", data)


def _by_labels(samples: Iterable[Sample]) -> dict[tuple[tuple[str, str], ...], list[Sample]]:
    """Samples of a histogram by their labels other than the bucket's bound."""
    parts: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in samples:
        labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        parts.setdefault(labels, []).append(sample)
    return parts


def _distribution(samples: list[Sample], start_ns: int, now_ns: int) -> HistogramDataPoint:
    """Convert one histogram: a bucket counts what lies between two bounds, not below one."""
    below = {float(s.labels["le"]): int(s.value) for s in samples if s.name.endswith("_bucket")}
    bounds = sorted(below)
    counts = [below[bounds[0]], *(below[b] - below[a] for a, b in pairwise(bounds))]
    labels: Mapping[str, str] = {k: v for k, v in samples[0].labels.items() if k != "le"}
    return HistogramDataPoint(
        attributes=dict(labels),
        start_time_unix_nano=start_ns,
        time_unix_nano=now_ns,
        count=below[bounds[-1]],
        sum=next(float(s.value) for s in samples if s.name.endswith("_sum")),
        bucket_counts=counts,
        explicit_bounds=bounds[:-1],  # the last is infinity
        min=None,  # type: ignore[arg-type]  # not known; the encoder leaves None out
        max=None,  # type: ignore[arg-type]  # likewise
    )
