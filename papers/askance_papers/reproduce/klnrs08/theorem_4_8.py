"""KLNRS08, Theorem 4.8: local learning is statistical query learning, there and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np

from askance_aggregator.learners import (
    Conjunction,
    Learner,
    MaskedParity,
    conjunctions,
    conjunctions_schema,
    masked_parity,
    masked_parity_schema,
)
from askance_aggregator.oracles import ExactOracle, MaskedParityOracle, Oracle, learn
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_client.queries import Schema
from askance_papers.reductions import (
    Interactive,
    NonInteractive,
    by_adaptive_queries,
    by_queries,
    local_algorithm,
    one_round_algorithm,
    run_locally,
)
from askance_papers.reproduce.checks import rate_exceeded
from askance_papers.reproduce.counting import AskedOnce, generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, BAD, INK, plain
from askance_simulation.randomness import Seed, SeededWords

NAME = "theorem-4.8"
BETA = Fraction(1, 20)  # of either step
Algorithm = Interactive[Any] | NonInteractive[Any]


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """A learner, a target of its class, and how to get from one model to the other.

    Args:
        classes: of the theorem: "LI = SQ" or "LNI = NASQ".
        concepts: generates every target of the class, each with its exact oracle.
        people: returns a given number of independent labelled examples.
        there: the learner as a local algorithm.
        back: that as a learner again.
    """

    name: str
    classes: str
    epsilon: str
    learner: Learner[Any]
    target: object
    oracle: Oracle
    concepts: Callable[[], Iterable[tuple[object, Oracle]]]
    people: Callable[[int, np.random.Generator], EncodedColumns]
    there: Algorithm
    back: Callable[[Seed], Learner[Any]]


def reproduce(setting: Setting) -> Reproduction:
    """Learn directly, with devices, and with the devices' algorithm simulated by queries."""
    trials = 8 if setting.quick else 40  # with fewer no number of failures is a proof
    rows: list[Row] = []
    for round_trip in round_trips(setting.quick):
        rows += travelled(round_trip, trials, setting.seed / NAME / round_trip.name)
        setting.progress(round_trip.name)
    return Reproduction(
        name=NAME,
        source="KLNRS08, Theorem 4.8",
        statement=(
            "A class is learned by an interactive local learner if and only if it is learned by an"
            " adaptive statistical query learner (LI = SQ), and by a non-interactive one if and"
            " only if by a non-adaptive one (LNI = NASQ)."
        ),
        differs_from_print=None,
        rows=tuple(rows),
        notes=(
            "'queries' asks the exact oracle of every concept of the class, all of which have to be"
            " found; 'devices' is that learner as a local algorithm (Lemma"
            " 4.3) on fresh users; 'queries again' is that algorithm against the oracle (Lemma 4.4"
            " or 4.5). Each step may fail, or change what comes out, with probability"
            f" {float(BETA):g}; a rate above what they allow fails at 1e-6.",
            "'asked' is the number of queries, or of users; of the way back with e^eps tries for"
            " every report.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def round_trips(quick: bool) -> list[RoundTrip]:
    """Return conjunctions in one round, MASKED-PARITY in two."""
    found = [_conjunctions(2, (0,), "1"), _masked_parity(MaskedParity((1, 0), 1), "2")]
    if not quick:
        found += [_conjunctions(3, (1,), "2"), _masked_parity(MaskedParity((0, 1, 1, 0), 0), "4")]
    return found


def travelled(round_trip: RoundTrip, trials: int, seed: Seed) -> list[Row]:
    """Return the three ways to the target."""
    concepts = list(round_trip.concepts())
    direct = sum(learn(round_trip.learner, oracle) == target for target, oracle in concepts)
    users = round_trip.there.calls_at_most
    devices = back = 0
    remembered = AskedOnce(round_trip.oracle)
    for trial in range(trials):
        people = round_trip.people(users, generator(seed / "people" / trial))
        words = SeededWords(seed / "coins" / trial)
        devices += run_locally(round_trip.there, people, words) == round_trip.target
        again = round_trip.back(seed / "back" / trial)
        back += learn(again, remembered) == round_trip.target
    asked = remembered.asked // trials
    beta = float(BETA)
    return [
        _row(round_trip, "queries", _questions(round_trip), len(concepts), direct, 0.0),
        _row(round_trip, "devices", users, trials, devices, beta),
        _row(round_trip, "queries again", asked, trials, back, 2 * beta),
    ]


def _conjunctions(d: int, variables: tuple[int, ...], epsilon: str) -> RoundTrip:
    schema, target = conjunctions_schema(d), Conjunction(d, variables)
    x = np.arange(1 << d)[:, None] >> np.arange(d) & 1
    learner = conjunctions(schema, Fraction(d, 4))
    there = one_round_algorithm(learner, epsilon, BETA)

    def oracle_of(concept: Conjunction) -> Oracle:
        return ExactOracle(schema, {"x": x, "y": concept.predict({"x": x})})

    def people(users: int, rng: np.random.Generator) -> EncodedColumns:
        bits = rng.integers(0, 2, (users, d))
        return encode_columns(schema, {"x": bits, "y": target.predict({"x": bits})})

    return RoundTrip(
        name=f"conjunctions, d = {d}",
        classes="LNI = NASQ",
        epsilon=epsilon,
        learner=learner,
        target=target,
        oracle=oracle_of(target),
        concepts=lambda: (
            (concept, oracle_of(concept))
            for size in range(d + 1)
            for kept in combinations(range(d), size)
            for concept in (Conjunction(d, kept),)
        ),
        people=people,
        there=there,
        back=lambda seed: by_queries(there, BETA, SeededWords(seed)),
    )


def _masked_parity(target: MaskedParity, epsilon: str) -> RoundTrip:
    d = len(target.r)
    schema: Schema = masked_parity_schema(d)
    learner = masked_parity(schema)
    there = local_algorithm(learner, epsilon, BETA)

    def people(users: int, rng: np.random.Generator) -> EncodedColumns:
        columns = {
            "x": rng.integers(0, 2, (users, d)),
            "i": rng.integers(0, d, users),
            "b": rng.integers(0, 2, users),
        }
        return encode_columns(schema, {**columns, "y": target.predict(columns)})

    return RoundTrip(
        name=f"masked parity, d = {d}",
        classes="LI = SQ",
        epsilon=epsilon,
        learner=learner,
        target=target,
        oracle=MaskedParityOracle(target),
        concepts=lambda: (
            (concept, MaskedParityOracle(concept))
            for *r, a in product((0, 1), repeat=d + 1)
            for concept in (MaskedParity(tuple(r), a),)
        ),
        people=people,
        there=there,
        back=lambda seed: by_adaptive_queries(there, BETA, lambda: SeededWords(seed)),
    )


def _questions(round_trip: RoundTrip) -> int:
    """Return the number of questions of the learner."""
    counted = AskedOnce(round_trip.oracle)
    learn(round_trip.learner, counted)
    return counted.asked


def _row(
    round_trip: RoundTrip, way: str, asked: int, trials: int, right: int, allowed: float
) -> Row:
    failed = trials - right
    return {
        "learner": round_trip.name,
        "classes": round_trip.classes,
        "epsilon": float(round_trip.epsilon),
        "by": way,
        "asked": asked,
        "trials": trials,
        "found": right / trials,
        "may fail": allowed,
        "holds": failed == 0 if allowed == 0 else not rate_exceeded(failed, trials, allowed),
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    plain(axes, "There and back", "", "queries, or users")
    names = list(dict.fromkeys(row["learner"] for row in rows))
    ways = (("queries", INK), ("devices", ACCENT), ("queries again", BAD))
    for place, (way, color) in enumerate(ways):
        shown = [row for row in rows if row["by"] == way]
        across = [names.index(row["learner"]) + 0.26 * (place - 1) for row in shown]
        axes.bar(across, [row["asked"] for row in shown], width=0.24, color=color, label=way)
        for x, row in zip(across, shown, strict=True):
            axes.text(x, row["asked"] * 1.1, f"{row['found']:.0%}", ha="center", fontsize=7)
    axes.set_xticks(range(len(names)), names)
    axes.set_yscale("log")
    axes.legend(frameon=False)
