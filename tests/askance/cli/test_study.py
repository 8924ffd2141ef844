"""`askance study`: its JSON, exit codes and terminal output, against a served aggregator."""

from __future__ import annotations

import csv
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc import aio
from pyarrow import parquet

import askance as ask
from askance.cli import main
from askance.cli.main import parser
from askance.cli.study import ORDERS, STATES
from askance.cli.submission import definition_of
from askance_aggregator.analyst import sign_submission
from askance_aggregator.server.devices import AggregatorServer, ServerParts, ServiceFleet, Settings
from askance_aggregator.server.services.analysts import AnalystsServicer
from askance_aggregator.server.studies import StudyManager, SubmissionLimits
from askance_aggregator.store import ListedState, ListOrder, SqliteStore

Run = Callable[..., tuple[int, dict[str, Any], str]]
WAIT_S = 60
STUDY = """
learner = "frequency"
epsilon = "1"
[schema.fields]
smokes = { type = "category", labels = ["yes", "no"] }
[rounds]
deadline_s = 1
least_answers = 0
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with --json: its exit code, the one object it printed, and its stderr."""

    def call(*words: str) -> tuple[int, dict[str, Any], str]:
        code = main(["study", *words, "--json"])
        printed = capsys.readouterr()
        assert printed.out.count("\n") == 1, printed.out
        return code, json.loads(printed.out), printed.err

    return call


@pytest.fixture
def key(run: Run, tmp_path: Path) -> tuple[Path, str]:
    """Return an analyst's key and its public half."""
    path = tmp_path / "analyst.pem"
    code, made, _ = run("key", str(path))
    assert (code, made["file"]) == (0, str(path))
    return path, made["public_key"]


