"""The seam between learners and whatever answers them."""

from __future__ import annotations

from typing import Protocol, TypeVar

from askance.aggregator.learners import Answers, Batch, Learner, check_answers, check_batch
from askance.client.errors import InvalidAnswer

T = TypeVar("T")


class Oracle(Protocol):
    """Answers statistical queries."""

    def answer(self, batch: Batch) -> Answers:
        """One answer a question, in order."""
        ...


def learn(learner: Learner[T], oracle: Oracle) -> T:
    """Runs a learner to its end against an oracle, and returns its hypothesis.

    Raises:
        LocalProtocolError: the oracle's answers do not have the shape of the batch.
        InvalidAnswer: an answer cannot be valid: a `CheckedOracle` has seen it, or the learner
            itself has, from what it knows of its concepts; the error names the round.
    """
    run = learner.run()
    number = 0
    try:
        batch = check_batch(next(run), learner.name)
        while True:
            answers = check_answers(batch, oracle.answer(batch))
            try:
                asked = run.send(answers)
            except InvalidAnswer as error:
                raise InvalidAnswer(f"{learner.name}: round {number}: {error}") from error
            batch = check_batch(asked, learner.name)
            number += 1
    except StopIteration as end:
        hypothesis: T = end.value
        return hypothesis
    finally:
        run.close()
