"""Two real aggregators on one database: any may be called, and one that dies is taken over."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from askance_aggregator.analyst import connect, state_of
from askance_aggregator.learners import find
from askance_aggregator.server.process.configuration import read_configuration
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import LEASE_S, Store, StudyState
from askance_aggregator.studies import MemoryLog, Session
from askance_aggregator.studies.results import cohort_seed
from askance_client.codec import digest_of
from askance_client.messages import SignedStudy
from askance_client.service import credentials
from askance_client.service.open_side import CallFailed
from tests.aggregator.server.process.conftest import Served, interpreting, ran, serving
from tests.aggregator.server.process.people import SCHEMA, People, submit
from tests.faults.people import AtHand, Coins
from tests.postgresql import PostgresqlServer

COUNT = 40
FIRST, SECOND = slice(0, COUNT // 2), slice(COUNT // 2, COUNT)
TAKEOVER_S = 10.0
BOTH, LATER = range(1, 3), range(2, 4)  # versions of the exchange that later aggregators speak
OLDER_AGGREGATOR = "got version 2 (the aggregator is older than the device's askance-client)"
OLDER_DEVICE = "version 2 or later, got version 1 (install a newer askance-client)"


@pytest.fixture
def homes(
    fresh: AggregatorHome, postgresql: PostgresqlServer, tmp_path: Path
) -> tuple[AggregatorHome, AggregatorHome]:
    """Two folders with the same keys, on one database; each names its replica."""
    store = f'store = "{postgresql.new_database()}"'
    text = fresh.configuration.read_text().replace('store = "sqlite:///store.sqlite"', store)
    other = AggregatorHome(tmp_path / "other", fresh.analyst)
    shutil.copytree(fresh.folder, other.folder)
    for home, name in ((fresh, "first"), (other, "second")):
        home.configuration.write_text(f'replica = "{name}"\n{text}')
    done = ran("aggregator", "migrate", "--config", fresh.configuration)
    assert done.returncode == 0, done.stderr
    return fresh, other


@pytest.fixture
def people(homes: tuple[AggregatorHome, AggregatorHome]) -> People:
    """Devices that are enrolled."""
    made = People(homes[0].analyst, COUNT)
    with stored(homes[0]) as store:
        store.enrol(made.enrolled())
    return made


@contextmanager
def stored(home: AggregatorHome) -> Iterator[Store]:
    with closing(read_configuration(home.configuration).store.open()) as store:
        yield store


def analyst_key(home: AggregatorHome) -> Ed25519PrivateKey:
    key = load_pem_private_key(home.analyst_key.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    return key


def drivers(store: Store) -> dict[str, list[str]]:
    return {entry.name: list(entry.drives) for entry in store.replicas.listing()}


def until_driven(store: Store, name: str, digest: bytes) -> float:
    """Wait until a replica drives a study; return the seconds it took."""
    began = time.monotonic()
    while drivers(store).get(name) != [digest.hex()]:
        assert time.monotonic() < began + 30, drivers(store)
        time.sleep(0.02)
    return time.monotonic() - began


def until_ended(store: Store, digest: bytes) -> StudyState:
    until = time.monotonic() + 30
    while (ended := store.conclusion(digest)) is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    return ended.state


def each_counted_once(store: Store, people: People, digest: bytes) -> None:
    (request,) = people.requests
    assert [ordinal for ordinal, _ in store.reports(request)] == list(range(COUNT))
    assert list(store.evidence(request)) == []
    ended = store.conclusion(digest)
    assert ended is not None
    assert f'"answers": {COUNT}' in ended.result_json


def answer(served: Served, people: People, which: slice) -> None:
    people.answer(served.address, served.home.authority.read_bytes(), which)


@contextmanager
def speaking(version: int, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let devices name another version of the exchange."""
    with patch.context() as during:
        spoken = (credentials.PROTOCOL_KEY, str(version))
        during.setattr(credentials, "_SPOKEN", (spoken, *credentials._SPOKEN[1:]))
        yield


