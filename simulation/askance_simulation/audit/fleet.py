"""Test fleet of an audit: real devices, a fresh one for every report, that answer one question."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.queries import category, predicate, real, vector
from askance_client.codec import digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.errors import InvalidParameter
from askance_client.ledger import Ledger, LedgerFile
from askance_client.messages import Refusal, Request, SignedStudy, StudyTerms
from askance_client.queries import Bit, EncodedRecord, Integer, Query, Real, Schema
from askance_client.randomizers import Coins, Randomizer
from askance_simulation.audit.losses import Pair
from askance_simulation.families import Law
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.randomness import Seed, SeededWords


class Ledgers(Protocol):
    """Factory of the devices' ledgers."""

    def fresh(self) -> Ledger:
        """Return an empty one; the last one is given up."""
        ...

    def reopened(self) -> Ledger:
        """Return the last one, as a device finds it after a restart."""
        ...


class MemoryLedgers:
    """Ledgers of simulated devices, in memory; a restart finds the same object."""

    def __init__(self) -> None:
        self._kept = MemoryLedger()

    def fresh(self) -> Ledger:
        """Return an empty one."""
        self._kept = MemoryLedger()
        return self._kept

    def reopened(self) -> Ledger:
        """Return the last one."""
        return self._kept


class FileLedgers:
    """Ledgers of real devices: files in a folder, closed and opened again; a context manager.

    Args:
      folder: an empty one; the caller removes it.
    """

    def __init__(self, folder: Path) -> None:
        self._paths = (folder / f"{number}.ledger" for number in count())
        self._path = folder
        self._file: LedgerFile | None = None

    def __enter__(self) -> FileLedgers:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def fresh(self) -> Ledger:
        """Return a new file's."""
        self._close()
        self._path = next(self._paths)
        self._file = LedgerFile.create(self._path)
        return self._file.ledger()

    def reopened(self) -> Ledger:
        """Return the last file's, read anew."""
        self._close()
        self._file = LedgerFile.open(self._path)
        return self._file.ledger()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


_NOW_S = 20_000 * 86_400
_BUDGETS = 16  # so that what is charged twice shows, rather than being refused
_AHEAD = 1 << 16  # words drawn at a time


class Answerer(Protocol):
    """Interface of a device in an audit."""

    def introduce(self, signed: SignedStudy) -> Refusal | None:
        """Introduce a study."""
        ...

    def answer(self, payload: bytes) -> bytes:
        """Answer a request with a report."""
        ...


class Maker(Protocol):
    """Makes a device: `Device` itself, or what is to be audited in its place."""

    def __call__(
        self,
        *,
        schema: Schema,
        record: EncodedRecord,
        policy: Policy,
        ledger: Ledger,
        coins: Coins,
        now_s: Any,
        examiner: Examiner,
    ) -> Answerer:
        """Return a device that holds a record."""
        ...


@dataclass(frozen=True, slots=True)
class Case:
    """A record that is asked.

    Args:
      record: values by field; a field left out is missing.
      law: the level that the question has for it, or of a number the levels' chances.
    """

    name: str
    record: Mapping[str, Any]
    law: Law


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of an audit: a question, a randomizer, cases to ask and pairs to compare."""

    name: str
    schema: Schema
    query: Query
    randomizer: Randomizer
    cases: tuple[Case, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Pairs of cases with their allowed losses.

        The two ends of the range, which may differ by the charge; two records without an
        answer, which differ in fields that are not asked, and may not differ at all; and
        the first against the default, which for signed cells is its opposite.
        """
        low, high, missing, other = (case.name for case in self.cases)
        return (
            Pair(low, high, self.randomizer.loss.nano_nats),
            Pair(missing, other, 0),
            Pair(low, missing, self.randomizer.loss.nano_nats),
        )


def of_cells(name: str, randomizer: Randomizer) -> Subject:
    """Return a question for a record's cell; a record without an answer is in cell 1."""
    last = randomizer.levels - 1
    if last == 1:
        schema = Schema("audited", 1, answer=Bit(), other=Bit())
        query = predicate(schema.answer == 1, default=1)
    else:
        schema = Schema("audited", 1, answer=Integer(0, last), other=Bit())
        query = category(schema.answer, default=1)
    certain = {level: {level: Fraction(1)} for level in (0, 1, last)}
    cases = (
        Case("the first cell", {"answer": 0, "other": 0}, certain[0]),
        Case("the last cell", {"answer": last, "other": 0}, certain[last]),
        Case("no answer", {"other": 0}, certain[1]),
        Case("no answer, other", {"other": 1}, certain[1]),
    )
    return Subject(name, schema, query, randomizer, cases)


