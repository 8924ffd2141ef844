"""An analyst's connection to an aggregator: submit a study, watch it, have its result.

with connect("127.0.0.1:7443", key="analyst.pem", ca=Path("ca.pem")) as aggregator:
    handle = aggregator.submit(study)
    for event in handle.watch():
        print(event)
    print(handle.result().hypothesis)
    handle.result().verify()
"""

from __future__ import annotations

import string
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst import wire
from askance_aggregator.analyst.calls import (
    Call,
    CallRefused,
    call_metadata,
    sign_call,
)
from askance_aggregator.analyst.channels import open_channel, unreachable
from askance_aggregator.analyst.export import StudyExport, result_of
from askance_aggregator.analyst.keys import AnalystKey, load_key
from askance_aggregator.analyst.results import StudyResult
from askance_aggregator.analyst.submission import DEFAULT_DAYS, Every, sign_submission
from askance_aggregator.analyst.wire import StudyEvent, StudySummary
from askance_aggregator.clock import system_now_s
from askance_aggregator.reports.html import html_of, line_of
from askance_aggregator.reports.report import CommandReport, Grid
from askance_aggregator.store import StudyState
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.errors import InvalidParameter, PlanRefused, RemoteProtocolError
from askance_client.messages import SignedStudy
from askance_client.printable import value_text
from askance_client.service import Metadata

MIN_PREFIX = 8
_DIGEST_HEX = 64
_CALL_S = 60.0
_AGAIN_S = 0.5  # between two tries to watch on, while the aggregator is away
_PATIENCE_S = 120.0  # how long an aggregator may be away in the middle of a study
_REFUSED_BEFORE_ASKING = ("plan-refused", "over-user-budget")


def connect(
    address: str,
    *,
    key: AnalystKey,
    ca: Path | str | None = None,
    plaintext: bool = False,
    now_s: Callable[[], int] = system_now_s,
    sleep_s: Callable[[float], None] = time.sleep,
) -> Aggregator:
    """Connect to an aggregator as one analyst.

    Args:
      address: HOST:PORT.
      key: the analyst's Ed25519 key: itself, its file, or the file's bytes (PKCS8 PEM).
      ca: the authority that the aggregator's certificate is from; None: one that the system trusts,
        or, on this machine, plain text.
      plaintext: without TLS, even if others can listen.
      now_s: clock, whole seconds since 1970, UTC.
      sleep_s: waits for a number of seconds.

    Raises:
      InvalidParameter: no such file, no key in it, or no such address. Nothing is called yet.
    """
    authority = None if ca is None else Path(ca)
    channel = open_channel(address, authority, plaintext=plaintext)
    return Aggregator(channel, load_key(key), address, authority, now_s, sleep_s)


class Aggregator:
    """An aggregator as an analyst sees it; made by `connect`. To be closed, or used in a `with`."""

    def __init__(
        self,
        channel: grpc.Channel,
        key: Ed25519PrivateKey,
        address: str,
        ca: Path | None,
        now_s: Callable[[], int],
        sleep_s: Callable[[float], None],
    ) -> None:
        self._channel = channel
        self._key = key
        self.address = address
        self._ca = ca
        self._now_s = now_s
        self.sleep_s = sleep_s

    def submit(
        self, study: Study, *, days: int = DEFAULT_DAYS, every: Every | None = None
    ) -> StudyHandle:
        """Sign a study and submit it; each call submits another study.

        Args:
          study: learner, schema and budget; this call signs it.
          days: number of days after which devices refuse the study.
          every: how often it collects again; None: it collects once.

        Raises:
          InvalidParameter: its learner is not one that an aggregator has.
          PlanRefused: it cannot work with the devices there are, or the budget that users have
            left; no user was asked. CallRefused: it was refused for another reason.
        """
        signed = sign_submission(study, self._key, days=days, now_s=self._now_s, every=every)
        return self.submit_signed(signed)

    def submit_signed(self, signed: SignedStudy) -> StudyHandle:
        """Hands in a study that is signed; the same again is no harm.

        Raises: see `submit`.
        """
        digest = digest_of(signed.study)
        answer = self.unary(Call.SUBMIT, digest, wire.encode_submission(signed))
        return StudyHandle(self, wire.decode_submitted(answer))

    def studies(self) -> list[StudySummary]:
        """Return this analyst's studies, the oldest first."""
        subject = self._key.public_key().public_bytes_raw()
        return wire.decode_summaries(self.unary(Call.LIST, subject))

    def study(self, name: str) -> StudyHandle:
        """A study by its digest in hexadecimal, or by eight digits or more that begin it.

        Raises:
          InvalidParameter: no such digest, or not of exactly one of this analyst's studies.
        """
        name = name.lower()
        if not MIN_PREFIX <= len(name) <= _DIGEST_HEX or not set(name) <= set(string.hexdigits):
            raise InvalidParameter(
                f"study: expected {MIN_PREFIX} to {_DIGEST_HEX} hexadecimal digits,"
                f" got {value_text(name)}"
            )
        if len(name) == _DIGEST_HEX:
            return StudyHandle(self, bytes.fromhex(name))
        found = [one.digest for one in self.studies() if one.digest.hex().startswith(name)]
        if len(found) != 1:
            raise InvalidParameter(
                f"study: expected one that begins with {name}, got {len(found) or 'none'}"
            )
        return StudyHandle(self, found[0])

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def unary(self, method: Call, subject: bytes, data: bytes = b"") -> bytes:
        """Make a call that has one answer.

        Args:
          method: the call.
          subject: the digest of the study that it is about; for List the caller's public key.
          data: its serialised argument.
        """
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes]
        call = self._channel.unary_unary(f"/{wire.SERVICE}/{method}")
        try:
            return call(data, timeout=_CALL_S, metadata=self._signed(method, subject))
        except grpc.RpcError as error:
            self.refuse(error)

    def stream(self, method: Call, digest: bytes, timeout_s: float | None) -> Iterator[bytes]:
        """Make a call that is answered in parts; what gRPC raises is not translated."""
        call: grpc.UnaryStreamMultiCallable[bytes, bytes]
        call = self._channel.unary_stream(f"/{wire.SERVICE}/{method}")
        parts = call(b"", timeout=timeout_s, metadata=self._signed(method, digest))
        try:
            yield from parts
        finally:
            parts.cancel()

    def _signed(self, call: Call, subject: bytes) -> Metadata:
        """Return the metadata of a call, signed now."""
        return call_metadata(sign_call(call, subject, self._key, self._now_s()))

    def refuse(self, error: grpc.RpcError) -> NoReturn:
        """Raise what a call's failure means."""
        if not isinstance(error, grpc.Call):
            raise error
        details = error.details() or "no reason given"
        metadata = {str(key): value for key, value in error.trailing_metadata() or ()}
        reason = str(metadata.get(wire.REASON_KEY, ""))
        if reason in _REFUSED_BEFORE_ASKING:
            raise PlanRefused(details) from None
        if not reason and error.code() is grpc.StatusCode.UNAVAILABLE:
            raise CallRefused(
                "unreachable",
                f"aggregator {self.address}: {unreachable(details, self._ca)}",
            ) from None
        if not reason:
            code = error.code().name.lower().replace("_", "-")
            raise CallRefused(code, f"aggregator {self.address}: {details}") from None
        raise CallRefused(reason, details) from None


