"""Register of devices: who may take part, under which tags, and how they were made known.

An operator revokes, restores, tags and forgets devices here, beside the processes that serve them:
every change raises the register's standing number, which those processes poll. A forgotten device's
place among the users stays empty, so that no other user is ever counted under its ordinal.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.csv_tables import csv_table
from askance_aggregator.store.dialect import Execute, Transactions, list_rows, marks
from askance_aggregator.store.replicas import RoundAnswers
from askance_aggregator.store.tagged_population import MAX_TAGS, TaggedPopulation, checked_tags
from askance_client.errors import InvalidParameter, StoreError

MAX_SELECTED_IDS = 500  # in one command; more devices are selected by a tag
MAX_LISTED = 10_000  # devices of one page


class DeviceState(IntEnum):
    """State of a device or a gateway. The numbers are stored."""

    ACTIVE = 0
    REVOKED = 1
    FORGOTTEN = 2


class UnknownDevice(StoreError):
    """A device or a gateway that the register does not have; nothing was changed."""


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device in the register, without its token.

    Args:
      device_id: 1 to 64 bytes.
      ordinal: its place among the users.
      state: ACTIVE or REVOKED.
      tags: sorted.
      gateway: id of the gateway that it is a member of; empty: of none.
      enrolled_day: days since 1970, UTC; None: enrolled before the register noted it.
      seen_day: the last day on which it called; None: no call was noted.
      software: name and version of the program of its last noted call, as it, or its gateway,
        stated them; empty: it stated none.
    """

    device_id: bytes
    ordinal: int
    state: DeviceState
    tags: tuple[str, ...] = ()
    gateway: bytes = b""
    enrolled_day: int | None = None
    seen_day: int | None = None
    software: str = ""


@dataclass(frozen=True, slots=True)
class GatewayEntry:
    """A gateway in the register: its id, number, state and number of members."""

    gateway_id: bytes
    number: int
    state: DeviceState
    members: int


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """Devices that a command is about: those of some ids, or those that have all of some tags.

    Args:
      ids: of devices or gateways, at most `MAX_SELECTED_IDS`.
    """

    ids: tuple[bytes, ...] = ()
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.ids) == bool(self.tags):
            found = "both" if self.ids else "neither"
            raise InvalidParameter(f"devices: expected ids or tags, got {found}")
        if len(self.ids) > MAX_SELECTED_IDS:
            raise InvalidParameter(
                f"devices: expected at most {MAX_SELECTED_IDS} ids, got {len(self.ids)} (give them"
                " a tag)"
            )
        checked_tags(self.tags)

    def __str__(self) -> str:
        """Describe the devices without an id, for the audit log."""
        if self.tags:
            return f"devices with {'tag' if len(self.tags) == 1 else 'tags'} {' '.join(self.tags)}"
        return f"{len(self.ids):,} by id"


@dataclass(frozen=True, slots=True)
class Affected:
    """Number of devices and of gateways that a command changed."""

    devices: int
    gateways: int = 0

    @property
    def total(self) -> int:
        """Number of both."""
        return self.devices + self.gateways


@dataclass(frozen=True, slots=True)
class SelectedCount:
    """Number of selected devices that `Register.revoke` would change, and `Register.restore`."""

    active: Affected
    revoked: Affected


@dataclass(frozen=True, slots=True)
class RegisterCount:
    """Number of active and of revoked devices, and of places that forgotten ones left empty."""

    active: int
    revoked: int
    forgotten: int

    @property
    def enrolled(self) -> int:
        """Number of devices that the register has."""
        return self.active + self.revoked


@dataclass(frozen=True, slots=True)
class SeenDevices:
    """Devices that may take part, by the last day on which they called.

    Args:
      tag: that they have; empty: all devices.
      devices: number of them.
      today: that have called today, UTC.
      week: within seven days, today included.
      month: within thirty days, likewise.
      never: of which no call was noted.
    """

    tag: str
    devices: int
    today: int
    week: int
    month: int
    never: int


