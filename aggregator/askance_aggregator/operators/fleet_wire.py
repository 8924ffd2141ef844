"""State of a fleet for operators' tools, as values and as bytes: counts, and no estimates."""

from __future__ import annotations

from dataclasses import dataclass

from askance_aggregator.analyst.wire import MAX_ANSWER_BYTES
from askance_client.codec import parse
from askance_protos.v1 import operator_pb2 as pb

PREFIX_BYTES = 8  # of a study's digest, where a round is named


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """Progress of an open round.

    Args:
      study_prefix: the first 8 bytes of its study's digest.
      asked: answers asked for.
      answered: answers and refusals that are in.
      age_s: seconds since the process opened it.
    """

    study_prefix: bytes
    asked: int
    answered: int
    age_s: float


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Failures of one kind since the process started.

    Args:
      kind: "call", "device", "peer", "commit" or "descriptors": where it arose.
      reason: a word for programs; empty: the kind says it.
      count: how many, at least one.
    """

    kind: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class CostBin:
    """Ended studies by the most nano-nats that each asked of a user.

    Args:
      below_nano_nats: the bin's upper bound; the lower one is that of the bin before. 0: none.
      studies: how many.
    """

    below_nano_nats: int
    studies: int


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """State of a fleet.

    `enrolled`, `store_bytes`, `costs` and `asked_nano_nats` are of the store, the rest of the
    process that answers; counts of the process begin at its start.

    Args:
      enrolled: devices in the store.
      connected: devices that are connected, those of gateways included.
      streams: open streams of devices and gateways.
      open_rounds: rounds that are being asked.
      reports: accepted.
      refusals: of devices.
      started_unix_s: when the process started.
      now_unix_s: when the figures were read.
      check_ins: calls of devices without a stream.
      store_bytes: size of the store.
      certificate_ends_unix_s: end of the server's certificate; 0: there is none.
      rounds: open rounds, the oldest first.
      failures: those kinds of which there were any.
      costs: ended studies by their cost, bins in rising order.
      asked_nano_nats: the most that a user was asked for by all ended studies together.
      user_nano_nats: the operator's bound of it; 0: none.
      spent_nano_nats: what counted answers cost all devices together, as they say.
    """

    enrolled: int
    connected: int
    streams: int
    open_rounds: int
    reports: int
    refusals: int
    started_unix_s: int
    now_unix_s: int
    check_ins: int = 0
    store_bytes: int = 0
    certificate_ends_unix_s: int = 0
    rounds: tuple[RoundFigures, ...] = ()
    failures: tuple[FailureCount, ...] = ()
    costs: tuple[CostBin, ...] = ()
    asked_nano_nats: int = 0
    user_nano_nats: int = 0
    spent_nano_nats: int = 0

    def reports_per_s(self, earlier: FleetFigures) -> float:
        """Return accepted reports per second since an earlier reading of the same process.

        Since the start if the process started after the reading, or in the same second.
        """
        same = earlier.started_unix_s == self.started_unix_s
        if same and earlier.now_unix_s < self.now_unix_s:
            seconds = self.now_unix_s - earlier.now_unix_s
            return (self.reports - earlier.reports) / seconds
        return self.reports / max(self.now_unix_s - self.started_unix_s, 1)


def encode_fleet(found: FleetFigures) -> bytes:
    """Encode the state of a fleet."""
    return pb.FleetResponse(
        enrolled=found.enrolled,
        connected=found.connected,
        streams=found.streams,
        open_rounds=found.open_rounds,
        reports=found.reports,
        refusals=found.refusals,
        started_unix_s=found.started_unix_s,
        now_unix_s=found.now_unix_s,
        check_ins=found.check_ins,
        store_bytes=found.store_bytes,
        certificate_ends_unix_s=found.certificate_ends_unix_s,
        rounds=[
            pb.RoundFigures(
                study_prefix=one.study_prefix,
                asked=one.asked,
                answered=one.answered,
                age_s=one.age_s,
            )
            for one in found.rounds
        ],
        failures=[
            pb.FailureCount(kind=one.kind, reason=one.reason, count=one.count)
            for one in found.failures
        ],
        costs=[
            pb.CostBin(below_nano_nats=one.below_nano_nats, studies=one.studies)
            for one in found.costs
        ],
        asked_nano_nats=found.asked_nano_nats,
        user_nano_nats=found.user_nano_nats,
        spent_nano_nats=found.spent_nano_nats,
    ).SerializeToString(deterministic=True)


def decode_fleet(data: bytes) -> FleetFigures:
    """Decode the state of a fleet; what an older aggregator leaves out is zero."""
    found = parse(pb.FleetResponse, data, limit=MAX_ANSWER_BYTES)
    return FleetFigures(
        found.enrolled,
        found.connected,
        found.streams,
        found.open_rounds,
        found.reports,
        found.refusals,
        found.started_unix_s,
        found.now_unix_s,
        found.check_ins,
        found.store_bytes,
        found.certificate_ends_unix_s,
        tuple(
            RoundFigures(one.study_prefix, one.asked, one.answered, one.age_s)
            for one in found.rounds
        ),
        tuple(FailureCount(one.kind, one.reason, one.count) for one in found.failures),
        tuple(CostBin(one.below_nano_nats, one.studies) for one in found.costs),
        found.asked_nano_nats,
        found.user_nano_nats,
        found.spent_nano_nats,
    )
