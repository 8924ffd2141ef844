"""Verdict on a result: its facts as one value, and the sentences that state them.

A `ResultVerdict` holds what was estimated and with which intervals, the true values where they are
known, the error beside a constant guess's and exact answers', the users without a value, whether
users lied, and what would help. A simulation and a deployed study make one each; terminals,
notebooks, the console and JSON show its sentences. No other module words them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from askance_aggregator.learners.assessments import CONSTANT, Assessment, Measure
from askance_aggregator.reports.figures import level_text, number_text, share_text
from askance_aggregator.reports.texts import counted

if TYPE_CHECKING:
    from askance_aggregator.learners.missing import MissingShare
    from askance_aggregator.learners.presentation import Presentation

_NO_TARGET = (
    "these users have no target, and no rows without a user were kept (in Python:"
    " held_out=1/5 where the data is read)"
)
_NARROW = 4  # an interval this many times narrower than before any user was asked tells something
_WHOLE = 0.95  # of what was possible before: an interval this wide tells nothing
_ROUNDING = 1e-12  # of sums of floats; an interval of exact answers has no width
_FAR = 0.5  # of the way from the guess to exact answers
_MOST_NAMED = 3  # of what is not covered; of more there is the number
_QUARTERS = 4  # ranges, or more, that the intervals of a number's shares should tell apart
_WHOLE_FROM = 1000  # ends of bounds are shown whole
_TOO_FEW = "Measured on too few rows to be told from guessing: "
_CONSTANT_MODEL = (
    "No better than guessing: the model is a constant, for so few users at this epsilon can tell"
    " no more."
)


class Placement(Enum):
    """Place of an error between a constant guess and exact answers."""

    UNKNOWN = auto()  # no error, or no guess to compare it with
    UNANSWERED = auto()
    RIGHT = auto()
    NO_BETTER = auto()  # than the guess
    FAR = auto()  # nearer to the guess than to exact answers
    BETTER = auto()
    NEAR_GUESS = auto()  # narrow intervals, and a guess that happens to lie in them


@dataclass(frozen=True, slots=True)
class WideBounds:
    """Bounds of a column that are far too wide for its values, and what narrower ones would give.

    It is read from the values themselves, which only a simulation may do.

    Args:
        bounds: of the schema.
        half: shortest span with half of the users.
        narrower: bounds that would do.
        clamped: share of users beyond them.
        half_width: of the column's estimate with these bounds; None: it has no estimate of its own.
        move: change of the true value of the estimate, by the users beyond; None likewise.
        estimate: name of the estimate, in a sentence.
    """

    column: str
    bounds: tuple[float, float]
    half: tuple[float, float]
    narrower: tuple[float, float]
    clamped: float
    half_width: float | None = None
    move: float | None = None
    estimate: str = "mean"

    def __str__(self) -> str:
        beyond = f"{share_text(self.clamped)} of users are clamped"
        is_one = self.half[0] == self.half[1]
        lie = f"have the value {_end(self.half[0])}, within" if is_one else "lie within"
        where = "" if is_one else f" {_span(self.half)} of"
        if self.half_width is None or self.move is None:
            whole, part = (high - low for low, high in (self.bounds, self.narrower))
            gain = f"its noise would be {whole / part:.2g} times smaller, and {beyond}"
        else:
            moved = f"the {self.estimate} moves by about {_figure(self.move, 2)}"
            width = _figure(self.half_width, 2)
            gain = f"the interval would be about +- {width}; {beyond} and {moved}"
        return (
            f"not private, read from the data: half of the users {lie}{where} the bounds"
            f" {_span(self.bounds)} of {self.column}; with bounds {_span(self.narrower)} {gain}"
        )


@dataclass(frozen=True, slots=True)
class ResultVerdict:
    """Facts that a result is judged by; trial 0's, where a fact is not of all trials.

    Args:
        presentation: of the hypothesis: its estimates with intervals, and the missing shares.
        confidence: of all intervals jointly.
        users: number of users.
        epsilon: budget per user; None: not known.
        assessments: one per trial; none: the truth is not known, as of a deployed study.
        reference: the same learner's error with exact answers, the mean over trials; None: it was
            not computed.
        success: what a success of the learner is, in a few words; empty: nothing is claimed.
        answered: whether any user answered.
        lying: whether some users lie.
        unasked: how many times as wide as in the result the intervals were before any user was
            asked, at most; 0: not known.
        reused: number of answers that were first given to another study.
        advice: what would help, in a few words each.
        warnings: defects of the data, a sentence each.
        wide: columns whose bounds are far too wide for their values.
    """

    presentation: Presentation
    confidence: float
    users: int
    epsilon: float | None = None
    assessments: tuple[Assessment, ...] = ()
    reference: float | None = None
    success: str = ""
    answered: bool = True
    lying: bool = False
    unasked: float = 0.0
    reused: int = 0
    advice: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    wide: tuple[WideBounds, ...] = ()

    @property
    def error(self) -> float | None:
        """Mean error over trials; None: a trial has none."""
        return mean_of([assessment.error for assessment in self.assessments])

    @property
    def baseline(self) -> float | None:
        """Mean error of the constant guess over trials; None: a trial has none."""
        return mean_of([assessment.baseline for assessment in self.assessments])

    @property
    def successes(self) -> int | None:
        """Number of trials that are right; None: a trial is neither right nor wrong."""
        found = [assessment.success for assessment in self.assessments]
        return None if None in found else sum(map(bool, found))

    @property
    def placement(self) -> Placement:
        """Place of the error between a constant guess and exact answers."""
        if not self.answered:
            return Placement.UNANSWERED
        if not self.assessments:
            return Placement.UNKNOWN
        error, baseline, first = self.error, self.baseline, self.assessments[0]
        if first.reach is None and self.successes == len(self.assessments):
            return Placement.RIGHT
        if error is None or baseline is None:
            return Placement.UNKNOWN
        if self.holds_guess and first.reach is not None:
            reach = first.reach
            known = reach.unasked if reach.spread is None else min(reach.unasked, reach.spread)
            narrow = reach.within * _NARROW <= known
            exact = narrow and error <= first.reach.within
            return Placement.NEAR_GUESS if exact else Placement.NO_BETTER
        if error >= baseline - first.margin:
            return Placement.NO_BETTER
        best = 0.0 if self.reference is None else self.reference
        known = self.reference is not None and best < baseline
        far = known and baseline - error < _FAR * (baseline - best)
        return Placement.FAR if far else Placement.BETTER

    @property
    def holds_guess(self) -> bool:
        """Return whether all intervals hold the guess in more than half of the trials."""
        reaches = [one.reach for one in self.assessments if one.reach]
        return 2 * sum(reach.excludes_guess for reach in reaches) < len(reaches)

    @property
    def is_vacuous(self) -> bool:
        """Return whether the intervals are as wide as before any user was asked."""
        rows, whole = self.presentation.rows, self.presentation.whole
        if self.presentation.shares:
            whole = (0.0, 1.0)
        if rows and whole is not None:
            possible = _WHOLE * (whole[1] - whole[0])
            return all(row.high - row.low >= possible for row in rows)
        reach = self.assessments[0].reach if self.assessments else None
        if reach is not None:
            return reach.within >= _WHOLE * reach.unasked > 0
        return bool(rows) and 0 < self.unasked <= 1 / _WHOLE

    @property
    def tells_apart(self) -> bool:
        """Return whether the estimate differs from its null value, by its interval or its test."""
        null, rows = self.presentation.null, self.presentation.rows
        if null is None or not rows:
            return False
        tested = null.p_value is not None and null.p_value <= 1 - self.confidence
        return tested or not rows[0].low <= null.value <= rows[0].high

    @property
    def ordered_groups(self) -> tuple[tuple[str, ...], ...]:
        """Names of the estimates in groups, the greatest first.

        All intervals of a group are above all of the next. No group: the estimates are not of one
        quantity, or have an order of their own.
        """
        shown = self.presentation
        comparable = shown.ranked and (shown.shares or shown.whole is not None)
        rows = sorted(shown.rows, key=lambda row: -row.shown)
        if not comparable or shown.null is not None or len({row.group for row in rows}) != 1:
            return ()
        groups: list[list[str]] = [[]]
        for place, row in enumerate(rows):
            groups[-1].append(row.name)
            above, below = rows[: place + 1], rows[place + 1 :]
            if below and min(one.low for one in above) > max(one.high for one in below):
                groups.append([])
        return tuple(map(tuple, groups))

    @property
    def is_poor(self) -> bool:
        """Return whether a result without a known truth tells little, by itself."""
        shown = self.presentation
        if shown.constant or self.is_vacuous or (shown.null and not self.tells_apart):
            return True
        if shown.apart is not None and len(shown.rows) >= _QUARTERS:
            return len(shown.apart) + 1 < _QUARTERS
        if len(shown.rows) == 1 and not shown.shares and shown.null is None:
            return 0 < self.unasked < _NARROW
        return len(shown.rows) > 1 and len(self.ordered_groups) == 1

    @property
    def helped_by_users(self) -> bool:
        """Return whether the error is poor and exact answers have a smaller one.

        Noise is then in the way, which more users average out; lies they do not. Without a known
        truth, whether the result tells little.
        """
        unjudged = self.presentation.constant and self.placement is Placement.UNKNOWN
        if unjudged or not self.assessments:
            return self.answered and self.is_poor and not self.lying
        if self.placement not in (Placement.NO_BETTER, Placement.FAR) or self.lying:
            return False
        return not self.exact_are_no_better

    @property
    def is_unmeasured(self) -> bool:
        """Return whether the rows are too few to tell any error from the guess's."""
        baseline = self.baseline
        return baseline is not None and 0 < baseline <= self.assessments[0].margin

    @property
    def exact_are_no_better(self) -> bool:
        """Return whether exact answers are known to be no better than the guess."""
        baseline = self.baseline
        if self.reference is None or baseline is None:
            return False
        return self.reference >= baseline - self.assessments[0].margin

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences that state what the result is worth; none for one without a claim."""
        if not self.answered:
            return ("Worth nothing: no user answered.",)
        found = [
            _coverage(self),
            _successes(self),
            _told_apart(self),
            _ordered(self),
            _detectable(self),
            _compared(self),
        ]
        if self.advice:
            found.append(f"What would help, by the planner: {'; '.join(self.advice)}.")
        found += [f"But {warning}." for warning in self.warnings]
        return tuple(filter(None, found))

    @property
    def missing_notes(self) -> tuple[str, ...]:
        """Notes on the users that the estimates leave out, with their true share where known."""
        absent = self.assessments[0].absent if self.assessments else ()
        missing = self.presentation.missing
        known = [*absent] if len(absent) == len(missing) else [None] * len(missing)
        return _missing_notes(missing, known)

    def __str__(self) -> str:
        return " ".join(self.sentences)


def mean_of(values: Sequence[float | None]) -> float | None:
    """Compute the mean; None where a value is, or where there is none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def series_sentence(epochs: int, confidence: float) -> str:
    """State the joint confidence of all epochs of a repeated study."""
    return (
        f"All intervals of all {counted(epochs, 'epoch')} contain the true values, jointly,"
        f" with a confidence of {level_text(confidence)}: the level of each epoch was fixed"
        " before the first was asked."
    )


