"""Boosting over users: AdaBoost, its weak learners chosen privately.

DRV10 announces boosting whose rows are users (section I) and leaves it to a full paper. What
stands here is ours, in its spirit: weights that no user can make large, and an exponential
mechanism (or permute-and-flip) as the weak learner.

`boosting_classifier` has it with scikit-learn's conventions, apart because that takes a while to
import.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.composition import BoundedRange, Pure
from askance_aggregator.numbers import Rational, rational, read_epsilon
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_papers.curator.mechanisms import (
    Exponential,
    Hypothesis,
    Losses,
    PermuteAndFlip,
    WeightedClass,
)

_GRID = 1 << 16  # weights are whole numbers of 1 / (65,536 n)
_MAX_ROUNDS = 10_000
_MAX_CAP = 1024


@dataclass(frozen=True, slots=True)
class Committee:
    """Released committee: weak hypotheses with one vote each.

    Args:
      labels: of the class; the second wins a tie.
    """

    members: tuple[Hypothesis, ...]
    labels: tuple[int, int]
    events: tuple[BoundedRange | Pure, ...]

    def leads(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """By how many votes the second label leads, shape (n,)."""
        return sum((_signs(one(x), self.labels) for one in self.members), _nothing(len(x)))

    def __call__(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """The majority's labels, shape (n,)."""
        return np.where(self.leads(x) >= 0, self.labels[1], self.labels[0]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Boosting:
    """AdaBoost whose weights belong to examples.

    A round picks the weak hypothesis with the least weighted mistakes, privately. The weight of an
    example that it gets right is multiplied by e^(-vote), of a wrong one by e^vote, with vote =
    ln((1 + 2 edge) / (1 - 2 edge)) / 2, the same for every round, as DRV10's boosting for
    queries has it (the true edge of a round would be one more question). So an example with k
    more right votes than wrong ones weighs

        w = floor(65536 min(cap, e^(-vote k))),

    never more than cap times their equal share 1/n. All votes being equal, the committee's weighted
    majority is its majority.

    Privacy: pure epsilon-DP, each round epsilon / rounds. Given the hypotheses released so far,
      each weight is a function of its own example alone. So when one example is replaced,
      each weak hypothesis's weighted mistakes lose one term in 0 .. 65536 cap and gain another:
      they change by at most 65536 cap, the sensitivity that the choice is made with. Reweighting
      looks at nothing that has not been released but one's own example, and is not released; it
      costs nothing by itself. Budgets of adaptive rounds add up (or `events` go to an accountant).
    Utility: a round's choice is within (2 rounds / epsilon) ln(|H| / beta) users of weight cap / n
      of the least weighted mistakes, but with probability beta: little, while the total weight is
      many times that.

    Args:
      epsilon: nats, for all rounds together.
      rounds: 1 .. 10,000.
      edge: 0 < edge < 1/2: how far below 1/2 a weak hypothesis's error is taken to be; small edges
        learn slowly and overfit late.
      cap: 1 .. 1024: no one weighs more than cap / n. 1: weights only ever fall below the start's.
      selection: `PermuteAndFlip` or `Exponential`.

    Source: ours, after Freund, Schapire (1997) and, for the cap, Domingo, Watanabe, "MadaBoost"
    (COLT 2000); DRV10 section I names the problem.
    """

    epsilon: Fraction
    rounds: int
    edge: Fraction
    cap: int = 1
    selection: Callable[[Fraction, Fraction], Exponential | PermuteAndFlip] = PermuteAndFlip

    def __post_init__(self) -> None:
        numbers = (("rounds", self.rounds, _MAX_ROUNDS), ("cap", self.cap, _MAX_CAP))
        for name, value, most in numbers:
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise InvalidParameter(
                    f"{name}: expected a whole number 1 .. {most}, got {value_text(value)}"
                )
        if not 0 < self.edge < Fraction(1, 2):
            raise InvalidParameter(
                f"edge: expected a number between 0 and 1/2, got {value_text(self.edge)}"
            )
        if self.epsilon <= 0:
            raise InvalidParameter(
                f"epsilon: expected a number above 0, got {value_text(self.epsilon)}"
            )

    @classmethod
    def of(
        cls, epsilon: Rational, *, rounds: int = 30, edge: Rational = "0.1", cap: int = 1
    ) -> Boosting:
        """Make a booster from numbers in any exact notation."""
        return cls(read_epsilon(epsilon), rounds, rational(edge, "edge"), cap)

    @property
    def mechanism(self) -> Exponential | PermuteAndFlip:
        """Mechanism that chooses a hypothesis in each round."""
        return self.selection(self.epsilon / self.rounds, Fraction(_GRID * self.cap))

    def weights(self, leads: NDArray[np.int64]) -> NDArray[np.int64]:
        """Compute exact weights of examples from their leads: right votes minus wrong votes."""
        # e^(-2 vote) = (1 - 2 edge) / (1 + 2 edge) is rational, so w^2 is, and w a whole square
        # root.
        decay = (1 - 2 * self.edge) / (1 + 2 * self.edge)
        most = _GRID * self.cap
        table = {}
        for lead in np.unique(leads).tolist():
            square = _GRID**2 * decay**lead
            table[lead] = min(isqrt(square.numerator // square.denominator), most)
        return np.array([table[lead] for lead in leads.tolist()], dtype=np.int64)

    def fit(self, hypotheses: WeightedClass, x: ArrayLike, y: ArrayLike, words: Words) -> Committee:
        """Release a committee.

        Raises:
          InvalidRecord: examples that are none of the class. Nothing has been drawn.
        """
        rows, labels = np.asarray(x), np.asarray(y)
        hypotheses.mistakes(rows, labels)  # checks the examples
        mechanism, truth = self.mechanism, _signs(labels, hypotheses.labels)
        leads, members = _nothing(len(labels)), []
        for _ in range(self.rounds):
            wrong = hypotheses.weighted_mistakes(rows, labels, self.weights(leads))
            member = hypotheses.hypothesis(mechanism.choose(Losses(hypotheses.size, wrong), words))
            leads += truth * _signs(member(rows), hypotheses.labels)
            members.append(member)
        return Committee(tuple(members), hypotheses.labels, (mechanism.event,) * self.rounds)


def _signs(given: NDArray[Any], labels: tuple[int, int]) -> NDArray[np.int64]:
    return np.where(given == labels[1], 1, -1).astype(np.int64)


def _nothing(rows: int) -> NDArray[np.int64]:
    return np.zeros(rows, dtype=np.int64)
