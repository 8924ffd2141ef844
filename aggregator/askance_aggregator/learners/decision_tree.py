"""Decision trees (ID3): a level at a time, by counts of cells and classes in every open leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from askance_aggregator.learners.assessments import HELD_OUT, MOST_FREQUENT, NONE_WRONG
from askance_aggregator.learners.encodings import Cells, cells
from askance_aggregator.learners.learner import Adaptive, Learner, adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Learning, Question
from askance_aggregator.learners.missing import CompleteCases, MissingShare
from askance_aggregator.learners.parameters import (
    COLUMNS,
    LABEL,
    TAU,
    ParameterEntry,
    ParameterKind,
    Text,
    columns_in,
    whole,
)
from askance_aggregator.learners.reach import half_width
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import features_of, label_of, some_fields
from askance_aggregator.learners.schemas import traits_schema
from askance_aggregator.learners.splits import Split, SplitRule, Table, best_split
from askance_aggregator.learners.trees import MAX_DEPTH, DecisionTree, TreeNode, parts_of
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import (
    category,
    first,
    index_of,
    minimum,
)
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import (
    Expression,
    Kind,
    Query,
    Schema,
    constant,
)


@dataclass(frozen=True, slots=True)
class _Task:
    """Parameters of growing a tree."""

    schema: Schema
    features: Schema
    target: Cells
    parts: Mapping[str, Cells]
    bins: int
    depth: int
    rule: SplitRule
    tau: Fraction | None
    complete: CompleteCases


def decision_tree(
    schema: Schema,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    depth: int = 3,
    bins: int = 8,
    min_share: Rational = "1/50",
    tau: Rational | None = None,
) -> Adaptive[DecisionTree]:
    """Grow a tree from the root, one level per round, and ask fresh users for the leaves' shares.

    Every level asks one categorical question a field: which open leaf, which cell of the field and
    which class. A count below 0 counts as 0. A leaf is split in two groups of one field's cells, by
    the greatest gain among all splits whose gain exceeds the error of its counts; a leaf without
    one, or too small, is left as it is. The last round asks for leaf and class, and two leaves are
    joined unless one of them has, beyond the error, another class than both have together.

    Every count is of complete cases, users who have the label and all columns, as a share of all
    users: splits of different fields are compared on the same users. Name fewer columns where a
    field is missing often. How many lack a field is estimated by the last round.

    Utility: at most depth + 1 rounds; a round asks as many questions as there are fields (the last
    one: one), with leaves x cells x classes + 1 values. Users are as for this many questions, each
    with a group of its own. With `tau`, every answer is off by less than that: then the class
    shares of each split do differ, and in no leaf that is asked about is a class commoner than the
    one predicted by 2 tau of all users or more. Without one, users are divided evenly over all
    questions, and a split is decided by half of the answers' intervals, with errors that add up as
    squares do: it is likely, not certain.

    Args:
        schema: of the records.
        label: what to predict; None: its only Label.
        columns: what from; None: all other fields.
        depth: of the tree at most, 1 .. 12.
        bins: into how many bins of the schema's bounds a number falls.
        min_share: at least this share of all users on either side of a split, in (0, 1/2].
        tau: how exactly each count is wanted; None: as the users allow.

    Raises:
        InvalidParameter: an argument is out of range.

    Source: notes, section 1.2; Quinlan 1986 (ID3); Blum et al. 2005 ("SuLQ"). Deviations: splits
        are in two, for a count is worth the less the more leaves there are.
    """
    grown = _decision_tree(schema, label, columns, depth, bins, min_share, tau)
    task = _task(schema, label, columns, depth, bins, min_share, tau)
    return replace(grown, rehearsal=partial(_rehearsed, task))


@adaptive("decision-tree", version=2)
def _decision_tree(
    schema: Schema,
    label: str | None,
    columns: Sequence[str] | None,
    depth: int,
    bins: int,
    min_share: Rational,
    tau: Rational | None,
) -> Learning[DecisionTree]:
    return _grow(_task(schema, label, columns, depth, bins, min_share, tau))


def _task(
    schema: Schema,
    label: str | None,
    columns: Sequence[str] | None,
    depth: int,
    bins: int,
    min_share: Rational,
    tau: Rational | None,
) -> _Task:
    target = label_of(schema, label)
    features = features_of(schema, target, columns)
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= MAX_DEPTH:
        raise InvalidParameter(
            f"depth expects a whole number in 1..{MAX_DEPTH}, got {value_text(depth)}"
        )
    least = rational(min_share, "min_share")
    if not 0 < least <= Fraction(1, 2):
        raise InvalidParameter(
            f"min_share expects a share in (0, 1/2], got {value_text(min_share)}"
        )
    asked = None if tau is None else rational(tau, "tau")
    return _Task(
        schema=schema,
        features=features,
        target=cells(schema, target)[0],
        parts=parts_of(features, bins),
        bins=bins,
        depth=depth,
        rule=SplitRule(float(least), promised=asked is not None),
        tau=asked,
        complete=CompleteCases(some_fields(schema, [*features.fields, target])),
    )


def _grow(task: _Task) -> Learning[DecisionTree]:
    splits: dict[int, Split] = {}
    open_leaves = [1]
    for _ in range(task.depth):
        answers = yield Batch(
            Question(_counts(task, splits, open_leaves, part), task.tau)
            for part in task.parts.values()
        )
        found = _split(task, open_leaves, answers)
        splits |= found
        open_leaves = [child for place in found for child in (2 * place, 2 * place + 1)]
        if not open_leaves:
            break
    leaves = sorted({1} | {2 * p for p in splits} | {2 * p + 1 for p in splits})
    leaves = [place for place in leaves if place not in splits]
    (answer,) = yield Batch([Question(_counts(task, splits, leaves, None), task.tau)])
    table = np.reshape(answer.values[:-1], (len(leaves), len(task.target)))
    shares = {
        place: tuple(float(share) for share in row)
        for place, row in zip(leaves, table, strict=True)
    }
    told = 0.0 if task.tau is not None else sqrt(2) * _tolerance(task, answer)
    _prune(splits, shares, told)  # of a difference of two counts
    nodes = [TreeNode(place, split=split) for place, split in splits.items()]
    nodes += [TreeNode(place, row) for place, row in shares.items()]
    return DecisionTree(
        task.features,
        task.bins,
        task.target.field,
        task.target.labels,
        tuple(sorted(nodes, key=lambda node: node.place)),
        MissingShare.of_cell(answer, -1),
    )


def _counts(
    task: _Task, splits: Mapping[int, Split], leaves: Sequence[int], part: Cells | None
) -> Query:
    """Build the question for leaf, cell (if a part is given) and class.

    The last cell holds all other records: those in another leaf, and those that lack the label or
    any field, whether it is asked about here or not.
    """
    at = first([_path(task, splits, place) for place in leaves])
    place = index_of(at)
    count = len(leaves)
    if part is not None:
        place, count = place * len(part) + part.index, count * len(part)
    place = place * len(task.target) + task.target.index
    none = count * len(task.target)
    return task.complete.of(category(minimum(place, none), default=none))


def _path(task: _Task, splits: Mapping[int, Split], place: int) -> Expression:
    """Build the predicate of a record that reaches this node."""
    here = constant(1)
    while place > 1:
        split = splits[place // 2]
        inside = _is_in(task.parts[split.part], split.cells)
        here = (inside if place % 2 == 0 else ~inside) & here
        place //= 2
    return here


def _is_in(part: Cells, cells: tuple[int, ...]) -> Expression:
    """Build the predicate of a cell in `cells`, by the shorter list."""
    if part.expression.kind is Kind.BOOLEAN:
        return part.expression if cells == (1,) else ~part.expression
    if part.edges and cells == tuple(range(len(cells))):
        return part.index < len(cells)
    rest = tuple(set(range(len(part))) - set(cells))
    if len(rest) < len(cells):
        return ~_any([part.index == cell for cell in sorted(rest)])
    return _any([part.index == cell for cell in cells])


def _any(predicates: Sequence[Expression]) -> Expression:
    """Build the disjunction as a balanced tree, since a device refuses deep ones."""
    if len(predicates) == 1:
        return predicates[0]
    middle = len(predicates) // 2
    return _any(predicates[:middle]) | _any(predicates[middle:])


def _split(task: _Task, leaves: Sequence[int], answers: Answers) -> dict[int, Split]:
    """The best split of each leaf that has one."""
    found: dict[int, Split] = {}
    best = dict.fromkeys(leaves, 0.0)
    for part, answer in zip(task.parts.values(), answers, strict=True):
        shape = (len(leaves), len(part), len(task.target))
        tables: Table = np.clip(np.reshape(answer.values[:-1], shape), 0.0, None)
        for place, table in zip(leaves, tables, strict=True):
            tolerance = _tolerance(task, answer)
            candidate = best_split(table, tolerance, task.rule, ordered=bool(part.edges))
            if candidate is not None and candidate.gain > best[place]:
                best[place] = candidate.gain
                found[place] = Split(part.name, candidate.cells)
    return found


def _tolerance(task: _Task, answer: Answer) -> float:
    """Return a count's error bound: the promised tolerance, or else the half-width."""
    return half_width(answer) if task.tau is None else float(task.tau)


