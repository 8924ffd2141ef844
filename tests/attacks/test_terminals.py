"""Text of a hostile aggregator reaches a terminal as plain text and controls nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest
from grpc import aio

from askance.cli import main
from askance_aggregator.analyst import (
    Aggregator,
    CallRefused,
    StudyEvent,
    StudyHandle,
    StudyResult,
    StudySummary,
)
from askance_aggregator.store import StudyState
from askance_client.printable import all_printable, printable
from askance_client.service.streams import describe
from askance_protos.v1 import analyst_pb2 as pb

STEER = "\x1b[2J\x1b]0;mine\x07 \x9b31m[/] [link=https://example.org]\r"
DIGEST = bytes(32)


def result() -> dict[str, Any]:
    return {
        "learner": STEER,
        "state": STEER,
        "study": STEER,
        "hypothesis": {STEER: STEER},
        "confidence": 0.95,
        "refusals": {STEER: 1},
        "users": 1,
        "users_asked": 1,
        "rounds": 1,
        "queries": 1,
        "answers": 1,
        "epsilon": {"budget": 1.0, "max_spent": 1.0, "mean_spent": 1.0},
        "reconciled": True,
        "privacy": STEER,
        "fields": [STEER],
        "influence": [],
        "bounds": [],
        "transcript": STEER,
    }


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """An aggregator's answers, as they come out of their decoding; the options that reach it."""
    event = StudyEvent(state=pb.STUDY_STATE_FAILED, round=1, reason=STEER, message=STEER)

    def refuse(*_: object) -> NoReturn:
        raise CallRefused(STEER, STEER)

    ended = StudyResult(DIGEST.hex(), StudyState.FAILED, STEER, STEER, result(), refuse)
    summary = StudySummary(
        study_digest=DIGEST, state=event.state, rounds_closed=1, facts=pb.StudyFacts(title=STEER)
    )
    monkeypatch.setattr(Aggregator, "studies", lambda *_, **__: [summary])
    monkeypatch.setattr(StudyHandle, "watch", lambda *_: iter([event]))
    monkeypatch.setattr(StudyHandle, "status", lambda *_, **__: event)
    monkeypatch.setattr(StudyHandle, "result", lambda *_, **__: ended)
    monkeypatch.setattr(StudyHandle, "cancel", refuse)
    assert main(["study", "key", str(tmp_path / "key.pem")]) == 0
    return ["--key", str(tmp_path / "key.pem"), "--aggregator", "127.0.0.1:8299"]


@pytest.mark.parametrize("command", ["list", "show", "result", "watch", "cancel"])
def test_what_is_said_to_an_analyst(
    command: str, hostile: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    main(["study", command, *([] if command == "list" else [DIGEST.hex()]), *hostile])
    printed = capsys.readouterr()
    shown = printed.out + printed.err
    assert "\\x1b[2J" in shown
    assert "fault of askance" not in shown
    assert not [c for c in shown if not c.isprintable() and c != "\n"]


def _unfetched() -> NoReturn:
    pytest.fail("an export was fetched")


@pytest.mark.parametrize("verbose", [[], ["--verbose"]])
@pytest.mark.parametrize("part", result())
@pytest.mark.parametrize("other", [None, STEER, -1, [STEER], {STEER: STEER}])
def test_a_result_of_another_form_is_no_fault_of_the_analyst_s_program(
    part: str,
    other: object,
    verbose: list[str],
    hostile: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """None: without the part."""
    content = {name: value for name, value in result().items() if name != part}
    if other is not None:
        content[part] = other
    ended = StudyResult(DIGEST.hex(), StudyState.DONE, "", "", content, _unfetched)
    monkeypatch.setattr(StudyHandle, "result", lambda *_, **__: ended)
    capsys.readouterr()
    code = main(["study", "result", DIGEST.hex(), *verbose, *hostile])
    printed = capsys.readouterr()
    shown = printed.out + printed.err
    assert "fault of askance" not in shown
    assert not [c for c in shown if not c.isprintable() and c != "\n"]
    refused = "askance: aggregator: expected the parts of a result that this version prints"
    assert (code, printed.err.startswith(refused)) in {(0, False), (1, True)}


def test_an_older_aggregator_s_result_is_printed(
    hostile: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The most that users were asked for is not among its parts."""
    capsys.readouterr()
    assert main(["study", "result", DIGEST.hex(), *hostile]) == 1  # a study that has failed
    assert "expected the parts" not in (printed := capsys.readouterr()).err
    assert "spent" in printed.out


def test_what_is_said_to_a_device() -> None:
    metadata = aio.Metadata()
    failure = aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, metadata, metadata, details=STEER)
    assert describe(failure).isprintable()


def test_what_can_be_shown_is_shown_as_it_is() -> None:
    for text in ("", "a [red] µ-test: größer", "日本"):
        assert printable(text) == text
    content = {"a": [1, 2.5, None, True, "b"]}
    assert all_printable(content) == json.loads(json.dumps(content))