def undisturbed(home: AggregatorHome, signed: SignedStudy, leaf_key: bytes | None) -> str:
    """Return the digest of the transcript with the devices at hand."""
    session: Session[Any] = Session(
        study=signed,
        learner=find("frequency").build(SCHEMA, {"column": "habit"}),
        fleet=AtHand(People(home.analyst, COUNT, Coins).devices),
        log=MemoryLog(),
        cohort_seed=cohort_seed(digest_of(signed.study)),
        leaf_key=leaf_key,
    )
    return session.run().transcript


def test_devices_and_analysts_call_any_replica(
    homes: tuple[AggregatorHome, AggregatorHome], people: People
) -> None:
    """Half of the devices at each replica; a study is watched and cancelled at the other one."""
    with (
        serving(homes[0]) as first,
        serving(homes[1]) as second,
        first.channel() as channel,
        stored(homes[0]) as store,
    ):
        key = analyst_key(homes[0])
        digest = submit(channel, key)
        until_driven(store, "first", digest)
        halves = [
            threading.Thread(target=answer, args=(served, people, which))
            for served, which in ((first, FIRST), (second, SECOND))
        ]
        for half in halves:
            half.start()
        assert until_ended(store, digest) is StudyState.DONE
        for half in halves:
            half.join()
        each_counted_once(store, people, digest)
        digest = submit(channel, key)
        until_driven(store, "first", digest)
        with connect(second.address, key=key, ca=homes[1].authority) as elsewhere:
            handle = elsewhere.study(digest.hex())
            assert state_of(handle.status()) is StudyState.OPEN
            assert handle.cancel() is StudyState.CANCELLED
        shown = ran(
            "aggregator", "status", "--config", homes[1].configuration, "--listen", second.address
        )
        assert "replica first: " in shown.stdout, shown
        assert "  connected: 0, at 2 of 2 replicas" in shown.stdout
        assert "never, of 40 devices" in shown.stdout
        assert "replica second: " in shown.stdout


def test_a_killed_replicas_study_goes_on_at_another(
    homes: tuple[AggregatorHome, AggregatorHome], people: People
) -> None:
    with stored(homes[0]) as store, serving(homes[1]) as second:
        with serving(homes[0]) as first, first.channel() as channel:
            digest = submit(channel, analyst_key(homes[0]))
            until_driven(store, "first", digest)
            answer(first, people, FIRST)
            first.process.kill()
        assert until_driven(store, "second", digest) < TAKEOVER_S
        answer(second, people, SECOND)
        assert until_ended(store, digest) is StudyState.DONE
        each_counted_once(store, people, digest)


@pytest.mark.slow
def test_a_replica_that_stops_gives_its_studies_to_another_at_once(
    homes: tuple[AggregatorHome, AggregatorHome], people: People
) -> None:
    with stored(homes[0]) as store, serving(homes[1]) as second:
        with serving(homes[0]) as first, first.channel() as channel:
            digest = submit(channel, analyst_key(homes[0]))
            until_driven(store, "first", digest)
            assert first.ended_by(signal.SIGTERM) == 0
        assert until_driven(store, "second", digest) < LEASE_S / 2
        answer(second, people, slice(None))
        assert until_ended(store, digest) is StudyState.DONE
        each_counted_once(store, people, digest)


@pytest.mark.slow
def test_replicas_are_replaced_one_after_the_other_during_a_study(
    homes: tuple[AggregatorHome, AggregatorHome], people: People
) -> None:
    """A rolling upgrade where the schema stays: one replica serves at every moment."""
    with stored(homes[0]) as store, serving(homes[1]) as second:
        with serving(homes[0]) as first, first.channel() as channel:
            digest = submit(channel, analyst_key(homes[0]))
            until_driven(store, "first", digest)
            answer(first, people, slice(0, 10))
            assert first.ended_by(signal.SIGTERM) == 0
        assert until_driven(store, "second", digest) < LEASE_S / 2
        answer(second, people, slice(10, 15))
        with serving(homes[0]) as first:
            assert second.ended_by(signal.SIGTERM) == 0
            assert until_driven(store, "first", digest) < LEASE_S / 2
            answer(first, people, slice(15, 20))
            with serving(homes[1]) as second:
                answer(second, people, slice(20, COUNT))
                assert until_ended(store, digest) is StudyState.DONE
        each_counted_once(store, people, digest)


