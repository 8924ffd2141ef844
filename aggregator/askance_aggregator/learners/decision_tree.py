"""Decision trees in two rounds: fields are screened, then one joint table is asked for.

The tree is grown from the joint table, when all users have been asked. Growing it level by level
takes a round of every field's table in every open leaf instead: with a joint table every user who
is asked for it tells about all levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import prod, sqrt
from typing import Annotated, Any

import numpy as np

from askance_aggregator.learners.assessments import HELD_OUT, MOST_FREQUENT, NONE_WRONG
from askance_aggregator.learners.cell_groups import (
    Grouping,
    Screen,
    choose_groupings,
    even_grouping,
    is_in,
    largest_shape,
)
from askance_aggregator.learners.conditions import Conditions, planned_tau
from askance_aggregator.learners.constant_checks import (
    Confusion,
    Decide,
    ModelChoice,
    asked_of_a_fifth,
    check_decision,
    confusion_of,
)
from askance_aggregator.learners.encodings import Cells, cells
from askance_aggregator.learners.joint_trees import GrowthRule, JointTable, grow
from askance_aggregator.learners.learner import adaptive
from askance_aggregator.learners.learning import (
    Allocation,
    Answer,
    Answers,
    Batch,
    Learning,
    Question,
)
from askance_aggregator.learners.missing import CompleteCases, MissingShare
from askance_aggregator.learners.parameters import Columns, LabelName, Tau
from askance_aggregator.learners.reach import standard_error
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import features_of, label_of, some_fields
from askance_aggregator.learners.schemas import traits_schema
from askance_aggregator.learners.tree_rules import (
    MOST_ALLOWED,
    MOST_CELLS,
    MOST_COPIES,
    TreeNoise,
    cells_within,
    table_copies,
)
from askance_aggregator.learners.trees import MAX_DEPTH, DecisionTree, TreeNode, parts_of
from askance_aggregator.numbers import Rational, positive, rational
from askance_aggregator.queries import category, where
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Expression, Query, Schema, constant

_REHEARSED = 1024.0  # share of a rehearsed cell: beyond any tolerance


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Parameters of growing a tree.

    Args:
        cells: of the joint table at most, classes not counted.
        copies: number of equal questions for the joint table.
    """

    features: Schema
    target: Cells
    parts: Mapping[str, Cells]
    bins: int
    depth: int
    min_share: float
    cells: int
    copies: int
    decide: str | None
    tau: Fraction | None
    complete: CompleteCases

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> _Task:
        """Check a learner's arguments."""
        schema, bins, depth = arguments["schema"], arguments["bins"], arguments["depth"]
        target = label_of(schema, arguments["label"])
        features = features_of(schema, target, arguments["columns"])
        _check_whole("depth", depth, 1, MAX_DEPTH)
        least = rational(arguments["min_share"], "min_share")
        if not 0 < least <= Fraction(1, 2):
            share = value_text(arguments["min_share"])
            raise InvalidParameter(f"min_share expects a share in (0, 1/2], got {share}")
        tau = None if arguments["tau"] is None else positive(arguments["tau"], "tau")
        size = arguments["cells"]
        if size is None:
            size = MOST_CELLS if tau is None else cells_within(tau)
        _check_whole("cells", size, 2, MOST_ALLOWED)
        parts, copies = parts_of(features, bins), arguments["copies"]
        if copies is None:
            copies = table_copies(len(parts)) if tau is None else 1
        _check_whole("copies", copies, 2 if tau is None else 1, MOST_COPIES)
        return cls(
            features=features,
            target=cells(schema, target)[0],
            parts=parts,
            bins=bins,
            depth=depth,
            min_share=float(least),
            cells=size,
            copies=copies,
            decide=check_decision(arguments["decide"]),
            tau=tau,
            complete=CompleteCases(some_fields(schema, [*features.fields, target])),
        )

    @property
    def screening(self) -> Batch:
        """Every field's table of cell and class."""
        return Batch(
            Question(self.table([part.index], [len(part)]), self.tau)
            for part in self.parts.values()
        )

    def joint(self, axes: Sequence[Grouping]) -> Question:
        """Ask for the joint table of grouped fields and the class."""
        sizes = [len(axis) for axis in axes]
        return Question(self.table([axis.index for axis in axes], sizes), self.tau)

    def table(self, indexes: Sequence[Expression], sizes: Sequence[int]) -> Query:
        """Build the question for the joint cell of some numbers and the class.

        The last cell holds records that lack the label or any field, whether it is asked about
        here or not.
        """
        place = constant(0)
        for index, size in zip(indexes, sizes, strict=True):
            place = place * size + index
        place = place * len(self.target) + self.target.index
        none = prod(sizes) * len(self.target)
        return self.complete.of(category(where(place >= 0, place, none), default=none))

    def largest(self, limit: int) -> tuple[Grouping, ...]:
        """Return groupings with as large a joint table as there can be, up to a limit."""
        parts = tuple(self.parts.values())
        shape = largest_shape(parts, limit)
        pairs = zip(parts, shape, strict=True)
        return tuple(even_grouping(part, count) for part, count in pairs if count > 1)


