"""A study in a real browser from its form to its result, on 500 devices that call by gRPC."""

from __future__ import annotations

import json
import queue
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from askance.cli import main
from askance_aggregator.analyst import read_definition
from askance_aggregator.clock import system_now_s
from askance_aggregator.encoding import encode_study, sign_study
from askance_aggregator.server.callers import Role
from askance_client.codec import decode_study
from askance_client.service import (
    SERVICE,
    CheckIn,
    Identity,
    device_metadata,
    encode_check_in,
    token_digest,
)
from askance_simulation.populations import masked_parity
from askance_simulation.randomness import Seed
from tests.aggregator.server.callers.role_server import KEYS
from tests.askance.console.browser import browser, missing, requested, until
from tests.askance.console.consoles import console_of
from tests.askance.console.whole_service import WholeService, whole_service, write_key

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]
USERS = 500
PEOPLE = masked_parity(USERS, Seed.of(5), 4)
SCHEMA = """name = "masked-parity"
[fields]
x = { type = "bits", width = 4 }
i = { type = "integer", low = 0, high = 3 }
b = { type = "bit" }
y = { type = "label", labels = ["1", "-1"] }
"""
ADMIN = KEYS[Role.ADMIN]


@dataclass(frozen=True, slots=True)
class Page:
    """A browser at a console."""

    driver: Any
    origin: str

    def open(self, path: str) -> None:
        self.driver.get(self.origin + path)

    def text(self, selector: str = "body") -> str:
        """Return what a reader sees in an element; empty without one."""
        script = "return document.querySelector(arguments[0])?.innerText ?? ''"
        return str(self.driver.execute_script(script, selector))

    def fill(self, name: str, value: str) -> None:
        field = self.driver.find_element("name", name)
        field.clear()
        field.send_keys(value)

    def click(self, selector: str) -> None:
        self.driver.execute_script("document.querySelector(arguments[0]).click()", selector)

    def waits_for(self, text: str, selector: str = "body") -> None:
        until(lambda: text in self.text(selector))

    @property
    def path(self) -> str:
        return str(self.driver.current_url).removeprefix(self.origin)


@dataclass(frozen=True, slots=True)
class Seen:
    """A service, and the page of an administrator who has logged in."""

    service: WholeService
    page: Page


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    # The browser's folder lies outside of pytest's, whose long path its sockets would not fit in.
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        whole_service(PEOPLE, Path(folder)) as service,
        console_of(Role.ADMIN, aggregator=service.server.address, now_s=system_now_s) as visitor,
        browser(Path(folder, "chromium")) as driver,
    ):
        service.stay_away(())
        page = Page(driver, f"http://{visitor.address}")
        driver.get(visitor.links[0])
        until(lambda: page.path == "/")
        yield Seen(service, page)
        addresses = requested(driver)
        assert len(addresses) > 40
        assert [one for one in addresses if not one.startswith(f"{page.origin}/")] == []
        assert driver.get_log("browser") == []  # errors of scripts, and of the policy of contents


def fill_in(page: Page) -> None:
    """Fill in the form of a study of masked parities, until its plan stands below."""
    page.open("/studies/new?learner=masked-parity")
    assert "No plan yet" in page.text()
    page.fill("schema", SCHEMA)
    page.fill("purpose", "which mask the class has")
    page.click("#more summary")
    page.fill("beta", "0.000001")  # a study's nonce, and so its draws, are of this run alone
    page.fill("epsilon", "4")
    page.waits_for("Users needed", "[data-region=plan]")
    page.waits_for('epsilon = "4"', "[data-region=plan]")


