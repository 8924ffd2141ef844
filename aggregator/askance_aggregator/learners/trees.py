"""A decision tree as a hypothesis, and the best split of a leaf by its cells and classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import CONSTANT, Assessment, Users, assess
from askance_aggregator.learners.encodings import Cells, cells
from askance_aggregator.learners.hypotheses import (
    Document,
    JsonObject,
    hypothesis_of,
    parts_in,
    written,
)
from askance_aggregator.learners.learner import Learner
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.learners.rows import Rows, encoded
from askance_aggregator.learners.shapes import Branch, Tree
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_client.queries import Schema

Table = NDArray[np.float64]
"""Shares of users by cell and class, shape (cells, classes), none below 0."""


@dataclass(frozen=True, slots=True)
class Split:
    """Two groups of a field's cells.

    Args:
        cells: those of the one group, ascending; all others are the other one.
    """

    part: str
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Split and its gain.

    Bits of information about the class, times the share of users in the leaf.
    """

    cells: tuple[int, ...]
    gain: float


def best_split(table: Table, min_share: float, ordered: bool) -> Candidate | None:
    """Find the binary split with the greatest gain.

    The cells of a number are cut between two neighbours; those of a category are first ordered by
    their share of the commonest class, for then one of the cuts is the best of all splits in two
    (of two classes; of more it is a good one).

    The cells of a number are `ordered`. None: no split has a gain.

    Source: the gain is ID3's (Quinlan 1986); the order is Breiman et al. 1984, theorem 4.5.
    """
    if table.sum() <= 0:
        return None
    order = np.arange(len(table)) if ordered else by_share(table)
    left = np.cumsum(table[order], axis=0)[:-1]
    right = table.sum(axis=0) - left
    enough = np.minimum(left.sum(axis=1), right.sum(axis=1)) >= min_share
    gains = bits_of(table.sum(axis=0)) - bits_of(left) - bits_of(right)
    gains = np.where(enough, gains, 0.0)
    if not len(gains) or gains.max() <= 0:
        return None
    cut = int(gains.argmax())
    return Candidate(tuple(sorted(int(cell) for cell in order[: cut + 1])), float(gains[cut]))


def by_share(table: Table) -> NDArray[np.int64]:
    """Return the cells in the order of their share of the commonest class, shape (cells,)."""
    mass = table.sum(axis=1)
    commonest = int(table.sum(axis=0).argmax())
    share = np.divide(table[:, commonest], mass, out=np.full(len(table), np.inf), where=mass > 0)
    return np.argsort(share, kind="stable")


def bits_of(counts: Table) -> NDArray[np.float64]:
    """Compute the entropy of the classes times their mass, along the last axis."""
    total = counts.sum(axis=-1, keepdims=True)
    safe = np.where(counts > 0, counts, 1.0)
    shares = np.where(counts > 0, counts / np.where(total > 0, total, 1.0), 1.0)
    return np.asarray(-(safe * np.log2(shares) * (counts > 0)).sum(axis=-1))


MAX_DEPTH = 12
_LEAF = ("place", "shares")
_SPLIT = ("place", "part=split.part", "cells=split.cells")


