"""Operations on two replicas of one database; lists of these are generated and shrunk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hypothesis import strategies as st

from tests.faults.network import ON_THE_WAY
from tests.faults.operations import (
    CheckIn,
    Collect,
    CrashDevice,
    Deliver,
    Dial,
    Everybody,
    Pass,
    Readmit,
    Revoke,
)
from tests.faults.people import WEEK_S, Setup
from tests.faults.replicated import NAMES, ReplicatedDeployment, SharedDatabase
from tests.faults.runs import happening


class ReplicaOperation(Protocol):
    """Event of two replicas; nothing moves any more when `happen` returns."""

    async def happen(self, deployment: ReplicatedDeployment) -> None: ...


@dataclass(frozen=True)
class CallOther:
    """A device calls the other replica from now on."""

    device: int

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        ordinal = self.device % deployment.setup.users
        deployment.called[ordinal] = 1 - deployment.called[ordinal]


@dataclass(frozen=True)
class Look:
    """A replica renews its leases and looks at the other one."""

    replica: int

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        await deployment.look_at(self.replica)


@dataclass(frozen=True)
class Pause:
    """A replica stands still past the end of its leases."""

    replica: int

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        await deployment.pause(self.replica)


@dataclass(frozen=True)
class EndReplica:
    """A replica is stopped or killed."""

    replica: int
    killed: bool

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        await deployment.end(self.replica, killed=self.killed)


@dataclass(frozen=True)
class CrashReplica:
    """A replica dies after this many writes, at the next: before or after it is durable."""

    replica: int
    writes: int
    kept: bool

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        deployment.process(self.replica).life.end_at(self.writes, kept=self.kept)


@dataclass(frozen=True)
class FailWrite:
    """The next write of a kind fails at a replica: before it is durable, or after."""

    replica: int
    write: str
    kept: bool

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        deployment.process(self.replica).life.fail_at(self.write, kept=self.kept)


@dataclass(frozen=True)
class BeginReplica:
    """A replica is started, if it does not run."""

    replica: int

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        await deployment.begin(self.replica)


@dataclass(frozen=True)
class SubmitAt:
    """The analyst submits a study at a replica."""

    plan: int
    replica: int

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        await deployment.submit_at(self.plan, self.replica)


@dataclass(frozen=True)
class CancelAt:
    """The analyst cancels a study at a replica."""

    plan: int
    replica: int

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        await deployment.cancel_at(self.plan, self.replica)


@dataclass(frozen=True)
class StopDatabase:
    """The database ends every connection and accepts none."""

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        await deployment.stop_database()


@dataclass(frozen=True)
class StartDatabase:
    """The database accepts connections again."""

    async def happen(self, deployment: ReplicatedDeployment) -> None:
        await deployment.start_database()


def replica_operations(setup: Setup) -> st.SearchStrategy[ReplicaOperation]:
    """Generate operations on two replicas of a deployment of this setup."""
    device = st.integers(0, setup.users - 1)
    replica = st.integers(0, len(NAMES) - 1)
    faults = st.lists(st.sampled_from(ON_THE_WAY), max_size=3).map(tuple)
    check_ins = st.builds(CheckIn, device, faults)
    return st.one_of(
        check_ins,
        check_ins,
        st.just(Everybody()),
        st.builds(Dial, device, st.integers(0, 6)),
        st.builds(Deliver, device),
        st.builds(CrashDevice, device, st.sampled_from([None, False, True])),
        st.builds(CallOther, device),
        st.builds(Look, replica),
        st.builds(Look, replica),
        st.builds(Pause, replica),
        st.builds(Pause, replica),
        st.builds(EndReplica, replica, st.booleans()),
        st.builds(BeginReplica, replica),
        st.builds(CrashReplica, replica, st.integers(0, 4), st.booleans()),
        st.builds(
            FailWrite,
            replica,
            st.sampled_from(["accept", "append", "close_round", "conclude"]),
            st.booleans(),
        ),
        st.builds(SubmitAt, st.integers(1, len(setup.plans) - 1), replica),
        st.builds(CancelAt, st.integers(0, len(setup.plans) - 1), replica),
        st.just(StopDatabase()),
        st.just(StartDatabase()),
        st.builds(Revoke, device),
        st.builds(Readmit, device),
        st.builds(Collect, st.sampled_from([0, 1])),
        st.builds(Pass, st.sampled_from([1, 59, 60, 86_400, WEEK_S])),
    )


def happens_on(shared: SharedDatabase, setup: Setup, history: Sequence[ReplicaOperation]) -> None:
    """Run a history of two replicas, and check the invariants after each operation."""

    async def scenario() -> None:
        await happening(ReplicatedDeployment(setup, shared), history)

    asyncio.run(scenario())
