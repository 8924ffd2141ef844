"""Learners that stand for one kind of question each, in matrices of learners by something else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

# Shares, a mean, a truth value, a concept, a search, tables, a tree of ranges, vectors, epochs.
BY_KIND = {
    *("conjunctions", "frequency", "heavy-hitters", "k-means", "linear-regression"),
    *("masked-parity", "mean", "naive-bayes", "ranges", "trend"),
}

# In each file with slow tests: its own marks, or those of the function below.
MARKS_SLOW = re.compile(r"\bmark\.slow\b|\bone_of_each_kind\b")


def one_of_each_kind(names: Iterable[str]) -> list[Any]:
    """Return parameters for all learners of these names; those of no kind of their own are slow."""
    return [
        pytest.param(name, marks=[] if name in BY_KIND else [pytest.mark.slow]) for name in names
    ]
