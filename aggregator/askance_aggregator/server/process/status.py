"""Status of an aggregator, read from outside with its configuration."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.devices import SHOWN_TAGS
from askance_aggregator.server.process.certificates import expiry, first_name
from askance_aggregator.server.process.configuration import Configuration, TlsFiles
from askance_aggregator.server.process.files import NotOperable, read_needed
from askance_aggregator.server.process.metrics import word
from askance_aggregator.server.process.tokens import counts_signer
from askance_aggregator.store import (
    ReplicaEntry,
    RoundAnswers,
    Store,
    WebhookFigures,
    sum_answers,
    sum_counts,
)
from askance_aggregator.store.register import SeenDevices, Silence
from askance_client.addresses import Address
from askance_client.errors import InvalidParameter, StoreError
from askance_client.service.channels import NO_PROXY

_PATIENCE_S = 5.0
_DAY_S = 86_400
_MAX_CLOSED = 10_000  # rows of closed rounds


@dataclass(frozen=True, slots=True)
class Status:
    """Known status of an aggregator: of its store, of its replicas together, and of one process.

    Facts of the store are read there, by a user who may; else they are as the process shows them,
    and None where it has no page of metrics.

    Args:
      serving: whether the process answers, and is not about to end.
      devices: how many are enrolled; of the store.
      connected: how many are connected, those of gateways included, to all replicas together; None
        where no replica has written its counts, and the process has no page of metrics.
      open_rounds: rounds that take reports; of the store.
      studies: how many, by state; of the store.
      reports: delivered since the process started, by status; None where it has no page of metrics,
        and where none runs.
      failures_in_a_row: of its machine since the last success, by kind; None likewise.
      commit_failures: of the store since the process started; None likewise.
      store_bytes: size of the store.
      oldest_round_s: age of the oldest open round, in seconds; None if no round is open; of the
        store.
      certificate_ends_unix_s: end of the process's certificate; None without TLS.
      seen: devices by their last call, all and by tag; of the store.
      rounds: devices that open rounds ask, by what they owe, all and by tag.
      replicas: the processes that share the store, the studies that each drives, and what each
        counts; empty for a store that serves one process.
      audit_digest: of the last entry of the audit log, in hexadecimal, to be kept elsewhere for
        `audit verify --expect`; None: the log is empty, or this user cannot read the store.
      webhooks: the queues of results that are sent on, with the last error of each.
      outer: guarantee towards readers of tallies, over all releases and users; None: no tally was
        published, or none is counted yet.
      counts_key: public key that signs the counts of exports, in hexadecimal; None: there is no
        enrolment key, or this user cannot read it.
    """

    serving: bool
    address: str
    devices: int | None = None
    connected: int | None = None
    open_rounds: int | None = None
    studies: Mapping[str, int] | None = None
    reports: Mapping[str, int] | None = None
    failures_in_a_row: Mapping[str, int] | None = None
    commit_failures: int | None = None
    store_bytes: int | None = None
    oldest_round_s: int | None = None
    certificate_ends_unix_s: int | None = None
    seen: Sequence[SeenDevices] = ()
    rounds: Sequence[RoundAnswers] = ()
    replicas: Sequence[ReplicaEntry] = ()
    audit_digest: str | None = None
    webhooks: Sequence[WebhookFigures] = ()
    outer: Mapping[str, Any] | None = None
    counts_key: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return asdict(self)


def status(configuration: Configuration) -> Status:
    """Ask a running aggregator for its status, and read the store.

    Raises:
      InvalidParameter: port 0 cannot be asked.
      NotOperable: something is there that does not answer, or is no aggregator.
      StoreError: none runs, and the store cannot be opened.
    """
    address = configuration.listen.from_here
    if not address.port:
        raise InvalidParameter("listen: expected the port that was taken, found 0 (give --listen)")
    facts: dict[str, Any] = {
        "certificate_ends_unix_s": _certificate_ends(configuration),
        "counts_key": _counts_key(configuration),
    }
    try:
        serving = ask_health(address, configuration.tls)
    except ConnectionError:
        found = _of_store(configuration, Status(False, str(address)))
        return replace(found, connected=found.connected or 0, **facts)
    shown = Status(serving, str(address), **facts)
    page = read_page(configuration.metrics)
    if page is not None:
        shown = _of_page(page, shown)
    with suppress(StoreError):  # of a user who may not read it
        shown = _of_store(configuration, shown)
    return shown


def _counts_key(configuration: Configuration) -> str | None:
    with suppress(NotOperable):  # of a user who may not read it
        signer = counts_signer(configuration.enrolment_key)
        return None if signer is None else signer.public_key.hex()
    return None


def _of_page(found: Sequence[Metric], shown: Status) -> Status:
    """Add what a process's metrics show."""
    open_rounds = _sum(found, "askance_open_rounds")
    return replace(
        shown,
        devices=_sum(found, "askance_devices"),
        connected=_sum(found, "askance_connected"),
        open_rounds=open_rounds,
        studies=_by_label(found, "askance_studies", "state"),
        reports=_by_label(found, "askance_reports_total", "status"),
        failures_in_a_row=_by_label(found, "askance_failures_in_a_row", "kind"),
        commit_failures=_sum(found, "askance_commit_failures_total"),
        store_bytes=_sum(found, "askance_store_bytes"),
        oldest_round_s=_sum(found, "askance_oldest_round_age_seconds") if open_rounds else None,
        rounds=_rounds(found),
    )


