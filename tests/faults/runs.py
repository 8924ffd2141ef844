"""A history of a deployment: what happens, and then what must hold."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar
from unittest.mock import patch

from askance_aggregator.server.studies import runs
from tests.faults.deployment import Deployment
from tests.faults.invariants import check, finish
from tests.faults.operations import Operation
from tests.faults.people import Setup
from tests.faults.steps import Steps

D = TypeVar("D", bound=Deployment)
D_contra = TypeVar("D_contra", bound=Deployment, contravariant=True)

RETRY_S = 0.001
"""Seconds before a study tries a store again that failed."""


class Event(Protocol[D_contra]):
    """Operation on a kind of deployment."""

    async def happen(self, deployment: D_contra) -> None: ...


async def happening(deployment: D, history: Sequence[Event[D]]) -> None:
    """Submit the first study, run this history, and check the invariants after each operation."""
    steps = Steps(deployment)
    with patch.object(runs, "_DISK_S", RETRY_S):
        try:
            await deployment.submit(0)
            for operation in history:
                await operation.happen(deployment)
                steps.check()
            await finish(deployment)
            steps.check()
            check(deployment)
        finally:
            await deployment.stop()


def happens(setup: Setup, history: Sequence[Operation], folder: Path | None = None) -> None:
    """Submit the first study, run this history, and check the invariants after each operation.

    Args:
      setup: the studies and the devices.
      history: operations, in order.
      folder: where the files are; None: in memory.
    """

    async def scenario() -> None:
        await happening(Deployment(setup, folder), history)

    asyncio.run(scenario())
