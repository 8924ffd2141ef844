"""Ledgers of real devices: one SQLite file, every commit synced to the disk.

Theory of operation. A `LedgerFile` holds the ledgers of one or many members; a `SqliteLedger` is
one member's view. Only rows are ever added: totals, frozen answers and sequence numbers are read
from them. An answer goes through these states, and none is skipped or left backwards:

    checked      limits and totals are read in the transaction that will charge
    committed    the posting (charge, report, hash of the row before it in the member's chain) is
                 on the disk
    marked       the mark beside the file, then a counter if there is one, has reached the row
    visible      the step returns, and the report may leave

A process that dies before `committed` has charged nothing. One that dies before `marked` has
charged and shown nothing: the next reader or step writes the mark first (`marked`). A file behind
its mark is older than it was, and is refused.

Threads that come while the disk is synced form the next commit (`GroupCommit`). A failed commit
fails each of its steps, with nothing charged.

The file is bound to how its members are named by rows of the table `facts`. A member's ledger is
found by the member's name; members that were named in another way would have ledgers without a
charge. Therefore a file is bound once, and its users compare (`LedgerFile.bind`).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from askance_client.errors import InvalidParameter, StoreError
from askance_client.ledger.contract import (
    SECONDS_PER_DAY,
    Charge,
    Compose,
    Entry,
    Limits,
    Overrun,
    Standing,
    Totals,
    check_charge,
    overrun,
)
from askance_client.ledger.mark import CounterPlace
from askance_client.ledger.marked import ACCEPTED, MarkedFile, read_number
from askance_client.ledger.postings import (
    PAGE,
    Posting,
    PostingKind,
    append,
    last_of_chain,
    read_page,
)
from askance_client.sqlite_file import ProcessLock

T = TypeVar("T")


class GroupCommit:
    """Commit together the steps that arrive during the commit before; there is no timer.

    The first thread that comes leads: it runs the steps of all that wait, its own among them, in
    one transaction, and wakes them when the disk has it and the mark has reached it. A step that
    came meanwhile is the next commit, led by the first of them. A lone thread commits at once.

    No effect of a step is visible before it is durable: the file is held from the first
    step's first statement until the commit has returned.
    """

    def __init__(self, file: MarkedFile) -> None:
        self._file = file
        self._guard = ProcessLock()  # of the two below
        self._waiting: list[_Step[Any]] = []
        self._led = False

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a step and return what it returned, durably.

        Args:
          work: reads, and then writes, as the last thing it does and by statements only; so one
            that raises anything but the disk's error has written nothing, and the others' steps
            stand.

        Raises:
          StoreError: nothing of the whole transaction was made durable.
        """
        step: _Step[T] = _Step(work)
        with self._guard:
            self._waiting.append(step)
            leads = not self._led
            self._led = True
        if not leads:
            step.woken.wait()
        if not step.settled:
            self._lead()
        if step.failure is not None:
            raise step.failure
        return step.results[0]

    def _lead(self) -> None:
        with self._guard:
            batch, self._waiting = self._waiting, []
        try:
            with self._file.transaction() as connection:
                for step in batch:
                    step.take(connection)
        except BaseException as failure:
            # All that wait must get the error; the leader gets it by this very raise.
            for step in batch:
                step.failure = StoreError(str(failure) or "ledger: nothing was spent")
            raise
        finally:
            self._hand_over(batch)

    def _hand_over(self, batch: list[_Step[Any]]) -> None:
        with self._guard:
            if self._waiting:
                self._waiting[0].woken.set()  # leads the next
            else:
                self._led = False
        for step in batch:
            step.settled = True
            step.woken.set()


