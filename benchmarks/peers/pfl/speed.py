"""Users per second of pfl: one JSON object on stdout; argv is the effort and the questions.

Run in an environment of its own as `peers.pfl.speed` (see `peers.questions`). pfl trains models;
the least it can be asked is a round of one cohort in which each user returns one vector, with numpy
and in one process. Two ways: pfl's own local mechanism for pure epsilon (Laplace) on a vector; and
one randomized bit, drawn where a user trains, which is written here.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from peers.measuring import SEED, Shares, tell
from peers.questions import EPS, Answer, Question, speeds

Told = Callable[[Any], Any]


def offered(question: Question) -> Iterator[tuple[str, Answer]]:
    """Yield rounds of both kinds."""
    laplace: Any = importlib.import_module("pfl.privacy.laplace_mechanism")
    # Its noise is scaled by the bound; two users' vectors differ by that, and are never clipped.
    mechanism = laplace.LaplaceMechanism(clipping_bound=question.sensitivity, epsilon=EPS)
    yield "Laplace mechanism, local", laplacian(question, mechanism)
    if not question.mean and question.values == 2:
        yield "one bit, written here", one_bit()


def laplacian(question: Question, mechanism: Any) -> Answer:
    """Make a round in which every user returns a noisy vector; a cell's has a single 1."""
    cohort = Cohort([mechanism], lambda record: record)

    def answer(values: Any) -> Shares:
        if question.mean:
            return cohort.sums(np.reshape(values, (len(values), -1))) / len(values)
        records = np.zeros((len(values), question.values))
        records[np.arange(len(values)), values] = 1
        return cohort.sums(records) / len(values)

    return answer


def one_bit() -> Answer:
    """Make a round of Warner's response."""
    truthful = math.exp(EPS) / (1 + math.exp(EPS))
    generator = np.random.default_rng(SEED)
    cohort = Cohort([], lambda bit: bit if generator.random() < truthful else 1 - bit)

    def answer(values: list[int]) -> list[float]:
        yes = float(cohort.sums(np.reshape(values, (-1, 1)).astype(float))[0]) / len(values)
        share = (yes - (1 - truthful)) / (2 * truthful - 1)
        return [1 - share, share]

    return answer


class Cohort:
    """Cohort of all users, for one round.

    Args:
      mechanisms: pfl's own, on what a user returns.
      told: what a user returns of the own vector.
    """

    def __init__(self, mechanisms: Sequence[Any], told: Told) -> None:
        self._backend: Any = importlib.import_module("pfl.aggregate.simulate")
        self._data: Any = importlib.import_module("pfl.data.federated_dataset")
        self._sampling: Any = importlib.import_module("pfl.data.sampling")
        self._mechanisms = list(mechanisms)
        self._algorithm = _one_vector(told)

    def sums(self, records: Shares) -> Shares:
        """Return the sum of what all users return, by one call of the simulated backend."""
        people = {user: [record] for user, record in enumerate(records)}
        sampler = self._sampling.MinimizeReuseUserSampler(list(people))
        data = self._data.FederatedDataset.from_slices(people, sampler)
        backend = self._backend.SimulatedBackend(
            training_data=data, val_data=data, postprocessors=self._mechanisms
        )
        statistics, _ = backend.gather_results(
            model=None, training_algorithm=self._algorithm, central_context=_context(len(records))
        )
        return np.asarray(statistics["vector"], float)


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
        seed=None,
    )


def _one_vector(told: Told) -> Any:
    """Return an algorithm in which a user returns one vector and nothing is learned."""
    base: Any = importlib.import_module("pfl.algorithm.base")
    stats: Any = importlib.import_module("pfl.stats")
    metrics: Any = importlib.import_module("pfl.metrics")

    def simulate_one_user(_self: Any, _model: Any, dataset: Any, _context: Any) -> Any:
        vector = told(dataset.raw_data[0])
        return stats.MappedVectorStatistics({"vector": vector}), metrics.Metrics()

    def unused(*_: Any) -> Any:
        raise AssertionError("expected one round that is gathered, and none after it")

    methods = {
        "simulate_one_user": simulate_one_user,
        "get_next_central_contexts": unused,
        "process_aggregated_statistics": unused,
    }
    return type("OneVector", (base.FederatedAlgorithm,), methods)()


if __name__ == "__main__":
    tell("pfl", speeds(offered, sys.argv[1:], first=200))
