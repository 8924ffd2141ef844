"""KLNRS08, Lemma 4.5: an interactive local algorithm, run against a statistical query oracle."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from math import exp

import numpy as np

from askance_aggregator.families import randomized_response
from askance_aggregator.oracles import learn
from askance_aggregator.queries import predicate
from askance_client.accounting import parse_epsilon
from askance_papers import reductions
from askance_papers.reductions.laws import Law
from askance_papers.reproduce.checks import ALPHA, rate_agrees
from askance_papers.reproduce.counting import AskedOnce, generator
from askance_papers.reproduce.klnrs08 import transcripts
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.randomness import Seed, SeededWords

NAME = "lemma-4.5"
Reports = tuple[int, tuple[bool, ...], tuple[bool, ...]]
"""The number that round 2 asked for, and whether each user said yes in either round."""
LARGE, LARGE_EPSILON = 50, "4"  # of the algorithm whose law is compared by chance
_NOTHING = 1e-8  # queries are rounded to multiples of 2^-30


def reproduce(setting: Setting) -> Reproduction:
    """Enumerate the laws of a two-round algorithm, and sample it with more users."""
    rows: list[Row] = []
    for epsilon in ("1",) if setting.quick else ("0.5", "1", "2"):
        for users in (1, 2) if setting.quick else (1, 2, 3):
            for beta in transcripts.BETAS:
                rows += [enumerated(epsilon, users, beta, oracle) for oracle in transcripts.ORACLES]
            setting.progress(f"epsilon = {epsilon}, {users} users")
        rows.append(forgetful(epsilon))
    rows.append(sampled(Fraction(1, 10), 30 if setting.quick else 300, setting.seed / NAME))
    return Reproduction(
        name=NAME,
        source="KLNRS08, Lemma 4.5",
        statement=(
            "An interactive local algorithm that makes t calls is simulated by adaptive statistical"
            " queries, to within beta in statistical difference: a user's next report is drawn by"
            " rejection from its law given the user's earlier ones, the ratio of two expectations."
        ),
        differs_from_print=(
            "With T calls in all (the paper has t for these and for one user's) it takes T"
            " (e^eps + 1) queries or so in expectation, not T, of tolerance (beta/(2T)) /"
            " (e^(2 eps) - 1) or a little less: Theta(beta/T)."
        ),
        rows=tuple(rows),
        notes=(
            "Two rounds, every user in both at eps/2: all are asked for a bit; then, by its"
            " majority, whether their number is 0 or whether it is 2.",
            "'enumerated' distances are between exact laws of transcripts, in rational numbers.",
            "'forgetful' draws the second report as if the user were another one: its distance has"
            " to be above 1/1000, for the products of the transcript are what the lemma is about.",
            f"'sampled' runs {LARGE} users at epsilon {LARGE_EPSILON}. Given the question and a"
            " user's first report the second one is independent of all others and has a known law:"
            " second reports of the simulation and of real runs are held to it, both sides (1e-6),"
            " and so is the number of first ones; the distance is the largest difference of rates.",
            "With the exact oracle nothing but rounding is left: a distance below 1e-8.",
        ),
        draw=lambda figure: transcripts.draw_distances(
            figure, rows, "Two rounds, simulated by queries"
        ),
    )


def two_rounds(epsilon: str, users: int) -> reductions.Interactive[Reports]:
    """Make an algorithm that asks all users twice and concludes all that was reported."""
    nano = parse_epsilon(epsilon)
    response = randomized_response(nano // 2)

    def run() -> reductions.LocalRun[Reports]:
        first, second = [], []
        for user in range(users):
            report = yield reductions.LocalCall(user, transcripts.BIT, response)
            first.append(report == b"\x01")
        number = second_number(sum(first), users)
        asked = predicate(transcripts.SCHEMA["n"] == number)
        for user in range(users):
            report = yield reductions.LocalCall(user, asked, response)
            second.append(report == b"\x01")
        return number, tuple(first), tuple(second)

    return reductions.Interactive(
        name="two-rounds", schema=transcripts.SCHEMA, nano_nats=nano, factory=run, most=2 * users
    )


def second_number(ones: int, users: int) -> int:
    """Return the number that round 2 asks for, by the majority of round 1's reports."""
    return 0 if 2 * ones > users else 2


