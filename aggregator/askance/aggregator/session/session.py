"""Running a study: plan, record, reserve, ask, estimate, and the learner never notices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from askance.aggregator.estimation import estimate
from askance.aggregator.learners import Answer, Answers, Batch, Learner
from askance.aggregator.planning import Design, RoundPlan, StudyPlan, plan, plan_batch
from askance.aggregator.session.accounts import Accounts, Spending
from askance.aggregator.session.cohorts import Permutation
from askance.aggregator.session.fleet import Fleet
from askance.aggregator.session.rounds import Group, Round
from askance.aggregator.session.tallies import Tally
from askance.aggregator.session.transcript import (
    Asked,
    AskedGroup,
    Closed,
    Header,
    Transcript,
    TranscriptLog,
)
from askance.client.codec import (
    decode_request,
    decode_study,
    digest_of,
    encode_request,
    query_from_bytes,
    query_to_bytes,
)
from askance.client.errors import NondeterminismError, PlanRefused
from askance.client.messages import Request, SignedStudy
from askance.client.queries import Schema, within_a_step
from askance.client.randomizers import best_for

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What an earlier run of this study left behind, by round."""

    asked: dict[int, Asked]
    closed: dict[int, Closed]


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What a study found, and what it took.

    `answers` counts the reports received, `users_used` the users asked, `rounds` and `queries` what
    the learner asked for; `transcript` is the digest.
    """

    hypothesis: T
    rounds: int
    queries: int
    answers: int
    refusals: int
    users_used: int
    spending: Spending
    reconciled: bool
    transcript: str
    tallies: tuple[tuple[Tally, ...], ...]


class Session(Generic[T]):
    """One study on one fleet, from its first question or from where a transcript broke off.

    Args:
      study: the signed study; its budget is each user's whole budget here.
      learner: what asks.
      fleet: who answers.
      log: the transcript's log; an interrupted one is replayed and continued.
      cohort_seed: fixes who is in which cohort.
      beta: the chance, over all answers, that one is further off than its tolerance.
      confidence: of the intervals, jointly over a batch.
      design: which randomizer for how many levels and nano-nats.
      watch: told of each round as it opens (its plan) and closes.
    """

    def __init__(
        self,
        *,
        study: SignedStudy,
        learner: Learner[T],
        fleet: Fleet,
        log: TranscriptLog,
        cohort_seed: bytes,
        beta: Fraction,
        confidence: Fraction = Fraction(95, 100),
        design: Design = best_for,
        watch: Callable[[int, RoundPlan], None] | None = None,
    ) -> None:
        self._study = study
        self._digest = digest_of(study.study)
        self._terms = decode_study(study.study)
        self._learner = learner
        self._fleet = fleet
        self._transcript = Transcript(log)
        self._seed = cohort_seed
        self._beta = beta
        self._alpha = 1 - confidence
        self._design = design
        self._watch = watch
        self._cohorts = Permutation(cohort_seed, fleet.population)
        self._accounts = Accounts(fleet.population, self._terms.budget_nano_nats)
        self._next = 0  # the first position of the permutation that no round has used

    @property
    def transcript(self) -> Transcript:
        """What has been recorded so far."""
        return self._transcript

    @property
    def accounts(self) -> Accounts:
        """The users' accounts for this study."""
        return self._accounts

    def plan(self) -> StudyPlan:
        """The plan for this fleet; asks nobody."""
        return plan(
            self._learner,
            self._terms.budget_nano_nats,
            self._beta,
            n_users=self._fleet.population,
            design=self._design,
        )

    def run(self) -> Outcome[T]:
        """Runs the study to its end.

        Raises:
          PlanRefused: it cannot work with these users and this budget; nobody was asked.
          NondeterminismError: the learner asked something else than its transcript recorded.
        """
        study_plan = self.plan()
        if not study_plan.feasible:
            raise PlanRefused(study_plan.reason or "the plan is not feasible")
        recorded = self._open()
        tallies: list[tuple[Tally, ...]] = []
        queries = 0
        generator = self._learner.run()
        answers: Answers | None = None
        while True:
            try:
                batch = next(generator) if answers is None else generator.send(answers)
            except StopIteration as stop:
                hypothesis: T = stop.value
                break
            number = len(tallies)
            asked = recorded.asked.get(number)
            if asked is None:
                asked = self._record(number, batch, study_plan)
            else:
                _same(batch, asked, self._terms.schema)
            closed = self._close(number, asked, recorded.closed.get(number))
            answers = self._estimate(batch, asked, closed)
            tallies.append(closed.tallies)
            queries += len(batch.questions)
        return self._outcome(hypothesis, queries, tallies)

    def _open(self) -> _Recorded:
        header = Header(
            study_digest=self._digest,
            learner=self._learner.name,
            learner_version=self._learner.version,
            population=self._fleet.population,
            cohort_seed=self._seed,
        )
        events = self._transcript.recorded
        if not events:
            self._transcript.append(header)
        elif events[0] != header:
            raise NondeterminismError("transcript: expected this study's header, found another's")
        recorded = _Recorded({}, {})
        for event in events[1:]:
            if isinstance(event, Asked):
                recorded.asked[event.round] = event
            elif isinstance(event, Closed):
                recorded.closed[event.round] = event
        return recorded

    def _record(self, number: int, batch: Batch, study_plan: StudyPlan) -> Asked:
        """Allocates users to a batch and makes it durable, before anybody is asked."""
        left = self._cohorts.size - self._next
        round_plan = plan_batch(
            batch,
            self._terms.budget_nano_nats,
            study_plan.beta_per_value,
            study_plan.allowance(number, left),
            self._design,
        )
        if round_plan.users > left:
            raise PlanRefused(
                f"round {number}: expected {round_plan.users} users not asked before, found {left}"
            )
        starts: dict[int, int] = {}
        cursor = self._next
        groups = []
        for index, group in enumerate(round_plan.groups):
            if group.cohort not in starts:
                starts[group.cohort] = cursor
                cursor += group.users
            request = Request(self._digest, number, index, group.query, group.randomizer)
            groups.append(
                AskedGroup(
                    payload=encode_request(request),
                    question=group.question,
                    start=starts[group.cohort],
                    stop=starts[group.cohort] + group.users,
                    nano_nats=group.randomizer.loss.nano_nats,
                )
            )
        questions = tuple(query_to_bytes(question.query) for question in batch.questions)
        asked = Asked(number, questions, round_plan.allocation.value, tuple(groups))
        self._transcript.append(asked)
        if self._watch is not None:
            self._watch(number, round_plan)
        return asked

    def _close(self, number: int, asked: Asked, closed: Closed | None) -> Closed:
        """Charges the accounts and, unless the round is closed already, asks the fleet."""
        groups = tuple(self._group(group) for group in asked.groups)
        for group in groups:
            self._accounts.reserve(group.members, group.nano_nats)
        self._next = max(self._next, *(group.stop for group in asked.groups))
        if closed is None:
            round_ = Round(number, self._study, self._digest, groups)
            closed = Closed(number, self._fleet.ask(round_, self._accounts))
            self._transcript.append(closed)
        return closed

    def _group(self, asked: AskedGroup) -> Group:
        request = decode_request(asked.payload, self._terms.schema)
        return Group(
            payload=asked.payload,
            digest=digest_of(asked.payload),
            query=request.query,
            randomizer=request.randomizer,
            nano_nats=asked.nano_nats,
            members=self._cohorts.ordinals(asked.start, asked.stop),
            population=self._cohorts.size,
        )

    def _estimate(self, batch: Batch, asked: Asked, closed: Closed) -> Answers:
        answers: list[Answer] = []
        alpha = float(self._alpha) / len(batch.questions)
        for group, tally in zip(asked.groups, closed.tallies, strict=True):
            request = decode_request(group.payload, self._terms.schema)
            counts = np.array(tally.counts, dtype=np.int64)
            question = batch.questions[group.question]
            answers.append(estimate(question, request.randomizer, counts, tally.answered, alpha))
        return tuple(answers)

    def _outcome(self, hypothesis: T, queries: int, tallies: list[tuple[Tally, ...]]) -> Outcome[T]:
        flat = [tally for round_ in tallies for tally in round_]
        return Outcome(
            hypothesis=hypothesis,
            rounds=len(tallies),
            queries=queries,
            answers=sum(tally.answered for tally in flat),
            refusals=sum(count for tally in flat for _, count in tally.refusals),
            users_used=self._next,
            spending=self._accounts.spending(),
            reconciled=self._accounts.reconciled(),
            transcript=self._transcript.digest,
            tallies=tuple(tallies),
        )


def _same(batch: Batch, asked: Asked, schema: Schema) -> None:
    """Checks that a replayed learner asks what was recorded, to within a grid step.

    The recorded batch is the one that counts: its requests are already out.
    """
    recorded = [query_from_bytes(question, schema) for question in asked.questions]
    if len(recorded) != len(batch.questions):
        raise NondeterminismError(
            f"round {asked.round}: expected the {len(recorded)} questions that were recorded,"
            f" found {len(batch.questions)}"
        )
    for place, (before, question) in enumerate(zip(recorded, batch.questions, strict=True)):
        if not within_a_step(before, question.query):
            raise NondeterminismError(
                f"round {asked.round}: expected question {place} as recorded, found another"
            )