class StudyHandle:
    """A study that an aggregator has; made by `Aggregator.submit` and `Aggregator.study`."""

    def __init__(self, aggregator: Aggregator, digest: bytes) -> None:
        self._aggregator = aggregator
        self._digest = digest

    @property
    def id(self) -> str:
        """The study's digest in hexadecimal."""
        return self._digest.hex()

    def __repr__(self) -> str:
        return line_of("StudyHandle", f"{self.id[:16]}... on {self._aggregator.address}")

    def _repr_html_(self) -> str:
        """Show the study's identity in a notebook; the aggregator is not called."""
        heads = ("study", "aggregator")
        grid = Grid(heads, left=heads, rows=[(self.id, self._aggregator.address)])
        return html_of(CommandReport("submitted study", [grid], "Its state: .status()"))

    def watch(self, timeout_s: float | None = None) -> Iterator[StudyEvent]:
        """Yield the study's status, now and at every change until it has ended.

        An aggregator that goes away meanwhile is called again for two minutes.

        Args:
          timeout_s: for how long; None: as long as the study takes.

        Raises:
          CallRefused: it has no such study of this analyst's, cannot be reached, or the time is up.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        last: StudyEvent | None = None
        heard = time.monotonic()
        while last is None or last.state is StudyState.OPEN:
            left = None if until is None else max(until - time.monotonic(), 0.001)
            try:
                for part in self._aggregator.stream(Call.WATCH, self._digest, left):
                    heard, event = time.monotonic(), wire.decode_event(part)
                    if event != last:
                        last = event
                        yield event
            except grpc.RpcError as error:
                if _has_timed_out(error):
                    raise CallRefused(
                        "timeout", f"study: expected its end within {timeout_s} s, got it open yet"
                    ) from None
                if last is None or not _is_away(error) or time.monotonic() > heard + _PATIENCE_S:
                    self._aggregator.refuse(error)
                self._aggregator.sleep_s(_AGAIN_S)

    def status(self) -> StudyEvent:
        """Return the study's present status."""
        watching = self.watch(_CALL_S)
        try:
            return next(iter(watching))
        finally:
            watching.close()  # type: ignore[attr-defined]  # a generator

    def result(self, timeout_s: float | None = None) -> StudyResult:
        """Wait until the study has ended and return its result.

        Raises:
          CallRefused: it has not ended after `timeout_s`, or see `watch`.
        """
        for _ in self.watch(timeout_s):
            pass
        found = wire.decode_ending(self._aggregator.unary(Call.RESULT, self._digest))
        content = result_of(found.result_json, "aggregator")
        if content is None:
            raise RemoteProtocolError("aggregator: expected the result of a study that has ended")
        return StudyResult(self.id, found.state, found.reason, found.message, content, self.fetch)

    def cancel(self) -> StudyState:
        """End the study and return its status; answers given are charged all the same."""
        return wire.decode_cancelled(self._aggregator.unary(Call.CANCEL, self._digest))

    def export(self, path: Path | str) -> StudyExport:
        """Write the study, its transcript and its result to one file, whole or not at all."""
        found = self.fetch()
        found.write(Path(path))
        return found

    def fetch(self) -> StudyExport:
        """The study, its transcript so far, and its result if it has ended."""
        try:
            parts = [
                wire.decode_export_part(part)
                for part in self._aggregator.stream(Call.EXPORT, self._digest, 10 * _CALL_S)
            ]
        except grpc.RpcError as error:
            self._aggregator.refuse(error)
        signed = parts[0].study if parts else None
        if signed is None:
            raise RemoteProtocolError("export: expected a signed study in its first part")
        lines = tuple(line for part in parts for line in part.lines)
        found = StudyExport(signed, lines, result_of(parts[-1].result_json, "export"))
        if found.digest != self._digest:
            raise RemoteProtocolError("export: expected the study that was asked for")
        return found


def _is_away(error: grpc.RpcError) -> bool:
    """Return whether the error says that an aggregator is away and may come back."""
    away = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN)
    return isinstance(error, grpc.Call) and error.code() in away


def _has_timed_out(error: grpc.RpcError) -> bool:
    return isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