def test_a_pause_past_the_lease_ends_the_holders_driving(
    homes: tuple[AggregatorHome, AggregatorHome], people: People
) -> None:
    """SIGSTOP for longer than the lease; afterwards it serves devices and drives nothing."""
    with ExitStack() as stack:
        store = stack.enter_context(stored(homes[0]))
        first = stack.enter_context(serving(homes[0]))
        digest = submit(stack.enter_context(first.channel()), analyst_key(homes[0]))
        until_driven(store, "first", digest)
        second = stack.enter_context(serving(homes[1]))  # now, or it might be the quicker one
        answer(first, people, slice(0, 5))
        first.process.send_signal(signal.SIGSTOP)
        assert until_driven(store, "second", digest) < TAKEOVER_S
        answer(second, people, slice(5, 25))
        lines = list(store.log(digest).lines())
        first.process.send_signal(signal.SIGCONT)
        answer(first, people, slice(25, COUNT))
        assert until_ended(store, digest) is StudyState.DONE
        assert list(store.log(digest).lines())[: len(lines)] == lines
        each_counted_once(store, people, digest)
        assert drivers(store) == {"first": [], "second": []}
        assert [entry.name for entry in store.replicas.listing() if entry.seen_s < LEASE_S] == [
            "first",
            "second",
        ]


@pytest.mark.slow
def test_replicas_of_the_next_version_replace_both_during_a_study(
    homes: tuple[AggregatorHome, AggregatorHome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices of both versions answer, and the transcript is that of an undisturbed process."""
    people = People(homes[0].analyst, COUNT, Coins)
    with stored(homes[0]) as store:
        store.enrol(people.enrolled())
        with serving(homes[1]) as second:
            with serving(homes[0]) as first, first.channel() as channel:
                digest = submit(channel, analyst_key(homes[0]))
                until_driven(store, "first", digest)
                answer(first, people, slice(0, 5))
                with speaking(2, monkeypatch), pytest.raises(CallFailed) as early:
                    answer(first, people, slice(5, 6))
                assert first.ended_by(signal.SIGTERM) == 0
            until_driven(store, "second", digest)
            with interpreting(homes[0], protocols=BOTH) as first:
                answer(first, people, slice(5, 10))
                with speaking(2, monkeypatch):
                    answer(first, people, slice(10, 15))
                answer(second, people, slice(15, 20))
                assert second.ended_by(signal.SIGTERM) == 0
                until_driven(store, "first", digest)
                with interpreting(homes[1], protocols=BOTH) as second:
                    answer(second, people, slice(20, 25))
                    with speaking(2, monkeypatch):
                        answer(second, people, slice(25, COUNT))
                    assert until_ended(store, digest) is StudyState.DONE
        each_counted_once(store, people, digest)
        signed, ended = store.study(digest), store.conclusion(digest)
        assert signed is not None
        assert ended is not None
        expected = undisturbed(homes[0], signed, store.leaf_key(digest))
        assert json.loads(ended.result_json)["transcript"] == expected
        fresh = People(homes[0].analyst, COUNT + 1)
        store.enrol(fresh.enrolled()[COUNT:])
    with interpreting(homes[0], protocols=LATER) as later, pytest.raises(CallFailed) as late:
        answer(later, fresh, slice(COUNT, COUNT + 1))
    for refused, text in ((early, OLDER_AGGREGATOR), (late, OLDER_DEVICE)):
        assert refused.value.status == "FAILED_PRECONDITION"  # no certificate, so no call
        assert text in str(refused.value)
