"""Boosting over users with scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.numbers import Rational
from askance_aggregator.sampling import Words
from askance_papers.curator.conventions import PrivateClassifier, read_classes, read_examples
from askance_papers.curator.mechanisms import Stumps, even_cuts
from askance_papers.curator.people import Boosting


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateBoostingClassifier(PrivateClassifier):
    """A majority of decision stumps, boosted and chosen privately; it may then be published.

    Privacy: each call of `fit` is one release, epsilon-DP for the rows and labels it was given
    (replace-one; n, the columns and the classes' names are public). Two fits cost two epsilons.
    Predictions cost nothing more. A clone has a copy of `words`: words that repeat (an
    experiment's) make the same choices.

    Args:
      epsilon: nats, above 0; for all rounds together.
      bounds: for each column (low, high): where its cuts lie, stated and not the data's own. A
        value outside is on the outermost cut's side and no error.
      cuts: a column, dividing its bounds evenly.
      rounds, edge, cap: see `Boosting`.
      classes: the two labels, stated; the second is the positive one.
      words: where chance comes from; None: the operating system.

    Attributes:
      committee_: what was released.
      classes_: shape (2,): `classes`.
      events_: what the fit cost, a round each.
      n_features_in_: how many columns.
    """

    epsilon: Rational = field(default=1, kw_only=False)
    bounds: Sequence[tuple[float, float]] = ()
    cuts: int = 15
    rounds: int = 30
    edge: Rational = "0.1"
    cap: int = 1
    classes: tuple[Any, Any] = (-1, 1)
    words: Words | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803  # scikit-learn's name
        """Release the committee.

        Args:
          X: shape (n, d).
          y: shape (n,), of `classes`.
        """
        chosen = Boosting.of(self.epsilon, rounds=self.rounds, edge=self.edge, cap=self.cap)
        stumps = Stumps([even_cuts(low, high, self.cuts) for low, high in self.bounds])
        classes = read_classes(self.classes)
        rows, signs = read_examples(self, X, y, classes)
        self.committee_ = chosen.fit(stumps, rows, signs, self._chance())
        self.classes_ = classes
        self.events_ = self.committee_.events
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803  # scikit-learn's name
        """By what part of its votes the committee is for the second class, -1 .. 1, shape (n,)."""
        rows = self._rows(X)
        leads: NDArray[np.float64] = self.committee_.leads(rows) / len(self.committee_.members)
        return leads

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803  # scikit-learn's name
        """The majority's class of each row, shape (n,)."""
        above = self.decision_function(X) >= 0
        found: NDArray[Any] = self.classes_[above.astype(int)]
        return found
