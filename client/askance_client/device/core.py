"""The device's core: requests in, reports out, and never a byte that was not paid for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Protocol

from askance_client.codec import decode_report, encode_report
from askance_client.device.examination import ExaminedStudy, Examiner
from askance_client.device.policy import Policy
from askance_client.device.settling import (
    Due,
    RefusalCounts,
    Repeated,
    Settlement,
    Settling,
    objection_of_owner,
    over,
    refused,
    reused,
)
from askance_client.errors import InvalidRecord, RemoteProtocolError
from askance_client.ledger import Charge, Ledger, Overrun
from askance_client.messages import Reason, Refusal, Report, Request, SignedStudy
from askance_client.queries import EncodedRecord, Query, QueryKind, Schema
from askance_client.randomizers import Coins
from askance_client.randomizers.rounding import round_to_levels

_MAX_STUDIES = 256  # known at a time; an analyst could sign studies without end

Value = int | tuple[int, ...]
"""A query's value on its grid; of a VECTOR query the components."""


class MemberRecord(Protocol):
    """A user's record, read when it is needed; an `EncodedRecord` is one in memory."""

    def load(self) -> EncodedRecord:
        """Read the record. It may fail or hang: the answer is then the question's default."""
        ...


class TooManyRefusals(RemoteProtocolError):
    """No report leaves: refusals of this study and hour are past their limit, or it is held."""


