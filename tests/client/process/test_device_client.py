"""A device within an application: threads, asyncio, fork, conditions and consent."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from askance_aggregator.store import SqliteStore
from askance_client import DeviceClient, Policy, outside_hours
from askance_client.errors import AskanceError, InvalidParameter, LocalProtocolError, StoreError
from askance_client.messages import Reason, Refusal
from askance_client.queries import Bit, Schema
from askance_client.service import CallFailed, system_now_s
from tests.client.process.conftest import ENVIRONMENT, KEY, serving_certified
from tests.ports import free_port

SCHEMA = Schema("people", 1, smokes=Bit())
POLICY = Policy(frozenset({KEY.public_key().public_bytes_raw()}), 8 * 10**9)
NOWHERE = "127.0.0.1:1"  # refuses connections
WAIT_S = 60


def client_of(folder: Path, **settings: Any) -> DeviceClient:
    given: dict[str, Any] = {
        "aggregator": NOWHERE,
        "records": dict,
        "schema": SCHEMA,
        "policy": POLICY,
    }
    return DeviceClient(folder / "device", **(given | settings))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[DeviceClient]:
    made = client_of(tmp_path)
    yield made
    made.close()


@contextmanager
def in_a_thread(client: DeviceClient) -> Iterator[None]:
    """Run a client for the length of a block, then stop and close it."""
    thread = threading.Thread(target=client.run)
    thread.start()
    try:
        wait_until(lambda: client._stop)
        yield
    finally:
        while thread.is_alive():
            client.stop()
            thread.join(0.01)
        client.close()


def wait_until(condition: Callable[[], object]) -> None:
    for _ in range(1000 * WAIT_S):
        if condition():
            return
        threading.Event().wait(0.001)
    pytest.fail("expected it within a minute")


def test_the_import_is_light() -> None:
    """An application that may not connect loads neither gRPC nor numpy."""
    code = "import sys, askance_client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    heavy = {"grpc", "numpy", "google.protobuf", "cryptography", "asyncio", "sqlite3"}
    assert heavy & set(done.stdout.split()) == set()


def test_a_name_that_is_not_there_is_none() -> None:
    import askance_client

    with pytest.raises(AttributeError, match="no attribute 'Device'"):
        askance_client.Device  # noqa: B018


def test_a_folder_is_made_once_and_kept(tmp_path: Path) -> None:
    with client_of(tmp_path) as client:
        status = client.status()
        assert (status.spent_nano_nats, status.left_nano_nats) == (0, 8 * 10**9)
        assert (status.answers, status.studies, status.running) == (0, 0, False)
        assert client.history() == []
    with client_of(tmp_path) as again:
        assert again.status().device_id == status.device_id
        with pytest.raises(StoreError), client_of(tmp_path) as second:
            second.status()
    other = Schema("others", 1, smokes=Bit())
    with (
        pytest.raises(StoreError, match="schema: expected"),
        client_of(tmp_path, schema=other) as wrong,
    ):
        wrong.status()


def test_a_run_in_a_thread_is_seen_and_stopped_from_another(client: DeviceClient) -> None:
    thread = threading.Thread(target=client.run)
    thread.start()
    wait_until(lambda: client.status().running)
    for call in (client.run, client.run_once, client.close):
        with pytest.raises(LocalProtocolError, match="one run at a time"):
            call()
    assert client.history() == []
    while thread.is_alive():
        client.stop()
        thread.join(0.01)
    assert not client.status().running
    client.stop()


def test_many_threads_open_the_folder_once(client: DeviceClient) -> None:
    ids: list[str] = []
    threads = [
        threading.Thread(target=lambda: ids.append(client.status().device_id)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 8
    assert len(set(ids)) == 1


def test_asyncio_runs_until_it_is_cancelled(client: DeviceClient) -> None:
    async def scenario() -> None:
        task = asyncio.ensure_future(client.run_async())
        while not client.status().running:
            await asyncio.sleep(0.001)
        for call in (client.run, client.run_once):
            with pytest.raises(LocalProtocolError, match="ends in _async"):
                call()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert not client.status().running


def test_an_aggregator_that_is_not_there_is_one_failure(client: DeviceClient) -> None:
    outcome = client.run_once()
    assert outcome is not None
    assert (outcome.members, outcome.answered, outcome.failures.total()) == (1, 0, 1)


_FORKS = """
import os, sys
from pathlib import Path
from askance_client import DeviceClient, Policy
from askance_client.errors import LocalProtocolError
from askance_client.queries import Bit, Schema
client = DeviceClient(
    Path(sys.argv[1]), aggregator="127.0.0.1:1", records=dict,
    schema=Schema("people", 1, smokes=Bit()), policy=Policy(frozenset({bytes(32)}), 10**9),
)
assert client.status().answers == 0
if child := os.fork():
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert client.status().answers == 0
    print("the parent goes on")