def _coverage(verdict: ResultVerdict) -> str:
    """Say how many intervals contain the truth; where it is not known, how surely they do."""
    rows = verdict.presentation.rows
    if not rows:
        return ""
    if not verdict.assessments:
        return _confidence(verdict, len(rows))
    first = verdict.assessments[0]
    if len(first.truth) != len(rows):
        return ""
    held = sum(
        row.low - _ROUNDING <= true <= row.high + _ROUNDING
        for row, true in zip(rows, first.truth, strict=True)
    )
    joint = ", joint" if len(rows) > 1 else ""
    honest = ", for honest answers" if verdict.lying else ""
    level = f"({level_text(verdict.confidence)}{joint}{_many(verdict)}{honest})"
    missed = [one.name for one in first.beside if not one.held]
    is_all = held == len(rows)
    if len(rows) == 1:
        told = f"The interval {level} {'contains' if is_all else 'does not contain'} the true value"
    elif is_all and len(rows) == 2:
        told = f"Both intervals {level} contain the true value"
    else:
        which = f"All {held:,}" if is_all else f"{held:,} of {len(rows):,}"
        told = f"{which} intervals {level} contain the true value"
    if missed:
        that, do = ("that", "does") if len(missed) == 1 else ("those", "do")
        return f"{told}; {that} of {_names(missed)} {do} not{'' if is_all else ' either'}."
    return "" if is_all and verdict.is_vacuous else f"{told}."


