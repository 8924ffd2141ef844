"""Operations on a deployment, one at a time; lists of these are generated and shrunk."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from grpc import aio
from hypothesis import strategies as st

from askance_simulation.disturbances import Fault
from tests.faults.deployment import Change, Deployment, Phone
from tests.faults.invariants import check_ended
from tests.faults.network import ON_THE_WAY
from tests.faults.people import WEEK_S, Setup


class Operation(Protocol):
    """Something that happens."""

    async def happen(self, deployment: Deployment) -> None:
        """Now; nothing moves any more when it returns."""
        ...


def _phone(deployment: Deployment, device: int) -> Phone:
    return deployment.phones[device % len(deployment.phones)]


@dataclass(frozen=True)
class CheckIn:
    """A device checks in: one exchange after the other, each with its fault."""

    device: int
    faults: tuple[Fault, ...] = ()

    async def happen(self, deployment: Deployment) -> None:
        phone = _phone(deployment, self.device)
        phone.link.faults.extend(self.faults)
        await phone.check_in()
        await deployment.settle()
        phone.link.faults.clear()
        if phone.life.ended:
            phone.boot()


@dataclass(frozen=True)
class Everybody:
    """Every device checks in, and nothing goes wrong on the way."""

    async def happen(self, deployment: Deployment) -> None:
        for phone in deployment.phones:
            await phone.check_in()
        await deployment.settle()


@dataclass(frozen=True)
class Dial:
    """A device holds a stream open, which is cut after this many messages."""

    device: int
    messages: int

    async def happen(self, deployment: Deployment) -> None:
        await _phone(deployment, self.device).dial(self.messages)
        await deployment.settle()


@dataclass(frozen=True)
class Deliver:
    """The network delivers what it has kept of a device, the latest first."""

    device: int

    async def happen(self, deployment: Deployment) -> None:
        link = _phone(deployment, self.device).link
        held, link.held = link.held, []
        for data in reversed(held):
            with suppress(aio.AioRpcError):
                await link.deliver(data)
        await deployment.settle()


@dataclass(frozen=True)
class CrashDevice:
    """A device dies now (None), or at its next commit.

    At a commit it dies before the commit is durable, or after it and before anything was sent.
    """

    device: int
    kept: bool | None

    async def happen(self, deployment: Deployment) -> None:
        phone = _phone(deployment, self.device)
        if self.kept is None:
            phone.life.end()
            await phone.hang_up()
        else:
            phone.life.end_at(0, kept=self.kept)


@dataclass(frozen=True)
class CrashAggregator:
    """The aggregator dies after this many writes, at the next: before or after it is durable."""

    writes: int
    kept: bool

    async def happen(self, deployment: Deployment) -> None:
        deployment.life.end_at(self.writes, kept=self.kept)


@dataclass(frozen=True)
class FailDisk:
    """The aggregator's disk fails at the next write of a kind: before it is durable, or after."""

    kept: bool
    write: str = "accept"

    async def happen(self, deployment: Deployment) -> None:
        deployment.life.fail_at(self.write, kept=self.kept)


@dataclass(frozen=True)
class Restart:
    """The aggregator is stopped and started (or, dead, is started)."""

    killed: bool

    async def happen(self, deployment: Deployment) -> None:
        if self.killed:
            deployment.life.end()
        await deployment.restart()


@dataclass(frozen=True)
class SecondProcess:
    """Another process opens the store, and is refused."""

    async def happen(self, deployment: Deployment) -> None:
        deployment.disk.check_alone()


@dataclass(frozen=True)
class Submit:
    """The analyst submits a study; the second asks what the first asks."""

    plan: int

    async def happen(self, deployment: Deployment) -> None:
        await deployment.submit(self.plan)


@dataclass(frozen=True)
class Cancel:
    """The analyst cancels a study."""

    plan: int

    async def happen(self, deployment: Deployment) -> None:
        await deployment.cancel(self.plan)


async def changed(deployment: Deployment, ordinal: int, change: Change) -> bool:
    """Change the standing of a device that is not forgotten; return whether it was changed."""
    return ordinal not in deployment.forgotten and await deployment.change(ordinal, change)


@dataclass(frozen=True)
class Revoke:
    """An operator revokes a device."""

    device: int

    async def happen(self, deployment: Deployment) -> None:
        ordinal = self.device % deployment.setup.users
        if await changed(deployment, ordinal, lambda register, which: register.revoke(which)):
            deployment.out.add(ordinal)


@dataclass(frozen=True)
class Readmit:
    """An operator restores a device, which may have been revoked."""

    device: int

    async def happen(self, deployment: Deployment) -> None:
        ordinal = self.device % deployment.setup.users
        if await changed(deployment, ordinal, lambda register, which: register.restore(which)):
            deployment.out.discard(ordinal)


@dataclass(frozen=True)
class Forget:
    """An operator erases a device."""

    device: int

    async def happen(self, deployment: Deployment) -> None:
        ordinal = self.device % deployment.setup.users
        if await changed(deployment, ordinal, lambda register, which: register.forget(which)):
            deployment.out.add(ordinal)
            deployment.forgotten.add(ordinal)


@dataclass(frozen=True)
class Collect:
    """Reports of studies that ended this many days ago are deleted."""

    days: int

    async def happen(self, deployment: Deployment) -> None:
        if deployment.reachable:
            check_ended(deployment)  # while the reports are there
            deployment.collect(self.days)


@dataclass(frozen=True)
class Pass:
    """Time passes."""

    seconds: int

    async def happen(self, deployment: Deployment) -> None:
        deployment.clock.advance(self.seconds)
        await deployment.settle()


FAILING = ("accept", "accept", "append", "close_round", "conclude")
"""Writes at which the disk may fail; reports most often."""


def operations(setup: Setup) -> st.SearchStrategy[Operation]:
    """Generate operations on a deployment of this setup."""
    device = st.integers(0, setup.users - 1)
    faults = st.lists(st.sampled_from(ON_THE_WAY), max_size=3).map(tuple)
    check_ins = st.builds(CheckIn, device, faults)
    plan = st.integers(1, len(setup.plans) - 1)
    return st.one_of(
        check_ins,
        check_ins,
        check_ins,
        st.just(Everybody()),
        st.builds(Dial, device, st.integers(0, 6)),
        st.builds(Deliver, device),
        st.builds(CrashDevice, device, st.sampled_from([None, False, True])),
        st.builds(CrashAggregator, st.integers(0, 4), st.booleans()),
        st.builds(FailDisk, st.booleans(), st.sampled_from(FAILING)),
        st.builds(Restart, st.booleans()),
        st.just(SecondProcess()),
        st.builds(Submit, plan),
        st.builds(Cancel, st.integers(0, len(setup.plans) - 1)),
        st.builds(Revoke, device),
        st.builds(Readmit, device),
        st.builds(Forget, device),
        st.builds(Collect, st.sampled_from([0, 1])),
        st.builds(Pass, st.sampled_from([1, 59, 60, 86_400, WEEK_S])),
    )
