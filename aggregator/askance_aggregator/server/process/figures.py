"""Figures of the fleet for operators' tools: of the store, and sums of what each process counts."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from askance_aggregator.store import ReplicaCounts, ReplicaEntry, Store, sum_counts
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_protos.v1 import operator_pb2 as pb

MAX_ROUNDS = 500
COST_BOUNDS = tuple(
    NANO_NATS_PER_NAT * tenths // 10 for tenths in (1, 2, 5, 10, 20, 40, 80)
)  # nano-nats: 0.1 to 8 nats; a study of more is in the last bin
_FAILURES = {
    "askance_calls_refused_total": ("call", "code"),
    "askance_refusals_total": ("device", "reason"),
    "askance_peers_refused_total": ("peer", "reason"),
    "askance_commit_failures_total": ("commit", ""),
    "askance_descriptors_exhausted_total": ("descriptors", ""),
}
"""Kind of each counter of failures, and the label that has the reason; empty: it has none."""

_ROUNDS = {
    "asked": "askance_round_asked",
    "answered": "askance_round_answered",
    "age": "askance_round_age_seconds",
}
_COUNTED = (
    "askance_connected",
    "askance_streams",
    "askance_reports_total",
    "askance_refusals_total",
    "askance_check_in_seconds_count",
    "askance_epsilon_spent_nats_total",
)
_NAMES = (
    *_COUNTED,
    "askance_certificate_expires_timestamp_seconds",
    *_ROUNDS.values(),
    *_FAILURES,
)
_OF_STORE_S = 2  # for which the store's size and its studies' costs are taken as known


@dataclass(frozen=True, slots=True)
class _StoreFigures:
    """Figures of a store, and when they were read."""

    read_unix_s: int
    store_bytes: int
    costs: tuple[pb.CostBin, ...]
    asked_nano_nats: int


class FleetReader:
    """Reader of a fleet's state.

    Args:
      registry: of the process's own counts.
      store: the process's; reading may wait for the disk.
      user_nano_nats: the operator's bound of what a user is asked for, which a reload may change;
        None: there is none.
      now_s: the time, in whole seconds since 1970, UTC; first read at the start of the process.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        store: Store,
        user_nano_nats: int | None,
        now_s: Callable[[], int],
    ) -> None:
        self._registry = registry
        self._store = store
        self.user_nano_nats = user_nano_nats
        self._now_s = now_s
        self._started_s = now_s()
        self._of_store: _StoreFigures | None = None

    def read(self) -> pb.FleetResponse:
        """Return the present figures."""
        found, of_store = _Samples(self._registry, _NAMES), self._read_store()
        now_s, own = self._now_s(), self._store.replicas.name
        replicas = self._replicas(found.counts(), now_s)
        counts = sum_counts(replicas) or ReplicaCounts()
        return pb.FleetResponse(
            **asdict(counts),
            enrolled=self._store.register.count().enrolled,
            open_rounds=self._store.open_rounds().number,
            started_unix_s=self._started_s,
            now_unix_s=now_s,
            replicas=[_figures(one, is_own=one.name == own) for one in replicas],
            store_bytes=of_store.store_bytes,
            certificate_ends_unix_s=found.total("askance_certificate_expires_timestamp_seconds"),
            rounds=found.rounds(),
            failures=found.failures(),
            costs=of_store.costs,
            asked_nano_nats=of_store.asked_nano_nats,
            user_nano_nats=self.user_nano_nats or 0,
            webhooks=[pb.WebhookFigures(**asdict(one)) for one in self._store.webhooks.figures()],
        )

    def _replicas(self, counts: ReplicaCounts, now_s: int) -> list[ReplicaEntry]:
        """Return the processes that serve, by name; this one with its counts of now."""
        name, started_s = self._store.replicas.name, float(now_s - self._started_s)
        listed = {one.name: one for one in self._store.replicas.listing()}
        own = listed.get(name) or ReplicaEntry(name, "", 0.0, (), started_s)
        listed[name] = replace(own, seen_s=0.0, counts=counts)
        return [listed[one] for one in sorted(listed)]

    def _read_store(self) -> _StoreFigures:
        """Return the store's size and its studies' costs; a large store is not asked each time."""
        now_s, known = self._now_s(), self._of_store
        if known is None or not 0 <= now_s - known.read_unix_s < _OF_STORE_S:
            costs, size = self._store.study_costs(), self._store.size_bytes()
            known = self._of_store = _StoreFigures(now_s, size, cost_bins(costs), sum(costs))
        return known


