"""A real aggregator in a process of its own: what it says, whom it serves, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
import urllib.request
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from grpc_health.v1 import health_pb2, health_pb2_grpc

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.outer.pass_through import HEALTH_SERVICES
from askance_aggregator.server.process.certificates import self_made
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import SqliteStore, StudyState
from tests.aggregator.server.process.conftest import (
    PATIENCE_S,
    Served,
    command,
    made,
    ran,
    serving,
)
from tests.aggregator.server.process.people import LABELS, People, submit
from tests.aggregator.server.webhooks.receiver import SECRET, WebhookServer, receiving
from tests.aggregator.server.webhooks.receiver import status as answer_status


def health(channel: grpc.Channel, service: str) -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
    return int(answer.status)


def status(home: AggregatorHome, *words: str) -> dict[str, object]:
    done = ran("aggregator", "status", "--config", home.configuration, "--json", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_study_from_its_submission_to_its_end_with_nothing_said_of_anybody(
    fresh: AggregatorHome,
) -> None:
    """Devices enrol with a token, answer a study, and only counts of it are seen from outside."""
    token = json.loads(
        ran(
            "aggregator", "token", "--config", fresh.configuration, "--devices", "40", "--json"
        ).stdout
    )["token"]
    people = People(fresh.analyst, 40)
    with (
        receiving(answer_status(200)) as receiver,
        serving(with_webhook(fresh, receiver)) as served,
    ):
        assert served.ready["studies_resumed"] == 0
        with served.channel() as channel:
            assert people.enrol(channel, token) == (40, 0)
            assert people.enrol(channel, token) == (0, 40)
            for wrong in (f"{token[:-4]}AAAA", "nothing"):
                with pytest.raises(grpc.RpcError) as refused:
                    people.enrol(channel, wrong)
                assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            key = load_pem_private_key(fresh.analyst_key.read_bytes(), None)
            digest = submit(channel, key)
        people.answer(served.address, fresh.authority.read_bytes())
        page = _page(served, 'askance_studies{state="done"} 1.0')
        for line in (
            "askance_devices 40.0",
            'askance_reports_total{status="accepted"} 40.0',
            'askance_calls_refused_total{code="permission-denied"} 2.0',
            'askance_studies{state="open"} 0.0',
            "askance_open_rounds 0.0",
            "askance_check_in_seconds_count",
            "askance_commit_reports_sum 40.0",
        ):
            assert line in page
        delivered = 'askance_webhook_ends{receiver="warehouse",state="delivered"} 1.0'
        page += _page(served, delivered)
        assert "askance_epsilon_spent_nats_total 0.0" not in page
        found = status(fresh, "--listen", served.address)
        assert found["serving"] is True
        assert served.ended_by(signal.SIGTERM) == 0
    stopped = status(fresh, "--listen", served.address)
    assert stopped["serving"] is False
    assert stopped["devices"] == 40
    assert stopped["studies"] == {"open": 0, "done": 1, "failed": 0, "cancelled": 0}
    with closing(SqliteStore.open(fresh.folder / "store.sqlite")) as store:
        assert store.conclusions()[digest].state is StudyState.DONE
    _says_nothing_of(people, token, served.log.read_text() + page)
    (message,) = receiver.received
    assert message.content["type"] == "study.done"
    assert message.content["data"]["study"] == digest.hex()
    assert message.content["data"]["result"]["answers"] == 40
    assert not any(secret in message.body.decode() for secret in (token, *people.secrets()))
    events = [event["event"] for event in served.events()]
    assert "serving" in events
    assert events[-3:] == ["draining", "audit log", "ended"], str(served.events()[-4:])
    (ended,) = [event for event in served.events() if event["event"] == "a study has ended"]
    assert ended["study"] == digest.hex()[:16]
    assert ended["reason"] == "done"


def with_webhook(home: AggregatorHome, receiver: WebhookServer) -> AggregatorHome:
    """Let an aggregator send its results to a receiver."""
    (home.folder / "warehouse.secret").write_text(SECRET)
    with home.configuration.open("a") as file:
        file.write('[[webhooks]]\nname = "warehouse"\nsecret = "warehouse.secret"\n')
        file.write(f'url = "http://127.0.0.1:{receiver.server_port}/"\n')
    return home


def _page(served: Served, awaited: str) -> str:
    """The page of metrics, when a line is on it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://{served.ready['metrics']}/metrics") as reply:
            page: str = reply.read().decode()
        if awaited in page:
            return page
    raise AssertionError(page)


def test_the_page_has_the_valves_descriptors(fresh: AggregatorHome) -> None:
    """A connection of a device has two there, and the page had those of the service alone."""
    with serving(fresh) as served:
        page = _page(served, "askance_valve_process_open_fds")
        assert "askance_valve_process_max_fds" in page


def _says_nothing_of(people: People, token: str, told: str) -> None:
    for secret in (*LABELS, token, *people.secrets()):
        assert secret not in told


