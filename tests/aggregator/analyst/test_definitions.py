"""A study's file: what it says, and where it is wrong."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst import read_definition, sign_submission
from askance_aggregator.analyst.submission import Every
from askance_client.cli.template import Given, device_toml
from askance_client.codec import decode_study
from askance_client.errors import AskanceError, InvalidParameter
from askance_client.messages import Repeat
from askance_client.queries.categories import cell_names
from askance_client.records import schema_from_toml
from askance_client.toml_tables import TomlTable

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SCHEMA = """
name = "people"
[fields]
education = { type = "category", labels = ["school", "college"] }
income = { type = "label", labels = ["low", "high"] }
age = { type = "integer", low = 17, high = 90 }
height = { type = "real", low = 0.5, high = 2.5, frac_bits = 10 }
"""
LEAST = 'learner = "frequency"\nepsilon = "1"\nschema = "people.toml"\n'
WHOLE = """
learner = "frequency"
epsilon = 0.5
schema = "people.toml"
purpose = "Which schooling people have."
beta = "1/50"
confidence = 0.9
days = 3
[parameters]
column = "education"
tau = 0.05
[rounds]
deadline_s = 0
least_answers = 10
waves = 4
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "people.toml").write_text(SCHEMA)
    return tmp_path / "study.toml"


def test_all_that_it_may_say(file: Path) -> None:
    file.write_text(WHOLE)
    definition = read_definition(file)
    study = definition.study
    assert definition.days == 3
    assert study.nano_nats == 500_000_000
    assert study.purpose == "Which schooling people have."
    assert study.schema.name == "people"
    assert (study.beta, study.confidence) == (Fraction(1, 50), Fraction(9, 10))
    assert (study.conduct.round_deadline_s, study.conduct.least_answers) == (0, 10)
    assert study.conduct.waves == 4
    (question,) = next(study.learner.run()).questions
    assert cell_names(question.query) == ("school", "college")
    assert question.tau == Fraction(1, 20)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("least_answers = 100", "least_answers: expected it in [rounds], got it in no table"),
        ("epochs = 4", "epochs: expected it in [repeat], got it in no table"),
        ('tags = ["eu"]', "tags: expected it in [population], got it in no table"),
    ],
)
def test_a_key_above_its_table_is_told_where_it_belongs(file: Path, line: str, place: str) -> None:
    file.write_text(f"{LEAST}{line}\n")
    with pytest.raises(InvalidParameter, match=re.escape(f"study.toml: {place}")):
        read_definition(file)


def test_what_it_means_when_it_says_little(file: Path) -> None:
    file.write_text(LEAST)
    definition = read_definition(file)
    conduct = definition.study.conduct
    assert definition.days == 7
    assert (conduct.beta, conduct.confidence) == (Fraction(1, 100), Fraction(19, 20))
    assert (conduct.round_deadline_s, conduct.least_answers, conduct.waves) == (86_400, 1, 1)


