"""An export replayed offline: what follows from what was recorded, and what has to be believed.

Nothing is asked. The learner is built from the signed terms and run over the recorded counts, by
the same session that a study runs in, on a fleet that can only remember. What comes out is held
against the result; whatever differs is one error.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from askance_aggregator.amplification.outer import delta_for
from askance_aggregator.analyst.approvals import NOT_APPROVED, REFUSED, WITHDRAWN
from askance_aggregator.analyst.export import SeriesExport, StudyExport, read_export
from askance_aggregator.analyst.signed_counts import CountsSignature, keys_text
from askance_aggregator.encoding import query_from_bytes, question_digest, read_terms
from askance_aggregator.estimation import check_decode, recorded_question, shares_apart
from askance_aggregator.learners import hypothesis_json
from askance_aggregator.names import names_of, result_names, subject_json
from askance_aggregator.numbers import rational
from askance_aggregator.queries import block_of
from askance_aggregator.store import StudyState
from askance_aggregator.studies import Accounts, Outcome, Round, Session, Tally, Transcript
from askance_aggregator.studies.outer import (
    Account,
    EarlierAnswers,
    outer_of_transcript,
    outer_series_json,
)
from askance_aggregator.studies.population import check_population, population_facts
from askance_aggregator.studies.results import (
    CANCELLED,
    End,
    bounds_json,
    cohort_seed,
    epoch_facts,
    figures,
    most_asked,
    privacy_statement,
    unasked,
)
from askance_aggregator.studies.series import end_of_series, series_json
from askance_aggregator.studies.submitted import learner_of
from askance_aggregator.studies.transcript import Asked, Closed, Header, Stopped
from askance_client.codec import decode_request, digest_of, verify_study
from askance_client.errors import (
    AskanceError,
    InvalidAnswer,
    InvalidParameter,
    PlanExceeded,
    PlanRefused,
    TooFewRespondents,
)
from askance_client.messages import Repeat, StudyTerms
from askance_client.queries import Query, QueryKind, Schema

_RELATIVE, _ABSOLUTE = 1e-9, 1e-12  # interval ends come out of a numerical library
_NANO = 10**9
_OPEN = "open"
_ALWAYS_BELIEVED = (
    "single reports: a transcript holds their counts and a hash over them, not the reports; that"
    " the counts are theirs, only who may see them can check (askance aggregator recount)",
    "what devices have spent: they have said so to the aggregator",
)
_DECODED = (
    "that the decode values of designed tables were chosen before the counts were known: any that"
    " are unbiased pass"
)
_SALTED = "that the salts of the leaves are secret: by them, guesses at reports could be checked"
_GUESSABLE = (
    "that no reader guesses reports: leaves of an earlier version have no salt, and only the"
    " statement towards the aggregator holds"
)

_OUTER = "the epsilon towards readers, from the randomizers and the answers of every tally"
_OUTER_SERIES = "the epsilon towards readers of all epochs, from the tallies of those"
_OTHERS = "that answers given before are in no other tallies than the operator's account has"
_SO_FAR = "the epsilon towards readers of all results so far: it follows from the other epochs too"
_UNSIGNED = "that the aggregator has published these counts: it has signed none"

_MISSED = "missed"  # an epoch of which nothing was asked
_FAULT = "failed"  # of the aggregator: what a replay cannot show
_BY_APPROVERS = (REFUSED, WITHDRAWN)
_REASONS = {
    "done": ("done",),
    "cancelled": ("cancelled", *_BY_APPROVERS),
    "failed": (
        "too-few-respondents",
        "plan-refused",
        "plan-exceeded",
        "invalid-answer",
        "nondeterminism",
        "epoch-over",
        _MISSED,
        NOT_APPROVED,
        _FAULT,
    ),
}
# The ends that a replay comes to by itself.
_REPLAYED: tuple[tuple[type[AskanceError], str, str], ...] = (
    (TooFewRespondents, "too-few-respondents", "a group has fewer answers than the study asks for"),
    (PlanExceeded, "plan-exceeded", "the learner asks more than its plan and its study cover"),
    (InvalidAnswer, "invalid-answer", "the learner cannot conclude from its answers"),
)
# What a result has besides the figures that a replay gives.
_BESIDE = {"state", "reason", "message", "epsilon", "reconciled", "overspent", "privacy"}
_OF_SERIES = {"outer_so_far", "outer_signed"}  # of an epoch's result: by the epochs before it too
_ADDED = {"raw"}  # keys of hypotheses that results of earlier versions do not have


class VerificationFailed(AskanceError):
    """An export that does not hold together."""


class _NotRecorded(AskanceError):
    """The replay came to what the transcript does not have."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of a study's verification."""

    study: str  # its digest, in hexadecimal
    public_key: str  # of the analyst who signed it
    state: str  # open, done, failed or cancelled
    rounds: int  # closed ones that were replayed
    answers: int  # reports that they count
    transcript: str  # digest of what was replayed
    checked: tuple[str, ...]  # what follows from the record, line by line
    believed: tuple[str, ...]  # what an export cannot show

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return {
            "verified": True,
            "study": self.study,
            "public_key": self.public_key,
            "state": self.state,
            "rounds": self.rounds,
            "answers": self.answers,
            "transcript": self.transcript,
            "checked": list(self.checked),
            "believed": list(self.believed),
        }


