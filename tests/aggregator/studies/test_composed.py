"""Composition of a study's charges: per cohort, by what was asked."""

from __future__ import annotations

from fractions import Fraction

import pytest

from askance_aggregator.composition import EventCounts, Pure, Sum, ZeroConcentrated
from askance_aggregator.studies import MemoryLog, Transcript, charges_asked, composed
from askance_aggregator.studies.transcript import Asked, AskedGroup, Header

DELTA = Fraction(1, 10**6)
HEADER = Header(b"s" * 32, "any", 1, 100, b"cohorts", Fraction(1, 100), Fraction(19, 20))
TENTH, ONE = 10**8, 10**9


def transcript(*rounds: tuple[tuple[int, int, int], ...]) -> Transcript:
    """Rounds of groups (start, stop, nano-nats)."""
    recorded = Transcript(MemoryLog())
    recorded.append(HEADER)
    for number, groups in enumerate(rounds):
        recorded.append(
            Asked(
                number,
                (b"question",),
                "split",
                tuple(AskedGroup(b"payload", 0, *group) for group in groups),
            )
        )
    return recorded


class TestCharges:
    def test_those_of_a_cohort_are_one_user_s(self) -> None:
        recorded = transcript(((0, 5, TENTH), (0, 5, TENTH), (5, 9, ONE)), ((9, 12, ONE),))
        found = charges_asked(recorded)
        assert len(found) == 2, "two cohorts were asked for the same"
        assert EventCounts({Pure(Fraction(1, 10)): 2}) in found
        assert EventCounts({Pure(Fraction(1)): 1}) in found

    def test_a_group_of_nobody_is_nobody_s(self) -> None:
        assert not charges_asked(transcript(((4, 4, ONE),)))


class TestComposition:
    def test_the_worst_user_counts_and_not_the_largest_sum(self) -> None:
        """200 tenths (7.77 by zCDP) are worse than 8 at once only if they are summed."""
        many = ((0, 5, TENTH),) * 200
        once = ((5, 6, 8 * ONE),)
        zcdp = ZeroConcentrated()
        assert composed(transcript(many), DELTA, zcdp) == pytest.approx(7.766, abs=1e-3)
        assert composed(transcript(many + once), DELTA, zcdp) == 8
        assert composed(transcript(many, once), DELTA, Sum()) == 20

    def test_nobody_asked_costs_nothing(self) -> None:
        assert composed(transcript(), DELTA, ZeroConcentrated()) == 0