class Device:
    """Device of one user.

    Privacy: pure eps-LDP towards every reader of its reports, replace-one in the record, with
      eps the sum of the charges in its ledger and at most the policy's lifetime budget. Charges,
      refusals, and the fact that the record is read and coins are drawn, are functions of the
      history of requests.

    Args:
      schema: the shape of the record.
      record: the user's record, encoded by `schema`.
      policy: what the owner allows.
      ledger: what was spent; the authority.
      coins: where randomness comes from (`SystemCoins` on a real device).
      now_s: the time, in whole seconds since 1970, UTC.
      examiner: may be shared between devices of one process.
      studies: the accepted studies, by digest; shared between devices of one schema and policy,
        which accept the same, as a gateway's members are; None: of this device alone.
    """

    __slots__ = (
        "_coins",
        "_examiner",
        "_full",
        "_ledger",
        "_lock",
        "_now_s",
        "_policy",
        "_record",
        "_refusals",
        "_schema",
        "_studies",
    )

    def __init__(
        self,
        *,
        schema: Schema,
        record: MemberRecord,
        policy: Policy,
        ledger: Ledger,
        coins: Coins,
        now_s: Callable[[], int],
        examiner: Examiner,
        studies: dict[bytes, ExaminedStudy] | None = None,
    ) -> None:
        self._schema = schema
        self._record = record
        self._policy = policy
        self._ledger = ledger
        self._coins = coins
        self._now_s = now_s
        self._examiner = examiner
        self._studies = {} if studies is None else studies
        self._full: frozenset[bytes] = frozenset()  # studies that the ledger has no room for
        self._refusals = RefusalCounts()
        self._lock = Lock()

    @property
    def ledger(self) -> Ledger:
        """The device's own account."""
        return self._ledger

    @property
    def known_studies(self) -> tuple[bytes, ...]:
        """The digests of the studies that this device has accepted."""
        return tuple(self._studies)

    def knows(self, digest: bytes) -> bool:
        """Return whether the study of this digest was accepted."""
        return digest in self._studies

    def introduce(self, signed: SignedStudy) -> Refusal | None:
        """Meet a study; a refusal says why none of its requests will be answered."""
        # First, because it is cheap: an untrusted study is not worth a look.
        if signed.public_key not in self._policy.analysts:
            return Refusal(Reason.UNTRUSTED_KEY, "expected a study signed by a pinned analyst key")
        study = self._examiner.study(signed)
        if isinstance(study, Refusal):
            return study
        if study.terms.schema.digest != self._schema.digest:
            return Refusal(
                Reason.SCHEMA_MISMATCH,
                f"expected schema {self._schema.name!r} version {self._schema.version},"
                f" found {study.terms.schema.name!r} version {study.terms.schema.version}",
            )
        known = self._studies.get(study.digest, study)
        if known is not study:
            keys = {copy.public_key for copy in (known, *known.copies)}
            if study.public_key not in keys:
                known = replace(known, copies=(*known.copies, study))
        self._studies[study.digest] = known
        while len(self._studies) > _MAX_STUDIES:  # the oldest; its aggregator may send it again
            oldest = next(iter(self._studies))
            del self._studies[oldest]
            self._full -= {oldest}
        return None

    def answer(self, payload: bytes) -> bytes:
        """Answer one request with the bytes of a report: an answer, or a refusal.

        An answer is durable in the ledger, charge and symbol together, when this returns; the same
        payload again returns the same bytes.

        Raises:
          StoreError: the ledger could not make it durable; nothing was spent, nothing may be sent.
          TooManyRefusals: it is refused, and so were too many before it, or its study waits for the
            owner; nothing may be sent.
        """
        turn = self.begin((payload,))
        try:
            turn.evaluate()
        except BaseException:
            turn.close()
            raise
        report = next(iter(turn.finish().values()), None)
        if report is None:
            raise TooManyRefusals("request: expected a decided study, and fewer refusals this hour")
        return report

    def begin(self, payloads: Sequence[bytes]) -> Turn:
        """Settle the requests of one message, without the record, and hold the device for them.

        The device is held, from here on, until the turn's `finish` or `close`: whatever is decided
        stays true until it is committed.

        Args:
          payloads: in the order in which they are decided; an equal one is answered once.

        Raises:
          StoreError: the ledger cannot be read; nothing was settled.
        """
        self._lock.acquire()
        try:
            return Turn(self, self._lock, *self._settled(payloads))
        except BaseException:
            self._lock.release()
            raise

    def _settled(
        self, payloads: Sequence[bytes]
    ) -> tuple[dict[bytes, Settlement], tuple[Refusal, ...]]:
        """The decision on each request, by digest; and all refusals, those that leave or not."""
        now_s = self._now_s()
        settling = Settling(
            self._ledger, self._policy, self._examiner, self._studies, self._full, now_s
        )
        settled: dict[bytes, Settlement] = {}
        refusals: list[Refusal] = []
        for payload in dict.fromkeys(payloads):
            known = self._examiner.known(payload)
            study, settlement = settling.settle(payload, known)
            if isinstance(settlement, Refusal):
                refusals.append(settlement)
                if settlement.reason is Reason.WAITING or not self._refusals.admit(study, now_s):
                    continue
            settled[known.digest] = settlement
        return settled, tuple(refusals)

    def _value(self, request: Request) -> Value:
        """The value of the record, read anew, at a request's query."""
        query, record = request.query, self._record.load()
        if query.kind is QueryKind.VECTOR:
            return query.evaluate_vector(record)
        return query.evaluate(record)

    def _objection(self, due: Due) -> Refusal | None:
        """The owner's objection to an answer that is about to be charged; None: there is none."""
        return objection_of_owner(self._policy, due.study, due.payload, due.at_s)

    def _spend(self, due: Due, value: Value) -> bytes:
        """Charge an answer, make it durable, and return its report.

        The ledger's own check is the authority: the report may be a refusal all the same.
        """
        asked = due.asked
        charge = Charge(
            request_digest=asked.digest,
            study_digest=due.study.digest,
            question=asked.question,
            at_s=due.at_s,
            nano_nats=asked.nano_nats,
            symbol=self._randomize(asked.request, asked.digest, value),
            payload=due.payload,
            study=due.study.study,
            weight=asked.weight,
        )
        outcome = self._ledger.commit(
            charge,
            due.limits,
            lambda symbol, charged, spent, sequence: encode_report(
                Report(asked.digest, symbol, charged, spent, sequence)
            ),
        )
        if not isinstance(outcome, Overrun):
            return outcome
        if outcome is Overrun.SPACE:
            self._full = frozenset({*self._full, due.study.digest} & self._studies.keys())
        return refused(asked.digest, over(outcome, asked.nano_nats, due.limits))

    def _randomize(self, request: Request, digest: bytes, value: Value) -> bytes:
        """The symbol: a pure function of the value's level and of coins."""
        level, coins = self._level(request, digest, value)
        return request.randomizer.randomize(level, coins)

    def _level(self, request: Request, digest: bytes, value: Value) -> tuple[int, tuple[int, ...]]:
        """The value's level, and the coins that randomize it: others than those that round."""
        query, randomizer = request.query, request.randomizer
        words = self._coins.words(digest, request.coins)
        coins, rounding = words[: randomizer.coins], words[randomizer.coins :]
        if isinstance(value, tuple):
            return randomizer.vector_level(value, query.low, query.high, rounding), coins
        if query.kind is QueryKind.REAL:
            value = round_to_levels(value, query.low, query.high, randomizer.levels, rounding[0])
        return value, coins


