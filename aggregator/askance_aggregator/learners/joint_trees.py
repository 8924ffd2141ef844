"""Trees grown from one joint table of a few grouped fields and the class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.cell_groups import Grouping
from askance_aggregator.learners.learning import Answers
from askance_aggregator.learners.splits import Split, Table, best_split
from askance_aggregator.learners.trees import TreeNode

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
        cls, axes: Sequence[Grouping], answers: Answers, classes: int, tau: Fraction | None
    ) -> JointTable:
        """Return the mean of answers from equally many users each.

        Variances are those that the answers show among each other. Intervals would not do: of rare
        cells they are many deviations wide.
        """
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

    def margins(self, box: Box) -> Iterator[Table]:
        """Generate the table of each axis in a node, none of its shares below 0."""
        part = self.shares[np.ix_(*box, np.arange(self.shares.shape[-1]))]
        for number in range(len(self.axes)):
            others = tuple(other for other in range(len(self.axes)) if other != number)
            yield np.clip(part.sum(axis=others), 0.0, None)


@dataclass(frozen=True, slots=True)
class GrowthRule:
    """Limits of a tree.

    Args:
        depth: at most.
        min_share: of all users on either side of a split, at least.
    """

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

    splits: dict[int, Split] = field(default_factory=dict)
    leaves: dict[int, _Leaf] = field(default_factory=dict)


def grow(table: JointTable, rule: GrowthRule) -> tuple[TreeNode, ...]:
    """Grow a tree on a joint table.

    A node is split in two groups of one field's cells by the greatest gain, as deep as the rule
    allows. Then, from the leaves up, a subtree is kept only if its leaves of another class than
    their node's have more users of their own class than of the node's, summed, beyond the error of
    that sum; else the node is a leaf. So each kept subtree predicts more records rightly than its
    node's class: surely with a promised tolerance, likely without one.

    Args:
        table: of the grouped fields.
        rule: limits.

    Returns:
        The nodes, by place; a leaf's shares are raw sums.
    """
    tree = _grown(table, rule, 1, tuple(np.arange(len(axis)) for axis in table.axes))
    nodes = [TreeNode(place, split=split) for place, split in tree.splits.items()]
    nodes += [TreeNode(place, tuple(leaf.shares.tolist())) for place, leaf in tree.leaves.items()]
    return tuple(sorted(nodes, key=lambda node: node.place))


def _grown(table: JointTable, rule: GrowthRule, place: int, box: Box) -> _Subtree:
    node = table.leaf(box)
    alone = _Subtree(leaves={place: node})
    if place.bit_length() > rule.depth:
        return alone
    best, axis = 0.0, 0
    inside: tuple[int, ...] = ()
    for number, margin in enumerate(table.margins(box)):
        found = best_split(margin, rule.min_share, table.axes[number].ordered)
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
    split = Split(grouping.part.name, grouping.cells_of(sides[0].tolist()))
    tree = _Subtree({place: split, **left.splits, **right.splits}, left.leaves | right.leaves)
    return tree if _tells(tree, node, table.tolerance) else alone


def _tells(tree: _Subtree, node: _Leaf, tolerance: float) -> bool:
    """Return whether the leaves of another class than the node's are so beyond their error.

    The error is the promised one of all their cells and two classes, or else one deviation.
    """
    common = int(node.shares.argmax())
    turned = [leaf for leaf in tree.leaves.values() if int(leaf.shares.argmax()) != common]
    gained = sum(float(leaf.shares.max() - leaf.shares[common]) for leaf in turned)
    variance = sum(
        float(leaf.variances[int(leaf.shares.argmax())] + leaf.variances[common]) for leaf in turned
    )
    cells = sum(leaf.cells for leaf in turned)
    return bool(turned) and gained > 2 * tolerance * cells + sqrt(variance)
