"""An analyst's connection to an aggregator: submit a study, watch it, have its result.

with connect("127.0.0.1:7443", key="analyst.pem", ca=Path("ca.pem")) as aggregator:
    handle = aggregator.submit(study)
    for event in handle.watch():
        print(event)
    print(handle.result().hypothesis)
    handle.result().verify()
"""

from __future__ import annotations

import secrets
import string
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

import grpc
from google.protobuf.message import Message

from askance_aggregator.analyst import connections, messages
from askance_aggregator.analyst.approvals import sign_approval
from askance_aggregator.analyst.calls import NONCE_BYTES, Call, CallRefused
from askance_aggregator.analyst.export import SeriesExport, StudyExport, result_of
from askance_aggregator.analyst.keys import AnalystKey, CallProof, call_proof, load_key
from askance_aggregator.analyst.results import (
    StudyResult,
    collects_once,
    epoch_index,
    epoch_indices,
    no_epochs,
)
from askance_aggregator.analyst.signed_counts import keys_text
from askance_aggregator.analyst.submission import (
    Every,
    StudyDefinition,
    sign_submission,
    tagged_population,
)
from askance_aggregator.clock import system_now_s
from askance_aggregator.encoding import encode_study
from askance_aggregator.reports.html import html_of, line_of
from askance_aggregator.reports.report import CommandReport, Grid
from askance_aggregator.store import (
    ListedState,
    ListOrder,
    StudyQuery,
    StudyState,
    TaggedPopulation,
)
from askance_aggregator.studies.keep import UNLIMITED, Keep
from askance_aggregator.studies.series import StudySeries
from askance_aggregator.studies.study import Study
from askance_aggregator.study_options import DEFAULT_DAYS
from askance_client.addresses import Address
from askance_client.codec import digest_of, parse, verify_study
from askance_client.errors import InvalidParameter, RemoteProtocolError
from askance_client.messages import SignedStudy
from askance_client.printable import value_text
from askance_client.service import Metadata
from askance_protos.v1 import analyst_pb2 as pb

MIN_PREFIX = 8
_DIGEST_HEX = 64
_CALL_S = 60.0
_AGAIN_S = 0.5  # between two tries to watch on, while the aggregator is away
_PATIENCE_S = 120.0  # how long an aggregator may be away in the middle of a study
_WATCH = pb.StudyRequest(with_population=True, with_facts=True, with_approval=True)
M = TypeVar("M", bound=Message)


def connect(
    address: str,
    *,
    key: AnalystKey | None = None,
    bearer_token_file: Path | str | None = None,
    bearer_token: Callable[[], str] | None = None,
    ca: Path | str | None = None,
    plaintext: bool = False,
    counts_keys: Collection[bytes] = (),
    now_s: Callable[[], int] = system_now_s,
    sleep_s: Callable[[float], None] = time.sleep,
) -> Aggregator:
    """Connect to an aggregator as one analyst.

    Args:
      address: HOST:PORT.
      key: the analyst's Ed25519 key: itself, its file, or the file's bytes (PKCS8 PEM). None: no
        study can be submitted.
      bearer_token_file: file of a token that proves the caller, read anew for each call. None: the
        key signs each call.
      bearer_token: returns such a token for each call, in place of the file.
      ca: the authority that the aggregator's certificate is from; None: one that the system trusts,
        or, on this machine, plain text.
      plaintext: without TLS, even if others can listen.
      counts_keys: public keys that the aggregator may sign the counts of exports by, as its
        operator states them; an export with another one, or none, is refused. Empty: any or none.
      now_s: clock, whole seconds since 1970, UTC.
      sleep_s: waits for a number of seconds.

    Raises:
      InvalidParameter: no such file, no key in it, or no such address. Nothing is called yet.
    """
    has_token = bearer_token_file is not None or bearer_token is not None
    if has_token and plaintext and not Address.of(address).is_loopback:
        raise InvalidParameter("connect: expected TLS for a bearer token, got plaintext = true")
    if bearer_token is None:
        proof = call_proof(key, bearer_token_file, secrets.token_bytes)
    else:
        own = None if key is None else load_key(key)
        proof = CallProof(own, bearer_token, secrets.token_bytes)
    authority = None if ca is None else Path(ca)
    pool = connections.ConnectionPool(address, authority, plaintext=plaintext)
    keys = frozenset(counts_keys)
    return Aggregator(pool, proof, address, authority, now_s, sleep_s, keys)