def verify(
    export: StudyExport,
    analyst_keys: Collection[bytes] | None = None,
    aggregator_keys: Collection[bytes] | None = None,
) -> Verification:
    """Verify a study's export.

    Args:
      export: as it was read.
      analyst_keys: keys that may have signed the study; None: any key.
      aggregator_keys: keys that may have signed the counts; None: any key, or none.

    Raises:
      VerificationFailed: the first thing that does not hold.
    """
    try:
        return _verify(export, analyst_keys, aggregator_keys)
    except VerificationFailed:
        raise
    except AskanceError as error:
        raise VerificationFailed(str(error)) from None
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
        raise VerificationFailed(
            f"transcript: expected one that can be replayed, found another ({type(error).__name__})"
        ) from None


def _verify(
    export: StudyExport,
    analyst_keys: Collection[bytes] | None,
    aggregator_keys: Collection[bytes] | None,
) -> Verification:
    signed = export.signed
    if analyst_keys is not None and signed.public_key not in analyst_keys:
        known, signer = keys_text(analyst_keys), signed.public_key.hex()
        raise VerificationFailed(f"study: expected it signed by {known}, got {signer}")
    if not verify_study(signed):
        raise VerificationFailed("study: expected its analyst's signature over it, found none")
    _check_counts(export, aggregator_keys)
    terms = read_terms(signed.study)
    check_population(terms, export.population)
    transcript = Transcript(_ReadLog(export.lines))
    _check_record(transcript, terms, export.digest)
    _check_epoch(export, terms, transcript)
    replay = _Replay(export, terms, transcript)
    state = _OPEN if export.result is None else _state_of(export, terms, transcript, replay)
    whose = () if analyst_keys is not None else ("whose the signing key is: none was given",)
    published = () if export.counts is None else tuple(_published(export.counts))
    aggregators = tuple(_of_aggregator(export.counts, aggregator_keys))
    end = () if state in (_OPEN, "done") else (f"why it ended as {state}",)
    readers = (_OUTER,) if "outer" in (export.result or {}) else ()
    decoded = (_DECODED,) if _has_decode_values(transcript) else ()
    leaves = tuple(_leaves(transcript))
    found = figures(transcript, terms.schema)
    return Verification(
        study=export.digest.hex(),
        public_key=signed.public_key.hex(),
        state=state,
        rounds=found["rounds"],
        answers=found["answers"],
        transcript=transcript.digest,
        checked=(*_checked(state, terms, found["rounds"]), *readers, *published, *export.opened),
        believed=(
            *(*_ALWAYS_BELIEVED, *leaves, *aggregators, *export.tagging, *export.deletion),
            *(
                *decoded,
                *whose,
                *end,
                *_of_reuse(export.result or {}),
                *_of_series(export.result or {}),
            ),
        ),
    )


