"""The calls that an analyst makes, over raw bytes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

import grpc

from askance_aggregator.analyst.calls import Call, CallRefused, check_call, read_call
from askance_aggregator.analyst.wire import (
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
from askance_aggregator.clock import system_now_s
from askance_aggregator.server.analysts.statuses import status_of
from askance_aggregator.server.devices.calls import CallStatus, Context, read_message, served
from askance_aggregator.server.studies import StudyManager, StudyStatus
from askance_aggregator.store import StudyState
from askance_client.codec import digest_of
from askance_client.errors import AskanceError
from askance_client.messages import SignedStudy

_LOGGER = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.2
_CANCEL_S = 30.0  # an analyst waits at most so long for a study that is ending
MAX_WATCHERS = 256
MAX_SUBMISSIONS = 64  # being planned or waiting for it; an analyst may try again
_MESSAGE_S = 5.0  # how long a submission may take to arrive, after its metadata
P = ParamSpec("P")
T = TypeVar("T")


class AnalystsServicer:
    """Serve the Analysts service for one study manager.

    Args:
      manager: holds the studies; its calls may wait for the disk.
      executor: where it waits, so that the event loop does not.
      planner: where studies are planned, which takes seconds of a processor: other calls do not
        wait for it. None: in `executor`.
      now_s: the time, in whole seconds since 1970, UTC.
      max_watchers: how many may watch studies at one time.
      max_submissions: how many may be submitted at one time.
    """

    def __init__(
        self,
        manager: StudyManager,
        *,
        executor: Executor,
        planner: Executor | None = None,
        now_s: Callable[[], int] = system_now_s,
        max_watchers: int = MAX_WATCHERS,
        max_submissions: int = MAX_SUBMISSIONS,
    ) -> None:
        self._manager = manager
        self._executor = executor
        self._planner = planner or executor
        self._now_s = now_s
        self._max_watchers = max_watchers
        self._max_submissions = max_submissions
        self._watchers = 0
        self._submissions = 0

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler by which a server routes calls.

        Messages pass as bytes, without serializers.
        """
        methods = {
            Call.SUBMIT: self._submit,
            Call.LIST: self._list,
            Call.WATCH: self._watch,
            Call.RESULT: self._result,
            Call.EXPORT: self._export,
            Call.CANCEL: self._cancel,
        }
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            SERVICE, {str(call): served(method, _refused) for call, method in methods.items()}
        )
        return handler

    async def _submit(self, context: Context) -> None:
        digest, _ = self._called(Call.SUBMIT, context)
        signed = decode_submission(await read_message(context, _MESSAGE_S))
        if digest_of(signed.study) != digest:
            raise CallRefused(
                "bad-signature", "Submit: expected the study that the call was signed for"
            )
        await context.write(encode_submitted(await self._planned(signed)))

    async def _list(self, context: Context) -> None:
        subject, key = self._called(Call.LIST, context)
        if subject != key:
            raise CallRefused("bad-signature", "List: expected the caller's own key")
        studies = await self._call_manager(self._manager.listing, key)
        summaries = [
            StudySummary(study.digest, study.learner, study.state, study.rounds_closed)
            for study in studies
        ]
        await context.write(encode_summaries(summaries))

    async def _watch(self, context: Context) -> None:
        digest, key = self._called(Call.WATCH, context)
        if self._watchers >= self._max_watchers:
            raise CallRefused(
                "too-many-calls", f"expected at most {self._max_watchers} who watch at one time"
            )
        self._watchers += 1
        try:
            last: StudyEvent | None = None
            while last is None or last.state is StudyState.OPEN:
                event = _event(await self._call_manager(self._manager.status, digest, key))
                if event != last:
                    await context.write(encode_event(event))
                    last = event
                else:
                    await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            self._watchers -= 1

    async def _result(self, context: Context) -> None:
        digest, key = self._called(Call.RESULT, context)
        found = await self._call_manager(self._manager.conclusion, digest, key)
        ending = Ending(StudyState.OPEN, "", "", "")
        if found is not None:
            ending = Ending(found.state, found.reason, found.message, found.result_json)
        await context.write(encode_ending(ending))

    async def _export(self, context: Context) -> None:
        digest, key = self._called(Call.EXPORT, context)
        signed, lines, result_json = await self._call_manager(self._manager.export, digest, key)
        for part in encode_export(signed, lines, result_json):
            await context.write(part)

    async def _cancel(self, context: Context) -> None:
        digest, key = self._called(Call.CANCEL, context)
        state = await self._call_manager(self._manager.cancel, digest, key)
        until = time.monotonic() + _CANCEL_S
        while state is StudyState.OPEN and time.monotonic() < until:
            await asyncio.sleep(_LOOK_EVERY_S)  # no thread waits: other analysts need them
            state = (await self._call_manager(self._manager.status, digest, key)).state
        await context.write(encode_cancelled(state))

    def _called(self, call: Call, context: Context) -> tuple[bytes, bytes]:
        """Return the subject of a call and the key that signed it, from the metadata alone."""
        signed = read_call(context.invocation_metadata())
        return signed.subject, check_call(call, signed, self._manager.analysts, self._now_s())

    async def _planned(self, signed: SignedStudy) -> bytes:
        """Submit a study; its digest."""
        if self._submissions >= self._max_submissions:
            raise CallRefused(
                "too-many-calls",
                f"expected at most {self._max_submissions} submissions at one time",
            )
        self._submissions += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._planner, self._manager.submit, signed)
        finally:
            self._submissions -= 1

    async def _call_manager(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the study manager in the executor, so that the event loop does not wait."""
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


def _refused(error: Exception) -> CallStatus:
    """Return the status that a call ends with, from the table; log it."""
    code, details, reason = status_of(error)
    if code is grpc.StatusCode.INTERNAL:
        _LOGGER.error("an analyst's call failed", exc_info=error)
    elif not isinstance(error, AskanceError | TimeoutError):
        _LOGGER.warning("an analyst's call was refused", exc_info=error)
    return CallStatus(code, details, ((REASON_KEY, reason),))
