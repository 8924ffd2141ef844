"""Check-ins by Connect: who is let in, which requests are none, and what a page may read."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from askance_aggregator.server.outer.connect_calls import KnownCredentials, RefusedAddresses
from askance_aggregator.server.process.certificates import Certified
from tests.aggregator.server.outer.conftest import PATIENCE_S, Outer, everything, running

PAGE = "https://ask.example.org"
CHECK_IN, ENROL = "/askance.v1.Devices/CheckIn", "/askance.v1.Devices/Enrol"
USUAL = {
    "Content-Type": "application/proto",
    "Connect-Protocol-Version": "1",
    "askance-protocol": "1",
    "askance-device-bin": "q6s",  # ab ab, without padding
    "askance-token-bin": "zc3NzQ==",  # cd cd cd cd
}
Answer = tuple[int, dict[str, str], bytes]


def called(
    outer: Outer,
    body: bytes = b"",
    path: str = CHECK_IN,
    method: str = "POST",
    source: str = "127.0.0.1",
    offered: tuple[str, ...] = ("h2", "http/1.1"),  # as browsers do
    **changed: str | None,
) -> Answer:
    """Call by Python's own client; a changed header has _ for -, and None leaves it out."""
    headers = USUAL | {
        name.replace("_", "-"): value for name, value in changed.items() if value is not None
    }
    for name in changed:
        if changed[name] is None:
            headers = {k: v for k, v in headers.items() if k.lower() != name.replace("_", "-")}
    connection = http.client.HTTPSConnection(
        "localhost",
        outer.port,
        timeout=PATIENCE_S,
        source_address=(source, 0),
        context=outer.tls(*offered),
    )
    try:
        connection.request(method, path, body, {k: str(v) for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def error(answer: Answer) -> tuple[int, str]:
    """Status and code of an error."""
    status, headers, body = answer
    assert headers["content-type"] == "application/json", body
    found = json.loads(body)
    assert set(found) == {"code", "message"}
    assert found["message"]
    return status, found["code"]


@pytest.fixture(scope="module")
def connect(certified: tuple[Certified, Certified]) -> Iterator[Outer]:
    """An outer process that takes check-ins of one page's origin."""
    with running(certified, connect=True, origins=(PAGE,), trusted=("127.0.0.9/32",)) as one:
        yield one


@pytest.fixture
def shared(connect: Outer) -> Outer:
    """The process, with a clean note of what reaches the aggregator."""
    connect.inner.refusal = None
    connect.inner.calls.clear()
    connect.inner.looked_up.clear()
    return connect


def test_a_check_in_passes_with_its_credentials_and_its_real_address(shared: Outer) -> None:
    status, headers, body = called(
        shared,
        b"\xff\0",
        source="127.0.0.5",
        X_Forwarded_For="192.0.2.9",
        Cookie="no",
        askance_other="no",
        x_connect="no",
    )
    assert (status, body) == (200, b"answer to \xff\0")
    assert headers["content-type"] == "application/proto"
    assert headers["content-length"] == "12"
    assert "access-control-allow-origin" not in headers
    ((method, metadata, message),) = shared.inner.calls
    assert (method, message) == (CHECK_IN, b"\xff\0")
    assert metadata["askance-device-bin"] == b"\xab\xab"
    assert metadata["askance-token-bin"] == b"\xcd\xcd\xcd\xcd"
    assert metadata["x-forwarded-for"] == "127.0.0.5"
    assert metadata["x-connect"] == "1"
    assert not {"cookie", "askance-other"} & metadata.keys()


def test_a_caller_that_is_not_known_gives_its_credentials_and_no_byte_of_a_body(
    shared: Outer,
) -> None:
    """The answer comes while the caller still holds its body back."""
    shared.inner.refusal = (grpc.StatusCode.UNAUTHENTICATED, "no such device")
    head = f"POST {CHECK_IN} HTTP/1.1\r\nContent-Length: 100000\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in USUAL.items()
    )
    with shared.connected() as connection:
        connection.sendall(head.encode() + b"\r\n" + b"secret" * 100)
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b'{"code": "unauthenticated", "message": "no such device"}' in answer
    assert not shared.inner.calls
    (credentials,) = shared.inner.looked_up
    assert {key for key in credentials if not key.startswith("grpc-")} <= {
        *("askance-protocol", "askance-device-bin", "askance-token-bin"),
        *("x-forwarded-for", "x-connect", "user-agent"),
    }


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"method": "GET"}, (405, "unimplemented")),
        ({"method": "PUT"}, (405, "unimplemented")),
        ({"Content_Type": "application/json"}, (415, "invalid_argument")),
        ({"content_type": None}, (415, "invalid_argument")),
        ({"Connect_Protocol_Version": "2"}, (400, "invalid_argument")),
        ({"connect_protocol_version": None}, (400, "invalid_argument")),
        ({"Content_Encoding": "gzip"}, (501, "unimplemented")),
        ({"Connect_Timeout_Ms": "-1"}, (400, "invalid_argument")),
        ({"Connect_Timeout_Ms": "12345678901"}, (400, "invalid_argument")),
        ({"Connect_Timeout_Ms": "\u0663".encode().decode("latin-1")}, (400, "invalid_argument")),
        ({"Transfer_Encoding": "chunked"}, (411, "invalid_argument")),
        ({"body": bytes(131_073)}, (413, "resource_exhausted")),
        ({"body": bytes(65_537), "path": ENROL}, (413, "resource_exhausted")),
        ({"askance_device_bin": "???"}, (400, "invalid_argument")),
        ({"askance_device_bin": "A" * 88}, (400, "invalid_argument")),  # 66 bytes
        ({"askance_token_bin": "A" * 88}, (400, "invalid_argument")),
        ({"askance_software": "x" * 49}, (400, "invalid_argument")),
        ({"Origin": "https://evil.example"}, (403, "permission_denied")),
        ({"Origin": "null"}, (403, "permission_denied")),
        ({"Origin": PAGE + ".evil.example"}, (403, "permission_denied")),
        ({"method": "OPTIONS", "Origin": "https://evil.example"}, (403, "permission_denied")),
    ],
)
def test_a_request_that_is_none_is_refused_by_its_head(
    shared: Outer, changed: dict[str, Any], expected: tuple[int, str]
) -> None:
    answer = called(shared, **changed)
    assert error(answer) == expected
    assert "access-control-allow-origin" not in answer[1]
    assert not shared.inner.looked_up


