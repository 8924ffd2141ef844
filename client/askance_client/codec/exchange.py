"""Requests and reports on the wire."""

from __future__ import annotations

from askance_client.codec.parsing import parse
from askance_client.codec.queries import decode_query
from askance_client.codec.randomizers import decode_randomizer
from askance_client.errors import RemoteProtocolError
from askance_client.messages import Reason, Refusal, Report, Request
from askance_client.queries import Schema
from askance_protos.v1 import exchange_pb2 as pb

DIGEST_BYTES = 32
MAX_REPORT_BYTES = 16 * 1024  # the longest set takes 8 kB


def study_of(payload: bytes) -> bytes:
    """The digest of the study that a request's payload names.

    Raises:
      RemoteProtocolError: not a request, or one without a study.
    """
    message = parse(pb.Request, payload)
    if len(message.study_digest) != DIGEST_BYTES:
        raise RemoteProtocolError(
            f"request: expected a study digest of {DIGEST_BYTES} bytes,"
            f" found {len(message.study_digest)}"
        )
    return message.study_digest


def decode_request(payload: bytes, schema: Schema) -> Request:
    """The request in `payload`, its query typed anew by the study's `schema`.

    Raises:
      RemoteProtocolError: not a request. InvalidQuery: its query is none over this schema.
      InvalidParameter: its randomizer is none, or reveals without bound.
    """
    message = parse(pb.Request, payload)
    return Request(
        study_digest=message.study_digest,
        round=message.round,
        group=message.group,
        query=decode_query(message.query, schema),
        randomizer=decode_randomizer(message.randomizer),
        epoch=message.epoch,
    )


def encode_report(report: Report) -> bytes:
    """The bytes that a device stores and sends, now and at every retry.

    A refusal's message stays behind: its reason is all that leaves.
    """
    message = pb.Report()
    message.request_digest = report.request_digest
    message.charged_nano_nats = report.charged_nano_nats
    message.spent_nano_nats = report.spent_nano_nats
    message.sequence = report.sequence
    if isinstance(report.outcome, Refusal):
        message.refusal.reason = pb.Reason.ValueType(report.outcome.reason)
    else:
        message.symbol = report.outcome
    return message.SerializeToString(deterministic=True)


def decode_report(data: bytes) -> Report:
    """The report in `data`; whether its symbol is in the alphabet is the asker's to check.

    Raises:
      RemoteProtocolError: not a report, an unknown reason, a digest of the wrong length.
    """
    message = parse(pb.Report, data, limit=MAX_REPORT_BYTES)
    if len(message.request_digest) != DIGEST_BYTES:
        raise RemoteProtocolError(
            f"report: expected a request digest of {DIGEST_BYTES} bytes,"
            f" found {len(message.request_digest)}"
        )
    outcome: bytes | Refusal
    match message.WhichOneof("outcome"):
        case "symbol":
            outcome = message.symbol
        case "refusal":
            outcome = _decode_refusal(message.refusal)
        case _:
            raise RemoteProtocolError("report: expected a symbol or a refusal, found neither")
    return Report(
        message.request_digest,
        outcome,
        message.charged_nano_nats,
        message.spent_nano_nats,
        message.sequence,
    )


def _decode_refusal(message: pb.Refusal) -> Refusal:
    try:
        return Refusal(Reason(message.reason))
    except ValueError:
        raise RemoteProtocolError(
            f"report: expected a known reason, found number {message.reason}"
        ) from None