def _least_account(transcript: Transcript, schema: Schema) -> Account:
    """Return the account of the transcript's own tallies: none states less epsilon."""
    # Each answer is hidden among the fewest of a tally of its question. A question that is asked
    # once has another tally, from which its answers were reused.
    questions: dict[bytes, bytes] = {}
    answers: dict[bytes, list[int]] = {}
    asked = {event.round: event for event in transcript.recorded if isinstance(event, Asked)}
    closed = [event for event in transcript.recorded if isinstance(event, Closed)]
    for event in closed:
        for group, tally in zip(asked[event.round].groups, event.tallies, strict=True):
            request = decode_request(group.payload, schema)
            question = question_digest(request.query, schema, request.randomizer, None, 0)
            questions[digest_of(group.payload)] = question
            answers.setdefault(question, []).append(tally.answered)

    def account(request: bytes, _: int) -> EarlierAnswers:
        question = questions[request]
        of = [count for count in answers[question] if count]
        return EarlierAnswers(min(of), other_tallies=max(len(of) - 1, 1), question=question)

    return account


def _of_reuse(result: Mapping[str, Any]) -> tuple[str, ...]:
    return (_OTHERS,) if "outer" in result and result.get("reused") else ()


def _of_series(result: Mapping[str, Any]) -> tuple[str, ...]:
    return (_SO_FAR,) if _OF_SERIES & result.keys() else ()


def _has_decode_values(transcript: Transcript) -> bool:
    return any(
        group.decode is not None
        for event in transcript.recorded
        if isinstance(event, Asked)
        for group in event.groups
    )


def _check_counts(export: StudyExport, aggregator_keys: Collection[bytes] | None) -> None:
    """Check the aggregator's signature under the transcript; it need not have one."""
    counts = export.counts
    if aggregator_keys is not None and (counts is None or counts.public_key not in aggregator_keys):
        found = "no signature" if counts is None else counts.public_key.hex()
        raise VerificationFailed(
            f"counts: expected them signed by {keys_text(aggregator_keys)}, got {found}"
        )
    if counts is not None and not counts.holds(export.digest, export.epoch, export.lines):
        raise VerificationFailed("counts: expected their aggregator's signature, got a wrong one")


def _published(counts: CountsSignature) -> Iterator[str]:
    yield f"the aggregator's signature over the counts of every tally, by {counts.public_key.hex()}"


def _of_aggregator(
    counts: CountsSignature | None, aggregator_keys: Collection[bytes] | None
) -> Iterator[str]:
    """Yield what a reader has to believe of the signature under the counts."""
    if counts is None:
        yield _UNSIGNED
    elif aggregator_keys is None:
        yield "whose the key under the counts is: none was given"


def _leaves(transcript: Transcript) -> Iterator[str]:
    """Yield what a reader has to believe of the leaves: a transcript may have both kinds."""
    closed = (event for event in transcript.recorded if isinstance(event, Closed))
    tallies = [tally for event in closed for tally in event.tallies]
    if any(tally.guessable for tally in tallies):
        yield _GUESSABLE
    if any(tally.salted for tally in tallies):
        yield _SALTED


def _checked(state: str, terms: StudyTerms, rounds: int) -> Iterator[str]:
    yield "the analyst's signature, over the study as it was run"
    yield "the cohorts, drawn by the study's own digest; no user was asked in two rounds"
    yield "the charge of every request, within the signed budget"
    fields = names_of(terms.schema).in_text(", ".join(terms.fields))
    yield f"the fields asked about, among those signed: {fields or 'none'}"
    if rounds:
        yield f"{terms.learner}: asked the recorded questions when it was run again"
    if terms.conduct.least_answers and state == "done":
        yield f"least_answers: {terms.conduct.least_answers} or more in every group"
    if state != _OPEN:
        yield "the result's figures, influence and transcript digest"
    if state == "done":
        yield "the hypothesis"


