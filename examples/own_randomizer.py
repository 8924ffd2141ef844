"""A randomizer of one's own is a table of integers; nothing on the device needs to change.

This one passes half of the time, whatever the truth, and is randomized response otherwise. The
device computes the exact loss of the table it is sent, and answers if that fits its budget.
"""

import askance as ask
from askance_client.accounting import ratio_within

ONE = 1 << 64  # every row is a distribution in units of 2^-64


def with_a_pass(levels: int, nano_nats: int) -> ask.Channel:
    """Two levels, three symbols: no, yes, pass.

    Privacy: pure eps-LDP, exactly: the largest truthful share whose ratio is at most e^eps.
    """
    if levels != 2:
        raise ask.InvalidParameter(f"with_a_pass: expected 2 levels, found {levels}")
    half = ONE // 2
    fits, fails = half // 2, half  # the share of the truth; at a half of a half nothing is revealed
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if ratio_within(middle, half - middle, nano_nats):
            fits = middle
        else:
            fails = middle
    return ask.Channel(((fits, half - fits, half), (half - fits, fits, half)))


def main() -> None:
    """Ask 4,000 users one predicate by it, on both fleets."""
    table = with_a_pass(2, 1_000_000_000)
    print("loss in nano-nats:", table.loss.nano_nats, "   coins a report:", table.coins)
    people = ask.Population.generated("numbers", 4_000)
    over = people.schema["number"] > 0.5
    share = ask.learners.mean(over, missing="default")  # yes or no: no third level for "missing"
    for fleet in ("objects", "grpc"):
        study = ask.Study(share, people.schema, epsilon=1, design=with_a_pass)
        result = ask.simulate(study, people, fleet=fleet, seed=2)
        print(fleet, result.hypothesis, result.trials[0].assessment.truth, result.transcript.digest)


if __name__ == "__main__":
    main()
