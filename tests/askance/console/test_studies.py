"""Pages of studies: the list, a study's record and result, its export, and its verification."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from askance.console.pages import study as study_page
from askance.console.pages.studies import PAGE
from askance.console.study_record import record_of
from askance_aggregator.analyst import (
    Aggregator,
    StudyEvent,
    StudyExport,
    StudyHandle,
    connect,
    sign_submission,
    verify_export,
)
from askance_aggregator.server.callers import Role
from askance_aggregator.store import Conclusion, SqliteStore, StudyQuery, StudyState
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_protos.v1 import analyst_pb2 as pb
from tests.aggregator.server.callers.role_server import (
    KEYS,
    NOW_S,
    OWNER,
    SCHEMA,
    learner,
    public,
    served,
)
from tests.askance.console.consoles import Visitor, console_of
from tests.askance.console.ended_studies import add_named, add_parity, add_poor, add_shares


@dataclass(frozen=True, slots=True)
class SeenStudies:
    """Studies of one aggregator by their digests, and a visitor of each role."""

    address: str
    shares: str
    parity: str
    open: str
    visitors: dict[Role, Visitor]


@pytest.fixture(scope="module")
def seen() -> Iterator[SeenStudies]:
    from contextlib import ExitStack

    store = SqliteStore.in_memory()
    store.enrol((b"device %d" % n, bytes([n % 256]) * 32) for n in range(2_000))
    shares, parity = add_shares(store), add_parity(store)
    with served(store) as (address, study), ExitStack() as held:
        visitors = {}
        for role in Role:
            visitors[role] = held.enter_context(console_of(role, aggregator=address))
            visitors[role].log_in()
        yield SeenStudies(
            address, shares.hex(), parity.hex(), digest_of(study.study).hex(), visitors
        )


def test_each_role_lists_the_studies_that_it_may_see(seen: SeenStudies) -> None:
    for role, visitor in seen.visitors.items():
        text = visitor.get("/studies").text
        assert seen.shares in text
        assert (seen.open in text) == (role is not Role.ANALYST)  # another analyst's
        assert ("key begins with" in text) == (role is not Role.ANALYST)
    visitor = seen.visitors[Role.OPERATOR]
    assert seen.open not in visitor.get("/studies?state=done").text
    chosen = visitor.get(f"/studies?analyst={public(OWNER).hex()[:8]}").text
    assert seen.open in chosen
    assert seen.shares not in chosen
    for bad in (
        *("state=%3Cscript%3E", "analyst=zz", "cursor=x", "cursor=00", "sort=<script>"),
        *("since=2027", "until=1970-01-01", "until=2027-13-01", "q=...", "q=" + "a" * 201),
    ):
        answer = visitor.get(f"/studies?{bad}")
        assert (answer.status, "<script>" in answer.text) == (400, False)


DAY_S, FAILED = 86_400, Conclusion(StudyState.FAILED, "too-few-respondents", "few", "")
LISTED = (  # purpose, day of submission and of the end (0: open), users
    ("Sleep of shift workers", 10, 12, 40),
    ("", 11, 0, 2_000),  # its title is "Frequency of habit"
    ("Smoking and sleep", 13, 20, 7),
)


@pytest.fixture(scope="module")
def listed() -> Iterator[Visitor]:
    """An analyst's list of `LISTED`; the days are of January 2027."""
    store, begin_s = SqliteStore.in_memory(), NOW_S // DAY_S * DAY_S - 15 * DAY_S
    for purpose, submitted, ended, users in LISTED:
        study = Study(learner(), SCHEMA, epsilon="2", purpose=purpose)
        signed = sign_submission(study, KEYS[Role.ANALYST], now_s=lambda: NOW_S)
        digest = digest_of(signed.study)
        store.add_study(digest, signed)
        store.management.note_submission(digest, begin_s + submitted * DAY_S)
        store.listing.note_users(digest, users)
        if ended:
            store.conclude(digest, FAILED, ended_unix_s=begin_s + ended * DAY_S)
    with console_of(Role.ANALYST, store) as visitor:
        visitor.log_in()
        yield visitor


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("", "Smoking Frequency Sleep"),
        ("sort=submitted&reversed=1", "Sleep Frequency Smoking"),
        ("sort=title", "Frequency Sleep Smoking"),
        ("sort=users", "Frequency Sleep Smoking"),
        ("sort=users&reversed=1", "Smoking Sleep Frequency"),
        ("sort=ended", "Smoking Sleep"),
        ("q=sleep", "Smoking Sleep"),
        ("q=SLEEP+shift", "Sleep"),
        ("q=leep", ""),
        ("q=habit&state=open", "Frequency"),
        ("state=failed&since=2027-01-15", "Smoking"),
        ("since=2027-01-12", "Smoking Frequency Sleep"),
        ("until=2027-01-10", "Sleep"),
        ("until=2027-01-11", "Frequency Sleep"),
    ],
)
def test_the_list_is_searched_and_sorted(listed: Visitor, query: str, titles: str) -> None:
    text = listed.get(f"/studies?{query}").text
    shown = re.findall('<a href="/studies/[0-9a-f]{64}">([^<]+)</a>', text)
    assert [title.split()[0] for title in shown] == titles.split()
    assert ("No study fits the filter." in text) == (not titles)


