"""A device over real gRPC against an aggregator that misuses the epochs of repeated studies.

Whatever it asks, and whatever the device's clock does, no budget is passed, a refusal has a reason
code, and an answer of one epoch is given once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import predicate
from askance_client.accounting import parse_epsilon
from askance_client.codec import decode_report, decode_study, digest_of
from askance_client.device import Device
from askance_client.ledger import Ledger, LedgerFile
from askance_client.messages import Reason, Refusal, Repeat, Report, Request, SignedStudy
from askance_client.service import Response
from askance_simulation.fleets.memory_ledger import MemoryLedger
from tests.aggregator.server.devices.test_hostile_aggregator import Script, aggregator

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
DAY_S, NAT = 86_400, parse_epsilon("1")
TODAY = 19_675  # the world's first day; of the epochs of 7 days it is the sixth of 2810
WEEKLY = Repeat(7, 4, TODAY // 7)
NOW = WEEKLY.first
COIN = randomized_response(NAT)


def study(world: World, repeat: Repeat | None = WEEKLY, nonce: int = 0) -> SignedStudy:
    """A study that its analyst has signed."""
    terms = replace(
        decode_study(world.study.study),
        nonce=bytes([nonce]) * 16,
        repeat=repeat,
        expires_unix_s=(TODAY + 400) * DAY_S,
    )
    return sign_study(terms, world.key)


def request(world: World, of: SignedStudy, epoch: int, round_: int = 0, place: int = 0) -> bytes:
    """A request that its study may make, in any epoch."""
    questions = (world.schema.smoker == 1, world.schema.colour == "red")
    query = predicate(questions[place])
    return encode_request(Request(digest_of(of.study), round_, 0, query, COIN, epoch))


class Asked:
    """A device and an aggregator that asks it over gRPC, check-in by check-in."""

    def __init__(self, world: World, run: Run, ledger: Ledger, **policy: Any) -> None:
        self.world = world
        self.ledger = ledger
        self._run = run
        owner = {"life": 100 * NAT, "refresh_days": 7, **policy}
        self.device: Device = world.device(0, ledger, **owner)

    def day(self, day: int) -> None:
        """Set the device's clock to a day, from the world's first one."""
        self.world.now_s = (TODAY + day) * DAY_S + 600

    def reports(self, studies: Sequence[SignedStudy], payloads: Sequence[bytes]) -> list[Report]:
        """Ask in one check-in and return what the device delivers."""
        script = Script(Response(studies=tuple(studies), requests=tuple(payloads)))

        async def scenario() -> None:
            async with aggregator(script) as channel:
                await self.world.runner(0, self.device, channel).check_in_once()

        self._run(scenario())
        return [decode_report(data) for message in script.heard for data in message.reports]

    def outcome(self, of: SignedStudy, payload: bytes) -> Reason | None:
        """Ask one request; return the reason of a refusal, None for an answer."""
        (report,) = self.reports([of], [payload])
        return report.outcome.reason if isinstance(report.outcome, Refusal) else None

    @property
    def spent(self) -> int:
        """Nano-nats on the ledger."""
        return sum(entry.nano_nats for entry in self.ledger.history())


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    if request.param == "memory":
        return MemoryLedger()
    return LedgerFile.create(tmp_path / "ledger").ledger()


@pytest.fixture
def asked(world: World, run: Run, ledger: Ledger) -> Asked:
    return Asked(world, run, ledger)


@pytest.mark.parametrize(
    "epoch",
    [0, 1, NOW - 1, NOW + 1, NOW + 3, NOW + 4, NOW + 1_000, (1 << 31) - 1, (1 << 32) - 1],
    ids=["none", "first of all", "past", "next", "last", "not signed", "far", "large", "huge"],
)
def test_a_forged_index_is_refused_and_costs_nothing(asked: Asked, epoch: int) -> None:
    of = study(asked.world)
    assert asked.outcome(of, request(asked.world, of, epoch)) is Reason.WRONG_EPOCH
    assert asked.spent == 0
    assert asked.outcome(of, request(asked.world, of, NOW)) is None
    assert asked.spent == NAT


def test_an_index_of_a_study_that_collects_once_is_refused(asked: Asked) -> None:
    of = study(asked.world, None)
    assert asked.outcome(of, request(asked.world, of, NOW)) is Reason.WRONG_EPOCH
    assert asked.spent == 0


def test_all_epochs_in_one_message_are_one_answer(asked: Asked) -> None:
    of = study(asked.world)
    payloads = [request(asked.world, of, epoch, epoch - NOW) for epoch in WEEKLY.indices]
    reports = asked.reports([of], payloads)
    refused = [one.outcome.reason for one in reports if isinstance(one.outcome, Refusal)]
    assert refused == [Reason.WRONG_EPOCH] * 3
    assert (len(reports), asked.spent) == (4, NAT)


def test_a_request_of_one_epoch_in_the_next_is_resent_or_refused(asked: Asked) -> None:
    """The same bytes bring the same report; another request of the old epoch is refused."""
    of = study(asked.world)
    payload = request(asked.world, of, NOW)
    (first,) = asked.reports([of], [payload])
    asked.day(7)
    (again,) = asked.reports([of], [payload])
    assert again == first
    assert asked.outcome(of, request(asked.world, of, NOW, round_=1)) is Reason.WRONG_EPOCH
    assert asked.spent == NAT


def test_an_epoch_that_is_over_does_not_come_back_with_the_clock(asked: Asked) -> None:
    of = study(asked.world)
    asked.day(7)
    assert asked.outcome(of, request(asked.world, of, NOW + 1)) is None
    asked.day(0)
    for epoch, why in ((NOW, Reason.CLOCK_MOVED_BACK), (NOW + 1, Reason.CLOCK_MOVED_BACK)):
        assert asked.outcome(of, request(asked.world, of, epoch, round_=5)) is why
    assert asked.spent == NAT


@pytest.mark.parametrize("refresh", [None, 8, 365])
def test_a_refresh_that_is_too_early_is_refused(
    world: World, run: Run, ledger: Ledger, refresh: int | None
) -> None:
    asked = Asked(world, run, ledger, refresh_days=refresh)
    of = study(world)
    for day, epoch in ((0, NOW), (7, NOW + 1)):
        asked.day(day)
        assert asked.outcome(of, request(world, of, epoch)) is Reason.REFRESH_TOO_EARLY
    assert asked.spent == 0


def test_a_window_is_not_crossed_by_several_studies_and_questions(
    world: World, run: Run, ledger: Ledger
) -> None:
    """Two nats in any 21 days, by all studies; what an earlier window left is not saved up."""
    asked = Asked(world, run, ledger, window_nano_nats=2 * NAT, window_days=21)
    studies = [study(world, nonce=nonce) for nonce in (0, 1)]
    given: list[int] = []
    for day in (0, 7, 14, 21):
        asked.day(day)
        for of in studies:
            for place in (0, 1):
                before = asked.spent
                payload = request(world, of, NOW + day // 7, day, place)
                why = asked.outcome(of, payload)
                assert why in (None, Reason.OVER_WINDOW_BUDGET)
                given += [day] if asked.spent > before else []
    assert given == [0, 0, 21, 21]


@pytest.mark.parametrize("change", ["every", "epochs", "first"])
def test_epochs_changed_under_the_same_signature_are_no_study(asked: Asked, change: str) -> None:
    of = study(asked.world)
    repeat = {
        "every": Repeat(8, 4, TODAY // 8),
        "epochs": Repeat(7, 9, NOW),
        "first": Repeat(7, 4, NOW - 1),
    }[change]
    terms = replace(decode_study(of.study), repeat=repeat)
    forged = replace(of, study=sign_study(terms, asked.world.key).study)
    epoch = repeat.index(TODAY)
    assert asked.outcome(forged, request(asked.world, forged, epoch)) is Reason.UNKNOWN_STUDY
    mine = Ed25519PrivateKey.from_private_bytes(bytes([9]) * 32)
    resigned = sign_study(terms, mine)
    assert asked.outcome(resigned, request(asked.world, resigned, epoch)) is Reason.UNKNOWN_STUDY
    assert asked.spent == 0


def test_two_studies_of_other_epochs_on_one_question_are_charged_each_and_bounded(
    world: World, run: Run, ledger: Ledger
) -> None:
    """Answers are frozen by `every` and index: only the owner's budgets bound both together."""
    asked = Asked(world, run, ledger, window_nano_nats=2 * NAT, window_days=7)
    repeats = (WEEKLY, Repeat(10, 4, TODAY // 10), Repeat(14, 4, TODAY // 14))
    outcomes = []
    for nonce, repeat in enumerate(repeats):
        of = study(world, repeat, nonce)
        outcomes.append(asked.outcome(of, request(world, of, repeat.first)))
    assert outcomes == [None, None, Reason.OVER_WINDOW_BUDGET]
    assert asked.spent == 2 * NAT


@pytest.mark.parametrize("seed", range(3))
def test_no_sequence_of_forged_epochs_passes_a_budget(
    world: World, run: Run, ledger: Ledger, seed: int
) -> None:
    """Sixty messages of requests of any epoch and `every`, under a clock that jumps both ways."""
    draws = random.Random(seed)
    asked = Asked(world, run, ledger, life=9 * NAT, window_nano_nats=3 * NAT, window_days=21)
    repeats = [Repeat(every, 8, TODAY // every) for every in (5, 7, 10, 14)]
    studies = [study(world, repeat, nonce) for nonce, repeat in enumerate(repeats)]
    day, reasons = 0, set()
    for number in range(60):
        day = max(0, day + draws.choice([0, 1, 3, 8, -4]))
        asked.day(day)
        payloads = []
        for _ in range(3):
            place = draws.randrange(len(repeats))
            epoch = (TODAY + day) // repeats[place].every_days + draws.choice([0, 0, 0, 1, -1, 99])
            payloads.append(request(world, studies[place], epoch, number, draws.randrange(2)))
        distinct = list(dict.fromkeys(payloads))
        reports = asked.reports(studies, distinct)
        assert len(reports) == len(distinct)
        reasons |= {one.outcome.reason for one in reports if isinstance(one.outcome, Refusal)}
    history = list(ledger.history())
    assert 3 * NAT < asked.spent <= 9 * NAT
    for entry in history:
        day = entry.at_s // 86_400
        window = [one for one in history if day - 21 < one.at_s // 86_400 <= day]
        assert sum(one.nano_nats for one in window) <= 3 * NAT
    assert reasons >= {Reason.WRONG_EPOCH, Reason.REFRESH_TOO_EARLY, Reason.OVER_WINDOW_BUDGET}
