"""Attacks on a console: links, hosts, paths, sizes, slow clients, and names that are HTML."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from askance.console import application, server
from askance.console.server import ConsoleSettings
from askance.console.sessions import LINK_S, MAX_SESSIONS, SESSION_S, ConsoleSessions, LoginLinks
from askance_aggregator.server.callers import Role
from askance_aggregator.store import AuditEvent, SqliteStore
from askance_client.addresses import Address
from askance_client.errors import InvalidParameter
from tests.aggregator.server.callers.role_server import NOW_S
from tests.askance.console.consoles import Visitor, console_of

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def hostile_store() -> SqliteStore:
    store = SqliteStore.in_memory()
    for _ in range(3):
        store.audit.append(AuditEvent(NOW_S, HOSTILE, HOSTILE, HOSTILE, HOSTILE, "::1", HOSTILE))
    store.enrol((b"device %d" % n, bytes([n]) * 32) for n in range(9))
    store.register.note_seen([3], NOW_S // 86_400, HOSTILE[:48])  # no aggregator would
    store.register.note_seen([4], NOW_S // 86_400, "askance-client/0.1.0")
    return store


@pytest.fixture(scope="module")
def visitor() -> Iterator[Visitor]:
    with console_of(Role.ADMIN, hostile_store()) as found:
        found.log_in()
        yield found


def test_a_login_link_works_once_and_only_its_cookie_opens_a_page() -> None:
    with console_of() as first:
        (link,) = first.links
        token = link.partition("token=")[2]
        begun = first.get(f"/login?token={token}")
        assert begun.status == 200
        cookie = begun.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        assert "Secure" not in cookie
        assert first.get("/").status == 200
        second = Visitor(first.address, links=first.links)
        assert second.get(f"/login?token={token}").status == 403
        assert second.get("/login?token=" + "0" * 64).status == 403
        assert second.get("/").headers["location"] == "/login"
        assert second.post("/login").status == 200  # prints another, in the terminal alone
        assert len(first.links) == 2
        assert second.post("/login").status == 200
        assert len(first.links) == 2  # the printed one can still be used
        second.log_in()
        assert first.post("/logout").headers["location"] == "/login"
        assert first.get("/").status == 303
        assert second.get("/").status == 200


def test_links_and_sessions_end() -> None:
    now = [100.0]
    secret = iter(range(1, 1_000))
    secrets = lambda size: next(secret).to_bytes(size, "big")  # noqa: E731  a source of secrets
    links = LoginLinks(secrets, lambda: now[0])
    assert not links.is_outstanding
    old, token = links.issue(), links.issue()
    assert not links.redeem(old)
    now[0] += LINK_S
    assert not links.is_outstanding
    assert not links.redeem(token)
    sessions = ConsoleSessions(secrets, lambda: now[0])
    cookies = [sessions.begin() for _ in range(MAX_SESSIONS)]
    oldest = sessions.find(cookies[0])
    cookies.append(sessions.begin())
    assert sessions.find(cookies[0]) is None
    assert oldest is not None
    assert oldest.ends_s <= now[0]  # its live pages end too
    left = sessions.find(cookies[1])
    sessions.end(cookies[1])
    assert left is not None
    assert left.ends_s <= now[0]
    assert sessions.find(cookies[-1]) is not None
    now[0] += SESSION_S
    assert sessions.find(cookies[-1]) is None


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "", "localhost:1", "127.0.0.1:80@x"])
def test_another_host_is_refused(visitor: Visitor, host: str) -> None:
    """A site whose name resolves to this machine cannot read or write here (DNS rebinding)."""
    assert visitor.get("/", Host=host).status == 421
    assert visitor.get("/static/console.js", Host=host).status == 421
    port = visitor.address.port
    for own in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert visitor.get("/", Host=own).status == 200


def test_a_form_of_another_origin_is_refused(visitor: Visitor) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    body = f"csrf={visitor.csrf}&id=00".encode()
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{visitor.address.port + 1}"):
        answer = visitor.request("POST", "/devices/revoke", body, {**kind, "Origin": origin})
        assert (answer.status, "own pages" in answer.text) == (403, True)
    own = {**kind, "Origin": f"http://{visitor.address}"}
    assert visitor.request("POST", "/devices/revoke", body, own).status == 404  # no such device
    assert (
        visitor.request("POST", "/devices/revoke", body, {"Content-Type": "text/plain"}).status
        == 415
    )


@pytest.mark.parametrize("path", ["/", "/devices", "/audit", "/nope", "/static/console.css"])
def test_every_answer_forbids_foreign_content(visitor: Visitor, path: str) -> None:
    answer = visitor.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert not re.search(r"(?:src|href|action)=[\"']?(?:https?:)?//", answer.text)
    assert not re.search(r"<[^>]*\s(?:style|on[a-z]+)=|<style|javascript:", answer.text)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../console.py",
        "/static/..%2fapplication.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static//etc/passwd",
        "/static/console.css%00",
        "/static/",
    ],
)
def test_only_the_files_of_the_package_are_served(visitor: Visitor, path: str) -> None:
    answer = visitor.get(path)
    assert answer.status == 404
    assert "import" not in answer.text


def test_names_that_are_markup_are_shown_as_text(visitor: Visitor) -> None:
    text = visitor.get("/audit").text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 3
    for path in (f"/devices?tags={'%3Cscript%3E'}", "/devices?start=%3Cscript%3E", "/audit?to=-1"):
        answer = visitor.get(path)
        assert (answer.status, "<script>" in answer.text) == (400, False)
    assert visitor.get("/devices?start=99999999999999999999").status == 400
    devices = visitor.get("/devices").text
    assert "<script>alert" not in devices
    assert "&lt;script&gt;alert(1)" in devices
    assert "askance-client/0.1.0" in devices


def test_the_way_back_from_a_form_leads_to_no_other_host(visitor: Visitor) -> None:
    device = (b"device 3").hex()
    for back in ("//evil.example/", "https://evil.example", "/devices?start=0", "/\\evil"):
        fields = [("id", device), ("add", "x"), ("back", back)]
        to = visitor.post("/devices/tag", fields).headers["location"]
        assert to == (back if back.startswith("/devices?") else "/devices")


def test_a_large_form_is_refused_before_it_is_kept(visitor: Visitor) -> None:
    answer = visitor.post("/devices/tag", [("add", "x" * application.MAX_FORM_BYTES)])
    assert answer.status == 413
    head = (
        f"POST /devices/tag HTTP/1.1\r\nHost: {visitor.address}\r\nCookie: {visitor.cookie}\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    part = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with socket.create_connection((visitor.address.host, visitor.address.port), 20) as sent:
        sent.sendall(head.encode())
        try:
            for _ in range(160):  # 10 MiB, which no header announced
                sent.sendall(part)
        except OSError:  # closed before the end, as it should be
            pass
        else:
            pytest.fail("expected the connection to be closed before 10 MiB were sent")
    assert visitor.post("/devices/tag", [(f"f{n}", "") for n in range(600)]).status == 400


def test_slow_clients_are_left(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.3)
    monkeypatch.setattr(application, "BODY_S", 0.3)
    address = (visitor.address.host, visitor.address.port)
    with socket.create_connection(address, 20) as silent:
        assert silent.recv(1) == b""
    with socket.create_connection(address, 20) as dripping:
        dripping.sendall(b"GET / HT")
        assert dripping.recv(1) == b""
    with socket.create_connection(address, 20) as half:
        head = (
            f"POST /devices/tag HTTP/1.1\r\nHost: {visitor.address}\r\nCookie: {visitor.cookie}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ncsrf="
        )
        half.sendall(head.encode())
        assert half.recv(100).startswith(b"HTTP/1.1 408")


def test_other_machines_need_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    with pytest.raises(InvalidParameter, match="--certificate"):
        ConsoleSettings(Address("0.0.0.0", 7460))
    with pytest.raises(InvalidParameter, match="certificate and its key"):
        ConsoleSettings(Address("127.0.0.1", 7460), certificate)
    with pytest.raises(InvalidParameter, match="--name"):
        ConsoleSettings(Address("0.0.0.0", 7460), certificate, key)
    beyond = ConsoleSettings(Address("0.0.0.0", 443), certificate, key, ("Ask.example.org",))
    assert beyond.hosts(443) == ("ask.example.org:443", "ask.example.org")
    assert "localhost:7460" in ConsoleSettings(Address("127.0.0.1", 7460)).hosts(7460)