@pytest.mark.parametrize("path", ["/askance.v1.Devices/Participate", "/", "/x"])
def test_there_is_nothing_else(shared: Outer, path: str) -> None:
    assert called(shared, path=path)[0] == 404
    assert not shared.inner.looked_up


def test_bodies_of_the_most_bytes_pass(shared: Outer) -> None:
    assert called(shared, bytes(131_072))[0] == 200
    assert called(shared, bytes(65_536), ENROL)[0] == 200
    assert [len(data) for _, _, data in shared.inner.calls] == [131_072, 65_536]


CODES = [  # by hand, from Connect's table of codes
    (grpc.StatusCode.CANCELLED, 500, "canceled"),
    (grpc.StatusCode.UNKNOWN, 500, "unknown"),
    (grpc.StatusCode.INVALID_ARGUMENT, 400, "invalid_argument"),
    (grpc.StatusCode.DEADLINE_EXCEEDED, 504, "deadline_exceeded"),
    (grpc.StatusCode.NOT_FOUND, 404, "not_found"),
    (grpc.StatusCode.ALREADY_EXISTS, 409, "already_exists"),
    (grpc.StatusCode.PERMISSION_DENIED, 403, "permission_denied"),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, 429, "resource_exhausted"),
    (grpc.StatusCode.FAILED_PRECONDITION, 400, "failed_precondition"),
    (grpc.StatusCode.ABORTED, 409, "aborted"),
    (grpc.StatusCode.OUT_OF_RANGE, 400, "out_of_range"),
    (grpc.StatusCode.UNIMPLEMENTED, 501, "unimplemented"),
    (grpc.StatusCode.INTERNAL, 500, "internal"),
    (grpc.StatusCode.UNAVAILABLE, 503, "unavailable"),
    (grpc.StatusCode.DATA_LOSS, 500, "data_loss"),
    (grpc.StatusCode.UNAUTHENTICATED, 401, "unauthenticated"),
]


