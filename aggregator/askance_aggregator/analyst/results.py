"""Result of a study, as an analyst holds it, and the epochs that its summary names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from askance_aggregator.analyst.calls import CallRefused
from askance_aggregator.analyst.export import StudyExport
from askance_aggregator.analyst.verification import Verification, verify
from askance_aggregator.encoding import read_terms
from askance_aggregator.learners import hypothesis_from_json
from askance_aggregator.learners.presentation import table_of
from askance_aggregator.names import with_own_names
from askance_aggregator.reports.outcomes import report_of_content
from askance_aggregator.reports.plain_text import text_of
from askance_aggregator.reports.report import CommandReport
from askance_aggregator.store import StudyState
from askance_aggregator.studies.advice import advice_on_content
from askance_aggregator.studies.series import StudySeries
from askance_client.errors import InvalidParameter, RemoteProtocolError


class PrintedHypothesis(dict[str, Any]):
    """Hypothesis as a JSON object, whose text is the hypothesis's own."""

    learner: str

    @classmethod
    def of(cls, content: Mapping[str, Any], data: Mapping[str, Any]) -> Self:
        """Return the hypothesis in the content of a result."""
        found = cls(data)
        found.learner = str(content.get("learner", ""))
        return found

    def __str__(self) -> str:
        try:
            return str(hypothesis_from_json(self.learner, dict(self)))
        except InvalidParameter:  # of a learner that is not installed
            return repr(self)


@dataclass(frozen=True, slots=True)
class StudyResult:
    """End and content of a study.

    Args:
      id: the study's digest in hexadecimal.
      reason: a word for programs: done, cancelled, plan-refused, too-few-respondents, ....
      message: one line of text; empty if the study is done.
      content: all of it, as the aggregator sent it.
      fetch: where its export comes from.
      fetch_series: where the results of all epochs come from; None: the study collects once.
    """

    id: str
    state: StudyState
    reason: str
    message: str
    content: Mapping[str, Any] = field(repr=False)
    fetch: Callable[[], StudyExport] = field(repr=False)
    fetch_series: Callable[[], StudySeries] | None = field(default=None, repr=False)

    @property
    def hypothesis(self) -> Any:
        """Learned hypothesis, as JSON; None if the study came to no hypothesis.

        It has columns' own names. An object prints as the hypothesis does that a simulation learns.
        """
        found = self.to_json().get("hypothesis")
        return PrintedHypothesis.of(self.content, found) if isinstance(found, dict) else found

    @property
    def epsilon(self) -> Mapping[str, Any]:
        """Budget per user, and the maximum and the mean that users have spent, in nats."""
        found: Mapping[str, Any] = self.content.get("epsilon", {})
        return found

    @property
    def reused(self) -> int:
        """Number of answers that were given before, to the same question, at no charge.

        They describe their users at the time of that first answer (see `time`).
        """
        return int(self.content.get("reused", 0))

    @property
    def fresh(self) -> int:
        """Number of answers that were given to this study first."""
        return int(self.content.get("fresh", 0))

    @property
    def time(self) -> str:
        """The time that the result describes, in words."""
        return str(self.content.get("time", ""))

    @property
    def number(self) -> int:
        """Number of the epoch that it is of, from 1; 0: the study collects once."""
        return int(self.content.get("number", 0))

    @property
    def epochs(self) -> StudySeries:
        """Results of all epochs that have ended, fetched now.

        Raises:
          InvalidParameter: the study collects once. CallRefused: the aggregator cannot be reached.
        """
        if self.fetch_series is None:
            raise InvalidParameter(
                "epochs: expected the result of a study that repeats, got one that collects once"
            )
        return self.fetch_series()

    @property
    def transcript(self) -> str:
        """The transcript's digest."""
        return str(self.content.get("transcript", ""))

    def __str__(self) -> str:
        """Return the text that the command line prints."""
        return text_of(self.report(every=False, verbose=False))

    def report(self, *, every: bool, verbose: bool) -> CommandReport:
        """Make the report for readers; of a result that tells little, with what would help.

        The study's export is fetched for that, and its terms are planned for again; if no export
        can be fetched, nothing is said of what would help.
        """
        return report_of_content(self.content, every=every, verbose=verbose, advise=self._advice)

    def _advice(self) -> tuple[str, ...]:
        try:
            terms = read_terms(self.fetch().signed.study)
        except CallRefused:  # the connection is closed, or the role reads results alone
            return ()
        return advice_on_content(terms, self.content)

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object, with columns' own names."""
        return with_own_names(self.content)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the hypothesis as rows by column: one per estimate, or per part of a model.

        Raises:
          InvalidParameter: the study came to no hypothesis, or to one that is no table.
        """
        found = self.to_json()
        if found.get("hypothesis") is None:
            state = self.state.name.lower()
            raise InvalidParameter(
                f"rows: expected the result of a study that is done, got {state}"
            )
        learner = str(found["learner"])
        rows = table_of(hypothesis_from_json(learner, found["hypothesis"]), (), learner)
        return [{name: row[name] for name in row if name != "truth"} for row in rows]

    def verify(self) -> Verification:
        """Fetch the export and replay it on this machine, offline but for the fetch.

        Raises:
          VerificationFailed: it does not hold together.
        """
        return verify(self.fetch())


def collects_once(summary: dict[str, Any] | None) -> bool:
    """Return whether the result of a study itself is of one that collects once."""
    return summary is None or "epochs_signed" not in summary


def no_epochs(asked: str) -> InvalidParameter:
    """Return the refusal of epochs of a study that collects once."""
    return InvalidParameter(f"{asked}: expected a study that repeats, got one that collects once")


def epoch_indices(summary: dict[str, Any]) -> list[int]:
    """Return the indices of the epochs in a summary that an aggregator has sent."""
    try:
        return [int(one["epoch"]) for one in summary["epochs"]]
    except (LookupError, TypeError, ValueError):
        raise RemoteProtocolError("aggregator: expected the epochs of a study") from None


def epoch_index(summary: dict[str, Any] | None, number: int) -> int:
    """Return the index of the epoch of a number, or raise InvalidParameter."""
    if summary is None or collects_once(summary):
        raise no_epochs(f"epoch {number}")
    first, signed = summary.get("first_epoch"), summary["epochs_signed"]
    if type(first) is not int or type(signed) is not int:
        raise RemoteProtocolError("aggregator: expected the epochs of a study")
    if not 1 <= number <= signed:
        raise InvalidParameter(f"epoch: expected a number of 1 to {signed}, got {number}")
    return first + number - 1