@dataclass(frozen=True, slots=True)
class Silence:
    """Devices by what they have not done.

    Args:
      seen: by their last call, all and by tag.
      rounds: devices that open rounds ask, by what they owe, all and by tag.
      closed: the same of closed rounds, those of the newest studies first.
    """

    seen: tuple[SeenDevices, ...]
    rounds: tuple[RoundAnswers, ...]
    closed: tuple[RoundAnswers, ...]

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return asdict(self)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per tag, and per tag in each round, with all columns."""
        rows: list[dict[str, Any]] = [
            {"about": "last call", "devices": one.devices, **asdict(one)} for one in self.seen
        ]
        for about, found in (("open round", self.rounds), ("closed round", self.closed)):
            for row in found:
                of = {"study": row.study, "epoch": row.epoch, "round": row.number, "tag": row.tag}
                counts = {"devices": row.asked, "answered": row.answered}
                if about == "open round":
                    counts |= {"silent": row.silent, "away": row.away}
                rows.append({"about": about, **of, **counts})
        return [{name: row.get(name, "") for name in SILENCE_COLUMNS} for row in rows]

    def to_csv(self) -> str:
        """Return the rows as CSV, with a line of heads."""
        return csv_table(self.to_rows(), SILENCE_COLUMNS)


SILENCE_COLUMNS = (
    *("about", "study", "epoch", "round", "tag", "devices"),
    *("answered", "silent", "away", "today", "week", "month", "never"),
)


@dataclass(frozen=True, slots=True)
class StandingChanges:
    """Changes of the register since an earlier standing number, up to `number`.

    Devices are by ordinal, gateways by number.
    """

    number: int
    devices: Mapping[int, DeviceState] = field(default_factory=dict)
    gateways: Mapping[int, DeviceState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """An enrolment token that was issued or used; the token itself is not kept.

    Args:
      devices: how many were enrolled with it.
      limit: how many may be in all; None: it was issued before tokens were kept.
      ends_unix_s: from then on it is refused; None as of `limit`.
      tags: those that its devices get at their enrolment, sorted.
    """

    token_id: bytes
    devices: int
    limit: int | None
    ends_unix_s: int | None
    revoked: bool
    tags: tuple[str, ...] = ()


def checked_tagging(
    add: Sequence[str], remove: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tags to add and to remove."""
    added, removed = checked_new_tags(add), checked_tags(remove)
    if not added and not removed:
        raise InvalidParameter("tags: expected one to add or to remove, got none")
    both = sorted(set(added) & set(removed))
    if both:
        raise InvalidParameter(f"tags: expected each added or removed, got both for {both[0]!r}")
    return added, removed


def checked_new_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags that a device is given, each once."""
    given = checked_tags(tags)
    keys = [key for key in map(key_of, given) if key]
    for key in keys:
        if keys.count(key) > 1:
            raise InvalidParameter(f"tags: expected one value per key, got several for {key!r}")
    return given


def key_of(tag: str) -> str:
    """Return the key of a tag KEY=VALUE; an empty text for a bare word."""
    key, mark, _ = tag.partition("=")
    return key if mark else ""


def checked_limit(limit: int) -> int:
    """Return a page's limit, or raise InvalidParameter if it is out of range."""
    if not 1 <= limit <= MAX_LISTED:
        raise InvalidParameter(f"limit: expected 1 to {MAX_LISTED}, got {limit}")
    return limit


def too_many_tags(ordinal: int) -> InvalidParameter:
    """The refusal of more tags than a device may have."""
    return InvalidParameter(
        f"tags: expected at most {MAX_TAGS} per device, got more for the device of ordinal"
        f" {ordinal}; nothing was changed"
    )


def unknown_device(device_id: bytes, what: str = "device") -> UnknownDevice:
    """The refusal of an id that the register does not have."""
    return UnknownDevice(
        f"{what}: expected the id of one that is enrolled, got {device_id.hex()}; nothing was"
        f" changed (askance aggregator {'token' if 'token' in what else 'device'} list)"
    )


_SEEN_AT_ONCE = 500  # ordinals of one statement
_LEVEL = 1  # of compression: a list of users is written once, and mostly gaps of 1

