"""Users per second of pfl: one JSON object on stdout; argv is "full" or "quick".

Run in an environment of its own as `peers.pfl.speed` (see `peers.measuring`). pfl trains models;
the least it can be asked is a round of one cohort in which each user returns one number, with numpy
and in one process. Three ways: the number itself, which is no privacy at all; the number after
pfl's own local mechanism for pure epsilon (Laplace); and one randomized bit, drawn where a user
trains.
"""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any

import numpy as np
from peers.measuring import SEED, Speed, bits, speed, tell

EPS = 1.0
USERS = {"full": 20_000, "quick": 200}


def main(effort: str) -> list[Speed]:
    """Measure one round of each kind."""
    values = bits(USERS[effort])
    rows = []
    for name, truthful, local in (
        ("no privacy", 1.0, False),
        ("Laplace mechanism, local", 1.0, True),
        ("one randomized bit", math.exp(EPS) / (1 + math.exp(EPS)), False),
    ):
        cohort = Cohort(truthful, local_epsilon=EPS if local else None)
        rows.append(speed("predicate", name, values, cohort.answer))
    return rows


class Cohort:
    """Cohort of all users, for one round.

    Args:
      truthful: how likely a user returns the own bit, and not the other one.
      local_epsilon: of pfl's Laplace mechanism upon it; None: without.
    """

    def __init__(self, truthful: float, local_epsilon: float | None) -> None:
        self._backend: Any = importlib.import_module("pfl.aggregate.simulate")
        self._data: Any = importlib.import_module("pfl.data.federated_dataset")
        self._sampling: Any = importlib.import_module("pfl.data.sampling")
        self._truthful = truthful
        self._mechanisms: list[Any] = []
        if local_epsilon is not None:
            laplace: Any = importlib.import_module("pfl.privacy.laplace_mechanism")
            self._mechanisms = [laplace.LaplaceMechanism(clipping_bound=1.0, epsilon=local_epsilon)]
        self._algorithm = _one_number(truthful, np.random.default_rng(SEED))

    def answer(self, values: list[int]) -> list[float]:
        """Return the share of ones, by one call of the simulated backend."""
        people = {user: [np.array([value], np.float64)] for user, value in enumerate(values)}
        sampler = self._sampling.MinimizeReuseUserSampler(list(people))
        data = self._data.FederatedDataset.from_slices(people, sampler)
        backend = self._backend.SimulatedBackend(
            training_data=data, val_data=data, postprocessors=self._mechanisms
        )
        statistics, _ = backend.gather_results(
            model=None, training_algorithm=self._algorithm, central_context=_context(len(values))
        )
        told = float(statistics["number"][0]) / len(values)
        return [(told - (1 - self._truthful)) / (2 * self._truthful - 1)]


def _context(users: int) -> Any:
    context: Any = importlib.import_module("pfl.context")
    kinds: Any = importlib.import_module("pfl.common_types")
    return context.CentralContext(
        current_central_iteration=0,
        do_evaluation=False,
        cohort_size=users,
        population=kinds.Population.TRAIN,
        algorithm_params=None,
        model_train_params=None,
        seed=SEED,
    )


def _one_number(truthful: float, generator: np.random.Generator) -> Any:
    """Return an algorithm in which a user returns one number and nothing is learned."""
    base: Any = importlib.import_module("pfl.algorithm.base")
    stats: Any = importlib.import_module("pfl.stats")
    metrics: Any = importlib.import_module("pfl.metrics")

    def simulate_one_user(_self: Any, _model: Any, dataset: Any, _context: Any) -> Any:
        number = dataset.raw_data[0]
        if generator.random() >= truthful:
            number = 1 - number
        return stats.MappedVectorStatistics({"number": number}), metrics.Metrics()

    def unused(*_: Any) -> Any:
        raise AssertionError("expected one round that is gathered, and none after it")

    methods = {
        "simulate_one_user": simulate_one_user,
        "get_next_central_contexts": unused,
        "process_aggregated_statistics": unused,
    }
    return type("OneNumber", (base.FederatedAlgorithm,), methods)()


if __name__ == "__main__":
    tell("pfl", main(sys.argv[1]))
