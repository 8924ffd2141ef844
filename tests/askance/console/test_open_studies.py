"""Pages of studies that are open, repeated or tagged, and their submission."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from askance_aggregator.analyst import CallRefused, StudyHandle
from askance_aggregator.analyst.submission import Every
from askance_aggregator.learners.frequency import frequency
from askance_aggregator.server.callers import Role
from askance_aggregator.store import SqliteStore
from askance_aggregator.store.register import DeviceSelection
from askance_client.queries import Category, Schema
from askance_simulation.populations import Population
from tests.aggregator.server.callers.role_server import NOW_S
from tests.askance.console.consoles import Visitor, console_of
from tests.askance.console.ended_studies import ANALYST, add_run
from tests.askance.console.test_new_study import SCHEMA

ONCE = "once"
FIELDS = {"learner": "frequency", "schema": SCHEMA, "set.column": "habit", "epsilon": "2"}
REPEATED = {"every": "7d", "epochs": "3"}


def store_of_tagged() -> SqliteStore:
    """Devices of which 1,500 of 2,000 have the tags eu and v2."""
    store = SqliteStore.in_memory()
    ids = [b"device %d" % n for n in range(2_000)]
    store.enrol((name, bytes([n % 256]) * 32) for n, name in enumerate(ids))
    for start in range(0, 1_500, 500):
        chosen = DeviceSelection(ids=tuple(ids[start : start + 500]))
        store.register.tag(chosen, ["eu", "v2"], [])
    return store


@pytest.fixture(scope="module")
def analyst() -> Iterator[Visitor]:
    with console_of(Role.ANALYST, store_of_tagged()) as visitor:
        visitor.log_in()
        yield visitor


def once_of(visitor: Visitor) -> str:
    """Load the form and return the text by which its submission is known."""
    found = re.search('name="once" value="([0-9a-f]+)"', visitor.get("/studies/new").text)
    assert found is not None
    return found[1]


def submitted(visitor: Visitor, **changes: str) -> str:
    """Submit a study and return the path of its page."""
    fields = FIELDS | changes | {ONCE: once_of(visitor)}
    return visitor.post("/studies/new/submit", list(fields.items())).headers["location"]


def test_a_repeated_study_in_its_first_epoch_waits_for_no_result(
    analyst: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result that is not there yet would hold a thread of the console for days."""
    path = submitted(analyst, **REPEATED)

    def waited(*_: object, **__: object) -> None:
        raise AssertionError("the result of an open epoch was waited for")

    monkeypatch.setattr(StudyHandle, "result", waited)
    page = analyst.get(path)
    assert page.status == 200
    assert f'data-live="/live{path}"' in page.text  # follows the study, not its first epoch
    assert "No result yet" in page.text
    for number in (1, 2, 99):
        asked = analyst.get(f"{path}?epoch={number}")
        assert asked.status == 200
        assert f'data-live="/live{path}?epoch={number}"' in asked.text


def test_a_repeated_study_that_was_cancelled_before_its_first_epoch_is_shown(
    analyst: Visitor,
) -> None:
    path = submitted(analyst, **REPEATED, start="2027-03-01T08:00Z")
    assert analyst.post(f"{path}/cancel").status == 303
    page = analyst.get(path)
    assert page.status == 200
    assert "No epoch has ended" in page.text


