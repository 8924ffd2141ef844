"""Absences and lies: by the stated chances, reproducible, in any order."""

from __future__ import annotations

import pickle
from math import log, sqrt

import numpy as np
import pytest

from askance_client.errors import InvalidParameter
from askance_simulation.disturbances import PRESENT_AND_HONEST, Behaviour, Misbehaviour
from askance_simulation.randomness import Seed, below, threshold, words

ALPHA = 1e-6
N = 1 << 18
EVERYBODY = np.arange(N)
STUDY, OTHER = b"s" * 32, b"t" * 32
SEED = Seed.of(11)


def near(found: float, expected: float, n: int = N) -> bool:
    """Check Hoeffding's bound at ALPHA: .0053 for N users."""
    return abs(found - expected) <= sqrt(log(2 / ALPHA) / (2 * n))


def away(behaviour: Behaviour, number: int, study: bytes = STUDY) -> np.ndarray:
    return behaviour.absent(study, number, EVERYBODY)


def test_a_threshold_is_the_chance_to_the_last_bit() -> None:
    half = Misbehaviour(absent="1/2").absent
    assert threshold(half) == 1 << 63  # type: ignore[arg-type]  # a fraction since it was made
    third = Misbehaviour(absent="1/3").absent
    assert threshold(third) == (1 << 64) // 3  # type: ignore[arg-type]  # as above
    edge = np.array([(1 << 63) - 1, 1 << 63], np.uint64)
    assert below(edge, 1 << 63).tolist() == [True, False]
    assert below(np.array([2**64 - 1], np.uint64), 1 << 64).all()


def test_words_are_the_same_in_any_order_and_company() -> None:
    whole = words(SEED, EVERYBODY)
    some = np.random.default_rng(1).choice(N, 3000, replace=False)
    assert np.array_equal(words(SEED, some), whole[some])
    assert np.array_equal(words(SEED, np.sort(some)), whole[np.sort(some)])
    assert np.array_equal(words(SEED, some[:1]), whole[some[:1]])
    assert len(words(SEED, some[:0])) == 0
    far = np.array([2**39, 7, 2**39 + 1])
    assert words(SEED, far).tolist() == [int(words(SEED, far[i : i + 1])[0]) for i in range(3)]


def test_offline_devices_are_never_there() -> None:
    behaviour = Misbehaviour(offline=".02")(SEED)
    gone = away(behaviour, 0)
    assert near(gone.mean(), 0.02)
    assert np.array_equal(gone, away(behaviour, 9, OTHER))


def test_absences_are_drawn_anew_each_round() -> None:
    behaviour = Misbehaviour(absent=".1")(SEED)
    rounds = [away(behaviour, 0), away(behaviour, 1), away(behaviour, 0, OTHER)]
    assert all(near(one.mean(), 0.1) for one in rounds)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert near((rounds[first] & rounds[second]).mean(), 0.01)


def test_who_drops_out_stays_away_and_everybody_begins() -> None:
    behaviour = Misbehaviour(dropout=".05")(SEED)
    assert not away(behaviour, 0).any()
    before = away(behaviour, 0)
    for number in range(1, 30):
        now = away(behaviour, number)
        assert not (before & ~now).any()
        assert near(now.mean(), 1 - 0.95**number)
        before = now
    assert not np.array_equal(before, away(behaviour, 29, OTHER))


def test_reasons_to_stay_away_are_independent_and_add_up() -> None:
    behaviour = Misbehaviour(absent=".1", dropout=".05", offline=".02", liars=".3")(SEED)
    gone, lying = away(behaviour, 3), behaviour.lying(EVERYBODY)
    assert near(gone.mean(), 1 - 0.98 * 0.9 * 0.95**3)
    assert near((gone & lying).mean(), 0.3 * (1 - 0.98 * 0.9 * 0.95**3))
    assert behaviour.absences
    assert behaviour.lies


@pytest.mark.parametrize("rate", [0, 1])
def test_nobody_and_everybody(rate: int) -> None:
    behaviour = Misbehaviour(absent=rate, liars=rate)(SEED)
    assert away(behaviour, 2).all() == away(behaviour, 2).any() == bool(rate)
    assert behaviour.lying(EVERYBODY).all() == behaviour.lying(EVERYBODY).any() == bool(rate)
    assert behaviour.absences == behaviour.lies == bool(rate)


def test_another_seed_is_other_people() -> None:
    spec = Misbehaviour(liars=".1")
    assert not np.array_equal(spec(SEED).lying(EVERYBODY), spec(Seed.of(12)).lying(EVERYBODY))


def test_a_behaviour_is_a_value_that_travels() -> None:
    behaviour = Misbehaviour(absent=".1", liars=".1")(SEED)
    travelled = pickle.loads(pickle.dumps(behaviour))
    assert travelled.spec == behaviour.spec
    assert np.array_equal(away(travelled, 1), away(behaviour, 1))


def test_without_any_of_it_everybody_is_there_and_honest() -> None:
    for behaviour in (PRESENT_AND_HONEST, Misbehaviour()(SEED)):
        assert not behaviour.absences
        assert not behaviour.lies
        assert not away(behaviour, 1).any()
        assert not behaviour.lying(EVERYBODY).any()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"absent": 2}, "absent: expected a chance from 0 to 1, got 2"),
        ({"dropout": "-.1"}, "dropout: expected a chance from 0 to 1, got -0.1"),
        ({"offline": "often"}, "offline expects a finite number"),
        ({"liars": float("nan")}, "liars expects a finite number"),
        ({"attack": "dos"}, "attack: expected one of rpa, ria, mga, extreme, got 'dos'"),
        ({"targets": (-1,)}, "targets: expected levels"),
        ({"targets": (1, 1)}, "targets: expected each level once"),
        ({"targets": (True,)}, "targets: expected levels"),
    ],
)
def test_what_is_no_behaviour(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Misbehaviour(**wrong)  # type: ignore[arg-type]  # what is tested
