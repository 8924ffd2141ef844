"""The types of a record's fields, and how a value becomes an integer on the field's grid.

A value that is missing, not a number, or not a label is *not present*: no error, for a query over
it answers its public default. A finite number out of range is clamped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from numbers import Real as RealNumber
from operator import index
from typing import ClassVar, cast

from askance_client.errors import InvalidParameter
from askance_client.queries.canonical import i64, texts, u8, u32
from askance_client.queries.exact import (
    Exact,
    ceil_to_grid,
    exact_ratio,
    floor_to_grid,
    is_truth,
    to_grid,
)
from askance_client.queries.kinds import Kind
from askance_client.queries.limits import (
    MAX_BITS,
    MAX_FRAC,
    MAX_LABEL_BYTES,
    MAX_LABELS,
    MAX_MAGNITUDE,
    WORD,
)

FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
NEVER_LABELS = frozenset(("", "?"))  # how data files write "nothing here", whatever the column
MISSING_TEXTS = NEVER_LABELS | {"NA", "NaN", "nan", "inf", "-inf"}  # unless they are labels


@dataclass(frozen=True, slots=True)
class ValueType:
    """Facts about a value before any record is seen.

    Args:
        kind: what it is.
        frac: it is an integer over 2^frac.
        low: it is never below this integer (for BITS and VECTOR: each component).
        high: it is never above this integer.
        labels: the names of a category's indices, where it has any.
        width: the number of components of BITS and VECTOR.
        required: of a field, whether every record is to have it.
    """

    kind: Kind
    frac: int
    low: int
    high: int
    labels: tuple[str, ...] | None = None
    width: int = 0
    required: bool = False


@dataclass(frozen=True, slots=True)
class _Declared:
    """Declaration that fields of all types share.

    Args:
        required: every record is to have a value. A record without one is no error and is not told
            from others: a query over the field answers its public default.
    """

    required: bool = field(default=False, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Bit(_Declared):
    """A single 0 or 1.

    Example:
        >>> ask.Schema("people", smokes=ask.Bit()).smokes
        smokes
        >>> ask.Bit().encode("1")
        1
    """

    type: ClassVar[ValueType] = ValueType(Kind.BOOLEAN, 0, 0, 1)
    canonical: ClassVar[bytes] = u8(1)

    def encode(self, value: object) -> int | None:
        """0 or 1; None where the value is neither."""
        ratio = exact_ratio(value)
        if ratio == (0, 1):
            return 0
        return 1 if ratio == (1, 1) else None


@dataclass(frozen=True, slots=True)
class Bits(_Declared):
    """A vector of `width` bits. On the grid: words of 32 bits, component c is bit c%32 of c//32.

    Example:
        >>> ask.Bits(3).encode("101")
        (5,)
    """

    width: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", whole("Bits width", self.width))
        if not 1 <= self.width <= MAX_BITS:
            raise InvalidParameter(f"Bits expects a width in 1..{MAX_BITS}, found {self.width}")

    @property
    def words(self) -> int:
        """The number of words."""
        return -(-self.width // WORD)

    @property
    def type(self) -> ValueType:
        """BITS."""
        return ValueType(Kind.BITS, 0, 0, 1, width=self.width)

    @property
    def canonical(self) -> bytes:
        """Injective bytes."""
        return u8(2) + u32(self.width)

    def encode(self, value: object) -> tuple[int, ...] | None:
        """The words of a text "0110" or a sequence of 0/1, leftmost component 0; None otherwise."""
        if isinstance(value, str):
            return self._from_text(value.strip())
        if getattr(value, "ndim", 0) == 1 and hasattr(value, "tolist"):  # numpy's array
            items: Sequence[object] = value.tolist()
        elif isinstance(value, Sequence) and not isinstance(value, bytes):
            items = value
        else:
            return None
        if len(items) != self.width:
            return None
        words = [0] * self.words
        for component, item in enumerate(items):
            bit = Bit().encode(item)
            if bit is None:
                return None
            words[component // WORD] |= bit << (component % WORD)
        return tuple(words)

    def _from_text(self, text: str) -> tuple[int, ...] | None:
        if len(text) != self.width or not set(text) <= {"0", "1"}:
            return None
        vector = int(text[::-1], 2)
        return tuple(vector >> (WORD * word) & (1 << WORD) - 1 for word in range(self.words))


@dataclass(frozen=True, slots=True, init=False)
class Category(_Declared):
    """Label from a finite list; integers may be given and are kept as text.

    Example:
        >>> ask.Category(["red", "green", "blue"]).encode("green")
        1
    """

    labels: tuple[str, ...]
    indices: dict[str, int] = field(init=False, repr=False, compare=False)
    canonical: bytes = field(init=False, repr=False, compare=False)

    _tag: ClassVar[int] = 3

    def __init__(self, labels: Iterable[str | int], *, required: bool = False) -> None:
        kept = _texts(labels)
        encoded = _encode_labels(kept)
        if not 1 <= len(kept) <= MAX_LABELS:
            raise InvalidParameter(f"Category expects 1..{MAX_LABELS} labels, found {len(kept)}")
        indices = dict(zip(kept, range(len(kept)), strict=True))
        if len(indices) < len(kept):
            raise InvalidParameter("Category expects distinct labels, found a label twice")
        object.__setattr__(self, "required", required)
        object.__setattr__(self, "labels", _shared(kept))
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "canonical", u8(self._tag) + texts(encoded))

    @property
    def type(self) -> ValueType:
        """CATEGORY."""
        return ValueType(Kind.CATEGORY, 0, 0, len(self.labels) - 1, labels=self.labels)

    def encode(self, value: object) -> int | None:
        """The label's index; None where it is no label.

        A number without a fraction is looked up by its digits: 1, 1.0 and True are the label "1"
        (a truth value is first looked up as "True").
        """
        if isinstance(value, str):
            return self.indices.get(value)
        if is_truth(value) and str(value) in self.indices:
            return self.indices[str(value)]
        if isinstance(value, RealNumber) or is_truth(value):
            ratio = exact_ratio(value)
            if ratio is not None and ratio[1] == 1 and abs(ratio[0]) < MAX_MAGNITUDE:
                return self.indices.get(str(ratio[0]))
        return None


@dataclass(frozen=True, slots=True, init=False)
class Label(Category):
    """A Category that is the thing to be predicted.

    Example:
        >>> ask.Label(["<=50K", ">50K"]).encode(">50K")
        1
    """

    _tag: ClassVar[int] = 4


@dataclass(frozen=True, slots=True)
class Integer(_Declared):
    """A whole number in [low, high]; numbers with a fraction are rounded, half to even.

    Example:
        >>> ask.Integer(0, 120).encode("41")
        41
        >>> ask.Integer(0, 120).encode("none") is None
        True
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", whole("Integer low", self.low))
        object.__setattr__(self, "high", whole("Integer high", self.high))
        _check_bounds("Integer", self.low, self.high)

    @property
    def type(self) -> ValueType:
        """NUMBER on the integers."""
        return ValueType(Kind.NUMBER, 0, self.low, self.high)

    @property
    def canonical(self) -> bytes:
        """Injective bytes."""
        return u8(5) + i64(self.low) + i64(self.high)

    def encode(self, value: object) -> int | None:
        """The number, clamped; None where it is not a finite number."""
        return _encode_number(value, 0, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Real(_Declared):
    """A number in [low, high], kept as an integer over 2^frac_bits.

    The bounds may be given as any exact number (a float counts as exactly what it is); they are
    rounded outward to the grid and kept as Fractions, so that every value asked for is inside.

    Example:
        >>> field = ask.Real("0.5", "2.5", frac_bits=10)
        >>> field.encode("1.75") / 2**10
        1.75
    """

    low: Exact
    high: Exact
    frac_bits: int = 16
    low_mantissa: int = field(init=False, repr=False)
    high_mantissa: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        frac = whole("Real frac_bits", self.frac_bits)
        if not 0 <= frac <= MAX_FRAC:
            raise InvalidParameter(f"Real expects frac_bits in 0..{MAX_FRAC}, found {frac}")
        low, high = exact_ratio(self.low), exact_ratio(self.high)
        if low is None or high is None:
            which = "low" if low is None else "high"
            raise InvalidParameter(f"Real expects a finite number as {which}")
        low_mantissa, high_mantissa = floor_to_grid(low, frac), ceil_to_grid(high, frac)
        _check_bounds("Real", low_mantissa, high_mantissa)
        object.__setattr__(self, "frac_bits", frac)
        object.__setattr__(self, "low_mantissa", low_mantissa)
        object.__setattr__(self, "high_mantissa", high_mantissa)
        object.__setattr__(self, "low", Fraction(low_mantissa, 1 << frac))
        object.__setattr__(self, "high", Fraction(high_mantissa, 1 << frac))

    @classmethod
    def of_mantissas(cls, low_mantissa: int, high_mantissa: int, frac_bits: int) -> Real:
        """The same from integers over 2^frac_bits, as they are carried on the wire."""
        scale = 1 << min(abs(frac_bits), MAX_FRAC)  # what is out of range is refused below
        return cls(Fraction(low_mantissa, scale), Fraction(high_mantissa, scale), frac_bits)

    @property
    def type(self) -> ValueType:
        """NUMBER over 2^frac_bits."""
        return ValueType(Kind.NUMBER, self.frac_bits, self.low_mantissa, self.high_mantissa)

    @property
    def canonical(self) -> bytes:
        """Injective bytes."""
        return u8(6) + u8(self.frac_bits) + i64(self.low_mantissa) + i64(self.high_mantissa)

    def encode(self, value: object) -> int | None:
        """The mantissa, rounded half to even and clamped; None where it is not finite."""
        return _encode_number(value, self.frac_bits, self.low_mantissa, self.high_mantissa)


Field = Bit | Bits | Category | Integer | Real
"""Any field type (a Label is a Category)."""


def _encode_number(value: object, frac: int, low: int, high: int) -> int | None:
    ratio = exact_ratio(value)
    return None if ratio is None else min(max(to_grid(ratio, frac), low), high)


def whole(what: str, value: object) -> int:
    """Return an integer of any type as Python's."""
    if isinstance(value, bool):
        raise InvalidParameter(f"{what} expects an integer, found bool")
    try:
        return index(value)  # type: ignore[arg-type]  # anything else is the TypeError below
    except TypeError:
        found = type(value).__name__
        raise InvalidParameter(f"{what} expects an integer, found {found}") from None


def _check_bounds(what: str, low: int, high: int) -> None:
    if low >= high:
        raise InvalidParameter(f"{what} expects low < high, found low >= high")
    if max(abs(low), abs(high)) >= MAX_MAGNITUDE:
        raise InvalidParameter(f"{what} expects bounds below 2^62 grid units")


@lru_cache(maxsize=16)
def _shared(labels: tuple[str, ...]) -> tuple[str, ...]:
    """The first of equal tuples, so that two fields with the same labels are compared at once."""
    return labels


def _texts(labels: Iterable[str | int]) -> tuple[str, ...]:
    kept = tuple(labels)
    if {*map(type, kept)} <= {str}:
        return cast(tuple[str, ...], kept)
    return tuple(
        label if isinstance(label, str) else str(whole(f"label {position}", label))
        for position, label in enumerate(kept)
    )


def _encode_labels(labels: Sequence[str]) -> list[bytes]:
    """Encode labels as UTF-8, all of them in a few calls: there may be 2^16."""
    try:
        encoded = [*map(str.encode, labels)]
    except UnicodeEncodeError as error:
        position = labels.index(error.object)
        raise InvalidParameter(f"label {position} is not valid Unicode text") from None
    if not NEVER_LABELS.isdisjoint(map(str.strip, labels)):
        position = [label.strip() in NEVER_LABELS for label in labels].index(True)
        raise InvalidParameter(
            f'label {position} is "{labels[position]}", which stands for a missing value'
        )
    size = max(map(len, encoded), default=0)
    if size > MAX_LABEL_BYTES:
        position = [*map(len, encoded)].index(size)
        raise InvalidParameter(
            f"label {position} expects at most {MAX_LABEL_BYTES} bytes, found {size}"
        )
    return encoded
