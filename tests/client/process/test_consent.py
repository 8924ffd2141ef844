"""Consent with processes of their own: a device that runs, a kill, and its owner's commands."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

from askance_client.owner import is_running
from askance_client.owner.control import SOCKET

PEOPLE = 5
WAIT_S = 60


def started(folder: Any) -> Any:
    """A running device that has said so, and listens."""
    process = folder.start("run")
    assert json.loads(process.stdout.readline())["members"] == PEOPLE
    for _ in range(10 * WAIT_S):
        if is_running(folder.path / SOCKET):
            return process
        time.sleep(0.1)
    raise AssertionError("expected a device that listens")


def waiting(folder: Any) -> dict[str, Any]:
    """The status of the folder's device when a study waits."""
    for _ in range(WAIT_S):
        code, status, err = folder.run("status")
        assert code == 0, err
        if status["waiting"]:
            found: dict[str, Any] = status
            return found
        time.sleep(0.2)
    raise AssertionError("expected a study that waits")


def ended(process: Any, number: int) -> None:
    process.send_signal(number)
    process.communicate(timeout=WAIT_S)


def test_an_approval_that_was_printed_survives_a_kill_and_is_charged_once(
    aggregator: Any, folder: Any
) -> None:
    configuration = folder.path / "device.toml"
    text = configuration.read_text()
    assert '# consent = "ask"' in text
    configuration.write_text(text.replace('# consent = "ask"', 'consent = "ask"'))
    folder.run("enroll", "--token", aggregator.token(PEOPLE))
    asked = aggregator.ask(aggregator.round())
    process = started(folder)
    try:
        status = waiting(folder)
        assert (status["running"], status["answers"]) == (True, 0)
        ended(process, signal.SIGKILL)  # its socket stays behind
        assert (folder.path / SOCKET).exists()
        study = status["waiting"][0]["study"]
        code, told, err = folder.run("approve", study[:16])
        assert (code, told["state"]) == (0, "approved"), err
        assert not asked.done()
        process = started(folder)  # in the place of the socket that was left
        (tally,) = asked.result(WAIT_S)
        assert tally.answered == PEOPLE
        code, found, err = folder.run("history")
        assert code == 0, err
        assert [entry["nano_nats"] for entry in found["entries"]] == [10**9] * PEOPLE
        assert {entry["study"] for entry in found["entries"]} == {study}
        assert folder.run("status")[1]["running"] is True
    finally:
        ended(process, signal.SIGTERM)
    assert not (folder.path / SOCKET).exists()
    assert folder.run("status")[1]["running"] is False
    assert folder.run("verify")[1]["violations"] == []
