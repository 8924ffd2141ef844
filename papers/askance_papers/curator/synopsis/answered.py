"""Result of a method: answers, their cost, and a synopsis if the method makes one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Event
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis.synopses import Synopsis


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """The answers to a whole family of queries.

    Args:
      method: which one made them.
      answers: shape (size,), in [0, 1].
      events: everything that touched the data, each by the strongest guarantee known of it; an
        accountant says what they cost together.
      synopsis: answers any other query; None: the method has none.
    """

    method: str
    answers: NDArray[np.float64]
    events: tuple[Event, ...]
    synopsis: Synopsis | None

    def table(self, rows: int, words: Words) -> NDArray[np.int64]:
        """A synthetic table of codes, shape (rows, columns); it costs nothing more.

        Raises:
          InvalidParameter: the method has no synopsis.
        """
        if self.synopsis is None:
            raise InvalidParameter(
                f"table: expected a release with a synopsis, found answers only ({self.method})"
            )
        return self.synopsis.table(rows, words)
