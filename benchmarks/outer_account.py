"""Rounds composed towards readers of tallies, and what an account of all releases takes.

The first table has the epsilon of one user who answers a fresh question in each round: naive sums
(an equal share of delta each), the account's two bounds for rounds that depend on results, and the
convolution of rounds that were signed beforehand; and the sum of local epsilons, which holds
towards the aggregator. The second has seconds and memory of an account in which each user answers
nine rounds of ten. Attacks by two releases follow, as the account charges them, and the results of
a repeated study, as they state it.

    python benchmarks/outer_account.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from askance_aggregator.amplification import Curve, curve, epsilon_ends
from askance_aggregator.amplification.account import OuterAccount, TallyRelease
from askance_aggregator.amplification.loss_pairs import composed_epsilon, pair_of
from askance_aggregator.amplification.outer import OuterBatch, honest
from askance_aggregator.amplification.several_results import FixedSteps, cohort_of, outer_of_epochs
from askance_aggregator.families import k_ary_response, randomized_response
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.randomizers import Randomizer

DELTA = Fraction(1, 10**6)
ROUNDS = (1, 30, 365)
NANO = NANO_NATS_PER_NAT
SETTINGS: Mapping[str, tuple[Randomizer, int]] = {
    "bit, epsilon 1, 10^4 answers": (randomized_response(NANO), 10**4),
    "bit, epsilon 1, 10^6 answers": (randomized_response(NANO), 10**6),
    "k-ary of 16, epsilon 1, 10^6 answers": (k_ary_response(16, NANO), 10**6),
    "k-ary of 16, epsilon 4, 10^6 answers": (k_ary_response(16, 4 * NANO), 10**6),
}
NONE = np.empty(0, np.int64)
SEED = 33
BIT = randomized_response(NANO)
EPOCHS, EPOCH_ANSWERS = 12, 5_000

kept_curve = cache(curve)


@dataclass(frozen=True, slots=True)
class Composed:
    """Epsilons of so many rounds, at one delta.

    Args:
        naive: sum of the rounds' epsilons at delta / rounds.
        by_results: of the account, whatever chose the rounds.
        beforehand: of the convolution, for rounds signed beforehand.
        local: sum of the local epsilons.
    """

    setting: str
    rounds: int
    naive: float
    by_results: float
    beforehand: float
    local: float
    seconds: float


def composed(name: str) -> list[Composed]:
    """Compose the rounds of one setting, whose curve is computed once."""
    randomizer, answers = SETTINGS[name]
    found = []
    hidden = honest(answers)
    for rounds in ROUNDS:
        begun = time.perf_counter()
        each = epsilon_ends(randomizer, hidden, DELTA / rounds).upper
        account = OuterAccount(DELTA, curves=kept_curve)
        # One user stands for all of them: its atom has the size of the batch.
        users = np.arange(answers)
        for number in range(rounds):
            account.enter(TallyRelease(str(number).encode(), randomizer, users, NONE))
        pair = pair_of(kept_curve(randomizer, hidden))
        found.append(
            Composed(
                name,
                rounds,
                rounds * each,
                account.epsilon_of(0),
                composed_epsilon([(pair, rounds)], DELTA),
                rounds * randomizer.loss.nano_nats / NANO,
                time.perf_counter() - begun,
            )
        )
    return found


def scale(users: int, rounds: int) -> dict[str, float]:
    """Measure an account of so many users, of whom each answers nine rounds of ten."""

    def flat(of: Randomizer, answers: int) -> Curve:
        return Curve((0.0, 0.05, 1.0), (0.025, 0.0, 0.0))  # curves are not what is measured

    draw = np.random.default_rng(SEED)
    account = OuterAccount(DELTA, curves=flat)
    begun = time.perf_counter()
    for number in range(rounds):
        who = np.flatnonzero(draw.random(users) < 0.9)
        account.enter(TallyRelease(str(number).encode(), BIT, who, NONE))
    entered = time.perf_counter() - begun
    begun = time.perf_counter()
    figures = account.figures(users)
    return {
        "users": users,
        "rounds": rounds,
        "classes": account.classes,
        "epsilon": figures.epsilon or 0.0,
        "seconds_per_release": entered / rounds,
        "seconds_of_figures": time.perf_counter() - begun,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def attacks() -> dict[str, list[float]]:
    """Charge one bit of 10^4 users to a target: as if each release were fresh, and by atoms."""
    users = np.arange(10_000)
    plans = {
        "released twice, whole": (users, users),
        "released again without the target": (users, users[:-1]),
        "released again for half, by the first tally": (users, users[5_000:]),
        "a wave of 100 after 9,900": (users[:-100], users),
    }
    found = {}
    for name, sets in plans.items():
        account = OuterAccount(DELTA, curves=kept_curve)
        fresh, before = 0.0, NONE
        for who in sets:
            account.enter(TallyRelease(b"q", BIT, who, np.intersect1d(who, before)))
            before = np.union1d(before, who)
            if who[-1] == 9_999:
                fresh += epsilon_ends(BIT, honest(len(who)), DELTA).upper
        found[name] = [fresh, account.epsilon_of(9_999)]
    return found


def of_epochs() -> dict[str, float]:
    """Bound all epochs of a study of one bit: by either bound of its results, and by plain sums."""
    batch = OuterBatch(BIT, EPOCH_ANSWERS)
    epochs = [[cohort_of([batch])]] * EPOCHS
    found = {}
    for name, fixed in {
        "fixed steps": FixedSteps.of([[BIT]], EPOCH_ANSWERS),
        "filter": FixedSteps.of([], 0),
    }.items():
        outer = outer_of_epochs(epochs, EPOCHS, fixed, DELTA)
        assert outer is not None
        found[name] = outer.epsilon
    alone = epsilon_ends(BIT, honest(EPOCH_ANSWERS), DELTA / EPOCHS).upper
    return found | {"equal parts of delta": EPOCHS * alone}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one setting, 10^5 users, 12 rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    names = list(SETTINGS)[: 1 if given.quick else None]
    rows = [row for name in names for row in composed(name)]
    shown = attacks()
    epochs = of_epochs()
    measured = scale(*((100_000, 12) if given.quick else (1_000_000, 30)))
    if given.json:
        found = {"composed": [*map(asdict, rows)], "attacks": shown, "epochs": epochs}
        print(json.dumps(found | {"scale": measured}))
        return 0
    print("setting | rounds | local | naive sum | by results | signed beforehand | s")
    for row in rows:
        print(
            f"{row.setting} | {row.rounds} | {row.local:.0f} | {row.naive:.4g} |"
            f" {row.by_results:.4g} | {row.beforehand:.4g} | {row.seconds:.1f}"
        )
    print("\nepsilon of the target (one bit, epsilon 1) | each release as fresh | by atoms")
    for name, (fresh, charged) in shown.items():
        print(f"{name} | {fresh:.4f} | {charged:.4f}")
    bounds = ", ".join(f"{epsilon:.4f} by {name}" for name, epsilon in epochs.items())
    print(f"\n{EPOCHS} epochs of {EPOCH_ANSWERS:,} answers to one bit of epsilon 1: {bounds}\n")
    for key, value in measured.items():
        print(f"{key.replace('_', ' ')}: {value:,.4g}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