def test_a_study_of_two_rounds_is_watched_from_its_form_to_its_result(
    seen: Seen, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, service = seen.page, seen.service
    page.waits_for(f"{USERS}", "[data-region=fleet]")
    until(lambda: f"Devices connected\n{USERS}" in page.text("[data-region=fleet]"))
    service.stay_away(range(USERS // 2, USERS))  # so that a round is seen half way
    fill_in(page)
    page.fill("epsilon", "0.5")  # too little
    page.waits_for("users", "[data-region=submit] .bad")
    page.fill("epsilon", "4")
    page.waits_for("Users needed", "[data-region=plan]")
    planned, definition = page.text("[data-region=plan] dl"), tmp_path / "study.toml"
    definition.write_text(page.text("[data-region=plan] pre"))

    page.click("button.primary")
    page.waits_for("signed and submitted")
    digest = page.path.removeprefix("/studies/")
    page.driver.execute_script("document.body.dataset.loaded = 'once'")
    until(lambda: 0 < progress(page) < 1)
    assert "No result yet" in page.text()
    service.stay_away(())
    page.waits_for("done", "[data-region=progress]")
    page.waits_for("r[0]", "[data-region=result]")
    assert page.text(".live") == "Ended"
    assert page.driver.execute_script("return document.body.dataset.loaded") == "once"
    assert len(page.driver.find_elements("css selector", "#rounds-table tbody tr")) == 2

    signed = service.store.study(bytes.fromhex(digest))
    assert signed is not None
    terms = decode_study(signed.study)
    written_s = terms.expires_unix_s - 7 * 86_400
    of_file = read_definition(definition).terms(terms.nonce, written_s)
    assert encode_study(of_file) == signed.study
    assert sign_study(of_file, ADMIN) == signed
    key = write_key(tmp_path / "admin.pem", ADMIN)
    where = ["--aggregator", service.server.address, "--key", str(key), "--json"]

    def study(*words: str) -> Any:
        assert main(["study", *words, *where]) == 0
        return json.loads(capsys.readouterr().out)

    plan = study("submit", str(definition), "--plan-only")
    assert f"Users needed\n{plan['users_needed']}" in planned
    result = study("result", digest)
    shown = page.text("[data-region=result]").split("\n")
    bits = [f"r[{place}]\t{bit}" for place, bit in enumerate(result["hypothesis"]["r"])]
    assert [line for line in shown if line[:2] in ("r[", "a\t")] == [
        *bits,
        f"a\t{result['hypothesis']['a']}",
    ]
    assert result["transcript"] in page.text("[data-region=record]")
    assert page.text("[data-region=changes]") == ""  # there is nothing left to cancel
    other = study("submit", str(definition), "--wait")  # under a nonce of its own
    assert other["study"] != digest
    assert other["hypothesis"] == result["hypothesis"] == target()
    for name in ("users_asked", "answers", "users"):
        assert other[name] == result[name]


def progress(page: Page) -> float:
    """Return the share of a round's users that have answered, as the page has it."""
    script = "return document.querySelector('[data-region=progress] progress')?.position ?? 0"
    return float(page.driver.execute_script(script))


def target() -> dict[str, Any]:
    """Return the mask that the devices' records have."""
    found: Any = PEOPLE.target
    return {"r": "".join(map(str, found.r)), "a": found.a}


def test_a_study_is_cancelled(seen: Seen) -> None:
    page, service = seen.page, seen.service
    service.stay_away(range(USERS))
    fill_in(page)
    page.click("button.primary")
    page.waits_for("signed and submitted")
    page.waits_for("of 342 users asked", "[data-region=progress]")
    page.click("#cancel summary")
    page.click("#cancel button")
    page.waits_for("The study is cancelled.")
    digest = bytes.fromhex(page.path.removeprefix("/studies/"))
    assert digest not in service.store.listing.open_studies()
    page.open("/studies?state=cancelled")
    assert digest.hex() in page.driver.page_source


def test_a_revoked_device_is_refused(seen: Seen) -> None:
    page, service = seen.page, seen.service
    own = Identity(b"a device of its own", bytes(range(32)))
    service.store.enrol([(own.device_id, token_digest(own.token))])
    with grpc.insecure_channel(service.server.address) as channel:
        held = stream(channel, own)
        assert held.initial_metadata() is not None  # it is accepted
        page.open(f"/devices?id={own.device_id.hex()}")
        assert page.text("tbody .state") == "active"
        page.driver.find_element("css selector", "tbody input[name=id]").send_keys(" ")
        page.click("button.danger")
        page.waits_for("Revoke 1 device?")
        page.click("button.danger")
        page.waits_for("Revoked 1 device.")
        assert page.text("tbody .state") == "revoked"
        for again in (False, True):
            with pytest.raises(grpc.RpcError) as error:
                for _ in stream(channel, own) if again else held:
                    pass
            assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert "got a revoked one" in str(error.value.details())
    page.open("/audit")
    assert "device revoke" in page.text("tbody")


def stream(channel: grpc.Channel, device: Identity) -> Any:
    """Open a device's stream, on which it says that it is there, and nothing more."""
    silence: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    silence.put(encode_check_in(CheckIn(known_studies=(bytes(32),))))
    call: Any = channel.stream_stream(f"/{SERVICE}/Participate")
    return call(iter(silence.get, b""), metadata=device_metadata(device))