def enumerated(epsilon: str, users: int, beta: Fraction, oracle: str) -> Row:
    """Return the exact distance."""
    algorithm = two_rounds(epsilon, users)
    real = reductions.local_law(algorithm, transcripts.PEOPLE, transcripts.WEIGHTS)
    law = reductions.simulated_law(algorithm, beta, transcripts.ORACLES[oracle])
    distance = reductions.total_variation(real, law)
    return _row("enumerated", oracle, epsilon, users, beta, float(distance)) | {
        "holds": distance <= beta
        and sum(law.values()) == 1
        and (oracle != "exact" or distance < _NOTHING)
    }


def forgetful(epsilon: str) -> Row:
    """Return a second report that knows nothing of the first."""
    real = reductions.local_law(two_rounds(epsilon, 1), transcripts.PEOPLE, transcripts.WEIGHTS)
    response = randomized_response(parse_epsilon(epsilon) // 2)
    law: Law = {}
    for first, second in product((b"\x00", b"\x01"), repeat=2):
        asked = predicate(transcripts.SCHEMA["n"] == second_number(int(first == b"\x01"), 1))
        chances = [
            reductions.local_law(
                reductions.NonInteractive(
                    name="once",
                    schema=transcripts.SCHEMA,
                    nano_nats=parse_epsilon(epsilon),
                    calls=(reductions.LocalCall(0, query, response),),
                    conclude=len,
                ),
                transcripts.PEOPLE,
                transcripts.WEIGHTS,
            )[(report,)]
            for query, report in ((transcripts.BIT, first), (asked, second))
        ]
        law[first, second] = chances[0] * chances[1]
    distance = float(reductions.total_variation(real, law))
    return _row("forgetful", "exact", epsilon, 1, Fraction(1, 1000), distance) | {
        "holds": distance > 0.001
    }


def sampled(beta: Fraction, runs: int, seed: Seed) -> Row:
    """Return the simulation and real runs on users who are drawn for each."""
    algorithm, oracle = two_rounds(LARGE_EPSILON, LARGE), AskedOnce(transcripts.TRUTH)
    rng = generator(seed / "people")
    shares = np.array(transcripts.WEIGHTS) / sum(transcripts.WEIGHTS)
    back, there = [], []
    for run in range(runs):
        words = partial(SeededWords, seed / run)
        learner = reductions.by_adaptive_queries(algorithm, beta, words)
        back.append(learn(learner, oracle))
        people = transcripts.PEOPLE.take(rng.choice(transcripts.PEOPLE.rows, LARGE, p=shares))
        there.append(reductions.run_locally(algorithm, people, SeededWords(seed / "real" / run)))
    apart, agree = zip(*(reports_agree(found) for found in (back, there)), strict=True)
    row = _row("sampled", "exact", LARGE_EPSILON, LARGE, beta, max(apart))
    return row | {"queries": oracle.asked // runs, "holds": all(agree)}


def reports_agree(found: Sequence[Reports]) -> tuple[float, bool]:
    """Compare reports with their law: the first ones, and the second ones given the first."""
    yes = exp(float(LARGE_EPSILON) / 2) / (1 + exp(float(LARGE_EPSILON) / 2))
    # Numbers, bits: the order of PEOPLE.
    weights = np.reshape(transcripts.WEIGHTS, (3, 2)) / sum(transcripts.WEIGHTS)
    first_yes = weights @ [1 - yes, yes]  # together with each number
    cases = [([first for _, firsts, _ in found for first in firsts], float(first_yes.sum()))]
    for number in (0, 2):
        for first in (False, True):
            law = first_yes if first else weights.sum(axis=1) - first_yes
            has = float(law[number] / law.sum())
            seconds = [
                second
                for asked, firsts, seconds in found
                if asked == number
                for one, second in zip(firsts, seconds, strict=True)
                if one == first
            ]
            cases.append((seconds, has * yes + (1 - has) * (1 - yes)))
    seen = [(sum(said), len(said), rate) for said, rate in cases if said]
    return (
        max(abs(ones / asked - rate) for ones, asked, rate in seen),
        all(rate_agrees(ones, asked, rate, ALPHA / len(cases)) for ones, asked, rate in seen),
    )


def _row(
    law: str, oracle: str, epsilon: str, users: int, beta: Fraction, distance: float
) -> dict[str, object]:
    return {
        "law": law,
        "oracle": oracle,
        "epsilon": float(epsilon),
        "users": users,
        "calls": 2 * users,
        "queries": None,
        "beta": float(beta),
        "distance": distance,
    }
