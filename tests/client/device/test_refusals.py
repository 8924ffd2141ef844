"""Every reason to refuse: a value, with nothing spent, nothing kept and one line to say why."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.families import hypercube_response, k_ary_response, randomized_response
from askance_aggregator.queries import category, predicate, real, signed, vector
from askance_client.accounting import parse_epsilon
from askance_client.codec import MAX_MESSAGE_BYTES, decode_report, digest_of
from askance_client.device import Device, Examiner, examination
from askance_client.messages import Reason, Refusal, SignedStudy
from askance_client.queries import Bit, Schema
from askance_client.randomizers import KaryResponse
from askance_protos.v1 import exchange_pb2 as pb

if TYPE_CHECKING:
    from tests.client.device.conftest import DeviceSetup

HALF = parse_epsilon("0.5")
DAY = 86_400


def altered(payload: bytes, change: Callable[[pb.Request], object]) -> bytes:
    message = pb.Request.FromString(payload)
    change(message)
    return message.SerializeToString()


class TestStudies:
    def test_a_good_one_is_met(self, setup: DeviceSetup) -> None:
        study, device = setup.study(), setup.device()
        assert device.introduce(study) is None
        assert device.known_studies == (digest_of(study.study),)
        assert device.knows(digest_of(study.study))

    @pytest.mark.parametrize("part", ["study", "signature"])
    def test_a_bit_of_difference_and_the_signature_fails(
        self, setup: DeviceSetup, part: str
    ) -> None:
        good = setup.study()
        parts = {"study": good.study, "public_key": good.public_key, "signature": good.signature}
        parts[part] = parts[part][:-1] + bytes([parts[part][-1] ^ 1])
        assert self.refused(setup, SignedStudy(**parts)) is Reason.BAD_SIGNATURE

    def test_so_it_does_when_it_has_another_length(self, setup: DeviceSetup) -> None:
        good = setup.study()
        for wrong in (b"", good.signature[:-1], good.signature + b"\0"):
            study = SignedStudy(good.study, good.public_key, wrong)
            assert self.refused(setup, study) is Reason.BAD_SIGNATURE

    def test_another_key_is_not_pinned_whatever_it_signed(self, setup: DeviceSetup) -> None:
        good = setup.study()
        key = good.public_key
        for wrong in (b"", key[:-1], key + b"\0", key[:-1] + bytes([key[-1] ^ 1])):
            study = SignedStudy(good.study, wrong, good.signature)
            assert self.refused(setup, study) is Reason.UNTRUSTED_KEY

    def test_a_signature_for_something_else_is_none_for_a_study(self, setup: DeviceSetup) -> None:
        good = setup.study()
        bare = SignedStudy(good.study, good.public_key, setup.key.sign(good.study))
        assert self.refused(setup, bare) is Reason.BAD_SIGNATURE

    def test_a_key_that_is_not_pinned(self, setup: DeviceSetup) -> None:
        assert self.refused(setup, setup.study(key=setup.stranger)) is Reason.UNTRUSTED_KEY

    def test_signed_nonsense(self, setup: DeviceSetup) -> None:
        nonsense = b"\xff no study"
        signature = setup.key.sign(b"askance study v1\0" + nonsense)
        study = SignedStudy(nonsense, setup.key.public_key().public_bytes_raw(), signature)
        assert self.refused(setup, study) is Reason.MALFORMED

    @pytest.mark.parametrize(
        "other",
        [
            *(
                Schema("person", version, smoker=Bit()) for version in range(1, 25)
            ),  # digests on both sides
            Schema("somebody", 1, smoker=Bit()),
        ],
    )
    def test_another_schema_than_the_records(self, setup: DeviceSetup, other: Schema) -> None:
        assert self.refused(setup, setup.study(schema=other)) is Reason.SCHEMA_MISMATCH

    @staticmethod
    def refused(setup: DeviceSetup, study: SignedStudy) -> Reason:
        device = setup.device()
        refusal = device.introduce(study)
        assert refusal is not None
        assert device.known_studies == ()
        assert "\n" not in refusal.message
        asked = setup.refusal(device, setup.payload(study))
        assert asked.reason is Reason.UNKNOWN_STUDY
        return refusal.reason


class TestRequests:
    @pytest.fixture
    def study(self, setup: DeviceSetup) -> SignedStudy:
        return setup.study()

    @pytest.fixture
    def device(self, setup: DeviceSetup, study: SignedStudy) -> Device:
        return setup.device(studies=[study])

    @pytest.mark.parametrize(
        "payload", [b"", b"\xff", b"no request", bytes(MAX_MESSAGE_BYTES + 1), b"\x0a\x01x"]
    )
    def test_what_is_no_request(self, setup: DeviceSetup, device: Device, payload: bytes) -> None:
        assert setup.refusal(device, payload).reason is Reason.MALFORMED

    def test_a_field_of_the_future(
        self, setup: DeviceSetup, device: Device, study: SignedStudy
    ) -> None:
        payload = setup.payload(study) + b"\x78\x01"
        assert setup.refusal(device, payload).reason is Reason.MALFORMED

    def test_no_randomizer(self, setup: DeviceSetup, device: Device, study: SignedStudy) -> None:
        payload = altered(setup.payload(study), lambda m: m.ClearField("randomizer"))
        assert setup.refusal(device, payload).reason is Reason.MALFORMED

    def test_a_study_that_was_never_met(self, setup: DeviceSetup, device: Device) -> None:
        payload = setup.payload(setup.study(7))
        assert setup.refusal(device, payload).reason is Reason.UNKNOWN_STUDY

    @pytest.mark.parametrize("kind", [0, 99])
    def test_a_kind_of_query_that_is_unknown(
        self, setup: DeviceSetup, device: Device, study: SignedStudy, kind: int
    ) -> None:
        payload = altered(setup.payload(study), lambda m: setattr(m.query, "kind", kind))
        assert setup.refusal(device, payload).reason is Reason.INVALID_QUERY

    def test_an_operation_that_is_unknown(
        self, setup: DeviceSetup, device: Device, study: SignedStudy
    ) -> None:
        payload = altered(setup.payload(study), lambda m: setattr(m.query.nodes[-1], "op", 999))
        assert setup.refusal(device, payload).reason is Reason.INVALID_QUERY

    def test_a_field_that_is_unknown_however_long_its_name(
        self, setup: DeviceSetup, device: Device, study: SignedStudy
    ) -> None:
        payload = altered(
            setup.payload(study), lambda m: setattr(m.query.nodes[0], "name", "x" * 200_000)
        )
        refusal = setup.refusal(device, payload)
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
        self, setup: DeviceSetup, device: Device, study: SignedStudy, entries: list[int]
    ) -> None:
        def change(message: pb.Request) -> None:
            message.randomizer.table.entries[:] = entries

        payload = altered(setup.payload(study), change)
        assert setup.refusal(device, payload).reason is Reason.INVALID_RANDOMIZER

    @pytest.mark.parametrize("nano_nats", [1, 500_000, 999_999])
    def test_a_loss_below_a_thousandth_of_a_nat(
        self, setup: DeviceSetup, device: Device, study: SignedStudy, nano_nats: int
    ) -> None:
        payload = setup.payload(study, randomizer=randomized_response(nano_nats))
        refusal = setup.refusal(device, payload)
        assert refusal.reason is Reason.INVALID_RANDOMIZER
        assert refusal.message == f"loss: expected 1000000 nano-nats or more, got {nano_nats}"

    def test_a_loss_of_a_thousandth_of_a_nat_is_answered(
        self, setup: DeviceSetup, device: Device, study: SignedStudy
    ) -> None:
        payload = setup.payload(study, randomizer=randomized_response(1_000_000))
        assert setup.answer(device, payload).charged_nano_nats == 1_000_000

    def test_a_report_of_a_smaller_loss_that_was_charged_once_is_resent(
        self, setup: DeviceSetup, study: SignedStudy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A ledger of an earlier version has answers of a few nano-nats."""
        device = setup.device(studies=[study])
        payload = setup.payload(study, randomizer=randomized_response(7))
        with monkeypatch.context() as earlier:
            earlier.setattr(examination, "LEAST_LOSS", 1)
            report = device.answer(payload)
        later = setup.device(studies=[study], ledger=device.ledger)
        later._examiner = Examiner()
        assert later.answer(payload) == report

    @pytest.mark.parametrize("levels", [2, 4, 5])
    def test_a_randomizer_of_other_levels_than_the_query_has_cells(
        self, setup: DeviceSetup, device: Device, study: SignedStudy, levels: int
    ) -> None:
        payload = setup.payload(study, category(setup.schema.colour), k_ary_response(levels, HALF))
        refusal = setup.refusal(device, payload)
        assert refusal.reason is Reason.LEVELS_MISMATCH
        assert refusal.message == f"expected a randomizer of 3 levels, found {levels}"

    @pytest.mark.parametrize("levels", [2, 3, 4, 5])
    def test_only_a_number_may_have_other_levels(
        self, setup: DeviceSetup, device: Device, study: SignedStudy, levels: int
    ) -> None:
        smoker, colour = setup.schema.smoker, setup.schema.colour
        for query in (predicate(smoker == 1), category(colour), signed(colour)):
            payload = setup.payload(study, query, k_ary_response(levels, HALF))
            if levels == query.cells:
                assert isinstance(setup.answer(device, payload).outcome, bytes)
            else:
                assert setup.refusal(device, payload).reason is Reason.LEVELS_MISMATCH

    def test_a_number_on_more_levels_than_rounding_has(
        self, setup: DeviceSetup, device: Device, study: SignedStudy
    ) -> None:
        """Rounding raised once the request was settled: the error ended the device's service."""
        height = real(setup.schema.height)
        most, more = KaryResponse(1 << 16, 1 << 48), KaryResponse((1 << 16) + 1, 1 << 47)
        refusal = setup.refusal(device, setup.payload(study, height, more))
        assert refusal.reason is Reason.LEVELS_MISMATCH
        assert refusal.message == "expected at most 65536 levels, found 65537"
        outcome = setup.answer(device, setup.payload(study, height, most)).outcome
        assert not isinstance(outcome, Refusal) or outcome.reason is not Reason.LEVELS_MISMATCH

    @pytest.mark.parametrize("components", [1, 2, 4, 5])
    def test_a_randomizer_of_other_components_than_the_query_has(
        self, setup: DeviceSetup, device: Device, study: SignedStudy, components: int
    ) -> None:
        asked = vector([setup.schema.height] * 3, 0, 4)
        randomizer = hypercube_response(components, HALF)
        refusal = setup.refusal(device, setup.payload(study, asked, randomizer))
        assert refusal.reason is Reason.LEVELS_MISMATCH
        assert refusal.message == f"expected 3 components, found {components}"

    def test_a_randomizer_of_patterns_where_levels_are_asked_and_the_reverse(
        self, setup: DeviceSetup, device: Device, study: SignedStudy
    ) -> None:
        height, colour = setup.schema.height, setup.schema.colour
        for query in (predicate(setup.schema.smoker == 1), real(height), category(colour)):
            refusal = setup.refusal(
                device, setup.payload(study, query, hypercube_response(1, HALF))
            )
            assert refusal.reason is Reason.LEVELS_MISMATCH
            assert refusal.message.startswith("expected a randomizer of levels, found")
        asked = vector([height] * 3, 0, 4)
        for levels in (2, 3, 8):
            refusal = setup.refusal(
                device, setup.payload(study, asked, k_ary_response(levels, HALF))
            )
            assert refusal.reason is Reason.LEVELS_MISMATCH
            assert refusal.message.startswith("expected a randomizer of vectors, found")

    @pytest.mark.parametrize("levels", [2, 3, 4, 5, 9])
    def test_a_number_is_rounded_to_the_levels_of_any_randomizer(
        self, setup: DeviceSetup, device: Device, study: SignedStudy, levels: int
    ) -> None:
        payload = setup.payload(study, real(setup.schema.height), k_ary_response(levels, HALF))
        assert isinstance(setup.answer(device, payload).outcome, bytes)

    def test_a_field_that_its_owner_keeps_out(self, setup: DeviceSetup, study: SignedStudy) -> None:
        device = setup.device(studies=[study], fields=frozenset({"smoker"}))
        asked = predicate((setup.schema.smoker == 1) & (setup.schema.colour == "red"))
        refusal = setup.refusal(device, setup.payload(study, asked))
        assert refusal.reason is Reason.FIELD_NOT_ALLOWED
        assert "'colour'" in refusal.message
        assert isinstance(setup.answer(device, setup.payload(study)).outcome, bytes)

    def test_a_study_that_signs_no_field_may_ask_none(self, setup: DeviceSetup) -> None:
        """No name stands for no field; that all may be asked is signed by naming all."""
        study = setup.study(fields=())
        device = setup.device(studies=[study])
        refusal = setup.refusal(device, setup.payload(study))
        assert refusal == Refusal(
            Reason.FIELD_NOT_ALLOWED, "fields: expected fields that the study signs, got 'smoker'"
        )

    @pytest.mark.parametrize("used", [("height",), ("colour", "height")])
    @pytest.mark.parametrize("also", [(), ("smoker",)])
    @pytest.mark.parametrize("signs", [("colour",), ("colour", "smoker")])
    def test_the_first_field_that_is_used_and_not_signed_is_named(
        self,
        setup: DeviceSetup,
        used: tuple[str, ...],
        also: tuple[str, ...],
        signs: tuple[str, ...],
    ) -> None:
        """Neither a field that is signed and used is named, nor one that is signed and not used."""
        conditions = {
            "colour": setup.schema.colour == "red",
            "height": setup.schema.height > 1,
            "smoker": setup.schema.smoker == 1,
        }
        asked = reduce(and_, (conditions[field] for field in (*used, *also)))
        study = setup.study(fields=signs)
        device = setup.device(studies=[study])
        refusal = setup.refusal(device, setup.payload(study, predicate(asked)))
        assert refusal == Refusal(
            Reason.FIELD_NOT_ALLOWED, "fields: expected fields that the study signs, got 'height'"
        )
        for signed_fields in (signs, signs[:1]):
            within = reduce(and_, (conditions[field] for field in signed_fields))
            outcome = setup.answer(device, setup.payload(study, predicate(within))).outcome
            assert isinstance(outcome, bytes)


