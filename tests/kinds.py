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

MARKS = {
    "slow": re.compile(r"\bmark\.slow\b"),
    "nightly": re.compile(r"\bmark\.nightly\b|\bone_of_each_kind\b"),
}
"""By marker, what a file has whose tests have it: its own marks, or those of the function below."""


def one_of_each_kind(names: Iterable[str]) -> list[Any]:
    """Return parameters for all these learners; those of no kind of their own are nightly."""
    return [
        pytest.param(name, marks=[] if name in BY_KIND else [pytest.mark.nightly]) for name in names
    ]
