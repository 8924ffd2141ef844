"""Prefixes of a field's values, and the questions about them.

Values are bit strings:

| field | a value's bits | as reported |
|---|---|---|
| Bits(d), d <= 256 | itself, component 0 first | text of 0 and 1 |
| Integer | the value less the field's low, most significant bit first | the whole number |
| Category | its label's index, likewise | the label |
| Bits(288), a text by `records.text_bits` | its head: length and 26 bits of the hash | the text |

The bytes of a text follow its head; `letters` asks for them, and `among` asks for values of a list.

A text of up to 32 bytes may also be written into `Bits` by hand: `bits_of_text` has its UTF-8
bytes, each with its most significant bit first, and zeros up to the width; `text_of_bits` reads
them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from askance_aggregator.learners.rows import field_of
from askance_aggregator.learners.schemas import MAX_WIDTH
from askance_aggregator.queries import bucketize, category, clip, dot, index_of, round_to
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Bits, Category, Expression, Integer, Query, Schema, constant
from askance_client.queries.exact import exact_ratio
from askance_client.queries.limits import MAX_BITS, WORD
from askance_client.records.tables import HASH_BITS, TEXT_BYTES, TEXT_WIDTH, is_missing, text_bits

MAX_PREFIXES = 256
"""In one question: of 256 bits each they are about 25 kB of a request."""

MAX_CANDIDATES = 10_000  # of texts they are about 140 kB of a request

Value = str | int
_BYTE = 8
_CHUNK = 48  # bits that are looked at together: with a place before them, less than 2^62
_SHIFT = 40  # the finest grid of a constant


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """The values of one field, as strings of `width` bits.

    Raises:
        InvalidParameter: the schema has no such field, or one of more than 256 bits that has no
            texts.
    """

    schema: Schema
    column: str

    def __post_init__(self) -> None:
        kind = field_of(self.schema, self.column)
        if not isinstance(kind, Bits | Integer | Category):
            raise InvalidParameter(
                f"expected bits, a whole number or a category as column, found {self.column}"
            )
        if self.width > MAX_WIDTH:
            raise InvalidParameter(
                f"{self.column}: expected at most {MAX_WIDTH} bits, found {self.width}"
            )

    @property
    def of_texts(self) -> bool:
        """True if values are texts; their heads are the strings of bits."""
        return self.schema.fields[self.column] == Bits(TEXT_WIDTH)

    @property
    def width(self) -> int:
        """Number of bits of a value, at least 1."""
        if self.of_texts:
            return TEXT_WIDTH - _BYTE * TEXT_BYTES
        kind = self.schema.fields[self.column]
        return kind.width if isinstance(kind, Bits) else max(self._last.bit_length(), 1)

    def holds(self, prefix: int, length: int) -> bool:
        """Return whether a value begins with the `length` bits of a prefix."""
        return prefix << (self.width - length) <= self._last

    def beginnings(self, length: int) -> int:
        """Return the number of prefixes of a length that values have."""
        return (self._last >> (self.width - length)) + 1

    def value(self, bits: int) -> Value:
        """Return the value of all its bits, in the field's unit."""
        kind = self.schema.fields[self.column]
        if isinstance(kind, Category):
            return kind.labels[bits]
        if isinstance(kind, Integer):
            return kind.low + bits
        if self.of_texts:
            return f"#{bits:08x}"
        return f"{bits:0{self.width}b}"

    def bits_of(self, value: str) -> int:
        """Return the bits of a value that is given as text; of a text those of its bytes, too.

        Raises:
            InvalidParameter: the field has no such value.
        """
        kind = self.schema.fields[self.column]
        expected = f"labels of {self.column}"
        if isinstance(kind, Category) and value in kind.indices:
            return kind.indices[value]
        if self.of_texts:
            expected = "texts that do not stand for a missing value"
            if not is_missing(value):
                return int(text_bits(value), 2)
        elif isinstance(kind, Bits):
            expected = f"texts of {kind.width} characters 0 and 1"
            if len(value) == kind.width and {*value} <= {"0", "1"}:
                return int(value, 2)
        elif isinstance(kind, Integer):
            expected = f"whole numbers of {kind.low} to {kind.high}"
            number, parts = exact_ratio(value) or (0, 0)
            if parts == 1 and kind.low <= number <= kind.high:
                return number - kind.low
        raise InvalidParameter(f"candidates: expected {expected}, got {value_text(value)}")

    def named_bits(self, bits: int) -> Value:
        """Return the value of bits by `bits_of`, as `named` returns that of a record."""
        if not self.of_texts:
            return self.value(bits)
        head, written = divmod(bits, 1 << _BYTE * TEXT_BYTES)
        return text_of(head, written.to_bytes(TEXT_BYTES)) or self.value(head)

    def named(self, grid: Sequence[int]) -> Value:
        """The value that a record has on the field's grid: its words, or its one number."""
        kind = self.schema.fields[self.column]
        if isinstance(kind, Bits):
            words = (f"{word:0{WORD}b}"[::-1] for word in grid)
            text = "".join(words)[: kind.width]
            if not self.of_texts:
                return text
            return self.named_bits(int(text, 2))
        (number,) = grid
        return self.value(number - kind.type.low)

    def extensions(self, prefixes: Sequence[int], length: int, until: int) -> Query:
        """Build the question about extensions of prefixes.

        It has a cell for every prefix and every way to extend it, and cell 0 for all other
        values and records without one.

        Args:
            prefixes: ascending, of `length` bits each; 1 .. 256 of them.
            length: 0 .. until - 1; of length 0 there is one prefix, 0.
            until: how many bits an extended prefix has.

        Returns:
            A category: cell 1 + i * 2^(until - length) + e is prefix i extended by e; without the
            last cells, if no value can be in them.
        """
        return self._continued(prefixes, length, length, until)

    def letters(self, heads: Sequence[int], place: int) -> Query:
        """Build the question about one byte of the texts of some heads.

        Returns:
            A category: cell 1 + 256 i + b is head i with the byte b at this place, from 0.
        """
        start = self.width + _BYTE * place
        return self._continued(heads, self.width, start, start + _BYTE)

    def among(self, values: Sequence[int]) -> Query:
        """Build the question for one of some values, by their bits (see `bits_of`).

        Of a text as many bits are compared as tell all of them apart, 48 at least.

        Args:
            values: ascending, distinct; 1 .. `MAX_CANDIDATES` of them.

        Returns:
            A category: cell 1 + i is value i, and cell 0 has all others and records without one.
        """
        if not self.of_texts:
            return category(clip(self._prefix_index(values, self.width), 0, len(values)))
        length, kept = 0, list[int]()
        while len({*kept}) < len(values):
            length += _CHUNK
            kept = [bits >> (TEXT_WIDTH - length) for bits in values]
        return category(clip(self._prefix_index(kept, length), 0, len(values)))

    def _continued(self, prefixes: Sequence[int], length: int, start: int, until: int) -> Query:
        """Ask for the bits start .. until - 1 of the values that begin with one of the prefixes."""
        ways = 1 << (until - start)
        goes_on = clip(self._number(start, until), 0, ways - 1)
        cell = (
            self._prefix_index(prefixes, length) * ways + goes_on - (ways - 1)
        )  # 0 or less: no prefix
        return category(clip(cell, 0, len(prefixes) * ways))

    def _prefix_index(self, prefixes: Sequence[int], length: int) -> Expression:
        """1 + i for a value that begins with prefix i, 0 for others."""
        # What was looked at becomes a place among the beginnings of the prefixes, and a place with
        # the next bits behind it is a number again: a query has few nodes, however many prefixes.
        place, beginnings = constant(1), [0]
        for start in range(0, length, _CHUNK):
            stop = min(start + _CHUNK, length)
            size = 1 << (stop - start)
            places = {bits: at for at, bits in enumerate(beginnings, start=1)}
            beginnings = sorted({prefix >> (length - stop) for prefix in prefixes})
            edges = [places[bits // size] * size + bits % size for bits in beginnings]
            number = place * size + self._number(start, stop)
            reached = _edges_up_to(number, edges)
            passed = _edges_up_to(number, [edge + 1 for edge in edges])
            place = (reached - passed == 1) * reached
        return place

    def _number(self, start: int, stop: int) -> Expression:
        """Bits start .. stop - 1 as a number, most significant first."""
        field = self.schema[self.column]
        kind = self.schema.fields[self.column]
        if isinstance(kind, Bits):
            places = range(kind.width)
            return dot([1 << (stop - 1 - c) if start <= c < stop else 0 for c in places], field)
        whole = field - kind.low if isinstance(kind, Integer) else index_of(field)
        up_to = _without(whole, self.width - stop)
        if start == 0:
            return up_to
        return up_to - _without(whole, self.width - start) * (1 << (stop - start))

    @property
    def _last(self) -> int:
        """The greatest value's bits."""
        kind = self.schema.fields[self.column]
        if self.of_texts:
            return (TEXT_BYTES + 1 << HASH_BITS) - 1
        if isinstance(kind, Bits):
            return (1 << kind.width) - 1
        return kind.type.high - kind.type.low


def _edges_up_to(number: Expression, edges: Sequence[int]) -> Expression:
    """The number of edges, which rise, that are at most a number."""
    counts = [
        index_of(bucketize(number, edges[start : start + MAX_BITS]))
        for start in range(0, len(edges), MAX_BITS)
    ]
    return sum(counts[1:], start=counts[0])


def _without(number: Expression, low_bits: int) -> Expression:
    """A number, not negative, without its lowest bits: the whole part of number / 2^low_bits."""
    while low_bits > 0:
        step = min(low_bits, _SHIFT)
        part = number * constant(Fraction(1, 1 << step), step)
        number = round_to(part - constant(Fraction(1, 2), step), 0)  # half up, so this rounds down
        low_bits -= step
    return number


def length_of(head: int) -> int:
    """Return the number of bytes of a text, as its head has it."""
    return TEXT_BYTES - (head >> HASH_BITS)


def text_of(head: int, written: bytes) -> str | None:
    """Return the text with a head and first bytes; None if they are of no one text.

    More bytes than fit are not checked, and end with an ellipsis.
    """
    length = length_of(head)
    try:
        text = written[:length].decode("utf-8", "strict" if length < TEXT_BYTES else "ignore")
    except UnicodeDecodeError:
        return None
    if int(text_bits(text)[: TEXT_WIDTH - _BYTE * TEXT_BYTES], 2) == head:
        return text
    return f"{text}..." if length == TEXT_BYTES else None


def bits_of_text(text: str, width: int) -> str:
    """A text as the value of a field Bits(width).

    Args:
        text: without the character NUL.
        width: a multiple of 8, at most 256.

    Raises:
        InvalidParameter: the text has more bytes, or ends where no byte does.
    """
    if width % _BYTE or not 0 < width <= MAX_WIDTH:
        raise InvalidParameter(f"width expects a multiple of 8 in 8..{MAX_WIDTH}, found {width}")
    try:
        written = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidParameter("expected valid Unicode text, found another") from None
    if b"\0" in written:
        raise InvalidParameter("expected a text without the character NUL, found one")
    if len(written) * _BYTE > width:
        raise InvalidParameter(
            f"expected a text of at most {width // _BYTE} bytes, found {len(written)}"
        )
    return "".join(f"{byte:08b}" for byte in written).ljust(width, "0")


def text_of_bits(bits: str) -> str:
    """The text that `bits_of_text` wrote; bytes that are no text become U+FFFD.

    Raises:
        InvalidParameter: not zeros and ones, eight a byte.
    """
    if not bits or len(bits) % _BYTE or not set(bits) <= {"0", "1"}:
        raise InvalidParameter(f"expected zeros and ones, eight per byte, got {value_text(bits)}")
    written = int(bits, 2).to_bytes(len(bits) // _BYTE, "big")
    return written.rstrip(b"\0").decode("utf-8", errors="replace")
