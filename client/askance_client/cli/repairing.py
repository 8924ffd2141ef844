"""`accept-loss` and `repair-clock`: what only a device's owner may decide."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from askance_client.accounting import format_nats
from askance_client.cli.configuration import read_configuration
from askance_client.cli.counters import OwnCounter, replace_mark
from askance_client.cli.home import DeviceHome
from askance_client.cli.members import identities_of, read_people
from askance_client.errors import InvalidParameter, StoreError
from askance_client.ledger import postings
from askance_client.ledger.contract import Charge
from askance_client.ledger.mark import High, mark_path
from askance_client.ledger.marked import (
    ACCEPTED,
    GAPS,
    ID,
    LedgerBehind,
    MarkedFile,
    fresh_id,
    read_fact,
    read_tip,
    write_fact,
)
from askance_client.printable import value_text
from askance_client.service import system_now_s
from askance_client.service.clock import utc_text
from askance_client.sqlite_file import SqliteFile

Member = tuple[str, bytes]
"""A member's name and enrolment."""


def accept_loss(
    path: Path,
    members: Iterable[Member],
    life_nano_nats: int,
    now_s: int,
    *,
    everyone: bool,
    counter: OwnCounter | None = None,
) -> int:
    """Charge what is left of the life budget, since rows of the ledger may be lost.

    Sequence numbers skip `LOSS_STEP`, so that no honest aggregator has acknowledged a higher one. A
    mark or a counter that was missing, or ahead of the file, is made anew or passed.

    With `everyone`, the members that the file knows are concerned as well as `members`; they are
    whenever the file is older than its mark or counter. Return the number of members charged.

    Raises:
        StoreError: no file, damaged, in use, or the disk or the counter refuses; or the file is
            older than its mark or counter and not everyone is to be charged. Nothing was charged
            then.
    """
    if everyone and mark_path(path).exists() and not path.exists():
        # All of it was lost, and only the mark is left.
        SqliteFile.create(path, postings.KIND).close()
    try:
        marked = MarkedFile.open(path, counter)
    except LedgerBehind:
        if not everyone:
            raise StoreError(
                f"ledger {path}: expected all members to be charged, since the file is older than"
                " its mark, got one member"
            ) from None
        return _accept_behind(path, members, life_nano_nats, now_s, counter)
    with closing(marked), marked.transaction() as connection:
        return _charge_whole(connection, members, life_nano_nats, now_s, everyone=everyone)


def repair_clock(path: Path, now_s: int, counter: OwnCounter | None = None) -> int:
    """Believe the clock again, for all members whose last charge is later than now.

    Return the number of members concerned.
    """
    with closing(MarkedFile.open(path, counter)) as marked, marked.transaction() as connection:
        late = connection.execute(
            "SELECT member FROM postings AS charged WHERE at_s > ? AND place >= coalesce("
            " (SELECT max(place) FROM postings WHERE member = charged.member"
            "  AND kind = 'clock'), 0) GROUP BY member ORDER BY member",
            (now_s,),
        ).fetchall()
        for (name,) in late:
            member = (name, _enrolment(connection, name))
            repaired = Charge(b"", b"", b"", now_s, 0, b"")
            _append(connection, member, postings.PostingKind.CLOCK, repaired)
        return len(late)


def _accept_behind(
    path: Path,
    members: Iterable[Member],
    life_nano_nats: int,
    now_s: int,
    counter: OwnCounter | None,
) -> int:
    """Accept the loss of a file that its mark or counter does not fit, and make both anew."""
    # A crash in between leaves a file with a new id beside an old mark or counter, which is refused
    # as before: accepting the loss once more charges nothing more.
    counted = 0 if counter is None else counter.read()
    with closing(SqliteFile.open(path, postings.KIND)) as file:
        fresh = fresh_id()
        with file.transaction() as connection:
            if read_fact(connection, ID) is None:  # a copy from before the marks
                postings.fill_hashes(connection)
            charged = _charge_whole(
                connection, members, life_nano_nats, now_s, everyone=True, after=counted
            )
            place, chained = read_tip(connection)
            (count,) = connection.execute("SELECT count(*) FROM postings").fetchone()
            write_fact(connection, ID, fresh)
            write_fact(connection, GAPS, (place - count).to_bytes(8, "big"))
            write_fact(connection, ACCEPTED, place.to_bytes(8, "big"))
        replace_mark(mark_path(path), High(fresh, place, chained))
        if counter is not None:
            counter.replace(High(fresh, place, chained))
    return charged


