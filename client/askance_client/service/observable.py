"""Decisions on what an aggregator, or an observer of the network, sees of a device or gateway.

Each rule is a function of public data (device ids, what an aggregator sent, the configuration) and
of fresh randomness, never of a record, a row number or a name. A change of order, timing, batches
or retries is a change of this module.

| observed                          | rule                                 | decided by        |
|-----------------------------------|--------------------------------------|-------------------|
| order of enrolments, of joins on  | device ids as bytes, ascending       | `ordered`         |
| a gateway's stream and of         |                                      |                   |
| check-ins (`run --once`)          |                                      |                   |
| number of connections of          | from the number of members           | `connections_for` |
| check-ins; a stream has one       |                                      |                   |
| connection of a member's check-in | position in the order, modulo        | `connection_of`   |
| devices in an enrolment message   | the order, per `MAX_ENROLMENTS`      | `batches`         |
| reports in one message            | requests' order, per `MAX_REPORTS`   | `report_batches`  |
|                                   | and lengths, which randomizers fix   |                   |
| order of a gateway's reports to   | random, drawn anew                   | `shuffled`        |
| one response, and of those kept   |                                      |                   |
| members and reports in one batch  | that order, up to fixed limits       | `member_batches`  |
| time at which a member joins      | uniform to min(cap, 500 ms x 2^k)    | `wait_after`      |
| again, after k failures           |                                      |                   |
| time of the reports of a message  | together, at a multiple of           | `on_grid`         |
|                                   | `release_ms` after the requests      |                   |
| begin of draws and of a commit    | quarters of `release_ms` after the   | `record_times`    |
|                                   | begin of evaluation, by weight, even |                   |
|                                   | if that hangs                        |                   |
| time of whatever is sent          | never while work on a record may run | `phase_times`     |
| wait after k failures in a row    | uniform to min(cap, 500 ms x 2^k)    | `Backoff`         |
| end of a stream of a device whose | uniform from .5 to 1.5 times         | `consent_wait`    |
| owner is asked about studies      | `consent_wait_s`, whatever was or    |                   |
|                                   | was not decided                      |                   |
| wait that an aggregator asked for | bounded, plus as much at random      | `asked_wait_ms`   |
| bytes of a repeated report        | the stored bytes                     | `Outbox`, ledger  |
| name of the software in a call    | this package and its version         | `SOFTWARE`        |

Privacy: the order is a function of the set of device ids, which the aggregator receives in any
  case. An id is HMAC-SHA-256 of a member's name under the secret of a folder (`Secret.member`), so
  without the secret it is independent of the row.
Not hidden: the number of members; which of them were enrolled by a later command; whether a device
  is connected; how many requests a message had; that a disk was slow by whole multiples of
  `release_ms`. A connected device whose message with requests is settled and has no report of them
  holds their study for its owner, or its disk has failed, or its refusals of the hour are past
  their limit. The answer or refusal that follows tells the owner's decision.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from askance_client.device.policy import WEIGHT_PER_S
from askance_client.errors import InvalidParameter
from askance_client.service.exchange import BATCH_BYTES, MAX_REPORTS, STREAMS_PER_CONNECTION
from askance_client.service.gateway_exchange import MAX_BATCH_MEMBERS
from askance_client.service.identity import Identity

CALL_TIMEOUT_S = 60
LONGEST_WAIT_MS = 300_000  # between two tries, unless configured
MAX_EXCHANGES = 64  # of one check-in: an aggregator with more requests waits for the next one
MEMBERS_AT_ONCE = 256  # members of a gateway that check in at one time

_FIRST_WAIT_MS = 500  # bound of the wait after the first failure

# Weight per millisecond that every machine is taken to work off: a machine 12 times as slow as a
# server's core keeps up, and four slots at one time on a server.
_WEIGHT_PER_MS = WEIGHT_PER_S // 1000
_LEAST_STEP_MS = 50  # of the times of record work: below it, a busy machine misses them

T = TypeVar("T")
Jitter = Callable[[int], int]
"""Draws a whole number uniformly from 0 to a bound, both included."""

Sleep = Callable[[float], Awaitable[None]]
"""Waits for a number of milliseconds."""


class RecordTimes(NamedTuple):
    """Public times of some work on records, in milliseconds from its begin.

    Args:
      slot_ms: end of the slot, when another member's work may begin.
      fixed_ms: T1, when values are fixed and draws begin.
      over_ms: T2, when symbols are committed.
    """

    slot_ms: int
    fixed_ms: int
    over_ms: int


def ordered(members: Iterable[T], identity: Callable[[T], Identity]) -> list[T]:
    """Return members in the order in which an aggregator may observe them.

    Device ids are distinct.
    """
    return sorted(members, key=lambda member: identity(member).device_id)


def connections_for(streams: int, least: int = 1) -> int:
    """Return the number of connections over which a process spreads its streams.

    `least` connections are wanted in any case, as long as each has a stream.
    """
    return max(1, min(least, streams), -(-streams // STREAMS_PER_CONNECTION))


def connection_of(position: int, connections: int) -> int:
    """Return the number of the connection for the member at a position of the order."""
    return position % connections


def batches(items: Sequence[T], size: int) -> list[tuple[T, ...]]:
    """Cut items, in their order, into batches of `size` and a last one of the rest."""
    return [tuple(items[start : start + size]) for start in range(0, len(items), size)]


def member_batches(
    entries: Iterable[tuple[int, tuple[bytes, ...]]],
    *,
    members: int = MAX_BATCH_MEMBERS,
    reports: int = MAX_REPORTS,
    size: int = BATCH_BYTES,
) -> Iterator[tuple[tuple[int, tuple[bytes, ...]], ...]]:
    """Cut members' reports, in their order, into batches in which no member is twice.

    Args:
      entries: numbers of members, each with its reports.
      members: in one batch, at most.
      reports: of one member in one batch, at most.
      size: bytes of reports in one batch, at most, unless one report alone has more.
    """
    batch: dict[int, tuple[bytes, ...]] = {}
    room = size
    for number, kept in entries:
        for report in kept:
            have = batch.get(number, ())
            full = len(have) >= reports or (number not in batch and len(batch) >= members)
            if batch and (full or len(report) > room):
                yield tuple(batch.items())
                batch, room, have = {}, size, ()
            batch[number] = (*have, report)
            room -= len(report)
    if batch:
        yield tuple(batch.items())


def report_batches(reports: Iterable[bytes]) -> list[tuple[bytes, ...]]:
    """Cut a device's reports, in their order, to what a message may have."""
    return [batch[0][1] for batch in member_batches([(0, tuple(reports))])]


