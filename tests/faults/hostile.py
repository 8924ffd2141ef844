"""A service under attack: real, on loopback, with a study under way and one honest device.

The attacker has an enrolled device of its own, whom the study does not ask, an enrolment token that
has expired, calls that were overheard, and in the end even the analyst's key; but not the honest
device's token, and no enrolment token that holds.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
from grpc import aio

from askance_aggregator.analyst.messages import SERVICE as ANALYSTS
from askance_aggregator.server.devices import AggregatorServer, ServerParts, ServiceFleet, Settings
from askance_aggregator.server.devices.observer import Observer
from askance_aggregator.server.process.health import Health
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_aggregator.server.services.analysts import AnalystsServicer
from askance_aggregator.server.studies import StudyManager, SubmissionLimits
from askance_aggregator.store import SqliteStore, StudyState
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.transcript import Asked
from askance_client.codec import digest_of
from askance_client.service import SERVICE as DEVICES
from askance_client.service import Identity, Metadata, token_digest
from askance_client.service.runtime import DeviceRunner
from askance_simulation.fleets.memory_ledger import MemoryLedger
from tests.faults.people import NOW_S, PEOPLE, PUBLIC, undisturbed

Code = grpc.StatusCode
ALONE = replace(PEOPLE, users=1)
HONEST = Identity(b"honest", b"the honest device's token")
INSIDER = Identity(b"insider", b"the attacker's own token")
HANG_S = 10.0
# gRPC's own client says INTERNAL when a stream ends while it is writing, and forgets what it was
# reported; the service's own view is known from its observer.
_OWN_FAULT = "Internal error from Core"
ENDED_EARLY = "(ended early)"
HEALTH = "grpc.health.v1.Health"

# What a call may end with; UNKNOWN, INTERNAL, UNAVAILABLE and silence are not among them.
DEVICE_CODES = frozenset(
    {
        Code.OK,
        Code.INVALID_ARGUMENT,
        Code.UNAUTHENTICATED,
        Code.PERMISSION_DENIED,
        Code.FAILED_PRECONDITION,
        Code.RESOURCE_EXHAUSTED,
    }
)
_HEALTH_CODES = frozenset({Code.OK, Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED})
ALLOWED = {
    f"{DEVICES}/Enrol": DEVICE_CODES,
    f"{DEVICES}/CheckIn": DEVICE_CODES,
    f"{DEVICES}/Participate": DEVICE_CODES | {Code.ABORTED},  # one stream a device
    **{
        f"{ANALYSTS}/{call}": DEVICE_CODES | {Code.NOT_FOUND}
        for call in ("Submit", "List", "Watch", "Result", "Export", "Cancel")
    },
    f"{HEALTH}/Check": _HEALTH_CODES | {Code.NOT_FOUND},
    f"{HEALTH}/Watch": _HEALTH_CODES,
}
STREAMED = {f"{DEVICES}/Participate"}
ANSWERED_BY_STREAMS = {f"{ANALYSTS}/Watch", f"{ANALYSTS}/Export", f"{HEALTH}/Watch"}
ENDLESS = {f"{ANALYSTS}/Watch", f"{HEALTH}/Watch"}  # one answer is enough of these


@dataclass(frozen=True)
class Shot:
    """Input: a call, the bytes of its messages, and its metadata."""

    call: str
    messages: tuple[bytes, ...]
    metadata: Metadata = ()


class Listener(Observer):
    """Hears what the devices' calls end with, from the service itself."""

    def __init__(self) -> None:
        self.codes: set[grpc.StatusCode] = set()

    def call_refused(self, code: grpc.StatusCode) -> None:
        self.codes.add(code)


