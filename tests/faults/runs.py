"""A history of a deployment: what happens, and then what must hold."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.faults.deployment import Deployment
from tests.faults.invariants import check, finish
from tests.faults.operations import Operation
from tests.faults.people import Setup


async def _happens(deployment: Deployment, history: Sequence[Operation]) -> None:
    try:
        await deployment.submit(0)
        for operation in history:
            await operation.happen(deployment)
        await finish(deployment)
        check(deployment)
    finally:
        await deployment.stop()


def happens(setup: Setup, history: Sequence[Operation], folder: Path | None = None) -> None:
    """Submit the first study, run this history, and check every invariant at the end.

    Args:
      setup: the studies and the devices.
      history: operations, in order.
      folder: where the files are; None: in memory.
    """

    async def scenario() -> None:
        await _happens(Deployment(setup, folder), history)

    asyncio.run(scenario())