def test_a_study_is_found_by_the_first_digits_of_its_id(listed: Visitor) -> None:
    found = re.findall("/studies/([0-9a-f]{64})", listed.get("/studies?q=smoking").text)
    text = listed.get(f"/studies?q={found[0][:10].upper()}").text
    assert re.findall("/studies/([0-9a-f]{64})", text) == found
    assert len(found) == 1


def test_heads_sort_and_reverse_the_list_and_keep_its_filter(listed: Visitor) -> None:
    text = unescape(listed.get("/studies?q=sleep&sort=users").text)
    heads = re.findall('<a class="sort" href="([^"]+)">', text)
    assert heads == [
        "/studies?q=sleep&sort=title",
        "/studies?q=sleep",
        "/studies?q=sleep&sort=ended",
        "/studies?q=sleep&sort=users&reversed=1",
    ]
    assert text.count('aria-sort="descending"') == 1
    row = re.search("Smoking and sleep.*?</tr>", text, re.S)
    assert row is not None
    assert re.findall("datetime=.([-0-9]+)", row[0]) == ["2027-01-13", "2027-01-20"]
    assert '<td class="number">7</td>' in row[0]


def test_the_heading_of_a_study_is_its_title(listed: Visitor) -> None:
    for purpose, title in (("smoking", "Smoking and sleep"), ("habit", "Frequency of habit")):
        list_ = listed.get(f"/studies?q={purpose}&sort=users").text
        path = re.search('<a href="(/studies/[0-9a-f]{64})">', list_)
        assert path is not None
        text = listed.get(path[1]).text
        assert f"<h1>{title}</h1>" in text
        assert f"<title>{title} – askance</title>" in text
        assert "submitted <time" in text


def link_of(text: str, relation: str) -> str:
    """Return the address of a page's link to the next or previous one; empty: it has none."""
    found = re.search(f'rel="{relation}" href="([^"]+)"', text)
    return unescape(found[1]).partition("#")[0] if found else ""


def test_many_studies_are_listed_by_pages() -> None:
    store, signed = SqliteStore.in_memory(), []
    for _ in range(2 * PAGE):
        study = sign_submission(Study(learner(), SCHEMA, epsilon="2"), OWNER, now_s=lambda: NOW_S)
        signed.append(digest_of(study.study).hex())
        store.add_study(bytes.fromhex(signed[-1]), study)
    with console_of(Role.VIEWER, store) as visitor:
        visitor.log_in()
        paths, found = ["/studies"], []
        while paths[-1]:
            text = visitor.get(paths[-1]).text
            found.append(list(dict.fromkeys(re.findall("/studies/([0-9a-f]{64})", text))))
            paths.append(link_of(text, "next"))
        assert [len(page) for page in found] == [PAGE, PAGE, 1]  # and the one that was there
        assert [one for page in found for one in page][1:] == signed[::-1]
        back = visitor.get(link_of(visitor.get(paths[2]).text, "prev")).text
        assert list(dict.fromkeys(re.findall("/studies/([0-9a-f]{64})", back))) == found[1]
        assert 'rel="prev"' not in visitor.get(link_of(back, "prev")).text
        assert found[0][0] in visitor.get(f"/studies?cursor={found[2][0]}").text  # none is older


