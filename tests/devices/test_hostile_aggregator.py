"""The device in TypeScript against an aggregator that says anything: nothing is lost.

The cases are those of `tests/aggregator/server/devices/test_hostile_aggregator.py`, `test_echo.py`
and `test_hostile_epochs.py`, by Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from askance_aggregator.encoding import sign_study
from askance_aggregator.exchange import encode_response
from askance_aggregator.queries import predicate
from askance_client.codec import decode_report, decode_study, digest_of
from askance_client.device.settling import MAX_REFUSALS
from askance_client.messages import (
    AckStatus,
    Reason,
    Refusal,
    Report,
    SignedStudy,
)
from askance_client.queries import Schema
from askance_client.service import MAX_REQUESTS, MAX_RESPONSE_BYTES, Response
from askance_client.service.exchange import MAX_STUDIES
from askance_protos.v1 import exchange_pb2 as pb
from askance_protos.v1 import study_pb2
from tests.aggregator.server.devices.conftest import KEY, NOW_S, World
from tests.aggregator.server.devices.test_hostile_epochs import (
    DAY_S,
    NAT,
    NOW,
    WEEKLY,
    request,
    study,
)
from tests.devices.scripted import Answer, Json, Led, Script, build, missing, served

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]


class Tried:
    """A device, and the aggregator that it checks in with."""

    def __init__(self, led: Led, world: World, script: Script, path: Path) -> None:
        self.led, self.world, self.script, self._path = led, world, script, path

    def open(self, **policy: object) -> None:
        """Start the device."""
        parsed = study_pb2.Study.FromString(self.world.study.study)
        self.led.do("now", at_s=NOW_S)
        self.led.do(
            "open",
            path=str(self._path),
            url=self.script.url,
            schema=parsed.schema.SerializeToString().hex(),
            record={"smoker": 1, "colour": "green"},
            analysts=[KEY.public_key().public_bytes_raw().hex()],
            **{"life": str(2 * NAT), **policy},
        )

    def check_in(self, *answers: Answer) -> Json:
        """Check in once, and be answered this."""
        self.script.answers = list(answers)
        return self.led.do("check_in")

    def reports(self, *answers: Answer) -> list[Report]:
        """Check in once, and return the reports that came."""
        before = len(self.script.heard)
        done = self.check_in(*answers)
        assert done["failure"] is None, done
        heard = self.script.heard[before:]
        return [decode_report(data) for message in heard for data in message.reports]

    def outcome(self, of: SignedStudy, payload: bytes) -> Reason | None:
        """Ask one request; return the reason of a refusal, None for an answer."""
        (report,) = self.reports(Response(studies=(of,), requests=(payload,)))
        return report.outcome.reason if isinstance(report.outcome, Refusal) else None

    @property
    def charges(self) -> list[int]:
        return [int(nano) for nano in self.led.state()["charges"]]


@pytest.fixture(scope="module")
def led() -> Iterator[Led]:
    led = Led(build())
    yield led
    led.close()


@pytest.fixture
def tried(led: Led, tmp_path: Path) -> Iterator[Tried]:
    with served(Script()) as script:
        yield Tried(led, World(), script, tmp_path / "ledger")
        led.do("close")


@pytest.fixture
def asking(tried: Tried) -> Response:
    """A good response: the study and one request."""
    round_ = tried.world.broadcast(1)
    return Response(studies=(round_.study,), requests=(round_.groups[0].payload,))


BAD: dict[str, bytes] = {
    "no protobuf": b"\xff\xff\xff",
    "an unknown field": b"\x78\x01",
    "a status of the future": b"\x0a\x24\x0a\x20" + bytes(32) + b"\x10\x63",
    "an ack of nothing": b"\x0a\x02\x10\x01",
    "too many requests": encode_response(Response(requests=(b"x",) * (MAX_REQUESTS + 1))),
    "too many studies": b"\x12\x00" * (MAX_STUDIES + 1),
}


def test_a_bad_response_is_dropped_whole(tried: Tried, asking: Response) -> None:
    """Even the good request beside it goes unanswered, until it comes in a good response."""
    tried.open()
    for what, data in BAD.items():
        failed = tried.check_in(encode_response(asking) + data)
        assert failed["failure"] == "RemoteProtocolError", (what, failed)
        assert "expected" in failed["message"]
        state = tried.led.state()
        assert (state["charges"], state["known"]) == ([], []), what
    (report,) = tried.reports(asking)
    assert report.sequence == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (bytes(MAX_RESPONSE_BYTES + 1), "resource_exhausted"),
        ((503, "unavailable"), "unavailable"),
        ((401, "unauthenticated"), "unauthenticated"),
        ((500, "Not A Code"), "unknown"),
    ],
    ids=["long", "away", "not known", "no code"],
)
def test_a_failed_call_changes_nothing(
    tried: Tried, asking: Response, answer: Answer, code: str
) -> None:
    tried.open()
    assert tried.check_in(answer)["code"] == code
    assert tried.charges == []
    assert len(tried.reports(asking)) == 1


def test_what_is_not_acknowledged_is_sent_the_same_when_it_is_asked_for_again(
    tried: Tried, asking: Response
) -> None:
    tried.open()
    away: Answer = (503, "unavailable")
    assert tried.check_in(asking, away)["code"] == "unavailable"
    assert tried.check_in(asking, away)["code"] == "unavailable"
    assert tried.check_in(asking)["failure"] is None
    stored = bytes.fromhex(
        tried.led.do("stored", request=digest_of(asking.requests[0]).hex())["report"]
    )
    first, delivery, asked, again, twice, last = tried.script.heard
    assert first.reports == asked.reports == twice.reports == ()
    assert delivery.reports == again.reports == last.reports == (stored,)
    assert asked.known_studies == (digest_of(asking.studies[0].study),)
    assert tried.led.state()["unacknowledged"] == 0
    assert tried.charges == [NAT]


@pytest.mark.parametrize("status", list(AckStatus))
def test_any_acknowledgement_ends_the_deliveries(
    tried: Tried, asking: Response, status: AckStatus
) -> None:
    tried.open()
    digest = digest_of(asking.requests[0])
    assert tried.check_in(asking, Response(acks=((digest, status),)))["failure"] is None
    assert tried.led.state()["unacknowledged"] == 0


def test_an_aggregator_that_acknowledges_nothing_gets_no_endless_check_in(
    tried: Tried, asking: Response
) -> None:
    tried.open()
    failed = tried.check_in(asking, Response())
    assert "expected 1 acknowledgements, found 0" in failed["message"]
    assert tried.led.state()["unacknowledged"] == 1


def test_an_aggregator_that_asks_for_ever_is_cut_off(tried: Tried, asking: Response) -> None:
    """Every response asks the same again, acknowledged each time: a check-in ends all the same."""
    tried.open()
    digest = digest_of(asking.requests[0])
    again = Response(acks=((digest, AckStatus.DUPLICATE),), requests=asking.requests)
    assert tried.check_in(asking, *[again] * 1_000)["failure"] is None
    assert len(tried.script.heard) < 100
    assert tried.charges == [NAT]


def round_requests(asking: Response) -> Callable[[int], bytes]:
    """From a round's number, the request that an aggregator made, as of that round."""

    def payload(number: int) -> bytes:
        message = pb.Request.FromString(asking.requests[0])
        message.round = number
        return message.SerializeToString(deterministic=True)

    return payload