else:
    refused = 0
    for call in (client.status, client.history, client.run_once, client.run, client.stop):
        try:
            call()
        except LocalProtocolError as error:
            refused += "after the fork" in str(error)
    client.close()
    os._exit(refused)
"""


def test_a_forked_child_is_refused_and_its_parent_goes_on(tmp_path: Path) -> None:
    """A child that used the parent's connection could commit into the parent's ledger."""
    done = subprocess.run(
        [sys.executable, "-c", _FORKS, str(tmp_path / "device")],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "the parent goes on\n"), done.stderr


class TestConditions:
    def test_one_that_says_no_keeps_the_device_from_connecting(self, tmp_path: Path) -> None:
        looked: list[int] = []

        def no() -> bool:
            looked.append(1)
            return False

        conditions = (no, lambda: pytest.fail("not asked"))
        with client_of(tmp_path, conditions=conditions) as client:
            assert client.run_once() is None
        assert looked == [1]
        assert not (tmp_path / "device").exists()

    def test_one_that_raises_counts_as_no(self, tmp_path: Path) -> None:
        with client_of(tmp_path, conditions=[lambda: 1 // 0 == 0]) as client:
            assert client.run_once() is None

    def test_a_run_looks_again_and_connects_and_hangs_up(self, tmp_path: Path) -> None:
        allowed, runs = [False], []

        class Scripted:
            async def run(self) -> None:
                runs.append("connected")
                try:
                    await asyncio.Event().wait()
                finally:
                    runs.append("hung up")

        client = client_of(tmp_path, conditions=[lambda: allowed[0]], check_s=0)
        gateway: Any = Scripted()
        object.__setattr__(client._open_now(), "gateway", gateway)
        thread = threading.Thread(target=client.run)
        thread.start()
        wait_until(lambda: client._stop is not None)
        assert runs == []
        allowed[0] = True
        wait_until(lambda: runs == ["connected"])
        allowed[0] = False
        wait_until(lambda: runs == ["connected", "hung up"])
        client.stop()
        thread.join(WAIT_S)
        client.close()

    @pytest.mark.parametrize(
        ("first", "last", "quiet"),
        [(22, 7, {22, 23, 0, 1, 2, 3, 4, 5, 6}), (1, 3, {1, 2}), (5, 5, set())],
    )
    def test_quiet_hours(self, first: int, last: int, quiet: set[int]) -> None:
        found = {hour for hour in range(24) if not outside_hours(first, last, lambda: hour)()}  # noqa: B023
        assert found == quiet

    def test_there_are_24_hours(self) -> None:
        with pytest.raises(InvalidParameter, match="got 24"):
            outside_hours(24, 7)


NO_TOKEN = "expected an enrolment token as `aggregator token` prints it, got other text"


class TestEnrolment:
    def test_it_is_remembered_without_the_aggregator_and_whatever_the_token(
        self, tmp_path: Path, aggregator: Any
    ) -> None:
        with client_of(tmp_path, aggregator=aggregator.server.address) as client:
            client.enrol(aggregator.token(1))
        aggregator.server.stop()
        for _ in range(2):
            with client_of(tmp_path, aggregator=aggregator.server.address) as again:
                again.enrol("revoked")
                outcome = again.run_once()
            assert outcome is not None
            assert outcome.failures.total() == 1  # it is away, which is no reason to forget it
        assert aggregator.store.population() == 1
        assert stat.S_IMODE((tmp_path / "device" / "enrolled").stat().st_mode) == 0o600

    def test_the_certificate_is_asked_for_once(self, tmp_path: Path, serving_tls: Any) -> None:
        ca, found = tmp_path / "ca.pem", list[tuple[int, bytes]]()
        ca.write_bytes(serving_tls.service.ca.certificate)
        for token in (serving_tls.token(1), "ended"):
            with client_of(tmp_path, aggregator=serving_tls.service.address, ca=ca) as client:
                client.enrol(token)
                outcome = client.run_once()
            assert outcome is not None
            held = (tmp_path / "device" / "certificate.json").read_bytes()
            found.append((outcome.failures.total(), held))
        assert found[0] == found[1]
        assert found[0][0] == 0

    def test_another_aggregator_is_called_where_the_application_says(
        self, tmp_path: Path, serving_tls: Any
    ) -> None:
        """Enrolment and certificate were kept for the one before, which still answers."""
        with serving_certified() as other:
            populations, failed = list[int](), list[int]()
            for number, serving in enumerate((serving_tls, other, other)):
                ca = tmp_path / f"{number}.pem"
                ca.write_bytes(serving.service.ca.certificate)
                where = {"aggregator": serving.service.address, "ca": ca}
                with client_of(tmp_path, token=serving.token(1), **where) as client:
                    outcome = client.run_once()
                assert outcome is not None
                populations.append(serving.store.population())
                failed.append(outcome.failures.total())
        assert (populations, failed) == ([1, 0, 1], [0, 1, 0])

    @pytest.mark.parametrize(
        "words", [("", "0 char"), ("\u00e9", "1 char"), ("x" * 1025, "1025 c")]
    )
    def test_what_is_no_token_is_refused_before_anything_is_made(
        self, tmp_path: Path, words: tuple[str, str]
    ) -> None:
        token, found = words
        message = f"enrolment token: expected one line of 1 to 1024 ASCII characters, got {found}"
        with client_of(tmp_path) as client, pytest.raises(InvalidParameter, match=message):
            client.enrol(token)
        with pytest.raises(InvalidParameter, match=message):
            client_of(tmp_path, token=token)
        assert list(tmp_path.iterdir()) == []

    def test_a_failure_is_the_clients_own_error(self, tmp_path: Path, aggregator: Any) -> None:
        with (
            client_of(tmp_path) as client,
            pytest.raises(CallFailed, match="UNAVAILABLE: ") as away,
        ):
            client.enrol("token")
        assert isinstance(away.value, AskanceError)
        refused = f"PERMISSION_DENIED: {NO_TOKEN}"
        address = aggregator.server.address
        with (
            client_of(tmp_path, aggregator=address) as client,
            pytest.raises(CallFailed, match=refused),
        ):
            client.enrol("token")

    def test_a_run_tries_until_the_aggregator_is_there(
        self, tmp_path: Path, aggregator: Any
    ) -> None:
        """A device that is known answers also if its enrolment and its token are lost."""
        port, yes = free_port(), {"records": lambda: {"smokes": 1}, "release_ms": 200}
        settings = {"aggregator": f"127.0.0.1:{port}", "longest_wait_s": 1, **yes}
        client = client_of(tmp_path, token=aggregator.token(1), **settings)
        with in_a_thread(client):
            wait_until(lambda: client._journal._failed.total())
            tried = set(client._journal._failed)
            aggregator.listen(port, SqliteStore.in_memory())
            wait_until(lambda: aggregator.store.population())
            (tally,) = aggregator.ask(aggregator.round()).result(WAIT_S)
        (tmp_path / "device" / "enrolled").unlink()
        again = client_of(tmp_path, token="revoked", **settings)
        with in_a_thread(again):
            (later,) = aggregator.ask(aggregator.round(1)).result(WAIT_S)
            refused = set(again._journal._failed)
        assert (tally.answered, later.answered) == (1, 1)
        assert all(one.startswith("enrolment: UNAVAILABLE: ") for one in tried)
        assert refused in (set(), {f"enrolment: PERMISSION_DENIED: {NO_TOKEN}"})

    def test_a_check_in_enrols_and_an_aggregator_that_forgot_the_device_is_told_again(
        self, tmp_path: Path, aggregator: Any
    ) -> None:
        port, known, failed = free_port(), list[int](), list[int]()
        token, settings = aggregator.token(2), {"aggregator": f"127.0.0.1:{port}"}
        for store in (SqliteStore.in_memory(), SqliteStore.in_memory()):
            aggregator.listen(port, store)
            for _ in range(2):
                with client_of(tmp_path, token=token, **settings) as client:
                    outcome = client.run_once()
                assert outcome is not None
                known.append(store.population())
                failed.append(outcome.failures.total())
        assert (known, failed) == ([1, 1, 0, 1], [0, 0, 1, 0])


def test_a_clock_that_was_ahead_is_repaired_by_the_application(
    tmp_path: Path, aggregator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are charged on a future day; then all is refused until the owner repairs it."""
    address, now_s = aggregator.server.address, system_now_s()

    def asked(number: int, at_s: int) -> tuple[int, int]:
        monkeypatch.setattr("askance_client.embedding.system_now_s", lambda: at_s)
        yes = {"records": lambda: {"smokes": 1}, "release_ms": 200}
        settings = {"aggregator": address, **yes}
        with client_of(tmp_path, token=token, **settings) as client, in_a_thread(client):
            wait_until(aggregator.store.population)
            (tally,) = aggregator.ask(aggregator.round(number)).result(WAIT_S)
        return tally.answered, sum(count for _, count in tally.refusals)

    token, late_s = aggregator.token(1), now_s - 86_400
    assert asked(0, now_s + 3_600) == (1, 0)
    assert asked(1, late_s) == (0, 1)
    client = client_of(tmp_path)
    assert (client.repair_clock(), client.repair_clock()) == (1, 0)
    assert asked(2, late_s) == (1, 0)


