"""The device's core: request in, report out, and never a byte that was not paid for."""

from __future__ import annotations

from collections.abc import Callable

from askance.client.codec import digest_of, encode_report
from askance.client.device.examination import ExaminedRequest, ExaminedStudy, Examiner
from askance.client.device.policy import Policy
from askance.client.ledger import MAX_ANSWERS, Charge, Ledger, Limits, Overrun
from askance.client.messages import Reason, Refusal, Report, Request, SignedStudy
from askance.client.queries import EncodedRecord, QueryKind, Schema
from askance.client.randomizers import Coins
from askance.client.randomizers.rounding import round_to_levels, sign_pattern

_MAX_STUDIES = 256  # known at a time; an analyst could sign studies without end

_OVERRUNS = {
    Overrun.STUDY: Reason.OVER_STUDY_BUDGET,
    Overrun.DAY: Reason.OVER_DAY_BUDGET,
    Overrun.LIFE: Reason.OVER_LIFE_BUDGET,
    Overrun.ANSWERS: Reason.OVER_LIFE_BUDGET,
    Overrun.SPACE: Reason.OVER_LIFE_BUDGET,
}


class Device:
    """What answers for one user.

    Privacy: pure eps-LDP towards everybody who sees its reports, replace-one in the record, with
      eps the sum of the charges in its ledger and at most the policy's lifetime budget.
    Args:
      schema: the shape of the record.
      record: the user's record, encoded by `schema`.
      policy: what the owner allows.
      ledger: what was spent; the authority.
      coins: where randomness comes from (`SystemCoins` on a real device).
      now_s: the time, in whole seconds since 1970, UTC.
      examiner: may be shared between devices of one process.
    """

    __slots__ = (
        "_coins",
        "_examiner",
        "_ledger",
        "_now_s",
        "_policy",
        "_record",
        "_schema",
        "_studies",
    )

    def __init__(
        self,
        *,
        schema: Schema,
        record: EncodedRecord,
        policy: Policy,
        ledger: Ledger,
        coins: Coins,
        now_s: Callable[[], int],
        examiner: Examiner,
    ) -> None:
        self._schema = schema
        self._record = record
        self._policy = policy
        self._ledger = ledger
        self._coins = coins
        self._now_s = now_s
        self._examiner = examiner
        self._studies: dict[bytes, ExaminedStudy] = {}

    @property
    def ledger(self) -> Ledger:
        """The device's own account."""
        return self._ledger

    @property
    def known_studies(self) -> tuple[bytes, ...]:
        """The digests of the studies that this device has accepted."""
        return tuple(self._studies)

    def knows(self, digest: bytes) -> bool:
        """Whether the study of this digest was accepted."""
        return digest in self._studies

    def introduce(self, signed: SignedStudy) -> Refusal | None:
        """Meets a study; a refusal says why none of its requests will be answered."""
        # First, because it is cheap: a stranger's study is not worth a look.
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
        self._studies[study.digest] = study
        while len(self._studies) > _MAX_STUDIES:  # the oldest; its aggregator may send it again
            del self._studies[next(iter(self._studies))]
        return None

    def answer(self, payload: bytes) -> bytes:
        """Answers a request's payload with the bytes of a report: an answer, or a refusal.

        An answer is durable in the ledger, charge and symbol together, when this returns; the same
        payload again returns the same bytes.

        Raises:
          StoreError: the ledger could not make it durable; nothing was spent, nothing may be sent.
        """
        digest = digest_of(payload)
        stored = self._ledger.stored(digest)
        if stored is not None:
            return stored
        named = self._examiner.named_study(payload, digest)
        if isinstance(named, Refusal):
            return self._refuse(digest, None, named)
        study = self._studies.get(named)
        if study is None:
            refusal = Refusal(Reason.UNKNOWN_STUDY, "expected a request of an accepted study")
            return self._refuse(digest, None, refusal)
        asked = self._examiner.request(payload, digest, study)
        if isinstance(asked, Refusal):
            return self._refuse(digest, study, asked)
        now = self._now_s()  # once: the time that is checked is the time that is charged
        objection = self._policy.objection(asked.request.query.fields_used)
        objection = objection or self._untimely(study, now)
        if objection is not None:
            return self._refuse(digest, study, objection)
        return self._spend(asked, study, payload, now)

    def _untimely(self, study: ExaminedStudy, now: int) -> Refusal | None:
        """A refusal when the study has expired or the clock cannot be believed."""
        last_s = self._ledger.totals(study.digest, 0).last_s
        if now < last_s:
            # A clock set back would revive expired studies: wait until it passes the last charge.
            return Refusal(
                Reason.CLOCK_MOVED_BACK, f"expected Unix second {last_s} or later, got {now}"
            )
        if now >= study.terms.expires_unix_s:
            return Refusal(Reason.EXPIRED, "expected a study that has not expired")
        return None

    def _spend(
        self, asked: ExaminedRequest, study: ExaminedStudy, payload: bytes, now: int
    ) -> bytes:
        limits = self._policy.limits(study.terms)
        charge = Charge(
            request_digest=asked.digest,
            study_digest=study.digest,
            question=asked.question,
            at_s=now,
            nano_nats=asked.nano_nats,
            symbol=self._randomize(asked.request, asked.digest),
            payload=payload,
            study=study.study,
        )
        outcome = self._ledger.commit(
            charge,
            limits,
            lambda symbol, charged, spent, sequence: encode_report(
                Report(asked.digest, symbol, charged, spent, sequence)
            ),
        )
        if isinstance(outcome, Overrun):
            return self._refuse(asked.digest, study, _over(outcome, asked.nano_nats, limits))
        return outcome

    def _randomize(self, request: Request, digest: bytes) -> bytes:
        """The symbol: a pure function of the record's level and of coins."""
        level, coins = self._level(request, digest)
        return request.randomizer.randomize(level, coins)

    def _level(self, request: Request, digest: bytes) -> tuple[int, tuple[int, ...]]:
        """The record's level, and the coins that randomize it: others than those that round."""
        query, randomizer = request.query, request.randomizer
        words = self._coins.words(digest, request.coins)
        coins, rounding = words[: randomizer.coins], words[randomizer.coins :]
        if query.kind is QueryKind.VECTOR:
            components = query.evaluate_vector(self._record)
            return sign_pattern(components, query.low, query.high, rounding), coins
        level = query.evaluate(self._record)
        if query.kind is QueryKind.REAL:
            level = round_to_levels(level, query.low, query.high, randomizer.levels, rounding[0])
        return level, coins

    def _refuse(self, digest: bytes, study: ExaminedStudy | None, refusal: Refusal) -> bytes:
        spent = 0 if study is None else self._ledger.totals(study.digest, 0).study
        return encode_report(Report(digest, refusal, 0, spent))


def _over(overrun: Overrun, nano_nats: int, limits: Limits) -> Refusal:
    if overrun is Overrun.ANSWERS:
        return Refusal(_OVERRUNS[overrun], f"expected at most {MAX_ANSWERS} answers in all")
    if overrun is Overrun.SPACE:
        return Refusal(_OVERRUNS[overrun], "expected requests that the ledger has room for")
    allowed = {Overrun.STUDY: limits.study, Overrun.DAY: limits.day, Overrun.LIFE: limits.life}
    return Refusal(
        _OVERRUNS[overrun],
        f"expected at most {allowed[overrun]} nano-nats a {overrun.value} in all,"
        f" found a request for {nano_nats} more",
    )
