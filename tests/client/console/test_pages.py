"""The owner reads budgets, questions, studies and policy, decides, and exports."""

from __future__ import annotations

import csv
import html
import re
from datetime import timedelta, timezone
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import pytest

from askance_client.cli.folder import ask
from askance_client.console.command import ROWS
from askance_client.console.parts import OwnersView, time_of
from askance_client.errors import InvalidParameter
from askance_client.ledger import Charge, Limits
from tests.client.cli.test_deciding import CONFIGURATION, Folder
from tests.client.console.conftest import Served


def words(text: str) -> str:
    """The text of a page, without tags, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def commit(folder: Folder, member: str, number: int, nano_nats: int) -> None:
    """Charge a member, as for an answer to a question of its own."""
    ledgers = folder.home.ledgers()
    digest = number.to_bytes(32, "big")
    charge = Charge(
        digest,
        bytes.fromhex(folder.name),
        digest,
        folder.setup.now_s,
        nano_nats,
        b"\1",
        folder.payload,
        folder.study.study,
    )
    limits = Limits(10**12, 10**12, 10**12)
    ledgers.ledger(member).commit(charge, limits, lambda symbol, *_: symbol)
    ledgers.close()


def test_an_approval_on_the_page_is_followed_by_its_charge(page: Served) -> None:
    first = words(page.get().text)
    for part in (
        "Whole life 0 of 8 nats spent, 8 nats left",
        "Today (UTC) 0 of 2 nats spent, 2 nats left",
        "to be tested waits for the owner About colour, height, smoker.",
        "No question was charged.",
    ):
        assert part in first, first
    named = page.study()
    study = words(page.get(f"study?{urlencode(named)}").text)
    for part in (
        "Study 0 of 8 nats spent, 8 nats left",
        "Yes or no: your smoker is yes? Formula (smoker == 1) An answer costs",
        "An answer costs 0.5 nats: of two equally likely values a reader is at most 62 % sure",
        "All studies cost at most 8 nats: of two equally likely values a reader is at most 99.97 %",
        "Possible answer if no if yes no 62.25 % 37.75 % yes 37.75 % 62.25 %",
    ):
        assert part in study, study
    found = page.post("decide", verdict="approve", days="3", why="fine", **named)
    assert found.status == 303
    assert found.headers["Location"] == f"{page.session.path}study?{urlencode(named)}"
    state = page.state()
    assert (state["state"], state["why"]) == ("approved", "fine")
    assert words(page.get().text).count("0 of 8 nats spent") == 2
    page.folder.meet(answer=True)
    last = words(page.get().text)
    for part in (
        "Whole life 0.5 of 8 nats spent, 7.5 nats left",
        "Today (UTC) 0.5 of 2 nats spent, 1.5 nats left",
        "Study 0.5 of 8 nats spent, 7.5 nats left",
        "0.5 nats Asked Yes or no: your smoker is yes? Formula (smoker == 1) Answered ",
    ):
        assert part in last, last
    assert 'aria-label="6.25% spent"' in page.get().text


def test_a_denial_and_its_reason_are_shown(page: Served) -> None:
    named = page.study()
    assert page.post("decide", verdict="deny", why="not mine", **named).status == 303
    text = words(page.get(f"study?{urlencode(named)}").text)
    assert "State denied Reason not mine" in text
    assert "No study waits." in words(page.get().text)


BAD_FORMS: list[tuple[dict[str, str], str]] = [
    ({"days": "0"}, "days: expected 1 to 3660, got '0'"),
    ({"days": "x"}, "days: expected 1 to 3660, got 'x'"),
    ({"why": "a" * 201}, "why: expected at most 200 printable characters, got 201"),
    ({"study": "ab" * 32}, "study: expected the first 8 digits"),
    ({"analyst": "zz"}, "analyst: expected hexadecimal digits, got 'zz'"),
    ({"verdict": "both"}, "Bad request"),
]


def test_a_bad_form_names_what_was_expected(page: Served) -> None:
    named = page.study()
    for form, message in BAD_FORMS:
        found = page.post("decide", **{"verdict": "approve", **named, **form})
        assert (found.status, page.state()["state"]) == (400, "waiting"), form
        assert message in words(found.text)


def test_a_page_that_is_not_there_is_not_found(page: Served) -> None:
    for name in ("study", "study?study=", "study?study=abc", "nothing", "Policy"):
        found = page.get(name)
        assert (found.status, "This page does not exist." in found.text) == (404, True), name


def test_the_policy_is_what_the_device_was_given(folder: Folder) -> None:
    policy = 'fields = ["smoker"]\nrefresh = "7d"\nwindow_epsilon = "3"\nconsent_days = 5\n'
    with Served(folder) as served:
        served.log_in()
        plain = words(served.get("policy").text)
        assert "Fields that may be asked all May collect again never" in plain
        text = CONFIGURATION.replace("[policy]\n", f"[policy]\n{policy}")
        folder.home.configuration.write_text(text.replace('refresh = "7 days"', "refresh = 7"))
        shown = words(served.get("policy").text)
        for part in (
            "New studies wait for the owner An approval holds 5 days at most",
            "Fields that may be asked smoker May collect again after 7 days or more",
            "At most per life 8 nats: of two equally likely values a reader is at most 99.97 %",
            "At most per day 2 nats: of two equally likely values a reader is at most 88 %",
            "At most per 30 days 3 nats: of two equally likely values a reader is at most 95 %",
        ):
            assert part in shown, shown
        assert "Last 30 days 0 of 3 nats spent" in words(served.get().text)


def test_a_study_of_a_pinned_analyst_does_not_wait(folder: Folder) -> None:
    folder.meet()
    folder.home.configuration.write_text(CONFIGURATION.replace('consent = "ask"', ""))
    with Served(folder) as served:
        served.log_in()
        text = words(served.get().text)
        assert "No study waits. Budgets of other studies to be tested answered, because" in text


def test_a_long_history_is_paged_newest_first(folder: Folder) -> None:
    for number in range(ROWS + 3):
        commit(folder, "", number, 1_000_000 * (number + 1))
    with Served(folder) as served:
        served.log_in()
        costs = [
            re.findall(r"<strong>([\d.]+) nats</strong>", served.get(f"history?page={page}").text)
            for page in (1, 2, 3)
        ]
        assert [len(found) for found in costs] == [ROWS, 3, 0]
        assert (costs[0][0], costs[1]) == ("0.053", ["0.003", "0.002", "0.001"])
        first, second = served.get("history").text, served.get("history?page=2").text
        assert ("Older" in first, "Newer" in first) == (True, False)
        assert ("Older" in second, "Newer" in second) == (False, True)
        rows = list(csv.DictReader(StringIO(served.get("history.csv").text)))
        assert [row["nats"] for row in rows][:2] == ["0.001", "0.002"]
        assert len(rows) == ROWS + 3


def test_a_member_of_a_gateway_reads_its_own_alone(folder: Folder) -> None:
    folder.meet()
    commit(folder, "anna", 1, 250_000_000)
    commit(folder, "bert", 2, 1_600_000_000)
    with Served(folder, member="anna") as served:
        served.log_in()
        named = served.study()
        pages = [served.get(name) for name in ("", "history", "studies", "policy", "history.csv")]
        pages.append(served.get(f"study?{urlencode(named)}"))
        for found in pages:
            assert found.status == 200
            assert not re.search(r"bert|1\.6\b|6\.4\b|\b0\.4 nats", found.text)
        assert "Whole life 0.25 of 8 nats spent, 7.75 nats left" in words(pages[0].text)
        assert "The gateway's owner decides for all its members." in words(pages[-1].text)
        assert len(pages[4].text.strip().split("\n")) == 2
        assert served.post("decide", verdict="approve", **named).status == 400
        assert served.state()["state"] == "waiting"
        served.post("end")
    with Served(folder) as served:
        served.log_in()
        text = words(served.get().text)
        assert "Each bar shows the member with the least left" in text
        assert "1.6 of 8 nats spent, 6.4 nats left" in text
        assert {"anna", "bert"} <= set(words(served.get("history").text).split())


def test_a_member_does_not_read_the_owners_reason(folder: Folder) -> None:
    folder.meet()
    with Served(folder) as served:
        served.log_in()
        named = served.study()
        served.post("decide", verdict="deny", why="private note", **named)
    with Served(folder, member="anna") as served:
        served.log_in()
        for name in ("", "studies", f"study?{urlencode(named)}"):
            assert "private note" not in served.get(name).text


def test_a_folder_that_cannot_be_used_is_said_so(page: Served) -> None:
    page.folder.home.ledger_path.rename(page.folder.path / "moved")
    found = page.get()
    assert (found.status, "No answer" in found.text) == (503, True)


def test_numbers_and_names_of_the_operations_are_checked(folder: Folder) -> None:
    home = folder.home
    for name, given, message in (
        ("history", {"newest": -1}, "newest: expected a whole number, got -1"),
        ("history", {"newest": True}, "newest: expected a whole number, got True"),
        ("history", {"member": 7}, "member: expected a text, got 7"),
        ("policy", {"member": "m" * 257}, "expected a member's name of at most 256 bytes"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            ask(home, home.configuration, name, given)


def test_times_are_in_the_zone_of_the_machine() -> None:
    view: Any = OwnersView("", zone=timezone(timedelta(hours=2), "CEST"))
    shown = time_of(view, "2026-07-01T23:30:00Z")
    assert shown == '<time datetime="2026-07-01T23:30:00Z">2026-07-02 01:30:00 CEST</time>'
    assert "9999-12-31T23:59:59Z</time>" in time_of(view, "9999-12-31T23:59:59Z")
