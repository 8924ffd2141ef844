"""Attacks on the aggregator that worked once: crashes, lying devices, and resumed studies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import askance as ask
from askance_aggregator.clock import system_now_s
from askance_aggregator.encoding import encode_request
from askance_aggregator.exchange import (
    encode_response,
)
from askance_aggregator.server.devices import Admission, Hub, Peers, Settings
from askance_aggregator.server.devices.servicer import DevicesServicer
from askance_aggregator.server.devices.standings import Standings
from askance_aggregator.store import SqliteStore, StoredReport
from askance_aggregator.studies import (
    Accounts,
    Cohort,
    Group,
    MemoryLog,
    Outcome,
    Permutation,
    Round,
    Session,
    Tally,
)
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.errors import NondeterminismError
from askance_client.messages import AckStatus, Request, SignedStudy
from askance_client.service import MAX_RESPONSE_BYTES, CheckIn, Response, token_digest
from askance_simulation.fleets import Devices, ObjectFleet
from askance_simulation.randomness import Seed, SeededCoins

NOW_S = 1_767_225_600
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PEOPLE = 2_100
EVERYBODY = Cohort(Permutation(b"", 3), 0, 3)
SCHEMA = ask.Schema("people", 1, smokes=ask.Bit(), height=ask.Real(0, 1))


class Cut(Exception):
    """The power went."""


class CutOff(ObjectFleet):
    """Fleet that answers some rounds and then loses power."""

    def __init__(self, devices: Devices, enrolled: int, rounds: int) -> None:
        super().__init__(devices)
        self._enrolled = enrolled
        self._left = rounds

    @property
    def population(self) -> int:
        return self._enrolled

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        if not self._left:
            raise Cut
        self._left -= 1
        return super().ask(round_, accounts)


def devices(study: SignedStudy) -> Devices:
    """Return more devices than are enrolled. Every other user smokes; all are .3 tall."""
    size = PEOPLE + 9
    people = ask.Population.from_columns(
        SCHEMA, {"smokes": [place % 2 for place in range(size)], "height": [0.3] * size}
    )
    policy = Policy(analysts=frozenset((study.public_key,)), life_nano_nats=2 * 10**9)
    return Devices(people, policy, SeededCoins(Seed.of(1)), lambda: NOW_S)


def signed(learner: ask.Learner[Any], beta: str = "0.01", confidence: str = "0.95") -> SignedStudy:
    study = ask.Study(learner, SCHEMA, epsilon=2, beta=beta, confidence=confidence)
    return study.sign(KEY, nonce=bytes(16), expires_unix_s=NOW_S + 1)


def session(
    learner: ask.Learner[Any],
    fleet: Devices,
    log: MemoryLog,
    *,
    enrolled: int = PEOPLE,
    rounds: int = 9,
    **conduct: str,
) -> Session[Any]:
    return Session(
        study=signed(learner, **conduct),
        learner=learner,
        fleet=CutOff(fleet, enrolled, rounds),
        log=log,
        cohort_seed=bytes(32),
        leaf_key=bytes(32),
    )


def asking(rounds: int) -> ask.Learner[Any]:
    """Ask the same share of fresh users, a number of times."""

    @ask.adaptive("asking")
    def learner() -> ask.Learning[list[float]]:
        shares = []
        for _ in range(rounds):
            (share,) = yield ask.Batch([ask.Question(ask.predicate(SCHEMA.smokes == 1), "0.1")])
            shares.append(share.value)
        return shares

    return learner()


def clipping(high: float) -> ask.Learner[Any]:
    @ask.adaptive("clipping")
    def learner() -> ask.Learning[float]:
        (mean,) = yield ask.Batch([ask.Question(ask.real(ask.clip(SCHEMA.height, 0, high)))])
        return float(mean.value)

    return learner()


def cut_after(rounds: int, fleet: Devices) -> MemoryLog:
    """Return the log of a two-round study that was interrupted after `rounds` rounds."""
    log = MemoryLog()
    with pytest.raises(Cut):
        session(asking(2), fleet, log, rounds=rounds).run()
    return log


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_study_goes_on_although_somebody_was_enrolled_meanwhile(rounds: int) -> None:
    study = signed(asking(2))
    straight = session(asking(2), devices(study), MemoryLog()).run()
    fleet = devices(study)
    log = cut_after(rounds, fleet)
    resumed = session(asking(2), fleet, log, enrolled=PEOPLE + 9).run()
    assert resumed.transcript == straight.transcript
    assert resumed.tallies == straight.tallies


def test_a_study_does_not_go_on_when_users_are_missing() -> None:
    fleet = devices(signed(asking(2)))
    log = cut_after(1, fleet)
    with pytest.raises(NondeterminismError, match="header"):
        session(asking(2), fleet, log, enrolled=PEOPLE - 1).run()


@pytest.mark.parametrize("changed", [{"beta": "0.5"}, {"confidence": "0.5"}])
def test_a_study_does_not_go_on_with_another_plan_or_other_intervals(
    changed: dict[str, Any],
) -> None:
    fleet = devices(signed(asking(2)))
    log = cut_after(1, fleet)
    with pytest.raises(NondeterminismError, match="header"):
        session(asking(2), fleet, log, **changed).run()


def test_intervals_of_another_confidence_are_another_transcript() -> None:
    fleet = devices(signed(asking(1)))
    one, other = (
        session(asking(1), fleet, MemoryLog(), confidence=confidence).run().transcript
        for confidence in ("0.95", "0.5")
    )
    assert one != other


def test_a_learner_that_stops_before_its_transcript_ends_is_told_so() -> None:
    fleet = devices(signed(asking(2)))
    log = MemoryLog()
    session(asking(2), fleet, log).run()
    with pytest.raises(NondeterminismError, match="expected 1 rounds"):
        session(asking(1), fleet, log).run()


def test_a_replay_decodes_by_the_query_that_was_answered() -> None:
    fleet = devices(signed(clipping(0.5)))
    log = MemoryLog()
    answered = session(clipping(0.5), fleet, log).run()
    replayed = session(clipping(0.5 + 2**-16), fleet, log).run()
    assert replayed.hypothesis == answered.hypothesis


def test_a_session_whose_fleet_failed_goes_on_when_it_is_run_again() -> None:
    study = signed(asking(2))
    straight: Outcome[Any] = session(asking(2), devices(study), MemoryLog()).run()
    fleet = devices(study)
    failed = session(asking(2), fleet, MemoryLog(), rounds=1)
    with pytest.raises(Cut):
        failed.run()
    failed._fleet = ObjectFleet(fleet)
    again = failed.run()
    assert again == straight
    assert failed.run() == straight


def test_devices_that_lie_about_what_they_spent_do_not_overflow_the_account() -> None:
    accounts = Accounts(3, 10**9)
    for place in range(3):
        accounts.of(EVERYBODY).confirm(place, 0, 1 << 62)
    assert accounts.spending().total_spent == 3 << 62
    assert accounts.spending().overspent == 3


def test_a_check_in_s_answer_keeps_to_the_limit_of_its_bytes() -> None:
    """Requests that fill a response to the last byte leave no space for anything beside them."""
    empty = len(encode_response(Response(requests=(bytes(1 << 18),)))) - (1 << 18)
    half = encode_response(Response(requests=(bytes(MAX_RESPONSE_BYTES // 2 - empty),)))
    assert len(half) == MAX_RESPONSE_BYTES // 2

    class Full(Hub):
        def owed(self, ordinal: int, known_studies: set[bytes]) -> list[bytes]:
            return [half] * 2

    async def answered() -> bytes:
        store = SqliteStore.in_memory()
        store.enrol([(b"one", token_digest(b"token"))])
        with ThreadPoolExecutor(1) as executor:
            admission = Admission(
                store,
                executor,
                Peers(Settings().unproven),
                Standings(store, executor, system_now_s),
            )
            hub = Full(store, executor)
            servicer = DevicesServicer(hub, admission, Settings(), lambda bound: bound)
            return await servicer._answer(0, CheckIn())

    assert len(asyncio.run(answered())) <= MAX_RESPONSE_BYTES


class SlowDisk(SqliteStore):
    """Store that commits when the test lets it."""

    def __init__(self, *opened: Any) -> None:
        super().__init__(*opened)
        self.reached, self.released = threading.Event(), threading.Event()

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        self.reached.set()
        self.released.wait(10)
        return super().accept(arrivals)


def test_a_report_that_is_acknowledged_while_its_round_is_closed_is_counted() -> None:
    study = signed(asking(1))
    fleet, digest = devices(study), digest_of(study.study)
    query, randomizer = ask.predicate(SCHEMA.smokes == 1), ask.randomized_response(10**9)
    payload = encode_request(Request(digest, 0, 0, query, randomizer))
    group = Group(payload, digest_of(payload), query, randomizer, 10**9, EVERYBODY, bytes(32))
    for ordinal in range(3):
        fleet[ordinal].introduce(study)
    reports = [fleet[ordinal].answer(payload) for ordinal in range(3)]

    async def closed_meanwhile() -> tuple[AckStatus, AckStatus, Tally]:
        store = SlowDisk.in_memory()
        with ThreadPoolExecutor(2) as executor:
            hub = Hub(store, executor)
            opened = asyncio.ensure_future(
                hub.open(Round(0, study, digest, (group,)), Accounts(3, 10**9))
            )
            while not hub.outstanding:
                await asyncio.sleep(0.001)
            first = asyncio.ensure_future(hub.deliver(0, reports[:1]))
            await asyncio.to_thread(store.reached.wait, 10)
            assert hub.close_round(digest)
            late = await hub.deliver(1, reports[1:2])
            store.released.set()
            (tally,) = await opened
            return (await first)[0][1], late[0][1], tally

    first, late, tally = asyncio.run(closed_meanwhile())
    assert first is AckStatus.ACCEPTED
    assert late is AckStatus.LATE
    assert tally.answered == 1