def test_a_study_shows_its_result_its_rounds_and_its_cost(seen: SeenStudies) -> None:
    text = seen.visitors[Role.ANALYST].get(f"/studies/{seen.shares}").text
    assert text.count("<svg") == 1  # the estimates; of one round a table is enough
    assert "ordinary" in text
    assert "Each of 2,000 users answered once and spent 4.00 of 4.00 nats" in text
    assert "one false report moves it by at most" in text
    ends = re.findall(r'"number">([0-9.]+) %</td><td class="number">([0-9.]+) %</td>', text)
    low, high = ends[1]
    assert 25 < float(low) < 35 < float(high) < 45  # percent, as the estimate beside it
    (decimals,) = {len(end.partition(".")[2]) for pair in ends for end in pair}
    halves = re.findall(r'"number">± ([0-9.]+)<', text)
    assert {len(half.partition(".")[2]) for half in halves} == {decimals}
    assert len(max(halves, key=float).replace(".", "").lstrip("0")) == 2  # digits of the widest
    assert re.search(r"sha256:[0-9a-f]{64}", text)
    parity = seen.visitors[Role.ANALYST].get(f"/studies/{seen.parity}").text
    assert "Mask r of the parity, 4 bits" in parity
    assert "Users asked and answers of 2 rounds" in parity
    assert "data-live" not in parity.replace("data-live-state", "")


def test_a_poor_result_is_called_poor_and_shows_what_its_intervals_support() -> None:
    store = SqliteStore.in_memory()
    store.enrol((b"device %d" % n, bytes([n % 256]) * 32) for n in range(3_000))
    poor = add_poor(store)
    with console_of(Role.ANALYST, store) as visitor:
        visitor.log_in()
        tree, parts, mean = (
            re.sub(r"\s+", " ", visitor.get(f"/studies/{poor[name].hex()}").text)
            for name in ("constant tree", "ranges", "mean")
        )
    assert (
        '<p class="notice warn">No better than guessing: the model is a constant, for so few users'
        " at this epsilon can tell no more. What would help, by the planner: 1,667,107 users"
    ) in tree
    assert tree.count("of this leaf") == 1
    assert "<svg" not in tree
    assert (
        '<p class="notice warn">All 64 intervals contain the true values, jointly, with a'
        " confidence of 95 %. They tell no two of them apart. What would help, by the planner:"
        " 233,884 users"
    ) in parts
    assert parts.index("quartiles (joint intervals)") < parts.index("<svg")
    assert '</div> <p class="faint below">64 rows in the export.</p>' in parts  # below the picture
    assert "Estimate with its interval, within 17 to 90" in mean
    assert '<p class="verdict">The interval contains the true value with a confidence' in mean


def test_a_poor_result_says_the_same_in_python_and_on_the_command_line() -> None:
    store = SqliteStore.in_memory()
    poor = add_poor(store)
    with (
        served(store) as (address, _),
        connect(address, key=KEYS[Role.ANALYST], now_s=lambda: NOW_S) as aggregator,
    ):
        text = str(aggregator.study(poor["constant tree"].hex()).result())
    assert text.count("of this leaf") == 1
    assert (
        "No better than guessing: the model is a constant, for so few users at this epsilon can"
        " tell no more. What would help, by the planner: 1,667,107 users (answers within 0.035"
    ) in text


