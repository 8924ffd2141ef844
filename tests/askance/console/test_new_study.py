"""The form of a new study: its definition is the command line's, and so are signature and plan."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from askance.cli.submission import add_study, definition_of
from askance.console.pages.new_study import definition_of_form, table_of_form
from askance.console.routes import ConsoleForm
from askance_aggregator.analyst import Aggregator, CallRefused, connect, read_definition
from askance_aggregator.encoding import encode_study
from askance_aggregator.server.callers import Role
from askance_aggregator.store import SqliteStore
from askance_aggregator.study_options import definition_text
from askance_client.codec import decode_study, verify_study
from askance_client.errors import AskanceError
from tests.aggregator.server.callers.role_server import KEYS, NOW_S, public
from tests.askance.console.consoles import Visitor, console_of
from tests.askance.console.ended_studies import add_poor

HOSTILE = "</textarea><script>alert(1)</script>\"'\x7f"
SCHEMA = 'name = "people"\n[fields]\nhabit = { type = "category", labels = ["yes", "no"] }\n'
FIELDS = (
    ("learner", "frequency"),
    ("schema", SCHEMA),
    ("set.column", "habit"),
    ("set.tau", ""),
    ("epsilon", "2"),
    ("purpose", HOSTILE),
    ("confidence", "0.9"),
    ("days", "3"),
    ("deadline_s", "3600"),
    ("least_answers", "5"),
    ("every", "7d"),
    ("epochs", "4"),
    ("start", "2027-03-01T08:00Z"),
    ("reports_days", "30"),
)
NONCE = bytes(16)


def with_field(name: str, value: str) -> ConsoleForm:
    return ConsoleForm((*FIELDS, (name, value)))


def test_the_study_of_the_form_has_the_bytes_of_the_command_line(tmp_path: Path) -> None:
    schema, file = tmp_path / "people.toml", tmp_path / "study.toml"
    schema.write_text(SCHEMA)
    parser = argparse.ArgumentParser()
    add_study(parser)
    words = ["frequency", "--schema", str(schema), "--set", "column=habit"]
    for name, value in FIELDS:
        if name not in ("learner", "schema") and not name.startswith("set."):
            words += ["--" + name.replace("_", "-"), value]
    of_options = encode_study(definition_of(parser.parse_args(words)).terms(NONCE, NOW_S))
    form = ConsoleForm(FIELDS)
    assert encode_study(definition_of_form(form).terms(NONCE, NOW_S)) == of_options
    file.write_text(definition_text(table_of_form(form)))
    assert encode_study(read_definition(file).terms(NONCE, NOW_S)) == of_options


def test_a_study_is_planned_signed_and_submitted() -> None:
    store = SqliteStore.in_memory()
    fields = [(name, value) for name, value in FIELDS if name not in ("every", "epochs", "start")]
    coarse = [(name, value) for name, value in fields if name != "set.tau"]
    with console_of(Role.ANALYST, store) as visitor:
        visitor.log_in()
        assert "New study" in visitor.get("/studies/new").text
        planned = visitor.post("/studies/new/plan", fields).text
        before = len(store.studies())
        once = re.search('name="once" value="([0-9a-f]+)"', planned)
        assert once is not None
        with connect_of(visitor.get("/studies").text) as aggregator:
            own = aggregator.plan(definition_of_form(ConsoleForm(tuple(fields))))
        assert f"{own['users_needed']:,}" in planned
        assert own["rounds"][0]["randomizer"] in planned
        assert "least_answers = 5" in planned  # the TOML that is shown
        assert "<script>alert" not in planned
        assert len(store.studies()) == before  # a plan stores nothing
        assert "no better than a guess" not in planned
        rough = visitor.post("/studies/new/plan", [*coarse, ("set.tau", "0.5")]).text
        assert '<p class="notice warn">tau 0.5 is no better than a guess without data' in rough
        to = visitor.post("/studies/new/submit", [*fields, ("once", once[1])]).headers["location"]
        digest = bytes.fromhex(to.removeprefix("/studies/"))
        signed = store.study(digest)
        assert signed is not None
        verify_study(signed)
        assert signed.public_key == public(KEYS[Role.ANALYST])
        assert decode_study(signed.study).purpose == HOSTILE.strip()
        text = visitor.get(to).text
        assert "signed and submitted" in text
        assert "<script>alert" not in text


def test_without_an_epsilon_the_least_that_suffices_is_shown_and_nothing_is_stored() -> None:
    store = SqliteStore.in_memory()
    fields = [
        (name, value)
        for name, value in FIELDS
        if name not in ("every", "epochs", "start", "epsilon", "set.tau", "least_answers")
    ]
    with console_of(Role.ANALYST, store) as visitor:
        visitor.log_in()
        visitor.get("/studies/new")
        before = store.studies()
        planned = visitor.post("/studies/new/plan", [*fields, ("set.tau", "0.4")]).text
        shown = re.search(r"Epsilon ([0-9.]+) is the least of the grid", planned)
        assert shown is not None, planned
        assert f'epsilon = "{shown[1]}"' in unescape(planned)  # the TOML that is shown
        assert "Users needed by epsilon" in planned
        open_tau = visitor.post("/studies/new/plan", fields).text
        assert "a tolerance (tau) for each answer of frequency" in open_tau
        fine = visitor.post("/studies/new/plan", [*fields, ("set.tau", "0.0001")]).text
        assert 'role="alert"' in fine
        assert "the plan needs" in fine
        assert store.studies() == before


def connect_of(text: str) -> Aggregator:
    """Connect to the aggregator whose address a page of the console shows."""
    found = re.search(r"127\.0\.0\.1:\d+", text)
    assert found is not None
    return connect(found[0], key=KEYS[Role.ANALYST], now_s=lambda: NOW_S)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("schema", "[", "schema: expected TOML"),
        ("schema", "[fields]\n", "schema: expected a name"),
        ("schema", "/etc/passwd", "schema: expected TOML"),
        ("days", "-1", "days: expected a whole number"),
        ("waves", "9" * 30, "waves: expected a whole number"),
        ("epsilon", "much", "epsilon"),
        ("set.colour", "blue", "colour"),
        ("set.column", "<b>", "column"),
        ("learner", "../frequency", "learner"),
    ],
)
def test_a_field_that_is_wrong_is_named(name: str, value: str, expected: str) -> None:
    with pytest.raises(AskanceError, match=re.escape(expected)):
        definition_of_form(with_field(name, value))


PLAIN = tuple(one for one in FIELDS if one[0] not in ("every", "epochs", "start"))
TYPED = "as it was typed"


@pytest.fixture(scope="module")
def analyst() -> Iterator[Visitor]:
    with console_of(Role.ANALYST) as visitor:
        visitor.log_in()
        yield visitor


@pytest.mark.parametrize(
    ("name", "value", "field", "message"),
    [
        ("schema", "[", "schema", "schema: expected TOML"),
        ("days", "soon", "days", "days: expected a whole number"),
        ("epsilon", "much", "epsilon", "epsilon: expected nats"),
        ("epsilon", "900", "", "express an epsilon of at most"),
        ("set.column", "<b>bold</b>", "set.column", "expected one of the fields habit"),
        ("set.tau", "abc", "set.tau", "tau expects a finite number"),
        ("set.tau", "5", "set.tau", "expected at most 1"),
        ("set.tau", "0.0001", "", "the plan needs"),
        ("beta", "2", "beta", "expected a number between 0 and 1"),
        ("fields", "nope", "fields", "expected one of the fields habit"),
        ("every", "7", "every", "expected days as"),
        ("epochs", "3", "every", "repeat.every: expected a value, got none"),
        ("start", "tomorrow", "start", "expected a time in UTC"),
        ("reports_days", "999999999", "reports_days", "expected 0 to 36600 days"),
        ("tags", "a=b=c", "tags", "expected WORD or KEY=VALUE"),
        ("tags", "nowhere", "", "expected devices tagged nowhere, got none"),
        ("deadline_s", "1", "deadline_s", "expected 7 seconds or more"),
        ("waves", "9999", "waves", "expected 1 to 16"),
        ("least_answers", "99999999", "least_answers", "expected at most 2,000"),
        ("set.colour", "blue", "", "has no parameter"),
    ],
)
def test_a_refused_form_comes_back_with_all_that_was_typed(
    analyst: Visitor, name: str, value: str, field: str, message: str
) -> None:
    """A plan and a submission: the message at its field, and no button to submit."""
    fields = list((dict(PLAIN) | {"purpose": TYPED, name: value}).items())
    for action, status in (("plan", 200), ("submit", 400)):
        once = re.search('name="once" value="([0-9a-f]+)"', analyst.get("/studies/new").text)
        assert once is not None
        answer = analyst.post(f"/studies/new/{action}", [*fields, ("once", once[1])])
        text = unescape(answer.text)
        assert answer.status == status
        reason = re.search('<p id="refused"[^>]*role="alert">(.*?)</p>', text, re.S)
        assert reason is not None
        assert message in reason[1]
        assert re.findall('data-region="error-([^"]+)">[^<]', text) == ([field] if field else [])
        assert text.count('aria-invalid="true"') == bool(field)
        assert re.search('<button id="submit"[^>]* disabled', text)
        for typed, kept in fields:
            if typed not in ("learner", "schema", "set.colour"):
                assert f'name="{typed}" value="{kept}"' in text.replace("\n", " "), typed
        assert ("[fields]" in text) == (name != "schema")


def test_a_form_that_works_can_be_submitted(analyst: Visitor) -> None:
    for path, fields in (("/studies/new", None), ("/studies/new/plan", PLAIN)):
        answer = analyst.get(path) if fields is None else analyst.post(path, fields)
        button = re.search('<button id="submit"[^>]*>', answer.text)
        assert button is not None
        assert "disabled" not in button[0]
        assert 'id="refused"' not in answer.text


def test_a_submission_of_which_no_answer_came_says_so_and_is_kept(
    analyst: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(*_: object, **__: object) -> None:
        raise CallRefused("unreachable", "the aggregator cannot be reached")

    monkeypatch.setattr(Aggregator, "submit_definition", submit)
    once = re.search('name="once" value="([0-9a-f]+)"', analyst.get("/studies/new").text)
    assert once is not None
    answer = analyst.post("/studies/new/submit", [*PLAIN, ("purpose", TYPED), ("once", once[1])])
    assert answer.status == 502
    assert "It is not known whether the study was submitted" in answer.text
    assert f'name="purpose" value="{TYPED}"' in answer.text
    button = re.search('<button id="submit"[^>]*>', answer.text)
    assert button is not None
    assert "disabled" not in button[0]  # it may be submitted again


def test_what_is_typed_is_no_markup(analyst: Visitor) -> None:
    answer = analyst.post("/studies/new/plan", [*FIELDS, ("set.column", "<b>bold</b>")])
    assert "<b>bold" not in answer.text
    assert "&lt;b&gt;bold" in answer.text
    assert analyst.get("/studies/new?learner=%3Cscript%3E").status == 400


@pytest.mark.parametrize("learner", ["frequency", "decision-tree", "k-means"])
def test_labels_are_words_and_stand_beside_what_explains_them(
    analyst: Visitor, learner: str
) -> None:
    text = analyst.get(f"/studies/new?learner={learner}").text
    labels = dict(re.findall('<label for="([^"]+)">([^<]+)</label>', text))
    assert labels["deadline_s"] == "Deadline of a round, in seconds"
    assert labels["epsilon"] == "Privacy budget per user (epsilon), in nats"
    assert labels["schema"] == "Schema of the users&#39; records"
    for name, label in labels.items():
        assert label[0].isupper()
        assert not re.search("[_:]", label), label
        assert re.search(f'aria-describedby="{name}-hint error-{name}"', text)
        assert re.search(f'<small id="{name}-hint">[A-Z].+?</small>', text)
    assert "--epochs" not in text
    assert 'placeholder="NUMBER"' not in text


def test_schemas_that_devices_have_are_offered_and_toml_may_still_be_typed() -> None:
    store = SqliteStore.in_memory()
    store.enrol((b"device %d" % n, bytes([n % 256]) * 32) for n in range(2_000))
    add_poor(store)
    with console_of(Role.ANALYST, store) as visitor:
        visitor.log_in()
        text = unescape(visitor.get("/studies/new?learner=mean").text)
        other = unescape(
            visitor.get(
                "/studies/new?learner=mean&records=keyboards%2C+version+1%2C+of+an+earlier+study"
            ).text
        )
        planned = visitor.post(
            "/studies/new/plan",
            [
                ("learner", "frequency"),
                ("schema", SCHEMA),
                ("set.column", "habit"),
                ("epsilon", "2"),
            ],
        ).text
    assert "<option selected>people, version 1, of an earlier study</option>" in text
    assert (
        'name = "people"\nversion = 1\n\n[fields]\n'
        'age = { type = "integer", low = 17, high = 90 }\n'
        'education = { type = "label", labels = ["school", "college", "university"] }\n'
    ) in text
    assert "inferred from a data file" not in text
    assert 'name = "people"' in other  # an unknown title: the first one
    assert "Users needed" in planned
