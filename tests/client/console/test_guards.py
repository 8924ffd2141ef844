"""The page answers one browser on this machine, within bounds, and shows texts as texts."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from askance_aggregator.encoding import sign_study
from askance_client.cli.device import main
from askance_client.codec import decode_study
from askance_client.console.command import _MAX_PAGE
from askance_client.console.server import (
    HEADERS,
    MAX_AT_ONCE,
    MAX_FIELDS,
    MAX_FORM_BYTES,
    MAX_TARGET,
)
from askance_client.console.session import LIFE_S, LINK_S
from tests.client.cli.test_deciding import Folder
from tests.client.console.conftest import Served
from tests.client.device.conftest import KEY

READS = ("", "history", "studies", "policy", "history.csv", "study")
CHANGES = ("decide", "end")
HOSTILE = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>&amp;{0}%s"


def test_the_link_logs_in_once(folder: Folder) -> None:
    with Served(folder) as served:
        link = served.session.link
        found = served.log_in()
        assert (found.status, found.headers["Location"]) == (303, served.session.path)
        assert found.headers["Set-Cookie"].endswith(
            f"; Path={served.session.path}; HttpOnly; SameSite=Strict"
        )
        assert served.get().status == 200
        again = served.send("GET", link)
        assert (again.status, "Set-Cookie" in again.headers) == (403, False)
        assert served.get().status == 200


def test_another_process_prints_a_new_link_and_its_login_ends_the_one_before(
    page: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, before = page.folder.path, page.cookie
    for number in (1, 2):
        page.now_s = time.monotonic_ns() // 10**9  # as the command's
        assert main(["console", str(folder), "--link", "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        origin, _, secret = printed["link"].partition("/login/")
        assert (origin, printed["valid_s"], len(secret)) == (f"http://{page.host}", 600, 43)
        assert page.session.link == f"/login/{secret}"
        assert (folder / "console-link").stat().st_mode & 0o777 == 0o600
        assert page.log_in().status == 303
        assert page.session.link == ""
        assert page.get().status == 200
        old = {"Cookie": before}
        assert page.send("GET", page.session.path, headers=old).status == 403, number
        before = page.cookie


def test_a_link_to_no_page_is_refused(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", str(folder.path), "--link"]) == 1
    assert "--link: expected a page that is served, got none of " in capsys.readouterr().err
    assert not (folder.path / "console-link").exists()


def test_an_old_link_and_an_old_login_are_worth_nothing(folder: Folder) -> None:
    with Served(folder) as served:
        served.now_s = LINK_S
        assert served.log_in().status == 403
    with Served(folder) as served:
        assert served.log_in().status == 303
        served.now_s = LIFE_S - 1
        assert served.get().status == 200
        served.now_s = LIFE_S
        assert served.get().status == 403


def test_a_log_out_ends_the_login(page: Served) -> None:
    ended = page.post("end")
    assert (ended.status, "--link prints a new link" in ended.text) == (200, True)
    assert page.get().status == 403


def test_no_route_answers_without_the_cookie(page: Served) -> None:
    value = page.cookie.partition("=")[2]
    form = urlencode({"token": page.session.form_token, "verdict": "approve", **page.study()})
    before = list(page.asked)
    for cookie in ("", "askance_owner=", "askance_owner=wrong", f"other={value}"):
        headers = {"Cookie": cookie, "Origin": f"http://{page.host}"}
        for name in READS:
            found = page.send("GET", page.session.path + name, headers=headers)
            assert (found.status, "to be tested" in found.text) == (403, False), cookie
        for name in CHANGES:
            assert page.send("POST", page.session.path + name, form, headers).status == 403, cookie
    assert page.asked == before
    assert page.get().status == 200


def test_a_cookie_that_another_server_of_the_machine_set_does_no_harm(page: Served) -> None:
    cookies = f"askance_owner=other; {page.cookie}"
    assert page.send("GET", page.session.path, headers={"Cookie": cookies}).status == 200


def test_another_host_is_not_answered(folder: Folder) -> None:
    """DNS rebinding: the browser sends the name of the site that made it point to loopback."""
    with Served(folder) as served:
        port = served.server.server_port
        hosts = (
            "attacker.example",
            f"attacker.example:{port}",
            f"127.0.0.2:{port}",
            "127.0.0.1",
            "",
        )
        for host in hosts:
            assert served.send("GET", served.session.link, headers={"Host": host}).status == 421
        assert served.log_in().status == 303  # the link was not used up
        for host in hosts:
            for name in READS:
                headers = {"Host": host, "Cookie": served.cookie}
                found = served.send("GET", served.session.path + name, headers=headers)
                assert found.status == 421, host
        assert served.asked == []


def test_a_form_of_another_site_changes_nothing(page: Served) -> None:
    own, right = f"http://{page.host}", page.session.form_token
    named = page.study()
    for token, origin in (
        ("", own),
        ("wrong", own),
        (right, "http://attacker.example"),
        (right, f"https://{page.host}"),
        (right, "http://127.0.0.1:1"),
        (right, "null"),
    ):
        headers = {"Origin": origin}
        found = page.post("decide", headers, token=token, verdict="approve", **named)
        assert (found.status, page.state()["state"]) == (403, "waiting"), (token, origin)
        assert page.post("end", headers, token=token).status == 403
    assert page.get().status == 200


def test_a_read_changes_nothing_and_a_change_is_no_read(page: Served) -> None:
    named = page.study()
    for name in READS:
        query = f"?{urlencode(named)}" if name == "study" else ""
        assert page.get(name + query).status == 200
    assert set(page.asked) <= {"policy", "studies", "history", "explain"}
    for name in CHANGES:
        query = urlencode({"token": page.session.form_token, "verdict": "approve", **named})
        assert page.get(f"{name}?{query}").status == 404
    assert page.state()["state"] == "waiting"
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        assert page.send(method, page.session.path, headers={"Cookie": page.cookie}).status == 501


def test_every_answer_forbids_scripts_foreign_content_and_storing(page: Served) -> None:
    study = f"study?{urlencode(page.study())}"
    found = [page.get(name) for name in (*READS[:-1], study, "nothing")]
    found += [page.send("GET", "/"), page.send("GET", "/style.css"), page.post("decide")]
    found += [page.send("PUT", "/")]
    for reply in found:
        assert {name: reply.headers.get(name) for name in HEADERS} == HEADERS
        text = reply.text.replace('xmlns="http://www.w3.org/2000/svg"', "")  # no address
        assert not re.search(r"<script|\sstyle=|\son\w+=|https?:|url\(|@import", text)
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert page.server.server_address[0] == "127.0.0.1"


PATHS = (
    "/../../../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "//etc/passwd",
    "{}../../etc/passwd",
    "{}..%2f..%2fidentity.json",
    "{}identity.json",
    "{}/",
    "/style.css/../identity.json",
    "http://attacker.example/",
    "{}\0",
)


def test_no_path_reaches_a_file(page: Served) -> None:
    for path in PATHS:
        with socket.create_connection(("127.0.0.1", page.server.server_port), timeout=10) as raw:
            target = path.format(page.session.path)
            lines = f"GET {target} HTTP/1.1\r\nHost: {page.host}\r\nCookie: {page.cookie}\r\n\r\n"
            raw.sendall(lines.encode("latin-1"))
            reply = raw.makefile("rb").read()
        assert reply.split(b" ", 2)[1] in (b"400", b"403", b"404"), path
        assert b"root:" not in reply
        assert b'"secret"' not in reply


def test_forms_are_bounded(page: Served) -> None:
    path, sent = f"{page.session.path}decide", {"Cookie": page.cookie}
    own = {**sent, "Origin": f"http://{page.host}"}
    form = urlencode({"token": page.session.form_token, "verdict": "none", "why": ""})
    full = form + "a" * (MAX_FORM_BYTES - len(form))
    for body, status in ((full, 400), (f"{full}a", 413)):  # 400: there is no such verdict
        found = page.send("POST", path, body, own)
        assert (found.status, "Bad request" in found.text) == (status, status == 400)
    for number, status in ((MAX_FIELDS, 403), (MAX_FIELDS + 1, 400)):  # 403: without a token
        assert page.send("POST", path, "&".join(["a=1"] * number), own).status == status
    for length, status in (("9" * 99, 413), ("-1", 411)):
        found = page.send("POST", path, "", {**sent, "Content-Length": length})
        assert found.status == status
    chunked = {**sent, "Transfer-Encoding": "chunked", "Content-Length": "0"}
    assert page.send("POST", path, "", chunked).status == 411


def test_addresses_and_headers_are_bounded(page: Served) -> None:
    path, sent = page.session.path, {"Cookie": page.cookie}
    for length, status in ((MAX_TARGET, 200), (MAX_TARGET + 1, 400), (70_000, 414)):
        target = f"{path}?a={'a' * (length - len(path) - 3)}"
        assert page.send("GET", target, headers=sent).status == status, length
    for number, status in ((_MAX_PAGE, 200), (_MAX_PAGE + 1, 400), (0, 400)):
        assert page.get(f"history?page={number}").status == status, number
    lines = {f"X-{n}": "1" for n in range(200)}
    assert page.send("GET", path, headers={**sent, **lines}).status == 431


def test_requests_that_are_never_whole_hold_up_no_other(folder: Folder) -> None:
    """Once, sixteen of them closed the page to its owner until their time was over."""
    with Served(folder, request_s=600) as served, ExitStack() as opened:
        served.log_in()
        address, half = ("127.0.0.1", served.server.server_port), list[socket.socket]()
        both = (b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc", b"GE")
        for begun in both * (2 * MAX_AT_ONCE):
            half.append(opened.enter_context(socket.create_connection(address, timeout=20)))
            half[-1].sendall(begun)
        assert served.get().status == 200
        assert threading.active_count() < 3 * MAX_AT_ONCE  # one of each, and one for its time
        assert half[0].recv(1) == b""  # the first ones gave way, the last ones wait
        half[-1].settimeout(0.2)
        with pytest.raises(TimeoutError):
            half[-1].recv(1)


def test_slow_clients_are_hung_up(folder: Folder) -> None:
    with Served(folder, request_s=1) as served, ExitStack() as opened:
        served.log_in()

        def connect() -> socket.socket:
            made = socket.create_connection(("127.0.0.1", served.server.server_port), timeout=10)
            return opened.enter_context(made)

        slow = [connect() for _ in range(MAX_AT_ONCE)]
        for number, client in enumerate(slow):
            client.sendall((b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc", b"GE")[number % 2])
        assert [client.recv(1) for client in slow] == [b""] * MAX_AT_ONCE
        for _ in range(3_000):  # their threads end a moment later
            try:
                assert served.get().status == 200
                break
            except (ConnectionError, OSError):
                time.sleep(0.02)
        else:
            pytest.fail("expected an answer after the slow clients")


def test_texts_of_an_analyst_and_of_an_owner_are_shown_as_texts(folder: Folder) -> None:
    terms = decode_study(folder.study.study)
    hostile = replace(terms, purpose=HOSTILE, learner="<b>x", parameters=(("<i>p", "<i>v"),))
    folder.is_asked(sign_study(hostile, KEY))
    folder.meet()
    with Served(folder) as served:
        served.log_in()
        named = served.study()
        assert served.post("decide", verdict="approve", why="<u>mine", **named).status == 303
        folder.meet(answer=True)
        study = served.get(f"study?{urlencode(named)}").text
        for text in (
            served.get().text,
            study,
            served.get("studies").text,
            served.get("history").text,
        ):
            assert "&quot;&gt;&lt;script&gt;alert(1)" in text
            assert not re.search("<script|<img|<b>|<i>|<u>", text)
        for part in ("&lt;u&gt;mine", "&lt;b&gt;x", "&lt;i&gt;p = &lt;i&gt;v"):
            assert part in study
        failed = served.get("history?page=%3Cscript%3E")
        assert (failed.status, "<script" in failed.text) == (400, False)
        answer = served.get("history.csv")
        assert answer.headers["Content-Disposition"] == 'attachment; filename="history.csv"'
        assert answer.headers["Content-Type"].startswith("text/csv")


def test_a_port_that_is_taken_is_named(
    page: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    port = str(page.server.server_port)
    assert main(["console", str(page.folder.path), "--port", port]) == 1
    assert f"--port: expected a free port, got {port}" in capsys.readouterr().err
    assert main(["console", str(page.folder.path), "--port", "99999"]) == 1
    assert "--port: expected a free port, got 99999" in capsys.readouterr().err
    assert main(["console", str(tmp_path / "none")]) == 1
