"""Limits on the calls of each caller, and on those of all callers together.

Invariants, held whatever ends a call:

1. A caller has at most its share of calls of each kind at work, and all callers together at most
   the total of that kind. Each call counts as one of kind CALL too.
2. What a caller has been sent and has not read is at most its share, or one message. A write that
   would pass it refuses its call; a call does not write its next message before the last one has
   left, so a caller that reads nothing holds one message per call.
3. A call that is refused is not counted and holds nothing.
4. A total is at least a share: it is never the first limit that one caller alone meets.

gRPC returns from a write when the peer's flow-control window has taken the message, so a message
that is not read is one whose write has not returned. No write is given up after some time: gRPC
would keep the stream, and its message, without a call that counts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Annotated, Any, cast

from askance_aggregator.analyst.calls import CallRefused
from askance_aggregator.server.callers.callers import Caller
from askance_aggregator.server.callers.roles import CallKind
from askance_aggregator.server.devices.calls import Context
from askance_aggregator.server.outer.held import Held
from askance_client.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """Limits on calls of analysts and operators at one time: per caller, and in all."""

    calls_per_caller: Annotated[
        int,
        "of analysts and operators, of every kind together. A caller is an analyst's key, or a name"
        " of [callers]; one that is refused is told the key of the limit",
    ] = 64
    calls: Annotated[int, "in all"] = 1_024
    plans_per_caller: Annotated[int, "studies that are submitted or planned"] = 8
    plans: Annotated[int, "in all"] = 64
    watches_per_caller: Annotated[int, "studies that are watched"] = 32
    watches: Annotated[int, "in all"] = 512
    exports_per_caller: Annotated[int, "exports that are sent"] = 4
    exports: Annotated[int, "in all"] = 64
    unread_bytes_per_caller: Annotated[
        int, "sent and not read by the caller; one message may pass it"
    ] = 8_388_608
    unread_bytes: Annotated[int, "in all"] = 134_217_728
    unknown_calls: Annotated[int, "whose caller is being identified, in all"] = 1_024

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) < 1:
                raise InvalidParameter(
                    f"{one.name}: expected 1 or more, got {getattr(self, one.name)}"
                )
        for name in (*CallKind, "unread_bytes"):
            share, total = getattr(self, f"{name}_per_caller"), getattr(self, name)
            if share > total:
                raise InvalidParameter(
                    f"{name}_per_caller: expected at most {name} ({total}), got {share}"
                )

    def share(self, kind: CallKind) -> int:
        """Return how many calls of a kind one caller may have at work."""
        return cast(int, getattr(self, f"{kind}_per_caller"))

    def total(self, kind: CallKind) -> int:
        """Return how many calls of a kind all callers together may have at work."""
        return cast(int, getattr(self, kind))


class CallsAtWork:
    """Counter of the calls at work; used in one event loop.

    It keeps nothing about a caller that has no call at work.
    """

    def __init__(self, limits: CallerLimits) -> None:
        self._limits = limits
        self._unknown = 0
        self._calls: dict[CallKind, Held[bytes | str]] = {kind: Held() for kind in CallKind}
        self._unread: Held[bytes | str] = Held()  # bytes that were written and have not left

    def change(self, limits: CallerLimits) -> None:
        """Keep other limits from now on; calls at work go on."""
        self._limits = limits

    @property
    def calls(self) -> int:
        """Number of calls at work, of known callers."""
        return self._calls[CallKind.CALL].total

    @property
    def unread_bytes(self) -> int:
        """Bytes that were written and have not left."""
        return self._unread.total

    @property
    def remembered(self) -> int:
        """Number of entries that are kept about callers."""
        return len(self._unread) + sum(map(len, self._calls.values()))

    @contextmanager
    def unknown(self) -> Iterator[None]:
        """Count a call whose caller is being identified, for the length of a block."""
        if self._unknown >= self._limits.unknown_calls:
            raise CallRefused(
                "too-many-calls",
                f"expected at most {self._limits.unknown_calls} calls of unknown callers at one"
                " time (limits.unknown_calls)",
            )
        self._unknown += 1
        try:
            yield
        finally:
            self._unknown -= 1

    @contextmanager
    def counted(self, caller: Caller, kind: CallKind, context: Context) -> Iterator[Context]:
        """Count a call for the length of a block."""
        who = caller.key or caller.name
        kinds = dict.fromkeys((CallKind.CALL, kind))
        for one in kinds:
            self._check(who, one)
        with ExitStack() as counting:
            for one in kinds:
                counting.enter_context(self._calls[one].hold(who))
            yield cast(Context, _CountedContext(context, self, who))

    @contextmanager
    def unread(self, who: bytes | str, size: int) -> Iterator[None]:
        """Count a message from its write until it has left."""
        limits, held = self._limits, self._unread.of(who)
        if held and (
            held + size > limits.unread_bytes_per_caller
            or self._unread.total + size > limits.unread_bytes
        ):
            raise CallRefused(
                "unread-answers",
                f"expected the caller to read its other answers first, got {held} bytes unread"
                " (limits.unread_bytes_per_caller)",
            )
        with self._unread.hold(who, size):
            yield

    def _check(self, who: bytes | str, kind: CallKind) -> None:
        share, total = self._limits.share(kind), self._limits.total(kind)
        if self._calls[kind].of(who) >= share:
            raise CallRefused(
                "too-many-calls",
                f"expected at most {share} {kind} of one caller at one time"
                f" (limits.{kind}_per_caller)",
            )
        if self._calls[kind].total >= total:
            raise CallRefused(
                "too-many-calls",
                f"expected at most {total} {kind} of all callers at one time (limits.{kind})",
            )


class _CountedContext:
    """Context of a call whose messages count until they have left; all else is gRPC's own."""

    def __init__(self, context: Context, calls: CallsAtWork, who: bytes | str) -> None:
        self._context = context
        self._calls = calls
        self._who = who

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, message: bytes) -> None:
        """Write one message; see `CallsAtWork.unread`."""
        with self._calls.unread(self._who, len(message)):
            await self._context.write(message)
