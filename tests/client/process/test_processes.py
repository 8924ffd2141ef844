"""A device as a process: it enrols, answers, ends on request, and survives a kill."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from askance_aggregator.server.devices import AggregatorServer, ServerParts, Settings
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_aggregator.store import SqliteStore
from askance_client.cli.home import DeviceHome
from askance_client.cli.running import _until_signalled
from askance_client.ledger import Posting
from askance_client.service.clock import system_now_s
from tests.client.process.conftest import make_folder
from tests.ports import free_port

PEOPLE = 5
WAIT_S = 60
SOUND = {"checked": PEOPLE, "violations": [], "unverifiable": 0, "accepted_breaks": 0}
DIES_BEFORE_SENDING = """
import os, signal, sys
from askance_client.cli.device import main
from askance_client.cli.event_log import Journal

Journal.answered = lambda self, refusal: os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main(sys.argv[1:]))
"""


def answers(folder: Any) -> list[Posting]:
    file = DeviceHome(folder.path).ledgers()
    try:
        return list(file.answers())
    finally:
        file.close()


def test_members_are_enrolled_once_and_again_is_no_harm(aggregator: Any, folder: Any) -> None:
    token = aggregator.token(PEOPLE)
    assert folder.run("enroll", "--token", token)[:2] == (
        0,
        {
            "members": PEOPLE,
            "enrolled": PEOPLE,
            "known": 0,
            "unfit": {},
            "certificate_ends_unix_s": None,
        },
    )
    assert folder.run("enroll", "--token", token)[1]["known"] == PEOPLE
    assert aggregator.store.population() == PEOPLE


def test_enroll_waits_for_an_aggregator_that_is_starting(tmp_path: Path) -> None:
    store, tokens = SqliteStore.in_memory(), EnrolmentTokens(bytes(32), system_now_s)
    with socket.create_server(("127.0.0.1", free_port())) as proxy:  # no aggregator is ready
        host, port = proxy.getsockname()
        folder = make_folder(tmp_path, f"{host}:{port}")
        words = ("enroll", "--token", tokens.issue(PEOPLE, 1).text)
        process = folder.start(*words, "--wait", str(WAIT_S))
        proxy.accept()[0].close()
    code, failure, _ = folder.run(*words)
    assert (code, "UNAVAILABLE" in failure["failure"]["message"]) == (1, True)
    settings, parts = Settings(stop_grace_s=0.2), ServerParts(enrolment=tokens)
    server = AggregatorServer.start(store, host=host, port=port, settings=settings, parts=parts)
    try:
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        server.stop()
    assert (json.loads(out)["enrolled"], err) == (PEOPLE, "")


def test_a_token_for_fewer_enrols_nobody_and_says_why_in_a_line(
    aggregator: Any, folder: Any
) -> None:
    code, failure, err = folder.run("enroll", "--token", aggregator.token(PEOPLE - 1))
    assert code == 1
    assert "PERMISSION_DENIED" in failure["failure"]["message"]
    assert err.count("\n") == 1
    assert aggregator.store.population() == 0


def test_each_member_answers_for_itself_in_one_check_in(aggregator: Any, folder: Any) -> None:
    folder.run("enroll", "--token", aggregator.token(PEOPLE))
    round_ = aggregator.round()
    asked = aggregator.ask(round_)
    code, summary, _ = folder.run("run", "--once")
    assert (code, summary) == (
        0,
        {
            "members": PEOPLE,
            "answered": PEOPLE,
            "refused": 0,
            "unacknowledged": 0,
            "failed": 0,
            "refusals": {},
        },
    )
    asked.result(WAIT_S)
    kept = answers(folder)
    assert sorted(answer.member for answer in kept) == ["a", "b", "c", "d", "e"]
    stored = dict(aggregator.store.reports(round_.groups[0].digest))
    assert sorted(stored.values()) == sorted(answer.report for answer in kept)
    assert folder.run("verify")[:2] == (0, SOUND)
    assert folder.run("status")[1]["spent_nano_nats"] == 10**9
    entries = folder.run("history")[1]["entries"]
    assert {entry["member"] for entry in entries} == set("abcde")
    assert {(entry["question"], entry["purpose"], entry["learner"]) for entry in entries} == {
        ("Yes or no: your smokes is yes?", "to be tested", "test")
    }
    assert {entry["answer"] for entry in entries} <= {"yes (randomized)", "no (randomized)"}


def test_nobody_enrolled_is_a_failure_of_each_in_one_line(aggregator: Any, folder: Any) -> None:
    code, summary, err = folder.run("run", "--once")
    assert (code, summary["failed"]) == (1, PEOPLE)
    assert "5 of 5 members" in err
    assert "UNAUTHENTICATED" in err


def test_it_runs_until_it_is_told_and_hangs_up_in_order(aggregator: Any, folder: Any) -> None:
    folder.run("enroll", "--token", aggregator.token(PEOPLE))
    for number, told in enumerate((signal.SIGTERM, signal.SIGINT)):
        with folder.start("run") as process:
            started = json.loads(process.stdout.readline())
            assert started == {"members": PEOPLE, "aggregator": aggregator.server.address}
            aggregator.ask(aggregator.round(number)).result(WAIT_S)
            process.send_signal(told)
            out, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, out) == (0, "")
        assert "connected\n" in err
        assert "answered count=5" in err
    # The second round asked the same question: frozen, no charge and no row.
    assert [answer.charge.nano_nats for answer in answers(folder)] == [10**9] * 5


def test_killed_between_the_commit_and_the_sending_it_sends_the_same_bytes(
    aggregator: Any, folder: Any, tmp_path: Path
) -> None:
    folder.run("enroll", "--token", aggregator.token(PEOPLE))
    round_ = aggregator.round()
    asked = aggregator.ask(round_)
    for _ in range(3):
        with folder.start("run", program=("-c", DIES_BEFORE_SENDING)) as process:
            process.communicate(timeout=WAIT_S)
        assert process.returncode == -signal.SIGKILL
    before = answers(folder)
    assert before  # spent
    assert list(aggregator.store.reports(round_.groups[0].digest)) == []  # and not sent
    assert folder.run("run", "--once")[1]["answered"] == PEOPLE
    asked.result(WAIT_S)
    after = answers(folder)
    assert after[: len(before)] == before
    assert sorted(answer.member for answer in after) == ["a", "b", "c", "d", "e"]
    assert folder.run("verify")[1] == SOUND
    delivered = [report for _, report in aggregator.store.reports(round_.groups[0].digest)]
    assert sorted(delivered) == sorted(answer.report for answer in after)


def test_the_log_file_has_counts_and_neither_names_nor_values(
    aggregator: Any, folder: Any, tmp_path: Path
) -> None:
    folder.run("enroll", "--token", aggregator.token(PEOPLE))
    with folder.start("run", "--log-file", str(tmp_path / "log")) as process:
        aggregator.ask(aggregator.round()).result(WAIT_S)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")
    text = (tmp_path / "log").read_text()
    for line in (f"started members={PEOPLE}", f"answered count={PEOPLE}", "stopped"):
        assert line in text
    assert not any(word in text for word in ("smokes", "device_id", "symbol"))


def test_over_tls_only_the_aggregator_that_the_authority_vouches_for_is_talked_to(
    serving_tls: Any, tmp_path: Path
) -> None:
    folders = {}
    for name in ("right", "wrong", "plain"):
        place = tmp_path / name
        place.mkdir()
        folders[name] = serving_tls.folder(place, name)
    token = serving_tls.token(3 * PEOPLE)
    assert folders["right"].run("enroll", "--token", token)[0] == 0
    code, failure, err = folders["wrong"].run("enroll", "--token", token)
    assert (code, err.count("\n")) == (1, 1)
    assert "expected a certificate that the ca signed" in failure["failure"]["message"]
    code, failure, err = folders["plain"].run("enroll", "--token", token)
    assert (code, err.count("\n")) == (1, 1)
    assert "UNAVAILABLE" in failure["failure"]["message"]
    code, summary, err = folders["wrong"].run("run", "--once")
    assert (code, summary["failed"]) == (1, PEOPLE)
    assert "expected a certificate that the ca signed" in err
    assert serving_tls.store.population() == PEOPLE


def test_a_folder_with_a_token_enrols_at_its_first_check_in(
    tmp_path: Path, aggregator: Any
) -> None:
    """The token is not needed afterwards, and its file may be gone."""
    token, folder = tmp_path / "token", make_folder(tmp_path, aggregator.server.address)
    configuration = folder.path / "device.toml"
    text = configuration.read_text().replace('# token_file = "token"', 'token_file = "../token"')
    configuration.write_text(text)
    code, failure, _ = folder.run("enroll")
    assert (code, f"token file {folder.path / '../token'}: cannot be read" in str(failure)) == (
        2,
        True,
    )
    token.write_text(aggregator.token(5) + "\n")
    for _ in range(2):
        code, outcome, err = folder.run("run", "--once")
        assert (code, outcome["failed"], aggregator.store.population()) == (0, 0, 5), err
        token.unlink(missing_ok=True)
    assert folder.run("enroll")[0] == 2


def test_a_second_signal_does_not_cut_the_end_short(tmp_path: Path) -> None:
    """Calls end in order and pending writes are completed, however often it is told to end."""
    ended = []

    class Slow:
        async def run(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            try:
                await asyncio.Event().wait()
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(0.05)
                ended.append(True)

    folder: Any = SimpleNamespace(
        home=SimpleNamespace(control_path=tmp_path / "control"), operations=dict
    )
    gateway: Any = Slow()
    asyncio.run(_until_signalled(gateway, folder))
    assert ended == [True]


def test_the_members_of_a_gateway_get_the_tags_of_its_token(aggregator: Any, folder: Any) -> None:
    register, token = aggregator.store.register, aggregator.tokens.issue(PEOPLE, 1)
    register.keep_token(token.token_id, PEOPLE, token.ends_unix_s, ["site=oslo", "v2"])
    assert folder.run("enroll", "--token", token.text)[0] == 0
    tagged = [register.count_tagged([tag]) for tag in ("site=oslo", "v2", "site=rome")]
    assert tagged == [PEOPLE, PEOPLE, 0]
    (gateway,) = register.gateways(limit=2)
    assert gateway.members == PEOPLE
