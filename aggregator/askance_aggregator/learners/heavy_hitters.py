"""The most frequent values of a large domain, prefix by prefix (`prefixes`)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, nextafter
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import Assessment, Users, assess, chunks
from askance_aggregator.learners.conditions import Conditions
from askance_aggregator.learners.decisions import SharesKept
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of, written
from askance_aggregator.learners.learner import Adaptive, Learner, Rehearsal, adaptive
from askance_aggregator.learners.learning import (
    Answer,
    Answers,
    Batch,
    Learning,
    Question,
    half_width,
)
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.parameters import Parameter, ParameterKind, Tau, one_of
from askance_aggregator.learners.prefixes import (
    MAX_CANDIDATES,
    MAX_PREFIXES,
    Domain,
    Value,
    length_of,
    text_of,
)
from askance_aggregator.learners.presentation import EstimateRow, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.schemas import words_schema
from askance_aggregator.learners.shapes import FrequentValues, NoShape, ResultShape
from askance_aggregator.names import names_in, names_text
from askance_aggregator.numbers import Rational, rational
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Bits, Category, Integer, Schema
from askance_client.records import NOTHING

_SHOWN = 3  # values of each kind in the text of an assessment; all are in its details
_THRESHOLD = Fraction(1, 10)  # where neither it nor the users are known
_PARTS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)  # thresholds: 1 / part
_MOST_BITS = 8  # of a study that leaves it to no plan
_PLANNED = 0  # bits that the plan chooses
_BYTES = 256
_DOUBTFUL = 10  # bytes of a text that are tried with the second: 1,024 texts against 26 bits
_LIST_BYTES = 200_000  # of candidates: a signed study has 256 KiB at most
MAX_CELLS = 65536  # and one for all others; a round's answer stays some 7 MB


@dataclass(frozen=True, slots=True)
class HeavyHitter(JsonObject):
    """A frequent value.

    Args:
        value: text of 0 and 1, a whole number or a label, as in the table of `prefixes`.
        estimate: its raw share, from the last round's users alone.
        low: of the interval that holds jointly with all others.
    """

    value: Value
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class OtherValues(JsonObject):
    """Users whose value is none of the candidates, or who have none: their share in [0, 1]."""

    candidates: int  # number of values in the list
    share: float
    low: float  # of the interval that holds jointly with all others
    high: float

    def __str__(self) -> str:
        return (
            f"{100 * self.share:.1f} % of users have none of the {self.candidates:,} candidates"
            f" ({100 * self.low:.1f} % .. {100 * self.high:.1f} %)"
        )


@hypothesis_of("heavy-hitters")
@dataclass(frozen=True, slots=True)
class HeavyHitters(JsonObject):
    """The values that were found frequent, the most frequent first.

    Args:
        threshold: the share of all users from which on a value counts as frequent.
        without: share of users without a value, if the category has the label "(missing)" and it is
            frequent. None: there is no such label, or its share is below the threshold.
        within: half of the widest interval of all rounds: every value with a share above `certain`
            is found, jointly with the estimates. None: not known.
        others: of a list of candidates: the users who have none of them, or no value at all.
    """

    json_name: ClassVar = "heavy-hitters"
    json_keys: ClassVar = (
        "summary",
        "column",
        "threshold",
        "found",
        "missing=without",
        "within?",
        "others?",
    )

    column: str
    threshold: Fraction
    found: tuple[HeavyHitter, ...]
    without: MissingShare | None = None
    within: float | None = None
    others: OtherValues | None = None

    @property
    def certain(self) -> float | None:
        """Share above which a value is found if all intervals hold; None: not known."""
        within = self.within
        return None if within is None else within + max(within, float(self.threshold))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; without a list of candidates it has no key `others`."""
        return {key: one for key, one in written(self).items() if (key, one) != ("others", None)}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per value; none if no value is frequent."""
        return [item.to_json() for item in self.found]

    def present(self) -> Presentation:
        """Return a row per value that was found frequent."""
        rows = tuple(
            EstimateRow(str(item.value), item.estimate, item.low, item.high) for item in self.found
        )
        beside = (share for share in (self.without, self.others) if share is not None)
        notes = tuple(f"{share}, joint with the estimates" for share in beside)
        return Presentation(
            rows, shares=True, lines=(self._line(),), notes=notes, subject=self.column
        )

    def _line(self) -> str:
        """Format the threshold, and the share above which no value is missed."""
        told = f"share of {self.threshold} or more"
        if not self.found:
            told = f"no value has a {told}"
        if self.certain is None:
            return told
        if self.certain >= 1:
            return f"{told}; so few answers may miss any value"
        value = "value" if self.others is None else "candidate"
        return f"{told}; a {value} with more than {100 * self.certain:.3g} % is not missed"

    def to_shape(self) -> ResultShape:
        """Return the values against the threshold."""
        if not self.found:
            return NoShape(f"no value has a share of {self.threshold} or more")
        return FrequentValues(float(self.threshold))

    def __str__(self) -> str:
        told = ", ".join(f"{item.value}: {item.estimate:.3g}" for item in self.found)
        missing = "" if self.without is None else f"; {self.without}"
        return f"{self.column} at {self.threshold} or more: {told or 'none'}{missing}"


def _settle(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    """Set what was not given: a threshold that the users allow, and the bits of a round."""
    # That the plan chooses the bits is signed with the study: one that was signed without them
    # extends prefixes by 8 or fewer. Without users a tolerance to plan by is set. Of texts tau is
    # set too: the second look needs fewer users than the rounds before it.
    listed = arguments["candidates"] is not None
    if conditions.signing:
        return {"bits": _PLANNED} if arguments["bits"] is None and not listed else {}
    threshold, tau = arguments["threshold"], arguments["tau"]
    if tau is None and conditions.users is None:
        share = _THRESHOLD if threshold is None else threshold
        chosen = {"threshold": share, "tau": share / 2}
    elif tau is None and threshold is None:
        chosen = _threshold_kept(arguments, conditions)
    else:
        chosen = {}
    if arguments["bits"] != _PLANNED:
        return chosen
    bits = _fewest_users({**arguments, **chosen}, conditions)
    return chosen if bits is None else {**chosen, "bits": bits}


def _threshold_kept(arguments: Mapping[str, Any], conditions: Conditions) -> dict[str, Any]:
    """Return the least threshold whose half the users keep as tau."""

    def kept(place: int) -> bool:
        share = Fraction(1, _PARTS[place])
        asked = {**arguments, "threshold": share, "tau": share / 2}
        if asked["bits"] == _PLANNED:
            asked["bits"] = _fewest_users(asked, conditions)
        needed = conditions.needed(_heavy_hitters(**asked))
        return needed is not None and needed <= (conditions.users or 0)

    fits = bisect_left(range(len(_PARTS)), True, key=lambda place: not kept(place))
    share = Fraction(1, _PARTS[max(fits - 1, 0)])
    texts = Domain(arguments["schema"], arguments["column"]).of_texts
    looks_again = fits and texts and arguments["candidates"] is None
    return {"threshold": share, "tau": share / 2 if looks_again else None}


def _fewest_users(arguments: Mapping[str, Any], conditions: Conditions) -> int | None:
    """Return the bits of a round with which the fewest users are needed, by rising rounds."""
    threshold = arguments["threshold"]
    tau = threshold / 2 if arguments["tau"] is None else arguments["tau"]
    domain, most = Domain(arguments["schema"], arguments["column"]), _most(threshold, tau)
    by_rounds = {
        len(_lengths(domain.width, bits, most)): bits
        for bits in range(_most_bits(domain.width, most), 0, -1)
    }
    return conditions.fewest_users(
        [by_rounds[rounds] for rounds in sorted(by_rounds)],
        lambda bits: _heavy_hitters(**{**arguments, "tau": tau, "bits": bits}),
    )


def _rehearse(arguments: Mapping[str, Any]) -> Rehearsal:
    return _Rehearsal(_most(arguments["threshold"], arguments["tau"]))


@adaptive("heavy-hitters", version=1, settle=_settle, rehearse=_rehearse)
def _heavy_hitters(
    schema: Schema,
    column: str,
    threshold: Fraction | None,
    bits: int | None,
    tau: Fraction | None,
    candidates: str | None,
) -> Learning[HeavyHitters]:
    domain, most = Domain(schema, column), _most(threshold, tau)
    share = _THRESHOLD if threshold is None else threshold
    if candidates is not None:
        if bits is not None:
            raise InvalidParameter(f"bits: expected none with candidates, got {value_text(bits)}")
        return _among(domain, share, tau, candidates)
    if bits is None or (bits == _PLANNED and not isinstance(bits, bool)):
        bits = _fewest_rounds(domain.width, most)
    if isinstance(bits, bool) or not 1 <= bits <= _most_bits(domain.width, most):
        raise InvalidParameter(
            f"bits expects a whole number from 1 on that makes at most {MAX_CELLS} cells of {most}"
            f" prefixes, found {bits}"
        )
    domain.extensions([0], 0, 1)  # refused here, if it cannot be asked about
    return _search(domain, share, tau, _lengths(domain.width, bits, most), most)


@catalogued(
    summary="the most frequent values of a large domain, prefix by prefix",
    error="greatest distance from the threshold of a share whose value is wrongly found or missed",
    guess="no value is frequent",
    success="every value of that share found and no other",
    example=lambda: words_schema(16),
    population="words",
    small=SmallSettings(
        oracles={"width": "8", "words": "8", "threshold": "1/4", "bits": "2", "tau": "1/10"},
        fleets={"width": "4", "words": "3", "threshold": "2/5", "bits": "1", "tau": "1/5"},
    ),
    made_by=_heavy_hitters,
)
def heavy_hitters(
    schema: Schema,
    column: Annotated[
        str,
        Parameter(
            "bits, a whole number or a category (default: the only one)",
            ParameterKind.FIELD,
            read=one_of(Bits, Integer, Category),
        ),
    ],
    threshold: Annotated[
        Rational | None,
        "the share from which on a value is frequent (default: the least of 1/2 .. 1/100 that users"
        " and epsilon allow)",
    ] = None,
    bits: Annotated[
        int | None, "by how many a prefix is extended in a round (default: what needs fewest users)"
    ] = None,
    tau: Tau = None,
    candidates: Annotated[
        Sequence[str | int] | None,
        Parameter(
            "the only values that are looked for, in one round; --candidates FILE has one per line"
            " (default: all that the column can have)",
            ParameterKind.VALUES,
        ),
    ] = None,
) -> Adaptive[HeavyHitters]:
    """The values that many have, among more values than could be asked about one by one.

    A value is a string of bits (the table of `prefixes`). Each round asks one categorical
    question of fresh users: which of the prefixes that are left does your value begin with, and how
    does it go on for `bits` bits (the first round: for as many more as make its cells no more than
    the later ones'); else "other". Prefixes of an estimated share below the threshold are dropped.

    Utility: if every answer is within tau, every value with a share of at least threshold + tau
    is found and none with one of threshold - tau or less: a prefix has at least the share of each
    value that begins with it. Fewer than 1/(threshold - tau) = m prefixes are left at any time, so
    a question has at most m 2^bits + 1 cells; about (width - log2 m) / bits rounds. Found shares
    have joint intervals. (To keep what has its whole interval above the threshold would find none
    wrongly and promise less of what is found.) Users: of the order
    rounds log(m 2^bits rounds) / (epsilon tau)^2. More cells cost little and a round costs
    all its users: for 16 bits one question over all cells takes the fewest at epsilon .25 to 16,
    41,666 at 1 with a threshold of 1/10. Without `bits` a study's plan compares the numbers of
    rounds that 65,536 cells allow, and takes what needs the fewest users; what was signed without
    it extends prefixes by the fewest bits, 8 at most, that make the fewest rounds.

    With candidates one question has a cell for each, and cell 0 for all other values: of texts it
    needs less than a tenth of the users. A device compares the list with the first bits of its
    value (`Domain.among`): a text that is not in the list is counted as one that is with a chance
    of 2^-26 per candidate of its length. The list is signed with the study, and devices see it.

    Without a tau all users are asked, m is that of tau = threshold / 2, and a value is found if its
    interval excludes 0 too; the hypothesis states the share above which none is missed. Without
    either, the threshold is the least for which the users keep threshold / 2. A plan without users
    is made for that tau.

    Raises:
        InvalidParameter: no such field (256 bits at most: texts of 32 bytes), a threshold outside
            (0, 1), tau not below it by 1/256 at least, too many cells, bits beside candidates, or
            candidates that are none, too many, too long or no values of the field.

    Source: prefix trees over statistical queries: the interactive local model of KLNRS08 section 5.

    Example:
        >>> people = ask.Population.generated("words", users=2_000, width=8, words=4)
        >>> oracle = ask.ExactOracle(people.schema, people.columns(0, people.size))
        >>> found = ask.learn(
        ...     ask.learners.heavy_hitters(people.schema, "word", threshold="1/10"), oracle
        ... )
        >>> len(found.found) > 0
        True
    """
    off = None if tau is None else rational(tau, "tau")
    share = None if threshold is None else rational(threshold, "threshold")
    if share is None and off is not None:
        share = _THRESHOLD
    listed = None if candidates is None else names_text(dict.fromkeys(map(str, candidates)))
    return _heavy_hitters(schema, column, share, bits, off, listed)


def _among(
    domain: Domain, threshold: Fraction, tau: Fraction | None, text: str
) -> Learning[HeavyHitters]:
    """Ask for every candidate in one question."""
    # Raises InvalidParameter: no candidate, too many, or one that the field cannot have.
    candidates = names_in(text)
    if not 1 <= len(candidates) <= MAX_CANDIDATES:
        raise InvalidParameter(
            f"candidates: expected 1 to {MAX_CANDIDATES:,} values, got {len(candidates):,}"
        )
    if (size := len(text.encode())) > _LIST_BYTES:
        raise InvalidParameter(
            f"candidates: expected at most {_LIST_BYTES:,} bytes of text, got {size:,}"
        )
    names = dict(sorted((domain.bits_of(name), name) for name in candidates))
    query, values = domain.among([*names]), [*names.values()]

    def learning() -> Learning[HeavyHitters]:
        (answer,) = yield Batch([Question(query, tau=tau, decision=SharesKept(query.cells))])
        kept = {cell: values[cell - 1] for cell in _frequent(answer, threshold)}
        found, share = _sure(answer, kept, tau), min(max(answer.values[0], 0.0), 1.0)
        others = OtherValues(len(values), share, answer.lows[0], answer.highs[0])
        within = half_width(answer)
        return HeavyHitters(domain.column, threshold, found, within=within, others=others)

    return learning()


def _sure(
    answer: Answer, names: Mapping[int, Value], tau: Fraction | None
) -> tuple[HeavyHitter, ...]:
    """Return the values of some cells; without a tau those whose interval excludes 0."""
    return tuple(
        HeavyHitter(name, answer.values[cell], answer.lows[cell], answer.highs[cell])
        for cell, name in names.items()
        if tau is not None or answer.lows[cell] > 0
    )


def _search(
    domain: Domain, threshold: Fraction, tau: Fraction | None, lengths: Sequence[int], most: int
) -> Learning[HeavyHitters]:
    """Every value that is frequent enough begins with one of the prefixes."""
    prefixes, length, within = [0], 0, 0.0
    for until in lengths:
        query = domain.extensions(prefixes, length, until)
        all_kept = domain.extensions(range(min(most, domain.beginnings(length))), length, until)
        (answer,) = yield Batch([Question(query, tau=tau, decision=SharesKept(all_kept.cells))])
        within = max(within, half_width(answer))
        ways = until - length
        extended = {
            cell: prefixes[(cell - 1) >> ways] << ways | ((cell - 1) % (1 << ways))
            for cell in _frequent(answer, threshold)
        }
        held = [cell for cell, prefix in extended.items() if domain.holds(prefix, until)]
        kept = sorted(held[:most])  # more are left if answers are off by tau
        prefixes, length = [extended[cell] for cell in kept], until
        if not prefixes:
            break
    names = {bits: domain.value(bits) for bits in prefixes}
    if domain.of_texts and prefixes:
        off = None if tau is None else (threshold + tau) / 2
        names |= yield from _texts(domain, prefixes, off, most)
    named = {cell: names[bits] for bits, cell in zip(prefixes, kept, strict=True)}
    found = sorted(_sure(answer, named, tau), key=lambda item: -item.estimate)
    values = tuple(item for item in found if item.value != NOTHING)
    nothing = [item for item in found if item.value == NOTHING]
    missing = [MissingShare(max(item.estimate, 0.0), item.low, item.high) for item in nothing]
    without = missing[0] if missing else None
    return HeavyHitters(domain.column, threshold, values, without, within)


def _texts(
    domain: Domain, heads: Sequence[int], tau: Fraction | None, most: int
) -> Learning[dict[int, Value]]:
    """Look again at the texts of the heads that were found: every byte of them, in one round."""
    # The bytes of a text are the most frequent of its head, or among the two most frequent of the
    # places where these are nearest: the hash tells. A text that it does not confirm has no name.
    #
    # Utility: a value that is sure to be found has a share of threshold + tau at least, so half of
    # that is exact enough to tell its bytes from others.
    longest = max(map(length_of, heads))
    if not longest:
        return {}
    answers = yield Batch(
        Question(domain.letters(heads, place), tau=tau, decision=SharesKept(1 + _BYTES * most))
        for place in range(longest)
    )
    names: dict[int, Value] = {}
    for at, head in enumerate(heads):
        cells = slice(1 + _BYTES * at, 1 + _BYTES * (at + 1))
        shares = np.array([answer.values[cells] for answer in answers[: length_of(head)]])
        if (text := _confirmed(head, shares)) is not None:
            names[head] = text
    return names


def _confirmed(head: int, shares: NDArray[np.float64]) -> str | None:
    """Return the text of a head by the shares of its bytes, shape (length, 256)."""
    best = np.argsort(-shares, axis=1)[:, :2]
    margins = np.diff(np.take_along_axis(shares, best, 1), axis=1)[:, 0]
    doubtful = np.argsort(-margins)[:_DOUBTFUL]
    for change in range(1 << len(doubtful)):
        chosen = best[:, 0].copy()
        changed = [place for bit, place in enumerate(doubtful) if change >> bit & 1]
        chosen[changed] = best[changed, 1]
        if (text := text_of(head, bytes(chosen.tolist()))) is not None:
            return text
    return None


def _frequent(answer: Answer, threshold: Fraction) -> list[int]:
    """The cells of a share of the threshold or more, the greatest first; cell 0 is all others."""
    least = float(threshold)
    least = least if least >= threshold else nextafter(least, 1)
    values = np.array(answer.values)
    order = np.argsort(-values, kind="stable")[: (values >= least).sum()]
    return [cell for cell in order.tolist() if cell]


@dataclass(frozen=True, slots=True)
class _Rehearsal:
    """Answers of a rehearsal: as many prefixes are kept in each round as possible."""

    most: int

    def __call__(self, batch: Batch) -> Answers:
        answers = []
        for question in batch.questions:
            kept = min(self.most, question.values - 1)
            values = (0.0, *(1.0,) * kept, *(0.0,) * (question.values - 1 - kept))
            answers.append(Answer(values, values, values))
        return tuple(answers)


def _most(threshold: Fraction | None, tau: Fraction | None) -> int:
    """Bound the number of prefixes with a share of more than threshold - tau."""
    threshold = _THRESHOLD if threshold is None else threshold
    tau = threshold / 2 if tau is None else tau
    if not 0 < threshold < 1:
        raise InvalidParameter(f"threshold expects a share in (0, 1), got {value_text(threshold)}")
    if not 0 < tau < threshold or (least := threshold - tau) * MAX_PREFIXES < 1:
        raise InvalidParameter(
            f"tau expects a positive number, below the threshold by 1/{MAX_PREFIXES} at least,"
            f" got {value_text(tau)}"
        )
    return ceil(1 / least) - 1


def _fewest_rounds(width: int, most: int) -> int:
    """Choose how many bits a round adds: the fewest that make the fewest rounds."""
    return min(range(1, _MOST_BITS + 1), key=lambda bits: len(_lengths(width, bits, most)))


def _most_bits(width: int, most: int) -> int:
    """Bound the bits of a round by its cells; where one round has all values, by their bits."""
    if 1 << width <= MAX_CELLS:
        return max(width, (MAX_CELLS // most).bit_length() - 1)
    return (MAX_CELLS // most).bit_length() - 1


def _lengths(width: int, bits: int, most: int) -> tuple[int, ...]:
    """Choose the prefix lengths of the rounds; the first has as many cells as the others."""
    start = min(width, bits + most.bit_length() - 1)
    return (start, *range(start + bits, width, bits), *([width] if start < width else []))


@assess.register
def _(hypothesis: HeavyHitters, learner: Learner[Any], users: Users) -> Assessment:
    """Judge the values found by all users' shares; right if they are the frequent ones."""
    # The error is the greatest distance of a share on the wrong side of the threshold. Within tau
    # of the threshold the learner promises neither that a value is found nor that it is not: such
    # values are listed as borderline, and count as missed or wrong all the same. Where no tau was
    # given, it is half of the widest interval.
    shares = census(hypothesis.column, users)
    listed = learner.parameters.get("candidates")
    if listed is not None:
        domain = Domain(users.schema, hypothesis.column)
        listing = sorted((domain.bits_of(name), name) for name in names_in(listed))
        named = {domain.named_bits(bits): name for bits, name in listing}  # as `_among` names them
        shares = {name: shares[value] for value, name in named.items() if value in shares}
    threshold, given = hypothesis.threshold, learner.parameters.get("tau")
    tau = hypothesis.within or 0.0 if given is None else Fraction(given)
    found = [item.value for item in hypothesis.found]
    true = [value for value, share in shares.items() if share >= threshold]
    missed = [value for value in true if value not in found]
    wrong = [value for value in found if shares.get(value, Fraction(0)) < threshold]
    near = [value for value, share in shares.items() if abs(share - threshold) <= tau]
    off = [abs(shares.get(value, Fraction(0)) - threshold) for value in (*missed, *wrong)]
    lists = {"true": true, "found": found, "missed": missed, "wrong": wrong, "borderline": near}
    return Assessment(
        success=not missed and not wrong,
        error=float(max(off, default=Fraction(0))),
        truth=tuple(float(shares.get(value, 0)) for value in found),
        baseline=float(max([Fraction(0), *(shares[value] - threshold for value in true)])),
        details={name: _with_shares(values, shares) for name, values in lists.items()},
        summary=_found_text(lists, shares, threshold),
    )


def _with_shares(
    values: Iterable[Value], shares: Mapping[Value, Fraction]
) -> list[dict[str, Value | float]]:
    """Return values with their true shares, the most frequent first."""
    told = sorted(values, key=lambda value: (-shares.get(value, Fraction(0)), str(value)))
    return [{"value": value, "share": float(shares.get(value, 0))} for value in told]


def _found_text(
    lists: Mapping[str, list[Value]], shares: Mapping[Value, Fraction], threshold: Fraction
) -> str:
    """Format the counts of an assessment, with the values that are missed or wrong."""
    true, missed, wrong = (lists[name] for name in ("true", "missed", "wrong"))
    told = [f"found {len(true) - len(missed)} of {len(true)} with a share of {threshold} or more"]
    for name, values in (("missed", missed), ("wrongly found", wrong)):
        if values:
            shown = _with_shares(values, shares)[:_SHOWN]
            texts = [f"{item['value']} ({item['share']:.3g})" for item in shown]
            more = [f"{len(values) - _SHOWN} more"] if len(values) > _SHOWN else []
            told.append(f"{name} {', '.join([*texts, *more])}")
    excused = sum(value in lists["borderline"] for value in (*missed, *wrong))
    if excused:
        told.append(f"{excused} of these borderline: within tau of the threshold")
    return "; ".join(told)


def census(column: str, users: Users) -> dict[Value, Fraction]:
    """Compute the share of every value that occurs; the label "(missing)" is no value."""
    domain = Domain(users.schema, column)
    counts: Counter[Value] = Counter()
    for columns in chunks(users):
        values, present = columns.values[column], columns.present[column]
        grid = np.stack(values if isinstance(values, tuple) else [values])[:, present]
        distinct, times = np.unique(grid, axis=1, return_counts=True)
        named = [domain.named(tuple(row)) for row in distinct.T.tolist()]
        counts.update(dict(zip(named, times.tolist(), strict=True)))
    del counts[NOTHING]
    return {value: Fraction(count, users.size) for value, count in counts.items()}