class TestTime:
    @pytest.mark.parametrize(
        ("late", "refused"), [(-2, False), (-1, False), (0, True), (1, True), (2, True)]
    )
    def test_a_study_expires_at_its_second(
        self, setup: DeviceSetup, late: int, refused: bool
    ) -> None:
        study = setup.study(expires=setup.now_s + 1_000)
        device = setup.device(studies=[study])
        setup.now_s += 1_000 + late
        outcome = setup.answer(device, setup.payload(study)).outcome
        assert isinstance(outcome, Refusal) == refused
        assert not isinstance(outcome, Refusal) or outcome.reason is Reason.EXPIRED

    def test_a_clock_before_the_last_charge_is_not_believed(self, setup: DeviceSetup) -> None:
        """Or an expired study could be revived by setting the clock back."""
        study = setup.study(expires=setup.now_s + 10 * DAY)
        device = setup.device(studies=[study])
        setup.answer(device, setup.payload(study))
        asked = setup.payload(study, predicate(setup.schema.smoker == 0))
        today = setup.now_s
        setup.now_s = today - DAY
        assert setup.refusal(device, asked).reason is Reason.CLOCK_MOVED_BACK
        setup.now_s = -5
        assert setup.refusal(device, asked).reason is Reason.CLOCK_MOVED_BACK
        setup.now_s = today
        assert isinstance(setup.answer(device, asked).outcome, bytes)

    def test_an_expired_study_does_not_revive_within_a_day(self, setup: DeviceSetup) -> None:
        start = setup.now_s
        old = setup.study(1, expires=start + 100)
        new = setup.study(2, expires=start + 10 * DAY)
        device = setup.device(studies=[old, new])
        setup.now_s = start + 200
        setup.answer(device, setup.payload(new))
        setup.now_s = start + 50  # the same day, and before the study expired
        asked = setup.payload(old, predicate(setup.schema.smoker == 0))
        assert setup.refusal(device, asked).reason is Reason.CLOCK_MOVED_BACK

    def test_an_expired_study_stays_so_when_the_clock_is_set_back(self, setup: DeviceSetup) -> None:
        old, new = setup.study(1), setup.study(2, expires=setup.now_s + 10 * DAY)
        device = setup.device(studies=[old, new])
        start = setup.now_s
        setup.now_s = start + 2 * DAY
        assert setup.refusal(device, setup.payload(old)).reason is Reason.EXPIRED
        setup.answer(device, setup.payload(new))
        setup.now_s = start
        assert setup.refusal(device, setup.payload(old)).reason is Reason.CLOCK_MOVED_BACK

    def test_the_clock_is_read_once(self, setup: DeviceSetup) -> None:
        """A clock that jumps between a check and a charge cannot come between them."""
        study = setup.study()
        device = setup.device(studies=[study])
        times = [setup.now_s, 0]
        device._now_s = lambda: times.pop(0)
        device.answer(setup.payload(study))
        assert [entry.at_s // DAY for entry in device.ledger.history()] == [setup.now_s // DAY]
        assert times == [0]


class TestBudgets:
    def queries(self, setup: DeviceSetup, study: SignedStudy) -> list[bytes]:
        labels = ("red", "green", "blue")
        return [setup.payload(study, predicate(setup.schema.colour == label)) for label in labels]

    def test_the_studys_own_promise(self, setup: DeviceSetup) -> None:
        study = setup.study(budget=HALF)
        device = setup.device(studies=[study])
        first, second, _ = self.queries(setup, study)
        setup.answer(device, first)
        refusal = setup.refusal(device, second)
        assert refusal.reason is Reason.OVER_STUDY_BUDGET
        assert refusal.message == (
            "expected at most 500000000 nano-nats per study in all,"
            " got a request for 500000000 more"
        )

    def test_the_owners_limit_for_a_study(self, setup: DeviceSetup) -> None:
        study = setup.study()
        device = setup.device(studies=[study], study_nano_nats=HALF)
        first, second, _ = self.queries(setup, study)
        setup.answer(device, first)
        assert setup.refusal(device, second).reason is Reason.OVER_STUDY_BUDGET

    def test_the_owners_limit_for_a_day(self, setup: DeviceSetup) -> None:
        study = setup.study(expires=setup.now_s + 10 * DAY)
        device = setup.device(studies=[study], day_nano_nats=HALF)
        first, second, third = self.queries(setup, study)
        setup.answer(device, first)
        assert setup.refusal(device, second).reason is Reason.OVER_DAY_BUDGET
        setup.now_s += DAY
        assert isinstance(setup.answer(device, second).outcome, bytes)
        assert setup.refusal(device, third).reason is Reason.OVER_DAY_BUDGET

    def test_the_owners_limit_for_life_over_all_studies(self, setup: DeviceSetup) -> None:
        """Splitting a study in many gains nothing."""
        studies = [setup.study(number, expires=setup.now_s + 99 * DAY) for number in range(3)]
        device = setup.device(studies=studies, life_nano_nats=2 * HALF)
        payloads = [self.queries(setup, study)[number] for number, study in enumerate(studies)]
        for payload in payloads[:2]:
            assert isinstance(setup.answer(device, payload).outcome, bytes)
            setup.now_s += DAY
        assert setup.refusal(device, payloads[2]).reason is Reason.OVER_LIFE_BUDGET

    def test_the_widest_limit_that_is_passed_is_named(self, setup: DeviceSetup) -> None:
        """Life before day before study: what is over for good is not reported as passing."""
        study = setup.study(budget=HALF, expires=setup.now_s + 10 * DAY)
        first, second, _ = self.queries(setup, study)
        cases: list[tuple[dict[str, Any], Reason]] = [
            ({"life_nano_nats": HALF, "day_nano_nats": HALF}, Reason.OVER_LIFE_BUDGET),
            ({"day_nano_nats": HALF}, Reason.OVER_DAY_BUDGET),
            ({}, Reason.OVER_STUDY_BUDGET),
        ]
        for limits, reason in cases:
            device = setup.device(studies=[study], **limits)
            setup.answer(device, first)
            assert setup.refusal(device, second).reason is reason

    def test_one_that_costs_too_much_leaves_room_for_one_that_does_not(
        self, setup: DeviceSetup
    ) -> None:
        study = setup.study(budget=2 * HALF)
        device = setup.device(studies=[study])
        dear = setup.payload(study, None, randomized_response(2 * HALF + 1))
        assert setup.refusal(device, dear).reason is Reason.OVER_STUDY_BUDGET
        assert isinstance(setup.answer(device, setup.payload(study)).outcome, bytes)


@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.integers(0, 60))
def test_any_change_to_a_request_is_answered_or_refused_in_bounds(
    benches: type[DeviceSetup], place: int, byte: int, cut: int
) -> None:
    """Whatever arrives, the device says something decodable, and charges what the ledger shows."""
    setup = benches()
    study = setup.study()
    device = setup.device(studies=[study])
    payload = bytearray(setup.payload(study, real(setup.schema.height)))
    payload[place % len(payload)] = byte
    report = decode_report(device.answer(bytes(payload[: len(payload) - cut])))
    charged = sum(entry.nano_nats for entry in device.ledger.history())
    assert report.charged_nano_nats == charged
    assert isinstance(report.outcome, bytes) or charged == 0