def test_each_status_has_connects_code_and_the_wait(shared: Outer) -> None:
    for status, number, code in CODES:
        shared.inner.refusal = (status, "why\nnot")
        answer = called(shared, Origin=PAGE)
        assert error(answer) == (number, code)
        assert json.loads(answer[2])["message"] == "why not"
        assert answer[1]["trailer-askance-retry-after-ms"] == "700"


def test_a_listed_page_is_permitted_and_reads_every_answer(shared: Outer) -> None:
    status, headers, body = called(shared, method="OPTIONS", Origin=PAGE)
    assert (status, body) == (204, b"")
    assert headers["access-control-allow-origin"] == PAGE
    assert headers["access-control-allow-methods"] == "POST"
    assert headers["access-control-max-age"] == "7200"
    assert headers["vary"] == "Origin"
    assert not {"content-length", "content-type"} & headers.keys()
    assert "access-control-allow-credentials" not in headers
    allowed = set(headers["access-control-allow-headers"].split(", "))
    assert allowed == {
        *("content-type", "connect-protocol-version", "connect-timeout-ms"),
        *("askance-protocol", "askance-software", "askance-device-bin", "askance-token-bin"),
        "askance-enrolment-bin",
    }
    for answer in (called(shared, Origin=PAGE), called(shared, Origin=PAGE, askance_token_bin="?")):
        assert answer[1]["access-control-allow-origin"] == PAGE
        assert answer[1]["access-control-expose-headers"] == "trailer-askance-retry-after-ms"
    assert not any(data for _, _, data in shared.inner.calls)


def test_a_page_enrols_and_a_device_with_grpc_does_as_before(shared: Outer) -> None:
    """The older form of the same call has a line of text; both are told apart by their heads."""
    shared.inner.refusal = (grpc.StatusCode.PERMISSION_DENIED, "not this one")
    token: dict[str, Any] = {"askance_enrolment_bin": "qrvM", "source": "127.0.0.31"}
    assert error(called(shared, b"x", ENROL, **token)) == (403, "permission_denied")
    assert shared.inner.looked_up[0]["askance-enrolment-bin"] == b"\xaa\xbb\xcc"
    assert "askance-device-bin" not in shared.inner.looked_up[0]  # it is no call of a device's
    older: dict[str, Any] = {"content_type": None, "connect_protocol_version": None}
    status, headers, body = called(shared, b"x", ENROL, **older)
    assert (status, body) == (403, b"PERMISSION_DENIED: not this one")
    assert headers["content-type"] == "text/plain; charset=utf-8"


def test_a_caller_waits_no_longer_than_it_says(shared: Outer) -> None:
    shared.inner.busy.begin()
    try:
        answer = called(shared, b"x", Connect_Timeout_Ms="200")
    finally:
        shared.inner.busy.end()
    assert error(answer) == (504, "deadline_exceeded")


def test_a_body_that_stops_ends_its_call(certified: tuple[Certified, Certified]) -> None:
    """The aggregator knows the caller, and waits for a second here."""
    with running(certified, connect=True, handshake_s=1.0) as outer:
        head = f"POST {CHECK_IN} HTTP/1.1\r\nContent-Length: 9\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in USUAL.items()
        )
        answer = outer.sent(head.encode() + b"\r\nhalf")
        assert answer.startswith(b"HTTP/1.1 504 ")
        assert b"expected its body within 1 s" in answer
        assert len(outer.inner.looked_up) == 1
        assert not outer.inner.calls
        assert outer.sent(head.encode()).startswith(b"HTTP/1.1 408 ")  # a head without an end
        assert called(outer, b"still served")[2] == b"answer to still served"


