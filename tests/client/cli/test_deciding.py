"""The owner's commands on a stopped device: explain, approve, deny and the forms of a history."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from askance_client.cli.device import main
from askance_client.cli.home import DeviceHome
from askance_client.cli.report import csv_history
from askance_client.codec import digest_of
from askance_client.device import Examiner
from askance_client.device.settling import Due, Settling
from askance_client.ledger import Charge, Limits
from askance_client.messages import Repeat, SignedStudy
from askance_client.owner import ConsentRule, Consents
from askance_client.service import system_now_s
from tests.client.device.conftest import KEY, STRANGER, DeviceSetup

CONFIGURATION = f"""
aggregator = "127.0.0.1:1"
[policy]
analysts = ["{KEY.public_key().public_bytes_raw().hex()}"]
life_epsilon = "8"
day_epsilon = "2"
consent = "ask"
[records]
schema = "people.toml"
data = "people.csv"
row = 0
"""


class Folder:
    """A stopped device that was asked about a study, and answers it when told to."""

    def __init__(self, path: Path) -> None:
        self.path, self.setup = path, DeviceSetup()
        self.setup.now_s = system_now_s()
        self.home = DeviceHome.create(path, CONFIGURATION)
        self.is_asked(self.setup.study(expires=self.setup.now_s + 7 * 86_400))

    def is_asked(self, study: SignedStudy, epoch: int = 0) -> None:
        """Take this study for the one that the device is asked about."""
        self.study, self.name = study, digest_of(study.study).hex()
        self.payload = self.setup.payload(study, epoch=epoch)

    def meet(self, *, answer: bool = False, twice: bool = False) -> None:
        """Let the device be asked; the ledger gets the answer if one is due."""
        consents = Consents.open(self.home.consents_path, ConsentRule.ASK)
        studies = [self.study]
        if twice:
            studies.append(self.setup.study(expires=self.setup.now_s + 7 * 86_400, key=STRANGER))
        examiner = Examiner()
        for signed in studies:
            examined: Any = examiner.study(signed)
            policy: Any = self.setup.device(consent=consents, refresh_days=7)._policy
            ledgers = self.home.ledgers()
            settling = Settling(
                ledgers.ledger(),
                policy,
                examiner,
                {examined.digest: examined},
                set(),
                self.setup.now_s,
            )
            _, settled = settling.settle(self.payload, examiner.known(self.payload))
            assert isinstance(settled, Due) is answer
            if isinstance(settled, Due):
                asked = settled.asked
                charge = Charge(
                    asked.digest,
                    examined.digest,
                    asked.question,
                    settled.at_s,
                    asked.nano_nats,
                    b"\1",
                    self.payload,
                    self.study.study,
                )
                ledgers.ledger().commit(
                    charge, Limits(10**10, 10**10, 10**10), lambda symbol, *_: symbol
                )
            ledgers.close()
        consents.close()


Run = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "device")


@pytest.fixture
def run(folder: Folder, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on the folder; its exit code, its JSON and its standard error."""

    def command(name: str, *words: str) -> tuple[int, dict[str, Any], str]:
        code = main([name, str(folder.path), *words, "--json"])
        printed = capsys.readouterr()
        return code, json.loads(printed.out), printed.err

    return command


def test_a_held_study_is_shown_explained_and_approved(folder: Folder, run: Run) -> None:
    folder.meet()
    _, status, _ = run("status")
    assert [known["study"] for known in status["waiting"]] == [folder.name]
    _, found, _ = run("explain")
    (entry,) = found["explained"]
    assert entry["left"]["life"] == {"left_nano_nats": 8 * 10**9, "of_nano_nats": 8 * 10**9}
    assert entry["left"]["day"]["left_nano_nats"] == 2 * 10**9
    (asked,) = entry["questions"]
    assert (asked["truths"], asked["odds"]) == (["no", "yes"], "1.65")
    assert [row["answer"] for row in asked["answers"]] == ["no", "yes"]
    code, told, _ = run("approve", folder.name[:16], "--days", "3", "--why", "fine")
    assert (code, told["state"], told["why"]) == (0, "approved", "fine")
    assert run("status")[1]["waiting"] == []
    folder.meet(answer=True)
    entry = run("explain", folder.name[:12])[1]["explained"][0]
    assert entry["left"]["day"]["left_nano_nats"] == 1_500_000_000
    assert entry["left"]["life"]["left_nano_nats"] == 7_500_000_000


