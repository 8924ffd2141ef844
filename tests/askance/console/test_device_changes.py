"""Revocation and restoration of devices, which are confirmed with their number."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from askance_aggregator.server.callers import Role
from askance_aggregator.store import SqliteStore
from askance_aggregator.store.register import DeviceSelection, DeviceState, RegisterCount
from tests.askance.console.consoles import Visitor, console_of

Fields = list[tuple[str, str]]
BERLIN, NORTH = "site=berlin", "north"


def id_of(number: int) -> str:
    return (b"device %d" % number).hex()


def ids(*numbers: int) -> Fields:
    return [("id", id_of(number)) for number in numbers]


@pytest.fixture
def shown() -> Iterator[tuple[Visitor, SqliteStore]]:
    """Ten devices: 0 to 5 are of Berlin, 4 to 7 of the north; 5 and 9 are revoked."""
    store = SqliteStore.in_memory()
    store.enrol((b"device %d" % n, bytes([n]) * 32) for n in range(10))
    for tag, numbers in ((BERLIN, range(6)), (NORTH, range(4, 8))):
        chosen = DeviceSelection(ids=tuple(b"device %d" % n for n in numbers))
        store.register.tag(chosen, [tag], [])
    store.register.revoke(DeviceSelection(ids=(b"device 5", b"device 9")))
    with console_of(Role.OPERATOR, store) as visitor:
        visitor.log_in()
        visitor.get("/devices")
        yield visitor, store


def confirmed(text: str) -> Fields:
    """Return the fields of the form that a page asks to confirm."""
    found = re.search(
        '<form method="post" action="/devices/(?:revoke|restore)".*?</form>', text, re.S
    )
    assert found is not None
    hidden = re.findall('type="hidden" name="([a-z_]+)" value="([^"]*)"', found[0])
    return [one for one in hidden if one[0] != "csrf"]


@pytest.mark.parametrize(
    ("verb", "fields", "heading", "already", "notice", "active"),
    [
        ("revoke", ids(0), "Revoke 1 device?", "", "Revoked 1 device.", 7),
        ("revoke", ids(0, 5, 6), "Revoke 2 devices?", "1 device", "Revoked 2 devices.", 6),
        ("revoke", ids(5, 9), "No device to revoke", "2 devices", "", 8),
        (
            "revoke",
            [("all_with", BERLIN)],
            "Revoke 5 devices?",
            "1 device",
            "Revoked 5 devices.",
            3,
        ),
        (
            "revoke",
            [("all_with", f"{BERLIN} {NORTH}")],
            "Revoke 1 device?",
            "1 device",
            "Revoked 1 device.",
            7,
        ),
        ("revoke", [("all_with", "nowhere")], "No device to revoke", "", "", 8),
        ("restore", ids(5, 6), "Restore 1 device?", "1 device", "Restored 1 device.", 9),
        (
            "restore",
            [("all_with", BERLIN)],
            "Restore 1 device?",
            "5 devices",
            "Restored 1 device.",
            9,
        ),
        # Tags say what is meant, whatever boxes are ticked beside.
        ("revoke", [("all_with", NORTH), *ids(0)], "Revoke 3 devices?", "1 device", "Revoked 3", 5),
    ],
)
def test_devices_change_once_their_number_is_confirmed(
    shown: tuple[Visitor, SqliteStore],
    verb: str,
    fields: Fields,
    heading: str,
    already: str,
    notice: str,
    active: int,
) -> None:
    visitor, store = shown
    back = ("back", "/devices?tags=north")
    page = visitor.post(f"/devices/{verb}", [*fields, back])
    assert (page.status, store.register.count().active) == (200, 8)
    assert f"<h1>{heading}</h1>" in page.text
    found = re.search("already, so not changed: ([^<]*)[.]</p>", page.text)
    assert (found[1] if found else "") == already
    button = heading.removesuffix("?")
    assert (f">{button}</button>" in page.text) == bool(notice)
    if not notice:
        return
    done = visitor.post(f"/devices/{verb}", confirmed(page.text))
    assert (done.status, done.headers["location"]) == (303, back[1])
    assert notice in visitor.get("/devices").text
    assert store.register.count() == RegisterCount(active=active, revoked=10 - active, forgotten=0)


def test_a_number_that_has_changed_is_asked_for_again(shown: tuple[Visitor, SqliteStore]) -> None:
    visitor, store = shown
    page = visitor.post("/devices/revoke", [("all_with", BERLIN)])
    store.register.tag(DeviceSelection(ids=(b"device 8",)), [BERLIN], [])
    again = visitor.post("/devices/revoke", confirmed(page.text))
    assert again.status == 200
    assert "<h1>Revoke 6 devices?</h1>" in again.text
    assert "has changed meanwhile. Nothing was revoked." in again.text
    assert store.register.show(b"device 8").state is DeviceState.ACTIVE
    assert visitor.post("/devices/revoke", confirmed(again.text)).status == 303
    assert store.register.show(b"device 8").state is DeviceState.REVOKED


@pytest.mark.parametrize(
    ("fields", "status"),
    [([], 400), ([("id", "zz")], 400), ([("id", "00")], 404), ([("all_with", "a=b=c")], 400)],
)
def test_a_selection_of_no_devices_is_refused(
    shown: tuple[Visitor, SqliteStore], fields: Fields, status: int
) -> None:
    visitor, store = shown
    for more in ([], [("confirmed", "1")]):
        assert visitor.post("/devices/revoke", [*fields, *more]).status == status
    assert store.register.count().active == 8


def test_all_devices_with_tags_are_offered_where_tags_are_searched(
    shown: tuple[Visitor, SqliteStore],
) -> None:
    visitor, _ = shown
    assert "Revoke all" not in visitor.get("/devices").text
    text = visitor.get("/devices?tags=site%3Dberlin").text
    assert 'name="all_with" value="site=berlin"' in text
    assert "Revoke all" in text
