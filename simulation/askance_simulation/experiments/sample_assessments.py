"""Assessments of estimates of a sample: against the users who were asked.

For the other rules see `askance_aggregator.learners.assessments`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_aggregator.learners import Assessment, Learner, MeanEstimate
from askance_aggregator.learners.assessments import only_query
from askance_aggregator.learners.mean import judge_mean
from askance_aggregator.queries import evaluate_columns
from askance_aggregator.studies import Cohort
from askance_client.queries import QueryKind
from askance_simulation.populations import Population


def assess_sample(
    hypothesis: MeanEstimate, learner: Learner[Any], population: Population, cohort: Cohort
) -> Assessment:
    """Judge an estimate of a sample's mean against the users who were asked.

    Args:
        hypothesis: estimate.
        learner: learner.
        population: users and their records.
        cohort: they, if all of them answered.
    """
    query = only_query(learner, QueryKind.REAL)
    if query is None:
        return Assessment(None, None)
    answers = (
        np.asarray(evaluate_columns(query, population.columns(start, stop)))[
            cohort.within(start, stop) - start
        ]
        for start, stop in population.stretches()
    )
    return judge_mean(hypothesis, query, answers)
