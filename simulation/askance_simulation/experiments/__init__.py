"""Experiments: a study run on populations by a seed, once or many times, and judged."""

from askance_aggregator.learners.assessments import Assessment, assess
from askance_simulation.experiments.catalogue import Named, design, named
from askance_simulation.experiments.epochs import EpochSeries, simulate_epochs
from askance_simulation.experiments.simulations import Simulation, Trial
from askance_simulation.experiments.sweeps import Sweep, sweep
from askance_simulation.experiments.trials import local_oracle, run_trial, simulate
from askance_simulation.experiments.verification import verify

__all__ = [
    "Assessment",
    "EpochSeries",
    "Named",
    "Simulation",
    "Sweep",
    "Trial",
    "assess",
    "design",
    "local_oracle",
    "named",
    "run_trial",
    "simulate",
    "simulate_epochs",
    "sweep",
    "verify",
]
