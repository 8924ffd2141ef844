"""Core of a device: requests in, reports out, and no byte that was not charged.

Theory of operation. A device is a state machine without I/O of its own; the ledger is its only
durable state. The requests of one message pass three steps, in a `Turn`, under one lock per device:

    settled      `begin`: requests, ledger, policy and clock decide on each request: a refusal, the
                 stored report, a repetition within the message (charged once), or an answer that
                 is due. Neither the record nor coins are reachable from here (`settling`).
    worked       `Turn.work`: of what is due the record is read and evaluated, and symbols are
                 drawn, within times that follow from the requests (`record_work`).
    committed    `Turn.finish`: the owner's consent is asked again, each charge is committed
                 together with its report, and only then are reports returned.

From each step a turn may be closed: the device is as before it, and the same requests decide the
same again. The lock is held from `begin` to `finish` or `close`, so that what was decided stays
true until it is committed; the ledger checks its limits once more, and its answer is final.

A process may die anywhere. Before the commit nothing is charged and nothing left. After it the
report is in the ledger: the request comes again, is known by its digest, and gets the stored bytes.

Besides the ledger a device keeps what may be lost: accepted studies, the count of refusals, studies
for which the file has no room, and the class of weights of which a draw was missed this hour.
Losing them costs a repeated check; none of them follows from a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock

from askance_client.codec import decode_report, encode_report
from askance_client.device.examination import ExaminedRequest, ExaminedStudy, Examiner
from askance_client.device.policy import Policy
from askance_client.device.record_work import MemberRecord, RecordWork
from askance_client.device.settling import (
    MAX_WEIGHT,
    SECONDS_PER_HOUR,
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
from askance_client.errors import RemoteProtocolError
from askance_client.ledger import Charge, Ledger, Overrun
from askance_client.messages import Reason, Refusal, Report, SignedStudy
from askance_client.queries import Schema
from askance_client.randomizers import Coins

_MAX_STUDIES = 256  # known at a time; an analyst could sign studies without end
_LIGHT = 1 << 12  # weight: some 1 ms of a server; a draw of less is late for no cost of its own


class TooManyRefusals(RemoteProtocolError):
    """No report leaves: refusals of this study and hour are past their limit, or it is held."""


class Device:
    """Device of one user.

    Privacy: pure eps-LDP towards every reader of its reports, replace-one in the record, with
      eps the sum of the charges in its ledger and at most the policy's lifetime budget. Charges,
      refusals, and the fact that the record is read and coins are drawn, are functions of the
      history of requests.

    Args:
      record: the user's record, encoded by `schema`.
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
        "_heavy",
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
        self._heavy = (0, MAX_WEIGHT + 1)  # an hour, and the weight that is refused in it
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
            turn.work.answer()
        except BaseException:
            turn.close()
            raise
        report = next(iter(turn.finish().values()), None)
        if report is None:
            raise TooManyRefusals("request: expected a decided study, and fewer refusals this hour")
        return report

    def begin(self, payloads: Sequence[bytes]) -> Turn:
        """Settle the requests of one message, without the record, and hold the device for them.

        Args:
          payloads: in the order in which they are decided; an equal one is answered once. Those
            whose weights do not fit one turn are left for the next (`Turn.left`).

        Raises:
          StoreError: the ledger cannot be read; nothing was settled.
        """
        self._lock.acquire()
        try:
            return self._settled(payloads)
        except BaseException:
            self._lock.release()
            raise

    def _settled(self, payloads: Sequence[bytes]) -> Turn:
        now_s = self._now_s()
        hour, heavy = self._heavy
        most = heavy - 1 if hour == now_s // SECONDS_PER_HOUR else MAX_WEIGHT
        settling = Settling(
            self._ledger, self._policy, self._examiner, self._studies, self._full, now_s, most
        )
        settled: dict[bytes, Settlement] = {}
        refusals: list[Refusal] = []  # those that leave, and those that do not
        left: list[bytes] = []
        for payload in dict.fromkeys(payloads):
            known = self._examiner.known(payload)
            study, settlement = settling.settle(payload, known)
            if settlement is None:
                left.append(payload)
                continue
            if isinstance(settlement, Refusal):
                refusals.append(settlement)
                if settlement.reason is Reason.WAITING or not self._refusals.admit(study, now_s):
                    continue
            settled[known.digest] = settlement
        work = self._work([one.asked for one in settled.values() if isinstance(one, Due)])
        return Turn(self, self._lock, settled, work, tuple(refusals), tuple(left))

    def _work(self, asked: Sequence[ExaminedRequest]) -> RecordWork:
        return RecordWork(self._record, self._coins, asked)

    def _refuse_heavy(self, missed: int) -> None:
        """Refuse, until the hour is over, the class of weights of which a draw was missed."""
        if missed:
            heavy = max(_LIGHT, 1 << (missed.bit_length() - 1))
            self._heavy = (self._now_s() // SECONDS_PER_HOUR, heavy)

    def _objection(self, due: Due) -> Refusal | None:
        """The owner's objection to an answer that is about to be charged; None: there is none."""
        return objection_of_owner(self._policy, due.study, due.payload, due.at_s)

    def _spend(self, due: Due, symbol: bytes) -> bytes:
        """Charge an answer, make it durable, and return its report."""
        # The ledger's own check is the authority: the report may be a refusal all the same.
        asked = due.asked
        charge = Charge(
            request_digest=asked.digest,
            study_digest=due.study.digest,
            question=asked.question,
            at_s=due.at_s,
            nano_nats=asked.nano_nats,
            symbol=symbol,
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


class Turn:
    """The requests of one message between decision and commit (see `Device.begin`).

    The steps of `work` come first, in the timed part; then `finish`, which has finished symbols
    only. A turn that cannot be finished is closed.

    Args:
      refusals: all, those that leave and those that do not.
      left: requests for a turn of their own, in order.
    """

    __slots__ = ("_device", "_held", "_settled", "left", "refusals", "work")

    def __init__(
        self,
        device: Device,
        held: Lock,
        settled: Mapping[bytes, Settlement],
        work: RecordWork,
        refusals: tuple[Refusal, ...],
        left: tuple[bytes, ...],
    ) -> None:
        self._device = device
        self._held: Lock | None = held
        self._settled = settled
        self.work = work
        self.refusals = refusals
        self.left = left

    @property
    def pending(self) -> bool:
        """True if an answer is to be evaluated; a function of the history of requests."""
        return self.work.weight > 0

    def finish(self) -> dict[bytes, bytes]:
        """Commit the symbols, and let the device go.

        Returns:
          The reports that may be sent, by their requests' digests.

        Raises:
          StoreError: the ledger could not make an answer durable. Those before it are; they are
            sent when they are asked for again.
        """
        try:
            symbols = self.work.end()
            self._device._refuse_heavy(self.work.missed)
            return self._reports(symbols)
        finally:
            self.close()

    def close(self) -> None:
        """Let the device go, and forget what was not committed; again is no harm."""
        self.work.end()
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def _reports(self, symbols: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        reports: dict[bytes, bytes] = {}
        charged: dict[bytes, bytes] = {}  # the reports that were charged, by question
        for digest, settlement in self._settled.items():
            match settlement:
                case Due(asked=asked):
                    # The owner may have denied the study since the turn began.
                    objection = self._device._objection(settlement)
                    if objection is not None and objection.reason is Reason.WAITING:
                        continue
                    if objection is None:
                        report = self._device._spend(settlement, symbols[digest])
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
