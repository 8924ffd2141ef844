"""Attacks by readers who subtract one published tally from another."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from scipy.stats import binom

import askance as ask
from askance_aggregator.amplification import Curve, delta_ends
from askance_aggregator.amplification.account import OuterAccount, TallyRelease
from askance_aggregator.amplification.outer import honest, upper_epsilon
from askance_aggregator.studies import MemoryLog, Session, SymbolTable, Tally, Transcript
from askance_aggregator.studies.outer import outer_of_transcript
from askance_aggregator.studies.transcript import Closed
from askance_client.device import Policy
from askance_client.randomizers import Randomizer
from askance_simulation.fleets import Devices, ObjectFleet
from askance_simulation.randomness import Seed, SeededCoins

NOW_S = 1_767_225_600
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SCHEMA = ask.Schema("people", 1, smokes=ask.Bit())
SMOKES = SCHEMA.smokes == 1
DELTA = Fraction(1, 10**6)
USERS = 200
TARGETS = (0, 1, 57, USERS - 1)


@ask.adaptive("a-share")
def share(tau: str | None = None) -> ask.Learning[float]:
    (answer,) = yield ask.Batch([ask.Question(ask.predicate(SMOKES), tau=tau)])
    return float(answer.value)


def tallies(transcript: Transcript) -> list[Tally]:
    closed = [event for event in transcript.recorded if isinstance(event, Closed)]
    return [tally for event in closed for tally in event.tallies]


def reader_delta(randomizer: Randomizer, answers: int, epsilon: float) -> float:
    """Return a reader's exact delta at epsilon, about one of so many users of one bit.

    The reader knows all other records; the worst of a few numbers of ones among them counts.
    """
    high = math.exp(randomizer.loss.nano_nats / 1e9)
    truth = high / (1 + high)
    worst = 0.0
    for ones in {0, (answers - 1) // 2, answers - 1}:
        others = np.convolve(
            binom.pmf(np.arange(ones + 1), ones, truth),
            binom.pmf(np.arange(answers - ones), answers - 1 - ones, 1 - truth),
        )
        of_one, of_zero = (
            np.convolve(others, [1 - chance, chance]) for chance in (truth, 1 - truth)
        )
        for law, other in ((of_one, of_zero), (of_zero, of_one)):
            worst = max(worst, float(np.maximum(law - math.exp(epsilon) * other, 0).sum()))
    return worst


class ReusedAnswers:
    """Devices that answer a question once, and studies that count their answers again and again."""

    def __init__(self) -> None:
        people = ask.Population.from_columns(SCHEMA, {"smokes": [0, 1] * (USERS // 2)})
        policy = Policy(frozenset((KEY.public_key().public_bytes_raw(),)), 10**9)
        coins = SeededCoins(Seed.of(3))
        self._fleet = ObjectFleet(Devices(people, policy, coins, lambda: NOW_S))
        self._released = 0

    def release(self, users: NDArray[np.int64]) -> Transcript:
        """Run another study that asks these users the question."""
        self._released += 1
        study = ask.Study(share(), SCHEMA, epsilon=1)
        nonce = self._released.to_bytes(16, "big")
        session = Session(
            study=study.sign(KEY, nonce=nonce, expires_unix_s=NOW_S + 1),
            learner=study.learner,
            fleet=self._fleet,
            log=MemoryLog(),
            cohort_seed=nonce,
            leaf_key=bytes(32),
            users=users,
        )
        session.run()
        return session.transcript


@pytest.fixture(scope="module")
def sent() -> dict[int, int]:
    """Answers of users, as the devices send them to the aggregator."""
    return {}


@pytest.fixture(scope="module")
def releases(sent: dict[int, int]) -> dict[int, Transcript]:
    """Studies of all users (-1), then of all but one target each."""
    close = SymbolTable.tally

    def closing(table: SymbolTable) -> Tally:
        sent.update(zip(table._group.cohort.members, table._symbols[:, 0].tolist(), strict=True))
        return close(table)

    everybody = np.arange(USERS)
    reused = ReusedAnswers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SymbolTable, "tally", closing)
        first = reused.release(everybody)
    left_out = {target: reused.release(np.delete(everybody, target)) for target in TARGETS}
    return {-1: first, **left_out}


def test_two_releases_of_the_same_answers_differ_by_one_report(
    releases: dict[int, Transcript], sent: dict[int, int]
) -> None:
    """The attack: of every user who is left out of the second release, the report is known."""
    (every,) = tallies(releases[-1])
    for target in TARGETS:
        (without,) = tallies(releases[target])
        assert without.reused == without.answered == USERS - 1
        report = np.subtract(every.counts, without.counts).tolist()
        assert report == [1 - sent[target], sent[target]]


def test_answers_that_are_counted_again_are_not_stated_as_fresh(
    releases: dict[int, Transcript],
) -> None:
    """Counted as a fresh batch, a release would state what the difference refutes."""
    one = ask.randomized_response(10**9)
    first = outer_of_transcript(releases[-1], SCHEMA, DELTA)
    assert first is not None
    as_fresh = upper_epsilon(one, honest(USERS - 1), DELTA)
    assert as_fresh < 0.4
    # The difference of the two tallies is a batch of one.
    alone = reader_delta(one, 1, as_fresh)
    assert alone == pytest.approx((math.e - math.exp(as_fresh)) / (1 + math.e))
    assert alone > 300_000 * float(DELTA)
    for target in TARGETS:
        assert outer_of_transcript(releases[target], SCHEMA, DELTA) is None


def coarse_curve(randomizer: Randomizer, answers: int) -> Curve:
    """Return certified deltas of one bit at a few epsilons, which take less time than all."""
    inner = [Fraction(tenths, 10) for tenths in (3, 4, 5)]
    deltas = [delta_ends(randomizer, answers, epsilon).upper for epsilon in inner]
    return Curve((0.0, *map(float, inner), 1.0), (math.tanh(0.5) * (1 + 1e-12), *deltas, 0.0))


def test_the_account_charges_a_user_who_was_left_out_the_local_epsilon() -> None:
    """A release of all, then of all but one: that one is an atom, the others are one of 199."""
    everybody, target = np.arange(USERS), TARGETS[2]
    others, one = np.delete(everybody, target), ask.randomized_response(10**9)
    account = OuterAccount(DELTA, curves=coarse_curve)
    account.enter(TallyRelease(b"question", one, everybody, everybody[:0]))
    before = account.epsilon_of(target)
    assert before == account.epsilon_of(0) < 0.5
    account.enter(TallyRelease(b"question", one, others, others))
    assert account.epsilon_of(target) == pytest.approx(1)
    assert before < account.epsilon_of(0) < 0.6  # the second set may have been chosen by a tally
    account.enter(TallyRelease(b"question", one, everybody, everybody))
    assert account.epsilon_of(target) == pytest.approx(1)  # once, however often


@pytest.fixture(scope="module")
def waves() -> Transcript:
    """A study in four waves, whose transcript has the tally of each."""
    people = ask.Population.from_columns(SCHEMA, {"smokes": [0, 1] * 10_000})
    study = ask.Study(share("0.03"), SCHEMA, epsilon=3, waves=4)
    return ask.simulate(study, people, fleet="columns", seed=1).transcript


def test_a_wave_is_a_batch_of_its_increment(waves: Transcript) -> None:
    """The attack: by the statement of all waves together, the least has over 10,000 times delta."""
    sizes = [tally.answered for tally in tallies(waves)]
    assert len(sizes) == 4
    least, prefix = min(sizes), sum(sizes)
    randomizer = ask.randomized_response(3 * 10**9)
    of_prefix = upper_epsilon(randomizer, honest(prefix), DELTA)
    assert reader_delta(randomizer, honest(prefix), of_prefix) <= float(DELTA)
    assert reader_delta(randomizer, honest(least), of_prefix) > 10_000 * float(DELTA)
    outer = outer_of_transcript(waves, SCHEMA, DELTA)
    assert outer is not None
    assert outer.answers == least
    assert outer.epsilon > of_prefix
    assert reader_delta(randomizer, honest(least), outer.epsilon) <= float(DELTA)
