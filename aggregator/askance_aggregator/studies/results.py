"""Result of a study, as one JSON object."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from askance_aggregator.encoding import query_from_bytes
from askance_aggregator.estimation import influence, recorded_question, share_of_numbers
from askance_aggregator.learners import Question, hypothesis_json
from askance_aggregator.names import result_names, subject_json
from askance_aggregator.store import Conclusion, StudyState, TaggedPopulation
from askance_aggregator.studies import Accounts, Outcome, Tally, Transcript
from askance_aggregator.studies.population import population_facts
from askance_aggregator.studies.transcript import Asked, Closed, Header
from askance_client.accounting import format_nats
from askance_client.codec import decode_request
from askance_client.messages import Repeat, StudyTerms
from askance_client.queries import Schema

_NANO = 10**9
_EPOCH_OF_DAYS = date(1970, 1, 1)


def cohort_seed(study_digest: bytes, epoch: int = 0) -> bytes:
    """Return the seed of a deployed study's cohorts: its digest, and the epoch's index."""
    # The analyst's nonce decides it, and neither the aggregator nor a device. Epochs have cohorts
    # of their own, so that a study of a part of the users asks each of them in few epochs.
    period = epoch.to_bytes(8, "big") if epoch else b""
    return hashlib.sha256(b"askance cohorts v1\0" + study_digest + period).digest()


@dataclass(frozen=True, slots=True)
class End:
    """End of a study: a state, a code for programs, a line of text."""

    state: StudyState
    reason: str
    message: str = ""


CANCELLED = End(StudyState.CANCELLED, "cancelled", "study: cancelled by its analyst")


def unrun(
    study_digest: bytes,
    terms: StudyTerms,
    transcript: Transcript,
    end: End,
    epoch: int = 0,
    population: TaggedPopulation | None = None,
    readers: Mapping[str, Any] | None = None,
) -> Conclusion:
    """Return the conclusion of a study, or an epoch of it, that ends while no session runs it.

    It states what the transcript holds; devices' spending is in no account. `readers` are as of
    `conclusion`.
    """
    nobody = Accounts(max(population_of(transcript), 1), terms.budget_nano_nats)
    return conclusion(
        *(study_digest, terms, transcript, nobody, end, None),
        epoch=epoch,
        population=population,
        readers=readers,
    )


def conclusion(
    study_digest: bytes,
    terms: StudyTerms,
    transcript: Transcript,
    accounts: Accounts,
    end: End,
    outcome: Outcome[Any] | None,
    epoch: int = 0,
    population: TaggedPopulation | None = None,
    readers: Mapping[str, Any] | None = None,
) -> Conclusion:
    """Return the conclusion of a study, or an epoch of it, with a hypothesis or without.

    Its result names the tags of a population that is not all devices. `readers` are its keys that
    state a guarantee towards readers; None: the local epsilon alone is stated.
    """
    spending, max_asked = accounts.spending(), most_asked(transcript)
    users = population_of(transcript)
    # Answers of rounds that were not replayed are not in the accounts.
    heard = spending.max_spent if spending.max_asked == max_asked else None
    result = {
        "study": study_digest.hex(),
        "learner": terms.learner,
        "state": end.state.name.lower(),
        "fields": list(terms.fields),
        **result_names(terms.schema, terms.fields),
        **subject_json(terms.schema, terms.fields, dict(terms.parameters)),
        "reason": end.reason,
        "message": end.message,
        **({} if terms.repeat is None else epoch_facts(terms.repeat, epoch)),
        "hypothesis": None if outcome is None else hypothesis_json(outcome.hypothesis),
        "confidence": float(terms.conduct.confidence),
        **figures(transcript, terms.schema),
        "bounds": bounds_json(outcome),
        "unasked": unasked(transcript, terms.schema),
        "users": users,
        **population_facts(population, users),
        "epsilon": {
            "budget": terms.budget_nano_nats / _NANO,
            "max_spent": spending.max_spent / _NANO,
            "mean_spent": spending.total_spent / max(users, 1) / _NANO,
            "max_asked_nano_nats": max_asked,
            "max_spent_nano_nats": spending.max_spent,
            "total_spent_nano_nats": spending.total_spent,
        },
        **(readers or {}),
        "reconciled": accounts.reconciled(),
        "overspent": spending.overspent,
        "privacy": privacy_statement(terms, max_asked, heard),
        "transcript": transcript.digest,
    }
    text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    return Conclusion(end.state, end.reason, end.message, text, max_asked)


def epoch_facts(repeat: Repeat, epoch: int) -> dict[str, Any]:
    """Return an epoch's index, number from 1, number of all epochs, and first day (UTC) as text."""
    return {
        "epoch": epoch,
        "number": epoch - repeat.first + 1,
        "epochs": repeat.epochs,
        "every_days": repeat.every_days,
        "first_day": date_of(epoch * repeat.every_days),
    }


def date_of(day: int) -> str:
    """Return the date of a day since 1970, UTC: "2026-01-01"."""
    return (_EPOCH_OF_DAYS + timedelta(days=day)).isoformat()


