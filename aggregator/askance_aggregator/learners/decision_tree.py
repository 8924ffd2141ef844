"""Decision trees in two rounds: fields are screened, then one joint table is asked for.

The tree is grown from the joint table, when all users have been asked. Growing it level by level
takes a round of every field's table in every open leaf instead: with a joint table every user who
is asked for it tells about all levels.

A screen is a table of a field's cells by class. Its cells are joined to two or a few groups that
keep most of the information about the class, and the fields of the greatest gain are kept until
their joint table is as large as the noise of its answers allows.

Settings of a tree by arithmetic: the size of its joint table, and whether to grow it at all.

Users of open tolerances are divided about evenly over all questions: F screens, one per field, and
C equal questions for the joint table, C the number of fields, at least 8. So a share of a screen
has the deviation r = sqrt(v (F + C) / n), n the users and v n times the variance of one share, and
a share of the joint table s = r / sqrt(C). Equal questions also show how much their answers vary.
The figures were chosen once on Adult (7 and 14 fields, 26,049 and 10^6 users, epsilon 0.5 to 8),
whose error is flat about them.

- Size: as many cells P as keep s sqrt(P), the error of a difference of two classes over half of
  the cells, below 0.04, between 4 and 256. A promised tolerance tau adds up as badly as it can: P
  is then 0.1 / tau.
- Decision: up to r = 0.03 the tree is concluded; from 0.08 on not even one field's table
  can be told from noise, and the most frequent class is; between, a fifth of the users tell which
  is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import log2, prod, sqrt
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import constant_checks, learning, trees
from askance_aggregator.learners.assessments import catalogued_classifier
from askance_aggregator.learners.conditions import Conditions, planned_tau
from askance_aggregator.learners.encodings import Cells, cells
from askance_aggregator.learners.learner import adaptive
from askance_aggregator.learners.missing import CompleteCases, MissingShare
from askance_aggregator.learners.parameters import Columns, LabelName, Tau
from askance_aggregator.learners.registry import SmallSettings
from askance_aggregator.learners.rows import features_of, label_of, some_fields
from askance_aggregator.learners.schemas import traits_schema
from askance_aggregator.numbers import Rational, positive, rational, whole_within
from askance_aggregator.queries import category, first, index_of, where
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Expression, Kind, Query, Schema, constant

MOST_GROUPS = 4  # of a field; a fifth group adds less than another field
_LEAST_GAIN = 1e-6  # bits per doubling of the table; below it is the rounding of floats
_CATEGORY_REACH = 0.8  # sum of the positive ones of m normals, over m / 2


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Partition of a field's cells."""

    part: Cells
    groups: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def ordered(self) -> bool:
        """Return whether the groups are ranges of a number."""
        return bool(self.part.edges)

    @property
    def index(self) -> Expression:
        """The group's number, as a number."""
        if len(self.groups) == len(self.part) and self.ordered:
            return self.part.index
        return index_of(first([is_in(self.part, group) for group in self.groups[:-1]]))

    def cells_of(self, groups: Sequence[int]) -> tuple[int, ...]:
        """Return the cells of some groups, ascending."""
        return tuple(sorted(cell for group in groups for cell in self.groups[group]))


