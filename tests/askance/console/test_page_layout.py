"""Pages at 1,280 pixels: no table is cut off, charts fill their cards, lists are whole."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.askance.console.browser import browser, missing, show_as, until
from tests.askance.console.gallery import gallery

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

_FAULTS = """
const faults = [];
for (const one of document.querySelectorAll(".scroll")) {
  if (one.scrollWidth > one.clientWidth + 1) faults.push(`cut: ${one.ariaLabel}`);
}
for (const one of document.querySelectorAll(".panel .chart")) {
  const card = one.closest(".panel");
  const style = getComputedStyle(card);
  const inside = card.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  if (one.getBoundingClientRect().width < 0.95 * inside) faults.push("a chart is narrow");
}
for (const one of document.querySelectorAll(".role")) {
  if (one.getClientRects().length !== 1) faults.push("a role is broken");
}
for (const one of document.querySelectorAll("td.broad > br + span")) {
  if (one.getClientRects().length !== 1) faults.push("an address is broken");
}
const middle = one => (box => (box.top + box.bottom) / 2)(one.getBoundingClientRect());
for (const one of document.querySelectorAll(".filters > button + a, .filters > button + p")) {
  const words = document.createRange();
  words.selectNodeContents(one);
  const off = Math.abs(middle(words) - middle(one.previousElementSibling));
  const isBeside = off < one.previousElementSibling.offsetHeight;
  if (isBeside && off > 3) faults.push(`words beside a button are ${off} pixels off`);
}
for (const one of document.querySelectorAll("main li")) {
  if (one.textContent.trim().endsWith(":")) faults.push(`an item is a heading: ${one.textContent}`);
}
return faults;
"""


def test_no_table_is_cut_off_and_charts_fill_their_cards() -> None:
    found = []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        browser(Path(folder)) as driver,
        gallery() as shown,
    ):
        origin = f"http://{shown.admin.address}"
        driver.get(shown.admin.links[0])
        until(lambda: driver.current_url == f"{origin}/")
        for name, path in shown.pages.items():
            driver.get(origin + path)
            show_as(driver, 1_280, "light")
            found += [f"{name}: {fault}" for fault in driver.execute_script(_FAULTS)]
    assert found == []
