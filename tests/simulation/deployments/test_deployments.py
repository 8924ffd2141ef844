"""Deployments: queues against formulas, monotone in load, a replica down, and sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from askance_client.errors import InvalidParameter
from askance_simulation.deployments import (
    DayOfWaits,
    DeploymentLoad,
    fifo_waits,
    figures,
    parse_load,
    poisson_arrivals,
    report_of,
    simulate_day,
    size_of,
)

# Fixed seeds. At a load of .8 and 10^6 customers the mean wait's standard error is below 1 % of it
# (waits are dependent over some 1 / (1 - load)^2 customers), so 5 % is five of them.
COUNT, SERVICE_S, WITHIN = 1_000_000, 0.001, 0.05


def mean_wait(load: float, servers: int, seed: int = 1) -> float:
    random = np.random.default_rng(seed)
    arrivals = poisson_arrivals(load * servers / SERVICE_S, COUNT, random)
    return float(fifo_waits(arrivals, SERVICE_S, servers).mean())


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_server_waits_as_pollaczek_and_khinchine_say(load: float) -> None:
    """M/D/1: the mean wait is load / (2 (1 - load)) service times."""
    expected = load / (2 * (1 - load)) * SERVICE_S
    assert mean_wait(load, 1) == pytest.approx(expected, rel=WITHIN)


def test_waits_are_those_of_one_queue_served_in_order() -> None:
    """Compare with a loop over customers that takes the server that is free first."""
    random = np.random.default_rng(2)
    arrivals = poisson_arrivals(2.5 / SERVICE_S, 5_000, random)
    free = [0.0, 0.0, 0.0]
    slow = []
    for arrival in arrivals:
        first = min(range(3), key=free.__getitem__)
        begin = max(arrival, free[first])
        free[first] = begin + SERVICE_S
        slow.append(begin - arrival)
    assert fifo_waits(arrivals, SERVICE_S, 3) == pytest.approx(slow, abs=1e-9)


def test_more_servers_than_customers_let_nobody_wait() -> None:
    """A loop over so many servers would not end."""
    arrivals = poisson_arrivals(1e9, 1_000, np.random.default_rng(5))
    waits = fifo_waits(arrivals, SERVICE_S, 10**12)
    assert waits.shape == arrivals.shape
    assert not waits.any()
    assert not np.signbit(waits).any()
    assert fifo_waits(np.empty(0), SERVICE_S, 2).shape == (0,)


def test_no_wait_is_below_zero() -> None:
    """Times are rounded: (arrival - served) + served may be a little less than the arrival."""
    arrivals = poisson_arrivals(0.1 * 7 / SERVICE_S, 100_000, np.random.default_rng(6))
    waits = fifo_waits(arrivals, SERVICE_S, 7)
    assert waits.min() == 0
    assert not np.signbit(waits).any()


def test_more_load_waits_longer_and_more_servers_wait_less() -> None:
    assert mean_wait(0.3, 4) < mean_wait(0.6, 4) < mean_wait(0.9, 4)
    assert mean_wait(0.8, 8) < mean_wait(0.8, 4) < mean_wait(0.8, 1)


def day(rate: float, capacity: float, down: range = range(0), limit: float = 1e9) -> DayOfWaits:
    def served(times: np.ndarray) -> np.ndarray:
        return np.where((times >= down.start) & (times < down.stop), capacity / 2, capacity)

    return simulate_day(
        lambda times: np.full_like(times, rate),
        served,
        queue_limit=limit,
        slots=3_600,
        random=np.random.default_rng(3),
    )


def test_a_replica_down_lets_a_queue_grow_by_what_is_missing() -> None:
    """900 per second come and 500 are served for 100 s: 40,000 wait, for 400 s at 100 more."""
    found = day(900, 1_000, range(1_000, 1_100))
    assert found.queue.max() == pytest.approx(40_000, rel=WITHIN)
    assert int(found.queue.argmax()) == pytest.approx(1_099, abs=2)
    emptied = int(np.flatnonzero(found.queue[1_100:] < 1)[0])
    assert emptied == pytest.approx(400, rel=0.2)
    assert found.waits_s.max() == pytest.approx(80, rel=WITHIN)  # 40,000 at 500 per second
    assert day(900, 1_000).queue.max() < 1_000


def test_a_full_queue_turns_calls_away_that_come_again() -> None:
    found = day(900, 1_000, range(1_000, 1_100), limit=5_000)
    assert found.queue.max() <= 5_000 + 1e-6
    assert found.turned_away > 30_000
    assert found.arrivals.sum() == pytest.approx(900 * 3_600, rel=0.01)
    assert found.percentile_s(0.99) <= found.percentile_s(0.999) <= found.waits_s.max()


def test_a_size_follows_from_the_figures() -> None:
    load = parse_load("devices=1e8,checkins_per_day=4,reports=1")
    size = size_of(load)
    assert size.check_ins == pytest.approx(4e8 / 86_400)
    value = {name: one["value"] for name, one in figures().items()}
    busy = 3 * 4e8 / 86_400 * (value["check_in"] + value["report"] / 4)
    assert size.busy_cores == pytest.approx(busy)
    assert size.replicas == math.ceil(busy / 0.6) + 1
    assert size.wal_bytes == pytest.approx(1e8 / 86_400 * value["report_wal_bytes"])
    assert size.database_bytes == pytest.approx(
        1e8 * (value["device_bytes"] + 30 * value["report_bytes"])
    )


@pytest.mark.parametrize("name", ["devices", "checkins_per_day", "reports", "peak"])
def test_a_size_grows_with_each_load(name: str) -> None:
    given = {"devices": 1e9, "checkins_per_day": 4.0, "reports": 2.0, "peak": 2.0}
    less = size_of(DeploymentLoad(**given))
    more = size_of(DeploymentLoad(**{**given, name: 4 * given[name]}))
    assert more.busy_cores > less.busy_cores
    assert more.replicas > less.replicas


def test_every_figure_has_a_unit_and_a_source() -> None:
    for name, one in figures().items():
        assert one["value"] > 0, name
        assert one["unit"], name
        assert one["source"], name


def test_a_report_of_a_hundred_million_devices() -> None:
    load = DeploymentLoad(1e8)
    report = report_of(load, np.random.default_rng(4))
    content = report.to_json()
    # Draws aside, the burst of a minute adds a few times a mean minute.
    assert report.day.arrivals.sum() == pytest.approx(4e8, rel=0.01)
    assert 0 <= content["busiest_hour"]["mean_wait_s"] <= content["busiest_hour"]["p99_wait_s"] < 1
    fewer = report_of(DeploymentLoad(1e6), np.random.default_rng(4))
    assert fewer.size.replicas < report.size.replicas


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("checkins_per_day=4", "expected devices=NUMBER"),
        ("devices=many", "--deployment devices: expected a number, got 'many'"),
        ("device=3", r"did you mean devices\?"),
        ("devices=3,devices=4", "expected each name once, got devices twice"),
        ("devices", "--deployment: expected NAME=NUMBER, got 'devices'"),
        ("devices=0", "--deployment devices: expected 1 or more, got 0"),
        ("devices=5,peak=0.5", "--deployment peak: expected 1 or more, got 0.5"),
        ("devices=1e30", r"--deployment devices: expected at most 1e\+11, got 1e\+30"),
        ("devices=inf", r"--deployment devices: expected at most 1e\+11, got inf"),
        ("devices=nan", "--deployment devices: expected 1 or more, got nan"),
        ("devices=5,peak=25", "--deployment peak: expected at most 24, got 25"),
        ("devices=5,checkins_per_day=1e9", r"checkins_per_day: expected at most 86400, got 1e\+09"),
    ],
)
def test_a_load_that_cannot_be_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidParameter, match=complaint):
        parse_load(text)


def test_a_queue_without_servers_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="expected servers and a service time"):
        fifo_waits(np.array([1.0]), SERVICE_S, 0)