def test_a_schema_may_stand_in_it(file: Path) -> None:
    inside = SCHEMA.replace("[fields]", "[schema.fields]").replace('name = "people"', "")
    file.write_text(LEAST.replace('schema = "people.toml"', "") + inside)
    assert read_definition(file).study.schema.name == "study"
    assert set(read_definition(file).study.schema.fields) == {
        "education", "income", "age", "height",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("learner", "study.toml: expected TOML"),
        ("", "study.toml: expected a study (TOML with learner, schema and epsilon), got an empty"),
        ('epsilon = "1"', "study.toml: schema: expected a value, got none"),
        (LEAST.replace('learner = "frequency"', ""), "study.toml: learner: expected a value"),
        (LEAST.replace('epsilon = "1"', ""), "study.toml: epsilon: expected a value"),
        (LEAST.replace('"frequency"', '"nobody"'), "study.toml: learner: no learner 'nobody'"),
        (LEAST.replace('"frequency"', "3"), "study.toml: learner: expected a text"),
        (LEAST.replace('"1"', "true"), "study.toml: epsilon: expected a number or its text"),
        (LEAST.replace('"1"', '"much"'), 'study.toml: epsilon: expected nats as "0.5" or "1/2"'),
        (LEAST.replace('"1"', "0"), "study.toml: epsilon: expected a positive number"),
        (LEAST.replace("people.toml", "none.toml"), "none.toml: cannot be read"),
        (LEAST.replace('"people.toml"', "5"), "study.toml: schema: expected a path or a table"),
        (
            LEAST.replace('"people.toml"', "{ fields = { a = 1 } }"),
            "study.toml: schema: fields.a: expected a type among",
        ),
        (LEAST + "colour = 1", "study.toml: colour: expected one of beta, confidence, days"),
        (LEAST + "beta = 2", "study.toml: beta: expected a number between 0 and 1"),
        (LEAST + 'confidence = ""', "study.toml: confidence: expected a number or its text"),
        (LEAST + "days = 0", "study.toml: days: expected a whole number of 1 or more"),
        (LEAST + "purpose = 1", "study.toml: purpose: expected a text"),
        (LEAST + "parameters = 1", "study.toml: parameters: expected a table"),
        (LEAST + "[parameters]\ncolumn = []", "study.toml: parameters: column: expected a number"),
        (LEAST + '[parameters]\nd = "8"', "study.toml: parameters: frequency has no parameter"),
        (LEAST + '[parameters]\ncolumn = "age"', "study.toml: parameters: frequency: column"),
        (LEAST + "rounds = 1", "study.toml: rounds: expected a table"),
        (LEAST + "[rounds]\nhours = 1", "study.toml: rounds.hours: expected one of deadline_s"),
        (
            LEAST + "[rounds]\ndeadline_s = -1",
            "study.toml: rounds.deadline_s: expected a whole number of 0 or more",
        ),
        (
            LEAST + "[rounds]\nleast_answers = 1.5",
            "study.toml: rounds.least_answers: expected a whole number of 0 or more",
        ),
    ],
)
def test_a_mistake_is_named_by_its_place(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    with pytest.raises(AskanceError) as caught:
        read_definition(file)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (SCHEMA, "a schema of records, which a study names by its key schema"),
        (device_toml(Given()), "a device's configuration"),
        ('listen = "127.0.0.1:7443"\nstore = "sqlite:///s"', "an aggregator's configuration"),
        ("[project]\n[tool]\n[a]\n[b]\n[c]", "a file of project, tool, a, b, ..."),
        ('"\\u001b[2J" = 1', "a file of '\\x1b[2J'"),
        ("a" * 5_000 + " = 1", f"a file of '{'a' * 76}..."),
        ('"-----BEGIN PRIVATE KEY-----AAAA" = 1', "a file of PEM text"),
        ('{"format": "askance export v1"}', "a study's export (study verify reads it)"),
        ('{"learner": "mean"}', "JSON"),
        ("[1, 2]", "JSON"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA", "PEM text"),
    ],
)
def test_a_file_of_another_kind_is_named(file: Path, content: str, kind: str) -> None:
    file.write_text(content)
    with pytest.raises(InvalidParameter) as caught:
        read_definition(file)
    wanted = "expected a study (TOML with learner, schema and epsilon)"
    assert str(caught.value) == f"{file}: {wanted}, got {kind}"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("a = " + "[" * 5_000 + "]" * 5_000, id="nest"),
        pytest.param("epsilon = " + "1" * 5_000, id="number"),
    ],
)
def test_a_file_beyond_the_limits_of_python_is_refused(
    tmp_path: Path, file: Path, content: str
) -> None:
    file.write_text(content)
    for read in (read_definition, schema_from_toml, TomlTable.of_file):
        with pytest.raises(AskanceError, match="expected TOML, got other text: ") as caught:
            read(file)
        assert len(str(caught.value)) < 400
    file.write_text(LEAST)
    (tmp_path / "people.toml").write_text(content)
    with pytest.raises(AskanceError, match=r"people\.toml: expected TOML"):
        read_definition(file)


def test_there_may_be_no_file(tmp_path: Path) -> None:
    with pytest.raises(AskanceError, match=r"none\.toml: cannot be read: No such file"):
        read_definition(tmp_path / "none.toml")


@pytest.mark.parametrize("name", ["masked_parity", "schooling"])
def test_the_examples_can_be_submitted(name: str) -> None:
    definition = read_definition(EXAMPLES / f"{name}.toml")
    key = Ed25519PrivateKey.generate()
    signed = sign_submission(definition, key)
    assert signed.public_key == key.public_key().public_bytes_raw()


def test_a_study_that_repeats_signs_its_epochs(file: Path) -> None:
    file.write_text(LEAST + '\n[repeat]\nevery = "7d"\nepochs = 12\n')
    definition = read_definition(file)
    assert definition.every == Every(7, 12)
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    now_s = 20_456 * 86_400 + 5  # the third day of an epoch
    signed = sign_submission(definition, key, now_s=lambda: now_s)
    terms = decode_study(signed.study)
    assert terms.repeat == Repeat(7, 12, 20_456 // 7)
    assert terms.expires_unix_s == (20_456 // 7 + 12) * 7 * 86_400
    once = sign_submission(definition.study, key, now_s=lambda: now_s)
    assert decode_study(once.study).repeat is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('every = "7"\nepochs = 2', 'repeat.every: expected days as "7d", got'),
        ("every = 7\nepochs = 2", "repeat.every: expected a text"),
        ('every = "0d"\nepochs = 2', "repeat.every: expected 1 day or more"),
        ('every = "7d"', "repeat.epochs: expected a value, got none"),
        ('every = "7d"\nepochs = 0', "repeat.epochs: expected"),
        ('every = "7d"\nepochs = 2\nepoch = 1', "repeat.epoch"),
    ],
)
def test_epochs_that_cannot_be_are_refused(file: Path, table: str, message: str) -> None:
    file.write_text(f"{LEAST}\n[repeat]\n{table}\n")
    with pytest.raises(InvalidParameter, match=re.escape(message)):
        read_definition(file)
