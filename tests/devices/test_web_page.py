"""The page of `examples/web` in a real browser, before a real aggregator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from askance_aggregator.analyst import connect
from askance_aggregator.analyst.client import Aggregator
from askance_aggregator.store import StudyState
from tests.aggregator.server.process.people import SCHEMA
from tests.askance.console import axe
from tests.askance.console.axe import findings
from tests.askance.console.browser import browser, faults, missing, requested
from tests.devices import scripted, web_site
from tests.devices.web_site import PATIENCE_S, Site, until

WIDEN = """
for (const row of document.querySelectorAll("main tr")) {
  for (let column = 0; column < 6; column++) row.append(row.lastElementChild.cloneNode(true));
}
"""
"""More columns in the table of chances, as a question of eight labels has."""
_CANNOT = missing() or axe.missing() or scripted.missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_CANNOT is not None, reason=_CANNOT or ""),
]


class Person:
    """A person before the page."""

    def __init__(self, driver: Any, site: Site) -> None:
        self.driver = driver
        self.site = site

    def sees(self, text: str) -> None:
        """Wait until the page shows a text."""
        until(lambda: text in self.text())

    def text(self) -> str:
        """Return all that the page shows."""
        return str(self.driver.execute_script("return document.body.innerText"))

    def goes(self, place: str) -> None:
        """Follow a link of the menu, and wait for its page."""
        self.driver.execute_script("location.hash = arguments[0]", f"#/{place}")
        here = "return document.querySelector('#menu [aria-current]')?.getAttribute('href')"
        until(lambda: self.driver.execute_script(here) == f"#/{place}")

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def clicks(self, name: str) -> None:
        """Click a button by its name."""
        (button,) = [
            one for one in self.driver.find_elements("css selector", "button") if one.text == name
        ]
        button.click()

    def takes_part(self, token: str) -> None:
        self.sees("Take part")
        self.find("#field-habit").send_keys("zzyzx-yes")
        self.find("#token").send_keys(token)
        self.clicks("Take part")


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    flags = ("--ignore-certificate-errors",)
    with (
        web_site.web_site(tmp_path, SCHEMA) as site,
        browser(tmp_path / "browser", *flags) as driver,
    ):
        driver.get(site.page)
        yield Person(driver, site)


def is_in_window(person: Person, selector: str) -> bool:
    """Return whether all of an element is within the window."""
    return bool(
        person.driver.execute_script(
            """
            const { top, bottom } = document.querySelector(arguments[0]).getBoundingClientRect();
            return top >= 0 && bottom <= window.innerHeight;
            """,
            selector,
        )
    )


def analyst(site: Site) -> Aggregator:
    """Connect as the analyst."""
    ca = str(site.home.authority)
    return connect(site.served.address, key=str(site.home.analyst_key), ca=ca)


def test_a_person_takes_part_approves_and_denies(person: Person) -> None:
    """Nothing is answered before an approval; what was decided outlives the page."""
    site = person.site
    person.sees("Take part")
    person.takes_part("none")
    person.sees("Not enrolled: permission_denied")
    assert person.find("#token").get_attribute("value") == "none"  # to be corrected, or tried again
    person.find("#token").clear()
    person.find("#token").send_keys(site.token())
    person.clicks("Take part")
    person.sees("Saved.")
    person.sees("No study waits.")
    first = site.submitted()
    person.sees("waits for you")
    person.sees("Costs at most 2 nats: of two equally likely values a reader is at most 88 % sure")
    person.find("main a").click()
    person.sees("Chance of each answer, for each true value")
    person.sees("if zzyzx-yes")
    person.sees("Which of zzyzx-yes, zzyzx-no is your habit?")
    with analyst(site) as aggregator:
        assert aggregator.study(first).status().answered == 0
        person.find("#days").send_keys("soon")
        person.clicks("Approve")
        person.sees("days: expected 1 to 3660, got soon")
        until(lambda: is_in_window(person, ".notice"))
        person.clicks("Approve")
        person.sees("Approved. It is answered at the next check-in")
        result = aggregator.study(first).result(timeout_s=PATIENCE_S)
    assert (result.state, result.content["users"]) == (StudyState.DONE, 1)
    person.goes("history")
    person.sees("(randomized)")
    person.driver.refresh()
    person.sees("2 nats")
    second = site.submitted()
    person.goes("studies")
    person.sees("waits for you")
    person.find("main a").click()
    person.sees("Decide")
    person.clicks("Deny")
    person.sees("Denied. What was answered before stays charged.")
    with analyst(site) as aggregator:
        result = aggregator.study(second).result(timeout_s=PATIENCE_S)
    assert result.content["refusals"] == {"not_approved": 1}
    assert result.content["epsilon"]["total_spent_nano_nats"] == 0
    person.goes("")
    person.sees("2 of 8 nats spent, 6 nats left")
    reached = {urlsplit(url).netloc for url in requested(person.driver)}
    assert reached == {site.served.address, urlsplit(site.page).netloc}


def test_the_page_goes_on_offline_and_a_second_tab_waits(person: Person) -> None:
    person.takes_part(person.site.token())
    person.sees("No study waits.")
    person.site.submitted()
    person.sees("waits for you")
    driver = person.driver
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    person.sees("Offline. Your decisions are kept")
    person.find("main a").click()
    person.sees("Decide")
    person.clicks("Approve")
    person.sees("Approved.")
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", {**offline, "offline": False})
    person.goes("history")
    person.sees("(randomized)")
    tab = driver.current_window_handle
    driver.switch_to.new_window("tab")
    driver.get(person.site.page)
    person.sees("Open in another tab")
    other = driver.current_window_handle
    driver.switch_to.window(tab)
    driver.close()
    driver.switch_to.window(other)
    person.sees("2 of 8 nats spent")


def kept(driver: Any) -> dict[str, list[str]]:
    """Paths that the browser keeps for the page, by the name of their cache."""
    found: dict[str, list[str]] = driver.execute_async_script(
        """
        const done = arguments[0], found = {};
        (async () => {
          for (const name of await caches.keys()) {
            const urls = (await (await caches.open(name)).keys()).map(({ url }) => new URL(url));
            found[name] = urls.map(({ pathname, search }) => pathname + search).sort();
          }
          done(navigator.serviceWorker.controller === null ? {} : found);
        })();
        """
    )
    return found


def version(driver: Any) -> str:
    """Return the version of the page that is shown."""
    source = driver.execute_script("return document.querySelector('script').src")
    return urlsplit(str(source)).query


def test_the_page_opens_without_its_server_and_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    flags = ("--ignore-certificate-errors",)
    with browser(tmp_path / "browser", *flags) as driver:
        with web_site.web_site(tmp_path, SCHEMA) as site:
            person = Person(driver, site)
            driver.get(site.page)
            person.takes_part(site.token())
            person.sees("No study waits.")
            first = version(driver)
            until(lambda: list(kept(driver)) == [f"askance-{first}"])
            site.submitted()
            person.sees("waits for you")
            person.find("main a").click()
            person.sees("Decide")
            person.clicks("Approve")
            person.goes("history")
            person.sees("(randomized)")
            settings = web_site.usual(site.home, site.served, SCHEMA)
            web_site.build(tmp_path / "site", {**settings, "title": "Another title"})
            driver.refresh()  # the new page, at once
            person.sees("2 nats")
            second = version(driver)
            assert second != first
            until(lambda: list(kept(driver)) == [f"askance-{second}"])
        assert kept(driver)[f"askance-{second}"] == [
            "/",
            *(f"/{name}?{second}" for name in ("mark.svg", "page.css", "page.js")),
            *(f"/{name}?{second}" for name in ("record_thread.js", "style.css")),
        ]
        for _ in range(2):  # neither page nor aggregator is reached
            driver.get("about:blank")
            driver.get(f"{site.page}#/history")
            person.sees("(randomized)")
            assert version(driver) == second
            person.sees("was not reached")
        person.goes("studies")
        person.sees("approved until")
        person.find("main a").click()
        person.sees("Chance of each answer, for each true value")
        person.clicks("Deny")
        person.sees("Denied. What was answered before stays charged.")
        policy = driver.execute_async_script(
            """
            caches.match(arguments[0]).then((found) =>
              arguments[1](found.headers.get("content-security-policy")));
            """,
            f"record_thread.js?{second}",
        )
        assert policy == "default-src 'none'; frame-ancestors 'none'"  # of the record's thread
        found = [*faults(driver), *findings(driver)]
        assert found == []


REGISTER = """
const done = arguments[0];
(async () => {
  const { serviceWorker } = navigator;
  const given = await serviceWorker.register("service_worker.js", { updateViaCache: "none" });
  const worker = given.installing ?? (await given.update()).installing;
  const look = () => ["activated", "redundant"].includes(worker.state) && done(worker.state);
  worker.addEventListener("statechange", look);
  look();
})().catch((error) => done(String(error)));
"""
"""Registers the service worker that the server has now, and tells its last state."""


STATIC = ("index.html", "page.js", "record_thread.js", "style.css", "page.css", "mark.svg")
"""Files of the page that are kept."""


def test_files_of_another_build_are_not_kept(tmp_path: Path) -> None:
    """A server that copies a new build has an older file beside the new worker for a moment."""
    settings = json.loads((web_site.EXAMPLE / "settings.json").read_text())
    site = tmp_path / "site"
    with web_site.page_server(site) as page, browser(tmp_path / "browser") as driver:
        web_site.build(site, settings)
        driver.get(f"{page}/")
        first = f"askance-{version(driver)}"
        assert driver.execute_async_script(REGISTER) == "activated"
        until(lambda: list(kept(driver)) == [first])
        web_site.build(site, {**settings, "title": "Another title"})
        for name in STATIC:
            newest = (site / name).read_bytes()
            (site / name).write_bytes(newest + b" ")
            assert (name, driver.execute_async_script(REGISTER)) == (name, "redundant")
            assert list(kept(driver)) == [first]
            (site / name).write_bytes(newest)
        assert driver.execute_async_script(REGISTER) == "activated"
        driver.refresh()
        assert list(kept(driver)) == [f"askance-{version(driver)}"] != [first]


def test_every_page_is_accessible_at_both_widths_and_schemes(person: Person) -> None:
    """By the rules of this project's pages and by axe-core, without a finding."""
    found: list[str] = []

    def look() -> None:
        person.driver.execute_script("document.activeElement?.blur()")
        found.extend(faults(person.driver))
        found.extend(f"{person.driver.current_url}: {one}" for one in findings(person.driver))

    look()
    person.takes_part(person.site.token())
    person.sees("No study waits.")
    person.site.submitted()
    person.sees("waits for you")
    look()
    person.find("main a").click()
    person.sees("Decide")
    look()
    person.driver.execute_script(WIDEN)
    found.extend(faults(person.driver))
    person.clicks("Approve")
    person.sees("Approved.")
    look()
    for place in ("history", "studies", "record", "policy"):
        person.goes(place)
        look()
    assert found == []
    logged = [one for one in person.driver.get_log("browser") if one["level"] == "SEVERE"]
    assert logged == []