def _of_store(configuration: Configuration, shown: Status) -> Status:
    """Add the facts of the store, and the sums over its replicas."""
    with closing(configuration.store.open_to_look()) as store:
        store.webhooks.announce_to([one.receiving for one in configuration.webhooks])
        replicas, rounds = store.replicas.listing(), store.open_rounds()
        counts, head = sum_counts(replicas), store.audit.head()
        seen, of_rounds = _silent(store, shown.rounds)
        return replace(
            shown,
            devices=store.register.count().enrolled,
            connected=shown.connected if counts is None else counts.connected,
            open_rounds=rounds.number,
            studies={word(state): count for state, count in store.listing.count().items()},
            store_bytes=store.size_bytes(),
            oldest_round_s=rounds.oldest_s,
            seen=seen,
            rounds=of_rounds,
            replicas=replicas,
            audit_digest=None if head is None else head.digest.hex(),
            webhooks=store.webhooks.figures(),
            outer=_outer(store),
        )


def _outer(store: Store) -> dict[str, Any] | None:
    """Read the outer account's figures, when it began, and how many tallies it does not count."""
    terms, figures = store.outer.terms(), store.outer.figures()
    if terms is None or figures is None:
        return None
    waiting = store.outer.number() - figures["releases"]
    return figures | {"began_unix_s": terms.began_unix_s, "waiting": waiting}


def read_silence(configuration: Configuration) -> Silence:
    """Read which devices are silent from the store, and what a process shows of open rounds."""
    page = read_page(configuration.metrics)
    with closing(configuration.store.open_to_look()) as store:
        seen, rounds = _silent(store, _rounds(page or ()))
        return Silence(seen, rounds, tuple(store.register.completion(_MAX_CLOSED)))


def _silent(
    store: Store, shown: Sequence[RoundAnswers]
) -> tuple[tuple[SeenDevices, ...], tuple[RoundAnswers, ...]]:
    """Return devices by last call, and open rounds: of the replicas, or as a process shows them."""
    seen = store.register.seen(system_now_s() // _DAY_S, SHOWN_TAGS)
    return seen, sum_answers((), store.replicas.others_answers()) or tuple(shown)


def ask_health(address: Address, tls: TlsFiles | None) -> bool:
    """Ask the health service at the address whether it serves.

    Raises:
      ConnectionError: no service answers there, or one with another certificate.
      NotOperable: a service answers that is no aggregator.
    """
    with _channel(address, tls) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_PATIENCE_S)
        except grpc.RpcError as error:
            code = error.code()
            if code is grpc.StatusCode.UNAVAILABLE:
                raise ConnectionError from None
            raise NotOperable(
                f"{address}: expected an aggregator, got a service that answers"
                f" {word(code)} when asked for its health"
            ) from None
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


@contextmanager
def _channel(address: Address, tls: TlsFiles | None) -> Iterator[grpc.Channel]:
    if tls is None:
        with grpc.insecure_channel(str(address), [NO_PROXY]) as channel:
            yield channel
        return
    certificate = read_needed(tls.certificate, "certificate")
    # The certificate itself is the root: exactly this server is expected, by whatever name.
    credentials = grpc.ssl_channel_credentials(certificate)
    options = [("grpc.ssl_target_name_override", first_name(certificate)), NO_PROXY]
    with grpc.secure_channel(str(address), credentials, options=options) as channel:
        yield channel


def read_page(address: Address | None) -> list[Metric] | None:
    """Read the page of metrics at the address; None if there is none."""
    if address is None or not address.port:
        return None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is not far away
    try:
        with opener.open(f"http://{address.from_here}/metrics", timeout=_PATIENCE_S) as reply:
            return list(text_string_to_metric_families(reply.read().decode()))
    except (OSError, ValueError):
        return None


def _rounds(found: Iterable[Metric]) -> tuple[RoundAnswers, ...]:
    """Read the open rounds by tag from a page of metrics."""
    states: dict[tuple[str, int, int, str], dict[str, int]] = {}
    for metric in found:
        for one in metric.samples:
            if one.name == "askance_round_devices":
                of = one.labels
                key = (of["study"], int(of["epoch"]), int(of["round"]), of["tag"])
                states.setdefault(key, {})[of["state"]] = int(one.value)
    return tuple(
        RoundAnswers(*key, sum(counts.values()), counts["answered"], counts["silent"])
        for key, counts in states.items()
    )


def _sum(found: Iterable[Metric], name: str) -> int:
    return sum(int(s.value) for metric in found for s in metric.samples if s.name == name)


def _by_label(found: Iterable[Metric], name: str, label: str) -> dict[str, int]:
    samples = (s for metric in found for s in metric.samples if s.name == name)
    return {sample.labels[label]: int(sample.value) for sample in samples}


def _certificate_ends(configuration: Configuration) -> int | None:
    if configuration.tls is None:
        return None
    return expiry(read_needed(configuration.tls.certificate, "certificate"))