class _ReadLog:
    """A transcript that is over."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self._lines = lines

    def append(self, line: str) -> None:
        raise _NotRecorded("transcript: expected every round recorded, found one missing")

    def lines(self) -> Iterator[str]:
        return iter(self._lines)


class RecordedFleet:
    """Fleet that answers from a recorded transcript and sends no request.

    `population` is how many users the study began with.
    """

    def __init__(self, population: int) -> None:
        self.population = population

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        """Raise an error: a recorded fleet has no devices."""
        raise _NotRecorded(f"transcript: expected round {round_.number + 1} closed, found it open")

    def recall(self, round_: Round, accounts: Accounts) -> None:
        """Do nothing: spending of devices is not recorded."""


class _Replay:
    """The learner, run again: what it concluded, or what it ended by."""

    def __init__(self, export: StudyExport, terms: StudyTerms, transcript: Transcript) -> None:
        self.outcome: Outcome[Any] | None = None
        self.end: AskanceError | None = None
        self.max_asked = 0
        match transcript.recorded:
            case (Header(population=users, epoch=epoch), *_):
                self._run(export, terms, users, epoch)
            case _:
                self.end = _NotRecorded("transcript: expected a header, found no line")

    def _run(self, export: StudyExport, terms: StudyTerms, users: int, epoch: int) -> None:
        session: Session[Any] = Session(
            study=export.signed,
            learner=learner_of(terms),
            fleet=RecordedFleet(users),
            log=_ReadLog(export.lines),
            cohort_seed=cohort_seed(export.digest, epoch),
            leaf_key=None,
            epoch=epoch,
        )
        try:
            self.outcome = session.run()
        except (
            _NotRecorded,
            PlanRefused,
            PlanExceeded,
            TooFewRespondents,
            InvalidAnswer,
        ) as error:
            self.end = error
        self.max_asked = session.accounts.spending().max_asked


def _check_epoch(export: StudyExport, terms: StudyTerms, transcript: Transcript) -> None:
    """Check that the export is of one signed epoch, or of a study that collects once."""
    signed = (0,) if terms.repeat is None else terms.repeat.indices
    if export.epoch not in signed:
        raise VerificationFailed(
            f"export: expected an epoch that the study signs, got {export.epoch}"
        )
    match transcript.recorded:
        case (Header(epoch=epoch), *_) if epoch != export.epoch:
            raise VerificationFailed(
                f"transcript: expected the epoch of its export, {export.epoch}, got {epoch}"
            )


def _check_record(transcript: Transcript, terms: StudyTerms, digest: bytes) -> None:
    """Check what the session takes from a transcript as it is."""
    events = transcript.recorded
    if not events:
        return
    header, rounds = events[0], events[1:]
    if rounds and isinstance(rounds[-1], Stopped):  # the replay checks what it says
        rounds = rounds[:-1]
    if not isinstance(header, Header):
        raise VerificationFailed("transcript: expected a header in line 1, found another event")
    used = 0
    for place, event in enumerate(rounds):
        kind = Closed if place % 2 else Asked
        if not isinstance(event, kind) or event.round != place // 2:
            raise VerificationFailed(
                f"transcript: expected round {place // 2 + 1} {kind.__name__.lower()} in line"
                f" {place + 2}, found another event"
            )
        if isinstance(event, Asked):
            free = range(used, header.population)
            used = _check_asked(event, terms, digest, free, header.epoch)
    for asked, closed in pairwise(rounds):
        if isinstance(asked, Asked) and isinstance(closed, Closed):
            _check_closed(asked, closed)


def _check_asked(asked: Asked, terms: StudyTerms, digest: bytes, free: range, epoch: int) -> int:
    """Check a round's requests and the users they went to; return the first position not used."""
    place = f"transcript: round {asked.round + 1}"
    if {group.question for group in asked.groups} != set(range(len(asked.questions))):
        raise VerificationFailed(f"{place}: expected a group for every question, found others")
    unasked = _parts(asked, terms)
    for number, group in enumerate(asked.groups):
        request = decode_request(group.payload, terms.schema)
        unsigned = sorted(request.query.fields_used - set(terms.fields))
        if unsigned:
            raise VerificationFailed(
                f"{place}: expected fields that the study signs, found {', '.join(unsigned)}"
            )
        part = next(unasked[group.question], None)
        stated = (request.study_digest, request.round, request.group, request.query, request.epoch)
        if stated != (digest, asked.round, number, part, epoch):
            raise VerificationFailed(
                f"{place}: expected group {number}'s own request, found another"
            )
        if group.nano_nats != request.randomizer.loss.nano_nats:
            raise VerificationFailed(
                f"{place}: expected group {number} charged {request.randomizer.loss.nano_nats}"
                f" nano-nats, found {group.nano_nats}"
            )
        if group.decode is not None:
            question = recorded_question(request.query, request.randomizer, group.decode)
            check_decode(question, request.randomizer, group.decode)
        if not free.start <= group.start <= group.stop <= free.stop:
            raise VerificationFailed(
                f"{place}: expected group {number} among users not asked before, found others"
            )
    if any(next(parts, None) for parts in unasked):
        raise VerificationFailed(f"{place}: expected all of every question asked, found a part")
    cohorts = sorted({(group.start, group.stop) for group in asked.groups})
    if any(before[1] > after[0] for before, after in pairwise(cohorts)):
        raise VerificationFailed(f"{place}: expected cohorts apart, found two that overlap")
    return max((stop for _, stop in cohorts), default=free.start)


