"""Guarantee towards readers of all results of a repeated study: stated, printed and verified."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import askance as ask
from askance.cli import main
from askance_aggregator.analyst import (
    Aggregator,
    StudyHandle,
    VerificationFailed,
    connect,
    verification,
    verify,
    verify_series,
)
from askance_aggregator.analyst.export import SeriesExport
from askance_aggregator.analyst.submission import Every
from askance_aggregator.reports.guarantees import series_guarantee_text
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.outer import outer_series_json
from askance_aggregator.studies.series import series_report
from tests.aggregator.analyst import conftest
from tests.aggregator.analyst.conftest import ServedManager
from tests.aggregator.analyst.test_epochs import Clock

SCHEMA = ask.Schema("people", 1, smokes=ask.Bit())
PEOPLE = ask.Population.from_columns(SCHEMA, {"smokes": [0, 1] * 150})
LEAST, EPOCHS, WAIT_S = 200, 4, 60


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def served(clock: Clock) -> Iterator[ServedManager]:
    with conftest.serving(devices=True, population=PEOPLE, now_s=clock) as served:
        yield served


@pytest.fixture(scope="module")
def handle(served: ServedManager, clock: Clock) -> Iterator[StudyHandle]:
    """A study of four epochs of one bit at epsilon 1, two of which have ended."""
    learner = ask.learners.mean("smokes", missing="default")
    study = ask.Study(learner, SCHEMA, epsilon=1, least_answers=LEAST)
    with served.connected() as aggregator:
        handle = aggregator.submit(study, every=Every(7, EPOCHS))
        handle.result(WAIT_S, epoch=1)
        clock.next_week()
        handle.result(WAIT_S, epoch=2)
        yield handle


@pytest.fixture(scope="module")
def export(handle: StudyHandle, tmp_path_factory: pytest.TempPathFactory) -> SeriesExport:
    found = handle.export(tmp_path_factory.mktemp("exports") / "series.json")
    assert isinstance(found, SeriesExport)
    return found


def test_each_epoch_states_all_results_so_far_and_all_that_are_signed(handle: StudyHandle) -> None:
    first, second = (handle.result(WAIT_S, epoch=number).content for number in (1, 2))
    one, two = (content["outer_so_far"]["epsilon"] for content in (first, second))
    assert first["outer"]["epsilon"] < one < two < 2 * one  # delta is shared with later results
    assert first["outer_so_far"]["results"] == 1
    assert (second["outer_so_far"]["results"], second["outer_so_far"]["delta"]) == (2, 1e-6)
    signed = second["outer_signed"]
    assert two < signed["epsilon"] < 4
    assert (signed["results"], signed["answers"], signed["delta"]) == (EPOCHS, LEAST, 1e-6)
    assert first["outer_signed"] == signed


def test_a_series_states_what_its_last_epoch_does(handle: StudyHandle) -> None:
    last = handle.result(WAIT_S, epoch=2).content
    found = handle.series().to_json()
    assert found["outer_so_far"] == last["outer_so_far"]
    assert found["outer_signed"] == last["outer_signed"]
    assert [one["outer_so_far"]["results"] for one in found["epochs"]] == [1, 2]


def test_a_series_of_one_epoch_states_what_readers_learn(handle: StudyHandle) -> None:
    series = handle.series()
    report = series_report(replace(series, epochs=series.epochs[:1]), every=False)
    assert report.guarantees.startswith(
        "Towards readers of the first result of this study so far, whatever ends it: at most 0."
    )
    assert "Of all 4 that are signed, as long as each has 200 answers" in report.guarantees


def test_an_export_without_an_epoch_is_not_verified(export: SeriesExport) -> None:
    with pytest.raises(VerificationFailed, match="1 epoch that had ended when it was written"):
        verify_series(replace(export, epochs=()))


def test_commands_print_it(
    served: ServedManager,
    handle: StudyHandle,
    clock: Clock,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def connected(address: str, *, key: Ed25519PrivateKey, **_: object) -> Aggregator:
        return connect(address, key=key, now_s=clock)

    monkeypatch.setattr(ask, "connect", connected)
    key = tmp_path / "analyst.pem"
    key.write_bytes(
        conftest.KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    where = [handle.id, "--aggregator", served.address, "--key", str(key)]
    texts = []
    for which in (["--epoch", "2"], ["--epochs"]):
        assert main(["study", "result", *which, *where]) == 0
        texts.append(" ".join(capsys.readouterr().out.split()))
    for text in texts:
        assert (
            "Towards readers of all 2 results of this study so far, whatever ends it: at most"
            in text
        )
        assert "Of all 4 that are signed, as long as each has 200 answers or more" in text
    assert main(["study", "result", "--epochs", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["outer_so_far"]["results"] == 2


def test_a_verification_recomputes_it(export: SeriesExport) -> None:
    verified = verify_series(export)
    assert "the epsilon towards readers of all epochs, from the tallies of those" in (
        verified.checked
    )
    assert not any("all results so far" in line for line in verified.believed)
    alone = verify(export.epochs[1])
    assert any("all results so far" in line for line in alone.believed)


def test_a_verification_bounds_each_epoch_once(
    export: SeriesExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two epochs, each with two statements."""
    bounded: list[int] = []

    def counted(transcripts: Sequence[Transcript], *rest: Any) -> dict[str, Any]:
        bounded.append(len(transcripts))
        return outer_series_json(transcripts, *rest)

    monkeypatch.setattr(verification, "outer_series_json", counted)
    verify_series(export)
    assert bounded == [1, 2]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("outer_so_far", {"epsilon": 0.3}),
        ("outer_so_far", {"results": 1}),
        ("outer_so_far", {"answers": 3000}),
        ("outer_so_far", {"delta": 1.0}),
        ("outer_signed", {"epsilon": 0.3}),
        ("outer_signed", {"results": 2}),
        ("outer_signed", {"answers": 100}),
        ("outer_signed", {"delta": 2e-6}),
    ],
)
def test_a_changed_statement_is_found(
    export: SeriesExport, name: str, changes: dict[str, Any]
) -> None:
    last = export.epochs[-1]
    result = dict(last.result or {})
    result[name] = result[name] | changes
    broken = replace(
        export,
        epochs=(*export.epochs[:-1], replace(last, result=result)),
        result=export.result | {name: result[name]},
    )
    with pytest.raises(VerificationFailed, match=f"epoch .*: result: expected {name}"):
        verify_series(broken)


SO_FAR = {"epsilon": 0.19761, "delta": 1e-6, "answers": 5000, "liars": 0.01, "results": 3}
SIGNED = SO_FAR | {"epsilon": 0.5, "answers": 1000, "results": 12}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({}, ""),
        (
            {"number": 1, "outer_so_far": SO_FAR | {"results": 1}},
            "Towards readers of the first result of this study so far, whatever ends it: at most"
            " 0.198 at delta 1e-06 (5,000 answers or more to each question, 1 % of them assumed to"
            " lie).",
        ),
        (
            {"number": 3, "outer_so_far": SO_FAR, "outer_signed": SIGNED},
            "Towards readers of all 3 results of this study so far, whatever ends it: at most 0.198"
            " at delta 1e-06 (5,000 answers or more to each question, 1 % of them assumed to lie)."
            " Of all 12 that are signed, as long as each has 1,000 answers or more to every"
            " question: at most 0.5 at delta 1e-06.",
        ),
        (
            {"number": 3},
            "Towards readers of all results of this study so far: no less is promised than towards"
            " the aggregator.",
        ),
    ],
)
def test_text(result: dict[str, Any], text: str) -> None:
    assert series_guarantee_text(result) == text
