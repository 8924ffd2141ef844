"""Equality of fleets: same seed, population and study give the same transcript, to the bit.

This is what makes a simulation evidence. It is held for every learner of the catalogue: a new one
needs only its settings for a small population here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.learners import NonAdaptive, find, learners
from askance_client.device import Device, Examiner, Policy
from askance_client.errors import LocalProtocolError, StoreError
from askance_client.messages import Reason
from askance_simulation.experiments import Trial, named, run_trial
from askance_simulation.fleets import FLEETS, Devices, FleetMaker, OpenedFleet, Progress
from askance_simulation.fleets.grpc import grpc_fleet
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.fleets.streams import MakeStreams, SharedStreams, StreamPerDevice
from askance_simulation.populations import Population, masked_parity
from askance_simulation.randomness import Seed, SeededCoins
from tests.kinds import BY_KIND, one_of_each_kind

EPSILON = "4"
LEARNERS = [entry.name for entry in learners()]
EACH_KIND = one_of_each_kind(LEARNERS)
HERE = FLEETS.keys() - {"ray"}  # which is optional: see tests/cluster
# Over gRPC every learner is tried by test_recorded_digests.py. A connection carries frames and
# knows no learner, so these try how many there are, and another seed.
SAMPLE = ("k-means", "masked-parity", "mean")
ANOTHER_SEED = ("conjunctions", "masked-parity", "mean", "naive-bayes")


def trial(
    learner: str,
    fleet: str | FleetMaker,
    seed: int = 0,
    settings: dict[str, str] | None = None,
    progress: Progress | None = None,
) -> Trial:
    """Return a trial with as few users as its plan allows."""
    small = find(learner).small
    chosen = small.on_fleets if settings is None else settings
    root = Seed.of(seed)
    users = 1
    for _ in range(2):
        made = named(learner, epsilon=EPSILON, users=users, settings=chosen)
        population = made.people(root / "population")
        study = made.study(population)
        users = small.fleet_users or study.plan().users_needed
    return run_trial(study, population, fleet=fleet, seed=root, progress=progress)


def over_grpc(connections: int, order: Callable[[int], Sequence[int]] | None = None) -> FleetMaker:
    """Return the gRPC fleet with this many connections, opened in this order."""

    def make(devices: Devices, progress: Progress | None) -> AbstractContextManager[OpenedFleet]:
        chosen = None if order is None else order(len(devices))
        return grpc_fleet(devices, progress, connections=connections, order=chosen)

    return make


def shuffled(size: int) -> list[int]:
    order = list(range(size))
    random.Random(5).shuffle(order)
    return order


@cache
def by_objects(learner: str, seed: int) -> Trial:
    return trial(learner, "objects", seed)


def assert_same(one: Trial, other: Trial) -> None:
    """Compare the transcripts and all that follows from them."""
    assert one.outcome.transcript == other.outcome.transcript
    assert one.transcript.recorded == other.transcript.recorded
    assert one.outcome == other.outcome
    assert one.assessment == other.assessment


@pytest.mark.parametrize(
    ("learner", "fleet"),
    [
        pytest.param(learner, fleet, marks=[] if learner in BY_KIND else [pytest.mark.nightly])
        for learner in LEARNERS
        for fleet in sorted(HERE - {"objects"})
        if fleet != "grpc-streams" or learner in SAMPLE
    ],
)
def test_every_fleet_is_the_devices_in_process(learner: str, fleet: str) -> None:
    assert_same(trial(learner, fleet, 0), by_objects(learner, 0))


@pytest.mark.parametrize(
    ("learner", "fleet"),
    [
        pytest.param(learner, fleet, marks=[] if learner in ANOTHER_SEED else [pytest.mark.nightly])
        for learner in LEARNERS
        for fleet in sorted(HERE - {"objects"})
        if not fleet.startswith("grpc") or learner in SAMPLE
    ],
)
def test_every_fleet_is_the_devices_in_process_at_another_seed(learner: str, fleet: str) -> None:
    assert_same(trial(learner, fleet, 2**70), by_objects(learner, 2**70))


@pytest.mark.parametrize("learner", EACH_KIND)
def test_whose_questions_depend_on_answers_asks_such_a_question(learner: str) -> None:
    """Else the tests above would say nothing of it but that its first round is the same."""
    made = named(learner, epsilon=EPSILON, users=1, settings=find(learner).small.on_fleets)
    kind = made.study(made.people(Seed.of(0))).learner
    rounds = max(by_objects(learner, seed).outcome.rounds for seed in (0, 2**70))
    assert (rounds == 1) if isinstance(kind, NonAdaptive) else (rounds > 1)


@pytest.mark.parametrize("connections", [1, 3])
@pytest.mark.parametrize("learner", SAMPLE)
def test_how_many_connections_they_share_changes_nothing(learner: str, connections: int) -> None:
    assert_same(trial(learner, over_grpc(connections)), by_objects(learner, 0))


@pytest.mark.parametrize(
    "order", [lambda size: range(size - 1, -1, -1), shuffled], ids=["reversed", "shuffled"]
)
def test_the_order_of_dialling_in_changes_nothing(order: Callable[[int], Sequence[int]]) -> None:
    assert_same(trial("masked-parity", over_grpc(2, order)), by_objects("masked-parity", 0))


@pytest.mark.parametrize(("streams", "opened"), [(SharedStreams, 8), (StreamPerDevice, 40)])
def test_devices_of_gateways_share_eight_streams_and_single_devices_none(
    streams: MakeStreams, opened: int
) -> None:
    population = masked_parity(40, Seed.of(0), 2)
    owner = Policy(analysts=frozenset({bytes(32)}), life_nano_nats=10**9)
    devices = Devices(population, owner, SeededCoins(Seed.of(1)), lambda: 1_767_225_600)
    with grpc_fleet(devices, streams=streams) as ready:
        hub: Any = ready.fleet._hub  # type: ignore[attr-defined]  # only the service counts streams
        until = time.monotonic() + 30
        while hub.connected < 40 and time.monotonic() < until:
            time.sleep(0.01)
        assert hub.connected == 40
        assert len(hub._distinct()) == opened


@pytest.mark.parametrize("learner", EACH_KIND)
def test_a_trial_is_a_function_of_its_seed(learner: str) -> None:
    assert_same(trial(learner, "objects", 0), by_objects(learner, 0))
    digests = {by_objects(learner, seed).outcome.transcript for seed in (0, 2**70)}
    assert len(digests) == 2


@pytest.mark.parametrize("learner", EACH_KIND)
def test_everybody_who_is_asked_answers_and_pays_no_more_than_the_budget(learner: str) -> None:
    outcome = by_objects(learner, 0).outcome
    spending = outcome.spending
    assert outcome.reconciled
    assert outcome.refusals == 0
    assert spending.users_asked == outcome.users_used <= outcome.answers
    assert 0 < spending.max_spent <= spending.max_asked <= spending.budget == int(EPSILON) * 10**9
    assert spending.overspent == 0


@pytest.mark.parametrize("fleet", sorted(HERE))
def test_progress_adds_up_to_the_answers(fleet: str) -> None:
    steps: list[int] = []
    done = trial("masked-parity", fleet, progress=steps.append)
    assert sum(steps) == done.outcome.answers
    assert min(steps) >= 0


class Mixed(Devices):
    """A simulation's devices, every third of which has an owner with another policy."""

    def __init__(self, population: Population, seed: Seed, policy: Policy, other: Policy) -> None:
        self._world, self._source, self._other = population, SeededCoins(seed / "coins"), other
        self._odd: dict[int, Device] = {}
        super().__init__(population, policy, self._source, lambda: 1_767_225_600)

    def __getitem__(self, ordinal: int) -> Device:
        if ordinal % 3:
            return super().__getitem__(ordinal)
        if ordinal not in self._odd:
            self._odd[ordinal] = Device(
                schema=self._world.schema,
                record=self._world.columns(ordinal, ordinal + 1).record(0),
                policy=self._other,
                ledger=MemoryLedger(),
                coins=self._source.at(ordinal),
                now_s=lambda: 1_767_225_600,
                examiner=Examiner(),
            )
        return self._odd[ordinal]