def test_an_address_that_is_refused_often_is_not_looked_up(shared: Outer) -> None:
    """Others are; so are a proxy's callers, each by its own address."""
    shared.inner.refusal = (grpc.StatusCode.UNAUTHENTICATED, "no")
    for _ in range(30):
        assert error(called(shared, source="127.0.0.41")) == (401, "unauthenticated")
    shared.inner.refusal = None
    answer = called(shared, source="127.0.0.41", Origin=PAGE)
    assert error(answer) == (429, "resource_exhausted")
    assert 0 < int(answer[1]["trailer-askance-retry-after-ms"]) <= 60_001
    assert answer[1]["access-control-allow-origin"] == PAGE
    assert len(shared.inner.looked_up) == 30
    assert called(shared, source="127.0.0.42")[0] == 200
    proxied: dict[str, Any] = {"source": "127.0.0.9", "askance_device_bin": "EEEE"}
    proxied["X_Forwarded_For"] = "127.0.0.41"
    assert called(shared, **proxied)[0] == 429
    assert called(shared, **proxied | {"X_Forwarded_For": "127.0.0.43"})[0] == 200


def test_who_does_not_wait_for_the_look_up_is_counted_too(shared: Outer) -> None:
    own: dict[str, Any] = {"source": "127.0.0.51", "askance_device_bin": "AAAA"}
    shared.inner.searching.begin()
    try:
        for _ in range(30):
            answer = called(shared, **own, Connect_Timeout_Ms="0")  # a millisecond
            assert error(answer) == (504, "deadline_exceeded")
    finally:
        shared.inner.searching.end()
    assert error(called(shared, **own)) == (429, "resource_exhausted")


def test_a_known_device_answers_for_no_neighbour(shared: Outer) -> None:
    """An office has one address. A page there is refused all day, a colleague's is not."""
    office: dict[str, Any] = {"source": "127.0.0.61"}
    colleague = office | {"askance_device_bin": "BBBB"}
    assert called(shared, **colleague)[0] == 200
    shared.inner.refusal = (grpc.StatusCode.UNAUTHENTICATED, "no")
    for number in range(30):
        page = office | {"askance_device_bin": f"AA{number:02}"}
        assert error(called(shared, **page)) == (401, "unauthenticated")
    shared.inner.refusal = None
    for software in ("askance 1", "askance 2"):  # an update is no other device
        assert called(shared, **colleague, askance_software=software)[0] == 200
    newcomer = office | {"askance_device_bin": "CCCC"}
    assert error(called(shared, **newcomer)) == (429, "resource_exhausted")
    other_token = colleague | {"askance_token_bin": "AAAA"}
    assert error(called(shared, **other_token)) == (429, "resource_exhausted")
    token: dict[str, Any] = {"path": ENROL, "askance_enrolment_bin": "qrvM"}
    assert called(shared, b"x", **office, **token)[0] == 200  # another kind of call


def test_a_device_that_was_revoked_is_known_no_more(shared: Outer) -> None:
    own: dict[str, Any] = {"source": "127.0.0.71", "askance_device_bin": "DDDD"}
    assert called(shared, **own)[0] == 200
    shared.inner.refusal = (grpc.StatusCode.PERMISSION_DENIED, "revoked")
    for _ in range(30):
        assert error(called(shared, **own)) == (403, "permission_denied")
    assert error(called(shared, **own)) == (429, "resource_exhausted")


def test_a_device_that_was_revoked_is_counted_though_it_never_waits(shared: Outer) -> None:
    """A known caller that gives up before it can be told is counted; one that waits stays known."""
    own: dict[str, Any] = {"source": "127.0.0.72", "askance_device_bin": "DDDE"}
    patient: dict[str, Any] = {"source": "127.0.0.73", "askance_device_bin": "DDDF"}
    for known in (own, patient):
        assert called(shared, **known)[0] == 200
    shared.inner.searching.begin()
    try:
        for _ in range(30):
            assert called(shared, **own, Connect_Timeout_Ms="1")[0] == 504
    finally:
        shared.inner.searching.end()
    assert error(called(shared, **own)) == (429, "resource_exhausted")
    assert called(shared, **patient | {"source": "127.0.0.72"})[0] == 200


