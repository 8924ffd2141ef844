"""The local oracle: statistical queries answered by a fleet of devices.

To a learner it is an oracle like any other (`oracles.Oracle`). Behind `answer` a batch becomes
groups of users; it is recorded, the accounts are charged, the fleet is asked, the tallies are
recorded, and the estimates are computed from them. What a transcript holds already is not asked
again. A batch in waves is a round a wave (`waves`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.encoding import encode_request, query_from_bytes, query_to_bytes, read_terms
from askance_aggregator.learners import Answers, Batch, Question
from askance_aggregator.planning import Design, RoundPlan, RoundRules, StudyPlan, plan_batch
from askance_aggregator.queries import within_a_step
from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.bounds import AnswerBounds, Sure
from askance_aggregator.studies.cohorts import permutation_of
from askance_aggregator.studies.fleet import Fleet
from askance_aggregator.studies.recorded_rounds import recorded_round
from askance_aggregator.studies.submitted import surplus_of_answers
from askance_aggregator.studies.tallies import Tally
from askance_aggregator.studies.transcript import (
    Asked,
    AskedGroup,
    Closed,
    Header,
    Stopped,
    Transcript,
)
from askance_aggregator.studies.waves import Waves
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.codec import decode_request
from askance_client.errors import (
    InvalidParameter,
    NondeterminismError,
    PlanExceeded,
    PlanRefused,
    TooFewRespondents,
)
from askance_client.messages import Request, SignedStudy
from askance_client.queries import Schema

Watch = Callable[[int, RoundPlan], None]


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Records of an earlier run of this study, by round."""

    asked: dict[int, Asked]
    closed: dict[int, Closed]
    stopped: dict[int, Stopped]


