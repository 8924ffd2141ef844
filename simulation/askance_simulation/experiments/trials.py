"""Running a study on a simulated fleet: one trial, or many with seeds of their own."""

from __future__ import annotations

import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator import studies
from askance_aggregator.learners import Learner, MeanEstimate
from askance_aggregator.learners.assessments import Assessment, Users, assess, only_query
from askance_aggregator.learners.mean import SAMPLE, judge_mean
from askance_aggregator.learners.totals import AnswerTotals, queries_judged
from askance_aggregator.numbers import plain_arguments, whole_count
from askance_aggregator.planning import RoundPlan
from askance_aggregator.queries import evaluate_columns
from askance_aggregator.studies.study import Epsilon, Study
from askance_aggregator.studies.transcript import Header
from askance_client.device import Policy
from askance_client.errors import InvalidParameter
from askance_client.garbage_collection import rare_collections
from askance_client.printable import value_text
from askance_client.queries import QueryKind
from askance_simulation import fleets
from askance_simulation.disturbances import PRESENT_AND_HONEST, Behaviour, Fates, Misbehaving
from askance_simulation.disturbances.faults import FaultRecorder
from askance_simulation.disturbances.invariants import check_replay
from askance_simulation.experiments.catalogue import explained
from askance_simulation.experiments.simulations import Simulation, Trial
from askance_simulation.families.fused import import_kernels, most_met
from askance_simulation.populations import ObservedUsers, Population
from askance_simulation.randomness import Seed, SeededCoins
from askance_simulation.summaries import rounds_taken

MakeBehaviour = Callable[[Seed], Behaviour]
"""Maker of a trial's absences and lies, from its seed (see `Misbehaviour`)."""

MakeFates = Callable[[Seed], Fates]
"""Maker of a trial's faults, from its seed (see `Faults`)."""

_CHUNK = 1 << 16
_OVER_GRPC = ("grpc", "grpc-streams")
_MOST = 5  # rounds that have a line each


def check_disturbed(fleet: str | fleets.FleetMaker, faults: MakeFates | None) -> None:
    """Refuse faults on a fleet without a network."""
    if faults is not None and fleet not in _OVER_GRPC:
        raise InvalidParameter(
            "faults: expected the fleet 'grpc', where messages can be lost, got"
            f" {fleet if isinstance(fleet, str) else 'a fleet of your own'!r}"
        )


def disturbed(
    fleet: str | fleets.FleetMaker, faults: MakeFates | None, seed: Seed, recorder: FaultRecorder
) -> fleets.FleetMaker:
    """Return the fleet, with what goes wrong in it."""
    check_disturbed(fleet, faults)
    if faults is not None:
        from askance_simulation.fleets.grpc import grpc_fleet  # gRPC is imported when it is used

        return partial(grpc_fleet, fates=faults(seed / "faults"), recorder=recorder)
    return fleets.fleet_by(fleet, None) if isinstance(fleet, str) else fleet


def stayed_away(outcome: studies.Outcome[object]) -> tuple[str, ...]:
    """List, per round, the users that were absent."""
    notes = []
    for number, tallies in enumerate(outcome.tallies, start=1):
        asked = sum(tally.asked for tally in tallies)
        came = sum(tally.answered + sum(n for _, n in tally.refusals) for tally in tallies)
        if came < asked:
            notes.append(f"round {number}: of {asked:,} requests {asked - came:,} found no device")
    more = len(notes) - _MOST
    return (*notes[:_MOST], f"and so in {more:,} more rounds") if more > 0 else tuple(notes)


def drawn(transcript: studies.Transcript) -> tuple[str, ...]:
    """Report that no device answered, where the tallies were drawn from their law."""
    match transcript.recorded:
        case (Header(tallies=kind), *_) if kind != studies.REPORTED:
            return (f"tallies were {kind}: no device answered",)
    return ()


