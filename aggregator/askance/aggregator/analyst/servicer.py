"""The calls that an analyst makes, over raw bytes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import NoReturn, ParamSpec, Protocol, TypeVar

import grpc
from grpc import aio

from askance.aggregator.analyst.calls import (
    Call,
    CallRefused,
    check_call,
    decode_list_call,
    decode_study_call,
)
from askance.aggregator.analyst.statuses import status_of
from askance.aggregator.analyst.wire import (
    REASON_KEY,
    SERVICE,
    Ending,
    StudyEvent,
    StudySummary,
    decode_submission,
    encode_cancelled,
    encode_ending,
    encode_event,
    encode_export,
    encode_submitted,
    encode_summaries,
)
from askance.aggregator.clock import system_now_s
from askance.aggregator.desk import Desk, StudyStatus
from askance.aggregator.store import StudyState
from askance.client.errors import AskanceError

_LOGGER = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.2
_CANCEL_S = 30.0  # an analyst waits at most so long for a study that is ending
MAX_WATCHERS = 256
P = ParamSpec("P")
T = TypeVar("T")


class Context(Protocol):
    """What is used of gRPC's own context."""

    async def write(self, message: bytes) -> None: ...

    async def abort(
        self, code: grpc.StatusCode, details: str, trailing_metadata: Sequence[tuple[str, str]]
    ) -> NoReturn: ...


class AnalystsServicer:
    """Serves the Analysts service for one desk.

    Args:
      desk: has the studies; it may wait for the disk.
      executor: where it waits, so that the event loop does not.
      now_s: the time, in whole seconds since 1970, UTC.
      max_watchers: how many may watch studies at one time.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        executor: Executor,
        now_s: Callable[[], int] = system_now_s,
        max_watchers: int = MAX_WATCHERS,
    ) -> None:
        self._desk = desk
        self._executor = executor
        self._now_s = now_s
        self._max_watchers = max_watchers
        self._watchers = 0

    def handler(self) -> grpc.GenericRpcHandler:
        """What a server routes calls by. Without serializers: messages are passed as bytes."""
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Submit": unary(_told(self._submit)),
                "List": unary(_told(self._list)),
                "Watch": stream(_told(self._watch)),
                "Result": unary(_told(self._result)),
                "Export": stream(_told(self._export)),
                "Cancel": unary(_told(self._cancel)),
            },
        )
        return handler

    async def _submit(self, data: bytes, _: Context) -> bytes:
        signed = decode_submission(data)
        return encode_submitted(await self._at_desk(self._desk.submit, signed))

    async def _list(self, data: bytes, _: Context) -> bytes:
        signed = decode_list_call(data)
        trusted = self._desk.analysts & {signed.subject}
        key = check_call(Call.LIST, signed, trusted, self._now_s())
        found = await self._at_desk(self._desk.listing, key)
        return encode_summaries(
            [StudySummary(one.digest, one.learner, one.state, one.rounds_closed) for one in found]
        )

    async def _watch(self, data: bytes, context: Context) -> None:
        digest, key = self._called(Call.WATCH, data)
        if self._watchers >= self._max_watchers:
            raise CallRefused(
                "too-many-calls", f"expected at most {self._max_watchers} who watch at one time"
            )
        self._watchers += 1
        try:
            last: StudyEvent | None = None
            while last is None or last.state is StudyState.OPEN:
                event = _event(await self._at_desk(self._desk.status, digest, key))
                if event != last:
                    await context.write(encode_event(event))
                    last = event
                else:
                    await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            self._watchers -= 1

    async def _result(self, data: bytes, _: Context) -> bytes:
        digest, key = self._called(Call.RESULT, data)
        found = await self._at_desk(self._desk.conclusion, digest, key)
        if found is None:
            return encode_ending(Ending(StudyState.OPEN, "", "", ""))
        return encode_ending(Ending(found.state, found.reason, found.message, found.result_json))

    async def _export(self, data: bytes, context: Context) -> None:
        digest, key = self._called(Call.EXPORT, data)
        signed, lines, result_json = await self._at_desk(self._desk.export, digest, key)
        for part in encode_export(signed, lines, result_json):
            await context.write(part)

    async def _cancel(self, data: bytes, _: Context) -> bytes:
        digest, key = self._called(Call.CANCEL, data)
        state = await self._at_desk(self._desk.cancel, digest, key)
        until = time.monotonic() + _CANCEL_S
        while state is StudyState.OPEN and time.monotonic() < until:
            await asyncio.sleep(_LOOK_EVERY_S)  # no thread waits: other analysts need them
            state = (await self._at_desk(self._desk.status, digest, key)).state
        return encode_cancelled(state)

    def _called(self, call: Call, data: bytes) -> tuple[bytes, bytes]:
        """The study that a call is about, and the key that signed the call."""
        signed = decode_study_call(data)
        return signed.subject, check_call(call, signed, self._desk.analysts, self._now_s())

    async def _at_desk(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the desk says, without holding up the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: work(*args, **kwargs))


def _event(status: StudyStatus) -> StudyEvent:
    return StudyEvent(
        status.state,
        status.round,
        status.asked,
        status.answered,
        status.reason,
        status.message,
    )


def _told(
    method: Callable[[bytes, Context], Awaitable[T]],
) -> Callable[[bytes, Context], Awaitable[T]]:
    """The method, ending a call that fails with the status that the table has for the error."""

    async def call(data: bytes, context: Context) -> T:
        try:
            return await method(data, context)
        except aio.AbortError:
            raise
        except Exception as error:
            code, details, reason = status_of(error)
            if code is grpc.StatusCode.INTERNAL:
                _LOGGER.error("an analyst's call failed", exc_info=error)
            elif not isinstance(error, AskanceError):
                _LOGGER.warning("an analyst's call was refused", exc_info=error)
            await context.abort(code, details, ((REASON_KEY, reason),))

    return call
