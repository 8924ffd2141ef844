"""Interface of the processes that share a store: leases on studies, and news of each other.

A replica is a process that serves from a store. Each open study is driven by the replica that holds
the study's lease: it alone asks rounds, writes the transcript and concludes.

Theory of operation. A lease is free, or held by one replica until a time on the database's clock:

    free --acquire--> held              the token rises by one
    held --renewals--> held             every `RENEW_S`, to `LEASE_S` from now
    held --release--> free
    held --time passes--> free          its replica died, or hangs
    held --register--> free             a process takes the name of the one that held it

Only the token proves that a lease is held. Every write of a driver compares its own with the one in
the store (`check`), locked until the write's transaction ends: the write is durable before the next
holder's token, or is not made. A replica that lost its lease without knowing it writes nothing.

Every replica takes reports, also of studies that another drives. A report is refused once its round
is closed in the store, whichever process took it. The driver reads what others have stored by a
position (`stored_since`): what its snapshot did not show yet is stored after it. Hints make looks
sooner and may be lost; each replica looks every `LOOK_S` without them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.store.dialect import Execute
from askance_client.errors import StoreError

LEASE_S = 6.0
"""Seconds that a lease lasts without being renewed; a dead replica's studies go on after them."""
RENEW_S = LEASE_S / 3
"""Seconds between two renewals."""
COUNTED_S = 5.0
"""Seconds for which a replica's counts are taken as the present ones: two renewals, and one."""
LOOK_S = 0.5
"""Seconds between two looks at what other replicas have done; a hint shortens the wait."""


class LeaseLost(StoreError):
    """A study's lease is another replica's: the write that needed it was not made."""