def _confidence(verdict: ResultVerdict, rows: int) -> str:
    level = level_text(verdict.confidence)
    if verdict.is_vacuous:
        return "" if verdict.presentation.null else f"{_nothing_learned(rows)}."
    then = ", of the time when each answer was first given," if verdict.reused else ""
    if rows == 1:
        many = " (asymptotic)" if verdict.presentation.asymptotic else ""
        return f"The interval contains the true value{then} with a confidence of {level}{many}."
    which = "Both" if rows == 2 else f"All {rows:,}"
    return (
        f"{which} intervals contain the true values{then}, jointly, with a confidence of {level}."
    )


def _many(verdict: ResultVerdict) -> str:
    return ", asymptotic" if verdict.presentation.asymptotic else ""


def _nothing_learned(rows: int) -> str:
    which = "interval is" if rows == 1 else "intervals are"
    return f"Nothing was learned: the {which} as wide as before any user was asked"


def _names(names: Sequence[str]) -> str:
    """Format names; of many the first ones and the number of the rest."""
    more = len(names) - _MOST_NAMED
    shown = [*names[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else ""


def _successes(verdict: ResultVerdict) -> str:
    """Format the successes over several trials by what a success is."""
    trials = len(verdict.assessments)
    if trials < 2 or verdict.successes is None:
        return ""
    told = f"{verdict.success or 'right'} in {verdict.successes:,} of {counted(trials, 'trial')}."
    return f"{told[0].upper()}{told[1:]}"


def _told_apart(verdict: ResultVerdict) -> str:
    """Say whether an estimate can be told from its null value, and if not, why."""
    null, rows = verdict.presentation.null, verdict.presentation.rows
    if null is None or not rows:
        return ""
    row, zero = rows[0], _figure(null.value)
    relation, law = ("=", ", asymptotic") if null.asymptotic else ("<=", "")
    known = null.p_value is not None and null.p_value < 1
    sure = f" (p {relation} {null.p_value:.2g}{law})" if known else ""
    subject = f"{null.subject[0].upper()}{null.subject[1:]}"
    if verdict.tells_apart:
        reaches = row.low <= null.value <= row.high
        though = ", though its interval, which is wider than the test needs, reaches it"
        return f"{subject} differs from {zero}{sure}{though if reaches else ''}."
    told = f"{subject} cannot be told from {zero} at this size{sure}"
    if verdict.is_vacuous:
        return f"{told}: its interval is all that is possible."
    half = max(row.high - row.shown, row.shown - row.low)
    truth = verdict.assessments[0].truth if verdict.assessments else ()
    if len(truth) == 1 and abs(truth[0] - null.value) < half:
        return f"{told}: the true value, {_figure(truth[0])}, is less than the half width."
    return f"{told}: its interval holds {zero}."


_NONE_APART = "They tell no two of them apart."


def _ordered(verdict: ResultVerdict) -> str:
    """Say which estimates the intervals tell apart, of a result whose truth is not known."""
    shown, groups = verdict.presentation, verdict.ordered_groups
    number = len(shown.rows)
    if verdict.assessments or verdict.is_vacuous or not number:
        return ""
    if shown.apart is not None:
        if not shown.apart:
            return _NONE_APART
        return f"They tell {len(shown.apart):,} of them apart."
    if number == 1 and shown.null is None and verdict.is_poor:
        return f"It is only {verdict.unasked:.2g} times narrower than before any user was asked."
    if number == 1 or not groups:
        return ""
    if len(groups) == 1:
        above = max(shown.rows, key=lambda row: row.low)
        below = min(shown.rows, key=lambda row: row.high)
        if above.low <= below.high:
            return _NONE_APART
        return f"They tell {above.name} from {below.name}, and give no order of all."
    if len(groups) == number > _MOST_NAMED:
        return f"They tell all {number:,} apart."
    named = [_names(group) for group in groups[:_MOST_NAMED]]
    if len(groups) > _MOST_NAMED:
        named.append(f"{sum(map(len, groups[_MOST_NAMED:])):,} more")
    return f"They tell apart, from most to least: {'; '.join(named)}."


def _detectable(verdict: ResultVerdict) -> str:
    """Say which effect so many users would find, or why no asymptotic law is used."""
    null = verdict.presentation.null
    if null is None:
        return ""
    if null.undetermined:
        kept = "The interval is not asymptotic" if null.asymptotic else "No asymptotic law is used"
        return f"{kept}: {null.undetermined}."
    if null.detectable is None:
        return ""
    ends = verdict.presentation.whole
    if ends is not None and null.detectable > ends[1]:
        return "So many users find no possible effect with a chance of about 80 %."
    effect = _figure(null.detectable, 2)
    return f"So many users find an effect of {effect} with a chance of about 80 %."


def _compared(verdict: ResultVerdict) -> str:
    """Say what the error is beside a constant guess's and exact answers'."""
    placement = verdict.placement
    if placement is Placement.UNKNOWN and verdict.presentation.constant:
        return _CONSTANT_MODEL
    if not verdict.assessments:
        return ""
    first = verdict.assessments[0]
    if placement is Placement.UNKNOWN:
        return _unknown(verdict)
    if placement is Placement.RIGHT:
        told = f"Right: {first.summary}" if first.summary else "Right"
        guess = "" if verdict.baseline is None else f"; guessing: error {_figure(verdict.baseline)}"
        return f"{told}{guess}."
    if first.reach is None:
        return f"{_placed(verdict)}{_by_measure(verdict)}{_summarized(verdict)}."
    if verdict.presentation.null is not None:
        return _beside_null(verdict)
    return f"{_estimates_compared(verdict)}{_summarized(verdict)}."


def _unknown(verdict: ResultVerdict) -> str:
    if verdict.error is None:
        why = next(one.summary for one in verdict.assessments if one.error is None)
        return f"Not judged: {why or _NO_TARGET}."
    return f"Error {_text(verdict, verdict.error)}; the error of a constant guess is not known."


def _beside_null(verdict: ResultVerdict) -> str:
    """State the error beside a constant guess's, after what the estimate is told from."""
    if verdict.error is None or verdict.baseline is None:
        return ""
    error, guess = (_text(verdict, number) for number in (verdict.error, verdict.baseline))
    return f"Error {error}; of a constant guess {guess}{_summarized(verdict)}."


def _estimates_compared(verdict: ResultVerdict) -> str:
    """Compare estimates with a constant guess, in the unit of the table."""
    error, guess = (_text(verdict, number) for number in (verdict.error, verdict.baseline))
    both = f"error {error}; of a constant guess {guess}"
    if verdict.placement is Placement.NEAR_GUESS:
        return f"E{both[1:]}, which happens to be near, too"
    if verdict.placement is Placement.FAR:
        return f"Nearer to guessing than to exact answers: {both}"
    if verdict.placement is Placement.BETTER:
        return f"E{both[1:]}"
    if not verdict.holds_guess:
        return f"No better than guessing: {both}"
    if verdict.is_vacuous:
        return f"{_nothing_learned(len(verdict.presentation.rows))} ({both})"
    which = "interval" if len(verdict.presentation.rows) == 1 else "intervals"
    return (
        f"No better than guessing at this size: a constant guess lies in the {which}, too (error"
        f" {error}; of the guess {guess})"
    )


def _placed(verdict: ResultVerdict) -> str:
    return {
        Placement.NO_BETTER: _TOO_FEW if verdict.is_unmeasured else "No better than guessing: ",
        Placement.FAR: "Better than guessing, but nearer to that than to exact answers: ",
    }.get(verdict.placement, "Better than guessing: ")


def _by_measure(verdict: ResultVerdict) -> str:
    """State error, guess and exact answers in the words of their measure."""
    error, baseline, reference = verdict.error, verdict.baseline, verdict.reference
    if error is None or baseline is None:
        return ""
    found = (error, baseline, reference)
    match verdict.assessments[0].measure:
        case Measure.UNEXPLAINED:
            own, guess, exact = (None if one is None else _r_squared(1 - one) for one in found)
            told = f"R^2 {own}; guessing {guess}"
        case Measure.LABELS:
            own, guess, exact = (None if one is None else share_text(one) for one in found)
            told = f"{own} of the labels are wrong; guessing {guess}"
        case Measure.OTHER:
            own, guess, exact = (None if one is None else _figure(one) for one in found)
            told = f"error {own}; guessing {guess}"
    if exact is None:
        return told
    if verdict.exact_are_no_better and not verdict.is_unmeasured:
        return (
            f"{told}; exact answers are no better ({exact}): other columns or another learner could"
            " be"
        )
    return f"{told}; exact answers {exact}"


def _summarized(verdict: ResultVerdict) -> str:
    """Return the summary; more users are no cause where exact answers are no better either."""
    summary = verdict.assessments[0].summary
    is_said = summary == CONSTANT and verdict.exact_are_no_better
    return f"; {summary}" if summary and not is_said else ""


def _missing_notes(
    missing: Sequence[tuple[str, MissingShare]], true: Sequence[float | None]
) -> tuple[str, ...]:
    """Format missing shares: one note per share that is above 0, one for all others."""
    notes, unseen = [], []
    for (name, share), known in zip(missing, true, strict=True):
        truly = "" if known is None else f", true {share_text(known)}"
        if share.low > 0:
            about = f"{name}: " if name else ""
            notes.append(
                f"{about}over users who have a value; {share_text(share.share)} of users have none"
                f" ({share_text(share.low)} .. {share_text(share.high)}, joint with the estimates"
                f"{truly})"
            )
        elif share.share or known:
            unseen.append((name, share.high, known))
    if unseen:
        names = ", ".join(name for name, _, _ in unseen if name)
        most = max(high for _, high, _ in unseen)
        shares = [known for _, _, known in unseen if known is not None]
        truly = f", true {share_text(max(shares))}" if len(shares) == len(unseen) else ""
        about = f"{names}: " if names else ""
        notes.append(
            f"{about}users without a value: none found (at most {share_text(most)}{truly})"
        )
    return tuple(notes)


def _span(ends: tuple[float, float]) -> str:
    return f"{_end(ends[0])} .. {_end(ends[1])}"


def _end(number: float) -> str:
    return (
        f"{number:,.0f}"
        if number == round(number) or abs(number) >= _WHOLE_FROM
        else f"{number:.4g}"
    )


def _r_squared(number: float) -> str:
    """Format 1 - error, which has no lower end."""
    return f"{number:z.2f}" if abs(number) < 100 else f"{number:.3g}"


def _text(verdict: ResultVerdict, number: float | None) -> str:
    """Format an error in the unit of the table."""
    if number is None:
        return "unknown"
    return number_text(_rounded(number), share=verdict.presentation.shares)


def _figure(number: float, digits: int = 3) -> str:
    """Format a figure with some digits, a large one whole; what is left of rounding is 0."""
    rounded = float(f"{_rounded(number):.{digits}g}") if digits < 3 else _rounded(number)
    return number_text(rounded, share=False)


def _rounded(number: float) -> float:
    return 0.0 if abs(number) < _ROUNDING else number
