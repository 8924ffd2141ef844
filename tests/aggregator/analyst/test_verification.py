"""An export is replayed: what holds together passes, whatever was changed is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import askance as ask
from askance_aggregator.analyst import StudyExport, VerificationFailed, verify, verify_export
from askance_aggregator.studies.transcript import MemoryLog, Transcript
from askance_client.errors import InvalidRecord
from tests.aggregator.analyst.conftest import serving

Change = Callable[[dict[str, Any]], None]
SALTED = "that the salts of the leaves are secret: by them, guesses at reports could be checked"
GUESSABLE = (
    "that no reader guesses reports: leaves of an earlier version have no salt, and only the"
    " statement towards the aggregator holds"
)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key().public_bytes_raw()


def test_a_sound_export_is_verified(done: StudyExport, tmp_path: Path) -> None:
    done.write(tmp_path / "study.json")
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]
    found = verify_export(tmp_path / "study.json", [KEY])
    assert (found.state, found.rounds) == ("done", 2)
    assert "the hypothesis" in found.checked
    assert found.to_json()["verified"] is True
    assert len(found.believed) == 4
    assert len(verify(done).believed) == 5  # whose key it is, too
    with pytest.raises(VerificationFailed, match=f"signed by {bytes(32).hex()}, got {KEY.hex()}"):
        verify(done, [bytes(32)])


@pytest.mark.parametrize(("unsalted", "lines"), [([], [SALTED]), ([2, 4], [GUESSABLE]),
                                                  ([2], [GUESSABLE, SALTED])])  # fmt: skip
def test_leaves_without_salts_are_named(
    done: StudyExport, unsalted: list[int], lines: list[str]
) -> None:
    """Transcripts of earlier versions verify; a study may have been asked by two versions."""
    changed = list(done.lines)
    for place in unsalted:
        assert '"salted":true' in changed[place]
        changed[place] = changed[place].replace(',"salted":true', "")
    found = verify(replace(done, lines=tuple(changed), result=None))
    assert (found.state, found.rounds) == ("open", 2)
    assert [line for line in found.believed if "guess" in line] == lines


SMOKERS = ask.Schema("people", 1, smokes=ask.Integer(0, 1))


@pytest.fixture(scope="module")
def share() -> Iterator[StudyExport]:
    """The export of a study of one bit, whose result states a guarantee towards readers."""
    people = ask.Population.from_columns(SMOKERS, {"smokes": [0, 1] * 150})
    study = ask.Study(ask.learners.mean("smokes", missing="default"), SMOKERS, epsilon=1)
    with serving(devices=True, population=people) as served, served.connected() as aggregator:
        handle = aggregator.submit(study)
        handle.result(timeout_s=60)
        yield handle.fetch()


def with_outer(share: StudyExport, **changes: Any) -> StudyExport:
    """Change the guarantee towards readers."""
    result = share.result or {}
    return replace(share, result=result | {"outer": result["outer"] | changes})


def test_a_guarantee_towards_readers_is_recomputed(share: StudyExport) -> None:
    """An earlier version may have bounded it less closely."""
    assert share.result is not None
    outer = share.result["outer"]
    assert 0.1 < outer["epsilon"] < 0.5
    assert (outer["answers"], outer["liars"], outer["delta"]) == (300, 0.01, 1e-6)
    assert verify(share).state == "done"
    line = "the epsilon towards readers, from the randomizers and the answers of every tally"
    assert line in verify(share).checked
    assert verify(with_outer(share, epsilon=1.5 * outer["epsilon"])).state == "done"


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.1},
        {"epsilon": None},
        {"answers": 10**6},
        {"liars": 0},
        {"delta": 0.5},
        {"delta": None},
        {"holds_for": "all"},
    ],
)
def test_a_changed_guarantee_towards_readers_is_found(
    share: StudyExport, changes: dict[str, Any]
) -> None:
    with pytest.raises(VerificationFailed, match="result: expected outer as replayed"):
        verify(with_outer(share, **changes))


def test_guessable_leaves_have_no_guarantee_towards_readers(share: StudyExport) -> None:
    lines = tuple(line.replace(',"salted":true', "") for line in share.lines)
    log = MemoryLog()
    for each in lines:
        log.append(each)
    result = (share.result or {}) | {"transcript": Transcript(log).digest}
    unsalted = replace(share, lines=lines, result=result)
    with pytest.raises(VerificationFailed, match="result: expected outer as replayed"):
        verify(unsalted)
    del result["outer"]
    assert verify(unsalted).state == "done"


def test_a_study_that_is_open_holds_together_so_far(done: StudyExport) -> None:
    for lines, rounds in ((5, 2), (4, 1), (3, 1), (2, 0), (1, 0), (0, 0)):
        found = verify(replace(done, lines=done.lines[:lines], result=None))
        assert (found.state, found.rounds) == ("open", rounds)
        assert "the hypothesis" not in found.checked


def test_a_study_in_waves_holds_together_and_a_wave_left_out_does_not(served: Any) -> None:
    """Two looks a round: as many rounds on record as were asked."""
    with served.connected() as aggregator:
        handle = aggregator.submit(served.study(waves=2))
        handle.result(timeout_s=60)
        export = handle.fetch()
    found = verify(export)
    assert found.state == "done"
    assert found.rounds in (3, 4)
    assert "the hypothesis" in found.checked
    missing = replace(export, lines=(*export.lines[:3], *export.lines[5:]))
    with pytest.raises(VerificationFailed):
        verify(missing)


def line(number: int, change: Callable[[Any], None]) -> Change:
    """Change a line of the transcript."""

    def changed(export: dict[str, Any]) -> None:
        item = json.loads(export["transcript"][number])
        change(item)
        text = json.dumps(item, sort_keys=True, separators=(",", ":"))
        export["transcript"][number] = text

    return changed


def entry(name: str, value: Any) -> Change:
    """Change an entry of the result."""

    def changed(export: dict[str, Any]) -> None:
        assert export["result"][name] != value
        export["result"][name] = value

    return changed


def flip(name: str) -> Change:
    """Change the last digit of something in hexadecimal."""

    def changed(export: dict[str, Any]) -> None:
        export[name] = export[name][:-1] + ("0" if export[name][-1] != "0" else "1")

    return changed


TAMPERED: dict[str, tuple[Change, str]] = {
    "the signature": (flip("signature"), "study: expected its analyst's signature"),
    "the study": (flip("study"), "study: expected its analyst's signature"),
    "the key": (flip("public_key"), "study: expected its analyst's signature"),
    "no line left": (lambda export: export["transcript"].clear(), "expected a header, found no"),
    "a round left out": (
        lambda export: export["transcript"].__delitem__(slice(1, 3)),
        "expected round 1 asked in line 2",
    ),
    "the end left out": (
        lambda export: export["transcript"].__delitem__(slice(3, None)),
        "expected every round recorded, found one missing",
    ),
    "an answer left open": (lambda export: export["transcript"].pop(), "round 2 closed, found it"),
    "a line that is none": (
        lambda export: export["transcript"].append("{}"),
        "expected an event of 'askance transcript v2' at line 6",
    ),
    "the cohorts": (
        line(0, lambda item: item.update(cohort_seed="00" * 32)),
        "expected this study's header",
    ),
    "the confidence": (
        line(0, lambda item: item.update(confidence="1/2")),
        "expected this study's header",
    ),
    "more users": (
        line(0, lambda item: item.update(population=item["population"] + 1)),
        "result: expected transcript as replayed",
    ),
    "a request": (
        line(1, lambda item: item["groups"][0].update(payload=item["groups"][0]["payload"][:-2])),
        "expected",
    ),
    "a charge": (
        line(1, lambda item: item["groups"][0].update(nano_nats=1)),
        "round 1: expected group 0 charged 4000000000 nano-nats, found 1",
    ),
    "who was asked": (
        line(3, lambda item: item["groups"][0].update(start=0)),
        "round 2: expected group 0 among users not asked before",
    ),
    "more than there are": (
        line(3, lambda item: item["groups"][0].update(stop=1_000_000)),
        "round 2: expected group 0 among users not asked before",
    ),
    "one answer more": (
        line(2, lambda item: item["tallies"][0].update(answered=10_000)),
        "round 1: expected at most",
    ),
    "one count": (
        line(2, lambda item: item["tallies"][0]["counts"].reverse()),
        "expected",
    ),
    "a hash": (
        line(2, lambda item: item["tallies"][0].update(root="00" * 32)),
        "result: expected transcript as replayed",
    ),
    "something that is no number": (
        line(2, lambda item: item["tallies"][0].update(counts=["a"])),
        "transcript: expected one that can be replayed",
    ),
    "too few answers": (
        line(4, lambda item: item["tallies"][0].update(answered=0, counts=[0, 0])),
        "round 2: expected at least 1 answers",
    ),
    "the hypothesis": (
        entry("hypothesis", {"r": "0000", "a": 1}),
        "result: expected hypothesis as replayed",
    ),
    "the digest": (entry("transcript", "sha256:0"), "result: expected transcript as replayed"),
    "the state": (entry("state", "open"), "result: expected state among done, failed, cancelled"),
    "done that is called cancelled": (
        lambda export: export["result"].update(
            state="cancelled", reason="cancelled", hypothesis=None
        ),
        "result: expected a study that came to its end, found it cancelled",
    ),
    "a word that does not fit": (
        entry("reason", "cancelled"),
        "result: expected the reason of a study that is done",
    ),
    "a message": (entry("message", "call us"), "result: expected no message of a study that is"),
    "what was promised": (
        entry("privacy", "Nobody has spent anything."),
        "result: expected privacy in the words of its figures",
    ),
    "one figure more": (
        lambda export: export["result"].update(p_value=0.01),
        "result: expected no 'p_value', found one",
    ),
    "what was spent on average": (
        lambda export: export["result"]["epsilon"].update(mean_spent=0.0),
        "result: expected epsilon.mean_spent",
    ),
    "the reason": (entry("reason", "too-few-respondents"), "where, and only where"),
    "an answer that was in order": (
        entry("reason", "invalid-answer"),
        "only where, the learner cannot conclude from its answers",
    ),
    "another study": (entry("study", "00"), "result: expected study as replayed"),
    "the learner": (entry("learner", "mean"), "result: expected learner as replayed"),
    "the number of answers": (entry("answers", 1), "result: expected answers as replayed"),
    "the refusals": (entry("refusals", {"expired": 1}), "result: expected refusals as replayed"),
    "the users": (entry("users", 1), "result: expected users as replayed"),
    "the influence": (entry("influence", []), "result: expected influence as replayed"),
    "the budget": (
        lambda export: export["result"]["epsilon"].update(budget=1.0),
        "result: expected epsilon.budget",
    ),
    "no account": (entry("epsilon", {"budget": 8.0}), "expected epsilon in whole nano-nats"),
    "what was asked for": (
        lambda export: export["result"]["epsilon"].update(max_asked_nano_nats=1),
        "result: expected epsilon.max_asked_nano_nats",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_changed_is_found(done: StudyExport, tmp_path: Path, what: str) -> None:
    change, message = TAMPERED[what]
    path = tmp_path / "study.json"
    done.write(path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(VerificationFailed) as caught:
        verify_export(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected JSON, got other text"),
        ("[" * 100_000, "expected JSON, got other text"),
        ("[]", "expected the format 'askance export v1'"),
        ('{"format": "askance export v2"}', "expected the format"),
        ('{"format": "askance export v1"}', "got no 'public_key'"),
    ],
)
def test_a_file_that_is_no_export(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "study.json"
    path.write_text(content)
    with pytest.raises(InvalidRecord, match=message):
        StudyExport.read(path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("study", "xyz", "study: expected bytes in hexadecimal"),
        ("signature", 5, "signature: expected bytes in hexadecimal"),
        ("transcript", {}, "expected the transcript's lines"),
        ("transcript", [1], "expected the transcript's lines"),
        ("result", [], "expected one object as the result"),
        ("colour", 1, "got 'colour'"),
    ],
)
def test_an_export_with_a_wrong_entry(
    done: StudyExport, tmp_path: Path, name: str, value: Any, message: str
) -> None:
    path = tmp_path / "study.json"
    done.write(path)
    content = json.loads(path.read_text())
    content[name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidRecord, match=message):
        StudyExport.read(path)
