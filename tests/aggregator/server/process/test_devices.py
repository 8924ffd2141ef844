"""Operator's register beside a serving process: what a command changes is in force in it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import grpc
import pytest

from askance_aggregator.server.devices import standings
from askance_aggregator.server.process.configuration import read_configuration
from askance_aggregator.server.process.home import AggregatorHome
from askance_client.service.open_side import CallFailed
from tests.aggregator.server.process.conftest import PATIENCE_S, Served, ran, serving
from tests.aggregator.server.process.people import People


def run(home: AggregatorHome, *words: str) -> dict[str, Any]:
    done = ran("aggregator", *words, "--config", home.configuration, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def enrolled(home: AggregatorHome, served: Served, count: int) -> People:
    people = People(home.analyst, count)
    token = run(home, "token", "--devices", str(count))["token"]
    with served.channel() as channel:
        assert people.enrol(channel, token) == (count, 0)
    return people


def until(call: Callable[[], bool]) -> None:
    """Call until it is true: the aggregator looks at its store now and then."""
    deadline = time.monotonic() + PATIENCE_S
    while not call():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ids(home: AggregatorHome, *words: str) -> list[str]:
    return [str(one["id"]) for one in run(home, "device", "list", *words)["devices"]]


def test_a_revoked_device_loses_its_stream(fresh: AggregatorHome) -> None:
    assert standings._LOOK_S <= 0.5  # of an idle machine: within a second
    with serving(fresh) as served, ExitStack() as held:
        people = enrolled(fresh, served, 3)
        pinned = fresh.authority.read_bytes()
        channel = held.enter_context(people.channel(served.address, pinned))
        first, *_ = ids(fresh)
        stream: Any = people.stream(channel)
        assert stream.initial_metadata() is not None  # it is accepted
        assert run(fresh, "device", "revoke", first) == {"devices": 1, "gateways": 0}
        with pytest.raises(grpc.RpcError) as ended:
            next(stream)
        assert ended.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "got a revoked one" in str(ended.value.details())
        with pytest.raises(grpc.RpcError) as refused:
            next(people.stream(channel))
        ended_as_well = grpc.StatusCode.UNAVAILABLE  # the connection of a revoked certificate
        assert refused.value.code() in (grpc.StatusCode.PERMISSION_DENIED, ended_as_well)
        with pytest.raises(CallFailed, match="got a revoked one"):  # nor a certificate
            held.enter_context(people.channel(served.address, pinned))
        assert run(fresh, "device", "restore", first) == {"devices": 1, "gateways": 0}

        def is_accepted() -> bool:
            try:
                held.enter_context(people.channel(served.address, pinned))
            except CallFailed:
                return False
            return True

        until(is_accepted)
        channel = held.enter_context(people.channel(served.address, pinned))
        again: Any = people.stream(channel)
        assert again.initial_metadata() is not None
        time.sleep(2 * standings._LOOK_S)
        assert again.is_active()
        again.cancel()


def test_a_forgotten_device_enrols_as_a_new_user(fresh: AggregatorHome) -> None:
    with serving(fresh) as served, served.channel() as channel, ExitStack() as held:
        people = enrolled(fresh, served, 3)
        own = held.enter_context(people.channel(served.address, fresh.authority.read_bytes()))
        first, *others = ids(fresh)
        run(fresh, "device", "tag", first, "--add", "site=berlin")
        assert ids(fresh, "--tag", "site=berlin") == [first]
        forgotten = run(fresh, "device", "forget", first)
        assert forgotten["devices"] == 1
        assert "published counts" in forgotten["note"]

        def is_unknown() -> bool:
            with pytest.raises(grpc.RpcError) as refused:  # by the next look at the latest
                next(people.stream(own))
            return bool(refused.value.code() is grpc.StatusCode.UNAUTHENTICATED)

        until(is_unknown)
        token = run(fresh, "token")["token"]
        assert people.enrol(channel, token) == (1, 2)
        page = run(fresh, "device", "list")
        assert [one["ordinal"] for one in page["devices"]] == [1, 2, 3]
        assert (page["active"], page["forgotten"]) == (3, 1)
        shown = run(fresh, "device", "show", first)
        assert (shown["tags"], shown["software"]) == ([], None)  # the new user has not called
        assert ids(fresh, "--after", "2") == [first]
        assert set(ids(fresh, "--limit", "2")) == set(others)


def test_tokens_are_listed_and_revoked(fresh: AggregatorHome) -> None:
    with serving(fresh) as served, served.channel() as channel:
        people = People(fresh.analyst, 2)
        issued = run(fresh, "token", "--devices", "2")
        run(fresh, "token", "revoke", issued["id"])
        with pytest.raises(grpc.RpcError) as refused:
            people.enrol(channel, issued["token"])
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "revoked" in str(refused.value.details())
    (listed,) = run(fresh, "token", "list")["tokens"]
    assert (listed["id"], listed["state"], listed["devices"]) == (issued["id"], "revoked", 0)


def test_commands_are_in_the_audit_log(fresh: AggregatorHome) -> None:
    run(fresh, "token", "--devices", "7")
    assert ran("aggregator", "token", "revoke", "00", "--config", fresh.configuration).returncode
    with closing(read_configuration(fresh.configuration).store.open_beside()) as store:
        store.enrol((bytes([number]) * 16, bytes(32)) for number in range(5))
    run(fresh, "device", "tag", *(f"{number:02x}" * 16 for number in range(3)), "--add", "eu")
    run(fresh, "device", "revoke", "--tag", "eu")
    run(fresh, "device", "revoke", "--tag", "eu")  # they are revoked already
    entries = run(fresh, "audit", "show")["entries"]
    token = ("token", "7 devices")
    revoked = ("token revoke", "1 token")
    tagged, ended = ("device tag", "3 by id"), ("device revoke", "devices with tag eu")
    found = [(one["action"], one["subject"], one["outcome"], one.get("changed")) for one in entries]
    assert found == [
        (*token, "begun", None),
        (*token, "done", None),
        (*revoked, "begun", None),
        (*revoked, "failed: UnknownDevice", None),
        (*tagged, "begun", None),
        (*tagged, "done", 3),
        (*ended, "begun", None),
        (*ended, "done", 3),
        (*ended, "begun", None),
        (*ended, "done", 0),
    ]
    shown = ran("aggregator", "audit", "show", "--limit", "4", "--config", fresh.configuration)
    head, *rows = [line.split("  ") for line in shown.stdout.splitlines()]
    assert (head[0], len(rows)) == ("outcome", 4)
    assert [row[0] for row in rows] == ["failed: UnknownDevice", "done", "done", "done"]
    assert rows[2][-1].strip() == "8"
    assert [cell.strip() for cell in rows[2] if cell.strip()][2:5] == [*ended, "3"]


def test_tables_and_refusals(fresh: AggregatorHome) -> None:
    """Without a running aggregator the commands open the same store."""
    words = ("--config", fresh.configuration)
    for command, code, text in (
        (("device", "list"), 0, "0 active, 0 revoked, 0 forgotten"),
        (("device", "list", "--gateways"), 0, "members"),
        (("token", "list"), 0, "limit"),
        (("device", "show", "00ff"), 1, "got 00ff"),
        (("device", "revoke", "nonsense"), 2, "got 'nonsense'"),
        (("device", "revoke"), 2, "expected ids or tags, got neither"),
        (("device", "tag", "--tag", "v2"), 2, "got none"),
        (("device", "list", "--tag", "a b"), 2, "got 'a b'"),
        (("token", "revoke", "00"), 1, "enrolment token: expected"),
    ):
        done = ran("aggregator", *command, *words)
        assert done.returncode == code, done.stderr
        assert text in (done.stdout if code == 0 else done.stderr)


def test_a_second_process_neither_serves_nor_collects(fresh: AggregatorHome) -> None:
    with serving(fresh):
        for command in ("serve", "collect"):
            refused = ran("aggregator", command, "--config", fresh.configuration)
            assert refused.returncode == 1
            assert "in use: stop that process first" in refused.stderr
    assert ran("aggregator", "collect", "--config", fresh.configuration).returncode == 0
