"""The form of a new study: its definition is the command line's, and so are signature and plan."""

from __future__ import annotations

import argparse
import re
from html import unescape
from pathlib import Path

import pytest

from askance.cli.submission import add_study, definition_of
from askance.console.pages.new_study import definition_of_form, table_of_form
from askance.console.routes import ConsoleForm
from askance_aggregator.analyst import Aggregator, connect, read_definition
from askance_aggregator.encoding import encode_study
from askance_aggregator.server.callers import Role
from askance_aggregator.store import SqliteStore
from askance_aggregator.study_options import definition_text
from askance_client.codec import decode_study, verify_study
from askance_client.errors import AskanceError
from tests.aggregator.server.callers.role_server import KEYS, NOW_S, public
from tests.askance.console.consoles import console_of

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


def test_a_form_that_is_wrong_is_shown_again_with_its_values() -> None:
    with console_of(Role.ANALYST) as visitor:
        visitor.log_in()
        visitor.get("/studies/new")
        answer = visitor.post("/studies/new/plan", [*FIELDS, ("set.column", "<b>bold</b>")])
        assert answer.status == 200
        assert 'role="alert"' in answer.text
        assert "<b>bold" not in answer.text
        assert "&lt;b&gt;bold" in answer.text
        refused = visitor.post("/studies/new/submit", [*FIELDS, ("set.column", "nothing")])
        assert refused.status == 400
        assert visitor.get("/studies/new?learner=%3Cscript%3E").status == 400
