"""The service for analysts: studies submitted, planned, listed, watched, ended and deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import TypeVar

from askance_aggregator.analyst import messages
from askance_aggregator.analyst.calls import NO_SUBJECT, CallRefused
from askance_aggregator.analyst.signed_counts import CountsSigner
from askance_aggregator.clock import system_now_s
from askance_aggregator.reports.schemas import toml_of
from askance_aggregator.server.callers import (
    Admitted,
    AuditRecorder,
    CallerLimits,
    Callers,
    Gate,
    Scope,
)
from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.loops import InExecutor
from askance_aggregator.server.services.servicer import Servicer, status_of
from askance_aggregator.server.studies import Approver, StudyManager, StudyStatus, population_status
from askance_aggregator.store import StudyQuery, StudyState
from askance_aggregator.studies.population import population_facts
from askance_client.codec import digest_of
from askance_client.messages import SignedStudy
from askance_client.queries import Schema
from askance_protos.v1 import analyst_pb2 as pb

_LOOK_EVERY_S = 0.2

Read = Callable[[], Awaitable[StudyStatus]]
Sleep = Callable[[float], Awaitable[None]]


class StudyWatches:
    """Statuses of the studies that are watched; used in one event loop.

    A watcher sleeps until the study changes: further watchers of a study cost no look at it.
    """

    def __init__(self, sleep: Sleep = asyncio.sleep) -> None:
        self._sleep = sleep
        self._sources: dict[bytes, _Source] = {}

    @property
    def sources(self) -> int:
        """Number of studies that are looked at."""
        return len(self._sources)

    async def statuses(self, digest: bytes, read: Read) -> AsyncGenerator[StudyStatus, None]:
        """Yield a study's status now, then each that differs, until the study has ended.

        `read` reads its status; every watcher of a study gives one that returns the same.
        """
        with self._joined(digest, read) as source:
            await source.look()
            known: StudyStatus | None = None
            while True:
                changed, status = source.changed, source.status
                if status is None:  # a look has failed: this one fails too, or all is well again
                    await source.look()
                elif status != known:
                    yield status
                    known = status
                elif status.state is not StudyState.OPEN:
                    return
                else:
                    await changed.wait()

    @contextmanager
    def _joined(self, digest: bytes, read: Read) -> Iterator[_Source]:
        """Take part in the looks at a study for the length of a block."""
        source = self._sources.get(digest)
        if source is None:
            source = self._sources[digest] = _Source(read, self._sleep)
        source.watchers += 1
        try:
            yield source
        finally:
            source.watchers -= 1
            if not source.watchers:
                source.close()
                del self._sources[digest]


class _Source:
    """Looks at one study, from the first watcher to the last.

    `changed` is set, and another event takes its place, when `status` changes; `status` is None
    before the first look and after one that failed.
    """

    def __init__(self, read: Read, sleep: Sleep) -> None:
        self.watchers = 0
        self.status: StudyStatus | None = None
        self.changed = asyncio.Event()
        self._read = read
        self._sleep = sleep
        self._looking = asyncio.Lock()  # a status that was read earlier never follows a later one
        self._task = asyncio.create_task(self._look_again())

    async def look(self) -> None:
        """Read the status now; what `read` raises passes through."""
        async with self._looking:
            try:
                self._tell(await self._read())
            except Exception:
                self._tell(None)
                raise

    def close(self) -> None:
        """Look no more."""
        self._task.cancel()

    async def _look_again(self) -> None:
        while self.status is None or self.status.state is StudyState.OPEN:
            await self._sleep(_LOOK_EVERY_S)
            try:
                await self.look()
            except Exception:  # each watcher meets it by a look of its own
                continue

    def _tell(self, status: StudyStatus | None) -> None:
        if status == self.status:
            return
        self.status = status
        told, self.changed = self.changed, asyncio.Event()
        told.set()


_OFFERED = 20  # studies whose schemas are offered, the newest
_CANCEL_S = 30.0  # an analyst waits at most so long for a study that is ending
T = TypeVar("T")


class AnalystsServicer(Servicer):
    """Serve `Analysts` of analyst.proto for one study manager.

    Args:
      manager: holds the studies; its calls may wait for the disk.
      planner: where studies are planned, which takes seconds of a processor: other calls do not
        wait for it. None: in `executor`.
      gate: admits, counts and records calls. None: one that knows the manager's analysts.
      observer: encloses submissions in spans.
      schemas: of devices' records, as the operator has registered them.
      counts_signer: signs the transcripts of exports; None: they are not signed.
    """

    SERVICE = pb.DESCRIPTOR.services_by_name["Analysts"]

    def __init__(
        self,
        manager: StudyManager,
        *,
        executor: Executor,
        planner: Executor | None = None,
        now_s: Callable[[], int] = system_now_s,
        gate: Gate | None = None,
        observer: Observer = SILENT,
        schemas: Sequence[Schema] = (),
        counts_signer: CountsSigner | None = None,
    ) -> None:
        gate = gate or gate_of(
            Callers(lambda: manager.analysts),
            AuditRecorder(manager.audit, now_s),
            executor=executor,
            now_s=now_s,
        )
        super().__init__(gate, executor)
        self._manager = manager
        self._planned = InExecutor(planner or executor)
        self._observer = observer
        self._schemas = schemas
        self._counts_signer = counts_signer
        self._watches = StudyWatches()

    async def submit(
        self, request: pb.SubmitStudyRequest, admitted: Admitted
    ) -> pb.SubmitStudyResponse:
        """Answer Submit."""
        signed, population = _submitted(request, admitted), messages.population_of(request)
        with self._observer.submission_span(admitted.subject, admitted.trace):
            digest = await self._planned(self._manager.submit, signed, population)
        return pb.SubmitStudyResponse(study_digest=digest)

    async def plan(
        self, request: pb.SubmitStudyRequest, admitted: Admitted
    ) -> pb.PlanStudyResponse:
        """Answer Plan."""
        signed, population = _submitted(request, admitted), messages.population_of(request)
        planned = await self._planned(self._manager.plan, signed, population)
        plan = {**planned.to_json(), **population_facts(population, planned.n_users or 0)}
        return pb.PlanStudyResponse(plan_json=json.dumps(plan, ensure_ascii=False))

    async def list(
        self, request: pb.ListStudiesRequest, admitted: Admitted
    ) -> pb.ListStudiesResponse:
        """Answer List."""
        if admitted.subject != (admitted.signed.public_key or NO_SUBJECT):
            raise CallRefused("bad-signature", "List: expected the caller's own key")
        query = messages.query_of(request)
        owner = admitted.own_key() if admitted.scope is Scope.OWN else None
        page = await self._run(self._manager.page, query or StudyQuery(), owner)
        found = [_summary(one, request) for one in page.studies]
        if query is None:  # an older caller
            return pb.ListStudiesResponse(studies=found[::-1])
        return pb.ListStudiesResponse(studies=found, extent=messages.extent_message(page.extent))

    async def schemas(self, _: pb.SchemasRequest, admitted: Admitted) -> pb.SchemasResponse:
        """Answer Schemas."""
        owner = admitted.own_key() if admitted.scope is Scope.OWN else None
        found = await self._run(self._manager.schemas, _OFFERED, owner)
        registered = [(one, True) for one in self._schemas]
        offered = registered + [(one, False) for one in found if one not in self._schemas]
        return pb.SchemasResponse(
            schemas=[
                pb.OfferedSchema(
                    name=schema.name,
                    version=schema.version,
                    toml=toml_of(schema, {}, inferred=False),
                    registered=by_operator,
                )
                for schema, by_operator in offered
            ]
        )

    async def watch(
        self, request: pb.StudyRequest, admitted: Admitted
    ) -> AsyncIterator[pb.StudyEvent]:
        """Answer Watch."""
        digest, key = admitted.subject, await self._owner(admitted)
        read = partial(self._run, self._manager.status, digest, key)
        status, population = await read(), None
        if request.with_population:
            found = await self._run(population_status, self._manager.register, status)
            if found is not None:
                population = pb.PopulationStatus(tags=found[0], devices=found[1])
        last: pb.StudyEvent | None = None
        async with aclosing(self._watches.statuses(digest, read)) as statuses:
            async for status in statuses:
                event = _event(status, population, request)
                if event != last:
                    yield event
                    last = event

    async def result(self, _: pb.StudyRequest, admitted: Admitted) -> pb.StudyResult:
        """Answer Result."""
        digest, key, epoch = admitted.subject, await self._owner(admitted), admitted.epoch
        found = await self._run(self._manager.conclusion, digest, key, epoch)
        if found is None:
            so_far = "" if epoch else await self._run(self._manager.result_so_far, digest, key)
            return pb.StudyResult(state=pb.STUDY_STATE_OPEN, result_json=so_far)
        return pb.StudyResult(
            state=messages.state_number(found.state),
            reason=found.reason,
            message=found.message,
            result_json=found.result_json,
        )

    async def export(self, _: pb.StudyRequest, admitted: Admitted) -> AsyncIterator[pb.ExportPart]:
        """Answer Export."""
        called = admitted.subject, await self._owner(admitted), admitted.epoch
        found = await self._run(self._manager.export, *called)
        population = await self._run(self._manager.register.population, called[0])
        signer = self._counts_signer
        sign = None if signer is None else partial(signer.sign, called[0], called[2])
        parts = messages.export_parts(*found, population, sign)
        while (part := await self._run(next, parts, None)) is not None:
            yield part

    async def cancel(self, _: pb.StudyRequest, admitted: Admitted) -> pb.CancelStudyResponse:
        """Answer Cancel."""
        digest, key = admitted.subject, await self._owner(admitted)
        state = await self._run(self._manager.cancel, digest, key)
        state = _of_open(await self._ended(digest, state), admitted, StudyState.CANCELLED)
        return pb.CancelStudyResponse(state=messages.state_number(state))

    async def pause(self, _: pb.StudyRequest, admitted: Admitted) -> pb.PauseStudyResponse:
        """Answer Pause."""
        key = await self._owner(admitted)
        state = _of_open(await self._run(self._manager.pause, admitted.subject, key), admitted)
        return pb.PauseStudyResponse(state=messages.state_number(state))

    async def resume(self, _: pb.StudyRequest, admitted: Admitted) -> pb.ResumeStudyResponse:
        """Answer Resume."""
        key = await self._owner(admitted)
        state = _of_open(await self._run(self._manager.unpause, admitted.subject, key), admitted)
        return pb.ResumeStudyResponse(state=messages.state_number(state))

    async def approve(
        self, request: pb.ApproveStudyRequest, admitted: Admitted
    ) -> pb.ApproveStudyResponse:
        """Answer Approve."""
        approver, names = await self._approver(admitted)
        digest, signature = admitted.subject, request.signature
        state = await self._run(self._manager.approve, digest, approver, signature, names)
        _of_open(state, admitted)
        return pb.ApproveStudyResponse(state=messages.state_number(state))

    async def refuse(
        self, request: pb.RefuseStudyRequest, admitted: Admitted
    ) -> pb.RefuseStudyResponse:
        """Answer Refuse."""
        approver, names = await self._approver(admitted)
        digest, reason = admitted.subject, request.reason
        state = await self._run(self._manager.refuse, digest, approver, reason, names)
        state = _of_open(await self._ended(digest, state), admitted, StudyState.CANCELLED)
        return pb.RefuseStudyResponse(state=messages.state_number(state))

    async def delete_reports(
        self, _: pb.StudyRequest, admitted: Admitted
    ) -> pb.DeleteStudyResponse:
        """Answer DeleteReports."""
        key = await self._owner(admitted)
        await self._run(self._manager.delete_reports, admitted.subject, key)
        return pb.DeleteStudyResponse()

    async def delete_results(
        self, _: pb.StudyRequest, admitted: Admitted
    ) -> pb.DeleteStudyResponse:
        """Answer DeleteResults."""
        key = await self._owner(admitted)
        await self._run(self._manager.delete_results, admitted.subject, key)
        return pb.DeleteStudyResponse()

    async def _ended(self, digest: bytes, state: StudyState) -> StudyState:
        """Return the state of a study that is ending, once it has ended or the time is up."""
        if state is StudyState.OPEN:  # no thread waits: other analysts need them
            key = await self._run(self._manager.owner, digest)
            read = partial(self._run, self._manager.status, digest, key)
            with suppress(TimeoutError):
                async with (
                    asyncio.timeout(_CANCEL_S),
                    aclosing(self._watches.statuses(digest, read)) as statuses,
                ):
                    async for status in statuses:
                        state = status.state
        return state

    async def _approver(self, admitted: Admitted) -> tuple[Approver, frozenset[str]]:
        """Return the approver who calls, and the names of the study's analyst."""
        approver = Approver(admitted.caller.person, admitted.own_key())
        owner = await self._run(self._manager.owner, admitted.subject)
        return approver, self._gate.callers.names_of(owner)

    async def _owner(self, admitted: Admitted) -> bytes:
        """Return the key of the analyst whose study a call is about."""
        if admitted.scope is Scope.OWN:
            return admitted.own_key()
        return await self._run(self._manager.owner, admitted.subject)


