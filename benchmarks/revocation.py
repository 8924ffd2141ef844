"""Latency of a revocation on two replicas: from the commit of the command to the end of a stream.

Two aggregators serve from one local PostgreSQL database; devices hold a stream open to each. They
are revoked in turn, at random times, through a store of its own, as by `askance aggregator device
revoke`. Measured is the time from the return of the command until the device's call ends with
PERMISSION_DENIED.

    python benchmarks/revocation.py [--devices 200] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from grpc import aio
from service_load import metadata, token

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.store import Store, store_location
from askance_aggregator.store.register import DeviceSelection
from askance_client.service import SERVICE, CheckIn, channel_options, encode_check_in, token_digest
from askance_client.service.observable import connections_for

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from tests.postgresql import PostgresqlServer  # noqa: E402 - a script is not run from the root

REPLICAS = 2
_PAUSE_S = 1.0  # at most, between two revocations: longer than the replicas' looks at the register


async def revoke_all(store: Store, addresses: Sequence[str], devices: int) -> list[float]:
    """Connect the devices to the replicas in turn and revoke each.

    Returns:
      The milliseconds that each stream went on.
    """
    channels = [
        aio.insecure_channel(address, options=channel_options(own_connection=True))
        for _ in range(connections_for(-(-devices // len(addresses))))
        for address in addresses
    ]
    pause = random.Random(0)
    calls = []
    for ordinal in range(devices):
        channel = channels[ordinal % len(channels)]
        call: Any = channel.stream_stream(f"/{SERVICE}/Participate")(metadata=metadata(ordinal))
        await call.write(encode_check_in(CheckIn()))
        await call.initial_metadata()
        calls.append(call)
    found = []
    for ordinal, call in enumerate(calls):
        await asyncio.sleep(pause.uniform(0, _PAUSE_S))
        which = DeviceSelection(ids=(b"load %d" % ordinal,))
        await asyncio.to_thread(store.register.revoke, which)
        began = time.perf_counter()
        code = await call.code()
        found.append(1000 * (time.perf_counter() - began))
        if code is not grpc.StatusCode.PERMISSION_DENIED:
            raise RuntimeError(f"expected PERMISSION_DENIED, got {code.name}")
    for channel in channels:
        await channel.close()
    return found


def measure(devices: int) -> dict[str, Any]:
    """Measure so many revocations."""
    with PostgresqlServer.running() as database, ExitStack() as stack:
        location = store_location(database.new_database())
        location.migrate()
        store = stack.enter_context(closing(location.open()))
        store.enrol([(b"load %d" % n, token_digest(token(n))) for n in range(devices)])
        addresses = []
        for _ in range(REPLICAS):
            own = stack.enter_context(closing(location.open()))
            addresses.append(stack.enter_context(AggregatorServer.start(own)).address)
        found = asyncio.run(revoke_all(store, addresses, devices))
    middle, high = np.percentile(found, [50, 99])
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "revocations": devices,
        "ms": {"median": float(middle), "p99": float(high), "max": max(found)},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=int, default=200, metavar="N")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    told = measure(arguments.devices)
    if arguments.json:
        print(json.dumps(told))
        return 0
    ms = told["ms"]
    print(
        f"{told['revocations']} revocations on {REPLICAS} replicas: median {ms['median']:.0f} ms,"
        f" p99 {ms['p99']:.0f} ms, at most {ms['max']:.0f} ms; load {told['load']:.1f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
