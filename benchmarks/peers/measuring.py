"""Parts that all peers' scripts share: users and computation of errors.

A peer's script runs in an environment that has neither askance nor anything else of this repository
but this folder, so only the standard library and numpy stand here. It is started in `benchmarks/`
as a module (`python -m peers.NAME.speed`) and prints one JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 20080  # of all users' records
EPSILONS = {"full": (0.5, 1.0, 2.0, 3.0, 4.0), "quick": (1.0,)}
SIZES = {"full": (64, 1024), "quick": (16,)}

Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors of one protocol's estimates.

    Args:
      question: "frequency", or "mean" of numbers in [-1, 1].
      protocol: the peer's own name of it.
      estimate: what the peer makes of it: "raw", or how it was made to look like what is possible.
      eps: nats a user.
      k: cells; None for a mean.
      n: users in a repetition.
      repetitions: with the same records, coins anew.
      n_mse: n times the mean squared error about these users' truth, averaged over cells.
      n_mse_se: its standard error over the repetitions.
      bias: the mean signed error of an empty cell; of the mean itself.
      bias_se: its standard error over the repetitions.
    """

    question: str
    protocol: str
    estimate: str
    eps: float
    k: int | None
    n: int
    repetitions: int
    n_mse: float
    n_mse_se: float
    bias: float
    bias_se: float


def cells(users: int, k: int) -> NDArray[np.int64]:
    """Return all users' cells: 1/rank over the first half of the cells, none in the others."""
    weights = np.zeros(k)
    weights[: k // 2] = 1 / np.arange(1, k // 2 + 1)
    return np.random.default_rng(SEED).choice(k, size=users, p=weights / weights.sum())


def numbers(users: int) -> Shares:
    """Return all users' numbers in [-1, 1]: skewed, with a mean near -3/7."""
    return np.random.default_rng(SEED).beta(2, 5, users) * 2 - 1


@dataclass(frozen=True, slots=True)
class Size:
    """Number of users per repetition, and number of repetitions."""

    n: int
    repetitions: int

    def of(self, effort: str) -> Size:
        """Return the whole size, or about a fiftieth if it is quick."""
        if effort == "full":
            return self
        return Size(max(self.n // 10, 50), max(self.repetitions // 5, 3))


def shares(values: NDArray[np.int64], k: int) -> Shares:
    """Return the truth: the share of each cell."""
    return np.bincount(values, minlength=k) / len(values)


def accuracy(
    protocol: str,
    eps: float,
    values: NDArray[np.int64],
    k: int,
    estimates: Sequence[dict[str, Shares]],
) -> list[Accuracy]:
    """Return the rows of one protocol: of each repetition, the shares by kind of estimate."""
    truth = shares(values, k)
    found = []
    for kind in estimates[0]:
        errors = np.array([one[kind] for one in estimates]) - truth
        n_mse, n_mse_se = _mean_and_se(len(values) * (errors**2).mean(axis=1))
        bias, bias_se = _mean_and_se(errors[:, truth == 0].mean(axis=1))
        told = ("frequency", protocol, kind, eps, k, len(values), len(errors))
        found.append(Accuracy(*told, n_mse, n_mse_se, bias, bias_se))
    return found


def accuracy_of_mean(
    protocol: str, estimate: str, eps: float, values: Shares, estimates: Sequence[float]
) -> Accuracy:
    """Compute the row of one mechanism for the mean of all users' numbers."""
    errors = np.array(estimates) - values.mean()
    n_mse, n_mse_se = _mean_and_se(len(values) * errors**2)
    bias, bias_se = _mean_and_se(errors)
    told = ("mean", protocol, estimate, eps, None, len(values), len(errors))
    return Accuracy(*told, n_mse, n_mse_se, bias, bias_se)


def _mean_and_se(each: Shares) -> tuple[float, float]:
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))


def tell(distribution: str, rows: Iterable[Any]) -> None:
    """Print a script's result, with the version of the installed peer."""
    told: dict[str, Any] = {"version": version(distribution), "rows": [asdict(r) for r in rows]}
    print(json.dumps(told))
