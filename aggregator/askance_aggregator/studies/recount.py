"""Counts of a study's transcript checked against the stored reports.

Only who may see reports can do it: the leaf key and the reports are in the aggregator's store, and
both are deleted at one time. A reader of an export checks all else (`analyst.verification`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.encoding import read_terms
from askance_aggregator.store import Store
from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.cohorts import permutation_of
from askance_aggregator.studies.intake import Intake
from askance_aggregator.studies.recorded_rounds import recorded_round
from askance_aggregator.studies.rounds import Round
from askance_aggregator.studies.tallies import Tally
from askance_aggregator.studies.transcript import Asked, Closed, Header, Transcript
from askance_client.codec import digest_of
from askance_client.errors import AskanceError, StoreError
from askance_client.messages import AckStatus, SignedStudy


class CountsDiffer(AskanceError):
    """Counts or roots of a transcript that are not those of the stored reports."""


@dataclass(frozen=True, slots=True)
class Recount:
    """Outcome of a recount: nothing differed.

    Args:
      rounds: closed rounds that were counted again.
      answers: reports among them that are answers.
      salted: tallies whose root follows from the reports and the leaf key.
      unsalted: tallies of an earlier version, whose counts alone were compared.
    """

    rounds: int
    answers: int
    salted: int
    unsalted: int


def recount(store: Store, digest: bytes) -> Recount:
    """Count the closed rounds of a study again, from the stored reports.

    Raises:
      StoreError: there is no such study, or its reports were deleted.
      CountsDiffer: the first tally that is not that of its reports.
    """
    signed = store.study(digest)
    if signed is None:
        raise StoreError(f"study {digest.hex()[:16]}: expected a stored one, got none")
    kept = store.retention.of(digest)
    if kept is not None and kept.reports_deleted_unix_s is not None:
        raise StoreError(f"study {digest.hex()[:16]}: expected its reports, got deleted ones")
    repeat = read_terms(signed.study).repeat
    compared = [
        pair
        for epoch in ((0,) if repeat is None else repeat.indices)
        for pair in _rounds(store, signed, epoch)
    ]
    tallies = [tally for closed, _ in compared for tally in closed.tallies]
    for closed, counted in compared:
        for group, (recorded, found) in enumerate(zip(closed.tallies, counted, strict=True)):
            expected = found if recorded.salted else _without_root(found, recorded)
            if recorded != expected:
                raise CountsDiffer(
                    f"round {closed.round + 1}: group {group}: expected the counts and the root of"
                    f" {found.answered} stored answers, got those of {recorded.answered}"
                )
    return Recount(
        rounds=len(compared),
        answers=sum(tally.answered for tally in tallies),
        salted=sum(tally.salted for tally in tallies),
        unsalted=sum(not tally.salted for tally in tallies),
    )


def _without_root(found: Tally, recorded: Tally) -> Tally:
    return replace(found, root=recorded.root, salted=False)


def _rounds(
    store: Store, signed: SignedStudy, epoch: int
) -> Iterator[tuple[Closed, tuple[Tally, ...]]]:
    """Yield the closed rounds of a collection with the tallies of their stored reports."""
    digest = digest_of(signed.study)
    events = Transcript(store.log(digest, epoch)).recorded
    if not events or not isinstance(header := events[0], Header):
        return
    leaf_key = store.leaf_key(digest) or bytes(32)  # of an earlier version: no root is compared
    users = store.register.fixed_users(digest, epoch)
    permutation = permutation_of(header.cohort_seed, header.population, users)
    asked = {event.round: event for event in events if isinstance(event, Asked)}
    for event in events:
        if isinstance(event, Closed):
            round_ = recorded_round(signed, header, asked[event.round], permutation, leaf_key)
            yield event, _tallies(store, round_, header, users)


def _tallies(
    store: Store, round_: Round, header: Header, users: NDArray[np.int64] | None
) -> tuple[Tally, ...]:
    """Count a round's stored reports."""
    budget = read_terms(round_.study.study).budget_nano_nats
    accounts = Accounts(header.population, budget)
    for group in round_.groups:
        accounts.reserve(group.cohort, group.nano_nats)
    intake = Intake(round_, accounts)
    for group in round_.groups:
        for ordinal, data in store.reports(group.digest):
            checked = intake.check((data,))
            place = None if isinstance(checked, AckStatus) else intake.place(checked, ordinal)
            if isinstance(checked, AckStatus) or place is None:
                raise CountsDiffer(
                    f"round {round_.number + 1}: expected reports to its requests by the users"
                    " that it asked, got one of no such user or symbol"
                )
            intake.add(checked, place)
    return intake.tallies()