def lied(behaviour: Behaviour, population: Population) -> tuple[str, ...]:
    """Report the number of lying users; if any may lie, no interval and no error bound holds."""
    if not behaviour.lies:
        return ()
    liars = 0
    for start in range(0, population.size, _CHUNK):
        chunk = np.arange(start, min(start + _CHUNK, population.size), dtype=np.int64)
        liars += int(np.count_nonzero(behaviour.lying(chunk)))
    attack = f" ({behaviour.spec.attack})" if isinstance(behaviour, Misbehaving) else ""
    return (
        f"{liars:,} of {population.size:,} users lie{attack}: intervals and error bounds hold for"
        " honest answers only",
    )


def went_wrong(faults: MakeFates | None, recorder: FaultRecorder) -> tuple[str, ...]:
    """Report the faults that took effect, and that they changed no result."""
    if faults is None:
        return ()
    return (f"faults: {recorder.summary()}; each report was counted once, and a replay agrees",)


def assess_sample(
    hypothesis: MeanEstimate, learner: Learner[Any], users: Users, cohort: studies.Cohort
) -> Assessment:
    """Judge an estimate of a sample's mean against the users who were asked."""
    query = only_query(learner, QueryKind.REAL)
    if query is None:
        return Assessment(None, None)
    if cohort.whole:
        (truth,) = users.totals([query])
        return judge_mean(hypothesis, query, truth, users)
    answers = (
        np.asarray(evaluate_columns(query, users.columns(start, stop)))[
            cohort.within(start, stop) - start
        ]
        for start, stop in users.stretches()
    )
    parts = (AnswerTotals.of(query, values) for values in answers)
    return judge_mean(hypothesis, query, reduce(add, parts), users)


EPOCH_S = 1_767_225_600  # 2026-01-01, where the clock of every simulation stands
_LIFETIME_S = 365 * 86_400


@plain_arguments
def simulate(
    study: Study | Learner[Any] | Callable[[Population], Study],
    people: Population | Callable[[Seed], Population],
    *,
    epsilon: Epsilon | None = None,
    fleet: str = "objects",
    seed: int = 0,
    trials: int = 1,
    workers: int | None = None,
    cluster: str | None = None,
    behaviour: MakeBehaviour | None = None,
    faults: MakeFates | None = None,
    progress: fleets.Progress | None = None,
    watch: Callable[[int, RoundPlan], None] | None = None,
    expected: int = 0,
) -> Simulation:
    """Run a study on simulated users.

    Privacy: each device spends at most the study's epsilon, by its own ledger; the only difference
      to deployment is where coins come from.

    Args:
      study: the study; or its learner, whose other settings are a study's defaults; or how to make
        the study for a population.
      people: the users; or a function that makes them from a seed, anew for each trial.
      epsilon: each user's whole budget, in nats, with a learner; None: the study's.
      fleet: "objects", "grpc", "grpc-streams", "columns" or "ray"; transcripts are the same.
      seed: trial t runs on a seed derived from (seed, t).
      trials: how many.
      workers: of the fleets "columns" (threads) and "ray" (tasks at a time); None: one per core. It
        changes no transcript.
      cluster: the address of the Ray cluster that the fleet "ray" joins, as `ray.init` takes it;
        None: it starts a Ray of its own on this machine.
      behaviour: absent and lying devices (`Misbehaviour`); None: no such device.
      faults: what goes wrong between devices and the service (`Faults`), on a fleet over gRPC only;
        it changes no transcript. None: nothing.
      progress: called with the number of new reports.
      watch: called with each round's plan as it opens.
      expected: users of all trials that this process is to run; those of these trials at least.
        From 10^7 on the fleet "columns" loads its compiled loops for small populations, too.

    Raises:
      InvalidParameter: an argument; no user was asked.
      PlanRefused: too few users or too little epsilon; no user was asked.
      PlanExceeded: the learner asked more than its rehearsal; users were charged.
      BrokenInvariant: after faults, something does not hold that must.

    Example:
      >>> people = ask.read("census")
      >>> learner = ask.learners.frequency("education")
      >>> ask.simulate(learner, people, epsilon=1, fleet="columns").study
      <Study: frequency of education, epsilon 1, schema census>
      >>> made = ask.named("mean", epsilon=1, users=20_000)
      >>> ask.simulate(made.study, made.people, fleet="columns").epsilon_spent.max
      1.0
    """
    make, make_people = _study_maker(study, epsilon), _people_maker(people)
    fleets.fleet_by(fleet, workers)  # refuses a wrong name or number, before any user is made
    whole_count(trials, "trials")
    check_disturbed(fleet, faults)
    began = time.perf_counter()
    run = partial(run_trial, behaviour=behaviour, faults=faults, progress=progress, watch=watch)
    done = []
    with fleets.kept_ready(fleet, workers, cluster):
        for number in range(trials):
            root = Seed.of(seed) / "trial" / number
            chosen, population = _suited(make, make_people(root / "population"))
            met = max(expected, trials * population.size)
            by = fleets.fleet_by(fleet, workers, met) if fleet in fleets.WORKED else fleet
            if fleet == "columns":
                began += _import_kernels(most_met(population.size, met))
            done.append(run(chosen, population, fleet=by, seed=root))
    seconds = time.perf_counter() - began
    return Simulation(chosen, fleet, tuple(done), seconds, peak_memory_mb())


