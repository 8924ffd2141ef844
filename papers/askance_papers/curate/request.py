"""Request to a curator's learner, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from askance_aggregator.composition import Event
from askance_aggregator.learners import EstimateRow, ParameterEntry
from askance_aggregator.names import unknown_name
from askance_aggregator.numbers import rational
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter
from askance_papers.curate.data_table import DataTable


def shown(value: float) -> str:
    """Format a number for a line of text: two cuts, bins or budgets that differ look different."""
    return f"{value:.12g}"


@dataclass(frozen=True, slots=True)
class CuratorRequest:
    """A learner's data, budget and randomness.

    Args:
      epsilon: the whole budget, in nats.
    """

    table: DataTable
    epsilon: Fraction
    settings: Mapping[str, str]
    words: Words

    def text(self, name: str) -> str:
        """Return a setting."""
        if name not in self.settings:
            raise InvalidParameter(f"{name}: expected --{name.replace('_', '-')}, got none")
        return self.settings[name]

    def names(self, name: str) -> tuple[str, ...]:
        """Return a setting that lists columns, commas between them."""
        found = tuple(part.strip() for part in self.text(name).split(",") if part.strip())
        if not found or len(set(found)) != len(found):
            raise InvalidParameter(
                f"{name}: expected one or more different columns, got {self.text(name)!r:.80}"
            )
        return found

    def whole(self, name: str, most: int) -> int:
        """Return a whole number from 1."""
        number = rational(self.text(name), name)
        if number.denominator != 1 or not 1 <= number <= most:
            raise InvalidParameter(f"{name}: expected a whole number 1 .. {most}, got {number}")
        return int(number)

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        """Read a parameter that is one of a few words."""
        found = self.text(name)
        if found not in choices:
            raise unknown_name(name, found, choices)
        return found


@dataclass(frozen=True, slots=True)
class Curated:
    """Result of a curator's learner.

    Args:
      result: what there is to know, as JSON has it.
      summary: the same as lines of text, or what `rows` do not say.
      events: all that touched the data; checked against the budget before anything is returned.
      delta: of the guarantee; None: it is pure.
      notes: what should be known, a sentence each.
      rows: estimates with their intervals, in their order.
      caveat: what the guarantee leaves out ("as real numbers, not as floats").
    """

    result: dict[str, Any]
    summary: tuple[str, ...]
    events: tuple[Event, ...]
    delta: float | None = None
    notes: tuple[str, ...] = ()
    caveat: str = ""
    rows: tuple[EstimateRow, ...] = ()


COMMON = (
    ParameterEntry(
        "bounds",
        "NAME:LOW:HIGH, commas between them: columns of numbers; or from-data, which is not"
        " private; else from --schema",
    ),
    ParameterEntry(
        "labels", "NAME:A|B|C, commas between them: columns of labels; else from --schema"
    ),
    ParameterEntry(
        "outside",
        "refuse or clip: what becomes of numbers outside their bounds",
        "refuse",
        choices=("refuse", "clip"),
    ),
)


@dataclass(frozen=True, slots=True)
class CuratorRelease:
    """A finished request: what `--json` prints."""

    learner: str
    n: int
    epsilon: float
    guarantee: str
    curated: Curated
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return {"learner", "n", "epsilon", "delta", "guarantee", "result", "notes"}."""
        return {
            "learner": self.learner,
            "n": self.n,
            "epsilon": self.epsilon,
            "delta": self.curated.delta,
            "guarantee": self.guarantee,
            "result": self.curated.result,
            "notes": list(self.notes),
        }