def process_counts(registry: CollectorRegistry) -> ReplicaCounts:
    """Return what a process counts for itself, from its metrics."""
    return _Samples(registry, _COUNTED).counts()


def _figures(replica: ReplicaEntry, *, is_own: bool) -> pb.ReplicaFigures:
    counts = replica.counts or ReplicaCounts()
    return pb.ReplicaFigures(
        name=replica.name,
        address=replica.address,
        seen_s=replica.seen_s,
        started_s=replica.started_s,
        counted=replica.is_counted,
        answers=is_own,
        drives=len(replica.drives),
        **asdict(counts),
    )


class _Samples:
    """Samples of the metrics that are needed; the others may wait for the disk."""

    def __init__(self, registry: CollectorRegistry, names: Sequence[str]) -> None:
        self._samples: dict[str, list[Sample]] = {}
        for metric in registry.restricted_registry(names).collect():
            for sample in metric.samples:
                self._samples.setdefault(sample.name, []).append(sample)

    def total(self, name: str, **labels: str) -> int:
        """Return the sum of a metric's samples that have the given labels; 0 without one."""
        return int(self._sum(name, **labels))

    def nano_nats(self, name: str) -> int:
        """Return a sum that is kept in nats, in whole nano-nats."""
        return int(self._sum(name) * NANO_NATS_PER_NAT)

    def counts(self) -> ReplicaCounts:
        """Return the process's counts for the sums over replicas."""
        return ReplicaCounts(
            connected=self.total("askance_connected"),
            streams=self.total("askance_streams"),
            reports=self.total("askance_reports_total", status="accepted"),
            refusals=self.total("askance_refusals_total"),
            check_ins=self.total("askance_check_in_seconds_count"),
            spent_nano_nats=self.nano_nats("askance_epsilon_spent_nats_total"),
        )

    def rounds(self) -> tuple[pb.RoundFigures, ...]:
        """Return the open rounds, the oldest first; at most `MAX_ROUNDS`."""
        asked, answered, ages = (
            {sample.labels["study"]: sample.value for sample in self._samples.get(name, ())}
            for name in _ROUNDS.values()
        )
        oldest = sorted(ages.items(), key=lambda item: -item[1])[:MAX_ROUNDS]
        return tuple(
            pb.RoundFigures(
                study_prefix=bytes.fromhex(study),
                asked=int(asked[study]),
                answered=int(answered[study]),
                age_s=age,
            )
            for study, age in oldest
        )

    def failures(self) -> Iterator[pb.FailureCount]:
        """Yield the failures of which there were any."""
        for name, (kind, label) in _FAILURES.items():
            for sample in self._samples.get(name, ()):
                if sample.value > 0:
                    reason = sample.labels.get(label, "")
                    yield pb.FailureCount(kind=kind, reason=reason, count=int(sample.value))

    def _sum(self, name: str, **labels: str) -> float:
        """Return a sum; a figure that is not known yet (NaN) is 0."""
        return sum(
            sample.value
            for sample in self._samples.get(name, ())
            if labels.items() <= sample.labels.items() and sample.value == sample.value
        )


def cost_bins(costs: Sequence[int]) -> tuple[pb.CostBin, ...]:
    """Return studies by their cost, in nano-nats."""
    counts = Counter(bisect_right(COST_BOUNDS, cost) for cost in costs)
    return tuple(
        pb.CostBin(below_nano_nats=bound, studies=counts[n])
        for n, bound in enumerate((*COST_BOUNDS, 0))
    )
