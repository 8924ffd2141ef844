"""Sources of members' records, read anew for every new question.

A source names its members once, when a device starts, and reads one member's records whenever a
question is to be answered. Reading happens after all decisions about the question, so that it
changes neither a charge nor a refusal, and within a time limit (see the service's evaluation). A
source that fails or is late leaves the answer to the question's public default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from askance_client.errors import AskanceError, InvalidRecord
from askance_client.queries import EncodedRecord, Schema
from askance_client.records.tables import Table

if TYPE_CHECKING:
    from askance_client.randomizers import Coins

_WORD_BITS = 64  # of a coin
_START_MS = 60_000  # for the whole source, when a device starts


class SourceFailed(AskanceError):
    """A source that gave no record: it failed, was late, or its output is not as documented.

    The message names the source and repeats no value.
    """


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of one read of a source, and the clock that they are measured with.

    Args:
      now_ms: a clock that never goes back, in milliseconds.
      wall_ms: milliseconds since 1970.
    """

    time_ms: int
    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]

    def patient(self) -> ReadLimits:
        """Return the limits of a read at the start, for which no question waits."""
        return replace(self, time_ms=max(self.time_ms, _START_MS))

    def deadline(self) -> ReadDeadline:
        """Return the end of a read that begins now."""
        return ReadDeadline(self.now_ms() + self.time_ms, self.now_ms)

    @property
    def whole_s(self) -> int:
        """The time limit in whole seconds, at least 1, where no finer limit can be set."""
        return max(1, -(-self.time_ms // 1000))


@dataclass(frozen=True, slots=True)
class ReadDeadline:
    """Time at which a read is given up."""

    at_ms: int
    now_ms: Callable[[], int]

    @property
    def left_ms(self) -> int:
        """Milliseconds until then; 0 if it is over."""
        return max(0, self.at_ms - self.now_ms())


class Several(Enum):
    """Rule for a member who has several records; its value is the word in a configuration."""

    REFUSE = "refuse"
    FIRST = "first"
    DRAW = "draw"

    def choose(self, records: int, coins: Coins) -> int:
        """Return the number from 0 of the record that a question is answered from.

        Privacy: with DRAW a report is a mixture of the randomizer's laws on the records, so it is
          eps-LDP towards a change of all records of the member at once.

        Returns:
          With FIRST 0; with DRAW each number with probability 1 / records, within
          records / 2^64.

        Raises:
          SourceFailed: REFUSE, and there are several.
        """
        if self is Several.REFUSE and records > 1:
            raise SourceFailed(
                "expected one record of a member, got several (several = draw or first)"
            )
        if self is Several.DRAW and records > 1:
            (coin,) = coins.words(b"", 1)
            return coin * records >> _WORD_BITS
        return 0

    def check(self, table: Table, rows: Mapping[str, Sequence[int]]) -> None:
        """Check, when a device starts, that no member has several records where that is refused.

        Raises:
          InvalidRecord: a member has; it is not named.
        """
        for theirs in rows.values() if self is Several.REFUSE else ():
            if len(theirs) > 1:
                raise InvalidRecord(
                    f"{table.path}: expected a name once, got it in rows {theirs[0]} and"
                    f" {theirs[1]} from 0 (two people would share a budget; if they are one"
                    ' person\'s records, set several = "draw" or "first")'
                )


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Members of a source, as found when the device starts.

    Args:
      names: distinct; `ALONE` for a single device.
      warnings: problems of the source, without a value.
      table: their records as read, where all were read.
    """

    names: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    table: Table | None = None


class RecordSource(Protocol):
    """Source of the records of a device's members; safe to call from several threads."""

    @property
    def naming(self) -> str:
        """Naming of the members in words, to which the ledger is bound."""
        ...

    def members(self) -> Members:
        """Name the members.

        Raises:
          InvalidRecord: the source cannot be read, or has no member.
          SourceFailed: it failed, or was late.
        """
        ...

    def load(self, member: str) -> Table:
        """Read a member's records now, one per row.

        Raises:
          Exception: any; there is no record. The answer is the question's public default.
        """
        ...


class LiveRecord:
    """A member's record, read from its source at every load.

    Args:
      columns: the source's columns of fields, by field; the others have the field's name.
      coins: the device's own randomness.
      on_failure: given the source's exception, in the thread that reads.
    """

    __slots__ = ("_coins", "_columns", "_member", "_on_failure", "_schema", "_several", "_source")

    def __init__(
        self,
        source: RecordSource,
        member: str,
        *,
        schema: Schema,
        columns: Mapping[str, str],
        several: Several,
        coins: Coins,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._source = source
        self._member = member
        self._schema = schema
        self._columns = columns
        self._several = several
        self._coins = coins
        self._on_failure = on_failure

    def load(self) -> EncodedRecord:
        """Read the member's records, choose one and put it on the schema's grid.

        Raises:
          Exception: the source's, which `on_failure` was given.
        """
        try:
            table = self._source.load(self._member)
            row = self._several.choose(len(table.rows), self._coins)
            return table.encoder(self._schema, self._columns)(row)
        except Exception as failure:
            self._on_failure(failure)
            raise
