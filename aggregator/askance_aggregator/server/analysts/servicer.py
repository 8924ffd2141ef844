"""The calls that an analyst makes, over raw bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import aclosing, suppress
from functools import partial
from typing import ParamSpec, TypeVar

import grpc

from askance_aggregator.analyst.calls import NO_SUBJECT, Call, CallRefused
from askance_aggregator.analyst.wire import (
    SERVICE,
    Ending,
    ListRequest,
    PopulationStatus,
    StudyEvent,
    StudySummary,
    asks_population,
    decode_listing,
    decode_population,
    decode_submission,
    encode_deleted,
    encode_ending,
    encode_event,
    encode_export,
    encode_plan,
    encode_state,
    encode_submitted,
    encode_summaries,
)
from askance_aggregator.clock import system_now_s
from askance_aggregator.server.analysts.statuses import refused_status, status_of
from askance_aggregator.server.analysts.watching import StudyWatches
from askance_aggregator.server.callers import (
    Admitted,
    AuditRecorder,
    CallerLimits,
    Callers,
    Gate,
    Scope,
)
from askance_aggregator.server.devices.calls import (
    Context,
    read_message,
    served,
)
from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.studies import StudyManager, StudyStatus, population_status
from askance_aggregator.store import StudyQuery, StudyState, TaggedPopulation
from askance_aggregator.studies.population import population_facts
from askance_client.codec import digest_of
from askance_client.messages import SignedStudy

_CANCEL_S = 30.0  # an analyst waits at most so long for a study that is ending
_TRACE_KEY = "traceparent"  # https://www.w3.org/TR/trace-context
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
      gate: admits, counts and records calls. None: one that knows the manager's analysts.
      observer: encloses submissions in spans.
    """

    def __init__(
        self,
        manager: StudyManager,
        *,
        executor: Executor,
        planner: Executor | None = None,
        now_s: Callable[[], int] = system_now_s,
        gate: Gate | None = None,
        observer: Observer = SILENT,
    ) -> None:
        self._manager = manager
        self._executor = executor
        self._planner = planner or executor
        self._gate = gate or gate_of(
            Callers(lambda: manager.analysts),
            AuditRecorder(manager.audit, now_s),
            executor=executor,
            now_s=now_s,
        )
        self._observer = observer
        self._watches = StudyWatches()

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler by which a server routes calls.

        Messages pass as bytes, without serializers.
        """
        methods = {
            Call.SUBMIT: self._submit,
            Call.PLAN: self._plan,
            Call.LIST: self._list,
            Call.WATCH: self._watch,
            Call.RESULT: self._result,
            Call.EXPORT: self._export,
            Call.CANCEL: self._cancel,
            Call.DELETE_REPORTS: self._delete_reports,
            Call.DELETE_RESULTS: self._delete_results,
            Call.PAUSE: self._pause,
            Call.RESUME: self._resume,
        }
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            SERVICE,
            {
                str(call): served(self._gate.guarded(call, do), refused_status)
                for call, do in methods.items()
            },
        )
        return handler

    async def _submit(self, context: Context, admitted: Admitted) -> None:
        submitted = await self._submitted(context, admitted)
        with self._observer.submission_span(admitted.subject, _trace(context)):
            digest = await self._planned(self._manager.submit, *submitted)
        await context.write(encode_submitted(digest))

    async def _plan(self, context: Context, admitted: Admitted) -> None:
        signed, population = await self._submitted(context, admitted)
        planned = await self._planned(self._manager.plan, signed, population)
        plan = {**planned.to_json(), **population_facts(population, planned.n_users or 0)}
        await context.write(encode_plan(json.dumps(plan, ensure_ascii=False)))

    async def _submitted(
        self, context: Context, admitted: Admitted
    ) -> tuple[SignedStudy, TaggedPopulation | None]:
        """Read the study that a caller has signed the call for, and that is its own."""
        data = await read_message(context, _MESSAGE_S)
        admitted.check_body(data)
        signed = decode_submission(data)
        if digest_of(signed.study) != admitted.subject:
            raise CallRefused(
                "bad-signature", "Submit: expected the study that the call was signed for"
            )
        if signed.public_key != admitted.own_key():
            raise CallRefused(
                "untrusted-key", "Submit: expected a study that the caller's key signed"
            )
        return signed, decode_population(data)

    async def _list(self, context: Context, admitted: Admitted) -> None:
        if admitted.subject != (admitted.signed.public_key or NO_SUBJECT):
            raise CallRefused("bad-signature", "List: expected the caller's own key")
        data = await read_message(context, _MESSAGE_S)
        admitted.check_body(data)
        asked = decode_listing(data)
        owner = admitted.own_key() if admitted.scope is Scope.OWN else None
        query = asked.query
        page = await self._call_manager(self._manager.page, query or StudyQuery(), owner)
        if query is None:  # an older caller
            summaries = [_summary(one, asked) for one in reversed(page.studies)]
            await context.write(encode_summaries(summaries))
            return
        summaries = [_summary(one, asked) for one in page.studies]
        await context.write(encode_summaries(summaries, page.extent))

    async def _watch(self, context: Context, admitted: Admitted) -> None:
        digest, key = admitted.subject, await self._owner(admitted)
        data = await read_message(context, _MESSAGE_S)
        admitted.check_body(data)
        read = partial(self._call_manager, self._manager.status, digest, key)
        status, population = await read(), None
        if asks_population(data):
            register = self._manager.register
            found = await self._call_manager(population_status, register, status)
            population = None if found is None else PopulationStatus(*found)
        last: StudyEvent | None = None
        async with aclosing(self._watches.statuses(digest, read)) as statuses:
            async for status in statuses:
                event = _event(status, population)
                if event != last:
                    await context.write(encode_event(event))
                    last = event

    async def _result(self, context: Context, admitted: Admitted) -> None:
        digest, key, epoch = admitted.subject, await self._owner(admitted), admitted.epoch
        found = await self._call_manager(self._manager.conclusion, digest, key, epoch)
        if found is None:
            so_far = (
                "" if epoch else await self._call_manager(self._manager.result_so_far, digest, key)
            )
            ending = Ending(StudyState.OPEN, "", "", so_far)
        else:
            ending = Ending(found.state, found.reason, found.message, found.result_json)
        await context.write(encode_ending(ending))

    async def _export(self, context: Context, admitted: Admitted) -> None:
        called = admitted.subject, await self._owner(admitted), admitted.epoch
        found = await self._call_manager(self._manager.export, *called)
        opening = await self._call_manager(self._manager.register.population, called[0])
        parts = encode_export(*found, opening)
        while (part := await self._call_manager(next, parts, None)) is not None:
            await context.write(part)

    async def _cancel(self, context: Context, admitted: Admitted) -> None:
        digest, key = admitted.subject, await self._owner(admitted)
        state = await self._call_manager(self._manager.cancel, digest, key)
        if state is StudyState.OPEN:  # no thread waits: other analysts need them
            read = partial(self._call_manager, self._manager.status, digest, key)
            with suppress(TimeoutError):
                async with (
                    asyncio.timeout(_CANCEL_S),
                    aclosing(self._watches.statuses(digest, read)) as statuses,
                ):
                    async for status in statuses:
                        state = status.state
        await context.write(encode_state(state))

    async def _pause(self, context: Context, admitted: Admitted) -> None:
        digest, key = admitted.subject, await self._owner(admitted)
        await context.write(
            encode_state(await self._call_manager(self._manager.pause, digest, key))
        )

    async def _resume(self, context: Context, admitted: Admitted) -> None:
        digest, key = admitted.subject, await self._owner(admitted)
        await context.write(
            encode_state(await self._call_manager(self._manager.unpause, digest, key))
        )

    async def _delete_reports(self, context: Context, admitted: Admitted) -> None:
        digest, key = admitted.subject, await self._owner(admitted)
        await self._call_manager(self._manager.delete_reports, digest, key)
        await context.write(encode_deleted())

    async def _delete_results(self, context: Context, admitted: Admitted) -> None:
        digest, key = admitted.subject, await self._owner(admitted)
        await self._call_manager(self._manager.delete_results, digest, key)
        await context.write(encode_deleted())

    async def _owner(self, admitted: Admitted) -> bytes:
        """Return the key of the analyst whose study a call is about.

        Raises:
          UnknownStudy: there is no such study; another analyst's is found later, by its key.
        """
        if admitted.scope is Scope.OWN:
            return admitted.own_key()
        return await self._call_manager(self._manager.owner, admitted.subject)

    async def _planned(
        self,
        work: Callable[[SignedStudy, TaggedPopulation | None], T],
        signed: SignedStudy,
        population: TaggedPopulation | None,
    ) -> T:
        """Do what plans a study, where other calls do not wait for it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._planner, work, signed, population)

    async def _call_manager(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the study manager in the executor, so that the event loop does not wait."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: work(*args, **kwargs))


def _trace(context: Context) -> str | None:
    """The trace context that an analyst's program sent; None without one."""
    for key, value in context.invocation_metadata() or ():
        if key == _TRACE_KEY and isinstance(value, str):
            return value
    return None


def _summary(study: StudyStatus, asked: ListRequest) -> StudySummary:
    """Return a study for a list, without what an older caller does not know."""
    return StudySummary(
        study.digest,
        study.learner,
        study.state,
        study.rounds_closed,
        study.epochs,
        study.reason if asked.with_reasons else "",
        b"" if asked.query is None else study.public_key,
    )


def _event(status: StudyStatus, population: PopulationStatus | None) -> StudyEvent:
    return StudyEvent(
        status.state,
        status.round,
        status.asked,
        status.answered,
        status.reason,
        status.message,
        status.epochs,
        population,
    )


def gate_of(
    callers: Callers,
    recorder: AuditRecorder,
    *,
    executor: Executor,
    now_s: Callable[[], int],
    limits: CallerLimits | None = None,
) -> Gate:
    """Return the gate of a server's services; its refusals have the reasons of the table."""
    return Gate(
        callers, recorder, executor, lambda error: status_of(error)[2], now_s, limits=limits
    )
