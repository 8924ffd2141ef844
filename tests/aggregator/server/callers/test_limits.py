"""Limits on what each caller has at work: one that reads nothing, and one that asks too often."""

from __future__ import annotations

import asyncio
import io
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc import aio

from askance_aggregator.analyst.calls import Call, CallRefused
from askance_aggregator.analyst.messages import REASON_KEY
from askance_aggregator.server.callers import RULES, Caller, CallerLimits, CallKind, Role
from askance_aggregator.server.callers.limits import CallsAtWork
from askance_aggregator.server.devices.calls import Context, serving
from askance_aggregator.server.process.logs import logs_to
from askance_aggregator.server.services.servicer import refused_status
from askance_aggregator.store import SqliteStore
from askance_client.codec import digest_of
from askance_client.errors import InvalidParameter
from askance_client.service.exchange import STREAMS_PER_CONNECTION
from askance_protos.v1 import analyst_pb2
from tests.aggregator.server.callers.role_server import (
    KEYS,
    OWNER,
    metadata,
    request,
    served,
)

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
LINE = "x" * 300_000  # one message of an export holds one such line
LINES = 40
OPTIONS = [
    ("grpc.http2.bdp_probe", 0),  # a window stays at 64 kB, so that no message fits into it
    ("grpc.use_local_subchannel_pool", 1),  # a channel is a connection
]
ANN, BEN = Caller("ann", Role.ANALYST, b"a" * 32), Caller("ben", Role.VIEWER)


class CountedLines:
    """Transcript that counts the lines that were taken from it."""

    def __init__(self, log: Any, taken: list[int]) -> None:
        self._log = log
        self._taken = taken

    def append(self, line: str) -> None:
        self._log.append(line)

    def lines(self) -> Iterator[str]:
        for line in self._log.lines():
            self._taken[0] += 1
            yield line


class CountingStore(SqliteStore):
    """Store that counts the lines of transcripts that are taken from it."""

    def __init__(self, *opened: Any) -> None:
        super().__init__(*opened)
        self.taken = [0]

    def log(self, study_digest: bytes, epoch: int = 0) -> Any:
        return CountedLines(super().log(study_digest, epoch), self.taken)