_ENTRY = (
    "SELECT device_id, ordinal, devices.state, coalesce(gateway_id, ?), enrolled_day, seen_day,"
    " coalesce(software, '')"
    " FROM devices LEFT JOIN gateways ON gateways.number = devices.gateway"
)
_PAGE = " WHERE devices.ordinal > ? ORDER BY devices.ordinal LIMIT ?"
# One tag leads, by its index from the page's start on; the others are looked up per device. The
# condition is on the tag's own ordinal: a join's equality does not lead into an index by itself.
_PAGE_OF_TAG = (
    " JOIN device_tags USING (ordinal) WHERE device_tags.ordinal > ? AND tag = ?{others}"
    " ORDER BY device_tags.ordinal LIMIT ?"
)
_OTHER_TAG = (
    " AND EXISTS (SELECT 1 FROM device_tags AS other WHERE other.tag = ?"
    " AND other.ordinal = device_tags.ordinal)"
)
_READ_AT_ONCE = 20_000  # ordinals of one statement over all devices: others pass in between
_SEEN = (
    "count(*), count(*) FILTER (WHERE seen_day >= ?), count(*) FILTER (WHERE seen_day >= ?),"
    " count(*) FILTER (WHERE seen_day >= ?), count(*) FILTER (WHERE seen_day IS NULL)"
)
_LAST_DAY = "coalesce(seen_day, enrolled_day)"  # NULL: neither was noted
_RANGE = "ordinal >= ? AND ordinal < ?"
_SEEN_OF_ALL = f"SELECT '', {_SEEN} FROM devices WHERE state = 0 AND {_RANGE}"
_SEEN_OF_TAGS = (
    f"SELECT tag, {_SEEN} FROM device_tags JOIN devices USING (ordinal)"
    f" WHERE state = 0 AND {_RANGE} GROUP BY tag"
)
_COMPARED = 10_000  # devices of a tag that are counted to find the rarest of several tags
_STATES = (
    "SELECT ordinal, state FROM devices WHERE changed > ?"
    " UNION ALL SELECT ordinal, 2 FROM empty_places WHERE changed > ?"
)