@pytest.fixture
def where(key: tuple[Path, str]) -> Iterator[list[str]]:
    """Provide the options that reach a server whose devices are all away."""
    store = SqliteStore.in_memory()
    store.enrol((b"device %d" % n, hashlib.sha256(b"%d" % n).digest()) for n in range(5_000))
    managers: list[StudyManager] = []
    with ThreadPoolExecutor(2) as executor:

        def add(server: aio.Server, fleet: ServiceFleet) -> None:
            managers.append(
                StudyManager(
                    store,
                    fleet,
                    analysts=frozenset({bytes.fromhex(key[1])}),
                    limits=SubmissionLimits(deadline_s=1),
                )
            )
            servicer = AnalystsServicer(managers[0], executor=executor)
            server.add_generic_rpc_handlers((servicer.handler(),))

        parts = ServerParts(services=(add,))
        with AggregatorServer.start(store, settings=Settings(), parts=parts) as server:
            yield ["--aggregator", server.address, "--key", str(key[0])]
        managers[0].stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def read_table(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".csv":
        with path.open(newline="") as lines:
            return list(csv.DictReader(lines))
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


SHARE_COLUMNS = ["group", "name", "estimate", "low", "high", "shown"]


def test_a_study_by_its_commands(run: Run, where: list[str], file: Path, key: Any) -> None:
    code, submitted, err = run("submit", str(file), *where)
    assert (code, err, submitted["state"]) == (0, "", "open")
    name = submitted["study"]
    out = file.with_name("out.json")
    picture = file.with_name("shares.png")
    code, result, err = run(
        "result", name, "--wait", "--out", str(out), "--plot", str(picture), *where
    )
    wrote = f"wrote {out}: {out.stat().st_size:,} bytes\n"
    assert (code, err, result["state"]) == (0, wrote, "done")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert set(result["hypothesis"]) == {"yes", "no"}
    assert run("watch", name, *where)[1] == result
    for suffix in ("csv", "parquet"):
        table = file.with_name(f"shares.{suffix}")
        code, _, err = run("result", name, "--out", str(table), *where)
        assert (code, err) == (0, f"wrote {table}: {table.stat().st_size:,} bytes\n")
        rows = read_table(table)
        assert [list(row) for row in rows] == [SHARE_COLUMNS] * 2
        assert {row["name"]: float(row["low"]) for row in rows} == {
            label: share["low"] for label, share in result["hypothesis"].items()
        }
    (schema,) = run("schemas", *where)[1]["schemas"]
    assert (schema["name"], schema["version"], schema["registered"]) == ("study", 1, False)
    assert 'smokes = { type = "category", labels = ["yes", "no"] }' in schema["toml"]
    (listed,) = run("list", *where)[1]["studies"]
    shown = run("show", name, *where)[1]
    for key_, value in {
        "study": name,
        "title": "Frequency of smokes",
        "state": "done",
        "users": 5_000,
        "reason": "done",
    }.items():
        assert (listed[key_], shown[key_]) == (value, value)
    assert (listed["learner"], listed["rounds_closed"]) == ("frequency", 1)
    assert shown["submitted"] == listed["submitted"] <= listed["ended"] == shown["ended"]
    for words, number in (("smo", 1), ("SMOKES freq", 1), ("smokes age", 0), ("moke", 0)):
        assert len(run("list", "--search", words, *where)[1]["studies"]) == number
    today = listed["ended"][: len("2026-11-20")]
    for option, day, number in (
        ("--since", today, 1),
        ("--since", "2199-01-01", 0),
        ("--until", today, 1),
        ("--until", "2026-01-01", 0),
    ):
        assert len(run("list", option, day, *where)[1]["studies"]) == number
    assert len(run("list", "--state", "done", "--limit", "1", *where)[1]["studies"]) == 1
    assert run("list", "--state", "paused", *where)[1]["studies"] == []
    code, verified, _ = run("verify", str(out), "--analyst", key[1])
    assert (code, verified["verified"], verified["study"]) == (0, True, name)
    changed = out.read_text().replace('"users": 5000', '"users": 5001')
    out.write_text(changed)
    code, failure, err = run("verify", str(out))
    assert (code, failure["failure"]["reason"]) == (1, "not-verified")
    assert err == "askance: result: expected users as replayed, found another\n"


def test_a_plan_is_printed_and_nothing_is_stored(run: Run, where: list[str], file: Path) -> None:
    code, planned, err = run("submit", str(file), "--plan-only", *where)
    assert (code, err, planned["feasible"], planned["users"]) == (0, "", True, 5_000)
    assert planned["rounds"][0]["lower_bound"] > 0
    assert run("list", *where)[1]["studies"] == []
    file.write_text(STUDY + '[parameters]\ntau = "0.0001"\n')
    code, refused, _ = run("submit", str(file), "--plan-only", *where)
    assert (code, refused["failure"]["reason"]) == (3, "plan-refused")
    assert "5,000" in refused["failure"]["message"]


def test_a_plan_needs_no_aggregator(run: Run, file: Path) -> None:
    code, planned, err = run("submit", str(file), "--plan-only")
    assert (code, err, planned["feasible"], planned["users"]) == (0, "", True, None)
    assert planned["notes"][-1] == (
        "for as many devices as it takes; with --key, for those that are enrolled"
    )
    assert run("submit", str(file))[0] == 2  # nothing is submitted without a key


def test_a_new_study_is_a_template_with_other_values(run: Run, tmp_path: Path) -> None:
    code, listed, _ = run("templates")
    assert code == 0
    names = [row["template"] for row in listed["templates"]]
    assert len(names) >= 8
    assert "frequency" in names
    code, made, _ = run("new", "frequency", "--set", "epsilon=2", "--set", "schema=our.toml")
    assert code == 0
    assert 'epsilon = "2"' in made["definition"]
    assert 'schema = "our.toml"' in made["definition"]
    code, refused, _ = run("new", "frequncy")
    assert code == 2
    assert "did you mean frequency?" in refused["failure"]["message"]
    code, refused, _ = run("new", "frequency", "--set", "epsilom=2")
    assert code == 2
    assert "did you mean epsilon?" in refused["failure"]["message"]


def test_studies_are_listed_by_every_state_and_order_that_the_aggregator_knows() -> None:
    assert tuple(ListedState) == STATES
    assert tuple(ListOrder) == ORDERS


def test_a_study_that_fails_exits_with_1(run: Run, where: list[str], file: Path) -> None:
    file.write_text(STUDY.replace("least_answers = 0", "least_answers = 1"))
    code, result, err = run("submit", str(file), "--wait", *where)
    assert (code, result["failure"]["reason"]) == (1, "too-few-respondents")
    assert result["hypothesis"] is None
    opened, failed = err.splitlines()
    assert opened == (  # printed before the wait
        f"study {result['study']} is open, and may ask about: smokes. Of two equally likely values"
        " a reader of reports is at most 73 % sure of the true one; epsilons of several studies add"
        " up."
    )
    assert failed.startswith("askance: the study has failed: round 1: expected at least 1 answers")


def test_a_study_that_is_open_and_then_cancelled(run: Run, where: list[str], file: Path) -> None:
    file.write_text(STUDY.replace("deadline_s = 1", "deadline_s = 0"))
    name = run("submit", str(file), *where)[1]["study"]
    for _ in range(10 * WAIT_S):  # its first round is opened by a thread of its own
        code, shown, _ = run("show", name[:8], *where)
        assert (code, shown["study"], shown["state"]) == (0, name, "open")
        if shown["asked"]:
            break
        time.sleep(0.1)
    assert shown["asked"] == 5_000
    code, failure, _ = run("result", name, *where)
    assert (code, failure["failure"]["reason"]) == (1, "open")
    for call, state in (("pause", "paused"), ("resume", "open")):
        code, changed, _ = run(call, name, *where)
        assert (code, changed) == (0, {"study": changed["study"], "state": state})
        code, shown, _ = run("show", name, *where)
        assert (code, shown["reason"]) == (0, "paused" if state == "paused" else "")
    code, cancelled, _ = run("cancel", name, *where)
    assert (code, cancelled["state"]) == (0, "cancelled")
    for call in ("pause", "resume"):
        code, failure, message = run(call, name, *where)
        assert (code, failure["failure"]["reason"]) == (1, "ended")
        assert "expected one that is open, got one that is cancelled" in message
    code, result, _ = run("result", name, *where)
    assert (code, result["failure"]["reason"]) == (1, "cancelled")


def test_a_study_that_cannot_work_exits_with_3(run: Run, where: list[str], file: Path) -> None:
    file.write_text(STUDY + '[parameters]\ntau = "1/1000"\n')
    code, failure, _ = run("submit", str(file), *where)
    assert (code, failure["failure"]["reason"]) == (3, "plan-refused")


def test_least_answers_that_cannot_come_exit_with_3_and_leave_no_study(
    run: Run, where: list[str], file: Path
) -> None:
    file.write_text(STUDY.replace("least_answers = 0", "least_answers = 5001"))
    code, failure, err = run("submit", str(file), *where)
    assert (code, failure["failure"]["reason"]) == (3, "plan-refused")
    assert "least_answers: expected at most 5,000, the number of users, got 5,001" in err
    assert run("list", *where)[1]["studies"] == []


def test_a_submission_says_which_fields_may_be_asked_about(
    run: Run, where: list[str], file: Path
) -> None:
    two = 'smokes = { type = "category", labels = ["yes", "no"] }\nage = { type = "bit" }\n'
    wide = STUDY.replace(STUDY.splitlines()[4] + "\n", two).replace(
        'epsilon = "1"', 'epsilon = "1"\nfields = ["smokes", "age"]'
    )
    file.write_text(wide)
    code, submitted, _ = run("submit", str(file), *where)
    assert (code, submitted["fields"]) == (0, ["age", "smokes"])
    file.write_text(wide.replace('["smokes", "age"]', '["smokes"]'))
    assert run("submit", str(file), *where)[1]["fields"] == ["smokes"]
    file.write_text(wide.replace('["smokes", "age"]', '["age"]'))
    code, failure, _ = run("submit", str(file), *where)
    assert (code, failure["failure"]["reason"]) == (2, "bad-input")
    assert "got none named smokes" in failure["failure"]["message"]


def test_bad_input_exits_with_2(run: Run, where: list[str], file: Path) -> None:
    bad = (
        ("show", "1234", *where),
        ("show", "0" * 64, *where),
        ("show", "0" * 9, *where),
        ("submit", "none.toml", *where),
        ("list", "--key", "none.pem"),
        ("list",),
        ("list", "--since", "yesterday", "--key", str(file)),
        ("list", "--until", "2026-13-01", "--key", str(file)),
        ("list", "--since", "20261120", "--key", str(file)),
        ("list", "--sort", "age", "--key", str(file)),
        ("verify", "none.json"),
        ("verify", "none.json", "--analyst", "ff"),
        ("key", str(file)),
        (),
    )
    for words in bad:
        code, failure, err = run(*words)
        assert code == 2, words
        assert err == f"askance: {failure['failure']['message']}\n"


def test_people_read_it(
    where: list[str], file: Path, capsys: pytest.CaptureFixture[str], run: Run
) -> None:
    assert main(["study", "list", *where]) == 0
    assert capsys.readouterr().out == "no studies yet\n"
    assert main(["study", "submit", str(file), "--wait", *where]) == 0
    screen = capsys.readouterr().out
    (one,) = run("list", *where)[1]["studies"]
    for part in (
        "frequency of smokes, 5,000 users, epsilon 1",
        f"study {one['study']}",
        "Worth nothing: no user answered.",
        "5,000 users were asked and gave 0 answers; each spent at most 1.00 of 1.00 nats.",
    ):
        assert part in " ".join(screen.split())
    out = file.with_name("out.json")
    assert main(["study", "result", one["study"], "--out", str(out), *where]) == 0
    assert capsys.readouterr().out == ""  # the file has it
    assert main(["study", "show", one["study"], *where]) == 0
    assert "is done: after 1 round" in capsys.readouterr().out
    assert main(["study", "verify", str(out)]) == 0
    screen = capsys.readouterr().out
    assert "holds together" in screen
    assert "  whose the signing key is: none was given" in screen


OPTIONS = [
    "--epsilon=1.5", "--beta=0.02", "--confidence=0.9", "--purpose=Schools.", "--days=3",
    "--fields=education", "--most-answers=9", "--deadline-s=60", "--least-answers=5", "--waves=2",
    "--column=education", "--tau=0.1",
]  # fmt: skip
SAME = """
learner = "frequency"
schema = "people.toml"
epsilon = "1.5"
beta = "0.02"
confidence = "0.9"
purpose = "Schools."
days = 3
fields = ["education"]
most_answers = 9
[parameters]
column = "education"
tau = "0.1"
[rounds]
deadline_s = 60
least_answers = 5
waves = 2
"""


def test_options_define_the_study_that_a_file_defines(tmp_path: Path) -> None:
    schema = Path(__file__).parents[3] / "examples" / "people.toml"
    (tmp_path / "people.toml").write_text(schema.read_text())
    (tmp_path / "same.toml").write_text(SAME)
    words = ["study", "submit", "frequency", f"--schema={schema}", *OPTIONS, "--key=k.pem"]
    made = definition_of(parser(words).parse_args(words))
    written = ask.study_from_toml(tmp_path / "same.toml")
    assert made.days == written.days == 3
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    signed = [sign_submission(one, key, now_s=lambda: 0, nonce=bytes) for one in (made, written)]
    assert signed[0] == signed[1]


def test_a_study_by_its_learner_s_options(run: Run, where: list[str], tmp_path: Path) -> None:
    schema = tmp_path / "people.toml"
    schema.write_text('[fields]\nsmokes = { type = "category", labels = ["yes", "no"] }\n')
    of_learner = ("submit", "frequency", "--schema", str(schema), "--epsilon", "1")
    rounds = ("--least-answers", "0", "--deadline-s", "1")
    code, result, _ = run(*of_learner, "--column", "smokes", *rounds, "--wait", *where)
    assert (code, result["state"], set(result["hypothesis"])) == (0, "done", {"yes", "no"})
    code, failure, _ = run(*of_learner, "--colum", "smokes", *where)
    assert (code, failure["failure"]["reason"]) == (2, "usage")
    assert "(did you mean --column?)" in failure["failure"]["message"]
    assert "askance study submit frequency --help" in failure["failure"]["message"]


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("--epsilon=2", "epsilon"),
        ("--least-answers=0", "[rounds] least_answers"),
        ("--set=tau=0.1", "[parameters]"),
    ],
)
def test_an_option_beside_a_file_is_refused(
    option: str, place: str, run: Run, key: tuple[Path, str], file: Path
) -> None:
    code, failure, _ = run("submit", str(file), option, "--key", str(key[0]))
    assert (code, failure["failure"]["reason"]) == (2, "usage")
    name = option.rsplit("=", 1)[0].removesuffix("=tau")
    message = failure["failure"]["message"]
    assert message.startswith(f"{name}: expected a learner's name with it")
    assert message.endswith(f"in which it belongs as {place}")


def test_a_key_that_is_a_path_is_shown(run: Run) -> None:
    code, failure, _ = run("verify", "study.json", "--aggregator-key", "service/counts.pub")
    assert (code, failure["failure"]["reason"]) == (2, "usage")
    assert "64 hexadecimal digits, got 'service/counts.pub'" in failure["failure"]["message"]


def test_a_command_without_its_name_lists_the_names(run: Run) -> None:
    code, failure, _ = run()
    assert (code, failure["failure"]["reason"]) == (2, "usage")
    message = failure["failure"]["message"]
    assert message.startswith("expected one of the commands submit, list, schemas, show, watch,")
