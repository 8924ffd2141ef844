"""Every reason to refuse: a value, with nothing spent, nothing kept and one line to say why."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.families import k_ary_response, randomized_response
from askance_aggregator.queries import category, predicate, real
from askance_client.accounting import parse_epsilon
from askance_client.codec import MAX_MESSAGE_BYTES, decode_report, digest_of
from askance_client.device import Device
from askance_client.messages import Reason, Refusal, SignedStudy
from askance_client.queries import Bit, Schema
from askance_protos.v1 import exchange_pb2 as pb

if TYPE_CHECKING:
    from tests.client.device.conftest import Bench

HALF = parse_epsilon("0.5")
DAY = 86_400


def altered(payload: bytes, change: Callable[[pb.Request], object]) -> bytes:
    message = pb.Request.FromString(payload)
    change(message)
    return message.SerializeToString()


class TestStudies:
    def test_a_good_one_is_met(self, bench: Bench) -> None:
        study, device = bench.study(), bench.device()
        assert device.introduce(study) is None
        assert device.known_studies == (digest_of(study.study),)
        assert device.knows(digest_of(study.study))

    @pytest.mark.parametrize("part", ["study", "signature"])
    def test_a_bit_of_difference_and_the_signature_fails(self, bench: Bench, part: str) -> None:
        good = bench.study()
        parts = {"study": good.study, "public_key": good.public_key, "signature": good.signature}
        parts[part] = parts[part][:-1] + bytes([parts[part][-1] ^ 1])
        assert self.refused(bench, SignedStudy(**parts)) is Reason.BAD_SIGNATURE

    def test_so_it_does_when_it_has_another_length(self, bench: Bench) -> None:
        good = bench.study()
        for wrong in (b"", good.signature[:-1], good.signature + b"\0"):
            study = SignedStudy(good.study, good.public_key, wrong)
            assert self.refused(bench, study) is Reason.BAD_SIGNATURE

    def test_another_key_is_not_pinned_whatever_it_signed(self, bench: Bench) -> None:
        good = bench.study()
        key = good.public_key
        for wrong in (b"", key[:-1], key + b"\0", key[:-1] + bytes([key[-1] ^ 1])):
            study = SignedStudy(good.study, wrong, good.signature)
            assert self.refused(bench, study) is Reason.UNTRUSTED_KEY

    def test_a_signature_for_something_else_is_none_for_a_study(self, bench: Bench) -> None:
        good = bench.study()
        bare = SignedStudy(good.study, good.public_key, bench.key.sign(good.study))
        assert self.refused(bench, bare) is Reason.BAD_SIGNATURE

    def test_a_key_that_is_not_pinned(self, bench: Bench) -> None:
        assert self.refused(bench, bench.study(key=bench.stranger)) is Reason.UNTRUSTED_KEY

    def test_signed_nonsense(self, bench: Bench) -> None:
        nonsense = b"\xff no study"
        signature = bench.key.sign(b"askance study v1\0" + nonsense)
        study = SignedStudy(nonsense, bench.key.public_key().public_bytes_raw(), signature)
        assert self.refused(bench, study) is Reason.MALFORMED

    @pytest.mark.parametrize(
        "other",
        [
            Schema("person", 2, smoker=Bit()),
            Schema("person", 1, smoker=Bit()),
            Schema("somebody", 1, smoker=Bit()),
        ],
    )
    def test_another_schema_than_the_records(self, bench: Bench, other: Schema) -> None:
        assert self.refused(bench, bench.study(schema=other)) is Reason.SCHEMA_MISMATCH

    @staticmethod
    def refused(bench: Bench, study: SignedStudy) -> Reason:
        device = bench.device()
        refusal = device.introduce(study)
        assert refusal is not None
        assert device.known_studies == ()
        assert "\n" not in refusal.message
        asked = bench.refusal(device, bench.payload(study))
        assert asked.reason is Reason.UNKNOWN_STUDY
        return refusal.reason


class TestRequests:
    @pytest.fixture
    def study(self, bench: Bench) -> SignedStudy:
        return bench.study()

    @pytest.fixture
    def device(self, bench: Bench, study: SignedStudy) -> Device:
        return bench.device(studies=[study])

    @pytest.mark.parametrize(
        "payload", [b"", b"\xff", b"no request", bytes(MAX_MESSAGE_BYTES + 1), b"\x0a\x01x"]
    )
    def test_what_is_no_request(self, bench: Bench, device: Device, payload: bytes) -> None:
        assert bench.refusal(device, payload).reason is Reason.MALFORMED

    def test_a_field_of_the_future(self, bench: Bench, device: Device, study: SignedStudy) -> None:
        payload = bench.payload(study) + b"\x78\x01"
        assert bench.refusal(device, payload).reason is Reason.MALFORMED

    def test_no_randomizer(self, bench: Bench, device: Device, study: SignedStudy) -> None:
        payload = altered(bench.payload(study), lambda m: m.ClearField("randomizer"))
        assert bench.refusal(device, payload).reason is Reason.MALFORMED

    def test_a_study_that_was_never_met(self, bench: Bench, device: Device) -> None:
        payload = bench.payload(bench.study(7))
        assert bench.refusal(device, payload).reason is Reason.UNKNOWN_STUDY

    @pytest.mark.parametrize("kind", [0, 99])
    def test_a_kind_of_query_that_is_unknown(
        self, bench: Bench, device: Device, study: SignedStudy, kind: int
    ) -> None:
        payload = altered(bench.payload(study), lambda m: setattr(m.query, "kind", kind))
        assert bench.refusal(device, payload).reason is Reason.INVALID_QUERY

    def test_an_operation_that_is_unknown(
        self, bench: Bench, device: Device, study: SignedStudy
    ) -> None:
        payload = altered(bench.payload(study), lambda m: setattr(m.query.nodes[-1], "op", 999))
        assert bench.refusal(device, payload).reason is Reason.INVALID_QUERY

    def test_a_field_that_is_unknown_however_long_its_name(
        self, bench: Bench, device: Device, study: SignedStudy
    ) -> None:
        payload = altered(
            bench.payload(study), lambda m: setattr(m.query.nodes[0], "name", "x" * 200_000)
        )
        refusal = bench.refusal(device, payload)
        assert refusal.reason is Reason.INVALID_QUERY
        assert len(refusal.message) < 1_000

    @pytest.mark.parametrize(
        "entries",
        [
            [1 << 63, 1 << 63, 1 << 63, 1],
            [(1 << 64) - 1, 0, 1 << 63, 1 << 63],
            [0, 0, 0, 0],
        ],
        ids=["does not sum to 2^64", "a zero beside a non-zero", "nothing"],
    )
    def test_a_table_that_is_none(
        self, bench: Bench, device: Device, study: SignedStudy, entries: list[int]
    ) -> None:
        def change(message: pb.Request) -> None:
            message.randomizer.table.entries[:] = entries

        payload = altered(bench.payload(study), change)
        assert bench.refusal(device, payload).reason is Reason.INVALID_RANDOMIZER

    @pytest.mark.parametrize("levels", [2, 4])
    def test_a_randomizer_of_other_levels_than_the_query_has_cells(
        self, bench: Bench, device: Device, study: SignedStudy, levels: int
    ) -> None:
        payload = bench.payload(study, category(bench.schema.colour), k_ary_response(levels, HALF))
        refusal = bench.refusal(device, payload)
        assert refusal.reason is Reason.LEVELS_MISMATCH
        assert refusal.message == f"expected a randomizer of 3 levels, found {levels}"

    def test_a_field_that_its_owner_keeps_out(self, bench: Bench, study: SignedStudy) -> None:
        device = bench.device(studies=[study], fields=frozenset({"smoker"}))
        asked = predicate((bench.schema.smoker == 1) & (bench.schema.colour == "red"))
        refusal = bench.refusal(device, bench.payload(study, asked))
        assert refusal.reason is Reason.FIELD_NOT_ALLOWED
        assert "'colour'" in refusal.message
        assert isinstance(bench.answer(device, bench.payload(study)).outcome, bytes)


class TestTime:
    @pytest.mark.parametrize(("late", "refused"), [(-1, False), (0, True), (1, True)])
    def test_a_study_expires_at_its_second(self, bench: Bench, late: int, refused: bool) -> None:
        study = bench.study(expires=bench.now_s + 1_000)
        device = bench.device(studies=[study])
        bench.now_s += 1_000 + late
        outcome = bench.answer(device, bench.payload(study)).outcome
        assert isinstance(outcome, Refusal) == refused
        assert not isinstance(outcome, Refusal) or outcome.reason is Reason.EXPIRED

    def test_a_clock_before_the_last_charge_is_not_believed(self, bench: Bench) -> None:
        """Or an expired study could be revived by setting the clock back."""
        study = bench.study(expires=bench.now_s + 10 * DAY)
        device = bench.device(studies=[study])
        bench.answer(device, bench.payload(study))
        asked = bench.payload(study, predicate(bench.schema.smoker == 0))
        today = bench.now_s
        bench.now_s = today - DAY
        assert bench.refusal(device, asked).reason is Reason.CLOCK_MOVED_BACK
        bench.now_s = -5
        assert bench.refusal(device, asked).reason is Reason.CLOCK_MOVED_BACK
        bench.now_s = today
        assert isinstance(bench.answer(device, asked).outcome, bytes)

    def test_an_expired_study_does_not_revive_within_a_day(self, bench: Bench) -> None:
        start = bench.now_s
        old = bench.study(1, expires=start + 100)
        new = bench.study(2, expires=start + 10 * DAY)
        device = bench.device(studies=[old, new])
        bench.now_s = start + 200
        bench.answer(device, bench.payload(new))
        bench.now_s = start + 50  # the same day, and before the study expired
        asked = bench.payload(old, predicate(bench.schema.smoker == 0))
        assert bench.refusal(device, asked).reason is Reason.CLOCK_MOVED_BACK

    def test_an_expired_study_stays_so_when_the_clock_is_set_back(self, bench: Bench) -> None:
        old, new = bench.study(1), bench.study(2, expires=bench.now_s + 10 * DAY)
        device = bench.device(studies=[old, new])
        start = bench.now_s
        bench.now_s = start + 2 * DAY
        assert bench.refusal(device, bench.payload(old)).reason is Reason.EXPIRED
        bench.answer(device, bench.payload(new))
        bench.now_s = start
        assert bench.refusal(device, bench.payload(old)).reason is Reason.CLOCK_MOVED_BACK

    def test_the_clock_is_read_once(self, bench: Bench) -> None:
        """A clock that jumps between a check and a charge cannot come between them."""
        study = bench.study()
        device = bench.device(studies=[study])
        times = [bench.now_s, 0]
        device._now_s = lambda: times.pop(0)
        device.answer(bench.payload(study))
        assert [entry.day for entry in device.ledger.history()] == [bench.now_s // DAY]
        assert times == [0]


class TestBudgets:
    def queries(self, bench: Bench, study: SignedStudy) -> list[bytes]:
        labels = ("red", "green", "blue")
        return [bench.payload(study, predicate(bench.schema.colour == label)) for label in labels]

    def test_the_studys_own_promise(self, bench: Bench) -> None:
        study = bench.study(budget=HALF)
        device = bench.device(studies=[study])
        first, second, _ = self.queries(bench, study)
        bench.answer(device, first)
        refusal = bench.refusal(device, second)
        assert refusal.reason is Reason.OVER_STUDY_BUDGET
        assert refusal.message == (
            "expected at most 500000000 nano-nats per study in all,"
            " got a request for 500000000 more"
        )

    def test_the_owners_limit_for_a_study(self, bench: Bench) -> None:
        study = bench.study()
        device = bench.device(studies=[study], study_nano_nats=HALF)
        first, second, _ = self.queries(bench, study)
        bench.answer(device, first)
        assert bench.refusal(device, second).reason is Reason.OVER_STUDY_BUDGET

    def test_the_owners_limit_for_a_day(self, bench: Bench) -> None:
        study = bench.study(expires=bench.now_s + 10 * DAY)
        device = bench.device(studies=[study], day_nano_nats=HALF)
        first, second, third = self.queries(bench, study)
        bench.answer(device, first)
        assert bench.refusal(device, second).reason is Reason.OVER_DAY_BUDGET
        bench.now_s += DAY
        assert isinstance(bench.answer(device, second).outcome, bytes)
        assert bench.refusal(device, third).reason is Reason.OVER_DAY_BUDGET

    def test_the_owners_limit_for_life_over_all_studies(self, bench: Bench) -> None:
        """Splitting a study in many gains nothing."""
        studies = [bench.study(number, expires=bench.now_s + 99 * DAY) for number in range(3)]
        device = bench.device(studies=studies, life_nano_nats=2 * HALF)
        payloads = [self.queries(bench, study)[number] for number, study in enumerate(studies)]
        for payload in payloads[:2]:
            assert isinstance(bench.answer(device, payload).outcome, bytes)
            bench.now_s += DAY
        assert bench.refusal(device, payloads[2]).reason is Reason.OVER_LIFE_BUDGET

    def test_the_widest_limit_that_is_passed_is_named(self, bench: Bench) -> None:
        """Life before day before study: what is over for good is not reported as passing."""
        study = bench.study(budget=HALF, expires=bench.now_s + 10 * DAY)
        first, second, _ = self.queries(bench, study)
        cases: list[tuple[dict[str, Any], Reason]] = [
            ({"life_nano_nats": HALF, "day_nano_nats": HALF}, Reason.OVER_LIFE_BUDGET),
            ({"day_nano_nats": HALF}, Reason.OVER_DAY_BUDGET),
            ({}, Reason.OVER_STUDY_BUDGET),
        ]
        for limits, reason in cases:
            device = bench.device(studies=[study], **limits)
            bench.answer(device, first)
            assert bench.refusal(device, second).reason is reason

    def test_one_that_costs_too_much_leaves_room_for_one_that_does_not(self, bench: Bench) -> None:
        study = bench.study(budget=2 * HALF)
        device = bench.device(studies=[study])
        dear = bench.payload(study, None, randomized_response(2 * HALF + 1))
        assert bench.refusal(device, dear).reason is Reason.OVER_STUDY_BUDGET
        assert isinstance(bench.answer(device, bench.payload(study)).outcome, bytes)


@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.integers(0, 60))
def test_any_change_to_a_request_is_answered_or_refused_in_bounds(
    benches: type[Bench], place: int, byte: int, cut: int
) -> None:
    """Whatever arrives, the device says something decodable, and charges what the ledger shows."""
    bench = benches()
    study = bench.study()
    device = bench.device(studies=[study])
    payload = bytearray(bench.payload(study, real(bench.schema.height)))
    payload[place % len(payload)] = byte
    report = decode_report(device.answer(bytes(payload[: len(payload) - cut])))
    charged = sum(entry.nano_nats for entry in device.ledger.history())
    assert report.charged_nano_nats == charged
    assert isinstance(report.outcome, bytes) or charged == 0
