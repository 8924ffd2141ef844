"""Examination of a study or a request by its bytes alone, done once.

Thousands of simulated devices in one process, or a gateway's many, see the same bytes; signatures,
tables and expressions are checked once for each distinct payload and shared.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from askance_client.accounting import LEAST_LOSS
from askance_client.codec import decode_request, decode_study, digest_of, study_of, verify_study
from askance_client.errors import AskanceError, InvalidParameter, InvalidQuery
from askance_client.messages import Reason, Refusal, Repeat, Request, SignedStudy, StudyTerms
from askance_client.queries import Query, QueryKind
from askance_client.randomizers import Randomizer
from askance_client.randomizers.rounding import MAX_ROUNDING_LEVELS

MEMORY_PER_BYTE = 128
"""Peak of Python's memory while a request is examined, per byte of it, beside 128 KiB. Measured:
106 for sums of small numbers, whose nodes take 8 bytes on the wire and some 850 as expressions. A
query past 4,096 nodes, or 65,536 with arguments and constants, is refused before its expressions
are made. The parsed message takes up to 22 more (nodes without any content)."""

# Beside it, per entry of a table: a run of equal entries has few bytes. Measured: 33, so that a
# table of 720 levels and symbols takes 17 MB.
MEMORY_PER_ENTRY = 40

KEPT_PER_BYTE = 100
"""The same of what is remembered of a request; measured: 84."""

KEPT_PER_ENTRY = 8  # the same of a table's entry, a reference to the integer of its run

_MAX_BYTES = 2 << 20
_KEY_BYTES = 24  # counted for a remembered study, beside its bytes, key and signature
_MIN_KNOWN_BYTES = 512  # counted for a payload at least: two digests, or a refusal of one line


@dataclass(frozen=True, slots=True)
class ExaminedStudy:
    """A study whose signature holds.

    Args:
      copies: the same bytes, signed by other analysts.
    """

    digest: bytes
    terms: StudyTerms
    public_key: bytes
    study: bytes
    copies: tuple[ExaminedStudy, ...] = ()


@dataclass(frozen=True, slots=True)
class ExaminedRequest:
    """A request that can be answered, and what an answer costs.

    `nano_nats` is the exact privacy loss of its randomizer, rounded up; `question` names the query
    and the randomizer together, and the epoch, under which an answer is frozen.
    """

    digest: bytes
    request: Request
    nano_nats: int
    question: bytes

    @property
    def weight(self) -> int:
        """Public bound of the work of an answer: of the query's evaluation and of one draw."""
        return self.request.query.expression.weight + self.request.randomizer.draw_cost


class Known(NamedTuple):
    """Examination of a payload.

    Args:
      named: the digest of the study that it is a request of, or why it is none.
      asked: the request under that study, or why it is none; None: not examined yet.
    """

    digest: bytes
    named: bytes | Refusal
    asked: ExaminedRequest | Refusal | None = None


class Examiner:
    """Examines bytes and remembers the examinations on the latest `capacity` of them.

    Shared between threads it may examine something twice, never wrongly. One device remembers few,
    what stands for many devices may remember more; of large ones fewer are remembered.
    """

    def __init__(self, capacity: int = 16) -> None:
        self._studies = _Latest[tuple[bytes, bytes, bytes], ExaminedStudy | Refusal](capacity)
        self._requests = _Latest[bytes, Known](capacity)  # by payload

    def study(self, signed: SignedStudy) -> ExaminedStudy | Refusal:
        """The study's terms, or why it is none."""
        key = (signed.study, signed.public_key, signed.signature)
        examined = self._studies.get(key)
        if examined is None:
            examined = _examine_study(signed)
            self._studies.remember(key, examined, sum(map(len, key)) + _KEY_BYTES)
        return examined

    def known(self, payload: bytes) -> Known:
        """Examine a payload; if that was done lately, it is one look-up."""
        known = self._requests.get(payload)
        if known is None:
            try:
                named: bytes | Refusal = study_of(payload)
            except AskanceError as error:
                named = Refusal(Reason.MALFORMED, str(error))
            known = Known(digest_of(payload), named)
            self._requests.remember(payload, known, max(len(payload), _MIN_KNOWN_BYTES))
        return known

    def request(self, payload: bytes, study: ExaminedStudy) -> ExaminedRequest | Refusal:
        """The request in `payload` under `study`, or why it is none."""
        known = self.known(payload)
        if known.asked is not None and known.named == study.digest:
            return known.asked
        asked = _examine_request(payload, known.digest, study)
        if known.named == study.digest:
            table = () if isinstance(asked, Refusal) else asked.request.randomizer.parameters
            # The size of a message that may take as much as this one with its table.
            size = len(table) * KEPT_PER_ENTRY // KEPT_PER_BYTE
            size += max(len(payload), _MIN_KNOWN_BYTES)
            self._requests.remember(payload, known._replace(asked=asked), size)
        return asked