@catalogued(
    summary="a category from all other fields by a tree (ID3), in two rounds",
    error=HELD_OUT,
    guess=MOST_FREQUENT,
    success=NONE_WRONG,
    example=traits_schema,
    population="traits",
    small=SmallSettings(oracles={"columns": "height", "bins": "2", "depth": "1", "tau": "1/20"}),
    held_out=True,
)
@adaptive(
    "decision-tree",
    version=3,
    rehearse=lambda arguments: partial(_rehearsed, _Task.of(arguments)),
    settle=lambda arguments, conditions: _settled(arguments, conditions),
)
def decision_tree(
    schema: Schema,
    label: LabelName = None,
    columns: Columns = None,
    depth: Annotated[int, "of the tree at most"] = 6,
    bins: Annotated[int, "into how many bins a number falls"] = 8,
    min_share: Annotated[Rational, "of users on either side of a split at least"] = "1/500",
    cells: Annotated[int | None, "of the joint table at most (default: by users and noise)"] = None,
    copies: Annotated[
        int | None, "equal questions for the joint table (default: one per field)"
    ] = None,
    decide: Decide = None,
    tau: Tau = None,
) -> Learning[DecisionTree]:
    """Screen the fields, ask for one joint table of a few of them, and grow a tree from it.

    Round 1 asks for each field's table of cell and class. The cells of a field are joined to two,
    three or four groups that keep most of what they tell about the class, and the fields that tell
    most are kept until their joint table has as many cells as allowed (`cell_groups`). Round 2 asks
    half of the users or more for that table and the class. The tree is grown on it and cut back to
    what the answers can tell (`joint_trees`); it is one leaf, the most frequent class, if they tell
    nothing.

    Every share is of complete cases, users who have the label and all columns, among all users:
    fields are compared on the same users. Name fewer columns where a field is missing often. How
    many lack a field is estimated by the last answer.

    Utility: 2 rounds, 3 with a check; F + C questions for F fields, C the greater of F and 8 (1
    with `tau`), of at most cells x classes + 1 values. With `tau`, every share is off by less than
    that, and the tree, unless it is one leaf, predicts more complete cases rightly than its most
    frequent class would; in a leaf of m joint cells no class is commoner than the predicted one by
    2 m tau or more. Without one, users are divided about evenly over all questions, and a subtree
    is kept beyond one standard deviation of what it gains: it is likely to gain, not certain. See
    `tree_rules` for what is set by users and noise where it is not given.

    Args:
        schema: of the records.
        label: what to predict; None: its only Label.
        columns: what from; None: all other fields.
        depth: of the tree at most, 1 .. 12.
        bins: into how many bins of the schema's bounds a number falls, for the screens.
        min_share: at least this share of all users on either side of a split, in (0, 1/2].
        cells: of the joint table at most, classes not counted, 2 .. 4,096; None: by noise or tau.
        copies: number of equal questions for the joint table, 2 .. 4,096 (with `tau` 1 too); None:
            C. Without `tau` the error is measured by their variation.
        decide: "model", "check" or "constant" (`constant_checks.ModelChoice`); None: by noise.
        tau: how exactly each share is wanted; None: as the users allow.

    Raises:
        InvalidParameter: an argument is out of range.

    Source: Quinlan 1986 (ID3); notes, section 1.2; Blum et al. 2005 ("SuLQ"). Deviations: splits
        are in two, and all but the screens are read from one joint table.

    Example:
        >>> people = ask.Population.generated("traits", users=2_000)
        >>> learner = ask.learners.decision_tree(people.schema, columns=["age"])
        >>> len(ask.Study(learner, people.schema, epsilon=4).plan().rounds) >= 1
        True
    """
    return _grow(_Task.of(locals()))


def _grow(task: _Task) -> Learning[DecisionTree]:
    rule, classes = GrowthRule(task.depth, task.min_share), len(task.target)
    axes: tuple[Grouping, ...] = ()
    copies = 1
    if task.decide != ModelChoice.CONSTANT:
        axes, copies = (yield from _screened(task)), task.copies
    answers = yield Batch([task.joint(axes)] * copies, Allocation.FRESH)
    table = JointTable.of(axes, answers, classes, task.tau)
    nodes = grow(table, rule)
    if task.decide == ModelChoice.CHECK and len(nodes) > 1:
        found = confusion_of(_predicted(task, nodes), task.target.index, classes)
        asked = len(task.parts) + copies
        checks = yield asked_of_a_fifth(Question(task.complete.of(found), task.tau), asked)
        if Confusion.of(checks, classes).advantage <= 0:
            nodes = (TreeNode(1, tuple(table.classes.tolist())),)
    return _concluded(task, nodes, answers)


