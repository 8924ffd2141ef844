"""A sending process, against receivers of every kind: one line of outcome, in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from askance_aggregator.server.process.certificates import self_made
from askance_aggregator.server.webhooks.deliverer import Sender, outcome_of
from tests.aggregator.server.webhooks.receiver import Answer, WebhookHandler, receiving, status

LIMIT_S, SHORT_S = 20.0, 1.0


@pytest.fixture(scope="module")
def sender() -> Iterator[Sender]:
    made = Sender()
    yield made
    made.stop()


def sent(sender: Sender, url: str, ca: Path | None = None, timeout_s: float = LIMIT_S) -> str:
    return sender.send(url, {"webhook-id": "msg_1"}, b'{"a": 1}', ca=ca, timeout_s=timeout_s)


def hang(handler: WebhookHandler) -> None:
    time.sleep(2.5 * SHORT_S)


def close(handler: WebhookHandler) -> None:
    handler.close_connection = True


def garbage(handler: WebhookHandler) -> None:
    handler.wfile.write(b"no HTTP at all\r\n\r\n")


def drip(handler: WebhookHandler) -> None:
    """Send a byte of the head now and then: no single read is late."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(25):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.1 * SHORT_S)


def many_headers(handler: WebhookHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1_000 + b"\r\n")


def continue_for_ever(handler: WebhookHandler) -> None:
    for _ in range(25):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        handler.wfile.flush()
        time.sleep(0.1 * SHORT_S)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (status(200), ""),
        (status(204), ""),
        (status(302, location="http://127.0.0.1:1/"), "expected status 2xx, got 302"),
        (status(410), "expected status 2xx, got 410"),
        (status(500), "expected status 2xx, got 500"),
        (close, "connection: RemoteDisconnected"),
        (garbage, "answer: expected HTTP, got BadStatusLine"),
        (many_headers, "answer: expected HTTP, got HTTPException"),
        (hang, "expected an answer within 1 s, got none"),
        (drip, "expected an answer within 1 s, got none"),
        (continue_for_ever, "expected an answer within 1 s, got none"),
    ],
)
def test_an_answer_becomes_an_outcome(sender: Sender, answer: Answer, outcome: str) -> None:
    timeout_s = SHORT_S if "within" in outcome else LIMIT_S
    with receiving(answer) as server:
        url = f"http://127.0.0.1:{server.server_port}/path?a=b"
        assert sent(sender, url, timeout_s=timeout_s) == outcome
        while not server.received:  # its thread may be late
            time.sleep(0.01)
        (received,) = server.received
    assert (received.path, received.body) == ("/path?a=b", b'{"a": 1}')
    assert received.headers["webhook-id"] == "msg_1"


def test_a_redirection_is_not_followed(sender: Sender) -> None:
    with receiving(status(200)) as other:
        there = f"http://127.0.0.1:{other.server_port}/"
        with receiving(status(307, location=there)) as server:
            outcome = sent(sender, f"http://127.0.0.1:{server.server_port}/")
        assert outcome == "expected status 2xx, got 307"
        assert other.received == []


def test_a_port_where_no_receiver_listens(sender: Sender) -> None:
    with receiving(status(200)) as server:
        port = server.server_port
    assert sent(sender, f"http://127.0.0.1:{port}/") == "connection: Connection refused"


def test_a_certificate_is_checked(sender: Sender, tmp_path: Path) -> None:
    authority, pair = self_made(["127.0.0.1"], int(time.time()))
    for name, content in (
        ("ca.pem", authority.certificate),
        ("server.pem", pair.certificate),
        ("server.key", pair.key),
    ):
        (tmp_path / name).write_bytes(content)
    files = (str(tmp_path / "server.pem"), str(tmp_path / "server.key"))
    with receiving(status(200), files) as server:
        url = f"https://127.0.0.1:{server.server_port}/"
        assert sent(sender, url, tmp_path / "ca.pem") == ""
        unknown = sent(sender, url)
        assert unknown.startswith("certificate: ")
        assert len(server.received) == 1


def test_a_sender_that_died_is_started_again() -> None:
    sender = Sender()
    try:
        with receiving(status(200)) as server:
            url = f"http://127.0.0.1:{server.server_port}/"
            assert sent(sender, url) == ""
            assert sender._process is not None
            sender._process.kill()
            sender._process.wait()
            assert sent(sender, url) == ""
    finally:
        sender.stop()
    assert sent(sender, url) == "the sending process was not started"


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (b'{"error": ""}\n', ""),
        (b'{"error": "no"}\n', "no"),
        (b"", None),
        (b'{"error": 3}\n', None),
        (b"[]\n", None),
        (b'{"err', None),
        (b'{"error": "\\u001b[31m"}\n', "\\x1b[31m"),
    ],
)
def test_a_line_is_an_outcome_or_none(line: bytes, outcome: str | None) -> None:
    assert outcome_of(line) == outcome
