"""KLNRS08, Lemma 4.4: a non-interactive local algorithm, run against a statistical query oracle."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import ceil, exp, expm1, log

from askance_aggregator.families import k_ary_response, randomized_response
from askance_aggregator.oracles import learn
from askance_client.accounting import parse_epsilon
from askance_papers import reductions
from askance_papers.reproduce.checks import chance_distance
from askance_papers.reproduce.counting import AskedOnce
from askance_papers.reproduce.klnrs08 import transcripts
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.randomness import Seed, SeededWords

NAME = "lemma-4.4"
Reports = tuple[bytes, ...]
_NOTHING = 1e-8  # of tau and of a distance: queries are rounded to multiples of 2^-30
LARGE = 100  # calls of the algorithm whose law is compared by chance


def reproduce(setting: Setting) -> Reproduction:
    """Enumerate the laws of small algorithms, and samples that of a larger one."""
    rows: list[Row] = []
    for epsilon in ("0.5", "1") if setting.quick else ("0.5", "1", "2"):
        for calls in (1, 3) if setting.quick else (1, 2, 4, 6):
            for beta in transcripts.BETAS:
                rows += [enumerated(epsilon, calls, beta, oracle) for oracle in transcripts.ORACLES]
            rows.append(single_candidate(epsilon, calls))
        setting.progress(f"epsilon = {epsilon}")
    runs = 40 if setting.quick else 400
    rows.append(sampled(Fraction(1, 10), runs, setting.seed / NAME))
    return Reproduction(
        name=NAME,
        source="KLNRS08, Lemma 4.4",
        statement=(
            "A non-interactive local algorithm that makes t calls is simulated by t non-adaptive"
            " statistical queries of tolerance Theta(beta/t), to within beta in statistical"
            " difference, by rejection sampling from R(0)."
        ),
        differs_from_print=(
            "A candidate is accepted with probability about e^-eps, and its query is known only"
            " when it is drawn; so a call takes e^eps queries in expectation, and to ask everything"
            " at once e^eps ln(2t/beta) candidates are drawn beforehand. tau is (beta/(2t)) /"
            " (e^(2 eps) - 1)."
        ),
        rows=tuple(rows),
        notes=(
            "'enumerated' distances are between the exact laws of transcripts, in rational numbers,"
            " with oracles that are valid and as far off as that allows.",
            "The number of queries and tau have to be the lemma's, and the exact oracle's distance"
            " what the chance that no candidate is accepted leaves, to 1e-8.",
            "'one candidate' is one query a call, as printed: the distance has to be above 1/100.",
            f"'sampled' runs the simulation of {LARGE} calls and compares the distribution of the"
            " number of ones with the real one, which is binomial; its distance is the largest"
            " difference of distribution functions, within beta and chance (1e-6).",
        ),
        draw=lambda figure: transcripts.draw_distances(
            figure, rows, "Simulated by non-adaptive queries"
        ),
    )


def asking(epsilon: str, calls: int) -> reductions.NonInteractive[int]:
    """Ask one user after another for the bit and the number, and count the ones."""
    nano = parse_epsilon(epsilon)
    bit, number = randomized_response(nano), k_ary_response(3, nano)
    return reductions.NonInteractive(
        name="asks",
        schema=transcripts.SCHEMA,
        nano_nats=nano,
        calls=tuple(
            reductions.LocalCall(user, transcripts.NUMBER, number)
            if user % 2
            else reductions.LocalCall(user, transcripts.BIT, bit)
            for user in range(calls)
        ),
        conclude=lambda reports: reports.count(b"\x01"),
    )


def bits(epsilon: str, calls: int) -> reductions.NonInteractive[int]:
    """Ask every user for the bit."""
    nano = parse_epsilon(epsilon)
    response = randomized_response(nano)
    return reductions.NonInteractive(
        name="bits",
        schema=transcripts.SCHEMA,
        nano_nats=nano,
        calls=tuple(reductions.LocalCall(user, transcripts.BIT, response) for user in range(calls)),
        conclude=lambda reports: reports.count(b"\x01"),
    )


def enumerated(epsilon: str, calls: int, beta: Fraction, oracle: str) -> Row:
    """Return the exact distance."""
    algorithm = asking(epsilon, calls)
    real = reductions.local_law(algorithm, transcripts.PEOPLE, transcripts.WEIGHTS)
    law = reductions.simulated_law_in_one_round(algorithm, beta, transcripts.ORACLES[oracle])
    distance = reductions.total_variation(real, law)
    learner = reductions.by_queries(algorithm, beta, SeededWords(Seed.of(0)))
    questions = learner.batch.questions
    tau = min(float(question.working_tau) for question in questions)
    each = float(beta) / calls
    by_the_lemma = (
        len(questions) == calls * tries_of(float(epsilon), each)
        and abs(tau - each / 2 / expm1(2 * float(epsilon))) < _NOTHING
        and (oracle != "exact" or abs(distance - exact_distance(algorithm, beta)) < _NOTHING)
    )
    return {
        "law": "enumerated",
        "oracle": oracle,
        "epsilon": float(epsilon),
        "calls": calls,
        "queries": len(questions),
        "tau": tau,
        "beta": float(beta),
        "distance": float(distance),
        "holds": distance <= beta and sum(law.values()) == 1 and by_the_lemma,
    }


def tries_of(epsilon: float, each: float) -> int:
    """Compute the candidates of a call: e^eps ln(2/each), a little more for the tolerance."""
    return ceil(exp(epsilon) / (1 - each / 2) * log(2 / each))


def exact_distance(algorithm: reductions.NonInteractive[int], beta: Fraction) -> float:
    """Compute the distance that the exact oracle leaves: no candidate is accepted."""
    # A call's report has law p except with f = (1 - e^-eps)^k, when it is the last one refused, of
    # law (q - p e^-eps) / (1 - e^-eps), q the law of R(0).
    epsilon, each = algorithm.nano_nats / 1e9, float(beta) / len(algorithm.calls)
    refused = -expm1(-epsilon)
    none = refused ** tries_of(epsilon, each)
    real: dict[Reports, float] = {(): 1.0}
    simulated = dict(real)
    for call in algorithm.calls:
        single = replace(algorithm, calls=(call,))
        p = reductions.local_law(single, transcripts.PEOPLE, transcripts.WEIGHTS)
        q = reductions.local_law(single, transcripts.PEOPLE, [1, 0, 0, 0, 0, 0])
        law = {
            w: float(p[w]) * (1 - none)
            + none * (float(q[w]) - float(p[w]) * (1 - refused)) / refused
            for w in p
        }
        real = {(*before, *w): x * float(p[w]) for before, x in real.items() for w in p}
        simulated = {(*before, *w): x * law[w] for before, x in simulated.items() for w in p}
    return sum(abs(real[w] - simulated[w]) for w in real) / 2


def single_candidate(epsilon: str, calls: int) -> Row:
    """Measure one query per call, whose single candidate is taken whatever its answer."""
    algorithm = asking(epsilon, calls)
    everybody_at_zero = reductions.local_law(algorithm, transcripts.PEOPLE, [1, 0, 0, 0, 0, 0])
    distance = reductions.total_variation(
        reductions.local_law(algorithm, transcripts.PEOPLE, transcripts.WEIGHTS), everybody_at_zero
    )
    return {
        "law": "one candidate",
        "oracle": "any",
        "epsilon": float(epsilon),
        "calls": calls,
        "queries": calls,
        "tau": None,
        "beta": 0.01,
        "distance": float(distance),
        "holds": distance > Fraction(1, 100),
    }


def sampled(beta: Fraction, runs: int, seed: Seed) -> Row:
    """Compare the number of ones of many calls with the binomial distribution."""
    from scipy.stats import binom

    algorithm = bits("1", LARGE)
    share = reductions.local_law(bits("1", 1), transcripts.PEOPLE, transcripts.WEIGHTS)[(b"\x01",)]
    oracle = AskedOnce(transcripts.TRUTH)
    seen: Counter[int] = Counter()
    for run in range(runs):
        seen[learn(reductions.by_queries(algorithm, beta, SeededWords(seed / run)), oracle)] += 1
    below, distance = 0, 0.0
    for ones in range(LARGE + 1):
        below += seen[ones]
        distance = max(distance, abs(below / runs - float(binom.cdf(ones, LARGE, float(share)))))
    return {
        "law": "sampled",
        "oracle": "exact",
        "epsilon": 1.0,
        "calls": LARGE,
        "queries": oracle.asked // runs,
        "tau": None,
        "beta": float(beta),
        "distance": distance,
        "holds": distance <= float(beta) + chance_distance(runs),
    }
