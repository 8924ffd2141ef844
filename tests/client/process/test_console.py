"""The owner's page in a browser, beside a device that runs: a study is approved and charged."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.client.process.conftest import WAIT_S
from tests.client.process.test_consent import PEOPLE, ended, started, waiting

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PROGRAMS = [shutil.which("chromium"), shutil.which("chromedriver")]
FAULTS = """
const faults = [];
if (document.documentElement.scrollWidth > window.innerWidth) faults.push("scrolls sideways");
for (const link of document.querySelectorAll("nav a"))
  if (link.offsetHeight > 60 || link.offsetHeight < 24) faults.push(`menu: ${link.textContent}`);
for (const input of document.querySelectorAll("input:not([type=hidden])"))
  if (!input.labels.length) faults.push(`no label: ${input.id}`);
for (const bar of document.querySelectorAll("svg.bar"))
  if (!/spent, .* left/.test(bar.nextElementSibling.textContent)) faults.push("bare bar");
if (document.querySelectorAll("h1").length !== 1) faults.push("headings");
if (document.querySelector("h3") && !document.querySelector("h2")) faults.push("no h2 above h3");
return faults;
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        None in PROGRAMS or find_spec("selenium") is None,
        reason="needs selenium, and chromium with chromium-driver of the system",
    ),
]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Any]:
    """A browser that has nothing but a new folder."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = PROGRAMS[0] or ""
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'chromium'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(PROGRAMS[1]))
    yield made
    made.quit()


def shown(driver: Any, words: str) -> str:
    """Wait until the page has these words, and return its text.

    A click returns before the page that it leads to is there, and while one page replaces another
    its text cannot be read.
    """
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.support.ui import WebDriverWait

    def read(_: object) -> str:
        found = " ".join(driver.find_element("tag name", "body").text.split())
        return found if words in found else ""

    waiting_for = WebDriverWait(driver, WAIT_S, ignored_exceptions=(WebDriverException,))
    text: str = waiting_for.until(read, f"expected a page with {words!r}")
    return text


def faults(driver: Any) -> list[str]:
    """Breaches of the page's layout and labels, at two widths in both schemes."""
    found = []
    for width in (360, 1_440):
        for scheme in ("light", "dark"):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            for fault in driver.execute_script(FAULTS):
                found.append(f"{driver.title} at {width}, {scheme}: {fault}")
    return found


def requested(driver: Any) -> set[str]:
    """Hosts of all requests that went over a network, loopback included."""
    lines = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
    sent = [line["params"] for line in lines if line["method"] == "Network.requestWillBeSent"]
    urls = [urlsplit(params["request"]["url"]) for params in sent]
    return {url.netloc for url in urls if url.scheme in ("http", "https", "ws", "wss")}


def test_a_study_that_is_approved_on_the_page_is_charged(
    aggregator: Any, folder: Any, driver: Any
) -> None:
    configuration = folder.path / "device.toml"
    given = configuration.read_text()
    asking = 'consent = "ask"\nconsent_wait_s = 1'
    configuration.write_text(given.replace('# consent = "ask"', asking))
    folder.run("enroll", "--token", aggregator.token(PEOPLE))
    asked = aggregator.ask(aggregator.round())
    device = started(folder)
    console = folder.start("console")
    try:
        waiting(folder)
        link = json.loads(console.stdout.readline())["link"]
        driver.get(link)
        shown(driver, "Whole life 0 of 8 nats spent, 8 nats left")
        driver.find_element("link text", "to be tested").click()
        driver.find_element("id", "why").send_keys("fine\n")  # Enter in a field decides nothing
        assert len(folder.run("status")[1]["waiting"]) == 1
        shown(driver, "State waits for the owner")
        breaches = faults(driver)
        driver.find_element("css selector", "button[value=approve]").click()
        shown(driver, "State approved until ")
        (tally,) = asked.result(WAIT_S)
        assert tally.answered == PEOPLE
        for name in ("Policy", "Questions", "Studies", "Budgets"):
            driver.find_element("link text", name).click()
            breaches += faults(driver)
        assert breaches == []
        after = shown(driver, "Whole life 1 of 8 nats spent, 7 nats left")
        asked = "1 nats a Asked Yes or no: your smokes is yes? Formula (smokes == 1) Answered "
        assert asked in after
        driver.find_element("tag name", "body").send_keys("\ue004")  # the key Tab
        assert driver.switch_to.active_element.text == "Skip to the content"
        driver.find_element("css selector", "form[action=end] button").click()
        driver.get(link)
        shown(driver, "Not logged in")
        own = link.split("/login/")[0]
        assert requested(driver) == {own.removeprefix("http://")}
        assert not any("Security Policy" in line["message"] for line in driver.get_log("browser"))
    finally:
        ended(console, signal.SIGINT)
        ended(device, signal.SIGTERM)
    assert (console.returncode, device.returncode) == (0, 0)
