"""Repeated studies as an analyst has them: over gRPC, by command, in files, and verified."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import askance as ask
from askance.cli import main
from askance_aggregator.analyst import (
    CallRefused,
    StudyHandle,
    VerificationFailed,
    epochs_of,
    state_of,
    verify_export,
    verify_series,
)
from askance_aggregator.analyst import connect as analyst_connect
from askance_aggregator.analyst.export import SeriesExport, read_export
from askance_aggregator.analyst.submission import Every
from askance_aggregator.clock import system_now_s
from askance_aggregator.store import StudyState
from askance_client.errors import InvalidParameter, InvalidRecord
from tests.aggregator.analyst import conftest

if TYPE_CHECKING:
    from tests.aggregator.analyst.conftest import ServedManager

OpenHouse = Callable[..., AbstractContextManager["ServedManager"]]
WEEK_S, NAT = 7 * 86_400, 10**9
WAIT_S = 60
EPOCHS = 3


class Clock:
    """The time of the aggregator, the analyst and the devices; no epoch ends by itself."""

    def __init__(self) -> None:
        self.ahead_s = WEEK_S // 2 - system_now_s() % WEEK_S

    def __call__(self) -> int:
        return system_now_s() + self.ahead_s

    def next_week(self) -> None:
        self.ahead_s += WEEK_S


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def served(clock: Clock) -> Iterator[ServedManager]:
    with conftest.serving(devices=True, now_s=clock) as served:
        yield served


@pytest.fixture(scope="module")
def handle(served: ServedManager, clock: Clock) -> Iterator[StudyHandle]:
    """A study of three epochs, two of which have ended."""
    with served.connected() as aggregator:
        handle = aggregator.submit(served.study(), every=Every(7, EPOCHS))
        for number in (1, 2):
            assert handle.result(WAIT_S, epoch=number).state is StudyState.DONE
            if number == 1:
                clock.next_week()
        yield handle


@pytest.fixture(scope="module")
def export(handle: StudyHandle, tmp_path_factory: pytest.TempPathFactory) -> SeriesExport:
    path = tmp_path_factory.mktemp("exports") / "series.json"
    found = handle.export(path)
    assert isinstance(found, SeriesExport)
    assert read_export(path) == found
    return found


def test_a_status_and_a_list_name_the_epoch(served: ServedManager, handle: StudyHandle) -> None:
    event = handle.status()
    assert state_of(event) is StudyState.OPEN
    epochs = epochs_of(event)
    assert epochs is not None
    assert (epochs.number, epochs.ended, epochs.open) == (3, 2, False)
    with served.connected() as aggregator:
        (summary,) = aggregator.studies()
    assert summary.epochs == event.epochs


def test_the_series_has_every_epoch_that_has_ended(handle: StudyHandle) -> None:
    series = handle.series()
    assert (series.signed, series.every_days, series.epsilon_per_epoch) == (EPOCHS, 7, 4.0)
    assert [(one.number, one.state, one.reused) for one in series.epochs] == [
        (1, "done", 0),
        (2, "done", 0),
    ]
    assert min(one.fresh for one in series.epochs) > 100
    most = [one.max_asked_nano_nats / NAT for one in series.epochs]
    assert series.nats_so_far == pytest.approx((most[0], sum(most)))
    assert series.nats_so_far[1] <= 2 * 4.0
    assert series.latest is not None
    assert series.latest.number == 2


def test_a_result_is_of_the_epoch_that_is_asked_for(handle: StudyHandle) -> None:
    first, second = (handle.result(WAIT_S, epoch=number) for number in (1, 2))
    assert (first.number, second.number) == (1, 2)
    assert first.transcript != second.transcript
    assert first.verify().state == "done"
    assert [one.transcript for one in second.epochs.epochs] == [
        first.transcript,
        second.transcript,
    ]
    with pytest.raises(CallRefused, match="expected its end within"):
        handle.result(0.3, epoch=3)
    with pytest.raises(InvalidParameter, match="expected a number of 1 to 3, got 4"):
        handle.result(0.3, epoch=4)


def test_a_series_is_a_frame(handle: StudyHandle) -> None:
    pytest.importorskip("pandas")
    frame = handle.series().to_pandas()
    assert list(frame["number"]) == [1, 2]
    assert {"epoch", "first_day", "fresh", "reused", "nats_so_far"} <= set(frame.columns)


def test_a_study_that_collects_once_has_no_epochs(served: ServedManager) -> None:
    with served.connected() as aggregator:
        once = aggregator.submit(served.study())
        result = once.result(WAIT_S)
        for call in (once.series, lambda: result.epochs, lambda: once.result(epoch=1)):
            with pytest.raises(InvalidParameter, match="got one that collects once"):
                call()
        with pytest.raises(CallRefused) as caught:
            once.fetch(5)
        assert caught.value.reason == "unknown-epoch"


class TestExport:
    def test_all_epochs_are_verified_offline(self, export: SeriesExport) -> None:
        found = verify_series(export)
        answers = export.result["fresh"] + export.result["reused"]
        assert (found.state, found.rounds, found.answers) == ("open", 4, answers)
        assert any("in order of time" in line for line in found.checked)

    def test_one_epoch_is_a_file_of_its_own(self, handle: StudyHandle, tmp_path: Path) -> None:
        path = tmp_path / "second.json"
        handle.export(path, epoch=2)
        assert verify_export(path).state == "done"
        content = json.loads(path.read_text())
        content["epoch"] -= 1
        path.write_text(json.dumps(content))
        with pytest.raises(VerificationFailed, match="expected the epoch of its export"):
            verify_export(path)

    def test_a_file_that_was_changed_is_found_out(self, export: SeriesExport) -> None:
        first, second = export.epochs
        other = {**export.result, "fresh": export.result["fresh"] + 1}
        most = export.result["epsilon"]["max_asked_nano_nats"]
        cheaper = {**export.result["epsilon"], "max_asked_nano_nats": most - 1}
        planted = {
            "epochs in order": replace(export, epochs=(second, first)),
            "each once": replace(export, epochs=(first, first)),
            "as of its epochs": replace(export, epochs=(first,)),
            "fresh as of its epochs": replace(export, result=other),
            "epsilon as of its epochs": replace(
                export, result={**export.result, "epsilon": cheaper}
            ),
            "expected 3 epochs, found 2": replace(
                export, result={**export.result, "state": "done", "reason": "done"}
            ),
            "message as of its epochs": replace(
                export, result={**export.result, "state": "cancelled", "reason": "cancelled"}
            ),
            "the epoch of its export": replace(
                export, epochs=(replace(first, lines=second.lines), second)
            ),
            "that the study signs": replace(
                export, epochs=(first, replace(second, epoch=second.epoch + 9))
            ),
        }
        for said, changed in planted.items():
            with pytest.raises(VerificationFailed, match=said):
                verify_series(changed)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"epochs": {}}, "expected a list of epochs"),
            ({"epochs": [7]}, "epoch 1: expected an object"),
            ({"epochs": [{"epoch": 1}]}, "epoch 1: expected epoch, transcript, result"),
            ({"more": 1}, "got 'more'"),
        ],
    )
    def test_another_file_is_none(
        self, export: SeriesExport, tmp_path: Path, change: dict[str, Any], said: str
    ) -> None:
        path = tmp_path / "series.json"
        export.write(path)
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        with pytest.raises(InvalidRecord, match=said):
            read_export(path)


class TestCommands:
    @pytest.fixture
    def where(
        self, served: ServedManager, clock: Clock, tmp_path: Path, monkeypatch: Any
    ) -> list[str]:
        key = tmp_path / "analyst.pem"
        form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        key.write_bytes(conftest.KEY.private_bytes(*form))

        monkeypatch.setattr(
            ask,
            "connect",
            lambda address, *, key, **_: analyst_connect(address, key=key, now_s=clock),
        )
        return ["--aggregator", served.address, "--key", str(key)]

    def test_show_and_list_name_the_epoch(
        self, handle: StudyHandle, where: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["study", "show", handle.id, *where]) == 0
        assert "epoch 3 of 3 begins on " in capsys.readouterr().out
        assert main(["study", "list", *where]) == 0
        assert "2 of 3 epochs ended" in capsys.readouterr().out
        assert main(["study", "show", handle.id, "--json", *where]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["epoch"], shown["epochs"], shown["epochs_ended"]) == (3, 3, 2)

    def test_a_result_is_the_latest_or_the_one_that_is_named(
        self, handle: StudyHandle, where: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        for options, number in (([], 2), (["--epoch", "1"], 1)):
            assert main(["study", "result", handle.id, "--json", *options, *where]) == 0
            assert json.loads(capsys.readouterr().out)["number"] == number
        assert main(["study", "result", handle.id, "--epoch", "2", *where]) == 0
        assert ", epoch 2 of 3 from " in capsys.readouterr().out
        assert main(["study", "result", handle.id, "--epoch", "3", *where]) == 1
        assert "epoch 3 has not ended yet" in capsys.readouterr().err

    @pytest.mark.parametrize("wait", [[], ["--wait"]])
    def test_an_epoch_that_is_not_signed_is_refused_at_once(
        self,
        handle: StudyHandle,
        where: list[str],
        capsys: pytest.CaptureFixture[str],
        wait: list[str],
    ) -> None:
        """Before, the command waited for it, at the most until the whole study had ended."""
        assert main(["study", "result", handle.id, "--epoch", "4", *wait, *where]) == 2
        assert "expected an epoch from 1 to 3, got 4" in capsys.readouterr().err

    def test_the_series_as_text_json_csv_picture_and_file(
        self,
        handle: StudyHandle,
        where: list[str],
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        words = ["study", "result", handle.id, "--epochs", *where]
        assert main(words) == 0
        text = capsys.readouterr().out
        assert "2 of 3 epochs of 7 days, epsilon 4 per epoch" in text
        assert "of 12 nats so far" in text
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == handle.series().to_json()
        assert main([*words, "--csv"]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert [row["number"] for row in rows] == ["1", "2"]
        table = tmp_path / "series.csv"
        assert main([*words, "--out", str(table)]) == 0
        with table.open(newline="") as lines:
            written = list(csv.DictReader(lines))
        assert [(row["number"], row["state"]) for row in written] == [("1", "done"), ("2", "done")]
        capsys.readouterr()
        file = tmp_path / "series.json"
        assert main([*words, "--out", str(file)]) == 0
        capsys.readouterr()
        assert main(["study", "verify", str(file)]) == 0
        assert "(open)" in capsys.readouterr().out
        assert main([*words, "--plot", str(tmp_path / "series.png")]) == 2  # no estimates
        assert "expected epochs with estimates" in capsys.readouterr().err

    def test_no_file_is_written_before_an_epoch_has_ended(
        self,
        served: ServedManager,
        clock: Clock,
        where: list[str],
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        with served.connected() as aggregator:
            later = aggregator.submit(served.study(), every=Every(7, 3), start_s=clock() + 86_400)
            words = ["study", "result", later.id, "--epochs", *where]
            for name in ("weeks.json", "weeks.csv"):
                assert main([*words, "--out", str(tmp_path / name)]) == 1
                assert "no epoch has ended yet, so --out" in capsys.readouterr().err
                assert not (tmp_path / name).exists()
            assert main(words) == 0
            later.cancel()

    def test_csv_is_of_a_series(
        self, handle: StudyHandle, where: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["study", "result", handle.id, "--csv", *where]) == 2
        assert "--csv: expected --epochs with it" in capsys.readouterr().err


def test_the_end_of_a_repeated_study_is_the_end_of_its_epochs(
    handle: StudyHandle, clock: Clock
) -> None:
    clock.next_week()
    result = handle.result(WAIT_S)
    assert (result.number, result.state) == (3, StudyState.DONE)
    assert len(result.epochs.epochs) == EPOCHS
    event = handle.status()
    assert (state_of(event), event.reason) == (StudyState.DONE, "done")
