"""Debian's chromium, driven by selenium, without a request to any host but the console."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # a foreign host is not reached
)
PATIENCE_S = 120.0
SCRIPT_S = 120  # a page with many rows is examined for 20 s where nothing else runs
WIDTHS = (360, 1_440)
SCHEMES = ("light", "dark")

_FAULTS = """
const channels = (text) => text.match(/[0-9.]+/g).map(Number);
const light = ([red, green, blue]) => {
  const [r, g, b] = [red, green, blue].map((one) => {
    const part = one / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  for (let one = element; one !== null; one = one.parentElement) {
    const found = channels(getComputedStyle(one).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
const faults = [];
if (document.documentElement.scrollWidth > window.innerWidth) faults.push("scrolls sideways");
for (const name of ["main", "h1"]) {
  if (document.querySelectorAll(name).length !== 1) faults.push(`not one ${name}`);
}
for (const one of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
  if (!one.labels?.length && !one.ariaLabel) faults.push(`no label: ${one.outerHTML}`);
}
for (const one of document.querySelectorAll("button, a, summary")) {
  if (!one.textContent.trim() && !one.ariaLabel) faults.push(`no name: ${one.outerHTML}`);
}
for (const one of document.querySelectorAll("svg.chart")) {
  if (one.getAttribute("role") !== "img" || !one.getAttribute("aria-label")) faults.push("chart");
}
for (const one of document.querySelectorAll("body *")) {
  const floats = ["sticky", "fixed"].includes(getComputedStyle(one).position);
  if (floats && one.offsetWidth > window.innerWidth / 2 && one.offsetHeight > 150) {
    faults.push(`covers the page: ${one.className}`);
  }
}
const seen = new Set(Array.from(document.querySelectorAll("[id]"), (one) => one.id));
if (seen.size !== document.querySelectorAll("[id]").length) faults.push("an id stands twice");
for (const one of document.querySelectorAll("body *")) {
  const own = Array.from(one.childNodes).some((n) => n.nodeType === 3 && n.data.trim());
  const style = getComputedStyle(one);
  if (!own || style.visibility === "hidden" || one.closest(".hidden, title")) continue;
  const text = channels(one.namespaceURI.endsWith("svg") ? style.fill : style.color);
  const [a, b] = [light(text), light(ground(one))].sort((x, y) => y - x);
  const large = parseFloat(style.fontSize) >= 24;
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < (large ? 3 : 4.5)) faults.push(`contrast ${ratio.toFixed(2)}: ${one.outerHTML}`);
}
return faults;
"""
"""Breaches of what every page keeps: labels, names, landmarks, contrast (WCAG 2.2, AA), width."""


def missing() -> str | None:
    """Return why no browser can be driven here; None if one can."""
    if find_spec("selenium") is None:
        return "needs selenium (pip install 'askance[dev]')"
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return "needs chromium and chromium-driver of the system"
    return None


@contextmanager
def browser(folder: Path, *flags: str) -> Iterator[Any]:
    """A driver of a browser that has nothing but a new folder; `flags` are more of its options."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, *flags, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.implicitly_wait(PATIENCE_S)  # an address changes before the page's elements are there
    driver.set_script_timeout(SCRIPT_S)
    try:
        yield driver
    finally:
        driver.quit()


def until(ready: Callable[[], object]) -> float:
    """Wait until something is true; return the seconds that it took.

    While one page replaces another a browser finds no element, or one of the page before: not yet
    true.
    """
    began = time.monotonic()
    while not _is_true(ready):
        assert time.monotonic() - began < PATIENCE_S
        time.sleep(0.02)
    return time.monotonic() - began


def _is_true(ready: Callable[[], object]) -> bool:
    if find_spec("selenium") is None:
        return bool(ready())
    from selenium.common.exceptions import WebDriverException

    try:
        return bool(ready())
    except WebDriverException:
        return False


def show_as(driver: Any, width: int, scheme: str, height: int = 900) -> None:
    """Set the width and the height of the window, in pixels, and the preferred colours."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def faults(driver: Any) -> list[str]:
    """Return how the page breaks the rules of accessible pages, at every width and scheme."""
    found = []
    for width in WIDTHS:
        for scheme in SCHEMES:
            show_as(driver, width, scheme)
            at = f"{driver.current_url} at {width} px, {scheme}"
            found += [f"{at}: {fault}" for fault in driver.execute_script(_FAULTS)]
    return found


def requested(driver: Any) -> list[str]:
    """Return the addresses of all requests over a network since the last call.

    Those of the browser's own pages (chrome:, chrome-untrusted:, ...) are not of a network.
    """
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [one["params"] for one in events if one["method"] == "Network.requestWillBeSent"]
    urls = (one["request"]["url"] for one in sent)
    return [url for url in urls if urlsplit(url).scheme in ("http", "https", "ws", "wss")]