def test_a_flood_of_new_credentials_costs_thirty_look_ups_per_kind(shared: Outer) -> None:
    shared.inner.refusal = (grpc.StatusCode.UNAUTHENTICATED, "no")
    for kind in ({}, {"path": ENROL}):
        shared.inner.looked_up.clear()
        flood: dict[str, Any] = kind | {"source": "127.0.0.81"}
        statuses = [
            called(shared, **flood, askance_token_bin=f"AAA{number:03}A")[0] for number in range(80)
        ]
        assert statuses == [401] * 30 + [429] * 50
        assert len(shared.inner.looked_up) == 30


def test_known_credentials_are_the_latest_and_bounded() -> None:
    known = KnownCredentials(bytes(16), most=3)
    device = (("askance-device-bin", b"a"), ("askance-token-bin", b"bc"))
    first = known.digest(CHECK_IN, device)
    assert known.digest(CHECK_IN, (*device[::-1], ("askance-software", "x"))) == first
    moved = (("askance-device-bin", b"ab"), ("askance-token-bin", b"c"))
    token = known.digest(ENROL, (("askance-enrolment-bin", b"t"),))
    assert known.digest(ENROL, (("askance-enrolment-bin", b" t\n"),)) == token  # one of many ways
    spaced = known.digest(CHECK_IN, (device[0], ("askance-token-bin", b"bc ")))
    assert spaced != first
    others = [known.digest(CHECK_IN, moved), known.digest(ENROL, device), b"z"]
    others.append(KnownCredentials(bytes(15) + b"1").digest(CHECK_IN, device))
    assert first not in others
    for digest in (first, others[0], others[1], first, b"z"):
        known.note(digest)
    assert [digest in known for digest in (first, others[0], others[1], b"z")] == [
        *(True, False, True, True)
    ]
    known.forget(first)
    known.forget(first)
    assert first not in known
    assert len(known) == 2


def test_refusals_are_forgotten_after_a_minute_and_addresses_when_they_are_many() -> None:
    now_s = 0.0
    refused = RefusedAddresses(lambda: now_s)
    for _ in range(29):
        refused.note("a")
    assert refused.left_s("a") == 0
    now_s = 50.0
    refused.note("a")
    assert refused.left_s("a") == 10
    now_s = 60.0
    assert refused.left_s("a") == 0
    refused.note("a")
    assert refused.left_s("a") == 0
    for _ in range(100):
        refused.note("")
    assert refused.left_s("") == 0
    for number in range(4_096):
        for _ in range(30):
            refused.note(str(number))
    assert refused.left_s("4095") == 60
    assert len(refused._refusals) == 4_096


def test_grpc_goes_on_beside_it(shared: Outer) -> None:
    """A browser offers both protocols and gets HTTP/1.1; gRPC offers HTTP/2 alone."""
    with shared.connected("h2", "http/1.1") as browser:
        assert browser.selected_alpn_protocol() == "http/1.1"
    with shared.channel() as channel:
        call: Any = channel.unary_unary("/askance.v1.Analysts/Submit")
        own = (("x-connect", "1"), ("askance-call-bin", b"x"))  # the first is not a caller's to say
        assert call(b"it", timeout=PATIENCE_S, metadata=own) == b"answer to it"
    ((_, metadata, _),) = shared.inner.calls
    assert metadata["askance-call-bin"] == b"x"
    assert "x-connect" not in metadata


def test_it_is_off_unless_an_operator_turns_it_on(outer: Outer) -> None:
    older = ("http/1.1",)
    assert called(outer, offered=older, Origin=PAGE)[0] == 404
    assert called(outer, offered=older, method="OPTIONS", Origin=PAGE)[0] == 404
    status, headers, _ = called(outer, b"x", ENROL, "OPTIONS", offered=older, Origin=PAGE)
    assert status == 405
    assert "access-control-allow-origin" not in headers
    with outer.connected("h2", "http/1.1") as browser:
        assert browser.selected_alpn_protocol() == "h2"
    assert not outer.inner.looked_up


def test_an_aggregator_that_is_away_is_said(certified: tuple[Certified, Certified]) -> None:
    with running(certified, connect=True) as outer:
        outer.inner.refusal = (grpc.StatusCode.UNAVAILABLE, "it is going down")
        assert error(called(outer)) == (503, "unavailable")
