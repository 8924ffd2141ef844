"""A repeated study on simulated users: each epoch is fresh, charged, and has a transcript."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from askance_aggregator.learners import frequency
from askance_aggregator.queries import EncodedColumns
from askance_aggregator.studies.series import series_report
from askance_aggregator.studies.study import Study
from askance_aggregator.studies.transcript import Header
from askance_client.device import Policy
from askance_client.errors import InvalidParameter
from askance_client.queries import Category, Schema
from askance_simulation.experiments import EpochSeries, simulate_epochs
from askance_simulation.plots.epochs import series_picture
from askance_simulation.populations import Population

USERS, EPOCHS = 60, 3
NAT = 10**9
SCHEMA = Schema("answers", 1, answer=Category(("yes", "no")))


def labels(users: int, epochs: int, seed: int) -> list[NDArray[np.int64]]:
    """Draw labels, 0 is yes, of which a tenth change in every epoch."""
    draws = np.random.default_rng(seed)
    found = [draws.integers(0, 2, users, np.int64)]
    for _ in range(1, epochs):
        found.append(np.where(draws.random(users) < 0.1, 1 - found[-1], found[-1]))
    return found


def people_of(answers: list[NDArray[np.int64]]) -> Callable[[int], Population]:
    def people(epoch: int) -> Population:
        values = answers[epoch]

        def columns(start: int, stop: int) -> EncodedColumns:
            present = np.ones(stop - start, np.bool_)
            return EncodedColumns({"answer": values[start:stop]}, {"answer": present}, stop - start)

        return Population("drifting answers", SCHEMA, len(values), columns)

    return people


def study_of(epsilon: str) -> Study:
    return Study(frequency(SCHEMA.answer), SCHEMA, epsilon=epsilon)


@pytest.fixture(scope="module")
def series() -> EpochSeries:
    return simulate_epochs(
        study_of("1"), people_of(labels(USERS, EPOCHS, 1)), every_days=7, epochs=EPOCHS, seed=5
    )


def test_every_epoch_is_answered_anew_and_charged(series: EpochSeries) -> None:
    assert [epoch.outcome.answers for epoch in series.epochs] == [USERS] * EPOCHS
    assert [epoch.outcome.reused for epoch in series.epochs] == [0] * EPOCHS
    assert all(epoch.outcome.reconciled for epoch in series.epochs)
    for ledger in series.ledgers.values():
        entries = list(ledger.history())
        assert [entry.at_s // 86_400 for entry in entries] == [epoch.day for epoch in series.epochs]
        assert len({entry.nano_nats for entry in entries}) == 1
        assert EPOCHS * NAT * 0.99 < sum(entry.nano_nats for entry in entries) <= EPOCHS * NAT
    assert series.max_spent <= EPOCHS * NAT


def test_an_epoch_has_its_own_transcript_and_requests_under_one_study(series: EpochSeries) -> None:
    headers = [
        event
        for epoch in series.epochs
        for event in epoch.transcript.recorded
        if isinstance(event, Header)
    ]
    assert len({epoch.outcome.transcript for epoch in series.epochs}) == EPOCHS
    assert [header.epoch for header in headers] == list(series.repeat.indices)
    assert len({header.study_digest for header in headers}) == 1


def test_the_same_seed_is_the_same_series(series: EpochSeries) -> None:
    people = people_of(labels(USERS, EPOCHS, 1))
    again = simulate_epochs(study_of("1"), people, every_days=7, epochs=EPOCHS, seed=5)
    assert again.to_json() == series.to_json()
    other = simulate_epochs(study_of("1"), people, every_days=7, epochs=EPOCHS, seed=6)
    assert other.to_json() != series.to_json()


def test_a_change_of_all_records_is_seen_in_the_next_epoch() -> None:
    """The estimate of an epoch follows its records; at epsilon 8 almost without noise."""
    answers = [np.full(USERS, label, np.int64) for label in (0, 1, 0)]
    found = simulate_epochs(study_of("8"), people_of(answers), every_days=7, epochs=3, seed=1)
    shares = [next(row.shown for row in epoch.rows if row.name == "yes") for epoch in found.epochs]
    assert shares[0] > 0.9
    assert shares[1] < 0.1
    assert shares[2] > 0.9
    for epoch, share in zip(found.epochs, (1, 0, 1), strict=True):
        (row,) = [row for row in epoch.rows if row.name == "yes"]
        assert row.low <= share <= row.high


def test_intervals_are_joint_over_all_epochs(series: EpochSeries) -> None:
    """Those of a study of one epoch, at the same seed, are narrower by the union bound."""
    people = people_of(labels(USERS, EPOCHS, 1))
    alone = simulate_epochs(study_of("1"), people, every_days=7, epochs=1, seed=5)
    three = [row.high - row.low for epoch in series.epochs for row in epoch.rows]
    one = [row.high - row.low for row in alone.epochs[0].rows]
    assert min(three) > max(one)


def test_an_owners_window_ends_the_answers_of_an_epoch() -> None:
    policy = Policy(
        frozenset(), 100 * NAT, refresh_days=7, window_nano_nats=2 * NAT, window_days=21
    )
    found = simulate_epochs(
        study_of("1"),
        people_of(labels(USERS, 4, 1)),
        every_days=7,
        epochs=4,
        policy=policy,
    )
    assert [epoch.outcome.answers for epoch in found.epochs] == [USERS, USERS, 0, USERS]
    assert found.epochs[2].outcome.refusals == USERS
    assert found.max_spent <= 3 * NAT


def test_owners_who_never_refresh_answer_no_epoch() -> None:
    people = people_of(labels(USERS, 2, 1))
    policy = Policy(frozenset(), 100 * NAT)
    found = simulate_epochs(study_of("1"), people, every_days=7, epochs=2, policy=policy)
    assert [epoch.outcome.refusals for epoch in found.epochs] == [USERS, USERS]
    assert found.max_spent == 0


def test_users_are_the_same_in_every_epoch() -> None:
    sizes = [people_of(labels(size, 2, 1)) for size in (USERS, USERS + 1)]
    with pytest.raises(InvalidParameter, match="expected the 60 users of the first epoch, got 61"):
        simulate_epochs(study_of("1"), lambda n: sizes[n](n), every_days=7, epochs=2)


def test_no_interval_of_an_epoch_is_drawn_over_another(series: EpochSeries) -> None:
    axes = series_picture(series.series).figure.axes[0]
    bars = [collection for collection in axes.collections if isinstance(collection, LineCollection)]
    across = [segment[0][0] for bar in bars for segment in bar.get_segments()]
    assert len(bars) > 1
    assert len(across) == len(bars) * len(series.epochs)
    assert len(set(across)) == len(across)
    assert axes.get_title(loc="left").startswith("frequency of ")
    assert ", 3 of 3 epochs, " in axes.get_title(loc="left")


def test_a_series_states_what_its_readers_learn_as_a_served_one_does() -> None:
    """300 answers per epoch hide a user, at two epochs for less than twice one."""
    study = Study(frequency(SCHEMA.answer), SCHEMA, epsilon="1", least_answers=200)
    found = simulate_epochs(study, people_of(labels(300, 2, 4)), every_days=7, epochs=2, seed=3)
    shown = found.to_json()
    first, second = shown["epochs"]
    one, two = (epoch["outer_so_far"]["epsilon"] for epoch in (first, second))
    assert 0 < first["outer"]["epsilon"] < one < two < 2 * one < 2
    assert first["outer_so_far"]["results"] == 1
    both = {"results": 2, "answers": 300, "delta": 1e-6, "liars": 0.01}
    assert both.items() <= shown["outer_so_far"].items() == second["outer_so_far"].items()
    signed = shown["outer_signed"]
    assert (signed["results"], signed["answers"]) == (2, 200)
    assert two <= signed["epsilon"] < 2
    text = series_report(found.series, every=False).guarantees
    assert text.startswith("Towards readers of all 2 results of this study so far, whatever ends")


def test_the_series_is_drawn_over_time(series: EpochSeries, tmp_path: Path) -> None:
    path = tmp_path / "series.svg"
    series.plot(path)
    drawn = path.read_text()
    assert "joint over all 3 epochs" in drawn
    assert "2026-01-01" in drawn
    again = tmp_path / "again.svg"
    replace(series).plot(again)
    assert again.read_text() == drawn