class Target:
    """The service, in one process with its attacker.

    Args:
      folder: where its store is made.
    """

    def __init__(self, folder: Path) -> None:
        self.statuses: Counter[tuple[str, str]] = Counter()
        self.tokens = EnrolmentTokens(bytes(32), lambda: NOW_S, lambda count: bytes(count))
        self._held = ExitStack()
        self._runner = self._held.enter_context(asyncio.Runner())
        self.store = SqliteStore.create(folder / "store")
        self._held.callback(self.store.close)
        self._enrol(HONEST)
        self._executor = self._held.enter_context(ThreadPoolExecutor(4))
        self._health = Health()
        self._listener = Listener()
        parts = ServerParts(
            enrolment=self.tokens,
            observer=self._listener,
            services=(self._add_to,),
        )
        settings = Settings(stop_grace_s=0.2)
        self.server = AggregatorServer.start(self.store, settings=settings, parts=parts)
        self._held.callback(self.manager.stop)
        self._held.callback(self.server.stop)
        asyncio.run_coroutine_threadsafe(self._health.serving(), self.server.loop).result(HANG_S)
        self.study = self.manager.submit(ALONE.signed(0))
        while self.server.hub.progress(self.study) != (1, 0):
            time.sleep(0.005)
        self._enrol(INSIDER)  # too late to be part of the study
        self._ledger = MemoryLedger()
        self._channel = self._runner.run(self._dial())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.run(self._channel.close())
        self._held.close()

    @property
    def request(self) -> bytes:
        """Return the request to the honest device."""
        recorded = Transcript(self.store.log(self.study)).recorded
        (asked,) = [event for event in recorded if isinstance(event, Asked)]
        return asked.groups[0].payload

    def fire(self, shots: Sequence[Shot]) -> None:
        """Make these calls at one time; each ends with a status that it may end with."""
        codes = self._runner.run(self._fire(shots))
        for shot, code in zip(shots, codes, strict=True):
            self.statuses[shot.call, code] += 1
            allowed = {one.name for one in ALLOWED[shot.call]} | {ENDED_EARLY}
            assert code in allowed, f"{shot.call} ended with {code}: {shot}"

    def check(self) -> None:
        """Nothing has changed but that an honest device was not disturbed; ends the study."""
        assert self._listener.codes <= ALLOWED[f"{DEVICES}/Participate"]
        assert set(self.store.studies()) == {self.study}
        assert self.store.conclusions() == {}
        assert self.store.population() == 2
        assert self.server.hub.progress(self.study) == (1, 0)
        self._runner.run(self._answer())
        until = time.monotonic() + HANG_S
        while self.manager.conclusion(self.study, PUBLIC) is None and time.monotonic() < until:
            time.sleep(0.005)
        ended = self.store.conclusions()[self.study]
        expected = undisturbed(ALONE, 0)
        assert ended.state is StudyState.DONE
        assert json.loads(ended.result_json)["transcript"] == expected.transcript
        request = digest_of(self.request)
        assert [ordinal for ordinal, _ in self.store.reports(request)] == [0]
        assert list(self.store.evidence(request)) == []
        assert len(list(self._ledger.history())) == 1

    def _add_to(self, server: aio.Server, fleet: ServiceFleet) -> None:
        self.manager = StudyManager(
            self.store,
            fleet,
            analysts=frozenset({PUBLIC}),
            limits=SubmissionLimits(open_studies=1),
            now_s=lambda: NOW_S,
            random_bytes=bytes,
        )
        analysts = AnalystsServicer(self.manager, executor=self._executor, now_s=lambda: NOW_S)
        server.add_generic_rpc_handlers((analysts.handler(),))
        self._health.add_to(server)

    def _enrol(self, identity: Identity) -> None:
        self.store.enrol([(identity.device_id, token_digest(identity.token))])

    async def _dial(self) -> aio.Channel:
        return aio.insecure_channel(
            self.server.address,
            options=[
                ("grpc.max_send_message_length", -1),
                ("grpc.max_receive_message_length", -1),
            ],
        )

    async def _answer(self) -> None:
        device = ALONE.device(0, self._ledger, lambda: NOW_S)
        await DeviceRunner(device, HONEST, self._channel).check_in_once()

    async def _fire(self, shots: Sequence[Shot]) -> list[str]:
        return list(await asyncio.gather(*map(self._code, shots)))

    async def _code(self, shot: Shot) -> str:
        """Return the status that a call ends with; a stream that only waits counts as ended."""
        call = self._call(shot)
        try:
            async with asyncio.timeout(HANG_S):
                if shot.call not in STREAMED | ANSWERED_BY_STREAMS:
                    await call
                    return Code.OK.name
                while isinstance(await call.read(), bytes):
                    if shot.call in ENDLESS:
                        return Code.OK.name
                return Code(await call.code()).name
        except aio.AioRpcError as error:
            if error.code() is Code.INTERNAL and (error.details() or "").startswith(_OWN_FAULT):
                return ENDED_EARLY
            return error.code().name
        except TimeoutError:
            raise AssertionError(f"{shot.call} hangs: {shot}") from None
        finally:
            call.cancel()

    def _call(self, shot: Shot) -> Any:
        path = f"/{shot.call}"
        if shot.call in STREAMED:

            async def messages() -> Any:
                for message in shot.messages:
                    yield message

            return self._channel.stream_stream(path)(messages(), metadata=shot.metadata)
        (message,) = shot.messages
        method: Any = self._channel.unary_unary
        if shot.call in ANSWERED_BY_STREAMS:
            method = self._channel.unary_stream
        return method(path)(message, metadata=shot.metadata)
