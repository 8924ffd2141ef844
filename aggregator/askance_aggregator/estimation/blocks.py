"""A vector that was asked in blocks: one answer from its blocks' answers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from askance_aggregator.learners import Answer, Question
from askance_client.errors import InvalidParameter


def alpha_of(block: Question, question: Question, alpha: float | Fraction) -> float:
    """A block's part of the chance that an interval of the question's answer misses."""
    return float(alpha) * block.values / question.values


def joined(blocks: Sequence[Answer], question: Question) -> Answer:
    """The answer of which the blocks, in order, are the parts; of one block, that one.

    Utility: each value is the block's own, unbiased; intervals hold together if the blocks had
    `alpha_of` it each.

    Raises:
        InvalidParameter: they have more or fewer values than the question together.
    """
    values = sum(len(block.values) for block in blocks)
    if values != question.values:
        raise InvalidParameter(f"blocks expect {question.values} values together, found {values}")
    if len(blocks) == 1:
        return blocks[0]
    return Answer(
        tuple(value for block in blocks for value in block.values),
        tuple(low for block in blocks for low in block.lows),
        tuple(high for block in blocks for high in block.highs),
    )
