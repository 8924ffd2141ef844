"""axe-core finds nothing on any page of the consoles, and finds defects that are planted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.askance.console.axe import findings, missing
from tests.askance.console.browser import browser, until
from tests.askance.console.gallery import Gallery, gallery
from tests.askance.console.open_id import shared_console
from tests.client.cli.test_deciding import Folder
from tests.client.console.conftest import Served
from tests.client.console.test_pages import commit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

_LONG = ("devices", "audit")  # fifty rows cost seconds, and are as the ten of the last page


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    """A browser, in a folder with a short path, for the length of the file."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        browser(Path(folder)) as driver,
    ):
        yield driver


@dataclass(frozen=True, slots=True)
class Looked:
    """A gallery whose administrator has logged in, and its address."""

    gallery: Gallery
    origin: str


@pytest.fixture(scope="module")
def looked(driver: Any) -> Iterator[Looked]:
    with gallery() as shown:
        origin = f"http://{shown.admin.address}"
        driver.get(shown.admin.links[0])
        until(lambda: driver.current_url == f"{origin}/")
        yield Looked(shown, origin)


def test_no_page_of_the_console_has_a_finding(driver: Any, looked: Looked) -> None:
    found = []
    for name, path in looked.gallery.pages.items():
        if name not in _LONG:
            driver.get(looked.origin + path)
            found += findings(driver)
    driver.get(looked.origin + looked.gallery.pages["parity"])
    driver.execute_script("document.querySelector('form[action$=verify] button').click()")
    until(lambda: driver.title.startswith("Verification"))
    found += findings(driver)
    driver.get(looked.origin + "/studies/new")
    driver.find_element("name", "epsilon").send_keys(".5")
    until(lambda: "Users needed" in driver.page_source)  # the plan below the form
    found += findings(driver)
    driver.find_element("name", "set.tau").send_keys("5")
    until(lambda: "expected at most 1" in driver.page_source)  # at its field, and the button is off
    found += findings(driver)
    driver.get(looked.origin + "/devices?tags=site%3Dberlin")
    driver.find_element("id", "revoke-all").click()
    until(lambda: "Change nothing" in driver.page_source)
    found += findings(driver)
    assert found == []


def test_no_page_for_others_has_a_finding(driver: Any, looked: Looked) -> None:
    operator = looked.gallery.operator
    origin = f"http://{operator.address}"
    driver.get(f"{origin}/login?token=0")
    found = findings(driver)
    driver.get(f"{origin}/login")
    found += findings(driver)
    driver.get(operator.links[0])
    until(lambda: driver.current_url == f"{origin}/")
    for path in (looked.gallery.pages["shares"], "/studies/new"):  # without result; another role's
        driver.get(origin + path)
        found += findings(driver)
    assert "Not for your role" in driver.page_source
    assert found == []


def test_no_page_of_a_shared_console_has_a_finding(driver: Any) -> None:
    """Login by an issuer, a refused one, and a study that waits for an approver."""
    before = driver.get_cookies()  # of the gallery, whose host is the same
    with shared_console() as shared:
        origin = f"http://{shared.address}"
        waiting = f"{origin}/studies/{shared.waiting}"

        def log_in(person: str) -> None:
            shared.issuer.person = person
            driver.delete_all_cookies()
            driver.get(f"{origin}/login")
            driver.find_element("partial link text", "Log in with").click()
            until(lambda: f"<strong>oidc {person}</strong>" in driver.page_source)

        driver.get(f"{origin}/login")
        found = findings(driver)
        driver.get(f"{origin}/login/callback?state=x&code=y")
        assert "Not logged in" in driver.page_source
        found += findings(driver)
        log_in("ann")
        for page in (waiting, f"{origin}/studies/new"):
            driver.get(page)
            found += findings(driver)
        assert "holds no key" in driver.page_source
        log_in("bob")
        driver.get(waiting)
        assert "study approve" in driver.page_source
        found += findings(driver)
        driver.get(f"{origin}/devices")  # another role's
        found += findings(driver)
        driver.delete_all_cookies()
        for cookie in before:
            driver.add_cookie(cookie)
    assert found == []


def test_no_page_of_an_owner_has_a_finding(driver: Any, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "device")
    folder.meet(twice=True)
    for number in range(3):
        commit(folder, "", number, 10**8)
    with Served(folder) as served:
        driver.get(f"http://{served.host}/")
        found = findings(driver)  # not logged in
        driver.get(f"http://{served.host}{served.session.link}")
        for name in ("", "history", "studies", "policy", "history?page=0"):
            driver.get(f"http://{served.host}{served.session.path}{name}")
            found += findings(driver)
        driver.get(f"http://{served.host}{served.session.path}studies")
        driver.find_element("css selector", ".cards a").click()
        assert "Decide" in driver.page_source
        found += findings(driver)
    assert found == []


@pytest.mark.parametrize(
    ("rule", "planting"),
    [
        ("label", "find('label[for=purpose]').remove();"),
        ("color-contrast", "find('main .faint').style.color = '#888';"),
        ("scrollable-region-focusable", "find('.drawing').removeAttribute('tabindex');"),
    ],
)
def test_a_defect_that_is_planted_is_found(
    driver: Any, looked: Looked, rule: str, planting: str
) -> None:
    path = looked.gallery.pages["tree"] if "scroll" in rule else "/studies/new"
    driver.get(looked.origin + path)
    driver.execute_script(f"const find = (one) => document.querySelector(one);{planting}")
    assert any(f": {rule}: " in one for one in findings(driver))