def _submitted(request: pb.SubmitStudyRequest, admitted: Admitted) -> SignedStudy:
    """Return the study that a caller has signed the call for, and that is its own."""
    signed = messages.check_submission(request)
    if digest_of(signed.study) != admitted.subject:
        raise CallRefused(
            "bad-signature", "Submit: expected the study that the call was signed for"
        )
    if signed.public_key != admitted.own_key():
        raise CallRefused("untrusted-key", "Submit: expected a study that the caller's key signed")
    return signed


def _summary(study: StudyStatus, request: pb.ListStudiesRequest) -> pb.StudySummary:
    """Return a study for a list, without what an older caller does not know."""
    return pb.StudySummary(
        study_digest=study.digest,
        learner=study.learner,
        state=messages.state_number(study.state),
        rounds_closed=study.rounds_closed,
        epochs=messages.epochs_message(study.epochs),
        reason=study.reason if request.with_reasons else "",
        public_key=study.public_key if request.HasField("query") else b"",
        facts=messages.facts_message(study) if request.with_facts else None,
    )


def _of_open(
    state: StudyState, admitted: Admitted, wanted: StudyState = StudyState.OPEN
) -> StudyState:
    """Return the state, and note for the audit log that a study had ended before in another one."""
    if state not in (StudyState.OPEN, wanted):
        admitted.effect.refused = "ended"
    return state


def _event(
    status: StudyStatus, population: pb.PopulationStatus | None, request: pb.StudyRequest
) -> pb.StudyEvent:
    approval = None
    if request.with_approval and status.approval is not None:
        approval = pb.StudyApproval(**asdict(status.approval))
    return pb.StudyEvent(
        state=messages.state_number(status.state),
        round=status.round,
        asked=status.asked,
        answered=status.answered,
        reason=status.reason,
        message=status.message,
        epochs=messages.epochs_message(status.epochs),
        population=population,
        facts=messages.facts_message(status) if request.with_facts else None,
        approval=approval,
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