@dataclass(frozen=True, slots=True)
class TakingRound:
    """A round that takes reports.

    Args:
      epoch: 0: the study collects once.
      number: of the round in its study or epoch.
      age_s: seconds since it was first opened, by the store's clock.
    """

    epoch: int
    number: int
    age_s: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class SharedStudy:
    """An open study of a store that replicas share.

    Args:
      free: whether no replica holds its lease now.
      cancelling: whether its analyst has asked for its end.
      round: the round that takes reports; None: it has none.
    """

    digest: bytes
    free: bool
    cancelling: bool
    round: TakingRound | None


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """Counts of one process, which no other can know; those but the first two only rise.

    Args:
      connected: devices that hold a stream open, those of gateways included.
      streams: open ones, a gateway's once.
      reports: accepted since the process started; and so on.
      refusals: of devices.
      check_ins: calls without a stream.
      spent_nano_nats: cost of counted answers to all devices, as these say.
    """

    connected: int = 0
    streams: int = 0
    reports: int = 0
    refusals: int = 0
    check_ins: int = 0
    spent_nano_nats: int = 0

    def __add__(self, other: ReplicaCounts) -> ReplicaCounts:
        """Return the counts of both."""
        names = [one.name for one in fields(self)]
        return ReplicaCounts(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class ReplicaEntry:
    """A replica as the store knows it.

    Args:
      name: unique among the replicas of the store.
      address: where devices and analysts reach it, HOST:PORT.
      seen_s: seconds since it last renewed its leases and wrote its counts, by the store's clock.
      drives: digests of studies, in hexadecimal.
      started_s: seconds since its process started, likewise.
      counts: None: it has written none yet, or is of a version that writes none.
    """

    name: str
    address: str
    seen_s: float = field(compare=False)
    drives: tuple[str, ...]
    started_s: float = field(default=0.0, compare=False)
    counts: ReplicaCounts | None = None

    @property
    def is_counted(self) -> bool:
        """True if its counts are of the present: a replica that died is in no sum after that."""
        return self.counts is not None and self.seen_s < COUNTED_S


@dataclass(frozen=True, slots=True)
class RoundAnswers:
    """Devices with a tag in an open round, by what they owe.

    Args:
      study: the first 16 digits of its digest.
      epoch: 0: the study collects once.
      number: of the round in its study or epoch.
      tag: that the devices have; empty: all that the round asks.
      asked: number of devices that the round asks.
      answered: that have answered or refused all that they are asked.
      silent: that are connected and have not.
    """

    study: str
    epoch: int
    number: int
    tag: str
    asked: int
    answered: int
    silent: int

    @property
    def away(self) -> int:
        """Number of devices that owe an answer and are not connected."""
        return max(self.asked - self.answered - self.silent, 0)

    @property
    def key(self) -> tuple[str, int, int, str]:
        """Round and tag."""
        return self.study, self.epoch, self.number, self.tag


def sum_answers(
    own: Iterable[RoundAnswers], others: Iterable[RoundAnswers]
) -> tuple[RoundAnswers, ...]:
    """Return the rounds of several processes: each sees its own connections, and all answers."""
    found: dict[tuple[str, int, int, str], RoundAnswers] = {one.key: one for one in own}
    for one in others:
        known = found.get(one.key)
        if known is None:
            found[one.key] = one
            continue
        answered = max(known.answered, one.answered)
        silent = min(known.silent + one.silent, known.asked - answered)
        found[one.key] = replace(known, answered=answered, silent=silent)
    return tuple(found.values())


def sum_counts(replicas: Iterable[ReplicaEntry]) -> ReplicaCounts | None:
    """Return the sum of the present counts; None if no replica has any."""
    found = [one.counts for one in replicas if one.is_counted and one.counts is not None]
    return sum(found, ReplicaCounts()) if found else None


class EqualReports(NamedTuple):
    """Stored reports to one request with the same bytes.

    `ordinals` are the users', each once, in any order, shape (reports,).
    """

    data: bytes
    ordinals: NDArray[np.int64]


class Replicas:
    """Membership of one process in those that share a store; for any thread.

    This class is of a store that is not shared: its one process holds every lease, and there is no
    other to hear of. That of a shared store overrides every method. Each raises StoreError when the
    store cannot be read or written.
    """

    shared = False  # whether other processes may take reports
    name = ""  # under which this process was registered; empty: none

    def check(self, execute: Execute, study: int) -> None:
        """Check in a transaction that this process may drive a study, given by its number.

        A study that no replica has ever driven may be written by any process; LeaseLost if another
        replica has the lease, or this process gave it back.
        """

    def notify(self, execute: Execute) -> None:
        """Let all replicas look once this transaction is durable."""

    def register(self, name: str, *, needs_approval: bool | None = None) -> None:
        """Become a replica of this name; leases of an earlier process of the name are free at once.

        Args:
          name: of this process.
          needs_approval: its rule, whether studies need an approver; None: not compared.

        Raises:
          StoreError: a process of that name runs, or a replica of the last `LEASE_S` seconds has
            the other rule.
        """

    def others_need_approval(self) -> bool:
        """Return whether another replica of the present has the rule that studies need approvers.

        A process that stood still for longer than `LEASE_S` may have missed that the rule is new.
        """
        return False

    def announce(
        self,
        address: str,
        counts: Callable[[], ReplicaCounts] = ReplicaCounts,
        answers: Callable[[], Sequence[RoundAnswers]] = tuple,
    ) -> None:
        """Let other replicas know where this one listens, HOST:PORT, and what it counts.

        `counts` and `answers` are called at each renewal of the leases, in its thread. Answers that
        cannot be read are left as they were.
        """

    def others_answers(self) -> list[RoundAnswers]:
        """Return what the other replicas of the present wrote of the open rounds."""
        return []

    def leave(self) -> None:
        """Be no replica any more: the process ends."""

    def listing(self) -> list[ReplicaEntry]:
        """Return the replicas, by name; those that have not been seen for a day are left out."""
        return []

    def acquire(self, study_digest: bytes) -> bool:
        """Take a study's lease; return False if another replica holds it.

        A lease that this process holds already is kept, and True returned.
        """
        return True

    def release(self, study_digest: bytes) -> None:
        """Give a lease back, so that another replica need not wait for its end."""

    def renewals(self, stopping: threading.Event) -> Iterator[frozenset[bytes]]:
        """Renew the leases every `RENEW_S` until `stopping`; yield after each try those lost."""
        return iter(())

    def looks(self, stopping: threading.Event) -> Iterator[None]:
        """Yield at a hint of another replica, and every `LOOK_S` without one, until `stopping`."""
        return iter(())

    def hint(self) -> None:
        """Let the other replicas look now. A hint may be lost."""

    def submitting(self) -> AbstractContextManager[None]:
        """Let no other replica accept a study meanwhile."""
        return nullcontext()

    def cancel(self, study_digest: bytes) -> None:
        """Note durably that an open study is to be cancelled; the holder of its lease does it."""

    def open_studies(self) -> list[SharedStudy]:
        """Return the open studies, oldest first."""
        return []

    def round_lines(self, study_digest: bytes, epoch: int) -> list[str]:
        """Return the first and the last line of a transcript."""
        return []

    def stored(self, request_digests: Sequence[bytes]) -> tuple[list[EqualReports] | None, int]:
        """Return all stored reports of these requests, and the position of now.

        What becomes durable later is stored after the position. Reports are None if they may be too
        many to be held at one time, or the store is not shared; `Store.reports` has them.
        """
        return None, 0

    def stored_since(
        self, request_digests: Sequence[bytes], position: int
    ) -> tuple[list[EqualReports], int]:
        """Return the reports of these requests stored after a position, and the position of now.

        They are all that any replica stored after the position, and maybe some stored before.
        """
        return [], position
