"""Running a study: a learner against the local oracle, and what it took."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.encoding import read_terms
from askance_aggregator.families import best_for
from askance_aggregator.learners import Learner
from askance_aggregator.oracles import learn
from askance_aggregator.planning import Design, RoundRules, StudyPlan, plan, settled
from askance_aggregator.studies.accounts import Accounts, Spending
from askance_aggregator.studies.bounds import AnswerBounds
from askance_aggregator.studies.fleet import Fleet
from askance_aggregator.studies.local import LocalOracle, Watch
from askance_aggregator.studies.tallies import Tally
from askance_aggregator.studies.transcript import REPORTED, Asked, Header, Transcript, TranscriptLog
from askance_client.codec import digest_of
from askance_client.errors import InvalidParameter, NondeterminismError, PlanRefused
from askance_client.messages import SignedStudy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """Outcome of a study: its hypothesis and its cost.

    `answers` counts the reports received, `reused` those of them that were given before, to another
    request (they describe their users as of then), `users_used` the users asked, `rounds` and
    `queries` what were asked of them, a wave counting for itself; `users_saved` were planned for,
    and not asked because earlier waves were enough; `transcript` is the digest.
    """

    hypothesis: T
    rounds: int
    queries: int
    answers: int
    refusals: int
    reused: int
    users_used: int
    users_saved: int
    spending: Spending
    reconciled: bool
    transcript: str
    tallies: tuple[tuple[Tally, ...], ...]
    bounds: tuple[AnswerBounds, ...] = ()


class Session(Generic[T]):
    """Study on one fleet, from its first question or from the end of a transcript.

    Args:
      study: the signed study; its budget is each user's whole budget here.
      learner: what asks.
      fleet: the devices that answer.
      log: the transcript's log; an interrupted one is replayed and continued.
      cohort_seed: determines the members of each cohort.
      leaf_key: 32 secret bytes of the study, from which the salts of the tallies' leaves follow; an
        interrupted study goes on with the one that it began with. None: a replay, which closes no
        round.
      design: which randomizer for how many levels and nano-nats.
      watch: called with a round's number and plan once its users are allocated and recorded, before
        any is asked; not for rounds that the log holds already.
      epoch: index of the epoch that it collects; 0: the study collects once.
      tallies: kind of the fleet's tallies (see `Header`).
      users: ordinals of the study's users, 1 or more, sorted; None: all of the fleet's.
    """

    def __init__(
        self,
        *,
        study: SignedStudy,
        learner: Learner[T],
        fleet: Fleet,
        log: TranscriptLog,
        cohort_seed: bytes,
        leaf_key: bytes | None,
        design: Design = best_for,
        watch: Watch | None = None,
        epoch: int = 0,
        tallies: str = REPORTED,
        users: NDArray[np.int64] | None = None,
    ) -> None:
        self._study = study
        self._terms = read_terms(study.study)
        repeat = self._terms.repeat
        if epoch not in ((0,) if repeat is None else repeat.indices):
            raise InvalidParameter(f"epoch: expected one that the study signs, got {epoch}")
        self._learner = learner
        self._fleet = fleet
        self.transcript = Transcript(log)
        self._header = Header(
            digest_of(study.study),
            learner.name,
            learner.version,
            _population(self.transcript, fleet) if users is None else len(users),
            cohort_seed,
            self._terms.conduct.beta,
            self._terms.conduct.confidence,
            epoch,
            tallies,
        )
        self._leaf_key = leaf_key
        self._design = design
        self._watch = watch
        self._users = users
        self.accounts = self._new_accounts()

    @property
    def population(self) -> int:
        """Number of the study's users."""
        return self._header.population

    def plan(self) -> StudyPlan:
        """Return the plan for this fleet; send no request."""
        return plan(self._learner, *self._conditions)

    def settled(self) -> Learner[T]:
        """Return the learner with the settings that follow from the users and the budget."""
        return settled(self._learner, *self._conditions)

    @property
    def _conditions(self) -> tuple[int, Fraction, int, RoundRules]:
        rules = RoundRules.of(self._terms.conduct, self._design)
        return (self._terms.budget_nano_nats, self._header.beta, self._header.population, rules)

    def run(self) -> Outcome[T]:
        """Run the study to its end; called again, it continues from the transcript.

        Raises:
          PlanRefused: it cannot work with these users and this budget; no user was asked.
          PlanExceeded: the learner asked more than its rehearsal, or fields that are not signed;
            users were asked and charged in the rounds before.
          TooFewRespondents: a round closed with fewer answers than the study asks for.
          NondeterminismError: the learner asked something else than its transcript recorded.
        """
        oracle = self.oracle()
        hypothesis: T = learn(self.settled(), oracle)
        oracle.check_replayed()
        tallies = [tally for round_ in oracle.tallies for tally in round_]
        return Outcome(
            hypothesis=hypothesis,
            rounds=len(oracle.tallies),
            queries=oracle.queries,
            answers=sum(tally.answered for tally in tallies),
            refusals=sum(count for tally in tallies for _, count in tally.refusals),
            reused=sum(tally.reused for tally in tallies),
            users_used=oracle.users_used,
            users_saved=oracle.users_saved,
            spending=self.accounts.spending(),
            reconciled=self.accounts.reconciled(),
            transcript=self.transcript.digest,
            tallies=oracle.tallies,
            bounds=oracle.bounds,
        )

    def oracle(self) -> LocalOracle:
        """The fleet as an oracle for this study's learner, with what the transcript holds.

        Raises:
          PlanRefused: it cannot work with these users and this budget; no user was asked.
          NondeterminismError: the same plan was feasible when the recorded rounds were asked.
        """
        begun = any(isinstance(event, Asked) for event in self.transcript.recorded)
        try:
            study_plan = self.plan()
        except PlanRefused as error:
            raise (_replanned(error) if begun else error) from None
        if not study_plan.feasible:
            refused = PlanRefused(study_plan.reason or "the plan is not feasible")
            raise _replanned(refused) if begun else refused
        self.accounts = self._new_accounts()
        return LocalOracle(
            study=self._study,
            study_plan=study_plan,
            fleet=self._fleet,
            transcript=self.transcript,
            accounts=self.accounts,
            header=self._header,
            design=self._design,
            leaf_key=self._leaf_key,
            watch=self._watch,
            users=self._users,
        )

    def _new_accounts(self) -> Accounts:
        return Accounts(self._header.population, self._terms.budget_nano_nats)


def _replanned(error: PlanRefused) -> NondeterminismError:
    """Return the error of a study whose recorded rounds were planned, and now cannot be."""
    return NondeterminismError(
        f"plan: expected the plan of the recorded rounds, whose users stay charged, got: {error}"
    )


def _population(transcript: Transcript, fleet: Fleet) -> int:
    """Return the number of users of a study, fixed when it begins."""
    match transcript.recorded:
        case (Header(population=begun_with), *_) if begun_with <= fleet.population:
            return begun_with
    return fleet.population