def _screened(task: _Task) -> Learning[tuple[Grouping, ...]]:
    """Ask for each field's table and choose fields and groups."""
    answers = yield task.screening
    screens = []
    for part, answer in zip(task.parts.values(), answers, strict=True):
        shares = np.reshape(answer.values[:-1], (len(part), len(task.target)))
        screens.append(Screen(part, shares, standard_error(answer, task.tau)))
    return choose_groupings(screens, task.cells)


def _concluded(task: _Task, nodes: tuple[TreeNode, ...], answers: Answers) -> DecisionTree:
    """Make the hypothesis; the mean of intervals that hold together is one of the mean."""
    last = [(answer.values[-1], answer.lows[-1], answer.highs[-1]) for answer in answers]
    value, low, high = np.mean(last, axis=0).tolist()
    missing = MissingShare(min(max(value, 0.0), 1.0), low, high)
    target = task.target
    return DecisionTree(task.features, task.bins, target.field, target.labels, nodes, missing)


def _predicted(task: _Task, nodes: Sequence[TreeNode]) -> Expression:
    """Build the number of the class that a tree predicts for a record."""
    known = {node.place: node for node in nodes}

    def at(place: int) -> Expression:
        node = known[place]
        if node.split is None:
            return constant(int(np.argmax(node.shares)))
        inside = is_in(task.parts[node.split.part], node.split.cells)
        return where(inside, at(2 * place), at(2 * place + 1))

    return at(1)


def _settled(arguments: Mapping[str, Any], conditions: Conditions) -> dict[str, Any]:
    """Set the size of the joint table and the decision by users and noise.

    Without a number of users both are for `TreeNoise.planned`, and a tolerance is set by which a
    plan asks for about so many. A tolerance that was given sets what it needs itself.
    """
    if conditions.signing or arguments["tau"] is not None:
        return {}
    task = _Task.of(arguments)
    question = task.joint(task.largest(task.cells))
    variance, fields = conditions.noise(question), len(task.parts)
    noise = TreeNoise.planned(variance, fields)
    if conditions.users is not None:
        noise = TreeNoise(variance, fields, conditions.users)
    chosen: dict[str, Any] = {"cells": noise.cells, "decide": noise.decision}
    if conditions.users is None:
        chosen["copies"] = table_copies(fields)
    chosen |= {name: arguments[name] for name in chosen if arguments[name] is not None}
    if conditions.users is None:
        chosen["tau"] = _planned_tau({**arguments, **chosen}, noise.users, conditions)
    return chosen


def _planned_tau(arguments: Mapping[str, Any], users: int, conditions: Conditions) -> Fraction:
    """Return a tolerance of every share by which a plan asks for about so many users."""
    task = _Task.of(arguments)
    screens, joint = task.screening.questions, task.joint(task.largest(task.cells))
    values = joint.values * task.copies + sum(asked.values for asked in screens)
    kept = conditions.tolerance(joint, max(users // (len(screens) + task.copies), 1), values)
    tau = planned_tau(kept)
    needed = conditions.needed(decision_tree(**{**arguments, "tau": tau}))
    if needed is None:
        return tau
    return planned_tau(kept * sqrt(needed / users))


def _rehearsed(task: _Task, batch: Batch) -> Answers:
    """Answers by which the joint table is as large as it can be, and its tree has a split."""
    if batch.questions != task.screening.questions:
        return tuple(_halves(question.values, len(task.target)) for question in batch.questions)
    shape = largest_shape(tuple(task.parts.values()), task.cells)
    answers = []
    for part, count in zip(task.parts.values(), shape, strict=True):
        table = np.zeros((len(part), len(task.target)))
        for place, group in enumerate(even_grouping(part, count).groups):
            share = place / max(count - 1, 1)
            table[list(group), :2] = (share * _REHEARSED, (1 - share) * _REHEARSED)
        kept = (*table.ravel().tolist(), 0.0)
        answers.append(Answer(kept, kept, kept))
    return tuple(answers)


def _halves(values: int, classes: int) -> Answer:
    """Return the shares of a table whose first half is of one class, and the other of another."""
    table = np.zeros(((values - 1) // classes, classes))
    middle = (len(table) + 1) // 2
    table[:middle, 0] = table[middle:, 1] = _REHEARSED
    kept = (*table.ravel().tolist(), 0.0)
    return Answer(kept, kept, kept)


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidParameter(
            f"{name} expects a whole number in {low}..{high}, got {value_text(value)}"
        )