class Aggregator:
    """An aggregator as an analyst sees it; made by `connect`. To be closed, or used in a `with`."""

    def __init__(
        self,
        pool: connections.ConnectionPool,
        proof: CallProof,
        address: str,
        ca: Path | None,
        now_s: Callable[[], int],
        sleep_s: Callable[[float], None],
        counts_keys: frozenset[bytes],
    ) -> None:
        self._connections = pool
        self._proof = proof
        self.address = address
        self._ca = ca
        self._now_s = now_s
        self.sleep_s = sleep_s
        self.counts_keys = counts_keys

    def for_token(self, bearer_token: Callable[[], str]) -> Aggregator:
        """Return the same connection for another caller, without a key; this one closes it."""
        proof = CallProof(None, bearer_token, secrets.token_bytes)
        return Aggregator(
            *(self._connections, proof, self.address, self._ca),
            *(self._now_s, self.sleep_s, self.counts_keys),
        )

    @property
    def subject(self) -> bytes:
        """Subject of a call that is about no study, 32 bytes."""
        return self._proof.subject

    def submit(
        self,
        study: Study,
        *,
        days: int = DEFAULT_DAYS,
        every: Every | None = None,
        keep: Keep = UNLIMITED,
        start_s: int = 0,
        tags: Iterable[str] = (),
    ) -> StudyHandle:
        """Sign a study and submit it; each call submits another study.

        Args:
          study: learner, schema and budget; this call signs it.
          days: number of days after which devices refuse the study.
          every: how often it collects again; None: it collects once.
          keep: how long the aggregator keeps its reports and results, within the operator's bounds.
          start_s: time before which no user is asked, in seconds since 1970, UTC.
          tags: only devices that have all of these are asked; none: all devices.

        Raises:
          InvalidParameter: its learner is not one that an aggregator has, or a malformed tag.
          PlanRefused: it cannot work with the devices there are, or the budget that users have
            left; no user was asked. CallRefused: it was refused for another reason.
        """
        return self.submit_definition(
            StudyDefinition(study, days, every, keep, start_s, tuple(tags))
        )

    def submit_definition(self, definition: StudyDefinition) -> StudyHandle:
        """Sign a study and submit it (see `submit`)."""
        key = self._proof.key
        if key is None:
            raise InvalidParameter("submit: expected a key, which signs the study, got none")
        population = tagged_population(definition.tags)
        signed = sign_submission(definition, key, now_s=self._now_s, population=population)
        return self.submit_signed(signed, population)

    def submit_signed(
        self, signed: SignedStudy, population: TaggedPopulation | None = None
    ) -> StudyHandle:
        """Hand in a study that is signed; the same again is no harm."""
        digest = digest_of(signed.study)
        request = messages.submission(signed, population)
        answer = self.unary(Call("Analysts/Submit"), digest, request, pb.SubmitStudyResponse)
        return StudyHandle(self, messages.check_digest(answer.study_digest))

    @property
    def has_key(self) -> bool:
        """True if studies and approvals can be signed."""
        return self._proof.key is not None

    def sign_approval(self, digest: bytes) -> bytes:
        """Return the signature of this connection's key that approves a study."""
        if self._proof.key is None:
            raise InvalidParameter("approve: expected a key, which signs the study, got none")
        return sign_approval(digest, self._proof.key)

    def plan(self, definition: StudyDefinition, public_key: bytes = b"") -> dict[str, Any]:
        """Plan a study for the users there are, as `submit` would; nothing is signed or stored.

        Args:
          definition: of the study.
          public_key: the key that would sign it, where this connection has none.

        Returns:
          The keys of `askance plan --json`; of a study of tagged devices `population` too.

        Raises: see `submit`.
        """
        key = self._proof.key
        if key is None and not public_key:
            raise InvalidParameter("plan: expected a key, which would sign the study, got none")
        population = tagged_population(definition.tags)
        nonce = secrets.token_bytes(NONCE_BYTES)
        data = encode_study(definition.terms(nonce, self._now_s(), population))
        public = public_key if key is None else key.public_key().public_bytes_raw()
        unsigned = SignedStudy(data, public, b"")
        request = messages.submission(unsigned, population)
        answer = self.unary(Call("Analysts/Plan"), digest_of(data), request, pb.PlanStudyResponse)
        return result_of(answer.plan_json, "aggregator") or {}

    def studies(
        self,
        state: ListedState | None = None,
        limit: int | None = None,
        *,
        words: str = "",
        order: ListOrder = ListOrder.SUBMITTED,
        since_unix_s: int = 0,
        until_unix_s: int = 0,
    ) -> list[messages.StudySummary]:
        """Return this analyst's studies, the oldest first.

        Args:
          state: of the studies; None: any.
          limit: how many at most, the newest ones, or the last ones of another order; None: all.
          words: each begins a word of the study's purpose, learner or columns; empty: any study.
          order: by which they rise; by `ended`, those that have ended alone.
          since_unix_s: only those that are open, or ended at this time or later; 0: any.
          until_unix_s: only those that were submitted before this time; 0: any.
        """
        query = StudyQuery(
            state,
            words=words,
            order=order,
            reversed=order is ListOrder.TITLE,  # the others fall
            since_unix_s=since_unix_s,
            until_unix_s=until_unix_s,
        )
        return messages.every_study(self.studies_page, query, limit)

    def studies_page(self, query: StudyQuery) -> pb.ListStudiesResponse:
        """Return a part of the list of this analyst's studies, in the query's order."""
        request = pb.ListStudiesRequest(
            with_reasons=True, query=messages.query_message(query), with_facts=True
        )
        call = Call("Analysts/List")
        return messages.check_studies(
            self.unary(call, self.subject, request, pb.ListStudiesResponse)
        )

    def schemas(self) -> list[pb.OfferedSchema]:
        """Return the schemas that a study may name, each with its TOML file.

        They are those that the operator has registered, then those of this analyst's newest
        studies.
        """
        answer = self.unary(
            Call("Analysts/Schemas"), self.subject, pb.SchemasRequest(), pb.SchemasResponse
        )
        return list(answer.schemas)

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
        found = self.studies_page(StudyQuery(study=name, limit=1))
        if found.extent.fitting != 1:
            raise InvalidParameter(
                f"study: expected one that begins with {name}, got {found.extent.fitting or 'none'}"
            )
        digests = [one.study_digest for one in found.studies]
        if len(digests) != 1 or not digests[0].hex().startswith(name):
            listed = ", ".join(digest.hex() for digest in digests[:2]) or "none"
            raise RemoteProtocolError(f"study: expected one that begins with {name}, got {listed}")
        return StudyHandle(self, digests[0])

    def close(self) -> None:
        """Hang up."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def unary(
        self, call: Call, subject: bytes, request: Message, answer: type[M], epoch: int = 0
    ) -> M:
        """Make a call that has one answer.

        `subject` is the digest of the study that it is about, and for List the caller's public key;
        `epoch` is the index of an epoch of it; 0: the study itself.
        """
        calling: grpc.UnaryUnaryMultiCallable[bytes, bytes]
        data = request.SerializeToString(deterministic=True)
        metadata = self._signed(call, subject, epoch, data)
        try:
            with self._connections.channel() as channel:
                calling = channel.unary_unary(f"/{messages.PACKAGE}.{call.method}")
                found = calling(data, timeout=_CALL_S, metadata=metadata)
        except grpc.RpcError as error:
            self.refuse(error)
        return parse(answer, found, limit=messages.MAX_ANSWER_BYTES)

    def stream(
        self,
        call: Call,
        digest: bytes,
        request: Message,
        answer: type[M],
        timeout_s: float | None,
        epoch: int = 0,
    ) -> Iterator[M]:
        """Make a call that is answered in parts; what gRPC raises is not translated."""
        calling: grpc.UnaryStreamMultiCallable[bytes, bytes]
        data = request.SerializeToString(deterministic=True)
        metadata = self._signed(call, digest, epoch, data)
        with self._connections.channel() as channel:
            calling = channel.unary_stream(f"/{messages.PACKAGE}.{call.method}")
            parts = calling(data, timeout=timeout_s, metadata=metadata)
            try:
                for part in parts:
                    yield parse(answer, part, limit=messages.MAX_ANSWER_BYTES)
            finally:
                parts.cancel()

    def _signed(self, call: Call, subject: bytes, epoch: int, body: bytes) -> Metadata:
        """Return the metadata of a call, proven now."""
        return self._proof.metadata(call, subject, self._now_s(), epoch, body)

    def refuse(self, error: grpc.RpcError) -> NoReturn:
        """Raise what a call's failure means."""
        connections.refuse(error, self.address, self._ca)


