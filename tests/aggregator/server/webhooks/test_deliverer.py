"""Delivery of queued ends: signed, in order, tried again, and given up."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from askance_aggregator.server.webhooks.deliverer import Deliverer, Sender, delivering, wait_s
from askance_aggregator.server.webhooks.receivers import WebhookReceiver
from askance_aggregator.store import Conclusion, SqliteStore, StudyState
from askance_client.errors import InvalidParameter
from askance_client.messages import SignedStudy
from tests.aggregator.server.webhooks.receiver import (
    SECRET,
    Received,
    WebhookHandler,
    WebhookServer,
    receiving,
    status,
)
from tests.aggregator.server.webhooks.studies import REPEATED, STUDY

ONE, SERIES = b"\1" * 32, b"\2" * 32
NOW_S = 1_800_000_000
DONE = Conclusion(StudyState.DONE, "done", "", '{"users": 3}')


@pytest.fixture(scope="module")
def sender() -> Iterator[Sender]:
    made = Sender()
    yield made
    made.stop()


@pytest.fixture
def store() -> SqliteStore:
    made = SqliteStore.in_memory()
    made.add_study(ONE, SignedStudy(STUDY, b"a key", b"signed"))
    made.add_study(SERIES, SignedStudy(REPEATED, b"another key", b"signed"))
    return made


class Delivery:
    """A deliverer of a store's ends to a receiver at a path of a folder, and its tries."""

    def __init__(
        self, store: SqliteStore, server: WebhookServer, sender: Sender, folder: Path
    ) -> None:
        secret = folder / "secret"
        secret.write_text(SECRET)
        url = f"http://127.0.0.1:{server.server_port}/hook"
        receiver = WebhookReceiver("a", url, secret, timeout_s=20)
        store.webhooks.announce_to([receiver.receiving])
        self.secret = secret
        self.tries: list[bool] = []
        self._deliverer = Deliverer(
            *(store.webhooks, receiver, sender.send),
            now_s=lambda: NOW_S,
            tried=lambda _, delivered: self.tries.append(delivered),
        )

    def run(self, tries: int) -> list[bool]:
        return [self._deliverer.deliver_next() for _ in range(tries)]


def is_signed(message: Received, secret: bytes) -> bool:
    """Verify a message as the specification says, without the code under test."""
    signed = b".".join(
        (
            message.headers["webhook-id"].encode(),
            message.headers["webhook-timestamp"].encode(),
            message.body,
        )
    )
    expected = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    return f"v1,{expected}" in message.headers["webhook-signature"].split()


def test_ends_are_delivered_signed_and_in_order(
    store: SqliteStore, sender: Sender, tmp_path: Path
) -> None:
    with receiving(status(204)) as server:
        delivery = Delivery(store, server, sender, tmp_path)
        for epoch in (100, 101):
            store.conclude(SERIES, DONE, epoch)
        store.conclude(SERIES, DONE)
        assert delivery.run(4) == [True, True, True, False]
    assert delivery.tries == [True, True, True]
    kinds = [(one.content["type"], one.content["data"]["epoch"]) for one in server.received]
    assert kinds == [("epoch.done", 1), ("epoch.done", 2), ("study.done", None)]
    secret = base64.b64decode(SECRET.removeprefix("whsec_"))
    assert all(is_signed(one, secret) for one in server.received)
    assert not any(is_signed(one, b"another secret") for one in server.received)
    assert {one.headers["webhook-timestamp"] for one in server.received} == {str(NOW_S)}
    assert len({one.headers["webhook-id"] for one in server.received}) == 3


def test_a_failure_is_kept_and_tried_again_under_its_id(
    store: SqliteStore, sender: Sender, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving(status(503)) as server:
        delivery = Delivery(store, server, sender, tmp_path)
        store.conclude(ONE, DONE)
        assert delivery.run(2) == [False, False]  # the second one is not due yet
        assert delivery.tries == [False]
        (figures,) = store.webhooks.figures()
        assert (figures.pending, figures.last_error) == (1, "expected status 2xx, got 503")
        server.answer = status(200)
        store.webhooks.retry("a")
        assert delivery.run(1) == [True]
    first, second = server.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    (logged,) = [one for one in caplog.records if one.name.endswith("deliverer")]
    assert logged.__dict__["error"] == "expected status 2xx, got 503"
    assert "127.0.0.1" not in str(logged.__dict__)


def test_a_secret_that_is_gone_fails_the_try_alone(
    store: SqliteStore, sender: Sender, tmp_path: Path
) -> None:
    with receiving(status(200)) as server:
        delivery = Delivery(store, server, sender, tmp_path)
        store.conclude(ONE, DONE)
        delivery.secret.unlink()
        assert delivery.run(1) == [False]
        assert server.received == []
        (figures,) = store.webhooks.figures()
        assert figures.last_error.endswith("cannot be read: No such file or directory")
        delivery.secret.write_text(SECRET)
        store.webhooks.retry("a")
        assert delivery.run(1) == [True]


def test_a_receiver_that_hangs_is_not_waited_for(store: SqliteStore, tmp_path: Path) -> None:
    """The receiver answers only once the block of delivering has ended."""
    asked, over, waited_for = (threading.Event() for _ in range(3))

    def hang(_: WebhookHandler) -> None:
        asked.set()
        if not over.wait(30):
            waited_for.set()

    (tmp_path / "secret").write_text(SECRET)
    with receiving(hang) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        receiver = WebhookReceiver("a", url, tmp_path / "secret", timeout_s=300)
        with delivering(
            store.webhooks, [receiver], now_s=lambda: NOW_S, tried=lambda name, delivered: None
        ):
            store.conclude(ONE, DONE)
            assert asked.wait(60)
            store.conclude(SERIES, DONE, 100)  # a study ends meanwhile
        assert not waited_for.is_set()
        over.set()
    (figures,) = store.webhooks.figures()
    assert (figures.pending, figures.delivered) == (2, 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("secret", "webhook a: secret .*secret: cannot be read: No such file or directory"),
        ("ca", "webhook a: ca .*ca: cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_missing_is_found_at_the_start(
    store: SqliteStore, tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "ca").write_text("")
    (tmp_path / name).unlink()
    receiver = WebhookReceiver("a", "https://a.example/", tmp_path / "secret", ca=tmp_path / "ca")
    with (
        pytest.raises(InvalidParameter, match=message),
        delivering(
            store.webhooks, [receiver], now_s=lambda: NOW_S, tried=lambda name, delivered: None
        ),
    ):
        pass


@pytest.mark.parametrize(
    ("attempt", "longest_s", "least", "most"),
    [(1, 900, 2, 5), (2, 900, 5, 10), (3, 900, 10, 20), (99, 900, 450, 900), (1, 1, 1, 1)],
)
def test_waits_double_up_to_the_longest(
    attempt: int, longest_s: int, least: int, most: int
) -> None:
    assert wait_s(attempt, longest_s, 0.0) == least
    assert wait_s(attempt, longest_s, 1.0) == most