def test_a_study_is_shown_with_columns_own_names() -> None:
    store = SqliteStore.in_memory()
    store.enrol((b"device %d" % n, bytes([n % 256]) * 32) for n in range(2_000))
    digest = add_named(store).hex()
    with console_of(Role.ANALYST, store) as visitor:
        visitor.log_in()
        text = visitor.get(f"/studies/{digest}").text
    assert "<strong>frequency of Größe &lt;b&gt;, 2,000 users, epsilon 4</strong>" in text
    assert "<dt>May ask about</dt><dd>Größe &lt;b&gt;</dd>" in text
    assert "<code>column = Größe &lt;b&gt;</code>" in text
    assert "Gr__e" not in text


def test_many_rounds_are_shown_by_pages(seen: SeenStudies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_page, "ROUNDS", 1)
    visitor, path = seen.visitors[Role.ANALYST], f"/studies/{seen.parity}"
    number = '<th scope="row" class="number">([0-9]+)</th>'
    last = visitor.get(path).text
    assert "Rounds 2 to 2 of 2" in last
    assert (re.findall(number, last), link_of(last, "next")) == (["2"], "")
    first = visitor.get(link_of(last, "prev")).text
    assert (re.findall(number, first), link_of(first, "prev")) == (["1"], "")
    assert re.findall(number, visitor.get(link_of(first, "next")).text) == ["2"]
    plan = visitor.get(f"{path}/plan").text
    assert (re.findall(number, plan), link_of(plan, "prev")) == (["1"], "")
    assert re.findall(number, visitor.get(link_of(plan, "next")).text) == ["2"]
    for query in ("?from=0", "?from=99"):
        assert re.findall(number, visitor.get(path + query).text) == ["2"]
    assert visitor.get(f"{path}?from=-1").status == 400


def test_a_round_that_broke_off_in_an_epoch_that_ended_is_not_open(seen: SeenStudies) -> None:
    with connect(seen.address, key=KEYS[Role.ANALYST], now_s=lambda: NOW_S) as aggregator:
        export = aggregator.study(seen.parity).fetch()
    event = StudyEvent(state=pb.STUDY_STATE_OPEN, round=1, asked=9, answered=5)  # of the next epoch
    asked_last = max(n for n, line in enumerate(export.lines) if '"questions"' in line)
    begun = replace(export, lines=export.lines[: asked_last + 1])
    last = record_of(begun, event, None).rounds[-1]
    assert (last.is_open, last.answered) == (True, 5)
    last = record_of(begun, event, {"bounds": []}).rounds[-1]
    assert (last.is_open, last.answered) == (False, 0)


def test_the_stream_of_a_study_that_has_ended_ends(seen: SeenStudies) -> None:
    text = seen.visitors[Role.ANALYST].get(f"/live/studies/{seen.shares}").text
    assert text.count("data: ") == 2
    assert text.endswith("event: done\ndata: {}\n\n")


def test_an_operator_sees_progress_and_no_result(seen: SeenStudies) -> None:
    text = seen.visitors[Role.OPERATOR].get(f"/studies/{seen.shares}").text
    assert "done" in text
    assert "<svg" not in text
    assert "ordinary" not in text
    for part in ("/plan", "/export.json"):
        assert seen.visitors[Role.OPERATOR].get(f"/studies/{seen.shares}{part}").status == 403


def test_an_analyst_sees_no_study_of_another(seen: SeenStudies) -> None:
    visitor = seen.visitors[Role.ANALYST]
    for part in ("", "/plan", "/export.json"):
        assert visitor.get(f"/studies/{seen.open}{part}").status == 404
    for part in ("/verify", "/cancel", "/pause", "/resume"):
        assert visitor.post(f"/studies/{seen.open}{part}").status == 404


def test_an_open_study_has_counts_and_no_estimate(seen: SeenStudies) -> None:
    text = seen.visitors[Role.VIEWER].get(f"/studies/{seen.open}").text
    assert "No result yet" in text
    assert f'data-live="/live/studies/{seen.open}"' in text
    assert "Cancel for good" not in text  # a viewer changes nothing


def test_names_in_a_study_that_are_markup_are_shown_as_text(seen: SeenStudies) -> None:
    for path in ("", "/plan"):
        text = seen.visitors[Role.ADMIN].get(f"/studies/{seen.shares}{path}").text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    page = seen.visitors[Role.ADMIN].get(f"/studies/{seen.shares}").text
    assert page.count("&lt;script&gt;alert(1)") >= 2  # purpose and value; a field is a plain word
    assert not re.search(r"<[^>]*\s(?:style|on[a-z]+)=|<style|javascript:", page)