def _study_maker(
    study: Study | Learner[Any] | Callable[[Population], Study], epsilon: Epsilon | None
) -> Callable[[Population], Study]:
    """Return the maker of a population's study."""
    if isinstance(study, Learner):
        if epsilon is None:
            raise InvalidParameter(
                f"epsilon: expected each user's budget with the learner {study.name}, got none"
            )
        made = Study(study, epsilon=epsilon)
        return lambda _: made
    if not isinstance(study, Study) and not callable(study):
        found = type(study).__name__
        raise InvalidParameter(f"study: expected a study or a learner, got {found}")
    if epsilon is not None:
        raise InvalidParameter(
            f"epsilon: expected none, as the study has its own, got {value_text(epsilon)}"
        )
    return (lambda _: study) if isinstance(study, Study) else study


def _people_maker(
    people: Population | Callable[[Seed], Population],
) -> Callable[[Seed], Population]:
    """Return the maker of a trial's users, by a seed that a population does not need."""
    if isinstance(people, Population):
        return lambda _: people
    if not callable(people):
        raise InvalidParameter(
            f"people: expected a population, as askance.read makes it, got {type(people).__name__}"
        )
    return people


def _suited(make: Callable[[Population], Study], people: Population) -> tuple[Study, Population]:
    """Return the study of a population, and its users by the schema that suits the study."""
    made = make(people)
    if made.given_schema is None:
        try:
            made = made.bound(people.schema)
        except InvalidParameter as error:
            raise explained(error, people, re.findall("'([^']+)'", str(error))) from None
    return made, people.of_schema(made.schema)


def _import_kernels(users: int) -> float:
    """Import what draws populations of this size; return the seconds, which are no trial's."""
    began = time.perf_counter()
    import_kernels(users)
    return time.perf_counter() - began


def run_trial(
    study: Study,
    population: Population,
    *,
    fleet: str | fleets.FleetMaker,
    seed: Seed,
    behaviour: MakeBehaviour | None = None,
    faults: MakeFates | None = None,
    progress: fleets.Progress | None = None,
    watch: Callable[[int, RoundPlan], None] | None = None,
) -> Trial:
    """Run one trial: keys, coins, cohorts, devices and their disturbances derive from `seed`.

    Example:
        >>> made = ask.named("frequency", epsilon=2, users=3_000)
        >>> people = made.people(ask.Seed.of(0))
        >>> trial = ask.run_trial(made.study(people), people, fleet="columns", seed=ask.Seed.of(0))
        >>> trial.outcome.rounds
        1
    """
    study = study.bound(population.schema)
    population = population.of_schema(study.schema)
    began = time.perf_counter()
    recorder = FaultRecorder()
    maker = disturbed(fleet, faults, seed, recorder)
    opened: list[RoundPlan] = []
    times: list[float] = []

    def seen(number: int, plan: RoundPlan) -> None:
        times.append(time.perf_counter())
        opened.append(plan)
        if watch is not None:
            watch(number, plan)

    manners = PRESENT_AND_HONEST if behaviour is None else behaviour(seed / "behaviour")
    population = fleets.prepared(fleet, population, seed / "population")
    users = ObservedUsers(population, queries_judged(study.learner), study.fields)
    with _session(
        study,
        users,
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
        assessment=_assessed(outcome, study, users, session.transcript),
        population=population,
        whole=users.whole,
        transcript=session.transcript,
        seconds=time.perf_counter() - began,
        rounds=rounds_taken(opened, outcome.tallies),
        notes=(
            *stayed_away(outcome),
            *lied(manners, population),
            *went_wrong(faults, recorder),
            *drawn(session.transcript),
        ),
        planning_seconds=times[0] - began if times else 0.0,
        is_lied_to=bool(manners.lies),
    )


