"""Templates of studies: each is parsed, planned and run on a small simulated fleet."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import askance as ask
from askance_aggregator.analyst import definition_of_table, read_definition
from askance_aggregator.analyst.templates import StudyTemplate, find_template, list_templates
from askance_client.errors import InvalidParameter
from askance_client.queries import Bits, Category, Integer, Label, Schema

USERS = 40_000  # more than each template needs
SEED = 18
TEMPLATES = list_templates()


def column(kind: object, random: np.random.Generator) -> np.ndarray:
    """Draw a field's values, more of them low than high."""
    match kind:
        case Integer():
            drawn: np.ndarray = random.binomial(kind.high - kind.low, 0.3, USERS) + kind.low
        case Category() | Label():
            drawn = random.choice(np.array(kind.labels), USERS)
        case Bits():
            drawn = random.integers(0, 2, (USERS, kind.width))
        case _:
            drawn = random.integers(0, 2, USERS)
    return drawn


def people(schema: Schema) -> ask.Population:
    random = np.random.default_rng(SEED)
    columns = {name: column(kind, random) for name, kind in schema.fields.items()}
    return ask.Population.from_columns(schema, columns)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_a_template_is_planned_and_run(template: StudyTemplate) -> None:
    """Plan a template for the users there are, and run it."""
    definition = definition_of_table(tomllib.loads(template.text))
    study = definition.study
    planned = study.plan(n_users=USERS)
    assert planned.feasible
    assert planned.users_needed <= USERS
    result = ask.simulate(study, people(study.schema), fleet="columns", seed=SEED)
    assert result.hypothesis is not None
    assert result.transcript.digest


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_a_template_is_a_file_with_comments(template: StudyTemplate, tmp_path: Path) -> None:
    assert template.summary.endswith(".")
    assert template.text.count("\n#") >= 4
    path = tmp_path / "study.toml"
    path.write_text(template.filled({"epsilon": "1.5", "purpose": 'To "see".'}))
    study = read_definition(path).study
    assert study.nano_nats == 1_500_000_000
    assert study.purpose == 'To "see".'


def test_the_settings_are_the_keys_of_the_file() -> None:
    weekly = find_template("weekly-frequency")
    assert weekly.settings["every"] == '"7d"'
    assert weekly.settings["epochs"] == "4"
    filled = tomllib.loads(weekly.filled({"epochs": "12", "column": "plan"}))
    assert filled["repeat"]["epochs"] == 12
    with pytest.raises(InvalidParameter, match="--set epochs: expected a whole number, got 'many'"):
        weekly.filled({"epochs": "many"})
    with pytest.raises(InvalidParameter, match=r"did you mean epochs\?"):
        weekly.filled({"epoch": "3"})


def test_a_schemas_file_takes_the_place_of_the_templates_schema(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\n[fields]\nsize = { type = "integer", low = 0, high = 7 }\n'
    )
    path = tmp_path / "study.toml"
    path.write_text(find_template("mean").filled({"schema": "mine.toml", "column": "size"}))
    assert read_definition(path).study.schema.name == "mine"


def test_an_unknown_template_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"got 'meen' \(did you mean mean\?\)"):
        find_template("meen")


def test_tags_are_added_to_any_template_and_its_schema_stays(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    for template in TEMPLATES:
        file.write_text(template.filled({"tags": "v2,region=eu"}))
        assert read_definition(file).tags == ("v2", "region=eu")
        file.write_text(template.text)
        assert read_definition(file).tags == ()
    with pytest.raises(InvalidParameter, match="got 'a b'"):
        find_template("mean").filled({"tags": "a b"})
