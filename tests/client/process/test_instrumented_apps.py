"""Applications with a live database each answer one study, beside some whose source is broken."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import predicate
from askance_aggregator.studies import Cohort, Group, Permutation, Round
from askance_client.accounting import parse_epsilon
from askance_client.codec import decode_report, digest_of
from askance_client.exact_laws import probability
from askance_client.messages import Refusal, Request, StudyTerms
from askance_client.service import system_now_s
from tests.client.process.conftest import ENVIRONMENT, KEY, PUBLIC, SCHEMA
from tests.ports import free_port

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "instrumented_app.py"
WAIT_S = 240
# The example, with another function in place of the one that reads the database.
BROKEN = """
import sys, threading
from askance_client import embedding
from askance_client.records import CallableSource

def hang():
    threading.Event().wait()

def fail():
    raise ValueError("smokes = 1")

broken = {"hangs": hang, "raises": fail, "nonsense": lambda: [7, "smokes"]}[sys.argv.pop(1)]
embedding.CallableSource = lambda function: CallableSource(broken)
exec(compile(open(sys.argv.pop(1)).read(), "instrumented_app.py", "exec"))
"""
ENDINGS = ("hangs", "raises", "nonsense")
FIRST, SECOND = "5", "3"  # epsilon of each round: the example's policy allows 8 in all


def start(folder: Path, address: str, token: str, user: str) -> subprocess.Popen[str]:
    words = [str(EXAMPLE)] if user not in ENDINGS else ["-c", BROKEN, user, str(EXAMPLE)]
    return subprocess.Popen(
        [sys.executable, *words, str(folder / "people.db"), user, address, PUBLIC, token],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def write_rows(folder: Path, smokes: int, users: int) -> None:
    with closing(sqlite3.connect(folder / "people.db")) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS people (id TEXT PRIMARY KEY, smokes)")
        rows = [(str(user), smokes) for user in range(users)]
        connection.executemany("INSERT OR REPLACE INTO people VALUES (?, ?)", rows)


def question(aggregator: Any, number: int, epsilon: str) -> Round:
    """Ask all enrolled users whether they smoke; the public default is no."""
    terms = StudyTerms(
        bytes(16),
        "test",
        1,
        (),
        SCHEMA,
        parse_epsilon("24"),
        system_now_s() + 86_400,
        "to be tested",
        fields=("smokes",),
    )
    aggregator.study = getattr(aggregator, "signed", None) or sign_study(terms, KEY)
    aggregator.signed = aggregator.study
    users, study = aggregator.store.population(), digest_of(aggregator.study.study)
    query = predicate(SCHEMA["smokes"] == 1, default=0)
    randomizer = randomized_response(parse_epsilon(epsilon))
    payload = encode_request(Request(study, number, 0, query, randomizer))
    cohort = Cohort(Permutation(b"", users), 0, users)
    loss = randomizer.loss.nano_nats
    group = Group(payload, digest_of(payload), query, randomizer, loss, cohort, bytes(32))
    return Round(number, aggregator.study, study, (group,))


def answers(aggregator: Any, number: int, epsilon: str) -> tuple[int, list[int]]:
    """Return the number of answers "yes", and the size of each report."""
    round_ = question(aggregator, number, epsilon)
    aggregator.ask(round_).result(WAIT_S)
    reports = [data for _, data in aggregator.store.reports(round_.groups[0].digest)]
    randomizer, yes = round_.groups[0].randomizer, 0
    for data in reports:
        symbol = decode_report(data).outcome
        assert not isinstance(symbol, Refusal)
        yes += probability(randomizer, 1, symbol) > probability(randomizer, 0, symbol)
    return yes, [len(data) for data in reports]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("users", [8, pytest.param(47, marks=pytest.mark.nightly)])
def test_applications_answer_from_their_rows_as_they_are(
    tmp_path: Path, aggregator: Any, users: int
) -> None:
    """All rows say yes, then no; three more applications have a source that is broken.

    A device answered from the row that it had read at its start. With 8 users a false alarm has
    probability below 1e-6: more than 3 of 8 truths flipped at 5 nats (.0067 each), or more than 6
    of 11 at 3 nats (.047 each).
    """
    write_rows(tmp_path, 1, users)
    (tmp_path / "people.toml").write_text('name = "people"\n[fields]\nsmokes = { type = "bit" }\n')
    token = aggregator.token(users + len(ENDINGS))
    names = [*map(str, range(users)), *ENDINGS]
    running = [start(tmp_path, aggregator.server.address, token, name) for name in names]
    try:
        while aggregator.store.population() < len(names):
            assert all(process.poll() is None for process in running)
            threading.Event().wait(0.05)
        yes, sizes = answers(aggregator, 0, FIRST)
        assert yes > users // 2
        write_rows(tmp_path, 0, users)
        later, later_sizes = answers(aggregator, 1, SECOND)
        assert later <= len(names) * 6 // 11
        for process in running:
            process.send_signal(signal.SIGTERM)
        told = [process.communicate(timeout=WAIT_S) for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * len(names)
    assert {len(sizes), len(later_sizes)} == {len(names)}
    assert len(set(sizes)) == len(set(later_sizes)) == 1, "a broken source shows in a size"
    charged = sum(
        randomized_response(parse_epsilon(epsilon)).loss.nano_nats for epsilon in (FIRST, SECOND)
    )
    for name, (out, err) in zip(names, told, strict=True):
        assert f"spent_nano_nats={charged}" in out, (name, err)
        assert "smokes = 1" not in err


@pytest.mark.timeout(600)
def test_an_application_starts_and_restarts_without_a_network(
    tmp_path: Path, aggregator: Any
) -> None:
    """The first start waits for the aggregator; later ones need no token that is valid still.

    `enrol` ended the application in both cases.
    """
    write_rows(tmp_path, 1, 1)
    (tmp_path / "people.toml").write_text('name = "people"\n[fields]\nsmokes = { type = "bit" }\n')
    store, port = aggregator.store, free_port()
    token, answered = aggregator.token(1), []
    aggregator.server.stop()
    for number, epsilon in enumerate((FIRST, SECOND)):
        running = start(tmp_path, f"127.0.0.1:{port}", token, "0")
        try:
            while not (tmp_path / "device-0" / "ledger.sqlite-wal").exists():
                assert running.poll() is None
                threading.Event().wait(0.02)
            aggregator.listen(port, store)
            while not store.population():
                assert running.poll() is None
                threading.Event().wait(0.02)
            answered.append(len(answers(aggregator, number, epsilon)[1]))
            aggregator.server.stop()
            running.send_signal(signal.SIGTERM)
            out, err = running.communicate(timeout=WAIT_S)
            assert (running.returncode, f"answers={number + 1}" in out) == (0, True), err
        finally:
            running.kill()
        token = "ended"
    assert answered == [1, 1]


def test_the_example_keeps_its_promise_of_few_lines() -> None:
    code = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    start = next(number for number, line in enumerate(code) if line.startswith("import"))
    assert len(code[start:]) <= 30
