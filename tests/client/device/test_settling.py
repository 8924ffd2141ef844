"""Everything is settled before a record is read: charge, refusal, reuse, and that it is read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.families import hypercube_response, k_ary_response, randomized_response
from askance_aggregator.queries import (
    category,
    predicate,
    real,
    vector,
)
from askance_client.accounting import parse_epsilon
from askance_client.codec import decode_report, digest_of
from askance_client.device import Device, TooManyRefusals
from askance_client.device.settling import _MAX_COUNTED, MAX_REFUSALS, RefusalCounts
from askance_client.ledger import Overrun, contract
from askance_client.messages import Reason, Refusal, SignedStudy
from askance_client.queries import EncodedRecord, Query
from askance_protos.v1 import exchange_pb2 as pb
from askance_simulation.fleets.memory_ledger import MemoryLedger

if TYPE_CHECKING:
    from tests.client.device.conftest import ChosenCoins, DeviceSetup

HALF = parse_epsilon("0.5")
DAY, HOUR = 86_400, 3_600


class Source:
    """A record's source that counts how often it is read, and may fail."""

    def __init__(self, record: EncodedRecord, failure: BaseException | None = None) -> None:
        self.record, self.failure = record, failure
        self.loads = 0

    def load(self) -> EncodedRecord:
        self.loads += 1
        if self.failure is not None:
            raise self.failure
        return self.record


def watched(device: Device, failure: BaseException | None = None) -> Source:
    """The device's source from now on."""
    source = Source(device._record.load(), failure)
    device._record = source
    return source


def labels(setup: DeviceSetup, study: SignedStudy) -> list[bytes]:
    """Payloads of three questions, of half a nat each."""
    colour = setup.schema.colour
    return [setup.payload(study, predicate(colour == label)) for label in ("red", "green", "blue")]


Refused = Callable[["DeviceSetup", SignedStudy], bytes]
REFUSED: dict[str, tuple[dict[str, Any], Refused, Reason]] = {
    "life": ({"life_nano_nats": HALF}, lambda b, s: labels(b, s)[1], Reason.OVER_LIFE_BUDGET),
    "day": ({"day_nano_nats": HALF}, lambda b, s: labels(b, s)[1], Reason.OVER_DAY_BUDGET),
    "study": ({"study_nano_nats": HALF}, lambda b, s: labels(b, s)[1], Reason.OVER_STUDY_BUDGET),
    "field": (
        {"fields": frozenset({"colour"})},
        lambda b, s: b.payload(s, predicate(b.schema.smoker == 1)),
        Reason.FIELD_NOT_ALLOWED,
    ),
    "levels": (
        {},
        lambda b, s: b.payload(s, category(b.schema.colour), randomized_response(HALF)),
        Reason.LEVELS_MISMATCH,
    ),
    "malformed": ({}, lambda b, s: b"no request", Reason.MALFORMED),
    "unknown study": ({}, lambda b, s: b.payload(b.study(9)), Reason.UNKNOWN_STUDY),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_request_reads_no_record_and_draws_no_coins(
    setup: DeviceSetup, chosen_coins: type[ChosenCoins], case: str
) -> None:
    """Or refusals are free probes of how long an evaluation takes."""
    policy, payload, reason = REFUSED[case]
    study, coins = setup.study(), chosen_coins()
    device = setup.device(studies=[study], coins=coins, **policy)
    setup.answer(device, labels(setup, study)[0])
    source, draws = watched(device), list(coins.draws)
    for _ in range(3):
        refusal = setup.answer(device, payload(setup, study)).outcome
        assert refusal == Refusal(reason)
    assert (source.loads, coins.draws) == (0, draws)


@pytest.mark.parametrize("late", [2 * DAY, -HOUR])
def test_nor_does_an_untimely_one(
    setup: DeviceSetup, chosen_coins: type[ChosenCoins], late: int
) -> None:
    study, coins = setup.study(), chosen_coins()
    device = setup.device(studies=[study], coins=coins)
    first, second, _ = labels(setup, study)
    setup.answer(device, first)
    source = watched(device)
    setup.now_s += late
    assert isinstance(setup.answer(device, second).outcome, Refusal)
    assert (source.loads, coins.draws) == (0, [1])


def test_a_reused_answer_reads_no_record_and_draws_no_coins(
    setup: DeviceSetup, chosen_coins: type[ChosenCoins]
) -> None:
    one, two, coins = setup.study(1), setup.study(2), chosen_coins()
    device = setup.device(studies=[one, two], coins=coins)
    first = setup.answer(device, setup.payload(one))
    source = watched(device)
    for payload in (setup.payload(one), setup.payload(one, round_=7), setup.payload(two)):
        assert setup.answer(device, payload).outcome == first.outcome
    assert (source.loads, coins.draws) == (0, [1])
    assert len(list(device.ledger.history())) == 1


def test_a_retry_of_a_reused_answer_is_the_same_bytes(setup: DeviceSetup) -> None:
    """Nothing of it is stored, so nothing of it may depend on what came between."""
    study = setup.study()
    device = setup.device(studies=[study])
    setup.answer(device, setup.payload(study))
    again = setup.payload(study, round_=1)
    before = device.answer(again)
    for payload in labels(setup, study):
        setup.answer(device, payload)
    assert device.answer(again) == before


def test_over_a_full_budget_an_answer_that_was_given_is_given_again(setup: DeviceSetup) -> None:
    study = setup.study()
    device = setup.device(studies=[study], life_nano_nats=HALF)
    first = setup.answer(device, setup.payload(study))
    assert setup.answer(device, setup.payload(study, round_=1)).outcome == first.outcome


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=12),
    trouble=st.sampled_from([None, ValueError("7"), RecursionError(), MemoryError()]),
)
def test_that_a_record_is_read_is_a_function_of_the_requests(
    benches: type[DeviceSetup],
    chosen_coins: type[ChosenCoins],
    steps: list[tuple[int, int]],
    trouble: Exception | None,
) -> None:
    """Two users, of whom one's record cannot be read: loads, coins, charges and refusals agree."""
    lives = []
    for failure in (None, trouble):
        setup, coins = benches(), chosen_coins()
        study = setup.study()
        device = setup.device(studies=[study], coins=coins, life_nano_nats=2 * HALF)
        source = watched(device, failure)
        requests = [*labels(setup, study), b"malformed"]
        seen = []
        for request, round_ in steps:
            payload = requests[request]
            if request < 3:
                message = pb.Request.FromString(payload)
                message.round = round_
                payload = message.SerializeToString()
            report = setup.answer(device, payload)
            refusal = report.outcome if isinstance(report.outcome, Refusal) else None
            seen.append((refusal, report.charged_nano_nats, source.loads, tuple(coins.draws)))
        lives.append((seen, list(device.ledger.history())))
    assert lives[0] == lives[1]