def test_refusals_of_requests_of_no_study_are_bounded(tried: Tried) -> None:
    """Requests of no study cost nothing to make up; past the limit no report leaves."""
    tried.open()
    floods = [
        Response(requests=tuple(b"%d %d" % (flood, n) for n in range(MAX_REQUESTS)))
        for flood in range(8)
    ]
    left = sum(len(tried.reports(flood)) for flood in floods)
    assert left == MAX_REFUSALS
    assert len(tried.led.state()["refusals"]) == 8 * MAX_REQUESTS
    assert tried.charges == []


def test_unacknowledged_reports_are_bounded(tried: Tried, asking: Response) -> None:
    """Answers of one question, over and over, cost nothing; a device keeps a bounded number."""
    tried.open()
    payload = round_requests(asking)
    nothing = ((bytes(32), AckStatus.ACCEPTED),) * MAX_REQUESTS  # enough, and of no report
    floods = [
        Response(
            acks=nothing,
            studies=asking.studies,
            requests=tuple(payload(MAX_REQUESTS * flood + n) for n in range(MAX_REQUESTS)),
        )
        for flood in range(1024 // MAX_REQUESTS + 1)
    ]
    failed = tried.check_in(*floods)
    assert "expected at most 1024 reports without an acknowledgement" in failed["message"]
    assert tried.led.state()["unacknowledged"] == 1024
    assert tried.charges == [NAT]
    assert tried.check_in()["failure"] is None
    assert tried.led.state()["unacknowledged"] == 0


@pytest.mark.parametrize("ahead", [1, 7, (1 << 64) - 1])
def test_an_aggregator_ahead_of_the_ledger_is_answered_nothing(
    tried: Tried, asking: Response, ahead: int
) -> None:
    tried.open()
    failed = tried.check_in(replace(asking, acknowledged_sequence=ahead))
    assert failed["failure"] == "LedgerOlder"
    assert f"at most 0 numbered answers, got one that has {ahead}" in failed["message"]
    state = tried.led.state()
    assert (state["charges"], state["unacknowledged"], state["known"]) == ([], 0, [])
    assert len(tried.reports(asking)) == 1  # the next aggregator is answered
    assert len(tried.reports(replace(asking, acknowledged_sequence=1))) == 1  # its own number


def test_acknowledgements_of_a_liar_are_not_believed(tried: Tried, asking: Response) -> None:
    """The report is sent to an aggregator that may be believed."""
    tried.open()
    digest = digest_of(asking.requests[0])
    lie = Response(acks=((digest, AckStatus.ACCEPTED),), acknowledged_sequence=2)
    assert tried.check_in(asking, lie)["failure"] == "LedgerOlder"
    assert tried.led.state()["unacknowledged"] == 1
    assert tried.check_in(asking)["failure"] is None
    assert tried.led.state()["unacknowledged"] == 0
    assert tried.script.heard[1].reports == tried.script.heard[3].reports != ()


def test_a_ledger_that_was_put_back_is_found(
    tried: Tried, asking: Response, tmp_path: Path
) -> None:
    """The device answers, its file is put back as it was, and the aggregator's number is higher."""
    tried.open()
    tried.led.do("close")
    before = (tmp_path / "ledger").read_bytes()
    tried.open()
    assert len(tried.reports(asking)) == 1
    tried.led.do("close")
    (tmp_path / "ledger").write_bytes(before)
    tried.open()
    assert tried.check_in(replace(asking, acknowledged_sequence=1))["failure"] == "LedgerOlder"
    assert tried.charges == []


def test_a_restart_resends_and_charges_once(tried: Tried, asking: Response) -> None:
    tried.open()
    (first,) = tried.reports(asking)
    tried.led.do("close")
    tried.open()
    (again,) = tried.reports(replace(asking, acknowledged_sequence=1))
    assert first == again
    assert tried.charges == [NAT]


def test_a_clock_that_was_set_back_answers_nothing_new(tried: Tried, asking: Response) -> None:
    tried.open()
    assert len(tried.reports(asking)) == 1
    tried.led.do("now", at_s=NOW_S - 61)
    world = tried.world
    other = world.group([0], 1, query=predicate(world.schema.colour == "red"))
    assert tried.outcome(world.study, other.payload) is Reason.CLOCK_MOVED_BACK
    assert tried.outcome(world.study, asking.requests[0]) is None  # the stored report
    tried.led.do("now", at_s=NOW_S - 60)
    assert tried.outcome(world.study, other.payload) is None
    assert tried.charges == [NAT, NAT]


def test_threads_draw_what_a_python_device_draws(tried: Tried, asking: Response) -> None:
    """The report of the same record and coins, byte for byte, after the timed part."""
    tried.open(release_ms=200)
    (report,) = tried.reports(asking)
    device = tried.world.device(0)  # with the coins of device 0
    device._record = tried.world.schema.encode({"smoker": 1, "colour": "green"})
    device.introduce(tried.world.study)
    assert report == decode_report(device.answer(asking.requests[0]))


def test_forged_epochs_are_refused_and_cost_nothing(tried: Tried) -> None:
    tried.open(life=str(100 * NAT), refresh_days=7)
    of = study(tried.world)
    forged = [0, 1, NOW - 1, NOW + 1, NOW + 3, NOW + 4, (1 << 31) - 1, (1 << 32) - 1]
    for epoch in forged:
        outcome = tried.outcome(of, request(tried.world, of, epoch))
        assert outcome is Reason.WRONG_EPOCH, epoch
    assert tried.charges == []
    assert tried.outcome(of, request(tried.world, of, NOW)) is None
    once = study(tried.world, None, 1)
    assert tried.outcome(once, request(tried.world, once, NOW)) is Reason.WRONG_EPOCH
    assert tried.charges == [NAT]


def test_all_epochs_in_one_message_are_one_answer_and_the_next_day_another(tried: Tried) -> None:
    tried.open(life=str(100 * NAT), refresh_days=7)
    of = study(tried.world)
    payloads = tuple(request(tried.world, of, epoch, epoch - NOW) for epoch in WEEKLY.indices)
    reports = tried.reports(Response(studies=(of,), requests=payloads))
    refused = [one.outcome.reason for one in reports if isinstance(one.outcome, Refusal)]
    assert refused == [Reason.WRONG_EPOCH] * 3
    tried.led.do("now", at_s=NOW_S + 7 * DAY_S)
    assert tried.outcome(of, payloads[0]) is None  # the stored report
    assert tried.outcome(of, request(tried.world, of, NOW, 9)) is Reason.WRONG_EPOCH
    assert tried.charges == [NAT]
    assert tried.outcome(of, request(tried.world, of, NOW + 1, 9)) is None
    assert tried.charges == [NAT, NAT]


@pytest.mark.parametrize("refresh", [None, 8])
def test_a_refresh_that_is_too_early_is_refused(tried: Tried, refresh: int | None) -> None:
    tried.open(life=str(100 * NAT), refresh_days=refresh)
    of = study(tried.world)
    assert tried.outcome(of, request(tried.world, of, NOW)) is Reason.REFRESH_TOO_EARLY
    assert tried.charges == []


def test_a_window_is_not_crossed_by_several_studies(tried: Tried) -> None:
    """Two nats in any 21 days; what an earlier window left is not saved up."""
    tried.open(life=str(100 * NAT), refresh_days=7, window=str(2 * NAT), window_days=21)
    studies = [study(tried.world, nonce=nonce) for nonce in (0, 1)]
    given: list[int] = []
    for day in (0, 7, 14, 21):
        tried.led.do("now", at_s=NOW_S + day * DAY_S)
        for of in studies:
            for place in (0, 1):
                before = len(tried.charges)
                payload = request(tried.world, of, NOW + day // 7, day, place)
                why = tried.outcome(of, payload)
                assert why in (None, Reason.OVER_WINDOW_BUDGET)
                given += [day] if len(tried.charges) > before else []
    assert given == [0, 0, 21, 21]


def test_studies_that_are_not_to_be_trusted_are_not_met(tried: Tried, asking: Response) -> None:
    tried.open()
    study = tried.world.study
    forged = replace(study, signature=bytes(64))
    stranger = replace(study, public_key=bytes(32))
    other = sign_study(
        replace(
            decode_study(study.study),
            schema=Schema("another", 1, **dict(tried.world.schema.fields)),
        ),
        KEY,
    )
    met = (forged, stranger, other)
    (report,) = tried.reports(Response(studies=met, requests=asking.requests))
    assert report.outcome == Refusal(Reason.UNKNOWN_STUDY)
    reasons = tried.led.state()["refusals"]
    assert reasons == ["BAD_SIGNATURE", "UNTRUSTED_KEY", "SCHEMA_MISMATCH", "UNKNOWN_STUDY"]
    assert tried.charges == []


def test_a_study_that_waits_is_answered_by_silence(tried: Tried, asking: Response) -> None:
    tried.open(consent="ask")
    assert tried.reports(asking) == []
    assert tried.led.state()["refusals"] == ["WAITING"]
    assert tried.charges == []
