"""HTTP/1.1 of the outer process: one call per connection; each bad request has its own answer."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import grpc
import pytest

from askance_aggregator.server.process.certificates import Certified
from tests.aggregator.server.outer.conftest import Outer, everything, running

ENROL = b"POST /askance.v1.Devices/Enrol HTTP/1.1\r\nHost: localhost\r\n"


def request(body: bytes, *headers: bytes) -> bytes:
    """A request to enrol."""
    lines = b"".join(header + b"\r\n" for header in headers)
    return ENROL + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body


def status(answer: bytes) -> int:
    """The status of an answer."""
    return int(answer.split(b" ")[1])


@pytest.fixture(scope="module")
def shared(certified: tuple[Certified, Certified]) -> Iterator[Outer]:
    """An outer process for all requests that must leave nothing behind."""
    with running(certified) as one:
        yield one


def test_a_message_and_its_credentials_pass_and_the_answer_comes_back(outer: Outer) -> None:
    """The aggregator is told the caller's address; what the caller says of it is dropped."""
    secret = base64.b64encode(bytes(range(200, 232)))
    answer = outer.sent(
        request(
            b"who",
            b"Askance-Protocol: 1",
            b"askance-enrolment-bin: " + secret,
            b"X-Forwarded-For: 192.0.2.9",
            b"Cookie: no",
        ),
        source="127.0.0.5",
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"HTTP/1.1 200 OK"
    assert b"Content-Length: 13" in head
    assert b"Connection: close" in head
    assert body == b"answer to who"
    ((method, metadata, message),) = outer.inner.calls
    assert (method, message) == ("/askance.v1.Devices/Enrol", b"who")
    assert metadata["askance-protocol"] == "1"
    assert metadata["askance-enrolment-bin"] == bytes(range(200, 232))
    assert metadata["x-forwarded-for"] == "127.0.0.5"
    assert "cookie" not in metadata


def test_a_refusal_is_a_status_and_one_line_with_the_wait(outer: Outer) -> None:
    outer.inner.refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, "too\nmany")
    answer = outer.sent(request(b""))
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"\r\naskance-retry-after-ms: 700\r\n" in answer
    assert answer.endswith(b"\r\n\r\nRESOURCE_EXHAUSTED: too many")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (ENROL.replace(b"POST", b"GET") + b"\r\n", 405),
        (ENROL.replace(b"Enrol", b"CheckIn") + b"\r\n", 404),
        (ENROL.replace(b"HTTP/1.1", b"HTTP/2.0") + b"\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"\0\0\0\r\n\r\n", 400),
        (ENROL + b"no colon\r\nContent-Length: 0\r\n\r\n", 400),
        (ENROL + b"a b: c\nd\r\nContent-Length: 0\r\n\r\n", 400),
        (ENROL + b" folded: yes\r\nContent-Length: 0\r\n\r\n", 400),
        (ENROL + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (ENROL + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (ENROL + b"\r\n", 411),
        (ENROL + b"Content-Length: -1\r\n\r\n", 400),
        (ENROL + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (ENROL + b"Content-Length: 65537\r\n\r\n", 413),
        (ENROL + b"Content-Length: 0\r\n" + b"a: b\r\n" * 64 + b"\r\n", 431),
        (ENROL + b"a: " + b"b" * 16_384 + b"\r\n\r\n", 431),
        (ENROL + b"a: " + b"b" * 50_000, 431),
        (ENROL + b"askance-token-bin: ???\r\nContent-Length: 0\r\n\r\n", 400),
        (ENROL + b"askance-a: 1\r\naskance-a: 1\r\nContent-Length: 0\r\n\r\n", 400),
        *(
            (ENROL + b"askance-" + name + b": 1\r\nContent-Length: 0\r\n\r\n", 400)
            for name in (b"x y", b"\xe9", b"\rx", b"x/y", b"x\x7f", b"\xe9-bin")
        ),
    ],
)
def test_a_request_that_is_none_has_a_defined_answer(
    shared: Outer, sent: bytes, expected: int
) -> None:
    shared.inner.calls.clear()
    before = shared.process.pid
    answer = shared.sent(sent)
    assert status(answer) == expected, answer
    assert answer.count(b"\r\n\r\n") == 1
    assert not shared.inner.calls
    assert shared.process.pid == before


def test_limits_hold_at_their_values(outer: Outer) -> None:
    """A body of 65,536 bytes passes, and a head of 16 kB."""
    assert status(outer.sent(request(bytes(65_536)))) == 200
    filled = request(b"", b"a: " + b"b" * (16_384 - len(request(b"", b"a: "))))
    assert len(filled) == 16_384
    assert status(outer.sent(filled)) == 200
    longer = request(b"", b"a: " + b"b" * (16_385 - len(request(b"", b"a: "))))
    assert status(outer.sent(longer)) == 431


def test_a_slow_sender_is_answered_and_hung_up_on(impatient: Outer) -> None:
    """A head without an end, and a body that stops: both wait for two seconds here."""
    for part in (ENROL, ENROL + b"Content-Length: 10\r\n\r\nhalf"):
        answer = impatient.sent(part)
        assert status(answer) == 408
        assert b"DEADLINE_EXCEEDED: request: expected it whole within 2 s" in answer
    assert not impatient.inner.calls


def test_what_follows_a_request_is_not_answered(outer: Outer) -> None:
    """Pipelined requests: the first one is served, and the connection ends."""
    answer = outer.sent(request(b"one") + request(b"two"))
    assert answer.count(b"HTTP/1.1 200") == 1
    assert [data for _, _, data in outer.inner.calls] == [b"one"]


def test_an_aggregator_that_is_away_is_said(outer: Outer) -> None:
    outer.inner.path.unlink()
    outer.inner.refusal = (grpc.StatusCode.UNAVAILABLE, "it is going down")
    assert outer.sent(request(b"")).startswith(b"HTTP/1.1 503 ")


def test_a_caller_that_leaves_in_the_middle_leaves_nothing(outer: Outer) -> None:
    with outer.connected() as connection:
        connection.sendall(ENROL)
    with outer.connected() as connection:
        connection.sendall(request(b"still served"))
        assert b"still served" in everything(connection)
