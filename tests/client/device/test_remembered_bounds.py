"""Every bound of what a device remembers and counts: at it and one past it, in figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askance_aggregator.encoding import encode_request
from askance_aggregator.families import k_ary_response
from askance_aggregator.queries import category, predicate
from askance_client.codec import digest_of
from askance_client.device import Device, ExaminedRequest, ExaminedStudy, Examiner
from askance_client.device.settling import RefusalCounts
from askance_client.ledger import contract
from askance_client.messages import Reason, Refusal, Request, SignedStudy
from askance_client.randomizers import Channel

if TYPE_CHECKING:
    from tests.client.device.conftest import DeviceSetup

REMEMBERED_BYTES = 2 * 1024 * 1024
MANY = 1 << 20  # a number that no bound is reached by
HOUR_S = 500_000 * 3_600


@pytest.fixture
def study(setup: DeviceSetup) -> ExaminedStudy:
    examined = Examiner().study(setup.study())
    assert isinstance(examined, ExaminedStudy)
    return examined


def known(examiner: Examiner, payload: bytes) -> bool:
    """Return True if the examination of a payload is remembered."""
    first = examiner.known(payload)
    return examiner.known(payload) is first


@pytest.mark.parametrize(("size", "kept"), [(-1, True), (0, True), (1, False), (2, False)])
def test_one_request_that_is_remembered_has_at_most_the_bytes_of_the_bound(
    size: int, kept: bool
) -> None:
    """_MAX_BYTES."""
    assert known(Examiner(MANY), bytes(REMEMBERED_BYTES + size)) is kept


@pytest.mark.parametrize(("size", "kept"), [(-1, True), (0, True), (1, False), (2, False)])
def test_a_study_is_remembered_with_its_key_signature_and_three_lengths(
    size: int, kept: bool
) -> None:
    content = REMEMBERED_BYTES - 3 * 8 - 32 - 64 + size
    signed = SignedStudy(bytes(content), bytes(32), bytes(64))
    examiner = Examiner(MANY)
    refusal = examiner.study(signed)
    assert isinstance(refusal, Refusal)
    assert (examiner.study(signed) is refusal) is kept


@pytest.mark.parametrize("past", [0, 1, 2])
def test_the_requests_that_are_remembered_have_at_most_the_bytes_of_the_bound_together(
    past: int,
) -> None:
    """The oldest examination is forgotten past the bound, and no other one."""
    examiner = Examiner(MANY)
    payloads = [b"a" * 1_000_000, b"b" * 1_000_000, b"c" * (REMEMBERED_BYTES - 2_000_000 + past)]
    first, second, third = [examiner.known(payload) for payload in payloads]
    for payload, examined in ((payloads[2], third), (payloads[1], second)):
        assert examiner.known(payload) is examined
    assert (examiner.known(payloads[0]) is first) is (past == 0)


@pytest.mark.parametrize("past", [0, 1])
def test_a_table_counts_a_byte_for_twelve_and_a_half_of_its_numbers(
    setup: DeviceSetup, study: ExaminedStudy, past: int
) -> None:
    """KEPT_PER_ENTRY and KEPT_PER_BYTE: what 8 bytes of memory for a number are of 100 for a byte.

    A request of few bytes may have a table of many numbers: runs of equal ones.
    """
    symbols = 500
    share = (1 << 64) // symbols
    rest = (1 << 64) - share * symbols
    rows = [[share] * symbols for _ in range(3)]
    for number, row in enumerate(rows):
        row[-1] += rest
        row[number] += share // 500
        row[10] -= share // 500
    table = tuple(tuple(row) for row in rows)
    asked = Request(study.digest, 0, 0, category(setup.schema.colour), Channel(table))
    payload = encode_request(asked)
    counted = len(payload) + (2 + 3 * symbols) * 8 // 100
    assert counted == len(payload) + 120 > 512 + 120
    examiner = Examiner(MANY)
    first = examiner.request(payload, study)
    assert isinstance(first, ExaminedRequest)
    examiner.known(bytes(REMEMBERED_BYTES - counted + past))
    assert (examiner.request(payload, study) is first) is (past == 0)


@pytest.mark.parametrize("past", [0, 1])
def test_4_096_short_payloads_are_remembered(past: int) -> None:
    """_MIN_KNOWN_BYTES, 512 for each: two digests, or one and a refusal of one line."""
    examiner = Examiner(MANY)
    payloads = [number.to_bytes(32, "big") for number in range(4_096 + past)]
    first, *others = [examiner.known(payload) for payload in payloads]
    assert all(
        examiner.known(payload) is before
        for payload, before in zip(payloads[1:], others, strict=True)
    )
    assert (examiner.known(payloads[0]) is first) is (past == 0)


@pytest.mark.parametrize("past", [0, 1])
def test_a_device_of_its_own_remembers_sixteen_examinations_of_each_kind(
    setup: DeviceSetup, study: ExaminedStudy, past: int
) -> None:
    examiner = Examiner()
    query = category(setup.schema.colour)
    randomizer = k_ary_response(query.cells, 10**9)
    payloads = [
        encode_request(Request(study.digest, number, 0, query, randomizer))
        for number in range(16 + past)
    ]
    asked = [examiner.request(payload, study) for payload in payloads]
    assert all(isinstance(one, ExaminedRequest) for one in asked)
    signed = [SignedStudy(payload, bytes(32), bytes(64)) for payload in payloads]
    met = [examiner.study(one) for one in signed]
    for number in range(1, len(payloads)):
        payload = payloads[number]
        assert examiner.request(payload, study) is asked[number]
        assert examiner.study(signed[number]) is met[number]
    first = payloads[0]
    for again, before in (
        (examiner.request(first, study), asked[0]),
        (examiner.study(signed[0]), met[0]),
    ):
        assert (again is before) is (past == 0)


class Trusting(Examiner):
    """An examiner that takes every study for the same one under another nonce."""

    def __init__(self, study: ExaminedStudy) -> None:
        super().__init__()
        self._study = study

    def study(self, signed: SignedStudy) -> ExaminedStudy:
        return ExaminedStudy(
            digest_of(signed.study), self._study.terms, signed.public_key, signed.study
        )


@pytest.mark.parametrize("past", [0, 1, 2])
def test_a_device_knows_256_studies_and_forgets_the_oldest(
    setup: DeviceSetup, study: ExaminedStudy, past: int
) -> None:
    """_MAX_STUDIES."""
    setup.examiner = Trusting(study)
    device: Device = setup.device()
    contents = [number.to_bytes(4, "big") for number in range(256 + past)]
    for content in contents:
        assert device.introduce(SignedStudy(content, study.public_key, b"")) is None
    digests = tuple(digest_of(content) for content in contents)
    assert device.known_studies == digests[past:]
    assert [device.knows(digest) for digest in digests[:past]] == [False] * past


def test_256_refusals_of_a_study_leave_in_an_hour() -> None:
    """MAX_REFUSALS."""
    counts = RefusalCounts()
    left = [counts.admit(b"study", HOUR_S) for _ in range(258)]
    assert left == [True] * 256 + [False] * 2


@pytest.mark.parametrize("before", [(), (None,)])
def test_256_studies_have_a_count_of_their_own(before: tuple[None, ...]) -> None:
    """_MAX_COUNTED: the 257th shares one with requests of no study."""
    counts = RefusalCounts()
    for study in (*before, *range(256)):
        number = None if study is None else study.to_bytes(4, "big")
        assert counts.admit(number, HOUR_S)
    shared = (257).to_bytes(4, "big")
    left = sum(counts.admit(shared, HOUR_S) for _ in range(257))
    assert left == 256 - len(before)
    assert not counts.admit(None, HOUR_S)
    for number in (0, 254, 255):
        assert counts.admit(number.to_bytes(4, "big"), HOUR_S)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_ledger_with_more_answers_than_are_given_is_asked_in_vain(
    most: int, setup: DeviceSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MAX_ANSWERS, with two of them given."""
    signed, colour = setup.study(), setup.schema.colour
    device = setup.device(studies=[signed])
    *given, another = [
        setup.payload(signed, predicate(colour == label)) for label in ("red", "green", "blue")
    ]
    for payload in given:
        device.answer(payload)
    monkeypatch.setattr(contract, "MAX_ANSWERS", most)
    turn = device.begin([another])
    assert [refusal.reason for refusal in turn.refusals] == [Reason.OVER_LIFE_BUDGET] * (most < 3)
    turn.close()


def test_a_request_under_another_study_than_it_names_is_not_remembered(
    setup: DeviceSetup, study: ExaminedStudy
) -> None:
    examiner, query = Examiner(), category(setup.schema.colour)
    payload = encode_request(Request(bytes(32), 0, 0, query, k_ary_response(query.cells, 10**9)))
    refusal = examiner.request(payload, study)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.UNKNOWN_STUDY
    assert examiner.known(payload) == (digest_of(payload), bytes(32), None)
