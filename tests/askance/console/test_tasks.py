"""Tasks of operators and analysts in a real browser, with the clicks that each takes.

A click is one on a link, a button, or an option of a list; what is typed is not counted.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst.submission import sign_submission
from askance_aggregator.clock import system_now_s
from askance_aggregator.learners.frequency import frequency
from askance_aggregator.server.callers import Role
from askance_aggregator.store import Conclusion, SqliteStore, StudyState
from askance_aggregator.store.register import DeviceSelection
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.queries import Category, Schema
from askance_simulation.populations import Population
from tests.aggregator.server.callers.role_server import KEYS
from tests.askance.console.browser import browser, missing, until
from tests.askance.console.consoles import console_of
from tests.askance.console.whole_service import WholeService, whole_service

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]
USERS, DAY_S = 400, 86_400
LABELS = ("school", "college", "university")
SCHEMA = Schema("people", 1, education=Category(LABELS))
PEOPLE = Population.from_columns(SCHEMA, {"education": [LABELS[n % 3] for n in range(USERS)]})
KEY: Ed25519PrivateKey = KEYS[Role.ADMIN]
WHY = "round 1: expected 50 answers in every group, got 12"
# Purpose, days since its end, and its end.
ENDED = (
    ("Commuting by bicycle", 40, StudyState.FAILED),
    ("Sleep of shift workers", 3, StudyState.FAILED),
    ("Heating in winter", 2, StudyState.DONE),
)


@dataclass(slots=True)
class Visit:
    """A browser at the console's first page, and the clicks of a task."""

    driver: Any
    origin: str
    service: WholeService
    folder: Path
    clicks: int = 0

    def click(self, selector: str, by: str = "css selector") -> None:
        """Click what a reader sees; one click of the task."""
        self.clicks += 1
        self.driver.find_element(by, selector).click()

    def follow(self, text: str) -> None:
        """Click a link of this text."""
        self.click(text, "link text")

    def choose(self, name: str, option: str) -> None:
        """Choose an option of a list; one click of the task."""
        from selenium.webdriver.support.select import Select

        self.clicks += 1
        Select(self.driver.find_element("name", name)).select_by_visible_text(option)

    def type(self, name: str, text: str) -> None:
        self.driver.find_element("name", name).send_keys(text)

    def waits_for(self, text: str) -> None:
        script = "return document.querySelector('main')?.innerText ?? ''"
        until(lambda: text in self.driver.execute_script(script))


@pytest.fixture(scope="module")
def shown() -> Iterator[Visit]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        whole_service(PEOPLE, Path(folder)) as service,
        console_of(Role.ADMIN, aggregator=service.server.address, now_s=system_now_s) as visitor,
        browser(Path(folder, "chromium")) as driver,
    ):
        service.stay_away(())
        fill(service.store)
        driver.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder}
        )
        driver.get(visitor.links[0])
        origin = f"http://{visitor.address}"
        until(lambda: driver.current_url == f"{origin}/")
        yield Visit(driver, origin, service, Path(folder))


def fill(store: SqliteStore) -> None:
    """Add studies that have ended, and give a third of the devices the tag of a site."""
    for purpose, days, state in ENDED:
        study = Study(frequency(SCHEMA.education), SCHEMA, epsilon=1, purpose=purpose)
        signed = sign_submission(study, KEY, now_s=system_now_s)
        digest, ended_s = digest_of(signed.study), system_now_s() - days * DAY_S
        store.add_study(digest, signed)
        store.management.note_submission(digest, ended_s - DAY_S)
        reason = "done" if state is StudyState.DONE else "too-few-respondents"
        message = "" if state is StudyState.DONE else WHY
        store.conclude(digest, Conclusion(state, reason, message, ""), ended_unix_s=ended_s)
    ids = [entry.device_id for entry in store.register.devices(limit=USERS)]
    store.register.tag(DeviceSelection(ids=tuple(ids[: USERS // 3])), ["site=berlin"], [])


@pytest.fixture
def visit(shown: Visit) -> Visit:
    """The first page, before a task."""
    shown.driver.get(f"{shown.origin}/")
    shown.clicks = 0
    return shown


def test_a_study_is_submitted_and_its_result_seen_by_two_clicks(visit: Visit) -> None:
    visit.follow("New study")
    visit.type("purpose", "Schooling of our users")
    visit.waits_for("Users needed")
    visit.click("#submit")
    visit.waits_for("of 400 users asked")
    visit.waits_for("done")
    assert "university" in visit.driver.find_element("css selector", "[data-region=result]").text
    assert visit.driver.find_element("tag name", "h1").text == "Schooling of our users"
    assert visit.clicks == 2


@pytest.mark.parametrize(
    ("name", "wrong", "right", "message"),
    [
        ("set.tau", "5", "0.5", "tau: expected at most 1"),
        ("waves", "99", "2", "waves: expected 1 to 16"),  # behind "More"
    ],
)
def test_the_button_is_off_while_what_is_typed_is_refused(
    visit: Visit, name: str, wrong: str, right: str, message: str
) -> None:
    def field() -> Any:
        return visit.driver.find_element("name", name)

    def is_on() -> bool:
        return bool(visit.driver.find_element("id", "submit").is_enabled())

    visit.follow("New study")
    assert is_on()
    visit.driver.execute_script("document.querySelector('#more')?.setAttribute('open', '')")
    visit.type(name, wrong)
    visit.driver.execute_script("document.querySelector('#more')?.removeAttribute('open')")
    visit.waits_for(message)
    error = visit.driver.find_element("id", f"error-{name}")
    assert (is_on(), field().get_attribute("aria-invalid")) == (False, "true")
    assert (error.is_displayed(), field().get_attribute("value")) == (True, wrong)
    field().clear()
    field().send_keys(right)
    visit.waits_for("Users needed")
    assert (is_on(), field().get_attribute("aria-invalid")) == (True, None)


def test_last_weeks_failed_study_and_why_is_found_by_four_clicks(visit: Visit) -> None:
    visit.follow("Studies")
    visit.choose("state", "failed")
    visit.click(".filters button")
    script = "return document.querySelectorAll('tbody tr').length"
    until(lambda: visit.driver.execute_script(script) == 2)
    rows = visit.driver.find_elements("css selector", "tbody tr")
    assert [row.text.split(" failed")[0] for row in rows] == [
        "Sleep of shift workers",
        "Commuting by bicycle",
    ]
    visit.follow("Sleep of shift workers")
    visit.waits_for(WHY)
    assert visit.clicks == 4


def test_a_site_is_revoked_by_four_clicks(visit: Visit) -> None:
    visit.follow("Devices")
    visit.type("tags", "site=berlin")
    visit.click(".filters button")
    visit.click("#revoke-all")
    visit.waits_for("Revoke 133 devices?")
    visit.click("button.danger")
    visit.waits_for("Revoked 133 devices.")
    assert visit.service.store.register.count().revoked == 133
    assert visit.clicks == 4


def test_a_result_is_exported_by_three_clicks(visit: Visit) -> None:
    visit.follow("Studies")
    visit.follow("Schooling of our users")
    visit.follow("Export")
    until(lambda: any(visit.folder.glob("study-*.json")))
    (path,) = visit.folder.glob("study-*.json")
    assert json.loads(path.read_text())["result"]["state"] == "done"
    assert visit.clicks == 3
