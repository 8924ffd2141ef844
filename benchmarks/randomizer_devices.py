"""Cost of an answer for a device, and size of its request: every family at its largest.

A device that is an object of this process decodes the request's bytes, examines it (the query, the
table, its exact loss), evaluates the record, randomizes, charges its ledger in memory and encodes
the report; nothing is waited for, so the processor's time is what it takes, whatever else the
machine does. Three times are reported, each the best of some: "new", a request that was not seen
before; "again", one that was, by a device that has not answered it; and "first", a new request to a
process that was just started and has answered one other question, so that code that was never run
and memory that was never used are in it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing import get_context
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import (
    hadamard_sign,
    hypercube_response,
    k_ary_response,
    linear_hashing,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_aggregator.learners import (
    masked_parity,
    masked_parity_schema,
    mean_vector,
    vectors_schema,
)
from askance_aggregator.learners.prefixes import MAX_PREFIXES, Domain
from askance_aggregator.planning.blocks import codebook_for
from askance_aggregator.queries import (
    category,
    predicate,
    real,
    signed,
)
from askance_client.codec import decode_study, digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.messages import Conduct, Request, SignedStudy, StudyTerms
from askance_client.queries import (
    Bit,
    Bits,
    Integer,
    Query,
    Real,
    Schema,
)
from askance_client.randomizers import Channel, Randomizer, SystemCoins
from askance_simulation.fleets.memory_ledger import MemoryLedger

NAT = 10**9
MOST_MS, MOST_BYTES = 5.0, 40_000
_LIFETIME = 10**12  # nano-nats
_WORD_BITS = 256  # of a text of 32 bytes
_LARGEST_SET = 1024  # bytes of a report: plans have no larger sets than 64 members or 1,024 signs


@dataclass(frozen=True, slots=True)
class Case:
    """Question to one device.

    Args:
        name: of the question.
        schema: of the device's record.
        values: the record.
        query: what is asked.
        randomizer: by what.
        unplanned: no plan makes such a request, though a device answers it.
    """

    name: str
    schema: Schema
    values: Mapping[str, Any]
    query: Query
    randomizer: Randomizer
    unplanned: bool = False


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """Cost of one question for a device, in milliseconds."""

    question: str
    family: str
    unplanned: bool
    request_bytes: int
    report_bytes: int
    first_ms: float
    new_ms: float
    again_ms: float


def cases() -> Iterator[Case]:
    """Generate every family at its largest, and the largest questions."""
    bit = Schema("bit", 1, yes=Bit())
    yes = predicate(bit["yes"] == 1)
    yield Case("predicate", bit, {"yes": 1}, yes, randomized_response(NAT))
    number = Schema("number", 1, x=Real(-1, 1))
    plain = k_ary_response(64, NAT)
    rows = [[plain.other] * 64 for _ in range(64)]
    for level, row in enumerate(rows):
        row[level] = (1 << 64) - 63 * plain.other
    table = Channel(tuple(map(tuple, rows)))
    yield Case("number, table of 64 x 64", number, {"x": 0.25}, real(number["x"]), table)
    for k, eps, family in (
        (256, "1/4", subset_selection),
        (1024, "8", k_ary_response),
        (1024, "1/4", subset_selection),
        (1024, "1", linear_hashing),
        (65_535, "1", linear_hashing),
        (65_535, "8", linear_hashing),
        (65_535, "1/4", subset_selection),
    ):
        schema = Schema("cells", 1, cell=Integer(0, k - 1))
        randomizer: Randomizer = family(k, int(NAT * Fraction(eps)))
        name, is_large = f"{k:,} cells, eps = {eps}", randomizer.width > _LARGEST_SET
        asked = category(schema["cell"])
        yield Case(name, schema, {"cell": k - 2}, asked, randomizer, is_large)
    for signs in (
        hadamard_sign(1000, NAT),
        signed_subset_selection(1000, 2 * NAT),
        hadamard_sign(32_767, NAT),
        signed_subset_selection(32_767, 2 * NAT),
    ):
        schema = Schema("signed values", 1, cell=Integer(0, 2 * signs.values))
        asked, is_large = signed(schema["cell"]), signs.width > _LARGEST_SET
        yield Case(f"{signs.values:,} signed values", schema, {"cell": 5}, asked, signs, is_large)
    yield from _programs()


def _programs() -> Iterator[Case]:
    """Generate questions whose programs are large."""
    words = Schema("words", 1, word=Bits(_WORD_BITS))
    length = _WORD_BITS - 7  # 2^7 ways to go on: 2^15 cells
    prefixes = [place << (length - 8) | 5 for place in range(MAX_PREFIXES)]
    query = Domain(words, "word").extensions(prefixes, length, _WORD_BITS)
    answer = {"word": [place % 2 for place in range(_WORD_BITS)]}
    hashing = linear_hashing(query.cells, NAT)
    yield Case(f"{MAX_PREFIXES} prefixes of {_WORD_BITS} bits", words, answer, query, hashing)
    masks = masked_parity_schema(1024)
    run = masked_parity(masks).run()
    query = next(run).questions[0].query
    run.close()
    example = {"x": [0] * 1024, "i": 1000, "b": 1, "y": -1}
    yield Case("MASKED-PARITY, d = 1024", masks, example, query, hadamard_sign(1024, NAT))
    vectors = vectors_schema(1000)
    numbers = dict.fromkeys(vectors.fields, 0.01)
    for norm in ("linf", "l2"):
        (question,) = mean_vector(vectors, norm=norm, missing="default").batch.questions
        query = question.query
        response = codebook_for(question, 4 * NAT) or hypercube_response(1000, 4 * NAT)
        yield Case(f"vector of 1,000, {norm}", vectors, numbers, query, response)


def device_rows(processes: int, answers: int) -> Iterator[DeviceRow]:
    """Measure each case, in that many processes of its own.

    Args:
        processes: how many.
        answers: in each, to new requests, after the first one; and to known ones.
    """
    first = next(cases())
    warming = _asked(first, 1)
    for case in cases():
        asked = _asked(case, answers + 1)
        found = [
            _in_a_new_process(_times, warming, first.values, asked, case.values)
            for _ in range(processes)
        ]
        yield DeviceRow(
            question=case.name,
            family=case.randomizer.name,
            unplanned=case.unplanned,
            request_bytes=len(asked.payloads[0]),
            report_bytes=case.randomizer.width,
            first_ms=min(times["new"][0] for times in found),
            new_ms=min(ms for times in found for ms in times["new"][1:]),
            again_ms=min(ms for times in found for ms in times["again"]),
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A study and requests of it, one per round."""

    study: SignedStudy
    payloads: tuple[bytes, ...]


