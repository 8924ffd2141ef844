"""`askance aggregator webhook`: a receiver is tried; its queue shown, retried and removed."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import Conclusion, Receiving, SqliteStore, StudyState
from askance_client.messages import SignedStudy
from tests.aggregator.server.process.conftest import made, ran
from tests.aggregator.server.webhooks.receiver import SECRET, receiving, status
from tests.aggregator.server.webhooks.studies import STUDY


@pytest.fixture
def home(tmp_path: Path) -> AggregatorHome:
    """An aggregator with a webhook, and the end of a study that it has not taken."""
    home = made(tmp_path / "aggregator")
    (home.folder / "secret").write_text(SECRET)
    configured(home, "http://127.0.0.1:1/")
    with closing(SqliteStore.open(home.folder / "store.sqlite")) as store:
        store.webhooks.announce_to([Receiving("warehouse"), Receiving("gone")])
        store.add_study(bytes(32), SignedStudy(STUDY, b"a key", b"signed"))
        store.conclude(bytes(32), Conclusion(StudyState.FAILED, "plan-refused", "too few", ""))
        claim = store.webhooks.claim("warehouse", 60)
        assert claim is not None
        assert store.webhooks.failed(claim, "expected status 2xx, got 500", 1, 0)
    return home


def configured(home: AggregatorHome, url: str) -> None:
    text = home.configuration.read_text().partition("[[webhooks]]\nname")[0]
    rows = f'[[webhooks]]\nname = "warehouse"\nurl = "{url}"\nsecret = "secret"\n'
    home.configuration.write_text(text + rows)


def webhook(home: AggregatorHome, *words: str) -> Any:
    done = ran("aggregator", "webhook", *words, "--config", home.configuration, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def row(receiver: str, pending: int, failed: int, configured: bool, error: str) -> dict[str, Any]:
    return {
        "receiver": receiver,
        "pending": pending,
        "failed": failed,
        "delivered": 0,
        "last_error": error,
        "configured": configured,
    }


def listed(home: AggregatorHome) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = webhook(home, "list")["webhooks"]
    for one in rows:
        assert 0 <= one.pop("oldest_pending_s") < 60
    return rows


def test_what_was_given_up_is_listed_sent_again_and_removed(home: AggregatorHome) -> None:
    error = "expected status 2xx, got 500"
    gone = row("gone", 1, 0, False, "")
    assert listed(home) == [gone, row("warehouse", 0, 1, True, error)]
    assert webhook(home, "retry", "warehouse") == {"receiver": "warehouse", "ends": 1}
    assert listed(home) == [gone, row("warehouse", 1, 0, True, error)]
    assert webhook(home, "forget", "gone") == {"receiver": "gone", "ends": 1}
    assert listed(home) == [row("warehouse", 1, 0, True, error)]
    text = ran("aggregator", "webhook", "list", "--config", home.configuration).stdout
    assert text.split("\n")[1].startswith("warehouse  1        0       0          ")
    assert text.rstrip().endswith(error)
    with closing(SqliteStore.open(home.folder / "store.sqlite")) as store:
        lines = [json.loads(one.line) for one in store.audit.entries(0, 10)]
    assert "webhook retry" in json.dumps(lines)


def test_a_receiver_is_tried(home: AggregatorHome) -> None:
    with receiving(status(200)) as server:
        configured(home, f"http://127.0.0.1:{server.server_port}/")
        assert webhook(home, "test", "warehouse") == {"receiver": "warehouse", "delivered": True}
        server.answer = status(401)
        refused = ran("aggregator", "webhook", "test", "warehouse", "--config", home.configuration)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "warehouse: expected status 2xx, got 401" in refused.stderr
    assert [one.content["type"] for one in server.received] == ["webhook.test"] * 2
    assert all("v1," in one.headers["webhook-signature"] for one in server.received)


@pytest.mark.parametrize("word", ["test", "retry", "forget"])
def test_an_unknown_receiver_is_refused(home: AggregatorHome, word: str) -> None:
    done = ran("aggregator", "webhook", word, "other", "--config", home.configuration)
    assert done.returncode == 2
    assert "got 'other'" in done.stderr
    assert "warehouse" in done.stderr