class Register:
    """The operator's view of a store's devices. Safe to share between threads.

    Every change is one transaction, durable when its method returns. A method that is given an id
    or a token that the register does not have raises UnknownDevice, and nothing is changed.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def devices(
        self, tags: Sequence[str] = (), after: int = -1, limit: int = 100
    ) -> list[DeviceEntry]:
        """Return devices that have all of some tags, by ordinal: at most `limit`, above `after`."""
        wanted, most = checked_tags(tags), checked_limit(limit)

        def step(execute: Execute) -> list[DeviceEntry]:
            if not wanted:
                return _entries(execute, f"{_ENTRY}{_PAGE}", (b"", after, most))
            ordered = _rarest_first(execute, wanted, after)
            others = _OTHER_TAG * (len(ordered) - 1)
            statement = f"{_ENTRY}{_PAGE_OF_TAG.format(others=others)}"
            return _entries(execute, statement, (b"", after, *ordered, most))

        return self._transactions.read(step)

    def gateways(self, after: int = 0, limit: int = 100) -> list[GatewayEntry]:
        """Return gateways whose numbers are above `after`, at most `limit` of them, by number."""
        rows = self._rows(
            "SELECT gateway_id, number, state,"
            " (SELECT count(*) FROM devices WHERE devices.gateway = gateways.number)"
            " FROM gateways WHERE number > ? ORDER BY number LIMIT ?",
            (after, checked_limit(limit)),
        )
        return [
            GatewayEntry(gateway_id, number, DeviceState(state), members)
            for gateway_id, number, state, members in rows
        ]

    def show(self, device_id: bytes) -> DeviceEntry:
        """Return a device."""
        found = self._transactions.read(
            lambda execute: _entries(execute, f"{_ENTRY} WHERE device_id = ?", (b"", device_id))
        )
        if not found:
            raise unknown_device(device_id)
        return found[0]

    def tag(
        self, selection: DeviceSelection, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> Affected:
        """Give tags to devices, and take tags from them; return how many devices were selected.

        A tag KEY=VALUE takes the place of the device's other tag of that key.
        """
        added, removed = checked_tagging(add, remove)

        def step(execute: Execute) -> Affected:
            _check_devices(execute, selection)
            where, parameters = _selected(selection)
            ((selected,),) = execute(
                f"SELECT count(*) FROM devices WHERE ordinal IN ({where})", parameters
            ).fetchall()
            for tag in added:
                execute(
                    f"INSERT INTO device_tags SELECT ?, ordinal FROM devices WHERE ordinal IN"
                    f" ({where}) ON CONFLICT DO NOTHING",
                    (tag, *parameters),
                )
            if removed:  # in one statement: what it removes may select
                execute(
                    f"DELETE FROM device_tags WHERE tag IN ({marks(removed)})"
                    f" AND ordinal IN ({where})",
                    (*removed, *parameters),
                )
            for tag in added:
                _keep_one_value(execute, tag)
                _check_number(execute, tag)
            return Affected(selected)

        return self._transactions.write(step)

    def revoke(self, selection: DeviceSelection) -> Affected:
        """Exclude devices and gateways; those that were already do not count."""
        return self._change(selection, DeviceState.REVOKED)

    def restore(self, selection: DeviceSelection) -> Affected:
        """Admit revoked devices and gateways again."""
        return self._change(selection, DeviceState.ACTIVE)

    def count_selected(self, selection: DeviceSelection) -> SelectedCount:
        """Count the devices and gateways of a selection by their state; nothing is changed."""

        def step(execute: Execute) -> SelectedCount:
            _check_devices(execute, selection, gateways=True)
            where, parameters = _selected(selection)
            devices = execute(
                f"SELECT state, count(*) FROM devices WHERE ordinal IN ({where}) GROUP BY state",
                parameters,
            ).fetchall()
            gateways: list[Any] = []
            if selection.ids:
                gateways = execute(
                    "SELECT state, count(*) FROM gateways WHERE gateway_id IN"
                    f" ({marks(selection.ids)}) GROUP BY state",
                    selection.ids,
                ).fetchall()
            by_state = [dict(devices), dict(gateways)]
            active, revoked = (
                Affected(*(int(found.get(int(state), 0)) for found in by_state))
                for state in (DeviceState.ACTIVE, DeviceState.REVOKED)
            )
            return SelectedCount(active, revoked)

        return self._transactions.read(step)

    def forget(self, selection: DeviceSelection) -> Affected:
        """Erase devices' ids, token digests, tags, days and certificates.

        Their ordinals stay empty. Reports that were accepted stay, under the ordinal alone. A
        forgotten id may enrol again, as a new user.
        """

        def step(execute: Execute) -> Affected:
            _check_devices(execute, selection)
            where, parameters = _selected(selection)
            return Affected(_erase(execute, f"ordinal IN ({where})", parameters))

        return self._transactions.write(step)

    def lapse(self, before_day: int) -> Iterator[int]:
        """Forget devices that have neither called nor been enrolled on a day or later.

        Revoked ones stay, so that their ids stay refused, and so do those without a noted day. They
        are forgotten in parts, whose numbers are yielded; other transactions pass in between.
        """
        due = f"state = 0 AND {_LAST_DAY} < ? AND {_RANGE}"
        for range_ in self._ranges():
            of = (before_day, *range_)
            if self._rows(f"SELECT count(*) FROM devices WHERE {due}", of)[0][0]:
                yield self._transactions.write(partial(_erase, where=due, parameters=of))

    def called_day(self, until_day: int, back: int) -> int | None:
        """Return a day on which any device has called, `back` such days before the last of them.

        Args:
          until_day: later ones, of a clock that was ahead, do not count.
          back: 0 or more.

        Returns:
          The day, counted from 1970; None: there were not so many.
        """
        rows = self._rows(
            "SELECT day FROM called_days WHERE day <= ? ORDER BY day DESC LIMIT 1 OFFSET ?",
            (until_day, back),
        )
        return int(rows[0][0]) if rows else None

    def count(self) -> RegisterCount:
        # Each ordinal up to the last is a device's or an empty place: no device is counted by row.
        """Return how many devices there are in each state."""
        ((last, last_empty, revoked, forgotten),) = self._rows(
            "SELECT (SELECT coalesce(max(ordinal), -1) FROM devices),"
            " (SELECT coalesce(max(ordinal), -1) FROM empty_places),"
            " (SELECT count(*) FROM devices WHERE state = 1), (SELECT count(*) FROM empty_places)"
        )
        devices = max(last, last_empty) + 1 - forgotten
        return RegisterCount(devices - revoked, revoked, forgotten)

    def seen(self, day: int, most_tags: int) -> tuple[SeenDevices, ...]:
        """Return devices by their last call: all, then those of each tag, the most devices first.

        A large register is read in parts, so that no other transaction waits for the whole.

        Args:
          day: the present one, counted from 1970.
          most_tags: tags at most.
        """
        sums: dict[str, list[int]] = {"": [0] * 5}
        for parameters in self._ranges():
            for statement in (_SEEN_OF_ALL, _SEEN_OF_TAGS):
                days = (day, day - 6, day - 29)
                for tag, *numbers in self._rows(statement, (*days, *parameters)):
                    known = sums.setdefault(tag, [0] * 5)
                    sums[tag] = [a + b for a, b in zip(known, numbers, strict=True)]
        of_all = SeenDevices("", *sums.pop(""))
        tags = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))[:most_tags]
        return (of_all, *(SeenDevices(tag, *numbers) for tag, numbers in tags))

    def tagged(self) -> Iterator[list[tuple[str, int]]]:
        """Yield all tags of devices with their ordinals, in parts as `seen` reads them."""
        statement = f"SELECT tag, ordinal FROM device_tags WHERE {_RANGE}"
        for parameters in self._ranges():
            yield [(tag, ordinal) for tag, ordinal in self._rows(statement, parameters)]

    def note_completion(self, study_digest: bytes, rows: Sequence[RoundAnswers]) -> None:
        """Keep how many devices of each tag a closed round has asked, and how many have answered.

        A round that was noted before is left as it is.
        """

        def step(execute: Execute) -> None:
            for one in rows:
                execute(
                    "INSERT INTO round_completion VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    (study_digest, one.epoch, one.number, one.tag, one.asked, one.answered),
                )

        self._transactions.write(step)

    def completion(self, most: int) -> list[RoundAnswers]:
        """Return closed rounds by tag, those of the newest studies first, `most` rows of them."""
        rows = self._rows(
            "SELECT digest, epoch, round_completion.number, tag, asked, answered"
            " FROM round_completion JOIN studies ON studies.digest = round_completion.study"
            " ORDER BY studies.number DESC, epoch DESC, round_completion.number DESC,"
            " asked DESC, tag LIMIT ?",
            (most,),
        )
        return [
            RoundAnswers(bytes(digest).hex()[:16], epoch, number, tag, asked, answered, 0)
            for digest, epoch, number, tag, asked, answered in rows
        ]

    def _ranges(self) -> Iterator[tuple[int, int]]:
        ((last,),) = self._rows("SELECT coalesce(max(ordinal), -1) FROM devices")
        for start in range(0, last + 1, _READ_AT_ONCE):
            yield start, start + _READ_AT_ONCE

    def fix_users(
        self,
        study_digest: bytes,
        tags: Sequence[str],
        epoch: int = 0,
        since_day: int | None = None,
    ) -> NDArray[np.int64]:
        """Return the users of a study, or of an epoch of it; decided at the first call, for good.

        Args:
          study_digest: of the study.
          tags: that its devices have; none: all devices.
          epoch: of the study.
          since_day: on which, or later, they have called or were enrolled, counted from 1970;
            None: whenever.

        Returns:
          Ordinals of these devices, without those that were revoked, sorted. A later call, also by
          another process and with other arguments, returns the same.
        """
        of = (study_digest, epoch)
        kept = self._fixed(of)
        if kept is None:
            asked, parameters = _active(tags, since_day)

            def step(execute: Execute) -> None:
                rows = execute(
                    f"SELECT ordinal FROM devices WHERE {asked} ORDER BY ordinal", parameters
                ).fetchall()
                users = np.fromiter((ordinal for (ordinal,) in rows), "<i8", len(rows))
                execute(
                    "INSERT INTO study_users VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    (*of, _packed(users)),
                )

            self._transactions.write(step)
            kept = self._fixed(of)
            assert kept is not None
        return kept

    def fixed_users(self, study_digest: bytes, epoch: int = 0) -> NDArray[np.int64] | None:
        """Return the users that `fix_users` has decided; None if it was not called yet."""
        return self._fixed((study_digest, epoch))

    def count_tagged(self, tags: Sequence[str], since_day: int | None = None) -> int:
        """Return the number of devices that `fix_users` would return."""
        if not tags and since_day is None:
            return self.count().active
        asked, parameters = _active(tags, since_day)
        return int(self._rows(f"SELECT count(*) FROM devices WHERE {asked}", parameters)[0][0])

    def keep_population(self, study_digest: bytes, population: TaggedPopulation) -> None:
        """Keep the tags that name a study's users; the first ones stay."""
        columns = (study_digest, population.salt, " ".join(population.tags))
        self._transactions.write(
            lambda execute: execute(
                "INSERT INTO tagged_populations VALUES (?, ?, ?) ON CONFLICT DO NOTHING", columns
            )
        )

    def population(self, study_digest: bytes) -> TaggedPopulation | None:
        """Return the tags that name a study's users; None: all devices, or they were deleted."""
        statement = "SELECT tags, salt FROM tagged_populations WHERE study = ?"
        rows = self._rows(statement, (study_digest,))
        return TaggedPopulation(tuple(rows[0][0].split(" ")), rows[0][1]) if rows else None

    def standing(self) -> int:
        """Return the standing number: 0 at first, and higher after every change of a state."""
        return int(self._rows("SELECT standing FROM register")[0][0])

    def changes(self, since: int) -> StandingChanges:
        """Return the states that changed after a standing number, and the number now."""
        number = self.standing()  # first: what changes meanwhile is among the next changes
        devices = self._rows(_STATES, (since, since))
        gateways = self._rows("SELECT number, state FROM gateways WHERE changed > ?", (since,))
        return StandingChanges(
            number,
            {ordinal: DeviceState(state) for ordinal, state in devices},
            {gateway: DeviceState(state) for gateway, state in gateways},
        )

    def note_seen(self, ordinals: Sequence[int], day: int, software: str | None = "") -> None:
        """Note that devices called; rows that say so already are not written.

        `day` is counted from 1970; `software` is what all of them stated; empty: none; None: they
        have stated nothing since the last note, and it stays.
        """

        def step(execute: Execute) -> None:
            for start in range(0, len(ordinals), _SEEN_AT_ONCE):
                part = sorted(ordinals[start : start + _SEEN_AT_ONCE])
                if software is None:
                    execute(
                        f"UPDATE devices SET seen_day = ? WHERE ordinal IN ({marks(part)})"
                        " AND coalesce(seen_day, -1) < ?",
                        (day, *part, day),
                    )
                    continue
                execute(
                    "UPDATE devices SET software = ?,"
                    " seen_day = CASE WHEN coalesce(seen_day, -1) < ? THEN ? ELSE seen_day END"
                    f" WHERE ordinal IN ({marks(part)})"
                    " AND (coalesce(seen_day, -1) < ? OR coalesce(software, '') <> ?)",
                    (software, day, day, *part, day, software),
                )
            if ordinals:  # last: who waits for this row holds no other that its writer needs
                take_back_days(execute, day)
                execute("INSERT INTO called_days VALUES (?) ON CONFLICT DO NOTHING", (day,))

        self._transactions.write(step)

    def keep_token(
        self, token_id: bytes, limit: int, ends_unix_s: int, tags: Sequence[str] = ()
    ) -> None:
        """Note an enrolment token that is about to be issued, and the tags of its devices."""
        given = checked_new_tags(tags)

        def step(execute: Execute) -> None:
            execute(
                "INSERT INTO enrolment_tokens (token_id, devices, most, ends_unix_s)"
                " VALUES (?, 0, ?, ?) ON CONFLICT DO NOTHING",
                (token_id, limit, ends_unix_s),
            )
            for tag in given:
                execute(
                    "INSERT INTO token_tags VALUES (?, ?) ON CONFLICT DO NOTHING", (token_id, tag)
                )

        self._transactions.write(step)

    def tokens(self) -> list[TokenEntry]:
        """Return all enrolment tokens that were kept or used, those that end last first."""
        rows = self._rows(
            "SELECT token_id, devices, most, ends_unix_s, revoked FROM enrolment_tokens"
            " ORDER BY coalesce(ends_unix_s, 0) DESC, token_id"
        )
        tags: dict[bytes, list[str]] = {}
        for token_id, tag in self._rows("SELECT token_id, tag FROM token_tags ORDER BY tag"):
            tags.setdefault(bytes(token_id), []).append(tag)
        return [
            TokenEntry(
                *(token_id, used, limit, ends),
                revoked=bool(revoked),
                tags=tuple(tags.get(bytes(token_id), ())),
            )
            for token_id, used, limit, ends, revoked in rows
        ]

    def revoke_token(self, token_id: bytes) -> None:
        """Refuse an enrolment token from now on; devices that it enrolled stay."""

        def step(execute: Execute) -> None:
            statement = "UPDATE enrolment_tokens SET revoked = 1 WHERE token_id = ?"
            if not execute(statement, (token_id,)).rowcount:
                raise unknown_device(token_id, "enrolment token")

        self._transactions.write(step)

    def _change(self, selection: DeviceSelection, state: DeviceState) -> Affected:
        def step(execute: Execute) -> Affected:
            _check_devices(execute, selection, gateways=True)
            where, parameters = _selected(selection)
            to = (int(state), _raise_standing(execute), int(state))
            devices = execute(
                f"UPDATE devices SET state = ?, changed = ? WHERE state <> ? AND ordinal IN"
                f" ({where})",
                (*to, *parameters),
            ).rowcount
            if not selection.ids:
                return Affected(devices)
            gateways = execute(
                "UPDATE gateways SET state = ?, changed = ? WHERE state <> ? AND gateway_id IN"
                f" ({marks(selection.ids)})",
                (*to, *selection.ids),
            ).rowcount
            return Affected(devices, gateways)

        return self._transactions.write(step)

    def _fixed(self, of: tuple[bytes, int]) -> NDArray[np.int64] | None:
        rows = self._rows("SELECT users FROM study_users WHERE study = ? AND epoch = ?", of)
        return _unpacked(rows[0][0]) if rows else None

    def _rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Any]:
        return list_rows(self._transactions, statement, parameters)