def analyst(seed: Seed) -> bytes:
    """Return the public key that a trial's study is signed with."""
    key = Ed25519PrivateKey.from_private_bytes((seed / "analyst").key)
    return key.public_key().public_bytes_raw()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fields": frozenset({"x"})}, Reason.FIELD_NOT_ALLOWED),
        ({"life_nano_nats": 10**9}, Reason.OVER_LIFE_BUDGET),
        ({"day_nano_nats": 10**9}, Reason.OVER_DAY_BUDGET),
        ({"analysts": frozenset({bytes(32)})}, Reason.UNKNOWN_STUDY),
    ],
)
def test_refusals_are_the_same_on_every_fleet(changes: dict[str, object], reason: Reason) -> None:
    root = Seed.of(0)
    common = {"analysts": frozenset({analyst(root)}), "life_nano_nats": 8 * 10**9}
    owner, other = Policy(**common), Policy(**{**common, **changes})  # type: ignore[arg-type]  # any of its fields

    def mixed(fleet: str) -> FleetMaker:
        @contextmanager
        def make(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
            world = masked_parity(len(devices), root / "population", 2)
            with FLEETS[fleet](Mixed(world, root, owner, other), progress) as opened:
                yield opened

        return make

    one, two = (trial("masked-parity", mixed(fleet)) for fleet in ("objects", "grpc"))
    assert_same(one, two)
    refused = [tally.refusals for round_ in one.outcome.tallies for tally in round_]
    assert {why for refusals in refused for why, _ in refusals} == {reason}
    assert one.outcome.refusals + one.outcome.answers == one.outcome.users_used
    assert 0 < one.outcome.refusals < one.outcome.answers


class OneBroken(Devices):
    """Wraps devices of which one cannot write its ledger."""

    def __init__(self, devices: Devices) -> None:
        self._whole = devices
        self.behaviour = devices.behaviour

    def __len__(self) -> int:
        return len(self._whole)

    def __getitem__(self, ordinal: int) -> Device:
        device = self._whole[ordinal]
        if ordinal == 7:
            device._ledger = FullDisk()
        return device


class FullDisk(MemoryLedger):
    """A ledger that can write nothing."""

    def commit(self, *_: object) -> bytes:
        raise StoreError("ledger: expected room on the disk, got none")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("fleet", "error", "message"),
    [
        ("objects", StoreError, "got none"),
        ("grpc", LocalProtocolError, "expected them to run on, got one that ended"),
        ("grpc-streams", LocalProtocolError, "expected them to run on, got one that ended"),
    ],
)
def test_a_device_that_fails_ends_the_study_and_does_not_leave_it_waiting(
    fleet: str, error: type[Exception], message: str
) -> None:
    def make(devices: Devices, progress: Progress | None) -> AbstractContextManager[OpenedFleet]:
        return FLEETS[fleet](OneBroken(devices), progress)

    with pytest.raises(error, match=message):
        trial("mean", make, settings={"tau": "1/20"})
