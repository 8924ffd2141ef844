"""The console in a real browser: log in, watch, revoke a device, and read every page."""

from __future__ import annotations

from pathlib import Path

import pytest

from askance_aggregator.server.callers import Role
from askance_aggregator.store import AuditEvent, SqliteStore
from askance_aggregator.store.register import DeviceSelection, DeviceState
from tests.aggregator.server.callers import role_server
from tests.aggregator.server.callers.role_server import NOW_S, changed_figures
from tests.askance.console.browser import browser, faults, missing, requested, show_as, until
from tests.askance.console.consoles import console_of

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")
HOSTILE = "<img src=x onerror=document.title='taken'><script>document.title='taken'</script>"


def test_an_operator_logs_in_watches_and_revokes_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore.in_memory()
    store.enrol([(b"device %d" % n, bytes([n]) * 32) for n in range(120)])
    store.register.tag(DeviceSelection(ids=(b"device 7",)), add=("site=berlin",))
    for _ in range(60):
        store.audit.append(AuditEvent(NOW_S, HOSTILE, "admin", HOSTILE, HOSTILE, "", "done"))
    with console_of(Role.OPERATOR, store) as visitor, browser(tmp_path) as driver:
        origin = f"http://{visitor.address}"

        def text(selector: str) -> str:
            found: str = driver.find_element("css selector", selector).text
            return found

        driver.get(visitor.links[0])
        until(lambda: driver.current_url == f"{origin}/")
        until(lambda: text("[data-live-state]") == "Live")
        assert "7" in text("[data-region=fleet]")
        monkeypatch.setattr(role_server, "FIGURES", changed_figures(8_191))
        assert until(lambda: "8,191" in text("[data-region=fleet]")) < 1.5
        found = faults(driver)

        driver.get(f"{origin}/devices")
        found += faults(driver)
        assert len(driver.find_elements("css selector", "tbody tr")) == 50
        driver.find_element("link text", "Next").click()
        until(lambda: "50" in text("tbody tr"))
        driver.get(f"{origin}/devices?tags=site%3Dberlin")
        box = driver.find_element("css selector", "tbody input[name=id]")
        box.send_keys(" ")  # by the keyboard
        driver.find_element("css selector", ".actions button.danger").send_keys("\n")
        until(lambda: "Revoke 1 device?" in driver.page_source)
        found += faults(driver)
        driver.find_element("css selector", "button.danger").send_keys("\n")
        until(lambda: "Revoked 1 device." in driver.page_source)
        assert store.register.show(b"device 7").state is DeviceState.REVOKED
        assert text("tbody .state") == "revoked"

        driver.get(f"{origin}/audit")
        assert driver.title == "Audit log – askance"  # no name of it ran
        assert HOSTILE in text("tbody tr:nth-child(4)")
        assert len(driver.find_elements("css selector", "tbody tr")) == 61  # an action is one row
        row = driver.find_elements("css selector", "tbody tr:first-child > *")
        assert [one.text for one in row[:3]] == ["done", "device revoke 1 by id", "1"]
        show_as(driver, 1_280, "light")
        table = driver.find_element("css selector", ".scroll")
        assert table.get_property("scrollWidth") == table.get_property("clientWidth")
        found += faults(driver)
        driver.find_element("css selector", "form[action='/audit/verify'] button").click()
        until(lambda: "The chain is whole" in driver.page_source)
        assert " UTC" not in text("tbody time")  # the script shows the viewer's zone

        assert found == []
        addresses = requested(driver)
        assert len(addresses) > 10
        assert [one for one in addresses if not one.startswith(f"{origin}/")] == []
        refused = [one["message"] for one in driver.get_log("browser")]
        assert refused == []  # of the policy of contents, and errors of the script