def _parts(asked: Asked, terms: StudyTerms) -> list[Iterator[Query]]:
    """For each question what its groups are to be asked: all of it, or its blocks in order."""
    sizes: list[list[int]] = [[] for _ in asked.questions]
    for group in asked.groups:
        query = decode_request(group.payload, terms.schema).query
        sizes[group.question].append(query.components if query.kind is QueryKind.VECTOR else 1)
    return [
        iter(_divided(query_from_bytes(question, terms.schema), parts))
        for question, parts in zip(asked.questions, sizes, strict=True)
    ]


def _divided(question: Query, sizes: list[int]) -> list[Query]:
    """A question as it is; a vector in blocks of these sizes, and of what they leave."""
    if question.kind is not QueryKind.VECTOR:
        return [question]
    ends = [0, *accumulate(sizes)]
    if ends[-1] < question.components:
        ends.append(question.components)
    return [
        block_of(question, start, min(stop, question.components))
        for start, stop in pairwise(ends)
        if start < question.components
    ]


def _check_closed(asked: Asked, closed: Closed) -> None:
    place = f"transcript: round {asked.round + 1}"
    if len(closed.tallies) != len(asked.groups):
        raise VerificationFailed(
            f"{place}: expected {len(asked.groups)} tallies, found {len(closed.tallies)}"
        )
    for number, (group, tally) in enumerate(zip(asked.groups, closed.tallies, strict=True)):
        members = group.stop - group.start
        refused = [count for _, count in tally.refusals]
        heard = tally.answered + sum(refused)
        if tally.asked != members or min(tally.answered, *refused, 0) < 0 or heard > members:
            raise VerificationFailed(
                f"{place}: expected at most {members} answers and refusals in group {number},"
                f" found {heard} of {tally.asked}"
            )
        if not 0 <= tally.reused <= tally.answered:
            raise VerificationFailed(
                f"{place}: expected at most {tally.answered} reused answers in group {number},"
                f" found {tally.reused}"
            )


def _state_of(
    export: StudyExport, terms: StudyTerms, transcript: Transcript, replay: _Replay
) -> str:
    """Compare a result with the replay, and if it differs with one of the earlier intervals."""
    try:
        return _check_result(export, terms, transcript, replay)
    except VerificationFailed as failed:
        with shares_apart():
            earlier = _Replay(export, terms, transcript)
        try:
            return _check_result(export, terms, transcript, earlier)
        except VerificationFailed:
            raise failed from None