def _entries(execute: Execute, statement: str, parameters: Sequence[object]) -> list[DeviceEntry]:
    """Return devices with their tags."""
    rows = execute(statement, parameters).fetchall()
    if not rows:
        return []
    first, last = rows[0][1], rows[-1][1]
    ordinals = {row[1] for row in rows}
    tags: dict[int, list[str]] = {}
    # By a range: a page is mostly one, and an index of tags by ordinal has little else in it.
    for ordinal, tag in execute(
        "SELECT ordinal, tag FROM device_tags WHERE ordinal BETWEEN ? AND ? ORDER BY tag",
        (first, last),
    ).fetchall():
        if ordinal in ordinals:
            tags.setdefault(ordinal, []).append(tag)
    return [
        DeviceEntry(
            device_id, ordinal, DeviceState(state), tuple(tags.get(ordinal, ())), gateway, *calls
        )
        for device_id, ordinal, state, gateway, *calls in rows
    ]


def take_back_days(execute: Execute, day: int) -> None:
    """Forget the noted days of calls after a day that is the present one by some clock."""
    # Either that clock is behind, or another one was ahead. The register cannot tell, so no device
    # lapses for these days. The next day stays, since two processes' days end at different moments.
    execute("DELETE FROM called_days WHERE day > ?", (day + 1,))


