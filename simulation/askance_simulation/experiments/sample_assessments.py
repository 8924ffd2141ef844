"""Assessments of estimates of a sample: against the users who were asked.

For the other rules see `askance_aggregator.learners.assessments`.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from askance_aggregator.learners import Assessment, Learner, MeanEstimate
from askance_aggregator.learners.assessments import Users, only_query
from askance_aggregator.learners.mean import judge_mean
from askance_aggregator.learners.totals import AnswerTotals
from askance_aggregator.queries import evaluate_columns
from askance_aggregator.studies import Cohort
from askance_client.queries import QueryKind


def assess_sample(
    hypothesis: MeanEstimate, learner: Learner[Any], users: Users, cohort: Cohort
) -> Assessment:
    """Judge an estimate of a sample's mean against the users who were asked.

    Args:
        hypothesis: estimate.
        learner: learner.
        users: all users of the study.
        cohort: those who were asked, if all of them answered.
    """
    query = only_query(learner, QueryKind.REAL)
    if query is None:
        return Assessment(None, None)
    if cohort.whole:
        (truth,) = users.totals([query])
        return judge_mean(hypothesis, query, truth)
    answers = (
        np.asarray(evaluate_columns(query, users.columns(start, stop)))[
            cohort.within(start, stop) - start
        ]
        for start, stop in users.stretches()
    )
    parts = (AnswerTotals.of(query, values) for values in answers)
    return judge_mean(hypothesis, query, reduce(add, parts))
