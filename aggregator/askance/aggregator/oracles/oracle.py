"""The seam between learners and whatever answers them."""

from __future__ import annotations

from typing import Protocol, TypeVar

from askance.aggregator.learners import Answers, Batch, Learner, check_answers, check_batch

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
    """
    run = learner.run()
    try:
        batch = check_batch(next(run), learner.name)
        while True:
            asked = run.send(check_answers(batch, oracle.answer(batch)))
            batch = check_batch(asked, learner.name)
    except StopIteration as end:
        hypothesis: T = end.value
        return hypothesis
    finally:
        run.close()