class LocalOracle:
    """Answer the batches of one study by one fleet, from the end of its transcript.

    Arguments that a `Session` has too are explained there.

    Args:
      study_plan: how its rounds were planned.
      fleet: the devices that answer.
      transcript: what was recorded before, and where to record on.
      header: what the transcript begins with: whose study, how many users, the cohorts' seed.
    """

    def __init__(
        self,
        *,
        study: SignedStudy,
        study_plan: StudyPlan,
        fleet: Fleet,
        transcript: Transcript,
        accounts: Accounts,
        header: Header,
        design: Design,
        leaf_key: bytes | None,
        watch: Watch | None = None,
        users: NDArray[np.int64] | None = None,
    ) -> None:
        self._study = study
        self._digest = header.study_digest
        self._epoch = header.epoch
        self._header = header
        self._terms = read_terms(study.study)
        self.schema = self._terms.schema
        self._plan = study_plan
        self._fleet = fleet
        self._transcript = transcript
        self._accounts = accounts
        repeat = self._terms.repeat
        # Joint over all epochs that are signed, whichever of them are run (union bound).
        self._alpha = float((1 - header.confidence) / (1 if repeat is None else repeat.epochs))
        self._design = design
        self._leaf_key = leaf_key
        self._watch = watch
        self._permutation = permutation_of(header.cohort_seed, header.population, users)
        self.users_used = 0  # the first position of the permutation that no round has used
        self._tallies: list[tuple[Tally, ...]] = []
        self._batches = 0
        self._values = 0  # whose beta is spent so far; it is divided over the planned ones
        self.queries = 0  # once per wave
        self.users_saved = 0  # not asked, as earlier waves were enough
        self._bounds: list[AnswerBounds] = []
        self._recorded = self._open(header)

    @property
    def tallies(self) -> tuple[tuple[Tally, ...], ...]:
        """Tallies, round by round."""
        return tuple(self._tallies)

    @property
    def bounds(self) -> tuple[AnswerBounds, ...]:
        """Bounds of every answer."""
        return tuple(self._bounds)

    def answer(self, batch: Batch) -> Answers:
        """Answer each question in order, by one round or one round per wave.

        Raises:
          PlanRefused: the first batch does not fit the plan; no user was asked or charged.
          PlanExceeded: a later batch asks for more values or users than are planned, or uses
            fields that are not signed. It was not asked; users of the rounds before stay charged.
          TooFewRespondents: a group has fewer answers than the study asks for.
          NondeterminismError: the transcript holds another batch here.
        """
        first = self.users_used
        try:
            planned, spent = self._planned(batch)
        except (InvalidParameter, PlanRefused) as error:  # plain, unless users were charged
            if not self._tallies:
                raise
            self._stop(str(error))
        self._check_planned(batch, planned, spent)
        self._batches += 1
        self._values += spent
        waves = Waves(batch, planned, self._plan.beta_per_value * spent / batch.values)
        while not waves.done:
            self._ask(waves)
        self.users_saved += planned.users - (self.users_used - first)
        answers = waves.answers(self._alpha)
        sure = Sure(self._terms.budget_nano_nats / NANO_NATS_PER_NAT, self._alpha)
        self._bounds += waves.bounds(self._batches - 1, answers, sure)
        return answers

    def check_replayed(self) -> None:
        """Raise NondeterminismError if a round is recorded that the learner never asked for."""
        if len(self._tallies) in self._recorded.asked:
            raise NondeterminismError(
                f"transcript: expected {len(self._tallies)} rounds, as many as the learner asked,"
                " found more"
            )
        if self._recorded.stopped:
            raise NondeterminismError(
                "transcript: expected no stop of a learner that kept to its plan, got one"
            )

    def _open(self, header: Header) -> _Recorded:
        events = self._transcript.recorded
        if not events:
            self._transcript.append(header)
        elif events[0] != header:
            raise NondeterminismError("transcript: expected this study's header, found another's")
        recorded = _Recorded({}, {}, {})
        for event in events[1:]:
            if isinstance(event, Asked):
                recorded.asked[event.round] = event
            elif isinstance(event, Closed):
                recorded.closed[event.round] = event
            elif isinstance(event, Stopped):
                recorded.stopped[event.round] = event
        return recorded

    def _planned(self, batch: Batch) -> tuple[RoundPlan, int]:
        """Plan the round, all waves of it; a replay plans it as the first run did."""
        # A category of fewer cells than were rehearsed has less of beta, and may need more users
        # for that. Then the round is given the beta of as many values as were rehearsed.
        #
        # The number is that of the planned values whose beta the round spends.
        planned = self._planned_for(batch, batch.values)
        if self._batches >= len(self._plan.rounds):
            return planned, batch.values
        rehearsed = self._plan.rounds[self._batches]
        spent = min(rehearsed.values, self._plan.values - self._values)
        if planned.users <= rehearsed.users or spent <= batch.values:
            return planned, batch.values
        return self._planned_for(batch, spent), spent

    def _planned_for(self, batch: Batch, spent: int) -> RoundPlan:
        return plan_batch(
            batch,
            self._terms.budget_nano_nats,
            self._plan.beta_per_value * spent / batch.values,
            self._plan.allowance(self._batches, self._left),
            RoundRules.of(self._terms.conduct, self._design),
        )

    @property
    def _left(self) -> int:
        return self._permutation.size - self.users_used

    def _check_planned(self, batch: Batch, planned: RoundPlan, spent: int) -> None:
        """Stop the study before a batch that its plan or its signed terms do not cover."""
        # Beta is divided over the rehearsed values, so a run that asks for more would not keep it.
        values = self._values + spent
        used = frozenset().union(*(question.query.fields_used for question in batch.questions))
        unsigned = sorted(used - set(self._terms.fields))
        if values > self._plan.values:
            self._stop(f"expected at most {self._plan.values} values, as rehearsed, got {values}")
        if unsigned:
            self._stop(f"expected fields that the study signs, got {', '.join(unsigned)}")
        if surplus := surplus_of_answers(self._terms, planned):
            self._stop(surplus)
        if planned.nano_nats > self._terms.budget_nano_nats:
            self._stop(
                f"expected at most {self._terms.budget_nano_nats} nano-nats for each user, got"
                f" {planned.nano_nats}"
            )
        if len(self._tallies) not in self._recorded.asked and planned.users > self._left:
            self._stop(f"expected {planned.users} users not asked before, got {self._left}")

    def _stop(self, why: str) -> NoReturn:
        """Raise the error of a round that is not asked; record it if earlier rounds were."""
        number = len(self._tallies)
        if number in self._recorded.asked:
            raise NondeterminismError(f"round {number + 1}: expected as recorded, got: {why}")
        if not number:
            raise PlanRefused(f"round 1: {why}; no user was asked or charged")
        message = (
            f"round {number + 1}: {why}; this round was not asked, the {self.users_used:,} users"
            " asked before it stay charged"
        )
        stopped = Stopped(number, self.users_used, message)
        recorded = self._recorded.stopped.get(number)
        if recorded is None:
            self._transcript.append(stopped)
        elif recorded != stopped:
            raise NondeterminismError(
                f"transcript: expected the stop of round {number + 1} as replayed, got another"
            )
        raise PlanExceeded(message)

    def _ask(self, waves: Waves) -> None:
        """Ask the next wave, unless it is recorded, and enter its tallies."""
        number = len(self._tallies)
        questions = waves.asking
        asked = self._recorded.asked.get(number)
        if asked is None:
            asked = self._record(number, questions, waves.next())
        else:
            _same(questions, asked, self._terms.schema)
        closed = self._close(number, asked, self._recorded.closed.get(number))
        self._tallies.append(closed.tallies)
        self.queries += len(questions)
        self._check_respondents(number, closed)
        requests = [decode_request(group.payload, self._terms.schema) for group in asked.groups]
        places = [group.question for group in asked.groups]
        decodes = [group.decode for group in asked.groups]
        waves.add(places, requests, closed.tallies, decodes)

    def _record(self, number: int, questions: Sequence[Question], round_plan: RoundPlan) -> Asked:
        """Allocate users to a wave and make it durable before a request is sent."""
        starts: dict[int, int] = {}
        cursor = self.users_used
        groups = []
        for index, group in enumerate(round_plan.groups):
            if group.cohort not in starts:
                starts[group.cohort] = cursor
                cursor += group.users
            request = Request(
                self._digest, number, index, group.query, group.randomizer, self._epoch
            )
            groups.append(
                AskedGroup(
                    payload=encode_request(request),
                    question=group.question,
                    start=starts[group.cohort],
                    stop=starts[group.cohort] + group.users,
                    nano_nats=group.randomizer.loss.nano_nats,
                    decode=group.decode,
                )
            )
        queries = tuple(query_to_bytes(question.query) for question in questions)
        asked = Asked(number, queries, round_plan.allocation.value, tuple(groups))
        self._transcript.append(asked)
        if self._watch is not None:
            self._watch(number, round_plan)
        return asked

    def _close(self, number: int, asked: Asked, closed: Closed | None) -> Closed:
        """Charge the accounts and, unless the round is closed already, ask the fleet."""
        round_ = recorded_round(self._study, self._header, asked, self._permutation, self._leaf_key)
        for group in round_.groups:
            self._accounts.reserve(group.cohort, group.nano_nats)
        self.users_used = max(self.users_used, *(group.stop for group in asked.groups))
        if closed is not None:
            self._fleet.recall(round_, self._accounts)
            return closed
        closed = Closed(number, self._fleet.ask(round_, self._accounts))
        self._transcript.append(closed)
        return closed

    def _check_respondents(self, number: int, closed: Closed) -> None:
        """After the tallies are recorded: a replay comes to the same end."""
        least = self._terms.conduct.least_answers
        fewest = min(tally.answered for tally in closed.tallies)
        if fewest < least:
            raise TooFewRespondents(
                f"round {number + 1}: expected at least {least} answers to each question,"
                f" found {fewest}"
            )


def _same(questions: Sequence[Question], asked: Asked, schema: Schema) -> None:
    """Check that a replayed learner asks what was recorded, to within a grid step."""
    # The recorded batch is the one that counts: its requests are already out.
    recorded = [query_from_bytes(question, schema) for question in asked.questions]
    if len(recorded) != len(questions):
        raise NondeterminismError(
            f"round {asked.round + 1}: expected the {len(recorded)} questions that were recorded,"
            f" found {len(questions)}"
        )
    for place, (before, question) in enumerate(zip(recorded, questions, strict=True)):
        if not within_a_step(before, question.query):
            raise NondeterminismError(
                f"round {asked.round + 1}: expected question {place + 1} as recorded, found another"
            )