def _erase(execute: Execute, where: str, parameters: Sequence[object]) -> int:
    """Forget the devices of a condition, and return how many there were."""
    standing = _raise_standing(execute)
    execute(
        f"INSERT INTO empty_places SELECT ordinal, ? FROM devices WHERE {where}",
        (standing, *parameters),
    )
    emptied = "SELECT ordinal FROM empty_places WHERE changed = ?"
    execute(f"DELETE FROM device_tags WHERE ordinal IN ({emptied})", (standing,))
    execute(f"DELETE FROM certificates WHERE gateway = 0 AND ordinal IN ({emptied})", (standing,))
    return execute(f"DELETE FROM devices WHERE ordinal IN ({emptied})", (standing,)).rowcount


def _rarest_first(execute: Execute, tags: Sequence[str], after: int) -> list[str]:
    """Order tags by their number of devices after an ordinal, as far as it is counted."""
    if len(tags) == 1:
        return list(tags)
    numbers = {
        tag: execute(
            "SELECT count(*) FROM (SELECT 1 FROM device_tags WHERE tag = ? AND ordinal > ?"
            " LIMIT ?) AS counted",
            (tag, after, _COMPARED),
        ).fetchall()[0][0]
        for tag in tags
    }
    return sorted(tags, key=numbers.__getitem__)