class Turn:
    """The requests of one message between decision and commit (see `Device.begin`).

    In this order: `evaluate`, in any thread and for as long as is thought right; then `finish`.
    A turn that cannot be finished is closed.
    """

    __slots__ = ("_device", "_failures", "_held", "_settled", "_values", "refusals")

    def __init__(
        self,
        device: Device,
        held: Lock,
        settled: Mapping[bytes, Settlement],
        refusals: tuple[Refusal, ...],
    ) -> None:
        self._device = device
        self._held: Lock | None = held
        self._settled = settled
        self._values: dict[bytes, Value] = {}
        self._failures: list[str] = []
        self.refusals = refusals

    @property
    def pending(self) -> bool:
        """True if an answer is to be evaluated; a function of the history of requests."""
        return any(isinstance(settlement, Due) for settlement in self._settled.values())

    @property
    def weight(self) -> int:
        """Sum of the weights of the answers to be evaluated and drawn; public, like `pending`."""
        due = (settled for settled in self._settled.values() if isinstance(settled, Due))
        return sum(settled.asked.weight for settled in due)

    @property
    def failures(self) -> tuple[str, ...]:
        """Types of the exceptions that evaluation ended with, for the owner's log."""
        return tuple(self._failures)

    def evaluate(self) -> None:
        """Evaluate the answers that will be charged and sent, one after another.

        An exception, whatever it is, leaves the answer to the question's public default. What is
        not done when `finish` is called is discarded.
        """
        for settlement in self._settled.values():
            if not isinstance(settlement, Due):
                continue
            asked = settlement.asked
            try:
                value = _checked(asked.request.query, self._device._value(asked.request))
            except Exception as error:
                self._failures.append(type(error).__name__)
            else:
                self._values[asked.digest] = value

    def finish(self) -> dict[bytes, bytes]:
        """Draw the coins, commit, and let the device go.

        Returns:
          The reports that may be sent, by their requests' digests.

        Raises:
          StoreError: the ledger could not make an answer durable. Those before it are; they are
            sent when they are asked for again.
        """
        values = dict(self._values)  # evaluation may go on, too late
        try:
            return self._reports(values)
        finally:
            self.close()

    def close(self) -> None:
        """Let the device go; again is no harm."""
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def _reports(self, values: Mapping[bytes, Value]) -> dict[bytes, bytes]:
        reports: dict[bytes, bytes] = {}
        charged: dict[bytes, bytes] = {}  # the reports that were charged, by question
        for digest, settlement in self._settled.items():
            match settlement:
                case Due(asked=asked):
                    value = values.get(digest, _public_default(asked.request.query))
                    # The owner may have denied the study since the turn began.
                    objection = self._device._objection(settlement)
                    if objection is not None and objection.reason is Reason.WAITING:
                        continue
                    if objection is None:
                        report = self._device._spend(settlement, value)
                    else:
                        report = refused(digest, objection)
                    charged[asked.question] = report
                case Repeated(question=question):
                    if question not in charged:
                        continue
                    report = _repeated(charged[question], digest)
                case Refusal():
                    report = refused(digest, settlement)
                case _:
                    report = settlement
            reports[digest] = report
        return reports


def _repeated(report: bytes, digest: bytes) -> bytes:
    """The report of a question that another request of the message was charged for."""
    outcome = decode_report(report).outcome
    return refused(digest, outcome) if isinstance(outcome, Refusal) else reused(digest, outcome)


def _public_default(query: Query) -> Value:
    """The value of a record on which a query cannot be evaluated."""
    if query.kind is QueryKind.VECTOR:
        return (query.default,) * query.components
    return query.default


def _checked(query: Query, value: Value) -> Value:
    """A value that can be rounded and randomized.

    Raises:
      InvalidRecord: it is outside the query's range.
    """
    parts = value if isinstance(value, tuple) else (value,)
    expected = query.components if query.kind is QueryKind.VECTOR else 1
    if len(parts) != expected or not query.low <= min(parts) <= max(parts) <= query.high:
        raise InvalidRecord("value: expected one in the query's range, got another")
    return value