@contextmanager
def local_oracle(
    study: Study, population: Population, *, fleet: str | fleets.FleetMaker, seed: Seed
) -> Iterator[studies.LocalOracle]:
    """Make an oracle of simulated users: a session does `learn(study.learner, oracle)`.

    Arguments are as of `run_trial`; the oracle's rounds follow the study's plan.

    Raises:
      PlanRefused: too few users or too little epsilon; no user was asked.
      PlanExceeded: the learner asked more than its rehearsal; users were charged.

    Example:
      >>> made = ask.named("frequency", epsilon=2, users=3_000)
      >>> people = made.people(ask.Seed.of(0))
      >>> study = made.study(people)
      >>> with ask.local_oracle(study, people, fleet="columns", seed=ask.Seed.of(0)) as oracle:
      ...     len(ask.learn(study.learner, oracle).answer.values)
      16
    """
    maker = fleets.fleet_by(fleet, None) if isinstance(fleet, str) else fleet
    population = fleets.prepared(fleet, population, seed / "population")
    users = ObservedUsers(population, fields=())
    with _session(study, users, fleet=maker, seed=seed) as session:
        yield session.oracle()


@contextmanager
def _session(
    study: Study,
    users: ObservedUsers,
    *,
    fleet: fleets.FleetMaker,
    seed: Seed,
    behaviour: Behaviour = PRESENT_AND_HONEST,
    progress: fleets.Progress | None = None,
    watch: Callable[[int, RoundPlan], None] | None = None,
) -> Iterator[studies.Session[Any]]:
    """Open a session with its fleet."""
    population = users.population
    if study.schema.digest != population.schema.digest:
        raise InvalidParameter(
            f"study: expected the schema of the population, {population.schema.name!r},"
            f" got {value_text(study.schema.name)}"
        )
    key = Ed25519PrivateKey.from_private_bytes((seed / "analyst").key)
    signed = study.sign(key, nonce=(seed / "nonce").key[:16], expires_unix_s=EPOCH_S + _LIFETIME_S)
    policy = Policy(analysts=frozenset((signed.public_key,)), life_nano_nats=study.nano_nats)
    coins = SeededCoins(seed / "coins")
    devices = fleets.Devices(population, policy, coins, lambda: EPOCH_S, behaviour, users)
    with rare_collections():  # a collection would walk through all devices
        with fleet(devices, progress) as opened:
            yield studies.Session(
                study=signed,
                learner=study.learner,
                fleet=opened.fleet,
                log=opened.log(signed),
                cohort_seed=(seed / "cohorts").key,
                leaf_key=(seed / "leaves").key,
                design=study.design,
                watch=watch,
                tallies=opened.tallies,
            )
        devices.forget()


def _assessed(
    outcome: studies.Outcome[Any], study: Study, users: Users, transcript: studies.Transcript
) -> Assessment:
    """Return the assessment; a run without any answer is no success, however wide its intervals."""
    # A statement about a sample is compared with the users who were asked; if some of them did not
    # answer, the tallies do not show which users are meant.
    found, header = outcome.hypothesis, transcript.recorded[0]
    if isinstance(found, MeanEstimate) and found.of == SAMPLE and isinstance(header, Header):
        asked = studies.Permutation(header.cohort_seed, header.population)
        cohort = studies.Cohort(asked, 0, outcome.users_used)
        if header.tallies != studies.REPORTED and not cohort.whole:
            return Assessment(None, None)  # no ordinal belongs to the users who were asked
        assessment = assess_sample(found, study.learner, users, cohort)
        if 0 < outcome.answers < outcome.users_used:
            return replace(assessment, success=None)
    else:
        assessment = assess(found, study.learner, users)
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
