"""MASKED-PARITY's expectations in closed form, whatever d.

The domain has 2^d x's, but a question sees only a few parities of x: its PARITY and COMPONENT
nodes, the components with a coefficient in its DOT nodes, and, through the label, <r,x>. These are
linear over GF(2). If their span has rank k, then x with the k pivot bits uniform and all others 0
gives them the same joint law as a uniform x has. So 2^k 2d rows are the whole population. Each
component of a vector is answered from a population of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from askance_aggregator import learners
from askance_aggregator.oracles.adversarial import LazyOracle
from askance_aggregator.oracles.expectations import expectations
from askance_aggregator.oracles.labels import with_free_labels
from askance_aggregator.queries import EncodedColumns, block_of, encode_columns
from askance_client.errors import InvalidQuery
from askance_client.queries import Kind, Op, Query, QueryKind
from askance_client.queries.program import Program

MAX_RANK = 16
_WORD = 32


class MaskedParityOracle:
    """The expectations of examples (x, i, b) that are uniform and labelled by a concept.

    Utility: exact until a value is rounded to a float, once; d may be as large as 1024.

    Source: KLNRS08 section 5.
    """

    def __init__(self, concept: learners.MaskedParity) -> None:
        self.concept = concept
        self.schema = learners.masked_parity_schema(len(concept.r))

    def answer(self, batch: learners.Batch) -> learners.Answers:
        """The expectations."""
        return tuple(self._answer(question) for question in batch.questions)

    def _answer(self, question: learners.Question) -> learners.Answer:
        values = tuple(
            float(value)
            for part in _components(question)
            for value in expectations(part, *self.world(part))
        )
        return learners.Answer(values, values, values)

    def world(self, question: learners.Question) -> tuple[EncodedColumns, NDArray[np.int64]]:
        """A population that is as good as the whole domain to this question, and its weights."""
        d = len(self.concept.r)
        secret = sum(bit << place for place, bit in enumerate(self.concept.r))
        pivots = _pivots([*_functionals(question.query), secret], d)
        rows = np.arange(2 * d << len(pivots))
        x = np.zeros((len(rows), d), dtype=np.int64)
        for place, pivot in enumerate(pivots):
            x[:, pivot] = rows // (2 * d) >> place & 1
        columns = {"x": x, "i": rows // 2 % d, "b": rows % 2}
        labels = self.concept.predict(columns)
        return encode_columns(self.schema, {**columns, "y": labels}), np.ones(len(rows), np.int64)


class FairHalfOracle(MaskedParityOracle):
    """The same with labels that are fair coins where b = 0: C_g + <h_g1, f>."""

    def world(self, question: learners.Question) -> tuple[EncodedColumns, NDArray[np.int64]]:
        """The population whose half with b = 0 says nothing."""
        columns, weights = super().world(question)
        hidden = np.asarray(columns.values["b"]) == 0
        return with_free_labels(self.schema, "y", columns, weights, hidden)


class FairOracle(MaskedParityOracle):
    """The same with labels that are fair coins everywhere: C_g."""

    def world(self, question: learners.Question) -> tuple[EncodedColumns, NDArray[np.int64]]:
        """The population whose labels say nothing."""
        columns, weights = super().world(question)
        return with_free_labels(self.schema, "y", columns, weights)


def lazy_masked_parity(concept: learners.MaskedParity) -> LazyOracle:
    """Make the adversary of Theorem 5.1, as corrected: it omits <h_g0, f> where that is valid.

    Utility: by Parseval a query with values in [0, 1] or [-1, 1] distinguishes it from the oracle
    that knows nothing of the half with b = 0 for at most 1/(4 tau^2) of the 2^d masks.
    """
    return LazyOracle(MaskedParityOracle(concept), FairHalfOracle(concept))


def _components(question: learners.Question) -> Iterator[learners.Question]:
    """Yield a vector's components as questions of their own; of any other kind, the question."""
    if question.query.kind is not QueryKind.VECTOR:
        yield question
        return
    for place in range(question.values):
        yield learners.Question(block_of(question.query, place, place + 1), question.tau)


def _functionals(query: Query) -> Iterable[int]:
    """The parities of x that a query sees, as masks: bit j is component j."""
    nodes = Program(query.expression).nodes
    fields = {place for place, node in enumerate(nodes) if node.op is Op.FIELD and node.name == "x"}
    for node in nodes:
        if not fields.intersection(node.args):
            continue
        if node.op is Op.PARITY:
            yield sum(word << _WORD * place for place, word in enumerate(node.constants))
        elif node.op is Op.COMPONENT:
            yield 1 << node.constants[0]
        elif node.op is Op.DOT:
            yield from (1 << place for place, c in enumerate(node.constants) if c)
        else:
            raise InvalidQuery(
                f"expected components or parities of {Kind.BITS.name}, got {node.op.name}"
            )


def _pivots(masks: Iterable[int], d: int) -> list[int]:
    """A pivot bit for each dimension of the span, none of which another basis vector has."""
    basis: dict[int, int] = {}
    for mask in masks:
        for pivot, vector in basis.items():
            if mask >> pivot & 1:
                mask ^= vector
        if not mask:
            continue
        pivot = mask.bit_length() - 1
        basis = {p: v ^ mask if v >> pivot & 1 else v for p, v in basis.items()}
        basis[pivot] = mask
    if len(basis) > MAX_RANK:
        raise InvalidQuery(
            f"expected a question that sees at most {MAX_RANK} independent parities of x with the"
            f" concept's, found {len(basis)} of {d}"
        )
    return sorted(basis)
