"""The store on a database: every operation once, for SQLite and PostgreSQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from askance_aggregator.store.audit import AuditLog
from askance_aggregator.store.backups import Manifest, RestoreNote
from askance_aggregator.store.certificates import CertificateStore
from askance_aggregator.store.dialect import (
    Dialect,
    Execute,
    Transactions,
    first_row,
    list_rows,
    study_number,
)
from askance_aggregator.store.listing import Listing, StudyState, note_title
from askance_aggregator.store.management import Management
from askance_aggregator.store.outer import OuterReleases
from askance_aggregator.store.register import Register, take_back_days
from askance_aggregator.store.replicas import Replicas
from askance_aggregator.store.retention import Retention, note_end, reports_deleted
from askance_aggregator.store.values import (
    DEVICE_ID_BYTES,
    DIGEST_BYTES,
    LEAF_KEY_BYTES,
    MAX_SEQUENCE,
    TOKEN_ID_BYTES,
    AskedRequest,
    Conclusion,
    Deadline,
    Enrolled,
    EnrolledDevice,
    EnrolledGateway,
    EnrolmentRefused,
    EpochEntry,
    OpenRounds,
    RoundNote,
    StoredReport,
)
from askance_aggregator.store.webhooks import WebhookQueue, message_id
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy

_REPORTS_AT_ONCE = 4096  # so that a reader of millions holds neither them nor the database
_DEVICES_AT_ONCE = 10_000  # that one statement looks for
_LINES_AT_ONCE = 256
_CHARACTERS_AT_ONCE = 256 * 1024  # of a transcript; a longer line is read by itself
_SIGNED = "SELECT digest, study, public_key, signature FROM studies"
_ROUND = "WHERE study = ? AND epoch = ? AND number = ?"
_OF_DIGEST = "request = (SELECT number FROM requests WHERE digest = ?)"
_OF_TRANSCRIPT = "FROM transcript_lines WHERE study = ? AND epoch = ?"
_BETWEEN = f"{_OF_TRANSCRIPT} AND number >= ? AND number < ? ORDER BY number"
_OPEN_ROUNDS = (
    "SELECT count(*), {now} - min(opened_unix_s) FROM rounds WHERE NOT closed"
    " AND NOT EXISTS (SELECT 1 FROM conclusions"
    " WHERE conclusions.study = rounds.study AND conclusions.epoch IN (0, rounds.epoch))"
)
_CONCLUSION = (
    "SELECT digest, state, reason, message, result_json, max_asked FROM conclusions"
    " JOIN studies ON studies.number = conclusions.study"
)


class Store(ABC):
    """The aggregator's memory, on one database. Safe to share between threads.

    A repeated study has a transcript, rounds and a conclusion per epoch, under the epoch's index (1
    or more). What is kept under epoch 0 is the study's own: all of it if it collects once, its
    conclusion alone if it repeats.

    In a store that several processes share, only the process that holds a study's lease appends to
    its transcript, notes and closes its rounds and concludes it, if any process ever had a lease of
    it; otherwise these raise `LeaseLost`, and nothing is written.

    Every method raises StoreError when the store cannot be read or written; `log`, `open_round` and
    `conclude` also when there is no such study. A subclass opens the database, and stores reports
    in its own way.
    """

    def __init__(self, dialect: Dialect, replicas: Replicas) -> None:
        """Use a subclass's constructors."""
        self._dialect = dialect
        self.replicas = replicas  # the processes that share the store
        self.management = Management(dialect)  # paused studies, and times of submission
        self.retention = Retention(dialect)  # deletion of what ended studies left
        self.certificates = CertificateStore(dialect)  # of devices and gateways
        self.register = Register(dialect)  # the operator's view of the devices
        self.listing = Listing(dialect)  # lists of studies
        self.audit = AuditLog(dialect)  # what callers and operators did
        self.webhooks = WebhookQueue(dialect)  # ends of studies on their way to webhooks
        self.outer = OuterReleases(dialect, replicas)  # of tallies, and whose answers they count

    def enrol(self, devices: Iterable[tuple[bytes, bytes]]) -> range:
        """Enrol devices, all or none, given as (device id, SHA-256 of its token).

        Returns:
          Their ordinals, which go on from the last one, in the order given.

        Raises:
          StoreError: an id that is enrolled already, given twice, empty or too long; a digest of
            another length than 32 bytes.
        """
        listed = checked_devices(devices)

        def step(execute: Execute) -> range:
            start = self._population(execute, self._dialect.for_update)
            known = self._known(execute, listed)
            if known:
                raise StoreError(f"enrolment: expected new ids, found device {min(known)} enrolled")
            self._add_devices(execute, start, listed)
            return range(start, start + len(listed))

        return self._dialect.write(step)

    def enrol_with(
        self,
        devices: Iterable[tuple[bytes, bytes]],
        token_id: bytes,
        limit: int,
        gateway: tuple[bytes, bytes] | None = None,
    ) -> Enrolled:
        """Enrol devices by an enrolment token, all or none, given as to `enrol`.

        The same device again, with the same token of its own, is known and stays as it is, but for
        its gateway.

        Args:
          devices: each as its id and the SHA-256 of its token.
          token_id: of the enrolment token, 16 bytes.
          limit: devices in all by this enrolment token.
          gateway: what the devices are members of from now on, given as a device is; it becomes
            known with them. None: new devices are members of none, known ones of what they were.

        Raises:
          EnrolmentRefused: an id that is known with another token, more than `limit` devices in all
            by this enrolment token, or a token that was revoked; nothing was changed.
          StoreError: ids or digests that `enrol` does not take either.
        """
        listed = checked_enrolment(devices, token_id, gateway)

        def step(execute: Execute) -> Enrolled:
            start = self._population(execute, self._dialect.for_update)
            known = self._known(execute, listed)
            for place, token_digest in known.items():
                if token_digest != listed[place][1]:
                    raise EnrolmentRefused(
                        "enrolment: expected new devices or their own tokens, found device"
                        f" {place} enrolled with another"
                    )
            fresh = [one for place, one in enumerate(listed) if place not in known]
            ((used, revoked),) = execute(
                "INSERT INTO enrolment_tokens AS kept (token_id, devices) VALUES (?, ?)"
                " ON CONFLICT (token_id) DO UPDATE SET devices = kept.devices + excluded.devices"
                " RETURNING devices, revoked",
                (token_id, len(fresh)),
            ).fetchall()
            if revoked:
                raise EnrolmentRefused(
                    "enrolment: expected an enrolment token in force, got a revoked one"
                )
            if fresh and used > limit:
                raise EnrolmentRefused(
                    f"enrolment: expected at most {limit} devices by this enrolment token, got"
                    f" {used} (a token is used up by its last device; the operator makes another)"
                )
            self._add_devices(execute, start, fresh)
            execute(
                "INSERT INTO device_tags SELECT tag, ordinal FROM token_tags CROSS JOIN devices"
                " WHERE token_id = ? AND ordinal >= ?",
                (token_id, start),
            )
            if gateway is not None:
                self._join(execute, _gateway_number(execute, gateway), listed)
            return Enrolled(len(fresh), len(known))

        return self._dialect.write(step)

    def _add_devices(
        self, execute: Execute, start: int, devices: Sequence[tuple[bytes, bytes]]
    ) -> None:
        self._dialect.add_devices(execute, start, devices)
        enrolled = execute("SELECT enrolled_day FROM devices WHERE ordinal = ?", (start,))
        for (day,) in enrolled.fetchall():
            take_back_days(execute, day)

    def device(self, device_id: bytes) -> EnrolledDevice | None:
        """The device of that id, if it is enrolled."""
        return self.find_devices((device_id,))[0]

    def find_devices(self, device_ids: Sequence[bytes]) -> list[EnrolledDevice | None]:
        """Return the device of each id, None where it is not enrolled."""
        columns = "device_id, ordinal, token_digest, coalesce(gateway, 0)"
        rows = self._dialect.read(
            lambda execute: self._device_rows(execute, columns, "device_id", device_ids)
        )
        known = {bytes(device_id): EnrolledDevice(*rest) for device_id, *rest in rows}
        return [known.get(device_id) for device_id in device_ids]

    def gateway(self, gateway_id: bytes) -> EnrolledGateway | None:
        """The gateway of that id, if it is enrolled."""
        row = self._row(
            "SELECT number, token_digest FROM gateways WHERE gateway_id = ?", gateway_id
        )
        return None if row is None else EnrolledGateway(*row)

    def population(self) -> int:
        """Number of ordinals that were given: they are 0 .. population-1.

        Those of forgotten devices are among them, and never given again.
        """
        return self._dialect.read(self._population)

    def add_study(self, digest: bytes, signed: SignedStudy) -> None:
        """Keep a study under the SHA-256 of its bytes; the same study again changes nothing.

        Raises:
          StoreError: another study or signature stands under that digest.
        """
        columns = (signed.study, signed.public_key, signed.signature)

        def step(execute: Execute) -> None:
            added = execute(
                "INSERT INTO studies (digest, study, public_key, signature) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING RETURNING number",
                (digest, *columns),
            ).fetchall()
            if added:
                self._dialect.begin_study(execute, int(added[0][0]))
                note_title(execute, int(added[0][0]), signed.study)
                return
            (stored,) = execute(f"{_SIGNED} WHERE digest = ?", (digest,)).fetchall()
            if tuple(stored[1:]) != columns:
                raise StoreError(f"study {digest.hex()[:16]}: expected no other, found one stored")

        self._dialect.write(step)

    def studies(self) -> dict[bytes, SignedStudy]:
        """Return all studies by digest, oldest first; for checks of a whole store."""
        rows = self._rows(f"{_SIGNED} ORDER BY number")
        return {digest: SignedStudy(*columns) for digest, *columns in rows}

    def study(self, digest: bytes) -> SignedStudy | None:
        """Return the study of that digest, None if there is none."""
        row = self._row(f"{_SIGNED} WHERE digest = ?", digest)
        return None if row is None else SignedStudy(*row[1:])

    def log(self, study_digest: bytes, epoch: int = 0) -> StudyLog:
        """The transcript of a study, or of one of its epochs."""
        number = self._dialect.read(lambda execute: study_number(execute, study_digest))
        return StudyLog(self._dialect, self.replicas, number, epoch)

    def keep_leaf_key(self, study_digest: bytes, fresh: bytes) -> bytes:
        """Return the secret from which the salts of a study's leaves follow; durable.

        All processes of a store that they share get one key. It is deleted with the reports.

        Args:
          study_digest: of a study that is stored.
          fresh: 32 random bytes, kept as the key of a study that has none yet.

        Raises:
          StoreError: there is no such study, its reports were deleted, or another number of bytes.
        """
        if len(fresh) != LEAF_KEY_BYTES:
            raise StoreError(f"leaf key: expected {LEAF_KEY_BYTES} bytes, got {len(fresh)}")

        def step(execute: Execute) -> bytes:
            study = study_number(execute, study_digest)
            deleted = "SELECT 1 FROM retention WHERE study = ? AND reports_deleted_unix_s > 0"
            if execute(deleted, (study,)).fetchall():
                raise reports_deleted(study_digest)
            added = "INSERT INTO leaf_keys (study, secret) VALUES (?, ?) ON CONFLICT DO NOTHING"
            execute(added, (study, fresh))
            ((kept,),) = execute(
                "SELECT secret FROM leaf_keys WHERE study = ?", (study,)
            ).fetchall()
            return bytes(kept)

        return self._dialect.write(step)

    def leaf_key(self, study_digest: bytes) -> bytes | None:
        """Return a study's leaf key; None if it has none, or it was deleted with the reports."""
        row = self._row(
            "SELECT secret FROM leaf_keys JOIN studies ON studies.number = leaf_keys.study"
            " WHERE digest = ?",
            study_digest,
        )
        return None if row is None else bytes(row[0])

    def open_round(
        self,
        study_digest: bytes,
        number: int,
        request_digests: Sequence[bytes],
        deadline: Deadline | None,
        epoch: int = 0,
    ) -> RoundNote:
        """Note that a round's requests are about to be asked, and its deadline.

        Returns:
          The round as it was noted first, with the deadline noted last.
        """

        def step(execute: Execute) -> RoundNote:
            of = (self._driven(execute, study_digest), epoch, number)
            execute(
                "INSERT INTO rounds (study, epoch, number, boot, at_ms, left_ms, opened_unix_s)"
                f" VALUES (?, ?, ?, ?, ?, ?, {self._dialect.now_s})"
                f" ON CONFLICT (study, epoch, number) {self._dialect.round_again}",
                (*of, *((None, None, None) if deadline is None else _columns(deadline))),
            )
            self._dialect.note_requests(execute, request_digests, of)
            ((boot, at_ms, left_ms, closed, age_s),) = execute(
                "SELECT boot, at_ms, left_ms, closed,"
                f" {self._dialect.now_s} - opened_unix_s FROM rounds {_ROUND}",
                of,
            ).fetchall()
            self.replicas.notify(execute)
            noted = None if boot is None else Deadline(boot, at_ms, left_ms)
            return RoundNote(noted, bool(closed), max(age_s or 0, 0))

        return self._dialect.write(step)

    def open_rounds(self) -> OpenRounds:
        """Return how many rounds take reports, and the age of the oldest."""
        ((number, oldest_s),) = self._rows(_OPEN_ROUNDS.format(now=self._dialect.now_s))
        return OpenRounds(number, None if oldest_s is None else max(oldest_s, 0))

    def note_deadline(
        self, study_digest: bytes, number: int, deadline: Deadline, epoch: int = 0
    ) -> None:
        """Replace the deadline of a round that was noted."""

        def step(execute: Execute) -> None:
            of = (self._driven(execute, study_digest), epoch, number)
            execute(
                f"UPDATE rounds SET boot = ?, at_ms = ?, left_ms = ? {_ROUND}",
                (*_columns(deadline), *of),
            )

        self._dialect.write(step)

    def close_round(self, study_digest: bytes, number: int, epoch: int = 0) -> None:
        """Note that a round takes no more reports; for good."""

        def step(execute: Execute) -> None:
            of = (self._driven(execute, study_digest), epoch, number)
            execute(f"UPDATE rounds SET closed = true {_ROUND}", of)
            self.replicas.notify(execute)

        self._dialect.write(step)

    def asked(self, request_digest: bytes) -> AskedRequest | None:
        """Return the request of that digest; None if no round recorded it.

        It is over when its round has closed, or its epoch or its study has ended.
        """
        row = self._row(
            "SELECT coalesce(studies.digest, ?),"
            " coalesce(closed, true) OR EXISTS (SELECT 1 FROM conclusions AS ended"
            "  WHERE ended.study = requests.study AND ended.epoch IN (0, requests.epoch))"
            " FROM requests LEFT JOIN studies ON studies.number = requests.study"
            " LEFT JOIN rounds ON rounds.study = requests.study AND rounds.epoch = requests.epoch"
            "  AND rounds.number = requests.round WHERE requests.digest = ?",
            b"",
            request_digest,
        )
        return None if row is None else AskedRequest(row[0], bool(row[1]))

    def conclude(
        self,
        study_digest: bytes,
        conclusion: Conclusion,
        epoch: int = 0,
        ended_unix_s: int | None = None,
    ) -> None:
        """Note how a study, or one of its epochs, ended, and when; StoreError if otherwise.

        The time is that of a study's end, in Unix seconds; None: `Retention.note_ends` notes one.
        """

        def step(execute: Execute) -> None:
            study = self._driven(execute, study_digest)
            self._dialect.end_rounds(execute, study, epoch)
            self.replicas.notify(execute)
            added = execute(
                "INSERT INTO conclusions"
                " (study, epoch, state, reason, message, result_json, max_asked)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (
                    study,
                    epoch,
                    int(conclusion.state),
                    conclusion.reason,
                    conclusion.message,
                    conclusion.result_json,
                    conclusion.max_asked_nano_nats,
                ),
            )
            (stored,) = execute(
                f"{_CONCLUSION} WHERE number = ? AND epoch = ?", (study, epoch)
            ).fetchall()
            if _conclusion(stored) != conclusion:
                raise StoreError(
                    f"study {study_digest.hex()[:16]}: expected no other conclusion, found one"
                    " stored"
                )
            if ended_unix_s is not None and not epoch:
                note_end(execute, study, ended_unix_s)
            if added.rowcount:
                words = (conclusion.state.name, conclusion.reason, conclusion.message)
                id_ = message_id(study_digest, epoch, (*words, conclusion.result_json))
                self.webhooks.note_end(execute, study, epoch, id_, ended_unix_s)

        self._dialect.write(step)

    def epochs(self, study_digest: bytes) -> list[EpochEntry]:
        """Return the ended epochs of a study by index; none if it collects once.

        The end of the study itself is not among them.
        """
        rows = self._rows(
            "SELECT epoch, state, reason, message, max_asked FROM conclusions"
            " JOIN studies ON studies.number = conclusions.study"
            " WHERE digest = ? AND epoch > 0 ORDER BY epoch",
            study_digest,
        )
        return [EpochEntry(epoch, StudyState(state), *rest) for epoch, state, *rest in rows]

    def conclusions(self) -> dict[bytes, Conclusion]:
        """Return the ends of all studies that have ended, by digest; for checks of a store."""
        rows = self._rows(f"{_CONCLUSION} WHERE epoch = 0 ORDER BY number")
        return {row[0]: _conclusion(row) for row in rows}

    def conclusion(self, study_digest: bytes, epoch: int = 0) -> Conclusion | None:
        """Return the end of a study or of an epoch; None while it is open, or if it is unknown."""
        row = self._row(f"{_CONCLUSION} WHERE digest = ? AND epoch = ?", study_digest, epoch)
        return None if row is None else _conclusion(row)

    def study_costs(self) -> list[int]:
        """Return for each ended study the most nano-nats that a user was asked for, unordered."""
        return [
            asked for (asked,) in self._rows("SELECT max_asked FROM conclusions WHERE epoch = 0")
        ]

    def nano_nats_asked(self) -> int:
        """Return the sum over ended studies of the most nano-nats that a user was asked for."""
        return sum(self.study_costs())  # in Python: SQLite's integers end at 2^63

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        """Make a batch of reports durable in one transaction, each counted exactly once.

        The caller has checked that the request was asked of that user and that the report is one.

        Returns:
          For each arrival ACCEPTED (new), DUPLICATE (the same bytes are stored already) or CONFLICT
          (other bytes are; these are kept as evidence, the first `MAX_EVIDENCE` of them). In a
          store that several processes share, LATE if its round has closed or its study has ended:
          it is not stored. The one process of another store checks that itself.

        Raises:
          StoreError: nothing may be acknowledged. What became durable all the same is a duplicate
            when it is delivered again.
        """
        return self._accept(checked_arrivals(arrivals))

    @abstractmethod
    def _accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        """Store arrivals that are in range (see `Store.accept`)."""

    def acknowledged_sequence(self, ordinal: int) -> int:
        """Return the highest sequence number in the accepted reports of a user; 0 for none."""
        return self.acknowledged_sequences((ordinal,))[0]

    def acknowledged_sequences(self, ordinals: Sequence[int]) -> list[int]:
        """Return the highest sequence number of each user (see `acknowledged_sequence`)."""
        columns = "ordinal, acknowledged_sequence"
        rows = self._dialect.read(
            lambda execute: self._device_rows(execute, columns, "ordinal", ordinals)
        )
        known: dict[int, int] = dict(rows)
        return [known.get(ordinal, 0) for ordinal in ordinals]

    def reports(self, request_digest: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the accepted reports of a request, (ordinal, bytes), in the order of ordinals."""
        key, last = self._request_key(request_digest), -1
        while key is not None:
            rows = self._rows(
                f"SELECT ordinal, data FROM reports WHERE {self._dialect.of_request}"
                " AND ordinal > ? ORDER BY ordinal LIMIT ?",
                *key,
                last,
                _REPORTS_AT_ONCE,
            )
            yield from ((ordinal, data) for ordinal, data in rows)
            if len(rows) < _REPORTS_AT_ONCE:
                return
            last = rows[-1][0]

    def report(self, request_digest: bytes, ordinal: int) -> bytes | None:
        """Return the report accepted from one user for a request."""
        key = self._request_key(request_digest)
        if key is None:
            return None
        row = self._row(
            f"SELECT data FROM reports WHERE {self._dialect.of_request} AND ordinal = ?",
            *key,
            ordinal,
        )
        return None if row is None else bytes(row[0])

    def evidence(self, request_digest: bytes) -> Iterator[tuple[int, bytes]]:
        """The refused reports of a request: (ordinal, bytes), by ordinal, oldest first."""
        rows = self._rows(
            f"SELECT ordinal, data FROM evidence WHERE {_OF_DIGEST} ORDER BY ordinal, place",
            request_digest,
        )
        return ((ordinal, data) for ordinal, data in rows)

    def back_up(self, path: Path, now_s: int) -> Manifest:
        """Write a backup to a new file, whole or not at all, while the store is written to."""
        return self._dialect.back_up(path, now_s)

    def restored_sequences(self) -> dict[int, int]:
        """Return the highest sequence numbers of users as the last restored backup had them.

        By ordinal; a user of none is absent.
        """
        return dict(self._rows("SELECT ordinal, sequence FROM restored_sequences"))

    def restores(self) -> list[RestoreNote]:
        """Return the restorations of backups into this store, the oldest first."""
        rows = self._rows(
            "SELECT restored_unix_s, backup_unix_s FROM restores ORDER BY restored_unix_s"
        )
        return [RestoreNote(*row) for row in rows]

    def check_writable(self) -> None:
        """Write and remove 64 KiB durably."""
        self._dialect.write(self._dialect.probe)

    def size_bytes(self) -> int:
        """Return the bytes that the store takes on its disk."""
        return self._dialect.size_bytes()

    def close(self) -> None:
        """Release what the store holds; nothing else may be called afterwards."""
        self._dialect.close()

    def _rows(self, statement: str, *parameters: object) -> list[Any]:
        return list_rows(self._dialect, statement, parameters)

    def _row(self, statement: str, *parameters: object) -> Any | None:
        return first_row(self._dialect, statement, parameters)

    def _request_key(self, digest: bytes) -> Any | None:
        return self._row(
            f"SELECT {self._dialect.request_key} FROM requests WHERE digest = ?", digest
        )

    def _driven(self, execute: Execute, digest: bytes) -> int:
        """Return a study's number, for a write that only its driver may make."""
        study = study_number(execute, digest)
        self.replicas.check(execute, study)
        return study

    def _population(self, execute: Execute, end: str = "") -> int:
        return int(execute(f"{self._dialect.population}{end}", ()).fetchall()[0][0])

    def _device_rows(
        self, execute: Execute, columns: str, key: str, values: Sequence[bytes] | Sequence[int]
    ) -> list[Any]:
        """Return columns of the devices whose key is one of some values."""
        rows: list[Any] = []
        for start in range(0, len(values), _DEVICES_AT_ONCE):
            where, parameters = self._dialect.one_of(key, values[start : start + _DEVICES_AT_ONCE])
            rows += execute(f"SELECT {columns} FROM devices WHERE {where}", parameters).fetchall()
        return rows

    def _known(self, execute: Execute, listed: list[tuple[bytes, bytes]]) -> dict[int, bytes]:
        """Return the token digests of the devices that are enrolled, by their place in the list."""
        ids = [device_id for device_id, _ in listed]
        known: dict[bytes, bytes] = dict(
            self._device_rows(execute, "device_id, token_digest", "device_id", ids)
        )
        if not known:
            return {}
        places = enumerate(device_id for device_id, _ in listed)
        return {place: known[device_id] for place, device_id in places if device_id in known}

    def _join(self, execute: Execute, gateway: int, listed: list[tuple[bytes, bytes]]) -> None:
        """Make known devices members of a gateway; those that are already are not written again."""
        for start in range(0, len(listed), _DEVICES_AT_ONCE):
            ids = [device_id for device_id, _ in listed[start : start + _DEVICES_AT_ONCE]]
            where, parameters = self._dialect.one_of("device_id", ids)
            execute(
                f"UPDATE devices SET gateway = ? WHERE coalesce(gateway, 0) <> ? AND {where}",
                (gateway, gateway, *parameters),
            )


class StudyLog:
    """A transcript of a study or of one of its epochs: lines, appended and never changed."""

    def __init__(self, dialect: Dialect, replicas: Replicas, study: int, epoch: int) -> None:
        self._dialect = dialect
        self._replicas = replicas
        self._of = (study, epoch)

    def append(self, line: str) -> None:
        """Add a line; it is durable when this returns."""

        def step(execute: Execute) -> None:
            self._replicas.check(execute, self._of[0])
            execute(
                "INSERT INTO transcript_lines (study, epoch, number, line)"
                " SELECT ?, ?, coalesce(max(number) + 1, 0), ?"
                " FROM transcript_lines WHERE study = ? AND epoch = ?",
                (*self._of, line, *self._of),
            )

        self._dialect.write(step)

    def lines(self) -> Iterator[str]:
        """All lines, oldest first, as they are when this is called; read as they are taken."""
        return read_transcript(self._dialect, *self._of)


def _gateway_number(execute: Execute, gateway: tuple[bytes, bytes]) -> int:
    """Return a gateway's number, which it gets when it is new; no other device is being added."""
    execute(
        "INSERT INTO gateways (number, gateway_id, token_digest)"
        " SELECT coalesce(max(number), 0) + 1, ?, ? FROM gateways WHERE true"
        " ON CONFLICT (gateway_id) DO NOTHING",
        gateway,
    )
    ((number, token_digest),) = execute(
        "SELECT number, token_digest FROM gateways WHERE gateway_id = ?", gateway[:1]
    ).fetchall()
    if token_digest != gateway[1]:
        raise EnrolmentRefused(
            "enrolment: expected a gateway with its own token, found it enrolled with another"
        )
    return int(number)


def _columns(deadline: Deadline) -> tuple[str, int, int]:
    return deadline.boot, deadline.at_ms, deadline.left_ms


def _conclusion(row: Any) -> Conclusion:
    _, state, *rest = row
    return Conclusion(StudyState(state), *rest)


def read_transcript(transactions: Transactions, study: int, epoch: int) -> Iterator[str]:
    """Return the lines of a transcript as they are now, oldest first.

    They are read in pages as they are taken, so that a long transcript is never whole in memory.
    Lines that are deleted meanwhile are left out.
    """
    statement = f"SELECT coalesce(max(number) + 1, 0) {_OF_TRANSCRIPT}"
    ((count,),) = list_rows(transactions, statement, (study, epoch))
    return _pages(transactions, (study, epoch), count)


def _pages(transactions: Transactions, of: tuple[int, int], count: int) -> Iterator[str]:
    start = 0
    while start < count:
        page = _page(transactions, of, start, min(start + _LINES_AT_ONCE, count))
        if not page:
            return
        yield from page
        start += len(page)


def _page(transactions: Transactions, of: tuple[int, int], start: int, stop: int) -> list[str]:
    """Return lines from a number on: one at least, and no more than a page holds."""
    sizes = list_rows(transactions, f"SELECT length(line) {_BETWEEN}", (*of, start, stop))
    fitting = held = 0
    for (size,) in sizes:
        held += size
        if fitting and held > _CHARACTERS_AT_ONCE:
            break
        fitting += 1
    rows = list_rows(transactions, f"SELECT line {_BETWEEN}", (*of, start, start + fitting))
    return [str(line) for (line,) in rows]


def checked_devices(devices: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The devices as a list, each of which could be enrolled in an empty store."""
    listed = list(devices)
    seen: set[bytes] = set()
    for place, (device_id, token_digest) in enumerate(listed):
        if not 1 <= len(device_id) <= DEVICE_ID_BYTES:
            raise StoreError(
                f"enrolment: expected ids of 1 to {DEVICE_ID_BYTES} bytes,"
                f" found {len(device_id)} at device {place}"
            )
        if len(token_digest) != DIGEST_BYTES:
            raise StoreError(
                f"enrolment: expected token digests of {DIGEST_BYTES} bytes,"
                f" found {len(token_digest)} at device {place}"
            )
        if device_id in seen:
            raise StoreError(f"enrolment: expected distinct ids, found device {place} again")
        seen.add(device_id)
    return listed


def checked_arrivals(arrivals: Sequence[StoredReport]) -> Sequence[StoredReport]:
    """The arrivals, each of a form that a store keeps."""
    for arrival in arrivals:
        if len(arrival.request_digest) != DIGEST_BYTES or arrival.ordinal < 0:
            raise StoreError(
                f"reports: expected a digest of {DIGEST_BYTES} bytes and an ordinal of 0 or more,"
                f" found {len(arrival.request_digest)} bytes and {arrival.ordinal}"
            )
        if not 0 <= arrival.sequence <= MAX_SEQUENCE:
            raise StoreError(
                f"reports: expected a sequence number of 0 to 2^63 - 1, got {arrival.sequence}"
            )
    return arrivals


def checked_enrolment(
    devices: Iterable[tuple[bytes, bytes]],
    token_id: bytes,
    gateway: tuple[bytes, bytes] | None = None,
) -> list[tuple[bytes, bytes]]:
    """The devices of an enrolment by token, as `checked_devices` has them."""
    if len(token_id) != TOKEN_ID_BYTES:
        raise StoreError(
            f"enrolment: expected a token id of {TOKEN_ID_BYTES} bytes, found {len(token_id)}"
        )
    if gateway is not None:
        checked_devices([gateway])
    return checked_devices(devices)
