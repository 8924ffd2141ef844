"""Messages of webhooks: signatures by the specification's example, bodies by hand."""

from __future__ import annotations

import json

import pytest

from askance_aggregator.server.webhooks.messages import body_of, headers_of, signature
from askance_aggregator.server.webhooks.receivers import secrets_of
from askance_aggregator.store import StudyState, WebhookClaim
from askance_aggregator.urls import check_url
from askance_client.errors import InvalidParameter
from tests.aggregator.server.webhooks.receiver import SECRET
from tests.aggregator.server.webhooks.studies import REPEATED, STUDY


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of Standard Webhooks' reference libraries."""
    (secret,) = secrets_of(SECRET.encode())
    assert signature(
        secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    ) == ("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")


def test_each_secret_signs() -> None:
    secrets = secrets_of(f"{SECRET}\nwhsec_{'A' * 32}\n".encode())
    headers = headers_of("msg_1", 7, b"{}", secrets)
    assert headers["webhook-id"] == "msg_1"
    assert headers["webhook-timestamp"] == "7"
    assert headers["webhook-signature"].split() == [
        signature(secret, "msg_1", 7, b"{}") for secret in secrets
    ]
    assert len(set(headers["webhook-signature"].split())) == 2


def claim(study: bytes, result: str, epoch: int = 0) -> WebhookClaim:
    return WebhookClaim(
        *("a", 1, epoch, 1, "msg_1", bytes(32), b"\1" * 32, study, 1_700_000_000),
        *(StudyState.DONE, "done", "", result),
    )


def test_a_body_has_what_the_analyst_reads() -> None:
    assert json.loads(body_of(claim(STUDY, '{"study": "00", "fields": ["a"], "users": 3}'))) == {
        "type": "study.done",
        "timestamp": "2023-11-14T22:13:20Z",
        "data": {
            "study": "00" * 32,
            "title": "Schooling of users.",
            "analyst": "01" * 32,
            "learner": "mean",
            "state": "done",
            "reason": "done",
            "message": "",
            "epoch": None,
            "epochs": None,
            "result": {"study": "00", "fields": ["a"], "users": 3},
            "result_left_out": None,
        },
    }


@pytest.mark.parametrize(
    ("study", "epoch", "result", "kind", "numbers", "left_out"),
    [
        (REPEATED, 101, "{}", "epoch.done", (2, 3), None),
        (REPEATED, 0, "{}", "study.done", (None, 3), None),
        (STUDY, 0, "", "study.done", (None, None), "deleted"),
        (STUDY, 0, json.dumps({"a": "b" * (1 << 20)}), "study.done", (None, None), "too-long"),
    ],
)
def test_kinds_of_bodies(
    study: bytes,
    epoch: int,
    result: str,
    kind: str,
    numbers: tuple[int | None, int | None],
    left_out: str | None,
) -> None:
    found = json.loads(body_of(claim(study, result, epoch)))
    data = found["data"]
    assert (found["type"], (data["epoch"], data["epochs"])) == (kind, numbers)
    assert data["result_left_out"] == left_out
    assert (data["result"] is None) == (left_out is not None)


@pytest.mark.parametrize(
    "text",
    [
        "https://hooks.example.org/path?key=value",
        "https://hooks.example.org:8443",
        "http://127.0.0.1:8080/",
        "http://localhost/hook",
        "http://[::1]:8080/",
    ],
)
def test_an_address_that_is_taken(text: str) -> None:
    assert check_url(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "http://hooks.example.org/",
        "http://10.0.0.7/",
        "http://127.0.0.1.example.org/",
        "ftp://hooks.example.org/",
        "file:///etc/passwd",
        "https://",
        "https://user:secret@hooks.example.org/",
        "https://hooks.example.org/#part",
        "https://hooks.example.org/a b",
        "https://hooks.example.org/\r\nx: y",
        "https://hooks.example.org:99999/",
        "https://hooks.example.org:0/",
        "hooks.example.org",
        "",
    ],
)
def test_an_address_that_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"^expected https://HOST/PATH") as refused:
        check_url(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
        "whsec_AAAA",
        f"whsec_{'A' * 88}",
        "whsec_!!!!9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        f"{SECRET}\nzzzzzz",
    ],
)
def test_a_secret_that_is_refused_is_not_shown(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"^expected whsec_") as refused:
        secrets_of(text.encode())
    assert not text or text.splitlines()[-1] not in str(refused.value)
