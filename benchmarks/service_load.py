"""A process full of devices that cost next to nothing: load for `service.py`, not a program.

Each connected device holds a stream open and answers whatever is asked with reports that were
prepared when the same requests were first seen. The aggregator, or the raw server that stands in
for it, is served the same bytes by the same code.

A gateway's load is the same, for all its members over one stream.

    python benchmarks/service_load.py streams|connections|gateway|unary ADDRESS FIRST COUNT [WORD]

With "distinct" no two devices' reports are equal, not even where their symbols are: each has a
sequence number of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import grpc
import uvloop
from grpc import aio

from askance_client.codec import decode_request, decode_study, digest_of, encode_report, study_of
from askance_client.messages import Report, SignedStudy
from askance_client.queries import Schema
from askance_client.service import (
    SERVICE,
    CheckIn,
    Identity,
    Metadata,
    Response,
    channel_options,
    decode_response,
    device_metadata,
    encode_check_in,
    gateway_metadata,
)
from askance_client.service.gateway_exchange import (
    MAX_JOINS,
    GatewayBatch,
    Join,
    MemberReports,
    decode_gateway_response,
    encode_batch,
)
from askance_protos.v1 import exchange_pb2 as pb

SHARED_CHANNELS = 8
SHARED_STREAMS = 500  # of a shared channel; the servers of `service_server` take twice as many
DIALLING = 200  # connections that are being made at one time
VARIANTS = 128  # of what devices answer
CERTIFICATE = "ASKANCE_LOAD_CERTIFICATE"
"""Variable with the file of the certificate that connections show; not set: plain text."""
AT_WORK = 64  # unary calls at one time


def token(ordinal: int) -> bytes:
    """Return a device's token: load is no secret."""
    return hashlib.sha256(b"load %d" % ordinal).digest()


def gateway(first: int) -> Identity:
    """Return the identity of the gateway of the devices from this ordinal on."""
    return Identity(b"load gateway %d" % first, token(first))


def metadata(ordinal: int) -> Metadata:
    """Return a device's first message."""
    return device_metadata(Identity(b"load %d" % ordinal, token(ordinal)))


class Answers:
    """The reports to a response, made once for each set of requests.

    Args:
      distinct: whether each device's reports have a sequence number of its own.
    """

    def __init__(self, *, distinct: bool = False) -> None:
        self._variants = 1 << 62 if distinct else VARIANTS
        self._distinct = distinct
        self._schemas: dict[bytes, Schema] = {}
        self._either: dict[bytes, tuple[bytes, bytes]] = {}
        self._reports: dict[tuple[tuple[bytes, ...], int], tuple[bytes, ...]] = {}
        self._messages: dict[tuple[tuple[bytes, ...], int], bytes] = {}

    def reports(self, ordinal: int, response: Response) -> tuple[bytes, ...]:
        """Return a report per request: a bit of the ordinal, at its whole charge."""
        self._meet(response.studies)
        key = (response.requests, ordinal % self._variants)
        if key not in self._reports:
            end = _sequence(ordinal + 1) if self._distinct else b""
            self._reports[key] = tuple(
                self._report(payload, ordinal >> place & 1) + end
                for place, payload in enumerate(response.requests)
            )
        return self._reports[key]

    def message(self, ordinal: int, response: Response) -> bytes:
        """Return the next message; empty if nothing was asked."""
        if not response.requests:
            return b""
        key = (response.requests, ordinal % self._variants)
        if key not in self._messages:
            reports = self.reports(ordinal, response)
            self._messages[key] = encode_check_in(CheckIn(reports=reports))
        return self._messages[key]

    def _meet(self, studies: Sequence[SignedStudy]) -> None:
        for study in studies:
            if digest_of(study.study) not in self._schemas:
                self._schemas[digest_of(study.study)] = decode_study(study.study).schema

    def _report(self, payload: bytes, bit: int) -> bytes:
        if payload not in self._either:
            request = decode_request(payload, self._schemas[study_of(payload)])
            digest, cost = digest_of(payload), request.randomizer.loss.nano_nats
            no, yes = (encode_report(Report(digest, bytes([x]), cost, cost)) for x in (0, 1))
            self._either[payload] = no, yes
        return self._either[payload][bit]


@cache
def _sequence(number: int) -> bytes:
    """Return the field of a report with its sequence number: serialised messages can be joined."""
    return pb.Report(sequence=number).SerializeToString()


def opened(address: str) -> aio.Channel:
    """A connection of its own: plain text, or by the certificate in the file CERTIFICATE names."""
    options, path = channel_options(own_connection=True), os.environ.get(CERTIFICATE)
    if path is None:
        return aio.insecure_channel(address, options=options)
    held = json.loads(Path(path).read_text())
    pair = (held["key"].encode(), held["chain"].encode())
    credentials = grpc.ssl_channel_credentials(held["ca"].encode(), *pair)
    return aio.secure_channel(address, credentials, options=options)