@dataclass(frozen=True, slots=True, eq=False)
class Screen:
    """Estimated table of a field: raw shares, (cells, classes), and the deviation of one share."""

    part: Cells
    shares: trees.Table
    noise: float

    def groupings(self) -> list[tuple[float, Grouping]]:
        """Return the best partition in 1, 2, .. `MOST_GROUPS` groups, each with its gain."""
        clipped = np.clip(self.shares, 0.0, None)
        order = np.arange(len(clipped)) if self.part.edges else trees.by_share(clipped)
        found = []
        for ends in _partitions(clipped[order], min(MOST_GROUPS, len(clipped))):
            ranges = [order[a:b] for a, b in zip((0, *ends), ends, strict=False)]
            groups = tuple(tuple(sorted(int(cell) for cell in group)) for group in ranges)
            found.append((self._gain(groups), Grouping(self.part, groups)))
        return found

    def _gain(self, groups: Sequence[Sequence[int]]) -> float:
        """Compute the gain of groups in bits, less what noise alone shows in the mean."""
        # The tilt of a class in a group, D = (its users there) - q (users there), q its share of
        # all, is shrunk to D (1 - (t / D)^2), 0 below t: t is about what pure noise of deviation s
        # shows in a group of m cells. Cells of a number were joined because they are neighbours, so
        # t = s sqrt(m); cells of a category because they tilt alike, so their noise adds up: t = .8
        # s m.
        #
        # Source: the non-negative garrotte, Breiman 1995.
        table = np.array([self.shares[list(group)].sum(axis=0) for group in groups])
        share = np.clip(table.sum(axis=0), 0.0, None)
        if len(groups) == 1 or share.sum() <= 0:
            return 0.0
        share /= share.sum()
        cells = np.array([len(group) for group in groups])
        mass = np.clip(table.sum(axis=1), 0.0, None)[:, None]
        tilt = table - share * table.sum(axis=1)[:, None]
        spread = self.noise * np.sqrt((1 - share) ** 2 + (len(share) - 1) * share**2)
        reach = spread * (np.sqrt(cells) if self.part.edges else _CATEGORY_REACH * cells)[:, None]
        kept = np.clip(1 - (reach / np.where(tilt == 0, 1.0, tilt)) ** 2, 0.0, None)
        shrunk = np.clip(share * mass + kept * tilt, 0.0, None)
        return float(trees.bits_of(shrunk.sum(axis=0)) - trees.bits_of(shrunk).sum())


def choose_groupings(screens: Sequence[Screen], limit: int) -> tuple[Grouping, ...]:
    """Choose fields and their groups for one joint table."""
    # Step by step, the field is refined that gains most bits per doubling of the table. A field
    # that tells nothing may still enter, with the little that noise shows, if the limit allows it.
    #
    # The limit bounds the product of the numbers of groups. Fields are in the order of the screens;
    # there is none if none tells.
    options = [screen.groupings() for screen in screens]
    chosen, size = [0] * len(options), 1
    while True:
        best, taken = _LEAST_GAIN, None
        for place, option in enumerate(options):
            now = chosen[place]
            for more in range(now + 1, len(option)):
                grown = size // (now + 1) * (more + 1)
                gain = (option[more][0] - option[now][0]) / log2((more + 1) / (now + 1))
                if grown <= limit and gain > best:
                    best, taken = gain, (place, more, grown)
        if taken is None:
            break
        chosen[taken[0]], size = taken[1], taken[2]
    pairs = zip(options, chosen, strict=True)
    return tuple(option[count][1] for option, count in pairs if count > 0)


def largest_shape(parts: Sequence[Cells], limit: int) -> tuple[int, ...]:
    """Return numbers of groups with the greatest product that is not above a limit."""
    shapes: dict[int, tuple[int, ...]] = {1: ()}
    for part in parts:
        grown: dict[int, tuple[int, ...]] = {}
        for size, shape in shapes.items():
            for count in range(1, min(MOST_GROUPS, len(part)) + 1):
                if size * count <= limit:
                    grown.setdefault(size * count, (*shape, count))
        shapes = grown
    return shapes[max(shapes)]