def _prune(splits: dict[int, Split], shares: dict[int, tuple[float, ...]], reach: float) -> None:
    """Join two leaves unless one of them has another class than both together, beyond its error."""
    for place in sorted(splits, reverse=True):
        left, right = shares.get(2 * place), shares.get(2 * place + 1)
        if left is None or right is None:
            continue
        both = tuple(a + b for a, b in zip(left, right, strict=True))
        common = int(np.argmax(both))
        if max(max(leaf) - leaf[common] for leaf in (left, right)) <= reach:
            shares[place] = both
            del splits[place], shares[2 * place], shares[2 * place + 1]


def _rehearsed(task: _Task, batch: Batch) -> Answers:
    """Answers by which every leaf is split in two at every level: the most that can be asked."""
    answers = []
    for question, part in zip(batch.questions, task.parts.values(), strict=False):
        table = np.zeros((len(part), len(task.target)))
        table[np.arange(len(part)), np.arange(len(part)) * len(task.target) // len(part)] = 1
        values = np.zeros(question.values)
        blocks = np.tile(table.ravel() / len(part), (question.values - 1) // table.size)
        values[: len(blocks)] = blocks
        kept = tuple(values.tolist())
        answers.append(Answer(kept, kept, kept))
    return tuple(answers)


@catalogued(
    "decision-tree",
    version=2,
    summary="a category from all other fields by a tree (ID3), a level a round",
    error=HELD_OUT,
    guess=MOST_FREQUENT,
    success=NONE_WRONG,
    parameters=(
        LABEL,
        COLUMNS,
        ParameterEntry("depth", "of the tree at most", "3", kind=ParameterKind.WHOLE),
        ParameterEntry("bins", "into how many bins a number falls", "8", kind=ParameterKind.WHOLE),
        ParameterEntry(
            "min_share",
            "of users on either side of a split at least",
            "1/50",
            kind=ParameterKind.NUMBER,
        ),
        TAU,
    ),
    population="traits",
    small=SmallSettings(oracles={"columns": "height", "bins": "2", "depth": "1", "tau": "1/8"}),
    held_out=True,
)
def listed_decision_tree(schema: Schema | None, parameters: Text) -> Learner[Any]:
    """Build the learner from text."""
    return decision_tree(
        traits_schema() if schema is None else schema,
        parameters.get("label"),
        columns_in(parameters),
        whole("depth", parameters["depth"]),
        whole("bins", parameters["bins"]),
        parameters["min_share"],
        parameters.get("tau"),
    )
