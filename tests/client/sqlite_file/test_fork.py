"""A forked child leaves its parent's file alone: whatever the child does, no charge is lost.

A process opens a file, writes to it, forks, and waits until its child has ended; then it writes on
and is killed. Every write that it printed is in the file when it is opened again.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from askance_aggregator.store.sqlite import SqliteStore
from askance_client.ledger import LedgerFile
from askance_client.owner import ConsentRule, Consents
from tests.client.process.conftest import ENVIRONMENT

OPEN = {
    "client": """
from askance_client import DeviceClient, Policy
from askance_client.ledger import Charge, Limits
from askance_client.queries import Bit, Schema
opened = DeviceClient(
    path, aggregator="127.0.0.1:1", records=dict, schema=Schema("people", 1, smokes=Bit()),
    policy=Policy(frozenset({bytes(32)}), 10**9),
)
ledger, ample = opened._open_now().file.ledger(), Limits(study=1 << 40, day=1 << 40, life=1 << 40)
def write(n):
    name = n.to_bytes(32, "big")
    charge = Charge(name, b"s" * 32, name, 864_000, 5, b"y")
    assert ledger.commit(charge, ample, lambda *_: b"report") == b"report"
    assert opened.status().answers == n + 1
""",
    "ledger": """
from askance_client.ledger import Charge, LedgerFile, Limits
opened = (LedgerFile.open if path.exists() else LedgerFile.create)(path)
ledger, ample = opened.ledger(), Limits(study=1 << 40, day=1 << 40, life=1 << 40)
def write(n):
    name = n.to_bytes(32, "big")
    charge = Charge(name, b"s" * 32, name, 864_000, 5, b"y")
    assert ledger.commit(charge, ample, lambda *_: b"report") == b"report"
""",
    "store": """
from askance_aggregator.store.sqlite import SqliteStore
opened = SqliteStore.create(path)
write = lambda n: opened.enrol([(n.to_bytes(8, "big"), bytes(32))])
""",
    "shared store": """
from askance_aggregator.store.sqlite import SqliteStore
SqliteStore.create(path).close()
opened = SqliteStore.open_to_serve(path)
write = lambda n: opened.enrol([(n.to_bytes(8, "big"), bytes(32))])
""",
    "consents": """
from askance_client.owner import ConsentRule, Consents
from askance_client.sqlite_file import SqliteFile
opened = Consents.open(path, ConsentRule.ASK)
def write(n):
    with opened._file.transaction() as connection:
        connection.execute("CREATE TABLE t%d (x)" % n)
""",
}
# What the child does, after the word that says how it ends.
CHILD = {
    "returns": "",
    "exits": "sys.exit(0)",
    "raises": "raise RuntimeError('the child failed')",
    "closes and returns": "opened.close()",
    "closes twice and exits": "opened.close(); opened.close(); sys.exit(0)",
    "drops and collects": "del opened, write; globals().pop('ledger', None); gc.collect()",
    "forks again": "os.fork() or opened.close()",
    "writes": "print('wrote', write(77), flush=True)",
    "ends at once": "os._exit(0)",
    "is killed": "os.kill(os.getpid(), 9)",
}
PROGRAM = """
import gc, os, sys
from pathlib import Path
path, before, after = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
{opening}
for n in range(before):
    write(n)
if child := os.fork():
    os.waitpid(child, 0)
    for n in range(before, before + after):
        write(n)
    print(before + after, flush=True)
    os.kill(os.getpid(), 9)
else:
    {child}