def _selected(selection: DeviceSelection) -> tuple[str, tuple[object, ...]]:
    """Return a query of the selected devices' ordinals, and its parameters."""
    if selection.ids:
        of_ids = f"SELECT ordinal FROM devices WHERE device_id IN ({marks(selection.ids)})"
        return of_ids, selection.ids
    one = "SELECT ordinal FROM device_tags WHERE tag = ?"
    return " INTERSECT ".join([one] * len(selection.tags)), selection.tags


def _active(tags: Sequence[str], since_day: int | None) -> tuple[str, tuple[object, ...]]:
    """Return the condition of devices that a study asks (see `fix_users`), and its parameters."""
    seen, days = ("", ()) if since_day is None else (f" AND {_LAST_DAY} >= ?", (since_day,))
    if not tags:
        return f"state = 0{seen}", days
    where, parameters = _selected(DeviceSelection(tags=checked_tags(tags)))
    return f"state = 0{seen} AND ordinal IN ({where})", (*days, *parameters)


def _check_devices(execute: Execute, selection: DeviceSelection, *, gateways: bool = False) -> None:
    """Refuse an id that the register does not have."""
    unknown = _without(execute, "device_id", "devices", selection.ids)
    if gateways:
        unknown = _without(execute, "gateway_id", "gateways", unknown)
    if unknown:
        raise unknown_device(unknown[0])