def even_grouping(part: Cells, count: int) -> Grouping:
    """Return a partition into groups of neighbours of about equal size."""
    ends = [place * len(part) // count for place in range(count + 1)]
    return Grouping(part, tuple(tuple(range(a, b)) for a, b in pairwise(ends)))


def is_in(part: Cells, cells: tuple[int, ...]) -> Expression:
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


def _partitions(table: trees.Table, most: int) -> list[tuple[int, ...]]:
    """Find the partitions of a list of cells into 1 .. most ranges that keep most information."""
    count = len(table)
    sums = np.concatenate([np.zeros((1, table.shape[1])), np.cumsum(table, axis=0)])
    cost: NDArray[np.float64] = np.full((count + 1, count + 1), np.inf)
    for start in range(count):
        cost[start, start + 1 :] = trees.bits_of(
            np.clip(sums[start + 1 :] - sums[start], 0.0, None)
        )
    least = cost[0]
    ends: list[tuple[int, ...]] = [(stop,) for stop in range(count + 1)]
    found = [ends[count]]
    for _ in range(1, most):
        through = least[:, None] + cost
        start_of = through.argmin(axis=0)
        least = through.min(axis=0)
        ends = [(*ends[int(start)], stop) for stop, start in enumerate(start_of)]
        found.append(ends[count])
    return found


_REHEARSED = 1024.0  # share of a rehearsed cell: beyond any tolerance


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Parameters of growing a tree."""

    # cells: of the joint table at most, classes not counted.
    # copies: number of equal questions for the joint table.

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
        whole_within(depth, 1, trees.MAX_DEPTH, "depth")
        least = rational(arguments["min_share"], "min_share")
        if not 0 < least <= Fraction(1, 2):
            share = value_text(arguments["min_share"])
            raise InvalidParameter(f"min_share expects a share in (0, 1/2], got {share}")
        tau = None if arguments["tau"] is None else positive(arguments["tau"], "tau")
        size = arguments["cells"]
        if size is None:
            size = MOST_CELLS if tau is None else cells_within(tau)
        whole_within(size, 2, MOST_ALLOWED, "cells")
        parts, copies = trees.parts_of(features, bins), arguments["copies"]
        if copies is None:
            copies = table_copies(len(parts)) if tau is None else 1
        whole_within(copies, 2 if tau is None else 1, MOST_COPIES, "copies")
        return cls(
            features=features,
            target=cells(schema, target)[0],
            parts=parts,
            bins=bins,
            depth=depth,
            min_share=float(least),
            cells=size,
            copies=copies,
            decide=constant_checks.check_decision(arguments["decide"]),
            tau=tau,
            complete=CompleteCases(some_fields(schema, [*features.fields, target])),
        )

    @property
    def screening(self) -> learning.Batch:
        """Every field's table of cell and class."""
        return learning.Batch(
            learning.Question(self.table([part.index], [len(part)]), self.tau)
            for part in self.parts.values()
        )

    def joint(self, axes: Sequence[Grouping]) -> learning.Question:
        """Ask for the joint table of grouped fields and the class."""
        sizes = [len(axis) for axis in axes]
        return learning.Question(self.table([axis.index for axis in axes], sizes), self.tau)

    def table(self, indexes: Sequence[Expression], sizes: Sequence[int]) -> Query:
        """Build the question for the joint cell of some numbers and the class."""
        # The last cell holds records that lack the label or any field, whether it is asked about
        # here or not.
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


@catalogued_classifier(
    summary="a category from all other fields by a tree (ID3), in two rounds",
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
    decide: constant_checks.Decide = None,
    tau: Tau = None,
) -> learning.Learning[trees.DecisionTree]:
    """Screen the fields, ask for one joint table of a few of them, and grow a tree from it.

    Round 1 asks for each field's table of cell and class. The cells of a field are joined to two,
    three or four groups that keep most of what they tell about the class, and the fields that tell
    most are kept until their joint table has as many cells as allowed. Round 2 asks
    half of the users or more for that table and the class. The tree is grown on it and cut back to
    what the answers can tell; it is one leaf, the most frequent class, if they tell
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
    the module for what is set by users and noise where it is not given.

    Raises:
        InvalidParameter: an argument is out of range: depth in 1 .. 12, min_share in (0, 1/2],
            cells in 2 .. 4,096 (classes not counted), copies in 2 .. 4,096 (with `tau` 1 too).

    Source: Quinlan 1986 (ID3); notes, section 1.2; Blum et al. 2005 ("SuLQ"). Deviations: splits
        are in two, and all but the screens are read from one joint table.

    Example:
        >>> people = ask.Population.generated("traits", users=2_000)
        >>> learner = ask.learners.decision_tree(columns=["age"])
        >>> len(ask.Study(learner, people.schema, epsilon=4).plan().rounds) >= 1
        True
    """
    return _grow(_Task.of(locals()))


def _grow(task: _Task) -> learning.Learning[trees.DecisionTree]:
    rule, classes = GrowthRule(task.depth, task.min_share), len(task.target)
    axes: tuple[Grouping, ...] = ()
    copies = 1
    if task.decide != constant_checks.ModelChoice.CONSTANT:
        axes, copies = (yield from _screened(task)), task.copies
    answers = yield learning.Batch([task.joint(axes)] * copies, learning.Allocation.FRESH)
    table = JointTable.of(axes, answers, classes, task.tau)
    nodes = grow(table, rule)
    if task.decide == constant_checks.ModelChoice.CHECK and len(nodes) > 1:
        found = constant_checks.confusion_of(_predicted(task, nodes), task.target.index, classes)
        asked = len(task.parts) + copies
        checks = yield constant_checks.asked_of_a_fifth(
            learning.Question(task.complete.of(found), task.tau), asked
        )
        if constant_checks.Confusion.of(checks, classes).advantage <= 0:
            nodes = (trees.TreeNode(1, tuple(table.classes.tolist())),)
    return _concluded(task, nodes, answers)


def _screened(task: _Task) -> learning.Learning[tuple[Grouping, ...]]:
    """Ask for each field's table and choose fields and groups."""
    answers = yield task.screening
    screens = []
    for part, answer in zip(task.parts.values(), answers, strict=True):
        shares = np.reshape(answer.values[:-1], (len(part), len(task.target)))
        screens.append(Screen(part, shares, learning.standard_error(answer, task.tau)))
    return choose_groupings(screens, task.cells)


def _concluded(
    task: _Task, nodes: tuple[trees.TreeNode, ...], answers: learning.Answers
) -> trees.DecisionTree:
    """Make the hypothesis; the mean of intervals that hold together is one of the mean."""
    last = [(answer.values[-1], answer.lows[-1], answer.highs[-1]) for answer in answers]
    value, low, high = np.mean(last, axis=0).tolist()
    missing = MissingShare(min(max(value, 0.0), 1.0), low, high)
    target = task.target
    return trees.DecisionTree(task.features, task.bins, target.field, target.labels, nodes, missing)


def _predicted(task: _Task, nodes: Sequence[trees.TreeNode]) -> Expression:
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
    """Set the size of the joint table and the decision by users and noise."""
    # Without a number of users both are for `TreeNoise.planned`, and a tolerance is set by which a
    # plan asks for about so many. A tolerance that was given sets what it needs itself.
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


def _rehearsed(task: _Task, batch: learning.Batch) -> learning.Answers:
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
        answers.append(learning.Answer(kept, kept, kept))
    return tuple(answers)


def _halves(values: int, classes: int) -> learning.Answer:
    """Return the shares of a table whose first half is of one class, and the other of another."""
    table = np.zeros(((values - 1) // classes, classes))
    middle = (len(table) + 1) // 2
    table[:middle, 0] = table[middle:, 1] = _REHEARSED
    kept = (*table.ravel().tolist(), 0.0)
    return learning.Answer(kept, kept, kept)


FEWEST_CELLS = 4
MOST_CELLS = 256
MOST_ALLOWED = 4096  # that an analyst may ask for
MOST_COPIES = 4096  # likewise, of the question for it
DOUBT = constant_checks.Doubt(clear=0.03, hopeless=0.08)
_ERROR = 0.04  # of a difference of two classes over half of the joint cells
_PROMISED = Fraction(1, 10)  # likewise, the sum of promised tolerances
_PLANNED = 0.003  # s that a plan without a population asks users for, with that of the sample
_SAMPLE = 1 / 16  # p (1 - p) of a leaf of 7 % of the users, whom no randomizer hides
_FEWEST_COPIES = 8  # whose variance is off by about a quarter


def table_copies(fields: int) -> int:
    """Return C, the number of questions for the joint table."""
    return max(fields, _FEWEST_COPIES)


@dataclass(frozen=True, slots=True)
class TreeNoise:
    """Noise of a study.

    Args:
        variance: v, n times the variance of a share.
        fields: F.
        users: n.
    """

    variance: float
    fields: int
    users: int

    @classmethod
    def planned(cls, variance: float, fields: int) -> TreeNoise:
        """Return the noise with as many users as a plan without a population asks for.

        Where answers are almost exact, it is for the variation of the users themselves.
        """
        copies = table_copies(fields)
        wanted = (variance + _SAMPLE) * (fields + copies) / (copies * _PLANNED**2)
        return cls(variance, fields, max(round(wanted), 1))

    @property
    def of_screen(self) -> float:
        """Deviation r of a share of a field's table; infinite without users."""
        if self.users < 1:
            return float("inf")
        return sqrt(self.variance * (self.fields + table_copies(self.fields)) / self.users)

    @property
    def of_share(self) -> float:
        """Deviation s of a share of the joint table."""
        return self.of_screen / sqrt(table_copies(self.fields))

    @property
    def cells(self) -> int:
        """Number of cells of the joint table."""
        if self.of_share == 0:
            return MOST_CELLS
        return round(min(max((_ERROR / self.of_share) ** 2, FEWEST_CELLS), MOST_CELLS))

    @property
    def decision(self) -> str:
        """The decision about the tree."""
        return str(DOUBT.decision(self.of_screen))


def cells_within(tau: Fraction) -> int:
    """Return the number of cells of a joint table whose shares are promised within tau."""
    return min(max(int(_PROMISED / tau), FEWEST_CELLS), MOST_CELLS)


Box = tuple[NDArray[np.int64], ...]
"""A node's groups of every field; its cells are their product."""


@dataclass(frozen=True, slots=True, eq=False)
class JointTable:
    """Estimated joint table of grouped fields and the class.

    Args:
        axes: the grouped fields; none: the table is of classes alone.
        shares: raw, shape (groups of each axis .., classes).
        variances: of the shares, the same shape; 0 where answers are exact, or promised.
        tolerance: of every share, as promised: errors then add up as badly as they can; 0: there
            is no promise, and errors add up as squares do.
    """

    axes: tuple[Grouping, ...]
    shares: NDArray[np.float64]
    variances: NDArray[np.float64]
    tolerance: float = 0.0

    @classmethod
    def of(
        cls, axes: Sequence[Grouping], answers: learning.Answers, classes: int, tau: Fraction | None
    ) -> JointTable:
        """Return the mean of answers from equally many users each."""
        # Variances are those that the answers show among each other. Intervals would not do: of
        # rare cells they are many deviations wide.
        shape = (len(answers), *(len(axis) for axis in axes), classes)
        each = np.array([answer.values[:-1] for answer in answers]).reshape(shape)
        spread = np.zeros(shape[1:])
        if tau is None and len(answers) > 1:
            spread = each.var(axis=0, ddof=1) / len(answers)
        return cls(tuple(axes), each.mean(axis=0), spread, float(tau or 0))

    @property
    def classes(self) -> NDArray[np.float64]:
        """Shares of the classes, shape (classes,)."""
        return np.asarray(self.shares.reshape(-1, self.shares.shape[-1]).sum(axis=0))

    def leaf(self, box: Box) -> _Leaf:
        """Return the node with these groups as a leaf."""
        count = self.shares.shape[-1]
        where = np.ix_(*box, np.arange(count))
        shares, variances = (
            np.asarray(table[where].reshape(-1, count).sum(axis=0))
            for table in (self.shares, self.variances)
        )
        return _Leaf(shares, variances, prod(len(groups) for groups in box))

    def margins(self, box: Box) -> Iterator[trees.Table]:
        """Generate the table of each axis in a node, none of its shares below 0."""
        part = self.shares[np.ix_(*box, np.arange(self.shares.shape[-1]))]
        for number in range(len(self.axes)):
            others = tuple(other for other in range(len(self.axes)) if other != number)
            yield np.clip(part.sum(axis=others), 0.0, None)


@dataclass(frozen=True, slots=True)
class GrowthRule:
    """Limits of a tree."""

    depth: int
    min_share: float


@dataclass(frozen=True, slots=True, eq=False)
class _Leaf:
    """Leaf: shares of its classes, their variances, and its number of joint cells."""

    shares: NDArray[np.float64]
    variances: NDArray[np.float64]
    cells: int


@dataclass(frozen=True, slots=True)
class _Subtree:
    """Splits and leaves by place."""

    splits: dict[int, trees.Split] = field(default_factory=dict)
    leaves: dict[int, _Leaf] = field(default_factory=dict)


def grow(table: JointTable, rule: GrowthRule) -> tuple[trees.TreeNode, ...]:
    """Grow a tree on a joint table."""
    # A node is split in two groups of one field's cells by the greatest gain, as deep as the rule
    # allows. Then, from the leaves up, a subtree is kept only if its leaves of another class than
    # their node's have more users of their own class than of the node's, summed, beyond the error
    # of that sum; else the node is a leaf. So each kept subtree predicts more records rightly than
    # its node's class: surely with a promised tolerance, likely without one.
    #
    # The nodes come by place; a leaf's shares are raw sums.
    tree = _grown(table, rule, 1, tuple(np.arange(len(axis)) for axis in table.axes))
    nodes = [trees.TreeNode(place, split=split) for place, split in tree.splits.items()]
    nodes += [
        trees.TreeNode(place, tuple(leaf.shares.tolist())) for place, leaf in tree.leaves.items()
    ]
    return tuple(sorted(nodes, key=lambda node: node.place))


def _grown(table: JointTable, rule: GrowthRule, place: int, box: Box) -> _Subtree:
    node = table.leaf(box)
    alone = _Subtree(leaves={place: node})
    if place.bit_length() > rule.depth:
        return alone
    best, axis = 0.0, 0
    inside: tuple[int, ...] = ()
    for number, margin in enumerate(table.margins(box)):
        found = trees.best_split(margin, rule.min_share, table.axes[number].ordered)
        if found is not None and found.gain > best:
            best, axis, inside = found.gain, number, found.cells
    if not inside:
        return alone
    chosen = np.array(inside)
    sides = (box[axis][chosen], np.delete(box[axis], chosen))
    left, right = (
        _grown(table, rule, 2 * place + side, (*box[:axis], groups, *box[axis + 1 :]))
        for side, groups in enumerate(sides)
    )
    grouping = table.axes[axis]
    split = trees.Split(grouping.part.name, grouping.cells_of(sides[0].tolist()))
    tree = _Subtree({place: split, **left.splits, **right.splits}, left.leaves | right.leaves)
    return tree if _tells(tree, node, table.tolerance) else alone


def _tells(tree: _Subtree, node: _Leaf, tolerance: float) -> bool:
    """Return whether the leaves of another class than the node's are so beyond their error."""
    # The error is the promised one of all their cells and two classes, or else one deviation.
    common = int(node.shares.argmax())
    turned = [leaf for leaf in tree.leaves.values() if int(leaf.shares.argmax()) != common]
    gained = sum(float(leaf.shares.max() - leaf.shares[common]) for leaf in turned)
    variance = sum(
        float(leaf.variances[int(leaf.shares.argmax())] + leaf.variances[common]) for leaf in turned
    )
    cells = sum(leaf.cells for leaf in turned)
    return bool(turned) and gained > 2 * tolerance * cells + sqrt(variance)