"""


def count_answers(path: Path) -> int:
    ledger = LedgerFile.open(path)
    found = sum(1 for _ in ledger.answers())
    ledger.close()
    return found


def count_devices(path: Path) -> int:
    store = SqliteStore.open(path)
    found = store.population()
    store.close()
    return found


def count_tables(path: Path) -> int:
    consents = Consents.open(path, ConsentRule.ASK)
    with consents._file.reading() as connection:
        (found,) = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE name GLOB 't[0-9]*'"
        ).fetchone()
    consents.close()
    return int(found)


COUNT: dict[str, Callable[[Path], int]] = {
    "client": lambda folder: count_answers(folder / "ledger.sqlite"),
    "ledger": count_answers,
    "store": count_devices,
    "shared store": count_devices,
    "consents": count_tables,
}


def forked(kind: str, child: str, path: Path, before: int, after: int) -> str:
    """Run a process that forks and is killed; return what it and its child printed."""
    program = PROGRAM.format(opening=OPEN[kind], child=CHILD[child] or "pass")
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), str(before), str(after)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    if child == "writes":
        assert "StoreError: store: expected a call in the process that opened it" in done.stderr
    return done.stdout


@pytest.mark.parametrize("child", CHILD)
def test_no_charge_is_lost_whatever_a_child_does(child: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    assert forked("ledger", child, path, 3, 4).split() == ["7"]
    assert count_answers(path) == 7


@pytest.mark.parametrize("kind", [kind for kind in OPEN if kind != "ledger"])
@pytest.mark.parametrize("child", ["returns", "closes and returns", "writes"])
def test_every_kind_of_file_is_left_to_the_parent(kind: str, child: str, tmp_path: Path) -> None:
    path = tmp_path / "file.sqlite"
    assert forked(kind, child, path, 3, 4).split() == ["7"]
    assert COUNT[kind](path) == 7


def test_a_child_that_outlives_its_parent_harms_no_later_process(tmp_path: Path) -> None:
    """The child ends when another process has the file open and has charged."""
    path = tmp_path / "ledger.sqlite"
    program = f"""
import os, sys
from pathlib import Path
path = Path(sys.argv[1])
{OPEN["ledger"]}
for n in range(3):
    write(n)
if child := os.fork():
    print(child, flush=True)
    os.kill(os.getpid(), 9)
sys.stdin.read()  # until the test closes it
"""
    first = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert first.stdout is not None
    assert first.stdin is not None
    assert int(first.stdout.readline()) > 0  # the child is there
    assert first.wait(60) == -signal.SIGKILL
    second = f"""
import os, sys
from pathlib import Path
path = Path(sys.argv[1])
{OPEN["ledger"]}
write(3)
print("open", flush=True)
sys.stdin.read()
write(4)
os.kill(os.getpid(), 9)
"""
    later = subprocess.Popen(
        [sys.executable, "-c", second, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert later.stdout is not None
    assert later.stdin is not None
    assert later.stdout.readline() == b"open\n"
    first.stdin.close()
    assert first.stdout.read() == b""  # the child has ended, and its end of the pipe with it
    later.stdin.close()
    assert later.wait(60) == -signal.SIGKILL
    later.stdout.close()
    first.stdout.close()
    assert count_answers(path) == 5


def test_a_lock_that_another_thread_held_at_the_fork_is_not_waited_for(tmp_path: Path) -> None:
    """Closing and writing in the child return at once."""
    program = f"""
import os, sys, threading
from pathlib import Path
path = Path(sys.argv[1])
{OPEN["ledger"]}
write(0)
held, free = threading.Event(), threading.Event()
def hold():
    with opened._file.transaction():
        held.set()
        free.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
if child := os.fork():
    _, status = os.waitpid(child, 0)
    free.set()
    thread.join()
    write(1)
    print(status, flush=True)
    os.kill(os.getpid(), 9)
opened.close()
try:
    write(2)
except Exception as error:
    sys.exit(0 if "forked child" in str(error) else 1)
"""
    path = tmp_path / "ledger.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "0\n"), done.stderr
    assert count_answers(path) == 2


def test_threads_charge_while_children_come_and_go(tmp_path: Path) -> None:
    """Eight threads print each charge after its commit; children end; the process is killed."""
    program = f"""
import os, sys, threading
from pathlib import Path
path = Path(sys.argv[1])
{OPEN["ledger"]}
def charge(first):
    for n in range(first, first + 1000):
        write(n)
        os.write(1, b"%d\\n" % n)
for first in range(0, 8000, 1000):
    threading.Thread(target=charge, args=(first,), daemon=True).start()
for ending in (0, 1, 2) * 3:
    if child := os.fork():
        os.waitpid(child, 0)
    elif ending == 0:
        sys.exit(0)
    elif ending == 1:
        opened.close()
        sys.exit(0)
    else:
        os._exit(0)
os.kill(os.getpid(), 9)
"""
    path = tmp_path / "ledger.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    printed = {int(line) for line in done.stdout.split("\n")[:-1]}
    assert len(printed) > 8
    ledger = LedgerFile.open(path)
    charged = {int.from_bytes(one.charge.request_digest, "big") for one in ledger.answers()}
    ledger.close()
    assert printed <= charged
    assert len(charged - printed) <= 8  # each thread may have been killed between the two