class StudyHandle:
    """A study that an aggregator has; made by `Aggregator.submit` and `Aggregator.study`.

    Every call raises CallRefused if the aggregator cannot be reached or has no such study of this
    analyst's.
    """

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

    def watch(self, timeout_s: float | None = None) -> Iterator[messages.StudyEvent]:
        """Yield the study's status, now and at every change until it has ended.

        An aggregator that goes away meanwhile is called again for two minutes.

        Args:
          timeout_s: for how long; None: as long as the study takes.

        Raises:
          CallRefused: also if the time is up.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        last: messages.StudyEvent | None = None
        heard = time.monotonic()
        while last is None or messages.state_of(last) is StudyState.OPEN:
            left = None if until is None else max(until - time.monotonic(), 0.001)
            try:
                for event in self._aggregator.stream(
                    Call("Analysts/Watch"), self._digest, _WATCH, messages.StudyEvent, left
                ):
                    heard = time.monotonic()
                    if messages.check_event(event) != last:
                        last = event
                        yield event
            except grpc.RpcError as error:
                if connections.has_timed_out(error):
                    raise CallRefused(
                        "timeout", f"study: expected its end within {timeout_s} s, got it open yet"
                    ) from None
                away = connections.is_away(error) and time.monotonic() <= heard + _PATIENCE_S
                reached = last is not None or connections.is_cut_off(error)
                if not (reached and away):
                    self._aggregator.refuse(error)
                self._aggregator.sleep_s(_AGAIN_S)

    def status(self) -> messages.StudyEvent:
        """Return the study's present status."""
        watching = self.watch(_CALL_S)
        try:
            return next(iter(watching))
        finally:
            watching.close()  # type: ignore[attr-defined]  # a generator

    def result(self, timeout_s: float | None = None, *, epoch: int | None = None) -> StudyResult:
        """Wait until the study, or one of its epochs, has ended and return its result.

        Args:
          timeout_s: for how long; None: as long as it takes.
          epoch: number of an epoch of a repeated study, from 1. None: of a repeated study the
            latest epoch that has a result, when all have ended.

        Raises:
          CallRefused: also if it has not ended after `timeout_s`.
          InvalidParameter: the study has no such epoch.
        """
        if epoch is None:
            for _ in self.watch(timeout_s):
                pass
            summary = self._summary()
            latest = None if collects_once(summary) else self.series().latest
            return self._result(0 if latest is None else latest.epoch)
        index = epoch_index(self._summary(), epoch)
        for event in self.watch(timeout_s):
            if event.HasField("epochs") and event.epochs.ended >= epoch:
                break  # epochs end in order
        return self._result(index)

    def series(self) -> StudySeries:
        """Return the results of all epochs that have ended by now.

        Raises:
          InvalidParameter: the study collects once.
        """
        summary = self._summary()
        if summary is None or collects_once(summary):
            raise no_epochs("epochs")
        return StudySeries.of(
            summary, [self._result(index).content for index in epoch_indices(summary)]
        )

    def _summary(self) -> dict[str, Any] | None:
        """Return the result of the study itself, as it is now; None: there is none yet."""
        return result_of(self._ask("Result", pb.StudyResult).result_json, "aggregator")

    def _result(self, epoch: int) -> StudyResult:
        """Return the result of an ended study, 0, or of an ended epoch by its index."""
        found = self._ask("Result", pb.StudyResult, epoch)
        content = result_of(found.result_json, "aggregator")
        if content is None:
            raise CallRefused("open", "study: expected one that has ended, got it open yet")
        return StudyResult(
            self.id,
            messages.state_of(found),
            found.reason,
            found.message,
            content,
            lambda: self.fetch(epoch),
            self.series if epoch else None,
        )

    def cancel(self) -> StudyState:
        """End the study and return its status; answers given are charged all the same."""
        return messages.state_of(self._ask("Cancel", pb.CancelStudyResponse))

    def pause(self) -> StudyState:
        """Ask nothing new and return the study's state; reports on their way are taken."""
        return messages.state_of(self._ask("Pause", pb.PauseStudyResponse))

    def resume(self) -> StudyState:
        """Let a paused study go on and return its state."""
        return messages.state_of(self._ask("Resume", pb.ResumeStudyResponse))

    def approve(self) -> SignedStudy:
        """Sign the study as an approver and let it begin; return it as it was signed by both.

        Raises:
          InvalidParameter: the connection has no key, or the study is not signed by its analyst;
            nothing was approved.
          CallRefused: also if the key is the analyst's, or the study has ended.
        """
        signed = self.fetch().signed
        if not verify_study(signed):
            raise InvalidParameter("study: expected its analyst's signature over it, got none")
        signature = self._aggregator.sign_approval(self._digest)
        call, request = Call("Analysts/Approve"), pb.ApproveStudyRequest(signature=signature)
        answer = self._aggregator.unary(call, self._digest, request, pb.ApproveStudyResponse)
        if (state := messages.state_of(answer)) is not StudyState.OPEN:
            raise CallRefused(
                "ended", f"study: expected one that is open, got one that is {state.name.lower()}"
            )
        return signed

    def refuse(self, reason: str) -> StudyState:
        """End the study as an approver, approved or not, and return its state.

        Args:
          reason: one line of 1 to 200 characters, for its analyst.
        """
        call, request = Call("Analysts/Refuse"), pb.RefuseStudyRequest(reason=reason)
        return messages.state_of(
            self._aggregator.unary(call, self._digest, request, pb.RefuseStudyResponse)
        )

    def delete_reports(self) -> None:
        """Delete the reports of the study, which has ended; its export is verified yet.

        If it is open, CallRefused is raised and nothing was changed.
        """
        self._ask("DeleteReports", pb.DeleteStudyResponse)

    def delete_results(self) -> None:
        """Delete the reports, transcripts and results of the study, which has ended.

        If it is open, CallRefused is raised and nothing was changed.
        """
        self._ask("DeleteResults", pb.DeleteStudyResponse)

    def export(self, path: Path | str, *, epoch: int | None = None) -> StudyExport | SeriesExport:
        """Write the study, its transcript and its result to one file, whole or not at all.

        Args:
          path: file to write.
          epoch: number of an epoch, from 1, to write alone; None: of a repeated study all that
            have ended.
        """
        summary = self._summary()
        found: StudyExport | SeriesExport
        if summary is None or collects_once(summary):
            found = self.fetch()
        elif epoch is None:
            epochs = tuple(self.fetch(index) for index in epoch_indices(summary))
            signed = epochs[0].signed if epochs else self.fetch().signed
            found = SeriesExport(signed, epochs, summary)
        else:
            found = self.fetch(epoch_index(summary, epoch))
        found.write(Path(path))
        return found

    def fetch(self, epoch: int = 0) -> StudyExport:
        """The study, a transcript so far, and its result if it has ended.

        They are of an epoch of a repeated study by its index; 0: the study's own.
        """

        def ask() -> Iterator[pb.ExportPart]:
            call, empty = Call("Analysts/Export"), pb.StudyRequest()
            return ours.stream(call, self._digest, empty, pb.ExportPart, 10 * _CALL_S, epoch)

        ours = self._aggregator
        try:
            parts = [
                messages.check_export_part(one)
                for one in connections.whole_answer(ask, ours.sleep_s)
            ]
        except grpc.RpcError as error:
            ours.refuse(error)
        if not parts or not parts[0].HasField("study"):
            raise RemoteProtocolError("export: expected a signed study in its first part")
        found = StudyExport(
            messages.signed_study(parts[0].study),
            tuple(line for part in parts for line in part.lines),
            result_of(parts[-1].result_json, "export"),
            epoch,
            parts[-1].reports_deleted_unix_s,
            messages.population_of(parts[0]),
            messages.counts_of(parts[-1]),
        )
        if found.digest != self._digest:
            raise RemoteProtocolError("export: expected the study that was asked for")
        keys, counts = ours.counts_keys, found.counts
        if keys and (counts is None or counts.public_key not in keys):
            other = "no signature" if counts is None else counts.public_key.hex()
            known = keys_text(keys)
            raise RemoteProtocolError(f"export: expected counts signed by {known}, got {other}")
        if keys and not (counts and counts.holds(found.digest, epoch, found.lines)):
            raise RemoteProtocolError("export: expected a signature that holds, got a wrong one")
        return found

    def _ask(self, name: str, answer: type[M], epoch: int = 0) -> M:
        """Make a call about the study, or about one of its epochs, that has one answer."""
        call = Call(f"Analysts/{name}")
        return self._aggregator.unary(call, self._digest, pb.StudyRequest(), answer, epoch)