def _without(execute: Execute, column: str, table: str, ids: Sequence[bytes]) -> list[bytes]:
    """Return those of the ids that a table's column lacks."""
    if not ids:
        return []
    statement = f"SELECT {column} FROM {table} WHERE {column} IN ({marks(ids)})"
    known = {bytes(value) for (value,) in execute(statement, ids).fetchall()}
    return [one for one in ids if one not in known]


def _keep_one_value(execute: Execute, tag: str) -> None:
    """Take the other values of a tag's key from all that have the tag."""
    key = key_of(tag)
    if key:
        execute(
            "DELETE FROM device_tags WHERE tag >= ? AND tag < ? AND tag <> ? AND ordinal IN"
            " (SELECT ordinal FROM device_tags WHERE tag = ?)",
            (f"{key}=", f"{key}>", tag, tag),  # ">" follows "="
        )


def _check_number(execute: Execute, tag: str) -> None:
    # Per device with the tag, by the index of ordinals: grouped, all devices' tags are read.
    over = execute(
        "SELECT ordinal FROM device_tags AS given WHERE tag = ? AND (SELECT count(*)"
        " FROM device_tags WHERE device_tags.ordinal = given.ordinal) > ? LIMIT 1",
        (tag, MAX_TAGS),
    ).fetchall()
    if over:
        raise too_many_tags(over[0][0])


def _raise_standing(execute: Execute) -> int:
    statement = "UPDATE register SET standing = standing + 1 RETURNING standing"
    return int(execute(statement, ()).fetchall()[0][0])


def _packed(users: NDArray[np.int64]) -> bytes:
    return zlib.compress(np.diff(users, prepend=np.int64(0)).astype("<i8").tobytes(), _LEVEL)


def _unpacked(data: bytes) -> NDArray[np.int64]:
    return np.cumsum(np.frombuffer(zlib.decompress(data), "<i8"), dtype=np.int64)
