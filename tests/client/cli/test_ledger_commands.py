"""`history` in plain words, `verify` from the kept requests, and the owner's two repairs."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import k_ary_response, randomized_response
from askance_aggregator.queries import category, predicate, real
from askance_client.accounting import parse_epsilon
from askance_client.cli.counters import replace_mark
from askance_client.cli.device import main
from askance_client.cli.home import DeviceHome
from askance_client.codec import digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.ledger import Limits, mark_path
from askance_client.ledger.mark import High
from askance_client.messages import Request, StudyTerms
from askance_client.queries import (
    Bit,
    Category,
    Query,
    Real,
    Schema,
)
from askance_client.randomizers import Randomizer

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
SCHEMA = Schema(
    "person", 1, smoker=Bit(), colour=Category(("red", "green", "blue")), height=Real(0, 4)
)
NOW = 20_000 * 86_400
HALF = parse_epsilon("0.5")
LIFE = parse_epsilon("8")
PURPOSE = "to learn \x1b[2Jwho smokes"
STUDY = sign_study(
    StudyTerms(
        bytes(16),
        "frequency",
        1,
        (),
        SCHEMA,
        LIFE,
        NOW + 10**9,
        PURPOSE,
        fields=tuple(SCHEMA.fields),
    ),
    KEY,
)
ASKED: tuple[tuple[Query, Randomizer], ...] = (
    (predicate(SCHEMA.smoker == 1), randomized_response(HALF)),
    (category(SCHEMA.colour), k_ary_response(3, HALF)),
    (real(SCHEMA.height), randomized_response(HALF)),
)


class NoCoins:
    """Coins that are all zero, so that every answer is the true level."""

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        return (0,) * count


Run = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*words: str) -> tuple[int, dict[str, Any], str]:
        capsys.readouterr()
        code = main([*words, "--json"])
        printed = capsys.readouterr()
        return code, json.loads(printed.out), printed.err

    return command


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    """A device of one user that has answered three questions."""
    (tmp_path / "people.toml").write_text(
        'name = "person"\n[fields]\nsmoker = { type = "bit" }\n'
        'colour = { type = "category", labels = ["red", "green", "blue"] }\n'
        'height = { type = "real", low = 0, high = 4 }\n'
    )
    (tmp_path / "people.csv").write_text("smoker,colour,height\n1,green,2.5\n")
    files = ("--schema", str(tmp_path / "people.toml"), "--data", str(tmp_path / "people.csv"))
    words = ("--aggregator", "127.0.0.1:1", "--analyst", PUBLIC.hex(), "--life-epsilon", "8")
    path = tmp_path / "device"
    code, _, err = run("init", str(path), *words, *files, "--row", "0")
    assert code == 0, err
    answer(path)
    return path


def answer(path: Path, now_s: int = NOW) -> None:
    home = DeviceHome(path)
    file = home.ledgers()
    device = Device(
        schema=SCHEMA,
        record=SCHEMA.encode({"smoker": 1, "colour": "green"}),
        policy=Policy(frozenset({PUBLIC}), LIFE),
        ledger=file.ledger("", home.secret().device().device_id),
        coins=NoCoins(),
        now_s=lambda: now_s,
        examiner=Examiner(),
    )
    assert device.introduce(STUDY) is None
    for query, randomizer in ASKED:
        device.answer(encode_request(Request(digest_of(STUDY.study), 0, 0, query, randomizer)))
    file.close()


def edit(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path / "ledger.sqlite")
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def test_history_says_in_plain_words_what_was_asked_and_answered(
    folder: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    _, history, _ = run("history", str(folder))
    assert [entry["question"] for entry in history["entries"]] == [
        "Yes or no: your smoker is yes?",
        "Which of red, green, blue is your colour?",
        "What is your height, from 0 to 4?",
    ]
    assert {entry["answer"] for entry in history["entries"][:1]} <= {
        "yes (randomized)",
        "no (randomized)",
    }
    assert history["entries"][1]["answer"] in {
        f"{colour} (randomized)" for colour in ("red", "green", "blue")
    }
    assert history["entries"][2]["answer"] in {"0 (randomized)", "4 (randomized)"}
    assert {entry["learner"] for entry in history["entries"]} == {"frequency"}
    assert [entry["sequence"] for entry in history["entries"]] == [1, 2, 3]
    assert main(["history", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "asked     Yes or no: your smoker is yes?" in text
    assert "to learn \\x1b[2Jwho smokes (frequency)" in text
    assert "\x1b" not in text


def test_each_payload_and_study_is_kept_once(folder: Path) -> None:
    answer(folder)
    connection = sqlite3.connect(folder / "ledger.sqlite")
    counts = [
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("payloads", "studies", "postings")
    ]
    connection.close()
    assert counts == [3, 1, 3]


def test_verify_recomputes_every_charge_from_its_request(folder: Path, run: Run) -> None:
    sound = {"checked": 3, "violations": [], "unverifiable": 0, "accepted_breaks": 0}
    assert run("verify", str(folder))[:2] == (0, sound)


@pytest.mark.parametrize(
    ("statement", "values", "message"),
    [
        ("UPDATE postings SET nano_nats = 1 WHERE place = 2", (), "expected a charge of 500000000"),
        (
            "UPDATE postings SET question = ? WHERE place = 2",
            (bytes(32),),
            "digest of the question",
        ),
        ("UPDATE postings SET symbol = x'09' WHERE place = 2", (), "symbol of the request's"),
        (
            "UPDATE payloads SET payload = x'00', size = 1",
            (),
            "expected the request that was charged",
        ),
        ("UPDATE studies SET study = x'00'", (), "expected the study that was charged"),
        ("UPDATE postings SET at_s = 1 WHERE place = 2", (), "row 2: expected the hash"),
        ("UPDATE postings SET hash = zeroblob(32) WHERE place = 2", (), "row 3: expected the hash"),
    ],
)
def test_verify_finds_a_row_that_was_changed(
    folder: Path, run: Run, statement: str, values: tuple[object, ...], message: str
) -> None:
    edit(folder, statement, *values)
    code, result, _ = run("verify", str(folder))
    assert code == 1
    assert any(message in line for line in result["violations"]), result["violations"]


_OTHER = {"INTEGER": "{0} + 1", "TEXT": "{0} || 'x'", "BLOB": "zeroblob(32)"}


def test_verify_finds_an_edit_of_any_column(folder: Path, tmp_path: Path, run: Run) -> None:
    """An edit is refused by the file, by its mark or by verify, or is counted as unverifiable."""
    connection = sqlite3.connect(folder / "ledger.sqlite")
    columns = [
        (table, name, kind, key)
        for table, key in (("postings", "place"), ("payloads", "digest"), ("studies", "digest"))
        for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall()
    ]
    keys = {
        table: [row[0] for row in connection.execute(f"SELECT {key} FROM {table}")]
        for table, _, _, key in columns
    }
    connection.close()
    missed = []
    for table, name, kind, key in columns:
        copy = tmp_path / f"{table}-{name}"
        shutil.copytree(folder, copy)
        with suppress(sqlite3.IntegrityError):
            edit(
                copy,
                f"UPDATE {table} SET {name} = {_OTHER[kind].format(name)} WHERE {key} = ?",
                keys[table][len(keys[table]) // 2],
            )
            code, result, _ = run("verify", str(copy))
            if code == 0 and not result["unverifiable"]:
                missed.append((table, name))
    assert len(columns) == 20
    assert missed == []


@pytest.mark.parametrize("place", [2, 3, 2**40], ids=["an answer", "the last", "no row"])
def test_an_accepted_loss_that_is_no_row_hides_nothing(folder: Path, run: Run, place: int) -> None:
    """The number that says up to where breaks were accepted is not in the chain itself."""
    edit(folder, "INSERT INTO facts VALUES ('accepted', ?)", place.to_bytes(8, "big"))
    edit(folder, "UPDATE postings SET at_s = 1 WHERE place = 2")
    code, result, _ = run("verify", str(folder))
    assert (code, result["accepted_breaks"]) == (1, 0)
    assert any("row 2: expected the hash" in line for line in result["violations"])


def test_charges_without_their_request_are_counted_as_unverifiable(folder: Path, run: Run) -> None:
    edit(folder, "DELETE FROM payloads")
    code, result, _ = run("verify", str(folder))
    assert (code, result["unverifiable"], result["violations"]) == (0, 3, [])


@pytest.mark.parametrize("command", ["status", "history", "verify", "run"])
def test_a_ledger_older_than_its_mark_is_refused_by_every_command(
    folder: Path, run: Run, command: str
) -> None:
    edit(folder, "DELETE FROM postings WHERE place > 1")
    words = (command, str(folder), "--once") if command == "run" else (command, str(folder))
    code, failure, err = run(*words)
    assert code == 1
    assert "expected row 3, as its mark says, found 1 as the last one" in err
    assert "device accept-loss" in failure["failure"]["message"]


def test_a_folder_without_its_mark_is_refused(folder: Path, run: Run) -> None:
    mark_path(folder / "ledger.sqlite").unlink()
    code, _, err = run("status", str(folder))
    assert code == 1
    assert "expected the ledger's mark, found no file" in err


class TestAcceptLoss:
    def test_it_explains_the_risk_and_does_nothing_without_consent(
        self, folder: Path, run: Run
    ) -> None:
        edit(folder, "DELETE FROM postings WHERE place > 1")
        code, _, err = run("accept-loss", str(folder))
        assert code == 2
        assert "the aggregator\nmay lie in order to have the budget charged" in err
        assert "expected --yes" in err
        assert run("status", str(folder))[0] == 1

    def test_it_charges_the_life_budget_whole_and_goes_on(self, folder: Path, run: Run) -> None:
        edit(folder, "DELETE FROM postings WHERE place > 1")
        code, result, _ = run("accept-loss", str(folder), "--yes")
        assert (code, result) == (0, {"members": 1, "life_nano_nats": LIFE})
        assert run("status", str(folder))[1]["spent_nano_nats"] == LIFE
        assert run("history", str(folder))[1]["entries"][-1]["kind"] == "loss"
        code, verified, _ = run("verify", str(folder))
        assert (code, verified["violations"]) == (0, [])

    def test_a_chain_that_was_broken_before_is_no_violation_after(
        self, folder: Path, run: Run
    ) -> None:
        edit(folder, "DELETE FROM postings WHERE place = 2")
        run("accept-loss", str(folder), "--yes")
        code, verified, _ = run("verify", str(folder))
        assert (code, verified["violations"]) == (0, [])
        assert verified["accepted_breaks"] > 0

    def test_one_member_is_named_by_its_device_id(self, folder: Path, run: Run) -> None:
        code, _, err = run("accept-loss", str(folder), "--yes", "--device-id", "00ff")
        assert code == 2
        assert "--device-id: expected the device id of a member, got 00ff" in err
        mine = DeviceHome(folder).secret().device().device_id.hex()
        assert run("accept-loss", str(folder), "--yes", "--device-id", mine)[0] == 0
        assert run("status", str(folder))[1]["spent_nano_nats"] == LIFE


class TestRepairClock:
    def test_it_explains_the_risk_and_does_nothing_without_consent(
        self, folder: Path, run: Run
    ) -> None:
        code, _, err = run("repair-clock", str(folder))
        assert code == 2
        assert "Studies that expired in\nbetween may be answered again" in err

    @pytest.mark.parametrize(("typed", "code"), [("yes", 0), ("y", 2), ("", 2), ("\x1b[2J", 2)])
    def test_at_a_terminal_it_is_confirmed_by_typing_yes(
        self, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
    ) -> None:
        import askance_client.cli.repairing as repairing

        monkeypatch.setattr(repairing, "system_now_s", lambda: NOW - 1_000)
        terminal = io.StringIO(f"{typed}\n")
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", terminal)
        found, _, err = run("repair-clock", str(folder))
        assert found == code
        assert "This cannot be undone.\nType yes to go on: " in err
        assert (f"expected yes, got {typed!r}: nothing was changed" in err) == (code == 2)
        kinds = [entry["kind"] for entry in run("history", str(folder))[1]["entries"]]
        assert ("clock" in kinds) == (code == 0)

    def test_it_is_recorded_in_the_chain(
        self, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import askance_client.cli.repairing as repairing

        monkeypatch.setattr(repairing, "system_now_s", lambda: NOW - 1_000)
        assert run("repair-clock", str(folder), "--yes")[1]["members"] == 1
        file = DeviceHome(folder).ledgers()
        assert file.ledger().totals(bytes(32), 0).last_s == NOW - 1_000
        file.close()
        assert run("history", str(folder))[1]["entries"][-1]["kind"] == "clock"
        assert run("verify", str(folder))[0] == 0


class TestCounter:
    """A folder whose `device.toml` names a counter, and that is put back whole."""

    @pytest.fixture(params=["file", "command"])
    def counted(self, request: pytest.FixtureRequest, folder: Path, run: Run) -> Path:
        setting = str(folder.parent / "counter")
        if request.param == "command":
            script, number = folder.parent / "counter.sh", folder.parent / "number"
            number.write_text("0\n")
            script.write_text(
                'read -r n < "$1"; if [ "$2" -gt "$n" ]; then echo "$2" > "$1"; fi; cat "$1"'
            )
            setting = f"command:sh {script} {number}"
        configuration = folder / "device.toml"
        configuration.write_text(f"counter = '{setting}'\n{configuration.read_text()}")
        assert run("verify", str(folder))[0] == 0
        return folder

    def put_back(self, folder: Path, rows: int) -> None:
        """Make the ledger and its mark those of an earlier time."""
        edit(folder, "DELETE FROM postings WHERE place > ?", rows)
        connection = sqlite3.connect(folder / "ledger.sqlite")
        (ledger,) = connection.execute("SELECT value FROM facts WHERE name = 'id'").fetchone()
        (chained,) = connection.execute(
            "SELECT hash FROM postings WHERE place = ?", (rows,)
        ).fetchone()
        connection.close()
        replace_mark(mark_path(DeviceHome(folder).ledger_path), High(ledger, rows, chained))

    def test_it_is_refused_until_its_owner_accepts_the_loss(self, counted: Path, run: Run) -> None:
        self.put_back(counted, 2)
        assert run("history", str(counted))[0] == 0  # shows, and charges nothing
        for command in ("verify", "run"):
            code, failure, _ = run(command, str(counted), *(["--once"] * (command == "run")))
            assert code == 1
            assert "row 3, as its counter says, found 2" in failure["failure"]["message"]
        code, failure, _ = run("repair-clock", str(counted), "--yes")
        assert code == 1
        code, result, err = run("accept-loss", str(counted), "--yes")
        assert (code, result["members"]) == (0, 1), err
        code, found, _ = run("verify", str(counted))
        assert (code, found["violations"]) == (0, [])

    def test_doctor_says_what_is_wrong(self, counted: Path, run: Run) -> None:
        checks = {one["check"]: one for one in run("doctor", str(counted))[1]["checks"]}
        assert checks["ledger"]["text"].startswith("whole, not behind its counter")
        self.put_back(counted, 2)
        checks = {one["check"]: one for one in run("doctor", str(counted))[1]["checks"]}
        assert "as its counter says" in checks["ledger"]["text"]
        assert checks["ledger"]["help"] == "see `A ledger is refused` in docs/deployment.md"


def test_requests_past_the_bound_are_not_charged(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import askance_client.ledger.sqlite as sqlite
    from askance_client.ledger import Charge, Overrun

    def charge(number: int, study: bytes) -> Charge:
        name = bytes([number]) * 32
        return Charge(name, study, name, NOW, 1, b"y", bytes(100), b"study")

    file = DeviceHome(folder).ledgers()
    ledger, other = file.ledger("a"), file.ledger("b")
    ample = Limits(LIFE, LIFE, LIFE)
    monkeypatch.setattr(sqlite, "MAX_STUDY_PAYLOADS", 200)
    study = b"t" * 32
    outcomes = [ledger.commit(charge(n, study), ample, lambda *_: b"r") for n in (1, 2, 3)]
    assert outcomes == [b"r", b"r", Overrun.SPACE]
    assert other.commit(charge(1, study), ample, lambda *_: b"r") == b"r"  # kept already
    monkeypatch.setattr(sqlite, "MAX_PAYLOADS", 250)
    assert ledger.commit(charge(4, b"u" * 32), ample, lambda *_: b"r") is Overrun.SPACE
    assert ledger.totals(study, 0).life == 2
    file.close()