def test_the_export_is_that_of_the_command_line_and_is_verified(
    seen: SeenStudies, tmp_path: Path
) -> None:
    visitor = seen.visitors[Role.ANALYST]
    for digest in (seen.shares, seen.parity):
        answer = visitor.get(f"/studies/{digest}/export.json")
        name = f'attachment; filename="study-{digest[:12]}.json"'
        assert answer.headers["content-disposition"] == name
        with connect(seen.address, key=KEYS[Role.ANALYST], now_s=lambda: NOW_S) as aggregator:
            aggregator.study(digest).export(tmp_path / "own.json")
        assert answer.text == (tmp_path / "own.json").read_text()
        found = verify_export(tmp_path / "own.json")
        text = visitor.post(f"/studies/{digest}/verify").text
        assert "The export holds together" in text
        assert found.transcript in text
        assert all(line.partition("'")[0] in text for line in found.believed)


def test_a_result_is_read_as_a_table(seen: SeenStudies) -> None:
    visitor = seen.visitors[Role.ANALYST]
    path = f"/studies/{seen.shares}/result.csv"
    assert f'href="{path}" download' in visitor.get(f"/studies/{seen.shares}").text
    answer = visitor.get(path)
    assert answer.headers["content-type"].startswith("text/csv")
    with connect(seen.address, key=KEYS[Role.ANALYST], now_s=lambda: NOW_S) as aggregator:
        hypothesis = aggregator.study(seen.shares).result().hypothesis
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert {row["name"]: float(row["high"]) for row in rows} == {
        label: share["high"] for label, share in hypothesis.items()
    }
    parity = visitor.get(f"/studies/{seen.parity}")
    assert "result.csv" not in parity.text
    refused = visitor.get(f"/studies/{seen.parity}/result.csv")
    assert refused.status == 400
    assert "got that of masked-parity" in refused.text


def test_an_export_that_was_changed_is_not_verified() -> None:
    store = SqliteStore.in_memory()
    digest = add_shares(store)
    kept = store.conclusion(digest)
    assert kept is not None
    result = json.loads(kept.result_json)
    result["answers"] += 1
    changed = (json.dumps(result),)
    store._dialect.write(lambda run: run("UPDATE conclusions SET result_json = ?", changed))
    with console_of(Role.ANALYST, store) as visitor:
        visitor.log_in()
        visitor.get("/studies")
        text = visitor.post(f"/studies/{digest.hex()}/verify").text
    assert "does not hold together" in text
    assert "expected answers as replayed" in text


def test_the_plan_stands_beside_what_happened(seen: SeenStudies) -> None:
    text = seen.visitors[Role.ANALYST].get(f"/studies/{seen.parity}/plan").text
    assert "Plan against what happened" in text
    assert text.count('<th scope="row"') == 2


@pytest.mark.parametrize(
    "digest", ["..%2f..%2fetc%2fpasswd", "%2e%2e", "0" * 63, "g" * 64, "%3Cscript%3E", "0" * 8]
)
def test_an_id_that_is_none_is_refused(digest: str, seen: SeenStudies) -> None:
    visitor = seen.visitors[Role.ADMIN]
    for part in ("", "/plan", "/export.json"):
        answer = visitor.get(f"/studies/{digest}{part}")
        assert answer.status == 404
        assert "<script>" not in answer.text
        assert "root:" not in answer.text


def test_the_first_digits_of_a_digest_lead_to_the_study(seen: SeenStudies) -> None:
    visitor = seen.visitors[Role.ANALYST]
    for first in (seen.parity[:8], seen.parity[:9].upper(), seen.parity[:63]):
        for part in ("", "/plan", "/export.json", "?from=1&epoch=2"):
            answer = visitor.get(f"/studies/{first}{part}")
            assert (answer.status, answer.headers["location"]) == (
                303,
                f"/studies/{seen.parity}{part}",
            )
    assert visitor.post(f"/studies/{seen.parity[:8]}/verify").status == 404  # of forms: whole


