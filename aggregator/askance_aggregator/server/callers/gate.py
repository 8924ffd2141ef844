"""Admission of a call: the caller proves who it is, and the table says whether it may call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from askance_aggregator.analyst.calls import (
    NO_SUBJECT,
    Call,
    CallRefused,
    SignedCall,
    check_body,
    check_call,
    read_call,
    read_token,
    read_unsigned_call,
)
from askance_aggregator.server.callers.callers import Caller, Callers
from askance_aggregator.server.callers.limits import CallerLimits, CallsAtWork
from askance_aggregator.server.callers.recorder import AuditRecorder, origin_of
from askance_aggregator.server.callers.roles import (
    RULES,
    CallEffects,
    CallRule,
    Scope,
    action_words,
)
from askance_aggregator.server.devices.calls import Context, Method, caller_of
from askance_aggregator.server.loops import InExecutor
from askance_aggregator.store import AuditEvent, NonceKnown
from askance_aggregator.store.audit import BEGUN
from askance_client.service.credentials import Received

_TRACE_KEY = "traceparent"  # https://www.w3.org/TR/trace-context
# Reasons that are no decision about a caller.
_FAILURES = ("internal", "store-failed", "timeout", "went-away")


@dataclass(slots=True)
class CallEffect:
    """Effect of a call that was made.

    Args:
      changed: number of devices and gateways; None: it changes none, or not yet.
      refused: a word for why it left everything as it was; empty: it did not.
    """

    changed: int | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A call that may be made.

    Args:
      scope: the studies that it may be about; never NONE.
      signed: the call as it arrived.
      trace: the trace context that the caller's program sent; None without one.
      effect: set by what makes the call, for the audit log.
    """

    call: Call
    caller: Caller
    scope: Scope
    signed: SignedCall
    trace: str | None = None
    effect: CallEffect = field(default_factory=CallEffect)

    @property
    def subject(self) -> bytes:
        """The study that the call is about, 32 bytes; for calls about none, the caller's key."""
        return self.signed.subject

    @property
    def epoch(self) -> int:
        """Index of the epoch that the call is about; 0: the study itself."""
        return self.signed.epoch

    def check_body(self, data: bytes) -> None:
        """Raise CallRefused if a message is not the one that the caller has signed."""
        check_body(self.call, self.signed, data)

    def own_key(self) -> bytes:
        """Return the key that signs the caller's studies; raise CallRefused if there is none."""
        if not self.caller.key:
            raise CallRefused(
                "no-key",
                f"{self.call}: expected a caller with a key of their own, got {self.caller.name}"
                " without one (the operator names it in callers.keys)",
            )
        return self.caller.key


Do = Callable[[Context, Admitted], Awaitable[None]]
Prepare = Callable[[Context, Admitted], Awaitable[tuple[str, Do]]]


