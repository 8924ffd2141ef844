"""Bounds of a console's connections: slow readers, live pages, large heads, and hostile tags."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from askance.console import application, live, server
from askance.console.application import GuardedApplication
from askance_aggregator.server.callers import Role
from tests.askance.console.browser import until
from tests.askance.console.consoles import Visitor, console_of

HOSTILE = "<img/src=x/onerror=alert(1)>"
_PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def visitor() -> Iterator[Visitor]:
    with console_of(Role.ADMIN) as found:
        found.log_in()
        yield found


def test_an_answer_that_is_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "WRITE_S", 0.05)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"own")]}

    async def receive() -> Message:
        return {"type": "http.request"}

    async def never_taken(_: Message) -> None:
        await asyncio.Event().wait()

    guarded = GuardedApplication(PlainTextResponse("text"), ["own"])
    with pytest.raises(TimeoutError):
        asyncio.run(guarded(scope, receive, never_taken))


def test_live_pages_are_bounded_and_each_leaves_its_place(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS", 2)
    with ExitStack() as held:
        streams = [visitor.open_live(held) for _ in range(2)]
        assert [one.read(5) for one in streams] == [b"data:"] * 2
        refused = visitor.open_live(held)
        assert (refused.status, b"at most 2 pages" in refused.read()) == (503, True)

    def is_served() -> bool:
        with ExitStack() as held:
            return visitor.open_live(held).status == 200

    until(is_served)


def test_a_live_page_ends_with_its_session() -> None:
    with console_of() as visitor, ExitStack() as held:
        visitor.log_in()
        stream = visitor.open_live(held)
        assert stream.read(5) == b"data:"
        assert visitor.post("/logout").status == 303
        stream.read()  # to its end


def test_requests_that_are_never_whole_hold_up_no_other(visitor: Visitor) -> None:
    """Once, 256 of them closed the console to others until their time was over."""
    address = (visitor.address.host, visitor.address.port)
    with ExitStack() as held:
        live = visitor.open_live(held)
        assert live.read(5) == b"data:"
        half = []
        for _ in range(300):
            half.append(held.enter_context(socket.create_connection(address, 20)))
            half[-1].sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert visitor.get("/").status == 200
        assert [is_closed(one) for one in (half[0], half[-1])] == [True, False]
        assert sum(is_closed(one, 0.001) for one in half) >= 300 - server.MAX_CONNECTIONS
        assert live.read(5)  # what is being answered stays


def is_closed(connection: socket.socket, within_s: float = 0.5) -> bool:
    """Return whether the server has closed a connection that it has nothing to answer on."""
    connection.settimeout(within_s)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_a_large_head_is_refused(visitor: Visitor) -> None:
    address = (visitor.address.host, visitor.address.port)
    with socket.create_connection(address, _PATIENCE_S) as sent:
        head = f"GET / HTTP/1.1\r\nHost: {visitor.address}\r\nX-Large: "
        try:
            sent.sendall(head.encode() + b"x" * (4 * server.MAX_HEAD_BYTES))
            answer = sent.recv(100)
        except ConnectionError:
            answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")


def test_a_tag_that_is_markup_is_neither_kept_nor_run(visitor: Visitor) -> None:
    device = (b"device 3").hex()
    for name in ("add", "remove"):
        answer = visitor.post("/devices/tag", [("id", device), (name, HOSTILE)])
        assert (answer.status, HOSTILE in answer.text) == (400, False)
        assert "tag: expected WORD or KEY=VALUE" in answer.text
    for name in ("tags", "id", "start"):
        answer = visitor.get(f"/devices?{name}=%3Cimg/src=x/onerror=alert(1)%3E")
        assert (answer.status, HOSTILE in answer.text) == (400, False)
    assert "img/src" not in visitor.get(f"/devices?id={device}").text
