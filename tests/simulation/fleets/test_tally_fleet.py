"""Tallies drawn from their law agree in law with columns, and never pass for devices' tallies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import chi2_contingency

import askance as ask
from askance.cli import main
from askance_aggregator.encoding import encode_request
from askance_aggregator.families import (
    hadamard_sign,
    k_ary_response,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_aggregator.learners import frequency
from askance_aggregator.queries import category, predicate, real, signed
from askance_aggregator.studies import Accounts, Cohort, Group, Permutation, Round, Tally
from askance_aggregator.studies.transcript import MemoryLog, Transcript
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.errors import InvalidParameter
from askance_client.messages import Request
from askance_client.queries import Category, Query, Schema
from askance_client.randomizers import Randomizer
from askance_simulation.fleets import LAWS, Devices, fleet_by
from askance_simulation.populations import Population
from askance_simulation.randomness import SeededCoins

USERS, CELLS = 30, 5
SCHEMA = Schema("people", cell=Category(tuple("abcde")), x=ask.Integer(0, 4))
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
NANO = 10**9

CASES: dict[str, tuple[Callable[[], Query], Callable[[], Randomizer]]] = {
    "k-ary": (lambda: category(SCHEMA["cell"]), lambda: k_ary_response(CELLS, NANO)),
    "sets": (lambda: category(SCHEMA["cell"]), lambda: subset_selection(CELLS, NANO)),
    "one bit of a number": (lambda: real(SCHEMA["x"]), lambda: randomized_response(NANO)),
    "predicate": (lambda: predicate(SCHEMA["x"] > 1), lambda: randomized_response(NANO)),
    "Hadamard": (lambda: signed(SCHEMA["cell"]), lambda: hadamard_sign(2, NANO)),
    "signed sets": (lambda: signed(SCHEMA["cell"]), lambda: signed_subset_selection(2, NANO)),
}


def people() -> Population:
    rng = np.random.default_rng(3)
    cells = np.array(list("abcde"))[rng.integers(0, CELLS, USERS)]
    return Population.from_columns(SCHEMA, {"cell": cells, "x": rng.integers(0, 5, USERS)})


def rounds(
    query: Query, randomizer: Randomizer, parts: tuple[tuple[int, int], ...]
) -> Callable[[int], Round]:
    """Return a maker of rounds that ask parts of the users, by positions and a study's seed."""
    study = ask.Study(frequency(SCHEMA["cell"]), SCHEMA, epsilon=8, fields=tuple(SCHEMA.fields))
    signed_study = study.sign(KEY, nonce=bytes(16), expires_unix_s=10**10)
    digest, numbers = digest_of(signed_study.study), count()

    def make(seed: int) -> Round:
        users, number = Permutation(b"%d" % seed, USERS), next(numbers)
        payload = encode_request(Request(digest, number, 0, query, randomizer))
        nano = randomizer.loss.nano_nats
        groups = [
            Group(
                payload,
                digest_of(payload),
                query,
                randomizer,
                nano,
                Cohort(users, *part),
                bytes(32),
            )
            for part in parts
        ]
        return Round(number, signed_study, digest, tuple(groups))

    return make


def tallies(fleet: str, seed: int, round_: Round, population: Population) -> tuple[Tally, ...]:
    policy = Policy(frozenset((KEY.public_key().public_bytes_raw(),)), 8 * NANO)
    chosen = population.by_types(ask.Seed.of(seed)) if fleet in LAWS else population
    devices = Devices(chosen, policy, SeededCoins(ask.Seed.of(seed) / fleet), lambda: 0)
    with fleet_by(fleet, None)(devices, None) as opened:
        return opened.fleet.ask(round_, Accounts(USERS, 8 * NANO))


def check_law(case: str, studies: int) -> None:
    """Compare the first two counts of the first cohort's tally by a chi-square test."""
    query, randomizer = CASES[case]
    population, make = people(), rounds(query(), randomizer(), ((0, 12), (12, USERS)))
    found: dict[str, Counter[tuple[int, ...]]] = {"columns": Counter(), "tally": Counter()}
    for fleet, seen in found.items():
        for seed in range(studies):
            seen[tallies(fleet, seed, make(seed), population)[0].counts[:2]] += 1
    usual = [key for key, n in (found["columns"] + found["tally"]).items() if n >= 10]
    table = [[seen[key] for key in usual] for seen in found.values()]
    rest = [studies - sum(row) for row in table]
    if sum(rest) >= 10:
        table = [[*row, more] for row, more in zip(table, rest, strict=True)]
    assert len(usual) >= 4
    assert chi2_contingency(table).pvalue > 1e-3