def test_a_page_that_was_changed_runs_no_other_script(person: Person) -> None:
    """The policy of contents stops scripts in attributes and in text, and other hosts."""
    blocked = person.driver.execute_async_script(
        """
        const done = arguments[0], seen = [];
        document.addEventListener("securitypolicyviolation", (one) => {
          seen.push(one.effectiveDirective);
          if (seen.length === 3) done(seen.sort());
        });
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", "<img src='/x' onerror='window.ran = true'>");
        fetch("https://127.0.0.1:1/").catch(() => {});
        """
    )
    assert blocked == ["connect-src", "script-src-attr", "script-src-elem"]
    assert person.driver.execute_script("return window.ran") is None


def test_a_thread_of_the_page_reaches_nothing(person: Person, tmp_path: Path) -> None:
    """A thread has the policy of its script's answer, and the page's own does not reach it."""
    (tmp_path / "site" / "probe.js").write_text(
        """
        addEventListener("securitypolicyviolation", (one) => postMessage(one.effectiveDirective));
        fetch("https://127.0.0.1:1/").catch(() => setTimeout(() => postMessage("tried"), 1000));
        """
    )
    found = person.driver.execute_async_script(
        """
        const thread = new Worker("probe.js", { type: "module" });
        thread.onmessage = ({ data }) => arguments[0](data);
        """
    )
    assert found == "connect-src"