def shuffled(items: Iterable[T], jitter: Jitter) -> list[T]:
    """Return items in a random order (Fisher-Yates), uniform if `jitter` is."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = jitter(last)
        order[last], order[other] = order[other], order[last]
    return order


def monotonic_ms() -> float:
    """Milliseconds of a clock that never goes back, the event loop's."""
    return 1000 * time.monotonic()


async def on_grid(
    work: Coroutine[Any, Any, T],
    release_ms: int,
    sleep: Sleep,
    now_ms: Callable[[], float] = monotonic_ms,
) -> T:
    """Do some work and return at the first multiple of `release_ms` from now at which it is done.

    Every multiple is counted from the begin: a wait that ended late, because a thread held Python's
    lock, does not delay the next one.

    A `release_ms` of 0 returns at once (for simulated devices). The work is cancelled if the caller
    is. `now_ms` never goes back, and `sleep` follows it.
    """
    if not release_ms:
        return await work
    task, at_ms = asyncio.ensure_future(work), now_ms()
    try:
        while True:
            at_ms += release_ms
            await sleep(max(0, at_ms - now_ms()))
            if task.done():
                return task.result()
    finally:
        task.cancel()


def time_limit_ms(release_ms: int) -> int:
    """Return the time limit of one read of a record source."""
    return release_ms // 2


def record_times(release_ms: int, weight: int) -> RecordTimes:
    """Return the times of work on records.

    A step is a quarter of the grid. Evaluation has one step for the source, and as many as the
    weight demands, one at least; draws have as many again, in which an evaluation that began in
    time ends as well. A light message is fixed after half of the grid, and over after three
    quarters; the last one is left for the commit.

    `weight` is a public bound of the work of all evaluations, and of all draws.
    """
    step_ms = max(release_ms // 4, _LEAST_STEP_MS)
    steps = 1 + weight // (_WEIGHT_PER_MS * step_ms)
    over_ms = (1 + 2 * steps) * step_ms
    slot_ms = min(over_ms, 1 + 2 * weight // _WEIGHT_PER_MS)
    return RecordTimes(slot_ms, fixed_ms=(1 + steps) * step_ms, over_ms=over_ms)


def phase_times(release_ms: int) -> tuple[int, int]:
    """Return for how long windows of record work may begin, and then for how long none may.

    Within the second time, after the last window's end, the process sends what waits.
    """
    return 2 * release_ms, max(release_ms // 4, _LEAST_STEP_MS)


def asked_wait_ms(asked_ms: int, longest_wait_ms: int, jitter: Jitter) -> int:
    """Return the wait that an aggregator asks for after a failure: bounded, with jitter added.

    A wait asked of many devices at one time must not bring them back at one time.
    """
    bounded_ms = min(asked_ms, longest_wait_ms)
    return bounded_ms + jitter(bounded_ms)


def consent_wait(mean_ms: int, jitter: Jitter) -> int:
    """Return the time after which a stream is opened anew, so that held requests come again.

    It is a function of the configuration and of chance, so that it says neither whether a study is
    held nor when its owner decides.
    """
    return mean_ms // 2 + jitter(mean_ms)


def system_jitter(bound: int) -> int:
    """Draw jitter from the operating system."""
    return secrets.randbelow(bound + 1)


async def sleep_ms(milliseconds: float) -> None:
    """Wait on the event loop's clock."""
    await asyncio.sleep(timedelta(milliseconds=milliseconds).total_seconds())


def wait_after(failures: int, cap_ms: int, jitter: Jitter, base_ms: int = _FIRST_WAIT_MS) -> int:
    """Draw the wait after 1 or more failures in a row, in milliseconds (see `Backoff`)."""
    doublings = min(failures - 1, cap_ms.bit_length())
    return jitter(min(cap_ms, base_ms << doublings))


class Backoff:
    """Waits after failures in a row: uniform in 0 .. min(cap, base * 2^failures).

    Source: "Exponential Backoff And Jitter", M. Brooker, 2015: full jitter needs the fewest calls
      until all clients are served.

    Raises:
      InvalidParameter: unless 0 < base_ms <= cap_ms.
    """

    def __init__(
        self,
        *,
        base_ms: int = _FIRST_WAIT_MS,
        cap_ms: int = LONGEST_WAIT_MS,
        jitter: Jitter = system_jitter,
    ) -> None:
        if not 0 < base_ms <= cap_ms:
            raise InvalidParameter(f"backoff: expected 0 < base <= cap, found {base_ms}, {cap_ms}")
        self._base_ms = base_ms
        self._cap_ms = cap_ms
        self._jitter = jitter
        self._failures = 0

    def next_ms(self) -> int:
        """Draw the wait after one more failure."""
        self._failures += 1
        return wait_after(self._failures, self._cap_ms, self._jitter, self._base_ms)

    def reset(self) -> None:
        """Forget the failures: the next one is the first in a row."""
        self._failures = 0