def _charge_whole(
    connection: sqlite3.Connection,
    members: Iterable[Member],
    life_nano_nats: int,
    now_s: int,
    *,
    everyone: bool,
    after: int = 0,
) -> int:
    concerned = dict(members)
    if everyone:
        for (name,) in connection.execute("SELECT DISTINCT member FROM postings").fetchall():
            concerned.setdefault(name, _enrolment(connection, name))
    for name, enrolment in sorted(concerned.items()):
        (spent,) = connection.execute(
            "SELECT coalesce(sum(nano_nats), 0) FROM postings WHERE member = ?", (name,)
        ).fetchone()
        left = max(0, life_nano_nats - spent)
        loss = Charge(b"", b"", b"", now_s, left, b"")
        _append(connection, (name, enrolment), postings.PostingKind.LOSS, loss, after)
    return len(concerned)


def _append(
    connection: sqlite3.Connection,
    member: Member,
    kind: postings.PostingKind,
    event: Charge,
    after: int = 0,
) -> None:
    name, enrolment = member
    last, before = postings.last_of_chain(connection, name, enrolment)
    step = postings.LOSS_STEP if kind is postings.PostingKind.LOSS else 1
    postings.append(connection, name, enrolment, last + step, before, kind, event, b"", after)


def _enrolment(connection: sqlite3.Connection, member: str) -> bytes:
    (enrolment,) = connection.execute(
        "SELECT enrolment FROM postings WHERE member = ? ORDER BY place DESC LIMIT 1", (member,)
    ).fetchone()
    return bytes(enrolment)


_LOSS = """\
Charges may have been forgotten: the ledger is older than it was. If a newer copy of this folder
exists, stop here and restore that one.
Going on charges what is left of the life budget ({life} nats each) of {whom}: nothing new will be
answered unless the life budget is raised. This cannot be undone.
If only an aggregator says that the ledger is older, and no copy was ever restored, the aggregator
may lie in order to have the budget charged: do not accept the loss, and do without it instead."""

_CLOCK = """\
The clock says {now} (UTC). Check that this is right before going on.
Members whose last charge is later than that will be believed to live now. Studies that expired in
between may be answered again, and a day's budget that was spent on a future day will be there
again on the present one. The life budget is not changed. This cannot be undone."""


def accept(home: DeviceHome, path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Charge the life budget whole for one device or for all members of a folder."""
    configuration = read_configuration(path)
    names = read_people(configuration).names
    members = [
        (name, identity.device_id)
        for name, identity in zip(names, identities_of(home.secret(), names), strict=True)
    ]
    device: bytes | None = arguments.device_id
    if device is not None:
        members = [member for member in members if member[1] == device]
        if not members:
            raise InvalidParameter(
                f"--device-id: expected the device id of a member, got {device.hex()}"
            )
    life, counter = configuration.policy.life_nano_nats, configuration.counter
    whom = "all members" if device is None else f"device {device.hex()}"
    _confirm(arguments, _LOSS.format(life=format_nats(life), whom=whom))
    charged = accept_loss(
        home.ledger_path, members, life, system_now_s(), everyone=device is None, counter=counter
    )
    return {"members": charged, "life_nano_nats": life}


def tell_accept(result: dict[str, Any]) -> str:
    """Format the number of members charged."""
    life = format_nats(result["life_nano_nats"])
    return f"loss accepted: the life budget of {life} nats is spent, members: {result['members']}"


def repair(home: DeviceHome, path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Believe the clock again after it was once far ahead."""
    now = system_now_s()
    shown = utc_text(now, "%Y-%m-%d %H:%M:%S")
    _confirm(arguments, _CLOCK.format(now=shown))
    counter = read_configuration(path).counter
    return {"members": repair_clock(home.ledger_path, now, counter), "now_unix_s": now}


def tell_repair(result: dict[str, Any]) -> str:
    """Format the number of members concerned."""
    return f"clock repaired, members concerned: {result['members']}"


def _confirm(arguments: argparse.Namespace, risk: str) -> None:
    """Explain a risk and go on only with the owner's explicit consent: --yes, or "yes" typed."""
    if arguments.yes:
        return
    print(risk, file=sys.stderr)
    if not sys.stdin.isatty():
        raise InvalidParameter("expected --yes, to go on after reading the above, got nothing")
    print("Type yes to go on: ", end="", file=sys.stderr, flush=True)
    typed = sys.stdin.readline().strip()
    if typed != "yes":
        raise InvalidParameter(f"expected yes, got {value_text(typed)}: nothing was changed")
