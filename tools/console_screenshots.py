"""Pictures of every page of both consoles, to be looked at after a change of theirs.

    python tools/console_screenshots.py FOLDER

Each page is taken at 400 and 1,280 pixels, light and dark, with the studies of the tests' gallery.
It needs chromium and chromium-driver of the system, and `pip install 'askance[dev]'`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.askance.console.browser import (  # noqa: E402 - a script is not run from the root
    SCHEMES,
    browser,
    missing,
    show_as,
    until,
)
from tests.askance.console.gallery import Gallery, gallery  # noqa: E402
from tests.client.cli.test_deciding import Folder  # noqa: E402
from tests.client.console.conftest import Served  # noqa: E402
from tests.client.console.test_pages import commit  # noqa: E402

_WIDTHS = (400, 1_280)  # pixels: of a telephone, and of a small computer
_LEAST_HEIGHT, _GREATEST_HEIGHT = 600, 3_000


class Camera:
    """A browser whose pages are taken to files of a folder."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver = driver
        self._folder = folder

    def take(self, name: str, address: str = "") -> None:
        """Open an address, and take the whole page at each width and scheme."""
        if address:
            self.driver.get(address)
        for width in _WIDTHS:
            for scheme in SCHEMES:
                show_as(self.driver, width, scheme, self._height(width, scheme))
                path = self._folder / f"{name.replace(' ', '-')}_{width}_{scheme}.png"
                self.driver.save_screenshot(str(path))

    def arrives(self, address: str) -> None:
        """Wait until the browser was led to an address."""
        until(lambda: self.driver.current_url == address)

    def _height(self, width: int, scheme: str) -> int:
        show_as(self.driver, width, scheme)
        whole = self.driver.execute_script("return document.documentElement.scrollHeight")
        return min(max(int(whole), _LEAST_HEIGHT), _GREATEST_HEIGHT)


def take_console(camera: Camera, shown: Gallery) -> None:
    """Take the console's pages: before a login, of an administrator, and of an operator."""
    driver = camera.driver
    for kind, visitor in (("", shown.admin), ("operator ", shown.operator)):
        origin = f"http://{visitor.address}"
        if not kind:
            camera.take("login", f"{origin}/login")
            camera.take("login refused", f"{origin}/login?token=0")
        driver.get(visitor.links[0])
        camera.arrives(f"{origin}/")
        for name, path in shown.pages.items():
            if not kind or name in ("shares", "new study"):
                camera.take(kind + name, origin + path)
        if not kind:
            driver.get(f"{origin}/studies/new")
            driver.find_element("name", "epsilon").send_keys(".5")
            until(lambda: "Users needed" in driver.page_source)
            camera.take("planned study")
            driver.find_element("name", "set.tau").send_keys("5")
            until(lambda: "expected at most 1" in driver.page_source)
            camera.take("refused study")
            driver.get(f"{origin}/devices?tags=site%3Dberlin")
            driver.find_element("id", "revoke-all").click()
            until(lambda: "Change nothing" in driver.page_source)
            camera.take("revocation to confirm")
            driver.get(origin + shown.pages["parity"])
            driver.find_element("css selector", "form[action$=verify] button").send_keys("\n")
            until(lambda: driver.title.startswith("Verification"))
            camera.take("verified study")


@contextmanager
def owners_page(folder: Path) -> Iterator[Served]:
    """Serve the page of a device with two studies that wait, and a history of two pages."""
    device = Folder(folder / "device")
    device.meet(twice=True)
    for number in range(60):
        commit(device, "", number, 1_000_000 * (number + 1))
    with Served(device) as served:
        yield served


def take_owner(camera: Camera, served: Served) -> None:
    """Take the owner's pages."""
    origin, driver = f"http://{served.host}", camera.driver
    camera.take("owner not logged in", f"{origin}/")
    driver.get(origin + served.session.link)
    for name in ("", "history", "studies", "policy", "history?page=0"):
        title = f"owner {name.replace('?page=0', ' refused') or 'budgets'}"
        camera.take(title, origin + served.session.path + name)
    driver.get(f"{origin}{served.session.path}studies")
    driver.find_element("css selector", ".cards a").click()
    camera.take("owner study")
    driver.find_element("css selector", "button.danger").click()
    camera.take("owner study denied")


def main() -> int:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the pictures are written")
    folder: Path = parser.parse_args().folder
    if (needed := missing()) is not None:
        parser.error(needed)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made,
        browser(Path(made, "chromium")) as driver,
    ):
        camera = Camera(driver, folder)
        with gallery() as shown:
            take_console(camera, shown)
        with owners_page(Path(made)) as served:
            take_owner(camera, served)
    return 0


if __name__ == "__main__":
    sys.exit(main())
