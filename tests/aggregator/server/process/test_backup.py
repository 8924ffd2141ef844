"""Backups by the commands: of an aggregator that runs, and of one that does not."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.process.configuration import read_configuration
from askance_aggregator.server.process.control import back_up
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import SqliteLocation
from askance_client.errors import StoreError
from tests.aggregator.server.process.conftest import Served, made, ran, serving
from tests.aggregator.server.process.people import People


@pytest.fixture
def fresh() -> Iterator[AggregatorHome]:
    """A folder with a short path: that of the socket in it has at most 100 bytes."""
    with tempfile.TemporaryDirectory(prefix="askance-") as folder:
        yield made(Path(folder) / "aggregator", now_s=system_now_s())


def never(_: float) -> None:
    raise AssertionError("expected no wait without a running aggregator")


def test_a_running_aggregator_is_backed_up_and_restored(
    fresh: AggregatorHome, tmp_path: Path
) -> None:
    location = read_configuration(fresh.configuration).store
    people = People(fresh.analyst, 3)
    with closing(location.open()) as store:
        store.enrol(people.enrolled())
    backup, again = tmp_path / "backup", tmp_path / "again"
    with serving(fresh) as served:
        config = ("--config", fresh.configuration)
        done = ran("aggregator", "backup", backup, *config, "--json")
        assert done.returncode == 0, done.stdout + served.log.read_text()
        found = json.loads(done.stdout)
        assert (found["kind"], found["devices"], found["studies"]) == ("sqlite", 3, 0)
        refused = ran("aggregator", "backup", backup, *config)
        assert refused.returncode not in (0, 2, 3)
        assert "expected no file there yet" in refused.stderr
        refused = ran("aggregator", "restore", backup, *config)
        assert "expected no file there yet" in refused.stderr
        recorded = _recorded(*config)
        assert recorded == [(str(backup), outcome) for outcome in ("begun", "done")] + [
            (str(backup), outcome) for outcome in ("begun", "failed: StoreError")
        ]
        status = ("aggregator", "status", *config, "--listen", served.address)
        digest = json.loads(ran(*status, "--json").stdout)["audit_digest"]
        verified = ran("aggregator", "audit", "verify", "--expect", digest, *config)
        assert verified.stdout.endswith(f"entries, digest {digest}\n")
        assert f"  audit digest: {digest}\n" in ran(*status).stdout
        assert served.ended_by(signal.SIGTERM) == 0
    stopped = json.loads(ran(*status, "--json").stdout)
    assert stopped["audit_digest"] == digest
    assert not Path(f"{fresh.folder / 'store.sqlite'}.sock").exists()
    shown = ran("aggregator", "backup", "verify", backup)
    assert "a sqlite store of" in shown.stdout
    assert "3 devices, 0 studies" in shown.stdout
    other = f"sqlite:///{tmp_path / 'restored.sqlite'}"
    assert ran("aggregator", "restore", backup, *config, "--store", other).returncode == 0
    with serving(fresh, "--store", other) as served:
        assert _warnings(served) == [found["at_unix_s"]]
    with closing(SqliteLocation(tmp_path / "restored.sqlite").open()) as store:
        assert store.population() == 3
        (note,) = store.restores()
        assert note.backup_unix_s == found["at_unix_s"] <= note.restored_unix_s
        begun, restored = (entry.event for entry in store.audit.entries())
        assert (begun.action, begun.outcome) == ("backup", "begun")
        assert (restored.action, restored.outcome) == ("restore", "done")
        assert (restored.subject, restored.role) == (str(backup), "local")
    assert back_up(location, again, 77, never)["at_unix_s"] == 77
    with pytest.raises(StoreError, match="expected no file there yet"):
        back_up(location, again, 78, never)


def test_words_that_are_no_backup_are_refused(fresh: AggregatorHome) -> None:
    config = ("--config", fresh.configuration)
    for words in (("verify",), ("a", "b"), ("verify", "a", "b")):
        refused = ran("aggregator", "backup", *words, *config)
        assert refused.returncode == 2
        assert "expected FILE, or verify FILE" in refused.stderr


def _recorded(*config: str | Path) -> list[tuple[str, str]]:
    """Return the subjects and outcomes of the backups in the audit log."""
    shown = json.loads(ran("aggregator", "audit", "show", "--json", *config).stdout)
    return [
        (entry["subject"], entry["outcome"])
        for entry in shown["entries"]
        if entry["action"] == "backup"
    ]


def _warnings(served: Served) -> list[int]:
    return [
        event["backup_unix_s"]
        for event in served.events()
        if "the store was restored" in json.dumps(event)
    ]