class TestConsent:
    @pytest.mark.parametrize(
        ("answer", "agreed"),
        [(lambda _: True, True), (lambda _: False, False), (lambda _: 1 // 0, False)],
    )
    def test_only_yes_is_yes_and_all_else_holds_the_study(
        self, tmp_path: Path, answer: Any, agreed: bool
    ) -> None:
        study: Any = SimpleNamespace(digest=bytes(32), public_key=bytes(32), terms=None)
        consent = client_of(tmp_path, consent=answer)._policy.consent
        assert consent is not None
        refusal = consent(study, b"", 0)
        assert (refusal is None) is agreed
        assert agreed or (refusal is not None and refusal.reason is Reason.WAITING)

    def test_it_is_asked_until_it_agrees(self, tmp_path: Path) -> None:
        told, asked = iter([False, True]), list[Any]()

        def consent(terms: Any) -> bool:
            asked.append(terms)
            return next(told)

        study: Any = SimpleNamespace(digest=bytes(32), public_key=bytes(32), terms=None)
        policy = client_of(tmp_path, consent=consent)._policy
        assert policy.consent is not None
        outcomes = [policy.consent(study, b"", 0) is None for _ in range(4)]
        assert (outcomes, len(asked)) == ([False, True, True, True], 2)

    def test_it_holds_beside_the_owners_own(self, tmp_path: Path) -> None:
        """An application that agrees to all does not approve what the owner's policy refuses."""
        owner = [Refusal(Reason.NOT_APPROVED), Refusal(Reason.WAITING), None]
        told, asked = iter(owner), list[Any]()

        def consent(terms: Any) -> bool:
            asked.append(terms)
            return True

        policy = replace(POLICY, consent=lambda *_: next(told))
        combined = client_of(tmp_path, policy=policy, consent=consent)._policy.consent
        assert combined is not None
        study: Any = SimpleNamespace(digest=bytes(32), public_key=bytes(32), terms=None)
        assert [combined(study, b"", 0) for _ in range(3)] == owner
        assert len(asked) == 1

    def test_the_same_bytes_by_another_analyst_are_another_study(self, tmp_path: Path) -> None:
        told = iter([True, False])
        consent = client_of(tmp_path, consent=lambda _: next(told))._policy.consent
        assert consent is not None
        first: Any = SimpleNamespace(digest=bytes(32), public_key=bytes(32), terms=None)
        second: Any = SimpleNamespace(digest=bytes(32), public_key=b"\1" * 32, terms=None)
        assert [consent(study, b"", 0) is None for study in (first, second, first)] == [
            True,
            False,
            True,
        ]

    def test_a_study_that_was_held_is_answered_once_the_application_agrees(
        self, tmp_path: Path, aggregator: Any
    ) -> None:
        asked = list[Any]()

        def consent(terms: Any) -> bool:
            asked.append(terms)
            return len(asked) > 2

        client = client_of(
            tmp_path,
            aggregator=aggregator.server.address,
            records=lambda: {"smokes": 1},
            consent=consent,
            consent_wait_s=1,
        )
        client.enrol(aggregator.token(1))
        thread = threading.Thread(target=client.run)
        thread.start()
        try:
            (tally,) = aggregator.ask(aggregator.round()).result(WAIT_S)
        finally:
            client.stop()
            thread.join(WAIT_S)
        assert len(asked) == 3
        assert (tally.answered, client.status().answers) == (1, 1)
        client.close()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an address": ({"aggregator": "nowhere"}, "expected HOST:PORT, got 'nowhere'"),
    "no secrecy": ({"aggregator": "example.org:1"}, "ca: expected the authority's certificate"),
    "a field of the policy": (
        {"policy": Policy(frozenset(), 1, fields=frozenset({"pay"}))},
        "policy.fields: expected fields of the schema, got 'pay'",
    ),
    "a column's field": ({"columns": {"pay": "x"}}, "columns: expected fields of the schema"),
    "no function": ({"records": 7}, "records: expected a function or a record source, got a int"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_setting_is_refused_before_anything_is_made(tmp_path: Path, case: str) -> None:
    settings, message = BAD[case]
    with pytest.raises(InvalidParameter, match=message):
        client_of(tmp_path, **settings)
    assert list(tmp_path.iterdir()) == []