def bounds_json(outcome: Outcome[Any] | None) -> list[dict[str, Any]]:
    """Return the bounds of every answer; empty for a study without an outcome."""
    return [] if outcome is None else [bounds.to_json() for bounds in outcome.bounds]


def unasked(transcript: Transcript, schema: Schema) -> list[float]:
    """Return, per answer, half the range of its values: how exact it was before any user answered.

    Answers are in the order of `bounds_json`.
    """
    return [
        float(Question(query_from_bytes(data, schema)).spread) / 2
        for event in transcript.recorded
        if isinstance(event, Asked)
        for data in event.questions
    ]


def figures(transcript: Transcript, schema: Schema) -> dict[str, Any]:
    """Return the figures of a transcript: its rounds, answers, refusals and influences."""
    asked = {event.round: event for event in transcript.recorded if isinstance(event, Asked)}
    closed = [event for event in transcript.recorded if isinstance(event, Closed)]
    tallies = [tally for event in closed for tally in event.tallies]
    refusals: Counter[str] = Counter()
    for tally in tallies:
        refusals.update({reason.name.lower(): count for reason, count in tally.refusals})
    return {
        "rounds": len(closed),
        "queries": sum(len(asked[event.round].questions) for event in closed),
        "answers": sum(tally.answered for tally in tallies),
        "refusals": dict(sorted(refusals.items())),
        **reuse(closed),
        "users_asked": max((g.stop for event in asked.values() for g in event.groups), default=0),
        "influence": [
            item
            for event in closed
            for item in _influences(asked[event.round], event.tallies, schema)
        ],
    }


def reuse(rounds: Sequence[Closed]) -> dict[str, Any]:
    """Return the fresh and the reused answers, in all and by round, and their time in words."""
    by_round = [
        {
            "fresh": sum(tally.answered - tally.reused for tally in event.tallies),
            "reused": sum(tally.reused for tally in event.tallies),
        }
        for event in rounds
    ]
    fresh, reused = (sum(one[kind] for one in by_round) for kind in ("fresh", "reused"))
    return {
        "fresh": fresh,
        "reused": reused,
        "answers_by_round": by_round,
        "time": time_statement(fresh, reused),
    }


def time_statement(fresh: int, reused: int) -> str:
    """State in words the time that a result describes.

    `fresh` counts answers first given to this study, `reused` those given before to the same
    question.
    """
    if not reused:
        return "Every answer describes its user at the time of this study."
    which = "All" if not fresh else f"{reused:,} of"
    return (
        f"{which} {fresh + reused:,} answers were reused, at no charge: each describes its user at"
        " the time of the first answer to the same question, not at the time of this study."
    )


def most_asked(transcript: Transcript) -> int:
    """Return the most nano-nats that any user was asked for."""
    # A cohort's users are asked for the same, and no user is in two cohorts. Computed from the
    # transcript, since a study may end before all of it is replayed.
    charges: Counter[tuple[int, int]] = Counter()
    for event in transcript.recorded:
        if isinstance(event, Asked):
            for group in event.groups:
                if group.start < group.stop:
                    charges[group.start, group.stop] += group.nano_nats
    return max(charges.values(), default=0)


def population_of(transcript: Transcript) -> int:
    """Return the number of users of a study; 0 before it has begun."""
    match transcript.recorded:
        case (Header(population=users), *_):
            return users
    return 0


def _influences(asked: Asked, tallies: Sequence[Tally], schema: Schema) -> Iterator[dict[str, Any]]:
    for group, tally in zip(asked.groups, tallies, strict=True):
        if tally.answered:
            request = decode_request(group.payload, schema)
            randomizer = request.randomizer
            question = recorded_question(request.query, randomizer, group.decode)
            present = share_of_numbers(
                question, randomizer, tally.counts, tally.answered, group.decode
            )
            yield {
                "round": asked.round,
                "question": group.question,
                "answers": tally.answered,
                "one_report_moves_by": float(
                    influence(question, randomizer, tally.answered, group.decode, present)
                ),
            }


def privacy_statement(terms: StudyTerms, max_asked: int, max_spent: int | None) -> str:
    """State in words what a study, or one epoch of it, has cost.

    Stated by what was asked: a user whose answer was lost has spent all the same. Both figures are
    in nano-nats; `max_spent`, as devices reported, is None if some reports did not arrive.
    """
    heard = ""
    if max_spent is not None:
        heard = (
            f", and by the answers that came nobody has spent more than {format_nats(max_spent)}"
        )
    of, part, together = "", "study", ""
    if terms.repeat is not None:
        of, part = " in one epoch", "epoch of the study"
        total = terms.repeat.epochs * terms.budget_nano_nats
        together = f" (in all {terms.repeat.epochs} epochs together, {format_nats(total)}-locally)"
    return (
        f"Every device's reports{of} are {format_nats(terms.budget_nano_nats)}-locally"
        f" differentially private{together} (pure, replace-one) towards everybody who sees them, by"
        f" the device's own ledger; nobody was asked for more than {format_nats(max_asked)}"
        f" nats by this {part}{heard}."
    )
