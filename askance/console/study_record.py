"""Record of a study for its page: the signed terms, and the rounds of its transcript.

Nothing of a round that is open is read but how many users were asked: its answers are counts that
the aggregator states, and there is no estimate before the study's end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from askance_aggregator.analyst import StudyEvent, StudyExport, StudyHandle, epochs_of, state_of
from askance_aggregator.encoding import read_terms
from askance_aggregator.names import names_of
from askance_aggregator.planning import RoundRules, StudyPlan, plan, randomizer_text
from askance_aggregator.store import StudyState
from askance_aggregator.studies.results import population_of
from askance_aggregator.studies.submitted import learner_of
from askance_aggregator.studies.transcript import Asked, Closed, MemoryLog, Transcript
from askance_client.codec import decode_randomizer, parse
from askance_client.messages import StudyTerms
from askance_protos.v1 import exchange_pb2

_GROUPS = 4  # of a round, whose randomizers are named


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """Round of a study.

    Args:
      number: from 1.
      queries: number of its questions.
      asked: users.
      answered: of them, so far.
      refused: of them, so far; of an open round they count as answered.
      is_open: whether it is being asked.
      nano_nats: most that one of its users was asked for.
      payloads: requests whose randomizers are named, each once.
      more: whether the round has other groups.
      within: half the widest interval of its answers; None: not known before the study's end.
    """

    number: int
    queries: int
    asked: int
    answered: int
    refused: int
    is_open: bool
    nano_nats: int
    payloads: tuple[bytes, ...]
    more: bool
    within: float | None

    @property
    def randomizer(self) -> str:
        """Randomizers in a few words; the queries are not decoded, which takes a hundred times."""
        texts = [
            randomizer_text(decode_randomizer(parse(exchange_pb2.Request, one).randomizer))
            for one in self.payloads
        ]
        return ", ".join(dict.fromkeys(texts)) + (", ..." if self.more else "")


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """Terms and rounds of a study, or of one of its epochs."""

    terms: StudyTerms
    public_key: bytes  # of the analyst who signed the terms
    users: int  # enrolled when it began; 0: it has not begun
    rounds: tuple[RoundRecord, ...]
    transcript: str  # digest of the rounds so far
    deletion: tuple[str, ...]  # what the aggregator states about deleted reports

    @property
    def columns(self) -> list[str]:
        """Columns that may be asked about, by their own names."""
        return [names_of(self.terms.schema).in_text(name) for name in self.terms.fields]

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Parameters of the learner, with columns' own names."""
        names = names_of(self.terms.schema)
        return [(name, names.in_text(text)) for name, text in self.terms.parameters]

    def plan(self) -> StudyPlan:
        """Plan the study again for the users that it began with; it may take seconds."""
        terms = self.terms
        return plan(
            learner_of(terms),
            terms.budget_nano_nats,
            terms.conduct.beta,
            self.users or None,
            RoundRules.of(terms.conduct),
        )


def record_of(
    export: StudyExport, event: StudyEvent, content: Mapping[str, Any] | None
) -> StudyRecord:
    """Return the record of an export."""
    terms, transcript = read_terms(export.signed.study), _transcript(export.lines)
    asked = [one for one in transcript.recorded if isinstance(one, Asked)]
    closed = {one.round: one for one in transcript.recorded if isinstance(one, Closed)}
    within = _within(content)
    # An epoch that ended may not be.
    may_be_open = content is None and state_of(event) is StudyState.OPEN
    answered = event.answered if may_be_open else None
    rounds = [_round(one, closed.get(one.round), answered, within.get(one.round)) for one in asked]
    return StudyRecord(
        terms,
        export.signed.public_key,
        population_of(transcript),
        tuple(rounds),
        transcript.digest,
        export.deletion,
    )


def shown_export(
    handle: StudyHandle, event: StudyEvent, own: StudyExport, number: int | None
) -> tuple[StudyExport, Mapping[str, Any] | None]:
    """Return the export whose rounds are shown, and its result; None: there is none yet."""
    epochs, is_open = epochs_of(event), state_of(event) is StudyState.OPEN
    if epochs is None:
        if is_open:
            return own, None
        found = own if own.result is not None else handle.fetch()  # it ended after the export
        return found, found.result
    if is_open:
        number = number or epochs.ended
        if not 1 <= number <= epochs.ended:
            return handle.fetch(epochs.epoch), None
        found = handle.fetch(epochs.repeat.first + number - 1)
        return found, found.result
    content = handle.result(epoch=number).content
    found = handle.fetch(int(content.get("epoch", 0)) or epochs.epoch)
    # A summary: the study ended before its first epoch did.
    return found, None if "epochs_signed" in content else content


def _transcript(lines: Sequence[str]) -> Transcript:
    log = MemoryLog()
    for line in lines:
        log.append(line)
    return Transcript(log)


def _within(content: Mapping[str, Any] | None) -> dict[int, float]:
    """Return half the widest interval per round, from 0."""
    found: dict[int, float] = {}
    for row in (content or {}).get("bounds", ()):
        found[row["round"]] = max(found.get(row["round"], 0.0), float(row["within"]))
    return found


def _round(
    asked: Asked,
    closed: Closed | None,
    answered: int | None,
    within: float | None,
) -> RoundRecord:
    """Return a round; `answered` is of the open round, None if none may be open."""
    charged: Counter[tuple[int, int]] = Counter()  # of the users of one cohort
    for group in asked.groups:
        charged[group.start, group.stop] += group.nano_nats
    tallies = () if closed is None else closed.tallies
    open_answers = answered if closed is None else None
    return RoundRecord(
        number=asked.round + 1,
        queries=len(asked.questions),
        asked=sum(stop - start for start, stop in charged),
        answered=sum(tally.answered for tally in tallies) if open_answers is None else open_answers,
        refused=sum(count for tally in tallies for _, count in tally.refusals),
        is_open=open_answers is not None,
        nano_nats=max(charged.values(), default=0),
        payloads=tuple(dict.fromkeys(group.payload for group in asked.groups[:_GROUPS])),
        more=len(asked.groups) > _GROUPS,
        within=within,
    )