def test_a_result_that_is_deleted_between_two_calls_is_shown_as_deleted(
    analyst: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = submitted(analyst, **REPEATED, start="2027-03-01T08:00Z")
    assert analyst.post(f"{path}/cancel").status == 303

    def result(*_: object, **__: object) -> None:
        raise CallRefused("results-deleted", "study: expected one with results, got one deleted")

    monkeypatch.setattr(StudyHandle, "result", result)
    page = analyst.get(path)
    assert page.status == 200
    assert "The result was deleted" in page.text


def test_a_study_that_asked_no_user_says_so(analyst: Visitor) -> None:
    """The page said that each of 0 users had answered once."""
    path = submitted(analyst, start="2027-03-01T08:00Z")
    assert "A round opens when the study asks its users." in analyst.get(path).text
    assert analyst.post(f"{path}/cancel").status == 303
    ended = analyst.get(path).text
    assert "No user was asked." in ended
    assert "It ended before it asked any user." in ended


def test_a_study_that_expires_after_the_last_year_of_a_calendar_is_shown(
    analyst: Visitor,
) -> None:
    page = analyst.get(submitted(analyst, days="3000000"))
    assert page.status == 200
    assert "after the year 9999" in page.text


def test_a_form_submits_one_study(analyst: Visitor) -> None:
    fields = list((FIELDS | {ONCE: once_of(analyst)}).items())
    tagged_nowhere = [*fields, ("tags", "nowhere")]
    for _ in range(2):  # a refused one may be corrected and submitted
        assert "second time" not in analyst.post("/studies/new/submit", tagged_nowhere).text
    path = analyst.post("/studies/new/submit", fields).headers["location"]
    before = analyst.get("/studies").text
    again = analyst.post("/studies/new/submit", fields)
    assert again.status == 400
    assert "got it a second time" in again.text
    assert path in before
    assert before.count('href="/studies/') == analyst.get("/studies").text.count('href="/studies/')
    without = analyst.post("/studies/new/submit", list(FIELDS.items()))
    assert (without.status, "load it again" in without.text) == (400, True)


def test_a_tagged_study_states_its_tags_and_its_population(analyst: Visitor) -> None:
    fields = FIELDS | {"tags": " v2  eu "}
    planned = analyst.post("/studies/new/plan", list(fields.items())).text
    assert "of 1,500 in its population" in planned
    assert "tags = [&#34;" in planned  # of the definition
    assert 'value="' + " v2  eu " in planned
    page = analyst.get(path := submitted(analyst, tags="v2 eu")).text
    assert "Asks devices tagged <strong>eu</strong>, <strong>v2</strong>." in page
    assert analyst.post(f"{path}/cancel").status == 303
    ended = analyst.get(path).text
    assert "in its population" in ended
    assert "enrolled" not in ended
    assert "Asks devices tagged" not in analyst.get(submitted(analyst)).text


def test_a_schema_with_a_date_is_refused_with_a_page(analyst: Visitor) -> None:
    fields = FIELDS | {"schema": SCHEMA + "\nsince = 2026-11-24\n"}
    page = analyst.post("/studies/new/plan", list(fields.items()))
    assert page.status == 200
    assert "2026-11-24" in page.text
    assert 'role="alert"' in page.text


def test_one_entry_of_the_navigation_is_the_present_one(analyst: Visitor) -> None:
    for path in ("/studies", "/studies/new", submitted(analyst)):
        current = re.findall('href="([^"]+)" aria-current', analyst.get(path).text)
        assert current == ["/studies/new" if path.endswith("new") else "/studies"]


def test_epochs_that_have_ended_are_shown_by_their_numbers_and_after_a_deletion_none() -> None:
    schema, store = Schema("people", 1, habit=Category(("yes", "no"))), store_of_tagged()
    digest = b""
    for place, yes in enumerate((500, 1_500)):
        people = Population.from_columns(schema, {"habit": ["yes"] * yes + ["no"] * (2_000 - yes)})
        digest = add_run(
            store, frequency(schema.habit), people, ANALYST, every=Every(7, 4), place=place
        )
    with console_of(Role.ANALYST, store) as visitor:
        visitor.log_in()
        path = f"/studies/{digest.hex()}"
        for query, least in (("?epoch=1", 20), ("?epoch=2", 70), ("", 70)):
            text = visitor.get(f"{path}{query}").text
            found = re.search(r'>yes</th><td class="number">([0-9.]+) %', text)
            assert found is not None
            assert least < float(found[1]) < least + 10
        assert "No result yet" in visitor.get(f"{path}?epoch=3").text
        assert visitor.post(f"{path}/cancel").status == 303
        for _ in range(100):
            if store.conclusion(digest) is not None:
                break
            time.sleep(0.1)
        assert visitor.get(f"{path}?epoch=1").status == 200
        assert visitor.get(f"{path}?epoch=9").status == 400
        store.retention.delete_results(digest, NOW_S)
        deleted = visitor.get(path)
        assert (deleted.status, "The result was deleted" in deleted.text) == (200, True)
        assert visitor.get(f"{path}/plan").status == 404
