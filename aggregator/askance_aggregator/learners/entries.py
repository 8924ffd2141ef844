"""The catalogue's entries for learners over labelled bits, tables and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from askance_aggregator.learners.decision_lists import decision_lists
from askance_aggregator.learners.heavy_hitters import heavy_hitters
from askance_aggregator.learners.learner import Learner
from askance_aggregator.learners.linear import linear_regression, ridge_regression
from askance_aggregator.learners.literals import (
    disjunctions,
    labelled_bits_schema,
    literal_conjunctions,
)
from askance_aggregator.learners.marginals import marginals
from askance_aggregator.learners.mean_vector import mean_vector
from askance_aggregator.learners.naive_bayes import naive_bayes
from askance_aggregator.learners.pca import principal_components
from askance_aggregator.learners.quantiles import quantiles
from askance_aggregator.learners.ranges import ranges
from askance_aggregator.learners.registry import (
    LearnerEntry,
    ParameterEntry,
    field_named,
    register,
    whole,
)
from askance_aggregator.learners.schemas import (
    plane_schema,
    traits_schema,
    vectors_schema,
    words_schema,
)
from askance_client.errors import InvalidParameter
from askance_client.queries import Bits, Category, Integer, Real, Schema

Text = Mapping[str, str]
OnBits = Callable[[Schema, Text], Learner[Any]]

D = ParameterEntry("d", "variables (8 without data)")
ACCURACY = ParameterEntry("accuracy", "the allowed error", "1/10")
COLUMNS = ParameterEntry("columns", "fields by name, with commas (default: all that suit)")
TAU = ParameterEntry("tau", "how exactly each answer is wanted (default: as users allow)")
LABEL = ParameterEntry("label", "the category to predict (default: the only label)")
HELD_OUT = "share of labels that the hypothesis gets wrong, on rows of which nobody was asked"


def columns_in(parameters: Text) -> tuple[str, ...] | None:
    """The fields that were named, if any were."""
    named = parameters.get("columns")
    return None if named is None else tuple(name.strip() for name in named.split(","))


def on_bits(name: str, make: OnBits) -> Callable[[Schema | None, Text], Learner[Any]]:
    """A learner over x=Bits(d), y=Label([0, 1]), with d for where there is no schema."""

    def build(schema: Schema | None, parameters: Text) -> Learner[Any]:
        own = labelled_bits_schema(whole("d", parameters["d"])) if "d" in parameters else None
        if schema is None:
            schema = own or labelled_bits_schema(8)
        elif own is not None and schema.fields.get("x") != own.fields["x"]:
            raise InvalidParameter(f"{name}: d and the schema expect different records")
        return make(schema, parameters)

    return build


def _naive_bayes(schema: Schema | None, parameters: Text) -> Learner[Any]:
    return naive_bayes(
        traits_schema() if schema is None else schema,
        parameters.get("label"),
        columns_in(parameters),
        whole("bins", parameters["bins"]),
        parameters.get("smoothing"),
        parameters.get("tau"),
    )


def _linear(schema: Schema | None, parameters: Text) -> Learner[Any]:
    return linear_regression(
        plane_schema(3) if schema is None else schema,
        parameters.get("target"),
        columns_in(parameters),
        parameters.get("tau"),
    )


def _ridge(schema: Schema | None, parameters: Text) -> Learner[Any]:
    return ridge_regression(
        plane_schema(3) if schema is None else schema,
        parameters.get("target"),
        columns_in(parameters),
        parameters.get("penalty"),
        parameters.get("tau"),
    )


def _pca(schema: Schema | None, parameters: Text) -> Learner[Any]:
    return principal_components(
        plane_schema(3) if schema is None else schema,
        columns_in(parameters),
        whole("components", parameters["components"]),
        parameters.get("tau"),
    )


def _marginals(schema: Schema | None, parameters: Text) -> Learner[Any]:
    return marginals(
        traits_schema() if schema is None else schema,
        columns_in(parameters),
        whole("way", parameters["way"]),
        whole("bins", parameters["bins"]),
        parameters.get("tau"),
    )


def _mean_vector(schema: Schema | None, parameters: Text) -> Learner[Any]:
    if schema is None:
        schema = vectors_schema(whole("d", parameters.get("d", "8")))
    elif "d" in parameters:
        raise InvalidParameter("mean-vector: d is for planning without data; found a schema")
    return mean_vector(
        schema,
        columns_in(parameters),
        parameters["norm"],
        parameters.get("bound"),
        parameters.get("tau"),
        parameters["bias"],
        parameters["seed"],
    )


def _quantiles(schema: Schema | None, parameters: Text) -> Learner[Any]:
    if schema is None:
        schema = Schema("quantiles", 1, number=Real(0, 1))
    return quantiles(
        schema,
        field_named("quantiles", schema, (Integer, Real), parameters.get("column")),
        parameters["levels"].split(","),
        whole("steps", parameters["steps"]),
        parameters["tau"],
    )


def _ranges(schema: Schema | None, parameters: Text) -> Learner[Any]:
    if schema is None:
        schema = Schema("ranges", 1, number=Real(0, 1))
    return ranges(
        schema,
        field_named("ranges", schema, (Integer, Real), parameters.get("column")),
        whole("steps", parameters["steps"]),
        whole("arity", parameters["arity"]),
        parameters.get("tau"),
    )


def _heavy_hitters(schema: Schema | None, parameters: Text) -> Learner[Any]:
    if schema is None:
        schema = words_schema(16)
    return heavy_hitters(
        schema,
        field_named("heavy-hitters", schema, (Bits, Integer, Category), parameters.get("column")),
        parameters["threshold"],
        whole("bits", parameters["bits"]),
        parameters["tau"],
    )


register(
    LearnerEntry(
        "literal-conjunctions",
        "conjunctions of variables and negated variables, asked all at once",
        HELD_OUT,
        (D, ACCURACY),
        on_bits(
            "literal-conjunctions",
            lambda schema, parameters: literal_conjunctions(schema, parameters["accuracy"]),
        ),
    )
)
register(
    LearnerEntry(
        "disjunctions",
        "disjunctions of variables and negated variables, asked all at once",
        HELD_OUT,
        (D, ACCURACY),
        on_bits(
            "disjunctions",
            lambda schema, parameters: disjunctions(schema, parameters["accuracy"]),
        ),
    )
)
register(
    LearnerEntry(
        "decision-lists",
        "lists of rules on single bits, every rule that is sure in one round",
        HELD_OUT,
        (D, ACCURACY, ParameterEntry("length", "how many rules the target may have", "2")),
        on_bits(
            "decision-lists",
            lambda schema, parameters: decision_lists(
                schema, parameters["accuracy"], whole("length", parameters["length"])
            ),
        ),
    )
)
register(
    LearnerEntry(
        "naive-bayes",
        "a category from all other fields, by the joint shares of each with it",
        HELD_OUT,
        (
            LABEL,
            COLUMNS,
            ParameterEntry("bins", "into how many bins a number falls", "8"),
            ParameterEntry(
                "smoothing", "the share each joint cell gets more (default: as answers are unsure)"
            ),
            TAU,
        ),
        _naive_bayes,
        held_out=True,
    )
)
TARGET = ParameterEntry("target", "what to predict (default: the label, or the last number)")
SQUARED = (
    "mean squared error on rows of which nobody was asked, over that of the mean outcome: 1 - R^2"
)
register(
    LearnerEntry(
        "linear-regression",
        "a number as a weighted sum of others, by least squares on second moments",
        SQUARED,
        (TARGET, COLUMNS, TAU),
        _linear,
        held_out=True,
    )
)
register(
    LearnerEntry(
        "ridge-regression",
        "least squares with a penalty on large weights",
        SQUARED,
        (
            TARGET,
            COLUMNS,
            ParameterEntry(
                "penalty", "on squared weights of scaled features (default: as answers are unsure)"
            ),
            TAU,
        ),
        _ridge,
        held_out=True,
    )
)
register(
    LearnerEntry(
        "pca",
        "the directions in which numbers vary most",
        "the part of the population's variance that the best directions hold beyond those found",
        (COLUMNS, ParameterEntry("components", "how many directions", "2"), TAU),
        _pca,
    )
)
register(
    LearnerEntry(
        "marginals",
        "the joint shares of every few of some fields",
        "greatest distance of an estimated share from the population's, over all cells",
        (
            COLUMNS,
            ParameterEntry("way", "how many fields at a time", "2"),
            ParameterEntry("bins", "into how many bins a number falls", "4"),
            TAU,
        ),
        _marginals,
    )
)
register(
    LearnerEntry(
        "quantiles",
        "the values below which given shares of people lie, by binary search",
        "greatest distance of a found cell's ranks from its level, 0 if the level is in the cell",
        (
            ParameterEntry("column", "the number (default: the only one)"),
            ParameterEntry("levels", "shares in (0, 1), with commas", "1/2"),
            ParameterEntry("steps", "into how many cells the bounds are cut", "64"),
            ParameterEntry("tau", "how exactly each rank is wanted", "1/20"),
        ),
        _quantiles,
    )
)
register(
    LearnerEntry(
        "heavy-hitters",
        "the most frequent values of a large domain, prefix by prefix",
        "the most by which a share misses the threshold whose value is wrongly found or missing",
        (
            ParameterEntry("column", "bits, a whole number or a category (default: the only one)"),
            ParameterEntry("threshold", "the share from which on a value is frequent", "1/10"),
            ParameterEntry("bits", "by how many a prefix is extended in a round", "4"),
            ParameterEntry("tau", "how exactly each share is wanted", "1/20"),
        ),
        _heavy_hitters,
    )
)
register(
    LearnerEntry(
        "ranges",
        "the shares of all ranges of a number, and its quantiles, asked all at once",
        "greatest distance of a share up to a cell's end from the population's",
        (
            ParameterEntry("column", "the number (default: the only one)"),
            ParameterEntry("steps", "into how many cells the bounds are cut", "64"),
            ParameterEntry("arity", "how many ranges of a level make one of the next", "4"),
            TAU,
        ),
        _ranges,
    )
)
register(
    LearnerEntry(
        "mean-vector",
        "the means of many numbers at once, bounded one by one or in length",
        "greatest distance of a mean from the population's (l2: length of the error), real units",
        (
            COLUMNS,
            ParameterEntry("d", "how many numbers, to plan without data (8)"),
            ParameterEntry(
                "norm", "linf: each number is bounded; l2: and so is their length", "linf"
            ),
            ParameterEntry(
                "bound", "of each number, or of the length (default: the fields' bounds; l2: 1)"
            ),
            ParameterEntry("tau", "how exact (l2: the error's length; default: as users allow)"),
            ParameterEntry("bias", "of l2: what clipping may add, as a part of the bound", "1/20"),
            ParameterEntry("seed", "of l2: public text that the rotation follows from", "0"),
        ),
        _mean_vector,
    )
)