def _check_result(
    export: StudyExport, terms: StudyTerms, transcript: Transcript, replay: _Replay
) -> str:
    """Compare a result with the replay and return its state."""
    result = export.result or {}
    state = result.get("state")
    ends = ", ".join(one.name.lower() for one in StudyState if one is not StudyState.OPEN)
    if state not in ends.split(", "):
        raise VerificationFailed(f"result: expected state among {ends}, found another")
    if state == "done" and replay.outcome is None:
        raise VerificationFailed(str(replay.end))
    for kind, reason, when in _REPLAYED:
        if isinstance(replay.end, kind) != (result.get("reason") == reason):
            raise VerificationFailed(
                f"result: expected the reason {reason} where, and only where, {when}"
            )
    if state != "done" and replay.outcome is not None and result.get("reason") != _FAULT:
        raise VerificationFailed(f"result: expected a study that came to its end, found it {state}")
    outcome = replay.outcome if state == "done" else None
    users = next((e.population for e in transcript.recorded if isinstance(e, Header)), 0)
    subject = subject_json(terms.schema, terms.fields, dict(terms.parameters))
    expected = {
        "transcript": transcript.digest,
        "study": export.digest.hex(),
        "learner": terms.learner,
        "fields": list(terms.fields),
        **result_names(terms.schema, terms.fields),
        "hypothesis": None
        if outcome is None
        else _as_recorded(hypothesis_json(outcome.hypothesis), result.get("hypothesis")),
        "confidence": float(terms.conduct.confidence),
        "users": users,
        **population_facts(export.population, users),
        "bounds": bounds_json(outcome),
        **(subject if "subject" in result else {}),
        **({"unasked": unasked(transcript, terms.schema)} if "unasked" in result else {}),
        **_outer(result, transcript, terms, users),
        **figures(transcript, terms.schema),
        **({} if terms.repeat is None else epoch_facts(terms.repeat, export.epoch)),
    }
    for name, value in expected.items():
        if not alike(value, result.get(name)):
            raise VerificationFailed(f"result: expected {name} as replayed, found another")
    beside = _BESIDE if terms.repeat is None else _BESIDE | _OF_SERIES
    odd = sorted(result.keys() - expected.keys() - beside)
    if odd:
        raise VerificationFailed(f"result: expected no {odd[0]!r}, found one")
    _check_words(result, str(state))
    if result.get("reason") == _MISSED and len(transcript.recorded) > 1:
        raise VerificationFailed("result: expected nothing asked in a missed epoch, found a round")
    _check_epsilon(result, terms, transcript, replay)
    return str(state)


def _outer(
    result: Mapping[str, Any], transcript: Transcript, terms: StudyTerms, users: int
) -> dict[str, Any]:
    """Return the guarantee towards readers as it may be stated: none, or no less than follows."""
    # Delta is the operator's, at most that of so many users: more may be enrolled. Of reused
    # answers it is what fresh ones would have: which other tallies count them, the operator knows.
    if "outer" not in result:
        return {}
    stated = result["outer"]
    try:
        delta = min(delta_for(max(users, 1)), rational(stated["delta"], "delta"))
        account = _least_account(transcript, terms.schema)
        outer = outer_of_transcript(transcript, terms.schema, delta, account)
        bound = {} if outer is None else outer.to_json()
        loose = bound | {"epsilon": max(stated["epsilon"], bound["epsilon"])}
        if figures(transcript, terms.schema)["reused"]:
            hidden = min(int(stated["answers"]), bound["answers"])
            loose |= {"answers": hidden}
            least = int(bound.get("other_tallies", 0))
            if others := max(least, int(stated.get("other_tallies", 0))):
                loose |= {"other_tallies": others}
    except (KeyError, TypeError, InvalidParameter):
        return {"outer": None}
    return {"outer": loose}


