"""Work on a member's record: the only code that reads one, or handles a value that follows from it.

All of it runs in the timed part of an answer; the caller has the times, which are public:

    prepare      take all coins; draw the stand-ins, from public defaults and coins of their own
    evaluate     read the record and compute the values; it may fail or hang
    fix          at T1: take the values that are ready, and the public default for the others
    draw         round, draw and encode, with the main coins
    end          at T2: give out what is drawn, the stand-in for the rest, and forget everything

Privacy: `fix` sees no coin of a draw, so what `draw` returns follows a mixture of the randomizer's
rows, which is eps-LDP exactly. A stand-in is given out only for a draw that was missed at T2;
docs/trusted-base.md bounds what that adds to eps.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Protocol

from askance_client.device.examination import ExaminedRequest
from askance_client.errors import InvalidRecord
from askance_client.messages import Request
from askance_client.queries import EncodedRecord, Query, QueryKind
from askance_client.randomizers import Coins
from askance_client.randomizers.rounding import round_to_levels

Value = int | tuple[int, ...]
"""A query's value on its grid; of a VECTOR query the components."""


class MemberRecord(Protocol):
    """A user's record, read when it is needed; an `EncodedRecord` is one in memory."""

    def load(self) -> EncodedRecord:
        """Read the record. It may fail or hang: the answer is then the question's default."""
        ...


class RecordWork:
    """Answers of one message between record and symbols (see the module).

    Steps may run in different threads; a step that is late stops at its next request, and changes
    nothing that was given out.
    """

    def __init__(
        self, record: MemberRecord, coins: Coins, asked: Sequence[ExaminedRequest]
    ) -> None:
        self._record = record
        self._coins = coins
        self._asked = asked
        self._values: dict[bytes, Value] = {}
        self._fixed: dict[bytes, Value] | None = None
        self._over = False
        self.missed = 0  # weight of the lightest request whose draw was missed
        self._forget()

    @property
    def weight(self) -> int:
        """Sum of the requests' weights: a public bound of the work of `evaluate`, and of `draw`."""
        return sum([asked.weight for asked in self._asked])

    def answer(self) -> None:
        """Do it in place, for as long as it takes: no draw is late, so none has a stand-in."""
        self._take_coins()
        self.evaluate()
        self.fix()
        self.draw()

    def prepare(self) -> None:
        """Take the coins and draw the stand-ins. No record is read."""
        self._take_coins()
        for asked in self._asked:
            words = self._coins.words(sha256(asked.digest).digest(), asked.request.coins)
            default = _public_default(asked.request.query)
            symbol = self._randomize(asked.request, asked.digest, default, words)
            self._stand_ins[asked.digest] = symbol

    def evaluate(self) -> None:
        """Read the record and compute the values.

        An exception, whatever it is, leaves the answer to the question's public default.
        """
        for asked in self._asked:
            if self._fixed is not None:
                return
            try:
                self._values[asked.digest] = self._value(asked.request)
            except Exception:
                continue

    def fix(self) -> None:
        """Take the values that are ready; what is evaluated from here on is discarded."""
        self._fixed, self._values = dict(self._values), {}

    def draw(self) -> None:
        """Draw the symbols of the values that were fixed."""
        for asked in self._asked:
            if self._over or self._fixed is None:
                return
            value = self._fixed.get(asked.digest, _public_default(asked.request.query))
            words = self._words[asked.digest]
            symbol = self._randomize(asked.request, asked.digest, value, words)
            self._drawn[asked.digest] = symbol

    def end(self) -> dict[bytes, bytes]:
        """Return the symbols, by their requests' digests, and forget all that led to them."""
        self._over = True
        drawn = dict(self._drawn)
        symbols = self._stand_ins | drawn
        missed = [asked.weight for asked in self._asked if asked.digest not in drawn]
        self.missed = min(missed, default=0)
        self._forget()
        return symbols

    def _value(self, request: Request) -> Value:
        """The value of the record, read anew, at a request's query."""
        query, record = request.query, self._record.load()
        vector = query.kind is QueryKind.VECTOR
        parts = query.evaluate_vector(record) if vector else (query.evaluate(record),)
        expected = query.components if vector else 1
        if len(parts) != expected or not query.low <= min(parts) <= max(parts) <= query.high:
            raise InvalidRecord("value: expected one in the query's range, got another")
        return parts if vector else parts[0]

    def _randomize(
        self, request: Request, digest: bytes, value: Value, words: tuple[int, ...]
    ) -> bytes:
        """The symbol: a pure function of the value's level and of coins."""
        level, coins = self._level(request, value, words)
        return request.randomizer.randomize(level, coins)

    def _level(
        self, request: Request, value: Value, words: tuple[int, ...]
    ) -> tuple[int, tuple[int, ...]]:
        """The value's level, and the coins that randomize it: others than those that round."""
        query, randomizer = request.query, request.randomizer
        coins, rounding = words[: randomizer.coins], words[randomizer.coins :]
        if isinstance(value, tuple):
            return randomizer.vector_level(value, query.low, query.high, rounding), coins
        if query.kind is QueryKind.REAL:
            value = round_to_levels(value, query.low, query.high, randomizer.levels, rounding[0])
        return value, coins

    def _take_coins(self) -> None:
        """Take the coins of every request's draw, in a number that it fixes."""
        for asked in self._asked:
            self._words[asked.digest] = self._coins.words(asked.digest, asked.request.coins)

    def _forget(self) -> None:
        self._words: dict[bytes, tuple[int, ...]] = {}
        self._stand_ins: dict[bytes, bytes] = {}
        self._drawn: dict[bytes, bytes] = {}
        self._values, self._fixed = {}, {} if self._over else None


def _public_default(query: Query) -> Value:
    """The value of a record on which a query cannot be evaluated."""
    if query.kind is QueryKind.VECTOR:
        return (query.default,) * query.components
    return query.default
