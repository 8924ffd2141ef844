"""Faults of the network and the devices: each report counts once, no user pays twice.

The transcript is the one of a run without faults.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache, partial
from math import log, sqrt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import Outcome, Session, Tally
from askance_client.codec import digest_of
from askance_client.errors import AskanceError, InvalidParameter
from askance_client.ledger import Charge, Entry, Ledger, Limits
from askance_client.ledger.contract import Compose, Overrun
from askance_client.messages import Reason
from askance_client.service import Identity
from askance_simulation.disturbances import (
    Fates,
    Fault,
    FaultRecorder,
    Faults,
    Misbehaviour,
    Script,
)
from askance_simulation.disturbances.invariants import (
    BrokenInvariant,
    check_accepted_once,
    check_charges,
    check_counted,
    check_replay,
    check_store,
    events,
)
from askance_simulation.disturbances.unlucky import DeviceConnection
from askance_simulation.experiments import Trial, named, run_trial, simulate
from askance_simulation.fleets import Devices, FleetMaker, OpenedFleet, Progress
from askance_simulation.fleets.grpc import grpc_fleet
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.randomness import Seed

ALPHA = 1e-6
ROOT = Seed.of(4)
CHOSEN = [fault for fault in Fault if fault is not Fault.NONE]
TERMS: Any = {"epsilon": "8", "beta": ".2"}  # no test asks whether the right parity is found
HEAVY = Faults(lost=".2", duplicate=".15", reorder=".15", slow=".05", crash=".3")


@cache
def undisturbed(learner: str = "masked-parity", d: str = "2") -> Trial:
    return trial(learner, "objects", d)


@cache
def fewest(learner: str, d: str) -> int:
    made = named(learner, users=1, settings={"d": d}, **TERMS)
    return made.study(made.people(ROOT / "population")).plan().users_needed


def trial(learner: str, fleet: str | FleetMaker, d: str = "2", **more: object) -> Trial:
    """Return a trial with as few users as its plan allows: 34 and 60 for d = 2 and 4."""
    made = named(learner, users=fewest(learner, d), settings={"d": d}, **TERMS)
    people = made.people(ROOT / "population")
    return run_trial(made.study(people), people, fleet=fleet, seed=ROOT, **more)  # type: ignore[arg-type]  # behaviour, faults


def assert_same(one: Trial, other: Trial) -> None:
    assert one.outcome == other.outcome
    assert one.transcript.recorded == other.transcript.recorded


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("learner", "d"), [("masked-parity", "2"), ("masked-parity", "4")])
def test_faults_change_no_transcript(learner: str, d: str, seed: int) -> None:
    disturbed = trial(learner, "grpc", d, faults=lambda root: HEAVY(root / seed))
    assert_same(disturbed, undisturbed(learner, d))
    assert any(note.startswith("faults: ") for note in disturbed.notes)


@pytest.mark.parametrize("exchange", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fault", CHOSEN)
def test_each_fault_befalls_everybody_and_changes_nothing(fault: Fault, exchange: int) -> None:
    recorder = FaultRecorder()
    users = undisturbed().population.size
    script = Script({(ordinal, exchange): fault for ordinal in range(users)})
    found = trial("masked-parity", partial(grpc_fleet, fates=script, recorder=recorder))
    assert_same(found, undisturbed())
    assert set(recorder.happened) <= {fault}
    if exchange == 0:  # later, a study may have ended before that happens
        assert recorder.happened[fault] > 0


# The same ones every time; each is a whole study over sockets.
STEADY = settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
HISTORIES = st.dictionaries(
    st.tuples(st.integers(0, 33), st.integers(0, 6)), st.sampled_from(CHOSEN), max_size=40
)
History = dict[tuple[int, int], Fault]


@STEADY
@given(HISTORIES)
def test_any_history_of_faults(history: History) -> None:
    """A failing example is shrunk to the fewest faults."""
    assert_same(trial("masked-parity", "grpc", faults=Script(history)), undisturbed())


@pytest.mark.nightly
@settings(STEADY, max_examples=40)
@given(HISTORIES, st.sampled_from(["0", ".2"]))
def test_many_histories_of_faults(history: History, absent: str) -> None:
    """With and without users who stay away."""
    away = Misbehaviour(absent=absent)
    found = trial("masked-parity", "grpc", faults=Script(history), behaviour=away)
    assert_same(found, present(absent))


@cache
def present(absent: str) -> Trial:
    return trial("masked-parity", "grpc", behaviour=Misbehaviour(absent=absent))


def test_chances_are_kept_and_fates_are_fixed() -> None:
    """40,000 exchanges; each share within Hoeffding's bound at ALPHA: .0135."""
    fates = Faults(lost=".2", duplicate=".1", reorder=".1", slow=".1", crash=".3")(ROOT)
    drawn = Counter(fates.fate(ordinal, number) for ordinal in range(100) for number in range(400))
    expected = {Fault.NONE: 0.2, Fault.TWICE: 0.1, Fault.HELD: 0.1, Fault.SLOW: 0.1}
    for fault in Fault:
        share = expected.get(fault, 0.1)
        assert abs(drawn[fault] / 40_000 - share) < sqrt(log(2 / ALPHA) / 80_000)
    again = Faults(lost=".2", duplicate=".1", reorder=".1", slow=".1", crash=".3")(ROOT)
    assert [fates.fate(3, n) for n in range(50)] == [again.fate(3, n) for n in range(50)]


