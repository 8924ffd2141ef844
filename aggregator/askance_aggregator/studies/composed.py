"""Composition of a study's charges for its worst user, when the study states a delta."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from fractions import Fraction

from askance_aggregator.composition import Accountant, EventCounts, Pure
from askance_aggregator.studies.transcript import Asked, Transcript
from askance_client.accounting import NANO_NATS_PER_NAT


def charges_asked(transcript: Transcript) -> Collection[EventCounts]:
    """Return every distinct list of charges that the transcript asked of a user.

    A cohort's users are asked for the same, and no user is in two.
    """
    cohorts: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for event in transcript.recorded:
        if isinstance(event, Asked):
            for group in event.groups:
                if group.start < group.stop:
                    cohorts[group.start, group.stop][group.nano_nats] += 1
    distinct = {frozenset(charges.items()) for charges in cohorts.values()}
    return [
        EventCounts({Pure(Fraction(nano, NANO_NATS_PER_NAT)): count for nano, count in charges})
        for charges in distinct
    ]


def composed(transcript: Transcript, delta: Fraction, accountant: Accountant) -> float:
    """Return the epsilon for which every user's reports are (epsilon, delta)-locally DP.

    Privacy: by what was asked, whether it was answered or not. All charges of a user are on record
    before the first of them is asked for, so they are fixed by what others answered and not by what
    this one does: an accountant will do, a filter is not needed. Devices know nothing of it: their
    ledgers sum, and a sum is what they refuse by.

    Args:
      transcript: the record of the study.
      delta: 0 or more and below 1.
      accountant: composes the charges.

    Returns:
      Nats; 0 if no user was asked.
    """
    return max((accountant.epsilon(each, delta) for each in charges_asked(transcript)), default=0.0)