K = TypeVar("K")
V = TypeVar("V")


class _Latest(Generic[K, V]):
    """Latest examinations, bounded in number and in bytes.

    Their sizes add up to at most `_MAX_BYTES`: what a hostile aggregator sent takes up to
    `KEPT_PER_BYTE` times its size when it is decoded.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._known: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: K) -> V | None:
        found = self._known.get(key)
        return None if found is None else found[0]

    def remember(self, key: K, value: V, size: int) -> None:
        with self._lock:
            _, before = self._known.pop(key, (None, 0))
            self._known[key] = (value, size)
            self._bytes += size - before
            while len(self._known) > self._capacity or self._bytes > _MAX_BYTES:
                _, (_, gone) = self._known.popitem(last=False)
                self._bytes -= gone


def _examine_study(signed: SignedStudy) -> ExaminedStudy | Refusal:
    if not verify_study(signed):
        return Refusal(Reason.BAD_SIGNATURE, "expected the analyst's signature over the study")
    try:
        terms = decode_study(signed.study)
    except AskanceError as error:
        return Refusal(Reason.MALFORMED, str(error))
    return ExaminedStudy(digest_of(signed.study), terms, signed.public_key, signed.study)


def _examine_request(
    payload: bytes, digest: bytes, study: ExaminedStudy
) -> ExaminedRequest | Refusal:
    schema = study.terms.schema
    try:
        request = decode_request(payload, schema)
    except InvalidQuery as error:
        return Refusal(Reason.INVALID_QUERY, str(error))
    except InvalidParameter as error:
        return Refusal(Reason.INVALID_RANDOMIZER, str(error))
    except AskanceError as error:
        return Refusal(Reason.MALFORMED, str(error))
    if request.study_digest != study.digest:
        return Refusal(Reason.UNKNOWN_STUDY, "expected a request of this study, found another's")
    repeat = study.terms.repeat
    if request.epoch not in ((0,) if repeat is None else repeat.indices):
        return Refusal(Reason.WRONG_EPOCH, f"epoch: expected one signed, got {request.epoch}")
    query, randomizer = request.query, request.randomizer
    if not query.fields_used <= set(study.terms.fields):
        field = min(query.fields_used - set(study.terms.fields))
        return Refusal(
            Reason.FIELD_NOT_ALLOWED, f"fields: expected fields that the study signs, got {field!r}"
        )
    mismatch = _mismatch(query, randomizer)
    if mismatch is not None:
        return Refusal(Reason.LEVELS_MISMATCH, mismatch)
    if (nano_nats := randomizer.loss.nano_nats) < LEAST_LOSS:
        return Refusal(
            Reason.INVALID_RANDOMIZER,
            f"loss: expected {LEAST_LOSS} nano-nats or more, got {nano_nats}",
        )
    return ExaminedRequest(
        digest=digest,
        request=request,
        nano_nats=nano_nats,
        question=_question(query.digest(schema) + randomizer.canonical, repeat, request.epoch),
    )


def _question(canonical: bytes, repeat: Repeat | None, epoch: int) -> bytes:
    """The key of a frozen answer: of query and randomizer, and of `every` and the epoch's index."""
    digest = hashlib.sha256(canonical).digest()
    if repeat is None:
        return digest
    period = repeat.every_days.to_bytes(8, "big") + epoch.to_bytes(8, "big")
    return hashlib.sha256(b"askance epoch v1\0" + digest + period).digest()


def _mismatch(query: Query, randomizer: Randomizer) -> str | None:
    """Explain why the query's values are not the randomizer's levels; None if they are."""
    if query.kind is QueryKind.VECTOR:
        if not randomizer.vector_components:
            return f"expected a randomizer of vectors, found {randomizer.name}"
        if randomizer.vector_components != query.components:
            return f"expected {query.components} components, found {randomizer.vector_components}"
    elif randomizer.vector_components:
        return f"expected a randomizer of levels, found {randomizer.name}, of vectors"
    elif query.kind is QueryKind.REAL:
        if randomizer.levels > MAX_ROUNDING_LEVELS:
            return f"expected at most {MAX_ROUNDING_LEVELS} levels, found {randomizer.levels}"
    elif randomizer.levels != query.cells:
        return f"expected a randomizer of {query.cells} levels, found {randomizer.levels}"
    return None
