"""Worth of a result in words: its error beside that of a constant guess and of exact answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from askance_aggregator.learners.assessments import Assessment

_NO_TARGET = "these users have no target, and no rows without a user were kept"
_NARROW = 4  # an interval this many times narrower than before any user was asked tells something
_ROUNDING = 1e-12  # of sums of floats
_FAR = 0.5  # of the way from the guess to exact answers


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
class Worth:
    """Assessments of some trials, summarized.

    Args:
        assessments: one per trial, at least one.
        reference: the same learner's error with exact answers, the mean over trials; None: it was
            not computed.
        answered: whether any user answered.
    """

    assessments: tuple[Assessment, ...]
    reference: float | None = None
    answered: bool = True

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
        error, baseline, first = self.error, self.baseline, self.assessments[0]
        if not self.answered:
            return Placement.UNANSWERED
        if first.reach is None and self.successes == len(self.assessments):
            return Placement.RIGHT
        if error is None or baseline is None:
            return Placement.UNKNOWN
        if first.reach is not None and not self._excludes_guess:
            narrow = first.reach.within * _NARROW <= first.reach.unasked
            exact = narrow and error <= first.reach.within
            return Placement.NEAR_GUESS if exact else Placement.NO_BETTER
        if error >= baseline - first.margin:
            return Placement.NO_BETTER
        best = 0.0 if self.reference is None else self.reference
        known = self.reference is not None and best < baseline
        far = known and baseline - error < _FAR * (baseline - best)
        return Placement.FAR if far else Placement.BETTER

    @property
    def helped_by_users(self) -> bool:
        """True if the error is poor and exact answers have a smaller one: noise is in the way."""
        if self.placement not in (Placement.NO_BETTER, Placement.FAR):
            return False
        return self.reference is None or not self._exact_are_no_better

    def __str__(self) -> str:
        return _TEXTS[self.placement](self)

    @property
    def _exact_are_no_better(self) -> bool:
        baseline, margin = self.baseline, self.assessments[0].margin
        known = self.reference is not None and baseline is not None
        return known and (self.reference or 0.0) >= (baseline or 0.0) - margin

    @property
    def _excludes_guess(self) -> bool:
        """True if some interval excludes the guess in at least half of the trials."""
        told = [
            assessment.reach.excludes_guess for assessment in self.assessments if assessment.reach
        ]
        return 2 * sum(told) >= len(told)


def mean_of(values: Sequence[float | None]) -> float | None:
    """Compute the mean; None where a value is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _unknown(worth: Worth) -> str:
    if worth.error is None:
        why = next(one.summary for one in worth.assessments if one.error is None)
        return f"not judged: {why or _NO_TARGET}"
    return f"error {_figure(worth.error)}; the error of a constant guess is not known"


def _unanswered(worth: Worth) -> str:
    return "worth nothing: no user answered"


def _right(worth: Worth) -> str:
    (first, *_) = worth.assessments
    told = f"right: {first.summary}" if first.summary else "right"
    return (
        f"{told}; guessing: error {_figure(worth.baseline)}" if worth.baseline is not None else told
    )


def _no_better(worth: Worth) -> str:
    told = f"no better than guessing ({_figure(worth.baseline)}): {_error(worth)}"
    if worth._exact_are_no_better:
        exact = f"exact answers are no better ({_figure(worth.reference)})"
        return f"{told}; {exact}: other columns or another learner could be"
    return f"{told}{_with_exact_answers(worth)}"


def _far(worth: Worth) -> str:
    told = f"better than guessing ({_figure(worth.baseline)}): {_error(worth)}"
    return f"{told}; far from exact answers ({_figure(worth.reference)})"


def _better(worth: Worth) -> str:
    told = f"better than guessing ({_figure(worth.baseline)}): {_error(worth)}"
    return f"{told}{_with_exact_answers(worth)}"


def _near_guess(worth: Worth) -> str:
    return f"{_error(worth)}; a constant guess happens to be near, too ({_figure(worth.baseline)})"


def _figure(number: float | None) -> str:
    """Format a figure with three digits, a large one whole; what is left of rounding is 0."""
    if number is None:
        return "unknown"
    whole = 1e3 <= abs(number) < 1e12
    return f"{number:,.0f}" if whole else f"{0.0 if abs(number) < _ROUNDING else number:.3g}"


def _error(worth: Worth) -> str:
    (first, *_) = worth.assessments
    told = [f"error {_figure(worth.error)}"]
    if first.reach is not None:
        told.append(f"each within {_figure(first.reach.within)}")
        missed = len(worth.assessments) - (worth.successes or 0)
        if worth.successes is not None and missed:
            trials = f"{missed:,} of {len(worth.assessments):,} trials"
            told.append(f"an interval (a missing share's too) misses its true value in {trials}")
    return f"{', '.join(told)}; {first.summary}" if first.summary else ", ".join(told)


def _with_exact_answers(worth: Worth) -> str:
    return "" if worth.reference is None else f"; with exact answers {_figure(worth.reference)}"


_TEXTS = {
    Placement.UNKNOWN: _unknown,
    Placement.UNANSWERED: _unanswered,
    Placement.RIGHT: _right,
    Placement.NO_BETTER: _no_better,
    Placement.FAR: _far,
    Placement.BETTER: _better,
    Placement.NEAR_GUESS: _near_guess,
}
