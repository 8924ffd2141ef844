"""Simulations of check-ins that wait for replicas.

`fifo_waits` is exact, event by event: customers with equal service times are served by c servers in
turn, so each server's waits follow Lindley's recursion, which is a running maximum. `simulate_day`
is a fluid in slots of one second, whose arrivals are drawn: work within a slot is served evenly, so
waits below a slot's length are not seen in it. `fifo_waits` has those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter

Floats = NDArray[np.float64]
SLOT_S = 1.0
_DELAYS_S = (1, 2, 4, 8, 16, 32, 64)  # bounds of the first waits before a retry, doubling


@dataclass(frozen=True, slots=True)
class DayOfWaits:
    """Waits of one day, by slots.

    Args:
      queue: check-ins that wait at the end of each slot.
      waits_s: the wait of a check-in that arrives in each slot.
      arrivals: check-ins that were admitted in each slot.
      turned_away: calls that were refused and tried again later, each refusal counted.
    """

    queue: Floats
    waits_s: Floats
    arrivals: Floats
    turned_away: float

    def percentile_s(self, share: float) -> float:
        """Return the wait that a share of admitted check-ins does not pass."""
        order = np.argsort(self.waits_s)
        reached = np.cumsum(self.arrivals[order])
        place = int(np.searchsorted(reached, share * reached[-1]))
        return float(self.waits_s[order][min(place, len(order) - 1)])


def fifo_waits(arrivals_s: Floats, service_s: float, servers: int) -> Floats:
    """Compute the wait of each customer before its service begins.

    Args:
      arrivals_s: times of arrival, ascending.
      service_s: of every customer; > 0.
      servers: number of servers, 1 or more; first come, first served.

    Raises:
      InvalidParameter: a number is out of range.

    Source: Lindley 1952; with equal service times customer n follows customer n - c.
    """
    if service_s <= 0 or servers < 1:
        raise InvalidParameter(
            f"queue: expected servers and a service time, got {servers} and {service_s:g} s"
        )
    count = len(arrivals_s)
    width = max(min(servers, count), 1)  # more servers would have no customers
    rows = -(-count // width)
    filled = np.zeros(rows * width)
    filled[:count] = arrivals_s
    own = filled.reshape(rows, width)  # one column per server; zeros after its last customer
    served = service_s * np.arange(rows)[:, np.newaxis]
    begins = served + np.maximum.accumulate(own - served, axis=0)
    waits: Floats = np.maximum(begins - own, 0.0)  # rounded, one may be below 0
    return waits.ravel()[:count]


def poisson_arrivals(rate: float, count: int, random: np.random.Generator) -> Floats:
    """Draw the times of a number of arrivals at a rate per second."""
    return np.cumsum(random.exponential(1.0 / rate, count))


def simulate_day(
    rate: Callable[[Floats], Floats],
    capacity: Callable[[Floats], Floats],
    *,
    queue_limit: float,
    slots: int,
    random: np.random.Generator,
) -> DayOfWaits:
    """Simulate check-ins over a day with retries of those that are turned away.

    A check-in that finds the queue full is tried again after a random wait of at most 1 s, then 2,
    4, up to 64 s, as devices do; it is never given up.

    Args:
      rate: arrivals per second at times in seconds from the day's begin.
      capacity: check-ins that all replicas serve per second at those times.
      queue_limit: check-ins that may wait at one time.
      slots: number of slots of 1 s.
      random: source of the arrivals.

    Returns:
      The waits of the day. Error: the draws of n arrivals vary by 1 / sqrt(n) of themselves; waits
      are the fluid's, so those below 1 s are understated.
    """
    times: Floats = np.arange(slots, dtype=np.float64) * np.float64(SLOT_S)
    fresh = random.poisson(rate(times) * SLOT_S).astype(np.float64)
    served = capacity(times) * SLOT_S
    pending = np.zeros((len(_DELAYS_S), slots + 2 * _DELAYS_S[-1]))
    queue, waits, admitted = np.zeros(slots), np.zeros(slots), np.zeros(slots)
    waiting = away = 0.0
    for slot in range(slots):
        coming = np.concatenate(([fresh[slot]], pending[:, slot]))
        total = float(coming.sum())
        room = max(queue_limit - waiting + served[slot], 0.0)
        taken = min(total, room)
        if total > taken:
            _try_again(pending, coming * (1 - taken / total), slot)
            away += total - taken
        waits[slot] = waiting / served[slot] * SLOT_S if served[slot] else SLOT_S
        waiting = max(waiting + taken - served[slot], 0.0)
        queue[slot], admitted[slot] = waiting, taken
    return DayOfWaits(queue, waits, admitted, away)


def _try_again(pending: Floats, refused: Floats, slot: int) -> None:
    """Spread refused calls over their waits, each a random time up to its bound."""
    last = len(_DELAYS_S) - 1
    for tries, calls in enumerate(refused):
        if calls > 0:
            step = min(tries, last)
            delay = _DELAYS_S[step]
            pending[step, slot + 1 : slot + 1 + delay] += calls / delay
