"""Verdicts on estimates of a sample: against the users who were asked.

For the other rules see `askance_aggregator.learners.verdicts`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from askance_aggregator.learners import Learner, MeanEstimate, Verdict
from askance_aggregator.learners.mean import middle_of
from askance_aggregator.learners.verdicts import covers, only_query
from askance_aggregator.queries import evaluate_columns
from askance_aggregator.studies import Cohort
from askance_client.queries import QueryKind
from askance_simulation.populations import Population


def judge_sample(
    hypothesis: MeanEstimate, learner: Learner[Any], population: Population, cohort: Cohort
) -> Verdict:
    """Judge an estimate of a sample's mean against the users who were asked.

    Args:
        hypothesis: estimate.
        learner: learner.
        population: users and their records.
        cohort: they, if all of them answered.
    """
    query = only_query(learner, QueryKind.REAL)
    if query is None:
        return Verdict(None, None)
    total = 0
    for start, stop in population.stretches():
        values = np.asarray(evaluate_columns(query, population.columns(start, stop)))
        total += sum(values[cohort.within(start, stop) - start].tolist())
    truth = (float(Fraction(total, (1 << query.frac) * cohort.size)),)
    ends = (hypothesis.low,), (hypothesis.high,)
    return covers((hypothesis.estimate,), *ends, truth, *middle_of(query))
