"""Local algorithms: questions, the users who get them, randomizers, and conclusions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from askance_aggregator.queries import EncodedColumns
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Query, QueryKind, Schema
from askance_client.randomizers import Randomizer

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class LocalCall:
    """Invocation LR_z(i, R): user i answers through R.

    Args:
        user: i, from 0.
        query: the user's level; a number is asked through its digits (`BooleanOracle`).
        randomizer: from levels to reports; transparent, as every randomizer here is.

    Source: KLNRS08 Definitions 4.3, 4.4 and 4.7.
    """

    user: int
    query: Query
    randomizer: Randomizer

    def __post_init__(self) -> None:
        if self.user < 0:
            raise InvalidParameter(f"a local call expects a user from 0 on, found {self.user}")
        if self.query.kind in (QueryKind.REAL, QueryKind.VECTOR):
            kind = self.query.kind.name
            raise InvalidQuery(f"a local call expects a query with cells, found a {kind} one")
        if self.query.cells != self.randomizer.levels:
            raise InvalidParameter(
                f"a local call expects a randomizer of {self.query.cells} levels,"
                f" found {self.randomizer.levels}"
            )
        loss = self.randomizer.loss
        if loss.numerator == loss.denominator:
            raise InvalidParameter("a local call expects a randomizer that depends on its level")


LocalRun: TypeAlias = Generator[LocalCall, bytes, T]
"""A run: yields calls, is sent reports, returns what is concluded."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalAlgorithm(ABC, Generic[T_co]):
    """Algorithm that asks users through local randomizers.

    Privacy: epsilon-local, epsilon the most that the calls on one user sum to; `run_locally` and
    the simulations refuse a call that passes `nano_nats`.

    Args:
        nano_nats: each user's budget.
    """

    name: str
    schema: Schema
    nano_nats: int

    @property
    @abstractmethod
    def calls_at_most(self) -> int:
        """T: no run makes more calls."""

    @abstractmethod
    def run(self) -> LocalRun[T_co]:
        """A fresh run: the same reports always lead to the same calls and conclusion."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Interactive(LocalAlgorithm[T_co]):
    """A local algorithm whose calls may depend on earlier reports; a user may be asked again."""

    factory: Callable[[], LocalRun[T_co]]
    most: int  # calls: T of Definition 4.4

    @property
    def calls_at_most(self) -> int:
        """T, as it was stated."""
        return self.most

    def run(self) -> LocalRun[T_co]:
        """A fresh generator."""
        return self.factory()


@dataclass(frozen=True, eq=False, kw_only=True)
class NonInteractive(LocalAlgorithm[T_co]):
    """A local algorithm that fixes all calls before any report, each of a user of its own.

    Args:
        calls: all that is asked. (Two calls on one user that are both fixed in advance are one
            call with the product of their randomizers.)
    """

    calls: tuple[LocalCall, ...]
    conclude: Callable[[tuple[bytes, ...]], T_co]

    def __post_init__(self) -> None:
        if not self.calls:
            raise InvalidParameter(f"{self.name} expects at least one call, got none")
        if len({call.user for call in self.calls}) < len(self.calls):
            raise InvalidParameter(f"{self.name} expects each user in one call, found one in two")

    @property
    def calls_at_most(self) -> int:
        """T, as many as there are."""
        return len(self.calls)

    def run(self) -> LocalRun[T_co]:
        """A generator that yields the calls in order, whatever comes back."""
        reports = []
        for call in self.calls:
            report = yield call
            reports.append(report)
        return self.conclude(tuple(reports))


class Spent:
    """Sum of the losses of the calls on each user, and the number of calls."""

    def __init__(self, algorithm: LocalAlgorithm[T]) -> None:
        self._algorithm = algorithm
        self._calls = 0
        self._nano_nats: dict[int, int] = {}

    def charge(self, call: LocalCall) -> None:
        """Count a call; refuse one beyond its user's budget or the number that was stated."""
        name, budget = self._algorithm.name, self._algorithm.nano_nats
        self._calls += 1
        if self._calls > self._algorithm.calls_at_most:
            most = self._algorithm.calls_at_most
            raise InvalidParameter(f"{name} expects at most {most} calls, found more")
        spent = self._nano_nats.get(call.user, 0) + call.randomizer.loss.nano_nats
        if spent > budget:
            raise InvalidParameter(
                f"{name}: call {self._calls - 1} expects a user with {spent} nano-nats,"
                f" found a budget of {budget}"
            )
        self._nano_nats[call.user] = spent


def run_locally(algorithm: LocalAlgorithm[T], people: EncodedColumns, words: Words) -> T:
    """Run a local algorithm on records: the real thing, with the oracle LR_z."""
    spent, run = Spent(algorithm), algorithm.run()
    try:
        call = next(run)
        while True:
            spent.charge(call)
            if call.user >= people.rows:
                raise InvalidParameter(
                    f"{algorithm.name} expects more than {call.user} users, found {people.rows}"
                )
            level = call.query.evaluate(people.record(call.user))
            coins = words.take(call.randomizer.coins).tolist()
            call = run.send(call.randomizer.randomize(level, coins))
    except StopIteration as end:
        concluded: T = end.value
        return concluded
    finally:
        run.close()