def _check_words(result: dict[str, Any], state: str) -> None:
    """Check the text beside the figures."""
    if result.get("reason") not in _REASONS[state]:
        raise VerificationFailed(f"result: expected the reason of a study that is {state}")
    if state == "done" and result.get("message") != "":
        raise VerificationFailed("result: expected no message of a study that is done, found one")


def _as_recorded(replayed: Any, recorded: Any) -> Any:
    """Leave out the keys that were added since, if the recorded hypothesis has none of them."""
    if not isinstance(replayed, dict) or not isinstance(recorded, dict):
        return replayed
    if _ADDED & recorded.keys():
        return replayed
    return {key: part for key, part in replayed.items() if key not in _ADDED}


def _check_epsilon(
    result: dict[str, Any], terms: StudyTerms, transcript: Transcript, replay: _Replay
) -> None:
    """Check the charges that were asked for, and that devices' reported spending is consistent."""
    epsilon = result.get("epsilon")
    found = epsilon if isinstance(epsilon, dict) else {}
    most, total = (found.get(f"{which}_spent_nano_nats") for which in ("max", "total"))
    if type(most) is not int or type(total) is not int or not 0 <= most <= total:
        raise VerificationFailed("result: expected epsilon in whole nano-nats, found another")
    max_asked = most_asked(transcript)
    expected = {
        "budget": terms.budget_nano_nats / _NANO,
        "max_asked_nano_nats": max_asked,
        "max_spent": most / _NANO,
        "mean_spent": total / max(int(result["users"]), 1) / _NANO,
        "max_spent_nano_nats": most,
        "total_spent_nano_nats": total,
    }
    if found.keys() != expected.keys():
        raise VerificationFailed(f"result: expected epsilon to have {', '.join(expected)}")
    for name, value in expected.items():
        if not alike(value, found[name]):
            raise VerificationFailed(f"result: expected epsilon.{name} as replayed, found another")
    heard = [most if replay.max_asked == max_asked else None]
    if result["state"] == "cancelled":
        heard.append(None)  # cancelled while no thread ran it: devices' spending is in no account
    if result.get("privacy") not in [privacy_statement(terms, max_asked, one) for one in heard]:
        raise VerificationFailed("result: expected privacy in the words of its figures")


