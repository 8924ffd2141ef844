"""The catalogue's entries for classifiers and clusterings that ask round by round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from askance_aggregator.learners.centres import clusters_schema
from askance_aggregator.learners.decision_tree import decision_tree
from askance_aggregator.learners.entries import COLUMNS, HELD_OUT, LABEL, TAU, columns_in
from askance_aggregator.learners.gaussian_mixture import gaussian_mixture
from askance_aggregator.learners.k_means import k_means
from askance_aggregator.learners.learner import Learner
from askance_aggregator.learners.linear_classifiers import halfspaces_schema
from askance_aggregator.learners.logistic_regression import logistic_regression
from askance_aggregator.learners.perceptron import perceptron
from askance_aggregator.learners.registry import LearnerEntry, ParameterEntry, register, whole
from askance_aggregator.learners.schemas import traits_schema
from askance_client.queries import Schema

Text = Mapping[str, str]

WITHIN = "the part of the variance that stays within clusters, on rows of which nobody was asked"


def _decision_tree(schema: Schema | None, parameters: Text) -> Learner[Any]:
    return decision_tree(
        traits_schema() if schema is None else schema,
        parameters.get("label"),
        columns_in(parameters),
        whole("depth", parameters["depth"]),
        whole("bins", parameters["bins"]),
        parameters["min_share"],
        parameters.get("tau"),
    )


def _logistic_regression(schema: Schema | None, parameters: Text) -> Learner[Any]:
    return logistic_regression(
        traits_schema() if schema is None else schema,
        parameters.get("label"),
        columns_in(parameters),
        whole("rounds", parameters["rounds"]),
        parameters["rate"],
        whole("levels", parameters["levels"]),
        parameters.get("tau"),
    )


def _perceptron(schema: Schema | None, parameters: Text) -> Learner[Any]:
    return perceptron(
        halfspaces_schema(3) if schema is None else schema,
        parameters.get("label"),
        columns_in(parameters),
        parameters["accuracy"],
        parameters.get("margin"),
        whole("rounds", parameters["rounds"]),
    )


def _k_means(schema: Schema | None, parameters: Text) -> Learner[Any]:
    return k_means(
        clusters_schema(2) if schema is None else schema,
        whole("k", parameters["k"]),
        columns_in(parameters),
        whole("rounds", parameters["rounds"]),
        parameters.get("tau"),
    )


def _gaussian_mixture(schema: Schema | None, parameters: Text) -> Learner[Any]:
    return gaussian_mixture(
        clusters_schema(2) if schema is None else schema,
        whole("k", parameters["k"]),
        columns_in(parameters),
        whole("rounds", parameters["rounds"]),
        parameters.get("tau"),
    )


register(
    LearnerEntry(
        "decision-tree",
        "a category from all other fields by a tree (ID3), a level a round",
        HELD_OUT,
        (
            LABEL,
            COLUMNS,
            ParameterEntry("depth", "of the tree at most", "3"),
            ParameterEntry("bins", "into how many bins a number falls", "8"),
            ParameterEntry("min_share", "of users on either side of a split at least", "1/50"),
            TAU,
        ),
        _decision_tree,
        held_out=True,
    )
)
register(
    LearnerEntry(
        "logistic-regression",
        "one of two classes by a weighted sum, by gradients of fresh users",
        HELD_OUT,
        (
            LABEL,
            COLUMNS,
            ParameterEntry("rounds", "how many steps at most", "8"),
            ParameterEntry("rate", "what the gradient is multiplied by", "2"),
            ParameterEntry("levels", "how finely a residual is told: 2, 4 or 8", "4"),
            TAU,
        ),
        _logistic_regression,
        held_out=True,
    )
)
register(
    LearnerEntry(
        "perceptron",
        "a halfspace, by the mean of the examples on its wrong side",
        HELD_OUT,
        (
            LABEL,
            COLUMNS,
            ParameterEntry("accuracy", "the allowed error", "1/10"),
            ParameterEntry("margin", "of the examples (default: not known, nothing promised)"),
            ParameterEntry("rounds", "how many corrections at most", "8"),
        ),
        _perceptron,
        held_out=True,
    )
)
register(
    LearnerEntry(
        "k-means",
        "centres of clusters of numbers (Lloyd)",
        WITHIN,
        (
            ParameterEntry("k", "how many centres", "3"),
            COLUMNS,
            ParameterEntry("rounds", "how many steps at most", "5"),
            TAU,
        ),
        _k_means,
        held_out=True,
    )
)
register(
    LearnerEntry(
        "gaussian-mixture",
        "a sum of round bells by expectation-maximisation",
        WITHIN,
        (
            ParameterEntry("k", "how many components", "2"),
            COLUMNS,
            ParameterEntry("rounds", "how many steps at most", "8"),
            TAU,
        ),
        _gaussian_mixture,
        held_out=True,
    )
)