@pytest.mark.parametrize(
    ("chances", "message"),
    [
        ({"lost": 2}, "lost: expected a chance from 0 to 1, got 2"),
        ({"lost": ".5", "crash": ".45"}, "expected chances that sum to at most 1"),
        ({"duplicate": ".6", "slow": ".6"}, "expected chances that sum to at most 1"),
        ({"loss": ".1"}, "expected one of lost, duplicate, reorder, slow, crash, got 'loss'"),
        ({"crash": "often"}, "crash expects a finite number"),
    ],
)
def test_what_are_no_faults(chances: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Faults.named(chances)


@pytest.mark.parametrize("fleet", ["objects", "columns"])
def test_in_one_process_nothing_is_lost(fleet: str) -> None:
    made = named("masked-parity", epsilon="8", users=40, settings={"d": "2"})
    with pytest.raises(InvalidParameter, match=f"expected the fleet 'grpc'.*got '{fleet}'"):
        simulate(made.study, made.people, fleet=fleet, faults=Faults(lost=".1"))


def test_all_that_the_network_keeps_arrives_the_latest_first() -> None:
    arrived: list[bytes] = []

    class Heard(DeviceConnection):
        """A line whose far end is here."""

        async def deliver(self, data: bytes) -> None:
            arrived.append(data)

    async def overtaken(channel: Any = None) -> None:
        line = Heard(0, channel, Identity(bytes(16), bytes(32)), Script(), FaultRecorder())
        for data in (b"first", b"second", b"third"):
            line.keep(data)
        await line.deliver_kept()
        await line.deliver_kept()

    asyncio.run(overtaken())
    assert arrived == [b"third", b"second", b"first"]


class Forgetful(MemoryLedger):
    """A ledger that loses what it holds when its process dies: what must never be."""

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        found = super().commit(charge, limits, compose)
        self._reports.clear()
        self._frozen.clear()
        return found


def test_a_device_that_pays_twice_is_found_out() -> None:
    """The device dies after its commit, and its ledger has lost the payment."""

    @contextmanager
    def broken(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
        for ordinal in range(len(devices)):
            devices[ordinal]._ledger = Forgetful()
        fates: Fates = Script({(o, 1): Fault.DIES_AFTER_COMMIT for o in range(len(devices))})
        with grpc_fleet(devices, progress, fates=fates) as opened:
            yield opened

    with pytest.raises(BrokenInvariant, match="no charge for what it refused"):
        trial("masked-parity", broken)


def test_an_overdrawn_budget_and_a_second_charge_are_found_out() -> None:
    one, two = (Entry(bytes([n]) * 32, b"s" * 32, 0, 3, n) for n in (1, 2))
    check_charges(0, [one, two], {b"s" * 32: 6})
    with pytest.raises(BrokenInvariant, match="at most 5 nano-nats, got 6"):
        check_charges(0, [one, two], {b"s" * 32: 5})
    with pytest.raises(BrokenInvariant, match="one charge a request, got two"):
        check_charges(0, [one, one], {b"s" * 32: 6})
    with pytest.raises(BrokenInvariant, match="accepted once, got 2"):
        check_accepted_once({(0, b"r" * 32): 2})


def test_what_the_store_has_lost_or_changed_is_found_out(tmp_path: Path) -> None:
    path, ledgers = tmp_path / "store", dict[int, Ledger]()

    @contextmanager
    def kept(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
        with grpc_fleet(devices, progress, store=path) as opened:
            yield opened
        ledgers.update({ordinal: devices[ordinal].ledger for ordinal in range(len(devices))})

    trial("masked-parity", kept)
    check_after(path, ledgers)
    for change, message in (
        ("DELETE FROM reports WHERE ordinal = (SELECT min(ordinal) FROM reports)", "counted"),
        ("UPDATE reports SET data = (SELECT max(data) FROM reports)", "expected"),
    ):
        with closing(sqlite3.connect(path)) as disk, disk:
            disk.execute(change)
        with pytest.raises(AskanceError, match=message):
            check_after(path, ledgers)


Change = Callable[[Tally], Tally]
DEFECTS: dict[str, tuple[Change, str]] = {
    "one answer more": (lambda t: replace(t, answered=t.answered + 1), "answers counted"),
    "other counts": (
        lambda t: replace(t, counts=(t.counts[0] + 1, t.counts[1] - 1, *t.counts[2:])),
        "the counts of the stored reports, got others",
    ),
    "a refusal that never came": (
        lambda t: replace(t, refusals=((Reason.EXPIRED, 1),)),
        "0 refusals counted",
    ),
}


def test_a_tally_that_is_not_that_of_the_stored_reports_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    people = trial("masked-parity", partial(grpc_fleet, store=path)).population
    store = SqliteStore.open(path)
    try:
        (study,) = store.studies()
        asked, closed = events(store, study)
        group, tally = asked[0].groups[0], closed[0].tallies[0]
        check_counted(store, group, tally, people.schema)
        for change, message in DEFECTS.values():
            with pytest.raises(BrokenInvariant, match=message):
                check_counted(store, group, change(tally), people.schema)
        stored = list(store.reports(digest_of(group.payload)))
        for name, found, message in (
            ("evidence", [b"another report"], "no two different reports of one device"),
            ("reports", [*stored, stored[0]], "one report per device"),
        ):
            with monkeypatch.context() as planted:
                planted.setattr(SqliteStore, name, lambda _, digest, found=found: iter(found))
                with pytest.raises(BrokenInvariant, match=message):
                    check_counted(store, group, tally, people.schema)
    finally:
        store.close()


def check_after(path: Path, ledgers: Mapping[int, Ledger]) -> None:
    """Check the files of a study that has ended."""
    store = SqliteStore.open(path)
    try:
        check_store(store, ledgers.__getitem__, {})
    finally:
        store.close()


def test_a_result_that_does_not_follow_from_its_transcript_is_found_out() -> None:
    class Wavering(Session[None]):
        """Session whose outcome does not follow from its transcript."""

        def __init__(self) -> None:
            """Make a session without a transcript of its own."""

        def run(self) -> Outcome[None]:
            return replace(undisturbed().outcome, answers=0)

    with pytest.raises(BrokenInvariant, match="the same result"):
        check_replay(Wavering(), undisturbed().outcome)
