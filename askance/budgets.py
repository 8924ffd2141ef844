"""Budget of a user over several questions: asks within it, and refuses the one too many."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from types import TracebackType
from typing import Any, Self

from askance_aggregator.learners import Learner
from askance_aggregator.numbers import plain_arguments, read_nano_nats
from askance_aggregator.studies.study import Epsilon, Study
from askance_client.accounting import format_nats
from askance_client.errors import InvalidParameter, PlanRefused
from askance_client.printable import value_text
from askance_simulation.experiments import Simulation, simulate
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed


@dataclass
class Budget:
    """Epsilon per user that several studies of the same users spend.

    Privacy: the sum of what was asked bounds each user's loss (basic composition). It is charged
        before a study runs, and nothing is refunded, as devices do it.

    Args:
        people: the users.
        nano_nats: each user's whole budget.
        parts: nano-nats of the next studies that name no epsilon, in order.
        fleet: see `simulate`.
        seed: of all studies together; each has coins of its own.

    Example:
        >>> people = ask.Population.generated("categories", users=3_000, cells=4)
        >>> budget = ask.budget(people, epsilon=1)
        >>> result = budget.ask(ask.learners.frequency("category"), epsilon="0.75")
        >>> budget.spent, budget.left
        (0.75, 0.25)
    """

    people: Population
    nano_nats: int
    parts: list[int] = field(default_factory=list)
    fleet: str = "columns"
    seed: int = 0
    results: dict[str, Simulation] = field(default_factory=dict)
    charged: dict[str, int] = field(default_factory=dict)
    closed: bool = False

    @plain_arguments
    def ask(
        self, learner: Learner[Any], epsilon: Epsilon | None = None, *, name: str | None = None
    ) -> Simulation:
        """Run a study of all users on a part of their budget.

        Args:
            learner: what asks.
            epsilon: of this study, in nats; None: the next part.
            name: of the result; None: the learner's name, with a number from the second on.

        Raises:
            InvalidParameter: the budget does not have so much left, no part is left, a name is
                used already, or the budget is closed. No user was asked and nothing is charged.
            PlanRefused: the study needs more users; nothing is charged.
        """
        if self.closed:
            raise InvalidParameter("budget: expected an open one, got one that is closed")
        chosen = self._new_name(learner) if name is None else name
        if chosen in self.charged:
            raise InvalidParameter(f"name: expected a new one, got {value_text(chosen)}")
        wanted = self._wanted(epsilon)
        study = Study(learner, self.people.schema, epsilon=Fraction(wanted, 10**9))
        plan = study.plan(self.people.size)
        if not plan.feasible:
            raise PlanRefused(str(plan.reason))
        if epsilon is None:
            self.parts.pop(0)
        self.charged[chosen] = wanted
        seed = int.from_bytes((Seed.of(self.seed) / "budget" / chosen).key[:4], "big")
        result = simulate(study, self.people, fleet=self.fleet, seed=seed)
        self.results[chosen] = result
        return result

    @property
    def spent(self) -> float:
        """Nats that were charged per user."""
        return sum(self.charged.values()) / 10**9

    @property
    def left(self) -> float:
        """Nats per user that are not charged."""
        return self._left / 10**9

    def __getitem__(self, name: str) -> Simulation:
        """Return the result of a study by its name."""
        return self.results[name]

    def __enter__(self) -> Self:
        """Open the budget."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the budget: nothing more is asked."""
        self.closed = True

    def __repr__(self) -> str:
        whole = format_nats(self.nano_nats)
        return f"<Budget: {self.spent:g} of {whole} spent on {len(self.charged)} studies>"

    @property
    def _left(self) -> int:
        return self.nano_nats - sum(self.charged.values())

    def _wanted(self, epsilon: Epsilon | None) -> int:
        if epsilon is None and not self.parts:
            raise InvalidParameter("epsilon: expected one, as no part of the budget is left for it")
        wanted = self.parts[0] if epsilon is None else read_nano_nats(epsilon)
        reserved = 0 if epsilon is None else sum(self.parts)
        if wanted > self._left - reserved:
            raise InvalidParameter(
                f"epsilon: expected at most {format_nats(max(self._left - reserved, 0))}, which is"
                f" what is left of {format_nats(self.nano_nats)}, got {format_nats(wanted)}"
            )
        return wanted

    def _new_name(self, learner: Learner[Any]) -> str:
        """Return a name that no study was charged under, also none that failed."""
        name, number = learner.name, 1
        while name in self.charged:
            number += 1
            name = f"{learner.name}-{number}"
        return name


@plain_arguments
def budget(
    people: Population,
    *,
    epsilon: Epsilon,
    split_evenly_over: int | None = None,
    fleet: str = "columns",
    seed: int = 0,
) -> Budget:
    """Open a budget per user for several studies of the same users.

    Args:
        people: the users.
        epsilon: each user's whole budget, in nats.
        split_evenly_over: parts of equal size that studies take in turn; None: each study names
            its epsilon.
        fleet: see `simulate`.
        seed: of all studies together.

    Raises:
        InvalidParameter: an epsilon or number of parts that cannot be.

    Example:
        >>> people = ask.Population.generated("categories", users=3_000, cells=4)
        >>> with ask.budget(people, epsilon=2, split_evenly_over=2) as budget:
        ...     _ = budget.ask(ask.learners.frequency("category"))
        >>> budget
        <Budget: 1 of 2 spent on 1 studies>
    """
    whole = read_nano_nats(epsilon)
    if split_evenly_over is not None and not 1 <= split_evenly_over <= whole:
        raise InvalidParameter(f"split_evenly_over: expected 1 or more, got {split_evenly_over}")
    parts = [] if split_evenly_over is None else [whole // split_evenly_over] * split_evenly_over
    return Budget(people, whole, parts, fleet, seed)