def test_only_who_pins_its_authority_is_served(fresh: AggregatorHome, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(self_made([], system_now_s())[0].certificate)
    serves = health_pb2.HealthCheckResponse.SERVING
    with serving(fresh) as served:
        with served.channel() as channel:
            assert [health(channel, name) for name in HEALTH_SERVICES] == [serves] * 3
        with served.channel(other) as channel, pytest.raises(grpc.RpcError) as refused:
            health(channel, "")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        with grpc.insecure_channel(served.address) as channel, pytest.raises(grpc.RpcError):
            health(channel, "")
        assert served.ended_by(signal.SIGINT) == 0


def test_an_open_study_stays_open_over_a_drain_and_goes_on(fresh: AggregatorHome) -> None:
    people = People(fresh.analyst, 40)
    with closing(SqliteStore.open(fresh.folder / "store.sqlite")) as store:
        store.enrol(people.enrolled())
    with serving(fresh) as served:
        with served.channel() as channel:
            digest = submit(channel, load_pem_private_key(fresh.analyst_key.read_bytes(), None))
        assert served.ended_by(signal.SIGTERM) == 0
    with serving(fresh) as served:
        assert served.ready["studies_resumed"] == 1
        people.answer(served.address, fresh.authority.read_bytes())
        assert served.ended_by(signal.SIGTERM) == 0
    with closing(SqliteStore.open(fresh.folder / "store.sqlite")) as store:
        (request,) = people.requests
        assert len(list(store.reports(request))) == 40
        assert digest in store.studies()


def test_a_device_that_is_connected_is_told_and_keeps_nobody(fresh: AggregatorHome) -> None:
    people = People(fresh.analyst, 1)
    with closing(SqliteStore.open(fresh.folder / "store.sqlite")) as store:
        store.enrol(people.enrolled())
    pinned = fresh.authority.read_bytes()
    with serving(fresh) as served, people.channel(served.address, pinned) as channel:
        stream = people.stream(channel)
        _page(served, "askance_streams 1.0")
        served.process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as ended:
            next(stream)
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        assert served.process.wait(timeout=PATIENCE_S) == 0


def test_what_it_needs_and_does_not_find_is_one_clear_line(fresh: AggregatorHome) -> None:
    with serving(fresh) as served:
        again = ran("aggregator", "serve", "--config", fresh.configuration)
        _one_line(again, 1, "expected one that no other process uses, found it in use")
        other = made(fresh.folder.parent / "other")
        taken = ran(
            "aggregator", "serve", "--config", other.configuration, "--listen", served.address
        )
        _one_line(taken, 1, "cannot listen on")
    key = other.folder / "server.key"
    key.write_bytes((fresh.folder / "server.key").read_bytes())
    _one_line(ran("aggregator", "serve", "--config", other.configuration), 1, "got another")
    key.unlink()
    _one_line(ran("aggregator", "serve", "--config", other.configuration), 1, "cannot be read")
    text = fresh.configuration.read_text()
    fresh.configuration.write_text(f'schemas = ["no.toml"]\n{text}')
    missing = ran("aggregator", "serve", "--config", fresh.configuration)
    _one_line(missing, 1, "schemas: ")
    fresh.configuration.write_text(text)
    _one_line(ran("aggregator", "serve"), 2, "aggregator.toml: expected a configuration")
    _one_line(ran("aggregator", "status", "--config", other.configuration), 2, "found 0")


def test_a_page_of_metrics_that_cannot_be_is_an_error(fresh: AggregatorHome) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = fresh.configuration.read_text()
        whole, _, rest = text.partition("[metrics]")
        fresh.configuration.write_text(whole + "[metrics]" + rest.replace(":0", f":{port}"))
        done = ran("aggregator", "serve", "--config", fresh.configuration)
    _one_line(done, 1, f"metrics: cannot listen on 127.0.0.1:{port}")


def without_tls(text: str) -> str:
    """A configuration whose tables [tls] and [tls.devices] are taken out."""
    before, after = text.split("[tls]\n")[0], text.split("[enrolment]\n")[1]
    return f"{before}[enrolment]\n{after}"


def test_plain_text_beyond_loopback_is_refused_before_anything_starts(
    fresh: AggregatorHome,
) -> None:
    fresh.configuration.write_text(without_tls(fresh.configuration.read_text()))
    done = ran(
        "aggregator", "serve", "--config", fresh.configuration, "--listen", "0.0.0.0:0", "--json"
    )
    _one_line(done, 2, "expected a loopback address for plain text")


def test_a_second_signal_ends_it_at_once() -> None:
    """The first signal is still being handled; the operator does not have to wait for it."""
    code = (
        "import signal, threading\n"
        "from askance_aggregator.server.process.process import draining_at_signals\n"
        "with draining_at_signals() as stopping:\n"
        "    print('ready', flush=True)\n"
        "    stopping.wait()\n"
        "    print('draining', flush=True)\n"
        "    threading.Event().wait()\n"
    )
    words = command()
    words[2] = words[2].rpartition("; from")[0] + "\n" + code
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "draining\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == -signal.SIGTERM


def _one_line(done: subprocess.CompletedProcess[str], code: int, said: str) -> None:
    assert done.returncode == code, done
    complaint = done.stderr.splitlines()[-1]
    assert complaint.startswith("askance: ")
    assert said in complaint
    assert "Traceback" not in done.stderr
