"""Policy of the owner, and findings about bytes, made once for all devices of a process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from askance_client.codec import decode_study, digest_of
from askance_client.device import (
    ExaminedRequest,
    ExaminedStudy,
    Examiner,
    Policy,
    examination,
)
from askance_client.device.examination import _MAX_BYTES, _Latest
from askance_client.errors import InvalidParameter
from askance_client.ledger import Limits
from askance_client.messages import Reason, Refusal, SignedStudy

if TYPE_CHECKING:
    from tests.client.device.conftest import DeviceSetup

KEY = bytes(32)


class TestPolicy:
    @pytest.mark.parametrize(
        ("policy", "budget", "limits"),
        [
            (Policy(frozenset({KEY}), 100), 1_000, Limits(study=100, day=100, life=100)),
            (Policy(frozenset({KEY}), 100), 30, Limits(study=30, day=100, life=100)),
            (Policy(frozenset({KEY}), 100, 50, 40), 1_000, Limits(study=40, day=50, life=100)),
            (Policy(frozenset({KEY}), 100, 50, 40), 30, Limits(study=30, day=50, life=100)),
            (Policy(frozenset({KEY}), 100, 0, 0), 30, Limits(study=0, day=0, life=100)),
        ],
    )
    def test_a_studys_limits_are_the_owners_or_its_own_whichever_is_less(
        self, setup: DeviceSetup, policy: Policy, budget: int, limits: Limits
    ) -> None:
        terms = decode_study(setup.study(budget=budget).study)
        assert policy.limits(terms)[:3] == limits[:3]

    @pytest.mark.parametrize(
        ("owner", "signed", "answers"),
        [(4_096, 4_096, 4_096), (7, 9, 7), (9, 7, 7), (70_000, 5, 5)],
    )
    def test_answers_to_a_study_are_the_owners_or_its_own_number_whichever_is_less(
        self, setup: DeviceSetup, owner: int, signed: int, answers: int
    ) -> None:
        terms = decode_study(setup.study(answers=signed).study)
        assert Policy(frozenset({KEY}), 1, study_answers=owner).limits(terms).answers == answers

    def test_without_a_word_of_either_a_study_has_4096_answers_and_ten_minutes_a_day(
        self, setup: DeviceSetup
    ) -> None:
        limits = Policy(frozenset({KEY}), 1).limits(decode_study(setup.study().study))
        assert (limits.answers, limits.work) == (4_096, 600 * 256_000)

    @pytest.mark.parametrize("given", [{"study_answers": 0}, {"study_work": 0}])
    def test_a_limit_of_less_than_one_is_refused(self, given: dict[str, Any]) -> None:
        with pytest.raises(InvalidParameter, match="policy: expected"):
            Policy(frozenset({KEY}), 1, **given)

    def test_fields_are_all_allowed_or_those_named(self) -> None:
        asked = frozenset({"a", "b"})
        assert Policy(frozenset({KEY}), 1).objection(asked) is None
        assert Policy(frozenset({KEY}), 1, fields=frozenset("abc")).objection(asked) is None
        objection = Policy(frozenset({KEY}), 1, fields=frozenset("a")).objection(asked)
        assert objection is not None
        assert objection.reason is Reason.FIELD_NOT_ALLOWED
        assert objection.message.endswith("found 'b'")
        nothing = Policy(frozenset({KEY}), 1, fields=frozenset())
        assert nothing.objection(frozenset()) is None
        assert nothing.objection(asked) is not None

    @pytest.mark.parametrize("length", [0, 30, 31, 33, 34])
    def test_a_pinned_key_has_32_bytes(self, length: int) -> None:
        with pytest.raises(InvalidParameter, match=f"32 bytes, found {length}"):
            Policy(frozenset({bytes(length)}), 1)

    @pytest.mark.parametrize("budgets", [(-1, 0, 0), (0, -1, 0), (0, 0, -1), (-2, 0, 0)])
    def test_a_budget_is_not_negative(self, budgets: tuple[int, int, int]) -> None:
        with pytest.raises(InvalidParameter, match="0 nano-nats or more"):
            Policy(frozenset({KEY}), *budgets)


class TestExaminer:
    def test_a_study_is_examined_once(self, setup: DeviceSetup) -> None:
        examiner, study = Examiner(), setup.study()
        first = examiner.study(study)
        assert isinstance(first, ExaminedStudy)
        assert examiner.study(replace(study)) is first
        assert first.digest == digest_of(study.study)

    def test_a_known_study_is_one_look_up(
        self, setup: DeviceSetup, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A device among many meets it without a digest or a signature to be computed."""
        examiner, study = Examiner(), setup.study()
        first = examiner.study(study)
        for name in ("digest_of", "verify_study", "decode_study"):
            monkeypatch.setattr(examination, name, None)
        assert examiner.study(study) is first

    def test_a_known_request_is_one_look_up(
        self, setup: DeviceSetup, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A device among many answers it without a digest or a message to be computed."""
        study = setup.study()
        payload = setup.payload(study)
        first, second = (setup.device(studies=[study]) for _ in range(2))
        first.answer(payload)
        for name in ("digest_of", "study_of", "decode_request"):
            monkeypatch.setattr(examination, name, None)
        assert second.ledger.sequence == 0
        second.answer(payload)
        assert second.ledger.sequence == 1

    def test_an_examination_is_of_all_three_parts(self, setup: DeviceSetup) -> None:
        """A forgery beside a good study, wherever bytes are moved from one part to another."""
        examiner, good = Examiner(), setup.study()
        assert isinstance(examiner.study(good), ExaminedStudy)
        forged = SignedStudy(good.study, good.public_key, bytes(64))
        moved = SignedStudy(good.study[:-1], good.study[-1:] + good.public_key, good.signature)
        for other in (forged, moved):
            assert isinstance(examiner.study(other), Refusal)
        assert isinstance(examiner.study(good), ExaminedStudy)

    def test_a_request_is_examined_once_for_each_study(self, setup: DeviceSetup) -> None:
        examiner = Examiner()
        one, two = (examiner.study(setup.study(number)) for number in range(2))
        assert isinstance(one, ExaminedStudy)
        assert isinstance(two, ExaminedStudy)
        payload = setup.payload(setup.study(0))
        first = examiner.request(payload, one)
        assert isinstance(first, ExaminedRequest)
        assert examiner.request(payload, one) is first
        assert one.digest != two.digest
        for number, study in ((0, two), (1, one)):  # one digest is the greater, whichever
            payload = setup.payload(setup.study(number))
            anothers = examiner.request(payload, study)
            assert isinstance(anothers, Refusal)
            assert anothers.reason is Reason.UNKNOWN_STUDY

    def test_only_the_latest_examinations_are_kept(self, setup: DeviceSetup) -> None:
        examiner = Examiner(capacity=2)
        studies = [setup.study(number) for number in range(3)]
        first = [examiner.study(study) for study in studies]
        assert examiner.study(studies[2]) is first[2]
        assert examiner.study(studies[0]) is not first[0]
        assert examiner.study(studies[0]) == first[0]

    def test_of_large_ones_fewer_are_kept(self, setup: DeviceSetup) -> None:
        """Else a hostile aggregator could fill the memory of what stands for many."""
        examiner = Examiner(capacity=4096)
        payloads = [bytes([number]) * 256 * 1024 for number in range(9)]
        first, *_, last = [examiner.known(payload) for payload in payloads]
        assert examiner.known(payloads[-1]) is last
        assert examiner.known(payloads[0]) is not first

    def test_the_bytes_that_are_kept_are_at_most_their_limit(self) -> None:
        kept, half = _Latest[int, str](capacity=9), _MAX_BYTES // 2
        for key, size in ((1, half), (2, 1), (2, half)):
            kept.remember(key, "examined", size)
        assert [kept.get(key) for key in (1, 2)] == ["examined"] * 2
        kept.remember(3, "examined", 1)
        assert [kept.get(key) for key in (1, 2, 3)] == [None, "examined", "examined"]
        kept.remember(4, "examined", half - 1)
        assert len(kept) == 3
        kept.remember(3, "examined", 2)
        assert [kept.get(key) for key in (2, 3, 4)] == [None, "examined", "examined"]
