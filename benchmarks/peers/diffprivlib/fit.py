"""diffprivlib's logistic regression, fitted to the tasks in a file: one JSON list on stdout.

Run by `benchmarks/logistic.py` in an environment of its own: argv is the file (numpy's .npz: the
tasks as JSON, and the rows and labels that they name). A fit's answer has its coefficients, its
seconds, and the norm of its objective's gradient where its solver stopped.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

import numpy as np


class WatchedSolver:
    """scipy's optimizers, and the gradient at the end of the last run."""

    def __init__(self, optimize: Any) -> None:
        self._optimize = optimize
        self.gradient = float("nan")

    def fmin_l_bfgs_b(self, *arguments: Any, **named: Any) -> Any:
        """Return the only one that diffprivlib uses."""
        found = self._optimize.fmin_l_bfgs_b(*arguments, **named)
        self.gradient = float(np.linalg.norm(found[2]["grad"]))
        return found


def main(file: str) -> list[dict[str, Any]]:
    """Return the answers, one per task."""
    module: Any = importlib.import_module("diffprivlib.models.logistic_regression")
    module.optimize = watched = WatchedSolver(module.optimize)
    given = np.load(file)
    told = []
    for task in json.loads(str(given["tasks"])):
        rows, labels = given[f"rows {task['data']}"], given[f"labels {task['data']}"]
        model = module.LogisticRegression(
            epsilon=task["epsilon"],
            data_norm=1.0,
            C=task["c"],
            fit_intercept=False,
            random_state=task["seed"],
        )
        began = time.perf_counter()
        model.fit(rows, labels)
        seconds = time.perf_counter() - began
        told.append(
            {
                "coefficients": model.coef_[0].tolist(),
                "seconds": seconds,
                "gradient": watched.gradient,
            }
        )
    return told


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