@contextmanager
def calling(limits: CallerLimits | None = None) -> Iterator[tuple[Callable[..., Any], Any]]:
    """Serve a study with a transcript of 12 MB; yield what makes a call about it, and the store."""
    store = CountingStore.in_memory()
    with served(store, limits=limits) as (address, study):
        for _ in range(LINES):
            store.log(digest_of(study.study)).append(LINE)
        channels: dict[Any, grpc.Channel] = {}
        calls: Counter[Ed25519PrivateKey] = Counter()

        def call(what: Call, key: Ed25519PrivateKey) -> Any:
            place = (key, calls[key] // STREAMS_PER_CONNECTION)
            calls[key] += 1
            if place not in channels:  # a connection takes few calls at one time
                channels[place] = grpc.insecure_channel(address, OPTIONS)
            channel = channels[place]
            subject, data = request(what, key, study)
            made: Any = channel.unary_stream(f"/askance.v1.{what.method}")
            return made(data, timeout=30, metadata=metadata(what, key, subject, data))

        try:
            yield call, store
        finally:
            for channel in channels.values():
                channel.close()


def refusal(call: Any) -> tuple[grpc.StatusCode, str, str]:
    """Return the status, the reason and the text with which a call ends."""
    with pytest.raises(grpc.RpcError):
        list(call)
    return call.code(), dict(call.trailing_metadata())[REASON_KEY], call.details()


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Lines that an aggregator's process would log."""
    stream = io.StringIO()
    with logs_to(stream, "error"):
        yield stream


def test_exports_that_are_not_read_are_bounded_per_caller(log: io.StringIO) -> None:
    with calling(CallerLimits(exports_per_caller=2)) as (call, _):
        unread = [call(Call("Analysts/Export"), KEYS[Role.VIEWER]) for _ in range(2)]
        for one in unread:
            one.initial_metadata()
        code, reason, text = refusal(call(Call("Analysts/Export"), KEYS[Role.VIEWER]))
        assert (code, reason) == (EXHAUSTED, "too-many-calls")
        assert text == (
            "expected at most 2 exports of one caller at one time (limits.exports_per_caller)"
        )
        whole = list(call(Call("Analysts/Export"), OWNER))
        assert sum(len(analyst_pb2.ExportPart.FromString(part).lines) for part in whole) == LINES
        unread[0].cancel()
        until(lambda: call(Call("Analysts/Export"), KEYS[Role.VIEWER]))
    assert log.getvalue() == ""


def test_an_export_takes_its_next_lines_when_the_last_part_has_left() -> None:
    """Once, all parts of every export were made before the first one was sent."""
    with calling() as (call, store):
        exporting = call(Call("Analysts/Export"), OWNER)
        exporting.initial_metadata()
        first = analyst_pb2.ExportPart.FromString(next(exporting))
        assert len(first.lines) == 1
        assert store.taken[0] <= 6  # the part that was read, those on the way, a line beside each
        rest = [analyst_pb2.ExportPart.FromString(part) for part in exporting]
        assert sum(len(part.lines) for part in rest) == LINES - 1
        assert store.taken[0] == LINES


def test_answers_that_are_not_read_are_bounded_in_bytes() -> None:
    limits = CallerLimits(unread_bytes_per_caller=700_000)
    with calling(limits) as (call, store):
        unread = [call(Call("Analysts/Export"), KEYS[Role.VIEWER]) for _ in range(2)]
        for one in unread:
            one.initial_metadata()
        while store.taken[0] < 2 * 2:  # the line of the part that is on its way, and one beside it
            time.sleep(0.01)
        code, reason, text = refusal(call(Call("Analysts/Export"), KEYS[Role.VIEWER]))
        assert (code, reason) == (EXHAUSTED, "unread-answers")
        assert "limits.unread_bytes_per_caller" in text
        assert "\n" not in text
        assert (
            len(list(call(Call("Analysts/Export"), OWNER))) == LINES
        )  # a reader is never over its share


def test_watches_of_one_viewer_do_not_lock_out_the_studys_analyst(
    log: io.StringIO,
) -> None:
    with calling() as (call, _):
        watching = [call(Call("Analysts/Watch"), KEYS[Role.VIEWER]) for _ in range(32)]
        for one in watching:
            next(one)
        code, reason, _text = refusal(call(Call("Analysts/Watch"), KEYS[Role.VIEWER]))
        assert (code, reason) == (EXHAUSTED, "too-many-calls")
        assert next(call(Call("Analysts/Watch"), OWNER))
        assert next(call(Call("Analysts/Result"), KEYS[Role.VIEWER]))  # its other calls go on
    assert log.getvalue() == ""


def test_a_write_to_a_caller_that_has_gone_ends_its_call_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once, the write's error was logged as one of ours, with its traceback."""

    class Gone:
        async def write(self, _: bytes) -> None:
            raise aio.InternalError("execute_batch")

    async def answer(context: Context) -> None:
        with counting.counted(BEN, CallKind.EXPORT, context) as counted_context:
            await counted_context.write(b"part")

    counting = CallsAtWork(CallerLimits())

    async def whole() -> None:
        with pytest.raises(asyncio.CancelledError):
            await serving(answer, refused_status)(None, cast(Context, Gone()))

    asyncio.run(whole())
    assert caplog.records == []
    assert (counting.calls, counting.unread_bytes) == (0, 0)


def test_a_caller_that_goes_away_while_it_is_sent_an_export_leaves_no_error(
    log: io.StringIO,
) -> None:
    with calling(CallerLimits(exports_per_caller=1)) as (call, _):
        for _ in range(3):
            exporting = until(lambda: call(Call("Analysts/Export"), KEYS[Role.VIEWER]))
            exporting.cancel()
        until(lambda: call(Call("Analysts/Export"), KEYS[Role.VIEWER]))
    assert log.getvalue() == ""


def until(make: Callable[[], Any]) -> Any:
    """Make a call until it is not refused, and return it after its first message."""
    for _ in range(500):
        made = make()
        try:
            next(made)
        except grpc.RpcError:
            time.sleep(0.01)
            continue
        return made
    raise AssertionError("expected a call that is not refused")


class TestCounting:
    """Invariants of `CallsAtWork`, by their numbers."""

    def test_1_a_share_and_a_total_of_each_kind(self) -> None:
        calls = CallsAtWork(CallerLimits(watches_per_caller=2, watches=3))
        with counted(calls, ANN, CallKind.WATCH), counted(calls, ANN, CallKind.WATCH):
            with pytest.raises(CallRefused, match=r"at most 2 watches of one caller"):
                counted(calls, ANN, CallKind.WATCH).__enter__()
            with counted(calls, BEN, CallKind.WATCH):
                with pytest.raises(CallRefused, match="at most 3 watches of all callers"):
                    counted(calls, Caller("cal", Role.VIEWER), CallKind.WATCH).__enter__()
                with counted(calls, BEN, CallKind.EXPORT), counted(calls, BEN, CallKind.CALL):
                    assert calls.calls == 5
        with counted(calls, ANN, CallKind.WATCH):
            assert calls.calls == 1

    def test_1_every_kind_counts_as_a_call(self) -> None:
        calls = CallsAtWork(CallerLimits(calls_per_caller=2))
        with (
            counted(calls, ANN, CallKind.WATCH),
            counted(calls, ANN, CallKind.EXPORT),
            pytest.raises(CallRefused, match="at most 2 calls of one caller"),
        ):
            counted(calls, ANN, CallKind.PLAN).__enter__()

    def test_1_a_caller_is_its_key_by_whatever_name_it_calls(self) -> None:
        calls = CallsAtWork(CallerLimits(plans_per_caller=1))
        by_token = Caller("ann@example.org", Role.ANALYST, ANN.key)
        with (
            counted(calls, ANN, CallKind.PLAN),
            pytest.raises(CallRefused, match="at most 1 plans of one caller"),
        ):
            counted(calls, by_token, CallKind.PLAN).__enter__()

    def test_2_bytes_that_have_not_left(self) -> None:
        calls = CallsAtWork(CallerLimits(unread_bytes_per_caller=10, unread_bytes=12))
        with calls.unread("ann", 1_000):  # one message may pass it
            assert calls.unread_bytes == 1_000
            with pytest.raises(CallRefused, match="got 1000 bytes unread") as refused:
                calls.unread("ann", 1).__enter__()
            assert refused.value.reason == "unread-answers"
            with (
                calls.unread("ben", 1),  # and one of each caller
                pytest.raises(CallRefused, match="got 1 bytes unread"),
            ):
                calls.unread("ben", 1).__enter__()
        with calls.unread("ann", 4), calls.unread("ann", 6):
            assert calls.unread_bytes == 10

    def test_3_a_refused_call_holds_nothing(self) -> None:
        calls = CallsAtWork(CallerLimits(exports_per_caller=1))
        with counted(calls, ANN, CallKind.EXPORT):
            for _ in range(100):
                with pytest.raises(CallRefused):
                    counted(calls, ANN, CallKind.EXPORT).__enter__()
            assert calls.calls == 1
        assert (calls.calls, calls.remembered) == (0, 0)
        with counted(calls, ANN, CallKind.EXPORT):
            pass

    def test_3_a_call_that_fails_is_not_at_work(self) -> None:
        calls = CallsAtWork(CallerLimits())
        with pytest.raises(KeyError), counted(calls, ANN, CallKind.WATCH), calls.unread("ann", 7):
            raise KeyError
        assert (calls.calls, calls.unread_bytes, calls.remembered) == (0, 0, 0)

    def test_4_no_share_is_more_than_all(self) -> None:
        for name in ("calls", "plans", "watches", "exports", "unread_bytes"):
            with pytest.raises(InvalidParameter, match=rf"{name}_per_caller: .*at most {name} \(3"):
                CallerLimits(**{f"{name}_per_caller": 4, name: 3})
            with pytest.raises(InvalidParameter, match=f"{name}: expected 1 or more, got 0"):
                CallerLimits(**{name: 0})

    def test_calls_of_unknown_callers(self) -> None:
        calls = CallsAtWork(CallerLimits(unknown_calls=1))
        with calls.unknown(), pytest.raises(CallRefused, match="at most 1 calls of unknown"):
            calls.unknown().__enter__()
        with calls.unknown():
            pass

    def test_other_limits_hold_from_now_on(self) -> None:
        calls = CallsAtWork(CallerLimits(exports_per_caller=1))
        with counted(calls, ANN, CallKind.EXPORT):
            calls.change(CallerLimits(exports_per_caller=2))
            with counted(calls, ANN, CallKind.EXPORT):
                pass


def counted(calls: CallsAtWork, caller: Caller, kind: CallKind) -> Any:
    return calls.counted(caller, kind, object())  # type: ignore[arg-type]  # it is never used


def test_the_defaults_hold_for_one_careless_analyst_among_ten() -> None:
    """Nine others have room for as much as the careless one, in every kind."""
    limits = CallerLimits()
    for name in ("calls", "plans", "watches", "exports", "unread_bytes"):
        share, total = getattr(limits, f"{name}_per_caller"), getattr(limits, name)
        assert 8 * share <= total, name


def test_calls_that_hold_something_for_long_have_limits_of_their_own() -> None:
    kinds = {method: rule.kind.value for method, rule in RULES.items() if rule.kind != "calls"}
    assert kinds == {
        "Analysts/Submit": "plans",
        "Analysts/Plan": "plans",
        "Analysts/Watch": "watches",
        "Analysts/Export": "exports",
    }
