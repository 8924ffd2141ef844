"""Calls of the aggregator with the caller's key, from threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from askance_aggregator.analyst import Aggregator, CallRefused
from askance_aggregator.operators import OperatorClient
from askance_aggregator.server.callers import RULES, Role, Scope
from askance_protos.v1.operator_pb2 import CallerResponse

P = ParamSpec("P")
T = TypeVar("T")
_THREADS = 16  # calls that wait for the aggregator at one time
_ROLE_S = 30.0  # for which the caller's role is taken as known
_ABSENT = ("unimplemented",)  # reason of an aggregator that is older than the call


class AggregatorLink:
    """Connection of the console to its aggregator, for the event loop.

    Args:
      aggregator: the connection, with the caller's key or token; closed by its owner.
      clock_s: the time in seconds, on a clock that is never set.
      executor: of another link, whose threads this one shares.
    """

    def __init__(
        self,
        aggregator: Aggregator,
        clock_s: Callable[[], float],
        executor: ThreadPoolExecutor | None = None,
    ) -> None:
        self.aggregator = aggregator
        self.operator = OperatorClient(aggregator)
        self._executor = executor or ThreadPoolExecutor(_THREADS, "askance-console")
        self._clock_s = clock_s
        self._identity: RecentValue[CallerResponse | None] = RecentValue(_ROLE_S, clock_s)

    def for_token(self, bearer_token: Callable[[], str]) -> AggregatorLink:
        """Return a link for another caller, by the same connection and threads."""
        return AggregatorLink(
            self.aggregator.for_token(bearer_token), self._clock_s, self._executor
        )

    async def call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what waits for the aggregator in a thread, and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: work(*args, **kwargs))

    async def identity(self) -> CallerResponse | None:
        """Return the caller's name and role; None of an aggregator that does not say them."""
        return await self._identity.get(lambda: self.call(self._identify))

    def close(self) -> None:
        """End the threads; calls that wait are left."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _identify(self) -> CallerResponse | None:
        try:
            return self.operator.caller()
        except CallRefused as error:
            if error.reason in _ABSENT:
                return None
            raise


@dataclass(frozen=True, slots=True)
class _Read(Generic[T]):
    """A value and the time at which it was read."""

    value: T
    at_s: float


class RecentValue(Generic[T]):
    """Value that is read again when it is old; readers at the same time share one reading.

    Args:
      life_s: seconds for which a value is recent.
    """

    def __init__(self, life_s: float, clock_s: Callable[[], float]) -> None:
        self._life_s = life_s
        self._clock_s = clock_s
        self._reading = asyncio.Lock()
        self._last: _Read[T] | None = None

    async def get(self, read: Callable[[], Awaitable[T]]) -> T:
        """Return the recent value, or what `read` returns now."""
        async with self._reading:
            if self._last is None or self._clock_s() - self._last.at_s >= self._life_s:
                self._last = _Read(await read(), self._clock_s())
            return self._last.value


def permitted(role: str | None, calls: tuple[str, ...]) -> bool:
    """Return whether a role may make all of some calls, by the aggregator's own table."""
    if role is None:
        return True
    try:
        known = Role(role)
    except ValueError:  # of a newer aggregator
        return True
    return all(RULES[call].scope(known) is not Scope.NONE for call in calls)


def roles_of(calls: tuple[str, ...]) -> list[str]:
    """Return the roles that may make all of some calls."""
    return [role.value for role in Role if permitted(role, calls)]
