"""Running a study on a simulated fleet: one trial, or many with seeds of their own."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.composition import ZeroConcentrated
from askance_aggregator.learners import MeanEstimate, hypothesis_json
from askance_aggregator.learners.assessments import Assessment, assess
from askance_aggregator.learners.mean import SAMPLE
from askance_aggregator.learners.worth import Worth, mean_of
from askance_aggregator.planning import RoundPlan
from askance_aggregator.studies import (
    Cohort,
    LocalOracle,
    Outcome,
    Permutation,
    Session,
    Transcript,
    composed,
)
from askance_aggregator.studies.results import bounds_json
from askance_aggregator.studies.study import Study
from askance_aggregator.studies.transcript import Header
from askance_client.device import Policy
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_simulation.disturbances import PRESENT_AND_HONEST, Behaviour
from askance_simulation.disturbances.invariants import check_replay
from askance_simulation.disturbances.recorder import FaultRecorder
from askance_simulation.experiments.absences import absences
from askance_simulation.experiments.advice import advice
from askance_simulation.experiments.disturbances import (
    MakeBehaviour,
    MakeFates,
    check_disturbed,
    disturbed,
    lied,
    stayed_away,
    went_wrong,
)
from askance_simulation.experiments.frames import to_arrow, to_pandas
from askance_simulation.experiments.records import (
    RoundTaken,
    estimates,
    rounds_taken,
    rows_of,
    write_rows,
)
from askance_simulation.experiments.references import reference_of
from askance_simulation.experiments.sample_assessments import assess_sample
from askance_simulation.fleets import FLEETS, Devices, FleetMaker, Progress, fleet_by, kept_ready
from askance_simulation.plots import Picture, picture
from askance_simulation.populations import Population
from askance_simulation.randomness.coins import SeededCoins
from askance_simulation.randomness.seeds import Seed

EPOCH_S = 1_767_225_600  # 2026-01-01, where the clock of every simulation stands
_LIFETIME_S = 365 * 86_400


@dataclass(frozen=True, slots=True)
class Trial:
    """Run of a study and its outcome."""

    outcome: Outcome[Any]
    assessment: Assessment
    population: Population
    transcript: Transcript
    seconds: float
    rounds: tuple[RoundTaken, ...]
    notes: tuple[str, ...] = ()  # users who stayed away, users who lied, faults


@dataclass(frozen=True, slots=True)
class EpsilonSpent:
    """Nats spent per user: the maximum, and the mean over all users.

    Args:
      delta: as the study states it, or None.
      at_delta: what the worst user's charges compose to at that delta; never more than `max`.
    """

    max: float
    mean: float
    delta: float | None = None
    at_delta: float | None = None

    def to_json(self) -> dict[str, float]:
        """Return the available figures as JSON."""
        found = {"max": self.max, "mean": self.mean}
        if self.delta is not None and self.at_delta is not None:
            found |= {"delta": self.delta, "at_delta": self.at_delta}
        return found


@dataclass(frozen=True, slots=True)
class Simulation:
    """A study's trials; the first is shown in detail, all are counted."""

    study: Study
    fleet: str
    trials: tuple[Trial, ...]
    seconds: float
    peak_memory_mb: float

    @property
    def hypothesis(self) -> Any:
        """Hypothesis of trial 0."""
        return self.trials[0].outcome.hypothesis

    @property
    def estimates(self) -> dict[str, Any] | None:
        """Estimates of trial 0's hypothesis by cell; None: it has none."""
        return estimates(hypothesis_json(self.hypothesis), self.study.learner.name)

    @property
    def transcript(self) -> Transcript:
        """Trial 0's transcript."""
        return self.trials[0].transcript

    @property
    def settings(self) -> dict[str, str]:
        """Settings of trial 0 that were not given and follow from users and noise, as text."""
        given = self.study.learner.parameters
        chosen = self.study.settled(self.trials[0].population.size).parameters
        return {name: text for name, text in chosen.items() if given.get(name) != text}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that a reader of trial 0 must know besides its numbers."""
        first = self.trials[0]
        silent = ("no user answered: the hypothesis is empty",) if not first.outcome.answers else ()
        people = first.population
        return (
            *silent,
            *first.notes,
            *people.notes,
            *absences(first.transcript, people, first.outcome.hypothesis),
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Defects of the data in the fields that the study asks about; `verdict` repeats them."""
        found = self.trials[0].population.warnings
        return tuple(found[name] for name in self.study.fields if name in found)

    @property
    def epsilon_spent(self) -> EpsilonSpent:
        """Epsilon that the devices' ledgers record, over all users and trials.

        At a delta, it is the sum of what was asked, if that is less.
        """
        spent = [trial.outcome.spending for trial in self.trials]
        users = self.trials[0].population.size
        return EpsilonSpent(
            max=max(item.max_spent for item in spent) / 10**9,
            mean=sum(item.total_spent for item in spent) / len(spent) / users / 10**9,
            delta=None if self.study.delta is None else float(self.study.delta),
            at_delta=None if self.study.delta is None else self._at_delta(self.study.delta),
        )

    def _at_delta(self, delta: Fraction) -> float:
        return max(
            min(
                composed(trial.transcript, delta, ZeroConcentrated()),
                trial.outcome.spending.max_spent / 10**9,
            )
            for trial in self.trials
        )

    @property
    def successes(self) -> int | None:
        """Number of trials that found the target; None if there is no target."""
        assessments = [trial.assessment.success for trial in self.trials]
        return None if None in assessments else sum(bool(assessment) for assessment in assessments)

    @property
    def worth(self) -> Worth:
        """Error beside the constant guess's and the same learner's with exact answers.

        The last is computed when it is asked for; None where that would cost more than the study.
        Of several trials each figure is a mean; users that all trials share are met once.
        """
        learner, found = self.study.learner, {}
        for trial in self.trials:
            people = trial.population
            if id(people) not in found:
                found[id(people)] = reference_of(learner, people, trial.outcome.answers)
        return Worth(
            tuple(trial.assessment for trial in self.trials),
            mean_of([found[id(trial.population)] for trial in self.trials]),
            answered=any(trial.outcome.answers for trial in self.trials),
        )

    def _verdict(self, worth: Worth) -> str:
        """Return the worth in words, with what would help where answers are too inexact."""
        first = self.trials[0]
        told = (
            advice(
                self.study,
                first.population.size,
                max((round_.tau for round_ in first.rounds), default=0.0),
                first.outcome.hypothesis,
            )
            if worth.helped_by_users
            else None
        )
        found = str(worth) if told is None else f"{worth}; {told}"
        return "; but ".join((found, *self.warnings))

    def write(self, path: str | Path) -> None:
        """Write one row per trial to a .jsonl or .parquet file."""
        write_rows(rows_of(self), Path(path))

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table`, one row per trial."""
        return to_arrow(rows_of(self))

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, one row per trial."""
        return to_pandas(rows_of(self))

    def picture(self, kind: str = "result") -> Picture:
        """Draw the "result", the users' "spending", or the "rounds" (see `plots.picture`)."""
        return picture(self, kind)

    def plot(self, path: str | Path, kind: str = "result") -> None:
        """Write `picture` to a .png or .svg file."""
        self.picture(kind).save(path)

    def to_json(self) -> dict[str, Any]:
        """Return the result as the command line prints it; counts and details are trial 0's."""
        first = self.trials[0].outcome
        errors = [t.assessment.error for t in self.trials if t.assessment.error is not None]
        users, worth = self.trials[0].population.size, self.worth
        return {
            "learner": self.study.learner.name,
            "fields": list(self.study.fields),
            "fleet": self.fleet,
            "users": users,
            "users_used": first.users_used,
            "users_saved": first.users_saved,
            "waves": self.study.conduct.waves,
            "epsilon": self.study.epsilon,
            "settings": self.settings,
            "trials": len(self.trials),
            "successes": self.successes,
            "error": {
                "mean": sum(errors) / len(errors) if errors else None,
                "max": max(errors, default=None),
            },
            "rounds": first.rounds,
            "baseline": worth.baseline,
            "reference": worth.reference,
            "placement": worth.placement.name.lower(),
            "verdict": self._verdict(worth),
            "details": dict(self.trials[0].assessment.details),
            "queries": first.queries,
            "hypothesis": hypothesis_json(first.hypothesis),
            "bounds": bounds_json(self.trials[0].outcome),
            "truth": list(self.trials[0].assessment.truth) or None,
            "confidence": float(self.study.confidence),
            "answers": first.answers,
            "refusals": first.refusals,
            "reused": first.reused,
            "epsilon_spent": self.epsilon_spent.to_json(),
            "transcript": first.transcript,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "seconds": self.seconds,
            "answers_per_second": sum(t.outcome.answers for t in self.trials)
            / max(sum(t.seconds for t in self.trials), 1e-9),
            "peak_memory_mb": self.peak_memory_mb,
        }


def simulate(
    study: Study | Callable[[Population], Study],
    people: Population | Callable[[Seed], Population],
    *,
    fleet: str = "objects",
    seed: int = 0,
    trials: int = 1,
    workers: int | None = None,
    cluster: str | None = None,
    behaviour: MakeBehaviour | None = None,
    faults: MakeFates | None = None,
    progress: Progress | None = None,
    watch: Callable[[int, RoundPlan], None] | None = None,
) -> Simulation:
    """Run a study on simulated users.

    Privacy: each device spends at most the study's epsilon, by its own ledger; the only difference
      to deployment is where coins come from.

    Args:
      study: the study, or how to make it for a population.
      people: the users; or a function that makes them from a seed, anew for each trial.
      fleet: "objects", "grpc", "columns" or "ray"; transcripts are the same.
      seed: trial t runs on a seed derived from (seed, t).
      trials: how many.
      workers: of the fleets "columns" (threads) and "ray" (tasks at a time); None: one per core. It
        changes no transcript.
      cluster: the address of the Ray cluster that the fleet "ray" joins, as `ray.init` takes it;
        None: it starts a Ray of its own on this machine.
      behaviour: absent and lying devices (`Misbehaviour`); None: no such device.
      faults: what goes wrong between devices and the service (`Faults`), on the fleet "grpc" only;
        it changes no transcript. None: nothing.
      progress: called with the number of new reports.
      watch: called with each round's plan as it opens.

    Raises:
      PlanRefused: too few users or too little epsilon; no user was asked.
      PlanExceeded: the learner asked more than its rehearsal; users were charged.
      BrokenInvariant: after faults, something does not hold that must.
    """
    maker = fleet_by(fleet, workers)
    if trials < 1:
        raise InvalidParameter(f"trials: expected 1 or more, found {trials}")
    check_disturbed(fleet, faults)
    began = time.perf_counter()
    done = []
    with kept_ready(fleet, workers, cluster):
        for number in range(trials):
            root = Seed.of(seed) / "trial" / number
            population = people if isinstance(people, Population) else people(root / "population")
            chosen = study if isinstance(study, Study) else study(population)
            done.append(
                run_trial(
                    chosen,
                    population,
                    fleet=fleet if workers is None else maker,
                    seed=root,
                    behaviour=behaviour,
                    faults=faults,
                    progress=progress,
                    watch=watch,
                )
            )
    return Simulation(
        study=chosen,
        fleet=fleet,
        trials=tuple(done),
        seconds=time.perf_counter() - began,
        peak_memory_mb=peak_memory_mb(),
    )


def run_trial(
    study: Study,
    population: Population,
    *,
    fleet: str | FleetMaker,
    seed: Seed,
    behaviour: MakeBehaviour | None = None,
    faults: MakeFates | None = None,
    progress: Progress | None = None,
    watch: Callable[[int, RoundPlan], None] | None = None,
) -> Trial:
    """Run one trial: keys, coins, cohorts, devices and their disturbances derive from `seed`."""
    began = time.perf_counter()
    recorder = FaultRecorder()
    maker = disturbed(fleet, faults, seed, recorder)
    opened: list[RoundPlan] = []

    def seen(number: int, plan: RoundPlan) -> None:
        opened.append(plan)
        if watch is not None:
            watch(number, plan)

    manners = PRESENT_AND_HONEST if behaviour is None else behaviour(seed / "behaviour")
    with _session(
        study,
        population,
        fleet=maker,
        seed=seed,
        behaviour=manners,
        progress=progress,
        watch=seen,
    ) as session:
        outcome = session.run()
        if faults is not None:
            check_replay(session, outcome)
    return Trial(
        outcome=outcome,
        assessment=_assessed(outcome, study, population, session.transcript),
        population=population,
        transcript=session.transcript,
        seconds=time.perf_counter() - began,
        rounds=rounds_taken(opened, outcome.tallies),
        notes=(*stayed_away(outcome), *lied(manners, population), *went_wrong(faults, recorder)),
    )


@contextmanager
def local_oracle(
    study: Study, population: Population, *, fleet: str | FleetMaker, seed: Seed
) -> Iterator[LocalOracle]:
    """Make an oracle of simulated users: a session does `learn(study.learner, oracle)`.

    Args:
      study: questions and their users; the oracle's rounds follow its plan.
      population: the users, each with a device.
      fleet: as of `run_trial`.
      seed: as of `run_trial`.

    Raises:
      PlanRefused: too few users or too little epsilon; no user was asked.
      PlanExceeded: the learner asked more than its rehearsal; users were charged.
    """
    maker = FLEETS[fleet] if isinstance(fleet, str) else fleet
    with _session(study, population, fleet=maker, seed=seed) as session:
        yield session.oracle()


@contextmanager
def _session(
    study: Study,
    population: Population,
    *,
    fleet: FleetMaker,
    seed: Seed,
    behaviour: Behaviour = PRESENT_AND_HONEST,
    progress: Progress | None = None,
    watch: Callable[[int, RoundPlan], None] | None = None,
) -> Iterator[Session[Any]]:
    """Open a session with its fleet."""
    if study.schema.digest != population.schema.digest:
        raise InvalidParameter(
            f"study: expected the schema of the population, {population.schema.name!r},"
            f" got {value_text(study.schema.name)}"
        )
    key = Ed25519PrivateKey.from_private_bytes((seed / "analyst").key)
    signed = study.sign(key, nonce=(seed / "nonce").key[:16], expires_unix_s=EPOCH_S + _LIFETIME_S)
    policy = Policy(analysts=frozenset((signed.public_key,)), life_nano_nats=study.nano_nats)
    coins = SeededCoins(seed / "coins")
    devices = Devices(population, policy, coins, lambda: EPOCH_S, behaviour)
    with fleet(devices, progress) as opened:
        yield Session(
            study=signed,
            learner=study.learner,
            fleet=opened.fleet,
            log=opened.log(signed),
            cohort_seed=(seed / "cohorts").key,
            design=study.design,
            watch=watch,
        )


def _assessed(
    outcome: Outcome[Any], study: Study, population: Population, transcript: Transcript
) -> Assessment:
    """Return the assessment; a run without any answer is no success, however wide its intervals.

    A statement about a sample is compared with the users who were asked; if some of them did not
    answer, the tallies do not show which users are meant.
    """
    found, header = outcome.hypothesis, transcript.recorded[0]
    if isinstance(found, MeanEstimate) and found.of == SAMPLE and isinstance(header, Header):
        asked = Permutation(header.cohort_seed, header.population)
        cohort = Cohort(asked, 0, outcome.users_used)
        assessment = assess_sample(found, study.learner, population, cohort)
        if 0 < outcome.answers < outcome.users_used:
            return replace(assessment, success=None)
    else:
        assessment = assess(found, study.learner, population)
    return assessment if outcome.answers else replace(assessment, success=False)


def peak_memory_mb() -> float:
    """Return the peak memory of this process, plus that of its largest child."""
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss counts bytes there, KiB elsewhere
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    return (_own_peak_bytes(unit) + children) / 2**20


def _own_peak_bytes(unit: int) -> int:
    """Linux's ru_maxrss begins with what the process held that started this one; VmHWM does not."""
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak) * 1024
