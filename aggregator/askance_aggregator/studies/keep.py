"""Time for which an aggregator keeps a study's reports and results, as the analyst signs it.

The days are parameters of the signed study, under names that no learner has: a device passes them
on unread and shows them to its owner, so devices of earlier versions answer such a study too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from askance_aggregator.studies.population import COMMITMENT
from askance_aggregator.studies.schedule import START
from askance_client.errors import InvalidParameter
from askance_client.messages import StudyTerms

MAX_DAYS = 36_600  # a hundred years
_REPORTS, _RESULTS = "keep.reports_days", "keep.results_days"
_RESERVED = (_REPORTS, _RESULTS, START, COMMITMENT)  # parameters that are no learner's
_DIGITS = len(str(MAX_DAYS))


@dataclass(frozen=True, slots=True)
class Keep:
    """Days after a study's end for which it is kept; None: not limited.

    Args:
      reports_days: single reports, 0 or more; 0: deleted when the study has ended.
      results_days: results, transcripts and counts; not fewer than `reports_days`.
    """

    reports_days: int | None = None
    results_days: int | None = None

    def __post_init__(self) -> None:
        for name in ("reports_days", "results_days"):
            days = getattr(self, name)
            if days is not None and not 0 <= days <= MAX_DAYS:
                raise InvalidParameter(f"{name}: expected 0 to {MAX_DAYS} days, got {days}")
        reports, results = self.reports_days, self.results_days
        if reports is not None and results is not None and reports > results:
            raise InvalidParameter(
                f"reports_days: expected at most results_days, {results}, got {reports} (reports"
                " are deleted no later than results)"
            )

    @property
    def parameters(self) -> dict[str, str]:
        """The signed parameters; none where nothing is limited."""
        given = {_REPORTS: self.reports_days, _RESULTS: self.results_days}
        return {name: str(days) for name, days in given.items() if days is not None}

    def within(self, default: Keep, most: Keep) -> Keep:
        """Complete the days that a study leaves open by an operator's default, within its bounds.

        Raises:
          InvalidParameter: more days are signed than the operator keeps.
        """
        for name in ("reports_days", "results_days"):
            days, bound = getattr(self, name), getattr(most, name)
            if days is not None and bound is not None and days > bound:
                raise InvalidParameter(
                    f"{name}: expected at most {bound}, for which this aggregator keeps them,"
                    f" got {days}"
                )
        reports = _days_of(self.reports_days, default.reports_days, most.reports_days)
        results = _days_of(self.results_days, default.results_days, most.results_days)
        if results is None:
            return Keep(reports, None)
        if reports is None:
            return Keep(results, results)
        if self.results_days is None and self.reports_days is not None:
            return Keep(reports, max(reports, results))
        return Keep(min(reports, results), results)


UNLIMITED = Keep()


def keep_of(terms: StudyTerms) -> Keep:
    """Read the days that a study signs."""
    given = dict(terms.parameters)
    return Keep(_days(given, _REPORTS), _days(given, _RESULTS))


def learner_parameters(terms: StudyTerms) -> dict[str, str]:
    """Return the parameters of a study that are its learner's own."""
    return {name: value for name, value in terms.parameters if name not in _RESERVED}


def _days(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise InvalidParameter(f"{name}: expected a whole number of days, got {text[:20]!r}")
    return int(text)


def _days_of(signed: int | None, default: int | None, most: int | None) -> int | None:
    """Return the days that are signed, else the default within its bound, else the bound."""
    if signed is not None:
        return signed
    return min((days for days in (default, most) if days is not None), default=None)