def test_a_study_is_printed_in_plain_words(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.meet()
    assert main(["explain", str(folder.path)]) == 0
    text = capsys.readouterr().out
    for part in (
        "to be tested (test)",
        "Yes or no: ",
        "0.5 nats: of two equally likely values a reader is at most 62 % sure of the true one",
        "all studies    at most 8 nats: of two equally likely values a reader is at most 99.97",
        "possible answer    if no   if yes",
        "no               62.25 %  37.75 %",
        "left           8 of 8 nats (life), 2 of 2 nats (day), 8 of 8 nats (study)",
    ):
        assert part in text, text


def test_an_owner_is_told_what_all_epochs_of_a_study_cost(
    folder: Folder, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """The budget of a repeated study holds per epoch: alone it is not the most that it costs."""
    index = folder.setup.now_s // (7 * 86_400)
    study = folder.setup.study(
        expires=folder.setup.now_s + 90 * 86_400, budget=5 * 10**8, repeat=Repeat(7, 12, index)
    )
    folder.is_asked(study, index)
    windows = 'window_epsilon = "1"\nwindow_days = 30\nconsent = "ask"'
    folder.home.configuration.write_text(CONFIGURATION.replace('consent = "ask"', windows))
    folder.meet()
    assert main(["status", str(folder.path)]) == 0
    assert "to be tested, at most 6 nats, until " in capsys.readouterr().out
    entry = run("explain", folder.name)[1]["explained"][0]
    assert (entry["epochs"], entry["every_days"]) == (12, 7)
    assert (entry["budget_nano_nats"], entry["course_nano_nats"]) == (5 * 10**8, 6 * 10**9)
    run("approve", folder.name)
    folder.meet(answer=True)
    left = run("explain", folder.name)[1]["explained"][0]["left"]
    assert left["30 days"] == {"left_nano_nats": 5 * 10**8, "of_nano_nats": 10**9}
    assert left["epoch"] == {"left_nano_nats": 0, "of_nano_nats": 5 * 10**8}
    assert left["study"]["left_nano_nats"] == 55 * 10**8
    assert main(["explain", str(folder.path), folder.name]) == 0
    text = capsys.readouterr().out
    for part in (
        "  repeats        12 times, every 7 days, from ",
        "  costs at most  6 nats: of two equally likely values a reader is at most 99.8 % sure",
        "  each time      0.5 nats: of two equally likely values a reader is at most 62 % sure",
    ):
        assert part in text, text


def test_an_undecided_study_of_a_pinned_analyst_is_shown_as_answered(
    folder: Folder, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.meet()
    pinned = CONFIGURATION.replace('consent = "ask"', 'consent = "pinned"')
    folder.home.configuration.write_text(pinned)
    assert run("explain", folder.name)[1]["explained"][0]["state"] == "pinned"
    assert main(["explain", str(folder.path), folder.name]) == 0
    text = capsys.readouterr().out
    assert "answered, because its analyst is pinned" in text
    assert "approve" not in text
    run("deny", folder.name)
    assert run("explain", folder.name)[1]["explained"][0]["state"] == "denied"


def test_a_study_without_end_can_be_shown_and_denied(folder: Folder, run: Run) -> None:
    """An expiry that no calendar has stopped every command that would have shown the study."""
    folder.is_asked(folder.setup.study(expires=(1 << 63) - 1))
    folder.meet()
    assert run("status")[1]["waiting"][0]["expires"] == "9999-12-31T23:59:59Z"
    for command, state in (("explain", "waiting"), ("approve", "approved"), ("deny", "denied")):
        code, found, _ = run(command, folder.name)
        told = found["explained"][0] if command == "explain" else found
        assert (code, told["state"]) == (0, state)


def test_a_request_is_explained_from_the_ledger(folder: Folder, run: Run) -> None:
    folder.meet()
    run("approve", folder.name)
    folder.meet(answer=True)
    folder.home.consents_path.unlink()  # as of a device that answered before there was consent
    request = run("history")[1]["entries"][0]["request"]
    code, found, _ = run("explain", request[:16])
    assert code == 0
    assert found["explained"][0]["questions"][0]["request"] == request


@pytest.mark.parametrize("name", ["12345678", "abc", "-", "zz" * 40])
def test_a_name_of_nothing_is_one_clear_error(folder: Folder, run: Run, name: str) -> None:
    folder.meet()
    for command in ("explain", "approve", "deny"):
        code, failure, err = run(command, name)
        assert (code, err.count("\n")) == (2, 1), command
        assert "first 8 digits" in failure["failure"]["message"]


def test_nothing_is_decided_before_a_study_was_asked_about(folder: Folder, run: Run) -> None:
    code, failure, _ = run("approve", folder.name)
    assert code == 2
    assert "got none yet" in failure["failure"]["message"]
    assert not folder.home.consents_path.exists()


def test_the_same_bytes_by_two_analysts_are_two_studies(folder: Folder, run: Run) -> None:
    folder.meet(twice=True)
    code, failure, _ = run("approve", folder.name)
    assert code == 2
    assert "--analyst" in failure["failure"]["message"]
    key = STRANGER.public_key().public_bytes_raw().hex()
    assert run("approve", folder.name, "--analyst", key)[1]["analyst"] == key
    folder.meet()  # the other one is held as before


def test_consent_days_of_the_configuration_end_an_approval(folder: Folder, run: Run) -> None:
    path = folder.home.configuration
    path.write_text(CONFIGURATION.replace('"ask"', '"ask"\nconsent_days = 1'))
    folder.meet()
    told = run("approve", folder.name)[1]
    assert told["until"] < told["expires"]
    assert run("approve", folder.name, "--days", "2")[1]["until"] > told["until"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('consent = "maybe"', "expected one of pinned, ask"),
        ("consent = true", "expected one of pinned, ask"),
        ("consent_days = 0", "expected a whole number of 1 to 3660"),
    ],
)
def test_a_wrong_setting_is_named(folder: Folder, run: Run, line: str, told: str) -> None:
    folder.home.configuration.write_text(CONFIGURATION.replace('consent = "ask"', line))
    folder.meet()
    code, failure, _ = run("approve", folder.name)
    assert code == 2
    assert told in failure["failure"]["message"]


def test_a_history_is_a_table_of_csv(
    folder: Folder, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.meet()
    run("approve", folder.name)
    folder.meet(answer=True)
    assert main(["history", str(folder.path), "--csv"]) == 0
    (row,) = csv.DictReader(StringIO(capsys.readouterr().out))
    assert (row["nats"], row["study"], row["learner"]) == ("0.5", folder.name, "test")
    assert row["analysts"] == KEY.public_key().public_bytes_raw().hex()
    assert row["answer"] == "yes (randomized)"
    assert int(row["day"]) == folder.setup.now_s // 86_400


def test_a_cell_is_never_a_formula_or_a_control_character() -> None:
    entry = {"time": "t", "day": 1, "kind": "answer", "sequence": 1, "nano_nats": 1, "study": "s"}
    text = csv_history({"entries": [{**entry, "purpose": "=cmd()", "question": "\x1b[2J"}]})
    (row,) = csv.DictReader(StringIO(text))
    assert row["purpose"] == "'=cmd()"
    assert "\x1b" not in text