@pytest.mark.parametrize("case", CASES)
def test_a_tally_has_the_law_of_columns(case: str) -> None:
    check_law(case, 100)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_many_tallies_have_the_law_of_columns(case: str) -> None:
    check_law(case, 10_000 // len(CASES))


def test_cohorts_share_out_the_users_without_replacement() -> None:
    """At a loss of 7 nats nearly all reports are true, so that the counts are the users'."""
    population = people()
    query = category(SCHEMA["cell"])
    make = rounds(query, k_ary_response(CELLS, 7 * NANO), ((0, 12), (12, USERS)))
    one, other = tallies("tally", 5, make(5), population)
    (truth,) = population.totals([query])
    assert (one.answered, other.answered) == (12, USERS - 12)
    assert sum(one.counts) + sum(other.counts) == USERS
    off = np.abs(np.array(one.counts) + np.array(other.counts) - truth.cells).sum()
    assert off <= 2


@pytest.mark.parametrize("name", ["categories", "numbers"])
def test_users_by_types_have_the_truth_of_their_records(name: str) -> None:
    drawn = Population.generated(name, users=20_000).by_types(ask.Seed.of(1))
    (field,) = drawn.schema.fields
    query = category(drawn.schema[field]) if name == "categories" else real(drawn.schema[field])
    plain = Population(drawn.name, drawn.schema, drawn.size, drawn.columns)
    ((found,), (read,)) = drawn.totals([query]), plain.totals([query])
    assert (found.users, found.counted, found.total) == (20_000, read.counted, read.total)
    assert found.cells.tolist() == read.cells.tolist()


def test_numbers_by_types_have_the_law_of_numbers() -> None:
    users = 400_000
    means = []
    for people_ in (
        Population.generated("numbers", users=users),
        Population.generated("numbers", users=users).by_types(ask.Seed.of(0)),
    ):
        values = np.asarray(people_.columns(0, users).values["number"], np.float64) / 2**16
        means.append((values.mean(), values.var(), np.quantile(values, 0.1)))
    for one, other in zip(*means, strict=True):
        assert one == pytest.approx(other, abs=0.002)


def test_a_billion_users_take_no_more_than_their_cells() -> None:
    made = ask.named("frequency", epsilon=1, users=10**9)
    result = ask.simulate(made.study, made.people, fleet="tally")
    assert result.successes == 1
    assert result.to_json()["users_used"] == 10**9
    assert result.to_json()["transcript"].startswith("simulated-sha256:")
    assert "tallies were drawn from their law: no device answered" in result.notes


def test_a_transcript_says_that_no_device_contributed() -> None:
    made = ask.named("frequency", epsilon=1, users=3_000)
    transcript = ask.simulate(made.study, made.people, fleet="tally").transcript
    log = MemoryLog()
    for line in transcript._log.lines():
        log.append(line)
    assert Transcript(log).digest == transcript.digest
    assert '"tallies":"drawn from their law"' in next(log.lines())
    columns = ask.simulate(made.study, made.people, fleet="columns").transcript
    header = next(columns._log.lines())
    assert '"kind":"header"' in header
    assert '"tallies":' not in header
    assert columns.digest.startswith("sha256:")


def test_the_same_seed_draws_the_same_tallies() -> None:
    made = ask.named("mean", epsilon=1, users=50_000)
    digests = {
        seed: {
            ask.simulate(made.study, made.people, fleet="tally", seed=seed).transcript.digest
            for _ in range(2)
        }
        for seed in (1, 2)
    }
    assert [len(found) for found in digests.values()] == [1, 1]
    assert digests[1] != digests[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frequency", "--set", "cells=1024"], "got linear-hashing: use --fleet columns"),
        (["masked-parity", "--set", "d=8"], "got 'masked-parity': use --fleet columns"),
        (["mean-vector"], "use --fleet columns"),
        (["mean", "--workers", "2"], "got 'tally'"),
    ],
)
def test_what_has_no_law_is_refused_by_name(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", *arguments, "--users", "20000", "--epsilon", "1", "--fleet", "tally"]
    assert main(command) == 2
    assert message in capsys.readouterr().err


def test_users_who_are_away_and_repeated_questions_are_refused() -> None:
    made = ask.named("mean", epsilon=1, users=3_000)
    away: Any = ask.Misbehaviour(absent="1/10")
    with pytest.raises(InvalidParameter, match="present and honest"):
        ask.simulate(made.study, made.people, fleet="tally", behaviour=away)
    query, randomizer = CASES["k-ary"]
    round_ = rounds(query(), randomizer(), ((0, 12), (0, 12)))(0)
    with pytest.raises(InvalidParameter, match="not asked before"):
        tallies("tally", 0, round_, people())