def alike(expected: Any, found: Any) -> bool:
    """Compare parts of results: equal, fractions to within what numerical libraries differ by."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(
            alike(value, found[name]) for name, value in expected.items()
        )
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return len(expected) == len(found) and all(
            alike(one, other) for one, other in zip(expected, found, strict=True)
        )
    if isinstance(expected, float) and isinstance(found, int | float):
        return math.isclose(expected, found, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return type(expected) is type(found) and bool(expected == found)


_OPEN_END = End(StudyState.OPEN, "", "")


def verify_export(
    path: Path,
    analyst_keys: Collection[bytes] | None = None,
    aggregator_keys: Collection[bytes] | None = None,
) -> Verification:
    """Verify an export in a file: of one collection (see `verify`), or of a repeated study.

    Raises:
      InvalidRecord: the file is none. VerificationFailed: it does not hold together.
    """
    found = read_export(path)
    if isinstance(found, StudyExport):
        return verify(found, analyst_keys, aggregator_keys)
    return verify_series(found, analyst_keys, aggregator_keys)


def verify_series(
    export: SeriesExport,
    analyst_keys: Collection[bytes] | None = None,
    aggregator_keys: Collection[bytes] | None = None,
) -> Verification:
    """Verify the export of a repeated study: each epoch by itself, then the summary.

    Keys are as of `verify`. The outcome's transcript is a hash over the digests of the epochs'.
    """
    found: list[Verification] = []
    for one in export.epochs:
        try:
            found.append(verify(one, analyst_keys, aggregator_keys))
        except VerificationFailed as error:
            raise VerificationFailed(f"epoch {one.epoch}: {error}") from None
    if not found:
        raise VerificationFailed(
            "export: expected 1 epoch that had ended when it was written, or more, got 0"
        )
    terms = read_terms(export.signed.study)
    if terms.repeat is None:
        raise VerificationFailed("study: expected one that repeats, found one that collects once")
    end = _checked_end(export, terms.repeat)
    results = [one.result for one in export.epochs if one.result is not None]
    try:
        expected = series_json(digest_of(export.signed.study), terms, results, end)
    except (AskanceError, LookupError, TypeError, ValueError):
        raise VerificationFailed("result: expected the figures of its epochs") from None
    for name in sorted(expected.keys() | export.result.keys()):
        if not alike(expected.get(name), export.result.get(name)):
            raise VerificationFailed(f"result: expected {name} as of its epochs, found another")
    _check_outer_series(export, terms)
    digests = "".join(f"{one.transcript}\n" for one in found)
    of_all = f"each epoch that has ended ({len(found)}): "
    return Verification(
        study=found[0].study,
        public_key=found[0].public_key,
        state=end.state.name.lower(),
        rounds=sum(one.rounds for one in found),
        answers=sum(one.answers for one in found),
        transcript="sha256:" + hashlib.sha256(digests.encode()).hexdigest(),
        checked=(
            *(of_all + line for line in found[0].checked),
            "the epochs, among those signed, each once, in order of time",
            "the sums over epochs: answers, reuse and the most that a user was asked for",
            *((_OUTER_SERIES,) if any(_of_series(result) for result in results) else ()),
        ),
        believed=tuple(
            dict.fromkeys(line for one in found for line in one.believed if line != _SO_FAR)
        ),
    )


def _check_outer_series(export: SeriesExport, terms: StudyTerms) -> None:
    """Check what each epoch states of all results so far: no less than follows from them."""
    # Both statements of an epoch have one delta; if they differ, the one with the greater fails.
    transcripts = []
    for one in export.epochs:
        transcripts.append(Transcript(_ReadLog(one.lines)))
        result = one.result or {}
        stated = {name: result[name] for name in sorted(_OF_SERIES & result.keys())}
        if not stated:
            continue
        try:
            deltas = [rational(found["delta"], "delta") for found in stated.values()]
            delta = min(delta_for(max(result["users"], 1)), *deltas)
            bounds = outer_series_json(transcripts, terms, delta)
        except (KeyError, TypeError, InvalidParameter):
            bounds = {}
        for name, found in stated.items():
            try:
                bound = bounds[name]
                loose = bound | {"epsilon": max(found["epsilon"], bound["epsilon"])}
            except (KeyError, TypeError):
                loose = None
            if not alike(loose, found):
                raise VerificationFailed(
                    f"epoch {one.epoch}: result: expected {name} as of its epochs, found another"
                )


def _checked_end(export: SeriesExport, repeat: Repeat) -> End:
    """Return the end that follows from the epochs; check that they are all there, in order."""
    indices = [one.epoch for one in export.epochs]
    if indices != sorted(set(indices)):
        raise VerificationFailed("export: expected epochs in order of time, each once")
    states = [_state(one.result) for one in export.epochs]
    stated = export.result.get("state")
    if stated == "open":
        return _OPEN_END
    reason, message = (str(export.result.get(name)) for name in ("reason", "message"))
    if stated == "cancelled":
        by_approver = End(StudyState.CANCELLED, reason, message)
        return by_approver if reason in _BY_APPROVERS else CANCELLED
    if stated == "failed" and reason == NOT_APPROVED:
        return End(StudyState.FAILED, reason, message)
    if indices != list(repeat.indices):
        raise VerificationFailed(f"export: expected {repeat.epochs} epochs, found {len(indices)}")
    return end_of_series(states)


def _state(result: dict[str, Any] | None) -> StudyState:
    """Return the state in an epoch's result, which was verified."""
    if result is None:
        raise VerificationFailed("export: expected epochs that have ended, found an open one")
    return StudyState[str(result["state"]).upper()]
