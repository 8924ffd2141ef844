"""Columns' own names in what an aggregator sends back: a result, a series, an export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import askance as ask
from askance.cli import main
from askance_aggregator.analyst import StudyHandle, StudyResult, verify_export
from askance_aggregator.analyst.submission import Every
from askance_aggregator.encoding import encode_study, read_terms
from askance_client.codec import decode_study
from askance_client.queries import Field, Schema
from askance_simulation.populations import Population
from tests.aggregator.analyst.conftest import KEY, ServedManager, serving
from tests.aggregator.analyst.test_epochs import Clock

WAIT_S = 60
SCHEMA = """
name = "people"
[fields]
"Größe (cm)" = { type = "integer", low = 140, high = 200 }
"blood group" = { type = "category", labels = ["A", "B", "0"] }
other = { type = "bit" }
"""
STUDY = """
learner = "difference"
epsilon = "8"
schema = "people.toml"
[parameters]
column = "Größe (cm)"
group = "blood group"
[rounds]
least_answers = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own")
    (path / "people.toml").write_text(SCHEMA, encoding="utf-8")
    (path / "study.toml").write_text(STUDY, encoding="utf-8")
    key = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (path / "key.pem").write_bytes(key)
    return path


@pytest.fixture(scope="module")
def people() -> Population:
    draws = np.random.default_rng(3)
    columns = {
        "Gr__e__cm_": draws.integers(150, 190, 300),
        "blood_group": draws.choice(["A", "B", "0"], 300),
        "other": draws.integers(0, 2, 300),
    }
    fields: dict[str, Field] = {
        "Gr__e__cm_": ask.Integer(140, 200),
        "blood_group": ask.Category(["A", "B", "0"]),
        "other": ask.Bit(),
    }
    return Population.from_columns(Schema.of("people", 1, fields), columns)


@pytest.fixture(scope="module")
def served(people: Population) -> Iterator[ServedManager]:
    with serving(devices=True, population=people) as found:
        yield found


@pytest.fixture(scope="module")
def handle(served: ServedManager, folder: Path) -> Iterator[StudyHandle]:
    with served.connected() as aggregator:
        yield aggregator.submit(ask.study_from_toml(folder / "study.toml").study)


@pytest.fixture(scope="module")
def result(handle: StudyHandle) -> StudyResult:
    return handle.result(WAIT_S)


def test_a_result_has_them(result: StudyResult) -> None:
    text = str(result)
    assert text.startswith("difference of Größe (cm) by blood group, 300 users, epsilon 8")
    shown = result.to_json()
    assert shown["fields"] == ["Größe (cm)", "blood group"]
    assert "columns" not in shown
    for told in (text, json.dumps(shown, ensure_ascii=False), json.dumps(result.hypothesis)):
        assert "Gr__e" not in told
        assert "blood_group" not in told
    assert result.content["fields"] == ["Gr__e__cm_", "blood_group"]  # as it was signed


def test_the_export_holds_together(result: StudyResult) -> None:
    verified = result.verify()
    assert verified.state == "done"
    told = "the fields asked about, among those signed: Größe (cm), blood group"
    assert told in verified.checked


def test_devices_are_told_those_of_the_fields_that_are_asked(handle: StudyHandle) -> None:
    signed = handle.fetch().signed.study
    assert "Größe (cm)".encode() in signed
    schema = read_terms(signed).schema
    assert schema["Größe (cm)"] is schema.Gr__e__cm_
    plain = decode_study(signed)
    assert type(plain.schema) is Schema  # a device has none of them
    assert plain.schema == schema
    assert plain.schema.digest == schema.digest
    assert encode_study(read_terms(signed)) == signed
    assert len(encode_study(plain)) == len(signed) - (12 + 2) - (11 + 2)


def test_the_commands_have_them(
    served: ServedManager,
    handle: StudyHandle,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    where = ["--aggregator", served.address, "--key", "key.pem"]
    assert main(["study", "submit", "study.toml", *where]) == 0
    assert "may ask about: Größe (cm), blood group" in capsys.readouterr().out
    assert main(["study", "submit", "study.toml", "--plan-only", "--verbose", *where]) == 0
    assert "asks about: Größe (cm), blood group" in capsys.readouterr().out
    assert main(["study", "result", handle.id, "--wait", "--verbose", *where]) == 0
    text = capsys.readouterr().out
    assert "asked about: Größe (cm), blood group" in text
    assert "Gr__e" not in text


def test_a_series_has_them(people: Population, folder: Path) -> None:
    study = ask.study_from_toml(folder / "study.toml").study
    with (
        serving(devices=True, population=people, now_s=Clock()) as served,
        served.connected() as aggregator,
    ):
        handle = aggregator.submit(study, every=Every(7, 1))
        handle.result(WAIT_S, epoch=1)
        series = handle.series()
        assert series.fields == ("Größe (cm)", "blood group")
        told = json.dumps([series.to_json(), series.to_rows()], ensure_ascii=False)
        assert "Gr__e" not in told
        assert "blood_group" not in told
        handle.export(folder / "series.json")
        verify_export(folder / "series.json")