def _asked(case: Case, rounds: int) -> _Asked:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    terms = StudyTerms(
        bytes(16),
        "b",
        1,
        (),
        case.schema,
        _LIFETIME,
        2_000,
        "a benchmark",
        Conduct(),
        fields=tuple(sorted(case.schema.fields)),
    )
    study = sign_study(terms, key)
    digest = digest_of(study.study)
    requests = (Request(digest, at, 0, case.query, case.randomizer) for at in range(rounds))
    return _Asked(study, tuple(map(encode_request, requests)))


def _in_a_new_process(work: Callable[..., Any], *given: object) -> Any:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *given).result()


def _times(
    warming: _Asked, warming_values: Mapping[str, Any], asked: _Asked, values: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Measure the milliseconds of answers to new requests, in order, and to known ones."""
    _answered(_device(warming.study, warming_values, Examiner()), warming.payloads[0])
    fresh = [_device(asked.study, values, Examiner()) for _ in asked.payloads]
    new = [_answered(*pair) for pair in zip(fresh, asked.payloads, strict=True)]
    examiner = Examiner()
    knowing = [_device(asked.study, values, examiner) for _ in asked.payloads]
    again = [_answered(device, asked.payloads[0]) for device in knowing]
    return {"new": new, "again": again[1:]}


def _device(study: SignedStudy, values: Mapping[str, Any], examiner: Examiner) -> Device:
    schema = decode_study(study.study).schema
    device = Device(
        schema=schema,
        record=schema.encode(values),
        policy=Policy(frozenset({study.public_key}), _LIFETIME),
        ledger=MemoryLedger(),
        coins=SystemCoins(),
        now_s=lambda: 1_000,
        examiner=examiner,
    )
    refusal = device.introduce(study)
    if refusal is not None:
        raise AssertionError(f"a device refused the study: {refusal.message}")
    return device


def _answered(device: Device, payload: bytes) -> float:
    began = time.process_time()
    device.answer(payload)
    spent = 1000 * (time.process_time() - began)
    if device.ledger.totals(bytes(32), 0).life == 0:
        raise AssertionError("a device refused a request of the benchmark")
    return spent
