"""MASKED-PARITY: a hidden mask and bit, which two rounds learn and one cannot (KLNRS08 section 5).

A concept is a mask r in {0,1}^d, d in 2..1024, and a bit a. Of a uniform example (x, i, b):

    c(x, i, b) = (-1)^(<r,x> + a)  if b = 0,      (-1)^(r_i)  if b = 1.

The half with b = 1 gives r away bit by bit; with r, a is read off the half with b = 0. Without r
a learner has to guess a parity over d bits: a non-adaptive one must ask exponentially much
(Theorem 5.1). Hence the class is learnable locally with interaction and not without. KLNRS08 has d
a power of two, so that i has log2 d bits; no expectation and no bound depends on that.

Round 1 needs all bits of r at once, and pays for the least certain one. Where it keeps a list of
the most likely masks instead, fewer users are enough for it, and round 2 finds the right one: of
the half with b = 0, y (-1)^<r',x> has the mean (-1)^a / 2 for r' = r and 0 for every other mask r'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from itertools import islice
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.learners.assessments import THE_TARGET, Assessment, Users, assess
from askance_aggregator.learners.conditions import Conditions
from askance_aggregator.learners.decisions import OneStandsOut, SignsListed
from askance_aggregator.learners.hypotheses import Document, JsonObject, hypothesis_of, parts_in
from askance_aggregator.learners.learner import Learner, adaptive
from askance_aggregator.learners.learning import Allocation, Answer, Batch, Learning, Question
from askance_aggregator.learners.parameters import Parameter, ParameterKind, whole
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.shapes import NoShape
from askance_aggregator.numbers import plain_arguments, whole_within
from askance_aggregator.queries import parity, predicate, signed, vector, where
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text
from askance_client.queries import Bit, Bits, Integer, Label, Query, Schema


def likely_patterns(values: Sequence[float], length: int) -> list[tuple[int, ...]]:
    """List the most likely patterns of signs of estimates with equal noise.

    A pattern that turns the signs of the values in a set S has the sum of |value| over S as its
    rank; the least come first, S empty before all. Sums are exact, and ties go by position, so that
    the list is a function of the values on every machine.

    There are `length` of them, or all where there are fewer; 1 stands for a negative sign.
    """
    signs = [int(value < 0) for value in values]
    order = sorted(range(len(values)), key=lambda place: (abs(values[place]), place))
    sizes = [Fraction(abs(values[place])) for place in order]
    patterns = []
    for turned in islice(_least_sums(sizes), length):
        bits = list(signs)
        for position in turned:
            bits[order[position]] ^= 1
        patterns.append(tuple(bits))
    return patterns


def _least_sums(sizes: Sequence[Fraction]) -> Iterator[tuple[int, ...]]:
    """Yield the subsets of positions in increasing order of their sums, the empty one first."""
    # Each non-empty subset is made once, from one with no greater sum: its last position was added
    # to it, or moved there from the position before.
    #
    # Sizes are not negative, in increasing order.
    yield ()
    heap: list[tuple[Fraction, tuple[int, ...]]] = [(sizes[0], (0,))] if sizes else []
    while heap:
        total, subset = heappop(heap)
        yield subset
        last = subset[-1]
        if last + 1 < len(sizes):
            following = sizes[last + 1]
            heappush(heap, (total + following, (*subset, last + 1)))
            heappush(heap, (total + following - sizes[last], (*subset[:-1], last + 1)))


MAX_D = 1024
SIGNED = "signed"
PRINTED = "printed"
VARIANTS = (SIGNED, PRINTED)
MAX_CANDIDATES = 512  # values that round 2 asks, of four nodes each: a query has 4,096 at most
BEST = "best"


@hypothesis_of("masked-parity")
@dataclass(frozen=True, slots=True)
class MaskedParity(JsonObject):
    """A concept of the class, and a hypothesis.

    Args:
        r: the mask; r[0] is the leftmost bit.
        a: 0 or 1.
    """

    json_name: ClassVar = "masked parity"
    json_keys: ClassVar = ("r=mask", "a")

    r: tuple[int, ...]
    a: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "r", tuple(int(bit) for bit in self.r))
        if not self.r or not set(self.r) <= {0, 1} or self.a not in (0, 1):
            raise InvalidParameter(
                f"MaskedParity expects bits r and a bit a, got r = {value_text(self.r)} and"
                f" a = {value_text(self.a)}"
            )

    @property
    def mask(self) -> str:
        """The mask as text, r[0] first."""
        return "".join(map(str, self.r))

    @classmethod
    def read(cls, document: Document) -> Self:
        """Read the concept; its mask is a text."""
        mask = document.text("r")
        if not set(mask) <= {"0", "1"}:
            raise InvalidParameter(
                f"{document.name}.r: expected a text of 0 and 1, got {value_text(mask)}"
            )
        return cls(r=tuple(map(int, mask)), **parts_in(cls, document))

    def predict(self, columns: Mapping[str, ArrayLike]) -> NDArray[np.int64]:
        """The labels 1 and -1 of rows, shape (n,).

        Columns are "x" of shape (n, d) with 0/1, "i" in 0..d-1 and "b" with 0/1, shape (n,).
        """
        mask = np.asarray(self.r, dtype=np.int64)
        x = np.asarray(columns["x"], dtype=np.int64).reshape(-1, len(mask))
        i = np.asarray(columns["i"], dtype=np.int64)
        b = np.asarray(columns["b"], dtype=np.int64)
        exponent = np.where(b == 1, mask[i], (x @ mask + self.a) % 2)
        return np.asarray(1 - 2 * exponent, dtype=np.int64)

    def to_shape(self) -> NoShape:
        """Return the reason why there is none."""
        return NoShape("a mask and a bit are one line of text")

    def __str__(self) -> str:
        return f"r = {self.mask}, a = {self.a}"


@plain_arguments
def masked_parity_schema(
    d: Annotated[int, "bits of the mask, 2..1024 (8 without data)"] = 8,
) -> Schema:
    """The records (x, i, b) with their label y."""
    whole_within(d, 2, MAX_D, "d")
    return Schema("masked-parity", 1, x=Bits(d), i=Integer(0, d - 1), b=Bit(), y=Label([1, -1]))


def _settle(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    """Set the number of candidates that needs the fewest users, unless it was given."""
    schema, variant = arguments["schema"], arguments["variant"]
    if arguments["candidates"] is not None or variant == PRINTED:
        return {}
    found = conditions.fewest_users(
        _open_candidates(schema),
        lambda number: masked_parity(schema, variant, candidates=number),
    )
    return {} if found is None else {"candidates": found}


def _open_candidates(schema: Schema) -> Iterator[int]:
    """Yield the numbers of masks that a plan may choose from: powers of two."""
    number = 1
    while number <= min(MAX_CANDIDATES, (1 << _width(schema)) - 1):
        yield number
        number *= 2


def _candidates(_: str, __: Schema, text: str | None) -> int | None:
    return None if text in (None, BEST) else whole("candidates", text)


@catalogued(
    summary="a hidden mask and bit, which two rounds learn and one cannot (KLNRS08 section 5)",
    error="share of the domain's labels that the hypothesis gets wrong",
    guess="the more frequent label",
    success=THE_TARGET,
    example=masked_parity_schema,
    population="masked-parity",
    small=SmallSettings(oracles={"d": "2"}),
)
@adaptive("masked-parity", version=1, settle=_settle)
def masked_parity(
    schema: Schema,
    variant: Annotated[
        str,
        Parameter(
            "signed: one question reads the mask; printed: d questions",
            choices=("signed", "printed"),
        ),
    ] = SIGNED,
    *,
    candidates: Annotated[
        int | None,
        Parameter(
            "masks that round 1 keeps, 1..512; best: as many as need the fewest users",
            ParameterKind.TEXT,
            default=BEST,
            read=_candidates,
        ),
    ] = None,
) -> Learning[MaskedParity]:
    """Read the mask from the half that shows it, then the bit from the other half.

    Utility: exact whenever every answer is within its tolerance. Users needed at eps <= 1, up to
    constants: variant "signed" d^2 ln d / eps^2, variant "printed" d^3 ln d / eps^2. A list of
    about d candidates halves the users of "signed".

    Args:
        schema: `masked_parity_schema(d)`.
        variant: "signed": round 1 is one categorical question, for the pairs (i, y) with b = 1 are
            disjoint, and both labels count. "printed": d predicates, a fresh group of users each,
            as KLNRS08 has it.
        candidates: number of masks that round 1 keeps, 1..512 and less than 2^d; above 1, round 2
            finds the right one among them, and a, by one vector question with a value per mask.
            None: left to the planner; a study takes the power of two that needs the fewest users,
            and a learner that is run by itself keeps 1.

    Raises:
        InvalidParameter: the schema is another one, the variant has another name, or candidates is
            out of range, or above 1 for the printed variant.

    Source: KLNRS08 section 5; deviations: the text's E[g_j] = "1/2^d" is 1/(2d); d need not be a
        power of two; the list.

    Example:
        >>> people = ask.Population.generated("masked-parity", users=4_000, d=4)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> ask.learn(ask.learners.masked_parity(), oracle) == people.target
        True
    """
    if variant not in VARIANTS:
        raise InvalidParameter(f"variant: {unknown_text(variant, VARIANTS)}")
    most = 1 if variant == PRINTED else min(MAX_CANDIDATES, (1 << _width(schema)) - 1)
    kept = 1 if candidates is None else candidates
    if isinstance(kept, bool) or not isinstance(kept, int) or not 1 <= kept <= most:
        raise InvalidParameter(
            f"candidates: expected a whole number in 1..{most} for the variant {variant} and"
            f" d = {_width(schema)}, got {value_text(candidates)}"
        )
    if variant == PRINTED:
        return _two_rounds(schema, read_mask_as_printed)
    return _two_rounds(schema, read_mask) if kept == 1 else _by_list(schema, kept)


def _two_rounds(
    schema: Schema, read: Callable[[Schema], Learning[tuple[int, ...]]]
) -> Learning[MaskedParity]:
    r = yield from read(schema)
    a = yield from read_bit(schema, r)
    return MaskedParity(r, a)


def _by_list(schema: Schema, candidates: int) -> Learning[MaskedParity]:
    masks = yield from list_masks(schema, candidates)
    return (yield from find_mask(schema, masks))


def list_masks(schema: Schema, candidates: int) -> Learning[list[tuple[int, ...]]]:
    """Round 1 for a list: the question of `read_mask`, and the most likely masks by its answer."""
    d = _width(schema)
    share = Fraction(1, 2 * d)
    listed = SignsListed(d, candidates)
    question = Question(_mask_query(schema, d), tau=share, cell_mass=share, decision=listed)
    (answer,) = yield Batch([question])
    return likely_patterns(answer.values, candidates)


def find_mask(schema: Schema, masks: Sequence[tuple[int, ...]]) -> Learning[MaskedParity]:
    """Round 2 for a list: E[y (-1)^<r',x> 1[b=0]] is (-1)^a / 2 for the mask, 0 for others."""
    # One of the masks has to be right.
    hidden, negative = schema["b"] == 0, schema["y"] == "-1"
    signs = [where(hidden, where(negative != parity(schema["x"], r), -1, 1), 0) for r in masks]
    stands_out = OneStandsOut(len(masks))
    question = Question(vector(signs, -1, 1), tau=Fraction(1, 4), decision=stands_out)
    (answer,) = yield Batch([question])
    place = max(range(len(masks)), key=lambda one: abs(answer.values[one]))
    return MaskedParity(masks[place], int(answer.values[place] < 0))


def read_mask(schema: Schema) -> Learning[tuple[int, ...]]:
    """Round 1, one signed question: E[y 1[b=1, i=j]] is 1/(2d) if r_j is 0, else -1/(2d)."""
    # Pair j holds the examples with b = 1 and i = j, a 1/(2d) of all, so its sign follows from any
    # answer that is off by less than 1/(2d).
    d = _width(schema)
    share = Fraction(1, 2 * d)
    (answer,) = yield Batch([Question(_mask_query(schema, d), tau=share, cell_mass=share)])
    return tuple(int(value < 0) for value in answer.values)


def read_mask_as_printed(schema: Schema) -> Learning[tuple[int, ...]]:
    """Round 1 of KLNRS08: g_j = [i=j, b=1, y=-1], E[g_j] = 1/(2d) if r_j = 1, else 0."""
    d = _width(schema)
    share, tau = Fraction(1, 2 * d), Fraction(1, 4 * d)
    shown = (schema["b"] == 1) & (schema["y"] == "-1")
    questions = [
        Question(predicate((schema["i"] == j) & shown), tau=tau, cell_mass=share) for j in range(d)
    ]
    answers: tuple[Answer, ...] = yield Batch(questions, allocation=Allocation.FRESH)
    return tuple(int(answer.value > tau) for answer in answers)


def read_bit(schema: Schema, r: tuple[int, ...]) -> Learning[int]:
    """Round 2: g = [b=0, y != (-1)^<r,x>], E[g] = a/2; this gap does not shrink with d."""
    wrong = (schema["y"] == "-1") != parity(schema["x"], r)
    tau = Fraction(1, 4)
    (answer,) = yield Batch([Question(predicate((schema["b"] == 0) & wrong), tau=tau)])
    return int(answer.value > tau)


def _mask_query(schema: Schema, d: int) -> Query:
    pair = 2 * schema["i"] + (schema["y"] == "-1")
    return signed(where(schema["b"] == 1, pair, 2 * d))


def _width(schema: Schema) -> int:
    """d, where the schema is the one for masked parity; its name and version do not matter."""
    if not isinstance(schema, Schema):
        raise InvalidParameter(f"masked parity expects a Schema, found {type(schema).__name__}")
    bits = schema.fields.get("x")
    if isinstance(bits, Bits):
        expected = masked_parity_schema(bits.width)
        if dict(schema.fields) == dict(expected.fields):
            return bits.width
    raise InvalidParameter(
        "masked-parity: expected the fields x, i, b and y, as the population masked-parity has"
        f" them, got {', '.join(schema.fields):.80}"
    )


@assess.register
def _(hypothesis: MaskedParity, learner: Learner[Any], users: Users) -> Assessment:
    """Return the share of the uniform domain that is labelled wrongly, exactly."""
    target = users.target
    if not isinstance(target, MaskedParity):
        return Assessment(None, None)
    wrong = sum(one != other for one, other in zip(hypothesis.r, target.r, strict=True))
    shown = wrong / len(target.r)  # the half with b = 1
    hidden = 0.5 if wrong else float(hypothesis.a != target.a)  # two different parities: half
    negative = (sum(target.r) / len(target.r) + (0.5 if any(target.r) else target.a)) / 2
    error = (shown + hidden) / 2
    return Assessment(hypothesis == target, error, baseline=min(negative, 1 - negative))