class TestOneMessage:
    """Requests of one message are settled before any of them is evaluated."""

    def test_each_is_settled_as_if_those_before_it_were_committed(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        study, coins = setup.study(), chosen_coins()
        device = setup.device(studies=[study], coins=coins, life_nano_nats=2 * HALF)
        source, payloads = watched(device), labels(setup, study)
        turn = device.begin(payloads)
        assert turn.pending
        assert (source.loads, coins.draws) == (0, [])
        turn.work.answer()
        assert (source.loads, coins.draws) == (2, [1, 1])
        reports = [decode_report(report) for report in turn.finish().values()]
        assert [report.charged_nano_nats for report in reports] == [HALF, HALF, 0]
        assert reports[2].outcome == Refusal(Reason.OVER_LIFE_BUDGET)

    def test_a_question_that_comes_twice_is_charged_and_evaluated_once(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        study, coins = setup.study(), chosen_coins()
        device = setup.device(studies=[study], coins=coins, life_nano_nats=HALF)
        source = watched(device)
        payloads = [setup.payload(study, round_=number) for number in (0, 1, 0)]
        turn = device.begin(payloads)
        turn.work.answer()
        reports = turn.finish()
        assert list(reports) == [digest_of(payload) for payload in payloads[:2]]
        first, again = (decode_report(report) for report in reports.values())
        assert (first.charged_nano_nats, again.charged_nano_nats) == (HALF, 0)
        assert again.outcome == first.outcome
        assert (source.loads, coins.draws) == (1, [1])
        assert [device.answer(payload) for payload in payloads[:2]] == list(reports.values())

    def test_no_other_request_comes_between_its_decision_and_its_commit(
        self, setup: DeviceSetup
    ) -> None:
        """Two threads, one budget: without the lock both would be settled as affordable."""
        study = setup.study()
        device = setup.device(studies=[study], life_nano_nats=HALF)
        source, (first, second, _) = watched(device), labels(setup, study)
        turn = device.begin([first])
        others: list[bytes] = []
        other = threading.Thread(target=lambda: others.append(device.answer(second)))
        other.start()
        turn.work.answer()
        assert others == []
        turn.finish()
        other.join(10)
        assert decode_report(others[0]).outcome == Refusal(Reason.OVER_LIFE_BUDGET)
        assert source.loads == 1

    def test_a_turn_that_is_given_up_lets_the_device_go(self, setup: DeviceSetup) -> None:
        study = setup.study()
        device = setup.device(studies=[study])
        device.begin([setup.payload(study)]).close()
        assert list(device.ledger.history()) == []
        assert isinstance(setup.answer(device, setup.payload(study)).outcome, bytes)

    def test_the_ledgers_own_check_stays_authoritative(self, setup: DeviceSetup) -> None:
        class Full(MemoryLedger):
            def commit(self, *arguments: Any) -> Any:
                return Overrun.LIFE

        study = setup.study()
        device = setup.device(studies=[study], ledger=Full())
        payloads = [setup.payload(study, round_=number) for number in (0, 1)]
        turn = device.begin(payloads)
        turn.work.answer()
        outcomes = [decode_report(report).outcome for report in turn.finish().values()]
        assert outcomes == [Refusal(Reason.OVER_LIFE_BUDGET)] * 2

    def test_a_study_without_room_for_payloads_is_not_evaluated_again(
        self, setup: DeviceSetup
    ) -> None:
        class NoRoom(MemoryLedger):
            def commit(self, *arguments: Any) -> Any:
                return Overrun.SPACE

        study = setup.study()
        device = setup.device(studies=[study], ledger=NoRoom())
        source = watched(device)
        for payload in labels(setup, study):
            assert setup.answer(device, payload).outcome == Refusal(Reason.OVER_LIFE_BUDGET)
        assert source.loads == 1


class TestTrouble:
    """Evaluations that fail, or are too slow, are answered by the public default."""

    @pytest.mark.parametrize(
        "failure", [ValueError("smoker=1"), RecursionError(), MemoryError(), KeyError("smoker")]
    )
    def test_any_exception_becomes_the_public_default(
        self, setup: DeviceSetup, failure: Exception
    ) -> None:
        study = setup.study()
        query, randomizer = category(setup.schema.colour, 2), k_ary_response(3, HALF)
        payload = setup.payload(study, query, randomizer)
        device = setup.device(studies=[study])  # coin 0 keeps the level
        watched(device, failure)
        turn = device.begin([payload])
        turn.work.answer()
        report = decode_report(turn.finish()[digest_of(payload)])
        assert report.outcome == b"\x02"
        assert report.charged_nano_nats == HALF

    def test_so_does_a_value_outside_its_range(
        self, setup: DeviceSetup, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = setup.study()
        payload = setup.payload(study, category(setup.schema.colour, 2), k_ary_response(3, HALF))
        for value in (-2, -1, 3, 4, 10**30, (), (1, 1), (1, 1, 1), None, "green"):
            device = setup.device(studies=[study])
            monkeypatch.setattr(Query, "evaluate", lambda self, record, value=value: value)
            assert setup.answer(device, payload).outcome == b"\x02"

    @pytest.mark.parametrize("default", [0, 4])
    def test_so_do_components_that_are_too_few_or_too_many_or_out_of_range(
        self, setup: DeviceSetup, monkeypatch: pytest.MonkeyPatch, default: int
    ) -> None:
        study, height = setup.study(), setup.schema.height
        asked = vector([height] * 3, 0, 4, default=default)
        low, high = asked.low, asked.high
        other = low if default else high
        payload = setup.payload(study, asked, hypercube_response(3, HALF))
        for value in (
            *((other,) * count for count in (0, 1, 2, 4, 5)),
            *((other, part, other) for part in (low - 2, low - 1, high + 1, high + 2)),
            other,
        ):
            device = setup.device(studies=[study])
            monkeypatch.setattr(Query, "evaluate_vector", lambda self, record, value=value: value)
            symbol = bytes([7 if default else 0])
            assert setup.answer(device, payload).outcome == symbol, value

    @pytest.mark.parametrize("default", [0, 4])
    def test_so_it_does_for_numbers_and_vectors(self, setup: DeviceSetup, default: int) -> None:
        study, height = setup.study(), setup.schema.height
        number = real(height, default=default)
        several = vector([height] * 3, 0, 4, default=default)
        for query, randomizer, symbol in (
            (number, k_ary_response(5, HALF), bytes([default])),
            (several, hypercube_response(3, HALF), bytes([7 if default else 0])),
        ):
            device = setup.device(studies=[study])  # coins of 0: nothing is flipped
            watched(device, ValueError())
            assert setup.answer(device, setup.payload(study, query, randomizer)).outcome == symbol

    def test_what_is_late_is_discarded(
        self, setup: DeviceSetup, chosen_coins: type[ChosenCoins]
    ) -> None:
        """Neither values nor draws that come after their time change what was charged."""
        study, coins = setup.study(), chosen_coins()
        device = setup.device(studies=[study], coins=coins)
        payload = setup.payload(study, predicate(setup.schema.smoker == 1, default=0))
        turn = device.begin([payload])
        assert coins.draws == []
        turn.work.prepare()
        turn.work.fix()
        turn.work.evaluate()  # late: the record says 1
        report = decode_report(turn.finish()[digest_of(payload)])
        assert (report.outcome, coins.draws) == (b"\x00", [1, 1])
        turn.work.draw()  # done at last
        assert decode_report(device.answer(payload)) == report
        assert coins.draws == [1, 1]


class TestRefusalsPerHour:
    """Refusals that leave are limited per study and hour; answers are not."""

    def spent(self, setup: DeviceSetup, study: SignedStudy) -> Device:
        """A device that refuses a second question of the study, asked as often as it may be."""
        device = setup.device(studies=[study], study_nano_nats=HALF)
        setup.answer(device, setup.payload(study))
        for number in range(MAX_REFUSALS):
            asked = setup.payload(study, predicate(setup.schema.colour == "red"), round_=number)
            assert setup.answer(device, asked).outcome == Refusal(Reason.OVER_STUDY_BUDGET)
        return device

    def test_past_the_limit_no_report_leaves_until_the_hour_is_over(
        self, setup: DeviceSetup
    ) -> None:
        setup.now_s -= setup.now_s % HOUR
        study = setup.study()
        device = self.spent(setup, study)
        asked = setup.payload(study, predicate(setup.schema.colour == "red"))
        setup.now_s += HOUR - 1
        with pytest.raises(TooManyRefusals):
            device.answer(asked)
        turn = device.begin([asked])
        assert turn.refusals[0].reason is Reason.OVER_STUDY_BUDGET  # the owner's log has it
        assert turn.finish() == {}
        setup.now_s += 1
        assert setup.answer(device, asked).outcome == Refusal(Reason.OVER_STUDY_BUDGET)

    def test_what_is_answered_is_answered_all_the_same(self, setup: DeviceSetup) -> None:
        """Else refusals provoked by one party could silence a device."""
        study = setup.study()
        device = self.spent(setup, study)
        assert isinstance(setup.answer(device, setup.payload(study, round_=1)).outcome, bytes)

    def test_another_study_is_refused_and_answered_as_ever(self, setup: DeviceSetup) -> None:
        study, other = setup.study(), setup.study(1)
        device = self.spent(setup, study)
        device.introduce(other)
        with pytest.raises(TooManyRefusals):
            device.answer(setup.payload(study, predicate(setup.schema.colour == "red")))
        first, second, _ = labels(setup, other)
        assert isinstance(setup.answer(device, first).outcome, bytes)
        assert setup.answer(device, second).outcome == Refusal(Reason.OVER_STUDY_BUDGET)

    def test_requests_of_no_study_do_not_use_up_a_studys(self, setup: DeviceSetup) -> None:
        study = setup.study()
        device = setup.device(studies=[study], study_nano_nats=0)
        for number in range(MAX_REFUSALS):
            device.answer(b"nonsense %d" % number)
        with pytest.raises(TooManyRefusals):
            device.answer(setup.payload(setup.study(9)))
        assert isinstance(setup.answer(device, setup.payload(study)).outcome, Refusal)

    @pytest.mark.parametrize("before", [(), (None,)])
    def test_so_many_studies_have_a_count_of_their_own_and_the_others_share_one(
        self, before: tuple[None, ...]
    ) -> None:
        counts, now_s = RefusalCounts(), 20_000 * DAY
        studies = [number.to_bytes(32, "big") for number in range(_MAX_COUNTED + 2)]
        left = dict.fromkeys(studies, 0)
        for study in (*before, *studies):
            assert counts.admit(study, now_s)
        for study in reversed(studies):
            while counts.admit(study, now_s):
                left[study] += 1
        shared = MAX_REFUSALS - len(before) - 2
        assert list(left.values()) == [MAX_REFUSALS - 1] * _MAX_COUNTED + [0, shared]

    def test_an_hour_is_the_clocks_and_starts_a_new_count(self) -> None:
        counts, hour_s = RefusalCounts(), 500_000 * HOUR
        for now_s in (hour_s, hour_s + HOUR, hour_s):  # a clock set back starts one as well
            assert all(counts.admit(b"study", now_s + number) for number in range(MAX_REFUSALS))
            assert not counts.admit(b"study", now_s)
            assert not counts.admit(b"study", now_s + HOUR - 1)


@pytest.mark.parametrize("before", [0, 1])
def test_answers_of_one_message_count_towards_the_most_that_are_given(
    before: int, setup: DeviceSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MAX_ANSWERS is at hand for each request of a message as if those before were committed."""
    study = setup.study()
    for most in (2, 3):
        device = setup.device(studies=[study])
        payloads = labels(setup, study)
        for payload in payloads[:before]:
            device.answer(payload)
        monkeypatch.setattr(contract, "MAX_ANSWERS", most)
        turn = device.begin(payloads[before:])
        assert [refusal.reason for refusal in turn.refusals] == [Reason.OVER_LIFE_BUDGET] * (
            3 - most
        )
        turn.close()


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("limit", ["life", "day", "study"])
def test_charges_of_one_message_count_towards_every_limit(
    limit: str, before: int, setup: DeviceSetup
) -> None:
    """Check each request against the budgets, counting those before it as committed."""
    study = setup.study()
    for most in (2, 3):
        policy: dict[str, Any] = {f"{limit}_nano_nats": most * HALF}
        device = setup.device(studies=[study], **policy)
        payloads = labels(setup, study)
        for payload in payloads[:before]:
            device.answer(payload)
        turn = device.begin(payloads[before:])
        expected = [Reason[f"OVER_{limit.upper()}_BUDGET"]] * (3 - most)
        assert [refusal.reason for refusal in turn.refusals] == expected
        turn.close()


def test_charges_of_another_study_in_a_message_count_towards_the_life(setup: DeviceSetup) -> None:
    one, two = setup.study(1), setup.study(2)
    device = setup.device(studies=[one, two], life_nano_nats=2 * HALF)
    first, second, _ = labels(setup, one)
    turn = device.begin([first, second, labels(setup, two)[2]])
    assert [refusal.reason for refusal in turn.refusals] == [Reason.OVER_LIFE_BUDGET]
    turn.close()


def test_a_refusal_leaves_as_a_reason_code_only(setup: DeviceSetup) -> None:
    """Limits, the clock and field names were in its text."""
    study = setup.study(budget=HALF)
    device = setup.device(studies=[study])
    first, second, _ = labels(setup, study)
    device.answer(first)
    data = device.answer(second)
    expected = pb.Report(request_digest=digest_of(second))
    expected.refusal.reason = pb.REASON_OVER_STUDY_BUDGET
    assert data == expected.SerializeToString(deterministic=True)


def test_a_charge_is_refused_by_life_before_day_before_study(setup: DeviceSetup) -> None:
    """See `TestBudgets.test_the_widest_limit_that_is_passed_is_named` for each."""
    study = setup.study(budget=HALF - 1)
    device = setup.device(studies=[study], life_nano_nats=HALF - 1, day_nano_nats=HALF - 1)
    assert setup.refusal(device, setup.payload(study)).reason is Reason.OVER_LIFE_BUDGET


def test_nothing_is_pending_unless_an_answer_is_to_be_evaluated(setup: DeviceSetup) -> None:
    study = setup.study()
    device = setup.device(studies=[study], life_nano_nats=HALF)
    first, second, _ = labels(setup, study)
    for payloads, pending in (([second, first], True), ([first, b"none"], False), ([], False)):
        turn = device.begin(payloads)
        assert turn.pending is pending
        turn.work.answer()
        turn.finish()
        first = second if pending else first


def test_the_weight_of_a_message_counts_each_evaluation_and_each_draw(setup: DeviceSetup) -> None:
    """Three nodes and their two arguments, and a draw of a table of two symbols; refusals weigh 0.

    `smoker == 1` is a field, a constant and a comparison of two arguments: 1 + 2 + 3 of weight.
    """
    study = setup.study()
    device = setup.device(studies=[study])
    turn = device.begin([setup.payload(study), b"no request"])
    turn.close()
    assert turn.work.weight == 6 + 16
    turn = device.begin(labels(setup, study))
    turn.close()
    assert turn.work.weight == 3 * (6 + 16)
