"""axe-core in a page of a browser.

The driver evaluates it, as a debugger does, so the page's policy of contents, which allows no
script from elsewhere, neither stops it nor is loosened for it.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.askance.console.browser import SCHEMES, WIDTHS, show_as
from tests.askance.console.browser import missing as no_browser

_PACKAGE = "axe_core_python"
_RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
  (found) => done(found.violations.flatMap((rule) => rule.nodes.map(
    (node) => `${rule.id}: ${rule.impact}: ${rule.help}: ${node.html.slice(0, 200)}`))),
  (error) => done([`axe: ${error}`]),
);
"""
_SHOWN = tuple(zip(WIDTHS, SCHEMES, strict=True))
"""Narrow and light, wide and dark: contrast depends on the scheme, and layout on the width."""


def missing() -> str | None:
    """Return why it cannot be run here; None if it can."""
    if find_spec(_PACKAGE) is None:
        return "needs axe-core (pip install 'askance[dev]')"
    return no_browser()


def findings(driver: Any) -> list[str]:
    """Return the findings in the present page, of any impact, at every width and scheme."""
    found = []
    driver.execute_script(f"{_axe()};window.axe = axe;")
    for width, scheme in _SHOWN:
        show_as(driver, width, scheme)
        at = f"{driver.current_url} at {width} px, {scheme}"
        found += [f"{at}: {text}" for text in driver.execute_async_script(_RUN)]
    return found


@cache
def _axe() -> str:
    """Return the script, which the package brings."""
    spec = find_spec(_PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")
