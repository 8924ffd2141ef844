"""A device within an application."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from askance_client.addresses import Address
from askance_client.cli.configuration import check_secrecy
from askance_client.cli.counters import a_counter
from askance_client.cli.event_log import Journal
from askance_client.cli.explaining import explain
from askance_client.cli.folder import sums_of
from askance_client.cli.home import DeviceHome
from askance_client.cli.members import MemberRoster, check_fields, enrolment_of, gateway_identity
from askance_client.cli.repairing import repair_clock
from askance_client.device import Policy
from askance_client.errors import InvalidParameter, LocalProtocolError
from askance_client.ledger import LedgerFile
from askance_client.owner import CONSENT_WAIT_S, ApplicationConsent, Consent
from askance_client.queries import Schema
from askance_client.randomizers import SystemCoins
from askance_client.records import CallableSource, RecordSource, Several, binding, schema_from_toml
from askance_client.service import (
    AggregatorAccess,
    CheckInOutcome,
    Enrolment,
    Gateway,
    an_enrolment_token,
    local_hour,
    system_now_s,
)

T = TypeVar("T")
Condition = Callable[[], bool]
"""Returns whether a device may connect now; quick, and independent of any record."""

_LOGGER = logging.getLogger("askance.device")
_CONFIGURATION = "# The device of an application, which has its settings (DeviceClient).\n"
_RELEASE_MS = 1000
_LONGEST_WAIT_S = 60
_CHECK_S = 30  # between two looks at the conditions
_HOURS = 24


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """Sums of a device's ledger.

    Args:
      device_id: of the device, or of a gateway's folder, in hexadecimal.
      running: whether a run is in progress in this process.
      spent_nano_nats: in the device's life; of several members the most of one.
      left_nano_nats: of the policy's life budget.
      answers: charged answers.
      studies: studies that they were for.
    """

    device_id: str
    running: bool
    spent_nano_nats: int
    left_nano_nats: int
    answers: int
    studies: int


class DeviceClient:
    """A device within an application: it answers an aggregator from the application's records.

    The folder is made if there is none, and its ledger is held by this object from the first use
    until `close`: a second process, or a second client, is refused (`StoreError`).

    Threads: every method may be called from every thread. `records`, `consent` and the sources are
      called in threads of the client; `conditions` in the thread that runs. One run at a time: a
      second `run` or `run_once` raises `LocalProtocolError`.
    asyncio: the `_async` methods run in the caller's loop and do not block it; cancelled, they hang
      up in order, and pending writes are completed. `run`, `run_once` and `enrol` have a loop of
      their own and are refused within a running one.
    Fork: a client belongs to the process that made it. After a fork every method but `close`
      raises `LocalProtocolError` in the child, and the parent's client is not affected: not by
      `close`, nor by the child's end of any kind. A process that forks makes its clients
      afterwards.

    Privacy: as of `Device`: every report is charged durably before it leaves, all together at most
      the policy's life budget. Records are read when a new question was decided, and for at most
      half of `release_ms`; charges, refusals and times do not depend on them. They may depend on
      `consent` and `conditions`, which must not read a record.

    Args:
      folder: the device's folder: identity, ledger and mark. Never copy it back from a backup.
      aggregator: HOST:PORT.
      records: a function that returns the user's record as a mapping from columns to values, or
        several; or a `RecordSource`.
      schema: the shape of a record, or its TOML file.
      policy: what the owner allows.
      token: the operator's enrolment token: a folder that was not enrolled is enrolled by `run` or
        `run_once`. It is not used once that is done. None: `enrol` was called, or will be.
      ca: the certificates (PEM file) that the aggregator's must be signed by; None for plain text.
      plaintext: plain text is accepted to another machine as well.
      columns: column of a field whose name the records do not have, by field.
      several: the rule for several records.
      consent: asked about each study that the policy would accept, until it returns True. False,
        or an exception, holds the study: nothing leaves, and it is asked again when its requests
        come again, by the next `run_once` or after some `consent_wait_s`. The policy's own consent
        holds beside it. None: the policy's own alone, or yes.
      consent_wait_s: mean time after which a run lets requests come again, whether or not any was
        held, so that it does not tell when a study was agreed to.
      conditions: the device connects only while all return True; an exception counts as False.
      check_s: seconds between two looks at the conditions, 1 or more.
      release_ms: reports leave at a multiple of this many milliseconds after their requests.
      longest_wait_s: between two tries to reach the aggregator.
      counter: a file on another volume, or command:WORDS, that finds a folder that was put back
        whole (see `counter` in `device.toml`); None: none.

    Raises:
      InvalidParameter: a bad address, no way to keep the connection secret, or a policy that
        names a field that the schema does not have.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        aggregator: str,
        records: Callable[[], object] | RecordSource,
        schema: Schema | Path | str,
        policy: Policy,
        token: str | None = None,
        ca: Path | str | None = None,
        plaintext: bool = False,
        columns: Mapping[str, str] | None = None,
        several: Several = Several.REFUSE,
        consent: Consent | None = None,
        consent_wait_s: int = CONSENT_WAIT_S,
        conditions: Sequence[Condition] = (),
        check_s: int = _CHECK_S,
        release_ms: int = _RELEASE_MS,
        longest_wait_s: int = _LONGEST_WAIT_S,
        counter: Path | str | None = None,
    ) -> None:
        self._home = DeviceHome(Path(folder))
        self._counter = None if counter is None else a_counter(str(counter), Path(folder))
        self._address = Address.of(aggregator)
        if ca is None and not plaintext:
            check_secrecy("ca", self._address, "plaintext=True")
        path, self._longest_wait_ms = self._home.certificate_path, 1000 * longest_wait_s
        self._connection = AggregatorAccess(
            self._address, None if ca is None else Path(ca), path, self._longest_wait_ms
        )
        self._token = None if token is None else an_enrolment_token(token)
        self._schema = schema if isinstance(schema, Schema) else schema_from_toml(Path(schema))
        check_fields(self._schema, "policy.fields", policy.fields or ())
        check_fields(self._schema, "columns", columns or ())
        self._source = _source_of(records)
        self._columns = columns or {}
        self._several = several
        if consent is not None:
            policy = replace(policy, consent=ApplicationConsent(consent, policy.consent))
        self._policy = policy
        self._consent_wait_ms = 0 if policy.consent is None else 1000 * consent_wait_s
        self._conditions = tuple(conditions)
        self._check_s = check_s
        self._release_ms = release_ms
        self._journal = Journal()
        self._process = os.getpid()
        self._opening = Lock()  # held while the folder is opened or closed
        self._running = Lock()  # held by a run
        self._opened: _Opened | None = None
        self._stop: Callable[[], object] | None = None

    def __enter__(self) -> DeviceClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def enrol(self, token: str) -> None:
        """Make the device known to the aggregator now; if it was before, return at once.

        After a failure `run` and `run_once` try again with this token.

        Args:
          token: the operator's enrolment token.

        Raises:
          CallFailed: refused, or not reached.
          InvalidParameter: no token, or the authority cannot be read.
          StoreError: the folder cannot be used; nothing was sent.
        """
        self._in_a_loop(self.enrol_async(token))

    async def enrol_async(self, token: str) -> None:
        """Do as `enrol` does, in the caller's loop."""
        self._token = an_enrolment_token(token)
        enrolment = (await self._open()).enrolment
        enrolment.token = self._token
        if not enrolment.remembered:
            await enrolment.enrol(self._token)

    def run_once(self) -> CheckInOutcome | None:
        """Check in once: fetch requests, answer them, and deliver the answers.

        Returns:
          The counts; None if a condition did not allow to connect.

        Raises:
          StoreError: the folder cannot be used; nothing was spent, nothing was sent.
          LocalProtocolError: the client runs, is closed, or was made by another process.
        """
        return self._in_a_loop(self.run_once_async())

    async def run_once_async(self) -> CheckInOutcome | None:
        """Do as `run_once` does, in the caller's loop."""
        with self._alone():
            if not self._allowed():
                return None
            outcome = await (await self._open()).gateway.check_in_once()
            self._journal.flush()
            return outcome

    def run(self) -> None:
        """Answer while the conditions allow, until `stop` is called in another thread.

        Raises:
          StoreError: as of `run_once`. LocalProtocolError: likewise.
        """
        self._in_a_loop(self.run_async())

    async def run_async(self) -> None:
        """Do as `run` does, in the caller's loop, until `stop` or a cancellation."""
        with self._alone():
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            self._stop = partial(loop.call_soon_threadsafe, stopped.set)
            try:
                gateway = (await self._open()).gateway
                while not stopped.is_set():
                    if self._allowed():
                        await self._connected(gateway, stopped)
                    else:
                        await _wait_for(stopped, self._check_s)
            finally:
                self._stop = None
                self._journal.flush()

    def stop(self) -> None:
        """Ask a run to end in order, and return at once; without a run, do nothing."""
        self._check_process()
        stop = self._stop
        if stop is not None:
            with suppress(RuntimeError):  # its loop was closed meanwhile
                stop()

    def status(self) -> DeviceStatus:
        """Return the sums of the ledger, during a run as well.

        Raises:
          StoreError: the folder cannot be used. LocalProtocolError: as of `run_once`.
        """
        sums = sums_of(self._ledgers())
        return DeviceStatus(
            self._home.secret().device().device_id.hex(),
            self._running.locked(),
            sums["spent_nano_nats"],
            max(0, self._policy.life_nano_nats - sums["spent_nano_nats"]),
            sums["answers"],
            sums["studies"],
        )

    def history(self) -> list[dict[str, object]]:
        """Return every charged question with its answer in plain words, oldest first.

        Raises:
          StoreError: the folder cannot be used. LocalProtocolError: as of `run_once`.
        """
        return [explain(posting) for posting in self._ledgers().postings()]

    def repair_clock(self) -> int:
        """Believe the clock again after it was once far ahead, which is the owner's decision.

        A day's budget that was spent on a future day is there again on the present one; the life
        budget is not changed. Return the number of members concerned.

        Raises:
          LocalProtocolError: a run is in progress; nothing was changed.
          StoreError: the folder cannot be used.
        """
        self.close()
        return repair_clock(self._home.ledger_path, system_now_s(), self._counter)

    def close(self) -> None:
        """Let the folder go; again is no harm. In a forked child nothing is done.

        Raises:
          LocalProtocolError: a run is in progress; nothing was closed.
        """
        if os.getpid() != self._process:
            return
        with self._alone(), self._opening:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.file.close()

    async def _connected(self, gateway: Gateway, stopped: asyncio.Event) -> None:
        """Run the gateway until a stop, or until a condition no longer holds."""
        running = asyncio.ensure_future(gateway.run())
        try:
            while not stopped.is_set() and self._allowed():
                stopping = asyncio.ensure_future(_wait_for(stopped, self._check_s))
                await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                if running.done():
                    running.result()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    def _allowed(self) -> bool:
        try:
            return all(condition() for condition in self._conditions)
        except Exception as failure:
            _LOGGER.warning("condition failed: %s", type(failure).__name__)
            return False

    def _ledgers(self) -> LedgerFile:
        self._check_process()
        return self._open_now().file

    async def _open(self) -> _Opened:
        """Open the folder in a thread, since its disk and its records' source may be slow."""
        self._check_process()
        return await asyncio.to_thread(self._open_now)

    def _open_now(self) -> _Opened:
        with self._opening:
            if self._opened is None:
                self._opened = self._made()
            return self._opened

    def _made(self) -> _Opened:
        roster = MemberRoster(
            self._schema, self._source, self._source.members(), self._columns, self._several
        )
        bound = binding(self._source.naming, self._schema)
        if not self._home.configuration.exists():
            DeviceHome.create(self._home.folder, _CONFIGURATION, bound)
        file, coins = self._home.bound(bound, self._counter), SystemCoins()
        try:
            secret, connection = self._home.secret(), self._connection
            enrolment = enrolment_of(self._home, roster.names, connection, self._token)
            gateway = Gateway(
                roster.at_work(secret, file, coins, self._journal.source_failed),
                schema=self._schema,
                policy=self._policy,
                coins_for=lambda _: coins,
                now_s=system_now_s,
                channel=connection.channel,
                connections=1,
                watcher=self._journal,
                identity=gateway_identity(secret, roster.names),
                longest_wait_ms=self._longest_wait_ms,
                release_ms=self._release_ms,
                certificate=connection.certificate,
                enrolment=enrolment,
                consent_wait_ms=self._consent_wait_ms,
            )
        except BaseException:
            file.close()
            raise
        return _Opened(file, enrolment, gateway)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._check_process()
        if not self._running.acquire(blocking=False):
            raise LocalProtocolError("client: expected one run at a time, got a second")
        try:
            yield
        finally:
            self._running.release()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise LocalProtocolError(
                f"client: expected a call in process {self._process}, which made it, got one in"
                f" process {os.getpid()} (make a client after the fork)"
            )

    def _in_a_loop(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._check_process()  # before a loop is made: a forked child has no use for one
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(work)
        except LocalProtocolError:
            work.close()
            raise
        work.close()
        raise LocalProtocolError(
            "client: expected a call outside a running event loop, got one within (use the method"
            " that ends in _async)"
        )


@dataclass(frozen=True, slots=True)
class _Opened:
    """An open folder."""

    file: LedgerFile
    enrolment: Enrolment
    gateway: Gateway


def outside_hours(first: int, last: int, hour: Callable[[], int] = local_hour) -> Condition:
    """Return a condition for quiet hours.

    Args:
      first: hour of the day, 0 to 23, at which the quiet hours begin.
      last: hour at which they end; 22 and 7 are the hours 22 to 6.
      hour: the present hour.

    Raises:
      InvalidParameter: an hour is out of range.
    """
    for value in (first, last):
        if not 0 <= value < _HOURS:
            raise InvalidParameter(f"hour: expected 0 to {_HOURS - 1}, got {value}")
    quiet = {(first + step) % _HOURS for step in range((last - first) % _HOURS)}
    return lambda: hour() not in quiet


async def _wait_for(stopped: asyncio.Event, most_s: int) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stopped.wait(), most_s)


def _source_of(records: Any) -> RecordSource:
    """The source itself, or that of a function."""
    if hasattr(records, "load"):
        source: RecordSource = records
        return source
    if not callable(records):
        raise InvalidParameter(
            f"records: expected a function or a record source, got a {type(records).__name__}"
        )
    return CallableSource(records)
