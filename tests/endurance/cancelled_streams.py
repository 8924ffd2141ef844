"""Memory that a service keeps per stream that its client cancels: a slope in bytes per stream.

A service on loopback and a client are a process each. The client opens streams of an enrolled
device and cancels them, in rounds of equal size; after each round the service's resident memory is
read, when its collector has run. The slope is fitted by least squares over the second half of the
rounds: the first fill caches and the allocator's arena.

    python tests/endurance/cancelled_streams.py [--streams 20000] [--rounds 10] [--most 400]

It prints one line of JSON, and exits 1 where the slope is above `--most` bytes per stream. gRPC for
Python keeps about 150 by itself; a higher slope is ours.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpc import aio

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.server.process.capacity import share_one_arena
from askance_aggregator.store import SqliteStore
from askance_client.service import (
    SERVICE,
    CheckIn,
    Identity,
    channel_options,
    device_metadata,
    encode_check_in,
    token_digest,
)
from askance_client.service.exchange import STREAMS_PER_CONNECTION

DEVICES = STREAMS_PER_CONNECTION


def identity(number: int) -> Identity:
    """Return a device's identity."""
    return Identity(b"device %d" % number, hashlib.sha256(b"token %d" % number).digest())


def serve() -> None:
    """Serve until standard input ends; print the port, then the memory after each line read."""
    share_one_arena()
    store = SqliteStore.in_memory()
    devices = map(identity, range(DEVICES))
    store.enrol((one.device_id, token_digest(one.token)) for one in devices)
    with AggregatorServer.start(store) as server:
        print(json.dumps({"port": server.port}), flush=True)
        while sys.stdin.readline():
            gc.collect()
            words = Path("/proc/self/statm").read_text().split()
            print(json.dumps({"resident": int(words[1]) * 4096}), flush=True)


async def cancel_streams(port: int, streams: int) -> None:
    """Open streams, some at a time, and cancel each when the service has taken it up."""
    message = encode_check_in(CheckIn())

    async def device(number: int, channel: aio.Channel) -> None:
        dial: Any = channel.stream_stream(f"/{SERVICE}/Participate")
        for _ in range(streams // DEVICES):
            call = dial(metadata=device_metadata(identity(number)))
            await call.initial_metadata()
            await call.write(message)
            call.cancel()

    async with aio.insecure_channel(f"127.0.0.1:{port}", channel_options()) as channel:
        await asyncio.gather(*(device(number, channel) for number in range(DEVICES)))


def slope(values: Sequence[float]) -> float:
    """Return the least-squares slope of values at 0, 1, 2, ..."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    products = sum((place - middle) * (value - mean) for place, value in enumerate(values))
    return products / sum((place - middle) ** 2 for place in range(len(values)))


def measure(streams: int, rounds: int) -> dict[str, Any]:
    """Cancel so many streams in each round and return the slope, in bytes per stream."""
    words = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        port = json.loads(service.stdout.readline())["port"]
        resident = []
        for _ in range(rounds):
            asyncio.run(cancel_streams(port, streams))
            service.stdin.write("\n")
            service.stdin.flush()
            resident.append(json.loads(service.stdout.readline())["resident"])
        service.stdin.close()
    found = slope(resident[rounds // 2 :]) / streams
    return {
        "streams": streams * rounds,
        "resident_mb": [round(value / 1e6, 1) for value in resident],
        "bytes_per_stream": round(found, 1),
    }


def main(arguments: Sequence[str]) -> int:
    """Measure, or serve."""
    parser = argparse.ArgumentParser(description="Memory per cancelled stream.")
    parser.add_argument("--streams", type=int, default=20_000, help="per round")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--most", type=float, default=400.0, help="bytes per stream")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve()
        return 0
    found = measure(options.streams, options.rounds)
    print(json.dumps(found))
    return int(found["bytes_per_stream"] > options.most)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
