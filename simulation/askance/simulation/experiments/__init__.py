"""Experiments: a study run on populations by a seed, once or many times, and judged."""

from askance.simulation.experiments.judging import Verdict, judge
from askance.simulation.experiments.trials import FLEETS, Simulation, Trial, run_trial, simulate

__all__ = ["FLEETS", "Simulation", "Trial", "Verdict", "judge", "run_trial", "simulate"]
