"""Missing values: whether users without a value are part of an answer, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from askance_aggregator.learners.hypotheses import Document
from askance_aggregator.learners.learning import Answer
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Expression, Query

EXCLUDE = "exclude"
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class MissingShare:
    """Estimated share of users without a value, in [0, 1], with its interval."""

    share: float
    low: float
    high: float

    @classmethod
    def of(cls, answer: Answer) -> MissingShare | None:
        """The share without the number of an answer; None where all users count."""
        present = answer.present
        if present is None:
            return None
        share = min(max(1 - present.share, 0.0), 1.0)
        return cls(share, 1 - present.high, 1 - present.low)

    def to_json(self) -> dict[str, Any]:
        """Return {"share": ..., "low": ..., "high": ...}."""
        return {"share": self.share, "low": self.low, "high": self.high}

    @classmethod
    def from_json(cls, data: Any) -> MissingShare:
        """The share that `to_json` wrote.

        Raises:
            InvalidParameter: the data is not of that form.
        """
        document = Document("missing", data)
        return cls(*(document.number(key) for key in ("share", "low", "high")))

    def __str__(self) -> str:
        return f"{self.share:.1%} of users without a value ({self.low:.1%} .. {self.high:.1%})"


def excludes_missing(learner: str, asked: Query | Expression, missing: str | None) -> bool:
    """Return whether users without a value are left out of an answer.

    Raises:
        InvalidParameter: missing is no known word, or is given for a query, which has its own
            public default.
    """
    if missing not in (None, EXCLUDE, DEFAULT):
        raise InvalidParameter(
            f"{learner}: missing expects {EXCLUDE} or {DEFAULT}, got {value_text(missing)}"
        )
    if isinstance(asked, Query) and missing == EXCLUDE:
        raise InvalidParameter(
            f"{learner}: missing={EXCLUDE} expects an expression, got a query, which has a public"
            " default"
        )
    return not isinstance(asked, Query) and missing != DEFAULT