def of_signs(name: str, randomizer: Randomizer) -> Subject:
    """Return a question about a number in [-1, 1] as often as there are components; default 1."""
    schema = Schema("audited", 1, answer=Integer(-1, 1), other=Bit())
    size = randomizer.vector_components
    query = vector([schema.answer] * size, default=1)
    rounding = [0] * randomizer.vector_coins  # ends of the range are not rounded
    least, greatest = (
        {randomizer.vector_level([end] * size, -1, 1, rounding): Fraction(1)} for end in (-1, 1)
    )
    cases = (
        Case("all minus", {"answer": -1, "other": 0}, least),
        Case("all plus", {"answer": 1, "other": 0}, greatest),
        Case("no answer", {"other": 0}, greatest),
        Case("no answer, other", {"other": 1}, greatest),
    )
    return Subject(name, schema, query, randomizer, cases)


def subject_of(name: str, randomizer: Randomizer) -> Subject:
    """Return the question that a randomizer is made for: about sign patterns, or about cells."""
    if randomizer.vector_components:
        return of_signs(name, randomizer)
    return of_cells(name, randomizer)


def of_a_number(name: str, randomizer: Randomizer) -> Subject:
    """Return a question about a number in [-1, 1], rounded at random onto two levels; default 0."""
    if randomizer.levels != 2:
        raise InvalidParameter(f"{name}: expected 2 levels, got {randomizer.levels}")
    schema = Schema("audited", 1, answer=Real(-1, 1), other=Bit())
    query = real(schema.answer, -1, 1, default=0)
    half = {0: Fraction(1, 2), 1: Fraction(1, 2)}
    cases = (
        Case("the least number", {"answer": -1, "other": 0}, {0: Fraction(1)}),
        Case("the greatest number", {"answer": 1, "other": 0}, {1: Fraction(1)}),
        Case("no answer", {"other": 0}, half),
        Case("no answer, other", {"other": 1}, half),
    )
    return Subject(name, schema, query, randomizer, cases)


class StreamCoins:
    """Fresh words at every call, like the operating system's, but by a seed; one thread at a time.

    Unlike a simulated fleet's coins, asking again draws again, so that a device which answers anew
    is seen to.
    """

    def __init__(self, seed: Seed) -> None:
        self._words = SeededWords(seed)
        self._ahead: list[int] = []

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        """Return the next `count` words of the seed's stream."""
        while len(self._ahead) < count:
            self._ahead = self._words.take(_AHEAD).tolist() + self._ahead
        drawn = tuple(self._ahead[-count:]) if count else ()
        del self._ahead[len(self._ahead) - count :]
        return drawn


class AuditFleet:
    """Maker of devices for a subject, which asks them.

    Args:
      coins: the operating system's, or seeded ones; shared by all devices, fresh at every call.
    """

    def __init__(self, subject: Subject, coins: Coins, make: Maker = Device) -> None:
        self._coins = coins
        self._make = make
        self._schema = subject.schema
        key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"askance audit v1").digest())
        budget = _BUDGETS * subject.randomizer.loss.nano_nats
        self._policy = Policy(frozenset({key.public_key().public_bytes_raw()}), budget)
        self._studies = tuple(_study(subject.schema, nonce, budget, key) for nonce in (0, 1))
        self._examiner = Examiner()
        self._encoded = {case.name: subject.schema.encode(case.record) for case in subject.cases}
        first, second = (digest_of(study.study) for study in self._studies)
        self.request, self.next_round, self.other_study = (
            encode_request(Request(study, round_, 0, subject.query, subject.randomizer))
            for study, round_ in ((first, 0), (first, 1), (second, 0))
        )

    def device(
        self, case: Case, ledger: Ledger | None = None, coins: Coins | None = None
    ) -> Answerer:
        """Return a device that knows the first study; by default with an empty ledger."""
        device = self._make(
            schema=self._schema,
            record=self._encoded[case.name],
            policy=self._policy,
            ledger=MemoryLedger() if ledger is None else ledger,
            coins=self._coins if coins is None else coins,
            now_s=_now_s,
            examiner=self._examiner,
        )
        self._introduce(device, self._studies[0])
        return device

    def introduce_other(self, device: Answerer) -> None:
        """Introduce the second study, of which `other_study` is a request."""
        self._introduce(device, self._studies[1])

    @staticmethod
    def _introduce(device: Answerer, study: SignedStudy) -> None:
        refusal = device.introduce(study)
        if refusal is not None:
            raise InvalidParameter(f"expected a device that may be asked, got {refusal.message}")

    def answer(self, case: Case, n: int) -> list[bytes]:
        """Return the reports of n fresh devices that all hold the case's record."""
        return [self.device(case).answer(self.request) for _ in range(n)]


def _now_s() -> int:
    return _NOW_S


def _study(schema: Schema, nonce: int, budget: int, key: Ed25519PrivateKey) -> SignedStudy:
    terms = StudyTerms(
        nonce=nonce.to_bytes(16, "big"),
        learner="audit",
        learner_version=1,
        parameters=(),
        schema=schema,
        budget_nano_nats=budget,
        expires_unix_s=_NOW_S + 86_400,
        purpose="to see what reports tell",
        fields=tuple(sorted(schema.fields)),
    )
    return sign_study(terms, key)