class Gate:
    """Admit calls, and record those that change something and those that are refused.

    Args:
      executor: where it waits for the disk.
      reason_of: returns the word for programs of an error that a call ends with.
      now_s: the time, in whole seconds since 1970, UTC.
    """

    def __init__(
        self,
        callers: Callers,
        recorder: AuditRecorder,
        executor: Executor,
        reason_of: Callable[[Exception], str],
        now_s: Callable[[], int],
        rules: Mapping[str, CallRule] = RULES,
        limits: CallerLimits | None = None,
    ) -> None:
        self.callers = callers
        self._recorder = recorder
        self._run = InExecutor(executor)
        self._reason_of = reason_of
        self._now_s = now_s
        self._rules = rules
        self._calls = CallsAtWork(limits or CallerLimits())

    def change(self, limits: CallerLimits) -> None:
        """Keep other limits from now on; calls at work go on. In the service's event loop."""
        self._calls.change(limits)

    def guarded(self, call: Call, do: Do) -> Method:
        """Return a method that admits its caller before it does something about a study."""

        async def prepare(_: Context, admitted: Admitted) -> tuple[str, Do]:
            return _study(admitted), do

        return self.prepared(call, prepare)

    def prepared(self, call: Call, prepare: Prepare) -> Method:
        """Return a method that admits its caller, reads the message, and then does something.

        `prepare` reads the message; it returns what it is about, for the audit log, and what does
        it.
        """

        async def guarded(context: Context) -> None:
            action = action_words(call.method)
            event = AuditEvent(0, "", "", action, "", origin_of(caller_of(context)), BEGUN)
            with ExitStack() as counted:
                with self._calls.unknown():  # until it is counted, or its refusal recorded
                    try:
                        metadata = context.invocation_metadata()
                        caller, signed = await self._run(self.identify, call, metadata)
                        event = replace(event, who=caller.name, role=caller.role)
                        admitted = self.permit(call, caller, signed, _trace(metadata))
                        rule = self._rules[call.method]
                        changes = rule.effects is not CallEffects.NONE
                        context = counted.enter_context(
                            self._calls.counted(caller, rule.kind, context)
                        )
                    except Exception as error:
                        await self._record_end(event, error, self._recorder.refuse)
                        raise
                record: Callable[[AuditEvent], object] = self._recorder.refuse
                try:
                    subject, do = await prepare(context, admitted)
                    event = replace(event, subject=subject)
                    if changes:
                        began = await self._run(self._begin, event, signed.nonce)
                        event = replace(event, began=began)
                        record = self._recorder.record
                    await do(context, admitted)
                except Exception as error:
                    event = replace(event, changed=admitted.effect.changed)
                    await self._record_end(event, error, record)
                    raise
                if changes:
                    effect = admitted.effect
                    outcome = f"refused: {effect.refused}" if effect.refused else "done"
                    ended = replace(event, outcome=outcome, changed=effect.changed)
                    await self._run(self._recorder.record, ended)

        return guarded

    def identify(self, call: Call, metadata: Received) -> tuple[Caller, SignedCall]:
        """Return who makes a call, by its metadata, and the call; no message is read yet.

        May wait for the issuer of a token.
        """
        token = read_token(metadata)
        if token is not None:
            return self.callers.tokens.by_token(token), read_unsigned_call(metadata)
        signed = read_call(metadata)
        caller = self.callers.by_key(signed.public_key)
        check_call(call, signed, () if caller is None else (signed.public_key,), self._now_s())
        assert caller is not None  # an unknown key was refused
        return caller, signed

    def permit(
        self, call: Call, caller: Caller, signed: SignedCall, trace: str | None = None
    ) -> Admitted:
        """Admit a call by the table of roles."""
        rule = self._rules.get(call.method)
        scope = Scope.NONE if rule is None else rule.scope(caller.role)
        if rule is None or scope is Scope.NONE:
            raise CallRefused(
                "not-permitted",
                f"{call}: expected a role that may call it, got {caller.role} ({caller.name})",
            )
        if rule.effects is CallEffects.ONCE and not signed.nonce:
            raise CallRefused(
                "nonce-missing", f"{call}: expected a call with a nonce, got one of version 1"
            )
        return Admitted(call, caller, scope, signed, trace)

    async def _record_end(
        self, event: AuditEvent, error: Exception, record: Callable[[AuditEvent], object]
    ) -> None:
        """Record the error that a call ends with."""
        reason = self._reason_of(error)
        what = "failed" if reason in _FAILURES else "refused"
        await self._run(record, replace(event, outcome=f"{what}: {reason}"))

    def _begin(self, event: AuditEvent, nonce: bytes) -> int:
        """Record that a call begins, before anything is changed; return the entry's number."""
        try:
            return self._recorder.record(event, nonce)
        except NonceKnown:
            raise CallRefused(
                "replayed", f"{event.action}: expected a new call, got one that came before"
            ) from None


def _trace(metadata: Received) -> str | None:
    found = dict(metadata or ()).get(_TRACE_KEY)
    return found if isinstance(found, str) else None


def _study(admitted: Admitted) -> str:
    """Return the study that a call is about; empty for one about all studies of its caller."""
    if admitted.subject in (admitted.signed.public_key, NO_SUBJECT):
        return ""
    return f"study {admitted.subject.hex()}"
