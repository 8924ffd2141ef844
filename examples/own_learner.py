"""A learner of one's own: the median by binary search, the same on every fleet.

Each round asks a fresh group whether their number is at most the middle; the next question depends
on the answer, so the learner is adaptive. It knows questions and answers, and nothing of devices.
"""

import numpy as np

import askance as ask


@ask.adaptive("median", version=1)
def median(number: ask.Expression, low: int, high: int, tau: str = "0.1") -> ask.Learning[int]:
    """A value whose rank is within tau of one half, among the whole numbers low .. high."""
    while low < high:
        middle = (low + high) // 2
        (share,) = yield ask.Batch([ask.Question(ask.predicate(number <= middle), tau=tau)])
        if share.value >= 0.5:
            high = middle
        else:
            low = middle + 1
    return low


def main() -> None:
    """Find the median of 5,000 made-up ages, twice."""
    schema = ask.Schema("ages", 1, age=ask.Integer(0, 127))
    ages = np.random.default_rng(7).binomial(100, 0.41, size=5_000)
    people = ask.Population.from_columns(schema, {"age": ages})
    study = ask.Study(median(schema.age, 0, 127), schema, epsilon=2)
    print("users needed:", study.plan().users_needed, "   true median:", int(np.median(ages)))
    for fleet in ("objects", "grpc"):
        result = ask.simulate(study, people, fleet=fleet, seed=1)
        print(fleet, result.hypothesis, result.epsilon_spent.max, result.transcript.digest)


if __name__ == "__main__":
    main()