@dataclass(frozen=True, slots=True)
class TreeNode(JsonObject):
    """A node; its children are at 2 place (the split's cells) and 2 place + 1 (all others).

    Args:
        place: 1 is the root.
        shares: of all users who are here, by class; of a leaf.
    """

    place: int
    shares: tuple[float, ...] = ()
    split: Split | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the place with the shares of a leaf, or with the part and the cells of a split."""
        return written(self, _LEAF if self.split is None else _SPLIT)

    @classmethod
    def read(cls, document: Document) -> Self:
        """Read a leaf, or a split, which has a part."""
        return cls(**parts_in(cls, document, _SPLIT if "part" in document else _LEAF))


@hypothesis_of("decision-tree")
@dataclass(frozen=True, slots=True)
class DecisionTree(JsonObject):
    """A binary tree over the cells of fields.

    A row in which a field is missing is in none of its cells, so it goes with "all others", though
    the tree was grown from users who have all fields.

    Args:
        nodes: by place, ascending.
        missing: estimated share of users who lack the label or a field; they are in no leaf.
    """

    json_name: ClassVar = "decision tree"
    json_keys: ClassVar = (
        "summary",
        "label",
        "classes",
        "bins",
        "schema",
        "encodings",
        "nodes",
        "missing",
    )

    schema: Schema
    bins: int
    label: str
    classes: tuple[str, ...]
    nodes: tuple[TreeNode, ...]
    missing: MissingShare | None = None
    _parts: dict[str, Cells] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parts", parts_of(self.schema, self.bins))
        _check(self)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the schema's order."""
        return np.asarray(self.classes)

    @property
    def depth(self) -> int:
        """Number of splits on the longest path."""
        return max(node.place for node in self.nodes).bit_length() - 1

    @property
    def leaves(self) -> tuple[TreeNode, ...]:
        """The nodes without a split."""
        return tuple(node for node in self.nodes if node.split is None)

    @property
    def is_constant(self) -> bool:
        """Return whether it predicts the same class for every row."""
        return len({int(np.argmax(leaf.shares)) for leaf in self.leaves}) == 1

    def apply(self, rows: Rows) -> NDArray[np.int64]:
        """The place of the leaf that each row is in, shape (n,)."""
        columns = encoded(self.schema, rows)
        places = np.ones(columns.rows, dtype=np.int64)
        for node in self.nodes:  # a parent's place is less than its children's
            if node.split is not None:
                here = np.flatnonzero(places == node.place)
                found = self._parts[node.split.part].of(columns.take(here))
                places[here] = 2 * node.place + ~np.isin(found, node.split.cells)
        return places

    def predict_proba(self, rows: Rows) -> NDArray[np.float64]:
        """The shares of the classes in a row's leaf, shape (n, classes)."""
        leaves = self.leaves
        table = np.array([_normal(leaf.shares) for leaf in leaves])
        found = np.searchsorted([leaf.place for leaf in leaves], self.apply(rows))
        return np.asarray(table[found])

    def predict(self, rows: Rows) -> NDArray[Any]:
        """The class of each row, shape (n,)."""
        return np.asarray(self.classes_[self.predict_proba(rows).argmax(axis=1)])

    @property
    def encodings(self) -> tuple[Cells, ...]:
        """Cells of the fields that it may look at."""
        return tuple(self._parts.values())

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per node: its split, or of a leaf the class and the shares."""
        return [
            {
                "node": node.place,
                "field": None if node.split is None else node.split.part,
                "cells": None if node.split is None else self._names(node.split),
                "class": None if node.split else self.classes[int(np.argmax(node.shares))],
                "share": dict(zip(self.classes, node.shares, strict=True)) if node.shares else {},
            }
            for node in self.nodes
        ]

    def to_shape(self) -> Tree:
        """Return the splits and leaves as a diagram."""
        return Tree(self.label, self._branch(1))

    def tested_shape(self, rows: EncodedColumns) -> Tree:
        """Return the diagram; rows do not change it."""
        return self.to_shape()

    def _branch(self, place: int) -> Branch:
        node = next(node for node in self.nodes if node.place == place)
        if node.split is None:
            best, share, users = _commonest(node.shares)
            return Branch(self.classes[best], f"{users:.1%} of users, {share:.0%} of them so", best)
        part = self._parts[node.split.part]
        names = " | ".join(part.labels[cell] for cell in node.split.cells)
        children = (self._branch(2 * place), self._branch(2 * place + 1))
        return Branch(part.name, names, children=children)

    def __str__(self) -> str:
        return "\n".join(self._lines(1, ""))

    def _lines(self, place: int, indent: str) -> Iterator[str]:
        node = next(node for node in self.nodes if node.place == place)
        if node.split is None:
            best, share, users = _commonest(node.shares)
            yield f"{indent}{self.classes[best]} ({share:.0%} of this leaf, {users:.1%} of users)"
            return
        yield f"{indent}if {node.split.part} is {self._names(node.split)}:"
        yield from self._lines(2 * place, indent + "  ")
        yield f"{indent}else:"
        yield from self._lines(2 * place + 1, indent + "  ")

    def _names(self, split: Split) -> str:
        labels = self._parts[split.part].labels
        return " | ".join(labels[cell] for cell in split.cells)


def parts_of(schema: Schema, bins: int) -> dict[str, Cells]:
    """The encodings of all fields as cells, by name."""
    return {part.name: part for name in schema.fields for part in cells(schema, name, bins)}


@assess.register
def _(hypothesis: DecisionTree, learner: Learner[Any], users: Users) -> Assessment:
    """Judge a tree as any other classifier, and say so where it is a constant."""
    assessment = assess.dispatch(object)(hypothesis, learner, users)
    return replace(assessment, summary=CONSTANT) if hypothesis.is_constant else assessment


def _normal(shares: tuple[float, ...]) -> NDArray[np.float64]:
    counts = np.clip(np.asarray(shares, dtype=np.float64), 0, None)
    total = counts.sum()
    return np.asarray(counts / total if total > 0 else np.full(len(counts), 1 / len(counts)))


def _commonest(shares: tuple[float, ...]) -> tuple[int, float, float]:
    """Return a leaf's most frequent class, its share of the leaf, and the leaf's of all users."""
    best = int(np.argmax(shares))
    return best, float(_normal(shares)[best]), min(max(sum(shares), 0.0), 1.0)


def _check(tree: DecisionTree) -> None:
    places = [node.place for node in tree.nodes]
    inner = {node.place for node in tree.nodes if node.split is not None}
    children = {child for place in inner for child in (2 * place, 2 * place + 1)}
    if len(tree.classes) < 2 or places != sorted({1} | children):
        raise InvalidParameter("a decision tree expects each node once, from place 1, and classes")
    if places[-1] >= 1 << (MAX_DEPTH + 1):
        raise InvalidParameter(f"a decision tree expects a depth of at most {MAX_DEPTH}")
    for node in tree.nodes:
        if node.split is None:
            if len(node.shares) != len(tree.classes):
                raise InvalidParameter(f"leaf {node.place}: expected a share for each class")
        elif node.split.part not in tree._parts:
            raise InvalidParameter(f"node {node.place}: expected a split of a field that is there")
        elif not set(node.split.cells) < set(range(len(tree._parts[node.split.part]))):
            raise InvalidParameter(f"node {node.place}: expected some of the field's cells")