@pytest.mark.parametrize(
    ("digits", "said"),
    [
        ("01234567", "expected one that begins with 01234567, got none"),
        ("0123456", "expected 8 to 64 hexadecimal digits, got &#39;0123456&#39;"),
        ("0" * 65, "expected 8 to 64 hexadecimal digits, got &#39;0000"),
        ("g" * 64, "expected 8 to 64 hexadecimal digits, got &#39;gggg"),
    ],
)
def test_an_address_of_no_study_shows_what_it_had(
    digits: str, said: str, seen: SeenStudies
) -> None:
    answer = seen.visitors[Role.ADMIN].get(f"/studies/{digits}")
    assert answer.status == 404
    assert "No study at this address" in answer.text
    assert said in answer.text


def test_digits_of_two_studies_name_none_of_them(
    seen: SeenStudies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two digests with eight digits in common are not to be had: the aggregator's count is set."""
    listed = Aggregator.studies_page

    def two(aggregator: Aggregator, query: StudyQuery) -> pb.ListStudiesResponse:
        page = listed(aggregator, query)
        page.extent.fitting = 2
        return page

    monkeypatch.setattr(Aggregator, "studies_page", two)
    answer = seen.visitors[Role.ADMIN].get(f"/studies/{seen.parity[:8]}")
    assert answer.status == 404
    assert f"expected one that begins with {seen.parity[:8]}, got 2" in answer.text


def test_the_state_and_the_record_of_a_study_are_fetched_at_the_same_time(
    seen: SeenStudies, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, calls = threading.Barrier(2, timeout=10), []

    def meeting(call: Callable[[StudyHandle], Any]) -> Callable[[StudyHandle], Any]:
        def called(handle: StudyHandle) -> Any:
            calls.append(call)
            together.wait()
            return call(handle)

        return called

    for name in ("status", "fetch"):
        monkeypatch.setattr(StudyHandle, name, meeting(getattr(StudyHandle, name)))
    monkeypatch.setattr(StudyHandle, "result", lambda *_: pytest.fail("the export has the result"))
    for path in (f"/studies/{seen.shares}", f"/studies/{seen.shares}/plan"):
        calls.clear()
        assert seen.visitors[Role.ANALYST].get(path).status == 200
        assert len(calls) == 2


def test_a_live_page_reads_the_record_again_if_a_round_began_meanwhile(
    seen: SeenStudies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, a record that was read just before the state stayed on the page for a whole round."""
    states, calls = StudyHandle.status, []

    def status(handle: StudyHandle) -> StudyEvent:
        calls.append("status")
        number, found = calls.count("status"), states(handle)
        if number > 3:
            return found  # it has ended
        found.state, found.round = pb.STUDY_STATE_OPEN, min(number, 2)
        return found

    def fetch(handle: StudyHandle, epoch: int = 0) -> StudyExport:
        calls.append("fetch")
        return fetched(handle, epoch)

    fetched = StudyHandle.fetch
    monkeypatch.setattr(StudyHandle, "status", status)
    monkeypatch.setattr(StudyHandle, "fetch", fetch)
    text = seen.visitors[Role.ANALYST].get(f"/live/studies/{seen.shares}").text
    assert "event: done" in text
    assert (calls.count("status"), calls.count("fetch")) == (4, 2)


def test_a_study_is_paused_resumed_and_cancelled() -> None:
    with served() as (address, study), console_of(Role.OPERATOR, aggregator=address) as visitor:
        visitor.log_in()
        path = f"/studies/{digest_of(study.study).hex()}"
        assert "Cancel for good" in visitor.get(path).text
        for change, state in (("pause", "paused"), ("resume", "open"), ("cancel", "cancelled")):
            assert visitor.post(f"{path}/{change}").headers["location"] == path
            assert f"The study is {state}." in visitor.get(path).text
        assert "Cancel for good" not in visitor.get(path).text