class _Step(Generic[T]):
    """Thread's part of a commit."""

    __slots__ = ("failure", "results", "settled", "woken", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self.work = work
        self.woken = threading.Event()
        self.settled = False
        self.results: list[T] = []
        self.failure: BaseException | None = None

    def take(self, connection: sqlite3.Connection) -> None:
        """Run the step; a failure of the disk fails all steps, any other this step alone."""
        try:
            self.results.append(self.work(connection))
        except sqlite3.Error:
            raise
        except Exception as failure:
            self.failure = failure


_PREFIX = "bound."  # other rows of the table are no part of the binding


def read_binding(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the texts that a file is bound to, by name; empty if it is not bound."""
    rows = connection.execute("SELECT name, value FROM facts ORDER BY name")
    return {
        name.removeprefix(_PREFIX): value.decode("utf-8")
        for name, value in rows
        if name.startswith(_PREFIX)
    }


def write_binding(
    connection: sqlite3.Connection, texts: Mapping[str, str], *, charged: bool
) -> dict[str, str]:
    """Bind a file to texts unless it is bound, and return what it is bound to.

    `connection` is in a transaction; `texts` are one or more, by name; `charged` says whether the
    file has any charge.

    Raises:
        StoreError: there are charges and no binding; nothing was changed.
    """
    bound = read_binding(connection)
    if bound:
        return bound
    if charged:
        raise StoreError(
            "ledger: expected a binding to how its members are named, got charges without it"
        )
    connection.executemany(
        "INSERT INTO facts (name, value) VALUES (?, ?)",
        [(_PREFIX + name, text.encode("utf-8")) for name, text in texts.items()],
    )
    return read_binding(connection)


_NEVER = (1 << 63) - 1  # no charge is so late
MAX_MEMBER_BYTES = 256
MAX_ENROLMENT_BYTES = 64

# Bytes of payloads that a file keeps. An honest study asks a device, or all of a gateway's members
# together, some thousands of distinct requests of a few hundred bytes; 65,536 of the longest ones
# (256 KiB) would be 16 GiB.
MAX_STUDY_PAYLOADS = 64 << 20
MAX_PAYLOADS = 1 << 30


class LedgerFile:
    """The ledgers of one or many members in one file; safe to share between threads.

    The file is held exclusively while it is open: a second process that would spend the same
    budgets is refused. Members' commits that come together wait for the disk together.
    """

    def __init__(self, file: MarkedFile) -> None:
        """Use `create` or `open`."""
        self._file = file
        self._commits = GroupCommit(file)

    @classmethod
    def create(cls, path: Path) -> LedgerFile:
        """Make a new file without any charge at `path`.

        Raises:
            StoreError: a ledger or its mark is there already (none is ever overwritten), or the
                disk refuses.
        """
        return cls(MarkedFile.create(path))

    @classmethod
    def open(cls, path: Path, counter: CounterPlace | None = None) -> LedgerFile:
        """Open the ledgers at `path`, or refuse.

        Args:
            path: the file; its mark is beside it.
            counter: outside the folder; None: the mark alone is compared.

        Raises:
            LedgerBehind: the file is older than its mark or counter, or one of them is missing or
                cannot be read.
            StoreError: no file, no ledger, damaged, or in use by another process.
            UnsupportedStore: written by a newer version.
        """
        return cls(MarkedFile.open(path, counter))

    def ledger(self, member: str = "", enrolment: bytes = b"") -> SqliteLedger:
        """Return a member's ledger, empty if the file has no charge of theirs.

        Args:
            member: the member's name; '' for a single device.
            enrolment: the device id under which the member answers; budgets are the member's
                whatever it is, the sequence numbers are the enrolment's.

        Raises:
            InvalidParameter: a name or an enrolment that cannot be kept.
        """
        try:
            size = len(member.encode("utf-8"))
        except UnicodeEncodeError:
            raise InvalidParameter("ledger: expected a member's name in valid Unicode") from None
        if size > MAX_MEMBER_BYTES or "\0" in member:
            raise InvalidParameter(
                f"ledger: expected a member's name of at most {MAX_MEMBER_BYTES} bytes and no zero"
                f" byte, got {size} bytes"
            )
        if len(enrolment) > MAX_ENROLMENT_BYTES:
            raise InvalidParameter(
                f"ledger: expected an enrolment of at most {MAX_ENROLMENT_BYTES} bytes,"
                f" got {len(enrolment)}"
            )
        return SqliteLedger(self._file, self._commits, member, enrolment)

    def binding(self) -> Mapping[str, str]:
        """Return the texts that the file is bound to, by name; empty if it is not bound."""
        with self._file.reading() as connection:
            return read_binding(connection)

    def bind(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Bind the file to texts, durably, unless it is bound already.

        Args:
          texts: one or more, by name.

        Returns:
          The texts that the file is bound to now, which may be others.

        Raises:
          StoreError: the file has charges and no binding; nothing was changed.
        """
        with self._file.transaction() as connection:
            charged = connection.execute("SELECT 1 FROM postings LIMIT 1").fetchone() is not None
            return write_binding(connection, texts, charged=charged)

    def members(self) -> tuple[str, ...]:
        """Return the names of all members that have a row, in order."""
        with self._file.reading() as connection:
            rows = connection.execute("SELECT DISTINCT member FROM postings ORDER BY member")
            return tuple(str(row[0]) for row in rows)

    @property
    def accepted(self) -> int:
        """The place of the last row of the latest loss that the owner accepted; 0 for none.

        The fact is believed only if that row is a loss: the row is in the chain, the fact is not.
        """
        with self._file.reading() as connection:
            place = read_number(connection, ACCEPTED)
            loss = connection.execute(
                "SELECT 1 FROM postings WHERE place = ? AND kind = ?",
                (place, PostingKind.LOSS.value),
            )
            return place if loss.fetchone() is not None else 0

    def postings(self) -> Iterator[Posting]:
        """Iterate over all rows, oldest first."""
        last = 0
        while True:
            with self._file.reading() as connection:
                page = read_page(connection, last, PAGE)
            if not page:
                return
            yield from page
            last = page[-1].place

    def answers(self) -> Iterator[Posting]:
        """Iterate over the charged answers of all members, oldest first."""
        return (posting for posting in self.postings() if posting.kind is PostingKind.ANSWER)

    def close(self) -> None:
        """Close the file and with it every member's ledger."""
        self._file.close()


class SqliteLedger:
    """The ledger's contract for one member of a file (see `Ledger`), shareable between threads."""

    __slots__ = ("_commits", "_enrolment", "_file", "_member")

    def __init__(
        self, file: MarkedFile, commits: GroupCommit, member: str, enrolment: bytes
    ) -> None:
        """Use `LedgerFile.ledger`."""
        self._file = file
        self._commits = commits
        self._member = member
        self._enrolment = enrolment

    @property
    def sequence(self) -> int:
        with self._file.reading() as connection:
            return last_of_chain(connection, self._member, self._enrolment)[0]

    def stored(self, request_digest: bytes) -> bytes | None:
        with self._file.reading() as connection:
            return self._stored(connection, request_digest)

    def totals(self, study_digest: bytes, day: int) -> Totals:
        with self._file.reading() as connection:
            return self._totals(connection, study_digest, day)

    def standing(
        self,
        request_digest: bytes,
        question: bytes,
        study_digest: bytes,
        day: int,
        limits: Limits | None = None,
    ) -> Standing:
        with self._file.reading() as connection:
            return Standing(
                self._stored(connection, request_digest),
                self._frozen(connection, question),
                self._totals(connection, study_digest, day, limits),
            )

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        check_charge(charge)
        # The caller may send what comes back: it has been committed.
        return self._commits.run(
            lambda connection: self._charge(connection, charge, limits, compose)
        )

    def history(self) -> Iterator[Entry]:
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT request_digest, study_digest, at_s, nano_nats, sequence FROM postings"
                " WHERE member = ? AND kind = 'answer' ORDER BY place",
                (self._member,),
            ).fetchall()
        return (Entry(*row) for row in rows)

    def close(self) -> None:
        """Close the file, for all its members."""
        self._file.close()

    def _charge(
        self, connection: sqlite3.Connection, charge: Charge, limits: Limits, compose: Compose
    ) -> bytes | Overrun:
        stored = self._stored(connection, charge.request_digest)
        if stored is not None:
            return stored
        frozen = self._frozen(connection, charge.question)
        if frozen is not None:
            return compose(frozen, 0, 0, 0)
        totals = self._totals(connection, charge.study_digest, charge.day, limits)
        past = overrun(totals, charge.nano_nats, limits, charge.weight)
        if past is not None:
            return past
        if not _has_room(connection, charge):
            return Overrun.SPACE
        last, before = last_of_chain(connection, self._member, self._enrolment)
        spent = totals.spent(limits) + charge.nano_nats
        report = compose(charge.symbol, charge.nano_nats, spent, last + 1)
        _keep(connection, charge)
        append(
            connection,
            self._member,
            self._enrolment,
            last + 1,
            before,
            PostingKind.ANSWER,
            charge,
            report,
        )
        return report

    def _stored(self, connection: sqlite3.Connection, request_digest: bytes) -> bytes | None:
        row = connection.execute(
            "SELECT report FROM postings WHERE member = ? AND request_digest = ?",
            (self._member, request_digest),
        ).fetchone()
        return None if row is None else bytes(row[0])

    def _frozen(self, connection: sqlite3.Connection, question: bytes) -> bytes | None:
        row = connection.execute(
            "SELECT symbol FROM postings WHERE member = ? AND question = ? LIMIT 1",
            (self._member, question),
        ).fetchone()
        return None if row is None else bytes(row[0])

    def _totals(
        self,
        connection: sqlite3.Connection,
        study_digest: bytes,
        day: int,
        limits: Limits | None = None,
    ) -> Totals:
        window, epoch = (None, None) if limits is None else (limits.window, limits.epoch)
        row = connection.execute(
            "SELECT coalesce((SELECT sum(nano_nats) FROM postings"
            "   WHERE member = :member AND study_digest = :study), 0),"
            " coalesce((SELECT sum(nano_nats) FROM postings"
            "   WHERE member = :member AND at_s >= :start AND at_s < :end), 0),"
            " coalesce((SELECT sum(nano_nats) FROM postings WHERE member = :member), 0),"
            " coalesce((SELECT max(at_s) FROM postings WHERE member = :member AND place >="
            "   coalesce((SELECT max(place) FROM postings"
            "     WHERE member = :member AND kind = 'clock'), 0)), 0),"
            " coalesce((SELECT sum(nano_nats) FROM postings"
            "   WHERE member = :member AND at_s >= :window), 0),"
            " coalesce((SELECT sum(nano_nats) FROM postings"
            "   WHERE member = :member AND study_digest = :study AND at_s >= :epoch), 0),"
            " (SELECT count(request_digest) FROM postings WHERE member = :member),"
            " (SELECT count(*) FROM postings WHERE member = :member AND study_digest = :study),"
            " coalesce((SELECT sum(weight) FROM postings WHERE member = :member"
            "   AND study_digest = :study AND at_s >= :start AND at_s < :end), 0)",
            {
                "member": self._member,
                "study": study_digest,
                "start": day * SECONDS_PER_DAY,
                "end": (day + 1) * SECONDS_PER_DAY,
                "window": _NEVER if window is None else window.from_s,
                "epoch": _NEVER if epoch is None else epoch.from_s,
            },
        ).fetchone()
        return Totals(*row)


def _has_room(connection: sqlite3.Connection, charge: Charge) -> bool:
    """Return whether the charge's payload is kept already or is within the bounds."""
    if not charge.payload or _is_kept(connection, charge):
        return True
    (study, total) = connection.execute(
        "SELECT coalesce((SELECT sum(size) FROM payloads WHERE study_digest = ?), 0),"
        " coalesce((SELECT sum(size) FROM payloads), 0)",
        (charge.study_digest,),
    ).fetchone()
    size = len(charge.payload)
    return bool(study + size <= MAX_STUDY_PAYLOADS and total + size <= MAX_PAYLOADS)


def _is_kept(connection: sqlite3.Connection, charge: Charge) -> bool:
    found = connection.execute("SELECT 1 FROM payloads WHERE digest = ?", (charge.request_digest,))
    return found.fetchone() is not None


def _keep(connection: sqlite3.Connection, charge: Charge) -> None:
    """Keep the charge's payload and study, each once."""
    if charge.payload:
        connection.execute(
            "INSERT INTO payloads VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (charge.request_digest, charge.study_digest, len(charge.payload), charge.payload),
        )
    if charge.study:
        connection.execute(
            "INSERT INTO studies VALUES (?, ?) ON CONFLICT DO NOTHING",
            (charge.study_digest, charge.study),
        )