async def participate(
    address: str, ordinals: range, answers: Answers, own_connections: bool, lost: dict[str, int]
) -> None:
    """Run every device's stream until the server ends it; failed calls are counted by status."""
    shared = max(SHARED_CHANNELS, -(-len(ordinals) // SHARED_STREAMS))
    count = len(ordinals) if own_connections else shared
    channels = [opened(address) for _ in range(count)]
    dialling = asyncio.Semaphore(DIALLING)

    async def device(ordinal: int, channel: aio.Channel) -> None:
        call: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/Participate")(
            metadata=metadata(ordinal)
        )
        try:
            async with dialling:
                await call.write(encode_check_in(CheckIn()))
                await call.wait_for_connection()
            while isinstance(data := await call.read(), bytes):
                message = answers.message(ordinal, decode_response(data))
                if message:
                    await call.write(message)
        except (aio.AioRpcError, asyncio.InvalidStateError):
            code = (await call.code()).name
            if code not in ("UNAVAILABLE", "CANCELLED"):  # how both servers say that it is over
                lost[code] = lost.get(code, 0) + 1
        except asyncio.CancelledError:
            lost["CANCELLED"] = lost.get("CANCELLED", 0) + 1
            raise

    await asyncio.gather(*(device(o, channels[place % count]) for place, o in enumerate(ordinals)))
    for channel in channels:
        await channel.close()


async def relay(address: str, ordinals: range, lost: dict[str, int]) -> None:
    """Run one gateway's stream until the server ends it; its members are these devices."""
    answers = Answers()
    channel = opened(address)
    call: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/Relay")(
        metadata=gateway_metadata(gateway(ordinals.start))
    )
    tokens = [token(ordinal) for ordinal in ordinals]
    try:
        await call.initial_metadata()
        for start in range(0, len(ordinals), MAX_JOINS):
            joins = tuple(
                Join(member, b"load %d" % ordinals[member], tokens[member])
                for member in range(start, min(start + MAX_JOINS, len(ordinals)))
            )
            await call.write(encode_batch(GatewayBatch(joins=joins)))
        while isinstance(data := await call.read(), bytes):
            response = decode_gateway_response(data, len(ordinals))
            if response.absences:
                lost["ABSENT"] = lost.get("ABSENT", 0) + len(response.absences)
            asked: dict[int, list[bytes]] = {}
            for payload, members in response.requests:
                for member in members:
                    asked.setdefault(member, []).append(payload)
            if not asked:
                continue
            reports = tuple(
                MemberReports(
                    member,
                    tokens[member],
                    answers.reports(
                        ordinals[member],
                        Response(studies=response.studies, requests=tuple(payloads)),
                    ),
                )
                for member, payloads in asked.items()
            )
            await call.write(encode_batch(GatewayBatch(reports=reports, settled=1)))
    except (aio.AioRpcError, asyncio.InvalidStateError):
        code = (await call.code()).name
        if code not in ("UNAVAILABLE", "CANCELLED"):  # as of `participate`
            lost[code] = lost.get(code, 0) + 1
    await channel.close()


async def check_in(address: str, ordinals: range, deliver: bool) -> dict[str, float]:
    """Run unary calls: every device fetches its requests and, if `deliver`, delivers the answers.

    Only the second half is timed where answers are delivered.
    """
    answers = Answers()
    channels = [opened(address) for _ in range(SHARED_CHANNELS)]
    calls: list[aio.UnaryUnaryMultiCallable[bytes, bytes]] = [
        channel.unary_unary(f"/{SERVICE}/CheckIn") for channel in channels
    ]
    at_work = asyncio.Semaphore(AT_WORK)

    async def exchange(ordinal: int, message: bytes) -> Response:
        async with at_work:
            call = calls[ordinal % SHARED_CHANNELS]
            data = await call(message, metadata=metadata(ordinal))
        return decode_response(data)

    messages = [encode_check_in(CheckIn())] * len(ordinals)
    if deliver:
        asked = await asyncio.gather(*map(exchange, ordinals, messages))
        messages = [
            encode_check_in(CheckIn(reports=answers.reports(ordinal, response)))
            for ordinal, response in zip(ordinals, asked, strict=True)
        ]
    began = time.perf_counter()
    await asyncio.gather(*map(exchange, ordinals, messages))
    seconds = time.perf_counter() - began
    for channel in channels:
        await channel.close()
    return {"calls": len(ordinals), "seconds": seconds}


def main(argv: Sequence[str]) -> int:
    """Run one kind of load and print its outcome as JSON."""
    kind, address, first, count = argv[0], argv[1], int(argv[2]), int(argv[3])
    ordinals = range(first, first + count)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if kind in ("idle", "deliver"):
            print(json.dumps(runner.run(check_in(address, ordinals, kind == "deliver"))))
        else:
            lost: dict[str, int] = {}
            if kind == "gateway":
                runner.run(relay(address, ordinals, lost))
            else:
                answers = Answers(distinct="distinct" in argv[4:])
                runner.run(participate(address, ordinals, answers, kind == "connections", lost))
            print(json.dumps({"lost": lost}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
