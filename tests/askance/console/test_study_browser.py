"""An analyst's pages in a real browser: a plan while one types, a submission, a cancellation."""

from __future__ import annotations

from pathlib import Path

import pytest

from askance_aggregator.server.callers import Role
from askance_aggregator.store import SqliteStore
from tests.askance.console.browser import browser, missing, show_as, until
from tests.askance.console.consoles import console_of
from tests.askance.console.ended_studies import HOSTILE, add_shares

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def test_an_analyst_plans_submits_and_cancels_a_study(tmp_path: Path) -> None:
    store = SqliteStore.in_memory()
    hostile = add_shares(store).hex()
    with console_of(Role.ANALYST, store) as visitor, browser(tmp_path) as driver:
        origin = f"http://{visitor.address}"

        def text() -> str:
            return str(driver.execute_script("return document.body.innerText"))

        def click(selector: str) -> None:
            driver.execute_script("document.querySelector(arguments[0]).click()", selector)

        driver.get(visitor.links[-1])
        until(lambda: driver.current_url == f"{origin}/studies")  # an analyst's first page
        for path in (f"/studies/{hostile}", f"/studies/{hostile}/plan", "/studies"):
            driver.get(origin + path)
            assert "Log out" in text()  # no alert is open, for which it would wait
        driver.get(f"{origin}/studies/{hostile}")
        assert HOSTILE in text()  # purpose and value of a cell, as text
        driver.get(f"{origin}/studies/new")
        assert "No plan yet" in text()
        driver.find_element("name", "epsilon").send_keys(".5")
        until(lambda: "Users needed" in text())
        assert 'epsilon = "1.5"' in text()
        driver.find_element("name", "set.column").send_keys("x")
        until(lambda: "got 'x'" in text())  # the column is empty at first
        driver.find_element("name", "set.column").send_keys("\b")
        until(lambda: "Users needed" in text())
        for width in (360, 1_440):
            show_as(driver, width, "dark")
            wide = driver.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width
        click("button.primary")
        until(lambda: "signed and submitted" in text())
        assert "No result yet" in text()
        until(lambda: "Live" in text())
        click("#cancel summary")
        click("#cancel button")
        until(lambda: "The study is cancelled." in text())
        assert driver.get_log("browser") == []  # of errors, and of the policy of contents
